/* emit.c - the optimized graph as a file that others read. */
#include "driver/driver.h"

static void forget(void *model, const void *data, size_t bytes) { hyp_onnx_model_forget(model, data, bytes); }

hyp_status hyp_emit_onnx(const hyp_graph *graph, const hyp_settings *settings, hyp_onnx_model *model, hyp_diag *diag)
{
    const hyp_compile_options *o = &settings->options;
    hyp_onnx_write_options options = {.domain = o->emit_onnx_domain,
                                      .name = hyp_onnx_model_info(model).graph_name,
                                      .fold = settings->fold,
                                      .most = o->emit_onnx_most,
                                      .forget = forget,
                                      .user = model};
    hyp_strbuf beside = {0}; /* where weights may go */
    hyp_strbuf_printf(&beside, "%s.data", o->emit_onnx);
    hyp_status status = beside.failed ? hyp_fail_memory(diag, beside.len) : HYP_OK;
    if (status == HYP_OK && hyp_onnx_model_reads(model, beside.data))
        status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                          "would overwrite external data of the model, %s, with weights; write to another file",
                          beside.data);
    hyp_strbuf_dispose(&beside);
    if (status == HYP_OK) status = hyp_onnx_write(graph, o->emit_onnx, &options, diag);
    if (status != HYP_OK) hyp_diag_prefix(diag, "%s", o->emit_onnx);
    return status;
}
