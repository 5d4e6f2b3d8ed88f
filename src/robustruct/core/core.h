/* Types, memory and macros that every file of the core includes. */
#ifndef CORE_H
#define CORE_H
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t Index;

#if defined(_WIN32)
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* Functions that Python calls return a count or 0, or this. */
#define NO_MEMORY (-1)

/* Sizes that ctypes sees (structs.h). */
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " differs from structs.py");

#include "structs.h"

INLINE Index min_index(Index a, Index b) { return a < b ? a : b; }
INLINE Index max_index(Index a, Index b) { return a > b ? a : b; }

/* Maximum and minimum that return a where b is NaN. */
INLINE double max_double(double a, double b) { return b > a ? b : a; }
INLINE double min_double(double a, double b) { return b < a ? b : a; }

/* Memory for n numbers of size bytes each, never NULL for n = 0; NULL if there is none. */
INLINE void *allocate(Index n, size_t size)
{
    if (n < 0 || (uint64_t)n > (uint64_t)PTRDIFF_MAX / size) return NULL;
    return malloc(n > 0 ? (size_t)n * size : 1);
}
#define NEW(type, n) ((type *)allocate((n), sizeof(type)))

#endif
