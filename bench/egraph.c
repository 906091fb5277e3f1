/* Times a saturation of the e-graph engine.
 *
 *     bench-egraph math|backoff|sums [-n SIZE] [-r ROUNDS] [--with WHAT] [--again] [--extract]
 *
 * math: 24 rules of algebra and calculus on 7 terms, SIZE iterations (11), every rule in each; the sizes of the
 * e-graph are compared with those that egg and egglog reach. backoff: the same under the backoff scheduler (30).
 * sums: a sum of SIZE distinct terms (11) under commutativity and associativity, to saturation; sizes are compared
 * with the closed form. --again adds what a next search pays before it finds a match, --extract the extraction of all
 * terms together by tree cost, every e-node costing 1. Prints one line of JSON.
 *
 * --with says what the language has beside rules: `nothing`; `analysis`, one whose facts of a byte say nothing; `fold`, the
 * folding of constants, as in egg's tests; `condition`, one that always holds on every rule; `callback`, which is told of
 * every rewrite; `explain`, the record for proofs. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH "bench-egraph"
#include "egraph_bench.h"

static const char sums_rules[] = "(rule comm-add (+ ?a ?b) => (+ ?b ?a))"
                                 "(rule assoc-add (+ ?a (+ ?b ?c)) => (+ (+ ?a ?b) ?c))";

static const char math_rules[] =
    "(rule comm-add (+ ?a ?b) => (+ ?b ?a)) (rule comm-mul (* ?a ?b) => (* ?b ?a))"
    "(rule assoc-add (+ ?a (+ ?b ?c)) => (+ (+ ?a ?b) ?c)) (rule assoc-mul (* ?a (* ?b ?c)) => (* (* ?a ?b) ?c))"
    "(rule sub-canon (- ?a ?b) => (+ ?a (* -1 ?b))) (rule zero-add (+ ?a 0) => ?a) (rule zero-mul (* ?a 0) => 0)"
    "(rule one-mul (* ?a 1) => ?a) (rule cancel-sub (- ?a ?a) => 0)"
    "(rule distribute (* ?a (+ ?b ?c)) => (+ (* ?a ?b) (* ?a ?c)))"
    "(rule factor (+ (* ?a ?b) (* ?a ?c)) => (* ?a (+ ?b ?c)))"
    "(rule pow-mul (* (pow ?a ?b) (pow ?a ?c)) => (pow ?a (+ ?b ?c))) (rule pow-one (pow ?x 1) => ?x)"
    "(rule pow-two (pow ?x 2) => (* ?x ?x)) (rule d-add (d ?x (+ ?a ?b)) => (+ (d ?x ?a) (d ?x ?b)))"
    "(rule d-mul (d ?x (* ?a ?b)) => (+ (* ?a (d ?x ?b)) (* ?b (d ?x ?a)))) (rule d-sin (d ?x (sin ?x)) => (cos ?x))"
    "(rule d-cos (d ?x (cos ?x)) => (* -1 (sin ?x))) (rule i-one (i 1 ?x) => ?x)"
    "(rule i-cos (i (cos ?x) ?x) => (sin ?x)) (rule i-sin (i (sin ?x) ?x) => (* -1 (cos ?x)))"
    "(rule i-add (i (+ ?f ?g) ?x) => (+ (i ?f ?x) (i ?g ?x)))"
    "(rule i-sub (i (- ?f ?g) ?x) => (- (i ?f ?x) (i ?g ?x)))"
    "(rule i-parts (i (* ?a ?b) ?x) => (- (* ?a (i ?b ?x)) (i (* (d ?x ?a) (i ?b ?x)) ?x)))";

static const char *const math_terms[] = {"(i (ln x) x)",
                                         "(i (+ x (cos x)) x)",
                                         "(i (* (cos x) x) x)",
                                         "(d x (+ 1 (* 2 x)))",
                                         "(d x (- (pow x 3) (* 7 (pow x 2))))",
                                         "(+ (* y (+ x y)) (- (+ x 2) (+ x x)))",
                                         "(/ 1 (- (/ (+ 1 (sqrt five)) 2) (/ (- 1 (sqrt five)) 2)))"};

static const size_t math_nodes[] = {35, 69, 118, 208, 389, 784, 1576, 3160, 8113, 28303, 136446, 1047896};
static const size_t math_classes[] = {35, 50, 71, 116, 197, 361, 666, 1347, 3576, 12445, 58464, 443832};
enum { MATH_STEPS = sizeof math_nodes / sizeof *math_nodes, MATH_TERMS = sizeof math_terms / sizeof *math_terms };

typedef enum extra { WITH_NOTHING, WITH_ANALYSIS, WITH_FOLD, WITH_CONDITION, WITH_CALLBACK, WITH_EXPLAIN } extra;
static const char *const extra_names[] = {"nothing", "analysis", "fold", "condition", "callback", "explain"};
enum { EXTRAS = sizeof extra_names / sizeof *extra_names };

typedef struct settings {
    const char *workload;
    size_t size;
    int rounds;
    extra with;
    bool again, extract;
} settings;

typedef struct outcome {
    double seconds, again, extract;
    double tree_cost; /* of all terms */
    size_t nodes, classes, bytes, iterations, matches;
    double search, apply, rebuild;
    hyp_stop stop;
} outcome;

