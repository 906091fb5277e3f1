/* hypatia-egraph - the e-graph engine on its own: saturates terms by rules, extracts from saved e-graphs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egraph_tool.h"
#include "overwrite.h"
#include "terminal.h"

void print_number(double value)
{
    if (isfinite(value))
        printf("%.17g", value);
    else
        printf("null");
}

void print_text(const char *text)
{
    if (!text) {
        printf("null");
        return;
    }
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < ' ')
            printf("\\u%04x", *text);
        else
            putchar(*text);
    }
    putchar('"');
}

/* Writes by `write` into a file, "-" for standard output. */
static int write_to(const cli_args *args, const char *path,
                    hyp_status (*write)(FILE *file, const void *what, hyp_diag *diag), const void *what)
{
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!file) {
        cli_error(args->tool, "%s: cannot write", path);
        return CLI_FAILED;
    }
    hyp_diag diag = {0};
    hyp_status status = write(file, what, &diag);
    bool good = fflush(file) == 0 && !ferror(file);
    if (file != stdout) good = fclose(file) == 0 && good;
    if (status != HYP_OK) return cli_report(args->tool, &diag);
    if (!good) cli_error(args->tool, "%s: cannot write", path);
    return good ? CLI_OK : CLI_FAILED;
}

int pick(const cli_args *args, const char *option, const char *value, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(value, names[i]) == 0) return i;
    const char *near = cli_nearest(value, names, (size_t)count);
    cli_usage_error(args, "--%s: '%s' is none of %s, %s%s%s%s%s%s", option, value, names[0], names[1],
                    count > 2 ? ", " : "", count > 2 ? names[2] : "", near ? "; did you mean '" : "", near ? near : "",
                    near ? "'?" : "");
    return -1;
}

/* ---- saturate ----------------------------------------------------------------------------------- */

enum {
    SAT_RULES,
    SAT_TERMS,
    SAT_ITERS,
    SAT_NODES,
    SAT_SECONDS,
    SAT_BYTES,
    SAT_MATCHES,
    SAT_SCHEDULER,
    SAT_EXPLAIN,
    SAT_EXTRACT,
    SAT_DUMP,
    SAT_DOT,
    SAT_DOT_NODES,
    SAT_JSON,
    SAT_HELP
};

