/* check_proof.c - the judge of proofs: replays them on terms, from the patterns of the rules alone.
 *
 * It shares nothing with what makes proofs but the reading of rules. An e-graph is used only where conditions and
 * functions are asked again, which need one to be asked about. */
#include <string.h>

#include "base/sized.h"
#include "egraph/prove/checker.h"
#include "egraph/prove/explainer.h"
#include "egraph/prove/shared_proof.h"

typedef hyp_check_term term;
typedef hyp_checker checker;
typedef hyp_check_query query;

/* What a left-side pattern of a multi-pattern matched, and what its variable stands for. */
typedef struct part {
    term *variable, *instance;
} part;

/* What a step or lemma says that names a rule or a reason. */
typedef struct citation {
    const char *rule;
    bool stated;
    const query *queries;
    size_t query_count;
    const part *parts;
    size_t part_count;
} citation;

/* One try of a rule: what its variables, the e-nodes of its left side and its functions stand for. */
typedef struct attempt {
    checker *c;
    const hyp_egraph *eg; /* of the rule: the names of its symbols */
    const hyp_rule *rule;
    const citation *cited;
    term **variable, **left, **result;
    size_t query; /* the next one */
    bool ask;     /* and ask it again */
} attempt;

/* Where two terms differ in one child alone: its index; else HYP_NONE. */
static uint32_t differing_child(const term *a, const term *b)
{
    uint32_t place = HYP_NONE;
    if (a->count != b->count || a->op != b->op) return HYP_NONE;
    for (uint32_t j = 0; j < a->count; j++) {
        if (a->kids[j] == b->kids[j]) continue;
        if (place != HYP_NONE) return HYP_NONE;
        place = j;
    }
    return place;
}

/* ---- patterns ----------------------------------------------------------------------------------- */

static bool bind(attempt *t, uint32_t reg, term *what)
{
    if (t->variable[reg]) return t->variable[reg] == what;
    t->variable[reg] = what;
    return true;
}

static bool has_op(const attempt *t, const hyp_pat *pat, const term *what)
{
    return strcmp(hyp_egraph_symbol_name(t->eg, pat->symbol), what->op) == 0;
}

/* Matches a pattern of the left side. */
static bool match(attempt *t, const hyp_pat *pat, term *what)
{
    if (pat->kind == HYP_PAT_VAR) return bind(t, pat->reg, what);
    bool fits = pat->sequence == HYP_NONE ? what->count == pat->count : what->count + 1 >= pat->count;
    if (!fits || !has_op(t, pat, what)) return false;
    t->left[pat->index] = what;
    for (uint32_t j = 0; j < pat->count; j++) {
        if (pat->kids[j].kind == HYP_PAT_SEQ) continue;
        if (!match(t, &pat->kids[j], what->kids[hyp_pat_place(pat, j, what->count)])) return false;
    }
    return true;
}

static bool is_instance(const attempt *t, const hyp_pat *pat, const term *what);

/* Whether `what` are the instances of `kids` in a row; a sequence takes as many as it matched. */
static bool are_instances(const attempt *t, const hyp_pat *kids, uint32_t count, term *const *what, uint32_t what_count)
{
    uint32_t at = 0;
    for (uint32_t j = 0; j < count; j++) {
        const hyp_pat *kid = &kids[j];
        if (kid->kind != HYP_PAT_SEQ) {
            if (at == what_count || !is_instance(t, kid, what[at++])) return false;
            continue;
        }
        const term *from = t->left[kid->index];
        for (uint32_t i = kid->before; i + kid->after < from->count; i++)
            if (at == what_count || from->kids[i] != what[at++]) return false;
    }
    return at == what_count;
}

/* Whether `what` is the instance of a term of the right side or the condition. */
static bool is_instance(const attempt *t, const hyp_pat *pat, const term *what)
{
    if (pat->kind == HYP_PAT_VAR) return t->variable[pat->reg] == what;
    if (pat->kind == HYP_PAT_CALL) return t->result[pat->index] == what;
    return has_op(t, pat, what) && are_instances(t, pat->kids, pat->count, what->kids, what->count);
}

/* ---- conditions and functions --------------------------------------------------------------------- */

