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

/* Notes what an e-node of class c says: with `computed` NULL that c is computed by such an operator, else that those of
 * its inputs which are may be computed with it. */
static void note(hyp_rw *rw, hyp_class_id c, const hyp_rw_node *n, const bool *computed, bool *out)
{
    if (!is_elementwise(n->op)) return;
    if (!computed) out[c] = true;
    for (uint32_t i = 0; computed && i < n->input_count; i++) {
        hyp_class_id input = hyp_egraph_find(rw->eg, n->inputs[i]);
        if (input != c && computed[input] && same_shape(hyp_rw_fact_of(rw, input), hyp_rw_fact_of(rw, c))) out[input] = true;
    }
}

static hyp_status visit_all(hyp_rw *rw, size_t bound, const bool *computed, bool *out, hyp_diag *diag)
{
    for (hyp_class_id c = 0; c < bound; c++) {
        size_t count;
        if (hyp_egraph_find(rw->eg, c) != c) continue;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(rw->eg, c, &count);
        for (size_t i = 0; i < count; i++) {
            hyp_rw_shape shape;
            hyp_rw_node n;
            uint32_t index;
            HYP_TRY(hyp_rw_inspect(rw, nodes[i], &shape, &index, &n, diag));
            if (shape == HYP_RW_IS_OP) note(rw, c, &n, computed, out);
        }
    }
    return HYP_OK;
}

hyp_status hyp_rw_find_joined(hyp_rw_weigh *weigh, bool *out_any)
{
    size_t bound = hyp_egraph_enode_bound(weigh->rw->eg);
    bool *computed = hyp_calloc(bound + 1, sizeof *computed), *joined = hyp_calloc(bound + 1, sizeof *joined);
    hyp_status status = computed && joined ? HYP_OK : hyp_fail_memory(weigh->diag, bound);
    if (status == HYP_OK) status = visit_all(weigh->rw, bound, NULL, computed, weigh->diag);
    if (status == HYP_OK) status = visit_all(weigh->rw, bound, computed, joined, weigh->diag);
    hyp_free(computed);
    *out_any = status == HYP_OK && memchr(joined, true, bound) != NULL;
    if (*out_any)
        weigh->joined = joined;
    else
        hyp_free(joined);
    return status;
}
