/* Loading, matching tensors, symbols, remembered shapes, messages, descriptions, running out of memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "runtime/support.h"

#define DIMS(...)                                                                                                      \
    (const int64_t[]) { __VA_ARGS__ }

static plan_builder b;

/* y[batch, 2] = relu(x[batch, 3] w^T), z[batch + 1] unused but for its shape: x and c share "batch". */
static void build(void)
{
    pb_init(&b);
    uint32_t batch = pb_symbol(&b, "batch"), one = pb_const(&b, 1), three = pb_const(&b, 3), two = pb_const(&b, 2);
    uint32_t more = pb_dim(&b, HYP_PLAN__DIM__KIND__ADD, batch, one);
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, (uint32_t[]){batch, three}),
             c = pb_input(&b, "column", HYP_F32, 1, &batch);
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){batch, two}),
             z = pb_output(&b, "longer", HYP_F32, 1, &more);
    uint32_t h = pb_scratch(&b, HYP_F32, 0, 2, (uint32_t[]){batch, pb_const(&b, 5)});
    float w[15], v[10];
    for (int i = 0; i < 15; i++) w[i] = (float)i;
    for (int i = 0; i < 10; i++) v[i] = 1;
    HypPlan__Linear *s = pb_linear(&b, x, y, batch);
    pb_layer(&b, s, 5, 3, pb_weight(&b, HYP_F32, 2, DIMS(5, 3), w), PB_NONE, HYP_PLAN__ACT__ACT_RELU, h);
    pb_layer(&b, s, 2, 5, pb_weight(&b, HYP_F32, 2, DIMS(2, 5), v), PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    HypPlan__Copy *put = pb_copy(&b); /* longer = column, 0 */
    put->x = c, put->y = z, put->n_extents = put->n_x_strides = put->n_y_strides = 1;
    put->extents = hyp_arena_alloc(&b.arena, sizeof batch), put->extents[0] = batch;
    put->x_strides = put->y_strides = pb_consts(&b, 1, DIMS(1));
    put->x_offset = put->y_offset = pb_const(&b, 0);
    put = pb_copy(&b);
    put->x = pb_weight(&b, HYP_F32, 1, DIMS(1), (float[]){0}), put->y = z;
    put->n_extents = put->n_x_strides = put->n_y_strides = 1;
    put->extents = put->x_strides = put->y_strides = pb_consts(&b, 1, DIMS(1));
    put->x_offset = pb_const(&b, 0), put->y_offset = batch;
    b.steps[0].label = (char *)(uintptr_t) "fused-mlp";
    static char *rules[] = {(char *)(uintptr_t) "fuse-mlp"}, *sources[] = {(char *)(uintptr_t) "/fc\"1\""};
    static uint32_t zero[] = {0};
    b.program.n_rule_names = b.program.n_source_names = 1, b.program.rule_names = rules,
    b.program.source_names = sources;
    b.steps[0].n_rules = b.steps[0].n_sources = 1, b.steps[0].rules = b.steps[0].sources = zero;
}

typedef struct fixture {
    hyp_engine *engine;
    hyp_context *context;
    float x[60], column[20], y[40], longer[21];
    hyp_tensor in[2], out[2];
} fixture;

static void set_batch(fixture *f, int64_t batch)
{
    f->in[0] = tensor_of("x", HYP_F32, f->x, 2, DIMS(batch, 3));
    f->in[1] = tensor_of("column", HYP_F32, f->column, 1, DIMS(batch));
    f->out[0] = (hyp_tensor){.name = "y", .data = f->y, .bytes = sizeof f->y, .dtype = HYP_F32};
    f->out[1] = (hyp_tensor){.name = "longer", .data = f->longer, .bytes = sizeof f->longer, .dtype = HYP_F32};
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    build();
    f->engine = pb_load(&b, HYP_DEVICE_CPU);
    assert_ok(hyp_context_create(f->engine, NULL, &f->context, diag));
    for (int i = 0; i < 60; i++) f->x[i] = (float)i;
    for (int i = 0; i < 20; i++) f->column[i] = (float)-i;
    set_batch(f, 2);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hyp_context_destroy(f->context);
    hyp_engine_destroy(f->engine);
    pb_dispose(&b);
    free(f);
    return 0;
}