/* Takes the next query if it is of this callback. */
static const query *next_query(attempt *t, uint32_t callback)
{
    const query *q = t->query < t->cited->query_count ? &t->cited->queries[t->query] : NULL;
    if (!q || strcmp(q->name, t->eg->callback_names.names.data[callback]) != 0) return NULL;
    t->query++;
    return q;
}

/* The arguments of a query must be the instances of `args`. */
static hyp_status check_args(attempt *t, const query *q, const hyp_pat *args, uint32_t count)
{
    if (are_instances(t, args, count, q->args, (uint32_t)q->arg_count)) return HYP_OK;
    return hyp_refuse(t->c, "%s was asked about other terms than the rule asks about here", q->name);
}

/* The functions in a term, those among arguments first. *out_whole: each of them gave a term. */
static hyp_status check_calls(attempt *t, const hyp_pat *pat, bool *out_whole)
{
    for (uint32_t j = 0; j < pat->count; j++) HYP_TRY(check_calls(t, &pat->kids[j], out_whole));
    if (pat->kind != HYP_PAT_CALL || !*out_whole) return HYP_OK;
    const query *q = next_query(t, pat->callback);
    *out_whole = q != NULL;
    if (!q) return HYP_OK;
    if (q->answer != HYP_ANSWER_TERM || !q->result) return hyp_refuse(t->c, "the function %s gave no term", q->name);
    HYP_TRY(check_args(t, q, pat->kids, pat->count));
    t->result[pat->index] = q->result;
    return t->ask ? hyp_check_ask(t->c, &t->eg->callbacks.data[pat->callback], q) : HYP_OK;
}

static hyp_status check_condition(attempt *t, const hyp_cond *cond, bool *out)
{
    if (cond->kind != HYP_COND_CALL) {
        bool is_or = cond->kind == HYP_COND_OR, one = !is_or;
        for (uint32_t i = 0; i < cond->count; i++) {
            HYP_TRY(check_condition(t, &cond->kids[i], &one));
            if (one == is_or) break;
        }
        *out = cond->kind == HYP_COND_NOT ? !one : one;
        return HYP_OK;
    }
    bool whole = true;
    for (uint32_t j = 0; j < cond->count; j++) HYP_TRY(check_calls(t, &cond->args[j], &whole));
    const query *q = next_query(t, cond->callback);
    const char *name = t->eg->callback_names.names.data[cond->callback];
    if (!q) return hyp_refuse(t->c, "it is not recorded what the condition %s answered", name);
    if (q->answer == HYP_ANSWER_TERM) return hyp_refuse(t->c, "%s is a condition and gives no term", name);
    *out = q->answer == HYP_ANSWER_YES;
    if (!whole)
        return q->answer == HYP_ANSWER_ABSENT ? HYP_OK : hyp_refuse(t->c, "%s was asked without all its arguments", name);
    HYP_TRY(check_args(t, q, cond->args, cond->count));
    if (!t->ask || q->answer == HYP_ANSWER_ABSENT) return HYP_OK;
    return hyp_check_ask(t->c, &t->eg->callbacks.data[cond->callback], q);
}

static hyp_status check_queries(attempt *t, const hyp_action *action)
{
    bool holds = true, whole = true;
    t->query = 0;
    if (t->rule->cond) HYP_TRY(check_condition(t, t->rule->cond, &holds));
    if (!holds) return hyp_refuse(t->c, "by the answers recorded, the condition of the rule does not hold");
    if (!action->root) HYP_TRY(check_calls(t, &action->left, &whole));
    HYP_TRY(check_calls(t, &action->right, &whole));
    if (!whole) return hyp_refuse(t->c, "it is not recorded what a function of the rule gave");
    if (t->query < t->cited->query_count)
        return hyp_refuse(t->c, "%s was asked, which the rule does not ask here", t->cited->queries[t->query].name);
    return HYP_OK;
}

/* ---- steps -------------------------------------------------------------------------------------- */

static bool match_left(attempt *t, const part *parts, term *before)
{
    if (!t->rule->multi) return match(t, &t->rule->left[0], before);
    for (uint32_t i = 0; i < t->rule->left_count; i++)
        if (!match(t, &t->rule->left[i], parts[i].instance) || !bind(t, t->rule->left[i].reg, parts[i].variable))
            return false;
    return true;
}

/* Whether a rule's action leads from one term to another: HYP_ERR_MISMATCH if not, which says why where more than the
 * terms is at fault. */
