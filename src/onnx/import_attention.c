/* Attention and rotary embedding, made of products, softmax and moves, so that rewriting sees all of it. */
#include <math.h>

#include "onnx/import.h"

enum { RANK = 4 }; /* [batch, heads, sequence, head size] */

/* ---- small things ---------------------------------------------------------------------------------- */

static hyp_status emit_unary(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, hyp_value_id *out)
{
    return hyp_onnx_emit(n, op, &x, 1, NULL, out, 1);
}

static hyp_status emit_concat(const hyp_onnx_node *n, hyp_value_id a, hyp_value_id b, int64_t axis, hyp_value_id *out)
{
    hyp_attr attr = hyp_attr_of_int(axis);
    return hyp_onnx_emit(n, HYP_OP_concat, (const hyp_value_id[]){a, b}, 2, &attr, out, 1);
}

/* a where the bool is true, else b; both numbers of this type. */
static hyp_status emit_choice(const hyp_onnx_node *n, hyp_value_id c, hyp_dtype dtype, double a, double b,
                              hyp_value_id *out)
{
    hyp_value_id values[2];
    HYP_TRY(hyp_onnx_add_scalar(n, dtype, a, &values[0]));
    HYP_TRY(hyp_onnx_add_scalar(n, dtype, b, &values[1]));
    return hyp_onnx_emit(n, HYP_OP_where, (const hyp_value_id[]){c, values[0], values[1]}, 3, NULL, out, 1);
}

static hyp_status emit_scaled(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, double factor, hyp_value_id *out)
{
    hyp_value_id scalar;
    HYP_TRY(hyp_onnx_add_scalar(n, hyp_onnx_value_type(n, x).dtype, factor, &scalar));
    return hyp_onnx_emit_binary(n, op, x, scalar, out);
}

/* The dim of x along the axis as an i64 scalar. */
static hyp_status emit_size(const hyp_onnx_node *n, hyp_value_id x, int64_t axis, hyp_value_id *out)
{
    hyp_value_id shape, index;
    HYP_TRY(emit_unary(n, HYP_OP_shape, x, &shape));
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, (double)axis, &index));
    return hyp_onnx_emit(n, HYP_OP_gather, (const hyp_value_id[]){shape, index}, 2, NULL, out, 1);
}

/* 0, 1, ... as i64, as a column or a row. */
static hyp_status emit_positions(const hyp_onnx_node *n, hyp_dim count, bool column, hyp_value_id *out)
{
    const hyp_dim shape[] = {column ? count : 1, column ? 1 : count};
    hyp_attr size = hyp_attr_of_dims(&count, 1);
    hyp_value_id ends[2];
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, 0, &ends[0]));
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, 1, &ends[1]));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_range, ends, 2, &size, out, 1));
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, *out, shape, 2, out);
}

/* [batch, sequence, heads * size] to [batch, heads, sequence, size]; 4-D stays. */
static hyp_status split_heads(const hyp_onnx_node *n, hyp_value_id x, int64_t heads, hyp_value_id *out)
{
    static const hyp_dim perm[] = {0, 2, 1, 3};
    hyp_type type = hyp_onnx_value_type(n, x);
    hyp_dim dims[RANK] = {type.dims[0], type.dims[1], heads, 0};
    *out = x;
    if (type.rank == RANK) return HYP_OK;
    if (type.rank != 3 || heads < 1 || !hyp_dim_divides(n->im->g->dims, heads, type.dims[2], &dims[3]))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "an operand of rank %d does not split into %lld heads",
                        type.rank, (long long)heads);
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, x, dims, RANK, out));
    return hyp_onnx_emit_dims(n, HYP_OP_transpose, *out, perm, RANK, out);
}

static hyp_status join_heads(const hyp_onnx_node *n, hyp_value_id x, hyp_value_id *out)
{
    static const hyp_dim perm[] = {0, 2, 1, 3};
    hyp_type type = hyp_onnx_value_type(n, x);
    hyp_dim dims[3] = {type.dims[0], type.dims[2], 0};
    HYP_TRY(hyp_dim_mul(n->im->g->dims, type.dims[1], type.dims[3], &dims[2], n->im->diag));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_transpose, x, perm, RANK, out));
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, *out, dims, 3, out);
}

/* ---- attention -------------------------------------------------------------------------------------- */

