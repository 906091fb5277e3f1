/* A loaded plan with its input and output tensors, as run, bench and verify use it. */
#include <stdlib.h>
#include <string.h>

#include "hypatia.h"
#include "signing.h"
#include "terminal.h"

void session_options_free(session_options *o)
{
    cli_list_free(&o->dims);
    cli_list_free(&o->buckets);
    cli_list_free(&o->inputs);
}

bool session_find_device(const char *name, hyp_device_kind *out)
{
    static const char *const names[] = {"auto", "cpu", "cuda", "reference"}; /* in the order of hyp_device_kind */
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) return *out = (hyp_device_kind)i, true;
    return false;
}

bool session_parse_device(const char *text, hyp_device_kind *out, int32_t *out_index)
{
    int64_t index;
    if (session_find_device(text, out)) return true;
    if (strncmp(text, "cuda:", 5) != 0 || !cli_parse_int(text + 5, 0, 1023, &index)) return false;
    *out = HYP_DEVICE_CUDA;
    *out_index = (int32_t)index;
    return true;
}

/* Of "batch=16" the length of the name; 0 where it is no such text. */
static size_t read_bucket(const char *text, int64_t *multiple)
{
    const char *equals = strrchr(text, '=');
    return equals && cli_parse_int(equals + 1, 1, INT64_MAX, multiple) ? (size_t)(equals - text) : 0;
}

int session_read_option(session_options *o, const cli_args *args, int option, const char *value)
{
    int64_t n;
    switch (option) {
    case SESSION_DEVICE:
        if (!session_parse_device(value, &o->device, &o->device_index))
            return cli_usage_error(args, "--device: '%s' is none of auto, cpu, cuda, cuda:N, reference", value);
        break;
    case SESSION_THREADS:
        if (!cli_parse_int(value, 1, 4096, &n))
            return cli_usage_error(args, "--threads: '%s' is no number between 1 and 4096", value);
        o->threads = (int32_t)n;
        break;
    case SESSION_MEMORY:
        if (!cli_parse_int(value, 1, INT64_MAX >> 20, &o->memory_mib))
            return cli_usage_error(args, "--memory-limit: '%s' is no number of MiB, 1 or more", value);
        break;
    case SESSION_SIGNATURE: o->signer = value; break;
    case SESSION_BUCKET:
        cli_list_split(&o->buckets, value);
        for (size_t i = 0; i < o->buckets.count; i++)
            if (!read_bucket(o->buckets.items[i], &n))
                return cli_usage_error(args, "--bucket: '%s' is not of the form batch=16", o->buckets.items[i]);
        break;
    case SESSION_INPUT: cli_list_split(&o->inputs, value); break;
    case SESSION_DIM: cli_list_split(&o->dims, value); break;
    case SESSION_VERBOSE: o->verbose = true; break;
    default:
        if (o->plan) return cli_usage_error(args, "one plan at a time: '%s' and '%s' were given", o->plan, value);
        o->plan = value;
    }
    return CLI_OK;
}

void session_file_uses(const session_options *o, file_uses *uses)
{
    file_uses_add(uses, "the plan", o->plan, false);
    file_uses_add(uses, "--require-signature", o->signer, false);
    for (size_t i = 0; i < o->inputs.count; i++) file_uses_add_value(uses, "--input", o->inputs.items[i], false);
}

bool session_read_arguments(const session_options *o, cli_args *args, session_read_fn *read, void *request,
                            void (*help)(void), int *out_code)
{
    int option;
    const char *value;
    *out_code = CLI_USAGE;
    while ((option = cli_next(args, &value)) != CLI_END) {
        if (option == CLI_ERROR) return false;
        if (option == SESSION_HELP) {
            help();
            *out_code = CLI_OK;
            return false;
        }
        if (read(request, args, option, value) != CLI_OK) return false;
    }
    if (o->plan) return true;
    cli_usage_error(args, "no plan was given");
    return false;
}

int read_tolerance(const cli_args *args, const char *value, double *out)
{
    return cli_parse_double(value, 0, out) ? CLI_OK : cli_usage_error(args, "'%s' is no tolerance", value);
}

static void log_line(const char *line, void *tool) { fprintf(stderr, "%s: %s\n", (const char *)tool, cli_shown(line)); }

