/* trial.c - operands in memory as in a run, samples of the time, and comparison of results. */
#include <string.h>

#include "base/dtype.h"
#include "runtime/core/tuner.h"
#include "runtime/cuda/session/backend.h"
#include "runtime/cuda/session/placement.h"
#include "runtime/cuda/tuning/tune.h"

enum {
    PATTERN = 65521,    /* random elements that fill a tensor again and again; prime, so that no row repeats another */
    MOST_REPEATS = 512, /* of a product in one graph */
    FIRST_REPEATS = 4,  /* before it is known how long it takes */
    PART = 1 << 14,     /* elements that are compared at a time */
    PARTS = 64,         /* at most so many of them, spread over the result */
};
static const double sample_seconds = 1e-3; /* about so long, so that the launch of the graph does not count */

/* ---- memory --------------------------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) { return hyp_cuda_round_up(bytes, HYP_CUDA_ALIGN); }

/* The weight that a tensor is, or is a view of; NULL where it is none. */
static const HypPlan__Tensor *weight_of(const hyp_cuda_model *m, uint32_t tensor)
{
    const HypPlan__Tensor *root = m->plan->program->tensors[hyp_plan_root(m->plan->program, tensor)];
    return root->place == HYP_PLAN__PLACE__PLACE_WEIGHT ? root : NULL;
}

/* Whether a run finds its weights in main memory, because the cache cannot keep them until the next. */
static bool weights_outgrow_cache(const hyp_cuda_model *m)
{
    return m->plan->read_bytes > (size_t)m->device->cache_bytes / 2;
}

/* Between two uses of a weight a run touches all others: whether the cache still has it depends on how many they are.
 * Of what is small beside all that is read and written, the scalars of a large step, it does not matter. */
static void set_copies(hyp_cuda_trial *t)
{
    enum { SMALL = 16 };
    const hyp_cuda_model *m = t->session->model;
    size_t bytes = 0, all = 0;
    t->copies = 1;
    for (size_t i = 0; i < t->read_count; i++) t->reads[i].copies = 1;
    if (!weights_outgrow_cache(m)) return;
    for (size_t i = 0; i < t->read_count; i++)
        if (weight_of(m, t->reads[i].tensor)) bytes += aligned(t->reads[i].bytes);
    for (size_t i = 0; i < t->read_count; i++) all += t->reads[i].bytes;
    for (size_t i = 0; i < t->result_count; i++) all += t->results[i].bytes;
    if (bytes == 0 || bytes < all / SMALL) return;
    size_t copies = 2 * (size_t)m->device->cache_bytes / bytes + 2;
    t->copies = (uint32_t)(copies < MOST_REPEATS ? copies : MOST_REPEATS);
    for (size_t i = 0; i < t->read_count; i++)
        if (weight_of(m, t->reads[i].tensor)) t->reads[i].copies = t->copies;
}

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

hyp_status hyp_cuda_trial_fill(const hyp_cuda_trial *t, hyp_dtype dtype, uint64_t seed, CUdeviceptr at, size_t bytes,
                               hyp_diag *diag)
{
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    size_t elements = bytes / hyp_dtype_size(dtype), done = elements < PATTERN ? elements : PATTERN;
    uint64_t state = seed;
    void *pattern = hyp_malloc(done * hyp_dtype_size(dtype));
    if (!pattern) return hyp_fail_memory(diag, done * hyp_dtype_size(dtype));
    double scale = hyp_dtype_is_float(dtype) ? 1 : 8;
    for (size_t i = 0; i < done; i++)
        hyp_store_f64(dtype, pattern, i, scale * ((double)(next_random(&state) >> 11) * 0x1p-52 - 1));
    done *= hyp_dtype_size(dtype);
    hyp_status status = hyp_cuda_upload(t->session->model->device, at, pattern, done, diag);
    hyp_free(pattern);
    for (; status == HYP_OK && done < bytes; done += done < bytes - done ? done : bytes - done)
        status = hyp_cuda_check(
            lib, lib->cuMemcpyDtoDAsync(at + done, at, done < bytes - done ? done : bytes - done, t->session->stream),
            "cuMemcpyDtoD", diag);
    return status;
}

