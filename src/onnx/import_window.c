/* Convolution and pooling: what a window slides over. What is an exact composition of other operators is made of them. */
#include <string.h>

#include "onnx/import.h"

/* ---- windows -------------------------------------------------------------------------------------- */

typedef struct window {
    uint32_t n; /* spatial axes */
    hyp_dim kernel[HYP_MAX_RANK], strides[HYP_MAX_RANK], dilations[HYP_MAX_RANK], pads[2 * HYP_MAX_RANK];
    const char *auto_pad; /* "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER" */
} window;

/* An attribute with an entry for each of `count` axes, `missing` where it is absent. */
static hyp_status list_of(const hyp_onnx_node *n, const char *name, uint32_t count, hyp_dim missing, hyp_dim *out)
{
    hyp_onnx_ints list;
    HYP_TRY(hyp_onnx_attr_ints(n, name, &list));
    if (list.present && list.count != count)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"%s\" has %u numbers, %u are wanted", name,
                        list.count, count);
    for (uint32_t i = 0; i < count; i++) out[i] = list.present ? list.items[i] : missing;
    return HYP_OK;
}

/* Pads one axis by `total` on both sides together; the odd one goes to the end, or the beginning. */
static hyp_status split_pads(const hyp_onnx_node *n, window *w, uint32_t axis, hyp_dim total)
{
    hyp_dim half, rest;
    HYP_TRY(hyp_dim_floordiv(n->im->g->dims, total, 2, &half, n->im->diag));
    HYP_TRY(hyp_dim_sub(n->im->g->dims, total, half, &rest, n->im->diag));
    bool upper = strcmp(w->auto_pad, "SAME_UPPER") == 0;
    w->pads[axis] = upper ? half : rest;
    w->pads[w->n + axis] = upper ? rest : half;
    return HYP_OK;
}

/* Pads one axis so that the result has ceil(in / stride) elements. */
static hyp_status pad_same(const hyp_onnx_node *n, window *w, uint32_t axis, hyp_dim in)
{
    hyp_dims *d = n->im->g->dims;
    hyp_diag *diag = n->im->diag;
    hyp_dim steps, total, more, stride = w->strides[axis];
    HYP_TRY(hyp_dim_add(d, in, stride - 1, &steps, diag));
    HYP_TRY(hyp_dim_floordiv(d, steps, stride, &steps, diag));
    HYP_TRY(hyp_dim_sub(d, steps, 1, &steps, diag));
    HYP_TRY(hyp_dim_mul(d, steps, stride, &total, diag));
    HYP_TRY(hyp_dim_mul(d, w->kernel[axis] - 1, w->dilations[axis], &more, diag));
    HYP_TRY(hyp_dim_add(d, total, more, &total, diag));
    HYP_TRY(hyp_dim_add(d, total, 1, &total, diag));
    HYP_TRY(hyp_dim_sub(d, total, in, &total, diag));
    HYP_TRY(hyp_dim_max(d, total, 0, &total, diag));
    return split_pads(n, w, axis, total);
}

/* Reads strides, dilations and pads; the kernel is there. */
static hyp_status read_window(const hyp_onnx_node *n, const hyp_type *x, bool resolve_same, window *w)
{
    static const char *const modes[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", NULL};
    HYP_TRY(list_of(n, "strides", w->n, 1, w->strides));
    HYP_TRY(list_of(n, "dilations", w->n, 1, w->dilations));
    HYP_TRY(list_of(n, "pads", 2 * w->n, 0, w->pads));
    HYP_TRY(hyp_onnx_attr_choice(n, "auto_pad", modes, &w->auto_pad));
    for (uint32_t i = 0; i < w->n; i++)
        if (w->strides[i] < 1 || w->dilations[i] < 1)
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "strides and dilations should be 1 or more");
    if (strcmp(w->auto_pad, "NOTSET") == 0) return HYP_OK;
    memset(w->pads, 0, sizeof w->pads);
    for (uint32_t i = 0; i < w->n && resolve_same && strcmp(w->auto_pad, "VALID") != 0; i++)
        HYP_TRY(pad_same(n, w, i, x->dims[2 + i]));
    return HYP_OK;
}

