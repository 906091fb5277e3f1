/* again.c - the same graph with nodes that compute again what others have computed before. */
#include <string.h>

#include "codegen/memory.h"

/* What takes the place of a node in the new graph: itself, and what computes it again. */
enum { ONCE, AGAIN, VERSIONS };

typedef struct copier {
    const hyp_graph *in;
    const hyp_again *again;
    hyp_graph *out;
    bool *differs;      /* by value: there is another one for who reads it late */
    hyp_value_id *map;  /* by value and version; HYP_NO_VALUE until it is there */
    HYP_VEC(uint32_t) stack; /* nodes and versions that were asked for */
    HYP_VEC(hyp_value_id) ids;
    HYP_VEC(const char *) rules;
    hyp_diag *diag;
} copier;

static hyp_value_id *slot_of(const copier *c, hyp_value_id v, int version)
{
    return &c->map[(size_t)v * VERSIONS + (c->differs[v] ? version : ONCE)];
}

/* The version of an input that a version of a node reads. */
static int version_read(const copier *c, hyp_node_id n, int version)
{
    return version == AGAIN || c->again->late[n] ? AGAIN : ONCE;
}

static bool is_there(const copier *c, hyp_node_id n, int version)
{
    const hyp_node *node = &c->in->nodes.data[n];
    return node->output_count == 0 || *slot_of(c, node->outputs[0], version) != HYP_NO_VALUE;
}

/* Results of nodes that are computed again differ, and what follows of these alone. */
static void find_different(copier *c)
{
    for (hyp_node_id n = 0; n < c->in->nodes.len; n++) {
        const hyp_node *node = &c->in->nodes.data[n];
        bool differs = c->again->nodes[n];
        for (uint32_t i = 0; i < node->input_count && c->again->follows[n]; i++)
            differs = differs || (node->inputs[i] != HYP_NO_VALUE && c->differs[node->inputs[i]]);
        for (uint32_t o = 0; o < node->output_count; o++) c->differs[node->outputs[o]] = differs;
    }
}

static hyp_status add_edges(copier *c)
{
    const hyp_graph *in = c->in;
    for (size_t i = 0; i < in->inputs.len; i++) {
        const hyp_value *v = &in->values.data[in->inputs.data[i]];
        HYP_TRY(hyp_graph_add_input(c->out, v->name, &v->type, slot_of(c, in->inputs.data[i], ONCE), c->diag));
    }
    for (hyp_value_id v = 0; v < in->values.len; v++)
        if (in->values.data[v].kind == HYP_VALUE_CONST)
            HYP_TRY(hyp_graph_copy_const(c->out, &in->values.data[v], slot_of(c, v, ONCE), c->diag));
    return HYP_OK;
}

/* Asks for what is missing of what a node reads, and says whether there was anything. */
static hyp_status ask_for_inputs(copier *c, hyp_node_id n, int version, bool *out_any)
{
    const hyp_node *node = &c->in->nodes.data[n];
    *out_any = false;
    for (uint32_t i = node->input_count; i-- > 0;) {
        hyp_value_id v = node->inputs[i];
        if (v == HYP_NO_VALUE || *slot_of(c, v, version_read(c, n, version)) != HYP_NO_VALUE) continue;
        uint32_t want = c->differs[v] ? (uint32_t)version_read(c, n, version) : ONCE;
        HYP_TRY(hyp_vec_push(&c->stack, c->diag, c->in->values.data[v].producer * VERSIONS + want));
        *out_any = true;
    }
    return HYP_OK;
}

/* Nodes that run again say so, as if a rule had made them. */
static hyp_status provenance_of(copier *c, const hyp_node *node, int version, hyp_provenance *out)
{
    *out = node->from;
    if (version == ONCE) return HYP_OK;
    c->rules.len = 0;
    HYP_TRY(hyp_vec_reserve(&c->rules, node->from.rule_count + 1, c->diag));
    for (uint32_t r = 0; r < node->from.rule_count; r++) {
        if (strcmp(node->from.rules[r], HYP_PLAN_RECOMPUTE) == 0) return HYP_OK;
        c->rules.data[c->rules.len++] = node->from.rules[r];
    }
    c->rules.data[c->rules.len++] = HYP_PLAN_RECOMPUTE;
    out->rules = c->rules.data;
    out->rule_count = (uint32_t)c->rules.len;
    return HYP_OK;
}

