/* measure.c - the fastest way and algorithm of a step of hypatia/nn.h, by the clock: every algorithm that cuBLASLt
 * proposes for every way, with the kernels behind it, in memory of its own. tuning/ has the race and says how long a
 * sample is. */
#include "base/dtype.h"
#include "runtime/core/tuner.h"
#include "runtime/cuda/nn/nn.h"
#include "runtime/cuda/session/backend.h"
#include "runtime/cuda/tuning/tune.h"

enum {
    PATTERN = 65521,    /* random elements that fill an operand again and again */
    MOST_REPEATS = 512, /* of a step in one graph */
    PART = 1 << 18,     /* elements that are compared at a time: the first and the last ones */
    OPERANDS = 5,       /* x w b y aux, and h, which is where aux is */
    RESULTS = 2
};
static const double sample_seconds = 1e-3, worth = 0.98;

typedef struct contestant {
    hyp_cuda_candidate race; /* first: that is what races */
    size_t way;
    cublasLtMatmulAlgo_t algo;
} contestant;

typedef struct measure {
    hyp_cuda_nn *nn;
    const hyp_nn_step *step;
    hyp_cuda_trial trial; /* stream, events and repeats alone */
    CUdeviceptr memory;
    size_t bytes;
    hyp_nn_operands at;
    struct {
        CUdeviceptr at, first_at; /* it; that of the first contestant */
        size_t bytes;
    } results[RESULTS];
    size_t result_count;
    hyp_cuda_nn_entry ways[HYP_CUDA_NN_WAYS];
    size_t way_count, count;
    contestant list[HYP_CUDA_CONTESTANTS];
} measure;

/* ---- memory --------------------------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) { return (bytes + HYP_CUDA_ALIGN - 1) / HYP_CUDA_ALIGN * HYP_CUDA_ALIGN; }

/* Numbers between -1 and 1, the same on every machine. */
static hyp_status fill(const measure *m, CUdeviceptr at, size_t bytes, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &m->nn->model.device->lib;
    hyp_dtype dtype = (hyp_dtype)m->step->dtype;
    size_t size = hyp_dtype_size(dtype), done = bytes / size < PATTERN ? bytes / size : PATTERN;
    uint32_t state = 1;
    void *pattern = hyp_malloc(done * size);
    if (!pattern) return hyp_fail_memory(diag, done * size);
    for (size_t i = 0; i < done; i++) {
        state = state * 1664525u + 1013904223u; /* Numerical Recipes, 2nd edition, 7.1 */
        hyp_store_f64(dtype, pattern, i, (double)(state >> 8) * 0x1p-23 - 1);
    }
    done *= size;
    hyp_status status = hyp_cuda_upload(m->nn->model.device, at, pattern, done, diag);
    hyp_free(pattern);
    for (; status == HYP_OK && done < bytes; done += done < bytes - done ? done : bytes - done)
        status = hyp_cuda_check(
            lib,
            lib->cuMemcpyDtoDAsync(at + done, at, done < bytes - done ? done : bytes - done, m->nn->session.stream),
            "cuMemcpyDtoD", diag);
    return status;
}

static bool area(int64_t rows, int64_t columns, size_t size, size_t *out)
{
    return hyp_mul_size((size_t)rows, (size_t)columns, out) && hyp_mul_size(*out, size, out) && *out < SIZE_MAX / 16;
}

/* Bytes of the operands, in their order. */
static bool operand_bytes(const hyp_nn_step *s, size_t out[OPERANDS])
{
    size_t size = hyp_dtype_size((hyp_dtype)s->dtype);
    int64_t wide = s->in > s->out ? s->in : s->out;
    return area(s->rows, s->x_ld, size, &out[0]) && area(s->out, s->in, size, &out[1]) &&
           area(1, wide, size, &out[2]) && area(s->rows, s->y_ld, size, &out[3]) &&
           area(s->rows, s->act ? hyp_nn_hidden_ld(s->kind == HYP_NN_FORWARD ? s->out : s->in) : 1, size, &out[4]);
}

static void add_result(measure *m, const void *at, size_t bytes, CUdeviceptr *next)
{
    m->results[m->result_count].at = (CUdeviceptr)(uintptr_t)at;
    m->results[m->result_count].first_at = *next;
    m->results[m->result_count++].bytes = bytes;
    *next += aligned(bytes);
}

