/* nn_oracle.h - the functions of hypatia/nn.h against plain loops in double that share nothing with them. */
#ifndef HYP_TESTS_NN_ORACLE_H
#define HYP_TESTS_NN_ORACLE_H

#include "hypatia/nn.h"

enum { NN_LAYERS = 5 };

/* A network, what is wanted of its backward pass, and how its tensors lie. */
typedef struct nn_case {
    hyp_dtype dtype;
    bool tf32;
    size_t count;                       /* layers */
    int64_t rows, width[1 + NN_LAYERS]; /* width[0]: of x */
    hyp_nn_act act[NN_LAYERS];
    bool bias[NN_LAYERS], dw[NN_LAYERS], db[NN_LAYERS], dx;
    bool accumulate, accumulate_input;
    int64_t pad_x, pad_y, pad_dx; /* elements between rows */
    int32_t rank;                 /* of x: 1 has one row */
    bool twice;                   /* results may be rounded before a bias is added, too */
} nn_case;

/* Numbers of a case and what follows from them; matrices are dense. */
typedef struct nn_numbers {
    double *x, *w[NN_LAYERS], *b[NN_LAYERS], *dy;
    double *y, *dx, *dw[NN_LAYERS], *db[NN_LAYERS]; /* made by nn_oracle */
} nn_numbers;

/* Numbers that products of f32 do not round, so that no relu depends on the order of a sum, or any between -1 and 1. */
nn_numbers nn_draw(const nn_case *c, bool coarse, uint64_t *seed);
void nn_free(nn_numbers *n);
/* Both passes. Values and gradients between layers are rounded to the type, or not. */
void nn_oracle(const nn_case *c, bool rounds, nn_numbers *n);

uint64_t nn_random(uint64_t *seed);
/* Layers of so many widths, with every bias and every gradient. */
nn_case nn_full_case(hyp_dtype dtype, int64_t rows, size_t count, const int64_t *widths, const hyp_nn_act *acts);
/* A network of any form, small. */
nn_case nn_draw_case(uint64_t *seed, hyp_dtype dtype, bool tf32);

/* A network on a device. Padding between rows of outputs holds a number that nothing may change. */
typedef struct nn_tensors {
    hyp_nn_layer layers[NN_LAYERS];
    hyp_nn_gradient gradients[NN_LAYERS];
    hyp_tensor x, y, saved, dy, dx;
    int64_t x_strides[HYP_MAX_RANK], y_strides[HYP_MAX_RANK], dx_strides[HYP_MAX_RANK];
    hyp_nn_run_options options;
} nn_tensors;
/* Memory of the handle's device with the numbers in it; what is accumulated to begins as `before`, x is all of a case's
 * rows. */
void nn_place(hyp_nn *nn, const nn_case *c, const nn_numbers *n, double before, nn_tensors *out);
void nn_unplace(hyp_nn *nn, const nn_case *c, nn_tensors *t);
/* Elements of a tensor whose rows are so far apart. The caller's: free. */
double *nn_fetch(hyp_nn *nn, const hyp_tensor *t, int64_t rows, int64_t columns, int64_t ld);

/* The options of a case's calls. */
const hyp_nn_run_options *nn_options(const nn_case *c, nn_tensors *t);
hyp_status nn_forward(hyp_nn *nn, const nn_case *c, nn_tensors *t, bool saves, hyp_diag *diag);
hyp_status nn_backward(hyp_nn *nn, const nn_case *c, nn_tensors *t, hyp_diag *diag);
hyp_status nn_reserve(hyp_nn *nn, const nn_case *c, nn_tensors *t, hyp_diag *diag);

/* Runs a case with and without what is saved, twice, and compares; fails the test where something is wrong. */
void nn_check(hyp_nn *nn, const nn_case *c, uint64_t *seed);
/* Many cases of all types; all of them `twice`, or none. */
void nn_check_all(hyp_nn *nn, int cases, bool twice);
/* Calls that are wrong in one way each. */
void nn_check_refusals(hyp_nn *nn);

#endif
