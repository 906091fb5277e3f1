/* tune.c - measuring the alternatives of the steps of a plan, each with what it reads in a run, and whole runs. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/core/tuner.h"
#include "runtime/cpu/cpu.h"
#ifdef HYP_HAVE_ONEDNN
#include "runtime/cpu/dnnl.h"
#endif

enum {
    ROUNDS = 31,         /* of measuring every alternative once, at most; FEWEST also where no time is left */
    RUN_ROUNDS = 201,    /* of whole runs, at most */
    FEWEST = 5,
    MOST_REPEATS = 64,   /* in a sample */
    CACHED = 1 << 20,    /* bytes of weights that a run finds in the cache again */
    FLUSHED = 64 << 20,  /* at most so many bytes are read to empty it */
    SLOWER = 50          /* times slower than what is taken: not measured again after the first run */
};
static const double sample_seconds = 20e-6; /* about so long at least, so that the clock does not count */
static const double race_seconds = 0.3;     /* of whole runs, longer than what else runs has the processor at a time */
/* What another than the predicted alternative is to take at most, over what that takes; and runs of all that were found. */
static const double worth = 0.98, runs_worth = 0.995;

typedef struct cpu_tuner {
    hyp_tuner common; /* first */
    hyp_cpu_session *session;
    const int64_t *values;
    hyp_cpu_prepared *prepared; /* as untuned */
    uint32_t next;              /* of its steps: those before have run */
    void **edges;               /* memory of inputs, then of outputs */
} cpu_tuner;

/* ---- inputs and outputs -------------------------------------------------------------------------------------- */

/* Numbers between -1 and 1, the same on every machine; integers are 0: they may be indexes. */
static void fill(hyp_dtype dtype, void *at, size_t count)
{
    uint64_t state = 1;
    for (size_t i = 0; hyp_dtype_is_float(dtype) && i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        hyp_store_f64(dtype, at, i, (double)(state >> 11) * 0x1p-52 - 1);
    }
}

static hyp_status make_edges(cpu_tuner *t, hyp_diag *diag)
{
    enum { ALIGN = 64 };
    const HypPlan__Program *p = t->session->model->plan->program;
    size_t count = p->n_inputs + p->n_outputs;
    t->edges = hyp_calloc(count + 1, sizeof *t->edges);
    if (!t->edges) return hyp_fail_memory(diag, count * sizeof *t->edges);
    for (size_t i = 0; i < count; i++) {
        uint32_t tensor = i < p->n_inputs ? p->inputs[i] : p->outputs[i - p->n_inputs];
        hyp_dtype dtype = hyp_tensor_dtype(p, tensor);
        size_t bytes;
        HYP_TRY(hyp_plan_tensor_bytes(t->session->model->plan->program, tensor, t->values, &bytes, diag));
        t->edges[i] = hyp_aligned_alloc(ALIGN, bytes + 1);
        if (!t->edges[i]) return hyp_fail_memory(diag, bytes);
        memset(t->edges[i], 0, bytes);
        if (i < p->n_inputs) fill(dtype, t->edges[i], bytes / hyp_dtype_size(dtype));
    }
    const hyp_bindings bindings = {.inputs = t->edges, .outputs = t->edges + p->n_inputs};
    hyp_host_memory_bind(&t->session->memory, &bindings);
    return HYP_OK;
}

/* ---- one step ------------------------------------------------------------------------------------------------ */

/* The alternatives of a step, in turns on the tensors of a run. */
typedef struct trial {
    cpu_tuner *tuner;
    hyp_choice choice; /* as untuned */
    hyp_cpu_op ops[HYP_CHOICE_ALTERNATIVES];
    double seconds[HYP_CHOICE_ALTERNATIVES], samples[HYP_CHOICE_ALTERNATIVES][ROUNDS];
    uint32_t result;         /* the tensor */
    uint8_t *before, *first; /* what it held, and what the first alternative makes of it */
    size_t bytes;
    double tolerance;
    int repeats; /* in a sample */
} trial;

