/* Operators that move elements and compute nothing. Their evaluation is a strided copy of 8-byte elements;
 * it also moves contents (infer.c), so it must not look at the elements of anything but gather's indices. */
#include <string.h>

#include "ir/op.h"

/* The elements, whatever they are. */
static void *elements(const hyp_eval_tensor *t) { return t->f ? (void *)t->f : (void *)t->i; }

/* ---- views ------------------------------------------------------------------------------------------ */

hyp_status hyp_infer_same(const hyp_infer_call *c)
{
    c->out[0].type = c->in[0]->type;
    return HYP_OK;
}

hyp_status hyp_infer_dropout(const hyp_infer_call *c)
{
    double ratio = c->attrs[0].f;
    if (!(ratio >= 0 && ratio <= 1)) return hyp_infer_fail(c, "the ratio is %g, wanted is one from 0 to 1", ratio);
    return hyp_infer_same(c);
}

hyp_status hyp_eval_identity(const hyp_eval_call *c)
{
    if (c->out[0].count) memcpy(elements(&c->out[0]), elements(c->in[0]), c->out[0].count * sizeof(double));
    return HYP_OK;
}

hyp_status hyp_infer_reshape(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    hyp_type t = {.dtype = x->dtype};
    hyp_dim have, want;
    HYP_TRY(hyp_check_shape(c, &c->attrs[0], &t));
    HYP_TRY(hyp_type_elements(c->dims, x, &have, c->diag));
    HYP_TRY(hyp_type_elements(c->dims, &t, &want, c->diag));
    if (!hyp_check_equal(c, have, want))
        return hyp_infer_fail(c, "%s has %s elements, the new shape %s has %s", hyp_infer_type_text(c, x),
                              hyp_infer_dim_text(c, have), hyp_infer_type_text(c, &t), hyp_infer_dim_text(c, want));
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_infer_flatten(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    hyp_type rows = {.rank = 0}, columns = {.rank = 0}, *t = &c->out[0].type;
    int64_t axis = c->attrs[0].i;
    if (axis < -x->rank || axis > x->rank)
        return hyp_infer_fail(c, "axis %lld is outside [%d, %d]", (long long)axis, -x->rank, x->rank);
    if (axis < 0) axis += x->rank;
    for (int32_t i = 0; i < x->rank; i++) {
        hyp_type *part = i < axis ? &rows : &columns;
        part->dims[part->rank++] = x->dims[i];
    }
    *t = (hyp_type){.dtype = x->dtype, .rank = 2};
    HYP_TRY(hyp_type_elements(c->dims, &rows, &t->dims[0], c->diag));
    return hyp_type_elements(c->dims, &columns, &t->dims[1], c->diag);
}

hyp_status hyp_infer_squeeze(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    bool drop[HYP_MAX_RANK];
    hyp_type t = {.dtype = x->dtype};
    HYP_TRY(hyp_check_axes(c, &c->attrs[0], x->rank, drop));
    for (int32_t i = 0; i < x->rank; i++) {
        if (!drop[i])
            t.dims[t.rank++] = x->dims[i];
        else if (!hyp_check_equal(c, x->dims[i], 1))
            return hyp_infer_fail(c, "axis %d of %s is not of size 1", i, hyp_infer_type_text(c, x));
    }
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_infer_unsqueeze(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    bool insert[HYP_MAX_RANK];
    int64_t rank = (int64_t)x->rank + c->attrs[0].count;
    if (rank > HYP_MAX_RANK)
        return hyp_infer_fail(c, "the result would be of rank %lld, the highest supported is %d", (long long)rank,
                              HYP_MAX_RANK);
    hyp_type t = {.dtype = x->dtype, .rank = (int32_t)rank};
    HYP_TRY(hyp_check_axes(c, &c->attrs[0], t.rank, insert));
    for (int32_t i = 0, j = 0; i < t.rank; i++) t.dims[i] = insert[i] ? 1 : x->dims[j++];
    c->out[0].type = t;
    return HYP_OK;
}

/* ---- copies ----------------------------------------------------------------------------------------- */

hyp_status hyp_infer_expand(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    hyp_type t = {.dtype = x->dtype}, both = {.dtype = x->dtype};
    HYP_TRY(hyp_check_shape(c, &c->attrs[0], &t));
    HYP_TRY(hyp_broadcast(c, x, &t, &both));
    if (!hyp_type_equal(&both, &t))
        return hyp_infer_fail(c, "%s does not expand to %s, which is the smaller", hyp_infer_type_text(c, x),
                              hyp_infer_type_text(c, &t));
    c->out[0].type = t;
    return HYP_OK;
}

/* A walk over all of `t` in order, which is array 0. */
static hyp_walk walk_over(const hyp_eval_tensor *t)
{
    hyp_walk w = {.rank = t->rank};
    memcpy(w.dims, t->dims, sizeof w.dims);
    hyp_strides(t->rank, t->dims, w.stride[0]);
    return w;
}

hyp_status hyp_eval_expand(const hyp_eval_call *c)
{
    hyp_walk w = walk_over(&c->out[0]);
    hyp_walk_broadcast(&w, 1, c->in[0]->rank, c->in[0]->dims);
    hyp_walk_copy(&w, elements(&c->out[0]), elements(c->in[0]));
    return HYP_OK;
}

hyp_status hyp_infer_transpose(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    const hyp_attr *perm = &c->attrs[0];
    bool seen[HYP_MAX_RANK];
    hyp_type t = {.dtype = x->dtype, .rank = x->rank};
    if (perm->count != (uint32_t)x->rank)
        return hyp_infer_fail(c, "the permutation has %u entries, %s has %d axes", perm->count,
                              hyp_infer_type_text(c, x), x->rank);
    HYP_TRY(hyp_check_axes(c, perm, x->rank, seen));
    for (int32_t i = 0; i < x->rank; i++) {
        if (perm->dims[i] < 0) return hyp_infer_fail(c, "a permutation may not count from the end");
        t.dims[i] = x->dims[perm->dims[i]];
    }
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_eval_transpose(const hyp_eval_call *c)
{
    hyp_walk w = walk_over(&c->out[0]);
    int64_t strides[HYP_MAX_RANK];
    hyp_strides(c->in[0]->rank, c->in[0]->dims, strides);
    for (int32_t i = 0; i < w.rank; i++) w.stride[1][i] = strides[c->attrs[0].dims[i]];
    hyp_walk_copy(&w, elements(&c->out[0]), elements(c->in[0]));
    return HYP_OK;
}

hyp_status hyp_infer_concat(const hyp_infer_call *c)
{
    hyp_type t = c->in[0]->type;
    int32_t axis;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_ANY));
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, t.rank, &axis));
    for (uint32_t i = 1; i < c->in_count; i++) {
        const hyp_type *x = &c->in[i]->type;
        bool fits = x->rank == t.rank;
        for (int32_t j = 0; fits && j < t.rank; j++) fits = j == axis || hyp_check_equal(c, x->dims[j], t.dims[j]);
        if (!fits)
            return hyp_infer_fail(c, "%s and %s may differ along axis %d only", hyp_infer_type_text(c, &c->in[0]->type),
                                  hyp_infer_type_text(c, x), axis);
        HYP_TRY(hyp_dim_add(c->dims, t.dims[axis], x->dims[axis], &t.dims[axis], c->diag));
    }
    c->out[0].type = t;
    return HYP_OK;
}

