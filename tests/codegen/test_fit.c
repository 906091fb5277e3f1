/* Plans that compute values again: they give the same bits, within the budget that was given, or say that it is too
 * small. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/memory.h"
#include "run_graph.h"
#include "support/count.h"
#include "support/random_graph.h"

enum { MOST_EDGES = 128, BATCH = 5, LARGE_BATCH = 2000, WIDTH = 6 };

/* A launch, and what elements and products take: more for a matmul than for others. */
static hyp_status seconds_of(const hyp_graph *g, const hyp_node *const *nodes, size_t count, void *user, double *out,
                             hyp_diag *diag)
{
    (void)user;
    (void)diag;
    *out = 1e-6 + 1e-9 * (double)count;
    if (nodes[count - 1]->op == HYP_OP_matmul) *out += 1e-5;
    return g->nodes.len ? HYP_OK : HYP_ERR_INTERNAL;
}

static const int64_t typical[] = {BATCH, BATCH, BATCH, BATCH};

static hyp_codegen_options options_for(const char *target)
{
    return (hyp_codegen_options){.target = hyp_target_find(target),
                                 .producer = "test",
                                 .model_name = "m",
                                 .predict = seconds_of,
                                 .typical_sizes = typical};
}

static hyp_footprint footprint_of(const hyp_graph *g, const hyp_codegen_options *options)
{
    hyp_footprint found;
    hyp_diag diag = {0};
    if (hyp_codegen_footprint(g, options, &found, &diag) != HYP_OK) fail_msg("%s", diag.message);
    return found;
}

static size_t count_again(const hyp_graph *g)
{
    size_t count = 0;
    for (size_t n = 0; n < g->nodes.len; n++)
        for (uint32_t r = 0; r < g->nodes.data[n].from.rule_count; r++)
            count += strcmp(g->nodes.data[n].from.rules[r], HYP_PLAN_RECOMPUTE) == 0;
    return count;
}

static size_t count_op(const hyp_graph *g, hyp_op op)
{
    size_t count = 0;
    for (size_t n = 0; n < g->nodes.len; n++) count += g->nodes.data[n].op == op;
    return count;
}

/* ---- graphs ------------------------------------------------------------------------------------------ */

/* A layer of a forward pass: %v%d from %v%d, square matrices for each row of the batch. */
static void print_layer(hyp_strbuf *sb, hyp_random *r, int i)
{
    switch (hyp_random_int(r, 0, 5)) {
    case 0: hyp_strbuf_printf(sb, "(%%v%d (softmax %%v%d))", i + 1, i); break;
    case 1: hyp_strbuf_printf(sb, "(%%v%d (matmul %%v%d %%w))", i + 1, i); break;
    case 2: hyp_strbuf_printf(sb, "(%%a%d (tanh %%v%d)) (%%v%d (mul %%a%d %%v%d))", i, i, i + 1, i, i); break;
    case 3: hyp_strbuf_printf(sb, "(%%v%d (transpose :perm (0 2 1) %%v%d))", i + 1, i); break;
    case 4: hyp_strbuf_printf(sb, "(%%m%d (matmul %%v%d %%w)) (%%v%d (add %%m%d %%v%d))", i, i, i + 1, i, i); break;
    default:
        hyp_strbuf_printf(sb, "((%%p%d %%q%d) (split :axis 2 :sizes (2 4) %%v%d)) (%%e%d (exp %%q%d))", i, i, i, i, i);
        hyp_strbuf_printf(sb, "(%%c%d (concat :axis 2 %%e%d %%p%d)) (%%v%d (softmax %%c%d))", i, i, i, i + 1, i);
    }
}

