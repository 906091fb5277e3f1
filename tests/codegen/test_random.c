/* Random graphs over all operators: what the plan computes is what the interpreter computes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "run_graph.h"
#include "support/count.h"
#include "support/random_graph.h"
#include "support/values.h"

enum { MAX_EDGES = 128 };

typedef struct scratch_files {
    char first[64], second[64];
} scratch_files;

static int setup(void **state)
{
    scratch_files *s = calloc(1, sizeof *s);
    snprintf(s->first, sizeof s->first, "test_random.%ld.1.bin", (long)getpid());
    snprintf(s->second, sizeof s->second, "test_random.%ld.2.bin", (long)getpid());
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scratch_files *s = *state;
    unlink(s->first);
    unlink(s->second);
    free(s);
    return 0;
}

/* Prints the graph, so that a failure can be looked at. */
static void show(const hyp_graph *g, uint64_t seed, const char *what, const hyp_diag *diag)
{
    hyp_strbuf text = {0};
    if (hyp_graph_print(&text, g, 256, NULL) == HYP_OK) fputs(hyp_strbuf_text(&text), stderr); /* print_error cuts it */
    hyp_strbuf_dispose(&text);
    fail_msg("seed %llu: %s: %s", (unsigned long long)seed, what, diag->message);
}

static void compare_on(hyp_device_kind device, const hyp_graph *g, const char *path, uint64_t seed,
                       const hyp_tensor *inputs, const hyp_eval_tensor *results, double tolerance)
{
    hyp_diag diag = {0};
    hyp_tensor outputs[MAX_EDGES] = {{0}};
    const char *what = device == HYP_DEVICE_CPU ? "plan on the CPU backend" : "plan on the reference backend";
    size_t out = g->outputs.len;
    if (run_plan(path, device, inputs, g->inputs.len, results, outputs, out, &diag) != HYP_OK)
        show(g, seed, what, &diag);
    for (size_t i = 0; i < out; i++) {
        if (!results_agree(&outputs[i], &results[i], tolerance, device == HYP_DEVICE_CPU, &diag)) {
            hyp_diag_prefix(&diag, "%s", g->outputs.data[i].name);
            show(g, seed, what, &diag);
        }
        hyp_free(outputs[i].data);
    }
}

/* Compares the plan at `path` with the interpreter on the graph that it was made from. */
static void compare(const hyp_graph *g, const char *path, uint64_t seed, const int64_t *symbols, double tolerance)
{
    hyp_diag diag = {0};
    hyp_tensor inputs[MAX_EDGES] = {{0}};
    hyp_eval_tensor results[MAX_EDGES] = {{0}};
    hyp_random random = {seed + 77};
    size_t in = g->inputs.len, out = g->outputs.len;
    assert_true(in <= MAX_EDGES && out <= MAX_EDGES);
    for (size_t i = 0; i < in; i++)
        if (hyp_random_input(g, i, symbols, &random, &inputs[i], &diag) != HYP_OK) show(g, seed, "input", &diag);
    if (run_interpreter(g, HYP_EVAL_NATIVE, inputs, results, &diag) != HYP_OK) show(g, seed, "interpreter", &diag);
    compare_on(HYP_DEVICE_REFERENCE, g, path, seed, inputs, results, tolerance);
    compare_on(HYP_DEVICE_CPU, g, path, seed, inputs, results, tolerance);
    for (size_t i = 0; i < in; i++) hyp_free(inputs[i].data);
    for (size_t i = 0; i < out; i++) hyp_eval_tensor_dispose(&results[i]);
}

/* The narrowest type decides how far two orders of rounding may lie apart. */
static double tolerance_of(hyp_dtype dtype)
{
    switch (dtype) {
    case HYP_F64: return 1e-9;
    case HYP_F32: return 1e-5;
    case HYP_F16: return 0.05;
    default: return 0.3;
    }
}

static hyp_random_graph_options options_of(uint64_t seed)
{
    static const hyp_dtype dtypes[] = {HYP_F32, HYP_F32, HYP_F64, HYP_F32, HYP_F16, HYP_BF16};
    return (hyp_random_graph_options){.seed = seed,
                                      .nodes = 3 + (int)(seed % 14),
                                      .dtype = dtypes[seed % 6],
                                      .symbolic = seed % 4 < 2,
                                      .first_op = (int)(seed % HYP_RANDOM_OPS)};
}

