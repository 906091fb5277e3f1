/* Variables: state that runs change. A plan by hand on every device; AUTO takes what there is, the emulated GPU, too.
 */
#include <stdlib.h>

#include "runtime/variable_plan.h"

static plan_builder b; /* large */
static vp_kind kind; /* of plan that all tests are about */
static const hyp_device_kind devices[] = {HYP_DEVICE_AUTO, HYP_DEVICE_CPU, HYP_DEVICE_REFERENCE};
enum { DEVICES = sizeof devices / sizeof *devices };

static hyp_engine *load_with(hyp_engine_options options)
{
    char path[PB_PATH];
    hyp_engine *e;
    options.size = sizeof options;
    vp_build_with(&b, kind);
    pb_write(&b, path);
    assert_ok(hyp_engine_load_file(path, &options, &e, diag));
    pb_remove(&b, path);
    return e;
}

static hyp_engine *load(hyp_device_kind device) { return load_with((hyp_engine_options){.device = device}); }

static hyp_context *create(hyp_engine *e)
{
    hyp_context *c;
    assert_ok(hyp_context_create(e, NULL, &c, diag));
    return c;
}

/* One run that adds x (1 2 3), and what it gives. */
static void step(hyp_context *c, float x, int64_t rows, float sum, bool keep)
{
    vp_call k;
    vp_set_up(&k, x, rows, 2);
    assert_ok(vp_run(c, &k, keep, diag));
    for (int i = 0; i < VP_W; i++) assert_true(k.y[i] == (1 + sum + x) * (float)(i + 1));
    for (int64_t i = 0; i < rows; i++) assert_true(k.z[i] == k.s[i]);
    assert_true(k.picked == 3 * (1 + sum));
}

static void callers_see_the_rest(void **state)
{
    (void)state;
    static const char *const names[] = {"w", "n", "same", "none"};
    hyp_engine *e = load(HYP_DEVICE_REFERENCE);
    assert_int_equal(hyp_engine_input_count(e), VP_INPUTS);
    assert_int_equal(hyp_engine_output_count(e), VP_OUTPUTS);
    assert_null(hyp_engine_input(e, VP_INPUTS));
    assert_null(hyp_engine_output(e, VP_OUTPUTS));
    assert_int_equal(hyp_engine_variable_count(e), VP_VARIABLES);
    for (size_t i = 0; i < VP_VARIABLES; i++) assert_string_equal(hyp_engine_variable(e, i)->name, names[i]);
    assert_null(hyp_engine_variable(e, VP_VARIABLES));
    assert_int_equal(hyp_engine_variable(e, 0)->dims[0], VP_W);
    assert_int_equal(hyp_engine_variable(e, 1)->dtype, HYP_I64);
    hyp_tensor inputs[VP_INPUTS] = {{.dims = {-1}}, {.dims = {-1}}, {.dims = {-1}}};
    const char *missing;
    assert_ok(hyp_engine_complete_dims(e, inputs, VP_INPUTS, NULL, 0, &missing, diag));
    assert_string_equal(missing, "rows");
    hyp_context *c = create(e);
    hyp_diag why = {0};
    vp_call k;
    vp_set_up(&k, 1, 2, 0);
    k.in[0].name = "w";
    assert_int_equal(vp_run(c, &k, false, &why), HYP_ERR_INVALID_ARGUMENT);
    if (!strstr(why.message, "'w' is a variable of the plan")) fail_msg("%s", why.message);
    hyp_context_destroy(c);
    hyp_engine_destroy(e);
}

static void runs_change_them(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        hyp_engine *e = load(devices[d]);
        hyp_context *c = create(e), *other = create(e);
        float sum = 0;
        vp_check(c, 0, 0);
        for (int i = 0; i < 7; i++) {
            step(c, (float)i, 1 + i % 3, sum, false);
            sum += (float)i;
            step(c, 9, 1 + i % 2, sum, true); /* is computed, and not kept */
            vp_check(c, sum, i + 1);
        }
        vp_check(other, 0, 0); /* each has its own */
        step(other, 4, 2, 0, false);
        vp_check(other, 4, 1);
        assert_ok(hyp_context_variables_reset(c, diag));
        vp_check(c, 0, 0);
        step(c, 2, 2, 0, false);
        vp_check(c, 2, 1);
        vp_check(other, 4, 1);
        hyp_engine_destroy(e); /* contexts stay usable */
        step(c, 2, 2, 2, false);
        vp_check(c, 4, 2);
        hyp_context_destroy(c);
        hyp_context_destroy(other);
    }
}

