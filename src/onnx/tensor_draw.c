/* Sample inputs from a seed. Element i depends on the seed, i and its row alone. */
#include <math.h>

#include "base/dtype.h"
#include "hypatia/tensor_io.h"
#include "onnx/random.h"

/* In [0, 1). */
static double part(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }

/* The sum of four uniform numbers: mean 0, deviation 1, at most 3.5. */
static double about_normal(uint64_t bits)
{
    double sum = 0;
    for (int k = 0; k < 4; k++) sum += (double)((bits >> (16 * k)) & 0xffff) * 0x1p-16;
    return (sum - 2) * 1.7320508075688772;
}

static int64_t between(uint64_t bits, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low + 1;
    return span == 0 ? (int64_t)bits : (int64_t)((uint64_t)low + (uint64_t)(part(bits) * (double)span));
}

/* One of the values that arithmetic treats in a way of its own. */
static double edge(hyp_dtype t, uint64_t at, bool extremes)
{
    bool small = t == HYP_F16;
    const double values[] = {NAN,
                             INFINITY,
                             -INFINITY,
                             0.0,
                             -0.0,
                             1,
                             small ? 6e4 : 3e38,
                             small ? -6e4 : -1e25,
                             small ? 300 : 1e15,
                             small ? 0x1p-24 : 0x1p-149,
                             small ? -0x1p-20 : -1e-30,
                             small ? 2049 : 16777217,
                             -123456789,
                             0.5};
    size_t count = extremes ? sizeof values / sizeof *values : 6;
    return values[at % count];
}

/* The first two rows have the ends of the range, whatever their number. */
static double wide(uint64_t bits, uint64_t seed, int64_t row, int64_t low, int64_t high)
{
    int64_t size = row == 0 ? high : row == 1 ? low : between(hyp_random_bits(~seed, (uint64_t)row), low, high);
    double v = ldexp(about_normal(bits), (int)size);
    switch (bits % 31) {
    case 0: return 0.0;
    case 1: return -0.0;
    case 2:
    case 3: return nearbyint(v);
    case 4: return nearbyint(v) + 0.5;
    default: return v;
    }
}

void hyp_tensor_draw(hyp_tensor *t, hyp_draw how, uint64_t seed, int64_t low, int64_t high)
{
    if (!t) return;
    int64_t count = hyp_tensor_elements(t), last = t->rank > 0 ? t->dims[t->rank - 1] : 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = i / last, column = i % last;
        uint64_t bits = hyp_random_bits(seed, (uint64_t)i), more = hyp_random_bits(seed ^ 0x5bd1e995, (uint64_t)i);
        if (t->dtype == HYP_BOOL) {
            hyp_store_i64(t->dtype, t->data, (size_t)i, (int64_t)(bits >> 63));
        } else if (!hyp_dtype_is_float(t->dtype)) {
            bool end = how != HYP_DRAW_ORDINARY && more % 8 == 0;
            int64_t v = end ? (bits >> 63 ? high : low) : between(bits, low, high);
            hyp_store_i64(t->dtype, t->data, (size_t)i, v);
        } else {
            double v = about_normal(bits);
            bool special_row = how == HYP_DRAW_EDGES && count > 1 && (t->rank < 2 || row % 2 == 1);
            if (how == HYP_DRAW_WIDE) v = wide(bits, seed, row, low, high);
            if (special_row && column == 3 * row % last)
                v = edge(t->dtype, (uint64_t)(row / 2), high > 0); /* of each kind one, as far as rows go */
            else if (special_row && more % 8 == 0)
                v = edge(t->dtype, hyp_random_bits(more, 0), high > 0);
            hyp_store_f64(t->dtype, t->data, (size_t)i, v);
        }
    }
}
