/* Extraction from an e-graph: it is put into the form of problem.h, solved there, and the choice brought back. */
#include <math.h>
#include <string.h>

#include "egraph/core/state.h"
#include "egraph/core/term.h"
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
        hyp_exact_budget budget = {seconds > 0 ? seconds : options->budget_work ? INFINITY : DEFAULT_BUDGET,
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

hyp_status hyp_problem_solve(hyp_problem *p, const hyp_extract_options *given, uint32_t *choice, hyp_extraction *out,
                             hyp_diag *diag)
{
    hyp_extract_options o = {0}, *options = &o; /* the caller may know fewer of them */
    memcpy(&o, given, given->size < sizeof o ? given->size : sizeof o);
    HYP_TRY(hyp_problem_link(p, diag));
    if (options->method == HYP_EXTRACT_TREE)
        HYP_TRY(hyp_solve_tree(p, false, choice, NULL, diag));
    else
        HYP_TRY(solve_dag(p, options, choice, out, diag));
    HYP_TRY(hyp_problem_price(p, choice, true, &out->dag_cost, &out->tree_cost, diag));
    if (options->method == HYP_EXTRACT_TREE) {
        out->lower_bound = out->tree_cost;
        out->proven = true;
    }
    return HYP_OK;
}

/* ---- from an e-graph ---------------------------------------------------------------------------- */

/* Fills the problem's nodes from the live rows; row_of names them. Classes keep their ids. */
static hyp_status fill(hyp_egraph *eg, hyp_problem *p, uint32_t *row_of, hyp_node_cost_fn cost, void *user,
                       hyp_diag *diag)
{
    uint32_t node = 0, kid = 0;
    for (uint32_t row = 0; row < eg->row_count; row++) {
        if (hyp_row_dead(eg, row)) continue;
        uint32_t n;
        const uint32_t *kids = hyp_row_kids(eg, row, &n);
        p->owner[node] = eg->rows[row].home;
        p->kid_at[node] = kid;
        for (uint32_t j = 0; j < n; j++) p->kids[kid++] = kids[j];
        double own = p->cost[node] = cost(eg, row, user);
        if (isnan(own) || own < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the cost of '%s' is %g; a cost is at least 0",
                            hyp_egraph_symbol_name(eg, hyp_enode_op(eg, row)), own);
        row_of[node++] = row;
    }
    return HYP_OK;
}

static hyp_status solve(hyp_egraph *eg, hyp_problem *p, uint32_t *row_of, const hyp_extract_options *options,
                        hyp_node_cost_fn cost, void *user, hyp_extraction *out, hyp_diag *diag)
{
    HYP_TRY(fill(eg, p, row_of, cost, user, diag));
    HYP_TRY(hyp_problem_solve(p, options, out->choice, out, diag));
    for (size_t c = 0; c < out->class_bound; c++)
        if (out->choice[c] != HYP_NONE) out->choice[c] = row_of[out->choice[c]];
    return HYP_OK;
}

static size_t count_kids(hyp_egraph *eg)
{
    size_t kids = 0;
    for (uint32_t row = 0; row < eg->row_count; row++) {
        uint32_t n;
        hyp_row_kids(eg, row, &n);
        if (!hyp_row_dead(eg, row)) kids += n;
    }
    return kids;
}

hyp_status hyp_egraph_extract_with(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count,
                                   const hyp_extract_options *options, hyp_node_cost_fn cost, void *user,
                                   hyp_extraction *out, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED_LIST(roots, root_count);
    HYP_NEED(options);
    HYP_NEED(cost);
    HYP_NEED(out);
    *out = (hyp_extraction){0};
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before extraction");
    size_t bound = eg->row_count, nodes = eg->live_count;
    hyp_problem p;
    HYP_TRY(hyp_problem_alloc(&p, bound, nodes, count_kids(eg), root_count, diag));
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < root_count && status == HYP_OK; i++) {
        p.roots[i] = hyp_egraph_find(eg, roots[i]);
        if (p.roots[i] == HYP_NONE)
            status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%u is no e-class of this e-graph", roots[i]);
    }
    uint32_t *row_of = hyp_malloc(nodes * sizeof *row_of);
    out->choice = hyp_malloc(bound * sizeof *out->choice);
    out->class_bound = bound;
    if (status == HYP_OK && (!row_of || !out->choice)) status = hyp_fail_memory(diag, bound * sizeof *out->choice);
    if (status == HYP_OK) status = solve(eg, &p, row_of, options, cost, user, out, diag);
    if (status != HYP_OK) hyp_extraction_dispose(out);
    hyp_free(row_of);
    hyp_problem_dispose(&p);
    return status;
}

