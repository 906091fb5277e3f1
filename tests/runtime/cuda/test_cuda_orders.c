/* Tensors with the channels last beside products, copies and windows, on a GPU or the emulator: results are the reference
 * backend's, and what is the same in both orders is not copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/device_check.h"

enum { HEIGHT = 6, WIDTH = 5, PLACES = HEIGHT * WIDTH };

static device dev;
static plan_builder builder; /* large */
static uint64_t seed;
static hyp_dtype dtype;
static int64_t images;

static uint32_t *shape(int64_t channels)
{
    return pb_consts(&builder, 4, (int64_t[]){images, channels, HEIGHT, WIDTH});
}

static uint32_t *rows(int64_t channels)
{
    return pb_consts(&builder, 4, (int64_t[]){images, HEIGHT, WIDTH, channels});
}

static uint32_t scratch(uint32_t slot, int64_t channels) { return pb_scratch(&builder, dtype, slot, 4, shape(channels)); }

/* y = tanh(conv(x) + z), so that numbers stay small; z may be PB_NONE. */
static void add_conv(uint32_t x, uint32_t z, uint32_t y, int64_t in, int64_t out, int64_t group, int64_t kernel)
{
    const int64_t pad = kernel / 2;
    uint32_t weight = random_weight(&builder, &seed, dtype, 4, (int64_t[]){out, in / group, kernel, kernel});
    uint32_t bias = random_weight(&builder, &seed, dtype, 1, &out);
    HypPlan__Call *call = pb_call(&builder, "conv", z == PB_NONE ? 3 : 4, (uint32_t[]){x, weight, bias, z}, y);
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_ints(&builder, call, 4, (int64_t[]){pad, pad, pad, pad});
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, call, group);
    pb_call_symbol(&builder, call, "tanh");
}

static void add_pool(uint32_t x, uint32_t y)
{
    HypPlan__Call *pool = pb_call(&builder, "max-pool", 1, &x, y);
    pb_call_ints(&builder, pool, 2, (int64_t[]){3, 3});
    pb_call_ints(&builder, pool, 2, (int64_t[]){1, 1});
    pb_call_ints(&builder, pool, 4, (int64_t[]){1, 1, 1, 1});
    pb_call_ints(&builder, pool, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, pool, 0);
    pb_call_int(&builder, pool, 0);
}

static void add_copy(uint32_t x, uint32_t y, const int64_t *extents, const int64_t *x_strides, const int64_t *y_strides,
                     int64_t x_offset, int64_t y_offset)
{
    HypPlan__Copy *k = pb_copy(&builder);
    k->x = x;
    k->y = y;
    k->n_extents = k->n_x_strides = k->n_y_strides = 3;
    k->extents = pb_consts(&builder, 3, extents);
    k->x_strides = pb_consts(&builder, 3, x_strides);
    k->y_strides = pb_consts(&builder, 3, y_strides);
    k->x_offset = pb_const(&builder, x_offset);
    k->y_offset = pb_const(&builder, y_offset);
}

/* To rows of channels, or back. */
static void add_transpose(uint32_t x, uint32_t y, int64_t channels, bool back)
{
    const int64_t to[] = {images, PLACES, channels}, from[] = {images, channels, PLACES};
    const int64_t dense_to[] = {PLACES * channels, channels, 1}, turned_to[] = {PLACES * channels, 1, PLACES};
    const int64_t dense_from[] = {PLACES * channels, PLACES, 1}, turned_from[] = {PLACES * channels, 1, channels};
    if (back)
        add_copy(x, y, from, turned_from, dense_from, 0, 0);
    else
        add_copy(x, y, to, turned_to, dense_to, 0, 0);
}

/* Some channels of x become some of y. */
static void add_part(uint32_t x, uint32_t y, int64_t x_channels, int64_t y_channels, int64_t count, int64_t from, int64_t to)
{
    add_copy(x, y, (int64_t[]){images, count, PLACES}, (int64_t[]){x_channels * PLACES, PLACES, 1},
             (int64_t[]){y_channels * PLACES, PLACES, 1}, from * PLACES, to * PLACES);
}

