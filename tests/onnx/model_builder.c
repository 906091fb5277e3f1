#include "model_builder.h"

#include <stdlib.h>
#include <string.h>

static void *need(void *p)
{
    if (!p) abort();
    return p;
}

static char *text(model_builder *b, const char *s) { return need(hyp_arena_strdup(&b->arena, s)); }

/* The words of `s`, split at any of `separators`. */
static char **words(model_builder *b, const char *s, const char *separators, size_t *count)
{
    char **list = need(hyp_arena_zalloc(&b->arena, strlen(s) + 1, sizeof *list));
    *count = 0;
    for (s += strspn(s, separators); *s; s += strspn(s, separators)) {
        size_t n = strcspn(s, separators);
        list[(*count)++] = need(hyp_arena_strndup(&b->arena, s, n));
        s += n;
    }
    return list;
}

void mb_init(model_builder *b, int64_t opset)
{
    *b = (model_builder){.model = HYP_ONNX__MODEL_PROTO__INIT,
                         .graph = HYP_ONNX__GRAPH_PROTO__INIT,
                         .opset = HYP_ONNX__OPERATOR_SET_ID_PROTO__INIT};
    b->opset.has_version = true;
    b->opset.version = opset;
    b->model.n_opset_import = 1;
    b->model.has_ir_version = true;
    b->model.ir_version = 8;
    b->graph.name = text(b, "test");
}

void mb_dispose(model_builder *b) { hyp_arena_dispose(&b->arena); }

HypOnnx__ValueInfoProto *mb_value_info(model_builder *b, const char *name, hyp_dtype dtype, const char *dims)
{
    HypOnnx__ValueInfoProto *info = need(hyp_arena_zalloc(&b->arena, 1, sizeof *info));
    hyp_onnx__value_info_proto__init(info);
    info->name = text(b, name);
    info->type = need(hyp_arena_zalloc(&b->arena, 1, sizeof *info->type));
    hyp_onnx__type_proto__init(info->type);
    HypOnnx__TypeProto__Tensor *t = info->type->tensor_type = need(hyp_arena_zalloc(&b->arena, 1, sizeof *t));
    hyp_onnx__type_proto__tensor__init(t);
    t->has_elem_type = true;
    t->elem_type = (int32_t)dtype;
    if (!dims) return info;
    t->shape = need(hyp_arena_zalloc(&b->arena, 1, sizeof *t->shape));
    hyp_onnx__tensor_shape_proto__init(t->shape);
    char **names = words(b, dims, " ", &t->shape->n_dim);
    t->shape->dim = need(hyp_arena_zalloc(&b->arena, t->shape->n_dim, sizeof *t->shape->dim));
    for (size_t i = 0; i < t->shape->n_dim; i++) {
        HypOnnx__TensorShapeProto__Dimension *d = t->shape->dim[i] = need(hyp_arena_zalloc(&b->arena, 1, sizeof *d));
        hyp_onnx__tensor_shape_proto__dimension__init(d);
        char *end;
        d->dim_value = strtoll(names[i], &end, 10);
        d->has_dim_value = !*end;
        if (*end && strcmp(names[i], "?") != 0) d->dim_param = names[i];
    }
    return info;
}

void mb_input(model_builder *b, const char *name, hyp_dtype dtype, const char *dims)
{
    b->inputs[b->graph.n_input++] = mb_value_info(b, name, dtype, dims);
}

void mb_output(model_builder *b, const char *name)
{
    HypOnnx__ValueInfoProto *info = need(hyp_arena_zalloc(&b->arena, 1, sizeof *info));
    hyp_onnx__value_info_proto__init(info);
    info->name = text(b, name);
    b->outputs[b->graph.n_output++] = info;
}

HypOnnx__TensorProto *mb_tensor(model_builder *b, const char *name, hyp_dtype dtype, const char *dims,
                                const char *values)
{
    HypOnnx__TensorProto *t = need(hyp_arena_zalloc(&b->arena, 1, sizeof *t));
    hyp_onnx__tensor_proto__init(t);
    t->name = text(b, name);
    t->has_data_type = true;
    t->data_type = (int32_t)dtype;
    char **list = words(b, dims, " ", &t->n_dims);
    t->dims = need(hyp_arena_zalloc(&b->arena, t->n_dims, sizeof *t->dims));
    size_t count = 1;
    for (size_t i = 0; i < t->n_dims; i++) count *= (size_t)(t->dims[i] = strtoll(list[i], NULL, 10));
    t->has_raw_data = true;
    t->raw_data.len = count * hyp_dtype_size(dtype);
    t->raw_data.data = need(hyp_arena_zalloc(&b->arena, count, hyp_dtype_size(dtype)));
    size_t given = 0;
    list = words(b, values ? values : "", " ", &given);
    for (size_t i = 0; i < given; i++)
        if (hyp_dtype_is_float(dtype))
            hyp_store_f64(dtype, t->raw_data.data, i, strtod(list[i], NULL));
        else
            hyp_store_i64(dtype, t->raw_data.data, i, strtoll(list[i], NULL, 10));
    return t;
}

HypOnnx__TensorProto *mb_const(model_builder *b, const char *name, hyp_dtype dtype, const char *dims,
                               const char *values)
{
    return b->initializers[b->graph.n_initializer++] = mb_tensor(b, name, dtype, dims, values);
}

