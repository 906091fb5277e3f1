/* Why a rule does not apply: a plain top-down search for the match that gets furthest.
 *
 * It reads a rebuilt e-graph and notes what it finds; only then are conditions and functions asked, which may add
 * e-nodes. It is no part of saturation, and need not be fast; its work is bounded. */
#include <string.h>

#include "base/sexpr.h"
#include "egraph/rules/rule.h"

enum { BUDGET = 2000000 }; /* e-nodes, and classes for roots, that are tried */

typedef struct goal {
    const hyp_pat *pat, *inside; /* `inside`: the e-node pattern that it is a child of, NULL for a root */
    uint32_t c;
} goal;

typedef struct miss {
    hyp_near_kind kind;
    const hyp_pat *premise;
    uint32_t matched, root, at, other;
    uint32_t *match; /* as it was */
} miss;

/* The classes that a root without a known one is tried in. */
typedef struct places {
    uint32_t *classes;
    size_t count;
} places;

typedef struct search {
    hyp_egraph *eg;
    hyp_ruleset *rules;
    uint32_t index;
    const hyp_rule *rule;
    const uint8_t *focus; /* by class; NULL: all of them */
    size_t limit, budget;
    uint32_t words, roots; /* of a match; roots that have been begun */
    uint32_t *match;       /* registers, HYP_NONE where nothing is bound; then rows */
    places *places;        /* by root; classes NULL: not looked for yet */
    HYP_VEC(goal) goals;
    HYP_VEC(uint32_t) found; /* matches, `words` each */
    uint32_t root, matched, touched; /* of the match under way; e-nodes of it, and those in a class of the focus */
    bool part;                       /* a part of a left side is looked for, on its own */
    bool whole;                      /* it was found */
    miss best;                       /* match NULL: none yet */
    hyp_arena arena;
    hyp_diag *diag;
} search;

/* ---- the search --------------------------------------------------------------------------------- */

static void note_miss(search *s, hyp_near_kind kind, const hyp_pat *premise, uint32_t at, uint32_t other)
{
    if (s->part || (s->focus && !s->touched && !s->focus[at])) return;
    if (s->best.match && s->matched <= s->best.matched) return;
    uint32_t *copy = s->best.match ? s->best.match : hyp_arena_alloc(&s->arena, s->words * sizeof *copy);
    if (!copy) return; /* a worse answer, no wrong one */
    memcpy(copy, s->match, s->words * sizeof *copy);
    s->best = (miss){kind, premise, s->matched, s->root, at, other, copy};
}

static hyp_status note_match(search *s)
{
    s->whole = true;
    if (s->part || (s->focus && !s->touched) || s->found.len >= s->limit * s->words) return HYP_OK;
    HYP_TRY(hyp_vec_reserve(&s->found, s->found.len + s->words, s->diag));
    memcpy(s->found.data + s->found.len, s->match, s->words * sizeof *s->match);
    s->found.len += s->words;
    if (s->found.len >= s->limit * s->words) s->budget = 0; /* nothing that is found from here on is told */
    return HYP_OK;
}

static hyp_status meet(search *s, size_t i);

static hyp_status push_goal(search *s, const hyp_pat *pat, const hyp_pat *inside, uint32_t c)
{
    return hyp_vec_push(&s->goals, s->diag, (goal){pat, inside, c});
}

static hyp_status try_node(search *s, size_t i, const hyp_pat *pat, hyp_enode_id node, uint32_t c)
{
    size_t n, before = s->goals.len;
    const hyp_class_id *kids = hyp_enode_children(s->eg, node, &n);
    uint32_t *row = &s->match[s->rule->reg_count + pat->index], counts = pat->count > 0;
    for (uint32_t j = 0; j < pat->count; j++)
        if (pat->kids[j].kind != HYP_PAT_SEQ)
            HYP_TRY(push_goal(s, &pat->kids[j], pat,
                              hyp_egraph_find(s->eg, kids[hyp_pat_place(pat, j, (uint32_t)n)])));
    *row = node;
    s->matched += counts; /* a literal is no progress of its own */
    s->touched += s->focus && s->focus[c];
    HYP_TRY(meet(s, i + 1));
    s->touched -= s->focus && s->focus[c];
    s->matched -= counts;
    *row = HYP_NONE;
    s->goals.len = before;
    return HYP_OK;
}

