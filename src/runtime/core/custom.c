#include "runtime/core/custom.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sized.h"
#include "base/loop.h"
#include "runtime/core/loop.h"

/* ---- loading --------------------------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b) { return a && strcmp(a, b) == 0; }

static hyp_status find_kernel(const hyp_engine_options *o, const HypPlan__Custom *step, hyp_custom_kernel *out,
                              hyp_diag *diag)
{
    for (size_t i = 0; i < o->custom_kernel_count; i++) {
        hyp_custom_kernel k = {.size = sizeof k};
        if (!o->custom_kernels || !o->custom_kernels[i])
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "options->custom_kernels[%zu] is NULL", i);
        HYP_TRY(hyp_sized_take(&k, o->custom_kernels[i], hyp_custom_kernel, diag));
        if (!same(k.domain, step->domain) || !same(k.name, step->call->kernel)) continue;
        *out = k;
        return HYP_OK;
    }
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                    "the plan has the custom operator %s::%s, and no kernel is given for it: "
                    "hyp_engine_options.custom_kernels",
                    step->domain, step->call->kernel);
}

static hyp_status copy_strings(const HypPlan__Custom__Attr *from, hyp_custom_attribute *to, hyp_arena *arena,
                               hyp_diag *diag)
{
    const char **strings = hyp_arena_zalloc(arena, from->n_strings, sizeof *strings);
    size_t *bytes = hyp_arena_zalloc(arena, from->n_strings, sizeof *bytes);
    if (!strings || !bytes) return hyp_fail_memory(diag, from->n_strings * sizeof *strings);
    for (size_t i = 0; i < from->n_strings; i++) {
        bytes[i] = from->strings[i].len;
        strings[i] = hyp_arena_strndup(arena, bytes[i] ? (const char *)from->strings[i].data : "", bytes[i]);
        if (!strings[i]) return hyp_fail_memory(diag, bytes[i]);
    }
    to->strings = strings;
    to->string_bytes = bytes;
    return HYP_OK;
}

static hyp_status copy_attributes(const HypPlan__Custom *from, hyp_custom_step *to, hyp_arena *arena, hyp_diag *diag)
{
    const hyp_custom_attribute **list = hyp_arena_zalloc(arena, from->n_attrs, sizeof *list);
    hyp_custom_attribute *items = hyp_arena_zalloc(arena, from->n_attrs, sizeof *items);
    if (!list || !items) return hyp_fail_memory(diag, from->n_attrs * sizeof *items);
    for (size_t i = 0; i < from->n_attrs; i++) {
        const HypPlan__Custom__Attr *a = from->attrs[i];
        items[i] = (hyp_custom_attribute){.size = sizeof *items,
                                          .name = a->name,
                                          .kind = (hyp_custom_kind)a->kind,
                                          .list = a->list,
                                          .count = a->n_ints + a->n_floats + a->n_strings,
                                          .ints = a->ints,
                                          .floats = a->floats};
        HYP_TRY(copy_strings(a, &items[i], arena, diag));
        list[i] = &items[i];
    }
    to->attributes = list;
    to->attribute_count = from->n_attrs;
    return HYP_OK;
}

hyp_status hyp_custom_find(hyp_plan *plan, const hyp_engine_options *options, hyp_arena *arena, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    hyp_custom_step **list = NULL;
    for (size_t i = 0; i < p->n_steps; i++) {
        const HypPlan__Step *from = p->steps[i];
        if (from->kernel_case != HYP_PLAN__STEP__KERNEL_CUSTOM) continue;
        if (!list) list = hyp_arena_zalloc(arena, p->n_steps, sizeof *list);
        hyp_custom_step *to = hyp_arena_zalloc(arena, 1, sizeof *to);
        if (!list || !to) return hyp_fail_memory(diag, p->n_steps * sizeof *list);
        *to = (hyp_custom_step){.index = i,
                                .program = p,
                                .call = from->custom->call,
                                .domain = from->custom->domain,
                                .name = from->custom->call->kernel,
                                .node = from->n_sources ? p->source_names[from->sources[0]] : ""};
        to->is_loop = hyp_is_loop(p->steps[i]);
        HYP_TRY(to->is_loop ? hyp_loop_read(p, from->custom, &to->loop, diag)
                            : find_kernel(options, from->custom, &to->kernel, diag));
        HYP_TRY(copy_attributes(from->custom, to, arena, diag));
        list[i] = to;
    }
    plan->custom = list;
    return HYP_OK;
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

typedef struct arguments {
    hyp_tensor in[HYP_PLAN_CUSTOM_INPUTS], out[HYP_PLAN_CUSTOM_OUTPUTS];
    hyp_custom_call call;
} arguments;

static hyp_tensor tensor_of(const hyp_custom_step *s, uint32_t tensor, const hyp_custom_place *place)
{
    const HypPlan__Tensor *t = s->program->tensors[tensor];
    hyp_tensor out = {.name = t->name, .dtype = (hyp_dtype)t->dtype, .rank = (int32_t)t->n_dims};
    size_t bytes = hyp_dtype_size(out.dtype);
    for (size_t a = 0; a < t->n_dims; a++) {
        int64_t d = place->values[t->dims[a]];
        out.dims[a] = d == HYP_PLAN_UNKNOWN ? -1 : d;
        bytes *= (size_t)d;
    }
    if (place->at) out.data = place->at[tensor];
    if (place->device_at) out.data = (void *)(uintptr_t)place->device_at[tensor];
    if (out.data) out.bytes = bytes; /* there is data when sizes were checked, not before */
    if (place->device_at) out.memory = HYP_MEMORY_CUDA;
    return out;
}

