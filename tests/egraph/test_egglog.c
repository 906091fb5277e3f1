/* The database of egglog programs through its C interface: what comes back, what is refused and why, limits, primitives in
 * C, and that no text, no limit and no failing allocation does harm. The programs of egglog/ run in
 * tests/tools/test_egglog.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "hypatia/egglog.h"

static hyp_diag said_wrong; /* by the last call */
#define wrong (&said_wrong)
#define must(call)                                                                                                          \
    do {                                                                                                                    \
        if ((call) != HYP_OK) fail_msg("%s: %s", #call, said_wrong.message);                                                \
    } while (0)

static char said[65536];
static size_t said_len;

static void collect(const char *text, size_t len, void *user)
{
    (void)user;
    if (said_len + len >= sizeof said) len = sizeof said - 1 - said_len;
    memcpy(said + said_len, text, len);
    said[said_len += len] = 0;
}

static hyp_egglog *open_with(hyp_egglog_options options)
{
    hyp_egglog *db;
    options.size = sizeof options;
    options.write = collect;
    said[said_len = 0] = 0;
    must(hyp_egglog_create(&options, &db, wrong));
    return db;
}

static hyp_status run(hyp_egglog *db, const char *text) { return hyp_egglog_run(db, "t.egg", text, strlen(text), wrong); }

/* A program in a database of its own. */
static hyp_status run_alone(const char *text)
{
    hyp_egglog *db = open_with((hyp_egglog_options){.no_files = true});
    hyp_status status = run(db, text);
    hyp_egglog_destroy(db);
    return status;
}

#define MATH "(datatype Math (Num i64) (Add Math Math) (Mul Math Math))"

static void mistakes_are_refused_by_place_and_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        hyp_status status;
    } cases[] = {
        {MATH "(Add (Num 1))", "t.egg:1:58: Add takes 2 arguments, and gets 1", HYP_ERR_MALFORMED},
        {MATH "(Add (Num 1) 2)", "this is of sort i64, and Math is wanted", HYP_ERR_MALFORMED},
        {MATH "(Adt (Num 1) (Num 2))", "no function or primitive Adt; did you mean Add?", HYP_ERR_MALFORMED},
        {MATH "(union 1 2)", "values of sort i64 cannot be united", HYP_ERR_MALFORMED},
        {MATH "(rewrite (Add a b) (Add a c))", "c is not bound in this rewrite", HYP_ERR_MALFORMED},
        {MATH "(rewrite 1 2)", "the left side of a rewrite is a term", HYP_ERR_MALFORMED},
        {MATH "(rule ((Num x) (< y x)) ())", "nothing binds the variable y", HYP_ERR_MALFORMED},
        {MATH "(rule ((Num x) (= z (+ y 1))) ())", "nothing binds the variable y", HYP_ERR_MALFORMED},
        {MATH "(rule ((= e (Num x))) ((set (Num 1) e)))", "Num is a constructor, whose value cannot be set",
         HYP_ERR_MALFORMED},
        {"(relation r (i64)) (set (r 1) ())", "r is a relation, whose value cannot be set", HYP_ERR_MALFORMED},
        {"(function f (i64) i64 :no-merge) (rule ((f x)) ((set (f 2) (f x))))", "a right side cannot look up",
         HYP_ERR_MALFORMED},
        {"(function f (i64) i64)", "either :merge EXPRESSION or :no-merge", HYP_ERR_MALFORMED},
        {"(function f (i64) i64 :merge (max old newer))", "newer is not bound in :merge", HYP_ERR_MALFORMED},
        {"(function f () i64 :no-merge) (set (f) 1) (set (f) 2)", "two values for one key: 1 and 2", HYP_ERR_MISMATCH},
        {"(function f () i64 :no-merge) (check (= (f) 1))", "this does not hold: (check (= (f) 1))", HYP_ERR_MISMATCH},
        {"(check (= (+ 1 \"a\") 2))", "no primitive is (+ i64 String)", HYP_ERR_MALFORMED},
        {"(extract (/ 1 0))", "(/ 1 0) has no value", HYP_ERR_MISMATCH},
        {"(extract (+ 9223372036854775807 1))", "has no value", HYP_ERR_MISMATCH},
        {"(extract 9223372036854775808)", "does not fit into an i64", HYP_ERR_MALFORMED},
        {"(sort S (MultiSet i64))", "sorts of MultiSet are not read", HYP_ERR_UNSUPPORTED},
        {"(relation r (BigInt))", "the sort BigInt is not read", HYP_ERR_UNSUPPORTED},
        {"(relation r (i46))", "there is no sort i46; did you mean i64?", HYP_ERR_MALFORMED},
        {"(fail (extract (bigint 1)))", "the primitive bigint is not read", HYP_ERR_UNSUPPORTED},
        {"(fail (check (= 1 1)))", "the command did not fail", HYP_ERR_MISMATCH},
        {"(prove (= 1 1))", "the command prove is not read", HYP_ERR_UNSUPPORTED},
        {"(sort V (Vec i64)) (sort W (Vec f64)) (let x (vec-empty))", "not known which primitive", HYP_ERR_MALFORMED},
        {"(relation r (i64)) (rule ((r x)) ((panic \"no\"))) (r 1) (run 1)", "t.egg:1:56: panic: no", HYP_ERR_MISMATCH},
        {"(pop)", "(pop) without a (push)", HYP_ERR_MALFORMED},
        {"(include \"x.egg\")", "may not read files", HYP_ERR_UNSUPPORTED},
        {"(run nowhere 3)", "there is no ruleset nowhere", HYP_ERR_MALFORMED},
        {"(let a 1) (let a 2)", "a is declared already", HYP_ERR_MALFORMED},
        {"(check", "t.egg:1:1", HYP_ERR_MALFORMED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_status status = run_alone(cases[i].text);
        if (status != cases[i].status || !strstr(said_wrong.message, cases[i].message))
            fail_msg("%s: %s: %s", cases[i].text, hyp_status_name(status), said_wrong.message);
    }
}

