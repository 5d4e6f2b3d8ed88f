/* Counters that threads share, with release and acquire order: what a thread writes before it sets a
 * counter is visible to a thread that has read it. */
#ifndef COUNTERS_H
#define COUNTERS_H
#include "core.h"
#include <stdatomic.h>
#if defined(__unix__) || defined(__APPLE__)
#include <sched.h>
#define GIVE_WAY() sched_yield()
#else
#define GIVE_WAY() ((void)0)
#endif

#define SPINS 1000 /* some microseconds; waking a thread that sleeps takes tens to hundreds */

typedef _Atomic Index Counter;

INLINE Index read_counter(Counter *counter)
{
    return atomic_load_explicit(counter, memory_order_acquire);
}

INLINE void write_counter(Counter *counter, Index value)
{
    atomic_store_explicit(counter, value, memory_order_release);
}

INLINE void add_one(Counter *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_acq_rel);
}

/* Add 1 if the counter is less than ``limit``; return what it was, or -1. */
INLINE Index take_below(Counter *counter, Index limit)
{
    Index at = read_counter(counter);
    while (at < limit)
        if (atomic_compare_exchange_weak_explicit(counter, &at, at + 1, memory_order_acq_rel,
                                                  memory_order_acquire))
            return at;
    return -1;
}

/* Wait until the counter is at least ``value``. */
INLINE void wait_for(Counter *counter, Index value)
{
    for (Index spins = 0; read_counter(counter) < value; spins++)
        if (spins > SPINS) GIVE_WAY();
}
#endif