static void fill_in(const hyp_custom_step *s, const hyp_custom_place *place, arguments *a)
{
    const HypPlan__Call *k = s->call;
    for (size_t i = 0; i < k->n_inputs_plus1; i++) {
        a->in[i] = (hyp_tensor){0};
        if (k->inputs_plus1[i]) a->in[i] = tensor_of(s, k->inputs_plus1[i] - 1, place);
    }
    for (size_t i = 0; i < k->n_outputs; i++) a->out[i] = tensor_of(s, k->outputs[i], place);
    a->call = (hyp_custom_call){.size = sizeof a->call,
                                .domain = s->domain,
                                .name = s->name,
                                .node = s->node,
                                .inputs = a->in,
                                .input_count = k->n_inputs_plus1,
                                .outputs = a->out,
                                .output_count = k->n_outputs,
                                .attributes = s->attributes,
                                .attribute_count = s->attribute_count,
                                .workspace = place->workspace,
                                .workspace_bytes = place->workspace_bytes,
                                .stream = place->stream};
}

static hyp_status tell(const hyp_custom_step *s, hyp_status status, const hyp_diag *why, hyp_diag *diag)
{
    if (status == HYP_OK) return HYP_OK;
    return hyp_fail(diag, status, "%s::%s: %s", s->domain, s->name, *why->message ? why->message : "its kernel failed");
}

static hyp_status run_loop(const hyp_custom_step *s, const hyp_custom_place *place, hyp_diag *diag)
{
    if (place->loops) return hyp_loop_run(place->loops[s->index], place->values, place->at, diag);
    for (size_t o = 0; o < s->call->n_outputs; o++) {
        const hyp_tensor t = tensor_of(s, s->call->outputs[o], place);
        if (t.bytes) memset(t.data, 0, t.bytes);
    }
    return HYP_OK;
}

hyp_status hyp_custom_run(const hyp_custom_step *s, const hyp_custom_place *place, hyp_diag *diag)
{
    if (s->is_loop) return run_loop(s, place, diag);
    arguments a;
    hyp_diag why = {0};
    fill_in(s, place, &a);
    return tell(s, (place->device_at ? s->kernel.run_cuda : s->kernel.run)(&a.call, s->kernel.user, &why), &why, diag);
}

/* ---- shapes ---------------------------------------------------------------------------------------------------- */

