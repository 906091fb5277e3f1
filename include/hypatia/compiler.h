/* hypatia/compiler.h - from an ONNX model to a plan file, as a library. `hypatiac` is a thin tool over it.
 *
 * Thread rule: calls share no state; any number may run at once.
 */
#ifndef HYPATIA_COMPILER_H
#define HYPATIA_COMPILER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "hypatia/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*hyp_write_fn)(const char *text, size_t len, void *user);

/* Sample inputs of a model: a tensor for each, by name, or by position where the name is NULL. One with an axis more
 * than its input is a stack of samples along the first; all stacks are of one length, and the others go with each. */
typedef struct hyp_samples {
    const hyp_tensor *tensors;
    size_t count;
} hyp_samples;

/* One run of a plan for its verification. */
typedef struct hyp_plan_run {
    const hyp_tensor *inputs; /* by name; behind those of the plan its variables, which are to be set before the run */
    size_t input_count;
    hyp_tensor *outputs; /* by name, with their types, dims and memory: to be filled; behind those of the plan its variables */
    size_t output_count;
} hyp_plan_run;
/* Runs the plan in this file, which is there for the call alone. The compiler has no runtime: who links libhypatia-rt gives
 * it one by a function like that of tools/check.c. HYP_ERR_DEVICE or HYP_ERR_UNSUPPORTED: the plan cannot run here, so nothing is known of
 * it; any other failure is one of the plan. */
typedef hyp_status (*hyp_run_plan_fn)(const char *plan_path, const hyp_plan_run *runs, size_t count, void *user,
                                      hyp_diag *diag);

/* Ways to compute the same that are predicted to take about as long: of a part of a model the best few whose plans have
 * different steps, of all of it those that there are. */
enum { HYP_COMPILE_FORMS = 8 /* at most */ };
typedef struct hyp_compile_forms {
    size_t size; /* the library's sizeof(hyp_compile_forms) */
    bool whole; /* it is all of the model */
    size_t count; /* 2 or more */
    const char *const *ids;   /* 16 hexadecimal digits for operators, attributes, types, precision and target: names and the
                                 values of weights play no part, and open sizes count as their typical ones */
    const char *const *names; /* for people: of a part its operators */
    const double *seconds;    /* predicted; the first is taken where nothing better is known, of a part the others come in the
                                 order of these */
    size_t predicted;         /* the one that would be taken if nothing was ever timed: not 0 of a whole whose parts changed */
    /* Writes the plan of one form alone. */
    hyp_status (*write)(const struct hyp_compile_forms *forms, size_t form, const char *path, hyp_diag *diag);
    void *compiler; /* for `write` */
} hyp_compile_forms;
/* Which form to take, to *out, which is 0. Equal answers to equal questions give equal plans. A failure ends the compilation.
 */
typedef hyp_status (*hyp_choose_form_fn)(const hyp_compile_forms *forms, size_t *out, void *user, hyp_diag *diag);

/* How a model becomes a training step: a plan that computes a loss and its gradients and updates the parameters, which are
 * variables of the plan (docs/training.md). Formulas and defaults are those of PyTorch: torch.optim, mean reduction.
 *
 * A parameter is an initializer of floats of the model, of more than one element or the weights of a layer, that the loss
 * depends on and no pattern of `frozen` fits; what batch normalizations have measured is none. The step has the inputs of
 * the model, then
 *   labels          "cross-entropy": i64, the shape of the logits without axis 1 (of a vector: a scalar), classes from 0 on
 *   target          "mse", "bce": of the type of the output that the loss reads
 *   learning-rate   f32 scalar, unless `gradients`
 * and the outputs
 *   loss            f32 scalar, the mean over the elements (or labels) that count
 *   ...             those of the model, computed with the parameters before the update, unless `loss_only`
 *   gradient-norm   f32 scalar where `clip_norm` is given: of all gradients as one vector, before they are clipped
 *   gradient:NAME   of each parameter, of its type, if `gradients`
 * and the variables NAME of each parameter, of its type in the model; NAME:momentum of "sgd" with momentum; NAME:m and
 * NAME:v of "adam" and "adamw", and :step, an i64 scalar that counts the steps. Moments are of f32, or of f64 as their
 * parameter.
 *
 * Begin with HYP_TRAIN_OPTIONS_INIT, which gives each field its default. */
