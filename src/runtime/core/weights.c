/* weights.c - weights of an engine that are replaced while its contexts run. An engine has editions of its weights,
 * whole ones, of which the last is the newest: a context looks for it when a run begins, and holds it until a later run
 * finds another.
 */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "runtime/core/engine.h"

/* ---- editions -------------------------------------------------------------------------------------------- */

hyp_status hyp_edition_create(hyp_engine *e, hyp_edition **out, hyp_diag *diag)
{
    hyp_edition *edition = hyp_calloc(1, sizeof *edition);
    if (!edition) return hyp_fail_memory(diag, sizeof *edition);
    atomic_init(&edition->holders, 1);
    edition->plan = e->plan;
    *out = edition;
    return HYP_OK;
}

hyp_edition *hyp_edition_take(hyp_engine *e)
{
    pthread_mutex_lock(&e->taking);
    hyp_edition *newest = atomic_load(&e->newest);
    atomic_fetch_add(&newest->holders, 1);
    pthread_mutex_unlock(&e->taking);
    return newest;
}

void hyp_edition_release(hyp_engine *e, hyp_edition *edition)
{
    if (!edition || atomic_fetch_sub(&edition->holders, 1) > 1) return;
    hyp_mem_account *before = hyp_mem_charge(e->charged);
    if (edition->model) e->backend->unload(edition->model);
    hyp_aligned_free((void *)(uintptr_t)edition->plan.replaced);
    hyp_free(edition);
    hyp_mem_charge(before);
}

static void publish(hyp_engine *e, hyp_edition *edition)
{
    pthread_mutex_lock(&e->taking);
    hyp_edition *before = atomic_exchange(&e->newest, edition);
    pthread_mutex_unlock(&e->taking);
    hyp_edition_release(e, before);
}

/* ---- what can be replaced -------------------------------------------------------------------------------- */

static hyp_status describe_weight(hyp_engine *e, const HypPlan__Program *p, uint32_t tensor, uint32_t update,
                                  hyp_io *out, hyp_diag *diag)
{
    HYP_TRY(hyp_engine_describe_io(e, p, tensor, out, diag));
    out->tensor = update;
    for (int32_t a = 0; a < out->info.rank; a++)
        if (out->info.dims[a] < 0)
            return hyp_fail(diag, HYP_ERR_MALFORMED, "input '%s' has no fixed sizes", out->info.name);
    out->info.name = hyp_arena_strdup(&e->arena, out->info.name);
    return out->info.name ? HYP_OK : hyp_fail_memory(diag, 0);
}

/* Room for so many weights, *room of which there is so far; the old lists stay in the arena. */
static hyp_status grow_list(hyp_engine *e, size_t count, size_t *room, hyp_diag *diag)
{
    hyp_io_list *list = &e->weights;
    if (count <= *room) return HYP_OK;
    *room = count > 2 * *room ? count : 2 * *room;
    hyp_io *items = hyp_arena_zalloc(&e->arena, *room, sizeof *items);
    const char **names = hyp_arena_zalloc(&e->arena, *room + 1, sizeof *names);
    if (!items || !names) return hyp_fail_memory(diag, *room * sizeof *items);
    if (list->count) {
        memcpy(items, list->items, list->count * sizeof *items);
        memcpy(names, list->names, list->count * sizeof *names);
    }
    list->items = items;
    list->names = names;
    return HYP_OK;
}

