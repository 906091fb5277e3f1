/* layouts.c - which tensors lie with the channels last, and what follows from it for memory.
 *
 * A transposition of such a tensor to [N spatial... C] is the same bytes, so both are in one place and the step does
 * nothing: a product then reads the rows that a convolution left, and the other way round. Some channels of such a tensor
 * are no piece of it any more, so the window gets memory of its own and is copied when its tensor is there.
 * Both kinds live longer than the plan says, or are no values of it; they lie behind the values.
 */
#include <string.h>

#include "base/dtype.h"
#include "plan/channels_last.h"
#include "plan/laid_box.h"
#include "runtime/cuda/ops/steps.h"
#include "runtime/cuda/session/backend.h"
#include "runtime/cuda/session/placement.h"

#define UNKNOWN UINT32_MAX

/* A place of its own, for the tensors that share it: from the step that writes the first to the last one that reads any. */
typedef struct own_place {
    uint32_t begins, ends, first; /* steps, and the tensor */
    size_t bytes, at;
} own_place;

typedef struct own_places {
    const HypPlan__Program *program;
    const int64_t *values;
    hyp_cuda_prepared *prepared;
    uint32_t *writes, *reads; /* by tensor: the last step that does so; UNKNOWN: none */
    uint32_t *begins;         /* by tensor: the first that writes it */
    uint32_t *place_plus1;    /* by tensor: index of its own place + 1; 0: where the plan has it */
    own_place *list;
    uint32_t count;
    hyp_diag *diag;
} own_places;

static bool trains_in_f32(const HypPlan__Program *p, const HypPlan__Step *step)
{
    return step->kernel_case == HYP_PLAN__STEP__KERNEL_CALL && strcmp(step->call->kernel, "conv-backward-weights") == 0 &&
           p->tensors[step->call->outputs[0]]->dtype == HYP_F32;
}

/* In f32 without TF32 cuDNN has its kernels for the plan's order, and a training's weights are no constants that a product
 * could read: there its images stay as they are. */
static uint32_t types_last(const HypPlan__Program *p)
{
    bool strict = false;
    for (size_t i = 0; i < p->n_steps && !hyp_cuda_is_tf32(p); i++) strict = strict || trains_in_f32(p, p->steps[i]);
    return strict ? HYP_CUDA_TYPES_LAST & ~(1u << HYP_F32) : HYP_CUDA_TYPES_LAST;
}

hyp_status hyp_cuda_choose_layouts(const hyp_cuda_session *s, const int64_t *values, hyp_cuda_prepared *p,
                                   hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    if (!s->model->channels_last) return HYP_OK;
    p->channels_last = hyp_arena_zalloc(&p->arena, program->n_tensors, sizeof *p->channels_last);
    if (!p->channels_last) return hyp_fail_memory(diag, program->n_tensors);
    const uint32_t also = HYP_LAST_REDUCED | HYP_LAST_COPIED | HYP_LAST_WALKED | HYP_LAST_PARTS | HYP_LAST_TRAINED;
    return hyp_choose_layouts(program, values, types_last(program), HYP_CUDA_LAST_AXES, also, p->channels_last, diag);
}

/* ---- lives ------------------------------------------------------------------------------------------------------ */

/* A window counts as a tensor, since it may have a place of its own; its tensor counts, too. */
static void note(own_places *o, uint32_t *last, uint32_t tensor, uint32_t step)
{
    last[tensor] = step;
    last[hyp_plan_root(o->program, tensor)] = step;
}