/* What the variants of the operator have in common. */
typedef struct attention {
    hyp_value_id q, k, v;             /* 4-D, k and v with the past in front */
    hyp_value_id past;                /* the keys of the past; none: HYP_NO_VALUE, like those below */
    hyp_value_id mask, valid;         /* the mask as given; i64 keys that count in each batch */
    hyp_value_id padding;             /* finite numbers to add, 4-D: the forms of com.microsoft */
    double scale, softcap;            /* softcap 0: none */
    bool causal;
    int64_t left, right;              /* keys that a query sees before and behind it; -1: all */
    hyp_dtype precision;              /* of the softmax */
    hyp_value_id scores, biased, probabilities, capped; /* on the way; set by emit_attention */
} attention;

/* The heads of q over those of k, 1 where they are as many; q's are a multiple of k's. */
static hyp_status head_groups(const hyp_onnx_node *n, const attention *a, hyp_dim *out)
{
    hyp_type q = hyp_onnx_value_type(n, a->q), k = hyp_onnx_value_type(n, a->k);
    if (k.dims[1] != 0 && hyp_dim_divides(n->im->g->dims, k.dims[1], q.dims[1], out)) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the heads of the queries are no multiple of those of the keys");
}

/* a b, where each head of b serves `groups` heads of a. */
static hyp_status emit_product(const hyp_onnx_node *n, hyp_value_id a, hyp_value_id b, hyp_dim groups, bool trans_b,
                               double alpha, hyp_value_id *out)
{
    hyp_type x = hyp_onnx_value_type(n, a), y = hyp_onnx_value_type(n, b);
    hyp_attr attrs[] = {hyp_attr_of_int(0), hyp_attr_of_int(trans_b), hyp_attr_of_float(alpha)};
    if (groups == 1) return hyp_onnx_emit(n, HYP_OP_matmul, (const hyp_value_id[]){a, b}, 2, attrs, out, 1);
    const hyp_dim apart[] = {x.dims[0], y.dims[1], groups, x.dims[2], x.dims[3]};
    const hyp_dim shared[] = {y.dims[0], y.dims[1], 1, y.dims[2], y.dims[3]};
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, a, apart, 5, &a));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, b, shared, 5, &b));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_matmul, (const hyp_value_id[]){a, b}, 2, attrs, out, 1));
    const hyp_dim joined[] = {x.dims[0], x.dims[1], x.dims[2], trans_b ? y.dims[2] : y.dims[3]};
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, *out, joined, RANK, out);
}

/* Adds a term to the bias; the first is it. */
static hyp_status add_bias(const hyp_onnx_node *n, hyp_value_id term, hyp_value_id *bias)
{
    if (*bias != HYP_NO_VALUE) return hyp_onnx_emit_binary(n, HYP_OP_add, *bias, term, bias);
    *bias = term;
    return HYP_OK;
}

/* The mask as numbers to add, as wide as the keys: what it does not cover is not seen. */
static hyp_status emit_mask(const hyp_onnx_node *n, const attention *a, hyp_value_id *out)
{
    hyp_dtype dtype = hyp_onnx_value_type(n, a->q).dtype;
    hyp_type mask = hyp_onnx_value_type(n, a->mask);
    hyp_dim keys = hyp_onnx_value_type(n, a->k).dims[2], lacking;
    *out = a->mask;
    if (mask.dtype == HYP_BOOL)
        HYP_TRY(emit_choice(n, *out, dtype, 0, -INFINITY, out));
    else
        HYP_TRY(hyp_onnx_emit_cast(n, *out, dtype, out));
    if (mask.rank == 0 || mask.dims[mask.rank - 1] == keys || mask.dims[mask.rank - 1] == 1) return HYP_OK;
    hyp_dim pads[2 * HYP_MAX_RANK] = {0};
    hyp_value_id fill;
    HYP_TRY(hyp_dim_sub(n->im->g->dims, keys, mask.dims[mask.rank - 1], &lacking, n->im->diag));
    if (!hyp_dim_is_nonneg(n->im->g->dims, lacking))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "it is not known that the mask is as wide as the keys");
    pads[2 * mask.rank - 1] = lacking;
    HYP_TRY(hyp_onnx_add_scalar(n, dtype, -INFINITY, &fill));
    hyp_attr attrs[] = {hyp_attr_of_dims(pads, (uint32_t)mask.rank),
                        hyp_attr_of_dims(pads + mask.rank, (uint32_t)mask.rank)};
    return hyp_onnx_emit(n, HYP_OP_pad, (const hyp_value_id[]){*out, fill}, 2, attrs, out, 1);
}

