/* The conformance suite: what a backend must do, whichever it is. test_conformance BACKEND
 *
 * A step that a backend refuses when the plan is loaded (HYP_ERR_UNSUPPORTED, with a message that names it) is counted and
 * listed; what it takes has to be right. 77: the device is not on this machine.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/codegen.h"
#include "runtime/core/engine.h"
#include "runtime/null/null.h"
#include "support/golden_ops.h"
#include "support/random_graph.h"

/* The backends, and what plans for them are lowered for. */
static const struct {
    const hyp_backend *backend;
    const char *target;
} tested[] = {
    {&hyp_backend_null, "cpu"},
    {&hyp_backend_reference, "cpu"},
    {&hyp_backend_cpu, "cpu"},
#ifdef HYP_HAVE_CUDA
    {&hyp_backend_cuda, "cuda"},
#endif
};
static const hyp_backend *backend;
static const char *target;
static char plan_path[64];

static hyp_diag failure, *diag = &failure;
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != HYP_OK) fail_msg("%s", diag->message);                                                           \
    } while (0)

/* ---- plans and tensors --------------------------------------------------------------------------------------- */

static hyp_status load(hyp_engine **out)
{
    const hyp_engine_options options = {.size = sizeof options, .device = backend->kind, .threads = 2};
    return hyp_engine_load_on(backend, plan_path, &options, out, diag);
}

/* Lowers the graph and loads its plan; NULL where no plan can have it (products of integers), or the backend refuses it, as
 * it should be said. */
static hyp_engine *load_graph(const hyp_graph *g)
{
    hyp_codegen_options options = {
        .target = hyp_target_find(target), .producer = "test", .model_name = g->name, .model_hash = 1};
    hyp_lowered lowered;
    hyp_engine *engine = NULL;
    hyp_status status = hyp_codegen_lower(g, &options, &lowered, diag);
    if (status == HYP_ERR_UNSUPPORTED) return NULL;
    assert_ok(status);
    assert_ok(hyp_codegen_write(&lowered, plan_path, NULL, NULL, NULL, diag));
    hyp_lowered_dispose(&lowered);
    status = load(&engine);
    if (status == HYP_OK) return engine;
    if (status != HYP_ERR_UNSUPPORTED || !strcasestr(diag->message, backend->name))
        fail_msg("a plan that the backend does not take: wanted HYP_ERR_UNSUPPORTED and a message that names it: %s",
                 diag->message);
    return NULL;
}

static hyp_context *new_context(hyp_engine *engine)
{
    hyp_context *c = NULL;
    assert_ok(hyp_context_create(engine, NULL, &c, diag));
    return c;
}

static void free_tensors(hyp_tensor *t, size_t count)
{
    for (size_t i = 0; i < count; i++) free(t[i].data);
}

/* Room for the outputs that these inputs give, filled with what no result is. */
static void make_outputs(hyp_context *c, const hyp_engine *engine, const hyp_tensor *inputs, size_t count,
                         hyp_tensor *outputs)
{
    size_t n = hyp_engine_output_count(engine);
    memset(outputs, 0, n * sizeof *outputs);
    assert_ok(hyp_context_output_shapes(c, inputs, count, outputs, n, diag));
    for (size_t i = 0; i < n; i++) {
        hyp_tensor *t = &outputs[i];
        t->dtype = hyp_engine_output(engine, i)->dtype;
        size_t bytes = hyp_dtype_size(t->dtype);
        for (int32_t a = 0; a < t->rank; a++) bytes *= (size_t)t->dims[a];
        t->data = malloc(bytes + 1);
        t->bytes = bytes;
        memset(t->data, 0xa5, bytes + 1);
    }
}

static void assert_same_bytes(const hyp_tensor *a, const hyp_tensor *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(a[i].bytes, b[i].bytes);
        assert_memory_equal(a[i].data, b[i].data, a[i].bytes);
    }
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