/* Copies between `part` and the place in `whole` that starts at `first` along the axis. */
static void copy_part(const hyp_eval_tensor *whole, const hyp_eval_tensor *part, int32_t axis, int64_t first,
                      bool into_whole)
{
    hyp_walk w = {.rank = part->rank};
    int of_whole = into_whole ? 0 : 1;
    memcpy(w.dims, part->dims, sizeof w.dims);
    hyp_strides(whole->rank, whole->dims, w.stride[of_whole]);
    hyp_strides(part->rank, part->dims, w.stride[1 - of_whole]);
    w.at[of_whole] = first * w.stride[of_whole][axis];
    hyp_walk_copy(&w, elements(into_whole ? whole : part), elements(into_whole ? part : whole));
}

static int32_t axis_of(int64_t axis, int32_t rank) { return (int32_t)(axis < 0 ? axis + rank : axis); }

hyp_status hyp_eval_concat(const hyp_eval_call *c)
{
    int32_t axis = axis_of(c->attrs[0].i, c->out[0].rank);
    int64_t first = 0;
    for (uint32_t i = 0; i < c->in_count; i++) {
        copy_part(&c->out[0], c->in[i], axis, first, true);
        first += c->in[i]->dims[axis];
    }
    return HYP_OK;
}

hyp_status hyp_infer_split(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    const hyp_attr *sizes = &c->attrs[1];
    hyp_dim sum = 0;
    int32_t axis;
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, x->rank, &axis));
    if (sizes->count != c->out_count || c->out_count == 0)
        return hyp_infer_fail(c, "%u sizes for %u outputs", sizes->count, c->out_count);
    for (uint32_t i = 0; i < c->out_count; i++) {
        if (hyp_dim_is_const(sizes->dims[i]) && sizes->dims[i] < 0)
            return hyp_infer_fail(c, "a negative size %lld", (long long)sizes->dims[i]);
        HYP_TRY(hyp_dim_add(c->dims, sum, sizes->dims[i], &sum, c->diag));
        c->out[i].type = *x;
        c->out[i].type.dims[axis] = sizes->dims[i];
    }
    if (!hyp_check_equal(c, sum, x->dims[axis]))
        return hyp_infer_fail(c, "the sizes add up to %s, axis %d of %s has %s", hyp_infer_dim_text(c, sum), axis,
                              hyp_infer_type_text(c, x), hyp_infer_dim_text(c, x->dims[axis]));
    return HYP_OK;
}

