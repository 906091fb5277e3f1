/* Weights that are replaced in an engine while it runs. Results are judged by integers. On a CUDA device, too, where
 * there is one, or the emulator. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "runtime/updatable.h"
/* behind cmocka.h */
#include "runtime/cuda/emulator_tells.h"

static up_plan plan;
static up_version old, new;
static char path[PB_PATH];
static hyp_device_kind devices[3] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};
static size_t device_count = 2;

static hyp_engine *load(hyp_device_kind device, uint64_t memory_limit)
{
    const hyp_engine_options options = {
        .size = sizeof options, .device = device, .threads = 1, .memory_limit = memory_limit};
    hyp_engine *engine = NULL;
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    return engine;
}

static hyp_status put(hyp_engine *engine, up_version *v, hyp_diag *diag)
{
    hyp_tensor tensors[UP_WEIGHTS];
    up_tensors(v, tensors);
    return hyp_engine_update(engine, tensors, UP_WEIGHTS, diag);
}

static void must_give(hyp_context *context, int64_t rows, const up_version *v)
{
    float y[UP_MOST_ROWS * UP_OUT], wanted[UP_MOST_ROWS * UP_OUT];
    assert_ok(up_run(context, rows, y, diag));
    up_expect(v, rows, wanted);
    assert_memory_equal(y, wanted, (size_t)(rows * UP_OUT) * sizeof *y);
}

static int start(void **state)
{
    (void)state;
    up_draw(1, &old);
    up_draw(2, &new);
    up_build(&plan, &old, 0);
    pb_write(&plan.outer, path);
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA};
    hyp_engine *engine;
    hyp_diag why = {0};
    if (hyp_engine_load_file(path, &options, &engine, &why) == HYP_OK) {
        devices[device_count++] = HYP_DEVICE_CUDA;
        hyp_engine_destroy(engine);
    } else {
        print_message("without CUDA: %s\n", why.message);
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    pb_remove(&plan.outer, path);
    return 0;
}

/* Shapes that were prepared before are right afterwards, in contexts old and new; other engines keep their weights. */
static void runs_are_with_the_new_weights(void **state)
{
    (void)state;
    for (size_t d = 0; d < device_count; d++) {
        hyp_engine *engine = load(devices[d], 0), *other = load(devices[d], 0);
        hyp_context *before, *after, *elsewhere;
        assert_ok(hyp_context_create(engine, NULL, &before, diag));
        assert_ok(hyp_context_create(other, NULL, &elsewhere, diag));
        for (int round = 0; round < 4; round++) { /* on a GPU ops, then a graph */
            must_give(before, 3, &old);
            must_give(before, UP_MOST_ROWS, &old);
        }
        assert_int_equal(hyp_engine_weight_count(engine), UP_WEIGHTS);
        assert_string_equal(hyp_engine_weight(engine, 0)->name, "w1");
        assert_int_equal(hyp_engine_weight(engine, 0)->dims[1], UP_HIDDEN);
        assert_null(hyp_engine_weight(engine, UP_WEIGHTS));
        assert_ok(put(engine, &new, diag));
        assert_ok(hyp_context_create(engine, NULL, &after, diag));
        for (int round = 0; round < 4; round++) {
            must_give(before, 3, &new);
            must_give(after, 1, &new);
            must_give(before, UP_MOST_ROWS, &new);
            must_give(elsewhere, 3, &old);
        }
        hyp_context_destroy(after);
        hyp_engine_destroy(engine); /* the context holds what it needs */
        must_give(before, 3, &new);
        hyp_context_destroy(before);
        hyp_context_destroy(elsewhere);
        hyp_engine_destroy(other);
    }
}