typedef struct hyp_train_options {
    size_t size;      /* sizeof(hyp_train_options) */
    const char *loss; /* what there is to make small:
                           "mse"            (output - target)^2
                           "cross-entropy"  of logits [N C ...] (or [C]) with labels of classes along axis 1
                           "bce"            binary cross-entropy of logits with targets from 0 to 1, in its stable form
                           any other        the name of the model's output, a scalar of floats, that is the loss */
    const char *output;         /* of the model, which the loss reads; NULL: the first one */
    int64_t ignore_index;       /* "cross-entropy": a label that does not count, within 2^53; -100 */
    double label_smoothing;     /* "cross-entropy": 0 to 1; 0 */
    const float *class_weights; /* "cross-entropy": one for each class, not negative; NULL: all 1. Borrowed for the call */
    size_t class_weight_count;

    const char *optimizer; /* "sgd", "adam", "adamw"; NULL: "adamw". Not looked at if `gradients` */
    double momentum;       /* "sgd": 0 to below 1; 0: none */
    bool nesterov;         /* "sgd": with momentum alone */
    bool gradients;        /* no update: the gradients are outputs, and parameters are variables that stay as they are */
    double weight_decay;   /* not negative. "sgd", "adam": added to the gradient; "adamw": decoupled. Negative: 0.01 of
                              "adamw", else 0 */
    double beta1, beta2;   /* "adam", "adamw": 0 to below 1; 0.9, 0.999 */
    double epsilon;        /* "adam", "adamw": not negative; 1e-8 */
    double clip_norm;      /* gradients are scaled by min(1, clip_norm / (norm + 1e-6)); 0: not */

    const char *const *frozen; /* patterns, as of a shell's file names, for names of initializers that stay constants; one
                                  that fits none is an error */
    size_t frozen_count;
    double loss_scale; /* a power of two, say, by which the loss is multiplied before and the gradients divided, in 32 bits,
                          after the backward pass, so that gradients of 16 bits do not vanish. A step whose gradients' norm
                          is not finite then leaves all variables as they were. 0: none of it */
    bool data_parallel; /* the loss, its gradients and what a model keeps of its batches are means over the processes that
                           run the step together, each with rows of its own (hyp_engine_options.group of hypatia/runtime.h) */
    bool dropout;       /* Dropouts of the model drop elements in a step, by the ratio that the model says, and scale the others
                           by 1 / (1 - ratio); else they let everything through. The step then has the inputs "seed" (i64) and
                           "training" (bool: false drops nothing), and a variable ":draws" (i64) that counts steps; what is dropped
                           follows from seed, count, node and place alone: the same bits on every device. A model that has nothing
                           to drop is HYP_ERR_INVALID_ARGUMENT */
    bool loss_only;     /* the step has no outputs of the model: those of a large vocabulary take longer to write than all updates */
} hyp_train_options;
#define HYP_TRAIN_OPTIONS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(hyp_train_options), NULL, NULL, -100, 0, NULL, 0, NULL, 0, false, false, -1, 0.9, 0.999, 1e-8, 0, NULL, \
            0, 0, false, false, false                                                                                  \
    }

