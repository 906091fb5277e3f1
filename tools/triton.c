/* hypatia triton - a plan as a model of Triton Inference Server: a folder of its repository. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folders.h"
#include "hypatia.h"
#include "rows.h"
#include "triton_types.h"

enum {
    OPT_OUTPUT,
    OPT_NAME,
    OPT_BATCH,
    OPT_DELAY,
    OPT_INSTANCES,
    OPT_GPU,
    OPT_THREADS,
    OPT_VERSION,
    OPT_SIGNATURE,
    OPT_HELP
};

static const cli_option options[] = {
    [OPT_OUTPUT] = {"output", 'o', "FOLDER", "the model repository, made where there is none"},
    [OPT_NAME] = {"name", 0, "NAME", "of the model (that of the plan's file)"},
    [OPT_BATCH] = {"max-batch", 0, "B",
                   "rows that requests are joined to at most; 0: none (64 where rows are independent)"},
    [OPT_DELAY] = {"delay", 0, "MICROSECONDS", "how long a request waits for others to be joined with (0)"},
    [OPT_INSTANCES] = {"instances", 0, "K", "runs at once: contexts of one engine, on a GPU for each GPU (1)"},
    [OPT_GPU] = {"gpu", 0, NULL, "run on the server's GPUs, not on the CPU"},
    [OPT_THREADS] = {"threads", 0, "N", "CPU threads of one run (as the server's environment says, else all)"},
    [OPT_VERSION] = {"model-version", 0, "N", "the version's folder (1)"},
    [OPT_SIGNATURE] = {"require-signature", 0, "KEY.pub", "refuse a plan that is not signed by this key"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

static const char tool[] = "hypatia triton";

enum { DEFAULT_BATCH = 64, MOST_BATCH = 1 << 20, MOST_INSTANCES = 1024, MOST_THREADS = 1024, NOT_SAID = -1 };

typedef struct request {
    session_options session;
    const char *output, *name;
    int64_t batch, delay, instances, threads, version;
    bool gpu;
    char folder[PATH_MAX], version_folder[PATH_MAX], plan[PATH_MAX], config[PATH_MAX]; /* that are written */
} request;

static void help(void)
{
    printf("Usage: hypatia triton PLAN.bin -o REPOSITORY [--name NAME] [--max-batch B] [--instances K] [--gpu]\n"
           "Writes REPOSITORY/NAME/config.pbtxt and REPOSITORY/NAME/1/" TRITON_PLAN_FILE
           ", which tritonserver serves by\n"
           "libtriton_hypatia.so. Requests are joined where samples show that rows of the outputs are independent.\n");
    cli_print_options(stdout, options);
    printf("\nExit codes: 0 ok, 1 error, 2 usage, 3 Triton lacks a type, 4 rows depend on each other, 5 incompatible "
           "plan.\n");
}

/* ---- config.pbtxt ------------------------------------------------------------------------------------------ */

/* As protobuf's text format has strings. */
static void print_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c < ' ' || *c >= 0x7f)
            fprintf(to, "\\%03o", *c);
        else
            fputc(*c, to);
    fputc('"', to);
}

/* Triton wants one dim at least: what has none beside the rows is [1] to clients, and reshaped. */
static void print_tensor(FILE *to, const char *what, const hyp_io_info *info, int32_t first)
{
    fprintf(to, "%s {\n  name: ", what);
    print_text(to, info->name);
    fprintf(to, "\n  data_type: %s\n  dims: [", triton_type_name(info->dtype));
    for (int32_t a = first; a < info->rank; a++) fprintf(to, "%s %lld", a > first ? "," : "", (long long)info->dims[a]);
    fputs(info->rank == first ? " 1 ]\n  reshape { shape: [ ] }\n}\n" : " ]\n}\n", to);
}

static void print_config(FILE *to, const request *r, const hyp_engine *engine)
{
    int32_t first = r->batch > 0;
    fprintf(to, "# hypatia triton; docs/serving-triton.md tells of it.\nname: ");
    print_text(to, r->name);
    fprintf(to, "\nbackend: \"hypatia\"\ndefault_model_filename: \"" TRITON_PLAN_FILE "\"\nmax_batch_size: %lld\n",
            (long long)r->batch);
    for (size_t i = 0; i < hyp_engine_input_count(engine); i++)
        print_tensor(to, "input", hyp_engine_input(engine, i), first);
    for (size_t i = 0; i < hyp_engine_output_count(engine); i++)
        print_tensor(to, "output", hyp_engine_output(engine, i), first);
    fprintf(to, "instance_group {\n  kind: %s\n  count: %lld\n}\n", r->gpu ? "KIND_GPU" : "KIND_CPU",
            (long long)r->instances);
    if (r->batch > 0 && r->delay > 0)
        fprintf(to, "dynamic_batching {\n  max_queue_delay_microseconds: %lld\n}\n", (long long)r->delay);
    else if (r->batch > 0)
        fprintf(to, "dynamic_batching {\n}\n");
    if (r->threads > 0)
        fprintf(to, "parameters {\n  key: \"threads\"\n  value { string_value: \"%lld\" }\n}\n", (long long)r->threads);
}

