/* Runs whose sizes are rounded up (hyp_context_options.buckets): results and sizes are the caller's, what lies behind
 * his tensors stays, and few sets of dims are prepared. Device AUTO takes what there is; the emulated GPU, too. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/support.h"

enum { N = 20, K = 6, WIDTH = 3, LARGEST = N * K * WIDTH, SLACK = 64 };

static plan_builder b; /* large */
static char nothing[] = "", mean[] = "node \"Mean_1\" (reduce-mean) may";
static char *free_of_both[] = {nothing, nothing}, *not_along_k[] = {nothing, mean};

/* For x [n k 3]: y = x + x; t [k n 3] = x with its axes exchanged; w [3], which has neither size. */
static void build(char **padding)
{
    pb_init(&b);
    uint32_t n = pb_symbol(&b, "n"), k = pb_symbol(&b, "k"), width = pb_const(&b, WIDTH), one = pb_const(&b, 1);
    uint32_t dims[] = {n, k, width}, turned[] = {k, n, width};
    uint32_t of_n = pb_dim(&b, HYP_PLAN__DIM__KIND__MUL, k, width),
             of_k = pb_dim(&b, HYP_PLAN__DIM__KIND__MUL, n, width);
    uint32_t *strides = pb_consts(&b, 6, (int64_t[6]){0}), *extents = pb_consts(&b, 3, (int64_t[3]){0});
    memcpy(strides, (uint32_t[]){of_n, width, one, width, of_k, one}, 6 * sizeof *strides);
    memcpy(extents, dims, sizeof dims);
    uint32_t x = pb_input(&b, "x", HYP_F32, 3, dims), v = pb_input(&b, "v", HYP_F32, 1, &width);
    uint32_t y = pb_output(&b, "y", HYP_F32, 3, dims), t = pb_output(&b, "t", HYP_F32, 3, turned);
    uint32_t w = pb_output(&b, "w", HYP_F32, 1, &width);
    HypPlan__Pointwise *sum = pb_pointwise(&b, HYP_F32, 3, dims);
    pb_operand(&b, sum, x, strides);
    pb_result(&b, sum, y, pb_instr(&b, sum, HYP_PLAN__POINTWISE__OP__ADD, 0, 0, 0, 0, HYP_F32));
    HypPlan__Copy *copy = pb_copy(&b);
    copy->x = x;
    copy->y = t;
    copy->n_extents = copy->n_x_strides = copy->n_y_strides = 3;
    copy->extents = extents;
    copy->x_strides = strides;
    copy->y_strides = strides + 3;
    copy->x_offset = copy->y_offset = pb_const(&b, 0);
    pb_copy_all(&b, v, w, width);
    b.program.padding = padding;
    b.program.n_padding = padding ? 2 : 0;
}

static hyp_tensor bucket(const char *name, int64_t multiple)
{
    return (hyp_tensor){.name = name, .rank = 1, .dims = {multiple}};
}

static hyp_context *create(hyp_engine *e, const hyp_tensor *buckets, size_t count, size_t shapes)
{
    hyp_context_options options = {.size = sizeof options, .shapes = shapes, .buckets = buckets, .bucket_count = count};
    hyp_context *c = NULL;
    assert_ok(hyp_context_create(e, &options, &c, diag));
    return c;
}

/* Memory for a run, on the device or not, with bytes behind each tensor that nobody is to write. */
typedef struct room {
    hyp_engine *e;
    bool device;
    hyp_tensor in[2], out[3];
    float host[LARGEST + SLACK];
} room;

static room make_room(hyp_engine *e, bool device)
{
    room r = {.e = e, .device = device};
    for (int i = 0; i < 5; i++) {
        hyp_tensor *t = i < 2 ? &r.in[i] : &r.out[i - 2];
        *t = (hyp_tensor){.dtype = HYP_F32, .bytes = sizeof r.host};
        if (device)
            assert_ok(hyp_engine_tensor_alloc(e, t, diag));
        else
            assert_non_null(t->data = malloc(t->bytes));
    }
    return r;
}

