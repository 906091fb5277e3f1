/* Building graphs, copying them, comparing them. */
#include <string.h>

#include "ir/op.h"

void hyp_graph_init(hyp_graph *g, hyp_dims *dims) { *g = (hyp_graph){.dims = dims, .name = ""}; }

void hyp_graph_dispose(hyp_graph *g)
{
    hyp_vec_free(&g->values);
    hyp_vec_free(&g->nodes);
    hyp_vec_free(&g->inputs);
    hyp_vec_free(&g->outputs);
    hyp_vec_free(&g->sizes);
    hyp_vec_free(&g->variables);
    hyp_arena_dispose(&g->arena);
    *g = (hyp_graph){0};
}

/* ---- building --------------------------------------------------------------------------------------- */

static hyp_status check_type(const hyp_type *t, hyp_diag *diag)
{
    if (hyp_dtype_size(t->dtype) == 0)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "no element type has the number %d", (int)t->dtype);
    if (t->rank < 0 || t->rank > HYP_MAX_RANK)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a type of rank %d, ranks go from 0 to %d", t->rank,
                        HYP_MAX_RANK);
    for (int32_t i = 0; i < t->rank; i++)
        if (hyp_dim_is_const(t->dims[i]) && t->dims[i] < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a type with the negative dimension %lld",
                            (long long)t->dims[i]);
    return HYP_OK;
}

static hyp_type clean_type(const hyp_type *t)
{
    hyp_type c = {.dtype = t->dtype, .rank = t->rank};
    memcpy(c.dims, t->dims, (size_t)t->rank * sizeof *c.dims);
    return c;
}

static hyp_status keep_text(hyp_graph *g, const char *text, const char **out, hyp_diag *diag)
{
    *out = text ? hyp_arena_strdup(&g->arena, text) : NULL;
    return text && !*out ? hyp_fail_memory(diag, strlen(text)) : HYP_OK;
}

static hyp_status keep_bytes(hyp_graph *g, const void *bytes, size_t size, const void **out, hyp_diag *diag)
{
    void *copy = hyp_arena_alloc(&g->arena, size);
    if (!copy) return hyp_fail_memory(diag, size);
    if (size) memcpy(copy, bytes, size);
    *out = copy;
    return HYP_OK;
}

static hyp_status keep_texts(hyp_graph *g, const char *const *texts, uint32_t count, const char *const **out,
                             hyp_diag *diag)
{
    const char **copy = hyp_arena_zalloc(&g->arena, count, sizeof *copy);
    if (!copy) return hyp_fail_memory(diag, count * sizeof *copy);
    for (uint32_t i = 0; i < count; i++) HYP_TRY(keep_text(g, texts[i], &copy[i], diag));
    *out = copy;
    return HYP_OK;
}

/* Appends a value; what it points to is already in the graph's keeping. */
static hyp_status push_value(hyp_graph *g, const hyp_value *v, hyp_value_id *out, hyp_diag *diag)
{
    if (g->values.len >= HYP_NO_VALUE) return hyp_fail(diag, HYP_ERR_LIMIT, "a graph of more than 2^32 - 1 values");
    HYP_TRY(hyp_vec_push(&g->values, diag, *v));
    *out = (hyp_value_id)(g->values.len - 1);
    return HYP_OK;
}

/* What `v` points to but its name is already in the graph's keeping. */
static hyp_status push_input(hyp_graph *g, hyp_value v, hyp_value_id *out, hyp_diag *diag)
{
    for (size_t i = 0; i < g->inputs.len; i++)
        if (strcmp(g->values.data[g->inputs.data[i]].name, v.name) == 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "two inputs are called '%s'", v.name);
    HYP_TRY(keep_text(g, v.name, &v.name, diag));
    HYP_TRY(hyp_vec_reserve(&g->inputs, g->inputs.len + 1, diag));
    HYP_TRY(push_value(g, &v, out, diag));
    g->inputs.data[g->inputs.len++] = *out;
    return HYP_OK;
}

hyp_status hyp_graph_add_input(hyp_graph *g, const char *name, const hyp_type *type, hyp_value_id *out, hyp_diag *diag)
{
    HYP_TRY(check_type(type, diag));
    if (g->variables.len)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "the input '%s' comes behind a variable, inputs come before them", name);
    return push_input(g, (hyp_value){.kind = HYP_VALUE_INPUT, .name = name, .type = clean_type(type)}, out, diag);
}