/* ---- what can be served ------------------------------------------------------------------------------------ */

static int check_tensor(const char *what, const hyp_io_info *info)
{
    if (!triton_type_name(info->dtype)) {
        cli_error(tool, "%s '%s' is %s, which Triton has no type for", what, cli_shown(info->name),
                  hyp_dtype_name(info->dtype));
        return CLI_UNSUPPORTED;
    }
    for (int32_t a = 0; a < info->rank; a++)
        if (info->dims[a] == 0) {
            cli_error(tool, "%s '%s' has no elements, which Triton does not serve", what, cli_shown(info->name));
            return CLI_UNSUPPORTED;
        }
    return CLI_OK;
}

static int check_plan(const hyp_engine *engine)
{
    int code = CLI_OK;
    if (hyp_engine_variable_count(engine)) {
        cli_error(tool,
                  "the plan is a step of a training, which changes with every run: compile the model without --train");
        return CLI_USAGE;
    }
    for (size_t i = 0; code == CLI_OK && i < hyp_engine_input_count(engine); i++)
        code = check_tensor("input", hyp_engine_input(engine, i));
    for (size_t i = 0; code == CLI_OK && i < hyp_engine_output_count(engine); i++)
        code = check_tensor("output", hyp_engine_output(engine, i));
    return code;
}

/* Decides whether requests are joined. What was asked for is refused where it would give wrong results. */
static int decide_batch(request *r, const session *s, const cli_args *args)
{
    if (r->batch == 0) return CLI_OK;
    char reason[HYP_DIAG_SIZE];
    rows_verdict verdict = rows_look(s->engine, s->context, reason, sizeof reason);
    bool asked = r->batch != NOT_SAID;
    if (!asked) r->batch = verdict == ROWS_INDEPENDENT ? DEFAULT_BATCH : 0;
    if (asked && verdict == ROWS_NONE)
        return cli_usage_error(args, "--max-batch %lld: requests cannot be joined: %s", (long long)r->batch, reason);
    if (asked && verdict == ROWS_DEPENDENT) {
        cli_error(tool, "--max-batch %lld: requests cannot be joined: %s", (long long)r->batch, reason);
        return CLI_MISMATCH;
    }
    if (verdict == ROWS_INDEPENDENT)
        printf("requests are joined, up to %lld rows: samples show that rows are independent\n", (long long)r->batch);
    else if (asked)
        printf("requests are joined, up to %lld rows, though samples could not be run: %s\n", (long long)r->batch,
               reason);
    else
        printf("requests are not joined: %s\n", reason);
    return CLI_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------- */

static int make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && is_folder(path))) return CLI_OK;
    cli_error(tool, "cannot make the folder '%s': %s", path, strerror(errno));
    return CLI_FAILED;
}

static bool write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool copy_all(int from, int to)
{
    static char block[1 << 16];
    for (;;) {
        ssize_t n = read(from, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n == 0;
        if (!write_all(to, block, (size_t)n)) return false;
    }
}

/* Writes a file whole or not at all, as a server that looks for changes has to find it: the text, or, where that is
 * NULL, what is in the file `from`. */
static int place_file(const char *path, const char *text, const char *from)
{
    char draft[PATH_MAX + 16];
    snprintf(draft, sizeof draft, "%s.XXXXXX", path);
    int source = text ? -1 : open(from, O_RDONLY | O_CLOEXEC), fd = text || source >= 0 ? mkstemp(draft) : -1;
    mode_t mask = umask(0);
    umask(mask);
    bool done = fd >= 0 && (text ? write_all(fd, text, strlen(text)) : copy_all(source, fd)) &&
                fchmod(fd, 0666 & ~mask) == 0 && fsync(fd) == 0;
    if (fd >= 0) done = close(fd) == 0 && done;
    done = done && rename(draft, path) == 0;
    if (!done) cli_error(tool, "cannot write '%s': %s", path, strerror(errno));
    if (!done && fd >= 0) unlink(draft);
    if (source >= 0) close(source);
    return done ? CLI_OK : CLI_FAILED;
}

/* CLI_OK where there is no such file, or one with this text: what somebody has written into it stays theirs. */
static int check_old_config(const char *path, const char *text)
{
    FILE *file = fopen(path, "r");
    if (!file) return CLI_OK;
    size_t length = strlen(text);
    char *old = cli_alloc(NULL, length + 2, 1);
    bool same = fread(old, 1, length + 1, file) == length && memcmp(old, text, length) == 0;
    fclose(file);
    free(old);
    if (!same)
        cli_error(
            tool,
            "'%s' is there, and is not what would be written: remove it, or give the options that it was made with",
            path);
    return same ? CLI_OK : CLI_FAILED;
}

/* config.pbtxt; NULL after a message. To be freed. */
static char *make_config(const request *r, const hyp_engine *engine)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (to) print_config(to, r, engine);
    bool failed = to && ferror(to);
    if (to && fclose(to) == 0 && !failed) return text;
    free(text);
    cli_error(tool, "out of memory");
    return NULL;
}