static void free_room(room *r)
{
    for (int i = 0; i < 5; i++) {
        hyp_tensor *t = i < 2 ? &r->in[i] : &r->out[i - 2];
        t->bytes = sizeof r->host;
        if (r->device)
            hyp_engine_tensor_free(r->e, t);
        else
            free(t->data);
    }
}

/* All of a tensor's room, to what lies in r->host or from there. */
static void move(room *r, const hyp_tensor *t, bool in)
{
    hyp_tensor there = *t, here = {.data = r->host, .bytes = sizeof r->host};
    there.bytes = sizeof r->host;
    assert_ok(hyp_engine_tensor_copy(r->e, in ? &here : &there, in ? &there : &here, diag));
}

static float at(int64_t n, int64_t k, int64_t c) { return (float)(1 + n * 100 + k * 10 + c); }

static void fill(room *r, int64_t n, int64_t k)
{
    size_t i = 0;
    for (int64_t a = 0; a < n; a++)
        for (int64_t q = 0; q < k; q++)
            for (int64_t c = 0; c < WIDTH; c++) r->host[i++] = at(a, q, c);
    for (; i < LARGEST + SLACK; i++) r->host[i] = -1; /* no zeros behind */
    for (int t = 0; t < 2; t++) move(r, &r->in[t], true);
    r->in[0].rank = 3;
    memcpy(r->in[0].dims, (int64_t[]){n, k, WIDTH}, 3 * sizeof(int64_t));
    r->in[1].rank = 1;
    r->in[1].dims[0] = WIDTH;
    r->in[0].bytes = (size_t)(n * k * WIDTH) * sizeof(float);
    for (int t = 0; t < 3; t++) {
        for (i = 0; i < LARGEST + SLACK; i++) r->host[i] = -2;
        move(r, &r->out[t], true);
        r->out[t].bytes = t == 2 ? WIDTH * sizeof(float) : r->in[0].bytes; /* just enough */
    }
}

static void check(room *r, int64_t n, int64_t k)
{
    assert_memory_equal(r->out[0].dims, ((int64_t[]){n, k, WIDTH}), 3 * sizeof(int64_t));
    assert_memory_equal(r->out[1].dims, ((int64_t[]){k, n, WIDTH}), 3 * sizeof(int64_t));
    for (int t = 0; t < 2; t++) {
        size_t i = 0;
        move(r, &r->out[t], false);
        for (int64_t a = 0; a < (t ? k : n); a++)
            for (int64_t q = 0; q < (t ? n : k); q++)
                for (int64_t c = 0; c < WIDTH; c++, i++) assert_true(r->host[i] == (t ? at(q, a, c) : 2 * at(a, q, c)));
        for (; i < LARGEST + SLACK; i++) assert_true(r->host[i] == -2);
    }
}

static void run(hyp_context *c, room *r, int64_t n, int64_t k)
{
    fill(r, n, k);
    assert_ok(hyp_context_run(c, r->in, 2, r->out, 3, diag));
    assert_ok(hyp_context_synchronize(c, diag));
    check(r, n, k);
}

static const hyp_device_kind devices[] = {HYP_DEVICE_AUTO, HYP_DEVICE_CPU, HYP_DEVICE_REFERENCE};
enum { DEVICES = sizeof devices / sizeof *devices };

static void results_are_those_of_the_sizes_given(void **state)
{
    (void)state;
    const hyp_tensor both[] = {bucket("n", 8), bucket("k", 4)}, all = bucket(NULL, 5);
    for (size_t d = 0; d < DEVICES; d++) {
        build(free_of_both);
        hyp_engine *e = pb_load(&b, devices[d]);
        hyp_context *contexts[] = {create(e, both, 2, 0), create(e, both, 1, 0), create(e, both + 1, 1, 2),
                                   create(e, &all, 1, 1)};
        for (int device = 0; device < 2; device++) {
            room r = make_room(e, device);
            for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++)
                for (int64_t n = 0; n <= N; n += 1 + (n > 9))
                    for (int64_t k = 0; k <= K; k++) run(contexts[i], &r, n, k);
            free_room(&r);
        }
        for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) hyp_context_destroy(contexts[i]);
        hyp_engine_destroy(e);
        pb_dispose(&b);
    }
}

