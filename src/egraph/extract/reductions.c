/* Reductions of an extraction problem, applied in turn until none finds anything. Each marks nodes as gone
 * (infinite cost), drops children or builds the nodes anew, and the core of the result is taken. */
#include <math.h>
#include <string.h>

#include "egraph/extract/solve_exact.h"

#define NEED_LIMIT 12000 /* classes; the table of what each needs has a bit per pair */
#define PAIR_LIMIT 4000  /* nodes of a class that are compared pairwise */
#define LONGEST_NODE 64  /* children a node may get by joining */

hyp_status hyp_trails_join(hyp_trails *t, uint32_t a, uint32_t b, uint32_t *out, hyp_diag *diag)
{
    HYP_TRY(hyp_vec_reserve(&t->pairs, t->pairs.len + 2, diag));
    t->pairs.data[t->pairs.len++] = a;
    t->pairs.data[t->pairs.len++] = b;
    *out = t->leaves + (uint32_t)(t->pairs.len / 2) - 1;
    return HYP_OK;
}

hyp_status hyp_problem_renew(hyp_problem *p, hyp_diag *diag)
{
    hyp_problem core;
    HYP_TRY(hyp_problem_core(p, &core, diag));
    hyp_problem_dispose(p);
    *p = core;
    return HYP_OK;
}

/* ---- what a class cannot do without ---------------------------------------------------------------- */

typedef struct need_table {
    size_t words;   /* a row */
    uint64_t *bits; /* by class: the classes in every one of its terms, itself among them */
    uint64_t *scratch, *row;
} need_table;

static bool has_bit(const uint64_t *row, uint32_t i) { return row[i / 64] >> (i % 64) & 1; }

/* Into t->scratch: what the children of a node need. */
static void need_of_node(const need_table *t, const hyp_problem *p, uint32_t n)
{
    memset(t->scratch, 0, t->words * sizeof *t->scratch);
    for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) {
        const uint64_t *kid = t->bits + p->kids[i] * t->words;
        for (size_t w = 0; w < t->words; w++) t->scratch[w] |= kid[w];
    }
}

static bool refine(const need_table *t, const hyp_problem *p, uint32_t c)
{
    uint64_t *own = t->bits + c * t->words;
    memset(t->row, 0xff, t->words * sizeof *t->row);
    for (uint32_t n = p->first[c]; n < p->first[c + 1]; n++) {
        need_of_node(t, p, n);
        for (size_t w = 0; w < t->words; w++) t->row[w] &= t->scratch[w];
    }
    t->row[c / 64] |= UINT64_C(1) << (c % 64);
    bool changed = memcmp(own, t->row, t->words * sizeof *own) != 0;
    memcpy(own, t->row, t->words * sizeof *own);
    return changed;
}

/* The greatest fixed point, as for dominators, by a worklist from the leaves up. */
static hyp_status make_needs(need_table *t, const hyp_problem *p, hyp_diag *diag)
{
    size_t n = p->class_count;
    *t = (need_table){.words = (n + 63) / 64};
    t->bits = hyp_malloc(n * t->words * sizeof *t->bits);
    t->scratch = hyp_malloc(2 * t->words * sizeof *t->scratch);
    uint32_t *queue = hyp_malloc(n * sizeof *queue);
    unsigned char *queued = hyp_malloc(n);
    hyp_status status = HYP_OK;
    if (!t->bits || !t->scratch || !queue || !queued) {
        status = hyp_fail_memory(diag, n * t->words * sizeof *t->bits);
    } else {
        size_t at = 0, len = n;
        t->row = t->scratch + t->words;
        memset(t->bits, 0xff, n * t->words * sizeof *t->bits);
        memset(queued, 1, n);
        for (uint32_t c = 0; c < n; c++) queue[c] = (uint32_t)(n - 1 - c); /* children tend to have higher numbers */
        while (len) {
            uint32_t c = queue[at];
            at = at + 1 == n ? 0 : at + 1;
            len--;
            queued[c] = 0;
            if (!refine(t, p, c)) continue;
            for (uint32_t i = p->up_at[c]; i < p->up_at[c + 1]; i++) {
                uint32_t user = p->owner[p->up[i]];
                if (queued[user]) continue;
                queued[user] = 1;
                queue[(at + len++) % n] = user;
            }
        }
    }
    hyp_free(queue);
    hyp_free(queued);
    return status;
}

