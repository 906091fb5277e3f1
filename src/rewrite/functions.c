/* What a rule may compute on its right side: attributes here, tensors in functions_tensor.c. Every function is one row of
 * the table at the end. One that has no answer for a match declines, and the rule does not apply there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/internal.h"

/* ---- results --------------------------------------------------------------------------------------- */

static hyp_status give_dims(const hyp_call *call, const hyp_dim *dims, uint32_t count, hyp_class_id *out,
                            hyp_diag *diag)
{
    return hyp_rw_attr_literal(call->user, &(hyp_attr){.kind = HYP_ATTR_DIMS, .count = count, .dims = dims}, out, diag);
}

static hyp_status give_int(const hyp_call *call, int64_t value, hyp_class_id *out, hyp_diag *diag)
{
    return hyp_rw_attr_literal(call->user, &(hyp_attr){.kind = HYP_ATTR_INT, .i = value}, out, diag);
}

static hyp_status give_float(const hyp_call *call, double value, hyp_class_id *out, hyp_diag *diag)
{
    return hyp_rw_attr_literal(call->user, &(hyp_attr){.kind = HYP_ATTR_FLOAT, .f = value}, out, diag);
}

/* An argument that is a constant of one element, which is at hand; NULL makes the function decline. */
static const hyp_rw_fact *element_arg(const hyp_call *call, size_t i)
{
    const hyp_rw_fact *c = hyp_rw_fact_of(call->user, call->args[i]);
    bool is = c->kind == HYP_RW_TENSOR && c->constant && c->data && c->bytes == hyp_dtype_size(c->values->type.dtype);
    return is ? c : NULL;
}

static double element(const hyp_rw_fact *c) { return hyp_load_f64(c->values->type.dtype, c->data, 0); }

static hyp_dims *dims_of(const hyp_call *call) { return ((hyp_rw *)call->user)->dims; }

/* ---- permutations and shapes ----------------------------------------------------------------------- */

static hyp_status compose(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr outer, inner;
    hyp_dim perm[HYP_MAX_RANK];
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &outer, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_DIMS, &inner, diag));
    if (outer.count != inner.count || outer.count > HYP_MAX_RANK) return HYP_OK;
    for (uint32_t i = 0; i < outer.count; i++) {
        if (outer.dims[i] < 0 || outer.dims[i] >= inner.count) return HYP_OK;
        perm[i] = inner.dims[outer.dims[i]];
    }
    return give_dims(call, perm, outer.count, out, diag);
}

static hyp_status axis_of(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr perm, axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &perm, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &axis, diag));
    return axis.i < 0 || axis.i >= perm.count ? HYP_OK : give_int(call, perm.dims[axis.i], out, diag);
}

static hyp_status swap_last(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 0);
    hyp_dim perm[HYP_MAX_RANK];
    if (!x || x->rank < 2) return HYP_OK;
    for (int32_t i = 0; i < x->rank; i++) perm[i] = i < x->rank - 2 ? i : 2 * x->rank - 3 - i;
    return give_dims(call, perm, (uint32_t)x->rank, out, diag);
}

static hyp_status shape_of(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 0);
    return x ? give_dims(call, x->dims, (uint32_t)x->rank, out, diag) : HYP_OK;
}

static hyp_status flat(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 0);
    hyp_dim count;
    if (!x) return HYP_OK;
    HYP_TRY(hyp_type_elements(dims_of(call), x, &count, diag));
    return give_dims(call, &count, 1, out, diag);
}

static hyp_status rows(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *w = hyp_rw_type_arg(call, 0);
    return w && w->rank >= 2 ? give_dims(call, w->dims, 1, out, diag) : HYP_OK;
}

static hyp_status column(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *w = hyp_rw_type_arg(call, 0);
    if (!w || w->rank < 2) return HYP_OK;
    const hyp_dim shape[HYP_MAX_RANK] = {w->dims[0], 1, 1, 1, 1, 1, 1, 1};
    return give_dims(call, shape, (uint32_t)w->rank, out, diag);
}

