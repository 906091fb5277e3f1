/* race.h - which of some forms of a graph was the fastest, by what several rounds of each took.
 */
#ifndef HYPATIA_TOOLS_RACE_H
#define HYPATIA_TOOLS_RACE_H

#include <stdbool.h>
#include <stddef.h>

enum { RACE_ROUNDS = 9 /* at most */ };

typedef struct racer {
    bool in;                    /* it was timed */
    double rounds[RACE_ROUNDS]; /* seconds of a run in each round */
    double median;              /* of the rounds; set by race_winner */
} racer;
/* The place of the one to take, after `rounds` rounds. The first one, which was timed, is the one to beat, or the
 * `predicted` one where that has the lesser median: another form has to be faster beyond what chance does, in the
 * median by 2 % and in all rounds but one. Of several such the fastest is taken. */
size_t race_winner(racer *all, size_t count, size_t predicted, int rounds);

#endif