static hyp_status check_action(checker *c, const hyp_ruleset *rules, const hyp_rule *rule, const hyp_action *action,
                               const citation *cited, term *before, term *after)
{
    attempt t = {.c = c, .eg = rules->eg, .rule = rule, .cited = cited};
    t.variable = hyp_arena_zalloc(&c->arena, rule->reg_count, sizeof *t.variable);
    t.left = hyp_arena_zalloc(&c->arena, rule->left_nodes, sizeof *t.left);
    t.result = hyp_arena_zalloc(&c->arena, rule->right_nodes, sizeof *t.result);
    if (!t.variable || !t.left || !t.result) return hyp_fail_memory(c->diag, rule->reg_count * sizeof *t.variable);
    if (!match_left(&t, cited->parts, before)) return HYP_ERR_MISMATCH;
    if (action->root && t.left[action->root->index] != before) return HYP_ERR_MISMATCH;
    HYP_TRY(check_queries(&t, action));
    if (!action->root && !is_instance(&t, &action->left, before)) return HYP_ERR_MISMATCH;
    if (!is_instance(&t, &action->right, after)) return HYP_ERR_MISMATCH;
    t.ask = c->options.ask;
    return t.ask ? check_queries(&t, action) : HYP_OK;
}

/* Whether one use of a rule turns `left` into `right` (what a reversed step has the other way round), at one place of
 * them; `deep` false: as a whole. */
static hyp_status check_places(checker *c, const hyp_ruleset *rules, const hyp_rule *rule, const citation *cited, term *left,
                               term *right, bool deep)
{
    for (;;) {
        for (uint32_t i = 0; i < rule->action_count; i++) {
            hyp_status status = check_action(c, rules, rule, &rule->actions[i], cited, left, right);
            if (status != HYP_ERR_MISMATCH) return status;
        }
        uint32_t place = deep ? differing_child(left, right) : HYP_NONE;
        if (place == HYP_NONE) return HYP_ERR_MISMATCH;
        left = left->kids[place];
        right = right->kids[place];
    }
}

static hyp_status check_rule(checker *c, const citation *cited, term *left, term *right, bool deep)
{
    bool known = false;
    hyp_status status = hyp_refuse(c, "one use of this rule at one place does not lead from the term before to this one");
    hyp_diag why = {0}, *said = c->diag;
    for (size_t s = 0; s < c->ruleset_count; s++) {
        const hyp_ruleset *rules = c->rulesets[s];
        for (size_t i = 0; i < rules->rules.len && status == HYP_ERR_MISMATCH; i++) {
            const hyp_rule *rule = &rules->rules.data[i];
            if (strcmp(rule->info.name, cited->rule) != 0) continue;
            if (rule->collecting && cited->part_count > 1 && cited->part_count <= HYP_WIDEST) {
                HYP_TRY(hyp_rule_instance(c->rulesets[s], (uint32_t)i, (uint32_t)cited->part_count, said));
                rule = rule->collecting->instances[cited->part_count];
            }
            known = true;
            c->diag = &why;
            why.message[0] = 0;
            uint32_t parts = rule->multi ? rule->left_count : 0;
            status = cited->part_count == parts
                         ? check_places(c, rules, rule, cited, left, right, deep)
                         : hyp_refuse(c, "%zu parts are proven, the rule has %u", cited->part_count, parts);
            c->diag = said;
            if (status != HYP_OK && why.message[0]) status = hyp_fail(said, status, "%s", why.message);
        }
    }
    return known ? status : hyp_refuse(c, "there is no rule of this name");
}

/* A union by the caller or an analysis. */
static hyp_status check_stated(checker *c, term *from, term *to, bool deep)
{
    if (!c->options.given) return HYP_OK;
    for (;;) {
        for (size_t i = 0; i < c->options.given_count; i++) {
            term *const *side = c->given[i].side;
            if ((side[0] == from && side[1] == to) || (side[1] == from && side[0] == to)) return HYP_OK;
        }
        bool equal = false;
        if (c->options.ask) HYP_TRY(hyp_check_analysis_says(c, from, to, &equal));
        if (equal) return HYP_OK;
        uint32_t place = deep ? differing_child(from, to) : HYP_NONE;
        if (place == HYP_NONE) return hyp_refuse(c, "this equality was not given");
        from = from->kids[place];
        to = to->kids[place];
    }
}