static void the_table_is_complete(void **state)
{
    (void)state;
    assert_true(backend->name && *backend->name);
    assert_true(backend->open && backend->close && backend->load && backend->unload);
    assert_true(backend->session_create && backend->session_destroy && backend->scratch_bytes);
    assert_true(backend->prepare && backend->release && backend->run && backend->synchronize);
    assert_true(!backend->tune == !backend->tuning && (!backend->tune || backend->choices || backend->step_tuning));
    for (size_t i = 0; hyp_backends[i]; i++)
        if (hyp_backends[i] != backend) {
            assert_string_not_equal(hyp_backends[i]->name, backend->name);
            assert_int_not_equal(hyp_backends[i]->kind, backend->kind);
        }
}

/* ---- values -------------------------------------------------------------------------------------------------- */

typedef struct tally {
    size_t right, refused;
    bool refuses[HYP_OP_COUNT];
} tally;

static void run_golden(const golden_case *c, void *user)
{
    tally *t = user;
    hyp_tensor inputs[GOLDEN_MAX] = {{0}}, outputs[GOLDEN_MAX];
    hyp_engine *engine = load_graph(&c->graph);
    if (!engine) {
        t->refused++;
        t->refuses[c->graph.nodes.data[0].op] = true;
        return;
    }
    for (size_t i = 0; i < c->input_count; i++) {
        const hyp_eval_tensor *from = &c->inputs[i];
        size_t bytes = from->count * hyp_dtype_size(from->dtype);
        inputs[i] = (hyp_tensor){.data = malloc(bytes + 1), .bytes = bytes, .dtype = from->dtype, .rank = from->rank};
        memcpy(inputs[i].dims, from->dims, sizeof inputs[i].dims);
        hyp_eval_tensor_store(from, inputs[i].data);
    }
    hyp_context *context = new_context(engine);
    make_outputs(context, engine, inputs, c->input_count, outputs);
    size_t count = hyp_engine_output_count(engine);
    if (hyp_context_run(context, inputs, c->input_count, outputs, count, diag) != HYP_OK)
        fail_msg("%s, case '%s': %s", c->op, c->name, diag->message);
    for (size_t i = 0; i < count; i++) {
        hyp_eval_tensor got;
        assert_ok(hyp_eval_tensor_load(&got, &outputs[i], diag));
        golden_ops_compare(c, &got, &c->wanted[i], 8 * golden_ops_tolerance(got.dtype)); /* other orders of sums */
        hyp_eval_tensor_dispose(&got);
    }
    t->right++;
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    free_tensors(inputs, c->input_count);
    free_tensors(outputs, count);
}

static void every_operator_is_right_or_refused(void **state)
{
    (void)state;
    tally t = {0};
    golden_ops_visit(run_golden, &t);
    print_message("%s: %zu cases right, %zu refused", backend->name, t.right, t.refused);
    for (int op = 0; op < HYP_OP_COUNT; op++)
        if (t.refuses[op]) print_message("%s%s", ", ", hyp_op_get((hyp_op)op)->name);
    print_message("\n");
    assert_true(t.right > 0);
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

/* y = [n, 3] transposed, and the sizes of y: steps that even the null backend has. */
static hyp_engine *transposing(void)
{
    static const char text[] = "(graph \"life\" (input %x (f32 n 3)) (%y (transpose :perm (1 0) %x)) (%s (shape %y))"
                               " (output \"y\" %y) (output \"s\" %s))";
    hyp_dims *dims;
    hyp_graph g;
    assert_ok(hyp_dims_create(&dims, diag));
    hyp_graph_init(&g, dims);
    assert_ok(hyp_graph_parse(&g, "life", text, strlen(text), diag));
    assert_ok(hyp_graph_verify(&g, diag));
    hyp_engine *engine = load_graph(&g);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    assert_non_null(engine);
    return engine;
}

enum { COLUMNS = 3, MOST_ROWS = 1000 };

static hyp_tensor rows_of(float *data, int64_t rows)
{
    for (int64_t i = 0; i < rows * COLUMNS; i++) data[i] = (float)(i + rows);
    return (hyp_tensor){.data = data,
                        .bytes = (size_t)(rows * COLUMNS) * sizeof *data,
                        .dtype = HYP_F32,
                        .rank = 2,
                        .dims = {rows, COLUMNS}};
}

static void check_transposed(const float *x, int64_t rows, const float *y, const int64_t *sizes)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < COLUMNS; k++)
            if (y[k * rows + i] != x[i * COLUMNS + k])
                fail_msg("%lld rows: element %lld, %lld is wrong", (long long)rows, (long long)k, (long long)i);
    assert_int_equal(sizes[0], COLUMNS);
    assert_int_equal(sizes[1], rows);
}