/* Every --dim names a symbol of the plan; CLI_USAGE after a message. */
static int check_dims(const session *s, const session_options *o, const char *tool)
{
    int code = CLI_OK;
    for (size_t k = 0; k < o->dims.count && code == CLI_OK; k++) {
        size_t len = strcspn(o->dims.items[k], "=");
        if (!o->dims.items[k][len]) continue; /* one more size of the dim before it; or refused where it is read */
        char *name = cli_copy(o->dims.items[k], len);
        hyp_diag diag = {0};
        if (hyp_engine_find_symbol(s->engine, name, &diag) != HYP_OK) code = cli_report(tool, &diag);
        free(name);
    }
    return code;
}

/* A context whose sizes are rounded as --bucket says, which was read; CLI_OK, or another code after a message. */
static int create_context(session *s, const session_options *o, const char *tool)
{
    hyp_tensor *buckets = cli_alloc(NULL, o->buckets.count, sizeof *buckets);
    for (size_t i = 0; i < o->buckets.count; i++) {
        buckets[i] = (hyp_tensor){.rank = 1};
        buckets[i].name = cli_copy(o->buckets.items[i], read_bucket(o->buckets.items[i], &buckets[i].dims[0]));
    }
    hyp_context_options options = {.size = sizeof options,
                                   .memory_limit = (uint64_t)o->memory_mib << 20,
                                   .buckets = buckets,
                                   .bucket_count = o->buckets.count};
    hyp_diag diag = {0};
    int code = CLI_OK;
    if (hyp_context_create(s->engine, &options, &s->context, &diag) != HYP_OK) code = cli_report(tool, &diag);
    for (size_t i = 0; i < o->buckets.count; i++) free((char *)buckets[i].name);
    free(buckets);
    return code;
}

int session_open(session *s, const session_options *o, const char *tool)
{
    hyp_engine_options options = {.size = sizeof options,
                                  .device = o->device,
                                  .device_index = o->device_index,
                                  .threads = o->threads,
                                  .group = o->group,
                                  .log = o->verbose ? log_line : NULL,
                                  .log_user = (void *)tool};
    unsigned char key[HYP_PUBLIC_KEY_BYTES];
    int code = signing_read_key(o->signer, key, &options.require_signature, tool);
    if (code != CLI_OK) return code;
    hyp_diag diag = {0};
    if (hyp_engine_load_file(o->plan, &options, &s->engine, &diag) != HYP_OK) return cli_report(tool, &diag);
    if ((code = create_context(s, o, tool)) != CLI_OK) return code;
    s->input_count = hyp_engine_input_count(s->engine);
    s->output_count = hyp_engine_output_count(s->engine);
    s->inputs = cli_alloc(NULL, s->input_count, sizeof *s->inputs);
    s->outputs = cli_alloc(NULL, s->output_count, sizeof *s->outputs);
    memset(s->inputs, 0, s->input_count * sizeof *s->inputs);
    memset(s->outputs, 0, s->output_count * sizeof *s->outputs);
    return check_dims(s, o, tool);
}

static void dispose_all(hyp_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) hyp_tensor_dispose(&tensors[i]);
}

void session_close(session *s)
{
    dispose_all(s->inputs, s->input_count);
    dispose_all(s->outputs, s->output_count);
    free(s->inputs);
    free(s->outputs);
    hyp_context_destroy(s->context);
    hyp_engine_destroy(s->engine);
    *s = (session){0};
}

/* ---- inputs ---------------------------------------------------------------------------------------------- */

/* The plan's input of this name, or s->input_count. */
static size_t find_input(const session *s, const char *name, size_t len)
{
    size_t i = 0;
    while (i < s->input_count) {
        const char *have = hyp_engine_input(s->engine, i)->name;
        if (strlen(have) == len && memcmp(have, name, len) == 0) break;
        i++;
    }
    return i;
}

void session_print_type(const hyp_io_info *info)
{
    fprintf(stderr, "%s[", hyp_dtype_name(info->dtype));
    for (int32_t a = 0; a < info->rank; a++) {
        fputs(a ? " " : "", stderr);
        if (info->symbols[a])
            fputs(cli_shown(info->symbols[a]), stderr);
        else
            fprintf(stderr, "%lld", (long long)info->dims[a]);
    }
    fputs("]", stderr);
}

