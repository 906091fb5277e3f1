/* Operators that change the type of a tensor and leave its elements in their order, and constants. */
#include <string.h>

#include "onnx/import.h"
#include "onnx/tensor.h"

/* The forms of Constant other than a tensor. */
static const struct {
    const char *attribute;
    HypOnnx__AttributeProto__AttributeType type;
    hyp_dtype dtype;
    bool list;
} plain_constants[] = {
    {"value_float", HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, HYP_F32, false},
    {"value_floats", HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS, HYP_F32, true},
    {"value_int", HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, HYP_I64, false},
    {"value_ints", HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, HYP_I64, true},
};

static hyp_status plain_constant(const hyp_onnx_node *n, const HypOnnx__AttributeProto *a, hyp_tensor *out)
{
    for (size_t i = 0; i < sizeof plain_constants / sizeof *plain_constants; i++) {
        if (strcmp(plain_constants[i].attribute, a->name) != 0) continue;
        if (a->has_type && a->type != plain_constants[i].type) break;
        bool is_float = plain_constants[i].dtype == HYP_F32, list = plain_constants[i].list;
        size_t count = !list ? 1 : is_float ? a->n_floats : a->n_ints;
        const void *one = is_float ? (const void *)&a->f : (const void *)&a->i;
        const void *many = is_float ? (const void *)a->floats : (const void *)a->ints;
        *out = (hyp_tensor){.dtype = plain_constants[i].dtype,
                            .data = (void *)(uintptr_t)(list ? many : one),
                            .bytes = count * hyp_dtype_size(plain_constants[i].dtype),
                            .rank = list};
        if (list) out->dims[0] = (int64_t)count;
        return HYP_OK;
    }
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"%s\" is of another kind than the operator wants",
                    a->name);
}

static hyp_status import_constant(hyp_onnx_node *n)
{
    if (n->proto->n_attribute != 1)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "should have one attribute, has %zu", n->proto->n_attribute);
    const HypOnnx__AttributeProto *a = n->proto->attribute[0];
    hyp_tensor t;
    if (strcmp(a->name, "value") != 0)
        HYP_TRY(plain_constant(n, a, &t));
    else if (a->t)
        HYP_TRY(hyp_onnx_tensor_read(n->im->source, a->t, &t, n->im->diag));
    else
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"value\" has no tensor");
    return hyp_onnx_add_const(n->im, n->proto->output[0], &t, n->outputs);
}

static bool is_zero(const hyp_onnx_node *n, uint32_t i)
{
    double number;
    return hyp_onnx_has_input(n, i) && hyp_onnx_is_number(n, i, &number) && number == 0;
}

/* Whether a node of the graph, or who runs it, reads the value. */
static bool is_read(const HypOnnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_input; k++)
            if (strcmp(graph->node[i]->input[k], name) == 0) return true;
    for (size_t i = 0; i < graph->n_output; i++)
        if (graph->output[i]->name && strcmp(graph->output[i]->name, name) == 0) return true;
    return false;
}

/* With options->dropout: the ratio, which an input gives since opset 12. */
static hyp_status dropout_ratio(hyp_onnx_node *n, double *out)
{
    double mode = 0;
    bool read = n->output_count > 1 && is_read(n->im->scope.graph, n->proto->output[1]);
    HYP_TRY(hyp_onnx_attr_float(n, "ratio", 0.5, out));
    if (hyp_onnx_has_input(n, 1) && !hyp_onnx_is_number(n, 1, out))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "the ratio is no constant, and elements are to be dropped");
    if (hyp_onnx_has_input(n, 2) && !hyp_onnx_is_number(n, 2, &mode))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "training_mode is no constant: a training step says itself when it drops");
    if (read)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "the mask is read, which a training step that drops elements does not have");
    if (*out >= 0 && *out <= 1) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the ratio is %g, wanted is one from 0 to 1", *out);
}