static hyp_status spatial_axes(const hyp_onnx_node *n, const hyp_type *x, uint32_t *out)
{
    if (x->rank < 3)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "x has rank %d; [N, C, ...] is wanted", x->rank);
    *out = (uint32_t)x->rank - 2;
    return HYP_OK;
}

/* ---- convolution ---------------------------------------------------------------------------------- */

/* The kernel's sizes are those of the weights, input `second`; the attribute only repeats them. */
static hyp_status check_kernel(const hyp_onnx_node *n, const window *w)
{
    hyp_onnx_ints shape;
    HYP_TRY(hyp_onnx_attr_ints(n, "kernel_shape", &shape));
    if (shape.present && shape.count != w->n)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"kernel_shape\" has %u numbers for %u axes",
                        shape.count, w->n);
    for (uint32_t i = 0; i < shape.count; i++)
        if (shape.items[i] != w->kernel[i])
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED,
                            "attribute \"kernel_shape\" has %lld for axis %u, the weights have %lld",
                            (long long)shape.items[i], i, (long long)w->kernel[i]);
    return HYP_OK;
}

static hyp_status read_conv(const hyp_onnx_node *n, uint32_t second, bool resolve_same, window *w, int64_t *group)
{
    hyp_type x = hyp_onnx_input_type(n, 0), weights = hyp_onnx_input_type(n, second);
    *w = (window){0};
    HYP_TRY(spatial_axes(n, &x, &w->n));
    if (weights.rank != x.rank)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the weights have rank %d, x has %d", weights.rank, x.rank);
    for (uint32_t i = 0; i < w->n; i++) {
        w->kernel[i] = weights.dims[2 + i];
        if (!hyp_dim_is_const(w->kernel[i]))
            return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "the sizes of the weights must be known");
    }
    HYP_TRY(check_kernel(n, w));
    HYP_TRY(hyp_onnx_attr_int(n, "group", 1, group));
    return read_window(n, &x, resolve_same, w);
}

static hyp_status emit_conv(const hyp_onnx_node *n, uint32_t second, const hyp_value_id *inputs, uint32_t count,
                            hyp_value_id *out)
{
    window w;
    int64_t group;
    HYP_TRY(read_conv(n, second, true, &w, &group));
    hyp_attr attrs[] = {hyp_attr_of_dims(w.strides, w.n), hyp_attr_of_dims(w.pads, 2 * w.n),
                        hyp_attr_of_dims(w.dilations, w.n), hyp_attr_of_int(group), hyp_attr_of_sym("none"),
                        hyp_attr_of_float(0)};
    return hyp_onnx_emit(n, HYP_OP_conv, inputs, count, attrs, out, 1);
}

static hyp_status import_conv(hyp_onnx_node *n) { return emit_conv(n, 1, n->inputs, n->input_count, n->outputs); }

/* What is added to the sum before its activation is input 3. */
static hyp_status import_fused_conv(hyp_onnx_node *n)
{
    hyp_value_id y;
    const HypOnnx__AttributeProto *params = hyp_onnx_attr(n, "activation_params");
    HYP_TRY(emit_conv(n, 1, n->inputs, n->input_count < 3 ? n->input_count : 3, &y));
    if (hyp_onnx_has_input(n, 3)) HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, y, n->inputs[3], &y));
    return hyp_onnx_emit_fused(n, params && params->n_floats ? (double)params->floats[0] : 0.01, y, n->outputs);
}

