/* places.c - which tensors lie in the rows of others: see places.h. */
#include "runtime/cpu/places.h"

#include <string.h>

#include "plan/laid_box.h"
#include "runtime/cpu/cpu.h"

enum { ROOM_ALIGN = 64 };
static const uint32_t UNKNOWN = UINT32_MAX;

typedef struct chooser {
    const hyp_cpu_session *session;
    const HypPlan__Program *program;
    const hyp_cpu_prepared *prepared;
    hyp_cpu_places *out;
    bool *movable;          /* by tensor: all that writes and reads it can do so in rows */
    bool *fixed;            /* by tensor: a kernel counts on it being in its slot */
    uint32_t *first, *last; /* by tensor: the steps that touch it, and what lies in it */
    hyp_diag *diag;
} chooser;

static int64_t channels_of(const chooser *c, uint32_t tensor)
{
    return c->prepared->values[c->program->tensors[tensor]->dims[1]];
}

/* ---- steps that can ------------------------------------------------------------------------------------------ */

static hyp_cpu_form form_of(const chooser *c, uint32_t step)
{
    const hyp_choice *choice = &c->prepared->choices[step];
    const hyp_alternative *taken = &choice->list[choice->taken];
    return choice->count && !taken->cannot ? (hyp_cpu_form)taken->form : HYP_CPU_PLAIN;
}

/* Whether the kernel of a call can write its result, or read its first input, in rows. What is added to a convolution it
 * reads as it writes. */
static bool call_can(const HypPlan__Call *call, hyp_cpu_form form, uint32_t tensor, bool writes)
{
    if (strcmp(call->kernel, "max-pool") == 0 || strcmp(call->kernel, "average-pool") == 0) return form == HYP_CPU_OWN;
    if (form == HYP_CPU_COLUMNS) return writes;
    if (strcmp(call->kernel, "conv") != 0 || (form != HYP_CPU_WINDOWS && form != HYP_CPU_WINOGRAD)) return false;
    uint32_t added_plus1 = hyp_plan_call_input(call, 3);
    return writes ? !added_plus1 : added_plus1 != tensor + 1;
}

static bool step_can(const chooser *c, uint32_t index, uint32_t tensor, bool writes)
{
    const HypPlan__Step *step = c->program->steps[index];
    hyp_cpu_form form = form_of(c, index);
    if (!hyp_cpu_has_step(c->session->model, index)) return false;
    switch ((int)step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_COPY:
    case HYP_PLAN__STEP__KERNEL_POINTWISE: return form == HYP_CPU_OWN;
    case HYP_PLAN__STEP__KERNEL_CALL: return call_can(step->call, form, tensor, writes);
    default: return false;
    }
}

static void touch(chooser *c, uint32_t index, uint32_t tensor, bool writes)
{
    uint32_t root = hyp_plan_root(c->program, tensor);
    if (root != tensor || !step_can(c, index, tensor, writes)) c->movable[root] = false;
    if (c->first[root] == UNKNOWN) c->first[root] = index;
    c->last[root] = index;
}

static hyp_status look_at_steps(chooser *c)
{
    const HypPlan__Program *p = c->program;
    HYP_VEC(uint32_t) list = {0};
    hyp_status status = HYP_OK;
    for (uint32_t i = 0; i < p->n_steps && status == HYP_OK; i++) {
        const HypPlan__Step *step = p->steps[i];
        size_t reads = hyp_plan_step_reads(step, NULL, 0), writes = hyp_plan_step_writes(step, NULL, 0);
        status = hyp_vec_reserve(&list, reads + writes + 1, c->diag);
        if (status != HYP_OK) break;
        hyp_plan_step_reads(step, list.data, reads);
        hyp_plan_step_writes(step, list.data + reads, writes);
        for (size_t k = 0; k < reads + writes; k++) touch(c, i, list.data[k], k >= reads);
        uint32_t replaced_plus1 = hyp_plan_step_replaces(step);
        for (size_t k = reads; k < reads + writes && replaced_plus1; k++) /* a kernel may add to what is there */
            c->fixed[hyp_plan_root(p, list.data[k])] = c->fixed[hyp_plan_root(p, replaced_plus1 - 1)] = true;
    }
    hyp_vec_free(&list);
    return status;
}

