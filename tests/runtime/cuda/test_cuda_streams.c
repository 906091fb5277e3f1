/* Runs on streams of the caller's: where they go, what they wait for and what tells of their end. On a GPU,
 * or the emulator. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/cuda/scaled_plan.h"

/* ---- streams and events ------------------------------------------------------------------------------------------ */

static void the_stream_can_be_asked_for(void **state)
{
    (void)state;
    hyp_context_options options = {.size = sizeof options, .stream = dev.stream};
    hyp_context *given = create(&options), *own = create(NULL);
    assert_ptr_equal(hyp_context_stream(given), dev.stream);
    CUstream stream = hyp_context_stream(own);
    assert_non_null(stream);
    assert_null(hyp_context_stream(NULL));
    buffers b = make_buffers(3);
    for (int i = 0; i < 4; i++) { /* in the order of the stream, the host waits for nothing in between */
        queue_numbers(&b, (float)i, stream);
        OK(run(own, &b, NULL));
        assert_true(is_right(&b, (float)i, stream));
    }
    free_buffers(&b);
    hyp_context_destroy(given);
    hyp_context_destroy(own);
}

/* Nobody waits but the device: what makes x, the run, and what reads y are on three streams. */
static void events_order_a_run(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    CUstream before = make_stream(), after = make_stream();
    CUevent begins = make_event(), ends = make_event();
    buffers b = make_buffers(100), copy = make_buffers(100);
    hyp_run_options options = {
        .size = sizeof options, .wait = (void *const[]){begins}, .wait_count = 1, .record = ends};
    for (int i = 0; i < 5; i++) {
        queue_numbers(&copy, (float)i, before);
        MUST(dev.lib.cuMemcpyDtoDAsync(b.x, copy.x, (size_t)b.rows * WIDTH * sizeof(float), before));
        MUST(dev.lib.cuEventRecord(begins, before));
        OK(run(context, &b, &options));
        MUST(dev.lib.cuStreamWaitEvent(after, ends, 0));
        MUST(dev.lib.cuMemcpyDtoDAsync(copy.y, b.y, (size_t)b.rows * WIDTH * sizeof(float), after));
        assert_true(is_right(&copy, (float)i, after));
    }
    free_buffers(&b);
    free_buffers(&copy);
    hyp_context_destroy(context);
    MUST(dev.lib.cuEventDestroy(begins));
    MUST(dev.lib.cuEventDestroy(ends));
    MUST(dev.lib.cuStreamDestroy(before));
    MUST(dev.lib.cuStreamDestroy(after));
}

/* The runs of a context share its memory: on a lazy device, a run on the third stream is right only when it waited for
 * the others. All are asked for in the order in which they were not queued. */
static void runs_on_several_streams_follow_each_other(void **state)
{
    (void)state;
    enum { STREAMS = 3, RUNS = 9 };
    hyp_context *context = create(NULL);
    CUstream streams[STREAMS] = {NULL, make_stream(), make_stream()};
    buffers b[RUNS];
    for (int i = 0; i < RUNS; i++) b[i] = make_buffers(10 + i % 2);
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < RUNS; i++) {
            hyp_run_options options = {.size = sizeof options, .stream = streams[i % STREAMS]};
            if (!options.stream) options.stream = i % 2 ? hyp_context_stream(context) : NULL;
            queue_numbers(&b[i], (float)(10 * again + i),
                          options.stream ? options.stream : hyp_context_stream(context));
            OK(run(context, &b[again == 2 ? i % 3 : i], &options)); /* these are replayed */
        }
        OK(hyp_context_synchronize(context, &diag)); /* of the last stream, which is behind the others */
        for (int i = 0; i < (again == 2 ? 0 : RUNS); i++) assert_true(is_right(&b[i], (float)(10 * again + i), NULL));
    }
    for (int i = 0; i < RUNS; i++) free_buffers(&b[i]);
    hyp_context_destroy(context);
    for (int i = 1; i < STREAMS; i++) MUST(dev.lib.cuStreamDestroy(streams[i]));
}