/* How far a compilation is. */
typedef struct hyp_compile_progress {
    size_t size;       /* the library's sizeof(hyp_compile_progress) */
    const char *phase; /* "import", "demote", "train"; of rewriting "fold", "normalize", "recognize", "optimize", "extract"; "quantize",
                          "recompute", "lower", "expect" (samples in the reference interpreter), "write", "verify", "blame" (looking
                          for the rule that made a plan wrong). More may come */
    size_t iteration, e_nodes; /* of the e-graph of the phase: iterations that are done, e-nodes that there are now; else 0 */
    double best;               /* seconds that the best plan so far is predicted to take; 0: none is known yet */
    uint64_t done, total;      /* "write": bytes of weights; "expect": samples. total 0: not known */
    double seconds;            /* since the compilation began */
    double seconds_left;       /* until `max_seconds` end the search for a better plan; -1: they do not */
} hyp_compile_progress;

typedef struct hyp_compile_options {
    size_t size;           /* sizeof(hyp_compile_options) */
    const char *target; /* "cpu" (default) or "cuda", for a machine as costs see it: "cpu:generic" (default), "cpu:avx2",
                           "cpu:avx512", "cpu:amx", "cpu:native" (the one here), "cuda:h200" (default), "cuda:h100" */
    const char *precision; /* "fp32" (default), "tf32", "bf16", "fp16", "fp8" */
    const char *profile;   /* path of a device profile; NULL = the built-in one of the target */
    int32_t threads;       /* of a CPU, that costs count with; 0 = those of the profile */

    const char *const *dim_names; /* sizes for symbolic dims */
    const int64_t *dim_values;
    size_t dim_count;
    const char *const *typical_names; /* sizes that the cost model counts symbolic dims as, which stay open; 32 else */
    const int64_t *typical_values;
    size_t typical_count;
    const hyp_tensor *shapes; /* dims for inputs by name: rank and dims are read, -1 = as declared */
    size_t shape_count;
    const hyp_tensor *bound; /* inputs, by name, whose value is known now: they become constants of the model */
    size_t bound_count;
    const hyp_samples *samples; /* for "fp8", which is refused without: the scales of layers come from them */
    size_t samples_count;                          /* verified with the first of them, too */

    const char *const *rule_files; /* rules of the caller's own, besides the built-in ones */
    size_t rule_file_count;
    bool no_builtin_rules;             /* the caller's own alone */
    const char *const *disabled_rules; /* names; one that no rule has is an error */
    size_t disabled_rule_count;
    /* Names: no other rule is applied, and what they make is kept where the model as it came is predicted to be faster, too;
     * count 0 = all. */
    const char *const *only_rules;
    size_t only_rule_count;
    bool allow_approximate;
    bool no_rewrite;                  /* lower the model as it was imported */
    size_t max_iterations, max_nodes; /* 0 = default */
    /* What is computed of constants before the plan runs; beyond it they are computed by the plan. 0 = default. */
    size_t max_fold_bytes; /* of one result, and of all that the plan stores: 16 times the model's constants, at least
                              16 MiB */
    size_t max_fold_flops; /* of all together, in multiplications of matrices, other operators counting more: 64 for
                              each byte of the model's constants, at least 2^34 */
    /* Both end the search for a better plan: the best one so far is written, which then depends on the machine, and the
     * report and the plan's flags say so. Nothing else is cut short, but such a plan is verified only if `verify` says so.
     * Where they come too late to cut anything, the plan is the same as without. */
    double max_seconds;                /* after the start; 0 = no limit */
    const volatile sig_atomic_t *stop; /* as soon as it is not 0: for a signal handler, or another thread; NULL = never */

    /* Questions, answered in the report. A node is one of the model, by its name or that of a value which it computes;
     * an unknown one is an error. */
    const char *explain; /* how this node came to the plan's steps: every rule and its place, checked; NULL = none */
    const char *why_not; /* why this rule changed nothing: which premise failed, or what cost more; NULL = none */
    const char *why_not_node; /* at this node; NULL = anywhere */

    const char *const *flags; /* recorded in the plan as they are */
    size_t flag_count;

    hyp_write_fn dump_rewrites; /* JSON lines; NULL = none */
    void *dump_rewrites_user;
    const char *dump_ir_stage; /* "import", "demote", "train", "rewrite", "quantize", "recompute": the graph after this stage;
                                  NULL = none */
    hyp_write_fn dump_ir;
    void *dump_ir_user;
    hyp_write_fn progress; /* one line per pass; NULL = none */
    void *progress_user;
    hyp_write_fn warning; /* a text for each thing in the model that looks wrong and does no harm; NULL = none */
    void *warning_user;

    /* Verification: before the plan gets its name, it runs on samples and is compared with the model in the reference
     * interpreter. "strict": one that is wrong is HYP_ERR_MISMATCH, nothing is written, and the message names the rule to blame
     * and the first node that comes out wrong.
     * "warn": it is written, and the report says so. "off". NULL: by what it costs, as the report says. */
    const char *verify;
    hyp_run_plan_fn run_plan; /* NULL: nothing is verified */
    void *run_plan_user;
    /* Asked where the cost model cannot tell which form is the faster one: for parts of what was chosen, then for the whole,
     * whose other forms are one in which nothing is merged that was not, if that is predicted to be about as good, the normal
     * form of the model, and the model as it is. NULL: the prediction alone decides. */
    hyp_choose_form_fn choose_form;
    void *choose_form_user;
    /* Bytes of samples and expected results that the plan keeps, so that `hypatia verify` needs nothing else; -1 = none, 0 = a
     * fiftieth of the weights, 1 KiB at least and 16 at most. None are kept of what is not verified. */
    int64_t golden_bytes;
    const char *reduced; /* of a model whose plan is refused: a path for a small part of the model that shows it with the same
                            options; NULL = none. Where none can be made the message says why */
    size_t forms; /* of a part, that `choose_form` is asked about: 2 to HYP_COMPILE_FORMS; 0 = 3 */
    /* Patterns, as of a shell's file names, for names of initializers that hyp_engine_update is to replace: of floats, of more
     * than one element, or the weights of a layer. Nothing of the plan but bytes of its weights depends on their values, so
     * that rules which look at values leave these alone. Not with "fp8". */
    const char *const *updatable;
    size_t updatable_count;

    /* Custom operators: what Hypatia lacks of these domains ("ai.onnx" is ONNX's own) is not refused but becomes a step that
     * calls a kernel which the program gives to the runtime (hyp_engine_options.custom_kernels). Rewriting leaves such a node as
     * it is, though nodes that are equal become one, and one that nothing needs goes: kernels are functions of their inputs and
     * attributes, which are numbers, texts and lists of such. Types and shapes of results are those that the model declares, in
     * its value_info or of its outputs; a size that it has a name for which no input has, or none, is for the kernel to tell.
     * Such a model is not verified, and keeps no golden runs: nothing here computes it. */
    const char *const *custom_domains;
    size_t custom_domain_count;
    /* "y:f32:batchx64": of a result of a custom operator its type and dims, numbers or names, in place of what the model says */
    const char *const *custom_outputs;
    size_t custom_output_count;
    /* The plan is a training step of the model; NULL: it computes the model. Parameters are initializers that `updatable` with "*"
     * would name. Not with `updatable` nor "fp8"; with "bf16" and "fp16" the model is computed in 16 bits, the loss, the
     * parameters and the update in 32. Such a plan keeps no golden runs. */
    const hyp_train_options *train;
    /* Bytes that a run of the plan holds at most, for the sizes that symbolic dims are counted as: constants, variables, scratch
     * memory, and on a GPU the workspace of cuBLASLt. What is the caller's (inputs and outputs) does not count, nor what a device's
     * kernels have besides (hyp_context_memory_needed is exact): docs/training.md, "Less memory". Values that it
     * would keep until they are read long after, as the backward pass of a training step reads those of the forward pass, are
     * computed again, where that gives most bytes for the time by the cost model. Results keep their bits wherever the same kernels
     * compute the same again. 0 = as many as it takes.
     * HYP_ERR_INVALID_ARGUMENT where no such plan is found: the message has the least that was, and what it would cost. */
    size_t memory_budget;
    /* With `train`: values that nodes of the model compute, by patterns, as of a shell's file names, for names of nodes, are not
     * kept for the backward pass but computed again. HYP_ERR_INVALID_ARGUMENT for one that fits no node. */
    const char *const *recompute;
    size_t recompute_count;
    /* Told often, by the thread that compiles, how far the compilation is, which it may print; what it does never changes the
     * plan. NULL: nobody is told. */
    void (*on_progress)(const hyp_compile_progress *progress, void *user);
    void *on_progress_user;
    /* A path for the optimized graph as an ONNX model (opset 20), written when the plan is: weights included, operators that ONNX
     * lacks as functions of the model, in the domain "hypatia", so that any runtime runs it. HYP_ERR_UNSUPPORTED lists the
     * operators that cannot be written, all of them; a training step is none that can. NULL = none. */
    const char *emit_onnx;
    const char *emit_onnx_domain; /* "com.microsoft": with operators of that domain where they fit; NULL = ONNX's own alone */
    /* The e-graph that the optimizing rules made, from the outputs down, as egraph-serialize's JSON, costs in seconds; NULL = none.
     * Not with no_rewrite. */
    hyp_write_fn dump_egraph;
    void *dump_egraph_user;
    const char *dump_egraph_around; /* a node of the model, or an e-class "@7": what is near it; NULL = all */
    size_t dump_egraph_depth;       /* how near, in steps from operator to operand or back; 0 = 2 */
    size_t dump_egraph_nodes;       /* e-nodes that are drawn at most; 0 = 500 */
    bool dump_egraph_dot;           /* for Graphviz instead, with what was chosen drawn bold */
    /* What the compilation took its time for, in Chrome's trace event format (JSON), which Perfetto opens: passes, phases of rewriting,
     * iterations and their parts, rules; written once, at the end. NULL = none. */
    hyp_write_fn trace;
    void *trace_user;
    bool full_terms; /* of dump_rewrites: nothing of a term is left out, up to a mebibyte of it */
    size_t emit_onnx_most; /* bytes of weights in the model; where there are more, they go beside it, to PATH.data. 0 = some
                              2 GiB, which is what readers take */
    bool no_record; /* the plan keeps no record of its compilation, of which `hypatia report` makes a page: hyp_plan_record */
    /* Trips at most of a loop of which only the data of a run tell how many it makes: a run that makes more is HYP_ERR_LIMIT,
     * and results that collect something of every trip take memory for so many. 0 = 1024 for loops with such results, any
     * number for others. */
    int64_t loop_limit;
    /* Loops that the data end before the last of a known number of trips are written out for all of them, as for GPUs and with
     * emit_onnx, not run trip by trip, which is what CPUs do: all trips are computed then, and the plan is verified. */
    bool write_loops;
} hyp_compile_options;