/* Small integer constants are known to inference. */
static hyp_status fill_content(hyp_graph *g, hyp_value *v, hyp_diag *diag)
{
    size_t count = v->bytes / hyp_dtype_size(v->type.dtype);
    if (hyp_dtype_is_float(v->type.dtype) || count > HYP_MAX_CONTENT || (v->bytes && !v->data)) return HYP_OK;
    hyp_dim *content = hyp_arena_zalloc(&g->arena, count, sizeof *content);
    if (!content) return hyp_fail_memory(diag, count * sizeof *content);
    for (size_t i = 0; i < count; i++) {
        content[i] = hyp_load_i64(v->type.dtype, v->data, i);
        if (!hyp_dim_is_const(content[i]) || (v->type.dtype == HYP_U64 && content[i] < 0)) return HYP_OK;
    }
    v->content = content;
    v->content_count = (uint32_t)count;
    return HYP_OK;
}

/* A constant whose data, if it is `owned`, is in the arena already; `data` NULL and bytes > 0: elided. */
static hyp_status push_const(hyp_graph *g, hyp_value v, const char *name, hyp_value_id *out, hyp_diag *diag)
{
    size_t want;
    if (!hyp_type_bytes(&v.type, &want))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the constant '%s' is symbolic or larger than memory",
                        name ? name : "");
    if (want != v.bytes)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the constant '%s' has %zu bytes, its type wants %zu",
                        name ? name : "", v.bytes, want);
    HYP_TRY(keep_text(g, name, &v.name, diag));
    HYP_TRY(fill_content(g, &v, diag));
    return push_value(g, &v, out, diag);
}

hyp_status hyp_graph_add_const(hyp_graph *g, const char *name, const hyp_type *type, const void *data, size_t bytes,
                               bool copy, hyp_value_id *out, hyp_diag *diag)
{
    HYP_TRY(check_type(type, diag));
    hyp_value v = {.kind = HYP_VALUE_CONST, .type = clean_type(type), .data = bytes ? data : NULL, .bytes = bytes};
    if (bytes && !data)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the constant '%s' has no data", name ? name : "");
    if (copy && bytes) {
        HYP_TRY(keep_bytes(g, data, bytes, &v.data, diag));
        v.owned = true;
    }
    return push_const(g, v, name, out, diag);
}

hyp_status hyp_graph_add_elided_const(hyp_graph *g, const char *name, const hyp_type *type, size_t bytes, uint64_t hash,
                                      hyp_value_id *out, hyp_diag *diag)
{
    HYP_TRY(check_type(type, diag));
    hyp_value v = {.kind = HYP_VALUE_CONST, .type = clean_type(type), .bytes = bytes, .hash = hash};
    return push_const(g, v, name, out, diag);
}

hyp_status hyp_graph_copy_const(hyp_graph *g, const hyp_value *from, hyp_value_id *out, hyp_diag *diag)
{
    HYP_TRY(from->bytes && !from->data
                ? hyp_graph_add_elided_const(g, from->name, &from->type, from->bytes, from->hash, out, diag)
                : hyp_graph_add_const(g, from->name, &from->type, from->data, from->bytes, from->owned, out, diag));
    g->values.data[*out].updatable = from->updatable;
    g->values.data[*out].measured = from->measured;
    return HYP_OK;
}

static hyp_status keep_attr(hyp_graph *g, const hyp_attr *a, hyp_attr *out, hyp_diag *diag)
{
    *out = *a;
    if (a->kind == HYP_ATTR_SYM) return keep_text(g, a->sym, &out->sym, diag);
    if (a->kind == HYP_ATTR_SYMS) return keep_texts(g, a->syms, a->count, &out->syms, diag);
    if (a->kind == HYP_ATTR_DIMS) {
        const void *list = NULL;
        HYP_TRY(keep_bytes(g, a->dims, a->count * sizeof *a->dims, &list, diag));
        out->dims = list;
    }
    return HYP_OK;
}