/* `offset` elements behind where memory begins. */
static void run_rows(hyp_context *c, int64_t rows, size_t offset)
{
    float *memory = malloc((2 * MOST_ROWS * COLUMNS + 16) * sizeof *memory), *x = memory + offset;
    float *y = x + MOST_ROWS * COLUMNS;
    int64_t sizes[2];
    hyp_tensor in = rows_of(x, rows);
    hyp_tensor out[2] = {{.data = y, .bytes = in.bytes, .dtype = HYP_F32},
                         {.data = sizes, .bytes = sizeof sizes, .dtype = HYP_I64}};
    assert_ok(hyp_context_run(c, &in, 1, out, 2, diag));
    assert_int_equal(out[0].dims[1], rows);
    check_transposed(x, rows, y, sizes);
    free(memory);
}

/* Sizes in turns: what was prepared before scratch memory grew stays valid, and more than are remembered come back. */
static void shapes_come_and_go(void **state)
{
    (void)state;
    hyp_engine *engine = transposing();
    hyp_context *c = new_context(engine);
    static const int64_t rows[] = {2, 1, 0, MOST_ROWS, 2, 0, 7, MOST_ROWS, 1};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) run_rows(c, rows[i], 0);
    for (int64_t n = 0; n < 60; n++) run_rows(c, n % 40, 0);
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
}

static void tensors_may_begin_at_any_element(void **state)
{
    (void)state;
    hyp_engine *engine = transposing();
    hyp_context *c = new_context(engine);
    for (size_t offset = 0; offset < 16; offset++) run_rows(c, 37, offset);
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
}

static void every_step_is_timed(void **state)
{
    (void)state;
    hyp_engine *engine = transposing();
    hyp_context *c = new_context(engine);
    size_t steps = hyp_engine_step_count(engine);
    static float x[MOST_ROWS * COLUMNS], y[MOST_ROWS * COLUMNS];
    int64_t sizes[2];
    double *seconds = calloc(steps, sizeof *seconds);
    hyp_tensor in = rows_of(x, MOST_ROWS);
    hyp_tensor out[2] = {{.data = y, .bytes = sizeof y, .dtype = HYP_F32},
                         {.data = sizes, .bytes = sizeof sizes, .dtype = HYP_I64}};
    for (size_t i = 0; i < steps; i++) seconds[i] = -1;
    assert_ok(hyp_context_time_steps(c, &in, 1, out, 2, seconds, steps, diag));
    for (size_t i = 0; i < steps; i++) assert_true(seconds[i] >= 0);
    check_transposed(x, MOST_ROWS, y, sizes);
    free(seconds);
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
}

