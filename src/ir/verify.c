/* Invariants of a graph, and equality of two. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/op.h"

/* ---- verifier --------------------------------------------------------------------------------------- */

typedef struct verifier {
    const hyp_graph *g;
    hyp_diag *diag;
    hyp_arena arena;      /* for re-inference */
    hyp_node_id *made_by; /* by value: 1 + the node that lists it as output, 0 = none */
} verifier;

static hyp_status broken(const verifier *v, const char *fmt, ...) HYP_PRINTF(2, 3);

static hyp_status broken(const verifier *v, const char *fmt, ...)
{
    char text[HYP_DIAG_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return hyp_fail(v->diag, HYP_ERR_INTERNAL, "the graph '%s' is not valid: %s", v->g->name, text);
}

static hyp_status verify_value(const verifier *v, hyp_value_id id)
{
    const hyp_value *x = &v->g->values.data[id];
    const hyp_type *t = &x->type;
    if (hyp_dtype_size(t->dtype) == 0 || t->rank < 0 || t->rank > HYP_MAX_RANK)
        return broken(v, "value %u has no valid type", id);
    for (int32_t i = 0; i < HYP_MAX_RANK; i++) {
        if (i >= t->rank ? t->dims[i] != 0 : hyp_dim_is_const(t->dims[i]) && t->dims[i] < 0)
            return broken(v, "dimension %d of value %u is %lld", i, id, (long long)t->dims[i]);
    }
    if ((x->content != NULL) && hyp_content_count(t) != (int64_t)x->content_count)
        return broken(v, "value %u has a content of %u elements, which its type does not have", id, x->content_count);
    if (x->kind == HYP_VALUE_NODE) {
        const hyp_node *n = v->made_by[id] ? &v->g->nodes.data[v->made_by[id] - 1] : NULL;
        if (!n || x->producer != v->made_by[id] - 1 || x->output >= n->output_count || n->outputs[x->output] != id)
            return broken(v, "value %u does not know its producer", id);
    } else if (v->made_by[id]) {
        return broken(v, "value %u is an input or a constant, and an output of node %u", id, v->made_by[id] - 1);
    }
    if (x->kind != HYP_VALUE_CONST) return HYP_OK;
    size_t want;
    if (!hyp_type_bytes(t, &want)) return broken(v, "constant %u is symbolic or larger than memory", id);
    if (want != x->bytes) return broken(v, "constant %u has %zu bytes, its type wants %zu", id, x->bytes, want);
    return HYP_OK;
}

/* The outputs' types and contents are those that inference gives. */
static hyp_status verify_types(verifier *v, hyp_node_id id)
{
    const hyp_node *n = &v->g->nodes.data[id];
    const hyp_value *values = v->g->values.data;
    hyp_infer_value *known = hyp_arena_zalloc(&v->arena, (size_t)n->input_count + n->output_count, sizeof *known);
    const hyp_infer_value **in = hyp_arena_zalloc(&v->arena, n->input_count, sizeof *in);
    if (!known || !in) return hyp_fail_memory(v->diag, n->input_count * sizeof *known);
    hyp_infer_value *out = known + n->input_count;
    for (uint32_t i = 0; i < n->input_count; i++) {
        if (n->inputs[i] == HYP_NO_VALUE) continue;
        const hyp_value *x = &values[n->inputs[i]];
        known[i] = (hyp_infer_value){.type = x->type, .content = x->content, .content_count = x->content_count};
        in[i] = &known[i];
    }
    hyp_status status =
        hyp_infer(v->g->dims, &v->arena, n->op, n->attrs, in, n->input_count, out, n->output_count, v->diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(v->diag, "the graph '%s' is not valid: node %u", v->g->name, id);
        return status == HYP_ERR_NO_MEMORY ? status : HYP_ERR_INTERNAL;
    }
    for (uint32_t i = 0; i < n->output_count; i++) {
        const hyp_value *x = &values[n->outputs[i]];
        if (!hyp_type_equal(&x->type, &out[i].type))
            return broken(v, "output %u of node %u (%s) has another type than its operator gives", i, id,
                          hyp_op_get(n->op)->name);
        if ((x->content != NULL) != (out[i].content != NULL) ||
            (x->content && memcmp(x->content, out[i].content, x->content_count * sizeof *x->content) != 0))
            return broken(v, "output %u of node %u (%s) has another content than its operator gives", i, id,
                          hyp_op_get(n->op)->name);
    }
    return HYP_OK;
}

/* A value can be read by node `reader` when it is there before it. */
static bool is_ready(const verifier *v, hyp_value_id id, hyp_node_id reader)
{
    if (id >= v->g->values.len) return false;
    const hyp_value *x = &v->g->values.data[id];
    return x->kind != HYP_VALUE_NODE || x->producer < reader;
}

static hyp_status verify_node(verifier *v, hyp_node_id id)
{
    const hyp_node *n = &v->g->nodes.data[id];
    if ((unsigned)n->op >= HYP_OP_COUNT) return broken(v, "node %u has no operator", id);
    for (uint32_t i = 0; i < n->input_count; i++)
        if (n->inputs[i] != HYP_NO_VALUE && !is_ready(v, n->inputs[i], id))
            return broken(v, "input %u of node %u (%s) is not made before it", i, id, hyp_op_get(n->op)->name);
    for (uint32_t i = 0; i < n->output_count; i++) {
        hyp_value_id out = n->outputs[i];
        if (out >= v->g->values.len || v->g->values.data[out].kind != HYP_VALUE_NODE)
            return broken(v, "output %u of node %u names no value of a node", i, id);
        if (v->made_by[out]) return broken(v, "value %u is an output twice", out);
        v->made_by[out] = id + 1;
    }
    for (uint32_t i = 1; i < n->from.source_count; i++)
        if (strcmp(n->from.sources[i - 1], n->from.sources[i]) >= 0)
            return broken(v, "the sources of node %u are not sorted and unique", id);
    return HYP_OK;
}

/* Inputs among themselves and outputs among themselves have different names. */
static hyp_status verify_names(const verifier *v)
{
    const hyp_graph *g = v->g;
    hyp_intern in = {0}, out = {0};
    hyp_status status = HYP_OK;
    uint32_t id;
    for (size_t i = 0; status == HYP_OK && i < g->inputs.len; i++) {
        hyp_value_id value = g->inputs.data[i];
        const char *name = value < g->values.len ? g->values.data[value].name : NULL;
        if (!name || g->values.data[value].kind != HYP_VALUE_INPUT)
            status = broken(v, "input %zu names no value that is an input", i);
        else if ((status = hyp_intern_add(&in, name, strlen(name), &id, v->diag)) == HYP_OK && id != i)
            status = broken(v, "two inputs are called '%s'", name);
    }
    for (size_t i = 0; status == HYP_OK && i < g->outputs.len; i++) {
        const hyp_named_value *o = &g->outputs.data[i];
        if (!o->name || o->value >= g->values.len)
            status = broken(v, "output %zu has no name or no value", i);
        else if ((status = hyp_intern_add(&out, o->name, strlen(o->name), &id, v->diag)) == HYP_OK && id != i)
            status = broken(v, "two outputs are called '%s'", o->name);
    }
    hyp_intern_dispose(&in);
    hyp_intern_dispose(&out);
    return status;
}

/* Variables are the last of the inputs, in their order, and set the last of the outputs, each one of them. */
static hyp_status verify_variables(const verifier *v, bool *set)
{
    const hyp_graph *g = v->g;
    size_t n = g->variables.len;
    if (g->hidden_outputs > g->outputs.len || n > g->hidden_outputs || n > g->inputs.len)
        return broken(v, "%zu inputs and %zu outputs, %u of which are hidden, for %zu variables", g->inputs.len,
                      g->outputs.len, g->hidden_outputs, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t in = g->variables.data[i].input, out = g->variables.data[i].output;
        if (in != g->inputs.len - n + i) return broken(v, "variable %zu is not input %zu", i, g->inputs.len - n + i);
        const hyp_value *x = hyp_graph_variable(g, i);
        size_t want;
        if (out < g->outputs.len - n || out >= g->outputs.len || set[out - (g->outputs.len - n)])
            return broken(v, "no output of its own sets the variable '%s'", x->name);
        set[out - (g->outputs.len - n)] = true;
        if (!hyp_type_equal(&x->type, &g->values.data[g->outputs.data[out].value].type))
            return broken(v, "the variable '%s' becomes a value of another type", x->name);
        if (!hyp_type_bytes(&x->type, &want) || (x->bytes && x->bytes != want))
            return broken(v, "the variable '%s' has %zu bytes, which are not those of its type", x->name, x->bytes);
    }
    return HYP_OK;
}

static hyp_status verify_lists(const verifier *v)
{
    HYP_TRY(verify_names(v));
    bool *set = hyp_calloc(v->g->variables.len, sizeof *set);
    hyp_status status = set ? verify_variables(v, set) : hyp_fail_memory(v->diag, v->g->variables.len);
    hyp_free(set);
    return status;
}

static hyp_status verify_all(verifier *v)
{
    const hyp_graph *g = v->g;
    size_t inputs = 0;
    for (hyp_node_id i = 0; i < g->nodes.len; i++) HYP_TRY(verify_node(v, i));
    for (hyp_value_id i = 0; i < g->values.len; i++) {
        HYP_TRY(verify_value(v, i));
        inputs += g->values.data[i].kind == HYP_VALUE_INPUT;
    }
    for (hyp_node_id i = 0; i < g->nodes.len; i++) HYP_TRY(verify_types(v, i));
    if (inputs != g->inputs.len) return broken(v, "%zu values are inputs, %zu are listed", inputs, g->inputs.len);
    return verify_lists(v);
}

hyp_status hyp_graph_verify(const hyp_graph *g, hyp_diag *diag)
{
    verifier v = {.g = g, .diag = diag};
    v.made_by = hyp_calloc(g->values.len, sizeof *v.made_by);
    hyp_status status = v.made_by ? verify_all(&v) : hyp_fail_memory(diag, g->values.len * sizeof *v.made_by);
    hyp_free(v.made_by);
    hyp_arena_dispose(&v.arena);
    return status;
}

/* ---- equality --------------------------------------------------------------------------------------- */

typedef struct pairing {
    const hyp_graph *a, *b;
    hyp_value_id *a_to_b, *b_to_a; /* 1 + the partner, 0 = none yet */
} pairing;

/* Dims of different tables are equal when their canonical texts are. */
static bool same_dims(const pairing *p, const hyp_dim *a, const hyp_dim *b, size_t count)
{
    bool same = true;
    for (size_t i = 0; same && i < count; i++) {
        if (p->a->dims == p->b->dims || hyp_dim_is_const(a[i]) || hyp_dim_is_const(b[i])) {
            same = a[i] == b[i];
            continue;
        }
        hyp_strbuf x = {0}, y = {0};
        hyp_dim_print(&x, p->a->dims, a[i]);
        hyp_dim_print(&y, p->b->dims, b[i]);
        same = !x.failed && !y.failed && strcmp(hyp_strbuf_text(&x), hyp_strbuf_text(&y)) == 0;
        hyp_strbuf_dispose(&x);
        hyp_strbuf_dispose(&y);
    }
    return same;
}

static bool same_type(const pairing *p, const hyp_type *a, const hyp_type *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && same_dims(p, a->dims, b->dims, (size_t)a->rank);
}

static uint64_t data_hash(const hyp_value *v)
{
    return v->data || !v->bytes ? hyp_hash(v->data ? v->data : "", v->bytes, 0) : v->hash;
}

static bool same_const(const pairing *p, const hyp_value *a, const hyp_value *b)
{
    if (!same_type(p, &a->type, &b->type) || a->bytes != b->bytes) return false;
    if (a->data && b->data) return a->data == b->data || memcmp(a->data, b->data, a->bytes) == 0;
    return data_hash(a) == data_hash(b);
}

/* Values that stand at the same place: already partners, or made partners now. */
static bool pair_values(pairing *p, hyp_value_id a, hyp_value_id b)
{
    if (a == HYP_NO_VALUE || b == HYP_NO_VALUE) return a == b;
    if (p->a_to_b[a] || p->b_to_a[b]) return p->a_to_b[a] == b + 1 && p->b_to_a[b] == a + 1;
    const hyp_value *x = &p->a->values.data[a], *y = &p->b->values.data[b];
    if (x->kind != y->kind || !(x->kind == HYP_VALUE_CONST ? same_const(p, x, y) : same_type(p, &x->type, &y->type)))
        return false;
    p->a_to_b[a] = b + 1;
    p->b_to_a[b] = a + 1;
    return true;
}

static bool same_attr(const pairing *p, const hyp_attr *a, const hyp_attr *b)
{
    if (a->kind == HYP_ATTR_DIMS && b->kind == HYP_ATTR_DIMS)
        return a->count == b->count && same_dims(p, a->dims, b->dims, a->count);
    return hyp_attr_equal(a, b);
}

static bool pair_nodes(pairing *p, const hyp_node *a, const hyp_node *b)
{
    if (a->op != b->op || a->input_count != b->input_count || a->output_count != b->output_count) return false;
    for (uint32_t i = 0; i < a->input_count; i++)
        if (!pair_values(p, a->inputs[i], b->inputs[i])) return false;
    for (uint32_t i = 0; i < hyp_op_get(a->op)->attr_count; i++)
        if (!same_attr(p, &a->attrs[i], &b->attrs[i])) return false;
    for (uint32_t i = 0; i < a->output_count; i++)
        if (!pair_values(p, a->outputs[i], b->outputs[i])) return false;
    return true;
}

static bool same_variables(const pairing *p)
{
    const hyp_graph *a = p->a, *b = p->b;
    if (a->variables.len != b->variables.len) return false;
    for (size_t i = 0; i < a->variables.len; i++)
        if (a->variables.data[i].output != b->variables.data[i].output ||
            !same_const(p, hyp_graph_variable(a, i), hyp_graph_variable(b, i)))
            return false;
    return true;
}

static bool pair_graphs(pairing *p)
{
    const hyp_graph *a = p->a, *b = p->b;
    if (a->inputs.len != b->inputs.len || a->outputs.len != b->outputs.len || a->nodes.len != b->nodes.len ||
        a->values.len != b->values.len || !same_variables(p))
        return false;
    for (size_t i = 0; i < a->inputs.len; i++)
        if (strcmp(a->values.data[a->inputs.data[i]].name, b->values.data[b->inputs.data[i]].name) != 0 ||
            !pair_values(p, a->inputs.data[i], b->inputs.data[i]))
            return false;
    for (size_t i = 0; i < a->nodes.len; i++)
        if (!pair_nodes(p, &a->nodes.data[i], &b->nodes.data[i])) return false;
    for (size_t i = 0; i < a->outputs.len; i++)
        if (strcmp(a->outputs.data[i].name, b->outputs.data[i].name) != 0 ||
            !pair_values(p, a->outputs.data[i].value, b->outputs.data[i].value))
            return false;
    /* Constants that nothing reads pair up in their order. */
    for (size_t i = 0, j = 0; i < a->values.len; i++) {
        if (p->a_to_b[i]) continue;
        while (j < b->values.len && p->b_to_a[j]) j++;
        if (j == b->values.len || !pair_values(p, (hyp_value_id)i, (hyp_value_id)j)) return false;
    }
    return true;
}

bool hyp_graph_equal(const hyp_graph *a, const hyp_graph *b)
{
    pairing p = {.a = a, .b = b};
    p.a_to_b = hyp_calloc(a->values.len, sizeof *p.a_to_b);
    p.b_to_a = hyp_calloc(b->values.len, sizeof *p.b_to_a);
    bool same = p.a_to_b && p.b_to_a && pair_graphs(&p);
    hyp_free(p.a_to_b);
    hyp_free(p.b_to_a);
    return same;
}
