/* Proofs as lemmas: who proves T(a) = T(b) for two e-nodes of a class, and what that rests on.
 *
 * T(e) is the term that e-node e was added as: its operator over T of the children it was given. A way over
 * recorded equalities (path.h) leads from T(a) to T(b), a chain of lemmas. Of its edges a congruence is one lemma over
 * those of the children. An application is a chain of its own: from the matched e-node's term to the instance of the
 * left side, by the rule to that of the right side, and on to the term of the e-node that was made. Terms and lemmas are
 * made once and shared; each refers to earlier ones only. explainer.c has the calls, flatten.c writes a proof out as a
 * list of whole terms. */
#include <string.h>

#include "egraph/prove/large_stack.h"
#include "egraph/prove/lemmas.h"
#include "egraph/rules/rule.h"

/* ---- one application ---------------------------------------------------------------------------- */

/* An application, with what its variables stand for: the children that the matched e-nodes were given. */
typedef struct application {
    const hyp_rule *rule;
    const hyp_action *action;
    const uint32_t *left, *right; /* by index of the pattern e-node */
    uint32_t *variable;           /* by register; HYP_NONE = not seen */
} application;

static void bind(hyp_prover *p, application *app, const hyp_pat *pat)
{
    uint32_t n, row = app->left[pat->index];
    const uint32_t *kids = hyp_given(p->eg, row, &n);
    for (uint32_t j = 0; j < pat->count; j++) {
        const hyp_pat *kid = &pat->kids[j];
        if (kid->kind == HYP_PAT_NODE) bind(p, app, kid);
        if (kid->kind == HYP_PAT_VAR && app->variable[kid->reg] == HYP_NONE)
            app->variable[kid->reg] = kids[hyp_pat_place(pat, j, n)];
    }
}

static hyp_status read_application(hyp_prover *p, uint32_t place, application *app)
{
    const hyp_app record = hyp_app_read(p->eg, place);
    app->rule = hyp_eg_rule(p->eg, record.kind->ruleset, record.kind->rule);
    app->action = &app->rule->actions[record.kind->action];
    uint32_t *ids = hyp_prover_take(p, record.count * sizeof *ids);
    if (!ids) return hyp_fail_memory(p->diag, record.count * sizeof *ids);
    for (uint32_t i = 0; i < record.count; i++) ids[i] = hyp_app_id(&record, i);
    app->left = ids;
    app->right = ids + app->rule->left_nodes;
    app->variable = hyp_prover_take(p, app->rule->reg_count * sizeof(uint32_t));
    if (!app->variable) return hyp_fail_memory(p->diag, app->rule->reg_count * sizeof(uint32_t));
    memset(app->variable, 0xff, app->rule->reg_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < app->rule->left_count; i++) bind(p, app, &app->rule->left[i]);
    for (uint32_t i = 0; i < app->rule->left_count; i++) { /* roots of a multi-pattern that occur nowhere else */
        const hyp_pat *root = &app->rule->left[i];
        if (app->variable[root->reg] == HYP_NONE) app->variable[root->reg] = app->left[root->index];
    }
    return HYP_OK;
}

/* The e-node, or the class, whose term stands for a pattern at the e-node's place. */
static uint32_t stands_for(const application *app, const hyp_pat *pat, bool is_left)
{
    if (pat->kind == HYP_PAT_VAR) return app->variable[pat->reg];
    return is_left ? app->left[pat->index] : app->right[pat->index];
}

/* The children of the e-node that a sequence variable matched. */
static const uint32_t *sequence(const hyp_prover *p, const application *app, const hyp_pat *seq, uint32_t *out_count)
{
    uint32_t n;
    const uint32_t *kids = hyp_given(p->eg, app->left[seq->index], &n);
    *out_count = n - seq->before - seq->after;
    return kids + seq->before;
}

