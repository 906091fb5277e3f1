/* lemmas.h - a shared proof as it grows: terms and lemmas, each made once. explain.c says what is proven. */
#ifndef HYP_EGRAPH_PROVE_LEMMAS_H
#define HYP_EGRAPH_PROVE_LEMMAS_H

#include "egraph/prove/numbering.h"
#include "egraph/prove/path.h"

typedef HYP_VEC(hyp_lemma_use) hyp_chain;

/* What is proven of two e-nodes, and the highest rank that it rests on. */
typedef struct hyp_known {
    hyp_lemma_use use;
    uint64_t rank; /* HYP_ANY_RANK: nothing is */
} hyp_known;

typedef struct hyp_prover {
    hyp_egraph *eg;
    hyp_arena work;           /* of what is asked now */
    hyp_arena *kept, *out;    /* what terms refer to, and what lemmas do */
    size_t used;              /* bytes taken for what is asked now */
    unsigned depth;
    hyp_router *router;
    uint64_t bound;    /* the rank that what is used must be below */
    bool counting;     /* steps are counted, nothing is made */
    uint64_t measured; /* steps */
    HYP_VEC(hyp_shared_term) terms;
    HYP_VEC(hyp_lemma) lemmas;
    hyp_numbering spines;       /* of terms: the operator, then one child after the other */
    HYP_VEC(uint32_t) term_of;  /* by spine; HYP_NONE where it goes on */
    hyp_numbering named;        /* symbols: a proof takes no time for those that it does not need, and so for e-nodes */
    HYP_VEC(const char *) names;    /* by number in named, copied */
    hyp_numbering met;          /* e-nodes */
    HYP_VEC(uint32_t) row_terms;    /* T, by number in met; HYP_NONE = not yet */
    hyp_numbering pairs;        /* of e-nodes */
    HYP_VEC(hyp_known) knowns;      /* by pair */
    hyp_numbering applications; /* by place of their record */
    HYP_VEC(uint32_t) applied;  /* by application: its lemma */
    HYP_VEC(uint32_t) stack;    /* e-nodes whose terms are being made */
    HYP_VEC(uint32_t) place;    /* by term, for chains; 0 between two of them */
    hyp_diag *diag;
} hyp_prover;

enum { HYP_PROVER_OWN_STACK = 128 }; /* depth from which on a large stack is used */
/* Memory of the work, and a copy that lives as long as the lemmas; both count. NULL when memory is out. */
void *hyp_prover_take(hyp_prover *p, size_t size);
void *hyp_prover_keep(hyp_prover *p, const void *from, size_t size);
/* HYP_ERR_LIMIT when calls are nested too deep or the proof has become too large; else p->depth is one more. */
HYP_NODISCARD hyp_status hyp_prover_enter(hyp_prover *p);

HYP_NODISCARD hyp_status hyp_prover_name(hyp_prover *p, hyp_symbol symbol, const char **out);
/* The term of an operator over terms. */
HYP_NODISCARD hyp_status hyp_prover_term(hyp_prover *p, hyp_symbol symbol, const uint32_t *kids, uint32_t count,
                                         uint32_t *out);
/* T(row). Terms may be nested deeper than calls could be. */
HYP_NODISCARD hyp_status hyp_prover_term_of_row(hyp_prover *p, uint32_t row, uint32_t *out);

static inline hyp_lemma_use hyp_use_reversed(hyp_lemma_use use)
{
    return (hyp_lemma_use){use.to, use.from, use.lemma};
}
HYP_NODISCARD hyp_status hyp_prover_add_lemma(hyp_prover *p, hyp_lemma lemma, uint32_t *out);
/* T(row) is itself. */
HYP_NODISCARD hyp_status hyp_prover_same(hyp_prover *p, uint32_t row, hyp_lemma_use *out);
/* An operator over children that are equal. */
HYP_NODISCARD hyp_status hyp_prover_congruence(hyp_prover *p, hyp_symbol symbol, const hyp_lemma_use *kids,
                                               uint32_t count, hyp_lemma_use *out);
HYP_NODISCARD hyp_status hyp_chain_add(hyp_prover *p, hyp_chain *chain, hyp_lemma_use use);
/* The equality that a chain proves of two terms. Frees the chain, also when `status` is a failure, which is handed
 * on. */
HYP_NODISCARD hyp_status hyp_chain_close(hyp_prover *p, hyp_status status, hyp_chain *chain, uint32_t from, uint32_t to,
                                         hyp_lemma_use *out);
/* Leaves out the lemmas that the claim does not need, and renumbers it; the terms, too, unless *out_terms is to say how
 * many of them it needs. */
HYP_NODISCARD hyp_status hyp_prover_keep_needed(hyp_prover *p, hyp_lemma_use *claim, size_t *out_terms);

/* ---- explain.c ----------------------------------------------------------------------------------- */

/* T(from) is T(to), of two e-nodes of a class. */
HYP_NODISCARD hyp_status hyp_prove_rows(hyp_prover *p, uint32_t from, uint32_t to, hyp_lemma_use *out);
/* The steps that crossing an edge takes: the router's question. */
hyp_status hyp_prove_measure(void *prover, const hyp_edge *e, uint32_t *out);

#endif
