/* Which e-nodes become the graph.
 *
 * Extraction by cost sets is greedy: a class takes the e-node that is best for it alone, so two users of a hidden
 * value may each compute it anew inside a fused-mlp of their own. Values with several users are therefore also
 * tried as given: computed once, and free to whoever uses them. What is better as a whole is kept. */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"

enum { MAX_TRIALS = 32 }; /* shared values are tried one by one, or in as many groups where there are more */

typedef struct search {
    hyp_rw *rw;
    hyp_rw_weigh *weigh;
    hyp_diag *diag;
    hyp_arena arena;
    hyp_enode_id forced;  /* an e-node that must be chosen, or HYP_NONE */
    size_t bound;         /* of classes */
    double *costs;        /* by e-node, asked once: the trials look at each of them many times */
    hyp_enode_id *given;  /* by class: its e-node where it is free, else HYP_NONE */
    hyp_class_id *wanted; /* outputs, then shared values */
    size_t outputs, count; /* `outputs`: those that must be computed */
    uint8_t *seen; /* by class, for walks */
    HYP_VEC(hyp_class_id) stack;
} search;

static double cost_of(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    search *s = user;
    hyp_class_id c = hyp_enode_class(eg, node);
    if (s->given[c] != HYP_NONE) return s->given[c] == node ? 0 : INFINITY;
    return s->costs[node];
}

/* Asks for the cost of every e-node that a class has. */
static hyp_status ask_costs(search *s)
{
    hyp_egraph *eg = s->rw->eg;
    size_t nodes = hyp_egraph_enode_bound(eg);
    s->costs = hyp_arena_alloc(&s->arena, nodes * sizeof *s->costs);
    if (!s->costs) return hyp_fail_memory(s->diag, nodes * sizeof *s->costs);
    for (hyp_class_id c = 0; c < s->bound; c++) {
        size_t count;
        if (hyp_egraph_find(eg, c) != c) continue;
        const hyp_enode_id *of_class = hyp_egraph_class_nodes(eg, c, &count);
        if (!of_class) return hyp_fail_memory(s->diag, nodes);
        bool decided = s->forced != HYP_NONE && hyp_enode_class(eg, s->forced) == c;
        for (size_t i = 0; i < count; i++) {
            bool out = decided && of_class[i] != s->forced;
            s->costs[of_class[i]] = out ? INFINITY : hyp_rw_node_cost(eg, of_class[i], s->weigh);
        }
    }
    return s->weigh->status;
}

static hyp_status push(search *s, hyp_class_id c)
{
    if (s->seen[c]) return HYP_OK;
    s->seen[c] = 1;
    HYP_TRY(hyp_vec_grow(&s->stack, s->diag));
    s->stack.data[s->stack.len - 1] = c;
    return HYP_OK;
}

/* Visits what some classes need under a choice: sums its cost, and marks it as given when `give` is there. */
static hyp_status walk(search *s, const hyp_extraction *ex, const hyp_class_id *from, size_t count, hyp_enode_id *give,
                       double *out_cost)
{
    double cost = 0;
    memset(s->seen, 0, s->bound);
    s->stack.len = 0;
    for (size_t i = 0; i < count; i++) HYP_TRY(push(s, from[i]));
    while (s->stack.len) {
        hyp_class_id c = s->stack.data[--s->stack.len];
        hyp_enode_id node = ex->choice[c];
        size_t children;
        const hyp_class_id *kids = hyp_enode_children(s->rw->eg, node, &children);
        cost += s->costs[node];
        if (give) give[c] = node;
        for (size_t i = 0; i < children; i++) HYP_TRY(push(s, hyp_egraph_find(s->rw->eg, kids[i])));
    }
    *out_cost = cost;
    return HYP_OK;
}

/* One extraction under what is given, and what the outputs then cost. */
static hyp_status attempt(search *s, hyp_extraction *out, double *out_cost)
{
    HYP_TRY(hyp_egraph_extract(s->rw->eg, s->wanted, s->count, HYP_EXTRACT_DAG, cost_of, s, out, s->diag));
    hyp_status status = walk(s, out, s->wanted, s->outputs, NULL, out_cost);
    if (status == HYP_OK) status = s->weigh->status;
    if (status != HYP_OK) hyp_extraction_dispose(out);
    return status;
}

