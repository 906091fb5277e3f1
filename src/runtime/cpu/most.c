/* most.c - the largest over axes that lie beside each other, in f32: with the kept elements together, vectors of them
 * go over the axis.
 */
#include "runtime/cpu/cpu.h"

typedef struct most {
    int64_t outer, axis, inner; /* of x */
    int64_t *offsets;           /* of the elements along the axis, behind where the first part begins and ends */
} most;

static void most_destroy(void *opaque)
{
    most *s = opaque;
    hyp_free(s->offsets);
    hyp_free(s);
}

static hyp_status run_most(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    (void)diag;
    const most *s = op->state;
    const hyp_cpu_kernels *kernels = run->kernels;
    const float *x = run->call.at[op->step->call->inputs_plus1[0] - 1];
    float *y = run->call.at[op->step->call->outputs[0]], *turned = run->call.work;
    bool turns = s->inner == 1;
    if (turns) kernels->transpose(x, s->outer, s->axis, s->axis, turned, s->outer);
    int64_t n = turns ? s->outer : s->inner;
    for (int64_t i = 0; i < (turns ? 1 : s->outer); i++) {
        const float *from = turns ? turned : x + i * s->axis * s->inner;
        const hyp_parts parts = {&from, 1, s->offsets, s->offsets + 2};
        kernels->most_parts(&parts, 1, NULL, n, y + i * n);
    }
    return HYP_OK;
}

/* False for what the plain kernel computes or refuses. */
static bool read_most(const HypPlan__Program *p, const HypPlan__Call *call, const int64_t *values, most *s)
{
    const HypPlan__Tensor *t = p->tensors[call->inputs_plus1[0] - 1];
    const HypPlan__Call__Attr *axes = call->attrs[0];
    int64_t rank = (int64_t)t->n_dims, first = rank, last = -1;
    *s = (most){.outer = 1, .axis = 1, .inner = 1};
    if (t->dtype != HYP_F32 || p->tensors[call->outputs[0]]->dtype != HYP_F32) return false;
    for (size_t i = 0; i < axes->n_dims; i++) {
        int64_t axis = values[axes->dims[i]] + (values[axes->dims[i]] < 0 ? rank : 0);
        if (axis < 0 || axis >= rank) return false;
        first = axis < first ? axis : first;
        last = axis > last ? axis : last;
    }
    if (last - first + 1 != (int64_t)axes->n_dims) return false;
    for (int64_t i = 0; i < rank; i++) *(i < first ? &s->outer : i > last ? &s->inner : &s->axis) *= values[t->dims[i]];
    int64_t elements;
    return hyp_plan_elements(p, call->outputs[0], values, &elements, NULL) == HYP_OK && elements == s->outer * s->inner;
}

hyp_status hyp_cpu_prepare_most(hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                                hyp_cpu_op *op, hyp_diag *diag)
{
    enum { FEW = 16 /* floats of the widest vector, for which y has to have room */, MOST = 1 << 24 };
    (void)step, (void)channels_last;
    most s;
    if (!read_most(model->plan->program, op->step->call, values, &s)) return HYP_OK;
    if ((s.inner == 1 ? s.outer : s.inner) < FEW || s.axis < 1 || s.axis > MOST || s.outer > MOST || s.inner > MOST)
        return HYP_OK;
    most *made = hyp_calloc(1, sizeof *made);
    if (!made) return hyp_fail_memory(diag, sizeof *made);
    *made = s;
    made->offsets = hyp_calloc((size_t)s.axis + 2, sizeof *made->offsets);
    if (!made->offsets) {
        hyp_free(made);
        return hyp_fail_memory(diag, ((size_t)s.axis + 2) * sizeof *made->offsets);
    }
    made->offsets[1] = s.axis;
    for (int64_t i = 0; i < s.axis; i++) made->offsets[2 + i] = i * (s.inner == 1 ? s.outer : s.inner);
    if (s.inner == 1) op->work_bytes = (size_t)(s.outer * s.axis) * sizeof(float);
    op->run = run_most;
    op->destroy = most_destroy;
    op->state = made;
    return HYP_OK;
}
