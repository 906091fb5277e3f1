/* slots.c - how long values have to stand, also for steps that may run as one, and places of scratch tensors.
 *
 * The largest tensor first, each into the first slot that is free while it stands, else into a new one (Pisarchyk and
 * Lee 2020, "greedy by size" for shared objects, but that the first slot is taken and not the smallest: what is large
 * is used up before something small is made). A slot is as large as its largest tensor, so any choice is correct; sizes
 * with symbols are compared for the sizes that predictions are for, which decides only how well slots fit. */
#include <stdlib.h>
#include <string.h>

#include "codegen/lower.h"

/* Tensors in one place, each in that of the one before, which dies where it is made. Times are those of `begin`. */
typedef struct block {
    int64_t bytes;
    uint32_t first, last;
    uint32_t tensor; /* the first of them */
} block;

/* When a slot is taken: from the first time of a block to the last one. */
typedef struct taken {
    uint32_t first, last;
} taken;

typedef struct slot {
    HYP_VEC(taken) times; /* ascending */
} slot;

typedef struct placing {
    hyp_lowering *l;
    uint32_t *last_use; /* by tensor: the last step that touches it */
    uint32_t *begin;    /* by step: its first time. It has one more for each result between its layers */
    int64_t *bytes;     /* by tensor: bytes */
    uint32_t *block_plus1; /* by tensor */
    HYP_VEC(block) blocks;
    HYP_VEC(slot) slots;
} placing;

static HypPlan__Tensor *tensor_at(const placing *p, uint32_t t) { return p->l->tensors.data[t]; }

static uint32_t root_of(const placing *p, uint32_t t)
{
    return tensor_at(p, t)->place == HYP_PLAN__PLACE__PLACE_VIEW ? tensor_at(p, t)->view_of : t;
}

static bool is_scratch(const placing *p, uint32_t t)
{
    return tensor_at(p, t)->place == HYP_PLAN__PLACE__PLACE_SCRATCH;
}

/* With what the normalization reads that the step may run itself. */
static size_t list_reads(const placing *p, uint32_t step, uint32_t *tensors, size_t room)
{
    size_t count = hyp_plan_step_reads(p->l->steps.data[step], tensors, room);
    const HypPlan__Call *norm = hyp_plan_own_norm(p->l->steps.data, step);
    for (size_t i = 0; norm && i < norm->n_inputs_plus1; i++) {
        if (!norm->inputs_plus1[i]) continue;
        if (count < room) tensors[count] = norm->inputs_plus1[i] - 1;
        count++;
    }
    return count;
}

static size_t list_writes(const placing *p, uint32_t step, uint32_t *tensors, size_t room)
{
    return hyp_plan_step_writes(p->l->steps.data[step], tensors, room);
}

/* Every tensor that a step reads or writes, as roots. */
static hyp_status touched(placing *p, uint32_t step, size_t (*list)(const placing *, uint32_t, uint32_t *, size_t),
                          uint32_t **out, size_t *out_count)
{
    size_t count = list(p, step, NULL, 0);
    *out = hyp_arena_zalloc(&p->l->scratch, count, sizeof **out);
    if (!*out) return hyp_fail_memory(p->l->diag, count * sizeof **out);
    list(p, step, *out, count);
    for (size_t i = 0; i < count; i++) (*out)[i] = root_of(p, (*out)[i]);
    *out_count = count;
    return HYP_OK;
}

/* ---- blocks ------------------------------------------------------------------------------------------ */

static uint32_t end_of(const placing *p, uint32_t step) { return p->begin[step + 1] - 1; }

static hyp_status add_block(placing *p, uint32_t t, uint32_t first, uint32_t last)
{
    p->block_plus1[t] = (uint32_t)p->blocks.len + 1;
    return hyp_vec_push(&p->blocks, p->l->diag, (block){.bytes = p->bytes[t], .first = first, .last = last, .tensor = t});
}

/* y takes the place of x. */
static void join_block(placing *p, uint32_t x, uint32_t y)
{
    p->block_plus1[y] = p->block_plus1[x];
    p->blocks.data[p->block_plus1[x] - 1].last = end_of(p, p->last_use[y]);
}

/* The result of an elementwise step takes the place of an input that dies there, when that is dense (so that each
 * element is read before it is written), of the same size, and, read twice, dense both times. */
static bool place_over_input(placing *p, uint32_t step_index, const HypPlan__Step *step, uint32_t y)
{
    const HypPlan__Pointwise *k = step->pointwise;
    uint32_t dense = p->l->dense.data[step_index];
    for (size_t i = 0; i < k->n_inputs; i++) {
        uint32_t x = root_of(p, k->inputs[i]->tensor);
        bool good =
            is_scratch(p, x) && p->last_use[x] == step_index && p->l->bytes.data[x] == p->l->bytes.data[y] &&
            hyp_dtype_size((hyp_dtype)tensor_at(p, x)->dtype) == hyp_dtype_size((hyp_dtype)tensor_at(p, y)->dtype);
        for (size_t j = 0; j < k->n_inputs && good; j++)
            if (root_of(p, k->inputs[j]->tensor) == x) good = dense >> j & 1;
        if (!good) continue;
        join_block(p, x, y);
        return true;
    }
    return false;
}