/* Types and contents of the outputs of a node about to be added. */
static hyp_status infer_node(hyp_graph *g, const hyp_node *n, hyp_infer_value *out, hyp_diag *diag)
{
    hyp_infer_value *values = hyp_calloc(n->input_count, sizeof *values);
    const hyp_infer_value **in = hyp_calloc(n->input_count, sizeof *in);
    hyp_status status = values && in ? HYP_OK : hyp_fail_memory(diag, n->input_count * sizeof *values);
    for (uint32_t i = 0; status == HYP_OK && i < n->input_count; i++) {
        if (n->inputs[i] == HYP_NO_VALUE) continue;
        if (n->inputs[i] >= g->values.len) {
            status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input %u names no value of the graph", i);
            break;
        }
        const hyp_value *v = &g->values.data[n->inputs[i]];
        values[i] = (hyp_infer_value){.type = v->type, .content = v->content, .content_count = v->content_count};
        in[i] = &values[i];
    }
    if (status == HYP_OK)
        status = hyp_infer(g->dims, &g->arena, n->op, n->attrs, in, n->input_count, out, n->output_count, diag);
    hyp_free(values);
    hyp_free(in);
    return status;
}

static hyp_status keep_node(hyp_graph *g, hyp_op op, const hyp_value_id *inputs, uint32_t input_count,
                            const hyp_attr *attrs, const hyp_provenance *from, uint32_t output_count, hyp_node *out,
                            hyp_diag *diag)
{
    const hyp_op_info *info = hyp_op_get(op);
    const void *ids = NULL;
    hyp_node n = {.op = op, .input_count = input_count, .output_count = output_count};
    HYP_TRY(keep_bytes(g, inputs, input_count * sizeof *inputs, &ids, diag));
    n.inputs = ids;
    hyp_attr *copy = hyp_arena_zalloc(&g->arena, info->attr_count, sizeof *copy);
    if (!copy) return hyp_fail_memory(diag, info->attr_count * sizeof *copy);
    for (uint32_t i = 0; i < info->attr_count; i++) {
        if (!attrs && info->attrs[i].required)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: attribute '%s' is missing", info->name,
                            info->attrs[i].name);
        hyp_attr a = attrs ? attrs[i] : hyp_attr_default(&info->attrs[i]);
        if (a.kind != info->attrs[i].kind)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: attribute '%s' has a value of the wrong kind",
                            info->name, info->attrs[i].name);
        HYP_TRY(keep_attr(g, &a, &copy[i], diag));
    }
    n.attrs = copy;
    if (from) {
        n.from = *from;
        HYP_TRY(keep_texts(g, from->sources, from->source_count, &n.from.sources, diag));
        HYP_TRY(keep_texts(g, from->rules, from->rule_count, &n.from.rules, diag));
    }
    *out = n;
    return HYP_OK;
}

hyp_status hyp_graph_add_node(hyp_graph *g, hyp_op op, const hyp_value_id *inputs, uint32_t input_count,
                              const hyp_attr *attrs, const hyp_provenance *from, hyp_value_id *outs,
                              uint32_t output_count, hyp_diag *diag)
{
    hyp_node n;
    if ((unsigned)op >= HYP_OP_COUNT) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "no operator %d", (int)op);
    HYP_TRY(keep_node(g, op, inputs, input_count, attrs, from, output_count, &n, diag));
    hyp_value_id *ids = hyp_arena_zalloc(&g->arena, output_count, sizeof *ids);
    hyp_infer_value *types = hyp_arena_zalloc(&g->arena, output_count, sizeof *types);
    if (!ids || !types) return hyp_fail_memory(diag, output_count * sizeof *types);
    HYP_TRY(infer_node(g, &n, types, diag));
    n.outputs = ids;
    /* Room first, so that a failure leaves the graph as it was. */
    if (output_count > HYP_NO_VALUE - g->values.len || g->nodes.len >= UINT32_MAX)
        return hyp_fail(diag, HYP_ERR_LIMIT, "a graph of more than 2^32 - 1 values");
    HYP_TRY(hyp_vec_reserve(&g->nodes, g->nodes.len + 1, diag));
    HYP_TRY(hyp_vec_reserve(&g->values, g->values.len + output_count, diag));
    for (uint32_t i = 0; i < output_count; i++) {
        hyp_value v = {.kind = HYP_VALUE_NODE,
                       .type = types[i].type,
                       .producer = (hyp_node_id)g->nodes.len,
                       .output = i,
                       .content = types[i].content,
                       .content_count = types[i].content_count};
        ids[i] = outs[i] = (hyp_value_id)g->values.len;
        g->values.data[g->values.len++] = v;
    }
    g->nodes.data[g->nodes.len++] = n;
    return HYP_OK;
}