/* All ways to run see the caller's sizes. */
static void every_call_knows_them(void **state)
{
    (void)state;
    const hyp_tensor buckets[] = {bucket("n", 8)};
    build(free_of_both);
    hyp_engine *e = pb_load(&b, HYP_DEVICE_AUTO);
    hyp_context *c = create(e, buckets, 1, 0);
    room r = make_room(e, false);
    double seconds[3];
    fill(&r, 5, 2);
    assert_ok(hyp_context_output_shapes(c, r.in, 2, r.out, 3, diag));
    assert_int_equal(r.out[0].dims[0], 5);
    assert_int_equal(r.out[1].dims[1], 5);
    assert_ok(hyp_context_time_steps(c, r.in, 2, r.out, 3, seconds, 3, diag));
    check(&r, 5, 2);
    fill(&r, 7, 3);
    assert_ok(hyp_context_bind(c, r.in, 2, r.out, 3, diag));
    assert_ok(hyp_context_run_bound(c, diag));
    assert_int_equal(hyp_context_bound_output(c, 1)->dims[1], 7);
    for (int t = 0; t < 3; t++) r.out[t] = *hyp_context_bound_output(c, (size_t)t);
    check(&r, 7, 3);
    hyp_tensor own[] = {{.dtype = HYP_F32, .memory = HYP_MEMORY_CONTEXT},
                        {.dtype = HYP_F32, .memory = HYP_MEMORY_CONTEXT},
                        {.dtype = HYP_F32, .memory = HYP_MEMORY_CONTEXT}};
    assert_ok(hyp_context_run(c, r.in, 2, own, 3, diag));
    assert_int_equal(own[1].bytes, 7 * 3 * WIDTH * sizeof(float));
    for (int64_t i = 0; i < 3 * 7; i++) assert_true(((float *)own[1].data)[i * WIDTH] == at(i % 7, i / 7, 0));
    /* In another order, by name. */
    fill(&r, 7, 3);
    hyp_tensor swapped[] = {r.in[1], r.in[0]};
    swapped[0].name = "v";
    swapped[1].name = "x";
    assert_ok(hyp_context_run(c, swapped, 2, r.out, 3, diag));
    check(&r, 7, 3);
    /* The context's memory is an input like any other. */
    hyp_tensor again[] = {own[0], r.in[1]};
    fill(&r, 7, 3);
    assert_ok(hyp_context_run(c, again, 2, r.out, 3, diag));
    /* Too little room for what the caller is to get. */
    fill(&r, 7, 3);
    r.out[1].bytes -= 1;
    hyp_diag why = {0};
    assert_int_equal(hyp_context_run(c, r.in, 2, r.out, 3, &why), HYP_ERR_INVALID_ARGUMENT);
    if (!strstr(why.message, "252 bytes are needed")) fail_msg("%s", why.message);
    r.in[0].bytes -= 1;
    assert_int_equal(hyp_context_run(c, r.in, 2, r.out, 3, &why), HYP_ERR_INVALID_ARGUMENT);
    free_room(&r);
    hyp_context_destroy(c);
    hyp_engine_destroy(e);
    pb_dispose(&b);
}

/* After one of them was reserved, runs of all sizes in the bucket find everything made. */
static void one_set_of_dims_serves_a_bucket(void **state)
{
    (void)state;
    const hyp_tensor buckets[] = {bucket("n", 8), bucket("k", 4)};
    for (size_t d = 1; d < DEVICES; d++) {
        build(free_of_both);
        hyp_engine *e = pb_load(&b, devices[d]);
        hyp_context *c = create(e, buckets, 2, 1);
        room r = make_room(e, false);
        fill(&r, 3, 2);
        size_t needed = 0;
        assert_ok(hyp_context_memory_needed(c, r.in, 2, &needed, diag));
        assert_ok(hyp_context_reserve(c, r.in, 2, diag));
        size_t bytes = hyp_context_memory_bytes(c);
        assert_true(bytes + 1024 >= needed && needed + 1024 >= bytes);
        uint64_t before = hyp_mem_count();
        for (int64_t n = 1; n <= 8; n++)
            for (int64_t k = 1; k <= 4; k++) run(c, &r, n, k);
        assert_int_equal(hyp_mem_count(), before);
        assert_int_equal(hyp_context_memory_bytes(c), bytes);
        run(c, &r, 9, 1);
        assert_true(hyp_mem_count() > before);
        free_room(&r);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
        pb_dispose(&b);
    }
}

