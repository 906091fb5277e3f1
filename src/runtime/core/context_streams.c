/* context_streams.c - runs on streams of the caller's, and what they wait for. */
#include "base/sized.h"
#include "runtime/core/context.h"

void *hyp_context_stream(hyp_context *c)
{
    const hyp_backend *backend = c ? c->engine->backend : NULL;
    return backend && backend->stream ? backend->stream(c->session) : NULL;
}

static hyp_status check_options(const hyp_context *c, const hyp_run_options *o, hyp_diag *diag)
{
    if (!c->engine->backend->stream && (o->stream || o->wait_count || o->record))
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "a %s was given for the run, and %s has none: runs there end before the call does",
                        o->stream ? "stream" : "CUDA event", hyp_engine_device_name(c->engine));
    for (size_t i = 0; i < o->wait_count; i++)
        if (!o->wait || !o->wait[i])
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "options->wait%s is NULL: wanted are %zu events",
                            o->wait ? "[...], one of them," : "", o->wait_count);
    return HYP_OK;
}

hyp_status hyp_context_run_with(hyp_context *c, const hyp_tensor *inputs, size_t input_count, hyp_tensor *outputs,
                                size_t output_count, const hyp_run_options *given, hyp_diag *diag)
{
    HYP_TRY(hyp_want_context(c, "hyp_context_run_with", diag));
    hyp_run_options how = {.size = sizeof how};
    HYP_TRY(hyp_sized_take(&how, given, hyp_run_options, diag));
    HYP_TRY(check_options(c, &how, diag));
    if (!inputs && !outputs && !input_count && !output_count) return hyp_run_bound(c, &how, diag);
    return hyp_run_tensors(c, inputs, input_count, outputs, output_count, &how, NULL, diag);
}

void hyp_context_release_captured(hyp_context *c)
{
    if (!c || !c->engine->backend->release_captured) return;
    hyp_mem_account *before = hyp_mem_charge(&c->root->account);
    c->engine->backend->release_captured(c->session);
    hyp_mem_charge(before);
}
