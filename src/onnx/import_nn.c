/* Convolution, pooling, normalization. What is an exact composition of other operators is made of them. */
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

/* Pads one axis so that the result has ceil(in / stride) elements; the odd one goes to the end, or the beginning. */
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
    hyp_dim half, rest;
    HYP_TRY(hyp_dim_floordiv(d, total, 2, &half, diag));
    HYP_TRY(hyp_dim_sub(d, total, half, &rest, diag));
    bool upper = strcmp(w->auto_pad, "SAME_UPPER") == 0;
    w->pads[axis] = upper ? half : rest;
    w->pads[w->n + axis] = upper ? rest : half;
    return HYP_OK;
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
                        hyp_attr_of_dims(w.dilations, w.n), hyp_attr_of_int(group), hyp_attr_of_sym("none")};
    return hyp_onnx_emit(n, HYP_OP_conv, inputs, count, attrs, out, 1);
}

static hyp_status import_conv(hyp_onnx_node *n) { return emit_conv(n, 1, n->inputs, n->input_count, n->outputs); }

/* Pads (and what is added to the end) of one axis such that the result has this size. */
static hyp_status fit_output(const hyp_onnx_node *n, window *w, uint32_t i, hyp_dim in, hyp_dim size, hyp_dim *more)
{
    hyp_dims *d = n->im->g->dims;
    hyp_diag *diag = n->im->diag;
    hyp_dim total, reach, half, rest, lacking;
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
    HYP_TRY(hyp_dim_floordiv(d, total, 2, &half, diag));
    HYP_TRY(hyp_dim_sub(d, total, half, &rest, diag));
    bool upper = strcmp(w->auto_pad, "SAME_UPPER") == 0;
    w->pads[i] = upper ? half : rest;
    w->pads[w->n + i] = upper ? rest : half;
    return HYP_OK;
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

/* A vector over the channels as [C, 1, ...] for x of this rank. A scalar stays. */
static hyp_status emit_channels(const hyp_onnx_node *n, hyp_value_id v, int32_t rank, hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, v);
    hyp_dim dims[HYP_MAX_RANK] = {type.dims[0], 1, 1, 1, 1, 1, 1, 1};
    *out = v;
    if (type.rank == 0) return HYP_OK;
    if (type.rank != 1)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "a parameter of the channels has rank %d", type.rank);
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, v, dims, rank, out);
}

/* Operand i without its zero point, in i32. */
static hyp_status emit_whole(const hyp_onnx_node *n, uint32_t i, uint32_t zero, int32_t rank, hyp_value_id *out)
{
    hyp_value_id z;
    HYP_TRY(hyp_onnx_emit_cast(n, n->inputs[i], HYP_I32, out));
    if (!hyp_onnx_has_input(n, zero)) return HYP_OK;
    HYP_TRY(hyp_onnx_emit_cast(n, n->inputs[zero], HYP_I32, &z));
    HYP_TRY(emit_channels(n, z, rank, &z));
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
    HYP_TRY(emit_channels(n, scale, rank - 1, &scale));
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

/* ---- normalization -------------------------------------------------------------------------------- */

static hyp_status training_is_off(const hyp_onnx_node *n)
{
    int64_t training;
    HYP_TRY(hyp_onnx_attr_int(n, "training_mode", 0, &training));
    if (!training) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "training_mode is on; only inference is supported");
}

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
        HYP_TRY(emit_channels(n, v, type.rank > 1 ? type.rank - 1 : 1, &v));
        HYP_TRY(hyp_onnx_emit_binary(n, i ? HYP_OP_add : HYP_OP_mul, *out, v, out));
    }
    return HYP_OK;
}

/* (x - mean) * scale / sqrt(var + epsilon) + bias, with everything but x gathered into two vectors. */
static hyp_status import_batch_norm(hyp_onnx_node *n)
{
    double epsilon;
    hyp_value_id a, b, small;
    HYP_TRY(training_is_off(n));
    HYP_TRY(hyp_onnx_attr_float(n, "epsilon", 1e-5, &epsilon));
    HYP_TRY(hyp_onnx_add_scalar(n, hyp_onnx_input_type(n, 4).dtype, epsilon, &small));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_add, n->inputs[4], small, &a));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_sqrt, &a, 1, NULL, &a, 1));
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

