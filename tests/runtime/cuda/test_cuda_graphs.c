/* Graphs of the context's own: when they are made, what runs take after shapes were reserved, and what follows when
 * one cannot be made. On the emulator, which counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cuda/emulator_tells.h"
#include "runtime/cuda/scaled_plan.h"
#include "runtime/cuda/session/replay.h"

static uint64_t (*takes)(void), (*captures)(void);
static size_t (*graphs)(void);
static bool (*inject)(const char *call, int result, int n);

static int find_counters(void **state)
{
    setenv("HYPATIA_EMULATOR", "", 1);
    assert_true(emulator_function("emulator_takes", &takes));
    assert_true(emulator_function("emulator_captures", &captures));
    assert_true(emulator_function("emulator_graphs", &graphs));
    assert_true(emulator_function("emulator_fail", &inject));
    return load_plan(state);
}

static void check_run(hyp_context *context, const buffers *b, float first)
{
    CUstream stream = hyp_context_stream(context);
    queue_numbers(b, first, stream);
    OK(run(context, b, NULL));
    assert_true(is_right(b, first, stream));
}

static void reserve(hyp_context *context, int64_t rows)
{
    hyp_tensor x = tensor_at(0, rows);
    OK(hyp_context_reserve(context, &x, 1, &diag));
}

enum { SETS = 12 };
static buffers sets[SETS];

static void make_sets(int64_t rows)
{
    for (int i = 0; i < SETS; i++) sets[i] = make_buffers(rows);
}

static void free_sets(void)
{
    for (int i = 0; i < SETS; i++) free_buffers(&sets[i]);
}

/* Any number of sets of buffers, in turn and in no order, of two shapes in turn. */
static void after_reserving_no_run_takes_anything(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    buffers other = make_buffers(77);
    uint64_t seed = 1;
    make_sets(20);
    reserve(context, 20);
    reserve(context, 77);
    uint64_t taken = takes(), allocated = hyp_mem_count();
    size_t bytes = hyp_context_memory_bytes(context);
    for (int used = 1; used <= SETS; used++)
        for (int i = 0; i < 8 * used; i++) {
            bool in_turn = i < 4 * used;
            check_run(context, &sets[in_turn ? i % used : (int)random_between(&seed, 0, used - 1)], (float)(i + used));
            if (i % 3 == 0) check_run(context, &other, (float)i);
        }
    for (int i = 0; i < SETS; i++) /* x of one with y of another */
        for (int k = 0; k < 3; k++) check_run(context, &(buffers){sets[i].x, sets[(i + 1) % SETS].y, 20}, (float)k);
    assert_int_equal(takes(), taken);
    assert_int_equal(hyp_mem_count(), allocated);
    assert_int_equal(hyp_context_memory_bytes(context), bytes);
    free_sets();
    free_buffers(&other);
    hyp_context_destroy(context);
}

/* All numbers of rows in a bucket, wherever tensors lie, replay what was made for it: their copies are at one place. */
static void runs_in_a_bucket_have_one_graph(void **state)
{
    (void)state;
    hyp_context *context = create_rounding(32, NULL);
    make_sets(33);
    reserve(context, 20);
    uint64_t taken = takes(), allocated = hyp_mem_count(), captured = captures();
    for (int i = 0; i < 200; i++) {
        const buffers *b = &sets[i % SETS];
        size_t odd = i % 3 == 0 ? 4 : 0;
        check_run(context, &(buffers){b->x + odd, b->y + odd, 1 + i * 7 % 31}, (float)i);
    }
    assert_int_equal(takes(), taken);
    assert_int_equal(hyp_mem_count(), allocated);
    assert_int_equal(captures(), captured + 1); /* one that is there, for the place of the copies */
    for (int i = 0; i < 4; i++) check_run(context, &sets[0], (float)i); /* 33 of 64 */
    for (int i = 0; i < 40; i++) check_run(context, &(buffers){sets[i % 3].x, sets[1].y, 32 - i % 2}, (float)i);
    free_sets();
    hyp_context_destroy(context);
}

/* What else the context does between runs does not undo it: larger shapes move scratch memory. */
static void growth_needs_no_new_graphs(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    buffers b = make_buffers(20);
    reserve(context, 20);
    for (int i = 0; i < 4; i++) check_run(context, &b, (float)i);
    reserve(context, 4000);
    uint64_t taken = takes(), captured = captures();
    for (int i = 0; i < 6; i++) check_run(context, &b, (float)i);
    assert_int_equal(takes(), taken);
    assert_int_equal(captures(), captured + 1); /* and is changed for the new address */
    free_buffers(&b);
    hyp_context_destroy(context);
}

/* Of more sets of buffers than there are graphs, some have theirs and keep it. */
static void buffers_in_turn_do_not_take_graphs_from_each_other(void **state)
{
    (void)state;
    for (int reserved = 0; reserved < 2; reserved++) {
        hyp_context *context = create(NULL);
        make_sets(10);
        if (reserved) reserve(context, 10);
        uint64_t captured = captures();
        for (int i = 0; i < 40 * 6; i++) check_run(context, &sets[i % 6], (float)i);
        assert_int_equal(captures() - captured, HYP_CUDA_REPLAYS);
        /* Others come in their place, for good. */
        for (int i = 0; i < 40 * HYP_CUDA_REPLAYS; i++) check_run(context, &sets[6 + i % HYP_CUDA_REPLAYS], (float)i);
        assert_int_equal(captures() - captured, 2 * HYP_CUDA_REPLAYS);
        assert_int_equal(graphs(), HYP_CUDA_REPLAYS);
        free_sets();
        hyp_context_destroy(context);
        assert_int_equal(graphs(), 0);
    }
}

