/* Noting a state of the e-graph and of what its rules have seen, and going back to it.
 *
 * What only grows (symbols, logs, the children that e-nodes were given, records of applications) needs no more than its
 * length; rows are kept when they change (core/undo.c); facts, which an analysis may change at any time, and what rules know
 * are copied. The index is made anew from the rows. */
#include <string.h>

#include "egraph/core/record.h"
#include "egraph/rules/rule.h"

typedef struct saved_rule {
    uint32_t since, *ground_class, *declined;
    size_t declined_len, found;
    bool forgets;
} saved_rule;

typedef struct saved_rules {
    uint32_t index; /* of the ruleset */
    size_t count;
    saved_rule *rules;
} saved_rules;

struct hyp_saved {
    struct hyp_saved *below;
    hyp_undo undo; /* of the state below, as it was at this push */
    size_t bytes;  /* of the copies that follow */
    uint32_t *modify;
    unsigned char *facts;
    size_t row_count, live_count, class_count, pool_len, apps_len, given_len, shown, modify_len, modify_done;
    uint32_t epoch;
    saved_rules *sets;
    size_t set_count;
};

/* A copy, NULL of nothing; *ok is cleared when memory is out. */
static void *keep(struct hyp_saved *s, const void *from, size_t count, size_t elem, bool *ok)
{
    if (count * elem == 0) return NULL;
    void *copy = hyp_malloc(count * elem);
    s->bytes += count * elem;
    if (copy)
        memcpy(copy, from, count * elem);
    else
        *ok = false;
    return copy;
}
#define KEEP(s, from, count, ok) keep((s), (from), (count), sizeof *(from), (ok))

static void keep_ruleset(struct hyp_saved *s, const struct hyp_ruleset *set, saved_rules *out, bool *ok)
{
    *out = (saved_rules){.index = set->index, .rules = hyp_calloc(set->rules.len, sizeof *out->rules)};
    s->bytes += set->rules.len * sizeof *out->rules;
    *ok = out->rules;
    if (*ok) out->count = set->rules.len;
    for (size_t i = 0; i < out->count && *ok; i++) {
        const hyp_rule *rule = &set->rules.data[i];
        out->rules[i] = (saved_rule){
            .since = rule->since, .declined_len = rule->declined.len, .found = rule->found, .forgets = rule->forgets};
        out->rules[i].ground_class = KEEP(s, rule->ground_class, rule->ground_count, ok);
        out->rules[i].declined = KEEP(s, rule->declined.data, rule->declined.len, ok);
    }
}

static bool keep_all(struct hyp_saved *s, const hyp_egraph *eg)
{
    bool ok = true;
    s->row_count = eg->row_count;
    s->live_count = eg->live_count;
    s->class_count = eg->class_count;
    s->pool_len = eg->pool_len;
    s->epoch = eg->epoch;
    s->apps_len = eg->proofs.apps.len;
    s->given_len = eg->proofs.given.len;
    s->modify_len = eg->modify.len;
    s->modify_done = eg->modify_done;
    s->shown = eg->shown;
    s->modify = KEEP(s, eg->modify.data, eg->modify.len, &ok);
    s->facts = keep(s, eg->facts, eg->analysis.data_size ? eg->row_count : 0, eg->analysis.data_size, &ok);
    for (const struct hyp_ruleset *set = eg->rulesets; set; set = set->next) s->set_count++;
    s->bytes += s->set_count * sizeof *s->sets;
    s->sets = hyp_calloc(s->set_count, sizeof *s->sets);
    if (!s->sets) return false;
    size_t i = 0;
    for (const struct hyp_ruleset *set = eg->rulesets; set && ok; set = set->next)
        keep_ruleset(s, set, &s->sets[i++], &ok);
    return ok;
}

static void discard(struct hyp_saved *s)
{
    for (size_t i = 0; i < s->set_count && s->sets; i++) {
        for (size_t r = 0; r < s->sets[i].count; r++) {
            hyp_free(s->sets[i].rules[r].ground_class);
            hyp_free(s->sets[i].rules[r].declined);
        }
        hyp_free(s->sets[i].rules);
    }
    hyp_free(s->sets);
    hyp_free(s->modify);
    hyp_free(s->facts);
    hyp_free(s);
}

hyp_status hyp_egraph_push(hyp_egraph *eg, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_TRY(hyp_eg_may_rebuild(eg, "push", diag));
    if (eg->running) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "push was called from inside a saturation");
    HYP_TRY(hyp_eg_rebuild(eg, diag));
    hyp_eg_reclaim(eg);
    struct hyp_saved *s = hyp_calloc(1, sizeof *s);
    if (!s) return hyp_fail_memory(diag, sizeof *s);
    hyp_status status = keep_all(s, eg) ? hyp_eg_freeze(eg, &s->undo, diag) : hyp_fail_memory(diag, s->bytes);
    if (status != HYP_OK) {
        discard(s);
        return status;
    }
    eg->bytes += s->bytes;
    if (eg->bytes > eg->peak_bytes) eg->peak_bytes = eg->bytes;
    s->below = eg->saved;
    eg->saved = s;
    return HYP_OK;
}

