/* Extraction. Both methods settle classes in the order of their cost, like Knuth, "A generalization of
 * Dijkstra's algorithm" (1977): a row is weighed once, when all its children are settled, and the
 * cheapest weighed row of all settles its class. So a choice never leads back to its own class.
 *
 * The weight of a row is the sum over its tree, or, for DAGs, the sum over the distinct classes below it
 * under the choices settled so far. A DAG is then improved: while another row of a chosen class makes the
 * whole cheaper, it is taken; this finds what a class cannot see by itself, that a value is needed
 * elsewhere anyway. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "egraph/rule.h"
#include "egraph/state.h"
#include "egraph/term.h"

/* Visits of classes after which weights are no longer exact, and improving ends: bounds the time. */
#define WEIGH_BUDGET (UINT64_C(1) << 27)
#define IMPROVE_BUDGET (UINT64_C(1) << 26)

typedef struct candidate {
    double weight;
    uint32_t row;
} candidate;

typedef struct extractor {
    hyp_egraph *eg;
    hyp_extract_method method;
    hyp_node_cost_fn cost_fn;
    void *user;
    hyp_diag *diag;
    const uint32_t *roots; /* canonical */
    size_t root_count;
    /* By row. */
    uint32_t *waiting; /* children not settled; HYP_NONE: its class is not below a root */
    double *cost;      /* of the row alone, once it is weighed */
    /* By class. */
    uint32_t *choice; /* best row weighed so far, HYP_NONE before */
    double *weight;   /* of the choice */
    bool *settled;
    uint32_t *mark; /* == stamp: visited in this walk; == stamp - 1: on the path of this walk */
    uint32_t stamp;
    uint64_t visits;
    HYP_VEC(candidate) heap;
    HYP_VEC(uint32_t) stack;
} extractor;

/* ---- heap: least weight first, then the older row ------------------------------------------------- */

static bool before(candidate a, candidate b) { return a.weight < b.weight || (a.weight == b.weight && a.row < b.row); }

static hyp_status heap_push(extractor *x, candidate c)
{
    HYP_TRY(hyp_vec_grow(&x->heap, x->diag));
    size_t i = x->heap.len - 1;
    for (; i > 0 && before(c, x->heap.data[(i - 1) / 2]); i = (i - 1) / 2) x->heap.data[i] = x->heap.data[(i - 1) / 2];
    x->heap.data[i] = c;
    return HYP_OK;
}

