/* variables.c - state that runs change: every context has its own, in memory of the device.
 *
 * A run that fails or is cancelled leaves all of it as it was. A variable that the plan does not update in place has two
 * buffers for that: a run reads the one that has the value and writes the other, and when it has ended well, they change
 * places. One that is updated in place has one buffer, which the commit alone writes, the steps at the end that cannot fail;
 * backends do all of them or none.
 *
 * On a GPU a run that was queued may fail yet, if it has steps that look at indexes: then the next run waits for its end,
 * since it has to know which buffers to read.
 */
#include <string.h>

#include "base/mem.h"
#include "runtime/core/context.h"

enum { ALIGN = 256 };

static uint8_t *value_of(const hyp_variable_state *v) { return v->at[v->second]; }
static uint8_t *other_of(const hyp_variable_state *v) { return v->at[!v->second]; }

/* Where values are now: of all variables, or of those that a run changes. */
static void swap_values(hyp_context *c, bool all)
{
    const HypPlan__Program *p = c->engine->plan.program;
    for (size_t i = 0; i < p->n_variables; i++)
        if (all || p->variables[i]->output_plus1) c->variables[i].second = !c->variables[i].second;
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static bool is_in_place(const hyp_context *c, size_t variable)
{
    return c->engine->plan.program->variables[variable]->in_place;
}

static hyp_status take(const hyp_context *c, size_t bytes, uint8_t **out, hyp_diag *diag)
{
    const hyp_backend *backend = c->engine->backend;
    void *at = NULL;
    if (backend->session_alloc)
        HYP_TRY(backend->session_alloc(c->session, bytes, &at, diag));
    else if (!(at = hyp_aligned_alloc(ALIGN, bytes)))
        return hyp_fail_memory(diag, bytes);
    *out = at;
    return HYP_OK;
}

static void give(const hyp_context *c, uint8_t **at, size_t bytes)
{
    if (!*at) return;
    if (c->engine->backend->session_free)
        c->engine->backend->session_free(c->session, *at, bytes);
    else
        hyp_aligned_free(*at);
    *at = NULL;
}

void hyp_variables_dispose(hyp_context *c) { give(c, &c->state, c->state_bytes); }

/* Bytes of a variable, whose sizes the validator has found to be fixed and to fit. */
static size_t bytes_of(const hyp_io *io)
{
    size_t bytes = io->element_bytes;
    for (int32_t a = 0; a < io->info.rank; a++) bytes *= (size_t)io->info.dims[a];
    return bytes;
}

/* ---- values ---------------------------------------------------------------------------------------------- */

static hyp_status fill_zero(const hyp_context *c, uint8_t *to, size_t bytes, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    if (e->backend->memory != HYP_MEMORY_HOST && bytes) return e->backend->memory_zero(e->device, to, bytes, diag);
    memset(to, 0, bytes);
    return HYP_OK;
}

static hyp_status copy_initial(const hyp_context *c, size_t i, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    const hyp_variable_state *v = &c->variables[i];
    uint32_t initial = e->plan.program->variables[i]->initial_plus1;
    if (!initial) return fill_zero(c, other_of(v), v->bytes, diag);
    return hyp_engine_copy(e, other_of(v), e->backend->memory, hyp_plan_weight(&e->plan, initial - 1), HYP_MEMORY_HOST,
                           v->bytes, diag);
}

/* Puts what they begin with into the buffers that have no values, and makes these the ones that have; those that have but
 * one come last. */
static hyp_status begin_anew(hyp_context *c, hyp_diag *diag)
{
    const HypPlan__Program *p = c->engine->plan.program;
    for (size_t i = 0; i < p->n_variables; i++)
        if (!is_in_place(c, i)) HYP_TRY(copy_initial(c, i, diag));
    c->torn = c->torn || c->engine->in_place;
    for (size_t i = 0; i < p->n_variables; i++)
        if (is_in_place(c, i)) HYP_TRY(copy_initial(c, i, diag));
    c->torn = false;
    swap_values(c, true);
    return HYP_OK;
}

hyp_status hyp_variables_create(hyp_context *c, hyp_diag *diag)
{
    const hyp_io_list *list = &c->engine->variables;
    size_t total = 0;
    if (!list->count) return HYP_OK;
    c->variables = hyp_arena_zalloc(&c->arena, list->count, sizeof *c->variables);
    if (!c->variables) return hyp_fail_memory(diag, list->count * sizeof *c->variables);
    for (size_t i = 0; i < list->count; i++) {
        size_t bytes = c->variables[i].bytes = bytes_of(&list->items[i]);
        if (bytes > SIZE_MAX / 4 || !hyp_add_size(total, round_up(bytes) * (is_in_place(c, i) ? 1 : 2), &total))
            return hyp_fail(diag, HYP_ERR_LIMIT, "the variables of the plan are larger than memory");
    }
    c->state_bytes = total ? total : 1;
    HYP_TRY(take(c, c->state_bytes, &c->state, diag));
    uint8_t *at = c->state;
    for (size_t i = 0; i < list->count; i++) {
        hyp_variable_state *v = &c->variables[i];
        v->at[0] = v->at[1] = at;
        if (!is_in_place(c, i)) v->at[1] = at += round_up(v->bytes);
        at += round_up(v->bytes);
    }
    return begin_anew(c, diag);
}

/* ---- runs ------------------------------------------------------------------------------------------------ */

/* Whether a run that was queued is not known to end well. */
static bool may_fail(const hyp_context *c)
{
    const hyp_backend *backend = c->engine->backend;
    return backend->fails_late && backend->fails_late(c->session);
}

hyp_status hyp_variables_settle(hyp_context *c, hyp_diag *diag)
{
    const hyp_backend *backend = c->engine->backend;
    if (!c->running) return HYP_OK;
    if (backend->can_wait && !backend->can_wait(c->session))
        return hyp_fail(
            diag, HYP_ERR_INVALID_ARGUMENT,
            "the context's stream is captured, and the run before cannot be waited for, whose end decides what the "
            "variables of the plan are: end the capture first");
    hyp_status status = backend->synchronize(c->session, diag);
    if (status != HYP_OK && may_fail(c)) return status; /* to wait has failed: how the run ends is to be seen yet */
    if (status == HYP_OK && c->changes) swap_values(c, false);
    if (status != HYP_OK && c->changes)
        hyp_diag_prefix(diag, "the last run failed, and the variables are what they were before it");
    c->running = status != HYP_OK && !c->changes;
    c->changes = false;
    return status;
}

/* Memory for what steps that are timed write over variables otherwise. */
static hyp_status take_aside(hyp_context *c, hyp_diag *diag)
{
    size_t bytes = 0;
    for (size_t i = 0; i < c->engine->variables.count; i++)
        if (is_in_place(c, i)) bytes += round_up(c->variables[i].bytes);
    c->aside_bytes = bytes;
    return bytes ? take(c, bytes, &c->aside, diag) : HYP_OK;
}

void hyp_variables_leave(hyp_context *c) { give(c, &c->aside, c->aside_bytes); }

static hyp_status want_whole(const hyp_context *c, hyp_diag *diag)
{
    if (!c->torn) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                    "copying values over the variables of the plan has failed halfway, so that they are of no use: "
                    "hyp_context_variables_reset, or set all of them");
}

