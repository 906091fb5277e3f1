/* What is written as ONNX and read back computes what the graph did: the cases of all operators, sizes that are symbols,
 * weights beside the model, what cannot be written. With HYPATIA_WRITTEN=FOLDER the models of the cases, their inputs and
 * what is expected stay there, for judge_written.py, where onnxruntime runs them. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "hypatia/tensor_io.h"
#include "onnx/onnx.h"
#include "support/golden_ops.h"

#define ASSERT_OK(call)                                                                                                \
    do {                                                                                                               \
        hyp_diag diag_ = {0}, *diag = &diag_;                                                                          \
        if ((call) != HYP_OK) fail_msg("%s", diag->message);                                                           \
    } while (0)

static char folder[256];

static const char *path_of(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static hyp_status write_graph(const hyp_graph *g, const char *path, const char *domain, uint64_t most, hyp_diag *diag)
{
    hyp_onnx_write_options o = {.domain = domain, .name = "test", .fold = hyp_fold_budget_of(g, 0, 0), .most = most};
    return hyp_onnx_write(g, path, &o, diag);
}

/* What a model gives for these inputs, by the interpreter. */
static void run(const char *path, const hyp_eval_tensor *inputs, size_t count, hyp_eval_tensor *outputs, size_t output_count)
{
    hyp_dims *dims;
    hyp_graph g;
    hyp_onnx_model *model;
    ASSERT_OK(hyp_dims_create(&dims, diag));
    hyp_graph_init(&g, dims);
    ASSERT_OK(hyp_onnx_import(path, NULL, &g, &model, diag));
    ASSERT_OK(hyp_graph_verify(&g, diag));
    assert_int_equal(hyp_graph_shown(&g), output_count);
    hyp_eval_tensor *all = calloc(g.outputs.len + 1, sizeof *all);
    assert_non_null(all);
    ASSERT_OK(hyp_graph_eval(&g, HYP_EVAL_NATIVE, inputs, count, all, diag));
    memcpy(outputs, all, output_count * sizeof *all);
    for (size_t i = output_count; i < g.outputs.len; i++) hyp_eval_tensor_dispose(&all[i]);
    free(all);
    hyp_graph_dispose(&g);
    hyp_onnx_model_destroy(model);
    hyp_dims_destroy(dims);
}

/* ---- the cases of all operators ---------------------------------------------------------------------------- */

static bool is_of_training(hyp_op op)
{
    static const hyp_op list[] = {
        HYP_OP_softmax_gradient, HYP_OP_softmax_stats,      HYP_OP_lstm_cells,   HYP_OP_lstm_gradient,  HYP_OP_gru_gradient,
        HYP_OP_rnn_gradient,     HYP_OP_conv_backward_weights, HYP_OP_max_pool_gradient, HYP_OP_norm_gradient,
        HYP_OP_all_reduce,       HYP_OP_random_uniform, HYP_OP_attention_gradient, HYP_OP_batch_norm, HYP_OP_batch_norm_stats,
        HYP_OP_batch_norm_gradient, HYP_OP_linear_gradient, HYP_OP_grid_sample_gradient, HYP_OP_roi_align_gradient};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == op) return true;
    return false;
}

/* What is not read back, in any model: scales that are inputs, and how many the data say as a size of other nodes. */
static bool is_read(const golden_case *c, hyp_op op)
{
    if (op == HYP_OP_resize) return c->input_count == 1;
    return op != HYP_OP_nonzero && op != HYP_OP_non_max_suppression && op != HYP_OP_unique;
}

static void save(const char *stem, const char *what, size_t i, const hyp_eval_tensor *t)
{
    char name[256];
    hyp_tensor file = {.dtype = t->dtype, .rank = t->rank};
    memcpy(file.dims, t->dims, sizeof file.dims);
    ASSERT_OK(hyp_tensor_alloc(&file, diag));
    hyp_eval_tensor_store(t, file.data);
    snprintf(name, sizeof name, "%s.%s%zu.npy", stem, what, i);
    ASSERT_OK(hyp_tensor_save(path_of(name), &file, diag));
    hyp_tensor_dispose(&file);
}

