/* Extraction from an e-graph: it is put into the form of problem.h, solved there, and the choice brought back. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/sized.h"
#include "egraph/core/state.h"
#include "egraph/extract/memo.h"
#include "egraph/extract/problem.h"

#define DEFAULT_BUDGET 10.0

/* ---- any problem -------------------------------------------------------------------------------- */

/* Solves the core of p by a DAG method; `choice` gets nodes of p. */
static hyp_status solve_core(const hyp_problem *p, const hyp_problem *core, const hyp_extract_options *options,
                             uint32_t *choice, uint32_t *core_choice, hyp_extraction *out, hyp_diag *diag)
{
    HYP_TRY(hyp_solve_greedy(core, core_choice, diag));
    if (options->method == HYP_EXTRACT_EXACT) {
        double seconds = options->budget_seconds;
        hyp_exact_budget budget = {seconds > 0            ? seconds
                                   : options->budget_work ? INFINITY
                                                          : DEFAULT_BUDGET,
                                   options->budget_work ? options->budget_work : UINT64_MAX, options->stop,
                                   options->stop_user};
        HYP_TRY(hyp_solve_exact(core, budget, core_choice, &out->lower_bound, &out->proven, diag));
    }
    for (uint32_t c = 0; c < core->class_count; c++) {
        if (core_choice[c] == HYP_NONE) continue;
        uint32_t node = core->origin[core_choice[c]];
        choice[p->owner[node]] = node;
    }
    return HYP_OK;
}

static hyp_status solve_priced(const hyp_problem *p, const hyp_extract_options *options, uint32_t *choice,
                               hyp_extraction *out, hyp_diag *diag)
{
    hyp_problem core;
    HYP_TRY(hyp_problem_core(p, &core, diag));
    uint32_t *core_choice = hyp_malloc(core.class_count * sizeof *core_choice);
    hyp_status status = core_choice ? solve_core(p, &core, options, choice, core_choice, out, diag)
                                    : hyp_fail_memory(diag, core.class_count * sizeof *core_choice);
    hyp_free(core_choice);
    hyp_problem_dispose(&core);
    return status;
}

/* The problem without the classes that cost nothing: nobody need decide on them. */
static hyp_status leave_out_free(const hyp_problem *p, const double *weight, hyp_problem *out, hyp_diag *diag)
{
    uint32_t kid = 0, root = 0;
    HYP_TRY(hyp_problem_alloc(out, p->class_count, p->node_count, p->kid_at[p->node_count], p->root_count, diag));
    for (uint32_t n = 0; n < p->node_count; n++) {
        bool is_free = weight[p->owner[n]] == 0;
        out->owner[n] = p->owner[n];
        out->cost[n] = is_free ? INFINITY : p->cost[n];
        out->kid_at[n] = kid;
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1] && !is_free; i++)
            if (weight[p->kids[i]] != 0) out->kids[kid++] = p->kids[i];
    }
    out->kid_at[p->node_count] = kid;
    for (uint32_t i = 0; i < p->root_count; i++)
        if (weight[p->roots[i]] != 0) out->roots[root++] = p->roots[i];
    out->root_count = root;
    return hyp_problem_link(out, diag);
}

/* A class whose best tree costs nothing is free wherever it is used, and so is all that it needs. The trees are the
 * choice there, and the rest is solved without them. */
static hyp_status solve_dag(const hyp_problem *p, const hyp_extract_options *options, uint32_t *choice,
                            hyp_extraction *out, hyp_diag *diag)
{
    hyp_problem priced = {0};
    double *weight = hyp_malloc(p->class_count * sizeof *weight);
    uint32_t *trees = hyp_malloc(p->class_count * sizeof *trees);
    hyp_status status = weight && trees ? HYP_OK : hyp_fail_memory(diag, p->class_count * sizeof *weight);
    if (status == HYP_OK) status = hyp_solve_tree(p, true, trees, weight, diag);
    if (status == HYP_OK) status = leave_out_free(p, weight, &priced, diag);
    if (status == HYP_OK) {
        memset(choice, 0xff, p->class_count * sizeof *choice);
        out->proven = priced.root_count == 0; /* nothing is left to solve */
        if (priced.root_count) status = solve_priced(&priced, options, choice, out, diag);
    }
    for (uint32_t c = 0; c < p->class_count && status == HYP_OK; c++)
        if (weight[c] == 0) choice[c] = trees[c];
    hyp_problem_dispose(&priced);
    hyp_free(weight);
    hyp_free(trees);
    return status;
}

