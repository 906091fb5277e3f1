/* Padding: along a symbol that the compiler says may be padded, what lies behind in the inputs does not show, in the
 * interpreter and in runs of the plan with buckets; and of graphs where it would, it says so and why. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/apart.h"
#include "run_graph.h"
#include "support/count.h"
#include "support/random_graph.h"

enum { MAX_EDGES = 128 };

static char path[64];
static int met[HYP_OP_COUNT]; /* nodes with parts along what may be padded */

static void show(const hyp_graph *g, const char *what, const hyp_diag *diag)
{
    hyp_strbuf text = {0};
    if (hyp_graph_print(&text, g, 256, NULL) == HYP_OK) fputs(hyp_strbuf_text(&text), stderr);
    hyp_strbuf_dispose(&text);
    fail_msg("%s: %s", what, diag->message);
}

static hyp_graph parse(const char *text)
{
    hyp_diag diag = {0};
    hyp_dims *dims;
    hyp_graph g;
    assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
    hyp_graph_init(&g, dims);
    if (hyp_graph_parse(&g, "test", text, strlen(text), &diag) != HYP_OK) fail_msg("%s\n%s", diag.message, text);
    return g;
}

static void dispose(hyp_graph *g)
{
    hyp_dims *dims = g->dims;
    hyp_graph_dispose(g);
    hyp_dims_destroy(dims);
}

/* What is in the way along a symbol. */
static void ask(const hyp_graph *g, size_t symbol, char *out, size_t room)
{
    hyp_strbuf why = {0};
    hyp_diag diag = {0};
    assert_int_equal(hyp_graph_check_padding(g, symbol, &why, &diag), HYP_OK);
    snprintf(out, room, "%s", hyp_strbuf_text(&why));
    hyp_strbuf_dispose(&why);
}

/* ---- more parts ------------------------------------------------------------------------------------------------- */

/* Element `i` of the smaller tensor in the larger one, whose axes are not shorter. */
static size_t place_in(const int64_t *small, const int64_t *large, int32_t rank, size_t i)
{
    size_t at = 0, stride = 1;
    for (int32_t a = rank - 1; a >= 0; a--) {
        at += i % (size_t)small[a] * stride;
        i /= (size_t)small[a];
        stride *= (size_t)large[a];
    }
    return at;
}

/* A tensor like `from` for larger symbols: zeros behind, or what is no number where that is to show. */
static hyp_tensor enlarge(const hyp_graph *g, size_t input, const hyp_tensor *from, const int64_t *symbols)
{
    hyp_diag diag = {0};
    hyp_tensor t = *from;
    size_t count = 1, old = 1, size = hyp_dtype_size(t.dtype);
    for (int32_t a = 0; a < t.rank; a++) {
        hyp_dim d = g->values.data[g->inputs.data[input]].type.dims[a];
        assert_int_equal(hyp_dim_eval(g->dims, d, symbols, &t.dims[a], &diag), HYP_OK);
        count *= (size_t)t.dims[a];
        old *= (size_t)from->dims[a];
    }
    t.bytes = count * size;
    t.data = hyp_calloc(count + 1, size);
    for (size_t i = 0; hyp_dtype_is_float(t.dtype) && i < count; i++) hyp_store_f64(t.dtype, t.data, i, NAN);
    for (size_t i = 0; i < old; i++)
        memcpy((uint8_t *)t.data + place_in(from->dims, t.dims, t.rank, i) * size, (uint8_t *)from->data + i * size,
               size);
    return t;
}

/* Whether the elements of `want` are at their places in `got`, to the bit. */
static bool begins_with(const hyp_eval_tensor *got, const hyp_eval_tensor *want)
{
    for (size_t i = 0; i < want->count; i++) {
        size_t at = place_in(want->dims, got->dims, want->rank, i);
        if (want->i ? got->i[at] != want->i[i] : got->f[at] != want->f[i] && !(isnan(got->f[at]) && isnan(want->f[i])))
            return false;
    }
    return true;
}

