/* The judge of proofs: replays them on terms, from the patterns of the rules alone.
 *
 * It shares nothing with what makes proofs but the reading of rules: terms are trees of text, compared as such. An
 * e-graph is used only where conditions and functions are asked again, which need one to be asked about. */
#include <string.h>

#include "base/sexpr.h"
#include "egraph/rule.h"

typedef struct term {
    const char *op;
    uint32_t count;
    struct term **kids;
} term;

typedef struct equation {
    term *side[2];
} equation;

typedef struct checker {
    hyp_ruleset *const *rulesets;
    size_t ruleset_count;
    hyp_proof_check_options options;
    equation *given;
    hyp_arena arena;
    hyp_egraph *asked; /* where conditions and functions are asked again; NULL before the first time */
    hyp_diag *diag;
} checker;

/* One try of a rule: what its variables, the e-nodes of its left side and its functions stand for. */
typedef struct attempt {
    checker *c;
    const hyp_egraph *eg; /* of the rule: the names of its symbols */
    const hyp_rule *rule;
    const hyp_proof_step *step;
    term **variable, **left, **result;
    size_t query; /* the next one */
    bool ask;     /* and ask it again */
} attempt;

#define refuse(c, ...) hyp_fail((c)->diag, HYP_ERR_MISMATCH, __VA_ARGS__)

/* ---- terms -------------------------------------------------------------------------------------- */

static hyp_status from_sexpr(checker *c, const hyp_sexpr *sx, term **out)
{
    const hyp_sexpr *head = sx->kind == HYP_SX_LIST ? (sx->count ? sx->items[0] : NULL) : sx;
    if (!head || head->kind == HYP_SX_LIST) return refuse(c, "a term in parentheses begins with an operator");
    term *t = *out = hyp_arena_zalloc(&c->arena, 1, sizeof *t);
    if (!t) return hyp_fail_memory(c->diag, sizeof *t);
    t->op = head->text;
    t->count = sx->kind == HYP_SX_LIST ? sx->count - 1 : 0;
    t->kids = hyp_arena_zalloc(&c->arena, t->count, sizeof *t->kids);
    if (!t->kids) return hyp_fail_memory(c->diag, t->count * sizeof *t->kids);
    for (uint32_t j = 0; j < t->count; j++) HYP_TRY(from_sexpr(c, sx->items[j + 1], &t->kids[j]));
    return HYP_OK;
}

static hyp_status read_term(checker *c, const char *text, term **out)
{
    const hyp_sexpr *forms;
    if (!text) return refuse(c, "a term is missing");
    hyp_status status = hyp_sexpr_parse(&c->arena, "term", text, strlen(text), &forms, c->diag);
    if (status != HYP_OK) return status == HYP_ERR_NO_MEMORY ? status : refuse(c, "this is not a term: %s", text);
    if (forms->count != 1) return refuse(c, "one term was wanted, not %u: %s", forms->count, text);
    return from_sexpr(c, forms->items[0], out);
}

static bool same(const term *a, const term *b)
{
    if (a == b) return true;
    if (a->count != b->count || strcmp(a->op, b->op) != 0) return false;
    for (uint32_t j = 0; j < a->count; j++)
        if (!same(a->kids[j], b->kids[j])) return false;
    return true;
}

/* Where two terms differ in one child alone: its index; else HYP_NONE. */
static uint32_t differing_child(const term *a, const term *b)
{
    uint32_t place = HYP_NONE;
    if (a->count != b->count || strcmp(a->op, b->op) != 0) return HYP_NONE;
    for (uint32_t j = 0; j < a->count; j++) {
        if (same(a->kids[j], b->kids[j])) continue;
        if (place != HYP_NONE) return HYP_NONE;
        place = j;
    }
    return place;
}

/* ---- patterns ----------------------------------------------------------------------------------- */

static bool bind(attempt *t, uint32_t reg, term *what)
{
    if (t->variable[reg]) return same(t->variable[reg], what);
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
    bool fits = pat->seq == HYP_NONE ? what->count == pat->count : what->count + 1 >= pat->count;
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
        for (uint32_t i = kid->seq; i + kid->seq_tail < from->count; i++)
            if (at == what_count || !same(from->kids[i], what[at++])) return false;
    }
    return at == what_count;
}

