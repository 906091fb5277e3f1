/* Least DAG cost by branch and bound.
 *
 * The problem is reduced, split into parts that share no class, and each part is searched: a part is bounded from
 * below by a Lagrangian relaxation, which also shows nodes that no better answer uses and classes that every
 * better answer uses, so that it can be reduced again; when that ends, one node is taken or forbidden. The
 * relaxation's prices also guide the search for good answers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "egraph/extract/memo.h"
#include "egraph/extract/solve_exact.h"

#define ROOT_STEPS 3000 /* of the bound, at the first problem of a part */
#define NODE_STEPS 300  /* and at each later one */
#define CUT_EVERY 8     /* steps between looking for cycles */
#define RAISE_EVERY 400 /* steps between raising the best bound by cuts */
#define TRY_EVERY 40    /* steps between answers built from the bound's prices */
#define OPEN_LIMIT 2000 /* open problems, after which the newest is taken up instead of the best */
#define POLISH_ROUNDS 3

typedef struct open_problem {
    hyp_problem p;
    double bound;
} open_problem;

/* The search for one part. */
typedef struct search {
    hyp_trails *trails;
    double deadline, unit;  /* deadline: of the part; unit: all costs are multiples of it; 0 if there is none */
    hyp_exact_budget end;   /* of the whole; seconds: when it is */
    uint64_t work, allowed; /* nodes and edges that the bound has looked at; the search ends where they meet */
    double cost;            /* of the best answer */
    HYP_VEC(uint32_t) best; /* trails of its nodes */
    HYP_VEC(open_problem) open;
    hyp_diag *diag;
} search;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* An answer of this cost or more is not looked for. */
static double limit_of(const search *s)
{
    double slack = 1e-9 * fmax(1e-9, fabs(s->cost));
    return s->unit > 0 ? s->cost - s->unit + fmin(s->unit * 1e-3, 1e3 * slack) + slack : s->cost - slack;
}

static bool out_of_budget(const search *s)
{
    return s->work >= s->allowed || (isfinite(s->deadline) && now() >= s->deadline) ||
           (s->end.stop && s->end.stop(s->end.user));
}

/* The greatest number that all costs are multiples of, as far as they are whole numbers. */
static double cost_unit(const hyp_problem *p)
{
    uint64_t unit = 0;
    for (uint32_t n = 0; n < p->node_count; n++) {
        if (p->cost[n] > 9e15 || p->cost[n] != floor(p->cost[n])) return 0;
        for (uint64_t a = (uint64_t)p->cost[n]; a;) {
            uint64_t rest = unit % a;
            unit = a;
            a = rest;
        }
    }
    return (double)unit;
}

/* ---- answers ------------------------------------------------------------------------------------ */

/* Keeps an answer of p if it is the best one so far. */
static hyp_status offer(search *s, const hyp_problem *p, uint32_t *choice, double cost)
{
    if (!(cost < s->cost)) return HYP_OK;
    double same;
    HYP_TRY(hyp_problem_price(p, choice, true, &same, NULL, s->diag));
    s->best.len = 0;
    for (uint32_t c = 0; c < p->class_count; c++) {
        if (choice[c] == HYP_NONE) continue;
        HYP_TRY(hyp_vec_push(&s->best, s->diag, p->origin[choice[c]]));
    }
    s->cost = cost;
    return HYP_OK;
}

/* Builds an answer from what the bound thinks nodes are worth, and improves it. words: 3 a class. */
static hyp_status try_prices(search *s, const hyp_problem *p, const hyp_bound *b, const uint32_t *component,
                             uint32_t *choice, uint32_t *spare)
{
    hyp_problem priced = *p;
    double cost;
    priced.cost = hyp_malloc(p->node_count * sizeof *priced.cost);
    if (!priced.cost) return hyp_fail_memory(s->diag, p->node_count * sizeof *priced.cost);
    for (uint32_t n = 0; n < p->node_count; n++) priced.cost[n] = hyp_bound_regret(b, n) + 1e-6 * p->cost[n];
    hyp_status status = hyp_solve_tree(&priced, true, choice, NULL, s->diag);
    hyp_free(priced.cost);
    if (status == HYP_OK) status = hyp_problem_price(p, choice, false, &cost, NULL, s->diag);
    if (status == HYP_OK) memcpy(spare, choice, p->class_count * sizeof *spare);
    if (status == HYP_OK) status = hyp_polish(p, component, spare, choice, POLISH_ROUNDS, &cost, s->diag);
    return status == HYP_OK ? offer(s, p, choice, cost) : status;
}

