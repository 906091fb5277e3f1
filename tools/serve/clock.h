/* clock.h - nanoseconds of a clock that nobody sets. */
#ifndef HYPATIA_SERVE_CLOCK_H
#define HYPATIA_SERVE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#endif