/* Place of the first query among the keys: a scalar, or [batch, 1, 1, 1]. */
static hyp_status emit_offset(const hyp_onnx_node *n, const attention *a, hyp_value_id *out)
{
    if (a->past != HYP_NO_VALUE) return emit_size(n, a->past, 2, out);
    if (a->valid == HYP_NO_VALUE) return hyp_onnx_add_scalar(n, HYP_I64, 0, out);
    const hyp_dim shape[] = {hyp_onnx_value_type(n, a->q).dims[0], 1, 1, 1};
    hyp_value_id queries;
    HYP_TRY(emit_size(n, a->q, 2, &queries));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, a->valid, shape, RANK, out));
    return hyp_onnx_emit_binary(n, HYP_OP_sub, *out, queries, out);
}

/* Terms for what a query may not see by its place. */
static hyp_status add_places(const hyp_onnx_node *n, const attention *a, hyp_value_id *bias)
{
    hyp_type q = hyp_onnx_value_type(n, a->q);
    hyp_value_id row, column, offset, distance, seen;
    if (!a->causal && a->left < 0 && a->right < 0) return HYP_OK;
    HYP_TRY(emit_positions(n, q.dims[2], true, &column));
    HYP_TRY(emit_positions(n, hyp_onnx_value_type(n, a->k).dims[2], false, &row));
    HYP_TRY(emit_offset(n, a, &offset));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, column, offset, &column));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, row, column, &distance)); /* of the key behind the query */
    const int64_t ahead = a->causal && (a->right < 0 || a->right > 0) ? 0 : a->right;
    if (a->causal || a->right >= 0) {
        HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, (double)ahead, &seen));
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_less_equal, distance, seen, &seen));
        HYP_TRY(emit_choice(n, seen, q.dtype, 0, -INFINITY, &seen));
        HYP_TRY(add_bias(n, seen, bias));
    }
    if (a->left < 0) return HYP_OK;
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, -(double)a->left, &seen));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_less_equal, seen, distance, &seen));
    HYP_TRY(emit_choice(n, seen, q.dtype, 0, -INFINITY, &seen));
    return add_bias(n, seen, bias);
}

/* A term for keys that are padding. */
static hyp_status add_padding(const hyp_onnx_node *n, const attention *a, hyp_value_id *bias)
{
    hyp_type q = hyp_onnx_value_type(n, a->q);
    const hyp_dim shape[] = {q.dims[0], 1, 1, 1};
    hyp_value_id row, valid;
    if (a->valid == HYP_NO_VALUE) return HYP_OK;
    HYP_TRY(emit_positions(n, hyp_onnx_value_type(n, a->k).dims[2], false, &row));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, a->valid, shape, RANK, &valid));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_less, row, valid, &valid));
    HYP_TRY(emit_choice(n, valid, q.dtype, 0, -INFINITY, &valid));
    return add_bias(n, valid, bias);
}

/* Rows whose bias hides every key have probabilities of 0, where softmax has NaN. */
static hyp_status hide_empty_rows(const hyp_onnx_node *n, hyp_value_id bias, hyp_value_id *probabilities)
{
    static const hyp_dim last[] = {-1};
    hyp_dtype dtype = hyp_onnx_value_type(n, bias).dtype, to = hyp_onnx_value_type(n, *probabilities).dtype;
    hyp_attr attrs[] = {hyp_attr_of_dims(last, 1), hyp_attr_of_int(1)};
    hyp_value_id top, least, zero;
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_reduce_max, &bias, 1, attrs, &top, 1));
    HYP_TRY(hyp_onnx_add_scalar(n, dtype, -INFINITY, &least));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_equal, top, least, &top));
    HYP_TRY(hyp_onnx_add_scalar(n, to, 0, &zero));
    return hyp_onnx_emit(n, HYP_OP_where, (const hyp_value_id[]){top, zero, *probabilities}, 3, NULL, probabilities, 1);
}

/* q k^T scale. In 16 bits each side takes the root of the scale first, as the operator is defined: it keeps the products
 * in range, and rounds as its users expect. */
