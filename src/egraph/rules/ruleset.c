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

hyp_status hyp_ruleset_extend_with(hyp_ruleset *rules, const char *file, const char *text, size_t len,
                                   hyp_desugar_fn desugar_fn, void *user, hyp_diag *diag)
{
    rules->desugar = desugar_fn;
    rules->desugar_user = user;
    if (!text) text = ""; /* of no length */
    hyp_rule_reader p = {
        .eg = rules->eg, .rules = rules, .file = file, .desugar = desugar_fn, .user = user, .diag = diag};
    hyp_status status =
        hyp_rules_are_lines(text, len) ? hyp_rules_read_lines(&p, text, len) : hyp_rules_read_forms(&p, text, len);
    hyp_vec_free(&p.vars);
    hyp_arena_dispose(&p.scratch);
    return status;
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
    rules->next = eg->rulesets;
    eg->rulesets = rules;
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
    hyp_ruleset **link = &rules->eg->rulesets;
    while (*link != rules) link = &(*link)->next;
    *link = rules->next;
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
    if (rules && i < rules->rules.len) rules->rules.data[i].enabled = enabled;
}

void hyp_egraph_name_lists(hyp_egraph *eg, const hyp_word_list *lists) { eg->word_lists = lists; }

void hyp_egraph_make_final(hyp_egraph *eg, const char *condition)
{
    for (size_t i = 0; i < eg->callbacks.len; i++)
        if (strcmp(eg->callback_names.names.data[i], condition) == 0) eg->callbacks.data[i].final = true;
}

hyp_origin hyp_egraph_origin(const hyp_egraph *eg, hyp_enode_id node)
{
    if (!eg) return (hyp_origin){0};
    hyp_origin origin = {.rule = HYP_NONE, .ruleset = HYP_NONE};
    uint32_t app = eg->explain && node < eg->row_count ? eg->proofs.origin[node] : HYP_NONE;
    if (app == HYP_NONE) return origin;
    const uint32_t *record = eg->proofs.apps.data + app;
    const hyp_app_kind *kind = hyp_app_kind_of(eg, record);
    origin.ruleset = kind->ruleset;
    origin.rule = HYP_RULE_INDEX(kind->rule);
    origin.matched = record + HYP_APP_ROWS;
    origin.matched_count = hyp_eg_rule(eg, kind->ruleset, kind->rule)->left_nodes;
    return origin;
}
