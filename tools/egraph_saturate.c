/* egraph_saturate.c - hypatia-egraph saturate: terms are rewritten by rules, and the best forms extracted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "egraph_tool.h"
#include "interrupt.h"
#include "overwrite.h"
#include "terminal.h"

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
    SAT_COST,
    SAT_COSTS,
    SAT_DUMP,
    SAT_DOT,
    SAT_SVG,
    SAT_DOT_NODES,
    SAT_AROUND,
    SAT_DEPTH,
    SAT_JSON,
    SAT_HELP
};

static const cli_option saturate_options[] = {
    [SAT_RULES] = {"rules", 0, "FILE", "rewrite rules, s-expressions or tab-separated"},
    [SAT_TERMS] = {"terms", 0, "FILE", "the terms to begin with, on as many lines as they like; ';' begins a comment"},
    [SAT_ITERS] = {"iters", 0, "N", "limit of iterations (30)"},
    [SAT_NODES] = {"nodes", 0, "N", "limit of e-nodes (none)"},
    [SAT_SECONDS] = {"seconds", 0, "S", "limit of time (none)"},
    [SAT_BYTES] = {"bytes", 0, "N", "limit of the e-graph's memory in bytes (half of what the machine has available)"},
    [SAT_MATCHES] = {"matches", 0, "N", "limit of applied matches (none)"},
    [SAT_SCHEDULER] = {"scheduler", 0, "simple|backoff",
                       "every rule each time, or ban those with many matches (simple)"},
    [SAT_EXPLAIN] = {"explain", 0, "A B",
                     "print a proof that two terms are equal, checked by the rules alone; takes two arguments"},
    [SAT_EXTRACT] = {"extract", 0, "tree|dag|exact", "print the best term of each term, by the costs of its operators"},
    [SAT_COST] = {"cost", 0, "OP=N",
                  "what an operator costs in place of 1: a number, not below 0 but with --extract exact, or inf; any "
                  "number of times"},
    [SAT_COSTS] = {"costs", 0, "FILE", "lines of an operator and what it costs"},
    [SAT_DUMP] = {"dump-json", 0, "FILE|-", "write the e-graph as egraph-serialize JSON; to - in place of the report"},
    [SAT_DOT] = {"dot", 0, "FILE|-", "write the e-graph for Graphviz; to - in place of the report"},
    [SAT_SVG] = {"svg", 0, "FILE", "draw the e-graph, by Graphviz's program dot"},
    [SAT_DOT_NODES] = {"dot-nodes", 0, "N", "most e-nodes to draw (500)"},
    [SAT_AROUND] = {"around", 0, "TERM", "for what is written or drawn: only what is near a term"},
    [SAT_DEPTH] = {"depth", 0, "N", "for --around: how near, in steps from e-node to child or back (2)"},
    [SAT_JSON] = {"json", 0, NULL, "print JSON"},
    [SAT_HELP] = {"help", 'h', NULL, "print this help"},
    {0},
};

#define LONGEST_FILE ((size_t)1 << 30) /* bytes of rules or terms */

typedef struct saturation {
    const char *rules_path, *terms_path, *costs_path, *left, *right, *rules_text;
    size_t rules_len;
    hyp_egraph_run_options run;
    int extract; /* hyp_extract_method, or -1 */
    bool json;
    hyp_egraph *eg;
    hyp_ruleset *rules;
    hyp_class_id *roots;
    term_list list;
    cost_table costs;
    egraph_writing writing;
    const volatile sig_atomic_t *interrupted;
} saturation;

static bool is_interrupted(void *user)
{
    const saturation *s = user;
    return *s->interrupted != 0;
}

/* The whole file, NUL-terminated; NULL after a message. A device without an end is not read for ever. */
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
    const egraph_writing *w = &s->writing;
    return (w->json && strcmp(w->json, "-") == 0) || (w->dot && strcmp(w->dot, "-") == 0);
}