/* ---- copies that nothing is left of --------------------------------------------------------------------------- */

/* Whether a copy brings all of x to some channels of every place of y. */
static bool fills_channels(const chooser *c, const HypPlan__Copy *k, int64_t *out_first)
{
    const int64_t *values = c->prepared->values, of_x = channels_of(c, k->x), of_y = channels_of(c, k->y);
    int64_t count = 1, elements;
    hyp_laid_box laid;
    if (!hyp_lay_copy(c->program, k, values, true, true, &laid) || laid.offsets[HYP_LAID_X] != 0) return false;
    for (size_t i = 0; i < laid.rank; i++) {
        int64_t x = laid.strides[HYP_LAID_X][i];
        if (x <= 0 || laid.strides[HYP_LAID_Y][i] != hyp_cpu_spread(x, of_x, of_y)) return false;
        count *= laid.extents[i];
    }
    *out_first = laid.offsets[HYP_LAID_Y];
    if (*out_first < 0 || *out_first + of_x > of_y) return false;
    return hyp_plan_elements(c->program, k->x, values, &elements, NULL) == HYP_OK && elements == count;
}

static void place_part(chooser *c, uint32_t step)
{
    const HypPlan__Copy *k = c->program->steps[step]->copy;
    const bool *last = c->prepared->channels_last;
    hyp_cpu_place *place = &c->out->of[k->x];
    int64_t first;
    bool can = k->x != k->y && last[k->x] && last[k->y] && c->movable[k->x] && !c->fixed[k->x] && !c->fixed[k->y] &&
               !place->apart && hyp_plan_root(c->program, k->y) == k->y && fills_channels(c, k, &first);
    if (!can || !step_can(c, step, k->y, true)) return;
    *place = (hyp_cpu_place){.in = k->y, .first = first, .apart = channels_of(c, k->y)};
    c->out->copied[step] = true;
}

/* What lies in a part of a third tensor lies in that. */
static void follow(chooser *c, uint32_t tensor)
{
    hyp_cpu_place *place = &c->out->of[tensor];
    for (const hyp_cpu_place *in = &c->out->of[place->in]; place->apart && in->apart; in = &c->out->of[place->in])
        *place = (hyp_cpu_place){.in = in->in, .first = in->first + place->first, .apart = in->apart};
}

/* ---- rooms ----------------------------------------------------------------------------------------------------- */

/* As low as may be beside those before it in the list that are wanted at the same time. */
static hyp_status find_room(chooser *c, const uint32_t *list, size_t index)
{
    const uint32_t tensor = list[index];
    size_t bytes, at = 0, end;
    HYP_TRY(hyp_plan_tensor_bytes(c->program, tensor, c->prepared->values, &bytes, c->diag));
    for (size_t i = 0; i < index; i++) {
        const uint32_t t = list[i];
        size_t size, begin = c->out->room[t] - 1;
        if (c->last[t] < c->first[tensor] || c->last[tensor] < c->first[t]) continue;
        HYP_TRY(hyp_plan_tensor_bytes(c->program, t, c->prepared->values, &size, c->diag));
        if (begin + size + ROOM_ALIGN <= at || at + bytes + ROOM_ALIGN <= begin) continue;
        at = (begin + size + 2 * ROOM_ALIGN - 1) / ROOM_ALIGN * ROOM_ALIGN; /* kernels may read behind the last */
        i = SIZE_MAX;                                                       /* from the first one again */
    }
    if (!hyp_add_size(at, bytes, &end) || end > SIZE_MAX - 2 * ROOM_ALIGN) return hyp_fail_memory(c->diag, SIZE_MAX);
    c->out->room[tensor] = at + 1;
    if (end + ROOM_ALIGN > c->out->bytes) c->out->bytes = end + ROOM_ALIGN;
    return HYP_OK;
}

