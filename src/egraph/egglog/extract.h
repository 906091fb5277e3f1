/* extract.h - the cheapest terms of a database, and writing them. */
#ifndef HYP_EGRAPH_EGGLOG_EXTRACT_H
#define HYP_EGRAPH_EGGLOG_EXTRACT_H

#include "egraph/egglog/db.h"
#include "egraph/extract/problem.h"

/* A node is a row of a constructor; a class is an id. The cost of a term is the sum of the costs of its constructors, a
 * literal costing 1. */
typedef struct hyp_el_node {
    uint32_t function, row;
} hyp_el_node;
typedef struct hyp_el_extractor {
    hyp_egglog *db;
    uint32_t *number;          /* by id: its class and one, 0 = it is not asked for */
    HYP_VEC(uint32_t) ids, sorts;  /* by class */
    HYP_VEC(hyp_el_node) nodes;    /* in order of function and row */
    hyp_problem p;
    uint32_t *choice; /* by class: a node, HYP_EL_NONE = no finite term */
    double *weight;   /* by class */
} hyp_el_extractor;

/* Of a rebuilt database, whose tables stay as they are until the end. Dispose of it after a failure, too. */
HYP_NODISCARD hyp_status hyp_el_extractor_begin(hyp_el_extractor *e, hyp_egglog *db, hyp_diag *diag);
/* Says that terms of a value are wanted. */
HYP_NODISCARD hyp_status hyp_el_extractor_want(hyp_el_extractor *e, uint32_t sort, hyp_el_value v, hyp_diag *diag);
/* Finds those of what is wanted, and of what these terms may consist of. */
HYP_NODISCARD hyp_status hyp_el_extractor_solve(hyp_el_extractor *e, hyp_diag *diag);
void hyp_el_extractor_dispose(hyp_el_extractor *e);
static inline uint32_t hyp_el_choice(const hyp_el_extractor *e, uint32_t id)
{
    return e->choice[e->number[hyp_el_find(e->db, id)] - 1];
}
/* Writes a value's term, "Unextractable" where it has none; sb->failed where it is longer than 256 MB. */
void hyp_el_write_term(const hyp_el_extractor *e, uint32_t sort, hyp_el_value v, hyp_strbuf *sb);
/* Writes a row as a call of its function. */
void hyp_el_write_row(const hyp_el_extractor *e, uint32_t function, uint32_t row, hyp_strbuf *sb);

#endif