static void refuse(hyp_engine *e, const hyp_tensor *buckets, size_t count, hyp_status wanted, const char *text)
{
    hyp_context_options options = {.size = sizeof options, .buckets = buckets, .bucket_count = count};
    hyp_context *c = NULL;
    hyp_diag diag = {0};
    hyp_status status = hyp_context_create(e, &options, &c, &diag);
    if (status != wanted || !strstr(diag.message, text)) fail_msg("%d: %s", (int)status, diag.message);
    assert_null(c);
}

static void what_is_in_the_way_is_told(void **state)
{
    (void)state;
    const hyp_tensor n = bucket("n", 8), k = bucket("k", 8), none = bucket("m", 8), zero = bucket("n", 0),
                     flat = {.name = "n", .dims = {8}}, all = bucket(NULL, 8), large = bucket("n", INT64_MAX / 2);
    build(not_along_k);
    hyp_engine *e = pb_load(&b, HYP_DEVICE_AUTO);
    refuse(e, &k, 1, HYP_ERR_UNSUPPORTED, "along 'k': node \"Mean_1\" (reduce-mean) may");
    refuse(e, &none, 1, HYP_ERR_INVALID_ARGUMENT, "'m'");
    refuse(e, &zero, 1, HYP_ERR_INVALID_ARGUMENT, "1 or more");
    refuse(e, &flat, 1, HYP_ERR_INVALID_ARGUMENT, "rank 1");
    refuse(e, NULL, 1, HYP_ERR_INVALID_ARGUMENT, "NULL");
    room r = make_room(e, false);
    hyp_context *some = create(e, &all, 1, 0); /* those that may */
    run(some, &r, 3, 5);
    hyp_context *huge = create(e, &large, 1, 0);
    fill(&r, 3, 5);
    assert_int_not_equal(hyp_context_run(huge, r.in, 2, r.out, 3, NULL), HYP_OK);
    r.in[0].dims[0] = INT64_MAX;
    r.in[0].dims[1] = 0;
    assert_int_equal(hyp_context_run(huge, r.in, 2, r.out, 3, NULL), HYP_ERR_LIMIT);
    run(some, &r, 3, 5);
    free_room(&r);
    hyp_context_destroy(some);
    hyp_context_destroy(huge);
    hyp_engine_destroy(e);
    pb_dispose(&b);
    build(NULL);
    e = pb_load(&b, HYP_DEVICE_AUTO);
    refuse(e, &n, 1, HYP_ERR_UNSUPPORTED, "compile the model again");
    refuse(e, &all, 1, HYP_ERR_UNSUPPORTED, "compile the model again");
    hyp_engine_destroy(e);
    pb_dispose(&b);
    pb_init(&b);
    uint32_t one = pb_const(&b, 1), x = pb_input(&b, "x", HYP_F32, 1, &one), y = pb_output(&b, "y", HYP_F32, 1, &one);
    pb_copy_all(&b, x, y, one);
    e = pb_load(&b, HYP_DEVICE_AUTO);
    refuse(e, &all, 1, HYP_ERR_UNSUPPORTED, "fixed");
    hyp_engine_destroy(e);
    pb_dispose(&b);
}

