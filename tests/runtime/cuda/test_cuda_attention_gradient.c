/* Gradients of attention on a GPU against the reference backend. Needs a GPU, or the emulator: see device_start. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/device_check.h"

enum { NO_MASK, NUMBERS, HIDES, SHOWS, MASKS };

typedef struct attended {
    int64_t batch, heads, rows, keys, width, columns;
    int mask;
    bool rows_first;
    bool shared; /* one row of the mask for all rows and heads of a batch */
    double scale, fill;
} attended;

static device dev;
static plan_builder builder; /* large */

/* Probabilities, and what is a product with them, are rounded once before they are summed over rows, or over keys,
 * where they are of 1 in all. */
static tolerance allowed(int64_t rows, int64_t keys, double scale)
{
    tolerance t = tolerance_of(HYP_BF16, 1);
    double share = keys > 4 ? 4 / (double)keys : 1;
    t.atol = 0x1p-8 * (1 + 2 * sqrt((double)rows) * share) * fmax(1, fabs(scale));
    return t;
}

static void check_each_way(pair *p, dims_list dims, tolerance want) { pair_check(&dev, p, dims, want); }

/* [batch heads rows columns], or [batch rows heads columns]. */
static void place(const attended *a, int64_t rows, int64_t columns, int64_t dims[4])
{
    const int64_t placed[] = {a->batch, a->rows_first ? rows : a->heads, a->rows_first ? a->heads : rows, columns};
    memcpy(dims, placed, sizeof placed);
}

static void check_gradient(const attended *a, void (*compare)(pair *, dims_list, tolerance))
{
    static const char *const names[] = {"q", "k", "v", "y", "g", "mask"}, *const results[] = {"dq", "dk", "dv"};
    int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{0}}, mask_rows = a->shared ? 1 : a->rows;
    const int64_t mask[] = {a->batch, a->shared ? 1 : a->heads, mask_rows, a->keys};
    pb_init(&builder);
    place(a, a->rows, a->width, dims[0]);
    place(a, a->keys, a->width, dims[1]);
    place(a, a->keys, a->columns, dims[2]);
    place(a, a->rows, a->columns, dims[3]);
    memcpy(dims[4], dims[3], sizeof dims[3]);
    memcpy(dims[5], mask, sizeof mask);
    uint32_t in[6], inputs = a->mask == NO_MASK ? 5 : 6;
    for (uint32_t i = 0; i < inputs; i++)
        in[i] = pb_input(&builder, names[i], i < 5 || a->mask == NUMBERS ? HYP_BF16 : HYP_BOOL, 4,
                         pb_consts(&builder, 4, dims[i]));
    HypPlan__Call *call = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t out = pb_output(&builder, results[i], HYP_BF16, 4, pb_consts(&builder, 4, dims[i]));
        if (i == 0)
            call = pb_call(&builder, "attention-gradient", inputs, in, out);
        else
            pb_call_output(call, out);
    }
    pb_call_int(&builder, call, a->rows_first);
    pb_call_float(&builder, call, a->scale);
    pb_call_float(&builder, call, a->fill);
    pb_call_int(&builder, call, a->mask == SHOWS);
    pair p;
    tolerance want = allowed(a->rows, a->keys, a->scale);
    pair_open(&dev, &builder, &p);
    compare(&p, (const int64_t(*)[HYP_MAX_RANK])dims, want);
    pair_close(&p);
    pb_dispose(&builder);
}

static void gradients_take_every_mask_and_layout(void **state)
{
    (void)state;
    for (int form = 0; form < MASKS * 4; form++) {
        attended a = {2, 2, 70, 90, 16, 24, form % MASKS, form / MASKS % 2, form / MASKS / 2, 0.3, -3.4028235e38};
        check_gradient(&a, form == 6 ? check_each_way : pair_check_once);
    }
}

static void gradients_take_every_shape(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = {{1, 1, 8, 8},      {64, 64, 64, 64}, {65, 63, 40, 64}, {130, 200, 64, 64},
                                        {3, 129, 56, 64},  {129, 3, 64, 20}, {66, 70, 7, 5},   {0, 5, 8, 8},
                                        {5, 0, 8, 8},      {5, 7, 0, 8},     {5, 7, 8, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int rows_first = 0; rows_first < 2; rows_first++) {
            const int64_t *s = shapes[i];
            attended a = {1, 3, s[0], s[1], s[2], s[3], i % 2 ? NO_MASK : NUMBERS, rows_first, false, 0.2, -INFINITY};
            check_gradient(&a, pair_check_once);
        }
}

/* Without a mask a scale is left to the exponentials, unless it turns the order of scores round. */
static void gradients_take_any_scale(void **state)
{
    (void)state;
    static const double scales[] = {-0.5, 0, 1e-38, 4};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        check_gradient(&(attended){1, 2, 40, 80, 16, 16, NO_MASK, true, false, scales[i], 0}, pair_check_once);
}

/* What a mask leaves nothing of in a row with something in it: most of a causal one, tile by tile. */
static void gradients_of_what_is_hidden_are_nothing(void **state)
{
    (void)state;
    enum { SPAN = 150, WIDTH = 8 };
    static const int64_t dims[] = {2, SPAN, WIDTH}, of_mask[] = {SPAN, SPAN};
    for (int numbers = 0; numbers < 2; numbers++) {
        static uint8_t hides[SPAN * SPAN];
        static uint16_t shifts[SPAN * SPAN];
        pb_init(&builder);
        for (int i = 0; i < SPAN * SPAN; i++) {
            hides[i] = i % SPAN > i / SPAN;
            shifts[i] = hides[i] ? 0xc61c : 0; /* -9984 in bf16 */
        }
        uint32_t in[6], *shape = pb_consts(&builder, 3, dims);
        static const char *const names[] = {"q", "k", "v", "y", "g"}, *const results[] = {"dq", "dk", "dv"};
        for (int i = 0; i < 5; i++) in[i] = pb_input(&builder, names[i], HYP_BF16, 3, shape);
        in[5] = numbers ? pb_weight(&builder, HYP_BF16, 2, of_mask, shifts)
                        : pb_weight(&builder, HYP_BOOL, 2, of_mask, hides);
        HypPlan__Call *call =
            pb_call(&builder, "attention-gradient", 6, in, pb_output(&builder, results[0], HYP_BF16, 3, shape));
        for (int i = 1; i < 3; i++) pb_call_output(call, pb_output(&builder, results[i], HYP_BF16, 3, shape));
        pb_call_int(&builder, call, 0);
        pb_call_float(&builder, call, 0.35);
        pb_call_float(&builder, call, -INFINITY);
        pb_call_int(&builder, call, 0);
        pair p;
        pair_open(&dev, &builder, &p);
        dims_list all = {{2, SPAN, WIDTH}, {2, SPAN, WIDTH}, {2, SPAN, WIDTH}, {2, SPAN, WIDTH}, {2, SPAN, WIDTH}};
        pair_check_once(&p, all, allowed(SPAN, SPAN, 1));
        pair_close(&p);
        pb_dispose(&builder);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_take_every_mask_and_layout),
        cmocka_unit_test(gradients_take_every_shape),
        cmocka_unit_test(gradients_take_any_scale),
        cmocka_unit_test(gradients_of_what_is_hidden_are_nothing),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
