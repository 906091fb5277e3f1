/* Calls of the model's own functions, written out before the import: the body in place of the node, names inside
 * prefixed, attribute references resolved. Nodes with graphs (If) learn here which outer names those read. */
#include <stdio.h>
#include <string.h>

#include "onnx/import.h"

enum {
    MAX_CALLS_DEEP = 32, /* a call in a function that is called ... */
    MAX_FORMALS = 1024   /* inputs and outputs of a function: they are looked through one by one */
};
static const size_t max_expanded = (size_t)64 << 20; /* bytes: functions that call others twice grow without bound */

typedef HypOnnx__NodeProto node_proto;

typedef struct expansion {
    hyp_importer *im;
    hyp_arena *arena;     /* the source's: constants point into attributes */
    hyp_intern functions; /* "domain::name:overload"; the ids are those of the model's list */
    size_t taken;         /* bytes */
    uint32_t calls;
} expansion;

/* The call whose function's nodes are being copied. */
typedef struct call {
    const HypOnnx__FunctionProto *function;
    const node_proto *node; /* with names of the graph that it is expanded into */
    const char *values;     /* in front of the names of values */
    int64_t opset;          /* 0: the model's */
    const struct call *outer;
} call;

typedef HYP_VEC(node_proto *) node_list;

static hyp_status expand_nodes(expansion *e, const call *c, node_proto *const *nodes, size_t count, node_list *out);

static const char *text_of(const char *text) { return text ? text : ""; }

static hyp_status take(expansion *e, size_t count, size_t size, void *out)
{
    size_t bytes;
    if (!hyp_mul_size(count, size, &bytes) || bytes > max_expanded - e->taken)
        return hyp_fail(e->im->diag, HYP_ERR_LIMIT, "%s: its functions, inlined, take more than %zu MiB", e->im->file,
                        max_expanded >> 20);
    void *p = hyp_arena_zalloc(e->arena, count, size);
    if (!p) return hyp_fail_memory(e->im->diag, bytes);
    e->taken += bytes;
    memcpy(out, &p, sizeof p);
    return HYP_OK;
}

static hyp_status join(expansion *e, const char *a, const char *b, const char *c, char **out)
{
    size_t size = strlen(a) + strlen(b) + strlen(c) + 1;
    HYP_TRY(take(e, size, 1, out));
    snprintf(*out, size, "%s%s%s", a, b, c);
    return HYP_OK;
}

static hyp_status refuse(expansion *e, const node_proto *node, hyp_status status, const char *what)
{
    return hyp_fail(e->im->diag, status, "%s: node \"%s\", which calls a function of the model, %s", e->im->file,
                    text_of(hyp_onnx_node_name(e->im, node)), what);
}

/* ---- functions ---------------------------------------------------------------------------------- */

static hyp_status function_key(expansion *e, const char *domain, const char *name, const char *overload,
                               hyp_strbuf *key)
{
    if (strcmp(text_of(domain), "ai.onnx") == 0) domain = "";
    key->len = 0;
    hyp_strbuf_printf(key, "%s::%s:%s", text_of(domain), text_of(name), text_of(overload));
    return key->failed ? hyp_fail_memory(e->im->diag, 64) : HYP_OK;
}

static hyp_status list_functions(expansion *e, hyp_strbuf *key)
{
    const HypOnnx__ModelProto *model = e->im->model;
    for (size_t i = 0; i < model->n_functions; i++) {
        const HypOnnx__FunctionProto *f = model->functions[i];
        uint32_t id;
        HYP_TRY(function_key(e, f->domain, f->name, f->overload, key));
        HYP_TRY(hyp_intern_add(&e->functions, key->data, key->len, &id, e->im->diag));
        if (id != i)
            return hyp_fail(e->im->diag, HYP_ERR_MALFORMED, "%s: has two functions \"%s\"", e->im->file, key->data);
        if (f->n_input + f->n_output > MAX_FORMALS)
            return hyp_fail(e->im->diag, HYP_ERR_LIMIT,
                            "%s: function \"%s\" has %zu inputs and outputs; at most %d are supported", e->im->file,
                            key->data, f->n_input + f->n_output, MAX_FORMALS);
    }
    return HYP_OK;
}