static void expect(const char *what, size_t have, size_t want)
{
    if (have == want) return;
    fprintf(stderr, "bench-egraph: %zu %s, %zu were expected\n", have, what, want);
    exit(1);
}

static void check_math(const hyp_egraph_run_report *report)
{
    for (size_t i = 0; i < report->iteration_count && i + 1 < MATH_STEPS; i++) {
        expect("e-nodes", report->iterations[i].e_nodes, math_nodes[i + 1]);
        expect("e-classes", report->iterations[i].e_classes, math_classes[i + 1]);
    }
}

static void check_sums(const hyp_egraph_run_report *report, size_t n)
{
    size_t three = 1, two = (size_t)1 << n;
    for (size_t i = 0; i < n; i++) three *= 3;
    expect("e-nodes", report->e_nodes, three - 2 * two + 1 + n);
    expect("e-classes", report->e_classes, two - 1);
}

/* ---- what a language has beside rules ------------------------------------------------------------ */

static hyp_status make_nothing(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    (void)eg, (void)node, (void)data, (void)user, (void)diag;
    return HYP_OK;
}

static hyp_status merge_nothing(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user,
                                hyp_diag *diag)
{
    (void)eg, (void)into, (void)from, (void)user, (void)diag;
    *out_changed = false;
    return HYP_OK;
}

typedef struct number {
    int64_t value;
    bool known;
} number;

static const char *const operator_names[] = {"+", "-", "*", "/"};
static hyp_symbol operators[4];

static bool compute(int op, int64_t a, int64_t b, int64_t *out)
{
    if (op == 0) return !__builtin_add_overflow(a, b, out);
    if (op == 1) return !__builtin_sub_overflow(a, b, out);
    if (op == 2) return !__builtin_mul_overflow(a, b, out);
    if (b == 0 || b == -1 || a % b != 0) return false;
    *out = a / b;
    return true;
}

static hyp_status make_number(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    (void)user, (void)diag;
    number *out = data;
    size_t count;
    const hyp_class_id *kids = hyp_enode_children(eg, node, &count);
    hyp_symbol symbol = hyp_enode_op(eg, node);
    if (count == 0) {
        char *end;
        out->value = strtoll(hyp_egraph_symbol_name(eg, symbol), &end, 10);
        out->known = *end == 0;
    }
    for (int op = 0; op < 4 && count == 2; op++) {
        if (symbol != operators[op]) continue;
        const number *a = hyp_egraph_data(eg, kids[0]), *b = hyp_egraph_data(eg, kids[1]);
        out->known = a->known && b->known && compute(op, a->value, b->value, &out->value);
    }
    return HYP_OK;
}

static hyp_status merge_number(hyp_egraph *eg, void *into, const void *from, bool *out_changed, void *user,
                               hyp_diag *diag)
{
    (void)eg, (void)user;
    number *a = into;
    const number *b = from;
    *out_changed = !a->known && b->known;
    if (*out_changed) *a = *b;
    if (!b->known || a->value == b->value) return HYP_OK;
    snprintf(diag->message, sizeof diag->message, "%lld = %lld", (long long)a->value, (long long)b->value);
    return diag->status = HYP_ERR_MALFORMED;
}

static hyp_status add_number(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag)
{
    (void)user;
    const number *known = hyp_egraph_data(eg, c);
    char name[24];
    hyp_symbol symbol;
    hyp_class_id leaf;
    if (!known->known) return HYP_OK;
    snprintf(name, sizeof name, "%lld", (long long)known->value);
    hyp_status status = hyp_egraph_symbol(eg, name, &symbol, diag);
    if (status == HYP_OK) status = hyp_egraph_add(eg, symbol, NULL, 0, &leaf, NULL, diag);
    return status == HYP_OK ? hyp_egraph_union(eg, c, leaf, "folding", NULL, diag) : status;
}

