/* What a rewriting keeps for a report, as rows of JSON: what phases did, how values came to their form, and what was
 * missing where rules were not applied. */
#include <string.h>

#include "base/json.h"
#include "rewrite/internal.h"

enum { MOST_TEXT = 600 };
#define CHAIN_WORK UINT64_C(150000) /* of the proofs of a phase: of a deep network those of the first layers are told  \
                                     */

void hyp_rewrite_record_dispose(hyp_rewrite_record *record)
{
    hyp_strbuf *const lists[] = {&record->phases, &record->chains, &record->alternatives,
                                 &record->misses, &record->forms,  &record->times};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) hyp_strbuf_dispose(lists[i]);
    *record = (hyp_rewrite_record){0};
}

/* ---- rows ----------------------------------------------------------------------------------------- */

size_t hyp_rw_begin_row(hyp_strbuf *list)
{
    size_t before = list->len;
    hyp_json_begin(list, NULL, '{');
    return before;
}

void hyp_rw_end_row(hyp_rewrite_record *record, hyp_strbuf *list, size_t before)
{
    hyp_strbuf_puts(list, "}");
    if (list->failed || list->len <= record->most) return;
    list->len = before;
    list->data[before] = 0;
    record->left_out++;
}

/* A text that is quoted, no longer than is worth reading. */
static void put_short(hyp_strbuf *row, const char *name, const hyp_strbuf *text)
{
    char cut[MOST_TEXT + 4];
    const char *whole = hyp_strbuf_text(text);
    if (text->len <= MOST_TEXT) {
        hyp_json_put_text(row, name, whole);
        return;
    }
    size_t kept = hyp_text_prefix(whole, MOST_TEXT);
    memcpy(cut, whole, kept);
    memcpy(cut + kept, "...", 4);
    hyp_json_put_text(row, name, cut);
}

/* ---- phases --------------------------------------------------------------------------------------- */

/* Rules that found something: [name, matches, applications], and [name, seconds]. */
static void put_rules(hyp_rewrite_record *r, const hyp_egraph_run_report *run, const hyp_rw_rules *rules)
{
    hyp_json_begin(&r->phases, "rules", '[');
    hyp_json_begin(&r->times, "rules", '[');
    for (size_t i = 0; i < run->rule_count && i < rules->count; i++) {
        const hyp_rule_report *rule = &run->rules[i];
        if (!rule->matches) continue;
        hyp_json_begin(&r->phases, NULL, '[');
        hyp_json_put_text(&r->phases, NULL, rules->names[i]);
        hyp_json_put_count(&r->phases, NULL, rule->matches);
        hyp_json_put_count(&r->phases, NULL, rule->applications);
        hyp_strbuf_puts(&r->phases, "]");
        hyp_json_begin(&r->times, NULL, '[');
        hyp_json_put_text(&r->times, NULL, rules->names[i]);
        hyp_json_put_real(&r->times, NULL, rule->seconds);
        hyp_strbuf_puts(&r->times, "]");
    }
    hyp_strbuf_puts(&r->phases, "]");
    hyp_strbuf_puts(&r->times, "]");
}

/* [e-nodes, e-classes, matches, applications], and seconds. */
static void put_iterations(hyp_rewrite_record *r, const hyp_egraph_run_report *run)
{
    hyp_json_begin(&r->phases, "iterations", '[');
    hyp_json_begin(&r->times, "iterations", '[');
    for (size_t i = 0; i < run->iteration_count; i++) {
        const hyp_iteration_report *it = &run->iterations[i];
        const size_t counts[] = {it->e_nodes, it->e_classes, it->matches, it->applications};
        hyp_json_begin(&r->phases, NULL, '[');
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) hyp_json_put_count(&r->phases, NULL, counts[k]);
        hyp_strbuf_puts(&r->phases, "]");
        hyp_json_put_real(&r->times, NULL, it->search_seconds + it->apply_seconds + it->rebuild_seconds);
    }
    hyp_strbuf_puts(&r->phases, "]");
    hyp_strbuf_puts(&r->times, "]");
}

hyp_status hyp_rw_record_run(hyp_rewrite_record *r, const char *phase, const hyp_egraph_run_report *run,
                             const hyp_rw_rules *rules, hyp_diag *diag)
{
    size_t phases = hyp_rw_begin_row(&r->phases), times = hyp_rw_begin_row(&r->times);
    hyp_json_put_text(&r->phases, "name", phase);
    hyp_json_put_text(&r->times, "name", phase);
    hyp_json_put_text(&r->phases, "stop", hyp_stop_name(run->stop));
    hyp_json_put_real(&r->times, "seconds", run->seconds);
    put_iterations(r, run);
    put_rules(r, run, rules);
    hyp_rw_end_row(r, &r->phases, phases);
    hyp_rw_end_row(r, &r->times, times);
    return r->phases.failed || r->times.failed ? hyp_fail_memory(diag, r->phases.len) : HYP_OK;
}

/* ---- chains --------------------------------------------------------------------------------------- */

