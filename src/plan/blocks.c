/* blocks.c - where the scratch tensors of a program lie in one piece of memory.
 *
 * Slots hold for all sizes, so each is as large as its largest tensor, and while small ones are in it the rest of it is
 * idle. Once sizes are known, a tensor lies wherever nothing else does while it stands: the largest first, each as low as
 * may be (Pisarchyk and Lee 2020, "greedy by size"). */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

/* ---- how long tensors stand ------------------------------------------------------------------------------------- */

typedef struct lister {
    const HypPlan__Program *program;
    const int64_t *values;
    hyp_plan_blocks *out;
    uint32_t *owner_plus1; /* by slot: the block that is in it */
    uint32_t *touched;     /* by slot: the last step + 1 that read or wrote it */
    HYP_VEC(uint32_t) list;
    hyp_diag *diag;
} lister;

/* A step touches a tensor. One that it writes into the slot of another that it touches is written over that: both are one
 * block. */
static hyp_status touch(lister *l, uint32_t tensor, uint32_t step)
{
    const HypPlan__Program *p = l->program;
    uint32_t root = hyp_plan_root(p, tensor), slot = p->tensors[root]->slot;
    size_t bytes;
    if (p->tensors[root]->place != HYP_PLAN__PLACE__PLACE_SCRATCH) return HYP_OK;
    if (!l->out->block_plus1[root]) {
        if (l->touched[slot] != step + 1) {
            l->out->list[l->out->count] = (hyp_plan_block){.first = step};
            l->owner_plus1[slot] = (uint32_t)++l->out->count;
        }
        hyp_plan_block *block = &l->out->list[l->owner_plus1[slot] - 1];
        HYP_TRY(hyp_plan_tensor_bytes(p, root, l->values, &bytes, l->diag));
        if (bytes > block->bytes) block->bytes = bytes;
        l->out->block_plus1[root] = l->owner_plus1[slot];
    }
    l->touched[slot] = step + 1;
    l->out->list[l->out->block_plus1[root] - 1].last = step;
    return HYP_OK;
}

static hyp_status touch_all(lister *l, uint32_t step)
{
    const HypPlan__Program *p = l->program;
    const HypPlan__Step *own[] = {hyp_plan_own_norm(p->steps, step) ? p->steps[step - 1] : NULL, p->steps[step]};
    for (size_t k = 0; k < 2; k++) {
        if (!own[k]) continue; /* a layer may read what the normalization before it reads */
        size_t reads = hyp_plan_step_reads(own[k], NULL, 0), writes = k ? hyp_plan_step_writes(own[k], NULL, 0) : 0;
        HYP_TRY(hyp_vec_reserve(&l->list, reads + writes + 1, l->diag));
        hyp_plan_step_reads(own[k], l->list.data, reads);
        if (k) hyp_plan_step_writes(own[k], l->list.data + reads, writes);
        for (size_t i = 0; i < reads + writes; i++) HYP_TRY(touch(l, l->list.data[i], step));
    }
    return HYP_OK;
}

hyp_status hyp_plan_list_blocks(const HypPlan__Program *program, const int64_t *values, size_t more, hyp_plan_blocks *out,
                                hyp_diag *diag)
{
    size_t tensors = program->n_tensors;
    lister l = {.program = program, .values = values, .out = out, .diag = diag};
    *out = (hyp_plan_blocks){.list = hyp_calloc(tensors + more + 1, sizeof *out->list),
                             .block_plus1 = hyp_calloc(tensors + 1, sizeof *out->block_plus1)};
    l.owner_plus1 = hyp_calloc(2 * (size_t)program->slot_count + 1, sizeof *l.owner_plus1);
    bool has_all = out->list && out->block_plus1 && l.owner_plus1;
    hyp_status status = has_all ? HYP_OK : hyp_fail_memory(diag, tensors * sizeof *out->list);
    l.touched = l.owner_plus1 ? l.owner_plus1 + program->slot_count : NULL;
    for (uint32_t s = 0; s < program->n_steps && status == HYP_OK; s++) status = touch_all(&l, s);
    hyp_vec_free(&l.list);
    hyp_free(l.owner_plus1);
    if (status != HYP_OK) hyp_plan_blocks_free(out);
    return status;
}

