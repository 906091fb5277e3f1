/* Elementwise operators that a reader's kernel computes: a plan has one kernel for a group of them (codegen/analysis.c), so
 * that most cost neither a launch nor a pass. */
#include <string.h>

#include "rewrite/internal.h"

static bool is_elementwise(hyp_op op)
{
    return (hyp_op_get(op)->flags & (HYP_OPF_ELEMENTWISE | HYP_OPF_VIEW)) == HYP_OPF_ELEMENTWISE;
}

static bool same_shape(const hyp_rw_fact *a, const hyp_rw_fact *b)
{
    if (a->kind != HYP_RW_TENSOR || b->kind != HYP_RW_TENSOR) return false;
    const hyp_type *x = &a->values[0].type, *y = &b->values[0].type;
    return x->rank == y->rank && memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0;
}

/* By class. */
typedef struct finder {
    hyp_rw *rw;
    bool *computed; /* by an elementwise operator */
    bool *joined;   /* and read by another one of the same shape */
} finder;

static hyp_status visit_result(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n)
{
    (void)node;
    finder *f = user;
    if (shape == HYP_RW_IS_OP && is_elementwise(n->op)) f->computed[c] = true;
    return HYP_OK;
}

static hyp_status visit_inputs(void *user, hyp_enode_id node, hyp_class_id c, hyp_rw_shape shape, const hyp_rw_node *n)
{
    (void)node;
    finder *f = user;
    for (uint32_t i = 0; shape == HYP_RW_IS_OP && is_elementwise(n->op) && i < n->input_count; i++) {
        hyp_class_id input = hyp_egraph_find(f->rw->eg, n->inputs[i]);
        if (input != c && f->computed[input] && same_shape(hyp_rw_fact_of(f->rw, input), hyp_rw_fact_of(f->rw, c)))
            f->joined[input] = true;
    }
    return HYP_OK;
}

hyp_status hyp_rw_find_joined(hyp_rw_weigh *weigh, bool *out_any)
{
    size_t bound = hyp_egraph_enode_bound(weigh->rw->eg);
    finder f = {.rw = weigh->rw};
    f.computed = hyp_calloc(bound + 1, sizeof *f.computed);
    f.joined = hyp_calloc(bound + 1, sizeof *f.joined);
    hyp_status status = f.computed && f.joined ? HYP_OK : hyp_fail_memory(weigh->diag, bound);
    if (status == HYP_OK) status = hyp_rw_visit_nodes(f.rw, visit_result, &f, weigh->diag);
    if (status == HYP_OK) status = hyp_rw_visit_nodes(f.rw, visit_inputs, &f, weigh->diag);
    hyp_free(f.computed);
    *out_any = status == HYP_OK && memchr(f.joined, true, bound) != NULL;
    if (*out_any) {
        weigh->joined = f.joined;
        weigh->bound = bound;
    } else {
        hyp_free(f.joined);
    }
    return status;
}
