/* cut.h - models made of some of a model's nodes, for finding out which of them matter. */
#ifndef HYP_ONNX_CUT_H
#define HYP_ONNX_CUT_H

#include "onnx/onnx.h"

/* A model whose nodes can be left out. Must not outlive its file. */
typedef struct hyp_onnx_cut hyp_onnx_cut;

/* Reads a model file, and finds the types of its values by an import with these options. HYP_ERR_UNSUPPORTED for a
 * model with external data, one whose nodes are not in order, and one above 256 MiB. On failure *out is untouched. */
HYP_NODISCARD hyp_status hyp_onnx_cut_open(const char *path, const hyp_onnx_options *options, hyp_onnx_cut **out,
                                           hyp_diag *diag);
void hyp_onnx_cut_close(hyp_onnx_cut *cut); /* NULL-safe */

/* The nodes of the graph in the file, in topological order. */
size_t hyp_onnx_cut_count(const hyp_onnx_cut *cut);
/* As the importer calls it; appended. */
void hyp_onnx_cut_name(const hyp_onnx_cut *cut, size_t node, hyp_strbuf *sb);

/* Appends a model file with the nodes for which `keep` is true. What they read from others is an input, what none of
 * them reads is an output, as is what was one. Initializers that nothing reads are left out, and inputs unless
 * `all_inputs`. Constants that others computed become inputs, too, so the model may be one that cannot be imported. */
HYP_NODISCARD hyp_status hyp_onnx_cut_write(hyp_onnx_cut *cut, const bool *keep, bool all_inputs, hyp_strbuf *out,
                                            hyp_diag *diag);

#endif
