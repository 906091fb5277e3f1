/* A judge of the engine that knows only the rules as text: it searches a saturated e-graph through the public calls for
 * a match that was missed. It knows no conditions or functions. */
#ifndef TESTS_EGRAPH_NAIVE_MATCH_H
#define TESTS_EGRAPH_NAIVE_MATCH_H

#include "base/sexpr.h"
#include "support.h"

/* Both sides of a rule. */
static inline void rule_sides(const hyp_sexpr *form, const hyp_sexpr **left, const hyp_sexpr **right)
{
    for (uint32_t j = 2; j < form->count; j++) {
        if (!hyp_sexpr_is(form->items[j], "=>")) continue;
        *left = form->items[j - 1];
        *right = form->items[j + 1];
        return;
    }
    fail_msg("a rule without =>");
}

static inline bool is_var(const hyp_sexpr *sx) { return sx->kind == HYP_SX_SYMBOL && sx->text[0] == '?'; }
typedef struct env {
    const char *names[32];
    hyp_class_id classes[32];
    uint32_t count;
} env;

typedef struct missed {
    hyp_egraph *eg;
    const hyp_sexpr *right;
    hyp_class_id root;
    size_t matches, missing;
} missed;

/* A list of (pattern, class) still to be matched. */
typedef struct subgoal {
    const hyp_sexpr *pat;
    hyp_class_id class;
    const struct subgoal *next;
} subgoal;

static inline hyp_class_id class_of_instance(missed *m, const hyp_sexpr *pat, const env *e)
{
    if (is_var(pat)) {
        for (uint32_t i = 0; i < e->count; i++)
            if (!strcmp(e->names[i], pat->text)) return e->classes[i];
        return HYP_NONE;
    }
    hyp_class_id kids[16];
    uint32_t n = pat->kind == HYP_SX_LIST ? pat->count - 1 : 0;
    for (uint32_t i = 0; i < n; i++)
        if ((kids[i] = class_of_instance(m, pat->items[i + 1], e)) == HYP_NONE) return HYP_NONE;
    hyp_symbol symbol;
    must(hyp_egraph_symbol(m->eg, pat->kind == HYP_SX_LIST ? pat->items[0]->text : pat->text, &symbol, &diag));
    return hyp_egraph_lookup(m->eg, symbol, kids, n);
}

static inline void naive_match(missed *m, const subgoal *goals, env e)
{
    if (!goals) {
        m->matches++;
        m->missing += class_of_instance(m, m->right, &e) != m->root;
        return;
    }
    const hyp_sexpr *pat = goals->pat;
    if (is_var(pat)) {
        for (uint32_t i = 0; i < e.count; i++)
            if (!strcmp(e.names[i], pat->text)) {
                if (e.classes[i] == goals->class) naive_match(m, goals->next, e);
                return;
            }
        e.names[e.count] = pat->text;
        e.classes[e.count++] = goals->class;
        naive_match(m, goals->next, e);
        return;
    }
    const char *name = pat->kind == HYP_SX_LIST ? pat->items[0]->text : pat->text;
    uint32_t arity = pat->kind == HYP_SX_LIST ? pat->count - 1 : 0;
    size_t count, n;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(m->eg, goals->class, &count);
    for (size_t i = 0; i < count; i++) {
        const hyp_class_id *kids = hyp_enode_children(m->eg, nodes[i], &n);
        if (n != arity || strcmp(hyp_egraph_symbol_name(m->eg, hyp_enode_op(m->eg, nodes[i])), name)) continue;
        subgoal below[16];
        const subgoal *next = goals->next;
        for (uint32_t j = arity; j-- > 0;) {
            below[j] = (subgoal){pat->items[j + 1], kids[j], next};
            next = &below[j];
        }
        naive_match(m, next, e);
    }
}

/* Matches of the rules whose right side is missing or elsewhere: 0 in a saturated e-graph. */
static inline size_t missed_matches(const char *rules, hyp_egraph *eg, size_t *out_matches)
{
    missed m = {.eg = eg};
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    must(hyp_sexpr_parse(&arena, "rules", rules, strlen(rules), &forms, &diag));
    for (uint32_t i = 0; i < forms->count; i++) {
        const hyp_sexpr *left = NULL;
        rule_sides(forms->items[i], &left, &m.right);
        for (hyp_class_id c = 0; c < hyp_egraph_class_bound(eg); c++) {
            if (hyp_egraph_find(eg, c) != c) continue;
            m.root = c;
            naive_match(&m, &(subgoal){left, c, NULL}, (env){.count = 0});
        }
    }
    hyp_arena_dispose(&arena);
    *out_matches = m.matches;
    return m.missing;
}

#endif
