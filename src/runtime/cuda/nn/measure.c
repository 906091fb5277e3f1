/* measure.c - the fastest way and algorithm of a step of hypatia/nn.h, by the clock: every algorithm that cuBLASLt
 * proposes for every way, with the kernels behind it, in memory of its own, by the trials and races of tuning/. */
#include "base/dtype.h"
#include "runtime/core/tuner.h"
#include "runtime/cuda/nn/nn.h"
#include "runtime/cuda/session/backend.h"
#include "runtime/cuda/tuning/tune.h"

enum { OPERANDS = 5 /* x w b y aux, and h, which is where aux is */ };
static const double worth = 0.98;

typedef struct contestant {
    hyp_cuda_candidate race; /* first: that is what races */
    size_t way;
} contestant;

typedef struct measure {
    hyp_cuda_nn *nn;
    const hyp_nn_step *step;
    hyp_cuda_trial trial;
    hyp_nn_operands at;
    hyp_cuda_nn_entry ways[HYP_CUDA_NN_WAYS];
    size_t way_count, count;
    contestant list[HYP_CUDA_CONTESTANTS];
} measure;

/* ---- memory --------------------------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) { return hyp_cuda_round_up(bytes, HYP_CUDA_ALIGN); }

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
    hyp_cuda_trial *t = &m->trial;
    t->results[t->result_count].dtype = (hyp_dtype)m->step->dtype;
    t->results[t->result_count].at = (CUdeviceptr)(uintptr_t)at;
    t->results[t->result_count].first_at = *next;
    t->results[t->result_count++].bytes = bytes;
    *next += aligned(bytes);
}

static hyp_status run_once(const hyp_cuda_candidate *c, void *user, hyp_diag *diag)
{
    measure *m = user;
    m->nn->session.starts = true;
    return hyp_cuda_nn_run_entry(m->nn, &m->ways[((const contestant *)c)->way], &m->at, diag);
}

static hyp_status take_memory(measure *m, hyp_diag *diag)
{
    const hyp_nn_step *s = m->step;
    size_t bytes[OPERANDS], total = 0;
    void **const operands[OPERANDS] = {&m->at.x, &m->at.w, &m->at.b, &m->at.y, &m->at.aux};
    if (!operand_bytes(s, bytes)) return hyp_fail_memory(diag, SIZE_MAX);
    for (int i = 0; i < OPERANDS; i++) total += 2 * aligned(bytes[i]);
    HYP_TRY(hyp_cuda_trial_open_own(&m->trial, &m->nn->session, run_once, m, total, diag));
    CUdeviceptr next = m->trial.memory;
    for (int i = 0; i < OPERANDS; i++) {
        HYP_TRY(hyp_cuda_trial_fill(&m->trial, (hyp_dtype)s->dtype, (uint64_t)i, next, bytes[i], diag));
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
    return HYP_OK;
}

static void dispose(measure *m)
{
    for (size_t i = 0; i < m->count; i++) hyp_cuda_candidate_dispose(&m->list[i].race, &m->nn->model.device->lib);
    hyp_cuda_trial_close(&m->trial);
    for (size_t i = 0; i < m->way_count; i++) hyp_cuda_nn_entry_dispose(m->nn, &m->ways[i]);
    hyp_free(m);
}

/* ---- contestants ---------------------------------------------------------------------------------------------- */

/* An algorithm of the newest way. */
static void add_contestant(measure *m, const cublasLtMatmulAlgo_t *algorithm, uint64_t workspace)
{
    size_t way = m->way_count - 1;
    m->list[m->count++] = (contestant){
        .race = {.slot = &m->ways[way].algo[0], .algorithm = *algorithm, .workspace = workspace}, .way = way};
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
        if (m->count == 0) add_contestant(m, &e->algo[0], e->workspace);
        HYP_TRY(hyp_cuda_lt_choose(s, &e->lt, s->workspace_bytes, HYP_CUDA_ALIGN,
                                   m->count == 1 ? HYP_CUDA_CANDIDATES : HYP_CUDA_LATER_CANDIDATES, results, &found,
                                   diag));
        for (int k = 0; k < found && m->count < HYP_CUDA_CONTESTANTS; k++)
            if (results[k].state == CUBLAS_STATUS_SUCCESS &&
                memcmp(&results[k].algo, &m->list[0].race.algorithm, sizeof results[k].algo) != 0)
                add_contestant(m, &results[k].algo, results[k].workspaceSize);
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
    double tolerance = m->step->tf32 ? 4e-3 : hyp_tuner_tolerance((hyp_dtype)m->step->dtype);
    HYP_TRY(hyp_cuda_trial_start(&m->trial, &first->race, diag));
    for (size_t i = 0; i < m->count; i++) {
        bool runs;
        if (i > 0 && hyp_clock_seconds() > (began + deadline) / 2) break;
        HYP_TRY(hyp_cuda_trial_ready(&m->trial, &m->list[i].race, &runs, diag));
        if (runs) list[count++] = &m->list[i].race;
    }
    HYP_TRY(hyp_cuda_race(&m->trial, list, count, 1, deadline, diag));
    if (count > SECOND) count = SECOND;
    for (size_t i = 0; i < count && kept < FINAL; i++) {
        bool right = list[i] == &first->race;
        if (!right) HYP_TRY(hyp_cuda_trial_agrees(&m->trial, list[i], tolerance, &right, diag));
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
    e->algo[0] = winner->race.algorithm;
    if (winner->race.workspace > e->workspace) e->workspace = winner->race.workspace;
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
            status = tune(m, e, deadline, diag);
            dispose(m);
        }
    }
    nn->session.starts = false;
    if (status == HYP_OK) *out_seconds = e->seconds;
    hyp_cuda_leave(nn->model.device);
    return status;
}
