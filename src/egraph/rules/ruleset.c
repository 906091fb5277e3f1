/* ruleset.c - rulesets: made of text, asked, destroyed with the e-graph or before. */
#include <string.h>

#include "egraph/core/record.h"
#include "egraph/rules/reader.h"

static void free_ruleset(hyp_ruleset *rules)
{
    for (size_t i = 0; i < rules->rules.len; i++) hyp_vec_free(&rules->rules.data[i].declined);
    hyp_vec_free(&rules->rules);
    hyp_intern_dispose(&rules->names);
    hyp_arena_dispose(&rules->arena);
    hyp_free(rules);
}

void hyp_eg_free_rulesets(hyp_egraph *eg)
{
    while (eg->rulesets) {
        struct hyp_ruleset *next = eg->rulesets->next;
        free_ruleset(eg->rulesets);
        eg->rulesets = next;
    }
}

void hyp_ruleset_link(hyp_ruleset *rules)
{
    hyp_egraph *eg = rules->eg;
    rules->next = eg->rulesets;
    rules->held_by = &eg->rulesets;
    if (rules->next) rules->next->held_by = &rules->next;
    eg->rulesets = rules;
}

static hyp_status read_text(hyp_rule_reader *p, const char *text, size_t len)
{
    if (!text) text = ""; /* of no length */
    hyp_status status =
        hyp_rules_are_lines(text, len) ? hyp_rules_read_lines(p, text, len) : hyp_rules_read_forms(p, text, len);
    hyp_rule_reader_dispose(p);
    return status;
}

hyp_status hyp_ruleset_extend_with(hyp_ruleset *rules, const char *file, const char *text, size_t len,
                                   hyp_desugar_fn desugar_fn, void *user, hyp_diag *diag)
{
    rules->desugar = desugar_fn;
    rules->desugar_user = user;
    hyp_rule_reader p = {
        .eg = rules->eg, .rules = rules, .file = file, .desugar = desugar_fn, .user = user, .diag = diag};
    return read_text(&p, text, len);
}

hyp_status hyp_ruleset_extend_names(hyp_ruleset *rules, const char *file, const char *text, size_t len, hyp_diag *diag)
{
    hyp_rule_reader p = {.eg = rules->eg, .rules = rules, .file = file, .names_only = true, .diag = diag};
    return read_text(&p, text, len);
}

hyp_status hyp_ruleset_parse_with(hyp_egraph *eg, const char *file, const char *text, size_t len,
                                  hyp_desugar_fn desugar_fn, void *user, hyp_ruleset **out, hyp_diag *diag)
{
    hyp_ruleset *rules = hyp_calloc(1, sizeof *rules);
    if (!rules) return hyp_fail_memory(diag, sizeof *rules);
    rules->eg = eg;
    rules->index = eg->ruleset_count;
    hyp_status status = hyp_ruleset_extend_with(rules, file, text, len, desugar_fn, user, diag);
    if (status != HYP_OK) {
        free_ruleset(rules);
        return status;
    }
    hyp_ruleset_link(rules);
    eg->ruleset_count++;
    *out = rules;
    return HYP_OK;
}

hyp_status hyp_ruleset_parse(hyp_egraph *eg, const char *file, const char *text, size_t len, hyp_ruleset **out,
                             hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED_LIST(text, len);
    return hyp_ruleset_parse_with(eg, file, text, len, NULL, NULL, out, diag);
}

void hyp_ruleset_destroy(hyp_ruleset *rules)
{
    if (!rules) return;
    if (rules->recorded || hyp_eg_in_use(rules->eg)) return; /* proofs or a search name it: it goes with the e-graph */
    *rules->held_by = rules->next;
    if (rules->next) rules->next->held_by = rules->held_by;
    free_ruleset(rules);
}

size_t hyp_ruleset_count(const hyp_ruleset *rules) { return rules ? rules->rules.len : 0; }
hyp_rule_info hyp_ruleset_rule(const hyp_ruleset *rules, size_t i)
{
    return rules && i < rules->rules.len ? rules->rules.data[i].info : (hyp_rule_info){0};
}
void hyp_ruleset_backoff(hyp_ruleset *rules, size_t i, size_t match_limit, size_t ban_length)
{
    if (!rules) return;
    if (i >= rules->rules.len) return;
    rules->rules.data[i].own_match_limit = match_limit;
    rules->rules.data[i].own_ban_length = ban_length;
}

