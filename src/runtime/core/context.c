#include <string.h>

#include "base/mem.h"
#include "base/sized.h"
#include "runtime/core/buckets.h"
#include "runtime/core/custom.h"
#include "runtime/core/loop.h"

enum { REMEMBERED = 16 }; /* sets of dims, where the options name no number: runtime.h promises it */

/* ---- memory ---------------------------------------------------------------------------------------------- */

/* A call that may take memory: what it takes is charged to the context. Ends with `leave`. */
static hyp_mem_account *enter(hyp_context *c) { return hyp_mem_charge(&c->root->account); }

static hyp_status leave(const hyp_context *c, hyp_mem_account *before, hyp_status status, hyp_diag *diag)
{
    hyp_mem_charge(before);
    status = hyp_engine_status(c->engine, status, diag);
    return hyp_mem_status(&c->root->account, status, "the context's options->memory_limit", diag);
}

size_t hyp_context_memory_bytes(const hyp_context *c) { return c ? hyp_mem_used(&c->root->account) : 0; }

/* ---- tuning of others ------------------------------------------------------------------------------------ */

static hyp_tuning *tuning_of(const hyp_context *c)
{
    const hyp_backend *backend = c->engine->backend;
    return backend->tuning ? backend->tuning(c->session) : NULL;
}

/* Adds what other contexts of the engine have shared to what this one knows. */
static hyp_status take_shared(hyp_context *c, hyp_diag *diag)
{
    hyp_tuning *t = tuning_of(c);
    bool is_new = false;
    hyp_status status = t ? hyp_tuning_take(t, &c->engine->shared, &c->seen, &is_new, diag) : HYP_OK;
    c->behind = c->behind || is_new;
    return status;
}

/* ---- life ---------------------------------------------------------------------------------------------- */

static hyp_status make_work_space(hyp_context *c, hyp_diag *diag)
{
    const HypPlan__Program *p = c->engine->plan.program;
    size_t in = p->n_inputs, out = p->n_outputs;
    hyp_arena *a = &c->arena;
    c->input_order = hyp_arena_zalloc(a, in, sizeof *c->input_order);
    c->output_order = hyp_arena_zalloc(a, out, sizeof *c->output_order);
    c->dims = hyp_arena_zalloc(a, in, sizeof *c->dims);
    c->dim_rows = hyp_arena_zalloc(a, in, sizeof *c->dim_rows);
    c->ranks = hyp_arena_zalloc(a, in, sizeof *c->ranks);
    c->symbols = hyp_arena_zalloc(a, p->n_symbols, sizeof *c->symbols);
    c->values = hyp_arena_zalloc(a, p->n_dims, sizeof *c->values);
    c->inputs = hyp_arena_zalloc(a, in, sizeof *c->inputs);
    c->outputs = hyp_arena_zalloc(a, out, sizeof *c->outputs);
    c->bound_inputs = hyp_arena_zalloc(a, in, sizeof *c->bound_inputs);
    c->bound_outputs = hyp_arena_zalloc(a, out, sizeof *c->bound_outputs);
    c->input_memory = hyp_arena_zalloc(a, in, sizeof *c->input_memory);
    c->output_memory = hyp_arena_zalloc(a, out, sizeof *c->output_memory);
    c->counts = hyp_arena_zalloc(a, p->hidden_outputs, sizeof *c->counts);
    c->own = hyp_arena_zalloc(a, out, sizeof *c->own);
    if (!c->counts || !c->own || !c->input_order || !c->output_order || !c->dims || !c->dim_rows || !c->ranks ||
        !c->symbols || !c->values || !c->bound_inputs || !c->bound_outputs || !c->inputs || !c->outputs ||
        !c->input_memory || !c->output_memory)
        return hyp_fail_memory(diag, (in + out) * sizeof *c->dims + p->n_dims * sizeof *c->values);
    for (size_t i = 0; i < in; i++) {
        const hyp_io_list *list = i < c->engine->inputs.count ? &c->engine->inputs : &c->engine->variables;
        const hyp_io_info *info = &list->items[i < c->engine->inputs.count ? i : i - c->engine->inputs.count].info;
        c->dim_rows[i] = c->dims[i];
        c->ranks[i] = info->rank;
        memcpy(c->dims[i], info->dims, sizeof c->dims[i]); /* those of variables are fixed */
    }
    return HYP_OK;
}