hyp_status hyp_eval_split(const hyp_eval_call *c)
{
    int32_t axis = axis_of(c->attrs[0].i, c->in[0]->rank);
    int64_t first = 0;
    for (uint32_t i = 0; i < c->out_count; i++) {
        copy_part(c->in[0], &c->out[i], axis, first, false);
        first += c->out[i].dims[axis];
    }
    return HYP_OK;
}

/* What can be told of one axis of a slice: everything when all is constant. */
static hyp_status check_slice(const hyp_infer_call *c, int32_t axis, hyp_dim have)
{
    hyp_dim start = c->attrs[0].dims[axis], size = c->attrs[1].dims[axis], step = c->attrs[2].dims[axis];
    if (!hyp_dim_is_const(step) || step == 0)
        return hyp_infer_fail(c, "the step along axis %d is %s, a constant other than 0 is wanted", axis,
                              hyp_infer_dim_text(c, step));
    if (hyp_dim_is_const(size) && size < 0)
        return hyp_infer_fail(c, "a negative size %lld along axis %d", (long long)size, axis);
    if (!hyp_dim_is_const(start) || !hyp_dim_is_const(size) || !hyp_dim_is_const(have) || size == 0) return HYP_OK;
    int64_t last;
    if (start < 0 || start >= have || !hyp_mul_i64(size - 1, step, &last) || !hyp_add_i64(last, start, &last) ||
        last < 0 || last >= have)
        return hyp_infer_fail(c, "%lld elements from %lld in steps of %lld leave axis %d of %s", (long long)size,
                              (long long)start, (long long)step, axis, hyp_infer_type_text(c, &c->in[0]->type));
    return HYP_OK;
}