static hyp_status try_greedy(search *s, const hyp_problem *p)
{
    uint32_t *choice = hyp_malloc(p->class_count * sizeof *choice);
    if (!choice) return hyp_fail_memory(s->diag, p->class_count * sizeof *choice);
    double cost;
    hyp_status status = hyp_solve_greedy(p, choice, s->diag);
    if (status == HYP_OK) status = hyp_problem_price(p, choice, false, &cost, NULL, s->diag);
    if (status == HYP_OK) status = offer(s, p, choice, cost);
    hyp_free(choice);
    return status;
}

/* ---- bounding ----------------------------------------------------------------------------------- */

/* What came of a problem. */
typedef struct verdict {
    double bound;
    uint32_t node; /* to branch on */
    bool done;     /* nothing better is in it */
    uint32_t fixed;
} verdict;

/* The node that the relaxation is least sure of; where it is sure of all, one of a class that it uses. */
static uint32_t branch_node(const hyp_problem *p, const hyp_bound *b)
{
    uint32_t node = HYP_NONE;
    double most = 0.02, most_used = -1;
    for (uint32_t n = 0; n < p->node_count; n++) {
        if (p->first[p->owner[n] + 1] - p->first[p->owner[n]] < 2) continue;
        double doubt = fmin(b->used[n], 1 - b->used[n]);
        if (doubt <= most) continue;
        most = doubt;
        node = n;
    }
    for (uint32_t n = 0; n < p->node_count && most <= 0.02; n++) {
        if (p->first[p->owner[n] + 1] - p->first[p->owner[n]] < 2 || b->used[n] <= most_used) continue;
        most_used = b->used[n];
        node = n;
    }
    return node;
}

/* Ascends, tries answers, and fixes what it can in the problem's costs and `required`. */
static hyp_status ascend(search *s, hyp_problem *p, int steps, hyp_bound *b, uint32_t *words, unsigned char *required,
                         verdict *v)
{
    uint32_t *component = words, *choice = words + p->class_count, *spare = choice + p->class_count;
    HYP_TRY(hyp_problem_components(p, component, s->diag));
    HYP_TRY(hyp_bound_begin(b, p, s->diag));
    for (int i = 1; i <= steps && b->best < limit_of(s) && b->step > 1e-3; i++) {
        hyp_bound_step(b, s->cost);
        s->work += p->node_count + p->kid_at[p->node_count];
        if (i % CUT_EVERY == 0) HYP_TRY(hyp_bound_cut(b, s->diag));
        if (i % RAISE_EVERY == 0) HYP_TRY(hyp_bound_raise(b, s->cost, s->diag));
        if (i % TRY_EVERY) continue;
        HYP_TRY(try_prices(s, p, b, component, choice, spare));
        if (out_of_budget(s)) break;
    }
    HYP_TRY(hyp_bound_raise(b, s->cost, s->diag));
    v->bound = fmax(v->bound, b->best);
    v->done = v->bound >= limit_of(s);
    if (!v->done) v->fixed = hyp_bound_fix(b, limit_of(s), p->cost, required);
    v->node = branch_node(p, b);
    return HYP_OK;
}

static hyp_status ascend_once(search *s, hyp_problem *p, int steps, verdict *v)
{
    hyp_bound b = {0};
    uint32_t *words = hyp_malloc(3 * (size_t)p->class_count * sizeof *words);
    unsigned char *required = hyp_calloc(p->class_count, 1);
    hyp_status status = words && required ? ascend(s, p, steps, &b, words, required, v)
                                          : hyp_fail_memory(s->diag, 3 * (size_t)p->class_count * sizeof *words);
    hyp_bound_end(&b);
    hyp_free(words);
    if (status == HYP_OK && !v->done && v->fixed) status = hyp_require(p, required, s->diag);
    hyp_free(required);
    return status;
}

