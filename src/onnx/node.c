/* What the import functions of the operators share. */
#include <math.h>
#include <string.h>

#include "onnx/import.h"

const HypOnnx__AttributeProto *hyp_onnx_attr(const hyp_onnx_node *n, const char *name)
{
    for (size_t i = 0; i < n->proto->n_attribute; i++)
        if (n->proto->attribute[i]->name && strcmp(n->proto->attribute[i]->name, name) == 0)
            return n->proto->attribute[i];
    return NULL;
}

/* Files written by way of proto3 leave out values that are 0, and the oldest leave out the type. */
static hyp_status check_kind(const hyp_onnx_node *n, const HypOnnx__AttributeProto *a, bool has_value,
                             HypOnnx__AttributeProto__AttributeType want)
{
    if (a->has_type ? a->type == want : has_value) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"%s\" is of another kind than the operator wants",
                    a->name);
}

hyp_status hyp_onnx_attr_int(const hyp_onnx_node *n, const char *name, int64_t missing, int64_t *out)
{
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(n, name);
    *out = missing;
    if (!a) return HYP_OK;
    HYP_TRY(check_kind(n, a, a->has_i, HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT));
    *out = a->has_i ? a->i : 0;
    return HYP_OK;
}

hyp_status hyp_onnx_attr_float(const hyp_onnx_node *n, const char *name, double missing, double *out)
{
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(n, name);
    *out = missing;
    if (!a) return HYP_OK;
    HYP_TRY(check_kind(n, a, a->has_f, HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT));
    *out = a->has_f ? (double)a->f : 0;
    return HYP_OK;
}

hyp_status hyp_onnx_attr_choice(const hyp_onnx_node *n, const char *name, const char *const *choices, const char **out)
{
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(n, name);
    *out = choices[0];
    if (!a) return HYP_OK;
    HYP_TRY(check_kind(n, a, a->has_s, HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING));
    for (size_t i = 0; choices[i]; i++) {
        *out = choices[i];
        if (a->s.len == strlen(*out) && memcmp(a->s.data, *out, a->s.len) == 0) return HYP_OK;
    }
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "attribute \"%s\" is \"%.*s\", which is not supported", name,
                    (int)(a->s.len < 40 ? a->s.len : 40), (const char *)a->s.data);
}

static hyp_status too_many_ints(const hyp_onnx_node *n, const char *what, size_t count)
{
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "\"%s\" has %zu numbers, more than any tensor has dims", what,
                    count);
}

static hyp_dim constant_dim(int64_t value) { return value < HYP_DIM_CONST_MIN ? HYP_DIM_CONST_MIN : value; }

hyp_status hyp_onnx_attr_ints(const hyp_onnx_node *n, const char *name, hyp_onnx_ints *out)
{
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(n, name);
    out->present = a != NULL;
    out->count = 0;
    if (!a) return HYP_OK;
    HYP_TRY(check_kind(n, a, a->n_ints != 0, HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS));
    if (a->n_ints > HYP_ONNX_MAX_INTS) return too_many_ints(n, name, a->n_ints);
    for (size_t i = 0; i < a->n_ints; i++) out->items[out->count++] = constant_dim(a->ints[i]);
    return HYP_OK;
}

/* From constants, by way of other types perhaps. */
static hyp_status computed_ints(const hyp_onnx_node *n, uint32_t i, const char *what, hyp_onnx_ints *out)
{
    hyp_eval_tensor t;
    hyp_status status = hyp_onnx_constant(n, i, what, &t);
    if (status == HYP_OK && t.count > HYP_ONNX_MAX_INTS) status = too_many_ints(n, what, t.count);
    for (size_t k = 0; status == HYP_OK && k < t.count; k++) out->items[out->count++] = constant_dim(t.i[k]);
    hyp_eval_tensor_dispose(&t);
    if (status != HYP_ERR_UNSUPPORTED) return status;
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                    "input %u (%s) is computed from the data of the model's inputs; it must be known from their "
                    "shapes, or the inputs that it depends on be given at compile time: --bind",
                    i, what);
}