hyp_status hyp_infer_slice(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    hyp_type t = *x;
    for (uint32_t i = 0; i < 3; i++)
        if (c->attrs[i].count != (uint32_t)x->rank)
            return hyp_infer_fail(c, "starts, sizes and steps want an entry for every axis of %s",
                                  hyp_infer_type_text(c, x));
    for (int32_t i = 0; i < x->rank; i++) {
        HYP_TRY(check_slice(c, i, x->dims[i]));
        t.dims[i] = c->attrs[1].dims[i];
    }
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_eval_slice(const hyp_eval_call *c)
{
    hyp_walk w = walk_over(&c->out[0]);
    if (c->out[0].count == 0) return HYP_OK; /* starts may lie anywhere then */
    int64_t strides[HYP_MAX_RANK];
    hyp_strides(w.rank, c->in[0]->dims, strides);
    for (int32_t i = 0; i < w.rank; i++) {
        w.at[1] += c->attrs[0].dims[i] * strides[i];
        w.stride[1][i] = c->attrs[2].dims[i] * strides[i];
    }
    hyp_walk_copy(&w, elements(&c->out[0]), elements(c->in[0]));
    return HYP_OK;
}

hyp_status hyp_infer_gather(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type, *indices = &c->in[1]->type;
    hyp_type t = {.dtype = x->dtype};
    int32_t axis;
    HYP_TRY(hyp_check_axis(c, c->attrs[0].i, x->rank, &axis));
    HYP_TRY(hyp_check_index_type(c, 1));
    if (x->rank - 1 + indices->rank > HYP_MAX_RANK)
        return hyp_infer_fail(c, "the result would be of rank %d, the highest supported is %d",
                              x->rank - 1 + indices->rank, HYP_MAX_RANK);
    for (int32_t i = 0; i < axis; i++) t.dims[t.rank++] = x->dims[i];
    for (int32_t i = 0; i < indices->rank; i++) t.dims[t.rank++] = indices->dims[i];
    for (int32_t i = axis + 1; i < x->rank; i++) t.dims[t.rank++] = x->dims[i];
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_eval_gather(const hyp_eval_call *c)
{
    const hyp_eval_tensor *x = c->in[0], *indices = c->in[1];
    int32_t axis = axis_of(c->attrs[0].i, x->rank);
    int64_t size = x->dims[axis];
    size_t outer = 1, inner = 1;
    for (int32_t i = 0; i < axis; i++) outer *= (size_t)x->dims[i];
    for (int32_t i = axis + 1; i < x->rank; i++) inner *= (size_t)x->dims[i];
    const double *from = elements(x); /* or integers: moved as bytes */
    double *to = elements(&c->out[0]);
    for (size_t i = 0; i < indices->count; i++)
        if (indices->i[i] < -size || indices->i[i] >= size)
            return hyp_fail(c->diag, HYP_ERR_INVALID_ARGUMENT, "gather: index %lld is outside [%lld, %lld)",
                            (long long)indices->i[i], (long long)-size, (long long)size);
    if (c->out[0].count == 0) return HYP_OK;
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < indices->count; i++) {
            int64_t at = indices->i[i] < 0 ? indices->i[i] + size : indices->i[i];
            size_t first = (o * (size_t)size + (size_t)at) * inner;
            for (size_t j = 0; x->stored && j < inner; j++) to[j] = hyp_load_f64(HYP_F32, x->stored, first + j);
            if (!x->stored) memcpy(to, from + first, inner * sizeof *to);
            to += inner;
        }
    return HYP_OK;
}

hyp_status hyp_infer_pad(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    hyp_type t = *x;
    HYP_TRY(hyp_check_dtype(c, HYP_CLASS_ANY));
    if (c->in[1]->type.rank != 0)
        return hyp_infer_fail(c, "the value is %s, a scalar is wanted", hyp_infer_type_text(c, &c->in[1]->type));
    for (uint32_t i = 0; i < 2; i++) {
        if (c->attrs[i].count != (uint32_t)x->rank)
            return hyp_infer_fail(c, "an entry for every axis of %s is wanted", hyp_infer_type_text(c, x));
        for (int32_t a = 0; a < x->rank; a++) {
            hyp_dim pad = c->attrs[i].dims[a];
            if (hyp_dim_is_const(pad) && pad < 0)
                return hyp_infer_fail(c, "a negative pad %lld along axis %d", (long long)pad, a);
            HYP_TRY(hyp_dim_add(c->dims, t.dims[a], pad, &t.dims[a], c->diag));
        }
    }
    c->out[0].type = t;
    return HYP_OK;
}

hyp_status hyp_eval_pad(const hyp_eval_call *c)
{
    const hyp_eval_tensor *x = c->in[0], *y = &c->out[0];
    hyp_walk everywhere = walk_over(y), inside = {.rank = x->rank};
    hyp_walk_copy(&everywhere, elements(y), elements(c->in[1])); /* all strides of the value are 0 */
    memcpy(inside.dims, x->dims, sizeof inside.dims);
    memcpy(inside.stride[0], everywhere.stride[0], sizeof inside.stride[0]);
    hyp_strides(x->rank, x->dims, inside.stride[1]);
    for (int32_t i = 0; i < x->rank; i++) inside.at[0] += c->attrs[0].dims[i] * inside.stride[0][i];
    hyp_walk_copy(&inside, elements(y), elements(x));
    return HYP_OK;
}

/* ---- shape ------------------------------------------------------------------------------------------ */

hyp_status hyp_infer_shape(const hyp_infer_call *c)
{
    const hyp_type *x = &c->in[0]->type;
    hyp_dim *content = hyp_arena_zalloc(c->arena, HYP_MAX_RANK, sizeof *content);
    if (!content) return hyp_fail_memory(c->diag, HYP_MAX_RANK * sizeof *content);
    memcpy(content, x->dims, (size_t)x->rank * sizeof *content);
    c->out[0] = (hyp_infer_value){.type = {.dtype = HYP_I64, .rank = 1, .dims = {x->rank}},
                                  .content = content,
                                  .content_count = (uint32_t)x->rank};
    return HYP_OK;
}

hyp_status hyp_eval_shape(const hyp_eval_call *c)
{
    memcpy(c->out[0].i, c->in[0]->dims, c->out[0].count * sizeof *c->out[0].i);
    return HYP_OK;
}

hyp_status hyp_infer_size(const hyp_infer_call *c)
{
    hyp_dim *content = hyp_arena_zalloc(c->arena, 1, sizeof *content);
    if (!content) return hyp_fail_memory(c->diag, sizeof *content);
    c->out[0] = (hyp_infer_value){.type = {.dtype = HYP_I64}, .content = content, .content_count = 1};
    return hyp_type_elements(c->dims, &c->in[0]->type, content, c->diag);
}

hyp_status hyp_eval_size(const hyp_eval_call *c)
{
    c->out[0].i[0] = (int64_t)c->in[0]->count;
    return HYP_OK;
}