hyp_status hyp_variables_bind(hyp_context *c, hyp_variables_use use, hyp_diag *diag)
{
    const HypPlan__Program *p = c->engine->plan.program;
    if (!p->n_variables) return HYP_OK;
    HYP_TRY(want_whole(c, diag));
    if (c->changes || (use == HYP_VARIABLES_CHANGED && may_fail(c))) HYP_TRY(hyp_variables_settle(c, diag));
    if (use == HYP_VARIABLES_TIMED) HYP_TRY(take_aside(c, diag));
    uint8_t *aside = c->aside;
    for (size_t i = 0; i < p->n_variables; i++) {
        const hyp_variable_state *v = &c->variables[i];
        uint32_t input = p->variables[i]->input, output_plus1 = p->variables[i]->output_plus1;
        c->inputs[input] = value_of(v);
        c->input_memory[input] = c->engine->backend->memory;
        if (!output_plus1) continue;
        c->outputs[output_plus1 - 1] = aside && is_in_place(c, i) ? aside : other_of(v);
        c->output_memory[output_plus1 - 1] = c->engine->backend->memory;
        if (aside && is_in_place(c, i)) aside += round_up(v->bytes);
    }
    return HYP_OK;
}

void hyp_variables_queued(hyp_context *c, hyp_variables_use use)
{
    bool changed = use == HYP_VARIABLES_CHANGED;
    if (!c->engine->variables.count) return;
    c->running = true;
    c->changes = changed && may_fail(c);
    if (changed && !c->changes) swap_values(c, false);
}

/* ---- the caller ------------------------------------------------------------------------------------------ */

size_t hyp_engine_variable_count(const hyp_engine *engine) { return engine ? engine->variables.count : 0; }

const hyp_io_info *hyp_engine_variable(const hyp_engine *engine, size_t i)
{
    return engine && i < engine->variables.count ? &engine->variables.items[i].info : NULL;
}

/* What a caller's tensor stands for. */
typedef struct found {
    size_t variable;
    hyp_memory memory; /* where the tensor lies */
} found;