hyp_status hyp_onnx_input_ints(const hyp_onnx_node *n, uint32_t i, const char *what, hyp_onnx_ints *out)
{
    out->present = hyp_onnx_has_input(n, i);
    out->count = 0;
    if (!out->present) return HYP_OK;
    const hyp_value *v = &n->im->g->values.data[n->inputs[i]];
    if ((v->type.dtype != HYP_I64 && v->type.dtype != HYP_I32) || v->type.rank > 1)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "input %u (%s) should be a list of integers", i, what);
    if (v->kind == HYP_VALUE_CONST) {
        /* From the bytes: a content cannot hold numbers below HYP_DIM_CONST_MIN, which slices use. */
        size_t count = v->bytes / hyp_dtype_size(v->type.dtype);
        if (count > HYP_ONNX_MAX_INTS) return too_many_ints(n, what, count);
        for (size_t k = 0; k < count; k++)
            out->items[out->count++] = constant_dim(hyp_load_i64(v->type.dtype, v->data, k));
        return HYP_OK;
    }
    if (!v->content) return computed_ints(n, i, what, out);
    if (v->content_count > HYP_ONNX_MAX_INTS) return too_many_ints(n, what, v->content_count);
    for (uint32_t k = 0; k < v->content_count; k++) out->items[out->count++] = v->content[k];
    return HYP_OK;
}

hyp_status hyp_onnx_ints_of(const hyp_onnx_node *n, uint32_t i, const char *name, hyp_onnx_ints *out)
{
    return hyp_onnx_has_input(n, i) ? hyp_onnx_input_ints(n, i, name, out) : hyp_onnx_attr_ints(n, name, out);
}

hyp_type hyp_onnx_input_type(const hyp_onnx_node *n, uint32_t i) { return n->im->g->values.data[n->inputs[i]].type; }

hyp_status hyp_onnx_axis(const hyp_onnx_node *n, int64_t axis, int32_t rank, int64_t *out)
{
    if (axis < -rank || axis >= rank)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "axis %lld does not exist in a tensor of rank %d",
                        (long long)axis, rank);
    *out = axis < 0 ? axis + rank : axis;
    return HYP_OK;
}

hyp_status hyp_onnx_axes(const hyp_onnx_node *n, hyp_onnx_ints *axes, int32_t rank)
{
    bool seen[HYP_MAX_RANK] = {false};
    for (uint32_t i = 0; i < axes->count; i++) {
        int64_t axis;
        if (!hyp_dim_is_const(axes->items[i]))
            return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "an axis depends on the shape of the model's inputs");
        HYP_TRY(hyp_onnx_axis(n, axes->items[i], rank, &axis));
        if (seen[axis]) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "axis %lld is listed twice", (long long)axis);
        seen[axis] = true;
    }
    axes->count = 0;
    for (int32_t axis = 0; axis < rank; axis++)
        if (seen[axis]) axes->items[axes->count++] = axis;
    return HYP_OK;
}

hyp_status hyp_onnx_add_const(hyp_importer *im, const char *name, const hyp_tensor *t, hyp_value_id *out)
{
    hyp_type type = {.dtype = t->dtype, .rank = t->rank};
    for (int32_t i = 0; i < t->rank; i++) type.dims[i] = t->dims[i];
    return hyp_graph_add_const(im->g, name, &type, t->data, t->bytes, false, out, im->diag);
}

hyp_status hyp_onnx_add_scalar(const hyp_onnx_node *n, hyp_dtype dtype, double value, hyp_value_id *out)
{
    hyp_type type = {.dtype = dtype};
    uint64_t bits = 0;
    hyp_store_f64(dtype, &bits, 0, value);
    return hyp_graph_add_const(n->im->g, NULL, &type, &bits, hyp_dtype_size(dtype), true, out, n->im->diag);
}

