/* Attention. As every fused operator it gives what its parts give one after the other: in HYP_EVAL_NATIVE the scores,
 * their sums with the mask and the probabilities are rounded as if a node of its own had computed each. */
#include <math.h>
#include <string.h>

#include "ir/op.h"

/* ---- inference -------------------------------------------------------------------------------------- */

static hyp_type leading(const hyp_type *t)
{
    hyp_type batch = *t;
    batch.rank -= 2;
    return batch;
}

/* The mask is of q's type or bool, and adds no axis and no element to the scores. */
static hyp_status check_mask(const hyp_infer_call *c, const hyp_infer_value *mask, const hyp_type *scores)
{
    if (!mask) return HYP_OK;
    hyp_type both = *scores;
    if (mask->type.dtype != scores->dtype && mask->type.dtype != HYP_BOOL)
        return hyp_infer_fail(c, "the mask is %s; %s or bool is wanted", hyp_infer_type_text(c, &mask->type),
                              hyp_dtype_name(scores->dtype));
    HYP_TRY(hyp_broadcast(c, &mask->type, scores, &both));
    if (hyp_type_equal(&both, scores)) return HYP_OK;
    return hyp_infer_fail(c, "the mask %s does not broadcast to the scores %s", hyp_infer_type_text(c, &mask->type),
                          hyp_infer_type_text(c, scores));
}

hyp_status hyp_infer_attention(const hyp_infer_call *c)
{
    const hyp_type *types[3];
    for (uint32_t i = 0; i < 3; i++) {
        if (!c->in[i]) return hyp_infer_fail(c, "input %u is absent; only the mask may be", i);
        types[i] = &c->in[i]->type;
        if (types[i]->rank < 2)
            return hyp_infer_fail(c, "input %u is %s, a matrix at least is wanted", i,
                                  hyp_infer_type_text(c, types[i]));
        if (!hyp_dtype_is_float(types[i]->dtype) || types[i]->dtype != types[0]->dtype)
            return hyp_infer_fail(c, "input %u is %s; q, k and v of one floating-point type are wanted", i,
                                  hyp_infer_type_text(c, types[i]));
    }
    const hyp_type *q = types[0], *k = types[1], *v = types[2];
    bool trans = c->attrs[0].i != 0;
    if (c->attrs[5].i == 0 && hyp_infer_input(c, 3))
        return hyp_infer_fail(c, "softmax is 0 and there is a mask, which only a softmax has; leave one of them out");
    hyp_dim m = q->dims[q->rank - 2], n = k->dims[k->rank - (trans ? 2 : 1)], p = v->dims[v->rank - 1];
    if (!hyp_check_equal(c, q->dims[q->rank - 1], k->dims[k->rank - (trans ? 1 : 2)]))
        return hyp_infer_fail(c, "q %s and k %s differ in width", hyp_infer_type_text(c, q), hyp_infer_type_text(c, k));
    if (!hyp_check_equal(c, n, v->dims[v->rank - 2]))
        return hyp_infer_fail(c, "k %s and v %s differ in length", hyp_infer_type_text(c, k),
                              hyp_infer_type_text(c, v));
    hyp_type a = leading(q), b = leading(k), scores = {.dtype = q->dtype}, out = scores;
    HYP_TRY(hyp_broadcast(c, &a, &b, &scores));
    b = leading(v);
    HYP_TRY(hyp_broadcast(c, &scores, &b, &out));
    scores = out;
    scores.dims[scores.rank++] = m;
    scores.dims[scores.rank++] = n;
    HYP_TRY(check_mask(c, hyp_infer_input(c, 3), &scores));
    int64_t behind = c->attrs[1].i;
    if (behind < 0 || behind > out.rank)
        return hyp_infer_fail(c, "rows-first is %lld, there are %d axes of heads", (long long)behind, out.rank);
    int32_t at = out.rank++ - (int32_t)behind;
    memmove(out.dims + at + 1, out.dims + at, (size_t)behind * sizeof *out.dims);
    out.dims[at] = m;
    out.dims[out.rank++] = p;
    c->out[0].type = out;
    return HYP_OK;
}

/* Input i is of q's type and of these dims. */
static hyp_status check_dims(const hyp_infer_call *c, uint32_t i, const hyp_dim *dims)
{
    const hyp_type *q = &c->in[0]->type, *t = &c->in[i]->type;
    hyp_type wanted = *q;
    memcpy(wanted.dims, dims, (size_t)q->rank * sizeof *dims);
    bool fits = t->dtype == q->dtype && t->rank == q->rank;
    for (int32_t a = 0; a < q->rank && fits; a++) fits = hyp_check_equal(c, t->dims[a], dims[a]);
    if (fits) return HYP_OK;
    return hyp_infer_fail(c, "input %u is %s, %s is wanted", i, hyp_infer_type_text(c, t), hyp_infer_type_text(c, &wanted));
}

