#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "runtime/core/engine.h"

/* "'x' f32 [batch, 784], 'y' f32 [batch]" for messages, cut where `room` ends. */
static const char *list_text(const hyp_io_list *list, char *out, size_t room)
{
    size_t len = 0;
    out[0] = 0;
    for (size_t i = 0; i < list->count && len < room; i++)
        len += (size_t)snprintf(out + len, room - len, "%s%s", i ? ", " : "", list->items[i].text);
    return out;
}

static const char *dims_text(const hyp_tensor *t, char *out, size_t room)
{
    size_t len = (size_t)snprintf(out, room, "[");
    for (int32_t i = 0; i < t->rank && len < room; i++)
        len += (size_t)snprintf(out + len, room - len, "%s%" PRId64, i ? ", " : "", t->dims[i]);
    if (len < room) snprintf(out + len, room - len, "]");
    return out;
}

static bool is_variable(const HypPlan__Program *program, const char *name)
{
    for (size_t i = 0; program && i < program->n_variables; i++)
        if (strcmp(program->tensors[program->inputs[program->variables[i]->input]]->name, name) == 0) return true;
    return false;
}

/* Whether the name is that of a weight: an input of the model that became a constant. */
static bool is_weight(const HypPlan__Program *program, const char *name)
{
    for (size_t i = 0; program && i < program->n_tensors; i++)
        if (program->tensors[i]->place == HYP_PLAN__PLACE__PLACE_WEIGHT && strcmp(program->tensors[i]->name, name) == 0)
            return true;
    return false;
}

hyp_status hyp_match_one(const hyp_io_list *list, const hyp_tensor *tensors, size_t t, size_t count, size_t *out,
                         hyp_diag *diag)
{
    char wanted[1024];
    const char *name = tensors[t].name;
    size_t i = name ? 0 : t;
    if (tensors[t].reserved)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "%s %zu: the tensor's field `reserved` is %" PRIu32 ", and means nothing to this library: "
                        "make it 0, as `hyp_tensor t = {0}` does",
                        list->what, t, tensors[t].reserved);
    while (name && i < list->count && strcmp(list->names[i], name) != 0) i++;
    *out = i;
    if (i < list->count) return HYP_OK;
    list_text(list, wanted, sizeof wanted);
    if (!name)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%zu %ss were given, the plan has %zu: %s", count, list->what,
                        list->count, wanted);
    if (is_variable(list->program, name))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "'%s' is a variable of the plan, which the context has, and no %s: hyp_context_variable_get and "
                        "_set; its %ss are %s",
                        name, list->what, list->what, wanted);
    if (is_weight(list->program, name))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "'%s' is a constant of the plan, which had its value when it was compiled, and no %s: its "
                        "%ss are %s",
                        name, list->what, list->what, wanted);
    const char *near = hyp_nearest(name, list->names);
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the plan has no %s '%s'%s%s%s: its %ss are %s", list->what, name,
                    near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", list->what, wanted);
}

/* The general case; the checks on the way also find out why matching failed. */
static hyp_status match_by_name(const hyp_io_list *list, const hyp_tensor *tensors, size_t count, uint32_t *order,
                                hyp_diag *diag)
{
    char wanted[1024];
    for (size_t i = 0; i < list->count; i++) order[i] = UINT32_MAX;
    for (size_t t = 0; t < count; t++) {
        size_t i;
        HYP_TRY(hyp_match_one(list, tensors, t, count, &i, diag));
        if (order[i] != UINT32_MAX)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s '%s' is given twice", list->what, list->names[i]);
        order[i] = (uint32_t)t;
    }
    for (size_t i = 0; i < list->count; i++)
        if (order[i] == UINT32_MAX)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s %s is missing: give all %ss of the plan: %s",
                            list->what, list->items[i].text, list->what, list_text(list, wanted, sizeof wanted));
    return HYP_OK;
}

