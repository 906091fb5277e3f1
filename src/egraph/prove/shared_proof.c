/* shared_proof.c - whether a shared proof has its form, and freeing one. */
#include "egraph/prove/shared_proof.h"

#include <string.h>

#define refuse(diag, ...) hyp_fail((diag), HYP_ERR_MISMATCH, __VA_ARGS__)

static hyp_status check_term(const hyp_shared_proof *p, size_t i, hyp_diag *diag)
{
    const hyp_shared_term *t = &p->terms[i];
    if (!t->op) return refuse(diag, "term %zu has no operator", i);
    for (uint32_t j = 0; j < t->count; j++)
        if (t->kids[j] >= i) return refuse(diag, "term %zu has a child that is not before it", i);
    return HYP_OK;
}

/* Whether a use may stand where the first `known` lemmas are. */
static hyp_status check_use(const hyp_shared_proof *p, hyp_lemma_use use, size_t known, hyp_diag *diag)
{
    if (use.from >= p->term_count || use.to >= p->term_count) return refuse(diag, "it is about a term that is not there");
    if (use.lemma == HYP_NONE)
        return use.from == use.to ? HYP_OK : refuse(diag, "no lemma says that two of its terms are equal");
    if (use.lemma >= known) return refuse(diag, "it uses a lemma that is not before it");
    const hyp_lemma *l = &p->lemmas[use.lemma];
    if ((l->from == use.from && l->to == use.to) || (l->from == use.to && l->to == use.from)) return HYP_OK;
    return refuse(diag, "lemma %u is not about the terms that it is used for", use.lemma);
}

static hyp_status check_congruence(const hyp_shared_proof *p, const hyp_lemma *l, hyp_diag *diag)
{
    const hyp_shared_term *a = &p->terms[l->from], *b = &p->terms[l->to];
    bool fits = a->count == b->count && l->use_count == a->count && strcmp(a->op, b->op) == 0;
    for (uint32_t j = 0; fits && j < a->count; j++) fits = l->uses[j].from == a->kids[j] && l->uses[j].to == b->kids[j];
    return fits ? HYP_OK : refuse(diag, "its terms are not one operator over the children that are equal");
}

static hyp_status check_chain(const hyp_lemma *l, hyp_diag *diag)
{
    uint32_t at = l->from;
    for (size_t i = 0; i < l->use_count; i++) {
        if (l->uses[i].from != at) return refuse(diag, "link %zu of the chain begins at another term", i);
        at = l->uses[i].to;
    }
    return at == l->to ? HYP_OK : refuse(diag, "the chain ends at another term");
}

static hyp_status check_lemma(const hyp_shared_proof *p, size_t i, hyp_diag *diag)
{
    const hyp_lemma *l = &p->lemmas[i];
    if (l->from >= p->term_count || l->to >= p->term_count) return refuse(diag, "it is about a term that is not there");
    for (size_t k = 0; k < l->use_count; k++) HYP_TRY(check_use(p, l->uses[k], i, diag));
    bool named = l->kind == HYP_LEMMA_RULE || l->kind == HYP_LEMMA_STATED;
    if (named && !l->rule) return refuse(diag, "it names no rule");
    if (!named && l->query_count) return refuse(diag, "nothing but a rule asks");
    if (l->kind == HYP_LEMMA_STATED && (l->query_count || l->use_count))
        return refuse(diag, "an equality that was stated asks nothing");
    for (size_t k = 0; k < l->query_count; k++) {
        const hyp_shared_query *q = &l->queries[k];
        bool there = q->name && (q->answer != HYP_ANSWER_TERM || q->result < p->term_count);
        for (size_t j = 0; there && j < q->arg_count; j++) there = q->args[j] < p->term_count;
        if (!there) return refuse(diag, "it asks about a term that is not there");
    }
    switch (l->kind) {
    case HYP_LEMMA_RULE:
    case HYP_LEMMA_STATED: return HYP_OK;
    case HYP_LEMMA_CONGRUENCE: return check_congruence(p, l, diag);
    case HYP_LEMMA_CHAIN: return check_chain(l, diag);
    }
    return refuse(diag, "it is of an unknown kind");
}

hyp_status hyp_shared_proof_is_formed(const hyp_shared_proof *p, size_t known, size_t *out_lemma, hyp_diag *diag)
{
    if (out_lemma) *out_lemma = 0;
    for (size_t i = known; i < p->term_count; i++) HYP_TRY(check_term(p, i, diag));
    for (size_t i = 0; i < p->lemma_count; i++) {
        if (out_lemma) *out_lemma = i;
        hyp_status status = check_lemma(p, i, diag);
        if (status != HYP_OK) hyp_diag_prefix(diag, "lemma %zu", i);
        HYP_TRY(status);
    }
    return check_use(p, p->claim, p->lemma_count, diag);
}
