/* Nodes, names, constants and sizes of a model that is written. */
#include "onnx/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/custom.h"
#include "onnx/wire.h"

enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5, NODE_DOC = 6, NODE_DOMAIN = 7 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_T = 5, ATTR_FLOATS = 7, ATTR_INTS = 8, ATTR_STRINGS = 9,
       ATTR_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_TENSOR = 4, TYPE_FLOATS = 6, TYPE_INTS = 7, TYPE_STRINGS = 8 };
enum { GRAPH_INITIALIZER = 5 };

void hyp_ow_note(hyp_ow *w, hyp_status status)
{
    if (w->status == HYP_OK) w->status = status;
}

const char *hyp_ow_refuse(hyp_ow *w, const char *what)
{
    const hyp_provenance *from = &w->node->from;
    if (w->status == HYP_OK)
        hyp_ow_note(w, hyp_fail(w->diag, HYP_ERR_UNSUPPORTED, "node \"%s\" (%s) cannot be written as ONNX: %s",
                                from->source_count ? from->sources[0] : "", hyp_op_get(w->node->op)->name, what));
    return NULL;
}

const char *hyp_ow_no_memory(hyp_ow *w)
{
    if (w->status == HYP_OK) hyp_ow_note(w, hyp_fail_memory(w->diag, 0));
    return NULL;
}

/* ---- names ------------------------------------------------------------------------------------------------- */

uint32_t hyp_ow_intern(hyp_ow *w, hyp_intern *in, const void *bytes, size_t len)
{
    hyp_strbuf text = {0};
    uint32_t id = 0;
    hyp_custom_escape(&text, bytes, len);
    if (text.failed) hyp_ow_no_memory(w);
    if (w->status == HYP_OK) hyp_ow_note(w, hyp_intern_add(in, hyp_strbuf_text(&text), text.len, &id, w->diag));
    hyp_strbuf_dispose(&text);
    return id;
}

const char *hyp_ow_unique(hyp_ow *w, const char *base)
{
    uint32_t id, had = (uint32_t)w->names.names.len;
    for (uint32_t n = 0; w->status == HYP_OK; n++) { /* what is common soon has a rare number */
        char *name = n ? hyp_arena_printf(&w->arena, "%s_%u", base, had + n - 1) : hyp_arena_strdup(&w->arena, base);
        if (!name) return hyp_ow_no_memory(w), "";
        hyp_ow_note(w, hyp_intern_add(&w->names, name, strlen(name), &id, w->diag));
        if (w->status == HYP_OK && id == had) return name;
    }
    return "";
}

/* A value of the graph where nodes are being made: an input, in a function. */
static const char *bring(hyp_ow *w, const char *outside)
{
    if (w->at == &w->graph || w->status != HYP_OK) return outside;
    for (size_t i = 0; i < w->formals.len; i++)
        if (strcmp(w->formals.data[i].outside, outside) == 0) return w->formals.data[i].inside;
    char *inside = hyp_arena_printf(&w->arena, "x%zu", w->formals.len);
    if (!inside) return hyp_ow_no_memory(w), "";
    hyp_ow_note(w, hyp_vec_push(&w->formals, w->diag, (hyp_ow_pair){inside, outside}));
    return inside;
}

const char *hyp_ow_value(hyp_ow *w, hyp_value_id v)
{
    const hyp_value *value = &w->g->values.data[v];
    if (!w->values[v]) {
        char number[24];
        snprintf(number, sizeof number, "%s%u", w->constant[v] ? "const_" : "v", v);
        w->values[v] = hyp_ow_unique(w, value->name && *value->name ? value->name : number);
        if (w->constant[v]) hyp_ow_note(w, hyp_vec_push(&w->weights, w->diag, (hyp_ow_weight){w->values[v], v}));
    }
    return bring(w, w->values[v]);
}

const char *hyp_ow_in(hyp_ow *w, uint32_t i) { return hyp_ow_has(w, i) ? hyp_ow_value(w, w->node->inputs[i]) : NULL; }

const hyp_type *hyp_ow_type(const hyp_ow *w, uint32_t i) { return &w->g->values.data[w->node->inputs[i]].type; }

/* ---- attributes -------------------------------------------------------------------------------------------- */

static void end_attr(hyp_ow *w, hyp_strbuf *attr, const char *name, int64_t type)
{
    hyp_ow_put_text(attr, ATTR_NAME, name);
    hyp_ow_put_int(attr, ATTR_TYPE, type);
    hyp_ow_put_part(&w->attrs, NODE_ATTRIBUTE, attr);
    hyp_strbuf_dispose(attr);
}

