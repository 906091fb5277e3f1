#include "runtime/core/engine.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sized.h"
#include "runtime/core/custom.h"
#include "runtime/core/dim_text.h"
#include "runtime/core/loop.h"

/* ---- inputs and outputs -------------------------------------------------------------------------------- */

hyp_status hyp_engine_describe_io(hyp_engine *e, const HypPlan__Program *p, uint32_t tensor, hyp_io *out,
                                  hyp_diag *diag)
{
    const HypPlan__Tensor *t = p->tensors[tensor];
    hyp_io io = {.tensor = tensor, .element_bytes = hyp_dtype_size((hyp_dtype)t->dtype)};
    io.info.size = sizeof io.info;
    io.info.name = t->name;
    io.info.dtype = (hyp_dtype)t->dtype;
    io.info.rank = (int32_t)t->n_dims;
    hyp_strbuf sb = {0};
    bool ok = true;
    for (size_t a = 0; a < t->n_dims; a++) {
        const HypPlan__Dim *d = p->dims[t->dims[a]];
        io.info.dims[a] = d->kind == HYP_PLAN__DIM__KIND__CONST ? d->value : -1;
        if (io.info.dims[a] >= 0) continue;
        sb.len = 0;
        hyp_dim_text(&sb, p, t->dims[a]);
        io.info.symbols[a] = hyp_arena_strdup(&e->arena, hyp_strbuf_text(&sb));
        ok = ok && io.info.symbols[a];
    }
    sb.len = 0;
    hyp_strbuf_printf(&sb, "'%s' %s ", t->name, hyp_dtype_name(io.info.dtype));
    hyp_dims_text(&sb, p, t->dims, t->n_dims);
    io.text = hyp_arena_strdup(&e->arena, hyp_strbuf_text(&sb));
    ok = ok && io.text && !sb.failed;
    hyp_strbuf_dispose(&sb);
    if (!ok) return hyp_fail_memory(diag, sizeof io);
    *out = io;
    return HYP_OK;
}

static const HypPlan__DataSize *data_size_of(const HypPlan__Program *p, size_t output)
{
    for (size_t i = 0; i < p->n_data_sizes; i++)
        if (p->data_sizes[i]->output == output) return p->data_sizes[i];
    return NULL;
}

/* What only the data say of outputs: a size without a number, called as the count is. */
static void open_data_sizes(hyp_engine *e)
{
    const HypPlan__Program *p = e->plan.program;
    for (size_t i = 0; i < e->outputs.count; i++) {
        hyp_io *io = &e->outputs.items[i];
        io->size = data_size_of(p, i);
        if (!io->size) continue;
        io->info.dims[io->size->axis] = -1;
        io->info.symbols[io->size->axis] = p->tensors[p->outputs[io->size->count]]->name;
    }
}

static hyp_status describe_list(hyp_engine *e, const char *what, const uint32_t *tensors, size_t count,
                                hyp_io_list *out, hyp_diag *diag)
{
    hyp_io_list list = {.what = what, .count = count, .program = e->plan.program};
    list.items = hyp_arena_zalloc(&e->arena, count, sizeof *list.items);
    list.names = hyp_arena_zalloc(&e->arena, count + 1, sizeof *list.names);
    if (!list.items || !list.names) return hyp_fail_memory(diag, count * sizeof *list.items);
    for (size_t i = 0; i < count; i++) {
        HYP_TRY(hyp_engine_describe_io(e, e->plan.program, tensors[i], &list.items[i], diag));
        list.names[i] = list.items[i].info.name;
    }
    *out = list;
    return HYP_OK;
}