/* Matches are found once, whichever of their rows is new, and iterations see what was there when they began. */
static void a_search_sees_what_was_there_and_each_match_once(void **state)
{
    (void)state;
    hyp_egglog *db = open_with((hyp_egglog_options){0});
    hyp_egglog_report report = {.size = sizeof report};
    size_t size;
    must(run(db, "(relation e (i64 i64)) (relation two (i64 i64 i64)) (rule ((e x y) (e y z)) ((two x y z)))"
                 "(e 1 2) (e 2 3) (run 5)"));
    must(hyp_egglog_last_run(db, &report, wrong));
    assert_int_equal(report.matches, 1);
    assert_int_equal(report.iterations, 2);
    must(run(db, "(e 3 4) (e 0 1) (e 4 4) (run 5)")); /* 234 012 344 444 */
    must(hyp_egglog_last_run(db, &report, wrong));
    assert_int_equal(report.matches, 4);
    must(hyp_egglog_size(db, "two", &size, wrong));
    assert_int_equal(size, 5);
    must(run(db, "(relation n (i64)) (rule ((n x) (< x 10)) ((n (+ x 1)))) (n 0) (run 1)"));
    must(hyp_egglog_size(db, "n", &size, wrong));
    assert_int_equal(size, 2);
    must(run(db, "(run 3)"));
    must(hyp_egglog_size(db, "n", &size, wrong));
    assert_int_equal(size, 5);
    assert_int_equal(hyp_egglog_size(db, "absent", &size, wrong), HYP_ERR_INVALID_ARGUMENT);
    hyp_egglog_destroy(db);
}

