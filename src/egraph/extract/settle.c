/* Parts of an extraction problem in which nothing can be shared. Where no two children of a node reach a class that costs
 * something, every answer is a tree: a class with two users in it would be reached by two children of the node at which the
 * ways to it part. So the least tree, which Knuth's algorithm finds at once, is the least answer. Long chains of layers
 * are such parts, whose answers are paths, and so are products of many matrices, whose ways to set parentheses the other
 * reductions and the bound would go over one by one. */
#include <math.h>
#include <string.h>

#include "egraph/extract/solve_exact.h"

#define TABLE_LIMIT 12000 /* classes; the table of what each reaches has a bit per pair */

/* Parts of fewer classes are reduced otherwise as quickly: that may take a round for each class. */
#ifdef HYP_SMALL_SIZES
enum { TREE_CLASSES = 2 };
#else
enum { TREE_CLASSES = 32 };
#endif

static uint32_t find_part(uint32_t *parent, uint32_t c)
{
    while (parent[c] != c) c = parent[c] = parent[parent[c]];
    return c;
}

uint32_t hyp_problem_parts(const hyp_problem *p, uint32_t *part, uint32_t *parent)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < p->class_count; c++) parent[c] = c;
    for (uint32_t n = 0; n < p->node_count; n++)
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) {
            uint32_t a = find_part(parent, p->owner[n]), b = find_part(parent, p->kids[i]);
            parent[a > b ? a : b] = a > b ? b : a;
        }
    for (uint32_t c = 0; c < p->class_count; c++) {
        uint32_t top = find_part(parent, c);
        part[c] = top == c ? count++ : part[top];
    }
    return count;
}

/* ---- what may be shared ----------------------------------------------------------------------------------- */

/* What classes reach that costs something, by strongly connected component: its classes reach the same. */
typedef struct reach_table {
    size_t words; /* a row */
    uint64_t *rows, *together;
    uint32_t *component; /* by class */
} reach_table;

/* Adds to the row of a component what a class of it is and its nodes lead to, whose rows are complete, or this one. */
static void reach(const reach_table *t, const hyp_problem *p, uint32_t c)
{
    uint64_t *row = t->rows + t->component[c] * t->words;
    bool costs = false;
    for (uint32_t n = p->first[c]; n < p->first[c + 1]; n++) {
        costs = costs || p->cost[n] > 0;
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) {
            const uint64_t *kid = t->rows + t->component[p->kids[i]] * t->words;
            for (size_t w = 0; w < t->words && kid != row; w++) row[w] |= kid[w];
        }
    }
    if (costs) row[c / 64] |= UINT64_C(1) << (c % 64);
}

/* Whether two children of a node of class c reach something that costs. */
static bool shares(const reach_table *t, const hyp_problem *p, uint32_t c)
{
    for (uint32_t n = p->first[c]; n < p->first[c + 1]; n++) {
        memset(t->together, 0, t->words * sizeof *t->together);
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1] && p->kid_at[n + 1] - p->kid_at[n] > 1; i++) {
            const uint64_t *kid = t->rows + t->component[p->kids[i]] * t->words;
            for (size_t w = 0; w < t->words; w++) {
                if (t->together[w] & kid[w]) return true;
                t->together[w] |= kid[w];
            }
        }
    }
    return false;
}

/* Takes the mark of the parts that a table shows something to be shared in. order: the classes, by their components. */
static void strike_shared(const reach_table *t, const hyp_problem *p, const uint32_t *part, const uint32_t *order,
                          unsigned char *apart)
{
    for (uint32_t i = 0, end; i < p->class_count; i = end) {
        for (end = i; end < p->class_count && t->component[order[end]] == t->component[order[i]]; end++)
            if (apart[part[order[end]]]) reach(t, p, order[end]);
        for (uint32_t k = i; k < end; k++)
            if (apart[part[order[k]]] && shares(t, p, order[k])) apart[part[order[k]]] = 0;
    }
}

/* Takes the mark, by part, of those in which something may be shared. */
static hyp_status find_apart(const hyp_problem *p, const uint32_t *part, unsigned char *apart, hyp_diag *diag)
{
    size_t n = p->class_count;
    bool forks = false, small = n <= TABLE_LIMIT;
    for (uint32_t m = 0; m < p->node_count; m++) {
        bool fork = p->kid_at[m + 1] - p->kid_at[m] > 1 && apart[part[p->owner[m]]];
        forks = forks || fork;
        if (fork && !small) apart[part[p->owner[m]]] = 0;
    }
    if (!forks || !small) return HYP_OK;
    reach_table t = {.words = (n + 63) / 64};
    t.rows = hyp_calloc((n + 1) * t.words, sizeof *t.rows);
    t.component = hyp_malloc(2 * n * sizeof *t.component);
    uint32_t *at = hyp_calloc(n + 2, sizeof *at);
    hyp_status status = t.rows && t.component && at ? hyp_problem_components(p, t.component, diag)
                                                    : hyp_fail_memory(diag, (n + 1) * t.words * sizeof *t.rows);
    if (status == HYP_OK) {
        uint32_t *order = t.component + n;
        t.together = t.rows + n * t.words;
        for (size_t c = 0; c < n; c++) at[t.component[c] + 2]++;
        for (size_t k = 2; k < n + 2; k++) at[k] += at[k - 1];
        for (uint32_t c = 0; c < n; c++) order[at[t.component[c] + 1]++] = c;
        strike_shared(&t, p, part, order, apart);
    }
    hyp_free(t.rows);
    hyp_free(t.component);
    hyp_free(at);
    return status;
}

