/* Blocks of steps that compute in f64, i64 or u64: loops in plain C for what models do with positions, masks and
 * shapes, the functions of the reference backend for the rest. Registers are blocks of 8-byte elements.
 */
#include "base/dtype.h"
#include "runtime/cpu/cpu.h"

#define EACH(T, expression)                                                                                            \
    for (int64_t i = 0; i < n; i++) ((T *)out)[i] = (T)(expression)
/* Neighbours apart: the compiler makes vectors of that loop. */
#define LOAD(T, type, wanted)                                                                                          \
    {                                                                                                                  \
        const type *p = (const type *)x + first;                                                                       \
        if (step == 1)                                                                                                 \
            EACH(T, p[i] wanted);                                                                                      \
        else                                                                                                           \
            EACH(T, p[i * step] wanted);                                                                               \
        break;                                                                                                         \
    }

void hyp_cpu_wide_load(hyp_dtype compute, hyp_dtype dtype, const void *x, int64_t first, int64_t step, void *out,
                       int64_t n)
{
    switch (compute == HYP_F64 && dtype != HYP_F64 ? HYP_DTYPE_NONE : dtype) {
    case HYP_F64: LOAD(double, double, )
    case HYP_I64:
    case HYP_U64: LOAD(int64_t, int64_t, )
    case HYP_I32: LOAD(int64_t, int32_t, )
    case HYP_U8: LOAD(int64_t, uint8_t, )
    case HYP_I8: LOAD(int64_t, int8_t, )
    case HYP_BOOL: LOAD(int64_t, uint8_t, != 0)
    default:
        if (compute == HYP_F64)
            EACH(double, hyp_load_f64(dtype, x, (size_t)(first + i * step)));
        else
            EACH(int64_t, hyp_load_i64(dtype, x, (size_t)(first + i * step)));
    }
}

static void float_instr(const HypPlan__Pointwise__Instr *in, double *out, const double *const *x, int64_t n)
{
    const double *a = x[0], *b = x[1], *c = x[2];
    switch (in->op) {
    case HYP_PLAN__POINTWISE__OP__ADD: EACH(double, a[i] + b[i]); break;
    case HYP_PLAN__POINTWISE__OP__SUB: EACH(double, a[i] - b[i]); break;
    case HYP_PLAN__POINTWISE__OP__MUL: EACH(double, a[i] * b[i]); break;
    case HYP_PLAN__POINTWISE__OP__DIV: EACH(double, a[i] / b[i]); break;
    case HYP_PLAN__POINTWISE__OP__WHERE: EACH(double, a[i] != 0 ? b[i] : c[i]); break;
    case HYP_PLAN__POINTWISE__OP__CAST: EACH(double, a[i]); break;
    case HYP_PLAN__POINTWISE__OP__CONST: EACH(double, in->p); break;
    default: EACH(double, hyp_reference_float_op(in, a[i], b[i], c[i])); break;
    }
}

static void integer_instr(const HypPlan__Pointwise__Instr *in, int64_t *out, const int64_t *const *x, bool is_u64,
                          int64_t n)
{
    const int64_t *a = x[0], *b = x[1], *c = x[2], bias = is_u64 ? INT64_MIN : 0; /* orders them as signed ones */
    switch (in->op) {
    case HYP_PLAN__POINTWISE__OP__ADD: EACH(int64_t, (uint64_t)a[i] + (uint64_t)b[i]); break;
    case HYP_PLAN__POINTWISE__OP__SUB: EACH(int64_t, (uint64_t)a[i] - (uint64_t)b[i]); break;
    case HYP_PLAN__POINTWISE__OP__MUL: EACH(int64_t, (uint64_t)a[i] * (uint64_t)b[i]); break;
    case HYP_PLAN__POINTWISE__OP__EQUAL: EACH(int64_t, a[i] == b[i]); break;
    case HYP_PLAN__POINTWISE__OP__LESS: EACH(int64_t, (a[i] ^ bias) < (b[i] ^ bias)); break;
    case HYP_PLAN__POINTWISE__OP__LESS_EQUAL: EACH(int64_t, (a[i] ^ bias) <= (b[i] ^ bias)); break;
    case HYP_PLAN__POINTWISE__OP__WHERE: EACH(int64_t, a[i] ? b[i] : c[i]); break;
    case HYP_PLAN__POINTWISE__OP__NOT: EACH(int64_t, a[i] == 0); break;
    case HYP_PLAN__POINTWISE__OP__CAST: EACH(int64_t, a[i]); break;
    default: EACH(int64_t, hyp_reference_int_op(in, a[i], b[i], c[i], is_u64)); break;
    }
}

void hyp_cpu_wide_instr(hyp_dtype compute, const HypPlan__Pointwise__Instr *in, void *out, const void *const *x,
                        int64_t n)
{
    hyp_dtype to = (hyp_dtype)in->to;
    if (compute == HYP_F64) {
        float_instr(in, out, (const double *const[]){x[0], x[1], x[2]}, n);
        if (to == HYP_F64) return;
        EACH(double, hyp_reference_round_f64(to, ((const double *)out)[i]));
    } else {
        integer_instr(in, out, (const int64_t *const[]){x[0], x[1], x[2]}, compute == HYP_U64, n);
        const int64_t *result = out;
        if (to == HYP_BOOL)
            EACH(int64_t, result[i] != 0);
        else if (to == HYP_I32)
            EACH(int64_t, (int32_t)result[i]);
        else if (hyp_dtype_size(to) < 8)
            EACH(int64_t, hyp_reference_round_i64(to, result[i]));
    }
}

void hyp_cpu_wide_store(hyp_dtype compute, hyp_dtype dtype, const void *x, void *out, int64_t n)
{
    const double *reals = x;
    const int64_t *integers = x;
    if (compute == HYP_F64 ? dtype == HYP_F64 : hyp_dtype_size(dtype) == 8) {
        memcpy(out, x, (size_t)n * 8);
    } else if (compute == HYP_F64) {
        for (int64_t i = 0; i < n; i++) hyp_store_f64(dtype, out, (size_t)i, reals[i]);
    } else if (dtype == HYP_BOOL) {
        EACH(uint8_t, integers[i] != 0);
    } else if (dtype == HYP_I32) {
        EACH(int32_t, integers[i]);
    } else {
        for (int64_t i = 0; i < n; i++) hyp_store_i64(dtype, out, (size_t)i, integers[i]);
    }
}