/* Binds a register for the rest of the search, or compares. */
static hyp_status try_class(search *s, size_t i, goal g)
{
    uint32_t *reg = &s->match[g.pat->reg];
    bool bound = *reg != HYP_NONE;
    if (bound && *reg != g.c) {
        note_miss(s, HYP_NEAR_VARIABLE, g.pat, g.c, *reg);
        return HYP_OK;
    }
    *reg = g.c;
    hyp_status status = HYP_OK;
    if (g.pat->kind == HYP_PAT_VAR) {
        status = meet(s, i + 1);
    } else {
        size_t count, fitting = 0;
        const hyp_enode_id *nodes = hyp_egraph_class_nodes(s->eg, g.c, &count);
        if (!nodes) return hyp_fail_memory(s->diag, 0);
        for (size_t k = 0; k < count && status == HYP_OK && s->budget; k++) {
            if (!hyp_pat_fits(s->eg, g.pat, s->eg->rows[nodes[k]].op)) continue;
            s->budget--;
            fitting++;
            status = try_node(s, i, g.pat, nodes[k], g.c);
        }
        /* Of a literal, what is wanted is the e-node that has it. */
        bool literal = g.pat->count == 0 && g.inside;
        if (!fitting) note_miss(s, HYP_NEAR_OPERATOR, literal ? g.inside : g.pat, g.c, HYP_NONE);
    }
    if (!bound) *reg = HYP_NONE;
    return status;
}

/* By class: whether a pattern can begin there. */
static hyp_status find_fitting(search *s, const hyp_pat *pat, bool **out)
{
    const hyp_egraph *eg = s->eg;
    bool *fits = *out = hyp_arena_zalloc(&s->arena, eg->row_count + 1, sizeof *fits);
    if (!fits) return hyp_fail_memory(s->diag, eg->row_count);
    if (pat->kind == HYP_PAT_VAR) memset(fits, true, eg->row_count);
    for (uint32_t row = 0; row < eg->row_count && pat->kind != HYP_PAT_VAR; row++)
        if (!hyp_row_dead(eg, row) && hyp_pat_fits(eg, pat, eg->rows[row].op)) fits[eg->rows[row].home] = true;
    return HYP_OK;
}

/* Where a root can begin, and where it is told that it cannot: in the first class that does not fit, and in those of the
 * focus. In other classes it need not be tried for each match of the roots before it. */
static hyp_status find_places(search *s, const hyp_pat *pat, places *p)
{
    bool told = false, *fits;
    p->classes = hyp_arena_alloc(&s->arena, (s->eg->row_count + 1) * sizeof *p->classes);
    if (!p->classes) return hyp_fail_memory(s->diag, s->eg->row_count * sizeof *p->classes);
    HYP_TRY(find_fitting(s, pat, &fits));
    for (uint32_t c = 0; c < s->eg->row_count; c++) {
        if (hyp_eg_find(s->eg, c) != c) continue;
        if (fits[c] || !told || (s->focus && s->focus[c])) p->classes[p->count++] = c;
        told |= !fits[c];
    }
    return HYP_OK;
}

