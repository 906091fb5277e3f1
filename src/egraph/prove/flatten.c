/* A shared proof written out: the whole term after every step. The steps are worked off in place in a tree that is
 * the whole term. */
#include <string.h>

#include "base/sexpr.h"
#include "egraph/prove/shared_proof.h"
#include "egraph/rules/rule.h"

enum { DEPTH_LIMIT = 5000 };         /* nested calls: bounds the stack */
#define SIZE_LIMIT ((size_t)1 << 28) /* bytes of a proof */

typedef struct tree {
    const char *op;
    uint32_t count;
    struct tree **kids;
} tree;

typedef HYP_VEC(hyp_proof_step) step_list;

typedef struct writer {
    const hyp_shared_proof *proof;
    hyp_arena work; /* trees */
    hyp_arena *out; /* texts */
    size_t used;    /* bytes taken from both */
    unsigned depth;
    tree *whole;
    step_list steps;
    hyp_diag *diag;
} writer;

static hyp_status too_large(hyp_diag *diag)
{
    return hyp_fail(diag, HYP_ERR_LIMIT,
                    "this proof is too large to be written out term by term; ask for the shared one");
}

static hyp_status enter(writer *w)
{
    return ++w->depth > DEPTH_LIMIT || w->used > SIZE_LIMIT ? too_large(w->diag) : HYP_OK;
}

/* Refuses what has too many steps before the first one is written. */
static hyp_status count_steps(const hyp_shared_proof *proof, hyp_diag *diag)
{
    const size_t most = SIZE_LIMIT / sizeof(hyp_proof_step) + 1;
    size_t *steps = hyp_malloc((proof->lemma_count + 1) * sizeof *steps); /* of each lemma, up to `most` */
    if (!steps) return hyp_fail_memory(diag, proof->lemma_count * sizeof *steps);
    for (size_t i = 0; i < proof->lemma_count; i++) {
        const hyp_lemma *l = &proof->lemmas[i];
        steps[i] = l->kind == HYP_LEMMA_RULE || l->kind == HYP_LEMMA_STATED;
        for (size_t k = 0; k < l->use_count && steps[i] < most; k++)
            if (l->uses[k].lemma != HYP_NONE) steps[i] += steps[l->uses[k].lemma];
        if (steps[i] > most) steps[i] = most;
    }
    bool fits = proof->claim.lemma == HYP_NONE || steps[proof->claim.lemma] < most;
    hyp_free(steps);
    return fits ? HYP_OK : too_large(diag);
}

static hyp_status grow(writer *w, uint32_t term, tree **out)
{
    const hyp_shared_term *t = &w->proof->terms[term];
    HYP_TRY(enter(w));
    *out = hyp_arena_alloc(&w->work, sizeof **out);
    tree **kids = hyp_arena_alloc(&w->work, t->count * sizeof *kids);
    if (!*out || !kids) return hyp_fail_memory(w->diag, t->count * sizeof *kids);
    w->used += sizeof **out + t->count * sizeof *kids;
    **out = (tree){t->op, t->count, kids};
    for (uint32_t j = 0; j < t->count; j++) HYP_TRY(grow(w, t->kids[j], &kids[j]));
    w->depth--;
    return HYP_OK;
}

static void print(const tree *t, hyp_strbuf *sb)
{
    if (t->count) hyp_strbuf_puts(sb, "(");
    hyp_sexpr_print_symbol(sb, t->op);
    for (uint32_t j = 0; j < t->count; j++) {
        hyp_strbuf_puts(sb, " ");
        print(t->kids[j], sb);
    }
    if (t->count) hyp_strbuf_puts(sb, ")");
}

static hyp_status text_of(writer *w, const tree *t, const char **out)
{
    hyp_strbuf sb = {0};
    print(t, &sb);
    *out = sb.failed ? NULL : hyp_arena_strndup(w->out, sb.data, sb.len);
    w->used += sb.len;
    hyp_strbuf_dispose(&sb);
    return *out ? HYP_OK : hyp_fail_memory(w->diag, 0);
}

