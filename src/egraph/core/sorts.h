/* sorts.h - declared operators: what sorts of terms an operator takes, and of what sort it is. Nothing is declared at
 * first, and then everything goes; from the first declaration on, what is not declared is refused. */
#ifndef HYP_EGRAPH_CORE_SORTS_H
#define HYP_EGRAPH_CORE_SORTS_H

#include "egraph/core/state.h"

typedef enum hyp_literal { HYP_LITERAL_INT, HYP_LITERAL_FLOAT, HYP_LITERAL_NAME, HYP_LITERALS } hyp_literal;

/* One way to use an operator; the sorts of its arguments are args[first .. first + count), the last one any number of
 * times where `any`. */
typedef struct hyp_declared {
    hyp_symbol symbol;
    uint32_t result, first, count;
    bool any;
    uint32_t next; /* the next one of the same symbol, HYP_NONE at the end */
} hyp_declared;

typedef struct hyp_sorts {
    hyp_intern names; /* of sorts */
    HYP_VEC(hyp_declared) all;
    HYP_VEC(uint32_t) args;
    HYP_VEC(uint32_t) by_symbol; /* the newest one of a symbol, HYP_NONE */
    uint32_t
        literal[HYP_LITERALS]; /* the sort of leaves that are not declared; HYP_NONE: there are none of this kind */
    bool left_only;            /* rules are patterns: their right sides are nobody's */
} hyp_sorts;

/* Makes eg->sorts. HYP_ERR_INVALID_ARGUMENT where terms or rules are there already. */
HYP_NODISCARD hyp_status hyp_sorts_begin(hyp_egraph *eg, hyp_diag *diag);
void hyp_sorts_destroy(hyp_sorts *sorts); /* NULL-safe */
/* Declares a way to use an operator, over sorts that are numbers of names. HYP_ERR_MALFORMED where another way of it is
 * of another sort: so a class' sort is told by any of its e-nodes. */
HYP_NODISCARD hyp_status hyp_sorts_add(hyp_egraph *eg, hyp_symbol symbol, const uint32_t *args, uint32_t count,
                                       bool any, uint32_t result, hyp_diag *diag);

/* The sort of argument j. */
static inline uint32_t hyp_declared_arg(const hyp_sorts *s, const hyp_declared *d, uint32_t j)
{
    return s->args.data[d->first + (j < d->count ? j : d->count - 1)];
}
static inline bool hyp_declared_takes(const hyp_declared *d, uint32_t count)
{
    return d->any ? count + 1 >= d->count : count == d->count;
}
static inline uint32_t hyp_declared_first(const hyp_sorts *s, hyp_symbol symbol)
{
    return symbol < s->by_symbol.len ? s->by_symbol.data[symbol] : HYP_NONE;
}

/* The sort of an operator over arguments of these sorts, HYP_NONE for one that is not known and fits anything. *out_way
 * is the only way that fits, HYP_NONE if there are several or it is a literal. HYP_ERR_MALFORMED where none fits: what
 * was declared, or the nearest name. */
HYP_NODISCARD hyp_status hyp_sorts_of(const hyp_egraph *eg, hyp_symbol symbol, const uint32_t *args, uint32_t count,
                                      uint32_t *out, uint32_t *out_way, hyp_diag *diag);
/* The sort of a class. */
uint32_t hyp_sorts_of_class(hyp_egraph *eg, uint32_t c);
/* HYP_ERR_MALFORMED unless an operator takes these classes, or two classes are of one sort. Nothing without
 * declarations. */
HYP_NODISCARD hyp_status hyp_sorts_check(hyp_egraph *eg, hyp_symbol symbol, const uint32_t *kids, size_t count,
                                         hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_sorts_agree(hyp_egraph *eg, uint32_t a, uint32_t b, hyp_diag *diag);

#endif
