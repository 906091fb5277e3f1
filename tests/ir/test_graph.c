/* Building, verifying, copying, comparing and running graphs. */
#include <math.h>

#include "random_graph.h"

static const char mlp[] = "(graph \"mlp\"\n"
                          "  (input %x (f32 n 2))\n"
                          "  (const %w (f32 3 2) 1 2 3 4 5 6)\n"
                          "  (const %b (f32 3) 0 -20 1)\n"
                          "  (const %unused (f32 1) 9)\n"
                          "  (%h (linear %w %b %x) :from (\"Gemm_0\" \"Gemm_1\"))\n"
                          "  (%r (relu %h))\n"
                          "  ((%p %q) (split :axis 1 :sizes (1 2) %r))\n"
                          "  (%s (shape %x))\n"
                          "  (%dead (exp %q))\n"
                          "  (output \"y\" %r)\n"
                          "  (output \"p\" %p)\n"
                          "  (output \"s\" %s))";

/* ---- verifier --------------------------------------------------------------------------------------- */

/* Finds the first value of a name; ids of unnamed outputs follow their node. */
static hyp_value_id find(const hyp_graph *g, const char *name)
{
    for (hyp_value_id i = 0; i < g->values.len; i++)
        if (g->values.data[i].name && strcmp(g->values.data[i].name, name) == 0) return i;
    fail_msg("no value is called %s", name);
    return 0;
}

enum { CORRUPTIONS = 24 };

/* Breaks one invariant; false when there are no more. */
static bool corrupt(hyp_graph *g, int which)
{
    static hyp_value_id ids[4];
    static hyp_attr attr;
    static const char *const unsorted[] = {"b", "a"};
    static const hyp_dim content[2] = {7, 7};
    hyp_value *v = g->values.data;
    hyp_node *n = g->nodes.data;
    hyp_value_id x = find(g, "x"), w = find(g, "w"), h = find(g, "h"), p = find(g, "p"), s = find(g, "s");
    memcpy(ids, n[0].inputs, 3 * sizeof *ids);
    switch (which) {
    case 0: v[h].type.dims[1] = 4; break;
    case 1: v[h].type.dtype = HYP_F64; break;
    case 2: v[h].type.rank = 1; break;
    case 3: v[x].type.dims[1] = -2; break;
    case 4: v[x].type.dims[5] = 1; break;
    case 5: v[x].type.dtype = HYP_DTYPE_NONE; break;
    case 6: v[x].type.rank = HYP_MAX_RANK + 1; break;
    case 7: v[w].bytes = 20; break;
    case 8: v[w].type.dims[0] = 4; break;
    case 9: v[h].producer = 1; break;
    case 10: v[p].output = 1; break;
    case 11: v[p].output = 99; break;
    case 12: v[h].kind = HYP_VALUE_CONST; break;
    case 13: v[w].kind = HYP_VALUE_INPUT; break;
    case 14: v[s].content = content; break;
    case 15: v[s].content_count = 1; break;
    case 16: ids[2] = find(g, "r"), n[0].inputs = ids; break; /* reads what comes later */
    case 17: ids[2] = 1000, n[0].inputs = ids; break;
    case 18: n[0].op = HYP_OP_COUNT; break;
    case 19: n[1].op = HYP_OP_shape; break;
    case 20: attr = (hyp_attr){.kind = HYP_ATTR_FLOAT}, n[1].op = HYP_OP_softmax, n[1].attrs = &attr; break;
    case 21: n[0].from.sources = unsorted, n[0].from.source_count = 2; break;
    case 22: g->outputs.data[0].value = 1000; break;
    case 23: g->outputs.data[1].name = "y"; break;
    default: return false;
    }
    return true;
}

static void the_verifier_sees_every_corruption(void **state)
{
    (void)state;
    int i = 0;
    for (;; i++) {
        hyp_dims *dims = new_dims();
        hyp_graph g = parse(dims, mlp);
        hyp_diag diag = {0};
        assert_ok(hyp_graph_verify(&g, &diag), &diag);
        bool more = corrupt(&g, i);
        if (more && hyp_graph_verify(&g, &diag) != HYP_ERR_INTERNAL) fail_msg("corruption %d is not seen", i);
        if (more) assert_non_null(strstr(diag.message, "the graph 'mlp' is not valid: "));
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
        if (!more) break;
    }
    assert_int_equal(i, CORRUPTIONS);
}