static void free_needs(need_table *t)
{
    hyp_free(t->bits);
    hyp_free(t->scratch);
}

static uint32_t drop_cyclic(const need_table *t, hyp_problem *p)
{
    uint32_t found = 0;
    for (uint32_t n = 0; n < p->node_count; n++)
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) {
            if (!has_bit(t->bits + p->kids[i] * t->words, p->owner[n])) continue;
            p->cost[n] = INFINITY;
            found++;
            break;
        }
    return found;
}

/* ---- dominated nodes ------------------------------------------------------------------------------ */

/* A set of a few bits of the children: a subset has a subset of them. */
static uint64_t signature(const hyp_problem *p, uint32_t n)
{
    uint64_t s = 0;
    for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++)
        s |= UINT64_C(1) << (p->kids[i] * UINT32_C(2654435769) >> 26);
    return s;
}

/* Whether the ascending children of a are all children of b. */
static bool subset(const hyp_problem *p, uint32_t a, uint32_t b)
{
    uint32_t i = p->kid_at[a], j = p->kid_at[b];
    while (i < p->kid_at[a + 1] && j < p->kid_at[b + 1]) {
        if (p->kids[j] == p->kids[i]) i++;
        j++;
    }
    return i == p->kid_at[a + 1];
}

static bool covered(const need_table *t, const hyp_problem *p, uint32_t a)
{
    for (uint32_t i = p->kid_at[a]; i < p->kid_at[a + 1]; i++)
        if (!has_bit(t->scratch, p->kids[i])) return false;
    return true;
}

/* Nodes b for which a node a of the class costs no more and has no child that b does not need too. Of two such
 * that dominate each other the lower stays. */
static uint32_t drop_dominated(const need_table *t, hyp_problem *p, uint64_t *signatures)
{
    uint32_t found = 0;
    for (uint32_t n = 0; n < p->node_count; n++) signatures[n] = signature(p, n);
    for (uint32_t c = 0; c < p->class_count; c++) {
        if (p->first[c + 1] - p->first[c] > PAIR_LIMIT) continue;
        for (uint32_t b = p->first[c]; b < p->first[c + 1]; b++) {
            if (t) need_of_node(t, p, b);
            for (uint32_t a = p->first[c]; a < p->first[c + 1]; a++) {
                if (a == b || isinf(p->cost[a]) || p->cost[a] > p->cost[b]) continue;
                if (!t && ((signatures[a] & ~signatures[b]) || !subset(p, a, b))) continue;
                if (t && !covered(t, p, a)) continue;
                p->cost[b] = INFINITY; /* a is alive, so of two equal ones one stays */
                found++;
                break;
            }
        }
    }
    return found;
}

/* ---- required classes ----------------------------------------------------------------------------- */

/* Classes that all roots' terms have become roots; a node need not name a root then, unless they may be on a cycle
 * together. `extra` (may be NULL) marks classes known to be required otherwise. */
