#include "support/seal_plan.h"

#include <string.h>

#include "base/strbuf.h"

static uint64_t align_up(uint64_t n) { return (n + HYP_PLAN_ALIGN - 1) / HYP_PLAN_ALIGN * HYP_PLAN_ALIGN; }

static void put(uint8_t *at, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) at[i] = (uint8_t)(v >> 8 * i);
}

uint8_t *seal_plan(const HypPlan__Program *p, const uint8_t *weights, size_t had, size_t *out_size)
{
    uint64_t end = 0, program = hyp_plan__program__get_packed_size(p), hash = 0;
    for (size_t i = 0; i < p->n_tensors; i++)
        if (is_stored_weight(p->tensors[i])) end = p->tensors[i]->offset + p->tensors[i]->bytes;
    uint64_t at = align_up(HYP_PLAN_HEADER + program), size = end ? at + end : HYP_PLAN_HEADER + program;
    uint8_t *file = hyp_calloc(1, size);
    if (!file) return NULL;
    hyp_plan__program__pack(p, file + HYP_PLAN_HEADER);
    for (size_t i = 0; i < p->n_tensors; i++) {
        const HypPlan__Tensor *t = p->tensors[i];
        if (!is_stored_weight(t)) continue;
        for (uint64_t k = 0; k < t->bytes; k++) file[at + t->offset + k] = had ? weights[(t->offset + k) % had] : 0;
        hash = hyp_hash(file + at + t->offset, t->bytes, hash);
    }
    memcpy(file, HYP_PLAN_MAGIC, 8);
    put(file + 8, HYP_PLAN_MAJOR, 4);
    put(file + 12, HYP_PLAN_MINOR, 4);
    put(file + 16, size, 8);
    put(file + 24, HYP_PLAN_HEADER, 8);
    put(file + 32, program, 8);
    put(file + 40, hyp_hash(file + HYP_PLAN_HEADER, program, 0), 8);
    put(file + 48, at, 8);
    put(file + 56, end, 8);
    put(file + 64, hash, 8);
    put(file + 248, hyp_hash(file, 248, 0), 8);
    *out_size = size;
    return file;
}