static hyp_status push_output(hyp_graph *g, const char *name, hyp_value_id value, hyp_diag *diag)
{
    hyp_named_value out = {.value = value};
    if (value >= g->values.len)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "output '%s' names no value of the graph", name);
    for (size_t i = 0; i < g->outputs.len; i++)
        if (strcmp(g->outputs.data[i].name, name) == 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "two outputs are called '%s'", name);
    HYP_TRY(keep_text(g, name, &out.name, diag));
    return hyp_vec_push(&g->outputs, diag, out);
}

hyp_status hyp_graph_add_output(hyp_graph *g, const char *name, hyp_value_id value, hyp_diag *diag)
{
    if (g->hidden_outputs)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "the output '%s' comes behind outputs that are not shown, it has to come before them", name);
    return push_output(g, name, value, diag);
}

/* ---- what is not shown ------------------------------------------------------------------------------ */

hyp_status hyp_graph_push_variable(hyp_graph *g, const hyp_value *from, hyp_value_id *out, hyp_diag *diag)
{
    size_t want;
    HYP_TRY(check_type(&from->type, diag));
    if (!hyp_type_bytes(&from->type, &want))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the variable '%s' is symbolic or larger than memory",
                        from->name);
    if (from->bytes && want != from->bytes)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the variable '%s' has %zu bytes, its type wants %zu",
                        from->name, from->bytes, want);
    hyp_value v = {.kind = HYP_VALUE_INPUT,
                   .name = from->name,
                   .type = clean_type(&from->type),
                   .data = from->data,
                   .bytes = from->bytes,
                   .owned = from->owned,
                   .hash = from->hash};
    if (v.owned && v.data) HYP_TRY(keep_bytes(g, from->data, from->bytes, &v.data, diag));
    HYP_TRY(hyp_vec_reserve(&g->variables, g->variables.len + 1, diag));
    HYP_TRY(push_input(g, v, out, diag));
    g->variables.data[g->variables.len++] = (hyp_variable){(uint32_t)g->inputs.len - 1, HYP_NO_OUTPUT};
    return HYP_OK;
}

hyp_status hyp_graph_add_variable(hyp_graph *g, const char *name, const hyp_type *type, const void *data, size_t bytes,
                                  bool copy, hyp_value_id *out, hyp_diag *diag)
{
    if (bytes && !data) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the variable '%s' has no data", name);
    const hyp_value v = {
        .name = name, .type = *type, .data = bytes ? data : NULL, .bytes = bytes, .owned = copy && bytes};
    return hyp_graph_push_variable(g, &v, out, diag);
}

static hyp_variable *find_variable(hyp_graph *g, hyp_value_id before)
{
    for (size_t i = 0; i < g->variables.len; i++)
        if (g->inputs.data[g->variables.data[i].input] == before) return &g->variables.data[i];
    return NULL;
}

hyp_status hyp_graph_set_variable(hyp_graph *g, hyp_value_id before, hyp_value_id after, hyp_diag *diag)
{
    hyp_variable *variable = find_variable(g, before);
    if (!variable) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "value %u is no variable before the run", before);
    const hyp_value *v = &g->values.data[before];
    if (variable->output != HYP_NO_OUTPUT)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the variable '%s' is set twice", v->name);
    if (after < g->values.len && !hyp_type_equal(&v->type, &g->values.data[after].type)) {
        hyp_strbuf want = {0}, found = {0};
        hyp_type_print(&want, g->dims, &v->type);
        hyp_type_print(&found, g->dims, &g->values.data[after].type);
        hyp_status status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the variable '%s' is %s, what it becomes is %s",
                                     v->name, hyp_strbuf_text(&want), hyp_strbuf_text(&found));
        hyp_strbuf_dispose(&want);
        hyp_strbuf_dispose(&found);
        return status;
    }
    const char *name = hyp_arena_printf(&g->arena, "new:%s", v->name);
    if (!name) return hyp_fail_memory(diag, strlen(v->name));
    HYP_TRY(push_output(g, name, after, diag));
    variable->output = (uint32_t)g->outputs.len - 1;
    g->hidden_outputs++;
    return HYP_OK;
}