bool hyp_onnx_is_number(const hyp_onnx_node *n, uint32_t i, double *out)
{
    const hyp_value *v = &n->im->g->values.data[n->inputs[i]];
    if (v->kind != HYP_VALUE_CONST || v->bytes != hyp_dtype_size(v->type.dtype)) return false;
    *out = hyp_load_f64(v->type.dtype, v->data, 0);
    if (isnan(*out)) return false;
    return hyp_dtype_is_float(v->type.dtype) || fabs(*out) < 9007199254740992.0;
}

hyp_status hyp_onnx_emit(const hyp_onnx_node *n, hyp_op op, const hyp_value_id *inputs, uint32_t input_count,
                         const hyp_attr *attrs, hyp_value_id *outs, uint32_t output_count)
{
    hyp_provenance from = {.sources = &n->name, .source_count = 1};
    return hyp_graph_add_node(n->im->g, op, inputs, input_count, attrs, &from, outs, output_count, n->im->diag);
}

hyp_status hyp_onnx_emit_unary(const hyp_onnx_node *n, hyp_op op, const hyp_attr *attrs)
{
    return hyp_onnx_emit(n, op, n->inputs, 1, attrs, n->outputs, 1);
}

hyp_status hyp_onnx_emit_binary(const hyp_onnx_node *n, hyp_op op, hyp_value_id a, hyp_value_id b, hyp_value_id *out)
{
    return hyp_onnx_emit(n, op, (const hyp_value_id[]){a, b}, 2, NULL, out, 1);
}

hyp_status hyp_onnx_emit_dims(const hyp_onnx_node *n, hyp_op op, hyp_value_id x, const hyp_dim *dims, int32_t count,
                              hyp_value_id *out)
{
    hyp_attr attr = hyp_attr_of_dims(dims, (uint32_t)count);
    return hyp_onnx_emit(n, op, &x, 1, &attr, out, 1);
}

hyp_status hyp_onnx_emit_cast(const hyp_onnx_node *n, hyp_value_id x, hyp_dtype to, hyp_value_id *out)
{
    hyp_attr attr = hyp_attr_of_sym(hyp_dtype_name(to));
    *out = x;
    return hyp_onnx_value_type(n, x).dtype == to ? HYP_OK : hyp_onnx_emit(n, HYP_OP_cast, &x, 1, &attr, out, 1);
}

hyp_status hyp_onnx_emit_part(const hyp_onnx_node *n, hyp_value_id x, int32_t axis, hyp_dim start, hyp_dim size,
                              hyp_dim step, hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, x);
    hyp_dim starts[HYP_MAX_RANK] = {0}, steps[HYP_MAX_RANK];
    uint32_t rank = (uint32_t)type.rank;
    for (uint32_t i = 0; i < rank; i++) steps[i] = 1;
    starts[axis] = start;
    type.dims[axis] = size;
    steps[axis] = step;
    hyp_attr attrs[] = {hyp_attr_of_dims(starts, rank), hyp_attr_of_dims(type.dims, rank),
                        hyp_attr_of_dims(steps, rank)};
    return hyp_onnx_emit(n, HYP_OP_slice, &x, 1, attrs, out, 1);
}

hyp_status hyp_onnx_emit_matmul(const hyp_onnx_node *n, hyp_value_id a, hyp_value_id b, bool trans_b, double alpha,
                                hyp_value_id *out)
{
    hyp_attr attrs[] = {hyp_attr_of_int(0), hyp_attr_of_int(trans_b), hyp_attr_of_float(alpha)};
    return hyp_onnx_emit(n, HYP_OP_matmul, (const hyp_value_id[]){a, b}, 2, attrs, out, 1);
}

hyp_status hyp_onnx_emit_channels(const hyp_onnx_node *n, hyp_value_id v, int32_t rank, hyp_value_id *out)
{
    hyp_type type = hyp_onnx_value_type(n, v);
    hyp_dim dims[HYP_MAX_RANK] = {type.dims[0], 1, 1, 1, 1, 1, 1, 1};
    *out = v;
    if (type.rank == 0) return HYP_OK;
    if (type.rank != 1)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "a parameter of the channels has rank %d", type.rank);
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, v, dims, rank, out);
}
