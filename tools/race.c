#include "race.h"

#include <string.h>

#include "timing.h"

#define MARGIN 0.98 /* as in tuning */

static double median_of(const double *rounds, int count)
{
    double sorted[RACE_ROUNDS];
    memcpy(sorted, rounds, (size_t)count * sizeof *sorted); /* who wins is counted round by round */
    return timing_median(sorted, (size_t)count);
}

static bool is_faster(const racer *r, const racer *than, int rounds)
{
    int wins = 0;
    for (int i = 0; i < rounds; i++) wins += r->rounds[i] < than->rounds[i];
    return wins >= rounds - 1 && r->median < MARGIN * than->median;
}

/* Changed parts have won before, so the whole that they make, which comes first, need not be faster than the predicted
 * one, but may not be slower. All others have to be faster than what is predicted. */
size_t race_winner(racer *all, size_t count, size_t predicted, int rounds)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].in) all[i].median = median_of(all[i].rounds, rounds);
    size_t first = all[predicted].in && all[predicted].median < all[0].median ? predicted : 0, best = first;
    for (size_t i = 0; i < count; i++)
        if (all[i].in && is_faster(&all[i], &all[first], rounds) && all[i].median < all[best].median) best = i;
    return best;
}
