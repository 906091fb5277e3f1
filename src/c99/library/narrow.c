#include "short.c"

static void hyp_narrow(enum hyp_kind kind, long count, const float *x, uint16_t *y)
{
    if (kind == HYP_BF16)
        for (long i = 0; i < count; i++) y[i] = hyp_to_bf16(x[i]);
    else
        for (long i = 0; i < count; i++) y[i] = hyp_to_f16(x[i]);
}