typedef struct hyp_compile_rule_use {
    size_t size; /* the library's sizeof(hyp_compile_rule_use) */
    const char *name, *ruleset, *numeric_class, *doc;
    size_t matches, applications, used;
    size_t declined; /* matches that a condition or function of the rule kept from being applied, besides those that were none
                        because of a type */
    size_t refused;  /* applications whose result would have no type, or another one */
    size_t beyond;   /* parts beyond those that one application takes, of rules that put parts together */
} hyp_compile_rule_use;

/* What a compilation did; owned by the caller: hyp_compile_report_destroy. */
typedef struct hyp_compile_report {
    size_t size; /* the library's sizeof(hyp_compile_report) */
    const hyp_compile_rule_use *const *rules;
    size_t rule_count;
    size_t nodes_imported, nodes_before, nodes_after; /* in the model; that run, before and after rewriting */
    size_t e_nodes, e_classes, iterations;
    const char *stop_reason;
    const char *cut;                /* "stopped by --max-seconds S" or "interrupted"; "": the search was not cut short */
    bool proven;                    /* of all that the e-graphs hold, what was chosen costs least */
    double cost_before, cost_after; /* seconds, predicted, of the plan of the graph as it came and of the one chosen; 0 when
                                       nothing was rewritten */
    double plan_seconds;            /* predicted, of a run of the plan, whose steps run one by one or, where the target does
                                       that, side by side: cost_after where anything was rewritten, and nothing is computed
                                       again */
    double import_seconds, rewrite_seconds, lower_seconds, write_seconds;
    size_t plan_steps;
    uint64_t plan_bytes;
    size_t parts_changed;           /* on the advice of `choose_form` */
    const char *answer; /* text: what was asked for by `explain` and `why_not`; "" without them */
    const char *steps; /* text: one line per step, "fused-mlp  [a, b, c]  by rule, rule" */
    const char *verified; /* text: how the plan was verified and what was found, or why it was not */
    bool wrong;           /* verification found it wrong, and was to warn only */
    double verify_seconds;
    const char *layers; /* text: with "fp8" a line per linear layer, its scales or why it stays bf16; else "" */
    double gap;      /* where not `proven`: by how much of its cost something else could cost less, at most; 1: nothing is known */
    size_t unfolded; /* e-nodes of constants alone that a plan with them would compute in every run: they take more than
                        max_fold_bytes or max_fold_flops */
    const char *prices; /* text: one line per step, "12.30 us  fused-mlp: launch 0.3 us + work 12 us (...)": what it is predicted to
                           take, and of what that is made */
    size_t scratch_bytes; /* of the plan, for the sizes that symbolic dims are counted as */
    /* What `memory_budget` and `recompute` did: steps of the plan that compute something again, and what it would have taken
     * without them; 0 where there are none. */
    size_t recomputed, kept_bytes;
    double kept_seconds;
    const double *step_seconds; /* what each step of the plan is predicted to take; NULL without a plan */
    const char *run; /* JSON, described by docs/report.md: what a record cannot have, for it depends on the machine: how long
                        rewriting took, by iteration and rule, and what verification found. "": no record was kept */
    /* What `memory_budget` bounds, and how much of it variables take; 0 where no sizes are known. */
    size_t memory_bytes, variable_bytes;
} hyp_compile_report;
HYP_API void hyp_compile_report_destroy(hyp_compile_report *report); /* NULL-safe */

