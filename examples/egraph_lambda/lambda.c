/* Reduces programs of a small lambda calculus by equality saturation: a partial evaluator.
 *
 *   (var x)  (lam x body)  (app f arg)  (let x value body)  (fix x body)  (if test a b)  (+ a b)  (= a b)
 *   and the constants: integers, true, false
 *
 * Substitution is not done by code: (let x value body) is a term, and rules push it toward the variables. They must
 * not capture: in (let x (var y) (lam y body)) the y that is put in is not the y that lam binds. An analysis keeps
 * the free variables of every class, conditions read them, and where a variable would be captured a function renames
 * the binder. The same analysis computes with constants.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia/egraph.h"

static const char rules_text[] =
    "(rule beta      (app (lam ?x ?body) ?arg) => (let ?x ?arg ?body))"
    "(rule unroll    (fix ?x ?body) => (let ?x (fix ?x ?body) ?body))"
    "(rule if-true   (if true ?a ?b) => ?a)"
    "(rule if-false  (if false ?a ?b) => ?b)"
    "(rule add-comm  (+ ?a ?b) => (+ ?b ?a))"
    "(rule add-assoc (+ (+ ?a ?b) ?c) => (+ ?a (+ ?b ?c)))"
    /* Substitution. */
    "(rule let-var   (let ?x ?e (var ?x)) => ?e)"
    "(rule let-drop  (let ?x ?e ?body) => ?body :if (not (free ?x ?body)))"
    "(rule let-app   (let ?x ?e (app ?a ?b)) => (app (let ?x ?e ?a) (let ?x ?e ?b)))"
    "(rule let-add   (let ?x ?e (+ ?a ?b)) => (+ (let ?x ?e ?a) (let ?x ?e ?b)))"
    "(rule let-eq    (let ?x ?e (= ?a ?b)) => (= (let ?x ?e ?a) (let ?x ?e ?b)))"
    "(rule let-if    (let ?x ?e (if ?t ?a ?b)) => (if (let ?x ?e ?t) (let ?x ?e ?a) (let ?x ?e ?b)))"
    "(rule let-lam   (let ?x ?e (lam ?y ?body)) => (lam ?y (let ?x ?e ?body))"
    "  :if (and (not (same ?x ?y)) (not (free ?y ?e))))"
    "(rule let-alpha (let ?x ?e (lam ?y ?body)) => (let ?x ?e (renamed ?y ?body))"
    "  :if (and (not (same ?x ?y)) (free ?y ?e)))";

#define COMPOSE "(lam f (lam g (lam x (app (var f) (app (var g) (var x))))))"
#define ADD1 "(lam y (+ (var y) 1))"
#define FIB                                                                                                            \
    "(fix fib (lam n (if (= (var n) 0) 0 (if (= (var n) 1) 1"                                                          \
    " (+ (app (var fib) (+ (var n) -1)) (app (var fib) (+ (var n) -2)))))))"

static const struct program {
    const char *what, *text, *result;
} programs[] = {
    {"constants", "(let x 0 (let y 1 (+ (var x) (+ 2 (var y)))))", "3"},
    {"a known branch", "(lam a (if (= (+ 1 1) 2) (var a) (app (var a) (var a))))", "(lam a (var a))"},
    {"an inner name hides an outer one", "(let x 1 (lam x (var x)))", "(lam x (var x))"},
    {"no capture", "(let y (+ (var x) (var x)) (lam x (+ (var y) (var x))))",
     "(lam v1 (+ (var v1) (+ (var x) (var x))))"},
    {"composition",
     "(let compose " COMPOSE " (let add1 " ADD1
     " (app (app (var compose) (var add1)) (app (app (var compose) (var add1)) (var add1)))))",
     "(lam x (+ (var x) 3))"},
    {"a function of two arguments, one known", "(app (lam a (lam b (if (= (var a) 0) (var b) (+ (var b) (var a))))) 5)",
     "(lam b (+ (var b) 5))"},
    {"the fourth Fibonacci number", "(let fib " FIB " (app (var fib) 4))", "3"},
};

static void must(hyp_status status, const hyp_diag *diag)
{
    if (status == HYP_OK) return;
    fprintf(stderr, "egraph_lambda: %s: %s\n", hyp_status_name(status), diag->message);
    exit(1);
}

/* ---- the analysis ---------------------------------------------------------------------------------------- */

/* A set of variables: a bit for each of the first 63 that were seen, and one for all the others together. A set may
 * hold too much, never too little: then a rule that asks "not free" waits, which is slow but not wrong. */
typedef uint64_t varset;
enum { OTHERS = 63 };

typedef struct fact {
    varset free;         /* holds every variable that is free in each e-node of the class */
    hyp_symbol constant; /* which constant it is, as symbol + 1; 0 = not known to be one */
} fact;

