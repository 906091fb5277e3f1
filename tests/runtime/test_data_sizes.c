/* Outputs of which only the data say how much there is, and outputs in memory of the context: plans by hand, in which
 * an input says how much. Device AUTO takes what there is; the emulated GPU, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/plan_builder.h"

enum { OUTER = 2, MOST = 4, INNER = 3 };

static plan_builder b; /* large */
static HypPlan__DataSize size, other;
static HypPlan__DataSize *size_list[] = {&size, &other};

/* y = x [2 4 3], cut along `axis` to what c says; z = c as it is. */
static void build(uint32_t axis)
{
    pb_init(&b);
    uint32_t dims[] = {pb_const(&b, OUTER), pb_const(&b, MOST), pb_const(&b, INNER)}, one = pb_const(&b, 1);
    uint32_t all = pb_const(&b, OUTER * MOST * INNER);
    uint32_t x = pb_input(&b, "x", HYP_I32, 3, dims), c = pb_input(&b, "c", HYP_I64, 0, NULL);
    uint32_t y = pb_output(&b, "y", HYP_I32, 3, dims), z = pb_output(&b, "z", HYP_I64, 0, NULL);
    uint32_t count = pb_output(&b, "y_count", HYP_I64, 0, NULL);
    pb_copy_all(&b, x, y, all);
    pb_copy_all(&b, c, z, one);
    pb_copy_all(&b, c, count, one);
    hyp_plan__data_size__init(&size);
    size.axis = axis;
    size.count = 2;
    b.program.data_sizes = size_list;
    b.program.n_data_sizes = 1;
    b.program.hidden_outputs = 1;
}

static hyp_engine *load(hyp_device_kind device)
{
    char path[PB_PATH];
    hyp_engine *e;
    hyp_diag diag = {0};
    const hyp_engine_options o = {.size = sizeof o, .device = device};
    pb_write(&b, path);
    if (hyp_engine_load_file(path, &o, &e, &diag) != HYP_OK) fail_msg("%s", diag.message);
    pb_remove(&b, path);
    return e;
}

static hyp_context *new_context(hyp_engine *e)
{
    hyp_context *c;
    hyp_diag diag = {0};
    if (hyp_context_create(e, NULL, &c, &diag) != HYP_OK) fail_msg("%s", diag.message);
    return c;
}

static const int64_t whole[] = {OUTER, MOST, INNER};

/* Element i of what is left of 0, 1, 2, ... when an axis of x is cut. */
static int32_t element(size_t i, uint32_t axis, int64_t count)
{
    int64_t dims[3], at = 0, step = 1, rest = (int64_t)i;
    memcpy(dims, whole, sizeof dims);
    dims[axis] = count;
    for (int a = 2; a >= 0; a--) {
        at += rest % dims[a] * step;
        rest /= dims[a];
        step *= whole[a];
    }
    return (int32_t)at;
}

typedef struct call {
    int32_t x[OUTER * MOST * INNER], y[OUTER * MOST * INNER];
    int64_t c, z;
    hyp_tensor in[2], out[2];
} call;

static void set_up(call *k, int64_t count)
{
    *k = (call){.c = count};
    for (int i = 0; i < OUTER * MOST * INNER; i++) k->x[i] = i;
    k->in[0] = (hyp_tensor){
        .name = "x", .data = k->x, .bytes = sizeof k->x, .dtype = HYP_I32, .rank = 3, .dims = {OUTER, MOST, INNER}};
    k->in[1] = (hyp_tensor){.name = "c", .data = &k->c, .bytes = sizeof k->c, .dtype = HYP_I64};
    k->out[0] = (hyp_tensor){.name = "y", .data = k->y, .bytes = sizeof k->y, .dtype = HYP_I32};
    k->out[1] = (hyp_tensor){.name = "z", .data = &k->z, .bytes = sizeof k->z, .dtype = HYP_I64};
}

static void check(const call *k, uint32_t axis, int64_t count)
{
    const hyp_tensor *y = &k->out[0];
    size_t elements = 1;
    assert_int_equal(y->rank, 3);
    for (uint32_t a = 0; a < 3; a++) {
        assert_int_equal(y->dims[a], a == axis ? count : whole[a]);
        elements *= (size_t)y->dims[a];
    }
    for (size_t i = 0; i < elements; i++) assert_int_equal(((const int32_t *)y->data)[i], element(i, axis, count));
    assert_int_equal(*(const int64_t *)k->out[1].data, count);
}

static const hyp_device_kind devices[] = {HYP_DEVICE_AUTO, HYP_DEVICE_CPU, HYP_DEVICE_REFERENCE};
enum { DEVICES = sizeof devices / sizeof *devices };

static void outputs_are_cut_to_what_there_is(void **state)
{
    (void)state;
    for (uint32_t axis = 0; axis < 3; axis++)
        for (size_t d = 0; d < DEVICES; d++) {
            build(axis);
            hyp_engine *e = load(devices[d]);
            hyp_context *c = new_context(e);
            hyp_diag diag = {0};
            call k;
            assert_int_equal(hyp_engine_output_count(e), 2);
            assert_null(hyp_engine_output(e, 2));
            const hyp_io_info *info = hyp_engine_output(e, 0);
            for (uint32_t a = 0; a < 3; a++) assert_int_equal(info->dims[a], a == axis ? -1 : whole[a]);
            assert_string_equal(info->symbols[axis], "y_count");
            set_up(&k, 1);
            if (hyp_context_output_shapes(c, k.in, 2, k.out, 2, &diag) != HYP_OK) fail_msg("%s", diag.message);
            assert_int_equal(k.out[0].dims[axis], whole[axis]); /* the most */
            for (int64_t count = 0; count <= whole[axis]; count++) {
                set_up(&k, count);
                k.out[0].bytes = sizeof k.x / (size_t)whole[axis] * (size_t)count; /* just enough */
                if (hyp_context_run(c, k.in, 2, k.out, 2, &diag) != HYP_OK) fail_msg("%s", diag.message);
                check(&k, axis, count);
            }
            hyp_context_destroy(c);
            hyp_engine_destroy(e);
        }
}