static const cli_option saturate_options[] = {
    [SAT_RULES] = {"rules", 0, "FILE", "rewrite rules, s-expressions or tab-separated"},
    [SAT_TERMS] = {"terms", 0, "FILE", "the terms to begin with, one a line; ';' begins a comment"},
    [SAT_ITERS] = {"iters", 0, "N", "limit of iterations (30)"},
    [SAT_NODES] = {"nodes", 0, "N", "limit of e-nodes (none)"},
    [SAT_SECONDS] = {"seconds", 0, "S", "limit of time (none)"},
    [SAT_BYTES] = {"bytes", 0, "N", "limit of the e-graph's memory in bytes (half of what the machine has available)"},
    [SAT_MATCHES] = {"matches", 0, "N", "limit of applied matches (none)"},
    [SAT_SCHEDULER] = {"scheduler", 0, "simple|backoff",
                       "every rule each time, or ban those with many matches (simple)"},
    [SAT_EXPLAIN] = {"explain", 0, "A B",
                     "print a proof that two terms are equal, checked by the rules alone; takes two arguments"},
    [SAT_EXTRACT] = {"extract", 0, "tree|dag|exact", "print the best term of each term, by its number of e-nodes"},
    [SAT_DUMP] = {"dump-json", 0, "FILE|-", "write the e-graph as egraph-serialize JSON; to - in place of the report"},
    [SAT_DOT] = {"dot", 0, "FILE|-", "write the e-graph for Graphviz; to - in place of the report"},
    [SAT_DOT_NODES] = {"dot-nodes", 0, "N", "most e-nodes to draw (500)"},
    [SAT_JSON] = {"json", 0, NULL, "print JSON"},
    [SAT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

#define LONGEST_FILE ((size_t)1 << 30) /* bytes of rules or terms */

typedef struct saturation {
    const char *rules_path, *terms_path, *dump_path, *dot_path, *left, *right, *rules_text;
    size_t rules_len;
    hyp_run_options run;
    size_t dot_nodes;
    int extract; /* hyp_extract_method, or -1 */
    bool json;
    hyp_egraph *eg;
    hyp_ruleset *rules;
    hyp_class_id *roots;
    cli_list terms;
    size_t *lines; /* of the terms in their file */
} saturation;

char *read_text_file(const cli_args *args, const char *path, size_t *out_len)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t len = 0, cap = 0, got = 1;
    while (file && got && len <= LONGEST_FILE) {
        if (len + 1 >= cap) text = cli_alloc(text, cap = cap ? 2 * cap : 65536, 1);
        len += got = fread(text + len, 1, cap - len - 1, file);
    }
    if (!file || ferror(file)) {
        cli_error(args->tool, "%s: cannot read", path);
        free(text);
        text = NULL;
    }
    if (file) fclose(file);
    if (text && (len > LONGEST_FILE || memchr(text, 0, len))) {
        cli_error(args->tool, "%s: %s", path,
                len > LONGEST_FILE ? "longer than 1 GiB" : "this is no text: it has a NUL byte");
        free(text);
        text = NULL;
    }
    if (text) text[len] = 0;
    *out_len = len;
    return text;
}

/* Standard output is for one thing at a time: the e-graph or the report. */
static bool writes_to_stdout(const saturation *s)
{
    return (s->dump_path && strcmp(s->dump_path, "-") == 0) || (s->dot_path && strcmp(s->dot_path, "-") == 0);
}

/* Lines without comments and blank ends. */
static void split_terms(saturation *s, const char *text)
{
    for (size_t number = 1; *text; number++) {
        size_t line = strcspn(text, "\n"), len = 0;
        for (bool quoted = false; len < line && (quoted || text[len] != ';'); len++) {
            if (quoted && text[len] == '\\' && len + 1 < line)
                len++;
            else if (text[len] == '"')
                quoted = !quoted;
        }
        while (len && strchr(" \t\r", text[len - 1])) len--;
        size_t blank = strspn(text, " \t\r");
        if (len > blank) {
            cli_list_add(&s->terms, text + blank, len - blank);
            s->lines = cli_alloc(s->lines, s->terms.count, sizeof *s->lines);
            s->lines[s->terms.count - 1] = number;
        }
        text += line + (text[line] == '\n');
    }
}

static hyp_status write_json(FILE *file, const void *what, hyp_diag *diag)
{
    const saturation *s = what;
    return hyp_egraph_write_json(s->eg, s->roots, s->terms.count, NULL, NULL, cli_write_file, file, diag);
}

static hyp_status write_dot(FILE *file, const void *what, hyp_diag *diag)
{
    const saturation *s = what;
    return hyp_egraph_write_dot(s->eg, s->roots, s->terms.count, s->dot_nodes, NULL, cli_write_file, file, diag);
}

static void print_report(const saturation *s, const hyp_run_report *r)
{
    if (!s->json) {
        printf("%9s %9s %9s %9s %9s %9s %9s %9s\n", "iteration", "e-nodes", "e-classes", "matches", "applied", "search",
               "apply", "rebuild");
        for (size_t i = 0; i < r->iteration_count; i++) {
            const hyp_iteration_report *it = &r->iterations[i];
            printf("%9zu %9zu %9zu %9zu %9zu %9.4f %9.4f %9.4f\n", i, it->e_nodes, it->e_classes, it->matches,
                   it->applications, it->search_seconds, it->apply_seconds, it->rebuild_seconds);
        }
        printf("%s: %zu e-nodes, %zu e-classes, %.4f s, peak %zu bytes of %zu\n", hyp_stop_name(r->stop), r->e_nodes,
               r->e_classes, r->seconds, r->peak_bytes, s->run.max_bytes);
        return;
    }
    printf("{\"e_nodes\": %zu, \"e_classes\": %zu, \"seconds\": %.9f, \"peak_bytes\": %zu, \"max_bytes\": %zu, "
           "\"matches\": %zu, "
           "\"stop_reason\": \"%s\",\n"
           " \"iterations\": [",
           r->e_nodes, r->e_classes, r->seconds, r->peak_bytes, s->run.max_bytes, r->matches, hyp_stop_name(r->stop));
    for (size_t i = 0; i < r->iteration_count; i++) {
        const hyp_iteration_report *it = &r->iterations[i];
        printf("%s\n  {\"e_nodes\": %zu, \"e_classes\": %zu, \"matches\": %zu, \"applications\": %zu, "
               "\"search_seconds\": %.9f, "
               "\"apply_seconds\": %.9f, \"rebuild_seconds\": %.9f}",
               i ? "," : "", it->e_nodes, it->e_classes, it->matches, it->applications, it->search_seconds,
               it->apply_seconds, it->rebuild_seconds);
    }
    printf("],\n \"rules\": [");
    for (size_t i = 0; i < r->rule_count; i++) {
        printf("%s\n  {\"name\": ", i ? "," : "");
        print_text(hyp_ruleset_rule(s->rules, i).name);
        printf(", \"matches\": %zu, \"applications\": %zu, \"seconds\": %.9f}", r->rules[i].matches,
               r->rules[i].applications, r->rules[i].seconds);
    }
    printf("]");
}

static double one(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg, (void)node, (void)user;
    return 1;
}

/* The best form of each term by itself. */
static hyp_status print_best(const saturation *s, hyp_diag *diag)
{
    hyp_extract_options options = {.size = sizeof options, .method = (hyp_extract_method)s->extract};
    hyp_status status = HYP_OK;
    if (s->json) printf(",\n \"best\": [");
    for (size_t i = 0; i < s->terms.count && status == HYP_OK; i++) {
        hyp_extraction ex;
        status = hyp_egraph_extract_with(s->eg, &s->roots[i], 1, &options, one, NULL, &ex, diag);
        if (status != HYP_OK) break;
        char *text = hyp_extraction_text(s->eg, &ex, s->roots[i]);
        if (s->json) {
            printf("%s\n  {\"tree_cost\": ", i ? "," : "");
            print_number(ex.tree_cost);
            printf(", \"dag_cost\": ");
            print_number(ex.dag_cost);
            printf(", \"term\": ");
            print_text(text);
            printf("}");
        } else {
            printf("%g %g %s\n", ex.tree_cost, ex.dag_cost, text ? text : "(too long to be written out)");
        }
        free(text);
        hyp_extraction_dispose(&ex);
    }
    if (s->json) printf("]");
    return status;
}

/* Replays the proof by rules that are read anew, so that nothing of the e-graph that made it is believed. */
static hyp_status check_proof(const saturation *s, const hyp_shared_proof *proof, hyp_diag *diag)
{
    hyp_egraph *other;
    hyp_ruleset *rules = NULL;
    hyp_proof_check_options options = {
        .size = sizeof options, .given = &(hyp_equation){"", ""}, .given_count = 0}; /* none are */
    hyp_status status = hyp_egraph_create(NULL, &other, diag);
    if (status != HYP_OK) return status;
    status = hyp_ruleset_parse(other, s->rules_path, s->rules_text, s->rules_len, &rules, diag);
    if (status == HYP_OK) status = hyp_shared_proof_check(proof, s->left, s->right, &rules, 1, &options, NULL, diag);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(other);
    return status;
}

static hyp_status print_proof(const saturation *s, hyp_diag *diag)
{
    hyp_shared_proof shared;
    hyp_status status = hyp_egraph_explain_shared(s->eg, s->left, s->right, &shared, diag);
    if (status != HYP_OK) return status;
    status = check_proof(s, &shared, diag);
    if (status == HYP_OK) status = print_checked(&shared, s->json, diag);
    hyp_shared_proof_dispose(&shared);
    return status;
}

/* Adds the terms; a wrong one is named by its line. */
static hyp_status add_terms(saturation *s, hyp_diag *diag)
{
    s->roots = cli_alloc(NULL, s->terms.count, sizeof *s->roots);
    for (size_t i = 0; i < s->terms.count; i++) {
        hyp_diag said = {0};
        hyp_status status = hyp_egraph_add_text(s->eg, s->terms.items[i], &s->roots[i], &said);
        if (status == HYP_OK) continue;
        snprintf(diag->message, sizeof diag->message, "%.250s, line %zu: %.3800s", s->terms_path, s->lines[i],
                 said.message);
        return diag->status = status;
    }
    return HYP_OK;
}

static void say_iteration(const hyp_iteration_report *iteration, size_t count, void *unused)
{
    (void)unused;
    terminal_work_says("iteration %zu, %zu e-nodes, %zu e-classes", count, iteration->e_nodes, iteration->e_classes);
}

static hyp_status run(saturation *s, hyp_diag *diag)
{
    hyp_run_report report;
    hyp_status status = add_terms(s, diag);
    hyp_class_id c;
    if (status == HYP_OK && s->left) status = hyp_egraph_add_text(s->eg, s->left, &c, diag);
    if (status == HYP_OK && s->right) status = hyp_egraph_add_text(s->eg, s->right, &c, diag);
    if (status == HYP_OK) status = hyp_egraph_rebuild(s->eg, diag);
    if (status != HYP_OK) return status;
    terminal_work_begin("hypatia-egraph", false, true);
    s->run.on_iteration = say_iteration;
    status = hyp_egraph_run(s->eg, s->rules, &s->run, &report, diag);
    terminal_work_end();
    bool report_printed = status == HYP_OK;
    if (report_printed && !writes_to_stdout(s)) print_report(s, &report);
    hyp_run_report_dispose(&report);
    if (status == HYP_OK && s->extract >= 0) status = print_best(s, diag);
    if (status == HYP_OK && s->left) status = print_proof(s, diag);
    if (s->json && report_printed) printf("}\n");
    return status;
}

static int saturate(saturation *s, const cli_args *args)
{
    hyp_diag diag = {0};
    size_t terms_len;
    char *rules = read_text_file(args, s->rules_path, &s->rules_len), *terms = NULL;
    int code = CLI_FAILED;
    if (rules && (terms = read_text_file(args, s->terms_path, &terms_len)) != NULL) {
        hyp_egraph_options options = {.size = sizeof options, .explain = s->left, .explain_all = s->left};
        s->rules_text = rules;
        split_terms(s, terms);
        hyp_status status = hyp_egraph_create(&options, &s->eg, &diag);
        if (status == HYP_OK) status = hyp_ruleset_parse(s->eg, s->rules_path, rules, s->rules_len, &s->rules, &diag);
        if (status == HYP_OK) status = run(s, &diag);
        code = status == HYP_OK ? CLI_OK : cli_report(args->tool, &diag);
        if (code == CLI_OK && s->dump_path) code = write_to(args, s->dump_path, write_json, s);
        if (code == CLI_OK && s->dot_path) code = write_to(args, s->dot_path, write_dot, s);
    }
    free(rules);
    free(terms);
    free(s->roots);
    free(s->lines);
    cli_list_free(&s->terms);
    hyp_ruleset_destroy(s->rules);
    hyp_egraph_destroy(s->eg);
    return code;
}

/* The number after `key` in a file of the system; 0 where there is none. */
static size_t read_system(const char *path, const char *key)
{
    FILE *file = fopen(path, "r");
    char line[256];
    size_t value = 0, len = strlen(key);
    while (file && !value && fgets(line, sizeof line, file))
        if (strncmp(line, key, len) == 0 && sscanf(line + len, "%zu", &value) != 1) value = 0;
    if (file) fclose(file);
    return value;
}

size_t most_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    size_t bytes = pages > 0 && size > 0 ? (size_t)pages * (size_t)size : (size_t)1 << 30;
    size_t available = read_system("/proc/meminfo", "MemAvailable:"),
           group = read_system("/sys/fs/cgroup/memory.max", "");
    if (available && available < bytes / 1024) bytes = available * 1024;
    if (group && group < bytes) bytes = group;
    return bytes / 2;
}

