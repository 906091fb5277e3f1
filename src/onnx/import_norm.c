/* Normalization, of which what is an exact composition of other operators is made of them. */
#include <string.h>

#include "onnx/import.h"

/* x times scale plus shift, vectors over the channels; either may be absent. */
static hyp_status emit_affine(const hyp_onnx_node *n, hyp_value_id x, hyp_value_id scale, hyp_value_id shift,
                              hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, x);
    const hyp_value_id operands[] = {scale, shift};
    *out = x;
    for (int i = 0; i < 2; i++) {
        hyp_value_id v = operands[i];
        if (v == HYP_NO_VALUE) continue;
        HYP_TRY(hyp_onnx_emit_cast(n, v, type.dtype, &v));
        HYP_TRY(hyp_onnx_emit_channels(n, v, type.rank > 1 ? type.rank - 1 : 1, &v));
        HYP_TRY(hyp_onnx_emit_binary(n, i ? HYP_OP_add : HYP_OP_mul, *out, v, out));
    }
    return HYP_OK;
}

static hyp_status emit_mean(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, const hyp_onnx_ints *axes,
                            hyp_value_id *out)
{
    hyp_attr attrs[] = {hyp_attr_of_dims(axes->items, axes->count), hyp_attr_of_int(1)};
    return hyp_onnx_emit(n, op, &x, 1, attrs, out, 1);
}

/* x less its mean along the axes, and its variance. */
static hyp_status emit_moments(const hyp_onnx_node *n, hyp_value_id x, const hyp_onnx_ints *axes, hyp_value_id *mean,
                               hyp_value_id *centred, hyp_value_id *variance)
{
    hyp_value_id square;
    HYP_TRY(emit_mean(n, HYP_OP_reduce_mean, x, axes, mean));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, x, *mean, centred));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, *centred, *centred, &square));
    return emit_mean(n, HYP_OP_reduce_mean, square, axes, variance);
}

/* The root of variance + epsilon. */
static hyp_status emit_deviation(const hyp_onnx_node *n, hyp_value_id variance, double epsilon, hyp_value_id *out)
{
    hyp_value_id small;
    HYP_TRY(hyp_onnx_add_scalar(n, hyp_onnx_value_type(n, variance).dtype, epsilon, &small));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, variance, small, out));
    return hyp_onnx_emit(n, HYP_OP_sqrt, out, 1, NULL, out, 1);
}

/* While training, mean and variance are those of the batch. What becomes of those that are kept is an output, if anybody
 * asks. */
static hyp_status import_batch_statistics(hyp_onnx_node *n, double epsilon)
{
    hyp_value_id outs[3];
    double momentum;
    if (hyp_onnx_input_type(n, 0).rank < 2)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "training_mode is on, and input 0 has no axis of channels");
    HYP_TRY(hyp_onnx_attr_float(n, "momentum", 0.9, &momentum));
    const hyp_attr attrs[] = {hyp_attr_of_float(epsilon), hyp_attr_of_float(momentum)};
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_batch_norm, n->inputs, 5, attrs, outs, 3));
    memcpy(n->outputs, outs, (n->output_count < 3 ? n->output_count : 3) * sizeof *outs);
    for (uint32_t i = 1; i < 3; i++) HYP_TRY(hyp_onnx_becomes(n, n->inputs[2 + i], outs[i]));
    return HYP_OK;
}

/* (x - mean) * scale / sqrt(var + epsilon) + bias, with everything but x gathered into two vectors. */
static hyp_status import_batch_norm(hyp_onnx_node *n)
{
    double epsilon;
    hyp_value_id a, b;
    int64_t training;
    HYP_TRY(hyp_onnx_attr_int(n, "training_mode", 0, &training));
    HYP_TRY(hyp_onnx_attr_float(n, "epsilon", 1e-5, &epsilon));
    if (training) return import_batch_statistics(n, epsilon);
    for (uint32_t i = 3; i < 5; i++) n->im->g->values.data[n->inputs[i]].measured = true;
    if (n->output_count > 1)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "it has outputs besides the first, and training_mode is off");
    HYP_TRY(emit_deviation(n, n->inputs[4], epsilon, &a));
    HYP_TRY(hyp_onnx_emit_cast(n, a, hyp_onnx_input_type(n, 1).dtype, &a));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_div, n->inputs[1], a, &a));
    HYP_TRY(hyp_onnx_emit_cast(n, a, hyp_onnx_input_type(n, 3).dtype, &b));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, n->inputs[3], b, &b));
    HYP_TRY(hyp_onnx_emit_cast(n, b, hyp_onnx_input_type(n, 2).dtype, &b));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, n->inputs[2], b, &b));
    return emit_affine(n, n->inputs[0], a, b, n->outputs);
}