/* Pads (and what is added to the end) of one axis such that the result has this size. */
static hyp_status fit_output(const hyp_onnx_node *n, window *w, uint32_t i, hyp_dim in, hyp_dim size, hyp_dim *more)
{
    hyp_dims *d = n->im->g->dims;
    hyp_diag *diag = n->im->diag;
    hyp_dim total, reach, lacking;
    HYP_TRY(hyp_dim_sub(d, in, 1, &total, diag));
    HYP_TRY(hyp_dim_mul(d, total, w->strides[i], &total, diag));
    HYP_TRY(hyp_dim_mul(d, w->kernel[i] - 1, w->dilations[i], &reach, diag));
    HYP_TRY(hyp_dim_add(d, total, reach, &total, diag));
    HYP_TRY(hyp_dim_add(d, total, 1, &total, diag));
    HYP_TRY(hyp_dim_add(d, total, *more, &total, diag));
    HYP_TRY(hyp_dim_sub(d, total, size, &total, diag));
    HYP_TRY(hyp_dim_sub(d, 0, total, &lacking, diag));
    HYP_TRY(hyp_dim_max(d, lacking, 0, &lacking, diag));
    HYP_TRY(hyp_dim_max(d, total, 0, &total, diag));
    HYP_TRY(hyp_dim_add(d, *more, lacking, more, diag));
    return split_pads(n, w, i, total);
}

static hyp_status import_conv_transpose(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_dim more[HYP_MAX_RANK];
    hyp_onnx_ints shape;
    window w;
    int64_t group;
    HYP_TRY(read_conv(n, 1, false, &w, &group));
    HYP_TRY(list_of(n, "output_padding", w.n, 0, more));
    HYP_TRY(hyp_onnx_attr_ints(n, "output_shape", &shape));
    if (shape.present && shape.count != w.n && shape.count != w.n + 2)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "output_shape has %u numbers for %u axes", shape.count, w.n);
    bool same = strncmp(w.auto_pad, "SAME", 4) == 0;
    for (uint32_t i = 0; i < w.n && (shape.present || same); i++) {
        hyp_dim size = shape.present ? shape.items[shape.count - w.n + i] : 0;
        if (!shape.present) HYP_TRY(hyp_dim_mul(n->im->g->dims, x.dims[2 + i], w.strides[i], &size, n->im->diag));
        HYP_TRY(fit_output(n, &w, i, x.dims[2 + i], size, &more[i]));
    }
    hyp_attr attrs[] = {hyp_attr_of_dims(w.strides, w.n), hyp_attr_of_dims(w.pads, 2 * w.n),
                        hyp_attr_of_dims(w.dilations, w.n), hyp_attr_of_int(group), hyp_attr_of_dims(more, w.n)};
    return hyp_onnx_emit(n, HYP_OP_conv_transpose, n->inputs, n->input_count, attrs, n->outputs, 1);
}

/* Operand i without its zero point, in i32. */
static hyp_status emit_whole(const hyp_onnx_node *n, uint32_t i, uint32_t zero, int32_t rank, hyp_value_id *out)
{
    hyp_value_id z;
    HYP_TRY(hyp_onnx_emit_cast(n, n->inputs[i], HYP_I32, out));
    if (!hyp_onnx_has_input(n, zero)) return HYP_OK;
    HYP_TRY(hyp_onnx_emit_cast(n, n->inputs[zero], HYP_I32, &z));
    HYP_TRY(hyp_onnx_emit_channels(n, z, rank, &z));
    return hyp_onnx_emit_binary(n, HYP_OP_sub, *out, z, out);
}

static hyp_status import_conv_integer(hyp_onnx_node *n)
{
    int32_t rank = hyp_onnx_input_type(n, 1).rank;
    hyp_value_id operands[2];
    HYP_TRY(emit_whole(n, 0, 2, 1, &operands[0]));
    HYP_TRY(emit_whole(n, 1, 3, rank, &operands[1]));
    return emit_conv(n, 1, operands, 2, n->outputs);
}

/* The sum of products and the bias in i32, then times x_scale w_scale / y_scale, rounded, moved and cut to y's type.
 * Inputs: x x_scale x_zero w w_scale w_zero y_scale y_zero bias. */