static hyp_status require(const need_table *t, const unsigned char *extra, hyp_problem *p, uint32_t *found,
                          hyp_diag *diag)
{
    size_t n = p->class_count;
    unsigned char *needed = hyp_calloc(n, 1);
    uint32_t *component = hyp_malloc(n * sizeof *component);
    uint32_t *roots = hyp_malloc(n * sizeof *roots);
    hyp_status status = needed && component && roots ? hyp_problem_components(p, component, diag)
                                                     : hyp_fail_memory(diag, n * sizeof *component);
    for (uint32_t i = 0; i < p->root_count && status == HYP_OK; i++) {
        needed[p->roots[i]] = 1;
        for (uint32_t c = 0; c < n && t; c++) needed[c] = needed[c] || has_bit(t->bits + p->roots[i] * t->words, c);
    }
    uint32_t count = 0, kept = 0, start = 0;
    for (uint32_t c = 0; c < n && status == HYP_OK; c++) {
        if (extra && extra[c]) needed[c] = 1;
        if (needed[c]) roots[count++] = c;
    }
    for (uint32_t m = 0; m < p->node_count && status == HYP_OK; m++) {
        uint32_t end = p->kid_at[m + 1];
        for (uint32_t i = start; i < end; i++)
            if (!needed[p->kids[i]] || component[p->kids[i]] == component[p->owner[m]]) p->kids[kept++] = p->kids[i];
        *found += end - start - (kept - p->kid_at[m]);
        start = end;
        p->kid_at[m + 1] = kept;
    }
    if (status == HYP_OK) {
        *found += count - p->root_count;
        hyp_free(p->roots);
        p->roots = roots;
        p->root_count = count;
        roots = NULL;
        hyp_free(p->up_at);
        hyp_free(p->up);
        p->up_at = p->up = NULL;
        status = hyp_problem_link(p, diag);
    }
    hyp_free(needed);
    hyp_free(component);
    hyp_free(roots);
    return status;
}

hyp_status hyp_require(hyp_problem *p, const unsigned char *required, hyp_diag *diag)
{
    uint32_t found = 0;
    HYP_TRY(require(NULL, required, p, &found, diag));
    return hyp_problem_renew(p, diag);
}

/* ---- joining nodes -------------------------------------------------------------------------------- */

enum { KEEP = 0, ALIAS, CHAIN, VARIANTS };

/* A problem that is built node by node. */
typedef struct builder {
    const hyp_problem *p;
    hyp_trails *trails;
    const unsigned char *join; /* by class: what becomes of it */
    HYP_VEC(uint32_t) owner, kid_at, kids, origin, stack;
    HYP_VEC(double) cost;
} builder;

/* Adds node n of class `owner`, with node `variant` (HYP_NONE: none) in place of the class that is joined by its
 * variants. */
static hyp_status build_node(builder *b, uint32_t n, uint32_t variant, hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    double cost = p->cost[n];
    uint32_t trail = p->origin[n], at = (uint32_t)b->kids.len;
    b->stack.len = 0;
    HYP_TRY(hyp_vec_push(&b->stack, diag, n));
    while (b->stack.len) {
        uint32_t m = b->stack.data[--b->stack.len];
        for (uint32_t i = p->kid_at[m]; i < p->kid_at[m + 1]; i++) {
            uint32_t kid = p->kids[i];
            if (b->join[kid] == KEEP || (b->join[kid] == VARIANTS && variant == HYP_NONE)) {
                HYP_TRY(hyp_vec_push(&b->kids, diag, kid));
                continue;
            }
            uint32_t inner = b->join[kid] == VARIANTS ? variant : p->first[kid];
            cost += p->cost[inner];
            HYP_TRY(hyp_trails_join(b->trails, trail, p->origin[inner], &trail, diag));
            HYP_TRY(hyp_vec_push(&b->stack, diag, inner));
        }
    }
    HYP_TRY(hyp_vec_grow(&b->owner, diag));
    HYP_TRY(hyp_vec_grow(&b->kid_at, diag));
    HYP_TRY(hyp_vec_grow(&b->origin, diag));
    HYP_TRY(hyp_vec_grow(&b->cost, diag));
    size_t node = b->owner.len - 1;
    b->owner.data[node] = p->owner[n];
    b->kid_at.data[node] = at;
    b->origin.data[node] = trail;
    b->cost.data[node] = cost;
    return HYP_OK;
}

