/* dim.h - symbolic integers: dimensions, offsets, strides.
 *
 * A hyp_dim is one int64: a constant when it is at least HYP_DIM_CONST_MIN, else a reference to an
 * expression interned in a hyp_dims table. Expressions are kept in a canonical form (a polynomial with
 * integer coefficients over atoms; an atom is a symbol or a floordiv, min or max of two expressions), so
 * that two hyp_dims of one table are equal exactly when their canonical forms are: `a == b` decides.
 * Symbols stand for sizes that are known at run time and are >= 0.
 *
 * Expressions are bounded (terms, degree, nesting): an operation whose result would be larger fails with
 * HYP_ERR_LIMIT, so no input costs time or memory without bound. A table belongs to one thread at a time.
 */
#ifndef HYP_IR_DIM_H
#define HYP_IR_DIM_H

#include "base/sexpr.h"

typedef int64_t hyp_dim;
typedef struct hyp_dims hyp_dims;

/* Constants down to this value are themselves; below lie references to expressions. */
#define HYP_DIM_CONST_MIN (-((int64_t)1 << 62))
static inline bool hyp_dim_is_const(hyp_dim d) { return d >= HYP_DIM_CONST_MIN; }

HYP_NODISCARD hyp_status hyp_dims_create(hyp_dims **out, hyp_diag *diag);
void hyp_dims_destroy(hyp_dims *dims); /* NULL-safe */

/* The symbol of this name, made on first sight. */
HYP_NODISCARD hyp_status hyp_dim_symbol(hyp_dims *dims, const char *name, hyp_dim *out, hyp_diag *diag);
size_t hyp_dims_symbol_count(const hyp_dims *dims);
const char *hyp_dims_symbol_name(const hyp_dims *dims, size_t i);

/* Arithmetic; overflow of constants is HYP_ERR_LIMIT. floordiv rounds toward minus infinity, by zero is
 * HYP_ERR_INVALID_ARGUMENT; an exact division by a factor of every term is carried out. */
HYP_NODISCARD hyp_status hyp_dim_add(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_dim_sub(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_dim_mul(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_dim_floordiv(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_dim_min(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_dim_max(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out, hyp_diag *diag);

/* A note of one pair of sizes that inference found unequal though an operator needs them to be equal, for a caller that
 * may take them as equal (hyp_onnx_import). Both 0: none. The last note stands. */
void hyp_dims_note_unequal(hyp_dims *dims, hyp_dim a, hyp_dim b);
void hyp_dims_unequal(const hyp_dims *dims, hyp_dim *out_a, hyp_dim *out_b);

/* True when a divides b for every value of the symbols; *out_quotient = b / a then. a != 0. */
bool hyp_dim_divides(hyp_dims *dims, hyp_dim a, hyp_dim b, hyp_dim *out_quotient);

/* True when d >= 0 can be seen for every value of the symbols; false when unknown. */
bool hyp_dim_is_nonneg(const hyp_dims *dims, hyp_dim d);
/* True when d is scale * symbol + offset with scale != 0: what solves for a symbol of an input's dim. */
bool hyp_dim_is_linear(const hyp_dims *dims, hyp_dim d, size_t *out_symbol, int64_t *out_scale, int64_t *out_offset);

/* Solves d = 0 for a symbol that d has once, linearly, and whose value is then a polynomial of integers: of those the one
 * whose value is seen to be >= 0, and then the one that the table met last. False when there is none. */
bool hyp_dim_solve(hyp_dims *dims, hyp_dim d, size_t *out_symbol, hyp_dim *out_value);
/* Whether the value of the symbol plays a part in d. */
bool hyp_dim_depends(const hyp_dims *dims, hyp_dim d, size_t symbol);

/* The value under a binding of symbols (by symbol index); a negative entry means "not bound" and is an error
 * (HYP_ERR_INVALID_ARGUMENT) when d needs it, as is a division by zero. HYP_ERR_LIMIT on overflow. */
HYP_NODISCARD hyp_status hyp_dim_eval(const hyp_dims *dims, hyp_dim d, const int64_t *symbols, int64_t *out,
                                      hyp_diag *diag);
/* Rewrites d with some symbols replaced: replacement[i] is the dim to put for symbol i. */
HYP_NODISCARD hyp_status hyp_dim_substitute(hyp_dims *dims, hyp_dim d, const hyp_dim *replacement, hyp_dim *out,
                                            hyp_diag *diag);

/* The structure of an expression, for lowering: visits it as a tree of binary operations. */
typedef enum hyp_dim_kind {
    HYP_DIM_CONST,
    HYP_DIM_SYMBOL,
    HYP_DIM_ADD,
    HYP_DIM_MUL,
    HYP_DIM_FLOORDIV,
    HYP_DIM_MIN,
    HYP_DIM_MAX
} hyp_dim_kind;
typedef struct hyp_dim_view {
    hyp_dim_kind kind;
    int64_t value; /* CONST: the value; SYMBOL: the symbol index */
    hyp_dim a, b;  /* operands of the binary kinds */
} hyp_dim_view;
/* May intern helper expressions (the operands). */
HYP_NODISCARD hyp_status hyp_dim_inspect(hyp_dims *dims, hyp_dim d, hyp_dim_view *out, hyp_diag *diag);

/* Canonical text: "12", "batch", "(* 12 batch)", "(+ 1 (floordiv seq 2))". Symbols that are not plain
 * atoms are quoted. Reading it back in the same table gives the same hyp_dim; the text of a value is the
 * same in every table. */
void hyp_dim_print(hyp_strbuf *sb, const hyp_dims *dims, hyp_dim d);
HYP_NODISCARD hyp_status hyp_dim_parse(hyp_dims *dims, const char *file, const hyp_sexpr *sx, hyp_dim *out,
                                       hyp_diag *diag);

#endif
