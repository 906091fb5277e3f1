/* golden.c - the samples of a verification, as the plan keeps them: small, and checkable on any machine. */
#include <string.h>

#include "driver/driver.h"

enum { LEAST_BYTES = 1024, MOST_BYTES = 16384, PART_OF_WEIGHTS = 50, MOST_RUNS = 2 };

/* Bytes for all runs together. */
static size_t budget_of(const hyp_verification *v, const HypPlan__Program *program)
{
    int64_t wanted = v->settings->options.golden_bytes;
    uint64_t weights = 0;
    if (wanted != 0) return wanted < 0 ? 0 : (size_t)wanted;
    for (size_t i = 0; i < program->n_tensors; i++) weights += program->tensors[i]->bytes;
    weights /= PART_OF_WEIGHTS;
    return weights < LEAST_BYTES ? LEAST_BYTES : weights > MOST_BYTES ? MOST_BYTES : (size_t)weights;
}

static hyp_status copy_dims(hyp_arena *arena, const hyp_tensor *t, uint64_t **out, size_t *count, hyp_diag *diag)
{
    *count = (size_t)t->rank;
    *out = hyp_arena_zalloc(arena, *count + 1, sizeof **out);
    if (!*out) return hyp_fail_memory(diag, *count * sizeof **out);
    for (int32_t a = 0; a < t->rank; a++) (*out)[a] = (uint64_t)t->dims[a];
    return HYP_OK;
}

/* Takes the bytes of an input that was given from the budget; false where they are too many. */
static hyp_status add_input(hyp_arena *arena, const hyp_tensor *t, const hyp_drawn *d, HypPlan__Golden__Input *out,
                            size_t *budget, bool *out_fits, hyp_diag *diag)
{
    hyp_plan__golden__input__init(out);
    HYP_TRY(copy_dims(arena, t, &out->dims, &out->n_dims, diag));
    out->how = (uint32_t)d->how;
    out->seed = d->seed;
    out->low = d->low;
    out->high = d->high;
    *out_fits = !d->given || (t->bytes > 0 && t->bytes <= *budget / 2);
    if (!d->given || !*out_fits) return HYP_OK;
    *budget -= t->bytes;
    out->data.data = hyp_arena_zalloc(arena, t->bytes, 1);
    if (!out->data.data) return hyp_fail_memory(diag, t->bytes);
    memcpy(out->data.data, t->data, t->bytes);
    out->data.len = t->bytes;
    return HYP_OK;
}

/* As many elements as fit, evenly from all. */
static hyp_status add_output(hyp_arena *arena, const hyp_tensor *value, const hyp_tensor *tolerance, size_t budget,
                             HypPlan__Golden__Output *out, hyp_diag *diag)
{
    size_t size = hyp_dtype_size(value->dtype), count = (size_t)hyp_tensor_elements(value), room = budget / (size + 1);
    hyp_plan__golden__output__init(out);
    HYP_TRY(copy_dims(arena, value, &out->dims, &out->n_dims, diag));
    out->stride = 1;
    if (room == 0 || count == 0) return HYP_OK;
    if (room < count) out->stride = (count + room - 1) / room;
    if (out->stride > 1 && out->stride % 2 == 0) out->stride++; /* not always the same column */
    size_t kept = (count - 1) / (size_t)out->stride + 1;
    out->values.data = hyp_arena_zalloc(arena, kept, size);
    out->tolerances.data = hyp_arena_zalloc(arena, kept, 1);
    if (!out->values.data || !out->tolerances.data) return hyp_fail_memory(diag, kept * size);
    out->values.len = kept * size;
    out->tolerances.len = kept;
    for (size_t i = 0; i < kept; i++) {
        size_t at = i * (size_t)out->stride;
        memcpy(out->values.data + i * size, (const char *)value->data + at * size, size);
        out->tolerances.data[i] = hyp_plan_tolerance_byte(((const double *)tolerance->data)[at]);
    }
    return HYP_OK;
}

static hyp_status add_run(const hyp_verification *v, const hyp_sample *s, hyp_arena *arena, size_t budget,
                          HypPlan__Golden **out, hyp_diag *diag)
{
    size_t inputs = v->graph->inputs.len, outputs = v->graph->outputs.len;
    HypPlan__Golden *g = hyp_arena_zalloc(arena, 1, sizeof *g);
    HypPlan__Golden__Input *in = hyp_arena_zalloc(arena, inputs + 1, sizeof *in);
    HypPlan__Golden__Output *results = hyp_arena_zalloc(arena, outputs + 1, sizeof *results);
    *out = NULL;
    if (!g || !in || !results) return hyp_fail_memory(diag, outputs * sizeof *results);
    hyp_plan__golden__init(g);
    g->inputs = hyp_arena_zalloc(arena, inputs + 1, sizeof *g->inputs);
    g->outputs = hyp_arena_zalloc(arena, outputs + 1, sizeof *g->outputs);
    if (!g->inputs || !g->outputs) return hyp_fail_memory(diag, outputs * sizeof *results);
    g->n_inputs = inputs;
    g->n_outputs = outputs;
    for (size_t i = 0; i < inputs; i++) {
        bool fits;
        g->inputs[i] = &in[i];
        HYP_TRY(add_input(arena, &s->inputs[i], &s->drawn[i], &in[i], &budget, &fits, diag));
        if (!fits) return HYP_OK;
    }
    for (size_t i = 0; i < outputs; i++) {
        g->outputs[i] = &results[i];
        HYP_TRY(add_output(arena, &s->values[i], &s->tolerances[i], budget / outputs, &results[i], diag));
    }
    *out = g;
    return HYP_OK;
}

/* None of a model with sizes that only the data say: what is kept of an output are its elements by their places. None of what has
 * variables, whose values would be inputs. */
hyp_status hyp_golden_add(const hyp_verification *v, hyp_lowered *lowered, hyp_diag *diag)
{
    HypPlan__Program *p = lowered->program;
    size_t runs = v->count < MOST_RUNS ? v->count : MOST_RUNS, budget = budget_of(v, p);
    if (runs == 0 || budget == 0 || v->mode == HYP_VERIFY_OFF || p->hidden_outputs || p->n_variables) return HYP_OK;
    p->golden = hyp_arena_zalloc(&lowered->arena, runs, sizeof *p->golden);
    if (!p->golden) return hyp_fail_memory(diag, runs * sizeof *p->golden);
    for (size_t i = 0; i < runs; i++) {
        HypPlan__Golden *run;
        HYP_TRY(add_run(v, &v->samples[i], &lowered->arena, budget / runs, &run, diag));
        if (run) p->golden[p->n_golden++] = run;
    }
    return HYP_OK;
}