/* Whether `what` is the instance of a term of the right side or the condition. */
static bool is_instance(const attempt *t, const hyp_pat *pat, const term *what)
{
    if (pat->kind == HYP_PAT_VAR) return same(t->variable[pat->reg], what);
    if (pat->kind == HYP_PAT_CALL) return t->result[pat->index] && same(t->result[pat->index], what);
    return has_op(t, pat, what) && are_instances(t, pat->kids, pat->count, what->kids, what->count);
}

/* ---- asking again --------------------------------------------------------------------------------- */

static hyp_status add_term(hyp_egraph *eg, const term *t, hyp_class_id *out, hyp_diag *diag)
{
    hyp_symbol symbol;
    hyp_class_id *kids = hyp_malloc(t->count * sizeof *kids);
    if (!kids) return hyp_fail_memory(diag, t->count * sizeof *kids);
    hyp_status status = hyp_egraph_symbol(eg, t->op, &symbol, diag);
    for (uint32_t j = 0; j < t->count && status == HYP_OK; j++) status = add_term(eg, t->kids[j], &kids[j], diag);
    if (status == HYP_OK) status = hyp_egraph_add(eg, symbol, kids, t->count, out, NULL, diag);
    hyp_free(kids);
    return status;
}

static hyp_status need_asked(checker *c)
{
    if (c->asked || c->ruleset_count == 0) return HYP_OK;
    hyp_egraph_options options = {.size = sizeof options, .analysis = &c->rulesets[0]->eg->analysis};
    return hyp_egraph_create(&options, &c->asked, c->diag);
}

/* Tells the e-graph that is asked of two equal terms. */
static hyp_status learn(checker *c, const term *a, const term *b)
{
    hyp_class_id x, y;
    HYP_TRY(need_asked(c));
    if (!c->asked) return HYP_OK;
    HYP_TRY(add_term(c->asked, a, &x, c->diag));
    HYP_TRY(add_term(c->asked, b, &y, c->diag));
    HYP_TRY(hyp_egraph_union(c->asked, x, y, NULL, NULL, c->diag));
    return hyp_egraph_rebuild(c->asked, c->diag);
}

/* Whether the analysis alone makes two terms equal. */
static hyp_status analysis_says(checker *c, const term *a, const term *b, bool *out)
{
    hyp_class_id x, y;
    HYP_TRY(need_asked(c));
    if (!c->asked) return HYP_OK;
    HYP_TRY(add_term(c->asked, a, &x, c->diag));
    HYP_TRY(add_term(c->asked, b, &y, c->diag));
    HYP_TRY(hyp_egraph_rebuild(c->asked, c->diag));
    *out = hyp_egraph_find(c->asked, x) == hyp_egraph_find(c->asked, y);
    return HYP_OK;
}

static hyp_status call_again(checker *c, const hyp_callback *cb, const hyp_proof_query *q, term *const *args,
                             hyp_class_id *classes, const term *result)
{
    hyp_egraph *eg = c->asked;
    for (size_t i = 0; i < q->arg_count; i++) HYP_TRY(add_term(eg, args[i], &classes[i], c->diag));
    HYP_TRY(hyp_egraph_rebuild(eg, c->diag));
    for (size_t i = 0; i < q->arg_count; i++) classes[i] = hyp_egraph_find(eg, classes[i]);
    hyp_call call = {.eg = eg, .args = classes, .arg_count = q->arg_count, .user = cb->user};
    if (cb->is_condition) {
        bool holds = false;
        HYP_TRY(cb->condition(&call, &holds, c->diag));
        if (holds == (q->answer == HYP_ANSWER_YES)) return HYP_OK;
        return refuse(c, "asked again, %s answers %s", q->name, holds ? "yes" : "no");
    }
    hyp_class_id given = HYP_NONE, wanted;
    HYP_TRY(cb->function(&call, &given, c->diag));
    if (given == HYP_NONE) return refuse(c, "asked again, %s declines", q->name);
    HYP_TRY(add_term(eg, result, &wanted, c->diag));
    HYP_TRY(hyp_egraph_rebuild(eg, c->diag));
    if (hyp_egraph_find(eg, given) == hyp_egraph_find(eg, wanted)) return HYP_OK;
    return refuse(c, "asked again, %s gives another term than %s", q->name, q->result);
}

