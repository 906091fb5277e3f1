/* What extraction may put together that the graph had apart: values which the graph had not, and which are there to be cut
 * into parts, as the results of several layers are, or made of parts, as inputs side by side are. */
#include "rewrite/internal.h"

static hyp_status visit(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n)
{
    (void)node;
    hyp_rw_weigh *w = user;
    if (shape != HYP_RW_IS_OP) return HYP_OK;
    hyp_class_id joint = n->op == HYP_OP_concat                           ? c
                         : n->op == HYP_OP_split || n->op == HYP_OP_slice ? hyp_egraph_find(w->rw->eg, n->inputs[0])
                                                                          : HYP_NONE;
    if (joint != HYP_NONE && !hyp_rw_fact_of(w->rw, joint)->constant) w->joint[joint] = true;
    return HYP_OK;
}

hyp_status hyp_rw_find_joint(hyp_rw_weigh *weigh)
{
    hyp_rw *rw = weigh->rw;
    size_t bound = hyp_egraph_enode_bound(rw->eg);
    if (weigh->joint) return HYP_OK;
    weigh->joint = hyp_calloc(bound + 1, sizeof *weigh->joint);
    if (!weigh->joint) return hyp_fail_memory(weigh->diag, bound);
    weigh->bound = bound;
    HYP_TRY(hyp_rw_visit_nodes(rw, visit, weigh, weigh->diag));
    for (size_t v = 0; v < rw->in->values.len; v++)
        if (rw->class_of[v] != HYP_NONE) weigh->joint[hyp_egraph_find(rw->eg, rw->class_of[v])] = false;
    return HYP_OK;
}
