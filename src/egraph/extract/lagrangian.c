/* The relaxation: that each child which a chosen node needs is in use is put into the costs, by a multiplier for each
 * pair of class and child (`share`); each class is then priced by itself. That an answer has no cycle is first left
 * out; where the relaxed answer has one, it is put in for that set of classes (`cuts`: the loop formulas of logic
 * programs), with a multiplier too. The multipliers are improved by subgradient steps (Held, Wolfe, Crowder 1974),
 * smoothed. */
#include "egraph/extract/solve_exact.h"

#include <math.h>
#include <string.h>

#include "base/strbuf.h"

#define SMOOTH 0.3  /* weight of the newest subgradient */
#define FORGET 0.02 /* weight of the newest relaxed answer in `used` */
#define CUT_LIMIT 3000
#define PATIENCE 12 /* steps without a better bound before steps get shorter */

/* Numbers the pairs of class and child. */
static hyp_status number_edges(hyp_bound *b, hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    size_t n = p->class_count;
    uint32_t *seen = hyp_malloc(2 * n * sizeof *seen);
    if (!seen) return hyp_fail_memory(diag, 2 * n * sizeof *seen);
    uint32_t *edge_at = seen + n; /* by child: last class, its edge */
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
    double sum = p->cost[n] - b->bonus[n];
    for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) sum += share[b->edge[i]];
    return sum;
}

double hyp_bound_regret(const hyp_bound *b, uint32_t node)
{
    return price_node(b, b->share, node) - b->price[b->p->owner[node]];
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
    double v = b->price[c] + b->toll[c] - b->paid[c];
    return b->root[c] || v < 0 ? v : 0;
}

/* Prices all classes; sets chosen and value. */
static void evaluate(hyp_bound *b)
{
    const hyp_problem *p = b->p;
    b->value = 0;
    memset(b->paid, 0, p->class_count * sizeof *b->paid);
    memset(b->toll, 0, p->class_count * sizeof *b->toll);
    memset(b->bonus, 0, p->node_count * sizeof *b->bonus);
    for (size_t i = 0; i < b->cuts.len; i++) {
        const hyp_cut *cut = &b->cuts.data[i];
        b->toll[cut->anchor] += cut->weight;
        for (uint32_t k = cut->at; k < cut->end; k++) b->bonus[b->cut_nodes.data[k]] += cut->weight;
    }
    for (uint32_t e = 0; e < b->edge_count; e++) b->paid[b->edge_kid[e]] += b->share[e];
    for (uint32_t c = 0; c < p->class_count; c++) {
        price_class(b, c);
        b->chosen[c] = b->root[c] || b->price[c] + b->toll[c] < b->paid[c];
        b->value += value_of(b, c);
    }
    if (b->value > b->best) {
        b->best = b->value;
        memcpy(b->best_share, b->share, b->edge_count * sizeof *b->share);
        for (size_t i = 0; i < b->cuts.len; i++) b->cuts.data[i].best_weight = b->cuts.data[i].weight;
    }
}

/* Goes back to the multipliers of the best bound. */
static void take_best(hyp_bound *b)
{
    memcpy(b->share, b->best_share, b->edge_count * sizeof *b->share);
    for (size_t i = 0; i < b->cuts.len; i++) b->cuts.data[i].weight = b->cuts.data[i].best_weight;
    evaluate(b);
}