/* At inference nothing is dropped, nor is at a ratio of 0: the mask is all true. */
static hyp_status import_dropout(hyp_onnx_node *n)
{
    hyp_attr ratio = hyp_attr_of_float(0);
    if (n->im->options->dropout) {
        HYP_TRY(dropout_ratio(n, &ratio.f));
    } else if (hyp_onnx_has_input(n, 2) && !is_zero(n, 2) && !is_zero(n, 1)) {
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "training_mode is not a constant false, nor is the ratio a constant 0: a plan gives the same outputs "
                        "for the same inputs; export the model with a ratio of 0, or make a training step of it (--train, "
                        "--dropout)");
    }
    HYP_TRY(hyp_onnx_emit_unary(n, HYP_OP_dropout, &ratio));
    if (n->output_count < 2) return HYP_OK;
    hyp_type x = hyp_onnx_input_type(n, 0);
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_BOOL, 1, &n->outputs[1]));
    return hyp_onnx_emit_dims(n, HYP_OP_expand, n->outputs[1], x.dims, x.rank, &n->outputs[1]);
}

static hyp_status product(const hyp_onnx_node *n, hyp_dim *into, hyp_dim by)
{
    return hyp_dim_mul(n->im->g->dims, *into, by, into, n->im->diag);
}

/* The size that -1 stands for: the elements of x over those of the other sizes. Sizes that the shape copies
 * from x are in both and left out, so that they may be 0. */
static hyp_status infer_open_dim(const hyp_onnx_node *n, const hyp_type *x, const hyp_onnx_ints *shape,
                                 const bool *copied, hyp_dim *out)
{
    hyp_dim total = 1, rest = 1, quotient;
    for (int32_t i = 0; i < x->rank; i++)
        if (i >= (int32_t)shape->count || !copied[i]) HYP_TRY(product(n, &total, x->dims[i]));
    for (uint32_t i = 0; i < shape->count; i++)
        if (shape->items[i] != -1 && !copied[i]) HYP_TRY(product(n, &rest, shape->items[i]));
    if (rest != 0 && hyp_dim_divides(n->im->g->dims, rest, total, &quotient)) {
        *out = quotient;
        return HYP_OK;
    }
    hyp_dim whole;
    if (hyp_dim_is_const(rest) && rest > 0 && hyp_dim_floordiv(n->im->g->dims, total, rest, &whole, NULL) == HYP_OK &&
        hyp_dim_mul(n->im->g->dims, whole, rest, &whole, NULL) == HYP_OK)
        hyp_dims_note_unequal(n->im->g->dims, total, whole);
    hyp_strbuf sb = {0};
    hyp_dim_print(&sb, n->im->g->dims, total);
    hyp_strbuf_puts(&sb, " elements into parts of ");
    hyp_dim_print(&sb, n->im->g->dims, rest);
    bool known = hyp_dim_is_const(rest) && hyp_dim_is_const(total);
    hyp_status status =
        hyp_fail(n->im->diag, known ? HYP_ERR_MALFORMED : HYP_ERR_UNSUPPORTED, "cannot divide %s%s",
                 hyp_strbuf_text(&sb), known ? "" : " for every size of the symbolic dims; fix them with --dim");
    hyp_strbuf_dispose(&sb);
    return status;
}

/* A reshape that holds for some sizes of the symbolic dims only is valid ONNX: a condition of the plan, where one symbol
 * can be solved for, else not supported. The IR refuses the ones that hold for none. */
