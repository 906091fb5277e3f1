/* hypatiac - compiles an ONNX model to a plan file: a thin tool over hyp_compile_file. docs/cli.md describes it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "cli.h"
#include "compare_rules.h"
#include "dump_options.h"
#include "folders.h"
#include "hypatia/compiler.h"
#include "hypatia/tensor_io.h"
#include "import_options.h"
#include "interrupt.h"
#include "measure.h"
#include "overwrite.h"
#include "print_report.h"
#include "print_rules.h"
#include "report_page.h"
#include "samples.h"
#include "session.h"
#include "signing.h"
#include "terminal.h"
#include "train_options.h"
#include "tuning.h"

enum {
    OPT_OUTPUT,
    OPT_TARGET,
    OPT_PRECISION,
    OPT_PROFILE,
    OPT_DIM,
    OPT_TYPICAL,
    OPT_SHAPES,
    OPT_BIND,
    OPT_UPDATABLE,
    OPT_SAMPLES,
    OPT_RULES,
    OPT_NO_BUILTIN,
    OPT_DISABLE,
    OPT_ONLY,
    OPT_APPROXIMATE,
    OPT_NO_REWRITE,
    OPT_ITERATIONS,
    OPT_NODES,
    OPT_FOLD_BYTES,
    OPT_IMPORT, /* and the rest of IMPORT_... behind it */
    OPT_TRAIN = OPT_IMPORT + IMPORT_OPTIONS, /* and the rest of TRAIN_... */
    OPT_MEMORY_BUDGET = OPT_TRAIN + TRAIN_OPTIONS,
    OPT_RECOMPUTE,
    OPT_FOLD_FLOPS,
    OPT_MAX_SECONDS,
    OPT_VERIFY,
    OPT_GOLDEN,
    OPT_REDUCED,
    OPT_SIGN,
    OPT_DRY_RUN,
    OPT_TIMED,
    OPT_FORMS,
    OPT_TUNE,
    OPT_TUNE_DIM,
    OPT_CACHE,
    OPT_CALIBRATE,
    OPT_THREADS,
    OPT_SECONDS,
    OPT_LIST_RULES,
    OPT_JSON,
    OPT_EXPLAIN,
    OPT_WHY_NOT,
    OPT_COMPARE,
    OPT_DUMP, /* and the rest of DUMP_... behind it */
    OPT_DUMP_IR = OPT_DUMP + DUMP_OPTIONS,
    OPT_REPORT,
    OPT_NO_RECORD,
    OPT_STATS,
    OPT_VERBOSE,
    OPT_QUIET,
    OPT_VERSION,
    OPT_HELP
};

