/* contest.c - one product, the choice of one step, or a pointwise step: the ways to do it, and which is the fastest. */
#include <stdlib.h>
#include <string.h>

#include "runtime/core/tuner.h"
#include "runtime/cuda/ops/pointwise_source.h"
#include "runtime/cuda/session/backend.h"
#include "runtime/cuda/tuning/tune.h"

/* What the time of another than the first candidate is to be below, times that of the first. */
static const double worth = 0.98;

/* ---- candidates ---------------------------------------------------------------------------------------------- */

static void add_read(hyp_cuda_contest *c, uint32_t tensor)
{
    for (size_t i = 0; i < c->read_count; i++)
        if (c->reads[i] == tensor) return;
    c->reads[c->read_count++] = tensor;
}

static double tolerance_of(hyp_dtype dtype, bool tf32)
{
    return dtype == HYP_F32 && tf32 ? 4e-3 : hyp_tuner_tolerance(dtype);
}

/* What a layer reads, and what it writes. */
static void list_layer(hyp_cuda_contest *c, const HypPlan__Linear *k, size_t l)
{
    add_read(c, hyp_cuda_layer_input(k, l));
    add_read(c, k->layers[l]->weight);
    if (k->layers[l]->bias_plus1) add_read(c, k->layers[l]->bias_plus1 - 1);
    if (l + 1 == k->n_layers && k->added_plus1) add_read(c, k->added_plus1 - 1);
    c->results[c->result_count++] = hyp_cuda_layer_result(k, l);
}

/* What the steps that are chosen for read and write; values between layers are read, too, so that they have memory, and
 * what one step writes for the other is not. */
static void list_steps(hyp_cuda_contest *c, const HypPlan__Program *p, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++) {
        const HypPlan__Step *s = p->steps[i];
        uint32_t tensors[HYP_CUDA_TRIAL_READS];
        size_t count = hyp_plan_step_reads(s, tensors, HYP_CUDA_TRIAL_READS);
        for (size_t r = 0; r < count; r++)
            if (i == first || c->result_count == 0 || tensors[r] != c->results[0]) add_read(c, tensors[r]);
        count = hyp_plan_step_writes(s, tensors, HYP_CUDA_TRIAL_READS);
        const bool call = s->kernel_case == HYP_PLAN__STEP__KERNEL_CALL; /* a layer has one result; of a call all are, */
        const bool left_out = call && i < last; /* but for those that a pool alone reads, which a way may leave out */
        for (size_t w = 0; w < count; w++)
            if (!left_out && (call || w + 1 == count) && c->result_count < HYP_CUDA_TRIAL_RESULTS)
                c->results[c->result_count++] = tensors[w];
            else
                add_read(c, tensors[w]);
    }
}

/* Kernels compute the same in the same order, but a type of 16 bits may show where the compiler rounded otherwise. */
static void list_pointwise(hyp_cuda_contest *c, const HypPlan__Program *p, const HypPlan__Pointwise *k)
{
    for (size_t i = 0; i < k->n_inputs + k->n_outputs; i++) {
        bool in = i < k->n_inputs;
        uint32_t tensor = in ? k->inputs[i]->tensor : k->outputs[i - k->n_inputs];
        double tolerance = tolerance_of(hyp_cuda_dtype(p, tensor), false);
        if (tolerance > c->tolerance) c->tolerance = tolerance;
        if (in)
            add_read(c, tensor);
        else
            c->results[c->result_count++] = tensor;
    }
}

static void list_tensors(hyp_cuda_contest *c)
{
    const HypPlan__Program *p = c->about.session->model->plan->program;
    const HypPlan__Step *s = p->steps[c->about.step];
    bool tf32;
    size_t layers = 1;
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_POINTWISE) {
        list_pointwise(c, p, s->pointwise);
        return;
    }
    if (c->about.kind == HYP_CUDA_CHOICE || s->kernel_case == HYP_PLAN__STEP__KERNEL_CALL) {
        list_steps(c, p, c->about.step, c->last_step);
        if (s->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) layers = s->linear->n_layers;
        tf32 = hyp_cuda_is_tf32(p);
    } else if (s->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) {
        list_layer(c, s->linear, c->about.layer);
        tf32 = s->linear->tf32;
    } else {
        add_read(c, s->matmul->a);
        add_read(c, s->matmul->b);
        c->results[c->result_count++] = s->matmul->y;
        tf32 = s->matmul->tf32;
    }
    c->tolerance = (double)layers * tolerance_of(hyp_cuda_dtype(p, c->results[0]), tf32);
}

