/* Variables on a GPU: runs that are queued, on streams and from graphs. On a GPU, or the emulator, which counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/device_check.h"
#include "runtime/cuda/emulator_tells.h"
#include "runtime/variable_plan.h"

#define MUST(call) assert_int_equal((call), CUDA_SUCCESS)

static device dev;
static plan_builder builder; /* large */
static hyp_engine *engine;
static hyp_diag why;

/* Tensors on the device: those of a vp_call. */
typedef struct buffers {
    vp_call host;
    hyp_tensor in[VP_INPUTS], out[VP_OUTPUTS];
} buffers;

static int load(void **state)
{
    (void)state;
    vp_build_with(&builder, (vp_kind){0});
    engine = pb_load(&builder, HYP_DEVICE_CUDA);
    return 0;
}

static int load_in_place(void **state)
{
    (void)state;
    vp_build_with(&builder, (vp_kind){.in_place = true});
    engine = pb_load(&builder, HYP_DEVICE_CUDA);
    return 0;
}

static int load_mixed(void **state)
{
    (void)state;
    vp_build_with(&builder, (vp_kind){.in_place = true, .mixed = true});
    engine = pb_load(&builder, HYP_DEVICE_CUDA);
    return 0;
}

static int load_sure_mixed(void **state)
{
    (void)state;
    vp_build_with(&builder, (vp_kind){.sure = true, .in_place = true, .mixed = true});
    engine = pb_load(&builder, HYP_DEVICE_CUDA);
    return 0;
}

static int load_sure_in_place(void **state)
{
    (void)state;
    vp_build_with(&builder, (vp_kind){.sure = true, .in_place = true});
    engine = pb_load(&builder, HYP_DEVICE_CUDA);
    return 0;
}

/* A plan whose runs cannot fail when they are queued. */
static int load_sure(void **state)
{
    (void)state;
    vp_build_with(&builder, (vp_kind){.sure = true});
    engine = pb_load(&builder, HYP_DEVICE_CUDA);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    hyp_engine_destroy(engine);
    pb_dispose(&builder);
    return 0;
}

static void put_on_device(hyp_tensor *to, const hyp_tensor *from)
{
    *to = *from;
    assert_ok(hyp_engine_tensor_alloc(engine, to, diag));
    assert_ok(hyp_engine_tensor_copy(engine, from, to, diag));
}

static void make(buffers *b, float x, int64_t i)
{
    vp_set_up(&b->host, x, 2, i);
    for (size_t k = 0; k < VP_INPUTS; k++) put_on_device(&b->in[k], &b->host.in[k]);
    for (size_t k = 0; k < VP_OUTPUTS; k++) put_on_device(&b->out[k], &b->host.out[k]);
}

static void dispose(buffers *b)
{
    for (size_t k = 0; k < VP_INPUTS; k++) hyp_engine_tensor_free(engine, &b->in[k]);
    for (size_t k = 0; k < VP_OUTPUTS; k++) hyp_engine_tensor_free(engine, &b->out[k]);
}

static hyp_context *create(const hyp_context_options *options)
{
    hyp_context *context;
    assert_ok(hyp_context_create(engine, options, &context, diag));
    return context;
}

static hyp_status queue(hyp_context *context, buffers *b, const hyp_run_options *how)
{
    return hyp_context_run_with(context, b->in, VP_INPUTS, b->out, VP_OUTPUTS, how, &why);
}

static void must_queue(hyp_context *context, buffers *b, const hyp_run_options *how)
{
    if (queue(context, b, how) != HYP_OK) fail_msg("%s", why.message);
}

static void ignore_step(size_t number, void *user) { (void)number, (void)user; }

static void count_steps(size_t number, void *user)
{
    (void)number;
    ++*(size_t *)user;
}

static void check_y(buffers *b, float sum)
{
    assert_ok(hyp_engine_tensor_copy(engine, &b->out[0], &b->host.out[0], diag));
    for (int k = 0; k < VP_W; k++) assert_true(b->host.y[k] == (1 + sum) * (float)(k + 1));
}

