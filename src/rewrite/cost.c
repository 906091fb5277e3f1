/* What an e-node costs: asking the cost model, and the order of normal forms. */
#include <math.h>

#include "rewrite/internal.h"

/* What is computed once, before the plan runs, costs next to nothing: just enough that of two equal forms the one with
 * the simpler constants is taken. In units of the cost that is asked for: seconds, or weights of normal forms. */
#define CONSTANT_SECONDS 1e-13
#define CONSTANT_WEIGHT 0.001

/* Where fusing gains nothing the plain operators stay. */
#define TIE_SECONDS 1e-15

void hyp_rw_weigh_dispose(hyp_rw_weigh *weigh)
{
    hyp_vec_free(&weigh->inputs);
    hyp_vec_free(&weigh->input_const);
    hyp_vec_free(&weigh->outputs);
    hyp_free(weigh->parts_in_place);
    hyp_free(weigh->parts_shown);
    hyp_free(weigh->joined);
    hyp_free(weigh->joint);
    hyp_vec_free(&weigh->input_joined);
    hyp_constant_forms_dispose(&weigh->constants);
}

/* The first two phases take the smallest weight. What counts is the order: no rule of theirs may prefer its left
 * side, so every operator that a rule replaces weighs more than what replaces it. */
static double weight(const hyp_rw_node *n, const hyp_rw_weigh *w)
{
    double swapped = (hyp_op_get(n->op)->flags & HYP_OPF_COMMUTES) && w->input_const.data[0] ? 0.5 : 0;
    switch (n->op) {
    case HYP_OP_gemm: return 1000;
    case HYP_OP_identity:
    case HYP_OP_dropout: return 20;
    case HYP_OP_flatten:
    case HYP_OP_squeeze:
    case HYP_OP_unsqueeze: return 4;
    case HYP_OP_reshape: return 1;
    case HYP_OP_relu: return 8;
    case HYP_OP_clip: return 9;
    case HYP_OP_cast:
    case HYP_OP_expand:
    case HYP_OP_transpose: return 6;
    case HYP_OP_gather:
    case HYP_OP_matmul: return 12;
    case HYP_OP_div:
    case HYP_OP_sub: return 11;
    default: return 10 + swapped;
    }
}

static bool is_joined(const hyp_rw_weigh *w, hyp_class_id c) { return w->joined && c < w->bound && w->joined[c]; }

/* Puts what is to be asked of an e-node of class c into w. */
static hyp_status describe(hyp_rw_weigh *w, const hyp_rw_node *n, hyp_class_id c, bool *out_constant)
{
    const hyp_rw_fact *fact = hyp_rw_fact_of(w->rw, c);
    HYP_TRY(hyp_vec_reserve(&w->inputs, n->input_count + 1, w->diag));
    HYP_TRY(hyp_vec_reserve(&w->input_const, n->input_count + 1, w->diag));
    HYP_TRY(hyp_vec_reserve(&w->outputs, fact->count + 1, w->diag));
    HYP_TRY(hyp_vec_reserve(&w->input_joined, n->input_count + 1, w->diag));
    *out_constant = true;
    w->input_const.data[0] = false;
    for (uint32_t i = 0; i < n->input_count; i++) {
        const hyp_rw_fact *f = hyp_rw_fact_of(w->rw, n->inputs[i]);
        bool absent = hyp_rw_is_none(w->rw, f);
        w->inputs.data[i] = absent ? NULL : &f->values[0].type;
        w->input_const.data[i] = absent || f->constant;
        w->input_joined.data[i] = is_joined(w, hyp_egraph_find(w->rw->eg, n->inputs[i]));
        *out_constant = *out_constant && w->input_const.data[i];
    }
    for (uint32_t i = 0; i < fact->count; i++) w->outputs.data[i] = fact->values[i].type;
    uint64_t work;
    return *out_constant ? hyp_rw_folds(w->rw, n, fact->values, fact->count, out_constant, &work, w->diag) : HYP_OK;
}