void hyp_plan_blocks_free(hyp_plan_blocks *blocks)
{
    hyp_free(blocks->list);
    hyp_free(blocks->block_plus1);
    *blocks = (hyp_plan_blocks){0};
}

/* ---- where they lie --------------------------------------------------------------------------------------------- */

static int by_bytes(const void *left, const void *right)
{
    const hyp_plan_block *a = *(hyp_plan_block *const *)left, *b = *(hyp_plan_block *const *)right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a < b ? -1 : a > b;
}

typedef struct placing {
    const hyp_plan_block *list;
    hyp_plan_at_once_fn *at_once;
    const void *user;
} placing;

static bool stand_at_once(const void *blocks, size_t a, size_t b)
{
    const hyp_plan_block *list = ((const hyp_plan_blocks *)blocks)->list;
    return list[a].last >= list[b].first && list[b].last >= list[a].first;
}

/* The lowest gap beside those of `placed`, ascending by place, that are wanted at the same time. */
static size_t find_gap(const placing *p, hyp_plan_block *const *placed, size_t count, const hyp_plan_block *b)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const hyp_plan_block *other = placed[i];
        if (!p->at_once(p->user, (size_t)(other - p->list), (size_t)(b - p->list))) continue;
        if (other->at >= at && other->at - at >= b->bytes) break;
        if (other->at + other->bytes > at) at = other->at + other->bytes;
    }
    return at;
}

static void insert(hyp_plan_block **placed, size_t count, hyp_plan_block *b)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (placed[middle]->at <= b->at)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(placed + low + 1, placed + low, (count - low) * sizeof *placed);
    placed[low] = b;
}

/* Sizes as they are placed; false where they are beyond any. */
static bool round_up(hyp_plan_blocks *blocks)
{
    size_t sum = 0;
    for (size_t i = 0; i < blocks->count; i++) {
        size_t *bytes = &blocks->list[i].bytes;
        if (!hyp_add_size(*bytes, HYP_PLAN_SLOT_ALIGN - 1, bytes)) return false;
        *bytes = *bytes / HYP_PLAN_SLOT_ALIGN * HYP_PLAN_SLOT_ALIGN;
        if (!hyp_add_size(sum, *bytes, &sum)) return false;
    }
    return true;
}

hyp_status hyp_plan_place_blocks(hyp_plan_blocks *blocks, size_t *out_total, hyp_diag *diag)
{
    return hyp_plan_place_apart(blocks, stand_at_once, blocks, out_total, diag);
}

hyp_status hyp_plan_place_apart(hyp_plan_blocks *blocks, hyp_plan_at_once_fn *at_once, const void *user, size_t *out_total,
                                hyp_diag *diag)
{
    const placing p = {blocks->list, at_once, user};
    size_t count = blocks->count;
    hyp_plan_block **sorted = hyp_calloc(2 * count + 1, sizeof *sorted), **placed = sorted ? sorted + count : NULL;
    if (!sorted) return hyp_fail_memory(diag, 2 * count * sizeof *sorted);
    if (!round_up(blocks)) {
        hyp_free(sorted);
        return hyp_fail(diag, HYP_ERR_LIMIT, "the scratch memory that these sizes need is beyond any size");
    }
    for (size_t i = 0; i < count; i++) sorted[i] = &blocks->list[i];
    if (count) qsort(sorted, count, sizeof *sorted, by_bytes);
    *out_total = 0;
    for (size_t i = 0; i < count; i++) {
        hyp_plan_block *b = sorted[i];
        b->at = find_gap(&p, placed, i, b);
        insert(placed, i, b);
        if (b->at + b->bytes > *out_total) *out_total = b->at + b->bytes;
    }
    hyp_free(sorted);
    return HYP_OK;
}