/* ---- lists of whole terms ------------------------------------------------------------------------ */

static hyp_status check_list(checker *c, const hyp_proof *proof, size_t *out_step, term **out_first, term **out_last);

static hyp_status read_queries(checker *c, const hyp_proof_step *step, citation *out)
{
    query *queries = hyp_arena_zalloc(&c->arena, step->query_count, sizeof *queries);
    if (!queries) return hyp_fail_memory(c->diag, step->query_count * sizeof *queries);
    for (size_t i = 0; i < step->query_count; i++) {
        const hyp_proof_query *q = &step->queries[i];
        term **args = hyp_arena_alloc(&c->arena, q->arg_count * sizeof *args);
        if (!args) return hyp_fail_memory(c->diag, q->arg_count * sizeof *args);
        for (size_t j = 0; j < q->arg_count; j++) HYP_TRY(hyp_check_read(c, q->args[j], &args[j]));
        queries[i] = (query){q->name, args, q->arg_count, q->answer, NULL};
        if (q->result) HYP_TRY(hyp_check_read(c, q->result, &queries[i].result));
    }
    out->queries = queries;
    out->query_count = step->query_count;
    return HYP_OK;
}

static hyp_status check_parts(checker *c, const hyp_proof_step *step, citation *out)
{
    part *parts = hyp_arena_zalloc(&c->arena, step->part_count, sizeof *parts);
    if (!parts) return hyp_fail_memory(c->diag, step->part_count * sizeof *parts);
    for (size_t i = 0; i < step->part_count; i++) {
        size_t at;
        hyp_status status = check_list(c, &step->parts[i], &at, &parts[i].variable, &parts[i].instance);
        if (status != HYP_OK) hyp_diag_prefix(c->diag, "part %zu", i + 1);
        HYP_TRY(status);
    }
    out->parts = parts;
    out->part_count = step->part_count;
    return HYP_OK;
}

static hyp_status check_step(checker *c, const hyp_proof_step *step, term *from, term *to)
{
    citation cited = {.rule = step->rule, .stated = step->stated};
    if (!step->rule) return hyp_refuse(c, "it names no rule");
    if (step->stated && (step->query_count || step->part_count))
        return hyp_refuse(c, "an equality that was stated asks nothing");
    HYP_TRY(read_queries(c, step, &cited));
    HYP_TRY(check_parts(c, step, &cited));
    HYP_TRY(step->stated    ? check_stated(c, from, to, true)
            : step->forward ? check_rule(c, &cited, from, to, true)
                            : check_rule(c, &cited, to, from, true));
    if (!c->options.ask) return HYP_OK;
    for (uint32_t place; (place = differing_child(from, to)) != HYP_NONE;) { /* the most is learnt from the least */
        from = from->kids[place];
        to = to->kids[place];
    }
    return hyp_check_learn(c, from, to);
}

static hyp_status check_list(checker *c, const hyp_proof *proof, size_t *out_step, term **out_first, term **out_last)
{
    *out_step = 0;
    if (proof->count == 0) return hyp_refuse(c, "a proof has at least one term");
    HYP_TRY(hyp_check_read(c, proof->steps[0].term, out_first));
    if (proof->steps[0].rule) return hyp_refuse(c, "step 0 is the first term and uses no rule");
    *out_last = *out_first;
    for (size_t i = 1; i < proof->count; i++) {
        const hyp_proof_step *step = &proof->steps[i];
        term *next;
        *out_step = i;
        hyp_status status = hyp_check_read(c, step->term, &next);
        if (status == HYP_OK) status = check_step(c, step, *out_last, next);
        if (status != HYP_OK)
            hyp_diag_prefix(c->diag, "step %zu, %s%s", i, step->forward ? "" : "reversed ",
                            step->rule ? step->rule : "");
        HYP_TRY(status);
        *out_last = next;
    }
    return HYP_OK;
}

/* ---- shared proofs ------------------------------------------------------------------------------- */