static hyp_status emit_scores(const hyp_onnx_node *n, attention *a, hyp_dim groups)
{
    hyp_dtype dtype = hyp_onnx_value_type(n, a->q).dtype;
    hyp_value_id q, k;
    if (dtype != HYP_F16 && dtype != HYP_BF16)
        return emit_product(n, a->q, a->k, groups, true, a->scale, &a->scores);
    HYP_TRY(emit_scaled(n, HYP_OP_mul, a->q, sqrt(a->scale), &q));
    HYP_TRY(emit_scaled(n, HYP_OP_mul, a->k, sqrt(a->scale), &k));
    return emit_product(n, q, k, groups, true, 1, &a->scores);
}

static hyp_status emit_attention(const hyp_onnx_node *n, attention *a, hyp_value_id *out)
{
    hyp_dtype dtype = hyp_onnx_value_type(n, a->q).dtype;
    hyp_value_id bias = HYP_NO_VALUE, mask;
    hyp_attr axis = hyp_attr_of_int(-1);
    hyp_dim groups;
    HYP_TRY(head_groups(n, a, &groups));
    HYP_TRY(emit_scores(n, a, groups));
    a->capped = a->scores;
    if (a->softcap > 0) {
        HYP_TRY(emit_scaled(n, HYP_OP_div, a->scores, a->softcap, &a->capped));
        HYP_TRY(emit_unary(n, HYP_OP_tanh, a->capped, &a->capped));
        HYP_TRY(emit_scaled(n, HYP_OP_mul, a->capped, a->softcap, &a->capped));
    }
    if (a->mask != HYP_NO_VALUE) {
        HYP_TRY(emit_mask(n, a, &mask));
        HYP_TRY(add_bias(n, mask, &bias));
    }
    HYP_TRY(add_places(n, a, &bias));
    HYP_TRY(add_padding(n, a, &bias));
    if (a->padding != HYP_NO_VALUE) HYP_TRY(add_bias(n, a->padding, &bias));
    a->biased = a->capped;
    if (bias != HYP_NO_VALUE) HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, a->capped, bias, &a->biased));
    HYP_TRY(hyp_onnx_emit_cast(n, a->biased, a->precision, &a->probabilities));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_softmax, &a->probabilities, 1, &axis, &a->probabilities, 1));
    /* A causal bias alone shows every query its first key. */
    bool may_be_empty = a->mask != HYP_NO_VALUE || a->valid != HYP_NO_VALUE || a->left >= 0 || a->right >= 0;
    if (may_be_empty) HYP_TRY(hide_empty_rows(n, bias, &a->probabilities));
    HYP_TRY(hyp_onnx_emit_cast(n, a->probabilities, dtype, &a->probabilities));
    return emit_product(n, a->probabilities, a->v, groups, false, 1, out);
}

static hyp_value_id input_or_none(const hyp_onnx_node *n, uint32_t i)
{
    return hyp_onnx_has_input(n, i) ? n->inputs[i] : HYP_NO_VALUE;
}

/* 1 / sqrt(head size), which is known. */
static hyp_status default_scale(const hyp_onnx_node *n, hyp_value_id q, double *out)
{
    hyp_dim size = hyp_onnx_value_type(n, q).dims[3];
    if (!hyp_dim_is_const(size)) return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "the size of a head must be known");
    *out = 1 / sqrt((double)size);
    return HYP_OK;
}

static hyp_status with_past(const hyp_onnx_node *n, uint32_t past, hyp_value_id *x)
{
    return hyp_onnx_has_input(n, past) ? emit_concat(n, n->inputs[past], *x, 2, x) : HYP_OK;
}

