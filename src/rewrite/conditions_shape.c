/* What a rule may ask about shapes, axes and lists of them. */
#include "rewrite/internal.h"

/* ---- shapes ---------------------------------------------------------------------------------------- */

static hyp_status compare_rank(const hyp_call *call, bool at_least, bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    hyp_attr rank;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &rank, diag));
    *out = t && (at_least ? t->rank >= rank.i : t->rank == rank.i);
    return HYP_OK;
}
static hyp_status rank_is(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return compare_rank(call, false, out, diag);
}
static hyp_status rank_at_least(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return compare_rank(call, true, out, diag);
}

static hyp_status is_static(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    (void)diag;
    *out = t && hyp_type_is_static(t);
    return HYP_OK;
}

static hyp_status single(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    (void)diag;
    *out = t != NULL;
    for (int32_t i = 0; t && i < t->rank; i++) *out = *out && t->dims[i] == 1;
    return HYP_OK;
}

static hyp_status has_shape(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *t = hyp_rw_type_arg(call, 0);
    hyp_attr shape;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_DIMS, &shape, diag));
    *out = t && (uint32_t)t->rank == shape.count;
    for (uint32_t i = 0; *out && i < shape.count; i++) *out = t->dims[i] == shape.dims[i];
    return HYP_OK;
}

static hyp_status broadcasts_into(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *c = hyp_rw_type_arg(call, 0), *x = hyp_rw_type_arg(call, 1);
    (void)diag;
    *out = c && x && c->rank <= x->rank;
    for (int32_t i = 0; *out && i < c->rank; i++)
        *out = c->dims[i] == 1 || c->dims[i] == x->dims[x->rank - c->rank + i];
    return HYP_OK;
}

/* Whether c broadcasts into y and is constant along all axes of y but this one. A length check alone would mistake a
 * column for a row where the matrix is square: the other axes must be of size 1. */
static bool is_along(const hyp_type *c, const hyp_type *y, int32_t axis)
{
    bool along = c && y && axis >= 0 && axis < y->rank && c->rank <= y->rank;
    for (int32_t i = 0; along && i < c->rank; i++)
        along = c->dims[i] == 1 || (i + y->rank - c->rank == axis && c->dims[i] == y->dims[axis]);
    return along;
}

static hyp_status row_vector(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *y = hyp_rw_type_arg(call, 1);
    (void)diag;
    *out = is_along(hyp_rw_type_arg(call, 0), y, y ? y->rank - 1 : 0);
    return HYP_OK;
}

static hyp_status channel_vector(const hyp_call *call, bool *out, hyp_diag *diag)
{
    (void)diag;
    *out = is_along(hyp_rw_type_arg(call, 0), hyp_rw_type_arg(call, 1), 1);
    return HYP_OK;
}

static hyp_status one_row(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *m = hyp_rw_type_arg(call, 0);
    (void)diag;
    *out = !m || m->rank < 2 || m->dims[m->rank - 2] == 1;
    return HYP_OK;
}

static hyp_status one_matrix(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *w = hyp_rw_type_arg(call, 0), *x = hyp_rw_type_arg(call, 1);
    (void)diag;
    *out = w && x && w->rank > 2 && w->rank <= x->rank;
    for (int32_t i = 0; *out && i < w->rank - 2; i++) *out = w->dims[i] == 1;
    return HYP_OK;
}

static hyp_status keeps_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    hyp_attr shape;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &shape, diag));
    *out = x && x->rank >= 1 && shape.count >= 1 && shape.dims[shape.count - 1] == x->dims[x->rank - 1];
    return HYP_OK;
}

static hyp_status keeps_first(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    hyp_attr shape, axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &shape, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 2, HYP_ATTR_INT, &axis, diag));
    *out = x && axis.i >= 0 && axis.i < x->rank && axis.i < shape.count;
    for (int64_t i = 0; *out && i <= axis.i; i++) *out = shape.dims[i] == x->dims[i];
    return HYP_OK;
}

static hyp_status merges(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    hyp_attr shape, axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &shape, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 2, HYP_ATTR_INT, &axis, diag));
    *out = x && axis.i >= 0 && axis.i < shape.count && shape.count + 1 == (uint32_t)x->rank;
    for (uint32_t i = 0; *out && i < shape.count; i++) {
        hyp_dim size = x->dims[i + (i > axis.i)];
        if (i == axis.i) HYP_TRY(hyp_dim_mul(((hyp_rw *)call->user)->dims, size, x->dims[i + 1], &size, diag));
        *out = shape.dims[i] == size;
    }
    return HYP_OK;
}

/* Equal sizes on the first `rank` axes of both. */
static bool agree(const hyp_type *a, const hyp_type *b, int32_t rank)
{
    bool same = a && b && a->rank == b->rank;
    for (int32_t i = 0; same && i < rank; i++) same = a->dims[i] == b->dims[i];
    return same;
}

