/* Steps side by side, on a GPU or the emulator: graphs of random plans, whose values share few slots, give bit for bit
 * what the same steps give one after the other, and a graph has as many streams as is wanted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/device_check.h"
#include "runtime/cuda/emulator_tells.h"

enum { ROWS = 20, WIDTH = 32, SLOTS = 7, OUTPUTS = 4, MOST_BYTES = ROWS * WIDTH * 4 };

static device dev;
static plan_builder builder; /* large */
static uint64_t seed;
static hyp_dtype dtype;
static uint32_t input, held[SLOTS]; /* by slot: the tensor that is there, PB_NONE for none */
static bool says_nothing_of_streams;

static uint32_t *shape(void) { return pb_consts(&builder, 2, (int64_t[]){ROWS, WIDTH}); }

static uint32_t any_value(void)
{
    int64_t slot = random_between(&seed, -1, SLOTS - 1);
    return slot < 0 || held[slot] == PB_NONE ? input : held[slot];
}

/* A plan that says what it costs to go on on another stream; its steps take nothing from each other. */
static void begin_plan(void)
{
    pb_init(&builder);
    builder.program.hop_seconds = says_nothing_of_streams ? 0 : 0.7e-6;
}

/* A result in a slot that no operand is in. */
static uint32_t new_value(uint32_t a, uint32_t b)
{
    for (;;) {
        uint32_t slot = (uint32_t)random_between(&seed, 0, SLOTS - 1);
        if (held[slot] != PB_NONE && (held[slot] == a || held[slot] == b)) continue;
        return held[slot] = pb_scratch(&builder, dtype, slot, 2, shape());
    }
}

static void add_sum(uint32_t a, uint32_t b, uint32_t y)
{
    uint32_t *one = pb_consts(&builder, 1, (int64_t[]){1});
    HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, pb_consts(&builder, 1, (int64_t[]){ROWS * WIDTH}));
    pb_operand(&builder, s, a, one);
    pb_operand(&builder, s, b, one);
    uint32_t sum = pb_instr(&builder, s, OP(ADD), 0, 1, 0, 0, HYP_F32);
    pb_result(&builder, s, y, pb_instr(&builder, s, OP(TANH), sum, 0, 0, 0, HYP_F32));
}

static void add_layer(uint32_t x, uint32_t y)
{
    uint32_t weight = random_weight(&builder, &seed, dtype, 2, (int64_t[]){WIDTH, WIDTH});
    uint32_t bias = random_weight(&builder, &seed, dtype, 1, (int64_t[]){WIDTH});
    HypPlan__Linear *linear = pb_linear(&builder, x, y, pb_const(&builder, ROWS));
    pb_layer(&builder, linear, WIDTH, WIDTH, weight, bias, ACT(TANH), PB_NONE);
}

static void add_softmax(uint32_t x, uint32_t y)
{
    HypPlan__Softmax *softmax = pb_softmax(&builder);
    softmax->x = x;
    softmax->y = y;
    softmax->outer = pb_const(&builder, ROWS);
    softmax->axis = pb_const(&builder, WIDTH);
    softmax->inner = pb_const(&builder, 1);
}

/* 3x3 */
static void add_wider_conv(uint32_t x, uint32_t y, int64_t channels, int64_t filters)
{
    uint32_t weight = random_weight(&builder, &seed, dtype, 4, (int64_t[]){filters, channels, 3, 3});
    HypPlan__Call *conv = pb_call(&builder, "conv", 4, (uint32_t[]){x, weight, PB_NONE, PB_NONE}, y);
    pb_call_ints(&builder, conv, 2, (int64_t[]){1, 1});
    pb_call_ints(&builder, conv, 4, (int64_t[]){1, 1, 1, 1});
    pb_call_ints(&builder, conv, 2, (int64_t[]){1, 1});
    pb_call_int(&builder, conv, 1);
    pb_call_symbol(&builder, conv, "tanh");
}

static void add_conv(uint32_t x, uint32_t y, int64_t channels) { add_wider_conv(x, y, channels, channels); }

static void add_random_step(void)
{
    uint32_t a = any_value(), b = any_value();
    switch (random_between(&seed, 0, 3)) {
    case 0: add_layer(a, new_value(a, a)); break;
    case 1: add_softmax(a, new_value(a, a)); break;
    default: add_sum(a, b, new_value(a, b));
    }
}