static hyp_status build_all(builder *b, hyp_problem *out, hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    for (uint32_t n = 0; n < p->node_count; n++) {
        uint32_t split = HYP_NONE;
        if (b->join[p->owner[n]] != KEEP) continue;
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++)
            if (b->join[p->kids[i]] == VARIANTS) split = p->kids[i];
        if (split == HYP_NONE) {
            HYP_TRY(build_node(b, n, HYP_NONE, diag));
            continue;
        }
        for (uint32_t v = p->first[split]; v < p->first[split + 1]; v++) HYP_TRY(build_node(b, n, v, diag));
    }
    HYP_TRY(hyp_problem_alloc(out, p->class_count, b->owner.len, b->kids.len, p->root_count, diag));
    out->origin = hyp_malloc(b->owner.len * sizeof *out->origin);
    if (!out->origin) return hyp_fail_memory(diag, b->owner.len * sizeof *out->origin);
    memcpy(out->owner, b->owner.data, b->owner.len * sizeof *out->owner);
    memcpy(out->kid_at, b->kid_at.data, b->owner.len * sizeof *out->kid_at);
    memcpy(out->origin, b->origin.data, b->owner.len * sizeof *out->origin);
    memcpy(out->cost, b->cost.data, b->owner.len * sizeof *out->cost);
    if (b->kids.len) memcpy(out->kids, b->kids.data, b->kids.len * sizeof *out->kids);
    memcpy(out->roots, p->roots, p->root_count * sizeof *out->roots);
    return hyp_problem_link(out, diag);
}

/* The one class whose nodes use class c, HYP_NONE if there are more. */
static uint32_t only_user(const hyp_problem *p, uint32_t c)
{
    uint32_t user = p->owner[p->up[p->up_at[c]]];
    for (uint32_t i = p->up_at[c]; i < p->up_at[c + 1]; i++)
        if (p->owner[p->up[i]] != user) return HYP_NONE;
    return user;
}

/* Whether none of the children of nodes first .. end-1 is joined itself. */
static bool children_stay(const hyp_problem *p, const unsigned char *join, uint32_t first, uint32_t end)
{
    for (uint32_t i = p->kid_at[first]; i < p->kid_at[end]; i++)
        if (join[p->kids[i]] != KEEP) return false;
    return true;
}

static unsigned char plan_join(const hyp_problem *p, unsigned which, const unsigned char *join, uint32_t c)
{
    uint32_t n = p->first[c], count = p->first[c + 1] - n, user = only_user(p, c), node = p->up[p->up_at[c]];
    uint32_t kids = p->kid_at[n + 1] - p->kid_at[n], beside = p->kid_at[node + 1] - p->kid_at[node];
    if (which & HYP_REDUCE_CHAINS && count == 1 && user != HYP_NONE && join[user] != ALIAS && kids <= LONGEST_NODE)
        return CHAIN;
    if (which & HYP_REDUCE_SINGLE_USE && p->up_at[c + 1] - p->up_at[c] == 1 && join[user] == KEEP &&
        (beside <= 4 || count <= 8) && beside <= LONGEST_NODE && children_stay(p, join, node, node + 1) &&
        children_stay(p, join, n, p->first[c + 1]))
        return VARIANTS;
    return KEEP;
}

/* Decides which classes are joined into their users; each is safe by itself and beside the others: what an alias
 * stands for has uses of its own, and a class whose nodes become variants takes in nothing itself. */