/* A forward pass, and a backward pass that reads its values last to first, with outputs from both. */
static void passes(hyp_graph *g, uint64_t seed, const char *dtype, bool symbolic)
{
    hyp_random r = {seed};
    hyp_strbuf sb = {0};
    hyp_diag diag = {0};
    int layers = (int)hyp_random_int(&r, 3, 14);
    hyp_strbuf_printf(&sb, "(graph \"passes\" (input %%v0 (%s %s 6 6)) (input %%w (%s 6 6))", dtype, symbolic ? "b" : "5",
                      dtype);
    for (int i = 0; i < layers; i++) print_layer(&sb, &r, i);
    hyp_strbuf_printf(&sb, "(%%g%d (softmax :axis 1 %%v%d))", layers, layers);
    for (int i = layers; i-- > 0;) {
        hyp_strbuf_printf(&sb, "(%%x%d (matmul :trans-a 1 %%v%d %%g%d))", i, i, i + 1);
        hyp_strbuf_printf(&sb, "(%%g%d (%s %%g%d %%v%d))", i, hyp_random_int(&r, 0, 1) ? "mul" : "matmul", i + 1, i);
        hyp_strbuf_printf(&sb, "(%%d%d (reduce-sum :axes (0) %%x%d))", i, i);
    }
    hyp_strbuf_printf(&sb, "(output \"y\" %%v%d)", (int)hyp_random_int(&r, 1, layers));
    for (int i = 0; i < layers; i++) hyp_strbuf_printf(&sb, "(output \"d%d\" %%d%d)", i, i);
    hyp_strbuf_puts(&sb, "(output \"g\" %g0))");
    hyp_dims *dims;
    assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
    hyp_graph_init(g, dims);
    if (hyp_graph_parse(g, "test", hyp_strbuf_text(&sb), sb.len, &diag) != HYP_OK) fail_msg("%s", diag.message);
    hyp_strbuf_dispose(&sb);
}

static void parse(hyp_graph *g, const char *text)
{
    hyp_dims *dims;
    hyp_diag diag = {0};
    assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
    hyp_graph_init(g, dims);
    if (hyp_graph_parse(g, "test", text, strlen(text), &diag) != HYP_OK) fail_msg("%s", diag.message);
}