/* The next root of a multi-pattern: its class is known, or it may be any. */
static hyp_status next_root(search *s)
{
    const hyp_pat *pat = &s->rule->left[s->roots];
    uint32_t known = s->match[pat->reg];
    places one = {&known, 1}, *p = known == HYP_NONE ? &s->places[s->roots] : &one;
    size_t at = s->goals.len;
    if (!p->classes) HYP_TRY(find_places(s, pat, p));
    s->roots++;
    HYP_TRY(push_goal(s, pat, NULL, known));
    for (size_t i = 0; i < p->count && s->budget; i++) {
        s->budget--;
        s->goals.data[at].c = p->classes[i];
        if (at == 0) s->root = p->classes[i];
        HYP_TRY(meet(s, at));
    }
    s->goals.len = at;
    s->roots--;
    return HYP_OK;
}

/* Meets goal i and all after it in every way. */
static hyp_status meet(search *s, size_t i)
{
    if (i < s->goals.len) return try_class(s, i, s->goals.data[i]);
    if (!s->part && s->roots < s->rule->left_count) return next_root(s);
    return note_match(s);
}

/* A part of the left side that is there in the focus, though nothing around it is: what uses it is something else. */
static hyp_status find_users(search *s, const hyp_pat *pat)
{
    for (uint32_t j = 0; j < pat->count; j++) {
        const hyp_pat *kid = &pat->kids[j];
        if (kid->kind != HYP_PAT_NODE || kid->ground) continue;
        for (uint32_t c = 0; c < s->eg->row_count && s->budget; c++) {
            if (!s->focus[c] || hyp_egraph_find(s->eg, c) != c) continue;
            s->part = true;
            s->whole = false;
            s->goals.len = 0;
            hyp_status status = push_goal(s, kid, pat, c);
            if (status == HYP_OK) status = meet(s, 0);
            s->part = false;
            HYP_TRY(status);
            if (!s->whole) continue;
            s->touched = s->matched = 1;
            note_miss(s, HYP_NEAR_USER, pat, c, HYP_NONE);
            s->touched = s->matched = 0;
        }
        HYP_TRY(find_users(s, kid));
    }
    return HYP_OK;
}

/* ---- text --------------------------------------------------------------------------------------- */

static void write_pat(hyp_strbuf *sb, const search *s, const hyp_pat *pat)
{
    if (pat->kind == HYP_PAT_VAR || pat->kind == HYP_PAT_SEQ) {
        const char *name = "?...";
        for (uint32_t i = 0; pat->kind == HYP_PAT_VAR && i < s->rule->variable_count; i++)
            if (s->rule->variables[i].reg == pat->reg) name = s->rule->variables[i].name;
        hyp_strbuf_puts(sb, name);
        return;
    }
    bool is_call = pat->kind == HYP_PAT_CALL;
    if (pat->count || is_call) hyp_strbuf_puts(sb, "(");
    hyp_sexpr_print_symbol(sb, is_call ? s->eg->callback_names.names.data[pat->callback]
                                : hyp_egraph_symbol_name(s->eg, pat->symbol));
    for (uint32_t j = 0; j < pat->count; j++) {
        hyp_strbuf_puts(sb, " ");
        write_pat(sb, s, &pat->kids[j]);
    }
    if (pat->count || is_call) hyp_strbuf_puts(sb, ")");
}

static void write_cond(hyp_strbuf *sb, const search *s, const hyp_cond *cond)
{
    static const char *const words[] = {
        [HYP_COND_AND] = "and", [HYP_COND_OR] = "or", [HYP_COND_NOT] = "not"};
    bool is_call = cond->kind == HYP_COND_CALL;
    hyp_strbuf_printf(sb, "(%s", is_call ? s->eg->callback_names.names.data[cond->callback] : words[cond->kind]);
    for (uint32_t i = 0; i < cond->count; i++) {
        hyp_strbuf_puts(sb, " ");
        if (is_call)
            write_pat(sb, s, &cond->args[i]);
        else
            write_cond(sb, s, &cond->kids[i]);
    }
    hyp_strbuf_puts(sb, ")");
}

/* ---- the answers -------------------------------------------------------------------------------- */

typedef struct answer {
    search *s;
    hyp_near_fn fn;
    void *user;
} answer;