static hyp_status emit_mean(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, const hyp_onnx_ints *axes,
                            hyp_value_id *out)
{
    hyp_attr attrs[] = {hyp_attr_of_dims(axes->items, axes->count), hyp_attr_of_int(1)};
    return hyp_onnx_emit(n, op, &x, 1, attrs, out, 1);
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
    HYP_TRY(emit_mean(n, HYP_OP_reduce_mean, n->inputs[0], &axes, &mean));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, n->inputs[0], mean, &centred));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, centred, centred, &deviation));
    HYP_TRY(emit_mean(n, HYP_OP_reduce_mean, deviation, &axes, &deviation));
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

#define WINDOW "auto_pad kernel_shape pads strides dilations "
#define BATCH_NORM "epsilon momentum training_mode spatial is_test consumed_inputs "

static const hyp_onnx_operator rows[] = {
    {"AveragePool", 1, 1, 1, 1, WINDOW "ceil_mode count_include_pad ", import_pool, HYP_OP_average_pool},
    {"BatchNormalization", 1, 5, 5, 5, BATCH_NORM, import_batch_norm, HYP_OP_COUNT},
    {"Col2Im", 18, 3, 3, 1, "dilations pads strides ", import_col2im, HYP_OP_conv_transpose},
    {"Conv", 1, 2, 3, 1, WINDOW "group ", import_conv, HYP_OP_conv},
    {"ConvInteger", 10, 2, 4, 1, WINDOW "group ", import_conv_integer, HYP_OP_conv},
    {"ConvTranspose", 1, 2, 3, 1, WINDOW "group output_padding output_shape ", import_conv_transpose,
     HYP_OP_conv_transpose},
    {"GlobalAveragePool", 1, 1, 1, 1, "", import_global_average, HYP_OP_reduce_mean},
    {"GlobalLpPool", 2, 1, 1, 1, "p ", import_global_pool, HYP_OP_lp_pool},
    {"GlobalMaxPool", 1, 1, 1, 1, "", import_global_pool, HYP_OP_max_pool},
    {"GroupNormalization", 18, 3, 3, 1, "epsilon num_groups stash_type ", import_group_norm, HYP_OP_COUNT},
    {"InstanceNormalization", 1, 3, 3, 1, "epsilon consumed_inputs ", import_instance_norm, HYP_OP_COUNT},
    {"LRN", 1, 1, 1, 1, "size alpha beta bias ", import_lrn, HYP_OP_lrn},
    {"LayerNormalization", 1, 2, 3, 3, "axis epsilon stash_type ", import_layer_norm, HYP_OP_layer_norm},
    {"LpNormalization", 1, 1, 1, 1, "axis p ", import_lp_norm, HYP_OP_COUNT},
    {"LpPool", 2, 1, 1, 1, WINDOW "ceil_mode p ", import_pool, HYP_OP_lp_pool},
    {"MaxPool", 1, 1, 1, 2, WINDOW "ceil_mode storage_order ", import_pool, HYP_OP_max_pool},
    {"MaxUnpool", 9, 2, 3, 1, WINDOW, import_max_unpool, HYP_OP_max_unpool},
    {"MeanVarianceNormalization", 9, 1, 1, 1, "axes ", import_mean_variance, HYP_OP_COUNT},
    {"QLinearConv", 10, 8, 9, 1, WINDOW "group ", import_qlinear_conv, HYP_OP_COUNT},
    {"RMSNormalization", 23, 2, 2, 1, "axis epsilon stash_type ", import_layer_norm, HYP_OP_rms_norm},
    {"SimplifiedLayerNormalization", 1, 2, 2, 1, "axis epsilon stash_type ", import_layer_norm, HYP_OP_rms_norm},
    {"com.microsoft::EmbedLayerNormalization", 1, 1, 9, 3, "epsilon mask_index_type ", import_embed_norm, HYP_OP_COUNT},
    {"com.microsoft::SkipLayerNormalization", 1, 3, 5, 4, "epsilon ", import_skip_norm, HYP_OP_layer_norm},
    {"com.microsoft::SkipSimplifiedLayerNormalization", 1, 3, 4, 4, "epsilon ", import_skip_norm, HYP_OP_rms_norm},
};
const hyp_onnx_family hyp_onnx_nn = {rows, sizeof rows / sizeof *rows};
