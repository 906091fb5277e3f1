/* libFuzzer target: opens any bytes as a plan, with checksums mended so that the parser and the validator are reached,
 * and evaluates what opens.
 */
#include <stdint.h>
#include <string.h>

#include "base/strbuf.h"
#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend(uint8_t *bytes, size_t size)
{
    uint64_t whole = size, program = 0, device[2], hash;
    memcpy(bytes + 16, &whole, 8);
    memcpy(device, bytes + 72, sizeof device); /* offset, bytes */
    if (device[0] <= size && device[1] <= size - device[0]) {
        hash = hyp_hash(bytes + device[0], device[1], 0);
        memcpy(bytes + 88, &hash, 8);
    }
    memcpy(&program, bytes + 32, 8);
    if (program <= size - HYP_PLAN_HEADER) {
        hash = hyp_hash(bytes + HYP_PLAN_HEADER, program, 0);
        memcpy(bytes + 40, &hash, 8);
    }
    hash = hyp_hash(bytes, 248, 0);
    memcpy(bytes + 248, &hash, 8);
}

static void use(const HypPlan__Program *p)
{
    int64_t *values = hyp_calloc(p->n_dims + p->n_symbols, sizeof *values), *symbols = values + p->n_dims;
    for (size_t s = 0; s < p->n_symbols; s++) symbols[s] = 3;
    if (hyp_plan_eval_dims(p, symbols, values, NULL) == HYP_OK && hyp_plan_check_bounds(p, values, NULL) == HYP_OK)
        for (uint32_t s = 0; s < p->n_steps; s++) hyp_plan_step_work(p, s, values);
    hyp_free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = hyp_aligned_alloc(64, size);
    memcpy(bytes, data, size);
    if (size >= HYP_PLAN_HEADER) mend(bytes, size);
    hyp_plan plan;
    hyp_plan_open_options options = {.header_only = true};
    if (hyp_plan_open_memory(bytes, size, "fuzz", &options, &plan, NULL) == HYP_OK) {
        use(plan.program);
        hyp_plan_close(&plan);
    }
    hyp_aligned_free(bytes);
    return 0;
}