static hyp_status term_text(writer *w, uint32_t term, const char **out)
{
    tree *t;
    HYP_TRY(grow(w, term, &t));
    return text_of(w, t, out);
}

/* Notes the whole term as it is now; `step` is all else. */
static hyp_status add_step(writer *w, hyp_proof_step step)
{
    HYP_TRY(text_of(w, w->whole, &step.term));
    if (step.rule && !(step.rule = hyp_arena_strdup(w->out, step.rule))) return hyp_fail_memory(w->diag, 0);
    return hyp_vec_push(&w->steps, w->diag, step);
}

static hyp_status write_queries(writer *w, const hyp_lemma *lemma, hyp_proof_step *step)
{
    hyp_proof_query *queries = hyp_arena_zalloc(w->out, lemma->query_count, sizeof *queries);
    if (!queries) return hyp_fail_memory(w->diag, lemma->query_count * sizeof *queries);
    for (size_t i = 0; i < lemma->query_count; i++) {
        const hyp_shared_query *q = &lemma->queries[i];
        const char **args = hyp_arena_alloc(w->out, q->arg_count * sizeof *args);
        queries[i] = (hyp_proof_query){
            .name = hyp_arena_strdup(w->out, q->name), .args = args, .arg_count = q->arg_count, .answer = q->answer};
        if (!queries[i].name || !args) return hyp_fail_memory(w->diag, q->arg_count * sizeof *args);
        for (size_t j = 0; j < q->arg_count; j++) HYP_TRY(term_text(w, q->args[j], &args[j]));
        if (q->answer == HYP_ANSWER_TERM) HYP_TRY(term_text(w, q->result, &queries[i].result));
    }
    step->queries = queries;
    step->query_count = lemma->query_count;
    return HYP_OK;
}

/* Where a proof comes back to a term that it had before, the detour is left out. */
static hyp_status cut_detours(writer *w)
{
    hyp_intern seen = {0}; /* terms; place[id] is where one was kept, if it still is */
    hyp_status status = HYP_OK;
    HYP_VEC(size_t) place = {0};
    size_t kept = 0;
    for (size_t i = 0; i < w->steps.len && status == HYP_OK; i++) {
        uint32_t id;
        const char *text = w->steps.data[i].term;
        status = hyp_intern_add(&seen, text, strlen(text), &id, w->diag);
        bool known = status == HYP_OK && id < place.len;
        if (status == HYP_OK && !known) status = hyp_vec_grow(&place, w->diag);
        if (status != HYP_OK) break;
        bool again = known && place.data[id] < kept && strcmp(w->steps.data[place.data[id]].term, text) == 0;
        if (again) {
            kept = place.data[id] + 1;
        } else {
            place.data[id] = kept;
            w->steps.data[kept++] = w->steps.data[i];
        }
    }
    if (status == HYP_OK) w->steps.len = kept;
    hyp_vec_free(&place);
    hyp_intern_dispose(&seen);
    return status;
}

static hyp_status walk(writer *w, hyp_lemma_use use, tree **at);

/* From the first term of an equality to the last one. The steps are for the caller to free. */
static hyp_status write_list(writer *w, hyp_lemma_use use)
{
    HYP_TRY(grow(w, use.from, &w->whole));
    HYP_TRY(add_step(w, (hyp_proof_step){.forward = true}));
    HYP_TRY(walk(w, use, &w->whole));
    return cut_detours(w);
}