static hyp_status find_lives(own_places *o)
{
    const HypPlan__Program *p = o->program;
    HYP_VEC(uint32_t) list = {0};
    hyp_status status = HYP_OK;
    for (uint32_t i = 0; i < p->n_steps && status == HYP_OK; i++) {
        size_t reads = hyp_plan_step_reads(p->steps[i], NULL, 0), writes = hyp_plan_step_writes(p->steps[i], NULL, 0);
        status = hyp_vec_reserve(&list, reads + writes + 1, o->diag);
        if (status != HYP_OK) break;
        hyp_plan_step_reads(p->steps[i], list.data, reads);
        hyp_plan_step_writes(p->steps[i], list.data + reads, writes);
        /* What a normalization reads that the next step may run itself is read then. */
        uint32_t until = i + 1 < p->n_steps && hyp_plan_own_norm(p->steps, i + 1) ? i + 1 : i;
        for (size_t k = 0; k < reads; k++) note(o, o->reads, list.data[k], until);
        for (size_t k = reads; k < reads + writes; k++) {
            note(o, o->writes, list.data[k], i);
            if (o->begins[list.data[k]] == UNKNOWN) o->begins[list.data[k]] = i;
        }
    }
    hyp_vec_free(&list);
    return status;
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

static hyp_status add_place(own_places *o, uint32_t tensor, uint32_t begins)
{
    own_place *place = &o->list[o->count++];
    *place = (own_place){.begins = begins, .ends = begins, .first = tensor};
    o->place_plus1[tensor] = o->count;
    return hyp_plan_tensor_bytes(o->program, tensor, o->values, &place->bytes, o->diag);
}

static void stay_until(own_places *o, uint32_t tensor)
{
    own_place *place = &o->list[o->place_plus1[tensor] - 1];
    uint32_t last = o->reads[tensor] == UNKNOWN ? o->writes[tensor] : o->reads[tensor];
    if (last != UNKNOWN && last > place->ends) place->ends = last;
}

/* Lets the result of a copy that changes nothing lie where what it copies does. */
static hyp_status share(own_places *o, const HypPlan__Copy *k)
{
    const HypPlan__Program *p = o->program;
    const bool *last = o->prepared->channels_last;
    hyp_laid_box laid;
    if (last[k->x] == last[k->y] || p->tensors[k->x]->place != HYP_PLAN__PLACE__PLACE_SCRATCH ||
        p->tensors[k->y]->place != HYP_PLAN__PLACE__PLACE_SCRATCH ||
        !hyp_lay_copy(p, k, o->values, last[k->x], last[k->y], &laid) || !hyp_copies_nothing(p, k, o->values, &laid))
        return HYP_OK;
    if (!o->place_plus1[k->x]) {
        HYP_TRY(add_place(o, k->x, o->begins[k->x]));
        stay_until(o, k->x);
    }
    o->place_plus1[k->y] = o->place_plus1[k->x];
    stay_until(o, k->y);
    return HYP_OK;
}

/* Whether a step other than a copy, which reads the whole tensor, reads this window. */
static bool is_wanted(const own_places *o, uint32_t window)
{
    const HypPlan__Program *p = o->program;
    uint32_t reads[HYP_PLAN_CALL_INPUTS];
    for (size_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i]->kernel_case == HYP_PLAN__STEP__KERNEL_COPY) continue;
        size_t count = hyp_plan_step_reads(p->steps[i], reads, HYP_PLAN_CALL_INPUTS);
        if (count > HYP_PLAN_CALL_INPUTS) continue; /* a linear, or custom: what lies so they do not read */
        for (size_t k = 0; k < count; k++)
            if (reads[k] == window) return true;
    }
    return false;
}

/* A result replaces what is read element by element. Some channels are such elements in the plan's order alone: in the
 * other one they lie apart, and the result needs another place. */
static hyp_status keep_apart(own_places *o, const HypPlan__Pointwise *k)
{
    hyp_laid_box laid;
    if (!o->prepared->channels_last[k->outputs[0]] ||
        !hyp_lay_pointwise(o->program, k, o->values, o->prepared->channels_last, &laid))
        return HYP_OK;
    for (size_t i = 0; i < k->n_inputs; i++) {
        if (memcmp(laid.strides[0], laid.strides[1 + i], laid.rank * sizeof **laid.strides) == 0) continue;
        for (size_t y = 0; y < k->n_outputs; y++) {
            if (o->place_plus1[k->outputs[y]] || !hyp_plan_same_slot(o->program, k->inputs[i]->tensor, k->outputs[y]))
                continue;
            HYP_TRY(add_place(o, k->outputs[y], o->begins[k->outputs[y]]));
            stay_until(o, k->outputs[y]);
        }
    }
    return HYP_OK;
}

static hyp_status find_places(own_places *o)
{
    const HypPlan__Program *p = o->program;
    for (size_t i = 0; i < p->n_steps; i++) {
        const HypPlan__Step *step = p->steps[i];
        if (step->kernel_case == HYP_PLAN__STEP__KERNEL_COPY) HYP_TRY(share(o, step->copy));
        if (step->kernel_case == HYP_PLAN__STEP__KERNEL_POINTWISE) HYP_TRY(keep_apart(o, step->pointwise));
    }
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        if (!o->prepared->channels_last[t] || !hyp_plan_is_window(p->tensors[t]) ||
            !hyp_is_channels(p, t, o->values) || !is_wanted(o, t))
            continue;
        uint32_t there = o->writes[p->tensors[t]->view_of];
        HYP_TRY(add_place(o, t, there));
        stay_until(o, t);
        o->prepared->window_step[t] = there;
    }
    return HYP_OK;
}

