/* From a graph to an e-graph. */
#include <string.h>

#include "rewrite/internal.h"

/* ---- life ----------------------------------------------------------------------------------------- */

static hyp_status register_callbacks(hyp_rw *rw, hyp_diag *diag)
{
    for (const hyp_rw_callback *const *table = hyp_rw_callbacks; *table; table++)
        for (const hyp_rw_callback *r = *table; r->name; r++) {
            if (r->condition)
                HYP_TRY(hyp_egraph_register_condition(rw->eg, r->name, r->arity, r->condition, rw, diag));
            else
                HYP_TRY(hyp_egraph_register_function(rw->eg, r->name, r->arity, r->function, rw, diag));
            if (r->final) hyp_egraph_make_final(rw->eg, r->name);
        }
    return HYP_OK;
}

hyp_status hyp_rw_init(hyp_rw *rw, hyp_dims *dims, hyp_diag *diag)
{
    rw->dims = dims;
    hyp_analysis analysis = hyp_rw_analysis(rw);
    hyp_egraph_options options = {.size = sizeof options, .analysis = &analysis, .explain = true};
    HYP_TRY(hyp_egraph_create(&options, &rw->eg, diag));
    HYP_TRY(hyp_egraph_symbol(rw->eg, "none", &rw->none, diag));
    hyp_egraph_name_lists(rw->eg, hyp_rw_word_lists);
    return register_callbacks(rw, diag);
}

void hyp_rw_dispose(hyp_rw *rw)
{
    hyp_egraph_destroy(rw->eg);
    hyp_vec_free(&rw->symbols);
    hyp_vec_free(&rw->leaves);
    hyp_vec_free(&rw->inputs);
    hyp_vec_free(&rw->types);
    hyp_vec_free(&rw->ranges);
    hyp_vec_free(&rw->encoded);
    hyp_vec_free(&rw->seen);
    hyp_free(rw->leaf_slots);
    hyp_arena_dispose(&rw->arena);
    *rw = (hyp_rw){0};
}

/* ---- nodes ---------------------------------------------------------------------------------------- */

/* Axes count from the start in terms, so that equal nodes are equal terms. `rank` is that of the tensor whose
 * axes are meant. */
static hyp_status normal_axes(hyp_rw *rw, const hyp_node *n, uint32_t which, hyp_attr *a, hyp_diag *diag)
{
    const char *name = hyp_op_get(n->op)->attrs[which].name;
    if (n->op == HYP_OP_flatten || n->input_count == 0 || n->inputs[0] == HYP_NO_VALUE) return HYP_OK;
    int64_t rank = rw->in->values.data[n->inputs[0]].type.rank;
    if (strcmp(name, "axis") == 0 && a->kind == HYP_ATTR_INT && a->i < 0) a->i += rank;
    if (strcmp(name, "axes") != 0 || a->kind != HYP_ATTR_DIMS) return HYP_OK;
    if (n->op == HYP_OP_unsqueeze) rank += a->count;
    hyp_dim *list = hyp_arena_zalloc(&rw->arena, a->count, sizeof *list);
    if (!list) return hyp_fail_memory(diag, a->count * sizeof *list);
    for (uint32_t i = 0; i < a->count; i++)
        list[i] = hyp_dim_is_const(a->dims[i]) && a->dims[i] < 0 ? a->dims[i] + rank : a->dims[i];
    a->dims = list;
    return HYP_OK;
}

static hyp_status note_origin(hyp_rw *rw, hyp_enode_id enode, hyp_node_id node, hyp_diag *diag)
{
    if (enode >= rw->encoded.len) {
        HYP_TRY(hyp_vec_reserve(&rw->encoded, (size_t)enode + 1, diag));
        memset(rw->encoded.data + rw->encoded.len, 0, (enode + 1 - rw->encoded.len) * sizeof *rw->encoded.data);
        rw->encoded.len = (size_t)enode + 1;
    }
    rw->node_next[node] = rw->encoded.data[enode];
    rw->encoded.data[enode] = node + 1;
    return HYP_OK;
}