/* A plan may claim what it likes of its sizes. */
static void sizes_that_shrink_are_refused(void **state)
{
    (void)state;
    for (int of = 0; of < 2; of++) { /* the output, the input */
        pb_init(&b);
        uint32_t n = pb_symbol(&b, "n"), ten = pb_const(&b, 10);
        uint32_t less =
            pb_dim(&b, HYP_PLAN__DIM__KIND__ADD, ten, pb_dim(&b, HYP_PLAN__DIM__KIND__MUL, n, pb_const(&b, -1)));
        uint32_t x = pb_input(&b, "x", HYP_F32, 1, &n), z = pb_input(&b, "z", HYP_F32, 1, of ? &less : &ten);
        uint32_t y = pb_output(&b, "y", HYP_F32, 1, of ? &n : &less),
                 u = pb_output(&b, "u", HYP_F32, 1, of ? &less : &n);
        pb_copy_all(&b, z, of ? u : y, less);
        pb_copy_all(&b, x, of ? y : u, n);
        b.program.padding = free_of_both;
        b.program.n_padding = 1;
        hyp_engine *e = pb_load(&b, HYP_DEVICE_CPU);
        const hyp_tensor all = bucket(NULL, 8);
        hyp_context *c = create(e, &all, 1, 0);
        float data[4][10] = {{0}};
        hyp_tensor in[] = {tensor_of("x", HYP_F32, data[0], 1, (int64_t[]){3}),
                           tensor_of("z", HYP_F32, data[1], 1, (int64_t[]){of ? 7 : 10})};
        hyp_tensor out[] = {tensor_of("y", HYP_F32, data[2], 1, (int64_t[]){10}),
                            tensor_of("u", HYP_F32, data[3], 1, (int64_t[]){10})};
        hyp_diag why = {0};
        assert_int_equal(hyp_context_run(c, in, 2, out, 2, &why), HYP_ERR_UNSUPPORTED);
        assert_non_null(strstr(why.message, "must not shrink"));
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
        pb_dispose(&b);
    }
}

static void memory_may_run_out_at_any_moment(void **state)
{
    (void)state;
    const hyp_tensor buckets[] = {bucket("n", 8), bucket("k", 4)};
    for (size_t d = 1; d < DEVICES; d++) {
        build(free_of_both);
        hyp_engine *e = pb_load(&b, devices[d]);
        room r = make_room(e, false);
        hyp_context_options options = {.size = sizeof options, .shapes = 1, .buckets = buckets, .bucket_count = 2};
        hyp_status status = HYP_ERR_NO_MEMORY;
        for (uint64_t n = 1; status != HYP_OK; n++) {
            hyp_context *c = NULL;
            hyp_diag why = {0};
            fill(&r, 3, 2);
            hyp_mem_fail_after(n);
            status = hyp_context_create(e, &options, &c, &why);
            if (status == HYP_OK) status = hyp_context_run(c, r.in, 2, r.out, 3, &why);
            hyp_mem_fail_after(0);
            if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, why.message);
            if (c) run(c, &r, 3, 2);
            hyp_mem_fail_after(n);
            if (c && status == HYP_OK) { /* larger ones in the place of those that there are */
                fill(&r, 9, 5);
                status = hyp_context_run(c, r.in, 2, r.out, 3, &why);
            }
            hyp_mem_fail_after(0);
            if (c) run(c, &r, 3, 2);
            hyp_context_destroy(c);
            assert_true(n < 1000);
        }
        free_room(&r);
        hyp_engine_destroy(e);
        pb_dispose(&b);
    }
}

/* Wherever in between the limit is met. */
static void refused_sizes_leave_the_memory(void **state)
{
    (void)state;
    const hyp_tensor buckets[] = {bucket("n", 8), bucket("k", 4)};
    for (size_t d = 1; d < DEVICES; d++) {
        build(free_of_both);
        hyp_engine *e = pb_load(&b, devices[d]);
        room r = make_room(e, false);
        int refused = 0;
        hyp_status status = HYP_ERR_LIMIT;
        for (uint64_t limit = 1024; status != HYP_OK; limit += 64) {
            hyp_context_options options = {
                .size = sizeof options, .memory_limit = limit, .shapes = 2, .buckets = buckets, .bucket_count = 2};
            hyp_context *c = NULL;
            hyp_diag why = {0};
            if (hyp_context_create(e, &options, &c, &why) != HYP_OK) continue;
            fill(&r, 3, 2);
            if (hyp_context_reserve(c, r.in, 2, &why) == HYP_OK) {
                size_t before = hyp_context_memory_bytes(c);
                fill(&r, 9, 5);
                status = hyp_context_reserve(c, r.in, 2, &why);
                if (status != HYP_OK) assert_int_equal(hyp_context_memory_bytes(c), before);
                refused += status == HYP_ERR_LIMIT;
                run(c, &r, 3, 2);
            }
            hyp_context_destroy(c);
            assert_true(limit < 1 << 20);
        }
        assert_true(refused > 4);
        free_room(&r);
        hyp_engine_destroy(e);
        pb_dispose(&b);
    }
}

