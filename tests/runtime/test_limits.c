/* What a caller allows an engine and a context to take, and plans that claim more than they have. What has to be
 * counted is known from the sizes of tensors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "runtime/networks.h"
#include "support/seal_plan.h"

enum { WIDE = 512, DEEP = 256, PACKED = WIDE * DEEP * (int)sizeof(float) };

static plan_builder b;

/* One layer of DEEP to WIDE features, of any number of rows. */
static void make_layer(hyp_dtype dtype)
{
    static char data[PACKED];
    pb_init(&b);
    uint32_t rows = pb_symbol(&b, "rows");
    uint32_t x = pb_input(&b, "x", dtype, 2, (uint32_t[]){rows, pb_const(&b, DEEP)});
    uint32_t y = pb_output(&b, "y", dtype, 2, (uint32_t[]){rows, pb_const(&b, WIDE)});
    uint32_t w = pb_weight(&b, dtype, 2, (int64_t[]){WIDE, DEEP}, data);
    pb_layer(&b, pb_linear(&b, x, y, rows), WIDE, DEEP, w, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
}

static hyp_status load(const char *path, hyp_device_kind device, uint64_t limit, hyp_engine **out, hyp_diag *diag)
{
    hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1, .memory_limit = limit};
    *out = NULL;
    return hyp_engine_load_file(path, &options, out, diag);
}

/* Some five hundred bytes that claim a gigabyte. */
static void a_weight_smaller_than_its_layer_is_refused(void **state)
{
    size_t size;
    pb_init(&b);
    uint32_t rows = pb_symbol(&b, "rows");
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, (uint32_t[]){rows, pb_const(&b, 4096)});
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){rows, pb_const(&b, 65536)});
    uint32_t w = pb_weight(&b, HYP_F32, 2, (int64_t[]){1, 1}, (float[]){1});
    pb_layer(&b, pb_linear(&b, x, y, rows), 65536, 4096, w, PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    hyp_plan_place_weights(&b.program);
    uint8_t *bytes = seal_plan(&b.program, (const uint8_t *)"\0\0\200?", sizeof(float), &size);
    assert_non_null(bytes);
    assert_true(size < 1024);
    for (size_t d = 0; d < 2; d++) {
        hyp_engine *engine = NULL;
        hyp_diag why = {0};
        hyp_engine_options options = {.size = sizeof options, .device = host_devices[d]};
        assert_int_equal(hyp_engine_load_memory(bytes, size, &options, &engine, &why), HYP_ERR_MALFORMED);
        assert_null(engine);
        if (!strstr(why.message, "the weight has 1 elements, the step wants 268435456")) fail_msg("%s", why.message);
    }
    hyp_free(bytes);
    pb_dispose(&b);
    (void)state;
}

/* The reference backend multiplies by weights where they lie; the CPU packs them, as floats. */
static void packed_weights_count(void **state)
{
    static const hyp_dtype types[] = {HYP_F32, HYP_BF16, HYP_F16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        char path[PB_PATH];
        hyp_engine *engine;
        hyp_diag why = {0};
        make_layer(types[t]);
        pb_write(&b, path);
        assert_ok(load(path, HYP_DEVICE_CPU, 0, &engine, diag));
        size_t all = hyp_engine_memory_bytes(engine);
        hyp_engine_destroy(engine);
        /* A library may take weights of 16 bits as they are. */
        if (types[t] == HYP_F32 || all > PACKED) assert_in_range(all, PACKED, 2 * PACKED);
        assert_ok(load(path, HYP_DEVICE_CPU, 4 * all, &engine, diag));
        hyp_engine_destroy(engine);
        assert_int_equal(load(path, HYP_DEVICE_CPU, all / 2, &engine, &why), HYP_ERR_LIMIT);
        assert_non_null(strstr(why.message, "the engine's options->memory_limit is"));
        assert_null(engine);
        assert_ok(load(path, HYP_DEVICE_REFERENCE, PACKED / 2, &engine, diag));
        assert_true(hyp_engine_memory_bytes(engine) < PACKED / 2);
        hyp_engine_destroy(engine);
        pb_remove(&b, path);
    }
    (void)state;
}

enum { STATE = 256, TIMES = 3, ROWS = 2 };