static void pop_goes_back_in_everything(void **state)
{
    (void)state;
    hyp_egglog *db = open_with((hyp_egglog_options){0});
    must(run(db, MATH "(relation r (Math)) (rule ((r x)) ((r (Add x x)))) (r (Num 1)) (run 1)"));
    for (int i = 0; i < 3; i++) {
        must(run(db, "(push) (datatype Other (O Math)) (relation s (Other)) (s (O (Num 7))) (rule ((s o)) ((r (Num 9))))"
                     "(let g (Num 5)) (union (Num 1) (Num 5)) (run 2) (check (r (Num 9)) (= (Num 1) g)) (pop)"));
        assert_int_equal(run(db, "(check (= (Num 1) (Num 5)))"), HYP_ERR_MISMATCH);
        assert_int_equal(run(db, "(s 1)"), HYP_ERR_MALFORMED);
        must(run(db, "(fail (check (r (Num 9)))) (print-size r)"));
    }
    assert_string_equal(said, "2\n2\n2\n");
    hyp_egglog_destroy(db);
}

/* ---- primitives in C, rows -------------------------------------------------------------------------------------- */

static bool digits(const hyp_egglog_value *args, size_t count, hyp_egglog_value *out, void *user)
{
    (void)count;
    ++*(int *)user;
    if (args[0].as.i64 < 0) return false;
    *out = (hyp_egglog_value){.kind = HYP_EGGLOG_I64, .as.i64 = snprintf(NULL, 0, "%lld", (long long)args[0].as.i64)};
    return true;
}

static bool longer(const hyp_egglog_value *args, size_t count, hyp_egglog_value *out, void *user)
{
    (void)count, (void)user;
    *out = args[strlen(args[1].as.string) > strlen(args[0].as.string)];
    return true;
}

static bool wrong_kind(const hyp_egglog_value *args, size_t count, hyp_egglog_value *out, void *user)
{
    (void)args, (void)count, (void)user;
    *out = (hyp_egglog_value){.kind = HYP_EGGLOG_STRING, .as.string = NULL};
    return true;
}

static hyp_status see_row(const hyp_egglog_value *columns, size_t count, bool subsumed, void *user, hyp_diag *out)
{
    (void)out;
    char *to = user;
    assert_int_equal(count, 2);
    sprintf(to + strlen(to), "%lld=%s%s ", (long long)columns[0].as.i64, columns[1].as.string, subsumed ? "!" : "");
    return HYP_OK;
}

static void primitives_of_c_compute_compare_and_merge(void **state)
{
    (void)state;
    static const char *const i64[] = {"i64"}, *const two[] = {"String", "String"}, *const bad[] = {"Math"};
    hyp_egglog *db = open_with((hyp_egglog_options){0});
    int calls = 0;
    char rows[256] = "";
    must(hyp_egglog_register(db, "digits", i64, 1, "i64", digits, &calls, wrong));
    must(hyp_egglog_register(db, "longer", two, 2, "String", longer, NULL, wrong));
    must(hyp_egglog_register(db, "wrong", i64, 1, "i64", wrong_kind, NULL, wrong));
    assert_int_equal(hyp_egglog_register(db, "x", bad, 1, "i64", digits, NULL, wrong), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egglog_register(db, "x", i64, 9, "i64", digits, NULL, wrong), HYP_ERR_INVALID_ARGUMENT);
    must(run(db, "(relation n (i64)) (function name (i64) String :merge (longer old new)) (n 5) (n 123) (n -7)"
                 "(rule ((n x) (= d (digits x)) (> d 1)) ((set (name d) \"many\")))"
                 "(rule ((n x) (= 1 (digits x))) ((set (name 1) \"one\") (set (name 1) \"single\")))"
                 "(run 3) (set (name 3) \"few\")"));
    assert_true(calls >= 5);
    must(hyp_egglog_rows(db, "name", see_row, rows, wrong));
    assert_string_equal(rows, "3=many 1=single ");
    assert_int_equal(run(db, "(extract (digits -1))"), HYP_ERR_MISMATCH);
    assert_int_equal(run(db, "(extract (wrong 1))"), HYP_ERR_INVALID_ARGUMENT);
    must(run(db, "(extract (digits 1000))"));
    assert_string_equal(said, "4\n");
    hyp_egglog_destroy(db);
}