/* By costs of terms that see those of their children. */
static hyp_status solve_by_term(const hyp_problem *p, uint32_t *choice, hyp_extraction *out, hyp_diag *diag)
{
    double ignored, *weight = hyp_malloc(p->class_count * sizeof *weight);
    if (!weight) return hyp_fail_memory(diag, p->class_count * sizeof *weight);
    hyp_status status = hyp_solve_tree(p, false, choice, weight, diag);
    if (status == HYP_OK)
        status = hyp_problem_price(p, choice, true, &ignored, NULL, diag); /* leaves out what is not needed */
    for (uint32_t i = 0; i < p->root_count && status == HYP_OK; i++) out->tree_cost += weight[p->roots[i]];
    hyp_free(weight);
    out->dag_cost = NAN;
    out->lower_bound = out->tree_cost;
    out->proven = true;
    return status;
}

hyp_status hyp_problem_solve(hyp_problem *p, const hyp_extract_options *given, uint32_t *choice, hyp_extraction *out,
                             hyp_diag *diag)
{
    hyp_extract_options o = {.size = sizeof o}, *options = &o; /* the caller may know fewer of them */
    HYP_TRY(hyp_sized_take(&o, given, hyp_extract_options, diag));
    if ((unsigned)o.method > HYP_EXTRACT_EXACT)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%d is no method of extraction", (int)o.method);
    if (!(o.budget_seconds >= 0))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%g seconds are no budget", o.budget_seconds);
    HYP_TRY(hyp_problem_link(p, diag));
    if (p->tree_cost) return solve_by_term(p, choice, out, diag);
    bool rewards = false;
    for (uint32_t n = 0; n < p->node_count; n++) rewards = rewards || p->cost[n] < 0;
    if (rewards && options->method != HYP_EXTRACT_EXACT)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "a cost is negative, with which a least tree need not exist: extract exactly");
    if (options->method == HYP_EXTRACT_TREE)
        HYP_TRY(hyp_solve_tree(p, false, choice, NULL, diag));
    else
        HYP_TRY(rewards ? hyp_solve_signed(p, options, choice, out, diag) : solve_dag(p, options, choice, out, diag));
    HYP_TRY(hyp_problem_price(p, choice, true, &out->dag_cost, &out->tree_cost, diag));
    if (options->method == HYP_EXTRACT_TREE) {
        out->lower_bound = out->tree_cost;
        out->proven = true;
    }
    return HYP_OK;
}

/* ---- from an e-graph ---------------------------------------------------------------------------- */

/* What the roots can need of an e-graph. */
typedef struct reached {
    hyp_egraph *eg;
    const bool *given;           /* by class, or NULL */
    hyp_node_cost_fn cost_of;    /* NULL: term_cost */
    double least_cost;           /* 0, or -INFINITY where costs may be negative */
    hyp_term_cost_fn term_cost;
    void *user;
    hyp_extract_memo *memo;      /* or NULL */
    uint32_t *number;            /* by class: that of the problem's; HYP_NONE: it is not needed */
    uint32_t *class_of, *row_of; /* by class, and by node of the problem */
    double *cost;                /* by row of a class that is needed */
    uint32_t *stack;
    size_t depth, nodes, kids;
} reached;

static bool is_given(const reached *r, uint32_t c) { return r->given && r->given[c]; }

static void push_class(reached *r, uint32_t c)
{
    if (r->number[c] != HYP_NONE || is_given(r, c)) return;
    r->number[c] = 0;
    r->stack[r->depth++] = c;
}

/* Asks what the e-nodes of a class cost, and pushes what those need that can be chosen. */
static hyp_status reach_below(reached *r, uint32_t c, hyp_diag *diag)
{
    size_t count;
    const hyp_enode_id *rows = hyp_egraph_class_nodes(r->eg, c, &count);
    if (!rows) return hyp_fail_memory(diag, r->eg->live_count * sizeof *rows);
    for (size_t i = 0; i < count; i++) {
        double own = r->cost[rows[i]] = r->cost_of ? r->cost_of(r->eg, rows[i], r->user) : 0;
        if (isnan(own) || own < r->least_cost || own == -INFINITY)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "the cost of '%s' is %g; a cost is at least 0, or any number for an exact extraction",
                            hyp_egraph_symbol_name(r->eg, hyp_enode_op(r->eg, rows[i])), own);
        if (!(own < INFINITY)) continue;
        uint32_t n;
        const uint32_t *kids = hyp_row_kids(r->eg, rows[i], &n);
        r->nodes++;
        r->kids += n;
        for (uint32_t j = 0; j < n; j++) push_class(r, kids[j]);
    }
    return HYP_OK;
}