static void run(fixture *f) { assert_ok(hyp_context_run(f->context, f->in, 2, f->out, 2, diag)); }

static void refuse(fixture *f, hyp_status status, const char *message)
{
    hyp_diag why = {0};
    assert_int_equal(hyp_context_run(f->context, f->in, 2, f->out, 2, &why), status);
    if (!strstr(why.message, message)) fail_msg("'%s' lacks '%s'", why.message, message);
}

/* ---- matching ---------------------------------------------------------------------------------------------- */

static void inputs_and_outputs_are_described(void **state)
{
    fixture *f = *state;
    assert_int_equal(hyp_engine_input_count(f->engine), 2);
    assert_int_equal(hyp_engine_output_count(f->engine), 2);
    const hyp_io_info *x = hyp_engine_input(f->engine, 0), *z = hyp_engine_output(f->engine, 1);
    assert_string_equal(x->name, "x");
    assert_true(x->dtype == HYP_F32 && x->rank == 2 && x->dims[0] == -1 && x->dims[1] == 3);
    assert_string_equal(x->symbols[0], "batch");
    assert_null(x->symbols[1]);
    assert_string_equal(z->symbols[0], "batch + 1");
    assert_null(hyp_engine_input(f->engine, 2));
    assert_int_equal(hyp_engine_device(f->engine), HYP_DEVICE_CPU);
    assert_non_null(strstr(hyp_engine_device_name(f->engine), "cpu"));
}

static void results_and_their_shapes_come_out(void **state)
{
    fixture *f = *state;
    run(f);
    /* Row 0 of x is (0, 1, 2): hidden i is 3i + 1 + 2(3i + 2) = 9i + 5 and y their sum. */
    assert_true(f->y[0] == 115 && f->y[1] == 115 && f->longer[1] == -1 && f->longer[2] == 0);
    assert_true(f->out[0].rank == 2 && f->out[0].dims[0] == 2 && f->out[0].dims[1] == 2);
    assert_true(f->out[1].rank == 1 && f->out[1].dims[0] == 3);
}

static void tensors_match_by_name_in_any_order_and_by_position(void **state)
{
    fixture *f = *state;
    hyp_tensor swapped[2] = {f->in[1], f->in[0]}, outputs[2] = {f->out[1], f->out[0]};
    assert_ok(hyp_context_run(f->context, swapped, 2, outputs, 2, diag));
    assert_true(f->y[0] == 115 && outputs[0].dims[0] == 3 && outputs[1].rank == 2);
    f->in[0].name = f->in[1].name = f->out[0].name = f->out[1].name = NULL;
    run(f);
    assert_true(f->out[1].dims[0] == 3);
}

static void leading_dims_collapse(void **state)
{
    fixture *f = *state;
    f->in[0] = tensor_of("x", HYP_F32, f->x, 4, DIMS(2, 1, 3, 3));
    f->in[1] = tensor_of("column", HYP_F32, f->column, 2, DIMS(3, 2));
    run(f);
    assert_true(f->out[0].rank == 2 && f->out[0].dims[0] == 6 && f->out[1].dims[0] == 7);
    f->in[0] = tensor_of("x", HYP_F32, f->x, 1, DIMS(3));
    f->in[1] = tensor_of("column", HYP_F32, f->column, 0, NULL);
    run(f);
    assert_true(f->out[0].dims[0] == 1 && f->y[0] == 115);
}

static void an_empty_batch_runs(void **state)
{
    fixture *f = *state;
    set_batch(f, 0);
    f->in[0].data = f->in[1].data = f->out[0].data = NULL;
    run(f);
    assert_true(f->out[0].dims[0] == 0 && f->out[1].dims[0] == 1 && f->longer[0] == 0);
}