/* ---- limits and harm --------------------------------------------------------------------------------------------- */

static void limits_end_what_would_not_end(void **state)
{
    (void)state;
    static const char endless[] = "(relation n (i64)) (rule ((n x)) ((n (+ x 1)))) (n 0) (run-schedule (saturate (run)))";
    static const char wide[] =
        "(relation n (i64)) (rule ((n x) (n y)) ((n (+ x y)) (n (+ (* 1000 x) y)))) (n 1) (n 2) (run 100)";
    size_t size;
    hyp_egglog *db = open_with((hyp_egglog_options){.max_rows = 1000});
    assert_int_equal(run(db, endless), HYP_ERR_LIMIT);
    must(hyp_egglog_size(db, "n", &size, wrong));
    assert_true(size > 1000 && size < 10000);
    hyp_egglog_destroy(db);
    db = open_with((hyp_egglog_options){.max_bytes = 1 << 20});
    assert_int_equal(run(db, wide), HYP_ERR_LIMIT);
    assert_non_null(strstr(said_wrong.message, "1048576"));
    must(run(db, "(check (n 3))"));
    hyp_egglog_destroy(db);
    db = open_with((hyp_egglog_options){.max_seconds = 0.05});
    assert_int_equal(run(db, endless), HYP_ERR_LIMIT);
    hyp_egglog_destroy(db);
    db = open_with((hyp_egglog_options){0});
    hyp_egglog_cancel(db);
    assert_int_equal(run(db, endless), HYP_ERR_CANCELLED);
    must(run(db, "(relation m (i64)) (m 1)")); /* the request is spent */
    hyp_egglog_destroy(db);
}

static const char everything[] =
    MATH "(sort Ms (Vec Math)) (sort Names (Map String Math)) (relation r (Math i64)) (constructor Group (Ms) Math :cost 3)"
         "(function f (Math) i64 :merge (max old new)) (function g (i64) Math :merge (Add old new))"
         "(ruleset s) (rewrite (Add a b) (Add b a)) (birewrite (Mul a (Add b c)) (Add (Mul a b) (Mul a c)) :ruleset s)"
         "(rule ((= e (Add (Num x) (Num y))) (!= x y)) ((union e (Num (+ x y))) (set (f e) (+ x y)) (r e x)))"
         "(rule ((r e x) (= v (f e)) (< x 3)) ((delete (r e x)) (set (g x) e) (subsume (Add e e))))"
         "(let a (Add (Num 1) (Num 2))) (let v (vec-of a (Num 3))) (Group v) (set (g 2) (Mul a a)) (r a 2)"
         "(let m (map-insert (map-empty) \"k\" a)) (run 2) (push) (union (Num 1) (Num 7)) (run s 2) (pop)"
         "(run-schedule (repeat 2 (saturate s) (run))) (check (= a (Num 3)) (= (map-get m \"k\") a)) (extract a 3)"
         "(extract (Group v)) (print-size) (print-function f 5) (fail (check (= a (Num 4)))) (print-size)";

/* Whatever allocation fails, the status says so, and nothing leaks or breaks (under the sanitizers). */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    uint64_t before = hyp_mem_count();
    must(run_alone(everything));
    uint64_t count = hyp_mem_count() - before;
    assert_true(count > 200);
    for (uint64_t n = 1; n <= count; n += n < 300 ? 1 : 7) {
        hyp_egglog *db = NULL;
        hyp_egglog_options options = {.size = sizeof options, .write = collect};
        said_len = 0;
        hyp_mem_fail_after(n);
        hyp_status status = hyp_egglog_create(&options, &db, wrong);
        if (status == HYP_OK) status = run(db, everything);
        hyp_mem_fail_after(0);
        if (status != HYP_ERR_NO_MEMORY && status != HYP_ERR_LIMIT)
            fail_msg("allocation %llu: %s: %s", (unsigned long long)n, hyp_status_name(status), said_wrong.message);
        if (db && run(db, "(relation late (i64)) (late 1) (check (late 1))") == HYP_ERR_INTERNAL)
            fail_msg("%s", said_wrong.message);
        hyp_egglog_destroy(db);
    }
}

