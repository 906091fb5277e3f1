/* problem.c - builds extraction problems and measures solutions. */
#include "egraph/extract/problem.h"

#include <float.h>
#include <math.h>
#include <string.h>

hyp_status hyp_problem_alloc(hyp_problem *p, size_t classes, size_t nodes, size_t kids, size_t roots, hyp_diag *diag)
{
    *p = (hyp_problem){0};
    if (classes >= HYP_NONE || nodes >= HYP_NONE || kids >= HYP_NONE || roots >= HYP_NONE)
        return hyp_fail(diag, HYP_ERR_LIMIT, "an extraction is limited to 2^32-2 e-nodes, classes, children and roots");
    p->class_count = (uint32_t)classes;
    p->node_count = (uint32_t)nodes;
    p->root_count = (uint32_t)roots;
    p->owner = hyp_malloc(nodes * sizeof *p->owner);
    p->kid_at = hyp_malloc((nodes + 1) * sizeof *p->kid_at);
    p->kids = hyp_malloc(kids * sizeof *p->kids);
    p->cost = hyp_malloc(nodes * sizeof *p->cost);
    p->roots = hyp_malloc(roots * sizeof *p->roots);
    if (!p->owner || !p->kid_at || !p->kids || !p->cost || !p->roots) {
        hyp_problem_dispose(p);
        return hyp_fail_memory(diag, nodes * sizeof *p->cost);
    }
    p->kid_at[nodes] = (uint32_t)kids;
    return HYP_OK;
}

void hyp_problem_dispose(hyp_problem *p)
{
    hyp_free(p->owner);
    hyp_free(p->kid_at);
    hyp_free(p->kids);
    hyp_free(p->cost);
    hyp_free(p->roots);
    hyp_free(p->up_at);
    hyp_free(p->up);
    hyp_free(p->first);
    hyp_free(p->origin);
    *p = (hyp_problem){0};
}

hyp_status hyp_problem_link(hyp_problem *p, hyp_diag *diag)
{
    uint32_t kids = p->kid_at[p->node_count];
    p->up_at = hyp_calloc((size_t)p->class_count + 2, sizeof *p->up_at);
    p->up = hyp_malloc(kids * sizeof *p->up);
    if (!p->up_at || !p->up) return hyp_fail_memory(diag, kids * sizeof *p->up);
    /* Counted two places on, so that filling leaves each start in place. */
    for (uint32_t i = 0; i < kids; i++) p->up_at[p->kids[i] + 2]++;
    for (size_t c = 2; c < (size_t)p->class_count + 2; c++) p->up_at[c] += p->up_at[c - 1];
    for (uint32_t n = 0; n < p->node_count; n++)
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) p->up[p->up_at[p->kids[i] + 1]++] = n;
    return HYP_OK;
}

/* ---- the core ----------------------------------------------------------------------------------- */

enum { UNSEEN = 0, SATISFIED = 1, REACHED = 2 };

typedef struct core_maker {
    const hyp_problem *p;
    uint32_t *waiting;              /* by node: children not satisfied; HYP_NONE for a node that is out */
    unsigned char *state;           /* by class */
    uint32_t *stack;                /* of classes; each is pushed once */
    uint32_t *number;               /* by class: its new number */
    uint32_t *class_order;          /* the classes kept, by new number */
    uint32_t *members, *members_at; /* nodes that are in, by class */
} core_maker;

/* A node that can be chosen at all. */
static bool fit(const hyp_problem *p, uint32_t n)
{
    if (!(p->cost[n] < INFINITY)) return false;
    for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++)
        if (p->kids[i] == p->owner[n]) return false;
    return true;
}

/* Finds what can be satisfied, from the leaves up. */
static void satisfy(core_maker *m)
{
    const hyp_problem *p = m->p;
    uint32_t top = 0;
    for (uint32_t n = 0; n < p->node_count; n++) {
        m->waiting[n] = fit(p, n) ? p->kid_at[n + 1] - p->kid_at[n] : HYP_NONE;
        if (m->waiting[n] == 0 && m->state[p->owner[n]] == UNSEEN) {
            m->state[p->owner[n]] = SATISFIED;
            m->stack[top++] = p->owner[n];
        }
    }
    while (top) {
        uint32_t c = m->stack[--top];
        for (uint32_t i = p->up_at[c]; i < p->up_at[c + 1]; i++) {
            uint32_t n = p->up[i];
            if (m->waiting[n] == HYP_NONE || --m->waiting[n] || m->state[p->owner[n]] != UNSEEN) continue;
            m->state[p->owner[n]] = SATISFIED;
            m->stack[top++] = p->owner[n];
        }
    }
}

static bool alive(const core_maker *m, uint32_t n) { return m->waiting[n] == 0; }

/* Groups the live nodes by class. */
static void group(core_maker *m)
{
    const hyp_problem *p = m->p;
    for (uint32_t n = 0; n < p->node_count; n++)
        if (alive(m, n)) m->members_at[p->owner[n] + 2]++;
    for (size_t c = 2; c < (size_t)p->class_count + 2; c++) m->members_at[c] += m->members_at[c - 1];
    for (uint32_t n = 0; n < p->node_count; n++)
        if (alive(m, n)) m->members[m->members_at[p->owner[n] + 1]++] = n;
}

