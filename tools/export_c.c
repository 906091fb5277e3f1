/* hypatia export-c - a plan as a file of C99 with its weights, for small targets. */
#include "hypatia.h"
#include "hypatia/compiler.h"
#include "signing.h"

enum { OPT_OUTPUT, OPT_NAME, OPT_HEADER, OPT_WEIGHTS, OPT_SIGNATURE, OPT_HELP };

static const cli_option options[] = {
    [OPT_OUTPUT] = {"output", 'o', "FILE.c", "the file to write"},
    [OPT_NAME] = {"name", 0, "NAME", "of the function (model)"},
    [OPT_HEADER] = {"header", 0, "FILE.h", "write a header as well"},
    [OPT_WEIGHTS] = {"weights", 0, "FILE", "write the weights to a file of their own"},
    [OPT_SIGNATURE] = {"require-signature", 0, "KEY.pub", "refuse a plan that is not signed by this key"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static const char tool[] = "hypatia export-c";

static void help(void)
{
    printf("Usage: hypatia export-c PLAN.bin -o MODEL.c [--name NAME] [--header MODEL.h] [--weights FILE]\n"
           "Writes a plan of fixed sizes as one file of C99, which needs <math.h> and <stdint.h> alone and allocates nothing.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 3 there are steps that there is no C for, 5 incompatible plan.\n");
}

int command_export_c(int argc, char **argv)
{
    cli_args args = cli_begin(tool, options, argc, argv);
    const char *plan = NULL, *output = NULL, *signer = NULL, *value;
    hyp_export_c_options o = {.size = sizeof o};
    for (int option; (option = cli_next(&args, &value)) != CLI_END;) switch (option) {
        case CLI_ERROR: return CLI_USAGE;
        case OPT_HELP: help(); return CLI_OK;
        case OPT_OUTPUT: output = value; break;
        case OPT_NAME: o.name = value; break;
        case OPT_HEADER: o.header_path = value; break;
        case OPT_WEIGHTS: o.weights_path = value; break;
        case OPT_SIGNATURE: signer = value; break;
        default:
            if (plan) return cli_usage_error(&args, "one plan at a time: '%s' is too much", value);
            plan = value;
        }
    if (!plan) return cli_usage_error(&args, "no plan was given");
    if (!output) return cli_usage_error(&args, "no output was given: -o model.c");
    file_uses uses = {0};
    file_uses_add(&uses, "the plan", plan, false);
    file_uses_add(&uses, "--require-signature", signer, false);
    file_uses_add(&uses, "--output", output, true);
    file_uses_add(&uses, "--header", o.header_path, true);
    file_uses_add(&uses, "--weights", o.weights_path, true);
    int code = file_uses_check(&uses, &args);
    hyp_diag diag = {0};
    if (code == CLI_OK) code = signing_require(plan, signer, tool);
    if (code == CLI_OK && hyp_plan_export_c(plan, output, &o, &diag) != HYP_OK) code = cli_report(tool, &diag);
    return code;
}
