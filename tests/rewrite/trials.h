/* trials.h - one rule applied to one graph, drawn from a case of rules.cases: what the tests of rules share.
 *
 *   (case RULE (sizes M N ...) form...)    a graph that the rule matches; term_graph.h has the forms
 *   (never RULE (sizes M N ...) form...)   one that it must not match
 *
 * Symbols in `sizes` get numbers, others stay symbols. */
#ifndef HYP_TESTS_TRIALS_H
#define HYP_TESTS_TRIALS_H

#include "rewrite/builtin.h"
#include "rewrite/internal.h"
#include "rewrite/term_graph.h"

typedef struct rule_texts {
    const hyp_builtin_text *texts;
    size_t count;
} rule_texts;

/* *out belongs to the e-graph. */
HYP_NODISCARD hyp_status rule_texts_parse(hyp_rw *rw, rule_texts rules, hyp_ruleset **out, hyp_diag *diag);
/* The text of one rule, cut out of its file (*out has room for it), or all where it is not found: reading all of them
 * in every trial would take most of the time. */
rule_texts rule_texts_of(rule_texts rules, const char *rule, hyp_builtin_text *out);

enum { TRIAL_MAX_VALUES = 8 };
typedef struct rule_trial {
    hyp_arena arena;
    hyp_dims *dims;
    hyp_graph before, after; /* without the rule, and with it */
    hyp_eval_tensor inputs[TRIAL_MAX_VALUES];
    char numeric_class;
    term_data data;   /* what the inputs may contain */
    bool built;       /* there is a graph, and it runs on the inputs; else nothing else is set. A case always is one */
    uint32_t applied; /* how often the rule was; `after` is set either way */
} rule_trial;

typedef struct rule_trial_options {
    uint64_t seed;
    bool vary;       /* a neighbour of the case, instead of the case */
    uint32_t change; /* which one: vary.h */
    bool wide;       /* values over the whole range of the type also where the class lets rounding differ */
} rule_trial_options;

/* The caller disposes of *out, also after a failure. */
HYP_NODISCARD hyp_status rule_trial_run(const hyp_sexpr *kase, rule_texts rules, const rule_trial_options *options,
                                        rule_trial *out, hyp_diag *diag);
void rule_trial_dispose(rule_trial *t);
/* Compares the outputs of both graphs in the interpreter as strictly as the class says; `difference` says where they
 * are not as equal as that, or is empty. */
HYP_NODISCARD hyp_status rule_trial_judge(const rule_trial *t, char *difference, size_t size, hyp_diag *diag);

/* What became of a number of trials of a case and of as many neighbours. */
typedef struct rule_outcome {
    char message[512];        /* what is wrong, or empty: of the first trial that failed, which was the last one made */
    uint32_t applied, varied; /* how often the rule was, in the case and in neighbours */
} rule_outcome;
/* Where the forms of its graph begin. */
uint32_t rule_case_first(const hyp_sexpr *kase);
/* Follows from the case's own text, so that other cases of the file change nothing. */
uint64_t rule_trial_seed(const hyp_sexpr *kase, uint32_t trial);
void rule_case_run(const hyp_sexpr *kase, rule_texts rules, uint32_t trials, rule_outcome *out);

/* All forms of rules.cases. */
HYP_NODISCARD hyp_status rule_cases_read(hyp_arena *arena, const hyp_sexpr **out, hyp_diag *diag);

#endif