static hyp_status write_parts(writer *w, const hyp_lemma *lemma, hyp_proof_step *step)
{
    hyp_proof *parts = hyp_arena_zalloc(w->out, lemma->use_count, sizeof *parts);
    if (!parts) return hyp_fail_memory(w->diag, lemma->use_count * sizeof *parts);
    for (size_t i = 0; i < lemma->use_count; i++) {
        step_list outer = w->steps;
        tree *whole = w->whole;
        w->steps = (step_list){0};
        hyp_status status = write_list(w, lemma->uses[i]);
        size_t bytes = w->steps.len * sizeof *w->steps.data;
        if (status == HYP_OK) {
            parts[i].steps = hyp_arena_alloc(w->out, bytes);
            parts[i].count = w->steps.len;
            if (parts[i].steps)
                memcpy(parts[i].steps, w->steps.data, bytes);
            else
                status = hyp_fail_memory(w->diag, bytes);
        }
        hyp_vec_free(&w->steps);
        w->steps = outer;
        w->whole = whole;
        HYP_TRY(status);
    }
    step->parts = parts;
    step->part_count = lemma->use_count;
    return HYP_OK;
}

/* Turns the first term of an equality, at `at`, into the last one. */
static hyp_status walk(writer *w, hyp_lemma_use use, tree **at)
{
    if (use.lemma == HYP_NONE) return HYP_OK;
    const hyp_lemma *lemma = &w->proof->lemmas[use.lemma];
    bool forward = lemma->from == use.from;
    HYP_TRY(enter(w));
    if (lemma->kind == HYP_LEMMA_CHAIN || lemma->kind == HYP_LEMMA_CONGRUENCE) {
        bool chain = lemma->kind == HYP_LEMMA_CHAIN;
        for (size_t i = 0; i < lemma->use_count; i++) {
            hyp_lemma_use next = lemma->uses[chain && !forward ? lemma->use_count - 1 - i : i];
            if (!forward) next = (hyp_lemma_use){next.to, next.from, next.lemma};
            HYP_TRY(walk(w, next, chain ? at : &(*at)->kids[i]));
        }
    } else {
        hyp_proof_step step = {
            .rule = lemma->rule, .stated = lemma->kind == HYP_LEMMA_STATED, .forward = forward};
        if (lemma->query_count) HYP_TRY(write_queries(w, lemma, &step));
        if (lemma->use_count) HYP_TRY(write_parts(w, lemma, &step));
        HYP_TRY(grow(w, use.to, at));
        HYP_TRY(add_step(w, step));
    }
    w->depth--;
    return HYP_OK;
}

hyp_status hyp_shared_proof_flatten(const hyp_shared_proof *proof, hyp_proof *out, hyp_diag *diag)
{
    HYP_NEED(proof);
    HYP_NEED(out);
    *out = (hyp_proof){0};
    HYP_TRY(hyp_shared_proof_is_formed(proof, 0, NULL, diag));
    HYP_TRY(count_steps(proof, diag));
    hyp_arena *texts = hyp_calloc(1, sizeof *texts);
    if (!texts) return hyp_fail_memory(diag, sizeof *texts);
    writer w = {.proof = proof, .out = texts, .diag = diag};
    hyp_status status = write_list(&w, proof->claim);
    hyp_arena_dispose(&w.work);
    out->steps = w.steps.data;
    out->count = w.steps.len;
    out->memory = texts;
    if (status != HYP_OK) hyp_proof_dispose(out);
    return status;
}

hyp_status hyp_egraph_explain(hyp_egraph *eg, const char *a, const char *b, hyp_proof *out, hyp_diag *diag)
{
    HYP_NEED(out);
    hyp_shared_proof proof;
    *out = (hyp_proof){0};
    HYP_TRY(hyp_egraph_explain_shared(eg, a, b, &proof, diag));
    hyp_status status = hyp_shared_proof_flatten(&proof, out, diag);
    hyp_shared_proof_dispose(&proof);
    return status;
}

void hyp_proof_dispose(hyp_proof *proof)
{
    if (!proof) return;
    hyp_arena *texts = proof->memory;
    if (texts) hyp_arena_dispose(texts);
    hyp_free(texts);
    hyp_free(proof->steps);
    *proof = (hyp_proof){0};
}