/* `around` may be NULL. */
static hyp_status create(hyp_engine *engine, hyp_context *around, const hyp_context_options *given, hyp_context **out,
                         hyp_diag *diag)
{
    if (atomic_load(&engine->destroyed))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "hyp_context_create: the engine was destroyed; create contexts before");
    hyp_context_options options = {.size = sizeof options};
    HYP_TRY(hyp_sized_take(&options, given, hyp_context_options, diag));
    if (!(options.work_limit >= 0))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "options->work_limit is %g: it must be 0 or more",
                        options.work_limit);
    hyp_context *c = hyp_calloc(1, sizeof *c);
    if (!c) return hyp_fail_memory(diag, sizeof *c);
    c->engine = engine;
    c->root = around ? around->root : c;
    c->options = options;
    if (!c->options.shapes) c->options.shapes = REMEMBERED;
    atomic_init(&c->cancelled, false);
    c->account = hyp_account_of(&engine->source, options.memory_limit);
    atomic_fetch_add(&engine->holders, 1);
    hyp_mem_account *before = enter(c);
    hyp_status status = make_work_space(c, diag);
    c->edition = hyp_edition_take(engine);
    if (status == HYP_OK) status = engine->backend->session_create(c->edition->model, &options, &c->session, diag);
    if (status == HYP_OK) status = hyp_variables_create(c, diag);
    if (status == HYP_OK) status = hyp_buckets_create(c, diag);
    if (status == HYP_OK) status = hyp_loops_create(c, diag);
    if (status == HYP_OK) status = take_shared(c, diag);
    c->behind = false; /* nothing is prepared yet */
    status = leave(c, before, status, diag);
    if (status == HYP_OK)
        *out = c;
    else
        hyp_context_destroy(c);
    return status;
}

hyp_status hyp_context_create(hyp_engine *engine, const hyp_context_options *options, hyp_context **out, hyp_diag *diag)
{
    HYP_NEED(engine);
    HYP_NEED(out);
    return create(engine, NULL, options, out, diag);
}

hyp_status hyp_context_create_within(hyp_context *around, hyp_engine *engine, const hyp_context_options *options,
                                     hyp_context **out, hyp_diag *diag)
{
    return create(engine, around, options, out, diag);
}

static void forget_shape(hyp_context *c, hyp_shape *s)
{
    if (s && s->prepared) c->engine->backend->release(c->session, s->prepared);
    hyp_free(s);
}

static void forget_shapes(hyp_context *c)
{
    for (size_t i = 0; i < c->shapes.len; i++) forget_shape(c, c->shapes.data[i]);
    c->shapes.len = 0;
    c->current = NULL;
    c->behind = false;
}

void hyp_context_destroy(hyp_context *c)
{
    if (!c) return;
    forget_shapes(c);
    hyp_loops_dispose(c);
    hyp_variables_dispose(c);
    hyp_buckets_dispose(c);
    if (c->session) c->engine->backend->session_destroy(c->session);
    hyp_edition_release(c->engine, c->edition);
    for (size_t i = 0; c->own && i < c->engine->outputs.count; i++) hyp_aligned_free(c->own[i].data);
    hyp_vec_free(&c->shapes);
    hyp_free(c->typical);
    hyp_arena_dispose(&c->arena);
    hyp_engine_release(c->engine);
    hyp_free(c);
}

/* Prepares all shapes for the newest weights where they are not those of the last run. Shapes that cannot be prepared
 * are forgotten. */
