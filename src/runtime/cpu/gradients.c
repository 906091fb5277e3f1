/* norm-gradient and softmax-gradient in f32, row by row. */
#include <string.h>

#include "runtime/cpu/cpu.h"

typedef struct gradient {
    int64_t rows;           /* parts of [size, inner] elements */
    hyp_norm_gradient norm; /* of softmax the size alone */
    int64_t inner;          /* 1 but for softmax */
    bool softmax;
} gradient;

typedef struct gradient_run {
    const gradient *s;
    hyp_norm_gradient norm; /* with the scale of this run */
    const hyp_cpu_kernels *kernels;
    const float *x, *g; /* x: of softmax its result */
    float *y;
} gradient_run;

static void gradient_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const gradient_run *r = state;
    int64_t size = r->norm.size, each = size * r->s->inner;
    for (int64_t i = begin * each; i < end * each; i += each) {
        if (r->s->softmax)
            r->kernels->softmax_gradient(r->x + i, r->g + i, r->y + i, size, r->s->inner);
        else
            r->kernels->norm_gradient(&r->norm, r->x + i, r->g + i, r->y + i);
    }
}

static hyp_status run_gradient(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const HypPlan__Call *call = op->step->call;
    const gradient *s = op->state;
    gradient_run r = {.s = s,
                      .norm = s->norm,
                      .kernels = run->kernels,
                      .x = hyp_cpu_call_input(run, call, 0),
                      .g = hyp_cpu_call_input(run, call, 1),
                      .y = run->call.at[call->outputs[0]]};
    r.norm.scale = hyp_cpu_call_input(run, call, 2);
    hyp_cpu_parallel(run, s->rows, hyp_cpu_grain(HYP_CPU_COMPUTED, s->norm.size * s->inner), gradient_part, &r);
    return HYP_OK;
}

/* False for what the plain kernel computes, of other types, or refuses. */
static bool read_gradient(const hyp_kernel_call *c, gradient *s)
{
    s->inner = 1;
    s->softmax = strcmp(c->op, "softmax-gradient") == 0;
    for (uint32_t i = 0; i < c->in_count; i++)
        if (hyp_kernel_input(c, i) && c->in[i].dtype != HYP_F32) return false;
    if (s->softmax) return hyp_kernel_softmax_gradient_rows(c, &s->rows, &s->norm.size, &s->inner) == HYP_OK;
    s->norm.epsilon = c->attrs[1].f;
    s->norm.centred = c->attrs[2].i != 0;
    return hyp_kernel_norm_gradient_rows(c, &s->rows, &s->norm.size, &s->norm.by_scale) == HYP_OK;
}

hyp_status hyp_cpu_prepare_gradient(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                    const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    (void)step, (void)channels_last;
    hyp_call_arguments a;
    hyp_diag unfit = {0};
    gradient s = {0};
    hyp_reference_arguments(&(hyp_reference_call){.program = model->plan->program, .values = values}, op->step->call,
                            &unfit, &a);
    if (!read_gradient(&a.call, &s)) return HYP_OK;
    return hyp_cpu_keep_state(op, run_gradient, &s, sizeof s, diag);
}
