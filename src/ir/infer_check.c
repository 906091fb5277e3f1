/* infer_check.c - the checks and complaints that the inference of several families shares. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/op.h"

hyp_status hyp_infer_fail(const hyp_infer_call *c, const char *fmt, ...)
{
    char text[HYP_DIAG_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return hyp_fail(c->diag, HYP_ERR_INVALID_ARGUMENT, "%s: %s", hyp_op_get(c->op)->name, text);
}

static const char *keep_text(const hyp_infer_call *c, hyp_strbuf *sb)
{
    const char *text = sb->failed ? NULL : hyp_arena_strdup(c->arena, hyp_strbuf_text(sb));
    hyp_strbuf_dispose(sb);
    return text ? text : "?"; /* a message without its detail, when memory is out */
}

const char *hyp_infer_type_text(const hyp_infer_call *c, const hyp_type *t)
{
    hyp_strbuf sb = {0};
    hyp_type_print(&sb, c->dims, t);
    return keep_text(c, &sb);
}

const char *hyp_infer_dim_text(const hyp_infer_call *c, hyp_dim d)
{
    hyp_strbuf sb = {0};
    hyp_dim_print(&sb, c->dims, d);
    return keep_text(c, &sb);
}

hyp_status hyp_check_dtype(const hyp_infer_call *c, hyp_dtype_class want)
{
    hyp_dtype first = HYP_DTYPE_NONE;
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!c->in[i]) continue;
        hyp_dtype t = c->in[i]->type.dtype;
        if (want == HYP_CLASS_FLOAT && !hyp_dtype_is_float(t))
            return hyp_infer_fail(c, "input %u is %s, a floating-point type is wanted", i, hyp_dtype_name(t));
        if (want == HYP_CLASS_NUMERIC && t == HYP_BOOL)
            return hyp_infer_fail(c, "input %u is bool, a type of numbers is wanted; cast it first", i);
        if (first == HYP_DTYPE_NONE) first = t;
        if (t != first)
            return hyp_infer_fail(c, "the inputs are of different element types, %s and %s; cast one of them",
                                  hyp_dtype_name(first), hyp_dtype_name(t));
    }
    return HYP_OK;
}

hyp_status hyp_check_index_type(const hyp_infer_call *c, uint32_t i)
{
    const hyp_infer_value *v = hyp_infer_input(c, i);
    if (!v || v->type.dtype == HYP_I32 || v->type.dtype == HYP_I64) return HYP_OK;
    return hyp_infer_fail(c, "input %u is of type %s, i32 or i64 is wanted", i, hyp_dtype_name(v->type.dtype));
}

hyp_status hyp_check_alike(const hyp_infer_call *c, uint32_t i)
{
    const hyp_type *x = &c->in[0]->type, *other = &c->in[i]->type;
    bool fits = x->dtype == other->dtype && x->rank == other->rank;
    for (int32_t a = 0; a < x->rank && fits; a++) fits = hyp_check_equal(c, x->dims[a], other->dims[a]);
    if (fits) return HYP_OK;
    return hyp_infer_fail(c, "input %u is %s, %s is wanted, as input 0 is", i, hyp_infer_type_text(c, other),
                          hyp_infer_type_text(c, x));
}

hyp_status hyp_check_sym(const hyp_infer_call *c, uint32_t attr, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], c->attrs[attr].sym) == 0) return HYP_OK;
    return hyp_infer_fail(c, "no %s '%s'", hyp_op_get(c->op)->attrs[attr].name, c->attrs[attr].sym);
}

/* d where what slices end at is not the end of an axis of fixed size: min(16, n) is n. *out is d where it is not told.
 */
static hyp_status uncap(hyp_dims *dims, hyp_dim d, int depth, hyp_dim *out)
{
    enum { DEEPEST = 64 };
    hyp_dim_view v;
    hyp_dim a, b;
    *out = d;
    if (hyp_dim_is_const(d) || depth == DEEPEST) return HYP_OK;
    HYP_TRY(hyp_dim_inspect(dims, d, &v, NULL));
    if (v.kind == HYP_DIM_SYMBOL) return HYP_OK;
    HYP_TRY(uncap(dims, v.a, depth + 1, &a));
    HYP_TRY(uncap(dims, v.b, depth + 1, &b));
    switch (v.kind) {
    case HYP_DIM_ADD: return hyp_dim_add(dims, a, b, out, NULL);
    case HYP_DIM_MUL: return hyp_dim_mul(dims, a, b, out, NULL);
    case HYP_DIM_FLOORDIV: return hyp_dim_floordiv(dims, a, b, out, NULL);
    case HYP_DIM_MIN:
        if (hyp_dim_is_const(a) && a > 1) return *out = b, HYP_OK;
        if (hyp_dim_is_const(b) && b > 1) return *out = a, HYP_OK;
        return hyp_dim_min(dims, a, b, out, NULL);
    default:
        if (a == 0 && hyp_dim_is_nonneg(dims, b)) return *out = b, HYP_OK;
        if (b == 0 && hyp_dim_is_nonneg(dims, a)) return *out = a, HYP_OK;
        return hyp_dim_max(dims, a, b, out, NULL);
    }
}

