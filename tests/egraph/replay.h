/* Judges of the engine that know only the rules as text: one replays a proof step by step on terms, one
 * searches a saturated e-graph through the public calls for a match that was missed. Neither knows
 * conditions or functions. */
#ifndef TESTS_EGRAPH_REPLAY_H
#define TESTS_EGRAPH_REPLAY_H

#include "base/sexpr.h"
#include "support.h"

typedef struct replay {
    hyp_arena arena;
    const hyp_sexpr *rules; /* forms of a rule file */
} replay;

static inline const hyp_sexpr *replay_read(replay *r, const char *text)
{
    const hyp_sexpr *forms;
    must(hyp_sexpr_parse(&r->arena, "replay", text, strlen(text), &forms, &diag));
    return forms;
}

static inline replay replay_open(const char *rules)
{
    replay r = {0};
    r.rules = replay_read(&r, rules);
    return r;
}

static inline void replay_close(replay *r) { hyp_arena_dispose(&r->arena); }

/* Both sides of the rule named so, already swapped for the reverse of a birule. */
static inline bool replay_rule(const replay *r, const char *name, const hyp_sexpr **left, const hyp_sexpr **right)
{
    for (uint32_t i = 0; i < r->rules->count; i++) {
        const hyp_sexpr *form = r->rules->items[i];
        size_t len = strlen(form->items[1]->text);
        bool reverse = hyp_sexpr_is(form->items[0], "birule") && !strncmp(name, form->items[1]->text, len) &&
                       !strcmp(name + len, "-rev");
        if (!reverse && strcmp(name, form->items[1]->text)) continue;
        for (uint32_t j = 2; j < form->count; j++)
            if (hyp_sexpr_is(form->items[j], "=>") || hyp_sexpr_is(form->items[j], "<=>")) {
                *left = form->items[reverse ? j + 1 : j - 1];
                *right = form->items[reverse ? j - 1 : j + 1];
                return true;
            }
    }
    return false;
}

static inline bool same_term(const hyp_sexpr *a, const hyp_sexpr *b)
{
    if ((a->kind == HYP_SX_LIST) != (b->kind == HYP_SX_LIST)) return false;
    if (a->kind != HYP_SX_LIST) return strcmp(a->text, b->text) == 0;
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!same_term(a->items[i], b->items[i])) return false;
    return true;
}

/* Variables and what they stand for: `count` terms of a list. */
typedef struct binding {
    const char *name;
    hyp_sexpr *const *terms;
    uint32_t count;
} binding;
typedef struct bindings {
    binding all[32];
    uint32_t count;
} bindings;

static inline bool bind_terms(bindings *b, const char *name, hyp_sexpr *const *terms, uint32_t count)
{
    for (uint32_t i = 0; i < b->count; i++) {
        if (strcmp(b->all[i].name, name)) continue;
        if (b->all[i].count != count) return false;
        for (uint32_t j = 0; j < count; j++)
            if (!same_term(b->all[i].terms[j], terms[j])) return false;
        return true;
    }
    b->all[b->count++] = (binding){name, terms, count};
    return true;
}

static inline bool is_var(const hyp_sexpr *sx) { return sx->kind == HYP_SX_SYMBOL && sx->text[0] == '?'; }
static inline bool is_seq(const hyp_sexpr *sx) { return is_var(sx) && strstr(sx->text, "..."); }

static inline bool match_term(const hyp_sexpr *pat, hyp_sexpr *const *t, bindings *b)
{
    if (is_var(pat)) return bind_terms(b, pat->text, t, 1);
    if (pat->kind != HYP_SX_LIST || (*t)->kind != HYP_SX_LIST) return same_term(pat, *t);
    uint32_t i = 0, at = 0;
    for (; i < pat->count; i++) {
        uint32_t rest = pat->count - i - 1;
        if (is_seq(pat->items[i])) {
            uint32_t n = (*t)->count < at + rest ? 0 : (*t)->count - at - rest;
            for (uint32_t k = 0; k < b->count; k++) /* on the other side of the rule its length is known */
                if (!strcmp(b->all[k].name, pat->items[i]->text)) n = b->all[k].count;
            if (n > (*t)->count - at) return false;
            if (!bind_terms(b, pat->items[i]->text, (*t)->items + at, n)) return false;
            at += n;
        } else {
            if (at >= (*t)->count || !match_term(pat->items[i], (*t)->items + at, b)) return false;
            at++;
        }
    }
    return at == (*t)->count;
}

