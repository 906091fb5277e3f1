/* Terms and lemmas of a proof: each is made once and refers to earlier ones only. */
#include <string.h>

#include "egraph/prove/lemmas.h"

enum { DEPTH_LIMIT = 5000 };         /* nested calls: bounds the stack */
#define SIZE_LIMIT ((size_t)1 << 28) /* bytes of a proof */

void *hyp_prover_take(hyp_prover *p, size_t size)
{
    p->used += size;
    return hyp_arena_alloc(&p->work, size);
}

static void *copy_to(hyp_prover *p, hyp_arena *arena, const void *from, size_t size)
{
    void *copy = hyp_arena_alloc(arena, size);
    p->used += size;
    return copy && size ? memcpy(copy, from, size) : copy;
}

void *hyp_prover_keep(hyp_prover *p, const void *from, size_t size) { return copy_to(p, p->out, from, size); }

hyp_status hyp_prover_enter(hyp_prover *p)
{
    if (++p->depth > DEPTH_LIMIT || p->used > SIZE_LIMIT)
        return hyp_fail(p->diag, HYP_ERR_LIMIT, "this proof is too large");
    return HYP_OK;
}

/* ---- terms -------------------------------------------------------------------------------------- */

hyp_status hyp_prover_name(hyp_prover *p, hyp_symbol symbol, const char **out)
{
    uint32_t at;
    HYP_TRY(hyp_number(&p->named, symbol, 0, 0, &at, p->diag));
    while (p->names.len <= at) HYP_TRY(hyp_vec_push(&p->names, p->diag, NULL));
    const char **name = &p->names.data[at];
    if (!*name) *name = hyp_arena_strdup(p->kept, hyp_egraph_symbol_name(p->eg, symbol));
    *out = *name;
    return *out ? HYP_OK : hyp_fail_memory(p->diag, 0);
}

static hyp_status spine(hyp_prover *p, uint64_t before, uint32_t next, uint32_t is_kid, uint32_t *out)
{
    HYP_TRY(hyp_number(&p->spines, before, next, is_kid, out, p->diag));
    if (*out < p->term_of.len) return HYP_OK;
    return hyp_vec_push(&p->term_of, p->diag, HYP_NONE);
}

hyp_status hyp_prover_term(hyp_prover *p, hyp_symbol symbol, const uint32_t *kids, uint32_t count, uint32_t *out)
{
    uint32_t at;
    HYP_TRY(spine(p, symbol, count, 0, &at));
    for (uint32_t j = 0; j < count; j++) HYP_TRY(spine(p, at, kids[j], 1, &at));
    *out = p->term_of.data[at];
    if (*out != HYP_NONE) return HYP_OK;
    hyp_shared_term t = {.kids = copy_to(p, p->kept, kids, count * sizeof *kids), .count = count};
    HYP_TRY(hyp_prover_name(p, symbol, &t.op));
    if (!t.kids) return hyp_fail_memory(p->diag, count * sizeof *kids);
    HYP_TRY(hyp_vec_push(&p->terms, p->diag, t));
    HYP_TRY(hyp_vec_push(&p->place, p->diag, 0));
    *out = p->term_of.data[at] = (uint32_t)p->terms.len - 1;
    p->used += sizeof t;
    return p->used > SIZE_LIMIT ? hyp_fail(p->diag, HYP_ERR_LIMIT, "this proof is too large") : HYP_OK;
}

/* Where T(row) is noted, until another one is met. */
static hyp_status term_at(hyp_prover *p, uint32_t row, uint32_t **out)
{
    uint32_t at;
    HYP_TRY(hyp_number(&p->met, row, 0, 0, &at, p->diag));
    while (p->row_terms.len <= at) HYP_TRY(hyp_vec_push(&p->row_terms, p->diag, HYP_NONE));
    *out = &p->row_terms.data[at];
    return HYP_OK;
}

/* The terms of a row's children as they were given; those that are not known are put on the stack, and *out is NULL. */
static hyp_status kids_of_row(hyp_prover *p, uint32_t row, uint32_t **out, uint32_t *out_count)
{
    const uint32_t *given = hyp_given(p->eg, row, out_count);
    uint32_t *kids = hyp_prover_take(p, *out_count * sizeof *kids), *at;
    size_t before = p->stack.len;
    if (!kids) return hyp_fail_memory(p->diag, *out_count * sizeof *kids);
    for (uint32_t j = 0; j < *out_count; j++) {
        HYP_TRY(term_at(p, given[j], &at));
        kids[j] = *at;
        if (*at == HYP_NONE) HYP_TRY(hyp_vec_push(&p->stack, p->diag, given[j]));
    }
    *out = p->stack.len > before ? NULL : kids;
    return HYP_OK;
}

