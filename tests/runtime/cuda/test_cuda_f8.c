/* f8e4m3 on the CUDA backend against the reference backend: conversions, and layers of 8 bits. Without a GPU that has
 * such products the program says why and exits 77, which ctest counts as skipped. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/device_check.h"

static device dev;
static plan_builder builder; /* large */

enum { UNIT = 16 }; /* sizes of layers are multiples of it */

/* ---- conversions --------------------------------------------------------------------------------------------- */

/* y = the elements converted to another type, `step` elements apart. */
static void check_conversion(hyp_dtype from, const void *data, int64_t count, int64_t step, hyp_dtype to,
                             hyp_dtype compute)
{
    int64_t results = count / step;
    pb_init(&builder);
    uint32_t x = pb_weight(&builder, from, 1, &count, data);
    uint32_t *extents = pb_consts(&builder, 1, &results), y = pb_output(&builder, "y", to, 1, extents);
    HypPlan__Pointwise *s = pb_pointwise(&builder, compute, 1, extents);
    pb_operand(&builder, s, x, pb_consts(&builder, 1, &step));
    pb_result(&builder, s, y, pb_instr(&builder, s, OP(CAST), 0, 0, 0, 0, to));
    check_plan(&dev, &builder, (dims_list){{0}}, (tolerance){0, 0});
}

static void every_code_is_its_number(void **state)
{
    (void)state;
    uint8_t codes[256];
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    for (int t = 0; t < FLOATS; t++)
        for (int64_t step = 1; step < 4; step += 2)
            check_conversion(HYP_F8E4M3, codes, 256, step, floats[t], floats[t] == HYP_F64 ? HYP_F64 : HYP_F32);
}

/* Numbers of all codes, what lies halfway between them and beside that, beyond the range, and any bits at all. */
static int64_t list_numbers(double *out)
{
    int64_t n = 0;
    static const double others[] = {0.0, 464, 465, 480, 1e30, 1e-40, 0x1p-9, 0x1p-10, INFINITY, NAN};
    for (uint32_t code = 0; code < 0x7e; code++) {
        double here = (double)hyp_f8e4m3_to_f32((uint8_t)code), next = (double)hyp_f8e4m3_to_f32((uint8_t)(code + 1));
        double half = (here + next) / 2;
        const double points[] = {here, half, (double)nextafterf((float)half, 0), (double)nextafterf((float)half, 1e9f)};
        for (int i = 0; i < 8; i++) out[n++] = i < 4 ? points[i] : -points[i - 4];
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        out[n++] = others[i];
        out[n++] = -others[i];
    }
    uint64_t seed = 5;
    while (n % 4096 != 4001) { /* an odd length */
        uint32_t bits = (uint32_t)random_next(&seed);
        float f;
        memcpy(&f, &bits, sizeof f);
        out[n++] = (double)f;
    }
    return n;
}

static void numbers_become_the_nearest_code(void **state)
{
    (void)state;
    static double numbers[8192];
    static uint64_t stored[8192];
    int64_t count = list_numbers(numbers);
    for (int t = 0; t < FLOATS; t++)
        for (int64_t step = 1; step < 4; step += 2) {
            for (int64_t i = 0; i < count; i++) hyp_store_f64(floats[t], stored, (size_t)i, numbers[i]);
            check_conversion(floats[t], stored, count, step, HYP_F8E4M3, floats[t] == HYP_F64 ? HYP_F64 : HYP_F32);
        }
}