/* ---- what becomes of them --------------------------------------------------------------------------------- */

/* Leaves of class r the least tree: its node of `choice`, with the costs and trails of all below. What costs nothing may be
 * there twice; `seen` and `stack` are room by class, the first of zeros. */
static hyp_status take_tree(hyp_problem *p, hyp_trails *trails, const uint32_t *choice, uint32_t r, unsigned char *seen,
                            uint32_t *stack, hyp_diag *diag)
{
    uint32_t top = choice[r], trail = p->origin[top], depth = 0;
    double cost = p->cost[top];
    stack[depth++] = r;
    while (depth) {
        uint32_t n = choice[stack[--depth]];
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) {
            uint32_t kid = p->kids[i];
            if (seen[kid]) continue;
            seen[kid] = 1;
            stack[depth++] = kid;
            cost += p->cost[choice[kid]];
            HYP_TRY(hyp_trails_join(trails, trail, p->origin[choice[kid]], &trail, diag));
        }
    }
    for (uint32_t n = p->first[r]; n < p->first[r + 1]; n++) p->cost[n] = INFINITY;
    p->cost[top] = cost;
    p->origin[top] = trail;
    return HYP_OK;
}

/* Drops the children of the nodes of classes that are marked. */
static hyp_status drop_kids(hyp_problem *p, const unsigned char *marked, hyp_diag *diag)
{
    uint32_t kept = 0, start = 0;
    for (uint32_t n = 0; n < p->node_count; n++) {
        uint32_t end = p->kid_at[n + 1];
        for (uint32_t i = start; i < end && !marked[p->owner[n]]; i++) p->kids[kept++] = p->kids[i];
        start = end;
        p->kid_at[n + 1] = kept;
    }
    hyp_free(p->up_at);
    hyp_free(p->up);
    p->up_at = p->up = NULL;
    return hyp_problem_link(p, diag);
}

/* Marks the roots that are alone in a part in which nothing can be shared. words: 3 a class; apart: room by class. */
static hyp_status find_trees(const hyp_problem *p, uint32_t *words, unsigned char *apart, unsigned char *done,
                             uint32_t *out_count, hyp_diag *diag)
{
    size_t n = p->class_count;
    uint32_t *part = words, *roots = words + n, *sizes = words + 2 * n; /* the last two by part */
    hyp_problem_parts(p, part, roots);
    memset(roots, 0, n * sizeof *roots);
    for (uint32_t c = 0; c < n; c++) sizes[part[c]]++;
    for (uint32_t i = 0; i < p->root_count; i++) roots[part[p->roots[i]]]++;
    for (size_t i = 0; i < n; i++) apart[i] = sizes[i] >= TREE_CLASSES && roots[i] == 1;
    HYP_TRY(find_apart(p, part, apart, diag));
    for (uint32_t i = 0; i < p->root_count; i++) {
        done[p->roots[i]] = apart[part[p->roots[i]]];
        *out_count += done[p->roots[i]];
    }
    return HYP_OK;
}

hyp_status hyp_settle_trees(hyp_problem *p, hyp_trails *trails, uint32_t *found, hyp_diag *diag)
{
    size_t n = p->class_count;
    uint32_t *words = hyp_calloc(3 * n, sizeof *words); /* choice and stack, when it is known where trees are */
    unsigned char *marks = hyp_calloc(3 * n, 1);        /* apart, done and seen */
    hyp_status status = words && marks ? HYP_OK : hyp_fail_memory(diag, 3 * n * sizeof *words);
    uint32_t settled = 0;
    if (status == HYP_OK) status = find_trees(p, words, marks, marks + n, &settled, diag);
    if (status == HYP_OK && settled) status = hyp_solve_tree(p, true, words, NULL, diag);
    for (uint32_t i = 0; i < p->root_count && settled && status == HYP_OK; i++)
        if (marks[n + p->roots[i]])
            status = take_tree(p, trails, words, p->roots[i], marks + 2 * n, words + n, diag);
    if (status == HYP_OK && settled) status = drop_kids(p, marks + n, diag);
    if (status == HYP_OK && settled) status = hyp_problem_renew(p, diag);
    *found += settled;
    hyp_free(words);
    hyp_free(marks);
    return status;
}
