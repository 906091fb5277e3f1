/* Inference: /v2/models/NAME/infer. */
#include <string.h>

#include "exchange.h"

static void on_done(job *j)
{
    exchange *e = (exchange *)(void *)((char *)j - offsetof(exchange, job));
    e->resume(e);
}

bool infer_prepare(exchange *e)
{
    hyp_status status =
        models_find(&e->server->models, e->route.model, e->route.version, &e->model, &e->plan, &e->diag);
    if (status != HYP_OK) {
        answer_error(e, status == HYP_ERR_DEVICE ? 503 : 404, e->diag.message);
        return false;
    }
    const v2_signature *signature = served_plan_signature(e->plan);
    if (e->header_bytes > (int64_t)e->body_len) {
        refuse(&e->diag, HYP_ERR_MALFORMED, "Inference-Header-Content-Length is %lld; the body has only %zu bytes",
               (long long)e->header_bytes, e->body_len);
        status = HYP_ERR_MALFORMED;
    }
    if (status == HYP_OK)
        status = v2_request_read(e->body ? e->body : "", e->body_len, e->header_bytes, signature, &e->store,
                                 &e->request, &e->diag);
    e->job = (job){.inputs = e->request.inputs, .store = &e->store, .diag = &e->diag, .done = on_done};
    if (status == HYP_OK) {
        e->job.outputs = store_zeroed(&e->store, signature->output_count, sizeof *e->job.outputs);
        if (!e->job.outputs) status = refuse_memory(&e->diag);
    }
    if (status == HYP_OK) return true;
    answer_status(e, status);
    return false;
}

void infer_submit(exchange *e)
{
    if (served_plan_submit(e->plan, &e->job)) return; /* on_done may have been called: e is not ours any more */
    refuse(&e->diag, HYP_ERR_LIMIT, "as many requests wait for the model '%s' as may: try again later", e->model->name);
    answer_error(e, 429, e->diag.message);
    e->resume(e);
}

void infer_finish(exchange *e)
{
    if (e->job.status != HYP_OK) {
        answer_status(e, e->job.status);
        return;
    }
    const v2_signature *s = served_plan_signature(e->plan);
    v2_response response = {.model = e->model->name,
                            .id = e->request.id,
                            .version = e->model->version,
                            .signature = s,
                            .outputs = e->job.outputs,
                            .forms = e->request.forms};
    text json = {.store = &e->store};
    bool binary;
    v2_response_write(&response, &json, &binary);
    answer *a = &e->answer;
    answer_text(e, 200, binary ? "application/octet-stream" : "application/json", &json);
    if (a->code != 200 || !binary) return;
    answer_part *parts = store_zeroed(&e->store, s->output_count + 1, sizeof *parts);
    if (!parts) {
        answer_status(e, refuse_memory(&e->diag));
        return;
    }
    a->header_bytes = json.len;
    parts[0] = a->first;
    for (size_t i = 0; i < s->output_count; i++) {
        const hyp_tensor *t = &e->job.outputs[i];
        if (e->request.forms[i] != V2_BINARY || !t->bytes) continue;
        parts[a->count++] = (answer_part){t->data, t->bytes};
        a->len += t->bytes;
    }
    a->parts = parts;
}
