#include "runtime/cuda/session/branches.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "runtime/cuda/ops/steps.h"
#include "runtime/cuda/session/backend.h"
#include "runtime/cuda/session/placement.h"

hyp_status hyp_cuda_branches_wanted(uint32_t *out, hyp_diag *diag)
{
    const char *given = getenv(HYP_CUDA_STREAMS_VARIABLE);
    *out = 0;
    if (!given || !*given) return HYP_OK;
    if (given[0] >= '1' && given[0] <= '0' + HYP_STREAMS && !given[1]) *out = (uint32_t)(given[0] - '0');
    if (*out) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s is '%.32s'; it takes a number of streams from 1 to %d",
                    HYP_CUDA_STREAMS_VARIABLE, given, HYP_STREAMS);
}

/* ---- what units touch -------------------------------------------------------------------------------------------- */

/* A value in scratch memory that a unit reads or writes; from as many on as there are tensors, the room of a unit. */
typedef struct use {
    uint32_t value, unit;
} use;

typedef struct finder {
    hyp_cuda_build *build;
    hyp_cuda_branches *branches;
    bool apart; /* values are looked at as if each had memory of its own */
    uint32_t unit;
    HYP_VEC(hyp_span) spans;
    HYP_VEC(uint32_t) list;
    HYP_VEC(use) uses; /* ascending by unit */
    size_t *own_offset, own_bytes; /* as they are one by one, once they are placed anew; NULL = not yet */
} finder;

/* Tensors of the caller's lie apart from each other and from scratch memory: hyp_cuda_branches_fit. */
static uint64_t place_of(const finder *f, uint32_t tensor)
{
    enum { APART = 44 }; /* bits of an address within one */
    const HypPlan__Program *p = f->build->program;
    const hyp_cuda_prepared *q = f->build->prepared;
    const HypPlan__Tensor *t = p->tensors[tensor];
    bool own = hyp_cuda_has_own(q, tensor);
    if (own) return f->apart ? (uint64_t)(q->own_first[tensor] + 1) << APART : q->value_bytes + q->own_offset[tensor];
    if (t->place == HYP_PLAN__PLACE__PLACE_VIEW) return place_of(f, t->view_of) + hyp_plan_first_byte(p, tensor);
    if (t->place == HYP_PLAN__PLACE__PLACE_SCRATCH && !f->apart) return q->value_offset[tensor];
    return (uint64_t)(tensor + 1) << APART;
}

static hyp_status add_tensor(finder *f, uint32_t tensor, bool written)
{
    hyp_cuda_build *b = f->build;
    bool own = hyp_cuda_has_own(b->prepared, tensor);
    uint32_t root = own ? b->prepared->own_first[tensor] : hyp_plan_root(b->program, tensor);
    HypPlan__Place place = b->program->tensors[root]->place;
    size_t bytes;
    if (place == HYP_PLAN__PLACE__PLACE_WEIGHT || place == HYP_PLAN__PLACE__PLACE_INPUT)
        return HYP_OK; /* never written */
    HYP_TRY(hyp_plan_tensor_bytes(b->program, tensor, b->values, &bytes, b->diag));
    uint64_t begin = place_of(f, tensor);
    HYP_TRY(hyp_vec_push(&f->spans, b->diag, (hyp_span){begin, begin + bytes, written}));
    if (!f->apart || (place != HYP_PLAN__PLACE__PLACE_SCRATCH && !own)) return HYP_OK;
    return hyp_vec_push(&f->uses, b->diag, (use){root, f->unit});
}

static hyp_status add_tensors(finder *f, const HypPlan__Step *step,
                              size_t (*list)(const HypPlan__Step *, uint32_t *, size_t), bool written)
{
    size_t count = list(step, NULL, 0);
    HYP_TRY(hyp_vec_reserve(&f->list, count + 1, f->build->diag));
    list(step, f->list.data, count);
    for (size_t i = 0; i < count; i++) HYP_TRY(add_tensor(f, f->list.data[i], written));
    return HYP_OK;
}