/* Which variable tensors[t] is. A tensor that a run gave in the context's memory lies on the host. */
static hyp_status find(const hyp_context *c, const hyp_tensor *tensors, size_t t, size_t count, bool to_read,
                       found *out, hyp_diag *diag)
{
    const hyp_io_list *list = &c->engine->variables;
    hyp_tensor tensor = tensors[t];
    size_t i;
    HYP_TRY(hyp_match_one(list, tensors, t, count, &i, diag));
    if (tensor.memory == HYP_MEMORY_CONTEXT) {
        if (!to_read)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "variable '%s': give it memory, of the host or of the device", list->names[i]);
        tensor.memory = HYP_MEMORY_HOST;
    }
    *out = (found){i, tensor.memory};
    return hyp_match_data(list, &list->items[i], &tensor, c->variables[i].bytes, c->engine->backend, diag);
}

static hyp_status want_variables(const hyp_context *c, size_t count, hyp_diag *diag)
{
    if (!count || c->engine->variables.count) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the plan has no variables: none of it was compiled for training");
}

static hyp_status get_all(hyp_context *c, hyp_tensor *tensors, size_t count, found *f, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    for (size_t t = 0; t < count; t++) HYP_TRY(find(c, tensors, t, count, false, &f[t], diag));
    HYP_TRY(want_whole(c, diag));
    HYP_TRY(hyp_variables_settle(c, diag));
    for (size_t t = 0; t < count; t++) {
        const hyp_variable_state *v = &c->variables[f[t].variable];
        const hyp_io_info *info = &e->variables.items[f[t].variable].info;
        HYP_TRY(hyp_engine_copy(e, tensors[t].data, f[t].memory, value_of(v), e->backend->memory, v->bytes, diag));
        tensors[t].rank = info->rank;
        memcpy(tensors[t].dims, info->dims, sizeof tensors[t].dims);
    }
    return HYP_OK;
}

hyp_status hyp_context_variable_get(hyp_context *c, hyp_tensor *tensors, size_t count, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_variable_get", diag));
    HYP_NEED_LIST(tensors, count);
    HYP_TRY(want_variables(c, count, diag));
    found *f = hyp_calloc(count + 1, sizeof *f);
    hyp_status status = f ? get_all(c, tensors, count, f, diag) : hyp_fail_memory(diag, count * sizeof *f);
    hyp_free(f);
    return status;
}

static hyp_status set_some(const hyp_context *c, const hyp_tensor *tensors, size_t count, const found *f, bool in_place,
                           hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    for (size_t t = 0; t < count; t++) {
        const hyp_variable_state *v = &c->variables[f[t].variable];
        if (is_in_place(c, f[t].variable) == in_place)
            HYP_TRY(hyp_engine_copy(e, other_of(v), e->backend->memory, tensors[t].data, f[t].memory, v->bytes, diag));
    }
    return HYP_OK;
}

/* Puts each into the buffer that has no value, and makes these the ones that have when all are there; those that have but
 * one come last. `given`: by variable, all false before. */
static hyp_status set_all(hyp_context *c, const hyp_tensor *tensors, size_t count, found *f, bool *given, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    size_t bytes;
    for (size_t t = 0; t < count; t++) {
        HYP_TRY(find(c, tensors, t, count, true, &f[t], diag));
        size_t i = f[t].variable;
        HYP_TRY(hyp_match_fixed(&e->variables, &e->variables.items[i], &tensors[t], &bytes, diag));
        if (given[i])
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "variable '%s' is given twice", e->variables.names[i]);
        given[i] = true;
    }
    if (count < e->variables.count) HYP_TRY(want_whole(c, diag));
    HYP_TRY(hyp_variables_settle(c, diag));
    HYP_TRY(set_some(c, tensors, count, f, false, diag));
    c->torn = c->torn || (count && e->in_place);
    HYP_TRY(set_some(c, tensors, count, f, true, diag));
    c->torn = false;
    for (size_t t = 0; t < count; t++) c->variables[f[t].variable].second = !c->variables[f[t].variable].second;
    return HYP_OK;
}

hyp_status hyp_context_variable_set(hyp_context *c, const hyp_tensor *tensors, size_t count, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_variable_set", diag));
    HYP_NEED_LIST(tensors, count);
    HYP_TRY(want_variables(c, count, diag));
    size_t variables = c->engine->variables.count;
    bool *given = hyp_calloc(variables + 1, sizeof *given);
    found *f = hyp_calloc(count + 1, sizeof *f);
    hyp_status status =
        given && f ? set_all(c, tensors, count, f, given, diag) : hyp_fail_memory(diag, variables + count * sizeof *f);
    hyp_free(given);
    hyp_free(f);
    return status;
}

hyp_status hyp_context_variables_reset(hyp_context *c, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_variables_reset", diag));
    HYP_TRY(hyp_variables_settle(c, diag));
    return begin_anew(c, diag);
}