static hyp_status take_memory(measure *m, hyp_diag *diag)
{
    const hyp_nn_step *s = m->step;
    const hyp_cuda_library *lib = &m->nn->model.device->lib;
    size_t bytes[OPERANDS], total = 0;
    void **const operands[OPERANDS] = {&m->at.x, &m->at.w, &m->at.b, &m->at.y, &m->at.aux};
    if (!operand_bytes(s, bytes)) return hyp_fail_memory(diag, SIZE_MAX);
    for (int i = 0; i < OPERANDS; i++) total += 2 * aligned(bytes[i]);
    hyp_status status = hyp_cuda_take(lib, total, &m->memory, diag);
    if (status != HYP_OK) {
        hyp_diag_prefix(diag, "%zu bytes of device memory for tuning", total);
        return status;
    }
    m->bytes = total;
    CUdeviceptr next = m->memory;
    for (int i = 0; i < OPERANDS; i++) {
        HYP_TRY(fill(m, next, bytes[i], diag));
        *operands[i] = (void *)(uintptr_t)next;
        next += aligned(bytes[i]);
    }
    m->at.h = m->at.aux;
    if (s->kind == HYP_NN_FORWARD)
        add_result(m, m->at.y, bytes[3], &next);
    else if (s->kind == HYP_NN_DGRAD)
        add_result(m, m->at.x, bytes[0], &next);
    else
        add_result(m, m->at.w, bytes[1], &next);
    if (s->kind != HYP_NN_FORWARD && s->bias) add_result(m, m->at.b, bytes[2], &next);
    HYP_TRY(hyp_cuda_check(lib, lib->cuEventCreate(&m->trial.start, CU_EVENT_DEFAULT), "cuEventCreate", diag));
    return hyp_cuda_check(lib, lib->cuEventCreate(&m->trial.stop, CU_EVENT_DEFAULT), "cuEventCreate", diag);
}

static void dispose(measure *m)
{
    const hyp_cuda_library *lib = &m->nn->model.device->lib;
    lib->cuStreamSynchronize(m->nn->session.stream);
    for (size_t i = 0; i < m->count; i++) hyp_cuda_candidate_dispose(&m->list[i].race, lib);
    for (size_t i = 0; i < m->way_count; i++) hyp_cuda_nn_entry_dispose(m->nn, &m->ways[i]);
    if (m->trial.start) lib->cuEventDestroy(m->trial.start);
    if (m->trial.stop) lib->cuEventDestroy(m->trial.stop);
    hyp_cuda_give(lib, m->memory, m->bytes);
    hyp_free(m);
}

/* ---- contestants ---------------------------------------------------------------------------------------------- */

static hyp_status run_once(measure *m, const contestant *c, hyp_diag *diag)
{
    hyp_cuda_nn_entry *e = &m->ways[c->way];
    e->algo[0] = c->algo;
    m->nn->session.starts = true;
    return hyp_cuda_nn_run_entry(m->nn, e, &m->at, diag);
}

static hyp_status wait(const measure *m, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &m->nn->model.device->lib;
    return hyp_cuda_check(lib, lib->cuStreamSynchronize(m->nn->session.stream), "timing on the device", diag);
}

static hyp_status capture(measure *m, contestant *c, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &m->nn->model.device->lib;
    CUgraph graph = NULL;
    CUstream before;
    HYP_TRY(hyp_cuda_capture_begins(&m->nn->session, &before, diag));
    hyp_status status = HYP_OK;
    for (uint32_t i = 0; i < m->trial.repeats && status == HYP_OK; i++) status = run_once(m, c, diag);
    HYP_TRY(hyp_cuda_capture_ends(&m->nn->session, before, status, &graph, diag));
    status = hyp_cuda_check(lib, lib->cuGraphInstantiate(&c->race.graph, graph, 0), "cuGraphInstantiate", diag);
    lib->cuGraphDestroy(graph);
    return status;
}

