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

int measure_open(session *s, const char *model, const hyp_compile_options *compile, const measure_options *o,
                 const cli_args *args)
{
    tempfile plan;
    hyp_diag diag = {0};
    hyp_compile_options options = *compile;
    int code = tempfile_open(&plan, args->tool);
    if (code != CLI_OK) return code;
    options.no_record = true; /* nobody asks this plan how it came to be */
    if (hyp_compile_file(model, plan.path, &options, NULL, &diag) != HYP_OK) code = cli_report(args->tool, &diag);
    session_options where = {.plan = plan.path, .device = o->device, .threads = o->threads};
    if (code == CLI_OK) code = measure_open_plan(s, &where, args);
    tempfile_close(&plan);
    return code;
}
