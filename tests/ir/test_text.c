/* The text form: parse(print(g)) == g, and messages for what is not a graph. */
#include "random_graph.h"

static void random_graphs_survive_text(void **state)
{
    (void)state;
    rng r = {.state = 5};
    bool seen[HYP_OP_COUNT] = {false};
    for (int round = 0; round < 600; round++) {
        hyp_dims *dims = new_dims(), *other = new_dims();
        hyp_diag diag = {0};
        hyp_graph g = random_graph(dims, &r, (int)pick(&r, 1, 14));
        size_t elide = round % 3 == 0 ? 16 : SIZE_MAX;
        assert_ok(hyp_graph_verify(&g, &diag), &diag);
        char *text = print(&g, elide);
        hyp_graph same = parse(dims, text), elsewhere = parse(other, text);
        char *again = print(&same, elide), *there = print(&elsewhere, elide);
        assert_string_equal(text, again);
        assert_string_equal(text, there);
        assert_true(hyp_graph_equal(&g, &same));
        assert_true(hyp_graph_equal(&g, &elsewhere));
        assert_ok(hyp_graph_verify(&same, &diag), &diag);
        for (size_t i = 0; i < g.nodes.len; i++) seen[g.nodes.data[i].op] = true;
        hyp_free(text);
        hyp_free(again);
        hyp_free(there);
        hyp_graph_dispose(&g);
        hyp_graph_dispose(&same);
        hyp_graph_dispose(&elsewhere);
        hyp_dims_destroy(dims);
        hyp_dims_destroy(other);
    }
    /* The text of calls is made of the same parts: it is enough that the golden files have them. */
    for (int op = 0; op < HYP_OP_COUNT; op++)
        if (!seen[op] && !(hyp_op_get((hyp_op)op)->flags & (HYP_OPF_CALL | HYP_OPF_OPAQUE)))
            fail_msg("no random graph has %s", hyp_op_get((hyp_op)op)->name);
}

static void text_is_canonical(void **state)
{
    (void)state;
    static const char text[] = "(graph \"a \\\"b\\\"\"\n"
                               "  (input %x (f32 batch 4))\n"
                               "  (input \"3\" (f32 \"odd dim\" (* 2 batch)))\n"
                               "  (const %w (f32 2 4) 1.0 -0.0 0.1 inf 1e+30 -2.5 nan 3.0)\n"
                               "  (const %3 (i64) -7)\n"
                               "  (const \"odd name\" (f32 2) (hex \"0100c07f00000000\"))\n"
                               "  (const %5 (bool 3) 0 1 1)\n"
                               "  (const %e (f32 0))\n"
                               "  (%h (fused-linear-relu %w \"odd name\" %x) :from (\"a\" \"b\") :rules (\"r\"))\n"
                               "  (%8 (fused-linear :act gelu-tanh %w none %x))\n"
                               "  ((%9 \"10\") (split :axis 1 :sizes (1 1) %h))\n"
                               "  (%11 (softmax %9))\n"
                               "  (%12 (softmax :axis 0 %9))\n"
                               "  (%13 (clip :min 0.0 %9))\n"
                               "  ((%14 %15) (custom :operator acme::Op%201 :values (a=i:-3, b=S:x%2cy,,) :types (f32 i64) "
                               ":shapes (2 batch 4 0) %x none %13))\n"
                               "  (output \"y\" %8)\n"
                               "  (output \"again\" %8)\n"
                               "  (output \"x\" %x))\n";
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, text);
    char *printed = print(&g, SIZE_MAX);
    assert_string_equal(printed, text);
    hyp_free(printed);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

static void elements_of_every_type_survive_text(void **state)
{
    (void)state;
    static const hyp_dtype types[] = {HYP_F32,  HYP_U8,  HYP_I8,  HYP_U16, HYP_I16, HYP_I32, HYP_I64,
                                      HYP_BOOL, HYP_F16, HYP_F64, HYP_U32, HYP_U64, HYP_BF16};
    rng r = {.state = 6};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int round = 0; round < 20; round++) {
            uint64_t bits[40];
            hyp_dims *dims = new_dims();
            hyp_graph g;
            hyp_value_id id;
            hyp_diag diag = {0};
            for (int j = 0; j < 40; j++) bits[j] = round % 2 ? next_random(&r) : (uint64_t)pick(&r, 0, 1);
            hyp_graph_init(&g, dims);
            hyp_type t = {types[i], 1, {(int64_t)(sizeof bits / hyp_dtype_size(types[i]))}};
            assert_ok(hyp_graph_add_const(&g, "c", &t, bits, sizeof bits, false, &id, &diag), &diag);
            char *text = print(&g, SIZE_MAX);
            hyp_graph back = parse(dims, text);
            assert_memory_equal(back.values.data[0].data, bits, sizeof bits);
            hyp_free(text);
            hyp_graph_dispose(&g);
            hyp_graph_dispose(&back);
            hyp_dims_destroy(dims);
        }
}