typedef struct tally {
    size_t written, refused;
} tally;

static void check_case(const golden_case *c, void *user)
{
    tally *t = user;
    char stem[128];
    hyp_diag diag = {0};
    hyp_op op = c->graph.nodes.data[0].op;
    snprintf(stem, sizeof stem, "%s.%s", c->op, c->name);
    for (char *p = stem; *p; p++)
        if (*p == ' ' || *p == '/') *p = '-';
    char model[160];
    snprintf(model, sizeof model, "%s.onnx", stem);
    hyp_status status = write_graph(&c->graph, path_of(model), NULL, 0, &diag);
    if (is_of_training(op)) {
        assert_int_equal(status, HYP_ERR_UNSUPPORTED);
        assert_non_null(strstr(diag.message, c->op));
        t->refused++;
        return;
    }
    if (status != HYP_OK) fail_msg("%s, case '%s': %s", c->op, c->name, diag.message);
    size_t count = hyp_graph_shown(&c->graph);
    hyp_eval_tensor got[GOLDEN_MAX] = {0};
    bool read = is_read(c, op);
    if (read) run(path_of(model), c->inputs, c->input_count, got, count);
    for (size_t i = 0; i < count; i++) {
        if (read) golden_ops_compare(c, &got[i], &c->wanted[i], 8 * golden_ops_tolerance(c->wanted[i].dtype));
        save(stem, "out", i, &c->wanted[i]);
        hyp_eval_tensor_dispose(&got[i]);
    }
    for (size_t i = 0; i < c->input_count; i++) save(stem, "in", i, &c->inputs[i]);
    t->written++;
}

static void test_every_operator(void **state)
{
    (void)state;
    tally t = {0};
    golden_ops_visit(check_case, &t);
    printf("%zu cases written and read back, %zu refused\n", t.written, t.refused);
    assert_true(t.written > 300 && t.refused > 0);
}

/* ---- graphs of several nodes ------------------------------------------------------------------------------- */

typedef struct parsed {
    hyp_dims *dims;
    hyp_graph g;
} parsed;

static parsed parse(const char *text)
{
    parsed p;
    ASSERT_OK(hyp_dims_create(&p.dims, diag));
    hyp_graph_init(&p.g, p.dims);
    ASSERT_OK(hyp_graph_parse(&p.g, "test", text, strlen(text), diag));
    return p;
}

static void dispose(parsed *p)
{
    hyp_graph_dispose(&p->g);
    hyp_dims_destroy(p->dims);
}

/* An input of f32 or i64 with different elements, its symbols being as said. */
static hyp_eval_tensor fill(const hyp_graph *g, size_t input, const int64_t *symbols)
{
    const hyp_type *type = &g->values.data[g->inputs.data[input]].type;
    int64_t dims[HYP_MAX_RANK];
    hyp_eval_tensor t;
    for (int32_t i = 0; i < type->rank; i++) ASSERT_OK(hyp_dim_eval(g->dims, type->dims[i], symbols, &dims[i], diag));
    ASSERT_OK(hyp_eval_tensor_alloc(&t, type->dtype, type->rank, dims, diag));
    for (size_t i = 0; i < t.count; i++) {
        if (t.f) t.f[i] = (double)((i * 37 + input * 11) % 29) / 8 - 1.5;
        if (t.i) t.i[i] = (int64_t)(i % 3);
    }
    return t;
}

