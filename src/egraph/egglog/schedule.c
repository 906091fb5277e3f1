/* schedule.c - runs of rulesets: (run), (run-schedule), and what combines them. */
#include <string.h>

#include "egraph/egglog/db.h"

#define FAIL(sx, status, ...) hyp_sexpr_fail(r->diag, r->file, (sx), (status), __VA_ARGS__)

static hyp_status apply(hyp_egglog *db, const hyp_el_code *code, uint32_t *regs, void *user, bool *out_stop, hyp_diag *diag)
{
    (void)user, (void)out_stop;
    db->report.matches++;
    return hyp_el_act(db, code, regs, diag);
}

static hyp_status search_rules(hyp_egglog *db, uint32_t ruleset, hyp_diag *diag)
{
    const hyp_el_ruleset *set = &db->rulesets.data[ruleset];
    for (size_t i = 0; i < set->parts.len; i++) HYP_TRY(search_rules(db, set->parts.data[i], diag));
    for (size_t i = 0; i < set->rules.len; i++) {
        hyp_el_rule *rule = &db->rules.data[set->rules.data[i]];
        HYP_TRY(hyp_el_search(db, rule->code, rule->since, false, apply, NULL, diag));
        rule->since = db->epoch;
    }
    return HYP_OK;
}

/* One iteration: all rules see the database as it was when it began. */
static hyp_status iterate(hyp_egglog *db, uint32_t ruleset, bool *out_changed, hyp_diag *diag)
{
    HYP_TRY(hyp_el_rebuild(db, diag));
    double start = hyp_el_now(), searched;
    uint64_t before = db->changes;
    if (db->epoch >= HYP_EL_SUBSUMED - 2) return hyp_fail(diag, HYP_ERR_LIMIT, "2^31 iterations have been run");
    db->epoch++;
    db->report.iterations++;
    for (size_t f = 0; f < db->functions.len; f++) db->functions.data[f].table.limit = db->functions.data[f].table.count;
    db->searching = true;
    hyp_status status = search_rules(db, ruleset, diag);
    if (status != HYP_OK) db->staged.len = db->staged_words.len = 0;
    searched = hyp_el_now();
    db->report.search_apply_seconds += searched - start;
    db->searching = false;
    if (status == HYP_OK) status = hyp_el_settle(db, diag);
    if (status == HYP_OK) status = hyp_el_rebuild(db, diag);
    db->report.rebuild_seconds += hyp_el_now() - searched;
    *out_changed = db->changes != before;
    return status == HYP_OK ? hyp_el_check_limits(db, diag) : status;
}

/* ---- schedules ------------------------------------------------------------------------------------------------- */

static hyp_status find_ruleset(hyp_el_reader *r, const hyp_sexpr *sx, uint32_t *out)
{
    *out = sx->kind == HYP_SX_SYMBOL ? hyp_el_ruleset_named(r->db, sx->text) : HYP_EL_NONE;
    return *out == HYP_EL_NONE ? FAIL(sx, HYP_ERR_MALFORMED, "there is no ruleset %s", sx->text ? sx->text : "of that form")
                               : HYP_OK;
}

/* One iteration unless the facts hold already. */
static hyp_status run_once(hyp_el_reader *r, uint32_t ruleset, hyp_sexpr *const *until, uint32_t until_count,
                           bool *out_changed)
{
    bool holds = false;
    *out_changed = false;
    if (until_count) HYP_TRY(hyp_el_holds(r, until, until_count, &holds));
    return holds ? HYP_OK : iterate(r->db, ruleset, out_changed, r->diag);
}

/* What follows (run ..: the ruleset, how often, and :until. */
static hyp_status read_run(hyp_el_reader *r, const hyp_sexpr *form, uint32_t *out_ruleset, int64_t *out_times,
                           uint32_t *out_until)
{
    uint32_t at = 1;
    *out_ruleset = 0;
    *out_times = 1;
    if (at < form->count && form->items[at]->kind == HYP_SX_SYMBOL && *form->items[at]->text != ':')
        HYP_TRY(find_ruleset(r, form->items[at++], out_ruleset));
    if (at < form->count && form->items[at]->kind == HYP_SX_INT) *out_times = form->items[at++]->integer;
    if (*out_times < 0) return FAIL(form, HYP_ERR_MALFORMED, "a negative number of iterations");
    *out_until = form->count;
    if (at == form->count) return HYP_OK;
    if (!hyp_sexpr_is(form->items[at], ":until"))
        return FAIL(form->items[at], HYP_ERR_MALFORMED, "(run [RULESET] [N] [:until FACT ..])");
    *out_until = at + 1;
    return HYP_OK;
}

static hyp_status run_times(hyp_el_reader *r, const hyp_sexpr *form, bool *out_changed)
{
    uint32_t ruleset, until;
    int64_t times;
    bool changed = true;
    *out_changed = false;
    HYP_TRY(read_run(r, form, &ruleset, &times, &until));
    for (int64_t i = 0; i < times && changed; i++) {
        HYP_TRY(run_once(r, ruleset, form->items + until, form->count - until, &changed));
        *out_changed |= changed;
    }
    return HYP_OK;
}

static hyp_status run_schedule(hyp_el_reader *r, const hyp_sexpr *sx, bool *out_changed);

static hyp_status run_parts(hyp_el_reader *r, const hyp_sexpr *form, uint32_t from, bool *out_changed)
{
    bool changed;
    *out_changed = false;
    for (uint32_t i = from; i < form->count; i++) {
        HYP_TRY(run_schedule(r, form->items[i], &changed));
        *out_changed |= changed;
    }
    return HYP_OK;
}

static hyp_status run_schedule(hyp_el_reader *r, const hyp_sexpr *sx, bool *out_changed)
{
    uint32_t ruleset;
    if (sx->kind == HYP_SX_SYMBOL) {
        HYP_TRY(find_ruleset(r, sx, &ruleset));
        return run_once(r, ruleset, NULL, 0, out_changed);
    }
    if (hyp_sexpr_is_form(sx, "run")) return run_times(r, sx, out_changed);
    if (hyp_sexpr_is_form(sx, "seq")) return run_parts(r, sx, 1, out_changed);
    bool repeat = hyp_sexpr_is_form(sx, "repeat"), changed = true;
    if (!repeat && !hyp_sexpr_is_form(sx, "saturate"))
        return FAIL(sx, HYP_ERR_MALFORMED, "a schedule is a ruleset, (run ..), (seq ..), (saturate ..) or (repeat N ..)");
    if (repeat && (sx->count < 2 || sx->items[1]->kind != HYP_SX_INT || sx->items[1]->integer < 0))
        return FAIL(sx, HYP_ERR_MALFORMED, "(repeat N SCHEDULE ..)");
    *out_changed = false;
    for (int64_t i = 0; changed && (!repeat || i < sx->items[1]->integer); i++) {
        HYP_TRY(run_parts(r, sx, repeat ? 2 : 1, &changed));
        *out_changed |= changed;
    }
    return HYP_OK;
}

hyp_status hyp_el_run_command(hyp_el_reader *r, const hyp_sexpr *form, bool *out_known)
{
    bool schedule = hyp_sexpr_is_form(form, "run-schedule");
    *out_known = schedule || hyp_sexpr_is_form(form, "run");
    if (!*out_known) return HYP_OK;
    r->db->report = (hyp_egglog_report){0};
    return schedule ? run_parts(r, form, 1, &r->db->report.changed) : run_times(r, form, &r->db->report.changed);
}
