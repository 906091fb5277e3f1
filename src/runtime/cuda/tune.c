#include "runtime/cuda/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/backend_cuda.h"
#include "runtime/cuda/extent.h"
#include "runtime/cuda/linear.h"

enum {
    WAYS = 3,          /* epilogues of a product */
    CHOICES = 8,       /* of who does a step's layers */
    LATER_WANTED = 16, /* algorithms for all ways but the first, which do more work outside of the product */
    MOST = 1 + HYP_CUDA_CANDIDATES + (WAYS - 1) * LATER_WANTED,
    ROUNDS = 9 /* the most samples of a candidate in one race */
};
static const double worth =
    0.98; /* what the time of another than the first algorithm is to be below, times the first's */

/* A product of the plan, or a linear step as a whole, under the shapes at hand. */
typedef struct job {
    char key[HYP_CUDA_LINEAR_KEY];
    uint32_t step;
    bool whole;
    size_t layer; /* of a linear step that is not tuned as a whole */
    size_t uses;  /* how many the plan has with this key; products of steps that are tuned as a whole do not count */
} job;

typedef struct tuner {
    hyp_cuda_session *session;
    const int64_t *values;
    const hyp_tune_options *options;
    HYP_VEC(job) jobs;
    bool whole;        /* the step that is looked at has a job of its own */
    hyp_tuning firsts; /* what an untuned plan does, of those that were replaced */
    double end;        /* by the clock */
    hyp_tune_report report;
    hyp_diag *diag;
} tuner;

/* The ways to do one product, and what it reads and writes. */
typedef struct contest {
    hyp_cuda_probe probe;
    hyp_cuda_prepared *ways[CHOICES]; /* of a product WAYS at most */
    hyp_cuda_candidate candidates[MOST];
    size_t count;
    uint8_t choice[CHOICES][HYP_CUDA_LINEAR_LAYERS]; /* by candidate for a whole step, of its layers */
    size_t layers;
    uint32_t reads[HYP_CUDA_TRIAL_READS], result;
    size_t read_count;
    double tolerance;
} contest;

/* ---- the products of a plan ---------------------------------------------------------------------------------- */

static hyp_status add_job(tuner *t, const job *new_job, const char *key, hyp_diag *diag)
{
    for (size_t i = 0; i < t->jobs.len; i++)
        if (strcmp(t->jobs.data[i].key, key) == 0) {
            t->jobs.data[i].uses += new_job->uses;
            return HYP_OK;
        }
    HYP_TRY(hyp_vec_grow(&t->jobs, diag));
    job *j = &t->jobs.data[t->jobs.len - 1];
    *j = *new_job;
    snprintf(j->key, sizeof j->key, "%s", key);
    return HYP_OK;
}

static hyp_status note_product(hyp_cuda_probe *probe, uint32_t step, hyp_diag *diag)
{
    tuner *t = probe->user;
    return add_job(t, &(job){.step = step, .layer = probe->layer, .uses = t->whole ? 0 : 1}, probe->key, diag);
}

static hyp_cuda_build begin_build(const tuner *t, uint32_t step, hyp_cuda_probe *probe, hyp_cuda_prepared *out)
{
    return (hyp_cuda_build){.session = t->session,
                            .prepared = out,
                            .program = t->session->model->plan->program,
                            .values = t->values,
                            .step = step,
                            .probe = probe,
                            .diag = t->diag};
}

/* Whether our own kernel can do some layer of a step, so that there is something to choose. */
static hyp_status can_choose(const hyp_cuda_build *b, const HypPlan__Linear *k, bool *out)
{
    char key[HYP_CUDA_LINEAR_KEY];
    hyp_cuda_build plain = *b;
    plain.probe = NULL;
    *out = false;
    if (!hyp_cuda_linear_key(b, k, key)) return HYP_OK;
    for (size_t l = 0; l < k->n_layers && !*out; l++) HYP_TRY(hyp_cuda_add_few_rows(&plain, k, l, true, out));
    return HYP_OK;
}

/* The products of a step, whether they are done so or not. */
static hyp_status find_products(tuner *t, hyp_cuda_build *b, const HypPlan__Step *s)
{
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_MATMUL) return hyp_cuda_add_matmul(b, s->matmul);
    if (s->kernel_case != HYP_PLAN__STEP__KERNEL_LINEAR) return HYP_OK;
    HYP_TRY(can_choose(b, s->linear, &t->whole));
    for (size_t l = 0; l < s->linear->n_layers; l++) HYP_TRY(hyp_cuda_add_layer(b, s->linear, l));
    return HYP_OK;
}