/* The graph and what is written of it agree bit for bit, for sizes of its symbols 1, 2, ... */
static void check_text(const char *text, const char *domain, uint64_t most)
{
    parsed p = parse(text);
    ASSERT_OK(write_graph(&p.g, path_of("graph.onnx"), domain, most, diag));
    for (int64_t size = 1; size < 8; size += 3) {
        int64_t symbols[8];
        hyp_eval_tensor in[8] = {0}, want[8] = {0}, got[8] = {0};
        for (size_t i = 0; i < 8; i++) symbols[i] = size + (int64_t)i;
        for (size_t i = 0; i < p.g.inputs.len; i++) in[i] = fill(&p.g, i, symbols);
        ASSERT_OK(hyp_graph_eval(&p.g, HYP_EVAL_NATIVE, in, p.g.inputs.len, want, diag));
        run(path_of("graph.onnx"), in, p.g.inputs.len, got, p.g.outputs.len);
        for (size_t i = 0; i < p.g.outputs.len; i++) {
            assert_int_equal(got[i].count, want[i].count);
            assert_memory_equal(got[i].dims, want[i].dims, (size_t)want[i].rank * sizeof *want[i].dims);
            const void *a = got[i].f ? (const void *)got[i].f : got[i].i;
            const void *b = want[i].f ? (const void *)want[i].f : want[i].i;
            assert_memory_equal(a, b, want[i].count * 8);
            hyp_eval_tensor_dispose(&got[i]);
            hyp_eval_tensor_dispose(&want[i]);
        }
        for (size_t i = 0; i < p.g.inputs.len; i++) hyp_eval_tensor_dispose(&in[i]);
    }
    dispose(&p);
}

/* Sizes that are symbols, sums, products and quotients of them. */
static void test_symbols(void **state)
{
    (void)state;
    check_text("(graph \"\" (input %x (f32 n m 6)) (%a (reshape :shape (n m 2 3) %x)) (%b (reshape :shape ((* m n) 6) %x))"
               " (%c (reshape :shape (m n 6) %x)) (%d (reshape :shape (n (* 6 m)) %x))"
               " (output \"a\" %a) (output \"b\" %b) (output \"c\" %c) (output \"d\" %d))", NULL, 0);
    check_text("(graph \"\" (input %x (f32 n 4)) (input %y (f32 m)) (%a (expand :shape (m n 4) %x))"
               " (%b (slice :starts (0 3) :sizes (n 4) :steps (1 -1) %x)) (%c (expand :shape (n m) %y))"
               " (%d (slice :starts ((floordiv m 2)) :sizes ((+ m (* -1 (floordiv m 2)))) :steps (1) %y))"
               " (output \"a\" %a) (output \"b\" %b) (output \"c\" %c) (output \"d\" %d))", NULL, 0);
    check_text("(graph \"\" (input %x (f32 (* 2 n) (+ 1 m))) (const %z (f32) 0.5) (const %s (i64) 2) (const %t (i64) 3)"
               " (%a (pad :before (0 n) :after (1 m) %x %z)) (%r (range :size ((max n m)) %s %t))"
               " (output \"a\" %a) (output \"r\" %r) (output \"again\" %r) (output \"x\" %x) (output \"z\" %z))",
               NULL, 0);
}

static const char layers[] =
    "(graph \"\" (input %x (f32 n 3)) (const %w (f32 3 3) 1.0 2.0 3.0 -1.0 0.5 0.0 2.0 1.0 1.0)"
    " (const %b (f32 3) 1.0 0.0 -1.0)"
    " (%v (transpose :perm (1 0) %w)) (%1 (fused-linear :act relu %w %b %x)) (%2 (fused-linear :act relu %w none %1))"
    " (%3 (fused-linear :act relu %w %b %2)) (%4 (fused-mlp :acts (relu none) %v %b %w none %3))"
    " (%5 (matmul :trans-b 1 :alpha 0.5 %4 %w)) (output \"y\" %5))";

static size_t occurrences(const hyp_mapping *map, const char *text)
{
    size_t count = 0, len = strlen(text);
    for (size_t i = 0; i + len <= map->size; i++) count += memcmp(map->data + i, text, len) == 0;
    return count;
}