static hyp_status always(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    (void)call, (void)diag;
    *out_holds = true;
    return HYP_OK;
}

static void count_rewrite(const hyp_rewrite_event *event, void *user)
{
    (void)event;
    ++*(size_t *)user;
}

static hyp_egraph *make_egraph(const settings *s, hyp_diag *diag)
{
    static const hyp_analysis nothing = {.data_size = 1, .make = make_nothing, .merge = merge_nothing};
    static const hyp_analysis fold = {
        .data_size = sizeof(number), .make = make_number, .merge = merge_number, .modify = add_number};
    hyp_egraph_options options = {.size = sizeof options, .explain = s->with == WITH_EXPLAIN};
    if (s->with == WITH_ANALYSIS) options.analysis = &nothing;
    if (s->with == WITH_FOLD) options.analysis = &fold;
    hyp_egraph *eg;
    need(hyp_egraph_create(&options, &eg, diag), diag);
    for (int i = 0; i < 4; i++) need(hyp_egraph_symbol(eg, operator_names[i], &operators[i], diag), diag);
    need(hyp_egraph_register_condition(eg, "always", 1, always, NULL, diag), diag);
    return eg;
}

/* The rules, each with a condition on its first variable where that is wanted; variables have one letter. */
static hyp_ruleset *parse_rules(hyp_egraph *eg, const char *text, const settings *s, hyp_diag *diag)
{
    size_t len = 0;
    char *written = malloc(2 * strlen(text) + 1);
    hyp_ruleset *rules;
    int depth = 0;
    const char *variable = NULL;
    if (!written) exit(1);
    for (const char *at = text; *at; at++) {
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
        if (*at == '?' && !variable) variable = at;
        if (*at == ')' && depth == 0) {
            if (s->with == WITH_CONDITION) len += (size_t)sprintf(written + len, " :if (always %.2s)", variable);
            variable = NULL;
        }
        written[len++] = *at;
    }
    need(hyp_ruleset_parse(eg, "bench", written, len, &rules, diag), diag);
    free(written);
    return rules;
}

/* ---- a run -------------------------------------------------------------------------------------- */

/* Returns how many roots there are. */
static size_t add_terms(hyp_egraph *eg, const settings *s, hyp_class_id roots[MATH_TERMS], hyp_diag *diag)
{
    hyp_class_id c, kids[2];
    char name[24];
    if (strcmp(s->workload, "sums") != 0) {
        for (size_t i = 0; i < MATH_TERMS; i++) need(hyp_egraph_add_text(eg, math_terms[i], &roots[i], diag), diag);
        return MATH_TERMS;
    }
    hyp_symbol plus;
    need(hyp_egraph_symbol(eg, "+", &plus, diag), diag);
    for (size_t i = s->size; i > 0; i--) {
        snprintf(name, sizeof name, "%zu", i);
        need(hyp_egraph_add_text(eg, name, &kids[0], diag), diag);
        if (i == s->size)
            c = kids[0];
        else
            need(hyp_egraph_add(eg, plus, (kids[1] = c, kids), 2, &c, NULL, diag), diag);
    }
    roots[0] = c;
    return 1;
}

static double one(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)eg, (void)node, (void)user;
    return 1;
}

