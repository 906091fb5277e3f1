/* memory.c - how much scratch memory a program takes. */
#include <string.h>

#include "plan/plan.h"

hyp_status hyp_plan_slot_bytes(const HypPlan__Program *p, const int64_t *values, size_t *slots, hyp_diag *diag)
{
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const HypPlan__Tensor *tensor = p->tensors[t];
        size_t bytes;
        if (tensor->place != HYP_PLAN__PLACE__PLACE_SCRATCH) continue;
        HYP_TRY(hyp_plan_tensor_bytes(p, t, values, &bytes, diag));
        if (bytes > slots[tensor->slot]) slots[tensor->slot] = bytes;
    }
    return HYP_OK;
}

static hyp_status add_up(const HypPlan__Program *p, const int64_t *values, size_t *slots, size_t *out, hyp_diag *diag)
{
    size_t total = 0;
    HYP_TRY(hyp_plan_slot_bytes(p, values, slots, diag));
    for (uint32_t s = 0; s < p->slot_count; s++)
        if (!hyp_add_size(slots[s], HYP_PLAN_SLOT_ALIGN - 1, &slots[s]) ||
            !hyp_add_size(total, slots[s] / HYP_PLAN_SLOT_ALIGN * HYP_PLAN_SLOT_ALIGN, &total))
            return hyp_fail(diag, HYP_ERR_LIMIT, "the scratch memory that these sizes need is beyond any size");
    *out = total;
    return HYP_OK;
}

static hyp_status pack(const HypPlan__Program *program, const int64_t *values, size_t *out, hyp_diag *diag)
{
    hyp_plan_blocks blocks;
    HYP_TRY(hyp_plan_list_blocks(program, values, 0, &blocks, diag));
    hyp_status status = hyp_plan_place_blocks(&blocks, out, diag);
    hyp_plan_blocks_free(&blocks);
    return status;
}

hyp_status hyp_plan_scratch_bytes(const HypPlan__Program *program, const int64_t *values, size_t *out, hyp_diag *diag)
{
    if (strcmp(program->target, "cuda") == 0) return pack(program, values, out, diag);
    size_t *slots = hyp_calloc(program->slot_count, sizeof *slots);
    if (!slots) return hyp_fail_memory(diag, program->slot_count * sizeof *slots);
    hyp_status status = add_up(program, values, slots, out, diag);
    hyp_free(slots);
    return status;
}

hyp_status hyp_plan_constant_bytes(const HypPlan__Program *p, size_t *out, hyp_diag *diag)
{
    HYP_VEC(uint32_t) reads = {0};
    bool *counted = hyp_calloc(p->n_tensors + 1, sizeof *counted);
    hyp_status status = counted ? HYP_OK : hyp_fail_memory(diag, p->n_tensors);
    *out = 0;
    for (size_t s = 0; s < p->n_steps && status == HYP_OK; s++) {
        size_t count = hyp_plan_step_reads(p->steps[s], NULL, 0);
        status = hyp_vec_reserve(&reads, count + 1, diag);
        if (status != HYP_OK) break;
        hyp_plan_step_reads(p->steps[s], reads.data, count);
        for (size_t i = 0; i < count; i++) {
            uint32_t root = hyp_plan_root(p, reads.data[i]);
            const HypPlan__Tensor *t = p->tensors[root];
            if (counted[root] || t->place != HYP_PLAN__PLACE__PLACE_WEIGHT) continue;
            counted[root] = true;
            *out += (size_t)t->bytes;
        }
    }
    hyp_vec_free(&reads);
    hyp_free(counted);
    return status;
}

size_t hyp_plan_recomputed(const HypPlan__Program *program)
{
    size_t count = 0;
    for (size_t s = 0; s < program->n_steps; s++)
        for (size_t r = 0; r < program->steps[s]->n_rules; r++)
            count += strcmp(program->rule_names[program->steps[s]->rules[r]], HYP_PLAN_RECOMPUTE) == 0;
    return count;
}
