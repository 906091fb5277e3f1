/* copy.c - an e-graph that is like another one, with rulesets that have seen the same. */
#include <string.h>

#include "egraph/core/record.h"
#include "egraph/core/sorts.h"
#include "egraph/rules/reader.h"

static hyp_status copy_names(const hyp_intern *from, hyp_intern *to, hyp_diag *diag)
{
    uint32_t id;
    for (size_t i = 0; i < from->names.len; i++)
        HYP_TRY(hyp_intern_add(to, from->names.data[i], strlen(from->names.data[i]), &id, diag));
    return HYP_OK;
}

static void copy_array(void *to, const void *from, size_t count, size_t elem)
{
    if (count && elem) memcpy(to, from, count * elem); /* arrays of nothing may be NULL */
}
#define COPY(from, to, name, count) copy_array((to)->name, (from)->name, (count), sizeof *(from)->name)

/* hyp_vec_reserve or hyp_eg_reserve, and the elements. */
#define COPY_VEC(eg, from, to, diag)                                                                                   \
    do {                                                                                                               \
        HYP_TRY(hyp_eg_reserve((eg), (to), (from)->len, (diag)));                                                      \
        copy_array((to)->data, (from)->data, (from)->len, sizeof *(from)->data);                                       \
        (to)->len = (from)->len;                                                                                       \
    } while (0)

static hyp_status copy_sorts(const hyp_sorts *from, hyp_egraph *to, hyp_diag *diag)
{
    if (!from) return HYP_OK;
    HYP_TRY(hyp_sorts_begin(to, diag));
    memcpy(to->sorts->literal, from->literal, sizeof from->literal);
    HYP_TRY(copy_names(&from->names, &to->sorts->names, diag));
    for (size_t i = 0; i < from->all.len; i++) {
        const hyp_declared *d = &from->all.data[i];
        HYP_TRY(hyp_sorts_add(to, d->symbol, from->args.data + d->first, d->count, d->any, d->result, diag));
    }
    return HYP_OK;
}

static hyp_status copy_ops(const hyp_egraph *from, hyp_egraph *to, hyp_diag *diag)
{
    COPY_VEC(to, &from->first_op, &to->first_op, diag);
    HYP_TRY(hyp_eg_reserve(to, &to->ops, from->ops.len, diag));
    for (; to->ops.len < from->ops.len; to->ops.len++) {
        const hyp_op *op = &from->ops.data[to->ops.len];
        hyp_op *copy = &to->ops.data[to->ops.len];
        *copy = (hyp_op){.symbol = op->symbol, .arity = op->arity, .next_op = op->next_op};
        copy->live = op->live;
        copy->logged_at = op->logged_at;
    }
    COPY_VEC(to, &from->logged, &to->logged, diag);
    for (size_t o = 0; o < to->ops.len; o++) {
        COPY_VEC(to, &from->ops.data[o].log, &to->ops.data[o].log, diag);
        COPY_VEC(to, &from->ops.data[o].marks, &to->ops.data[o].marks, diag);
    }
    return HYP_OK;
}

static hyp_status copy_rows(const hyp_egraph *from, hyp_egraph *to, hyp_diag *diag)
{
    size_t rows = from->row_count;
    HYP_TRY(hyp_eg_reserve_like(to, from, diag));
    COPY(from, to, rows, rows);
    COPY(from, to, parent, rows);
    COPY(from, to, stamp, from->linked);
    COPY(from, to, moved, to->row_cap / 64);
    COPY(from, to, pool, from->pool_len);
    COPY(from, to, pool_row, from->pool_len);
    if (from->explain) {
        COPY(from, to, proofs.edge, rows);
        COPY(from, to, proofs.is_made, to->row_cap / 64);
        COPY(from, to, proofs.is_changed, to->row_cap / 64);
        COPY_VEC(to, &from->proofs.given, &to->proofs.given, diag);
        to->proofs.sorted = from->proofs.sorted;
        COPY_VEC(to, &from->proofs.milestones, &to->proofs.milestones, diag);
        COPY(from, to, proofs.pool, from->pool_len);
        HYP_TRY(hyp_proof_reserve(to, from->proofs.apps.len / HYP_APP_NUMBER + 1, 0, diag));
        COPY_VEC(to, &from->proofs.apps, &to->proofs.apps, diag);
        COPY_VEC(to, &from->proofs.kinds, &to->proofs.kinds, diag);
    }
    copy_array(to->facts, from->facts, rows, from->analysis.data_size);
    COPY_VEC(to, &from->modify, &to->modify, diag);
    to->modify_done = from->modify_done;
    to->shown = from->shown;
    to->row_count = rows;
    to->pool_len = from->pool_len;
    to->linked = from->linked;
    to->joined = from->joined;
    to->live_count = from->live_count;
    to->class_count = from->class_count;
    to->epoch = from->epoch;
    to->version = from->version;
    to->index.sweeps = from->index.sweeps; /* which say how the next rebuild is done, and so which names classes keep */
    if (to->bucket_count) hyp_eg_purge_slots(to);
    return HYP_OK;
}

static hyp_status copy_callbacks(const hyp_egraph *from, hyp_egraph *to, hyp_diag *diag)
{
    HYP_TRY(copy_names(&from->callback_names, &to->callback_names, diag));
    HYP_TRY(hyp_vec_reserve(&to->callbacks, from->callbacks.len, diag));
    COPY(from, to, callbacks.data, from->callbacks.len);
    to->callbacks.len = from->callbacks.len;
    to->word_lists = from->word_lists;
    return HYP_OK;
}

