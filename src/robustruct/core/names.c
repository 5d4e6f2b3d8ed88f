/* Names (UTF-8 bytes) and their numbers: one table with open addressing.
 *
 * Numbers count names in the order in which they were first given. The bytes of all names lie one
 * after the other, as in a model file; slots hold part of the hash, so that most names that differ
 * are told apart without looking at them. */
#include "names.h"

typedef struct {
    uint32_t tag;
    int32_t number; /* -1: free */
} Slot;

struct Names {
    uint64_t seed;
    Slot *slots;
    Index mask; /* one less than the number of slots, a power of 2 */
    uint8_t *bytes;
    Index *offsets; /* name i is bytes offsets[i] .. offsets[i+1]-1 */
    Index n, room, room_bytes;
};

INLINE uint64_t word_at(const uint8_t *from, size_t size)
{
    uint64_t word = 0;
    memcpy(&word, from, size);
    return word;
}

/* Multiply and fold, sixteen bytes at a time (as wyhash does). */
static uint64_t hash_of(uint64_t seed, const uint8_t *name, Index length)
{
    uint64_t hash = seed ^ (uint64_t)length;
    Index left = length;
    for (; left > 16; left -= 16, name += 16)
        hash = mixed(word_at(name, 8) ^ seed, word_at(name + 8, 8) ^ hash);
    uint64_t a = 0, b = 0;
    if (left >= 8) {
        a = word_at(name, 8);
        b = word_at(name + left - 8, 8);
    } else if (left >= 4) {
        a = word_at(name, 4);
        b = word_at(name + left - 4, 4);
    } else if (left > 0) {
        a = (uint64_t)name[0] << 16 | (uint64_t)name[left / 2] << 8 | name[left - 1];
    }
    return mixed(a ^ seed ^ 0x9E3779B97F4A7C15u, mixed(b ^ hash, seed | 1));
}

INLINE uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> 32); }

/* Make the array of slots twice as large; the hashes are computed again. */
static bool more_slots(Names *names)
{
    const Index mask = 2 * names->mask + 1;
    Slot *slots = NEW(Slot, mask + 1);
    if (!slots) return false;
    for (Index i = 0; i <= mask; i++) slots[i] = (Slot){0, -1};
    for (Index j = 0; j < names->n; j++) {
        const Index at = names->offsets[j];
        const uint64_t hash = hash_of(names->seed, names->bytes + at, names->offsets[j + 1] - at);
        Index i = (Index)hash & mask;
        while (slots[i].number >= 0) i = (i + 1) & mask;
        slots[i] = (Slot){tag_of(hash), (int32_t)j};
    }
    free(names->slots);
    names->slots = slots;
    names->mask = mask;
    return true;
}

/* Room for one more name of this length. */
static bool make_room(Names *names, Index length)
{
    if (2 * names->n > names->mask && !more_slots(names)) return false;
    if (names->n == names->room) {
        if (names->n >= INT32_MAX - 1) return false;
        const Index room = 2 * names->room;
        Index *offsets = realloc(names->offsets, (size_t)(room + 1) * sizeof *offsets);
        if (!offsets) return false;
        names->offsets = offsets;
        names->room = room;
    }
    const Index needed = names->offsets[names->n] + length;
    if (needed > names->room_bytes) {
        const Index room = max_index(2 * names->room_bytes, needed);
        uint8_t *bytes = realloc(names->bytes, (size_t)room);
        if (!bytes) return false;
        names->bytes = bytes;
        names->room_bytes = room;
    }
    return true;
}

static int32_t number_by_hash(Names *names, uint64_t hash, const uint8_t *name, Index length,
                              bool grow)
{
    const uint32_t tag = tag_of(hash);
    Index i = (Index)hash & names->mask;
    for (; names->slots[i].number >= 0; i = (i + 1) & names->mask) {
        if (names->slots[i].tag != tag) continue;
        const int32_t j = names->slots[i].number;
        const Index at = names->offsets[j];
        if (names->offsets[j + 1] - at == length &&
            memcmp(names->bytes + at, name, (size_t)length) == 0)
            return j;
    }
    if (!grow) return -1;
    const Index mask = names->mask;
    if (!make_room(names, length)) return NO_NUMBER;
    if (names->mask != mask) return number_by_hash(names, hash, name, length, true);
    const Index j = names->n++, at = names->offsets[j];
    memcpy(names->bytes + at, name, (size_t)length);
    names->offsets[j + 1] = at + length;
    names->slots[i] = (Slot){tag, (int32_t)j};
    return (int32_t)j;
}

int32_t number_of(Names *names, const uint8_t *name, Index length, bool grow)
{
    return number_by_hash(names, hash_of(names->seed, name, length), name, length, grow);
}

uint64_t seed_of(const Names *names) { return names->seed; }

API Index names_free(Index handle)
{
    Names *names = names_at(handle);
    free(names->slots);
    free(names->bytes);
    free(names->offsets);
    free(names);
    return 0;
}