/* Compiles a model file into a plan file. plan_path NULL: everything but the writing (a dry run). A plan_path that
 * is a file which the compilation reads, through whatever links, is HYP_ERR_INVALID_ARGUMENT.
 * HYP_ERR_UNSUPPORTED lists what the model has that Hypatia lacks. out_report may be NULL. */
HYP_API HYP_NODISCARD hyp_status hyp_compile_file(const char *model_path, const char *plan_path,
                                                  const hyp_compile_options *options, hyp_compile_report **out_report,
                                                  hyp_diag *diag);

/* The same to a plan in memory, which the caller is to free(). Nothing is written to a disk. */
HYP_API HYP_NODISCARD hyp_status hyp_compile_to_memory(const char *model_path, const hyp_compile_options *options,
                                                       void **out_plan, size_t *out_size,
                                                       hyp_compile_report **out_report, hyp_diag *diag);
/* The same from a model in memory to a plan in memory, which the caller is to free(). A model whose weights lie in other files
 * has no place beside which they would be: hyp_compile_to_memory. */
HYP_API HYP_NODISCARD hyp_status hyp_compile_memory(const void *model, size_t model_size,
                                                    const hyp_compile_options *options, void **out_plan,
                                                    size_t *out_size, hyp_compile_report **out_report, hyp_diag *diag);