hyp_status hyp_graph_keep_hidden(hyp_graph *g, const hyp_graph *from, hyp_diag *diag)
{
    g->sizes.len = g->variables.len = 0;
    for (size_t i = 0; i < from->sizes.len; i++) HYP_TRY(hyp_vec_push(&g->sizes, diag, from->sizes.data[i]));
    g->hidden_outputs = from->hidden_outputs;
    for (size_t i = 0; i < from->variables.len; i++) {
        const hyp_value *v = hyp_graph_variable(from, i);
        hyp_value *to = &g->values.data[g->inputs.data[from->variables.data[i].input]];
        to->data = v->data, to->bytes = v->bytes, to->owned = v->owned, to->hash = v->hash;
        if (v->owned && v->data) HYP_TRY(keep_bytes(g, v->data, v->bytes, &to->data, diag));
        HYP_TRY(hyp_vec_push(&g->variables, diag, from->variables.data[i]));
    }
    return HYP_OK;
}

/* ---- copying ---------------------------------------------------------------------------------------- */

typedef struct copier {
    const hyp_graph *in;
    hyp_graph *out;
    const hyp_dim *replacement; /* by symbol, NULL = none */
    hyp_node_maker *make;       /* NULL = none */
    void *make_user;
    bool *live;        /* by node and by value after the nodes */
    hyp_value_id *map; /* old value -> new */
    hyp_diag *diag;
} copier;

static void mark_live(const hyp_graph *g, bool *nodes, bool *values)
{
    for (size_t i = 0; i < g->outputs.len; i++) values[g->outputs.data[i].value] = true;
    for (size_t i = g->nodes.len; i-- > 0;) {
        const hyp_node *n = &g->nodes.data[i];
        for (uint32_t j = 0; j < n->output_count; j++) nodes[i] |= values[n->outputs[j]];
        for (uint32_t j = 0; nodes[i] && j < n->input_count; j++)
            if (n->inputs[j] != HYP_NO_VALUE) values[n->inputs[j]] = true;
    }
}

static hyp_status replace_dims(const copier *c, const hyp_dim *from, uint32_t count, hyp_dim *to)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i] = from[i];
        if (c->replacement) HYP_TRY(hyp_dim_substitute(c->in->dims, from[i], c->replacement, &to[i], c->diag));
    }
    return HYP_OK;
}

/* The node with these attributes, or what the copier's maker, if there is one, makes of it. */
static hyp_status copy_with(const copier *c, const hyp_node *n, const hyp_attr *attrs)
{
    hyp_graph *g = c->out;
    bool made = false;
    hyp_value_id *ids = hyp_arena_zalloc(&g->arena, (size_t)n->input_count + n->output_count, sizeof *ids);
    if (!ids) return hyp_fail_memory(c->diag, n->input_count * sizeof *ids);
    hyp_value_id *outs = ids + n->input_count;
    for (uint32_t i = 0; i < n->input_count; i++)
        ids[i] = n->inputs[i] == HYP_NO_VALUE ? HYP_NO_VALUE : c->map[n->inputs[i]];
    if (c->make) HYP_TRY(c->make(c->make_user, g, (hyp_node_id)(n - c->in->nodes.data), ids, outs, &made, c->diag));
    if (!made)
        HYP_TRY(hyp_graph_add_node(g, n->op, ids, n->input_count, attrs, &n->from, outs, n->output_count, c->diag));
    for (uint32_t i = 0; i < n->output_count; i++) {
        c->map[n->outputs[i]] = outs[i];
        HYP_TRY(keep_text(g, c->in->values.data[n->outputs[i]].name, &g->values.data[outs[i]].name, c->diag));
    }
    return HYP_OK;
}

hyp_status hyp_graph_copy_node(hyp_graph *g, const hyp_graph *from, const hyp_node *node, hyp_value_id *map,
                               hyp_diag *diag)
{
    return copy_with(&(copier){.in = from, .out = g, .map = map, .diag = diag}, node, node->attrs);
}

