#include <string.h>

#include "runtime/core/host_memory.h"

enum { SLOT_ALIGN = 64 };

/* Lists the tensors whose address comes with every run. Views are of roots, so one step resolves them. */
static void list_bound(hyp_host_memory *m)
{
    const HypPlan__Program *p = m->plan->program;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        uint32_t root = hyp_plan_root(p, t);
        bool is_output = p->tensors[root]->place == HYP_PLAN__PLACE__PLACE_OUTPUT;
        if (!is_output && p->tensors[root]->place != HYP_PLAN__PLACE__PLACE_INPUT) continue;
        const uint32_t *list = is_output ? p->outputs : p->inputs;
        size_t count = is_output ? p->n_outputs : p->n_inputs;
        for (uint32_t i = 0; i < count; i++)
            if (list[i] == root) m->bound[m->bound_count++] = (hyp_host_bound){t, i, is_output};
    }
}

hyp_status hyp_host_memory_init(hyp_host_memory *m, const hyp_plan *plan, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    *m = (hyp_host_memory){.plan = plan};
    m->at = hyp_arena_zalloc(&m->arena, p->n_tensors, sizeof *m->at);
    m->slots = hyp_arena_zalloc(&m->arena, p->slot_count, sizeof *m->slots);
    m->slot_bytes = hyp_arena_zalloc(&m->arena, p->slot_count, sizeof *m->slot_bytes);
    m->bound = hyp_arena_zalloc(&m->arena, p->n_tensors, sizeof *m->bound);
    if (!m->at || !m->slots || !m->slot_bytes || !m->bound) {
        hyp_arena_dispose(&m->arena);
        return hyp_fail_memory(diag, p->n_tensors * sizeof *m->bound);
    }
    list_bound(m);
    hyp_host_memory_take_weights(m, plan);
    return HYP_OK;
}

void hyp_host_memory_take_weights(hyp_host_memory *m, const hyp_plan *plan)
{
    const HypPlan__Program *p = plan->program;
    m->plan = plan;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        uint32_t root = hyp_plan_root(p, t);
        if (p->tensors[root]->place == HYP_PLAN__PLACE__PLACE_WEIGHT)
            m->at[t] = (void *)(uintptr_t)hyp_plan_weight(plan, root);
    }
}

void hyp_host_memory_dispose(hyp_host_memory *m)
{
    for (uint32_t s = 0; m->slots && s < m->plan->program->slot_count; s++) hyp_aligned_free(m->slots[s]);
    hyp_aligned_free(m->work);
    hyp_arena_dispose(&m->arena);
    *m = (hyp_host_memory){0};
}

/* Makes *block large enough. Its old contents mean nothing between runs, so they need not be copied. */
static hyp_status grow(hyp_host_memory *m, void **block, size_t *have, size_t bytes, hyp_diag *diag)
{
    if (*block && *have >= bytes) return HYP_OK;
    void *grown = hyp_aligned_alloc(SLOT_ALIGN, bytes);
    if (!grown) return hyp_fail_memory(diag, bytes);
    hyp_aligned_free(*block);
    m->total += bytes - *have;
    *block = grown;
    *have = bytes;
    return HYP_OK;
}

/* Of a tensor, by that of what holds its bytes, which is NULL where there are none. */
static void *address_of(const HypPlan__Program *p, uint32_t tensor, const void *root)
{
    return (void *)((uintptr_t)root + hyp_plan_first_byte(p, tensor));
}

/* Blocks grow one after the other, the old one being there until the new one is: is there room for that? */
static hyp_status want_room(const hyp_host_memory *m, const size_t *want, size_t work_bytes, hyp_diag *diag)
{
    size_t more = 0, most = 0;
    for (size_t s = 0; s <= m->plan->program->slot_count; s++) {
        bool is_work = s == m->plan->program->slot_count;
        size_t bytes = is_work ? work_bytes : want[s], have = is_work ? m->work_bytes : m->slot_bytes[s], peak;
        if (bytes <= have) continue;
        if (!hyp_add_size(more, bytes, &peak)) return hyp_fail_memory(diag, SIZE_MAX);
        if (peak > most) most = peak;
        more = peak - have;
    }
    return hyp_mem_fits(most) ? HYP_OK : hyp_fail_memory(diag, most);
}