static void dispose(hyp_graph *g)
{
    hyp_dims *dims = g->dims;
    hyp_graph_dispose(g);
    hyp_dims_destroy(dims);
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

/* Runs the plan of a graph; outputs[i].data are the caller's. */
static void run(const hyp_graph *g, hyp_device_kind device, const hyp_tensor *inputs, const hyp_eval_tensor *like,
                hyp_tensor *outputs)
{
    char path[64];
    hyp_diag diag = {0};
    snprintf(path, sizeof path, "test_fit.%ld.bin", (long)getpid());
    hyp_status status = write_plan(g, path, &diag);
    if (status == HYP_OK)
        status = run_plan(path, device, inputs, g->inputs.len, like, outputs, g->outputs.len, &diag);
    unlink(path);
    if (status != HYP_OK) fail_msg("%s", diag.message);
}

static void same_bits(const hyp_graph *kept, const hyp_graph *again, uint64_t seed)
{
    static const hyp_device_kind devices[] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};
    hyp_diag diag = {0};
    hyp_tensor inputs[MOST_EDGES] = {{0}};
    hyp_eval_tensor results[MOST_EDGES] = {{0}};
    hyp_random random = {seed + 77};
    int64_t symbols[8];
    hyp_random_bind(kept->dims, BATCH, BATCH, symbols);
    for (size_t s = 0; s < hyp_dims_symbol_count(kept->dims) && s < 8; s++) symbols[s] = BATCH;
    for (size_t i = 0; i < kept->inputs.len; i++)
        assert_int_equal(hyp_random_input(kept, i, symbols, &random, &inputs[i], &diag), HYP_OK);
    assert_int_equal(run_interpreter(kept, HYP_EVAL_NATIVE, inputs, results, &diag), HYP_OK);
    for (size_t d = 0; d < 2; d++) {
        hyp_tensor a[MOST_EDGES] = {{0}}, b[MOST_EDGES] = {{0}};
        run(kept, devices[d], inputs, results, a);
        run(again, devices[d], inputs, results, b);
        for (size_t i = 0; i < kept->outputs.len; i++) {
            assert_int_equal(a[i].bytes, b[i].bytes);
            if (memcmp(a[i].data, b[i].data, a[i].bytes) != 0)
                fail_msg("seed %llu: other bits of output '%s' on device %zu", (unsigned long long)seed,
                         kept->outputs.data[i].name, d);
            hyp_free(a[i].data);
            hyp_free(b[i].data);
        }
    }
    for (size_t i = 0; i < kept->inputs.len; i++) hyp_free(inputs[i].data);
    for (size_t i = 0; i < kept->outputs.len; i++) hyp_eval_tensor_dispose(&results[i]);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

/* A budget that leaves so much of it for scratch memory. */
static size_t budget_for(hyp_footprint kept, size_t scratch) { return kept.bytes - kept.scratch_bytes + scratch; }

/* Fits a graph into budgets that shrink: what fits is as it should be, what does not is refused with figures. Returns
 * how many fitted. */
static size_t shrink(const hyp_graph *g, const hyp_codegen_options *options, uint64_t seed)
{
    hyp_footprint kept = footprint_of(g, options);
    size_t fitted = 0;
    for (size_t scratch = kept.scratch_bytes; scratch >= kept.scratch_bytes / 5 && scratch > 256; scratch -= scratch / 6 + 1) {
        size_t budget = budget_for(kept, scratch);
        hyp_graph out;
        hyp_diag diag = {0};
        hyp_status status = hyp_codegen_fit(g, options, budget, &out, &diag);
        if (status != HYP_OK) {
            char given[64];
            snprintf(given, sizeof given, "--memory-budget gives it %zu", budget);
            assert_int_equal(status, HYP_ERR_INVALID_ARGUMENT);
            if (!strstr(diag.message, given)) fail_msg("%s", diag.message);
            continue;
        }
        if (hyp_graph_verify(&out, &diag) != HYP_OK) fail_msg("seed %llu: %s", (unsigned long long)seed, diag.message);
        hyp_footprint found = footprint_of(&out, options);
        assert_in_range(found.bytes, found.scratch_bytes, budget);
        if (budget == kept.bytes) assert_int_equal(count_again(&out), 0);
        if (count_again(&out)) same_bits(g, &out, seed), fitted++;
        hyp_graph_dispose(&out);
    }
    return fitted;
}

static void passes_keep_their_bits(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"f32", "f64", "bf16", "f16"}, *const targets[] = {"cpu", "cuda"};
    size_t fitted = 0, count = (size_t)test_count("HYPATIA_FIT_GRAPHS", 60);
    for (uint64_t seed = 0; seed < count; seed++) {
        hyp_graph g;
        const hyp_codegen_options options = options_for(targets[seed / 4 % 2]);
        passes(&g, seed, dtypes[seed % 4], seed % 3 == 0);
        fitted += shrink(&g, &options, seed);
        dispose(&g);
    }
    assert_in_range(fitted, count, 20 * count); /* one of each at least, on average */
}

static void any_graphs_keep_their_bits(void **state)
{
    (void)state;
    static const hyp_dtype dtypes[] = {HYP_F32, HYP_F64, HYP_BF16};
    size_t fitted = 0, count = (size_t)test_count("HYPATIA_FIT_GRAPHS", 60);
    for (uint64_t seed = 0; seed < count; seed++) {
        hyp_graph g;
        hyp_dims *dims;
        hyp_diag diag = {0};
        const hyp_codegen_options options = options_for("cpu");
        const hyp_random_graph_options how = {
            .seed = seed, .nodes = 40, .dtype = dtypes[seed % 3], .symbolic = seed % 2, .first_op = -1};
        assert_int_equal(hyp_dims_create(&dims, &diag), HYP_OK);
        if (hyp_random_graph(&how, dims, &g, NULL, &diag) != HYP_OK) fail_msg("%s", diag.message);
        fitted += shrink(&g, &options, seed);
        dispose(&g);
    }
    assert_true(fitted > 0);
}

