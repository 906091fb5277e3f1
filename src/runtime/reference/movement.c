/* softmax, reduce, copy, gather, fill. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/reference/reference.h"

void hyp_reference_softmax(const hyp_reference_call *call, const HypPlan__Softmax *s)
{
    hyp_dtype t = hyp_tensor_dtype(call->program, s->x);
    const void *x = call->at[s->x];
    void *y = call->at[s->y];
    int64_t outer = call->values[s->outer], axis = call->values[s->axis], inner = call->values[s->inner];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            size_t first = (size_t)(o * axis * inner + i);
            double most = -INFINITY, sum = 0;
            for (int64_t a = 0; a < axis; a++) most = fmax(most, hyp_load_f64(t, x, first + (size_t)(a * inner)));
            for (int64_t a = 0; a < axis; a++) sum += exp(hyp_load_f64(t, x, first + (size_t)(a * inner)) - most);
            for (int64_t a = 0; a < axis; a++) {
                size_t at = first + (size_t)(a * inner);
                hyp_store_f64(t, y, at, exp(hyp_load_f64(t, x, at) - most) / sum);
            }
        }
}

void hyp_reference_reduce(const hyp_reference_call *call, const HypPlan__Reduce *s)
{
    hyp_dtype t = hyp_tensor_dtype(call->program, s->x);
    bool is_float = hyp_dtype_is_float(t), mean = s->kind == HYP_PLAN__REDUCE__KIND__MEAN;
    const void *x = call->at[s->x];
    hyp_walk kept, reduced;
    hyp_walk_init(&kept, call->values, s->kept, s->n_kept);
    hyp_walk_lane(&kept, call->values, s->kept_strides, 0);
    hyp_walk_init(&reduced, call->values, s->reduced, s->n_reduced);
    hyp_walk_lane(&reduced, call->values, s->reduced_strides, 0);
    int64_t outer = hyp_walk_count(&kept), inner = hyp_walk_count(&reduced);
    for (int64_t o = 0; o < outer; o++, hyp_walk_next(&kept)) {
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t i = 0; i < inner; i++, hyp_walk_next(&reduced)) {
            size_t at = (size_t)(kept.offset[0] + reduced.offset[0]);
            if (is_float)
                sum += hyp_load_f64(t, x, at);
            else
                whole += (uint64_t)hyp_load_i64(t, x, at);
        }
        if (is_float)
            hyp_store_f64(t, call->at[s->y], (size_t)o, mean ? sum / (double)inner : sum);
        else
            hyp_store_i64(t, call->at[s->y], (size_t)o, mean && inner ? (int64_t)whole / inner : (int64_t)whole);
    }
}

void hyp_reference_copy(const hyp_reference_call *call, const HypPlan__Copy *s)
{
    const int64_t *values = call->values;
    size_t size = hyp_dtype_size(hyp_tensor_dtype(call->program, s->x));
    const char *x = call->at[s->x];
    char *y = call->at[s->y];
    hyp_walk w;
    hyp_walk_init(&w, values, s->extents, s->n_extents);
    hyp_walk_lane(&w, values, s->x_strides, values[s->x_offset]);
    hyp_walk_lane(&w, values, s->y_strides, values[s->y_offset]);
    int64_t count = hyp_walk_count(&w);
    for (int64_t i = 0; i < count; i++, hyp_walk_next(&w))
        memcpy(y + w.offset[1] * (int64_t)size, x + w.offset[0] * (int64_t)size, size);
}

hyp_status hyp_reference_gather(const hyp_reference_call *call, const HypPlan__Gather *s, hyp_diag *diag)
{
    size_t size = hyp_dtype_size(hyp_tensor_dtype(call->program, s->x));
    hyp_dtype index_type = hyp_tensor_dtype(call->program, s->indices);
    int64_t outer = call->values[s->outer], axis = call->values[s->axis], inner = call->values[s->inner];
    int64_t count = call->values[s->count];
    size_t run = (size_t)inner * size;
    const char *x = call->at[s->x];
    char *y = call->at[s->y];
    for (int64_t j = 0; j < count; j++) {
        int64_t index = hyp_load_i64(index_type, call->at[s->indices], (size_t)j);
        int64_t from = index < 0 ? index + axis : index;
        if (from < 0 || from >= axis)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "gather: index %" PRId64 " at position %" PRId64 " is out of range for an axis of %" PRId64,
                            index, j, axis);
        for (int64_t o = 0; run && o < outer; o++)
            memcpy(y + (size_t)(o * count + j) * run, x + (size_t)(o * axis + from) * run, run);
    }
    return HYP_OK;
}

void hyp_reference_fill(const hyp_reference_call *call, const HypPlan__Fill *s)
{
    for (size_t i = 0; i < s->n_values; i++) hyp_store_i64(HYP_I64, call->at[s->y], i, call->values[s->values[i]]);
}