static hyp_status last_two(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 0);
    return x && x->rank >= 2 ? give_dims(call, x->dims + x->rank - 2, 2, out, diag) : HYP_OK;
}

/* The list of sizes that is argument 0, with its last one replaced. */
static hyp_status give_with_last(const hyp_call *call, hyp_dim size, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr shape;
    hyp_dim dims[HYP_MAX_RANK];
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &shape, diag));
    if (shape.count == 0 || shape.count > HYP_MAX_RANK) return HYP_OK;
    memcpy(dims, shape.dims, shape.count * sizeof *dims);
    dims[shape.count - 1] = size;
    return give_dims(call, dims, shape.count, out, diag);
}

static hyp_status with_last(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *w = hyp_rw_type_arg(call, 1);
    return w && w->rank == 2 ? give_with_last(call, w->dims[0], out, diag) : HYP_OK;
}

static hyp_status ends_as(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    return x && x->rank > 0 ? give_with_last(call, x->dims[x->rank - 1], out, diag) : HYP_OK;
}

static hyp_status width(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *w = hyp_rw_type_arg(call, 0);
    return w && w->rank == 2 ? give_dims(call, w->dims + 1, 1, out, diag) : HYP_OK;
}

static hyp_status last_size(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 0);
    return x && x->rank > 0 ? give_dims(call, x->dims + x->rank - 1, 1, out, diag) : HYP_OK;
}

static hyp_status last_axis(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    int32_t rank = 0;
    for (size_t i = 0; i < call->arg_count; i++) {
        const hyp_type *x = hyp_rw_type_arg(call, i);
        if (x && x->rank > rank) rank = x->rank;
    }
    return rank > 0 ? give_int(call, rank - 1, out, diag) : HYP_OK;
}

static hyp_status tail(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    hyp_attr axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_INT, &axis, diag));
    if (!x || axis.i < 0 || axis.i >= x->rank) return HYP_OK;
    return give_dims(call, x->dims + axis.i, (uint32_t)(x->rank - axis.i), out, diag);
}

/* Numbers by axis of x: `others` of every axis (NULL: its size), but `one` of this axis. */
static hyp_status by_axis(const hyp_call *call, const hyp_type *x, int64_t axis, const hyp_dim *others, hyp_dim one,
                          hyp_class_id *out, hyp_diag *diag)
{
    hyp_dim dims[HYP_MAX_RANK];
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank) return HYP_OK;
    for (int32_t i = 0; i < x->rank; i++) dims[i] = i == axis ? one : others ? *others : x->dims[i];
    return give_dims(call, dims, (uint32_t)x->rank, out, diag);
}

static hyp_status only_at(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    hyp_attr axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_INT, &axis, diag));
    return x ? by_axis(call, x, axis.i, NULL, 1, out, diag) : HYP_OK;
}

static hyp_status ones(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 0);
    const hyp_dim one = 1;
    return x ? by_axis(call, x, 0, &one, 1, out, diag) : HYP_OK;
}

static hyp_status place_of(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_rw_fact *index = element_arg(call, 1);
    const hyp_type *x = hyp_rw_type_arg(call, 2);
    const hyp_dim zero = 0;
    hyp_attr axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_INT, &axis, diag));
    if (!x || !index) return HYP_OK;
    int64_t a = axis.i < 0 ? axis.i + x->rank : axis.i;
    if (a < 0 || a >= x->rank || !hyp_dim_is_const(x->dims[a])) return HYP_OK;
    int64_t at = hyp_load_i64(index->values->type.dtype, index->data, 0);
    if (at < 0) at += x->dims[a];
    return at >= 0 && at < x->dims[a] ? by_axis(call, x, a, &zero, at, out, diag) : HYP_OK;
}

/* ---- numbers and lists ----------------------------------------------------------------------------- */

static hyp_status toggle(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr flag;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_INT, &flag, diag));
    return give_int(call, flag.i == 0, out, diag);
}

static hyp_status larger(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr a, b;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_FLOAT, &a, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_FLOAT, &b, diag));
    return isnan(a.f) || isnan(b.f) ? HYP_OK : give_float(call, a.f > b.f ? a.f : b.f, out, diag);
}