static hyp_status find_rooms(chooser *c, bool *out_any)
{
    HYP_VEC(uint32_t) list = {0};
    hyp_status status = HYP_OK;
    for (uint32_t t = 0; t < c->program->n_tensors && status == HYP_OK; t++) {
        follow(c, t);
        const hyp_cpu_place *place = &c->out->of[t];
        if (!place->apart) continue;
        if (c->first[t] < c->first[place->in]) c->first[place->in] = c->first[t];
        if (c->last[t] > c->last[place->in]) c->last[place->in] = c->last[t];
        if (!c->out->room[place->in]) status = hyp_vec_push(&list, c->diag, place->in);
        c->out->room[place->in] = 1;
    }
    *out_any = list.len > 0;
    for (size_t i = 0; i < list.len && status == HYP_OK; i++) status = find_room(c, list.data, i);
    hyp_vec_free(&list);
    return status;
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

static hyp_status choose(chooser *c, bool *out_any)
{
    const HypPlan__Program *p = c->program;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        c->out->of[t].in = t;
        c->movable[t] = c->prepared->channels_last[t] && hyp_plan_root(p, t) == t;
        c->first[t] = UNKNOWN;
    }
    HYP_TRY(look_at_steps(c));
    for (uint32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i]->kernel_case == HYP_PLAN__STEP__KERNEL_COPY) place_part(c, i);
    return find_rooms(c, out_any);
}

void hyp_cpu_walk_tensor(const hyp_cpu_op *op, const HypPlan__Program *p, const int64_t *values, uint32_t tensor,
                         const hyp_laid_box *laid, size_t of, hyp_walk *walk, size_t lane)
{
    int64_t apart = hyp_cpu_apart(op, tensor), channels = apart ? values[p->tensors[tensor]->dims[1]] : 1;
    for (size_t a = 0; a < laid->rank; a++)
        walk->strides[lane][a] = hyp_cpu_spread(laid->strides[of][a], channels, apart);
    walk->offset[lane] = hyp_cpu_spread(laid->offsets[of], channels, apart);
}

void hyp_cpu_places_free(hyp_cpu_places *places)
{
    if (!places) return;
    hyp_free(places->of);
    hyp_free(places->room);
    hyp_free(places->copied);
    hyp_free(places);
}

hyp_status hyp_cpu_choose_places(const hyp_cpu_session *s, hyp_cpu_prepared *p, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    size_t n = program->n_tensors;
    chooser c = {.session = s, .program = program, .prepared = p, .diag = diag, .out = hyp_calloc(1, sizeof *c.out)};
    bool *flags = hyp_calloc(2 * n + 1, sizeof *flags), any = false;
    uint32_t *steps = hyp_calloc(2 * n + 1, sizeof *steps);
    hyp_status status = c.out && flags && steps ? HYP_OK : hyp_fail_memory(diag, n * sizeof *steps);
    if (status == HYP_OK) {
        *c.out = (hyp_cpu_places){.of = hyp_calloc(n + 1, sizeof *c.out->of),
                                  .room = hyp_calloc(n + 1, sizeof *c.out->room),
                                  .copied = hyp_calloc(program->n_steps + 1, sizeof *c.out->copied)};
        c.movable = flags;
        c.fixed = flags + n;
        c.first = steps;
        c.last = steps + n;
        bool made = c.out->of && c.out->room && c.out->copied;
        status = made ? choose(&c, &any) : hyp_fail_memory(diag, n * sizeof *c.out->of);
    }
    hyp_free(flags);
    hyp_free(steps);
    if (status == HYP_OK && any)
        p->places = c.out;
    else
        hyp_cpu_places_free(c.out);
    return status;
}

void hyp_cpu_take_places(hyp_cpu_session *s, const hyp_cpu_prepared *p)
{
    const hyp_cpu_places *places = p->places;
    uint64_t wanted = places ? p->serial : 0;
    if (s->placed == wanted) return;
    hyp_host_memory_place(&s->memory);
    s->placed = wanted;
    char *rooms = places ? (char *)s->memory.work + p->rooms_at : NULL;
    for (uint32_t t = 0; places && t < s->model->plan->program->n_tensors; t++) {
        const hyp_cpu_place *place = &places->of[t];
        size_t room = places->room[place->in];
        if (room) s->memory.at[t] = rooms + (room - 1) + (size_t)place->first * sizeof(float);
    }
}
