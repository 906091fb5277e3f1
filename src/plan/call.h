/* call.h - a call of a kernel by its name, as the kernel takes it. */
#ifndef HYP_PLAN_CALL_H
#define HYP_PLAN_CALL_H

#include "kernels/kernels.h"
#include "plan/plan.h"

/* The arguments of a call; `call` points to the others. */
typedef struct hyp_call_arguments {
    hyp_array in[HYP_PLAN_CALL_INPUTS], out[HYP_PLAN_CALL_OUTPUTS];
    hyp_kernel_attr attrs[HYP_PLAN_CALL_ATTRS];
    int64_t ints[HYP_PLAN_CALL_INTS];
    hyp_kernel_call call;
} hyp_call_arguments;

/* Fills them in, without data and scratch. `values`: the dims; NULL where numbers are not asked for. */
void hyp_plan_call_arguments(const HypPlan__Program *program, const HypPlan__Call *s, const int64_t *values,
                             hyp_diag *diag, hyp_call_arguments *out);
/* The kernel of a call, which takes the arguments that it gets. HYP_ERR_INCOMPATIBLE: there is none of this name. */
HYP_NODISCARD hyp_status hyp_plan_call_kernel(const HypPlan__Program *program, const HypPlan__Call *s,
                                              const hyp_kernel **out, hyp_diag *diag);
/* Leaves out attributes that plans may lack and that are 0, so that older versions read plans which have nothing of them. */
void hyp_plan_call_shorten(HypPlan__Call *s);

#endif