/* Tensors in the device's memory, by the calls that need no library of it; the results arrive in order. */
static void tensors_lie_on_the_device(void **state)
{
    (void)state;
    hyp_engine *engine = transposing();
    hyp_context *c = new_context(engine);
    static float x[MOST_ROWS * COLUMNS], y[MOST_ROWS * COLUMNS];
    int64_t sizes[2] = {-1, -1};
    hyp_tensor in = rows_of(x, MOST_ROWS);
    hyp_tensor out[2] = {{.data = y, .bytes = sizeof y, .dtype = HYP_F32},
                         {.data = sizes, .bytes = sizeof sizes, .dtype = HYP_I64}};
    hyp_tensor there[] = {in, out[0], out[1]}, small = {.bytes = 1};
    for (size_t i = 0; i < 3; i++) {
        assert_ok(hyp_engine_tensor_alloc(engine, &there[i], diag));
        assert_true(there[i].data && there[i].memory == backend->memory);
    }
    assert_ok(hyp_engine_tensor_copy(engine, &in, &there[0], diag));
    memset(x, 0xff, sizeof x); /* what is copied is no longer looked at */
    assert_ok(hyp_context_run(c, there, 1, there + 1, 2, diag));
    assert_ok(hyp_context_synchronize(c, diag));
    for (size_t i = 0; i < 2; i++) assert_ok(hyp_engine_tensor_copy(engine, &there[1 + i], &out[i], diag));
    rows_of(x, MOST_ROWS);
    check_transposed(x, MOST_ROWS, y, sizes);

    assert_int_equal(hyp_engine_tensor_copy(engine, &in, &small, diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_engine_tensor_copy(engine, NULL, &small, diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_engine_tensor_alloc(NULL, &small, diag), HYP_ERR_INVALID_ARGUMENT);
    assert_ok(hyp_engine_tensor_copy(engine, &there[0], &there[1], diag)); /* within the device's memory */
    memset(y, 0, sizeof y);
    assert_ok(hyp_engine_tensor_copy(engine, &there[1], &out[0], diag));
    assert_memory_equal(y, x, sizeof x);
    hyp_tensor nowhere = there[0];
    nowhere.memory = HYP_MEMORY_CONTEXT;
    assert_int_equal(hyp_engine_tensor_copy(engine, &nowhere, &there[1], diag), HYP_ERR_INVALID_ARGUMENT);
    for (size_t i = 0; i < 3; i++) hyp_engine_tensor_free(engine, &there[i]);
    assert_null(there[0].data);
    hyp_engine_tensor_free(engine, &there[0]);
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
}

/* What a context told of its steps: twice the number where one begins, one more where it ends. */
typedef struct told {
    hyp_context *context;
    size_t count, list[64];
    bool cancels; /* when the first step has ended */
} told;

static void note_begin(size_t step, void *user)
{
    told *t = user;
    assert_true(t->count < 64);
    t->list[t->count++] = 2 * step;
}

static void *cancel(void *context)
{
    hyp_context_cancel(context);
    return NULL;
}

static void note_end(size_t step, void *user)
{
    told *t = user;
    pthread_t thread;
    assert_true(t->count < 64);
    t->list[t->count++] = 2 * step + 1;
    if (!t->cancels || t->count > 2) return;
    assert_int_equal(pthread_create(&thread, NULL, cancel, t->context), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A run of so many rows, which must be right, or end as it should. */
static void run_told(told *t, int64_t rows, hyp_status wanted)
{
    static float x[MOST_ROWS * COLUMNS], y[MOST_ROWS * COLUMNS];
    static int64_t s[2];
    hyp_tensor in = rows_of(x, rows);
    hyp_tensor out[] = {{.data = y, .bytes = sizeof y, .dtype = HYP_F32}, {.data = s, .bytes = sizeof s, .dtype = HYP_I64}};
    memset(y, 0, sizeof y);
    t->count = 0;
    hyp_status status = hyp_context_run(t->context, &in, 1, out, 2, diag);
    if (status != wanted) fail_msg("%s: %s", hyp_status_name(status), diag->message);
    for (int64_t i = 0; i < rows * COLUMNS && status == HYP_OK; i++)
        assert_true(y[i % COLUMNS * rows + i / COLUMNS] == x[i]);
    for (size_t i = 0; i < t->count; i += 2)
        assert_true(i + 1 < t->count && t->list[i] % 2 == 0 && t->list[i + 1] == t->list[i] + 1);
}

/* Around every step, however often the same buffers come; a run that was cancelled leaves a context that works. */
static void steps_are_told_of_and_runs_end_between_them(void **state)
{
    (void)state;
    hyp_engine *engine = transposing();
    told t = {0};
    const hyp_context_options options = {
        .size = sizeof options, .step_begins = note_begin, .step_ends = note_end, .step_user = &t};
    size_t steps = hyp_engine_step_count(engine);
    assert_ok(hyp_context_create(engine, &options, &t.context, diag));
    assert_true(steps >= 2);
    for (size_t run = 0; run < 4; run++) {
        run_told(&t, 5, HYP_OK);
        assert_true(t.count >= 2 * steps && t.list[0] == 0 && t.list[t.count - 1] == 2 * steps - 1);
    }
    t.cancels = true;
    run_told(&t, 5, HYP_ERR_CANCELLED);
    assert_int_equal(t.count, 2);
    t.cancels = false;
    run_told(&t, 5, HYP_OK);
    run_told(&t, 7, HYP_OK);

    hyp_context_cancel(t.context); /* nothing is under way: the next run is meant, and it alone */
    run_told(&t, 5, HYP_ERR_CANCELLED);
    assert_int_equal(t.count, 0);
    run_told(&t, 5, HYP_OK);
    hyp_context_cancel(NULL);
    hyp_context_destroy(t.context);
    hyp_engine_destroy(engine);
}

static hyp_step_work_info work_of(hyp_context *c, size_t step)
{
    hyp_step_work_info work = {.size = sizeof work};
    assert_ok(hyp_context_step_work(c, step, &work, diag));
    return work;
}

/* What a step has to do grows with the shapes; launches are a GPU's. */
static void work_follows_the_shapes(void **state)
{
    (void)state;
    hyp_engine *engine = transposing();
    hyp_context *c = new_context(engine);
    size_t steps = hyp_engine_step_count(engine);
    hyp_step_work_info *few = calloc(steps, sizeof *few), none = {.size = sizeof none};
    static float x[MOST_ROWS * COLUMNS];
    hyp_tensor in = rows_of(x, 2);
    assert_int_equal(hyp_context_step_work(c, 0, &none, diag), HYP_ERR_INVALID_ARGUMENT);
    assert_ok(hyp_context_reserve(c, &in, 1, diag));
    assert_int_equal(hyp_context_step_work(c, steps, &none, diag), HYP_ERR_INVALID_ARGUMENT);
    for (size_t i = 0; i < steps; i++) few[i] = work_of(c, i);
    in = rows_of(x, 1000);
    assert_ok(hyp_context_reserve(c, &in, 1, diag));
    double more = 0, launches = 0;
    for (size_t i = 0; i < steps; i++) {
        hyp_step_work_info many = work_of(c, i);
        assert_true(many.bytes >= few[i].bytes && many.floor_seconds >= few[i].floor_seconds);
        more += many.bytes - few[i].bytes;
        launches += (double)many.launches;
    }
    assert_true(more >= 2 * 998 * COLUMNS * sizeof(float));
    assert_true((launches > 0) == (backend->memory == HYP_MEMORY_CUDA));
    free(few);
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
}

static void *run_many(void *context)
{
    for (int64_t i = 0; i < 50; i++) run_rows(context, 1 + i * 7 % 90, (size_t)i % 4);
    return NULL;
}

/* An engine is shared; each thread has a context. A failed assertion in a thread ends the program, which fails the test. */
static void contexts_run_on_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    hyp_engine *engine = transposing();
    hyp_context *contexts[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) contexts[i] = new_context(engine);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_many, contexts[i]), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) hyp_context_destroy(contexts[i]);
    hyp_engine_destroy(engine);
}

/* ---- whole graphs --------------------------------------------------------------------------------------------- */

/* Random graphs: the same inputs give the same bytes, in the same context and in another, whatever ran in between. */
static bool run_random(uint64_t seed)
{
    static const int64_t sizes[][2] = {{3, 2}, {5, 4}};
    static const hyp_dtype dtypes[] = {HYP_F32, HYP_F64, HYP_F16, HYP_BF16};
    enum { EDGES = 128 };
    const hyp_random_graph_options options = {.seed = seed,
                                              .nodes = 3 + (int)(seed % 8),
                                              .dtype = dtypes[seed % 4],
                                              .symbolic = true,
                                              .first_op = (int)(seed * 7 % HYP_RANDOM_OPS)};
    hyp_dims *dims;
    hyp_graph g;
    hyp_random random = {seed};
    int64_t symbols[8];
    assert_ok(hyp_dims_create(&dims, diag));
    assert_ok(hyp_random_graph(&options, dims, &g, NULL, diag));
    hyp_engine *engine = load_graph(&g);
    hyp_tensor in[2][EDGES] = {{{0}}}, first[EDGES], again[EDGES];
    size_t count = engine ? hyp_engine_output_count(engine) : 0;
    hyp_context *a = engine ? new_context(engine) : NULL, *b = engine ? new_context(engine) : NULL;
    for (size_t s = 0; s < 2 && engine; s++) {
        hyp_random_bind(dims, sizes[s][0], sizes[s][1], symbols);
        for (size_t i = 0; i < g.inputs.len; i++)
            assert_ok(hyp_random_input(&g, i, symbols, &random, &in[s][i], diag));
    }
    for (size_t s = 0; s < 2 && engine; s++) {
        make_outputs(a, engine, in[s], g.inputs.len, first);
        make_outputs(a, engine, in[s], g.inputs.len, again);
        assert_ok(hyp_context_run(a, in[s], g.inputs.len, first, count, diag));
        for (int way = 0; way < 2; way++) {
            assert_ok(hyp_context_run(way ? b : a, in[s], g.inputs.len, again, count, diag));
            assert_same_bytes(first, again, count);
        }
        free_tensors(first, count);
        free_tensors(again, count);
    }
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < g.inputs.len; i++) hyp_free(in[s][i].data);
    hyp_context_destroy(a);
    hyp_context_destroy(b);
    hyp_engine_destroy(engine);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    return engine;
}

