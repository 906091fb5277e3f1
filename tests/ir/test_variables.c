/* Variables of graphs: text, copies, comparison, and what is refused. */
#include "ir_test.h"

static const char step[] = "(graph \"step\"\n"
                           "  (input %x (f32 n 2))\n"
                           "  (variable %w (f32 3 2) 1.0 2.0 3.0 4.0 5.0 6.0)\n"
                           "  (variable %w:m (f32 3 2))\n"
                           "  (variable %frozen (f32) 0.5)\n"
                           "  (variable %count (i64) 7)\n"
                           "  (const %one (i64) 1)\n"
                           "  (%y (linear %w none %x))\n"
                           "  (%next (add %w %frozen))\n"
                           "  (%counted (add %count %one))\n"
                           "  (%dead (exp %y))\n"
                           "  (output \"y\" %y)\n"
                           "  (output \"next\" %next)\n"
                           "  (set %count %counted)\n"
                           "  (set %w %next)\n"
                           "  (set %w:m %w)\n"
                           "  (set %frozen %frozen))\n";

static void text_is_canonical(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, step);
    hyp_diag diag = {0};
    char *printed = print(&g, SIZE_MAX), *elided = print(&g, 4);
    assert_string_equal(printed, step);
    assert_ok(hyp_graph_verify(&g, &diag), &diag);
    assert_non_null(strstr(elided, "(variable %w (f32 3 2) (hash \""));
    hyp_graph same = parse(dims, elided);
    assert_ok(hyp_graph_verify(&same, &diag), &diag);
    assert_true(hyp_graph_equal(&g, &same));
    char *again = print(&same, 4);
    assert_string_equal(elided, again);
    hyp_free(printed);
    hyp_free(elided);
    hyp_free(again);
    hyp_graph_dispose(&g);
    hyp_graph_dispose(&same);
    hyp_dims_destroy(dims);
}

static void they_are_hidden_inputs_and_outputs(void **state)
{
    (void)state;
    static const uint32_t outputs[] = {3, 4, 5, 2};
    static const char *const names[] = {"w", "w:m", "frozen", "count"};
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, step);
    assert_int_equal(hyp_graph_shown_inputs(&g), 1);
    assert_int_equal(hyp_graph_shown(&g), 2);
    assert_int_equal(g.inputs.len, 5);
    assert_int_equal(g.outputs.len, 6);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(g.variables.data[i].input, 1 + i);
        assert_int_equal(g.variables.data[i].output, outputs[i]);
        assert_string_equal(hyp_graph_variable(&g, i)->name, names[i]);
    }
    assert_string_equal(g.outputs.data[4].name, "new:w:m");
    assert_null(hyp_graph_variable(&g, 3)->content); /* an integer that a run changes is not known */
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

static void copies_keep_them(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, step), copies[3];
    hyp_diag diag = {0};
    assert_ok(hyp_graph_copy_live(&g, &copies[0], &diag), &diag);
    assert_ok(hyp_graph_rebuild(&g, NULL, NULL, &copies[1], &diag), &diag);
    assert_ok(hyp_graph_specialize(&g, (hyp_dim[]){4}, &copies[2], &diag), &diag);
    char *want = print(&copies[0], SIZE_MAX);
    hyp_graph_dispose(&g); /* the copies have bytes of their own */
    for (int i = 0; i < 3; i++) {
        assert_ok(hyp_graph_verify(&copies[i], &diag), &diag);
        assert_int_equal(hyp_graph_shown(&copies[i]), 2);
        assert_int_equal(hyp_graph_shown_inputs(&copies[i]), 1);
        assert_true(((const float *)hyp_graph_variable(&copies[i], 0)->data)[5] == 6);
        assert_int_equal(hyp_graph_variable(&copies[i], 1)->bytes, 0);
        char *text = print(&copies[i], SIZE_MAX);
        if (i < 2) assert_string_equal(text, want);
        assert_non_null(strstr(text, "(set %w:m %w)"));
        hyp_free(text);
        hyp_graph_dispose(&copies[i]);
    }
    assert_null(strstr(want, "exp"));
    hyp_free(want);
    hyp_dims_destroy(dims);
}

