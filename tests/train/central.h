/* Gradients against central differences, in double: what the tests of src/train share. */
#ifndef HYP_TESTS_TRAIN_CENTRAL_H
#define HYP_TESTS_TRAIN_CENTRAL_H

#include "ir/ir_test.h"
#include "train/train.h"

/* What a check found. */
typedef struct central {
    size_t checked; /* elements whose gradients were compared, apart from those on which nothing depends */
    size_t skipped; /* elements at which differences of two widths do not agree: there is a kink nearby */
    bool differentiated[HYP_OP_COUNT]; /* operators through which a gradient went */
} central;

/* From 0 to below 1. */
double uniform(rng *r);
/* Inputs of a graph whose symbols have these values: floats from low to high, integers from 0 to `below` - 1. */
void draw_inputs(const hyp_graph *g, rng *r, double low, double high, int64_t below, const int64_t *symbols,
                 hyp_eval_tensor *out);

/* Adds the loss to `g`: the sum of all elements of all outputs of floats, each times a number of its own, which are
 * further inputs. Then compares the gradients by all inputs of floats that it had with differences at these inputs,
 * which are disposed of. Fails the test where they are not equal, beside kinks. `g` has the gradients as outputs
 * afterwards. */
void check_central(hyp_graph *g, const char *what, rng *r, hyp_eval_tensor *inputs, const int64_t *symbols,
                   central *found);

/* The same graph, in native arithmetic: every gradient is within `room` of that in double, relative to the largest element of any,
 * or to 1 where that is less. Inputs become numbers of their types. */
void check_native(hyp_graph *g, const char *what, rng *r, hyp_eval_tensor *inputs, const int64_t *symbols, double room);

#endif