/* False where the backend does not take the graph. */
static bool run_text(const char *text, const hyp_tensor *inputs, size_t count, hyp_tensor *outputs)
{
    hyp_dims *dims;
    hyp_graph g;
    assert_ok(hyp_dims_create(&dims, diag));
    hyp_graph_init(&g, dims);
    assert_ok(hyp_graph_parse(&g, "text", text, strlen(text), diag));
    assert_ok(hyp_graph_verify(&g, diag));
    hyp_engine *engine = load_graph(&g);
    if (engine) {
        hyp_context *c = new_context(engine);
        make_outputs(c, engine, inputs, count, outputs);
        assert_ok(hyp_context_run(c, inputs, count, outputs, hyp_engine_output_count(engine), diag));
        hyp_context_destroy(c);
    }
    hyp_engine_destroy(engine);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    return engine;
}

/* Steps that read parts of a tensor where they lie give what they give of parts that are tensors of their own. `made` makes
 * something of the whole or of each part first: a part of what a step has written is then read. */
static void parts_are_read_where_they_lie(void **state)
{
    enum { PARTS = 3, WIDTH = 16, ROWS = 32, OUTPUTS = 2 };
    static const int64_t rows[PARTS] = {8, 8, 16}; /* of x, [1, ROWS, WIDTH] */
    static const char *const made[] = {"identity", "softmax"};
    static const char *const bodies[] = {
        "(%y (transpose :perm (0 2 1) %b)) (%z (transpose :perm (2 0 1) %c))",
        "(%1 (mul %a %b)) (%y (sub %1 %b)) (%z (exp %c))",
        "(%y (softmax %b)) (%z (softmax :axis 1 %a))",
        "(%y (reduce-sum :axes (1) %b)) (%z (reduce-mean :axes (2) %c))",
        "(%w (reshape :shape (16 16) %c)) (%y (linear %w none %b)) (%z (fused-linear-add :act relu :add before %w none %a %b))",
        "(%t (transpose :perm (0 2 1) %a)) (%y (matmul %b %t)) (%z (matmul %c %c))",
        "(%y (rms-norm %b)) (%z (layer-norm %c))",
        "(%1 (reshape :shape (1 8 4 4) %b)) (%2 (reshape :shape (4 8 2 2) %a))"
        "(%y (conv :strides (1 1) :pads (0 0 0 0) :dilations (1 1) %1 %2))"
        "(%z (max-pool :kernel (2 2) :strides (1 1) :pads (0 0 0 0) :dilations (1 1) %1))",
        "(const %zero (f32) 0) (%y (concat :axis 2 %b %a)) (%z (pad :before (0 1 0) :after (0 0 1) %c %zero))",
    };
    (void)state;
    float x[ROWS * WIDTH];
    hyp_tensor in[PARTS], whole = {.data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 3, .dims = {1, ROWS, WIDTH}};
    size_t ran = 0;
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int64_t i = 0, at = 0; i < PARTS; at += rows[i++])
        in[i] = (hyp_tensor){.data = x + at * WIDTH,
                             .bytes = (size_t)(rows[i] * WIDTH) * sizeof *x,
                             .dtype = HYP_F32,
                             .rank = 3,
                             .dims = {1, rows[i], WIDTH}};
    for (size_t m = 0; m < sizeof made / sizeof *made; m++)
        for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
            char text[2][1024];
            hyp_tensor got[OUTPUTS], want[OUTPUTS];
            snprintf(text[0], sizeof text[0],
                     "(graph \"\" (input %%x (f32 1 32 16)) (%%m (%s %%x))"
                     "((%%a %%b %%c) (split :axis 1 :sizes (8 8 16) %%m)) %s "
                     "(output \"y\" %%y) (output \"z\" %%z))",
                     made[m], bodies[i]);
            snprintf(text[1], sizeof text[1],
                     "(graph \"\" (input %%p (f32 1 8 16)) (input %%q (f32 1 8 16)) (input %%r (f32 1 16 16))"
                     "(%%a (%s %%p)) (%%b (%s %%q)) (%%c (%s %%r)) %s (output \"y\" %%y) (output \"z\" %%z))",
                     made[m], made[m], made[m], bodies[i]);
            if (!run_text(text[0], &whole, 1, got)) continue;
            assert_true(run_text(text[1], in, PARTS, want));
            for (size_t o = 0; o < OUTPUTS; o++) {
                assert_int_equal(got[o].bytes, want[o].bytes);
                for (size_t e = 0; e < got[o].bytes / sizeof(float); e++)
                    if (fabsf(((float *)got[o].data)[e] - ((float *)want[o].data)[e]) > 1e-4f)
                        fail_msg("element %zu of output %zu of %s", e, o, text[0]);
            }
            ran++;
            free_tensors(got, OUTPUTS);
            free_tensors(want, OUTPUTS);
        }
    assert_true(ran > 0);
}