static hyp_status find_whole(tuner *t, hyp_cuda_build *b, const HypPlan__Step *s)
{
    char key[HYP_CUDA_LINEAR_KEY];
    bool can = false;
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) HYP_TRY(can_choose(b, s->linear, &can));
    if (!can || !hyp_cuda_linear_key(b, s->linear, key)) return HYP_OK;
    return add_job(t, &(job){.step = b->step, .whole = true, .uses = 1}, key, t->diag);
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
        hyp_cuda_build b = begin_build(t, i, probe, ops);
        t->whole = false;
        status = find(t, &b, p->steps[i]);
        hyp_cuda_release(t->session, ops);
    }
    return status;
}

/* Products come first: whole steps are made of them. */
static hyp_status find_jobs(tuner *t)
{
    hyp_cuda_probe *probe = hyp_calloc(1, sizeof *probe);
    if (!probe) return hyp_fail_memory(t->diag, sizeof *probe);
    probe->found = note_product;
    probe->user = t;
    hyp_status status = for_steps(t, probe, find_products);
    if (status == HYP_OK) status = for_steps(t, NULL, find_whole);
    hyp_free(probe);
    return status;
}

/* ---- candidates ---------------------------------------------------------------------------------------------- */

static void add_read(contest *c, uint32_t tensor)
{
    for (size_t i = 0; i < c->read_count; i++)
        if (c->reads[i] == tensor) return;
    c->reads[c->read_count++] = tensor;
}

/* How far results of the same product may lie apart, for the rounding of its type and other orders of summation. */
static double tolerance_of(hyp_dtype dtype, bool tf32)
{
    switch (dtype) {
    case HYP_F64: return 1e-12;
    case HYP_F16: return 4e-3;
    case HYP_BF16: return 3e-2;
    default: return tf32 ? 4e-3 : 3e-5;
    }
}

/* Of layers first to last: what each reads, and what the last one writes. */
static void list_layers(contest *c, const HypPlan__Linear *k, size_t first, size_t last)
{
    for (size_t l = first; l <= last; l++) {
        add_read(c, hyp_cuda_layer_input(k, l));
        add_read(c, k->layers[l]->weight);
        if (k->layers[l]->bias_plus1) add_read(c, k->layers[l]->bias_plus1 - 1);
    }
    if (last + 1 == k->n_layers && k->added_plus1) add_read(c, k->added_plus1 - 1);
    c->result = hyp_cuda_layer_result(k, last);
}

static void list_tensors(const tuner *t, const job *j, contest *c)
{
    const HypPlan__Program *p = t->session->model->plan->program;
    const HypPlan__Step *s = p->steps[j->step];
    bool tf32;
    size_t layers = 1;
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) {
        if (j->whole) layers = s->linear->n_layers;
        list_layers(c, s->linear, j->layer, j->layer + layers - 1);
        tf32 = s->linear->tf32;
    } else {
        add_read(c, s->matmul->a);
        add_read(c, s->matmul->b);
        c->result = s->matmul->y;
        tf32 = s->matmul->tf32;
    }
    c->tolerance = (double)layers * tolerance_of(hyp_cuda_dtype(p, c->result), tf32);
}

/* Adds the ops of the product in the way that the probe wants. */
static hyp_status add_ops(const tuner *t, const job *j, contest *c, hyp_cuda_prepared *out)
{
    const HypPlan__Step *s = t->session->model->plan->program->steps[j->step];
    hyp_cuda_build b = begin_build(t, j->step, &c->probe, out);
    c->probe.count = 0;
    c->probe.more = false;
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_MATMUL) return hyp_cuda_add_matmul(&b, s->matmul);
    return hyp_cuda_add_layer(&b, s->linear, j->layer);
}

static void add_candidate(contest *c, hyp_cuda_prepared *ops, const cublasLtMatmulAlgo_t *algorithm, uint64_t workspace)
{
    c->candidates[c->count++] = (hyp_cuda_candidate){.ops = ops,
                                                     .slot = c->probe.slot,
                                                     .algorithm = *algorithm,
                                                     .workspace = workspace,
                                                     .epilogue = c->probe.epilogue};
}

