/* tuner.h - what tuning does on every device: a list of what there is to measure, each key once, what is known of it
 * already, the time that is left for each, and whether a run gains by what was found. How something is measured is the
 * device's.
 */
#ifndef HYP_RUNTIME_CORE_TUNER_H
#define HYP_RUNTIME_CORE_TUNER_H

#include "runtime/core/choice.h"

typedef struct hyp_tuner_job {
    const char *key; /* in the tuner's arena */
    uint32_t item;   /* the device's own: the step, say */
    size_t uses;     /* how many the plan has with this key */
    double work;     /* of one of them, in a unit of the device's; for hyp_tuner_largest_first */
} hyp_tuner_job;

typedef struct hyp_tuner hyp_tuner;
struct hyp_tuner {
    hyp_tuning *known; /* of the session; what is found is added */
    const hyp_tune_options *options;
    /* Measures a job until about `deadline` and tells hyp_tuner_decide, or not if nothing can be compared. */
    hyp_status (*measure)(hyp_tuner *t, const hyp_tuner_job *job, double deadline, hyp_diag *diag);
    /* Times whole runs with and without what was found, in turns, into the report, and says whether those with it are faster. */
    hyp_status (*race_runs)(hyp_tuner *t, bool *out_faster, hyp_diag *diag);
    /* The tuner's own, zero in the beginning. */
    double end; /* by the clock */
    HYP_VEC(hyp_tuner_job) jobs;
    hyp_arena arena;
    hyp_tuning firsts; /* what an untuned plan does, of what was replaced */
    hyp_tune_report report;
};

/* A job, whose key is copied, or more uses of the one with this key; 0 uses = what only parts of others are made of. */
HYP_NODISCARD hyp_status hyp_tuner_add(hyp_tuner *t, hyp_tuner_job job, hyp_diag *diag);
/* Puts the jobs that there are in order: the most work in all uses comes first. */
void hyp_tuner_largest_first(hyp_tuner *t);
/* Does all jobs in the order in which they are. */
HYP_NODISCARD hyp_status hyp_tuner_run(hyp_tuner *t, hyp_diag *diag);
void hyp_tuner_dispose(hyp_tuner *t);

/* Keeps which alternative is the fastest, where another than the `first`, which an untuned plan takes, is so by 2 % or
 * more. seconds: by alternative, INFINITY where it does not count. */
HYP_NODISCARD hyp_status hyp_tuner_decide(hyp_tuner *t, const hyp_choice *c, size_t first, const double *seconds,
                                          hyp_diag *diag);
/* The two parts of that: the fastest, which is `base` where no other is faster by 2 % or more; and to keep it. */
size_t hyp_tuner_fastest(const hyp_choice *c, size_t base, const double *seconds);
HYP_NODISCARD hyp_status hyp_tuner_keep(hyp_tuner *t, const hyp_choice *c, size_t best, size_t first,
                                        const double *seconds, hyp_diag *diag);
/* Whether one alternative is faster than another by more than what else runs beside makes of it: samples were taken in turns, and it
 * is faster in four of five of these turns at least, and at the median turn takes less than `most` times as long. */
bool hyp_tuner_wins(const double *samples, const double *others, size_t turns, double most);
/* The median of some times, which are sorted. */
double hyp_tuner_median(double *samples, size_t count);
/* Whether results are the same but for rounding: |a - b| <= tolerance (|b| + the root of the mean square of b). */
bool hyp_tuner_agrees(hyp_dtype dtype, const void *got, const void *want, size_t count, double tolerance);
/* How far results of the same product may lie apart, for the rounding of its type and other orders of summation. */
double hyp_tuner_tolerance(hyp_dtype dtype);

#endif