/* What a concat puts together is copied from where it lies, also where axes changed places and were merged then: heads of
 * an attention that become rows again. */
static void merged_axes_are_put_together_from_where_they_lie(void **state)
{
    enum { A = 2, B = 3, C = 4, D = 5 };
    static const struct {
        const char *text;
        int perm[4], merged; /* the axis, of those that changed places, that is merged with the next one */
        bool along;          /* that axis is the one that grows */
    } rows[] = {
        {"(%t (transpose :perm (0 2 1 3) %x)) (%r (reshape :shape (2 4 15) %t)) (%y (concat :axis 2 %r %r))",
         {0, 2, 1, 3}, 2, true},
        {"(%t (transpose :perm (0 3 1 2) %x)) (%r (reshape :shape (2 5 12) %t)) (%y (concat :axis 2 %r %r))",
         {0, 3, 1, 2}, 2, true},
        {"(%t (transpose :perm (0 2 1 3) %x)) (%r (reshape :shape (2 4 15) %t)) (%y (concat :axis 1 %r %r))",
         {0, 2, 1, 3}, 2, false},
        {"(%t (transpose :perm (1 3 0 2) %x)) (%r (reshape :shape (15 2 4) %t)) (%y (concat :axis 0 %r %r))",
         {1, 3, 0, 2}, 0, true},
    };
    static const int dims[] = {A, B, C, D};
    (void)state;
    float x[A * B * C * D];
    for (int i = 0; i < A * B * C * D; i++) x[i] = (float)i;
    hyp_tensor in = {.data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 4, .dims = {A, B, C, D}}, got;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int *perm = rows[i].perm;
        char text[512];
        snprintf(text, sizeof text, "(graph \"\" (input %%x (f32 2 3 4 5)) %s (output \"y\" %%y))", rows[i].text);
        if (!run_text(text, &in, 1, &got)) continue;
        assert_int_equal(got.bytes, 2 * sizeof x);
        int to[4], after = rows[i].along ? 1 : dims[perm[2]] * dims[perm[3]]; /* elements behind the axis that grows */
        for (int a = rows[i].merged + 2; rows[i].along && a < 4; a++) after *= dims[perm[a]];
        int block = after * (rows[i].along ? dims[perm[rows[i].merged]] * dims[perm[rows[i].merged + 1]] : dims[perm[1]]);
        for (int from = 0; from < A * B * C * D; from++) {
            const int at[] = {from / (B * C * D), from / (C * D) % B, from / D % C, from % D};
            for (int a = 0; a < 4; a++) to[a] = at[perm[a]];
            int flat = ((to[0] * dims[perm[1]] + to[1]) * dims[perm[2]] + to[2]) * dims[perm[3]] + to[3];
            for (int copy = 0; copy < 2; copy++) {
                int place = flat / block * 2 * block + copy * block + flat % block;
                if (((float *)got.data)[place] != x[from]) fail_msg("%s: element %d", rows[i].text, place);
            }
        }
        free_tensors(&got, 1);
    }
}