static void print_inputs(const session *s)
{
    for (size_t i = 0; i < s->input_count; i++) {
        const hyp_io_info *info = hyp_engine_input(s->engine, i);
        fprintf(stderr, "  %s ", cli_shown(info->name));
        session_print_type(info);
        fputc('\n', stderr);
    }
}

/* Sizes of symbolic dims, by name. Names are borrowed from the command line and the engine. */
typedef struct symbol_size {
    const char *name;
    size_t len;
    int64_t size;
} symbol_size;
typedef struct symbol_sizes {
    symbol_size *items;
    size_t count;
} symbol_sizes;

static const symbol_size *find_symbol(const symbol_sizes *sizes, const char *name, size_t len)
{
    for (size_t i = 0; i < sizes->count; i++)
        if (sizes->items[i].len == len && memcmp(sizes->items[i].name, name, len) == 0) return &sizes->items[i];
    return NULL;
}

static void set_symbol(symbol_sizes *sizes, const char *name, size_t len, int64_t size)
{
    if (find_symbol(sizes, name, len)) return;
    sizes->items = cli_alloc(sizes->items, sizes->count + 1, sizeof *sizes->items);
    sizes->items[sizes->count++] = (symbol_size){name, len, size};
}

/* The declared type of an input with every symbol that has a size in its place, -1 elsewhere. */
static hyp_tensor declared(const hyp_io_info *info, const symbol_sizes *sizes)
{
    hyp_tensor t = {.dtype = info->dtype, .rank = info->rank};
    for (int32_t a = 0; a < info->rank; a++) {
        const char *symbol = info->symbols[a];
        const symbol_size *known = symbol ? find_symbol(sizes, symbol, strlen(symbol)) : NULL;
        t.dims[a] = known ? known->size : info->dims[a];
    }
    return t;
}

/* Loads `path` as input i; dims of the file give the symbols their sizes. */
static int load_input(session *s, size_t i, const char *path, symbol_sizes *sizes, const char *tool)
{
    const hyp_io_info *info = hyp_engine_input(s->engine, i);
    hyp_tensor want = declared(info, sizes);
    hyp_diag diag = {0};
    if (hyp_tensor_load(path, &want, &s->inputs[i], &diag) != HYP_OK) return cli_report(tool, &diag);
    for (int32_t a = 0; a < info->rank && a < s->inputs[i].rank; a++)
        if (info->symbols[a]) set_symbol(sizes, info->symbols[a], strlen(info->symbols[a]), s->inputs[i].dims[a]);
    return CLI_OK;
}

/* The dims of every input: those of the files, and for the others what these and the sizes of symbols leave; a symbol
 * that nothing gives a size is 1. */
static int complete_dims(const session *s, const bool *loaded, symbol_sizes *sizes, hyp_tensor *types, const char *tool)
{
    const char *missing = NULL;
    for (;;) {
        hyp_tensor *named = cli_alloc(NULL, sizes->count, sizeof *named);
        char **names = cli_alloc(NULL, sizes->count, sizeof *names);
        for (size_t k = 0; k < sizes->count; k++) {
            names[k] = cli_copy(sizes->items[k].name, sizes->items[k].len);
            named[k] = (hyp_tensor){.name = names[k], .rank = 1, .dims = {sizes->items[k].size}};
        }
        for (size_t i = 0; i < s->input_count; i++) {
            const hyp_io_info *info = hyp_engine_input(s->engine, i);
            types[i] = declared(info, sizes);
            if (loaded[i] && s->inputs[i].rank == info->rank) types[i] = s->inputs[i];
        }
        hyp_diag diag = {0};
        hyp_status status =
            hyp_engine_complete_dims(s->engine, types, s->input_count, named, sizes->count, &missing, &diag);
        for (size_t k = 0; k < sizes->count; k++) free(names[k]);
        free(names);
        free(named);
        if (status != HYP_OK) return cli_report(tool, &diag);
        if (!missing) return CLI_OK;
        fprintf(stderr, "%s: dimension %s was not given and is 1 (--dim %s=N sets it)\n", tool,
                cli_shown(missing), cli_shown(missing));
        set_symbol(sizes, missing, strlen(missing), 1);
    }
}

