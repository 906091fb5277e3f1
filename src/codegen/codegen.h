/* codegen.h - from a rewritten graph to a program: kernels, memory plan, constants. Sees ir and plan; knows
 * nothing of matching and extraction.
 */
#ifndef HYP_CODEGEN_CODEGEN_H
#define HYP_CODEGEN_CODEGEN_H

#include "base/progress.h"
#include "codegen/target.h"
#include "ir/constants.h"
#include "plan/plan.h"

typedef enum hyp_precision {
    HYP_PRECISION_FP32,
    HYP_PRECISION_TF32,
    HYP_PRECISION_BF16,
    HYP_PRECISION_FP16,
    HYP_PRECISION_FP8
} hyp_precision;

typedef struct hyp_codegen_options {
    const hyp_target *target;
    hyp_fold_budget fold;    /* what may be computed before the plan runs; 0 as in hyp_fold_budget_of */
    hyp_precision precision; /* TF32 marks products; the narrower ones were applied to the graph */
    const char *producer, *model_name;
    const char *classes; /* of the rules that made the graph, recorded in the plan; NULL = unknown */
    uint64_t model_hash;
    const char *const *flags; /* recorded in the plan */
    uint32_t flag_count;
    const hyp_equality *equalities; /* of inputs' axes, for messages of the plan */
    size_t equality_count;
    /* Seconds of one step that computes these nodes (several: elementwise ones, the last gives the result); NULL = no
     * prediction. */
    hyp_status (*predict)(const hyp_graph *graph, const hyp_node *const *nodes, size_t count, void *user,
                          double *out_seconds, hyp_diag *diag);
    /* Appends what these seconds are made of, in words, for the plan; NULL = nothing is said. */
    hyp_status (*explain)(const hyp_graph *graph, const hyp_node *const *nodes, size_t count, void *user, hyp_strbuf *out,
                          hyp_diag *diag);
    /* Seconds more that a step takes because `bytes` that it reads or writes were last touched when the run had yet to
     * go over `since` bytes, and were written, or what they replace was touched, `ago` seconds before; itself it goes over
     * `own`; `windows`: it convolves or pools; NULL = none. */
    double (*predict_far)(double bytes, double since, double ago, double own, bool windows, void *user);
    /* Seconds more of a step that turns so many elements of images in f32; `copied`: in place of copying them. NULL = none. */
    double (*predict_turn)(double elements, bool copied, void *user);
    /* The share of the device that a step takes from others at once with it (base/timetable.h), of the nodes that
     * `predict` is asked about; NULL = all of it. */
    hyp_status (*predict_share)(const hyp_graph *graph, const hyp_node *const *nodes, size_t count, void *user,
                                double *out_share, hyp_diag *diag);
    void *predict_user; /* of all five */
    double hop_seconds; /* what goes on on another stream begins so much later */
    const int64_t *typical_sizes; /* by symbol of the graph's dims: what predictions count it as */
} hyp_codegen_options;

/* How long a scratch tensor stands: from the step that writes it to the last one that touches it. One that takes the
 * place of another stands from the step behind the one that writes it. */
typedef struct hyp_stay {
    uint32_t tensor;
    uint32_t first, last;
    int64_t bytes; /* for the sizes that predictions are for */
} hyp_stay;

#define HYP_NO_STEP UINT32_MAX

/* A lowered program and where the bytes of its weights come from. Borrows the graph. */
typedef struct hyp_lowered {
    hyp_arena arena; /* owns `program` and everything in it */
    HypPlan__Program *program;
    const hyp_graph *graph;
    hyp_value_id *folds; /* by tensor: the constant or variable of the graph that gives a weight its bytes, or
                          * HYP_NO_VALUE */
    hyp_stay *stays;     /* but of results within a step */
    size_t stay_count;
    uint32_t *value_tensors; /* by value of the graph: the tensor that it is, or a view of one, + 1; 0 = none */
    uint32_t *node_steps;    /* by node of the graph: the step that gives its results, HYP_NO_STEP where none does */
    hyp_progress *progress;  /* set by who writes the plan: is told of the bytes of weights; NULL = nobody is */
} hyp_lowered;