static int write_model(const request *r, const hyp_engine *engine)
{
    char *text = make_config(r, engine);
    int code = text ? make_folder(r->output) : CLI_FAILED;
    if (code == CLI_OK) code = make_folder(r->folder);
    if (code == CLI_OK) code = check_old_config(r->config, text);
    if (code == CLI_OK) code = make_folder(r->version_folder);
    if (code == CLI_OK) code = place_file(r->plan, NULL, r->session.plan);
    if (code == CLI_OK) code = place_file(r->config, text, NULL);
    if (code == CLI_OK)
        printf("%s: config.pbtxt, %lld/" TRITON_PLAN_FILE "\n", cli_shown(r->folder), (long long)r->version);
    free(text);
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------- */

static int read_number(const cli_args *args, int option, const char *value, int64_t low, int64_t high, int64_t *out)
{
    if (cli_parse_int(value, low, high, out)) return CLI_OK;
    return cli_usage_error(args, "--%s: '%s' is no number from %lld to %lld", options[option].name, value,
                           (long long)low, (long long)high);
}

static int read_option(request *r, const cli_args *args, int option, const char *value)
{
    switch (option) {
    case OPT_OUTPUT: r->output = value; return CLI_OK;
    case OPT_NAME: r->name = value; return CLI_OK;
    case OPT_BATCH: return read_number(args, option, value, 0, MOST_BATCH, &r->batch);
    case OPT_DELAY: return read_number(args, option, value, 0, INT32_MAX, &r->delay);
    case OPT_INSTANCES: return read_number(args, option, value, 1, MOST_INSTANCES, &r->instances);
    case OPT_GPU: r->gpu = true; return CLI_OK;
    case OPT_THREADS: return read_number(args, option, value, 1, MOST_THREADS, &r->threads);
    case OPT_VERSION: return read_number(args, option, value, 1, INT64_MAX, &r->version);
    case OPT_SIGNATURE: r->session.signer = value; return CLI_OK;
    default:
        if (r->session.plan) return cli_usage_error(args, "one plan at a time: '%s' is too much", value);
        r->session.plan = value;
        return CLI_OK;
    }
}

/* The plan's file without its folder and its suffix. */
static char *name_of(const char *plan)
{
    const char *slash = strrchr(plan, '/'), *base = slash ? slash + 1 : plan, *dot = strrchr(base, '.');
    return cli_copy(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

/* Where everything goes, and that nothing of it is read. */
static int find_paths(request *r, const cli_args *args)
{
    if (!*r->name || *r->name == '.' || strchr(r->name, '/'))
        return cli_usage_error(args, "'%s' is no name of a model", cli_shown(r->name));
    if (snprintf(r->folder, PATH_MAX, "%s/%s", r->output, r->name) >= PATH_MAX ||
        snprintf(r->version_folder, PATH_MAX, "%s/%s/%lld", r->output, r->name, (long long)r->version) >= PATH_MAX ||
        snprintf(r->plan, PATH_MAX, "%s/%s/%lld/" TRITON_PLAN_FILE, r->output, r->name, (long long)r->version) >=
            PATH_MAX ||
        snprintf(r->config, PATH_MAX, "%s/%s/config.pbtxt", r->output, r->name) >= PATH_MAX)
        return cli_usage_error(args, "the path of the model is too long");
    file_uses uses = {0};
    file_uses_add(&uses, "the plan", r->session.plan, false);
    file_uses_add(&uses, "--require-signature", r->session.signer, false);
    file_uses_add(&uses, "the model's plan", r->plan, true);
    file_uses_add(&uses, "the model's configuration", r->config, true);
    return file_uses_check(&uses, args);
}

static int make_model(request *r, const cli_args *args)
{
    session s = {0};
    r->session.threads = (int32_t)r->threads;
    int code = find_paths(r, args);
    if (code == CLI_OK) code = session_open(&s, &r->session, tool);
    if (code == CLI_OK) code = check_plan(s.engine);
    if (code == CLI_OK) code = decide_batch(r, &s, args);
    if (code == CLI_OK) code = write_model(r, s.engine);
    session_close(&s);
    return code;
}

int command_triton(int argc, char **argv)
{
    cli_args args = cli_begin(tool, options, argc, argv);
    request r = {.batch = NOT_SAID, .instances = 1, .version = 1};
    const char *value;
    for (int option; (option = cli_next(&args, &value)) != CLI_END;) {
        if (option == CLI_ERROR) return CLI_USAGE;
        if (option == OPT_HELP) return help(), CLI_OK;
        if (read_option(&r, &args, option, value) != CLI_OK) return CLI_USAGE;
    }
    if (!r.session.plan) return cli_usage_error(&args, "no plan was given");
    if (!r.output) return cli_usage_error(&args, "no model repository was given: -o repository");
    char *name = r.name ? cli_copy(r.name, strlen(r.name)) : name_of(r.session.plan);
    r.name = name;
    int code = make_model(&r, &args);
    free(name);
    return code;
}