static uint32_t result_of(const HypPlan__Step *s)
{
    switch (s->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: return s->linear->y;
    case HYP_PLAN__STEP__KERNEL_MATMUL: return s->matmul->y;
    case HYP_PLAN__STEP__KERNEL_ATTENTION: return s->attention->y->tensor;
    default: return s->call->outputs[0];
    }
}

static hyp_status run_once(const trial *r, size_t i, double *out_seconds, hyp_diag *diag)
{
    double start = hyp_clock_seconds();
    hyp_status status = hyp_cpu_run_op(r->tuner->session, r->tuner->values, &r->ops[i], NULL, diag);
    *out_seconds = hyp_clock_seconds() - start;
    return status;
}

/* In a run everything else is read between two uses of a weight. */
static void flush(const hyp_plan *plan)
{
    size_t bytes = plan->weights_bytes < FLUSHED ? plan->weights_bytes : FLUSHED;
    volatile uint8_t sum = 0;
    for (size_t i = 0; plan->weights_bytes > CACHED && i < bytes; i += 64) sum = (uint8_t)(sum + plan->weights[i]);
}

static hyp_status sample(const trial *r, size_t i, double *out_seconds, hyp_diag *diag)
{
    double seconds;
    *out_seconds = 0;
    flush(r->tuner->session->model->plan);
    for (int n = 0; n < r->repeats; n++) {
        HYP_TRY(run_once(r, i, &seconds, diag));
        *out_seconds += seconds / r->repeats;
    }
    return HYP_OK;
}

/* Makes an alternative and runs it on what the step finds: INFINITY seconds where it cannot, or computes something else. */
static hyp_status try_one(trial *r, size_t i, hyp_diag *diag)
{
    const cpu_tuner *t = r->tuner;
    hyp_dtype dtype = hyp_tensor_dtype(t->session->model->plan->program, r->result);
    double seconds;
    r->seconds[i] = INFINITY;
    if (r->choice.list[i].cannot) return HYP_OK;
    HYP_TRY(hyp_cpu_make_op(t->session, t->next, t->prepared, (hyp_cpu_form)r->choice.list[i].form, &r->ops[i], diag));
    if (!r->ops[i].run) return HYP_OK;
    HYP_TRY(hyp_host_memory_grow_work(&t->session->memory, r->ops[i].work_bytes, diag));
    void *at = t->session->memory.at[r->result];
    memcpy(at, r->before, r->bytes);
    HYP_TRY(run_once(r, i, &seconds, diag));
    if (i == r->choice.taken)
        memcpy(r->first, at, r->bytes);
    else if (!hyp_tuner_agrees(dtype, at, r->first, r->bytes / hyp_dtype_size(dtype), r->tolerance))
        return HYP_OK;
    r->seconds[i] = seconds;
    return HYP_OK;
}

static hyp_status race(trial *r, double deadline, hyp_diag *diag)
{
    size_t first = r->choice.taken, rounds = 0;
    HYP_TRY(run_once(r, first, &r->seconds[first], diag)); /* warm */
    double repeats = r->seconds[first] > 0 ? sample_seconds / r->seconds[first] : MOST_REPEATS;
    r->repeats = repeats < 1 ? 1 : repeats < MOST_REPEATS ? (int)repeats : MOST_REPEATS;
    for (size_t i = 0; i < r->choice.count; i++)
        if (r->seconds[i] > SLOWER * r->seconds[first]) r->seconds[i] = INFINITY;
    for (; rounds < ROUNDS && (rounds < FEWEST || hyp_clock_seconds() < deadline); rounds++)
        for (size_t turn = 0; turn < r->choice.count; turn++) { /* forth and back: nobody always follows the same one */
            size_t i = rounds % 2 ? r->choice.count - 1 - turn : turn;
            if (isfinite(r->seconds[i])) HYP_TRY(sample(r, i, &r->samples[i][rounds], diag));
        }
    for (size_t i = 0; i < r->choice.count; i++) /* before samples are sorted */
        if (i != first && !hyp_tuner_wins(r->samples[i], r->samples[first], rounds, worth)) r->seconds[i] = INFINITY;
    for (size_t i = 0; i < r->choice.count; i++)
        if (isfinite(r->seconds[i])) r->seconds[i] = hyp_tuner_median(r->samples[i], rounds);
    return hyp_tuner_decide(&r->tuner->common, &r->choice, first, r->seconds, diag);
}

