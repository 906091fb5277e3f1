/* run.c - a run of prepared ops: where tensors lie, and the streams that ops go to. */
#include "runtime/cuda/driver/ranges.h"
#include "runtime/cuda/session/backend.h"

_Static_assert((int)HYP_PLAN_WINDOW_ALIGN % (int)HYP_CUDA_MIN_ALIGN == 0, "windows begin where any tensor may");

static void bind_others(hyp_cuda_session *s, const hyp_cuda_prepared *p)
{
    const HypPlan__Program *program = s->model->plan->program;
    CUdeviceptr own = s->scratch + p->value_bytes;
    for (uint32_t t = 0; t < program->n_tensors; t++) {
        const HypPlan__Tensor *tensor = program->tensors[t];
        if (tensor->place == HYP_PLAN__PLACE__PLACE_WEIGHT) s->at[t] = s->model->weights + tensor->offset;
        if (tensor->place == HYP_PLAN__PLACE__PLACE_SCRATCH)
            s->at[t] = hyp_cuda_has_own(p, t) ? own + p->own_offset[t] : s->scratch + p->value_offset[t];
    }
    for (uint32_t t = 0; t < program->n_tensors; t++)
        if (program->tensors[t]->place == HYP_PLAN__PLACE__PLACE_VIEW)
            s->at[t] = hyp_cuda_has_own(p, t) ? own + p->own_offset[t]
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

hyp_status hyp_cuda_run_op(hyp_cuda_session *s, const hyp_cuda_op *op, hyp_diag *diag)
{
    CUdeviceptr room = s->room;
    if (op->room_at != HYP_CUDA_AS_PLANNED) s->room = s->scratch + op->room_at;
    hyp_status status = op->run(s, op->data, diag);
    s->room = room;
    return status;
}

static hyp_status run_some(hyp_cuda_session *s, const hyp_cuda_prepared *p, size_t begin, size_t end, hyp_diag *diag)
{
    for (size_t i = begin; i < end; i++) {
        const hyp_cuda_op *op = &p->ops.data[i];
        for (size_t k = 0; s->forks && k < p->ahead.len; k++)
            if (p->ahead.data[k].op == i) HYP_TRY(send_ahead(s, &p->ahead.data[k], diag));
        if (s->bindings) HYP_TRY(hyp_step_begins(s->bindings, op->step, diag));
        hyp_cuda_range_begins(s->model->plan->program->steps[op->step]->label);
        hyp_status status = hyp_cuda_run_op(s, op, diag);
        hyp_cuda_range_ends();
        s->starts = false;
        if (s->bindings && status == HYP_OK) hyp_step_ends(s->bindings, op->step);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "step %u (%s)", op->step, s->model->plan->program->steps[op->step]->label);
        return status;
    }
    return HYP_OK;
}

/* What ops take from the session while they go to a stream. */
typedef struct at_stream {
    CUstream stream;
    CUdeviceptr workspace;
    size_t workspace_bytes;
} at_stream;

static hyp_status go_to(hyp_cuda_session *s, const at_stream *at, hyp_diag *diag)
{
    HYP_TRY(hyp_cuda_go_to(s, at->stream, diag));
    s->workspace = at->workspace;
    s->workspace_bytes = at->workspace_bytes;
    return HYP_OK;
}

/* From this driver on a kernel in a graph may be launched before the one before it on its stream has ended although it waits
 * for the ends of others, too. */
enum { MIXED_EDGES = 12030 };

/* Runs a unit on its stream when those that it waits for have ended. The first one of a stream has to wait for
 * something of the session's, so that it is forked from it. */
static hyp_status run_unit(hyp_cuda_session *s, const hyp_cuda_prepared *p, uint32_t unit, bool first, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    const hyp_cuda_branches *branches = &p->branches;
    const hyp_task *task = &branches->tasks[unit];
    bool waits = false;
    for (uint32_t branch = 0; branch < branches->schedule.branches; branch++) {
        if (!task->after[branch]) continue;
        CUevent event = s->branches.events.data[branches->units[task->after[branch] - 1].event];
        HYP_TRY(hyp_cuda_check(lib, lib->cuStreamWaitEvent(s->stream, event, 0), "cuStreamWaitEvent", diag));
        waits = true;
    }
    if (first && task->branch > 0 && !waits)
        HYP_TRY(hyp_cuda_check(lib, lib->cuStreamWaitEvent(s->stream, s->branches.events.data[0], 0),
                               "cuStreamWaitEvent", diag));
    if (first)
        s->starts = waits || task->branch > 0 || p->reads_early;
    else
        s->starts = waits && s->model->device->driver < MIXED_EDGES;
    HYP_TRY(run_some(s, p, branches->units[unit].first, branches->units[unit].end, diag));
    if (!task->awaited) return HYP_OK;
    return hyp_cuda_check(lib, lib->cuEventRecord(s->branches.events.data[branches->units[unit].event], s->stream),
                          "cuEventRecord", diag);
}

/* The ops that a run has. */
static size_t op_count(const hyp_cuda_session *s, const hyp_cuda_prepared *p)
{
    return s->leaves_commit ? p->commit : p->ops.len;
}