static hyp_status import_attention(hyp_onnx_node *n)
{
    int64_t q_heads, kv_heads, mode, precision, causal;
    attention a = {.past = input_or_none(n, 4), .mask = input_or_none(n, 3), .valid = input_or_none(n, 6), .padding = HYP_NO_VALUE};
    hyp_value_id y;
    HYP_TRY(hyp_onnx_attr_int(n, "q_num_heads", 0, &q_heads));
    HYP_TRY(hyp_onnx_attr_int(n, "kv_num_heads", 0, &kv_heads));
    HYP_TRY(hyp_onnx_attr_int(n, "is_causal", 0, &causal));
    HYP_TRY(hyp_onnx_attr_int(n, "left_window_size", -1, &a.left));
    HYP_TRY(hyp_onnx_attr_int(n, "right_window_size", -1, &a.right));
    HYP_TRY(hyp_onnx_attr_int(n, "qk_matmul_output_mode", 0, &mode));
    HYP_TRY(hyp_onnx_attr_int(n, "softmax_precision", 0, &precision));
    HYP_TRY(hyp_onnx_attr_float(n, "softcap", 0, &a.softcap));
    HYP_TRY(split_heads(n, n->inputs[0], q_heads, &a.q));
    HYP_TRY(split_heads(n, n->inputs[1], kv_heads, &a.k));
    HYP_TRY(split_heads(n, n->inputs[2], kv_heads, &a.v));
    HYP_TRY(with_past(n, 4, &a.k));
    HYP_TRY(with_past(n, 5, &a.v));
    HYP_TRY(default_scale(n, a.q, &a.scale));
    HYP_TRY(hyp_onnx_attr_float(n, "scale", a.scale, &a.scale));
    a.causal = causal != 0;
    a.precision = precision ? (hyp_dtype)precision : hyp_onnx_value_type(n, a.q).dtype;
    if (!hyp_dtype_is_float(a.precision))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "softmax_precision %lld is not supported",
                        (long long)precision);
    HYP_TRY(emit_attention(n, &a, &y));
    const hyp_value_id shown[] = {a.scores, a.capped, a.biased, a.probabilities};
    if (mode < 0 || mode > 3) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "qk_matmul_output_mode is %lld", (long long)mode);
    if (n->output_count > 1) n->outputs[1] = a.k;
    if (n->output_count > 2) n->outputs[2] = a.v;
    if (n->output_count > 3) n->outputs[3] = shown[mode];
    n->outputs[0] = y;
    return hyp_onnx_input_type(n, 0).rank == 3 ? join_heads(n, y, n->outputs) : HYP_OK;
}

/* ---- attention of com.microsoft ---------------------------------------------------------------------- */

/* The forms of a mask of integers, as numbers to add: how many keys of each batch count, 0 for keys [batch, keys] or
 * pairs [batch, queries, keys] that do not. */
static hyp_status emit_padding(const hyp_onnx_node *n, uint32_t input, attention *a)
{
    a->padding = HYP_NO_VALUE;
    if (!hyp_onnx_has_input(n, input)) return HYP_OK;
    hyp_type type = hyp_onnx_input_type(n, input), q = hyp_onnx_value_type(n, a->q);
    hyp_dim keys = hyp_onnx_value_type(n, a->k).dims[2], dims[RANK] = {q.dims[0], 1, 1, 1};
    hyp_value_id mask, zero, row;
    double hidden;
    HYP_TRY(hyp_onnx_attr_float(n, "mask_filter_value", -10000, &hidden));
    bool counts = type.rank == 1 && type.dims[0] == q.dims[0], whole = type.rank == 2 && type.dims[1] == keys;
    if (!counts && !whole && !(type.rank == 3 && type.dims[1] == q.dims[2] && type.dims[2] == keys))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "a mask of integers is supported as [batch], [batch, keys] and [batch, queries, keys]");
    if (!counts) dims[3] = keys;
    if (type.rank == 3) dims[2] = type.dims[1];
    HYP_TRY(hyp_onnx_emit_cast(n, n->inputs[input], HYP_I64, &mask));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, mask, dims, RANK, &mask));
    if (counts) {
        HYP_TRY(emit_positions(n, keys, false, &row));
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_less, row, mask, &mask));
    } else {
        HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, 0, &zero));
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_less, zero, mask, &mask));
    }
    return emit_choice(n, mask, q.dtype, 0, hidden, &a->padding);
}

/* Scale, order and precision, then the product. */
static hyp_status finish_microsoft(hyp_onnx_node *n, attention *a, uint32_t mask)
{
    int64_t causal;
    hyp_value_id y;
    HYP_TRY(hyp_onnx_attr_int(n, "unidirectional", 0, &causal));
    HYP_TRY(default_scale(n, a->q, &a->scale));
    HYP_TRY(hyp_onnx_attr_float(n, "scale", a->scale, &a->scale));
    a->causal = causal != 0;
    a->precision = hyp_onnx_value_type(n, a->q).dtype;
    HYP_TRY(emit_padding(n, mask, a));
    HYP_TRY(emit_attention(n, a, &y));
    return join_heads(n, y, n->outputs);
}