static hyp_status fill_random(const hyp_cuda_trial *t, uint32_t tensor, CUdeviceptr at, size_t bytes, hyp_diag *diag)
{
    hyp_dtype dtype = hyp_cuda_dtype(t->session->model->plan->program, tensor);
    return hyp_cuda_trial_fill(t, dtype, tensor, at, bytes, diag);
}

/* Weights are those of the plan. */
static hyp_status fill(const hyp_cuda_trial *t, size_t i, hyp_diag *diag)
{
    const hyp_cuda_model *m = t->session->model;
    const HypPlan__Tensor *weight = weight_of(m, t->reads[i].tensor);
    if (!weight) return fill_random(t, t->reads[i].tensor, t->reads[i].at, t->reads[i].bytes, diag);
    for (uint32_t c = 0; c < t->reads[i].copies; c++)
        HYP_TRY(hyp_cuda_check(&m->device->lib,
                               m->device->lib.cuMemcpyDtoDAsync(t->reads[i].at + c * aligned(t->reads[i].bytes),
                                                                m->weights + weight->offset, t->reads[i].bytes,
                                                                t->session->stream),
                               "cuMemcpyDtoD", diag));
    return HYP_OK;
}

/* What trials of every kind begin with. */
static hyp_status create_events(hyp_cuda_trial *t, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventCreate(&t->start, CU_EVENT_DEFAULT), "cuEventCreate", diag));
    return hyp_cuda_check(lib, lib->cuEventCreate(&t->stop, CU_EVENT_DEFAULT), "cuEventCreate", diag);
}

hyp_status hyp_cuda_trial_open(hyp_cuda_trial *t, hyp_cuda_session *s, const int64_t *values, const uint32_t *reads,
                               size_t read_count, const uint32_t *results, size_t result_count, hyp_diag *diag)
{
    const HypPlan__Program *p = s->model->plan->program;
    const hyp_cuda_library *lib = &s->model->device->lib;
    *t = (hyp_cuda_trial){
        .session = s, .read_count = read_count, .result_count = result_count, .repeats = FIRST_REPEATS};
    size_t total = 0;
    for (size_t i = 0; i < result_count; i++) {
        t->results[i].tensor = results[i];
        t->results[i].dtype = hyp_cuda_dtype(p, results[i]);
        HYP_TRY(hyp_plan_tensor_bytes(p, results[i], values, &t->results[i].bytes, diag));
        total += 2 * aligned(t->results[i].bytes);
    }
    for (size_t i = 0; i < read_count; i++) {
        t->reads[i].tensor = reads[i];
        HYP_TRY(hyp_plan_tensor_bytes(p, reads[i], values, &t->reads[i].bytes, diag));
    }
    set_copies(t);
    for (size_t i = 0; i < read_count; i++) total += aligned(t->reads[i].bytes) * t->reads[i].copies;
    hyp_status status = hyp_cuda_take(lib, total, &t->memory, diag);
    t->memory_bytes = total;
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "%zu bytes of device memory for tuning", total);
        return status;
    }
    CUdeviceptr at = t->memory;
    for (size_t i = 0; i < result_count; i++) {
        t->results[i].at = at;
        t->results[i].first_at = at + aligned(t->results[i].bytes);
        at = t->results[i].first_at + aligned(t->results[i].bytes);
    }
    for (size_t i = 0; i < read_count; i++) {
        t->reads[i].at = at;
        at += aligned(t->reads[i].bytes) * t->reads[i].copies;
        HYP_TRY(fill(t, i, diag));
    }
    return create_events(t, diag);
}