static hyp_status same_shape(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *a = hyp_rw_type_arg(call, 0), *b = hyp_rw_type_arg(call, 1);
    (void)diag;
    *out = a && agree(a, b, a->rank);
    return HYP_OK;
}

/* Of every pair of convolutions of one image this is asked first, and most have filters of one size. */
static hyp_status narrower(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *w = hyp_rw_type_arg(call, 0), *v = hyp_rw_type_arg(call, 1);
    (void)diag;
    *out = false;
    if (!w || !v || w->rank != v->rank) return HYP_OK;
    bool known = true;
    for (int32_t i = 2; known && i < w->rank; i++) {
        known = hyp_dim_is_const(w->dims[i]) && hyp_dim_is_const(v->dims[i]) && w->dims[i] <= v->dims[i];
        *out = *out || w->dims[i] < v->dims[i];
    }
    *out = *out && known;
    return HYP_OK;
}

static hyp_status same_leading(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *a = hyp_rw_type_arg(call, 0), *b = hyp_rw_type_arg(call, 1);
    (void)diag;
    *out = a && agree(a, b, a->rank - 1);
    return HYP_OK;
}

static hyp_status tail_vector(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *g = hyp_rw_type_arg(call, 0), *x = hyp_rw_type_arg(call, 2);
    hyp_attr axis;
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &axis, diag));
    *out = g && x && axis.i >= 0 && axis.i < x->rank && g->rank <= x->rank && g->rank >= x->rank - axis.i;
    for (int32_t i = 0; *out && i < g->rank; i++) {
        int32_t k = i + x->rank - g->rank; /* the axis of x */
        *out = k < axis.i ? g->dims[i] == 1 : g->dims[i] == x->dims[k];
    }
    return HYP_OK;
}

/* ---- axes ------------------------------------------------------------------------------------------- */

static hyp_status trailing_axes(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    hyp_attr axes;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &axes, diag));
    *out = x && axes.count > 0 && axes.count <= (uint32_t)x->rank;
    for (uint32_t i = 0; *out && i < axes.count; i++) *out = axes.dims[i] == x->rank - (hyp_dim)axes.count + i;
    return HYP_OK;
}

static hyp_status starts_at(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr axes, axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &axes, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &axis, diag));
    *out = axes.count > 0 && axes.dims[0] == axis.i;
    return HYP_OK;
}

static hyp_status last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    hyp_attr axis;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_INT, &axis, diag));
    *out = x && axis.i == x->rank - 1;
    return HYP_OK;
}

static hyp_status without_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    hyp_attr axes;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &axes, diag));
    *out = x != NULL;
    for (uint32_t i = 0; *out && i < axes.count; i++) *out = axes.dims[i] >= 0 && axes.dims[i] < x->rank - 1;
    return HYP_OK;
}

/* Whether a slice (starts sizes steps) of y takes everything of the last axis, or of all the others. */
static hyp_status takes_all(const hyp_call *call, bool last_only, bool *out, hyp_diag *diag)
{
    const hyp_type *y = hyp_rw_type_arg(call, 3);
    hyp_attr starts, sizes, steps;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &starts, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_DIMS, &sizes, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 2, HYP_ATTR_DIMS, &steps, diag));
    *out = y && y->rank > 0 && starts.count == (uint32_t)y->rank && sizes.count == starts.count &&
           steps.count == starts.count;
    for (int32_t i = 0; *out && i < y->rank; i++)
        if ((i == y->rank - 1) == last_only)
            *out = starts.dims[i] == 0 && sizes.dims[i] == y->dims[i] && steps.dims[i] == 1;
    return HYP_OK;
}
static hyp_status whole_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return takes_all(call, true, out, diag);
}
static hyp_status only_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    return takes_all(call, false, out, diag);
}

/* ---- lists and permutations ------------------------------------------------------------------------ */

static hyp_status each_is(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr list, value;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &list, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &value, diag));
    *out = true;
    for (uint32_t i = 0; i < list.count; i++) *out = *out && list.dims[i] == value.i;
    return HYP_OK;
}

static hyp_status count_is(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr list, value;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &list, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &value, diag));
    *out = list.count == value.i;
    return HYP_OK;
}

static hyp_status shorter(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr list, value;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_SYMS, &list, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_INT, &value, diag));
    *out = list.count < value.i;
    return HYP_OK;
}

static hyp_status at_most(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr a, b;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_FLOAT, &a, diag));
    HYP_TRY(hyp_rw_literal_arg(call, 1, HYP_ATTR_FLOAT, &b, diag));
    *out = a.f <= b.f;
    return HYP_OK;
}

static hyp_status identity_perm(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr perm;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &perm, diag));
    *out = true;
    for (uint32_t i = 0; i < perm.count; i++) *out = *out && perm.dims[i] == i;
    return HYP_OK;
}

