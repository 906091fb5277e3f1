/* From a graph to an ONNX model: which nodes are written, as what, and what is around them. */
#include "onnx/writer.h"

#include <ctype.h>
#include <string.h>

#include "onnx/wire.h"

enum { GRAPH_NODE = 1, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_INFO = 13, MODEL_FUNCTION = 25 };
enum { FUNCTION_NAME = 1, FUNCTION_INPUT = 4, FUNCTION_OUTPUT = 5, FUNCTION_NODE = 7, FUNCTION_DOC = 8, FUNCTION_OPSET = 9,
       FUNCTION_DOMAIN = 10 };

/* ---- what is written --------------------------------------------------------------------------------------- */

static void need(const hyp_ow *w, bool *needed, hyp_value_id v)
{
    const hyp_value *value = &w->g->values.data[v];
    if (value->kind == HYP_VALUE_NODE && !w->constant[v]) needed[value->producer] = true;
}

/* Nodes that are neither computed beforehand nor passed over by those that read them. */
static void find_needed(const hyp_ow *w, bool *needed)
{
    const hyp_graph *g = w->g;
    size_t shown = hyp_graph_shown(g);
    for (size_t i = 0; i < shown; i++) need(w, needed, g->outputs.data[i].value);
    for (size_t i = 0; i < g->sizes.len; i++) need(w, needed, g->outputs.data[g->sizes.data[i].count].value);
    for (size_t n = g->nodes.len; n-- > 0;) {
        const hyp_node *node = &g->nodes.data[n];
        if (!needed[n]) continue;
        const hyp_node *layer = hyp_ow_projection(g, node);
        for (uint32_t i = 0; i < node->input_count; i++) {
            bool transposed;
            if (node->inputs[i] == HYP_NO_VALUE) continue;
            if (i > 0 || !layer) need(w, needed, hyp_ow_weight_of(g, node, i, &transposed));
        }
        for (uint32_t i = 0; layer && i < layer->input_count; i++)
            if (layer->inputs[i] != HYP_NO_VALUE) need(w, needed, layer->inputs[i]);
    }
}