static void borrowed_bytes_stay_borrowed(void **state)
{
    (void)state;
    static const float data[2] = {1, 2};
    hyp_dims *dims = new_dims();
    hyp_graph g, copy;
    hyp_value_id ids[2];
    hyp_diag diag = {0};
    hyp_type t = {HYP_F32, 1, {2}};
    hyp_graph_init(&g, dims);
    for (int i = 0; i < 2; i++) {
        assert_ok(hyp_graph_add_variable(&g, i ? "b" : "a", &t, data, sizeof data, i == 1, &ids[i], &diag), &diag);
        assert_ok(hyp_graph_set_variable(&g, ids[i], ids[i], &diag), &diag);
    }
    assert_ok(hyp_graph_copy_live(&g, &copy, &diag), &diag);
    assert_true(hyp_graph_equal(&g, &copy));
    assert_ptr_equal(hyp_graph_variable(&copy, 0)->data, data);
    assert_ptr_not_equal(hyp_graph_variable(&g, 1)->data, data);
    assert_ptr_not_equal(hyp_graph_variable(&copy, 1)->data, hyp_graph_variable(&g, 1)->data);
    hyp_graph_dispose(&g);
    hyp_graph_dispose(&copy);
    hyp_dims_destroy(dims);
}

static void equality_sees_every_difference(void **state)
{
    (void)state;
    static const char base[] = "(graph \"\" (variable %a (f32 2) 1 2) (variable %b (f32 2)) (output \"y\" %a) "
                               "(set %a %b) (set %b %b))";
    static const char *const others[] = {
        "(graph \"\" (variable %a (f32 2) 1 3) (variable %b (f32 2)) (output \"y\" %a) (set %a %b) (set %b %b))",
        "(graph \"\" (variable %a (f32 2)) (variable %b (f32 2)) (output \"y\" %a) (set %a %b) (set %b %b))",
        "(graph \"\" (variable %c (f32 2) 1 2) (variable %b (f32 2)) (output \"y\" %c) (set %c %b) (set %b %b))",
        "(graph \"\" (variable %a (f32 2) 1 2) (variable %b (f32 2)) (output \"y\" %a) (set %a %a) (set %b %b))",
        "(graph \"\" (variable %a (f32 2) 1 2) (variable %b (f32 2)) (output \"y\" %a) (set %b %b) (set %a %b))",
        "(graph \"\" (input %a (f32 2)) (variable %b (f32 2)) (output \"y\" %a) (output \"new:a\" %b) (set %b %b))",
    };
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, base), same = parse(dims, base);
    assert_true(hyp_graph_equal(&g, &same));
    hyp_graph_dispose(&same);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        hyp_graph other = parse(dims, others[i]);
        if (hyp_graph_equal(&g, &other) || hyp_graph_equal(&other, &g)) fail_msg("taken as equal: %s", others[i]);
        hyp_graph_dispose(&other);
    }
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

static void what_is_no_variable_is_refused(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"(graph \"\" (variable %v))", "(variable %name type elements...)"},
        {"(graph \"\" (variable %3 (f32)))", "a variable wants a name"},
        {"(graph \"\" (variable %v (f32 n)))", "is symbolic"},
        {"(graph \"\" (variable %v (f32 n) 1))", "cannot be symbolic"},
        {"(graph \"\" (variable %v (f32 2) 1))", "1 elements, the type has 2"},
        {"(graph \"\" (variable %v (f32)))", "the variable 'v' is not set"},
        {"(graph \"\" (variable %v (f32)) (variable %v (f32)))", "two inputs are called 'v'"},
        {"(graph \"\" (input %v (f32)) (variable %v (f32)))", "two inputs are called 'v'"},
        {"(graph \"\" (variable %v (f32)) (input %x (f32)))", "inputs come before them"},
        {"(graph \"\" (variable %v (f32)) (set %v %v) (output \"y\" %v))", "has to come before them"},
        {"(graph \"\" (variable %v (f32)) (set %v %v) (set %v %v))", "is set twice"},
        {"(graph \"\" (input %x (f32)) (variable %v (f32)) (set %x %v))", "is no variable"},
        {"(graph \"\" (variable %v (f32 2)) (variable %u (f32)) (set %v %u))",
         "'v' is f32[2], what it becomes is f32[]"},
        {"(graph \"\" (variable %v (f32)) (variable %u (i32)) (set %v %u))", "'v' is f32[], what it becomes is i32[]"},
        {"(graph \"\" (variable %v (f32)) (output \"new:v\" %v) (set %v %v))", "two outputs are called 'new:v'"},
        {"(graph \"\" (variable %v (f32)) (set %v))", "(set %variable value)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hyp_dims *dims = new_dims();
        hyp_graph g;
        hyp_diag diag = {0};
        hyp_graph_init(&g, dims);
        assert_int_equal(hyp_graph_parse(&g, "file", rows[i][0], strlen(rows[i][0]), &diag), HYP_ERR_MALFORMED);
        if (!strstr(diag.message, rows[i][1])) fail_msg("%s: the message is '%s'", rows[i][0], diag.message);
        assert_int_equal(g.values.len, 0);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
    }
}