hyp_status hyp_cuda_trial_open_run(hyp_cuda_trial *t, hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    const hyp_cuda_library *lib = &s->model->device->lib;
    *t = (hyp_cuda_trial){.session = s, .run = true, .copies = 1, .repeats = FIRST_REPEATS};
    size_t bytes = p->staging_bytes > 0 ? p->staging_bytes : 1;
    HYP_TRY(hyp_cuda_take(lib, bytes, &t->memory, diag));
    t->memory_bytes = bytes;
    HYP_TRY(hyp_cuda_check(lib, lib->cuMemsetD8Async(t->memory, 0, bytes, s->stream), "cuMemsetD8", diag));
    for (size_t i = 0; i < program->n_inputs + program->n_outputs; i++) {
        bool in = i < program->n_inputs;
        uint32_t tensor = in ? program->inputs[i] : program->outputs[i - program->n_inputs];
        s->at[tensor] = t->memory + p->edge_offset[i];
        /* Integers stay 0: they may be indexes. */
        if (in && p->edge_bytes[i] > 0 && hyp_dtype_is_float(hyp_cuda_dtype(program, tensor)))
            HYP_TRY(fill_random(t, tensor, s->at[tensor], p->edge_bytes[i], diag));
    }
    return create_events(t, diag);
}

hyp_status hyp_cuda_trial_open_own(hyp_cuda_trial *t, hyp_cuda_session *s, hyp_cuda_queue *queue, void *user,
                                   size_t bytes, hyp_diag *diag)
{
    *t = (hyp_cuda_trial){.session = s, .queue = queue, .user = user, .copies = 1, .repeats = FIRST_REPEATS};
    hyp_status status = hyp_cuda_take(&s->model->device->lib, bytes, &t->memory, diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "%zu bytes of device memory for tuning", bytes);
        return status;
    }
    t->memory_bytes = bytes;
    return create_events(t, diag);
}

hyp_status hyp_cuda_trial_open_op(hyp_cuda_trial *t, hyp_cuda_session *s, uint32_t step, hyp_diag *diag)
{
    const hyp_cuda_model *m = s->model;
    const HypPlan__Program *p = m->plan->program;
    uint32_t reads[HYP_CUDA_TRIAL_READS];
    size_t count = hyp_plan_step_reads(p->steps[step], reads, HYP_CUDA_TRIAL_READS);
    *t = (hyp_cuda_trial){.session = s, .copies = 1, .repeats = FIRST_REPEATS};
    if (count > HYP_CUDA_TRIAL_READS) count = HYP_CUDA_TRIAL_READS;
    if (!weights_outgrow_cache(m)) count = 0;
    for (size_t i = 0; i < count; i++) {
        const HypPlan__Tensor *weight = weight_of(m, reads[i]);
        /* Integers may be indexes. */
        if (!weight || weight->bytes == 0 || !hyp_dtype_is_float(hyp_cuda_dtype(p, reads[i]))) continue;
        size_t places = (m->plan->read_bytes - weight->bytes) / aligned(weight->bytes) + 1;
        t->reads[t->read_count].tensor = reads[i];
        t->reads[t->read_count].bytes = weight->bytes;
        t->reads[t->read_count].copies = (uint32_t)(places < MOST_REPEATS ? places : MOST_REPEATS);
        t->reads[t->read_count++].at = m->weights + (places > 1 ? 0 : weight->offset);
    }
    return create_events(t, diag);
}

