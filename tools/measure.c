#include "measure.h"

#include <stdlib.h>
#include <string.h>

#include "tempfile.h"

static bool is_normal(const char *ruleset)
{
    return strcmp(ruleset, "normalize") == 0 || strcmp(ruleset, "recognize") == 0 || strcmp(ruleset, "linear") == 0;
}

int normal_rules(const hyp_compile_options *options, cli_list *out, const char *tool)
{
    hyp_compile_report *report;
    hyp_diag diag = {0};
    if (hyp_compile_list_rules(options, &report, &diag) != HYP_OK) return cli_report(tool, &diag);
    for (size_t i = 0; i < report->rule_count; i++) {
        const hyp_compile_rule_use *rule = report->rules[i];
        if (is_normal(rule->ruleset)) cli_list_add(out, rule->name, strlen(rule->name));
    }
    hyp_compile_report_destroy(report);
    return CLI_OK;
}

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

int measure_open_plan(session *s, const char *plan, const measure_options *o, const cli_args *args)
{
    session_options options = {.plan = plan, .device = o->device, .threads = o->threads};
    int code = session_open(s, &options, args->tool);
    if (code == CLI_OK) {
        measure_typical_dims(s, &options.dims);
        code = session_make_inputs(s, &options, "random:0", args);
    }
    session_options_free(&options);
    if (code == CLI_OK) code = session_make_outputs(s, args->tool);
    return code == CLI_OK ? try_run(s, args->tool) : code;
}

int measure_open(session *s, const char *model, const hyp_compile_options *compile, const measure_options *o,
                 const cli_args *args)
{
    tempfile plan;
    hyp_diag diag = {0};
    int code = tempfile_open(&plan, args->tool);
    if (code != CLI_OK) return code;
    if (hyp_compile_file(model, plan.path, compile, NULL, &diag) != HYP_OK) code = cli_report(args->tool, &diag);
    if (code == CLI_OK) code = measure_open_plan(s, plan.path, o, args);
    tempfile_close(&plan);
    return code;
}