static hyp_status tell(const answer *a, hyp_near_miss near, const uint32_t *match, const hyp_pat *pat,
                       const hyp_cond *cond)
{
    search *s = a->s;
    const hyp_rule *rule = s->rule;
    hyp_strbuf sb = {0};
    hyp_near_variable *variables = hyp_arena_alloc(&s->arena, (rule->variable_count + 1) * sizeof *variables);
    if (!variables) return hyp_fail_memory(s->diag, rule->variable_count * sizeof *variables);
    for (uint32_t i = 0; i < rule->variable_count; i++) {
        uint32_t c = match[rule->variables[i].reg];
        if (c == HYP_NONE) continue;
        variables[near.variable_count++] =
            (hyp_near_variable){rule->variables[i].name, hyp_egraph_find(s->eg, c)};
    }
    near.variables = variables;
    if (cond) write_cond(&sb, s, cond);
    if (pat) write_pat(&sb, s, pat);
    near.premise = hyp_strbuf_text(&sb);
    const char *outer = hyp_eg_begin_reading(s->eg, "the search for near misses");
    hyp_status status = sb.failed ? hyp_fail_memory(s->diag, sb.len) : a->fn(&near, a->user, s->diag);
    hyp_eg_end_reading(s->eg, outer);
    hyp_strbuf_dispose(&sb);
    return status;
}

/* Asks the rule that collects about all parts with the keys of this one. *out_alone: there is no other. */
static hyp_status probe_together(search *s, const uint32_t *match, hyp_probe *probe, bool *out_alone, hyp_diag *diag)
{
    hyp_parts_found parts = {0};
    uint32_t root = hyp_egraph_find(s->eg, match[s->rule->left[0].reg]), width = 1;
    *out_alone = true;
    hyp_status status = hyp_collect_all(s->rules, s->index, &parts, diag);
    while (status == HYP_OK && width && *out_alone) {
        status = hyp_collect_next(s->rule, &parts, &width, diag);
        if (status == HYP_OK && width) status = hyp_rule_instance(s->rules, s->index, width, diag);
        for (uint32_t i = 0; status == HYP_OK && i < width && *out_alone; i++) {
            uint32_t index = s->index | width << HYP_RULE_WIDTH;
            uint32_t reg = hyp_rule_applied(s->rules, index)->left[i].reg;
            if (hyp_egraph_find(s->eg, parts.match.data[reg]) != root) continue;
            *out_alone = false;
            status = hyp_apply_probe(s->rules, index, parts.match.data, i, probe, diag);
        }
    }
    hyp_collect_dispose(&parts);
    return status;
}

/* A whole match: the rest of the rule is asked. */
static hyp_status try_match(const answer *a, const uint32_t *match)
{
    search *s = a->s;
    hyp_probe probe;
    hyp_diag said = {0};
    bool alone = false;
    hyp_status status = hyp_apply_probe(s->rules, s->index, match, 0, &probe, &said);
    if (status == HYP_OK && s->rule->collecting && !probe.refused && !probe.failed && !probe.declined)
        status = probe_together(s, match, &probe, &alone, &said);
    if (status != HYP_OK) return hyp_fail(s->diag, status, "%s", said.message);
    hyp_class_id root = hyp_egraph_find(s->eg, match[s->rule->left[0].reg]);
    hyp_near_miss near = {.kind = HYP_NEAR_APPLIES, .matched = s->rule->left_nodes, .root = root, .at = root,
                          .other = HYP_NONE, .right = HYP_NONE, .reason = ""};
    if (probe.refused) {
        near.kind = HYP_NEAR_REFUSED;
        near.reason = said.message;
        return tell(a, near, match, NULL, NULL);
    }
    if (probe.failed) {
        near.kind = HYP_NEAR_CONDITION;
    } else if (probe.declined) {
        near.kind = HYP_NEAR_FUNCTION;
    } else if (alone) {
        near.kind = HYP_NEAR_ALONE;
    } else {
        near.right = probe.right;
        if (hyp_egraph_find(s->eg, probe.left) != hyp_egraph_find(s->eg, probe.right)) near.kind = HYP_NEAR_PENDING;
    }
    return tell(a, near, match, probe.declined, probe.failed);
}

