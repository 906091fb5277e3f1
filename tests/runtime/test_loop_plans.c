/* Plans with loops that are run, made by hand: bodies that do not fit, and state around a loop. What compiled ones
 * compute and cost is in tests/driver. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/loop.h"
#include "runtime/support.h"

enum { SIZE = 3, ATTRIBUTES = 4 };

static plan_builder body, around; /* large */

/* ---- a body ---------------------------------------------------------------------------------------------------- */

/* What is wrong with it; nothing where all is 0. */
typedef struct body_kind {
    uint8_t more; /* the byte that says whether there is another trip; 0: 1 */
    bool trip_is_float, more_is_float, narrow, short_axis, second_axis, lacks_condition, second_result, variable,
        any_size;
} body_kind;

static void add_one(plan_builder *b, uint32_t x, uint32_t y, uint32_t extent)
{
    uint32_t one = pb_const(b, 1);
    HypPlan__Pointwise *sum = pb_pointwise(b, HYP_F32, 1, &extent);
    pb_operand(b, sum, x, &one);
    uint32_t number = pb_instr(b, sum, HYP_PLAN__POINTWISE__OP__CONST, 0, 0, 1, 0, HYP_F32);
    pb_result(b, sum, y, pb_instr(b, sum, HYP_PLAN__POINTWISE__OP__ADD, 0, number, 0, 0, HYP_F32));
}

/* A variable that every run adds one to, in place: the last of the steps. */
static void add_variable(plan_builder *b, uint32_t before, uint32_t after, uint32_t extent)
{
    static HypPlan__Variable variable, *list[] = {&variable};
    hyp_plan__variable__init(&variable);
    variable.input = (uint32_t)b->program.n_inputs - 1;
    variable.output_plus1 = (uint32_t)b->program.n_outputs;
    variable.in_place = true;
    b->program.variables = list;
    b->program.n_variables = 1;
    add_one(b, before, after, extent);
}

/* h + 1, for as many trips as there may be. */
static void build_body(body_kind kind)
{
    plan_builder *b = &body;
    const uint8_t more[4] = {kind.more ? kind.more : 1};
    pb_init(b);
    uint32_t one = pb_const(b, 1);
    uint32_t size = kind.any_size ? pb_symbol(b, "n") : pb_const(b, kind.short_axis ? SIZE - 1 : SIZE);
    const hyp_dtype type = kind.narrow ? HYP_F16 : HYP_F32, flag = kind.more_is_float ? HYP_F32 : HYP_BOOL;
    const uint32_t dims[] = {size, one};
    pb_input(b, "trip", kind.trip_is_float ? HYP_F32 : HYP_I64, 0, NULL);
    if (!kind.lacks_condition) pb_input(b, "go", HYP_BOOL, 0, NULL);
    uint32_t h = pb_input(b, "h", type, 1 + kind.second_axis, dims);
    uint32_t w = kind.variable ? pb_input(b, "w", HYP_F32, 1, dims) : 0;
    uint32_t next = pb_output(b, "more", flag, 0, NULL), h2 = pb_output(b, "h2", type, 1 + kind.second_axis, dims);
    uint32_t second = kind.second_result ? pb_output(b, "second", HYP_BOOL, 0, NULL) : 0;
    uint32_t new_w = kind.variable ? pb_output(b, "new:w", HYP_F32, 1, dims) : 0;
    pb_copy_all(b, pb_weight(b, flag, 0, NULL, more), next, one);
    if (kind.second_result) pb_copy_all(b, pb_weight(b, HYP_BOOL, 0, NULL, more), second, one);
    if (type == HYP_F32)
        add_one(b, h, h2, size);
    else
        pb_copy_all(b, h, h2, size);
    if (kind.variable) add_variable(b, w, new_w, size);
}

/* ---- the plan around it ---------------------------------------------------------------------------------------- */

typedef struct loop_kind {
    int64_t carried, collected, counts, most;
    bool lacks_most, plan_is_given, two_counts, variable, any_size;
    size_t cut; /* bytes of the body that are missing */
} loop_kind;

static const loop_kind plain = {.carried = 1, .most = -1};

