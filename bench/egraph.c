/* Times a saturation of the e-graph engine.
 *
 *     bench-egraph math|backoff|sums [-n SIZE] [-r ROUNDS] [--explain] [--again] [--extract]
 *
 * math: 24 rules of algebra and calculus on 7 terms, SIZE iterations (11), every rule in each; the sizes of the
 * e-graph are compared with those that egg and egglog reach. backoff: the same under the backoff scheduler (30).
 * sums: a sum of SIZE distinct terms (11) under commutativity and associativity, to saturation; sizes are compared
 * with the closed form. --again adds what a next search pays before it finds a match, --extract the extraction of all
 * terms together by tree cost, every e-node costing 1. Prints one line of JSON. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hypatia/egraph.h"

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

typedef struct settings {
    const char *workload;
    size_t size;
    int rounds;
    bool explain, again, extract;
} settings;

typedef struct outcome {
    double seconds, again, extract;
    double tree_cost; /* of all terms */
    size_t nodes, classes, bytes, iterations, matches;
    double search, apply, rebuild;
    hyp_stop stop;
} outcome;

static void need(hyp_status status, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, "bench-egraph: %s: %s\n", hyp_status_name(status), diag->message);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void expect(const char *what, size_t have, size_t want)
{
    if (have == want) return;
    fprintf(stderr, "bench-egraph: %zu %s, %zu were expected\n", have, what, want);
    exit(1);
}

static void check_math(const hyp_run_report *report)
{
    for (size_t i = 0; i < report->iteration_count && i + 1 < MATH_STEPS; i++) {
        expect("e-nodes", report->iterations[i].e_nodes, math_nodes[i + 1]);
        expect("e-classes", report->iterations[i].e_classes, math_classes[i + 1]);
    }
}

static void check_sums(const hyp_run_report *report, size_t n)
{
    size_t three = 1, two = (size_t)1 << n;
    for (size_t i = 0; i < n; i++) three *= 3;
    expect("e-nodes", report->e_nodes, three - 2 * two + 1 + n);
    expect("e-classes", report->e_classes, two - 1);
}

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
    hyp_egraph_options options = {.size = sizeof options, .explain = s->explain};
    hyp_egraph *eg;
    hyp_ruleset *rules;
    hyp_run_report report;
    need(hyp_egraph_create(&options, &eg, &diag), &diag);
    need(hyp_ruleset_parse(eg, "bench", text, strlen(text), &rules, &diag), &diag);
    hyp_class_id roots[MATH_TERMS];
    size_t root_count = add_terms(eg, s, roots, &diag);
    hyp_run_options run = {.size = sizeof run, .max_iterations = sums ? 0 : s->size};
    if (backoff) run.scheduler = HYP_SCHEDULER_BACKOFF;
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
        out.search += report.iterations[i].search_seconds;
        out.apply += report.iterations[i].apply_seconds;
        out.rebuild += report.iterations[i].rebuild_seconds;
    }
    if (sums)
        check_sums(&report, s->size);
    else if (!backoff)
        check_math(&report);
    hyp_run_report_dispose(&report);
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
        hyp_run_report_dispose(&report);
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
    fprintf(stderr, "usage: bench-egraph math|backoff|sums [-n SIZE] [-r ROUNDS] [--explain] [--again] [--extract]\n");
    exit(2);
}

static settings read_settings(int argc, char **argv)
{
    if (argc < 2) usage();
    settings s = {.workload = argv[1], .rounds = 5};
    bool known = strcmp(s.workload, "math") == 0 || strcmp(s.workload, "sums") == 0;
    if (!known && strcmp(s.workload, "backoff") != 0) usage();
    s.size = strcmp(s.workload, "backoff") == 0 ? 30 : 11;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--explain") == 0)
            s.explain = true;
        else if (strcmp(argv[i], "--again") == 0)
            s.again = true;
        else if (strcmp(argv[i], "--extract") == 0)
            s.extract = true;
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
    printf("{\"workload\": \"%s\", \"size\": %zu, \"explain\": %s, \"seconds\": %.5f, \"median\": %.5f, ", s.workload,
           s.size, s.explain ? "true" : "false", best.seconds, times[s.rounds / 2]);
    if (s.again) printf("\"again\": %.5f, ", best.again);
    if (s.extract) printf("\"extract\": %.5f, \"tree_cost\": %.0f, ", best.extract, best.tree_cost);
    printf("\"search\": %.5f, \"apply\": %.5f, \"rebuild\": %.5f, \"iterations\": %zu, \"matches\": %zu, ", best.search,
           best.apply, best.rebuild, best.iterations, best.matches);
    printf("\"e_nodes\": %zu, \"e_classes\": %zu, \"stop\": \"%s\", \"peak_bytes\": %zu, \"touched_bytes\": %zu}\n",
           best.nodes, best.classes, hyp_stop_name(best.stop), best.bytes, touched() - before);
    free(times);
    return 0;
}