void hyp_ow_int(hyp_ow *w, const char *name, int64_t value)
{
    hyp_strbuf attr = {0};
    hyp_ow_put_int(&attr, ATTR_I, value);
    end_attr(w, &attr, name, TYPE_INT);
}

static void put_float(hyp_strbuf *sb, int field, double value)
{
    const float single = (float)value;
    const char head = (char)(field << 3 | HYP_WIRE_32);
    hyp_strbuf_add(sb, &head, 1);
    hyp_strbuf_add(sb, (const char *)&single, sizeof single);
}

void hyp_ow_float(hyp_ow *w, const char *name, double value)
{
    hyp_strbuf attr = {0};
    put_float(&attr, ATTR_F, value);
    end_attr(w, &attr, name, TYPE_FLOAT);
}

void hyp_ow_text(hyp_ow *w, const char *name, const char *value, size_t len)
{
    hyp_strbuf attr = {0};
    hyp_wire_put_field(&attr, ATTR_S, (hyp_wire_bytes){(const uint8_t *)value, len});
    end_attr(w, &attr, name, TYPE_STRING);
}

void hyp_ow_texts(hyp_ow *w, const char *name, const char *const *values, size_t count)
{
    hyp_strbuf attr = {0};
    for (size_t i = 0; i < count; i++) hyp_ow_put_text(&attr, ATTR_STRINGS, values[i]);
    end_attr(w, &attr, name, TYPE_STRINGS);
}

void hyp_ow_floats(hyp_ow *w, const char *name, const double *values, size_t count)
{
    hyp_strbuf attr = {0};
    for (size_t i = 0; i < count; i++) put_float(&attr, ATTR_FLOATS, values[i]);
    end_attr(w, &attr, name, TYPE_FLOATS);
}

void hyp_ow_ints(hyp_ow *w, const char *name, const int64_t *values, size_t count)
{
    hyp_strbuf attr = {0};
    for (size_t i = 0; i < count; i++) hyp_ow_put_int(&attr, ATTR_INTS, values[i]);
    end_attr(w, &attr, name, TYPE_INTS);
}

void hyp_ow_sizes(hyp_ow *w, const char *name, const hyp_attr *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (!hyp_dim_is_const(list->dims[i])) hyp_ow_refuse(w, "an attribute of it depends on the sizes of inputs");
    hyp_ow_ints(w, name, list->dims, list->count);
}

static void put_attr(hyp_ow *w, const char *name, const char *ours)
{
    uint32_t i;
    if (!hyp_op_find_attr(w->node->op, ours, &i)) {
        hyp_ow_refuse(w, "the writer takes it to have other attributes");
        return;
    }
    const hyp_attr *a = &w->node->attrs[i];
    switch (a->kind) {
    case HYP_ATTR_INT: hyp_ow_int(w, name, a->i); break;
    case HYP_ATTR_FLOAT: hyp_ow_float(w, name, a->f); break;
    case HYP_ATTR_SYM: hyp_ow_text(w, name, a->sym, strlen(a->sym)); break;
    case HYP_ATTR_DIMS: hyp_ow_sizes(w, name, a); break;
    case HYP_ATTR_SYMS: hyp_ow_refuse(w, "an attribute of it is a list of names"); break;
    }
}

void hyp_ow_attrs(hyp_ow *w, const char *names)
{
    char text[64];
    for (const char *p = names ? names : ""; *p;) {
        size_t len = strcspn(p, " ");
        snprintf(text, sizeof text, "%.*s", (int)len, p);
        char *ours = strchr(text, '=');
        if (ours) *ours++ = 0;
        put_attr(w, text, ours ? ours : text);
        p += len + (p[len] == ' ');
    }
}

/* ---- nodes ------------------------------------------------------------------------------------------------- */

/* "domain::Name" */
static void put_op(hyp_ow *w, hyp_strbuf *node, const char *op)
{
    const char *colons = strstr(op, "::");
    uint32_t id;
    hyp_ow_put_text(node, NODE_OP, colons ? colons + 2 : op);
    if (!colons || w->status != HYP_OK) return;
    const char *domain = hyp_arena_strndup(&w->arena, op, (size_t)(colons - op));
    if (!domain) {
        hyp_ow_no_memory(w);
        return;
    }
    hyp_ow_put_text(node, NODE_DOMAIN, domain);
    hyp_ow_note(w, hyp_intern_add(&w->domains, domain, strlen(domain), &id, w->diag));
}