/* Reduces and bounds a problem in turn until neither helps. A problem that has no answer any more is done. */
static hyp_status bound_problem(search *s, hyp_problem *p, int steps, verdict *v)
{
    hyp_status status = HYP_OK;
    do {
        uint32_t before = p->node_count;
        v->fixed = 0;
        status = hyp_reduce(p, s->trails, HYP_REDUCE_ALL, s->diag);
        if (status == HYP_OK) status = ascend_once(s, p, steps, v);
        steps = NODE_STEPS;
        if (status == HYP_ERR_UNSUPPORTED) { /* every answer left was shown to be no better */
            v->done = true;
            v->bound = INFINITY;
            return HYP_OK;
        }
        if (status != HYP_OK || v->done || v->fixed < before / 50 + 1) break;
    } while (!out_of_budget(s));
    return status;
}

/* ---- branching ---------------------------------------------------------------------------------- */

static hyp_status copy_problem(const hyp_problem *p, hyp_problem *out, hyp_diag *diag)
{
    hyp_problem bare = *p;
    HYP_TRY(hyp_problem_alloc(out, p->class_count, p->node_count, p->kid_at[p->node_count], p->root_count, diag));
    out->origin = hyp_malloc(p->node_count * sizeof *out->origin);
    if (!out->origin) {
        hyp_problem_dispose(out);
        return hyp_fail_memory(diag, p->node_count * sizeof *out->origin);
    }
    memcpy(out->owner, bare.owner, p->node_count * sizeof *out->owner);
    memcpy(out->kid_at, bare.kid_at, p->node_count * sizeof *out->kid_at);
    if (p->kid_at[p->node_count]) memcpy(out->kids, bare.kids, p->kid_at[p->node_count] * sizeof *out->kids);
    memcpy(out->cost, bare.cost, p->node_count * sizeof *out->cost);
    memcpy(out->origin, bare.origin, p->node_count * sizeof *out->origin);
    memcpy(out->roots, bare.roots, p->root_count * sizeof *out->roots);
    hyp_status status = hyp_problem_link(out, diag);
    if (status != HYP_OK) hyp_problem_dispose(out);
    return status;
}

/* Opens p without node n, or with n alone in its class. */
static hyp_status open_branch(search *s, const hyp_problem *p, uint32_t n, bool take, double bound)
{
    hyp_problem copy, core;
    HYP_TRY(copy_problem(p, &copy, s->diag));
    uint32_t c = p->owner[n];
    for (uint32_t m = p->first[c]; m < p->first[c + 1]; m++)
        if ((m == n) != take) copy.cost[m] = INFINITY;
    hyp_status status = hyp_problem_core(&copy, &core, s->diag);
    hyp_problem_dispose(&copy);
    if (status == HYP_ERR_UNSUPPORTED) return HYP_OK; /* no answer that way */
    if (status != HYP_OK) return status;
    status = hyp_vec_push(&s->open, s->diag, (open_problem){core, bound});
    if (status != HYP_OK) hyp_problem_dispose(&core);
    return status;
}

static size_t pick_open(const search *s)
{
    size_t best = s->open.len - 1;
    for (size_t i = s->open.len; i-- > 0 && s->open.len < OPEN_LIMIT;)
        if (s->open.data[i].bound < s->open.data[best].bound) best = i;
    return best;
}

/* Works on open problems until none is left or the budget is spent; *out_bound is below every answer. */
static hyp_status work(search *s, double *out_bound)
{
    hyp_status status = HYP_OK;
    int steps = ROOT_STEPS;
    while (s->open.len && status == HYP_OK && !out_of_budget(s)) {
        size_t at = pick_open(s);
        open_problem o = s->open.data[at];
        s->open.data[at] = s->open.data[--s->open.len];
        verdict v = {.bound = o.bound, .node = HYP_NONE};
        if (o.bound < limit_of(s))
            status = bound_problem(s, &o.p, steps, &v);
        else
            v.done = true;
        steps = NODE_STEPS;
        if (status == HYP_OK && !v.done && v.node == HYP_NONE) { /* one node a class: an answer, already offered */
            status = try_greedy(s, &o.p);
            v.done = true;
        }
        if (status == HYP_OK && !v.done) {
            /* The problem was made smaller after the node was chosen. */
            hyp_bound b = {0};
            status = hyp_bound_begin(&b, &o.p, s->diag);
            uint32_t node = v.node;
            if (status == HYP_OK && v.fixed) node = branch_node(&o.p, &b);
            hyp_bound_end(&b);
            if (status == HYP_OK && node == HYP_NONE) status = try_greedy(s, &o.p);
            if (status == HYP_OK && node != HYP_NONE) status = open_branch(s, &o.p, node, false, v.bound);
            if (status == HYP_OK && node != HYP_NONE) status = open_branch(s, &o.p, node, true, v.bound);
        }
        hyp_problem_dispose(&o.p);
    }
    *out_bound = s->cost;
    for (size_t i = 0; i < s->open.len; i++) *out_bound = fmin(*out_bound, s->open.data[i].bound);
    return status;
}