/* Every algorithm of every way that there is; the first is what an untuned plan does. */
static hyp_status list_candidates(tuner *t, const job *j, contest *c)
{
    hyp_cuda_probe *probe = &c->probe;
    for (probe->way = 0; probe->way < WAYS && (probe->way == 0 || probe->more); probe->way++) {
        hyp_cuda_prepared *ops = c->ways[probe->way] = hyp_calloc(1, sizeof *ops);
        if (!ops) return hyp_fail_memory(t->diag, sizeof *ops);
        probe->wanted = c->count == 0 ? HYP_CUDA_CANDIDATES : LATER_WANTED;
        HYP_TRY(add_ops(t, j, c, ops));
        /* What an untuned plan takes need not be the first of many. */
        if (c->count == 0 && probe->count > 0) add_candidate(c, ops, &probe->usual, 0);
        for (int i = 0; i < probe->count; i++) {
            const cublasLtMatmulHeuristicResult_t *r = &probe->results[i];
            if (r->state != CUBLAS_STATUS_SUCCESS || r->workspaceSize > t->session->workspace_bytes) continue;
            if (ops == c->candidates[0].ops && memcmp(&r->algo, &c->candidates[0].algorithm, sizeof r->algo) == 0)
                c->candidates[0].workspace = r->workspaceSize;
            else
                add_candidate(c, ops, &r->algo, r->workspaceSize);
        }
    }
    return HYP_OK;
}

/* Adds a choice for a step's layers to the candidates, if it is possible and not among them. */
static hyp_status add_choice(tuner *t, const job *j, contest *c, const uint8_t *choice)
{
    const HypPlan__Linear *k = t->session->model->plan->program->steps[j->step]->linear;
    for (size_t i = 1; i < c->count; i++)
        if (memcmp(c->choice[i], choice, c->layers) == 0) return HYP_OK;
    hyp_cuda_prepared *ops = hyp_calloc(1, sizeof *ops);
    if (!ops) return hyp_fail_memory(t->diag, sizeof *ops);
    hyp_cuda_build b = begin_build(t, j->step, NULL, ops);
    bool done = false;
    hyp_status status = c->count > 0 ? hyp_cuda_add_chosen(&b, k, choice, &done) : HYP_OK;
    if (c->count == 0) { /* the first candidate: what an untuned plan does */
        done = true;
        t->session->untuned = true;
        status = hyp_cuda_add_by_rule(&b, k, c->choice[0]);
        t->session->untuned = false;
    }
    if (status != HYP_OK || !done) {
        hyp_cuda_release(t->session, ops);
        return status;
    }
    if (c->count > 0) memcpy(c->choice[c->count], choice, c->layers);
    c->ways[c->count] = ops;
    c->candidates[c->count++] = (hyp_cuda_candidate){.ops = ops};
    return HYP_OK;
}

/* The first two are chosen by the rule, without and with tuned products. */
static hyp_status list_choices(tuner *t, const job *j, contest *c)
{
    uint8_t ours[HYP_CUDA_LINEAR_LAYERS], none[HYP_CUDA_LINEAR_LAYERS] = {0}, last[HYP_CUDA_LINEAR_LAYERS] = {0};
    uint8_t but_last[HYP_CUDA_LINEAR_LAYERS];
    c->layers = t->session->model->plan->program->steps[j->step]->linear->n_layers;
    memset(ours, 1, sizeof ours);
    memset(but_last, 1, sizeof but_last);
    last[c->layers - 1] = 1;
    but_last[c->layers - 1] = 0;
    const uint8_t *const choices[] = {c->choice[0], c->choice[0], ours, none, last, but_last};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) HYP_TRY(add_choice(t, j, c, choices[i]));
    return HYP_OK;
}

static void contest_dispose(const tuner *t, contest *c)
{
    for (size_t i = 0; i < c->count; i++)
        hyp_cuda_candidate_dispose(&c->candidates[i], &t->session->model->device->lib);
    for (size_t i = 0; i < CHOICES; i++)
        if (c->ways[i]) hyp_cuda_release(t->session, c->ways[i]);
    hyp_free(c);
}

/* ---- the race ------------------------------------------------------------------------------------------------ */

