/* What extraction has put together that is better left apart where steps run side by side.
 *
 * Extraction makes the sum of all steps least. On a device that runs steps side by side a sum is no time: layers of one
 * input that became one leave nothing to run beside each other. So extraction proposes, and the schedule decides. What
 * is joint is a value that the graph had not and that is there to be cut into parts, as the results of several layers
 * are, or made of parts, as inputs side by side are. Where one was chosen, the best choice near it without any of these
 * is kept if the whole is predicted to take less time. */
#include <math.h>

#include "base/timetable.h"
#include "rewrite/nearby.h"

/* Of all extractions, each of as many as there are e-nodes; twice as many at least. */
#define ALL_WORK UINT64_C(400000)
#define SMALL 1e-3   /* of the sum: what costs less is not worth the search */
#define GAIN 1e-4    /* of the time: what gains less is kept as it is */
#define NOTHING 1e-9 /* seconds: what is no step, but a view */

typedef struct undoer {
    hyp_rw_chooser *h;
    size_t nodes; /* e-nodes */
    double *share;  /* by e-node; NAN: not asked yet */
    hyp_task *tasks;
    uint32_t *order, *task_of;  /* by task; by class: what computes it, + 1, through views, and 0 for what is there */
    HYP_VEC(uint32_t) waits;    /* of all tasks */
    HYP_VEC(size_t) first_wait; /* by task */
    double sum;                 /* of what is chosen */
} undoer;

/* ---- what a choice takes ------------------------------------------------------------------------------------- */

/* Asked once of each e-node, for the device is not asked in no time. */
static double share_of(undoer *u, hyp_enode_id node)
{
    const hyp_rewrite_options *o = u->h->options;
    if (!o->share) return 1; /* so that nothing is gained side by side */
    if (isnan(u->share[node])) u->share[node] = hyp_rw_node_share(u->h->weigh, node, o->share);
    return u->share[node];
}

static hyp_status add_class(undoer *u, const hyp_rw_form *f, hyp_class_id c)
{
    hyp_rw_chooser *h = u->h;
    const hyp_rw_fact *fact = hyp_rw_fact_of(h->rw, c);
    size_t count, first = u->waits.len;
    u->task_of[c] = 0;
    if (fact->kind == HYP_RW_LITERAL || fact->constant) return HYP_OK;
    const hyp_class_id *kids = hyp_near_kids(h, f, c, &count);
    for (size_t k = 0; k < count; k++) {
        uint32_t task = u->task_of[hyp_egraph_find(h->rw->eg, kids[k])];
        if (task) HYP_TRY(hyp_vec_push(&u->waits, h->diag, task - 1));
    }
    double seconds = hyp_near_price(h, f->choice[c]);
    if (seconds <= NOTHING && u->waits.len - first <= 1) {
        if (u->waits.len > first) u->task_of[c] = u->waits.data[first] + 1;
        u->waits.len = first;
        return HYP_OK;
    }
    u->tasks[u->first_wait.len] = (hyp_task){.seconds = seconds, .share = share_of(u, f->choice[c])};
    HYP_TRY(hyp_vec_push(&u->first_wait, h->diag, first));
    u->task_of[c] = (uint32_t)u->first_wait.len;
    return HYP_OK;
}

/* What the plan of a choice takes, by the prices of its e-nodes. `classes`: what it needs, each after what that needs.
 * INFINITY: too many steps to tell. */
static hyp_status find_seconds(undoer *u, const hyp_rw_form *f, const hyp_class_id *classes, size_t count, double *out)
{
    u->waits.len = u->first_wait.len = 0;
    *out = INFINITY;
    for (size_t i = 0; i < count; i++) HYP_TRY(add_class(u, f, classes[i]));
    uint32_t tasks = (uint32_t)u->first_wait.len;
    HYP_TRY(hyp_vec_push(&u->first_wait, u->h->diag, u->waits.len));
    if (u->first_wait.len > HYP_TIMETABLE_TASKS) return HYP_OK;
    for (uint32_t t = 0; t < tasks; t++) {
        u->tasks[t].waits = u->waits.len ? u->waits.data + u->first_wait.data[t] : NULL; /* nobody waits, then */
        u->tasks[t].wait_count = u->first_wait.data[t + 1] - u->first_wait.data[t];
    }
    hyp_timetable schedule = {.order = u->order};
    HYP_TRY(hyp_timetable_make(u->tasks, tasks, u->h->options->streams, u->h->options->hop_seconds, &schedule,
                               u->h->diag));
    u->sum = schedule.serial_seconds;
    *out = hyp_rewrite_rank(&(hyp_rewrite_price){.seconds = schedule.seconds, .work = schedule.serial_seconds});
    return HYP_OK;
}