/* ---- parts -------------------------------------------------------------------------------------- */

/* The classes and roots of p by part, each ascending: those of part i are [at[i] .. at[i + 1]). */
typedef struct members {
    uint32_t *classes, *class_at, *roots, *root_at;
} members;

static void group_by_part(const hyp_problem *p, const uint32_t *part, uint32_t parts, members *m)
{
    memset(m->class_at, 0, ((size_t)parts + 2) * sizeof *m->class_at);
    memset(m->root_at, 0, ((size_t)parts + 2) * sizeof *m->root_at);
    for (uint32_t c = 0; c < p->class_count; c++) m->class_at[part[c] + 2]++;
    for (uint32_t i = 0; i < p->root_count; i++) m->root_at[part[p->roots[i]] + 2]++;
    for (uint32_t i = 2; i < parts + 2; i++) {
        m->class_at[i] += m->class_at[i - 1];
        m->root_at[i] += m->root_at[i - 1];
    }
    for (uint32_t c = 0; c < p->class_count; c++) m->classes[m->class_at[part[c] + 1]++] = c;
    for (uint32_t i = 0; i < p->root_count; i++) m->roots[m->root_at[part[p->roots[i]] + 1]++] = p->roots[i];
}

/* The part of p with the roots of that part alone. `number` is room by class. */
static hyp_status take_part(const hyp_problem *p, const members *m, uint32_t which, uint32_t *number, hyp_problem *out,
                            hyp_diag *diag)
{
    const uint32_t *classes = m->classes + m->class_at[which], *roots = m->roots + m->root_at[which];
    uint32_t class_count = m->class_at[which + 1] - m->class_at[which], node = 0, kid = 0;
    uint32_t root_count = m->root_at[which + 1] - m->root_at[which], node_count = 0, kid_count = 0;
    for (uint32_t i = 0; i < class_count; i++) {
        uint32_t from = p->first[classes[i]], end = p->first[classes[i] + 1];
        number[classes[i]] = i;
        node_count += end - from;
        kid_count += p->kid_at[end] - p->kid_at[from];
    }
    hyp_problem part, *copy = &part;
    HYP_TRY(hyp_problem_alloc(copy, class_count, node_count, kid_count, root_count, diag));
    copy->origin = hyp_malloc(node_count * sizeof *copy->origin);
    hyp_status status = copy->origin ? HYP_OK : hyp_fail_memory(diag, node_count * sizeof *copy->origin);
    for (uint32_t i = 0; i < class_count && status == HYP_OK; i++)
        for (uint32_t n = p->first[classes[i]]; n < p->first[classes[i] + 1]; n++, node++) {
            copy->owner[node] = i;
            copy->cost[node] = p->cost[n];
            copy->origin[node] = p->origin[n];
            copy->kid_at[node] = kid;
            for (uint32_t k = p->kid_at[n]; k < p->kid_at[n + 1]; k++) copy->kids[kid++] = number[p->kids[k]];
        }
    for (uint32_t i = 0; i < root_count; i++) copy->roots[i] = number[roots[i]];
    if (status == HYP_OK) status = hyp_problem_link(copy, diag);
    if (status == HYP_OK) status = hyp_problem_core(copy, out, diag);
    hyp_problem_dispose(copy);
    return status;
}

/* Searches one part, which is given away. */
static hyp_status search_part(search *s, hyp_problem *p, double *bound)
{
    s->cost = INFINITY;
    s->best.len = 0;
    s->unit = cost_unit(p);
    hyp_status status = try_greedy(s, p);
    if (status == HYP_OK) status = hyp_vec_push(&s->open, s->diag, (open_problem){*p, 0});
    if (status != HYP_OK) hyp_problem_dispose(p);
    if (status == HYP_OK) status = work(s, bound);
    for (size_t i = 0; i < s->open.len; i++) hyp_problem_dispose(&s->open.data[i].p);
    s->open.len = 0;
    return status;
}