static hyp_status encode_node(hyp_rw *rw, hyp_node_id id, hyp_class_id *children, hyp_diag *diag)
{
    const hyp_node *n = &rw->in->nodes.data[id];
    const hyp_op_info *info = hyp_op_get(n->op);
    size_t count = 0;
    hyp_class_id none;
    HYP_TRY(hyp_rw_literal(rw, "none", &none, diag));
    for (uint32_t i = 0; i < info->attr_count; i++) {
        hyp_attr a = n->attrs[i];
        HYP_TRY(normal_axes(rw, n, i, &a, diag));
        HYP_TRY(hyp_rw_attr_literal(rw, &a, &children[count++], diag));
    }
    for (uint32_t i = 0; i < n->input_count; i++)
        children[count++] = n->inputs[i] == HYP_NO_VALUE ? none : rw->class_of[n->inputs[i]];
    if (info->max_inputs != HYP_VARIADIC)
        for (uint32_t i = n->input_count; i < info->max_inputs; i++) children[count++] = none;
    hyp_symbol symbol;
    hyp_class_id c;
    hyp_enode_id enode;
    HYP_TRY(hyp_egraph_symbol(rw->eg, info->name, &symbol, diag));
    hyp_status status = hyp_egraph_add(rw->eg, symbol, children, count, &c, &enode, diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "node %u", id);
        return status;
    }
    HYP_TRY(note_origin(rw, enode, id, diag));
    if (info->outputs == 1) {
        rw->class_of[n->outputs[0]] = c;
        return HYP_OK;
    }
    HYP_TRY(hyp_egraph_symbol(rw->eg, "get", &symbol, diag));
    for (uint32_t i = 0; i < n->output_count; i++) {
        hyp_attr index = {.kind = HYP_ATTR_INT, .i = i};
        hyp_class_id pair[2] = {0, c};
        HYP_TRY(hyp_rw_attr_literal(rw, &index, &pair[0], diag));
        HYP_TRY(hyp_egraph_add(rw->eg, symbol, pair, 2, &rw->class_of[n->outputs[i]], NULL, diag));
    }
    return HYP_OK;
}

/* Whether a node jumps by the last bit of an operand that is determined, and no constant. */
static bool steps_on_bits(const hyp_rw *rw, const hyp_node *n)
{
    if (!hyp_node_has(rw->in, n, HYP_OPF_JUMP | HYP_OPF_EDGE)) return false;
    for (uint32_t i = 0; i < n->input_count; i++) {
        if (n->inputs[i] == HYP_NO_VALUE || !hyp_dtype_is_float(rw->in->values.data[n->inputs[i]].type.dtype)) continue;
        const hyp_rw_fact *f = hyp_rw_fact_of(rw, rw->class_of[n->inputs[i]]);
        if (f->determined && !f->constant) return true;
    }
    return false;
}

hyp_status hyp_rw_encode(hyp_rw *rw, const hyp_graph *in, hyp_diag *diag)
{
    HYP_TRY(hyp_rw_init(rw, in->dims, diag));
    rw->in = in;
    rw->fold = hyp_fold_budget_of(in, rw->fold.bytes, rw->fold.flops);
    size_t widest = 0;
    for (size_t i = 0; i < in->nodes.len; i++)
        if (in->nodes.data[i].input_count > widest) widest = in->nodes.data[i].input_count;
    rw->class_of = hyp_arena_zalloc(&rw->arena, in->values.len, sizeof *rw->class_of);
    rw->node_next = hyp_arena_zalloc(&rw->arena, in->nodes.len, sizeof *rw->node_next);
    hyp_class_id *children = hyp_arena_zalloc(&rw->arena, widest + HYP_MAX_ATTRS + 8, sizeof *children);
    if (!rw->class_of || !rw->node_next || !children)
        return hyp_fail_memory(diag, in->values.len * sizeof *rw->class_of);
    for (size_t i = 0; i < in->inputs.len; i++) HYP_TRY(hyp_rw_encode_input(rw, in->inputs.data[i], diag));
    for (size_t i = 0; i < in->values.len; i++)
        if (in->values.data[i].kind == HYP_VALUE_CONST)
            HYP_TRY(hyp_rw_encode_constant(rw, &in->values.data[i], &rw->class_of[i], diag));
    for (size_t i = 0; i < in->nodes.len; i++) HYP_TRY(encode_node(rw, (hyp_node_id)i, children, diag));
    HYP_TRY(hyp_egraph_rebuild(rw->eg, diag));
    for (size_t i = 0; i < in->nodes.len && !rw->keeps_bits; i++)
        rw->keeps_bits = steps_on_bits(rw, &in->nodes.data[i]);
    return HYP_OK;
}