bool hyp_cuda_has_choice(const HypPlan__Step *s)
{
    return s->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR || s->kernel_case == HYP_PLAN__STEP__KERNEL_CALL ||
           s->kernel_case == HYP_PLAN__STEP__KERNEL_ATTENTION;
}

hyp_status hyp_cuda_try_step(const hyp_cuda_subject *about, size_t take_plus1, hyp_cuda_probe *probe,
                             hyp_cuda_prepared **out)
{
    hyp_diag why = {0};
    hyp_cuda_build b = hyp_cuda_subject_build(about, probe, NULL);
    *out = b.prepared = hyp_calloc(1, sizeof **out);
    if (!*out) return hyp_fail_memory(about->diag, sizeof **out);
    b.take_plus1 = take_plus1;
    b.diag = &why;
    hyp_status status = hyp_cuda_choose_layouts(about->session, about->values, *out, &why);
    if (status == HYP_OK) status = hyp_cuda_add_step(&b, b.program->steps[b.step]);
    (*out)->last_step = b.step;
    if (status == HYP_OK) return HYP_OK;
    hyp_cuda_release(about->session, *out);
    *out = NULL;
    return status == HYP_ERR_UNSUPPORTED && take_plus1 ? HYP_OK : hyp_fail(about->diag, status, "%s", why.message);
}

/* Adds the ops of the product in the way that the probe wants. */
static hyp_status add_ops(hyp_cuda_contest *c, hyp_cuda_prepared **out)
{
    const HypPlan__Step *s = c->about.session->model->plan->program->steps[c->about.step];
    c->probe.count = 0;
    c->probe.more = false;
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_CALL)
        return hyp_cuda_try_step(&c->about, c->about.take_plus1, &c->probe, out);
    *out = hyp_calloc(1, sizeof **out);
    if (!*out) return hyp_fail_memory(c->about.diag, sizeof **out);
    hyp_cuda_build b = hyp_cuda_subject_build(&c->about, &c->probe, *out);
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_MATMUL) return hyp_cuda_add_matmul(&b, s->matmul);
    return hyp_cuda_add_layer(&b, s->linear, c->about.layer);
}

static void add_candidate(hyp_cuda_contest *c, hyp_cuda_prepared *ops, const cublasLtMatmulAlgo_t *algorithm,
                          uint64_t workspace)
{
    c->candidates[c->count++] = (hyp_cuda_candidate){.ops = ops,
                                                     .slot = c->probe.slot,
                                                     .algorithm = *algorithm,
                                                     .workspace = workspace,
                                                     .epilogue = c->probe.epilogue};
}

/* Every algorithm of every way that there is; the first is what an untuned plan does. */
static hyp_status list_candidates(hyp_cuda_contest *c)
{
    hyp_cuda_probe *probe = &c->probe;
    for (probe->way = 0; probe->way < HYP_CUDA_CONTEST_WAYS && (probe->way == 0 || probe->more); probe->way++) {
        probe->wanted = c->count == 0 ? HYP_CUDA_CANDIDATES : HYP_CUDA_LATER_CANDIDATES;
        HYP_TRY(add_ops(c, &c->ways[probe->way]));
        hyp_cuda_prepared *ops = c->ways[probe->way];
        if (!ops) continue;
        if (ops->last_step > c->last_step) c->last_step = ops->last_step; /* with the pool behind it */
        /* What an untuned plan takes need not be the first of many. */
        if (c->count == 0 && probe->count > 0) add_candidate(c, ops, &probe->usual, 0);
        for (int i = 0; i < probe->count; i++) {
            const cublasLtMatmulHeuristicResult_t *r = &probe->results[i];
            if (r->state != CUBLAS_STATUS_SUCCESS || r->workspaceSize > c->about.session->workspace_bytes) continue;
            if (ops == c->candidates[0].ops && memcmp(&r->algo, &c->candidates[0].algorithm, sizeof r->algo) == 0)
                c->candidates[0].workspace = r->workspaceSize;
            else
                add_candidate(c, ops, &r->algo, r->workspaceSize);
        }
    }
    return HYP_OK;
}

