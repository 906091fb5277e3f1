#include "paired.h"

#include <math.h>
#include <stdlib.h>

#include "cli.h"
#include "timing.h"

#define NORMAL 2.5758293035489 /* the quantile of the normal distribution for PAIRED_CONFIDENCE, two-sided */

paired_ratio paired_compare(const double *first, const double *second, size_t rounds)
{
    size_t count = 0;
    double n = (double)rounds, logs[PAIRED_MOST], *means = cli_alloc(NULL, rounds * (rounds + 1) / 2, sizeof *means);
    for (size_t i = 0; i < rounds; i++) {
        logs[i] = log(second[i] / first[i]);
        for (size_t k = 0; k <= i; k++) means[count++] = (logs[i] + logs[k]) / 2; /* Walsh averages */
    }
    timing_sort(means, count);
    double middle = (means[(count - 1) / 2] + means[count / 2]) / 2;
    double cut = floor(n * (n + 1) / 4 - NORMAL * sqrt(n * (n + 1) * (2 * n + 1) / 24));
    size_t left_out = cut >= 1 ? (size_t)cut - 1 : 0; /* averages beyond either end of the interval */
    paired_ratio r = {.estimate = exp(middle), .low = exp(means[left_out]), .high = exp(means[count - 1 - left_out])};
    r.verdict = r.high < 1 ? -1 : r.low > 1 ? 1 : 0;
    free(means);
    return r;
}
