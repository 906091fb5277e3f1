/* Strided walks over tensors, written once for all operators. */
#include <string.h>

#include "ir/op.h"

void hyp_strides(int32_t rank, const int64_t *dims, int64_t *out)
{
    int64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        out[i] = stride;
        if (!hyp_mul_i64(stride, dims[i], &stride)) stride = 0; /* another dim is 0: there is nothing to walk */
    }
}

void hyp_walk_broadcast(hyp_walk *w, int which, int32_t rank, const int64_t *dims)
{
    int64_t strides[HYP_MAX_RANK];
    int32_t shift = w->rank - rank;
    hyp_strides(rank, dims, strides);
    for (int32_t i = 0; i < w->rank; i++)
        w->stride[which][i] = i < shift || dims[i - shift] == 1 ? 0 : strides[i - shift];
}

void hyp_walk_start(hyp_walk *w)
{
    memset(w->index, 0, sizeof w->index);
    w->row = w->rank ? w->dims[w->rank - 1] : 1;
    for (int k = 0; k < 3; k++) w->step[k] = w->rank ? w->stride[k][w->rank - 1] : 0;
    for (int32_t i = 0; i < w->rank; i++)
        if (w->dims[i] == 0) w->row = -1;
}

void hyp_walk_next(hyp_walk *w)
{
    for (int32_t i = w->rank - 2; i >= 0; i--) {
        bool carry = ++w->index[i] == w->dims[i];
        for (int k = 0; k < 3; k++) w->at[k] += carry ? -(w->dims[i] - 1) * w->stride[k][i] : w->stride[k][i];
        if (!carry) return;
        w->index[i] = 0;
    }
    w->row = -1;
}

void hyp_walk_copy(hyp_walk *w, void *to, const void *from)
{
    enum { SIZE = 8 };
    _Static_assert(sizeof(double) == SIZE && sizeof(int64_t) == SIZE, "elements are interchangeable");
    for (hyp_walk_start(w); w->row >= 0; hyp_walk_next(w)) {
        char *a = (char *)to + w->at[0] * SIZE;
        const char *b = (const char *)from + w->at[1] * SIZE;
        if (w->step[0] == 1 && w->step[1] == 1) {
            memcpy(a, b, (size_t)w->row * SIZE);
            continue;
        }
        for (int64_t i = 0; i < w->row; i++) memcpy(a + i * w->step[0] * SIZE, b + i * w->step[1] * SIZE, SIZE);
    }
}