/* The instance of a pattern as a term. */
static hyp_status instance(hyp_prover *p, const application *app, const hyp_pat *pat, bool is_left, uint32_t *out)
{
    if (pat->kind != HYP_PAT_NODE) return hyp_prover_term_of_row(p, stands_for(app, pat, is_left), out);
    uint32_t total = 0, n, at = 0;
    for (uint32_t j = 0; j < pat->count; j++) {
        n = 1;
        if (pat->kids[j].kind == HYP_PAT_SEQ) sequence(p, app, &pat->kids[j], &n);
        total += n;
    }
    uint32_t *kids = hyp_prover_take(p, total * sizeof *kids);
    if (!kids) return hyp_fail_memory(p->diag, total * sizeof *kids);
    for (uint32_t j = 0; j < pat->count; j++) {
        if (pat->kids[j].kind != HYP_PAT_SEQ) {
            HYP_TRY(instance(p, app, &pat->kids[j], is_left, &kids[at++]));
            continue;
        }
        const uint32_t *ids = sequence(p, app, &pat->kids[j], &n);
        for (uint32_t i = 0; i < n; i++) HYP_TRY(hyp_prover_term_of_row(p, ids[i], &kids[at++]));
    }
    return hyp_prover_term(p, pat->symbol, kids, total, out);
}

static hyp_status fit(hyp_prover *p, const application *app, const hyp_pat *pat, bool is_left, hyp_lemma_use *out);

/* The child of an e-node is the e-node that its pattern stands for, whose term is the instance. */
static hyp_status fit_child(hyp_prover *p, const application *app, const hyp_pat *pat, bool is_left, uint32_t kid,
                            hyp_lemma_use *out)
{
    hyp_lemma_use to_row, to_instance;
    hyp_chain chain = {0};
    HYP_TRY(hyp_prove_rows(p, kid, stands_for(app, pat, is_left), &to_row));
    HYP_TRY(fit(p, app, pat, is_left, &to_instance));
    if (p->counting) return HYP_OK;
    hyp_status status = hyp_chain_add(p, &chain, to_row);
    if (status == HYP_OK) status = hyp_chain_add(p, &chain, to_instance);
    return hyp_chain_close(p, status, &chain, to_row.from, to_instance.to, out);
}

/* The term of the e-node that a pattern stands for is the instance of the pattern. Here and below, only the steps are
 * counted, and *out is not set, while p->counting. */
static hyp_status fit(hyp_prover *p, const application *app, const hyp_pat *pat, bool is_left, hyp_lemma_use *out)
{
    uint32_t n, place = 0, row = stands_for(app, pat, is_left);
    if (pat->kind != HYP_PAT_NODE) return p->counting ? HYP_OK : hyp_prover_same(p, row, out);
    HYP_TRY(hyp_prover_enter(p));
    const uint32_t *kids = hyp_given(p->eg, row, &n);
    hyp_lemma_use *uses = p->counting ? NULL : hyp_prover_take(p, n * sizeof *uses), ignored = {0};
    if (!uses && !p->counting) return hyp_fail_memory(p->diag, n * sizeof *uses);
    for (uint32_t j = 0; j < pat->count; j++) {
        const hyp_pat *kid = &pat->kids[j];
        if (kid->kind != HYP_PAT_SEQ) {
            HYP_TRY(fit_child(p, app, kid, is_left, kids[place], uses ? &uses[place] : &ignored));
            place++;
            continue;
        }
        uint32_t length;
        const uint32_t *ids = sequence(p, app, kid, &length);
        for (uint32_t i = 0; i < length; i++, place++)
            HYP_TRY(hyp_prove_rows(p, kids[place], ids[i], uses ? &uses[place] : &ignored));
    }
    p->depth--;
    return uses ? hyp_prover_congruence(p, hyp_enode_op(p->eg, row), uses, n, out) : HYP_OK;
}

/* ---- what an application rests on ---------------------------------------------------------------- */

typedef HYP_VEC(hyp_shared_query) query_list;

/* Whether the functions in a term were called, and gave something. */
static bool was_called(const application *app, const hyp_pat *pat)
{
    if (pat->kind == HYP_PAT_CALL && app->right[pat->index] == HYP_NONE) return false;
    for (uint32_t j = 0; j < pat->count; j++)
        if (pat->kids[j].kind != HYP_PAT_SEQ && !was_called(app, &pat->kids[j])) return false;
    return true;
}

/* The terms that a function or condition was asked about: the children of a term. */
static hyp_status write_args(hyp_prover *p, const application *app, const hyp_pat *args, uint32_t count,
                             hyp_shared_query *out)
{
    uint32_t total = 0, n, at = 0;
    for (uint32_t j = 0; j < count; j++) {
        n = 1;
        if (args[j].kind == HYP_PAT_SEQ) sequence(p, app, &args[j], &n);
        total += n;
    }
    uint32_t *terms = hyp_arena_alloc(p->out, total * sizeof *terms);
    if (!terms) return hyp_fail_memory(p->diag, total * sizeof *terms);
    for (uint32_t j = 0; j < count; j++) {
        if (args[j].kind != HYP_PAT_SEQ) {
            HYP_TRY(instance(p, app, &args[j], false, &terms[at++]));
            continue;
        }
        const uint32_t *ids = sequence(p, app, &args[j], &n);
        for (uint32_t i = 0; i < n; i++) HYP_TRY(hyp_prover_term_of_row(p, ids[i], &terms[at++]));
    }
    out->args = terms;
    out->arg_count = total;
    return HYP_OK;
}