/* One of `count` operands side by side on axis 3 of x [batch, sequence, heads, count, size], by heads. */
static hyp_status unpack(const hyp_onnx_node *n, hyp_value_id x, hyp_dim i, hyp_dim count, hyp_value_id *out)
{
    static const hyp_dim perm[] = {0, 2, 1, 3};
    hyp_type type = hyp_onnx_value_type(n, x);
    if (type.rank != 5 || type.dims[3] != count)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED,
                        "packed operands are [batch, sequence, heads, %lld, size]", (long long)count);
    const hyp_dim dims[RANK] = {type.dims[0], type.dims[1], type.dims[2], type.dims[4]};
    HYP_TRY(hyp_onnx_emit_part(n, x, 3, i, 1, 1, out));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, *out, dims, RANK, out));
    return hyp_onnx_emit_dims(n, HYP_OP_transpose, *out, perm, RANK, out);
}

/* Query, key and value apart or packed, with an optional bias for each in one vector. */
static hyp_status import_multi_head(hyp_onnx_node *n)
{
    int64_t heads;
    attention a = {.past = input_or_none(n, 6), .mask = input_or_none(n, 5), .valid = HYP_NO_VALUE, .left = -1,
                   .right = -1};
    hyp_value_id *operands[] = {&a.q, &a.k, &a.v}, x;
    hyp_dim at = 0;
    HYP_TRY(hyp_onnx_attr_int(n, "num_heads", 0, &heads));
    uint32_t apart = hyp_onnx_has_input(n, 2) ? 3 : hyp_onnx_has_input(n, 1) ? 1 : 0; /* then what is packed */
    if (hyp_onnx_has_input(n, 3) && apart != 3)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "a bias of packed operands is not supported");
    for (uint32_t i = apart; i < 3; i++)
        HYP_TRY(unpack(n, n->inputs[apart], i - apart, 3 - apart, operands[i]));
    for (uint32_t i = 0; i < apart; i++) {
        hyp_type type = hyp_onnx_input_type(n, i);
        x = n->inputs[i];
        if (hyp_onnx_has_input(n, 3) && type.rank == 3) {
            hyp_value_id part;
            HYP_TRY(hyp_onnx_emit_part(n, n->inputs[3], 0, at, type.dims[2], 1, &part));
            HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, x, part, &x));
            HYP_TRY(hyp_dim_add(n->im->g->dims, at, type.dims[2], &at, n->im->diag));
        }
        HYP_TRY(split_heads(n, x, heads, operands[i]));
    }
    HYP_TRY(with_past(n, 6, &a.k));
    HYP_TRY(with_past(n, 7, &a.v));
    if (n->output_count > 1) n->outputs[1] = a.k;
    if (n->output_count > 2) n->outputs[2] = a.v;
    return finish_microsoft(n, &a, 4);
}

/* The sizes of query, key and value that one product gives side by side. */
static hyp_status read_sizes(const hyp_onnx_node *n, hyp_dim sum, hyp_dim out[3])
{
    hyp_onnx_ints given;
    HYP_TRY(hyp_onnx_attr_ints(n, "qkv_hidden_sizes", &given));
    for (int i = 0; i < 3; i++) out[i] = given.count == 3 ? given.items[i] : hyp_dim_is_const(sum) ? sum / 3 : -1;
    if ((given.count == 0 || given.count == 3) && hyp_dim_is_const(sum) && out[0] > 0 && out[1] == out[0] &&
        out[2] > 0 && out[0] + out[1] + out[2] == sum)
        return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the weights do not split into queries, keys and values");
}

/* Keys (i = 0) or values of the past in [2, batch, heads, past, size] in front of x. */
static hyp_status with_packed_past(const hyp_onnx_node *n, hyp_dim i, hyp_value_id *x)
{
    hyp_value_id part;
    hyp_type type = hyp_onnx_input_type(n, 4);
    if (type.rank != 5 || type.dims[0] != 2)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the past is [2, batch, heads, length, size]");
    HYP_TRY(hyp_onnx_emit_part(n, n->inputs[4], 0, i, 1, 1, &part));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, part, type.dims + 1, RANK, &part));
    return emit_concat(n, part, *x, 2, x);
}

