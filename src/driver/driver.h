/* driver.h - what the files of the driver share. The driver alone sees the whole compiler. */
#ifndef HYP_DRIVER_DRIVER_H
#define HYP_DRIVER_DRIVER_H

#include "codegen/codegen.h"
#include "hypatia/compiler.h"
#include "onnx/onnx.h"
#include "rewrite/rewrite.h"

/* ---- options.c: the caller's options, checked, with their files read ------------------------------------ */

typedef struct hyp_settings {
    hyp_compile_options options; /* target and precision are never NULL */
    hyp_precision precision;
    hyp_roofline cost;
    const char **rule_texts; /* by rule file */
    hyp_arena arena;         /* owns the texts, the profile and the sizes of symbols */
} hyp_settings;

/* `options` may be NULL: defaults. On failure *out needs no disposal. */
HYP_NODISCARD hyp_status hyp_settings_init(const hyp_compile_options *options, hyp_settings *out, hyp_diag *diag);
void hyp_settings_dispose(hyp_settings *settings);
/* Sets what the symbols of these dims count as in costs. HYP_ERR_INVALID_ARGUMENT for a name that none has. */
HYP_NODISCARD hyp_status hyp_settings_sizes(hyp_settings *settings, const hyp_dims *dims, hyp_diag *diag);
/* The rewriter's view of the settings; borrows them. */
hyp_rewrite_options hyp_settings_rewrite(hyp_settings *settings);

/* ---- reference.c ------------------------------------------------------------------------------------------ */

/* The tensor of input i: the one of its name, else the one at its position that has no name; NULL for none. */
const hyp_tensor *hyp_find_input(const hyp_graph *g, size_t i, const hyp_tensor *inputs, size_t count);
/* The inputs of a graph for the interpreter; `out`, zeroed, has room for all, and the caller disposes of them also
 * on failure. */
HYP_NODISCARD hyp_status hyp_load_inputs(const hyp_graph *g, const hyp_tensor *inputs, size_t count,
                                         hyp_eval_tensor *out, hyp_diag *diag);

/* ---- samples.c -------------------------------------------------------------------------------------------- */

/* Runs the calibration's graph on every sample, one after the other. */
HYP_NODISCARD hyp_status hyp_run_samples(hyp_calibration *c, const hyp_samples *samples, size_t count, hyp_diag *diag);

/* ---- report.c -------------------------------------------------------------------------------------------- */

/* Copies of what the caller's report needs. `rewrite` NULL: nothing was rewritten; `answer` NULL: nothing was asked. To
 * an answer the steps of the node that was to be explained are added. `layers` NULL: there is nothing to say of them.
 */
HYP_NODISCARD hyp_status hyp_report_create(const hyp_rewrite_report *rewrite, const HypPlan__Program *program,
                                           const hyp_strbuf *layers, hyp_strbuf *answer, hyp_compile_report **out,
                                           hyp_diag *diag);

/* ---- trace.c --------------------------------------------------------------------------------------------- */

/* Where the lines of --dump-rewrites go. */
typedef struct hyp_trace_sink {
    hyp_write_fn write;
    void *user;
    bool failed; /* memory ran out: the dump has holes */
} hyp_trace_sink;
/* One event as a line of JSON; `sink` is a hyp_trace_sink. */
void hyp_trace_write(const hyp_rewrite_trace *event, void *sink);

#endif
