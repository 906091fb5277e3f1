/* widened.h - steps in 16 bits by the kernels for floats; see widened.c. */
#ifndef HYP_RUNTIME_CPU_WIDENED_H
#define HYP_RUNTIME_CPU_WIDENED_H

#include "runtime/cpu/cpu.h"

/* A plan with floats in place of f16 and bf16, of the same indexes. */
typedef struct hyp_wide_plan {
    hyp_plan plan;
    HypPlan__Program program;
    const hyp_plan *narrow; /* the plan itself */
    bool *steps;            /* which of them are done so: what the others have in `plan` means nothing */
    uint8_t *weights;       /* what these read, but for the weights of constant layers */
    hyp_arena arena;
} hyp_wide_plan;

/* *out is NULL where no step of the plan is done so. */
HYP_NODISCARD hyp_status hyp_wide_plan_make(const hyp_cpu_device *device, const hyp_plan *plan, hyp_wide_plan **out,
                                            hyp_diag *diag);
void hyp_wide_plan_destroy(hyp_wide_plan *w); /* NULL-safe */
/* Puts conversions around an operation that was made for `w`. */
HYP_NODISCARD hyp_status hyp_cpu_widen_op(const hyp_wide_plan *w, const int64_t *values, hyp_cpu_op *op,
                                          hyp_diag *diag);

#endif
