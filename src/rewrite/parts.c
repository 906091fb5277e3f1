/* Parts of the chosen graph for which another form is predicted to be about as good: who can time both says which to
 * take.
 *
 * The best plan without one of the chosen e-nodes differs from the chosen one around it. What differs is a part, of
 * which both choices are a form: graphs with the same outputs, made of what both choices share. */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"

#define SEARCH_WORK UINT64_C(2000000) /* of one extraction: a fifth of what extract.c has */
#define ALL_WORK UINT64_C(200000000)  /* of all of them: e-nodes that were put before the solver */
#define CLOSE 1.1                     /* no prediction is better than this */
#define KEEP 1e-6                     /* what is chosen is kept where it costs no more than so much in proportion */
enum { HOPS = 6 };                    /* from what is tried to what may change with it */
#define SMALL 1e-3                    /* a part of less than this share of the plan is not worth the time */

/* By class: of one choice. */
typedef struct marks {
    bool *needed; /* by the outputs */
    bool *inside; /* in the form of the part that is being compared */
} marks;

typedef struct chooser {
    hyp_rw *rw;
    hyp_rw_weigh *weigh;
    const hyp_rewrite_options *options;
    const hyp_rw_rules *rules;
    double seconds; /* of the whole plan */
    double *cost;   /* by e-node; NAN: not asked for */
    bool *out;      /* by e-node: not to be taken any more */
    bool *tried;    /* by e-node */
    uint8_t *near; /* by class that is chosen: how far it is from what is tried, which has HOPS; 0: too far to change */
    hyp_extraction *choice;
    marks chosen, other;
    hyp_class_id *order, *stack, *outputs; /* order: those that are chosen, each after what it needs */
    bool *read;                            /* by class: from outside of the part */
    size_t order_count, output_count, bound;
    uint64_t work;
    hyp_arena arena;
    hyp_diag *diag;
} chooser;

static double cost_of(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    chooser *h = user;
    hyp_class_id c = hyp_enode_class(eg, node);
    bool taken = h->choice->choice[c] == node;
    if (h->out[node] || (!taken && h->chosen.needed[c] && !h->near[c])) return INFINITY;
    if (isnan(h->cost[node])) h->cost[node] = hyp_rw_node_cost(eg, node, h->weigh);
    return taken ? h->cost[node] * (1 - KEEP) : h->cost[node];
}

/* ---- what differs --------------------------------------------------------------------------------- */

static const hyp_class_id *kids_of(const chooser *h, const hyp_extraction *x, hyp_class_id c, size_t *out_count)
{
    return hyp_enode_children(h->rw->eg, x->choice[c], out_count);
}

static hyp_class_id root(const chooser *h, size_t i)
{
    return hyp_egraph_find(h->rw->eg, h->rw->class_of[h->rw->in->outputs.data[i].value]);
}

/* Marks what the outputs need, in an order that has each class behind what it needs. */
static void walk(chooser *h, const hyp_extraction *x, bool *needed)
{
    size_t depth = 0;
    h->order_count = 0;
    memset(needed, 0, h->bound * sizeof *needed);
    for (size_t i = 0; i < h->rw->in->outputs.len; i++) {
        h->stack[depth++] = root(h, i);
        while (depth) {
            hyp_class_id c = h->stack[depth - 1], next = HYP_NONE;
            size_t count;
            const hyp_class_id *kids = kids_of(h, x, c, &count);
            for (size_t k = 0; k < count && next == HYP_NONE && !needed[c]; k++) {
                hyp_class_id kid = hyp_egraph_find(h->rw->eg, kids[k]);
                if (!needed[kid]) next = kid;
            }
            if (next != HYP_NONE) { /* no class is twice on the stack: a choice has no cycle */
                h->stack[depth++] = next;
                continue;
            }
            if (!needed[c]) h->order[h->order_count++] = c;
            needed[c] = true;
            depth--;
        }
    }
}

/* Fills m->inside: what `x` needs and `y` does not, or has otherwise, with the parts of tuples. */
static hyp_status find_inside(chooser *h, const hyp_extraction *x, const hyp_extraction *y, const marks *m,
                              const bool *needed_by_y)
{
    for (size_t c = 0; c < h->bound; c++)
        m->inside[c] = m->needed[c] && (!needed_by_y[c] || x->choice[c] != y->choice[c]);
    for (size_t c = 0; c < h->bound; c++) {
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t index;
        if (!m->needed[c] || m->inside[c]) continue;
        HYP_TRY(hyp_rw_inspect(h->rw, x->choice[c], &shape, &index, &n, h->diag));
        if (shape == HYP_RW_IS_GET && m->inside[hyp_egraph_find(h->rw->eg, n.inputs[0])]) m->inside[c] = true;
    }
    return HYP_OK;
}

