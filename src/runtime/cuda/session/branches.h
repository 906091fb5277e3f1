/* branches.h - the ops of one set of shapes on several streams of a graph, ours or the caller's: steps that do not wait for
 * each other run side by side, where that is predicted or measured to be faster.
 *
 * The first stream is the session's, the others are forked from it and joined to it by events. Each has a workspace of its
 * own. Ops that belong to one step stay together and in their order.
 */
#ifndef HYP_RUNTIME_CUDA_SESSION_BRANCHES_H
#define HYP_RUNTIME_CUDA_SESSION_BRANCHES_H

#include "base/timetable.h"
#include "runtime/core/choice.h"
#include "runtime/cuda/driver/library.h"

/* How many streams a graph may have: HYPATIA_CUDA_STREAMS, where it is set, is taken as it is. */
#define HYP_CUDA_STREAMS_VARIABLE "HYPATIA_CUDA_STREAMS"

/* What a session has for it; zeroed = nothing. */
typedef struct hyp_cuda_branch_streams {
    uint32_t wanted; /* streams at most; 0 = as many as pay */
    CUstream more[HYP_STREAMS - 1];
    HYP_VEC(CUevent) events; /* the first is where a run begins; ends of units that others wait for */
    CUdeviceptr memory;      /* workspaces of these streams */
    size_t bytes;
} hyp_cuda_branch_streams;

/* Ops that stay together, from one step or from several that are done together. */
typedef struct hyp_cuda_unit {
    size_t first, end; /* ops */
    uint32_t first_step, last_step;
    size_t workspace, room; /* bytes */
    size_t room_at;         /* in scratch memory */
    uint32_t event;         /* of its end, if it is awaited; from 1 on */
} hyp_cuda_unit;

typedef struct hyp_cuda_branches {
    hyp_cuda_unit *units; /* NULL: the ops run one after the other */
    hyp_task *tasks;      /* by unit */
    uint32_t count, events;
    hyp_timetable schedule;
    size_t workspace_at[HYP_STREAMS], workspace_bytes[HYP_STREAMS]; /* by stream but for the first, in `memory` */
    hyp_choice choice; /* of how many streams there are, as it stands before tuning */
} hyp_cuda_branches;

struct hyp_cuda_build;
struct hyp_cuda_session;
struct hyp_cuda_prepared;

/* Reads HYPATIA_CUDA_STREAMS. HYP_ERR_INVALID_ARGUMENT when it is no number of streams. */
HYP_NODISCARD hyp_status hyp_cuda_branches_wanted(uint32_t *out, hyp_diag *diag);
/* Decides when all ops are there, and takes memory, streams and events; without enough of them the ops run one after
 * the other, which is no failure. */
HYP_NODISCARD hyp_status hyp_cuda_plan_branches(struct hyp_cuda_build *b);
/* Whether the ops may run side by side with the inputs and outputs of this run: outputs lie apart from all others. */
bool hyp_cuda_branches_fit(const struct hyp_cuda_session *s, const struct hyp_cuda_prepared *p);
void hyp_cuda_branches_dispose(hyp_cuda_branch_streams *l, const hyp_cuda_library *lib);

#endif