static void assert_refused(const char *text, size_t len, const char *message)
{
    hyp_dims *dims = new_dims();
    hyp_graph g;
    hyp_diag diag = {0};
    hyp_graph_init(&g, dims);
    hyp_status status = hyp_graph_parse(&g, "file", text, len, &diag);
    if (status == HYP_OK) fail_msg("accepted: %.*s", (int)len, text);
    if (message && (!strstr(diag.message, message) || strncmp(diag.message, "file:", 5) != 0))
        fail_msg("%s: the message is '%s'", text, diag.message);
    assert_int_equal(g.values.len, 0);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

static void what_is_no_graph_is_refused(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "one form (graph"},
        {"(graph)", "the graph's name"},
        {"(graph \"\") (graph \"\")", "one form"},
        {"(graph \"\" x)", "a form in parentheses"},
        {"(graph \"\" (input %x (f33 1)))", "a type is wanted"},
        {"(graph \"\" (input %x (f32 1 1 1 1 1 1 1 1 1)))", "more than 8"},
        {"(graph \"\" (input %x (f32 -1)))", "negative dimension"},
        {"(graph \"\" (input %3 (f32 1)))", "an input wants a name"},
        {"(graph \"\" (input %x (f32 1)) (input %x (f32 1)))", "two inputs are called 'x'"},
        {"(graph \"\" (input %x (f32 1)) (const %x (f32 1) 1))", "%x is defined twice"},
        {"(graph \"\" (const %x (f32 2) 1))", "1 elements, the type has 2"},
        {"(graph \"\" (const %x (f32 1000000 1000000 1000000) 1))", "elements, the type has"},
        {"(graph \"\" (const %x (f32 n) 1))", "cannot be symbolic"},
        {"(graph \"\" (const %x (i8 1) 128))", "128 does not fit i8"},
        {"(graph \"\" (const %x (u64 1) -1))", "-1 does not fit u64"},
        {"(graph \"\" (const %x (i8 1) 1.0))", "an integer is wanted"},
        {"(graph \"\" (const %x (f32 1) x))", "a number is wanted"},
        {"(graph \"\" (const %x (f32 1) (hex \"0000\")))", "two lower-case digits for every byte"},
        {"(graph \"\" (const %x (f32 1) (hex \"0000000G\")))", "not a hexadecimal digit"},
        {"(graph \"\" (const %x (f32 1) (hash \"00\")))", "16 hexadecimal digits"},
        {"(graph \"\" (%y (rleu %x)))", "did you mean 'relu'?"},
        {"(graph \"\" (%y (relu %x)))", "%x is not defined above"},
        {"(graph \"\" (%y (relu x)))", "a value is wanted here"},
        {"(graph \"\" (%y (clip :low 1 %x)))", "clip has no attribute :low"},
        {"(graph \"\" (%y (clip :min 1 :min 2 %x)))", "given twice"},
        {"(graph \"\" (%y (clip :min)))", "has no value"},
        {"(graph \"\" (%y (clip :min relu %x)))", "a number is wanted"},
        {"(graph \"\" (%y (fused-linear-relu :act gelu %x)))", "given twice"},
        {"(graph \"\" (%y (transpose :perm 1 %x)))", "a list of dimensions"},
        {"(graph \"\" (input %x (f32 1)) (%y (relu %x) :from (\"b\" \"a\")))", "not sorted"},
        {"(graph \"\" (input %x (f32 1)) (%y (relu %x) :form (\"b\")))", "only :from"},
        {"(graph \"\" (input %x (f32 1)) (%x (relu %x)))", "%x is defined twice"},
        {"(graph \"\" (input %x (f32 1)) (output y %x))", "(output \"name\" value)"},
        {"(graph \"\" (input %x (f32 1)) (output \"y\" %x) (output \"y\" %x))", "two outputs are called 'y'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_refused(rows[i][0], strlen(rows[i][0]), rows[i][1]);
}

static void cut_or_damaged_text_never_crashes(void **state)
{
    (void)state;
    rng r = {.state = 8};
    hyp_dims *dims = new_dims();
    hyp_graph g = random_graph(dims, &r, 12);
    char *text = print(&g, SIZE_MAX);
    size_t len = strlen(text);
    for (size_t i = 0; i + 2 < len; i += 1 + len / 400) assert_refused(text, i, NULL);
    for (int round = 0; round < 400; round++) {
        char *copy = hyp_malloc(len + 1);
        assert_non_null(copy);
        memcpy(copy, text, len + 1);
        for (int64_t j = pick(&r, 1, 4); j > 0; j--)
            copy[pick(&r, 0, (int64_t)len - 1)] = "() \"%:;x019-n\\"[pick(&r, 0, 13)];
        hyp_dims *fresh = new_dims();
        hyp_graph h;
        hyp_diag diag = {0};
        hyp_graph_init(&h, fresh);
        if (hyp_graph_parse(&h, "file", copy, len, &diag) == HYP_OK) assert_ok(hyp_graph_verify(&h, &diag), &diag);
        hyp_graph_dispose(&h);
        hyp_dims_destroy(fresh);
        hyp_free(copy);
    }
    hyp_free(text);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_survive_text),          cmocka_unit_test(text_is_canonical),
        cmocka_unit_test(elements_of_every_type_survive_text), cmocka_unit_test(what_is_no_graph_is_refused),
        cmocka_unit_test(cut_or_damaged_text_never_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