/* z = x + (y rounded to 8 bits), in parts that are rounded inside of the step. */
static void results_inside_of_a_step_are_rounded(void **state)
{
    (void)state;
    pb_init(&builder);
    const int64_t dims[] = {5, 33}, strides[] = {33, 1};
    uint32_t *extents = pb_consts(&builder, 2, dims);
    uint32_t x = pb_input(&builder, "x", HYP_F8E4M3, 2, extents), y = pb_input(&builder, "y", HYP_BF16, 2, extents);
    uint32_t z = pb_output(&builder, "z", HYP_F32, 2, extents);
    HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 2, extents);
    pb_operand(&builder, s, x, pb_consts(&builder, 2, strides));
    pb_operand(&builder, s, y, pb_consts(&builder, 2, strides));
    uint32_t rounded = pb_instr(&builder, s, OP(CAST), 1, 0, 0, 0, HYP_F8E4M3);
    pb_result(&builder, s, z, pb_instr(&builder, s, OP(ADD), 0, rounded, 0, 0, HYP_F32));
    check_plan(&dev, &builder, (dims_list){{5, 33}, {5, 33}}, (tolerance){0, 0});
}

/* ---- layers -------------------------------------------------------------------------------------------------- */

typedef enum place { NOWHERE, BEFORE, IN_PLACE, AFTER, PLACES } place;

/* z = act(x_scale weight_scale x w^T + b + r) of x[batch,k] in bf16, converted as the compiler has it; r as above. In
 * place: r is a copy of the input, which z replaces. */
static void build_layer(uint64_t *seed, int64_t n, int64_t k, bool bias, place at, HypPlan__Act act)
{
    pb_init(&builder);
    uint32_t batch = pb_symbol(&builder, "batch"), x_dims[2] = {batch, pb_const(&builder, k)};
    uint32_t shape[2] = {batch, pb_const(&builder, n)};
    uint32_t x = pb_input(&builder, "x", HYP_BF16, 2, x_dims), r = PB_NONE;
    if (at != NOWHERE) r = pb_input(&builder, "r", HYP_BF16, 2, shape);
    uint32_t z = pb_output(&builder, "z", HYP_BF16, 2, shape), y = z;
    uint32_t elements = pb_dim(&builder, HYP_PLAN__DIM__KIND__MUL, shape[0], shape[1]);
    uint32_t narrow = pb_scratch(&builder, HYP_F8E4M3, 1, 2, x_dims);
    uint32_t count = pb_dim(&builder, HYP_PLAN__DIM__KIND__MUL, x_dims[0], x_dims[1]);
    HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, &count);
    pb_operand(&builder, s, x, pb_consts(&builder, 1, (const int64_t[]){1}));
    uint32_t factor = pb_instr(&builder, s, OP(CONST), 0, 0, 256, 0, HYP_BF16);
    uint32_t scaled = pb_instr(&builder, s, OP(MUL), 0, factor, 0, 0, HYP_BF16);
    pb_result(&builder, s, narrow, pb_instr(&builder, s, OP(CAST), scaled, 0, 0, 0, HYP_F8E4M3));
    if (at == IN_PLACE) {
        uint32_t copied = pb_scratch(&builder, HYP_BF16, 0, 2, shape);
        pb_copy_all(&builder, r, copied, elements);
        r = copied;
        y = pb_scratch(&builder, HYP_BF16, 0, 2, shape);
    }
    uint32_t w = random_weight(&builder, seed, HYP_F8E4M3, 2, (int64_t[]){n, k});
    uint32_t b = bias ? random_weight(&builder, seed, HYP_BF16, 1, &n) : PB_NONE;
    HypPlan__Linear *linear = pb_linear(&builder, narrow, y, batch);
    HypPlan__Layer *layer = pb_layer(&builder, linear, n, k, w, b, act, PB_NONE);
    layer->x_scale = 1 / 256.0f;
    layer->weight_scale = 0.37f;
    linear->added_plus1 = at == NOWHERE ? 0 : r + 1;
    linear->add_after = at == AFTER;
    if (at == IN_PLACE) pb_copy_all(&builder, y, z, elements);
}

static void check_layer(uint64_t *seed, int64_t m, int64_t n, int64_t k, bool bias, place at, HypPlan__Act act)
{
    build_layer(seed, n, k, bias, at, act);
    check_plan(&dev, &builder, (dims_list){{m, k}, {m, n}}, tolerance_of(HYP_BF16, k));
}