static hyp_status import_qlinear_conv(hyp_onnx_node *n)
{
    hyp_type type = hyp_onnx_input_type(n, 7);
    int32_t rank = hyp_onnx_input_type(n, 3).rank;
    bool bias = hyp_onnx_has_input(n, 8);
    hyp_value_id operands[3], y, scale;
    if (type.dtype != HYP_U8 && type.dtype != HYP_I8)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "the result is %s; uint8 and int8 are supported",
                        hyp_dtype_name(type.dtype));
    HYP_TRY(emit_whole(n, 0, 2, 1, &operands[0]));
    HYP_TRY(emit_whole(n, 3, 5, rank, &operands[1]));
    if (bias) operands[2] = n->inputs[8];
    HYP_TRY(emit_conv(n, 3, operands, bias ? 3 : 2, &y));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, n->inputs[1], n->inputs[4], &scale));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_div, scale, n->inputs[6], &scale));
    HYP_TRY(hyp_onnx_emit_channels(n, scale, rank - 1, &scale));
    HYP_TRY(hyp_onnx_emit_cast(n, y, hyp_onnx_value_type(n, scale).dtype, &y));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, y, scale, &y));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_round, &y, 1, NULL, &y, 1));
    HYP_TRY(hyp_onnx_emit_cast(n, n->inputs[7], hyp_onnx_value_type(n, y).dtype, &scale));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, y, scale, &y));
    bool is_signed = type.dtype == HYP_I8;
    const hyp_attr range[] = {hyp_attr_of_float(is_signed ? -128 : 0), hyp_attr_of_float(is_signed ? 127 : 255)};
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_clip, &y, 1, range, &y, 1));
    return hyp_onnx_emit_cast(n, y, type.dtype, n->outputs);
}

/* Blocks that the window takes along one axis, and what then lacks to the size of the image. */
static hyp_status count_blocks(const hyp_onnx_node *n, const window *w, uint32_t i, hyp_dim size, hyp_dim *blocks,
                               hyp_dim *more)
{
    hyp_dims *d = n->im->g->dims;
    hyp_diag *diag = n->im->diag;
    hyp_dim reach, room, steps, taken;
    HYP_TRY(hyp_dim_mul(d, w->kernel[i] - 1, w->dilations[i], &reach, diag));
    HYP_TRY(hyp_dim_add(d, size, w->pads[i], &room, diag));
    HYP_TRY(hyp_dim_add(d, room, w->pads[w->n + i], &room, diag));
    HYP_TRY(hyp_dim_sub(d, room, reach, &room, diag));
    HYP_TRY(hyp_dim_sub(d, room, 1, &room, diag));
    HYP_TRY(hyp_dim_floordiv(d, room, w->strides[i], &steps, diag));
    HYP_TRY(hyp_dim_add(d, steps, 1, blocks, diag));
    HYP_TRY(hyp_dim_mul(d, steps, w->strides[i], &taken, diag));
    return hyp_dim_sub(d, room, taken, more, diag);
}

/* Weights [channels positions, 1, kernel...] that put each row of a block into its place. */
static hyp_status add_places(const hyp_onnx_node *n, const window *w, hyp_dtype dtype, int64_t channels,
                             int64_t positions, hyp_value_id *out)
{
    enum { MOST = 1 << 24 }; /* a limit of sanity: the operator is one of images and small windows */
    hyp_type type = {.dtype = dtype, .rank = (int32_t)w->n + 2, .dims = {channels * positions, 1}};
    if (positions > MOST || channels > MOST / positions / positions)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "blocks of %lld elements are too large",
                        (long long)positions);
    for (uint32_t i = 0; i < w->n; i++) type.dims[2 + i] = w->kernel[i];
    size_t count = (size_t)(channels * positions * positions), size = hyp_dtype_size(dtype);
    void *data = hyp_arena_zalloc(&n->im->g->arena, count, size);
    if (!data) return hyp_fail_memory(n->im->diag, count * size);
    for (int64_t i = 0; i < channels * positions; i++)
        hyp_store_f64(dtype, data, (size_t)(i * positions + i % positions), 1);
    return hyp_graph_add_const(n->im->g, NULL, &type, data, count * size, false, out, n->im->diag);
}

