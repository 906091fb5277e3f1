/* codegen.h - from a rewritten graph to a program: kernels, memory plan, constants. Sees ir and plan; knows
 * nothing of matching and extraction.
 */
#ifndef HYP_CODEGEN_CODEGEN_H
#define HYP_CODEGEN_CODEGEN_H

#include "ir/ir.h"
#include "plan/plan.h"

typedef enum hyp_precision {
    HYP_PRECISION_FP32,
    HYP_PRECISION_TF32,
    HYP_PRECISION_BF16,
    HYP_PRECISION_FP16
} hyp_precision;

typedef struct hyp_codegen_options {
    const char *target;      /* "cpu" or "cuda" */
    hyp_precision precision; /* TF32 marks products; BF16 and FP16 were applied to the graph (hyp_graph_demote) */
    const char *producer, *model_name;
    uint64_t model_hash;
    const char *const *flags; /* recorded in the plan */
    uint32_t flag_count;
    const hyp_equality *equalities; /* of inputs' axes, for messages of the plan */
    size_t equality_count;
    /* Seconds of one step that computes these nodes (several: elementwise ones, the last gives the result); NULL = no
     * prediction. */
    hyp_status (*predict)(const hyp_graph *graph, const hyp_node *const *nodes, size_t count, void *user,
                          double *out_seconds, hyp_diag *diag);
    void *predict_user;
    const int64_t *typical_sizes; /* by symbol of the graph's dims: what predictions count it as */
} hyp_codegen_options;

/* A lowered program and where the bytes of its weights come from. Borrows the graph. */
typedef struct hyp_lowered {
    hyp_arena arena; /* owns `program` and everything in it */
    HypPlan__Program *program;
    const hyp_graph *graph;
    hyp_value_id *folds; /* by tensor: the constant of the graph that gives a weight its bytes, else HYP_NO_VALUE */
} hyp_lowered;

/* Lowers. The steps are:
 *   constants   maximal subgraphs that depend on constants only become one weight each; they are evaluated while
 *               the plan is written (hyp_codegen_write), one at a time; a plain constant is not copied at all
 *   views       reshapes and the like become tensors with place VIEW; a copy is made where an output would alias
 *   kernels     one step per remaining node; gemm that is no linear becomes matmul and pointwise; chains of
 *               elementwise nodes with one user become one pointwise step
 *   memory      scratch tensors whose lives do not overlap share a slot
 * Results may be computed into the caller's output memory directly. An operator or type that no kernel has is
 * HYP_ERR_UNSUPPORTED and named. Requires a verified graph. */
HYP_NODISCARD hyp_status hyp_codegen_lower(const hyp_graph *graph, const hyp_codegen_options *options, hyp_lowered *out,
                                           hyp_diag *diag);
void hyp_lowered_dispose(hyp_lowered *lowered);

/* Writes the plan file, folding constants on the way. `forget` (may be NULL) is told of constant bytes that
 * were read and are not needed again, so that mapped pages can go. */
HYP_NODISCARD hyp_status hyp_codegen_write(const hyp_lowered *lowered, const char *path,
                                           void (*forget)(void *user, const void *data, size_t bytes), void *user,
                                           hyp_diag *diag);

/* Changes every f32 value between the graph's inputs and outputs to `to` (HYP_BF16 or HYP_F16): casts at the
 * edges, constants through a cast that folding removes. Softmax, reductions and products still accumulate in
 * f32 in the kernels. */
HYP_NODISCARD hyp_status hyp_graph_demote(const hyp_graph *in, hyp_dtype to, hyp_graph *out, hyp_diag *diag);

#endif