static hyp_status reach(reached *r, const hyp_class_id *roots, size_t root_count, hyp_diag *diag)
{
    memset(r->number, 0xff, r->eg->row_count * sizeof *r->number);
    for (size_t i = 0; i < root_count; i++) {
        uint32_t c = hyp_egraph_find(r->eg, roots[i]);
        if (c == HYP_NONE)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%u is no e-class of this e-graph", roots[i]);
        push_class(r, c);
    }
    while (r->depth) HYP_TRY(reach_below(r, r->stack[--r->depth], diag));
    return HYP_OK;
}

/* Numbers what was reached: classes and e-nodes stay in the order of their ids, on which ties depend. */
static hyp_status fill(reached *r, hyp_problem *p, const hyp_class_id *roots, size_t root_count, hyp_diag *diag)
{
    uint32_t classes = 0, node = 0, kid = 0;
    for (uint32_t c = 0; c < r->eg->row_count; c++)
        if (r->number[c] != HYP_NONE) r->class_of[r->number[c] = classes++] = c;
    HYP_TRY(hyp_problem_alloc(p, classes, r->nodes, r->kids, root_count, diag));
    for (uint32_t row = 0; row < r->eg->row_count; row++) {
        uint32_t n;
        if (hyp_row_dead(r->eg, row) || r->number[r->eg->rows[row].home] == HYP_NONE || !(r->cost[row] < INFINITY))
            continue;
        const uint32_t *kids = hyp_row_kids(r->eg, row, &n);
        p->owner[node] = r->number[r->eg->rows[row].home];
        p->cost[node] = r->cost[row];
        p->kid_at[node] = kid;
        for (uint32_t j = 0; j < n; j++)
            if (!is_given(r, kids[j])) p->kids[kid++] = r->number[kids[j]];
        r->row_of[node++] = row;
    }
    p->kid_at[node] = kid;
    p->root_count = 0;
    for (size_t i = 0; i < root_count; i++) {
        uint32_t c = hyp_egraph_find(r->eg, roots[i]);
        if (!is_given(r, c)) p->roots[p->root_count++] = r->number[c];
    }
    return HYP_OK;
}

/* The problem's function for the e-node of a node. */
static double ask_term_cost(void *user, uint32_t node, const double *kids, size_t count)
{
    reached *r = user;
    return r->term_cost(r->eg, r->row_of[node], kids, count, r->user);
}

/* As hyp_problem_solve, unless the problem was solved before. */
static hyp_status solve_or_recall(hyp_extract_memo *memo, hyp_problem *p, const hyp_extract_options *options,
                                  uint32_t *choice, hyp_extraction *out, hyp_diag *diag)
{
    const hyp_memo_answer *known;
    if (!memo) return hyp_problem_solve(p, options, choice, out, diag);
    HYP_TRY(hyp_memo_find(memo, p, options->budget_work, &known, diag));
    if (!known) {
        HYP_TRY(hyp_problem_solve(p, options, choice, out, diag));
        hyp_memo_answer found = {choice, out->dag_cost, out->tree_cost, out->lower_bound, out->proven, 0};
        return hyp_memo_add(memo, &found, diag);
    }
    if (p->class_count) memcpy(choice, known->choice, p->class_count * sizeof *choice);
    out->dag_cost = known->dag_cost;
    out->tree_cost = known->tree_cost;
    out->lower_bound = known->lower_bound;
    out->proven = known->proven;
    return HYP_OK;
}

static hyp_status solve(reached *r, hyp_problem *p, const hyp_extract_options *options, hyp_extraction *out,
                        hyp_diag *diag)
{
    uint32_t *choice = hyp_malloc(((size_t)p->class_count + 1) * sizeof *choice);
    if (!choice) return hyp_fail_memory(diag, p->class_count * sizeof *choice);
    if (!r->cost_of) {
        p->tree_cost = ask_term_cost;
        p->tree_user = r;
    }
    hyp_status status = solve_or_recall(r->memo, p, options, choice, out, diag);
    memset(out->choice, 0xff, out->class_bound * sizeof *out->choice);
    for (uint32_t c = 0; c < p->class_count && status == HYP_OK; c++)
        if (choice[c] != HYP_NONE) out->choice[r->class_of[c]] = r->row_of[choice[c]];
    hyp_free(choice);
    return status;
}

