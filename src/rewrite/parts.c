/* Parts of the chosen graph for which other forms are predicted to be about as good: who can time them says which to
 * take.
 *
 * The best plan without one of the chosen e-nodes differs from the chosen one around it; the best without that one and
 * without one that took its place is the next, and so on (Lawler 1972). What differs among the chosen plan and those of
 * these that are close is a part, of which each is a form: graphs with the same outputs, made of what all share. */
#include <math.h>
#include <string.h>

#include "rewrite/internal.h"

#define SEARCH_WORK UINT64_C(50000)  /* of one extraction, which sees a small part of what extract.c does */
#define ALL_WORK UINT64_C(200000000) /* of all of them, each of as many as there are e-nodes */
#define CLOSE 1.1                    /* no prediction is better than this */
#define KEEP 1e-6                    /* what is chosen is kept where it costs no more than so much in proportion */
#define SMALL 1e-3                   /* a part of less than this share of the plan is not worth the time */
enum {
    FORMS = 3, /* of a part, where nobody says how many */
    HOPS = 6,  /* from what is tried to what may change with it */
    EACH = 4,  /* choices that are looked for around one e-node, for each form that is wanted */
    EXTRACTED = EACH * (HYP_REWRITE_FORMS - 1)
};

/* A choice of the whole, and the part of it that is being compared. */
typedef struct form {
    hyp_enode_id *choice;  /* by class */
    bool *needed, *inside; /* by class: by the outputs; of the part */
    hyp_enode_id *without; /* e-nodes that it was to do without */
    size_t without_count;
    double cost;               /* of what may have changed */
    bool seen, kept, followed; /* followed: what is next best to it was looked for */
    hyp_graph graph;           /* of the part */
    double seconds;
    uint64_t steps;
} form;

typedef struct chooser {
    hyp_rw *rw;
    hyp_rw_weigh *weigh;
    const hyp_rewrite_options *options;
    const hyp_rw_rules *rules;
    double seconds; /* of the whole plan */
    double *cost;   /* by e-node; NAN: not asked for */
    bool *out;      /* by e-node: not to be taken */
    bool *tried;    /* by e-node */
    hyp_extraction *choice;
    form forms[EXTRACTED + 1];    /* the first is what is chosen */
    size_t form_count, extracted; /* extracted: choices that were looked for, found or not */
    size_t most;                  /* forms that are asked about */
    /* By class. */
    uint8_t *near;       /* of what is chosen: how far it is from what is tried, which has HOPS; 0: too far to change */
    bool *above;         /* of what is chosen: it needs something near */
    bool *given;         /* what is chosen and neither: it stays as it is, and is there for whatever needs it */
    bool *read;          /* from outside of the part */
    hyp_class_id *order; /* what is chosen, each class after what it needs */
    hyp_class_id *roots; /* what is near, and read from further off or by nobody */
    hyp_class_id *outputs, *stack, *spare;
    size_t order_count, root_count, output_count, bound;
    uint64_t work;
    hyp_arena arena;
    hyp_diag *diag;
} chooser;

/* ---- choices ---------------------------------------------------------------------------------------- */

static hyp_class_id root(const chooser *h, size_t i)
{
    return hyp_egraph_find(h->rw->eg, h->rw->class_of[h->rw->in->outputs.data[i].value]);
}

static const hyp_class_id *kids_of(const chooser *h, const form *f, hyp_class_id c, size_t *out_count)
{
    return hyp_enode_children(h->rw->eg, f->choice[c], out_count);
}

/* Marks what the outputs need; `order` gets it, each class after what it needs. Returns how many these are. */
static size_t walk(chooser *h, form *f, hyp_class_id *order)
{
    size_t depth = 0, found = 0;
    memset(f->needed, 0, h->bound * sizeof *f->needed);
    for (size_t i = 0; i < h->rw->in->outputs.len; i++) {
        h->stack[depth++] = root(h, i);
        while (depth) {
            hyp_class_id c = h->stack[depth - 1], next = HYP_NONE;
            size_t count;
            const hyp_class_id *kids = kids_of(h, f, c, &count);
            for (size_t k = 0; k < count && next == HYP_NONE && !f->needed[c]; k++) {
                hyp_class_id kid = hyp_egraph_find(h->rw->eg, kids[k]);
                if (!f->needed[kid]) next = kid;
            }
            if (next != HYP_NONE) { /* no class is twice on the stack: a choice has no cycle */
                h->stack[depth++] = next;
                continue;
            }
            if (!f->needed[c]) order[found++] = c;
            f->needed[c] = true;
            depth--;
        }
    }
    return found;
}

