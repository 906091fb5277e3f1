/* schedule.h - the learning rate as a function of the step. */
#ifndef HYPATIA_TOOLS_SCHEDULE_H
#define HYPATIA_TOOLS_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum schedule_kind { SCHEDULE_CONSTANT = 0, SCHEDULE_STEP, SCHEDULE_COSINE, SCHEDULE_LINEAR } schedule_kind;

typedef struct schedule {
    schedule_kind kind;
    double rate;    /* the highest one */
    double last;    /* COSINE and LINEAR: what it comes down to */
    double factor;  /* STEP: times this ... */
    int64_t every;  /* ... after each so many steps */
    int64_t warmup; /* steps in which the rate comes up */
    int64_t total;  /* steps of the whole training: COSINE and LINEAR end there */
} schedule;

/* "constant", "step:EVERY:FACTOR", "cosine", "cosine:LAST", "linear" or "linear:LAST"; the rate, the warm-up and the
 * total are set apart. False: it is none of these. */
bool schedule_parse(schedule *s, const char *text);
/* Text that says all of it, the same for the same schedule. */
void schedule_print(const schedule *s, char *out, size_t size);

/* Of step 0, 1, ...: in the warm-up rate * (step + 1) / (warmup + 1); then, with t = step - warmup and n = total -
 * warmup, CONSTANT the rate, STEP rate * factor^floor(t / every), COSINE last + (rate - last) (1 + cos(pi t / n)) / 2,
 * LINEAR rate + (last - rate) t / n; from step `total` on COSINE and LINEAR give `last`. */
double schedule_rate(const schedule *s, int64_t step);

#endif