/* Adds the inputs of an update. */
static hyp_status list_update(hyp_engine *e, uint32_t update, size_t *room, hyp_diag *diag)
{
    const HypPlan__Update *u = e->plan.program->updates[update];
    const hyp_plan_open_options trusted = {.header_only = true}; /* the checksum of the program around it was checked */
    hyp_io_list *list = &e->weights;
    hyp_plan plan;
    HYP_TRY(hyp_plan_open_memory(u->plan.data, u->plan.len, "its plan", &trusted, &plan, diag));
    const HypPlan__Program *p = plan.program;
    hyp_status status = grow_list(e, list->count + p->n_inputs, room, diag);
    if (status == HYP_OK && p->n_variables)
        status = hyp_fail(diag, HYP_ERR_MALFORMED,
                          "its plan has %zu variables, where it computes weights from what is given alone",
                          p->n_variables);
    if (status == HYP_OK && hyp_plan_shown_outputs(p) != u->n_pieces)
        status = hyp_fail(diag, HYP_ERR_MALFORMED, "its plan has %zu outputs for %zu pieces", hyp_plan_shown_outputs(p),
                          u->n_pieces);
    for (size_t i = 0; i < p->n_inputs && status == HYP_OK; i++) {
        hyp_io *item = &list->items[list->count];
        status = describe_weight(e, p, p->inputs[i], update, item, diag);
        if (status == HYP_OK) list->names[list->count++] = item->info.name;
    }
    hyp_plan_close(&plan);
    return status;
}

hyp_status hyp_engine_list_weights(hyp_engine *e, hyp_diag *diag)
{
    size_t room = 0;
    e->weights = (hyp_io_list){.what = "updatable weight"};
    HYP_TRY(grow_list(e, 1, &room, diag));
    for (uint32_t u = 0; u < e->plan.program->n_updates; u++) {
        hyp_status status = list_update(e, u, &room, diag);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(diag, "update %u of weights", u);
        return status;
    }
    return HYP_OK;
}

size_t hyp_engine_weight_count(const hyp_engine *engine) { return engine ? engine->weights.count : 0; }

const hyp_io_info *hyp_engine_weight(const hyp_engine *engine, size_t i)
{
    return engine && i < engine->weights.count ? &engine->weights.items[i].info : NULL;
}

/* ---- what is given --------------------------------------------------------------------------------------- */

/* What a run gave in memory of the context is there, too. */
static bool is_on_host(const hyp_tensor *t) { return t->memory == HYP_MEMORY_HOST || t->memory == HYP_MEMORY_CONTEXT; }

static hyp_status check_given(const hyp_engine *e, const hyp_io *io, const hyp_tensor *t, hyp_diag *diag)
{
    size_t bytes;
    HYP_TRY(hyp_match_fixed(&e->weights, io, t, &bytes, diag));
    bool there = is_on_host(t) || t->memory == e->backend->memory;
    if (t->bytes == bytes && t->data && there && (uintptr_t)t->data % io->element_bytes == 0) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                    "the weight %s wants %zu bytes in the host's memory or the engine's device's, aligned to its "
                    "elements: %zu bytes at %p were given%s",
                    io->text, bytes, t->bytes, t->data, there ? "" : ", in memory of another device");
}

/* given[i] = the tensor for weight i, or NULL. */
static hyp_status match(const hyp_engine *e, const hyp_tensor *tensors, size_t count, const hyp_tensor **given,
                        hyp_diag *diag)
{
    const hyp_io_list *list = &e->weights;
    if (!list->count)
        return hyp_fail(
            diag, HYP_ERR_INVALID_ARGUMENT,
            "the plan has no weights that can be replaced: name them when it is compiled, --updatable 'fc1.*'");
    for (size_t t = 0, i; t < count; t++) {
        if (!tensors[t].name)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "weights are replaced by name, and tensor %zu has none", t);
        hyp_status status = hyp_match_one(list, tensors, t, count, &i, diag);
        if (status == HYP_ERR_INVALID_ARGUMENT)
            hyp_diag_prefix(diag, "weights can be replaced that --updatable named when the plan was compiled");
        HYP_TRY(status);
        if (given[i]) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the weight '%s' is given twice", list->names[i]);
        HYP_TRY(check_given(e, &list->items[i], &tensors[t], diag));
        given[i] = &tensors[t];
    }
    for (size_t i = 0; i < list->count; i++)
        for (size_t k = 0; k < list->count; k++)
            if (given[i] && !given[k] && list->items[i].tensor == list->items[k].tensor)
                return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                                "the plan makes one of '%s' and '%s', and only the first was given: give both",
                                list->names[i], list->names[k]);
    return HYP_OK;
}