static double price_of(chooser *h, hyp_enode_id node)
{
    if (isnan(h->cost[node])) h->cost[node] = hyp_rw_node_cost(h->rw->eg, node, h->weigh);
    return h->cost[node];
}

/* Whether a plan may do without the e-node that a form has for a class, as far as one can see without trying. */
static bool is_worth_trying(chooser *h, const form *f, hyp_class_id c)
{
    const hyp_rw_fact *fact = hyp_rw_fact_of(h->rw, c);
    if (fact->kind == HYP_RW_LITERAL || fact->constant) return false;
    return price_of(h, f->choice[c]) > 0;
}

/* ---- extraction near an e-node ------------------------------------------------------------------------- */

static double cost_of(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    chooser *h = user;
    const form *now = &h->forms[0];
    hyp_class_id c = hyp_enode_class(eg, node);
    bool taken = now->needed[c] && now->choice[c] == node;
    if (h->out[node]) return INFINITY;
    if (now->needed[c] && !h->near[c]) return taken ? 0 : INFINITY; /* it is paid for */
    return taken ? price_of(h, node) * (1 - KEEP) : price_of(h, node);
}

/* Where the choice may change: a few steps from a class, up and down. */
static void find_near(chooser *h, hyp_class_id from)
{
    const form *now = &h->forms[0];
    memset(h->near, 0, h->bound * sizeof *h->near);
    h->near[from] = HOPS;
    for (uint8_t left = HOPS; left > 1; left--)
        for (size_t i = 0; i < h->order_count; i++) {
            hyp_class_id c = h->order[i];
            size_t count;
            const hyp_class_id *kids = kids_of(h, now, c, &count);
            for (size_t k = 0; k < count; k++) {
                hyp_class_id kid = hyp_egraph_find(h->rw->eg, kids[k]);
                const hyp_rw_fact *fact = hyp_rw_fact_of(h->rw, kid);
                if (fact->kind == HYP_RW_LITERAL || fact->constant) continue;
                if (h->near[kid] == left && !h->near[c]) h->near[c] = (uint8_t)(left - 1);
                if (h->near[c] == left && !h->near[kid]) h->near[kid] = (uint8_t)(left - 1);
            }
        }
}

/* What is read of what is near, and what there is for it to read: so the solver sees nothing of the rest. What needs
 * something near is not there for it, lest there be a cycle. */
static void find_surroundings(chooser *h)
{
    const form *now = &h->forms[0];
    memset(h->read, 0, h->bound * sizeof *h->read);
    memset(h->above, 0, h->bound * sizeof *h->above);
    memset(h->given, 0, h->bound * sizeof *h->given);
    h->root_count = 0;
    for (size_t i = 0; i < h->rw->in->outputs.len; i++) h->read[root(h, i)] = true;
    for (size_t i = 0; i < h->order_count; i++) {
        hyp_class_id c = h->order[i];
        size_t count;
        const hyp_class_id *kids = kids_of(h, now, c, &count);
        for (size_t k = 0; k < count; k++) {
            hyp_class_id kid = hyp_egraph_find(h->rw->eg, kids[k]);
            h->above[c] = h->above[c] || h->near[kid] || h->above[kid];
            if (!h->near[c]) h->read[kid] = true;
        }
        h->given[c] = !h->near[c] && !h->above[c];
    }
    for (size_t i = 0; i < h->order_count; i++)
        if (h->near[h->order[i]] && h->read[h->order[i]]) h->roots[h->root_count++] = h->order[i];
}

static bool same_choice(const chooser *h, const form *a, const form *b)
{
    for (size_t c = 0; c < h->bound; c++)
        if (a->needed[c] != b->needed[c] || (a->needed[c] && a->choice[c] != b->choice[c])) return false;
    return true;
}

