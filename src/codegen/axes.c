/* axes.c - extents and strides, as few as possible: kernels are fastest on few long axes. */
#include "codegen/lower.h"

hyp_status hyp_lower_strides(hyp_lowering *l, int32_t rank, const hyp_dim *dims, hyp_dim *out)
{
    hyp_dim stride = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        out[i] = stride;
        HYP_TRY(hyp_dim_mul(l->graph->dims, stride, dims[i], &stride, l->diag));
    }
    return HYP_OK;
}

hyp_status hyp_lower_broadcast(hyp_lowering *l, hyp_axes *axes, int32_t lane, const hyp_type *type)
{
    hyp_dim strides[HYP_MAX_RANK];
    HYP_TRY(hyp_lower_strides(l, type->rank, type->dims, strides));
    hyp_lower_broadcast_view(axes, lane, type, strides);
    return HYP_OK;
}

void hyp_lower_broadcast_view(hyp_axes *axes, int32_t lane, const hyp_type *type, const hyp_dim *strides)
{
    int32_t shift = axes->rank - type->rank;
    for (int32_t i = 0; i < axes->rank; i++) {
        bool repeated = i < shift || (type->dims[i - shift] == 1 && axes->extents[i] != 1);
        axes->strides[lane][i] = repeated ? 0 : strides[i - shift];
    }
}

/* True when every lane crosses axis `outer` with the stride that a step beyond the end of axis `inner` has. A product
 * that is too large to be formed leaves the axes apart. */
static bool joins(hyp_lowering *l, const hyp_axes *axes, int32_t outer, int32_t inner)
{
    for (int32_t lane = 0; lane < axes->lanes; lane++) {
        hyp_dim beyond;
        if (hyp_dim_mul(l->graph->dims, axes->strides[lane][inner], axes->extents[inner], &beyond, NULL) != HYP_OK ||
            beyond != axes->strides[lane][outer])
            return false;
    }
    return true;
}

void hyp_lower_merge_axes(hyp_lowering *l, hyp_axes *axes)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < axes->rank; i++) {
        if (axes->extents[i] == 1) continue;
        hyp_dim joined;
        int32_t to = kept;
        if (kept > 0 && joins(l, axes, kept - 1, i) &&
            hyp_dim_mul(l->graph->dims, axes->extents[kept - 1], axes->extents[i], &joined, NULL) == HYP_OK) {
            to = kept - 1;
        } else {
            joined = axes->extents[i];
            kept++;
        }
        axes->extents[to] = joined;
        for (int32_t lane = 0; lane < axes->lanes; lane++) axes->strides[lane][to] = axes->strides[lane][i];
    }
    axes->rank = kept;
}