static void too_little_room_is_told_with_what_is_needed(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        build(1);
        hyp_engine *e = load(devices[d]);
        hyp_context *c = new_context(e);
        hyp_diag diag = {0};
        call k;
        set_up(&k, 3);
        k.out[0].bytes = 71;
        assert_int_equal(hyp_context_run(c, k.in, 2, k.out, 2, &diag), HYP_ERR_INVALID_ARGUMENT);
        if (!strstr(diag.message, "72 bytes are needed")) fail_msg("%s", diag.message);
        assert_int_equal(k.out[0].dims[1], 3);
        assert_int_equal(k.z, 3); /* the others are there */
        for (int i = 0; i < OUTER * MOST * INNER; i++) assert_int_equal(k.y[i], 0);
        /* A plan that lies is none of the caller's memory's business. */
        static const int64_t lies[] = {-1, MOST + 1, INT64_MAX, INT64_MIN};
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            set_up(&k, lies[i]);
            assert_int_equal(hyp_context_run(c, k.in, 2, k.out, 2, &diag), HYP_ERR_INVALID_ARGUMENT);
            if (!strstr(diag.message, "of at most 4")) fail_msg("%s", diag.message);
        }
        set_up(&k, 2);
        k.out[0].memory = HYP_MEMORY_CUDA;
        assert_int_equal(hyp_context_run(c, k.in, 2, k.out, 2, &diag), HYP_ERR_INVALID_ARGUMENT);
        set_up(&k, 2);
        if (hyp_context_run(c, k.in, 2, k.out, 2, &diag) != HYP_OK) fail_msg("%s", diag.message);
        check(&k, 1, 2);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
    }
}

/* Memory of the context's: for any output, by one struct for ever, and to be read as an input. */
static void a_context_gives_memory(void **state)
{
    (void)state;
    for (size_t d = 0; d < DEVICES; d++) {
        build(0);
        hyp_engine *e = load(devices[d]);
        hyp_context *c = new_context(e), *next = new_context(e);
        hyp_diag diag = {0};
        call k, after;
        set_up(&k, 1);
        k.out[0] = (hyp_tensor){.name = "y", .dtype = HYP_I32, .memory = HYP_MEMORY_CONTEXT};
        k.out[1] = (hyp_tensor){.name = "z", .dtype = HYP_I64, .memory = HYP_MEMORY_CONTEXT};
        for (k.c = 0; k.c <= OUTER; k.c++) {
            if (hyp_context_run(c, k.in, 2, k.out, 2, &diag) != HYP_OK) fail_msg("%s", diag.message);
            assert_true(k.out[0].data && (uintptr_t)k.out[0].data % 64 == 0);
            assert_int_equal(k.out[0].bytes, 4 * MOST * INNER * k.c);
            assert_int_equal(k.out[1].bytes, 8);
            check(&k, 0, k.c);
        }
        set_up(&after, 2);
        after.in[0] = k.out[0];
        after.in[0].name = "x";
        after.in[1] = k.out[1];
        after.in[1].name = "c";
        if (hyp_context_run(next, after.in, 2, after.out, 2, &diag) != HYP_OK) fail_msg("%s", diag.message);
        check(&after, 0, 2);
        /* What is bound is given anew, too. */
        assert_int_equal(hyp_context_bind(c, after.in, 2, k.out, 2, &diag), HYP_OK);
        if (hyp_context_run_bound(next, &diag) == HYP_OK) fail_msg("nothing was bound there");
        if (hyp_context_run_bound(c, &diag) != HYP_OK) fail_msg("%s", diag.message);
        assert_int_equal(hyp_context_bound_output(c, 0)->dims[0], 2);
        hyp_context_destroy(c);
        hyp_context_destroy(next);
        hyp_engine_destroy(e);
    }
}

/* ---- plans that make no sense ---------------------------------------------------------------------------------- */

static void hides_too_many(void) { b.program.hidden_outputs = 4; }
static void hides_none(void) { b.program.hidden_outputs = 0; }
static void hides_what_is_no_number(void) { b.program.hidden_outputs = 3; }
static void cuts_a_count(void) { size.output = 2; }
static void cuts_beyond(void) { size.output = 9; }
static void cuts_no_axis(void) { size.axis = 3; }
static void cuts_a_scalar(void) { size.output = 1; }
static void counts_by_an_output(void) { size.count = 1; }
static void counts_beyond(void) { size.count = 3; }
static void cuts_twice(void) { other = size, b.program.n_data_sizes = 2; }

static void what_makes_no_sense_is_refused(void **state)
{
    static void (*const changes[])(void) = {hides_too_many, hides_none,   hides_what_is_no_number, cuts_a_count,
                                            cuts_beyond,    cuts_no_axis, cuts_a_scalar,           counts_by_an_output,
                                            counts_beyond,  cuts_twice};
    hyp_diag diag = {0};
    (void)state;
    build(1);
    if (hyp_plan_validate(&b.program, &diag) != HYP_OK) fail_msg("%s", diag.message);
    pb_dispose(&b);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        build(1);
        changes[i]();
        if (hyp_plan_validate(&b.program, &diag) != HYP_ERR_MALFORMED) fail_msg("change %zu: %s", i, diag.message);
        pb_dispose(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_cut_to_what_there_is),
        cmocka_unit_test(too_little_room_is_told_with_what_is_needed),
        cmocka_unit_test(a_context_gives_memory),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
