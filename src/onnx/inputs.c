/* The graph's inputs: declared types, symbolic dims, and what --dim and --shapes make of them. */
#include <string.h>

#include "onnx/import.h"
#include "onnx/tensor.h"

/* One dim of one input: a size, or a symbol of this name. */
typedef struct input_dim {
    const char *symbol; /* NULL for a size */
    int64_t size;
} input_dim;

typedef struct input {
    const char *name;
    hyp_dtype dtype;
    int32_t rank; /* -1: not declared */
    input_dim dims[HYP_MAX_RANK];
    const hyp_tensor *bound; /* the value that it is given now; NULL for most */
} input;

/* What a symbol's name, which lasts as long as the import, is replaced by. */
typedef struct binding {
    const char *name;
    int64_t size;
    const char *given_by; /* "--dim" or "--shapes", for messages */
} binding;

typedef struct inputs {
    hyp_importer *im;
    HYP_VEC(input) list;
    hyp_intern symbols; /* the name of every symbolic dim */
    HYP_VEC(binding) bindings;
} inputs;

static bool has_symbol(const inputs *in, const char *name)
{
    uint32_t id;
    return hyp_intern_find(&in->symbols, name, strlen(name), &id);
}

static hyp_status add_symbol(inputs *in, const char *name)
{
    uint32_t id;
    return hyp_intern_add(&in->symbols, name, strlen(name), &id, in->im->diag);
}

static hyp_status declare(inputs *in, const HypOnnx__ValueInfoProto *info)
{
    hyp_importer *im = in->im;
    input t = {.name = info->name, .rank = -1};
    if (!info->type || !info->type->tensor_type)
        return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "%s: input \"%s\" is not a tensor", im->file, info->name);
    const HypOnnx__TypeProto__Tensor *tensor = info->type->tensor_type;
    if (!hyp_dtype_size((hyp_dtype)tensor->elem_type))
        return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "%s: input \"%s\": element type %d (%s) is not supported",
                        im->file, info->name, tensor->elem_type, hyp_onnx_dtype_name(tensor->elem_type));
    t.dtype = (hyp_dtype)tensor->elem_type;
    if (tensor->shape && tensor->shape->n_dim > HYP_MAX_RANK)
        return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "%s: input \"%s\" has rank %zu; the highest supported is %d",
                        im->file, info->name, tensor->shape->n_dim, HYP_MAX_RANK);
    if (tensor->shape) t.rank = (int32_t)tensor->shape->n_dim;
    for (int32_t i = 0; i < t.rank; i++) {
        const HypOnnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
        bool named = dim->dim_param && *dim->dim_param;
        /* Some exporters write -1 for a size that they do not know. */
        t.dims[i].size = !named && dim->has_dim_value && dim->dim_value >= 0 ? dim->dim_value : -1;
        t.dims[i].symbol = named ? dim->dim_param : NULL;
        if (named) HYP_TRY(add_symbol(in, dim->dim_param));
        if (t.dims[i].size >= ((int64_t)1 << 48))
            return hyp_fail(im->diag, HYP_ERR_MALFORMED, "%s: input \"%s\": dim %d is %lld, which no memory holds",
                            im->file, info->name, i, (long long)t.dims[i].size);
    }
    return hyp_vec_push(&in->list, im->diag, t);
}

/* Dims of unknown size get a name that no other has: x_dim0. */
static hyp_status name_unknown_dims(inputs *in, input *t)
{
    hyp_importer *im = in->im;
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->dims[i].symbol || t->dims[i].size >= 0) continue;
        char *name = hyp_arena_printf(&im->arena, "%s_dim%d", t->name, i);
        while (name && has_symbol(in, name)) name = hyp_arena_printf(&im->arena, "%s_", name);
        if (!name) return hyp_fail_memory(im->diag, strlen(t->name));
        t->dims[i].symbol = name;
        HYP_TRY(add_symbol(in, name));
    }
    return HYP_OK;
}

static hyp_status bind(inputs *in, const char *name, int64_t size, const char *given_by)
{
    hyp_importer *im = in->im;
    for (size_t i = 0; i < in->bindings.len; i++) {
        const binding *b = &in->bindings.data[i];
        if (strcmp(b->name, name) != 0 || b->size == size) continue;
        return hyp_fail(im->diag, HYP_ERR_INVALID_ARGUMENT, "dim \"%s\" is %lld by %s, but %lld by %s", name,
                        (long long)b->size, b->given_by, (long long)size, given_by);
    }
    return hyp_vec_push(&in->bindings, im->diag, (binding){name, size, given_by});
}

