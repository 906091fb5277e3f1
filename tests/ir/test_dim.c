/* Symbolic dims against brute-force evaluation. */
#include "ir_test.h"

__extension__ typedef __int128 wide;

enum { SYMBOLS = 3, SAMPLES = 12 };

/* An expression and its values under SAMPLES bindings, computed without the table. */
typedef struct known {
    hyp_dim dim;
    wide value[SAMPLES];
    bool defined[SAMPLES]; /* no division by zero on the way */
} known;

static const int64_t bindings[SAMPLES][SYMBOLS] = {{0, 0, 0}, {1, 1, 1}, {2, 3, 5},  {7, 0, 1},  {1, 8, 0}, {0, 1, 9},
                                                   {4, 4, 4}, {9, 2, 6}, {3, 11, 2}, {12, 5, 7}, {1, 2, 3}, {6, 1, 13}};

static hyp_dim symbol(hyp_dims *dims, const char *name)
{
    hyp_dim d = 0;
    assert_int_equal(hyp_dim_symbol(dims, name, &d, NULL), HYP_OK);
    return d;
}

/* A table whose symbols have the indices that `bindings` has columns for. */
static hyp_dims *table_of_abc(void)
{
    hyp_dims *dims = new_dims();
    symbol(dims, "a"), symbol(dims, "b"), symbol(dims, "c");
    return dims;
}

