/* Every operator against tests/golden/ops/<name>.hyp, whose expectations numpy and onnxruntime gave. */
#include <math.h>

#include "base/file.h"
#include "ir_test.h"
#include "kernels/kernels.h"
#include "support/golden_ops.h"

static void evaluate(const golden_case *c, void *user)
{
    hyp_diag diag = {0};
    hyp_eval_tensor outputs[GOLDEN_MAX];
    for (int mode = HYP_EVAL_NATIVE; mode <= HYP_EVAL_DOUBLE; mode++) {
        assert_ok(hyp_graph_eval(&c->graph, (hyp_eval_mode)mode, c->inputs, c->input_count, outputs, &diag), &diag);
        for (size_t i = 0; i < c->graph.outputs.len; i++) {
            double tolerance = mode == HYP_EVAL_DOUBLE ? 1e-12 : golden_ops_tolerance(c->wanted[i].dtype);
            golden_ops_compare(c, &outputs[i], &c->wanted[i], tolerance);
            hyp_eval_tensor_dispose(&outputs[i]);
        }
    }
    (void)user;
}

static void every_operator_agrees_with_its_golden_file(void **state)
{
    (void)state;
    golden_ops_visit(evaluate, NULL);
}

static void the_table_is_sound(void **state)
{
    (void)state;
    for (int i = 0; i < HYP_OP_COUNT; i++) {
        const hyp_op_info *info = hyp_op_get((hyp_op)i);
        hyp_op found;
        uint32_t index;
        assert_true(hyp_op_find(info->name, &found));
        assert_int_equal(found, i);
        assert_true(info->min_inputs <= info->max_inputs && info->doc[0]);
        for (uint32_t j = 0; j < info->attr_count; j++) {
            assert_true(hyp_op_find_attr((hyp_op)i, info->attrs[j].name, &index));
            assert_int_equal(index, j);
            bool list = info->attrs[j].kind == HYP_ATTR_DIMS || info->attrs[j].kind == HYP_ATTR_SYMS;
            assert_true(info->attrs[j].required || !list);
            if (info->attrs[j].required) continue;
            hyp_attr value = hyp_attr_default(&info->attrs[j]);
            hyp_strbuf sb = {0};
            hyp_attr_print(&sb, NULL, &value);
            assert_string_equal(hyp_strbuf_text(&sb), info->attrs[j].default_text);
            hyp_strbuf_dispose(&sb);
        }
    }
    size_t count;
    const hyp_op_alias *aliases = hyp_op_aliases(&count);
    for (size_t i = 0; i < count; i++) {
        hyp_op ignored;
        assert_false(hyp_op_find(aliases[i].name, &ignored));
        assert_true(aliases[i].attr < hyp_op_get(aliases[i].op)->attr_count);
        assert_int_equal(hyp_op_get(aliases[i].op)->attrs[aliases[i].attr].kind, HYP_ATTR_SYM);
    }
    assert_false(hyp_op_find("no-such-operator", &(hyp_op){0}));
}

/* What infers and what computes agree on what they take. */
static void every_called_operator_has_its_kernel(void **state)
{
    (void)state;
    size_t kernels, called = 0;
    hyp_kernel_list(&kernels);
    for (int i = 0; i < HYP_OP_COUNT; i++) {
        const hyp_op_info *info = hyp_op_get((hyp_op)i);
        if (!(info->flags & HYP_OPF_CALL)) continue;
        const hyp_kernel *k = hyp_kernel_find(info->name);
        if (!k) fail_msg("%s has no kernel", info->name);
        called++;
        assert_true(k->min_inputs == info->min_inputs);
        assert_true(k->max_inputs == info->max_inputs || info->max_inputs == HYP_VARIADIC);
        assert_true(k->max_outputs == info->outputs || info->outputs == HYP_VARIADIC);
        assert_int_equal(strlen(k->attrs), info->attr_count);
        for (uint32_t j = 0; j < info->attr_count; j++) {
            static const char letters[] = {
                [HYP_ATTR_INT] = 'i', [HYP_ATTR_FLOAT] = 'f', [HYP_ATTR_SYM] = 's', [HYP_ATTR_DIMS] = 'l'};
            char letter = k->attrs[j] == 'F' ? 'f' : k->attrs[j];
            if (letter != letters[info->attrs[j].kind]) fail_msg("%s: attribute %u", info->name, j);
        }
    }
    assert_int_equal(called, kernels);
}