static void steps_that_are_timed_change_nothing(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        hyp_engine *e = load(devices[d]);
        hyp_context *c = create(e);
        double seconds[16];
        vp_call k;
        vp_set_up(&k, 1, 2, 0);
        assert_ok(
            hyp_context_time_steps(c, k.in, VP_INPUTS, k.out, VP_OUTPUTS, seconds, hyp_engine_step_count(e), diag));
        vp_check(c, 0, 0);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
    }
}

static void a_run_that_fails_changes_nothing(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        hyp_engine *e = load(devices[d]);
        hyp_context *c = create(e);
        hyp_diag why = {0};
        vp_call k;
        step(c, 3, 2, 0, false);
        for (int i = 0; i < 3; i++) {
            vp_set_up(&k, 1, 2, 3); /* w[3] */
            assert_int_equal(vp_run(c, &k, false, &why), HYP_ERR_INVALID_ARGUMENT);
            if (!strstr(why.message, "index 3 ")) fail_msg("%s", why.message);
            vp_check(c, 3, 1);
            vp_set_up(&k, 1, 2, 0);
            k.out[0].bytes = 4; /* no room */
            assert_int_equal(vp_run(c, &k, false, &why), HYP_ERR_INVALID_ARGUMENT);
            hyp_context_cancel(c);
            vp_set_up(&k, 1, 2, 0);
            assert_int_equal(vp_run(c, &k, false, &why), HYP_ERR_CANCELLED);
            vp_check(c, 3, 1);
        }
        step(c, 1, 3, 3, false);
        vp_check(c, 4, 2);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
    }
}

typedef struct stop {
    hyp_context *context;
    size_t at;
    bool asked; /* a step that has nothing to do is not begun on a GPU */
} stop;

static void stop_there(size_t number, void *user)
{
    stop *s = user;
    if (number != s->at) return;
    hyp_context_cancel(s->context);
    s->asked = true;
}

/* Before any of its steps. */
static void a_run_that_is_cancelled_changes_nothing(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        hyp_engine *e = load(devices[d]);
        size_t last = hyp_engine_step_count(e) - 1;
        for (size_t at = 0; at <= last; at++) {
            stop s = {.at = at};
            const hyp_context_options options = {.size = sizeof options, .step_begins = stop_there, .step_user = &s};
            hyp_diag why = {0};
            vp_call k;
            assert_ok(hyp_context_create(e, &options, &s.context, diag));
            vp_set_up(&k, 1, 2, 0);
            hyp_status status = vp_run(s.context, &k, false, &why);
            bool late = at >= last || (kind.in_place && at >= last - 1); /* the commit is done as a whole */
            assert_true(status == HYP_ERR_CANCELLED || (status == HYP_OK && (late || !s.asked)));
            vp_check(s.context, status == HYP_OK, status == HYP_OK);
            hyp_context_destroy(s.context);
        }
        hyp_engine_destroy(e);
    }
}

static hyp_tensor w_tensor(float *w) { return tensor_of("w", HYP_F32, w, 1, (int64_t[]){VP_W}); }

