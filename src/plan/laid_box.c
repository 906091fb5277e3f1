#include "plan/laid_box.h"

#include <stdlib.h>

enum { X = HYP_LAID_X, Y = HYP_LAID_Y, LANES = HYP_LAID_LANES };

/* A tensor's axes: their sizes, and how far apart their elements are in the plan's order. */
typedef struct shape {
    size_t rank;
    int64_t sizes[HYP_MAX_RANK], strides[HYP_MAX_RANK];
} shape;

/* An axis of the step, and which axis of each tensor it runs along, in which steps; stride 0: it stays where it is. */
typedef struct axis {
    int64_t extent, stride[LANES], steps[LANES];
    size_t along[LANES];
} axis;

/* A step: its axes in the plan's order, and each lane's tensor in that order and as it lies. */
typedef struct walk {
    size_t rank, lanes;
    axis axes[HYP_MAX_RANK];
    shape plain[LANES], laid[LANES];
    int64_t offset[LANES];
} walk;

static shape shape_of(const HypPlan__Tensor *t, const int64_t *values, bool last)
{
    shape s = {.rank = t->n_dims};
    int64_t stride = 1;
    for (size_t k = 0; k < s.rank; k++) s.sizes[k] = values[t->dims[k]];
    if (last) { /* the channels, then the spatial axes from the last on, then the images */
        s.strides[1] = 1;
        stride = s.sizes[1];
    }
    for (size_t k = s.rank; k-- > 0;) {
        if (last && k == 1) continue;
        s.strides[k] = stride;
        stride *= s.sizes[k];
    }
    return s;
}

/* Finds the axis of a tensor that steps of `stride` elements run along. */
static bool find_axis(const shape *plain, int64_t stride, size_t *out)
{
    for (size_t k = 0; k < plain->rank; k++)
        if (plain->sizes[k] > 1 && plain->strides[k] <= stride) {
            *out = k;
            return stride % plain->strides[k] == 0 && stride / plain->strides[k] < plain->sizes[k];
        }
    return false;
}

/* Splits axes until each runs along one axis of the lane's tensor. */
static bool split_axes(walk *w, size_t lane)
{
    const shape *plain = &w->plain[lane];
    for (size_t i = 0; i < w->rank; i++) {
        axis *a = &w->axes[i];
        int64_t stride = llabs(a->stride[lane]);
        if (stride == 0) continue;
        if (!find_axis(plain, stride, &a->along[lane])) return false;
        int64_t size = plain->sizes[a->along[lane]], steps = stride / plain->strides[a->along[lane]];
        a->steps[lane] = a->stride[lane] < 0 ? -steps : steps;
        if ((a->extent - 1) * steps < size) continue;
        int64_t inner = size / steps;
        if (size % steps != 0 || a->extent % inner != 0 || w->rank == HYP_MAX_RANK) return false;
        for (size_t k = w->rank++; k > i; k--) w->axes[k] = w->axes[k - 1];
        w->axes[i].extent /= inner; /* the outer one, which is looked at next */
        w->axes[i + 1].extent = inner;
        for (size_t l = 0; l < w->lanes; l++) {
            w->axes[i].stride[l] *= inner;
            w->axes[i].steps[l] *= inner;
        }
        i--;
    }
    return true;
}

/* Finds where the step begins in the tensor as that lies, if it goes beyond the end of no axis. */
static bool move_offset(walk *w, size_t lane)
{
    const shape *plain = &w->plain[lane];
    int64_t left = w->offset[lane];
    w->offset[lane] = 0;
    for (size_t k = 0; k < plain->rank; k++) {
        int64_t at = plain->sizes[k] > 1 ? left / plain->strides[k] : 0, low = at, high = at;
        left -= at * plain->strides[k];
        for (size_t i = 0; i < w->rank; i++) {
            const axis *a = &w->axes[i];
            if (a->stride[lane] == 0 || a->along[lane] != k) continue;
            int64_t reach = (a->extent - 1) * a->steps[lane];
            *(reach < 0 ? &low : &high) += reach;
        }
        if (low < 0 || high >= plain->sizes[k]) return false;
        w->offset[lane] += at * w->laid[lane].strides[k];
    }
    return true;
}

static void add_axis(walk *w, int64_t extent)
{
    if (extent > 1) w->axes[w->rank++] = (axis){.extent = extent};
}

static void add_lane(walk *w, const HypPlan__Tensor *t, const int64_t *values, bool last, int64_t offset)
{
    w->plain[w->lanes] = shape_of(t, values, false);
    w->laid[w->lanes] = shape_of(t, values, last);
    w->offset[w->lanes++] = offset;
}