static HypOnnx__AttributeProto *attribute(model_builder *b, char *word)
{
    HypOnnx__AttributeProto *a = need(hyp_arena_zalloc(&b->arena, 1, sizeof *a));
    hyp_onnx__attribute_proto__init(a);
    char *value = strchr(word, '='), *end;
    if (!value) abort();
    *value++ = 0;
    a->name = word;
    a->has_type = true;
    if (*value == '[') {
        char **list = words(b, value, "[,]", &a->n_ints);
        a->type = HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        a->ints = need(hyp_arena_zalloc(&b->arena, a->n_ints, sizeof *a->ints));
        for (size_t i = 0; i < a->n_ints; i++) a->ints[i] = strtoll(list[i], NULL, 10);
    } else if (strchr(value, '.')) {
        a->type = HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        a->has_f = true;
        a->f = strtof(value, NULL);
    } else if ((a->i = strtoll(value, &end, 10)), !*end) {
        a->type = HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        a->has_i = true;
    } else {
        a->i = 0;
        a->type = HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
        a->has_s = true;
        a->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)value};
    }
    return a;
}

static char **names(model_builder *b, const char *list, size_t *count)
{
    char **result = words(b, list, " ", count);
    for (size_t i = 0; i < *count; i++)
        if (strcmp(result[i], "-") == 0) result[i][0] = 0;
    return result;
}

HypOnnx__NodeProto *mb_node(model_builder *b, const char *op, const char *inputs, const char *outputs,
                            const char *attributes)
{
    HypOnnx__NodeProto *n = need(hyp_arena_zalloc(&b->arena, 1, sizeof *n));
    hyp_onnx__node_proto__init(n);
    n->op_type = text(b, op);
    n->input = names(b, inputs, &n->n_input);
    n->output = names(b, outputs, &n->n_output);
    char **list = words(b, attributes, " ", &n->n_attribute);
    n->attribute = need(hyp_arena_zalloc(&b->arena, n->n_attribute, sizeof *n->attribute));
    for (size_t i = 0; i < n->n_attribute; i++) n->attribute[i] = attribute(b, list[i]);
    return b->nodes[b->graph.n_node++] = n;
}

HypOnnx__NodeProto **mb_take_nodes(model_builder *b, size_t count)
{
    HypOnnx__NodeProto **nodes = need(hyp_arena_zalloc(&b->arena, count, sizeof *nodes));
    b->graph.n_node -= count;
    memcpy(nodes, b->nodes + b->graph.n_node, count * sizeof *nodes);
    return nodes;
}

static HypOnnx__ValueInfoProto **infos(model_builder *b, char **of, size_t count)
{
    HypOnnx__ValueInfoProto **list = need(hyp_arena_zalloc(&b->arena, count + 1, sizeof *list));
    for (size_t i = 0; i < count; i++) list[i] = mb_value_info(b, of[i], HYP_F32, NULL);
    return list;
}

void mb_graph(model_builder *b, HypOnnx__NodeProto *node, const char *name, const char *inputs, const char *outputs,
              size_t count)
{
    HypOnnx__NodeProto *interface = mb_node(b, name, inputs, outputs, "");
    (void)mb_take_nodes(b, 1);
    HypOnnx__GraphProto *g = need(hyp_arena_zalloc(&b->arena, 1, sizeof *g));
    HypOnnx__AttributeProto *a = need(hyp_arena_zalloc(&b->arena, 1, sizeof *a));
    HypOnnx__AttributeProto **list = need(hyp_arena_zalloc(&b->arena, node->n_attribute + 1, sizeof *list));
    hyp_onnx__graph_proto__init(g);
    hyp_onnx__attribute_proto__init(a);
    g->node = mb_take_nodes(b, count);
    g->n_node = count;
    g->input = infos(b, interface->input, g->n_input = interface->n_input);
    g->output = infos(b, interface->output, g->n_output = interface->n_output);
    a->name = text(b, name);
    a->g = g;
    for (size_t i = 0; i < node->n_attribute; i++) list[i] = node->attribute[i];
    list[node->n_attribute++] = a;
    node->attribute = list;
}

uint8_t *mb_pack(model_builder *b, size_t *out_size)
{
    /* Only now, so that a builder may be moved. */
    b->opsets[0] = &b->opset;
    b->model.opset_import = b->opsets;
    b->model.graph = &b->graph;
    b->graph.node = b->nodes;
    b->graph.initializer = b->initializers;
    b->graph.input = b->inputs;
    b->graph.output = b->outputs;
    *out_size = hyp_onnx__model_proto__get_packed_size(&b->model);
    uint8_t *bytes = need(hyp_arena_alloc(&b->arena, *out_size));
    hyp_onnx__model_proto__pack(&b->model, bytes);
    return bytes;
}

void mb_import_bytes(const void *data, size_t size, const hyp_onnx_options *options, imported *out)
{
    *out = (imported){.status = HYP_OK};
    if (hyp_dims_create(&out->dims, NULL) != HYP_OK) abort();
    hyp_graph_init(&out->graph, out->dims);
    out->status = hyp_onnx_import_memory(data, size, "test.onnx", NULL, options, &out->graph, &out->model, &out->diag);
    if (out->status != HYP_OK) return;
    out->status = hyp_graph_verify(&out->graph, &out->diag);
    if (out->status == HYP_OK) out->status = hyp_graph_print(&out->text, &out->graph, SIZE_MAX, &out->diag);
}

void mb_import(model_builder *b, const hyp_onnx_options *options, imported *out)
{
    size_t size;
    uint8_t *bytes = mb_pack(b, &size);
    mb_import_bytes(bytes, size, options, out);
    /* The graph borrows constants from the bytes, which the printed text no longer needs. */
    mb_dispose(b);
}

void imported_dispose(imported *im)
{
    hyp_strbuf_dispose(&im->text);
    hyp_graph_dispose(&im->graph);
    hyp_onnx_model_destroy(im->model);
    hyp_dims_destroy(im->dims);
}