/* What a context says that it takes, and its scratch memory. */
static size_t needed(const hyp_graph *g, hyp_device_kind device, size_t *out_scratch)
{
    char path[64];
    hyp_diag diag = {0};
    hyp_engine *engine;
    hyp_context *context;
    size_t bytes;
    const hyp_engine_options options = {.size = sizeof options, .device = device, .threads = 1};
    snprintf(path, sizeof path, "test_fit.%ld.bin", (long)getpid());
    assert_int_equal(write_plan(g, path, &diag), HYP_OK);
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &diag), HYP_OK);
    assert_int_equal(hyp_context_create(engine, NULL, &context, &diag), HYP_OK);
    const hyp_tensor shapes[] = {{.name = "v0", .dtype = HYP_F32, .rank = 3, .dims = {LARGE_BATCH, WIDTH, WIDTH}},
                                 {.name = "w", .dtype = HYP_F32, .rank = 2, .dims = {WIDTH, WIDTH}}};
    assert_int_equal(hyp_context_memory_needed(context, shapes, 2, &bytes, &diag), HYP_OK);
    assert_int_equal(hyp_context_reserve(context, shapes, 2, &diag), HYP_OK);
    *out_scratch = hyp_context_scratch_bytes(context);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    unlink(path);
    return bytes;
}

/* Less by as much as was found, but for what is noted of more steps. */
static void contexts_take_less(void **state)
{
    (void)state;
    static const hyp_device_kind devices[] = {HYP_DEVICE_REFERENCE, HYP_DEVICE_CPU};
    static const int64_t large[] = {LARGE_BATCH};
    hyp_codegen_options options = options_for("cpu");
    enum { EACH = 8192 };
    options.typical_sizes = large;
    size_t checked = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        hyp_graph g, out;
        hyp_diag diag = {0};
        passes(&g, seed, "f32", true);
        hyp_footprint kept = footprint_of(&g, &options);
        size_t budget = kept.scratch_bytes / 4 * 3;
        if (hyp_codegen_fit(&g, &options, budget_for(kept, budget), &out, &diag) == HYP_OK) {
            for (size_t d = 0; d < 2; d++) {
                size_t scratch, all, before = needed(&g, devices[d], &all), after = needed(&out, devices[d], &scratch);
                size_t saved = kept.scratch_bytes - footprint_of(&out, &options).scratch_bytes;
                assert_in_range(scratch, 1, d == 0 ? budget : all); /* a CPU's kernels have memory of their own, too */
                assert_true(after + saved <= before + EACH * (count_again(&out) + 1));
                checked++;
            }
            hyp_graph_dispose(&out);
        }
        dispose(&g);
    }
    assert_in_range(checked, 6, 24);
}