static void what_is_set_is_set_as_a_whole(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        hyp_engine *e = load(devices[d]);
        hyp_context *c = create(e);
        float w[] = {3, 6, 9, 12};
        int64_t n = 40;
        hyp_tensor given[] = {w_tensor(w), tensor_of("n", HYP_I64, &n, 0, NULL)};
        hyp_diag why = {0};
        assert_ok(hyp_context_variable_set(c, given, 1, diag));
        vp_check(c, 2, 0);
        step(c, 1, 2, 2, false);
        vp_check(c, 3, 1);
        assert_ok(hyp_context_variable_set(c, given + 1, 1, diag)); /* the two lie in different halves now */
        vp_check(c, 3, 40);
        step(c, 1, 2, 3, false);
        step(c, 1, 2, 4, false);
        vp_check(c, 5, 42);
        const hyp_tensor bad[] = {
            tensor_of("n", HYP_I32, &n, 0, NULL),
            tensor_of("n", HYP_I64, &n, 1, (int64_t[]){1}),
            tensor_of("w", HYP_F32, w, 1, (int64_t[]){VP_W + 1}),
            {.name = "n", .dtype = HYP_I64, .bytes = sizeof n},
            {.name = "n", .dtype = HYP_I64, .bytes = 4, .data = &n},
            tensor_of("x", HYP_F32, w, 1, (int64_t[]){VP_W}),
            w_tensor(w), /* twice */
            {.name = "n", .dtype = HYP_I64, .bytes = sizeof n, .data = &n, .memory = (hyp_memory)9},
            {.name = "n", .dtype = HYP_I64, .bytes = sizeof n, .data = &n, .reserved = 1},
        };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            given[1] = bad[i];
            if (hyp_context_variable_set(c, given, 2, &why) == HYP_OK) fail_msg("tensor %zu was taken", i);
            vp_check(c, 5, 42);
        }
        hyp_tensor nowhere = {.name = "n", .dtype = HYP_I64, .memory = HYP_MEMORY_CONTEXT};
        assert_int_equal(hyp_context_variable_get(c, &nowhere, 1, &why), HYP_ERR_INVALID_ARGUMENT);
        nowhere = (hyp_tensor){.name = "m", .dtype = HYP_I64, .data = &n, .bytes = sizeof n};
        assert_int_equal(hyp_context_variable_get(c, &nowhere, 1, &why), HYP_ERR_INVALID_ARGUMENT);
        if (!strstr(why.message, "no variable 'm'")) fail_msg("%s", why.message);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
    }
}

static void they_come_and_go_in_the_memory_of_the_device(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        hyp_engine *e = load(devices[d]);
        hyp_context *from = create(e), *to = create(e);
        hyp_tensor w = {.name = "w", .dtype = HYP_F32, .bytes = VP_W * sizeof(float)};
        assert_ok(hyp_engine_tensor_alloc(e, &w, diag));
        step(from, 6, 2, 0, false);
        assert_ok(hyp_context_variable_get(from, &w, 1, diag));
        assert_ok(hyp_context_variable_set(to, &w, 1, diag));
        vp_check(to, 6, 0);
        hyp_context_destroy(from);
        hyp_context_destroy(to);
        hyp_engine_tensor_free(e, &w);
        hyp_engine_destroy(e);
    }
}

/* On the device, too, where all alternatives of each step are run. */
static void tuning_leaves_them_as_they_are(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) { /* the reference has nothing to tune */
        hyp_engine *e = load(devices[d]);
        hyp_context *c = create(e);
        const hyp_tune_options options = {.size = sizeof options, .seconds = 0.2};
        vp_call k;
        step(c, 3, 2, 0, false);
        vp_set_up(&k, 1, 2, 0);
        assert_ok(hyp_context_tune(c, k.in, VP_INPUTS, &options, NULL, diag));
        vp_check(c, 3, 1);
        step(c, 1, 2, 3, false);
        vp_check(c, 4, 2);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
    }
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* Two places of 256 bytes for each that has elements, one for each of the two that may be updated in place. */
static size_t state_bytes(void) { return (kind.in_place ? 1 + 1 + 2 : 2 * 3) * 256; }

static void they_count_as_memory_of_the_context(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        hyp_engine *e = load(devices[d]);
        hyp_context *c = create(e), *small = NULL;
        hyp_diag why = {0};
        vp_call k;
        size_t needed, bytes = hyp_context_memory_bytes(c);
        assert_in_range(bytes, state_bytes(), SIZE_MAX / 2);
        hyp_context_options options = {.size = sizeof options, .memory_limit = state_bytes() / 2};
        assert_int_equal(hyp_context_create(e, &options, &small, &why), HYP_ERR_LIMIT);
        assert_null(small);
        vp_set_up(&k, 1, 2, 0);
        assert_ok(hyp_context_memory_needed(c, k.in, VP_INPUTS, &needed, diag));
        assert_in_range(needed, bytes, SIZE_MAX / 2);
        assert_ok(hyp_context_reserve(c, k.in, VP_INPUTS, diag));
        vp_check(c, 0, 0);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
    }
}

typedef struct given {
    size_t bytes;
    size_t most; /* at once */
} given;

static void *give(size_t bytes, size_t alignment, void *user)
{
    given *g = user;
    void *data = NULL;
    if (posix_memalign(&data, alignment, bytes) != 0) return NULL;
    g->bytes += bytes;
    if (bytes > g->most) g->most = bytes;
    return data;
}