/* A parameter in the shape of the axes that are normalized. */
static hyp_status emit_parameter(const hyp_onnx_node *n, const hyp_type *x, int64_t axis, hyp_value_id *v)
{
    int32_t rank = x->rank - (int32_t)axis;
    if (*v == HYP_NO_VALUE) return HYP_OK;
    hyp_type have = hyp_onnx_value_type(n, *v), want = *x;
    want.rank = rank;
    memset(want.dims, 0, sizeof want.dims);
    memcpy(want.dims, x->dims + axis, (size_t)rank * sizeof(hyp_dim));
    HYP_TRY(hyp_onnx_emit_cast(n, *v, x->dtype, v));
    want.dtype = have.dtype;
    return hyp_type_equal(&have, &want) ? HYP_OK : hyp_onnx_emit_dims(n, HYP_OP_expand, *v, want.dims, rank, v);
}

static hyp_status emit_norm(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, hyp_value_id scale, hyp_value_id bias,
                            int64_t axis, double epsilon, hyp_value_id *outs, uint32_t out_count)
{
    hyp_type type = hyp_onnx_value_type(n, x);
    HYP_TRY(hyp_onnx_axis(n, axis, type.rank, &axis));
    HYP_TRY(emit_parameter(n, &type, axis, &scale));
    HYP_TRY(emit_parameter(n, &type, axis, &bias));
    hyp_value_id inputs[] = {x, scale, bias};
    uint32_t count = bias != HYP_NO_VALUE ? 3 : scale != HYP_NO_VALUE ? 2 : 1;
    hyp_attr attrs[] = {hyp_attr_of_int(axis), hyp_attr_of_float(epsilon)};
    return hyp_onnx_emit(n, op, inputs, count, attrs, outs, out_count);
}

static hyp_value_id input_or_none(const hyp_onnx_node *n, uint32_t i)
{
    return hyp_onnx_has_input(n, i) ? n->inputs[i] : HYP_NO_VALUE;
}

static hyp_status import_layer_norm(hyp_onnx_node *n)
{
    int64_t axis;
    double epsilon;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", -1, &axis));
    HYP_TRY(hyp_onnx_attr_float(n, "epsilon", 1e-5, &epsilon));
    bool rms = n->op->op == HYP_OP_rms_norm;
    hyp_value_id outs[3];
    bool stats = !rms && n->output_count > 1;
    HYP_TRY(emit_norm(n, stats ? HYP_OP_layer_norm_stats : n->op->op, n->inputs[0], input_or_none(n, 1),
                      rms ? HYP_NO_VALUE : input_or_none(n, 2), axis, epsilon, outs, stats ? 3 : 1));
    memcpy(n->outputs, outs, n->output_count * sizeof *outs);
    return HYP_OK;
}

/* The sum of input, skip and bias, normalized along the last axis; output 3 is the sum. */
static hyp_status import_skip_norm(hyp_onnx_node *n)
{
    bool rms = n->op->op == HYP_OP_rms_norm;
    double epsilon;
    hyp_value_id sum, bias = input_or_none(n, rms ? 3 : 4);
    HYP_TRY(hyp_onnx_attr_float(n, "epsilon", rms ? 1e-5 : 1e-12, &epsilon));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, n->inputs[0], n->inputs[1], &sum));
    if (bias != HYP_NO_VALUE) HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, sum, bias, &sum));
    HYP_TRY(emit_norm(n, n->op->op, sum, n->inputs[2], rms ? HYP_NO_VALUE : input_or_none(n, 3), -1, epsilon,
                      n->outputs, 1));
    if (n->output_count > 3) n->outputs[3] = sum;
    return HYP_OK;
}