/* Makes input i, of this type, by "random:SEED" or "zeros". */
static int generate_input(session *s, size_t i, const char *how, hyp_tensor t, const char *tool)
{
    const hyp_io_info *info = hyp_engine_input(s->engine, i);
    int64_t seed = 0;
    if (strcmp(how, "zeros") != 0 && strcmp(how, "random") != 0 &&
        (strncmp(how, "random:", 7) != 0 || !cli_parse_int(how + 7, 0, INT64_MAX, &seed))) {
        fprintf(stderr, "%s: input %s: '%s' is none of @FILE, random:SEED, zeros\n", tool, cli_shown(info->name), how);
        return CLI_USAGE;
    }
    hyp_diag diag = {0};
    if (hyp_tensor_alloc(&t, &diag) != HYP_OK) return cli_report(tool, &diag);
    if (strcmp(how, "zeros") != 0) hyp_tensor_randomize(&t, (uint64_t)seed + i);
    s->inputs[i] = t;
    return CLI_OK;
}

static int missing_inputs(const session *s, const char *const *how, const char *tool)
{
    fprintf(stderr, "%s: no value was given for:", tool);
    for (size_t i = 0; i < s->input_count; i++)
        if (!how[i]) fprintf(stderr, " %s", cli_shown(hyp_engine_input(s->engine, i)->name));
    fprintf(stderr, "; add --input NAME=@FILE, NAME=random:SEED or NAME=zeros. The plan's inputs are:\n");
    print_inputs(s);
    return CLI_USAGE;
}

/* Files first (they fix the sizes of symbols), then what is generated. */
static int fill_inputs(session *s, const session_options *o, const char *fallback, symbol_sizes *sizes,
                       const char **how, hyp_tensor *types, bool *loaded, const char *tool)
{
    for (size_t k = 0; k < o->inputs.count; k++) {
        const char *text = o->inputs.items[k], *equals = strrchr(text, '=');
        size_t i = equals ? find_input(s, text, (size_t)(equals - text)) : s->input_count;
        if (i == s->input_count) {
            fprintf(stderr, "%s: --input %s: the plan has no such input; its inputs are:\n", tool, text);
            print_inputs(s);
            return CLI_USAGE;
        }
        if (how[i]) {
            fprintf(stderr, "%s: input %s was given twice\n", tool,
                    cli_shown(hyp_engine_input(s->engine, i)->name));
            return CLI_USAGE;
        }
        how[i] = equals + 1;
    }
    for (size_t i = 0; i < s->input_count; i++) {
        if (!how[i]) how[i] = fallback;
        if (!how[i]) return missing_inputs(s, how, tool);
        loaded[i] = how[i][0] == '@';
        if (!loaded[i]) continue;
        int code = load_input(s, i, how[i] + 1, sizes, tool);
        if (code != CLI_OK) return code;
    }
    int code = complete_dims(s, loaded, sizes, types, tool);
    for (size_t i = 0; i < s->input_count && code == CLI_OK; i++)
        if (!loaded[i]) code = generate_input(s, i, how[i], types[i], tool);
    return code;
}

int session_make_inputs(session *s, const session_options *o, const char *fallback, const cli_args *args)
{
    symbol_sizes sizes = {0};
    int code = CLI_OK;
    dispose_all(s->inputs, s->input_count);
    for (size_t i = 0; i < o->dims.count && code == CLI_OK; i++) {
        size_t len;
        int64_t size;
        if (cli_parse_dim(args, o->dims.items[i], &len, &size))
            set_symbol(&sizes, o->dims.items[i], len, size);
        else
            code = CLI_USAGE;
    }
    const char **how = cli_alloc(NULL, s->input_count, sizeof *how);
    hyp_tensor *types = cli_alloc(NULL, s->input_count, sizeof *types);
    bool *loaded = cli_alloc(NULL, s->input_count, sizeof *loaded);
    for (size_t i = 0; i < s->input_count; i++) how[i] = NULL;
    if (code == CLI_OK) code = fill_inputs(s, o, fallback, &sizes, how, types, loaded, args->tool);
    free(how);
    free(types);
    free(loaded);
    free(sizes.items);
    return code;
}

int session_load_folder(session *s, const char *folder, const char *tool)
{
    dispose_all(s->inputs, s->input_count);
    for (size_t k = 0; k < s->input_count; k++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/input_%zu.pb", folder, k);
        hyp_tensor t = {0};
        hyp_diag diag = {0};
        if (hyp_tensor_load(path, NULL, &t, &diag) != HYP_OK) return cli_report(tool, &diag);
        /* By name where the file has one that the plan knows, else by position. */
        size_t i = t.name ? find_input(s, t.name, strlen(t.name)) : s->input_count;
        if (i == s->input_count) i = k;
        hyp_tensor_dispose(&s->inputs[i]);
        s->inputs[i] = t;
    }
    return CLI_OK;
}

