/* hypatia run - runs a plan on inputs from files, writes or prints the outputs, and compares them with the
 * expected ones where a test_data_set folder has them. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folders.h"
#include "hypatia.h"

enum { OPT_OUTPUT = SESSION_OPTION_COUNT, OPT_RTOL, OPT_ATOL, OPT_QUIET };

static const cli_option options[] = {
    SESSION_OPTIONS,
    [OPT_OUTPUT] = {"output", 'o', "NAME=@FILE|-", "write an output; '-' prints every element of all"},
    [OPT_RTOL] = {"rtol", 0, "X", "relative tolerance for expected outputs (1e-3)"},
    [OPT_ATOL] = {"atol", 0, "X", "absolute tolerance for expected outputs (1e-5)"},
    [OPT_QUIET] = {"quiet", 'q', NULL, "print no outputs"},
    {0},
};

static const char tool[] = "hypatia run";

typedef struct request {
    session_options session;
    cli_list outputs; /* "y=@y.npy" */
    const char *folder;
    double rtol, atol;
    bool print_all, quiet;
} request;

static void help(void)
{
    printf("Usage: hypatia run PLAN.bin --input NAME=@FILE ... [--output NAME=@FILE ...]\n"
           "       hypatia run PLAN.bin --input FOLDER\n"
           "Runs a plan. A folder test_data_set_N has input_K.pb, and output_K.pb to compare with; a folder of such\n"
           "folders runs them all.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 4 mismatch, 5 incompatible plan.\n");
}

/* One option; CLI_OK to go on, CLI_USAGE after a message. */
static int read_option(void *opaque, const cli_args *args, int option, const char *value)
{
    request *r = opaque;
    switch (option) {
    case SESSION_INPUT:
        if (!is_folder(value)) return session_read_option(&r->session, args, option, value);
        if (r->folder) return cli_usage_error(args, "one folder at a time: '%s' and '%s' were given", r->folder, value);
        r->folder = value;
        return CLI_OK;
    case OPT_OUTPUT:
        if (strcmp(value, "-") == 0)
            r->print_all = true;
        else
            cli_list_split(&r->outputs, value);
        return CLI_OK;
    case OPT_RTOL: return read_tolerance(args, value, &r->rtol);
    case OPT_ATOL: return read_tolerance(args, value, &r->atol);
    case OPT_QUIET: r->quiet = true; return CLI_OK;
    default: return session_read_option(&r->session, args, option, value);
    }
}

/* ---- outputs --------------------------------------------------------------------------------------------- */

/* Prints the elements, one line per row of the last axis, at most `limit` of them. */
static void print_elements(const hyp_tensor *t, int64_t limit)
{
    int64_t count = hyp_tensor_elements(t), row = t->rank ? t->dims[t->rank - 1] : 1;
    int64_t shown = count < limit ? count : limit;
    for (int64_t i = 0; i < shown; i++) {
        fputs(i % row == 0 ? "  " : " ", stdout);
        if (t->dtype == HYP_I64)
            printf("%lld", (long long)((const int64_t *)t->data)[i]);
        else
            printf("%.9g", hyp_tensor_at(t, i));
        if (i % row == row - 1) putchar('\n');
    }
    if (shown < count)
        printf("%s  ... %lld of %lld elements shown\n", shown % row ? "\n" : "", (long long)shown, (long long)count);
}

static void print_output(const session *s, size_t i, int64_t limit)
{
    print_tensor_type(stdout, hyp_engine_output(s->engine, i)->name, &s->outputs[i]);
    putchar('\n');
    print_elements(&s->outputs[i], limit);
}

/* Does what one "NAME=@FILE" or "NAME=-" says. */
static int write_output(session *s, const char *text)
{
    const char *equals = strrchr(text, '=');
    size_t i = 0;
    for (; equals && i < s->output_count; i++) {
        const char *name = hyp_engine_output(s->engine, i)->name;
        if (strlen(name) == (size_t)(equals - text) && memcmp(name, text, (size_t)(equals - text)) == 0) break;
    }
    if (!equals || i == s->output_count) {
        fprintf(stderr, "%s: --output %s: the plan has no such output; its outputs are:", tool, text);
        for (i = 0; i < s->output_count; i++) fprintf(stderr, " %s", cli_shown(hyp_engine_output(s->engine, i)->name));
        fprintf(stderr, "\n");
        return CLI_USAGE;
    }
    if (strcmp(equals + 1, "-") == 0) {
        print_output(s, i, INT64_MAX);
        return CLI_OK;
    }
    hyp_tensor named = s->outputs[i];
    named.name = hyp_engine_output(s->engine, i)->name;
    hyp_diag diag = {0};
    return hyp_tensor_save(equals[1] == '@' ? equals + 2 : equals + 1, &named, &diag) == HYP_OK
               ? CLI_OK
               : cli_report(tool, &diag);
}

