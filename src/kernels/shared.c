/* shared.c - what kernels share: complaints, axes, indices, strides. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/kernels.h"

hyp_status hyp_kernel_fail(const hyp_kernel_call *c, const char *fmt, ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return hyp_fail(c->diag, HYP_ERR_INVALID_ARGUMENT, "%s: %s", c->op, what);
}

bool hyp_array_same_shape(const hyp_array *a, const hyp_array *b)
{
    if (a->rank != b->rank) return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

hyp_status hyp_kernel_want_shape(const hyp_kernel_call *c, const hyp_array *a, int32_t rank, const int64_t *dims,
                                 const char *what)
{
    if (a->rank != rank) return hyp_kernel_fail(c, "%s has %d axes, wanted %d", what, a->rank, rank);
    for (int32_t i = 0; i < rank; i++)
        if (a->dims[i] != dims[i])
            return hyp_kernel_fail(c, "axis %d of %s is %" PRId64 ", wanted %" PRId64, i, what, a->dims[i], dims[i]);
    return HYP_OK;
}

hyp_status hyp_kernel_axis(const hyp_kernel_call *c, int64_t axis, int32_t rank, int32_t *out)
{
    if (axis < -rank || axis >= rank) return hyp_kernel_fail(c, "axis %" PRId64 " of a tensor of %d", axis, rank);
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return HYP_OK;
}

hyp_status hyp_kernel_index(const hyp_kernel_call *c, int64_t index, int32_t axis, int64_t size, int64_t *out)
{
    if (index < -size || index >= size)
        return hyp_kernel_fail(c, "index %" PRId64 " is out of range for axis %d of %" PRId64, index, axis, size);
    *out = index < 0 ? index + size : index;
    return HYP_OK;
}

void hyp_array_split(const hyp_array *a, int32_t axis, int64_t *outer, int64_t *size, int64_t *inner)
{
    *outer = *inner = 1;
    *size = a->dims[axis];
    for (int32_t i = 0; i < axis; i++) *outer *= a->dims[i];
    for (int32_t i = axis + 1; i < a->rank; i++) *inner *= a->dims[i];
}

void hyp_array_strides(const hyp_array *a, int64_t strides[HYP_MAX_RANK])
{
    int64_t step = 1;
    for (int32_t i = a->rank; i-- > 0; step *= a->dims[i]) strides[i] = step;
}
