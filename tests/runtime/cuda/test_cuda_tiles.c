/* Convolutions by 3x3 on tiles (ops/conv_tiles.c), which are taken as if tuning had found them to be the fastest,
 * against the reference backend. Needs a GPU, or the emulator: see device_start. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/device_check.h"

static device dev;
static plan_builder builder; /* large */

static const char *const ways[] = {"tiles", "small tiles", "tiles, turned", "small tiles, turned"};
enum { WAYS = sizeof ways / sizeof *ways, MOST_STEPS = 8 };

/* x[images, in, rows, columns], pads before and behind rows and columns. */
typedef struct shape {
    int64_t images, in, out, rows, columns, before[2], after[2];
} shape;

typedef enum place { NOTHING, ADDED, IN_PLACE } place;

static int64_t out_rows(const shape *s) { return s->rows + s->before[0] + s->after[0] - 2; }
static int64_t out_columns(const shape *s) { return s->columns + s->before[1] + s->after[1] - 2; }

static uint32_t *dims_of(int64_t images, int64_t channels, int64_t rows, int64_t columns)
{
    return pb_consts(&builder, 4, (int64_t[]){images, channels, rows, columns});
}

/* y = act(conv(x) + bias + z) by kernel x kernel; bias, z: PB_NONE = none. */
static void add_conv(uint32_t x, uint32_t weight, uint32_t bias, uint32_t z, uint32_t y, const int64_t *pads,
                     const char *act)
{
    HypPlan__Call *call = pb_call(&builder, "conv",
                                  z != PB_NONE      ? 4
                                  : bias != PB_NONE ? 3
                                                    : 2,
                                  (uint32_t[]){x, weight, bias, z}, y);
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_ints(&builder, call, 4, pads);
    pb_call_ints(&builder, call, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, call, 1);
    pb_call_symbol(&builder, call, act);
    if (strcmp(act, "leaky-relu") == 0) pb_call_float(&builder, call, -0.3);
}

static uint32_t weight_of(uint64_t *seed, int64_t out, int64_t in, int64_t kernel)
{
    return random_weight(&builder, seed, HYP_F32, 4, (int64_t[]){out, in, kernel, kernel});
}

/* ---- taking a way ---------------------------------------------------------------------------------------------- */

static bool is_by_three(const char *key) { return strstr(key, " 3 3 strides 1 1 ") != NULL; }

static void must(hyp_status status, const hyp_diag *diag)
{
    if (status != HYP_OK) fail_msg("%s", diag->message);
}

static hyp_status reserve(hyp_engine *engine, hyp_context *context, dims_list dims, hyp_diag *diag)
{
    hyp_tensor inputs[DC_MAX_TENSORS] = {0};
    size_t count = hyp_engine_input_count(engine);
    for (size_t i = 0; i < count; i++) {
        inputs[i].name = hyp_engine_input(engine, i)->name;
        inputs[i].rank = 4;
        memcpy(inputs[i].dims, dims[i], sizeof inputs[i].dims);
    }
    return hyp_context_reserve(context, inputs, count, diag);
}

/* Every convolution by 3x3 is done in this way from now on; how many there are. */
static size_t take(hyp_engine *engine, hyp_context *context, dims_list dims, const char *way)
{
    char keys[MOST_STEPS][1024];
    size_t count = 0, steps = hyp_engine_step_count(engine);
    hyp_diag diag = {0};
    must(reserve(engine, context, dims, &diag), &diag);
    for (size_t s = 0; s < steps; s++) {
        hyp_choice_info info = {.size = sizeof info};
        if (!hyp_context_read_choice(context, s, 0, &info) || !is_by_three(info.key)) continue;
        assert_true(count < MOST_STEPS);
        strcpy(keys[count++], info.key);
    }
    for (size_t i = 0; i < count; i++) {
        const hyp_tuned tuned = {.size = sizeof tuned,
                                 .product = keys[i],
                                 .algorithm = way,
                                 .algorithm_bytes = strlen(way),
                                 .seconds = 1e-6,
                                 .first_seconds = 1e-6};
        must(hyp_context_add_tuned(context, &tuned, &diag), &diag);
    }
    return count;
}

