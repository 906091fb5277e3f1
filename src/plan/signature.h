/* signature.h - what lies behind a plan that is signed; private to the plan layer. */
#ifndef HYP_PLAN_SIGNATURE_H
#define HYP_PLAN_SIGNATURE_H

#include "plan/plan.h"

/* HYP_OK where the bytes end in a signature of all others by this key; reads none of them otherwise. HYP_ERR_SIGNATURE.
 */
HYP_NODISCARD hyp_status hyp_signature_check(const uint8_t *data, size_t size, const uint8_t *key, hyp_diag *diag);

/* Finds the end of the plan, *size, where a signature lies behind it, whose key is then *out_key (borrowed), and looks
 * whether that is whole, but not whether it is right. NULL, and *size stays, where there is none. HYP_ERR_MALFORMED. */
HYP_NODISCARD hyp_status hyp_signature_find(const uint8_t *data, size_t *size, const uint8_t **out_key, hyp_diag *diag);

#endif