static uint32_t channels_of(uint32_t x, int64_t count, int64_t from)
{
    uint32_t t = pb_view(&builder, x, 4, shape(count));
    builder.tensors[t].window = true;
    builder.tensors[t].first = (uint64_t)(from * PLACES);
    return t;
}

/* How many launches a step takes, of the shapes that ran last. */
static size_t launches(const pair *p, size_t step)
{
    enum { MOST = 32 };
    hyp_step_work_info work[MOST];
    hyp_diag diag = {0};
    size_t steps = hyp_engine_step_count(p->cuda);
    assert_true(step < steps && steps <= MOST);
    for (size_t i = 0; i < steps; i++) {
        work[i].size = sizeof *work;
        if (hyp_context_step_work(p->cuda_context, i, &work[i], &diag) != HYP_OK) fail_msg("%s", diag.message);
    }
    return work[step].launches;
}

/* Whether a convolution reads, and leaves, tensors with the channels last, by the key of its choice: "... last xwyz". */
static void assert_lies(const pair *p, size_t step, bool x_last, bool y_last)
{
    assert_int_equal(hyp_context_choice_count(p->cuda_context, step), 1);
    const char *key = hyp_context_choice(p->cuda_context, step, 0).key, *last = strstr(key, " last ");
    assert_non_null(last);
    if ((last[6] == 'y') != x_last || (last[8] == 'y') != y_last) fail_msg("step %zu: %s", step, key);
}

static void run(pair *p, int64_t in)
{
    tolerance want = tolerance_of(dtype, 400);
    want.atol *= 4;
    pair_open(&dev, &builder, p);
    pair_check(&dev, p, (dims_list){{images, in, HEIGHT, WIDTH}}, want);
}

static void finish(pair *p)
{
    pair_close(p);
    pb_dispose(&builder);
}

static void for_types(void (*check)(void))
{
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        dtype = types[t];
        pb_init(&builder);
        check();
    }
}

static void for_types_of_one_image(void (*check)(void))
{
    images = 1;
    for_types(check);
}

static void for_types_and_images(void (*check)(void))
{
    for (images = 1; images <= 2; images++) for_types(check);
}

/* Two slots, so that each tensor lies where the one before the last did, as a plan has it. `kept`: the pool's result is
 * read again at the end. */
static void check_rows(bool kept)
{
    enum { C = 8, M = 16, FIRST, POOL, TO, LINEAR, BACK, LAST };
    uint32_t x = pb_input(&builder, "x", dtype, 4, shape(C)), y = pb_output(&builder, "y", dtype, 4, shape(C));
    uint32_t first = scratch(0, C), pooled = scratch(1, C), to = pb_scratch(&builder, dtype, 0, 4, rows(C));
    uint32_t product = pb_scratch(&builder, dtype, kept ? 2 : 1, 4, rows(M)), back = scratch(0, M);
    add_conv(x, PB_NONE, first, C, C, 1, 3);
    add_pool(first, pooled);
    add_transpose(pooled, to, C, false);
    HypPlan__Linear *linear = pb_linear(&builder, to, product, pb_const(&builder, images * PLACES));
    uint32_t weight = random_weight(&builder, &seed, dtype, 2, (int64_t[]){M, C});
    uint32_t bias = random_weight(&builder, &seed, dtype, 1, (int64_t[]){M});
    pb_layer(&builder, linear, M, C, weight, bias, HYP_PLAN__ACT__ACT_TANH, PB_NONE);
    add_transpose(product, back, M, true);
    add_conv(back, kept ? pooled : PB_NONE, y, M, C, 1, 3);
    pair p;
    run(&p, C);
    assert_int_equal(launches(&p, TO - FIRST), 0);
    assert_int_equal(launches(&p, BACK - FIRST), 0);
    assert_lies(&p, 0, false, true);
    assert_lies(&p, LAST - FIRST, true, false);
    finish(&p);
}

static void rows_between_a_pool_and_a_convolution(void) { check_rows(false); }
static void rows_of_what_is_read_again(void) { check_rows(true); }

static void products_read_what_convolutions_leave(void **state)
{
    (void)state;
    for_types_and_images(rows_between_a_pool_and_a_convolution);
    for_types_and_images(rows_of_what_is_read_again);
}