/* Adds the best choice without what a form does without and without one e-node more, unless it is there. */
static hyp_status extract_without(chooser *h, const form *from, hyp_enode_id node)
{
    hyp_extract_options options = {
        .size = sizeof options, .method = HYP_EXTRACT_EXACT, .budget_work = SEARCH_WORK, .given = h->given};
    hyp_extraction local;
    hyp_diag why = {0};
    if (h->extracted >= EACH * (h->most - 1)) return HYP_OK;
    h->extracted++;
    for (size_t i = 0; i < from->without_count; i++) h->out[from->without[i]] = true;
    h->out[node] = true;
    hyp_status status = hyp_egraph_extract_with(h->rw->eg, h->roots, h->root_count, &options, cost_of, h, &local, &why);
    for (size_t i = 0; i < from->without_count; i++) h->out[from->without[i]] = false;
    h->out[node] = false;
    h->work += hyp_egraph_enode_bound(h->rw->eg);
    if (status == HYP_ERR_UNSUPPORTED) return HYP_OK; /* there is none */
    if (status != HYP_OK) return hyp_fail(h->diag, status, "%s", why.message);
    form *f = &h->forms[h->form_count];
    for (size_t c = 0; c < h->bound; c++)
        f->choice[c] = local.choice[c] != HYP_NONE ? local.choice[c] : h->choice->choice[c];
    f->cost = local.dag_cost;
    f->seen = f->kept = f->followed = false;
    memcpy(f->without, from->without, from->without_count * sizeof *f->without);
    f->without_count = from->without_count;
    f->without[f->without_count++] = node;
    hyp_extraction_dispose(&local);
    walk(h, f, h->spare);
    for (size_t i = 0; i < h->form_count; i++)
        if (same_choice(h, &h->forms[i], f)) return HYP_OK;
    h->form_count++;
    return HYP_OK;
}

/* ---- what differs --------------------------------------------------------------------------------- */

/* Fills `inside` of some forms: what not all of them need and have alike, with the parts of tuples. */
static hyp_status find_inside(chooser *h, form *const *all, size_t count)
{
    const form *now = all[0];
    for (size_t c = 0; c < h->bound; c++) {
        bool shared = true;
        for (size_t i = 0; i < count; i++) shared = shared && all[i]->needed[c] && all[i]->choice[c] == now->choice[c];
        for (size_t i = 0; i < count; i++) all[i]->inside[c] = all[i]->needed[c] && !shared;
    }
    for (size_t c = 0; c < h->bound; c++) {
        hyp_rw_shape shape;
        hyp_rw_node n;
        uint32_t index;
        if (!now->needed[c] || now->inside[c]) continue;
        HYP_TRY(hyp_rw_inspect(h->rw, now->choice[c], &shape, &index, &n, h->diag));
        if (shape != HYP_RW_IS_GET || !now->inside[hyp_egraph_find(h->rw->eg, n.inputs[0])]) continue;
        for (size_t i = 0; i < count; i++) all[i]->inside[c] = true;
    }
    return HYP_OK;
}

/* Results of the part: what something reads that all forms share. */
static void find_outputs(chooser *h, form *const *all, size_t count)
{
    const form *now = all[0];
    memset(h->read, 0, h->bound * sizeof *h->read);
    for (size_t i = 0; i < h->rw->in->outputs.len; i++) h->read[root(h, i)] = true;
    for (size_t c = 0; c < h->bound; c++) {
        size_t kid_count;
        if (!now->needed[c] || now->inside[c]) continue;
        const hyp_class_id *kids = kids_of(h, now, (hyp_class_id)c, &kid_count);
        for (size_t k = 0; k < kid_count; k++) h->read[hyp_egraph_find(h->rw->eg, kids[k])] = true;
    }
    h->output_count = 0;
    for (size_t c = 0; c < h->bound; c++) {
        bool inside = h->read[c];
        for (size_t i = 0; i < count; i++) inside = inside && all[i]->inside[c];
        if (!inside) continue;
        const hyp_rw_fact *fact = hyp_rw_fact_of(h->rw, (hyp_class_id)c);
        if (fact->kind == HYP_RW_TENSOR && !fact->constant) h->outputs[h->output_count++] = (hyp_class_id)c;
    }
}

/* ---- one part ------------------------------------------------------------------------------------- */

static void drop_graphs(chooser *h)
{
    for (size_t i = 0; i < h->form_count; i++) {
        hyp_graph_dispose(&h->forms[i].graph);
        hyp_graph_init(&h->forms[i].graph, h->rw->dims);
    }
}