/* Long skips of a network that nobody trains: what is read late alone is computed late in the first place. */
static void skips_are_computed_again_where_nothing_is_trained(void **state)
{
    (void)state;
    hyp_graph g, out;
    hyp_diag diag = {0};
    const hyp_codegen_options options = options_for("cpu");
    parse(&g, "(graph \"\" (input %x (f32 64 64)) (input %w (f32 64 64)) (%a (softmax %x)) (%b (softmax :axis 0 %x))"
              "(%1 (matmul %x %w)) (%2 (matmul %1 %w)) (%3 (softmax %2)) (%4 (matmul %3 %a)) (%5 (matmul %4 %b))"
              "(output \"y\" %5))");
    hyp_footprint kept = footprint_of(&g, &options);
    /* The order of the steps has left nothing standing: %a and %b wait for their readers. */
    assert_int_not_equal(hyp_codegen_fit(&g, &options, kept.bytes - 1, &out, &diag), HYP_OK);
    assert_non_null(strstr(diag.message, "nothing to compute again"));
    dispose(&g);
    /* What is read early and late cannot wait for anybody. */
    parse(&g, "(graph \"\" (input %x (f32 64 64)) (input %w (f32 64 64)) (%a (softmax %x)) (%b (softmax :axis 0 %a))"
              "(%1 (matmul %b %a)) (%2 (matmul %1 %w)) (%3 (softmax %2)) (%4 (matmul %3 %a)) (%5 (matmul %4 %b))"
              "(output \"y\" %5))");
    kept = footprint_of(&g, &options);
    if (hyp_codegen_fit(&g, &options, kept.bytes - 1, &out, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_true(count_again(&out) > 0);
    hyp_graph_dispose(&out);
    dispose(&g);
}

static void what_all_processes_do_together_is_done_once(void **state)
{
    (void)state;
    hyp_graph g, out;
    hyp_diag diag = {0};
    const hyp_codegen_options options = options_for("cpu");
    parse(&g, "(graph \"\" (input %x (f32 64 64)) (input %w (f32 64 64)) (%s (softmax %x)) (%a (all-reduce %s))"
              "(%b (softmax :axis 0 %a)) (%1 (matmul %b %a)) (%2 (matmul %1 %w)) (%3 (softmax %2)) (%4 (matmul %3 %a))"
              "(%5 (matmul %4 %b)) (output \"y\" %5))");
    const hyp_footprint kept = footprint_of(&g, &options);
    for (size_t budget = kept.scratch_bytes; budget > 4096; budget -= 4096)
        if (hyp_codegen_fit(&g, &options, budget_for(kept, budget), &out, &diag) == HYP_OK) {
            assert_int_equal(count_op(&out, HYP_OP_all_reduce), 1);
            hyp_graph_dispose(&out);
        }
    dispose(&g);
}

/* Late readers have another one, early ones and outputs the first, and what is no work follows. */
static void late_readers_have_another_one(void **state)
{
    (void)state;
    hyp_graph g, out;
    hyp_diag diag = {0};
    parse(&g, "(graph \"\" (input %x (f32 4 6)) (%a (softmax %x)) (%r (reshape :shape (6 4) %a)) (%b (exp %a))"
              "(%c (matmul %b %r)) (output \"a\" %a) (output \"c\" %c))");
    bool again[4] = {true}, follows[4] = {false, true}, late[4] = {false, false, false, true};
    if (hyp_graph_compute_again(&g, &(hyp_again){again, late, follows, NULL}, &out, &diag) != HYP_OK)
        fail_msg("%s", diag.message);
    assert_int_equal(hyp_graph_verify(&out, &diag), HYP_OK);
    assert_int_equal(out.nodes.len, 5); /* the reshape of the first softmax has no reader left */
    assert_int_equal(count_op(&out, HYP_OP_softmax), 2);
    assert_int_equal(count_again(&out), 2);
    const hyp_value *y = &out.values.data[out.outputs.data[0].value];
    assert_int_equal(out.nodes.data[y->producer].from.rule_count, 0);
    hyp_graph_dispose(&out);
    dispose(&g);
}

static void the_same_graph_gives_the_same_one(void **state)
{
    (void)state;
    hyp_strbuf text[2] = {{0}, {0}};
    const hyp_codegen_options options = options_for("cuda");
    for (int i = 0; i < 2; i++) {
        hyp_graph g, out;
        hyp_diag diag = {0};
        passes(&g, 3, "f32", false);
        const hyp_footprint kept = footprint_of(&g, &options);
        if (hyp_codegen_fit(&g, &options, budget_for(kept, kept.scratch_bytes / 4 * 3), &out, &diag) != HYP_OK)
            fail_msg("%s", diag.message);
        assert_int_equal(hyp_graph_print(&text[i], &out, 256, &diag), HYP_OK);
        hyp_graph_dispose(&out);
        dispose(&g);
    }
    assert_string_equal(hyp_strbuf_text(&text[0]), hyp_strbuf_text(&text[1]));
    hyp_strbuf_dispose(&text[0]);
    hyp_strbuf_dispose(&text[1]);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    hyp_graph g, out;
    const hyp_codegen_options options = options_for("cpu");
    passes(&g, 3, "f32", false);
    const hyp_footprint kept = footprint_of(&g, &options);
    size_t budget = budget_for(kept, kept.scratch_bytes / 4 * 3);
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (size_t n = 1; status == HYP_ERR_NO_MEMORY; n += 1 + n / 16) {
        hyp_diag diag = {0};
        hyp_mem_fail_after(n);
        status = hyp_codegen_fit(&g, &options, budget, &out, &diag);
        hyp_mem_fail_after(0);
    }
    assert_int_equal(status, HYP_OK);
    hyp_graph_dispose(&out);
    dispose(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_keep_their_bits),
        cmocka_unit_test(any_graphs_keep_their_bits),
        cmocka_unit_test(contexts_take_less),
        cmocka_unit_test(skips_are_computed_again_where_nothing_is_trained),
        cmocka_unit_test(what_all_processes_do_together_is_done_once),
        cmocka_unit_test(late_readers_have_another_one),
        cmocka_unit_test(the_same_graph_gives_the_same_one),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