/* An output of a rounded size, of which the data say how much there is: y = x [n 4], cut to the first c columns. */
static void what_the_data_cut_has_memory_once(void **state)
{
    enum { COLUMNS = 4, ROWS = 4096 };
    static char *padding[] = {nothing};
    static HypPlan__DataSize size, *sizes[] = {&size};
    static float x[(ROWS + 1) * COLUMNS];
    const hyp_tensor rows = bucket("n", ROWS);
    (void)state;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)i;
    for (size_t d = 1; d < DEVICES; d++) {
        pb_init(&b);
        uint32_t n = pb_symbol(&b, "n"), columns = pb_const(&b, COLUMNS), one = pb_const(&b, 1);
        uint32_t dims[] = {n, columns}, from = pb_input(&b, "x", HYP_F32, 2, dims);
        uint32_t c = pb_input(&b, "c", HYP_I64, 0, NULL), to = pb_output(&b, "y", HYP_F32, 2, dims);
        uint32_t counted = pb_output(&b, "y_count", HYP_I64, 0, NULL);
        pb_copy_all(&b, from, to, pb_dim(&b, HYP_PLAN__DIM__KIND__MUL, n, columns));
        pb_copy_all(&b, c, counted, one);
        hyp_plan__data_size__init(&size);
        size.axis = size.count = 1;
        b.program.data_sizes = sizes;
        b.program.n_data_sizes = b.program.hidden_outputs = 1;
        b.program.padding = padding;
        b.program.n_padding = 1;
        hyp_engine *e = pb_load(&b, devices[d]);
        hyp_context *context = create(e, &rows, 1, 2);
        for (int64_t k = 0; k < 4; k++) {
            int64_t count = k, given[] = {k < 2 ? 3 : ROWS + 1, COLUMNS};
            hyp_tensor in[] = {tensor_of("x", HYP_F32, x, 2, given), tensor_of("c", HYP_I64, &count, 0, NULL)};
            hyp_tensor y = {.name = "y", .dtype = HYP_F32, .memory = HYP_MEMORY_CONTEXT};
            size_t needed;
            assert_ok(hyp_context_memory_needed(context, in, 2, &needed, diag));
            assert_ok(hyp_context_reserve(context, in, 2, diag));
            size_t has = hyp_context_memory_bytes(context);
            if (has > needed + 1024 || needed > has + 1024) fail_msg("%zu bytes were told, there are %zu", needed, has);
            assert_ok(hyp_context_run(context, in, 2, &y, 1, diag));
            assert_true(y.dims[0] == given[0] && y.dims[1] == count);
            for (int64_t i = 0; i < given[0] * count; i++)
                assert_true(((const float *)y.data)[i] == x[i / count * COLUMNS + i % count]);
        }
        hyp_context_destroy(context);
        hyp_engine_destroy(e);
        pb_dispose(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_sizes_given), cmocka_unit_test(every_call_knows_them),
        cmocka_unit_test(one_set_of_dims_serves_a_bucket),      cmocka_unit_test(what_is_in_the_way_is_told),
        cmocka_unit_test(sizes_that_shrink_are_refused),        cmocka_unit_test(memory_may_run_out_at_any_moment),
        cmocka_unit_test(refused_sizes_leave_the_memory),       cmocka_unit_test(what_the_data_cut_has_memory_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