static hyp_status ask_again(checker *c, const hyp_callback *cb, const hyp_proof_query *q, term *const *args,
                            const term *result)
{
    HYP_TRY(need_asked(c));
    hyp_class_id *classes = hyp_arena_alloc(&c->arena, q->arg_count * sizeof *classes);
    if (!classes) return hyp_fail_memory(c->diag, q->arg_count * sizeof *classes);
    return call_again(c, cb, q, args, classes, result);
}

/* ---- conditions and functions --------------------------------------------------------------------- */

/* Takes the next query if it is of this callback. */
static const hyp_proof_query *next_query(attempt *t, uint32_t callback)
{
    const hyp_proof_query *q = t->query < t->step->query_count ? &t->step->queries[t->query] : NULL;
    if (!q || strcmp(q->name, t->eg->callback_names.names.data[callback]) != 0) return NULL;
    t->query++;
    return q;
}

/* Reads the arguments of a query, which must be the instances of `args`. */
static hyp_status read_args(attempt *t, const hyp_proof_query *q, const hyp_pat *args, uint32_t count, term ***out)
{
    term **terms = *out = hyp_arena_alloc(&t->c->arena, q->arg_count * sizeof *terms);
    if (!terms) return hyp_fail_memory(t->c->diag, q->arg_count * sizeof *terms);
    for (size_t i = 0; i < q->arg_count; i++) HYP_TRY(read_term(t->c, q->args[i], &terms[i]));
    if (are_instances(t, args, count, terms, (uint32_t)q->arg_count)) return HYP_OK;
    return refuse(t->c, "%s was asked about other terms than the rule asks about here", q->name);
}

/* The functions in a term, those among arguments first. *out_whole: each of them gave a term. */
static hyp_status check_calls(attempt *t, const hyp_pat *pat, bool *out_whole)
{
    for (uint32_t j = 0; j < pat->count; j++) HYP_TRY(check_calls(t, &pat->kids[j], out_whole));
    if (pat->kind != HYP_PAT_CALL || !*out_whole) return HYP_OK;
    const hyp_proof_query *q = next_query(t, pat->callback);
    *out_whole = q != NULL;
    if (!q) return HYP_OK;
    term **args;
    if (q->answer != HYP_ANSWER_TERM) return refuse(t->c, "the function %s gave no term", q->name);
    HYP_TRY(read_args(t, q, pat->kids, pat->count, &args));
    HYP_TRY(read_term(t->c, q->result, &t->result[pat->index]));
    if (!t->ask) return HYP_OK;
    return ask_again(t->c, &t->eg->callbacks.data[pat->callback], q, args, t->result[pat->index]);
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
    const hyp_proof_query *q = next_query(t, cond->callback);
    const char *name = t->eg->callback_names.names.data[cond->callback];
    if (!q) return refuse(t->c, "it is not recorded what the condition %s answered", name);
    if (q->answer == HYP_ANSWER_TERM) return refuse(t->c, "%s is a condition and gives no term", name);
    *out = q->answer == HYP_ANSWER_YES;
    if (!whole)
        return q->answer == HYP_ANSWER_ABSENT ? HYP_OK : refuse(t->c, "%s was asked without all its arguments", name);
    term **args;
    HYP_TRY(read_args(t, q, cond->args, cond->count, &args));
    if (!t->ask || q->answer == HYP_ANSWER_ABSENT) return HYP_OK;
    return ask_again(t->c, &t->eg->callbacks.data[cond->callback], q, args, NULL);
}

static hyp_status check_queries(attempt *t, const hyp_action *action)
{
    bool holds = true, whole = true;
    t->query = 0;
    if (t->rule->cond) HYP_TRY(check_condition(t, t->rule->cond, &holds));
    if (!holds) return refuse(t->c, "by the answers recorded, the condition of the rule does not hold");
    if (!action->root) HYP_TRY(check_calls(t, &action->left, &whole));
    HYP_TRY(check_calls(t, &action->right, &whole));
    if (!whole) return refuse(t->c, "it is not recorded what a function of the rule gave");
    if (t->query < t->step->query_count)
        return refuse(t->c, "%s was asked, which the rule does not ask here", t->step->queries[t->query].name);
    return HYP_OK;
}

