/* schedule.h - which parts of a run wait for which others, and on which of several streams each of them goes, so that
 * those that do not wait for each other run side by side. Pure functions; no device is needed.
 *
 * Two parts must stay in their order when one writes a byte that the other reads or writes. Values that live one after
 * the other share memory, so addresses count. Parts are put on streams by list scheduling: those with the longest way
 * to the end first, each where it can begin first (Topcuoglu, Hariri and Wu 2002, HEFT, for alike processors).
 */
#ifndef HYP_RUNTIME_CUDA_SESSION_SCHEDULE_H
#define HYP_RUNTIME_CUDA_SESSION_SCHEDULE_H

#include "base/mem.h"
#include "hypatia/status.h"

enum { HYP_CUDA_BRANCHES = 8, HYP_CUDA_USUAL_BRANCHES = 4 }; /* streams, at most; where nobody asks for more */

/* Bytes that a part reads or writes. */
typedef struct hyp_cuda_span {
    uint64_t begin, end;
    bool written;
} hyp_cuda_span;

typedef struct hyp_cuda_task {
    const hyp_cuda_span *spans; /* borrowed */
    size_t span_count;
    double seconds;  /* that it takes by itself */
    double full;     /* that it would take if nothing but the rates of the whole device bounded it; at most `seconds` */
    uint32_t branch; /* out: its stream; tasks of one stream run in their order in the schedule */
    /* Out: by stream, the task + 1 that has to end before this one begins; 0 = none. */
    uint32_t after[HYP_CUDA_BRANCHES];
    bool awaited;   /* out: it is in some other task's `after`, or in the schedule's `last` */
    uint32_t place; /* out: in the schedule's order, from 1 on */
    uint32_t
        known[HYP_CUDA_BRANCHES]; /* out: by stream, the place up to which its tasks have ended when this one begins */
} hyp_cuda_task;

/* Whether a task has always ended when another one begins. */
static inline bool hyp_cuda_ends_before(const hyp_cuda_task *a, const hyp_cuda_task *b)
{
    return b->known[a->branch] >= a->place;
}

/* `order` is the caller's, of as many as there are tasks. */
typedef struct hyp_cuda_schedule {
    uint32_t *order;                  /* the tasks, every one behind those that it waits for */
    uint32_t branches;                /* streams that have a task; the first ones */
    uint32_t last[HYP_CUDA_BRANCHES]; /* by stream but for the first: task + 1 with whose end all has ended; 0 = none */
    /* One after the other, and side by side, as far as the whole device has room for it: the sum of `full` bounds that
     * from below. */
    double serial_seconds, seconds;
} hyp_cuda_schedule;

/* Puts tasks, which are listed in an order that is right, on up to `branches` streams. A task whose stream changes
 * counts as so much later. The same tasks give the same schedule. HYP_ERR_NO_MEMORY. */
HYP_NODISCARD hyp_status hyp_cuda_make_schedule(hyp_cuda_task *tasks, uint32_t count, uint32_t branches,
                                                double hop_seconds, hyp_cuda_schedule *out, hyp_diag *diag);

#endif