/* What lies on the device as tensors of the host, for the plain kernels, which make weights of it. */
static hyp_status fetch(const hyp_engine *e, const hyp_tensor **given, hyp_tensor *fetched, hyp_diag *diag)
{
    for (size_t i = 0; i < e->weights.count; i++) {
        const hyp_tensor *t = given[i];
        if (!t || is_on_host(t)) continue;
        fetched[i] = *t;
        fetched[i].memory = HYP_MEMORY_HOST;
        fetched[i].data = hyp_malloc(t->bytes);
        if (!fetched[i].data) return hyp_fail_memory(diag, t->bytes);
        HYP_TRY(hyp_engine_copy(e, fetched[i].data, HYP_MEMORY_HOST, t->data, t->memory, t->bytes, diag));
        given[i] = &fetched[i];
    }
    return HYP_OK;
}

/* ---- new weights ----------------------------------------------------------------------------------------- */

/* Gives memory to all that the edition before replaces and to all that is replaced now, and fills it with what there
 * was. */
static hyp_status make_room(const hyp_engine *e, const bool *updated, hyp_edition *edition, hyp_diag *diag)
{
    const HypPlan__Program *p = e->plan.program;
    const hyp_plan *before = &atomic_load(&e->newest)->plan;
    size_t head = (p->n_tensors * sizeof(uint8_t *) + HYP_PLAN_ALIGN - 1) / HYP_PLAN_ALIGN * HYP_PLAN_ALIGN,
           total = head;
    bool *wanted = hyp_calloc(p->n_tensors, sizeof *wanted);
    if (!wanted) return hyp_fail_memory(diag, p->n_tensors);
    for (size_t u = 0; u < p->n_updates; u++)
        for (size_t i = 0; updated[u] && i < p->updates[u]->n_pieces; i++)
            wanted[p->updates[u]->pieces[i]->tensor] = true;
    for (size_t t = 0; t < p->n_tensors; t++) {
        wanted[t] = wanted[t] || (before->replaced && before->replaced[t]);
        if (wanted[t]) total += (p->tensors[t]->bytes + HYP_PLAN_ALIGN - 1) / HYP_PLAN_ALIGN * HYP_PLAN_ALIGN;
    }
    const uint8_t **replaced = hyp_aligned_alloc(HYP_PLAN_ALIGN, total);
    uint8_t *at = replaced ? (uint8_t *)replaced + head : NULL;
    for (uint32_t t = 0; replaced && t < p->n_tensors; t++) {
        replaced[t] = wanted[t] ? at : NULL;
        if (!wanted[t]) continue;
        memcpy(at, hyp_plan_weight(before, t), (size_t)p->tensors[t]->bytes);
        at += (p->tensors[t]->bytes + HYP_PLAN_ALIGN - 1) / HYP_PLAN_ALIGN * HYP_PLAN_ALIGN;
    }
    hyp_free(wanted);
    edition->plan.replaced = replaced;
    return replaced ? HYP_OK : hyp_fail_memory(diag, total);
}

/* `memory`: bytes that the run may have in between, 0: no limit. */
static hyp_status run_update(hyp_engine *plain, uint64_t memory, const HypPlan__Update *update, const hyp_plan *plan,
                             const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs, hyp_diag *diag)
{
    const hyp_context_options limits = {.size = sizeof limits, .memory_limit = memory};
    hyp_context *context;
    for (size_t i = 0; i < update->n_pieces; i++) {
        const HypPlan__Update__Piece *piece = update->pieces[i];
        outputs[i].data = (void *)(uintptr_t)(plan->replaced[piece->tensor] + piece->offset);
        outputs[i].bytes = (size_t)(plan->program->tensors[piece->tensor]->bytes - piece->offset);
        outputs[i].dtype = hyp_engine_output(plain, i)->dtype;
    }
    HYP_TRY(hyp_context_create(plain, &limits, &context, diag));
    hyp_status status = hyp_context_run(context, inputs, input_count, outputs, update->n_pieces, diag);
    hyp_context_destroy(context);
    return status;
}