static void print_report(const saturation *s, const hyp_egraph_run_report *r)
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

/* The best form of each term by itself. */
static hyp_status print_best(saturation *s, hyp_diag *diag)
{
    hyp_extract_options options = {
        .size = sizeof options, .method = (hyp_extract_method)s->extract, .stop = is_interrupted, .stop_user = s};
    hyp_status status = HYP_OK;
    if (s->json) printf(",\n \"best\": [");
    for (size_t i = 0; i < s->list.terms.count && status == HYP_OK; i++) {
        hyp_extraction ex;
        terminal_work_says("extracting the best form of term %zu of %zu", i + 1, s->list.terms.count);
        status = hyp_egraph_extract_with(s->eg, &s->roots[i], 1, &options, costs_of, &s->costs, &ex, diag);
        terminal_work_hide();
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
    status = language_register(other, diag);
    if (status == HYP_OK) status = hyp_ruleset_parse(other, s->rules_path, s->rules_text, s->rules_len, &rules, diag);
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
    s->roots = cli_alloc(NULL, s->list.terms.count, sizeof *s->roots);
    for (size_t i = 0; i < s->list.terms.count; i++) {
        hyp_diag said = {0};
        hyp_status status = hyp_egraph_add_text(s->eg, s->list.terms.items[i], &s->roots[i], &said);
        if (status == HYP_OK) continue;
        snprintf(diag->message, sizeof diag->message, "%.250s, line %zu: %.3800s", s->terms_path, s->list.lines[i],
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

/* What is printed when the run has ended, by itself or not. */
static hyp_status print_results(saturation *s, const hyp_egraph_run_report *report, hyp_diag *diag)
{
    hyp_status status = HYP_OK;
    if (!writes_to_stdout(s)) print_report(s, report);
    if (s->extract >= 0) status = print_best(s, diag);
    if (status == HYP_OK && s->left) status = print_proof(s, diag);
    if (s->json) printf("}\n");
    return status;
}

static hyp_status run(saturation *s, hyp_diag *diag)
{
    hyp_egraph_run_report report;
    hyp_status status = add_terms(s, diag);
    hyp_class_id c;
    if (status == HYP_OK && s->left) status = hyp_egraph_add_text(s->eg, s->left, &c, diag);
    if (status == HYP_OK && s->right) status = hyp_egraph_add_text(s->eg, s->right, &c, diag);
    if (status == HYP_OK) status = hyp_egraph_rebuild(s->eg, diag);
    if (status != HYP_OK) return status;
    s->interrupted = interrupt_catch(); /* the first Ctrl-C ends the run, and what was found is printed */
    s->run.on_iteration = say_iteration;
    s->run.stop = is_interrupted;
    s->run.stop_user = s;
    terminal_work_begin("hypatia-egraph", false, true);
    status = hyp_egraph_run(s->eg, s->rules, &s->run, &report, diag);
    terminal_work_hide();
    if (status == HYP_OK) status = print_results(s, &report, diag);
    terminal_work_end();
    hyp_egraph_run_report_dispose(&report);
    return status;
}

/* Reads costs, rules and terms; false after a message. */
static bool read_files(saturation *s, const cli_args *args, char **out_rules)
{
    size_t len;
    char *terms, *costs = s->costs_path ? read_text_file(args, s->costs_path, &len) : NULL;
    bool good = !s->costs_path || (costs && costs_read(&s->costs, args->tool, s->costs_path, costs));
    free(costs);
    costs_sort(&s->costs);
    s->rules_text = *out_rules = good ? read_text_file(args, s->rules_path, &s->rules_len) : NULL;
    terms = *out_rules ? read_text_file(args, s->terms_path, &len) : NULL;
    if (terms) terms_split(&s->list, terms);
    good = terms != NULL;
    free(terms);
    return good;
}

static int work(saturation *s, const cli_args *args)
{
    hyp_diag diag = {0};
    hyp_egraph_options options = {.size = sizeof options, .explain = s->left, .explain_all = s->left};
    hyp_status status = hyp_egraph_create(&options, &s->eg, &diag);
    if (status == HYP_OK) status = language_register(s->eg, &diag);
    if (status == HYP_OK)
        status = hyp_ruleset_parse(s->eg, s->rules_path, s->rules_text, s->rules_len, &s->rules, &diag);
    if (status == HYP_OK) status = run(s, &diag);
    if (status != HYP_OK) return cli_report(args->tool, &diag);
    egraph_writing *w = &s->writing;
    w->eg = s->eg;
    w->roots = s->roots;
    w->root_count = s->list.terms.count;
    w->costs = &s->costs;
    w->method = s->extract;
    int code = egraph_write(w, args);
    return code == CLI_OK && *s->interrupted ? CLI_INTERRUPTED : code;
}

static int saturate(saturation *s, const cli_args *args)
{
    char *rules;
    int code = read_files(s, args, &rules) ? work(s, args) : CLI_FAILED;
    free(rules);
    free(s->roots);
    terms_free(&s->list);
    costs_free(&s->costs);
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

/* Half of the memory that is available, also to a control group: a run ends with a report, not at the hands of the
 * system, and extracting, explaining and writing have the other half. */
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

/* OP=N: the operator's name may have a '=' in it. */
static bool read_cost(saturation *s, const cli_args *args, const char *value)
{
    const char *equals = strrchr(value, '=');
    if (equals && costs_add(&s->costs, value, (size_t)(equals - value), equals + 1)) return true;
    cli_usage_error(args, "--cost: '%s' is no OP=N, an operator and a number, or inf", value);
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
    case SAT_COSTS: s->costs_path = value; return true;
    case SAT_COST: return read_cost(s, args, value);
    case SAT_DUMP: s->writing.json = value; return true;
    case SAT_DOT: s->writing.dot = value; return true;
    case SAT_SVG: s->writing.svg = value; return true;
    case SAT_AROUND: s->writing.around = value; return true;
    case SAT_DEPTH: return read_count(args, option, value, &s->writing.depth);
    case SAT_JSON: s->json = true; return true;
    case SAT_ITERS: return read_count(args, option, value, &s->run.max_iterations);
    case SAT_NODES: return read_count(args, option, value, &s->run.max_nodes);
    case SAT_BYTES: return read_count(args, option, value, &s->run.max_bytes);
    case SAT_MATCHES: return read_count(args, option, value, &s->run.max_matches);
    case SAT_DOT_NODES: return read_count(args, option, value, &s->writing.most_nodes);
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

int command_saturate(int argc, char **argv)
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
    const egraph_writing *w = &s.writing;
    if ((s.costs_path || s.costs.count) && s.extract < 0)
        return cli_usage_error(&args, "costs are for --extract tree, dag or exact");
    if (w->depth && !w->around) return cli_usage_error(&args, "--depth is how near to the term of --around TERM");
    if (w->around && !w->json && !w->dot && !w->svg)
        return cli_usage_error(&args, "--around is for what --dump-json, --dot or --svg writes");
    if (writes_to_stdout(&s) && (s.json || s.left || s.extract >= 0 || (w->json && w->dot)))
        return cli_usage_error(&args,
                               "with a dump to '-', which takes the place of the report, nothing else is printed");
    file_uses uses = {0};
    file_uses_add(&uses, "--rules", s.rules_path, false);
    file_uses_add(&uses, "--terms", s.terms_path, false);
    file_uses_add(&uses, "--costs", s.costs_path, false);
    file_uses_add(&uses, "--dump-json", w->json, true);
    file_uses_add(&uses, "--dot", w->dot, true);
    file_uses_add(&uses, "--svg", w->svg, true);
    int code = file_uses_check(&uses, &args);
    return code == CLI_OK ? saturate(&s, &args) : code;
}