/* What is not replaced stays, also in a second update. */
static void some_weights_may_be_replaced(void **state)
{
    (void)state;
    for (size_t d = 0; d < device_count; d++) {
        hyp_engine *engine = load(devices[d], 0);
        hyp_context *context;
        hyp_tensor tensors[UP_WEIGHTS];
        up_version now = old;
        up_tensors(&new, tensors);
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        assert_ok(hyp_engine_update(engine, &tensors[3], 1, diag));
        memcpy(now.w2, new.w2, sizeof now.w2);
        must_give(context, 5, &now);
        assert_ok(hyp_engine_update(engine, &tensors[0], 1, diag));
        memcpy(now.w1, new.w1, sizeof now.w1);
        must_give(context, 5, &now);
        assert_ok(hyp_engine_update(engine, &tensors[1], 2, diag));
        must_give(context, 5, &new);
        assert_ok(hyp_engine_update(engine, NULL, 0, diag));
        must_give(context, 5, &new);
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

static void refused(hyp_engine *engine, const hyp_tensor *tensors, size_t count, const char *text)
{
    hyp_diag why = {0};
    assert_int_equal(hyp_engine_update(engine, tensors, count, &why), HYP_ERR_INVALID_ARGUMENT);
    if (!strstr(why.message, text)) fail_msg("'%s' is not in: %s", text, why.message);
}

static void what_does_not_fit_is_refused_whole(void **state)
{
    (void)state;
    hyp_engine *engine = load(HYP_DEVICE_CPU, 0);
    hyp_context *context;
    hyp_tensor t[UP_WEIGHTS + 1];
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    up_tensors(&new, t);
    t[UP_WEIGHTS] = t[0];
    refused(engine, t, UP_WEIGHTS + 1, "given twice");
    refused(engine, t, 2, "'b' and 'c'");
    t[3].name = "w3";
    refused(engine, t, UP_WEIGHTS, "no updatable weight 'w3'");
    t[3].name = NULL;
    refused(engine, t, UP_WEIGHTS, "by name");
    t[3].name = "w2";
    t[3].dims[0] = UP_OUT - 1;
    refused(engine, t, UP_WEIGHTS, "'w2' f32 [10, 50] was given as f32 [9, 50]");
    t[3].dims[0] = UP_OUT;
    t[3].dtype = HYP_F16;
    refused(engine, t, UP_WEIGHTS, "f16");
    t[3].dtype = HYP_F32;
    t[3].bytes -= 4;
    refused(engine, t, UP_WEIGHTS, "2000 bytes");
    t[3].bytes += 4;
    t[3].memory = HYP_MEMORY_CUDA;
    refused(engine, t, UP_WEIGHTS, "in memory of another device");
    t[3].memory = HYP_MEMORY_HOST;
    t[3].bytes -= 4;
    t[3].bytes += 4;
    t[3].data = NULL;
    refused(engine, t, UP_WEIGHTS, "'w2'");
    refused(engine, NULL, 1, "NULL");
    refused(NULL, t, 1, "NULL");
    must_give(context, 4, &old);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    assert_int_equal(hyp_engine_weight_count(NULL), 0);
    assert_null(hyp_engine_weight(NULL, 0));
}

/* Both are there until the last context has run again; a limit holds for both, and what goes beyond it leaves the old
 * ones. */
static void memory_counts_old_and_new(void **state)
{
    enum { SLACK = 512 /* the system's blocks are not always of one size */, ROOM = 200000, MOST = 60 };
    (void)state;
    for (size_t d = 0; d < device_count; d++) {
        hyp_engine *engine = load(devices[d], 0);
        hyp_context *context;
        hyp_diag why = {0};
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        must_give(context, 3, &old);
        assert_ok(put(engine, &new, diag));
        must_give(context, 3, &new);
        size_t one = hyp_engine_memory_bytes(engine); /* what is replaced has memory from now on, beside the plan */
        for (int i = 0; i < 30; i++) {
            assert_ok(put(engine, i % 2 ? &new : &old, diag));
            size_t two = hyp_engine_memory_bytes(engine);
            assert_true(two >= one + sizeof old - sizeof old.b);
            must_give(context, 3, i % 2 ? &new : &old);
            assert_in_range(hyp_engine_memory_bytes(engine), one - SLACK, one + SLACK);
        }
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);

        engine = load(devices[d], 0);
        size_t loaded = hyp_engine_memory_bytes(engine), editions = 0;
        hyp_engine_destroy(engine);
        engine = load(devices[d], loaded + ROOM);
        hyp_context *idle[MOST];
        hyp_status status = HYP_OK;
        for (; status == HYP_OK && editions < MOST; editions++) { /* each context keeps the one of its last run */
            assert_ok(hyp_context_create(engine, NULL, &idle[editions], diag));
            must_give(idle[editions], 3, editions % 2 ? &new : &old);
            status = put(engine, editions % 2 ? &old : &new, &why);
        }
        assert_int_equal(status, HYP_ERR_LIMIT);
        assert_non_null(strstr(why.message, "memory_limit"));
        must_give(idle[0], 3, editions % 2 ? &old : &new);
        while (editions-- > 0) hyp_context_destroy(idle[editions]);
        hyp_engine_destroy(engine);
    }
}

/* Every allocation fails once in an update and in the run after it: either all weights are the new ones or none. */
static void running_out_of_memory_leaves_one_or_the_other(void **state)
{
    (void)state;
    for (size_t d = 0; d < device_count; d++) {
        hyp_engine *engine = load(devices[d], 0);
        hyp_context *context;
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        hyp_status status = HYP_ERR_NO_MEMORY;
        must_give(context, 3, &old);
        for (uint64_t n = 1; status != HYP_OK; n++) {
            float y[UP_MOST_ROWS * UP_OUT];
            hyp_diag why = {0};
            assert_true(n < 2000);
            hyp_mem_fail_after(n);
            hyp_status updated = status = put(engine, &new, &why);
            if (status == HYP_OK) status = up_run(context, 3, y, &why);
            hyp_mem_fail_after(0);
            if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, why.message);
            must_give(context, 3, updated == HYP_OK ? &new : &old);
            if (updated == HYP_OK) assert_ok(put(engine, &old, diag));
            must_give(context, 3, &old);
        }
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

static hyp_status tune(hyp_context *context, hyp_diag *diag)
{
    const hyp_tune_options options = {.size = sizeof options, .seconds = 1e-9};
    hyp_tensor x = tensor_of("x", HYP_F32, NULL, 2, (int64_t[]){UP_MOST_ROWS, UP_IN});
    return hyp_context_tune(context, &x, 1, &options, NULL, diag);
}

/* Loads, prepares, runs, tunes, shares what was found, updates, runs: a result that there is must be right. */
static hyp_status live(hyp_device_kind device, bool tunes, hyp_diag *diag)
{
    const hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    const up_version *now = &old;
    hyp_engine *engine = NULL;
    hyp_context *context = NULL, *other = NULL;
    float y[UP_MOST_ROWS * UP_OUT], wanted[UP_MOST_ROWS * UP_OUT];
    hyp_tensor x = tensor_of("x", HYP_F32, NULL, 2, (int64_t[]){3, UP_IN});
    hyp_status status = hyp_engine_load_file(path, &options, &engine, diag);
    if (status == HYP_OK) status = hyp_context_create(engine, NULL, &context, diag);
    if (status == HYP_OK) status = hyp_context_create(engine, NULL, &other, diag);
    if (status == HYP_OK) status = hyp_context_reserve(context, &x, 1, diag);
    if (status == HYP_OK) status = up_run(other, UP_MOST_ROWS, y, diag);
    if (status == HYP_OK && tunes) status = tune(context, diag);
    if (status == HYP_OK && tunes) status = hyp_context_share_tuning(context, diag);
    if (status == HYP_OK && tunes) status = hyp_context_adopt_tuning(other, NULL, diag);
    for (int i = 0; i < 3 && status == HYP_OK; i++) { /* on a GPU op by op, captured, replayed */
        status = up_run(context, UP_MOST_ROWS, y, diag);
        up_expect(now, UP_MOST_ROWS, wanted);
        if (status == HYP_OK) assert_memory_equal(y, wanted, sizeof y);
        if (status == HYP_OK && i == 0) status = put(engine, &new, diag);
        now = &new;
    }
    if (status == HYP_OK) status = up_run(other, UP_MOST_ROWS, y, diag);
    if (status == HYP_OK) assert_memory_equal(y, wanted, sizeof y);
    hyp_context_destroy(context);
    hyp_context_destroy(other);
    hyp_engine_destroy(engine);
    return status;
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        hyp_status status = HYP_ERR_NO_MEMORY;
        uint64_t n = 1;
        for (; status != HYP_OK; n++) {
            hyp_diag why = {0};
            assert_true(n < 5000);
            hyp_mem_fail_after(n);
            status = live(devices[d], devices[d] == HYP_DEVICE_CPU, &why);
            hyp_mem_fail_after(0);
            if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, why.message);
        }
        print_message("device %d: %d allocations\n", (int)devices[d], (int)n - 2);
    }
}