/* As low as may be beside those that live at the same time. */
static hyp_status put(own_places *o, uint32_t index)
{
    own_place *place = &o->list[index];
    size_t *total = &o->prepared->own_bytes;
    for (uint32_t i = 0; i < index; i++) {
        const own_place *other = &o->list[i];
        bool apart = other->ends < place->begins || place->ends < other->begins ||
                     other->at + other->bytes <= place->at || place->at + place->bytes <= other->at;
        if (apart) continue;
        place->at = hyp_cuda_round_up(other->at + other->bytes, HYP_CUDA_ALIGN);
        i = UINT32_MAX; /* from the first one again */
    }
    size_t end;
    if (!hyp_add_size(place->at, place->bytes, &end) || end > SIZE_MAX - HYP_CUDA_ALIGN)
        return hyp_fail(o->diag, HYP_ERR_LIMIT, "the device memory that these shapes need is beyond any size");
    end = hyp_cuda_round_up(end, HYP_CUDA_ALIGN);
    if (end > *total) *total = end;
    return HYP_OK;
}

hyp_status hyp_cuda_place_own(const HypPlan__Program *program, const int64_t *values, hyp_cuda_prepared *p, hyp_diag *diag)
{
    size_t n = program->n_tensors;
    own_places o = {.program = program, .values = values, .prepared = p, .diag = diag};
    if (!p->channels_last) return HYP_OK;
    o.writes = hyp_arena_zalloc(&p->arena, n, sizeof *o.writes);
    o.reads = hyp_arena_zalloc(&p->arena, n, sizeof *o.reads);
    o.begins = hyp_arena_zalloc(&p->arena, n, sizeof *o.begins);
    o.place_plus1 = hyp_arena_zalloc(&p->arena, n, sizeof *o.place_plus1);
    o.list = hyp_arena_zalloc(&p->arena, n, sizeof *o.list);
    p->own_offset = hyp_arena_zalloc(&p->arena, n, sizeof *p->own_offset);
    p->window_step = hyp_arena_zalloc(&p->arena, n, sizeof *p->window_step);
    p->own_first = hyp_arena_zalloc(&p->arena, n, sizeof *p->own_first);
    if (!p->window_step || !p->own_first || !p->own_offset || !o.writes || !o.reads || !o.begins || !o.place_plus1 ||
        !o.list)
        return hyp_fail_memory(diag, n * sizeof *o.list);
    for (size_t t = 0; t < n; t++) o.writes[t] = o.reads[t] = o.begins[t] = UNKNOWN;
    HYP_TRY(find_lives(&o));
    HYP_TRY(find_places(&o));
    for (uint32_t i = 0; i < o.count; i++) HYP_TRY(put(&o, i));
    for (size_t t = 0; t < n; t++) {
        const own_place *place = o.place_plus1[t] ? &o.list[o.place_plus1[t] - 1] : NULL;
        p->own_offset[t] = place ? place->at : HYP_CUDA_AS_PLANNED;
        p->own_first[t] = place ? place->first : 0;
    }
    return HYP_OK;
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_add_windows(hyp_cuda_build *b)
{
    const HypPlan__Program *p = b->program;
    const hyp_cuda_prepared *q = b->prepared;
    for (uint32_t t = 0; q->own_offset && t < p->n_tensors; t++) {
        const HypPlan__Tensor *window = p->tensors[t];
        if (!hyp_plan_is_window(window) || q->own_offset[t] == HYP_CUDA_AS_PLANNED || q->window_step[t] != b->step) continue;
        int64_t places = 1, channels = b->values[window->dims[1]];
        int64_t all = b->values[p->tensors[window->view_of]->dims[1]];
        for (size_t k = 2; k < window->n_dims; k++) places *= b->values[window->dims[k]];
        const hyp_cuda_box box = {
            .rank = 2, .lanes = 2, .extent = {channels, places}, .stride = {{1, all}, {1, channels}}};
        HYP_TRY(hyp_cuda_add_box(b, &box, window->view_of, t, (int64_t)window->first / places, 0));
    }
    return HYP_OK;
}
