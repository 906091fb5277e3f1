/* tune.c - tuning a plan under one set of shapes: pointwise steps, products, then how steps are done, whole runs.
 */
#include "runtime/cuda/tuning/tune.h"

#include <stdio.h>
#include <string.h>

#include "runtime/core/tuner.h"
#include "runtime/cuda/ops/pointwise_source.h"
#include "runtime/cuda/session/backend.h"

typedef struct tuner {
    hyp_tuner common; /* first, so that it is a tuner, too; its items are subjects */
    hyp_cuda_session *session;
    const int64_t *values;
    HYP_VEC(hyp_cuda_subject) subjects;
    bool no_compiler;  /* for kernels that are to be generated */
    bool whole;        /* the step that is looked at has a job of its own */
    size_t take_plus1; /* the alternative of it that is looked at */
    hyp_diag *diag;
} tuner;

/* ---- what there is to tune ---------------------------------------------------------------------------------- */

static hyp_cuda_subject subject(const tuner *t, uint32_t step)
{
    return (hyp_cuda_subject){.session = t->session, .values = t->values, .step = step, .diag = t->diag};
}

static hyp_status add_job(tuner *t, const hyp_cuda_subject *about, hyp_tuner_job job)
{
    job.item = (uint32_t)t->subjects.len;
    HYP_TRY(hyp_vec_push(&t->subjects, t->diag, *about));
    return hyp_tuner_add(&t->common, job, t->diag);
}

static hyp_status note_product(hyp_cuda_probe *probe, uint32_t step)
{
    tuner *t = probe->user;
    hyp_cuda_subject about = subject(t, step);
    about.layer = probe->layer;
    about.take_plus1 = t->take_plus1;
    return add_job(t, &about, (hyp_tuner_job){.key = probe->key, .uses = t->whole ? 0 : 1});
}

/* How the step is done where nothing is tuned; key is empty where there is nothing to choose from. */
static hyp_status find_choice(tuner *t, uint32_t step, hyp_choice *out)
{
    hyp_cuda_subject about = subject(t, step);
    hyp_cuda_prepared *ops;
    hyp_status status = hyp_cuda_try_step(&about, 0, NULL, &ops);
    hyp_choice_init(out);
    if (ops && ops->choices.len == 1 && hyp_choice_open(&ops->choices.data[0]) > 1) *out = ops->choices.data[0];
    if (ops) hyp_cuda_release(t->session, ops);
    return status;
}

/* The products of a step, by every way to do it that has some. */
static hyp_status find_products(tuner *t, hyp_cuda_build *b, const HypPlan__Step *s)
{
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_MATMUL) return hyp_cuda_add_matmul(b, s->matmul);
    if (!hyp_cuda_has_choice(s) || s->kernel_case == HYP_PLAN__STEP__KERNEL_ATTENTION) return HYP_OK;
    hyp_choice c;
    HYP_TRY(find_choice(t, b->step, &c));
    t->whole = c.key[0] != 0;
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) {
        for (size_t l = 0; l < s->linear->n_layers; l++) HYP_TRY(hyp_cuda_add_layer(b, s->linear, l));
        return HYP_OK;
    }
    for (size_t i = 0; i < (t->whole ? c.count : 1); i++) {
        if (t->whole && c.list[i].cannot) continue;
        hyp_cuda_subject about = subject(t, b->step);
        hyp_cuda_prepared *ops;
        t->take_plus1 = about.take_plus1 = t->whole ? i + 1 : 0;
        HYP_TRY(hyp_cuda_try_step(&about, t->take_plus1, b->probe, &ops));
        if (ops) hyp_cuda_release(t->session, ops);
    }
    return HYP_OK;
}