static bool read_count(const cli_args *args, int option, const char *value, size_t *out)
{
    int64_t n;
    if (cli_parse_int(value, 1, INT64_MAX, &n)) {
        *out = (size_t)n;
        return true;
    }
    cli_usage_error(args, "--%s: '%s' is no positive number", saturate_options[option].name, value);
    return false;
}

/* One option; false after a message. */
static bool read_saturate_option(saturation *s, cli_args *args, int option, const char *value)
{
    static const char *const schedulers[] = {"simple", "backoff"};
    int picked;
    switch (option) {
    case SAT_RULES: s->rules_path = value; return true;
    case SAT_TERMS: s->terms_path = value; return true;
    case SAT_DUMP: s->dump_path = value; return true;
    case SAT_DOT: s->dot_path = value; return true;
    case SAT_JSON: s->json = true; return true;
    case SAT_ITERS: return read_count(args, option, value, &s->run.max_iterations);
    case SAT_NODES: return read_count(args, option, value, &s->run.max_nodes);
    case SAT_BYTES: return read_count(args, option, value, &s->run.max_bytes);
    case SAT_MATCHES: return read_count(args, option, value, &s->run.max_matches);
    case SAT_DOT_NODES: return read_count(args, option, value, &s->dot_nodes);
    case SAT_SECONDS:
        if (cli_parse_double(value, 1e-9, &s->run.max_seconds)) return true;
        cli_usage_error(args, "--seconds: '%s' is no positive number of seconds", value);
        return false;
    case SAT_SCHEDULER:
        picked = pick(args, "scheduler", value, schedulers, 2);
        s->run.scheduler = (hyp_scheduler)picked;
        return picked >= 0;
    case SAT_EXTRACT: return (s->extract = pick(args, "extract", value, extract_methods, 3)) >= 0;
    case SAT_EXPLAIN:
        s->left = value;
        if (args->at == args->count) {
            cli_usage_error(args, "--explain needs two terms");
            return false;
        }
        s->right = args->argv[args->at++];
        return true;
    case CLI_POSITIONAL: cli_usage_error(args, "'%s': files are given with --rules and --terms", value); return false;
    default: return false;
    }
}