static hyp_status describe_lists(hyp_engine *e, hyp_diag *diag)
{
    const HypPlan__Program *p = e->plan.program;
    size_t inputs = hyp_plan_shown_inputs(p);
    HYP_TRY(describe_list(e, "input", p->inputs, inputs, &e->inputs, diag));
    HYP_TRY(describe_list(e, "variable", hyp_plan_variable_inputs(p), p->n_variables, &e->variables, diag));
    HYP_TRY(hyp_plan_find_commit(p, &e->commit, diag));
    e->in_place = hyp_plan_has_in_place(p);
    HYP_TRY(describe_list(e, "output", p->outputs, hyp_plan_shown_outputs(p), &e->outputs, diag));
    open_data_sizes(e);
    return HYP_OK;
}

/* ---- devices ------------------------------------------------------------------------------------------- */

hyp_status hyp_engine_status(const hyp_engine *engine, hyp_status status, hyp_diag *diag)
{
    return hyp_mem_status(engine->charged, status, "the engine's options->memory_limit", diag);
}

/* Opens the backend's device and loads the plan on it; leaves the engine as it was on failure. *out_unfit: the device is not
 * there, or cannot run such a plan, so that another one is to. */
static hyp_status take_backend(hyp_engine *e, const hyp_backend *backend, const hyp_engine_options *options,
                               const hyp_log *log, bool *out_unfit, hyp_diag *diag)
{
    void *device, *model;
    const char *name;
    hyp_edition *first = atomic_load(&e->newest);
    hyp_status status = backend->open(options, log, &device, &name, diag);
    *out_unfit = status == HYP_ERR_DEVICE;
    if (status != HYP_OK) return status;
    status = hyp_engine_status(e, backend->load(device, &first->plan, &model, diag), diag);
    *out_unfit = status == HYP_ERR_UNSUPPORTED;
    if (status != HYP_OK) {
        backend->close(device);
        return status;
    }
    e->backend = backend;
    e->device = device;
    first->model = model;
    e->device_name = name;
    return HYP_OK;
}

static hyp_status choose_backend(hyp_engine *e, const hyp_backend *const *backends, const hyp_engine_options *options,
                                 hyp_diag *diag)
{
    hyp_log log = {options->log, options->log_user};
    hyp_status status = HYP_ERR_DEVICE;
    hyp_diag why = {0};
    bool unfit;
    if (options->device == HYP_DEVICE_AUTO) {
        for (int kind = HYP_DEVICE_CPU; kind <= HYP_DEVICE_REFERENCE; kind++)
            if (hyp_backend_left_out((hyp_device_kind)kind))
                hyp_log_printf(&log, "device: this build has no %s", hyp_backend_left_out((hyp_device_kind)kind));
        for (size_t i = 0; backends[i] && status != HYP_OK; i++) {
            status = take_backend(e, backends[i], options, &log, &unfit, &why);
            if (status != HYP_OK && !unfit)
                return hyp_fail(diag, status, "%s can be used, but failed: %s. Choose a device, if it is to be another",
                                backends[i]->name, why.message);
            if (status != HYP_OK)
                hyp_log_printf(&log, "device: not %s, because %s", backends[i]->name, why.message);
        }
        if (status != HYP_OK) return hyp_fail(diag, status, "no device can run the plan: %s", why.message);
        hyp_log_printf(&log, "device: %s, the first that can run the plan", e->device_name);
        return HYP_OK;
    }
    for (size_t i = 0; backends[i]; i++) {
        if (backends[i]->kind != options->device) continue;
        HYP_TRY(take_backend(e, backends[i], options, &log, &unfit, diag));
        hyp_log_printf(&log, "device: %s, as asked for", e->device_name);
        return HYP_OK;
    }
    const char *left_out = hyp_backend_left_out(options->device);
    if (left_out) return hyp_fail(diag, HYP_ERR_DEVICE, "this build of Hypatia has no %s, or choose the cpu", left_out);
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%d is no device kind", (int)options->device);
}

/* ---- loading ------------------------------------------------------------------------------------------- */