static wide floor_div(wide a, wide b)
{
    wide q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static known leaf(hyp_dims *dims, rng *r)
{
    static const char *const names[SYMBOLS] = {"a", "b", "c"};
    known k;
    int64_t s = pick(r, 0, 4), constant = pick(r, -4, 6);
    k.dim = s < SYMBOLS ? symbol(dims, names[s]) : constant;
    for (int i = 0; i < SAMPLES; i++) {
        k.value[i] = s < SYMBOLS ? bindings[i][s] : constant;
        k.defined[i] = true;
    }
    return k;
}

/* False when the operation was refused as too large or as a division by the constant 0. */
static bool apply(hyp_dims *dims, int op, const known *x, const known *y, known *out)
{
    typedef hyp_status operation(hyp_dims *, hyp_dim, hyp_dim, hyp_dim *, hyp_diag *);
    static operation *const operations[] = {hyp_dim_add,      hyp_dim_sub, hyp_dim_mul,
                                            hyp_dim_floordiv, hyp_dim_min, hyp_dim_max};
    hyp_status status = operations[op](dims, x->dim, y->dim, &out->dim, NULL);
    if (status != HYP_OK) {
        assert_true(status == HYP_ERR_LIMIT || (status == HYP_ERR_INVALID_ARGUMENT && op == 3 && y->dim == 0));
        return false;
    }
    for (int i = 0; i < SAMPLES; i++) {
        wide a = x->value[i], b = y->value[i];
        out->defined[i] = x->defined[i] && y->defined[i] && (op != 3 || b != 0);
        if (!out->defined[i]) continue;
        out->value[i] = op == 0   ? a + b
                        : op == 1 ? a - b
                        : op == 2 ? a * b
                        : op == 3 ? floor_div(a, b)
                        : op == 4 ? (a < b ? a : b)
                                  : (a > b ? a : b);
        /* keep away from the edge of 128 bits */
        if (out->value[i] > ((wide)1 << 62) || out->value[i] < -((wide)1 << 62)) return false;
    }
    return true;
}

static known grow(hyp_dims *dims, rng *r, int depth)
{
    if (depth == 0 || pick(r, 0, 5) == 0) return leaf(dims, r);
    known x = grow(dims, r, depth - 1), y = grow(dims, r, depth - 1), out;
    return apply(dims, (int)pick(r, 0, 5), &x, &y, &out) ? out : x;
}

static void assert_values(hyp_dims *dims, const known *k)
{
    for (int i = 0; i < SAMPLES; i++) {
        int64_t got = 0;
        hyp_status status = hyp_dim_eval(dims, k->dim, bindings[i], &got, NULL);
        if (!k->defined[i]) continue; /* a division by zero may have been cancelled, or not */
        if (status != HYP_OK || got != (int64_t)k->value[i]) {
            hyp_strbuf sb = {0};
            hyp_dim_print(&sb, dims, k->dim);
            fail_msg("%s is %lld, not %lld, for a=%lld b=%lld c=%lld", sb.data, (long long)got, (long long)k->value[i],
                     (long long)bindings[i][0], (long long)bindings[i][1], (long long)bindings[i][2]);
        }
    }
}

/* Reads the printed text in the same table and in a fresh one. */
static void assert_text_round_trip(hyp_dims *dims, hyp_dim d)
{
    hyp_strbuf sb = {0}, again = {0};
    hyp_arena arena = {0};
    hyp_dims *fresh = new_dims();
    hyp_dim back = 0, other = 0;
    const hyp_sexpr *forms;
    hyp_dim_print(&sb, dims, d);
    assert_int_equal(hyp_sexpr_parse(&arena, "t", sb.data, sb.len, &forms, NULL), HYP_OK);
    assert_int_equal(hyp_dim_parse(dims, "t", forms->items[0], &back, NULL), HYP_OK);
    assert_true(back == d);
    assert_int_equal(hyp_dim_parse(fresh, "t", forms->items[0], &other, NULL), HYP_OK);
    hyp_dim_print(&again, fresh, other);
    assert_string_equal(sb.data, again.data);
    hyp_strbuf_dispose(&sb);
    hyp_strbuf_dispose(&again);
    hyp_arena_dispose(&arena);
    hyp_dims_destroy(fresh);
}

/* Puts the expression together again from its views. */
static hyp_dim rebuild(hyp_dims *dims, hyp_dim d, int depth)
{
    hyp_dim_view v;
    hyp_dim out = 0;
    assert_true(depth < 2000);
    assert_int_equal(hyp_dim_inspect(dims, d, &v, NULL), HYP_OK);
    if (v.kind == HYP_DIM_CONST) return v.value;
    if (v.kind == HYP_DIM_SYMBOL) return symbol(dims, hyp_dims_symbol_name(dims, (size_t)v.value));
    hyp_dim a = rebuild(dims, v.a, depth + 1), b = rebuild(dims, v.b, depth + 1);
    hyp_status status = v.kind == HYP_DIM_ADD        ? hyp_dim_add(dims, a, b, &out, NULL)
                        : v.kind == HYP_DIM_MUL      ? hyp_dim_mul(dims, a, b, &out, NULL)
                        : v.kind == HYP_DIM_FLOORDIV ? hyp_dim_floordiv(dims, a, b, &out, NULL)
                        : v.kind == HYP_DIM_MIN      ? hyp_dim_min(dims, a, b, &out, NULL)
                                                     : hyp_dim_max(dims, a, b, &out, NULL);
    assert_int_equal(status, HYP_OK);
    return out;
}

static void random_expressions_have_their_values(void **state)
{
    (void)state;
    rng r = {.state = 1};
    hyp_dims *dims = table_of_abc();
    for (int round = 0; round < 2000; round++) {
        known k = grow(dims, &r, (int)pick(&r, 1, 5));
        assert_values(dims, &k);
        if (round % 4 == 0) assert_text_round_trip(dims, k.dim);
        assert_true(rebuild(dims, k.dim, 0) == k.dim);
        if (hyp_dim_is_nonneg(dims, k.dim))
            for (int i = 0; i < SAMPLES; i++) assert_true(!k.defined[i] || k.value[i] >= 0);
    }
    hyp_dims_destroy(dims);
}

static void substitution_commutes_with_evaluation(void **state)
{
    (void)state;
    rng r = {.state = 2};
    hyp_dims *dims = table_of_abc();
    for (int round = 0; round < 2000; round++) {
        known k = grow(dims, &r, 4), by[SYMBOLS];
        hyp_dim replacement[SYMBOLS], out = 0;
        for (int i = 0; i < SYMBOLS; i++) {
            do by[i] = leaf(dims, &r);
            while (!hyp_dim_is_nonneg(dims, by[i].dim)); /* symbols are sizes */
            replacement[i] = by[i].dim;
        }
        if (hyp_dim_substitute(dims, k.dim, replacement, &out, NULL) != HYP_OK) continue; /* a division by zero */
        for (int i = 0; i < SAMPLES; i++) {
            int64_t inner[SYMBOLS], want, got;
            for (int j = 0; j < SYMBOLS; j++) inner[j] = (int64_t)by[j].value[i];
            if (hyp_dim_eval(dims, k.dim, inner, &want, NULL) != HYP_OK) continue;
            assert_int_equal(hyp_dim_eval(dims, out, bindings[i], &got, NULL), HYP_OK);
            assert_int_equal(got, want);
        }
    }
    hyp_dims_destroy(dims);
}

static void equal_expressions_are_one_dim(void **state)
{
    (void)state;
    rng r = {.state = 3};
    hyp_dims *dims = new_dims();
    for (int round = 0; round < 500; round++) {
        known x = grow(dims, &r, 3), y = grow(dims, &r, 3), z = grow(dims, &r, 2), s, t, u, v;
        if (!apply(dims, 0, &x, &y, &s) || !apply(dims, 2, &s, &z, &t)) continue; /* (x + y) z = x z + y z */
        if (!apply(dims, 2, &z, &y, &u) || !apply(dims, 2, &x, &z, &v) || !apply(dims, 0, &u, &v, &s)) continue;
        assert_true(s.dim == t.dim);
        hyp_dim back = 0;
        if (z.dim == 0) continue;
        assert_true(hyp_dim_divides(dims, z.dim, t.dim, &back));
        if (hyp_dim_add(dims, x.dim, y.dim, &s.dim, NULL) == HYP_OK) assert_true(back == s.dim);
        assert_int_equal(hyp_dim_floordiv(dims, t.dim, z.dim, &back, NULL), HYP_OK);
        assert_true(back == s.dim);
    }
    hyp_dims_destroy(dims);
}

static void known_forms(void **state)
{
    (void)state;
    static const char *const forms[][2] = {
        {"(+ n 1)", "(+ 1 n)"},
        {"(* n 4 m)", "(* 4 m n)"},
        {"(+ n (* -1 n))", "0"},
        {"(floordiv (* 6 n) 3)", "(* 2 n)"},
        {"(floordiv (+ (* 6 n) 3) 3)", "(+ 1 (* 2 n))"},
        {"(floordiv (+ (* 4 n) 3) 4)", "n"},
        {"(floordiv (* 7 n) 4)", "(+ n (floordiv (* 3 n) 4))"},
        {"(floordiv (* n m) m)", "n"},
        {"(floordiv (+ (* n n) (* n m)) (+ n m))", "n"},
        {"(floordiv (* 2 n) 4)", "(floordiv n 2)"},
        {"(floordiv -7 2)", "-4"},
        {"(min n (+ 2 n))", "n"},
        {"(max 0 (* n m))", "(* m n)"},
        {"(min n m)", "(min m n)"},
        {"(max m n)", "(max m n)"},
        {"(* (+ n 1) (+ n -1))", "(+ -1 (* n n))"},
        {"\"odd name\"", "\"odd name\""},
        {"\"min\"", "\"min\""},
        {"\"n\"", "n"},
    };
    hyp_dims *dims = new_dims();
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        hyp_arena arena = {0};
        const hyp_sexpr *sx;
        hyp_dim d = 0;
        hyp_strbuf sb = {0};
        hyp_diag diag = {0};
        assert_ok(hyp_sexpr_parse(&arena, "t", forms[i][0], strlen(forms[i][0]), &sx, &diag), &diag);
        assert_ok(hyp_dim_parse(dims, "t", sx->items[0], &d, &diag), &diag);
        hyp_dim_print(&sb, dims, d);
        assert_string_equal(hyp_strbuf_text(&sb), forms[i][1]);
        hyp_strbuf_dispose(&sb);
        hyp_arena_dispose(&arena);
    }
    hyp_dims_destroy(dims);
}