/* Operators that are equal are one function; those that only look alike are not. */
static void test_functions(void **state)
{
    (void)state;
    hyp_mapping map;
    check_text(layers, NULL, 0);
    ASSERT_OK(hyp_map_file(path_of("graph.onnx"), &map, diag));
    assert_int_equal(occurrences(&map, hyp_op_get(HYP_OP_fused_linear)->doc), 2);
    assert_int_equal(occurrences(&map, hyp_op_get(HYP_OP_fused_mlp)->doc), 1);
    hyp_unmap(&map);
    check_text(layers, "com.microsoft", 0);
    ASSERT_OK(hyp_map_file(path_of("graph.onnx"), &map, diag));
    assert_int_equal(occurrences(&map, hyp_op_get(HYP_OP_fused_linear)->doc), 0);
    assert_int_equal(occurrences(&map, "FusedGemm"), 3);
    hyp_unmap(&map);
}

/* Weights beside the model, some of them computed, which are found there again. */
static void test_beside(void **state)
{
    (void)state;
    struct stat st;
    check_text("(graph \"\" (input %x (f32 n 40)) (const %c (f32) 0.25) (%w (expand :shape (40 40) %c))"
               " (%v (add %w %c)) (%y (linear %v none %x)) (%z (linear %w none %y)) (output \"z\" %z))", NULL, 100);
    assert_int_equal(stat(path_of("graph.onnx.data"), &st), 0);
    assert_int_equal(st.st_size, 2 * 40 * 40 * 4);
}

/* All that cannot be written is named at once, and nothing is left of what was begun. */
static void test_refusals(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    parsed p = parse("(graph \"\" (input %x (f32 4)) (input %g (f32 4)) (%y (softmax-gradient %x %g)) (%z (all-reduce %y))"
                     " (%u (all-reduce %g)) (output \"z\" %z) (output \"u\" %u))");
    unlink(path_of("none.onnx"));
    assert_int_equal(write_graph(&p.g, path_of("none.onnx"), NULL, 0, &diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "2 operators"));
    assert_non_null(strstr(diag.message, "softmax-gradient x1, all-reduce x2"));
    assert_int_equal(access(path_of("none.onnx"), F_OK), -1);
    dispose(&p);
    p = parse("(graph \"\" (input %x (f32 4)) (variable %v (f32 4)) (%y (add %x %v)) (output \"y\" %y) (set %v %y))");
    assert_int_equal(write_graph(&p.g, path_of("none.onnx"), NULL, 0, &diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "training step"));
    dispose(&p);
    p = parse(layers);
    assert_int_equal(write_graph(&p.g, path_of("no/folder.onnx"), NULL, 0, &diag), HYP_ERR_IO);
    dispose(&p);
}

/* Whichever allocation fails: an error, and no file. */
static void test_no_memory(void **state)
{
    (void)state;
    parsed p = parse(layers);
    hyp_status status = HYP_ERR_NO_MEMORY;
    uint64_t n = 1;
    for (; status != HYP_OK; n++) {
        hyp_diag diag = {0};
        unlink(path_of("none.onnx"));
        hyp_mem_fail_after(n);
        status = write_graph(&p.g, path_of("none.onnx"), NULL, 16, &diag);
        hyp_mem_fail_after(0);
        assert_true(status == HYP_OK || status == HYP_ERR_NO_MEMORY);
        assert_int_equal(access(path_of("none.onnx"), F_OK), status == HYP_OK ? 0 : -1);
    }
    assert_true(n > 50);
    dispose(&p);
}

static void remove_folder(void)
{
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.') unlink(path_of(e->d_name));
    closedir(dir);
    rmdir(folder);
}

int main(void)
{
    const char *kept = getenv("HYPATIA_WRITTEN");
    snprintf(folder, sizeof folder, "%s", kept ? kept : "/tmp/hypatia-write-XXXXXX");
    if (!kept && !mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operator), cmocka_unit_test(test_symbols),  cmocka_unit_test(test_functions),
        cmocka_unit_test(test_beside),         cmocka_unit_test(test_refusals), cmocka_unit_test(test_no_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (!kept) remove_folder();
    return failed;
}
