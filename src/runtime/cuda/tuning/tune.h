/* tune.h - finding the fastest way to do the products, the choices and the pointwise steps of a plan, by measuring.
 * docs/runtime-cuda.md tells how.
 *
 *   tune.c      which of them there are, what is kept of what was found
 *   contest.c   one of them: the ways to do it, and which is the fastest
 *   trial.c     memory for it as in a run, times, and whether results agree; nn/measure.c measures by it, too
 */
#ifndef HYP_RUNTIME_CUDA_TUNING_TUNE_H
#define HYP_RUNTIME_CUDA_TUNING_TUNE_H

#include "runtime/cuda/ops/gemm_problem.h"
#include "runtime/cuda/ops/linear.h"
#include "runtime/cuda/ops/steps.h"

/* Algorithms that cuBLASLt is asked for: for the epilogue that an untuned plan takes, and for each simpler one, which
 * leaves more to do outside of the product. */
enum { HYP_CUDA_CANDIDATES = 64, HYP_CUDA_LATER_CANDIDATES = 16 };

/* What tuning asks of gemm.c, which fills it in instead of choosing an algorithm: hyp_cuda_build.probe. */
typedef struct hyp_cuda_probe {
    /* Not NULL: called for every product, with `key` and `layer` set, and the rest is of no account. */
    hyp_status (*found)(struct hyp_cuda_probe *probe, uint32_t step);
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

/* One way to do a product or step. */
typedef struct hyp_cuda_candidate {
    hyp_cuda_prepared *ops;     /* borrowed; candidates that differ in the algorithm alone share them */
    cublasLtMatmulAlgo_t *slot; /* in `ops`; NULL for what has no algorithm to choose */
    cublasLtMatmulAlgo_t algorithm;
    uint64_t workspace;
    uint32_t epilogue; /* of a generated kernel: pieces of a thread */
    CUgraphExec graph; /* the ops, `repeats` times, or a whole run; NULL before it is captured */
    double seconds;    /* of doing it once */
} hyp_cuda_candidate;

/* Queues a candidate on the session's stream, its algorithm set. */
typedef hyp_status hyp_cuda_queue(const hyp_cuda_candidate *c, void *user, hyp_diag *diag);

enum { HYP_CUDA_TRIAL_READS = 3 * HYP_CUDA_LINEAR_LAYERS + 2, HYP_CUDA_TRIAL_RESULTS = HYP_CUDA_PW_OUTPUTS };

/* The tensors of one product or step in memory of their own. Weights that a run finds in main memory, because the plan
 * has more of them than the cache holds, have copies that are used in turns; what a run has just written stays in the
 * cache. */
typedef struct hyp_cuda_trial {
    hyp_cuda_session *session;
    struct {
        uint32_t tensor;
        size_t bytes;
        uint32_t copies; /* that are used in turns, one behind the other */
        CUdeviceptr at;  /* the first */
    } reads[HYP_CUDA_TRIAL_READS];
    size_t read_count;
    bool run; /* of the whole plan: there are only inputs and outputs */
    hyp_cuda_queue *queue; /* of what is no plan's; NULL: the ops of candidates are queued */
    void *user;            /* for it */
    struct {
        uint32_t tensor;
        hyp_dtype dtype;
        size_t bytes;
        CUdeviceptr at, first_at; /* it; that of the first candidate */
    } results[HYP_CUDA_TRIAL_RESULTS];
    size_t result_count;
    CUdeviceptr memory; /* everything; 0 = none */
    size_t memory_bytes;
    uint32_t copies, repeats; /* of what has copies; of what is timed in a sample */
    CUevent start, stop;
} hyp_cuda_trial;

/* Memory for what reads these tensors (each once in the list) and writes `results`, with inputs filled; hidden values
 * of layers are among the tensors read. To be closed also when it fails. */
HYP_NODISCARD hyp_status hyp_cuda_trial_open(hyp_cuda_trial *t, hyp_cuda_session *s, const int64_t *values,
                                             const uint32_t *reads, size_t read_count, const uint32_t *results,
                                             size_t result_count, hyp_diag *diag);
/* The same for whole runs: candidates are prepared shapes, alike in where inputs and outputs lie; nothing is compared.
 */
HYP_NODISCARD hyp_status hyp_cuda_trial_open_run(hyp_cuda_trial *t, hyp_cuda_session *s, const hyp_cuda_prepared *p,
                                                 hyp_diag *diag);
/* The same for one op of a step, on the memory of a run: its tensors must have been bound. Takes no memory: where a run
 * finds weights in main memory, the op reads in turns from everywhere in the plan's weights, whatever is there. */
HYP_NODISCARD hyp_status hyp_cuda_trial_open_op(hyp_cuda_trial *t, hyp_cuda_session *s, uint32_t step, hyp_diag *diag);
/* The same for what is no plan's: takes so many bytes, whose use is up to the caller, as is the list of results; nothing has
 * copies. */
HYP_NODISCARD hyp_status hyp_cuda_trial_open_own(hyp_cuda_trial *t, hyp_cuda_session *s, hyp_cuda_queue *queue,
                                                 void *user, size_t bytes, hyp_diag *diag);
void hyp_cuda_trial_close(hyp_cuda_trial *t);
/* Fills memory with numbers between -1 and 1, integers between -8 and 8, for a seed the same on every machine. */
HYP_NODISCARD hyp_status hyp_cuda_trial_fill(const hyp_cuda_trial *t, hyp_dtype dtype, uint64_t seed, CUdeviceptr at,
                                             size_t bytes, hyp_diag *diag);

/* Runs the first candidate, keeps its results for comparison, and sets how often a sample repeats a product. */
HYP_NODISCARD hyp_status hyp_cuda_trial_start(hyp_cuda_trial *t, hyp_cuda_candidate *first, hyp_diag *diag);
/* Makes a candidate ready to be timed. *out_runs is false when cuBLASLt does not run it, or not inside a graph. */
HYP_NODISCARD hyp_status hyp_cuda_trial_ready(hyp_cuda_trial *t, hyp_cuda_candidate *c, bool *out_runs, hyp_diag *diag);
/* One sample. */
HYP_NODISCARD hyp_status hyp_cuda_trial_time(hyp_cuda_trial *t, const hyp_cuda_candidate *c, double *out_seconds,
                                             hyp_diag *diag);
/* Whether the results are those of the first candidate: |a - b| <= tolerance (|b| + the root of the mean square of b).
 */
HYP_NODISCARD hyp_status hyp_cuda_trial_agrees(hyp_cuda_trial *t, const hyp_cuda_candidate *c, double tolerance,
                                               bool *out_agrees, hyp_diag *diag);
void hyp_cuda_candidate_dispose(hyp_cuda_candidate *c, const hyp_cuda_library *lib);

/* ---- contest.c -------------------------------------------------------------------------------------------- */

/* A product of the plan, how a step is done (its choice), a pointwise step, or the streams that all steps are on, which
 * are no contest's. */
typedef enum hyp_cuda_subject_kind {
    HYP_CUDA_PRODUCT,
    HYP_CUDA_CHOICE,
    HYP_CUDA_POINTWISE,
    HYP_CUDA_STREAMS
} hyp_cuda_subject_kind;
typedef struct hyp_cuda_subject {
    hyp_cuda_session *session;
    const int64_t *values;
    uint32_t step;
    hyp_cuda_subject_kind kind;
    size_t layer;           /* of a linear step whose product it is */
    size_t take_plus1;      /* the alternative of another step that has the product */
    hyp_diag *diag;
} hyp_cuda_subject;

/* For adding ops of it to `out`. */
static inline hyp_cuda_build hyp_cuda_subject_build(const hyp_cuda_subject *s, hyp_cuda_probe *probe,
                                                    hyp_cuda_prepared *out)
{
    return (hyp_cuda_build){.session = s->session,
                            .prepared = out,
                            .program = s->session->model->plan->program,
                            .values = s->values,
                            .step = s->step,
                            .probe = probe,
                            .take_plus1 = s->take_plus1,
                            .diag = s->diag};
}

enum {
    HYP_CUDA_CONTEST_WAYS = 3,                      /* epilogues of a product */
    HYP_CUDA_CHOICES = 1 + HYP_CHOICE_ALTERNATIVES, /* what an untuned plan does, and each alternative */
    HYP_CUDA_KERNEL_CHOICES = 3,                    /* kernels for a pointwise step, at most */
    HYP_CUDA_CONTESTANTS = 1 + HYP_CUDA_CANDIDATES + (HYP_CUDA_CONTEST_WAYS - 1) * HYP_CUDA_LATER_CANDIDATES,
    HYP_CUDA_ROUNDS = 9,     /* of a race, at most */
    HYP_CUDA_RUN_ROUNDS = 25 /* of one of whole runs, at most */
};

/* Are there steps of this kind with something to choose? */
bool hyp_cuda_has_choice(const HypPlan__Step *step);
/* A step by itself, with the next one where both are done together, by the alternative take_plus1 - 1 of its choice
 * where that is not 0. *out is NULL when it cannot, else the caller's to release. */
HYP_NODISCARD hyp_status hyp_cuda_try_step(const hyp_cuda_subject *about, size_t take_plus1, hyp_cuda_probe *probe,
                                           hyp_cuda_prepared **out);

/* Zeroed but for `about`; large. */
typedef struct hyp_cuda_contest {
    hyp_cuda_subject about;
    hyp_cuda_probe probe;
    hyp_cuda_prepared *ways[HYP_CUDA_CHOICES];           /* what candidates are made of */
    hyp_cuda_candidate candidates[HYP_CUDA_CONTESTANTS]; /* the first is what an untuned plan does */
    size_t count;
    hyp_choice choice;              /* of a step */
    size_t taken[HYP_CUDA_CHOICES]; /* by candidate: its alternative */
    struct {
        uint8_t *bytes;
        size_t size;
        hyp_cuda_image loaded;
    } kernels[1 + HYP_CUDA_KERNEL_CHOICES]; /* by candidate, of a pointwise step; the first is none */
    uint32_t last_step;                     /* that is done with the subject's */
    uint32_t reads[HYP_CUDA_TRIAL_READS], results[HYP_CUDA_TRIAL_RESULTS]; /* tensors */
    size_t read_count, result_count;
    double tolerance;
    bool decided; /* there was something to choose from, and it was measured */
    hyp_diag why; /* a kernel could not be made or loaded */
} hyp_cuda_contest;

/* Finds the candidates and the fastest of them, if `decided` is set then. Of a choice the second is what is predicted
 * to take least, with tuned products, and is taken where no other is so much faster that it counts. To be disposed of
 * in any case. */
HYP_NODISCARD hyp_status hyp_cuda_contest_run(hyp_cuda_contest *c, double deadline, size_t *out_winner);
void hyp_cuda_contest_dispose(hyp_cuda_contest *c);

/* Times candidates in turns, so that what else the device does (its clock above all) hits all of them, and sorts them
 * by their medians. Past `deadline` three rounds are made, or all there are. */
HYP_NODISCARD hyp_status hyp_cuda_race(hyp_cuda_trial *trial, hyp_cuda_candidate **list, size_t count, int rounds,
                                       double deadline, hyp_diag *diag);

#endif
