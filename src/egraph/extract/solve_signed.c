/* The least DAG cost where some costs are negative: a class that costs less than nothing is a reward for whoever needs
 * it, and is not to be had without a need. A choice is finite and has no circle, so there is a least one.
 *
 * Branch and bound over the classes that pay. In each branch some are in use, some are not, and the others are relaxed:
 * their rewards are given away, and what is left of the costs is not negative, so that the search for these
 * (solve_exact.c) bounds the branch and gives an answer. Where a class has to be in use and nothing in the answer needs
 * it, one branch for each e-node that may need it. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "egraph/extract/problem.h"

enum { FREE, USED, SUPPORTED /* used, and who needs it is settled */, BARRED };
enum { MOST_OPEN = 4096 };
#define MOST_BYTES ((size_t)256 << 20)

typedef struct branch {
    double bound;
    unsigned char *state; /* by class */
    unsigned char *gone;  /* by node, behind it: not to be chosen */
} branch;

typedef struct signed_search {
    const hyp_problem *p; /* a core problem */
    const hyp_extract_options *options;
    HYP_VEC(branch) open;
    double end;
    uint64_t solved;     /* branches */
    double best, closed; /* the best answer; the least bound of what could not be split */
    uint32_t *best_choice;
    /* Of the branch under way. */
    uint32_t *choice; /* by class; of what the roots need in it */
    uint32_t *spare, *component, *stack;
    double *least;          /* by class: what its cheapest node costs, at most 0 */
    unsigned char *reached; /* by class */
    uint32_t *node_of;      /* by node of the relaxed problem */
    hyp_diag *diag;
} signed_search;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_over(const signed_search *s)
{
    enum { BRANCHES = 256 }; /* with a limit of work, which each has a share of */
    if (s->options->budget_work && s->solved >= BRANCHES) return true;
    return now() >= s->end || (s->options->stop && s->options->stop(s->options->stop_user));
}

static hyp_extract_options branch_budget(const signed_search *s)
{
    enum { SHARE = 64 };
    hyp_extract_options o = {
        .size = sizeof o, .method = HYP_EXTRACT_EXACT, .stop = s->options->stop, .stop_user = s->options->stop_user};
    double left = s->end - now();
    if (left < 1e9) o.budget_seconds = left > 1e-3 ? left / 4 : 2.5e-4;
    if (s->options->budget_work) o.budget_work = s->options->budget_work / SHARE + 1;
    return o;
}

/* Whether a branch of this bound may have a better answer. */
static bool is_worth(const signed_search *s, double bound)
{
    return s->best == INFINITY || bound < s->best - 1e-9 * fmax(1, fabs(s->best));
}

/* ---- branches ------------------------------------------------------------------------------------- */

static hyp_status push_branch(signed_search *s, const branch *from, double bound, branch **out)
{
    size_t bytes = (size_t)s->p->class_count + s->p->node_count;
    branch b = {.bound = bound, .state = hyp_calloc(bytes, 1)};
    if (!b.state) return hyp_fail_memory(s->diag, bytes);
    b.gone = b.state + s->p->class_count;
    if (from) memcpy(b.state, from->state, bytes);
    if (hyp_vec_push(&s->open, s->diag, b) != HYP_OK) {
        hyp_free(b.state);
        return HYP_ERR_NO_MEMORY;
    }
    *out = &s->open.data[s->open.len - 1];
    return HYP_OK;
}

/* The branch of the least bound, which is taken out; the oldest of equal ones. */
static branch pop_branch(signed_search *s)
{
    size_t least = 0;
    for (size_t i = 1; i < s->open.len; i++)
        if (s->open.data[i].bound < s->open.data[least].bound) least = i;
    branch b = s->open.data[least];
    memmove(&s->open.data[least], &s->open.data[least + 1], (s->open.len - least - 1) * sizeof b);
    s->open.len--;
    return b;
}

static bool is_alive(const signed_search *s, const branch *b, uint32_t n)
{
    const hyp_problem *p = s->p;
    if (b->gone[n] || b->state[p->owner[n]] == BARRED) return false;
    for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++)
        if (b->state[p->kids[i]] == BARRED) return false;
    return true;
}

