/* Version of the library and abilities of the processor, which library.py asks for first. */
#include "core.h"

/* Whether the processor, and the system on it, run code for x86-64-v3. */
#if defined(__x86_64__)
#include <cpuid.h>

#define BITS(value, mask) (((value) & (mask)) == (mask))
#define FMA_OSXSAVE_AVX (1u << 12 | 1u << 27 | 1u << 28) /* leaf 1, ecx */
#define BMI_AVX2_BMI2 (1u << 3 | 1u << 5 | 1u << 8)      /* leaf 7, ebx */

API Index has_v3(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !BITS(c, FMA_OSXSAVE_AVX)) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !BITS(b, BMI_AVX2_BMI2)) return 0;
    unsigned low, high; /* whether the system saves the wide registers of a thread */
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return BITS(low, 6u);
}
#else
API Index has_v3(void) { return 0; }
#endif

/* The version of robustruct that the library was compiled for. */
API const char *core_version(void) { return CORE_VERSION; }