/* Shapes that only run have graphs when buffers come again. */
static void shapes_that_are_not_reserved_get_graphs_one_by_one(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    make_sets(10);
    for (int i = 0; i < SETS; i++) check_run(context, &sets[i], (float)i);
    assert_int_equal(graphs(), 0);
    for (int i = 0; i < 3; i++) check_run(context, &sets[0], (float)i);
    assert_int_equal(graphs(), 1);
    reserve(context, 10);
    assert_int_equal(graphs(), HYP_CUDA_REPLAYS);
    uint64_t taken = takes();
    for (int i = 0; i < 4 * SETS; i++) check_run(context, &sets[i * i % SETS], (float)i);
    assert_int_equal(takes(), taken);
    free_sets();
    hyp_context_destroy(context);
}

/* Host tensors of the same shapes are other graphs, for they are packed in them. */
static void a_graph_that_cannot_be_changed_is_made_anew(void **state)
{
    (void)state;
    hyp_context *context = create(NULL);
    buffers b = make_buffers(1);
    reserve(context, 1);
    for (int i = 0; i < 6; i++) {
        float in[WIDTH] = {(float)i, 2, 3}, out[WIDTH] = {0};
        hyp_tensor x = {.data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {1, WIDTH}};
        hyp_tensor y = {.data = out, .bytes = sizeof out, .dtype = HYP_F32};
        OK(hyp_context_run(context, &x, 1, &y, 1, &diag));
        for (int k = 0; k < WIDTH; k++) assert_true(out[k] == 4 * in[k]);
        check_run(context, &b, (float)i);
    }
    assert_int_equal(graphs(), HYP_CUDA_REPLAYS);
    free_buffers(&b);
    hyp_context_destroy(context);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void keep_line(const char *line, void *log)
{
    strncat(log, line, 4095 - strlen(log));
    strncat(log, "\n", 4095 - strlen(log));
}

static size_t lines_with(const char *log, const char *text)
{
    size_t count = 0;
    for (const char *at = log; (at = strstr(at, text)); at++) count++;
    return count;
}

/* One call fails, once or twice, while graphs are made or launched: every run is right, the log says why once, and in
 * the end there are graphs. */
static void what_fails_is_told_of_once_and_tried_again(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuStreamBeginCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
                                        "cuGraphUpload",        "cuGraphExecUpdate",           "cuLaunchKernelEx"};
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (int form = 0; form < 4; form++) { /* reserved or not; again when it is tried again */
            static char log[4096];
            char path[PB_PATH];
            hyp_engine *told;
            hyp_context *context;
            bool reserved = form & 1, fails_in_run = strcmp(calls[c], "cuLaunchKernelEx") == 0;
            *log = 0;
            pb_write(&builder, path);
            hyp_engine_options options = {
                .size = sizeof options, .device = HYP_DEVICE_CUDA, .log = keep_line, .log_user = log};
            OK(hyp_engine_load_file(path, &options, &told, &diag));
            unlink(path);
            OK(hyp_context_create(told, NULL, &context, &diag));
            buffers b = make_buffers(9);
            if (!reserved) check_run(context, &b, 1); /* now a graph is what comes next */
            inject(calls[c], CUDA_ERROR_OUT_OF_MEMORY, 1);
            if (reserved) reserve(context, 9);
            for (int i = 0; i < 100; i++) {
                check_run(context, &b, (float)i);
                if (i == 0 && form & 2 && !fails_in_run) inject(calls[c], CUDA_ERROR_OUT_OF_MEMORY, 1);
            }
            bool came = !inject("", 0, 0),
                 of_reserved = strcmp(calls[c], "cuGraphUpload") == 0 || strcmp(calls[c], "cuGraphExecUpdate") == 0;
            assert_true(came || (of_reserved && (!reserved || form & 2)));
            assert_true(graphs() > 0);
            assert_true(lines_with(log, "step by step, until a CUDA graph can be made") <= 1);
            if ((came || reserved) && strcmp(calls[c], "cuGraphExecUpdate") != 0)
                assert_int_equal(lines_with(log, "step by step, until a CUDA graph can be made"), 1);
            free_buffers(&b);
            hyp_context_destroy(context);
            hyp_engine_destroy(told);
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_reserving_no_run_takes_anything),
        cmocka_unit_test(runs_in_a_bucket_have_one_graph),
        cmocka_unit_test(growth_needs_no_new_graphs),
        cmocka_unit_test(buffers_in_turn_do_not_take_graphs_from_each_other),
        cmocka_unit_test(shapes_that_are_not_reserved_get_graphs_one_by_one),
        cmocka_unit_test(a_graph_that_cannot_be_changed_is_made_anew),
        cmocka_unit_test(what_fails_is_told_of_once_and_tried_again),
    };
    if (!device_start(&dev, argc, argv)) return 77;
    int failed = cmocka_run_group_tests(tests, find_counters, unload_plan);
    device_close(&dev);
    return failed;
}
