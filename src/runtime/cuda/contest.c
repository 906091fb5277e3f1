/* contest.c - one product, or the layers of one step: the ways to do it, and which is the fastest. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/backend_cuda.h"
#include "runtime/cuda/tune.h"

/* What the time of another than the first candidate is to be below, times that of the first. */
static const double worth = 0.98;

/* ---- candidates ---------------------------------------------------------------------------------------------- */

static void add_read(hyp_cuda_contest *c, uint32_t tensor)
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
static void list_layers(hyp_cuda_contest *c, const HypPlan__Linear *k, size_t first, size_t last)
{
    for (size_t l = first; l <= last; l++) {
        add_read(c, hyp_cuda_layer_input(k, l));
        add_read(c, k->layers[l]->weight);
        if (k->layers[l]->bias_plus1) add_read(c, k->layers[l]->bias_plus1 - 1);
    }
    if (last + 1 == k->n_layers && k->added_plus1) add_read(c, k->added_plus1 - 1);
    c->result = hyp_cuda_layer_result(k, last);
}

static void list_tensors(hyp_cuda_contest *c)
{
    const HypPlan__Program *p = c->about.session->model->plan->program;
    const HypPlan__Step *s = p->steps[c->about.step];
    bool tf32;
    size_t layers = 1;
    if (s->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) {
        if (c->about.whole) layers = s->linear->n_layers;
        list_layers(c, s->linear, c->about.layer, c->about.layer + layers - 1);
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
static hyp_status add_ops(hyp_cuda_contest *c, hyp_cuda_prepared *out)
{
    const HypPlan__Step *s = c->about.session->model->plan->program->steps[c->about.step];
    hyp_cuda_build b = hyp_cuda_subject_build(&c->about, &c->probe, out);
    c->probe.count = 0;
    c->probe.more = false;
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
        hyp_cuda_prepared *ops = c->ways[probe->way] = hyp_calloc(1, sizeof *ops);
        if (!ops) return hyp_fail_memory(c->about.diag, sizeof *ops);
        probe->wanted = c->count == 0 ? HYP_CUDA_CANDIDATES : HYP_CUDA_LATER_CANDIDATES;
        HYP_TRY(add_ops(c, ops));
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

/* Adds a choice for a step's layers to the candidates, if it is possible and not among them. */
static hyp_status add_choice(hyp_cuda_contest *c, const uint8_t *choice)
{
    const HypPlan__Linear *k = c->about.session->model->plan->program->steps[c->about.step]->linear;
    for (size_t i = 1; i < c->count; i++)
        if (memcmp(c->choice[i], choice, c->layers) == 0) return HYP_OK;
    hyp_cuda_prepared *ops = hyp_calloc(1, sizeof *ops);
    if (!ops) return hyp_fail_memory(c->about.diag, sizeof *ops);
    hyp_cuda_build b = hyp_cuda_subject_build(&c->about, NULL, ops);
    bool done = false;
    hyp_status status = c->count > 0 ? hyp_cuda_add_chosen(&b, k, choice, &done) : HYP_OK;
    if (c->count == 0) { /* the first candidate: what an untuned plan does */
        done = true;
        c->about.session->untuned = true;
        status = hyp_cuda_add_by_rule(&b, k, c->choice[0]);
        c->about.session->untuned = false;
    }
    if (status != HYP_OK || !done) {
        hyp_cuda_release(c->about.session, ops);
        return status;
    }
    if (c->count > 0) memcpy(c->choice[c->count], choice, c->layers);
    c->ways[c->count] = ops;
    c->candidates[c->count++] = (hyp_cuda_candidate){.ops = ops};
    return HYP_OK;
}

/* The first two are chosen by the rule, without and with tuned products. */
static hyp_status list_choices(hyp_cuda_contest *c)
{
    uint8_t ours[HYP_CUDA_LINEAR_LAYERS], none[HYP_CUDA_LINEAR_LAYERS] = {0}, last[HYP_CUDA_LINEAR_LAYERS] = {0};
    uint8_t but_last[HYP_CUDA_LINEAR_LAYERS];
    c->layers = c->about.session->model->plan->program->steps[c->about.step]->linear->n_layers;
    memset(ours, 1, sizeof ours);
    memset(but_last, 1, sizeof but_last);
    last[c->layers - 1] = 1;
    but_last[c->layers - 1] = 0;
    const uint8_t *const choices[] = {c->choice[0], c->choice[0], ours, none, last, but_last};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) HYP_TRY(add_choice(c, choices[i]));
    return HYP_OK;
}

void hyp_cuda_contest_dispose(hyp_cuda_contest *c)
{
    for (size_t i = 0; i < c->count; i++)
        hyp_cuda_candidate_dispose(&c->candidates[i], &c->about.session->model->device->lib);
    for (size_t i = 0; i < HYP_CUDA_CHOICES; i++)
        if (c->ways[i]) hyp_cuda_release(c->about.session, c->ways[i]);
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

hyp_status hyp_cuda_race(hyp_cuda_trial *trial, hyp_cuda_candidate **list, size_t count, int rounds, double deadline,
                         hyp_diag *diag)
{
    double samples[HYP_CUDA_CONTESTANTS][HYP_CUDA_ROUNDS];
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

/* The fastest choice of those that give the right result; that of the rule where none is so much faster that it
 * counts. */
static hyp_status find_choice(hyp_cuda_contest *c, hyp_cuda_trial *trial, double deadline, hyp_cuda_candidate **out)
{
    hyp_cuda_candidate *list[HYP_CUDA_CHOICES], *first = &c->candidates[0], *rule = first;
    size_t count = 0;
    HYP_TRY(hyp_cuda_trial_start(trial, first, c->about.diag));
    for (size_t i = 0; i < c->count; i++) {
        bool runs, right = i == 0;
        HYP_TRY(hyp_cuda_trial_ready(trial, &c->candidates[i], &runs, c->about.diag));
        if (runs && i > 0)
            HYP_TRY(hyp_cuda_trial_agrees(trial, &c->candidates[i], c->tolerance, &right, c->about.diag));
        if (!runs || !right) continue;
        list[count++] = &c->candidates[i];
        if (i == 1) rule = &c->candidates[1];
    }
    HYP_TRY(hyp_cuda_race(trial, list, count, HYP_CUDA_ROUNDS, deadline, c->about.diag));
    *out = count > 0 && list[0]->seconds < worth * rule->seconds ? list[0] : rule;
    return HYP_OK;
}

/* ---- entry --------------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_contest_run(hyp_cuda_contest *c, double deadline, size_t *out_winner)
{
    const hyp_cuda_subject *s = &c->about;
    hyp_cuda_trial trial = {0};
    hyp_cuda_candidate *winner = &c->candidates[0];
    list_tensors(c);
    HYP_TRY(s->whole ? list_choices(c) : list_candidates(c));
    if (c->count == 0) return HYP_OK;
    hyp_status status = hyp_cuda_trial_open(&trial, s->session, s->values, c->reads, c->read_count, c->result, s->diag);
    if (status == HYP_OK) status = (s->whole ? find_choice : find_winner)(c, &trial, deadline, &winner);
    hyp_cuda_trial_close(&trial);
    *out_winner = (size_t)(winner - c->candidates);
    return status;
}