/* What is left in the room of a context when two runs are under way at once is wrong. The emulator does work in the
 * order in which it is waited for, so the later run is waited for first. */
static void a_run_waits_for_the_one_before_it_on_another_stream(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    CUstream one = make_stream(), two = make_stream();
    buffers first = make_buffers(7), second = make_buffers(7);
    for (int i = 0; i < 4; i++) {
        hyp_run_options on_one = {.size = sizeof on_one, .stream = one},
                        on_two = {.size = sizeof on_two, .stream = two};
        queue_numbers(&first, 1, one);
        queue_numbers(&second, 2, two);
        OK(run(context, &first, &on_one));
        /* x of the second run is what the first one makes: its y, which is queued on the other stream. */
        hyp_tensor x = tensor_at(first.y, 7), y = tensor_at(second.y, 7);
        OK(hyp_context_run_with(context, &x, 1, &y, 1, &on_two, &diag));
        float got[7 * WIDTH];
        MUST(dev.lib.cuStreamSynchronize(two));
        MUST(dev.lib.cuMemcpyDtoHAsync(got, second.y, sizeof got, two));
        MUST(dev.lib.cuStreamSynchronize(two));
        for (int k = 0; k < 7 * WIDTH; k++) assert_true(got[k] == 16 * (1 + (float)k));
    }
    free_buffers(&first);
    free_buffers(&second);
    hyp_context_destroy(context);
    MUST(dev.lib.cuStreamDestroy(one));
    MUST(dev.lib.cuStreamDestroy(two));
}

static void the_default_stream_is_a_stream_too(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    hyp_run_options options = {.size = sizeof options, .stream = CU_STREAM_LEGACY};
    buffers b = make_buffers(6);
    for (int i = 0; i < 5; i++) { /* in turn with the context's own, for whose runs it waits */
        queue_numbers(&b, (float)i, i % 2 ? hyp_context_stream(context) : CU_STREAM_LEGACY);
        OK(run(context, &b, i % 2 ? NULL : &options));
        assert_true(is_right(&b, (float)i, i % 2 ? hyp_context_stream(context) : CU_STREAM_LEGACY));
    }
    free_buffers(&b);
    hyp_context_destroy(context);
}

static void what_is_bound_runs_on_a_stream_too(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    hyp_run_options options = {.size = sizeof options, .stream = dev.stream};
    assert_int_equal(hyp_context_run_with(context, NULL, 0, NULL, 0, &options, &diag), HYP_ERR_INVALID_ARGUMENT);
    buffers b = make_buffers(5);
    hyp_tensor x = tensor_at(b.x, 5), y = tensor_at(b.y, 5);
    OK(hyp_context_bind(context, &x, 1, &y, 1, &diag));
    for (int i = 0; i < 4; i++) {
        queue_numbers(&b, (float)i, dev.stream);
        OK(hyp_context_run_with(context, NULL, 0, NULL, 0, &options, &diag));
        assert_true(is_right(&b, (float)i, dev.stream));
    }
    free_buffers(&b);
    hyp_context_destroy(context);
}

static void with_host_tensors_a_run_ends_before_the_call(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    CUevent ends = make_event();
    CUstream stream = make_stream();
    hyp_run_options options = {.size = sizeof options, .stream = stream, .record = ends};
    for (int i = 0; i < 3; i++) {
        float in[WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8}, out[WIDTH] = {0};
        hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {1, WIDTH}};
        hyp_tensor y = {.data = out, .bytes = sizeof out, .dtype = HYP_F32};
        OK(hyp_context_run_with(context, &x, 1, &y, 1, &options, &diag));
        for (int k = 0; k < WIDTH; k++) assert_true(out[k] == 4 * in[k]);
        MUST(dev.lib.cuEventSynchronize(ends));
    }
    hyp_context_destroy(context);
    MUST(dev.lib.cuEventDestroy(ends));
    MUST(dev.lib.cuStreamDestroy(stream));
}