static hyp_status total(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    int64_t sum = 0;
    for (size_t i = 0; i < call->arg_count; i++) {
        hyp_attr a;
        HYP_TRY(hyp_rw_literal_arg(call, i, HYP_ATTR_INT, &a, diag));
        if (!hyp_add_i64(sum, a.i, &sum)) return HYP_OK;
    }
    return give_int(call, sum, out, diag);
}

static hyp_status bounded(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr v, low, high;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_FLOAT, &v, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_FLOAT, &low, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 2, HYP_ATTR_FLOAT, &high, diag));
    return give_float(call, fmin(fmax(v.f, low.f), high.f), out, diag);
}

static hyp_status number(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_rw_fact *c = element_arg(call, 0);
    return !c || isnan(element(c)) ? HYP_OK : give_float(call, element(c), out, diag);
}

/* The fewest digits that mean the same float, as people write it in attributes: 1e-05, not 9.99999975e-06. */
static hyp_status decimal(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_rw_fact *c = element_arg(call, 0);
    if (!c) return HYP_OK;
    double value = element(c), read = value;
    char text[32];
    for (int digits = 1; digits <= 9 && c->values->type.dtype == HYP_F32; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        read = strtod(text, NULL);
        if ((float)read == (float)value) break;
    }
    return isfinite(value) ? give_float(call, read, out, diag) : HYP_OK;
}

/* A product that a float holds exactly, so that every kernel multiplies by the same number. */
static hyp_status times(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr a;
    const hyp_rw_fact *c = element_arg(call, 1);
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_FLOAT, &a, diag));
    if (!c) return HYP_OK;
    double product = a.f * element(c);
    if (!(fabs(product) <= HYP_RW_MODERATE && fabs(product) >= 1 / HYP_RW_MODERATE) && product != 0) return HYP_OK;
    if ((double)(float)product != product) return HYP_OK;
    return give_float(call, product, out, diag);
}

/* The texts of list literals are put together: `(relu none)` and `relu` give `(relu none relu)`. */
static hyp_status list(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_rw *rw = call->user;
    hyp_strbuf sb = {0};
    hyp_strbuf_puts(&sb, "(");
    for (size_t i = 0; i < call->arg_count; i++) {
        const hyp_rw_fact *f = hyp_rw_fact_of(rw, call->args[i]);
        if (f->kind != HYP_RW_LITERAL) {
            hyp_strbuf_dispose(&sb);
            return HYP_OK;
        }
        const char *text = hyp_egraph_symbol_name(rw->eg, f->literal);
        size_t len = strlen(text);
        bool is_list = text[0] == '(';
        if (is_list && len == 2) continue;
        if (sb.len > 1) hyp_strbuf_puts(&sb, " ");
        hyp_strbuf_add(&sb, is_list ? text + 1 : text, is_list ? len - 2 : len);
    }
    hyp_strbuf_puts(&sb, ")");
    hyp_status status = sb.failed ? hyp_fail_memory(diag, sb.len) : hyp_rw_literal(rw, hyp_strbuf_text(&sb), out, diag);
    hyp_strbuf_dispose(&sb);
    return status;
}

static hyp_status item(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr symbols, index;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_SYMS, &symbols, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &index, diag));
    int64_t i = index.i < 0 ? index.i + symbols.count : index.i;
    if (i < 0 || i >= symbols.count) return HYP_OK;
    return hyp_rw_literal(call->user, symbols.syms[i], out, diag);
}

static hyp_status but_last(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr symbols;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_SYMS, &symbols, diag));
    if (symbols.count < 2) return HYP_OK;
    symbols.count--;
    return hyp_rw_attr_literal(call->user, &symbols, out, diag);
}

static hyp_status entry(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr list, index;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &list, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &index, diag));
    int64_t i = index.i < 0 ? index.i + list.count : index.i;
    return i < 0 || i >= list.count ? HYP_OK : give_dims(call, list.dims + i, 1, out, diag);
}