/* The result takes the place of the tensor that it may replace, when that dies there and is read only once. */
static bool place_over_replaced(placing *p, uint32_t step_index, const HypPlan__Step *step, const uint32_t *reads,
                                size_t read_count, uint32_t y)
{
    uint32_t replaced_plus1 = hyp_plan_step_replaces(step), times = 0;
    if (!replaced_plus1) return false;
    uint32_t x = root_of(p, replaced_plus1 - 1);
    for (size_t i = 0; i < read_count; i++) times += reads[i] == x;
    if (!is_scratch(p, x) || p->last_use[x] != step_index || p->l->bytes.data[x] != p->l->bytes.data[y] || times != 1)
        return false;
    join_block(p, x, y);
    return true;
}

static void note_stay(const placing *p, uint32_t t, uint32_t first)
{
    hyp_lowered *out = p->l->out;
    out->stays[out->stay_count++] =
        (hyp_stay){.tensor = t, .first = first, .last = p->last_use[t], .bytes = p->bytes[t]};
}

static hyp_status add_results(placing *p, uint32_t index)
{
    const HypPlan__Step *step = p->l->steps.data[index];
    uint32_t *reads, *writes;
    size_t read_count, write_count;
    HYP_TRY(touched(p, index, list_reads, &reads, &read_count));
    HYP_TRY(touched(p, index, list_writes, &writes, &write_count));
    /* A linear has its hidden tensors before the result, each for the next layer; every other step has results only. */
    size_t hidden = step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR ? write_count - 1 : 0;
    for (size_t i = 0; i < hidden; i++) {
        uint32_t at = p->begin[index] + (uint32_t)i;
        HYP_TRY(add_block(p, writes[i], at, at + 1));
    }
    for (size_t i = hidden; i < write_count; i++) {
        if (!is_scratch(p, writes[i]) || p->block_plus1[writes[i]]) continue;
        bool in_place = step->kernel_case == HYP_PLAN__STEP__KERNEL_POINTWISE
                            ? place_over_input(p, index, step, writes[i])
                            : place_over_replaced(p, index, step, reads, read_count, writes[i]);
        if (!in_place) HYP_TRY(add_block(p, writes[i], p->begin[index], end_of(p, p->last_use[writes[i]])));
        note_stay(p, writes[i], in_place ? index + 1 : index);
    }
    return HYP_OK;
}

/* ---- slots ------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const block *x = *(const block *const *)a, *y = *(const block *const *)b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

/* Where among a slot's times a block comes; false where it is taken then. */
static bool find_gap(const slot *s, const block *b, size_t *out_at)
{
    size_t low = 0, high = s->times.len; /* the first that ends behind the block's beginning */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->times.data[middle].last < b->first)
            low = middle + 1;
        else
            high = middle;
    }
    *out_at = low;
    return low == s->times.len || s->times.data[low].first > b->last;
}

static hyp_status take_slot(placing *p, const block *b, uint32_t *out)
{
    size_t i = 0, at = 0;
    while (i < p->slots.len && !find_gap(&p->slots.data[i], b, &at)) i++;
    if (i == p->slots.len) {
        at = 0;
        HYP_TRY(hyp_vec_push(&p->slots, p->l->diag, (slot){0}));
    }
    slot *s = &p->slots.data[i];
    HYP_TRY(hyp_vec_grow(&s->times, p->l->diag));
    memmove(s->times.data + at + 1, s->times.data + at, (s->times.len - 1 - at) * sizeof *s->times.data);
    s->times.data[at] = (taken){b->first, b->last};
    *out = (uint32_t)i;
    return HYP_OK;
}

static hyp_status place_blocks(placing *p)
{
    size_t count = p->blocks.len;
    const block **sorted = hyp_arena_zalloc(&p->l->scratch, count, sizeof *sorted);
    uint32_t *slot_of = hyp_arena_zalloc(&p->l->scratch, count, sizeof *slot_of);
    if (!sorted || !slot_of) return hyp_fail_memory(p->l->diag, count * sizeof *sorted);
    for (size_t i = 0; i < count; i++) sorted[i] = &p->blocks.data[i];
    if (count) qsort(sorted, count, sizeof *sorted, by_size);
    for (size_t i = 0; i < count; i++) HYP_TRY(take_slot(p, sorted[i], &slot_of[sorted[i] - p->blocks.data]));
    for (uint32_t t = 0; t < p->l->tensors.len; t++)
        if (p->block_plus1[t]) tensor_at(p, t)->slot = slot_of[p->block_plus1[t] - 1];
    return HYP_OK;
}