static uint32_t plan_joins(const hyp_problem *p, unsigned which, unsigned char *join, unsigned char *root)
{
    uint32_t found = 0;
    memset(join, KEEP, p->class_count);
    memset(root, 0, p->class_count);
    for (uint32_t i = 0; i < p->root_count; i++) root[p->roots[i]] = 1;
    for (uint32_t c = 0; c < p->class_count && which & HYP_REDUCE_CHAINS; c++) {
        uint32_t n = p->first[c];
        if (root[c] || p->first[c + 1] != n + 1 || p->cost[n] > 0 || p->kid_at[n + 1] - p->kid_at[n] > 1) continue;
        join[c] = ALIAS;
        found++;
    }
    /* All chains before any variants: a node of a chain must not have variants itself. */
    for (unsigned way = HYP_REDUCE_CHAINS; way <= HYP_REDUCE_SINGLE_USE; way *= 2)
        for (uint32_t c = 0; c < p->class_count; c++) {
            if (root[c] || join[c] != KEEP) continue;
            join[c] = plan_join(p, which & way, join, c);
            found += join[c] != KEEP;
        }
    return found;
}

static hyp_status join_nodes(hyp_problem *p, hyp_trails *trails, unsigned which, uint32_t *found, hyp_diag *diag)
{
    unsigned char *join = hyp_malloc(2 * (size_t)p->class_count);
    if (!join) return hyp_fail_memory(diag, 2 * (size_t)p->class_count);
    hyp_status status = HYP_OK;
    uint32_t count = plan_joins(p, which, join, join + p->class_count);
    if (count) {
        builder b = {.p = p, .trails = trails, .join = join};
        hyp_problem out = {0};
        status = build_all(&b, &out, diag);
        hyp_vec_free(&b.owner);
        hyp_vec_free(&b.kid_at);
        hyp_vec_free(&b.kids);
        hyp_vec_free(&b.origin);
        hyp_vec_free(&b.stack);
        hyp_vec_free(&b.cost);
        if (status == HYP_OK) {
            hyp_problem_dispose(p);
            *p = out;
            status = hyp_problem_renew(p, diag);
        } else {
            hyp_problem_dispose(&out);
        }
    }
    *found += count;
    hyp_free(join);
    return status;
}

/* ---- all ---------------------------------------------------------------------------------------- */

static hyp_status reduce_once(hyp_problem *p, hyp_trails *trails, unsigned which, uint32_t *found, hyp_diag *diag)
{
    need_table needs = {0};
    if (which & HYP_REDUCE_TREES) HYP_TRY(hyp_settle_trees(p, trails, found, diag));
    bool tabled =
        p->class_count <= NEED_LIMIT && which & (HYP_REDUCE_CYCLES | HYP_REDUCE_DOMINATED | HYP_REDUCE_REQUIRED);
    hyp_status status = tabled ? make_needs(&needs, p, diag) : HYP_OK;
    if (status == HYP_OK && tabled && which & HYP_REDUCE_CYCLES) {
        uint32_t cyclic = drop_cyclic(&needs, p);
        *found += cyclic;
        if (cyclic) { /* the table is of the problem as it was */
            free_needs(&needs);
            return hyp_problem_renew(p, diag);
        }
    }
    if (status == HYP_OK && which & HYP_REDUCE_DOMINATED) {
        uint64_t *signatures = hyp_malloc(p->node_count * sizeof *signatures);
        if (signatures)
            *found += drop_dominated(tabled ? &needs : NULL, p, signatures);
        else
            status = hyp_fail_memory(diag, p->node_count * sizeof *signatures);
        hyp_free(signatures);
    }
    if (status == HYP_OK && tabled && which & HYP_REDUCE_REQUIRED) status = require(&needs, NULL, p, found, diag);
    free_needs(&needs);
    if (status == HYP_OK) status = hyp_problem_renew(p, diag);
    if (status == HYP_OK && which & (HYP_REDUCE_CHAINS | HYP_REDUCE_SINGLE_USE))
        status = join_nodes(p, trails, which, found, diag);
    return status;
}

hyp_status hyp_reduce(hyp_problem *p, hyp_trails *trails, unsigned which, hyp_diag *diag)
{
    for (uint32_t found = 1; found;) {
        found = 0;
        HYP_TRY(reduce_once(p, trails, which, &found, diag));
    }
    return HYP_OK;
}