static void set_numbers(HypPlan__Custom *custom, const loop_kind *kind)
{
    static const char *const names[] = {HYP_LOOP_CARRIED, HYP_LOOP_COLLECTED, HYP_LOOP_COUNTS, HYP_LOOP_MOST};
    static HypPlan__Custom__Attr attributes[ATTRIBUTES], *list[ATTRIBUTES];
    static int64_t values[ATTRIBUTES];
    memcpy(values, (int64_t[]){kind->carried, kind->collected, kind->counts, kind->most}, sizeof values);
    for (size_t i = 0; i < ATTRIBUTES; i++) {
        hyp_plan__custom__attr__init(list[i] = &attributes[i]);
        attributes[i].name = (char *)(uintptr_t)names[i];
        attributes[i].ints = &values[i];
        attributes[i].n_ints = 1;
    }
    custom->attrs = list;
    custom->n_attrs = ATTRIBUTES - kind->lacks_most;
}

/* y = x + n by a loop of n trips, and disposes of the body. */
static void build(loop_kind kind)
{
    plan_builder *b = &around;
    char path[PB_PATH];
    hyp_mapping map;
    pb_write(&body, path);
    assert_ok(hyp_map_file(path, &map, diag));
    pb_init(b);
    const int64_t bytes = (int64_t)(map.size - kind.cut);
    uint32_t size = kind.any_size ? pb_symbol(b, "n") : pb_const(b, SIZE), two = pb_const(b, 2);
    uint32_t plan_size = pb_const(b, bytes);
    uint32_t x = pb_input(b, "x", HYP_F32, 1, &size), n = pb_input(b, "n", HYP_I64, kind.two_counts, &two);
    uint32_t given = kind.plan_is_given ? pb_input(b, "plan", HYP_U8, 1, &plan_size) : 0;
    uint32_t w = kind.variable ? pb_input(b, "w", HYP_F32, 1, &size) : 0;
    uint32_t y = pb_output(b, "y", HYP_F32, 1, &size);
    uint32_t new_w = kind.variable ? pb_output(b, "new:w", HYP_F32, 1, &size) : 0;
    uint32_t plan = kind.plan_is_given ? given : pb_weight(b, HYP_U8, 1, &bytes, map.data);
    const uint32_t in[] = {plan, n, PB_NONE, x};
    set_numbers(pb_custom(b, HYP_LOOP_DOMAIN, HYP_LOOP_NAME, 4, in, y), &kind);
    if (kind.variable) add_variable(b, w, new_w, size);
    hyp_unmap(&map);
    pb_remove(&body, path);
}

static hyp_status load(hyp_device_kind device, hyp_engine **out, hyp_diag *diag)
{
    const hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    char path[PB_PATH];
    pb_write(&around, path);
    hyp_status status = hyp_engine_load_file(path, &options, out, diag);
    pb_remove(&around, path);
    return status;
}

static hyp_status run(hyp_context *context, int64_t n, float y[SIZE], hyp_diag *diag)
{
    float x[SIZE] = {0, 10, -20};
    const int64_t size = SIZE;
    hyp_tensor in[] = {tensor_of("x", HYP_F32, x, 1, &size), tensor_of("n", HYP_I64, &n, 0, NULL)};
    hyp_tensor out = tensor_of("y", HYP_F32, y, 1, &size);
    return hyp_context_run(context, in, 2, &out, 1, diag);
}

/* ---- tests ----------------------------------------------------------------------------------------------------- */

static void a_condition_may_be_any_byte(void **state)
{
    const uint8_t bytes[] = {1, 2, 0x80, 0xff};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof bytes; i++) {
        hyp_engine *engine;
        hyp_context *context;
        float y[SIZE];
        build_body((body_kind){.more = bytes[i / 2]});
        build(plain);
        assert_ok(load(host_devices[i % 2], &engine, diag));
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        assert_ok(run(context, 4, y, diag));
        assert_true(y[0] == 4 && y[1] == 14 && y[2] == -16);
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

static void want_refused(size_t number)
{
    hyp_diag why = {0};
    hyp_engine *engine = NULL;
    hyp_status status = load(host_devices[number % 2], &engine, &why);
    if (status != HYP_ERR_MALFORMED) fail_msg("change %zu: %d %s", number, (int)status, why.message);
}

static void bodies_that_do_not_fit_are_refused(void **state)
{
    const body_kind bodies[] = {{.trip_is_float = true}, {.more_is_float = true},   {.narrow = true},
                                {.second_axis = true},   {.lacks_condition = true}, {.second_result = true},
                                {.variable = true}};
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        build_body(bodies[i]);
        build(plain);
        want_refused(i);
    }
}

