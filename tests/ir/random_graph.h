/* Random valid graphs over the whole operator table. */
#ifndef HYP_TESTS_IR_RANDOM_GRAPH_H
#define HYP_TESTS_IR_RANDOM_GRAPH_H

#include "ir_test.h"

/* Two inputs with symbolic dims over the symbols "n" and "m", then about `nodes` nodes of any operators, weights
 * where an operator wants them, names and provenance in places, every unread value an output. */
hyp_graph random_graph(hyp_dims *dims, rng *r, int nodes);

/* An input tensor for every graph input, with n and m as given: small numbers, exact in f16. Freed by
 * hyp_eval_tensor_dispose. */
void random_inputs(const hyp_graph *g, rng *r, int64_t n, int64_t m, hyp_eval_tensor *out);

#endif