/* Both ways between the two halves, with several sets of the caller's buffers, runs that keep the state among them. */
static void after_reserving_no_run_takes_anything(void **state)
{
    (void)state;
    enum { SETS = 3, RUNS = 60 };
    static buffers sets[SETS];
    uint64_t (*takes)(void) = NULL;
    bool counts = emulator_function("emulator_takes", &takes);
    hyp_context *context = create(NULL);
    const hyp_run_options keep = {.size = sizeof keep, .keep_variables = true};
    for (int i = 0; i < SETS; i++) make(&sets[i], (float)i, 1);
    assert_ok(hyp_context_reserve(context, sets[0].in, VP_INPUTS, diag));
    uint64_t taken = counts ? takes() : 0, allocated = hyp_mem_count();
    size_t bytes = hyp_context_memory_bytes(context);
    float sum = 0;
    for (int i = 0; i < RUNS; i++) {
        buffers *b = &sets[i < RUNS / 2 ? 0 : i % SETS];
        if (i % 7 == 3) must_queue(context, b, &keep);
        must_queue(context, b, NULL);
        sum += b->host.x[0];
    }
    assert_ok(hyp_context_synchronize(context, diag));
    check_y(&sets[(RUNS - 1) % SETS], sum);
    if (counts) assert_int_equal(takes(), taken);
    assert_int_equal(hyp_mem_count(), allocated);
    assert_int_equal(hyp_context_memory_bytes(context), bytes);
    vp_check(context, sum, RUNS);
    hyp_context_destroy(context);
    for (int i = 0; i < SETS; i++) dispose(&sets[i]);
}

/* How often 20 runs with the same buffers of the caller's are captured. */
static void check_captures(uint64_t unreserved, uint64_t after_reserving)
{
    static buffers b;
    uint64_t (*captures)(void) = NULL;
    if (!emulator_function("emulator_captures", &captures) || !captures) {
        print_message("skipped: only the emulator counts captures\n");
        skip();
    }
    for (int reserved = 0; reserved < 2; reserved++) {
        hyp_context *context = create(NULL);
        make(&b, 1, 0);
        if (reserved) assert_ok(hyp_context_reserve(context, b.in, VP_INPUTS, diag));
        uint64_t before = captures();
        for (int i = 0; i < 20; i++) must_queue(context, &b, NULL);
        assert_int_equal(captures() - before, reserved ? after_reserving : unreserved);
        vp_check(context, 20, 20);
        hyp_context_destroy(context);
        dispose(&b);
    }
}

/* There are two sets of addresses, and a graph for each. */
static void both_halves_are_replayed(void **state)
{
    (void)state;
    check_captures(2, 2);
}

/* There is one; the first run, whose steps are queued one by one, has a graph for the commit. */
static void one_graph_is_replayed(void **state)
{
    (void)state;
    check_captures(2, 1);
}

/* What only the device notices is told by the next call, whichever it is, and has changed nothing. */
static void a_queued_run_that_fails_changes_nothing(void **state)
{
    (void)state;
    static buffers good, bad;
    float w[VP_W];
    int64_t n = 5;
    make(&good, 1, 0);
    make(&bad, 1, 7);
    for (int call = 0; call < 5; call++) {
        hyp_context *context = create(NULL);
        hyp_tensor out = {.name = "w", .data = w, .bytes = sizeof w, .dtype = HYP_F32};
        const hyp_tensor in = tensor_of("n", HYP_I64, &n, 0, NULL);
        const hyp_run_options keep = {.size = sizeof keep, .keep_variables = true};
        for (int i = 0; i < 3; i++) {
            must_queue(context, &good, NULL);
            must_queue(context, &bad, NULL);
            hyp_status status = call == 0   ? hyp_context_synchronize(context, &why)
                                : call == 1 ? queue(context, &good, NULL)
                                : call == 2 ? queue(context, &good, &keep)
                                : call == 3 ? hyp_context_variable_get(context, &out, 1, &why)
                                            : hyp_context_variable_set(context, &in, 1, &why);
            assert_int_equal(status, HYP_ERR_INVALID_ARGUMENT);
            if (!strstr(why.message, "the last run failed") || !strstr(why.message, "index 7"))
                fail_msg("%s", why.message);
            vp_check(context, (float)(i + 1), i + 1);
        }
        must_queue(context, &bad, &keep); /* it fails, and takes nothing with it */
        assert_int_equal(queue(context, &good, NULL), HYP_ERR_INVALID_ARGUMENT);
        must_queue(context, &good, NULL);
        vp_check(context, 4, 4);
        hyp_context_destroy(context);
    }
    dispose(&good);
    dispose(&bad);
}

