/* Operators of domains that the caller has kernels for: opaque nodes whose types the model, or the caller, tells. */
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "ir/custom.h"
#include "onnx/import.h"
#include "onnx/tensor.h"

typedef struct custom {
    hyp_onnx_node *n;
    HYP_VEC(const char *) values, types;
    HYP_VEC(hyp_dim) shapes;
} custom;

static const char *text_of(const char *text) { return text ? text : ""; }

static hyp_status keep(custom *c, hyp_strbuf *sb, const char **out)
{
    hyp_importer *im = c->n->im;
    *out = sb->failed ? NULL : hyp_arena_strdup(&im->arena, hyp_strbuf_text(sb));
    hyp_strbuf_dispose(sb);
    return *out ? HYP_OK : hyp_fail_memory(im->diag, 0);
}

/* ---- attributes -------------------------------------------------------------------------------------------- */

static void print_bytes(hyp_strbuf *sb, const ProtobufCBinaryData *bytes)
{
    hyp_custom_escape(sb, bytes->data, bytes->len);
}

static hyp_status print_value(const custom *c, const HypOnnx__AttributeProto *a, hyp_strbuf *sb)
{
    switch (a->type) {
    case HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT: hyp_strbuf_printf(sb, "i:%lld,", (long long)a->i); break;
    case HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        hyp_strbuf_puts(sb, "f:");
        hyp_strbuf_double(sb, (double)a->f);
        hyp_strbuf_puts(sb, ",");
        break;
    case HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        hyp_strbuf_puts(sb, "s:");
        print_bytes(sb, &a->s);
        hyp_strbuf_puts(sb, ",");
        break;
    case HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        hyp_strbuf_puts(sb, "I:");
        for (size_t i = 0; i < a->n_ints; i++) hyp_strbuf_printf(sb, "%lld,", (long long)a->ints[i]);
        break;
    case HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
        hyp_strbuf_puts(sb, "F:");
        for (size_t i = 0; i < a->n_floats; i++) {
            hyp_strbuf_double(sb, (double)a->floats[i]);
            hyp_strbuf_puts(sb, ",");
        }
        break;
    case HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
        hyp_strbuf_puts(sb, "S:");
        for (size_t i = 0; i < a->n_strings; i++) {
            print_bytes(sb, &a->strings[i]);
            hyp_strbuf_puts(sb, ",");
        }
        break;
    default:
        return hyp_fail(
            c->n->im->diag, HYP_ERR_UNSUPPORTED,
            "attribute \"%s\" of a custom operator is no number, text or list of such; make a tensor an input",
            text_of(a->name));
    }
    return HYP_OK;
}

static hyp_status add_attribute(custom *c, const HypOnnx__AttributeProto *a)
{
    hyp_strbuf sb = {0};
    const char *text;
    hyp_custom_escape(&sb, text_of(a->name), strlen(text_of(a->name)));
    hyp_strbuf_puts(&sb, "=");
    hyp_status status = print_value(c, a, &sb);
    if (status == HYP_OK) status = keep(c, &sb, &text);
    hyp_strbuf_dispose(&sb);
    return status == HYP_OK ? hyp_vec_push(&c->values, c->n->im->diag, text) : status;
}

/* ---- types of the results ---------------------------------------------------------------------------------- */

static hyp_status add_type(custom *c, hyp_dtype dtype, size_t rank, const char *output)
{
    hyp_importer *im = c->n->im;
    if (!hyp_dtype_size(dtype))
        return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "output \"%s\": element type %d (%s) is not supported", output,
                        (int)dtype, hyp_onnx_dtype_name((int32_t)dtype));
    if (rank > HYP_MAX_RANK)
        return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "output \"%s\" has rank %zu; the highest supported is %d",
                        output, rank, HYP_MAX_RANK);
    HYP_TRY(hyp_vec_push(&c->types, im->diag, hyp_dtype_name(dtype)));
    return hyp_vec_push(&c->shapes, im->diag, (hyp_dim)rank);
}

static hyp_status add_dim(custom *c, const char *symbol, int64_t size)
{
    hyp_importer *im = c->n->im;
    hyp_dim d = size;
    if (symbol) HYP_TRY(hyp_onnx_named_size(im, symbol, &d));
    return hyp_vec_push(&c->shapes, im->diag, d);
}

/* "f32:batchx64", behind the name: dims are numbers or names with an x between them. */
static hyp_status read_given(custom *c, const char *output, const char *text)
{
    hyp_importer *im = c->n->im;
    size_t len = strcspn(text, ":"), rank = 0;
    char *type = hyp_arena_strndup(&im->arena, text, len);
    if (!type) return hyp_fail_memory(im->diag, len);
    hyp_dtype dtype = hyp_dtype_parse(type);
    const char *dims = text[len] ? text + len + 1 : "";
    if (dtype == HYP_DTYPE_NONE)
        return hyp_fail(im->diag, HYP_ERR_INVALID_ARGUMENT,
                        "--custom-output %s:%s: '%s' is no element type; wanted NAME:TYPE:DIMS as in y:f32:batchx64",
                        output, text, type);
    for (const char *p = dims; *p; p++) rank += *p == 'x';
    HYP_TRY(add_type(c, dtype, rank + (*dims != 0), output));
    while (*dims) {
        len = strcspn(dims, "x");
        char *name = hyp_arena_strndup(&im->arena, dims, len), *stop;
        if (!name) return hyp_fail_memory(im->diag, len);
        int64_t size = strtoll(name, &stop, 10);
        if (!len || (!*stop && (size < 0 || size >= (int64_t)1 << 48)))
            return hyp_fail(im->diag, HYP_ERR_INVALID_ARGUMENT, "--custom-output %s:%s: '%s' is no size", output, text,
                            name);
        HYP_TRY(add_dim(c, *stop ? name : NULL, size));
        dims += len + (dims[len] != 0);
    }
    return HYP_OK;
}

