#include "short.c"

static void hyp_widen(enum hyp_kind kind, long count, const uint16_t *x, float *y)
{
    if (kind == HYP_BF16)
        for (long i = 0; i < count; i++) y[i] = hyp_from_bf16(x[i]);
    else
        for (long i = 0; i < count; i++) y[i] = hyp_from_f16(x[i]);
}