/* A random graph, whose dims dispose_of_graph gives back, too. */
static void draw_graph(const hyp_random_graph_options *options, int *drawn, hyp_graph *out)
{
    hyp_diag diag = {0};
    hyp_dims *dims;
    assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
    if (hyp_random_graph(options, dims, out, drawn, &diag) != HYP_OK)
        fail_msg("seed %llu: %s", (unsigned long long)options->seed, diag.message);
    if (hyp_graph_verify(out, &diag) != HYP_OK) show(out, options->seed, "verify", &diag);
}

static void dispose_of_graph(hyp_graph *g)
{
    hyp_dims *dims = g->dims;
    hyp_graph_dispose(g);
    hyp_dims_destroy(dims);
}

static void write_graph(const hyp_graph *g, uint64_t seed, const char *path)
{
    hyp_diag diag = {0};
    if (write_plan(g, path, &diag) != HYP_OK) show(g, seed, "lower", &diag);
}

static void plans_compute_what_the_interpreter_computes(void **state)
{
    const scratch_files *files = *state;
    int drawn[HYP_OP_COUNT] = {0};
    for (uint64_t seed = 0; seed < test_count("HYPATIA_RANDOM_GRAPHS", 600); seed++) {
        static const int64_t sizes[][2] = {{3, 2}, {1, 1}, {5, 4}, {0, 2}};
        hyp_random_graph_options options = options_of(seed);
        hyp_graph g;
        int64_t symbols[8];
        draw_graph(&options, drawn, &g);
        write_graph(&g, seed, files->first);
        for (int i = 0; i < (options.symbolic ? 4 : 1); i++) {
            hyp_random_bind(g.dims, sizes[i][0], sizes[i][1], symbols);
            compare(&g, files->first, seed, symbols, tolerance_of(options.dtype));
        }
        dispose_of_graph(&g);
    }
    for (int op = 0; op < HYP_RANDOM_OPS; op++)
        if (!drawn[op] && op != HYP_OP_quantized_linear && /* test_quantize.c */
            (op == HYP_OP_cumsum || op == HYP_OP_resize || !(hyp_op_get((hyp_op)op)->flags & HYP_OPF_CALL)))
            fail_msg("%s was never drawn", hyp_op_get((hyp_op)op)->name);
}

/* Numbers over the whole range of the type, infinities and NaN among them, instead of tame ones; of finite ones the
 * upper few powers of two stay away, from where it hangs on the order of a sum whether it overflows. */
static void draw_wide(hyp_tensor *t, hyp_random *r)
{
    double most = t->dtype == HYP_F16 ? 0x1p8 : t->dtype == HYP_F64 ? 0x1p1000 : 0x1p100;
    hyp_mood mood = hyp_test_mood(HYP_MOOD_COUNT, (uint64_t)hyp_random_int(r, 0, INT64_MAX - 1));
    for (size_t i = 0; hyp_dtype_is_float(t->dtype) && i < t->bytes / hyp_dtype_size(t->dtype); i++) {
        double v = hyp_test_value(t->dtype, mood, (uint64_t)hyp_random_int(r, 0, INT64_MAX - 1));
        if (isfinite(v) && fabs(v) > most) v = copysign(1, v);
        hyp_store_f64(t->dtype, t->data, i, v);
    }
}

static size_t compare_wide(const hyp_graph *g, const char *path, uint64_t seed, const int64_t *symbols)
{
    static const hyp_device_kind devices[] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};
    hyp_diag diag = {0};
    hyp_tensor inputs[MAX_EDGES] = {{0}};
    hyp_eval_tensor results[MAX_EDGES] = {{0}}, tolerances[MAX_EDGES] = {{0}};
    hyp_random random = {seed + 78};
    size_t known = 0, in = g->inputs.len, out = g->outputs.len;
    assert_true(in <= MAX_EDGES && out <= MAX_EDGES);
    for (size_t i = 0; i < in; i++) {
        if (hyp_random_input(g, i, symbols, &random, &inputs[i], &diag) != HYP_OK) show(g, seed, "input", &diag);
        draw_wide(&inputs[i], &random);
    }
    if (run_expecting(g, inputs, results, tolerances, &diag) != HYP_OK) show(g, seed, "interpreter", &diag);
    for (size_t d = 0; d < 2; d++) {
        hyp_tensor outputs[MAX_EDGES] = {{0}};
        if (run_plan(path, devices[d], inputs, in, results, outputs, out, &diag) != HYP_OK)
            show(g, seed, "plan", &diag);
        for (size_t i = 0; i < out; i++) {
            if (!results_expected(&outputs[i], &results[i], &tolerances[i], &diag)) {
                hyp_diag_prefix(&diag, "%s", g->outputs.data[i].name);
                show(g, seed, d ? "wide values on the CPU backend" : "wide values on the reference backend", &diag);
            }
            hyp_free(outputs[i].data);
        }
    }
    for (size_t i = 0; i < out; i++) {
        for (size_t k = 0; k < tolerances[i].count; k++) known += tolerances[i].f[k] < INFINITY;
        hyp_eval_tensor_dispose(&results[i]);
        hyp_eval_tensor_dispose(&tolerances[i]);
    }
    for (size_t i = 0; i < in; i++) hyp_free(inputs[i].data);
    return known;
}