/* Classes in order of tree cost split their price equally over the classes that use them. */
static hyp_status first_shares(hyp_bound *b, hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    size_t n = p->class_count;
    double *weight = hyp_malloc(n * sizeof *weight);
    uint32_t *words = hyp_calloc(3 * n + 1 + b->edge_count, sizeof *words), *tree = words, *users, *queue;
    uint32_t *waiting = hyp_malloc(p->node_count * sizeof *waiting);
    hyp_status status = weight && words && waiting ? HYP_OK : hyp_fail_memory(diag, n * sizeof *weight);
    if (status == HYP_OK) users = words + n, queue = words + 2 * n;
    if (status == HYP_OK) status = hyp_solve_tree(p, true, tree, weight, diag);
    for (uint32_t e = 0; e < b->edge_count && status == HYP_OK; e++) users[b->edge_kid[e]]++;
    /* A pass over the classes in order of first satisfaction: a class is priced when its tree's node is ready. */
    uint32_t head = 0, tail = 0;
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
    b->bonus = hyp_calloc(p->node_count, sizeof *b->bonus);
    b->toll = hyp_calloc(n, sizeof *b->toll);
    b->chosen = hyp_calloc(n, 1);
    b->root = hyp_calloc(n, 1);
    if (!b->edge || !b->edge_kid || !b->share || !b->best_share || !b->direction || !b->used || !b->price || !b->paid ||
        !b->least || !b->bonus || !b->toll || !b->chosen || !b->root)
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
    hyp_free(b->bonus);
    hyp_free(b->toll);
    hyp_vec_free(&b->cuts);
    hyp_vec_free(&b->cut_nodes);
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
    for (size_t i = 0; i < b->cuts.len; i++) {
        hyp_cut *cut = &b->cuts.data[i];
        double missing = b->chosen[cut->anchor];
        for (uint32_t k = cut->at; k < cut->end; k++) {
            uint32_t n = b->cut_nodes.data[k], c = p->owner[n];
            missing -= b->chosen[c] && b->least[c] == n;
        }
        cut->direction += SMOOTH * (missing - cut->direction);
        if (cut->direction > 0 || cut->weight > 0) norm += cut->direction * cut->direction;
    }
    if (norm < 1e-18) return;
    double length = b->step * (fmax(target, b->best) - b->value + 1e-9 * fabs(target)) / norm;
    for (uint32_t e = 0; e < b->edge_count; e++) b->share[e] = fmax(0, b->share[e] + length * b->direction[e]);
    for (size_t i = 0; i < b->cuts.len; i++)
        b->cuts.data[i].weight = fmax(0, b->cuts.data[i].weight + length * b->cuts.data[i].direction);
    evaluate(b);
    if (b->best > before + 1e-9 * fabs(before))
        b->step = fmin(2, b->step * 1.05);
    else
        b->step *= 1 - 0.5 / PATIENCE;
}

/* ---- dual ascent -------------------------------------------------------------------------------- */

/* founded[c] for classes that nodes of at most `least` regret satisfy. */
static void satisfy(const hyp_bound *b, double least, unsigned char *founded, uint32_t *waiting, uint32_t *stack)
{
    const hyp_problem *p = b->p;
    uint32_t top = 0;
    memset(founded, 0, p->class_count);
    for (uint32_t n = 0; n < p->node_count; n++) {
        waiting[n] = hyp_bound_regret(b, n) <= least ? p->kid_at[n + 1] - p->kid_at[n] : HYP_NONE;
        if (waiting[n] || founded[p->owner[n]]) continue;
        founded[p->owner[n]] = 1;
        stack[top++] = p->owner[n];
    }
    while (top) {
        uint32_t c = stack[--top];
        for (uint32_t i = p->up_at[c]; i < p->up_at[c + 1]; i++) {
            uint32_t n = p->up[i];
            if (waiting[n] == HYP_NONE || --waiting[n] || founded[p->owner[n]]) continue;
            founded[p->owner[n]] = 1;
            stack[top++] = p->owner[n];
        }
    }
}

/* The unfounded classes that nodes of little regret lead to from a root; marks them in `in`. */
static uint32_t gather_set(const hyp_bound *b, double least, uint32_t root, const unsigned char *founded,
                           unsigned char *in, uint32_t *set)
{
    const hyp_problem *p = b->p;
    uint32_t count = 0;
    memset(in, 0, p->class_count);
    in[root] = 1;
    set[count++] = root;
    for (uint32_t at = 0; at < count; at++)
        for (uint32_t n = p->first[set[at]]; n < p->first[set[at] + 1]; n++) {
            if (hyp_bound_regret(b, n) > least) continue;
            for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) {
                uint32_t kid = p->kids[i];
                if (founded[kid] || in[kid]) continue;
                in[kid] = 1;
                set[count++] = kid;
            }
        }
    return count;
}