/* A group is of one device: AUTO is that, another one would leave the other processes waiting. */
static hyp_status read_group(hyp_engine_options *options, hyp_diag *diag)
{
    const hyp_group *g = options->group;
    if (options->device == HYP_DEVICE_AUTO) options->device = g->backend->kind;
    if (options->device == g->backend->kind && options->device_index == g->device_index) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                    "the process has joined options->group with GPU %d of %s: the engine has to be on that one",
                    (int)g->device_index, g->backend->name);
}

hyp_status hyp_engine_read_options(const hyp_engine_options *given, hyp_engine_options *out, hyp_diag *diag)
{
    *out = (hyp_engine_options){.size = sizeof *out};
    HYP_TRY(hyp_sized_take(out, given, hyp_engine_options, diag));
    if (out->threads < 0 || out->device_index < 0)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "options->%s is %d: it must be 0 or more",
                        out->threads < 0 ? "threads" : "device_index",
                        (int)(out->threads < 0 ? out->threads : out->device_index));
    if (out->checks != HYP_CHECKS_STRICT && out->checks != HYP_CHECKS_OFF)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "options->checks is %d: wanted HYP_CHECKS_STRICT or HYP_CHECKS_OFF", (int)out->checks);
    return out->group ? read_group(out, diag) : HYP_OK;
}

hyp_status hyp_engine_read_allocator(hyp_engine_options *options, hyp_allocator *out, hyp_diag *diag)
{
    *out = (hyp_allocator){.size = sizeof *out};
    if (!options->allocator) return HYP_OK;
    HYP_TRY(hyp_sized_take(out, options->allocator, hyp_allocator, diag));
    if (!out->alloc != !out->free || !out->device_alloc != !out->device_free)
        return hyp_fail(
            diag, HYP_ERR_INVALID_ARGUMENT,
            "options->allocator has a function that gives memory without the one that takes it back, or the "
            "other way round: set both or none");
    options->allocator = out;
    return HYP_OK;
}

/* Exactly one of path and data is given. `around` may be NULL. */
static hyp_status load(const hyp_backend *const *backends, hyp_engine *around, const char *path, const void *data,
                       size_t size, const hyp_engine_options *given, hyp_engine **out, hyp_diag *diag)
{
    hyp_engine_options options;
    hyp_allocator allocator;
    HYP_TRY(hyp_engine_read_options(given, &options, diag));
    HYP_TRY(hyp_engine_read_allocator(&options, &allocator, diag));
    hyp_engine *e = hyp_calloc(1, sizeof *e);
    if (!e) return hyp_fail_memory(diag, sizeof *e);
    atomic_init(&e->holders, 1);
    if (pthread_mutex_init(&e->taking, NULL) != 0 || pthread_mutex_init(&e->updating, NULL) != 0) {
        hyp_free(e);
        return hyp_fail_memory(diag, sizeof e->taking);
    }
    if (options.allocator) e->source = (hyp_mem_source){allocator.alloc, allocator.free, allocator.user};
    e->account = hyp_account_of(&e->source, options.memory_limit);
    e->charged = around ? around->charged : &e->account;
    e->depth = around ? around->depth + 1 : 0;
    e->root = around ? around->root : e;
    e->grouped = options.group != NULL;
    hyp_mem_account *before = hyp_mem_charge(e->charged);
    hyp_plan_open_options open = {.header_only = options.checks == HYP_CHECKS_OFF, .signer = options.require_signature};
    hyp_status status = path ? hyp_plan_open_file(path, &open, &e->plan, diag)
                             : hyp_plan_open_memory(data, size, "plan in memory", &open, &e->plan, diag);
    if (status == HYP_OK) status = describe_lists(e, diag);
    if (status == HYP_OK) status = hyp_custom_find(&e->plan, &options, &e->arena, diag);
    if (status == HYP_OK) status = hyp_engine_list_weights(e, diag);
    hyp_edition *first = NULL;
    if (status == HYP_OK) status = hyp_edition_create(e, &first, diag);
    atomic_store(&e->newest, first);
    if (status == HYP_OK) status = choose_backend(e, backends, &options, diag);
    if (status == HYP_OK) status = hyp_loops_load(e, &options, diag);
    status = hyp_engine_status(e, status, diag);
    hyp_mem_charge(before);
    if (status != HYP_OK) {
        hyp_engine_destroy(e);
        return status;
    }
    if (data) e->release = options.release, e->release_user = options.release_user;
    *out = e;
    return HYP_OK;
}

