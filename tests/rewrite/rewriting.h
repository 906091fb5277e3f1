/* rewriting.h - a graph in the text of the rules, rewritten: what the tests of whole graphs share. */
#ifndef HYP_TESTS_REWRITING_H
#define HYP_TESTS_REWRITING_H

#include "rewrite/rewrite.h"

/* A graph, what became of it, and all that they need. */
typedef struct fixture {
    hyp_dims *dims;
    hyp_graph in, out;
    hyp_arena arena;
    hyp_roofline roofline;
    hyp_rewrite_options options; /* of the CPU profile; a test may change them */
    hyp_rewrite_report report;
    hyp_diag diag;
} fixture;

/* Reads a graph, in the form that term_graph.h describes or in that of the IR, (graph ...); the profile is the CPU's. Failures end the test. */
void begin(fixture *f, const char *text);
/* Another profile: the name of a built-in one, or the text of one. */
void use_profile(fixture *f, const char *name);
void run(fixture *f);
void end(fixture *f);

/* Both graphs compute the same, in double. */
void assert_same_results(fixture *f, double tolerance);
size_t count_op(const hyp_graph *g, hyp_op op);
/* Nodes that run: neither views nor computed from constants alone. */
size_t count_running(const fixture *f);
/* The one node of this operator in the result. */
const hyp_node *only(const fixture *f, hyp_op op);
bool has_rule(const hyp_node *n, const char *name);

#endif