hyp_status hyp_egraph_extract(hyp_egraph *eg, const hyp_class_id *roots, size_t root_count, hyp_extract_method method,
                              hyp_node_cost_fn cost, void *user, hyp_extraction *out, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED_LIST(roots, root_count);
    HYP_NEED(cost);
    HYP_NEED(out);
    hyp_extract_options options = {.size = sizeof options, .method = method};
    return hyp_egraph_extract_with(eg, roots, root_count, &options, cost, user, out, diag);
}

void hyp_extraction_dispose(hyp_extraction *ex)
{
    if (!ex) return;
    hyp_free(ex->choice);
    *ex = (hyp_extraction){0};
}

#define LONGEST_TEXT ((size_t)1 << 28) /* bytes */

/* A term being counted or written: the next child of a row. */
typedef struct frame {
    uint32_t row, next;
} frame;

/* Whether the symbols and blanks alone are short enough; `sizes` is zero, and is filled by row. */
static bool may_fit(hyp_egraph *eg, const hyp_extraction *ex, uint32_t root, size_t *sizes)
{
    HYP_VEC(frame) stack = {0};
    bool ok = hyp_vec_push(&stack, NULL, (frame){ex->choice[root], 0}) == HYP_OK;
    while (ok && stack.len) {
        frame *top = &stack.data[stack.len - 1];
        uint32_t n;
        const uint32_t *kids = hyp_row_kids(eg, top->row, &n);
        if (top->next < n) {
            uint32_t kid = ex->choice[kids[top->next++]];
            if (sizes[kid]) continue;
            ok = hyp_vec_push(&stack, NULL, (frame){kid, 0}) == HYP_OK;
            continue;
        }
        size_t size = 1 + (size_t)n;
        for (uint32_t k = 0; k < n && size <= LONGEST_TEXT; k++) size += sizes[ex->choice[kids[k]]];
        sizes[top->row] = size;
        stack.len--;
    }
    ok = ok && sizes[ex->choice[root]] <= LONGEST_TEXT;
    hyp_vec_free(&stack);
    return ok;
}

static bool print(hyp_egraph *eg, const hyp_extraction *ex, uint32_t root, hyp_strbuf *sb)
{
    HYP_VEC(frame) stack = {0};
    bool ok = hyp_vec_push(&stack, NULL, (frame){ex->choice[root], 0}) == HYP_OK;
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
        ok = !sb->failed && sb->len < LONGEST_TEXT && hyp_vec_push(&stack, NULL, (frame){kid, 0}) == HYP_OK;
    }
    hyp_vec_free(&stack);
    return ok && !sb->failed;
}

char *hyp_extraction_text(hyp_egraph *eg, const hyp_extraction *ex, hyp_class_id root)
{
    if (!eg || !ex) return NULL;
    hyp_strbuf sb = {0};
    root = hyp_egraph_find(eg, root);
    if (root >= ex->class_bound || ex->choice[root] == HYP_NONE) return NULL;
    size_t *sizes = hyp_calloc(eg->row_count, sizeof *sizes);
    bool fits = sizes && may_fit(eg, ex, root, sizes);
    hyp_free(sizes);
    if (fits && print(eg, ex, root, &sb)) return sb.data;
    hyp_strbuf_dispose(&sb);
    return NULL;
}