/* NULL if the node is an operator. */
static hyp_status find_function(expansion *e, const node_proto *node, const HypOnnx__FunctionProto **out)
{
    hyp_strbuf key = {0};
    uint32_t id;
    *out = NULL;
    if (!e->im->model->n_functions) return HYP_OK;
    hyp_status status = function_key(e, node->domain, node->op_type, node->overload, &key);
    if (status == HYP_OK && hyp_intern_find(&e->functions, key.data, key.len, &id)) *out = e->im->model->functions[id];
    hyp_strbuf_dispose(&key);
    return status;
}

/* ---- names and attributes of a function's node -------------------------------------------------- */

static hyp_status rename_value(expansion *e, const call *c, char *name, char **out)
{
    *out = name;
    if (!c || !*text_of(name)) return HYP_OK;
    for (size_t i = 0; i < c->function->n_input; i++) {
        if (strcmp(c->function->input[i], name) != 0) continue;
        if (i < c->node->n_input)
            *out = c->node->input[i];
        else
            HYP_TRY(join(e, "", "", "", out));
        return HYP_OK;
    }
    for (size_t i = 0; i < c->function->n_output && i < c->node->n_output; i++) {
        if (strcmp(c->function->output[i], name) != 0 || !*c->node->output[i]) continue;
        *out = c->node->output[i];
        return HYP_OK;
    }
    return join(e, c->values, name, "", out);
}

static hyp_status rename_values(expansion *e, const call *c, size_t count, char ***names)
{
    char **renamed;
    HYP_TRY(take(e, count, sizeof *renamed, &renamed));
    for (size_t i = 0; i < count; i++) HYP_TRY(rename_value(e, c, (*names)[i], &renamed[i]));
    *names = renamed;
    return HYP_OK;
}

static HypOnnx__AttributeProto *find_attribute(HypOnnx__AttributeProto *const *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(text_of(list[i]->name), name) == 0) return list[i];
    return NULL;
}

static hyp_status rename_infos(expansion *e, const call *c, size_t count, HypOnnx__ValueInfoProto ***infos)
{
    HypOnnx__ValueInfoProto **renamed;
    HYP_TRY(take(e, count, sizeof *renamed, &renamed));
    for (size_t i = 0; i < count; i++) {
        HYP_TRY(take(e, 1, sizeof **renamed, &renamed[i]));
        *renamed[i] = *(*infos)[i];
        HYP_TRY(rename_value(e, c, renamed[i]->name, &renamed[i]->name));
    }
    *infos = renamed;
    return HYP_OK;
}

/* The graph of an attribute: its names live in the scope around it, but for those that it makes. */
static hyp_status copy_graph(expansion *e, const call *c, HypOnnx__GraphProto **graph)
{
    HypOnnx__GraphProto *g;
    HYP_TRY(take(e, 1, sizeof *g, &g));
    *g = **graph;
    *graph = g;
    node_list nodes = {0};
    hyp_status status = expand_nodes(e, c, g->node, g->n_node, &nodes);
    g->n_node = nodes.len;
    if (status == HYP_OK) status = take(e, nodes.len, sizeof *g->node, &g->node);
    if (status == HYP_OK && nodes.len) memcpy(g->node, nodes.data, nodes.len * sizeof *g->node);
    hyp_vec_free(&nodes);
    HYP_TRY(status);
    if (!c) return HYP_OK;
    HypOnnx__TensorProto **initializers;
    HYP_TRY(take(e, g->n_initializer, sizeof *initializers, &initializers));
    for (size_t i = 0; i < g->n_initializer; i++) {
        HYP_TRY(take(e, 1, sizeof **initializers, &initializers[i]));
        *initializers[i] = *g->initializer[i];
        HYP_TRY(rename_value(e, c, initializers[i]->name, &initializers[i]->name));
    }
    g->initializer = initializers;
    HYP_TRY(rename_infos(e, c, g->n_input, &g->input));
    return rename_infos(e, c, g->n_output, &g->output);
}