/* Every rule that `options` reads and selects, through a report with only its rules filled. */
HYP_API HYP_NODISCARD hyp_status hyp_compile_list_rules(const hyp_compile_options *options,
                                                        hyp_compile_report **out_report, hyp_diag *diag);

/* Writes an ONNX model: the one that the plan of a training step (hypatiac --train) was made of, with these elements, in the host's
 * memory, of the initializers that it trains, which are found by name. Tensors of other names, such as an optimizer's, are left
 * out. A plan keeps its model without those elements, unless what is left takes more than 64 MiB: then, or if it is given
 * anyway, `model_path` is the model that was compiled, which is told by its hash; else NULL. onnx_path appears whole or not at
 * all, and is to be none of the others. HYP_ERR_UNSUPPORTED: the plan is no training step, or has no model and none was given.
 * HYP_ERR_INVALID_ARGUMENT: an initializer is missing among the tensors, or of another type or other dims; the model is another one.
 * HYP_ERR_LIMIT: the file would have more than 2 GiB. */
HYP_API HYP_NODISCARD hyp_status hyp_model_export(const char *plan_path, const char *model_path,
                                                  const hyp_tensor *tensors, size_t count, const char *onnx_path,
                                                  hyp_diag *diag);

typedef struct hyp_export_c_options {
    size_t size;             /* sizeof(hyp_export_c_options) */
    const char *name;        /* of the function, and the beginning of other names that programs see; NULL: "model" */
    const char *header_path; /* a header with the function's declaration as well; NULL: none */
    const char *weights_path; /* a file for the weights, a pointer to whose bytes the function then takes; NULL: they are arrays in the C */
} hyp_export_c_options;