/* What the constants that an e-node reads cost, where it is decided how they are computed. */
static double constant_cost(const hyp_rw_weigh *w, const hyp_rw_node *n)
{
    double operators = 0;
    for (uint32_t i = 0; i < n->input_count; i++) {
        hyp_class_id c = hyp_egraph_find(w->rw->eg, n->inputs[i]);
        if (c < w->constants.bound && w->constants.form[c] != HYP_NONE) operators += w->constants.operators[c];
    }
    return operators * (w->by_form ? CONSTANT_WEIGHT : CONSTANT_SECONDS);
}

/* The question about an e-node, whose lists are in w; *out_asks: there is one, else *out_cost is what it costs. */
static hyp_status ask(hyp_rw_weigh *w, hyp_enode_id node, hyp_rw_node *n, hyp_cost_query *out, bool *out_asks,
                      double *out_cost)
{
    hyp_class_id c = hyp_enode_class(w->rw->eg, node);
    hyp_rw_shape shape;
    uint32_t index;
    bool constant;
    *out_asks = false;
    *out_cost = 0;
    if (c < w->constants.bound && w->constants.form[c] != HYP_NONE) {
        *out_cost = w->constants.form[c] == node ? 0 : INFINITY;
        return HYP_OK;
    }
    HYP_TRY(hyp_rw_inspect(w->rw, node, &shape, &index, n, w->diag));
    if (shape != HYP_RW_IS_OP) return HYP_OK;
    HYP_TRY(describe(w, n, c, &constant));
    *out_asks = !constant;
    *out_cost = w->by_form ? CONSTANT_WEIGHT : CONSTANT_SECONDS;
    *out = (hyp_cost_query){.op = n->op,
                            .attrs = n->attrs,
                            .inputs = w->inputs.data,
                            .input_const = w->input_const.data,
                            .input_count = n->input_count,
                            .outputs = w->outputs.data,
                            .output_count = hyp_rw_fact_of(w->rw, c)->count,
                            .dims = w->rw->dims};
    out->joined = is_joined(w, c);
    out->input_joined = w->input_joined.data;
    if (w->parts_in_place && c < w->bound)
        out->in_place = w->parts_in_place[c] < out->output_count ? w->parts_in_place[c] : out->output_count;
    if (w->parts_shown && c < w->bound)
        out->shown = w->parts_shown[c] < out->output_count ? w->parts_shown[c] : out->output_count;
    return HYP_OK;
}

/* Does it cut channels out of images, at a cost? What is read where it lies takes no launch. */
static bool cuts_image(const hyp_cost_query *q, double cost)
{
    const double view = 1e-9;
    return (q->op == HYP_OP_split || q->op == HYP_OP_slice) && cost > view && q->inputs[0] &&
           hyp_rw_cuts_channels(q->inputs[0], &q->outputs[0]);
}

bool hyp_rw_cuts_images(const hyp_graph *g)
{
    for (size_t i = 0; i < g->nodes.len; i++) {
        const hyp_node *n = &g->nodes.data[i];
        if ((n->op == HYP_OP_split || n->op == HYP_OP_slice) &&
            hyp_rw_cuts_channels(&g->values.data[n->inputs[0]].type, &g->values.data[n->outputs[0]].type))
            return true;
    }
    return false;
}

static bool is_joint(const hyp_rw_weigh *w, hyp_enode_id node)
{
    hyp_class_id c = hyp_egraph_find(w->rw->eg, hyp_enode_class(w->rw->eg, node));
    return c < w->bound && w->joint[c];
}

double hyp_rw_node_cost(hyp_egraph *eg, hyp_enode_id node, void *weigh)
{
    (void)eg;
    hyp_rw_weigh *w = weigh;
    hyp_rw_node n;
    hyp_cost_query query;
    bool asks;
    double cost;
    hyp_status status = ask(w, node, &n, &query, &asks, &cost);
    if (status != HYP_OK) {
        if (w->status == HYP_OK) w->status = status;
        return INFINITY;
    }
    if (!asks) return cost;
    cost = w->cost(&query, w->user);
    double once = constant_cost(w, &n);
    if (w->by_form) return weight(&n, w) + once + (cost >= HYP_COST_UNSUPPORTED ? HYP_COST_UNSUPPORTED : 0);
    if (!(cost >= 0)) return INFINITY; /* a NaN is no answer */
    if (cuts_image(&query, cost)) {
        w->cuts_images = true;
        cost += w->whole_images ? HYP_COST_UNSUPPORTED : 0;
    }
    if (w->leave_apart && is_joint(w, node)) cost += HYP_COST_UNSUPPORTED;
    return cost + once + (hyp_op_get(n.op)->flags & HYP_OPF_FUSED ? TIE_SECONDS : 0);
}