/* What the column of gradients says. */
static const char *gradient_of(const hyp_op_info *info)
{
    const char *text = info->gradient;
    if (!text) return "no";
    if (strspn(text, "none ") == strlen(text)) return "0";
    return strstr(text, "(by ") && !strstr(text, "(else ") ? "in part" : "yes";
}

static void every_operator_is_documented(void **state)
{
    (void)state;
    hyp_mapping map;
    hyp_diag diag = {0};
    assert_ok(hyp_map_file(HYP_SOURCE_DIR "/docs/ir.md", &map, &diag), &diag);
    for (int op = 0; op < HYP_OP_COUNT; op++) {
        const hyp_op_info *info = hyp_op_get((hyp_op)op);
        char row[512];
        int len = snprintf(row, sizeof row, "| `%s` |", info->name);
        for (uint32_t i = 0; i < info->attr_count; i++)
            len += snprintf(row + len, sizeof row - (size_t)len, " `:%s`%s%s", info->attrs[i].name,
                            info->attrs[i].required ? "" : " = ",
                            info->attrs[i].required ? "" : info->attrs[i].default_text);
        snprintf(row + len, sizeof row - (size_t)len, " | %s | %s |", info->doc, gradient_of(info));
        if (!memmem(map.data, map.size, row, strlen(row))) fail_msg("docs/ir.md lacks the row\n%s", row);
    }
    hyp_unmap(&map);
}

/* Numbers of several magnitudes, of both signs. */
static void fill(hyp_eval_tensor *t, uint64_t seed)
{
    for (size_t i = 0; i < t->count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        t->f[i] = (double)(float)ldexp((double)(seed >> 40) - 0x800000, -23 + (int)(seed >> 32) % 4);
    }
}

/* Runs a graph of one output of f32 by plain loops and by a library: what is no number is the same, the rest near;
 * returns how much of the output is no number. */
static size_t compare_modes(const char *text, const double *special, size_t special_count)
{
    hyp_dims *dims = new_dims();
    hyp_diag diag = {0};
    hyp_graph g = parse(dims, text);
    hyp_eval_tensor inputs[4] = {{0}}, plain = {0}, fast = {0};
    size_t none = 0;
    for (size_t i = 0; i < g.inputs.len; i++) {
        const hyp_type *t = &g.values.data[g.inputs.data[i]].type;
        assert_ok(hyp_eval_tensor_alloc(&inputs[i], t->dtype, t->rank, t->dims, &diag), &diag);
        fill(&inputs[i], i + 1);
        for (size_t k = 0; k < special_count; k++) inputs[i].f[(7919 * k + 31 * i) % inputs[i].count] = special[k];
    }
    assert_ok(hyp_graph_eval(&g, HYP_EVAL_NATIVE, inputs, g.inputs.len, &plain, &diag), &diag);
    assert_ok(hyp_graph_eval(&g, HYP_EVAL_FAST, inputs, g.inputs.len, &fast, &diag), &diag);
    double largest = 0;
    for (size_t i = 0; i < plain.count; i++)
        if (isfinite(plain.f[i])) largest = fmax(largest, fabs(plain.f[i]));
    for (size_t i = 0; i < plain.count; i++) {
        bool number = isfinite(plain.f[i]);
        none += !number;
        bool same = isnan(plain.f[i]) ? isnan(fast.f[i]) : plain.f[i] == fast.f[i];
        if (number ? !(fabs(fast.f[i] - plain.f[i]) <= 1e-4 * largest) : !same)
            fail_msg("%s: element %zu is %.9g, not %.9g", text, i, fast.f[i], plain.f[i]);
    }
    for (size_t i = 0; i < g.inputs.len; i++) hyp_eval_tensor_dispose(&inputs[i]);
    hyp_eval_tensor_dispose(&plain);
    hyp_eval_tensor_dispose(&fast);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    return none;
}