static hyp_status try_all(trial *r, double deadline, hyp_diag *diag)
{
    void *at = r->tuner->session->memory.at[r->result];
    memcpy(r->before, at, r->bytes);
    HYP_TRY(try_one(r, r->choice.taken, diag));
    if (!r->ops[r->choice.taken].run) return HYP_OK; /* memory for it is gone: nothing to compare with */
    for (size_t i = 0; i < r->choice.count; i++)
        if (i != r->choice.taken) HYP_TRY(try_one(r, i, diag));
    hyp_status status = race(r, deadline, diag);
    memcpy(at, r->before, r->bytes);
    return status;
}

static hyp_status measure(hyp_tuner *common, const hyp_tuner_job *job, double deadline, hyp_diag *diag)
{
    cpu_tuner *t = (cpu_tuner *)common;
    for (; t->next < job->item; t->next++)
        HYP_TRY(hyp_cpu_run_op(t->session, t->values, &t->prepared->ops[t->next], NULL, diag));
    trial *r = hyp_calloc(1, sizeof *r);
    if (!r) return hyp_fail_memory(diag, sizeof *r);
    r->tuner = t;
    r->choice = t->prepared->choices[job->item];
    const HypPlan__Program *p = t->session->model->plan->program;
    const HypPlan__Step *step = p->steps[job->item];
    r->result = result_of(step);
    r->tolerance = hyp_tuner_tolerance(hyp_tensor_dtype(p, r->result));
    if (step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) r->tolerance *= (double)step->linear->n_layers;
    hyp_status status = hyp_plan_tensor_bytes(t->session->model->plan->program, r->result, t->values, &r->bytes, diag);
    if (status == HYP_OK) {
        r->before = hyp_malloc(r->bytes + 1);
        r->first = hyp_malloc(r->bytes + 1);
        status = r->before && r->first ? try_all(r, deadline, diag) : hyp_fail_memory(diag, r->bytes);
    }
    for (size_t i = 0; i < r->choice.count; i++)
        if (r->ops[i].destroy) r->ops[i].destroy(r->ops[i].state);
    hyp_free(r->before);
    hyp_free(r->first);
    hyp_free(r);
    return status;
}

/* ---- whole runs ---------------------------------------------------------------------------------------------- */

/* Seconds of a run, of so many one after the other. */
static hyp_status time_run(const cpu_tuner *t, const hyp_cpu_prepared *p, int64_t repeats, double *out_seconds,
                           hyp_diag *diag)
{
    hyp_cpu_take_places(t->session, p);
    double start = hyp_clock_seconds();
    for (int64_t r = 0; r < repeats; r++)
        for (size_t i = 0; i < t->session->model->plan->program->n_steps; i++)
            HYP_TRY(hyp_cpu_run_op(t->session, t->values, &p->ops[i], NULL, diag));
    *out_seconds = (hyp_clock_seconds() - start) / (double)repeats;
    return HYP_OK;
}