/* `begun`, by branch, is all false before. */
static hyp_status run_units(hyp_cuda_session *s, const hyp_cuda_prepared *p, const at_stream *own, bool *begun, hyp_diag *diag)
{
    const hyp_cuda_branches *branches = &p->branches;
    for (uint32_t i = 0; i < branches->count; i++) {
        uint32_t unit = branches->schedule.order[i], branch = branches->tasks[unit].branch;
        if (branches->units[unit].first >= op_count(s, p)) continue;
        const at_stream other = {branch ? s->branches.more[branch - 1] : 0,
                                 s->branches.memory + branches->workspace_at[branch], branches->workspace_bytes[branch]};
        HYP_TRY(go_to(s, branch ? &other : own, diag));
        HYP_TRY(run_unit(s, p, unit, !begun[branch], diag));
        begun[branch] = true;
    }
    return HYP_OK;
}

/* What a stream has last, where that may be no unit with an event of its own: the first event has served by now. */
static hyp_status join_branch(const hyp_cuda_session *s, uint32_t branch, hyp_diag *diag)
{
    return let_wait(s, s->branches.more[branch - 1], s->branches.events.data[0], s->stream, diag);
}

/* Ops in a graph of ours, by their schedule. */
static hyp_status run_side_by_side(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    const hyp_cuda_branches *branches = &p->branches;
    const at_stream own = {s->stream, s->workspace, s->workspace_bytes};
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(s->branches.events.data[0], s->stream), "cuEventRecord", diag));
    bool begun[HYP_STREAMS] = {false};
    hyp_status status = run_units(s, p, &own, begun, diag);
    hyp_status back = go_to(s, &own, status == HYP_OK ? diag : NULL);
    if (status == HYP_OK) status = back;
    for (uint32_t branch = 1; branch < branches->schedule.branches && status == HYP_OK; branch++) {
        if (s->leaves_commit && begun[branch]) status = join_branch(s, branch, diag);
        if (s->leaves_commit || !branches->schedule.last[branch]) continue;
        CUevent event = s->branches.events.data[branches->units[branches->schedule.last[branch] - 1].event];
        status = hyp_cuda_check(lib, lib->cuStreamWaitEvent(s->stream, event, 0), "cuStreamWaitEvent", diag);
    }
    return status;
}

/* The commit as a graph for this run alone: it is launched as a whole, or nothing of it. */
static hyp_status launch_commit(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    CUstream before;
    CUgraph graph;
    CUgraphExec made;
    HYP_TRY(hyp_cuda_capture_begins(s, &before, diag));
    hyp_status status = run_some(s, p, p->commit, p->ops.len, diag);
    HYP_TRY(hyp_cuda_capture_ends(s, before, status, &graph, diag));
    status = hyp_cuda_check(lib, lib->cuGraphInstantiate(&made, graph, 0), "cuGraphInstantiate", diag);
    lib->cuGraphDestroy(graph);
    HYP_TRY(status);
    status = hyp_cuda_check(lib, lib->cuGraphLaunch(made, s->stream), "running the plan on the device", diag);
    lib->cuGraphExecDestroy(made); /* one that runs still is freed when it ends */
    s->committed = status == HYP_OK;
    return status;
}

/* Ops one after the other. */
static hyp_status run_in_order(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    bool commits = p->commit < op_count(s, p);
    if (!commits || s->capturing) return run_some(s, p, p->aside, op_count(s, p), diag);
    HYP_TRY(run_some(s, p, p->aside, p->commit, diag));
    return launch_commit(s, p, diag);
}

/* Whether ops go to streams beside the run's, too: into a graph of ours or of the caller's, unless another capture that has not
 * ended has these. Who is told of every step gets them in their order. */
static bool may_fork(const hyp_cuda_session *s, const hyp_cuda_prepared *p)
{
    if (!s->capturing && (!s->captured || (s->bindings && hyp_steps_are_watched(s->bindings)))) return false;
    for (uint32_t branch = 1; p->branches.units && branch < p->branches.schedule.branches; branch++)
        if (!hyp_cuda_can_join(s, s->branches.more[branch - 1])) return false;
    return p->ahead.len == 0 || hyp_cuda_can_join(s, s->aside);
}

/* Where kernels read inputs before they wait for those before them, the first op begins when all before it in the
 * stream has ended. Ops aside go to a stream of their own, which leaves the session's at the beginning and joins it at
 * the end. In a CUDA graph that makes a branch. */
hyp_status hyp_cuda_run_ops(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    CUstream stream = s->stream;
    bind_others(s, p);
    s->forks = may_fork(s, p);
    if (p->aside) {
        HYP_TRY(let_wait(s, stream, s->begins, s->aside, diag));
        s->stream = s->aside;
        s->starts = true;
        hyp_status status = run_some(s, p, 0, p->aside, diag);
        s->stream = stream;
        HYP_TRY(status);
    }
    /* in a graph of the caller's the run before may have ended with streams that join */
    s->starts = p->reads_early || (s->captured && s->model->device->driver < MIXED_EDGES);
    if (s->forks && p->branches.units && hyp_cuda_branches_fit(s, p))
        HYP_TRY(run_side_by_side(s, p, diag));
    else
        HYP_TRY(run_in_order(s, p, diag));
    s->starts = false; /* also where there was no op */
    bool branched = p->aside > 0 || (s->forks && p->ahead.len > 0);
    return branched ? let_wait(s, s->aside, s->ends, stream, diag) : HYP_OK;
}

hyp_status hyp_cuda_queue_run(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    HYP_TRY(hyp_cuda_stage_packed(s, p, false, diag));
    HYP_TRY(hyp_cuda_run_ops(s, p, diag));
    return hyp_cuda_stage_packed(s, p, true, diag);
}