/* Tries with shared values first..last-1 given, and keeps that if it is better. */
static hyp_status try_group(search *s, size_t first, size_t last, hyp_extraction *best, double *best_cost)
{
    hyp_enode_id *before = hyp_arena_alloc(&s->arena, s->bound * sizeof *before);
    hyp_extraction ex = {0};
    double cost;
    if (!before) return hyp_fail_memory(s->diag, s->bound * sizeof *before);
    memcpy(before, s->given, s->bound * sizeof *before);
    HYP_TRY(walk(s, best, s->wanted + first, last - first, s->given, &cost));
    HYP_TRY(attempt(s, &ex, &cost));
    if (cost < *best_cost * (1 - 1e-9)) {
        hyp_extraction_dispose(best);
        *best = ex;
        *best_cost = cost;
    } else {
        hyp_extraction_dispose(&ex);
        s->given = before;
    }
    return HYP_OK;
}

/* Values of the input graph that are no constants and have more than one user. */
static hyp_status find_wanted(search *s)
{
    const hyp_graph *in = s->rw->in;
    uint32_t *uses = hyp_arena_zalloc(&s->arena, in->values.len, sizeof *uses);
    s->wanted = hyp_arena_zalloc(&s->arena, in->outputs.len + in->values.len + 1, sizeof *s->wanted);
    if (!uses || !s->wanted) return hyp_fail_memory(s->diag, in->values.len * sizeof *s->wanted);
    for (size_t i = 0; i < in->outputs.len; i++) {
        uses[in->outputs.data[i].value]++;
        s->wanted[s->count++] = hyp_egraph_find(s->rw->eg, s->rw->class_of[in->outputs.data[i].value]);
    }
    if (s->forced != HYP_NONE) s->wanted[s->count++] = hyp_enode_class(s->rw->eg, s->forced);
    s->outputs = s->count;
    for (size_t i = 0; i < in->nodes.len; i++)
        for (uint32_t k = 0; k < in->nodes.data[i].input_count; k++)
            if (in->nodes.data[i].inputs[k] != HYP_NO_VALUE) uses[in->nodes.data[i].inputs[k]]++;
    for (size_t i = 0; i < in->values.len; i++) {
        hyp_class_id c = hyp_egraph_find(s->rw->eg, s->rw->class_of[i]);
        if (uses[i] < 2 || in->values.data[i].kind != HYP_VALUE_NODE || hyp_rw_fact_of(s->rw, c)->constant) continue;
        s->wanted[s->count++] = c;
    }
    return HYP_OK;
}

static hyp_status run(search *s, hyp_extraction *out, double *out_cost)
{
    s->bound = hyp_egraph_class_bound(s->rw->eg);
    s->given = hyp_arena_alloc(&s->arena, s->bound * sizeof *s->given);
    s->seen = hyp_arena_alloc(&s->arena, s->bound);
    if (!s->given || !s->seen) return hyp_fail_memory(s->diag, s->bound * sizeof *s->given);
    memset(s->given, 0xff, s->bound * sizeof *s->given); /* HYP_NONE */
    HYP_TRY(ask_costs(s));
    HYP_TRY(find_wanted(s));
    HYP_TRY(attempt(s, out, out_cost));
    size_t shared = s->count - s->outputs, groups = shared < MAX_TRIALS ? shared : MAX_TRIALS;
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < groups && status == HYP_OK; i++)
        status = try_group(s, s->outputs + i * shared / groups, s->outputs + (i + 1) * shared / groups, out, out_cost);
    if (status != HYP_OK) hyp_extraction_dispose(out);
    return status;
}

hyp_status hyp_rw_extract(hyp_rw *rw, hyp_rw_weigh *weigh, hyp_enode_id forced, hyp_extraction *out, double *out_cost,
                          hyp_diag *diag)
{
    search s = {.rw = rw, .weigh = weigh, .forced = forced, .diag = diag};
    hyp_status status = run(&s, out, out_cost);
    hyp_vec_free(&s.stack);
    hyp_arena_dispose(&s.arena);
    return weigh->status != HYP_OK ? weigh->status : status;
}