static void take_back(void *data, size_t bytes, size_t alignment, void *user)
{
    (void)alignment;
    ((given *)user)->bytes -= bytes;
    free(data);
}

static void they_lie_in_memory_of_the_allocator(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        given g = {0};
        const hyp_allocator allocator = {.size = sizeof allocator, .alloc = give, .free = take_back, .user = &g};
        hyp_engine *e = load_with((hyp_engine_options){.device = host_devices[d], .allocator = &allocator});
        hyp_context *c = create(e);
        assert_in_range(g.most, state_bytes(), SIZE_MAX / 2);
        step(c, 1, 2, 0, false);
        vp_check(c, 1, 1);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
        assert_int_equal(g.bytes, 0);
    }
}

static hyp_status do_all(hyp_engine *e, hyp_context **c, hyp_diag *diag)
{
    float w[] = {3, 6, 9};
    hyp_tensor t = w_tensor(w);
    vp_call k;
    vp_set_up(&k, 1, 2, 0);
    HYP_TRY(hyp_context_create(e, NULL, c, diag));
    HYP_TRY(vp_run(*c, &k, false, diag));
    HYP_TRY(hyp_context_variable_set(*c, &t, 1, diag));
    HYP_TRY(hyp_context_variable_get(*c, &t, 1, diag));
    return hyp_context_variables_reset(*c, diag);
}

static void every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        hyp_engine *e = load(devices[d]);
        for (uint64_t n = 1;; n++) {
            hyp_context *c = NULL;
            hyp_diag why = {0};
            hyp_mem_fail_after(n);
            hyp_status status = do_all(e, &c, &why);
            hyp_mem_fail_after(0);
            if (status == HYP_OK) vp_check(c, 0, 0);
            hyp_context_destroy(c);
            if (status == HYP_OK) break;
            if (status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, why.message);
            assert_true(n < 10000);
        }
        hyp_engine_destroy(e);
    }
}

/* ---- plans ----------------------------------------------------------------------------------------------------- */

/* Nothing goes in, nothing comes out, and yet it counts. */
static void a_plan_may_have_nothing_else(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        static HypPlan__Variable v;
        static HypPlan__Variable *list[] = {&v};
        hyp_plan__variable__init(&v);
        v.output_plus1 = 1;
        pb_init(&b);
        uint32_t one = pb_const(&b, 1), n = pb_input(&b, "n", HYP_I64, 1, &one);
        uint32_t after = pb_output(&b, "n", HYP_I64, 1, &one);
        vp_sum(&b, HYP_I64, 1, one, n, PB_NONE, 1, 1, &after);
        b.program.variables = list;
        b.program.n_variables = 1;
        hyp_engine *e = pb_load(&b, devices[d]);
        hyp_context *c = create(e);
        int64_t count = -1;
        hyp_tensor t = {.data = &count, .bytes = sizeof count, .dtype = HYP_I64}; /* by position */
        assert_int_equal(hyp_engine_input_count(e), 0);
        assert_int_equal(hyp_engine_output_count(e), 0);
        for (int i = 0; i < 5; i++) assert_ok(hyp_context_run(c, NULL, 0, NULL, 0, diag));
        assert_ok(hyp_context_run_bound(c, diag));
        assert_ok(hyp_context_variable_get(c, &t, 1, diag));
        assert_int_equal(count, 6);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
        pb_dispose(&b);
    }
}