static hyp_status take_weights(hyp_context *c, hyp_diag *diag)
{
    const hyp_backend *backend = c->engine->backend;
    if (atomic_load_explicit(&c->engine->newest, memory_order_acquire) == c->edition) return HYP_OK;
    hyp_edition *newest = hyp_edition_take(c->engine), *before = c->edition;
    if (!backend->take_model(c->session, newest->model)) {
        hyp_edition_release(c->engine, newest);
        return HYP_OK;
    }
    c->edition = newest;
    for (size_t i = 0; i < c->shapes.len; i++) {
        backend->release(c->session, c->shapes.data[i]->prepared);
        c->shapes.data[i]->prepared = NULL;
    }
    hyp_edition_release(c->engine, before);
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < c->shapes.len && status == HYP_OK; i++)
        status = backend->prepare(c->session, c->shapes.data[i]->values, &c->shapes.data[i]->prepared, diag);
    if (status != HYP_OK) forget_shapes(c);
    return status;
}

size_t hyp_context_scratch_bytes(const hyp_context *c)
{
    return c ? c->engine->backend->scratch_bytes(c->session) + hyp_loops_scratch_bytes(c) : 0;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

hyp_status hyp_context_evaluate(hyp_context *c, const hyp_tensor *inputs, hyp_diag *diag)
{
    const HypPlan__Program *p = c->engine->plan.program;
    for (size_t i = 0; i < c->engine->inputs.count; i++)
        HYP_TRY(hyp_match_dims(&c->engine->inputs.items[i], &inputs[c->input_order[i]], c->dims[i], diag));
    HYP_TRY(hyp_plan_bind_symbols(p, c->dim_rows, c->ranks, c->symbols, diag));
    return hyp_custom_eval_dims(&c->engine->plan, c->symbols, c->values, diag);
}

static void output_dims(const HypPlan__Program *p, const hyp_io *io, const int64_t *values, int64_t *dims)
{
    for (int32_t a = 0; a < io->info.rank; a++) dims[a] = values[p->tensors[io->tensor]->dims[a]];
}

void hyp_key_set(const hyp_context *c, const hyp_tensor *inputs, int64_t *key)
{
    for (size_t i = 0; i < c->engine->inputs.count; i++, key += HYP_KEY_WORDS) {
        const hyp_tensor *t = &inputs[c->input_order[i]];
        key[0] = t->rank;
        memcpy(key + 1, t->dims, (size_t)t->rank * sizeof *t->dims);
    }
}

bool hyp_key_matches(const hyp_context *c, const int64_t *key, const hyp_tensor *inputs)
{
    for (size_t i = 0; i < c->engine->inputs.count; i++, key += HYP_KEY_WORDS) {
        const hyp_tensor *t = &inputs[c->input_order[i]];
        if (key[0] != t->rank) return false; /* a remembered rank is valid, so the loop below is bounded */
        for (int32_t a = 0; a < t->rank; a++)
            if (key[1 + a] != t->dims[a]) return false;
    }
    return true;
}

static size_t shape_bytes(const HypPlan__Program *p)
{
    size_t words = hyp_plan_shown_inputs(p) * (HYP_KEY_WORDS + 1) + p->n_outputs * (1 + HYP_MAX_RANK) + p->n_dims;
    return sizeof(hyp_shape) + words * sizeof(int64_t);
}

/* Makes a shape from c->values. */
static hyp_status make_shape(hyp_context *c, const hyp_tensor *inputs, hyp_shape **out, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    const HypPlan__Program *p = e->plan.program;
    size_t in = e->inputs.count, outs = e->outputs.count;
    hyp_shape *s = hyp_calloc(1, shape_bytes(p));
    if (!s) return hyp_fail_memory(diag, shape_bytes(p));
    _Static_assert(sizeof(size_t) == sizeof(int64_t) && sizeof *s % sizeof(int64_t) == 0, "one array of words");
    s->key = (int64_t *)(s + 1);
    s->values = s->key + in * HYP_KEY_WORDS;
    s->output_dims = s->values + p->n_dims;
    s->input_bytes = (size_t *)(s->output_dims + outs * HYP_MAX_RANK);
    s->output_bytes = s->input_bytes + in;
    hyp_key_set(c, inputs, s->key);
    if (p->n_dims) memcpy(s->values, c->values, p->n_dims * sizeof *s->values);
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < in && status == HYP_OK; i++)
        status = hyp_plan_tensor_bytes(p, e->inputs.items[i].tensor, s->values, &s->input_bytes[i], diag);
    for (size_t i = 0; i < outs && status == HYP_OK; i++) {
        output_dims(p, &e->outputs.items[i], s->values, s->output_dims + i * HYP_MAX_RANK);
        status = hyp_plan_tensor_bytes(p, e->outputs.items[i].tensor, s->values, &s->output_bytes[i], diag);
    }
    if (status == HYP_OK) status = hyp_plan_check_bounds(p, s->values, diag);
    if (status == HYP_OK) status = hyp_want_work(p, s->values, c->options.work_limit, diag);
    if (status == HYP_OK && c->loops && c == c->root) status = hyp_want_room(c, diag); /* which sees bodies within bodies */
    if (status == HYP_OK) status = hyp_grow_outputs(c, s, diag);
    if (status == HYP_OK) status = hyp_buckets_grow(c, s, diag);
    if (status == HYP_OK) status = hyp_loops_prepare(c, s->values, diag);
    if (status == HYP_OK) status = take_shared(c, diag);
    if (status == HYP_OK) status = e->backend->prepare(c->session, s->values, &s->prepared, diag);
    hyp_settle_all(c, status == HYP_OK);
    if (status == HYP_OK)
        *out = s;
    else
        forget_shape(c, s);
    return status;
}

