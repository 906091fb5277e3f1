/* Softmax and reductions. Sums are kept in double (integers modulo 2^64) in the order of the elements. */
#include <math.h>
#include <string.h>

#include "ir/op.h"

hyp_status hyp_infer_softmax(const hyp_infer_call *c)
{
    int32_t axis;
    c->out[0].type = c->in[0]->type;
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, c->in[0]->type.rank, &axis));
    return hyp_check_dtype(c, HYP_CLASS_FLOAT);
}

hyp_status hyp_infer_softmax_stats(const hyp_infer_call *c)
{
    int32_t axis;
    HYP_TRY(hyp_infer_softmax(c));
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, c->in[0]->type.rank, &axis));
    c->out[0].type.dims[axis] = 1;
    c->out[0].type.dtype = hyp_dtype_wide(c->in[0]->type.dtype);
    c->out[1].type = c->out[0].type;
    return HYP_OK;
}

hyp_status hyp_infer_softmax_gradient(const hyp_infer_call *c)
{
    HYP_TRY(hyp_infer_softmax(c));
    return hyp_check_alike(c, 1);
}

hyp_status hyp_eval_softmax(const hyp_eval_call *c)
{
    const hyp_eval_tensor *x = c->in[0];
    int64_t axis = c->attrs[0].i < 0 ? c->attrs[0].i + x->rank : c->attrs[0].i;
    size_t size = (size_t)x->dims[axis], inner = 1;
    if (x->count == 0) return HYP_OK;
    for (int64_t i = axis + 1; i < x->rank; i++) inner *= (size_t)x->dims[i];
    for (size_t start = 0; start < x->count; start += size * inner)
        for (size_t lane = start; lane < start + inner; lane++) {
            const double *from = x->f + lane;
            double *to = c->out[0].f + lane, top = -INFINITY, sum = 0;
            for (size_t i = 0; i < size; i++) top = from[i * inner] > top ? from[i * inner] : top;
            for (size_t i = 0; i < size; i++) sum += to[i * inner] = exp(from[i * inner] - top);
            for (size_t i = 0; i < size; i++) to[i * inner] /= sum;
        }
    return HYP_OK;
}

/* x without the axes of attribute 0, or with size 1 in their place if attribute 1. */
hyp_status hyp_infer_reduce_any(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    bool reduced[HYP_MAX_RANK];
    hyp_type t = {.dtype = x->dtype};
    HYP_TRY(hyp_check_axes(c, &c->attrs[0], x->rank, reduced));
    for (int32_t i = 0; i < x->rank; i++) {
        if (!reduced[i])
            t.dims[t.rank++] = x->dims[i];
        else if (c->attrs[1].i)
            t.dims[t.rank++] = 1;
    }
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_infer_reduce(const hyp_infer_call *c)
{
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    return hyp_infer_reduce_any(c);
}

hyp_status hyp_infer_argmax(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    hyp_type t = {.dtype = HYP_I64};
    int32_t axis = 0;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_NUMERIC));
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, x->rank, &axis));
    if (x->dims[axis] == 0) return hyp_infer_fail(c, "axis %d of %s is empty", axis, hyp_infer_type_text(c, x));
    for (int32_t i = 0; i < x->rank; i++)
        if (i != axis || c->attrs[1].i) t.dims[t.rank++] = i == axis ? 1 : x->dims[i];
    c->out[0].type = t;
    return HYP_OK;
}

static void finish_mean(hyp_eval_tensor *out, int64_t count)
{
    for (size_t i = 0; i < out->count; i++) {
        if (out->f)
            out->f[i] /= (double)count; /* the mean of nothing is NaN */
        else if (out->dtype == HYP_U64)
            out->i[i] = count ? (int64_t)((uint64_t)out->i[i] / (uint64_t)count) : 0;
        else
            out->i[i] = count ? out->i[i] / count : 0;
    }
}

hyp_status hyp_eval_reduce(const hyp_eval_call *c)
{
    const hyp_eval_tensor *x = c->in[0];
    hyp_eval_tensor *out = &c->out[0];
    bool reduced[HYP_MAX_RANK] = {false};
    int64_t kept[HYP_MAX_RANK], each = 1;
    for (uint32_t i = 0; i < c->attrs[0].count; i++) {
        hyp_dim axis = c->attrs[0].dims[i];
        reduced[axis < 0 ? axis + x->rank : axis] = true;
    }
    for (int32_t i = 0; i < x->rank; i++) {
        kept[i] = reduced[i] ? 1 : x->dims[i];
        if (reduced[i] && !hyp_mul_i64(each, x->dims[i], &each)) each = 0; /* x is empty, or it would not fit */
    }
    hyp_walk w = {.rank = x->rank};
    memcpy(w.dims, x->dims, sizeof w.dims);
    hyp_walk_broadcast(&w, 0, x->rank, kept);
    hyp_walk_broadcast(&w, 1, x->rank, x->dims);
    for (size_t i = 0; i < out->count; i++) {
        if (out->f)
            out->f[i] = 0;
        else
            out->i[i] = 0;
    }
    for (hyp_walk_start(&w); w.row >= 0; hyp_walk_next(&w))
        for (int64_t i = 0; i < w.row; i++) {
            int64_t to = w.at[0] + i * w.step[0], from = w.at[1] + i * w.step[1];
            if (out->f)
                out->f[to] += x->f[from];
            else
                out->i[to] = (int64_t)((uint64_t)out->i[to] + (uint64_t)x->i[from]);
        }
    if (c->op == HYP_OP_reduce_mean) finish_mean(out, each);
    return HYP_OK;
}