/* The interpreter with more parts along the symbols gives the same parts. */
static void check_interpreter(const hyp_graph *g, const hyp_tensor *inputs, const hyp_eval_tensor *wanted,
                              const int64_t *symbols)
{
    hyp_diag diag = {0};
    hyp_tensor larger[MAX_EDGES] = {{0}};
    hyp_eval_tensor results[MAX_EDGES] = {{0}};
    for (size_t i = 0; i < g->inputs.len; i++) larger[i] = enlarge(g, i, &inputs[i], symbols);
    if (run_interpreter(g, HYP_EVAL_NATIVE, larger, results, &diag) != HYP_OK) show(g, "padded", &diag);
    for (size_t i = 0; i < g->outputs.len; i++) {
        if (!begins_with(&results[i], &wanted[i])) show(g, g->outputs.data[i].name, &diag);
        hyp_eval_tensor_dispose(&results[i]);
    }
    for (size_t i = 0; i < g->inputs.len; i++) hyp_free(larger[i].data);
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void check_runs(const hyp_graph *g, hyp_device_kind device, const hyp_tensor *inputs,
                       const hyp_eval_tensor *wanted, const hyp_tensor *buckets, size_t bucket_count, double tolerance)
{
    hyp_diag diag = {0};
    hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    hyp_context_options how = {.size = sizeof how, .buckets = buckets, .bucket_count = bucket_count};
    hyp_engine *engine;
    hyp_context *context;
    hyp_tensor outputs[MAX_EDGES] = {{0}};
    size_t out = g->outputs.len;
    if (hyp_engine_load_file(path, &options, &engine, &diag) != HYP_OK ||
        hyp_context_create(engine, &how, &context, &diag) != HYP_OK)
        show(g, "context", &diag);
    for (int own = 0; own < 2; own++) {
        for (size_t i = 0; i < out; i++) {
            outputs[i] = (hyp_tensor){.dtype = wanted[i].dtype, .memory = HYP_MEMORY_CONTEXT};
            if (own) continue;
            outputs[i].memory = HYP_MEMORY_HOST;
            outputs[i].bytes = wanted[i].count * hyp_dtype_size(wanted[i].dtype); /* just enough */
            outputs[i].data = hyp_malloc(outputs[i].bytes + 1);
        }
        if (hyp_context_run(context, inputs, g->inputs.len, outputs, out, &diag) != HYP_OK) show(g, "run", &diag);
        for (size_t i = 0; i < out; i++) {
            if (!results_agree(&outputs[i], &wanted[i], tolerance, device == HYP_DEVICE_CPU, &diag))
                show(g, g->outputs.data[i].name, &diag);
            if (!own) hyp_free(outputs[i].data);
        }
    }
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
}

/* The narrowest type decides how far two orders of rounding may lie apart. */
static double tolerance_of(hyp_dtype dtype)
{
    return dtype == HYP_F64 ? 1e-9 : dtype == HYP_F32 ? 1e-5 : dtype == HYP_F16 ? 0.05 : 0.3;
}

/* Numbers that are in range wherever they are indices or lengths. */
static void draw_indices(hyp_tensor *t)
{
    size_t count = 1;
    for (int32_t a = 0; a < t->rank; a++) count *= (size_t)t->dims[a];
    for (size_t i = 0; i < count; i++) hyp_store_i64(t->dtype, t->data, i, (int64_t)(i * i % 5 % 3));
}

/* A graph along the symbols that may be padded, of which there is one, with sizes n and m of "n" and "m". */
static void check_padded(const hyp_graph *g, const bool *may, int64_t n, int64_t m, uint64_t seed, hyp_dtype dtype,
                         bool indexed)
{
    hyp_diag diag = {0};
    hyp_tensor inputs[MAX_EDGES] = {{0}}, buckets[8] = {{0}};
    hyp_eval_tensor wanted[MAX_EDGES] = {{0}};
    hyp_random random = {seed + 99};
    int64_t symbols[8], larger[8];
    size_t bucket_count = 0;
    assert_true(g->inputs.len <= MAX_EDGES && g->outputs.len <= MAX_EDGES);
    hyp_random_bind(g->dims, n, m, symbols);
    for (size_t s = 0; s < hyp_dims_symbol_count(g->dims); s++) {
        larger[s] = may[s] ? (symbols[s] + 7) / 8 * 8 : symbols[s];
        if (may[s])
            buckets[bucket_count++] = (hyp_tensor){.name = hyp_dims_symbol_name(g->dims, s), .rank = 1, .dims = {8}};
    }
    for (size_t i = 0; i < g->inputs.len; i++)
        if (hyp_random_input(g, i, symbols, &random, &inputs[i], &diag) != HYP_OK) show(g, "input", &diag);
    for (size_t i = 0; indexed && i < g->inputs.len; i++)
        if (!hyp_dtype_is_float(inputs[i].dtype)) draw_indices(&inputs[i]);
    if (run_interpreter(g, HYP_EVAL_NATIVE, inputs, wanted, &diag) != HYP_OK) show(g, "interpreter", &diag);
    check_interpreter(g, inputs, wanted, larger);
    check_runs(g, HYP_DEVICE_REFERENCE, inputs, wanted, buckets, bucket_count, tolerance_of(dtype));
    check_runs(g, HYP_DEVICE_CPU, inputs, wanted, buckets, bucket_count, tolerance_of(dtype));
    for (size_t i = 0; i < g->inputs.len; i++) hyp_free(inputs[i].data);
    for (size_t i = 0; i < g->outputs.len; i++) hyp_eval_tensor_dispose(&wanted[i]);
}

static bool depends(const hyp_graph *g, hyp_value_id v, const bool *may)
{
    for (size_t s = 0; s < hyp_dims_symbol_count(g->dims); s++)
        for (int32_t a = 0; may[s] && v != HYP_NO_VALUE && a < g->values.data[v].type.rank; a++)
            if (hyp_dim_depends(g->dims, g->values.data[v].type.dims[a], s)) return true;
    return false;
}

/* Which symbols of inputs may be padded; counts the operators that have parts along them. */
static size_t find_padded(const hyp_graph *g, bool *may)
{
    size_t count = 0;
    char why[512];
    for (size_t s = 0; s < hyp_dims_symbol_count(g->dims); s++) {
        bool all[8] = {false}, read = false;
        ask(g, s, why, sizeof why);
        all[s] = true;
        for (size_t i = 0; i < g->inputs.len; i++) read = read || depends(g, g->inputs.data[i], all);
        may[s] = read && !*why;
        count += may[s];
    }
    for (size_t i = 0; i < g->nodes.len; i++)
        for (uint32_t k = 0; k < g->nodes.data[i].input_count; k++)
            met[g->nodes.data[i].op] += depends(g, g->nodes.data[i].inputs[k], may);
    return count;
}

static void random_graphs_may_be_padded_where_the_plan_says_so(void **state)
{
    (void)state;
    static const hyp_dtype dtypes[] = {HYP_F32, HYP_F32, HYP_F64, HYP_F32, HYP_F16, HYP_BF16};
    static const int64_t sizes[][2] = {{3, 2}, {9, 1}, {0, 2}};
    size_t padded = 0;
    for (uint64_t seed = 0; seed < test_count("HYPATIA_RANDOM_GRAPHS", 500); seed++) {
        const hyp_random_graph_options options = {.seed = seed,
                                                  .nodes = 1 + (int)(seed % 7),
                                                  .dtype = dtypes[seed % 6],
                                                  .symbolic = true,
                                                  .first_op = (int)(seed % HYP_RANDOM_OPS)};
        hyp_diag diag = {0};
        hyp_dims *dims;
        hyp_graph g;
        bool may[8] = {false};
        assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
        if (hyp_random_graph(&options, dims, &g, NULL, &diag) != HYP_OK)
            fail_msg("seed %llu", (unsigned long long)seed);
        if (find_padded(&g, may)) {
            padded++;
            if (write_plan(&g, path, &diag) != HYP_OK) show(&g, "lower", &diag);
            for (int i = 0; i < 3; i++) check_padded(&g, may, sizes[i][0], sizes[i][1], seed, options.dtype, false);
        }
        dispose(&g);
    }
    assert_true(padded > 100);
}

/* ---- graphs by hand --------------------------------------------------------------------------------------------- */

#define GRAPH(inputs, nodes) "(graph \"g\" " inputs " " nodes ")"
#define X "(input %x (f32 n 4 6))"
#define IDS "(input %ids (i64 n 3))"
#define TABLE "(const %t (f32 5 2) 1. 2. 3. 4. 5. 6. 7. 8. 9. 10.)"
#define Y "(output \"y\" %y)"

/* May be padded. */
static const char *const fine[] = {
    GRAPH(X, "(%y (relu %x)) " Y),
    GRAPH(X "(input %z (f32 4 6))", "(%y (add %z %x)) " Y),
    GRAPH(X, "(%y (softmax %x)) " Y),
    GRAPH(X, "(%y (softmax :axis 1 %x)) " Y),
    GRAPH(X, "(%y (reduce-mean :axes (1 2) %x)) " Y),
    GRAPH(X, "(%y (reduce-max :axes (-1) :keep 0 %x)) " Y),
    GRAPH(X, "(%y (argmax :axis 2 :keep 0 %x)) " Y),
    GRAPH(X, "(%a (reduce-min :axes (2) %x)) (%b (reduce-prod :axes (1) %x)) (%c (argmin :axis 1 %x)) "
             "(%y (add %a %b)) " Y "(output \"c\" %c)"),
    GRAPH(X, "(%y (cumprod :axis 2 %x)) " Y),
    GRAPH(X, "(%s (softmax %x)) (%y (softmax-gradient %s %x)) ((%m %l) (softmax-stats %x)) " Y
             "(output \"m\" %m) (output \"l\" %l)"),
    GRAPH(X, "((%y %i) (topk :axis -1 :k (2) %x)) " Y),
    GRAPH(X, "(%y (cumsum :axis 1 %x)) " Y),
    GRAPH(X, "(%y (concat :axis 1 %x %x)) " Y),
    GRAPH(X, "((%y %z) (split :axis -1 :sizes (2 4) %x)) " Y),
    GRAPH(X, "(%y (slice :starts (0 1 0) :sizes (n 2 6) :steps (1 1 1) %x)) " Y),
    GRAPH(X "(const %v (f32) 1.)", "(%y (pad :before (0 1 0) :after (0 0 2) %x %v)) " Y),
    GRAPH(X, "(%y (trilu %x)) " Y),
    GRAPH(X, "(%y (layer-norm :axis -2 %x)) " Y),
    GRAPH(X, "(%y (rms-norm %x)) " Y),
    GRAPH(X, "(%a (reshape :shape ((* 4 n) 6) %x)) (%y (relu %a)) " Y),
    GRAPH(X, "(%a (reshape :shape (n 24) %x)) (%b (transpose :perm (1 0) %a)) (%y (softmax :axis 0 %b)) " Y),
    GRAPH(X "(const %w (f32 2 6) 1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11. 12.)", "(%y (linear %w none %x)) " Y),
    GRAPH(X "(input %z (f32 n 6 2))", "(%y (matmul %x %z)) " Y),
    GRAPH(X "(input %z (f32 6 3))", "(%y (matmul %x %z)) " Y),
    GRAPH("(input %a (f32 4 6)) (input %z (f32 6 n))", "(%y (matmul %a %z)) " Y),
    GRAPH("(input %x (f32 4 n)) (input %z (f32 4 6))", "(%y (gemm :trans-a 1 %x %z)) " Y),
    GRAPH(X "(input %k (f32 n 5 6)) (input %v (f32 n 5 2))", "(%y (attention %x %k %v)) " Y),
    GRAPH(IDS TABLE, "(%y (gather %t %ids)) " Y),
    GRAPH(IDS TABLE, "(%a (cast :to i32 %ids)) (%b (transpose :perm (1 0) %a)) (%y (gather %t %b)) " Y),
    GRAPH(IDS TABLE "(const %i (i64 1 3) 1 2 0)",
          "(%e (expand :shape (n 3) %i)) (%c (concat :axis 1 %ids %e)) (%y (gather %t %c)) " Y),
    GRAPH(IDS "(const %v (i64 2) 0 1)", "(%y (one-hot :new-axis 1 :depth (5) %ids %v)) " Y),
    GRAPH("(input %x (f32 n 4 6)) (input %i (i64 n 4 2))", "(%y (gather-elements :axis 2 %x %i)) " Y),
    GRAPH("(input %x (f32 n 4 6)) (input %i (i64 n 4 2)) (input %u (f32 n 4 2))",
          "(%y (scatter-elements :axis 2 %x %i %u)) " Y),
    GRAPH("(input %x (f32 4 n)) (input %i (i64 2 n)) (input %u (f32 2 n))",
          "(%y (scatter-elements :axis 0 :reduction add %x %i %u)) " Y),
    GRAPH("(input %x (f32 4 n)) (input %i (i64 2 n)) (input %u (f32 2 n))",
          "(%y (scatter-elements :axis -2 :reduction max %x %i %u)) " Y),
    GRAPH("(input %x (f32 5 4 n)) (const %i (i64 3 1) 4 0 2) (input %u (f32 3 4 n))", "(%y (scatter-nd %x %i %u)) " Y),
    GRAPH("(input %x (f32 5 4 n)) (const %i (i64 3 2) 4 0 2 3 1 1) (input %u (f32 3 n))",
          "(%y (scatter-nd :reduction mul %x %i %u)) " Y),
    GRAPH("(input %x (f32 5 n 6)) (const %i (i64 2 1) 4 0)", "(%y (gather-nd %x %i)) " Y),
    GRAPH("(input %x (f32 n 5 6)) (input %i (i64 n 2 1))", "(%y (gather-nd :batch-axes 1 %x %i)) " Y),
    GRAPH("(input %x (f32 2 5 6)) (input %i (i64 2 n 1))", "(%y (gather-nd :batch-axes 1 %x %i)) " Y),
    GRAPH("(input %x (f32 n 8 6)) (input %u (f32 n 2 6)) (input %f (i64 n))", "(%y (tensor-scatter :axis 1 %x %u %f)) " Y),
    GRAPH("(input %x (f32 3 8 n)) (input %u (f32 3 2 n)) (const %f (i64 3) 6 0 1)",
          "(%y (tensor-scatter :axis 1 :mode circular %x %u %f)) " Y),
    GRAPH("(input %x (f32 6 n 3)) (input %l (i64 n))", "(%y (reverse-sequence :batch-axis 1 :time-axis 0 %x %l)) " Y),
    GRAPH("(input %x (f32 2 6 n)) (const %l (i64 2) 6 3)", "(%y (reverse-sequence :batch-axis 0 :time-axis 1 %x %l)) " Y),
    GRAPH(X, "(%y (bit-cast :to i32 %x)) " Y),
    GRAPH(X, "(%z (transpose :perm (1 0 2) %x)) (%y (trilu %z)) " Y),
    GRAPH(X, "(%z (transpose :perm (1 2 0) %x)) (%y (trilu :upper 0 %z)) " Y),
    GRAPH(X, "(%y (cumsum :axis 0 %x)) (%z (cumprod :axis -3 :exclusive 1 %x)) (output \"z\" %z) " Y),
    GRAPH("(input %x (f32 n 3 5 5))",
          "((%y %p) (max-pool-places :kernel (2 2) :strides (2 2) :pads (0 0 0 0) :dilations (1 1) %x)) " Y
          "(output \"p\" %p)"),
    GRAPH("(input %x (f32 n 3 5 5)) (input %w (f32 2 3 3 3)) (input %b (f32 2))",
          "(%c (conv :strides (1 1) :pads (1 1 1 1) :dilations (1 1) %x %w %b)) "
          "(%p (max-pool :kernel (2 2) :strides (2 2) :pads (0 0 0 0) :dilations (1 1) %c)) "
          "(%q (average-pool :kernel (2 2) :strides (1 1) :pads (0 0 0 0) :dilations (1 1) %p)) "
          "(%l (lrn :size 1 %q)) (%y (flatten %l)) " Y),
    GRAPH("(input %x (f32 n 3 5 5)) (input %w (f32 3 2 3 3))",
          "(%c (conv-transpose :strides (1 1) :pads (0 0 0 0) :dilations (1 1) :more (0 0) %x %w)) "
          "(%y (resize :sizes (n 2 14 14) :mode nearest %c)) " Y),
    GRAPH("(input %x (f32 n 3 5 5))",
          "(%y (lp-pool :kernel (2 2) :strides (1 1) :pads (0 0 0 0) :dilations (1 1) %x)) " Y),
    GRAPH("(input %x (f32 n 2 3))", "(%y (affine-grid :size (n 1 4 4) %x)) " Y),
    GRAPH("(input %x (f32 n 3 5 5)) (input %g (f32 n 2 2 2))", "(%y (grid-sample %x %g)) " Y),
    GRAPH("(input %x (f32 5 n 12)) (input %r (f32 3 12)) (input %l (i64 n))",
          "((%y %h %c) (lstm %x %r %l)) (output \"y\" %y) (output \"h\" %h) (output \"c\" %c)"),
    GRAPH("(input %x (f32 5 n 12)) (input %r (f32 3 12)) (input %s (f32 n 3))",
          "((%y %h %c %d) (lstm-cells %x %r none %s)) (output \"y\" %y) (output \"d\" %d)"),
    GRAPH("(input %x (f32 5 n 9)) (input %r (f32 3 9))", "((%y %h) (gru %x %r)) (output \"y\" %y) (output \"h\" %h)"),
    GRAPH("(input %x (f32 5 n 3)) (input %r (f32 3 3))", "((%y %h) (rnn %x %r)) (output \"y\" %y) (output \"h\" %h)"),
    GRAPH("(input %x (f32 n))(const %a (f32) 0.5)", "(%r (range :size (n) %a %a)) (%y (add %x %r)) " Y),
    GRAPH("(input %x (f32 (* 2 n) 3))", "(%y (relu %x)) " Y),
};

/* May not, and what is named. */
static const struct {
    const char *text, *why;
} refused[] = {
    {GRAPH(X, "(%y (softmax :axis 0 %x)) " Y), "softmax may"},
    {GRAPH(X, "(%y (reduce-mean :axes (0) %x)) " Y), "reduce-mean may"},
    {GRAPH(X, "(%y (reduce-sum :axes (1 -3) %x)) " Y), "reduce-sum may"},
    {GRAPH(X, "(%y (cumsum :axis 0 :reverse 1 %x)) " Y), "cumsum may"},
    {GRAPH(X, "(%y (concat :axis 0 %x %x)) " Y), "concat may"},
    {GRAPH(X, "(%y (slice :starts (0 0 0) :sizes (n 4 6) :steps (1 1 1) %x)) "
              "(%z (slice :starts ((+ n -1) 0 0) :sizes (1 4 6) :steps (1 1 1) %x)) (output \"z\" %z) " Y),
     "slice may"},
    {GRAPH(X "(const %v (f32) 1.)", "(%y (pad :before (1 0 0) :after (0 0 0) %x %v)) " Y), "pad may"},
    {GRAPH(X "(const %v (f32) 1.)", "(%y (pad :before (0 n 0) :after (0 0 0) %x %v)) " Y), "pad may"},
    {GRAPH(X, "(%y (layer-norm :axis 0 %x)) " Y), "layer-norm may"},
    {GRAPH(X, "(%a (transpose :perm (1 0 2) %x)) (%y (reshape :shape ((* 4 n) 6) %a)) " Y), "reshape may"},
    {GRAPH(X, "(%y (shape %x)) " Y), "shape may"},
    {GRAPH(X, "(%y (size %x)) " Y), "size may"},
    {GRAPH("(input %x (f32 n 4)) (input %z (f32 n 6))", "(%y (gemm :trans-a 1 %x %z)) " Y), "gemm may"},
    {GRAPH("(input %x (f32 n 4))", "(%t (transpose :perm (1 0) %x)) (%y (matmul %x %t)) " Y), "matmul may"},
    {GRAPH("(input %x (f32 4 n 6)) (input %k (f32 4 n 6))", "(%y (attention %x %k %k)) " Y), "attention may"},
    {GRAPH(IDS TABLE "(const %c (i64) 1)", "(%a (add %c %ids)) (%y (gather %t %a)) " Y), "out of range"},
    {GRAPH("(input %t (f32 n 2)) (input %i (i64 3))", "(%y (gather %t %i)) " Y), "gather may"},
    {GRAPH("(input %x (f32 10 6)) (input %i (i64 n 2))", "(%y (gather-elements :axis 1 %x %i)) " Y), "gather-elements may"},
    {GRAPH("(input %x (f32 n 6)) (input %i (i64 n 6))", "(%y (gather-elements :axis 0 %x %i)) " Y), "gather-elements may"},
    {GRAPH("(input %x (f32 n 4 6)) (input %i (i64 n 4 2)) (const %m (i64) 1)",
           "(%a (mul %i %m)) (%y (gather-elements :axis 2 %x %a)) " Y), "out of range"},
    {GRAPH(IDS TABLE "(const %m (i64 3) 2 3 4)", "(%a (gather %m %ids)) (%y (gather %t %a)) " Y), "out of range"},
    {GRAPH("(input %x (f32 5 n 12)) (input %r (f32 3 12)) (input %l (i64 n)) (const %o (i64) 1)",
           "(%m (add %o %l)) ((%y %h %c) (lstm %x %r %m)) " Y),
     "out of range"},
    {GRAPH("(input %x (f32 n n))", "(%y (relu %x)) " Y), "input \"x\""},
    {GRAPH("(input %x (f32 n)) (input %z (f32 (+ 1 n)))", "(%y (relu %z)) " Y), "input \"z\""},
    {GRAPH("(input %x (f32 n 6)) (input %i (i64 2 6)) (input %u (f32 2 6))", "(%y (scatter-elements :axis 0 %x %i %u)) " Y),
     "scatter-elements may"},
    {GRAPH("(input %x (f32 4 6)) (input %i (i64 n 6)) (input %u (f32 n 6))", "(%y (scatter-elements :axis 0 %x %i %u)) " Y),
     "scatter-elements may"},
    {GRAPH("(input %x (f32 (* 2 n) 6)) (input %i (i64 n 2)) (input %u (f32 n 2))",
           "(%y (scatter-elements :axis 1 %x %i %u)) " Y),
     "scatter-elements may"},
    {GRAPH("(input %x (f32 n 4 6)) (input %i (i64 n 4 2)) (input %u (f32 n 4 2)) (const %m (i64) 1)",
           "(%a (mul %i %m)) (%y (scatter-elements :axis 2 %x %a %u)) " Y), "out of range"},
    {GRAPH("(input %x (f32 n 6)) (input %i (i64 3 1)) (input %u (f32 3 6))",
           "(%y (scatter-nd %x %i %u)) " Y), "scatter-nd may"},
    {GRAPH("(input %x (f32 5 6)) (input %i (i64 n 1)) (input %u (f32 n 6))",
           "(%y (scatter-nd %x %i %u)) " Y), "scatter-nd may"},
    {GRAPH("(input %x (f32 5 n 6)) (input %i (i64 3 2)) (input %u (f32 3 6))",
           "(%y (scatter-nd %x %i %u)) " Y), "scatter-nd may"},
    {GRAPH("(input %x (f32 n 6)) (input %i (i64 3 1))", "(%y (gather-nd %x %i)) " Y), "gather-nd may"},
    {GRAPH("(input %x (f32 2 n 6)) (input %i (i64 2 3 1))", "(%y (gather-nd :batch-axes 1 %x %i)) " Y), "gather-nd may"},
    {GRAPH("(input %x (f32 2 n 6)) (input %u (f32 2 1 6))", "(%y (tensor-scatter :axis 1 %x %u)) " Y), "tensor-scatter may"},
    {GRAPH("(input %x (f32 n 4)) (input %l (i64 4))", "(%y (reverse-sequence :batch-axis 1 :time-axis 0 %x %l)) " Y),
     "reverse-sequence may"},
    {GRAPH("(input %x (f32 3 2 6 6)) (input %r (f32 n 4)) (input %i (i64 n))", "(%y (roi-align :bins (2 2) %x %r %i)) " Y),
     "roi-align may"}, /* which fails where a region is too large */
    {GRAPH(X, "(%y (cumprod :axis 0 :reverse 1 %x)) " Y), "cumprod may"},
    {GRAPH("(input %x (f32 2 1 n n))", "(%y (relu %x)) " Y), "input \"x\""},
    {GRAPH(X, "((%y %c) (nonzero :size ((* 24 n)) %x)) " Y), "nonzero may"},
};

static void graphs_by_hand_are_told_apart(void **state)
{
    (void)state;
    char why[512];
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        hyp_diag diag = {0};
        hyp_graph g = parse(fine[i]);
        bool may[8] = {false};
        ask(&g, 0, why, sizeof why);
        if (*why || find_padded(&g, may) != 1) fail_msg("%s\n%s", fine[i], why);
        if (write_plan(&g, path, &diag) != HYP_OK) show(&g, "lower", &diag);
        check_padded(&g, may, 5, 1, i, HYP_F32, true);
        dispose(&g);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        hyp_graph g = parse(refused[i].text);
        ask(&g, 0, why, sizeof why);
        if (!strstr(why, refused[i].why))
            fail_msg("%s\n'%s' where '%s' is wanted", refused[i].text, why, refused[i].why);
        dispose(&g);
    }
}

/* What a row says of an operator's axes is tried above. */
static void all_that_is_said_of_axes_was_tried(void **state)
{
    (void)state;
    const uint32_t said = HYP_OPF_ALONG | HYP_OPF_LAST | HYP_OPF_SAMPLES | HYP_OPF_SEQUENCES;
    size_t missed = 0;
    for (int op = 0; op < HYP_OP_COUNT; op++) {
        if (!(hyp_op_get((hyp_op)op)->flags & said) || met[op] || op == HYP_OP_quantized_linear) continue; /* f8 */
        print_error("no graph has %s\n", hyp_op_get((hyp_op)op)->name);
        missed++;
    }
    assert_int_equal(missed, 0);
}

static int name_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "test_padding.%ld.bin", (long)getpid());
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_by_hand_are_told_apart),
        cmocka_unit_test(random_graphs_may_be_padded_where_the_plan_says_so),
        cmocka_unit_test(all_that_is_said_of_axes_was_tried),
    };
    return cmocka_run_group_tests(tests, name_file, remove_file);
}
