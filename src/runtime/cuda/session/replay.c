#include "runtime/cuda/session/replay.h"

#include "runtime/cuda/driver/ranges.h"
#include "runtime/cuda/session/backend.h"

enum { OWN = 4 }; /* parts of a key that are no addresses of inputs and outputs */

enum { PAUSE = 16 }; /* runs before a graph that could not be made is tried again for the first time */

static const size_t kept_count = sizeof((hyp_cuda_replays *)0)->kept / sizeof(hyp_cuda_replay);

hyp_status hyp_cuda_replays_init(hyp_cuda_replays *r, size_t edges, hyp_arena *arena, hyp_diag *diag)
{
    r->key_length = edges + OWN;
    for (size_t i = 0; i < kept_count; i++) {
        r->kept[i].key = hyp_arena_zalloc(arena, r->key_length, sizeof *r->kept[i].key);
        if (!r->kept[i].key) return hyp_fail_memory(diag, r->key_length * sizeof *r->kept[i].key);
    }
    return HYP_OK;
}

static bool commits(const hyp_cuda_session *s, const hyp_cuda_prepared *p)
{
    return !s->leaves_commit && p->commit < p->ops.len;
}

static void drop_graph(hyp_cuda_replays *r, CUgraphExec *graph, const hyp_cuda_library *lib)
{
    if (!*graph) return;
    lib->cuGraphExecDestroy(*graph); /* one that runs still is freed when it ends */
    *graph = NULL;
    r->graphs--;
}

void hyp_cuda_replays_dispose(hyp_cuda_replays *r, const hyp_cuda_library *lib)
{
    for (size_t i = 0; i < kept_count; i++) drop_graph(r, &r->kept[i].graph, lib);
    while (r->spares > 0) drop_graph(r, &r->spare[--r->spares], lib);
}

/* Addresses are even: an odd number is that of a tensor which the graph itself copies, from or to packed memory. */
static CUdeviceptr key_part(const hyp_cuda_session *s, size_t i)
{
    const HypPlan__Program *p = s->model->plan->program;
    size_t edges = p->n_inputs + p->n_outputs;
    const CUdeviceptr own[OWN] = {s->scratch, s->branches.memory, (uintptr_t)s->staging.packed, s->leaves_commit};
    if (i >= edges) return own[i - edges];
    uint32_t tensor = i < p->n_inputs ? p->inputs[i] : p->outputs[i - p->n_inputs];
    return s->at[tensor] + (s->staging.ways[i] == HYP_CUDA_WAY_PACKED);
}

static bool is_for(const hyp_cuda_replay *replay, const hyp_cuda_session *s, size_t key_length)
{
    if (replay->used == 0) return false;
    for (size_t i = 0; i < key_length; i++)
        if (replay->key[i] != key_part(s, i)) return false;
    return true;
}

/* The replay for the buffers of this run. Where there is none, the one without a graph that was not used for the
 * longest time becomes it, with *out_new set. */
static hyp_cuda_replay *find(hyp_cuda_replays *r, const hyp_cuda_session *s, bool *out_new)
{
    hyp_cuda_replay *oldest = NULL;
    *out_new = false;
    for (size_t i = 0; i < kept_count; i++) {
        if (is_for(&r->kept[i], s, r->key_length)) return &r->kept[i];
        if (!r->kept[i].graph && (!oldest || r->kept[i].used < oldest->used)) oldest = &r->kept[i];
    }
    *out_new = true;
    for (size_t i = 0; i < r->key_length; i++) oldest->key[i] = key_part(s, i);
    return oldest;
}

/* ---- making graphs ----------------------------------------------------------------------------------------------- */

/* The same ops run without a graph. That lasts as long as what is in the way, so that one is told of it once. */
static void note_failure(hyp_cuda_session *s, hyp_cuda_replays *r, const hyp_diag *why)
{
    r->pause = r->pause ? 2 * r->pause : PAUSE;
    r->next = r->runs + r->pause;
    if (!s->told_of_graphs)
        hyp_log_printf(&s->model->device->log, "runs are queued step by step, until a CUDA graph can be made: %s",
                       why->message);
    s->told_of_graphs = true;
}

static hyp_status capture(hyp_cuda_session *s, const hyp_cuda_prepared *p, CUgraph *out, hyp_diag *diag)
{
    CUstream before;
    HYP_TRY(hyp_cuda_capture_begins(s, &before, diag));
    s->capturing = true;
    hyp_status status = hyp_cuda_queue_run(s, p, diag);
    s->capturing = false;
    return hyp_cuda_capture_ends(s, before, status, out, diag);
}

