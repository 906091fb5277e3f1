/* explainer.h - many proofs from one e-graph, one after the other.
 *
 * What they have in common is made once: the equalities that were recorded, and the terms. Each proof is the one that
 * hyp_egraph_explain_nodes gives. */
#ifndef HYP_EGRAPH_PROVE_EXPLAINER_H
#define HYP_EGRAPH_PROVE_EXPLAINER_H

#include "hypatia/egraph.h"

typedef struct hyp_explainer hyp_explainer;

/* The e-graph, which may explain and is rebuilt, must not change while the explainer lives. *out is owned by the caller:
 * hyp_explainer_destroy. */
HYP_NODISCARD hyp_status hyp_explainer_create(hyp_egraph *eg, hyp_explainer **out, hyp_diag *diag);
void hyp_explainer_destroy(hyp_explainer *x); /* NULL-safe */

/* As hyp_egraph_explain_nodes, but that the terms are those of all proofs until now, each in its place for good;
 * *out_terms of them are needed by this one. *out is the explainer's, and good until it is asked again. */
HYP_NODISCARD hyp_status hyp_explainer_nodes(hyp_explainer *x, hyp_enode_id a, hyp_enode_id b, const hyp_shared_proof **out,
                                             size_t *out_terms, hyp_diag *diag);

/* ---- their judge, check_proof.c ------------------------------------------------------------------- */

typedef struct hyp_checker hyp_checker;

/* The rulesets are the caller's, and outlive the judge; so is *out: hyp_judge_destroy. */
HYP_NODISCARD hyp_status hyp_judge_create(hyp_ruleset *const *rulesets, size_t ruleset_count, hyp_checker **out,
                                          hyp_diag *diag);
void hyp_judge_destroy(hyp_checker *judge); /* NULL-safe */
/* As hyp_shared_proof_check of a proof whose first terms are those of the proof that was judged before, all of them. */
HYP_NODISCARD hyp_status hyp_judge_check(hyp_checker *judge, const hyp_shared_proof *proof, hyp_diag *diag);

#endif
