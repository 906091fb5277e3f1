/* hypatia tune - finds the fastest way to do a plan's steps on this GPU or CPU, and keeps it in the plan. */
#include "hypatia.h"
#include "tuning.h"

enum { OPT_CACHE = SESSION_OPTION_COUNT, OPT_SECONDS, OPT_OUTPUT, OPT_SIGN, OPT_QUIET };

static const cli_option options[] = {
    SESSION_OPTIONS,
    [OPT_CACHE] = {"cache", 0, "FILE", "read what was measured before, and add what is measured now"},
    [OPT_SECONDS] = {"seconds", 0, "S", "measure for about so long (60)"},
    [OPT_OUTPUT] = {"output", 'o', "FILE", "the plan to write; without it the plan is replaced"},
    [OPT_SIGN] = {"sign", 0, "KEY", "sign what is written with this private key"},
    [OPT_QUIET] = {"quiet", 'q', NULL, "print nothing"},
    {0},
};

static const char tool[] = "hypatia tune";

typedef struct request {
    session_options session;
    tune_request tune;
    const char *output;
} request;

static void help(void)
{
    printf(
        "Usage: hypatia tune PLAN.bin [--cache FILE] [-o TUNED.bin] [options]\n"
        "Tries the algorithms of the GPU's library for the products of the plan, and kernels compiled for its pointwise\n"
        "steps (where NVRTC is installed), for inputs of these dims, and writes the plan with what was found. With\n"
        "--device cpu: oneDNN on all threads and on one, and kernels of our own, for every step that several can do.\n"
        "--dim batch=1,8,32 tunes for every size that is listed, several lists for all combinations; what was found for\n"
        "other dims is kept. A size that was not tuned is run as the next larger one, up to twice as large. The device is\n"
        "cuda unless said.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 5 incompatible plan.\n");
}

static int read_option(void *opaque, const cli_args *args, int option, const char *value)
{
    request *r = opaque;
    switch (option) {
    case OPT_CACHE: r->tune.cache = value; return CLI_OK;
    case OPT_OUTPUT: r->output = value; return CLI_OK;
    case OPT_SIGN: r->tune.key = value; return CLI_OK;
    case OPT_QUIET: r->tune.quiet = true; return CLI_OK;
    case OPT_SECONDS:
        return cli_parse_double(value, 1e-3, &r->tune.seconds)
                   ? CLI_OK
                   : cli_usage_error(args, "--seconds: '%s' is no time", value);
    default: return session_read_option(&r->session, args, option, value);
    }
}

/* CLI_OK where what is written is none of what is read; the plan itself may be. */
static int check_files(const request *r, const cli_args *args)
{
    file_uses uses = {0};
    file_uses_add(&uses, "--cache", r->tune.cache, true);
    session_file_uses(&r->session, &uses);
    file_uses_add(&uses, "--sign", r->tune.key, false);
    int code = file_uses_check(&uses, args);
    file_uses_add(&uses, "--output", r->output, true);
    file_uses_add(&uses, "--cache", r->tune.cache, true);
    file_uses_add(&uses, "--sign", r->tune.key, false);
    file_uses_add(&uses, "--require-signature", r->session.signer, false);
    for (size_t i = 0; i < r->session.inputs.count; i++)
        file_uses_add_value(&uses, "--input", r->session.inputs.items[i], false);
    int second = file_uses_check(&uses, args);
    return code == CLI_OK ? second : code;
}

int command_tune(int argc, char **argv)
{
    request r = {.session.device = HYP_DEVICE_CUDA, .tune.seconds = 60};
    session s = {0};
    cli_args args = cli_begin(tool, options, argc, argv);
    int code;
    if (!session_read_arguments(&r.session, &args, read_option, &r, help, &code)) goto done;
    code = check_files(&r, &args);
    if (code == CLI_OK) code = session_open(&s, &r.session, tool);
    if (code == CLI_OK)
        code = tune_session(&s, &r.session, &r.tune, r.output ? r.output : r.session.plan, stdout, &args);
done:
    session_close(&s);
    session_options_free(&r.session);
    return code;
}