static hyp_status add_step_tensors(finder *f, uint32_t step)
{
    const HypPlan__Program *p = f->build->program;
    const hyp_cuda_prepared *q = f->build->prepared;
    HYP_TRY(add_tensors(f, p->steps[step], hyp_plan_step_reads, false));
    HYP_TRY(add_tensors(f, p->steps[step], hyp_plan_step_writes, true));
    if (hyp_plan_is_collective(p->steps[step])) HYP_TRY(hyp_vec_push(&f->spans, f->build->diag, HYP_SPAN_IN_ORDER));
    /* A layer may read what the normalization before it reads. */
    if (hyp_plan_own_norm(p->steps, step)) HYP_TRY(add_tensors(f, p->steps[step - 1], hyp_plan_step_reads, false));
    for (uint32_t t = 0; q->window_step && t < p->n_tensors; t++)
        if (hyp_cuda_has_own(q, t) && hyp_plan_is_window(p->tensors[t]) && q->window_step[t] == step)
            HYP_TRY(add_tensor(f, t, true));
    return HYP_OK;
}

static hyp_status add_room(finder *f, const hyp_cuda_unit *u)
{
    hyp_cuda_build *b = f->build;
    if (!u->room) return HYP_OK;
    if (f->apart) return hyp_vec_push(&f->uses, b->diag, (use){(uint32_t)b->program->n_tensors + f->unit, f->unit});
    return hyp_vec_push(&f->spans, b->diag, (hyp_span){u->room_at, u->room_at + u->room, true});
}

/* Predictions come from the plan, which may say anything; of a step without one the floor is known, which steps at once
 * share. A unit's share is that of its steps, each as long as it takes. */
