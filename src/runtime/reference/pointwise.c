/* One pass over the extents; instructions run on single values. */
#include <math.h>

#include "base/dtype.h"
#include "kernels/scalar.h"
#include "runtime/reference/reference.h"

typedef HypPlan__Pointwise__Instr instr;

/* A register: which member counts is the step's compute type. */
typedef union cell {
    double f;
    int64_t i;
} cell;

double hyp_reference_round_f64(hyp_dtype t, double v)
{
    uint64_t stored;
    if (t == HYP_F64) return v;
    if (t == HYP_F32) return (double)(float)v;
    hyp_store_f64(t, &stored, 0, v);
    return hyp_load_f64(t, &stored, 0);
}

int64_t hyp_reference_round_i64(hyp_dtype t, int64_t v)
{
    uint64_t stored;
    if (t == HYP_I64) return v;
    hyp_store_i64(t, &stored, 0, v);
    return hyp_load_i64(t, &stored, 0);
}

double hyp_reference_float_op(const instr *in, double a, double b, double c)
{
    switch (in->op) {
    case HYP_PLAN__POINTWISE__OP__ADD: return a + b;
    case HYP_PLAN__POINTWISE__OP__SUB: return a - b;
    case HYP_PLAN__POINTWISE__OP__MUL: return a * b;
    case HYP_PLAN__POINTWISE__OP__DIV: return a / b;
    case HYP_PLAN__POINTWISE__OP__POW: return hyp_pow_f64(a, b);
    case HYP_PLAN__POINTWISE__OP__MIN: return isnan(a) || a < b ? a : b; /* NaN wins */
    case HYP_PLAN__POINTWISE__OP__MAX: return isnan(a) || a > b ? a : b;
    case HYP_PLAN__POINTWISE__OP__CLIP: a = a < in->p ? in->p : a; return a > in->q ? in->q : a;
    case HYP_PLAN__POINTWISE__OP__CONST: return in->p;
    case HYP_PLAN__POINTWISE__OP__ABS: return fabs(a);
    case HYP_PLAN__POINTWISE__OP__NEG: return -a;
    case HYP_PLAN__POINTWISE__OP__SIGN: return hyp_sign_f64(a);
    case HYP_PLAN__POINTWISE__OP__NOT: return a == 0;
    case HYP_PLAN__POINTWISE__OP__MOD: return hyp_mod_f64(a, b, false);
    case HYP_PLAN__POINTWISE__OP__FMOD: return hyp_mod_f64(a, b, true);
    case HYP_PLAN__POINTWISE__OP__EQUAL: return a == b;
    case HYP_PLAN__POINTWISE__OP__LESS: return a < b;
    case HYP_PLAN__POINTWISE__OP__LESS_EQUAL: return a <= b;
    case HYP_PLAN__POINTWISE__OP__WHERE: return a != 0 ? b : c;
    default: return hyp_function_f64((int)in->op, a, in->p, in->q); /* CAST: the rounding that follows does it */
    }
}

static int64_t clip_i64(const instr *in, int64_t a, bool u)
{
    int64_t low = hyp_clip_bound_i64(in->p, true, u), high = hyp_clip_bound_i64(in->q, false, u);
    if (hyp_less_i64(a, low, u)) a = low;
    return hyp_less_i64(high, a, u) ? high : a;
}

