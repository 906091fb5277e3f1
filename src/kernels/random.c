/* random.c - random numbers by their places. */
#include "kernels/random.h"

#include "base/philox.h"

hyp_kernel_fn hyp_kernel_random_uniform;

hyp_status hyp_kernel_random_check(const hyp_kernel_call *c)
{
    const hyp_array *seed = &c->in[0], *number = &c->in[1], *y = &c->out[0];
    const hyp_kernel_attr *shape = &c->attrs[0];
    bool same = (uint32_t)y->rank == shape->count;
    for (int32_t i = 0; same && i < y->rank; i++) same = y->dims[i] == shape->ints[i];
    if (!same || y->dtype != HYP_F32)
        return hyp_kernel_fail(c, "the result is not of f32 and of the shape that is asked for");
    if (seed->dtype != HYP_I64 || seed->count != 1 || number->dtype != HYP_I64 || number->count != 1)
        return hyp_kernel_fail(c, "two scalars of i64 are wanted");
    if (c->attrs[1].i < 0 || c->attrs[1].i > (int64_t)UINT32_MAX)
        return hyp_kernel_fail(c, "stream %lld is out of range", (long long)c->attrs[1].i);
    if (y->count > (int64_t)HYP_PHILOX_WORDS << 32)
        return hyp_kernel_fail(c, "%lld elements are more than 2^34", (long long)y->count);
    return HYP_OK;
}

/* Multiples of 2^-24, which any type that floats are kept in here has. */
static void store(const hyp_array *y, int64_t first, int64_t count, const float *values)
{
    if (y->stored == HYP_F32)
        memcpy((char *)y->data + (size_t)first * sizeof *values, values, (size_t)count * sizeof *values);
    else
        for (int64_t i = 0; i < count; i++) hyp_array_set_f64(y, first + i, (double)values[i]);
}

hyp_status hyp_kernel_random_uniform(const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    HYP_TRY(hyp_kernel_random_check(c));
    uint64_t seed = (uint64_t)hyp_array_i64(&c->in[0], 0), number = (uint64_t)hyp_array_i64(&c->in[1], 0);
    for (int64_t first = 0; first < y->count; first += HYP_PHILOX_WORDS) {
        float block[HYP_PHILOX_WORDS];
        int64_t left = y->count - first;
        hyp_random_block(seed, number, (uint32_t)c->attrs[1].i, (uint32_t)(first / HYP_PHILOX_WORDS), block);
        store(y, first, left < HYP_PHILOX_WORDS ? left : HYP_PHILOX_WORDS, block);
    }
    return HYP_OK;
}