static candidate heap_pop(extractor *x)
{
    candidate *h = x->heap.data, top = h[0], last = h[--x->heap.len];
    size_t i = 0, n = x->heap.len;
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

/* ---- weighing ----------------------------------------------------------------------------------- */

static hyp_status push(extractor *x, uint32_t c)
{
    HYP_TRY(hyp_vec_grow(&x->stack, x->diag));
    x->stack.data[x->stack.len - 1] = c;
    return HYP_OK;
}

/* The sum over the distinct classes below the children of a row, and the row itself; stops early, with a
 * sum that is too small, when it passes `enough`. */
static hyp_status weigh_dag(extractor *x, uint32_t row, double enough, double *out)
{
    uint32_t n;
    const uint32_t *kids = hyp_row_kids(x->eg, row, &n);
    double sum = x->cost[row];
    x->stamp++;
    x->stack.len = 0;
    for (uint32_t j = 0; j < n; j++) HYP_TRY(push(x, kids[j]));
    while (x->stack.len && sum <= enough) {
        uint32_t c = x->stack.data[--x->stack.len];
        if (x->mark[c] == x->stamp) continue;
        x->mark[c] = x->stamp;
        x->visits++;
        sum += x->cost[x->choice[c]];
        kids = hyp_row_kids(x->eg, x->choice[c], &n);
        for (uint32_t j = 0; j < n; j++) HYP_TRY(push(x, kids[j]));
    }
    *out = sum;
    return HYP_OK;
}

static hyp_status weigh(extractor *x, uint32_t row)
{
    hyp_egraph *eg = x->eg;
    uint32_t n, c = eg->home[row];
    const uint32_t *kids = hyp_row_kids(eg, row, &n);
    double cost = x->cost[row] = x->cost_fn(eg, row, x->user);
    if (isnan(cost) || cost < 0)
        return hyp_fail(x->diag, HYP_ERR_INVALID_ARGUMENT, "the cost of '%s' is %g; a cost is at least 0",
                        hyp_egraph_symbol_name(eg, hyp_enode_op(eg, row)), cost);
    if (x->settled[c] || isinf(cost)) return HYP_OK;
    double weight = cost;
    for (uint32_t j = 0; j < n; j++) weight += x->weight[kids[j]];
    if (x->method == HYP_EXTRACT_DAG && n > 1 && x->visits < WEIGH_BUDGET)
        HYP_TRY(weigh_dag(x, row, x->weight[c], &weight));
    if (weight > DBL_MAX) weight = DBL_MAX; /* a tree may be larger than a double; it is finite all the same */
    uint32_t best = x->choice[c];
    if (best != HYP_NONE && !before((candidate){weight, row}, (candidate){x->weight[c], best})) return HYP_OK;
    x->choice[c] = row;
    x->weight[c] = weight;
    return heap_push(x, (candidate){weight, row});
}

static hyp_status settle_all(extractor *x)
{
    hyp_egraph *eg = x->eg;
    while (x->heap.len) {
        candidate top = heap_pop(x);
        uint32_t c = eg->home[top.row];
        if (x->settled[c]) continue; /* by a better row that was weighed later */
        x->settled[c] = true;
        for (uint32_t s = eg->use_head[c]; s != HYP_NONE; s = *hyp_slot_next(eg, s)) {
            uint32_t user = hyp_slot_row(eg, s);
            if (hyp_row_dead(eg, user) || x->waiting[user] == HYP_NONE) continue;
            if (--x->waiting[user] == 0) HYP_TRY(weigh(x, user));
        }
    }
    return HYP_OK;
}

/* Finds the rows below the roots, and weighs those without children. */
static hyp_status reach(extractor *x)
{
    hyp_egraph *eg = x->eg;
    HYP_VEC(uint32_t) leaves = {0};
    hyp_status status = HYP_OK;
    x->stamp++;
    for (size_t i = 0; i < x->root_count && status == HYP_OK; i++) status = push(x, x->roots[i]);
    while (x->stack.len && status == HYP_OK) {
        uint32_t c = x->stack.data[--x->stack.len], row = c;
        if (x->mark[c] == x->stamp) continue;
        x->mark[c] = x->stamp;
        do {
            uint32_t n;
            const uint32_t *kids = hyp_row_kids(eg, row, &n);
            x->waiting[row] = n;
            if (n == 0 && (status = hyp_vec_grow(&leaves, x->diag)) == HYP_OK) leaves.data[leaves.len - 1] = row;
            for (uint32_t j = 0; j < n && status == HYP_OK; j++)
                if (x->mark[kids[j]] != x->stamp) status = push(x, kids[j]);
            row = eg->rows[row].next;
        } while (row != c && status == HYP_OK);
    }
    for (size_t i = 0; i < leaves.len && status == HYP_OK; i++) status = weigh(x, leaves.data[i]);
    hyp_vec_free(&leaves);
    return status;
}

/* ---- whole solutions ---------------------------------------------------------------------------- */

/* Walks what the roots need under `choice`, children first. Gives the DAG cost, infinite if it has a cycle
 * or reaches `enough`; and with `tree` (by class) also fills in tree costs. */
static hyp_status walk(extractor *x, const uint32_t *choice, double enough, double *tree, double *out)
{
    hyp_egraph *eg = x->eg;
    double sum = 0;
    x->stamp += 2;
    x->stack.len = 0;
    *out = INFINITY;
    for (size_t i = x->root_count; i-- > 0;) HYP_TRY(push(x, x->roots[i]));
    while (x->stack.len) {
        uint32_t c = x->stack.data[x->stack.len - 1], n;
        if (x->mark[c] == x->stamp) { /* done */
            x->stack.len--;
            continue;
        }
        const uint32_t *kids = hyp_row_kids(eg, choice[c], &n);
        if (x->mark[c] == x->stamp - 1) { /* all below is done */
            x->mark[c] = x->stamp;
            x->stack.len--;
            if (!tree) continue;
            tree[c] = x->cost[choice[c]];
            for (uint32_t j = 0; j < n; j++) tree[c] += tree[kids[j]];
            continue;
        }
        x->mark[c] = x->stamp - 1;
        x->visits++;
        sum += x->cost[choice[c]];
        if (sum >= enough) return HYP_OK;
        for (uint32_t j = n; j-- > 0;) {
            if (x->mark[kids[j]] == x->stamp - 1) return HYP_OK; /* a cycle */
            if (x->mark[kids[j]] != x->stamp) HYP_TRY(push(x, kids[j]));
        }
    }
    *out = sum;
    return HYP_OK;
}

/* Tries every other row of one chosen class. */
static hyp_status improve_class(extractor *x, uint32_t c, double *best)
{
    hyp_egraph *eg = x->eg;
    for (uint32_t row = eg->rows[c].next, first = 1; first || row != eg->rows[c].next; row = eg->rows[row].next) {
        first = 0;
        uint32_t old = x->choice[c];
        double cost;
        if (row == old || x->waiting[row] != 0 || isinf(x->cost[row]))
            continue; /* waiting 0: its children have choices */
        x->choice[c] = row;
        HYP_TRY(walk(x, x->choice, *best, NULL, &cost));
        if (cost < *best)
            *best = cost;
        else
            x->choice[c] = old;
    }
    return HYP_OK;
}

static hyp_status improve(extractor *x, double *cost)
{
    HYP_VEC(uint32_t) chosen = {0};
    hyp_status status = HYP_OK;
    uint64_t end = x->visits + IMPROVE_BUDGET;
    for (double before_pass = INFINITY; status == HYP_OK && *cost < before_pass && x->visits < end;) {
        before_pass = *cost;
        double same;
        status = walk(x, x->choice, INFINITY, NULL, &same); /* marks what is chosen now */
        chosen.len = 0;
        for (uint32_t c = 0; c < x->eg->row_count && status == HYP_OK; c++)
            if (x->mark[c] == x->stamp && (status = hyp_vec_grow(&chosen, x->diag)) == HYP_OK)
                chosen.data[chosen.len - 1] = c;
        /* Youngest first: users tend to be younger than what they use. */
        for (size_t i = chosen.len; i-- > 0 && status == HYP_OK && x->visits < end;)
            if (x->eg->rows[chosen.data[i]].next != chosen.data[i]) status = improve_class(x, chosen.data[i], cost);
    }
    hyp_vec_free(&chosen);
    return status;
}

/* ---- the calls ---------------------------------------------------------------------------------- */

static hyp_status make_arrays(extractor *x)
{
    size_t n = x->eg->row_count;
    x->waiting = hyp_malloc(n * sizeof *x->waiting);
    x->cost = hyp_malloc(n * sizeof *x->cost);
    x->choice = hyp_malloc(n * sizeof *x->choice);
    x->weight = hyp_malloc(n * sizeof *x->weight);
    x->settled = hyp_calloc(n, sizeof *x->settled);
    x->mark = hyp_calloc(n, sizeof *x->mark);
    if (!x->waiting || !x->cost || !x->choice || !x->weight || !x->settled || !x->mark)
        return hyp_fail_memory(x->diag, n * sizeof *x->cost);
    memset(x->waiting, 0xff, n * sizeof *x->waiting);
    memset(x->choice, 0xff, n * sizeof *x->choice);
    for (size_t i = 0; i < n; i++) x->weight[i] = INFINITY;
    return HYP_OK;
}

static void free_arrays(extractor *x)
{
    hyp_free(x->waiting);
    hyp_free(x->cost);
    hyp_free(x->choice);
    hyp_free(x->weight);
    hyp_free(x->settled);
    hyp_free(x->mark);
    hyp_vec_free(&x->heap);
    hyp_vec_free(&x->stack);
}

/* Settles everything below the roots by one method; x->choice is then complete where there is a choice. */
static hyp_status solve(extractor *x)
{
    HYP_TRY(make_arrays(x));
    HYP_TRY(reach(x));
    HYP_TRY(settle_all(x));
    for (size_t i = 0; i < x->root_count; i++)
        if (!x->settled[x->roots[i]])
            return hyp_fail(x->diag, HYP_ERR_UNSUPPORTED, "e-class %u has no term of finite cost", x->roots[i]);
    return HYP_OK;
}

/* Fills *out from x->choice, keeping only what the roots need. */
static hyp_status deliver(extractor *x, hyp_extraction *out)
{
    size_t n = x->eg->row_count;
    double *tree = x->weight; /* not needed any more */
    HYP_TRY(walk(x, x->choice, INFINITY, tree, &out->dag_cost));
    out->tree_cost = 0;
    for (size_t i = 0; i < x->root_count; i++) out->tree_cost += tree[x->roots[i]];
    for (size_t c = 0; c < n; c++)
        if (x->mark[c] != x->stamp) x->choice[c] = HYP_NONE;
    out->choice = x->choice;
    out->class_bound = n;
    x->choice = NULL;
    return HYP_OK;
}

/* The greedy DAG, or the tree's choice where that is better, improved. */
static hyp_status solve_dag(extractor *x)
{
    extractor tree = *x;
    tree.method = HYP_EXTRACT_TREE;
    double tree_cost = INFINITY, dag_cost = INFINITY;
    hyp_status status = solve(x);
    if (status == HYP_OK) status = solve(&tree);
    if (status == HYP_OK) status = walk(x, x->choice, INFINITY, NULL, &dag_cost);
    if (status == HYP_OK) status = walk(&tree, tree.choice, INFINITY, NULL, &tree_cost);
    if (status == HYP_OK && tree_cost < dag_cost) {
        memcpy(x->choice, tree.choice, x->eg->row_count * sizeof *x->choice);
        dag_cost = tree_cost;
    }
    free_arrays(&tree);
    return status == HYP_OK ? improve(x, &dag_cost) : status;
}

hyp_status hyp_egraph_extract(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count, hyp_extract_method method,
                              hyp_node_cost_fn cost, void *user, hyp_extraction *out, hyp_diag *diag)
{
    *out = (hyp_extraction){0};
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before extraction");
    uint32_t *canonical = hyp_malloc(root_count * sizeof *canonical);
    if (!canonical) return hyp_fail_memory(diag, root_count * sizeof *canonical);
    extractor x = {.eg = eg,
                   .method = method,
                   .cost_fn = cost,
                   .user = user,
                   .diag = diag,
                   .roots = canonical,
                   .root_count = root_count};
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < root_count && status == HYP_OK; i++) {
        canonical[i] = hyp_egraph_find(eg, roots[i]);
        if (canonical[i] == HYP_NONE)
            status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%u is no e-class of this e-graph", roots[i]);
    }
    if (status == HYP_OK) status = method == HYP_EXTRACT_DAG ? solve_dag(&x) : solve(&x);
    if (status == HYP_OK) status = deliver(&x, out);
    free_arrays(&x);
    hyp_free(canonical);
    return status;
}