hyp_status hyp_host_memory_growth(const hyp_host_memory *m, const int64_t *values, size_t work_bytes, size_t *out,
                                  hyp_diag *diag)
{
    const HypPlan__Program *p = m->plan->program;
    size_t *want = hyp_calloc(p->slot_count, sizeof *want), more = 0;
    if (!want) return hyp_fail_memory(diag, p->slot_count * sizeof *want);
    hyp_status status = hyp_plan_slot_bytes(p, values, want, diag);
    bool fits = true;
    for (uint32_t s = 0; s < p->slot_count && status == HYP_OK; s++)
        if (want[s] > m->slot_bytes[s]) fits = fits && hyp_add_size(more, want[s] - m->slot_bytes[s], &more);
    if (work_bytes > m->work_bytes) fits = fits && hyp_add_size(more, work_bytes - m->work_bytes, &more);
    hyp_free(want);
    if (status == HYP_OK && !fits) status = hyp_fail_memory(diag, SIZE_MAX);
    if (status == HYP_OK) *out = more;
    return status;
}

hyp_status hyp_host_memory_grow(hyp_host_memory *m, const int64_t *values, size_t work_bytes, hyp_diag *diag)
{
    const HypPlan__Program *p = m->plan->program;
    size_t *want = hyp_calloc(p->slot_count, sizeof *want);
    if (!want) return hyp_fail_memory(diag, p->slot_count * sizeof *want);
    hyp_status status = hyp_plan_slot_bytes(p, values, want, diag);
    if (status == HYP_OK) status = want_room(m, want, work_bytes, diag);
    for (uint32_t s = 0; s < p->slot_count && status == HYP_OK; s++)
        status = grow(m, &m->slots[s], &m->slot_bytes[s], want[s], diag);
    if (status == HYP_OK) status = hyp_host_memory_grow_work(m, work_bytes, diag);
    hyp_free(want);
    hyp_host_memory_place(m); /* also after a failure: the slots that grew have moved */
    return status;
}

void hyp_host_memory_place(hyp_host_memory *m)
{
    const HypPlan__Program *p = m->plan->program;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const HypPlan__Tensor *root = p->tensors[hyp_plan_root(p, t)];
        if (root->place == HYP_PLAN__PLACE__PLACE_SCRATCH)
            m->at[t] = address_of(p, t, m->slots[root->slot]);
    }
}

hyp_status hyp_host_memory_grow_work(hyp_host_memory *m, size_t bytes, hyp_diag *diag)
{
    if (bytes <= m->work_bytes) return HYP_OK;
    HYP_TRY(grow(m, &m->work, &m->work_bytes, bytes, diag));
    memset(m->work, 0, bytes); /* kernels may compute on the unused end of a block */
    return HYP_OK;
}

void hyp_host_memory_bind(hyp_host_memory *m, const hyp_bindings *bindings)
{
    for (size_t i = 0; i < m->bound_count; i++) {
        const hyp_host_bound *b = &m->bound[i];
        const void *root = b->is_output ? bindings->outputs[b->index] : bindings->inputs[b->index];
        m->at[b->tensor] = address_of(m->plan->program, b->tensor, root);
    }
}

size_t hyp_host_memory_bytes(const hyp_host_memory *m) { return m->total; }

hyp_status hyp_host_session_create(void *plan, const hyp_context_options *options, void **out_session, hyp_diag *diag)
{
    hyp_host_memory *m = hyp_calloc(1, sizeof *m);
    if (!m) return hyp_fail_memory(diag, sizeof *m);
    (void)options;
    hyp_status status = hyp_host_memory_init(m, plan, diag);
    if (status == HYP_OK)
        *out_session = m;
    else
        hyp_free(m);
    return status;
}

void hyp_host_session_destroy(void *session)
{
    hyp_host_memory_dispose(session);
    hyp_free(session);
}

bool hyp_host_session_take_model(void *session, void *plan)
{
    hyp_host_memory_take_weights(session, plan);
    return true;
}

size_t hyp_host_session_bytes(const void *session) { return hyp_host_memory_bytes(session); }

hyp_status hyp_host_synchronize(void *session, hyp_diag *diag)
{
    (void)session, (void)diag;
    return HYP_OK;
}

void hyp_host_name_step(const HypPlan__Program *program, size_t step, hyp_diag *diag)
{
    const HypPlan__Step *s = program->steps[step];
    const char *source = s->n_sources ? program->source_names[s->sources[0]] : NULL;
    hyp_diag_prefix(diag, "step %zu%s%s%s", step, source ? " ('" : "", source ? source : "", source ? "')" : "");
}