static hyp_status answer_all(const answer *a)
{
    search *s = a->s;
    for (size_t i = 0; i < s->found.len; i += s->words) HYP_TRY(try_match(a, s->found.data + i));
    if (s->found.len || !s->best.match) return HYP_OK;
    const miss *m = &s->best;
    hyp_near_miss near = {.kind = m->kind, .matched = m->matched, .root = m->root, .at = m->at, .other = m->other,
                          .right = HYP_NONE, .reason = ""};
    if (m->kind == HYP_NEAR_USER) near.root = HYP_NONE;
    return tell(a, near, m->match, m->premise, NULL);
}

static hyp_status run(search *s, const hyp_class_id *focus, size_t focus_count)
{
    s->match = hyp_arena_alloc(&s->arena, s->words * sizeof *s->match);
    if (!s->match) return hyp_fail_memory(s->diag, s->words * sizeof *s->match);
    memset(s->match, 0xff, s->words * sizeof *s->match); /* HYP_NONE */
    s->places = hyp_arena_zalloc(&s->arena, s->rule->left_count, sizeof *s->places);
    if (!s->places) return hyp_fail_memory(s->diag, s->rule->left_count * sizeof *s->places);
    if (focus_count) {
        uint8_t *marks = hyp_arena_zalloc(&s->arena, s->eg->row_count, 1);
        if (!marks) return hyp_fail_memory(s->diag, s->eg->row_count);
        for (size_t i = 0; i < focus_count; i++) {
            uint32_t c = hyp_egraph_find(s->eg, focus[i]);
            if (c == HYP_NONE)
                return hyp_fail(s->diag, HYP_ERR_INVALID_ARGUMENT, "%u is no e-class of this e-graph", focus[i]);
            marks[c] = 1;
        }
        s->focus = marks;
    }
    HYP_TRY(meet(s, 0));
    for (uint32_t i = 0; s->focus && !s->found.len && i < s->rule->left_count; i++)
        HYP_TRY(find_users(s, &s->rule->left[i]));
    return HYP_OK;
}

hyp_status hyp_ruleset_near_misses(hyp_ruleset *rules, size_t rule, const hyp_class_id *focus, size_t focus_count,
                                   size_t limit, hyp_near_fn fn, void *user, hyp_diag *diag)
{
    HYP_NEED(rules);
    HYP_NEED_LIST(focus, focus_count);
    HYP_NEED(fn);
    if (rule >= rules->rules.len)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "rule %zu of %zu", rule, rules->rules.len);
    if (!hyp_eg_readable(rules->eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before it is searched");
    const hyp_rule *r = &rules->rules.data[rule];
    search s = {.eg = rules->eg,
                .rules = rules,
                .index = (uint32_t)rule,
                .rule = r,
                .limit = limit,
                .budget = BUDGET,
                .words = r->reg_count + r->left_nodes,
                .root = HYP_NONE,
                .diag = diag};
    answer a = {&s, fn, user};
    HYP_TRY(hyp_eg_may_rebuild(s.eg, "the search for near misses", diag));
    s.eg->running++; /* conditions and functions may not begin a saturation, or destroy it */
    hyp_status status = run(&s, focus, focus_count);
    if (status == HYP_OK) status = answer_all(&a);
    s.eg->running--;
    if (status == HYP_OK) status = hyp_eg_rebuild(s.eg, diag);
    hyp_vec_free(&s.goals);
    hyp_vec_free(&s.found);
    hyp_arena_dispose(&s.arena);
    return status;
}
