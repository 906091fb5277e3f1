#include "resident.h"

#include <stdlib.h>
#include <string.h>

static hyp_status make_twins(session *s, const hyp_tensor *of, size_t count, hyp_tensor *out, hyp_diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = of[i];
        out[i].name = NULL; /* by position */
        out[i].data = NULL;
    }
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < count && status == HYP_OK; i++) {
        status = hyp_engine_tensor_alloc(s->engine, &out[i], diag);
        if (status == HYP_OK) status = hyp_engine_tensor_copy(s->engine, &of[i], &out[i], diag);
    }
    return status;
}

int resident_open(resident *r, session *s, const char *tool)
{
    hyp_diag diag = {0};
    r->inputs = cli_alloc(NULL, s->input_count + 1, sizeof *r->inputs);
    r->outputs = cli_alloc(NULL, s->output_count + 1, sizeof *r->outputs);
    memset(r->outputs, 0, (s->output_count + 1) * sizeof *r->outputs); /* should the inputs fail */
    for (size_t i = 0; i < s->output_count; i++)
        if (s->outputs[i].bytes) memset(s->outputs[i].data, 0xff, s->outputs[i].bytes);
    hyp_status status = make_twins(s, s->inputs, s->input_count, r->inputs, &diag);
    if (status == HYP_OK) status = make_twins(s, s->outputs, s->output_count, r->outputs, &diag);
    return status == HYP_OK ? CLI_OK : cli_report(tool, &diag);
}

void resident_use(resident *r, session *s, bool on_device)
{
    if (!r->inputs || r->in_use == on_device) return;
    hyp_tensor *inputs = s->inputs, *outputs = s->outputs;
    s->inputs = r->inputs;
    s->outputs = r->outputs;
    r->inputs = inputs;
    r->outputs = outputs;
    r->in_use = on_device;
}

int resident_fetch(resident *r, session *s, const char *tool)
{
    hyp_diag diag = {0};
    hyp_status status = hyp_context_synchronize(s->context, &diag);
    resident_use(r, s, false);
    for (size_t i = 0; i < s->output_count && status == HYP_OK; i++)
        status = hyp_engine_tensor_copy(s->engine, &r->outputs[i], &s->outputs[i], &diag);
    return status == HYP_OK ? CLI_OK : cli_report(tool, &diag);
}

void resident_close(resident *r, session *s)
{
    resident_use(r, s, false);
    for (size_t i = 0; r->inputs && i < s->input_count; i++) hyp_engine_tensor_free(s->engine, &r->inputs[i]);
    for (size_t i = 0; r->outputs && i < s->output_count; i++) hyp_engine_tensor_free(s->engine, &r->outputs[i]);
    free(r->inputs);
    free(r->outputs);
    *r = (resident){0};
}