static hyp_status check_same_elements(const hyp_onnx_node *n, const hyp_type *x, const hyp_onnx_ints *shape)
{
    hyp_dim have = 1, want = 1;
    for (int32_t i = 0; i < x->rank; i++) HYP_TRY(product(n, &have, x->dims[i]));
    for (uint32_t i = 0; i < shape->count; i++) HYP_TRY(product(n, &want, shape->items[i]));
    if (have == want || (hyp_dim_is_const(have) && hyp_dim_is_const(want))) return HYP_OK;
    hyp_dims_note_unequal(n->im->g->dims, have, want);
    hyp_strbuf sb = {0};
    hyp_dim_print(&sb, n->im->g->dims, have);
    hyp_strbuf_puts(&sb, " elements do not always fill a shape of ");
    hyp_dim_print(&sb, n->im->g->dims, want);
    hyp_status status =
        hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "%s; fix the symbolic dims with --dim", hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

static hyp_status import_reshape(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_onnx_ints shape;
    int64_t allow_zero;
    bool copied[HYP_MAX_RANK] = {false};
    uint32_t open = UINT32_MAX;
    HYP_TRY(hyp_onnx_attr_int(n, "allowzero", 0, &allow_zero));
    HYP_TRY(hyp_onnx_ints_of(n, 1, "shape", &shape)); /* an attribute until opset 4 */
    if (!shape.present) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "has no shape");
    if (shape.count > HYP_MAX_RANK)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "rank %u is above %d, the highest supported", shape.count,
                        HYP_MAX_RANK);
    for (uint32_t i = 0; i < shape.count; i++) {
        hyp_dim *d = &shape.items[i];
        if (*d == 0 && !allow_zero) {
            if (i >= (uint32_t)x.rank)
                return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "dim %u is to be copied, but the input has rank %d", i,
                                x.rank);
            *d = x.dims[i];
            copied[i] = true;
        } else if (*d == -1) {
            if (open != UINT32_MAX) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "two dims are -1");
            open = i;
        } else if (hyp_dim_is_const(*d) && *d < 0) {
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "dim %u is %lld", i, (long long)*d);
        }
    }
    if (open != UINT32_MAX) HYP_TRY(infer_open_dim(n, &x, &shape, copied, &shape.items[open]));
    HYP_TRY(check_same_elements(n, &x, &shape));
    hyp_attr attr = hyp_attr_of_dims(shape.items, shape.count);
    return hyp_onnx_emit_unary(n, HYP_OP_reshape, &attr);
}

static hyp_status import_flatten(hyp_onnx_node *n)
{
    int64_t axis, rank = hyp_onnx_input_type(n, 0).rank;
    HYP_TRY(hyp_onnx_attr_int(n, "axis", 1, &axis));
    if (axis != rank) HYP_TRY(hyp_onnx_axis(n, axis, (int32_t)rank, &axis));
    hyp_attr attr = hyp_attr_of_int(axis);
    return hyp_onnx_emit_unary(n, HYP_OP_flatten, &attr);
}

static hyp_status import_squeeze(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_onnx_ints axes;
    HYP_TRY(hyp_onnx_ints_of(n, 1, "axes", &axes));
    for (int32_t i = 0; i < x.rank && !axes.present; i++) {
        if (x.dims[i] == 1) axes.items[axes.count++] = i;
        if (!hyp_dim_is_const(x.dims[i]))
            return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                            "without axes, its rank depends on whether dim %d is 1; fix that dim with --dim", i);
    }
    HYP_TRY(hyp_onnx_axes(n, &axes, x.rank));
    hyp_attr attr = hyp_attr_of_dims(axes.items, axes.count);
    return hyp_onnx_emit_unary(n, HYP_OP_squeeze, &attr);
}

static hyp_status import_unsqueeze(hyp_onnx_node *n)
{
    hyp_onnx_ints axes;
    HYP_TRY(hyp_onnx_ints_of(n, 1, "axes", &axes));
    int32_t rank = hyp_onnx_input_type(n, 0).rank + (int32_t)axes.count;
    if (rank > HYP_MAX_RANK)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "rank %d is above %d, the highest supported", rank,
                        HYP_MAX_RANK);
    HYP_TRY(hyp_onnx_axes(n, &axes, rank));
    hyp_attr attr = hyp_attr_of_dims(axes.items, axes.count);
    return hyp_onnx_emit_unary(n, HYP_OP_unsqueeze, &attr);
}

