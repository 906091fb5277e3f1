/* slots.c - how long values have to stand, also for steps that may run as one, and places of scratch tensors: linear
 * scan over the steps. A slot is as large as its largest tensor, so any choice is correct; sizes with symbols are
 * compared under one guess of the symbols, which decides only how well slots fit.
 */
#include <string.h>

#include "codegen/lower.h"

enum { GUESS = 64 }; /* of every symbol */

typedef struct slot {
    int64_t bytes; /* guessed size of its largest tensor */
    bool taken;
} slot;

typedef struct placing {
    hyp_lowering *l;
    uint32_t *last_use; /* by tensor: the last step that touches it */
    int64_t *guess;     /* by tensor: bytes under the guess */
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

/* The free slot that grows least, of those the one with the least to spare, of those the first; else a new one. */
static hyp_status take_slot(placing *p, uint32_t t)
{
    int64_t want = p->guess[t];
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < p->slots.len; i++) {
        const slot *s = &p->slots.data[i];
        if (s->taken) continue;
        if (best == SIZE_MAX) {
            best = i;
            continue;
        }
        int64_t now = p->slots.data[best].bytes;
        bool fits = s->bytes >= want, best_fits = now >= want;
        if (fits != best_fits ? fits : fits ? s->bytes < now : s->bytes > now) best = i;
    }
    if (best == SIZE_MAX) {
        HYP_TRY(hyp_vec_grow(&p->slots, p->l->diag));
        best = p->slots.len - 1;
        p->slots.data[best] = (slot){0};
    }
    slot *s = &p->slots.data[best];
    s->taken = true;
    if (s->bytes < want) s->bytes = want;
    tensor_at(p, t)->slot = (uint32_t)best;
    return HYP_OK;
}

static void free_slot(placing *p, uint32_t t) { p->slots.data[tensor_at(p, t)->slot].taken = false; }

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
        tensor_at(p, y)->slot = tensor_at(p, x)->slot;
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
    tensor_at(p, y)->slot = tensor_at(p, x)->slot;
    return true;
}

/* Hidden results live while the next layer reads them: two places are enough for any number of layers. */
static hyp_status place_hidden(placing *p, const HypPlan__Linear *k)
{
    for (size_t i = 0; i + 1 < k->n_layers; i++) {
        HYP_TRY(take_slot(p, k->layers[i]->hidden_plus1 - 1));
        if (i > 0) free_slot(p, k->layers[i - 1]->hidden_plus1 - 1);
    }
    if (k->n_layers > 1) free_slot(p, k->layers[k->n_layers - 2]->hidden_plus1 - 1);
    return HYP_OK;
}

static hyp_status place_step(placing *p, uint32_t index, bool *placed)
{
    const HypPlan__Step *step = p->l->steps.data[index];
    uint32_t *reads, *writes, y;
    size_t read_count, write_count;
    HYP_TRY(touched(p, index, list_reads, &reads, &read_count));
    HYP_TRY(touched(p, index, list_writes, &writes, &write_count));
    y = writes[write_count - 1];
    /* A linear has its hidden tensors before the result; every other step has results only. */
    size_t results = step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR ? write_count - 1 : 0;
    bool in_place = false;
    for (size_t i = results; i < write_count; i++) {
        if (!is_scratch(p, writes[i]) || placed[writes[i]]) continue;
        in_place = step->kernel_case == HYP_PLAN__STEP__KERNEL_POINTWISE
                       ? place_over_input(p, index, step, writes[i])
                       : place_over_replaced(p, index, step, reads, read_count, writes[i]);
        if (!in_place) HYP_TRY(take_slot(p, writes[i]));
        placed[writes[i]] = true;
    }
    if (step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR) HYP_TRY(place_hidden(p, step->linear));
    for (size_t i = 0; i < read_count; i++) {
        bool replaced = in_place && tensor_at(p, reads[i])->slot == tensor_at(p, y)->slot;
        if (is_scratch(p, reads[i]) && p->last_use[reads[i]] == index && !replaced) free_slot(p, reads[i]);
    }
    for (size_t i = results; i < write_count; i++) /* nobody reads it */
        if (is_scratch(p, writes[i]) && p->last_use[writes[i]] == index) free_slot(p, writes[i]);
    return HYP_OK;
}

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
    size_t symbols = hyp_dims_symbol_count(l->graph->dims);
    int64_t *values = hyp_arena_zalloc(&l->scratch, symbols, sizeof *values);
    if (!values) return hyp_fail_memory(l->diag, symbols * sizeof *values);
    for (size_t i = 0; i < symbols; i++) values[i] = GUESS;
    for (size_t t = 0; t < l->tensors.len; t++)
        if (hyp_dim_eval(l->graph->dims, l->bytes.data[t], values, &p->guess[t], NULL) != HYP_OK)
            p->guess[t] = INT64_MAX;
    return HYP_OK;
}

static hyp_status place_all(placing *p)
{
    hyp_lowering *l = p->l;
    size_t tensors = l->tensors.len;
    bool *placed = hyp_arena_zalloc(&l->scratch, tensors, sizeof *placed);
    p->last_use = hyp_arena_zalloc(&l->scratch, tensors, sizeof *p->last_use);
    p->guess = hyp_arena_zalloc(&l->scratch, tensors, sizeof *p->guess);
    if (!placed || !p->last_use || !p->guess) return hyp_fail_memory(l->diag, tensors * sizeof *p->guess);
    HYP_TRY(join_norms(p));
    HYP_TRY(find_last_uses(p));
    HYP_TRY(guess_sizes(p));
    for (uint32_t s = 0; s < l->steps.len; s++) HYP_TRY(place_step(p, s, placed));
    l->out->program->slot_count = (uint32_t)p->slots.len;
    return HYP_OK;
}

hyp_status hyp_lower_place_scratch(hyp_lowering *l)
{
    placing p = {.l = l};
    hyp_status status = place_all(&p);
    hyp_vec_free(&p.slots);
    return status;
}
