/* Gradients of attention on the CPU against the reference backend, which has the scores of one row at a time and sums
 * in double: masks and layouts of all kinds, rows of several blocks, 32 and 16 bits. */
#include <stdlib.h>
#include <string.h>

#include "runtime/support.h"

enum { NO_MASK, NUMBERS, HIDES, SHOWS, MASKS };
enum { INPUTS = 6, OUTPUTS = 3 };

static plan_builder b;
static rng r;

typedef struct attended {
    hyp_dtype dtype;
    int64_t batch, heads, rows, keys, width, columns;
    int mask;
    int64_t mask_dims[4];
    bool rows_first;
} attended;

/* [batch heads rows columns], or [batch rows heads columns]; the number of elements. */
static size_t place(const attended *a, int64_t rows, int64_t columns, int64_t dims[4])
{
    const int64_t placed[] = {a->batch, a->rows_first ? rows : a->heads, a->rows_first ? a->heads : rows, columns};
    memcpy(dims, placed, sizeof placed);
    return (size_t)(a->batch * a->heads * rows * columns);
}

static void fill(hyp_dtype dtype, void *data, size_t count)
{
    if (dtype != HYP_BOOL) {
        rng_fill(&r, dtype, data, count);
        return;
    }
    for (size_t i = 0; i < count; i++) ((uint8_t *)data)[i] = rng_below(&r, 3) == 0;
}

static void compare(const attended *a, const hyp_tensor *in, size_t inputs, const size_t *counts)
{
    static const char *const results[] = {"dq", "dk", "dv"};
    void *out[2][OUTPUTS];
    for (size_t d = 0; d < 2; d++) {
        hyp_tensor outputs[OUTPUTS] = {{0}};
        for (size_t o = 0; o < OUTPUTS; o++) {
            out[d][o] = calloc(counts[o] + 1, hyp_dtype_size(a->dtype));
            outputs[o] = (hyp_tensor){.name = results[o],
                                      .data = out[d][o],
                                      .bytes = counts[o] * hyp_dtype_size(a->dtype),
                                      .dtype = a->dtype};
        }
        run_once(&b, host_devices[d], in, inputs, outputs, OUTPUTS);
    }
    for (size_t o = 0; o < OUTPUTS; o++) {
        float *want = calloc(counts[o] + 1, sizeof *want), *got = calloc(counts[o] + 1, sizeof *got);
        for (size_t i = 0; i < counts[o]; i++) {
            want[i] = (float)hyp_load_f64(a->dtype, out[0][o], i);
            got[i] = (float)hyp_load_f64(a->dtype, out[1][o], i);
        }
        assert_close(got, want, counts[o], a->dtype == HYP_F32 ? 1e-5 : 0.02);
        free(want), free(got), free(out[0][o]), free(out[1][o]);
    }
}

static void check(const attended *a)
{
    static const char *const names[] = {"q", "k", "v", "y", "g", "mask"}, *const results[] = {"dq", "dk", "dv"};
    int64_t dims[INPUTS][4];
    size_t counts[INPUTS] = {place(a, a->rows, a->width, dims[0]),   place(a, a->keys, a->width, dims[1]),
                             place(a, a->keys, a->columns, dims[2]), place(a, a->rows, a->columns, dims[3]),
                             place(a, a->rows, a->columns, dims[4]), 1};
    size_t inputs = a->mask == NO_MASK ? INPUTS - 1 : INPUTS;
    hyp_tensor in[INPUTS];
    uint32_t tensors[INPUTS];
    pb_init(&b);
    memcpy(dims[5], a->mask_dims, sizeof dims[5]);
    for (int i = 0; i < 4; i++) counts[5] *= (size_t)a->mask_dims[i];
    for (size_t i = 0; i < inputs; i++) {
        hyp_dtype dtype = i < 5 || a->mask == NUMBERS ? a->dtype : HYP_BOOL;
        void *data = calloc(counts[i] + 1, hyp_dtype_size(dtype));
        fill(dtype, data, counts[i]);
        in[i] = tensor_of(names[i], dtype, data, 4, dims[i]);
        tensors[i] = pb_input(&b, names[i], dtype, 4, pb_consts(&b, 4, dims[i]));
    }
    HypPlan__Call *call = pb_call(&b, "attention-gradient", inputs, tensors,
                                  pb_output(&b, results[0], a->dtype, 4, pb_consts(&b, 4, dims[0])));
    for (int o = 1; o < OUTPUTS; o++)
        pb_call_output(call, pb_output(&b, results[o], a->dtype, 4, pb_consts(&b, 4, dims[o])));
    pb_call_int(&b, call, a->rows_first);
    pb_call_float(&b, call, 0.3);
    pb_call_float(&b, call, -2.5);
    pb_call_int(&b, call, a->mask == SHOWS);
    compare(a, in, inputs, counts);
    for (size_t i = 0; i < inputs; i++) free(in[i].data);
    pb_dispose(&b);
}

static void gradients_agree_for_every_mask_and_layout(void **state)
{
    (void)state;
    for (int form = 0; form < MASKS * 4; form++) {
        bool whole = form / MASKS % 2;
        attended a = {form % 3 ? HYP_F32 : HYP_BF16,
                      2,
                      3,
                      21,
                      35,
                      16,
                      9,
                      form % MASKS,
                      {2, whole ? 3 : 1, whole ? 21 : 1, 35},
                      form / MASKS / 2};
        check(&a);
    }
    check(&(attended){HYP_F32, 2, 3, 21, 35, 16, 9, NUMBERS, {1, 1, 21, 1}, true}); /* one number for a row */
}

static void gradients_agree_for_every_shape(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{1, 1, 1, 1},   {40, 2100, 8, 8},  {150, 1000, 20, 24}, {300, 300, 64, 64},
                                        {3, 5, 100, 1}, {70, 16, 17, 130}, {0, 5, 8, 8},        {5, 0, 8, 8},
                                        {5, 7, 0, 8},   {5, 7, 8, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t *s = shapes[i];
        check(&(attended){
            HYP_F32, 1, 2, s[0], s[1], s[2], s[3], i % 2 ? NO_MASK : HIDES, {1, 1, s[0], s[1]}, i % 3 == 0});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_for_every_mask_and_layout),
        cmocka_unit_test(gradients_agree_for_every_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