/* So does every call that takes something of the device: what is needed is an error, what is not is done without. */
static void everything_that_a_device_gives_fails_once(void **state)
{
    (void)state;
    static const char *const calls[] = {
        "cuMemAlloc",    "cuMemHostAlloc",     "cuMemcpyHtoDAsync", "cuStreamCreateWithPriority",
        "cuEventCreate", "cuGraphInstantiate", "cuGraphLaunch"};
    bool (*fail_call)(const char *call, int result, int n) = NULL;
    if (device_count <= 2 || !emulator_function("emulator_fail", &fail_call)) {
        print_message("skipped: there is no emulator\n");
        skip();
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int n = 1;
        for (bool met = true; met; n++) {
            hyp_diag why = {0};
            assert_true(n < 500);
            fail_call(calls[i], 2 /* CUDA_ERROR_OUT_OF_MEMORY */, n);
            hyp_status status = live(HYP_DEVICE_CUDA, false, &why);
            met = !fail_call("", 0, 0);
            if (status != HYP_OK && (!met || status != HYP_ERR_NO_MEMORY))
                fail_msg("%s %d: status %d, %s", calls[i], n, (int)status, why.message);
        }
        print_message("%s: %d times\n", calls[i], n - 2);
    }
}

/* The memory of a device that runs out in an update: either all weights are the new ones or none. */
static void a_device_without_memory_leaves_one_or_the_other(void **state)
{
    (void)state;
    bool (*fail_call)(const char *call, int result, int n) = NULL;
    if (device_count <= 2 || !emulator_function("emulator_fail", &fail_call)) {
        print_message("skipped: there is no emulator\n");
        skip();
    }
    hyp_engine *engine = load(HYP_DEVICE_CUDA, 0);
    hyp_context *context;
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    must_give(context, 3, &old);
    size_t before = hyp_engine_memory_bytes(engine);
    static const char *const calls[] = {"cuMemAlloc", "cuMemcpyHtoDAsync"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        hyp_diag why = {0};
        fail_call(calls[i], 2 /* CUDA_ERROR_OUT_OF_MEMORY */, 1);
        assert_int_equal(put(engine, &new, &why), HYP_ERR_NO_MEMORY);
        assert_false(fail_call("", 0, 0));
        must_give(context, 3, &old);
        assert_int_equal(hyp_engine_memory_bytes(engine), before);
    }
    assert_ok(put(engine, &new, diag));
    must_give(context, 3, &new);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

/* Plans whose updates are wrong are refused when they are loaded, or give wrong numbers at worst. */
static void damaged_updates_are_refused(void **state)
{
    (void)state;
    static up_plan wrong;
    for (int damage = 0; damage < 4; damage++) {
        char at[PB_PATH];
        hyp_engine *engine = NULL;
        hyp_diag why = {0};
        const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = 1};
        up_build(&wrong, &old, 0);
        HypPlan__Update *u = &wrong.updates[0];
        if (damage == 0) u->plan.len /= 2;
        if (damage == 1) u->n_pieces = 0;
        if (damage == 2)
            wrong.updates[2].pieces[0] = u->pieces[0]; /* w2 into the smaller w1: the wrong bytes, no more */
        if (damage == 3) wrong.pieces[0].tensor = wrong.pieces[1].tensor; /* w1 into the bias, which has less room */
        pb_write(&wrong.outer, at);
        hyp_status status = hyp_engine_load_file(at, &options, &engine, &why);
        if (damage < 2) {
            assert_int_equal(status, HYP_ERR_MALFORMED);
            assert_non_null(strstr(why.message, "update 0 of weights"));
        } else {
            hyp_status updated = status == HYP_OK ? put(engine, &new, &why) : status;
            assert_int_equal(updated, damage == 2 ? HYP_OK : HYP_ERR_INVALID_ARGUMENT);
        }
        hyp_engine_destroy(engine);
        pb_remove(&wrong.outer, at);
    }
}