static void add_seconds(const hyp_cuda_build *b, uint32_t step, hyp_task *task)
{
    const double most = 1e3;
    const HypPlan__Program *p = b->program;
    double seconds = p->steps[step]->predicted_seconds, share = p->hop_seconds > 0 ? fmin(p->steps[step]->share, most) : 1;
    if (!(seconds > 0)) {
        hyp_step_work work = hyp_plan_step_work(p, step, b->values);
        uint32_t first;
        hyp_dtype dtype = hyp_plan_step_reads(p->steps[step], &first, 1) ? hyp_cuda_dtype(p, first) : HYP_F32;
        seconds = hyp_cuda_device_floor(b->session->model->device, p, dtype, work.flops, work.bytes);
        share = 1;
        if (!(isfinite(seconds) && seconds > 0)) return;
    }
    seconds = fmin(seconds, most);
    task->share = (task->share * task->seconds + share * seconds) / (task->seconds + seconds);
    task->seconds += seconds;
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

static void find_units(const hyp_cuda_prepared *p, hyp_cuda_branches *out)
{
    for (size_t i = p->aside; i < p->ops.len; i++) {
        const hyp_cuda_op *op = &p->ops.data[i];
        if (i == p->aside || op->unit != p->ops.data[i - 1].unit)
            out->units[out->count++] = (hyp_cuda_unit){.first = i, .first_step = op->unit};
        hyp_cuda_unit *u = &out->units[out->count - 1];
        u->end = i + 1;
        if (op->last_step > u->last_step) u->last_step = op->last_step;
        if (op->workspace > u->workspace) u->workspace = op->workspace;
        if (op->room > u->room) u->room = op->room;
    }
}

/* What writes over variables waits for all before it, which may read them, or fail. */
static hyp_status add_commit(finder *f)
{
    hyp_cuda_branches *branches = f->branches;
    uint32_t commit = 0;
    while (commit < branches->count && branches->units[commit].first_step != HYP_CUDA_COMMIT) commit++;
    if (commit == branches->count) return HYP_OK;
    uint32_t *units = hyp_arena_zalloc(&f->build->prepared->arena, branches->count, sizeof *units);
    if (!units) return hyp_fail_memory(f->build->diag, branches->count * sizeof *units);
    for (uint32_t u = 0; u < branches->count; u++) units[u] = u;
    branches->tasks[commit].waits = units;
    branches->tasks[commit].wait_count = commit;
    for (uint32_t u = commit + 1; u < branches->count; u++) {
        branches->tasks[u].waits = units + commit;
        branches->tasks[u].wait_count = 1;
    }
    return HYP_OK;
}

/* What every unit reads and writes. */
static hyp_status find_tasks(finder *f, bool apart)
{
    hyp_cuda_branches *branches = f->branches;
    f->apart = apart;
    for (f->unit = 0; f->unit < branches->count; f->unit++) {
        const hyp_cuda_unit *u = &branches->units[f->unit];
        hyp_task *task = &branches->tasks[f->unit];
        *task = (hyp_task){0};
        f->spans.len = 0;
        for (uint32_t step = u->first_step; step <= u->last_step; step++) {
            HYP_TRY(add_step_tensors(f, step));
            add_seconds(f->build, step, task);
        }
        HYP_TRY(add_room(f, u));
        hyp_span *spans = hyp_arena_zalloc(&f->build->prepared->arena, f->spans.len + 1, sizeof *spans);
        if (!spans) return hyp_fail_memory(f->build->diag, f->spans.len * sizeof *spans);
        if (f->spans.len) memcpy(spans, f->spans.data, f->spans.len * sizeof *spans);
        task->spans = spans;
        task->span_count = f->spans.len;
    }
    return add_commit(f);
}

static hyp_status schedule(finder *f, uint32_t streams)
{
    double hop = fmin(f->build->program->hop_seconds, 1);
    return hyp_timetable_make(f->branches->tasks, f->branches->count, streams, hop, &f->branches->schedule, f->build->diag);
}

/* ---- where values lie -------------------------------------------------------------------------------------------- */

/* Values that share memory, because they live one after the other, keep steps from running side by side. Once it is
 * known what may run beside what, they share it where all uses of one end before those of the other begin, as well
 * as when steps run one by one. */
typedef struct value {
    const use *uses;
    size_t count;
} value;

typedef struct value_list {
    const hyp_cuda_branches *branches;
    value *list; /* by block */
    hyp_plan_blocks blocks;
} value_list;

static bool all_before(const hyp_cuda_branches *branches, const value *a, const value *b)
{
    for (size_t i = 0; i < a->count; i++)
        for (size_t k = 0; k < b->count; k++) {
            uint32_t x = a->uses[i].unit, y = b->uses[k].unit;
            if (x >= y || !hyp_task_ends_before(&branches->tasks[x], &branches->tasks[y])) return false;
        }
    return true;
}

static bool stand_at_once(const void *user, size_t a, size_t b)
{
    const value_list *v = user;
    return !all_before(v->branches, &v->list[a], &v->list[b]) && !all_before(v->branches, &v->list[b], &v->list[a]);
}

static int by_value(const void *left, const void *right)
{
    const use *a = left, *b = right;
    if (a->value != b->value) return a->value < b->value ? -1 : 1;
    return a->unit < b->unit ? -1 : a->unit > b->unit;
}

static void keep_places(finder *f, const value_list *v, size_t total)
{
    hyp_cuda_prepared *p = f->build->prepared;
    size_t tensors = f->build->program->n_tensors;
    p->value_bytes = 0;
    p->own_bytes = total;
    for (size_t i = 0; i < v->blocks.count; i++) {
        uint32_t of = v->list[i].uses->value;
        size_t at = v->blocks.list[i].at;
        if (of >= tensors)
            f->branches->units[of - tensors].room_at = at;
        else if (hyp_cuda_has_own(p, of))
            p->own_offset[of] = at;
        else
            p->value_offset[of] = at;
    }
    for (uint32_t t = 0; t < tensors; t++)
        if (hyp_cuda_has_own(p, t)) p->own_offset[t] = p->own_offset[p->own_first[t]];
}

static hyp_status size_of(const finder *f, uint32_t v, size_t *out)
{
    const hyp_cuda_build *b = f->build;
    size_t tensors = b->program->n_tensors;
    if (v < tensors)
        HYP_TRY(hyp_plan_tensor_bytes(b->program, v, b->values, out, b->diag));
    else
        *out = f->branches->units[v - tensors].room;
    return HYP_OK;
}

/* A block for each value, of which `uses` lists the units that read or write it. */
static hyp_status list_values(const finder *f, value_list *v)
{
    for (size_t i = 0; i < f->uses.len; i++) {
        const use *u = &f->uses.data[i];
        if (i == 0 || u->value != u[-1].value) {
            v->list[v->blocks.count].uses = u;
            HYP_TRY(size_of(f, u->value, &v->blocks.list[v->blocks.count++].bytes));
        }
        v->list[v->blocks.count - 1].count++;
    }
    return HYP_OK;
}

/* Gives values places by a schedule that was made as if each had its own. */
static hyp_status place_values(finder *f)
{
    hyp_cuda_build *b = f->build;
    size_t room = f->uses.len + 1, total;
    value_list v = {.branches = f->branches, .list = hyp_calloc(room, sizeof *v.list)};
    v.blocks.list = hyp_calloc(room, sizeof *v.blocks.list);
    hyp_status status = v.list && v.blocks.list ? HYP_OK : hyp_fail_memory(b->diag, room * sizeof *v.blocks.list);
    if (f->uses.len) qsort(f->uses.data, f->uses.len, sizeof *f->uses.data, by_value);
    if (status == HYP_OK) status = list_values(f, &v);
    if (status == HYP_OK) status = hyp_plan_place_apart(&v.blocks, stand_at_once, &v, &total, b->diag);
    if (status == HYP_OK) keep_places(f, &v, total);
    hyp_plan_blocks_free(&v.blocks);
    hyp_free(v.list);
    return status;
}

/* ---- the decision ------------------------------------------------------------------------------------------------ */

/* What is chosen is of this plan under these dims. */
static void set_key(const hyp_cuda_session *s, const int64_t *values, hyp_choice *out)
{
    const HypPlan__Program *p = s->model->plan->program;
    uint64_t hash = hyp_hash(values, p->n_dims * sizeof *values, p->model_hash);
    for (size_t i = 0; i < p->n_steps; i++) {
        double seconds = p->steps[i]->predicted_seconds;
        hash = hyp_hash(p->steps[i]->label, strlen(p->steps[i]->label), hash);
        hash = hyp_hash(&seconds, sizeof seconds, hash);
    }
    snprintf(out->key, sizeof out->key, "streams of %zu steps, plan %016llx", p->n_steps, (unsigned long long)hash);
}

/* Offers every number of streams by the schedule that it has; more of them than are predicted to gain enough at a price
 * that they do not win by. */
static hyp_status offer(finder *f, hyp_choice *out)
{
    double best = INFINITY;
    hyp_choice_init(out);
    set_key(f->build->session, f->build->values, out);
    for (size_t i = 0; i < HYP_STREAM_WAYS; i++) {
        uint32_t streams = hyp_stream_ways[i];
        char name[HYP_CHOICE_NAME];
        HYP_TRY(schedule(f, streams));
        double seconds = f->branches->schedule.seconds;
        bool gains = seconds < best * HYP_STREAMS_MUST_GAIN;
        if (gains) best = seconds;
        snprintf(name, sizeof name, streams == 1 ? "%u stream" : "%u streams", streams);
        hyp_choice_offer(out, name, streams, gains ? seconds : fmax(seconds, best / HYP_STREAMS_MUST_GAIN), NULL);
    }
    hyp_choose(out, NULL);
    return HYP_OK;
}

/* *out_known: they were asked for, or measured to be better than fewer or more. */
static uint32_t choose_streams(const hyp_cuda_session *s, const hyp_choice *offered, bool *out_known)
{
    hyp_choice c = *offered;
    uint32_t found = s->branches.wanted ? s->branches.wanted : hyp_choose(&c, s->untuned ? NULL : &s->tuning)->form;
    *out_known = s->branches.wanted || c.measured > 0;
    return found;
}

/* What lies behind the values one by one lies among them side by side. */
static hyp_status keep_own(finder *f)
{
    hyp_cuda_prepared *p = f->build->prepared;
    size_t tensors = f->build->program->n_tensors;
    f->own_bytes = p->own_bytes;
    f->own_offset = hyp_arena_zalloc(&p->arena, tensors + 1, sizeof *f->own_offset);
    if (!f->own_offset) return hyp_fail_memory(f->build->diag, tensors * sizeof *f->own_offset);
    if (p->own_offset) memcpy(f->own_offset, p->own_offset, tensors * sizeof *f->own_offset);
    return HYP_OK;
}

static void restore_own(finder *f)
{
    hyp_cuda_prepared *p = f->build->prepared;
    if (!f->own_offset) return;
    p->own_bytes = f->own_bytes;
    if (p->own_offset) memcpy(p->own_offset, f->own_offset, f->build->program->n_tensors * sizeof *p->own_offset);
}

/* Values lie as the schedule wants them where that takes little more memory than they do one by one. Where it would take more, as
 * in the backward pass of a large network, they lie as they do one by one, and steps that share memory wait for each other. */
static hyp_status place_within(finder *f, bool *out_as_alone)
{
    const size_t share = 8, little = (size_t)64 << 20;
    hyp_cuda_prepared *p = f->build->prepared;
    size_t alone;
    HYP_TRY(hyp_cuda_pack(f->build));
    HYP_TRY(keep_own(f));
    if (!hyp_add_size(p->value_bytes, p->own_bytes, &alone)) return hyp_fail_memory(f->build->diag, SIZE_MAX);
    HYP_TRY(place_values(f));
    size_t apart = p->own_bytes;
    *out_as_alone = apart > alone && apart - alone > (alone / share > little ? alone / share : little);
    if (!*out_as_alone) return HYP_OK;
    restore_own(f);
    HYP_TRY(hyp_cuda_pack(f->build));
    for (uint32_t i = 0; i < f->branches->count; i++)
        f->branches->units[i].room_at = p->ops.data[f->branches->units[i].first].room_at;
    return HYP_OK;
}

/* ---- what they need ---------------------------------------------------------------------------------------------- */

static hyp_status take_memory(hyp_cuda_session *s, hyp_cuda_branches *branches, hyp_diag *diag)
{
    size_t total = 0;
    for (uint32_t branch = 1; branch < branches->schedule.branches; branch++) {
        size_t workspace = 0;
        for (uint32_t i = 0; i < branches->count; i++) {
            if (branches->tasks[i].branch != branch) continue;
            if (branches->units[i].workspace > workspace) workspace = branches->units[i].workspace;
        }
        branches->workspace_at[branch] = total;
        branches->workspace_bytes[branch] = hyp_cuda_round_up(workspace, HYP_CUDA_ALIGN);
        total += branches->workspace_bytes[branch];
    }
    return hyp_cuda_grow(s, &s->branches.memory, &s->branches.bytes, total, "steps side by side", diag);
}

static hyp_status take_streams(hyp_cuda_session *s, hyp_cuda_branches *branches, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    for (uint32_t branch = 1; branch < branches->schedule.branches; branch++) {
        CUstream *stream = &s->branches.more[branch - 1];
        if (!*stream)
            HYP_TRY(hyp_cuda_check(lib, lib->cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, s->priority),
                                   "cuStreamCreate", diag));
    }
    for (uint32_t i = 0; i < branches->count; i++)
        if (branches->tasks[i].awaited) branches->units[i].event = ++branches->events;
    branches->events++; /* the first tells where the run begins */
    while (s->branches.events.len < branches->events) {
        CUevent event;
        HYP_TRY(hyp_vec_reserve(&s->branches.events, s->branches.events.len + 1, diag));
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate", diag));
        s->branches.events.data[s->branches.events.len++] = event;
    }
    return HYP_OK;
}

