#include <string.h>

#include "base/mem.h"
#include "base/sized.h"
#include "runtime/core/engine.h"

enum { REMEMBERED = 16 }; /* sets of dims, as runtime.h promises */

/* Everything that follows from one set of input dims. One allocation; `key` lies at its end. */
typedef struct shape {
    void *prepared;    /* the backend's; NULL only while the shape is being made */
    uint64_t last_use; /* by hyp_context.clock */
    int64_t *key;      /* for each input: rank, then HYP_MAX_RANK dims as the caller gives them, 0 beyond the rank */
    int64_t *values;   /* the plan's dims, evaluated; valid as long as `prepared` */
    size_t *input_bytes, *output_bytes;
    int64_t *output_dims; /* for each output HYP_MAX_RANK entries */
} shape;

enum { KEY = 1 + HYP_MAX_RANK };

struct hyp_context {
    hyp_engine *engine;
    void *session; /* the backend's */
    shape *shapes[REMEMBERED];
    size_t shape_count;
    shape *current; /* the one last used; NULL before the first */
    uint64_t clock;
    const hyp_shared_list *seen; /* of the engine's tuning, what was taken last */
    double work_limit;           /* of the options */
    hyp_mem_account account;     /* of what it has of memory, but for this struct */
    bool behind;                 /* there are shapes that were prepared before more was known */
    /* Work space of one call, by plan order of inputs or outputs; in arena. */
    uint32_t *input_order, *output_order;
    int64_t (*dims)[HYP_MAX_RANK];
    const int64_t **dim_rows; /* dim_rows[i] == dims[i] */
    int32_t *ranks;           /* as declared */
    int64_t *symbols, *values;
    int64_t
        *typical; /* the plan's dims under the sizes that its predictions are for; NULL: not asked for, or not known */
    void **inputs, **outputs;
    hyp_memory *input_memory, *output_memory;
    hyp_arena arena;
};

/* ---- memory ---------------------------------------------------------------------------------------------- */

/* A call that may take memory: what it takes is charged to the context. Ends with `leave`. */
static hyp_mem_account *enter(hyp_context *c) { return hyp_mem_charge(&c->account); }

static hyp_status leave(const hyp_context *c, hyp_mem_account *before, hyp_status status, hyp_diag *diag)
{
    hyp_mem_charge(before);
    status = hyp_engine_status(c->engine, status, diag);
    return hyp_mem_status(&c->account, status, "the context's options->memory_limit", diag);
}

size_t hyp_context_memory_bytes(const hyp_context *c) { return c ? hyp_mem_used(&c->account) : 0; }

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
    c->input_memory = hyp_arena_zalloc(a, in, sizeof *c->input_memory);
    c->output_memory = hyp_arena_zalloc(a, out, sizeof *c->output_memory);
    if (!c->input_order || !c->output_order || !c->dims || !c->dim_rows || !c->ranks || !c->symbols || !c->values ||
        !c->inputs || !c->outputs || !c->input_memory || !c->output_memory)
        return hyp_fail_memory(diag, (in + out) * sizeof *c->dims + p->n_dims * sizeof *c->values);
    for (size_t i = 0; i < in; i++) {
        c->dim_rows[i] = c->dims[i];
        c->ranks[i] = c->engine->inputs.items[i].info.rank;
    }
    return HYP_OK;
}

hyp_status hyp_context_create(hyp_engine *engine, const hyp_context_options *given, hyp_context **out, hyp_diag *diag)
{
    HYP_NEED(engine);
    HYP_NEED(out);
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
    c->work_limit = options.work_limit;
    c->account = hyp_account_of(options.memory_limit);
    atomic_fetch_add(&engine->holders, 1);
    hyp_mem_account *before = enter(c);
    hyp_status status = make_work_space(c, diag);
    if (status == HYP_OK) status = engine->backend->session_create(engine->model, &options, &c->session, diag);
    if (status == HYP_OK) status = take_shared(c, diag);
    c->behind = false; /* nothing is prepared yet */
    status = leave(c, before, status, diag);
    if (status == HYP_OK)
        *out = c;
    else
        hyp_context_destroy(c);
    return status;
}

static void forget_shape(hyp_context *c, shape *s)
{
    if (s && s->prepared) c->engine->backend->release(c->session, s->prepared);
    hyp_free(s);
}

static void forget_shapes(hyp_context *c)
{
    for (size_t i = 0; i < c->shape_count; i++) forget_shape(c, c->shapes[i]);
    c->shape_count = 0;
    c->current = NULL;
    c->behind = false;
}