/* "there is no X "name"; there are: a, b (did you mean "a"?)" */
static hyp_status unknown_name(inputs *in, const char *what, const char *name, const char *const *names, size_t count)
{
    hyp_strbuf list = {0};
    for (size_t i = 0; i < count; i++) hyp_strbuf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    const char **terminated = hyp_arena_zalloc(&in->im->arena, count + 1, sizeof *terminated);
    if (terminated && count) memcpy(terminated, names, count * sizeof *names);
    const char *near = terminated ? hyp_nearest(name, terminated) : NULL;
    hyp_status status =
        hyp_fail(in->im->diag, HYP_ERR_INVALID_ARGUMENT, "%s: there is no %s \"%s\"; %s%s%s%s%s", in->im->file, what,
                 name, count ? "there are: " : "the model has none", hyp_strbuf_text(&list),
                 near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
    hyp_strbuf_dispose(&list);
    return status;
}

static hyp_status apply_dims(inputs *in)
{
    const hyp_onnx_options *o = in->im->options;
    for (size_t i = 0; i < o->dim_count; i++) {
        if (!has_symbol(in, o->dim_names[i]))
            return unknown_name(in, "symbolic dim", o->dim_names[i], (const char *const *)in->symbols.names.data,
                                in->symbols.names.len);
        if (o->dim_values[i] < 0)
            return hyp_fail(in->im->diag, HYP_ERR_INVALID_ARGUMENT, "dim \"%s\" is set to %lld; a size is 0 or more",
                            o->dim_names[i], (long long)o->dim_values[i]);
        HYP_TRY(bind(in, o->dim_names[i], o->dim_values[i], "--dim"));
    }
    return HYP_OK;
}

static hyp_status find_input(inputs *in, const char *name, input **out)
{
    hyp_importer *im = in->im;
    for (size_t i = 0; i < in->list.len; i++) {
        if (!name || strcmp(in->list.data[i].name, name) != 0) continue;
        *out = &in->list.data[i];
        return HYP_OK;
    }
    const char **names = hyp_arena_zalloc(&im->arena, in->list.len + 1, sizeof *names);
    if (!names) return hyp_fail_memory(im->diag, in->list.len * sizeof *names);
    for (size_t i = 0; i < in->list.len; i++) names[i] = in->list.data[i].name;
    return unknown_name(in, "input", name ? name : "", names, in->list.len);
}

static hyp_status apply_bound(inputs *in, const hyp_tensor *value)
{
    hyp_importer *im = in->im;
    input *t;
    HYP_TRY(find_input(in, value->name, &t));
    if (t->bound) return hyp_fail(im->diag, HYP_ERR_INVALID_ARGUMENT, "--bind gives input \"%s\" twice", t->name);
    if (value->dtype != t->dtype)
        return hyp_fail(im->diag, HYP_ERR_INVALID_ARGUMENT, "--bind gives input \"%s\" elements of type %s; it has %s",
                        t->name, hyp_dtype_name(value->dtype), hyp_dtype_name(t->dtype));
    if (value->rank < 0 || value->rank > HYP_MAX_RANK || (t->rank >= 0 && t->rank != value->rank))
        return hyp_fail(im->diag, HYP_ERR_INVALID_ARGUMENT, "--bind gives input \"%s\" %d dims; it has %d", t->name,
                        value->rank, t->rank >= 0 ? t->rank : HYP_MAX_RANK);
    for (int32_t i = 0; i < value->rank; i++) {
        const input_dim *dim = &t->dims[i];
        if (t->rank >= 0 && dim->symbol)
            HYP_TRY(bind(in, dim->symbol, value->dims[i], "--bind"));
        else if (t->rank >= 0 && dim->size >= 0 && dim->size != value->dims[i])
            return hyp_fail(im->diag, HYP_ERR_INVALID_ARGUMENT, "--bind gives input \"%s\" %lld for dim %d; it has %lld",
                            t->name, (long long)value->dims[i], i, (long long)dim->size);
    }
    t->bound = value;
    return HYP_OK;
}

static hyp_status apply_shape(inputs *in, const hyp_tensor *shape)
{
    hyp_importer *im = in->im;
    input *t;
    HYP_TRY(find_input(in, shape->name, &t));
    if (shape->rank < 0 || shape->rank > HYP_MAX_RANK || (t->rank >= 0 && t->rank != shape->rank))
        return hyp_fail(im->diag, HYP_ERR_INVALID_ARGUMENT, "--shapes gives input \"%s\" %d dims; it has %d", t->name,
                        shape->rank, t->rank >= 0 ? t->rank : HYP_MAX_RANK);
    for (int32_t i = 0; i < shape->rank; i++) {
        input_dim *dim = &t->dims[i];
        if (t->rank < 0) *dim = (input_dim){.size = -1};
        if (shape->dims[i] < 0) continue;
        /* A symbol stands for the same size everywhere. */
        if (dim->symbol)
            HYP_TRY(bind(in, dim->symbol, shape->dims[i], "--shapes"));
        else
            dim->size = shape->dims[i];
    }
    t->rank = shape->rank;
    return HYP_OK;
}

static hyp_status make_constant(inputs *in, const input *t)
{
    hyp_importer *im = in->im;
    hyp_type type = {.dtype = t->dtype, .rank = t->bound->rank};
    memcpy(type.dims, t->bound->dims, sizeof type.dims);
    for (int32_t i = type.rank; i < HYP_MAX_RANK; i++) type.dims[i] = 0;
    hyp_symbol *s = hyp_onnx_symbol(im, t->name);
    hyp_status status = hyp_graph_add_const(im->g, t->name, &type, t->bound->data, t->bound->bytes, true, &s->value,
                                            im->diag);
    if (status != HYP_OK) hyp_diag_prefix(im->diag, "%s: input \"%s\"", im->file, t->name);
    return status;
}

static hyp_status make_input(inputs *in, const input *t)
{
    hyp_importer *im = in->im;
    if (t->bound) return make_constant(in, t);
    if (t->rank < 0)
        return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED,
                        "%s: input \"%s\" has no declared shape; give one: --shapes %s:...", im->file, t->name,
                        t->name);
    hyp_type type = {.dtype = t->dtype, .rank = t->rank};
    for (int32_t i = 0; i < t->rank; i++) {
        const char *symbol = t->dims[i].symbol;
        type.dims[i] = t->dims[i].size;
        for (size_t b = 0; symbol && b < in->bindings.len; b++)
            if (strcmp(in->bindings.data[b].name, symbol) == 0) {
                type.dims[i] = in->bindings.data[b].size;
                symbol = NULL;
            }
        if (!symbol) continue;
        HYP_TRY(hyp_dim_symbol(im->g->dims, symbol, &type.dims[i], im->diag));
        HYP_TRY(hyp_onnx_equal_size(im, t->name, (uint32_t)i, &type.dims[i]));
    }
    hyp_symbol *s = hyp_onnx_symbol(im, t->name);
    hyp_status status = hyp_graph_add_input(im->g, t->name, &type, &s->value, im->diag);
    if (status != HYP_OK) hyp_diag_prefix(im->diag, "%s: input \"%s\"", im->file, t->name);
    return status;
}

