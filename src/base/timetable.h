/* timetable.h - which tasks wait for which others, on which of several streams each of them goes so that those that do
 * not wait for each other run side by side, and what all of that takes. Pure functions; no device is needed. The
 * compiler predicts with it what a plan takes that the runtime will run by it.
 *
 * Two tasks must stay in their order when one writes a byte that the other reads or writes; values that live one after
 * the other may share memory, so addresses count. Tasks are put on streams by list scheduling, each where it can begin
 * first: in the order in which they are listed, or those with the longest way to the end first (Topcuoglu, Hariri and Wu
 * 2002, HEFT, for alike processors), where that is predicted to take less.
 *
 * Tasks at once slow each other down: each takes 1 + the shares of the others times as long as alone. A share is
 * measured (hypatiac --calibrate: kernels of a kind on one stream and on several), stands in profiles and travels in
 * plans, as does what it costs to go on on another stream, so that the compiler and the runtime play the same schedule.
 * docs/runtime-cuda.md, "Side by side", has how near that is.
 */
#ifndef HYP_BASE_TIMETABLE_H
#define HYP_BASE_TIMETABLE_H

#include "base/mem.h"
#include "hypatia/status.h"

enum { HYP_STREAMS = 8, HYP_USUAL_STREAMS = 4 }; /* at most; where nobody asks for more */
/* Numbers of streams that a plan chooses among, if nobody says how many there are to be. */
enum { HYP_STREAM_WAYS = 3 };
extern const uint32_t hyp_stream_ways[HYP_STREAM_WAYS];
/* Most tasks that are put on several streams: dependencies are looked for between every two. */
enum { HYP_TIMETABLE_TASKS = 2048 };
/* More streams are for what then takes at most so much of the time on fewer: predictions are not good enough to tell
 * less apart, and every stream costs something. */
#define HYP_STREAMS_MUST_GAIN 0.97

/* Bytes that a task reads or writes. */
typedef struct hyp_span {
    uint64_t begin, end;
    bool written;
} hyp_span;

/* What those tasks touch that have to stay in their order, whatever else they do. */
#define HYP_SPAN_IN_ORDER ((hyp_span){UINT64_MAX - 1, UINT64_MAX, true})

typedef struct hyp_task {
    const hyp_span *spans; /* borrowed */
    size_t span_count;
    const uint32_t *waits; /* borrowed: tasks before it that it waits for, besides those that touch what it touches */
    size_t wait_count;
    double seconds;  /* that it takes by itself; finite */
    double share;    /* of the device, that it takes from others while it runs; finite, not negative */
    uint32_t branch; /* out: its stream; tasks of one stream run in their order in the schedule */
    /* Out: by stream, the task + 1 that has to end before this one begins; 0 = none. */
    uint32_t after[HYP_STREAMS];
    bool awaited;                /* out: it is in some other task's `after`, or in the schedule's `last` */
    uint32_t place;              /* out: in the schedule's order, from 1 on */
    uint32_t known[HYP_STREAMS]; /* out: by stream, the place up to which its tasks have ended when this one begins */
} hyp_task;

/* Whether a task has always ended when another one begins. */
static inline bool hyp_task_ends_before(const hyp_task *a, const hyp_task *b)
{
    return b->known[a->branch] >= a->place;
}

/* `order` is the caller's, of as many as there are tasks. */
typedef struct hyp_timetable {
    uint32_t *order;                /* the tasks, every one behind those that it waits for */
    uint32_t branches;              /* streams that have a task; the first ones */
    uint32_t last[HYP_STREAMS];     /* by stream but for the first: task + 1 with whose end all has ended; 0 = none */
    double serial_seconds, seconds; /* one after the other, and side by side */
} hyp_timetable;

/* Puts tasks, which are listed in an order that is right, on up to `streams` streams. The same tasks give the same
 * schedule. hop_seconds: what goes on on another stream begins so much later. HYP_ERR_NO_MEMORY. */
HYP_NODISCARD hyp_status hyp_timetable_make(hyp_task *tasks, uint32_t count, uint32_t streams, double hop_seconds,
                                            hyp_timetable *out, hyp_diag *diag);
/* What tasks take on `streams` streams or on fewer of hyp_stream_ways, on more only where HYP_STREAMS_MUST_GAIN is
 * gained; *out_streams is how many those are. HYP_ERR_NO_MEMORY. */
HYP_NODISCARD hyp_status hyp_timetable_predict(hyp_task *tasks, uint32_t count, uint32_t streams, double hop_seconds,
                                               double *out_seconds, uint32_t *out_streams, hyp_diag *diag);

#endif