static hyp_status add_query(hyp_prover *p, query_list *list, uint32_t callback, hyp_shared_query query)
{
    query.name = hyp_arena_strdup(p->out, p->eg->callback_names.names.data[callback]);
    if (!query.name) return hyp_fail_memory(p->diag, 0);
    return hyp_vec_push(list, p->diag, query);
}

/* The functions of a term that were called, those among the arguments first. */
static hyp_status write_calls(hyp_prover *p, const application *app, const hyp_pat *pat, query_list *list)
{
    for (uint32_t j = 0; j < pat->count; j++) HYP_TRY(write_calls(p, app, &pat->kids[j], list));
    if (pat->kind != HYP_PAT_CALL || app->right[pat->index] == HYP_NONE) return HYP_OK;
    hyp_shared_query query = {.answer = HYP_ANSWER_TERM};
    HYP_TRY(write_args(p, app, pat->kids, pat->count, &query));
    HYP_TRY(hyp_prover_term_of_row(p, app->right[pat->index], &query.result));
    return add_query(p, list, pat->callback, query);
}

static hyp_status write_answers(hyp_prover *p, const application *app, const hyp_cond *cond, query_list *list)
{
    if (cond->kind != HYP_COND_CALL) {
        for (uint32_t i = 0; i < cond->count; i++) HYP_TRY(write_answers(p, app, &cond->kids[i], list));
        return HYP_OK;
    }
    uint32_t answer = app->right[cond->index];
    if (answer == HYP_NONE) return HYP_OK; /* decided before */
    hyp_shared_query query = {.answer = (hyp_answer)answer, .result = HYP_NONE};
    bool complete = true;
    for (uint32_t j = 0; j < cond->count; j++) {
        HYP_TRY(write_calls(p, app, &cond->args[j], list));
        complete = complete && was_called(app, &cond->args[j]);
    }
    if (complete) HYP_TRY(write_args(p, app, cond->args, cond->count, &query));
    return add_query(p, list, cond->callback, query);
}

static hyp_status write_queries(hyp_prover *p, const application *app, hyp_lemma *lemma)
{
    query_list list = {0};
    hyp_status status = HYP_OK;
    if (app->rule->cond) status = write_answers(p, app, app->rule->cond, &list);
    if (status == HYP_OK && !app->action->root) status = write_calls(p, app, &app->action->left, &list);
    if (status == HYP_OK) status = write_calls(p, app, &app->action->right, &list);
    if (status == HYP_OK && list.len) {
        lemma->queries = hyp_prover_keep(p, list.data, list.len * sizeof *list.data);
        lemma->query_count = list.len;
        if (!lemma->queries) status = hyp_fail_memory(p->diag, list.len * sizeof *list.data);
    }
    hyp_vec_free(&list);
    return status;
}

/* For each root of a multi-pattern: what its variable stands for is what was matched. */
static hyp_status prove_parts(hyp_prover *p, const application *app, hyp_lemma *lemma)
{
    if (!app->rule->multi) return HYP_OK;
    uint32_t count = app->rule->left_count;
    hyp_lemma_use *uses = hyp_arena_alloc(p->out, count * sizeof *uses);
    if (!uses) return hyp_fail_memory(p->diag, count * sizeof *uses);
    for (uint32_t i = 0; i < count; i++) {
        const hyp_pat *root = &app->rule->left[i];
        HYP_TRY(fit_child(p, app, root, true, app->variable[root->reg], &uses[i]));
    }
    lemma->uses = uses;
    lemma->use_count = count;
    return HYP_OK;
}

/* The lemma of a record: made when it is first asked for. */
static hyp_status lemma_of_record(hyp_prover *p, uint32_t place, uint32_t *out_index, uint32_t *out)
{
    HYP_TRY(hyp_number(&p->applications, place, 0, 0, out_index, p->diag));
    if (*out_index == p->applied.len) HYP_TRY(hyp_vec_push(&p->applied, p->diag, HYP_NONE));
    *out = p->applied.data[*out_index];
    return HYP_OK;
}

