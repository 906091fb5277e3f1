/* egraph_program.c - hypatia-egraph run: egglog programs. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "egraph_tool.h"
#include "hypatia/egglog.h"

enum { RUN_SECONDS, RUN_BYTES, RUN_ROWS, RUN_NO_FILES, RUN_TIMES, RUN_HELP };

static const cli_option run_options[] = {
    [RUN_SECONDS] = {"seconds", 0, "S", "limit of time for each program (none)"},
    [RUN_BYTES] = {"bytes", 0, "N", "limit of the database's memory in bytes (half of what the machine has available)"},
    [RUN_ROWS] = {"rows", 0, "N", "limit of rows in all tables (none)"},
    [RUN_NO_FILES] = {"no-files", 0, NULL, "refuse (include ..) and (input ..): for programs that are not trusted"},
    [RUN_TIMES] = {"times", 0, NULL, "after each program, what its last run did, on standard error"},
    [RUN_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static hyp_egglog *running; /* what SIGINT stops */

static void stop_running(int signal)
{
    (void)signal;
    hyp_egglog_cancel(running);
}

static void write_out(const char *text, size_t len, void *unused)
{
    (void)unused;
    fwrite(text, 1, len, stdout);
}

static void print_times(const hyp_egglog *db, const char *path)
{
    hyp_egglog_report r = {.size = sizeof r};
    if (hyp_egglog_last_run(db, &r, NULL) != HYP_OK) return;
    fprintf(stderr, "%s: %zu iterations, %zu matches, %.4f s search and apply, %.4f s rebuild\n", path, r.iterations,
            r.matches, r.search_apply_seconds, r.rebuild_seconds);
}

/* One program in a database of its own. */
static int run_program(const cli_args *args, const char *path, const hyp_egglog_options *options, bool times)
{
    hyp_diag diag = {0};
    size_t len;
    char *text = read_text_file(args, path, &len);
    if (!text) return CLI_FAILED;
    hyp_egglog *db = NULL;
    hyp_status status = hyp_egglog_create(options, &db, &diag);
    if (status == HYP_OK) {
        running = db;
        void (*before)(int) = signal(SIGINT, stop_running);
        status = hyp_egglog_run(db, path, text, len, &diag);
        signal(SIGINT, before);
        if (times) print_times(db, path);
    }
    hyp_egglog_destroy(db);
    free(text);
    return status == HYP_OK ? CLI_OK : cli_report(args->tool, &diag);
}

static bool read_positive(const cli_args *args, const char *name, const char *value, size_t *out)
{
    int64_t n;
    if (!cli_parse_int(value, 1, INT64_MAX, &n)) {
        cli_usage_error(args, "--%s: '%s' is no positive number", name, value);
        return false;
    }
    *out = (size_t)n;
    return true;
}

int command_run(int argc, char **argv)
{
    cli_args args = cli_begin("hypatia-egraph run", run_options, argc, argv);
    hyp_egglog_options options = {.size = sizeof options, .max_bytes = most_bytes(), .write = write_out};
    cli_list programs = {0};
    const char *value;
    int option, code = CLI_OK;
    bool times = false, good = true;
    while (good && (option = cli_next(&args, &value)) != CLI_END) {
        switch (option) {
        case RUN_HELP:
            printf("Usage: hypatia-egraph run PROGRAM.egg ... [options]\n"
                   "Runs egglog programs, each in a database of its own, and prints what they extract.\n");
            cli_print_options(stdout, run_options);
            cli_list_free(&programs);
            return CLI_OK;
        case RUN_SECONDS:
            good = cli_parse_double(value, 1e-9, &options.max_seconds);
            if (!good) cli_usage_error(&args, "--seconds: '%s' is no positive number of seconds", value);
            break;
        case RUN_BYTES: good = read_positive(&args, "bytes", value, &options.max_bytes); break;
        case RUN_ROWS: good = read_positive(&args, "rows", value, &options.max_rows); break;
        case RUN_NO_FILES: options.no_files = true; break;
        case RUN_TIMES: times = true; break;
        case CLI_POSITIONAL: cli_list_add(&programs, value, strlen(value)); break;
        default: good = false; break;
        }
    }
    if (good && !programs.count) good = cli_usage_error(&args, "a program is needed") == CLI_OK;
    if (!good) code = CLI_USAGE;
    for (size_t i = 0; good && i < programs.count; i++) {
        int result = run_program(&args, programs.items[i], &options, times);
        if (result != CLI_OK) code = result;
    }
    cli_list_free(&programs);
    return code;
}