/* The shape broadcasts both ways: a 1 in it keeps what x has. */
static hyp_status import_expand(hyp_onnx_node *n)
{
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_onnx_ints shape;
    HYP_TRY(hyp_onnx_input_ints(n, 1, "shape", &shape));
    uint32_t x_rank = (uint32_t)x.rank, rank = shape.count > x_rank ? shape.count : x_rank;
    if (rank > HYP_MAX_RANK)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "rank %u is above %d, the highest supported", rank,
                        HYP_MAX_RANK);
    hyp_dim dims[HYP_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        hyp_dim have = i + x_rank >= rank ? x.dims[i + x_rank - rank] : 1;
        hyp_dim want = i + shape.count >= rank ? shape.items[i + shape.count - rank] : 1;
        dims[i] = want == 1 ? have : want;
    }
    hyp_attr attr = hyp_attr_of_dims(dims, rank);
    return hyp_onnx_emit_unary(n, HYP_OP_expand, &attr);
}

static hyp_status import_transpose(hyp_onnx_node *n)
{
    int32_t rank = hyp_onnx_input_type(n, 0).rank;
    hyp_onnx_ints perm;
    HYP_TRY(hyp_onnx_attr_ints(n, "perm", &perm));
    if (!perm.present)
        for (int32_t i = 0; i < rank; i++) perm.items[perm.count++] = rank - 1 - i;
    hyp_attr attr = hyp_attr_of_dims(perm.items, perm.count);
    return hyp_onnx_emit_unary(n, HYP_OP_transpose, &attr);
}

static int64_t clamp(int64_t i, int64_t rank)
{
    if (i < 0) i += rank;
    return i < 0 ? 0 : i > rank ? rank : i;
}

static hyp_status import_shape(hyp_onnx_node *n)
{
    int64_t rank = hyp_onnx_input_type(n, 0).rank, start, end;
    HYP_TRY(hyp_onnx_attr_int(n, "start", 0, &start));
    HYP_TRY(hyp_onnx_attr_int(n, "end", rank, &end));
    start = clamp(start, rank);
    end = clamp(end, rank);
    if (start == 0 && end == rank) return hyp_onnx_emit_unary(n, HYP_OP_shape, NULL);
    hyp_value_id all;
    hyp_dim first = start, size = end > start ? end - start : 0, step = 1;
    hyp_attr slice[] = {hyp_attr_of_dims(&first, 1), hyp_attr_of_dims(&size, 1), hyp_attr_of_dims(&step, 1)};
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_shape, n->inputs, 1, NULL, &all, 1));
    return hyp_onnx_emit(n, HYP_OP_slice, &all, 1, slice, n->outputs, 1);
}

static hyp_status import_identity(hyp_onnx_node *n)
{
    n->outputs[0] = n->inputs[0];
    return hyp_onnx_is_sequence(n->inputs[0]) ? HYP_OK : hyp_onnx_emit_unary(n, HYP_OP_identity, NULL);
}

static const hyp_onnx_operator rows[] = {
    {"Constant", 7, 0, 0, 1, "value value_float value_floats value_int value_ints ", import_constant, HYP_OP_COUNT},
    {"Dropout", 7, 1, 3, 2, "ratio seed ", import_dropout, HYP_OP_dropout},
    {"Expand", 8, 2, 2, 1, "", import_expand, HYP_OP_expand},
    {"Flatten", 7, 1, 1, 1, "axis ", import_flatten, HYP_OP_flatten},
    {"Identity", 7, 1, 1, 1, "", import_identity, HYP_ONNX_SEQUENCES},
    {"Reshape", 7, 1, 2, 1, "allowzero shape ", import_reshape, HYP_OP_reshape},
    {"Shape", 7, 1, 1, 1, "start end ", import_shape, HYP_OP_shape},
    {"Squeeze", 7, 1, 2, 1, "axes ", import_squeeze, HYP_OP_squeeze},
    {"Transpose", 7, 1, 1, 1, "perm ", import_transpose, HYP_OP_transpose},
    {"Unsqueeze", 7, 1, 2, 1, "axes ", import_unsqueeze, HYP_OP_unsqueeze},
};
const hyp_onnx_family hyp_onnx_shape = {rows, sizeof rows / sizeof *rows};
