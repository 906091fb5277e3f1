#include "runtime/cuda/session/replay.h"

#include "runtime/cuda/session/backend.h"

enum { OWN = 4 }; /* addresses of a key that are not those of inputs and outputs */

hyp_status hyp_cuda_replays_init(hyp_cuda_replays *r, size_t edges, hyp_arena *arena, hyp_diag *diag)
{
    r->key_length = edges + OWN;
    for (size_t i = 0; i < HYP_CUDA_REPLAYS; i++) {
        r->kept[i].key = hyp_arena_zalloc(arena, r->key_length, sizeof *r->kept[i].key);
        if (!r->kept[i].key) return hyp_fail_memory(diag, r->key_length * sizeof *r->kept[i].key);
    }
    return HYP_OK;
}

static void forget(hyp_cuda_replay *replay, const hyp_cuda_library *lib)
{
    if (replay->graph) lib->cuGraphExecDestroy(replay->graph); /* one that runs still is freed when it ends */
    replay->graph = NULL;
    replay->used = 0;
}

void hyp_cuda_replays_dispose(hyp_cuda_replays *r, const hyp_cuda_library *lib)
{
    for (size_t i = 0; i < HYP_CUDA_REPLAYS; i++) forget(&r->kept[i], lib);
}

/* Addresses are even: an odd number is that of a tensor which the graph itself copies, from or to packed memory. */
static CUdeviceptr key_part(const hyp_cuda_session *s, size_t i)
{
    const HypPlan__Program *p = s->model->plan->program;
    size_t edges = p->n_inputs + p->n_outputs;
    const CUdeviceptr own[OWN] = {s->scratch, s->room, s->branches.memory, (uintptr_t)s->staging.packed};
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

/* The replay for the buffers of this run. Where there is none, the one that was not used for the longest time makes
 * room for it, with *out_new set. */
static hyp_cuda_replay *find(hyp_cuda_replays *r, const hyp_cuda_session *s, bool *out_new)
{
    hyp_cuda_replay *oldest = &r->kept[0];
    *out_new = false;
    for (size_t i = 0; i < HYP_CUDA_REPLAYS; i++) {
        if (is_for(&r->kept[i], s, r->key_length)) return &r->kept[i];
        if (r->kept[i].used < oldest->used) oldest = &r->kept[i];
    }
    *out_new = true;
    forget(oldest, &s->model->device->lib);
    for (size_t i = 0; i < r->key_length; i++) oldest->key[i] = key_part(s, i);
    return oldest;
}

/* Why it fails, if it does, is nothing to the caller: the same ops run without a graph. */
static CUgraphExec capture(hyp_cuda_session *s, hyp_cuda_prepared *p)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    hyp_diag unused = {0};
    CUstream before;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    if (hyp_cuda_capture_begins(s, &before, &unused) != HYP_OK) return NULL;
    s->capturing = true;
    hyp_status status = hyp_cuda_queue_run(s, p, &unused);
    s->capturing = false;
    if (hyp_cuda_capture_ends(s, before, status, &graph, &unused) != HYP_OK) return NULL;
    if (lib->cuGraphInstantiate(&exec, graph, 0) != CUDA_SUCCESS) exec = NULL;
    lib->cuGraphDestroy(graph);
    return exec;
}

hyp_status hyp_cuda_replay_run(hyp_cuda_session *s, hyp_cuda_prepared *p, bool *out_done, hyp_diag *diag)
{
    hyp_cuda_replays *r = &p->replays;
    *out_done = false;
    if (r->refused || p->ops.len == 0 || s->captured) return HYP_OK;
    bool is_new;
    hyp_cuda_replay *replay = find(r, s, &is_new);
    replay->used = ++r->runs;
    if (is_new) return HYP_OK; /* libraries load what they need in the first run, and buffers may never come again */
    if (!replay->graph) replay->graph = capture(s, p);
    r->refused = !replay->graph;
    if (r->refused) return HYP_OK;
    const hyp_cuda_library *lib = &s->model->device->lib;
    CUresult result = lib->cuGraphLaunch(replay->graph, s->stream);
    r->refused = result == CUDA_ERROR_OUT_OF_MEMORY; /* the first launch of a graph takes memory for it */
    if (r->refused) return HYP_OK;
    *out_done = true;
    return hyp_cuda_check(lib, result, "running the plan on the device", diag);
}