/* ---- the relaxed problem ----------------------------------------------------------------------------- */

static bool is_wanted(unsigned char state) { return state == USED || state == SUPPORTED; }

static void push_class(signed_search *s, uint32_t c, uint32_t *top)
{
    if (s->reached[c]) return;
    s->reached[c] = 1;
    s->stack[(*top)++] = c;
}

/* What the branch can need, with what its classes cost at least; gives the rewards of all of them. */
static double reach(signed_search *s, const branch *b, uint32_t *nodes, uint32_t *kids, uint32_t *roots)
{
    const hyp_problem *p = s->p;
    uint32_t top = 0;
    double rewards = 0;
    *nodes = *kids = 0;
    *roots = p->root_count;
    memset(s->reached, 0, p->class_count);
    for (uint32_t i = 0; i < p->root_count; i++) push_class(s, p->roots[i], &top);
    for (uint32_t c = 0; c < p->class_count; c++) {
        if (!is_wanted(b->state[c])) continue;
        ++*roots;
        push_class(s, c, &top);
    }
    while (top) {
        uint32_t c = s->stack[--top];
        s->least[c] = 0;
        for (uint32_t n = p->first[c]; n < p->first[c + 1]; n++) {
            if (!is_alive(s, b, n)) continue;
            if (p->cost[n] < s->least[c]) s->least[c] = p->cost[n];
            ++*nodes;
            *kids += p->kid_at[n + 1] - p->kid_at[n];
            for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) push_class(s, p->kids[i], &top);
        }
        rewards += s->least[c];
    }
    return rewards;
}

static hyp_status make_relaxed(signed_search *s, const branch *b, hyp_problem *q, double *rewards)
{
    const hyp_problem *p = s->p;
    uint32_t nodes, kids, roots, node = 0, kid = 0, root = 0;
    *rewards = reach(s, b, &nodes, &kids, &roots);
    HYP_TRY(hyp_problem_alloc(q, p->class_count, nodes, kids, roots, s->diag));
    for (uint32_t n = 0; n < p->node_count; n++) {
        uint32_t c = p->owner[n];
        if (!s->reached[c] || !is_alive(s, b, n)) continue;
        q->owner[node] = c;
        q->cost[node] = p->cost[n] - s->least[c];
        q->kid_at[node] = kid;
        for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++) q->kids[kid++] = p->kids[i];
        s->node_of[node++] = n;
    }
    q->kid_at[node] = kid;
    for (uint32_t i = 0; i < p->root_count; i++) q->roots[root++] = p->roots[i];
    for (uint32_t c = 0; c < p->class_count; c++)
        if (is_wanted(b->state[c])) q->roots[root++] = c;
    return HYP_OK;
}

/* Keeps an answer of s->p if it is the best one, after what can be made better by exchanging single nodes. */
static hyp_status keep_answer(signed_search *s, uint32_t *answer)
{
    const hyp_problem *p = s->p;
    double cost;
    HYP_TRY(hyp_problem_price(p, answer, true, &cost, NULL, s->diag));
    if (!(cost < INFINITY)) return HYP_OK;
    uint64_t work = 64 * (uint64_t)p->kid_at[p->node_count] + 1000;
    HYP_TRY(hyp_improve(p, s->component, s->spare, answer, work, &cost, s->diag));
    if (!(cost < s->best)) return HYP_OK;
    s->best = cost;
    memcpy(s->best_choice, answer, p->class_count * sizeof *answer);
    return hyp_problem_price(p, s->best_choice, true, &cost, NULL, s->diag);
}

/* Solves the branch without its rewards: *out_bound INFINITY where there is no answer. Notes what the roots need in it.
 */
