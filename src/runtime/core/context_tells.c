/* context_tells.c - what a context tells of the plan's steps under the shapes that it ran last: their work, and how
 * each is done. */
#include "base/sized.h"
#include "runtime/core/context.h"

/* ---- work ---------------------------------------------------------------------------------------------- */

/* The plan's dims under the sizes that its predictions are for; NULL where these are not known. */
static int64_t *typical_values(const HypPlan__Program *p)
{
    int64_t *symbols = hyp_calloc(p->n_symbols + 1, sizeof *symbols),
            *values = hyp_calloc(p->n_dims + 1, sizeof *values);
    hyp_diag none = {0};
    bool known = symbols && values && p->n_typical_sizes == p->n_symbols;
    for (size_t i = 0; i < p->n_symbols && known; i++) symbols[i] = (int64_t)p->typical_sizes[i];
    known = known && hyp_plan_eval_dims(p, symbols, values, &none) == HYP_OK;
    hyp_free(symbols);
    if (known) return values;
    hyp_free(values);
    return NULL;
}

/* How much more there is to do, by operations or by bytes. */
static double growth(hyp_step_work now, hyp_step_work then)
{
    double flops = then.flops > 0 ? now.flops / then.flops : 0, bytes = then.bytes > 0 ? now.bytes / then.bytes : 0;
    double more = flops > bytes ? flops : bytes;
    return more > 0 ? more : 1;
}

static hyp_dtype step_dtype(const HypPlan__Program *p, const HypPlan__Step *step)
{
    uint32_t first;
    return hyp_plan_step_reads(step, &first, 1) ? (hyp_dtype)p->tensors[first]->dtype : HYP_F32;
}

hyp_status hyp_context_step_work(hyp_context *c, size_t step, hyp_step_work_info *out, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_step_work", diag));
    HYP_NEED(out);
    HYP_TRY(hyp_sized_want(out, hyp_step_work_info, diag));
    const hyp_engine *e = c->engine;
    const hyp_backend *backend = e->backend;
    const HypPlan__Program *p = e->plan.program;
    if (step >= p->n_steps || !c->current)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "hyp_context_step_work: %s",
                        c->current ? "the plan has no such step" : "no shapes were run or reserved");
    if (!c->typical) c->typical = typical_values(p);
    const HypPlan__Step *s = p->steps[step];
    hyp_step_work work = hyp_plan_step_work(p, (uint32_t)step, c->current->values);
    double factor = c->typical ? growth(work, hyp_plan_step_work(p, (uint32_t)step, c->typical)) : 1;
    hyp_step_work_info info = {.flops = work.flops,
                               .bytes = work.bytes,
                               .predicted_seconds = factor * s->predicted_seconds,
                               .operations = work.most};
    if (backend->launches) info.launches = backend->launches(c->current->prepared, step);
    if (backend->floor_seconds)
        info.floor_seconds = backend->floor_seconds(e->device, p, step_dtype(p, s), work.flops, work.bytes);
    hyp_sized_give(out, &info);
    return HYP_OK;
}

/* ---- choices ------------------------------------------------------------------------------------------- */

/* The choices of a step under the current shapes. */
static const hyp_choice *choices_of(const hyp_context *c, size_t step, size_t *out_count)
{
    *out_count = 0;
    if (!c) return NULL;
    const hyp_backend *backend = c->engine->backend;
    if (!backend->choices || !c->current || step >= hyp_engine_step_count(c->engine)) return NULL;
    return backend->choices(c->current->prepared, step, out_count);
}

hyp_step_tuning hyp_context_step_tuning(const hyp_context *c, size_t step)
{
    if (!c) return HYP_STEP_NOT_TUNED;
    const hyp_backend *backend = c->engine->backend;
    if (backend->step_tuning && c->current && step < hyp_engine_step_count(c->engine))
        return backend->step_tuning(c->current->prepared, step);
    size_t count;
    const hyp_choice *choices = choices_of(c, step, &count);
    hyp_step_tuning tuning = HYP_STEP_NOT_TUNED;
    for (size_t i = 0; i < count; i++) {
        if (choices[i].by == HYP_CHOICE_PRIOR) return HYP_STEP_NOT_TUNED;
        if (choices[i].by == HYP_CHOICE_BORROWED) tuning = HYP_STEP_BORROWED;
        if (choices[i].by == HYP_CHOICE_TUNED && tuning == HYP_STEP_NOT_TUNED) tuning = HYP_STEP_TUNED;
    }
    return tuning;
}

size_t hyp_context_choice_count(const hyp_context *c, size_t step)
{
    size_t count;
    choices_of(c, step, &count);
    return count;
}

bool hyp_context_read_choice(const hyp_context *c, size_t step, size_t choice, hyp_choice_info *out)
{
    size_t count;
    const hyp_choice *all = choices_of(c, step, &count), *a = choice < count ? &all[choice] : NULL;
    hyp_choice_info info = {.key = ""};
    if (a) info = (hyp_choice_info){sizeof info, a->key, a->count, a->taken, a->by, a->measured};
    return out && hyp_sized_give(out, &info) && a;
}

bool hyp_context_read_alternative(const hyp_context *c, size_t step, size_t choice, size_t i, hyp_alternative_info *out)
{
    size_t count;
    const hyp_choice *all = choices_of(c, step, &count);
    const hyp_alternative *a = choice < count && i < all[choice].count ? &all[choice].list[i] : NULL;
    hyp_alternative_info info = {.name = ""};
    if (a) info = (hyp_alternative_info){sizeof info, a->name, a->cannot, a->seconds};
    return out && hyp_sized_give(out, &info) && a;
}
