/* A plan with inputs of its typical sizes, to be timed. */
#include "measure_plan.h"

#include <stdlib.h>
#include <string.h>

void measure_typical_dims(const session *s, cli_list *out)
{
    for (size_t i = 0; i < s->input_count; i++) {
        const hyp_io_info *info = hyp_engine_input(s->engine, i);
        for (int32_t a = 0; a < info->rank; a++) {
            if (!info->symbols[a]) continue;
            char size[32];
            int64_t typical = hyp_engine_typical_size(s->engine, info->symbols[a]);
            int digits = snprintf(size, sizeof size, "=%lld", (long long)(typical > 0 ? typical : 1));
            size_t len = strlen(info->symbols[a]);
            char *text = cli_alloc(NULL, len + sizeof size, 1);
            memcpy(text, info->symbols[a], len);
            memcpy(text + len, size, (size_t)digits + 1);
            bool known = false;
            for (size_t k = 0; k < out->count; k++) known = known || strncmp(out->items[k], text, len + 1) == 0;
            if (!known) cli_list_add(out, text, strlen(text));
            free(text);
        }
    }
}

/* Runs once. Random integers may be no indices of the model's tables; zeros always are. */
static int try_run(session *s, const char *tool)
{
    hyp_diag diag = {0};
    for (size_t i = 0; i < s->input_count; i++) s->inputs[i].name = NULL; /* by position */
    hyp_status status = hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, &diag);
    if (status != HYP_ERR_INVALID_ARGUMENT) return status == HYP_OK ? CLI_OK : cli_report(tool, &diag);
    for (size_t i = 0; i < s->input_count; i++)
        if (s->inputs[i].dtype == HYP_I64 || s->inputs[i].dtype == HYP_I32)
            memset(s->inputs[i].data, 0, s->inputs[i].bytes);
    status = hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, &diag);
    return status == HYP_OK ? CLI_OK : cli_report(tool, &diag);
}

int measure_open_plan(session *s, const session_options *where, const cli_args *args)
{
    session_options options = {
        .plan = where->plan, .device = where->device, .device_index = where->device_index, .threads = where->threads};
    int code = session_open(s, &options, args->tool);
    if (code == CLI_OK) {
        measure_typical_dims(s, &options.dims);
        code = session_make_inputs(s, &options, "random:0", args);
    }
    session_options_free(&options);
    if (code == CLI_OK) code = session_make_outputs(s, args->tool);
    return code == CLI_OK ? try_run(s, args->tool) : code;
}
