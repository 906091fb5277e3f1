/* timing.h - what the tools share that measure: the clock and order statistics. */
#ifndef HYPATIA_TOOLS_TIMING_H
#define HYPATIA_TOOLS_TIMING_H

#include <stddef.h>

double timing_now(void); /* seconds since some moment */
void timing_sort(double *values, size_t count);
/* Sorts the values; the upper of the two in the middle of an even number. count > 0. */
double timing_median(double *values, size_t count);
/* The value of the nearest rank, p in per cent. count > 0. */
double timing_percentile(const double *sorted, size_t count, double p);

#endif