/* Programs with tokens put out, doubled and exchanged: any answer is right, but one must come. */
static void spoilt_programs_do_no_harm(void **state)
{
    (void)state;
    const char *runs = getenv("HYPATIA_EGGLOG_FUZZ");
    unsigned long long rounds = runs ? strtoull(runs, NULL, 10) : 3000, seed = 88172645463325252ull;
    size_t len = sizeof everything - 1;
    char *text = malloc(2 * len + 64);
    for (unsigned long long round = 0; round < rounds; round++) {
        size_t n = len;
        memcpy(text, everything, len);
        for (int change = 0; change < 1 + (int)(round % 4); change++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            size_t at = seed % n, from = (seed >> 20) % n, size = 1 + (seed >> 40) % 12;
            if (at + size > n || from + size > n || n + size > 2 * len) continue;
            if (seed >> 60 < 6) /* exchanged */
                memmove(text + at, text + from, size);
            else if (seed >> 60 < 11) { /* out */
                memmove(text + at, text + at + size, n - at - size);
                n -= size;
            } else { /* doubled */
                memmove(text + at + size, text + at, n - at);
                n += size;
            }
        }
        hyp_egglog *db =
            open_with((hyp_egglog_options){.no_files = true, .max_rows = 3000, .max_bytes = 4 << 20, .max_seconds = 2});
        hyp_status status = hyp_egglog_run(db, "t.egg", text, n, wrong);
        if (status == HYP_ERR_INTERNAL) fail_msg("%.*s: %s", (int)n, text, said_wrong.message);
        hyp_egglog_destroy(db);
    }
    free(text);
}

static void wrong_calls_are_told(void **state)
{
    (void)state;
    hyp_egglog *db;
    hyp_egglog_options no_size = {0};
    hyp_egglog_report report = {0};
    assert_int_equal(hyp_egglog_create(NULL, NULL, wrong), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egglog_create(&no_size, &db, wrong), HYP_ERR_INVALID_ARGUMENT);
    must(hyp_egglog_create(NULL, &db, wrong));
    assert_int_equal(hyp_egglog_run(db, NULL, "", 0, wrong), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egglog_run(NULL, "f", "", 0, wrong), HYP_ERR_INVALID_ARGUMENT);
    must(hyp_egglog_run(db, "f", NULL, 0, wrong));
    assert_int_equal(hyp_egglog_run(db, "f", "(check (= 1 2))", 15, NULL), HYP_ERR_MISMATCH);
    assert_int_equal(hyp_egglog_last_run(db, &report, wrong), HYP_ERR_INVALID_ARGUMENT);
    assert_int_equal(hyp_egglog_rows(db, "none", see_row, NULL, wrong), HYP_ERR_INVALID_ARGUMENT);
    hyp_egglog_destroy(db);
    hyp_egglog_destroy(NULL);
    hyp_egglog_cancel(NULL);
}

/* One class is united with another one many times, each time the older or the younger of the two: its rows, facts about
 * it, values that are named, and what rules say of it follow. */
