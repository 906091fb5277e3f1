/* replay.h - the ops of one set of shapes as CUDA graphs, each launched as one.
 *
 * A graph holds the addresses that it was captured with, so it serves runs whose inputs and outputs lie where they lay
 * then. Some sets of buffers have a graph, for callers who take turns between buffers; as many more are remembered, and
 * get the graph of another set, changed in place, when they come again and that did not come meanwhile. So buffers that
 * take turns among many leave those with graphs their graphs, and none is made anew for every run.
 *
 * Graphs are made while shapes are reserved, or when a set of buffers comes a second time. They are captured for it on
 * a stream of ours. Host tensors may lie anywhere: copies from and to the caller's memory stay outside, while those of packed
 * tensors (staging.h) are in the graph. What cannot be captured runs op by op, and is tried again later.
 *
 * A run with a commit needs a graph for that in any case (run.c), so that buffers get one when they come first, if there is
 * one to change.
 */
#ifndef HYP_RUNTIME_CUDA_SESSION_REPLAY_H
#define HYP_RUNTIME_CUDA_SESSION_REPLAY_H

#include "runtime/cuda/driver/library.h"

struct hyp_cuda_session;
struct hyp_cuda_prepared;

enum { HYP_CUDA_REPLAYS = 4 }; /* graphs of one set of shapes */

typedef struct hyp_cuda_replay {
    CUdeviceptr *key;  /* addresses of the inputs, the outputs, the scratch memory, the rooms, and of packed tensors; whether
                        * variables are left alone */
    CUgraphExec graph; /* NULL: none */
    uint64_t used;     /* larger = more recently; 0: never */
} hyp_cuda_replay;

typedef struct hyp_cuda_replays {
    hyp_cuda_replay kept[2 * HYP_CUDA_REPLAYS];
    CUgraphExec spare[HYP_CUDA_REPLAYS]; /* that no buffers have yet */
    bool spare_leaves[HYP_CUDA_REPLAYS]; /* it does without the commit, which makes it another graph */
    size_t key_length, spares, graphs;   /* graphs: all, spare ones among them; HYP_CUDA_REPLAYS at most */
    uint64_t runs;
    uint64_t pause, next; /* after a failure no graph is made before run `next`; twice as long after each. UINT64_MAX:
                           * none ever */
} hyp_cuda_replays;

/* Room for the keys of a plan with so many inputs and outputs, in `arena`. */
HYP_NODISCARD hyp_status hyp_cuda_replays_init(hyp_cuda_replays *r, size_t edges, hyp_arena *arena, hyp_diag *diag);
void hyp_cuda_replays_dispose(hyp_cuda_replays *r, const hyp_cuda_library *lib);

/* Queues the ops of `p` as a graph when there is one for the buffers of this run, or when it is time for one.
 * *out_done is false when nothing was queued: then the ops are to be run one by one. The addresses of inputs and
 * outputs in s->at must be set. */
HYP_NODISCARD hyp_status hyp_cuda_replay_run(struct hyp_cuda_session *s, struct hyp_cuda_prepared *p, bool *out_done,
                                             hyp_diag *diag);
/* Makes all graphs that runs with tensors on the device can come to want, as in hyp_backend: these are then changed in
 * place, which takes no memory of the device. */
HYP_NODISCARD hyp_status hyp_cuda_reserve(void *session, void *prepared, hyp_diag *diag);

#endif