/* ---- what to undo --------------------------------------------------------------------------------------------- */

/* Forbids what is joint where the choice may change, or allows it again, but for what stays out. */
static void forbid_joint(undoer *u, bool forbid)
{
    hyp_rw_chooser *h = u->h;
    const hyp_rw_form *now = &h->forms[0];
    for (hyp_enode_id node = 0; node < u->nodes; node++) {
        hyp_class_id c = hyp_enode_class(h->rw->eg, node);
        bool fixed = now->needed[c] && !h->near[c];
        if (h->weigh->joint[c] && !fixed) h->out[node] = forbid;
    }
}

/* Does without what is joint near an e-node, if that is better than *now, which is then what it takes. */
static hyp_status undo(undoer *u, hyp_enode_id node, double *now, bool *out_taken)
{
    hyp_rw_chooser *h = u->h;
    double seconds;
    *out_taken = false;
    hyp_near_begin(h, hyp_enode_class(h->rw->eg, node));
    forbid_joint(u, true);
    hyp_status status = hyp_near_without(h, &h->forms[0], node);
    forbid_joint(u, false);
    if (status != HYP_OK || h->form_count == 1) return status;
    hyp_rw_form *f = &h->forms[1];
    HYP_TRY(find_seconds(u, f, h->spare, hyp_near_walk(h, f, h->spare), &seconds));
    if (!(seconds < *now * (1 - GAIN))) return HYP_OK;
    *now = seconds;
    *out_taken = true;
    return hyp_near_take(h, f);
}

static hyp_status undo_all(undoer *u, size_t *changed)
{
    hyp_rw_chooser *h = u->h;
    uint64_t most = 2 * (uint64_t)u->nodes;
    double now;
    HYP_TRY(find_seconds(u, &h->forms[0], h->order, h->order_count, &now));
    if (now == INFINITY) return HYP_OK;
    const double sum = u->sum;
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < h->order_count && !again; i++) {
            hyp_enode_id node = h->forms[0].choice[h->order[i]];
            if (h->tried[node] || !h->weigh->joint[h->order[i]] || hyp_near_price(h, node) <= SMALL * sum) continue;
            if ((h->work > ALL_WORK && h->work > most) || hyp_limit_reached(h->rw->limit)) return HYP_OK;
            h->tried[node] = true;
            HYP_TRY(undo(u, node, &now, &again));
            *changed += again;
        }
    }
    return HYP_OK;
}

static hyp_status prepare(undoer *u)
{
    hyp_rw_chooser *h = u->h;
    HYP_TRY(hyp_near_open(h));
    u->nodes = hyp_egraph_enode_bound(h->rw->eg);
    u->task_of = hyp_near_zeros(h, h->bound, sizeof *u->task_of);
    u->order = hyp_near_zeros(h, h->bound, sizeof *u->order);
    u->tasks = hyp_near_zeros(h, h->bound, sizeof *u->tasks);
    u->share = hyp_near_zeros(h, u->nodes, sizeof *u->share);
    for (size_t i = 0; u->share && i < u->nodes; i++) u->share[i] = NAN;
    HYP_TRY(h->weigh->status);
    return hyp_rw_find_joint(h->weigh);
}

hyp_status hyp_rw_undo(hyp_rw_weigh *weigh, const hyp_rewrite_options *options, hyp_extraction *choice,
                       size_t *out_changed)
{
    hyp_rw_chooser h = {
        .rw = weigh->rw, .weigh = weigh, .options = options, .choice = choice, .most = 2, .diag = weigh->diag};
    undoer u = {.h = &h};
    *out_changed = 0;
    hyp_status status = prepare(&u);
    if (status == HYP_OK) status = undo_all(&u, out_changed);
    hyp_vec_free(&u.waits);
    hyp_vec_free(&u.first_wait);
    hyp_near_close(&h);
    return status == HYP_OK ? weigh->status : status;
}