typedef struct recorder {
    hyp_rw_inquiry q; /* whose text is `text` */
    hyp_rewrite_record *record;
    hyp_strbuf text;
    size_t row;
    hyp_arena arena;
    hyp_status status; /* of the first failure of a listener */
} recorder;

static void put_sources(recorder *r, hyp_strbuf *list, hyp_enode_id node)
{
    hyp_provenance from = {0};
    hyp_status status =
        node == HYP_NONE ? HYP_OK : hyp_rw_provenance(r->q.rw, r->q.names, &node, 1, &r->arena, &from, r->q.diag);
    if (r->status == HYP_OK) r->status = status;
    hyp_json_put_texts(list, "sources", from.sources, from.source_count);
    hyp_arena_dispose(&r->arena);
}

static void on_value(void *user, const hyp_rw_view *view, hyp_class_id c, hyp_enode_id chosen)
{
    recorder *r = user;
    hyp_strbuf *list = &r->record->chains;
    r->row = hyp_rw_begin_row(list);
    r->text.len = 0;
    hyp_rw_describe(view, &r->text, c);
    hyp_json_put_text(list, "phase", r->q.phase);
    put_short(list, "value", &r->text);
    put_sources(r, list, chosen);
    hyp_json_begin(list, "terms", '[');
}

static void on_term(void *user, const char *text, double cost, const char *rule, bool reversed)
{
    recorder *r = user;
    hyp_strbuf *list = &r->record->chains;
    hyp_json_begin(list, NULL, '{');
    hyp_json_put_text(list, "text", text);
    hyp_json_put_real(list, "seconds", cost);
    if (rule) hyp_json_put_text(list, "rule", rule);
    if (reversed) hyp_json_put_bool(list, "reversed", true);
    hyp_strbuf_puts(list, "}");
}

static void on_end(void *user, size_t left_out, size_t lemmas)
{
    recorder *r = user;
    hyp_strbuf *list = &r->record->chains;
    hyp_strbuf_puts(list, "]");
    hyp_json_put_count(list, "left_out", left_out);
    hyp_json_put_count(list, "lemmas", lemmas);
    hyp_rw_end_row(r->record, list, r->row);
}

/* Costs of terms are the device's in every phase. */
static hyp_status record_chains(recorder *r, const hyp_rewrite_options *options)
{
    hyp_rw_weigh own = {.rw = r->q.rw, .cost = options->cost, .user = options->cost_user, .diag = r->q.diag};
    hyp_rw_listener to = {.user = r,
                          .value = on_value,
                          .term = on_term,
                          .end = on_end,
                          .limit = options->limit,
                          .work = CHAIN_WORK,
                          .prices = r->q.weigh->by_form ? &own : r->q.weigh};
    size_t told;
    hyp_status status = hyp_rw_tell(&r->q, NULL, &to, &told);
    r->record->left_out += to.untold;
    hyp_rw_weigh_dispose(&own);
    return status == HYP_OK ? r->status : status;
}

/* ---- near misses ---------------------------------------------------------------------------------- */

static hyp_status record_miss(recorder *r, const hyp_rw_view *view, size_t rule)
{
    hyp_strbuf *list = &r->record->misses;
    hyp_class_id root;
    r->text.len = 0;
    HYP_TRY(hyp_rw_near_miss(&r->q, view, rule, &root));
    if (root == HYP_NONE) return HYP_OK;
    size_t row = hyp_rw_begin_row(list);
    root = hyp_egraph_find(r->q.rw->eg, root);
    hyp_json_put_text(list, "phase", r->q.phase);
    hyp_json_put_text(list, "rule", r->q.names->names[rule]);
    put_short(list, "says", &r->text);
    put_sources(r, list, root < view->bound ? view->encoded[root] : HYP_NONE);
    hyp_rw_end_row(r->record, list, row);
    return r->status;
}

static hyp_status record_misses(recorder *r, const hyp_rw_view *view, hyp_limit *limit, const bool *asked)
{
    for (size_t i = 0; i < r->q.names->count && !hyp_limit_reached(limit); i++)
        if (asked[i]) HYP_TRY(record_miss(r, view, i));
    return HYP_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

hyp_status hyp_rw_record_phase(const hyp_rw_inquiry *q, const hyp_rewrite_options *options, const bool *asked)
{
    recorder r = {.q = *q, .record = options->record};
    hyp_arena arena = {0};
    hyp_rw_view view;
    r.q.out = &r.text;
    hyp_status status = hyp_rw_view_init(&view, q->rw, q->choice, &arena, q->diag);
    if (status == HYP_OK && !q->weigh->by_form) status = hyp_rw_record_alternatives(q, &view, options);
    if (status == HYP_OK) status = record_chains(&r, options);
    if (status == HYP_OK) status = record_misses(&r, &view, options->limit, asked);
    const hyp_rewrite_record *kept = options->record;
    if (status == HYP_OK && (kept->chains.failed || kept->misses.failed || kept->alternatives.failed || r.text.failed))
        status = hyp_fail_memory(q->diag, kept->chains.len);
    hyp_strbuf_dispose(&r.text);
    hyp_arena_dispose(&r.arena);
    hyp_arena_dispose(&arena);
    return status;
}
