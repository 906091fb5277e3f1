/* Matching on its own: a pattern is a rule that is searched anew each time and never applied. */
#include <string.h>

#include "base/strbuf.h"
#include "egraph/core/sorts.h"
#include "egraph/rules/rule.h"

struct hyp_pattern {
    hyp_ruleset *rules;
};

static const hyp_rule *rule_of(const hyp_pattern *pattern) { return &pattern->rules->rules.data[0]; }

hyp_status hyp_pattern_parse(hyp_egraph *eg, const char *text, hyp_pattern **out, hyp_diag *diag)
{
    HYP_NEED(eg);
    HYP_NEED(text);
    HYP_NEED(out);
    /* The right side is a fresh leaf that nobody builds. */
    hyp_strbuf sb = {0};
    bool multi = strncmp(text, "(multi", 6) == 0;
    hyp_strbuf_puts(&sb, "(rule pattern ");
    hyp_strbuf_puts(&sb, text);
    hyp_strbuf_puts(&sb, multi ? "\n => (union matched matched))" : "\n => matched)");
    if (sb.failed) {
        hyp_strbuf_dispose(&sb);
        return hyp_fail_memory(diag, strlen(text));
    }
    hyp_ruleset *rules = NULL;
    if (eg->sorts) eg->sorts->left_only = true;
    hyp_status status = hyp_ruleset_parse(eg, "pattern", sb.data, sb.len, &rules, diag);
    if (eg->sorts) eg->sorts->left_only = false;
    hyp_strbuf_dispose(&sb);
    HYP_TRY(status);
    hyp_pattern *pattern = hyp_malloc(sizeof *pattern);
    if (!pattern || hyp_ruleset_count(rules) != 1) {
        hyp_ruleset_destroy(rules);
        if (!pattern) return hyp_fail_memory(diag, sizeof *pattern);
        hyp_free(pattern);
        return hyp_fail(diag, HYP_ERR_MALFORMED, "one pattern was wanted: %s", text);
    }
    pattern->rules = rules;
    *out = pattern;
    return HYP_OK;
}

void hyp_pattern_destroy(hyp_pattern *pattern)
{
    if (!pattern) return;
    hyp_ruleset_destroy(pattern->rules);
    hyp_free(pattern);
}

size_t hyp_pattern_variable_count(const hyp_pattern *pattern)
{
    return pattern ? rule_of(pattern)->variable_count : 0;
}

const char *hyp_pattern_variable(const hyp_pattern *pattern, size_t i)
{
    if (!pattern) return NULL;
    return i < rule_of(pattern)->variable_count ? rule_of(pattern)->variables[i].name : NULL;
}

typedef struct caller {
    const hyp_rule *rule;
    hyp_ematch_fn fn;
    void *user;
    uint32_t *variables;
} caller;

static hyp_status call(void *user, const uint32_t *matches, size_t count, hyp_diag *diag)
{
    const caller *c = user;
    for (size_t i = 0; i < count; i++) {
        const uint32_t *match = matches + i * hyp_match_words(c->rule);
        for (uint32_t v = 0; v < c->rule->variable_count; v++) c->variables[v] = match[c->rule->variables[v].reg];
        hyp_match_view view = {match[c->rule->left[0].reg], c->variables, c->rule->variable_count};
        HYP_TRY(c->fn(&view, c->user, diag));
    }
    return HYP_OK;
}

static hyp_status search(hyp_search *s, caller *c, hyp_diag *diag)
{
    hyp_egraph *eg = s->eg;
    hyp_rule *rule = s->rule;
    HYP_TRY(hyp_eg_link(eg, diag));
    HYP_TRY(hyp_index_sync(eg, diag));
    size_t words = rule->reg_count + rule->left_nodes + 1;
    size_t end = words * (HYP_MATCH_BATCH + 1) + HYP_MATCH_COPY;
    uint32_t *room = hyp_malloc((end + rule->ground_count + rule->variable_count) * sizeof *room);
    if (!room) return hyp_fail_memory(diag, end * sizeof *room);
    s->match = room;
    s->buffer = s->match + words;
    uint32_t *grounds = room + end;
    c->variables = grounds + rule->ground_count;
    s->row_limit = (uint32_t)eg->row_count;
    rule->since = 0;
    eg->busy = true;
    hyp_status status = hyp_match(s, grounds);
    eg->busy = false;
    hyp_free(room);
    return status;
}

hyp_status hyp_egraph_ematch(hyp_egraph *eg, const hyp_pattern *pattern, hyp_ematch_fn fn, void *user, hyp_diag *diag)
{
    HYP_NEED(pattern);
    HYP_NEED(fn);
    HYP_NEED(eg);
    hyp_rule *rule = &pattern->rules->rules.data[0];
    if (pattern->rules->eg != eg)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "this pattern belongs to another e-graph");
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before it is searched");
    caller c = {.rule = rule, .fn = fn, .user = user};
    hyp_search s = {.eg = eg, .rule = rule, .emit = call, .user = &c, .diag = diag};
    return search(&s, &c, diag);
}
