/* Attention: the scores of one row at a time, in double, rounded only where the result is stored. */
#include <math.h>

#include "base/dtype.h"
#include "runtime/reference/reference.h"

/* An operand at one index of the batch. */
typedef struct matrix {
    const void *data;
    hyp_dtype dtype;
    int64_t first, row, column;
} matrix;

static double element(const matrix *x, int64_t i, int64_t j)
{
    return hyp_load_f64(x->dtype, x->data, (size_t)(x->first + i * x->row + j * x->column));
}

static matrix matrix_of(const hyp_reference_call *call, const HypPlan__Attention__Operand *o, int64_t first)
{
    return (matrix){call->at[o->tensor], hyp_tensor_dtype(call->program, o->tensor), first,
                    call->values[o->strides[o->n_strides - 2]], call->values[o->strides[o->n_strides - 1]]};
}

/* The probabilities of row i. mask may be NULL. */
static void attend(const HypPlan__Attention *s, const matrix *q, const matrix *k, const matrix *mask, int64_t i,
                   int64_t keys, int64_t width, double *p)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        double dot = 0;
        for (int64_t l = 0; l < width; l++) dot += element(q, i, l) * element(k, j, l);
        p[j] = (double)s->scale * dot;
        if (mask && mask->dtype == HYP_BOOL)
            p[j] = (element(mask, i, j) != 0) != (s->shown != 0) ? (double)s->fill : p[j];
        else if (mask)
            p[j] += element(mask, i, j);
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j < keys; j++) sum += p[j] = exp(p[j] - most);
    for (int64_t j = 0; j < keys; j++) p[j] /= sum;
}

void hyp_reference_attention(const hyp_reference_call *call, const HypPlan__Attention *s)
{
    const HypPlan__Attention__Operand *operands[] = {s->q, s->k, s->v, s->y, s->mask};
    int64_t rows = call->values[s->rows], keys = call->values[s->keys], width = call->values[s->width],
            columns = call->values[s->columns];
    hyp_dtype t = hyp_tensor_dtype(call->program, s->y->tensor);
    double *p = call->work;
    void *out = call->at[s->y->tensor];
    hyp_walk w;
    hyp_walk_init(&w, call->values, s->batch, s->n_batch);
    for (int o = 0; o < (s->mask ? 5 : 4); o++)
        hyp_walk_lane(&w, call->values, operands[o]->strides, call->values[operands[o]->offset]);
    int64_t count = columns > 0 ? hyp_walk_count(&w) : 0;
    for (int64_t batch = 0; batch < count; batch++, hyp_walk_next(&w)) {
        matrix q = matrix_of(call, s->q, w.offset[0]), k = matrix_of(call, s->k, w.offset[1]),
               v = matrix_of(call, s->v, w.offset[2]), y = matrix_of(call, s->y, w.offset[3]), mask = {0};
        if (s->mask) mask = matrix_of(call, s->mask, w.offset[4]);
        for (int64_t i = 0; i < rows; i++) {
            attend(s, &q, &k, s->mask ? &mask : NULL, i, keys, width, p);
            for (int64_t l = 0; l < columns; l++) {
                double sum = 0;
                for (int64_t j = 0; j < keys; j++) sum += p[j] * element(&v, j, l);
                hyp_store_f64(t, out, (size_t)(y.first + i * y.row + l * y.column), sum);
            }
        }
    }
}