void hyp_context_destroy(hyp_context *c)
{
    if (!c) return;
    forget_shapes(c);
    if (c->session) c->engine->backend->session_destroy(c->session);
    hyp_free(c->typical);
    hyp_arena_dispose(&c->arena);
    hyp_engine_release(c->engine);
    hyp_free(c);
}

size_t hyp_context_scratch_bytes(const hyp_context *c) { return c ? c->engine->backend->scratch_bytes(c->session) : 0; }

static hyp_status want_context(const hyp_context *c, const char *call, hyp_diag *diag)
{
    return c ? HYP_OK : hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: context is NULL", call);
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Fills c->symbols and c->values from the dims of the inputs, which are matched in c->input_order. */
static hyp_status evaluate(hyp_context *c, const hyp_tensor *inputs, hyp_diag *diag)
{
    const HypPlan__Program *p = c->engine->plan.program;
    for (size_t i = 0; i < p->n_inputs; i++)
        HYP_TRY(hyp_match_dims(&c->engine->inputs.items[i], &inputs[c->input_order[i]], c->dims[i], diag));
    HYP_TRY(hyp_plan_bind_symbols(p, c->dim_rows, c->ranks, c->symbols, diag));
    return hyp_plan_eval_dims(p, c->symbols, c->values, diag);
}

static hyp_status tensor_bytes(const HypPlan__Program *p, const hyp_io *io, const int64_t *values, size_t *out,
                               hyp_diag *diag)
{
    int64_t elements;
    HYP_TRY(hyp_plan_elements(p, io->tensor, values, &elements, diag));
    *out = (size_t)elements * io->element_bytes;
    return HYP_OK;
}

static void output_dims(const HypPlan__Program *p, const hyp_io *io, const int64_t *values, int64_t *dims)
{
    for (int32_t a = 0; a < io->info.rank; a++) dims[a] = values[p->tensors[io->tensor]->dims[a]];
}

static bool key_matches(const hyp_context *c, const shape *s, const hyp_tensor *inputs)
{
    const int64_t *key = s->key;
    for (size_t i = 0; i < c->engine->inputs.count; i++, key += KEY) {
        const hyp_tensor *t = &inputs[c->input_order[i]];
        if (key[0] != t->rank) return false; /* a remembered rank is valid, so the loop below is bounded */
        for (int32_t a = 0; a < t->rank; a++)
            if (key[1 + a] != t->dims[a]) return false;
    }
    return true;
}

/* Makes a shape from c->values. */
static hyp_status make_shape(hyp_context *c, const hyp_tensor *inputs, shape **out, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    const HypPlan__Program *p = e->plan.program;
    size_t in = p->n_inputs, outs = p->n_outputs;
    size_t words = in * (KEY + 1) + outs * (1 + HYP_MAX_RANK) + p->n_dims;
    shape *s = hyp_calloc(1, sizeof *s + words * sizeof(int64_t));
    if (!s) return hyp_fail_memory(diag, sizeof *s + words * sizeof(int64_t));
    _Static_assert(sizeof(size_t) == sizeof(int64_t) && sizeof *s % sizeof(int64_t) == 0, "one array of words");
    s->key = (int64_t *)(s + 1);
    s->values = s->key + in * KEY;
    s->output_dims = s->values + p->n_dims;
    s->input_bytes = (size_t *)(s->output_dims + outs * HYP_MAX_RANK);
    s->output_bytes = s->input_bytes + in;
    for (size_t i = 0; i < in; i++) {
        const hyp_tensor *t = &inputs[c->input_order[i]];
        s->key[i * KEY] = t->rank;
        memcpy(s->key + i * KEY + 1, t->dims, (size_t)t->rank * sizeof *t->dims);
    }
    if (p->n_dims) memcpy(s->values, c->values, p->n_dims * sizeof *s->values);
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < in && status == HYP_OK; i++)
        status = tensor_bytes(p, &e->inputs.items[i], s->values, &s->input_bytes[i], diag);
    for (size_t i = 0; i < outs && status == HYP_OK; i++) {
        output_dims(p, &e->outputs.items[i], s->values, s->output_dims + i * HYP_MAX_RANK);
        status = tensor_bytes(p, &e->outputs.items[i], s->values, &s->output_bytes[i], diag);
    }
    if (status == HYP_OK) status = hyp_plan_check_bounds(p, s->values, diag);
    if (status == HYP_OK) status = hyp_want_work(p, s->values, c->work_limit, diag);
    if (status == HYP_OK) status = take_shared(c, diag);
    if (status == HYP_OK) status = e->backend->prepare(c->session, s->values, &s->prepared, diag);
    if (status == HYP_OK)
        *out = s;
    else
        forget_shape(c, s);
    return status;
}