static bool lay(walk *w, hyp_laid_box *out)
{
    for (size_t l = 0; l < w->lanes; l++)
        if (!split_axes(w, l)) return false;
    for (size_t l = 0; l < w->lanes; l++)
        if (!move_offset(w, l)) return false;
    *out = (hyp_laid_box){.rank = w->rank, .keeps_axes = true};
    for (size_t l = 0; l < w->lanes; l++) {
        out->offsets[l] = w->offset[l];
        for (size_t i = 0; i < w->rank; i++) {
            const axis *a = &w->axes[i];
            if (a->stride[l] == 0) continue;
            out->strides[l][i] = a->steps[l] * w->laid[l].strides[a->along[l]];
            bool other = w->plain[l].rank != w->plain[0].rank || a->along[l] != a->along[0];
            if (a->stride[0] != 0 && other) out->keeps_axes = false;
        }
    }
    for (size_t i = 0; i < w->rank; i++) out->extents[i] = w->axes[i].extent;
    return true;
}

bool hyp_lay_copy(const HypPlan__Program *p, const HypPlan__Copy *k, const int64_t *values, bool x_last, bool y_last,
                  hyp_laid_box *out)
{
    bool window = hyp_plan_is_window(p->tensors[k->x]);
    int64_t first = window ? (int64_t)p->tensors[k->x]->first : 0;
    walk w = {0};
    for (size_t i = 0; i < k->n_extents; i++) {
        if (values[k->extents[i]] < 1) return false;
        add_axis(&w, values[k->extents[i]]);
        if (values[k->extents[i]] == 1) continue;
        w.axes[w.rank - 1].stride[X] = values[k->x_strides[i]];
        w.axes[w.rank - 1].stride[Y] = values[k->y_strides[i]];
    }
    add_lane(&w, p->tensors[window ? hyp_plan_root(p, k->x) : k->x], values, x_last, first + values[k->x_offset]);
    add_lane(&w, p->tensors[k->y], values, y_last, values[k->y_offset]);
    return lay(&w, out);
}

bool hyp_copies_nothing(const HypPlan__Program *p, const HypPlan__Copy *k, const int64_t *values, const hyp_laid_box *laid)
{
    int64_t count = 1, x, y;
    if (hyp_plan_is_window(p->tensors[k->x]) || laid->offsets[X] != 0 || laid->offsets[Y] != 0) return false;
    for (size_t i = 0; i < laid->rank; i++) {
        if (laid->strides[X][i] != laid->strides[Y][i]) return false;
        count *= laid->extents[i];
    }
    return hyp_plan_elements(p, k->x, values, &x, NULL) == HYP_OK &&
           hyp_plan_elements(p, k->y, values, &y, NULL) == HYP_OK && x == count && y == count;
}

void hyp_laid_sort(hyp_laid_box *box, size_t lanes, size_t lane)
{
    for (size_t i = 1; i < box->rank; i++)
        for (size_t k = i; k > 0 && box->strides[lane][k - 1] < box->strides[lane][k]; k--) {
            int64_t extent = box->extents[k];
            box->extents[k] = box->extents[k - 1];
            box->extents[k - 1] = extent;
            for (size_t l = 0; l < lanes; l++) {
                int64_t stride = box->strides[l][k];
                box->strides[l][k] = box->strides[l][k - 1];
                box->strides[l][k - 1] = stride;
            }
        }
}

bool hyp_lay_pointwise(const HypPlan__Program *p, const HypPlan__Pointwise *step, const int64_t *values,
                       const bool *channels_last, hyp_laid_box *out)
{
    uint32_t y = step->outputs[0];
    int64_t dense = 1;
    walk w = {0};
    for (size_t i = 0; i < step->n_extents; i++) {
        if (values[step->extents[i]] < 1) return false;
        add_axis(&w, values[step->extents[i]]);
        for (size_t x = 0; x < step->n_inputs && values[step->extents[i]] > 1; x++)
            w.axes[w.rank - 1].stride[1 + x] = values[step->inputs[x]->strides[i]];
    }
    for (size_t i = w.rank; i-- > 0; dense *= w.axes[i].extent) w.axes[i].stride[0] = dense;
    add_lane(&w, p->tensors[y], values, channels_last[y], 0);
    for (size_t x = 0; x < step->n_inputs; x++) {
        uint32_t tensor = step->inputs[x]->tensor;
        add_lane(&w, p->tensors[tensor], values, channels_last[tensor], 0);
    }
    if (!lay(&w, out)) return false;
    hyp_laid_sort(out, w.lanes, 0);
    return true;
}
