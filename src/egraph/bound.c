/* The relaxation: an answer without cycles that has each child in use that a chosen node needs, per pair of class and
 * child, with the last condition put into the costs by multipliers (`share`). Each class is then priced by
 * itself. The multipliers are improved by subgradient steps (Held, Wolfe, Crowder 1974), smoothed. */
#include "egraph/exact.h"

#include <math.h>
#include <string.h>

#define SMOOTH 0.3   /* weight of the newest subgradient */
#define FORGET 0.02  /* weight of the newest relaxed answer in `used` */
#define PATIENCE 12  /* steps without a better bound before steps get shorter */

/* Numbers the pairs of class and child. */
static hyp_status number_edges(hyp_bound *b, hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    size_t n = p->class_count;
    uint32_t *seen = hyp_malloc(2 * n * sizeof *seen), *edge_at = seen + n; /* by child: last class, its edge */
    if (!seen) return hyp_fail_memory(diag, 2 * n * sizeof *seen);
    memset(seen, 0xff, n * sizeof *seen);
    for (uint32_t c = 0; c < n; c++)
        for (uint32_t i = p->kid_at[p->first[c]]; i < p->kid_at[p->first[c + 1]]; i++) {
            uint32_t kid = p->kids[i];
            if (seen[kid] != c) {
                seen[kid] = c;
                edge_at[kid] = b->edge_count;
                b->edge_kid[b->edge_count++] = kid;
            }
            b->edge[i] = edge_at[kid];
        }
    hyp_free(seen);
    return HYP_OK;
}

static double price_node(const hyp_bound *b, const double *share, uint32_t n)
{
    const hyp_problem *p = b->p;
    double sum = p->cost[n];
    for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) sum += share[b->edge[i]];
    return sum;
}

static void price_class(hyp_bound *b, uint32_t c)
{
    b->price[c] = INFINITY;
    for (uint32_t n = b->p->first[c]; n < b->p->first[c + 1]; n++) {
        double sum = price_node(b, b->share, n);
        if (sum >= b->price[c]) continue;
        b->price[c] = sum;
        b->least[c] = n;
    }
}

static double value_of(const hyp_bound *b, uint32_t c)
{
    double v = b->price[c] - b->paid[c];
    return b->root[c] || v < 0 ? v : 0;
}

/* Prices all classes; sets chosen and value. */
static void evaluate(hyp_bound *b)
{
    const hyp_problem *p = b->p;
    b->value = 0;
    memset(b->paid, 0, p->class_count * sizeof *b->paid);
    for (uint32_t e = 0; e < b->edge_count; e++) b->paid[b->edge_kid[e]] += b->share[e];
    for (uint32_t c = 0; c < p->class_count; c++) {
        price_class(b, c);
        b->chosen[c] = b->root[c] || b->price[c] < b->paid[c];
        b->value += value_of(b, c);
    }
    if (b->value > b->best) {
        b->best = b->value;
        memcpy(b->best_share, b->share, b->edge_count * sizeof *b->share);
    }
}

/* Classes in order of tree cost split their price equally over the classes that use them. */
static hyp_status first_shares(hyp_bound *b, hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    size_t n = p->class_count;
    double *weight = hyp_malloc(n * sizeof *weight);
    uint32_t *words = hyp_calloc(3 * n + 1 + b->edge_count, sizeof *words), *tree = words, *users = words + n;
    uint32_t *waiting = hyp_malloc(p->node_count * sizeof *waiting);
    hyp_status status = weight && words && waiting ? HYP_OK : hyp_fail_memory(diag, n * sizeof *weight);
    if (status == HYP_OK) status = hyp_solve_tree(p, true, tree, weight, diag);
    for (uint32_t e = 0; e < b->edge_count && status == HYP_OK; e++) users[b->edge_kid[e]]++;
    /* A pass over the classes in order of first satisfaction: a class is priced when its tree's node is ready. */
    uint32_t *queue = words + 2 * n, head = 0, tail = 0;
    for (uint32_t m = 0; m < p->node_count && status == HYP_OK; m++) {
        waiting[m] = p->kid_at[m + 1] - p->kid_at[m];
        if (!waiting[m] && tree[p->owner[m]] == m) queue[tail++] = p->owner[m];
    }
    while (head < tail) {
        uint32_t c = queue[head++];
        price_class(b, c);
        double part = b->root[c] || !users[c] ? 0 : b->price[c] / users[c];
        for (uint32_t i = p->up_at[c]; i < p->up_at[c + 1]; i++) {
            uint32_t m = p->up[i];
            for (uint32_t k = p->kid_at[m]; k < p->kid_at[m + 1]; k++)
                if (p->kids[k] == c) b->share[b->edge[k]] = part;
            if (--waiting[m] == 0 && tree[p->owner[m]] == m) queue[tail++] = p->owner[m];
        }
    }
    hyp_free(weight);
    hyp_free(words);
    hyp_free(waiting);
    return status;
}

