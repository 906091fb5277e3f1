/* Parts of the chosen graph for which other forms are predicted to be about as good: who can time them says which to
 * take.
 *
 * What differs among the chosen plan and those of the choices near an e-node (nearby.h) that are close is a part, of
 * which each is a form: graphs with the same outputs, made of what all share. */
#include <math.h>
#include <string.h>

#include "rewrite/nearby.h"

#define ALL_WORK UINT64_C(200000000) /* of all extractions, each of as many as there are e-nodes */
#define CLOSE 1.1                    /* no prediction is better than this */
#define SMALL 1e-3                   /* a part of less than this share of the plan is not worth the time */
enum { FORMS = 3 };                  /* of a part, where nobody says how many */

/* ---- what differs --------------------------------------------------------------------------------- */

/* Fills `inside` of some forms: what not all of them need and have alike, with the parts of tuples. */
static hyp_status find_inside(hyp_rw_chooser *h, hyp_rw_form *const *all, size_t count)
{
    const hyp_rw_form *now = all[0];
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
static void find_outputs(hyp_rw_chooser *h, hyp_rw_form *const *all, size_t count)
{
    const hyp_rw_form *now = all[0];
    memset(h->read, 0, h->bound * sizeof *h->read);
    for (size_t i = 0; i < h->rw->in->outputs.len; i++) h->read[hyp_near_root(h, i)] = true;
    for (size_t c = 0; c < h->bound; c++) {
        size_t kid_count;
        if (!now->needed[c] || now->inside[c]) continue;
        const hyp_class_id *kids = hyp_near_kids(h, now, (hyp_class_id)c, &kid_count);
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

static void drop_graphs(hyp_rw_chooser *h)
{
    for (size_t i = 0; i < h->form_count; i++) {
        hyp_graph_dispose(&h->forms[i].graph);
        hyp_graph_init(&h->forms[i].graph, h->rw->dims);
    }
}

/* The graph of a form and what its plan takes; what cannot be a plan of its own is no form, and said by the status. */
static hyp_status make_form(hyp_rw_chooser *h, hyp_rw_form *f, hyp_diag *diag)
{
    hyp_rw_part part = {f->inside, h->outputs, h->output_count};
    hyp_extraction choice = {.choice = f->choice, .class_bound = h->bound};
    HYP_TRY(hyp_rw_decode(h->rw, &choice, h->rules, &part, &f->graph, diag));
    return h->options->price(&f->graph, &f->price, h->options->price_user, diag);
}

/* Makes the graphs of some forms of one part, the chosen one first. *out_close: all of them are about as good;
 * *out_new: the last one has other steps than the others. */
static hyp_status compare(hyp_rw_chooser *h, hyp_rw_form *const *all, size_t count, bool *out_close, bool *out_new)
{
    hyp_diag why = {0};
    hyp_status status = HYP_OK;
    const hyp_rw_form *last = all[count - 1];
    *out_close = *out_new = false;
    drop_graphs(h);
    HYP_TRY(find_inside(h, all, count));
    find_outputs(h, all, count);
    bool close = h->output_count > 0;
    for (size_t i = 0; i < count && close && status == HYP_OK; i++) {
        status = make_form(h, all[i], &why);
        close = status == HYP_OK && all[i]->price.seconds <= CLOSE * all[0]->price.seconds &&
                all[0]->price.seconds > SMALL * h->seconds;
    }
    if (status == HYP_ERR_NO_MEMORY) return hyp_fail(h->diag, status, "%s", why.message);
    *out_close = *out_new = close;
    for (size_t i = 0; i + 1 < count; i++) *out_new = *out_new && all[i]->price.steps != last->price.steps;
    return HYP_OK;
}

/* The forms that are kept, by what they are predicted to take, behind the chosen one; and one more, unless it is NULL.
 */
static size_t list_kept(hyp_rw_chooser *h, hyp_rw_form *more, hyp_rw_form **out)
{
    size_t count = 0;
    for (size_t i = 0; i < h->form_count; i++) {
        hyp_rw_form *f = &h->forms[i];
        if (i > 0 && !f->kept) continue;
        size_t at = count++;
        for (; at > 1 && out[at - 1]->price.seconds > f->price.seconds; at--) out[at] = out[at - 1];
        out[at] = f;
    }
    if (more) out[count++] = more;
    return count;
}

/* The cheapest that was not seen. */
static hyp_rw_form *next_form(hyp_rw_chooser *h)
{
    hyp_rw_form *best = NULL;
    for (size_t i = 1; i < h->form_count; i++)
        if (!h->forms[i].seen && (!best || h->forms[i].cost < best->cost)) best = &h->forms[i];
    if (best) best->seen = true;
    return best;
}

/* Looks for what is next best to a form: without one of the e-nodes that it has in place of chosen ones. */
static hyp_status follow(hyp_rw_chooser *h, hyp_rw_form *f)
{
    const hyp_rw_form *now = &h->forms[0];
    for (size_t c = 0; c < h->bound; c++) {
        if (!f->needed[c] || (now->needed[c] && now->choice[c] == f->choice[c])) continue;
        if (hyp_near_is_worth_trying(h, f, (hyp_class_id)c)) HYP_TRY(hyp_near_without(h, f, f->choice[c]));
    }
    f->followed = true;
    return HYP_OK;
}

/* What is chosen near an e-node costs; with the slack of what only the price of a plan knows, such as which elementwise
 * operators share a kernel, a sieve. */
static double most_cost(hyp_rw_chooser *h)
{
    double sum = 2 * (CLOSE - 1) * h->seconds;
    for (size_t c = 0; c < h->bound; c++)
        if (h->near[c]) sum += hyp_near_price(h, h->forms[0].choice[c]);
    return sum;
}

/* Keeps the best forms of the part around an e-node that is chosen. */
static hyp_status find_forms(hyp_rw_chooser *h, hyp_enode_id node)
{
    hyp_rw_form *all[HYP_NEAR_CHOICES + 1];
    size_t kept = 0;
    bool close, is_new;
    hyp_near_begin(h, hyp_enode_class(h->rw->eg, node));
    HYP_TRY(hyp_near_without(h, &h->forms[0], node));
    double most = most_cost(h);
    for (hyp_rw_form *f; kept + 1 < h->most && (f = next_form(h)) && f->cost <= most;) {
        HYP_TRY(compare(h, all, list_kept(h, f, all), &close, &is_new));
        f->kept = is_new;
        kept += is_new;
        if (!close || kept + 1 == h->most) continue;
        HYP_TRY(follow(h, f));
    }
    return HYP_OK;
}

static hyp_status ask(hyp_rw_chooser *h, hyp_rw_form *const *all, size_t count, size_t *out)
{
    const hyp_graph *graphs[HYP_NEAR_CHOICES + 1];
    double seconds[HYP_NEAR_CHOICES + 1], start = hyp_limit_clock();
    for (size_t i = 0; i < count; i++) {
        graphs[i] = &all[i]->graph;
        seconds[i] = all[i]->price.seconds;
    }
    hyp_rewrite_forms forms = {.graphs = graphs, .seconds = seconds, .count = count};
    HYP_TRY(h->options->choose(&forms, out, h->options->choose_user, h->diag));
    hyp_limit_extend(h->rw->limit, hyp_limit_clock() - start);
    return HYP_OK;
}

/* Asks about the part around an e-node: whether another form was taken. */
static hyp_status try_without(hyp_rw_chooser *h, hyp_enode_id node, bool *out_taken)
{
    hyp_rw_form *all[HYP_NEAR_CHOICES + 1];
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
    if (best > 0 && best < count) HYP_TRY(hyp_near_take(h, all[best]));
    *out_taken = best > 0;
    drop_graphs(h);
    return HYP_OK;
}

/* ---- all parts ------------------------------------------------------------------------------------ */

static hyp_status try_all(hyp_rw_chooser *h, size_t *changed)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < h->order_count && !again; i++) {
            hyp_enode_id node = h->forms[0].choice[h->order[i]];
            if (h->tried[node] || !hyp_near_is_worth_trying(h, &h->forms[0], h->order[i])) continue;
            if (h->work > ALL_WORK || hyp_limit_reached(h->rw->limit)) return HYP_OK;
            h->tried[node] = true;
            HYP_TRY(try_without(h, node, &again));
            *changed += again;
        }
    }
    return HYP_OK;
}

hyp_status hyp_rw_choose_parts(hyp_rw_weigh *weigh, const hyp_rewrite_options *options, const hyp_rw_rules *rules,
                               double seconds, hyp_extraction *choice, size_t *out_changed)
{
    hyp_rw_chooser h = {.rw = weigh->rw,
                        .weigh = weigh,
                        .options = options,
                        .rules = rules,
                        .seconds = seconds,
                        .choice = choice,
                        .most = options->forms ? options->forms : FORMS,
                        .diag = weigh->diag};
    *out_changed = 0;
    hyp_status status = hyp_near_open(&h);
    if (status == HYP_OK) status = try_all(&h, out_changed);
    drop_graphs(&h);
    hyp_near_close(&h);
    return status == HYP_OK ? weigh->status : status;
}
