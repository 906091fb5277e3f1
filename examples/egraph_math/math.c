/* Differentiates and simplifies formulas by equality saturation.
 *
 * (d x f) is the derivative of f by x. Rules say how derivatives are taken and what algebra holds, an analysis
 * computes with numbers, and the cheapest equal term without a d is the answer, printed with its proof. Each answer
 * is checked: by its cost, by a term that it must be equal to, and by numbers against the difference quotient.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia/egraph.h"

/* A number is never taken apart again: 0 = 1 + -1 = 2 + -2 would go on for ever. */
static const char rules_text[] =
    "(rule add-comm   (+ ?a ?b) => (+ ?b ?a))"
    "(rule mul-comm   (* ?a ?b) => (* ?b ?a))"
    "(rule add-assoc  (+ ?a (+ ?b ?c)) => (+ (+ ?a ?b) ?c) :if (not (number (+ ?b ?c))))"
    "(rule mul-assoc  (* ?a (* ?b ?c)) => (* (* ?a ?b) ?c) :if (not (number (* ?b ?c))))"
    "(rule add-zero   (+ ?a 0) => ?a)"
    "(rule mul-zero   (* ?a 0) => 0)"
    "(rule mul-one    (* ?a 1) => ?a)"
    "(rule double     (+ ?a ?a) => (* 2 ?a))"
    "(rule factor     (+ (* ?a ?b) (* ?a ?c)) => (* ?a (+ ?b ?c)) :if (not (number ?a)))"
    "(rule pow-one    (pow ?a 1) => ?a)"
    "(rule d-number   (d ?x ?n) => 0 :if (number ?n))"
    "(rule d-same     (d ?x ?x) => 1)"
    "(rule d-other    (d ?x ?y) => 0 :if (differ ?x ?y))"
    "(rule d-add      (d ?x (+ ?a ?b)) => (+ (d ?x ?a) (d ?x ?b)))"
    "(rule d-mul      (d ?x (* ?a ?b)) => (+ (* ?a (d ?x ?b)) (* ?b (d ?x ?a))))"
    "(rule d-pow      (d ?x (pow ?a ?n)) => (* (* ?n (pow ?a (+ ?n -1))) (d ?x ?a)) :if (number ?n))"
    "(rule d-sin      (d ?x (sin ?a)) => (* (cos ?a) (d ?x ?a)))"
    "(rule d-cos      (d ?x (cos ?a)) => (* (* -1 (sin ?a)) (d ?x ?a)))"
    "(rule d-exp      (d ?x (exp ?a)) => (* (exp ?a) (d ?x ?a)))";

static const struct problem {
    const char *function, *derivative; /* the derivative by x, as simple as it gets */
    double cost;                       /* of the derivative */
} problems[] = {
    {"(+ (pow x 2) (sin x))", "(+ (* 2 x) (cos x))", 29},
    {"(* 3 (* y (pow x 4)))", "(* 12 (* y (pow x 3)))", 32},
    {"(exp (* 2 (cos x)))", "(* -2 (* (sin x) (exp (* 2 (cos x)))))", 76},
    {"(+ (* x (sin x)) (cos x))", "(* x (cos x))", 26},
};

static void must(hyp_status status, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, "egraph_math: %s: %s\n", hyp_status_name(status), diag->message);
    exit(1);
}

/* ---- the analysis: what is known of a class ------------------------------------------------------------- */

typedef struct fact {
    enum { FORMULA, VARIABLE, NUMBER } kind; /* the greatest of what its e-nodes are */
    int value;                               /* of a NUMBER */
} fact;

static hyp_status make_fact(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    (void)user, (void)diag;
    size_t count;
    char *end;
    const hyp_class_id *kids = hyp_enode_children(eg, node, &count);
    const char *op = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node));
    bool sum = strcmp(op, "+") == 0, product = strcmp(op, "*") == 0;
    long long value = strtol(op, &end, 10);
    fact made = {count == 0 ? *end == 0 ? NUMBER : VARIABLE : FORMULA, 0};
    if (count == 2 && (sum || product)) {
        const fact *a = hyp_egraph_data(eg, kids[0]), *b = hyp_egraph_data(eg, kids[1]);
        made.kind = a->kind == NUMBER && b->kind == NUMBER ? NUMBER : FORMULA;
        value = sum ? (long long)a->value + b->value : (long long)a->value * b->value;
    }
    if (value < INT_MIN || value > INT_MAX) made.kind = FORMULA; /* what does not fit is not computed */
    made.value = made.kind == NUMBER ? (int)value : 0;
    memcpy(data, &made, sizeof made);
    return HYP_OK;
}

static hyp_status merge_facts(hyp_egraph *eg, void *into, const void *from, bool *changed, void *user, hyp_diag *diag)
{
    (void)eg, (void)user, (void)diag;
    *changed = ((fact *)into)->kind < ((const fact *)from)->kind;
    if (*changed) memcpy(into, from, sizeof(fact));
    return HYP_OK;
}

/* A class that is a number gets that number as an e-node. */
static hyp_status add_number(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag)
{
    (void)user;
    const fact *known = hyp_egraph_data(eg, c);
    char text[16];
    hyp_class_id number;
    if (known->kind != NUMBER) return HYP_OK;
    snprintf(text, sizeof text, "%d", known->value);
    hyp_status status = hyp_egraph_add_text(eg, text, &number, diag);
    return status == HYP_OK ? hyp_egraph_union(eg, c, number, "arithmetic", NULL, diag) : status;
}