/* The slot for one more shape; frees the one that was not used for longest when all are taken. */
static shape **free_slot(hyp_context *c)
{
    if (c->shape_count < REMEMBERED) return &c->shapes[c->shape_count++];
    size_t oldest = 0;
    for (size_t i = 1; i < REMEMBERED; i++)
        if (c->shapes[i]->last_use < c->shapes[oldest]->last_use) oldest = i;
    forget_shape(c, c->shapes[oldest]);
    return &c->shapes[oldest];
}

/* Sets c->current to the shape of these inputs, which are matched in c->input_order. */
static hyp_status find_shape(hyp_context *c, const hyp_tensor *inputs, hyp_diag *diag)
{
    if (c->current && key_matches(c, c->current, inputs)) return HYP_OK;
    shape *found = NULL;
    for (size_t i = 0; i < c->shape_count && !found; i++)
        if (key_matches(c, c->shapes[i], inputs)) found = c->shapes[i];
    if (!found) {
        HYP_TRY(evaluate(c, inputs, diag));
        HYP_TRY(make_shape(c, inputs, &found, diag));
        *free_slot(c) = found;
    }
    found->last_use = ++c->clock;
    c->current = found;
    return HYP_OK;
}

hyp_status hyp_context_reserve(hyp_context *c, const hyp_tensor *inputs, size_t count, hyp_diag *diag)
{
    HYP_TRY(want_context(c, "hyp_context_reserve", diag));
    HYP_TRY(hyp_match_tensors(&c->engine->inputs, inputs, count, c->input_order, diag));
    hyp_mem_account *before = enter(c);
    return leave(c, before, find_shape(c, inputs, diag), diag);
}

hyp_status hyp_context_output_shapes(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                                     size_t output_count, hyp_diag *diag)
{
    HYP_TRY(want_context(c, "hyp_context_output_shapes", diag));
    const hyp_engine *e = c->engine;
    HYP_TRY(hyp_match_tensors(&e->inputs, inputs, input_count, c->input_order, diag));
    HYP_TRY(hyp_match_tensors(&e->outputs, outputs, output_count, c->output_order, diag));
    HYP_TRY(evaluate(c, inputs, diag));
    for (size_t i = 0; i < e->outputs.count; i++) {
        hyp_tensor *t = &outputs[c->output_order[i]];
        t->rank = e->outputs.items[i].info.rank;
        output_dims(e->plan.program, &e->outputs.items[i], c->values, t->dims);
    }
    return HYP_OK;
}

/* ---- running ------------------------------------------------------------------------------------------- */

static hyp_status run_charged(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                              size_t output_count, double *step_seconds, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    HYP_TRY(hyp_match_tensors(&e->inputs, inputs, input_count, c->input_order, diag));
    HYP_TRY(hyp_match_tensors(&e->outputs, outputs, output_count, c->output_order, diag));
    HYP_TRY(find_shape(c, inputs, diag));
    const shape *s = c->current;
    for (size_t i = 0; i < e->inputs.count; i++) {
        const hyp_tensor *t = &inputs[c->input_order[i]];
        HYP_TRY(hyp_match_data(&e->inputs, &e->inputs.items[i], t, s->input_bytes[i], e->backend, diag));
        c->inputs[i] = t->data;
        c->input_memory[i] = t->memory;
    }
    for (size_t i = 0; i < e->outputs.count; i++) {
        hyp_tensor *t = &outputs[c->output_order[i]];
        HYP_TRY(hyp_match_data(&e->outputs, &e->outputs.items[i], t, s->output_bytes[i], e->backend, diag));
        c->outputs[i] = t->data;
        c->output_memory[i] = t->memory;
    }
    hyp_bindings bindings = {c->inputs, c->input_memory, c->outputs, c->output_memory, step_seconds};
    HYP_TRY(e->backend->run(c->session, s->prepared, &bindings, diag));
    for (size_t i = 0; i < e->outputs.count; i++) {
        hyp_tensor *t = &outputs[c->output_order[i]];
        t->rank = e->outputs.items[i].info.rank;
        memcpy(t->dims, s->output_dims + i * HYP_MAX_RANK, sizeof t->dims);
    }
    return HYP_OK;
}

static hyp_status run(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                      size_t output_count, double *step_seconds, hyp_diag *diag)
{
    hyp_mem_account *before = enter(c); /* shapes may be prepared, and a device's first run may want memory */
    return leave(c, before, run_charged(c, inputs, input_count, outputs, output_count, step_seconds, diag), diag);
}