typedef struct language {
    hyp_symbol variables[OTHERS]; /* by bit */
    size_t variable_count, fresh_count;
} language;

static varset set_of(language *lang, hyp_symbol variable)
{
    size_t bit = 0;
    while (bit < lang->variable_count && lang->variables[bit] != variable) bit++;
    if (bit == lang->variable_count && bit < OTHERS) lang->variables[lang->variable_count++] = variable;
    return (varset)1 << bit;
}

static const fact *fact_of(hyp_egraph *eg, hyp_class_id c) { return hyp_egraph_data(eg, c); }

/* The name of a variable: the leaf that var, lam, let and fix have as their first child. */
static hyp_symbol name_of(hyp_egraph *eg, hyp_class_id c)
{
    size_t count;
    const hyp_enode_id *nodes = hyp_egraph_class_nodes(eg, c, &count);
    return nodes ? hyp_enode_op(eg, nodes[0]) : HYP_NONE;
}

static bool integer(hyp_egraph *eg, const fact *f, long long *out)
{
    if (!f->constant) return false;
    char *end;
    *out = strtoll(hyp_egraph_symbol_name(eg, f->constant - 1), &end, 10);
    return *end == 0 && *out >= INT_MIN && *out <= INT_MAX;
}

/* The constant that an e-node is or computes. */
static hyp_status fold(hyp_egraph *eg, hyp_symbol op, const hyp_class_id *kids, size_t count, hyp_symbol *out,
                       hyp_diag *diag)
{
    const char *name = hyp_egraph_symbol_name(eg, op);
    char text[24], *end;
    long long a, b;
    *out = 0;
    if (count == 0) {
        strtoll(name, &end, 10);
        if (*end == 0 || strcmp(name, "true") == 0 || strcmp(name, "false") == 0) *out = op + 1;
        return HYP_OK;
    }
    if (count != 2 || (strcmp(name, "+") != 0 && strcmp(name, "=") != 0)) return HYP_OK;
    if (!integer(eg, fact_of(eg, kids[0]), &a) || !integer(eg, fact_of(eg, kids[1]), &b)) return HYP_OK;
    if (*name == '+') snprintf(text, sizeof text, "%lld", a + b);
    hyp_status status = hyp_egraph_symbol(eg, *name == '+' ? text : a == b ? "true" : "false", out, diag);
    ++*out;
    return status;
}

static hyp_status make_fact(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    language *lang = user;
    fact made = {0};
    size_t count;
    hyp_symbol op = hyp_enode_op(eg, node);
    const char *name = hyp_egraph_symbol_name(eg, op);
    const hyp_class_id *kids = hyp_enode_children(eg, node, &count);
    bool let = strcmp(name, "let") == 0, binds = let || strcmp(name, "lam") == 0 || strcmp(name, "fix") == 0;
    if (strcmp(name, "var") == 0) {
        made.free = set_of(lang, name_of(eg, kids[0]));
    } else if (binds) {
        varset bound = set_of(lang, name_of(eg, kids[0])) & ~((varset)1 << OTHERS);
        made.free = fact_of(eg, kids[count - 1])->free & ~bound;
        if (let) made.free |= fact_of(eg, kids[1])->free;
    } else {
        for (size_t i = 0; i < count; i++) made.free |= fact_of(eg, kids[i])->free;
    }
    hyp_status status = fold(eg, op, kids, count, &made.constant, diag);
    memcpy(data, &made, sizeof made);
    return status;
}

/* Equal terms have equal values, so a variable that one of them does without does not matter to the others. */
static hyp_status merge_facts(hyp_egraph *eg, void *into, const void *from, bool *changed, void *user, hyp_diag *diag)
{
    (void)user;
    fact *a = into, before = *a;
    const fact *b = from;
    if (a->constant && b->constant && a->constant != b->constant) {
        snprintf(diag->message, sizeof diag->message, "%s = %s", hyp_egraph_symbol_name(eg, a->constant - 1),
                 hyp_egraph_symbol_name(eg, b->constant - 1));
        return diag->status = HYP_ERR_MALFORMED;
    }
    a->free &= b->free;
    if (!a->constant) a->constant = b->constant;
    *changed = a->free != before.free || a->constant != before.constant;
    return HYP_OK;
}

static hyp_status add_constant(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag)
{
    (void)user;
    hyp_symbol constant = fact_of(eg, c)->constant;
    hyp_class_id leaf;
    if (!constant) return HYP_OK;
    hyp_status status = hyp_egraph_add(eg, constant - 1, NULL, 0, &leaf, NULL, diag);
    return status == HYP_OK ? hyp_egraph_union(eg, c, leaf, "compute", NULL, diag) : status;
}

/* ---- conditions and functions of the rules --------------------------------------------------------------- */