/* Columns back into an image: the transpose of a convolution whose weights only move. */
static hyp_status import_col2im(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_onnx_ints image, block;
    hyp_dim more[HYP_MAX_RANK], shape[HYP_MAX_RANK] = {x.dims[0], x.dims[1]};
    hyp_value_id operands[2];
    int64_t positions = 1;
    window w = {0};
    HYP_TRY(hyp_onnx_input_ints(n, 1, "image_shape", &image));
    HYP_TRY(hyp_onnx_input_ints(n, 2, "block_shape", &block));
    if (x.rank != 3 || block.count != image.count || block.count < 1 || block.count > HYP_MAX_RANK - 2)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "x has rank %d, the image %u and the block %u axes", x.rank,
                        image.count, block.count);
    w.n = block.count;
    HYP_TRY(read_window(n, &x, false, &w));
    for (uint32_t i = 0; i < w.n; i++) {
        w.kernel[i] = block.items[i];
        if (w.kernel[i] < 1 || !hyp_dim_is_const(w.kernel[i]) || !hyp_mul_i64(positions, w.kernel[i], &positions))
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the sizes of the block are out of range");
        HYP_TRY(count_blocks(n, &w, i, image.items[i], &shape[2 + i], &more[i]));
    }
    if (!hyp_dim_is_const(x.dims[1]) || x.dims[1] % positions)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "x has no whole number of blocks of %lld elements",
                        (long long)positions);
    int64_t channels = x.dims[1] / positions;
    HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, n->inputs[0], shape, (int32_t)w.n + 2, &operands[0]));
    HYP_TRY(add_places(n, &w, x.dtype, channels, positions, &operands[1]));
    hyp_attr attrs[] = {hyp_attr_of_dims(w.strides, w.n), hyp_attr_of_dims(w.pads, 2 * w.n),
                        hyp_attr_of_dims(w.dilations, w.n), hyp_attr_of_int(channels), hyp_attr_of_dims(more, w.n)};
    return hyp_onnx_emit(n, HYP_OP_conv_transpose, operands, 2, attrs, n->outputs, 1);
}

/* ---- pooling -------------------------------------------------------------------------------------- */

static hyp_status import_pool(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    window w = {0};
    int64_t ceil, last = 0;
    HYP_TRY(spatial_axes(n, &x, &w.n));
    HYP_TRY(list_of(n, "kernel_shape", w.n, 0, w.kernel));
    if (!hyp_onnx_attr(n, "kernel_shape"))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"kernel_shape\" is missing");
    HYP_TRY(read_window(n, &x, true, &w));
    HYP_TRY(hyp_onnx_attr_int(n, "ceil_mode", 0, &ceil));
    if (n->op->op == HYP_OP_max_pool) HYP_TRY(hyp_onnx_attr_int(n, "storage_order", 0, &last));
    if (n->op->op == HYP_OP_average_pool) HYP_TRY(hyp_onnx_attr_int(n, "count_include_pad", 0, &last));
    if (n->op->op == HYP_OP_lp_pool) HYP_TRY(hyp_onnx_attr_int(n, "p", 2, &last));
    hyp_attr attrs[] = {hyp_attr_of_dims(w.kernel, w.n),    hyp_attr_of_dims(w.strides, w.n),
                        hyp_attr_of_dims(w.pads, 2 * w.n),  hyp_attr_of_dims(w.dilations, w.n),
                        hyp_attr_of_int(ceil != 0),         hyp_attr_of_int(last)};
    bool places = n->output_count > 1;
    return hyp_onnx_emit(n, places ? HYP_OP_max_pool_places : n->op->op, n->inputs, 1, attrs, n->outputs, places ? 2 : 1);
}

/* One window over all spatial axes. */
static hyp_status import_global_pool(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_dim ones[HYP_MAX_RANK], zeros[2 * HYP_MAX_RANK] = {0};
    uint32_t count;
    int64_t p;
    HYP_TRY(spatial_axes(n, &x, &count));
    HYP_TRY(hyp_onnx_attr_int(n, "p", 2, &p));
    for (uint32_t i = 0; i < count; i++) ones[i] = 1;
    hyp_attr attrs[] = {hyp_attr_of_dims(x.dims + 2, count), hyp_attr_of_dims(ones, count),
                        hyp_attr_of_dims(zeros, 2 * count),  hyp_attr_of_dims(ones, count),
                        hyp_attr_of_int(0),                  hyp_attr_of_int(n->op->op == HYP_OP_lp_pool ? p : 0)};
    return hyp_onnx_emit_unary(n, n->op->op, attrs);
}