/* ---- rulesets --------------------------------------------------------------------------------------- */

/* What a rule's records name. */
static void copy_kinds(const hyp_rule *from, hyp_rule *to)
{
    for (uint32_t a = 0; a < from->action_count; a++) to->actions[a].app_kind = from->actions[a].app_kind;
}

/* What a rule has seen, and the instances of one that collects which proofs may name. */
static hyp_status copy_rule_state(const hyp_rule *from, struct hyp_ruleset *to, size_t i, hyp_diag *diag)
{
    hyp_rule *rule = &to->rules.data[i];
    rule->enabled = from->enabled;
    rule->since = from->since;
    rule->asked = from->asked;
    rule->forgets = from->forgets;
    rule->found = from->found;
    rule->own_match_limit = from->own_match_limit;
    rule->own_ban_length = from->own_ban_length;
    COPY(from, rule, ground_class, from->ground_count);
    HYP_TRY(hyp_vec_reserve(&rule->declined, from->declined.len, diag));
    COPY(from, rule, declined.data, from->declined.len);
    rule->declined.len = from->declined.len;
    copy_kinds(from, rule);
    if (from->collecting) {
        rule->collecting->declined = from->collecting->declined;
        rule->collecting->beyond = from->collecting->beyond;
    }
    for (uint32_t width = 2; from->collecting && width <= HYP_WIDEST; width++) {
        if (!from->collecting->instances[width]) continue;
        HYP_TRY(hyp_rule_instance(to, (uint32_t)i, width, diag));
        copy_kinds(from->collecting->instances[width], rule->collecting->instances[width]);
    }
    return HYP_OK;
}

/* Reads the rules again from their text, which gives the same operators and callbacks. */
static hyp_status copy_rules(const struct hyp_ruleset *from, struct hyp_ruleset *to, hyp_diag *diag)
{
    for (size_t i = 0; i < from->rules.len; i++) {
        const hyp_rule *rule = &from->rules.data[i];
        HYP_TRY(hyp_ruleset_extend_with(to, "copy", rule->info.text, strlen(rule->info.text), from->desugar,
                                        from->desugar_user, diag));
        HYP_TRY(copy_rule_state(rule, to, i, diag));
    }
    return HYP_OK;
}

static hyp_status copy_ruleset(const struct hyp_ruleset *from, hyp_egraph *eg, struct hyp_ruleset **out, hyp_diag *diag)
{
    struct hyp_ruleset *rules = *out = hyp_calloc(1, sizeof *rules);
    if (!rules) return hyp_fail_memory(diag, sizeof *rules);
    rules->eg = eg;
    rules->index = from->index;
    rules->recorded = from->recorded;
    rules->may_unite = from->may_unite;
    rules->may_unite_user = from->may_unite_user;
    hyp_ruleset_link(rules);
    return copy_rules(from, rules, diag);
}

static bool is_asked_for(const struct hyp_ruleset *set, hyp_ruleset *const *rulesets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rulesets[i] == set) return true;
    return false;
}

static hyp_status copy_rulesets(const hyp_egraph *from, hyp_egraph *to, hyp_ruleset *const *rulesets, size_t count,
                                hyp_ruleset **out, hyp_diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        if (!rulesets[i] || rulesets[i]->eg != from)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "ruleset %zu is none of this e-graph", i);
        out[i] = NULL;
    }
    to->ruleset_count = from->ruleset_count;
    for (const struct hyp_ruleset *set = from->rulesets; set; set = set->next) {
        struct hyp_ruleset *copy;
        if (!set->recorded && !is_asked_for(set, rulesets, count)) continue;
        HYP_TRY(copy_ruleset(set, to, &copy, diag));
        for (size_t i = 0; i < count; i++)
            if (rulesets[i] == set) out[i] = copy;
    }
    return HYP_OK;
}

hyp_status hyp_egraph_copy(hyp_egraph *eg, hyp_ruleset *const *rulesets, size_t count, hyp_egraph **out,
                           hyp_ruleset **out_rulesets, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED(out);
    HYP_NEED_LIST(rulesets, count);
    HYP_NEED_LIST(out_rulesets, count);
    hyp_egraph *copy;
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before it is copied");
    hyp_egraph_options options = {
        .size = sizeof options, .analysis = &eg->analysis, .explain = eg->explain, .explain_all = eg->explain_all};
    HYP_TRY(hyp_egraph_create(&options, &copy, diag));
    hyp_status status = copy_names(&eg->symbols, &copy->symbols, diag);
    if (status == HYP_OK) status = copy_callbacks(eg, copy, diag);
    if (status == HYP_OK) status = copy_sorts(eg->sorts, copy, diag);
    if (status == HYP_OK) status = copy_ops(eg, copy, diag);
    if (status == HYP_OK) status = copy_rows(eg, copy, diag);
    if (status == HYP_OK) status = copy_rulesets(eg, copy, rulesets, count, out_rulesets, diag);
    if (status != HYP_OK) {
        hyp_egraph_destroy(copy);
        return status;
    }
    copy->names_are_young = eg->names_are_young;
    /* The copy makes its index anew, and so does the one that it is like: then both meet matches in one order. */
    eg->index.ready = false;
    eg->index.seen = 0;
    *out = copy;
    return HYP_OK;
}
