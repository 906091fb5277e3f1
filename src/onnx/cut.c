/* What is kept is copied from the file byte by byte; nothing is written anew but the inputs and outputs at the cuts. */
#include "onnx/cut.h"

#include <string.h>

#include "base/file.h"
#include "onnx/wire.h"
#include "onnx/writer.h"

enum { NODE = 1, INITIALIZER = 5, INPUT = 11, OUTPUT = 12, GRAPH = 7, TRAINING = 20 };
static const size_t max_file = (size_t)256 << 20;
static const size_t nowhere = SIZE_MAX;

typedef hyp_wire_bytes span;

typedef struct value {
    size_t node; /* that computes it, or nowhere */
    bool output; /* of the model */
    bool wanted; /* some node reads it, or it is an output */
    bool read;   /* by a node that is kept, in the model being written */
    span info;   /* its ValueInfoProto, of what nodes compute; empty until the types are known */
} value;

struct hyp_onnx_cut {
    hyp_mapping map;
    hyp_arena arena;
    const HypOnnx__GraphProto *graph;
    span graph_bytes;
    hyp_intern names;
    HYP_VEC(value) values; /* by id in `names` */
};

/* ---- names ---------------------------------------------------------------------------------------------- */

static value *find(hyp_onnx_cut *c, const char *name)
{
    uint32_t id;
    return name && *name && hyp_intern_find(&c->names, name, strlen(name), &id) ? &c->values.data[id] : NULL;
}

static hyp_status add(hyp_onnx_cut *c, const char *name, size_t node, hyp_diag *diag)
{
    uint32_t id;
    if (!*name) return HYP_OK;
    HYP_TRY(hyp_intern_add(&c->names, name, strlen(name), &id, diag));
    if (id < c->values.len) return HYP_OK; /* an input that is an initializer, too */
    return hyp_vec_push(&c->values, diag, (value){.node = node});
}

typedef void read_fn(hyp_onnx_cut *c, value *v, void *user);

/* Every value that the node reads, those that graphs in its attributes read from around them among them: values in
 * there have names of their own. */
static void for_reads(hyp_onnx_cut *c, const HypOnnx__NodeProto *node, read_fn *each, void *user)
{
    for (size_t i = 0; i < node->n_input; i++) {
        value *v = find(c, node->input[i]);
        if (v) each(c, v, user);
    }
    for (size_t a = 0; a < node->n_attribute; a++) {
        const HypOnnx__GraphProto *graph = node->attribute[a]->g;
        for (size_t i = 0; graph && i < graph->n_node; i++) for_reads(c, graph->node[i], each, user);
        for (size_t i = 0; graph && i < graph->n_output; i++) {
            value *v = find(c, graph->output[i]->name);
            if (v) each(c, v, user);
        }
    }
}

static void note_read(hyp_onnx_cut *c, value *v, void *user)
{
    (void)c, (void)user;
    v->read = true;
}

typedef struct order_check {
    size_t node;
    bool wrong;
} order_check;

static void note_wanted(hyp_onnx_cut *c, value *v, void *user)
{
    (void)c;
    order_check *o = user;
    v->wanted = true;
    o->wrong = o->wrong || (v->node != nowhere && v->node >= o->node);
}

static hyp_status add_names(hyp_onnx_cut *c, hyp_diag *diag)
{
    const HypOnnx__GraphProto *g = c->graph;
    for (size_t i = 0; i < g->n_initializer; i++) {
        const HypOnnx__TensorProto *t = g->initializer[i];
        if (t->has_data_location && t->data_location == HYP_ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "the model has external data");
        HYP_TRY(add(c, t->name ? t->name : "", nowhere, diag));
    }
    for (size_t i = 0; i < g->n_input; i++) HYP_TRY(add(c, g->input[i]->name ? g->input[i]->name : "", nowhere, diag));
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) HYP_TRY(add(c, g->node[i]->output[k], i, diag));
    for (size_t i = 0; i < g->n_node; i++) {
        order_check o = {.node = i};
        for_reads(c, g->node[i], note_wanted, &o);
        if (o.wrong) return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "a node of the model comes before one that it reads");
    }
    for (size_t i = 0; i < g->n_output; i++) {
        value *v = find(c, g->output[i]->name);
        if (v) v->output = v->wanted = true;
    }
    return HYP_OK;
}

