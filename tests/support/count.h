/* count.h - how much a test tries: as much as continuous integration has time for, or what an environment variable says. */
#ifndef HYP_TESTS_COUNT_H
#define HYP_TESTS_COUNT_H

#include <stdlib.h>

static inline uint64_t test_count(const char *variable, uint64_t usual)
{
    const char *text = getenv(variable);
    uint64_t count = text ? strtoull(text, NULL, 10) : 0;
    return count ? count : usual;
}

#endif