/* ---- how long values stand --------------------------------------------------------------------------- */

/* Lets a linear run the normalization before it where a device has a kernel for both: nothing else reads its result. */
static hyp_status join_norms(placing *p)
{
    hyp_lowering *l = p->l;
    uint32_t *readers = hyp_arena_zalloc(&l->scratch, l->tensors.len, sizeof *readers);
    if (!readers) return hyp_fail_memory(l->diag, l->tensors.len * sizeof *readers);
    for (uint32_t s = 0; s < l->steps.len; s++) {
        uint32_t *list;
        size_t count;
        HYP_TRY(touched(p, s, list_reads, &list, &count));
        for (size_t i = 0; i < count; i++) readers[list[i]]++;
    }
    for (uint32_t s = 1; s < l->steps.len && l->options->target->joins_norm_and_linear; s++) {
        const HypPlan__Step *norm = l->steps.data[s - 1], *step = l->steps.data[s];
        if (step->kernel_case != HYP_PLAN__STEP__KERNEL_LINEAR || norm->kernel_case != HYP_PLAN__STEP__KERNEL_CALL)
            continue;
        const char *kernel = norm->call->kernel;
        uint32_t x = root_of(p, step->linear->x);
        step->linear->normalizes = (strcmp(kernel, "layer-norm") == 0 || strcmp(kernel, "rms-norm") == 0) &&
                                   root_of(p, norm->call->outputs[0]) == x && is_scratch(p, x) && readers[x] == 1 &&
                                   !hyp_plan_is_window(tensor_at(p, step->linear->x));
    }
    return HYP_OK;
}

static hyp_status find_last_uses(placing *p)
{
    for (uint32_t s = 0; s < p->l->steps.len; s++) {
        uint32_t *list;
        size_t count;
        HYP_TRY(touched(p, s, list_reads, &list, &count));
        for (size_t i = 0; i < count; i++) p->last_use[list[i]] = s;
        HYP_TRY(touched(p, s, list_writes, &list, &count));
        for (size_t i = 0; i < count; i++) p->last_use[list[i]] = s;
    }
    return HYP_OK;
}

static hyp_status guess_sizes(placing *p)
{
    hyp_lowering *l = p->l;
    const int64_t *values;
    HYP_TRY(hyp_lower_guess_sizes(l, &values));
    for (size_t t = 0; t < l->tensors.len; t++)
        if (hyp_dim_eval(l->graph->dims, l->bytes.data[t], values, &p->bytes[t], NULL) != HYP_OK)
            p->bytes[t] = INT64_MAX;
    return HYP_OK;
}

static void find_times(placing *p)
{
    const hyp_lowering *l = p->l;
    for (uint32_t s = 0; s < l->steps.len; s++) {
        const HypPlan__Step *step = l->steps.data[s];
        bool chain = step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR;
        p->begin[s + 1] = p->begin[s] + (chain ? (uint32_t)step->linear->n_layers : 1);
    }
}

static hyp_status place_all(placing *p)
{
    hyp_lowering *l = p->l;
    size_t tensors = l->tensors.len;
    p->last_use = hyp_arena_zalloc(&l->scratch, tensors, sizeof *p->last_use);
    p->begin = hyp_arena_zalloc(&l->scratch, l->steps.len + 1, sizeof *p->begin);
    p->bytes = hyp_arena_zalloc(&l->scratch, tensors, sizeof *p->bytes);
    p->block_plus1 = hyp_arena_zalloc(&l->scratch, tensors, sizeof *p->block_plus1);
    if (!p->last_use || !p->begin || !p->bytes || !p->block_plus1)
        return hyp_fail_memory(l->diag, tensors * sizeof *p->bytes);
    void *stays;
    HYP_TRY(hyp_lower_alloc(l, tensors, sizeof *l->out->stays, &stays));
    l->out->stays = stays;
    HYP_TRY(join_norms(p));
    HYP_TRY(find_last_uses(p));
    HYP_TRY(guess_sizes(p));
    find_times(p);
    for (uint32_t s = 0; s < l->steps.len; s++) HYP_TRY(add_results(p, s));
    HYP_TRY(place_blocks(p));
    l->out->program->slot_count = (uint32_t)p->slots.len;
    return HYP_OK;
}

hyp_status hyp_lower_place_scratch(hyp_lowering *l)
{
    placing p = {.l = l};
    hyp_status status = place_all(&p);
    for (size_t i = 0; i < p.slots.len; i++) hyp_vec_free(&p.slots.data[i].times);
    hyp_vec_free(&p.slots);
    hyp_vec_free(&p.blocks);
    return status;
}