static int by_seconds(const void *left, const void *right)
{
    const hyp_cuda_candidate *a = *(hyp_cuda_candidate *const *)left, *b = *(hyp_cuda_candidate *const *)right;
    if (a->seconds != b->seconds) return a->seconds < b->seconds ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Times the candidates in turns, so that what else the device does (its clock above all) hits all of them, and sorts
 * them by their medians. Past `deadline` at least three rounds are made, or all there are. */
static hyp_status race(hyp_cuda_trial *trial, hyp_cuda_candidate **list, size_t count, int rounds, double deadline,
                       hyp_diag *diag)
{
    double samples[MOST][ROUNDS];
    int done = 0;
    for (; done < rounds && (done < 3 || hyp_clock_seconds() < deadline); done++)
        for (size_t i = 0; i < count; i++) HYP_TRY(hyp_cuda_trial_time(trial, list[i], &samples[i][done], diag));
    for (size_t i = 0; i < count; i++) {
        qsort(samples[i], (size_t)done, sizeof *samples[i], by_value);
        list[i]->seconds = samples[i][done / 2];
    }
    qsort(list, count, sizeof *list, by_seconds);
    return HYP_OK;
}

/* Keeps the fastest `most` of a sorted list, and the first candidate in any case. */
static size_t narrow(hyp_cuda_candidate **list, size_t count, size_t most, hyp_cuda_candidate *first)
{
    if (count <= most) return count;
    bool there = false;
    for (size_t i = 0; i < most; i++) there = there || list[i] == first;
    if (!there) list[most - 1] = first;
    return most;
}

/* The same with those alone whose results are right. */
static hyp_status narrow_to_right(const tuner *t, contest *c, hyp_cuda_trial *trial, hyp_cuda_candidate **list,
                                  size_t count, size_t most, size_t *out_count)
{
    size_t kept = 0;
    bool there = false;
    for (size_t i = 0; i < count && kept < most; i++) {
        bool first = list[i] == &c->candidates[0], right = first;
        if (!first && kept + 1 == most && !there) continue; /* the last place is for the first */
        if (!first) HYP_TRY(hyp_cuda_trial_agrees(trial, list[i], c->tolerance, &right, t->diag));
        if (right) list[kept++] = list[i];
        there = there || first;
    }
    *out_count = kept;
    return HYP_OK;
}

/* The fastest candidate of those that give the right result; the first where none is so much faster that it counts. */
static hyp_status find_winner(const tuner *t, contest *c, hyp_cuda_trial *trial, double deadline,
                              hyp_cuda_candidate **out)
{
    enum { SECOND = 12, FINAL = 4 }; /* candidates in the second and the last race */
    hyp_cuda_candidate *list[MOST], *first = &c->candidates[0];
    size_t count = 0;
    HYP_TRY(hyp_cuda_trial_start(trial, first, t->diag));
    for (size_t i = 0; i < c->count && (count < 2 || hyp_clock_seconds() < deadline); i++) {
        bool runs;
        HYP_TRY(hyp_cuda_trial_ready(trial, &c->candidates[i], &runs, t->diag));
        if (runs) list[count++] = &c->candidates[i];
    }
    HYP_TRY(race(trial, list, count, 1, deadline, t->diag));
    count = narrow(list, count, SECOND, first);
    HYP_TRY(race(trial, list, count, 3, deadline, t->diag));
    HYP_TRY(narrow_to_right(t, c, trial, list, count, FINAL, &count));
    HYP_TRY(race(trial, list, count, ROUNDS, deadline, t->diag));
    *out = count > 0 && list[0]->seconds < worth * first->seconds ? list[0] : first;
    return HYP_OK;
}

/* The fastest choice of those that give the right result; that of the rule where none is so much faster that it
 * counts. */
static hyp_status find_choice(const tuner *t, contest *c, hyp_cuda_trial *trial, double deadline,
                                hyp_cuda_candidate **out)
{
    hyp_cuda_candidate *list[CHOICES], *first = &c->candidates[0], *rule = first;
    size_t count = 0;
    HYP_TRY(hyp_cuda_trial_start(trial, first, t->diag));
    for (size_t i = 0; i < c->count; i++) {
        bool runs, right = i == 0;
        HYP_TRY(hyp_cuda_trial_ready(trial, &c->candidates[i], &runs, t->diag));
        if (runs && i > 0) HYP_TRY(hyp_cuda_trial_agrees(trial, &c->candidates[i], c->tolerance, &right, t->diag));
        if (!runs || !right) continue;
        list[count++] = &c->candidates[i];
        if (i == 1) rule = &c->candidates[1];
    }
    HYP_TRY(race(trial, list, count, ROUNDS, deadline, t->diag));
    *out = count > 0 && list[0]->seconds < worth * rule->seconds ? list[0] : rule;
    return HYP_OK;
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

static hyp_status store_algorithm(const tuner *t, const hyp_cuda_candidate *taken, HypPlan__TunedProduct *out,
                                  hyp_tuning *list)
{
    char attributes[256];
    describe_algorithm(&t->session->model->device->lib, &taken->algorithm, attributes);
    out->algorithm = (ProtobufCBinaryData){sizeof taken->algorithm, (uint8_t *)(uintptr_t)&taken->algorithm};
    out->epilogue = taken->epilogue;
    out->attributes = attributes;
    out->workspace = taken->workspace;
    return hyp_tuning_set(list, out, t->diag);
}

static hyp_status store_choice(const tuner *t, contest *c, size_t taken, HypPlan__TunedProduct *out, hyp_tuning *list)
{
    char attributes[128];
    int n = snprintf(attributes, sizeof attributes, "layers by our own kernel:");
    for (size_t i = 0; i < c->layers; i++)
        n += snprintf(attributes + n, sizeof attributes - (size_t)n, " %s", c->choice[taken][i] ? "yes" : "no");
    out->algorithm = (ProtobufCBinaryData){c->layers, c->choice[taken]};
    out->attributes = attributes;
    return hyp_tuning_set(list, out, t->diag);
}

/* Notes in a list that a candidate was taken. */
static hyp_status store(const tuner *t, const job *j, contest *c, const hyp_cuda_candidate *taken, hyp_tuning *list)
{
    HypPlan__TunedProduct product;
    hyp_plan__tuned_product__init(&product);
    product.key = (char *)(uintptr_t)j->key;
    product.seconds = taken->seconds;
    product.first_seconds = c->candidates[0].seconds;
    return j->whole ? store_choice(t, c, (size_t)(taken - c->candidates), &product, list)
                    : store_algorithm(t, taken, &product, list);
}

/* Whether another than what an untuned plan does was taken. */
static bool is_replaced(const job *j, const contest *c, const hyp_cuda_candidate *winner)
{
    return winner - c->candidates > (j->whole ? 1 : 0);
}

static hyp_status tune_job(tuner *t, const job *j, double deadline)
{
    contest *c = hyp_calloc(1, sizeof *c);
    if (!c) return hyp_fail_memory(t->diag, sizeof *c);
    hyp_cuda_trial trial = {0};
    hyp_cuda_candidate *winner = &c->candidates[0];
    list_tensors(t, j, c);
    hyp_status status = j->whole ? list_choices(t, j, c) : list_candidates(t, j, c);
    if (status == HYP_OK && c->count > 0) {
        status = hyp_cuda_trial_open(&trial, t->session, t->values, c->reads, c->read_count, c->result, t->diag);
        if (status == HYP_OK) status = (j->whole ? find_choice : find_winner)(t, c, &trial, deadline, &winner);
        hyp_cuda_trial_close(&trial);
        bool replaced = is_replaced(j, c, winner);
        if (status == HYP_OK) status = store(t, j, c, winner, &t->session->tuning);
        if (status == HYP_OK && replaced) status = store(t, j, c, &c->candidates[0], &t->firsts);
        t->report.timed++;
        t->report.replaced += replaced;
    }
    contest_dispose(t, c);
    if (status != HYP_OK) hyp_diag_prefix(t->diag, "%s", j->key);
    return status;
}

/* ---- whole runs ---------------------------------------------------------------------------------------------- */

static hyp_status race_runs(tuner *t, hyp_cuda_prepared *untuned, hyp_cuda_prepared *tuned)
{
    hyp_cuda_candidate before = {.ops = untuned}, after = {.ops = tuned}, *list[] = {&before, &after};
    hyp_cuda_trial trial = {0};
    bool runs = true;
    hyp_status status = hyp_cuda_trial_open_run(&trial, t->session, tuned, t->diag);
    if (status == HYP_OK) status = hyp_cuda_trial_start(&trial, &before, t->diag);
    for (int i = 0; i < 2 && status == HYP_OK && runs; i++)
        status = hyp_cuda_trial_ready(&trial, list[i], &runs, t->diag);
    if (status == HYP_OK && runs) status = race(&trial, list, 2, ROUNDS, t->end, t->diag);
    t->report.untuned_run_seconds = before.seconds;
    t->report.run_seconds = after.seconds;
    for (int i = 0; i < 2; i++) hyp_cuda_candidate_dispose(i ? &after : &before, &t->session->model->device->lib);
    hyp_cuda_trial_close(&trial);
    return status;
}

/* Times the plan as it is now against the plan as it would be without tuning. Products are faster alone than in the
 * company of others: where runs gain nothing, what was found is not used. */
static hyp_status check_runs(tuner *t)
{
    void *untuned = NULL, *tuned = NULL;
    if (t->report.replaced == 0) return HYP_OK;
    t->session->untuned = true;
    hyp_status status = hyp_cuda_prepare(t->session, t->values, &untuned, t->diag);
    t->session->untuned = false;
    if (status == HYP_OK) status = hyp_cuda_prepare(t->session, t->values, &tuned, t->diag);
    if (status == HYP_OK) status = race_runs(t, untuned, tuned);
    if (untuned) hyp_cuda_release(t->session, untuned);
    if (tuned) hyp_cuda_release(t->session, tuned);
    if (t->session->error) t->session->error[0] = 0; /* indexes were not those of a run */
    bool timed = t->report.untuned_run_seconds > 0;
    if (status != HYP_OK || !timed || t->report.run_seconds < t->report.untuned_run_seconds) return status;
    t->report.replaced = 0;
    for (size_t i = 0; i < t->firsts.products.len; i++)
        HYP_TRY(hyp_tuning_set(&t->session->tuning, t->firsts.products.data[i], t->diag));
    return HYP_OK;
}

/* ---- entry --------------------------------------------------------------------------------------------------- */

/* Whether nothing needs to be measured. */
static hyp_status recall(tuner *t, const job *j, bool *out_known)
{
    hyp_tuned found;
    *out_known = hyp_tuning_find(&t->session->tuning, j->key) != NULL;
    if (*out_known || !t->options->find || !t->options->find(j->key, &found, t->options->find_user)) return HYP_OK;
    found.product = j->key;
    *out_known = true;
    return hyp_tuning_add(&t->session->tuning, &found, t->diag);
}

static hyp_status tune_all(tuner *t)
{
    const hyp_tune_options *o = t->options;
    t->report.products = t->jobs.len;
    for (size_t i = 0; i < t->jobs.len; i++) {
        const job *j = &t->jobs.data[i];
        double now = hyp_clock_seconds();
        if (o->progress) o->progress(i, t->jobs.len, j->key, o->progress_user);
        bool known;
        HYP_TRY(recall(t, j, &known));
        if (known)
            t->report.known++;
        else if (now < t->end)
            HYP_TRY(tune_job(t, j, now + (t->end - now) / (double)(t->jobs.len - i)));
    }
    HYP_TRY(check_runs(t));
    for (size_t i = 0; i < t->jobs.len; i++) {
        const HypPlan__TunedProduct *done = hyp_tuning_find(&t->session->tuning, t->jobs.data[i].key);
        if (!done) continue;
        t->report.seconds += (double)t->jobs.data[i].uses * done->seconds;
        t->report.first_seconds += (double)t->jobs.data[i].uses * done->first_seconds;
    }
    if (o->progress) o->progress(t->jobs.len, t->jobs.len, "", o->progress_user);
    return HYP_OK;
}

hyp_status hyp_cuda_tune(void *session, const int64_t *values, const hyp_tune_options *options, hyp_tune_report *out,
                         hyp_diag *diag)
{
    tuner t = {.session = session, .values = values, .options = options, .diag = diag};
    t.end = hyp_clock_seconds() + options->seconds;
    HYP_TRY(hyp_cuda_enter(t.session->model->device, diag));
    hyp_status status = find_jobs(&t);
    if (status == HYP_OK) status = tune_all(&t);
    hyp_cuda_leave(t.session->model->device);
    hyp_vec_free(&t.jobs);
    hyp_tuning_dispose(&t.firsts);
    if (status == HYP_OK) *out = t.report;
    return status;
}

hyp_tuning *hyp_cuda_session_tuning(void *session) { return &((hyp_cuda_session *)session)->tuning; }
