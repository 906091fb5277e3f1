/* hypatia keygen and hypatia sign - keys, and plans signed with them. */
#include "hypatia.h"
#include "signing.h"

/* ---- keygen ------------------------------------------------------------------------------------------------ */

enum { KEYGEN_HELP };
static const cli_option keygen_options[] = {
    [KEYGEN_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static void help_keygen(void)
{
    printf("Usage: hypatia keygen KEY\n"
           "Makes a key of Ed25519 for signing plans: the private one in KEY, for 'hypatia sign', which nobody else "
           "should\n"
           "have, and the public one in KEY.pub, for --require-signature. Nothing is overwritten.\n");
    cli_print_options(stdout, keygen_options);
}

int command_keygen(int argc, char **argv)
{
    cli_args args = cli_begin("hypatia keygen", keygen_options, argc, argv);
    const char *path = NULL, *value;
    for (int option; (option = cli_next(&args, &value)) != CLI_END;) switch (option) {
        case CLI_ERROR: return CLI_USAGE;
        case KEYGEN_HELP: help_keygen(); return CLI_OK;
        default:
            if (path) return cli_usage_error(&args, "one key at a time: '%s' is too much", value);
            path = value;
        }
    if (!path) return cli_usage_error(&args, "no file was given for the key");
    hyp_diag diag = {0};
    return hyp_key_generate(path, &diag) == HYP_OK ? CLI_OK : cli_report(args.tool, &diag);
}

/* ---- sign -------------------------------------------------------------------------------------------------- */

enum { SIGN_KEY, SIGN_OUTPUT, SIGN_HELP };
static const cli_option sign_options[] = {
    [SIGN_KEY] = {"key", 'k', "KEY",
                  "the private key: of 'hypatia keygen', or of 'openssl genpkey -algorithm ed25519'"},
    [SIGN_OUTPUT] = {"output", 'o', "FILE", "the plan to write; without it the plan is replaced"},
    [SIGN_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static void help_sign(void)
{
    printf("Usage: hypatia sign PLAN.bin --key KEY [-o SIGNED.bin]\n"
           "Signs a plan, in place of the signature that it may have. --require-signature KEY.pub then takes it.\n");
    cli_print_options(stdout, sign_options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 3 there is no libsodium, 5 incompatible plan.\n");
}

int command_sign(int argc, char **argv)
{
    cli_args args = cli_begin("hypatia sign", sign_options, argc, argv);
    const char *plan = NULL, *key = NULL, *output = NULL, *value;
    for (int option; (option = cli_next(&args, &value)) != CLI_END;) switch (option) {
        case CLI_ERROR: return CLI_USAGE;
        case SIGN_HELP: help_sign(); return CLI_OK;
        case SIGN_KEY: key = value; break;
        case SIGN_OUTPUT: output = value; break;
        default:
            if (plan) return cli_usage_error(&args, "one plan at a time: '%s' is too much", value);
            plan = value;
        }
    if (!plan) return cli_usage_error(&args, "no plan was given");
    if (!key) return cli_usage_error(&args, "no key was given: --key KEY");
    file_uses uses = {0};
    file_uses_add(&uses, "--key", key, false);
    file_uses_add(&uses, output ? "--output" : "the plan", output ? output : plan, true);
    int code = file_uses_check(&uses, &args);
    hyp_diag diag = {0};
    if (code == CLI_OK && hyp_plan_sign(plan, key, output, &diag) != HYP_OK) code = cli_report(args.tool, &diag);
    return code;
}