/* ---- writing -------------------------------------------------------------------------------------------- */

/* Parts of the graph as they stand in the file: fields of other numbers, which describe values or the whole, are left
 * out. */
static void put_kept(hyp_onnx_cut *c, const bool *keep, bool all_inputs, hyp_strbuf *sb)
{
    size_t node = 0, initializer = 0, input = 0;
    const uint8_t *p = c->graph_bytes.data, *end = p + c->graph_bytes.size;
    for (hyp_wire_field f; hyp_wire_next(&p, end, &f);) {
        bool wanted = f.number == 2; /* the graph's name */
        const value *v = NULL;
        if (f.number == NODE)
            wanted = keep[node++];
        else if (f.number == INITIALIZER)
            v = find(c, c->graph->initializer[initializer++]->name);
        else if (f.number == INPUT)
            v = find(c, c->graph->input[input++]->name);
        if (wanted || (v && (v->read || (all_inputs && f.number == INPUT)))) hyp_wire_put(sb, f.whole);
    }
}

/* `types` false: all that nodes compute is an output, as long as its type is not known. */
static void put_graph(hyp_onnx_cut *c, const bool *keep, bool all_inputs, bool types, hyp_strbuf *sb)
{
    for (size_t i = 0; i < c->values.len; i++) c->values.data[i].read = false;
    for (size_t i = 0; i < c->graph->n_node; i++)
        if (keep[i]) for_reads(c, c->graph->node[i], note_read, NULL);
    put_kept(c, keep, all_inputs, sb);
    for (size_t i = 0; i < c->values.len; i++) {
        const value *v = &c->values.data[i];
        if (v->node == nowhere) continue;
        if (!keep[v->node] && v->read) hyp_wire_put_field(sb, INPUT, v->info);
        if (keep[v->node] && v->wanted && (v->output || !v->read || !types)) hyp_wire_put_field(sb, OUTPUT, v->info);
    }
}

static hyp_status write_model(hyp_onnx_cut *c, const bool *keep, bool all_inputs, bool types, hyp_strbuf *out,
                              hyp_diag *diag)
{
    hyp_strbuf graph = {0};
    put_graph(c, keep, all_inputs, types, &graph);
    const uint8_t *p = c->map.data, *end = p + c->map.size;
    for (hyp_wire_field f; hyp_wire_next(&p, end, &f);)
        if (f.number != GRAPH && f.number != TRAINING) hyp_wire_put(out, f.whole);
    hyp_wire_put_field(out, GRAPH, (span){(const uint8_t *)hyp_strbuf_text(&graph), graph.len});
    bool failed = graph.failed || out->failed;
    size_t size = graph.len;
    hyp_strbuf_dispose(&graph);
    return failed ? hyp_fail_memory(diag, size) : HYP_OK;
}

hyp_status hyp_onnx_cut_write(hyp_onnx_cut *c, const bool *keep, bool all_inputs, hyp_strbuf *out, hyp_diag *diag)
{
    return write_model(c, keep, all_inputs, true, out, diag);
}

/* ---- types ---------------------------------------------------------------------------------------------- */

static hyp_status describe(hyp_onnx_cut *c, const char *name, const hyp_dims *dims, const hyp_type *type, span *out,
                           hyp_diag *diag)
{
    hyp_strbuf info = {0};
    hyp_ow_print_value(&info, name, dims, type);
    uint8_t *bytes = info.failed ? NULL : hyp_arena_alloc(&c->arena, info.len);
    if (bytes) memcpy(bytes, hyp_strbuf_text(&info), info.len);
    *out = (span){bytes, info.len};
    hyp_strbuf_dispose(&info);
    return bytes ? HYP_OK : hyp_fail_memory(diag, out->size);
}

