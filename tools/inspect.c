/* hypatia inspect - describes a plan. */
#include <stdlib.h>

#include "hypatia.h"
#include "signing.h"
#include "terminal.h"

enum { OPT_JSON, OPT_DIM, OPT_SIGNATURE, OPT_VERBOSE, OPT_HELP };

static const cli_option options[] = {
    [OPT_JSON] = {"json", 0, NULL, "print JSON"},
    [OPT_DIM] = {"dim", 0, "NAME=SIZE", "size of a symbolic dimension, for bytes and flops (1)"},
    [OPT_SIGNATURE] = {"require-signature", 0, "KEY.pub", "refuse a plan that is not signed by this key"},
    [OPT_VERBOSE] = {"verbose", 'v', NULL, "cut no line, however wide the terminal is"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static void help(void)
{
    printf("Usage: hypatia inspect PLAN.bin [options]\n"
           "Prints format, provenance, inputs, outputs and the steps with kernel, shapes, bytes, flops and rules.\n");
    cli_print_options(stdout, options);
}

int command_inspect(int argc, char **argv)
{
    cli_args args = cli_begin("hypatia inspect", options, argc, argv);
    const char *plan = NULL, *signer = NULL, *value;
    cli_list texts = {0};
    hyp_tensor *dims = NULL;
    size_t dim_count = 0;
    bool json = false, verbose = false;
    char *text = NULL;
    size_t text_bytes = 0;
    int option, code = CLI_USAGE;
    while ((option = cli_next(&args, &value)) != CLI_END) {
        if (option == CLI_ERROR) goto done;
        if (option == OPT_HELP) {
            help();
            code = CLI_OK;
            goto done;
        }
        if (option == OPT_JSON) {
            json = true;
        } else if (option == OPT_VERBOSE) {
            verbose = true;
        } else if (option == OPT_SIGNATURE) {
            signer = value;
        } else if (option == OPT_DIM) {
            cli_list_split(&texts, value);
        } else if (plan) {
            cli_usage_error(&args, "one plan at a time: '%s' is too much", value);
            goto done;
        } else {
            plan = value;
        }
    }
    if (!plan) {
        cli_usage_error(&args, "no plan was given");
        goto done;
    }
    dims = cli_alloc(NULL, texts.count, sizeof *dims);
    for (; dim_count < texts.count; dim_count++) {
        size_t len;
        dims[dim_count] = (hyp_tensor){.rank = 1};
        if (!cli_parse_dim(&args, texts.items[dim_count], &len, &dims[dim_count].dims[0])) goto done;
        dims[dim_count].name = cli_copy(texts.items[dim_count], len);
    }
    code = signing_require(plan, signer, args.tool);
    if (code != CLI_OK) goto done;
    hyp_diag diag = {0};
    FILE *to = json || verbose || !terminal_width(stdout) ? stdout : open_memstream(&text, &text_bytes);
    if (!to) {
        cli_error(args.tool, "out of memory");
        code = CLI_FAILED;
        goto done;
    }
    hyp_status status = hyp_plan_describe(plan, json, dims, dim_count, cli_write_file, to, &diag);
    if (to != stdout && fclose(to) == 0) terminal_print_lines(stdout, "", text);
    code = status == HYP_OK ? CLI_OK : cli_report(args.tool, &diag);
done:
    free(text);
    for (size_t i = 0; i < dim_count; i++) free((char *)dims[i].name);
    free(dims);
    cli_list_free(&texts);
    return code;
}
