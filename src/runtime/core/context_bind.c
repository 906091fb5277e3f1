/* context_bind.c - runs with tensors that were bound before. */
#include "runtime/core/context.h"

static hyp_status bind_list(const hyp_io_list *list, const hyp_tensor *tensors, size_t count, hyp_tensor *bound,
                            hyp_diag *diag)
{
    HYP_NEED_LIST(tensors, count);
    for (size_t t = 0, i; t < count; t++) {
        HYP_TRY(hyp_match_one(list, tensors, t, count, &i, diag));
        if (!bound) continue;
        bound[i] = tensors[t];
        bound[i].name = list->names[i];
    }
    return HYP_OK;
}

hyp_status hyp_context_bind(hyp_context *c, const hyp_tensor *inputs, size_t input_count, const hyp_tensor *outputs,
                            size_t output_count, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_bind", diag));
    const hyp_engine *e = c->engine;
    HYP_TRY(bind_list(&e->inputs, inputs, input_count, NULL, diag));
    HYP_TRY(bind_list(&e->outputs, outputs, output_count, NULL, diag));
    HYP_TRY(bind_list(&e->inputs, inputs, input_count, c->bound_inputs, diag));
    return bind_list(&e->outputs, outputs, output_count, c->bound_outputs, diag);
}

static hyp_status want_bound(const hyp_io_list *list, const hyp_tensor *bound, hyp_diag *diag)
{
    for (size_t i = 0; i < list->count; i++)
        if (!bound[i].name)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "nothing is bound to %s %s: hyp_context_bind", list->what,
                            list->items[i].text);
    return HYP_OK;
}

hyp_status hyp_run_bound(hyp_context *c, const hyp_run_options *how, hyp_diag *diag)
{
    const hyp_engine *e = c->engine;
    HYP_TRY(want_bound(&e->inputs, c->bound_inputs, diag));
    HYP_TRY(want_bound(&e->outputs, c->bound_outputs, diag));
    return hyp_run_tensors(c, c->bound_inputs, e->inputs.count, c->bound_outputs, e->outputs.count, how, NULL, diag);
}

hyp_status hyp_context_run_bound(hyp_context *c, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_run_bound", diag));
    return hyp_run_bound(c, NULL, diag);
}

const hyp_tensor *hyp_context_bound_output(const hyp_context *c, size_t i)
{
    return c && i < c->engine->outputs.count && c->bound_outputs[i].name ? &c->bound_outputs[i] : NULL;
}
