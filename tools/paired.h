/* paired.h - whether one thing takes longer than another, from what both took in the same rounds.
 *
 * The Hodges-Lehmann estimate of the shift between paired values and its confidence interval by Wilcoxon's signed-rank
 * statistic, with the normal approximation of its distribution (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods,
 * sections 3.1 to 3.3). It asks nothing of how times are distributed but that differences within rounds are as often above as
 * below their middle, and a few rounds in which the machine did something else do not move it.
 */
#ifndef HYPATIA_TOOLS_PAIRED_H
#define HYPATIA_TOOLS_PAIRED_H

#include <stddef.h>

enum { PAIRED_FEWEST = 10 /* below, the approximation is none */, PAIRED_MOST = 128, PAIRED_CONFIDENCE = 99 /* % */ };

/* Ratios, second to first. */
typedef struct paired_ratio {
    double estimate, low, high; /* the interval holds the true one with PAIRED_CONFIDENCE */
    int verdict;                /* -1: the second takes less; 1: more; 0: the interval has 1 in it, no difference was seen */
} paired_ratio;

/* Of times above 0, by round: PAIRED_FEWEST to PAIRED_MOST of them. */
paired_ratio paired_compare(const double *first, const double *second, size_t rounds);

#endif