/* A mask of fixed size, cut to that of the data, meets the data: the sizes are equal wherever the model is defined, and
 * where they are not the bounds of the plan refuse the run. *out is the plainer one. */
static bool equal_where_defined(const hyp_infer_call *c, hyp_dim x, hyp_dim y, hyp_dim *out)
{
    hyp_dim plain_x, plain_y;
    if (uncap(c->dims, x, 0, &plain_x) != HYP_OK || uncap(c->dims, y, 0, &plain_y) != HYP_OK) return false;
    *out = plain_x;
    return plain_x == plain_y && (plain_x == x || plain_y == y);
}

bool hyp_check_equal(const hyp_infer_call *c, hyp_dim x, hyp_dim y)
{
    if (x != y) hyp_dims_note_unequal(c->dims, x, y);
    return x == y;
}

hyp_status hyp_broadcast(const hyp_infer_call *c, const hyp_type *a, const hyp_type *b, hyp_type *out)
{
    const hyp_type *wide = a->rank >= b->rank ? a : b, *narrow = wide == a ? b : a;
    int32_t shift = wide->rank - narrow->rank;
    hyp_type t = {.dtype = out->dtype, .rank = wide->rank};
    for (int32_t i = 0; i < wide->rank; i++) {
        hyp_dim x = wide->dims[i], y = i < shift ? 1 : narrow->dims[i - shift];
        t.dims[i] = x == 1 ? y : x;
        if (x != y && x != 1 && y != 1 && !equal_where_defined(c, x, y, &t.dims[i]) && !hyp_check_equal(c, x, y))
            return hyp_infer_fail(c,
                                  "%s and %s do not broadcast: %s and %s meet at axis %d of the result, where equal "
                                  "sizes or a 1 are wanted%s",
                                  hyp_infer_type_text(c, a), hyp_infer_type_text(c, b), hyp_infer_dim_text(c, x),
                                  hyp_infer_dim_text(c, y), i,
                                  hyp_dim_is_const(x) && hyp_dim_is_const(y)
                                      ? ""
                                      : "; give the symbolic sizes fixed values if they are equal");
    }
    *out = t;
    return HYP_OK;
}

hyp_status hyp_check_axis(const hyp_infer_call *c, int64_t axis, int32_t rank, int32_t *out)
{
    if (axis < -rank || axis >= rank)
        return hyp_infer_fail(c, "axis %lld is outside [%d, %d)", (long long)axis, -rank, rank);
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return HYP_OK;
}

hyp_status hyp_check_axes(const hyp_infer_call *c, const hyp_attr *list, int32_t rank, bool mark[HYP_MAX_RANK])
{
    memset(mark, 0, HYP_MAX_RANK * sizeof *mark);
    for (uint32_t i = 0; i < list->count; i++) {
        int32_t axis = 0;
        if (!hyp_dim_is_const(list->dims[i]))
            return hyp_infer_fail(c, "an axis cannot be symbolic: %s", hyp_infer_dim_text(c, list->dims[i]));
        HYP_TRY(hyp_check_axis(c, list->dims[i], rank, &axis));
        if (mark[axis]) return hyp_infer_fail(c, "axis %d is listed twice", axis);
        mark[axis] = true;
    }
    return HYP_OK;
}

hyp_status hyp_check_shape(const hyp_infer_call *c, const hyp_attr *list, hyp_type *out)
{
    hyp_type t = {.dtype = out->dtype, .rank = (int32_t)list->count};
    if (list->count > HYP_MAX_RANK)
        return hyp_infer_fail(c, "a shape of rank %u, the highest supported is %d", list->count, HYP_MAX_RANK);
    for (uint32_t i = 0; i < list->count; i++) {
        t.dims[i] = list->dims[i];
        if (hyp_dim_is_const(t.dims[i]) && t.dims[i] < 0)
            return hyp_infer_fail(c, "a size of %lld in the shape; sizes are resolved and not negative here",
                                  (long long)t.dims[i]);
    }
    *out = t;
    return HYP_OK;
}

int64_t hyp_content_count(const hyp_type *t)
{
    if (hyp_dtype_is_float(t->dtype)) return -1;
    int64_t count = 1, room = 1; /* without the dims that are 0 */
    for (int32_t i = 0; i < t->rank; i++) {
        if (!hyp_dim_is_const(t->dims[i]) || t->dims[i] > HYP_MAX_CONTENT) return -1;
        room *= t->dims[i] ? t->dims[i] : 1;
        if (room > HYP_MAX_CONTENT) return -1;
        count *= t->dims[i];
    }
    return count;
}
