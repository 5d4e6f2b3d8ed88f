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

#if LANES == 4
INLINE Vec broadcast(double x) { return (Vec){x, x, x, x}; }
#else
INLINE Vec broadcast(double x) { return (Vec){x, x}; }
#endif

/* a where the mask is set, b elsewhere. */
INLINE Vec choose(Mask mask, Vec a, Vec b) { return (Vec)(((Mask)a & mask) | ((Mask)b & ~mask)); }

/* a > b ? a : b, number by number; GCC does not see the instruction in a choice by masks. */
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
