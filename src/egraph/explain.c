/* Proofs as a list of terms, each made from the one before by one rule or given equality at one place.
 *
 * T(e) is the term that e-node e was added as: its operator over T of the children it was given. A way over
 * recorded equalities (route.h) leads from T(a) to T(b). Its edges are worked off in place in a tree that is the whole
 * term: a congruence by the paths between the children; an application by bringing the matched e-node's
 * term into the form of the left side, replacing it, and bringing the right side into the form of the
 * e-node that was made. */
#include <string.h>

#include "base/sexpr.h"
#include "egraph/route.h"
#include "egraph/rule.h"
#include "egraph/term.h"

enum { DEPTH_LIMIT = 5000 };         /* nested calls: bounds the stack */
#define SIZE_LIMIT ((size_t)1 << 28) /* bytes of a proof */

typedef struct term {
    hyp_symbol symbol;
    uint32_t count;
    struct term **kids;
} term;

typedef HYP_VEC(hyp_proof_step) step_list;

typedef struct prover {
    hyp_egraph *eg;
    hyp_arena work; /* terms */
    hyp_arena *out; /* texts */
    size_t used;    /* bytes taken from both */
    unsigned depth;
    hyp_router *router;
    uint64_t bound;    /* the rank that what is used must be below */
    uint64_t measured; /* steps */
    term *whole;
    step_list steps;
    hyp_diag *diag;
} prover;

static void *take(prover *p, size_t size)
{
    p->used += size;
    return hyp_arena_alloc(&p->work, size);
}

/* A copy that lives as long as the proof; NULL when memory is out. */
static void *keep(prover *p, const void *from, size_t size)
{
    void *copy = hyp_arena_alloc(p->out, size);
    p->used += size;
    return copy ? memcpy(copy, from, size) : NULL;
}

static hyp_status enter(prover *p)
{
    if (++p->depth > DEPTH_LIMIT || p->used > SIZE_LIMIT)
        return hyp_fail(p->diag, HYP_ERR_LIMIT, "this proof is too large to be written out");
    return HYP_OK;
}

static hyp_status new_term(prover *p, hyp_symbol symbol, size_t count, term **out)
{
    term *t = take(p, sizeof *t);
    term **kids = take(p, count * sizeof *kids);
    if (!t || !kids) return hyp_fail_memory(p->diag, count * sizeof *kids);
    *t = (term){symbol, (uint32_t)count, kids};
    *out = t;
    return HYP_OK;
}

/* T(row). */
static hyp_status write_row(prover *p, uint32_t row, term **out)
{
    HYP_TRY(enter(p));
    uint32_t n;
    const uint32_t *kids = hyp_given(p->eg, row, &n);
    HYP_TRY(new_term(p, hyp_enode_op(p->eg, row), n, out));
    for (uint32_t j = 0; j < n; j++) HYP_TRY(write_row(p, kids[j], &(*out)->kids[j]));
    p->depth--;
    return HYP_OK;
}

static void print(const prover *p, const term *t, hyp_strbuf *sb)
{
    if (t->count) hyp_strbuf_puts(sb, "(");
    hyp_term_symbol(sb, hyp_egraph_symbol_name(p->eg, t->symbol));
    for (uint32_t j = 0; j < t->count; j++) {
        hyp_strbuf_puts(sb, " ");
        print(p, t->kids[j], sb);
    }
    if (t->count) hyp_strbuf_puts(sb, ")");
}

static hyp_status text_of(prover *p, const term *t, const char **out)
{
    hyp_strbuf sb = {0};
    print(p, t, &sb);
    *out = sb.failed ? NULL : hyp_arena_strndup(p->out, sb.data, sb.len);
    p->used += sb.len;
    hyp_strbuf_dispose(&sb);
    return *out ? HYP_OK : hyp_fail_memory(p->diag, 0);
}

/* Notes the whole term as it is now; `step` is all else. */
static hyp_status add_step(prover *p, hyp_proof_step step)
{
    HYP_TRY(text_of(p, p->whole, &step.term));
    if (step.rule && !(step.rule = hyp_arena_strdup(p->out, step.rule))) return hyp_fail_memory(p->diag, 0);
    HYP_TRY(hyp_vec_grow(&p->steps, p->diag));
    p->steps.data[p->steps.len - 1] = step;
    return HYP_OK;
}