/* Two parts of a convolution, by copies, are convolved each and put together again with a third. */
static void check_parts(void)
{
    enum { C = 8 };
    uint32_t x = pb_input(&builder, "x", dtype, 4, shape(C)), y = pb_output(&builder, "y", dtype, 4, shape(C));
    uint32_t both = scratch(0, 2 * C), one = scratch(1, C), other = scratch(2, C), all = scratch(3, 4 * C);
    uint32_t next = scratch(4, C), last = scratch(5, C);
    add_conv(x, PB_NONE, both, C, 2 * C, 1, 3);
    add_part(both, one, 2 * C, C, C, 0, 0);
    add_part(both, other, 2 * C, C, C, C, 0);
    add_conv(one, PB_NONE, next, C, C, C, 3);
    add_conv(other, next, last, C, C, 1, 1);
    add_part(next, all, C, 4 * C, C, 0, 0);
    add_part(both, all, 2 * C, 4 * C, 2 * C, 0, C);
    add_part(last, all, C, 4 * C, C, 0, 3 * C);
    add_conv(all, PB_NONE, y, 4 * C, C, 1, 3);
    pair p;
    run(&p, C);
    assert_lies(&p, 0, false, true);
    assert_lies(&p, 3, true, true);
    assert_lies(&p, 4, true, true);
    assert_lies(&p, 8, true, false);
    finish(&p);
}

static void channels_are_taken_out_and_put_together(void **state)
{
    (void)state;
    for_types_and_images(check_parts);
}

/* Windows of the channels of one image, one of which is read late, when the slot of its tensor is long another's; windows
 * of the images where there are two. */
static void check_windows(void)
{
    enum { C = 8 };
    uint32_t x = pb_input(&builder, "x", dtype, 4, shape(C)), y = pb_output(&builder, "y", dtype, 4, shape(C));
    uint32_t all = scratch(0, 3 * C), first = scratch(1, C), second = scratch(2, C), third = scratch(1, C);
    uint32_t parts[3];
    for (int i = 0; i < 3; i++) parts[i] = channels_of(all, C, i * C);
    add_conv(x, PB_NONE, all, C, 3 * C, 1, 3);
    add_conv(parts[0], PB_NONE, first, C, C, C, 3);
    add_conv(first, parts[1], second, C, C, 1, 1);
    add_pool(parts[2], third);
    add_conv(second, third, y, C, C, 1, 3);
    pair p;
    run(&p, C);
    assert_lies(&p, 0, false, true);
    for (size_t i = 1; i < 3; i++) assert_lies(&p, i, true, true);
    finish(&p);
}

static void windows_of_channels_are_rows_of_their_own(void **state)
{
    (void)state;
    for_types_of_one_image(check_windows);
}

/* The first channels of one image, with a number added, become a result where all of them were. */
static void check_first_channels(void)
{
    enum { C = 8 };
    uint32_t x = pb_input(&builder, "x", dtype, 4, shape(C)), y = pb_output(&builder, "y", dtype, 4, shape(C));
    uint32_t all = scratch(0, 2 * C), sum = scratch(0, C);
    uint32_t *extents = pb_consts(&builder, 1, (int64_t[]){C * PLACES});
    add_conv(x, PB_NONE, all, C, 2 * C, 1, 3);
    HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, extents);
    pb_operand(&builder, s, all, pb_consts(&builder, 1, (int64_t[]){1}));
    pb_operand(&builder, s, x, pb_consts(&builder, 1, (int64_t[]){0}));
    uint32_t added = pb_instr(&builder, s, OP(ADD), 0, 1, 0, 0, HYP_F32);
    pb_result(&builder, s, sum, pb_instr(&builder, s, OP(TANH), added, 0, 0, 0, HYP_F32));
    add_conv(sum, PB_NONE, y, C, C, 1, 3);
    pair p;
    run(&p, C);
    assert_lies(&p, 0, false, true);
    assert_lies(&p, 2, true, false);
    finish(&p);
}