static hyp_status relax(signed_search *s, const branch *b, double *out_bound)
{
    const hyp_problem *p = s->p;
    size_t bytes = p->class_count * sizeof(uint32_t);
    hyp_problem q = {0};
    hyp_extraction ex = {0};
    hyp_extract_options budget = branch_budget(s);
    double rewards, cost;
    hyp_diag said = {0};
    s->solved++;
    uint32_t *answer = hyp_malloc(bytes);
    hyp_status status = answer ? make_relaxed(s, b, &q, &rewards) : hyp_fail_memory(s->diag, bytes);
    if (status == HYP_OK) {
        status = hyp_problem_solve(&q, &budget, answer, &ex, &said);
        if (status == HYP_ERR_UNSUPPORTED) {
            *out_bound = INFINITY;
            hyp_problem_dispose(&q);
            hyp_free(answer);
            return HYP_OK;
        }
        if (status != HYP_OK) status = hyp_fail(s->diag, status, "%s", said.message);
    }
    hyp_problem_dispose(&q);
    if (status == HYP_OK) {
        *out_bound = (ex.proven ? ex.dag_cost : ex.lower_bound) + rewards;
        for (uint32_t c = 0; c < p->class_count; c++)
            answer[c] = answer[c] == HYP_NONE ? HYP_NONE : s->node_of[answer[c]];
        memcpy(s->choice, answer, bytes);
        status = hyp_problem_price(p, s->choice, true, &cost, NULL, s->diag); /* by the roots alone */
    }
    if (status == HYP_OK) {
        memcpy(answer, s->choice, bytes);
        status = keep_answer(s, answer);
    }
    hyp_free(answer);
    return status;
}

/* ---- splitting ------------------------------------------------------------------------------------- */

/* Either in use or not. */
static hyp_status split_class(signed_search *s, const branch *b, uint32_t c, double bound)
{
    branch *with, *without;
    HYP_TRY(push_branch(s, b, bound, &without));
    without->state[c] = BARRED;
    HYP_TRY(push_branch(s, b, bound, &with));
    with->state[c] = USED;
    return HYP_OK;
}

static bool needs(const hyp_problem *p, uint32_t n, uint32_t c)
{
    for (uint32_t i = p->kid_at[n]; i < p->kid_at[n + 1]; i++)
        if (p->kids[i] == c) return true;
    return false;
}

/* A class that is in use is needed by a node that is chosen: the first one of those that may be. */
static hyp_status split_users(signed_search *s, const branch *b, uint32_t c, double bound)
{
    const hyp_problem *p = s->p;
    for (uint32_t n = 0; n < p->node_count; n++) {
        branch *one;
        if (!needs(p, n, c) || !is_alive(s, b, n)) continue;
        uint32_t owner = p->owner[n];
        HYP_TRY(push_branch(s, b, bound, &one));
        one->state[c] = SUPPORTED;
        if (one->state[owner] == FREE) one->state[owner] = USED;
        for (uint32_t m = p->first[owner]; m < p->first[owner + 1]; m++)
            if (m != n) one->gone[m] = 1;
        for (uint32_t m = 0; m < n; m++) /* those before are other branches */
            if (needs(p, m, c) && p->owner[m] != owner) one->gone[m] = 1;
    }
    return HYP_OK;
}

/* Splits where the answer is not what the bound counted: at the greatest reward that it has no need for. */
static hyp_status split(signed_search *s, const branch *b, double bound)
{
    const hyp_problem *p = s->p;
    uint32_t free_class = HYP_NONE, unneeded = HYP_NONE;
    for (uint32_t c = 0; c < p->class_count; c++) {
        if (!s->reached[c] || s->choice[c] != HYP_NONE) continue;
        if (b->state[c] == USED && unneeded == HYP_NONE) unneeded = c;
        if (b->state[c] != FREE || !(s->least[c] < 0)) continue;
        if (free_class == HYP_NONE || s->least[c] < s->least[free_class]) free_class = c;
    }
    if (unneeded != HYP_NONE) return split_users(s, b, unneeded, bound);
    if (free_class != HYP_NONE) return split_class(s, b, free_class, bound);
    if (bound < s->closed) s->closed = bound; /* the search of the rest was cut */
    return HYP_OK;
}