static int show_outputs(session *s, const request *r)
{
    for (size_t i = 0; i < r->outputs.count; i++) {
        int code = write_output(s, r->outputs.items[i]);
        if (code != CLI_OK) return code;
    }
    if (r->quiet || (r->outputs.count && !r->print_all)) return CLI_OK;
    for (size_t i = 0; i < s->output_count; i++) print_output(s, i, r->print_all ? INT64_MAX : 64);
    return CLI_OK;
}

/* ---- test data folders ------------------------------------------------------------------------------------ */

/* Compares with output_K.pb of the folder. *found counts the files. */
static int compare_folder(session *s, const request *r, const char *folder, size_t *found)
{
    int code = CLI_OK;
    for (size_t k = 0; k < s->output_count; k++) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s/output_%zu.pb", folder, k);
        if (stat(path, &st) != 0) continue;
        hyp_tensor expected = {0};
        hyp_diag diag = {0};
        if (hyp_tensor_load(path, NULL, &expected, &diag) != HYP_OK) return cli_report(tool, &diag);
        ++*found;
        int one =
            compare_tensors(hyp_engine_output(s->engine, k)->name, &s->outputs[k], &expected, r->rtol, r->atol, tool);
        if (one != CLI_OK) code = one;
        hyp_tensor_dispose(&expected);
    }
    return code;
}

/* A run over folders. */
typedef struct folder_run {
    session *session;
    const request *request;
    size_t found; /* expected outputs */
} folder_run;

static int run_folder(void *opaque, const char *folder)
{
    folder_run *f = opaque;
    session *s = f->session;
    printf("%s\n", folder);
    int code = session_load_folder(s, folder, tool);
    if (code == CLI_OK) code = session_make_outputs(s, tool);
    if (code == CLI_OK) code = session_run(s, tool);
    size_t before = f->found;
    if (code == CLI_OK) code = compare_folder(s, f->request, folder, &f->found);
    if (code == CLI_OK && f->found == before) code = show_outputs(s, f->request);
    return code;
}

static int run_folders(session *s, const request *r)
{
    folder_run f = {s, r, 0};
    int code = for_data_sets(r->folder, run_folder, &f);
    if (f.found) print_passed(code);
    return code;
}

/* CLI_OK where what is written is none of what is read. */
static int check_files(const request *r, const cli_args *args)
{
    file_uses uses = {0};
    for (size_t i = 0; i < r->outputs.count; i++) file_uses_add_value(&uses, "--output", r->outputs.items[i], true);
    session_file_uses(&r->session, &uses);
    if (r->folder) file_uses_add_folder(&uses, "--input", r->folder);
    return file_uses_check(&uses, args);
}

int command_run(int argc, char **argv)
{
    request r = {.rtol = 1e-3, .atol = 1e-5};
    session s = {0};
    cli_args args = cli_begin(tool, options, argc, argv);
    int code;
    if (!session_read_arguments(&r.session, &args, read_option, &r, help, &code)) goto done;
    if (r.folder && r.session.dims.count) {
        cli_usage_error(&args, "the files of a folder have their sizes: --dim cannot be combined with it");
        goto done;
    }
    if (r.folder && r.session.inputs.count) {
        cli_usage_error(&args, "a folder and single inputs cannot be combined");
        goto done;
    }
    code = check_files(&r, &args);
    if (code == CLI_OK) code = session_open(&s, &r.session, tool);
    if (code == CLI_OK && r.folder) {
        code = run_folders(&s, &r);
    } else if (code == CLI_OK) {
        code = session_make_inputs(&s, &r.session, NULL, &args);
        if (code == CLI_OK) code = session_make_outputs(&s, tool);
        if (code == CLI_OK) code = session_run(&s, tool);
        if (code == CLI_OK && r.session.verbose) print_all_choices(stderr, &s, tool);
        if (code == CLI_OK) code = show_outputs(&s, &r);
    }
done:
    session_close(&s);
    session_options_free(&r.session);
    cli_list_free(&r.outputs);
    return code;
}
