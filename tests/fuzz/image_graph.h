/* image_graph.h - graphs of images as networks have them: convolutions and pools side by side over one value, whose results
 * a concatenation puts together, and of so many channels that a CPU's own kernels take them.
 */
#ifndef HYP_TESTS_IMAGE_GRAPH_H
#define HYP_TESTS_IMAGE_GRAPH_H

#include "ir/ir.h"

/* Makes *out over these dims; the same seed gives the same graph. What there is of it after a failure is the caller's to
 * dispose of, too. */
HYP_NODISCARD hyp_status image_graph(uint64_t seed, hyp_dims *dims, hyp_graph *out, hyp_diag *diag);

#endif
