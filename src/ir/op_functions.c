/* op_functions.c - what infers and what evaluates an operator, generated from ops.def. */
#include "ir/op.h"

static const hyp_op_functions functions[] = {
#define OP(id, name, lo, hi, outs, flags, infer, eval, attrs, gradient, doc) {hyp_infer_##infer, hyp_eval_##eval},
#include "ir/ops.def"
};

hyp_op_functions hyp_op_get_functions(hyp_op op) { return functions[op]; }