/* Marks in `choice`, by class of p, what the trails of p's nodes say. */
static hyp_status follow(const hyp_problem *p, const hyp_trails *t, const uint32_t *trails, size_t count, uint32_t *choice,
                         hyp_diag *diag)
{
    HYP_VEC(uint32_t) stack = {0};
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < count && status == HYP_OK; i++) {
        stack.len = 0;
        status = hyp_vec_push(&stack, diag, trails[i]);
        while (stack.len && status == HYP_OK) {
            uint32_t at = stack.data[--stack.len];
            if (at < t->leaves) {
                choice[p->owner[at]] = at;
                continue;
            }
            status = hyp_vec_reserve(&stack, stack.len + 2, diag);
            if (status != HYP_OK) break;
            stack.data[stack.len++] = t->pairs.data[2 * (at - t->leaves)];
            stack.data[stack.len++] = t->pairs.data[2 * (at - t->leaves) + 1];
        }
    }
    hyp_vec_free(&stack);
    return status;
}

/* What is kept of a part while it is searched: its nodes as they were. */
typedef struct part_nodes {
    uint32_t *owner, *origin; /* by node */
    uint32_t *choice;         /* by class: what came of it */
    uint32_t count, class_count;
} part_nodes;

/* Searches a part, which is given away, with trails of its own nodes. */
static hyp_status search_alone(search *s, hyp_problem *p, const part_nodes *nodes, double *bound)
{
    hyp_trails own = {.leaves = nodes->count}, *outer = s->trails;
    const hyp_problem as_it_was = {.owner = nodes->owner};
    for (uint32_t n = 0; n < nodes->count; n++) p->origin[n] = n;
    s->trails = &own;
    hyp_status status = search_part(s, p, bound);
    if (status == HYP_OK) status = follow(&as_it_was, &own, s->best.data, s->best.len, nodes->choice, s->diag);
    hyp_vec_free(&own.pairs);
    s->trails = outer;
    return status;
}

/* Finds the answer to a part, which is given away: parts that are equal are searched once. What ran out of its budget
 * may come out otherwise with another one, and what is known may have taken more than there is. */
static hyp_status answer_part(search *s, hyp_extract_memo *memo, hyp_problem *p, const part_nodes *nodes, double *bound)
{
    const hyp_memo_answer *known;
    uint64_t begin = s->work;
    hyp_status status = hyp_memo_find(memo, p, 0, &known, s->diag);
    if (status != HYP_OK || (known && s->allowed > begin && known->work < s->allowed - begin)) {
        hyp_problem_dispose(p);
        if (status != HYP_OK) return status;
        memcpy(nodes->choice, known->choice, nodes->class_count * sizeof *nodes->choice);
        s->work += known->work;
        *bound = known->lower_bound;
        return HYP_OK;
    }
    memset(nodes->choice, 0xff, nodes->class_count * sizeof *nodes->choice);
    HYP_TRY(search_alone(s, p, nodes, bound));
    if (out_of_budget(s)) return HYP_OK;
    hyp_memo_answer found = {.choice = nodes->choice, .lower_bound = *bound, .work = s->work - begin};
    return hyp_memo_add(memo, &found, s->diag);
}

/* The same, marked in `answer`, by class of the core that the part is one of. */
static hyp_status take_answer(search *s, hyp_extract_memo *memo, const hyp_problem *core, hyp_problem *p, uint32_t *answer,
                              double *bound)
{
    size_t bytes = (2 * (size_t)p->node_count + p->class_count) * sizeof *p->owner;
    uint32_t *words = hyp_malloc(bytes);
    if (!words) {
        hyp_problem_dispose(p);
        return hyp_fail_memory(s->diag, bytes);
    }
    part_nodes nodes = {words, words + p->node_count, words + 2 * (size_t)p->node_count, p->node_count, p->class_count};
    memcpy(nodes.owner, p->owner, p->node_count * sizeof *p->owner);
    memcpy(nodes.origin, p->origin, p->node_count * sizeof *p->origin);
    hyp_status status = answer_part(s, memo, p, &nodes, bound);
    for (uint32_t c = 0; c < nodes.class_count && status == HYP_OK; c++)
        if (nodes.choice[c] != HYP_NONE)
            status = follow(core, s->trails, &nodes.origin[nodes.choice[c]], 1, answer, s->diag);
    hyp_free(words);
    return status;
}