/* Lowers. The steps are:
 *   constants   maximal subgraphs that depend on constants only, and are within the budget, become one weight each;
 *               they are evaluated while the plan is written (hyp_codegen_write); a plain constant is not copied
 *   views       reshapes and the like become tensors with place VIEW; a copy is made where an output would alias
 *   kernels     one step per remaining node; gemm that is no linear becomes matmul and pointwise; chains of
 *               elementwise nodes with one user become one pointwise step, whose further results are those of them that are
 *               outputs of the graph
 *   order       steps run as the graph's nodes are listed, or in another order where less scratch stands at once
 *   memory      scratch tensors whose lives do not overlap share a slot
 * Results may be computed into the caller's output memory directly. An operator or type that no kernel has is
 * HYP_ERR_UNSUPPORTED and named. Requires a verified graph. */
HYP_NODISCARD hyp_status hyp_codegen_lower(const hyp_graph *graph, const hyp_codegen_options *options, hyp_lowered *out,
                                           hyp_diag *diag);
void hyp_lowered_dispose(hyp_lowered *lowered);

/* update.c: puts a plan into the program for every set of constants that may be replaced (hyp_value.updatable) of which
 * some bytes of weights are computed together, and for these alone: see Update of plan.proto. Options as for lowering.
 */
HYP_NODISCARD hyp_status hyp_codegen_add_updates(hyp_lowered *lowered, const hyp_codegen_options *options,
                                                 hyp_diag *diag);

/* Writes the plan file, folding constants on the way. `forget` (may be NULL) is told of constant bytes that
 * were read and are not needed again, so that mapped pages can go. `check` (may be NULL) sees the plan before it has its
 * name, as in hyp_plan_write. */
HYP_NODISCARD hyp_status hyp_codegen_write(const hyp_lowered *lowered, const char *path,
                                           void (*forget)(void *user, const void *data, size_t bytes), void *user,
                                           const hyp_plan_check *check, hyp_diag *diag);

/* Changes every f32 value between the graph's inputs and outputs to `to` (HYP_BF16 or HYP_F16): casts at the
 * edges, constants through a cast that folding removes. Softmax, reductions and products still accumulate in
 * f32 in the kernels. */
HYP_NODISCARD hyp_status hyp_graph_demote(const hyp_graph *in, hyp_dtype to, hyp_graph *out, hyp_diag *diag);

/* ---- quantize.c: linear layers in f8e4m3 ------------------------------------------------------------------- */

/* Layers that fit: linear and what is fused from it, and products with a constant, of bf16, whose weight is a constant
 * and whose K and N are multiples of 16, as tensor cores want them. All others stay as they are.
 *
 * 1. hyp_graph_open_layers: every fused-mlp that has a layer that fits becomes its layers, one after the other. */
HYP_NODISCARD hyp_status hyp_graph_open_layers(const hyp_graph *in, hyp_graph *out, hyp_diag *diag);

/* 2. The largest magnitudes that layers which fit read, of a graph that step 1 made. Owned by the caller. */
typedef struct hyp_layer_range {
    bool seen;
    double x, weight;
} hyp_layer_range;
typedef struct hyp_calibration {
    const hyp_graph *graph;
    hyp_layer_range *layers; /* by node */
    uint8_t *nodes;          /* by node: which run, and which are layers that fit; as hyp_eval_watch has them */
} hyp_calibration;
HYP_NODISCARD hyp_status hyp_calibration_init(hyp_calibration *c, const hyp_graph *graph, hyp_diag *diag);
void hyp_calibration_dispose(hyp_calibration *c);
/* Runs the graph in the interpreter, in double, on one sample: the graph's inputs. What a layer reads that is no finite
 * number is HYP_ERR_INVALID_ARGUMENT and names the layer. Only what such a layer depends on runs, and values are freed
 * after their last use. */
HYP_NODISCARD hyp_status hyp_calibrate(hyp_calibration *c, const hyp_eval_tensor *inputs, size_t input_count,
                                       hyp_diag *diag);

/* 3. Layers that fit become quantized-linear. x and weight are divided by a scale each, a power of two so that nothing
 * else is rounded: the least with which the largest magnitude is in range; 1 where that is 0. Layers that read one x
 * share its conversion. For every layer, also those that stay, a line for people is added to `report`, with its scales
 * or the reason. */
HYP_NODISCARD hyp_status hyp_graph_quantize(const hyp_calibration *c, hyp_graph *out, hyp_strbuf *report,
                                            hyp_diag *diag);

#endif