/* An import of the model with all that nodes compute as its outputs tells the types. */
static hyp_status import_types(hyp_onnx_cut *c, const char *path, const hyp_onnx_options *options, hyp_dims *dims,
                               const hyp_strbuf *bytes, hyp_diag *diag)
{
    hyp_graph g;
    hyp_graph_init(&g, dims);
    hyp_onnx_model *model = NULL;
    hyp_status status =
        hyp_onnx_import_memory(hyp_strbuf_text(bytes), bytes->len, path, NULL, options, &g, &model, diag);
    for (size_t i = 0; status == HYP_OK && i < g.outputs.len; i++) {
        const hyp_named_value *o = &g.outputs.data[i];
        value *v = find(c, o->name);
        if (v) status = describe(c, o->name, dims, &g.values.data[o->value].type, &v->info, diag);
    }
    hyp_graph_dispose(&g);
    hyp_onnx_model_destroy(model);
    return status;
}

static hyp_status find_types(hyp_onnx_cut *c, const char *path, const hyp_onnx_options *options, hyp_diag *diag)
{
    hyp_dims *dims;
    HYP_TRY(hyp_dims_create(&dims, diag));
    bool *keep = hyp_arena_zalloc(&c->arena, c->graph->n_node + 1, sizeof *keep);
    hyp_status status = keep ? HYP_OK : hyp_fail_memory(diag, c->graph->n_node);
    for (size_t i = 0; status == HYP_OK && i < c->graph->n_node; i++) keep[i] = true;
    for (size_t i = 0; status == HYP_OK && i < c->values.len; i++)
        status = describe(c, c->names.names.data[i], dims, NULL, &c->values.data[i].info, diag);
    hyp_strbuf bytes = {0};
    if (status == HYP_OK) status = write_model(c, keep, true, false, &bytes, diag);
    if (status == HYP_OK) status = import_types(c, path, options, dims, &bytes, diag);
    hyp_strbuf_dispose(&bytes);
    hyp_dims_destroy(dims);
    return status;
}

/* ---- the model ------------------------------------------------------------------------------------------ */

static hyp_status find_graph(hyp_onnx_cut *c, hyp_diag *diag)
{
    const uint8_t *p = c->map.data, *end = p + c->map.size;
    size_t count = 0;
    for (hyp_wire_field f; hyp_wire_next(&p, end, &f);) {
        if (f.number != GRAPH) continue;
        c->graph_bytes = f.payload;
        count++;
    }
    return count == 1 ? HYP_OK : hyp_fail(diag, HYP_ERR_UNSUPPORTED, "the graph of the model is not in one piece");
}

static hyp_status open_model(hyp_onnx_cut *c, const char *path, const hyp_onnx_options *options, hyp_diag *diag)
{
    ProtobufCMessage *message;
    HYP_TRY(hyp_map_file(path, &c->map, diag));
    if (c->map.size > max_file)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "the model is above %zu MiB", max_file >> 20);
    HYP_TRY(
        hyp_wire_unpack(path, c->map.data, c->map.size, &hyp_onnx__model_proto__descriptor, &c->arena, &message, diag));
    c->graph = ((const HypOnnx__ModelProto *)message)->graph;
    HYP_TRY(find_graph(c, diag));
    HYP_TRY(add_names(c, diag));
    return find_types(c, path, options, diag);
}

hyp_status hyp_onnx_cut_open(const char *path, const hyp_onnx_options *options, hyp_onnx_cut **out, hyp_diag *diag)
{
    hyp_onnx_cut *c = hyp_calloc(1, sizeof *c);
    if (!c) return hyp_fail_memory(diag, sizeof *c);
    hyp_status status = open_model(c, path, options, diag);
    if (status == HYP_OK)
        *out = c;
    else
        hyp_onnx_cut_close(c);
    return status;
}

void hyp_onnx_cut_close(hyp_onnx_cut *c)
{
    if (!c) return;
    hyp_vec_free(&c->values);
    hyp_intern_dispose(&c->names);
    hyp_arena_dispose(&c->arena);
    hyp_unmap(&c->map);
    hyp_free(c);
}

size_t hyp_onnx_cut_count(const hyp_onnx_cut *c) { return c->graph->n_node; }

void hyp_onnx_cut_name(const hyp_onnx_cut *c, size_t i, hyp_strbuf *sb)
{
    const HypOnnx__NodeProto *node = c->graph->node[i];
    if (node->name && *node->name)
        hyp_strbuf_puts(sb, node->name);
    else
        hyp_strbuf_printf(sb, "%s:%s", node->op_type ? node->op_type : "", node->n_output ? node->output[0] : "");
}
