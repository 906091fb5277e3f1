/* What the plan of a graph takes by the cost model, and what tells plans apart. */
#include <string.h>

#include "driver/driver.h"

/* ---- steps ------------------------------------------------------------------------------------------------- */

/* A message in the wire format behind what is there. */
static hyp_status append(hyp_strbuf *sb, const ProtobufCMessage *message, hyp_diag *diag)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = hyp_malloc(size + 1);
    if (!packed) return hyp_fail_memory(diag, size);
    hyp_strbuf_add(sb, (const char *)packed, protobuf_c_message_pack(message, packed));
    hyp_free(packed);
    return sb->failed ? hyp_fail_memory(diag, sb->len) : HYP_OK;
}

/* A hash of what steps do and to what tensors, without names, provenance and predictions. */
static hyp_status hash_steps(const HypPlan__Program *program, uint64_t *out, hyp_diag *diag)
{
    static char none[] = "";
    hyp_strbuf sb = {0};
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < program->n_steps && status == HYP_OK; i++) {
        HypPlan__Step step = *program->steps[i];
        step.label = none;
        step.n_rules = step.n_sources = 0;
        step.price = none;
        step.predicted_seconds = step.share = 0;
        status = append(&sb, &step.base, diag);
    }
    for (size_t i = 0; i < program->n_tensors && status == HYP_OK; i++) {
        HypPlan__Tensor tensor = *program->tensors[i];
        tensor.name = none;
        status = append(&sb, &tensor.base, diag);
    }
    *out = hyp_hash(hyp_strbuf_text(&sb), sb.len, 0);
    hyp_strbuf_dispose(&sb);
    return status;
}

/* ---- layers in 8 bits ---------------------------------------------------------------------------------------- */

/* The graph with the layers in 8 bits that it will have; their scales play no part in what they take. */
static hyp_status quantize_unseen(const hyp_graph *g, hyp_graph *opened, hyp_graph *out, hyp_diag *diag)
{
    hyp_calibration calibration;
    hyp_strbuf layers = {0};
    HYP_TRY(hyp_graph_open_layers(g, opened, diag));
    HYP_TRY(hyp_calibration_init(&calibration, opened, diag));
    hyp_status status = hyp_graph_quantize(&calibration, out, &layers, diag);
    hyp_calibration_dispose(&calibration);
    hyp_strbuf_dispose(&layers);
    return status;
}

/* ---- plans ----------------------------------------------------------------------------------------------------- */

static hyp_status price_plan(hyp_settings *s, const hyp_graph *g, hyp_rewrite_price *out, hyp_diag *diag)
{
    hyp_codegen_options options = hyp_settings_codegen(s);
    hyp_lowered lowered;
    options.explain = NULL;
    HYP_TRY(hyp_codegen_lower(g, &options, &lowered, diag));
    out->seconds = hyp_plan_predicted(lowered.program);
    out->work = hyp_plan_predicted_steps(lowered.program);
    hyp_status status = hash_steps(lowered.program, &out->steps, diag);
    hyp_lowered_dispose(&lowered);
    return status;
}

hyp_status hyp_price(const hyp_graph *g, hyp_rewrite_price *out, void *settings, hyp_diag *diag)
{
    hyp_settings *s = settings;
    if (s->precision != HYP_PRECISION_FP8) return price_plan(s, g, out, diag);
    hyp_graph opened, quantized;
    hyp_graph_init(&opened, g->dims);
    hyp_graph_init(&quantized, g->dims);
    hyp_status status = quantize_unseen(g, &opened, &quantized, diag);
    if (status == HYP_OK) status = price_plan(s, &quantized, out, diag);
    hyp_graph_dispose(&quantized);
    hyp_graph_dispose(&opened);
    return status;
}