static void wrong_tensors_are_named(void **state)
{
    fixture *f = *state;
    f->in[1].name = "colum";
    refuse(f, HYP_ERR_INVALID_ARGUMENT,
           "no input 'colum' (did you mean 'column'?): its inputs are 'x' f32 [batch, 3], 'column' f32 [batch]");
    f->in[1].name = "x";
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "input 'x' is given twice");
    set_batch(f, 2);
    hyp_diag why = {0};
    assert_int_equal(hyp_context_run(f->context, f->in, 1, f->out, 2, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "input 'column' f32 [batch] is missing"));
    assert_int_equal(hyp_context_run(f->context, NULL, 2, f->out, 2, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "2 inputs are given, but the list of them is NULL"));
    assert_int_equal(hyp_context_run(NULL, f->in, 2, f->out, 2, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "context is NULL"));
    f->in[0].dtype = HYP_F64;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "input 'x': its type must be f32, it is f64");
    set_batch(f, 2);
    f->in[0].dims[1] = 4;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "axis 1 is 4, the model wants 3");
    set_batch(f, 2);
    f->in[1].dims[0] = 3;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "batch");
    set_batch(f, 2);
    f->in[0].rank = 0;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "rank 0");
    f->in[0].rank = 9;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "rank is 9");
    set_batch(f, 2);
    f->in[0].dims[0] = -1;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "dim 0 is -1");
    set_batch(f, 2);
    f->in[0].bytes = 23;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "input 'x': 24 bytes are needed, the tensor has 23");
    set_batch(f, 2);
    f->out[0].bytes = 15;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "output 'y': 16 bytes are needed, the tensor has 15");
    set_batch(f, 2);
    f->out[0].data = NULL;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "data is NULL");
    set_batch(f, 2);
    f->in[0].data = (char *)f->x + 2;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "aligned");
    set_batch(f, 2);
    f->in[0].memory = HYP_MEMORY_CUDA;
    refuse(f, HYP_ERR_INVALID_ARGUMENT, "memory is a device's, and the plan was loaded for the cpu");
    set_batch(f, 2);
    f->in[0].rank = 4;
    memcpy(f->in[0].dims, DIMS(INT64_MAX, 2, 2, 3), 4 * sizeof(int64_t));
    refuse(f, HYP_ERR_LIMIT, "too large");
    set_batch(f, INT64_MAX / 2);
    f->in[0].bytes = f->in[1].bytes = SIZE_MAX;
    hyp_diag huge = {0};
    assert_int_not_equal(hyp_context_run(f->context, f->in, 2, f->out, 2, &huge), HYP_OK);
    set_batch(f, 2); /* and none of this broke the context */
    run(f);
    assert_true(f->y[0] == 115);
}

static void output_shapes_need_no_data(void **state)
{
    fixture *f = *state;
    hyp_tensor in[2] = {{.rank = 2, .dims = {7, 3}}, {.rank = 1, .dims = {7}}},
               out[2] = {{.name = "longer"}, {.name = "y"}};
    assert_ok(hyp_context_output_shapes(f->context, in, 2, out, 2, diag));
    assert_true(out[0].rank == 1 && out[0].dims[0] == 8 && out[1].rank == 2 && out[1].dims[0] == 7 &&
                out[1].dims[1] == 2);
}

/* ---- shapes ------------------------------------------------------------------------------------------------ */

static void sixteen_shapes_are_remembered(void **state)
{
    fixture *f = *state;
    for (int64_t batch = 1; batch <= 16; batch++) {
        set_batch(f, batch);
        assert_ok(hyp_context_reserve(f->context, f->in, 2, diag));
    }
    assert_true(hyp_context_scratch_bytes(f->context) >= 16 * 5 * sizeof(float));
    uint64_t before = hyp_mem_count();
    for (int64_t batch = 16; batch >= 1; batch--) {
        set_batch(f, batch);
        run(f);
        assert_int_equal(f->out[0].dims[0], batch);
    }
    assert_int_equal(hyp_mem_count(), before);
    set_batch(f, 17); /* pushes out batch 16, which was not used for longest */
    run(f);
    before = hyp_mem_count();
    set_batch(f, 1);
    run(f);
    assert_int_equal(hyp_mem_count(), before);
    set_batch(f, 16);
    run(f);
    assert_true(hyp_mem_count() > before);
}