static hyp_status plan(finder *f)
{
    hyp_cuda_build *b = f->build;
    hyp_cuda_prepared *p = b->prepared;
    hyp_cuda_branches *branches = f->branches;
    branches->units = hyp_arena_zalloc(&p->arena, p->ops.len, sizeof *branches->units);
    branches->tasks = hyp_arena_zalloc(&p->arena, p->ops.len, sizeof *branches->tasks);
    branches->schedule.order = hyp_arena_zalloc(&p->arena, p->ops.len, sizeof *branches->schedule.order);
    if (!branches->units || !branches->tasks || !branches->schedule.order)
        return hyp_fail_memory(b->diag, p->ops.len * (sizeof *branches->units + sizeof *branches->tasks));
    find_units(p, branches);
    HYP_TRY(find_tasks(f, true));
    HYP_TRY(offer(f, &branches->choice));
    bool known, as_alone;
    uint32_t streams = choose_streams(b->session, &branches->choice, &known);
    HYP_TRY(schedule(f, streams));
    if (branches->schedule.branches < 2) return HYP_OK;
    HYP_TRY(place_within(f, &as_alone));
    HYP_TRY(find_tasks(f, false));
    HYP_TRY(schedule(f, streams));
    bool gains = branches->schedule.seconds <= HYP_STREAMS_MUST_GAIN * branches->schedule.serial_seconds;
    if (branches->schedule.branches < 2 || (as_alone && !known && !gains)) return HYP_OK;
    HYP_TRY(hyp_cuda_take_scratch(b->session, p, b->diag));
    HYP_TRY(take_memory(b->session, branches, b->diag));
    HYP_TRY(take_streams(b->session, branches, b->diag));
    for (uint32_t i = 0; i < branches->count; i++)
        for (size_t k = branches->units[i].first; k < branches->units[i].end && branches->units[i].room; k++)
            p->ops.data[k].room_at = branches->units[i].room_at;
    p->branches = *branches;
    hyp_log_printf(&b->session->model->device->log,
                   "steps run side by side on %u streams: %.1f us predicted, %.1f on one", branches->schedule.branches,
                   1e6 * branches->schedule.seconds, 1e6 * branches->schedule.serial_seconds);
    return HYP_OK;
}

