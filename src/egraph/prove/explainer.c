/* What proofs are asked about, and by whom: two texts or two e-nodes, once, or many times of one e-graph. */
#include "egraph/prove/explainer.h"

#include <string.h>

#include "base/sexpr.h"
#include "egraph/prove/lemmas.h"

/* ---- what is asked ------------------------------------------------------------------------------ */

/* A term that was asked about, with the e-node that each part of it is found as. */
typedef struct asked {
    hyp_symbol symbol;
    uint32_t row, count;
    struct asked *kids;
} asked;

static hyp_status read_asked(hyp_prover *p, const hyp_sexpr *sx, asked *out)
{
    const hyp_sexpr *head = sx->kind == HYP_SX_LIST ? (sx->count ? sx->items[0] : NULL) : sx;
    if (!head || head->kind == HYP_SX_LIST)
        return hyp_sexpr_fail(p->diag, "term", sx, HYP_ERR_MALFORMED, "a term in parentheses begins with an operator");
    uint32_t op = HYP_NONE, n = out->count = sx->kind == HYP_SX_LIST ? sx->count - 1 : 0;
    uint32_t *kids = hyp_prover_take(p, n * sizeof *kids);
    out->kids = hyp_prover_take(p, n * sizeof *out->kids);
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

/* The asked term is T of its e-node. */
static hyp_status settle(hyp_prover *p, const asked *a, hyp_lemma_use *out)
{
    uint32_t n;
    const uint32_t *given = hyp_given(p->eg, a->row, &n);
    hyp_lemma_use *uses = hyp_prover_take(p, n * sizeof *uses);
    if (!uses) return hyp_fail_memory(p->diag, n * sizeof *uses);
    for (uint32_t j = 0; j < n; j++) {
        hyp_lemma_use to_row, to_given;
        hyp_chain chain = {0};
        HYP_TRY(settle(p, &a->kids[j], &to_row));
        HYP_TRY(hyp_prove_rows(p, a->kids[j].row, given[j], &to_given));
        hyp_status status = hyp_chain_add(p, &chain, to_row);
        if (status == HYP_OK) status = hyp_chain_add(p, &chain, to_given);
        HYP_TRY(hyp_chain_close(p, status, &chain, to_row.from, to_given.to, &uses[j]));
    }
    return hyp_prover_congruence(p, a->symbol, uses, n, out);
}

static hyp_status read_text(hyp_prover *p, const char *text, asked *out)
{
    const hyp_sexpr *forms;
    HYP_TRY(hyp_sexpr_parse(&p->work, "term", text, strlen(text), &forms, p->diag));
    if (forms->count != 1)
        return hyp_fail(p->diag, HYP_ERR_MALFORMED, "one term was wanted, %u were found in: %s", forms->count, text);
    return read_asked(p, forms->items[0], out);
}

/* What a proof is asked about: two texts, or two e-nodes. */
typedef struct question {
    const char *a, *b; /* NULL: the e-nodes */
    hyp_enode_id from, to;
} question;

static hyp_status prove_texts(hyp_prover *p, const question *q, hyp_lemma_use *out)
{
    asked from, to;
    hyp_lemma_use first, middle, last;
    hyp_chain chain = {0};
    HYP_TRY(read_text(p, q->a, &from));
    HYP_TRY(read_text(p, q->b, &to));
    if (hyp_eg_find(p->eg, from.row) != hyp_eg_find(p->eg, to.row))
        return hyp_fail(p->diag, HYP_ERR_MISMATCH, "these terms are not known to be equal: %s and %s", q->a, q->b);
    HYP_TRY(settle(p, &from, &first));
    HYP_TRY(settle(p, &to, &last));
    HYP_TRY(hyp_prove_rows(p, from.row, to.row, &middle));
    hyp_status status = hyp_chain_add(p, &chain, first);
    if (status == HYP_OK) status = hyp_chain_add(p, &chain, middle);
    if (status == HYP_OK) status = hyp_chain_add(p, &chain, hyp_use_reversed(last));
    return hyp_chain_close(p, status, &chain, first.from, last.from, out);
}

static hyp_status prove(hyp_prover *p, const question *q, hyp_lemma_use *out)
{
    if (q->a) return prove_texts(p, q, out);
    if (q->from >= p->eg->row_count || q->to >= p->eg->row_count)
        return hyp_fail(p->diag, HYP_ERR_INVALID_ARGUMENT, "there are e-nodes 0 to %zu", p->eg->row_count - 1);
    if (hyp_eg_find(p->eg, q->from) != hyp_eg_find(p->eg, q->to))
        return hyp_fail(p->diag, HYP_ERR_MISMATCH, "e-nodes %u and %u are not known to be equal", q->from, q->to);
    return hyp_prove_rows(p, q->from, q->to, out);
}

/* ---- one prover, many questions ------------------------------------------------------------------ */

/* `kept` and `out` are where the proofs' terms and lemmas lie. `own`: the router is the prover's, else the e-graph's. */
static hyp_status prover_open(hyp_prover *p, hyp_egraph *eg, bool own, hyp_arena *kept, hyp_arena *out, hyp_diag *diag)
{
    *p = (hyp_prover){.eg = eg, .kept = kept, .out = out, .bound = HYP_ANY_RANK, .diag = diag};
    if (!eg->explain) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "this e-graph was made without options.explain");
    if (!hyp_eg_readable(eg))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "an e-graph must be rebuilt before it explains");
    hyp_proof_sort_given(eg);
    return (own ? hyp_router_create : hyp_router_kept)(eg, hyp_prove_measure, p, &p->router, diag);
}

