/* Graphs with variables as plans: many runs against the interpreter, which is given what it gave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/run_graph.h"

enum { STEPS = 12, MOST = 8, ROWS = 4 };

/* A layer with a relu and one behind it, squares of errors, momentum and a count: weights are read by products, and are
 * what pointwise steps make. */
static const char step[] =
    "(graph \"step\" (input %x (f32 n 3)) (input %target (f32 n 2)) (input %rate (f32))"
    " (variable %w1 (f32 4 3) 0.5 -0.25 0.125 1 0.75 -0.5 -1 0.25 0.5 -0.125 0.5 0.25) (variable %b1 (f32 4) 0.1 -0.1 "
    "0.2 0)"
    " (variable %w2 (f32 2 4) 0.5 0.25 -0.5 1 -0.25 0.5 0.75 -1) (variable %m1 (f32 4 3)) (variable %m2 (f32 2 4))"
    " (variable %count (i64)) (variable %same (f32 2) 7 8)"
    " (const %one (i64) 1) (const %mu (f32) 0.5)"
    " (%h (fused-linear-relu %w1 %b1 %x)) (%y (linear %w2 none %h)) (%e (sub %y %target)) (%sq (mul %e %e))"
    " (%loss (reduce-mean :axes (0 1) :keep 0 %sq))"
    " (%gw2 (matmul :trans-a 1 %e %h)) (%gh (matmul %e %w2)) (%zero (sub %h %h)) (%on (less %zero %h))"
    " (%ga (where %on %gh %zero)) (%gw1 (matmul :trans-a 1 %ga %x)) (%gb1 (reduce-sum :axes (0) :keep 0 %ga))"
    " (%m1k (mul %m1 %mu)) (%m1n (add %m1k %gw1)) (%m2k (mul %m2 %mu)) (%m2n (add %m2k %gw2))"
    " (%d1 (mul %rate %m1n)) (%w1n (sub %w1 %d1)) (%d2 (mul %rate %m2n)) (%w2n (sub %w2 %d2))"
    " (%db (mul %rate %gb1)) (%b1n (sub %b1 %db)) (%countn (add %count %one))"
    " (output \"loss\" %loss) (output \"y\" %y) (output \"b\" %b1n) (output \"before\" %w2)"
    " (set %w1 %w1n) (set %b1 %b1n) (set %w2 %w2n) (set %m1 %m1n) (set %m2 %m2n) (set %count %countn) (set %same "
    "%same))";

/* What variables become may be views, windows, other variables, constants, inputs. */
static const char odd[] =
    "(graph \"odd\" (input %x (f32 2 2)) (variable %a (f32 2 2) 1 2 3 4) (variable %b (f32 2 2)) (variable %flat (f32 "
    "4) 1 1 1 1)"
    " (variable %first (f32 1 2)) (variable %fixed (f32 2) 9 9) (variable %in (f32 2 2)) (variable %wide (f64 2) 1 2)"
    " (const %c (f32 2) 3 4) (%s (add %x %b)) (%r (reshape :shape (4) %s)) ((%p %q) (split :axis 0 :sizes (1 1) %s))"
    " (%t (transpose :perm (1 0) %a)) (%w2 (mul %wide %wide))"
    " (set %a %b) (set %b %t) (set %flat %r) (set %first %q) (set %fixed %c) (set %in %x) (set %wide %w2))";

typedef struct fixture {
    hyp_dims *dims;
    hyp_graph g;
    char path[64];
    hyp_diag diag;
    hyp_eval_tensor state[MOST]; /* by variable, of the interpreter */
} fixture;

static void begin(fixture *f, const char *text)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(hyp_dims_create(&f->dims, NULL), HYP_OK);
    hyp_graph_init(&f->g, f->dims);
    if (hyp_graph_parse(&f->g, "test", text, strlen(text), &f->diag) != HYP_OK) fail_msg("%s", f->diag.message);
    strcpy(f->path, "/tmp/hypatia-variables-XXXXXX");
    int file = mkstemp(f->path);
    assert_true(file >= 0);
    close(file);
    for (size_t i = 0; i < f->g.variables.len; i++) {
        const hyp_value *v = hyp_graph_variable(&f->g, i);
        hyp_eval_tensor *t = &f->state[i];
        assert_int_equal(hyp_eval_tensor_alloc(t, v->type.dtype, v->type.rank, v->type.dims, NULL), HYP_OK);
        if (t->f) memset(t->f, 0, t->count * sizeof *t->f);
        if (t->i) memset(t->i, 0, t->count * sizeof *t->i);
        if (!v->bytes) continue;
        hyp_tensor from = {
            .data = (void *)(uintptr_t)v->data, .bytes = v->bytes, .dtype = v->type.dtype, .rank = v->type.rank};
        memcpy(from.dims, v->type.dims, sizeof from.dims);
        hyp_eval_tensor_dispose(t);
        assert_int_equal(hyp_eval_tensor_load(t, &from, NULL), HYP_OK);
    }
}