/* Everything that cannot be written, in one message. */
static hyp_status check_operators(const hyp_ow *w, const bool *needed)
{
    size_t counts[HYP_OP_COUNT] = {0}, kinds = 0;
    if (w->g->variables.len)
        return hyp_fail(w->diag, HYP_ERR_UNSUPPORTED,
                        "a training step cannot be written as ONNX, which has no state; 'hypatia export' writes what was "
                        "trained");
    for (size_t n = 0; n < w->g->nodes.len; n++) {
        hyp_op op = w->g->nodes.data[n].op;
        hyp_ow_row row = hyp_ow_row_of(op);
        if (needed[n] && !row.onnx && !row.write) kinds += counts[op]++ == 0;
    }
    if (!kinds) return HYP_OK;
    hyp_strbuf sb = {0};
    for (size_t op = 0; op < HYP_OP_COUNT; op++)
        if (counts[op]) hyp_strbuf_printf(&sb, "%s%s x%zu", sb.len ? ", " : "", hyp_op_get((hyp_op)op)->name, counts[op]);
    hyp_status status = hyp_fail(w->diag, HYP_ERR_UNSUPPORTED, "%zu operator%s cannot be written as ONNX: %s", kinds,
                                 kinds == 1 ? "" : "s", hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

/* ---- functions --------------------------------------------------------------------------------------------- */

/* The name of a function for the node: its operator, and the names that are attributes. */
static void print_function_name(const hyp_node *node, hyp_strbuf *sb)
{
    enum { LONGEST = 80 };
    const hyp_op_info *info = hyp_op_get(node->op);
    hyp_strbuf_puts(sb, info->name);
    for (uint32_t i = 0; i < info->attr_count; i++) {
        const hyp_attr *a = &node->attrs[i];
        uint32_t count = a->kind == HYP_ATTR_SYM ? 1 : a->kind == HYP_ATTR_SYMS ? a->count : 0;
        for (uint32_t k = 0; k < count && sb->len < LONGEST; k++)
            hyp_strbuf_printf(sb, "_%s", a->kind == HYP_ATTR_SYM ? a->sym : a->syms[k]);
    }
    for (size_t i = 0; i < sb->len; i++)
        if (!isalnum((unsigned char)sb->data[i])) sb->data[i] = '_';
}

static void put_function(hyp_ow *w, const char *name)
{
    enum { DOMAIN = 1, VERSION = 2 };
    hyp_strbuf f = {0}, opset = {0};
    hyp_ow_put_text(&f, FUNCTION_NAME, name);
    for (size_t i = 0; i < w->formals.len; i++) hyp_ow_put_text(&f, FUNCTION_INPUT, w->formals.data[i].inside);
    for (uint32_t i = 0; i < w->node->output_count; i++)
        if (w->given[i]) hyp_ow_put_text(&f, FUNCTION_OUTPUT, w->given[i]);
    hyp_strbuf_add(&f, hyp_strbuf_text(&w->body.nodes), w->body.nodes.len);
    hyp_ow_put_text(&f, FUNCTION_DOC, hyp_op_get(w->node->op)->doc);
    hyp_ow_put_text(&opset, DOMAIN, "");
    hyp_ow_put_int(&opset, VERSION, w->opset);
    hyp_ow_put_part(&f, FUNCTION_OPSET, &opset);
    for (size_t i = 0; i < w->domains.names.len; i++) { /* of others that a body may have read */
        opset.len = 0;
        hyp_ow_put_text(&opset, DOMAIN, w->domains.names.data[i]);
        hyp_ow_put_int(&opset, VERSION, 1);
        hyp_ow_put_part(&f, FUNCTION_OPSET, &opset);
    }
    hyp_ow_put_text(&f, FUNCTION_DOMAIN, HYP_OW_DOMAIN);
    hyp_ow_put_part(&w->functions, MODEL_FUNCTION, &f);
    hyp_strbuf_dispose(&opset);
    hyp_strbuf_dispose(&f);
}

/* The function with the body that was made; equal ones are one. */
static const char *find_function(hyp_ow *w)
{
    hyp_strbuf key = {0}, name = {0};
    uint32_t id = 0, had = (uint32_t)w->function_names.len;
    print_function_name(w->node, &name);
    hyp_strbuf_printf(&key, "%s(%zu", hyp_strbuf_text(&name), w->formals.len);
    for (uint32_t i = 0; i < w->node->output_count; i++) hyp_strbuf_printf(&key, " %s", w->given[i] ? w->given[i] : "");
    hyp_strbuf_add(&key, hyp_strbuf_text(&w->body.nodes), w->body.nodes.len);
    if (key.failed || name.failed) hyp_ow_note(w, hyp_fail_memory(w->diag, key.len));
    if (w->status == HYP_OK) id = hyp_ow_intern(w, &w->bodies, key.data, key.len);
    if (w->status == HYP_OK && id == had) {
        size_t alike = 1; /* functions of this name so far, and this one */
        for (size_t i = 0; i < had; i++) {
            const char *other = strstr(w->function_names.data[i], "::") + 2;
            alike += strncmp(other, name.data, name.len) == 0 && (!other[name.len] || other[name.len] == '.');
        }
        if (alike > 1) hyp_strbuf_printf(&name, ".%zu", alike);
        const char *full = hyp_arena_printf(&w->arena, HYP_OW_DOMAIN "::%s", hyp_strbuf_text(&name));
        hyp_ow_note(w, full ? hyp_vec_push(&w->function_names, w->diag, full) : hyp_fail_memory(w->diag, name.len));
        if (w->status == HYP_OK) put_function(w, strstr(full, "::") + 2);
    }
    hyp_strbuf_dispose(&key);
    hyp_strbuf_dispose(&name);
    return w->status == HYP_OK ? w->function_names.data[id] : "";
}

static void call_function(hyp_ow *w)
{
    const char *op = find_function(w);
    size_t count = w->formals.len, outs = 0;
    const char **in = hyp_arena_zalloc(&w->arena, count + 1, sizeof *in);
    const char **given = hyp_arena_zalloc(&w->arena, w->node->output_count, sizeof *given);
    const char **out = hyp_arena_zalloc(&w->arena, w->node->output_count, sizeof *out);
    if (!in || !given || !out) hyp_ow_note(w, hyp_fail_memory(w->diag, count * sizeof *in));
    if (w->status != HYP_OK) return;
    for (size_t i = 0; i < count; i++) in[i] = w->formals.data[i].outside;
    for (uint32_t i = 0; i < w->node->output_count; i++) { /* the call's results, in order, are those that are given */
        if (!w->given[i]) continue;
        given[i] = hyp_arena_printf(&w->arena, "t%zu", outs++);
        if (!given[i]) hyp_ow_note(w, hyp_fail_memory(w->diag, 0));
    }
    w->given = given;
    w->at = &w->graph;
    if (w->status == HYP_OK) hyp_ow_nodes(w, op, in, count, out, outs);
}

/* ---- nodes ------------------------------------------------------------------------------------------------- */

static void write_plain(hyp_ow *w, const hyp_ow_row *row)
{
    const char *in[3], **all = in, *out[HYP_OW_OUTPUTS];
    if (w->node->input_count > 3) all = hyp_arena_zalloc(&w->arena, w->node->input_count, sizeof *all);
    if (!all || w->node->output_count > HYP_OW_OUTPUTS) {
        hyp_ow_note(w, hyp_fail_memory(w->diag, 0));
        return;
    }
    for (uint32_t i = 0; i < w->node->input_count; i++) all[i] = hyp_ow_in(w, i);
    hyp_ow_attrs(w, row->attrs);
    hyp_ow_nodes(w, row->onnx, all, w->node->input_count, out, w->node->output_count);
    for (uint32_t i = 0; i < w->node->output_count; i++) hyp_ow_give(w, i, out[i]);
}

static void build(hyp_ow *w)
{
    const hyp_ow_row row = hyp_ow_row_of(w->node->op);
    bool microsoft = w->options->domain && strcmp(w->options->domain, "com.microsoft") == 0;
    const char *result = NULL;
    w->at->made = 0;
    w->attrs.len = 0;
    if (row.microsoft && microsoft) result = row.microsoft(w);
    if (!result && row.write)
        result = row.write(w);
    else if (!result)
        write_plain(w, &row);
    if (result) hyp_ow_give(w, 0, result);
}

static void write_node(hyp_ow *w, const hyp_node *node)
{
    const char **given = hyp_arena_zalloc(&w->arena, node->output_count, sizeof *given);
    const char **results = hyp_arena_zalloc(&w->arena, node->output_count, sizeof *results);
    if (!given || !results) {
        hyp_ow_note(w, hyp_fail_memory(w->diag, node->output_count * sizeof *given));
        return;
    }
    w->node = node;
    w->at = &w->graph;
    for (uint32_t i = 0; i < node->output_count; i++)
        results[i] = w->constant[node->outputs[i]] ? hyp_ow_unique(w, "unread") : hyp_ow_value(w, node->outputs[i]);
    w->given = given;
    w->results = results;
    w->formals.len = 0;
    w->body = (hyp_ow_scope){.nodes = w->body.nodes, .field = FUNCTION_NODE};
    w->body.nodes.len = 0;
    w->at = &w->body;
    build(w);
    w->graph.made = 0;
    if (w->status == HYP_OK && w->body.operators == 1) { /* it stands in the graph by itself */
        w->at = &w->graph;
        build(w);
    } else if (w->status == HYP_OK) {
        call_function(w);
    }
    w->results = NULL;
}

/* ---- the graph --------------------------------------------------------------------------------------------- */

static void start(hyp_ow *w)
{
    const hyp_graph *g = w->g;
    for (size_t i = 0; i < g->inputs.len && w->status == HYP_OK; i++) {
        hyp_value_id v = g->inputs.data[i];
        w->values[v] = hyp_ow_unique(w, g->values.data[v].name);
        hyp_ow_put_value(&w->infos, GRAPH_INPUT, w->values[v], g->dims, &g->values.data[v].type);
    }
    for (size_t i = 0, shown = hyp_graph_shown(g); i < shown && w->status == HYP_OK; i++) {
        uint32_t id;
        const hyp_named_value *o = &g->outputs.data[i];
        hyp_ow_note(w, hyp_intern_add(&w->names, o->name, strlen(o->name), &id, w->diag));
        bool cut = false; /* to what the data say that there is: the value has another name then */
        for (size_t k = 0; k < g->sizes.len; k++) cut = cut || g->sizes.data[k].output == i;
        if (!cut && !w->values[o->value] && !w->constant[o->value]) w->values[o->value] = o->name;
    }
}

/* Values that are outputs have their names, but for those that are cut, are constants or are there twice. */
static void finish(hyp_ow *w)
{
    const hyp_graph *g = w->g;
    const hyp_node none = {.output_count = 1};
    for (size_t i = 0, shown = hyp_graph_shown(g); i < shown && w->status == HYP_OK; i++) {
        const hyp_named_value *o = &g->outputs.data[i];
        const char *x = hyp_ow_value(w, o->value), *given = "t0";
        hyp_type type = g->values.data[o->value].type;
        w->node = &none;
        for (size_t k = 0; k < g->sizes.len; k++) {
            const hyp_data_size *s = &g->sizes.data[k];
            if (s->output != i) continue;
            const int64_t axis = s->axis, zero = 0, of_one = 1;
            const char *one = hyp_ow_list(w, &of_one, 1);
            const char *count = hyp_ow_op(w, "Reshape", hyp_ow_value(w, g->outputs.data[s->count].value), one);
            x = hyp_ow_op(w, "Slice", x, hyp_ow_list(w, &zero, 1), count, hyp_ow_list(w, &axis, 1));
            type.dims[s->axis] = HYP_OW_ANY;
        }
        w->graph.made = 0;
        w->given = &given;
        w->results = &o->name;
        if (strcmp(x, o->name) != 0) hyp_ow_op(w, "Identity", x);
        w->results = NULL;
        hyp_ow_put_value(&w->infos, GRAPH_OUTPUT, o->name, g->dims, &type);
    }
}

static void write_infos(hyp_ow *w, const hyp_node *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        hyp_value_id v = node->outputs[i];
        bool output = !w->values[v];
        for (size_t k = 0, shown = hyp_graph_shown(w->g); k < shown && !output; k++)
            output = strcmp(w->g->outputs.data[k].name, w->values[v]) == 0;
        if (output || w->constant[v]) continue;
        hyp_ow_put_value(&w->infos, GRAPH_INFO, w->values[v], w->g->dims, &w->g->values.data[v].type);
    }
}

static hyp_status write_graph(hyp_ow *w, bool *constant, bool *needed, const char *path)
{
    const hyp_graph *g = w->g;
    HYP_TRY(hyp_constants_find(g, &w->options->fold, constant, w->diag));
    find_needed(w, needed);
    HYP_TRY(check_operators(w, needed));
    start(w);
    for (size_t n = 0; n < g->nodes.len && w->status == HYP_OK; n++) {
        if (!needed[n]) continue;
        write_node(w, &g->nodes.data[n]);
        if (w->status == HYP_OK) write_infos(w, &g->nodes.data[n]);
    }
    w->at = &w->graph;
    if (w->status == HYP_OK) finish(w);
    return w->status == HYP_OK ? hyp_ow_write_file(w, path) : w->status;
}

static void dispose(hyp_ow *w)
{
    hyp_strbuf *texts[] = {&w->graph.nodes, &w->body.nodes, &w->attrs, &w->initializers, &w->infos, &w->functions};
    hyp_intern *interns[] = {&w->names, &w->labels, &w->joined, &w->lists, &w->bodies, &w->domains};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hyp_strbuf_dispose(texts[i]);
    for (size_t i = 0; i < sizeof interns / sizeof *interns; i++) hyp_intern_dispose(interns[i]);
    hyp_vec_free(&w->formals);
    hyp_vec_free(&w->weights);
    hyp_vec_free(&w->sizes);
    hyp_vec_free(&w->joined_names);
    hyp_vec_free(&w->list_names);
    hyp_vec_free(&w->function_names);
    hyp_arena_dispose(&w->arena);
}

hyp_status hyp_onnx_write(const hyp_graph *g, const char *path, const hyp_onnx_write_options *options, hyp_diag *diag)
{
    hyp_ow w = {.g = g, .options = options, .diag = diag, .opset = HYP_ONNX_WRITE_OPSET};
    w.graph.field = GRAPH_NODE;
    w.at = &w.graph;
    bool *constant = hyp_arena_zalloc(&w.arena, g->values.len + 1, sizeof *constant);
    bool *needed = hyp_arena_zalloc(&w.arena, g->nodes.len + 1, sizeof *needed);
    w.values = hyp_arena_zalloc(&w.arena, g->values.len + 1, sizeof *w.values);
    w.constant = constant;
    hyp_status status = constant && needed && w.values ? write_graph(&w, constant, needed, path)
                                                       : hyp_fail_memory(diag, g->values.len);
    dispose(&w);
    return status;
}
