/* aside.c - the gradients of a layer's own weight and bias beside the gradient that goes on to the layer before, in graphs of
 * the caller's: both products read one thing, neither waits for the other, and such of few rows leave most of a device idle. By
 * itself every launch costs the host what a second stream would save. */
#include "runtime/cuda/nn/nn.h"
#include "runtime/cuda/session/backend.h"

enum { BEGINS, ENDS, READ /* from here on: by slot */ };

static bool goes_aside(const hyp_nn_step *s) { return s->kind == HYP_NN_WGRAD || s->kind == HYP_NN_SUMS; }

static CUevent event(const hyp_cuda_nn *nn, size_t which) { return nn->session.branches.events.data[which]; }

static hyp_status let_wait(const hyp_cuda_nn *nn, CUstream from, size_t which, CUstream to, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &nn->model.device->lib;
    if (from) HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(event(nn, which), from), "cuEventRecord", diag));
    return hyp_cuda_check(lib, lib->cuStreamWaitEvent(to, event(nn, which), 0), "cuStreamWaitEvent", diag);
}

hyp_status hyp_cuda_nn_aside_open(hyp_cuda_nn *nn, hyp_diag *diag)
{
    hyp_cuda_session *s = &nn->session;
    const hyp_cuda_library *lib = &nn->model.device->lib;
    HYP_TRY(hyp_cuda_branches_wanted(&s->branches.wanted, diag));
    if (s->branches.wanted == 1) return HYP_OK;
    HYP_TRY(hyp_vec_reserve(&s->branches.events, READ + HYP_CUDA_NN_ASIDE, diag));
    while (s->branches.events.len < READ + HYP_CUDA_NN_ASIDE) {
        CUevent made;
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventCreate(&made, CU_EVENT_DISABLE_TIMING), "cuEventCreate", diag));
        s->branches.events.data[s->branches.events.len++] = made;
    }
    return hyp_cuda_check(lib, lib->cuStreamCreateWithPriority(&s->branches.more[0], CU_STREAM_NON_BLOCKING, s->priority),
                          "cuStreamCreate", diag);
}

hyp_status hyp_cuda_nn_aside_reserve(hyp_cuda_nn *nn, const hyp_cuda_nn_entry *e, size_t room, hyp_diag *diag)
{
    hyp_cuda_session *s = &nn->session;
    hyp_cuda_nn_aside *a = &nn->aside;
    if (!goes_aside(&e->step) || !s->branches.more[0]) return HYP_OK;
    size_t workspace = hyp_cuda_round_up(e->workspace, HYP_CUDA_ALIGN);
    if (workspace > a->workspace_bytes) a->workspace_bytes = workspace;
    if (room > a->room_bytes) a->room_bytes = room;
    return hyp_cuda_grow(s, &s->branches.memory, &s->branches.bytes, a->workspace_bytes + a->room_bytes,
                         "gradients side by side", diag);
}

void hyp_cuda_nn_aside_begins(hyp_cuda_nn *nn)
{
    hyp_cuda_session *s = &nn->session;
    nn->aside.forked = false;
    nn->aside.open = s->captured && s->branches.more[0] && hyp_cuda_can_join(s, s->branches.more[0]);
    memset(nn->aside.reads, 0, sizeof nn->aside.reads);
}

hyp_status hyp_cuda_nn_aside_ends(hyp_cuda_nn *nn, hyp_diag *diag)
{
    if (!nn->aside.forked) return HYP_OK;
    nn->aside.forked = false;
    return let_wait(nn, nn->session.branches.more[0], ENDS, nn->session.stream, diag);
}

/* A gradient is written to where an earlier one was, which steps aside may still read: two places take turns. */
static hyp_status await_readers(hyp_cuda_nn *nn, const void *written, hyp_diag *diag)
{
    for (size_t i = 0; i < HYP_CUDA_NN_ASIDE; i++) {
        if (!written || nn->aside.reads[i] != written) continue;
        nn->aside.reads[i] = NULL;
        nn->session.starts = true;
        HYP_TRY(let_wait(nn, NULL, READ + i, nn->session.stream, diag));
    }
    return HYP_OK;
}

static hyp_status run_aside(hyp_cuda_nn *nn, hyp_cuda_nn_entry *e, const hyp_nn_operands *at, hyp_diag *diag)
{
    hyp_cuda_session *s = &nn->session;
    hyp_cuda_nn_aside *a = &nn->aside;
    const CUstream before = s->stream, beside = s->branches.more[0];
    const CUdeviceptr workspace = s->workspace, room = s->room;
    const size_t workspace_bytes = s->workspace_bytes;
    const bool starts = s->starts;
    HYP_TRY(let_wait(nn, before, BEGINS, beside, diag));
    a->forked = true;
    s->stream = beside;
    s->workspace = s->branches.memory;
    s->workspace_bytes = a->workspace_bytes;
    s->room = s->branches.memory + a->workspace_bytes;
    s->starts = true;
    hyp_status status = hyp_cuda_nn_run_entry(nn, e, at, diag);
    s->stream = before;
    s->workspace = workspace;
    s->workspace_bytes = workspace_bytes;
    s->room = room;
    s->starts = starts;
    HYP_TRY(status);
    const hyp_cuda_library *lib = &nn->model.device->lib;
    a->next = (a->next + 1) % HYP_CUDA_NN_ASIDE;
    a->reads[a->next] = at->y;
    return hyp_cuda_check(lib, lib->cuEventRecord(event(nn, READ + a->next), beside), "cuEventRecord", diag);
}

hyp_status hyp_cuda_nn_run_beside(hyp_cuda_nn *nn, hyp_cuda_nn_entry *e, const hyp_nn_operands *at, hyp_diag *diag)
{
    if (nn->aside.open && goes_aside(&e->step)) return run_aside(nn, e, at, diag);
    if (nn->aside.forked) HYP_TRY(await_readers(nn, at->x, diag));
    return hyp_cuda_nn_run_entry(nn, e, at, diag);
}