/* (free x e): whether the variable x may be free in e. */
static hyp_status is_free(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    (void)diag;
    varset x = set_of(call->user, name_of(call->eg, call->args[0]));
    *out_holds = (fact_of(call->eg, call->args[1])->free & x) != 0;
    return HYP_OK;
}

static hyp_status are_same(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    (void)diag;
    *out_holds = call->args[0] == call->args[1];
    return HYP_OK;
}

/* (renamed y body): (lam v (let y (var v) body)) with a v that occurs nowhere else. */
static hyp_status rename_binder(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    language *lang = call->user;
    hyp_egraph *eg = call->eg;
    hyp_symbol var, let, lam;
    hyp_class_id v, use, body;
    hyp_status status;
    char text[24];
    snprintf(text, sizeof text, "v%zu", ++lang->fresh_count);
    if ((status = hyp_egraph_symbol(eg, "var", &var, diag)) != HYP_OK) return status;
    if ((status = hyp_egraph_symbol(eg, "let", &let, diag)) != HYP_OK) return status;
    if ((status = hyp_egraph_symbol(eg, "lam", &lam, diag)) != HYP_OK) return status;
    if ((status = hyp_egraph_add_text(eg, text, &v, diag)) != HYP_OK) return status;
    if ((status = hyp_egraph_add(eg, var, &v, 1, &use, NULL, diag)) != HYP_OK) return status;
    hyp_class_id in_let[] = {call->args[0], use, call->args[1]};
    if ((status = hyp_egraph_add(eg, let, in_let, 3, &body, NULL, diag)) != HYP_OK) return status;
    return hyp_egraph_add(eg, lam, (hyp_class_id[]){v, body}, 2, out, NULL, diag);
}

/* ---- running programs ------------------------------------------------------------------------------------ */

/* What is left to do at run time is dear, so the answer has as little of it as was found. */
static double cost(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    (void)user;
    const char *op = hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node));
    return strcmp(op, "let") == 0 || strcmp(op, "app") == 0 || strcmp(op, "fix") == 0 ? 100 : 1;
}

static bool reduce(const struct program *p)
{
    hyp_diag diag = {0};
    hyp_egraph *eg;
    hyp_ruleset *rules;
    hyp_egraph_run_report report;
    hyp_extraction ex;
    hyp_class_id root, result;
    language lang = {0};
    hyp_analysis analysis = {
        .data_size = sizeof(fact), .user = &lang, .make = make_fact, .merge = merge_facts, .modify = add_constant};
    hyp_egraph_options options = {.size = sizeof options, .analysis = &analysis};
    must(hyp_egraph_create(&options, &eg, &diag), &diag);
    must(hyp_egraph_register_condition(eg, "free", 2, is_free, &lang, &diag), &diag);
    must(hyp_egraph_register_condition(eg, "same", 2, are_same, NULL, &diag), &diag);
    must(hyp_egraph_register_function(eg, "renamed", 2, rename_binder, &lang, &diag), &diag);
    must(hyp_ruleset_parse(eg, "lambda", rules_text, strlen(rules_text), &rules, &diag), &diag);

    /* A recursive function unrolls without end, so there must be limits; backoff keeps the rules that have many
     * matches from taking all of them. */
    hyp_egraph_run_options limits = {
        .size = sizeof limits, .max_iterations = 40, .max_nodes = 50000, .scheduler = HYP_SCHEDULER_BACKOFF};
    must(hyp_egraph_add_text(eg, p->text, &root, &diag), &diag);
    must(hyp_egraph_run(eg, rules, &limits, &report, &diag), &diag);
    must(hyp_egraph_extract(eg, &root, 1, HYP_EXTRACT_TREE, cost, NULL, &ex, &diag), &diag);
    char *answer = hyp_extraction_text(eg, &ex, root);
    printf("%s\n    %s\n  = %s\n    (%s after %zu iterations, %zu e-nodes)\n", p->what, p->text, answer ? answer : "?",
           hyp_stop_name(report.stop), report.iteration_count, report.e_nodes);

    must(hyp_egraph_add_text(eg, p->result, &result, &diag), &diag);
    bool right = answer && hyp_egraph_find(eg, root) == hyp_egraph_find(eg, result) &&
                 strlen(answer) == strlen(p->result); /* equal, and as short: (+ a b) may be (+ b a) */
    if (!right) fprintf(stderr, "egraph_lambda: %s: wanted %s\n", p->what, p->result);
    free(answer);
    hyp_extraction_dispose(&ex);
    hyp_egraph_run_report_dispose(&report);
    hyp_ruleset_destroy(rules);
    hyp_egraph_destroy(eg);
    return right;
}

int main(void)
{
    bool right = true;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) right &= reduce(&programs[i]);
    return right ? 0 : 1;
}