/* T(row). Terms may be nested deeper than calls could be. */
hyp_status hyp_prover_term_of_row(hyp_prover *p, uint32_t row, uint32_t *out)
{
    size_t base = p->stack.len;
    uint32_t *at, *kids, n;
    HYP_TRY(term_at(p, row, &at));
    if (*at == HYP_NONE) HYP_TRY(hyp_vec_push(&p->stack, p->diag, row));
    while (p->stack.len > base) {
        uint32_t top = p->stack.data[p->stack.len - 1], made;
        HYP_TRY(term_at(p, top, &at));
        if (*at == HYP_NONE) {
            HYP_TRY(kids_of_row(p, top, &kids, &n));
            if (!kids) continue;
            HYP_TRY(hyp_prover_term(p, hyp_enode_op(p->eg, top), kids, n, &made));
            HYP_TRY(term_at(p, top, &at));
            *at = made;
        }
        p->stack.len--; /* it may be there twice */
    }
    HYP_TRY(term_at(p, row, &at));
    *out = *at;
    return HYP_OK;
}

/* ---- lemmas ------------------------------------------------------------------------------------- */

hyp_status hyp_prover_add_lemma(hyp_prover *p, hyp_lemma lemma, uint32_t *out)
{
    HYP_TRY(hyp_vec_push(&p->lemmas, p->diag, lemma));
    *out = (uint32_t)p->lemmas.len - 1;
    p->used += sizeof lemma;
    return HYP_OK;
}

/* A lemma that rests on `uses`, which are copied. */
static hyp_status add_made(hyp_prover *p, hyp_lemma_kind kind, uint32_t from, uint32_t to, const hyp_lemma_use *uses,
                           size_t count, hyp_lemma_use *out)
{
    hyp_lemma lemma = {
        .kind = kind, .from = from, .to = to, .uses = hyp_prover_keep(p, uses, count * sizeof *uses), .use_count = count};
    if (!lemma.uses) return hyp_fail_memory(p->diag, count * sizeof *uses);
    out->from = from;
    out->to = to;
    return hyp_prover_add_lemma(p, lemma, &out->lemma);
}

hyp_status hyp_prover_same(hyp_prover *p, uint32_t row, hyp_lemma_use *out)
{
    HYP_TRY(hyp_prover_term_of_row(p, row, &out->from));
    out->to = out->from;
    out->lemma = HYP_NONE;
    return HYP_OK;
}

/* An operator over children that are equal. */
hyp_status hyp_prover_congruence(hyp_prover *p, hyp_symbol symbol, const hyp_lemma_use *kids, uint32_t count,
                             hyp_lemma_use *out)
{
    uint32_t *terms = hyp_prover_take(p, count * sizeof *terms), from, to;
    if (!terms) return hyp_fail_memory(p->diag, count * sizeof *terms);
    for (uint32_t j = 0; j < count; j++) terms[j] = kids[j].from;
    HYP_TRY(hyp_prover_term(p, symbol, terms, count, &from));
    for (uint32_t j = 0; j < count; j++) terms[j] = kids[j].to;
    HYP_TRY(hyp_prover_term(p, symbol, terms, count, &to));
    *out = (hyp_lemma_use){from, to, HYP_NONE};
    return from == to ? HYP_OK : add_made(p, HYP_LEMMA_CONGRUENCE, from, to, kids, count, out);
}

hyp_status hyp_chain_add(hyp_prover *p, hyp_chain *chain, hyp_lemma_use use)
{
    if (use.from == use.to) return HYP_OK;
    return hyp_vec_push(chain, p->diag, use);
}

/* Where a chain comes back to a term that it had before, the detour is left out. */
static void cut_detours(hyp_prover *p, hyp_chain *chain)
{
    uint32_t *place = p->place.data; /* 1 + how many uses come before the term */
    size_t kept = 0;
    place[chain->data[0].from] = 1;
    for (size_t i = 0; i < chain->len; i++) {
        hyp_lemma_use use = chain->data[i];
        size_t again = place[use.to];
        if (!again) {
            chain->data[kept++] = use;
            place[use.to] = (uint32_t)kept + 1;
            continue;
        }
        for (; kept > again - 1; kept--) place[chain->data[kept - 1].to] = 0;
    }
    place[chain->data[0].from] = 0;
    for (size_t i = 0; i < kept; i++) place[chain->data[i].to] = 0;
    chain->len = kept;
}

/* The equality that a chain proves of two terms. Frees the chain, also when `status` is a failure, which is handed on. */
hyp_status hyp_chain_close(hyp_prover *p, hyp_status status, hyp_chain *chain, uint32_t from, uint32_t to,
                              hyp_lemma_use *out)
{
    *out = (hyp_lemma_use){from, to, HYP_NONE};
    if (status == HYP_OK && chain->len) cut_detours(p, chain);
    if (status == HYP_OK && chain->len == 1) *out = chain->data[0];
    if (status == HYP_OK && chain->len > 1)
        status = add_made(p, HYP_LEMMA_CHAIN, from, to, chain->data, chain->len, out);
    hyp_vec_free(chain);
    return status;
}

