/* race.h - which of some forms of a graph was the fastest, by what several rounds of each took.
 */
#ifndef HYPATIA_TOOLS_RACE_H
#define HYPATIA_TOOLS_RACE_H

#include <stdbool.h>
#include <stddef.h>

enum { RACE_ROUNDS = 31 /* at most */ };

typedef struct racer {
    bool in;                    /* it was timed */
    double rounds[RACE_ROUNDS]; /* seconds of a run in each round */
    double median;              /* of the rounds; set by race_winner */
} racer;
/* The place of the one to take, after `rounds` rounds: the `predicted` one (the first one, which was timed, where that was
 * not), unless another is faster than it beyond what chance does: in four of five rounds, and in the median of their ratios by
 * 2 %, or, the first one, whose parts have won before, by half a percent. Of several such the fastest is taken. */
size_t race_winner(racer *all, size_t count, size_t predicted, int rounds);

#endif