static void text_that_is_no_dim_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"1.5",    "()", "(+ 1)", "(floordiv n 0)", "(floordiv 1 2 3)",     "(- 1 2)",
                                        "?x",     "%x", "(* n)", "((+ 1 2))",      "-9223372036854775807", "nan",
                                        "(min n)"};
    hyp_dims *dims = new_dims();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hyp_arena arena = {0};
        const hyp_sexpr *sx;
        hyp_dim d = 77;
        hyp_diag diag = {0};
        assert_int_equal(hyp_sexpr_parse(&arena, "file", texts[i], strlen(texts[i]), &sx, NULL), HYP_OK);
        assert_int_not_equal(hyp_dim_parse(dims, "file", sx->items[0], &d, &diag), HYP_OK);
        assert_ptr_equal(strstr(diag.message, "file:1:"), diag.message);
        assert_int_equal(d, 77);
        hyp_arena_dispose(&arena);
    }
    hyp_dims_destroy(dims);
}

static void overflow_and_growth_are_refused(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_dim d = 0, n = symbol(dims, "n");
    assert_int_equal(hyp_dim_add(dims, INT64_MAX, 1, &d, NULL), HYP_ERR_LIMIT);
    assert_int_equal(hyp_dim_mul(dims, INT64_MAX / 2, 3, &d, NULL), HYP_ERR_LIMIT);
    assert_int_equal(hyp_dim_sub(dims, HYP_DIM_CONST_MIN, 1, &d, NULL), HYP_ERR_LIMIT);
    assert_int_equal(hyp_dim_floordiv(dims, n, 0, &d, NULL), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_dim_mul(dims, n, INT64_MAX, &d, NULL), HYP_OK);
    assert_int_equal(hyp_dim_add(dims, d, n, &d, NULL), HYP_ERR_LIMIT);
    int64_t two[1] = {2}, unbound[1] = {-1}, value;
    assert_int_equal(hyp_dim_eval(dims, d, two, &value, NULL), HYP_ERR_LIMIT);
    assert_int_equal(hyp_dim_eval(dims, n, unbound, &value, NULL), HYP_ERR_INVALID_ARGUMENT);
    /* a sum of ever more symbols, a power, a tower of divisions: each meets its limit */
    hyp_status status = HYP_OK;
    int steps = 0;
    for (d = 0; status == HYP_OK && steps < 10000; steps++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", steps);
        status = hyp_dim_add(dims, d, symbol(dims, name), &d, NULL);
    }
    assert_int_equal(status, HYP_ERR_LIMIT);
    for (d = n, status = HYP_OK, steps = 0; status == HYP_OK && steps < 10000; steps++)
        status = hyp_dim_mul(dims, d, n, &d, NULL);
    assert_int_equal(status, HYP_ERR_LIMIT);
    for (d = n, status = HYP_OK, steps = 0; status == HYP_OK && steps < 10000; steps++) {
        status = hyp_dim_floordiv(dims, d, 3, &d, NULL);
        hyp_dim more;
        if (status == HYP_OK) status = hyp_dim_add(dims, d, n, &more, NULL);
        if (status == HYP_OK) status = hyp_dim_min(dims, d, more, &d, NULL);
        if (status == HYP_OK) status = hyp_dim_add(dims, d, steps, &d, NULL);
    }
    assert_int_equal(status, HYP_ERR_LIMIT);
    hyp_dims_destroy(dims);
}