static void plans_compute_what_is_expected_of_any_values(void **state)
{
    const scratch_files *files = *state;
    size_t known = 0;
    static const uint64_t met[] = {3216 /* a pad of an empty tensor that stays empty */,
                                   2697 /* an attention with a large mask that is the same for all keys */};
    enum { MET = sizeof met / sizeof *met };
    for (uint64_t i = 0; i < MET + test_count("HYPATIA_RANDOM_GRAPHS", 400); i++) {
        const uint64_t seed = i < MET ? met[i] : 1001 + i - MET;
        hyp_random_graph_options options = options_of(seed);
        hyp_graph g;
        int64_t symbols[8];
        draw_graph(&options, NULL, &g);
        write_graph(&g, seed, files->first);
        hyp_random_bind(g.dims, 3, 2, symbols);
        known += compare_wide(&g, files->first, seed, symbols);
        dispose_of_graph(&g);
    }
    assert_true(known > 4000); /* elements of which something is known */
}

/* Whether the output y of a graph may be this. */
static bool is_expected(const char *text, const hyp_tensor *inputs, const hyp_tensor *y)
{
    hyp_diag diag = {0};
    hyp_dims *dims;
    hyp_graph g;
    hyp_eval_tensor result = {0}, tolerance = {0};
    assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
    hyp_graph_init(&g, dims);
    if (hyp_graph_parse(&g, "text", text, strlen(text), &diag) != HYP_OK) fail_msg("%s", diag.message);
    if (run_expecting(&g, inputs, &result, &tolerance, &diag) != HYP_OK) fail_msg("%s", diag.message);
    bool expected = results_expected(y, &result, &tolerance, &diag);
    hyp_eval_tensor_dispose(&result);
    hyp_eval_tensor_dispose(&tolerance);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    return expected;
}