/* Kernels that were made for the steps of the commit alone look at the gate, too. */
static void a_tuned_run_that_fails_changes_nothing(void **state)
{
    (void)state;
    static buffers good, bad;
    const hyp_tune_options options = {.size = sizeof options, .seconds = 5};
    hyp_context *context = create(NULL);
    make(&good, 1, 0);
    make(&bad, 1, 7);
    must_queue(context, &good, NULL);
    assert_ok(hyp_context_tune(context, good.host.in, VP_INPUTS, &options, NULL, diag));
    for (int i = 0; i < 4; i++) {
        must_queue(context, &bad, NULL);
        assert_int_equal(hyp_context_synchronize(context, &why), HYP_ERR_INVALID_ARGUMENT);
        vp_check(context, (float)(i + 1), i + 1);
        must_queue(context, &good, NULL);
        vp_check(context, (float)(i + 2), i + 2);
    }
    hyp_context_destroy(context);
    dispose(&good);
    dispose(&bad);
}

static void runs_may_be_on_any_stream(void **state)
{
    (void)state;
    static buffers b;
    CUstream streams[3] = {NULL};
    hyp_context *context = create(NULL);
    make(&b, 1, 0);
    for (int i = 1; i < 3; i++) MUST(dev.lib.cuStreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, 0));
    for (int i = 0; i < 12; i++) {
        const hyp_run_options how = {.size = sizeof how, .stream = streams[i % 3]};
        must_queue(context, &b, &how);
    }
    vp_check(context, 12, 12);
    hyp_context_destroy(context);
    for (int i = 1; i < 3; i++) MUST(dev.lib.cuStreamDestroy(streams[i]));
    dispose(&b);
}

