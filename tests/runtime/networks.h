/* networks.h - two plans that the tests of threads and allocations run. */
#ifndef HYP_TESTS_RUNTIME_NETWORKS_H
#define HYP_TESTS_RUNTIME_NETWORKS_H

#include "runtime/support.h"

/* x[batch, 20] -> softmax(relu(x w1^T + b1) w2^T) of 10 columns; `width` hidden values. A large width is work for
 * oneDNN, a small one for our own kernel. A matmul of the result with itself is there when `library` is set. */
static inline void build_network(plan_builder *b, int64_t width, bool library)
{
    enum { IN = 20, OUT = 10 };
    rng r = {99};
    pb_init(b);
    uint32_t batch = pb_symbol(b, "batch"), in = pb_const(b, IN), out = pb_const(b, OUT), one = pb_const(b, 1);
    uint32_t x = pb_input(b, "x", HYP_F32, 2, (uint32_t[]){batch, in});
    uint32_t y = pb_output(b, "y", HYP_F32, 2, (uint32_t[]){batch, out});
    uint32_t hidden = pb_scratch(b, HYP_F32, 0, 2, (uint32_t[]){batch, pb_const(b, width)});
    uint32_t logits = pb_scratch(b, HYP_F32, 1, 2, (uint32_t[]){batch, out});
    static float data[20 * 20000];
    rng_fill(&r, HYP_F32, data, sizeof data / sizeof *data);
    assert_true(width * IN <= (int64_t)(sizeof data / sizeof *data));
    uint32_t w1 = pb_weight(b, HYP_F32, 2, (int64_t[]){width, IN}, data), b1 = pb_weight(b, HYP_F32, 1, &width, data);
    uint32_t w2 = pb_weight(b, HYP_F32, 2, (int64_t[]){OUT, width}, data);
    HypPlan__Linear *s = pb_linear(b, x, logits, batch);
    pb_layer(b, s, width, IN, w1, b1, HYP_PLAN__ACT__ACT_RELU, hidden);
    pb_layer(b, s, OUT, width, w2, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    HypPlan__Softmax *soft = pb_softmax(b);
    soft->x = logits, soft->y = y, soft->outer = batch, soft->axis = out, soft->inner = one;
    if (!library) return;
    HypPlan__Matmul *m = pb_matmul(b);
    m->a = m->b = y;
    m->y = pb_output(b, "square", HYP_F32, 2, (uint32_t[]){out, out});
    m->m = m->n = out, m->k = batch, m->trans_a = 1, m->alpha = 1;
}

#endif
