/* Names and their numbers, for files that make names. */
#ifndef NAMES_H
#define NAMES_H
#include "core.h"

typedef struct Names Names;

/* The number of a name; a new one gets the next if ``grow``, else -1. NO_NUMBER without memory. */
int32_t number_of(Names *names, const uint8_t *name, Index length, bool grow);
#define NO_NUMBER (-2)

/* What hashes start from: drawn at random, so that nobody can write names that collide. */
uint64_t seed_of(const Names *names);

/* Addresses pass through Python as numbers. */
INLINE Names *names_at(Index handle) { return (Names *)(intptr_t)handle; }

/* Both halves of a product, folded. */
INLINE uint64_t mixed(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Bytes that a name is put together from. */
typedef struct {
    uint8_t *bytes;
    Index size, room;
} Buffer;

INLINE bool append(Buffer *buffer, const uint8_t *bytes, Index size)
{
    if (buffer->size + size > buffer->room) {
        const Index room = 2 * (buffer->size + size);
        uint8_t *larger = realloc(buffer->bytes, (size_t)room);
        if (!larger) return false;
        buffer->bytes = larger;
        buffer->room = room;
    }
    memcpy(buffer->bytes + buffer->size, bytes, (size_t)size);
    buffer->size += size;
    return true;
}
#endif
