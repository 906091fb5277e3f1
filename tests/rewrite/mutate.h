/* mutate.h - rules with one thing wrong, which the tests of rules are to notice. */
#ifndef HYP_TESTS_MUTATE_H
#define HYP_TESTS_MUTATE_H

#include "base/sexpr.h"

typedef struct mutant {
    const char *what;       /* "without (const ?c)" */
    const char *text;       /* of the rule: a form that stands for itself, in its for-each where it has one */
    const hyp_sexpr *rule;  /* as it is written */
    const hyp_sexpr *words; /* of its for-each, or NULL */
    const char *dropped;    /* the name of the condition that is gone or wider, or NULL */
} mutant;

typedef HYP_VEC(mutant) mutants;

/* All mutants of the rules of a file: each condition of an `and` dropped in turn (or the only one), each number of a
 * condition and each value of an attribute on the left side any other, each variable that occurs twice on the left two
 * of them, the class one that promises more. Everything lives in the arena, but for the list: hyp_vec_free. */
HYP_NODISCARD hyp_status mutate_rules(hyp_arena *arena, const char *name, const char *text, size_t len, mutants *out,
                                      hyp_diag *diag);

#endif
