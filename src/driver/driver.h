/* driver.h - what the files of the driver share. The driver alone sees the whole compiler. */
#ifndef HYP_DRIVER_DRIVER_H
#define HYP_DRIVER_DRIVER_H

#include "codegen/memory.h"
#include "hypatia/compiler.h"
#include "hypatia/tensor_io.h"
#include "onnx/onnx.h"
#include "rewrite/rewrite.h"

/* ---- options.c: the caller's options, checked, with their files read ------------------------------------ */

enum { HYP_CLASSES = 8 };

typedef struct hyp_settings {
    hyp_compile_options options; /* precision is never NULL */
    const hyp_target *target;
    const char *profile; /* built-in, of the target's machine */
    hyp_precision precision;
    hyp_roofline cost;
    hyp_fold_budget fold;    /* what was asked for, until the model is known */
    const char **rule_texts; /* by rule file */
    hyp_rewrite_dump dump;   /* where options.dump_egraph is given */
    hyp_train_options train; /* where options.train is given, which points to it */
    hyp_progress *progress;  /* of the compilation; NULL where there is none to tell of */
    hyp_limit *limit;        /* of its search; may be NULL */
    char body_classes[HYP_CLASSES]; /* of the rules that bodies of loops owe their form to, of those compiled so far */
    hyp_arena arena;         /* owns the texts, the profile and the sizes of symbols */
} hyp_settings;

/* `options` may be NULL: defaults. On failure *out needs no disposal. */
HYP_NODISCARD hyp_status hyp_settings_init(const hyp_compile_options *options, hyp_settings *out, hyp_diag *diag);
void hyp_settings_dispose(hyp_settings *settings);
/* The precision of a name, fp32 for NULL. */
HYP_NODISCARD hyp_status hyp_precision_parse(const char *name, hyp_precision *out, hyp_diag *diag);
/* Sets what costs have to know of the model: what the symbols of its dims count as, and how large its constants are.
 * HYP_ERR_INVALID_ARGUMENT for a name of the options that no symbol has. */
HYP_NODISCARD hyp_status hyp_settings_sizes(hyp_settings *settings, const hyp_graph *model, hyp_diag *diag);
/* The rewriter's view of the settings; borrows them. */
hyp_rewrite_options hyp_settings_rewrite(hyp_settings *settings);
/* The code generator's, which prices steps by the settings' cost; what is said of the model is to be added. */
hyp_codegen_options hyp_settings_codegen(hyp_settings *settings);
/* The importer's view of the options; borrows them. */
hyp_onnx_options hyp_import_options(const hyp_compile_options *o);

/* ---- price.c ---------------------------------------------------------------------------------------------- */

/* What the plan of a graph takes by the cost model, as the report has it. Its user is the hyp_settings. */
HYP_NODISCARD hyp_status hyp_price(const hyp_graph *graph, hyp_rewrite_price *out, void *settings, hyp_diag *diag);

/* ---- reference.c ------------------------------------------------------------------------------------------ */

/* The tensor of input i: the one of its name, else the one at its position that has no name; NULL for none. */
const hyp_tensor *hyp_find_input(const hyp_graph *g, size_t i, const hyp_tensor *inputs, size_t count);
/* The inputs of a graph for the interpreter; `out`, zeroed, has room for all, and the caller disposes of them also
 * on failure. */
HYP_NODISCARD hyp_status hyp_load_inputs(const hyp_graph *g, const hyp_tensor *inputs, size_t count,
                                         hyp_eval_tensor *out, hyp_diag *diag);

void hyp_free_outputs(hyp_tensor *tensors, size_t count); /* NULL-safe */
/* Cuts what the graph gives to what the data say that there is; `tolerances` may be NULL. */
void hyp_cut_outputs(const hyp_graph *g, hyp_tensor *values, hyp_tensor *tolerances);
/* What the graph gives for these inputs, and how far from it is right. */
HYP_NODISCARD hyp_status hyp_expect_outputs(const hyp_graph *g, const hyp_expect_options *o, const hyp_tensor *inputs,
                                            size_t count, hyp_tensor **out_values, hyp_tensor **out_tolerances,
                                            hyp_diag *diag);
