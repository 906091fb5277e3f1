/* gradient.h - what the differentiation of a graph and the making of a step share: private to src/train. */
#ifndef HYP_TRAIN_GRADIENT_H
#define HYP_TRAIN_GRADIENT_H

#include "ir/ir.h"

/* reached[i]: what becomes of `from` depends on wrt[i] in a way that has a gradient. HYP_ERR_UNSUPPORTED as
 * hyp_differentiate. */
HYP_NODISCARD hyp_status hyp_gradient_reach(const hyp_graph *g, hyp_value_id from, const hyp_value_id *wrt,
                                            size_t count, bool *reached, hyp_diag *diag);

/* As hyp_differentiate, from any value of floats whose own gradient, of its type, is known. */
HYP_NODISCARD hyp_status hyp_gradient_from(hyp_graph *g, hyp_value_id from, hyp_value_id gradient,
                                           const hyp_value_id *wrt, size_t count, hyp_value_id *gradients,
                                           hyp_diag *diag);

#endif
