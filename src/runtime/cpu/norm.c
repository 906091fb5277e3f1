/* layer-norm and rms-norm in f32, row by row. */
#include <string.h>

#include "runtime/cpu/cpu.h"

typedef struct norm {
    int64_t rows, size; /* x is [rows size], scale and bias are [size] */
    double epsilon;
    bool centred; /* layer-norm */
} norm;

typedef struct norm_run {
    hyp_norm norm;
    const hyp_cpu_kernels *kernels;
    const float *x;
    float *y;
} norm_run;

static void norm_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const norm_run *r = state;
    r->kernels->norm(&r->norm, r->x + begin * r->norm.size, r->y + begin * r->norm.size, end - begin);
}

static hyp_status run_norm(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const HypPlan__Call *call = op->step->call;
    const norm *s = op->state;
    norm_run r = {.norm = {.size = s->size, .epsilon = s->epsilon, .centred = s->centred},
                  .kernels = run->kernels,
                  .x = hyp_cpu_call_input(run, call, 0),
                  .y = run->call.at[call->outputs[0]]};
    r.norm.scale = hyp_cpu_call_input(run, call, 1);
    r.norm.bias = hyp_cpu_call_input(run, call, 2);
    hyp_cpu_parallel(run, s->rows, hyp_cpu_grain(HYP_CPU_COMPUTED, s->size), norm_part, &r);
    return HYP_OK;
}

/* False for what the plain kernel computes or refuses. */
static bool read_norm(const HypPlan__Program *p, const HypPlan__Call *call, const int64_t *values, norm *s)
{
    uint32_t x = call->inputs_plus1[0] - 1, y = call->outputs[0];
    const HypPlan__Tensor *t = p->tensors[x];
    int64_t axis = values[*call->attrs[0]->dims], rank = (int64_t)t->n_dims, elements, results;
    *s = (norm){.rows = 1, .size = 1, .epsilon = call->attrs[1]->number};
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || t->dtype != HYP_F32 || p->tensors[y]->dtype != HYP_F32) return false;
    if (hyp_plan_elements(p, x, values, &elements, NULL) != HYP_OK ||
        hyp_plan_elements(p, y, values, &results, NULL) != HYP_OK || elements != results || elements == 0)
        return false;
    for (int64_t i = 0; i < rank; i++) *(i < axis ? &s->rows : &s->size) *= values[t->dims[i]];
    for (size_t i = 1; i < call->n_inputs_plus1; i++) {
        uint32_t v = call->inputs_plus1[i] - 1;
        if (!call->inputs_plus1[i]) continue;
        if (p->tensors[v]->dtype != HYP_F32 || hyp_plan_elements(p, v, values, &elements, NULL) != HYP_OK ||
            elements != s->size)
            return false;
    }
    return true;
}

hyp_status hyp_cpu_prepare_norm(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                                hyp_cpu_op *op, hyp_diag *diag)
{
    (void)step, (void)channels_last;
    norm s;
    if (!read_norm(model->plan->program, op->step->call, values, &s)) return HYP_OK;
    s.centred = strcmp(op->step->call->kernel, "layer-norm") == 0;
    return hyp_cpu_keep_state(op, run_norm, &s, sizeof s, diag);
}