static void layers_of_bytes_equal_reference_with_every_activation_and_sum(void **state)
{
    (void)state;
    uint64_t seed = 21;
    for (int act = ACT(NONE); act <= (int)ACT(MISH); act++)
        for (int at = NOWHERE; at < PLACES; at++)
            for (int bias = 0; bias < 2; bias++)
                check_layer(&seed, random_between(&seed, 1, 40), UNIT * random_between(&seed, 1, 5),
                            UNIT * random_between(&seed, 1, 5), bias, (place)at, (HypPlan__Act)act);
}

/* By our own kernel. */
static void a_single_row_of_bytes_equals_reference(void **state)
{
    (void)state;
    uint64_t seed = 24;
    for (int act = ACT(NONE); act <= (int)ACT(MISH); act++)
        check_layer(&seed, 1, UNIT * random_between(&seed, 1, 40), UNIT * random_between(&seed, 1, 40), act & 1,
                    (place)random_between(&seed, NOWHERE, AFTER), (HypPlan__Act)act);
}

static void layers_of_bytes_take_any_number_of_rows(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {/* m, n, k */ {0, 32, 16},
                                       {1, 16, 16},
                                       {1, 48, 4096},
                                       {1, 1024, 768},
                                       {1, 256, 512},
                                       {2, 16, 1024},
                                       {7, 48, 80},
                                       {17, 784, 16},
                                       {33, 64, 784},
                                       {128, 128, 128}};
    uint64_t seed = 22;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_layer(&seed, sizes[i][0], sizes[i][1], sizes[i][2], true, NOWHERE, ACT(RELU));
}

/* Largest numbers on both sides: nothing on the way overflows, and sums are not kept in fewer bits. */
static void sums_of_the_largest_bytes_are_right(void **state)
{
    (void)state;
    enum { N = 16, K = 1024 };
    static uint8_t w[N * K], x[8 * K];
    const int64_t w_dims[] = {N, K}, x_dims[] = {8, K};
    uint64_t seed = 23;
    for (size_t i = 0; i < sizeof w; i++) w[i] = (uint8_t)(0x7e - random_next(&seed) % 3);
    for (size_t i = 0; i < sizeof x; i++) x[i] = (uint8_t)(0x7e - random_next(&seed) % 3 + (i % K == 5) * 0x80);
    pb_init(&builder);
    uint32_t y = pb_output(&builder, "y", HYP_BF16, 2, pb_consts(&builder, 2, (const int64_t[]){8, N}));
    uint32_t xt = pb_weight(&builder, HYP_F8E4M3, 2, x_dims, x), wt = pb_weight(&builder, HYP_F8E4M3, 2, w_dims, w);
    HypPlan__Layer *layer =
        pb_layer(&builder, pb_linear(&builder, xt, y, pb_const(&builder, 8)), N, K, wt, PB_NONE, ACT(NONE), PB_NONE);
    layer->x_scale = layer->weight_scale = 1;
    check_plan(&dev, &builder, (dims_list){{0}}, (tolerance){8e-3, 0});
}

static bool has_products(void)
{
    int major = 0, minor = 0;
    CUdevice first;
    assert_int_equal(dev.lib.cuDeviceGet(&first, 0), CUDA_SUCCESS);
    dev.lib.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, first);
    dev.lib.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, first);
    if (10 * major + minor >= 89) return true;
    printf("skipped: the GPU has compute capability %d.%d, products of f8e4m3 need 8.9\n", major, minor);
    return false;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_is_its_number),
        cmocka_unit_test(numbers_become_the_nearest_code),
        cmocka_unit_test(results_inside_of_a_step_are_rounded),
        cmocka_unit_test(layers_of_bytes_equal_reference_with_every_activation_and_sum),
        cmocka_unit_test(a_single_row_of_bytes_equals_reference),
        cmocka_unit_test(layers_of_bytes_take_any_number_of_rows),
        cmocka_unit_test(sums_of_the_largest_bytes_are_right),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = has_products() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
    device_close(&dev);
    return failed;
}