/* From the instance of the left side to that of the right side. */
static hyp_status rule_lemma(hyp_prover *p, const application *app, uint32_t place, hyp_lemma_use *out)
{
    uint32_t index;
    const hyp_pat *left = app->action->root ? app->action->root : &app->action->left;
    hyp_lemma lemma = {.kind = HYP_LEMMA_RULE};
    HYP_TRY(instance(p, app, left, app->action->root != NULL, &lemma.from));
    HYP_TRY(instance(p, app, &app->action->right, false, &lemma.to));
    *out = (hyp_lemma_use){lemma.from, lemma.to, HYP_NONE};
    if (lemma.from == lemma.to) return HYP_OK;
    HYP_TRY(lemma_of_record(p, place, &index, &out->lemma));
    if (out->lemma != HYP_NONE) return HYP_OK;
    HYP_TRY(write_queries(p, app, &lemma));
    HYP_TRY(prove_parts(p, app, &lemma));
    lemma.rule = hyp_arena_strdup(p->out, app->rule->info.name);
    if (!lemma.rule) return hyp_fail_memory(p->diag, 0);
    HYP_TRY(hyp_prover_add_lemma(p, lemma, &out->lemma));
    p->applied.data[index] = out->lemma;
    return HYP_OK;
}

/* Works off an edge made by a rule, from `from` to `to`. */
static hyp_status apply_rule(hyp_prover *p, hyp_chain *chain, uint32_t place, bool forward, uint32_t from, uint32_t to)
{
    application app;
    hyp_lemma_use first, left, rule, right, last;
    HYP_TRY(read_application(p, place, &app));
    const hyp_pat *before = app.action->root ? app.action->root : &app.action->left, *after = &app.action->right;
    bool matched = app.action->root != NULL;
    uint32_t left_row = stands_for(&app, before, matched), right_row = stands_for(&app, after, false);
    /* A variable's term need not be the one that the edge ends at. */
    HYP_TRY(hyp_prove_rows(p, from, forward ? left_row : right_row, &first));
    HYP_TRY(fit(p, &app, before, matched, &left));
    p->measured++;
    HYP_TRY(fit(p, &app, after, false, &right));
    HYP_TRY(hyp_prove_rows(p, forward ? right_row : left_row, to, &last));
    if (p->counting) return HYP_OK;
    HYP_TRY(rule_lemma(p, &app, place, &rule));
    HYP_TRY(hyp_chain_add(p, chain, first));
    HYP_TRY(hyp_chain_add(p, chain, forward ? left : right));
    HYP_TRY(hyp_chain_add(p, chain, forward ? rule : hyp_use_reversed(rule)));
    HYP_TRY(hyp_chain_add(p, chain, hyp_use_reversed(forward ? right : left)));
    return hyp_chain_add(p, chain, last);
}

/* ---- paths -------------------------------------------------------------------------------------- */

/* A union by the caller, or an analysis. */
static hyp_status cross_stated(hyp_prover *p, hyp_chain *chain, const hyp_edge *e, const hyp_app *record)
{
    uint32_t index;
    bool forward = !e->backward;
    hyp_lemma lemma = {.kind = HYP_LEMMA_STATED};
    hyp_lemma_use use;
    HYP_TRY(hyp_prover_term_of_row(p, forward ? e->a : e->b, &lemma.from));
    HYP_TRY(hyp_prover_term_of_row(p, forward ? e->b : e->a, &lemma.to));
    if (lemma.from == lemma.to) return HYP_OK;
    HYP_TRY(lemma_of_record(p, e->place, &index, &use.lemma));
    if (use.lemma == HYP_NONE) {
        HYP_TRY(hyp_prover_name(p, hyp_app_reason(record), &lemma.rule));
        HYP_TRY(hyp_prover_add_lemma(p, lemma, &use.lemma));
        p->applied.data[index] = use.lemma;
    }
    use.from = lemma.from;
    use.to = lemma.to;
    return hyp_chain_add(p, chain, forward ? use : hyp_use_reversed(use));
}