/* Adds the cut of a set with its largest weight. */
static hyp_status raise_cut(hyp_bound *b, uint32_t root, const unsigned char *in, const uint32_t *set, uint32_t count,
                            hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    hyp_cut cut = {.at = (uint32_t)b->cut_nodes.len, .anchor = root, .weight = INFINITY};
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t n = p->first[set[i]]; n < p->first[set[i] + 1]; n++) {
            uint32_t k = p->kid_at[n];
            while (k < p->kid_at[n + 1] && !in[p->kids[k]]) k++;
            if (k < p->kid_at[n + 1]) continue;
            HYP_TRY(hyp_vec_push(&b->cut_nodes, diag, n));
            cut.weight = fmin(cut.weight, hyp_bound_regret(b, n));
        }
    cut.end = (uint32_t)b->cut_nodes.len;
    HYP_TRY(hyp_vec_push(&b->cuts, diag, cut));
    b->toll[root] += cut.weight;
    for (uint32_t k = cut.at; k < cut.end; k++) b->bonus[b->cut_nodes.data[k]] += cut.weight;
    return HYP_OK;
}

static hyp_status raise_all(hyp_bound *b, double least, unsigned char *marks, uint32_t *words, hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    size_t room = b->cut_nodes.len + 30 * (size_t)p->node_count;
    for (uint32_t i = 0; i < p->root_count; i++)
        while (b->cuts.len < CUT_LIMIT && b->cut_nodes.len < room) {
            satisfy(b, least, marks, words + p->class_count, words);
            if (marks[p->roots[i]]) break;
            uint32_t count = gather_set(b, least, p->roots[i], marks, marks + p->class_count, words);
            HYP_TRY(raise_cut(b, p->roots[i], marks + p->class_count, words, count, diag));
        }
    return HYP_OK;
}

/* Drops cuts that the best shares give no weight. */
static void drop_idle_cuts(hyp_bound *b)
{
    size_t kept = 0, nodes = 0;
    for (size_t i = 0; i < b->cuts.len; i++) {
        hyp_cut cut = b->cuts.data[i];
        if (!(cut.best_weight > 0)) continue;
        uint32_t count = cut.end - cut.at;
        memmove(b->cut_nodes.data + nodes, b->cut_nodes.data + cut.at, count * sizeof *b->cut_nodes.data);
        cut.at = (uint32_t)nodes;
        nodes += count;
        cut.end = (uint32_t)nodes;
        b->cuts.data[kept++] = cut;
    }
    b->cuts.len = kept;
    b->cut_nodes.len = nodes;
}

hyp_status hyp_bound_raise(hyp_bound *b, double target, hyp_diag *diag)
{
    size_t n = b->p->class_count;
    uint32_t *words = hyp_malloc((n + b->p->node_count) * sizeof *words);
    unsigned char *marks = hyp_malloc(2 * n);
    hyp_status status = words && marks ? HYP_OK : hyp_fail_memory(diag, n * sizeof *words);
    drop_idle_cuts(b);
    take_best(b);
    double least = fmax(1e-10 * fabs(target), 1e-3 * (target - b->best));
    if (status == HYP_OK) status = raise_all(b, least, marks, words, diag);
    if (status == HYP_OK) evaluate(b);
    hyp_free(words);
    hyp_free(marks);
    return status;
}

/* ---- cuts --------------------------------------------------------------------------------------- */

/* founded[c] for classes whose chosen nodes lead to no cycle; a class that is not chosen counts as such. */
static void find_founded(const hyp_bound *b, unsigned char *founded, uint32_t *waiting, uint32_t *stack)
{
    const hyp_problem *p = b->p;
    uint32_t top = 0;
    for (uint32_t c = 0; c < p->class_count; c++) founded[c] = !b->chosen[c];
    for (uint32_t c = 0; c < p->class_count; c++) {
        if (founded[c]) continue;
        uint32_t n = b->least[c];
        waiting[c] = 0;
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) waiting[c] += b->chosen[p->kids[i]];
        if (!waiting[c]) stack[top++] = c;
    }
    while (top) {
        uint32_t c = stack[--top];
        founded[c] = 1;
        for (uint32_t i = p->up_at[c]; i < p->up_at[c + 1]; i++) {
            uint32_t user = p->owner[p->up[i]];
            if (b->chosen[user] && b->least[user] == p->up[i] && --waiting[user] == 0) stack[top++] = user;
        }
    }
}