void hyp_ruleset_guard(hyp_ruleset *rules, hyp_may_unite_fn fn, void *user)
{
    rules->may_unite = fn;
    rules->may_unite_user = user;
}

void hyp_ruleset_enable(hyp_ruleset *rules, size_t i, bool enabled)
{
    if (rules && i < rules->rules.len) rules->rules.data[i].enabled = enabled && rules->rules.data[i].left_count;
}

void hyp_egraph_name_lists(hyp_egraph *eg, const hyp_word_list *lists) { eg->word_lists = lists; }

void hyp_egraph_make_final(hyp_egraph *eg, const char *condition)
{
    for (size_t i = 0; i < eg->callbacks.len; i++)
        if (strcmp(eg->callback_names.names.data[i], condition) == 0) eg->callbacks.data[i].final = true;
}

/* ---- where e-nodes come from ---------------------------------------------------------------------- */

/* The places of the records among which is that of the application that made a row. */
static uint32_t first_record(const hyp_egraph *eg, uint32_t row, uint32_t *out_end)
{
    const hyp_milestone *all = eg->proofs.milestones.data;
    size_t lo = 0, hi = eg->proofs.milestones.len; /* the last one that is not behind the row is before hi */
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (all[mid].row <= row)
            lo = mid;
        else
            hi = mid;
    }
    *out_end = hi < eg->proofs.milestones.len ? all[hi].app : hyp_app_place(eg);
    return all[lo].app;
}

/* Whether the right side of an application has a row among what it builds, of which any may be the one it made. */
static bool builds(const hyp_rule *rule, const hyp_app *app, uint32_t row)
{
    for (uint32_t i = 0; i < rule->build_count; i++)
        if (hyp_app_id(app, rule->left_nodes + rule->builds[i].pat->index) == row) return true;
    for (uint32_t a = 0; a < rule->action_count; a++)
        if (rule->actions[a].is_late && hyp_app_id(app, rule->left_nodes + rule->actions[a].right.index) == row) return true;
    return false;
}

/* The first application since its milestone that builds a row made it, or would have made it in its place. One that a limit
 * or a failure has cut is not recorded. */
static hyp_status find_origin(hyp_egraph *eg, uint32_t row, hyp_origin *out)
{
    uint32_t end;
    for (uint32_t place = first_record(eg, row, &end); place < end;) {
        const hyp_app app = hyp_app_read(eg, place);
        place = hyp_app_after(eg, &app);
        if (!app.kind) continue;
        const hyp_rule *rule = hyp_eg_rule(eg, app.kind->ruleset, app.kind->rule);
        if (!builds(rule, &app, row)) continue;
        uint32_t *ids = hyp_arena_alloc(&eg->proofs.told, rule->left_nodes * sizeof *ids);
        if (!ids) return HYP_ERR_NO_MEMORY;
        for (uint32_t i = 0; i < rule->left_nodes; i++) ids[i] = hyp_app_id(&app, i);
        *out = (hyp_origin){HYP_RULE_INDEX(app.kind->rule), app.kind->ruleset, ids, rule->left_nodes};
        break;
    }
    return HYP_OK;
}

hyp_origin hyp_egraph_origin(const hyp_egraph *eg, hyp_enode_id node)
{
    if (!eg) return (hyp_origin){0};
    hyp_origin origin = {.rule = HYP_NONE, .ruleset = HYP_NONE};
    if (!eg->explain || node >= eg->row_count || !(eg->proofs.is_made[node >> 6] >> (node & 63) & 1)) return origin;
    hyp_egraph *told = (hyp_egraph *)eg; /* what is handed out lies in it, and is no part of what it says */
    if (told->proofs.told_at != eg->version) hyp_arena_dispose(&told->proofs.told);
    told->proofs.told_at = eg->version;
    if (find_origin(told, node, &origin) != HYP_OK) return (hyp_origin){.rule = HYP_NONE, .ruleset = HYP_NONE};
    return origin;
}