/* In the graph, the node of the model that it comes from, and the rules that made it. */
static void put_origin(hyp_ow *w, hyp_strbuf *node)
{
    enum { LONGEST = 256 };
    const hyp_provenance *from = &w->node->from;
    hyp_strbuf text = {0};
    uint32_t id, had = (uint32_t)w->labels.names.len;
    for (uint32_t i = 0; i < from->source_count && text.len < LONGEST; i++)
        hyp_strbuf_printf(&text, "%s%s", i ? "+" : "", from->sources[i]);
    if (text.len && w->status == HYP_OK) {
        hyp_ow_note(w, hyp_intern_add(&w->labels, text.data, text.len, &id, w->diag));
        if (id != had) hyp_strbuf_printf(&text, "#%zu", w->graph.operators);
        hyp_ow_put_text(node, NODE_NAME, hyp_strbuf_text(&text));
    }
    hyp_strbuf_dispose(&text);
    for (uint32_t i = 0; i < from->rule_count; i++)
        hyp_strbuf_printf(&text, "%s%s", i ? ", " : "rules: ", from->rules[i]);
    if (text.len) hyp_ow_put_text(node, NODE_DOC, hyp_strbuf_text(&text));
    if (text.failed) hyp_ow_no_memory(w);
    hyp_strbuf_dispose(&text);
}

/* Names for the results of a node: in the graph, where it is the whole of the current node of ours, those that were given
 * to what it made as a body. */
static void name_results(hyp_ow *w, const char **out, size_t count)
{
    for (size_t k = 0; k < count && w->status == HYP_OK; k++) {
        if (w->at == &w->graph && !w->results) {
            out[k] = hyp_ow_unique(w, "size");
            continue;
        }
        char *name = hyp_arena_printf(&w->arena, "t%zu", w->at->made++);
        if (!name) {
            hyp_ow_no_memory(w);
            return;
        }
        out[k] = name;
        if (w->at != &w->graph) continue;
        out[k] = NULL;
        for (uint32_t i = 0; i < w->node->output_count; i++)
            if (w->given[i] && strcmp(w->given[i], name) == 0) out[k] = w->results[i];
        if (!out[k]) out[k] = hyp_ow_unique(w, name);
    }
}

static void put_node(hyp_ow *w, const char *op, const char *const *in, size_t count, const char *const *out,
                     size_t out_count)
{
    hyp_strbuf node = {0};
    while (count && !in[count - 1]) count--;
    for (size_t i = 0; i < count; i++) hyp_ow_put_text(&node, NODE_INPUT, in[i] ? in[i] : "");
    for (size_t i = 0; i < out_count; i++) hyp_ow_put_text(&node, NODE_OUTPUT, out[i]);
    if (w->at == &w->graph && w->results) put_origin(w, &node);
    put_op(w, &node, op);
    hyp_strbuf_add(&node, hyp_strbuf_text(&w->attrs), w->attrs.len);
    hyp_ow_put_part(&w->at->nodes, w->at->field, &node);
    if (node.failed || w->at->nodes.failed || w->attrs.failed) hyp_ow_no_memory(w);
    hyp_strbuf_dispose(&node);
    w->attrs.len = 0;
}

void hyp_ow_nodes(hyp_ow *w, const char *op, const char *const *in, size_t count, const char **out, size_t out_count)
{
    for (size_t i = 0; i < out_count; i++) out[i] = "";
    name_results(w, out, out_count);
    if (w->status == HYP_OK) put_node(w, op, in, count, out, out_count);
    w->at->operators++;
}

const char *hyp_ow_node(hyp_ow *w, const char *op, const char *const *in, size_t count)
{
    const char *out;
    hyp_ow_nodes(w, op, in, count, &out, 1);
    return out;
}

void hyp_ow_give(hyp_ow *w, uint32_t i, const char *name)
{
    if (!name || w->status != HYP_OK || w->at == &w->graph) return;
    bool formal = false;
    for (size_t k = 0; k < w->formals.len; k++) formal = formal || strcmp(w->formals.data[k].inside, name) == 0;
    for (uint32_t k = 0; k < i; k++) formal = formal || (w->given[k] && strcmp(w->given[k], name) == 0);
    w->given[i] = formal ? hyp_ow_op(w, "Identity", name) : name;
}

/* ---- constants --------------------------------------------------------------------------------------------- */