/* Works off one edge. */
static hyp_status cross(hyp_prover *p, hyp_chain *chain, const hyp_edge *e)
{
    hyp_app record = {.what = HYP_APP_CONGRUENT};
    if (!e->congruent) record = hyp_app_read(p->eg, e->place);
    if (record.what == HYP_APP_CONGRUENT) {
        uint32_t n;
        hyp_lemma_use use, ignored;
        const uint32_t *a = hyp_given(p->eg, e->a, &n), *b = hyp_given(p->eg, e->b, &n);
        hyp_lemma_use *uses = p->counting ? NULL : hyp_prover_take(p, n * sizeof *uses);
        if (!uses && !p->counting) return hyp_fail_memory(p->diag, n * sizeof *uses);
        for (uint32_t j = 0; j < n; j++) HYP_TRY(hyp_prove_rows(p, a[j], b[j], uses ? &uses[j] : &ignored));
        if (!uses) return HYP_OK;
        HYP_TRY(hyp_prover_congruence(p, hyp_enode_op(p->eg, e->a), uses, n, &use));
        return hyp_chain_add(p, chain, use);
    }
    if (record.kind) return apply_rule(p, chain, e->place, !e->backward, e->a, e->b);
    p->measured++;
    return p->counting ? HYP_OK : cross_stated(p, chain, e, &record);
}

hyp_status hyp_prove_measure(void *user, const hyp_edge *e, uint32_t *out)
{
    hyp_prover *p = user;
    uint64_t before = p->measured;
    bool counting = p->counting;
    p->measured = 0;
    p->counting = true;
    HYP_TRY(cross(p, NULL, e));
    *out = p->measured < UINT32_MAX ? (uint32_t)p->measured : UINT32_MAX;
    p->measured = before;
    p->counting = counting;
    return HYP_OK;
}

/* T(from) is T(to): over a way of equalities below p->bound. */
static hyp_status prove_way(hyp_prover *p, uint32_t from, uint32_t to, uint32_t pair, hyp_lemma_use ends,
                            hyp_lemma_use *out)
{
    hyp_way way;
    hyp_chain chain = {0};
    uint64_t bound = p->bound, rank = 0;
    HYP_TRY(hyp_route(p->router, from, to, bound, &way, p->diag));
    hyp_status status = HYP_OK;
    for (uint32_t i = 0; i < way.count && status == HYP_OK; i++) {
        p->bound = hyp_edge_rank(&way.edges[i]); /* its proof uses older equalities only */
        if (p->bound > rank) rank = p->bound;
        status = cross(p, &chain, &way.edges[i]);
    }
    p->bound = bound;
    HYP_TRY(hyp_chain_close(p, status, &chain, ends.from, ends.to, out));
    p->knowns.data[pair] = (hyp_known){*out, rank};
    return HYP_OK;
}

/* prove_way's arguments, for a stack of its own. */
typedef struct way_job {
    hyp_prover *p;
    uint32_t from, to, pair;
    hyp_lemma_use *out;
} way_job;

static hyp_status run_way(void *job)
{
    const way_job *j = job;
    return prove_way(j->p, j->from, j->to, j->pair, *j->out, j->out);
}

hyp_status hyp_prove_rows(hyp_prover *p, uint32_t from, uint32_t to, hyp_lemma_use *out)
{
    uint32_t pair, cost;
    if (p->counting) {
        if (from == to) return HYP_OK;
        HYP_TRY(hyp_prover_enter(p));
        HYP_TRY(hyp_forest_cost(p->router, from, to, &cost));
        p->measured += cost;
        p->depth--;
        return HYP_OK;
    }
    out->lemma = HYP_NONE;
    HYP_TRY(hyp_prover_term_of_row(p, from, &out->from));
    HYP_TRY(hyp_prover_term_of_row(p, to, &out->to));
    if (out->from == out->to) return HYP_OK;
    HYP_TRY(hyp_number(&p->pairs, 0, from < to ? from : to, from < to ? to : from, &pair, p->diag));
    if (pair == p->knowns.len) HYP_TRY(hyp_vec_push(&p->knowns, p->diag, (hyp_known){.rank = HYP_ANY_RANK}));
    const hyp_known *k = &p->knowns.data[pair];
    if (k->rank < p->bound) {
        *out = k->use.from == out->from ? k->use : hyp_use_reversed(k->use);
        return HYP_OK;
    }
    HYP_TRY(hyp_prover_enter(p));
    way_job job = {p, from, to, pair, out};
    HYP_TRY(p->depth == HYP_PROVER_OWN_STACK ? hyp_on_large_stack(run_way, &job, p->diag) : run_way(&job));
    p->depth--;
    return HYP_OK;
}