static int command_saturate(int argc, char **argv)
{
    cli_args args = cli_begin("hypatia-egraph saturate", saturate_options, argc, argv);
    saturation s = {.run = {.size = sizeof s.run, .max_iterations = 30, .max_bytes = most_bytes()}, .extract = -1};
    const char *value;
    int option;
    while ((option = cli_next(&args, &value)) != CLI_END) {
        if (option == SAT_HELP) {
            printf("Usage: hypatia-egraph saturate --rules FILE --terms FILE [options]\n"
                   "Adds the terms to an e-graph and rewrites until nothing is new or a limit is reached.\n");
            cli_print_options(stdout, saturate_options);
            return CLI_OK;
        }
        if (!read_saturate_option(&s, &args, option, value)) return CLI_USAGE;
    }
    if (!s.rules_path || !s.terms_path) return cli_usage_error(&args, "--rules and --terms are needed");
    if (writes_to_stdout(&s) && (s.json || s.left || s.extract >= 0 || (s.dump_path && s.dot_path)))
        return cli_usage_error(&args,
                               "with a dump to '-', which takes the place of the report, nothing else is printed");
    file_uses uses = {0};
    file_uses_add(&uses, "--rules", s.rules_path, false);
    file_uses_add(&uses, "--terms", s.terms_path, false);
    file_uses_add(&uses, "--dump", s.dump_path, true);
    file_uses_add(&uses, "--dot", s.dot_path, true);
    int code = file_uses_check(&uses, &args);
    return code == CLI_OK ? saturate(&s, &args) : code;
}

