/* Local search: one class at a time gives up its node, what only that node needed is given up with it, and the
 * node that is cheapest to put in its place is taken, what is in use anyway being free.
 *
 * Why the answer stays acyclic: a class that comes into use brings either the choice that it had (which leads
 * to classes that were in use) or its spare choice (which leads to spare ones or those), so a cycle can only
 * go through the class whose node is exchanged, and that is checked. */
#include <math.h>

#include "egraph/extract/problem.h"

typedef struct improver {
    const hyp_problem *p;
    const uint32_t *component, *spare;
    uint32_t *choice;                        /* of a class that is not in use: its spare */
    uint32_t *uses;                          /* by class: chosen nodes and roots that need it */
    uint32_t *mark, stamp;                   /* by class */
    HYP_VEC(uint32_t) stack, dropped, taken; /* classes; the last two: whose uses changed, in order */
    uint64_t work;                           /* left */
    bool rewards;                            /* costs may be negative: a sum may fall again */
} improver;

static hyp_status push_kids(improver *v, uint32_t node, hyp_diag *diag)
{
    const hyp_problem *p = v->p;
    uint32_t count = p->kid_at[node + 1] - p->kid_at[node];
    HYP_TRY(hyp_vec_reserve(&v->stack, v->stack.len + count, diag));
    for (uint32_t i = p->kid_at[node]; i < p->kid_at[node + 1]; i++) v->stack.data[v->stack.len++] = p->kids[i];
    v->work -= v->work < count ? v->work : count;
    return HYP_OK;
}

/* Gives up the children of a node; *sum grows by what is not in use any more. */
static hyp_status drop_kids(improver *v, uint32_t node, double *sum, hyp_diag *diag)
{
    v->stack.len = v->dropped.len = 0;
    HYP_TRY(push_kids(v, node, diag));
    while (v->stack.len) {
        uint32_t c = v->stack.data[--v->stack.len];
        HYP_TRY(hyp_vec_push(&v->dropped, diag, c));
        if (--v->uses[c]) continue;
        *sum += v->p->cost[v->choice[c]];
        HYP_TRY(push_kids(v, v->choice[c], diag));
    }
    return HYP_OK;
}

/* Takes the children of a node into use; *sum grows by what was not in use. Stops when *sum reaches `enough`. */
static hyp_status take_kids(improver *v, uint32_t node, double enough, double *sum, hyp_diag *diag)
{
    v->stack.len = v->taken.len = 0;
    HYP_TRY(push_kids(v, node, diag));
    while (v->stack.len && *sum < enough) {
        uint32_t c = v->stack.data[--v->stack.len];
        HYP_TRY(hyp_vec_push(&v->taken, diag, c));
        if (v->uses[c]++) continue;
        *sum += v->p->cost[v->choice[c]];
        HYP_TRY(push_kids(v, v->choice[c], diag));
    }
    return HYP_OK;
}

/* Whether class c can be reached from the children of a node. */
static hyp_status reaches(improver *v, uint32_t node, uint32_t c, bool *out, hyp_diag *diag)
{
    *out = false;
    v->stamp++;
    v->stack.len = 0;
    HYP_TRY(push_kids(v, node, diag));
    while (v->stack.len) {
        uint32_t at = v->stack.data[--v->stack.len];
        if (v->component[at] != v->component[c] || v->mark[at] == v->stamp) continue;
        if (at == c) {
            *out = true;
            return HYP_OK;
        }
        v->mark[at] = v->stamp;
        HYP_TRY(push_kids(v, v->choice[at], diag));
    }
    return HYP_OK;
}

static hyp_status improve_class(improver *v, uint32_t c, double *cost, bool *out_changed, hyp_diag *diag)
{
    const hyp_problem *p = v->p;
    uint32_t old = v->choice[c], best = old;
    double freed = p->cost[old];
    HYP_TRY(drop_kids(v, old, &freed, diag));
    double least = freed - 1e-12 * fabs(*cost);
    for (uint32_t n = p->first[c]; n < p->first[c + 1]; n++) {
        if (n == old || (p->cost[n] >= least && !v->rewards)) continue;
        double added = p->cost[n];
        bool cyclic = true;
        HYP_TRY(take_kids(v, n, v->rewards ? INFINITY : least, &added, diag));
        for (size_t i = 0; i < v->taken.len; i++) v->uses[v->taken.data[i]]--;
        if (added < least) HYP_TRY(reaches(v, n, c, &cyclic, diag));
        if (cyclic) continue;
        best = n;
        least = added;
    }
    if (best == old) {
        for (size_t i = 0; i < v->dropped.len; i++) v->uses[v->dropped.data[i]]++;
        return HYP_OK;
    }
    double added = p->cost[best];
    HYP_TRY(take_kids(v, best, INFINITY, &added, diag));
    v->choice[c] = best;
    for (size_t i = 0; i < v->dropped.len; i++) {
        uint32_t d = v->dropped.data[i];
        if (!v->uses[d]) v->choice[d] = v->spare[d];
    }
    *cost += added - freed;
    *out_changed = true;
    return HYP_OK;
}

static hyp_status begin(improver *v, hyp_diag *diag)
{
    const hyp_problem *p = v->p;
    double cost = 0;
    for (uint32_t i = 0; i < p->root_count; i++)
        if (!v->uses[p->roots[i]]++) {
            HYP_TRY(take_kids(v, v->choice[p->roots[i]], INFINITY, &cost, diag));
        }
    for (uint32_t c = 0; c < p->class_count; c++)
        if (!v->uses[c]) v->choice[c] = v->spare[c];
    return HYP_OK;
}

static hyp_status run(improver *v, double *cost, hyp_diag *diag)
{
    HYP_TRY(begin(v, diag));
    for (bool changed = true; changed && v->work;) {
        changed = false;
        for (uint32_t c = 0; c < v->p->class_count && v->work; c++)
            if (v->uses[c] && v->p->first[c + 1] - v->p->first[c] > 1)
                HYP_TRY(improve_class(v, c, cost, &changed, diag));
    }
    return HYP_OK;
}

hyp_status hyp_improve(const hyp_problem *p, const uint32_t *component, const uint32_t *spare, uint32_t *choice,
                       uint64_t work, double *cost, hyp_diag *diag)
{
    size_t n = p->class_count;
    improver v = {.p = p,
                  .component = component,
                  .spare = spare,
                  .choice = choice,
                  .work = work,
                  .uses = hyp_calloc(n, sizeof *v.uses),
                  .mark = hyp_calloc(n, sizeof *v.mark)};
    for (uint32_t i = 0; i < p->node_count; i++) v.rewards = v.rewards || p->cost[i] < 0;
    hyp_status status = v.uses && v.mark ? run(&v, cost, diag) : hyp_fail_memory(diag, n * sizeof *v.uses);
    if (status == HYP_OK) status = hyp_problem_price(p, choice, false, cost, NULL, diag);
    hyp_free(v.uses);
    hyp_free(v.mark);
    hyp_vec_free(&v.stack);
    hyp_vec_free(&v.dropped);
    hyp_vec_free(&v.taken);
    return status;
}
