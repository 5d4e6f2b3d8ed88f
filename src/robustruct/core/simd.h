/* Several numbers in a vector register, by the vector extensions of GCC and clang.
 *
 * The width follows the target: GCC takes wider vectors apart, many times slower. Loops over labels
 * go by whole registers, of which the last overlaps the one before where the number of labels is no
 * multiple; so they need at least LANES labels. */
#ifndef SIMD_H
#define SIMD_H
#include "core.h"
#if defined(__AVX__)
#include <immintrin.h>
#define LANES 4
#else
#define LANES 2
#endif

typedef double Vec __attribute__((vector_size(8 * LANES)));
typedef int64_t Mask __attribute__((vector_size(8 * LANES)));

INLINE Vec load(const double *from)
{
    Vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store(double *to, Vec v) { memcpy(to, &v, sizeof v); }

/* Broadcast one number; gather numbers a stride apart; 0, 1, 2, ... */
#if LANES == 4
INLINE Vec broadcast(double x) { return (Vec){x, x, x, x}; }
INLINE Vec load_apart(const double *from, Index stride)
{
    return (Vec){from[0], from[stride], from[2 * stride], from[3 * stride]};
}
#define COUNTING ((Vec){0, 1, 2, 3})
#else
INLINE Vec broadcast(double x) { return (Vec){x, x}; }
INLINE Vec load_apart(const double *from, Index stride) { return (Vec){from[0], from[stride]}; }
#define COUNTING ((Vec){0, 1})
#endif

/* a where the mask is set, b elsewhere. */
INLINE Vec choose(Mask mask, Vec a, Vec b) { return (Vec)(((Mask)a & mask) | ((Mask)b & ~mask)); }

/* Maximum, lane by lane; GCC does not find the instruction in a choice by masks. */
#if defined(__AVX__)
INLINE Vec maximum(Vec a, Vec b) { return _mm256_max_pd(a, b); }
INLINE Vec minimum(Vec a, Vec b) { return _mm256_min_pd(a, b); }
#elif defined(__SSE2__)
#include <emmintrin.h>
INLINE Vec maximum(Vec a, Vec b) { return _mm_max_pd(a, b); }
INLINE Vec minimum(Vec a, Vec b) { return _mm_min_pd(a, b); }
#else
INLINE Vec maximum(Vec a, Vec b) { return choose(a > b, a, b); }
INLINE Vec minimum(Vec a, Vec b) { return choose(a < b, a, b); }
#endif

/* One bit for each number of a mask. */
INLINE unsigned bits(Mask mask)
{
#if defined(__AVX__)
    return (unsigned)_mm256_movemask_pd((Vec)mask);
#else
    return (unsigned)((mask[0] & 1) | (mask[1] & 2));
#endif
}

/* The largest number of a vector. */
INLINE double top_of(Vec v)
{
    double top = v[0];
    UNROLL for (int j = 1; j < LANES; j++) top = v[j] > top ? v[j] : top;
    return top;
}

/* A function with R is compiled for each number of registers that a row over labels takes, 0 for
 * fewer labels than one holds and for many: then rows are what FOR_LABELS or plain loops take. */
#define MOST_REGISTERS 6
#define EACH(r) UNROLL for (int r = 0; r < R; r++)
#define PLACE(r) ((r) < R - 1 ? LANES * (r) : k - LANES)
#define SPECIALISED(function, k, ...)                                                  \
    switch ((k) < LANES || (k) > MOST_REGISTERS * LANES ? 0 : ((k) + LANES - 1) / LANES) { \
    case 1: return function(1, k, __VA_ARGS__);                                        \
    case 2: return function(2, k, __VA_ARGS__);                                        \
    case 3: return function(3, k, __VA_ARGS__);                                        \
    case 4: return function(4, k, __VA_ARGS__);                                        \
    case 5: return function(5, k, __VA_ARGS__);                                        \
    case 6: return function(6, k, __VA_ARGS__);                                        \
    default: return function(0, k, __VA_ARGS__);                                       \
    }

/* Call body(constant number of registers, first label) for stretches of up to four registers that
 * cover k >= LANES labels. The body is inlined for each number, so its registers stay registers. */
#define FOR_LABELS(k, body, ...)                                                       \
    for (Index first_ = 0; first_ < (k); first_ += 4 * LANES) {                        \
        const Index left_ = (k)-first_;                                                \
        if (left_ > 3 * LANES)                                                         \
            body(4, first_, k, __VA_ARGS__);                                           \
        else if (left_ > 2 * LANES)                                                    \
            body(3, first_, k, __VA_ARGS__);                                           \
        else if (left_ > LANES)                                                        \
            body(2, first_, k, __VA_ARGS__);                                           \
        else                                                                           \
            body(1, first_, k, __VA_ARGS__);                                           \
    }

/* Where register r of a stretch that begins at ``first`` lies. */
INLINE Index place(Index first, int r, Index k) { return min_index(first + r * LANES, k - LANES); }
#endif