static hyp_status instantiate(const hyp_cuda_session *s, hyp_cuda_replays *r, CUgraph graph, CUgraphExec *out,
                              hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    HYP_TRY(hyp_cuda_check(lib, lib->cuGraphInstantiate(out, graph, 0), "cuGraphInstantiate", diag));
    r->graphs++;
    return HYP_OK;
}

/* A graph that these buffers may have: a spare one, or that of buffers which did not come since these came last, or came last
 * where they have to have one. NULL: none. */
static CUgraphExec *find_unused(hyp_cuda_replays *r, const hyp_cuda_replay *replay, bool must)
{
    hyp_cuda_replay *oldest = NULL;
    CUdeviceptr leaves = replay->key[r->key_length - 1];
    for (size_t i = r->spares; i-- > 0;)
        if (r->spare_leaves[i] == (leaves != 0)) return &r->spare[i];
    for (size_t i = 0; i < kept_count; i++) {
        hyp_cuda_replay *k = &r->kept[i];
        if (k->graph && k->key[r->key_length - 1] == leaves && (!oldest || k->used < oldest->used)) oldest = k;
    }
    return oldest && (must || oldest->used < replay->used) ? &oldest->graph : NULL;
}

static void take_spare(hyp_cuda_replays *r, const CUgraphExec *taken)
{
    if (taken < r->spare || taken >= r->spare + r->spares) return;
    for (size_t i = (size_t)(taken - r->spare); i + 1 < r->spares; i++) {
        r->spare[i] = r->spare[i + 1];
        r->spare_leaves[i] = r->spare_leaves[i + 1];
    }
    r->spare[--r->spares] = NULL;
}

/* Gives the replay a graph: one that is there and changed in place, or a new one while there may be more. What is there
 * is made anew only where it has other steps (host tensors that are packed otherwise, say). */
static hyp_status take_graph(hyp_cuda_session *s, hyp_cuda_prepared *p, hyp_cuda_replay *replay, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    hyp_cuda_replays *r = &p->replays;
    bool change = r->spares > 0 || r->graphs == HYP_CUDA_REPLAYS;
    CUgraphExec *other = change ? find_unused(r, replay, commits(s, p)) : NULL;
    CUgraph graph;
    CUgraphExecUpdateResultInfo result = {0};
    if (!other && r->graphs == HYP_CUDA_REPLAYS) return HYP_OK;
    HYP_TRY(capture(s, p, &graph, diag));
    if (other && lib->cuGraphExecUpdate(*other, graph, &result) != CUDA_SUCCESS) {
        drop_graph(r, other, lib);
        if (!s->told_of_updates)
            hyp_log_printf(&s->model->device->log,
                           "a CUDA graph is made anew, for it has other steps with these tensors (%d)",
                           (int)result.result);
        s->told_of_updates = true;
    }
    if (other) replay->graph = *other;
    if (other) *other = NULL;
    take_spare(r, other);
    hyp_status status = replay->graph ? HYP_OK : instantiate(s, r, graph, &replay->graph, diag);
    lib->cuGraphDestroy(graph);
    return status;
}

static void try_graph(hyp_cuda_session *s, hyp_cuda_prepared *p, hyp_cuda_replay *replay)
{
    hyp_diag why = {0};
    if (take_graph(s, p, replay, &why) != HYP_OK) note_failure(s, &p->replays, &why);
}

/* The first launch of a graph takes memory for it: without that nothing was queued, and the ops run one by one. */
static hyp_status fail_launch(hyp_cuda_session *s, hyp_cuda_replays *r, hyp_cuda_replay *replay, CUresult result,
                              bool *out_done, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    hyp_diag why = {0};
    hyp_status status = hyp_cuda_check(lib, result, "running the plan on the device", &why);
    *out_done = status != HYP_ERR_NO_MEMORY;
    if (*out_done) return hyp_fail(diag, status, "%s", why.message);
    drop_graph(r, &replay->graph, lib);
    note_failure(s, r, &why);
    return HYP_OK;
}

