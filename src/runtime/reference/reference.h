/* reference.h - every kernel of a plan in plain C: clear before fast, any element type, needs nothing.
 *
 * Arithmetic: float tensors (f16, bf16, f32, f64) are read exactly into double; products, sums, exponentials and
 * so on are made in double and rounded once to the type of the result, hidden layers included. Pointwise
 * instructions round to the step's compute type as plan.proto says. Sums over integers wrap modulo 2^64.
 */
#ifndef HYP_RUNTIME_REFERENCE_H
#define HYP_RUNTIME_REFERENCE_H

#include "runtime/walk.h"

/* What a kernel needs besides its step. `at` gives the address of every tensor, `values` of every dim. */
typedef struct hyp_reference_call {
    const HypPlan__Program *program;
    const int64_t *values;
    void *const *at;
} hyp_reference_call;

/* Runs one step. Fails only where the data is at fault: a gather index that is out of range. */
HYP_NODISCARD hyp_status hyp_reference_step(const hyp_reference_call *call, const HypPlan__Step *step, hyp_diag *diag);

/* act(x), in double. */
double hyp_reference_act(HypPlan__Act act, double x);

/* One file per family. */
void hyp_reference_linear(const hyp_reference_call *call, const HypPlan__Linear *s);
void hyp_reference_matmul(const hyp_reference_call *call, const HypPlan__Matmul *s);
void hyp_reference_pointwise(const hyp_reference_call *call, const HypPlan__Pointwise *s);
void hyp_reference_softmax(const hyp_reference_call *call, const HypPlan__Softmax *s);
void hyp_reference_reduce(const hyp_reference_call *call, const HypPlan__Reduce *s);
void hyp_reference_copy(const hyp_reference_call *call, const HypPlan__Copy *s);
hyp_status hyp_reference_gather(const hyp_reference_call *call, const HypPlan__Gather *s, hyp_diag *diag);
void hyp_reference_fill(const hyp_reference_call *call, const HypPlan__Fill *s);

/* ---- small things that they share ---------------------------------------------------------------------- */

static inline hyp_dtype hyp_tensor_dtype(const HypPlan__Program *p, uint32_t tensor)
{
    return (hyp_dtype)p->tensors[tensor]->dtype;
}

#endif
