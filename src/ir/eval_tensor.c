/* eval_tensor.c - tensors of the reference interpreter. */
#include <string.h>

#include "ir/op.h"

hyp_status hyp_eval_tensor_alloc(hyp_eval_tensor *t, hyp_dtype dtype, int32_t rank, const int64_t *dims, hyp_diag *diag)
{
    int64_t count = 1, room = sizeof(double);
    if (hyp_dtype_size(dtype) == 0 || rank < 0 || rank > HYP_MAX_RANK)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "a tensor of element type %d and rank %d is wanted; ranks go to %d", (int)dtype, rank,
                        HYP_MAX_RANK);
    for (int32_t i = 0; i < rank; i++) {
        if (dims[i] < 0) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a tensor with a negative dimension");
        if (!hyp_add_axis(dims[i], &room, &count)) return hyp_fail_memory(diag, SIZE_MAX);
    }
    size_t bytes = (size_t)count * sizeof(double);
    void *data = hyp_malloc(bytes);
    if (!data) return hyp_fail_memory(diag, bytes);
    *t = (hyp_eval_tensor){.dtype = dtype, .rank = rank, .count = (size_t)count};
    if (rank) memcpy(t->dims, dims, (size_t)rank * sizeof *dims);
    if (hyp_dtype_is_float(dtype))
        t->f = data;
    else
        t->i = data;
    return HYP_OK;
}

void hyp_eval_tensor_dispose(hyp_eval_tensor *t)
{
    hyp_free(t->f);
    hyp_free(t->i);
    *t = (hyp_eval_tensor){0};
}

void hyp_eval_load_elements(hyp_eval_tensor *t, const void *data)
{
    if (t->dtype == HYP_F32) { /* the common and large case */
        const char *from = data;
        for (size_t i = 0; i < t->count; i++) {
            float v;
            memcpy(&v, from + i * sizeof v, sizeof v);
            t->f[i] = (double)v;
        }
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (t->f)
            t->f[i] = hyp_load_f64(t->dtype, data, i);
        else
            t->i[i] = hyp_load_i64(t->dtype, data, i);
    }
}

hyp_status hyp_eval_tensor_load(hyp_eval_tensor *t, const hyp_tensor *from, hyp_diag *diag)
{
    hyp_eval_tensor loaded;
    HYP_TRY(hyp_eval_tensor_alloc(&loaded, from->dtype, from->rank, from->dims, diag));
    size_t bytes = loaded.count * hyp_dtype_size(from->dtype);
    hyp_status status = HYP_OK;
    if (from->memory != HYP_MEMORY_HOST)
        status = hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the interpreter reads tensors in host memory only");
    else if (from->bytes < bytes || (bytes && !from->data))
        status =
            hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "a tensor of %zu bytes, its shape wants %zu", from->bytes, bytes);
    if (status != HYP_OK) {
        hyp_eval_tensor_dispose(&loaded);
        return status;
    }
    hyp_eval_load_elements(&loaded, from->data);
    *t = loaded;
    return HYP_OK;
}

void hyp_eval_tensor_store(const hyp_eval_tensor *t, void *data)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->f)
            hyp_store_f64(t->dtype, data, i, t->f[i]);
        else
            hyp_store_i64(t->dtype, data, i, t->i[i]);
    }
}

int64_t hyp_wrap_i64(hyp_dtype dtype, int64_t v)
{
    uint64_t narrow; /* room for any element */
    if (dtype == HYP_I64 || dtype == HYP_U64) return v;
    hyp_store_i64(dtype, &narrow, 0, v);
    return hyp_load_i64(dtype, &narrow, 0);
}

void hyp_eval_round(hyp_eval_tensor *t)
{
    uint64_t narrow;
    if (t->dtype == HYP_F64 || t->dtype == HYP_I64 || t->dtype == HYP_U64) return;
    if (t->dtype == HYP_F32) {
        for (size_t i = 0; i < t->count; i++) t->f[i] = (double)(float)t->f[i];
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (t->f) {
            hyp_store_f64(t->dtype, &narrow, 0, t->f[i]);
            t->f[i] = hyp_load_f64(t->dtype, &narrow, 0);
        } else {
            t->i[i] = hyp_wrap_i64(t->dtype, t->i[i]);
        }
    }
}
