/* What else there was for what was chosen: the best choices that do without one of the chosen e-nodes, and what they
 * cost more. Sums of what e-nodes cost, one by one: what is said of the whole plan is its own price. */
#include <math.h>

#include "base/json.h"
#include "rewrite/nearby.h"

#define ALL_WORK UINT64_C(20000000) /* of all extractions, each of as many as there are e-nodes */
#define SMALL 1e-3                  /* what takes less than this share of the plan is not worth the room */
enum { EACH = 2, MOST = 200 };      /* alternatives to one e-node; e-nodes that are looked at */

typedef struct seeker {
    hyp_rw_chooser h;
    const hyp_rw_view *view;
    hyp_rewrite_record *record;
    hyp_arena arena;
} seeker;

/* The operators that are in one choice and not in the other and take time: [form, seconds]. */
static void put_difference(seeker *s, hyp_strbuf *row, const char *name, hyp_rw_form *has, hyp_rw_form *lacks)
{
    hyp_strbuf text = {0};
    hyp_json_begin(row, name, '[');
    for (size_t c = 0; c < s->h.bound; c++) {
        if (!has->needed[c] || (lacks->needed[c] && lacks->choice[c] == has->choice[c])) continue;
        if (!(hyp_near_price(&s->h, has->choice[c]) > 0) || hyp_rw_fact_of(s->h.rw, (hyp_class_id)c)->constant)
            continue;
        text.len = 0;
        hyp_rw_describe_form(s->view, &text, has->choice[c]);
        hyp_json_begin(row, NULL, '[');
        hyp_json_put_text(row, NULL, hyp_strbuf_text(&text));
        hyp_json_put_real(row, NULL, hyp_near_price(&s->h, has->choice[c]));
        hyp_strbuf_puts(row, "]");
    }
    hyp_strbuf_puts(row, "]");
    row->failed = row->failed || text.failed;
    hyp_strbuf_dispose(&text);
}

/* What the classes that may change cost as they are. */
static double cost_near(seeker *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->h.order_count; i++)
        if (s->h.near[s->h.order[i]]) sum += hyp_near_price(&s->h, s->h.forms[0].choice[s->h.order[i]]);
    return sum;
}

static hyp_status put_alternative(seeker *s, hyp_class_id c, hyp_rw_form *f, double now)
{
    hyp_strbuf *list = &s->record->alternatives, text = {0};
    hyp_enode_id node = s->h.forms[0].choice[c];
    hyp_provenance from = {0};
    HYP_TRY(hyp_rw_provenance(s->h.rw, s->h.rules, &node, 1, &s->arena, &from, s->h.diag));
    size_t row = hyp_rw_begin_row(list);
    hyp_rw_describe(s->view, &text, c);
    hyp_json_put_text(list, "value", hyp_strbuf_text(&text));
    hyp_json_put_texts(list, "sources", from.sources, from.source_count);
    hyp_json_put_real(list, "more_seconds", fmax(0, f->cost - now)); /* of equals what is chosen counts a little less */
    put_difference(s, list, "taken", &s->h.forms[0], f);
    put_difference(s, list, "instead", f, &s->h.forms[0]);
    hyp_rw_end_row(s->record, list, row);
    bool failed = text.failed || list->failed;
    hyp_strbuf_dispose(&text);
    hyp_arena_dispose(&s->arena);
    return failed ? hyp_fail_memory(s->h.diag, list->len) : HYP_OK;
}

/* The best choices without the e-node that is chosen for a class, each also without what took its place before. */
static hyp_status seek(seeker *s, hyp_class_id c)
{
    hyp_rw_form *from = &s->h.forms[0];
    hyp_near_begin(&s->h, c);
    double now = cost_near(s);
    for (size_t i = 0; i < EACH; i++) {
        size_t before = s->h.form_count;
        if (!from->needed[c]) return HYP_OK;
        HYP_TRY(hyp_near_without(&s->h, from, from->choice[c]));
        if (s->h.form_count == before) return HYP_OK;
        from = &s->h.forms[before];
        if (isfinite(from->cost) && from->cost < HYP_COST_UNSUPPORTED) HYP_TRY(put_alternative(s, c, from, now));
    }
    return HYP_OK;
}

static hyp_status seek_all(seeker *s)
{
    hyp_rw_chooser *h = &s->h;
    size_t tried = 0;
    HYP_TRY(hyp_near_open(h));
    for (size_t i = 0; i < h->order_count && tried < MOST && h->work < ALL_WORK && !hyp_limit_reached(h->rw->limit);
         i++) {
        hyp_class_id c = h->order[i];
        if (!hyp_near_is_worth_trying(h, &h->forms[0], c)) continue;
        if (hyp_near_price(h, h->forms[0].choice[c]) < SMALL * h->choice->dag_cost) continue;
        tried++;
        HYP_TRY(seek(s, c));
    }
    return HYP_OK;
}

hyp_status hyp_rw_record_alternatives(const hyp_rw_inquiry *q, const hyp_rw_view *view,
                                      const hyp_rewrite_options *options)
{
    hyp_extraction choice = *q->choice; /* borrowed: it stays as it is */
    seeker s = {.h = {.rw = q->rw,
                      .weigh = q->weigh,
                      .options = options,
                      .rules = q->names,
                      .seconds = q->choice->dag_cost,
                      .choice = &choice,
                      .most = EACH,
                      .diag = q->diag},
                .view = view,
                .record = options->record};
    hyp_status status = seek_all(&s);
    hyp_arena_dispose(&s.arena);
    hyp_near_close(&s.h);
    return status == HYP_OK ? q->weigh->status : status;
}