/* ---- main --------------------------------------------------------------------------------------- */

static void help(FILE *to)
{
    fprintf(to,
            "Usage: hypatia-egraph COMMAND ...\n"
            "  saturate   rewrite terms by rules, extract, explain, dump\n"
            "  extract    choose the best terms of an egraph-serialize file\n"
            "  run        run egglog programs\n"
            "  --version, --help; each command has its own --help\n"
            "Exit codes: 0 ok, 1 error, 2 usage, 3 no answer (no finite term, negative costs, a part of\n"
            "egglog that is not read), 4 terms not equal, a check that does not hold.\n");
}

static int run_command(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "extract") == 0) return command_extract(argc - 1, argv + 1);
    if (strcmp(command, "saturate") == 0) return command_saturate(argc - 1, argv + 1);
    if (strcmp(command, "run") == 0) return command_run(argc - 1, argv + 1);
    if (strcmp(command, "--version") == 0) {
        cli_print_version("hypatia-egraph");
        return CLI_OK;
    }
    bool asked = strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0;
    if (!asked && argc > 1) fprintf(stderr, "hypatia-egraph: unknown command '%s'\n", command);
    help(asked ? stdout : stderr);
    return asked ? CLI_OK : CLI_USAGE;
}

int main(int argc, char **argv)
{
    cli_guard_streams();
    return cli_end("hypatia-egraph", run_command(argc, argv));
}