/* Adds an alternative of the step's choice to the candidates, if it turns out to be possible. */
static hyp_status add_alternative(hyp_cuda_contest *c, size_t i)
{
    hyp_cuda_prepared **ops = &c->ways[c->count];
    HYP_TRY(hyp_cuda_try_step(&c->about, i + 1, NULL, ops));
    if (!*ops) return HYP_OK;
    c->taken[c->count] = i;
    c->candidates[c->count++] = (hyp_cuda_candidate){.ops = *ops};
    return HYP_OK;
}

/* The first is what an untuned plan does, the second the same with tuned products. What is predicted to take many times
 * as long is not measured. */
static hyp_status list_choices(hyp_cuda_contest *c)
{
    const double hopeless = 8;
    c->about.session->untuned = true;
    hyp_status status = hyp_cuda_try_step(&c->about, 0, NULL, &c->ways[0]);
    c->about.session->untuned = false;
    HYP_TRY(status);
    c->choice = c->ways[0]->choices.data[0];
    c->last_step = c->ways[0]->last_step;
    c->taken[0] = c->choice.taken;
    c->candidates[c->count++] = (hyp_cuda_candidate){.ops = c->ways[0]};
    const hyp_alternative *list = c->choice.list, *prior = &list[c->choice.taken];
    HYP_TRY(add_alternative(c, c->choice.taken));
    for (size_t i = 0; i < c->choice.count; i++)
        if (i != c->choice.taken && !list[i].cannot && list[i].seconds <= hopeless * prior->seconds)
            HYP_TRY(add_alternative(c, i));
    return HYP_OK;
}

static hyp_status add_untuned(hyp_cuda_build *b, const HypPlan__Pointwise *k)
{
    b->session->untuned = true;
    hyp_status status = hyp_cuda_add_pointwise(b, k);
    b->session->untuned = false;
    return status;
}

/* Compiles and loads a kernel whose threads do so many pieces. What keeps it from being used is in c->why; the message
 * of an error is that of the contest's. */
static hyp_status make_kernel(hyp_cuda_contest *c, const hyp_cuda_pw_program *program, uint32_t pieces, bool *out_made)
{
    hyp_cuda_device *d = c->about.session->model->device;
    const hyp_nvrtc *compiler;
    hyp_strbuf source = {0};
    hyp_cuda_pw_source(program, pieces, &source);
    uint8_t **bytes = &c->kernels[c->count].bytes;
    size_t *size = &c->kernels[c->count].size;
    hyp_status status = source.failed ? hyp_fail_memory(&c->why, source.len) : hyp_cuda_compiler(d, &compiler, &c->why);
    if (status == HYP_OK) status = hyp_nvrtc_compile(compiler, source.data, d->sm, bytes, size, &c->why);
    hyp_strbuf_dispose(&source);
    if (status == HYP_OK && *size > HYP_PLAN_MAX_ALGORITHM)
        status = hyp_fail(&c->why, HYP_ERR_UNSUPPORTED, "a generated kernel has %zu bytes; at most %d are kept", *size,
                          HYP_PLAN_MAX_ALGORITHM);
    if (status == HYP_OK) status = hyp_cuda_image_load(&d->lib, *bytes, *size, &c->kernels[c->count].loaded, &c->why);
    *out_made = status == HYP_OK;
    if (*out_made) return HYP_OK;
    if (status != HYP_ERR_UNSUPPORTED && status != HYP_ERR_DEVICE)
        return hyp_fail(c->about.diag, status, "%s", c->why.message);
    hyp_free(*bytes);
    *bytes = NULL;
    return HYP_OK;
}