/* The graph of a form and what its plan takes; what cannot be a plan of its own is no form, and said by the status. */
static hyp_status make_form(chooser *h, form *f, hyp_diag *diag)
{
    hyp_rw_part part = {f->inside, h->outputs, h->output_count};
    hyp_extraction choice = {.choice = f->choice, .class_bound = h->bound};
    HYP_TRY(hyp_rw_decode(h->rw, &choice, h->rules, &part, &f->graph, diag));
    return h->options->price(&f->graph, &f->seconds, &f->steps, h->options->price_user, diag);
}

/* Makes the graphs of some forms of one part, the chosen one first. *out_close: all of them are about as good;
 * *out_new: the last one has other steps than the others. */
static hyp_status compare(chooser *h, form *const *all, size_t count, bool *out_close, bool *out_new)
{
    hyp_diag why = {0};
    hyp_status status = HYP_OK;
    const form *last = all[count - 1];
    *out_close = *out_new = false;
    drop_graphs(h);
    HYP_TRY(find_inside(h, all, count));
    find_outputs(h, all, count);
    bool close = h->output_count > 0;
    for (size_t i = 0; i < count && close && status == HYP_OK; i++) {
        status = make_form(h, all[i], &why);
        close = status == HYP_OK && all[i]->seconds <= CLOSE * all[0]->seconds && all[0]->seconds > SMALL * h->seconds;
    }
    if (status == HYP_ERR_NO_MEMORY) return hyp_fail(h->diag, status, "%s", why.message);
    *out_close = *out_new = close;
    for (size_t i = 0; i + 1 < count; i++) *out_new = *out_new && all[i]->steps != last->steps;
    return HYP_OK;
}

/* The forms that are kept, by what they are predicted to take, behind the chosen one; and one more, unless it is NULL.
 */
static size_t list_kept(chooser *h, form *more, form **out)
{
    size_t count = 0;
    for (size_t i = 0; i < h->form_count; i++) {
        form *f = &h->forms[i];
        if (i > 0 && !f->kept) continue;
        size_t at = count++;
        for (; at > 1 && out[at - 1]->seconds > f->seconds; at--) out[at] = out[at - 1];
        out[at] = f;
    }
    if (more) out[count++] = more;
    return count;
}

/* The cheapest that was not seen. */
static form *next_form(chooser *h)
{
    form *best = NULL;
    for (size_t i = 1; i < h->form_count; i++)
        if (!h->forms[i].seen && (!best || h->forms[i].cost < best->cost)) best = &h->forms[i];
    if (best) best->seen = true;
    return best;
}

/* Looks for what is next best to a form: without one of the e-nodes that it has in place of chosen ones. */
static hyp_status follow(chooser *h, form *f)
{
    const form *now = &h->forms[0];
    for (size_t c = 0; c < h->bound; c++) {
        if (!f->needed[c] || (now->needed[c] && now->choice[c] == f->choice[c])) continue;
        if (is_worth_trying(h, f, (hyp_class_id)c)) HYP_TRY(extract_without(h, f, f->choice[c]));
    }
    f->followed = true;
    return HYP_OK;
}

/* What is chosen near an e-node costs; with the slack of what only the price of a plan knows, such as which elementwise
 * operators share a kernel, a sieve. */
static double most_cost(chooser *h)
{
    double sum = 2 * (CLOSE - 1) * h->seconds;
    for (size_t c = 0; c < h->bound; c++)
        if (h->near[c]) sum += price_of(h, h->forms[0].choice[c]);
    return sum;
}

/* Keeps the best forms of the part around an e-node that is chosen. */
static hyp_status find_forms(chooser *h, hyp_enode_id node)
{
    form *all[EXTRACTED + 1];
    size_t kept = 0;
    bool close, is_new;
    find_near(h, hyp_enode_class(h->rw->eg, node));
    find_surroundings(h);
    h->form_count = 1;
    h->extracted = 0;
    HYP_TRY(extract_without(h, &h->forms[0], node));
    double most = most_cost(h);
    for (form *f; kept + 1 < h->most && (f = next_form(h)) && f->cost <= most;) {
        HYP_TRY(compare(h, all, list_kept(h, f, all), &close, &is_new));
        f->kept = is_new;
        kept += is_new;
        if (!close || kept + 1 == h->most) continue;
        HYP_TRY(follow(h, f));
    }
    return HYP_OK;
}

