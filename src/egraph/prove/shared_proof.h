/* shared_proof.h - the form of shared proofs, whoever made them. */
#ifndef HYP_EGRAPH_PROVE_SHARED_PROOF_H
#define HYP_EGRAPH_PROVE_SHARED_PROOF_H

#include "base/diag.h"
#include "hypatia/egraph.h"

/* Whether terms and lemmas refer to earlier ones only, each use to a lemma about its two terms, chains lead from one
 * term to the next and congruences to terms with these children. HYP_ERR_MISMATCH says what is wrong, *out_lemma (may be
 * NULL) is the lemma. What rules do is not looked at, nor are the first `known` terms, which were before. */
HYP_NODISCARD hyp_status hyp_shared_proof_is_formed(const hyp_shared_proof *proof, size_t known, size_t *out_lemma,
                                                    hyp_diag *diag);

#endif