/* The first is what an untuned plan does. */
static hyp_status list_kernels(hyp_cuda_contest *c)
{
    const hyp_cuda_session *s = c->about.session;
    const HypPlan__Program *p = s->model->plan->program;
    const HypPlan__Pointwise *k = p->steps[c->about.step]->pointwise;
    hyp_cuda_pw_step step;
    hyp_cuda_pw_program program;
    uint32_t pieces[HYP_CUDA_KERNEL_CHOICES];
    hyp_cuda_prepared *first = c->ways[0] = hyp_calloc(1, sizeof *first);
    if (!first) return hyp_fail_memory(c->about.diag, sizeof *first);
    HYP_TRY(hyp_cuda_choose_layouts(s, c->about.values, first, c->about.diag));
    hyp_cuda_pw_step_init(&step, p, c->about.values, first->channels_last, k);
    step.gated = hyp_cuda_is_gated(s, c->about.step);
    hyp_cuda_pw_encode(&step, &program);
    size_t counts = hyp_cuda_pw_piece_counts(&program, s->model->device->multiprocessors, pieces);
    for (size_t i = 0; i <= counts; i++) {
        bool made = true;
        if (i > 0) HYP_TRY(make_kernel(c, &program, pieces[i - 1], &made));
        if (!made) continue;
        hyp_cuda_prepared *ops = i == 0 ? first : hyp_calloc(1, sizeof *ops);
        if (!ops) return hyp_fail_memory(c->about.diag, sizeof *ops);
        c->ways[c->count] = ops;
        hyp_cuda_build b = hyp_cuda_subject_build(&c->about, NULL, ops);
        hyp_cuda_candidate *candidate = &c->candidates[c->count];
        *candidate = (hyp_cuda_candidate){.ops = ops, .epilogue = i > 0 ? pieces[i - 1] : 0};
        if (i == 0)
            HYP_TRY(add_untuned(&b, k));
        else
            HYP_TRY(hyp_cuda_add_generated(&b, k, hyp_cuda_pw_blocks(&program, candidate->epilogue),
                                           c->kernels[c->count].loaded.function));
        c->count++;
    }
    return HYP_OK;
}

void hyp_cuda_contest_dispose(hyp_cuda_contest *c)
{
    for (size_t i = 0; i < c->count; i++)
        hyp_cuda_candidate_dispose(&c->candidates[i], &c->about.session->model->device->lib);
    for (size_t i = 0; i < HYP_CUDA_CHOICES; i++)
        if (c->ways[i]) hyp_cuda_release(c->about.session, c->ways[i]);
    for (size_t i = 0; i < sizeof c->kernels / sizeof *c->kernels; i++) {
        if (c->kernels[i].loaded.module)
            c->about.session->model->device->lib.cuModuleUnload(c->kernels[i].loaded.module);
        hyp_free(c->kernels[i].bytes);
    }
    hyp_free(c);
}

/* ---- the race ------------------------------------------------------------------------------------------------ */

static int by_seconds(const void *left, const void *right)
{
    const hyp_cuda_candidate *a = *(hyp_cuda_candidate *const *)left, *b = *(hyp_cuda_candidate *const *)right;
    if (a->seconds != b->seconds) return a->seconds < b->seconds ? -1 : 1;
    return a < b ? -1 : a > b;
}

