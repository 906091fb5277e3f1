#include "measure.h"

#include <stdlib.h>
#include <string.h>

#include "hypatia/nn.h"
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

const char *measure_target(const char *target, const char *tool)
{
    static const struct {
        const char *of_name, *target;
    } known[] = {{"H200", "cuda:h200"}, {"H100", "cuda:h100"}};
    if (strcmp(target, "cuda:native") != 0) return target;
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_nn *gpu;
    hyp_diag diag = {0};
    if (hyp_nn_create(&options, NULL, &gpu, &diag) != HYP_OK) {
        cli_error(tool, "--target cuda:native: %s", diag.message);
        return NULL;
    }
    const char *found = NULL, *name = hyp_nn_device_name(gpu);
    for (size_t i = 0; i < sizeof known / sizeof *known && !found; i++)
        if (strstr(name, known[i].of_name)) found = known[i].target;
    if (!found)
        cli_error(tool, "--target cuda:native: no costs of '%s' are built in; --calibrate measures them for --profile, "
                        "--target cuda counts with those of an H200", name);
    hyp_nn_destroy(gpu);
    return found;
}