hyp_status hyp_match_tensors(const hyp_io_list *list, const hyp_tensor *tensors, size_t count, uint32_t *order,
                             hyp_diag *diag)
{
    size_t i = 0;
    if (!tensors && count)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%zu %ss are given, but the list of them is NULL", count,
                        list->what);
    if (count == list->count)
        for (; i < count; i++) {
            const char *name = tensors[i].name;
            if (name && name != list->names[i] && strcmp(name, list->names[i]) != 0) break;
            if (tensors[i].reserved) break;
            order[i] = (uint32_t)i;
        }
    if (i == list->count) return HYP_OK;
    return match_by_name(list, tensors, count, order, diag);
}

hyp_status hyp_match_dims(const hyp_io *io, const hyp_tensor *tensor, int64_t *dims, hyp_diag *diag)
{
    char given[256];
    int32_t rank = io->info.rank, extra = tensor->rank - rank;
    if (tensor->rank < 0 || tensor->rank > HYP_MAX_RANK)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': its rank is %d, the highest is %d", io->info.name,
                        (int)tensor->rank, HYP_MAX_RANK);
    for (int32_t a = 0; a < tensor->rank; a++)
        if (tensor->dims[a] < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': dim %d is %" PRId64 ", dims are 0 or more",
                            io->info.name, (int)a, tensor->dims[a]);
    if (extra != 0 && (rank == 0 || extra < -1))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input %s: a tensor of rank %d was given: %s", io->text,
                        (int)tensor->rank, dims_text(tensor, given, sizeof given));
    if (extra == 0) {
        memcpy(dims, tensor->dims, sizeof tensor->dims);
    } else {
        dims[0] = 1;
        for (int32_t a = 0; a <= extra; a++)
            if (!hyp_mul_i64(dims[0], tensor->dims[a], &dims[0]))
                return hyp_fail(diag, HYP_ERR_LIMIT, "input '%s': the product of its dims %s is too large",
                                io->info.name, dims_text(tensor, given, sizeof given));
        for (int32_t a = 1; a < rank; a++) dims[a] = tensor->dims[a + extra];
    }
    return HYP_OK;
}

hyp_status hyp_match_fixed(const hyp_io_list *list, const hyp_io *io, const hyp_tensor *t, size_t *out_bytes, hyp_diag *diag)
{
    char given[256];
    size_t bytes = io->element_bytes;
    bool same = t->rank == io->info.rank && t->dtype == io->info.dtype;
    for (int32_t a = 0; a < io->info.rank && same; a++) {
        same = t->dims[a] == io->info.dims[a];
        bytes *= (size_t)io->info.dims[a];
    }
    *out_bytes = bytes;
    if (same) return HYP_OK;
    bool ranked = t->rank >= 0 && t->rank <= HYP_MAX_RANK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the %s %s was given as %s %s", list->what, io->text,
                    hyp_dtype_name(t->dtype), ranked ? dims_text(t, given, sizeof given) : "of no rank that there is");
}

hyp_status hyp_match_data(const hyp_io_list *list, const hyp_io *io, const hyp_tensor *tensor, size_t bytes,
                          const hyp_backend *backend, hyp_diag *diag)
{
    const char *what = list->what, *name = io->info.name;
    if (tensor->dtype != io->info.dtype)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s '%s': its type must be %s, it is %s", what, name,
                        hyp_dtype_name(io->info.dtype), hyp_dtype_name(tensor->dtype));
    if (tensor->bytes < bytes)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s '%s': %zu bytes are needed, the tensor has %zu", what, name,
                        bytes, tensor->bytes);
    if (bytes && !tensor->data)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s '%s': its data is NULL, %zu bytes are needed", what, name,
                        bytes);
    if ((uintptr_t)tensor->data & (io->element_bytes - 1))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "%s '%s': its data must be aligned to its element size, %zu bytes", what, name,
                        io->element_bytes);
    if (tensor->memory != HYP_MEMORY_HOST && tensor->memory != backend->memory)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "%s '%s': its memory is a device's, and the plan was loaded for the %s, which does not reach it: "
                        "copy it to the host, or load the plan for that device",
                        what, name, backend->name);
    return HYP_OK;
}