/* Wraps modulo 2^64. */
int64_t hyp_reference_int_op(const instr *in, int64_t a, int64_t b, int64_t c, bool u)
{
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    bool less = hyp_less_i64(a, b, u), positive = u || a > 0;
    switch (in->op) {
    case HYP_PLAN__POINTWISE__OP__ADD: return (int64_t)(ua + ub);
    case HYP_PLAN__POINTWISE__OP__SUB: return (int64_t)(ua - ub);
    case HYP_PLAN__POINTWISE__OP__MUL: return (int64_t)(ua * ub);
    case HYP_PLAN__POINTWISE__OP__DIV: return hyp_div_i64(a, b, u);
    case HYP_PLAN__POINTWISE__OP__MOD: return hyp_mod_i64(a, b, false, u);
    case HYP_PLAN__POINTWISE__OP__FMOD: return hyp_mod_i64(a, b, true, u);
    case HYP_PLAN__POINTWISE__OP__POW: return hyp_pow_i64(a, b, u);
    case HYP_PLAN__POINTWISE__OP__MIN: return less ? a : b;
    case HYP_PLAN__POINTWISE__OP__MAX: return less ? b : a;
    case HYP_PLAN__POINTWISE__OP__RELU: return positive ? a : 0;
    case HYP_PLAN__POINTWISE__OP__ABS: return positive ? a : (int64_t)(0 - ua);
    case HYP_PLAN__POINTWISE__OP__NEG: return (int64_t)(0 - ua);
    case HYP_PLAN__POINTWISE__OP__SIGN: return hyp_sign_i64(a, u);
    case HYP_PLAN__POINTWISE__OP__CLIP: return clip_i64(in, a, u);
    case HYP_PLAN__POINTWISE__OP__CONST: return hyp_clip_bound_i64(in->p, in->p < 0, u);
    case HYP_PLAN__POINTWISE__OP__NOT: return a == 0;
    case HYP_PLAN__POINTWISE__OP__INVERT: return ~a;
    case HYP_PLAN__POINTWISE__OP__EQUAL: return a == b;
    case HYP_PLAN__POINTWISE__OP__LESS: return less;
    case HYP_PLAN__POINTWISE__OP__LESS_EQUAL: return less || a == b;
    case HYP_PLAN__POINTWISE__OP__AND: return a & b;
    case HYP_PLAN__POINTWISE__OP__OR: return a | b;
    case HYP_PLAN__POINTWISE__OP__XOR: return a ^ b;
    case HYP_PLAN__POINTWISE__OP__SHIFT_LEFT: return hyp_shift_i64(a, b, true, u);
    case HYP_PLAN__POINTWISE__OP__SHIFT_RIGHT: return hyp_shift_i64(a, b, false, u);
    case HYP_PLAN__POINTWISE__OP__WHERE: return a ? b : c;
    default: return a; /* CAST */
    }
}

/* An element in a register of floats: rounded once. */
static double load_float(hyp_dtype compute, hyp_dtype t, const void *x, size_t i)
{
    if (compute == HYP_F32 && t == HYP_I64) return (double)(float)((const int64_t *)x)[i];
    if (compute == HYP_F32 && t == HYP_U64) return (double)(float)((const uint64_t *)x)[i];
    return hyp_reference_round_f64(compute, hyp_load_f64(t, x, i));
}

void hyp_reference_pointwise(const hyp_reference_call *call, const HypPlan__Pointwise *s)
{
    const int64_t *values = call->values;
    cell r[HYP_PLAN_POINTWISE_REGISTERS] = {{0}}; /* operands that an instruction has no use for are read, too */
    hyp_dtype compute = (hyp_dtype)s->compute;
    bool is_u64 = compute == HYP_U64, integer = is_u64 || compute == HYP_I64;
    hyp_walk w;
    hyp_walk_init(&w, values, s->extents, s->n_extents);
    for (size_t i = 0; i < s->n_inputs; i++) hyp_walk_lane(&w, values, s->inputs[i]->strides, 0);
    int64_t count = hyp_walk_count(&w);
    for (int64_t element = 0; element < count; element++, hyp_walk_next(&w)) {
        for (size_t i = 0; i < s->n_inputs; i++) {
            uint32_t tensor = s->inputs[i]->tensor;
            hyp_dtype t = hyp_tensor_dtype(call->program, tensor);
            if (integer)
                r[i].i = hyp_load_i64(t, call->at[tensor], (size_t)w.offset[i]);
            else
                r[i].f = load_float(compute, t, call->at[tensor], (size_t)w.offset[i]);
        }
        for (size_t i = 0; i < s->n_instrs; i++) {
            const instr *in = s->instrs[i];
            cell *out = &r[s->n_inputs + i];
            if (integer)
                out->i = hyp_reference_round_i64((hyp_dtype)in->to,
                                                 hyp_reference_int_op(in, r[in->a].i, r[in->b].i, r[in->c].i, is_u64));
            else
                out->f = hyp_reference_round_f64(
                    (hyp_dtype)in->to,
                    hyp_reference_round_f64(compute, hyp_reference_float_op(in, r[in->a].f, r[in->b].f, r[in->c].f)));
        }
        for (size_t i = 0; i < s->n_outputs; i++) {
            hyp_dtype t = hyp_tensor_dtype(call->program, s->outputs[i]);
            if (integer)
                hyp_store_i64(t, call->at[s->outputs[i]], (size_t)element, r[s->output_regs[i]].i);
            else
                hyp_store_f64(t, call->at[s->outputs[i]], (size_t)element, r[s->output_regs[i]].f);
        }
    }
}