/* Keeps one more shape, in the place of the one that was not used for longest where all are taken. */
static hyp_status keep_shape(hyp_context *c, hyp_shape *s, hyp_diag *diag)
{
    if (c->shapes.len < c->options.shapes) {
        hyp_status status = hyp_vec_push(&c->shapes, diag, s);
        if (status != HYP_OK) forget_shape(c, s);
        return status;
    }
    size_t oldest = 0;
    for (size_t i = 1; i < c->shapes.len; i++)
        if (c->shapes.data[i]->last_use < c->shapes.data[oldest]->last_use) oldest = i;
    if (c->current == c->shapes.data[oldest]) c->current = NULL;
    forget_shape(c, c->shapes.data[oldest]);
    c->shapes.data[oldest] = s;
    return HYP_OK;
}

static hyp_shape *remembered_shape(const hyp_context *c, const hyp_tensor *inputs)
{
    for (size_t i = 0; i < c->shapes.len; i++)
        if (hyp_key_matches(c, c->shapes.data[i]->key, inputs)) return c->shapes.data[i];
    return NULL;
}

/* Makes it the one last used, with what bodies of loops have prepared for it: a run need not come to all of these. */
static void use_shape(hyp_context *c, hyp_shape *s)
{
    s->last_use = ++c->clock;
    c->current = s;
    hyp_loops_renew(c, s->values);
}

void hyp_context_renew(hyp_context *c, const hyp_tensor *inputs)
{
    hyp_shape *found = remembered_shape(c, inputs);
    if (found) use_shape(c, found);
}

/* Sets c->current to the shape of these inputs, which are matched in c->input_order. */
static hyp_status find_shape(hyp_context *c, const hyp_tensor *inputs, hyp_diag *diag)
{
    HYP_TRY(take_weights(c, diag));
    if (c->current && hyp_key_matches(c, c->current->key, inputs)) return HYP_OK;
    hyp_shape *found = remembered_shape(c, inputs);
    if (!found) {
        HYP_TRY(hyp_context_evaluate(c, inputs, diag));
        HYP_TRY(make_shape(c, inputs, &found, diag));
        HYP_TRY(keep_shape(c, found, diag));
    }
    use_shape(c, found);
    return HYP_OK;
}

static hyp_status reserve(const hyp_context *c, const hyp_shape *s, hyp_diag *diag)
{
    const hyp_backend *backend = c->engine->backend;
    return backend->reserve && s->reserved ? backend->reserve(c->session, s->prepared, diag) : HYP_OK;
}