size_t hyp_engine_bound(const hyp_plan *plan, const hyp_backend *backend)
{
    enum { STEP = 4096, HEAD = 256 * 1024 }; /* what is noted of a step, and of a plan and a device */
    return (backend->load_bound ? backend->load_bound(plan) : 0) + HEAD + plan->program->n_steps * STEP;
}

hyp_status hyp_plan_memory_needed(const char *path, const hyp_engine_options *given, size_t *out_bytes, hyp_diag *diag)
{
    hyp_engine_options options;
    HYP_NEED(path);
    HYP_NEED(out_bytes);
    HYP_TRY(hyp_engine_read_options(given, &options, diag));
    const hyp_plan_open_options open = {.header_only = options.checks == HYP_CHECKS_OFF, .signer = options.require_signature};
    hyp_mem_account account = {.most = SIZE_MAX}, *before = hyp_mem_charge(&account);
    hyp_plan plan;
    size_t most = 0;
    hyp_status status = hyp_plan_open_file(path, &open, &plan, diag);
    if (status == HYP_OK) {
        for (size_t i = 0; hyp_backends[i] && status == HYP_OK; i++) {
            if (options.device != HYP_DEVICE_AUTO && options.device != hyp_backends[i]->kind) continue;
            size_t bytes = hyp_engine_bound(&plan, hyp_backends[i]);
            size_t bodies = 0;
            status = hyp_loops_bound(&plan, hyp_backends[i], 0, &bodies, &bytes, diag);
            if (bytes > most) most = bytes;
        }
        if (status == HYP_OK) *out_bytes = hyp_mem_used(&account) + most;
        hyp_plan_close(&plan);
    }
    hyp_mem_charge(before);
    return status;
}

hyp_status hyp_engine_load_file(const char *path, const hyp_engine_options *options, hyp_engine **out, hyp_diag *diag)
{
    HYP_NEED(path);
    HYP_NEED(out);
    return load(hyp_backends, NULL, path, NULL, 0, options, out, diag);
}

hyp_status hyp_engine_load_memory(const void *data, size_t size, const hyp_engine_options *options, hyp_engine **out,
                                  hyp_diag *diag)
{
    HYP_NEED(data);
    HYP_NEED(out);
    return load(hyp_backends, NULL, NULL, data, size, options, out, diag);
}

hyp_status hyp_engine_load_on(const hyp_backend *backend, const char *path, const hyp_engine_options *options,
                              hyp_engine **out, hyp_diag *diag)
{
    const hyp_backend *const only[] = {backend, NULL};
    return load(only, NULL, path, NULL, 0, options, out, diag);
}

hyp_status hyp_engine_load_within(hyp_engine *around, const void *data, size_t size, const hyp_engine_options *options,
                                  hyp_engine **out, hyp_diag *diag)
{
    const hyp_backend *const only[] = {around->backend, NULL};
    hyp_engine_options own = *options;
    own.device = around->backend->kind;
    own.log = NULL; /* what there is to tell of the device is told of the engine around */
    own.memory_limit = 0;
    own.release = NULL;
    own.group = NULL;
    own.require_signature = NULL; /* that of the plan around it covers it */
    return load(only, around, NULL, data, size, &own, out, diag);
}

void hyp_engine_destroy(hyp_engine *e)
{
    if (e && !atomic_exchange(&e->destroyed, true)) hyp_engine_release(e);
}