static outcome run_once(const settings *s)
{
    hyp_diag diag = {0};
    bool sums = strcmp(s->workload, "sums") == 0, backoff = strcmp(s->workload, "backoff") == 0;
    const char *text = sums ? sums_rules : math_rules;
    hyp_egraph *eg = make_egraph(s, &diag);
    hyp_ruleset *rules = parse_rules(eg, text, s, &diag);
    hyp_egraph_run_report report;
    size_t told = 0, applications = 0;
    hyp_class_id roots[MATH_TERMS];
    size_t root_count = add_terms(eg, s, roots, &diag);
    hyp_egraph_run_options run = {.size = sizeof run, .max_iterations = sums ? 0 : s->size};
    if (backoff) run.scheduler = HYP_SCHEDULER_BACKOFF;
    if (s->with == WITH_CALLBACK) run.on_rewrite = count_rewrite, run.user = &told;
    double begin = now();
    need(hyp_egraph_run(eg, rules, &run, &report, &diag), &diag);
    outcome out = {.seconds = now() - begin,
                   .nodes = report.e_nodes,
                   .classes = report.e_classes,
                   .bytes = report.peak_bytes,
                   .iterations = report.iteration_count,
                   .stop = report.stop};
    for (size_t i = 0; i < report.iteration_count; i++) {
        out.matches += report.iterations[i].matches;
        applications += report.iterations[i].applications;
        out.search += report.iterations[i].search_seconds;
        out.apply += report.iterations[i].apply_seconds;
        out.rebuild += report.iterations[i].rebuild_seconds;
    }
    if (s->with == WITH_CALLBACK) expect("rewrites", told, applications);
    if (sums)
        check_sums(&report, s->size);
    else if (!backoff && s->with != WITH_FOLD) /* which learns more than rules say */
        check_math(&report);
    hyp_egraph_run_report_dispose(&report);
    if (s->extract) {
        hyp_extraction extraction;
        begin = now();
        need(hyp_egraph_extract(eg, roots, root_count, HYP_EXTRACT_TREE, one, NULL, &extraction, &diag), &diag);
        out.extract = now() - begin;
        out.tree_cost = extraction.tree_cost;
        hyp_extraction_dispose(&extraction);
    }
    if (s->again) { /* the first match ends the run, so this is what stands before it */
        run.max_iterations = run.max_matches = 1;
        begin = now();
        need(hyp_egraph_run(eg, rules, &run, &report, &diag), &diag);
        out.again = now() - begin;
        hyp_egraph_run_report_dispose(&report);
    }
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
    return out;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void usage(void)
{
    fprintf(stderr, "usage: bench-egraph math|backoff|sums [-n SIZE] [-r ROUNDS] [--again] [--extract]\n"
                    "    [--with nothing|analysis|fold|condition|callback|explain]\n");
    exit(2);
}

static extra read_extra(const char *name)
{
    for (int i = 0; i < EXTRAS; i++)
        if (strcmp(name, extra_names[i]) == 0) return (extra)i;
    usage();
    return WITH_NOTHING;
}

static settings read_settings(int argc, char **argv)
{
    if (argc < 2) usage();
    settings s = {.workload = argv[1], .rounds = 5};
    bool known = strcmp(s.workload, "math") == 0 || strcmp(s.workload, "sums") == 0;
    if (!known && strcmp(s.workload, "backoff") != 0) usage();
    s.size = strcmp(s.workload, "backoff") == 0 ? 30 : 11;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--again") == 0)
            s.again = true;
        else if (strcmp(argv[i], "--extract") == 0)
            s.extract = true;
        else if (i + 1 < argc && strcmp(argv[i], "--with") == 0)
            s.with = read_extra(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "-n") == 0)
            s.size = (size_t)atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "-r") == 0)
            s.rounds = atoi(argv[++i]);
        else
            usage();
    }
    if (s.rounds < 1 || s.size < 1 || s.size > 60) usage();
    return s;
}

/* The most memory that this process had touched at a time; 0 where the system does not say. (getrusage would also count
 * what the process was before it became this program.) */
static size_t touched(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    size_t kilobytes = 0;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %zu", &kilobytes) == 1) break;
    if (status) fclose(status);
    return kilobytes * 1024;
}

int main(int argc, char **argv)
{
    settings s = read_settings(argc, argv);
    double *times = calloc((size_t)s.rounds, sizeof *times);
    outcome best = {0};
    size_t before = touched();
    if (!times) return 1;
    for (int i = 0; i < s.rounds; i++) {
        outcome o = run_once(&s);
        times[i] = o.seconds;
        if (i == 0 || o.seconds < best.seconds) best = o;
    }
    qsort(times, (size_t)s.rounds, sizeof *times, by_size);
    printf("{\"workload\": \"%s\", \"size\": %zu, \"with\": \"%s\", \"seconds\": %.5f, \"median\": %.5f, ", s.workload,
           s.size, extra_names[s.with], best.seconds, times[s.rounds / 2]);
    if (s.again) printf("\"again\": %.5f, ", best.again);
    if (s.extract) printf("\"extract\": %.5f, \"tree_cost\": %.0f, ", best.extract, best.tree_cost);
    printf("\"search\": %.5f, \"apply\": %.5f, \"rebuild\": %.5f, \"iterations\": %zu, \"matches\": %zu, ", best.search,
           best.apply, best.rebuild, best.iterations, best.matches);
    printf("\"e_nodes\": %zu, \"e_classes\": %zu, \"stop\": \"%s\", \"peak_bytes\": %zu, \"touched_bytes\": %zu}\n",
           best.nodes, best.classes, hyp_stop_name(best.stop), best.bytes, touched() - before);
    free(times);
    return 0;
}