hyp_status hyp_cuda_plan_branches(hyp_cuda_build *b)
{
    hyp_cuda_session *s = b->session;
    hyp_cuda_prepared *p = b->prepared;
    hyp_cuda_branches branches = {0};
    finder f = {.build = b, .branches = &branches};
    if (p->ops.len < p->aside + 2 || p->ops.len > HYP_TIMETABLE_TASKS || s->branches.wanted == 1) return HYP_OK;
    hyp_diag why = {0}, *diag = b->diag;
    b->diag = &why;
    hyp_status status = plan(&f);
    b->diag = diag;
    if (!p->branches.units) restore_own(&f);
    hyp_vec_free(&f.spans);
    hyp_vec_free(&f.list);
    hyp_vec_free(&f.uses);
    if (status == HYP_ERR_DEVICE_LOST) return hyp_fail(diag, status, "%s", why.message);
    if (status != HYP_OK) hyp_log_printf(&s->model->device->log, "steps do not run side by side: %s", why.message);
    return HYP_OK;
}

void hyp_cuda_branches_dispose(hyp_cuda_branch_streams *l, const hyp_cuda_library *lib)
{
    for (size_t i = 0; i < l->events.len; i++) lib->cuEventDestroy(l->events.data[i]);
    for (size_t i = 0; i < HYP_STREAMS - 1; i++)
        if (l->more[i]) lib->cuStreamDestroy(l->more[i]);
    hyp_cuda_give(lib, l->memory, l->bytes);
    hyp_vec_free(&l->events);
}

/* Whether an output is written over an input. */
static bool is_in_place(const HypPlan__Program *p, size_t input, size_t output)
{
    size_t shown = hyp_plan_shown_inputs(p);
    if (input < shown || input >= p->n_inputs) return false;
    const HypPlan__Variable *v = p->variables[input - shown];
    return v->in_place && v->output_plus1 == output + 1;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

bool hyp_cuda_branches_fit(const hyp_cuda_session *s, const hyp_cuda_prepared *p)
{
    const HypPlan__Program *program = s->model->plan->program;
    size_t edges = program->n_inputs + program->n_outputs;
    for (size_t y = program->n_inputs; y < edges; y++) {
        CUdeviceptr begin = s->at[program->outputs[y - program->n_inputs]], end = begin + p->edge_bytes[y];
        for (size_t i = 0; i < y; i++) {
            if (is_in_place(program, i, y - program->n_inputs)) continue;
            CUdeviceptr other =
                s->at[i < program->n_inputs ? program->inputs[i] : program->outputs[i - program->n_inputs]];
            if (begin < other + p->edge_bytes[i] && other < end) return false;
        }
    }
    return true;
}