/* Marks what the roots reach; counts nodes and children. */
static hyp_status reach(core_maker *m, size_t *nodes, size_t *kids, hyp_diag *diag)
{
    const hyp_problem *p = m->p;
    uint32_t top = 0;
    for (uint32_t i = 0; i < p->root_count; i++) {
        uint32_t c = p->roots[i];
        if (m->state[c] == UNSEEN)
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "root %u has no term of finite cost", i);
        if (m->state[c] == SATISFIED) m->stack[top++] = c;
        m->state[c] = REACHED;
    }
    while (top) {
        uint32_t c = m->stack[--top];
        for (uint32_t j = m->members_at[c]; j < m->members_at[c + 1]; j++) {
            uint32_t n = m->members[j];
            ++*nodes;
            *kids += p->kid_at[n + 1] - p->kid_at[n];
            for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) {
                if (m->state[p->kids[i]] != SATISFIED) continue;
                m->state[p->kids[i]] = REACHED;
                m->stack[top++] = p->kids[i];
            }
        }
    }
    return HYP_OK;
}

/* Numbers the classes kept in order of their first node. */
static uint32_t number_classes(core_maker *m)
{
    const hyp_problem *p = m->p;
    uint32_t count = 0;
    memset(m->number, 0xff, p->class_count * sizeof *m->number);
    for (uint32_t n = 0; n < p->node_count; n++) {
        uint32_t c = p->owner[n];
        if (m->state[c] != REACHED || m->number[c] != HYP_NONE) continue;
        m->class_order[count] = c;
        m->number[c] = count++;
    }
    return count;
}

/* Inserts into an ascending list without duplicates; gives its new length. */
static uint32_t insert_kid(uint32_t *list, uint32_t len, uint32_t kid)
{
    uint32_t at = len;
    while (at > 0 && list[at - 1] > kid) at--;
    if (at > 0 && list[at - 1] == kid) return len;
    memmove(list + at + 1, list + at, (len - at) * sizeof *list);
    list[at] = kid;
    return len + 1;
}

static void fill_core(const core_maker *m, hyp_problem *out)
{
    const hyp_problem *p = m->p;
    uint32_t node = 0, kid = 0;
    for (uint32_t c = 0; c < out->class_count; c++) {
        out->first[c] = node;
        uint32_t from = m->class_order[c];
        for (uint32_t j = m->members_at[from]; j < m->members_at[from + 1]; j++) {
            uint32_t n = m->members[j], len = 0;
            for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++)
                len = insert_kid(out->kids + kid, len, m->number[p->kids[i]]);
            out->owner[node] = c;
            out->cost[node] = p->cost[n];
            out->origin[node] = p->origin ? p->origin[n] : n;
            out->kid_at[node++] = kid;
            kid += len;
        }
    }
    out->first[out->class_count] = node;
    out->kid_at[node] = kid;
    uint32_t roots = 0;
    for (uint32_t i = 0; i < p->root_count; i++) {
        uint32_t c = m->number[p->roots[i]];
        if (m->state[p->roots[i]] == UNSEEN) continue; /* the same root again */
        m->state[p->roots[i]] = UNSEEN;
        out->roots[roots++] = c;
    }
    out->root_count = roots;
}

static hyp_status make_core(core_maker *m, hyp_problem *out, hyp_diag *diag)
{
    size_t nodes = 0, kids = 0;
    satisfy(m);
    group(m);
    HYP_TRY(reach(m, &nodes, &kids, diag));
    uint32_t classes = number_classes(m);
    HYP_TRY(hyp_problem_alloc(out, classes, nodes, kids, m->p->root_count, diag));
    out->first = hyp_malloc(((size_t)classes + 1) * sizeof *out->first);
    out->origin = hyp_malloc(nodes * sizeof *out->origin);
    if (!out->first || !out->origin) return hyp_fail_memory(diag, nodes * sizeof *out->origin);
    fill_core(m, out);
    return hyp_problem_link(out, diag);
}

hyp_status hyp_problem_core(const hyp_problem *p, hyp_problem *out, hyp_diag *diag)
{
    *out = (hyp_problem){0};
    size_t classes = p->class_count, nodes = p->node_count;
    uint32_t *words = hyp_malloc((2 * nodes + 3 * classes) * sizeof *words);
    core_maker m = {.p = p, .state = hyp_calloc(classes, 1), .members_at = hyp_calloc(classes + 2, sizeof *words)};
    hyp_status status = HYP_OK;
    if (!words || !m.state || !m.members_at) {
        status = hyp_fail_memory(diag, (2 * nodes + 3 * classes) * sizeof *words);
    } else {
        m.waiting = words;
        m.members = words + nodes;
        m.stack = words + 2 * nodes;
        m.number = m.stack + classes;
        m.class_order = m.number + classes;
        status = make_core(&m, out, diag);
    }
    if (status != HYP_OK) hyp_problem_dispose(out);
    hyp_free(words);
    hyp_free(m.state);
    hyp_free(m.members_at);
    return status;
}