/* Ready to race; *out_runs is false where cuBLASLt refuses it after all. */
static hyp_status make_ready(measure *m, contestant *c, bool *out_runs, hyp_diag *diag)
{
    hyp_diag why = {0};
    double unused;
    *out_runs = run_once(m, c, &why) == HYP_OK;
    HYP_TRY(wait(m, diag));
    if (!*out_runs) return HYP_OK;
    HYP_TRY(capture(m, c, diag));
    return hyp_cuda_trial_time(&m->trial, &c->race, &unused, diag); /* the first launch uploads the graph */
}

/* Zeros everywhere, then the results of a contestant. */
static hyp_status compute(measure *m, const contestant *c, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &m->nn->model.device->lib;
    for (size_t r = 0; r < m->result_count; r++)
        HYP_TRY(hyp_cuda_check(lib,
                               lib->cuMemsetD8Async(m->results[r].at, 0, m->results[r].bytes, m->nn->session.stream),
                               "cuMemsetD8Async", diag));
    HYP_TRY(run_once(m, c, diag));
    return wait(m, diag);
}

/* How often a sample repeats the step, by the first contestant, whose results are kept. */
static hyp_status start(measure *m, contestant *first, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &m->nn->model.device->lib;
    double seconds = 0;
    HYP_TRY(compute(m, first, diag));
    for (size_t r = 0; r < m->result_count; r++)
        HYP_TRY(hyp_cuda_check(lib,
                               lib->cuMemcpyDtoDAsync(m->results[r].first_at, m->results[r].at, m->results[r].bytes,
                                                      m->nn->session.stream),
                               "cuMemcpyDtoD", diag));
    m->trial.repeats = 4;
    HYP_TRY(capture(m, first, diag));
    for (int i = 0; i < 2; i++) HYP_TRY(hyp_cuda_trial_time(&m->trial, &first->race, &seconds, diag));
    hyp_cuda_candidate_dispose(&first->race, lib);
    double repeats = seconds > 0 ? sample_seconds / seconds : 1;
    m->trial.repeats = repeats < 1 ? 1 : repeats < MOST_REPEATS ? (uint32_t)repeats : MOST_REPEATS;
    return HYP_OK;
}

/* Whether a contestant's results are those of the first, as far as they are looked at. */
static hyp_status agrees(measure *m, const contestant *c, bool *out, hyp_diag *diag)
{
    hyp_dtype dtype = (hyp_dtype)m->step->dtype;
    size_t size = hyp_dtype_size(dtype), part = PART * size;
    double tolerance = m->step->tf32 ? 4e-3 : hyp_tuner_tolerance(dtype);
    char *host = hyp_malloc(2 * part);
    if (!host) return hyp_fail_memory(diag, 2 * part);
    hyp_status status = compute(m, c, diag);
    *out = true;
    for (size_t r = 0; r < m->result_count && status == HYP_OK && *out; r++)
        for (int end = 0; end < 2 && status == HYP_OK && *out; end++) {
            size_t all = m->results[r].bytes, bytes = all < part ? all : part, at = end ? all - bytes : 0;
            status = hyp_cuda_download(m->nn->model.device, host, m->results[r].at + at, bytes, diag);
            if (status == HYP_OK)
                status = hyp_cuda_download(m->nn->model.device, host + part, m->results[r].first_at + at, bytes, diag);
            if (status == HYP_OK) *out = hyp_tuner_agrees(dtype, host, host + part, bytes / size, tolerance);
        }
    hyp_free(host);
    return status;
}