static void build(uint64_t which, int steps)
{
    seed = which;
    begin_plan();
    input = pb_input(&builder, "x", dtype, 2, shape());
    for (int i = 0; i < SLOTS; i++) held[i] = PB_NONE;
    for (int i = 0; i < steps; i++) add_random_step();
    for (int i = 0; i < OUTPUTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "y%d", i);
        uint32_t y = pb_output(&builder, hyp_arena_strdup(&builder.arena, name), dtype, 2, shape());
        uint32_t x = held[i] == PB_NONE ? input : held[i];
        add_sum(x, x, y);
    }
}

/* Runs with x and notes the outputs of each run. */
static void run_on(hyp_engine *engine, const char *streams, void *x, const int64_t *dims, int32_t rank, int runs,
                   uint8_t (*y)[OUTPUTS][MOST_BYTES])
{
    hyp_diag diag = {0};
    hyp_context *context;
    size_t count = 1;
    for (int32_t a = 0; a < rank; a++) count *= (size_t)dims[a];
    setenv("HYPATIA_CUDA_STREAMS", streams, 1);
    if (hyp_context_create(engine, NULL, &context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    unsetenv("HYPATIA_CUDA_STREAMS");
    for (int run = 0; run < runs; run++) {
        hyp_tensor in = {.data = x, .bytes = count * hyp_dtype_size(dtype), .dtype = dtype, .rank = rank}, out[OUTPUTS];
        memcpy(in.dims, dims, (size_t)rank * sizeof *dims);
        for (int i = 0; i < OUTPUTS; i++) {
            out[i] = in;
            out[i].data = y[run][i];
            memset(y[run][i], 0xff, in.bytes);
        }
        if (hyp_context_run(context, &in, 1, out, OUTPUTS, &diag) != HYP_OK) fail_msg("%s", diag.message);
    }
    hyp_context_destroy(context);
}

/* The first run is step by step, the others are replayed from a graph, the emulator's in several orders. */
static void check_runs(const char *streams, const int64_t *dims, int32_t rank)
{
    enum { RUNS = 7 };
    static uint8_t x[MOST_BYTES], truth[1][OUTPUTS][MOST_BYTES], y[RUNS][OUTPUTS][MOST_BYTES];
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    size_t count = 1;
    for (int32_t a = 0; a < rank; a++) count *= (size_t)dims[a];
    assert_true(count * hyp_dtype_size(dtype) <= MOST_BYTES);
    random_fill(&seed, dtype, x, count);
    run_on(engine, "1", x, dims, rank, 1, truth);
    run_on(engine, streams, x, dims, rank, RUNS, y);
    for (int run = 0; run < RUNS; run++)
        for (int i = 0; i < OUTPUTS; i++)
            if (memcmp(y[run][i], truth[0][i], count * hyp_dtype_size(dtype)) != 0)
                fail_msg("output %d of run %d on %s streams is another than on one", i, run, streams);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

static void graphs_do_what_steps_do_one_by_one(void **unused)
{
    (void)unused;
    static const hyp_dtype types[] = {HYP_F32, HYP_BF16};
    for (uint64_t which = 1; which <= 40; which++) {
        const char streams[] = {(char)('1' + which % 8), 0};
        dtype = types[which / 4 % 2];
        build(which, 10 + (int)which);
        check_runs(streams, (int64_t[]){ROWS, WIDTH}, 2);
    }
}

/* ---- graphs of the caller's --------------------------------------------------------------------------------------- */

#define MUST(call) assert_int_equal((call), CUDA_SUCCESS)

/* Two runs in one graph on a stream that is captured; without `out` the capture goes on. */
static void run_captured(hyp_context *context, CUstream stream, CUdeviceptr x, CUdeviceptr y, CUgraph *out)
{
    hyp_diag diag = {0};
    const size_t bytes = ROWS * WIDTH * hyp_dtype_size(dtype);
    MUST(dev.lib.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (size_t run = 0; run < 2; run++) {
        hyp_run_options options = {.size = sizeof options, .stream = stream};
        hyp_tensor in = {.data = (void *)(uintptr_t)x, .bytes = bytes, .dtype = dtype, .memory = HYP_MEMORY_CUDA,
                         .rank = 2, .dims = {ROWS, WIDTH}}, list[OUTPUTS];
        for (size_t i = 0; i < OUTPUTS; i++) {
            list[i] = in;
            list[i].data = (void *)(uintptr_t)(y + (run * OUTPUTS + i) * bytes);
        }
        if (hyp_context_run_with(context, &in, 1, list, OUTPUTS, &options, &diag) != HYP_OK) fail_msg("%s", diag.message);
    }
    if (out) MUST(dev.lib.cuStreamEndCapture(stream, out));
}

/* How many kernels of a graph may run at once is what the emulator alone tells: several, but one where a capture that has not ended
 * has the session's other streams. */
static void check_captured(uint64_t which, int steps)
{
    uint64_t (*widest)(void) = NULL;
    bool on_emulator = emulator_function("emulator_widest", &widest);
    static uint8_t x[MOST_BYTES], truth[1][OUTPUTS][MOST_BYTES], y[2 * OUTPUTS * MOST_BYTES];
    const size_t bytes = ROWS * WIDTH * hyp_dtype_size(dtype);
    hyp_diag diag = {0};
    hyp_context *context;
    CUdeviceptr at, ends;
    CUstream other;
    CUgraphExec graphs[2];
    CUgraph captured[2], unused;
    build(which, steps);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    random_fill(&seed, dtype, x, ROWS * WIDTH);
    run_on(engine, "1", x, (int64_t[]){ROWS, WIDTH}, 2, 1, truth);
    MUST(dev.lib.cuMemAlloc(&at, bytes));
    MUST(dev.lib.cuMemAlloc(&ends, 2 * OUTPUTS * bytes));
    MUST(dev.lib.cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
    MUST(dev.lib.cuMemcpyHtoDAsync(at, x, bytes, dev.stream));
    setenv("HYPATIA_CUDA_STREAMS", "4", 1);
    hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    if (hyp_context_create(engine, &options, &context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    unsetenv("HYPATIA_CUDA_STREAMS");
    run_captured(context, dev.stream, at, ends, &captured[0]);
    run_captured(context, other, at, ends, NULL);
    run_captured(context, dev.stream, at, ends, &captured[1]);
    MUST(dev.lib.cuStreamEndCapture(other, &unused));
    MUST(dev.lib.cuGraphDestroy(unused));
    for (int i = 0; i < 2; i++) {
        MUST(dev.lib.cuGraphInstantiate(&graphs[i], captured[i], 0));
        MUST(dev.lib.cuGraphDestroy(captured[i]));
    }
    for (int turn = 0; turn < 6; turn++) {
        MUST(dev.lib.cuMemsetD8Async(ends, 0xff, 2 * OUTPUTS * bytes, dev.stream));
        MUST(dev.lib.cuGraphLaunch(graphs[turn % 2], dev.stream));
        if (on_emulator) assert_true(turn % 2 ? widest() == 1 : widest() > 1);
        MUST(dev.lib.cuMemcpyDtoHAsync(y, ends, 2 * OUTPUTS * bytes, dev.stream));
        MUST(dev.lib.cuStreamSynchronize(dev.stream));
        for (size_t i = 0; i < 2 * OUTPUTS; i++) assert_memory_equal(y + i * bytes, truth[0][i % OUTPUTS], bytes);
    }
    for (int i = 0; i < 2; i++) MUST(dev.lib.cuGraphExecDestroy(graphs[i]));
    hyp_context_release_captured(context);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    MUST(dev.lib.cuMemFree(at));
    MUST(dev.lib.cuMemFree(ends));
    MUST(dev.lib.cuStreamDestroy(other));
    pb_dispose(&builder);
}

static void graphs_of_the_callers_do_the_same(void **unused)
{
    (void)unused;
    for (uint64_t which = 201; which <= 212; which++) {
        dtype = which % 2 ? HYP_F32 : HYP_BF16;
        check_captured(which, 8 + (int)(which % 24));
    }
}

/* Convolutions whose windows are written out, each as long as its stream has room for them, and multiplied by way of a
 * workspace. Two chains for each stream, no two of which have the same values. */
static void every_stream_has_room_and_workspace_of_its_own(void **unused)
{
    (void)unused;
    enum { C = 8, SIDE = 6, LONG = 3 };
    const int64_t dims[] = {1, C, SIDE, SIDE};
    dtype = HYP_F32;
    seed = 1;
    begin_plan();
    uint32_t *all = pb_consts(&builder, 4, dims), x = pb_input(&builder, "x", dtype, 4, all);
    for (int i = 0; i < OUTPUTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "y%d", i);
        uint32_t from = x;
        for (int k = 0; k < LONG; k++) {
            uint32_t to = pb_scratch(&builder, dtype, (uint32_t)(LONG * i + k), 4, all);
            add_conv(from, to, C);
            from = to;
        }
        add_conv(from, pb_output(&builder, hyp_arena_strdup(&builder.arena, name), dtype, 4, all), C);
    }
    check_runs("4", dims, 4);
}

/* ---- what is decided --------------------------------------------------------------------------------------------- */

static void keep_line(const char *line, void *log)
{
    strncat(log, line, 4095 - strlen(log));
    strncat(log, "\n", 4095 - strlen(log));
}

/* Scratch memory on so many streams for chains of n elements, each by way of a value of its own, all of which have one slot. */
static size_t scratch_of(hyp_engine *engine, const char *streams, int64_t n)
{
    hyp_diag diag = {0};
    hyp_context *context;
    const hyp_tensor x = {.dtype = dtype, .rank = 1, .dims = {n}};
    setenv("HYPATIA_CUDA_STREAMS", streams, 1);
    if (hyp_context_create(engine, NULL, &context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    unsetenv("HYPATIA_CUDA_STREAMS");
    if (hyp_context_reserve(context, &x, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    size_t bytes = hyp_context_scratch_bytes(context);
    hyp_context_destroy(context);
    return bytes;
}

static void add_chain(int i, uint32_t x, uint32_t n)
{
    char name[8];
    snprintf(name, sizeof name, "y%d", i);
    uint32_t between = pb_scratch(&builder, dtype, 0, 1, &n), one = pb_const(&builder, 1);
    uint32_t y = pb_output(&builder, hyp_arena_strdup(&builder.arena, name), dtype, 1, &n);
    for (int k = 0; k < 2; k++) {
        HypPlan__Pointwise *s = pb_pointwise(&builder, HYP_F32, 1, pb_consts(&builder, 1, (int64_t[]){0}));
        s->extents[0] = n;
        pb_operand(&builder, s, k ? between : x, &one);
        pb_result(&builder, s, k ? y : between, pb_instr(&builder, s, OP(TANH), 0, 0, 0, 0, HYP_F32));
    }
}

/* Small values lie beside each other, so that all chains run at once; large ones keep the places that they have one by one. */
static void large_values_take_no_more_memory_side_by_side(void **unused)
{
    (void)unused;
    enum { SMALL = 256, LARGE = 12 << 20 };
    dtype = HYP_F32;
    seed = 1;
    pb_init(&builder);
    uint32_t n = pb_symbol(&builder, "n"), x = pb_input(&builder, "x", dtype, 1, &n);
    for (int i = 0; i < OUTPUTS; i++) add_chain(i, x, n);
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    const size_t each = SMALL * sizeof(float), beside = scratch_of(engine, "4", SMALL) - scratch_of(engine, "1", SMALL);
    assert_int_equal(beside, (OUTPUTS - 1) * each);
    assert_int_equal(scratch_of(engine, "4", LARGE), scratch_of(engine, "1", LARGE));
    hyp_engine_destroy(engine);
    check_runs("4", (int64_t[]){SMALL}, 1);
}

/* `wide` sums of the input, each of which is predicted to take so long, and what the log says of their streams. */
static const char *said_of(int wide, double seconds, const char *streams, hyp_status *out_status)
{
    static char log[4096];
    char path[PB_PATH];
    hyp_diag diag = {0};
    hyp_engine *engine;
    hyp_context *context = NULL;
    dtype = HYP_F32;
    begin_plan();
    input = pb_input(&builder, "x", dtype, 2, shape());
    for (int i = 0; i < wide; i++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", i);
        add_sum(input, input, pb_output(&builder, hyp_arena_strdup(&builder.arena, name), dtype, 2, shape()));
        builder.steps[i].predicted_seconds = seconds;
    }
    pb_write(&builder, path);
    *log = 0;
    if (streams) setenv("HYPATIA_CUDA_STREAMS", streams, 1);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA, .log = keep_line, .log_user = log};
    if (hyp_engine_load_file(path, &options, &engine, &diag) != HYP_OK) fail_msg("%s", diag.message);
    *out_status = hyp_context_create(engine, NULL, &context, &diag);
    if (*out_status == HYP_OK) {
        hyp_tensor x = {.dtype = dtype, .rank = 2, .dims = {ROWS, WIDTH}};
        if (hyp_context_reserve(context, &x, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    } else {
        keep_line(diag.message, log);
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    unsetenv("HYPATIA_CUDA_STREAMS");
    pb_remove(&builder, path);
    return log;
}

static void side_by_side_is_what_is_predicted_to_pay(void **unused)
{
    (void)unused;
    hyp_status status;
    assert_non_null(strstr(said_of(4, 20e-6, NULL, &status), "side by side on 4 streams"));
    assert_non_null(strstr(said_of(3, 20e-6, NULL, &status), "side by side on 3 streams"));
    assert_null(strstr(said_of(1, 20e-6, NULL, &status), "side by side"));
    assert_null(strstr(said_of(4, 0, NULL, &status), "side by side")); /* nothing is known of steps, */
    says_nothing_of_streams = true;
    assert_null(strstr(said_of(4, 20e-6, NULL, &status), "side by side")); /* nor of streams */
    assert_non_null(strstr(said_of(4, 20e-6, "4", &status), "side by side on 4 streams"));
    says_nothing_of_streams = false;
}

/* The log of a plan that is there, its steps on so many streams. */
static const char *log_of(const int64_t *dims, int32_t rank, const char *streams)
{
    static char log[4096];
    char path[PB_PATH];
    hyp_diag diag = {0};
    hyp_engine *engine;
    hyp_context *context;
    hyp_tensor x = {.dtype = dtype, .rank = rank};
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA, .log = keep_line, .log_user = log};
    memcpy(x.dims, dims, (size_t)rank * sizeof *dims);
    *log = 0;
    pb_write(&builder, path);
    if (hyp_engine_load_file(path, &options, &engine, &diag) != HYP_OK) fail_msg("%s", diag.message);
    setenv("HYPATIA_CUDA_STREAMS", streams, 1);
    if (hyp_context_create(engine, NULL, &context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    unsetenv("HYPATIA_CUDA_STREAMS");
    if (hyp_context_reserve(context, &x, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    remove(path);
    return log;
}

/* Chains that read channels of what they convolved: these lie by themselves where channels come last, and not where those of
 * another chain do, or the chains would wait for each other. */
static void channels_cut_out_wait_for_nobody(void **unused)
{
    (void)unused;
    enum { C = 8, SIDE = 8 };
    const int64_t dims[] = {1, C, SIDE, SIDE}, wide[] = {1, 2 * C, SIDE, SIDE};
    dtype = HYP_F32;
    seed = 1;
    begin_plan();
    uint32_t *all = pb_consts(&builder, 4, dims), *both = pb_consts(&builder, 4, wide), x = pb_input(&builder, "x", dtype, 4, all);
    for (int i = 0; i < OUTPUTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "y%d", i);
        uint32_t from = pb_scratch(&builder, dtype, 0, 4, all), whole = pb_scratch(&builder, dtype, 1, 4, both);
        uint32_t y = pb_output(&builder, hyp_arena_strdup(&builder.arena, name), dtype, 4, all);
        add_wider_conv(x, from, C, C);
        add_wider_conv(from, whole, C, 2 * C);
        uint32_t part = pb_view(&builder, whole, 4, all);
        builder.tensors[part].window = true;
        builder.tensors[part].first = C * SIDE * SIDE;
        add_conv(part, y, C);
    }
    for (size_t i = 0; i < builder.program.n_steps; i++) builder.steps[i].predicted_seconds = 20e-6;
    const char *log = log_of(dims, 4, "4");
    if (!strstr(log, "on 4 streams: 60.0 us predicted, 240.0 on one")) fail_msg("%s", log);
    check_runs("4", dims, 4);
}

static void the_variable_says_how_many(void **unused)
{
    (void)unused;
    hyp_status status;
    assert_null(strstr(said_of(4, 20e-6, "1", &status), "side by side"));
    assert_non_null(strstr(said_of(4, 20e-6, "2", &status), "side by side on 2 streams"));
    assert_non_null(strstr(said_of(4, 0, "3", &status), "side by side on 3 streams"));
    const char *wrong[] = {"0", "9", "22", "two", "-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *said = said_of(4, 20e-6, wrong[i], &status);
        assert_int_equal(status, HYP_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(said, "HYPATIA_CUDA_STREAMS is '"));
    }
}

/* What tuning keeps of the streams of four softmaxes, each of which is predicted to take so long. */
static const char *kept_of(double seconds, const char *mode)
{
    static char kept[64];
    hyp_diag diag = {0};
    hyp_context *context;
    dtype = HYP_F32;
    begin_plan();
    input = pb_input(&builder, "x", dtype, 2, shape());
    for (int i = 0; i < OUTPUTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "y%d", i);
        add_softmax(input, pb_output(&builder, hyp_arena_strdup(&builder.arena, name), dtype, 2, shape()));
        builder.steps[i].predicted_seconds = seconds;
    }
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    if (hyp_context_create(engine, NULL, &context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    tune_in_mode(context, mode, dtype, ROWS, WIDTH);
    *kept = 0;
    for (size_t i = 0; i < hyp_context_tuned_count(context); i++) {
        hyp_tuned tuned = hyp_context_tuned(context, i);
        if (strncmp(tuned.product, "streams of 4 steps", 18) == 0) snprintf(kept, sizeof kept, "%s", tuned.attributes);
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
    return kept;
}

static void tuning_keeps_what_is_faster(void **unused)
{
    (void)unused;
    void (*on_emulator)(void);
    if (!emulator_function("emulator_graphs", &on_emulator)) {
        print_message("skipped: what is faster is known of the emulator alone\n");
        skip();
    }
    assert_string_equal(kept_of(20e-6, "narrow"), "1 stream");
    assert_string_equal(kept_of(0, "narrow"), "1 stream");
    assert_string_equal(kept_of(0, ""), "1 stream"); /* all are alike */
    assert_string_equal(kept_of(0, "wide"), "4 streams");
    assert_string_equal(kept_of(20e-6, "wide"), "4 streams");
}

/* Two chains and what reads the ends of both. All kernels but the first of the second stream may begin before the one before
 * them on their stream has ended, the last one too, which waits for the other stream besides. */
static void what_goes_on_on_its_stream_begins_early(void **unused)
{
    (void)unused;
    enum { CHAINS = 2, LONG = 4 };
    uint64_t (*wanted)(bool) = NULL, late, early;
    hyp_diag diag = {0};
    hyp_context *context;
    uint32_t ends[CHAINS];
    if (!emulator_function("emulator_launches_wanted", &wanted)) {
        print_message("skipped: only the emulator tells which kernels may begin early\n");
        skip();
    }
    dtype = HYP_F32;
    begin_plan();
    input = pb_input(&builder, "x", dtype, 2, shape());
    for (uint32_t chain = 0; chain < CHAINS; chain++) {
        ends[chain] = input;
        for (uint32_t i = 0; i < LONG; i++) {
            uint32_t next = pb_scratch(&builder, dtype, LONG * chain + i, 2, shape());
            add_sum(ends[chain], ends[chain], next);
            ends[chain] = next;
        }
    }
    add_sum(ends[0], ends[1], pb_output(&builder, "y", dtype, 2, shape()));
    for (size_t i = 0; i < builder.program.n_steps; i++) builder.steps[i].predicted_seconds = 20e-6;
    hyp_engine *engine = pb_load(&builder, HYP_DEVICE_CUDA);
    if (hyp_context_create(engine, NULL, &context, &diag) != HYP_OK) fail_msg("%s", diag.message);
    late = wanted(false), early = wanted(true);
    hyp_tensor x = {.dtype = dtype, .rank = 2, .dims = {ROWS, WIDTH}};
    if (hyp_context_reserve(context, &x, 1, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_int_equal(wanted(false) - late, 1);
    assert_int_equal(wanted(true) - early, CHAINS * LONG);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
}

/* Predictions of a plan may be anything. */
static void odd_predictions_do_no_harm(void **unused)
{
    (void)unused;
    const double odd[] = {0, 1e-300, 1e300, 1.7e308};
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
        dtype = HYP_F32;
        build(k + 100, 20);
        for (size_t i = k % 2; i < builder.program.n_steps; i += 2) builder.steps[i].predicted_seconds = odd[k];
        check_runs("4", (int64_t[]){ROWS, WIDTH}, 2);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_do_what_steps_do_one_by_one),
        cmocka_unit_test(every_stream_has_room_and_workspace_of_its_own),
        cmocka_unit_test(graphs_of_the_callers_do_the_same),
        cmocka_unit_test(large_values_take_no_more_memory_side_by_side),
        cmocka_unit_test(side_by_side_is_what_is_predicted_to_pay),
        cmocka_unit_test(channels_cut_out_wait_for_nobody),
        cmocka_unit_test(the_variable_says_how_many),
        cmocka_unit_test(tuning_keeps_what_is_faster),
        cmocka_unit_test(what_goes_on_on_its_stream_begins_early),
        cmocka_unit_test(odd_predictions_do_no_harm),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