/* One product for queries, keys and values, then attention; keys and values in one tensor for the next time. */
static hyp_status import_projected(hyp_onnx_node *n)
{
    static const hyp_dim first[] = {0};
    int64_t heads;
    hyp_dim sizes[3], at = 0;
    attention a = {.past = HYP_NO_VALUE, .mask = input_or_none(n, 5), .valid = HYP_NO_VALUE, .left = -1, .right = -1};
    hyp_value_id x, *operands[] = {&a.q, &a.k, &a.v}, packed[2];
    hyp_type weights = hyp_onnx_input_type(n, 1);
    HYP_TRY(hyp_onnx_attr_int(n, "num_heads", 0, &heads));
    if (hyp_onnx_has_input(n, 6))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "a past that shares its buffer is not supported");
    if (weights.rank != 2 || hyp_onnx_input_type(n, 0).rank != 3)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "x [batch, sequence, size] and weights [size, all] are wanted");
    HYP_TRY(read_sizes(n, weights.dims[1], sizes));
    HYP_TRY(hyp_onnx_emit_matmul(n, n->inputs[0], n->inputs[1], false, 1, &x));
    if (hyp_onnx_has_input(n, 2)) HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, x, n->inputs[2], &x));
    for (int i = 0; i < 3; at += sizes[i++]) {
        HYP_TRY(hyp_onnx_emit_part(n, x, 2, at, sizes[i], 1, operands[i]));
        HYP_TRY(split_heads(n, *operands[i], heads, operands[i]));
    }
    if (hyp_onnx_has_input(n, 4)) {
        HYP_TRY(with_packed_past(n, 0, &a.k));
        HYP_TRY(with_packed_past(n, 1, &a.v));
        /* Queries are the last of the keys. emit_offset wants a value as long as the past. */
        hyp_type past = hyp_onnx_input_type(n, 4);
        HYP_TRY(hyp_onnx_emit_part(n, n->inputs[4], 0, 0, 1, 1, &a.past));
        HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, a.past, past.dims + 1, RANK, &a.past));
    }
    if (n->output_count > 1) {
        HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_unsqueeze, a.k, first, 1, &packed[0]));
        HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_unsqueeze, a.v, first, 1, &packed[1]));
        HYP_TRY(emit_concat(n, packed[0], packed[1], 0, &n->outputs[1]));
    }
    return finish_microsoft(n, &a, 3);
}

/* ---- rotary embedding -------------------------------------------------------------------------------- */

/* Part of the last of four axes. */
static hyp_status slice_last(const hyp_onnx_node *n, hyp_value_id x, int64_t start, hyp_dim size, int64_t step,
                             hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, x);
    const hyp_dim starts[RANK] = {0, 0, 0, start}, steps[RANK] = {1, 1, 1, step};
    const hyp_dim sizes[RANK] = {type.dims[0], type.dims[1], type.dims[2], size};
    hyp_attr attrs[] = {hyp_attr_of_dims(starts, RANK), hyp_attr_of_dims(sizes, RANK), hyp_attr_of_dims(steps, RANK)};
    return hyp_onnx_emit(n, HYP_OP_slice, &x, 1, attrs, out, 1);
}

/* cos or sin at the positions, as [batch, 1, sequence, half]. */
static hyp_status emit_cache(const hyp_onnx_node *n, hyp_value_id cache, hyp_value_id positions, hyp_value_id *out)
{
    static const hyp_dim axis[] = {1};
    if (positions != HYP_NO_VALUE)
        HYP_TRY(hyp_onnx_emit(n, HYP_OP_gather, (const hyp_value_id[]){cache, positions}, 2, NULL, &cache, 1));
    if (hyp_onnx_value_type(n, cache).rank != 3)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "caches of rank %d at their positions are not supported",
                        hyp_onnx_value_type(n, cache).rank);
    return hyp_onnx_emit_dims(n, HYP_OP_unsqueeze, cache, axis, 1, out);
}