/* Weights of a recurrence are packed when shapes are known first, for all contexts. */
static void what_is_packed_later_counts_to_the_engine(void **state)
{
    static float r[STATE * STATE];
    const size_t packed = sizeof r;
    char path[PB_PATH];
    pb_init(&b);
    uint32_t rows = pb_symbol(&b, "rows"), size = pb_const(&b, STATE), times = pb_const(&b, TIMES);
    uint32_t x = pb_input(&b, "x", HYP_F32, 3, (uint32_t[]){times, rows, size});
    uint32_t in[] = {x, pb_weight(&b, HYP_F32, 2, (int64_t[]){STATE, STATE}, r)};
    uint32_t y = pb_output(&b, "y", HYP_F32, 3, (uint32_t[]){times, rows, size});
    HypPlan__Call *call = pb_call(&b, "rnn", 2, in, y);
    pb_call_output(call, pb_output(&b, "h", HYP_F32, 2, (uint32_t[]){rows, size}));
    pb_call_int(&b, call, 0);
    pb_call_float(&b, call, 0);
    pb_call_symbol(&b, call, "tanh");
    pb_write(&b, path);
    hyp_tensor input = tensor_of("x", HYP_F32, NULL, 3, (int64_t[]){TIMES, ROWS, STATE});
    hyp_engine *engine;
    hyp_context *c;
    hyp_diag why = {0};
    assert_ok(load(path, HYP_DEVICE_CPU, 0, &engine, diag));
    size_t before = hyp_engine_memory_bytes(engine);
    for (int i = 0; i < 2; i++) { /* the second finds them packed */
        assert_ok(hyp_context_create(engine, NULL, &c, diag));
        assert_ok(hyp_context_reserve(c, &input, 1, diag));
        assert_in_range(hyp_engine_memory_bytes(engine), before + packed, before + 2 * packed);
        hyp_context_destroy(c);
    }
    hyp_engine_destroy(engine);

    hyp_context_options plenty = {.size = sizeof plenty, .memory_limit = 1 << 30};
    assert_ok(load(path, HYP_DEVICE_CPU, before + packed / 2, &engine, diag));
    assert_ok(hyp_context_create(engine, &plenty, &c, diag));
    before = hyp_context_memory_bytes(c);
    assert_int_equal(hyp_context_reserve(c, &input, 1, &why), HYP_ERR_LIMIT);
    assert_non_null(strstr(why.message, "the engine's options->memory_limit is"));
    assert_int_equal(hyp_context_memory_bytes(c), before);
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
    pb_remove(&b, path);
    (void)state;
}

/* Three blocks of scratch memory of one size: where two of them would fit, none is taken. */
static void refused_shapes_leave_nothing(void **state)
{
    enum { SLOTS = 3, FEW = 2, MANY = 1 << 14, COLUMNS = 64, BLOCK = MANY * COLUMNS * (int)sizeof(float) };
    char path[PB_PATH];
    pb_init(&b);
    uint32_t dims[] = {pb_symbol(&b, "rows"), pb_const(&b, COLUMNS)};
    uint32_t all = pb_dim(&b, HYP_PLAN__DIM__KIND__MUL, dims[0], dims[1]);
    uint32_t at = pb_input(&b, "x", HYP_F32, 2, dims);
    for (uint32_t s = 0; s < SLOTS; s++) {
        uint32_t next = pb_scratch(&b, HYP_F32, s, 2, dims);
        pb_copy_all(&b, at, next, all);
        at = next;
    }
    pb_copy_all(&b, at, pb_output(&b, "y", HYP_F32, 2, dims), all);
    pb_write(&b, path);
    float x[FEW * COLUMNS], y[FEW * COLUMNS];
    for (size_t i = 0; i < FEW * COLUMNS; i++) x[i] = (float)i;
    hyp_tensor in = tensor_of("x", HYP_F32, x, 2, (int64_t[]){FEW, COLUMNS}), large = in;
    hyp_tensor out = tensor_of("y", HYP_F32, y, 2, (int64_t[]){FEW, COLUMNS});
    large.dims[0] = MANY;
    for (size_t d = 0; d < 2; d++) {
        hyp_engine *engine;
        hyp_context *c;
        hyp_diag why = {0};
        hyp_context_options options = {.size = sizeof options};
        assert_ok(load(path, host_devices[d], 0, &engine, diag));
        for (int fits = 0; fits < 2; fits++) {
            options.memory_limit = (uint64_t)BLOCK * 5 / 2 + (uint64_t)fits * BLOCK;
            assert_ok(hyp_context_create(engine, &options, &c, diag));
            for (int had = 0; had < 2; had++) { /* shapes before */
                size_t bytes = hyp_context_memory_bytes(c), scratch = hyp_context_scratch_bytes(c);
                if (fits) break;
                assert_int_equal(hyp_context_reserve(c, &large, 1, &why), HYP_ERR_LIMIT);
                assert_non_null(strstr(why.message, "the context's options->memory_limit is"));
                assert_int_equal(hyp_context_memory_bytes(c), bytes);
                assert_int_equal(hyp_context_scratch_bytes(c), scratch);
                assert_true(had ? scratch >= SLOTS * sizeof x : scratch == 0);
                assert_ok(hyp_context_run(c, &in, 1, &out, 1, diag));
                assert_memory_equal(x, y, sizeof x);
            }
            if (fits) {
                assert_ok(hyp_context_reserve(c, &large, 1, diag));
                assert_in_range(hyp_context_memory_bytes(c), SLOTS * BLOCK, options.memory_limit);
            }
            hyp_context_destroy(c);
        }
        hyp_engine_destroy(engine);
    }
    pb_remove(&b, path);
    (void)state;
}