void hyp_cuda_trial_close(hyp_cuda_trial *t)
{
    if (!t->session) return;
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    lib->cuStreamSynchronize(t->session->stream);
    if (t->start) lib->cuEventDestroy(t->start);
    if (t->stop) lib->cuEventDestroy(t->stop);
    hyp_cuda_give(lib, t->memory, t->memory_bytes);
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static hyp_status wait(const hyp_cuda_trial *t, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    return hyp_cuda_check(lib, lib->cuStreamSynchronize(t->session->stream), "timing on the device", diag);
}

/* Queues the product for the i-th time. */
static hyp_status queue(const hyp_cuda_trial *t, const hyp_cuda_candidate *c, uint32_t i, hyp_diag *diag)
{
    hyp_cuda_session *s = t->session;
    if (t->run) return hyp_cuda_run_ops(s, c->ops, diag);
    if (c->slot) *c->slot = c->algorithm;
    if (t->queue) return t->queue(c, t->user, diag);
    for (size_t r = 0; r < t->read_count; r++)
        s->at[t->reads[r].tensor] = t->reads[r].at + i % t->reads[r].copies * aligned(t->reads[r].bytes);
    for (size_t r = 0; r < t->result_count; r++) s->at[t->results[r].tensor] = t->results[r].at;
    for (size_t o = 0; o < c->ops->ops.len; o++) HYP_TRY(hyp_cuda_run_op(s, &c->ops->ops.data[o], diag));
    return HYP_OK;
}

/* Launched one by one, small kernels would show how fast the host is; a graph shows how fast they are. */
static hyp_status capture(const hyp_cuda_trial *t, hyp_cuda_candidate *c, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    CUgraph graph = NULL;
    CUstream before;
    hyp_status status = hyp_cuda_capture_begins(t->session, &before, diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "timing needs CUDA graphs");
        return status;
    }
    t->session->capturing = t->run; /* a whole run is as in a graph of its own */
    for (uint32_t i = 0; i < (t->run ? 1 : t->repeats) && status == HYP_OK; i++) status = queue(t, c, i, diag);
    t->session->capturing = false;
    HYP_TRY(hyp_cuda_capture_ends(t->session, before, status, &graph, diag));
    status = hyp_cuda_check(lib, lib->cuGraphInstantiate(&c->graph, graph, 0), "cuGraphInstantiate", diag);
    lib->cuGraphDestroy(graph);
    return status;
}

void hyp_cuda_candidate_dispose(hyp_cuda_candidate *c, const hyp_cuda_library *lib)
{
    if (c->graph) lib->cuGraphExecDestroy(c->graph);
    c->graph = NULL;
}

hyp_status hyp_cuda_trial_time(hyp_cuda_trial *t, const hyp_cuda_candidate *c, double *out_seconds, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    CUstream stream = t->session->stream;
    float milliseconds = 0;
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(t->start, stream), "cuEventRecord", diag));
    for (uint32_t i = 0; i < (t->run ? t->repeats : 1); i++)
        HYP_TRY(hyp_cuda_check(lib, lib->cuGraphLaunch(c->graph, stream), "cuGraphLaunch", diag));
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(t->stop, stream), "cuEventRecord", diag));
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventSynchronize(t->stop), "timing on the device", diag));
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventElapsedTime(&milliseconds, t->start, t->stop), "cuEventElapsedTime", diag));
    *out_seconds = (double)milliseconds * 1e-3 / t->repeats;
    return HYP_OK;
}

hyp_status hyp_cuda_trial_ready(hyp_cuda_trial *t, hyp_cuda_candidate *c, bool *out_runs, hyp_diag *diag)
{
    hyp_diag why = {0};
    double unused;
    *out_runs = queue(t, c, 0, &why) == HYP_OK; /* also loads what is to be loaded, which cannot be captured */
    HYP_TRY(wait(t, diag));
    if (!*out_runs) return HYP_OK;
    hyp_status status = capture(t, c, &why);
    *out_runs = status != HYP_ERR_DEVICE;
    if (status != HYP_OK) return *out_runs ? hyp_fail(diag, status, "%s", why.message) : HYP_OK;
    return hyp_cuda_trial_time(t, c, &unused, diag); /* the first launch uploads the graph */
}

/* What it takes when it is launched from the host: an estimate from above, right for what is long. */
static hyp_status time_launched(hyp_cuda_trial *t, const hyp_cuda_candidate *c, double *out_seconds, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    CUstream stream = t->session->stream;
    float milliseconds = 0;
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(t->start, stream), "cuEventRecord", diag));
    HYP_TRY(queue(t, c, 0, diag));
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventRecord(t->stop, stream), "cuEventRecord", diag));
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventSynchronize(t->stop), "timing on the device", diag));
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventElapsedTime(&milliseconds, t->start, t->stop), "cuEventElapsedTime", diag));
    *out_seconds = (double)milliseconds * 1e-3;
    return HYP_OK;
}

static hyp_status time_in_graph(hyp_cuda_trial *t, hyp_cuda_candidate *first, double *out_seconds, hyp_diag *diag)
{
    HYP_TRY(capture(t, first, diag));
    hyp_status status = hyp_cuda_trial_time(t, first, out_seconds, diag);
    if (status == HYP_OK) status = hyp_cuda_trial_time(t, first, out_seconds, diag);
    hyp_cuda_candidate_dispose(first, &t->session->model->device->lib);
    return status;
}