/* ---- walks -------------------------------------------------------------------------------------- */

enum { NEW, OPEN, DONE };

/* Depth first below one class. Gives false at a cycle or a gap. */
static bool price_below(const hyp_problem *p, const uint32_t *choice, uint32_t from, unsigned char *state, double *tree,
                        uint32_t *path, uint32_t *next, double *sum)
{
    uint32_t depth = 0;
    if (state[from] == DONE) return true;
    path[0] = from;
    while (depth != HYP_NONE) {
        uint32_t c = path[depth], n = choice[c];
        if (state[c] == NEW) {
            if (n == HYP_NONE) return false;
            state[c] = OPEN;
            next[depth] = p->kid_at[n];
            *sum += p->cost[n];
            tree[c] = p->cost[n];
        } else { /* back from a child */
            tree[c] += tree[p->kids[next[depth]++]];
        }
        while (next[depth] < p->kid_at[n + 1] && state[p->kids[next[depth]]] == DONE)
            tree[c] += tree[p->kids[next[depth]++]];
        if (next[depth] == p->kid_at[n + 1]) {
            state[c] = DONE;
            depth--;
        } else {
            uint32_t kid = p->kids[next[depth]];
            if (state[kid] == OPEN) return false;
            path[++depth] = kid;
        }
    }
    return true;
}

hyp_status hyp_problem_price(const hyp_problem *p, uint32_t *choice, bool trim, double *dag, double *tree,
                             hyp_diag *diag)
{
    size_t n = p->class_count;
    unsigned char *state = hyp_calloc(n, 1);
    double *weight = hyp_malloc(n * sizeof *weight);
    uint32_t *path = hyp_malloc(2 * n * sizeof *path);
    hyp_status status = HYP_OK;
    double sum = 0, trees = 0;
    bool good = true;
    if (!state || !weight || !path) status = hyp_fail_memory(diag, n * sizeof *weight);
    for (uint32_t i = 0; i < p->root_count && good && status == HYP_OK; i++) {
        good = price_below(p, choice, p->roots[i], state, weight, path, path + n, &sum);
        if (good) trees += weight[p->roots[i]];
    }
    for (size_t c = 0; c < n && trim && status == HYP_OK; c++)
        if (state[c] == NEW) choice[c] = HYP_NONE;
    *dag = good ? fmin(sum, DBL_MAX) : INFINITY; /* a sum may be larger than a double; it is finite all the same */
    if (tree) *tree = good ? fmin(trees, DBL_MAX) : INFINITY;
    hyp_free(state);
    hyp_free(weight);
    hyp_free(path);
    return status;
}

/* Tarjan's algorithm with the recursion in arrays. A class at work has low[c] != 0; a finished one has its
 * component. */
typedef struct tarjan {
    const hyp_problem *p;
    uint32_t *component, *low, *index, *path, *next, *open;
    uint32_t depth, open_count, counter, components;
} tarjan;

static void tarjan_enter(tarjan *t, uint32_t c)
{
    t->low[c] = t->index[c] = ++t->counter;
    t->open[t->open_count++] = c;
    t->path[t->depth] = c;
    t->next[t->depth++] = t->p->kid_at[t->p->first[c]];
}

static void tarjan_from(tarjan *t, uint32_t root)
{
    const hyp_problem *p = t->p;
    tarjan_enter(t, root);
    while (t->depth) {
        uint32_t c = t->path[t->depth - 1], end = p->kid_at[p->first[c + 1]];
        uint32_t *at = &t->next[t->depth - 1];
        bool deeper = false;
        for (; *at < end && !deeper; ++*at) {
            uint32_t kid = p->kids[*at];
            if (!t->index[kid]) {
                tarjan_enter(t, kid);
                deeper = true;
                break;
            }
            if (t->component[kid] == HYP_NONE && t->index[kid] < t->low[c]) t->low[c] = t->index[kid];
        }
        if (deeper) continue;
        if (t->low[c] == t->index[c]) {
            uint32_t member;
            do {
                member = t->open[--t->open_count];
                t->component[member] = t->components;
            } while (member != c);
            t->components++;
        }
        if (--t->depth == 0) break;
        uint32_t above = t->path[t->depth - 1]; /* sees the child again, finished or with its own low */
        if (t->component[c] == HYP_NONE && t->low[c] < t->low[above]) t->low[above] = t->low[c];
        t->next[t->depth - 1]++;
    }
}

hyp_status hyp_problem_components(const hyp_problem *p, uint32_t *component, hyp_diag *diag)
{
    size_t n = p->class_count;
    uint32_t *words = hyp_calloc(5 * n, sizeof *words);
    if (!words) return hyp_fail_memory(diag, 5 * n * sizeof *words);
    tarjan t = {.p = p,
                .component = component,
                .low = words,
                .index = words + n,
                .path = words + 2 * n,
                .next = words + 3 * n,
                .open = words + 4 * n};
    memset(component, 0xff, n * sizeof *component);
    for (uint32_t c = 0; c < n; c++)
        if (!t.index[c]) tarjan_from(&t, c);
    hyp_free(words);
    return HYP_OK;
}
