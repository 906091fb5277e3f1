#include "race.h"

#include <string.h>

#include "timing.h"

#define MARGIN 0.98       /* as in tuning */
#define WHOLE_MARGIN 0.995 /* of a whole of parts that have won: as of runs in tuning */

static double median_of(const double *rounds, int count)
{
    double sorted[RACE_ROUNDS];
    memcpy(sorted, rounds, (size_t)count * sizeof *sorted); /* who wins is counted round by round */
    return timing_median(sorted, (size_t)count);
}

/* By the ratios of the rounds: what slows the machine for longer than a round slows both. */
static bool is_faster(const racer *r, const racer *than, int rounds, double margin)
{
    double ratios[RACE_ROUNDS];
    int wins = 0;
    for (int i = 0; i < rounds; i++) {
        wins += r->rounds[i] < than->rounds[i];
        ratios[i] = r->rounds[i] / than->rounds[i];
    }
    return 5 * wins >= 4 * rounds && timing_median(ratios, (size_t)rounds) < margin;
}

size_t race_winner(racer *all, size_t count, size_t predicted, int rounds)
{
    size_t best = predicted;
    for (size_t i = 0; i < count; i++)
        if (all[i].in) all[i].median = median_of(all[i].rounds, rounds);
    if (!all[best].in) best = 0;
    for (size_t i = 0, first = best; i < count; i++) {
        double margin = i == 0 ? WHOLE_MARGIN : MARGIN;
        if (i != first && all[i].in && is_faster(&all[i], &all[first], rounds, margin) &&
            (best == first || is_faster(&all[i], &all[best], rounds, 1)))
            best = i;
    }
    return best;
}