/* Computes pieces of weights from what is given, by the plain kernels: as they were when the plan was written. */
static hyp_status compute(const hyp_engine *e, uint32_t u, const hyp_tensor *const *given, const hyp_plan *plan,
                          hyp_diag *diag)
{
    const HypPlan__Update *update = e->plan.program->updates[u];
    const uint64_t memory = e->charged->most == SIZE_MAX ? 0 : e->charged->most;
    const hyp_engine_options options = {.size = sizeof options,
                                        .device = HYP_DEVICE_REFERENCE,
                                        .checks = HYP_CHECKS_OFF,
                                        .memory_limit = memory};
    size_t count = 0;
    hyp_tensor *tensors = hyp_calloc(e->weights.count + update->n_pieces, sizeof *tensors);
    hyp_engine *plain = NULL;
    if (!tensors) return hyp_fail_memory(diag, (e->weights.count + update->n_pieces) * sizeof *tensors);
    for (size_t i = 0; i < e->weights.count; i++)
        if (given[i] && e->weights.items[i].tensor == u) tensors[update->n_pieces + count++] = *given[i];
    hyp_mem_account *before = hyp_mem_charge(NULL); /* what is needed in between has accounts of its own */
    hyp_status status = hyp_engine_load_memory(update->plan.data, update->plan.len, &options, &plain, diag);
    if (status == HYP_OK)
        status = run_update(plain, memory, update, plan, tensors + update->n_pieces, count, tensors, diag);
    if (status == HYP_ERR_LIMIT) hyp_diag_prefix(diag, "weights are computed within as much as the engine may have");
    hyp_engine_destroy(plain);
    hyp_mem_charge(before);
    hyp_free(tensors);
    return status;
}

static hyp_status make_edition(hyp_engine *e, const hyp_tensor *const *given, const bool *updated, hyp_edition **out,
                               hyp_diag *diag)
{
    HYP_TRY(hyp_edition_create(e, out, diag));
    HYP_TRY(make_room(e, updated, *out, diag));
    for (uint32_t u = 0; u < e->plan.program->n_updates; u++)
        if (updated[u]) HYP_TRY(compute(e, u, given, &(*out)->plan, diag));
    void *model;
    HYP_TRY(e->backend->load(e->device, &(*out)->plan, &model, diag));
    (*out)->model = model;
    return HYP_OK;
}

static hyp_status update(hyp_engine *e, const hyp_tensor *tensors, size_t count, hyp_diag *diag)
{
    const hyp_tensor **given = hyp_calloc(e->weights.count, sizeof *given);
    hyp_tensor *fetched = hyp_calloc(e->weights.count, sizeof *fetched);
    bool *updated = hyp_calloc(e->plan.program->n_updates, sizeof *updated);
    hyp_edition *edition = NULL;
    hyp_status status = given && fetched && updated
                            ? match(e, tensors, count, given, diag)
                            : hyp_fail_memory(diag, e->weights.count * (sizeof *given + sizeof *fetched));
    if (status == HYP_OK) status = fetch(e, given, fetched, diag);
    for (size_t i = 0; status == HYP_OK && i < e->weights.count; i++)
        if (given[i]) updated[e->weights.items[i].tensor] = true;
    if (status == HYP_OK && count) status = make_edition(e, given, updated, &edition, diag);
    if (status == HYP_OK && count)
        publish(e, edition);
    else
        hyp_edition_release(e, edition);
    for (size_t i = 0; fetched && i < e->weights.count; i++) hyp_free(fetched[i].data);
    hyp_free(fetched);
    hyp_free(given);
    hyp_free(updated);
    return status;
}

hyp_status hyp_engine_update(hyp_engine *engine, const hyp_tensor *tensors, size_t count, hyp_diag *diag)
{
    HYP_NEED(engine);
    HYP_NEED_LIST(tensors, count);
    pthread_mutex_lock(&engine->updating);
    hyp_mem_account *before = hyp_mem_charge(engine->charged);
    hyp_status status = hyp_engine_status(engine, update(engine, tensors, count, diag), diag);
    hyp_mem_charge(before);
    pthread_mutex_unlock(&engine->updating);
    return status;
}
