/* Noting a state of the e-graph and of what its rules have seen, and going back to it.
 *
 * What only grows (symbols, the children that e-nodes were given, records of applications) needs no more than its
 * length; what changes is copied. The hash-cons and the index are made anew from the rows. */
#include <string.h>

#include "egraph/core/record.h"
#include "egraph/rules/rule.h"

typedef struct saved_op {
    uint32_t op, live;
    uint32_t *log;
    hyp_mark *marks;
    size_t log_len, mark_len;
} saved_op;

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
    hyp_arena arena; /* holds all that follows */
    size_t bytes;
    hyp_row *rows;
    uint32_t *parent, *stamp, *pool, *proof_edge, *modify;
    unsigned char *facts;
    size_t row_count, live_count, class_count, pool_len, apps_len, shown, modify_len, modify_done;
    uint32_t epoch;
    saved_op *ops;
    size_t op_count;
    saved_rules *sets;
    size_t set_count;
};

/* A copy in the arena; *ok is cleared when memory is out. */
static void *keep(struct hyp_saved *s, const void *from, size_t count, size_t elem, bool *ok)
{
    void *copy = hyp_arena_alloc(&s->arena, count * elem);
    s->bytes += count * elem;
    if (!copy)
        *ok = false;
    else if (count && from)
        memcpy(copy, from, count * elem);
    return copy;
}
#define KEEP(s, from, count, ok) keep((s), (from), (count), sizeof *(from), (ok))

static void keep_ops(struct hyp_saved *s, const hyp_egraph *eg, bool *ok)
{
    s->op_count = eg->logged.len;
    s->ops = hyp_arena_zalloc(&s->arena, s->op_count, sizeof *s->ops);
    if (!s->ops) *ok = false;
    for (size_t o = 0; o < s->op_count && *ok; o++) {
        const hyp_op *op = &eg->ops.data[eg->logged.data[o]];
        s->ops[o] = (saved_op){
            .op = eg->logged.data[o], .live = op->live, .log_len = op->log.len, .mark_len = op->marks.len};
        s->ops[o].log = KEEP(s, op->log.data, op->log.len, ok);
        s->ops[o].marks = KEEP(s, op->marks.data, op->marks.len, ok);
    }
}

static void keep_ruleset(struct hyp_saved *s, const struct hyp_ruleset *set, saved_rules *out, bool *ok)
{
    *out = (saved_rules){.index = set->index, .count = set->rules.len};
    out->rules = hyp_arena_zalloc(&s->arena, out->count, sizeof *out->rules);
    if (!out->rules) *ok = false;
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
    s->modify_len = eg->modify.len;
    s->modify_done = eg->modify_done;
    s->shown = eg->shown;
    s->rows = KEEP(s, eg->rows, eg->row_count, &ok);
    s->parent = KEEP(s, eg->parent, eg->row_count, &ok);
    s->stamp = KEEP(s, eg->stamp, eg->row_count, &ok);
    s->pool = KEEP(s, eg->pool, eg->pool_len, &ok);
    s->modify = KEEP(s, eg->modify.data, eg->modify.len, &ok);
    s->facts = keep(s, eg->facts, eg->analysis.data_size ? eg->row_count : 0, eg->analysis.data_size, &ok);
    s->proof_edge = KEEP(s, eg->proofs.edge, eg->explain ? eg->row_count : 0, &ok);
    keep_ops(s, eg, &ok);
    for (const struct hyp_ruleset *set = eg->rulesets; set; set = set->next) s->set_count++;
    s->sets = hyp_arena_zalloc(&s->arena, s->set_count, sizeof *s->sets);
    if (!s->sets) return false;
    size_t i = 0;
    for (const struct hyp_ruleset *set = eg->rulesets; set && ok; set = set->next)
        keep_ruleset(s, set, &s->sets[i++], &ok);
    return ok;
}

static void discard(struct hyp_saved *s)
{
    hyp_arena_dispose(&s->arena);
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
    if (!keep_all(s, eg)) {
        size_t bytes = s->bytes;
        discard(s);
        return hyp_fail_memory(diag, bytes);
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

/* Operators of which there is something: in the logs, or on the way there. */
static void empty_ops(hyp_egraph *eg)
{
    for (size_t i = eg->linked; i < eg->row_count; i++) eg->ops.data[hyp_row_op(eg, (uint32_t)i)].live = 0;
    while (eg->logged.len) {
        hyp_op *op = &eg->ops.data[eg->logged.data[--eg->logged.len]];
        op->is_logged = false;
        op->live = 0;
        op->log.len = op->marks.len = 0;
    }
}

static void restore_ops(hyp_egraph *eg, const struct hyp_saved *s)
{
    for (size_t o = 0; o < s->op_count; o++) {
        const saved_op *was = &s->ops[o];
        hyp_op *op = &eg->ops.data[was->op];
        eg->logged.data[eg->logged.len++] = was->op; /* where it was at the push: there is room */
        op->is_logged = true;
        op->live = was->live;
        op->log.len = was->log_len;
        op->marks.len = was->mark_len;
        restore(op->log.data, was->log, was->log_len, sizeof *was->log);
        restore(op->marks.data, was->marks, was->mark_len, sizeof *was->marks);
    }
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
    empty_ops(eg);
    eg->row_count = eg->linked = eg->joined = s->row_count;
    eg->live_count = s->live_count;
    eg->class_count = s->class_count;
    eg->pool_len = s->pool_len;
    eg->epoch = s->epoch;
    eg->proofs.apps.len = s->apps_len;
    eg->modify.len = s->modify_len;
    eg->modify_done = s->modify_done;
    eg->shown = s->shown;
    restore(eg->rows, s->rows, s->row_count, sizeof *s->rows);
    restore(eg->parent, s->parent, s->row_count, sizeof *s->parent);
    restore(eg->stamp, s->stamp, s->row_count, sizeof *s->stamp);
    restore(eg->pool, s->pool, s->pool_len, sizeof *s->pool);
    restore(eg->modify.data, s->modify, s->modify_len, sizeof *s->modify);
    if (eg->analysis.data_size) restore(eg->facts, s->facts, s->row_count, eg->analysis.data_size);
    if (eg->explain) {
        restore(eg->proofs.edge, s->proof_edge, s->row_count, sizeof *s->proof_edge);
        hyp_proof_forget_rows(eg);
    }
    restore_ops(eg, s);
    restore_rules(eg, s);
    if (eg->bucket_count) hyp_eg_purge_slots(eg);
    eg->index.ready = false;
    eg->index.seen = 0;
    eg->dead_kept = 0;
    eg->version++;
    hyp_eg_view_reset(eg);
    eg->bytes -= s->bytes;
    eg->saved = s->below;
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
        discard(eg->saved);
        eg->saved = below;
    }
}
