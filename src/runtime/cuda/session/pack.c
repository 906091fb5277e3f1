/* pack.c - where values, and the rooms of steps, lie in scratch memory when ops run one after the other.
 *
 * A step's room is wanted while it runs alone, so it lies where no value is then: a training's convolutions, say, have
 * theirs where activations were, or will be. */
#include "plan/plan.h"
#include "runtime/cuda/ops/steps.h"
#include "runtime/cuda/session/backend.h"

/* What ops of one unit do together: everything of these steps stands from the first of them to the last. */
static void join_steps(const hyp_cuda_prepared *p, hyp_plan_blocks *blocks, uint32_t *begins, uint32_t *ends)
{
    for (size_t i = p->aside; i < p->ops.len; i++) {
        const hyp_cuda_op *op = &p->ops.data[i];
        for (uint32_t s = op->unit; op->unit != HYP_CUDA_COMMIT && s <= op->last_step; s++) {
            if (op->unit < begins[s]) begins[s] = op->unit;
            if (op->last_step > ends[s]) ends[s] = op->last_step;
        }
    }
    for (size_t i = 0; i < blocks->count; i++) {
        blocks->list[i].first = begins[blocks->list[i].first];
        blocks->list[i].last = ends[blocks->list[i].last];
    }
}

/* The first op of a unit says how much room all of them have; it becomes the block behind those of values. */
static void add_rooms(const hyp_cuda_prepared *p, const uint32_t *ends, hyp_plan_blocks *blocks)
{
    for (size_t i = p->aside; i < p->ops.len; i++) {
        const hyp_cuda_op *op = &p->ops.data[i];
        if (op->room)
            blocks->list[blocks->count++] = (hyp_plan_block){.bytes = op->room, .first = op->unit, .last = ends[op->unit]};
    }
}

/* What is only there for tensors that lie behind the values takes nothing here. */
static hyp_status drop_own(const hyp_cuda_build *b, hyp_plan_blocks *blocks)
{
    bool *wanted = hyp_calloc(blocks->count + 1, sizeof *wanted);
    if (!wanted) return hyp_fail_memory(b->diag, blocks->count);
    for (uint32_t t = 0; t < b->program->n_tensors; t++)
        if (blocks->block_plus1[t] && !hyp_cuda_has_own(b->prepared, t)) wanted[blocks->block_plus1[t] - 1] = true;
    for (size_t i = 0; i < blocks->count; i++)
        if (!wanted[i]) blocks->list[i].bytes = 0;
    hyp_free(wanted);
    return HYP_OK;
}

static void keep_places(hyp_cuda_build *b, const hyp_plan_blocks *blocks, size_t values)
{
    hyp_cuda_prepared *p = b->prepared;
    for (uint32_t t = 0; t < b->program->n_tensors; t++)
        if (blocks->block_plus1[t]) p->value_offset[t] = blocks->list[blocks->block_plus1[t] - 1].at;
    uint32_t unit = UINT32_MAX;
    for (size_t i = p->aside, room = values; i < p->ops.len; i++) {
        hyp_cuda_op *op = &p->ops.data[i];
        if (op->room) {
            unit = op->unit;
            op->room_at = blocks->list[room++].at;
        } else if (op->unit == unit) {
            op->room_at = p->ops.data[i - 1].room_at;
        }
    }
}

static hyp_status pack(hyp_cuda_build *b, hyp_plan_blocks *blocks, uint32_t *begins)
{
    size_t values = blocks->count, steps = b->program->n_steps;
    uint32_t *ends = begins + steps;
    for (uint32_t s = 0; s < steps; s++) begins[s] = ends[s] = s;
    join_steps(b->prepared, blocks, begins, ends);
    HYP_TRY(drop_own(b, blocks));
    add_rooms(b->prepared, ends, blocks);
    HYP_TRY(hyp_plan_place_blocks(blocks, &b->prepared->value_bytes, b->diag));
    keep_places(b, blocks, values);
    return HYP_OK;
}

hyp_status hyp_cuda_pack(hyp_cuda_build *b)
{
    hyp_plan_blocks blocks;
    uint32_t *steps = hyp_calloc(2 * b->program->n_steps + 1, sizeof *steps);
    if (!steps) return hyp_fail_memory(b->diag, 2 * b->program->n_steps * sizeof *steps);
    hyp_status status = hyp_plan_list_blocks(b->program, b->values, b->prepared->ops.len, &blocks, b->diag);
    if (status == HYP_OK) {
        status = pack(b, &blocks, steps);
        hyp_plan_blocks_free(&blocks);
    }
    hyp_free(steps);
    return status;
}

hyp_status hyp_cuda_take_scratch(hyp_cuda_session *s, const hyp_cuda_prepared *p, hyp_diag *diag)
{
    size_t bytes;
    if (!hyp_add_size(p->value_bytes, p->own_bytes, &bytes))
        return hyp_fail(diag, HYP_ERR_LIMIT, "the device memory that these shapes need is beyond any size");
    return hyp_cuda_grow(s, &s->scratch, &s->scratch_bytes, bytes, "intermediate results", diag);
}
