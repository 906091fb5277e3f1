/* hypatia diff - in what two plans differ: steps, rules, prices, sizes, flags, dims, weights. */
#include <stdlib.h>
#include <string.h>

#include "diff_plans.h"
#include "hypatia.h"
#include "signing.h"

enum { OPT_JSON, OPT_SIGNATURE, OPT_HELP };

static const cli_option options[] = {
    [OPT_JSON] = {"json", 0, NULL, "print JSON"},
    [OPT_SIGNATURE] = {"require-signature", 0, "KEY.pub", "refuse plans that are not signed by this key"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static const char tool[] = "hypatia diff";

enum { SAME = 0, DIFFERENT = 1, TROUBLE = 2 }; /* as of diff */

static void help(void)
{
    printf("Usage: hypatia diff A.bin B.bin [options]\n"
           "Says in what two plans differ: flags, sizes, dims, weights, and step by step rules and prices.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 the same, 1 different, 2 usage or a plan that cannot be read, 5 incompatible plan.\n");
}

/* ---- the command ------------------------------------------------------------------------------------------- */

static int describe(const char *path, const char *signer, json_t **out)
{
    hyp_diag diag = {0};
    diff_text t = {0};
    int code = signing_require(path, signer, tool);
    if (code == CLI_OK && hyp_plan_describe(path, true, NULL, 0, diff_collect, &t, &diag) != HYP_OK)
        code = cli_report(tool, &diag);
    if (code != CLI_OK) return code == CLI_FAILED ? TROUBLE : code;
    *out = diff_read(&t);
    if (*out) return SAME;
    fprintf(stderr, "%s: %s: its description cannot be read\n", tool, path);
    return TROUBLE;
}

static int compare(const char *a_path, const char *b_path, const char *signer, bool json)
{
    json_t *a = NULL, *b = NULL;
    int code = describe(a_path, signer, &a);
    if (code == SAME) code = describe(b_path, signer, &b);
    if (code == SAME) {
        json_t *diff = diff_plans(a, b);
        json_object_set_new(diff, "a", json_string(a_path));
        json_object_set_new(diff, "b", json_string(b_path));
        code = json_is_true(json_object_get(diff, "same")) ? SAME : DIFFERENT;
        if (json && json_dumpf(diff, stdout, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6)) == 0)
            printf("\n");
        else if (!json)
            diff_print(diff);
        json_decref(diff);
    }
    json_decref(a);
    json_decref(b);
    return code;
}

int command_diff(int argc, char **argv)
{
    cli_args args = cli_begin(tool, options, argc, argv);
    const char *paths[2] = {NULL, NULL}, *signer = NULL, *value;
    size_t count = 0;
    bool json = false;
    for (int option; (option = cli_next(&args, &value)) != CLI_END;) switch (option) {
        case CLI_ERROR: return CLI_USAGE;
        case OPT_HELP: help(); return CLI_OK;
        case OPT_JSON: json = true; break;
        case OPT_SIGNATURE: signer = value; break;
        default:
            if (count == 2) return cli_usage_error(&args, "two plans are compared: '%s' is one more", value);
            paths[count++] = value;
        }
    if (count < 2) return cli_usage_error(&args, "two plans are wanted");
    return compare(paths[0], paths[1], signer, json);
}
