/* outputs.c - memory for what a run gives, and how much there is of it where only the data say so. */
#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "runtime/core/buckets.h"

hyp_status hyp_grow_own(hyp_own_output *own, size_t bytes, hyp_diag *diag)
{
    enum { ALIGN = 64 };
    if (own->data && own->bytes >= bytes) return HYP_OK;
    own->grown = hyp_aligned_alloc(ALIGN, bytes ? bytes : 1);
    own->grown_bytes = bytes;
    return own->grown ? HYP_OK : hyp_fail_memory(diag, bytes);
}

static void settle(hyp_own_output *own, bool keep)
{
    if (!own->grown) return;
    hyp_aligned_free(keep ? own->data : own->grown);
    *own = keep ? (hyp_own_output){.data = own->grown, .bytes = own->grown_bytes}
                : (hyp_own_output){.data = own->data, .bytes = own->bytes};
}

void hyp_settle_all(hyp_context *c, bool keep)
{
    for (size_t i = 0; i < c->engine->outputs.count; i++) settle(&c->own[i], keep);
    for (size_t i = 0; c->buckets && i < c->engine->inputs.count; i++) settle(&c->buckets->own[i], keep);
}

hyp_status hyp_want_own(hyp_own_output *own, size_t bytes, hyp_diag *diag)
{
    HYP_TRY(hyp_grow_own(own, bytes, diag));
    settle(own, true);
    return HYP_OK;
}

hyp_status hyp_grow_outputs(hyp_context *c, const hyp_shape *s, hyp_diag *diag)
{
    for (size_t i = 0; i < c->engine->outputs.count; i++)
        if (c->engine->outputs.items[i].size) HYP_TRY(hyp_grow_own(&c->own[i], s->output_bytes[i], diag));
    return HYP_OK;
}

hyp_status hyp_outputs_needed(const hyp_context *c, size_t *bytes, hyp_diag *diag)
{
    const hyp_io_list *outputs = &c->engine->outputs;
    for (size_t i = 0; i < outputs->count; i++) {
        const hyp_io *io = &outputs->items[i];
        size_t wanted;
        if (!io->size) continue;
        HYP_TRY(hyp_plan_tensor_bytes(c->engine->plan.program, io->tensor, c->values, &wanted, diag));
        if (wanted > c->own[i].bytes) *bytes += wanted - c->own[i].bytes;
    }
    return HYP_OK;
}

static hyp_status take_output(hyp_context *c, size_t i, const hyp_tensor *t, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    const hyp_io *io = &e->outputs.items[i];
    const hyp_pad *pad = hyp_output_pad(c, i);
    size_t bytes = c->current->output_bytes[i];
    hyp_tensor given = *t;
    bool own = t->memory == HYP_MEMORY_CONTEXT || io->size;
    if (io->size && t->memory != HYP_MEMORY_HOST && t->memory != HYP_MEMORY_CONTEXT)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "output '%s': how large it is is known on the host alone; give memory there", io->info.name);
    if (io->size && t->memory == HYP_MEMORY_HOST) /* how many bytes it needs shows when the run has ended */
        HYP_TRY(hyp_match_data(&e->outputs, io, t, 0, e->backend, diag));
    if (pad && t->memory != HYP_MEMORY_CONTEXT && !io->size) {
        bytes = hyp_pad_bytes(pad->dims, pad->rank, pad->element_bytes);
        HYP_TRY(hyp_match_data(&e->outputs, io, t, bytes, e->backend, diag));
        own = t->memory == HYP_MEMORY_HOST;
    }
    if (own) {
        bytes = c->current->output_bytes[i];
        HYP_TRY(hyp_want_own(&c->own[i], bytes, diag));
        given.data = c->own[i].data;
        given.bytes = c->own[i].bytes;
        given.memory = HYP_MEMORY_HOST;
    }
    HYP_TRY(hyp_match_data(&e->outputs, io, &given, bytes, e->backend, diag));
    c->outputs[i] = given.data;
    c->output_memory[i] = given.memory;
    return HYP_OK;
}

hyp_status hyp_take_outputs(hyp_context *c, const hyp_tensor *outputs, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    for (size_t i = 0; i < e->outputs.count; i++) HYP_TRY(take_output(c, i, &outputs[c->output_order[i]], diag));
    for (size_t i = e->outputs.count; i < e->outputs.count + e->plan.program->hidden_outputs; i++) {
        c->outputs[i] = &c->counts[i - e->outputs.count];
        c->output_memory[i] = HYP_MEMORY_HOST;
    }
    return HYP_OK;
}

/* Cuts an output in the context's memory to what there is. */
static hyp_status cut_output(hyp_context *c, size_t i, hyp_tensor *t, size_t *bytes, hyp_diag *diag)
{
    const hyp_io *io = &c->engine->outputs.items[i];
    int32_t axis = (int32_t)io->size->axis;
    int64_t count = c->counts[io->size->count - c->engine->outputs.count], most = t->dims[axis];
    if (count < 0 || count > most)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "output '%s': the plan says that there are %lld of at most %lld", io->info.name,
                        (long long)count, (long long)most);
    size_t outer = 1, inner = io->element_bytes;
    for (int32_t a = 0; a < axis; a++) outer *= (size_t)t->dims[a];
    for (int32_t a = axis + 1; a < t->rank; a++) inner *= (size_t)t->dims[a];
    t->dims[axis] = count;
    hyp_cut_axis(c->own[i].data, outer, (size_t)most * inner, (size_t)count * inner);
    *bytes = *bytes ? outer * (size_t)count * inner : 0;
    return HYP_OK;
}

static hyp_status give_output(hyp_context *c, size_t i, hyp_tensor *t, hyp_diag *diag)
{
    const hyp_io *io = &c->engine->outputs.items[i];
    const hyp_pad *pad = hyp_output_pad(c, i);
    size_t bytes = pad ? hyp_pad_bytes(pad->dims, pad->rank, pad->element_bytes) : c->current->output_bytes[i];
    t->rank = io->info.rank;
    memcpy(t->dims, pad ? pad->dims : c->current->output_dims + i * HYP_MAX_RANK, sizeof t->dims);
    if (pad && c->outputs[i] == c->own[i].data) {
        bool straight = t->memory == HYP_MEMORY_HOST && !io->size;
        hyp_pad_out(pad, straight ? t->data : c->own[i].data, c->own[i].data);
    }
    if (io->size) HYP_TRY(cut_output(c, i, t, &bytes, diag));
    if (t->memory == HYP_MEMORY_CONTEXT) {
        t->data = c->own[i].data;
        t->bytes = bytes;
    } else if (io->size) {
        HYP_TRY(hyp_match_data(&c->engine->outputs, io, t, bytes, c->engine->backend, diag));
        if (bytes) memcpy(t->data, c->own[i].data, bytes);
    }
    return HYP_OK;
}

hyp_status hyp_give_outputs(hyp_context *c, hyp_tensor *outputs, hyp_diag *diag)
{
    hyp_status status = HYP_OK; /* the others are given, too, where one has not the room */
    for (size_t i = 0; i < c->engine->outputs.count; i++) {
        hyp_status one = give_output(c, i, &outputs[c->output_order[i]], status == HYP_OK ? diag : NULL);
        if (status == HYP_OK) status = one;
    }
    return status;
}