/* Those that were not read of an earlier proof. */
static hyp_status read_shared_terms(checker *c, const hyp_shared_proof *proof)
{
    HYP_TRY(hyp_vec_reserve(&c->read, proof->term_count, c->diag));
    for (size_t i = c->read.len; i < proof->term_count; i++) {
        const hyp_shared_term *t = &proof->terms[i];
        term **kids = hyp_arena_alloc(&c->arena, t->count * sizeof *kids);
        if (!kids) return hyp_fail_memory(c->diag, t->count * sizeof *kids);
        for (uint32_t j = 0; j < t->count; j++) kids[j] = c->read.data[t->kids[j]];
        HYP_TRY(hyp_check_make(c, t->op, kids, t->count, &c->read.data[i]));
        c->read.len = i + 1;
    }
    return HYP_OK;
}

static hyp_status read_shared_claim(checker *c, const hyp_lemma *lemma, term **terms, citation *out)
{
    query *queries = hyp_arena_zalloc(&c->arena, lemma->query_count, sizeof *queries);
    part *parts = hyp_arena_zalloc(&c->arena, lemma->use_count, sizeof *parts);
    if (!queries || !parts) return hyp_fail_memory(c->diag, lemma->query_count * sizeof *queries);
    for (size_t i = 0; i < lemma->query_count; i++) {
        const hyp_shared_query *q = &lemma->queries[i];
        term **args = hyp_arena_alloc(&c->arena, q->arg_count * sizeof *args);
        if (!args) return hyp_fail_memory(c->diag, q->arg_count * sizeof *args);
        for (size_t j = 0; j < q->arg_count; j++) args[j] = terms[q->args[j]];
        queries[i] = (query){q->name, args, q->arg_count, q->answer,
                             q->answer == HYP_ANSWER_TERM ? terms[q->result] : NULL};
    }
    for (size_t i = 0; i < lemma->use_count; i++)
        parts[i] = (part){terms[lemma->uses[i].from], terms[lemma->uses[i].to]};
    *out = (citation){lemma->rule, lemma->kind == HYP_LEMMA_STATED, queries, lemma->query_count, parts, lemma->use_count};
    return HYP_OK;
}

/* Congruences and chains are right by their form. */
static hyp_status check_lemma(checker *c, const hyp_lemma *lemma, term **terms)
{
    citation cited;
    term *from = terms[lemma->from], *to = terms[lemma->to];
    if (lemma->kind == HYP_LEMMA_CONGRUENCE || lemma->kind == HYP_LEMMA_CHAIN) return HYP_OK;
    HYP_TRY(read_shared_claim(c, lemma, terms, &cited));
    HYP_TRY(cited.stated ? check_stated(c, from, to, false) : check_rule(c, &cited, from, to, false));
    return c->options.ask ? hyp_check_learn(c, from, to) : HYP_OK;
}

/* ---- the calls ----------------------------------------------------------------------------------- */

static hyp_status read_given(checker *c)
{
    c->given = hyp_arena_zalloc(&c->arena, c->options.given_count, sizeof *c->given);
    if (!c->given) return hyp_fail_memory(c->diag, c->options.given_count * sizeof *c->given);
    for (size_t i = 0; i < c->options.given_count && c->options.given; i++) {
        HYP_TRY(hyp_check_read(c, c->options.given[i].left, &c->given[i].side[0]));
        HYP_TRY(hyp_check_read(c, c->options.given[i].right, &c->given[i].side[1]));
    }
    return HYP_OK;
}

static hyp_status check_all(checker *c, const hyp_proof *proof, const char *a, const char *b, size_t *out_step)
{
    term *start, *end, *first, *last;
    HYP_TRY(read_given(c));
    HYP_TRY(hyp_check_read(c, a, &start));
    HYP_TRY(hyp_check_read(c, b, &end));
    HYP_TRY(check_list(c, proof, out_step, &first, &last));
    *out_step = 0;
    if (start != first) return hyp_refuse(c, "step 0: the proof begins with %s, not with %s", proof->steps[0].term, a);
    *out_step = proof->count - 1;
    if (end == last) return HYP_OK;
    return hyp_refuse(c, "step %zu: the proof ends with %s, not with %s", *out_step, proof->steps[*out_step].term, b);
}