/* A table without names, to be freed by names_free. */
API Index names_new(Index seed)
{
    Names *names = calloc(1, sizeof *names);
    if (!names) return NO_MEMORY;
    *names = (Names){.seed = (uint64_t)seed, .mask = 127, .room = 64, .room_bytes = 1024};
    names->slots = NEW(Slot, names->mask + 1);
    names->offsets = NEW(Index, names->room + 1);
    names->bytes = NEW(uint8_t, names->room_bytes);
    if (!names->slots || !names->offsets || !names->bytes) {
        names_free((Index)(intptr_t)names);
        return NO_MEMORY;
    }
    for (Index i = 0; i <= names->mask; i++) names->slots[i] = (Slot){0, -1};
    names->offsets[0] = 0;
    return (Index)(intptr_t)names;
}

API Index names_count(Index handle) { return names_at(handle)->n; }

API Index names_size(Index handle) { return names_at(handle)->offsets[names_at(handle)->n]; }

/* Copy out the bytes of all names, and where each begins (n + 1). */
API Index names_copy(Index handle, uint8_t *bytes, Index *offsets)
{
    const Names *names = names_at(handle);
    memcpy(bytes, names->bytes, (size_t)names->offsets[names->n]);
    memcpy(offsets, names->offsets, (size_t)(names->n + 1) * sizeof *offsets);
    return 0;
}

/* Some names that are looked up together: a table beyond the caches is waited for, so the slots of
 * all of them are asked for before the first is looked at. */
enum { TOGETHER = 16 };

typedef struct {
    const uint8_t *begins[TOGETHER];
    Index lengths[TOGETHER];
    Index count;
} Some;

static bool number_some(Names *names, const Some *some, bool grow, int32_t *numbers)
{
    uint64_t hashes[TOGETHER];
    for (Index j = 0; j < some->count; j++) {
        hashes[j] = hash_of(names->seed, some->begins[j], some->lengths[j]);
        __builtin_prefetch(names->slots + ((Index)hashes[j] & names->mask));
    }
    for (Index j = 0; j < some->count; j++) {
        numbers[j] = number_by_hash(names, hashes[j], some->begins[j], some->lengths[j], grow);
        if (numbers[j] == NO_NUMBER) return false;
    }
    return true;
}

/* The numbers of n names with a separator between them. */
API Index names_joined(Index handle, const uint8_t *text, Index size, Index separator, Index n,
                       bool grow, int32_t *numbers)
{
    const uint8_t *at = text, *end = text + size;
    for (Index first = 0; first < n; first += TOGETHER) {
        Some some = {.count = min_index(TOGETHER, n - first)};
        for (Index j = 0; j < some.count; j++) {
            const uint8_t *stop = memchr(at, (int)separator, (size_t)(end - at));
            if (!stop) stop = end;
            some.begins[j] = at;
            some.lengths[j] = stop - at;
            at = stop < end ? stop + 1 : end;
        }
        if (!number_some(names_at(handle), &some, grow, numbers + first)) return NO_MEMORY;
    }
    return 0;
}

/* The numbers of the names ``which`` (n) of those that begin at ``offsets`` of the text. */
API Index names_packed(Index handle, const uint8_t *text, const Index *offsets, Index n,
                       const Index *which, bool grow, int32_t *numbers)
{
    for (Index first = 0; first < n; first += TOGETHER) {
        Some some = {.count = min_index(TOGETHER, n - first)};
        for (Index j = 0; j < some.count; j++) {
            const Index i = which[first + j];
            some.begins[j] = text + offsets[i];
            some.lengths[j] = offsets[i + 1] - offsets[i];
        }
        if (!number_some(names_at(handle), &some, grow, numbers + first)) return NO_MEMORY;
    }
    return 0;
}

/* The numbers of n names "key:value", or "key" where the value is no text. The text of the values has
 * a separator between them. */
API Index names_pairs(Index handle, const uint8_t *keys, const Index *key_offsets,
                      const int32_t *key_of, const bool *has_text, Index n, const uint8_t *values,
                      Index size, Index separator, bool grow, int32_t *numbers)
{
    const uint8_t *at = values, *end = values + size;
    Buffer buffer = {NEW(uint8_t, 1024), 0, 1024};
    bool enough = buffer.bytes != NULL;
    for (Index i = 0; enough && i < n; i++) {
        const Index key = key_offsets[key_of[i]];
        buffer.size = 0;
        enough = append(&buffer, keys + key, key_offsets[key_of[i] + 1] - key);
        if (has_text[i]) {
            const uint8_t *stop = memchr(at, (int)separator, (size_t)(end - at));
            if (!stop) stop = end;
            enough = enough && append(&buffer, (const uint8_t *)":", 1) &&
                     append(&buffer, at, stop - at);
            at = stop < end ? stop + 1 : end;
        }
        if (!enough) break;
        numbers[i] = number_of(names_at(handle), buffer.bytes, buffer.size, grow);
        enough = numbers[i] != NO_NUMBER;
    }
    free(buffer.bytes);
    return enough ? 0 : NO_MEMORY;
}

/* The different codes among n in the order in which they come first; return how many they are.
 * There are ``size`` codes; ``order`` has room for all of them. */
API Index first_seen(Index n, const int32_t *codes, Index size, Index *order)
{
    bool *seen = calloc((size_t)size + 1, sizeof *seen);
    if (!seen) return NO_MEMORY;
    Index count = 0;
    for (Index i = 0; i < n; i++) {
        if (seen[codes[i]]) continue;
        seen[codes[i]] = true;
        order[count++] = codes[i];
    }
    free(seen);
    return count;
}