void hyp_extraction_dispose(hyp_extraction *ex)
{
    hyp_free(ex->choice);
    *ex = (hyp_extraction){0};
}

/* A term being written: the next child of a row. */
typedef struct frame {
    uint32_t row, next;
} frame;

static bool print(hyp_egraph *eg, const hyp_extraction *ex, uint32_t root, hyp_strbuf *sb)
{
    HYP_VEC(frame) stack = {0};
    bool ok = hyp_vec_grow(&stack, NULL) == HYP_OK;
    if (ok) stack.data[0] = (frame){ex->choice[root], 0};
    while (ok && stack.len) {
        frame *top = &stack.data[stack.len - 1];
        uint32_t n;
        const uint32_t *kids = hyp_row_kids(eg, top->row, &n);
        if (top->next == 0) {
            if (n) hyp_strbuf_puts(sb, "(");
            hyp_term_symbol(sb, hyp_egraph_symbol_name(eg, hyp_enode_op(eg, top->row)));
        }
        if (top->next == n) {
            if (n) hyp_strbuf_puts(sb, ")");
            stack.len--;
            continue;
        }
        hyp_strbuf_puts(sb, " ");
        uint32_t kid = ex->choice[kids[top->next++]];
        ok = hyp_vec_grow(&stack, NULL) == HYP_OK && !sb->failed;
        if (ok) stack.data[stack.len - 1] = (frame){kid, 0};
    }
    hyp_vec_free(&stack);
    return ok && !sb->failed;
}

char *hyp_extraction_text(hyp_egraph *eg, const hyp_extraction *ex, hyp_class_id root)
{
    hyp_strbuf sb = {0};
    root = hyp_egraph_find(eg, root);
    if (root >= ex->class_bound || ex->choice[root] == HYP_NONE) return NULL;
    if (print(eg, ex, root, &sb)) return sb.data;
    hyp_strbuf_dispose(&sb);
    return NULL;
}