/* Nobody waits for them: not even where that is not possible. */
static void runs_that_cannot_fail_follow_each_other(void **state)
{
    (void)state;
    static buffers b;
    const hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    const hyp_run_options keep = {.size = sizeof keep, .keep_variables = true};
    hyp_context *context = create(&options);
    CUgraph graph;
    make(&b, 1, 0);
    for (int i = 0; i < 9; i++) {
        must_queue(context, &b, NULL);
        if (i % 3 == 1) must_queue(context, &b, &keep);
    }
    MUST(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(queue(context, &b, NULL), HYP_ERR_UNSUPPORTED);
    MUST(dev.lib.cuStreamEndCapture(dev.stream, &graph));
    MUST(dev.lib.cuGraphDestroy(graph));
    must_queue(context, &b, NULL);
    vp_check(context, 10, 10);
    assert_ok(hyp_context_variables_reset(context, diag));
    must_queue(context, &b, NULL);
    assert_ok(hyp_context_synchronize(context, diag));
    check_y(&b, 1);
    vp_check(context, 1, 1);
    hyp_context_destroy(context);
    dispose(&b);
}

/* A graph of the caller's would read the same half for ever, or change what the context knows nothing of. A run that is under way meanwhile is not lost. */
static void a_run_cannot_be_captured(void **state)
{
    (void)state;
    static buffers b;
    const hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    const hyp_run_options keep = {.size = sizeof keep, .keep_variables = true};
    CUgraph graph;
    make(&b, 1, 0);
    for (int under_way = 0; under_way < 2; under_way++) {
        hyp_context *context = create(&options);
        if (under_way) must_queue(context, &b, NULL);
        MUST(dev.lib.cuStreamBeginCapture(dev.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        hyp_status status = queue(context, &b, NULL), kept = queue(context, &b, &keep);
        assert_int_equal(status, under_way ? HYP_ERR_INVALID_ARGUMENT : HYP_ERR_UNSUPPORTED);
        assert_int_equal(kept, status);
        if (!strstr(why.message, "captured")) fail_msg("%s", why.message);
        assert_int_equal(hyp_context_synchronize(context, &why), HYP_ERR_INVALID_ARGUMENT);
        MUST(dev.lib.cuStreamEndCapture(dev.stream, &graph));
        MUST(dev.lib.cuGraphDestroy(graph));
        vp_check(context, (float)under_way, under_way);
        must_queue(context, &b, NULL);
        vp_check(context, (float)under_way + 1, under_way + 1);
        hyp_context_destroy(context);
    }
    dispose(&b);
}

/* The weights that variables begin with are no matter of the device: nothing else is in this plan. */
static void what_they_begin_with_is_not_kept_on_the_device(void **state)
{
    (void)state;
    char path[PB_PATH];
    pb_write(&builder, path);
    hyp_plan plan;
    assert_ok(hyp_plan_open_file(path, NULL, &plan, diag));
    assert_int_equal(plan.read_bytes, 0);
    assert_true(plan.weights_bytes > 0);
    hyp_plan_close(&plan);
    pb_remove(&builder, path);
}

/* ---- calls that fail ------------------------------------------------------------------------------------------- */

typedef bool fail_call(const char *call, int result, int n);

/* Whether the state is w0 after `n` runs that have added 1 each. */
static bool is_after(hyp_context *context, int n)
{
    float w[VP_W];
    int64_t count = -1;
    hyp_tensor state[] = {{.name = "n", .data = &count, .bytes = sizeof count, .dtype = HYP_I64},
                          {.name = "w", .data = w, .bytes = sizeof w, .dtype = HYP_F32}};
    assert_ok(hyp_context_variable_get(context, state, 2, diag));
    for (int k = 0; k < VP_W; k++)
        if (w[k] != (float)(1 + n) * (float)(k + 1)) return false;
    return count == n;
}

/* Some runs, of which the one at `fails` meets a call that fails for the n-th time. Returns whether there was such a call. */
static bool meet_failure(fail_call *arm, const char *call, int result, int n, int fails, bool on_host, bool watched)
{
    static buffers b;
    enum { RUNS = 5 };
    const hyp_context_options options = {.size = sizeof options, .step_begins = watched ? ignore_step : NULL};
    hyp_context *context = create(&options);
    bool met = false;
    int done = 0;
    make(&b, 1, 0);
    for (int i = 0; i < RUNS; i++) {
        if (i == fails) arm(call, result, n);
        hyp_status status = on_host ? vp_run(context, &b.host, false, &why) : queue(context, &b, NULL);
        if (status == HYP_OK) status = hyp_context_synchronize(context, &why);
        if (i == fails) met = !arm(call, result, 0);
        if (status != HYP_OK && (i != fails || !met)) fail_msg("%s %d: run %d: %s", call, n, i, why.message);
        bool before = is_after(context, done), after = is_after(context, done + 1);
        if (status == HYP_OK ? !after : !before && !after)
            fail_msg("%s %d at run %d, which gives %d: the variables are neither as before nor as after it", call, n, i,
                     (int)status);
        done += after;
    }
    hyp_context_destroy(context);
    dispose(&b);
    return met;
}

/* In any run: the first, which is queued step by step, that which makes a graph, and such as launch it. */
static void no_failed_call_leaves_them_between(void **state)
{
    (void)state;
    static const char *const calls[] = {
        "cuLaunchKernelEx",     "cuGraphLaunch",     "cuGraphInstantiate", "cuStreamBeginCapture", "cuStreamEndCapture",
        "cuMemcpyHtoDAsync",    "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync",  "cuEventRecord",        "cuStreamWaitEvent",
        "cuStreamSynchronize",  "cuGraphExecUpdate", "cuMemAlloc",         "cuMemHostAlloc",       "cuEventSynchronize",
        "cuPointerGetAttributes"};
    static const int results[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY};
    fail_call *arm = NULL;
    int met = 0;
    if (!emulator_function("emulator_fail", &arm) || !arm) {
        print_message("skipped: only the emulator lets calls fail\n");
        skip();
    }
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (size_t r = 0; r < 2; r++)
            for (int way = 0; way < 3; way++) /* on the device, on the host, with somebody who is told of steps */
                for (int fails = 0; fails < 4; fails++)
                    for (int n = 1; meet_failure(arm, calls[c], results[r], n, fails, way == 1, way == 2); n++) met++;
    assert_in_range(met, 100, 100000);
}

static hyp_status set_w_and_n(hyp_context *context)
{
    float w[] = {2, 4, 6};
    int64_t n = 1;
    const hyp_tensor some[] = {tensor_of("w", HYP_F32, w, 1, (int64_t[]){VP_W}), tensor_of("n", HYP_I64, &n, 0, NULL)};
    return hyp_context_variable_set(context, some, 2, &why);
}

/* Values that are copied over variables, and do not all arrive: nobody goes on with what there is then. */
static void a_copy_that_fails_halfway_is_remembered(void **state)
{
    (void)state;
    static buffers b;
    fail_call *arm = NULL;
    if (!emulator_function("emulator_fail", &arm) || !arm) {
        print_message("skipped: only the emulator lets calls fail\n");
        skip();
    }
    make(&b, 1, 0);
    for (int n = 1; n <= 2; n++)
        for (int whole = 0; whole < 2; whole++) {
            hyp_context *context = create(NULL);
            float same[] = {5, 6}, w[] = {2, 4, 6};
            int64_t count = 1;
            const hyp_tensor all[] = {tensor_of("w", HYP_F32, w, 1, (int64_t[]){VP_W}), tensor_of("n", HYP_I64, &count, 0, NULL),
                                      tensor_of("same", HYP_F32, same, 1, (int64_t[]){VP_SAME}),
                                      {.name = "none", .dtype = HYP_F32, .rank = 1, .data = w}};
            must_queue(context, &b, NULL);
            must_queue(context, &b, NULL);
            assert_ok(hyp_context_synchronize(context, diag));
            arm("cuMemcpyHtoDAsync", CUDA_ERROR_INVALID_VALUE, n);
            assert_int_equal(set_w_and_n(context), HYP_ERR_DEVICE);
            assert_false(arm("", 0, 0));
            hyp_tensor got = {.name = "n", .data = &count, .bytes = sizeof count, .dtype = HYP_I64};
            assert_int_equal(hyp_context_variable_get(context, &got, 1, &why), HYP_ERR_INVALID_ARGUMENT);
            if (!strstr(why.message, "failed halfway")) fail_msg("%s", why.message);
            assert_int_equal(queue(context, &b, NULL), HYP_ERR_INVALID_ARGUMENT);
            assert_int_equal(set_w_and_n(context), HYP_ERR_INVALID_ARGUMENT); /* the others would be what they are */
            count = 1;
            if (whole)
                assert_ok(hyp_context_variable_set(context, all, 4, diag));
            else
                assert_ok(hyp_context_variables_reset(context, diag));
            vp_check(context, (float)whole, whole);
            must_queue(context, &b, NULL);
            vp_check(context, (float)whole + 1, whole + 1);
            hyp_context_destroy(context);
        }
    dispose(&b);
}

/* A run that keeps variables does not even begin to change them, on any number of streams. */
static void a_run_that_keeps_them_does_without_the_last_steps(void **state)
{
    (void)state;
    static buffers b;
    size_t begun = 0;
    const hyp_context_options options = {.size = sizeof options, .step_begins = count_steps, .step_user = &begun};
    const hyp_run_options keep = {.size = sizeof keep, .keep_variables = true};
    hyp_context *watched = create(&options), *context = create(NULL);
    make(&b, 1, 0);
    must_queue(watched, &b, &keep);
    assert_ok(hyp_context_synchronize(watched, diag));
    size_t kept = begun;
    must_queue(watched, &b, NULL);
    assert_ok(hyp_context_synchronize(watched, diag));
    assert_in_range(begun - kept, kept + 2, SIZE_MAX); /* those of w and n, and what they wait for */
    for (int i = 0; i < 24; i++) {
        must_queue(context, &b, i % 5 < 3 ? &keep : NULL);
        if (i % 7 == 0) vp_check(context, (float)(i / 5 * 2 + (i % 5 > 2) * (i % 5 - 2)), i / 5 * 2 + (i % 5 > 2) * (i % 5 - 2));
    }
    assert_ok(hyp_context_synchronize(context, diag));
    vp_check(context, 9, 9);
    hyp_context_destroy(context);
    hyp_context_destroy(watched);
    dispose(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(after_reserving_no_run_takes_anything, load, unload),
        cmocka_unit_test_setup_teardown(both_halves_are_replayed, load, unload),
        cmocka_unit_test_setup_teardown(a_queued_run_that_fails_changes_nothing, load, unload),
        cmocka_unit_test_setup_teardown(runs_may_be_on_any_stream, load, unload),
        cmocka_unit_test_setup_teardown(runs_that_cannot_fail_follow_each_other, load_sure, unload),
        cmocka_unit_test_setup_teardown(after_reserving_no_run_takes_anything, load_sure, unload),
        cmocka_unit_test_setup_teardown(a_run_cannot_be_captured, load, unload),
        cmocka_unit_test_setup_teardown(what_they_begin_with_is_not_kept_on_the_device, load, unload),
        cmocka_unit_test_setup_teardown(a_queued_run_that_fails_changes_nothing, load_in_place, unload),
        cmocka_unit_test_setup_teardown(a_tuned_run_that_fails_changes_nothing, load_in_place, unload),
        cmocka_unit_test_setup_teardown(runs_may_be_on_any_stream, load_in_place, unload),
        cmocka_unit_test_setup_teardown(runs_that_cannot_fail_follow_each_other, load_sure_in_place, unload),
        cmocka_unit_test_setup_teardown(a_run_cannot_be_captured, load_in_place, unload),
        cmocka_unit_test_setup_teardown(one_graph_is_replayed, load_in_place, unload),
        cmocka_unit_test_setup_teardown(a_copy_that_fails_halfway_is_remembered, load_in_place, unload),
        cmocka_unit_test_setup_teardown(a_run_that_keeps_them_does_without_the_last_steps, load_in_place, unload),
        cmocka_unit_test_setup_teardown(after_reserving_no_run_takes_anything, load_in_place, unload),
        cmocka_unit_test_setup_teardown(after_reserving_no_run_takes_anything, load_sure_in_place, unload),
        cmocka_unit_test_setup_teardown(no_failed_call_leaves_them_between, load_in_place, unload),
        cmocka_unit_test_setup_teardown(no_failed_call_leaves_them_between, load, unload),
        cmocka_unit_test_setup_teardown(no_failed_call_leaves_them_between, load_mixed, unload),
        cmocka_unit_test_setup_teardown(no_failed_call_leaves_them_between, load_sure_mixed, unload),
        cmocka_unit_test_setup_teardown(a_queued_run_that_fails_changes_nothing, load_mixed, unload),
        cmocka_unit_test_setup_teardown(runs_that_cannot_fail_follow_each_other, load_sure_mixed, unload),
        cmocka_unit_test_setup_teardown(what_they_begin_with_is_not_kept_on_the_device, load_in_place, unload),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    device_close(&dev);
    return failed;
}