/* Results of the part: what both forms compute, and something reads that both choices share. */
static void find_outputs(chooser *h)
{
    memset(h->read, 0, h->bound * sizeof *h->read);
    for (size_t i = 0; i < h->rw->in->outputs.len; i++) h->read[root(h, i)] = true;
    for (size_t i = 0; i < h->order_count; i++) {
        hyp_class_id c = h->order[i];
        size_t count;
        const hyp_class_id *kids = kids_of(h, h->choice, c, &count);
        for (size_t k = 0; k < count && !h->chosen.inside[c]; k++) h->read[hyp_egraph_find(h->rw->eg, kids[k])] = true;
    }
    h->output_count = 0;
    for (size_t i = 0; i < h->order_count; i++) {
        hyp_class_id c = h->order[i];
        const hyp_rw_fact *fact = hyp_rw_fact_of(h->rw, c);
        if (h->read[c] && h->chosen.inside[c] && h->other.inside[c] && fact->kind == HYP_RW_TENSOR && !fact->constant)
            h->outputs[h->output_count++] = c;
    }
}

/* ---- one part ------------------------------------------------------------------------------------- */

/* The graph of a form and what its plan takes; what cannot be a plan of its own is no form, and said by the status. */
static hyp_status make_form(chooser *h, const hyp_extraction *x, const bool *inside, hyp_graph *out,
                            double *out_seconds, hyp_diag *diag)
{
    hyp_rw_part part = {inside, h->outputs, h->output_count};
    HYP_TRY(hyp_rw_decode(h->rw, x, h->rules, &part, out, diag));
    return h->options->price(out, out_seconds, h->options->price_user, diag);
}

static hyp_status ask(chooser *h, const hyp_graph *const *graphs, const double *seconds, bool *out_take)
{
    size_t best = 0;
    hyp_rewrite_forms forms = {.graphs = graphs, .seconds = seconds, .count = 2};
    double start = hyp_limit_clock();
    HYP_TRY(h->options->choose(&forms, &best, h->options->choose_user, h->diag));
    hyp_limit_extend(h->rw->limit, hyp_limit_clock() - start);
    *out_take = best == 1;
    return HYP_OK;
}

/* Whether to take the other choice. */
static hyp_status compare(chooser *h, const hyp_extraction *other, bool *out_take)
{
    hyp_graph graphs[2];
    const hyp_graph *list[2] = {&graphs[0], &graphs[1]};
    double seconds[2];
    hyp_diag why = {0};
    walk(h, other, h->other.needed);
    walk(h, h->choice, h->chosen.needed);
    HYP_TRY(find_inside(h, h->choice, other, &h->chosen, h->other.needed));
    HYP_TRY(find_inside(h, other, h->choice, &h->other, h->chosen.needed));
    find_outputs(h);
    if (h->output_count == 0) return HYP_OK;
    for (int i = 0; i < 2; i++) hyp_graph_init(&graphs[i], h->rw->dims);
    hyp_status status = make_form(h, h->choice, h->chosen.inside, &graphs[0], &seconds[0], &why);
    if (status == HYP_OK) status = make_form(h, other, h->other.inside, &graphs[1], &seconds[1], &why);
    bool close = status == HYP_OK && seconds[0] > SMALL * h->seconds && seconds[1] <= CLOSE * seconds[0];
    if (status == HYP_ERR_NO_MEMORY)
        status = hyp_fail(h->diag, status, "%s", why.message);
    else
        status = close ? ask(h, list, seconds, out_take) : HYP_OK;
    for (int i = 0; i < 2; i++) hyp_graph_dispose(&graphs[i]);
    return status;
}

/* Where the choice may change: a few steps from a class, up and down. What is further off stays, so that the solver has
 * little to do. */
static void find_near(chooser *h, hyp_class_id from)
{
    memset(h->near, 0, h->bound * sizeof *h->near);
    h->near[from] = HOPS;
    for (uint8_t left = HOPS; left > 1; left--)
        for (size_t i = 0; i < h->order_count; i++) {
            hyp_class_id c = h->order[i];
            size_t count;
            const hyp_class_id *kids = kids_of(h, h->choice, c, &count);
            for (size_t k = 0; k < count; k++) {
                hyp_class_id kid = hyp_egraph_find(h->rw->eg, kids[k]);
                const hyp_rw_fact *fact = hyp_rw_fact_of(h->rw, kid);
                if (fact->kind == HYP_RW_LITERAL || fact->constant) continue;
                if (h->near[kid] == left && !h->near[c]) h->near[c] = (uint8_t)(left - 1);
                if (h->near[c] == left && !h->near[kid]) h->near[kid] = (uint8_t)(left - 1);
            }
        }
}