/* An update whose result is the next value of a variable, or a number for the runtime, gives its caller nothing. */
static void updates_whose_results_are_hidden_are_refused(void **state)
{
    (void)state;
    static up_plan wrong;
    static HypPlan__Variable variable, *list = &variable;
    static const char *const says[] = {"its plan has 1 variables", "its plan has 0 outputs for 1 pieces"};
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .threads = 1};
    for (int counts = 0; counts < 2; counts++) {
        char at[PB_PATH];
        hyp_engine *engine = NULL;
        hyp_diag why = {0};
        up_build(&wrong, &old, 0);
        plan_builder *u = &wrong.inner;
        pb_init(u);
        uint32_t from = pb_input(u, "w2", HYP_I64, 0, NULL);
        pb_copy_all(u, from, pb_output(u, "=> 0", HYP_I64, 0, NULL), pb_const(u, 1));
        hyp_plan__variable__init(&variable);
        variable.output_plus1 = 1;
        u->program.variables = &list;
        u->program.n_variables = counts ? 0 : 1;
        u->program.hidden_outputs = counts;
        up_add(&wrong, 2, wrong.pieces[2].tensor);
        pb_write(&wrong.outer, at);
        assert_int_equal(hyp_engine_load_file(at, &options, &engine, &why), HYP_ERR_MALFORMED);
        assert_non_null(strstr(why.message, "update 2 of weights"));
        assert_non_null(strstr(why.message, says[counts]));
        pb_remove(&wrong.outer, at);
    }
}