hyp_status hyp_context_reserve(hyp_context *c, const hyp_tensor *inputs, size_t count, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_reserve", diag));
    HYP_TRY(hyp_match_tensors(&c->engine->inputs, inputs, count, c->input_order, diag));
    hyp_mem_account *before = enter(c);
    hyp_status status = c->buckets ? hyp_buckets_round(c, &inputs, diag) : HYP_OK;
    if (status == HYP_OK) status = find_shape(c, inputs, diag);
    if (status == HYP_OK) c->current->reserved = true;
    if (status == HYP_OK) status = reserve(c, c->current, diag);
    return leave(c, before, status, diag);
}

hyp_status hyp_context_memory_needed(hyp_context *c, const hyp_tensor *inputs, size_t count, size_t *out_bytes,
                                     hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_memory_needed", diag));
    HYP_NEED(out_bytes);
    HYP_TRY(hyp_match_tensors(&c->engine->inputs, inputs, count, c->input_order, diag));
    if (c->buckets) HYP_TRY(hyp_buckets_round(c, &inputs, diag));
    HYP_TRY(hyp_context_evaluate(c, inputs, diag));
    HYP_TRY(hyp_plan_check_bounds(c->engine->plan.program, c->values, diag));
    hyp_mem_account *before = enter(c);
    hyp_mem_account *account = &c->root->account;
    size_t more = 0, most = account->most;
    account->most = SIZE_MAX;
    hyp_status status = take_weights(c, diag);
    account->most = most;
    bool known = false;
    for (size_t i = 0; i < c->shapes.len && !known; i++) known = hyp_key_matches(c, c->shapes.data[i]->key, inputs);
    if (status == HYP_OK && !known) {
        status = hyp_context_growth(c, &more, diag);
        more += shape_bytes(c->engine->plan.program);
    }
    size_t used = hyp_mem_used(account);
    status = leave(c, before, status, diag);
    if (status == HYP_OK) *out_bytes = used + more;
    return status;
}

hyp_status hyp_context_output_shapes(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                                     size_t output_count, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_output_shapes", diag));
    const hyp_engine *e = c->engine;
    HYP_TRY(hyp_match_tensors(&e->inputs, inputs, input_count, c->input_order, diag));
    HYP_TRY(hyp_match_tensors(&e->outputs, outputs, output_count, c->output_order, diag));
    HYP_TRY(hyp_context_evaluate(c, inputs, diag));
    for (size_t i = 0; i < e->outputs.count; i++) {
        hyp_tensor *t = &outputs[c->output_order[i]];
        t->rank = e->outputs.items[i].info.rank;
        output_dims(e->plan.program, &e->outputs.items[i], c->values, t->dims);
    }
    return HYP_OK;
}

/* ---- running ------------------------------------------------------------------------------------------- */

static hyp_variables_use use_of(const hyp_run_options *how, const double *step_seconds)
{
    if (step_seconds) return HYP_VARIABLES_TIMED;
    return how && how->keep_variables ? HYP_VARIABLES_KEPT : HYP_VARIABLES_CHANGED;
}

