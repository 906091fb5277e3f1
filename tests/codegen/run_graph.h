/* run_graph.h - one graph run in two ways: by the interpreter, and as a plan by the runtime. */
#ifndef HYP_TESTS_RUN_GRAPH_H
#define HYP_TESTS_RUN_GRAPH_H

#include "codegen/codegen.h"
#include "hypatia/runtime.h"

/* Lowers the graph and writes its plan, with updates where constants may be replaced. */
hyp_status write_plan(const hyp_graph *g, const char *path, hyp_diag *diag);

/* Runs the plan at `path` on these inputs, on a device that computes on the CPU. outputs[i] gets memory of the size
 * that the interpreter's result has; its dims are what the runtime says. The data are the caller's: hyp_free. */
hyp_status run_plan(const char *path, hyp_device_kind device, const hyp_tensor *inputs, size_t input_count,
                    const hyp_eval_tensor *like, hyp_tensor *outputs, size_t output_count, hyp_diag *diag);

/* Runs the interpreter; results[i] is for output i, hyp_eval_tensor_dispose. */
hyp_status run_interpreter(const hyp_graph *g, hyp_eval_mode mode, const hyp_tensor *inputs, hyp_eval_tensor *results,
                           hyp_diag *diag);

/* The same natively, with what an implementation may be off by: hyp_graph_expect. Both arrays are of the outputs. */
hyp_status run_expecting(const hyp_graph *g, const hyp_tensor *inputs, hyp_eval_tensor *results,
                         hyp_eval_tensor *tolerances, hyp_diag *diag);
/* True when every element is within its tolerance. */
bool results_expected(const hyp_tensor *got, const hyp_eval_tensor *want, const hyp_eval_tensor *tolerance,
                      hyp_diag *diag);

/* True when shapes agree and every element is within tolerance * (1 + |want|); integers must be equal. Infinities
 * agree with themselves, NaN with itself or, when `nan_is_free`, with anything: libraries fuse relu into products in
 * ways that lose it. Writes what differs to diag. */
bool results_agree(const hyp_tensor *got, const hyp_eval_tensor *want, double tolerance, bool nan_is_free,
                   hyp_diag *diag);

#endif