/* In the graph an initializer, once for all that are equal; in a function a node. */
static const char *constant(hyp_ow *w, hyp_dtype dtype, int32_t rank, const int64_t *dims, const void *data, size_t bytes)
{
    if (w->status != HYP_OK) return "";
    if (w->at != &w->graph) {
        hyp_strbuf attr = {0}, kept = w->attrs;
        w->attrs = (hyp_strbuf){0};
        hyp_ow_put_tensor(&attr, ATTR_T, NULL, dtype, rank, dims, data, bytes);
        end_attr(w, &attr, "value", TYPE_TENSOR);
        const char *name = hyp_arena_printf(&w->arena, "c%zu", w->at->constants++);
        if (name)
            put_node(w, "Constant", NULL, 0, &name, 1);
        else
            hyp_ow_no_memory(w);
        hyp_strbuf_dispose(&w->attrs);
        w->attrs = kept;
        return name ? name : "";
    }
    hyp_strbuf key = {0};
    uint32_t id = 0, had = (uint32_t)w->list_names.len;
    hyp_ow_put_tensor(&key, 1, NULL, dtype, rank, dims, data, bytes);
    if (key.failed) hyp_ow_no_memory(w);
    if (w->status == HYP_OK) id = hyp_ow_intern(w, &w->lists, key.data, key.len);
    hyp_strbuf_dispose(&key);
    if (w->status == HYP_OK && id == had) {
        const char *name = hyp_ow_unique(w, rank ? "list" : "number");
        hyp_ow_note(w, hyp_vec_push(&w->list_names, w->diag, name));
        hyp_ow_put_tensor(&w->initializers, GRAPH_INITIALIZER, name, dtype, rank, dims, data, bytes);
    }
    return w->status == HYP_OK ? w->list_names.data[id] : "";
}

const char *hyp_ow_list(hyp_ow *w, const int64_t *values, size_t count)
{
    const int64_t length = (int64_t)count;
    return constant(w, HYP_I64, 1, &length, values, count * sizeof *values);
}

static size_t encode(hyp_dtype dtype, double value, unsigned char bytes[8])
{
    if (hyp_dtype_is_float(dtype))
        hyp_store_f64(dtype, bytes, 0, value);
    else
        hyp_store_i64(dtype, bytes, 0, (int64_t)value);
    return hyp_dtype_size(dtype);
}

const char *hyp_ow_scalar(hyp_ow *w, hyp_dtype dtype, double value)
{
    unsigned char bytes[8];
    return constant(w, dtype, 0, NULL, bytes, encode(dtype, value, bytes));
}

const char *hyp_ow_full(hyp_ow *w, const char *shape, hyp_dtype dtype, double value)
{
    unsigned char bytes[8];
    hyp_strbuf attr = {0};
    hyp_ow_put_tensor(&attr, ATTR_T, NULL, dtype, 1, (const int64_t[]){1}, bytes, encode(dtype, value, bytes));
    end_attr(w, &attr, "value", TYPE_TENSOR);
    return hyp_ow_op(w, "ConstantOfShape", shape);
}

/* ---- sizes ------------------------------------------------------------------------------------------------- */

static const char *size_of(hyp_ow *w, hyp_dim d);

/* A symbol, from the axis of an input of which it is the size, or a part of it. */
static const char *size_of_symbol(hyp_ow *w, size_t symbol)
{
    size_t found;
    int64_t scale, offset;
    for (int linear = 0; linear < 2; linear++)
        for (size_t i = 0; i < w->g->inputs.len; i++) {
            const hyp_value *v = &w->g->values.data[w->g->inputs.data[i]];
            for (int32_t a = 0; a < v->type.rank; a++) {
                if (!hyp_dim_is_linear(w->g->dims, v->type.dims[a], &found, &scale, &offset) || found != symbol) continue;
                if (!linear && (scale != 1 || offset != 0)) continue;
                hyp_ow_int(w, "start", a);
                hyp_ow_int(w, "end", a + 1);
                const char *size = hyp_ow_op(w, "Shape", hyp_ow_value(w, w->g->inputs.data[i]));
                if (offset) size = hyp_ow_op(w, "Sub", size, hyp_ow_list(w, &offset, 1));
                return scale == 1 ? size : hyp_ow_op(w, "Div", size, hyp_ow_list(w, &scale, 1));
            }
        }
    return hyp_ow_refuse(w, "a size of it is none that an input has");
}