static hyp_status run_charged(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                              size_t output_count, const hyp_run_options *how, double *step_seconds, hyp_diag *diag)
{
    const hyp_variables_use use = use_of(how, step_seconds);
    const hyp_engine *e = c->engine;
    HYP_TRY(hyp_match_tensors(&e->inputs, inputs, input_count, c->input_order, diag));
    HYP_TRY(hyp_match_tensors(&e->outputs, outputs, output_count, c->output_order, diag));
    const hyp_tensor *sized = inputs;
    if (c->buckets) HYP_TRY(hyp_buckets_round(c, &sized, diag));
    HYP_TRY(find_shape(c, sized, diag));
    if (c->buckets) HYP_TRY(hyp_buckets_fit(c, diag));
    const hyp_shape *s = c->current;
    for (size_t i = 0; i < e->inputs.count; i++) {
        hyp_tensor t = inputs[c->input_order[i]];
        if (t.memory == HYP_MEMORY_CONTEXT) t.memory = HYP_MEMORY_HOST; /* what a run gave */
        HYP_TRY(hyp_match_data(&e->inputs, &e->inputs.items[i], &t, hyp_input_bytes(c, i), e->backend, diag));
        c->inputs[i] = t.data;
        c->input_memory[i] = t.memory;
        if (c->buckets) HYP_TRY(hyp_buckets_take_input(c, i, diag));
    }
    HYP_TRY(hyp_take_outputs(c, outputs, diag));
    HYP_TRY(hyp_variables_bind(c, use, diag));
    if (c->root == c && c->loops) c->work_left = c->options.work_limit - hyp_run_work(e->plan.program, s->values);
    const atomic_bool *cancelled = &c->root->cancelled;
    bool committed = false;
    const hyp_bindings bindings = {.inputs = c->inputs,
                                   .input_memory = c->input_memory,
                                   .outputs = c->outputs,
                                   .output_memory = c->output_memory,
                                   .step_seconds = step_seconds,
                                   .options = &c->options,
                                   .cancelled = cancelled,
                                   .run = how,
                                   .no_capture = e->variables.count > 0,
                                   .pads = c->buckets ? c->buckets->pads : NULL,
                                   .commit = e->commit,
                                   .leaves_commit = use == HYP_VARIABLES_KEPT,
                                   .committed = &committed,
                                   .loops = c->loops,
                                   .within = c->root != c};
    if (atomic_load_explicit(cancelled, memory_order_relaxed))
        return hyp_fail(diag, HYP_ERR_CANCELLED, "the run was cancelled before it began: hyp_context_cancel");
    hyp_status status = e->backend->run(c->session, s->prepared, &bindings, diag);
    if (status == HYP_OK) status = hyp_give_outputs(c, outputs, diag);
    if (status == HYP_OK || committed) hyp_variables_queued(c, use);
    return status;
}

hyp_status hyp_run_tensors(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                           size_t output_count, const hyp_run_options *how, double *step_seconds, hyp_diag *diag)
{
    hyp_mem_account *before = enter(c); /* shapes may be prepared, and a device's first run may want memory */
    hyp_status status = run_charged(c, inputs, input_count, outputs, output_count, how, step_seconds, diag);
    hyp_variables_leave(c);
    if (atomic_load_explicit(&c->cancelled, memory_order_relaxed)) atomic_store(&c->cancelled, false);
    return leave(c, before, status, diag);
}

void hyp_context_cancel(hyp_context *c)
{
    if (c) atomic_store(&c->cancelled, true);
}

hyp_status hyp_context_run(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                           size_t output_count, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_run", diag));
    return hyp_run_tensors(c, inputs, input_count, outputs, output_count, NULL, NULL, diag);
}

hyp_status hyp_context_time_steps(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                                  size_t output_count, double *seconds, size_t step_count, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_time_steps", diag));
    size_t steps = hyp_engine_step_count(c->engine);
    if (!seconds || step_count != steps)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "hyp_context_time_steps: room for %zu steps, the plan has %zu",
                        seconds ? step_count : 0, steps);
    memset(seconds, 0, steps * sizeof *seconds);
    return hyp_run_tensors(c, inputs, input_count, outputs, output_count, NULL, seconds, diag);
}

hyp_status hyp_context_synchronize(hyp_context *c, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_synchronize", diag));
    HYP_TRY(hyp_variables_settle(c, diag));
    return c->engine->backend->synchronize(c->session, diag);
}

/* ---- tuning -------------------------------------------------------------------------------------------- */

static hyp_status want_tuning(const hyp_context *c, const char *call, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, call, diag));
    if (tuning_of(c)) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "%s: there is nothing to tune on %s", call,
                    hyp_engine_device_name(c->engine));
}