static void the_builder_refuses_what_is_wrong(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g;
    hyp_value_id x = 9, y = 9, ids[2];
    hyp_diag diag = {0};
    hyp_type t = {HYP_F32, 1, {2}};
    float data[2] = {1, 2};
    hyp_graph_init(&g, dims);
    assert_ok(hyp_graph_add_input(&g, "x", &t, &x, &diag), &diag);
    assert_int_equal(hyp_graph_add_input(&g, "x", &t, &y, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_add_input(&g, "z", &(hyp_type){HYP_F32, 9, {0}}, &y, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_add_const(&g, "c", &t, data, 4, true, &y, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_add_const(&g, "c", &t, NULL, 8, true, &y, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_add_node(&g, HYP_OP_transpose, &x, 1, NULL, NULL, &y, 1, &diag),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "attribute 'perm' is missing"));
    assert_int_equal(
        hyp_graph_add_node(&g, HYP_OP_softmax, &x, 1, &(hyp_attr){.kind = HYP_ATTR_FLOAT}, NULL, &y, 1, &diag),
        HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_add_node(&g, HYP_OP_COUNT, &x, 1, NULL, NULL, &y, 1, &diag), HYP_ERR_INVALID_ARGUMENT);
    ids[0] = x, ids[1] = 77;
    assert_int_equal(hyp_graph_add_node(&g, HYP_OP_add, ids, 2, NULL, NULL, &y, 1, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_add_output(&g, "y", 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(g.values.len, 1);
    assert_int_equal(g.nodes.len, 0);
    assert_int_equal(y, 9);
    assert_ok(hyp_graph_add_node(&g, HYP_OP_relu, &x, 1, NULL, NULL, &y, 1, &diag), &diag);
    assert_ok(hyp_graph_add_output(&g, "y", y, &diag), &diag);
    assert_int_equal(hyp_graph_add_output(&g, "y", y, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_ok(hyp_graph_verify(&g, &diag), &diag);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

/* ---- copies and equality ---------------------------------------------------------------------------- */

static void copying_drops_what_is_dead(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, mlp), copy;
    hyp_diag diag = {0};
    assert_ok(hyp_graph_copy_live(&g, &copy, &diag), &diag);
    assert_int_equal(copy.nodes.len, 4);
    assert_int_equal(copy.values.len, 8); /* x w b, h r p q s */
    hyp_graph_dispose(&g);                /* the copy stands alone */
    assert_ok(hyp_graph_verify(&copy, &diag), &diag);
    char *text = print(&copy, SIZE_MAX);
    assert_null(strstr(text, "unused"));
    assert_null(strstr(text, "exp"));
    assert_non_null(strstr(text, ":from (\"Gemm_0\" \"Gemm_1\")"));
    hyp_free(text);
    hyp_graph_dispose(&copy);
    hyp_dims_destroy(dims);
}

static void borrowed_data_stay_borrowed(void **state)
{
    (void)state;
    static const float data[2] = {1, 2};
    hyp_dims *dims = new_dims();
    hyp_graph g, copy;
    hyp_value_id a, b;
    hyp_diag diag = {0};
    hyp_type t = {HYP_F32, 1, {2}};
    hyp_graph_init(&g, dims);
    assert_ok(hyp_graph_add_const(&g, NULL, &t, data, sizeof data, false, &a, &diag), &diag);
    assert_ok(hyp_graph_add_const(&g, NULL, &t, data, sizeof data, true, &b, &diag), &diag);
    assert_ok(hyp_graph_add_output(&g, "a", a, &diag), &diag);
    assert_ok(hyp_graph_add_output(&g, "b", b, &diag), &diag);
    assert_ok(hyp_graph_copy_live(&g, &copy, &diag), &diag);
    assert_true(hyp_graph_equal(&g, &copy));
    assert_ptr_equal(copy.values.data[0].data, data);
    assert_ptr_not_equal(copy.values.data[1].data, data);
    assert_ptr_not_equal(copy.values.data[1].data, g.values.data[1].data);
    hyp_graph_dispose(&g);
    hyp_graph_dispose(&copy);
    hyp_dims_destroy(dims);
}

static void specializing_gives_static_types(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, mlp), fixed;
    hyp_diag diag = {0};
    hyp_dim five[1] = {5};
    assert_ok(hyp_graph_specialize(&g, five, &fixed, &diag), &diag);
    assert_ok(hyp_graph_verify(&fixed, &diag), &diag);
    assert_int_equal(fixed.values.len, g.values.len);
    for (size_t i = 0; i < fixed.values.len; i++) assert_true(hyp_type_is_static(&fixed.values.data[i].type));
    assert_true(fixed.values.data[find(&fixed, "s")].content[0] == 5);
    assert_false(hyp_graph_equal(&g, &fixed));
    hyp_graph_dispose(&g);
    hyp_graph_dispose(&fixed);
    hyp_dims_destroy(dims);
}

static void equality_sees_every_difference(void **state)
{
    (void)state;
    static const char base[] = "(graph \"\" (input %x (f32 n 2)) (const %c (f32 2) 1 2) (%a (add %x %c)) "
                               "(%b (softmax :axis 0 %a)) (output \"y\" %b))";
    static const char *const others[] = {
        "(graph \"\" (input %z (f32 n 2)) (const %c (f32 2) 1 2) (%a (add %z %c)) (%b (softmax :axis 0 %a)) (output "
        "\"y\" %b))",
        "(graph \"\" (input %x (f32 m 2)) (const %c (f32 2) 1 2) (%a (add %x %c)) (%b (softmax :axis 0 %a)) (output "
        "\"y\" %b))",
        "(graph \"\" (input %x (f32 n 2)) (const %c (f32 2) 1 3) (%a (add %x %c)) (%b (softmax :axis 0 %a)) (output "
        "\"y\" %b))",
        "(graph \"\" (input %x (f32 n 2)) (const %c (f32 1 2) 1 2) (%a (add %x %c)) (%b (softmax :axis 0 %a)) (output "
        "\"y\" %b))",
        "(graph \"\" (input %x (f32 n 2)) (const %c (f32 2) 1 2) (%a (add %c %x)) (%b (softmax :axis 0 %a)) (output "
        "\"y\" %b))",
        "(graph \"\" (input %x (f32 n 2)) (const %c (f32 2) 1 2) (%a (mul %x %c)) (%b (softmax :axis 0 %a)) (output "
        "\"y\" %b))",
        "(graph \"\" (input %x (f32 n 2)) (const %c (f32 2) 1 2) (%a (add %x %c)) (%b (softmax %a)) (output \"y\" %b))",
        "(graph \"\" (input %x (f32 n 2)) (const %c (f32 2) 1 2) (%a (add %x %c)) (%b (softmax :axis 0 %a)) (output "
        "\"y\" %a))",
        "(graph \"\" (input %x (f32 n 2)) (const %c (f32 2) 1 2) (%a (add %x %c)) (%b (softmax :axis 0 %a)) (output "
        "\"z\" %b))",
        "(graph \"\" (input %x (f32 n 2)) (const %c (f32 2) 1 2) (%a (add %x %c)) (%b (softmax :axis 0 %a)) (output "
        "\"y\" %b) "
        "(output \"z\" %b))",
        "(graph \"\" (input %x (f32 n 2)) (const %c (f32 2) 1 2) (const %d (f32)  1) (%a (add %x %c)) "
        "(%b (softmax :axis 0 %a)) (output \"y\" %b))",
    };
    static const char renamed[] = "(graph \"other\" (const %k (f32 2) 1 2) (input %x (f32 n 2)) (%p (add %x %k)) "
                                  "(%q (softmax :axis 0 %p) :from (\"s\")) (output \"y\" %q))";
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, base), same = parse(dims, renamed);
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

/* ---- running ---------------------------------------------------------------------------------------- */

static hyp_eval_tensor matrix(int64_t rows, int64_t columns, const double *elements)
{
    hyp_eval_tensor t;
    hyp_diag diag = {0};
    assert_ok(hyp_eval_tensor_alloc(&t, HYP_F32, 2, (int64_t[]){rows, columns}, &diag), &diag);
    for (size_t i = 0; i < t.count; i++) t.f[i] = elements[i];
    return t;
}

static void a_graph_gives_values_worked_out_by_hand(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, mlp);
    hyp_diag diag = {0};
    hyp_eval_tensor x = matrix(2, 2, (double[]){1, 2, -1, 3}), out[3];
    /* rows: (1+4, 3+8-20, 5+12+1) and (-1+6, -3+12-20, -5+18+1) */
    static const double want[] = {5, 0, 18, 5, 0, 14};
    assert_ok(hyp_graph_eval(&g, HYP_EVAL_DOUBLE, &x, 1, out, &diag), &diag);
    for (size_t i = 0; i < 6; i++) assert_true(out[0].f[i] == want[i]);
    assert_true(out[1].rank == 2 && out[1].dims[0] == 2 && out[1].dims[1] == 1 && out[1].f[0] == 5 && out[1].f[1] == 5);
    assert_true(out[2].dtype == HYP_I64 && out[2].count == 2 && out[2].i[0] == 2 && out[2].i[1] == 2);
    for (int i = 0; i < 3; i++) hyp_eval_tensor_dispose(&out[i]);
    hyp_eval_tensor_dispose(&x);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

static void any_value_may_be_an_output_and_twice(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, "(graph \"\" (input %x (f32 1 1)) (const %k (f32) 2) (%y (mul %x %k)) (output \"y\" %y) "
                              "(output \"k\" %k) (output \"x\" %x) (output \"y2\" %y) (output \"k2\" %k))");
    static const double want[] = {6, 2, 3, 6, 2};
    hyp_diag diag = {0};
    hyp_eval_tensor x = matrix(1, 1, (double[]){3}), out[5];
    assert_ok(hyp_graph_eval(&g, HYP_EVAL_DOUBLE, &x, 1, out, &diag), &diag);
    for (int i = 0; i < 5; i++) {
        assert_true(out[i].f[0] == want[i]);
        hyp_eval_tensor_dispose(&out[i]); /* each owns its elements */
    }
    hyp_eval_tensor_dispose(&x);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

static void native_rounds_every_result_and_double_none(void **state)
{
    (void)state;
    /* (x + 1) - x for a large x: 0 in f32, 1 in double */
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, "(graph \"\" (input %x (f32 1 1)) (const %k (f32) 1) (%a (add %x %k)) (%b (sub %a %x)) "
                              "(output \"y\" %b))");
    hyp_diag diag = {0};
    hyp_eval_tensor x = matrix(1, 1, (double[]){1 << 26}), out;
    assert_ok(hyp_graph_eval(&g, HYP_EVAL_NATIVE, &x, 1, &out, &diag), &diag);
    assert_true(out.f[0] == 0);
    hyp_eval_tensor_dispose(&out);
    assert_ok(hyp_graph_eval(&g, HYP_EVAL_DOUBLE, &x, 1, &out, &diag), &diag);
    assert_true(out.f[0] == 1);
    hyp_eval_tensor_dispose(&out);
    hyp_eval_tensor_dispose(&x);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
}

static void symbols_are_solved_from_the_inputs(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_graph g = parse(dims, "(graph \"\" (input %x (f32 (+ 1 (* 2 n)) m)) (input %y (f32 n m)) "
                              "(%r (reshape :shape (1 (* n m)) %y)) (output \"r\" %r))");
    hyp_graph unbound = parse(dims, "(graph \"\" (input %x (f32 (* n m) 2)) (output \"x\" %x))");
    hyp_diag diag = {0};
    double zeros[16] = {0};
    hyp_eval_tensor x = matrix(5, 3, zeros), y = matrix(2, 3, zeros), z = matrix(3, 3, zeros),
                    wide = matrix(4, 3, zeros);
    hyp_eval_tensor out = {0};
    assert_ok(hyp_graph_eval(&g, HYP_EVAL_DOUBLE, (hyp_eval_tensor[]){x, y}, 2, &out, &diag), &diag);
    assert_true(out.dims[0] == 1 && out.dims[1] == 6);
    hyp_eval_tensor_dispose(&out);
    assert_int_equal(hyp_graph_eval(&g, HYP_EVAL_DOUBLE, (hyp_eval_tensor[]){x, z}, 2, &out, &diag),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "input 'y': axis 0 has size 3, the graph wants n = 2"));
    assert_int_equal(hyp_graph_eval(&g, HYP_EVAL_DOUBLE, (hyp_eval_tensor[]){wide, y}, 2, &out, &diag),
                     HYP_ERR_INVALID_ARGUMENT); /* 4 = 1 + 2 n has no solution */
    assert_int_equal(hyp_graph_eval(&g, HYP_EVAL_DOUBLE, &x, 1, &out, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_graph_eval(&unbound, HYP_EVAL_DOUBLE, &x, 1, &out, &diag), HYP_ERR_INVALID_ARGUMENT);
    hyp_eval_tensor_dispose(&x);
    hyp_eval_tensor_dispose(&y);
    hyp_eval_tensor_dispose(&z);
    hyp_eval_tensor_dispose(&wide);
    hyp_graph_dispose(&g);
    hyp_graph_dispose(&unbound);
    hyp_dims_destroy(dims);
}

static void what_cannot_run_says_why(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"(graph \"\" (input %x (f32 1 1)) (const %w (f32 2) (hash \"0123456789abcdef\")) (%y (add %x %w)) (output "
         "\"y\" %y))",
         "its hash stands for them"},
        {"(graph \"\" (input %x (f32 1 1)) (const %a (i64) 1) (const %b (i64) 0) (%y (div %a %b)) (output \"y\" %y))",
         "an integer is divided by zero"},
        {"(graph \"\" (input %x (f32 1 1)) (const %i (i64) 1) (%y (gather %x %i)) (output \"y\" %y))",
         "index 1 is outside [-1, 1)"},
        {"(graph \"\" (input %x (f64 1 1)) (output \"y\" %x))", "input 'x' is f32 of rank 2, the graph wants f64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hyp_dims *dims = new_dims();
        hyp_graph g = parse(dims, rows[i][0]);
        hyp_eval_tensor x = matrix(1, 1, (double[]){1}), out;
        hyp_diag diag = {0};
        assert_int_equal(hyp_graph_eval(&g, HYP_EVAL_NATIVE, &x, 1, &out, &diag), HYP_ERR_INVALID_ARGUMENT);
        if (!strstr(diag.message, rows[i][1])) fail_msg("the message is '%s'", diag.message);
        assert_null(out.f);
        hyp_eval_tensor_dispose(&x);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
    }
}

static bool same_elements(const hyp_eval_tensor *a, const hyp_eval_tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->f ? a->f[i] != b->f[i] && !(isnan(a->f[i]) && isnan(b->f[i])) : a->i[i] != b->i[i]) return false;
    return true;
}

static void copies_and_specializations_compute_the_same(void **state)
{
    (void)state;
    rng r = {.state = 11};
    int ran = 0;
    for (int round = 0; round < 150; round++) {
        hyp_dims *dims = new_dims();
        hyp_graph g = random_graph(dims, &r, (int)pick(&r, 1, 10)), graphs[3] = {g};
        int64_t n = pick(&r, 0, 4), m = pick(&r, 0, 4);
        hyp_dim values[2] = {n, m};
        hyp_diag diag = {0};
        hyp_eval_tensor inputs[2], *out[3] = {NULL};
        hyp_status status[3];
        random_inputs(&g, &r, n, m, inputs);
        assert_ok(hyp_graph_copy_live(&g, &graphs[1], &diag), &diag);
        if (hyp_graph_specialize(&g, values, &graphs[2], &diag) == HYP_OK) {
            for (int i = 0; i < 3; i++) {
                out[i] = hyp_calloc(g.outputs.len, sizeof *out[i]);
                assert_non_null(out[i]);
                status[i] = hyp_graph_eval(&graphs[i], HYP_EVAL_NATIVE, inputs, 2, out[i], &diag);
                assert_int_equal(status[i], status[0]); /* a gather may be out of range, an integer divided by 0 */
            }
            for (size_t j = 0; status[0] == HYP_OK && j < g.outputs.len; j++) {
                const hyp_value *v = &graphs[2].values.data[graphs[2].outputs.data[j].value];
                assert_true(same_elements(&out[0][j], &out[1][j]));
                assert_true(same_elements(&out[0][j], &out[2][j]));
                assert_memory_equal(out[0][j].dims, v->type.dims, sizeof v->type.dims);
                for (uint32_t k = 0; k < v->content_count; k++) assert_true(v->content[k] == out[0][j].i[k]);
                ran++;
            }
            hyp_graph_dispose(&graphs[2]);
        }
        for (int i = 0; i < 3 && out[i]; i++) {
            for (size_t j = 0; j < g.outputs.len; j++) hyp_eval_tensor_dispose(&out[i][j]);
            hyp_free(out[i]);
        }
        for (int i = 0; i < 2; i++) hyp_eval_tensor_dispose(&inputs[i]);
        hyp_graph_dispose(&graphs[1]);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
    }
    assert_true(ran > 200);
}

static void fused_operators_equal_their_parts(void **state)
{
    (void)state;
    static const char *const acts[] = {"none",    "relu", "gelu",       "gelu-tanh",
                                       "sigmoid", "tanh", "hard-swish", "quick-gelu"};
    rng r = {.state = 12};
    for (size_t i = 0; i < 64; i++) {
        char text[800];
        const char *first = acts[i / 8], *second = acts[i % 8];
        snprintf(text, sizeof text,
                 "(graph \"\" (input %%x (f32 n 3)) (const %%w (f32 2 3) 0.1 -0.2 0.3 1.1 -1.2 0.7) (const %%b (f32 2) "
                 "0.3 -0.4) "
                 "(const %%v (f32 2 2) 0.9 -0.7 0.3 0.2) "
                 "(%%mlp (fused-mlp :acts (%s %s) %%w %%b %%v none %%x)) "
                 "(%%l1 (linear %%w %%b %%x)) (%%h (%s %%l1)) (%%l2 (linear %%v none %%h)) (%%y (%s %%l2)) "
                 "(%%f (fused-linear :act %s %%w %%b %%x)) "
                 "(output \"mlp\" %%mlp) (output \"y\" %%y) (output \"f\" %%f) (output \"h\" %%h))",
                 first, second, i / 8 ? first : "identity", i % 8 ? second : "identity", first);
        hyp_dims *dims = new_dims();
        hyp_graph g = parse(dims, text);
        hyp_eval_tensor x = matrix(4, 3, (double[12]){0}), out[4];
        hyp_diag diag = {0};
        for (size_t j = 0; j < x.count; j++) x.f[j] = (double)((float)pick(&r, -100, 100) / 7);
        for (int mode = HYP_EVAL_NATIVE; mode <= HYP_EVAL_DOUBLE; mode++) {
            assert_ok(hyp_graph_eval(&g, (hyp_eval_mode)mode, &x, 1, out, &diag), &diag);
            assert_true(same_elements(&out[0], &out[1])); /* to the bit, in both modes */
            assert_true(same_elements(&out[2], &out[3]));
            for (int j = 0; j < 4; j++) hyp_eval_tensor_dispose(&out[j]);
        }
        hyp_eval_tensor_dispose(&x);
        hyp_graph_dispose(&g);
        hyp_dims_destroy(dims);
    }
}

static void tensors_come_and_go_in_their_type(void **state)
{
    (void)state;
    uint16_t half[3] = {0x3c00, 0xc000, 0x7c00}, back[3];
    hyp_tensor view = {.data = half, .bytes = sizeof half, .dtype = HYP_F16, .rank = 1, .dims = {3}};
    hyp_eval_tensor t;
    hyp_diag diag = {0};
    assert_ok(hyp_eval_tensor_load(&t, &view, &diag), &diag);
    assert_true(t.f[0] == 1 && t.f[1] == -2 && isinf(t.f[2]));
    hyp_eval_tensor_store(&t, back);
    assert_memory_equal(half, back, sizeof half);
    hyp_eval_tensor_dispose(&t);
    view.bytes = 5;
    assert_int_equal(hyp_eval_tensor_load(&t, &view, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_eval_tensor_alloc(&t, HYP_F32, 2, (int64_t[]){INT64_MAX, 3}, &diag), HYP_ERR_NO_MEMORY);
    assert_int_equal(hyp_eval_tensor_alloc(&t, HYP_F32, 1, (int64_t[]){-1}, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_eval_tensor_alloc(&t, HYP_F32, 3, (int64_t[]){INT64_MAX, INT64_MAX, 0}, &diag),
                     HYP_ERR_NO_MEMORY);
    assert_ok(hyp_eval_tensor_alloc(&t, HYP_F32, 3, (int64_t[]){1 << 30, 1 << 29, 0}, &diag), &diag);
    assert_int_equal(t.count, 0);
    hyp_eval_tensor_dispose(&t);
}

/* ---- memory ----------------------------------------------------------------------------------------- */

/* Everything at once, with allocation n failing. */
static hyp_status do_everything(const char *text, hyp_diag *diag)
{
    hyp_dims *dims = NULL;
    hyp_graph g = {0}, live = {0}, fixed = {0};
    hyp_strbuf sb = {0};
    hyp_eval_tensor x = {0}, out[3] = {{0}};
    hyp_dim three[1] = {3};
    hyp_status status = hyp_dims_create(&dims, diag);
    if (status == HYP_OK) hyp_graph_init(&g, dims);
    if (status == HYP_OK) status = hyp_graph_parse(&g, "t", text, strlen(text), diag);
    if (status == HYP_OK) status = hyp_graph_verify(&g, diag);
    if (status == HYP_OK) status = hyp_graph_copy_live(&g, &live, diag);
    if (status == HYP_OK) status = hyp_graph_specialize(&g, three, &fixed, diag);
    if (status == HYP_OK) status = hyp_graph_print(&sb, &g, SIZE_MAX, diag);
    if (status == HYP_OK) status = hyp_eval_tensor_alloc(&x, HYP_F32, 2, (int64_t[]){3, 2}, diag);
    for (size_t i = 0; i < x.count; i++) x.f[i] = 1;
    if (status == HYP_OK) status = hyp_graph_eval(&g, HYP_EVAL_NATIVE, &x, 1, out, diag);
    for (int i = 0; i < 3; i++) hyp_eval_tensor_dispose(&out[i]);
    hyp_eval_tensor_dispose(&x);
    hyp_strbuf_dispose(&sb);
    hyp_graph_dispose(&fixed);
    hyp_graph_dispose(&live);
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    return status;
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        hyp_diag diag = {0};
        hyp_mem_fail_after(n);
        hyp_status status = do_everything(mlp, &diag);
        hyp_mem_fail_after(0);
        if (status == HYP_OK) break;
        if (status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, diag.message);
        assert_true(n < 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verifier_sees_every_corruption),
        cmocka_unit_test(the_builder_refuses_what_is_wrong),
        cmocka_unit_test(copying_drops_what_is_dead),
        cmocka_unit_test(borrowed_data_stay_borrowed),
        cmocka_unit_test(specializing_gives_static_types),
        cmocka_unit_test(equality_sees_every_difference),
        cmocka_unit_test(a_graph_gives_values_worked_out_by_hand),
        cmocka_unit_test(any_value_may_be_an_output_and_twice),
        cmocka_unit_test(native_rounds_every_result_and_double_none),
        cmocka_unit_test(symbols_are_solved_from_the_inputs),
        cmocka_unit_test(what_cannot_run_says_why),
        cmocka_unit_test(copies_and_specializations_compute_the_same),
        cmocka_unit_test(fused_operators_equal_their_parts),
        cmocka_unit_test(tensors_come_and_go_in_their_type),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