/* (x1, x2) turned: (x1 cos - x2 sin, x1 sin + x2 cos). */
static hyp_status emit_turned(const hyp_onnx_node *n, hyp_value_id x1, hyp_value_id x2, hyp_value_id cos,
                              hyp_value_id sin, hyp_value_id out[2])
{
    hyp_value_id products[4];
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, x1, cos, &products[0]));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, x2, sin, &products[1]));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, x1, sin, &products[2]));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, x2, cos, &products[3]));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, products[0], products[1], &out[0]));
    return hyp_onnx_emit_binary(n, HYP_OP_add, products[2], products[3], &out[1]);
}

static hyp_status import_rotary(hyp_onnx_node *n)
{
    bool microsoft = n->op->op == HYP_OP_mul; /* its positions come before the caches */
    hyp_value_id positions = microsoft ? n->inputs[1] : input_or_none(n, 3), cos = n->inputs[microsoft ? 2 : 1],
                 sin = n->inputs[microsoft ? 3 : 2], x, halves[2], turned[2], rest;
    int64_t interleaved, heads, size;
    HYP_TRY(hyp_onnx_attr_int(n, "interleaved", 0, &interleaved));
    HYP_TRY(hyp_onnx_attr_int(n, "num_heads", 0, &heads));
    HYP_TRY(hyp_onnx_attr_int(n, "rotary_embedding_dim", 0, &size));
    HYP_TRY(emit_cache(n, cos, positions, &cos));
    HYP_TRY(emit_cache(n, sin, positions, &sin));
    hyp_dim half = hyp_onnx_value_type(n, cos).dims[3];
    if (!hyp_dim_is_const(half)) return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "the size of the caches must be known");
    if (heads == 0 && hyp_onnx_input_type(n, 0).rank == 3 && hyp_dim_is_const(hyp_onnx_input_type(n, 0).dims[2]))
        heads = hyp_onnx_input_type(n, 0).dims[2] / (2 * half);
    HYP_TRY(split_heads(n, n->inputs[0], heads, &x));
    hyp_type type = hyp_onnx_value_type(n, x);
    if (!hyp_dim_is_const(type.dims[3]) || type.dims[3] < 2 * half || (size && size != 2 * half))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the caches do not fit the heads");
    HYP_TRY(slice_last(n, x, 0, half, interleaved ? 2 : 1, &halves[0]));
    HYP_TRY(slice_last(n, x, interleaved ? 1 : half, half, interleaved ? 2 : 1, &halves[1]));
    HYP_TRY(emit_turned(n, halves[0], halves[1], cos, sin, turned));
    hyp_value_id y;
    if (interleaved) {
        static const hyp_dim last[] = {-1};
        hyp_dim joined[RANK] = {type.dims[0], type.dims[1], type.dims[2], 2 * half};
        for (int i = 0; i < 2; i++) HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_unsqueeze, turned[i], last, 1, &turned[i]));
        HYP_TRY(emit_concat(n, turned[0], turned[1], RANK, &y));
        HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, y, joined, RANK, &y));
    } else {
        HYP_TRY(emit_concat(n, turned[0], turned[1], 3, &y));
    }
    if (type.dims[3] > 2 * half) {
        HYP_TRY(slice_last(n, x, 2 * half, type.dims[3] - 2 * half, 1, &rest));
        HYP_TRY(emit_concat(n, y, rest, 3, &y));
    }
    n->outputs[0] = y;
    return hyp_onnx_input_type(n, 0).rank == 3 ? join_heads(n, y, n->outputs) : HYP_OK;
}

static const hyp_onnx_operator rows[] = {
    {"Attention", 23, 3, 7, 4,
     "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size scale softcap "
     "softmax_precision ",
     import_attention, HYP_OP_COUNT},
    {"RotaryEmbedding", 23, 3, 4, 1, "interleaved num_heads rotary_embedding_dim ", import_rotary, HYP_OP_COUNT},
    {"com.microsoft::Attention", 1, 2, 7, 2,
     "mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes scale unidirectional ", import_projected,
     HYP_OP_COUNT},
    {"com.microsoft::MultiHeadAttention", 1, 1, 8, 3, "mask_filter_value num_heads scale unidirectional ",
     import_multi_head, HYP_OP_COUNT},
    {"com.microsoft::RotaryEmbedding", 1, 4, 4, 1, "interleaved num_heads rotary_embedding_dim ", import_rotary,
     HYP_OP_mul},
};
const hyp_onnx_family hyp_onnx_attention = {rows, sizeof rows / sizeof *rows};