/* NaN everywhere: what a candidate does not write shows. What is no plan's may add to what is there: 0. */
static hyp_status blank(const hyp_cuda_trial *t, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    const uint8_t byte = t->queue ? 0 : 0xff;
    for (size_t r = 0; r < t->result_count; r++)
        HYP_TRY(hyp_cuda_check(lib,
                               lib->cuMemsetD8Async(t->results[r].at, byte, t->results[r].bytes, t->session->stream),
                               "cuMemsetD8", diag));
    return HYP_OK;
}

hyp_status hyp_cuda_trial_start(hyp_cuda_trial *t, hyp_cuda_candidate *first, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    double seconds = 0;
    HYP_TRY(blank(t, diag));
    HYP_TRY(queue(t, first, 0, diag));
    for (size_t r = 0; r < t->result_count; r++)
        HYP_TRY(hyp_cuda_check(
            lib,
            lib->cuMemcpyDtoDAsync(t->results[r].first_at, t->results[r].at, t->results[r].bytes, t->session->stream),
            "cuMemcpyDtoD", diag));
    HYP_TRY(wait(t, diag));
    HYP_TRY(time_launched(t, first, &seconds, diag));
    if (seconds < 2 * sample_seconds) HYP_TRY(time_in_graph(t, first, &seconds, diag));
    double repeats = seconds > 0 ? sample_seconds / seconds : 1;
    if (repeats < t->copies) repeats = t->copies; /* fewer would stay in the cache from sample to sample */
    t->repeats = repeats < 1 ? 1 : repeats < MOST_REPEATS ? (uint32_t)repeats : MOST_REPEATS;
    return HYP_OK;
}

/* ---- comparing ----------------------------------------------------------------------------------------------- */

/* Result r, part by part, the first and the last among them, through `host`, which has room for two. */
static hyp_status compare(const hyp_cuda_trial *t, size_t r, uint8_t *host, double tolerance, bool *out_agrees,
                          hyp_diag *diag)
{
    const hyp_cuda_library *lib = &t->session->model->device->lib;
    hyp_dtype dtype = t->results[r].dtype;
    size_t element = hyp_dtype_size(dtype), part = PART * element, all = t->results[r].bytes;
    size_t parts = (all + part - 1) / part, looks = parts < PARTS ? parts : PARTS;
    *out_agrees = true;
    for (size_t i = 0; i < looks && *out_agrees; i++) {
        size_t at = (looks > 1 ? i * (parts - 1) / (looks - 1) : 0) * part;
        size_t bytes = all - at < part ? all - at : part;
        const CUdeviceptr from[] = {t->results[r].at + at, t->results[r].first_at + at};
        for (int w = 0; w < 2; w++)
            HYP_TRY(hyp_cuda_check(lib,
                                   lib->cuMemcpyDtoHAsync(host + (size_t)w * part, from[w], bytes, t->session->stream),
                                   "cuMemcpyDtoH", diag));
        HYP_TRY(wait(t, diag));
        *out_agrees = hyp_tuner_agrees(dtype, host, host + part, bytes / element, tolerance);
    }
    return HYP_OK;
}

hyp_status hyp_cuda_trial_agrees(hyp_cuda_trial *t, const hyp_cuda_candidate *c, double tolerance, bool *out_agrees,
                                 hyp_diag *diag)
{
    enum { ROOM = 2 * PART * sizeof(double) };
    HYP_TRY(blank(t, diag));
    HYP_TRY(queue(t, c, 0, diag));
    uint8_t *host = hyp_malloc(ROOM);
    if (!host) return hyp_fail_memory(diag, ROOM);
    hyp_status status = HYP_OK;
    *out_agrees = true;
    for (size_t r = 0; r < t->result_count && status == HYP_OK && *out_agrees; r++)
        status = compare(t, r, host, tolerance, out_agrees, diag);
    hyp_free(host);
    return status;
}