static hyp_status start_of(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr sizes, index;
    hyp_dim start = 0;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &sizes, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &index, diag));
    if (index.i < 0 || index.i >= sizes.count) return HYP_OK;
    for (int64_t i = 0; i < index.i; i++) HYP_TRY(hyp_dim_add(dims_of(call), start, sizes.dims[i], &start, diag));
    return give_dims(call, &start, 1, out, diag);
}

/* Pads of a convolution, all before and then all after the spatial axes, with those of a pad of [N C spatial...]. */
static hyp_status padded(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr pads, before, after;
    hyp_dim sum[2 * HYP_MAX_RANK];
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &pads, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_DIMS, &before, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 2, HYP_ATTR_DIMS, &after, diag));
    uint32_t n = pads.count / 2;
    if (before.count != n + 2 || after.count != n + 2 || pads.count > 2 * HYP_MAX_RANK) return HYP_OK;
    for (uint32_t i = 0; i < n + 2; i++) {
        bool fits = before.dims[i] >= 0 && after.dims[i] >= 0 && hyp_dim_is_const(before.dims[i]) &&
                    hyp_dim_is_const(after.dims[i]) && (i >= 2 || (before.dims[i] == 0 && after.dims[i] == 0));
        if (!fits) return HYP_OK; /* a negative pad cuts off; channels have no pads */
        if (i < 2) continue;
        HYP_TRY(hyp_dim_add(dims_of(call), pads.dims[i - 2], before.dims[i], &sum[i - 2], diag));
        HYP_TRY(hyp_dim_add(dims_of(call), pads.dims[n + i - 2], after.dims[i], &sum[n + i - 2], diag));
    }
    return give_dims(call, sum, pads.count, out, diag);
}

/* How far a filter of w must be widened, in front of or behind every axis, to be one of v: with the pads p it then reads
 * what it read before, with zeros around, where v with the pads q reads. None where it does not lie in its midst. */
static hyp_status widening(const hyp_call *call, bool behind, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *w = hyp_rw_type_arg(call, 0), *v = hyp_rw_type_arg(call, 2);
    hyp_attr p, q;
    hyp_dim by[2][HYP_MAX_RANK] = {{0}};
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_DIMS, &p, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 3, HYP_ATTR_DIMS, &q, diag));
    if (!w || !v || w->rank != v->rank || w->rank < 3 || p.count != q.count || p.count != 2 * (uint32_t)(w->rank - 2))
        return HYP_OK;
    uint32_t n = p.count / 2;
    for (uint32_t i = 0; i < n; i++) {
        hyp_dim front = q.dims[i] - p.dims[i], back = q.dims[n + i] - p.dims[n + i];
        hyp_dim small = w->dims[i + 2], large = v->dims[i + 2];
        bool known = hyp_dim_is_const(p.dims[i]) && hyp_dim_is_const(q.dims[i]) && hyp_dim_is_const(p.dims[n + i]) &&
                     hyp_dim_is_const(q.dims[n + i]) && hyp_dim_is_const(small) && hyp_dim_is_const(large);
        if (!known || front < 0 || back < 0 || small + front + back != large) return HYP_OK;
        by[0][i + 2] = front;
        by[1][i + 2] = back;
    }
    return give_dims(call, by[behind], (uint32_t)w->rank, out, diag);
}

static hyp_status widen_before(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    return widening(call, false, out, diag);
}

static hyp_status widen_after(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    return widening(call, true, out, diag);
}

static hyp_status matrix(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *w = hyp_rw_type_arg(call, 0);
    if (!w || w->rank < 1) return HYP_OK;
    hyp_dim shape[2] = {w->dims[0], 1};
    for (int32_t i = 1; i < w->rank; i++) HYP_TRY(hyp_dim_mul(dims_of(call), shape[1], w->dims[i], &shape[1], diag));
    return give_dims(call, shape, 2, out, diag);
}

