/* in_place.c - which variables may be updated where they lie.
 *
 * A run that fails has to leave variables as they were, all of them. So what is written over them comes last, behind all
 * steps that can fail: the commit, elementwise steps that write nothing else. Once it has begun it cannot fail, and need
 * not be ended; what stands in the way of one variable leaves that one with memory of its own for what it becomes. */
#include "base/dtype.h"
#include "base/mem.h"
#include "plan/plan.h"

/* What the commit does to tensors, by root: step + 1, 0 = none of it. */
typedef struct commit {
    const HypPlan__Program *program;
    uint32_t *read, *written; /* by the last one that does, and by the one that does */
} commit;

/* ---- where it begins ------------------------------------------------------------------------------------ */

/* Elementwise, and of nothing but outputs of variables; `is_variables`: by tensor. */
static bool only_updates(const HypPlan__Step *step, const bool *is_variables)
{
    if (step->kernel_case != HYP_PLAN__STEP__KERNEL_POINTWISE) return false;
    for (size_t i = 0; i < step->pointwise->n_outputs; i++)
        if (!is_variables[step->pointwise->outputs[i]]) return false;
    return true;
}

hyp_status hyp_plan_find_commit(const HypPlan__Program *p, uint32_t *out, hyp_diag *diag)
{
    bool *is_variables = hyp_calloc(p->n_tensors + 1, sizeof *is_variables);
    if (!is_variables) return hyp_fail_memory(diag, p->n_tensors);
    for (size_t i = 0; i < p->n_variables; i++)
        if (p->variables[i]->output_plus1) is_variables[p->outputs[p->variables[i]->output_plus1 - 1]] = true;
    size_t first = p->n_steps;
    while (first > 0 && only_updates(p->steps[first - 1], is_variables)) first--;
    hyp_free(is_variables);
    *out = (uint32_t)first;
    return HYP_OK;
}

/* ---- which variables ------------------------------------------------------------------------------------ */

static void note(commit *c, uint32_t index)
{
    const HypPlan__Pointwise *k = c->program->steps[index]->pointwise;
    for (size_t i = 0; i < k->n_inputs; i++) c->read[hyp_plan_root(c->program, k->inputs[i]->tensor)] = index + 1;
    for (size_t i = 0; i < k->n_outputs; i++) c->written[k->outputs[i]] = index + 1;
}

/* Whether an operand is read in the order of the extents, whatever the shapes are. Axes of one element do not count. */
static bool is_dense(const HypPlan__Program *p, const HypPlan__Pointwise *k, const HypPlan__Pointwise__Operand *x)
{
    int64_t want = 1;
    for (size_t a = k->n_extents; a-- > 0;) {
        const HypPlan__Dim *extent = p->dims[k->extents[a]], *stride = p->dims[x->strides[a]];
        if (extent->kind != HYP_PLAN__DIM__KIND__CONST || stride->kind != HYP_PLAN__DIM__KIND__CONST) return false;
        if (extent->value == 1) continue;
        if (stride->value != want || !hyp_mul_i64(want, extent->value, &want)) return false;
    }
    return true;
}

/* Each element of what the variable becomes is written when that of the variable has been read, and by then nobody else
 * needs it. */
static bool may_be_in_place(const commit *c, const HypPlan__Variable *v)
{
    const HypPlan__Program *p = c->program;
    if (!v->output_plus1) return false;
    uint32_t x = p->inputs[v->input], written = c->written[p->outputs[v->output_plus1 - 1]];
    if (!written || c->read[x] > written) return false;
    const HypPlan__Pointwise *k = p->steps[written - 1]->pointwise;
    for (size_t i = 0; i < k->n_inputs; i++) {
        const HypPlan__Pointwise__Operand *operand = k->inputs[i];
        if (hyp_plan_root(p, operand->tensor) != x) continue;
        if (hyp_plan_first_byte(p, operand->tensor) != 0 || !is_dense(p, k, operand)) return false;
    }
    return true;
}

size_t hyp_plan_state_bytes(const HypPlan__Program *p, size_t *out_twice)
{
    size_t all = 0;
    *out_twice = 0;
    for (size_t i = 0; i < p->n_variables; i++) {
        const HypPlan__Tensor *t = p->tensors[p->inputs[p->variables[i]->input]];
        size_t bytes = hyp_dtype_size((hyp_dtype)t->dtype);
        for (size_t a = 0; a < t->n_dims; a++) bytes *= (size_t)p->dims[t->dims[a]]->value;
        all += bytes;
        if (!p->variables[i]->in_place) *out_twice += bytes;
    }
    return all;
}

hyp_status hyp_plan_find_in_place(const HypPlan__Program *p, bool *out, hyp_diag *diag)
{
    commit c = {.program = p};
    uint32_t first;
    for (size_t i = 0; i < p->n_variables; i++) out[i] = false;
    if (p->n_data_sizes || p->hidden_outputs) return HYP_OK; /* outputs are cut when a run has ended, which may fail */
    HYP_TRY(hyp_plan_find_commit(p, &first, diag));
    if (first == p->n_steps) return HYP_OK;
    c.read = hyp_calloc(2 * p->n_tensors, sizeof *c.read);
    if (!c.read) return hyp_fail_memory(diag, 2 * p->n_tensors * sizeof *c.read);
    c.written = c.read + p->n_tensors;
    for (uint32_t s = first; s < p->n_steps; s++) note(&c, s);
    for (size_t i = 0; i < p->n_variables; i++) out[i] = may_be_in_place(&c, p->variables[i]);
    hyp_free(c.read);
    return HYP_OK;
}