static hyp_status copy_node(copier *c, hyp_node_id n, int version)
{
    const hyp_node *node = &c->in->nodes.data[n];
    hyp_provenance from;
    c->ids.len = 0;
    HYP_TRY(hyp_vec_reserve(&c->ids, (size_t)node->input_count + node->output_count, c->diag));
    hyp_value_id *outs = c->ids.data + node->input_count;
    for (uint32_t i = 0; i < node->input_count; i++) {
        hyp_value_id v = node->inputs[i];
        c->ids.data[i] = v == HYP_NO_VALUE ? v : *slot_of(c, v, version_read(c, n, version));
    }
    HYP_TRY(provenance_of(c, node, version, &from));
    HYP_TRY(hyp_graph_add_node(c->out, node->op, c->ids.data, node->input_count, node->attrs, &from, outs,
                               node->output_count, c->diag));
    for (uint32_t o = 0; o < node->output_count; o++) {
        const char *name = c->in->values.data[node->outputs[o]].name;
        *slot_of(c, node->outputs[o], version) = outs[o];
        if (!name) continue;
        name = hyp_arena_strdup(&c->out->arena, name);
        if (!name) return hyp_fail_memory(c->diag, 1);
        c->out->values.data[outs[o]].name = name;
    }
    return HYP_OK;
}

/* A node, and before it what it needs. */
static hyp_status place(copier *c, hyp_node_id n)
{
    c->stack.len = 0;
    HYP_TRY(hyp_vec_push(&c->stack, c->diag, n * VERSIONS + ONCE));
    while (c->stack.len) {
        uint32_t top = c->stack.data[c->stack.len - 1];
        hyp_node_id node = top / VERSIONS;
        int version = (int)(top % VERSIONS);
        bool any = false;
        if (!is_there(c, node, version)) {
            HYP_TRY(ask_for_inputs(c, node, version, &any));
            if (!any) HYP_TRY(copy_node(c, node, version));
        }
        if (!any) c->stack.len--;
    }
    return HYP_OK;
}

static hyp_status copy_all(copier *c)
{
    const hyp_graph *in = c->in;
    size_t values = in->values.len;
    c->differs = hyp_calloc(values, sizeof *c->differs);
    c->map = hyp_malloc(values * VERSIONS * sizeof *c->map);
    if (!c->differs || !c->map) return hyp_fail_memory(c->diag, values * VERSIONS * sizeof *c->map);
    memset(c->map, 0xff, values * VERSIONS * sizeof *c->map); /* HYP_NO_VALUE */
    find_different(c);
    HYP_TRY(add_edges(c));
    for (size_t i = 0; i < in->nodes.len; i++) HYP_TRY(place(c, c->again->order ? c->again->order[i] : (hyp_node_id)i));
    for (size_t i = 0; i < in->outputs.len; i++)
        HYP_TRY(hyp_graph_add_output(c->out, in->outputs.data[i].name, *slot_of(c, in->outputs.data[i].value, ONCE),
                                     c->diag));
    c->out->name = hyp_arena_strdup(&c->out->arena, in->name ? in->name : "");
    if (!c->out->name) return hyp_fail_memory(c->diag, 1);
    return hyp_graph_keep_hidden(c->out, in, c->diag);
}

hyp_status hyp_graph_compute_again(const hyp_graph *in, const hyp_again *again, hyp_graph *out, hyp_diag *diag)
{
    hyp_graph fresh;
    hyp_graph_init(&fresh, in->dims);
    copier c = {.in = in, .again = again, .out = &fresh, .diag = diag};
    hyp_status status = copy_all(&c);
    hyp_vec_free(&c.stack);
    hyp_vec_free(&c.ids);
    hyp_vec_free(&c.rules);
    hyp_free(c.differs);
    hyp_free(c.map);
    if (status == HYP_OK) status = hyp_graph_copy_live(&fresh, out, diag); /* without what nobody reads any more */
    hyp_graph_dispose(&fresh);
    return status;
}
