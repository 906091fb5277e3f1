/* One pass over the extents; instructions run on single values. */
#include <math.h>

#include "base/dtype.h"
#include "runtime/reference/reference.h"

typedef HypPlan__Pointwise__Instr instr;

/* A register: which member counts is the step's compute type. */
typedef union cell {
    double f;
    int64_t i;
} cell;

/* The value that storing v as type t and reading it back gives. */
static double round_f64(hyp_dtype t, double v)
{
    uint64_t stored;
    if (t == HYP_F64) return v;
    if (t == HYP_F32) return (double)(float)v;
    hyp_store_f64(t, &stored, 0, v);
    return hyp_load_f64(t, &stored, 0);
}

static int64_t round_i64(hyp_dtype t, int64_t v)
{
    uint64_t stored;
    if (t == HYP_I64) return v;
    hyp_store_i64(t, &stored, 0, v);
    return hyp_load_i64(t, &stored, 0);
}

static double float_op(const instr *in, double a, double b)
{
    switch (in->op) {
    case HYP_PLAN__POINTWISE__OP__ADD: return a + b;
    case HYP_PLAN__POINTWISE__OP__SUB: return a - b;
    case HYP_PLAN__POINTWISE__OP__MUL: return a * b;
    case HYP_PLAN__POINTWISE__OP__DIV: return a / b;
    case HYP_PLAN__POINTWISE__OP__POW: return pow(a, b);
    case HYP_PLAN__POINTWISE__OP__MIN: return isnan(a) || a < b ? a : b; /* NaN wins */
    case HYP_PLAN__POINTWISE__OP__MAX: return isnan(a) || a > b ? a : b;
    case HYP_PLAN__POINTWISE__OP__RELU: return hyp_reference_act(HYP_PLAN__ACT__ACT_RELU, a);
    case HYP_PLAN__POINTWISE__OP__LEAKY_RELU: return a < 0 ? in->p * a : a;
    case HYP_PLAN__POINTWISE__OP__SIGMOID: return hyp_reference_act(HYP_PLAN__ACT__ACT_SIGMOID, a);
    case HYP_PLAN__POINTWISE__OP__TANH: return tanh(a);
    case HYP_PLAN__POINTWISE__OP__GELU: return hyp_reference_act(HYP_PLAN__ACT__ACT_GELU, a);
    case HYP_PLAN__POINTWISE__OP__GELU_TANH: return hyp_reference_act(HYP_PLAN__ACT__ACT_GELU_TANH, a);
    case HYP_PLAN__POINTWISE__OP__ERF: return erf(a);
    case HYP_PLAN__POINTWISE__OP__EXP: return exp(a);
    case HYP_PLAN__POINTWISE__OP__SQRT: return sqrt(a);
    case HYP_PLAN__POINTWISE__OP__CLIP: a = a < in->p ? in->p : a; return a > in->q ? in->q : a;
    case HYP_PLAN__POINTWISE__OP__CONST: return in->p;
    default: return a; /* CAST: the rounding that follows does it */
    }
}

/* Wraps modulo 2^64; division by 0 gives 0, since no integer is right and none may trap. */
static int64_t int_op(const instr *in, int64_t a, int64_t b)
{
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (in->op) {
    case HYP_PLAN__POINTWISE__OP__ADD: return (int64_t)(ua + ub);
    case HYP_PLAN__POINTWISE__OP__SUB: return (int64_t)(ua - ub);
    case HYP_PLAN__POINTWISE__OP__MUL: return (int64_t)(ua * ub);
    case HYP_PLAN__POINTWISE__OP__DIV: return b == 0 ? 0 : b == -1 ? (int64_t)(0 - ua) : a / b;
    case HYP_PLAN__POINTWISE__OP__MIN: return a < b ? a : b;
    case HYP_PLAN__POINTWISE__OP__MAX: return a > b ? a : b;
    case HYP_PLAN__POINTWISE__OP__RELU: return a < 0 ? 0 : a;
    case HYP_PLAN__POINTWISE__OP__CAST: return a;
    case HYP_PLAN__POINTWISE__OP__CLIP: /* compared as doubles, since the bounds are; unbounded sides keep every bit */
        if ((double)a < in->p) a = hyp_load_i64(HYP_F64, &in->p, 0);
        if ((double)a > in->q) a = hyp_load_i64(HYP_F64, &in->q, 0);
        return a;
    case HYP_PLAN__POINTWISE__OP__CONST: return hyp_load_i64(HYP_F64, &in->p, 0);
    default: { /* the rest by way of floats */
        double v = float_op(in, (double)a, (double)b);
        return hyp_load_i64(HYP_F64, &v, 0);
    }
    }
}

void hyp_reference_pointwise(const hyp_reference_call *call, const HypPlan__Pointwise *s)
{
    const int64_t *values = call->values;
    cell r[HYP_PLAN_POINTWISE_REGISTERS] = {{0}}; /* operands that an instruction has no use for are read, too */
    hyp_dtype compute = (hyp_dtype)s->compute;
    bool integer = compute == HYP_I64;
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
                r[i].f = round_f64(compute, hyp_load_f64(t, call->at[tensor], (size_t)w.offset[i]));
        }
        for (size_t i = 0; i < s->n_instrs; i++) {
            const instr *in = s->instrs[i];
            cell *out = &r[s->n_inputs + i];
            if (integer)
                out->i = round_i64((hyp_dtype)in->to, int_op(in, r[in->a].i, r[in->b].i));
            else
                out->f = round_f64((hyp_dtype)in->to, round_f64(compute, float_op(in, r[in->a].f, r[in->b].f)));
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
