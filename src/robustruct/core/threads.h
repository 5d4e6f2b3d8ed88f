/* Counters that threads share, with release and acquire order: what a thread writes before it sets a
 * counter is visible to a thread that has read it. */
#ifndef THREADS_H
#define THREADS_H
#include "core.h"
#if !defined(_WIN32)
#include <sched.h>
#endif

#define SPINS 1000 /* some microseconds; waking a thread that sleeps takes tens to hundreds */

INLINE Index read_counter(const Index *counter) { return __atomic_load_n(counter, __ATOMIC_ACQUIRE); }

INLINE void write_counter(Index *counter, Index value)
{
    __atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

INLINE void count_one(Index *counter) { __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL); }

/* Add 1 to a counter that is less than the limit; return what it was, or -1. */
INLINE Index take_below(Index *counter, Index limit)
{
    Index at = read_counter(counter);
    while (at < limit)
        if (__atomic_compare_exchange_n(counter, &at, at + 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return at;
    return -1;
}

/* Return when a counter is at least ``value``. */
static inline void wait_for(const Index *counter, Index value)
{
    for (Index spins = 0; read_counter(counter) < value; spins++) {
#if !defined(_WIN32)
        if (spins > SPINS) sched_yield(); /* let others run */
#endif
    }
}
#endif
