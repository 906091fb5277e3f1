/* run.c - a run of prepared ops: where tensors lie, and the streams that ops go to. */
#include "runtime/cuda/session/backend.h"

_Static_assert((int)HYP_PLAN_WINDOW_ALIGN % (int)HYP_CUDA_MIN_ALIGN == 0, "windows begin where any tensor may");

static bool has_own(const hyp_cuda_prepared *p, uint32_t tensor)
{
    return p->own_offset && p->own_offset[tensor] != HYP_CUDA_AS_PLANNED;
}

static void bind_others(hyp_cuda_session *s, const hyp_cuda_prepared *p)
{
    const HypPlan__Program *program = s->model->plan->program;
    for (uint32_t t = 0; t < program->n_tensors; t++) {
        const HypPlan__Tensor *tensor = program->tensors[t];
        if (tensor->place == HYP_PLAN__PLACE__PLACE_WEIGHT) s->at[t] = s->model->weights + tensor->offset;
        if (tensor->place == HYP_PLAN__PLACE__PLACE_SCRATCH)
            s->at[t] = s->scratch + (has_own(p, t) ? p->own_offset[t] : p->slot_offset[tensor->slot]);
    }
    for (uint32_t t = 0; t < program->n_tensors; t++)
        if (program->tensors[t]->place == HYP_PLAN__PLACE__PLACE_VIEW)
            s->at[t] = has_own(p, t) ? s->scratch + p->own_offset[t]
                                     : s->at[program->tensors[t]->view_of] + hyp_plan_first_byte(program, t);
}

/* Work for `to` waits for what is in `from` now. */
static hyp_status let_wait(const hyp_cuda_session *s, CUstream from, CUevent event, CUstream to, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(event, from), "cuEventRecord", diag));
    return hyp_cuda_check(lib, lib->cuStreamWaitEvent(to, event, 0), "cuStreamWaitEvent", diag);
}

/* Sends for weights on the branch of the graph that is captured. */
static hyp_status send_ahead(hyp_cuda_session *s, const hyp_cuda_ahead *ahead, hyp_diag *diag)
{
    CUstream stream = s->stream;
    HYP_TRY(let_wait(s, stream, s->begins, s->aside, diag));
    s->stream = s->aside;
    hyp_status status = hyp_cuda_prefetch_run(s, ahead, diag);
    s->stream = stream;
    return status;
}

static hyp_status run_some(hyp_cuda_session *s, const hyp_cuda_prepared *p, size_t begin, size_t end, hyp_diag *diag)
{
    size_t sent = 0;
    for (size_t i = begin; i < end; i++) {
        const hyp_cuda_op *op = &p->ops.data[i];
        for (; s->capturing && sent < p->ahead.len && p->ahead.data[sent].op <= i; sent++)
            HYP_TRY(send_ahead(s, &p->ahead.data[sent], diag));
        if (s->bindings) HYP_TRY(hyp_step_begins(s->bindings, op->step, diag));
        hyp_status status = op->run(s, op->data, diag);
        s->starts = false;
        if (s->bindings && status == HYP_OK) hyp_step_ends(s->bindings, op->step);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "step %u (%s)", op->step, s->model->plan->program->steps[op->step]->label);
        return status;
    }
    return HYP_OK;
}

/* Where kernels read inputs before they wait for those before them, the first op begins when all before it in the
 * stream has ended. Ops aside go to a stream of their own, which leaves the session's at the beginning and joins it at
 * the end. In a CUDA graph that makes a branch. */
hyp_status hyp_cuda_run_ops(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    CUstream stream = s->stream;
    bind_others(s, p);
    if (p->aside) {
        HYP_TRY(let_wait(s, stream, s->begins, s->aside, diag));
        s->stream = s->aside;
        s->starts = true;
        hyp_status status = run_some(s, p, 0, p->aside, diag);
        s->stream = stream;
        HYP_TRY(status);
    }
    s->starts = p->reads_early;
    HYP_TRY(run_some(s, p, p->aside, p->ops.len, diag));
    s->starts = false; /* also where there was no op */
    bool branched = p->aside > 0 || (s->capturing && p->ahead.len > 0);
    return branched ? let_wait(s, s->aside, s->ends, stream, diag) : HYP_OK;
}

hyp_status hyp_cuda_queue_run(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    HYP_TRY(hyp_cuda_stage_packed(s, p, false, diag));
    HYP_TRY(hyp_cuda_run_ops(s, p, diag));
    return hyp_cuda_stage_packed(s, p, true, diag);
}