/* One sample is asked for in each bin, or 100 by 100. */
static void samples_count_as_work(void **state)
{
    enum { CHANNELS = 3, SIDE = 8, BINS = 2, REGIONS = 5, RATIO = 100, RESULTS = REGIONS * CHANNELS * BINS * BINS };
    static const float regions[4 * REGIONS];
    static const int64_t images[REGIONS];
    for (int many = 0; many < 2; many++) {
        hyp_step_work_info work = {.size = sizeof work};
        hyp_diag why = {0};
        hyp_context *c;
        pb_init(&b);
        uint32_t x = pb_input(&b, "x", HYP_F32, 4, pb_consts(&b, 4, (int64_t[]){1, CHANNELS, SIDE, SIDE}));
        uint32_t in[] = {x, pb_weight(&b, HYP_F32, 2, (int64_t[]){REGIONS, 4}, regions),
                         pb_weight(&b, HYP_I64, 1, (int64_t[]){REGIONS}, images)};
        uint32_t y = pb_output(&b, "y", HYP_F32, 4, pb_consts(&b, 4, (int64_t[]){REGIONS, CHANNELS, BINS, BINS}));
        HypPlan__Call *call = pb_call(&b, "roi-align", 3, in, y);
        pb_call_symbol(&b, call, "avg");
        pb_call_symbol(&b, call, "half_pixel");
        pb_call_ints(&b, call, 2, (int64_t[]){BINS, BINS});
        pb_call_int(&b, call, many ? RATIO : 1);
        pb_call_float(&b, call, 1);
        hyp_engine *engine = pb_load(&b, HYP_DEVICE_CPU);
        hyp_tensor input = tensor_of("x", HYP_F32, NULL, 4, (int64_t[]){1, CHANNELS, SIDE, SIDE});
        assert_ok(hyp_context_create(engine, NULL, &c, diag));
        assert_ok(hyp_context_reserve(c, &input, 1, diag));
        assert_ok(hyp_context_step_work(c, 0, &work, diag));
        double samples = RESULTS * (many ? (double)RATIO * RATIO : 1);
        assert_true(work.operations >= 4 * samples && work.operations <= 16 * samples);
        hyp_context_destroy(c);
        hyp_context_options options = {.size = sizeof options, .work_limit = 40.0 * RESULTS + work.bytes};
        assert_ok(hyp_context_create(engine, &options, &c, diag));
        assert_int_equal(hyp_context_reserve(c, &input, 1, &why), many ? HYP_ERR_LIMIT : HYP_OK);
        hyp_context_destroy(c);
        hyp_engine_destroy(engine);
        pb_dispose(&b);
    }
    (void)state;
}