/* Counts of outputs stand between those that are shown and those of variables. */
static void outputs_may_be_cut_beside_them(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        static HypPlan__Variable v;
        static HypPlan__Variable *list[] = {&v};
        static HypPlan__DataSize size;
        static HypPlan__DataSize *sizes[] = {&size};
        pb_init(&b);
        uint32_t four = pb_const(&b, 4), one = pb_const(&b, 1);
        uint32_t x = pb_input(&b, "x", HYP_I32, 1, &four), c = pb_input(&b, "c", HYP_I64, 0, NULL);
        uint32_t n = pb_input(&b, "n", HYP_I64, 0, NULL), y = pb_output(&b, "y", HYP_I32, 1, &four);
        uint32_t count = pb_output(&b, "y_count", HYP_I64, 0, NULL), after = pb_output(&b, "n", HYP_I64, 0, NULL);
        pb_copy_all(&b, x, y, four);
        pb_copy_all(&b, c, count, one);
        vp_sum(&b, HYP_I64, 0, one, n, PB_NONE, 1, 1, &after);
        hyp_plan__data_size__init(&size);
        size.count = 1;
        b.program.data_sizes = sizes;
        b.program.n_data_sizes = b.program.hidden_outputs = 1;
        hyp_plan__variable__init(&v);
        v.input = 2;
        v.output_plus1 = 3;
        b.program.variables = list;
        b.program.n_variables = 1;
        v.in_place = true; /* that output is cut when the run has ended */
        assert_int_equal(hyp_plan_validate(&b.program, NULL), HYP_ERR_MALFORMED);
        v.in_place = false;
        hyp_engine *e = pb_load(&b, devices[d]);
        hyp_context *context = create(e);
        int32_t in[] = {1, 2, 3, 4}, out[4];
        int64_t most = 3, runs = -1;
        hyp_tensor inputs[] = {tensor_of("x", HYP_I32, in, 1, (int64_t[]){4}), tensor_of("c", HYP_I64, &most, 0, NULL)};
        hyp_tensor output = tensor_of("y", HYP_I32, out, 1, (int64_t[]){4}),
                   got = tensor_of("n", HYP_I64, &runs, 0, NULL);
        assert_int_equal(hyp_engine_output_count(e), 1);
        assert_ok(hyp_context_run(context, inputs, 2, &output, 1, diag));
        assert_int_equal(output.dims[0], 3);
        output.bytes = 8; /* what only the end of the run shows to be too little: it has changed nothing */
        hyp_diag why = {0};
        assert_int_equal(hyp_context_run(context, inputs, 2, &output, 1, &why), HYP_ERR_INVALID_ARGUMENT);
        assert_ok(hyp_context_variable_get(context, &got, 1, diag));
        assert_int_equal(runs, 1);
        hyp_context_destroy(context);
        hyp_engine_destroy(e);
        pb_dispose(&b);
    }
}

static void a_plan_without_any_says_so(void **state)
{
    (void)state;
    pb_init(&b);
    uint32_t one = pb_const(&b, 1);
    uint32_t x = pb_input(&b, "x", HYP_F32, 1, &one), y = pb_output(&b, "y", HYP_F32, 1, &one);
    pb_copy_all(&b, x, y, one);
    hyp_engine *e = pb_load(&b, HYP_DEVICE_CPU);
    hyp_context *c = create(e);
    float w[3] = {0};
    hyp_tensor t = w_tensor(w);
    hyp_diag why = {0};
    assert_int_equal(hyp_engine_variable_count(e), 0);
    assert_int_equal(hyp_context_variable_set(c, &t, 1, &why), HYP_ERR_INVALID_ARGUMENT);
    if (!strstr(why.message, "the plan has no variables")) fail_msg("%s", why.message);
    assert_int_equal(hyp_context_variable_get(c, &t, 1, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_ok(hyp_context_variable_get(c, NULL, 0, diag));
    assert_ok(hyp_context_variables_reset(c, diag));
    hyp_context_destroy(c);
    hyp_engine_destroy(e);
    pb_dispose(&b);
}

static int twice(void **state)
{
    (void)state;
    kind.in_place = false;
    return 0;
}

static int in_place(void **state)
{
    (void)state;
    kind.in_place = true;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_see_the_rest),
        cmocka_unit_test(runs_change_them),
        cmocka_unit_test(steps_that_are_timed_change_nothing),
        cmocka_unit_test(a_run_that_fails_changes_nothing),
        cmocka_unit_test(a_run_that_is_cancelled_changes_nothing),
        cmocka_unit_test(what_is_set_is_set_as_a_whole),
        cmocka_unit_test(they_come_and_go_in_the_memory_of_the_device),
        cmocka_unit_test(they_count_as_memory_of_the_context),
        cmocka_unit_test(they_lie_in_memory_of_the_allocator),
        cmocka_unit_test(every_failed_allocation_is_an_error),
        cmocka_unit_test(a_plan_may_have_nothing_else),
        cmocka_unit_test(outputs_may_be_cut_beside_them),
        cmocka_unit_test(a_plan_without_any_says_so),
        cmocka_unit_test(tuning_leaves_them_as_they_are),
    };
    int failed = cmocka_run_group_tests_name("twice", tests, twice, NULL);
    return failed + cmocka_run_group_tests_name("in place", tests, in_place, NULL);
}