hyp_status hyp_cuda_race(hyp_cuda_trial *trial, hyp_cuda_candidate **list, size_t count, int rounds, double deadline,
                         hyp_diag *diag)
{
    double samples[HYP_CUDA_CONTESTANTS][HYP_CUDA_RUN_ROUNDS];
    int done = 0;
    for (; done < rounds && (done < 3 || hyp_clock_seconds() < deadline); done++)
        for (size_t i = 0; i < count; i++) HYP_TRY(hyp_cuda_trial_time(trial, list[i], &samples[i][done], diag));
    for (size_t i = 0; i < count; i++) list[i]->seconds = hyp_tuner_median(samples[i], (size_t)done);
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
static hyp_status narrow_to_right(hyp_cuda_contest *c, hyp_cuda_trial *trial, hyp_cuda_candidate **list, size_t count,
                                  size_t most, size_t *out_count)
{
    size_t kept = 0;
    bool there = false;
    for (size_t i = 0; i < count && kept < most; i++) {
        bool first = list[i] == &c->candidates[0], right = first;
        if (!first && kept + 1 == most && !there) continue; /* the last place is for the first */
        if (!first) HYP_TRY(hyp_cuda_trial_agrees(trial, list[i], c->tolerance, &right, c->about.diag));
        if (right) list[kept++] = list[i];
        there = there || first;
    }
    *out_count = kept;
    return HYP_OK;
}

/* The fastest candidate of those that give the right result; the first where none is so much faster that it counts. */
static hyp_status find_winner(hyp_cuda_contest *c, hyp_cuda_trial *trial, double deadline, hyp_cuda_candidate **out)
{
    enum { SECOND = 12, FINAL = 4 }; /* candidates in the second and the last race */
    hyp_cuda_candidate *list[HYP_CUDA_CONTESTANTS], *first = &c->candidates[0];
    size_t count = 0;
    HYP_TRY(hyp_cuda_trial_start(trial, first, c->about.diag));
    for (size_t i = 0; i < c->count && (count < 2 || hyp_clock_seconds() < deadline); i++) {
        bool runs;
        HYP_TRY(hyp_cuda_trial_ready(trial, &c->candidates[i], &runs, c->about.diag));
        if (runs) list[count++] = &c->candidates[i];
    }
    HYP_TRY(hyp_cuda_race(trial, list, count, 1, deadline, c->about.diag));
    count = narrow(list, count, SECOND, first);
    HYP_TRY(hyp_cuda_race(trial, list, count, 3, deadline, c->about.diag));
    HYP_TRY(narrow_to_right(c, trial, list, count, FINAL, &count));
    HYP_TRY(hyp_cuda_race(trial, list, count, HYP_CUDA_ROUNDS, deadline, c->about.diag));
    *out = count > 0 && list[0]->seconds < worth * first->seconds ? list[0] : first;
    return HYP_OK;
}

/* The fastest alternative of those that give the right result; the one that was predicted to be where none is so much
 * faster that it counts. */
static hyp_status find_choice(hyp_cuda_contest *c, hyp_cuda_trial *trial, double deadline, hyp_cuda_candidate **out)
{
    hyp_cuda_candidate *list[HYP_CUDA_CHOICES], *first = &c->candidates[0], *prior = first;
    size_t count = 0;
    HYP_TRY(hyp_cuda_trial_start(trial, first, c->about.diag));
    for (size_t i = 0; i < c->count; i++) {
        bool runs, right = i == 0;
        HYP_TRY(hyp_cuda_trial_ready(trial, &c->candidates[i], &runs, c->about.diag));
        if (runs && i > 0)
            HYP_TRY(hyp_cuda_trial_agrees(trial, &c->candidates[i], c->tolerance, &right, c->about.diag));
        if (!runs || !right) continue;
        list[count++] = &c->candidates[i];
        if (i == 1) prior = &c->candidates[1];
    }
    HYP_TRY(hyp_cuda_race(trial, list, count, HYP_CUDA_ROUNDS, deadline, c->about.diag));
    *out = count > 0 && list[0]->seconds < worth * prior->seconds ? list[0] : prior;
    return HYP_OK;
}

/* ---- entry --------------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_contest_run(hyp_cuda_contest *c, double deadline, size_t *out_winner)
{
    static hyp_status (*const list[])(hyp_cuda_contest *) = {
        [HYP_CUDA_PRODUCT] = list_candidates, [HYP_CUDA_CHOICE] = list_choices, [HYP_CUDA_POINTWISE] = list_kernels};
    const hyp_cuda_subject *s = &c->about;
    hyp_cuda_trial trial = {0};
    hyp_cuda_candidate *winner = &c->candidates[0];
    c->last_step = s->step;
    HYP_TRY(list[s->kind](c));
    list_tensors(c);
    if (c->count < (s->kind == HYP_CUDA_POINTWISE ? 2 : 1)) return HYP_OK;
    hyp_status status = hyp_cuda_trial_open(&trial, s->session, s->values, c->reads, c->read_count, c->results,
                                            c->result_count, s->diag);
    if (status == HYP_OK)
        status = (s->kind == HYP_CUDA_CHOICE ? find_choice : find_winner)(c, &trial, deadline, &winner);
    hyp_cuda_trial_close(&trial);
    *out_winner = (size_t)(winner - c->candidates);
    c->decided = status == HYP_OK;
    return status;
}