static void what_is_bound_stays(void **state)
{
    fixture *f = *state;
    hyp_context *c = f->context;
    hyp_diag why = {0};
    assert_int_equal(hyp_context_run_bound(c, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "'x'"));
    assert_ok(hyp_context_bind(c, f->in, 1, NULL, 0, diag)); /* one by one, by name and by position */
    hyp_tensor column = f->in[1], outputs[] = {f->out[0], f->out[1]};
    outputs[0].name = outputs[1].name = NULL;
    assert_int_equal(hyp_context_run_bound(c, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "'column'"));
    assert_null(hyp_context_bound_output(c, 1));
    assert_ok(hyp_context_bind(c, &column, 1, outputs, 2, diag));
    assert_ok(hyp_context_run_bound(c, diag));
    assert_true(f->y[0] == 115 && f->longer[1] == -1 && f->longer[2] == 0);
    assert_true(hyp_context_bound_output(c, 1)->dims[0] == 3 && !hyp_context_bound_output(c, 2));

    uint64_t before = hyp_mem_count();
    f->x[0] = 1; /* memory is the caller's, and is read anew */
    assert_ok(hyp_context_run_bound(c, diag));
    assert_true(f->y[0] == 145);
    assert_int_equal(hyp_mem_count(), before);

    float other[40] = {0};
    hyp_tensor refused[] = {{.name = "y", .data = other, .bytes = sizeof other, .dtype = HYP_F32}, {.name = "none"}};
    assert_int_equal(hyp_context_bind(c, NULL, 0, refused, 2, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "'none'"));
    assert_ok(hyp_context_run_bound(c, diag));
    assert_true(other[0] == 0);
    set_batch(f, 4);
    assert_ok(hyp_context_bind(c, f->in, 2, refused, 1, diag));
    assert_ok(hyp_context_run_bound(c, diag));
    assert_true(other[0] == 145 && hyp_context_bound_output(c, 0)->dims[0] == 4);
}

/* Whether a run of this batch makes something anew. */
static bool prepares(fixture *f, hyp_context *c, int64_t batch)
{
    uint64_t before = hyp_mem_count();
    set_batch(f, batch);
    assert_ok(hyp_context_run(c, f->in, 2, f->out, 2, diag));
    assert_int_equal(f->out[0].dims[0], batch);
    assert_true(f->y[0] == 115);
    return hyp_mem_count() != before;
}

static void the_least_used_shapes_go_first(void **state)
{
    fixture *f = *state;
    const hyp_context_options three = {.size = sizeof three, .shapes = 3}, one = {.size = sizeof one, .shapes = 1};
    hyp_context *c;
    assert_ok(hyp_context_create(f->engine, &three, &c, diag));
    assert_true(prepares(f, c, 20) && prepares(f, c, 2) && prepares(f, c, 3)); /* scratch grows no more */
    assert_false(prepares(f, c, 20));
    assert_true(prepares(f, c, 4)); /* in the place of 2, and not of 20, which came first */
    assert_false(prepares(f, c, 3) || prepares(f, c, 20) || prepares(f, c, 4));
    assert_true(prepares(f, c, 2)); /* in the place of 3 */
    assert_false(prepares(f, c, 4) || prepares(f, c, 20) || prepares(f, c, 2));
    assert_true(prepares(f, c, 3)); /* in the place of 4 */
    assert_false(prepares(f, c, 20) || prepares(f, c, 2));
    hyp_context_destroy(c);

    assert_ok(hyp_context_create(f->engine, &one, &c, diag));
    assert_true(prepares(f, c, 20) && prepares(f, c, 2) && prepares(f, c, 20));
    assert_false(prepares(f, c, 20));
    hyp_context_destroy(c);
}

/* ---- loading ----------------------------------------------------------------------------------------------- */

static char log_text[4096];
static void collect(const char *line, void *user)
{
    (void)user;
    strncat(log_text, line, sizeof log_text - strlen(log_text) - 2);
    strcat(log_text, "\n");
}