static hyp_status check_shared(checker *c, const hyp_shared_proof *proof, const char *a, const char *b,
                               size_t *out_lemma)
{
    term *start = NULL, *end = NULL;
    if (a) HYP_TRY(hyp_check_read(c, a, &start));
    if (b) HYP_TRY(hyp_check_read(c, b, &end));
    HYP_TRY(hyp_shared_proof_is_formed(proof, c->read.len, out_lemma, c->diag));
    HYP_TRY(read_shared_terms(c, proof));
    term **terms = c->read.data;
    for (size_t i = 0; i < proof->lemma_count; i++) {
        const hyp_lemma *lemma = &proof->lemmas[i];
        *out_lemma = i;
        hyp_status status = check_lemma(c, lemma, terms);
        if (status != HYP_OK) hyp_diag_prefix(c->diag, "lemma %zu, %s", i, lemma->rule);
        HYP_TRY(status);
    }
    if (a && terms[proof->claim.from] != start) return hyp_refuse(c, "the proof begins with another term than %s", a);
    return !b || terms[proof->claim.to] == end ? HYP_OK : hyp_refuse(c, "the proof ends with another term than %s", b);
}

/* In use, or no more: what is asked may not destroy the rules. */
static void hold_rules(const checker *c, int change)
{
    for (size_t i = 0; i < c->ruleset_count; i++) c->rulesets[i]->eg->running += change;
}

static hyp_status set_up(checker *c, hyp_ruleset *const *rulesets, size_t count, const hyp_proof_check_options *options,
                         hyp_diag *diag)
{
    *c = (checker){.rulesets = rulesets, .diag = diag};
    HYP_NEED_LIST(rulesets, count);
    for (size_t i = 0; i < count; i++) HYP_NEED(rulesets[i]);
    c->ruleset_count = count;
    return hyp_sized_take(&c->options, options, hyp_proof_check_options, diag);
}

static void dispose(checker *c)
{
    hyp_egraph_destroy(c->asked);
    hyp_intern_dispose(&c->ops);
    hyp_numbering_dispose(&c->spines);
    hyp_vec_free(&c->by_spine);
    hyp_vec_free(&c->read);
    hyp_vec_free(&c->stack);
    hyp_arena_dispose(&c->arena);
}

hyp_status hyp_proof_check(const hyp_proof *proof, const char *a, const char *b, hyp_ruleset *const *rulesets,
                           size_t ruleset_count, const hyp_proof_check_options *options, size_t *out_step,
                           hyp_diag *diag)
{
    HYP_NEED(proof);
    checker c;
    size_t step = 0;
    HYP_TRY(set_up(&c, rulesets, ruleset_count, options, diag));
    hold_rules(&c, 1);
    hyp_status status = check_all(&c, proof, a, b, &step);
    hold_rules(&c, -1);
    dispose(&c);
    if (out_step) *out_step = step;
    return status;
}

hyp_status hyp_shared_proof_check(const hyp_shared_proof *proof, const char *a, const char *b,
                                  hyp_ruleset *const *rulesets, size_t ruleset_count,
                                  const hyp_proof_check_options *options, size_t *out_lemma, hyp_diag *diag)
{
    HYP_NEED(proof);
    checker c;
    size_t lemma = 0;
    HYP_TRY(set_up(&c, rulesets, ruleset_count, options, diag));
    hold_rules(&c, 1);
    hyp_status status = read_given(&c);
    if (status == HYP_OK) status = check_shared(&c, proof, a, b, &lemma);
    hold_rules(&c, -1);
    dispose(&c);
    if (out_lemma) *out_lemma = lemma;
    return status;
}

/* ---- many proofs --------------------------------------------------------------------------------- */

hyp_status hyp_judge_create(hyp_ruleset *const *rulesets, size_t ruleset_count, checker **out, hyp_diag *diag)
{
    checker *c = *out = hyp_calloc(1, sizeof *c);
    if (!c) return hyp_fail_memory(diag, sizeof *c);
    hyp_status status = set_up(c, rulesets, ruleset_count, NULL, diag);
    if (status == HYP_OK) return HYP_OK;
    hyp_judge_destroy(c);
    *out = NULL;
    return status;
}

void hyp_judge_destroy(checker *c)
{
    if (!c) return;
    dispose(c);
    hyp_free(c);
}

hyp_status hyp_judge_check(checker *c, const hyp_shared_proof *proof, hyp_diag *diag)
{
    size_t lemma;
    c->diag = diag;
    if (proof->term_count < c->read.len) return hyp_refuse(c, "the proof lacks terms of an earlier one");
    hold_rules(c, 1);
    hyp_status status = check_shared(c, proof, NULL, NULL, &lemma);
    hold_rules(c, -1);
    return status;
}