static hyp_status add_inputs(inputs *in)
{
    const hyp_importer *im = in->im;
    for (size_t i = 0; i < im->scope.graph->n_input; i++)
        if (hyp_onnx_symbol(im, im->scope.graph->input[i]->name)->kind == HYP_SYMBOL_INPUT)
            HYP_TRY(declare(in, im->scope.graph->input[i]));
    for (size_t i = 0; i < in->list.len; i++) HYP_TRY(name_unknown_dims(in, &in->list.data[i]));
    for (size_t i = 0; i < im->options->shape_count; i++) HYP_TRY(apply_shape(in, &im->options->shapes[i]));
    /* Again: --shapes may have given a rank with open dims. */
    for (size_t i = 0; i < in->list.len; i++) HYP_TRY(name_unknown_dims(in, &in->list.data[i]));
    for (size_t i = 0; i < im->options->bound_count; i++) HYP_TRY(apply_bound(in, &im->options->bound[i]));
    HYP_TRY(apply_dims(in));
    for (size_t i = 0; i < in->list.len; i++) HYP_TRY(make_input(in, &in->list.data[i]));
    in->im->sizes.len = 0;
    for (size_t b = 0; b < in->bindings.len; b++) {
        const binding *from = &in->bindings.data[b];
        HYP_TRY(hyp_vec_push(&in->im->sizes, im->diag, (hyp_onnx_size){from->name, from->size}));
    }
    return HYP_OK;
}

hyp_status hyp_onnx_add_inputs(hyp_importer *im)
{
    inputs in = {.im = im};
    hyp_status status = add_inputs(&in);
    hyp_vec_free(&in.list);
    hyp_intern_dispose(&in.symbols);
    hyp_vec_free(&in.bindings);
    return status;
}