static void auto_takes_the_first_device_that_can_run_the_plan(void **state)
{
    (void)state;
    char path[PB_PATH];
    pb_write(&b, path);
    hyp_engine_options options = {.size = sizeof options, .log = collect};
    hyp_engine *engine = NULL;
    log_text[0] = 0;
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    assert_non_null(strstr(log_text, "device: "));
    assert_int_not_equal(hyp_engine_device(engine), HYP_DEVICE_AUTO);
    assert_int_not_equal(hyp_engine_device(engine), HYP_DEVICE_REFERENCE);
    hyp_engine_destroy(engine);
    options = (hyp_engine_options){0};
    hyp_diag why = {0};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "options->size"));
    options = (hyp_engine_options){.size = sizeof options, .device = (hyp_device_kind)77};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &why), HYP_ERR_INVALID_ARGUMENT);
    options = (hyp_engine_options){.size = sizeof options, .threads = -1};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &why), HYP_ERR_INVALID_ARGUMENT);
    unlink(path);
}

static void count_release(void *user) { ++*(int *)user; }

static void a_plan_in_memory_runs_and_its_file_may_go(void **state)
{
    fixture *f = *state;
    char path[PB_PATH];
    pb_write(&b, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static _Alignas(64) unsigned char bytes[16384];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    unlink(path);
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    int released = 0;
    hyp_diag why = {0};
    const hyp_engine_options options = {.size = sizeof options, .release = count_release, .release_user = &released};
    assert_int_equal(hyp_engine_load_memory(bytes, size - 1, &options, &engine, &why), HYP_ERR_MALFORMED);
    assert_int_equal(released, 0); /* the caller has it still */
    assert_ok(hyp_engine_load_memory(bytes, size, &options, &engine, diag));
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    hyp_engine_destroy(engine);
    assert_ok(hyp_context_run(context, f->in, 2, f->out, 2, diag));
    assert_true(f->y[0] == 115);
    assert_int_equal(released, 0);
    hyp_context_destroy(context);
    assert_int_equal(released, 1);
}

/* Strict finds a changed weight; off does not look for one, and takes what the file says. A broken program is refused
 * by both. */
static void checks_are_strict_or_off(void **state)
{
    fixture *f = *state;
    char path[PB_PATH];
    static _Alignas(64) unsigned char bytes[16384];
    pb_write(&b, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    unlink(path);
    hyp_engine_options strict = {.size = sizeof strict}, off = strict;
    off.checks = HYP_CHECKS_OFF;
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    hyp_diag why = {0};
    size_t at = 0; /* of the second layer's weights: ten times 1 */
    const float ones[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    while (at + sizeof ones <= size && memcmp(bytes + at, ones, sizeof ones) != 0) at += 4;
    assert_true(at + sizeof ones <= size);
    bytes[at + 3] ^= 0x80; /* -1 */
    assert_int_equal(hyp_engine_load_memory(bytes, size, &strict, &engine, &why), HYP_ERR_MALFORMED);
    assert_non_null(strstr(why.message, "checksum of its weights"));
    assert_ok(hyp_engine_load_memory(bytes, size, &off, &engine, diag));
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    assert_ok(hyp_context_run(context, f->in, 2, f->out, 2, diag));
    assert_true(f->y[0] != 115 && f->y[1] > 0); /* the first row of the layer alone */
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    bytes[at + 3] ^= 0x80;
    for (size_t i = 256; i < size; i++) { /* behind the header: wrong numbers at worst */
        bytes[i] ^= (unsigned char)(1 << i % 8);
        if (hyp_engine_load_memory(bytes, size, &off, &engine, NULL) == HYP_OK) {
            if (hyp_context_create(engine, NULL, &context, NULL) == HYP_OK) {
                hyp_status status = hyp_context_run(context, f->in, 2, f->out, 2, NULL);
                (void)status;
                hyp_context_destroy(context);
            }
            hyp_engine_destroy(engine);
        }
        bytes[i] ^= (unsigned char)(1 << i % 8);
    }
    off.checks = (hyp_engine_checks)2;
    assert_int_equal(hyp_engine_load_memory(bytes, size, &off, &engine, &why), HYP_ERR_INVALID_ARGUMENT);
}

static void what_is_no_plan_is_refused(void **state)
{
    (void)state;
    hyp_engine *engine = NULL;
    hyp_diag why = {0};
    assert_int_equal(hyp_engine_load_file("/no/such/plan.bin", NULL, &engine, &why), HYP_ERR_IO);
    assert_non_null(strstr(why.message, "/no/such/plan.bin"));
    assert_int_equal(hyp_engine_load_memory("PNG", 3, NULL, &engine, &why), HYP_ERR_MALFORMED);
    assert_int_equal(hyp_engine_load_file(NULL, NULL, &engine, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_null(engine);
    hyp_engine_destroy(NULL);
    hyp_context_destroy(NULL);
}

/* Where a handle, or what else has to be there, is NULL: questions are answered by nothing, orders refused. */
static void nothing_is_asked_of_null(void **state)
{
    fixture *f = *state;
    hyp_engine *e = f->engine, *engine = NULL;
    hyp_context *context = NULL;
    hyp_tensor t = {0};
    const char *missing;
    hyp_diag why = {0};
    assert_true(!hyp_engine_input_count(NULL) && !hyp_engine_output_count(NULL) && !hyp_engine_step_count(NULL));
    assert_true(!hyp_engine_input(NULL, 0) && !hyp_engine_output(NULL, 0) && !hyp_engine_step(NULL, 0).label);
    assert_true(hyp_engine_device(NULL) == HYP_DEVICE_AUTO && !*hyp_engine_device_name(NULL));
    assert_true(!*hyp_engine_precision(NULL) && !*hyp_engine_classes(NULL) && !hyp_engine_model_hash(NULL));
    assert_true(!hyp_engine_golden_count(NULL) && !hyp_engine_golden_input(NULL, 0, 0).tensor.name);
    assert_true(!hyp_engine_golden_output(NULL, 0, 0).tensor.name && isinf(hyp_engine_golden_tolerance(NULL, 0, 0, 0)));
    assert_true(!hyp_engine_typical_size(NULL, "batch") && !hyp_engine_typical_size(e, NULL));
    assert_true(!hyp_context_scratch_bytes(NULL) && !hyp_context_tuning_device(NULL) && !hyp_context_tuned_count(NULL));
    assert_true(!hyp_context_tuned(NULL, 0).product && hyp_context_step_tuning(NULL, 0) == HYP_STEP_NOT_TUNED);
    assert_true(!hyp_context_choice_count(NULL, 0) && !*hyp_context_choice(NULL, 0, 0).key);
    assert_true(!*hyp_context_alternative(NULL, 0, 0, 0).name);
    hyp_engine_tensor_free(NULL, &t);
    hyp_engine_tensor_free(e, NULL);
#define REFUSED(call) assert_int_equal((call), HYP_ERR_INVALID_ARGUMENT)
    REFUSED(hyp_engine_load_file("plan.bin", NULL, NULL, &why));
    REFUSED(hyp_engine_load_memory(NULL, 1, NULL, &engine, &why));
    REFUSED(hyp_engine_find_symbol(NULL, "batch", &why));
    REFUSED(hyp_engine_find_symbol(e, NULL, &why));
    REFUSED(hyp_engine_complete_dims(NULL, &t, 1, NULL, 0, &missing, &why));
    REFUSED(hyp_engine_complete_dims(e, NULL, 2, NULL, 0, &missing, &why));
    REFUSED(hyp_engine_complete_dims(e, f->in, 2, NULL, 1, &missing, &why));
    REFUSED(hyp_engine_complete_dims(e, f->in, 2, NULL, 0, NULL, &why));
    REFUSED(hyp_engine_tensor_alloc(NULL, &t, &why));
    REFUSED(hyp_engine_tensor_alloc(e, NULL, &why));
    REFUSED(hyp_engine_tensor_copy(NULL, &t, &t, &why));
    REFUSED(hyp_engine_tensor_copy(e, NULL, &t, &why));
    REFUSED(hyp_context_create(NULL, NULL, &context, &why));
    REFUSED(hyp_context_create(e, NULL, NULL, &why));
    REFUSED(hyp_context_reserve(NULL, f->in, 2, &why));
    REFUSED(hyp_context_output_shapes(NULL, f->in, 2, f->out, 2, &why));
    REFUSED(hyp_context_synchronize(NULL, &why));
    REFUSED(hyp_context_bind(NULL, f->in, 2, f->out, 2, &why));
    REFUSED(hyp_context_bind(f->context, NULL, 1, f->out, 2, &why));
    REFUSED(hyp_context_run_bound(NULL, &why));
    REFUSED(hyp_plan_describe_memory(NULL, 1, "plan", false, NULL, 0, NULL, NULL, &why));
    assert_null(hyp_context_bound_output(NULL, 0));
    REFUSED(hyp_context_time_steps(NULL, f->in, 2, f->out, 2, (double[8]){0}, 1, &why));
    REFUSED(hyp_context_step_work(NULL, 0, NULL, &why));
    REFUSED(hyp_context_tune(NULL, f->in, 2, NULL, NULL, &why));
    REFUSED(hyp_context_share_tuning(NULL, &why));
    REFUSED(hyp_context_adopt_tuning(NULL, NULL, &why));
    REFUSED(hyp_context_add_tuned(NULL, NULL, &why));
    REFUSED(hyp_context_save_plan(NULL, "plan.bin", &why));
    REFUSED(hyp_plan_describe(NULL, false, NULL, 0, NULL, NULL, &why));
    assert_true(!engine && !context && !t.data);
#undef REFUSED
}

/* Whatever the order, and however often the engine is destroyed while a context holds it. */
static void contexts_hold_their_engine(void **state)
{
    fixture *f = *state;
    hyp_context *second = NULL, *late = NULL;
    hyp_diag why = {0};
    run(f);
    assert_ok(hyp_context_create(f->engine, NULL, &second, diag));
    hyp_engine_destroy(f->engine);
    hyp_engine_destroy(f->engine);
    assert_int_equal(hyp_context_create(f->engine, NULL, &late, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "was destroyed"));
    assert_null(late);
    hyp_context_destroy(second);
    set_batch(f, 5);
    memset(f->y, 0, sizeof f->y);
    run(f);
    assert_true(f->y[0] == 115);
    hyp_context_destroy(f->context);
    f->context = NULL, f->engine = NULL;
}

/* On both sides of what 20 rows take. */
static void work_is_limited(void **state)
{
    fixture *f = *state;
    for (size_t d = 0; d < 2; d++) {
        hyp_engine *engine = pb_load(&b, host_devices[d]);
        hyp_context *c = NULL;
        hyp_context_options options = {.size = sizeof options};
        hyp_diag why = {0};
        set_batch(f, 20);
        assert_ok(hyp_context_create(engine, NULL, &c, diag));
        assert_ok(hyp_context_run(c, f->in, 2, f->out, 2, diag));
        double work = 0;
        for (size_t i = 0; i < 3; i++) {
            hyp_step_work_info step = {.size = sizeof step};
            assert_ok(hyp_context_step_work(c, i, &step, diag));
            work += step.operations + step.bytes;
        }
        hyp_context_destroy(c);
        assert_true(work > 0);

        options.work_limit = work;
        assert_ok(hyp_context_create(engine, &options, &c, diag));
        assert_ok(hyp_context_run(c, f->in, 2, f->out, 2, diag));
        hyp_context_destroy(c);
        options.work_limit = work * 0.99;
        assert_ok(hyp_context_create(engine, &options, &c, diag));
        assert_int_equal(hyp_context_reserve(c, f->in, 2, &why), HYP_ERR_LIMIT);
        assert_non_null(strstr(why.message, "work_limit"));
        hyp_context_destroy(c);
        c = NULL;
        options.work_limit = NAN;
        assert_int_equal(hyp_context_create(engine, &options, &c, &why), HYP_ERR_INVALID_ARGUMENT);
        assert_null(c);
        hyp_engine_destroy(engine);
    }
}

/* Every allocation fails once: load, create, run either work or say so, and nothing leaks or breaks. */
static void running_out_of_memory_is_reported(void **state)
{
    fixture *f = *state;
    char path[PB_PATH];
    pb_write(&b, path);
    for (size_t d = 0; d < 2; d++) {
        hyp_engine_options options = {.size = sizeof options, .device = host_devices[d], .threads = 1};
        hyp_status status = HYP_ERR_NO_MEMORY;
        for (uint64_t n = 1; status != HYP_OK; n++) {
            hyp_engine *engine = NULL;
            hyp_context *context = NULL;
            hyp_diag why = {0};
            hyp_mem_fail_after(n);
            status = hyp_engine_load_file(path, &options, &engine, &why);
            if (status == HYP_OK) status = hyp_context_create(engine, NULL, &context, &why);
            if (status == HYP_OK) status = hyp_context_run(context, f->in, 2, f->out, 2, &why);
            hyp_mem_fail_after(0);
            if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, why.message);
            if (context) assert_ok(hyp_context_run(context, f->in, 2, f->out, 2, diag));
            hyp_context_destroy(context);
            hyp_engine_destroy(engine);
            assert_true(n < 1000);
        }
    }
    unlink(path);
}

/* ---- descriptions ------------------------------------------------------------------------------------------ */

static char described[16384];
static void keep(const char *text, size_t len, void *user)
{
    (void)user;
    assert_true(len < sizeof described);
    memcpy(described, text, len);
    described[len] = 0;
}

static void descriptions_tell_steps_and_figures(void **state)
{
    (void)state;
    char path[PB_PATH];
    pb_write(&b, path);
    hyp_tensor batch = {.name = "batch", .rank = 1, .dims = {10}}, wrong = {.name = "bach", .rank = 1};
    assert_ok(hyp_plan_describe(path, false, NULL, 0, keep, NULL, diag));
    assert_non_null(strstr(described, "symbol    batch = 1 (no value was given"));
    assert_non_null(strstr(described, "fused-mlp  (kernel linear)  f32 [1, 3] -> "));
    assert_non_null(strstr(described, "rules fuse-mlp"));
    assert_non_null(strstr(described, "longer  f32 [batch + 1]"));
    hyp_mapping file;
    char *from_file = strdup(described);
    assert_ok(hyp_map_file(path, &file, diag));
    memset(described, 0, sizeof described);
    assert_ok(hyp_plan_describe_memory(file.data, file.size, path, false, NULL, 0, keep, NULL, diag));
    assert_string_equal(described, from_file);
    hyp_unmap(&file);
    free(from_file);
    assert_ok(hyp_plan_describe(path, true, &batch, 1, keep, NULL, diag));
    assert_non_null(strstr(described, "{\"name\": \"batch\", \"value\": 10, \"given\": true}"));
    assert_non_null(
        strstr(described, "\"rows\": 10, \"layers\": [{\"k\": 3, \"n\": 5, \"bias\": false, \"act\": \"relu\"}"));
    assert_non_null(strstr(described, "\"sources\": [\"/fc\\\"1\\\"\"]"));
    assert_non_null(strstr(described, "\"dims\": [\"batch + 1\"], \"shape\": [11]"));
    hyp_diag why = {0};
    assert_int_equal(hyp_plan_describe(path, true, &wrong, 1, keep, NULL, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "no symbolic dim 'bach'"));
    unlink(path);
}

static void the_version_is_told(void **state)
{
    (void)state;
    assert_string_equal(hyp_version(), HYP_VERSION);
    assert_non_null(strstr(hyp_version_details(), "plan format 3.0\nbackends: "));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(inputs_and_outputs_are_described),
        TEST(results_and_their_shapes_come_out),
        TEST(tensors_match_by_name_in_any_order_and_by_position),
        TEST(leading_dims_collapse),
        TEST(an_empty_batch_runs),
        TEST(wrong_tensors_are_named),
        TEST(output_shapes_need_no_data),
        TEST(sixteen_shapes_are_remembered),
        TEST(the_least_used_shapes_go_first),
        TEST(what_is_bound_stays),
        TEST(auto_takes_the_first_device_that_can_run_the_plan),
        TEST(a_plan_in_memory_runs_and_its_file_may_go),
        TEST(checks_are_strict_or_off),
        TEST(what_is_no_plan_is_refused),
        TEST(nothing_is_asked_of_null),
        TEST(contexts_hold_their_engine),
        TEST(work_is_limited),
        TEST(running_out_of_memory_is_reported),
        TEST(descriptions_tell_steps_and_figures),
        TEST(the_version_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