/* An attribute that refers to one of the call is that one, its default, or absent. */
static hyp_status copy_attributes(expansion *e, const call *c, node_proto *node)
{
    HypOnnx__AttributeProto **list;
    size_t count = 0;
    HYP_TRY(take(e, node->n_attribute, sizeof *list, &list));
    for (size_t i = 0; i < node->n_attribute; i++) {
        HypOnnx__AttributeProto *a = node->attribute[i], *from = a, *copy;
        bool refers = c && *text_of(a->ref_attr_name);
        if (refers) {
            from = find_attribute(c->node->attribute, c->node->n_attribute, a->ref_attr_name);
            if (!from)
                from = find_attribute(c->function->attribute_proto, c->function->n_attribute_proto, a->ref_attr_name);
            if (!from) continue;
        }
        HYP_TRY(take(e, 1, sizeof *copy, &copy));
        *copy = *from;
        copy->name = a->name;
        /* The graph of a call's attribute has been seen to where the call stands. */
        if (copy->g && !refers) HYP_TRY(copy_graph(e, c, &copy->g));
        list[count++] = copy;
    }
    node->attribute = list;
    node->n_attribute = count;
    return HYP_OK;
}

/* ---- outer names -------------------------------------------------------------------------------- */

static hyp_status add_name(expansion *e, hyp_intern *set, const char *name)
{
    uint32_t id;
    return hyp_intern_add(set, text_of(name), strlen(text_of(name)), &id, e->im->diag);
}

static hyp_status add_outer(expansion *e, const hyp_intern *own, hyp_intern *outer, const char *name)
{
    uint32_t id;
    name = text_of(name);
    return !*name || hyp_intern_find(own, name, strlen(name), &id) ? HYP_OK : add_name(e, outer, name);
}

/* Adds the names that the graph reads and does not make. */
static hyp_status add_outer_names(expansion *e, const HypOnnx__GraphProto *g, hyp_intern *own, hyp_intern *outer)
{
    for (size_t i = 0; i < g->n_initializer; i++) HYP_TRY(add_name(e, own, g->initializer[i]->name));
    for (size_t i = 0; i < g->n_input; i++) HYP_TRY(add_name(e, own, g->input[i]->name));
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++) HYP_TRY(add_name(e, own, g->node[i]->output[k]));
    for (size_t i = 0; i < g->n_node; i++) {
        const node_proto *node = g->node[i];
        for (size_t k = 0; k < node->n_input; k++) HYP_TRY(add_outer(e, own, outer, node->input[k]));
        for (size_t k = 0; k < node->n_outer; k++) HYP_TRY(add_outer(e, own, outer, node->outer[k]));
    }
    for (size_t i = 0; i < g->n_output; i++) HYP_TRY(add_outer(e, own, outer, g->output[i]->name));
    return HYP_OK;
}

static hyp_status note_outer_names(expansion *e, node_proto *node)
{
    hyp_intern outer = {0};
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < node->n_attribute && status == HYP_OK; i++) {
        hyp_intern own = {0};
        if (node->attribute[i]->g) status = add_outer_names(e, node->attribute[i]->g, &own, &outer);
        hyp_intern_dispose(&own);
    }
    node->n_outer = 0;
    if (status == HYP_OK) status = take(e, outer.names.len, sizeof *node->outer, &node->outer);
    for (size_t i = 0; i < outer.names.len && status == HYP_OK; i++)
        status = join(e, outer.names.data[i], "", "", &node->outer[node->n_outer++]);
    hyp_intern_dispose(&outer);
    return status;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static bool has_graph(const node_proto *node)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->g) return true;
    return false;
}

static hyp_status copy_node(expansion *e, const call *c, const node_proto *from, node_proto **out)
{
    node_proto *node;
    HYP_TRY(take(e, 1, sizeof *node, &node));
    *node = *from;
    HYP_TRY(copy_attributes(e, c, node));
    if (c) {
        const char *outside = hyp_onnx_node_name(e->im, c->node), *inside = hyp_onnx_node_name(e->im, from);
        if (!outside || !inside) return hyp_fail_memory(e->im->diag, 1);
        HYP_TRY(join(e, outside, "/", inside, &node->name));
        HYP_TRY(rename_values(e, c, node->n_input, &node->input));
        HYP_TRY(rename_values(e, c, node->n_output, &node->output));
        node->has_opset = c->opset != 0;
        node->opset = c->opset;
    }
    if (has_graph(node)) HYP_TRY(note_outer_names(e, node));
    *out = node;
    return HYP_OK;
}