static void a_class_that_much_uses_is_united_often(void **state)
{
    (void)state;
    enum { MANY = 90 };
    char text[160];
    for (int backwards = 0; backwards < 2; backwards++) {
        hyp_egglog *db = open_with((hyp_egglog_options){.no_files = true});
        must(run(db, "(datatype E (N i64) (A E E) (P E E)) (relation seen (E)) (relation pair (E i64))"
                     "(function least (E) i64 :merge (min old new))"
                     "(rule ((= x (A y z))) ((seen x))) (rule ((= x (P y y))) ((seen x)))"));
        for (int i = 0; i < MANY; i++) {
            snprintf(text, sizeof text, "(N %d) (set (least (N %d)) %d) (pair (N %d) %d)", i, i, i, i, i % 7);
            must(run(db, text));
        }
        int hub = backwards ? MANY - 1 : 0;
        snprintf(text, sizeof text, "(let $hub (N %d))", hub);
        must(run(db, text));
        for (int i = 0; i < MANY; i++) {
            snprintf(text, sizeof text, "(A $hub (N %d)) (P (N %d) (N %d))", i, i, hub);
            must(run(db, text));
        }
        must(run(db, "(run 1)"));
        for (int i = 1; i < MANY; i++) {
            int a = backwards ? MANY - i : i - 1, b = backwards ? MANY - i - 1 : i;
            snprintf(text, sizeof text, "(union (N %d) (N %d)) (run 1) (check (= $hub (N %d)) (seen (P $hub $hub)))", a, b,
                     b);
            must(run(db, text));
            snprintf(text, sizeof text, "(check (= (least $hub) %d))", backwards ? b : 0);
            must(run(db, text));
        }
        said[said_len = 0] = 0;
        must(run(db, "(print-size N) (print-size A) (print-size P) (print-size least) (print-size pair)"
                     "(extract (A $hub $hub))"));
        assert_string_equal(said, backwards ? "90\n1\n1\n1\n7\n(A (N 89) (N 89))\n"
                                            : "90\n1\n1\n1\n7\n(A (N 0) (N 0))\n");
        hyp_egglog_destroy(db);
    }
}

/* A :merge may use a value by its name, and a constructor, while what the name stands for is being united. */
static void merges_use_what_is_being_united(void **state)
{
    (void)state;
    assert_int_equal(run_alone("(datatype E (N i64) (P E E)) (N 0) (N 1) (N 5) (let $g (N 7))"
                               "(function f (E) E :merge (P new $g))"
                               "(set (f (N 1)) (N 5)) (set (f (N 5)) (N 5)) (set (f (N 0)) (N 1))"
                               "(union (N 7) (N 0)) (union (N 1) (N 0)) (run 1)"
                               "(check (P (N 5) (N 0)))"
                               "(check (= $g (N 0)) (= (N 0) (N 7)))"),
                     HYP_OK);
}

/* A value that is set again and again between others that are not. */
static void one_value_changes_among_many(void **state)
{
    (void)state;
    hyp_egglog *db = open_with((hyp_egglog_options){.no_files = true});
    must(run(db, "(function f (i64) i64 :merge (max old new)) (relation q (i64)) (relation o (i64)) (q 3)"
                 "(rule ((q x) (= v (f x)) (< v 700)) ((set (f x) (+ v 1))))"
                 "(rule ((= v (f y)) (q y) (> v 650)) ((o v)))"));
    for (int i = 0; i < 1500; i++) {
        char text[40];
        snprintf(text, sizeof text, "(set (f %d) 1)", i);
        must(run(db, text));
    }
    must(run(db, "(run 1000) (check (= (f 3) 700)) (check (= (f 4) 1)) (print-size f) (print-size o)"));
    assert_string_equal(said, "1500\n50\n");
    hyp_egglog_destroy(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_refused_by_place_and_name),
        cmocka_unit_test(a_search_sees_what_was_there_and_each_match_once),
        cmocka_unit_test(pop_goes_back_in_everything),
        cmocka_unit_test(primitives_of_c_compute_compare_and_merge),
        cmocka_unit_test(limits_end_what_would_not_end),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(spoilt_programs_do_no_harm),
        cmocka_unit_test(wrong_calls_are_told),
        cmocka_unit_test(a_class_that_much_uses_is_united_often),
        cmocka_unit_test(merges_use_what_is_being_united),
        cmocka_unit_test(one_value_changes_among_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