void hyp_engine_release(hyp_engine *e)
{
    if (atomic_fetch_sub(&e->holders, 1) > 1) return;
    hyp_loops_unload(e);
    hyp_edition_release(e, atomic_load(&e->newest));
    if (e->backend) e->backend->close(e->device);
    pthread_mutex_destroy(&e->taking);
    pthread_mutex_destroy(&e->updating);
    hyp_shared_tuning_dispose(&e->shared);
    hyp_arena_dispose(&e->arena);
    hyp_plan_close(&e->plan);
    if (e->release) e->release(e->release_user);
    hyp_free(e);
}

/* ---- questions ----------------------------------------------------------------------------------------- */

size_t hyp_engine_input_count(const hyp_engine *engine) { return engine ? engine->inputs.count : 0; }
size_t hyp_engine_output_count(const hyp_engine *engine) { return engine ? engine->outputs.count : 0; }

const hyp_io_info *hyp_engine_input(const hyp_engine *engine, size_t i)
{
    return engine && i < engine->inputs.count ? &engine->inputs.items[i].info : NULL;
}

const hyp_io_info *hyp_engine_output(const hyp_engine *engine, size_t i)
{
    return engine && i < engine->outputs.count ? &engine->outputs.items[i].info : NULL;
}

hyp_device_kind hyp_engine_device(const hyp_engine *engine) { return engine ? engine->backend->kind : HYP_DEVICE_AUTO; }
const char *hyp_engine_classes(const hyp_engine *engine) { return engine ? engine->plan.program->classes : ""; }
const char *hyp_engine_precision(const hyp_engine *engine) { return engine ? engine->plan.program->precision : ""; }

const unsigned char *hyp_engine_signer(const hyp_engine *engine) { return engine ? engine->plan.signer : NULL; }
const char *hyp_engine_device_name(const hyp_engine *engine) { return engine ? engine->device_name : ""; }

size_t hyp_engine_memory_bytes(const hyp_engine *engine) { return engine ? hyp_mem_used(engine->charged) : 0; }

size_t hyp_engine_step_count(const hyp_engine *engine) { return engine ? engine->plan.program->n_steps : 0; }

bool hyp_engine_read_step(const hyp_engine *engine, size_t i, hyp_step_info *out)
{
    hyp_step_info info = {0};
    bool there = i < hyp_engine_step_count(engine);
    if (there) {
        const HypPlan__Step *step = engine->plan.program->steps[i];
        info = (hyp_step_info){sizeof info, step->label, hyp_plan_kernel_name(step), step->predicted_seconds};
    }
    return out && hyp_sized_give(out, &info) && there;
}

int64_t hyp_engine_typical_size(const hyp_engine *engine, const char *symbol)
{
    if (!engine || !symbol) return 0;
    const HypPlan__Program *p = engine->plan.program;
    for (size_t i = 0; i < p->n_typical_sizes; i++)
        if (strcmp(p->symbols[i], symbol) == 0) return (int64_t)p->typical_sizes[i];
    return 0;
}

double hyp_engine_predicted_seconds(const hyp_engine *engine)
{
    return engine ? hyp_plan_predicted(engine->plan.program) : 0;
}

