/* Parts of a tensor that are one piece of it. */
#include "ir/window.h"

/* The elements of the axes behind this one; false where that is not known. */
static bool count_behind(const hyp_type *x, int64_t axis, int64_t *out)
{
    *out = 1;
    for (int64_t a = axis + 1; a < x->rank; a++)
        if (!hyp_dim_is_const(x->dims[a]) || !hyp_mul_i64(*out, x->dims[a], out)) return false;
    return true;
}

static bool is_split_window(const hyp_attr *attrs, const hyp_type *x, uint32_t output, int64_t *out_first)
{
    int64_t axis = attrs[0].i < 0 ? attrs[0].i + x->rank : attrs[0].i, behind, start = 0;
    if (!count_behind(x, axis, &behind)) return false;
    for (int64_t a = 0; a < axis; a++)
        if (x->dims[a] != 1) return false;
    for (uint32_t i = 0; i < output; i++)
        if (!hyp_dim_is_const(attrs[1].dims[i]) || !hyp_add_i64(start, attrs[1].dims[i], &start)) return false;
    return hyp_mul_i64(start, behind, out_first);
}

/* One axis may be cut at will; those before it to one element, those behind it not at all. */
static bool is_slice_window(const hyp_attr *attrs, const hyp_type *x, const hyp_type *y, int64_t *out_first)
{
    const hyp_attr *starts = &attrs[0], *steps = &attrs[2];
    int64_t cut = 0, first = 0, behind, skipped;
    while (cut < x->rank && y->dims[cut] == 1) cut++;
    for (int64_t a = cut + 1; a < x->rank; a++)
        if (y->dims[a] != x->dims[a]) return false;
    for (int64_t a = 0; a < x->rank; a++) {
        if (steps->dims[a] != 1) return false;
        if (starts->dims[a] == 0) continue;
        if (!hyp_dim_is_const(starts->dims[a]) || starts->dims[a] < 0 || !count_behind(x, a, &behind) ||
            !hyp_mul_i64(starts->dims[a], behind, &skipped) || !hyp_add_i64(first, skipped, &first))
            return false;
    }
    *out_first = first;
    return true;
}

bool hyp_is_window(hyp_op op, const hyp_attr *attrs, const hyp_type *x, const hyp_type *y, uint32_t output,
                   int64_t *out_first)
{
    bool found = op == HYP_OP_split   ? is_split_window(attrs, x, output, out_first)
                 : op == HYP_OP_slice ? is_slice_window(attrs, x, y, out_first)
                                      : false;
    int64_t per_unit = HYP_WINDOW_ALIGN / (int64_t)hyp_dtype_size(x->dtype);
    return found && *out_first >= 0 && *out_first % per_unit == 0;
}