hyp_status hyp_context_tune(hyp_context *c, const hyp_tensor *inputs, size_t count, const hyp_tune_options *given,
                            hyp_tune_report *out, hyp_diag *diag)
{
    HYP_TRY(want_tuning(c, "hyp_context_tune", diag));
    const hyp_engine *e = c->engine;
    if (e->grouped)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "hyp_context_tune: what is found here the other processes of the group would not know; tune the plan "
                        "in an engine without options.group, save it, and load that in all of them");
    hyp_tune_options options = {.size = sizeof options};
    HYP_TRY(hyp_sized_take(&options, given, hyp_tune_options, diag));
    if (out) HYP_TRY(hyp_sized_want(out, hyp_tune_report, diag));
    if (!(options.seconds >= 0))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "options->seconds is %g: it must be 0 or more",
                        options.seconds);
    if (options.seconds == 0) options.seconds = 60;
    HYP_TRY(hyp_match_tensors(&e->inputs, inputs, count, c->input_order, diag));
    if (c->buckets) HYP_TRY(hyp_buckets_round(c, &inputs, diag));
    HYP_TRY(hyp_context_evaluate(c, inputs, diag));
    HYP_TRY(hyp_plan_check_bounds(e->plan.program, c->values, diag));
    HYP_TRY(hyp_want_work(e->plan.program, c->values, c->options.work_limit, diag));
    hyp_tune_report report;
    hyp_mem_account *before = enter(c);
    hyp_status status = take_shared(c, diag);
    forget_shapes(c);
    if (status == HYP_OK) status = take_weights(c, diag);
    if (status == HYP_OK) status = e->backend->tune(c->session, c->values, &options, &report, diag);
    status = leave(c, before, status, diag);
    if (status == HYP_OK && out) hyp_sized_give(out, &report);
    return status;
}

const char *hyp_context_tuning_device(const hyp_context *c)
{
    const hyp_tuning *t = c ? tuning_of(c) : NULL;
    return t ? t->device : NULL;
}

size_t hyp_context_tuned_count(const hyp_context *c)
{
    const hyp_tuning *t = c ? tuning_of(c) : NULL;
    return t ? t->products.len : 0;
}

bool hyp_context_read_tuned(const hyp_context *c, size_t i, hyp_tuned *out)
{
    const hyp_tuning *t = c ? tuning_of(c) : NULL;
    hyp_tuned tuned = t ? hyp_tuning_get(t, i) : (hyp_tuned){0};
    return out && hyp_sized_give(out, &tuned) && tuned.product;
}

static hyp_status prepare_again(hyp_context *c, hyp_shape *s, hyp_diag *diag)
{
    void *prepared;
    HYP_TRY(c->engine->backend->prepare(c->session, s->values, &prepared, diag));
    c->engine->backend->release(c->session, s->prepared);
    s->prepared = prepared;
    return reserve(c, s, diag);
}

hyp_status hyp_context_share_tuning(hyp_context *c, hyp_diag *diag)
{
    HYP_TRY(want_tuning(c, "hyp_context_share_tuning", diag));
    hyp_mem_account *before = hyp_mem_charge(c->engine->charged); /* where it stays */
    return leave(c, before, hyp_tuning_give(tuning_of(c), &c->engine->shared, diag), diag);
}

hyp_status hyp_context_adopt_tuning(hyp_context *c, bool *out_new, hyp_diag *diag)
{
    HYP_TRY(want_tuning(c, "hyp_context_adopt_tuning", diag));
    hyp_mem_account *before = enter(c);
    hyp_status status = take_shared(c, diag);
    for (size_t i = 0; status == HYP_OK && i < c->shapes.len && c->behind; i++)
        status = prepare_again(c, c->shapes.data[i], diag);
    HYP_TRY(leave(c, before, status, diag));
    if (out_new) *out_new = c->behind;
    c->behind = false;
    return HYP_OK;
}

hyp_status hyp_context_add_tuned(hyp_context *c, const hyp_tuned *tuned, hyp_diag *diag)
{
    HYP_TRY(want_tuning(c, "hyp_context_add_tuned", diag));
    HYP_NEED(tuned);
    hyp_tuned known = {.size = sizeof known};
    HYP_TRY(hyp_sized_take(&known, tuned, hyp_tuned, diag));
    hyp_mem_account *before = enter(c);
    forget_shapes(c);
    return leave(c, before, hyp_tuning_add(tuning_of(c), &known, diag), diag);
}

hyp_status hyp_context_save_plan(const hyp_context *c, const char *path, hyp_diag *diag)
{
    HYP_TRY(want_tuning(c, "hyp_context_save_plan", diag));
    HYP_NEED(path);
    return hyp_tuning_save(tuning_of(c), &c->engine->plan, path, diag);
}
