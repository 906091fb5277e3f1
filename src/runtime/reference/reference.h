/* reference.h - every kernel of a plan in plain C: clear before fast, any element type, needs nothing.
 *
 * Arithmetic: float tensors (f16, bf16, f32, f64) are read exactly into double; products, sums, exponentials and
 * so on are made in double and rounded once to the type of the result, hidden layers included. Pointwise
 * instructions round to the step's compute type as plan.proto says. Sums over integers wrap modulo 2^64.
 */
#ifndef HYP_RUNTIME_REFERENCE_H
#define HYP_RUNTIME_REFERENCE_H

#include "plan/call.h"
#include "plan/box_walk.h"

/* What a kernel needs besides its step. `at` gives the address of every tensor, `values` of every dim. */
typedef struct hyp_reference_call {
    const HypPlan__Program *program;
    const int64_t *values;
    void *const *at;
    void *work; /* scratch: hyp_reference_work bytes, 64-byte aligned */
} hyp_reference_call;

/* Runs one step, not one that hyp_plan_writes_nothing: its loops may have no end. Fails only where the data or, in calls,
 * the shapes are at fault: a gather index out of range. */
HYP_NODISCARD hyp_status hyp_reference_step(const hyp_reference_call *call, const HypPlan__Step *step, hyp_diag *diag);
/* Bytes of work that a step needs under these dims. */
size_t hyp_reference_work(const HypPlan__Program *program, const HypPlan__Step *step, const int64_t *values);

/* call.c. Every kernel that the program calls is there and takes the arguments that it gets; required of programs that
 * the functions below see. */
HYP_NODISCARD hyp_status hyp_reference_check_calls(const HypPlan__Program *program, hyp_diag *diag);
/* hyp_reference_work of a call. */
size_t hyp_reference_call_work(const HypPlan__Program *program, const HypPlan__Call *step, const int64_t *values);
/* The arguments of a call, as its kernel takes them. Without `values` the numbers, without `at` the data are left out.
 */
void hyp_reference_arguments(const hyp_reference_call *call, const HypPlan__Call *s, hyp_diag *diag,
                             hyp_call_arguments *out);
hyp_status hyp_reference_run_call(const hyp_reference_call *call, const HypPlan__Call *step, hyp_diag *diag);

/* act(x), in double; and its derivative, of none, relu (0 at 0), both forms of gelu, and silu. */
double hyp_reference_act(HypPlan__Act act, double x);
double hyp_reference_act_gradient(HypPlan__Act act, double x);

/* pointwise.c: one instruction on one element, in double or in 64 bits (u64 or i64), before its result is rounded; and
 * that rounding: the value that storing v as type t and reading it back gives. */
double hyp_reference_float_op(const HypPlan__Pointwise__Instr *in, double a, double b, double c);
int64_t hyp_reference_int_op(const HypPlan__Pointwise__Instr *in, int64_t a, int64_t b, int64_t c, bool is_u64);
double hyp_reference_round_f64(hyp_dtype t, double v);
int64_t hyp_reference_round_i64(hyp_dtype t, int64_t v);

/* One file per family. */
void hyp_reference_linear(const hyp_reference_call *call, const HypPlan__Linear *s);
void hyp_reference_matmul(const hyp_reference_call *call, const HypPlan__Matmul *s);
void hyp_reference_attention(const hyp_reference_call *call, const HypPlan__Attention *s);
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