static hyp_status walk_path(prover *p, term **at, uint32_t from, uint32_t to);

/* ---- one application ---------------------------------------------------------------------------- */

/* An application, with what its variables stand for: the children that the matched e-nodes were given. */
typedef struct application {
    const hyp_rule *rule;
    const hyp_action *action;
    const uint32_t *left, *right; /* by index of the pattern e-node */
    uint32_t *variable;           /* by register; HYP_NONE = not seen */
} application;

static void bind(prover *p, application *app, const hyp_pat *pat)
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

static hyp_status read_application(prover *p, uint32_t offset, application *app)
{
    const uint32_t *record = p->eg->proofs.apps.data + offset;
    app->rule = hyp_eg_rule(p->eg, record[HYP_APP_RULESET], record[HYP_APP_RULE]);
    app->action = &app->rule->actions[record[HYP_APP_UNION]];
    app->left = record + HYP_APP_ROWS;
    app->right = app->left + app->rule->left_nodes;
    app->variable = take(p, app->rule->reg_count * sizeof(uint32_t));
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
static const uint32_t *sequence(const prover *p, const application *app, const hyp_pat *seq, uint32_t *out_count)
{
    uint32_t n;
    const uint32_t *kids = hyp_given(p->eg, app->left[seq->index], &n);
    *out_count = n - seq->seq - seq->seq_tail;
    return kids + seq->seq;
}

/* The instance of a pattern as a term. */
static hyp_status write_instance(prover *p, const application *app, const hyp_pat *pat, bool is_left, term **out)
{
    if (pat->kind != HYP_PAT_NODE) return write_row(p, stands_for(app, pat, is_left), out);
    uint32_t total = 0, n, at = 0;
    for (uint32_t j = 0; j < pat->count; j++) {
        n = 1;
        if (pat->kids[j].kind == HYP_PAT_SEQ) sequence(p, app, &pat->kids[j], &n);
        total += n;
    }
    HYP_TRY(new_term(p, pat->symbol, total, out));
    for (uint32_t j = 0; j < pat->count; j++) {
        if (pat->kids[j].kind != HYP_PAT_SEQ) {
            HYP_TRY(write_instance(p, app, &pat->kids[j], is_left, &(*out)->kids[at++]));
            continue;
        }
        const uint32_t *ids = sequence(p, app, &pat->kids[j], &n);
        for (uint32_t i = 0; i < n; i++) HYP_TRY(write_row(p, ids[i], &(*out)->kids[at++]));
    }
    return HYP_OK;
}

/* Turns the term of an e-node at `at` into the instance of its pattern, or the other way round. Where `at` is NULL,
 * here and below, only the steps of it are counted. */
static hyp_status fit(prover *p, const application *app, const hyp_pat *pat, bool is_left, bool to_instance, term **at)
{
    if (pat->kind != HYP_PAT_NODE) return HYP_OK;
    HYP_TRY(enter(p));
    uint32_t n, place = 0;
    const uint32_t *kids = hyp_given(p->eg, stands_for(app, pat, is_left), &n);
    for (uint32_t j = 0; j < pat->count; j++) {
        const hyp_pat *kid = &pat->kids[j];
        if (kid->kind == HYP_PAT_SEQ) {
            uint32_t length;
            const uint32_t *ids = sequence(p, app, kid, &length);
            for (uint32_t i = 0; i < length; i++, place++)
                HYP_TRY(walk_path(p, at ? &(*at)->kids[place] : NULL, to_instance ? kids[place] : ids[i],
                                  to_instance ? ids[i] : kids[place]));
            continue;
        }
        uint32_t id = stands_for(app, kid, is_left);
        term **below = at ? &(*at)->kids[place] : NULL;
        if (to_instance) HYP_TRY(walk_path(p, below, kids[place], id));
        HYP_TRY(fit(p, app, kid, is_left, to_instance, below));
        if (!to_instance) HYP_TRY(walk_path(p, below, id, kids[place]));
        place++;
    }
    p->depth--;
    return HYP_OK;
}

/* ---- what an application rests on ---------------------------------------------------------------- */

typedef HYP_VEC(hyp_proof_query) query_list;

/* Whether the functions in a term were called, and gave something. */
static bool was_called(const application *app, const hyp_pat *pat)
{
    if (pat->kind == HYP_PAT_CALL && app->right[pat->index] == HYP_NONE) return false;
    for (uint32_t j = 0; j < pat->count; j++)
        if (pat->kids[j].kind != HYP_PAT_SEQ && !was_called(app, &pat->kids[j])) return false;
    return true;
}

/* The terms that a function or condition was asked about: the children of a term. */
static hyp_status write_args(prover *p, const application *app, const hyp_pat *args, uint32_t count,
                             hyp_proof_query *out)
{
    term *t;
    const hyp_pat whole = {.kind = HYP_PAT_NODE, .count = count, .kids = (hyp_pat *)args};
    HYP_TRY(write_instance(p, app, &whole, false, &t));
    const char **texts = hyp_arena_alloc(p->out, t->count * sizeof *texts);
    if (!texts) return hyp_fail_memory(p->diag, t->count * sizeof *texts);
    for (uint32_t j = 0; j < t->count; j++) HYP_TRY(text_of(p, t->kids[j], &texts[j]));
    out->args = texts;
    out->arg_count = t->count;
    return HYP_OK;
}

static hyp_status add_query(prover *p, query_list *list, uint32_t callback, hyp_proof_query query)
{
    query.name = hyp_arena_strdup(p->out, p->eg->callback_names.names.data[callback]);
    if (!query.name) return hyp_fail_memory(p->diag, 0);
    HYP_TRY(hyp_vec_grow(list, p->diag));
    list->data[list->len - 1] = query;
    return HYP_OK;
}

/* The functions of a term that were called, those among the arguments first. */
static hyp_status write_calls(prover *p, const application *app, const hyp_pat *pat, query_list *list)
{
    for (uint32_t j = 0; j < pat->count; j++) HYP_TRY(write_calls(p, app, &pat->kids[j], list));
    if (pat->kind != HYP_PAT_CALL || app->right[pat->index] == HYP_NONE) return HYP_OK;
    hyp_proof_query query = {.answer = HYP_ANSWER_TERM};
    term *result;
    HYP_TRY(write_args(p, app, pat->kids, pat->count, &query));
    HYP_TRY(write_row(p, app->right[pat->index], &result));
    HYP_TRY(text_of(p, result, &query.result));
    return add_query(p, list, pat->callback, query);
}

static hyp_status write_answers(prover *p, const application *app, const hyp_cond *cond, query_list *list)
{
    if (cond->kind != HYP_COND_CALL) {
        for (uint32_t i = 0; i < cond->count; i++) HYP_TRY(write_answers(p, app, &cond->kids[i], list));
        return HYP_OK;
    }
    uint32_t answer = app->right[cond->index];
    if (answer == HYP_NONE) return HYP_OK; /* decided before */
    hyp_proof_query query = {.answer = (hyp_answer)answer};
    bool complete = true;
    for (uint32_t j = 0; j < cond->count; j++) {
        HYP_TRY(write_calls(p, app, &cond->args[j], list));
        complete = complete && was_called(app, &cond->args[j]);
    }
    if (complete) HYP_TRY(write_args(p, app, cond->args, cond->count, &query));
    return add_query(p, list, cond->callback, query);
}

static hyp_status write_queries(prover *p, const application *app, hyp_proof_step *step)
{
    query_list list = {0};
    hyp_status status = HYP_OK;
    if (app->rule->cond) status = write_answers(p, app, app->rule->cond, &list);
    if (status == HYP_OK && !app->action->root) status = write_calls(p, app, &app->action->left, &list);
    if (status == HYP_OK) status = write_calls(p, app, &app->action->right, &list);
    if (status == HYP_OK && list.len) {
        step->queries = keep(p, list.data, list.len * sizeof *list.data);
        step->query_count = list.len;
        if (!step->queries) status = hyp_fail_memory(p->diag, list.len * sizeof *list.data);
    }
    hyp_vec_free(&list);
    return status;
}

static hyp_status cut_detours(prover *p);

/* The proof that a root of a multi-pattern is what was matched. */
static hyp_status prove_part(prover *p, const application *app, const hyp_pat *root, hyp_proof *out)
{
    step_list outer = p->steps;
    term *whole = p->whole;
    uint32_t from = app->variable[root->reg];
    p->steps = (step_list){0};
    hyp_status status = write_row(p, from, &p->whole);
    if (status == HYP_OK) status = add_step(p, (hyp_proof_step){.forward = true});
    if (status == HYP_OK) status = walk_path(p, &p->whole, from, app->left[root->index]);
    if (status == HYP_OK) status = fit(p, app, root, true, true, &p->whole);
    if (status == HYP_OK) status = cut_detours(p);
    if (status == HYP_OK) {
        out->steps = keep(p, p->steps.data, p->steps.len * sizeof *p->steps.data);
        out->count = p->steps.len;
        if (!out->steps) status = hyp_fail_memory(p->diag, p->steps.len * sizeof *p->steps.data);
    }
    hyp_vec_free(&p->steps);
    p->steps = outer;
    p->whole = whole;
    return status;
}

static hyp_status prove_parts(prover *p, const application *app, hyp_proof_step *step)
{
    if (!app->rule->multi) return HYP_OK;
    hyp_proof *parts = hyp_arena_zalloc(p->out, app->rule->left_count, sizeof *parts);
    if (!parts) return hyp_fail_memory(p->diag, app->rule->left_count * sizeof *parts);
    for (uint32_t i = 0; i < app->rule->left_count; i++) HYP_TRY(prove_part(p, app, &app->rule->left[i], &parts[i]));
    step->parts = parts;
    step->part_count = app->rule->left_count;
    return HYP_OK;
}

/* Works off an edge made by a rule, from `from` to `to`. */
static hyp_status apply_rule(prover *p, term **at, uint32_t offset, bool forward, uint32_t from, uint32_t to)
{
    application app;
    HYP_TRY(read_application(p, offset, &app));
    const hyp_pat *left = app.action->root ? app.action->root : &app.action->left, *right = &app.action->right;
    bool matched = app.action->root != NULL;
    const hyp_pat *before = forward ? left : right, *after = forward ? right : left;
    bool before_left = forward && matched, after_left = !forward && matched;
    /* A variable's term need not be the one that the edge ends at. */
    HYP_TRY(walk_path(p, at, from, stands_for(&app, before, before_left)));
    HYP_TRY(fit(p, &app, before, before_left, true, at));
    p->measured++;
    if (!at) {
        HYP_TRY(fit(p, &app, after, after_left, false, at));
        return walk_path(p, at, stands_for(&app, after, after_left), to);
    }
    hyp_proof_step step = {.rule = app.rule->info.name, .forward = forward};
    HYP_TRY(write_queries(p, &app, &step));
    HYP_TRY(prove_parts(p, &app, &step));
    HYP_TRY(write_instance(p, &app, after, after_left, at));
    HYP_TRY(add_step(p, step));
    HYP_TRY(fit(p, &app, after, after_left, false, at));
    return walk_path(p, at, stands_for(&app, after, after_left), to);
}

/* ---- paths -------------------------------------------------------------------------------------- */

/* Works off one edge. */
static hyp_status cross(prover *p, term **at, const hyp_edge *e)
{
    const uint32_t *record = p->eg->proofs.apps.data + (e->why >> 1);
    bool forward = !(e->why & 1);
    if (e->why == HYP_EDGE_CONGRUENT || record[HYP_APP_RULESET] == HYP_APP_CONGRUENT) {
        uint32_t n;
        const uint32_t *a = hyp_given(p->eg, e->a, &n), *b = hyp_given(p->eg, e->b, &n);
        for (uint32_t j = 0; j < n; j++) HYP_TRY(walk_path(p, at ? &(*at)->kids[j] : NULL, a[j], b[j]));
        return HYP_OK;
    }
    if (record[HYP_APP_RULESET] != HYP_NONE) return apply_rule(p, at, e->why >> 1, forward, e->a, e->b);
    p->measured++;
    if (!at) return HYP_OK;
    const char *reason = hyp_egraph_symbol_name(p->eg, record[HYP_APP_REASON]);
    HYP_TRY(write_row(p, e->b, at));
    return add_step(p, (hyp_proof_step){.rule = reason, .stated = true, .forward = forward});
}

/* The steps that crossing an edge takes. */
static hyp_status measure(void *user, const hyp_edge *e, uint32_t *out)
{
    prover *p = user;
    uint64_t before = p->measured;
    p->measured = 0;
    HYP_TRY(cross(p, NULL, e));
    *out = p->measured < UINT32_MAX ? (uint32_t)p->measured : UINT32_MAX;
    p->measured = before;
    return HYP_OK;
}

/* Turns the term T(from) at `at` into T(to), or only counts the steps of it if that is NULL. */
static hyp_status walk_path(prover *p, term **at, uint32_t from, uint32_t to)
{
    if (from == to) return HYP_OK;
    hyp_way way;
    uint32_t cost;
    HYP_TRY(enter(p));
    if (!at) {
        HYP_TRY(hyp_forest_cost(p->router, from, to, &cost));
        p->measured += cost;
    } else {
        HYP_TRY(hyp_route(p->router, from, to, p->bound, &way, p->diag));
        uint64_t bound = p->bound;
        for (uint32_t i = 0; i < way.count; i++) {
            p->bound = hyp_edge_rank(&way.edges[i]); /* its proof uses older equalities only */
            HYP_TRY(cross(p, at, &way.edges[i]));
        }
        p->bound = bound;
    }
    p->depth--;
    return HYP_OK;
}

/* ---- the call ----------------------------------------------------------------------------------- */

/* A term that was asked about, with the e-node that each part of it is found as. */
typedef struct asked {
    hyp_symbol symbol;
    uint32_t row, count;
    struct asked *kids;
} asked;

static hyp_status read_asked(prover *p, const hyp_sexpr *sx, asked *out)
{
    const hyp_sexpr *head = sx->kind == HYP_SX_LIST ? (sx->count ? sx->items[0] : NULL) : sx;
    if (!head || head->kind == HYP_SX_LIST)
        return hyp_sexpr_fail(p->diag, "term", sx, HYP_ERR_MALFORMED, "a term in parentheses begins with an operator");
    uint32_t op = HYP_NONE, n = out->count = sx->kind == HYP_SX_LIST ? sx->count - 1 : 0;
    uint32_t *kids = take(p, n * sizeof *kids);
    out->kids = take(p, n * sizeof *out->kids);
    if (!kids || !out->kids) return hyp_fail_memory(p->diag, n * sizeof *out->kids);
    for (uint32_t j = 0; j < n; j++) {
        HYP_TRY(read_asked(p, sx->items[j + 1], &out->kids[j]));
        kids[j] = hyp_eg_find(p->eg, out->kids[j].row);
    }
    if (hyp_intern_find(&p->eg->symbols, head->text, strlen(head->text), &out->symbol))
        op = hyp_eg_op_find(p->eg, out->symbol, n);
    out->row = op == HYP_NONE ? HYP_NONE : hyp_eg_lookup(p->eg, op, kids);
    if (out->row != HYP_NONE) return HYP_OK;
    return hyp_sexpr_fail(p->diag, "term", sx, HYP_ERR_INVALID_ARGUMENT, "the term of '%s' is not in the e-graph",
                          head->text);
}

static hyp_status write_asked(prover *p, const asked *a, term **out)
{
    HYP_TRY(new_term(p, a->symbol, a->count, out));
    for (uint32_t j = 0; j < a->count; j++) HYP_TRY(write_asked(p, &a->kids[j], &(*out)->kids[j]));
    return HYP_OK;
}

/* The asked term at `at` becomes T of its e-node, or the other way round. */
static hyp_status settle(prover *p, const asked *a, bool to_row, term **at)
{
    uint32_t n;
    const uint32_t *kids = hyp_given(p->eg, a->row, &n);
    for (uint32_t j = 0; j < n; j++) {
        term **below = &(*at)->kids[j];
        if (!to_row) HYP_TRY(walk_path(p, below, kids[j], a->kids[j].row));
        HYP_TRY(settle(p, &a->kids[j], to_row, below));
        if (to_row) HYP_TRY(walk_path(p, below, a->kids[j].row, kids[j]));
    }
    return HYP_OK;
}

static hyp_status read_text(prover *p, const char *text, asked *out)
{
    const hyp_sexpr *forms;
    HYP_TRY(hyp_sexpr_parse(&p->work, "term", text, strlen(text), &forms, p->diag));
    if (forms->count != 1)
        return hyp_fail(p->diag, HYP_ERR_MALFORMED, "one term was wanted, %u were found in: %s", forms->count, text);
    return read_asked(p, forms->items[0], out);
}

/* Where a proof comes back to a term that it had before, the detour is left out. */
static hyp_status cut_detours(prover *p)
{
    hyp_intern seen = {0}; /* terms; place[id] is where one was kept, if it still is */
    hyp_status status = HYP_OK;
    HYP_VEC(size_t) place = {0};
    size_t kept = 0;
    for (size_t i = 0; i < p->steps.len && status == HYP_OK; i++) {
        uint32_t id;
        const char *text = p->steps.data[i].term;
        status = hyp_intern_add(&seen, text, strlen(text), &id, p->diag);
        bool known = status == HYP_OK && id < place.len;
        if (status == HYP_OK && !known) status = hyp_vec_grow(&place, p->diag);
        if (status != HYP_OK) break;
        bool again = known && place.data[id] < kept && strcmp(p->steps.data[place.data[id]].term, text) == 0;
        if (again) {
            kept = place.data[id] + 1;
        } else {
            place.data[id] = kept;
            p->steps.data[kept++] = p->steps.data[i];
        }
    }
    if (status == HYP_OK) p->steps.len = kept;
    hyp_vec_free(&place);
    hyp_intern_dispose(&seen);
    return status;
}

static hyp_status prove(prover *p, const char *a, const char *b)
{
    asked from, to;
    HYP_TRY(read_text(p, a, &from));
    HYP_TRY(read_text(p, b, &to));
    if (hyp_eg_find(p->eg, from.row) != hyp_eg_find(p->eg, to.row))
        return hyp_fail(p->diag, HYP_ERR_MISMATCH, "these terms are not known to be equal: %s and %s", a, b);
    HYP_TRY(write_asked(p, &from, &p->whole));
    HYP_TRY(add_step(p, (hyp_proof_step){.forward = true}));
    HYP_TRY(settle(p, &from, true, &p->whole));
    HYP_TRY(walk_path(p, &p->whole, from.row, to.row));
    HYP_TRY(settle(p, &to, false, &p->whole));
    return cut_detours(p);
}

hyp_status hyp_egraph_explain(hyp_egraph *eg, const char *a, const char *b, hyp_proof *out, hyp_diag *diag)
{
    *out = (hyp_proof){0};
    if (!eg->explain) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "this e-graph was made without options.explain");
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before it explains");
    hyp_arena *texts = hyp_calloc(1, sizeof *texts);
    if (!texts) return hyp_fail_memory(diag, sizeof *texts);
    prover p = {.eg = eg, .out = texts, .bound = HYP_ANY_RANK, .diag = diag};
    hyp_status status = hyp_router_create(eg, measure, &p, &p.router, diag);
    if (status == HYP_OK) status = prove(&p, a, b);
    hyp_router_destroy(p.router);
    hyp_arena_dispose(&p.work);
    out->steps = p.steps.data;
    out->count = p.steps.len;
    out->memory = texts;
    if (status != HYP_OK) hyp_proof_dispose(out);
    return status;
}

void hyp_proof_dispose(hyp_proof *proof)
{
    hyp_arena *texts = proof->memory;
    if (texts) hyp_arena_dispose(texts);
    hyp_free(texts);
    hyp_free(proof->steps);
    *proof = (hyp_proof){0};
}
