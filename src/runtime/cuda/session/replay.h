/* replay.h - the ops of one set of shapes as CUDA graphs: captured when the same buffers come a second time, and launched
 * as one from then on.
 *
 * A graph holds the addresses that it was captured with, so it serves runs whose inputs and outputs lie where they lay
 * then; a few graphs are kept for callers who take turns between buffers. Host tensors may lie anywhere: copies from and
 * to the caller's memory stay outside, while those of packed tensors (staging.h) are in the graph. What cannot be captured (because the caller captures the stream himself, say) runs
 * op by op as before.
 */
#ifndef HYP_RUNTIME_CUDA_SESSION_REPLAY_H
#define HYP_RUNTIME_CUDA_SESSION_REPLAY_H

#include "runtime/cuda/driver/library.h"

struct hyp_cuda_session;
struct hyp_cuda_prepared;

enum { HYP_CUDA_REPLAYS = 4 };

typedef struct hyp_cuda_replay {
    CUdeviceptr *key;  /* addresses of the inputs, the outputs, the scratch memory, the rooms, and of packed tensors */
    CUgraphExec graph; /* NULL: not captured */
    uint64_t used;     /* larger = more recently; 0: never */
} hyp_cuda_replay;

typedef struct hyp_cuda_replays {
    hyp_cuda_replay kept[HYP_CUDA_REPLAYS];
    size_t key_length;
    uint64_t runs;
    bool refused; /* capturing failed, and is not tried again */
} hyp_cuda_replays;

/* Room for the keys of a plan with so many inputs and outputs, in `arena`. */
HYP_NODISCARD hyp_status hyp_cuda_replays_init(hyp_cuda_replays *r, size_t edges, hyp_arena *arena, hyp_diag *diag);
void hyp_cuda_replays_dispose(hyp_cuda_replays *r, const hyp_cuda_library *lib);

/* Queues the ops of `p` as a graph when there is one for the buffers of this run, or when it is time to capture it.
 * *out_done is false when nothing was queued: then the ops are to be run one by one. The addresses of inputs and
 * outputs in s->at must be set. */
HYP_NODISCARD hyp_status hyp_cuda_replay_run(struct hyp_cuda_session *s, struct hyp_cuda_prepared *p, bool *out_done,
                                             hyp_diag *diag);

#endif