/* Were they, in the shapes that were prepared last? */
static size_t taken(hyp_engine *engine, hyp_context *context, const char *way)
{
    size_t count = 0;
    for (size_t s = 0; s < hyp_engine_step_count(engine); s++) {
        hyp_choice_info info = {.size = sizeof info};
        hyp_alternative_info by = {.size = sizeof by};
        if (!hyp_context_read_choice(context, s, 0, &info) || !is_by_three(info.key)) continue;
        assert_true(hyp_context_read_alternative(context, s, 0, info.taken, &by));
        count += strcmp(by.name, way) == 0;
    }
    return count;
}

static void check_ways(dims_list dims, tolerance want)
{
    pair p;
    pair_open(&dev, &builder, &p);
    for (size_t w = 0; w < WAYS; w++) {
        size_t count = take(p.cuda, p.cuda_context, dims, ways[w]);
        assert_true(count > 0);
        assert_int_equal(take(p.cuda, p.stream_context, dims, ways[w]), count);
        pair_check(&dev, &p, dims, want);
        assert_int_equal(taken(p.cuda, p.cuda_context, ways[w]), count);
        assert_int_equal(taken(p.cuda, p.stream_context, ways[w]), count);
    }
    pair_close(&p);
    pb_dispose(&builder);
}

/* ---- one convolution ----------------------------------------------------------------------------------------- */

static void check_conv(uint64_t *seed, const shape *s, const char *act, bool bias, place added)
{
    const int64_t pads[] = {s->before[0], s->before[1], s->after[0], s->after[1]};
    const int64_t count = s->images * s->out * out_rows(s) * out_columns(s);
    pb_init(&builder);
    uint32_t *y_dims = dims_of(s->images, s->out, out_rows(s), out_columns(s));
    uint32_t x = pb_input(&builder, "x", HYP_F32, 4, dims_of(s->images, s->in, s->rows, s->columns));
    uint32_t z = added ? pb_input(&builder, "z", HYP_F32, 4, y_dims) : PB_NONE;
    uint32_t result = pb_output(&builder, "y", HYP_F32, 4, y_dims), y = result;
    uint32_t weight = weight_of(seed, s->out, s->in, 3);
    uint32_t b = bias ? random_weight(&builder, seed, HYP_F32, 1, &s->out) : PB_NONE;
    if (added == IN_PLACE) {
        uint32_t copied = pb_scratch(&builder, HYP_F32, 0, 4, y_dims);
        pb_copy_all(&builder, z, copied, pb_const(&builder, count));
        z = copied;
        y = pb_scratch(&builder, HYP_F32, 0, 4, y_dims);
    }
    add_conv(x, weight, b, z, y, pads, act);
    if (added == IN_PLACE) pb_copy_all(&builder, y, result, pb_const(&builder, count));
    tolerance want = tolerance_of(HYP_F32, 9 * s->in);
    want.atol *= 2;
    check_ways((dims_list){{s->images, s->in, s->rows, s->columns}, {s->images, s->out, out_rows(s), out_columns(s)}},
               want);
}

static void images_of_any_size_and_padding_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 1;
    static const shape shapes[] = {
        {1, 8, 8, 8, 8, {1, 1}, {1, 1}},    {1, 8, 4, 8, 8, {0, 0}, {0, 0}}, {2, 3, 5, 9, 7, {1, 1}, {1, 1}},
        {3, 4, 4, 1, 1, {1, 1}, {1, 1}},    {2, 5, 3, 3, 3, {0, 0}, {0, 0}}, {1, 16, 12, 13, 3, {2, 0}, {1, 2}},
        {2, 12, 20, 4, 17, {0, 1}, {1, 0}}, {1, 1, 1, 2, 6, {2, 2}, {2, 2}}, {5, 8, 16, 6, 5, {1, 1}, {1, 1}},
        {1, 2, 2, 30, 29, {3, 3}, {3, 3}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_conv(&seed, &shapes[i], i % 2 ? "relu" : "none", i % 3 > 0, NOTHING);
}

static void biases_sums_and_activations_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 2;
    static const shape s = {2, 6, 8, 7, 9, {1, 1}, {1, 1}};
    static const char *const acts[] = {"none", "relu", "relu6", "sigmoid", "tanh", "silu", "hard-swish", "leaky-relu"};
    for (size_t a = 0; a < sizeof acts / sizeof *acts; a++)
        for (int at = NOTHING; at <= (int)IN_PLACE; at++)
            check_conv(&seed, &s, acts[a], (a + (size_t)at) % 2, (place)at);
}