/* ---- steps -------------------------------------------------------------------------------------- */

static hyp_status check_chain(checker *c, const hyp_proof *proof, size_t *out_step, term **out_first, term **out_last);

/* What a left-side pattern of a multi-pattern matched, and what its variable stands for. */
typedef struct part {
    term *variable, *instance;
} part;

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
                               const hyp_proof_step *step, const part *parts, term *before, term *after)
{
    attempt t = {.c = c, .eg = rules->eg, .rule = rule, .step = step};
    t.variable = hyp_arena_zalloc(&c->arena, rule->reg_count, sizeof *t.variable);
    t.left = hyp_arena_zalloc(&c->arena, rule->left_nodes, sizeof *t.left);
    t.result = hyp_arena_zalloc(&c->arena, rule->right_nodes, sizeof *t.result);
    if (!t.variable || !t.left || !t.result) return hyp_fail_memory(c->diag, rule->reg_count * sizeof *t.variable);
    if (!match_left(&t, parts, before)) return HYP_ERR_MISMATCH;
    if (action->root && !same(t.left[action->root->index], before)) return HYP_ERR_MISMATCH;
    HYP_TRY(check_queries(&t, action));
    if (!action->root && !is_instance(&t, &action->left, before)) return HYP_ERR_MISMATCH;
    if (!is_instance(&t, &action->right, after)) return HYP_ERR_MISMATCH;
    t.ask = c->options.ask;
    return t.ask ? check_queries(&t, action) : HYP_OK;
}

/* Looks for the place of a step. */
static hyp_status check_places(checker *c, const hyp_ruleset *rules, const hyp_rule *rule, const hyp_proof_step *step,
                               const part *parts, term *from, term *to)
{
    for (;;) {
        for (uint32_t i = 0; i < rule->action_count; i++) {
            hyp_status status = check_action(c, rules, rule, &rule->actions[i], step, parts, step->forward ? from : to,
                                             step->forward ? to : from);
            if (status != HYP_ERR_MISMATCH) return status;
        }
        uint32_t place = differing_child(from, to);
        if (place == HYP_NONE) return HYP_ERR_MISMATCH;
        from = from->kids[place];
        to = to->kids[place];
    }
}

static hyp_status check_parts(checker *c, const hyp_rule *rule, const hyp_proof_step *step, part **out)
{
    uint32_t count = rule->multi ? rule->left_count : 0;
    if (step->part_count != count) return refuse(c, "%zu parts are proven, the rule has %u", step->part_count, count);
    part *parts = *out = hyp_arena_zalloc(&c->arena, count, sizeof *parts);
    if (!parts) return hyp_fail_memory(c->diag, count * sizeof *parts);
    for (uint32_t i = 0; i < count; i++) {
        size_t at;
        hyp_status status = check_chain(c, &step->parts[i], &at, &parts[i].variable, &parts[i].instance);
        if (status != HYP_OK) hyp_diag_prefix(c->diag, "part %u", i + 1);
        HYP_TRY(status);
    }
    return HYP_OK;
}

static hyp_status check_rule(checker *c, const hyp_proof_step *step, term *from, term *to)
{
    bool known = false;
    hyp_status status = refuse(c, "one use of this rule at one place does not lead from the term before to this one");
    hyp_diag why = {0}, *said = c->diag;
    for (size_t s = 0; s < c->ruleset_count; s++) {
        const hyp_ruleset *rules = c->rulesets[s];
        for (size_t i = 0; i < rules->rules.len && status == HYP_ERR_MISMATCH; i++) {
            const hyp_rule *rule = &rules->rules.data[i];
            part *parts;
            if (strcmp(rule->info.name, step->rule) != 0) continue;
            known = true;
            c->diag = &why;
            why.message[0] = 0;
            status = check_parts(c, rule, step, &parts);
            if (status == HYP_OK) status = check_places(c, rules, rule, step, parts, from, to);
            c->diag = said;
            if (status != HYP_OK && why.message[0]) status = hyp_fail(said, status, "%s", why.message);
        }
    }
    return known ? status : refuse(c, "there is no rule of this name");
}