hyp_status hyp_infer_attention_gradient(const hyp_infer_call *c)
{
    enum { Q, K, V, Y, G, MASK };
    bool rows_first = c->attrs[0].i != 0;
    const hyp_type *q = &c->in[Q]->type, *v = &c->in[V]->type;
    int32_t rank = q->rank, row = rank - 2 - rows_first;
    if (row < 0 || rank > 4 || v->rank != rank || !hyp_dtype_is_float(q->dtype))
        return hyp_infer_fail(c, "q is %s and v %s; %d to 4 axes of each, and floats, are wanted", hyp_infer_type_text(c, q),
                              hyp_infer_type_text(c, v), 2 + rows_first);
    hyp_type scores = *q, of = *q;
    hyp_dim rows = q->dims[row], keys = v->dims[row], width = q->dims[rank - 1], columns = v->dims[rank - 1];
    of.dims[row] = keys, of.dims[rank - 1] = columns;
    HYP_TRY(check_dims(c, V, of.dims));
    of.dims[row] = rows;
    HYP_TRY(check_dims(c, Y, of.dims));
    HYP_TRY(check_dims(c, G, of.dims));
    of.dims[row] = keys, of.dims[rank - 1] = width;
    HYP_TRY(check_dims(c, K, of.dims));
    if (rows_first) scores.dims[rank - 3] = q->dims[rank - 2];
    scores.dims[rank - 2] = rows, scores.dims[rank - 1] = keys;
    HYP_TRY(check_mask(c, hyp_infer_input(c, MASK), &scores));
    for (uint32_t i = 0; i < 3; i++) c->out[i].type = c->in[i]->type;
    return HYP_OK;
}

/* ---- evaluation ------------------------------------------------------------------------------------- */

/* The place in t, of which the last `skip` axes do not count, of an index into a space that it is broadcast to. */
static int64_t place(const hyp_eval_tensor *t, int32_t skip, int32_t rank, const int64_t *index)
{
    int32_t own = t->rank - skip;
    int64_t at = 0;
    for (int32_t a = 0; a < own; a++) at = at * t->dims[a] + (t->dims[a] == 1 ? 0 : index[rank - own + a]);
    return at;
}

static double rounded(const hyp_eval_call *c, double x)
{
    uint64_t narrow;
    if (c->mode == HYP_EVAL_DOUBLE) return x;
    hyp_store_f64(c->out[0].dtype, &narrow, 0, x);
    return hyp_load_f64(c->out[0].dtype, &narrow, 0);
}

/* Probabilities of the scores, in place. */
static void softmax(const hyp_eval_call *c, double *scores, int64_t n)
{
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) top = scores[j] > top ? scores[j] : top;
    for (int64_t j = 0; j < n; j++) sum += scores[j] = exp(scores[j] - top);
    for (int64_t j = 0; j < n; j++) scores[j] = rounded(c, scores[j] / sum);
}

/* The scores of one row of q against all keys. `index` is that of the row, with the axis of keys behind it. */
static void score(const hyp_eval_call *c, const double *q, int32_t rank, int64_t *index, int64_t n, int64_t width,
                  double *scores)
{
    const hyp_eval_tensor *k = c->in[1], *mask = hyp_eval_input(c, 3);
    bool trans = c->attrs[0].i != 0;
    const double *keys = k->f + place(k, 2, rank, index) * n * width;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < width; l++) sum += q[l] * keys[trans ? j * width + l : l * n + j];
        scores[j] = rounded(c, sum * c->attrs[2].f);
        if (!mask) continue;
        index[rank + 1] = j;
        int64_t at = place(mask, 0, rank + 2, index);
        if (mask->f)
            scores[j] = rounded(c, scores[j] + mask->f[at]);
        else if ((mask->i[at] != 0) != (c->attrs[4].i != 0))
            scores[j] = rounded(c, c->attrs[3].f);
    }
}

hyp_status hyp_eval_attention(const hyp_eval_call *c)
{
    const hyp_eval_tensor *q = c->in[0], *v = c->in[2];
    hyp_eval_tensor *out = &c->out[0];
    int32_t rank = out->rank - 2, behind = (int32_t)c->attrs[1].i; /* the axes of heads behind the rows of the result */
    int64_t m = q->dims[q->rank - 2], width = q->dims[q->rank - 1], n = v->dims[v->rank - 2], p = v->dims[v->rank - 1];
    int64_t index[HYP_MAX_RANK] = {0}, dims[HYP_MAX_RANK]; /* of (batch, row): the result in the order of the scores */
    int64_t heads = 1;
    if (out->count == 0) return HYP_OK;
    for (int32_t a = 0; a < rank; a++) {
        dims[a] = out->dims[a + (a >= rank - behind)];
        if (a >= rank - behind) heads *= dims[a];
    }
    dims[rank] = m;
    double *scores = hyp_calloc((size_t)n + 1, sizeof *scores);
    if (!scores) return hyp_fail_memory(c->diag, (size_t)n * sizeof *scores);
    for (int64_t row = 0; row < (int64_t)out->count / p; row++) {
        int64_t rest = row;
        for (int32_t a = rank; a >= 0; rest /= dims[a--]) index[a] = rest % dims[a];
        int64_t i = index[rank], batch = row / m;
        score(c, q->f + (place(q, 2, rank, index) * m + i) * width, rank, index, n, width, scores);
        if (c->attrs[5].i) softmax(c, scores, n);
        const double *values = v->f + place(v, 2, rank, index) * n * p;
        double *y = out->f + ((batch / heads * m + i) * heads + batch % heads) * p;
        for (int64_t j = 0; j < p; j++) y[j] = 0;
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < p; l++) y[l] += scores[j] * values[j * p + l];
    }
    hyp_free(scores);
    return HYP_OK;
}