static hyp_status race_two(const cpu_tuner *t, hyp_cpu_prepared *const both[2], double out_seconds[2],
                           bool *out_faster, hyp_diag *diag)
{
    double samples[2][RUN_ROUNDS], begin = hyp_clock_seconds(), now = begin;
    int64_t repeats = 1;
    size_t rounds = 0;
    for (int i = 0; i < 2; i++) HYP_TRY(time_run(t, both[i], 1, &out_seconds[i], diag)); /* warm */
    double turn = out_seconds[0] + out_seconds[1];
    if (turn > 0 && RUN_ROUNDS * turn < race_seconds) repeats = (int64_t)(race_seconds / (RUN_ROUNDS * turn)) + 1;
    if (repeats > MOST_REPEATS) repeats = MOST_REPEATS;
    for (; rounds < RUN_ROUNDS; rounds++, now = hyp_clock_seconds()) {
        if (rounds >= FEWEST && (now > t->common.end || now > begin + 2 * race_seconds)) break;
        for (size_t k = 0; k < 2; k++) { /* forth and back: neither always follows the other */
            size_t i = (k + rounds) % 2;
            HYP_TRY(time_run(t, both[i], repeats, &samples[i][rounds], diag));
        }
    }
    *out_faster = hyp_tuner_wins(samples[1], samples[0], rounds, runs_worth);
    for (int i = 0; i < 2; i++) out_seconds[i] = hyp_tuner_median(samples[i], rounds);
    return HYP_OK;
}

static hyp_status race_runs(hyp_tuner *common, bool *out_faster, hyp_diag *diag)
{
    const cpu_tuner *t = (const cpu_tuner *)common;
    hyp_cpu_prepared *both[2] = {NULL};
    double seconds[2];
    hyp_status status = hyp_cpu_prepare(t->session, t->values, NULL, false, &both[0], diag);
    if (status == HYP_OK) status = hyp_cpu_prepare(t->session, t->values, common->known, false, &both[1], diag);
    if (status == HYP_OK) status = race_two(t, both, seconds, out_faster, diag);
    for (int i = 0; i < 2; i++)
        if (both[i]) hyp_cpu_release(t->session, both[i]);
    if (status != HYP_OK) return status;
    common->report.untuned_run_seconds = seconds[0];
    common->report.run_seconds = seconds[1];
    return HYP_OK;
}

/* ---- entry --------------------------------------------------------------------------------------------------- */

static hyp_status tune_all(cpu_tuner *t, hyp_diag *diag)
{
    HYP_TRY(hyp_cpu_prepare(t->session, t->values, NULL, true, &t->prepared, diag));
    HYP_TRY(make_edges(t, diag));
    for (uint32_t i = 0; i < t->session->model->plan->program->n_steps; i++) {
        const hyp_choice *c = &t->prepared->choices[i];
        if (c->key[0] && hyp_choice_open(c) > 1) HYP_TRY(hyp_tuner_add(&t->common, (hyp_tuner_job){c->key, i, .uses = 1}, diag));
    }
    return hyp_tuner_run(&t->common, diag);
}

hyp_status hyp_cpu_tune(void *session, const int64_t *values, const hyp_tune_options *options, hyp_tune_report *out,
                        hyp_diag *diag)
{
    cpu_tuner t = {.session = session, .values = values};
    const HypPlan__Program *p = t.session->model->plan->program;
    t.common = (hyp_tuner){.known = &t.session->tuning,
                           .options = options,
                           .measure = measure,
                           .race_runs = race_runs,
                           .end = hyp_clock_seconds() + options->seconds};
#ifdef HYP_HAVE_ONEDNN
    const hyp_cpu_device *d = t.session->model->device;
    int threads_before = hyp_dnnl_set_threads(d->dnnl, 1);
#endif
    hyp_status status = tune_all(&t, diag);
#ifdef HYP_HAVE_ONEDNN
    hyp_dnnl_set_threads(d->dnnl, threads_before);
#endif
    for (size_t i = 0; t.edges && i < p->n_inputs + p->n_outputs; i++) hyp_aligned_free(t.edges[i]);
    hyp_free(t.edges);
    if (t.prepared) hyp_cpu_release(t.session, t.prepared);
    hyp_tuner_dispose(&t.common);
    if (status == HYP_OK) *out = t.common.report;
    return status;
}
