/* A small DAG cost by cost sets: each class keeps the nodes that its best answer so far consists of, and what it
 * costs is the sum over the set, so shared work counts once. Classes are weighed anew when a child got better,
 * in the order of a queue, as the greedy extractors of the extraction gym do. A set is a plain array of nodes;
 * a union marks classes in an array by class, and most are refused before any set is looked at. */
#include <math.h>
#include <string.h>

#include "egraph/extract/problem.h"

/* Elements looked at in sets, after which the rest keeps its choice of least tree cost. */
#define SET_WORK (UINT64_C(1) << 27)
#define GREEDY_ROUNDS 6              /* of improving */
#define SET_LIVE (UINT64_C(1) << 22) /* elements held in sets, with the same end */

typedef struct node_set {
    size_t at; /* in the pool */
    uint32_t len;
    double total;
} node_set;

typedef struct greedy {
    const hyp_problem *p;
    uint32_t *choice;
    node_set *sets;        /* by class; len 0 = none yet */
    uint32_t *mark, stamp; /* by class */
    uint32_t *queue;       /* circular, of node_count entries: a node is in it once */
    uint32_t queue_at, queue_len;
    unsigned char *queued; /* by node */
    HYP_VEC(uint32_t) pool;
    size_t live; /* elements of current sets */
    uint64_t work;
} greedy;

static void enqueue(greedy *g, uint32_t node)
{
    if (g->queued[node]) return;
    g->queued[node] = 1;
    uint32_t at = g->queue_at + g->queue_len++, size = g->p->node_count;
    g->queue[at >= size ? at - size : at] = node;
}

static uint32_t dequeue(greedy *g)
{
    uint32_t node = g->queue[g->queue_at];
    if (++g->queue_at == g->p->node_count) g->queue_at = 0;
    g->queue_len--;
    g->queued[node] = 0;
    return node;
}

/* Drops sets that were replaced. */
static hyp_status compact(greedy *g, hyp_diag *diag)
{
    uint32_t *fresh = hyp_malloc((g->live + 1) * sizeof *fresh);
    if (!fresh) return hyp_fail_memory(diag, g->live * sizeof *fresh);
    size_t len = 0;
    for (uint32_t c = 0; c < g->p->class_count; c++) {
        if (g->sets[c].len) memcpy(fresh + len, g->pool.data + g->sets[c].at, g->sets[c].len * sizeof *fresh);
        g->sets[c].at = len;
        len += g->sets[c].len;
    }
    hyp_free(g->pool.data);
    g->pool.data = fresh;
    g->pool.len = len;
    g->pool.cap = g->live + 1;
    return HYP_OK;
}

/* Adds what is new of a set to `out`. False if it holds class c or `sum` reaches `enough`. */
static bool join(greedy *g, const node_set *set, uint32_t c, uint32_t *out, uint32_t *len, double *sum, double enough)
{
    const uint32_t *nodes = g->pool.data + set->at, *owner = g->p->owner;
    g->work += set->len;
    for (uint32_t i = 0; i < set->len; i++) {
        uint32_t n = nodes[i], member = owner[n];
        if (member == c) return false;
        if (g->mark[member] == g->stamp) continue;
        g->mark[member] = g->stamp;
        out[(*len)++] = n;
        *sum += g->p->cost[n];
        if (*sum >= enough) return false;
    }
    return true;
}

/* The children's largest set first: its total is known. */
static bool join_largest(greedy *g, const node_set *set, uint32_t c, uint32_t *out, uint32_t *len)
{
    const uint32_t *nodes = g->pool.data + set->at, *owner = g->p->owner;
    g->work += set->len;
    for (uint32_t i = 0; i < set->len; i++) {
        if (owner[nodes[i]] == c) return false;
        g->mark[owner[nodes[i]]] = g->stamp;
    }
    memcpy(out + *len, nodes, set->len * sizeof *nodes);
    *len += set->len;
    return true;
}

/* Weighs a node whose children all have sets; takes it if it is better than what its class has. */
static hyp_status weigh(greedy *g, uint32_t n, bool *out_better, hyp_diag *diag)
{
    const hyp_problem *p = g->p;
    uint32_t c = p->owner[n], largest = HYP_NONE;
    node_set *old = &g->sets[c];
    double enough = old->len ? old->total : INFINITY, sum = p->cost[n];
    size_t room = 1;
    for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) {
        const node_set *set = &g->sets[p->kids[i]];
        if (p->cost[n] + set->total >= enough) return HYP_OK;
        if (largest == HYP_NONE || set->len > g->sets[largest].len) largest = p->kids[i];
        room += set->len;
    }
    if (g->pool.len > 2 * g->live + (1 << 16)) HYP_TRY(compact(g, diag));
    if (g->pool.cap < g->pool.len + room) HYP_TRY(hyp_vec_reserve(&g->pool, 2 * (g->pool.len + room), diag));
    uint32_t *out = g->pool.data + g->pool.len, len = 1;
    g->mark[c] = ++g->stamp;
    out[0] = n;
    if (largest != HYP_NONE) {
        if (!join_largest(g, &g->sets[largest], c, out, &len)) return HYP_OK;
        sum += g->sets[largest].total;
    }
    if (sum >= enough) return HYP_OK;
    for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++)
        if (p->kids[i] != largest && !join(g, &g->sets[p->kids[i]], c, out, &len, &sum, enough)) return HYP_OK;
    g->live += len - old->len;
    *old = (node_set){g->pool.len, len, sum};
    g->pool.len += len;
    g->choice[c] = n;
    *out_better = true;
    return HYP_OK;
}