static hyp_status import_global_average(hyp_onnx_node *n)
{
    static const hyp_dim axes[] = {2, 3, 4, 5, 6, 7};
    hyp_type x = hyp_onnx_input_type(n, 0);
    uint32_t count;
    HYP_TRY(spatial_axes(n, &x, &count));
    hyp_attr attrs[] = {hyp_attr_of_dims(axes, count), hyp_attr_of_int(1)};
    return hyp_onnx_emit_unary(n, HYP_OP_reduce_mean, attrs);
}

static hyp_status import_max_unpool(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_dims *d = n->im->g->dims;
    hyp_dim counted[HYP_MAX_RANK];
    hyp_onnx_ints shape;
    window w = {0};
    HYP_TRY(spatial_axes(n, &x, &w.n));
    HYP_TRY(list_of(n, "kernel_shape", w.n, 1, w.kernel));
    HYP_TRY(read_window(n, &x, true, &w));
    HYP_TRY(hyp_onnx_input_ints(n, 2, "output_shape", &shape));
    if (shape.present && shape.count != w.n + 2)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "output_shape has %u numbers, %u are wanted", shape.count,
                        w.n + 2);
    for (uint32_t i = 0; i < w.n; i++) {
        HYP_TRY(hyp_dim_sub(d, x.dims[2 + i], 1, &counted[i], n->im->diag));
        HYP_TRY(hyp_dim_mul(d, counted[i], w.strides[i], &counted[i], n->im->diag));
        HYP_TRY(hyp_dim_add(d, counted[i], w.kernel[i] - w.pads[i] - w.pads[w.n + i], &counted[i], n->im->diag));
    }
    hyp_attr attrs[] = {hyp_attr_of_dims(counted, w.n),
                        hyp_attr_of_dims(shape.present ? shape.items + 2 : counted, w.n)};
    return hyp_onnx_emit(n, HYP_OP_max_unpool, n->inputs, 2, attrs, n->outputs, 1);
}

#define WINDOW "auto_pad kernel_shape pads strides dilations "

static const hyp_onnx_operator rows[] = {
    {"AveragePool", 1, 1, 1, 1, WINDOW "ceil_mode count_include_pad ", import_pool, HYP_OP_average_pool},
    {"Col2Im", 18, 3, 3, 1, "dilations pads strides ", import_col2im, HYP_OP_conv_transpose},
    {"Conv", 1, 2, 3, 1, WINDOW "group ", import_conv, HYP_OP_conv},
    {"ConvInteger", 10, 2, 4, 1, WINDOW "group ", import_conv_integer, HYP_OP_conv},
    {"ConvTranspose", 1, 2, 3, 1, WINDOW "group output_padding output_shape ", import_conv_transpose,
     HYP_OP_conv_transpose},
    {"GlobalAveragePool", 1, 1, 1, 1, "", import_global_average, HYP_OP_reduce_mean},
    {"GlobalLpPool", 2, 1, 1, 1, "p ", import_global_pool, HYP_OP_lp_pool},
    {"GlobalMaxPool", 1, 1, 1, 1, "", import_global_pool, HYP_OP_max_pool},
    {"LpPool", 2, 1, 1, 1, WINDOW "ceil_mode p ", import_pool, HYP_OP_lp_pool},
    {"MaxPool", 1, 1, 1, 2, WINDOW "ceil_mode storage_order ", import_pool, HYP_OP_max_pool},
    {"MaxUnpool", 9, 2, 3, 1, WINDOW, import_max_unpool, HYP_OP_max_unpool},
    {"QLinearConv", 10, 8, 9, 1, WINDOW "group ", import_qlinear_conv, HYP_OP_COUNT},
    {"com.microsoft::FusedConv", 1, 2, 4, 1, WINDOW "group activation activation_params ", import_fused_conv, HYP_OP_conv},
};
const hyp_onnx_family hyp_onnx_window = {rows, sizeof rows / sizeof *rows};
