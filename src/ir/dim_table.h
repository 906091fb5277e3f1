/* dim_table.h - the inside of a table of dims, for dim.c (arithmetic), dim_ask.c (questions) and dim_text.c.
 *
 *   hyp_dim --> expression = sum of terms; term = coefficient * product of atoms; atom = symbol, or floordiv, min or max
 *   of two hyp_dims
 *
 * Terms are in ascending graded order (degree, then the sorted atoms one by one), which multiplication keeps, so
 * polynomial division ends. Atoms are compared by structure, never by id, so the form does not depend on the order in
 * which a table met its expressions. Polynomials and atoms are hash-consed.
 */
#ifndef HYP_IR_DIM_TABLE_H
#define HYP_IR_DIM_TABLE_H

#include "ir/dim.h"

enum {
    HYP_DIM_MAX_TERMS = 64,
    HYP_DIM_MAX_DEGREE = 15 /* odd, so that a term has no padding and can be hashed as bytes */
};

typedef struct hyp_dim_term {
    int64_t coef; /* neither 0 nor INT64_MIN, so it can be negated */
    uint32_t degree;
    uint32_t atoms[HYP_DIM_MAX_DEGREE]; /* ascending, repeated for powers; 0 above degree */
} hyp_dim_term;

/* A polynomial being worked on. */
typedef struct hyp_dim_poly {
    uint32_t count;
    hyp_dim_term terms[HYP_DIM_MAX_TERMS];
} hyp_dim_poly;

typedef struct hyp_dim_atom {
    uint32_t kind;   /* hyp_dim_kind: SYMBOL, FLOORDIV, MIN or MAX */
    uint32_t symbol; /* SYMBOL: its index, else 0 */
    hyp_dim a, b;    /* operands, else 0 */
} hyp_dim_atom;

/* Objects named by their bytes: equal bytes, equal id. */
typedef struct hyp_dim_entry {
    const void *bytes; /* in the table's arena */
    uint32_t len;
    uint32_t size;  /* as a tree, bounded */
    uint32_t depth; /* bounded */
} hyp_dim_entry;
typedef struct hyp_dim_hashcons {
    HYP_VEC(hyp_dim_entry) entries;
    uint32_t *slots; /* open addressing, id + 1, 0 = empty; slot_count a power of two */
    size_t slot_count;
} hyp_dim_hashcons;

struct hyp_dims {
    hyp_arena arena;
    hyp_intern symbols;
    hyp_dim_hashcons atoms; /* of atom */
    hyp_dim_hashcons exprs; /* of term[]: never a constant; expression i is the hyp_dim INT64_MIN + i */
    hyp_dim unequal[2];
};

static inline const hyp_dim_atom *hyp_dim_get_atom(const hyp_dims *dims, uint32_t id)
{
    return dims->atoms.entries.data[id].bytes;
}

/* The terms of an expression that is not a constant; they stay where they are: the arena never moves. */
static inline const hyp_dim_term *hyp_dim_get_terms(const hyp_dims *dims, hyp_dim d, uint32_t *out_count)
{
    const hyp_dim_entry *e = &dims->exprs.entries.data[d - INT64_MIN];
    *out_count = e->len / (uint32_t)sizeof(hyp_dim_term);
    return e->bytes;
}

/* The polynomial of a dim, to be worked on, and the dim of one. */
void hyp_dim_load(const hyp_dims *dims, hyp_dim d, hyp_dim_poly *out);
HYP_NODISCARD hyp_status hyp_dim_store(hyp_dims *dims, const hyp_dim_poly *p, hyp_dim *out, hyp_diag *diag);
/* HYP_ERR_LIMIT and its message. */
hyp_status hyp_dim_overflow(hyp_diag *diag);

/* b != 0, and not INT64_MIN by -1. */
static inline int64_t hyp_dim_floor(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

#endif
