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

/* Rows of a matrix in one part or two: the first ones and, further down, the others. */
typedef struct parts {
    matrix first, more;
    int64_t count; /* of the first */
} parts;

static double part_element(const parts *x, int64_t i, int64_t j)
{
    return i < x->count ? element(&x->first, i, j) : element(&x->more, i - x->count, j);
}

/* The weights of row i: probabilities, or scores as they are. mask may be NULL. */
static void attend(const HypPlan__Attention *s, const matrix *q, const parts *k, const matrix *mask, int64_t i,
                   int64_t keys, int64_t width, double *p)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        double dot = 0;
        for (int64_t l = 0; l < width; l++) dot += element(q, i, l) * part_element(k, j, l);
        p[j] = (double)s->scale * dot;
        if (mask && mask->dtype == HYP_BOOL)
            p[j] = (element(mask, i, j) != 0) != (s->shown != 0) ? (double)s->fill : p[j];
        else if (mask)
            p[j] += element(mask, i, j);
        most = fmax(most, p[j]);
    }
    if (s->plain) return;
    for (int64_t j = 0; j < keys; j++) sum += p[j] = exp(p[j] - most);
    for (int64_t j = 0; j < keys; j++) p[j] /= sum;
}

void hyp_reference_attention(const hyp_reference_call *call, const HypPlan__Attention *s)
{
    enum { Q, K, V, Y, MASK, MORE_K, MORE_V, OPERANDS };
    const HypPlan__Attention__Operand *operands[OPERANDS] = {s->q, s->k, s->v, s->y, s->mask, s->more_k, s->more_v};
    int64_t rows = call->values[s->rows], keys = call->values[s->keys], width = call->values[s->width],
            columns = call->values[s->columns];
    int64_t first = s->more_k ? call->values[s->first_keys] : keys;
    hyp_dtype t = hyp_tensor_dtype(call->program, s->y->tensor);
    double *p = call->work;
    void *out = call->at[s->y->tensor];
    hyp_walk w;
    hyp_walk_init(&w, call->values, s->batch, s->n_batch);
    for (int o = 0; o < OPERANDS; o++) {
        if (!operands[o]) operands[o] = s->q; /* any will do */
        hyp_walk_lane(&w, call->values, operands[o]->strides, call->values[operands[o]->offset]);
    }
    int64_t count = columns > 0 ? hyp_walk_count(&w) : 0;
    for (int64_t batch = 0; batch < count; batch++, hyp_walk_next(&w)) {
        matrix x[OPERANDS];
        for (int o = 0; o < OPERANDS; o++) x[o] = matrix_of(call, operands[o], w.offset[o]);
        parts k = {x[K], x[MORE_K], first}, v = {x[V], x[MORE_V], first};
        for (int64_t i = 0; i < rows; i++) {
            attend(s, &x[Q], &k, s->mask ? &x[MASK] : NULL, i, keys, width, p);
            for (int64_t l = 0; l < columns; l++) {
                double sum = 0;
                for (int64_t j = 0; j < keys; j++) sum += p[j] * part_element(&v, j, l);
                hyp_store_f64(t, out, (size_t)(x[Y].first + i * x[Y].row + l * x[Y].column), sum);
            }
        }
    }
}
