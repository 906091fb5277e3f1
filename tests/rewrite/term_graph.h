/* term_graph.h - graphs for tests from s-expressions:
 *
 *   (input NAME TYPE SIZE...)          a graph input
 *   (const NAME TYPE SIZE... [VALUE])  a constant: random elements, or VALUE in each
 *   (let NAME TERM)                    a value with a name
 *   (out TERM)                         an output
 *
 * A term is a name, `none`, or (op :attribute value input...). Upper-case sizes are symbols: those in `sizes`
 * get a number, the others stay symbolic. The type F is that of `real`. */
#ifndef HYP_TESTS_REWRITE_TERM_GRAPH_H
#define HYP_TESTS_REWRITE_TERM_GRAPH_H

#include "ir/ir.h"

typedef struct term_random {
    uint64_t state;
} term_random;
uint64_t term_random_next(term_random *r);
/* In [0, n). */
uint32_t term_random_below(term_random *r, uint32_t n);

enum { TERM_MAX_SIZES = 8, TERM_MAX_NAMES = 512, TERM_MAX_BYTES = 1 << 26 };
typedef struct term_sizes {
    const char *names[TERM_MAX_SIZES]; /* symbols that get a number */
    int64_t values[TERM_MAX_SIZES];
    uint32_t count;
} term_sizes;

/* What data may contain: numbers that are about normal, of which class R promises something (docs/rules.md), finite
 * numbers of all sizes, infinities as well, NaN as well. */
typedef enum term_data { TERM_FINITE, TERM_ROOM, TERM_WIDE, TERM_NO_NAN, TERM_ANY } term_data;

/* What is drawn where the text leaves it open. */
typedef struct term_draw {
    const term_sizes *sizes;
    hyp_dtype real; /* what F stands for */
    term_data data; /* of constants without a value */
    term_random *random;
} term_draw;

/* Adds the forms items[first..] to a graph (initialised, empty). */
HYP_NODISCARD hyp_status term_graph_build(hyp_graph *g, const hyp_sexpr *forms, uint32_t first, const term_draw *draw,
                                          hyp_diag *diag);
/* The same from text; every symbol stays symbolic, F is f32, constants are about normal. */
HYP_NODISCARD hyp_status term_graph_parse(hyp_graph *g, const char *text, hyp_diag *diag);

/* Random inputs for a graph: symbols take sizes 0 to 4. inputs[i] is the caller's to dispose of. */
HYP_NODISCARD hyp_status term_inputs(const hyp_graph *g, term_data data, term_random *random, hyp_eval_tensor *inputs,
                                     hyp_diag *diag);

#endif
