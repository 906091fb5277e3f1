/* Which e-nodes become the graph: those of least cost as a whole, values with several users counted once. */
#include <math.h>

#include "rewrite/internal.h"

/* How far the search for the least cost goes, in its own steps: less than a tenth of a second. Counted rather than timed, so
 * that the same model gives the same plan on every machine. Models of people are proven in a fraction of this; of a chain
 * of products the best order is found long before it could be proven. */
#define SEARCH_WORK UINT64_C(10000000)

typedef struct search {
    hyp_rw_weigh *weigh;
    hyp_enode_id forced; /* an e-node that must be chosen, or HYP_NONE */
} search;

static double cost_of(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    search *s = user;
    bool decided = s->forced != HYP_NONE && hyp_enode_class(eg, s->forced) == hyp_enode_class(eg, node);
    return decided && node != s->forced ? INFINITY : hyp_rw_node_cost(eg, node, s->weigh);
}

hyp_status hyp_rw_extract(hyp_rw *rw, hyp_rw_weigh *weigh, hyp_enode_id forced, hyp_extraction *out, hyp_diag *diag)
{
    const hyp_graph *in = rw->in;
    search s = {weigh, forced};
    hyp_extract_options options = {
        .size = sizeof options,
        .method = hyp_limit_reached(rw->limit) ? HYP_EXTRACT_DAG : HYP_EXTRACT_EXACT,
        .budget_work = SEARCH_WORK,
        .stop = hyp_limit_reached,
        .stop_user = rw->limit};
    size_t count = 0;
    hyp_class_id *wanted = hyp_malloc((in->outputs.len + 1) * sizeof *wanted);
    if (!wanted) return hyp_fail_memory(diag, in->outputs.len * sizeof *wanted);
    hyp_status status = hyp_rw_choose_constants(weigh, diag);
    if (forced != HYP_NONE && status == HYP_OK && hyp_rw_fact_of(rw, hyp_enode_class(rw->eg, forced))->constant)
        weigh->constants.form[hyp_enode_class(rw->eg, forced)] = forced;
    while (count < in->outputs.len) {
        wanted[count] = hyp_egraph_find(rw->eg, rw->class_of[in->outputs.data[count].value]);
        count++;
    }
    if (forced != HYP_NONE) wanted[count++] = hyp_enode_class(rw->eg, forced);
    if (status == HYP_OK)
        status = hyp_egraph_extract_with(rw->eg, wanted, count, &options, cost_of, &s, out, diag);
    hyp_free(wanted);
    if (weigh->status == HYP_OK) return status;
    if (status == HYP_OK) hyp_extraction_dispose(out);
    return weigh->status;
}