/* All ways, and the algorithms of each; the first is what is done without tuning. */
static hyp_status find_all(measure *m, hyp_diag *diag)
{
    hyp_cuda_nn_way ways[HYP_CUDA_NN_WAYS];
    size_t count = hyp_cuda_nn_ways(m->step, ways);
    const hyp_cuda_session *s = &m->nn->session;
    if (m->step->kind == HYP_NN_FORWARD && m->step->bias && count > 1) count--; /* whose results are rounded twice */
    for (size_t i = 0; i < count; i++) {
        cublasLtMatmulHeuristicResult_t results[HYP_CUDA_CANDIDATES];
        int found = 0;
        bool can;
        hyp_cuda_nn_entry *e = &m->ways[m->way_count];
        hyp_status status = hyp_cuda_nn_describe_way(m->nn, m->step, &ways[i], e, &can, diag);
        m->way_count++;
        HYP_TRY(status);
        if (!can) continue;
        if (m->count == 0) m->list[m->count++] = (contestant){.way = m->way_count - 1, .algo = e->algo[0]};
        HYP_TRY(hyp_cuda_lt_choose(s, &e->lt, s->workspace_bytes, HYP_CUDA_ALIGN,
                                   m->count == 1 ? HYP_CUDA_CANDIDATES : HYP_CUDA_LATER_CANDIDATES, results, &found,
                                   diag));
        for (int k = 0; k < found && m->count < HYP_CUDA_CONTESTANTS; k++)
            if (results[k].state == CUBLAS_STATUS_SUCCESS &&
                memcmp(&results[k].algo, &m->list[0].algo, sizeof m->list[0].algo) != 0)
                m->list[m->count++] = (contestant){.way = m->way_count - 1, .algo = results[k].algo};
    }
    return HYP_OK;
}

/* The fastest of those with the right results; the first where none is so much faster that it counts. */
static hyp_status find_winner(measure *m, double deadline, contestant **out, hyp_diag *diag)
{
    enum { SECOND = 16, FINAL = 6 };
    hyp_cuda_candidate *list[HYP_CUDA_CONTESTANTS];
    contestant *first = &m->list[0];
    size_t count = 0, kept = 0;
    double began = hyp_clock_seconds();
    HYP_TRY(start(m, first, diag));
    for (size_t i = 0; i < m->count; i++) {
        bool runs;
        if (i > 0 && hyp_clock_seconds() > (began + deadline) / 2) break;
        HYP_TRY(make_ready(m, &m->list[i], &runs, diag));
        if (runs) list[count++] = &m->list[i].race;
    }
    HYP_TRY(hyp_cuda_race(&m->trial, list, count, 1, deadline, diag));
    if (count > SECOND) count = SECOND;
    for (size_t i = 0; i < count && kept < FINAL; i++) {
        bool right = list[i] == &first->race;
        if (!right) HYP_TRY(agrees(m, (contestant *)list[i], &right, diag));
        if (right && list[i] != &first->race) list[kept++] = list[i];
    }
    list[kept++] = &first->race;
    HYP_TRY(hyp_cuda_race(&m->trial, list, kept, HYP_CUDA_ROUNDS, deadline, diag));
    *out = list[0]->seconds < worth * first->race.seconds ? (contestant *)list[0] : first;
    return HYP_OK;
}

static hyp_status tune(measure *m, hyp_cuda_nn_entry *e, double deadline, hyp_diag *diag)
{
    contestant *winner = NULL;
    HYP_TRY(take_memory(m, diag));
    HYP_TRY(find_all(m, diag));
    if (m->count == 0) return HYP_OK;
    HYP_TRY(find_winner(m, deadline, &winner, diag));
    hyp_cuda_nn_entry *way = &m->ways[winner->way];
    hyp_cuda_nn_entry before = *e;
    *e = *way;
    *way = before; /* disposed of */
    e->algo[0] = winner->algo;
    e->tuned = true;
    e->seconds = winner->race.seconds;
    e->first_seconds = m->list[0].race.seconds;
    return HYP_OK;
}

hyp_status hyp_cuda_nn_tune(void *state, const hyp_nn_step *step, double deadline, double *out_seconds, hyp_diag *diag)
{
    hyp_cuda_nn *nn = state;
    hyp_cuda_nn_entry *e;
    HYP_TRY(hyp_cuda_enter(nn->model.device, diag));
    hyp_status status = hyp_cuda_nn_find(nn, step, &e, diag);
    if (status == HYP_OK && hyp_nn_has_product(step) && !e->tuned) {
        measure *m = hyp_calloc(1, sizeof *m);
        status = m ? HYP_OK : hyp_fail_memory(diag, sizeof *m);
        if (m) {
            m->nn = nn;
            m->step = step;
            m->trial.session = &nn->session;
            status = tune(m, e, deadline, diag);
            dispose(m);
        }
    }
    nn->session.starts = false;
    if (status == HYP_OK) *out_seconds = e->seconds;
    hyp_cuda_leave(nn->model.device);
    return status;
}