static void the_same_inputs_give_the_same_bytes(void **state)
{
    (void)state;
    size_t ran = 0;
    for (uint64_t seed = 0; seed < 120; seed++) ran += run_random(seed);
    print_message("%s: %zu of 120 random graphs, the others refused\n", backend->name, ran);
}

/* ---- errors --------------------------------------------------------------------------------------------------- */

/* An index out of range is an error that names the step, and the context is good for the next run. */
static void a_wrong_index_is_an_error(void **state)
{
    static const char text[] = "(graph \"rows\" (input %x (f32 4 3)) (input %i (i64 2)) (%y (gather :axis 0 %x %i))"
                               " (output \"y\" %y))";
    (void)state;
    hyp_dims *dims;
    hyp_graph g;
    assert_ok(hyp_dims_create(&dims, diag));
    hyp_graph_init(&g, dims);
    assert_ok(hyp_graph_parse(&g, "rows", text, strlen(text), diag));
    hyp_engine *engine = load_graph(&g);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    if (!engine) {
        print_message("%s: gather is refused\n", backend->name);
        return;
    }
    hyp_context *c = new_context(engine);
    float x[12], y[6];
    int64_t index[2] = {3, -1};
    for (int i = 0; i < 12; i++) x[i] = (float)i;
    hyp_tensor in[2] = {{.data = x, .bytes = sizeof x, .dtype = HYP_F32, .rank = 2, .dims = {4, 3}},
                        {.data = index, .bytes = sizeof index, .dtype = HYP_I64, .rank = 1, .dims = {2}}};
    hyp_tensor out = {.data = y, .bytes = sizeof y, .dtype = HYP_F32};
    for (int round = 0; round < 2; round++) {
        index[1] = -1;
        assert_ok(hyp_context_run(c, in, 2, &out, 1, diag));
        for (int i = 0; i < 6; i++) assert_true(y[i] == (float)(9 + i % 3));
        index[1] = 4;
        assert_int_equal(hyp_context_run(c, in, 2, &out, 1, diag), HYP_ERR_INVALID_ARGUMENT);
        if (!strstr(diag->message, "index 4") || !strstr(diag->message, "step 0"))
            fail_msg("the message names neither step nor index: %s", diag->message);
    }
    hyp_context_destroy(c);
    hyp_engine_destroy(engine);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof tested / sizeof *tested && argc > 1; i++)
        if (strcmp(tested[i].backend->name, argv[1]) == 0) backend = tested[i].backend, target = tested[i].target;
    if (!backend) {
        fprintf(stderr, "usage: test_conformance BACKEND; this build has no '%s'\n", argc > 1 ? argv[1] : "");
        return 2;
    }
    const hyp_engine_options options = {.size = sizeof options};
    const hyp_log log = {0};
    void *device;
    const char *name;
    if (backend->open(&options, &log, &device, &name, diag) != HYP_OK) {
        printf("skipped: %s\n", diag->message);
        return 77;
    }
    printf("device: %s\n", name);
    backend->close(device);
    snprintf(plan_path, sizeof plan_path, "conformance.%ld.bin", (long)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_complete),
        cmocka_unit_test(shapes_come_and_go),
        cmocka_unit_test(tensors_may_begin_at_any_element),
        cmocka_unit_test(every_step_is_timed),
        cmocka_unit_test(steps_are_told_of_and_runs_end_between_them),
        cmocka_unit_test(tensors_lie_on_the_device),
        cmocka_unit_test(work_follows_the_shapes),
        cmocka_unit_test(contexts_run_on_threads),
        cmocka_unit_test(a_wrong_index_is_an_error),
        cmocka_unit_test(every_operator_is_right_or_refused),
        cmocka_unit_test(parts_are_read_where_they_lie),
        cmocka_unit_test(merged_axes_are_put_together_from_where_they_lie),
        cmocka_unit_test(the_same_inputs_give_the_same_bytes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(plan_path);
    return failed;
}