/* What may be different about results in this precision, of rules of these classes; NULL or "": unknown, so any but A. */
hyp_expect_options hyp_expectation(hyp_precision precision, const char *classes);

/* ---- samples.c -------------------------------------------------------------------------------------------- */

/* Calls `each` for every sample: tensors with the names of inputs, in no more than are given, borrowed for the call. */
typedef hyp_status hyp_sample_fn(void *user, const hyp_tensor *inputs, size_t count, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_for_samples(const hyp_graph *g, const hyp_samples *samples, size_t count,
                                         hyp_sample_fn *each, void *user, hyp_diag *diag);

/* Runs the calibration's graph on every sample, one after the other. */
HYP_NODISCARD hyp_status hyp_run_samples(hyp_calibration *c, const hyp_samples *samples, size_t count, hyp_diag *diag);

/* ---- draw.c ----------------------------------------------------------------------------------------------- */

/* How an input of a sample was drawn, so that it can be drawn again; or given. */
typedef struct hyp_drawn {
    bool given;
    hyp_draw how;
    uint64_t seed;
    int64_t low, high;
} hyp_drawn;

/* One sample of the imported graph. Tensors are owned. */
typedef struct hyp_sample {
    hyp_tensor *inputs;              /* by input of the graph, names borrowed from it */
    hyp_drawn *drawn;                /* by input */
    hyp_tensor *values, *tolerances; /* by output: what the graph gives, and how far from it is right (f64); NULL until
                                      * it was run */
} hyp_sample;
void hyp_sample_dispose(const hyp_graph *g, hyp_sample *s);

/* The value before the run that a sample has for a variable: what it begins with or, of zeros, what it may be in the middle
 * of a training: small numbers that are not negative. */
HYP_NODISCARD hyp_status hyp_draw_variable(const hyp_graph *g, size_t variable, hyp_tensor *out, hyp_diag *diag);
/* Draws inputs of one kind. `attempt` counts from 0: later ones have other sizes, and integers of a smaller range, for
 * models that cannot take the first. */
enum { HYP_DRAW_ATTEMPTS = 24, HYP_DRAW_SMALLEST = 8 /* the first one with sizes of 1 */ };
HYP_NODISCARD hyp_status hyp_sample_draw(const hyp_graph *g, const hyp_settings *settings, hyp_draw how, int attempt,
                                         hyp_sample *out, hyp_diag *diag);
/* The sizes of symbols that a sample of this attempt has. */
void hyp_sample_sizes(const hyp_graph *g, const hyp_settings *settings, hyp_draw how, int attempt, int64_t *sizes);

/* ---- verify.c --------------------------------------------------------------------------------------------- */

/* E, and the classes of the rules that the result, with the bodies of its loops, owes its form to, as in a plan. `rewrite` NULL:
 * nothing was rewritten. */
void hyp_used_classes(const hyp_settings *settings, const hyp_rewrite_report *rewrite, char out[HYP_CLASSES]);

typedef enum hyp_verify_mode { HYP_VERIFY_OFF, HYP_VERIFY_WARN, HYP_VERIFY_STRICT } hyp_verify_mode;

enum { HYP_MOST_SAMPLES = 4 };

/* The verification of one plan: samples with what the imported graph gives for them, and how the plan compares. */
typedef struct hyp_verification {
    const hyp_graph *graph; /* imported */
    const hyp_settings *settings;
    hyp_verify_mode mode;
    hyp_sample samples[HYP_MOST_SAMPLES];
    size_t count;
    double seconds; /* that it took */
    bool ran, failed;
    hyp_strbuf text;  /* of the summary: what was done and found, or why nothing was */
    hyp_strbuf fault; /* where the plan is wrong: output, place, values */
    hyp_strbuf found; /* rows of JSON: of each sample and output, how far it is from what is right */
} hyp_verification;
const char *hyp_sample_kind(const hyp_verification *v, size_t sample); /* "ordinary", "wide", "edge", "given", "only" */

/* Decides what to do, and runs the graph on samples. Never fails because a sample does: the text says so then, unless
 * strict verification was asked for by name. `rewrite` is what rewriting did, NULL if nothing. */
HYP_NODISCARD hyp_status hyp_verification_prepare(hyp_verification *v, const hyp_graph *imported,
                                                  const hyp_settings *settings, const hyp_rewrite_report *rewrite,
                                                  hyp_diag *diag);
/* Runs the plan in this file and compares; sets `failed`, and in strict mode returns HYP_ERR_MISMATCH. */
HYP_NODISCARD hyp_status hyp_verification_run(hyp_verification *v, const char *plan, hyp_diag *diag);
void hyp_verification_dispose(hyp_verification *v);

/* ---- verify_cost.c ---------------------------------------------------------------------------------------- */

/* Seconds that the expectation of one sample takes, and a compilation up to there, by counted work. */
HYP_NODISCARD hyp_status hyp_sample_seconds(const hyp_graph *g, const hyp_settings *settings, hyp_draw how, int attempt,
                                            double *out, hyp_diag *diag);
double hyp_compile_seconds(const hyp_graph *imported, const hyp_rewrite_report *rewrite);
/* What of that goes with the bytes of the weights. */
double hyp_storing_seconds(const hyp_graph *imported);

/* ---- golden.c --------------------------------------------------------------------------------------------- */

/* Puts samples with what is expected into the program that is written, as far as its budget goes. */
HYP_NODISCARD hyp_status hyp_golden_add(const hyp_verification *v, hyp_lowered *lowered, hyp_diag *diag);

/* ---- blame.c ---------------------------------------------------------------------------------------------- */

/* Finds out what made a wrong plan, by compiling without some of the rules and nodes, adds it to the message of `diag`,
 * and writes the reduced model that the options ask for. */
typedef void hyp_blame_fn(const char *model_path, const hyp_settings *settings, const hyp_rewrite_report *rewrite,
                          const hyp_verification *v, hyp_diag *diag);
hyp_blame_fn hyp_blame;

/* ---- reduce.c --------------------------------------------------------------------------------------------- */

/* The rules that the caller disabled, and behind them those without which the plan is right. */
typedef struct hyp_suspects {
    const char *const *disabled;
    size_t disabled_count, culprit_count;
} hyp_suspects;

/* Appends which node of the model comes out wrong first with these options, by compiling without what is behind it, and
 * writes a reduced model to `reduced` (NULL: none). What cannot be done, and why, is appended, too. */
void hyp_blame_node(const char *model_path, const hyp_compile_options *options, const hyp_suspects *suspects,
                    const char *reduced, hyp_strbuf *says);

/* ---- compile.c -------------------------------------------------------------------------------------------- */

/* hyp_compile_file, with what is done about a wrong plan; NULL: nothing. */
HYP_NODISCARD hyp_status hyp_compile_once(const char *model_path, const char *plan_path,
                                          const hyp_compile_options *options, hyp_blame_fn *blame,
                                          hyp_compile_report **out_report, hyp_diag *diag);

/* ---- body.c ------------------------------------------------------------------------------------------------ */

/* hyp_onnx_options.compile_body: the body of a loop as a plan, compiled and verified like a model. Its user is the
 * hyp_settings. */
HYP_NODISCARD hyp_status hyp_compile_body(void *settings, const hyp_graph *body, void **out_plan, size_t *out_bytes,
                                          hyp_diag *diag);

/* ---- forms.c --------------------------------------------------------------------------------------------- */

/* A hyp_rewrite_choose_fn that asks who called the compiler; its user is the hyp_settings. */
hyp_rewrite_choose_fn hyp_choose_form;
/* Layers in 8 bits: `opened` and `out` are initialised and empty. */
HYP_NODISCARD hyp_status hyp_quantize(const hyp_settings *settings, const hyp_graph *in, hyp_graph *opened, hyp_graph *out,
                                      hyp_strbuf *layers, hyp_diag *diag);

/* ---- emit.c ----------------------------------------------------------------------------------------------- */

/* Writes the graph where the options' emit_onnx says; `model` is what its constants point into. */
HYP_NODISCARD hyp_status hyp_emit_onnx(const hyp_graph *graph, const hyp_settings *settings, hyp_onnx_model *model,
                                       hyp_diag *diag);

/* ---- recompute.c ------------------------------------------------------------------------------------------ */

/* What nodes of the model compute whose names fit a pattern is computed again in the backward pass of a training step; *out is
 * initialised on success. HYP_ERR_INVALID_ARGUMENT for a pattern that fits no node of the model. */
HYP_NODISCARD hyp_status hyp_recompute_nodes(const hyp_graph *step, const hyp_graph *model, const char *const *patterns,
                                             size_t count, hyp_graph *out, hyp_diag *diag);

/* ---- report.c -------------------------------------------------------------------------------------------- */

/* Copies of what the caller's report needs. `rewrite` NULL: nothing was rewritten; `answer` NULL: nothing was asked. To
 * an answer the steps of the node that was to be explained are added. `layers` and `verified` NULL: there is nothing to
 * say of them. `cut` NULL: nothing was. */
HYP_NODISCARD hyp_status hyp_report_create(const hyp_rewrite_report *rewrite, const HypPlan__Program *program,
                                           const hyp_strbuf *layers, hyp_strbuf *answer, const hyp_strbuf *verified,
                                           const hyp_strbuf *cut, hyp_compile_report **out, hyp_diag *diag);

/* ---- timeline.c ------------------------------------------------------------------------------------------ */

/* Events as they end, in Chrome's trace event format. */
typedef struct hyp_timeline {
    double start; /* of the compilation, by hyp_limit_clock */
    hyp_strbuf text;
} hyp_timeline;
void hyp_timeline_pass(hyp_timeline *t, const char *name, double start, double seconds, size_t nodes);
/* What a part of rewriting took; the user is a hyp_timeline. */
void hyp_timeline_span(const hyp_rewrite_span *span, void *timeline);
/* Ends the compilation, and writes it all. */
HYP_NODISCARD hyp_status hyp_timeline_write(hyp_timeline *t, const char *model, hyp_write_fn write, void *user, hyp_diag *diag);

/* Adds what depends on the machine to a report, the last thing that is filled. */
HYP_NODISCARD hyp_status hyp_report_add_run(hyp_compile_report *report, const hyp_rewrite_record *record,
                                            const hyp_verification *v, hyp_diag *diag);

/* ---- trace.c --------------------------------------------------------------------------------------------- */

/* Where the lines of --dump-rewrites go. */
typedef struct hyp_trace_sink {
    hyp_write_fn write;
    void *user;
    bool failed; /* memory ran out: the dump has holes */
} hyp_trace_sink;
/* One event as a line of JSON; `sink` is a hyp_trace_sink. */
void hyp_trace_write(const hyp_rewrite_trace *event, void *sink);

/* ---- record.c -------------------------------------------------------------------------------------------- */

/* Bytes of each list of a record, and of its graph: together less than HYP_PLAN_MAX_RECORD. */
enum { HYP_RECORD_LIST = 256 << 10, HYP_RECORD_GRAPH = 1 << 20 };
/* Puts the record of this compilation into the program. `g` is what was to be computed; `rewrite` NULL: nothing was
 * rewritten. */
HYP_NODISCARD hyp_status hyp_record_add(const hyp_settings *settings, const hyp_graph *g, const hyp_rewrite_report *rewrite,
                                        const hyp_rewrite_record *record, const hyp_verification *v,
                                        hyp_lowered *lowered, hyp_diag *diag);

/* ---- export.c --------------------------------------------------------------------------------------------- */

/* Puts the model, without the elements of the initializers that are variables of its step, into the program, for
 * hyp_model_export; not where it is too large without them. */
HYP_NODISCARD hyp_status hyp_keep_model(hyp_onnx_model *model, const hyp_graph *step, hyp_lowered *lowered,
                                        hyp_diag *diag);

#endif