static hyp_status find_choices(tuner *t, hyp_cuda_build *b, const HypPlan__Step *s)
{
    hyp_choice c;
    if (!hyp_cuda_has_choice(s)) return HYP_OK;
    HYP_TRY(find_choice(t, b->step, &c));
    if (!c.key[0]) return HYP_OK;
    hyp_cuda_subject about = subject(t, b->step);
    about.kind = HYP_CUDA_CHOICE;
    return add_job(t, &about, (hyp_tuner_job){.key = c.key, .uses = 1});
}

static hyp_status find_pointwise(tuner *t, hyp_cuda_build *b, const HypPlan__Step *s)
{
    hyp_cuda_pw_step step;
    hyp_cuda_pw_program program;
    if (s->kernel_case != HYP_PLAN__STEP__KERNEL_POINTWISE) return HYP_OK;
    HYP_TRY(hyp_cuda_choose_layouts(t->session, b->values, b->prepared, t->diag));
    hyp_cuda_pw_step_init(&step, b->program, b->values, b->prepared->channels_last, s->pointwise);
    step.gated = hyp_cuda_is_gated(b->session, b->step);
    if (hyp_cuda_box_count(&step.box) == 0) return HYP_OK;
    hyp_cuda_pw_encode(&step, &program);
    hyp_cuda_subject about = subject(t, b->step);
    about.kind = HYP_CUDA_POINTWISE;
    hyp_strbuf key = {0};
    hyp_cuda_pw_key(&program, &key);
    double each = (double)(step.inputs + step.instrs + step.outputs);
    hyp_tuner_job job = {.key = key.data, .uses = 1, .work = (double)hyp_cuda_box_count(&step.box) * each};
    hyp_status status = key.failed ? hyp_fail_memory(t->diag, key.len) : add_job(t, &about, job);
    hyp_strbuf_dispose(&key);
    return status;
}

/* Calls `find` for every step, with ops to add to. */
static hyp_status for_steps(tuner *t, hyp_cuda_probe *probe,
                            hyp_status (*find)(tuner *, hyp_cuda_build *, const HypPlan__Step *))
{
    const HypPlan__Program *p = t->session->model->plan->program;
    hyp_status status = HYP_OK;
    for (uint32_t i = 0; i < p->n_steps && status == HYP_OK; i++) {
        hyp_cuda_prepared *ops = hyp_calloc(1, sizeof *ops);
        if (!ops) return hyp_fail_memory(t->diag, sizeof *ops);
        hyp_cuda_subject about = subject(t, i);
        hyp_cuda_build b = hyp_cuda_subject_build(&about, probe, ops);
        t->whole = false;
        t->take_plus1 = 0;
        status = find(t, &b, p->steps[i]);
        hyp_cuda_release(t->session, ops);
    }
    return status;
}

/* The plan's shapes as they are tuned so far, on up to so many streams. NULL in *out where that fails. */
static hyp_status prepare_on(tuner *t, uint32_t streams, hyp_cuda_prepared **out)
{
    uint32_t wanted = t->session->branches.wanted;
    void *prepared = NULL;
    t->session->branches.wanted = streams;
    hyp_status status = hyp_cuda_prepare(t->session, t->values, &prepared, t->diag);
    t->session->branches.wanted = wanted;
    *out = prepared;
    return status;
}

/* How many streams there are, where steps can run side by side and nobody has said how many there are to be. */
static hyp_status find_branches(tuner *t)
{
    hyp_cuda_prepared *p;
    if (t->session->branches.wanted) return HYP_OK;
    HYP_TRY(prepare_on(t, HYP_USUAL_STREAMS, &p));
    hyp_cuda_subject about = subject(t, 0);
    about.kind = HYP_CUDA_STREAMS;
    hyp_status status = p->branches.units ? add_job(t, &about, (hyp_tuner_job){.key = p->branches.choice.key}) : HYP_OK;
    hyp_cuda_release(t->session, p);
    return status;
}

/* Pointwise steps come first, which gain the most and take the least time, and of these the largest. Products come before
 * whole steps, which are made of them, and the streams of all steps last. */