/* Adds the cut of the classes marked `mark` in seen, of which path lists `count`. */
static hyp_status add_cut(hyp_bound *b, const uint32_t *path, uint32_t count, const uint32_t *seen, uint32_t mark,
                          hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    uint32_t anchor = path[0];
    uint64_t hash = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t c = path[i];
        hash += hyp_hash(&c, sizeof c, 1); /* of the set: in any order */
        if (b->root[c] > b->root[anchor] || (b->root[c] == b->root[anchor] && b->paid[c] > b->paid[anchor])) anchor = c;
    }
    hash += hyp_hash(&anchor, sizeof anchor, 2);
    for (size_t i = 0; i < b->cuts.len; i++)
        if (b->cuts.data[i].hash == hash) return HYP_OK;
    hyp_cut cut = {.at = (uint32_t)b->cut_nodes.len, .anchor = anchor, .hash = hash};
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t n = p->first[path[i]]; n < p->first[path[i] + 1]; n++) {
            uint32_t k = p->kid_at[n];
            while (k < p->kid_at[n + 1] && seen[p->kids[k]] != mark) k++;
            if (k < p->kid_at[n + 1]) continue;
            HYP_TRY(hyp_vec_push(&b->cut_nodes, diag, n));
        }
    cut.end = (uint32_t)b->cut_nodes.len;
    return hyp_vec_push(&b->cuts, diag, cut);
}

/* Walks from each unfounded class to an unfounded child until a class comes again: the walk's end is a cycle. */
static hyp_status cut_cycles(hyp_bound *b, const unsigned char *founded, uint32_t *seen, uint32_t *path, hyp_diag *diag)
{
    const hyp_problem *p = b->p;
    uint32_t mark = 0;
    for (uint32_t start = 0; start < p->class_count && b->cuts.len < CUT_LIMIT; start++) {
        uint32_t count = 0, c = start, first = ++mark;
        for (; !founded[c] && !seen[c]; count++) {
            seen[c] = first;
            path[count] = c;
            uint32_t i = p->kid_at[b->least[c]];
            while (founded[p->kids[i]]) i++;
            c = p->kids[i];
        }
        if (!count || seen[c] != first) continue; /* ran into an earlier walk */
        uint32_t at = 0;
        while (path[at] != c) at++;
        mark++;
        for (uint32_t i = at; i < count; i++) seen[path[i]] = mark;
        HYP_TRY(add_cut(b, path + at, count - at, seen, mark, diag));
    }
    return HYP_OK;
}

hyp_status hyp_bound_cut(hyp_bound *b, hyp_diag *diag)
{
    size_t n = b->p->class_count;
    uint32_t *words = hyp_calloc(3 * n, sizeof *words);
    unsigned char *founded = hyp_malloc(n);
    hyp_status status = words && founded ? HYP_OK : hyp_fail_memory(diag, 3 * n * sizeof *words);
    if (status == HYP_OK) {
        find_founded(b, founded, words, words + n);
        memset(words, 0, n * sizeof *words);
        status = cut_cycles(b, founded, words, words + n, diag);
    }
    hyp_free(words);
    hyp_free(founded);
    return status;
}

uint32_t hyp_bound_fix(hyp_bound *b, double limit, double *cost, unsigned char *required)
{
    const hyp_problem *p = b->p;
    uint32_t found = 0;
    take_best(b);
    for (uint32_t c = 0; c < p->class_count; c++) {
        double others = b->value - value_of(b, c), fixed = b->toll[c] - b->paid[c];
        if (!b->root[c] && others >= limit && !required[c]) {
            required[c] = 1;
            found++;
        }
        for (uint32_t n = p->first[c]; n < p->first[c + 1]; n++) {
            if (others + price_node(b, b->share, n) + fixed < limit) continue;
            cost[n] = INFINITY;
            found++;
        }
    }
    return found;
}