static hyp_status want_agreement(const hyp_custom_step *s, size_t output, const hyp_tensor *said,
                                 const hyp_tensor *planned, hyp_diag *diag)
{
    if (said->rank != planned->rank)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s::%s: its kernel gives output %zu %d axes, the plan %d",
                        s->domain, s->name, output, (int)said->rank, (int)planned->rank);
    for (int32_t i = 0; i < planned->rank; i++) {
        long long is = said->dims[i], wanted = planned->dims[i];
        if (is < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "%s::%s: its kernel does not tell axis %d of output %zu, nor does the plan", s->domain,
                            s->name, (int)i, output);
        if (wanted >= 0 && is != wanted)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "%s::%s: its kernel says that axis %d of output %zu is %lld, the plan that it is %lld",
                            s->domain, s->name, (int)i, output, is, wanted);
    }
    return HYP_OK;
}

static hyp_status ask(const hyp_custom_step *s, const int64_t *values, arguments *a, hyp_diag *diag)
{
    const hyp_custom_place place = {.values = values};
    hyp_diag why = {0};
    fill_in(s, &place, a);
    if (s->kernel.shape) HYP_TRY(tell(s, s->kernel.shape(&a->call, s->kernel.user, &why), &why, diag));
    for (size_t o = 0; o < s->call->n_outputs; o++) {
        const hyp_tensor planned = tensor_of(s, s->call->outputs[o], &place);
        HYP_TRY(want_agreement(s, o, &a->out[o], &planned, diag));
    }
    return HYP_OK;
}

hyp_status hyp_custom_check(const hyp_plan *plan, bool on_gpu, hyp_diag *diag)
{
    for (size_t i = 0; plan->custom && i < plan->program->n_steps; i++) {
        const hyp_custom_step *s = plan->custom[i];
        if (!s || (on_gpu ? s->kernel.run_cuda : s->kernel.run) || (s->is_loop && !on_gpu)) continue;
        if (s->is_loop)
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                            "step %zu is a loop that is run trip by trip, which a CPU does: there the plan loads", i);
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "step %zu: the kernel that was given for %s::%s has no %s", i,
                        s->domain, s->name,
                        on_gpu ? "run_cuda, so that the plan runs on a CPU alone" : "run, which a CPU needs");
    }
    return HYP_OK;
}

hyp_status hyp_custom_prepare(const hyp_custom_step *step, const int64_t *values, size_t *out_bytes, hyp_diag *diag)
{
    arguments a;
    HYP_TRY(ask(step, values, &a, diag));
    *out_bytes = a.call.workspace_bytes;
    return HYP_OK;
}

/* Takes what a kernel says of symbols that nobody told before. */
static hyp_status take_symbols(const hyp_custom_step *s, const int64_t *values, int64_t *symbols, hyp_diag *diag)
{
    const HypPlan__Program *p = s->program;
    arguments a;
    bool open = false;
    for (size_t o = 0; o < s->call->n_outputs; o++) {
        const HypPlan__Tensor *t = p->tensors[s->call->outputs[o]];
        for (size_t i = 0; i < t->n_dims; i++) open = open || values[t->dims[i]] == HYP_PLAN_UNKNOWN;
    }
    if (!open) return HYP_OK;
    HYP_TRY(ask(s, values, &a, diag));
    for (size_t o = 0; o < s->call->n_outputs; o++) {
        const HypPlan__Tensor *t = p->tensors[s->call->outputs[o]];
        for (size_t i = 0; i < t->n_dims; i++) {
            const HypPlan__Dim *d = p->dims[t->dims[i]];
            if (d->kind == HYP_PLAN__DIM__KIND__SYMBOL && symbols[d->value] < 0) symbols[d->value] = a.out[o].dims[i];
        }
    }
    return HYP_OK;
}

hyp_status hyp_custom_eval_dims(const hyp_plan *plan, int64_t *symbols, int64_t *values, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    bool open = false;
    HYP_TRY(hyp_plan_eval_dims(p, symbols, values, diag));
    for (size_t s = 0; s < p->n_symbols; s++) open = open || symbols[s] < 0;
    for (size_t i = 0; open && plan->custom && i < p->n_steps; i++) {
        if (!plan->custom[i]) continue;
        HYP_TRY(take_symbols(plan->custom[i], values, symbols, diag));
        HYP_TRY(hyp_plan_eval_dims(p, symbols, values, diag));
    }
    for (size_t s = 0; open && s < p->n_symbols; s++)
        if (symbols[s] < 0)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "nothing tells the size '%s'", p->symbols[s]);
    return HYP_OK;
}