/* Between convolutions images lie with the channels last; what is added to the second comes from the first. */
static void tensors_with_the_channels_last_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 3;
    static const int64_t pads[] = {1, 1, 1, 1}, none[4] = {0};
    for (int sum = 0; sum < 2; sum++) {
        pb_init(&builder);
        uint32_t *few = dims_of(2, 8, 10, 11), *many = dims_of(2, 16, 10, 11);
        uint32_t x = pb_input(&builder, "x", HYP_F32, 4, few), y = pb_output(&builder, "y", HYP_F32, 4, few), t[4];
        for (uint32_t i = 0; i < 4; i++) t[i] = pb_scratch(&builder, HYP_F32, i, 4, i == 3 ? few : many);
        add_conv(x, weight_of(&seed, 16, 8, 1), PB_NONE, PB_NONE, t[0], none, "tanh");
        add_conv(t[0], weight_of(&seed, 16, 16, 3), PB_NONE, PB_NONE, t[1], pads, "sigmoid");
        add_conv(t[1], weight_of(&seed, 16, 16, 3), PB_NONE, sum ? t[0] : PB_NONE, t[2], pads, "relu");
        add_conv(t[2], weight_of(&seed, 8, 16, 3), PB_NONE, PB_NONE, t[3], pads, "tanh");
        add_conv(t[3], weight_of(&seed, 8, 8, 1), PB_NONE, PB_NONE, y, none, "none");
        check_ways((dims_list){{2, 8, 10, 11}}, tolerance_of(HYP_F32, 4000)); /* sums are far from 1 */
    }
}

/* ---- a pool behind a convolution ------------------------------------------------------------------------------- */

static void add_pool(uint32_t x, uint32_t y, int64_t stride, bool ceil)
{
    HypPlan__Call *pool = pb_call(&builder, "max-pool", 1, &x, y);
    pb_call_ints(&builder, pool, 2, (int64_t[]){2, 2});
    pb_call_ints(&builder, pool, 2, (int64_t[]){stride, stride});
    pb_call_ints(&builder, pool, 4, (int64_t[]){0, 0, 0, 0});
    pb_call_ints(&builder, pool, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, pool, ceil);
    pb_call_int(&builder, pool, 0);
}

typedef struct pooled {
    shape conv;
    const char *act;
    bool ceil, added, apart; /* more rows and columns; a sum; somebody else reads the convolution's result, too */
    bool last;               /* convolutions around make their images lie with the channels last */
} pooled;

/* The pool's result is in the slot of what the convolution reads. */
static void build_pooled(uint64_t *seed, const pooled *k)
{
    const shape *s = &k->conv;
    const int64_t rows = out_rows(s), columns = out_columns(s), none[4] = {0};
    const int64_t down = (rows + k->ceil) / 2, across = (columns + k->ceil) / 2;
    const int64_t pads[] = {s->before[0], s->before[1], s->after[0], s->after[1]};
    pb_init(&builder);
    uint32_t *x_dims = dims_of(s->images, s->in, s->rows, s->columns), *y_dims = dims_of(s->images, s->out, rows, columns);
    uint32_t *z_dims = dims_of(s->images, s->out, down, across);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 4, x_dims), z = pb_output(&builder, "z", HYP_F32, 4, z_dims);
    uint32_t t[5] = {pb_scratch(&builder, HYP_F32, 0, 4, x_dims), pb_scratch(&builder, HYP_F32, 1, 4, y_dims),
                     pb_scratch(&builder, HYP_F32, 0, 4, z_dims), PB_NONE, PB_NONE};
    if (k->last)
        add_conv(x, weight_of(seed, s->in, s->in, 1), PB_NONE, PB_NONE, t[0], none, "tanh");
    else
        pb_copy_all(&builder, x, t[0], pb_const(&builder, s->images * s->in * s->rows * s->columns));
    if (k->added) {
        t[3] = pb_scratch(&builder, HYP_F32, 2, 4, y_dims);
        add_conv(t[0], weight_of(seed, s->out, s->in, 3), PB_NONE, PB_NONE, t[3], pads, "none");
    }
    add_conv(t[0], weight_of(seed, s->out, s->in, 3), random_weight(&builder, seed, HYP_F32, 1, &s->out), t[3], t[1], pads,
             k->act);
    add_pool(t[1], t[2], 2, k->ceil);
    if (k->apart)
        pb_copy_all(&builder, t[1], pb_output(&builder, "y", HYP_F32, 4, y_dims),
                    pb_const(&builder, s->images * s->out * rows * columns));
    if (k->last)
        add_conv(t[2], weight_of(seed, s->out, s->out, 1), PB_NONE, PB_NONE, z, none, "none");
    else
        pb_copy_all(&builder, t[2], z, pb_const(&builder, s->images * s->out * down * across));
}