static hyp_status run(greedy *g, hyp_diag *diag)
{
    const hyp_problem *p = g->p;
    for (uint32_t n = 0; n < p->node_count; n++)
        if (p->kid_at[n] == p->kid_at[n + 1]) enqueue(g, n);
    while (g->queue_len && g->work < SET_WORK && g->live < SET_LIVE) {
        uint32_t n = dequeue(g), i = p->kid_at[n];
        while (i < p->kid_at[n + 1] && g->sets[p->kids[i]].len) i++;
        if (i < p->kid_at[n + 1]) continue; /* comes again with the last child */
        bool better = false;
        HYP_TRY(weigh(g, n, &better, diag));
        uint32_t c = p->owner[n];
        for (i = p->up_at[c]; better && i < p->up_at[c + 1]; i++) enqueue(g, p->up[i]);
    }
    return HYP_OK;
}

/* The choice of the sets, over that of the trees, which is there for classes that the sets did not reach. */
static hyp_status choose_by_sets(const hyp_problem *p, uint32_t *choice, hyp_diag *diag)
{
    size_t classes = p->class_count, nodes = p->node_count;
    greedy g = {.p = p,
                .choice = choice,
                .sets = hyp_calloc(classes, sizeof *g.sets),
                .mark = hyp_calloc(classes, sizeof *g.mark),
                .queue = hyp_malloc(nodes * sizeof *g.queue),
                .queued = hyp_calloc(nodes, 1)};
    hyp_status status =
        g.sets && g.mark && g.queue && g.queued ? run(&g, diag) : hyp_fail_memory(diag, classes * sizeof *g.sets);
    hyp_free(g.sets);
    hyp_free(g.mark);
    hyp_free(g.queue);
    hyp_free(g.queued);
    hyp_vec_free(&g.pool);
    return status;
}

/* Whether the choices of all classes together have no cycle. */
static hyp_status is_acyclic(const hyp_problem *p, uint32_t *choice, uint32_t *every_class, bool *out, hyp_diag *diag)
{
    hyp_problem all = *p;
    double cost;
    all.roots = every_class;
    all.root_count = p->class_count;
    for (uint32_t c = 0; c < p->class_count; c++) every_class[c] = c;
    HYP_TRY(hyp_problem_price(&all, choice, false, &cost, NULL, diag));
    *out = cost < INFINITY;
    return HYP_OK;
}

/* What each class is best given where all that `choice` uses (HYP_NONE elsewhere) is free: its cheapest tree then.
 * Acyclic as a whole. */
static hyp_status solve_spare(const hyp_problem *p, const uint32_t *choice, uint32_t *spare, hyp_diag *diag)
{
    hyp_problem free_ones = *p;
    size_t bytes = p->node_count * sizeof *p->cost;
    free_ones.cost = hyp_malloc(bytes);
    if (!free_ones.cost) return hyp_fail_memory(diag, bytes);
    memcpy(free_ones.cost, p->cost, bytes);
    for (uint32_t c = 0; c < p->class_count; c++)
        if (choice[c] != HYP_NONE) free_ones.cost[choice[c]] = 0;
    hyp_status status = hyp_solve_tree(&free_ones, true, spare, NULL, diag);
    hyp_free(free_ones.cost);
    return status;
}

hyp_status hyp_polish(const hyp_problem *p, const uint32_t *component, uint32_t *spare, uint32_t *choice, int rounds,
                      double *cost, hyp_diag *diag)
{
    uint64_t work = 8 * (uint64_t)p->kid_at[p->node_count] + 1000;
    for (double last = INFINITY; rounds > 0 && *cost < last; rounds--) {
        last = *cost;
        HYP_TRY(hyp_improve(p, component, spare, choice, work, cost, diag));
        double same;
        HYP_TRY(hyp_problem_price(p, choice, true, &same, NULL, diag));
        if (rounds > 1) HYP_TRY(solve_spare(p, choice, spare, diag));
    }
    return HYP_OK;
}

/* Improves two answers, that of the sets and that of the trees, and keeps the better one. */
static hyp_status solve(const hyp_problem *p, uint32_t *choice, uint32_t *words, hyp_diag *diag)
{
    size_t count = p->class_count, bytes = count * sizeof *choice;
    uint32_t *tree = words, *spare = words + count, *component = words + 2 * count;
    double tree_cost, cost = INFINITY;
    bool acyclic;
    HYP_TRY(hyp_solve_tree(p, true, tree, NULL, diag));
    memcpy(choice, tree, bytes);
    HYP_TRY(choose_by_sets(p, choice, diag));
    HYP_TRY(is_acyclic(p, choice, component, &acyclic, diag));
    HYP_TRY(hyp_problem_components(p, component, diag));
    HYP_TRY(hyp_problem_price(p, tree, false, &tree_cost, NULL, diag));
    memcpy(spare, tree, bytes);
    HYP_TRY(hyp_polish(p, component, spare, tree, GREEDY_ROUNDS, &tree_cost, diag));
    if (acyclic) {
        HYP_TRY(hyp_problem_price(p, choice, false, &cost, NULL, diag));
        memcpy(spare, choice, bytes);
        HYP_TRY(hyp_polish(p, component, spare, choice, GREEDY_ROUNDS, &cost, diag));
    }
    if (tree_cost < cost) memcpy(choice, tree, bytes);
    return HYP_OK;
}

hyp_status hyp_solve_greedy(const hyp_problem *p, uint32_t *choice, hyp_diag *diag)
{
    uint32_t *words = hyp_malloc(3 * (size_t)p->class_count * sizeof *words);
    if (!words) return hyp_fail_memory(diag, 3 * (size_t)p->class_count * sizeof *words);
    hyp_status status = solve(p, choice, words, diag);
    hyp_free(words);
    return status;
}