static hyp_status is_number(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    (void)diag;
    *out_holds = ((const fact *)hyp_egraph_data(call->eg, call->args[0]))->kind == NUMBER;
    return HYP_OK;
}

/* Two different variables. */
static hyp_status do_differ(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    (void)diag;
    const fact *a = hyp_egraph_data(call->eg, call->args[0]), *b = hyp_egraph_data(call->eg, call->args[1]);
    *out_holds = a->kind == VARIABLE && b->kind == VARIABLE && call->args[0] != call->args[1];
    return HYP_OK;
}

/* ---- the answer ----------------------------------------------------------------------------------------- */

/* Products and functions are dearer than sums, and no derivative may be left. */
static double cost(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)user;
    size_t arity;
    const char *op = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node));
    hyp_enode_children(eg, node, &arity);
    if (arity == 0) return 1;
    if (strcmp(op, "d") == 0) return INFINITY;
    return strcmp(op, "+") == 0 ? 2 : strcmp(op, "*") == 0 ? 4 : 20;
}

/* The value of the term that was chosen for a class. */
static double value(hyp_egraph *eg, const hyp_extraction *ex, hyp_class_id c, double x)
{
    size_t arity;
    hyp_enode_id node = ex->choice[hyp_egraph_find(eg, c)];
    const char *op = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node));
    const hyp_class_id *kids = hyp_enode_children(eg, node, &arity);
    if (arity == 0) return strcmp(op, "x") == 0 ? x : strcmp(op, "y") == 0 ? 0.75 : strtod(op, NULL);
    double a = value(eg, ex, kids[0], x), b = arity == 2 ? value(eg, ex, kids[1], x) : 0;
    if (arity == 2) return *op == '+' ? a + b : *op == '*' ? a * b : pow(a, b);
    return strcmp(op, "sin") == 0 ? sin(a) : strcmp(op, "cos") == 0 ? cos(a) : exp(a);
}

/* Solves one problem in an e-graph of its own; true if the answer is right. */
static bool solve(const struct problem *p)
{
    hyp_diag diag = {0};
    hyp_egraph *eg;
    hyp_ruleset *rules;
    hyp_egraph_run_report report;
    hyp_extraction function, best;
    hyp_proof proof;
    hyp_class_id f, df, expected;
    char derivative[128];
    snprintf(derivative, sizeof derivative, "(d x %s)", p->function);
    hyp_analysis analysis = {
        .data_size = sizeof(fact), .make = make_fact, .merge = merge_facts, .modify = add_number};
    hyp_egraph_options options = {.size = sizeof options, .analysis = &analysis, .explain = true};
    must(hyp_egraph_create(&options, &eg, &diag), &diag);
    must(hyp_egraph_register_condition(eg, "number", 1, is_number, NULL, &diag), &diag);
    must(hyp_egraph_register_condition(eg, "differ", 2, do_differ, NULL, &diag), &diag);
    must(hyp_ruleset_parse(eg, "math", rules_text, strlen(rules_text), &rules, &diag), &diag);

    must(hyp_egraph_add_text(eg, p->function, &f, &diag), &diag);
    must(hyp_egraph_extract(eg, &f, 1, HYP_EXTRACT_TREE, cost, NULL, &function, &diag), &diag);
    double x = 1.25, h = 1e-5, slope = (value(eg, &function, f, x + h) - value(eg, &function, f, x - h)) / (2 * h);

    hyp_egraph_run_options limits = {.size = sizeof limits, .max_iterations = 12, .max_nodes = 20000};
    must(hyp_egraph_add_text(eg, derivative, &df, &diag), &diag);
    must(hyp_egraph_run(eg, rules, &limits, &report, &diag), &diag);
    must(hyp_egraph_extract(eg, &df, 1, HYP_EXTRACT_TREE, cost, NULL, &best, &diag), &diag);
    char *answer = hyp_extraction_text(eg, &best, df);
    must(answer ? HYP_OK : HYP_ERR_NO_MEMORY, &diag);
    double got = value(eg, &best, df, x);
    printf("%s\n  = %s, cost %g (%s, %zu e-nodes)\n", derivative, answer, best.tree_cost, hyp_stop_name(report.stop),
           report.e_nodes);
    must(hyp_egraph_explain(eg, derivative, answer, &proof, &diag), &diag);
    for (size_t i = 1; i < proof.count; i++) printf("    %-11s %s\n", proof.steps[i].rule, proof.steps[i].term);
    must(hyp_egraph_add_text(eg, p->derivative, &expected, &diag), &diag);
    bool right = hyp_egraph_find(eg, expected) == hyp_egraph_find(eg, df) && best.tree_cost == p->cost &&
                 fabs(got - slope) < 1e-6 * (1 + fabs(slope));
    if (!right) fprintf(stderr, "egraph_math: wanted %s of cost %g, slope %.6f\n", p->derivative, p->cost, slope);
    free(answer);
    hyp_proof_dispose(&proof);
    hyp_extraction_dispose(&function);
    hyp_extraction_dispose(&best);
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
    return right;
}

int main(void)
{
    bool right = true;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) right &= solve(&problems[i]);
    return right ? 0 : 1;
}