static void steps_that_do_not_fit_are_refused(void **state)
{
    const loop_kind kinds[] = {{.carried = 0, .most = -1},
                               {.carried = 2, .most = -1},
                               {.carried = 1, .collected = 1, .most = -1},
                               {.carried = 0, .collected = 1, .most = -1},
                               {.carried = 1, .counts = 1, .most = -1},
                               {.carried = 0, .counts = 1, .most = -1},
                               {.carried = 1, .counts = 2, .most = -1},
                               {.carried = -1, .most = -1},
                               {.carried = INT64_MAX, .collected = INT64_MAX, .most = -1},
                               {.carried = 1, .most = -2},
                               {.carried = 1, .most = -1, .lacks_most = true},
                               {.carried = 1, .most = -1, .plan_is_given = true},
                               {.carried = 1, .most = -1, .two_counts = true},
                               {.carried = 1, .most = -1, .cut = 1},
                               {.carried = 1, .most = -1, .cut = 64}};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        build_body((body_kind){0});
        build(kinds[i]);
        want_refused(i);
    }
}

/* Sizes have values when shapes are prepared. */
static void a_body_of_other_sizes_is_refused(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        hyp_diag why = {0};
        hyp_engine *engine;
        hyp_context *context;
        float y[SIZE];
        build_body((body_kind){.short_axis = true});
        build(plain);
        assert_ok(load(host_devices[d], &engine, diag));
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        assert_int_not_equal(run(context, 1, y, &why), HYP_OK);
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

/* The commit is behind the loop, which may fail. */
static void a_loop_that_fails_leaves_variables(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        hyp_engine *engine;
        hyp_context *context;
        hyp_diag why = {0};
        float y[SIZE], w[SIZE];
        const int64_t size = SIZE;
        hyp_tensor variable = tensor_of("w", HYP_F32, w, 1, &size);
        build_body((body_kind){0});
        build((loop_kind){.carried = 1, .most = 5, .variable = true});
        assert_ok(load(host_devices[d], &engine, diag));
        assert_ok(hyp_context_create(engine, NULL, &context, diag));
        for (int64_t n = 3; n < 8; n++) {
            hyp_status status = run(context, n, y, &why);
            assert_int_equal(status, n > 5 ? HYP_ERR_LIMIT : HYP_OK);
            assert_ok(hyp_context_variable_get(context, &variable, 1, diag));
            assert_true(w[0] == (float)(n > 5 ? 3 : n - 2) && w[SIZE - 1] == w[0]);
        }
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

static hyp_status reserve(hyp_context *context, int64_t size, hyp_diag *diag)
{
    const hyp_tensor in[] = {{.dtype = HYP_F32, .rank = 1, .dims = {size}}, {.dtype = HYP_I64}};
    return hyp_context_reserve(context, in, 2, diag);
}

/* Wherever in between the limit is met, in the plan or in a body. */
static void refused_sizes_leave_the_memory(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        hyp_engine *engine;
        int refused = 0;
        hyp_status status = HYP_ERR_LIMIT;
        build_body((body_kind){.any_size = true});
        build((loop_kind){.carried = 1, .most = -1, .any_size = true});
        assert_ok(load(host_devices[d], &engine, diag));
        for (uint64_t limit = 1024; status != HYP_OK; limit += 64) {
            const hyp_context_options options = {.size = sizeof options, .memory_limit = limit};
            hyp_context *context;
            hyp_diag why = {0};
            if (hyp_context_create(engine, &options, &context, &why) != HYP_OK) continue;
            if (reserve(context, 16, &why) == HYP_OK) {
                float x[16] = {0}, y[16];
                int64_t n = 5, size = 16;
                hyp_tensor in[] = {tensor_of("x", HYP_F32, x, 1, &size), tensor_of("n", HYP_I64, &n, 0, NULL)};
                hyp_tensor out = tensor_of("y", HYP_F32, y, 1, &size);
                size_t before = hyp_context_memory_bytes(context);
                status = reserve(context, 500, &why);
                if (status != HYP_OK) assert_int_equal(hyp_context_memory_bytes(context), before);
                refused += status == HYP_ERR_LIMIT;
                assert_ok(hyp_context_run(context, in, 2, &out, 1, diag));
                assert_true(y[0] == 5 && y[15] == 5);
            }
            hyp_context_destroy(context);
            assert_true(limit < 1 << 20);
        }
        assert_true(refused > 4);
        hyp_engine_destroy(engine);
    }
}

static void *count_up(size_t bytes, size_t alignment, void *user)
{
    void *p = NULL;
    if (posix_memalign(&p, alignment < sizeof p ? sizeof p : alignment, bytes) != 0) return NULL;
    ++*(int *)user;
    return p;
}

static void count_down(void *p, size_t bytes, size_t alignment, void *user)
{
    (void)bytes, (void)alignment;
    if (p) --*(int *)user;
    free(p);
}

/* What there is for bodies goes with the last that needs it, and is from the caller's memory. */
static void a_context_outlives_its_engine(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        int blocks = 0;
        const hyp_allocator allocator = {
            .size = sizeof allocator, .alloc = count_up, .free = count_down, .user = &blocks};
        const hyp_engine_options options = {
            .size = sizeof options, .device = host_devices[d], .threads = 1, .allocator = &allocator};
        char path[PB_PATH];
        hyp_engine *engine;
        hyp_context *contexts[2];
        float y[SIZE];
        build_body((body_kind){0});
        build(plain);
        pb_write(&around, path);
        assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
        pb_remove(&around, path);
        for (int i = 0; i < 2; i++) assert_ok(hyp_context_create(engine, NULL, &contexts[i], diag));
        hyp_engine_destroy(engine);
        for (int i = 0; i < 2; i++) {
            assert_ok(run(contexts[i], 2 + i, y, diag));
            assert_true(y[0] == (float)(2 + i) && blocks > 0);
            hyp_context_destroy(contexts[i]);
        }
        assert_int_equal(blocks, 0);
    }
}