/* As by instructions that know no subnormal numbers: whichever processor this is. */
static void small_results_of_products_in_bf16_may_be_zero(void **state)
{
    (void)state;
    static const char text[] =
        "(graph \"product\" (input %x (bf16 1 1)) (input %w (bf16 1 1)) (%y (linear %w none %x)) (output \"y\" %y))";
    static const struct {
        double x, w, got;
        bool expected;
    } cases[] = {
        {0x1p-63, 0x1p-64, 0, true},
        {0x1p-63, 0x1p-64, 0x1p-127, true},
        {0x1p-127, 1, 0, true},
        {0x1p-127, 0x1p20, 0, true},
        {0x1p-127, 0x1p20, 0x1p-107, true},
        {0x1p-63, 0x1p-63, 0, true},
        {0x1p-60, 0x1p-60, 0x1p-120, true},
        {0x1p-60, 0x1p-60, -0x1p-120, false},
        {1, 0x1p-100, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t x, w, got;
        hyp_store_f64(HYP_BF16, &x, 0, cases[i].x);
        hyp_store_f64(HYP_BF16, &w, 0, cases[i].w);
        hyp_store_f64(HYP_BF16, &got, 0, cases[i].got);
        hyp_tensor inputs[2] = {
            {.name = "x", .dtype = HYP_BF16, .rank = 2, .dims = {1, 1}, .data = &x, .bytes = sizeof x},
            {.name = "w", .dtype = HYP_BF16, .rank = 2, .dims = {1, 1}, .data = &w, .bytes = sizeof w}};
        hyp_tensor y = {.name = "y", .dtype = HYP_BF16, .rank = 2, .dims = {1, 1}, .data = &got, .bytes = sizeof got};
        if (is_expected(text, inputs, &y) != cases[i].expected) fail_msg("case %zu", i);
    }
}

/* A mask that is the same for both keys and large leaves of their scores what rounding does, or all of it. */
static void large_masks_round_scores(void **state)
{
    (void)state;
    static const char text[] = "(graph \"a\" (input %q (f32 1 1)) (input %k (f32 2 1)) (input %v (f32 2 1)) "
                               "(input %m (f32 1 1)) (%y (attention %q %k %v %m)) (output \"y\" %y))";
    float q = 1, k[] = {0.3f, 0.1f}, v[] = {1, 0}, m, y;
    static const struct {
        float mask, got;
        bool expected;
    } cases[] = {
        {0, 0.549834f, true}, {0, 0.531209f, false}, {0x1p20f, 0.549834f, true}, {0x1p20f, 0.531209f, true},
        {-0x1p20f, 0.5f, true},
    };
    hyp_tensor inputs[] = {
        {.name = "q", .dtype = HYP_F32, .rank = 2, .dims = {1, 1}, .data = &q, .bytes = sizeof q},
        {.name = "k", .dtype = HYP_F32, .rank = 2, .dims = {2, 1}, .data = k, .bytes = sizeof k},
        {.name = "v", .dtype = HYP_F32, .rank = 2, .dims = {2, 1}, .data = v, .bytes = sizeof v},
        {.name = "m", .dtype = HYP_F32, .rank = 2, .dims = {1, 1}, .data = &m, .bytes = sizeof m},
    };
    hyp_tensor out = {.name = "y", .dtype = HYP_F32, .rank = 2, .dims = {1, 1}, .data = &y, .bytes = sizeof y};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        m = cases[i].mask;
        y = cases[i].got;
        if (is_expected(text, inputs, &out) != cases[i].expected) fail_msg("case %zu", i);
    }
}

static void read_all(const char *path, uint8_t **out, size_t *size)
{
    hyp_mapping map;
    assert_int_equal(hyp_map_file(path, &map, NULL), HYP_OK);
    *size = map.size;
    *out = malloc(map.size);
    memcpy(*out, map.data, map.size);
    hyp_unmap(&map);
}

static void the_same_graph_gives_the_same_bytes(void **state)
{
    const scratch_files *files = *state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        hyp_random_graph_options options = options_of(seed);
        uint8_t *bytes[2];
        size_t sizes[2];
        for (int i = 0; i < 2; i++) {
            const char *path = i ? files->second : files->first;
            hyp_graph g;
            draw_graph(&options, NULL, &g);
            write_graph(&g, seed, path);
            read_all(path, &bytes[i], &sizes[i]);
            dispose_of_graph(&g);
        }
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(bytes[0], bytes[1], sizes[0]);
        free(bytes[0]);
        free(bytes[1]);
    }
}

static void a_demoted_graph_stays_near_the_original(void **state)
{
    const scratch_files *files = *state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        hyp_random_graph_options options = options_of(seed);
        options.dtype = HYP_F32;
        options.nodes = 4;
        hyp_dtype to = seed % 2 ? HYP_BF16 : HYP_F16;
        hyp_diag diag = {0};
        hyp_graph g, narrow;
        int64_t symbols[8];
        draw_graph(&options, NULL, &g);
        if (hyp_graph_demote(&g, to, &narrow, &diag) != HYP_OK) show(&g, seed, "demote", &diag);
        if (hyp_graph_verify(&narrow, &diag) != HYP_OK) show(&narrow, seed, "verify", &diag);
        write_graph(&narrow, seed, files->first);
        hyp_random_bind(g.dims, 3, 2, symbols);
        compare(&narrow, files->first, seed, symbols, tolerance_of(to));
        hyp_graph_dispose(&narrow);
        dispose_of_graph(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plans_compute_what_the_interpreter_computes, setup, teardown),
        cmocka_unit_test_setup_teardown(plans_compute_what_is_expected_of_any_values, setup, teardown),
        cmocka_unit_test(small_results_of_products_in_bf16_may_be_zero),
        cmocka_unit_test(large_masks_round_scores),
        cmocka_unit_test_setup_teardown(the_same_graph_gives_the_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_demoted_graph_stays_near_the_original, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