static void the_builder_refuses_wrong_bytes(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g;
    hyp_value_id v = 9;
    hyp_diag diag = {0};
    hyp_type t = {HYP_F32, 1, {2}};
    float data[2] = {1, 2};
    hyp_graph_init(&g, dims);
    assert_int_equal(hyp_graph_add_variable(&g, "v", &t, data, 4, true, &v, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_add_variable(&g, "v", &t, NULL, 8, true, &v, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_set_variable(&g, 0, 0, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(g.values.len, 0);
    assert_int_equal(g.variables.len, 0);
    assert_ok(hyp_graph_add_variable(&g, "v", &t, data, 8, true, &v, &diag), &diag);
    assert_int_equal(hyp_graph_set_variable(&g, v, 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_verify(&g, &diag), HYP_ERR_INTERNAL); /* it is not set */
    assert_ok(hyp_graph_set_variable(&g, v, v, &diag), &diag);
    assert_ok(hyp_graph_verify(&g, &diag), &diag);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

/* Breaks one invariant; false when there are no more. */
static bool corrupt(hyp_graph *g, int which)
{
    hyp_value *w = &g->values.data[g->inputs.data[1]];
    switch (which) {
    case 0: g->variables.data[0].input = 2; break;
    case 1: g->variables.data[1].output = g->variables.data[0].output; break;
    case 2: g->variables.data[0].output = 0; break;
    case 3: g->variables.data[0].output = HYP_NO_OUTPUT; break;
    case 4: g->hidden_outputs = 3; break;
    case 5: g->hidden_outputs = 7; break;
    case 6: w->bytes = 4; break;
    case 7: g->variables.len--; break;
    case 8: g->outputs.data[4].value = g->outputs.data[0].value; break;
    default: return false;
    }
    return true;
}

static void the_verifier_sees_every_corruption(void **state)
{
    (void)state;
    for (int i = 0;; i++) {
        hyp_dims *dims = new_dims();
        hyp_graph g = parse(dims, step);
        hyp_diag diag = {0};
        bool more = corrupt(&g, i);
        if (more && hyp_graph_verify(&g, &diag) != HYP_ERR_INTERNAL) fail_msg("corruption %d is not seen", i);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
        if (!more) break;
    }
}

static void the_interpreter_takes_and_gives_them(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, "(graph \"\" (input %x (f32 2)) (variable %v (f32 2)) (%n (add %x %v)) (set %v %n))");
    hyp_diag diag = {0};
    hyp_eval_tensor in[2], out;
    for (int i = 0; i < 2; i++) {
        assert_ok(hyp_eval_tensor_alloc(&in[i], HYP_F32, 1, (int64_t[]){2}, &diag), &diag);
        for (int k = 0; k < 2; k++) in[i].f[k] = 10 * i + k;
    }
    assert_ok(hyp_graph_eval(&g, HYP_EVAL_NATIVE, in, 2, &out, &diag), &diag);
    assert_true(out.f[0] == 10 && out.f[1] == 12);
    hyp_eval_tensor_dispose(&out);
    for (int i = 0; i < 2; i++) hyp_eval_tensor_dispose(&in[i]);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

static hyp_status parse_and_copy(hyp_dims *dims, hyp_diag *diag)
{
    hyp_graph g, copy;
    hyp_graph_init(&g, dims);
    hyp_status status = hyp_graph_parse(&g, "file", step, strlen(step), diag);
    if (status == HYP_OK && (status = hyp_graph_copy_live(&g, &copy, diag)) == HYP_OK) {
        status = hyp_graph_verify(&copy, diag);
        hyp_graph_dispose(&copy);
    }
    hyp_graph_dispose(&g);
    return status;
}

static void every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_diag diag = {0};
    assert_ok(parse_and_copy(dims, &diag), &diag);
    for (uint64_t n = 1;; n++) {
        hyp_mem_fail_after(n);
        hyp_status status = parse_and_copy(dims, &diag);
        hyp_mem_fail_after(0);
        if (status == HYP_OK) break;
        if (status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, diag.message);
        assert_true(n < 10000);
    }
    hyp_dims_destroy(dims);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_canonical),
        cmocka_unit_test(they_are_hidden_inputs_and_outputs),
        cmocka_unit_test(copies_keep_them),
        cmocka_unit_test(borrowed_bytes_stay_borrowed),
        cmocka_unit_test(equality_sees_every_difference),
        cmocka_unit_test(what_is_no_variable_is_refused),
        cmocka_unit_test(the_builder_refuses_wrong_bytes),
        cmocka_unit_test(the_verifier_sees_every_corruption),
        cmocka_unit_test(the_interpreter_takes_and_gives_them),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