static void end(fixture *f)
{
    for (size_t i = 0; i < f->g.variables.len; i++) hyp_eval_tensor_dispose(&f->state[i]);
    hyp_graph_dispose(&f->g);
    hyp_dims_destroy(f->dims);
    unlink(f->path);
}

/* Numbers of a step for an input of the graph: small, and others each time. */
static hyp_tensor draw(const fixture *f, size_t input, int at, int64_t rows)
{
    const hyp_value *v = &f->g.values.data[f->g.inputs.data[input]];
    hyp_tensor t = {.name = v->name, .dtype = HYP_F32, .rank = v->type.rank, .bytes = sizeof(float)};
    for (int32_t a = 0; a < t.rank; a++) {
        t.dims[a] = hyp_dim_is_const(v->type.dims[a]) ? v->type.dims[a] : rows;
        t.bytes *= (size_t)t.dims[a];
    }
    float *data = t.data = malloc(t.bytes);
    assert_non_null(data);
    for (size_t i = 0; i < t.bytes / sizeof(float); i++)
        data[i] = t.rank ? (float)((int)((i * 7 + (size_t)at * 5 + input * 3) % 11) - 5) / 8 : 0.03125f;
    return t;
}

/* One step of the interpreter: results of shown outputs, the state moves on. */
static void interpret(fixture *f, const hyp_tensor *inputs, hyp_eval_tensor *shown)
{
    size_t count = f->g.inputs.len, seen = hyp_graph_shown_inputs(&f->g);
    hyp_eval_tensor in[2 * MOST] = {{0}}, out[2 * MOST] = {{0}};
    assert_true(count <= 2 * MOST && f->g.outputs.len <= 2 * MOST);
    for (size_t i = 0; i < seen; i++) assert_int_equal(hyp_eval_tensor_load(&in[i], &inputs[i], NULL), HYP_OK);
    for (size_t i = seen; i < count; i++) in[i] = f->state[i - seen];
    if (hyp_graph_eval(&f->g, HYP_EVAL_NATIVE, in, count, out, &f->diag) != HYP_OK) fail_msg("%s", f->diag.message);
    for (size_t i = 0; i < count; i++) hyp_eval_tensor_dispose(&in[i]);
    for (size_t i = 0; i < hyp_graph_shown(&f->g); i++) shown[i] = out[i];
    for (size_t i = 0; i < f->g.variables.len; i++) f->state[i] = out[f->g.variables.data[i].output];
}

static void want(fixture *f, const hyp_tensor *got, const hyp_eval_tensor *wanted, double tolerance, const char *name,
                 int at)
{
    if (!results_agree(got, wanted, tolerance, false, &f->diag))
        fail_msg("step %d, '%s': %s", at, name, f->diag.message);
}

static void check_step(fixture *f, hyp_context *c, int at, double tolerance)
{
    size_t inputs = hyp_graph_shown_inputs(&f->g), outputs = hyp_graph_shown(&f->g);
    hyp_tensor in[MOST], out[MOST] = {{0}};
    hyp_eval_tensor wanted[MOST] = {{0}};
    for (size_t i = 0; i < inputs; i++) in[i] = draw(f, i, at, 1 + at % ROWS);
    interpret(f, in, wanted);
    for (size_t i = 0; i < outputs; i++) out[i] = (hyp_tensor){.dtype = wanted[i].dtype, .memory = HYP_MEMORY_CONTEXT};
    hyp_status status = hyp_context_run(c, in, inputs, out, outputs, &f->diag);
    if (status != HYP_OK) fail_msg("%s", f->diag.message);
    for (size_t i = 0; i < outputs; i++) want(f, &out[i], &wanted[i], tolerance, f->g.outputs.data[i].name, at);
    for (size_t i = 0; i < f->g.variables.len; i++) {
        char data[1024];
        hyp_tensor t = {.data = data, .bytes = sizeof data, .dtype = f->state[i].dtype};
        t.name = hyp_graph_variable(&f->g, i)->name;
        if (hyp_context_variable_get(c, &t, 1, &f->diag) != HYP_OK) fail_msg("%s", f->diag.message);
        want(f, &t, &f->state[i], tolerance, t.name, at);
    }
    for (size_t i = 0; i < inputs; i++) free(in[i].data);
    for (size_t i = 0; i < outputs; i++) hyp_eval_tensor_dispose(&wanted[i]);
}

