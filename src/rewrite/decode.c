/* From an extraction to a graph, and where its nodes came from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/internal.h"

/* ---- provenance ----------------------------------------------------------------------------------- */

typedef struct history {
    hyp_rw *rw;
    const hyp_rw_rules *rules;
    HYP_VEC(const char *) sources;
    HYP_VEC(const char *) names; /* of rules, in the order of application */
    hyp_diag *diag;
} history;

static hyp_status note_rule(history *h, const char *name)
{
    for (size_t i = 0; i < h->names.len; i++)
        if (strcmp(h->names.data[i], name) == 0) return HYP_OK;
    return hyp_vec_push(&h->names, h->diag, name);
}

static hyp_status note_node(history *h, const hyp_node *n)
{
    for (uint32_t i = 0; i < n->from.rule_count; i++) HYP_TRY(note_rule(h, n->from.rules[i]));
    HYP_TRY(hyp_vec_reserve(&h->sources, h->sources.len + n->from.source_count, h->diag));
    for (uint32_t i = 0; i < n->from.source_count; i++) h->sources.data[h->sources.len++] = n->from.sources[i];
    return HYP_OK;
}

/* What an e-node was made of comes before the rule that made it. The depth is that of the chain of rules, which
 * the number of iterations bounds. */
static hyp_status trace_back(history *h, hyp_enode_id node)
{
    if (h->rw->seen.data[node] == h->rw->seen_stamp) return HYP_OK;
    h->rw->seen.data[node] = h->rw->seen_stamp;
    if (node < h->rw->encoded.len)
        for (uint32_t i = h->rw->encoded.data[node]; i; i = h->rw->node_next[i - 1])
            HYP_TRY(note_node(h, &h->rw->in->nodes.data[i - 1]));
    hyp_origin origin = hyp_egraph_origin(h->rw->eg, node);
    if (origin.rule == HYP_NONE || origin.rule >= h->rules->count) return HYP_OK;
    for (size_t i = 0; i < origin.matched_count; i++) {
        HYP_TRY(trace_back(h, origin.matched[i]));
    }
    return note_rule(h, h->rules->names[origin.rule]);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static hyp_status collect(history *h, const hyp_enode_id *nodes, size_t count, hyp_arena *arena, hyp_provenance *out)
{
    for (size_t i = 0; i < count; i++) HYP_TRY(trace_back(h, nodes[i]));
    if (h->sources.len) qsort(h->sources.data, h->sources.len, sizeof *h->sources.data, by_text);
    size_t n = 0;
    for (size_t i = 0; i < h->sources.len; i++)
        if (i == 0 || strcmp(h->sources.data[i], h->sources.data[n - 1]) != 0)
            h->sources.data[n++] = h->sources.data[i];
    const char **sources = hyp_arena_zalloc(arena, n, sizeof *sources);
    const char **names = hyp_arena_zalloc(arena, h->names.len, sizeof *names);
    if (!sources || !names) return hyp_fail_memory(h->diag, n * sizeof *sources);
    if (n) memcpy(sources, h->sources.data, n * sizeof *sources);
    if (h->names.len) memcpy(names, h->names.data, h->names.len * sizeof *names);
    *out = (hyp_provenance){sources, (uint32_t)n, names, (uint32_t)h->names.len};
    return HYP_OK;
}

hyp_status hyp_rw_provenance(hyp_rw *rw, const hyp_rw_rules *rules, const hyp_enode_id *nodes, size_t count,
                             hyp_arena *arena, hyp_provenance *out, hyp_diag *diag)
{
    history h = {.rw = rw, .rules = rules, .diag = diag};
    size_t bound = hyp_egraph_enode_bound(rw->eg);
    if (bound > rw->seen.len) {
        HYP_TRY(hyp_vec_reserve(&rw->seen, bound, diag));
        memset(rw->seen.data + rw->seen.len, 0, (bound - rw->seen.len) * sizeof *rw->seen.data);
        rw->seen.len = bound;
    }
    rw->seen_stamp++;
    hyp_status status = collect(&h, nodes, count, arena, out);
    hyp_vec_free(&h.sources);
    hyp_vec_free(&h.names);
    return status;
}

/* ---- decoding ------------------------------------------------------------------------------------- */

typedef struct decoder {
    hyp_rw *rw;
    const hyp_extraction *choice;
    const hyp_rw_rules *rules;
    const hyp_rw_part *part; /* NULL: all that the outputs of rw->in need */
    hyp_graph *out;
    hyp_diag *diag;
    hyp_arena arena;
    uint32_t *state;        /* by class: 0 not begun, 1 on the stack, 2 done */
    hyp_value_id *value;    /* by class that is done: its value, or its first output for a tuple */
    hyp_value_id *leaf;     /* by leaf: its value, HYP_NO_VALUE while it has none */
    hyp_value_id *named_by; /* by class: the value of the input graph that gives it a name */
    HYP_VEC(hyp_class_id) stack;
    HYP_VEC(hyp_value_id) inputs;
} decoder;

static hyp_status push(decoder *d, hyp_class_id c) { return hyp_vec_push(&d->stack, d->diag, c); }

static hyp_status decode_leaf(decoder *d, uint32_t index, hyp_value_id *out)
{
    const hyp_rw_leaf *l = &d->rw->leaves.data[index];
    if (d->leaf[index] == HYP_NO_VALUE) {
        const hyp_value constant = {.name = l->name,
                                    .type = l->value.type,
                                    .data = l->hidden ? l->hidden : l->data,
                                    .bytes = l->bytes,
                                    .owned = l->copy,
                                    .hash = l->hash,
                                    .updatable = l->hidden};
        HYP_TRY(hyp_graph_copy_const(d->out, &constant, &d->leaf[index], d->diag));
    }
    *out = d->leaf[index];
    return HYP_OK;
}

/* Gives the results of a node the names that the input graph has for them, for people. */
static hyp_status name_value(decoder *d, hyp_class_id c, hyp_value_id id)
{
    hyp_value_id from = d->named_by[c];
    if (from == HYP_NO_VALUE || d->out->values.data[id].kind != HYP_VALUE_NODE) return HYP_OK;
    const char *name = hyp_arena_strdup(&d->out->arena, d->rw->in->values.data[from].name);
    if (!name) return hyp_fail_memory(d->diag, 1);
    d->out->values.data[id].name = name;
    return HYP_OK;
}

static hyp_status decode_node(decoder *d, hyp_class_id c, hyp_enode_id enode, const hyp_rw_node *n)
{
    const hyp_rw_fact *fact = hyp_rw_fact_of(d->rw, c);
    const hyp_op_info *info = hyp_op_get(n->op);
    uint32_t count = n->input_count;
    hyp_provenance from;
    d->inputs.len = 0;
    HYP_TRY(hyp_vec_reserve(&d->inputs, count + 1, d->diag));
    for (uint32_t i = 0; i < count; i++) {
        hyp_class_id in = hyp_egraph_find(d->rw->eg, n->inputs[i]);
        d->inputs.data[i] = hyp_rw_is_none(d->rw, hyp_rw_fact_of(d->rw, in)) ? HYP_NO_VALUE : d->value[in];
    }
    while (count > info->min_inputs && d->inputs.data[count - 1] == HYP_NO_VALUE) count--;
    hyp_value_id *outs = hyp_arena_zalloc(&d->arena, fact->count, sizeof *outs);
    if (!outs) return hyp_fail_memory(d->diag, fact->count * sizeof *outs);
    HYP_TRY(hyp_rw_provenance(d->rw, d->rules, &enode, 1, &d->arena, &from, d->diag));
    HYP_TRY(hyp_graph_add_node(d->out, n->op, d->inputs.data, count, n->attrs, &from, outs, fact->count, d->diag));
    d->value[c] = fact->count ? outs[0] : HYP_NO_VALUE; /* the outputs of a node follow each other */
    return HYP_OK;
}

/* Whether the part has this class from elsewhere. */
static bool is_given(const decoder *d, hyp_class_id c)
{
    const hyp_rw_fact *fact = hyp_rw_fact_of(d->rw, c);
    return d->part && fact->kind == HYP_RW_TENSOR && !fact->constant && !d->part->inside[c];
}

static hyp_status decode_given(decoder *d, hyp_class_id c)
{
    char name[32];
    snprintf(name, sizeof name, "x%u", c); /* the same in every form of the part */
    d->stack.len--;
    d->state[c] = 2;
    return hyp_graph_add_input(d->out, name, &hyp_rw_fact_of(d->rw, c)->values[0].type, &d->value[c], d->diag);
}

/* Visits the class on top of the stack: pushes what it needs, or makes its value when all of that is there. */
static hyp_status visit(decoder *d)
{
    hyp_class_id c = d->stack.data[d->stack.len - 1];
    hyp_enode_id enode = c < d->choice->class_bound ? d->choice->choice[c] : HYP_NONE;
    hyp_rw_shape shape;
    hyp_rw_node n = {0};
    uint32_t index;
    if (d->state[c] == 2) {
        d->stack.len--;
        return HYP_OK;
    }
    if (is_given(d, c)) return decode_given(d, c);
    if (enode == HYP_NONE) return hyp_fail(d->diag, HYP_ERR_INTERNAL, "nothing was extracted for a term");
    HYP_TRY(hyp_rw_inspect(d->rw, enode, &shape, &index, &n, d->diag));
    bool first = d->state[c] == 0, ready = true;
    d->state[c] = 1;
    for (uint32_t i = n.input_count; i-- > 0;) { /* pushed last to first, so that they are made first to last */
        hyp_class_id in = hyp_egraph_find(d->rw->eg, n.inputs[i]);
        if (d->state[in] == 2 || hyp_rw_is_none(d->rw, hyp_rw_fact_of(d->rw, in))) continue;
        if (!first) return hyp_fail(d->diag, HYP_ERR_INTERNAL, "an extraction with a cycle");
        ready = false;
        HYP_TRY(push(d, in));
    }
    if (!ready) return HYP_OK;
    d->stack.len--;
    d->state[c] = 2;
    if (shape == HYP_RW_IS_LEAF) HYP_TRY(decode_leaf(d, index, &d->value[c]));
    if (shape == HYP_RW_IS_GET) d->value[c] = d->value[hyp_egraph_find(d->rw->eg, n.inputs[0])] + index;
    if (shape == HYP_RW_IS_OP) HYP_TRY(decode_node(d, c, enode, &n));
    return hyp_rw_fact_of(d->rw, c)->kind == HYP_RW_TENSOR ? name_value(d, c, d->value[c]) : HYP_OK;
}

static hyp_status prepare(decoder *d)
{
    const hyp_graph *in = d->rw->in;
    size_t classes = hyp_egraph_class_bound(d->rw->eg), leaves = d->rw->leaves.len;
    d->state = hyp_arena_zalloc(&d->arena, classes, sizeof *d->state);
    d->value = hyp_arena_zalloc(&d->arena, classes, sizeof *d->value);
    d->named_by = hyp_arena_zalloc(&d->arena, classes, sizeof *d->named_by);
    d->leaf = hyp_arena_zalloc(&d->arena, leaves, sizeof *d->leaf);
    if (!d->state || !d->value || !d->named_by || !d->leaf) return hyp_fail_memory(d->diag, classes * sizeof *d->value);
    memset(d->leaf, 0xff, leaves * sizeof *d->leaf); /* HYP_NO_VALUE */
    memset(d->named_by, 0xff, classes * sizeof *d->named_by);
    if (d->part) return HYP_OK; /* it has names and inputs of its own */
    for (size_t i = in->values.len; i-- > 0;) /* the first value of a class names it */
        if (in->values.data[i].kind == HYP_VALUE_NODE && in->values.data[i].name)
            d->named_by[hyp_egraph_find(d->rw->eg, d->rw->class_of[i])] = (hyp_value_id)i;
    for (size_t i = 0; i < leaves; i++) {
        const hyp_rw_leaf *l = &d->rw->leaves.data[i];
        if (l->is_input) HYP_TRY(hyp_graph_add_input(d->out, l->name, &l->value.type, &d->leaf[i], d->diag));
    }
    return HYP_OK;
}

static hyp_status add_output(decoder *d, const hyp_named_value *output)
{
    hyp_value_id id = d->value[hyp_egraph_find(d->rw->eg, d->rw->class_of[output->value])];
    const hyp_type *want = &d->rw->in->values.data[output->value].type, *have = &d->out->values.data[id].type;
    if (!hyp_type_equal(want, have)) {
        hyp_strbuf a = {0}, b = {0};
        hyp_type_print(&a, d->out->dims, have);
        hyp_type_print(&b, d->out->dims, want);
        hyp_status status = hyp_fail(d->diag, HYP_ERR_INTERNAL, "output '%s' became %s, it was %s: a rule is wrong",
                                     output->name, hyp_strbuf_text(&a), hyp_strbuf_text(&b));
        hyp_strbuf_dispose(&a);
        hyp_strbuf_dispose(&b);
        return status;
    }
    return hyp_graph_add_output(d->out, output->name, id, d->diag);
}

static hyp_status run_part(decoder *d)
{
    for (size_t i = 0; i < d->part->output_count; i++) {
        char name[32];
        hyp_class_id c = d->part->outputs[i];
        snprintf(name, sizeof name, "y%zu", i);
        HYP_TRY(push(d, c));
        while (d->stack.len) HYP_TRY(visit(d));
        HYP_TRY(hyp_graph_add_output(d->out, name, d->value[c], d->diag));
    }
    d->out->name = hyp_arena_strdup(&d->out->arena, "part");
    return d->out->name ? HYP_OK : hyp_fail_memory(d->diag, 1);
}

static hyp_status run(decoder *d)
{
    const hyp_graph *in = d->rw->in;
    HYP_TRY(prepare(d));
    if (d->part) return run_part(d);
    for (size_t i = 0; i < in->outputs.len; i++) {
        HYP_TRY(push(d, hyp_egraph_find(d->rw->eg, d->rw->class_of[in->outputs.data[i].value])));
        while (d->stack.len) HYP_TRY(visit(d));
    }
    for (size_t i = 0; i < in->outputs.len; i++) HYP_TRY(add_output(d, &in->outputs.data[i]));
    HYP_TRY(hyp_graph_keep_hidden(d->out, in, d->diag));
    d->out->name = hyp_arena_strdup(&d->out->arena, in->name ? in->name : "");
    return d->out->name ? HYP_OK : hyp_fail_memory(d->diag, 1);
}

hyp_status hyp_rw_decode(hyp_rw *rw, const hyp_extraction *choice, const hyp_rw_rules *rules, const hyp_rw_part *part,
                         hyp_graph *out, hyp_diag *diag)
{
    decoder d = {.rw = rw, .choice = choice, .rules = rules, .part = part, .out = out, .diag = diag};
    hyp_status status = run(&d);
    hyp_vec_free(&d.stack);
    hyp_vec_free(&d.inputs);
    hyp_arena_dispose(&d.arena);
    return status;
}