static hyp_array array(size_t rank, const int64_t *dims)
{
    hyp_array a = {.dtype = HYP_F32, .stored = HYP_F32, .rank = (int32_t)rank, .count = 1};
    for (size_t i = 0; i < rank; i++) a.dims[i] = dims[i];
    return a;
}
#define ARRAY(...) array(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})
#define INTS(...)                                                                                                      \
    {                                                                                                                  \
        .kind = HYP_KERNEL_INTS, .count = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                          \
        .ints = (const int64_t[])                                                                                      \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define INT(v)                                                                                                         \
    {                                                                                                                  \
        .kind = HYP_KERNEL_INT, .i = (v)                                                                               \
    }
#define SYM(v)                                                                                                         \
    {                                                                                                                  \
        .kind = HYP_KERNEL_SYM, .sym = (v)                                                                             \
    }

/* What the loops of a kernel do, counted by hand, and at most so many times as much. */
static void kernels_say_what_they_do(void **state)
{
    enum { MARGIN = 8 };
    const int64_t huge = (int64_t)1 << 60;
    const struct {
        const char *kernel;
        hyp_array in[3], out[2];
        uint32_t in_count, out_count;
        hyp_kernel_attr attrs[8];
        double least;
    } rows[] = {
        {"cumsum", {ARRAY(5, 7)}, {ARRAY(5, 7)}, 1, 1, {INT(0), INT(0), INT(0)}, 35},
        {"max-pool", {ARRAY(1, 2, 9, 9)}, {ARRAY(1, 2, 3, 3)}, 1, 1, {INTS(7, 7)}, 18 * 49},
        {"conv", {ARRAY(1, 4, 9, 9), ARRAY(6, 4, 3, 3)}, {ARRAY(1, 6, 7, 7)}, 2, 1, {INTS(1, 1)}, 2 * 6 * 49 * 36},
        {"conv-transpose",
         {ARRAY(1, 4, 9, 9), ARRAY(4, 6, 3, 3)},
         {ARRAY(1, 6, 11, 11)},
         2,
         1,
         {INTS(1, 1)},
         2 * 324 * 54},
        {"conv-backward-weights",
         {ARRAY(2, 4, 9, 9), ARRAY(2, 6, 7, 7)},
         {ARRAY(6, 4, 3, 3)},
         2,
         1,
         {INTS(1, 1)},
         2 * 588 * 36},
        {"lstm", {ARRAY(10, 3, 20), ARRAY(5, 20)}, {ARRAY(10, 3, 5)}, 2, 1, {INT(0)}, 2 * 30 * 100},
        {"lrn", {ARRAY(1, 64, 4)}, {ARRAY(1, 64, 4)}, 1, 1, {INT(31)}, 256 * 31},
        {"topk", {ARRAY(4, 1024)}, {ARRAY(4, 64), ARRAY(4, 64)}, 1, 2, {INT(1), INTS(64), INT(1)}, 4 * 1024 * 6},
        {"scatter-nd", {ARRAY(9), ARRAY(100, 1), ARRAY(100)}, {ARRAY(9)}, 3, 1, {SYM("add")}, 200},
        {"gather-nd", {ARRAY(9, 8), ARRAY(50, 2)}, {ARRAY(50)}, 2, 1, {INT(0)}, 100},
        {"resize",
         {ARRAY(6, 6)},
         {ARRAY(60, 60)},
         1,
         1,
         {INTS(60, 60), SYM("cubic"), SYM("half_pixel"), SYM("floor"), {.kind = HYP_KERNEL_FLOAT}, INT(0), INT(0)},
         360 * 4 + 3600 * 4},
        {"grid-sample",
         {ARRAY(1, 3, 9, 9), ARRAY(1, 5, 5, 2)},
         {ARRAY(1, 3, 5, 5)},
         2,
         1,
         {SYM("cubic"), SYM("zeros"), INT(0)},
         75 * 16},
        {"layer-norm", {ARRAY(8, 32)}, {ARRAY(8, 32)}, 1, 1, {INT(1)}, 3 * 256},
        {"reduce-max", {ARRAY(8, 32)}, {ARRAY(8)}, 1, 1, {INTS(1), INT(0)}, 256},
        {"max-pool", {ARRAY(1, 1, huge)}, {ARRAY(1, 1, huge)}, 1, 1, {INTS(huge, huge, huge)}, 0x1p240},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const hyp_kernel *kernel = hyp_kernel_find(rows[i].kernel);
        hyp_array out[2] = {rows[i].out[0], rows[i].out[1]};
        hyp_kernel_call call = {.op = rows[i].kernel,
                                .in = rows[i].in,
                                .in_count = rows[i].in_count,
                                .out = out,
                                .out_count = rows[i].out_count,
                                .attrs = rows[i].attrs};
        assert_non_null(kernel);
        double work = kernel->work(&call);
        if (!(work >= rows[i].least && work <= MARGIN * rows[i].least))
            fail_msg("%s: %g operations, wanted %g to %g", rows[i].kernel, work, rows[i].least, MARGIN * rows[i].least);
    }
    (void)state;
}

static void check_needs(hyp_device_kind device, bool library)
{
    enum { SLACK = 4096, IN = 20 }; /* the system rounds up what is noted of a step */
    static const int64_t batches[] = {3, 64, 7, 500};
    char path[PB_PATH];
    hyp_engine *engine;
    hyp_context *c;
    size_t bound, again;
    const hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    build_network(&b, 500, library);
    pb_write(&b, path);
    if (device == HYP_DEVICE_CUDA && hyp_engine_load_file(path, &options, &engine, NULL) != HYP_OK) {
        print_message("skipped: there is no CUDA device\n");
        pb_remove(&b, path);
        return;
    }
    if (device == HYP_DEVICE_CUDA) hyp_engine_destroy(engine);
    assert_ok(hyp_plan_memory_needed(path, &options, &bound, diag));
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    assert_in_range(hyp_engine_memory_bytes(engine), bound / 8, bound);
    assert_ok(hyp_context_create(engine, NULL, &c, diag));
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        hyp_tensor x = tensor_of("x", HYP_F32, NULL, 2, (int64_t[]){batches[i], IN});
        size_t before = hyp_context_memory_bytes(c), scratch = hyp_context_scratch_bytes(c), needed = 0;
        assert_ok(hyp_context_memory_needed(c, &x, 1, &needed, diag));
        assert_int_equal(hyp_context_scratch_bytes(c), scratch);
        assert_in_range(hyp_context_memory_bytes(c), before - SLACK, before + SLACK);
        assert_ok(hyp_context_reserve(c, &x, 1, diag));
        assert_in_range(hyp_context_memory_bytes(c), needed - SLACK, needed + SLACK);
        assert_ok(hyp_context_memory_needed(c, &x, 1, &again, diag)); /* it is there */
        assert_int_equal(again, hyp_context_memory_bytes(c));
    }
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
    pb_remove(&b, path);
}