static void a_cpu_has_neither_streams_nor_events(void **state)
{
    (void)state;
    hyp_engine *cpu = pb_load(&builder, HYP_DEVICE_REFERENCE);
    hyp_context *context;
    OK(hyp_context_create(cpu, NULL, &context, &diag));
    assert_null(hyp_context_stream(context));
    float in[WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8}, out[WIDTH] = {0};
    hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {1, WIDTH}};
    hyp_tensor y = {.data = out, .bytes = sizeof out, .dtype = HYP_F32};
    int there;
    const hyp_run_options refused[] = {
        {.size = sizeof *refused, .stream = &there},
        {.size = sizeof *refused, .wait = (void *const[]){&there}, .wait_count = 1},
        {.size = sizeof *refused, .record = &there},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(hyp_context_run_with(context, &x, 1, &y, 1, &refused[i], &diag), HYP_ERR_UNSUPPORTED);
        assert_non_null(strstr(diag.message, i == 0 ? "a stream was given" : "a CUDA event was given"));
    }
    hyp_run_options plain = {.size = sizeof plain};
    OK(hyp_context_run_with(context, &x, 1, &y, 1, &plain, &diag));
    for (int k = 0; k < WIDTH; k++) assert_true(out[k] == 4 * in[k]);
    hyp_context_destroy(context);
    hyp_engine_destroy(cpu);
}

static void odd_options_are_refused(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    buffers b = make_buffers(2);
    void *none[2] = {NULL, NULL};
    assert_int_equal(run(NULL, &b, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(run(context, &b, &(hyp_run_options){.size = 3}), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(run(context, &b, &(hyp_run_options){.size = sizeof(hyp_run_options), .wait_count = 1}),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(
        run(context, &b, &(hyp_run_options){.size = sizeof(hyp_run_options), .wait = none, .wait_count = 2}),
        HYP_ERR_INVALID_ARGUMENT);
    queue_numbers(&b, 1, hyp_context_stream(context));
    OK(run(context, &b, NULL));
    assert_true(is_right(&b, 1, hyp_context_stream(context)));
    free_buffers(&b);
    hyp_context_destroy(context);
}

/* On the emulator, which can say that memory is of another GPU. */
static void memory_of_another_gpu_is_an_error(void **state)
{
    (void)state;
    void (*move)(uint64_t at, int gpu) = NULL;
    uint64_t (*asked)(void) = NULL;
    if (!emulator_function("emulator_move", &move) || !emulator_function("emulator_asked", &asked)) {
        print_message("skipped: only the emulator has a second GPU\n");
        skip();
    }
    hyp_context *context = create(NULL);
    buffers here = make_buffers(2), there = make_buffers(2);
    move(there.x, 1);
    queue_numbers(&here, 1, hyp_context_stream(context));
    OK(run(context, &here, NULL));
    assert_int_equal(run(context, &(buffers){there.x, here.y, 2}, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "'x' lies on GPU 1, and the plan was loaded for GPU 0"));
    move(there.x, 0);
    move(there.y, 1);
    assert_int_equal(run(context, &there, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "'y' lies on GPU 1"));
    assert_true(is_right(&here, 1, hyp_context_stream(context)));
    move(there.y, 0);
    OK(run(context, &there, NULL));
    uint64_t before = asked();
    for (int i = 0; i < 20; i++) OK(run(context, i % 2 ? &here : &there, NULL));
    assert_int_equal(asked(), before); /* what is known costs nothing */
    free_buffers(&here);
    free_buffers(&there);
    hyp_context_destroy(context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stream_can_be_asked_for),
        cmocka_unit_test(events_order_a_run),
        cmocka_unit_test(runs_on_several_streams_follow_each_other),
        cmocka_unit_test(a_run_waits_for_the_one_before_it_on_another_stream),
        cmocka_unit_test(the_default_stream_is_a_stream_too),
        cmocka_unit_test(what_is_bound_runs_on_a_stream_too),
        cmocka_unit_test(with_host_tensors_a_run_ends_before_the_call),
        cmocka_unit_test(a_cpu_has_neither_streams_nor_events),
        cmocka_unit_test(odd_options_are_refused),
        cmocka_unit_test(memory_of_another_gpu_is_an_error),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, load_plan, unload_plan);
    device_close(&dev);
    return failed;
}