/* A permutation of the axes of an image, [N C spatial...]. */
static hyp_status give_channels(const hyp_call *call, bool last, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 0);
    if (!x || x->rank < 2) return HYP_OK;
    hyp_dim perm[HYP_MAX_RANK] = {0};
    perm[last ? x->rank - 1 : 1] = last ? 1 : x->rank - 1;
    for (int32_t i = 2; i < x->rank; i++) perm[last ? i - 1 : i] = last ? i : i - 1;
    return give_dims(call, perm, (uint32_t)x->rank, out, diag);
}

static hyp_status channels_last(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    return give_channels(call, true, out, diag);
}

static hyp_status channels_first(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    return give_channels(call, false, out, diag);
}

/* A size that is 1 divides any. */
static hyp_status tiled(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 0), *w = hyp_rw_type_arg(call, 1);
    if (!x || !w || x->rank != w->rank || x->rank < 2 || 2 * x->rank - 2 > HYP_MAX_RANK) return HYP_OK;
    hyp_dim shape[HYP_MAX_RANK] = {x->dims[0], x->dims[1]};
    for (int32_t i = 2; i < x->rank; i++) {
        hyp_dim size = x->dims[i], tile = w->dims[i];
        bool whole = tile == 1 || (hyp_dim_is_const(size) && hyp_dim_is_const(tile) && tile > 0 && size % tile == 0);
        if (!whole) return HYP_OK;
        shape[2 * i - 2] = tile == 1 ? size : size / tile;
        shape[2 * i - 1] = tile;
    }
    return give_dims(call, shape, (uint32_t)(2 * x->rank - 2), out, diag);
}

static hyp_status tiles_first(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr shape;
    hyp_dim perm[HYP_MAX_RANK];
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &shape, diag));
    if (shape.count % 2 || shape.count > HYP_MAX_RANK) return HYP_OK;
    for (uint32_t i = 0; i < shape.count; i++) perm[i / 2 + (i % 2) * shape.count / 2] = i;
    return give_dims(call, perm, shape.count, out, diag);
}

static hyp_status tile_rows(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr shape;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &shape, diag));
    if (shape.count % 2 || shape.count < 2) return HYP_OK;
    hyp_dim rows[3] = {shape.dims[0], 1, 1};
    for (uint32_t i = 1; i < shape.count; i++)
        HYP_TRY(hyp_dim_mul(dims_of(call), rows[1 + i % 2], shape.dims[i], &rows[1 + i % 2], diag));
    return give_dims(call, rows, 3, out, diag);
}

static hyp_status least(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    hyp_attr list;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &list, diag));
    if (list.count == 0) return HYP_OK;
    hyp_dim smallest = list.dims[0];
    for (uint32_t i = 1; i < list.count; i++)
        if (list.dims[i] < smallest) smallest = list.dims[i];
    return give_int(call, smallest, out, diag);
}

/* ---- the table ------------------------------------------------------------------------------------- */