static inline bool rewrites_at_root(const hyp_sexpr *left, const hyp_sexpr *right, hyp_sexpr *const *from,
                                    hyp_sexpr *const *to)
{
    bindings b = {.count = 0};
    return match_term(left, from, &b) && match_term(right, to, &b);
}

/* Whether one use of the rule, at one place, leads from one term to the other. */
static inline bool one_step(const hyp_sexpr *left, const hyp_sexpr *right, hyp_sexpr *const *from, hyp_sexpr *const *to)
{
    if (rewrites_at_root(left, right, from, to)) return true;
    if ((*from)->kind != HYP_SX_LIST || (*to)->kind != HYP_SX_LIST || (*from)->count != (*to)->count) return false;
    uint32_t place = 0, differing = 0;
    for (uint32_t i = 0; i < (*from)->count; i++)
        if (!same_term((*from)->items[i], (*to)->items[i])) place = i, differing++;
    return differing == 1 && one_step(left, right, (*from)->items + place, (*to)->items + place);
}

/* Fails the test unless every step of a proof from a to b follows from a rule or from one of the given
 * equalities, written (= x y) in `givens`. */
static inline void check_proof(replay *r, const char *givens, const hyp_proof *proof, const char *a, const char *b)
{
    const hyp_sexpr *given = replay_read(r, givens);
    assert_true(proof->count >= 1);
    assert_true(same_term(replay_read(r, a), replay_read(r, proof->steps[0].term)));
    assert_true(same_term(replay_read(r, b), replay_read(r, proof->steps[proof->count - 1].term)));
    for (size_t i = 1; i < proof->count; i++) {
        const hyp_proof_step *step = &proof->steps[i];
        const char *first = proof->steps[i - (step->forward ? 1 : 0)].term;
        const char *second = proof->steps[i - (step->forward ? 0 : 1)].term;
        const hyp_sexpr *from = replay_read(r, first), *to = replay_read(r, second), *left = NULL, *right = NULL;
        bool ok = false;
        if (replay_rule(r, step->rule, &left, &right)) ok = one_step(left, right, from->items, to->items);
        for (uint32_t g = 0; g < given->count && !ok; g++)
            ok = strcmp(step->rule, "given") == 0 &&
                 one_step(given->items[g]->items[1], given->items[g]->items[2], from->items, to->items);
        if (!ok)
            fail_msg("step %zu, %s %s, does not follow:\n  %s\n  %s", i, step->rule,
                     step->forward ? "forward" : "backward", proof->steps[i - 1].term, step->term);
    }
}

/* ---- a naive matcher on e-graphs ------------------------------------------------------------------ */

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
static inline size_t missed_matches(replay *r, hyp_egraph *eg, size_t *out_matches)
{
    missed m = {.eg = eg};
    for (uint32_t i = 0; i < r->rules->count; i++) {
        const hyp_sexpr *left = NULL, *right = NULL;
        assert_true(replay_rule(r, r->rules->items[i]->items[1]->text, &left, &right));
        m.right = right;
        for (hyp_class_id c = 0; c < hyp_egraph_class_bound(eg); c++) {
            if (hyp_egraph_find(eg, c) != c) continue;
            m.root = c;
            naive_match(&m, &(subgoal){left, c, NULL}, (env){.count = 0});
        }
    }
    *out_matches = m.matches;
    return m.missing;
}

#endif