/* Writes a plan as one file of C99 with its weights, for small targets: a function of the inputs, the outputs and a workspace, which
 * allocates nothing and needs <math.h> and <stdint.h> alone. Its comment says what is what, and how much memory it takes. Sums are
 * of floats: results differ from those of a runtime by rounding. Files appear whole or not at all, the C last. options may be NULL.
 * HYP_ERR_UNSUPPORTED: a size is not fixed, or there are steps that there is no C for, all of which are named (docs/cli.md).
 * HYP_ERR_INVALID_ARGUMENT: the name is none in C, or files are one. Same plan, same bytes. */
HYP_API HYP_NODISCARD hyp_status hyp_plan_export_c(const char *plan_path, const char *c_path, const hyp_export_c_options *options,
                                                   hyp_diag *diag);

/* A model in the reference interpreter. Immutable: any number of threads may run it. */
typedef struct hyp_reference hyp_reference;
/* Reads a model as it is; the caller's to close. On failure *out is untouched. */
HYP_API HYP_NODISCARD hyp_status hyp_reference_open(const char *model_path, hyp_reference **out, hyp_diag *diag);
HYP_API void hyp_reference_close(hyp_reference *reference); /* NULL-safe */
/* The hash of the model, its external data included, that a plan of it keeps: hyp_engine_model_hash. */
HYP_API uint64_t hyp_reference_hash(const hyp_reference *reference);

/* Runs the model: in double when `exact`, else with every result rounded to its type. Inputs by name (or position); outputs
 * are allocated and named in the model's order (hyp_tensor_dispose each, then free() the array). */
HYP_API HYP_NODISCARD hyp_status hyp_reference_run(const hyp_reference *reference, bool exact, const hyp_tensor *inputs,
                                                   size_t input_count, hyp_tensor **out_outputs, size_t *out_count,
                                                   hyp_diag *diag);

/* Runs the model in native arithmetic, and says for every element how far a right plan of this precision ("fp32", "bf16",
 * ...; NULL: fp32), made by rules of these classes (hyp_engine_classes; NULL or "": unknown), may be from it:
 * out_tolerances[i] is an f64 tensor for out_values[i], 0 where bits must agree, INFINITY where nothing can be said. Both are
 * owned by the caller as those of hyp_reference_run. It takes four times as long. */
HYP_API HYP_NODISCARD hyp_status hyp_reference_expect(const hyp_reference *reference, const char *precision,
                                                      const char *classes, const hyp_tensor *inputs, size_t input_count,
                                                      hyp_tensor **out_values, hyp_tensor **out_tolerances,
                                                      size_t *out_count, hyp_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