/* ---- running --------------------------------------------------------------------------------------------- */

/* What is passed to the runtime: position decides, not the names in files. */
static hyp_tensor *by_position(const hyp_tensor *tensors, size_t count)
{
    hyp_tensor *views = cli_alloc(NULL, count, sizeof *views);
    for (size_t i = 0; i < count; i++) {
        views[i] = tensors[i];
        views[i].name = NULL;
    }
    return views;
}

int session_make_outputs(session *s, const char *tool)
{
    dispose_all(s->outputs, s->output_count);
    hyp_diag diag = {0};
    hyp_tensor *inputs = by_position(s->inputs, s->input_count);
    hyp_status status =
        hyp_context_output_shapes(s->context, inputs, s->input_count, s->outputs, s->output_count, &diag);
    for (size_t i = 0; i < s->output_count && status == HYP_OK; i++) {
        s->outputs[i].dtype = hyp_engine_output(s->engine, i)->dtype;
        status = hyp_tensor_alloc(&s->outputs[i], &diag);
    }
    free(inputs);
    return status == HYP_OK ? CLI_OK : cli_report(tool, &diag);
}

int session_run(session *s, const char *tool)
{
    hyp_diag diag = {0};
    hyp_tensor *inputs = by_position(s->inputs, s->input_count);
    hyp_status status = hyp_context_run(s->context, inputs, s->input_count, s->outputs, s->output_count, &diag);
    free(inputs);
    return status == HYP_OK ? CLI_OK : cli_report(tool, &diag);
}

/* ---- reports --------------------------------------------------------------------------------------------- */

void print_tensor_type(FILE *to, const char *name, const hyp_tensor *t)
{
    fprintf(to, "%s %s[", cli_shown(name), hyp_dtype_name(t->dtype));
    for (int32_t a = 0; a < t->rank; a++) fprintf(to, "%s%lld", a ? " " : "", (long long)t->dims[a]);
    fputc(']', to);
}

void print_tensor_place(FILE *to, const hyp_tensor *t, int64_t flat)
{
    int64_t index[HYP_MAX_RANK];
    for (int32_t a = t->rank - 1; a >= 0; a--) {
        index[a] = flat % t->dims[a];
        flat /= t->dims[a];
    }
    fputc('[', to);
    for (int32_t a = 0; a < t->rank; a++) fprintf(to, "%s%lld", a ? " " : "", (long long)index[a]);
    fputc(']', to);
}

int compare_tensors(const char *name, const hyp_tensor *actual, const hyp_tensor *reference, double rtol, double atol,
                    const char *tool)
{
    hyp_comparison c = {.size = sizeof c};
    hyp_diag diag = {0};
    if (hyp_tensor_compare(actual, reference, rtol, atol, &c, &diag) != HYP_OK) {
        fprintf(stderr, "%s: output %s: %s\n", tool, cli_shown(name), diag.message);
        return CLI_MISMATCH;
    }
    print_tensor_type(stdout, name, actual);
    if (c.max_abs_at >= 0) {
        printf(": largest difference %.3g at ", c.max_abs);
        print_tensor_place(stdout, actual, c.max_abs_at);
        printf(" (%.9g, wanted %.9g), largest relative %.3g", hyp_tensor_at(actual, c.max_abs_at),
               hyp_tensor_at(reference, c.max_abs_at), c.max_rel);
    }
    if (c.outside)
        printf(
            "\n  %lld of %lld elements differ by more than rtol %g, atol %g; --atol %.2g or --rtol %.2g would pass\n",
            (long long)c.outside, (long long)c.elements, rtol, atol, c.atol_needed, c.rtol_needed);
    else
        printf("; within rtol %g, atol %g\n", rtol, atol);
    return c.outside ? CLI_MISMATCH : CLI_OK;
}

void print_passed(int code)
{
    printf("%s%s%s\n", terminal_begin(stdout, code == CLI_OK ? TERMINAL_GOOD : TERMINAL_ERROR), code == CLI_OK ? "PASSED" : "FAILED",
           terminal_begin(stdout, TERMINAL_PLAIN));
}