static void products_of_a_library_are_those_of_plain_loops(void **state)
{
    (void)state;
    static const char *const graphs[] = {
        "(graph \"\" (input %x (f32 24 600)) (input %w (f32 40 600)) (%y (linear %w none %x)) (output \"y\" %y))",
        "(graph \"\" (input %x (f32 3 50 70)) (input %w (f32 70 33)) (%y (matmul %x %w)) (output \"y\" %y))",
        "(graph \"\" (input %x (f32 2 70 50)) (input %w (f32 2 33 70)) "
        "(%y (matmul :trans-a 1 :trans-b 1 :alpha 0.5 %x %w)) (output \"y\" %y))",
        "(graph \"\" (input %x (f32 2 6 9 11)) (input %w (f32 8 3 3 2)) (input %b (f32 8)) "
        "(%y (conv :strides (2 1) :pads (1 0 2 3) :dilations (1 2) :group 2 %x %w %b)) (output \"y\" %y))",
        "(graph \"\" (input %x (f32 1 64 14 14)) (input %w (f32 32 64 3 3)) "
        "(%y (conv :strides (1 1) :pads (1 1 1 1) :dilations (1 1) %x %w)) (output \"y\" %y))",
        "(graph \"\" (input %x (f32 1 6 30)) (input %w (f32 6 1 5)) "
        "(%y (conv :strides (1) :pads (2 2) :dilations (1) :group 6 %x %w)) (output \"y\" %y))",
    };
    /* Zeros times infinities, infinities of both signs that meet, products that overflow in between. */
    const double special[] = {INFINITY, 0, -INFINITY, INFINITY, NAN}, large[] = {3e38, 2e38, -3e38, -0.0, 3e38, 1e-40};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        assert_int_equal(compare_modes(graphs[i], NULL, 0), 0);
        assert_true(compare_modes(graphs[i], special, 5) > 0);
        assert_true(compare_modes(graphs[i], special, 1) > 0);
        compare_modes(graphs[i], large, 6);
    }
}

/* How far y may be from what the graph gives of x, whose elements are all of one size: at its first element. */
static double tolerance_of(const char *text, double x)
{
    const hyp_expect_options options = {.any_inf = true, .any_nan = true};
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, text);
    hyp_eval_tensor in, value, tolerance;
    hyp_diag diag = {0};
    const hyp_type *t = &g.values.data[g.inputs.data[0]].type;
    assert_ok(hyp_eval_tensor_alloc(&in, t->dtype, (int32_t)t->rank, t->dims, &diag), &diag);
    for (size_t i = 0; i < in.count; i++) in.f[i] = x;
    assert_ok(hyp_graph_expect(&g, &in, 1, &options, &value, &tolerance, &diag), &diag);
    double out = tolerance.f[0];
    hyp_eval_tensor_dispose(&in);
    hyp_eval_tensor_dispose(&value);
    hyp_eval_tensor_dispose(&tolerance);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    return out;
}

/* A kernel that adds to what it computes has it unrounded, so that a sum of a product and its size need not be 0; of what
 * IEEE arithmetic gives it is. */
static void what_several_read_may_be_unrounded_for_one(void **state)
{
    (void)state;
    const char *product = "(graph \"\" (input %x (f16 2 3)) (const %w (f16 1 3) 1 0.5 0.25) (%p (linear %w none %x)) "
                          "(%l (neg %p)) (%a (abs %l)) (%y (add %l %a)) (output \"y\" %y))";
    const char *exact = "(graph \"\" (input %x (f16 2 3)) (const %w (f16 1 3) 1 0.5 0.25) (%p (mul %x %w)) (%l (neg %p)) "
                        "(%a (abs %l)) (%y (add %l %a)) (output \"y\" %y))";
    assert_true(tolerance_of(product, 0.7) > 1e-3);
    assert_true(tolerance_of(exact, 0.7) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_agrees_with_its_golden_file),
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(every_called_operator_has_its_kernel),
        cmocka_unit_test(every_operator_is_documented),
        cmocka_unit_test(what_several_read_may_be_unrounded_for_one),
        cmocka_unit_test(products_of_a_library_are_those_of_plain_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
