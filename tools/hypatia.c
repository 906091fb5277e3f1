/* hypatia - runs plans: run, bench, tune, train, export, export-c, inspect, diff, report, verify, serve, triton, keygen, sign. docs/cli.md
 * describes it. */
#include <string.h>

#include "hypatia.h"

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "run a plan on inputs from files", command_run},
    {"bench", "time a plan", command_bench},
    {"tune", "find the fastest products for this GPU", command_tune},
    {"train", "train a plan of hypatiac --train", command_train},
    {"export", "make a model of a plan and what was trained", command_export},
    {"export-c", "write a plan as a file of C99", command_export_c},
    {"inspect", "describe a plan: provenance, steps, bytes, flops", command_inspect},
    {"diff", "say in what two plans differ", command_diff},
    {"report", "make a page of a plan: what it is, how it came to be", command_report},
    {"verify", "compare a plan with the model it came from", command_verify},
    {"serve", "serve plans by HTTP", command_serve},
    {"triton", "make a model of Triton Inference Server of a plan", command_triton},
    {"keygen", "make a key for signing plans", command_keygen},
    {"sign", "sign a plan", command_sign},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static const cli_option options[] = {
    {"help", 'h', NULL, "print this help"},
    {"version", 0, NULL, "print the version"},
    {0},
};

static void help(FILE *to)
{
    fprintf(to, "Usage: hypatia COMMAND ... ('hypatia COMMAND --help' says more)\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    cli_print_options(to, options);
    fprintf(to, "\nExit codes: 0 ok, 1 error, 2 usage, 3 not supported, 4 mismatch, 5 incompatible plan.\n");
}

static int run_command(int argc, char **argv)
{
    cli_args args = cli_begin("hypatia", options, argc, argv);
    const char *name;
    switch (cli_next(&args, &name)) {
    case 0: help(stdout); return CLI_OK;
    case 1:
        cli_print_version("hypatia");
        fputs(hyp_version_details(), stdout);
        return CLI_OK;
    case CLI_ERROR: return CLI_USAGE;
    case CLI_END: help(stderr); return CLI_USAGE;
    default: break;
    }
    const char *names[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
        if (strcmp(name, names[i]) == 0) return commands[i].run(argc - 1, argv + 1);
    }
    const char *near = cli_nearest(name, names, COMMAND_COUNT);
    return near ? cli_usage_error(&args, "unknown command '%s'; did you mean '%s'?", name, near)
                : cli_usage_error(&args, "unknown command '%s'", name);
}

int main(int argc, char **argv)
{
    cli_guard_streams();
    return cli_end("hypatia", run_command(argc, argv));
}