static void check(const char *text, double tolerance)
{
    static const hyp_device_kind devices[] = {HYP_DEVICE_CPU, HYP_DEVICE_REFERENCE};
    for (size_t d = 0; d < 2; d++) {
        const hyp_engine_options options = {.size = sizeof options, .device = devices[d], .threads = 1};
        fixture f;
        hyp_engine *e;
        hyp_context *c;
        begin(&f, text);
        if (write_plan(&f.g, f.path, &f.diag) != HYP_OK ||
            hyp_engine_load_file(f.path, &options, &e, &f.diag) != HYP_OK ||
            hyp_context_create(e, NULL, &c, &f.diag) != HYP_OK)
            fail_msg("%s", f.diag.message);
        assert_int_equal(hyp_engine_variable_count(e), f.g.variables.len);
        for (int at = 0; at < STEPS; at++) check_step(&f, c, at, tolerance);
        hyp_context_destroy(c);
        hyp_engine_destroy(e);
        end(&f);
    }
}

static void a_step_of_training_gives_what_the_interpreter_gives(void **state)
{
    (void)state;
    check(step, 1e-5);
}

static void a_variable_may_become_anything_of_its_type(void **state)
{
    (void)state;
    check(odd, 0);
}

static void the_same_graph_gives_the_same_bytes(void **state)
{
    (void)state;
    char *bytes[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        fixture f;
        begin(&f, step);
        assert_int_equal(write_plan(&f.g, f.path, &f.diag), HYP_OK);
        FILE *file = fopen(f.path, "rb");
        assert_non_null(file);
        bytes[i] = malloc(1 << 20);
        assert_non_null(bytes[i]);
        size[i] = fread(bytes[i], 1, 1 << 20, file);
        fclose(file);
        end(&f);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    for (int i = 0; i < 2; i++) free(bytes[i]);
}

/* ---- in place ---------------------------------------------------------------------------------------- */

static hyp_plan open_plan(fixture *f)
{
    hyp_plan plan = {0};
    if (write_plan(&f->g, f->path, &f->diag) != HYP_OK || hyp_plan_open_file(f->path, NULL, &plan, &f->diag) != HYP_OK)
        fail_msg("%s", f->diag.message);
    return plan;
}

/* But for what an output shows, too, and what no run changes. */
static void updates_come_last_and_are_done_in_place(void **state)
{
    (void)state;
    static const char *const twice[] = {"b1", "same"};
    fixture f;
    begin(&f, step);
    hyp_plan plan = open_plan(&f);
    const HypPlan__Program *p = plan.program;
    uint32_t commit;
    size_t in_place = 0;
    for (size_t i = 0; i < p->n_variables; i++) {
        const char *name = p->tensors[p->inputs[p->variables[i]->input]]->name;
        bool is_twice = strcmp(name, twice[0]) == 0 || strcmp(name, twice[1]) == 0;
        if (p->variables[i]->in_place == is_twice) fail_msg("'%s' is in place: %d", name, p->variables[i]->in_place);
        in_place += p->variables[i]->in_place;
    }
    assert_int_equal(in_place, 5);
    assert_int_equal(hyp_plan_find_commit(p, &commit, NULL), HYP_OK);
    assert_in_range(p->n_steps - commit, 2, 5); /* of w1 with m1, of w2 with m2, of count */
    size_t at_twice, all = hyp_plan_state_bytes(p, &at_twice);
    assert_int_equal(all, (12 + 4 + 8 + 12 + 8 + 2) * sizeof(float) + sizeof(int64_t));
    assert_int_equal(at_twice, (4 + 2) * sizeof(float));
    hyp_plan_close(&plan);
    end(&f);
}

/* What updates read has to stand until the end. Two gradients each of four variables are more than these variables a second
 * time, so that each is updated right behind its gradients; only behind the last one nothing can fail. */
static void what_stands_longer_counts_as_well(void **state)
{
    (void)state;
    enum { COUNT = 4 };
    char text[2048];
    size_t at = (size_t)snprintf(text, sizeof text, "(graph \"\" (input %%x (f32 64 64))");
    for (int i = 0; i < COUNT; i++) at += (size_t)snprintf(text + at, sizeof text - at, " (variable %%w%d (f32 64 64))", i);
    for (int i = 0; i < COUNT; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               " (%%g%d (matmul %%w%d %%x)) (%%h%d (matmul %%x %%g%d)) (%%s%d (add %%g%d %%h%d)) (%%n%d (add %%w%d %%s%d))",
                               i, i, i, i, i, i, i, i, i, i);
    for (int i = 0; i < COUNT; i++) at += (size_t)snprintf(text + at, sizeof text - at, " (set %%w%d %%n%d)", i, i);
    snprintf(text + at, sizeof text - at, ")");
    fixture f;
    begin(&f, text);
    hyp_plan plan = open_plan(&f);
    size_t in_place = 0;
    for (size_t i = 0; i < COUNT; i++) in_place += plan.program->variables[i]->in_place;
    assert_int_equal(in_place, 1);
    hyp_plan_close(&plan);
    end(&f);
}

typedef struct stop {
    hyp_context *context;
    size_t at;
} stop;

static void stop_there(size_t number, void *user)
{
    const stop *s = user;
    if (number == s->at) hyp_context_cancel(s->context);
}

static void get_state(const fixture *f, hyp_context *c, char *out, size_t room)
{
    for (size_t i = 0; i < f->g.variables.len; i++) {
        hyp_tensor t = {.name = hyp_graph_variable(&f->g, i)->name, .data = out + i * 256, .bytes = 256, .dtype = f->state[i].dtype};
        assert_true((i + 1) * 256 <= room);
        assert_int_equal(hyp_context_variable_get(c, &t, 1, NULL), HYP_OK);
    }
}

/* Wherever a run is cancelled: all of the state is as before, or as after it. */
static void no_run_that_is_cancelled_leaves_them_between(void **state)
{
    (void)state;
    static const hyp_device_kind devices[] = {HYP_DEVICE_CPU, HYP_DEVICE_REFERENCE};
    for (size_t d = 0; d < 2; d++) {
        const hyp_engine_options options = {.size = sizeof options, .device = devices[d], .threads = 1};
        fixture f;
        hyp_engine *e;
        size_t ended = 0, cancelled = 0;
        begin(&f, step);
        assert_int_equal(write_plan(&f.g, f.path, &f.diag), HYP_OK);
        assert_int_equal(hyp_engine_load_file(f.path, &options, &e, &f.diag), HYP_OK);
        for (size_t at = 0; at < hyp_engine_step_count(e); at++) {
            static char was[MOST * 256], now[MOST * 256], wanted[MOST * 256];
            stop s = {.at = SIZE_MAX};
            const hyp_context_options watched = {.size = sizeof watched, .step_begins = stop_there, .step_user = &s};
            hyp_context *sure;
            hyp_tensor in[3], out[4] = {{0}};
            for (size_t i = 0; i < 3; i++) in[i] = draw(&f, i, (int)at, 2);
            for (size_t i = 0; i < 4; i++) out[i] = (hyp_tensor){.dtype = HYP_F32, .memory = HYP_MEMORY_CONTEXT};
            assert_int_equal(hyp_context_create(e, NULL, &sure, &f.diag), HYP_OK);
            assert_int_equal(hyp_context_create(e, &watched, &s.context, &f.diag), HYP_OK);
            assert_int_equal(hyp_context_run(sure, in, 3, out, 4, &f.diag), HYP_OK);
            get_state(&f, sure, wanted, sizeof wanted);
            get_state(&f, s.context, was, sizeof was);
            s.at = at;
            hyp_status status = hyp_context_run(s.context, in, 3, out, 4, &f.diag);
            get_state(&f, s.context, now, sizeof now);
            assert_true(status == HYP_OK || status == HYP_ERR_CANCELLED);
            assert_memory_equal(now, status == HYP_OK ? wanted : was, sizeof now);
            ended += status == HYP_OK;
            cancelled += status != HYP_OK;
            hyp_context_destroy(sure);
            hyp_context_destroy(s.context);
            for (size_t i = 0; i < 3; i++) free(in[i].data);
        }
        assert_in_range(ended, 2, 5); /* once the commit has begun */
        assert_in_range(cancelled, 5, 40);
        hyp_engine_destroy(e);
        end(&f);
    }
}

/* What was left out of a text cannot be what a plan begins with. */
static void elided_elements_are_refused(void **state)
{
    (void)state;
    fixture f = {.path = ""};
    begin(&f, "(graph \"\" (variable %v (f32)) (set %v %v))");
    hyp_graph_dispose(&f.g);
    hyp_graph_init(&f.g, f.dims);
    static const char text[] = "(graph \"\" (variable %v (f32 2) (hash \"0123456789abcdef\")) (set %v %v))";
    assert_int_equal(hyp_graph_parse(&f.g, "test", text, strlen(text), &f.diag), HYP_OK);
    assert_int_equal(write_plan(&f.g, f.path, &f.diag), HYP_ERR_INVALID_ARGUMENT);
    if (!strstr(f.diag.message, "the variable 'v' has no data")) fail_msg("%s", f.diag.message);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_of_training_gives_what_the_interpreter_gives),
        cmocka_unit_test(a_variable_may_become_anything_of_its_type),
        cmocka_unit_test(the_same_graph_gives_the_same_bytes),
        cmocka_unit_test(updates_come_last_and_are_done_in_place),
        cmocka_unit_test(what_stands_longer_counts_as_well),
        cmocka_unit_test(no_run_that_is_cancelled_leaves_them_between),
        cmocka_unit_test(elided_elements_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