/* A number for every channel, and one for every place. */
static void check_repeated(void)
{
    enum { C = 8 };
    uint32_t x = pb_input(&builder, "x", dtype, 4, shape(C)), y = pb_output(&builder, "y", dtype, 4, shape(C));
    uint32_t first = scratch(0, 2 * C), second = scratch(1, C);
    uint32_t channels = random_weight(&builder, &seed, dtype, 3, (int64_t[]){2 * C, 1, 1});
    uint32_t places = random_weight(&builder, &seed, dtype, 2, (int64_t[]){HEIGHT, WIDTH});
    add_conv(x, PB_NONE, first, C, 2 * C, 1, 3);
    HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 4, shape(2 * C));
    const int64_t dense[] = {2 * C * PLACES, PLACES, WIDTH, 1};
    uint32_t scaled = scratch(2, 2 * C);
    pb_operand(&builder, s, first, pb_consts(&builder, 4, dense));
    pb_operand(&builder, s, channels, pb_consts(&builder, 4, (int64_t[]){0, 1, 0, 0}));
    pb_operand(&builder, s, places, pb_consts(&builder, 4, (int64_t[]){0, 0, WIDTH, 1}));
    uint32_t product = pb_instr(&builder, s, OP(MUL), 0, 1, 0, 0, HYP_F32);
    pb_result(&builder, s, scaled, pb_instr(&builder, s, OP(MUL), product, 2, 0, 0, HYP_F32));
    add_conv(scaled, PB_NONE, second, 2 * C, C, 1, 3);
    add_conv(second, PB_NONE, y, C, C, 1, 3);
    pair p;
    run(&p, C);
    assert_lies(&p, 0, false, true);
    assert_lies(&p, 2, true, true);
    finish(&p);
}

/* Of one image, channels of which some are read as a window, and the first as they come. */
static void check_sum_of_channels(void)
{
    enum { C = 8 };
    uint32_t x = pb_input(&builder, "x", dtype, 4, shape(C)), y = pb_output(&builder, "y", dtype, 4, shape(C));
    uint32_t all = scratch(0, 2 * C), sum = scratch(1, C), second = channels_of(all, C, C);
    uint32_t *extents = pb_consts(&builder, 1, (int64_t[]){C * PLACES}), *one = pb_consts(&builder, 1, (int64_t[]){1});
    add_conv(x, PB_NONE, all, C, 2 * C, 1, 3);
    HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, extents);
    pb_operand(&builder, s, all, one);
    pb_operand(&builder, s, second, one);
    uint32_t added = pb_instr(&builder, s, OP(ADD), 0, 1, 0, 0, HYP_F32);
    pb_result(&builder, s, sum, pb_instr(&builder, s, OP(TANH), added, 0, 0, 0, HYP_F32));
    add_conv(sum, PB_NONE, y, C, C, 1, 3);
    pair p;
    run(&p, C);
    assert_lies(&p, 0, false, true);
    assert_lies(&p, 2, true, false);
    finish(&p);
}

static void elements_are_paired_as_tensors_lie(void **state)
{
    (void)state;
    for_types_and_images(check_repeated);
    for_types_of_one_image(check_sum_of_channels);
    for_types_of_one_image(check_first_channels);
}

/* A tensor that no convolution has: rows of it are turned and turned back, and its plan's order is the better one. */
static void what_only_copies_have_is_left_alone(void **state)
{
    (void)state;
    enum { C = 8 };
    images = 2;
    dtype = HYP_BF16;
    pb_init(&builder);
    uint32_t x = pb_input(&builder, "x", dtype, 4, shape(C)), y = pb_output(&builder, "y", dtype, 4, shape(C));
    uint32_t first = scratch(0, C), turned = pb_scratch(&builder, dtype, 1, 4, rows(C)), back = scratch(2, C);
    add_conv(x, PB_NONE, first, C, C, 1, 3);
    add_transpose(first, turned, C, false);
    add_transpose(turned, back, C, true);
    add_conv(back, PB_NONE, y, C, C, 1, 3);
    pair p;
    run(&p, C);
    assert_lies(&p, 0, false, true);
    assert_lies(&p, 3, true, false);
    assert_int_equal(launches(&p, 1), 0);
    assert_int_equal(launches(&p, 2), 0);
    finish(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_read_what_convolutions_leave),
        cmocka_unit_test(channels_are_taken_out_and_put_together),
        cmocka_unit_test(windows_of_channels_are_rows_of_their_own),
        cmocka_unit_test(elements_are_paired_as_tensors_lie),
        cmocka_unit_test(what_only_copies_have_is_left_alone),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