hyp_status hyp_context_run(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                           size_t output_count, hyp_diag *diag)
{
    HYP_TRY(want_context(c, "hyp_context_run", diag));
    return run(c, inputs, input_count, outputs, output_count, NULL, diag);
}

hyp_status hyp_context_time_steps(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                                  size_t output_count, double *seconds, size_t step_count, hyp_diag *diag)
{
    HYP_TRY(want_context(c, "hyp_context_time_steps", diag));
    size_t steps = hyp_engine_step_count(c->engine);
    if (!seconds || step_count != steps)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "hyp_context_time_steps: room for %zu steps, the plan has %zu",
                        seconds ? step_count : 0, steps);
    memset(seconds, 0, steps * sizeof *seconds);
    return run(c, inputs, input_count, outputs, output_count, seconds, diag);
}

/* The plan's dims under the sizes that its predictions are for; NULL where these are not known. */
static int64_t *typical_values(const HypPlan__Program *p)
{
    int64_t *symbols = hyp_calloc(p->n_symbols + 1, sizeof *symbols), *values = hyp_calloc(p->n_dims + 1, sizeof *values);
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
    HYP_TRY(want_context(c, "hyp_context_step_work", diag));
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

hyp_status hyp_context_synchronize(hyp_context *c, hyp_diag *diag)
{
    HYP_TRY(want_context(c, "hyp_context_synchronize", diag));
    return c->engine->backend->synchronize(c->session, diag);
}

/* ---- tuning -------------------------------------------------------------------------------------------- */

static hyp_status want_tuning(const hyp_context *c, const char *call, hyp_diag *diag)
{
    HYP_TRY(want_context(c, call, diag));
    if (tuning_of(c)) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "%s: there is nothing to tune on %s", call,
                    hyp_engine_device_name(c->engine));
}

hyp_status hyp_context_tune(hyp_context *c, const hyp_tensor *inputs, size_t count, const hyp_tune_options *given,
                            hyp_tune_report *out, hyp_diag *diag)
{
    HYP_TRY(want_tuning(c, "hyp_context_tune", diag));
    const hyp_engine *e = c->engine;
    hyp_tune_options options = {.size = sizeof options};
    HYP_TRY(hyp_sized_take(&options, given, hyp_tune_options, diag));
    if (out) HYP_TRY(hyp_sized_want(out, hyp_tune_report, diag));
    if (!(options.seconds >= 0))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "options->seconds is %g: it must be 0 or more",
                        options.seconds);
    if (options.seconds == 0) options.seconds = 60;
    HYP_TRY(hyp_match_tensors(&e->inputs, inputs, count, c->input_order, diag));
    HYP_TRY(evaluate(c, inputs, diag));
    HYP_TRY(hyp_plan_check_bounds(e->plan.program, c->values, diag));
    HYP_TRY(hyp_want_work(e->plan.program, c->values, c->work_limit, diag));
    hyp_tune_report report;
    hyp_mem_account *before = enter(c);
    hyp_status status = take_shared(c, diag);
    if (status == HYP_OK) {
        forget_shapes(c);
        status = e->backend->tune(c->session, c->values, &options, &report, diag);
    }
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

static hyp_status prepare_again(hyp_context *c, shape *s, hyp_diag *diag)
{
    void *prepared;
    HYP_TRY(c->engine->backend->prepare(c->session, s->values, &prepared, diag));
    c->engine->backend->release(c->session, s->prepared);
    s->prepared = prepared;
    return HYP_OK;
}

hyp_status hyp_context_share_tuning(hyp_context *c, hyp_diag *diag)
{
    HYP_TRY(want_tuning(c, "hyp_context_share_tuning", diag));
    hyp_mem_account *before = hyp_mem_charge(&c->engine->account); /* where it stays */
    return leave(c, before, hyp_tuning_give(tuning_of(c), &c->engine->shared, diag), diag);
}

hyp_status hyp_context_adopt_tuning(hyp_context *c, bool *out_new, hyp_diag *diag)
{
    HYP_TRY(want_tuning(c, "hyp_context_adopt_tuning", diag));
    hyp_mem_account *before = enter(c);
    hyp_status status = take_shared(c, diag);
    for (size_t i = 0; status == HYP_OK && i < c->shape_count && c->behind; i++)
        status = prepare_again(c, c->shapes[i], diag);
    HYP_TRY(leave(c, before, status, diag));
    if (out_new) *out_new = c->behind;
    c->behind = false;
    return HYP_OK;
}

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
