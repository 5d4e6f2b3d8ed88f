/* Rows over labels of type REAL, padded to ``width``, a multiple of eight numbers, so that loops over
 * labels are whole vectors. A file defines REAL, float or double, before it includes this. */
#ifndef ROWS_H
#define ROWS_H
#include "core.h"

#if defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef REAL Lanes __attribute__((vector_size(VECTOR_BYTES)));
enum { STEP = VECTOR_BYTES / sizeof(REAL) };
typedef int32_t Words __attribute__((vector_size(4 * VECTOR_BYTES / sizeof(REAL))));

INLINE Lanes get(const REAL *from)
{
    Lanes v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void put(REAL *to, Lanes v) { memcpy(to, &v, sizeof v); }

INLINE Lanes all(REAL x) { return x - (Lanes){0}; }

/* a where the mask is set, b elsewhere; masks are results of comparisons. */
#define PICK(mask, a, b) ((Lanes)(((__typeof__(mask))(a) & (mask)) | ((__typeof__(mask))(b) & ~(mask))))

/* Maximum, lane by lane; b where one is NaN. */
#if defined(__AVX__)
#include <immintrin.h>
#define MAX_OF(a, b)                                       \
    _Generic((REAL)0, float: _mm256_max_ps((__m256)(a), (__m256)(b)), \
             double: _mm256_max_pd((__m256d)(a), (__m256d)(b)))
INLINE Lanes top_of(Lanes a, Lanes b) { return (Lanes)MAX_OF(a, b); }
#else
INLINE Lanes top_of(Lanes a, Lanes b) { return PICK(a > b, a, b); }
#endif

/* Sum and maximum over lanes, in a fixed order. */
INLINE REAL total(Lanes v)
{
    REAL sum = 0;
    UNROLL for (int i = 0; i < STEP; i++) sum += v[i];
    return sum;
}

INLINE REAL greatest(Lanes v)
{
    REAL top = v[0];
    UNROLL for (int i = 1; i < STEP; i++) top = v[i] > top ? v[i] : top;
    return top;
}

/* a / b where b is above 0, and 0 elsewhere. */
INLINE Lanes ratios(Lanes a, Lanes b) { return PICK(b > 0, a / b, all(0)); }

/* exp of numbers <= 0: relative error about 2e-7 in float and 3e-14 in double; 0 below -86 and -700.
 *
 * exp(x) = 2^n exp(x - n log 2), with log 2 in two parts, of which multiples of the first are exact,
 * and the series of exp for what is left, |x| <= log(2) / 2. */
#define IS_SINGLE (sizeof(REAL) == 4)
INLINE Lanes exponentials(Lanes a)
{
    const REAL high = IS_SINGLE ? (REAL)0.693359375 : (REAL)0.693145751953125;
    const REAL low = IS_SINGLE ? (REAL)-2.12194440e-4 : (REAL)1.42860682030941723212e-6;
    const REAL least = IS_SINGLE ? (REAL)-86 : (REAL)-700;
    static const double inverse_factorial[14] = {
        1.0,           1.0,           1.0 / 2,        1.0 / 6,         1.0 / 24,
        1.0 / 120,     1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
        1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    const int terms = IS_SINGLE ? 8 : 14;
    Lanes x = top_of(a, all(least));
    const Lanes power = x * (REAL)1.4426950408889634 + (REAL)0.5;
    Words n = __builtin_convertvector(power, Words); /* towards 0, so one too many below 0 */
    Lanes doublings = __builtin_convertvector(n, Lanes);
    const Lanes less = PICK(doublings > power, all(1), all(0));
    doublings -= less;
    n = __builtin_convertvector(doublings, Words);
    x = x - doublings * high;
    x = x - doublings * low;
    Lanes series = all((REAL)inverse_factorial[terms - 1]);
    UNROLL for (int i = terms - 2; i >= 0; i--) series = series * x + (REAL)inverse_factorial[i];
#if REAL_IS_DOUBLE
    typedef int64_t Wide __attribute__((vector_size(VECTOR_BYTES)));
    const Wide scale = (__builtin_convertvector(n, Wide) + 1023) << 52;
#else
    const Words scale = (n + 127) << 23;
#endif
    return PICK(a < least, all(0), series * (Lanes)scale);
}

/* A body for up to four registers of a row: body(constant number, first label, ...). */
#define FOR_ROW(width, body, ...)                               \
    for (Index y_ = 0; y_ < (width); y_ += 4 * STEP) {          \
        const Index left_ = ((width)-y_) / STEP;                \
        if (left_ >= 4)                                         \
            body(4, y_, __VA_ARGS__);                           \
        else if (left_ == 3)                                    \
            body(3, y_, __VA_ARGS__);                           \
        else if (left_ == 2)                                    \
            body(2, y_, __VA_ARGS__);                           \
        else                                                    \
            body(1, y_, __VA_ARGS__);                           \
    }

INLINE void times_block(int R, Index y, Index width, const REAL *factors, Index stride,
                        const REAL *rows, Index count, REAL *out)
{
    Lanes even[4], odd[4]; /* two chains of additions hide the latency of each */
    UNROLL for (int r = 0; r < R; r++) even[r] = odd[r] = all(0);
    const REAL *row = rows + y;
    Index x = 0;
    for (; x + 2 <= count; x += 2, row += 2 * width) {
        const REAL one = factors[x * stride], two = factors[(x + 1) * stride];
        UNROLL for (int r = 0; r < R; r++) even[r] += one * get(row + r * STEP);
        UNROLL for (int r = 0; r < R; r++) odd[r] += two * get(row + width + r * STEP);
    }
    if (x < count)
        UNROLL for (int r = 0; r < R; r++) even[r] += factors[x * stride] * get(row + r * STEP);
    UNROLL for (int r = 0; r < R; r++) put(out + y + r * STEP, even[r] + odd[r]);
}

/* out = sum over x < count of factors[x stride] rows[x]. */
static inline void times_rows(Index width, const REAL *factors, Index stride, const REAL *rows,
                              Index count, REAL *out)
{
    FOR_ROW(width, times_block, width, factors, stride, rows, count, out)
}

/* Sum of a[y] b[y] over a row, or over several that lie side by side. */
INLINE REAL dot(Index length, const REAL *a, const REAL *b)
{
    Lanes sum = all(0);
    for (Index y = 0; y < length; y += STEP) sum += get(a + y) * get(b + y);
    return total(sum);
}

INLINE REAL row_sum(Index length, const REAL *a)
{
    Lanes sum = all(0);
    for (Index y = 0; y < length; y += STEP) sum += get(a + y);
    return total(sum);
}

INLINE REAL row_top(Index length, const REAL *a)
{
    Lanes top = get(a);
    for (Index y = STEP; y < length; y += STEP) top = top_of(get(a + y), top);
    return greatest(top);
}
#endif