hyp_status hyp_engine_find_symbol(const hyp_engine *engine, const char *name, hyp_diag *diag)
{
    HYP_NEED(engine);
    HYP_NEED(name);
    const HypPlan__Program *p = engine->plan.program;
    const char **names = hyp_calloc(p->n_symbols + p->n_equalities + 1, sizeof *names);
    size_t count = 0;
    if (!names) return hyp_fail_memory(diag, (p->n_symbols + p->n_equalities) * sizeof *names);
    for (size_t s = 0; s < p->n_symbols; s++) names[count++] = p->symbols[s];
    for (size_t e = 0; e < p->n_equalities; e++) names[count++] = p->equalities[e]->symbol;
    bool found = false;
    for (size_t i = 0; i < count; i++) found = found || strcmp(names[i], name) == 0;
    const char *near = hyp_nearest(name, names);
    if (!near && count) near = names[0];
    hyp_free(names);
    if (found) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the plan has no symbolic dim '%s'%s%s%s", name,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Gives a symbol its size by name, or the axes of inputs that the model calls so. */
static void set_size(const HypPlan__Program *p, const hyp_tensor *size, int64_t *const *dims, int64_t *symbols)
{
    for (size_t s = 0; s < p->n_symbols; s++)
        if (strcmp(p->symbols[s], size->name) == 0) symbols[s] = size->dims[0];
    for (size_t e = 0; e < p->n_equalities; e++) {
        const HypPlan__Equality *equality = p->equalities[e];
        for (size_t i = 0; i < p->n_inputs && strcmp(equality->symbol, size->name) == 0; i++) {
            const HypPlan__Tensor *t = p->tensors[p->inputs[i]];
            if (strcmp(t->name, equality->input) != 0 || equality->axis >= t->n_dims) continue;
            if (dims[i][equality->axis] < 0) dims[i][equality->axis] = size->dims[0];
        }
    }
}

static hyp_status copy_dims(hyp_arena *arena, const hyp_io_info *info, int64_t **out, hyp_diag *diag)
{
    *out = hyp_arena_alloc(arena, sizeof info->dims);
    if (*out) memcpy(*out, info->dims, sizeof info->dims);
    return *out ? HYP_OK : hyp_fail_memory(diag, sizeof info->dims);
}

hyp_status hyp_engine_complete_dims(const hyp_engine *engine, hyp_tensor *inputs, size_t count, const hyp_tensor *sizes,
                                    size_t size_count, const char **out_missing, hyp_diag *diag)
{
    HYP_NEED(engine);
    HYP_NEED_LIST(inputs, count);
    HYP_NEED_LIST(sizes, size_count);
    HYP_NEED(out_missing);
    const HypPlan__Program *p = engine->plan.program;
    *out_missing = NULL;
    if (count != engine->inputs.count)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%zu inputs were given, the plan has %zu", count,
                        engine->inputs.count);
    hyp_arena arena = {0};
    int64_t *symbols = hyp_arena_zalloc(&arena, p->n_symbols, sizeof *symbols);
    int64_t **dims = hyp_arena_zalloc(&arena, p->n_inputs, sizeof *dims);
    hyp_status status = symbols && dims ? HYP_OK : hyp_fail_memory(diag, count * sizeof *dims);
    for (size_t s = 0; status == HYP_OK && s < p->n_symbols; s++) symbols[s] = -1;
    for (size_t i = 0; status == HYP_OK && i < count; i++) {
        const HypPlan__Tensor *t = p->tensors[p->inputs[i]];
        dims[i] = inputs[i].dims;
        for (size_t a = 0; a < t->n_dims; a++) {
            const HypPlan__Dim *d = p->dims[t->dims[a]];
            if (d->kind == HYP_PLAN__DIM__KIND__SYMBOL && dims[i][a] >= 0) symbols[d->value] = dims[i][a];
        }
    }
    for (size_t i = 0; status == HYP_OK && i < p->n_variables; i++)
        status = copy_dims(&arena, &engine->variables.items[i].info, &dims[count + i], diag);
    for (size_t k = 0; status == HYP_OK && k < size_count; k++)
        if (sizes[k].name && sizes[k].dims[0] >= 0) set_size(p, &sizes[k], dims, symbols);
    if (status == HYP_OK) status = hyp_plan_complete_dims(p, dims, symbols, diag);
    for (size_t s = p->n_symbols; status == HYP_OK && s-- > 0;)
        if (symbols[s] < 0) *out_missing = p->symbols[s];
    hyp_arena_dispose(&arena);
    return status;
}

uint64_t hyp_engine_model_hash(const hyp_engine *engine) { return engine ? engine->plan.program->model_hash : 0; }