static void linear_forms_are_seen(void **state)
{
    (void)state;
    hyp_dims *dims = new_dims();
    hyp_dim n = symbol(dims, "n"), m = symbol(dims, "m"), d = 0;
    size_t s = 9;
    int64_t scale = 0, offset = 0;
    assert_true(hyp_dim_is_linear(dims, m, &s, &scale, &offset));
    assert_true(s == 1 && scale == 1 && offset == 0);
    assert_int_equal(hyp_dim_mul(dims, n, 3, &d, NULL), HYP_OK);
    assert_int_equal(hyp_dim_add(dims, d, 5, &d, NULL), HYP_OK);
    assert_true(hyp_dim_is_linear(dims, d, &s, &scale, &offset));
    assert_true(s == 0 && scale == 3 && offset == 5);
    assert_int_equal(hyp_dim_add(dims, d, m, &d, NULL), HYP_OK);
    assert_false(hyp_dim_is_linear(dims, d, &s, &scale, &offset));
    assert_false(hyp_dim_is_linear(dims, 4, &s, &scale, &offset));
    assert_int_equal(hyp_dim_mul(dims, n, n, &d, NULL), HYP_OK);
    assert_false(hyp_dim_is_linear(dims, d, &s, &scale, &offset));
    hyp_dims_destroy(dims);
}

static void allocation_failures_leave_the_table_whole(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        hyp_dims *dims = NULL;
        hyp_dim a = 0, b = 0, d = 0;
        hyp_mem_fail_after(n);
        hyp_status status = hyp_dims_create(&dims, NULL);
        if (status == HYP_OK) status = hyp_dim_symbol(dims, "a", &a, NULL);
        if (status == HYP_OK) status = hyp_dim_symbol(dims, "b", &b, NULL);
        if (status == HYP_OK) status = hyp_dim_mul(dims, a, b, &d, NULL);
        if (status == HYP_OK) status = hyp_dim_floordiv(dims, d, 2, &d, NULL);
        hyp_mem_fail_after(0);
        if (status != HYP_OK) assert_int_equal(status, HYP_ERR_NO_MEMORY);
        hyp_dims_destroy(dims);
        if (status == HYP_OK) break;
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_expressions_have_their_values),
        cmocka_unit_test(substitution_commutes_with_evaluation),
        cmocka_unit_test(equal_expressions_are_one_dim),
        cmocka_unit_test(known_forms),
        cmocka_unit_test(text_that_is_no_dim_is_refused),
        cmocka_unit_test(overflow_and_growth_are_refused),
        cmocka_unit_test(linear_forms_are_seen),
        cmocka_unit_test(allocation_failures_leave_the_table_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