double hyp_rw_node_share(hyp_rw_weigh *w, hyp_enode_id node, hyp_cost_fn share)
{
    hyp_rw_node n;
    hyp_cost_query query;
    bool asks = false;
    double cost;
    hyp_status status = ask(w, node, &n, &query, &asks, &cost);
    if (status != HYP_OK && w->status == HYP_OK) w->status = status;
    return asks ? share(&query, w->user) : 0;
}

/* ---- graphs --------------------------------------------------------------------------------------- */

static hyp_status add_node_cost(const hyp_graph *g, const hyp_node *n, const bool *constant, const bool *read,
                                const bool *shown, hyp_rw_weigh *w, double *cost, size_t *nodes)
{
    bool all = true;
    uint32_t in_place = 0, copied = 0;
    HYP_TRY(hyp_vec_reserve(&w->inputs, n->input_count + 1, w->diag));
    HYP_TRY(hyp_vec_reserve(&w->input_const, n->input_count + 1, w->diag));
    HYP_TRY(hyp_vec_reserve(&w->outputs, n->output_count + 1, w->diag));
    for (uint32_t i = 0; i < n->input_count; i++) {
        bool absent = n->inputs[i] == HYP_NO_VALUE;
        w->inputs.data[i] = absent ? NULL : &g->values.data[n->inputs[i]].type;
        w->input_const.data[i] = absent || constant[n->inputs[i]];
        all = all && w->input_const.data[i];
    }
    for (uint32_t i = 0; i < n->output_count; i++) {
        all = all && constant[n->outputs[i]];
        in_place += read[n->outputs[i]];
        copied += shown[n->outputs[i]];
        w->outputs.data[i] = g->values.data[n->outputs[i]].type;
    }
    if (all) return HYP_OK;
    hyp_cost_query query = {.op = n->op,
                            .attrs = n->attrs,
                            .inputs = w->inputs.data,
                            .input_const = w->input_const.data,
                            .input_count = n->input_count,
                            .outputs = w->outputs.data,
                            .output_count = n->output_count,
                            .in_place = in_place,
                            .shown = copied,
                            .dims = g->dims};
    *cost += w->cost(&query, w->user);
    if (!(hyp_op_get(n->op)->flags & HYP_OPF_VIEW)) ++*nodes;
    return HYP_OK;
}

hyp_status hyp_rw_graph_cost(const hyp_graph *g, const hyp_fold_budget *fold, hyp_cost_fn cost, void *user,
                             double *out_cost, size_t *out_nodes, hyp_diag *diag)
{
    hyp_rw_weigh w = {.cost = cost, .user = user, .diag = diag};
    bool *constant = hyp_calloc(3 * g->values.len + 1, sizeof *constant), *read = NULL, *shown = NULL;
    hyp_status status = constant ? HYP_OK : hyp_fail_memory(diag, 3 * g->values.len);
    double sum = 0;
    size_t nodes = 0;
    if (status == HYP_OK) status = hyp_constants_find(g, fold, constant, diag);
    if (status == HYP_OK) {
        read = constant + g->values.len;
        shown = read + g->values.len;
        hyp_rw_find_in_place_values(g, read, shown);
    }
    for (size_t i = 0; status == HYP_OK && i < g->nodes.len; i++)
        status = add_node_cost(g, &g->nodes.data[i], constant, read, shown, &w, &sum, &nodes);
    hyp_free(constant);
    hyp_rw_weigh_dispose(&w);
    *out_cost = sum;
    *out_nodes = nodes;
    return status;
}