static hyp_status ask(chooser *h, form *const *all, size_t count, size_t *out)
{
    const hyp_graph *graphs[EXTRACTED + 1];
    double seconds[EXTRACTED + 1], start = hyp_limit_clock();
    for (size_t i = 0; i < count; i++) {
        graphs[i] = &all[i]->graph;
        seconds[i] = all[i]->seconds;
    }
    hyp_rewrite_forms forms = {.graphs = graphs, .seconds = seconds, .count = count};
    HYP_TRY(h->options->choose(&forms, out, h->options->choose_user, h->diag));
    hyp_limit_extend(h->rw->limit, hyp_limit_clock() - start);
    return HYP_OK;
}

/* Makes a form what is chosen. What it does without stays out, and what was looked for next to it was compared. */
static void take(chooser *h, const form *f)
{
    form *now = &h->forms[0];
    for (size_t c = 0; c < h->bound && f->followed; c++)
        if (f->needed[c] && !(now->needed[c] && now->choice[c] == f->choice[c])) h->tried[f->choice[c]] = true;
    for (size_t i = 0; i < f->without_count; i++) h->out[f->without[i]] = true;
    memcpy(now->choice, f->choice, h->bound * sizeof *now->choice);
    h->order_count = walk(h, now, h->order);
    h->choice->proven = false; /* by prediction another one costs less */
    h->choice->dag_cost = 0;
    for (size_t i = 0; i < h->order_count; i++) h->choice->dag_cost += price_of(h, now->choice[h->order[i]]);
}

/* Asks about the part around an e-node: whether another form was taken. */
static hyp_status try_without(chooser *h, hyp_enode_id node, bool *out_taken)
{
    form *all[EXTRACTED + 1];
    bool close, is_new;
    size_t best = 0;
    *out_taken = false;
    HYP_TRY(find_forms(h, node));
    size_t count = list_kept(h, NULL, all);
    if (count > 1) {
        HYP_TRY(compare(h, all, count, &close, &is_new));
        count = list_kept(h, NULL, all);
        if (close) HYP_TRY(ask(h, all, count, &best));
    }
    if (best > 0 && best < count) take(h, all[best]);
    *out_taken = best > 0;
    drop_graphs(h);
    return HYP_OK;
}

/* ---- all parts ------------------------------------------------------------------------------------ */

static hyp_status try_all(chooser *h, size_t *changed)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < h->order_count && !again; i++) {
            hyp_enode_id node = h->forms[0].choice[h->order[i]];
            if (h->tried[node] || !is_worth_trying(h, &h->forms[0], h->order[i])) continue;
            if (h->work > ALL_WORK || hyp_limit_reached(h->rw->limit)) return HYP_OK;
            h->tried[node] = true;
            HYP_TRY(try_without(h, node, &again));
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
    bool **marks[] = {&h->above, &h->given, &h->read};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) *marks[i] = zeros(h, h->bound, sizeof **marks[i]);
    hyp_class_id **lists[] = {&h->order, &h->roots, &h->outputs, &h->stack, &h->spare};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) *lists[i] = zeros(h, h->bound + roots, sizeof **lists[i]);
    for (size_t i = 0; i <= EACH * (h->most - 1); i++) {
        form *f = &h->forms[i];
        hyp_graph_init(&f->graph, h->rw->dims);
        f->choice = i ? zeros(h, h->bound, sizeof *f->choice) : h->choice->choice;
        f->needed = zeros(h, h->bound, sizeof *f->needed);
        f->inside = zeros(h, h->bound, sizeof *f->inside);
        f->without = zeros(h, EXTRACTED, sizeof *f->without);
    }
    if (h->weigh->status != HYP_OK) return h->weigh->status;
    for (size_t i = 0; i < nodes; i++) h->cost[i] = NAN;
    h->form_count = 1;
    h->order_count = walk(h, &h->forms[0], h->order);
    return HYP_OK;
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
                 .most = options->forms ? options->forms : FORMS,
                 .diag = weigh->diag};
    *out_changed = 0;
    hyp_status status = prepare(&h);
    if (status == HYP_OK) status = try_all(&h, out_changed);
    drop_graphs(&h);
    hyp_arena_dispose(&h.arena);
    return status == HYP_OK ? weigh->status : status;
}