static const char *find_given(const hyp_importer *im, const char *output)
{
    size_t len = strlen(output);
    for (size_t i = 0; i < im->options->custom_output_count; i++) {
        const char *text = im->options->custom_outputs[i];
        if (strncmp(text, output, len) == 0 && text[len] == ':') return text + len + 1;
    }
    return NULL;
}

static const HypOnnx__TypeProto__Tensor *find_declared(const hyp_importer *im, const char *output)
{
    const HypOnnx__GraphProto *g = im->scope.graph;
    for (size_t i = 0; i < g->n_value_info + g->n_output; i++) {
        const HypOnnx__ValueInfoProto *info = i < g->n_value_info ? g->value_info[i] : g->output[i - g->n_value_info];
        if (strcmp(text_of(info->name), output) == 0 && info->type && info->type->tensor_type)
            return info->type->tensor_type;
    }
    return NULL;
}

/* A size that nobody names is one that only the kernel knows. */
static hyp_status read_declared(custom *c, const char *output, const HypOnnx__TypeProto__Tensor *t)
{
    hyp_importer *im = c->n->im;
    HYP_TRY(add_type(c, (hyp_dtype)t->elem_type, t->shape->n_dim, output));
    for (size_t a = 0; a < t->shape->n_dim; a++) {
        const HypOnnx__TensorShapeProto__Dimension *d = t->shape->dim[a];
        const char *symbol = d->dim_param && *d->dim_param ? d->dim_param : NULL;
        if (!symbol && d->has_dim_value && d->dim_value >= 0) {
            if (d->dim_value >= (int64_t)1 << 48)
                return hyp_fail(im->diag, HYP_ERR_MALFORMED, "output \"%s\": dim %zu is %lld, which no memory holds",
                                output, a, (long long)d->dim_value);
            HYP_TRY(add_dim(c, NULL, d->dim_value));
            continue;
        }
        if (!symbol) symbol = hyp_arena_printf(&im->arena, "%s_dim%zu", output, a);
        if (!symbol) return hyp_fail_memory(im->diag, strlen(output));
        HYP_TRY(add_dim(c, symbol, 0));
    }
    return HYP_OK;
}

static hyp_status add_output(custom *c, const char *output)
{
    hyp_importer *im = c->n->im;
    if (!*output)
        return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED,
                        "an output of a custom operator has no name, and so no type: name it");
    const char *given = find_given(im, output);
    if (given) return read_given(c, output, given);
    const HypOnnx__TypeProto__Tensor *declared = find_declared(im, output);
    if (declared && declared->shape) return read_declared(c, output, declared);
    return hyp_fail(
        im->diag, HYP_ERR_UNSUPPORTED,
        "the model does not say what type and shape \"%s\" has, which a custom operator gives: add it to the "
        "graph's value_info (onnx.helper.make_tensor_value_info), or give it with --custom-output %s:f32:...",
        output, output);
}

static hyp_status build(custom *c)
{
    hyp_onnx_node *n = c->n;
    hyp_strbuf sb = {0};
    const char *operator, *domain = *text_of(n->proto->domain) ? n->proto->domain : "ai.onnx";
    hyp_custom_escape(&sb, domain, strlen(domain));
    hyp_strbuf_puts(&sb, "::");
    hyp_custom_escape(&sb, text_of(n->proto->op_type), strlen(text_of(n->proto->op_type)));
    HYP_TRY(keep(c, &sb, &operator));
    if (strcmp(operator, HYP_LOOP_OPERATOR) == 0)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "a plan says %s of loops that are run: no kernel of a program can be called so", operator);
    for (size_t i = 0; i < n->proto->n_attribute; i++) HYP_TRY(add_attribute(c, n->proto->attribute[i]));
    for (uint32_t i = 0; i < n->output_count; i++) HYP_TRY(add_output(c, n->proto->output[i]));
    const hyp_attr attrs[] = {
        hyp_attr_of_sym(operator),
        {.kind = HYP_ATTR_SYMS, .count = (uint32_t)c->values.len, .syms = c->values.data},
        {.kind = HYP_ATTR_SYMS, .count = (uint32_t)c->types.len, .syms = c->types.data},
        hyp_attr_of_dims(c->shapes.data, (uint32_t)c->shapes.len),
    };
    return hyp_onnx_emit(n, HYP_OP_custom, n->inputs, n->input_count, attrs, n->outputs, n->output_count);
}

static hyp_status import_custom(hyp_onnx_node *n)
{
    custom c = {.n = n};
    hyp_status status = build(&c);
    hyp_vec_free(&c.values);
    hyp_vec_free(&c.types);
    hyp_vec_free(&c.shapes);
    return status;
}

const hyp_onnx_operator hyp_onnx_custom = {
    "custom operator", 1, 1, HYP_ONNX_CUSTOM_INPUTS, HYP_ONNX_CUSTOM_OUTPUTS, NULL, import_custom, HYP_OP_custom};