static hyp_status extract(reached *r, const hyp_class_id *roots, size_t root_count, const hyp_extract_options *options,
                          hyp_extraction *out, hyp_diag *diag)
{
    hyp_problem p = {0};
    HYP_TRY(reach(r, roots, root_count, diag));
    hyp_status status = fill(r, &p, roots, root_count, diag);
    if (status == HYP_OK) status = solve(r, &p, options, out, diag);
    hyp_problem_dispose(&p);
    return status;
}

/* What all extractions from an e-graph do. */
static hyp_status extract_from(reached *r, const hyp_class_id *roots, size_t root_count,
                               const hyp_extract_options *options, hyp_extraction *out, hyp_diag *diag)
{
    hyp_egraph *eg = r->eg;
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before extraction");
    size_t bound = eg->row_count, words = bound + 1;
    r->number = hyp_malloc(4 * words * sizeof *r->number);
    r->cost = hyp_malloc(words * sizeof *r->cost);
    out->choice = hyp_malloc(words * sizeof *out->choice);
    out->class_bound = bound;
    hyp_status status = HYP_OK;
    if (!r->number || !r->cost || !out->choice) {
        status = hyp_fail_memory(diag, bound * sizeof *r->cost);
    } else {
        r->class_of = r->number + words;
        r->row_of = r->class_of + words;
        r->stack = r->row_of + words;
        const char *outer = hyp_eg_begin_reading(eg, "an extraction");
        status = extract(r, roots, root_count, options, out, diag);
        hyp_eg_end_reading(eg, outer);
    }
    if (status != HYP_OK) hyp_extraction_dispose(out);
    hyp_free(r->number);
    hyp_free(r->cost);
    return status;
}

hyp_status hyp_egraph_extract_with(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count,
                                   const hyp_extract_options *options, hyp_node_cost_fn cost, void *user,
                                   hyp_extraction *out, hyp_diag *diag)
{
    return hyp_egraph_extract_again(eg, roots, root_count, options, cost, user, NULL, out, diag);
}

hyp_status hyp_egraph_extract_again(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count,
                                    const hyp_extract_options *options, hyp_node_cost_fn cost, void *user,
                                    hyp_extract_memo *memo, hyp_extraction *out, hyp_diag *diag)
{
    HYP_NEED(out);
    *out = (hyp_extraction){0};
    HYP_NEED(eg);
    HYP_NEED_LIST(roots, root_count);
    HYP_NEED(options);
    HYP_NEED(cost);
    bool knows = options->size > offsetof(hyp_extract_options, given);
    reached r = {.eg = eg, .given = knows ? options->given : NULL, .cost_of = cost, .user = user, .memo = memo};
    if (options->size > offsetof(hyp_extract_options, method) && options->method == HYP_EXTRACT_EXACT)
        r.least_cost = -INFINITY;
    return extract_from(&r, roots, root_count, options, out, diag);
}

hyp_status hyp_egraph_extract_by_term(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count,
                                      hyp_term_cost_fn cost, void *user, hyp_extraction *out, hyp_diag *diag)
{
    HYP_NEED(out);
    *out = (hyp_extraction){0};
    HYP_NEED(eg);
    HYP_NEED_LIST(roots, root_count);
    HYP_NEED(cost);
    hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_TREE};
    reached r = {.eg = eg, .term_cost = cost, .user = user};
    return extract_from(&r, roots, root_count, &options, out, diag);
}

hyp_status hyp_egraph_extract(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count, hyp_extract_method method,
                              hyp_node_cost_fn cost, void *user, hyp_extraction *out, hyp_diag *diag)
{
    hyp_extract_options options = {.size = sizeof options, .method = method};
    return hyp_egraph_extract_with(eg, roots, root_count, &options, cost, user, out, diag);
}

void hyp_extraction_dispose(hyp_extraction *ex)
{
    if (!ex) return;
    hyp_free(ex->choice);
    *ex = (hyp_extraction){0};
}