static hyp_status swaps_last(const hyp_call *call, bool *out, hyp_diag *diag)
{
    hyp_attr perm;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &perm, diag));
    uint32_t n = perm.count;
    *out = n >= 2 && perm.dims[n - 1] == n - 2 && perm.dims[n - 2] == n - 1;
    for (uint32_t i = 0; *out && i < n - 2; i++) *out = perm.dims[i] == i;
    return HYP_OK;
}

static hyp_status moves_only_ones(const hyp_call *call, bool *out, hyp_diag *diag)
{
    const hyp_type *x = hyp_rw_type_arg(call, 1);
    hyp_attr perm;
    hyp_dim last = -1;
    HYP_TRY(hyp_rw_literal_arg(call, 0, HYP_ATTR_DIMS, &perm, diag));
    *out = x && (uint32_t)x->rank == perm.count;
    for (uint32_t i = 0; *out && i < perm.count; i++) {
        if (x->dims[perm.dims[i]] == 1) continue;
        *out = perm.dims[i] > last;
        last = perm.dims[i];
    }
    return HYP_OK;
}

/* ---- the table ------------------------------------------------------------------------------------- */

const hyp_rw_callback hyp_rw_shape_conditions[] = {
    {"rank-is", 2, rank_is, NULL, "(rank-is x n)", false},
    {"rank-at-least", 2, rank_at_least, NULL, "(rank-at-least x n)", false},
    {"static", 1, is_static, NULL, "(static x): no symbolic size", false},
    {"single", 1, single, NULL, "(single x): one element, whatever the rank", false},
    {"has-shape", 2, has_shape, NULL, "(has-shape x s)", false},
    {"broadcasts-into", 2, broadcasts_into, NULL, "(broadcasts-into c x): broadcasting c with x gives x's shape",
     false},
    {"row-vector", 2, row_vector, NULL,
     "(row-vector b y): b broadcasts into y and is constant along all axes but the last", false},
    {"channel-vector", 2, channel_vector, NULL,
     "(channel-vector c y): c broadcasts into y and is constant along all axes but axis 1", false},
    {"tail-vector", 3, tail_vector, NULL,
     "(tail-vector g a x): g has the sizes of x from axis a on, and no others but 1", false},
    {"same-shape", 2, same_shape, NULL, "(same-shape a b): equal sizes, none broadcast", true},
    {"narrower", 2, narrower, NULL, "(narrower w v): the filters w have fewer places than v along an axis, and more along none", true},
    {"same-leading", 2, same_leading, NULL, "(same-leading a b): equal sizes on all axes but the last", true},
    {"one-matrix", 2, one_matrix, NULL,
     "(one-matrix w x): w has more than two axes, at most as many as x, and all but the last two are 1", false},
    {"one-row", 1, one_row, NULL, "(one-row m): the last axis but one of m is 1, or not there; nor may m be",
     false},
    {"keeps-last", 2, keeps_last, NULL, "(keeps-last s x): the shape s ends as x's shape does", false},
    {"keeps-first", 3, keeps_first, NULL,
     "(keeps-first s x a): the shape s begins as x's shape does, up to axis a", false},
    {"merges", 3, merges, NULL, "(merges s x a): the shape s is that of x with the axes a and a + 1 as one",
     false},
    {"trailing-axes", 2, trailing_axes, NULL, "(trailing-axes a x): the list names the last axes of x, in order",
     false},
    {"starts-at", 2, starts_at, NULL, "(starts-at a n): the first entry of the list is n", false},
    {"is-last", 2, last, NULL, "(is-last a x): the axis is the last one of x", false},
    {"without-last", 2, without_last, NULL, "(without-last a x): the last axis of x is not in the list", false},
    {"whole-last", 4, whole_last, NULL,
     "(whole-last s z t y): a slice of y from s of the sizes z in steps t takes all of the last axis", false},
    {"only-last", 4, only_last, NULL, "(only-last s z t y): such a slice takes all of every other axis", false},
    {"at-most", 2, at_most, NULL, "(at-most a b): the number a is not above the number b", false},
    {"each", 2, each_is, NULL, "(each s n): every entry of the list is the integer n", false},
    {"count-is", 2, count_is, NULL, "(count-is s n): the list has n entries", false},
    {"shorter", 2, shorter, NULL, "(shorter s n): the list of symbols has fewer than n entries", false},
    {"identity-perm", 1, identity_perm, NULL, "(identity-perm p): (0 1 2 ...)", false},
    {"swaps-last", 1, swaps_last, NULL, "(swaps-last p): the permutation swaps the last two axes and no others",
     false},
    {"moves-only-ones", 2, moves_only_ones, NULL, "(moves-only-ones p x): only axes of size 1 change places",
     false},
    {0},
};