const hyp_rw_callback hyp_rw_functions[] = {
    HYP_RW_FUNCTION("compose", 2, compose, "(compose p q): the permutation of transposing by q, then by p"),
    HYP_RW_FUNCTION("axis-of", 2, axis_of, "(axis-of p a): the axis of x that transposing x by p makes axis a"),
    HYP_RW_FUNCTION("swap-last", 1, swap_last, "(swap-last x): the permutation that swaps the last two axes of x"),
    HYP_RW_FUNCTION("shape-of", 1, shape_of, "(shape-of x): the shape of x"),
    HYP_RW_FUNCTION("flat", 1, flat, "(flat x): the shape (n), n the number of elements of x"),
    HYP_RW_FUNCTION("rows", 1, rows, "(rows w): the shape (N) of w [N ...]"),
    HYP_RW_FUNCTION("column", 1, column, "(column w): the shape (N 1 ...) of the rank of w [N ...]"),
    HYP_RW_FUNCTION("width", 1, width, "(width w): the shape (K) of w [N K]"),
    HYP_RW_FUNCTION("last-size", 1, last_size, "(last-size x): the shape (d), d the last size of x"),
    HYP_RW_FUNCTION("last-axis", -1, last_axis,
      "(last-axis x...): the number of the last axis of x, of several tensors in that of the highest rank"),
    HYP_RW_FUNCTION("only-at", 2, only_at, "(only-at a x): the shape of x with the size 1 on axis a"),
    HYP_RW_FUNCTION("ones", 1, ones, "(ones x): a 1 for every axis of x"),
    HYP_RW_FUNCTION("place-of", 3, place_of,
      "(place-of a i x): where slices start that take entry i, a constant, of axis a of x, if it is there"),
    HYP_RW_FUNCTION("tail", 2, tail, "(tail a x): the shape of x from axis a on"),
    HYP_RW_FUNCTION("ends-as", 2, ends_as, "(ends-as s x): the shape s with its last size replaced by that of x"),
    HYP_RW_FUNCTION("last-two", 1, last_two, "(last-two x): the shape of x without its leading axes"),
    HYP_RW_FUNCTION("with-last", 2, with_last, "(with-last s w): the shape s with its last size replaced by N of w [N K]"),
    HYP_RW_FUNCTION("toggle", 1, toggle, "(toggle t): 1 for 0, 0 for anything else"),
    HYP_RW_FUNCTION("larger", 2, larger, "(larger a b): the larger number"),
    HYP_RW_FUNCTION("total", -1, total, "(total a...): the sum of the integers a"),
    HYP_RW_FUNCTION("bounded", 3, bounded, "(bounded v a b): the number v, or a if it is below a, or b if it is above b"),
    HYP_RW_FUNCTION("number", 1, number, "(number c): the constant c of one element as a number"),
    HYP_RW_FUNCTION("decimal", 1, decimal, "(decimal c): the same, of an f32 the shortest decimal number that it stands for"),
    HYP_RW_FUNCTION("times", 2, times,
      "(times a c): the number a times the constant c of one element, if a float holds it and its size is 0 or within "
      "2^-30 .. 2^30"),
    HYP_RW_FUNCTION("list", -1, list, "(list a...): the list of the items a; a list among them gives its items"),
    HYP_RW_FUNCTION("entry", 2, entry, "(entry s i): entry i of a list of sizes as a list of one, from the end when negative"),
    HYP_RW_FUNCTION("start-of", 2, start_of, "(start-of s i): the list of one with the sum of the sizes before entry i"),
    HYP_RW_FUNCTION("widen-before", 4, widen_before,
      "(widen-before w p v q): zeros before every axis of the filters w, used with the pads p, that make them such as v, "
      "used with q"),
    HYP_RW_FUNCTION("widen-after", 4, widen_after, "(widen-after w p v q): the same, behind every axis"),
    HYP_RW_FUNCTION("padded", 3, padded,
      "(padded p f l): the pads p of a convolution with f elements more in front of every axis and l behind, if those"
      " are spatial"),
    HYP_RW_FUNCTION("matrix", 1, matrix, "(matrix w): the shape (N K) of w [N ...], K the product of all other sizes"),
    HYP_RW_FUNCTION("channels-last", 1, channels_last, "(channels-last x): the permutation (0 2 3 ... 1) of the axes of x"),
    HYP_RW_FUNCTION("channels-first", 1, channels_first, "(channels-first x): the inverse of (channels-last x)"),
    HYP_RW_FUNCTION("tiled", 2, tiled,
      "(tiled x w): the shape (B C H/h h W/w w ...) of x [B C H W ...] in tiles of the size of filters [M C h w ...], "
      "if they fill it"),
    HYP_RW_FUNCTION("tiles-first", 1, tiles_first,
      "(tiles-first s): the permutation (0 2 4 ... 1 3 5 ...), by which the tiles of such a shape follow each other"),
    HYP_RW_FUNCTION("tile-rows", 1, tile_rows,
      "(tile-rows s): the shape (B T K) of the T tiles of K elements that are in such a shape"),
    HYP_RW_FUNCTION("least", 1, least, "(least a): the smallest entry of a list of axes"),
    HYP_RW_FUNCTION("item", 2, item, "(item s i): item i of a list, from the end when negative"),
    HYP_RW_FUNCTION("but-last", 1, but_last, "(but-last s): a list without its last item"),
    {0},
};