/* ---- what is needed ------------------------------------------------------------------------------ */

/* New numbers of terms and lemmas: those that the claim needs, in their order. */
typedef struct renumbering {
    uint32_t *terms, *lemmas; /* HYP_NONE: not needed; first any other value */
} renumbering;

static void need(renumbering *r, hyp_lemma_use use)
{
    r->terms[use.from] = r->terms[use.to] = 0;
    if (use.lemma != HYP_NONE) r->lemmas[use.lemma] = 0;
}

static void mark_needed(const hyp_prover *p, hyp_lemma_use claim, renumbering *r)
{
    need(r, claim);
    for (size_t i = p->lemmas.len; i-- > 0;) {
        const hyp_lemma *l = &p->lemmas.data[i];
        if (r->lemmas[i] == HYP_NONE) continue;
        r->terms[l->from] = r->terms[l->to] = 0;
        for (size_t k = 0; k < l->use_count; k++) need(r, l->uses[k]);
        for (size_t k = 0; k < l->query_count; k++) {
            const hyp_shared_query *q = &l->queries[k];
            for (size_t j = 0; j < q->arg_count; j++) r->terms[q->args[j]] = 0;
            if (q->answer == HYP_ANSWER_TERM) r->terms[q->result] = 0;
        }
    }
    for (size_t i = p->terms.len; i-- > 0;)
        for (uint32_t j = 0; r->terms[i] != HYP_NONE && j < p->terms.data[i].count; j++)
            r->terms[p->terms.data[i].kids[j]] = 0;
}

static hyp_lemma_use renumbered(const renumbering *r, hyp_lemma_use use)
{
    uint32_t lemma = use.lemma == HYP_NONE ? HYP_NONE : r->lemmas[use.lemma];
    return (hyp_lemma_use){r->terms[use.from], r->terms[use.to], lemma};
}

/* The lists of a proof are ours until it is given out: they are changed where they lie. */
static void renumber_terms(hyp_prover *p, renumbering *r)
{
    size_t terms = 0;
    for (size_t i = 0; i < p->terms.len; i++) {
        hyp_shared_term *t = &p->terms.data[i];
        if (r->terms[i] == HYP_NONE) continue;
        r->terms[i] = (uint32_t)terms;
        for (uint32_t j = 0; j < t->count; j++) ((uint32_t *)t->kids)[j] = r->terms[t->kids[j]];
        p->terms.data[terms++] = *t;
    }
    p->terms.len = terms;
}

/* Counts the terms that are needed; each keeps its number. */
static size_t count_terms(const hyp_prover *p, renumbering *r)
{
    size_t count = 0;
    for (size_t i = 0; i < p->terms.len; i++) {
        count += r->terms[i] != HYP_NONE;
        r->terms[i] = (uint32_t)i;
    }
    return count;
}

static void renumber_lemmas(hyp_prover *p, renumbering *r)
{
    size_t lemmas = 0;
    for (size_t i = 0; i < p->lemmas.len; i++) {
        hyp_lemma *l = &p->lemmas.data[i];
        if (r->lemmas[i] == HYP_NONE) continue;
        r->lemmas[i] = (uint32_t)lemmas;
        l->from = r->terms[l->from];
        l->to = r->terms[l->to];
        for (size_t k = 0; k < l->use_count; k++) ((hyp_lemma_use *)l->uses)[k] = renumbered(r, l->uses[k]);
        for (size_t k = 0; k < l->query_count; k++) {
            hyp_shared_query *q = (hyp_shared_query *)&l->queries[k];
            for (size_t j = 0; j < q->arg_count; j++) ((uint32_t *)q->args)[j] = r->terms[q->args[j]];
            if (q->answer == HYP_ANSWER_TERM) q->result = r->terms[q->result];
        }
        p->lemmas.data[lemmas++] = *l;
    }
    p->lemmas.len = lemmas;
}

hyp_status hyp_prover_keep_needed(hyp_prover *p, hyp_lemma_use *claim, size_t *out_terms)
{
    renumbering r = {hyp_arena_alloc(&p->work, p->terms.len * sizeof(uint32_t)),
                     hyp_arena_alloc(&p->work, p->lemmas.len * sizeof(uint32_t))};
    if (!r.terms || !r.lemmas) return hyp_fail_memory(p->diag, p->terms.len * sizeof(uint32_t));
    memset(r.terms, 0xff, p->terms.len * sizeof(uint32_t));
    memset(r.lemmas, 0xff, p->lemmas.len * sizeof(uint32_t));
    mark_needed(p, *claim, &r);
    if (out_terms)
        *out_terms = count_terms(p, &r);
    else
        renumber_terms(p, &r);
    renumber_lemmas(p, &r);
    *claim = renumbered(&r, *claim);
    return HYP_OK;
}
