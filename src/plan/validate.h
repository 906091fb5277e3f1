/* validate.h - validate_steps.c, for the check of the whole. */
#ifndef HYP_PLAN_VALIDATE_H
#define HYP_PLAN_VALIDATE_H

#include "plan/plan.h"

/* HYP_ERR_INCOMPATIBLE: something that a later version may have added within the same major format. */
hyp_status hyp_plan_unknown(hyp_diag *diag, const char *what, long long value);
/* A list of at most HYP_MAX_RANK dims of the program. */
HYP_NODISCARD hyp_status hyp_plan_want_dims(const HypPlan__Program *p, size_t n, const uint32_t *dims, const char *what,
                                            hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_plan_validate_steps(const HypPlan__Program *program, hyp_diag *diag);

#endif