/* How many convolutions are known to be done with the pool behind them. */
static size_t count_pooled(dims_list dims)
{
    pair p;
    hyp_diag diag = {0};
    size_t count = 0;
    pair_open(&dev, &builder, &p);
    must(reserve(p.cuda, p.cuda_context, dims, &diag), &diag);
    for (size_t s = 0; s < hyp_engine_step_count(p.cuda); s++) {
        hyp_choice_info info = {.size = sizeof info};
        count += hyp_context_read_choice(p.cuda_context, s, 0, &info) && strstr(info.key, ", then max-pool") != NULL;
    }
    pair_close(&p);
    return count;
}

static void convolutions_with_the_pool_behind_them_equal_reference(void **state)
{
    (void)state;
    uint64_t seed = 6;
    static const pooled cases[] = {
        {{1, 8, 8, 8, 8, {1, 1}, {1, 1}}, .act = "relu", .last = true},
        {{2, 3, 5, 9, 7, {1, 1}, {1, 1}}, .act = "none"},
        {{2, 4, 8, 7, 9, {1, 1}, {1, 1}}, .act = "relu", .ceil = true, .last = true},
        {{1, 4, 4, 6, 11, {0, 1}, {1, 0}}, .act = "tanh", .ceil = true},
        {{1, 5, 4, 3, 3, {1, 1}, {1, 1}}, .act = "relu6"},
        {{3, 4, 4, 13, 5, {2, 0}, {1, 2}}, .act = "silu", .added = true, .last = true},
        {{1, 4, 8, 10, 10, {1, 1}, {1, 1}}, .act = "none", .added = true, .ceil = true},
        {{1, 8, 8, 8, 8, {1, 1}, {1, 1}}, .act = "relu", .apart = true, .last = true},
        {{1, 8, 8, 8, 8, {1, 1}, {1, 1}}, .act = "leaky-relu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const shape *s = &cases[i].conv;
        const int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{s->images, s->in, s->rows, s->columns}};
        tolerance want = tolerance_of(HYP_F32, 9 * s->in * 16);
        build_pooled(&seed, &cases[i]);
        assert_int_equal(count_pooled(dims), !cases[i].apart && strcmp(cases[i].act, "leaky-relu") != 0);
        check_ways(dims, want);
    }
}

/* Products are tuned within the ways that have them, which write what the pool does. */
static void ways_with_the_pool_behind_them_are_tuned(void **state)
{
    (void)state;
    uint64_t seed = 7;
    static const pooled k = {{1, 8, 8, 8, 8, {1, 1}, {1, 1}}, .act = "relu", .last = true};
    const int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{1, 8, 8, 8}};
    const hyp_tune_options briefly = {.size = sizeof briefly, .seconds = 0.5};
    hyp_tensor x = {.name = "x", .rank = 4, .dims = {1, 8, 8, 8}};
    hyp_diag diag = {0};
    pair p;
    build_pooled(&seed, &k);
    pair_open(&dev, &builder, &p);
    must(hyp_context_tune(p.cuda_context, &x, 1, &briefly, NULL, &diag), &diag);
    pair_check(&dev, &p, dims, tolerance_of(HYP_F32, 9 * 8 * 16));
    pair_close(&p);
    pb_dispose(&builder);
}

/* ---- numbers of any size ------------------------------------------------------------------------------------- */

enum { SIDE = 12, CHANNELS = 4, COUNT = CHANNELS * SIDE * SIDE };

/* Runs what is in the builder with these numbers on both devices, in both ways. A result is as exact as others where
 * only numbers of its size are added up. */