static hyp_status copy_node(const copier *c, hyp_node_id node)
{
    const hyp_node *n = &c->in->nodes.data[node];
    hyp_attr attrs[HYP_MAX_ATTRS];
    for (uint32_t i = 0; i < hyp_op_get(n->op)->attr_count; i++) {
        attrs[i] = n->attrs[i];
        if (attrs[i].kind != HYP_ATTR_DIMS || !c->replacement) continue;
        hyp_dim *list = hyp_arena_zalloc(&c->out->arena, attrs[i].count, sizeof *list);
        if (!list) return hyp_fail_memory(c->diag, attrs[i].count * sizeof *list);
        HYP_TRY(replace_dims(c, n->attrs[i].dims, attrs[i].count, list));
        attrs[i].dims = list;
    }
    hyp_status status = copy_with(c, n, attrs);
    if (status != HYP_OK && n->from.source_count) hyp_diag_prefix(c->diag, "node '%s'", n->from.sources[0]);
    return status;
}

static hyp_status copy_all(const copier *c)
{
    const hyp_graph *in = c->in;
    const bool *live_values = c->live + in->nodes.len;
    HYP_TRY(keep_text(c->out, in->name, &c->out->name, c->diag));
    for (size_t i = 0; i < in->inputs.len; i++) {
        const hyp_value *v = &in->values.data[in->inputs.data[i]];
        hyp_type type = v->type;
        HYP_TRY(replace_dims(c, v->type.dims, (uint32_t)v->type.rank, type.dims));
        HYP_TRY(hyp_graph_add_input(c->out, v->name, &type, &c->map[in->inputs.data[i]], c->diag));
    }
    for (size_t i = 0; i < in->values.len; i++) {
        const hyp_value *v = &in->values.data[i];
        if (v->kind != HYP_VALUE_CONST || !live_values[i]) continue;
        HYP_TRY(hyp_graph_copy_const(c->out, v, &c->map[i], c->diag));
    }
    for (size_t i = 0; i < in->nodes.len; i++)
        if (c->live[i]) HYP_TRY(copy_node(c, (hyp_node_id)i));
    for (size_t i = 0; i < in->outputs.len; i++)
        HYP_TRY(hyp_graph_add_output(c->out, in->outputs.data[i].name, c->map[in->outputs.data[i].value], c->diag));
    return hyp_graph_keep_hidden(c->out, in, c->diag);
}

/* `c` says how. */
static hyp_status copy_graph(copier *c, bool only_live, hyp_graph *out)
{
    hyp_graph fresh;
    const hyp_graph *in = c->in;
    hyp_graph_init(&fresh, in->dims);
    size_t flags = in->nodes.len + in->values.len;
    c->out = &fresh;
    c->live = hyp_calloc(flags, sizeof *c->live);
    c->map = hyp_calloc(in->values.len, sizeof *c->map);
    hyp_status status = c->live && c->map ? HYP_OK : hyp_fail_memory(c->diag, flags);
    if (status == HYP_OK) {
        if (only_live)
            mark_live(in, c->live, c->live + in->nodes.len);
        else
            memset(c->live, true, flags);
        status = copy_all(c);
    }
    hyp_free(c->live);
    hyp_free(c->map);
    if (status == HYP_OK)
        *out = fresh;
    else
        hyp_graph_dispose(&fresh);
    return status;
}

hyp_status hyp_graph_copy_live(const hyp_graph *in, hyp_graph *out, hyp_diag *diag)
{
    return copy_graph(&(copier){.in = in, .diag = diag}, true, out);
}

hyp_status hyp_graph_rebuild(const hyp_graph *in, hyp_node_maker *make, void *user, hyp_graph *out, hyp_diag *diag)
{
    return copy_graph(&(copier){.in = in, .make = make, .make_user = user, .diag = diag}, true, out);
}

hyp_status hyp_graph_specialize(const hyp_graph *in, const hyp_dim *replacement, hyp_graph *out, hyp_diag *diag)
{
    return copy_graph(&(copier){.in = in, .replacement = replacement, .diag = diag}, false, out);
}