/* The sum of the embeddings of words, places and segments, normalized; and how many words of each row count. */
static hyp_status import_embed_norm(hyp_onnx_node *n)
{
    static const hyp_dim last[] = {1};
    hyp_type ids = hyp_onnx_input_type(n, 0);
    hyp_value_id sum, part, ends[2], places = input_or_none(n, 8), mask = input_or_none(n, 7);
    double epsilon;
    HYP_TRY(hyp_onnx_attr_float(n, "epsilon", 1e-12, &epsilon));
    static const uint32_t needed[] = {2, 3, 5, 6};
    for (int i = 0; i < 4; i++)
        if (!hyp_onnx_has_input(n, needed[i]))
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "input %u is missing", needed[i]);
    if (ids.rank != 2) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the words are [batch, length]");
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_gather, (const hyp_value_id[]){n->inputs[2], n->inputs[0]}, 2, NULL, &sum, 1));
    if (places == HYP_NO_VALUE) {
        hyp_attr size = hyp_attr_of_dims(&ids.dims[1], 1);
        HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, 0, &ends[0]));
        HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, 1, &ends[1]));
        HYP_TRY(hyp_onnx_emit(n, HYP_OP_range, ends, 2, &size, &places, 1));
    }
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_gather, (const hyp_value_id[]){n->inputs[3], places}, 2, NULL, &part, 1));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, sum, part, &sum));
    if (hyp_onnx_has_input(n, 1) && hyp_onnx_has_input(n, 4)) {
        const hyp_value_id rows[] = {n->inputs[4], n->inputs[1]};
        HYP_TRY(hyp_onnx_emit(n, HYP_OP_gather, rows, 2, NULL, &part, 1));
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, sum, part, &sum));
    }
    HYP_TRY(emit_norm(n, HYP_OP_layer_norm, sum, n->inputs[5], n->inputs[6], -1, epsilon, n->outputs, 1));
    if (n->output_count > 2) n->outputs[2] = sum;
    if (n->output_count < 2) return HYP_OK;
    hyp_attr attrs[] = {hyp_attr_of_dims(last, 1), hyp_attr_of_int(0)};
    if (mask != HYP_NO_VALUE) return hyp_onnx_emit(n, HYP_OP_reduce_sum, &mask, 1, attrs, &n->outputs[1], 1);
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I32, 0, &part));
    return hyp_onnx_emit_dims(n, HYP_OP_expand, part, ids.dims, 1, &n->outputs[1]);
}

/* Over all spatial axes, then scaled by channel. */
static hyp_status import_instance_norm(hyp_onnx_node *n)
{
    double epsilon;
    hyp_value_id x;
    HYP_TRY(hyp_onnx_attr_float(n, "epsilon", 1e-5, &epsilon));
    HYP_TRY(emit_norm(n, HYP_OP_layer_norm, n->inputs[0], HYP_NO_VALUE, HYP_NO_VALUE, 2, epsilon, &x, 1));
    return emit_affine(n, x, n->inputs[1], n->inputs[2], n->outputs);
}

/* One number for each group as one for each channel. */
static hyp_status spread_groups(const hyp_onnx_node *n, int64_t groups, hyp_dim each, hyp_dim channels, hyp_value_id *v)
{
    hyp_type type = hyp_onnx_value_type(n, *v);
    if (type.rank != 1 || type.dims[0] != groups || type.dims[0] == channels) return HYP_OK;
    const hyp_dim column[] = {groups, 1}, all[] = {groups, each};
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, *v, column, 2, v));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_expand, *v, all, 2, v));
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, *v, &channels, 1, v);
}

static hyp_status import_group_norm(hyp_onnx_node *n)
{
    hyp_type type = hyp_onnx_input_type(n, 0);
    int64_t groups;
    double epsilon;
    hyp_dim each, rows[3] = {type.dims[0], 0, 0};
    hyp_value_id x, scale = n->inputs[1], bias = n->inputs[2];
    HYP_TRY(hyp_onnx_attr_int(n, "num_groups", 0, &groups));
    HYP_TRY(hyp_onnx_attr_float(n, "epsilon", 1e-5, &epsilon));
    if (type.rank < 3 || groups < 1 || !hyp_dim_divides(n->im->g->dims, groups, type.dims[1], &each))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the channels do not form %lld groups", (long long)groups);
    rows[1] = groups;
    rows[2] = each;
    for (int32_t i = 2; i < type.rank; i++)
        HYP_TRY(hyp_dim_mul(n->im->g->dims, rows[2], type.dims[i], &rows[2], n->im->diag));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, n->inputs[0], rows, 3, &x));
    HYP_TRY(emit_norm(n, HYP_OP_layer_norm, x, HYP_NO_VALUE, HYP_NO_VALUE, 2, epsilon, &x, 1));
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, x, type.dims, type.rank, &x));
    HYP_TRY(spread_groups(n, groups, each, type.dims[1], &scale));
    HYP_TRY(spread_groups(n, groups, each, type.dims[1], &bias));
    return emit_affine(n, x, scale, bias, n->outputs);
}

/* (x - mean) / (standard deviation + 1e-9). */
static hyp_status import_mean_variance(hyp_onnx_node *n)
{
    hyp_type type = hyp_onnx_input_type(n, 0);
    hyp_onnx_ints axes;
    hyp_value_id mean, centred, deviation, small;
    HYP_TRY(hyp_onnx_attr_ints(n, "axes", &axes));
    if (!axes.present) axes = (hyp_onnx_ints){.count = 3, .items = {0, 2, 3}};
    HYP_TRY(hyp_onnx_axes(n, &axes, type.rank));
    HYP_TRY(emit_moments(n, n->inputs[0], &axes, &mean, &centred, &deviation));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_sqrt, &deviation, 1, NULL, &deviation, 1));
    HYP_TRY(hyp_onnx_add_scalar(n, type.dtype, 1e-9, &small));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, deviation, small, &deviation));
    return hyp_onnx_emit_binary(n, HYP_OP_div, centred, deviation, n->outputs);
}