hyp_status hyp_bound_begin(hyp_bound *b, const hyp_problem *p, hyp_diag *diag)
{
    size_t n = p->class_count, kids = p->kid_at[p->node_count];
    *b = (hyp_bound){.p = p, .best = -INFINITY, .step = 1};
    b->edge = hyp_malloc(kids * sizeof *b->edge);
    b->edge_kid = hyp_malloc(kids * sizeof *b->edge_kid);
    b->share = hyp_calloc(kids, sizeof *b->share);
    b->best_share = hyp_calloc(kids, sizeof *b->share);
    b->direction = hyp_calloc(kids, sizeof *b->direction);
    b->used = hyp_calloc(p->node_count, sizeof *b->used);
    b->price = hyp_malloc(n * sizeof *b->price);
    b->paid = hyp_malloc(n * sizeof *b->paid);
    b->least = hyp_malloc(n * sizeof *b->least);
    b->chosen = hyp_calloc(n, 1);
    b->root = hyp_calloc(n, 1);
    if (!b->edge || !b->edge_kid || !b->share || !b->best_share || !b->direction || !b->used || !b->price || !b->paid ||
        !b->least || !b->chosen || !b->root)
        return hyp_fail_memory(diag, kids * sizeof *b->share);
    for (uint32_t i = 0; i < p->root_count; i++) b->root[p->roots[i]] = 1;
    HYP_TRY(number_edges(b, diag));
    HYP_TRY(first_shares(b, diag));
    evaluate(b);
    return HYP_OK;
}

void hyp_bound_end(hyp_bound *b)
{
    hyp_free(b->edge);
    hyp_free(b->edge_kid);
    hyp_free(b->share);
    hyp_free(b->best_share);
    hyp_free(b->direction);
    hyp_free(b->used);
    hyp_free(b->price);
    hyp_free(b->paid);
    hyp_free(b->least);
    hyp_free(b->chosen);
    hyp_free(b->root);
}

void hyp_bound_step(hyp_bound *b, double target)
{
    const hyp_problem *p = b->p;
    double norm = 0, before = b->best;
    for (uint32_t e = 0; e < b->edge_count; e++)
        b->direction[e] = (1 - SMOOTH) * b->direction[e] - SMOOTH * b->chosen[b->edge_kid[e]];
    for (uint32_t c = 0; c < p->class_count; c++) {
        if (!b->chosen[c]) continue;
        uint32_t n = b->least[c];
        b->used[n] += FORGET;
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) b->direction[b->edge[i]] += SMOOTH;
    }
    for (uint32_t n = 0; n < p->node_count; n++) b->used[n] *= 1 - FORGET;
    for (uint32_t e = 0; e < b->edge_count; e++) {
        if (b->direction[e] < 0 && b->share[e] == 0) continue;
        norm += b->direction[e] * b->direction[e];
    }
    if (norm < 1e-18) return;
    double length = b->step * (fmax(target, b->best) - b->value + 1e-9 * fabs(target)) / norm;
    for (uint32_t e = 0; e < b->edge_count; e++) b->share[e] = fmax(0, b->share[e] + length * b->direction[e]);
    evaluate(b);
    if (b->best > before + 1e-9 * fabs(before))
        b->step = fmin(2, b->step * 1.05);
    else
        b->step *= 1 - 0.5 / PATIENCE;
}

uint32_t hyp_bound_fix(hyp_bound *b, double limit, double *cost, unsigned char *required)
{
    const hyp_problem *p = b->p;
    uint32_t found = 0;
    memcpy(b->share, b->best_share, b->edge_count * sizeof *b->share);
    evaluate(b);
    for (uint32_t c = 0; c < p->class_count; c++) {
        double others = b->value - value_of(b, c);
        if (!b->root[c] && others >= limit && !required[c]) {
            required[c] = 1;
            found++;
        }
        for (uint32_t n = p->first[c]; n < p->first[c + 1]; n++) {
            if (others + price_node(b, b->share, n) - b->paid[c] < limit) continue;
            cost[n] = INFINITY;
            found++;
        }
    }
    return found;
}
