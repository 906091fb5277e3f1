/* Least tree costs, after Knuth, "A generalization of Dijkstra's algorithm" (1977): classes are settled in order
 * of their cost, and a node is weighed when its last child is settled. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "egraph/extract/problem.h"

typedef struct candidate {
    double weight;
    uint32_t node;
} candidate;

typedef struct node_state {
    double weight;    /* of its settled children */
    uint32_t settled; /* children settled, by place */
} node_state;

typedef struct class_state {
    double weight;   /* of the choice */
    uint32_t choice; /* best node so far + 1, 0 before */
    bool settled, root;
} class_state;

typedef struct tree_solver {
    const hyp_problem *p;
    node_state *nodes;
    class_state *classes;
    HYP_VEC(candidate) heap;
    HYP_VEC(double) kids; /* what the children cost, for p->tree_cost */
} tree_solver;

/* Least weight first, then the lower node. */
static bool before(candidate a, candidate b)
{
    return a.weight < b.weight || (a.weight == b.weight && a.node < b.node);
}

static hyp_status heap_push(tree_solver *t, candidate c, hyp_diag *diag)
{
    HYP_TRY(hyp_vec_grow(&t->heap, diag));
    candidate *h = t->heap.data;
    size_t i = t->heap.len - 1;
    for (; i > 0 && before(c, h[(i - 1) / 2]); i = (i - 1) / 2) h[i] = h[(i - 1) / 2];
    h[i] = c;
    return HYP_OK;
}

static candidate heap_pop(tree_solver *t)
{
    candidate *h = t->heap.data, top = h[0], last = h[--t->heap.len];
    size_t i = 0, n = t->heap.len;
    for (;;) {
        size_t kid = 2 * i + 1;
        if (kid >= n) break;
        if (kid + 1 < n && before(h[kid + 1], h[kid])) kid++;
        if (!before(h[kid], last)) break;
        h[i] = h[kid];
        i = kid;
    }
    h[i] = last;
    return top;
}

/* What a node's tree costs by the problem's own function. */
static hyp_status ask_cost(tree_solver *t, uint32_t n, double *out, hyp_diag *diag)
{
    const hyp_problem *p = t->p;
    uint32_t count = p->kid_at[n + 1] - p->kid_at[n];
    double most = 0;
    HYP_TRY(hyp_vec_reserve(&t->kids, count, diag));
    for (uint32_t i = 0; i < count; i++) {
        double kid = t->kids.data[i] = t->classes[p->kids[p->kid_at[n] + i]].weight;
        if (kid > most) most = kid;
    }
    *out = p->tree_cost(p->tree_user, n, t->kids.data, count);
    if (*out >= most) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                    "a term costs %g and one of its children %g; a cost is at least 0 and at least that of each child",
                    *out, most);
}

/* A node whose children are all settled. */
static hyp_status weigh(tree_solver *t, uint32_t n, double weight, hyp_diag *diag)
{
    class_state *c = &t->classes[t->p->owner[n]];
    double all = weight + t->p->cost[n];
    if (c->settled || isinf(t->p->cost[n])) return HYP_OK;
    if (t->p->tree_cost) HYP_TRY(ask_cost(t, n, &all, diag));
    if (isinf(all) && t->p->tree_cost) return HYP_OK;
    if (all > DBL_MAX) all = DBL_MAX; /* a tree may be larger than a double; it is finite all the same */
    if (c->choice && !before((candidate){all, n}, (candidate){c->weight, c->choice - 1})) return HYP_OK;
    c->choice = n + 1;
    c->weight = all;
    return heap_push(t, (candidate){all, n}, diag);
}

static hyp_status settle(tree_solver *t, uint32_t c, hyp_diag *diag)
{
    const hyp_problem *p = t->p;
    double weight = t->classes[c].weight;
    t->classes[c].settled = true;
    for (uint32_t i = p->up_at[c]; i < p->up_at[c + 1]; i++) {
        uint32_t n = p->up[i];
        node_state *s = &t->nodes[n];
        s->weight += weight;
        if (++s->settled == p->kid_at[n + 1] - p->kid_at[n]) HYP_TRY(weigh(t, n, s->weight, diag));
    }
    return HYP_OK;
}

static hyp_status run(tree_solver *t, bool all, hyp_diag *diag)
{
    const hyp_problem *p = t->p;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < p->root_count; i++) {
        missing += !t->classes[p->roots[i]].root;
        t->classes[p->roots[i]].root = true;
    }
    for (uint32_t n = 0; n < p->node_count; n++)
        if (p->kid_at[n] == p->kid_at[n + 1]) HYP_TRY(weigh(t, n, 0, diag));
    while (t->heap.len && (missing || all)) {
        uint32_t c = p->owner[heap_pop(t).node];
        if (t->classes[c].settled) continue; /* by a better node that was weighed later */
        missing -= t->classes[c].root;
        HYP_TRY(settle(t, c, diag));
    }
    for (uint32_t i = 0; i < p->root_count && missing; i++)
        if (!t->classes[p->roots[i]].settled)
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "root %u has no term of finite cost", i);
    return HYP_OK;
}

hyp_status hyp_solve_tree(const hyp_problem *p, bool all, uint32_t *choice, double *weight, hyp_diag *diag)
{
    tree_solver t = {.p = p,
                     .nodes = hyp_calloc(p->node_count, sizeof *t.nodes),
                     .classes = hyp_calloc(p->class_count, sizeof *t.classes)};
    hyp_status status =
        t.nodes && t.classes ? run(&t, all, diag) : hyp_fail_memory(diag, p->node_count * sizeof *t.nodes);
    for (uint32_t c = 0; c < p->class_count && status == HYP_OK; c++) {
        choice[c] = t.classes[c].settled ? t.classes[c].choice - 1 : HYP_NONE;
        if (weight) weight[c] = t.classes[c].settled ? t.classes[c].weight : INFINITY;
    }
    hyp_free(t.nodes);
    hyp_free(t.classes);
    hyp_vec_free(&t.heap);
    hyp_vec_free(&t.kids);
    return status;
}