static hyp_status find_jobs(tuner *t)
{
    hyp_cuda_probe *probe = hyp_calloc(1, sizeof *probe);
    if (!probe) return hyp_fail_memory(t->diag, sizeof *probe);
    probe->found = note_product;
    probe->user = t;
    hyp_status status = for_steps(t, NULL, find_pointwise);
    hyp_tuner_largest_first(&t->common);
    if (status == HYP_OK) status = for_steps(t, probe, find_products);
    if (status == HYP_OK) status = for_steps(t, NULL, find_choices);
    if (status == HYP_OK) status = find_branches(t);
    hyp_free(probe);
    return status;
}

/* ---- results ------------------------------------------------------------------------------------------------- */

/* "id 66 tile 20 stages 36 ...", as far as the library tells. */
static void describe_algorithm(const hyp_cuda_library *lib, const cublasLtMatmulAlgo_t *algorithm, char out[256])
{
    static const struct {
        const char *name;
        cublasLtMatmulAlgoConfigAttributes_t attribute;
        size_t size;
    } rows[] = {{"id", CUBLASLT_ALGO_CONFIG_ID, 4},
                {"tile", CUBLASLT_ALGO_CONFIG_TILE_ID, 4},
                {"stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
                {"split-k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},
                {"reduction", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4},
                {"swizzle", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},
                {"custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
                {"inner", CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2},
                {"cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2}};
    int n = 0;
    *out = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t wide = 0;
        uint16_t narrow_value = 0;
        void *at = rows[i].size == sizeof wide ? (void *)&wide : (void *)&narrow_value;
        size_t written;
        if (lib->cublasLtMatmulAlgoConfigGetAttribute(algorithm, rows[i].attribute, at, rows[i].size, &written) !=
            CUBLAS_STATUS_SUCCESS)
            continue;
        n += snprintf(out + n, 256 - (size_t)n, "%s%s %u", n ? " " : "", rows[i].name,
                      rows[i].size == sizeof wide ? wide : narrow_value);
    }
}

static hyp_status store_algorithm(const hyp_cuda_contest *c, size_t taken, HypPlan__TunedProduct *out, hyp_tuning *list)
{
    char attributes[256];
    const hyp_cuda_candidate *from = &c->candidates[taken];
    describe_algorithm(&c->about.session->model->device->lib, &from->algorithm, attributes);
    out->algorithm = (ProtobufCBinaryData){sizeof from->algorithm, (uint8_t *)(uintptr_t)&from->algorithm};
    out->epilogue = from->epilogue;
    out->attributes = attributes;
    out->workspace = from->workspace;
    return hyp_tuning_set(list, out, c->about.diag);
}

static hyp_status store_choice(const hyp_cuda_contest *c, size_t taken, HypPlan__TunedProduct *out, hyp_tuning *list)
{
    return hyp_choice_keep(&c->choice, c->taken[taken], out->seconds, out->first_seconds, list, c->about.diag);
}

static hyp_status store_kernel(const hyp_cuda_contest *c, size_t taken, HypPlan__TunedProduct *out, hyp_tuning *list)
{
    uint8_t none[HYP_CUDA_NO_KERNEL] = {0};
    char attributes[64] = "no kernel of its own";
    out->algorithm = (ProtobufCBinaryData){sizeof none, none};
    if (taken > 0) {
        out->algorithm = (ProtobufCBinaryData){c->kernels[taken].size, c->kernels[taken].bytes};
        out->epilogue = c->candidates[taken].epilogue;
        snprintf(attributes, sizeof attributes, "a kernel of its own, %u pieces a thread", out->epilogue);
    }
    out->attributes = attributes;
    return hyp_tuning_set(list, out, c->about.diag);
}

/* Notes in a list that a candidate was taken. */
static hyp_status store(const hyp_cuda_contest *c, const char *key, size_t taken, hyp_tuning *list)
{
    static hyp_status (*const as[])(const hyp_cuda_contest *, size_t, HypPlan__TunedProduct *, hyp_tuning *) = {
        [HYP_CUDA_PRODUCT] = store_algorithm, [HYP_CUDA_CHOICE] = store_choice, [HYP_CUDA_POINTWISE] = store_kernel};
    HypPlan__TunedProduct product;
    hyp_plan__tuned_product__init(&product);
    product.key = (char *)(uintptr_t)key;
    product.seconds = c->candidates[taken].seconds;
    product.first_seconds = c->candidates[0].seconds;
    return as[c->about.kind](c, taken, &product, list);
}

/* Keeps the first reason why a step got no kernel. */
static void note_missing(tuner *t, const hyp_diag *why)
{
    if (!*t->common.report.no_kernels)
        snprintf(t->common.report.no_kernels, sizeof t->common.report.no_kernels, "%.255s", why->message);
}

/* Whether the job can be measured here: pointwise steps need a compiler. */
static bool can_tune(tuner *t, const hyp_cuda_subject *about)
{
    hyp_diag why = {0};
    const hyp_nvrtc *compiler;
    if (about->kind != HYP_CUDA_POINTWISE) return true;
    if (t->no_compiler) return false;
    t->no_compiler = hyp_cuda_compiler(t->session->model->device, &compiler, &why) != HYP_OK;
    if (t->no_compiler) note_missing(t, &why);
    return !t->no_compiler;
}

/* ---- whole runs ---------------------------------------------------------------------------------------------- */

enum { MOST_RUNS = HYP_STREAM_WAYS };

/* What runs take, by way; all 0 where one of them does not run in a graph. */
static hyp_status race(tuner *t, hyp_cuda_prepared *const *ways, size_t count, double deadline, double *seconds)
{
    hyp_cuda_candidate candidates[MOST_RUNS] = {{0}}, *list[MOST_RUNS];
    hyp_cuda_trial trial = {0};
    bool runs = true;
    for (size_t i = 0; i < count; i++) {
        list[i] = &candidates[i];
        candidates[i].ops = ways[i];
    }
    hyp_status status = hyp_cuda_trial_open_run(&trial, t->session, ways[0], t->diag);
    if (status == HYP_OK) status = hyp_cuda_trial_start(&trial, &candidates[0], t->diag);
    for (size_t i = 0; i < count && status == HYP_OK && runs; i++)
        status = hyp_cuda_trial_ready(&trial, list[i], &runs, t->diag);
    if (status == HYP_OK && runs) status = hyp_cuda_race(&trial, list, count, HYP_CUDA_RUN_ROUNDS, deadline, t->diag);
    for (size_t i = 0; i < count; i++) {
        seconds[i] = candidates[i].seconds;
        hyp_cuda_candidate_dispose(&candidates[i], &t->session->model->device->lib);
    }
    hyp_cuda_trial_close(&trial);
    if (t->session->error) t->session->error[0] = 0; /* indexes were not those of a run */
    return status;
}

static hyp_status race_runs(hyp_tuner *common, bool *out_faster, hyp_diag *diag)
{
    tuner *t = (tuner *)common;
    void *untuned = NULL, *tuned = NULL;
    t->session->untuned = true;
    hyp_status status = hyp_cuda_prepare(t->session, t->values, &untuned, diag);
    t->session->untuned = false;
    if (status == HYP_OK) status = hyp_cuda_prepare(t->session, t->values, &tuned, diag);
    double seconds[2] = {0};
    if (status == HYP_OK) status = race(t, (hyp_cuda_prepared *[]){untuned, tuned}, 2, t->common.end, seconds);
    t->common.report.untuned_run_seconds = seconds[0];
    t->common.report.run_seconds = seconds[1];
    *out_faster = seconds[1] < seconds[0];
    if (untuned) hyp_cuda_release(t->session, untuned);
    if (tuned) hyp_cuda_release(t->session, tuned);
    return status;
}

/* One stream is where the others have to be faster, whatever is predicted. */
static hyp_status decide_streams(tuner *t, const hyp_choice *c, const double *seconds)
{
    size_t best = hyp_tuner_fastest(c, 0, seconds);
    return hyp_tuner_keep(&t->common, c, best, c->taken, seconds, t->diag);
}

static hyp_status measure_branches(tuner *t, double deadline)
{
    hyp_cuda_prepared *ways[HYP_STREAM_WAYS] = {NULL};
    double seconds[HYP_STREAM_WAYS] = {0};
    hyp_status status = HYP_OK;
    bool all = true;
    for (size_t i = 0; i < HYP_STREAM_WAYS && status == HYP_OK; i++) {
        status = prepare_on(t, hyp_stream_ways[i], &ways[i]);
        all = all && status == HYP_OK && (hyp_stream_ways[i] == 1 || ways[i]->branches.units);
    }
    if (status == HYP_OK && all) status = race(t, ways, HYP_STREAM_WAYS, deadline, seconds);
    if (status == HYP_OK && seconds[0] > 0)
        status = decide_streams(t, &ways[HYP_STREAM_WAYS - 1]->branches.choice, seconds);
    for (size_t i = 0; i < HYP_STREAM_WAYS; i++)
        if (ways[i]) hyp_cuda_release(t->session, ways[i]);
    return status;
}

/* ---- one job ---------------------------------------------------------------------------------------------------- */

static hyp_status measure(hyp_tuner *common, const hyp_tuner_job *j, double deadline, hyp_diag *diag)
{
    tuner *t = (tuner *)common;
    const hyp_cuda_subject *about = &t->subjects.data[j->item];
    hyp_tune_report *report = &common->report;
    if (about->kind == HYP_CUDA_STREAMS) return measure_branches(t, deadline);
    if (!can_tune(t, about)) return report->products--, HYP_OK;
    hyp_cuda_contest *c = hyp_calloc(1, sizeof *c);
    if (!c) return hyp_fail_memory(diag, sizeof *c);
    size_t winner = 0;
    c->about = *about;
    hyp_status status = hyp_cuda_contest_run(c, deadline, &winner);
    if (status == HYP_OK && c->decided) {
        bool replaced = winner > (about->kind == HYP_CUDA_CHOICE ? 1 : 0);
        status = store(c, j->key, winner, common->known);
        if (status == HYP_OK && replaced) status = store(c, j->key, 0, &common->firsts);
        report->timed++;
        report->replaced += replaced;
    }
    if (c->why.status != HYP_OK) note_missing(t, &c->why);
    if (about->kind == HYP_CUDA_POINTWISE && !c->decided) report->products--;
    hyp_cuda_contest_dispose(c);
    if (status != HYP_OK) hyp_diag_prefix(diag, "%s", j->key);
    return status;
}

/* ---- entry --------------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_tune(void *session, const int64_t *values, const hyp_tune_options *options, hyp_tune_report *out,
                         hyp_diag *diag)
{
    tuner t = {.session = session, .values = values, .diag = diag};
    t.common = (hyp_tuner){.known = &t.session->tuning,
                           .options = options,
                           .measure = measure,
                           .race_runs = race_runs,
                           .end = hyp_clock_seconds() + options->seconds};
    HYP_TRY(hyp_cuda_enter(t.session->model->device, diag));
    hyp_status status =
        hyp_cuda_go_to(t.session, t.session->recorder, diag); /* whatever becomes of the caller's stream */
    if (status == HYP_OK) status = find_jobs(&t);
    if (status == HYP_OK) status = hyp_tuner_run(&t.common, diag);
    hyp_cuda_run_leaves(t.session);
    hyp_cuda_leave(t.session->model->device);
    hyp_vec_free(&t.subjects);
    hyp_tuner_dispose(&t.common);
    if (status == HYP_OK) *out = t.common.report;
    return status;
}

hyp_tuning *hyp_cuda_session_tuning(void *session) { return &((hyp_cuda_session *)session)->tuning; }