typedef struct sized_part {
    uint32_t classes, part;
} sized_part;

static int by_size(const void *a, const void *b)
{
    const sized_part *x = a, *y = b;
    if (x->classes != y->classes) return x->classes < y->classes ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

/* The small parts first: what time and work they leave is for the large ones. words: 6 a class and 4. */
static hyp_status search_parts(search *s, hyp_extract_memo *memo, const hyp_problem *core, const hyp_problem *p,
                               uint32_t *words, sized_part *parts, uint32_t *answer, double *bound)
{
    size_t n = p->class_count;
    uint32_t *part = words, *number = words + n;
    uint32_t count = hyp_problem_parts(p, part, number);
    members m = {words + 2 * n, words + 3 * n, words + 4 * n + 2, words + 5 * n + 2};
    group_by_part(p, part, count, &m);
    for (uint32_t i = 0; i < count; i++) parts[i] = (sized_part){m.class_at[i + 1] - m.class_at[i], i};
    qsort(parts, count, sizeof *parts, by_size);
    *bound = 0;
    for (uint32_t i = 0; i < count; i++) {
        hyp_problem one;
        double part_bound = 0, begin = now();
        HYP_TRY(take_part(p, &m, parts[i].part, number, &one, s->diag));
        s->deadline = begin + (s->end.seconds - begin) / (count - i);
        s->allowed = s->work + (s->end.work > s->work ? (s->end.work - s->work) / (count - i) : 0);
        HYP_TRY(take_answer(s, memo, core, &one, answer, &part_bound));
        *bound += part_bound;
    }
    return HYP_OK;
}

static hyp_status run(search *s, const hyp_problem *core, hyp_problem *p, uint32_t *answer, double *bound)
{
    HYP_TRY(copy_problem(core, p, s->diag));
    for (uint32_t n = 0; n < core->node_count; n++) p->origin[n] = n;
    hyp_problem first = {0};
    HYP_TRY(hyp_problem_core(p, &first, s->diag));
    hyp_problem_dispose(p);
    *p = first;
    HYP_TRY(hyp_reduce(p, s->trails, HYP_REDUCE_ALL, s->diag));
    uint32_t *words = hyp_malloc((6 * (size_t)p->class_count + 4) * sizeof *words);
    sized_part *parts = hyp_malloc(p->class_count * sizeof *parts);
    hyp_extract_memo *memo = NULL;
    hyp_status status = words && parts ? hyp_memo_create(&memo, s->diag)
                                       : hyp_fail_memory(s->diag, p->class_count * sizeof *parts);
    if (status == HYP_OK) status = search_parts(s, memo, core, p, words, parts, answer, bound);
    hyp_memo_destroy(memo);
    hyp_free(words);
    hyp_free(parts);
    return status;
}

hyp_status hyp_solve_exact(const hyp_problem *core, hyp_exact_budget budget, uint32_t *choice, double *bound,
                           bool *proven, hyp_diag *diag)
{
    size_t bytes = core->class_count * sizeof *choice;
    hyp_trails trails = {.leaves = core->node_count};
    search s = {.trails = &trails, .end = budget, .diag = diag};
    hyp_problem p = {0};
    s.end.seconds += now();
    double old_cost, new_cost;
    uint32_t *answer = hyp_malloc(bytes);
    hyp_status status = answer ? HYP_OK : hyp_fail_memory(diag, bytes);
    if (status == HYP_OK) memset(answer, 0xff, bytes);
    if (status == HYP_OK) status = run(&s, core, &p, answer, bound);
    if (status == HYP_OK) status = hyp_problem_price(core, answer, true, &new_cost, NULL, diag);
    if (status == HYP_OK) status = hyp_problem_price(core, choice, true, &old_cost, NULL, diag);
    if (status == HYP_OK) {
        if (new_cost < old_cost) memcpy(choice, answer, bytes);
        double cost = fmin(new_cost, old_cost);
        *bound = fmin(*bound, cost);
        *proven = *bound >= cost - 1e-9 * fabs(cost);
    }
    hyp_problem_dispose(&p);
    hyp_free(answer);
    hyp_vec_free(&s.best);
    hyp_vec_free(&s.open);
    hyp_vec_free(&trails.pairs);
    return status;
}