/* The best choice without this e-node: whether to take it, and then it is taken. */
static hyp_status try_without(chooser *h, hyp_enode_id node, bool *out_taken)
{
    hyp_extract_options options = {.size = sizeof options, .method = HYP_EXTRACT_EXACT, .budget_work = SEARCH_WORK};
    hyp_extraction other;
    hyp_diag why = {0};
    size_t count = h->rw->in->outputs.len;
    *out_taken = false;
    h->out[node] = true;
    find_near(h, hyp_enode_class(h->rw->eg, node));
    for (size_t i = 0; i < count; i++) h->outputs[i] = root(h, i);
    hyp_status status = hyp_egraph_extract_with(h->rw->eg, h->outputs, count, &options, cost_of, h, &other, &why);
    bool found = status == HYP_OK;
    if (status == HYP_ERR_UNSUPPORTED) status = HYP_OK; /* there is none */
    if (status != HYP_OK) return hyp_fail(h->diag, status, "%s", why.message);
    /* Which elementwise operators share a kernel only the price of the plan knows, so this is no more than a sieve. */
    if (found && other.dag_cost <= h->choice->dag_cost + 2 * (CLOSE - 1) * h->seconds)
        status = compare(h, &other, out_taken);
    if (*out_taken) {
        hyp_extraction before = *h->choice;
        *h->choice = other;
        other = before;
    } else {
        h->out[node] = false;
    }
    if (found) hyp_extraction_dispose(&other);
    return status;
}

/* ---- all parts ------------------------------------------------------------------------------------ */

/* Whether the plan can do without the e-node that was chosen for a class, as far as one can see without trying. */
static bool is_worth_trying(chooser *h, hyp_class_id c)
{
    hyp_enode_id node = h->choice->choice[c];
    const hyp_rw_fact *fact = hyp_rw_fact_of(h->rw, c);
    if (h->tried[node] || fact->kind == HYP_RW_LITERAL || fact->constant) return false;
    return cost_of(h->rw->eg, node, h) > 0;
}

static hyp_status try_all(chooser *h, size_t *changed)
{
    size_t nodes = hyp_egraph_enode_bound(h->rw->eg);
    for (bool again = true; again;) {
        again = false;
        walk(h, h->choice, h->chosen.needed);
        for (size_t i = 0; i < h->order_count && !again; i++) {
            hyp_class_id c = h->order[i];
            if (!is_worth_trying(h, c)) continue;
            h->work += nodes;
            if (h->work > ALL_WORK || hyp_limit_reached(h->rw->limit)) return HYP_OK;
            h->tried[h->choice->choice[c]] = true;
            HYP_TRY(try_without(h, h->choice->choice[c], &again));
            *changed += again;
        }
    }
    return HYP_OK;
}

static void *zeros(chooser *h, size_t count, size_t size)
{
    void *p = hyp_arena_zalloc(&h->arena, count + 1, size);
    if (!p) h->weigh->status = hyp_fail_memory(h->diag, count * size);
    return p;
}

static hyp_status prepare(chooser *h)
{
    size_t nodes = hyp_egraph_enode_bound(h->rw->eg), roots = h->rw->in->outputs.len;
    h->bound = h->choice->class_bound;
    h->cost = zeros(h, nodes, sizeof *h->cost);
    h->out = zeros(h, nodes, sizeof *h->out);
    h->tried = zeros(h, nodes, sizeof *h->tried);
    h->near = zeros(h, h->bound, sizeof *h->near);
    h->read = zeros(h, h->bound, sizeof *h->read);
    h->order = zeros(h, h->bound, sizeof *h->order);
    h->stack = zeros(h, h->bound, sizeof *h->stack);
    h->outputs = zeros(h, h->bound + roots, sizeof *h->outputs);
    marks *both[] = {&h->chosen, &h->other};
    for (int i = 0; i < 2; i++) {
        both[i]->needed = zeros(h, h->bound, sizeof *both[i]->needed);
        both[i]->inside = zeros(h, h->bound, sizeof *both[i]->inside);
    }
    for (size_t i = 0; h->cost && i < nodes; i++) h->cost[i] = NAN;
    return h->weigh->status;
}

hyp_status hyp_rw_choose_parts(hyp_rw_weigh *weigh, const hyp_rewrite_options *options, const hyp_rw_rules *rules,
                               double seconds, hyp_extraction *choice, size_t *out_changed)
{
    chooser h = {.rw = weigh->rw,
                 .weigh = weigh,
                 .options = options,
                 .rules = rules,
                 .seconds = seconds,
                 .choice = choice,
                 .diag = weigh->diag};
    *out_changed = 0;
    hyp_status status = prepare(&h);
    if (status == HYP_OK) status = try_all(&h, out_changed);
    hyp_arena_dispose(&h.arena);
    return status == HYP_OK ? weigh->status : status;
}
