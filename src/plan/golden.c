/* golden.c - runs with known results, as plans keep them. */
#include <math.h>

#include "plan/golden.h"

double hyp_plan_tolerance(uint8_t byte)
{
    if (byte == 0) return 0;
    return byte == UINT8_MAX ? INFINITY : exp2((byte - 160) / 2.0);
}

uint8_t hyp_plan_tolerance_byte(double tolerance)
{
    if (!(tolerance > 0)) return 0;
    if (isinf(tolerance)) return UINT8_MAX;
    double byte = ceil(2 * log2(tolerance)) + 160;
    return byte < 1 ? 1 : byte > UINT8_MAX ? UINT8_MAX : (uint8_t)byte;
}

/* Elements of these dims; -1 where they are no dims. */
static int64_t count_elements(const uint64_t *dims, size_t rank)
{
    int64_t count = 1;
    for (size_t i = 0; i < rank; i++)
        if (dims[i] > INT64_MAX || __builtin_mul_overflow(count, (int64_t)dims[i], &count)) return -1;
    return count;
}

static bool is_input(const HypPlan__Golden__Input *in, const HypPlan__Tensor *t)
{
    enum { DRAWS = 3 };
    int64_t count = count_elements(in->dims, in->n_dims);
    size_t bytes, size = hyp_dtype_size((hyp_dtype)t->dtype);
    if (in->n_dims != t->n_dims || count < 0 || !hyp_mul_size((size_t)count, size, &bytes)) return false;
    return in->data.len > 0 ? in->data.len == bytes : in->how < DRAWS && in->low <= in->high;
}

static bool is_output(const HypPlan__Golden__Output *out, const HypPlan__Tensor *t)
{
    int64_t count = count_elements(out->dims, out->n_dims);
    size_t size = hyp_dtype_size((hyp_dtype)t->dtype), kept = out->tolerances.len, bytes;
    if (out->n_dims != t->n_dims || count < 0 || out->stride == 0) return false;
    if (!hyp_mul_size(kept, size, &bytes) || bytes != out->values.len) return false;
    return kept == 0 || (count > 0 && (kept - 1) <= (uint64_t)(count - 1) / out->stride);
}

hyp_status hyp_plan_validate_golden(const HypPlan__Program *program, hyp_diag *diag)
{
    for (size_t s = 0; s < program->n_golden; s++) {
        const HypPlan__Golden *g = program->golden[s];
        bool good = g->n_inputs == program->n_inputs && g->n_outputs == program->n_outputs;
        for (size_t i = 0; good && i < g->n_inputs; i++)
            good = is_input(g->inputs[i], program->tensors[program->inputs[i]]);
        for (size_t i = 0; good && i < g->n_outputs; i++)
            good = is_output(g->outputs[i], program->tensors[program->outputs[i]]);
        if (!good)
            return hyp_fail(
                diag, HYP_ERR_MALFORMED,
                "run %zu of those that the plan keeps to be verified with does not fit its inputs and outputs", s);
    }
    return HYP_OK;
}