/* x over the sum of magnitudes (p = 1), or over the root of the sum of squares; where that is 0 the result is 0. */
static hyp_status import_lp_norm(hyp_onnx_node *n)
{
    hyp_type type = hyp_onnx_input_type(n, 0);
    hyp_onnx_ints axes = {.count = 1};
    hyp_value_id x = n->inputs[0], norm, other, small;
    int64_t axis, p;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", -1, &axis));
    HYP_TRY(hyp_onnx_attr_int(n, "p", 2, &p));
    HYP_TRY(hyp_onnx_axis(n, axis, type.rank, &axes.items[0]));
    if (p != 1 && p != 2) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "p is %lld, 1 or 2 is wanted", (long long)p);
    if (p == 1) {
        HYP_TRY(hyp_onnx_add_scalar(n, type.dtype, -1, &other));
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, x, other, &other));
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_max, x, other, &norm));
    } else {
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, x, x, &norm));
    }
    HYP_TRY(emit_mean(n, HYP_OP_reduce_sum, norm, &axes, &norm));
    if (p == 2) HYP_TRY(hyp_onnx_emit(n, HYP_OP_sqrt, &norm, 1, NULL, &norm, 1));
    HYP_TRY(hyp_onnx_add_scalar(n, type.dtype, type.dtype == HYP_F16 ? 6e-8 : 1e-30, &small));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_max, norm, small, &norm));
    return hyp_onnx_emit_binary(n, HYP_OP_div, x, norm, n->outputs);
}

static hyp_status import_lrn(hyp_onnx_node *n)
{
    int64_t size;
    double alpha, beta, bias;
    HYP_TRY(hyp_onnx_attr_int(n, "size", 0, &size));
    HYP_TRY(hyp_onnx_attr_float(n, "alpha", 1e-4, &alpha));
    HYP_TRY(hyp_onnx_attr_float(n, "beta", 0.75, &beta));
    HYP_TRY(hyp_onnx_attr_float(n, "bias", 1, &bias));
    hyp_attr attrs[] = {hyp_attr_of_int(size), hyp_attr_of_float(alpha), hyp_attr_of_float(beta),
                        hyp_attr_of_float(bias)};
    return hyp_onnx_emit_unary(n, HYP_OP_lrn, attrs);
}

#define BATCH_NORM "epsilon momentum training_mode spatial is_test consumed_inputs "

static const hyp_onnx_operator rows[] = {
    {"BatchNormalization", 1, 5, 5, 5, BATCH_NORM, import_batch_norm, HYP_OP_batch_norm},
    {"GroupNormalization", 18, 3, 3, 1, "epsilon num_groups stash_type ", import_group_norm, HYP_OP_COUNT},
    {"InstanceNormalization", 1, 3, 3, 1, "epsilon consumed_inputs ", import_instance_norm, HYP_OP_COUNT},
    {"LRN", 1, 1, 1, 1, "size alpha beta bias ", import_lrn, HYP_OP_lrn},
    {"LayerNormalization", 1, 2, 3, 3, "axis epsilon stash_type ", import_layer_norm, HYP_OP_layer_norm},
    {"LpNormalization", 1, 1, 1, 1, "axis p ", import_lp_norm, HYP_OP_COUNT},
    {"MeanVarianceNormalization", 9, 1, 1, 1, "axes ", import_mean_variance, HYP_OP_COUNT},
    {"RMSNormalization", 23, 2, 2, 1, "axis epsilon stash_type ", import_layer_norm, HYP_OP_rms_norm},
    {"SimplifiedLayerNormalization", 1, 2, 2, 1, "axis epsilon stash_type ", import_layer_norm, HYP_OP_rms_norm},
    {"com.microsoft::EmbedLayerNormalization", 1, 1, 9, 3, "epsilon mask_index_type ", import_embed_norm, HYP_OP_COUNT},
    {"com.microsoft::SkipLayerNormalization", 1, 3, 5, 4, "epsilon ", import_skip_norm, HYP_OP_layer_norm},
    {"com.microsoft::SkipSimplifiedLayerNormalization", 1, 3, 4, 4, "epsilon ", import_skip_norm, HYP_OP_rms_norm},
};
const hyp_onnx_family hyp_onnx_norm = {rows, sizeof rows / sizeof *rows};
