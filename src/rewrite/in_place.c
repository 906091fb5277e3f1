/* Splits and slices that cost nothing because attention, a concat or a transposition reads what they cut out where it lies,
 * past views and transpositions, and those that cost copies because what they cut out is an output of the graph; and
 * transpositions of matrices that are weights of layers, which read these in either order. */
#include "rewrite/internal.h"

/* More views and transpositions in a row than these are none that lead to heads. */
enum { VIEWS = 4 };

static bool is_seen_through(hyp_op op) { return op == HYP_OP_transpose || (hyp_op_get(op)->flags & HYP_OPF_VIEW); }

/* ---- e-graphs: a part may have other readers, too; this is an estimate ------------------------------------------ */

typedef struct finder {
    hyp_rw_weigh *w;
    size_t bound;    /* of classes */
    bool *read;      /* by class: it, or something in it, is read in place */
    uint32_t *parts; /* by class of a split, slice or transposition: how many of its results are read so */
    bool *shown;     /* by class: it, or a view of it, is an output */
    uint32_t *copied; /* by class of a split or slice: how many of its results are */
    bool *weight;    /* by class: layers read it as a weight */
} finder;

static hyp_status visit_attention(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n)
{
    (void)c;
    finder *f = user;
    hyp_egraph *eg = f->w->rw->eg;
    if (shape != HYP_RW_IS_OP || n->op != HYP_OP_attention) return HYP_OK;
    hyp_class_id inputs[3];
    for (int i = 0; i < 3; i++) inputs[i] = hyp_egraph_find(eg, n->inputs[i]);
    if (hyp_rw_node_cost(eg, node, f->w) >= HYP_COST_UNSUPPORTED) return f->w->status;
    for (int i = 0; i < 3; i++) f->read[inputs[i]] = true;
    return HYP_OK;
}

static hyp_status visit_copy(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n)
{
    (void)node, (void)c;
    finder *f = user;
    bool copies = shape == HYP_RW_IS_OP && (n->op == HYP_OP_concat || n->op == HYP_OP_transpose);
    for (uint32_t i = 0; copies && i < n->input_count; i++)
        f->read[hyp_egraph_find(f->w->rw->eg, n->inputs[i])] = true;
    return HYP_OK;
}

static hyp_status visit_view(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n)
{
    (void)node;
    finder *f = user;
    if (shape != HYP_RW_IS_OP || !is_seen_through(n->op)) return HYP_OK;
    hyp_class_id of = hyp_egraph_find(f->w->rw->eg, n->inputs[0]);
    if (f->read[c]) f->read[of] = true;
    if (f->shown[c] && n->op != HYP_OP_transpose) f->shown[of] = true;
    return HYP_OK;
}

static hyp_status visit_part(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n)
{
    (void)node;
    finder *f = user;
    if (shape == HYP_RW_IS_GET && f->read[c]) f->parts[hyp_egraph_find(f->w->rw->eg, n->inputs[0])]++;
    if (shape == HYP_RW_IS_OP && n->op == HYP_OP_slice && f->read[c]) f->parts[c] = 1;
    if (shape == HYP_RW_IS_GET && f->shown[c]) f->copied[hyp_egraph_find(f->w->rw->eg, n->inputs[0])]++;
    if (shape == HYP_RW_IS_OP && n->op == HYP_OP_slice && f->shown[c]) f->copied[c] = 1;
    return HYP_OK;
}

static hyp_status visit_layer(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n)
{
    (void)node, (void)c;
    finder *f = user;
    for (uint32_t i = 0; shape == HYP_RW_IS_OP && i < n->input_count; i++)
        if (hyp_op_is_weight(n->op, i, n->input_count)) f->weight[hyp_egraph_find(f->w->rw->eg, n->inputs[i])] = true;
    return HYP_OK;
}

static bool turns_matrix(hyp_op op, const hyp_attr *attrs)
{
    return op == HYP_OP_transpose && attrs[0].count == 2 && attrs[0].dims[0] == 1;
}

static hyp_status visit_weight(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n)
{
    (void)node;
    finder *f = user;
    if (shape == HYP_RW_IS_OP && f->weight[c] && turns_matrix(n->op, n->attrs)) f->parts[c] = 1;
    return HYP_OK;
}

static void find_outputs(finder *f)
{
    const hyp_rw *rw = f->w->rw;
    for (size_t i = 0; i < rw->in->outputs.len; i++)
        f->shown[hyp_egraph_find(rw->eg, rw->class_of[rw->in->outputs.data[i].value])] = true;
}

hyp_status hyp_rw_find_in_place(hyp_rw_weigh *weigh)
{
    finder f = {.w = weigh, .bound = hyp_egraph_enode_bound(weigh->rw->eg)};
    f.read = hyp_calloc(f.bound + 1, sizeof *f.read);
    f.parts = hyp_calloc(f.bound + 1, sizeof *f.parts);
    f.shown = hyp_calloc(f.bound + 1, sizeof *f.shown);
    f.copied = hyp_calloc(f.bound + 1, sizeof *f.copied);
    f.weight = hyp_calloc(f.bound + 1, sizeof *f.weight);
    bool all = f.read && f.parts && f.shown && f.copied && f.weight;
    hyp_status status = all ? HYP_OK : hyp_fail_memory(weigh->diag, f.bound);
    if (status == HYP_OK) find_outputs(&f);
    if (status == HYP_OK) status = hyp_rw_visit_nodes(weigh->rw, visit_attention, &f, weigh->diag);
    if (status == HYP_OK) status = hyp_rw_visit_nodes(weigh->rw, visit_copy, &f, weigh->diag);
    for (int i = 0; i < VIEWS && status == HYP_OK; i++) status = hyp_rw_visit_nodes(weigh->rw, visit_view, &f, weigh->diag);
    if (status == HYP_OK) status = hyp_rw_visit_nodes(weigh->rw, visit_part, &f, weigh->diag);
    if (status == HYP_OK) status = hyp_rw_visit_nodes(weigh->rw, visit_layer, &f, weigh->diag);
    if (status == HYP_OK) status = hyp_rw_visit_nodes(weigh->rw, visit_weight, &f, weigh->diag);
    if (status == HYP_OK) {
        weigh->parts_in_place = f.parts;
        weigh->parts_shown = f.copied;
        weigh->bound = f.bound;
    } else {
        hyp_free(f.parts);
        hyp_free(f.copied);
    }
    hyp_free(f.shown);
    hyp_free(f.read);
    hyp_free(f.weight);
    return status;
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

void hyp_rw_find_in_place_values(const hyp_graph *g, bool *read, bool *shown)
{
    for (size_t i = 0; i < g->outputs.len; i++) shown[g->outputs.data[i].value] = true;
    for (size_t i = g->nodes.len; i-- > 0;) { /* readers first */
        const hyp_node *node = &g->nodes.data[i];
        bool copies = node->op == HYP_OP_concat || node->op == HYP_OP_transpose;
        uint32_t count = node->op == HYP_OP_attention ? 3 : copies ? node->input_count : 0;
        if (is_seen_through(node->op) && read[node->outputs[0]]) count = 1;
        for (uint32_t k = 0; k < count; k++) read[node->inputs[k]] = true;
        bool views = hyp_op_get(node->op)->flags & HYP_OPF_VIEW;
        if (views && shown[node->outputs[0]]) shown[node->inputs[0]] = true;
        for (uint32_t k = 0; k < node->input_count; k++)
            if (hyp_op_is_weight(node->op, k, node->input_count)) read[node->inputs[k]] = true;
    }
}
