/* nn.h - the functions of hypatia/nn.h on a GPU: a session without a plan, and what it remembers of steps.
 *
 *   ways.c      what a step is in calls of cuBLASLt and kernels of ours: pure
 *   handle.c    hyp_nn_backend: streams, memory, captures
 *   steps.c     preparing and running a step
 *   aside.c     steps beside others, in graphs of the caller's
 *   measure.c   the fastest way and algorithm of a step
 */
#ifndef HYP_RUNTIME_CUDA_NN_NN_H
#define HYP_RUNTIME_CUDA_NN_NN_H

#include "runtime/cuda/ops/lt.h"
#include "runtime/nn/nn.h"

/* ---- ways.c -------------------------------------------------------------------------------------------------- */

/* A way to do a step: an epilogue of its product, and the kernels behind it. */
typedef struct hyp_cuda_nn_way {
    cublasLtEpilogue_t epilogue;
    bool act, sums; /* nn_act for the activation or its gradient, and for a bias that the epilogue leaves; sums of rows */
} hyp_cuda_nn_way;
enum { HYP_CUDA_NN_WAYS = 3 };
/* Those of a step with a product, the best one first; the last one works for every type. GELU is the tanh form, and off
 * by too much for f32, as hyp_cuda_epilogues has it. */
size_t hyp_cuda_nn_ways(const hyp_nn_step *step, hyp_cuda_nn_way out[HYP_CUDA_NN_WAYS]);
/* The product: A is the right operand of it as hyp_cuda_product has it. */
void hyp_cuda_nn_product(const hyp_nn_step *step, const hyp_cuda_nn_way *way, hyp_cuda_product *out);
const char *hyp_cuda_nn_epilogue_name(cublasLtEpilogue_t epilogue);
bool hyp_cuda_nn_sums_on_the_way(const hyp_nn_step *dgrad);

static inline bool hyp_cuda_nn_wants_bias(cublasLtEpilogue_t e)
{
    enum { GRADIENT = CUBLASLT_EPILOGUE_DRELU_BGRAD & ~CUBLASLT_EPILOGUE_DRELU };
    return (e & (CUBLASLT_EPILOGUE_BIAS | GRADIENT | CUBLASLT_EPILOGUE_BGRADB)) != 0;
}
static inline bool hyp_cuda_nn_wants_aux(cublasLtEpilogue_t e)
{
    return (e & (CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU)) != 0;
}

/* ---- steps.c ------------------------------------------------------------------------------------------------- */

/* A step that was prepared. */
typedef struct hyp_cuda_nn_entry {
    hyp_nn_step step; /* first: hyp_nn_find */
    hyp_cuda_lt lt;
    hyp_cuda_nn_way way;
    cublasLtMatmulAlgo_t algo[2]; /* for operands at multiples of HYP_CUDA_ALIGN; of HYP_CUDA_MIN_ALIGN */
    CUdeviceptr bias_at, aux_at;  /* what `lt` has */
    size_t workspace;             /* that the algorithms want */
    bool tuned;
    double seconds, first_seconds; /* measured: this, and the way without tuning; 0 = not */
} hyp_cuda_nn_entry;

/* What steps aside have beside the session's stream and events for it: their workspace and, behind it, their room are the memory
 * of its branches. */
enum { HYP_CUDA_NN_ASIDE = 2 };
typedef struct hyp_cuda_nn_aside {
    size_t workspace_bytes, room_bytes;
    bool open, forked;                    /* in the call under way: there may be some; there are */
    const void *reads[HYP_CUDA_NN_ASIDE]; /* gradients that the last ones read, until that is waited for; NULL: none */
    size_t next;
} hyp_cuda_nn_aside;

typedef struct hyp_cuda_nn {
    hyp_cuda_model model; /* of no plan */
    hyp_cuda_session session;
    hyp_cuda_prepared none; /* the shapes of what is captured, as the session has it */
    HYP_VEC(hyp_cuda_nn_entry) entries;
    size_t last, oldest; /* entry that was found last; that goes next */
    hyp_cuda_nn_aside aside;
} hyp_cuda_nn;

/* A description for this way, and algorithms: *out_found is false where cuBLASLt has none. To be disposed of in any
 * case. */
HYP_NODISCARD hyp_status hyp_cuda_nn_describe_way(hyp_cuda_nn *nn, const hyp_nn_step *step, const hyp_cuda_nn_way *way,
                                                  hyp_cuda_nn_entry *out, bool *out_found, hyp_diag *diag);
void hyp_cuda_nn_entry_dispose(const hyp_cuda_nn *nn, const hyp_cuda_nn_entry *e);
/* The entry of a step, made where there is none. It holds until the next is made. */
HYP_NODISCARD hyp_status hyp_cuda_nn_find(hyp_cuda_nn *nn, const hyp_nn_step *step, hyp_cuda_nn_entry **out,
                                          hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_nn_run_entry(hyp_cuda_nn *nn, hyp_cuda_nn_entry *e, const hyp_nn_operands *at,
                                               hyp_diag *diag);
/* hyp_nn_backend */
hyp_status hyp_cuda_nn_prepare(void *state, const hyp_nn_step *step, hyp_diag *diag);
hyp_status hyp_cuda_nn_run(void *state, const hyp_nn_step *step, const hyp_nn_operands *at, hyp_diag *diag);

/* ---- aside.c -------------------------------------------------------------------------------------------------- */

/* The stream and events, but where HYPATIA_CUDA_STREAMS is 1; what hyp_cuda_branches_dispose frees. */
HYP_NODISCARD hyp_status hyp_cuda_nn_aside_open(hyp_cuda_nn *nn, hyp_diag *diag);
/* Memory for this step, which wants so much room. */
HYP_NODISCARD hyp_status hyp_cuda_nn_aside_reserve(hyp_cuda_nn *nn, const hyp_cuda_nn_entry *e, size_t room, hyp_diag *diag);
/* Around the steps of a call, each of which runs where it may: what is aside is joined at the end. */
void hyp_cuda_nn_aside_begins(hyp_cuda_nn *nn);
HYP_NODISCARD hyp_status hyp_cuda_nn_aside_ends(hyp_cuda_nn *nn, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_nn_run_beside(hyp_cuda_nn *nn, hyp_cuda_nn_entry *e, const hyp_nn_operands *at, hyp_diag *diag);

/* ---- measure.c ------------------------------------------------------------------------------------------------ */

hyp_status hyp_cuda_nn_tune(void *state, const hyp_nn_step *step, double deadline, double *out_seconds, hyp_diag *diag);

#endif