/* Asking takes nothing, and the answer is what is there afterwards. */
static void needs_are_known_before(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        check_needs(host_devices[d], false);
        check_needs(host_devices[d], true);
    }
    check_needs(HYP_DEVICE_CUDA, true);
    size_t bytes = 0;
    hyp_diag why = {0};
    assert_int_equal(hyp_plan_memory_needed("/nowhere/plan.bin", NULL, &bytes, &why), HYP_ERR_IO);
    assert_int_equal(hyp_context_memory_needed(NULL, NULL, 0, &bytes, &why), HYP_ERR_INVALID_ARGUMENT);
}

/* What no memory could hold is asked for in vain, and a limit does not keep anybody from asking. */
static void needs_may_be_beyond_limits(void **state)
{
    (void)state;
    char path[PB_PATH];
    hyp_engine *engine;
    hyp_context *c;
    size_t needed = 0;
    hyp_diag why = {0};
    const hyp_context_options few = {.size = sizeof few, .memory_limit = 1 << 20};
    build_network(&b, 500, false);
    pb_write(&b, path);
    assert_ok(load(path, HYP_DEVICE_REFERENCE, 0, &engine, diag));
    assert_ok(hyp_context_create(engine, &few, &c, diag));
    hyp_tensor x = tensor_of("x", HYP_F32, NULL, 2, (int64_t[]){1 << 20, 20});
    assert_ok(hyp_context_memory_needed(c, &x, 1, &needed, diag));
    assert_in_range(needed, (size_t)510 << 22, ((size_t)510 << 22) + (1 << 18));
    assert_int_equal(hyp_context_reserve(c, &x, 1, &why), HYP_ERR_LIMIT);
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
    pb_remove(&b, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_weight_smaller_than_its_layer_is_refused),
        cmocka_unit_test(packed_weights_count),
        cmocka_unit_test(what_is_packed_later_counts_to_the_engine),
        cmocka_unit_test(refused_shapes_leave_nothing),
        cmocka_unit_test(samples_count_as_work),
        cmocka_unit_test(kernels_say_what_they_do),
        cmocka_unit_test(needs_are_known_before),
        cmocka_unit_test(needs_may_be_beyond_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