static const char *size_of_terms(hyp_ow *w, const hyp_dim_view *view)
{
    const char *a = size_of(w, view->a), *b = size_of(w, view->b);
    switch (view->kind) {
    case HYP_DIM_ADD: return hyp_ow_op(w, "Add", a, b);
    case HYP_DIM_MUL: return hyp_ow_op(w, "Mul", a, b);
    case HYP_DIM_MIN: return hyp_ow_op(w, "Min", a, b);
    case HYP_DIM_MAX: return hyp_ow_op(w, "Max", a, b);
    default: break; /* ONNX divides toward zero */
    }
    return hyp_ow_op(w, "Div", hyp_ow_op(w, "Sub", a, hyp_ow_op(w, "Mod", a, b)), b);
}

/* A list of one, in the graph. */
static const char *size_of(hyp_ow *w, hyp_dim d)
{
    hyp_dim_view view;
    if (w->status != HYP_OK) return "";
    if (hyp_dim_is_const(d)) return hyp_ow_list(w, &d, 1);
    for (size_t i = 0; i < w->sizes.len; i++)
        if (w->sizes.data[i].dim == d) return w->sizes.data[i].name;
    hyp_ow_note(w, hyp_dim_inspect(w->g->dims, d, &view, w->diag));
    if (w->status != HYP_OK) return "";
    const char *name = view.kind == HYP_DIM_SYMBOL ? size_of_symbol(w, (size_t)view.value) : size_of_terms(w, &view);
    hyp_ow_note(w, hyp_vec_push(&w->sizes, w->diag, (hyp_ow_size){d, name}));
    return name;
}

/* One after the other, in the graph, each list once. */
static const char *join_sizes(hyp_ow *w, const hyp_dim *dims, size_t count)
{
    const char *parts[2 * HYP_MAX_RANK];
    uint32_t had = (uint32_t)w->joined_names.len;
    for (size_t i = 0; i < count; i++) parts[i] = size_of(w, dims[i]);
    if (count == 1) return parts[0];
    uint32_t id = hyp_ow_intern(w, &w->joined, dims, count * sizeof *dims);
    if (w->status != HYP_OK) return "";
    if (id == had) {
        hyp_ow_int(w, "axis", 0);
        hyp_ow_note(w, hyp_vec_push(&w->joined_names, w->diag, hyp_ow_node(w, "Concat", parts, count)));
    }
    return w->status == HYP_OK ? w->joined_names.data[id] : "";
}

const char *hyp_ow_dims(hyp_ow *w, const hyp_dim *dims, size_t count)
{
    bool known = true;
    for (size_t i = 0; i < count; i++) known = known && hyp_dim_is_const(dims[i]);
    if (known) return hyp_ow_list(w, dims, count);
    if (count > 2 * HYP_MAX_RANK) return hyp_ow_refuse(w, "too many sizes");
    hyp_ow_scope *at = w->at;
    const char *const *results = w->results;
    hyp_strbuf attrs = w->attrs;
    w->at = &w->graph; /* where inputs are */
    w->results = NULL;
    w->attrs = (hyp_strbuf){0};
    const char *list = join_sizes(w, dims, count);
    hyp_strbuf_dispose(&w->attrs);
    w->attrs = attrs;
    w->results = results;
    w->at = at;
    return bring(w, list);
}

/* ---- common nodes ------------------------------------------------------------------------------------------ */

const char *hyp_ow_transpose(hyp_ow *w, const char *x, const int64_t *perm, size_t rank)
{
    hyp_ow_ints(w, "perm", perm, rank);
    return hyp_ow_op(w, "Transpose", x);
}

const char *hyp_ow_swap(hyp_ow *w, const char *x, int32_t rank)
{
    int64_t perm[HYP_MAX_RANK + 2];
    for (int32_t i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return rank < 2 ? x : hyp_ow_transpose(w, x, perm, (size_t)rank);
}

const char *hyp_ow_cast(hyp_ow *w, const char *x, hyp_dtype from, hyp_dtype to)
{
    if (from == to) return x;
    hyp_ow_int(w, "to", to);
    return hyp_ow_op(w, "Cast", x);
}

const char *hyp_ow_squeeze(hyp_ow *w, const char *x, int64_t axis)
{
    return hyp_ow_op(w, "Squeeze", x, hyp_ow_list(w, &axis, 1));
}

const char *hyp_ow_unsqueeze(hyp_ow *w, const char *x, int64_t axis)
{
    return hyp_ow_op(w, "Unsqueeze", x, hyp_ow_list(w, &axis, 1));
}