/* A union by the caller or an analysis. */
static hyp_status check_stated(checker *c, term *from, term *to)
{
    if (!c->options.given) return HYP_OK;
    for (;;) {
        for (size_t i = 0; i < c->options.given_count; i++) {
            term *const *side = c->given[i].side;
            if ((same(side[0], from) && same(side[1], to)) || (same(side[1], from) && same(side[0], to))) return HYP_OK;
        }
        bool equal = false;
        if (c->options.ask) HYP_TRY(analysis_says(c, from, to, &equal));
        if (equal) return HYP_OK;
        uint32_t place = differing_child(from, to);
        if (place == HYP_NONE) return refuse(c, "this equality was not given");
        from = from->kids[place];
        to = to->kids[place];
    }
}

static hyp_status check_step(checker *c, const hyp_proof_step *step, term *from, term *to)
{
    if (!step->rule) return refuse(c, "it names no rule");
    if (!step->stated)
        HYP_TRY(check_rule(c, step, from, to));
    else if (step->query_count || step->part_count)
        return refuse(c, "an equality that was stated asks nothing");
    else
        HYP_TRY(check_stated(c, from, to));
    if (!c->options.ask) return HYP_OK;
    for (uint32_t place; (place = differing_child(from, to)) != HYP_NONE;) { /* the most is learnt from the least */
        from = from->kids[place];
        to = to->kids[place];
    }
    return learn(c, from, to);
}

static hyp_status check_chain(checker *c, const hyp_proof *proof, size_t *out_step, term **out_first, term **out_last)
{
    *out_step = 0;
    if (proof->count == 0) return refuse(c, "a proof has at least one term");
    HYP_TRY(read_term(c, proof->steps[0].term, out_first));
    if (proof->steps[0].rule) return refuse(c, "step 0 is the first term and uses no rule");
    *out_last = *out_first;
    for (size_t i = 1; i < proof->count; i++) {
        const hyp_proof_step *step = &proof->steps[i];
        term *next;
        *out_step = i;
        hyp_status status = read_term(c, step->term, &next);
        if (status == HYP_OK) status = check_step(c, step, *out_last, next);
        if (status != HYP_OK)
            hyp_diag_prefix(c->diag, "step %zu, %s%s", i, step->forward ? "" : "reversed ",
                            step->rule ? step->rule : "");
        HYP_TRY(status);
        *out_last = next;
    }
    return HYP_OK;
}

static hyp_status read_given(checker *c)
{
    c->given = hyp_arena_zalloc(&c->arena, c->options.given_count, sizeof *c->given);
    if (!c->given) return hyp_fail_memory(c->diag, c->options.given_count * sizeof *c->given);
    for (size_t i = 0; i < c->options.given_count && c->options.given; i++) {
        HYP_TRY(read_term(c, c->options.given[i].left, &c->given[i].side[0]));
        HYP_TRY(read_term(c, c->options.given[i].right, &c->given[i].side[1]));
    }
    return HYP_OK;
}

static hyp_status check_all(checker *c, const hyp_proof *proof, const char *a, const char *b, size_t *out_step)
{
    term *start, *end, *first, *last;
    HYP_TRY(read_given(c));
    HYP_TRY(read_term(c, a, &start));
    HYP_TRY(read_term(c, b, &end));
    HYP_TRY(check_chain(c, proof, out_step, &first, &last));
    *out_step = 0;
    if (!same(start, first)) return refuse(c, "step 0: the proof begins with %s, not with %s", proof->steps[0].term, a);
    *out_step = proof->count - 1;
    if (same(end, last)) return HYP_OK;
    return refuse(c, "step %zu: the proof ends with %s, not with %s", *out_step, proof->steps[*out_step].term, b);
}

hyp_status hyp_proof_check(const hyp_proof *proof, const char *a, const char *b, hyp_ruleset *const *rulesets,
                           size_t ruleset_count, const hyp_proof_check_options *options, size_t *out_step,
                           hyp_diag *diag)
{
    checker c = {.rulesets = rulesets, .ruleset_count = ruleset_count, .diag = diag};
    size_t step = 0, size = sizeof c.options;
    if (options) memcpy(&c.options, options, options->size < size ? options->size : size);
    hyp_status status = check_all(&c, proof, a, b, &step);
    hyp_egraph_destroy(c.asked);
    hyp_arena_dispose(&c.arena);
    if (out_step) *out_step = step;
    return status;
}