/* Forgets everything but terms: lemmas depend on what is asked. */
static void prover_begin(hyp_prover *p, hyp_diag *diag)
{
    hyp_router_begin(p->router, p);
    hyp_numbering_dispose(&p->pairs);
    hyp_numbering_dispose(&p->applications);
    p->lemmas.len = p->knowns.len = p->applied.len = p->stack.len = 0;
    p->bound = HYP_ANY_RANK;
    p->counting = false;
    p->measured = 0;
    p->used = 0;
    p->depth = 0;
    p->diag = diag;
    hyp_arena_dispose(&p->work);
}

/* All but the lists of the proof, and the router. */
static void prover_close(hyp_prover *p)
{
    hyp_numbering_dispose(&p->spines);
    hyp_numbering_dispose(&p->pairs);
    hyp_numbering_dispose(&p->applications);
    hyp_numbering_dispose(&p->named);
    hyp_numbering_dispose(&p->met);
    hyp_vec_free(&p->term_of);
    hyp_vec_free(&p->names);
    hyp_vec_free(&p->row_terms);
    hyp_vec_free(&p->knowns);
    hyp_vec_free(&p->applied);
    hyp_vec_free(&p->stack);
    hyp_vec_free(&p->place);
    hyp_arena_dispose(&p->work);
}

/* ---- the calls ----------------------------------------------------------------------------------- */

static void take_lists(const hyp_prover *p, hyp_shared_proof *out)
{
    out->terms = p->terms.data;
    out->term_count = p->terms.len;
    out->lemmas = p->lemmas.data;
    out->lemma_count = p->lemmas.len;
}

static hyp_status explain(hyp_egraph *eg, const question *q, hyp_shared_proof *out, hyp_diag *diag)
{
    HYP_NEED(out);
    *out = (hyp_shared_proof){0};
    HYP_NEED(eg);
    hyp_arena *lists = hyp_calloc(1, sizeof *lists);
    if (!lists) return hyp_fail_memory(diag, sizeof *lists);
    hyp_prover p;
    hyp_status status = prover_open(&p, eg, false, lists, lists, diag);
    if (status == HYP_OK) status = prove(&p, q, &out->claim);
    if (status == HYP_OK) status = hyp_prover_keep_needed(&p, &out->claim, NULL);
    prover_close(&p);
    take_lists(&p, out);
    out->memory = lists;
    if (status != HYP_OK) hyp_shared_proof_dispose(out);
    return status;
}

hyp_status hyp_egraph_explain_shared(hyp_egraph *eg, const char *a, const char *b, hyp_shared_proof *out,
                                     hyp_diag *diag)
{
    return explain(eg, &(question){.a = a, .b = b}, out, diag);
}

hyp_status hyp_egraph_explain_nodes(hyp_egraph *eg, hyp_enode_id a, hyp_enode_id b, hyp_shared_proof *out,
                                    hyp_diag *diag)
{
    return explain(eg, &(question){.from = a, .to = b}, out, diag);
}

void hyp_shared_proof_dispose(hyp_shared_proof *proof)
{
    if (!proof) return;
    hyp_arena *lists = proof->memory;
    if (lists) hyp_arena_dispose(lists);
    hyp_free(lists);
    hyp_free(proof->terms);
    hyp_free(proof->lemmas);
    *proof = (hyp_shared_proof){0};
}

struct hyp_explainer {
    hyp_prover p;
    hyp_arena terms, lemmas;
    hyp_shared_proof proof;
};

hyp_status hyp_explainer_create(hyp_egraph *eg, hyp_explainer **out, hyp_diag *diag)
{
    hyp_explainer *x = *out = hyp_calloc(1, sizeof *x);
    if (!x) return hyp_fail_memory(diag, sizeof *x);
    hyp_status status = prover_open(&x->p, eg, true, &x->terms, &x->lemmas, diag);
    if (status == HYP_OK) return HYP_OK;
    hyp_explainer_destroy(x);
    *out = NULL;
    return status;
}

void hyp_explainer_destroy(hyp_explainer *x)
{
    if (!x) return;
    hyp_router_destroy(x->p.router);
    prover_close(&x->p);
    hyp_vec_free(&x->p.terms);
    hyp_vec_free(&x->p.lemmas);
    hyp_arena_dispose(&x->terms);
    hyp_arena_dispose(&x->lemmas);
    hyp_free(x);
}

hyp_status hyp_explainer_nodes(hyp_explainer *x, hyp_enode_id a, hyp_enode_id b, const hyp_shared_proof **out,
                               size_t *out_terms, hyp_diag *diag)
{
    hyp_prover *p = &x->p;
    hyp_arena_dispose(&x->lemmas);
    prover_begin(p, diag);
    HYP_TRY(prove(p, &(question){.from = a, .to = b}, &x->proof.claim));
    HYP_TRY(hyp_prover_keep_needed(p, &x->proof.claim, out_terms));
    take_lists(p, &x->proof);
    *out = &x->proof;
    return HYP_OK;
}