static float add_up(hyp_context *context, int64_t size, int64_t n)
{
    float x[32] = {0}, y[32];
    hyp_tensor in[] = {tensor_of("x", HYP_F32, x, 1, &size), tensor_of("n", HYP_I64, &n, 0, NULL)};
    hyp_tensor out = tensor_of("y", HYP_F32, y, 1, &size);
    assert_ok(hyp_context_run(context, in, 2, &out, 1, diag));
    return y[size - 1];
}

/* Shapes that the context remembers are remembered by bodies, too, whether a run has made a trip or not. */
static void a_loop_without_a_trip_keeps_its_shape(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        const hyp_context_options two = {.size = sizeof two, .shapes = 2};
        hyp_engine *engine;
        hyp_context *context;
        build_body((body_kind){.any_size = true});
        build((loop_kind){.carried = 1, .most = -1, .any_size = true});
        assert_ok(load(host_devices[d], &engine, diag));
        assert_ok(hyp_context_create(engine, &two, &context, diag));
        assert_ok(reserve(context, 32, diag));
        assert_ok(reserve(context, 8, diag));
        assert_ok(reserve(context, 16, diag)); /* 8 and 16 are remembered */
        assert_true(add_up(context, 8, 0) == 0);
        assert_ok(reserve(context, 24, diag)); /* 8 and 24 */
        const size_t before = hyp_mem_count();
        assert_true(add_up(context, 8, 3) == 3);
        assert_int_equal(hyp_mem_count(), before);
        hyp_context_destroy(context);
        hyp_engine_destroy(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_without_a_trip_keeps_its_shape),
        cmocka_unit_test(a_condition_may_be_any_byte),        cmocka_unit_test(bodies_that_do_not_fit_are_refused),
        cmocka_unit_test(steps_that_do_not_fit_are_refused),  cmocka_unit_test(a_body_of_other_sizes_is_refused),
        cmocka_unit_test(a_loop_that_fails_leaves_variables), cmocka_unit_test(refused_sizes_leave_the_memory),
        cmocka_unit_test(a_context_outlives_its_engine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
