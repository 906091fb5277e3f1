/* golden_ops.h - the cases of tests/golden/ops: graphs of one operator, inputs, and what numpy and onnxruntime gave. */
#ifndef HYP_TESTS_GOLDEN_OPS_H
#define HYP_TESTS_GOLDEN_OPS_H

#include "ir/ir.h"

enum { GOLDEN_MAX = 16 };

typedef struct golden_case {
    const char *op, *name;
    hyp_graph graph; /* verified; its first node is of the operator */
    hyp_eval_tensor inputs[GOLDEN_MAX], wanted[GOLDEN_MAX];
    size_t input_count;
} golden_case;

/* Calls `visit` for every case of every operator; what is wrong with a file fails the test. */
void golden_ops_visit(void (*visit)(const golden_case *c, void *user), void *user);

/* |got - wanted| <= tolerance (1 + |wanted|), integers equal, NaN equal to itself; fails the test where not. */
void golden_ops_compare(const golden_case *c, const hyp_eval_tensor *got, const hyp_eval_tensor *wanted, double tolerance);

/* Rounding to the element type, once per step of the worst chain of the cases. */
double golden_ops_tolerance(hyp_dtype t);

#endif