static hyp_status run(signed_search *s)
{
    const hyp_problem *p = s->p;
    size_t each = (size_t)p->class_count + p->node_count + sizeof(branch), most = MOST_BYTES / each;
    branch *root;
    HYP_TRY(push_branch(s, NULL, -INFINITY, &root));
    while (s->open.len && (s->solved == 0 || !is_over(s)) && s->open.len < MOST_OPEN && s->open.len < most) {
        branch b = pop_branch(s);
        double bound = b.bound;
        hyp_status status = HYP_OK;
        if (is_worth(s, bound)) status = relax(s, &b, &bound);
        bound = fmax(bound, b.bound);
        if (status == HYP_OK && is_worth(s, bound)) status = split(s, &b, bound);
        hyp_free(b.state);
        HYP_TRY(status);
    }
    return HYP_OK;
}

/* ---- the call ---------------------------------------------------------------------------------------- */

static hyp_status take_room(signed_search *s)
{
    size_t classes = s->p->class_count, nodes = s->p->node_count;
    uint32_t *words = hyp_malloc((5 * classes + nodes) * sizeof *words);
    s->best_choice = words;
    s->least = hyp_malloc(classes * sizeof *s->least);
    s->reached = hyp_malloc(classes);
    if (!words || !s->least || !s->reached) return hyp_fail_memory(s->diag, (5 * classes + nodes) * sizeof *words);
    s->choice = words + classes;
    s->spare = words + 2 * classes;
    s->component = words + 3 * classes;
    s->stack = words + 4 * classes;
    s->node_of = words + 5 * classes;
    return HYP_OK;
}

/* For each class a term that has no circle with any other: the cheapest trees of costs without what is negative in
 * them. */
static hyp_status make_spare(signed_search *s)
{
    hyp_problem q;
    double rewards;
    branch nothing = {.state = hyp_calloc((size_t)s->p->class_count + s->p->node_count, 1)};
    if (!nothing.state) return hyp_fail_memory(s->diag, s->p->class_count);
    nothing.gone = nothing.state + s->p->class_count;
    hyp_status status = make_relaxed(s, &nothing, &q, &rewards);
    if (status == HYP_OK) status = hyp_problem_link(&q, s->diag);
    if (status == HYP_OK) status = hyp_solve_tree(&q, true, s->spare, NULL, s->diag);
    for (uint32_t c = 0; c < s->p->class_count && status == HYP_OK; c++)
        if (s->spare[c] != HYP_NONE) s->spare[c] = s->node_of[s->spare[c]];
    hyp_problem_dispose(&q);
    hyp_free(nothing.state);
    return status;
}

static hyp_status search_core(signed_search *s)
{
    HYP_TRY(take_room(s));
    HYP_TRY(make_spare(s));
    HYP_TRY(hyp_problem_components(s->p, s->component, s->diag));
    return run(s);
}

hyp_status hyp_solve_signed(const hyp_problem *p, const hyp_extract_options *options, uint32_t *choice,
                            hyp_extraction *out, hyp_diag *diag)
{
    const double seconds = options->budget_seconds > 0 ? options->budget_seconds : options->budget_work ? INFINITY : 10;
    hyp_problem core;
    HYP_TRY(hyp_problem_core(p, &core, diag));
    signed_search s = {
        .p = &core, .options = options, .end = now() + seconds, .best = INFINITY, .closed = INFINITY, .diag = diag};
    hyp_status status = search_core(&s);
    double bound = fmin(s.best, s.closed);
    for (size_t i = 0; i < s.open.len; i++) {
        bound = fmin(bound, s.open.data[i].bound);
        hyp_free(s.open.data[i].state);
    }
    memset(choice, 0xff, p->class_count * sizeof *choice);
    for (uint32_t c = 0; c < core.class_count && status == HYP_OK; c++) {
        if (s.best_choice[c] == HYP_NONE) continue;
        uint32_t node = core.origin[s.best_choice[c]];
        choice[p->owner[node]] = node;
    }
    out->lower_bound = bound;
    out->proven = !is_worth(&s, bound);
    hyp_vec_free(&s.open);
    hyp_free(s.best_choice);
    hyp_free(s.least);
    hyp_free(s.reached);
    hyp_problem_dispose(&core);
    return status;
}
