/* staging.h - the inputs and outputs of a run that it cannot use where they lie: those in host memory, and those on the
 * device that do not start at a multiple of HYP_CUDA_MIN_ALIGN, or are smaller than the run's. They have copies in
 * staging memory on the device.
 *
 * Between host and device they pass through page-locked memory of the context, which the device reads and writes by
 * itself while the host goes on:
 *
 *   - Small tensors lie one behind the other, so that all inputs are one transfer, and all outputs. Both are launches
 * of our kernel for copies, and a part of the graph that is replayed.
 *   - Large ones go in pieces through a ring, so that one piece is copied by the host while others are under way; very
 *     large ones by several threads, each through a place of the ring. Where the caller's memory is page-locked, they
 * go from or to that.
 *
 * Where there is no page-locked memory to be had, the driver copies from and to the caller's memory as it can.
 */
#ifndef HYP_RUNTIME_CUDA_SESSION_STAGING_H
#define HYP_RUNTIME_CUDA_SESSION_STAGING_H

#include "runtime/core/backend.h"
#include "runtime/cuda/driver/library.h"
#include "runtime/cuda/session/copy_threads.h"

struct hyp_cuda_session;
struct hyp_cuda_prepared;

/* Small tensors are packed: up to this size a transfer of its own, by the device's engine for copies, takes longer (some
 * 10 us until kernels go on after it; measured on an H200) than what packing keeps from overlapping: 5 us for 256 KB.
 * Pieces of 512 KB take 10 us on the bus: much more than the call that sends them, and little beside a tensor of some MB,
 * whose first or last piece overlaps with nothing. */
enum { HYP_CUDA_SMALL = 256 << 10, HYP_CUDA_PIECE = 512 << 10, HYP_CUDA_RING = 1 + HYP_TEAM_HELPERS /* pieces */ };

/* Of what size on helpers are woken, which takes some 50 us: one thread copies 15 GB/s, the bus transfers 50. */
enum { HYP_CUDA_SHARED = 4 << 20 };

/* Addresses of the caller's tensors that are remembered: those of 64 buffers or so that take turns. */
enum { HYP_CUDA_SEEN_BITS = 7, HYP_CUDA_SEEN = 1 << HYP_CUDA_SEEN_BITS };

/* How a tensor comes to where the kernels use it. */
typedef enum hyp_cuda_way {
    HYP_CUDA_WAY_NONE,   /* it is used in place */
    HYP_CUDA_WAY_MOVED,  /* copied on the device */
    HYP_CUDA_WAY_PADDED, /* so, too, to where there is room around it, or from there */
    HYP_CUDA_WAY_PACKED, /* together with others */
    HYP_CUDA_WAY_PIECES, /* through the ring */
    HYP_CUDA_WAY_DIRECT  /* from or to the caller's host memory */
} hyp_cuda_way;

typedef struct hyp_cuda_staging {
    CUdeviceptr device; /* 0 = none yet */
    size_t device_bytes;
    uint8_t *packed, *ring; /* page-locked; small tensors lie as they do in `device`; NULL = none yet */
    size_t packed_bytes;
    CUdeviceptr packed_at; /* the same memory as kernels see it */
    bool refused; /* there was no page-locked memory to be had: more is not asked for */
    CUevent sent[HYP_CUDA_RING];
    uint64_t turn;                   /* pieces so far */
    hyp_team *team;                  /* NULL = none */
    bool alone;                      /* there was none to be had */
    hyp_cuda_way *ways;              /* by input, then output, in the run under way */
    CUdeviceptr seen[HYP_CUDA_SEEN]; /* addresses that are known to be of this GPU, each at its place by a hash */
} hyp_cuda_staging;

HYP_NODISCARD hyp_status hyp_cuda_staging_init(hyp_cuda_staging *g, size_t edges, hyp_diag *diag);
void hyp_cuda_staging_dispose(hyp_cuda_staging *g, const hyp_cuda_library *lib);

/* Takes the device memory that runs of these shapes need whose tensors on the device are smaller than theirs. */
HYP_NODISCARD hyp_status hyp_cuda_stage_reserve(struct hyp_cuda_session *s, const struct hyp_cuda_prepared *p,
                                                hyp_diag *diag);
/* padding.c: queues the copy of an input to the middle of zeros at `room`, or of an output from there. */
HYP_NODISCARD hyp_status hyp_cuda_pad(struct hyp_cuda_session *s, const hyp_pad *pad, CUdeviceptr room,
                                      CUdeviceptr data, bool out, hyp_diag *diag);

/* The parts of a run, in this order; `p` are the shapes, `b` the caller's tensors.
 *
 * Begins a run: sets the ways of inputs and outputs and their addresses in s->at, and takes memory if there is not
 * enough yet. *out_host: some of them lie in host memory. */
HYP_NODISCARD hyp_status hyp_cuda_stage(struct hyp_cuda_session *s, const struct hyp_cuda_prepared *p,
                                        const hyp_bindings *b, bool *out_host, hyp_diag *diag);
/* Queues the copies of inputs, but for packed ones, which are only put together. */
HYP_NODISCARD hyp_status hyp_cuda_stage_inputs(struct hyp_cuda_session *s, const struct hyp_cuda_prepared *p,
                                               const hyp_bindings *b, hyp_diag *diag);
/* Queues the transfers of packed inputs, or outputs. They depend on addresses alone and may be captured. */
HYP_NODISCARD hyp_status hyp_cuda_stage_packed(struct hyp_cuda_session *s, const struct hyp_cuda_prepared *p,
                                               bool outputs, hyp_diag *diag);
/* Copies the outputs that are not packed, or queues that. */
HYP_NODISCARD hyp_status hyp_cuda_stage_outputs(struct hyp_cuda_session *s, const struct hyp_cuda_prepared *p,
                                                const hyp_bindings *b, hyp_diag *diag);
/* When all work is done: gives packed outputs to the caller. */
void hyp_cuda_unpack_outputs(const struct hyp_cuda_session *s, const struct hyp_cuda_prepared *p,
                             const hyp_bindings *b);

#endif