static hyp_status push(expansion *e, node_list *list, node_proto *node)
{
    return hyp_vec_push(list, e->im->diag, node);
}

/* An output of the function that is one of its inputs. */
static hyp_status pass_through(expansion *e, const call *c, size_t output, node_list *out)
{
    node_proto *node;
    for (size_t i = 0; i < c->function->n_input; i++) {
        if (strcmp(c->function->input[i], c->function->output[output]) != 0) continue;
        HYP_TRY(take(e, 1, sizeof *node, &node));
        hyp_onnx__node_proto__init(node);
        HYP_TRY(take(e, 1, sizeof *node->input, &node->input));
        HYP_TRY(rename_value(e, c, c->function->input[i], &node->input[0]));
        HYP_TRY(join(e, "Identity", "", "", &node->op_type));
        node->output = &c->node->output[output];
        node->n_input = node->n_output = 1;
        return push(e, out, node);
    }
    return HYP_OK;
}

static hyp_status function_opset(expansion *e, const HypOnnx__FunctionProto *f, int64_t *opset)
{
    for (size_t i = 0; i < f->n_opset_import; i++) {
        const char *domain = text_of(f->opset_import[i]->domain);
        if (*domain && strcmp(domain, "ai.onnx") != 0) continue;
        *opset = f->opset_import[i]->version;
        if (*opset < HYP_ONNX_OPSET_MIN || *opset > HYP_ONNX_OPSET_MAX)
            return hyp_fail(e->im->diag, HYP_ERR_UNSUPPORTED,
                            "%s: function \"%s\" uses version %lld of the ONNX operators; %d to %d are supported",
                            e->im->file, text_of(f->name), (long long)*opset, HYP_ONNX_OPSET_MIN, HYP_ONNX_OPSET_MAX);
    }
    return HYP_OK;
}

static hyp_status expand_call(expansion *e, const call *outer, const node_proto *node, const HypOnnx__FunctionProto *f,
                              node_list *out)
{
    call c = {.function = f, .node = node, .opset = node->has_opset ? node->opset : 0, .outer = outer};
    int deep = 0;
    for (const call *o = outer; o; o = o->outer, deep++)
        if (o->function == f) return refuse(e, node, HYP_ERR_MALFORMED, "is in that function itself: it never ends");
    if (deep == MAX_CALLS_DEEP) return refuse(e, node, HYP_ERR_LIMIT, "is in a function in more than 32 others");
    if (node->n_input > f->n_input || node->n_output > f->n_output)
        return refuse(e, node, HYP_ERR_MALFORMED, "has more inputs or outputs than the function");
    HYP_TRY(function_opset(e, f, &c.opset));
    char number[16], *prefix;
    snprintf(number, sizeof number, "@%u/", e->calls++);
    HYP_TRY(
        join(e, node->n_output && *node->output[0] ? node->output[0] : text_of(node->op_type), number, "", &prefix));
    c.values = prefix;
    HYP_TRY(expand_nodes(e, &c, f->node, f->n_node, out));
    for (size_t i = 0; i < node->n_output; i++)
        if (*node->output[i]) HYP_TRY(pass_through(e, &c, i, out));
    return HYP_OK;
}

static hyp_status expand_nodes(expansion *e, const call *c, node_proto *const *nodes, size_t count, node_list *out)
{
    for (size_t i = 0; i < count; i++) {
        const HypOnnx__FunctionProto *f;
        node_proto *node = nodes[i];
        if (c || has_graph(node)) HYP_TRY(copy_node(e, c, nodes[i], &node));
        HYP_TRY(find_function(e, node, &f));
        if (f)
            HYP_TRY(expand_call(e, c, node, f, out));
        else
            HYP_TRY(push(e, out, node));
    }
    return HYP_OK;
}

hyp_status hyp_onnx_expand(hyp_importer *im)
{
    expansion e = {.im = im, .arena = &im->source->arena};
    hyp_strbuf key = {0};
    HypOnnx__GraphProto *graph = im->model->graph;
    hyp_status status = list_functions(&e, &key);
    if (status == HYP_OK) status = copy_graph(&e, NULL, &graph);
    if (status == HYP_OK) im->scope.graph = graph;
    hyp_strbuf_dispose(&key);
    hyp_intern_dispose(&e.functions);
    return status;
}
