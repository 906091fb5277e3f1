#include "timing.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

double timing_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void timing_sort(double *values, size_t count) { qsort(values, count, sizeof *values, by_value); }

double timing_median(double *values, size_t count)
{
    timing_sort(values, count);
    return values[count / 2];
}

double timing_percentile(const double *sorted, size_t count, double p)
{
    double rank = ceil(p / 100 * (double)count);
    size_t i = rank < 1 ? 0 : (size_t)rank - 1;
    return sorted[i < count ? i : count - 1];
}
