/* What the tests of the e-graph share: short calls that must succeed, and rule sets. */
#ifndef TESTS_EGRAPH_SUPPORT_H
#define TESTS_EGRAPH_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hypatia/egraph.h"

#define must(expr)                                                                                                     \
    do {                                                                                                               \
        hyp_diag diag = {0};                                                                                           \
        hyp_status must_status_ = (expr);                                                                              \
        if (must_status_ != HYP_OK) fail_msg("%s: %s", hyp_status_name(must_status_), diag.message);                   \
    } while (0)

static inline hyp_egraph *new_graph(bool explain, const hyp_analysis *analysis)
{
    hyp_egraph *eg;
    hyp_egraph_options options = {.size = sizeof options, .analysis = analysis, .explain = explain};
    must(hyp_egraph_create(&options, &eg, &diag));
    return eg;
}

static inline hyp_class_id term(hyp_egraph *eg, const char *text)
{
    hyp_class_id c;
    must(hyp_egraph_add_text(eg, text, &c, &diag));
    return c;
}

static inline hyp_ruleset *rules_of(hyp_egraph *eg, const char *text)
{
    hyp_ruleset *rules;
    must(hyp_ruleset_parse(eg, "test.rules", text, strlen(text), &rules, &diag));
    return rules;
}

static inline void rebuild_and_check(hyp_egraph *eg)
{
    must(hyp_egraph_rebuild(eg, &diag));
    must(hyp_egraph_check(eg, &diag));
}

static inline void unite(hyp_egraph *eg, const char *a, const char *b)
{
    hyp_class_id x = term(eg, a), y = term(eg, b);
    must(hyp_egraph_union(eg, x, y, NULL, NULL, &diag));
}

static inline bool equal(hyp_egraph *eg, const char *a, const char *b)
{
    hyp_class_id x = term(eg, a), y = term(eg, b);
    must(hyp_egraph_rebuild(eg, &diag));
    return hyp_egraph_find(eg, x) == hyp_egraph_find(eg, y);
}

/* Runs rules one iteration at a time, checking every invariant after each. */
static inline hyp_stop run_checked(hyp_egraph *eg, hyp_ruleset *rules, size_t iterations)
{
    for (size_t i = 0; i < iterations; i++) {
        hyp_egraph_run_report report;
        hyp_egraph_run_options options = {.size = sizeof options, .max_iterations = 1};
        must(hyp_egraph_run(eg, rules, &options, &report, &diag));
        must(hyp_egraph_check(eg, &diag));
        hyp_stop stop = report.stop;
        hyp_egraph_run_report_dispose(&report);
        if (stop != HYP_STOP_ITERATIONS) return stop;
    }
    return HYP_STOP_ITERATIONS;
}

/* (+ 1 (+ 2 ... n)) */
static inline void chain_text(char *out, size_t size, int n)
{
    size_t len = 0;
    for (int i = 1; i < n; i++) len += (size_t)snprintf(out + len, size - len, "(+ %d ", i);
    len += (size_t)snprintf(out + len, size - len, "%d", n);
    for (int i = 1; i < n; i++) len += (size_t)snprintf(out + len, size - len, ")");
}

#define ASSOC_RULES                                                                                                    \
    "(rule comm-add (+ ?a ?b) => (+ ?b ?a))"                                                                           \
    "(rule assoc-add (+ ?a (+ ?b ?c)) => (+ (+ ?a ?b) ?c))"

/* Identities of algebra and calculus; d is (derivative variable term), i is (integral term variable). */
#define MATH_RULES                                                                                                     \
    "(rule comm-add (+ ?a ?b) => (+ ?b ?a))"                                                                           \
    "(rule comm-mul (* ?a ?b) => (* ?b ?a))"                                                                           \
    "(rule assoc-add (+ ?a (+ ?b ?c)) => (+ (+ ?a ?b) ?c))"                                                            \
    "(rule assoc-mul (* ?a (* ?b ?c)) => (* (* ?a ?b) ?c))"                                                            \
    "(rule sub-canon (- ?a ?b) => (+ ?a (* -1 ?b)))"                                                                   \
    "(rule zero-add (+ ?a 0) => ?a)"                                                                                   \
    "(rule zero-mul (* ?a 0) => 0)"                                                                                    \
    "(rule one-mul (* ?a 1) => ?a)"                                                                                    \
    "(rule cancel-sub (- ?a ?a) => 0)"                                                                                 \
    "(rule distribute (* ?a (+ ?b ?c)) => (+ (* ?a ?b) (* ?a ?c)))"                                                    \
    "(rule factor (+ (* ?a ?b) (* ?a ?c)) => (* ?a (+ ?b ?c)))"                                                        \
    "(rule pow-mul (* (pow ?a ?b) (pow ?a ?c)) => (pow ?a (+ ?b ?c)))"                                                 \
    "(rule pow-one (pow ?x 1) => ?x)"                                                                                  \
    "(rule pow-two (pow ?x 2) => (* ?x ?x))"                                                                           \
    "(rule d-add (d ?x (+ ?a ?b)) => (+ (d ?x ?a) (d ?x ?b)))"                                                         \
    "(rule d-mul (d ?x (* ?a ?b)) => (+ (* ?a (d ?x ?b)) (* ?b (d ?x ?a))))"                                           \
    "(rule d-sin (d ?x (sin ?x)) => (cos ?x))"                                                                         \
    "(rule d-cos (d ?x (cos ?x)) => (* -1 (sin ?x)))"                                                                  \
    "(rule i-one (i 1 ?x) => ?x)"                                                                                      \
    "(rule i-cos (i (cos ?x) ?x) => (sin ?x))"                                                                         \
    "(rule i-sin (i (sin ?x) ?x) => (* -1 (cos ?x)))"                                                                  \
    "(rule i-add (i (+ ?f ?g) ?x) => (+ (i ?f ?x) (i ?g ?x)))"                                                         \
    "(rule i-sub (i (- ?f ?g) ?x) => (- (i ?f ?x) (i ?g ?x)))"                                                         \
    "(rule i-parts (i (* ?a ?b) ?x) => (- (* ?a (i ?b ?x)) (i (* (d ?x ?a) (i ?b ?x)) ?x)))"

/* The terms that the per-iteration counts of MATH_RULES are known for. */
static inline void add_math_terms(hyp_egraph *eg)
{
    static const char *const terms[] = {"(i (ln x) x)",
                                        "(i (+ x (cos x)) x)",
                                        "(i (* (cos x) x) x)",
                                        "(d x (+ 1 (* 2 x)))",
                                        "(d x (- (pow x 3) (* 7 (pow x 2))))",
                                        "(+ (* y (+ x y)) (- (+ x 2) (+ x x)))",
                                        "(/ 1 (- (/ (+ 1 (sqrt five)) 2) (/ (- 1 (sqrt five)) 2)))"};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) term(eg, terms[i]);
}

#endif