static void check_numbers(const float *x)
{
    const int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{1, CHANNELS, SIDE, SIDE}};
    float want[COUNT], got[COUNT];
    hyp_tensor in = {.name = "x", .data = (void *)(uintptr_t)x, .bytes = sizeof want, .dtype = HYP_F32, .rank = 4},
               out = in;
    hyp_diag diag = {0};
    pair p;
    memcpy(in.dims, dims[0], sizeof in.dims);
    memcpy(out.dims, dims[0], sizeof out.dims);
    out.name = "y";
    out.data = want;
    pair_open(&dev, &builder, &p);
    must(hyp_context_run(p.reference_context, &in, 1, &out, 1, &diag), &diag);
    for (size_t w = 0; w < WAYS; w++) {
        assert_int_equal(take(p.cuda, p.cuda_context, dims, ways[w]), 1);
        out.data = got;
        must(hyp_context_run(p.cuda_context, &in, 1, &out, 1, &diag), &diag);
        assert_int_equal(taken(p.cuda, p.cuda_context, ways[w]), 1);
        for (size_t i = 0; i < COUNT; i++) {
            double a = (double)got[i], b = (double)want[i];
            bool same = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 2e-5 + 1e-5 * fabs(b);
            if (!same) fail_msg("%s: element %zu is %.9g, the reference has %.9g", ways[w], i, a, b);
        }
    }
    pair_close(&p);
    pb_dispose(&builder);
}

/* A convolution of CHANNELS to CHANNELS, one weight of which is this. */
static void build_with(uint64_t *seed, float weight)
{
    float w[CHANNELS * CHANNELS * 9];
    const int64_t dims[] = {CHANNELS, CHANNELS, 3, 3}, pads[] = {1, 1, 1, 1};
    random_fill(seed, HYP_F32, w, sizeof w / sizeof *w);
    w[40] = weight;
    pb_init(&builder);
    uint32_t *image = dims_of(1, CHANNELS, SIDE, SIDE);
    uint32_t x = pb_input(&builder, "x", HYP_F32, 4, image), y = pb_output(&builder, "y", HYP_F32, 4, image);
    add_conv(x, pb_weight(&builder, HYP_F32, 4, dims, w), PB_NONE, PB_NONE, y, pads, "none");
}

/* One in a tile would be in all results of the tile. */
static void infinities_nan_and_large_numbers_reach_the_results_that_read_them_alone(void **state)
{
    (void)state;
    uint64_t seed = 4;
    static const float odd[] = {INFINITY, -INFINITY, NAN, 1e30f, -3e38f, 1e16f};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        float x[COUNT];
        random_fill(&seed, HYP_F32, x, COUNT);
        x[5 * SIDE + 6] = odd[i];
        build_with(&seed, 0.5f);
        check_numbers(x);
        build_with(&seed, odd[i]);
        x[5 * SIDE + 6] = 0.25f;
        check_numbers(x);
    }
}

/* ---- weights ------------------------------------------------------------------------------------------------- */

static void build_small(uint64_t *seed) { build_with(seed, 0.5f); }

static void made_weights_are_the_engines_and_go_with_the_last_that_reads_them(void **state)
{
    (void)state;
    uint64_t seed = 5;
    const int64_t dims[DC_MAX_TENSORS][HYP_MAX_RANK] = {{1, CHANNELS, SIDE, SIDE}};
    const size_t made = 36 * CHANNELS * CHANNELS * sizeof(float);
    hyp_diag diag = {0};
    pair p;
    build_small(&seed);
    pair_open(&dev, &builder, &p);
    for (int i = 0; i < 2; i++) assert_int_equal(take(p.cuda, i ? p.stream_context : p.cuda_context, dims, ways[0]), 1);
    size_t before = hyp_engine_memory_bytes(p.cuda);
    must(reserve(p.cuda, p.cuda_context, dims, &diag), &diag);
    size_t one = hyp_engine_memory_bytes(p.cuda);
    assert_true(one >= before + made);
    must(reserve(p.cuda, p.stream_context, dims, &diag), &diag);
    assert_int_equal(hyp_engine_memory_bytes(p.cuda), one);
    hyp_context_destroy(p.cuda_context);
    assert_int_equal(hyp_engine_memory_bytes(p.cuda), one);
    hyp_context_destroy(p.stream_context);
    assert_true(hyp_engine_memory_bytes(p.cuda) <= one - made);
    p.cuda_context = p.stream_context = NULL;
    pair_close(&p);
    pb_dispose(&builder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_any_size_and_padding_equal_reference),
        cmocka_unit_test(biases_sums_and_activations_equal_reference),
        cmocka_unit_test(tensors_with_the_channels_last_equal_reference),
        cmocka_unit_test(convolutions_with_the_pool_behind_them_equal_reference),
        cmocka_unit_test(ways_with_the_pool_behind_them_are_tuned),
        cmocka_unit_test(infinities_nan_and_large_numbers_reach_the_results_that_read_them_alone),
        cmocka_unit_test(made_weights_are_the_engines_and_go_with_the_last_that_reads_them),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
