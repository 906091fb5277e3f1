/* golden.h - checks what a plan keeps to be verified with; private to the plan layer. */
#ifndef HYP_PLAN_GOLDEN_H
#define HYP_PLAN_GOLDEN_H

#include "plan/plan.h"

/* Once inputs, outputs and tensors of the program are known to be good. */
HYP_NODISCARD hyp_status hyp_plan_validate_golden(const HypPlan__Program *program, hyp_diag *diag);

#endif
