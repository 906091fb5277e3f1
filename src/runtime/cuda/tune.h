/* tune.h - finding the fastest way to do the products of a plan, by measuring. docs/runtime-cuda.md tells how.
 *
 *   tune.c    which products there are, which ways to do each, which one is taken
 *   trial.c   one product: operands that lie in memory as in a run, times, and whether results agree
 */
#ifndef HYP_RUNTIME_CUDA_TUNE_H
#define HYP_RUNTIME_CUDA_TUNE_H

#include "runtime/cuda/cuda.h"
#include "runtime/cuda/linear.h"
#include "runtime/cuda/product.h"

enum { HYP_CUDA_CANDIDATES = 64 }; /* algorithms that cuBLASLt is asked for */

/* What tuning asks of gemm.c, which fills it in instead of choosing an algorithm: hyp_cuda_build.probe. */
typedef struct hyp_cuda_probe {
    /* Not NULL: called for every product, with `key` and `layer` set, and the rest is of no account. */
    hyp_status (*found)(struct hyp_cuda_probe *probe, uint32_t step, hyp_diag *diag);
    void *user;
    char key[HYP_CUDA_PRODUCT_KEY];                               /* out */
    size_t layer;                                                 /* out: of a linear step */
    size_t way;                                                   /* in: which of the epilogues */
    int wanted;                                                   /* in: algorithms */
    bool more;                                                    /* out: there are ways after this one */
    uint32_t epilogue;                                            /* out */
    cublasLtMatmulHeuristicResult_t results[HYP_CUDA_CANDIDATES]; /* out: for aligned operands, the first one first */
    int count;                                                    /* out */
    cublasLtMatmulAlgo_t usual;                                   /* out: what is taken without tuning */
    cublasLtMatmulAlgo_t *slot;                                   /* out: what the op that was added will run */
} hyp_cuda_probe;

/* ---- trial.c ---------------------------------------------------------------------------------------------- */

/* One way to do a product. */
typedef struct hyp_cuda_candidate {
    hyp_cuda_prepared *ops;     /* borrowed; candidates that differ in the algorithm alone share them */
    cublasLtMatmulAlgo_t *slot; /* in `ops`; NULL for what has no algorithm to choose */
    cublasLtMatmulAlgo_t algorithm;
    uint64_t workspace;
    uint32_t epilogue;
    CUgraphExec graph; /* the ops, `repeats` times; NULL before it is captured */
    double seconds;    /* of doing it once */
} hyp_cuda_candidate;

enum { HYP_CUDA_TRIAL_READS = 3 * HYP_CUDA_LINEAR_LAYERS + 2 };

/* The tensors of one product in memory of their own. Weights that a run finds in main memory, because the plan has more
 * of them than the cache holds, have copies that are used in turns; what a run has just written stays in the cache. */
typedef struct hyp_cuda_trial {
    hyp_cuda_session *session;
    struct {
        uint32_t tensor;
        size_t bytes;
        bool turns;     /* there are `copies` of it */
        CUdeviceptr at; /* the first */
    } reads[HYP_CUDA_TRIAL_READS];
    size_t read_count;
    bool run; /* of the whole plan: there are only inputs and outputs */
    uint32_t result;
    size_t result_bytes;
    CUdeviceptr memory, result_at, first_at; /* everything; the result; that of the first candidate */
    uint32_t copies, repeats;
    CUevent start, stop;
} hyp_cuda_trial;

/* Memory for a product, or layers, that read these tensors (each once in the list) and write `result`, with inputs
 * filled; hidden values are among the tensors read. To be closed also when it fails. */
HYP_NODISCARD hyp_status hyp_cuda_trial_open(hyp_cuda_trial *t, hyp_cuda_session *s, const int64_t *values,
                                             const uint32_t *reads, size_t read_count, uint32_t result, hyp_diag *diag);
/* The same for whole runs: candidates are prepared shapes, alike in where inputs and outputs lie; nothing is compared.
 */
HYP_NODISCARD hyp_status hyp_cuda_trial_open_run(hyp_cuda_trial *t, hyp_cuda_session *s, const hyp_cuda_prepared *p,
                                                 hyp_diag *diag);
void hyp_cuda_trial_close(hyp_cuda_trial *t);

/* Runs the first candidate, keeps its result for comparison, and sets how often a sample repeats a product. */
HYP_NODISCARD hyp_status hyp_cuda_trial_start(hyp_cuda_trial *t, hyp_cuda_candidate *first, hyp_diag *diag);
/* Makes a candidate ready to be timed. *out_runs is false when cuBLASLt does not run it, or not inside a graph. */
HYP_NODISCARD hyp_status hyp_cuda_trial_ready(hyp_cuda_trial *t, hyp_cuda_candidate *c, bool *out_runs, hyp_diag *diag);
/* One sample. */
HYP_NODISCARD hyp_status hyp_cuda_trial_time(hyp_cuda_trial *t, const hyp_cuda_candidate *c, double *out_seconds,
                                             hyp_diag *diag);
/* Whether the result is that of the first candidate: |a - b| <= tolerance (|b| + the root of the mean square of b). */
HYP_NODISCARD hyp_status hyp_cuda_trial_agrees(hyp_cuda_trial *t, const hyp_cuda_candidate *c, double tolerance,
                                               bool *out_agrees, hyp_diag *diag);
void hyp_cuda_candidate_dispose(hyp_cuda_candidate *c, const hyp_cuda_library *lib);

#endif