static const cli_option options[] = {
    [OPT_OUTPUT] = {"output", 'o', "FILE", "the plan to write"},
    [OPT_TARGET] = {"target", 0, "cpu|cuda", "device to compile for (cpu); no GPU is needed for cuda. Its costs: cpu:avx2, :avx512, :amx, :native, cuda:h100, :native, ..."},
    [OPT_PRECISION] = {"precision", 0, "fp32|tf32|bf16|fp16|fp8", "fp32 is strict, and the default; fp8 needs --samples"},
    [OPT_PROFILE] = {"profile", 0, "FILE", "device profile for the cost model, in place of the target's"},
    [OPT_DIM] = {"dim", 0, "NAME=SIZE", "fix a symbolic dimension: batch=32"},
    [OPT_TYPICAL] = {"typical", 0, "NAME=SIZE", "what the cost model counts a symbolic dimension as (32)"},
    [OPT_SHAPES] = {"shapes", 0, "IN:DIMS", "fix the shape of an input: x:32x784"},
    [OPT_BIND] = {"bind", 0, "IN=@FILE", "make an input a constant of the plan: k=@k.npy"},
    [OPT_UPDATABLE] = {"updatable", 0, "PATTERN", "initializers that an engine may replace: 'layers.*.weight', '*'"},
    [OPT_SAMPLES] = {"samples", 0, "IN=@FILE|DIR", "typical inputs: fp8 has the scales of layers from them; verified with: x=@x.npy"},
    [OPT_RULES] = {"rules", 0, "FILE", "rewrite rules of your own, besides the built-in ones"},
    [OPT_NO_BUILTIN] = {"no-builtin-rules", 0, NULL, "the rules of --rules alone"},
    [OPT_DISABLE] = {"disable-rule", 0, "NAME", "do without a rule"},
    [OPT_ONLY] = {"only-rules", 0, "NAMES", "apply these rules and no others"},
    [OPT_APPROXIMATE] = {"allow-approximate", 0, NULL, "also use rules that approximate (class A)"},
    [OPT_NO_REWRITE] = {"no-rewrite", 0, NULL, "lower the model as it is"},
    [OPT_ITERATIONS] = {"max-iterations", 0, "N", "limit of rewriting iterations (1000)"},
    [OPT_NODES] = {"max-nodes", 0, "N", "limit of e-nodes (100000, or 64 a node of the model)"},
    [OPT_FOLD_BYTES] = {"max-fold-bytes", 0, "N", "constants computed before the plan runs: bytes (16 x the model's)"},
    IMPORT_ROWS(OPT_IMPORT),
    TRAIN_ROWS(OPT_TRAIN),
    [OPT_MEMORY_BUDGET] = {"memory-budget", 0, "BYTES", "of memory of a run: 512M, 2G; values are computed again instead of kept"},
    [OPT_RECOMPUTE] = {"recompute", 0, "PATTERN", "for --train: nodes whose values are computed again, not kept: '/h.*/mlp/*'"},
    [OPT_FOLD_FLOPS] = {"max-fold-flops", 0, "N", "constants computed before the plan runs: multiplications (2^34)"},
    [OPT_MAX_SECONDS] = {"max-seconds", 0, "S", "write the best plan found until then; Ctrl-C does the same"},
    [OPT_VERIFY] = {"verify", 0, "strict|warn|off", "compare the plan with the model first (by what it costs)"},
    [OPT_GOLDEN] = {"golden", 0, "BYTES", "of samples and results that the plan keeps for 'hypatia verify'; 0: none"},
    [OPT_REDUCED] = {"reduced", 0, "FILE", "of a wrong plan: write a small part of the model that shows it"},
    [OPT_SIGN] = {"sign", 0, "KEY", "sign the plan with this private key: of 'hypatia keygen', or openssl"},
    [OPT_DRY_RUN] = {"dry-run", 0, NULL, "do everything but write the plan"},
    [OPT_TIMED] = {"timed", 0, NULL, "time forms of the plan and its parts here; keep the fastest"},
    [OPT_FORMS] = {"forms", 0, "N", "for --timed and --cache: forms of a part that are compared, 2 to 8 (3)"},
    [OPT_TUNE] = {"tune", 0, NULL, "find the fastest way to do each step on the device here, for typical sizes"},
    [OPT_TUNE_DIM] = {"tune-dim", 0, "NAME=SIZE", "for --tune: sizes of a dimension, in place of the typical one"},
    [OPT_CACHE] = {"cache", 0, "FILE", "what was measured before; --timed and --tune add what they measure"},
    [OPT_CALIBRATE] = {"calibrate", 0, NULL, "measure the CPU here; write a profile for --profile to the output"},
    [OPT_THREADS] = {"threads", 0, "N", "CPU threads that costs (1), --timed (as at run time) and --calibrate (all) count with"},
    [OPT_SECONDS] = {"seconds", 0, "S", "about how long --timed (3), --tune (60) or --calibrate (40) measures"},
    [OPT_LIST_RULES] = {"list-rules", 0, NULL, "print the rules: name, class, ruleset, what it does"},
    [OPT_JSON] = {"json", 0, NULL, "print the rules of --list-rules as JSON"},
    [OPT_EXPLAIN] = {"explain", 0, "NODE", "print the rules that led from a node of the model to its kernel"},
    [OPT_WHY_NOT] = {"why-not", 0, "RULE [NODE]", "print why a rule did not change a node, or any"},
    [OPT_COMPARE] = {"compare-rules", 0, "A B", "what two sets of rules make of the model: builtin, rulesets, files, or none"},
    DUMP_ROWS(OPT_DUMP),
    [OPT_DUMP_IR] = {"dump-ir", 0, "import|demote|train|rewrite|quantize|recompute", "print the graph after this stage"},
    [OPT_REPORT] = {"report", 0, "FILE", "write a page that shows what became of the model, and why"},
    [OPT_NO_RECORD] = {"no-record", 0, NULL, "the plan keeps nothing for 'hypatia report'"},
    [OPT_STATS] = {"stats", 0, NULL, "print a table of rules, times and sizes"},
    [OPT_VERBOSE] = {"verbose", 'v', NULL, "print every step, nothing cut, and a line per pass"},
    [OPT_QUIET] = {"quiet", 'q', NULL, "print errors only"},
    [OPT_VERSION] = {"version", 0, NULL, "print the version"},
    [OPT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

/* Everything the command line says. Owns its lists. */
typedef struct request {
    hyp_compile_options compile;
    const char *model, *plan, *cache, *report, *key;
    const char *compare[2]; /* sets of rules */
    bool node_next; /* the last option was --why-not: its node may follow */
    bool set_next;  /* the last one was --compare-rules: its second set follows */
    cli_list dims, typical, shapes, bound, updatable, recompute, sample_texts, rules, disabled, only, flags, tuned;
    const char **dim_names, **typical_names;
    int64_t *dim_values, *typical_values;
    hyp_tensor *shape_tensors, *bound_tensors;
    samples samples;
    import_request import;
    train_request train;
    dump_request dump;
    bool list_rules, json, dry_run, stats, verbose, quiet, timed, tune, calibrate;
    int64_t threads, forms; /* 0 = not said */
    double seconds;  /* 0 = not said */
} request;

static void help(void)
{
    printf("Usage: hypatiac MODEL.onnx -o PLAN.bin [options]\n"
           "       hypatiac --calibrate -o MY.profile\n"
           "Compiles an ONNX model to a plan that 'hypatia run' and libhypatia-rt execute.\n");
    cli_print_options(stdout, options);
    printf("\nDims, shapes and rules may be given several times or as comma lists.\n"
           "Exit codes: 0 ok, 1 error, 2 usage, 3 unsupported model, 4 a wrong plan, which is not written.\n");
}

/* Records an option that changes the result, for the plan's provenance. */
static void record(request *r, int option, const char *value)
{
    char text[1024];
    int n = snprintf(text, sizeof text, value ? "--%s=%s" : "--%s", options[option].name, value);
    cli_list_add(&r->flags, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

static bool read_limit(const cli_args *args, int option, const char *value, size_t *out)
{
    const char *name = options[option].name;
    int64_t n;
    if (!cli_parse_int(value, 1, INT64_MAX, &n)) {
        cli_usage_error(args, "--%s: '%s' is no positive number", name, value);
        return false;
    }
    *out = (size_t)n;
    return true;
}

/* One option of the command line; false after a message. */
static bool read_option(request *r, const cli_args *args, int option, const char *value)
{
    hyp_compile_options *c = &r->compile;
    bool node_next = r->node_next, set_next = r->set_next;
    r->set_next = option == OPT_COMPARE;
    r->node_next = option == OPT_WHY_NOT;
    if (option == OPT_TARGET && !(value = measure_target(value, args->tool))) return false;
    if (option >= OPT_TARGET && option <= OPT_FOLD_FLOPS) record(r, option, value);
    if (option >= OPT_IMPORT && option < OPT_IMPORT + IMPORT_OPTIONS)
        return import_read_option(&r->import, c, args, option - OPT_IMPORT, value);
    if (option >= OPT_TRAIN && option < OPT_TRAIN + TRAIN_OPTIONS)
        return train_read_option(&r->train, args, option - OPT_TRAIN, value);
    if (option >= OPT_DUMP && option < OPT_DUMP + DUMP_OPTIONS)
        return dump_read_option(&r->dump, c, args, option - OPT_DUMP, value);
    switch (option) {
    case OPT_OUTPUT: r->plan = value; break;
    case OPT_TARGET: c->target = value; break;
    case OPT_PRECISION: c->precision = value; break;
    case OPT_PROFILE: c->profile = value; break;
    case OPT_DIM: cli_list_split(&r->dims, value); break;
    case OPT_TYPICAL: cli_list_split(&r->typical, value); break;
    case OPT_SHAPES: cli_list_split(&r->shapes, value); break;
    case OPT_BIND: cli_list_add(&r->bound, value, strlen(value)); break;
    case OPT_UPDATABLE: cli_list_add(&r->updatable, value, strlen(value)); break;
    case OPT_SAMPLES: cli_list_add(&r->sample_texts, value, strlen(value)); break;
    case OPT_RULES: cli_list_split(&r->rules, value); break;
    case OPT_NO_BUILTIN: c->no_builtin_rules = true; break;
    case OPT_DISABLE: cli_list_split(&r->disabled, value); break;
    case OPT_ONLY: cli_list_split(&r->only, value); break;
    case OPT_APPROXIMATE: c->allow_approximate = true; break;
    case OPT_NO_REWRITE: c->no_rewrite = true; break;
    case OPT_ITERATIONS: return read_limit(args, option, value, &c->max_iterations);
    case OPT_NODES: return read_limit(args, option, value, &c->max_nodes);
    case OPT_FOLD_BYTES: return read_limit(args, option, value, &c->max_fold_bytes);
    case OPT_MEMORY_BUDGET:
        if (cli_parse_bytes(value, &c->memory_budget)) break;
        cli_usage_error(args, "--memory-budget: '%s' is no number of bytes: 4096, 512K, 1.5G", value);
        return false;
    case OPT_RECOMPUTE: cli_list_split(&r->recompute, value); break;
    case OPT_FOLD_FLOPS: return read_limit(args, option, value, &c->max_fold_flops);
    case OPT_MAX_SECONDS:
        if (cli_parse_double(value, 1e-9, &c->max_seconds)) break;
        cli_usage_error(args, "--max-seconds: '%s' is no positive time", value);
        return false;
    case OPT_VERIFY: c->verify = value; break;
    case OPT_GOLDEN:
        if (!cli_parse_int(value, 0, 1 << 24, &c->golden_bytes)) {
            cli_usage_error(args, "--golden: '%s' is no number of bytes up to 16 MiB", value);
            return false;
        }
        if (c->golden_bytes == 0) c->golden_bytes = -1;
        break;
    case OPT_REDUCED: c->reduced = value; break;
    case OPT_SIGN: r->key = value; break;
    case OPT_DRY_RUN: r->dry_run = true; break;
    case OPT_TIMED: r->timed = true; break;
    case OPT_FORMS:
        if (cli_parse_int(value, 2, HYP_COMPILE_FORMS, &r->forms)) {
            c->forms = (size_t)r->forms;
            break;
        }
        cli_usage_error(args, "--forms: '%s' is no number between 2 and %d", value, HYP_COMPILE_FORMS);
        return false;
    case OPT_TUNE: r->tune = true; break;
    case OPT_TUNE_DIM: cli_list_split(&r->tuned, value); break;
    case OPT_CACHE: r->cache = value; break;
    case OPT_CALIBRATE: r->calibrate = true; break;
    case OPT_THREADS:
        if (cli_parse_int(value, 1, 4096, &r->threads)) {
            c->threads = (int32_t)r->threads;
            break;
        }
        cli_usage_error(args, "--threads: '%s' is no number between 1 and 4096", value);
        return false;
    case OPT_SECONDS:
        if (cli_parse_double(value, 0.001, &r->seconds)) break;
        cli_usage_error(args, "--seconds: '%s' is no time of a thousandth or more", value);
        return false;
    case OPT_LIST_RULES: r->list_rules = true; break;
    case OPT_JSON: r->json = true; break;
    case OPT_EXPLAIN: c->explain = value; break;
    case OPT_WHY_NOT: c->why_not = value; break;
    case OPT_COMPARE: r->compare[0] = value; break;
    case OPT_DUMP_IR: c->dump_ir_stage = value; break;
    case OPT_REPORT: r->report = value; break;
    case OPT_NO_RECORD: c->no_record = true; break;
    case OPT_STATS: r->stats = true; break;
    case OPT_VERBOSE: r->verbose = true; break;
    case OPT_QUIET: r->quiet = true; break;
    default:
        if (set_next) {
            r->compare[1] = value;
            break;
        }
        if (node_next) {
            c->why_not_node = value;
            break;
        }
        if (r->model) {
            cli_usage_error(args, "one model at a time: '%s' and '%s' were given", r->model, value);
            return false;
        }
        r->model = value;
    }
    return true;
}

/* Texts like "batch=32" as names and values, *count as far as they were read; false after a message. */
static bool read_sizes(const cli_args *args, const cli_list *texts, const char ***names, int64_t **values,
                       size_t *count)
{
    *names = cli_alloc(NULL, texts->count, sizeof **names);
    *values = cli_alloc(NULL, texts->count, sizeof **values);
    for (; *count < texts->count; ++*count) {
        size_t len;
        if (!cli_parse_dim(args, texts->items[*count], &len, &(*values)[*count])) return false;
        (*names)[*count] = cli_copy(texts->items[*count], len);
    }
    return true;
}

/* Turns the lists into what the library takes; false after a message. */
static bool finish_request(request *r, const cli_args *args)
{
    hyp_compile_options *c = &r->compile;
    if (!read_sizes(args, &r->dims, &r->dim_names, &r->dim_values, &c->dim_count)) return false;
    if (!read_sizes(args, &r->typical, &r->typical_names, &r->typical_values, &c->typical_count)) return false;
    r->shape_tensors = cli_alloc(NULL, r->shapes.count, sizeof *r->shape_tensors);
    for (; c->shape_count < r->shapes.count; c->shape_count++)
        if (!cli_parse_shape(r->shapes.items[c->shape_count], &r->shape_tensors[c->shape_count])) {
            cli_usage_error(args, "--shapes: '%s' is not of the form x:32x784", r->shapes.items[c->shape_count]);
            return false;
        }
    r->bound_tensors = cli_alloc(NULL, r->bound.count, sizeof *r->bound_tensors);
    for (; c->bound_count < r->bound.count; c->bound_count++)
        if (!read_named_tensor(args, "bind", r->bound.items[c->bound_count], &r->bound_tensors[c->bound_count]))
            return false;
    c->bound = r->bound_tensors;
    if (!samples_read(&r->samples, &r->sample_texts, args) || !train_finish(&r->train, args, &c->train)) return false;
    c->samples = r->samples.sets;
    c->samples_count = r->samples.count;
    c->dim_names = r->dim_names;
    c->dim_values = r->dim_values;
    c->typical_names = r->typical_names;
    c->typical_values = r->typical_values;
    c->shapes = r->shape_tensors;
    c->rule_files = (const char *const *)r->rules.items;
    c->rule_file_count = r->rules.count;
    c->disabled_rules = (const char *const *)r->disabled.items;
    c->disabled_rule_count = r->disabled.count;
    c->only_rules = (const char *const *)r->only.items;
    c->only_rule_count = r->only.count;
    c->updatable = (const char *const *)r->updatable.items;
    c->updatable_count = r->updatable.count;
    c->recompute = (const char *const *)r->recompute.items;
    c->recompute_count = r->recompute.count;
    c->flags = (const char *const *)r->flags.items;
    c->flag_count = r->flags.count;
    import_finish(&r->import, c);
    if (r->json && !r->list_rules) {
        cli_usage_error(args, "--json is for --list-rules; plans are described by 'hypatia inspect --json'");
        return false;
    }
    if (r->list_rules) return true;
    if (r->calibrate && (r->model || r->timed || !r->plan)) {
        cli_usage_error(args,
                        "--calibrate takes no model, and wants a file to write: hypatiac --calibrate -o my.profile");
        return false;
    }
    if (r->calibrate) return true;
    if (r->tuned.count > 0 && !r->tune) {
        cli_usage_error(args, "--tune-dim is for --tune");
        return false;
    }
    if (r->timed && c->no_rewrite) {
        cli_usage_error(args, "--timed chooses among what rewriting finds: leave out one of --timed and --no-rewrite");
        return false;
    }
    bool file = r->plan && strcmp(r->plan, "-") != 0;
    if (r->tune && (!file || r->dry_run)) {
        cli_usage_error(args, "--tune needs a file to write: -o plan.bin");
        return false;
    }
    if (r->report && (!file || r->dry_run || c->no_record)) {
        cli_usage_error(args, "--report tells of a plan with its record: it needs -o plan.bin, and no --no-record");
        return false;
    }
    if (r->key && (!file || r->dry_run)) {
        cli_usage_error(args, "--sign needs a file to write: -o plan.bin");
        return false;
    }
    if (!r->model) { /* --why-not RULE model.onnx */
        r->model = c->why_not_node;
        c->why_not_node = NULL;
    }
    if (!r->model) {
        cli_usage_error(args, "no model was given");
        return false;
    }
    if (r->compare[0] && (!r->compare[1] || r->plan || c->emit_onnx)) {
        cli_usage_error(args, "--compare-rules takes two sets of rules and writes nothing: hypatiac model.onnx "
                              "--compare-rules builtin builtin,my.rules");
        return false;
    }
    if (!r->compare[0] && !r->plan && !r->dry_run && !c->explain && !c->why_not && !c->emit_onnx) {
        cli_usage_error(args, "no output was given: add '-o plan.bin' (or --dry-run)");
        return false;
    }
    return true;
}

static void print_warning(const char *text, size_t len, void *file)
{
    terminal_work_hide();
    fprintf(file, "hypatiac: %swarning:%s %.*s\n", terminal_begin(file, TERMINAL_WARNING), terminal_begin(file, TERMINAL_PLAIN),
            (int)len, text);
}

static void print_pass(const char *text, size_t len, void *file)
{
    terminal_work_hide();
    cli_write_file(text, len, file);
}

/* Whether what is written is none of what is read; false after a message. */
static bool check_files(const request *r, const cli_args *args)
{
    file_uses uses = {0};
    file_uses_add(&uses, "--output", r->dry_run ? NULL : r->plan, true);
    dump_add_files(&r->dump, &r->compile, &uses);
    file_uses_add(&uses, "--reduced", r->compile.reduced, true);
    file_uses_add(&uses, "--report", r->report, true);
    file_uses_add(&uses, "--cache", r->cache, true);
    file_uses_add(&uses, "the model", r->model, false);
    file_uses_add(&uses, "--sign", r->key, false);
    file_uses_add(&uses, "--profile", r->compile.profile, false);
    for (size_t i = 0; i < r->rules.count; i++) file_uses_add(&uses, "--rules", r->rules.items[i], false);
    for (size_t i = 0; i < r->bound.count; i++) file_uses_add_value(&uses, "--bind", r->bound.items[i], false);
    for (size_t i = 0; i < r->sample_texts.count; i++) {
        const char *text = r->sample_texts.items[i];
        if (is_folder(text))
            file_uses_add_folder(&uses, "--samples", text);
        else
            file_uses_add_value(&uses, "--samples", text, false);
    }
    return file_uses_check(&uses, args) == CLI_OK;
}

static void free_request(request *r)
{
    for (size_t i = 0; i < r->compile.dim_count; i++) free((char *)r->dim_names[i]);
    for (size_t i = 0; i < r->compile.typical_count; i++) free((char *)r->typical_names[i]);
    for (size_t i = 0; i < r->compile.shape_count; i++) free((char *)r->shape_tensors[i].name);
    for (size_t i = 0; i < r->compile.bound_count; i++) {
        free((char *)r->bound_tensors[i].name);
        hyp_tensor_dispose(&r->bound_tensors[i]);
    }
    free(r->bound_tensors);
    samples_free(&r->samples);
    import_request_free(&r->import);
    train_request_free(&r->train);
    free(r->dim_names);
    free(r->dim_values);
    free(r->typical_names);
    free(r->typical_values);
    free(r->shape_tensors);
    cli_list *lists[] = {&r->dims,  &r->typical,   &r->shapes,   &r->bound, &r->updatable, &r->sample_texts,
                         &r->rules, &r->recompute, &r->disabled, &r->only,  &r->flags,     &r->tuned};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) cli_list_free(lists[i]);
}

static measure_options measurement(const request *r, double seconds)
{
    hyp_device_kind device = HYP_DEVICE_CPU;
    if (r->compile.target && strncmp(r->compile.target, "cuda", 4) == 0) device = HYP_DEVICE_CUDA;
    return (measure_options){.device = device,
                             .threads = (int32_t)r->threads,
                             .seconds = r->seconds > 0 ? r->seconds : seconds,
                             .quiet = r->quiet};
}

/* Lets what was measured, here or before, decide where predictions cannot. */
static void begin_choosing(request *r, chooser *c, FILE *people, const cli_args *args)
{
    bool cached = r->cache && access(r->cache, F_OK) == 0;
    if (r->list_rules || (!r->timed && !cached)) return;
    *c = (chooser){.options = measurement(r, 3),
                   .timed = r->timed,
                   .cache = r->cache,
                   .people = r->quiet ? NULL : people,
                   .stop = r->compile.stop,
                   .args = args};
    r->compile.choose_form = chooser_ask;
    r->compile.choose_form_user = c;
}

/* Tunes the plan that was written. */
static int tune(request *r, FILE *people, const cli_args *args)
{
    session s = {0};
    measure_options o = measurement(r, 60);
    tune_request tuning = {.cache = r->cache, .seconds = o.seconds, .quiet = r->quiet};
    session_options where = {.plan = r->plan, .device = o.device, .threads = o.threads, .dims = r->tuned};
    int code = session_open(&s, &where, args->tool);
    if (code == CLI_OK) {
        measure_typical_dims(&s, &where.dims);
        code = tune_session(&s, &where, &tuning, r->plan, people, args); /* the plan, then the cache, which may fail */
    } else if (code != CLI_USAGE) {
        fprintf(stderr,
                "%s: the plan was written without tuning, which needs its device here; 'hypatia tune' does it there\n",
                args->tool);
    }
    r->tuned = where.dims;
    session_close(&s);
    return code;
}

static int write_report(const request *r, const hyp_compile_report *report, const cli_args *args)
{
    json_t *data;
    int code = report_data(r->plan, report->run, NULL, &data, args->tool);
    if (code == CLI_OK) code = report_write(data, r->report, true, args->tool);
    json_decref(data);
    return code;
}

static int compile(request *r, const cli_args *args)
{
    /* What shares standard output with a dump or the plan goes to standard error. */
    bool taken = (r->plan && strcmp(r->plan, "-") == 0) || dump_takes_stdout(&r->dump, &r->compile) || r->compile.dump_ir_stage;
    FILE *people = taken ? stderr : stdout;
    int code = CLI_OK;
    hyp_diag diag = {0};
    hyp_compile_report *report = NULL;
    bool searches = !r->list_rules && !r->compile.no_rewrite;
    if (searches) r->compile.stop = interrupt_catch();
    chooser timing = {0};
    terminal_work_begin(args->tool, r->quiet, true);
    r->compile.on_progress = print_progress;
    begin_choosing(r, &timing, people, args);
    hyp_status status = r->list_rules
                            ? hyp_compile_list_rules(&r->compile, &report, &diag)
                            : hyp_compile_file(r->model, r->dry_run ? NULL : r->plan, &r->compile, &report, &diag);
    terminal_work_end();
    if (searches) interrupt_release();
    if (status == HYP_OK && !r->quiet) chooser_print(&timing, people, report->parts_changed);
    chooser_free(&timing);
    if (status != HYP_OK) return cli_report(args->tool, &diag);
    if (r->list_rules && r->json) {
        code = print_rules_json(report);
        if (code != CLI_OK) fprintf(stderr, "%s: the list of rules cannot be written\n", args->tool);
    } else if (r->list_rules) {
        print_rules(report, r->verbose);
    }
    bool asked = r->compile.explain || r->compile.why_not;
    if (report->wrong) print_warning(cli_shown(report->verified), strlen(cli_shown(report->verified)), stderr);
    cli_print_lines(people, "", report->answer);
    if (!r->list_rules && !r->quiet && !asked) print_summary(people, r->model, r->plan, report, r->verbose);
    if (!r->list_rules && r->stats) print_stats(people, report, r->verbose);
    if (code == CLI_OK && r->tune && !r->list_rules) code = tune(r, people, args);
    if (code == CLI_OK && r->report && !r->list_rules) code = write_report(r, report, args);
    hyp_compile_report_destroy(report);
    if (code == CLI_OK && !r->list_rules) code = signing_sign(r->plan, r->key, args->tool);
    return code;
}

static int run(request *r, const cli_args *args)
{
    if (r->calibrate) {
        measure_options o = measurement(r, 40);
        return calibrate(r->plan, &o, args);
    }
    if (r->compare[0]) return compare_rules(r->model, r->compare[0], r->compare[1], &r->compile, args);
    int code = dump_open(&r->dump, &r->compile, args);
    if (code == CLI_OK) code = compile(r, args);
    return dump_close(&r->dump, code == CLI_OK, args) || code != CLI_OK ? code : CLI_FAILED;
}

int main(int argc, char **argv)
{
    cli_guard_streams();
    request r = {.compile = {.size = sizeof r.compile, .dump_ir = cli_write_file, .dump_ir_user = stdout, .run_plan = check_run_plan}};
    train_request_init(&r.train);
    cli_args args = cli_begin("hypatiac", options, argc, argv);
    int option, code = CLI_USAGE;
    const char *value;
    while ((option = cli_next(&args, &value)) != CLI_END) {
        if (option == OPT_HELP || option == OPT_VERSION) {
            if (option == OPT_HELP)
                help();
            else
                cli_print_version("hypatiac");
            code = CLI_OK;
            goto done;
        }
        if (option == CLI_ERROR || !read_option(&r, &args, option, value)) goto done;
    }
    if (r.verbose) {
        r.compile.progress = print_pass;
        r.compile.progress_user = stderr;
    }
    if (!r.quiet) r.compile.warning = print_warning;
    r.compile.warning_user = stderr;
    if (finish_request(&r, &args) && check_files(&r, &args)) code = run(&r, &args);
done:
    free_request(&r);
    return cli_end("hypatiac", code);
}
