/* checker.h - what replays a proof: terms that are equal are one, so that they are compared by address. */
#ifndef HYP_EGRAPH_PROVE_CHECKER_H
#define HYP_EGRAPH_PROVE_CHECKER_H

#include "egraph/prove/numbering.h"
#include "egraph/rules/rule.h"

typedef struct hyp_check_term {
    const char *op;
    uint32_t count;
    struct hyp_check_term **kids;
    uint32_t number; /* 0, 1, 2, ... as they are made; children have lower ones */
    hyp_class_id asked; /* in the e-graph that is asked; HYP_NONE while it is not there */
} hyp_check_term;

/* hyp_proof_query and hyp_shared_query as this file wants them. */
typedef struct hyp_check_query {
    const char *name;
    hyp_check_term **args;
    size_t arg_count;
    hyp_answer answer;
    hyp_check_term *result;
} hyp_check_query;

typedef struct hyp_check_equation {
    hyp_check_term *side[2];
} hyp_check_equation;

typedef struct hyp_checker {
    hyp_ruleset *const *rulesets;
    size_t ruleset_count;
    hyp_proof_check_options options;
    hyp_check_equation *given;
    hyp_arena arena;
    hyp_intern ops;
    hyp_numbering spines;      /* of terms: the operator, then one child after the other */
    HYP_VEC(hyp_check_term *) by_spine;  /* NULL where it goes on */
    uint32_t term_count;
    HYP_VEC(hyp_check_term *) read; /* of shared proofs: their terms in order */
    HYP_VEC(const hyp_check_term *) stack; /* of terms being added to the e-graph that is asked */
    hyp_egraph *asked; /* where conditions and functions are asked again; NULL before the first time */
    hyp_diag *diag;
} hyp_checker;

/* A refusal of the proof, with what is wrong. */
#define hyp_refuse(c, ...) hyp_fail((c)->diag, HYP_ERR_MISMATCH, __VA_ARGS__)

/* ---- checked_term.c ------------------------------------------------------------------------------ */

/* The term with these children, which become its own. */
HYP_NODISCARD hyp_status hyp_check_make(hyp_checker *c, const char *op, hyp_check_term **kids, uint32_t count,
                                        hyp_check_term **out);
HYP_NODISCARD hyp_status hyp_check_read(hyp_checker *c, const char *text, hyp_check_term **out);

/* ---- ask_again.c --------------------------------------------------------------------------------- */

/* Tells the e-graph that is asked of two equal terms. */
HYP_NODISCARD hyp_status hyp_check_learn(hyp_checker *c, hyp_check_term *a, hyp_check_term *b);
/* Whether the analysis alone makes two terms equal. */
HYP_NODISCARD hyp_status hyp_check_analysis_says(hyp_checker *c, hyp_check_term *a, hyp_check_term *b, bool *out);
/* Whether a condition or function answers as a proof says that it did. */
HYP_NODISCARD hyp_status hyp_check_ask(hyp_checker *c, const hyp_callback *cb, const hyp_check_query *q);

#endif