hyp_status hyp_cuda_replay_run(hyp_cuda_session *s, hyp_cuda_prepared *p, bool *out_done, hyp_diag *diag)
{
    hyp_cuda_replays *r = &p->replays;
    *out_done = false;
    if (p->ops.len == 0 || s->captured) return HYP_OK;
    bool is_new;
    hyp_cuda_replay *replay = find(r, s, &is_new);
    r->runs++;
    /* Libraries load what they need in the first run, and buffers that are new may never come again. */
    bool wanted = !is_new || (commits(s, p) && r->graphs > 0);
    if (wanted && !replay->graph && r->runs >= r->next) try_graph(s, p, replay);
    replay->used = r->runs;
    if (!replay->graph) return HYP_OK;
    hyp_cuda_range_begins(s->model->plan->program->model_name);
    CUresult result = s->model->device->lib.cuGraphLaunch(replay->graph, s->stream);
    hyp_cuda_range_ends();
    if (result != CUDA_SUCCESS) return fail_launch(s, r, replay, result, out_done, diag);
    s->committed = commits(s, p);
    *out_done = true;
    return HYP_OK;
}

/* ---- ahead of runs ------------------------------------------------------------------------------------------------
 */

/* Tensors of the caller's are where nobody's are: the graphs are never launched for these. */
static void place_edges(hyp_cuda_session *s, const hyp_cuda_prepared *p, CUdeviceptr at)
{
    const HypPlan__Program *program = s->model->plan->program;
    for (size_t i = 0; i < program->n_inputs + program->n_outputs; i++) {
        s->at[i < program->n_inputs ? program->inputs[i] : program->outputs[i - program->n_inputs]] =
            at + p->edge_offset[i];
        s->staging.ways[i] = HYP_CUDA_WAY_NONE;
    }
}

static hyp_status make_some(hyp_cuda_session *s, hyp_cuda_prepared *p, bool leaves, size_t most, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    hyp_cuda_replays *r = &p->replays;
    CUgraph graph;
    s->leaves_commit = leaves;
    hyp_status status = capture(s, p, &graph, diag);
    s->leaves_commit = false;
    HYP_TRY(status);
    while (status == HYP_OK && r->graphs < most) {
        CUgraphExec *spare = &r->spare[r->spares];
        status = instantiate(s, r, graph, spare, diag);
        if (status != HYP_OK) break;
        r->spare_leaves[r->spares++] = leaves;
        status = hyp_cuda_check(lib, lib->cuGraphUpload(*spare, s->recorder), "cuGraphUpload", diag);
    }
    lib->cuGraphDestroy(graph);
    return status;
}

/* Where there is a commit, one for runs that do without it. */
static hyp_status make_graphs(hyp_cuda_session *s, hyp_cuda_prepared *p, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    if (p->commit < p->ops.len && !p->replays.graphs) HYP_TRY(make_some(s, p, true, 1, diag));
    HYP_TRY(make_some(s, p, false, HYP_CUDA_REPLAYS, diag));
    return hyp_cuda_check(lib, lib->cuStreamSynchronize(s->recorder), "cuStreamSynchronize", diag);
}

static hyp_status reserve_padding(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    HYP_TRY(hyp_cuda_enter(s->model->device, diag));
    hyp_status status = hyp_cuda_stage_reserve(s, p, diag);
    hyp_cuda_leave(s->model->device);
    return status;
}

hyp_status hyp_cuda_reserve(void *session, void *prepared, hyp_diag *diag)
{
    hyp_cuda_session *s = session;
    hyp_cuda_prepared *p = prepared;
    const hyp_cuda_library *lib = &s->model->device->lib;
    hyp_diag why = {0};
    CUdeviceptr at;
    size_t bytes = p->staging_bytes ? p->staging_bytes : 1; /* copies within a graph are of memory that is there */
    if (s->pads) HYP_TRY(reserve_padding(s, p, diag));
    if (p->ops.len == 0 || p->replays.graphs == HYP_CUDA_REPLAYS || p->replays.runs < p->replays.next) return HYP_OK;
    HYP_TRY(hyp_cuda_enter(s->model->device, diag));
    hyp_status status = hyp_cuda_take(lib, bytes, &at, &why);
    if (status == HYP_OK) {
        place_edges(s, p, at);
        status = make_graphs(s, p, &why);
        hyp_cuda_give(lib, at, bytes);
    }
    if (status != HYP_OK) note_failure(s, &p->replays, &why);
    hyp_cuda_leave(s->model->device);
    return status == HYP_ERR_DEVICE_LOST ? hyp_fail(diag, status, "%s", why.message) : HYP_OK;
}