/* ---- going back --------------------------------------------------------------------------------- */

static void restore(void *to, const void *from, size_t count, size_t elem)
{
    if (count) memcpy(to, from, count * elem);
}

/* A rule that was not there then knows nothing. */
static void restore_rule(hyp_rule *rule, const saved_rule *was)
{
    rule->since = was ? was->since : 0;
    rule->found = was ? was->found : 0;
    rule->forgets = was && was->forgets;
    rule->asked = 0;
    rule->declined.len = 0;
    for (uint32_t g = 0; g < rule->ground_count; g++) rule->ground_class[g] = was ? was->ground_class[g] : HYP_NONE;
    if (!was || was->declined_len == 0) return;
    if (hyp_vec_reserve(&rule->declined, was->declined_len, NULL) != HYP_OK) {
        rule->forgets = true; /* then all is searched again */
        return;
    }
    restore(rule->declined.data, was->declined, was->declined_len, sizeof *was->declined);
    rule->declined.len = was->declined_len;
}

/* Rulesets stand in both lists from the last one to the first. */
static void restore_rules(hyp_egraph *eg, const struct hyp_saved *s)
{
    size_t at = 0;
    for (struct hyp_ruleset *set = eg->rulesets; set; set = set->next) {
        while (at < s->set_count && s->sets[at].index > set->index) at++; /* one that is no more */
        const saved_rules *was = at < s->set_count && s->sets[at].index == set->index ? &s->sets[at] : NULL;
        for (size_t i = 0; i < set->rules.len; i++)
            restore_rule(&set->rules.data[i], was && i < was->count ? &was->rules[i] : NULL);
    }
}

hyp_status hyp_egraph_pop(hyp_egraph *eg, hyp_diag *diag)
{
    HYP_NEED(eg);
    struct hyp_saved *s = eg->saved;
    HYP_TRY(hyp_eg_may_rebuild(eg, "pop", diag));
    if (eg->running) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "pop was called from inside a saturation");
    if (!s) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "pop was called without a push");
    for (size_t i = 0; i < eg->pending.len; i++) hyp_eg_settle_class(eg, eg->pending.data[i]);
    for (size_t i = 0; i < eg->changed.len; i++) hyp_eg_mark(eg->told, eg->changed.data[i], false);
    eg->pending.len = eg->changed.len = eg->remake.len = eg->remake_done = 0;
    size_t rows = eg->row_count;
    if (eg->explain) hyp_proof_cut_edges(eg, s->row_count, s->apps_len);
    eg->live_count = s->live_count;
    hyp_eg_thaw(eg, (uint32_t)s->row_count, s->epoch);
    eg->linked = eg->joined = s->row_count;
    eg->class_count = s->class_count;
    eg->pool_len = s->pool_len;
    eg->epoch = s->epoch;
    eg->modify.len = s->modify_len;
    eg->modify_done = s->modify_done;
    eg->shown = s->shown;
    restore(eg->modify.data, s->modify, s->modify_len, sizeof *s->modify);
    if (eg->analysis.data_size) restore(eg->facts, s->facts, s->row_count, eg->analysis.data_size);
    if (eg->explain) hyp_proof_forget_rows(eg, rows, s->given_len);
    restore_rules(eg, s);
    eg->index.ready = false;
    eg->index.seen = 0;
    eg->dead_kept = 0;
    eg->version++;
    hyp_eg_view_reset(eg);
    eg->bytes -= s->bytes;
    eg->saved = s->below;
    hyp_undo_dispose(eg, &eg->undo);
    eg->undo = s->undo;
    eg->frozen = s->below ? (uint32_t)s->below->row_count : 0;
    eg->frozen_epoch = s->below ? s->below->epoch : 0;
    discard(s);
    return HYP_OK;
}

void hyp_eg_saved_bounds(const hyp_egraph *eg, uint32_t *out_rows, uint32_t *out_pool)
{
    *out_rows = eg->saved ? (uint32_t)eg->saved->row_count : 0;
    *out_pool = eg->saved ? (uint32_t)eg->saved->pool_len : 0;
}

void hyp_eg_discard_saved(hyp_egraph *eg)
{
    while (eg->saved) {
        struct hyp_saved *below = eg->saved->below;
        hyp_undo_dispose(eg, &eg->saved->undo);
        discard(eg->saved);
        eg->saved = below;
    }
}