/* What an update computes in between counts to the engine's limit, too: here w2, 5000 times. */
static void what_an_update_needs_is_limited(void **state)
{
    (void)state;
    static up_plan wide;
    char at[PB_PATH];
    up_build(&wide, &old, 0);
    plan_builder *u = &wide.inner;
    pb_init(u);
    uint32_t out = pb_const(u, UP_OUT), hidden = pb_const(u, UP_HIDDEN), all = pb_const(u, UP_OUT * UP_HIDDEN),
             times = pb_const(u, 5000), zero = pb_const(u, 0), one = pb_const(u, 1);
    uint32_t from = pb_input(u, "w2", HYP_F32, 2, (uint32_t[]){out, hidden});
    HypPlan__Copy *copy = pb_copy(u);
    copy->x = from;
    copy->y = pb_scratch(u, HYP_F32, 0, 2, (uint32_t[]){times, all});
    copy->n_extents = copy->n_x_strides = copy->n_y_strides = 2;
    copy->extents = (uint32_t[]){times, all};
    copy->x_strides = (uint32_t[]){zero, one};
    copy->y_strides = (uint32_t[]){all, one};
    copy->x_offset = copy->y_offset = zero;
    pb_copy_all(u, from, pb_output(u, "=> 0", HYP_F32, 2, (uint32_t[]){out, hidden}), all);
    up_add(&wide, 2, wide.pieces[2].tensor);
    pb_write(&wide.outer, at);
    for (int limited = 0; limited < 2; limited++) {
        const hyp_engine_options options = {
            .size = sizeof options, .device = HYP_DEVICE_CPU, .threads = 1, .memory_limit = limited ? 1 << 20 : 0};
        hyp_engine *engine;
        hyp_diag why = {0};
        assert_ok(hyp_engine_load_file(at, &options, &engine, diag));
        assert_int_equal(put(engine, &new, &why), limited ? HYP_ERR_LIMIT : HYP_OK);
        if (limited) assert_non_null(strstr(why.message, "memory_limit"));
        hyp_engine_destroy(engine);
    }
    pb_remove(&wide.outer, at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_with_the_new_weights),
        cmocka_unit_test(some_weights_may_be_replaced),
        cmocka_unit_test(what_does_not_fit_is_refused_whole),
        cmocka_unit_test(memory_counts_old_and_new),
        cmocka_unit_test(running_out_of_memory_leaves_one_or_the_other),
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(everything_that_a_device_gives_fails_once),
        cmocka_unit_test(a_device_without_memory_leaves_one_or_the_other),
        cmocka_unit_test(damaged_updates_are_refused),
        cmocka_unit_test(updates_whose_results_are_hidden_are_refused),
        cmocka_unit_test(what_an_update_needs_is_limited),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
