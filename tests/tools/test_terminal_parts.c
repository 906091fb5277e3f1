/* Text cut to columns, tables, durations, and verdicts about times that no clock has measured. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tools/paired.h"
#include "../../tools/table.h"
#include "../../tools/terminal.h"

/* ---- columns ---------------------------------------------------------------------------------------------- */

static void characters_take_the_columns_that_they_take(void **state)
{
    (void)state;
    assert_int_equal(terminal_columns(""), 0);
    assert_int_equal(terminal_columns("layer0/Relu"), 11);
    assert_int_equal(terminal_columns("größe"), 5);
    assert_int_equal(terminal_columns("层归一化"), 8);      /* wide */
    assert_int_equal(terminal_columns("e\xcc\x81te\xcc\x81"), 3); /* accents that combine */
    assert_int_equal(terminal_columns("a\xff\xfe"), 3);   /* no UTF-8 */
    assert_int_equal(terminal_columns("\xe5\xb1"), 2);    /* a character that ends too early */
}

static void assert_cut(const char *text, size_t columns, const char *wanted)
{
    char *cut = terminal_cut(text, columns);
    assert_string_equal(cut, wanted);
    free(cut);
}

static void texts_lose_their_middle(void **state)
{
    (void)state;
    assert_cut("abcdefghij", 0, "abcdefghij");
    assert_cut("abcdefghij", 10, "abcdefghij");
    assert_cut("abcdefghij", 9, "abc...hij");
    assert_cut("abcdefghij", 8, "abc...ij");
    assert_cut("abcdefghij", 4, "a...");
    assert_cut("abcdefghij", 3, "...");
    assert_cut("abcdefghij", 1, ".");
    assert_cut("层归一化标准", 12, "层归一化标准");
    assert_cut("层归一化标准", 11, "层归...标准");
    assert_cut("层归一化标准", 10, "层归...准"); /* half a character is none */
    assert_cut("ee\xcc\x81xxxxxxe\xcc\x81" "ab", 8, "ee\xcc\x81x...ab"); /* an accent goes with its letter */
    assert_cut("abcdefghe\xcc\x81", 4, "a...");
}

static void whatever_is_cut_fits(void **state)
{
    (void)state;
    static const char *const parts[] = {"a", "é", "层", "e\xcc\x81", "\xff", "🙂", "-"};
    uint32_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        char text[256] = "";
        for (int i = 0; i < 40; i++) {
            seed = seed * 1664525u + 1013904223u;
            if (seed >> 30 == 0) break;
            strcat(text, parts[(seed >> 16) % 7]);
        }
        size_t all = terminal_columns(text);
        for (size_t columns = 1; columns < 60; columns++) {
            char *cut = terminal_cut(text, columns);
            size_t found = terminal_columns(cut);
            assert_true(found <= columns && (all > columns || strcmp(cut, text) == 0));
            if (all > columns) assert_true(found + 2 >= columns || columns < 3); /* two halves of wide characters */
            free(cut);
        }
    }
}

static void times_that_are_left(void **state)
{
    char text[32];
    (void)state;
    assert_string_equal(terminal_duration(0.4, text), "0:00");
    assert_string_equal(terminal_duration(65.2, text), "1:05");
    assert_string_equal(terminal_duration(7210, text), "2:00:10");
    assert_string_equal(terminal_duration(-3, text), "0:00");
    assert_string_equal(terminal_duration(NAN, text), "0:00");
    assert_string_equal(terminal_duration(INFINITY, text), "0:00");
}

/* ---- colours ---------------------------------------------------------------------------------------------- */

static void colours_are_asked_for_by_one_of_three_words(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(terminal_choose_color("always"));
    assert_string_equal(terminal_begin(file, TERMINAL_ERROR), "\033[1;31m");
    assert_false(terminal_choose_color("sometimes"));
    assert_string_equal(terminal_begin(file, TERMINAL_PLAIN), "\033[0m"); /* as it was */
    assert_true(terminal_choose_color("never"));
    assert_string_equal(terminal_begin(file, TERMINAL_ERROR), "");
    assert_true(terminal_choose_color("auto"));
    unsetenv("NO_COLOR");
    unsetenv("CLICOLOR_FORCE");
    assert_string_equal(terminal_begin(file, TERMINAL_ERROR), "");
    setenv("CLICOLOR_FORCE", "1", 1);
    assert_string_equal(terminal_begin(file, TERMINAL_ERROR), "\033[1;31m");
    setenv("CLICOLOR_FORCE", "0", 1);
    assert_string_equal(terminal_begin(file, TERMINAL_ERROR), "");
    setenv("CLICOLOR_FORCE", "1", 1);
    setenv("NO_COLOR", "1", 1);
    assert_string_equal(terminal_begin(file, TERMINAL_ERROR), "");
    setenv("NO_COLOR", "", 1); /* empty is not set */
    assert_string_equal(terminal_begin(file, TERMINAL_ERROR), "\033[1;31m");
    unsetenv("CLICOLOR_FORCE");
    fclose(file);
}

/* ---- tables ----------------------------------------------------------------------------------------------- */

static void tables_that_are_for_no_terminal_are_whole(void **state)
{
    (void)state;
    static const table_column columns[] = {{"name", .shrinks = true}, {"n", .right = true}, {"last", .spare = 1}};
    table t = {.columns = columns, .column_count = 3};
    const char *names[] = {"a", "层归一化", "a name that is as long as names of models often are, and longer than a line has room for it"};
    for (int i = 0; i < 3; i++) {
        table_add(&t, "%s", names[i]);
        table_add(&t, "%d", 7 * i * i * i);
        table_add(&t, "%s", i ? "x\ty" : "");
        if (i == 1) table_note(&t, "  below\nit");
    }
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    table_print(to, &t, true);
    fclose(to);
    char wanted[1024];
    int wide = (int)strlen(names[2]);
    snprintf(wanted, sizeof wanted, "%-*s   n  last\n%-*s   0  \n层归一化%*s   7  x\\x09y\n  below\nit\n%s  56  x\\x09y\n", wide, "name", wide, "a",
             wide - 8, "", names[2]);
    assert_string_equal(text, wanted);
    free(text);
}

/* ---- verdicts --------------------------------------------------------------------------------------------- */

/* The depression scale factors of Hollander and Wolfe, table 3.1: the shift is -0.46. */
static void the_estimate_is_that_of_the_textbook(void **state)
{
    (void)state;
    static const double x[] = {1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30},
                        y[] = {0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29};
    double a[9], b[9];
    for (int i = 0; i < 9; i++) {
        a[i] = exp(x[i]);
        b[i] = exp(y[i]);
    }
    assert_true(fabs(log(paired_compare(a, b, 9).estimate) + 0.46) < 1e-9);
    assert_true(fabs(log(paired_compare(b, a, 9).estimate) - 0.46) < 1e-9);
}

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*seed >> 11) + 0.5) / 9007199254740992.0;
}

/* A time with 2 % of noise and, of a machine that does other things, now and then twice as much. */
static double noisy(double middle, uint64_t *seed)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform(seed);
    return middle * exp(0.02 * sum) * (uniform(seed) < 0.1 ? 2 : 1);
}

static void verdicts(size_t rounds, double ratio, int counts[3], double *worst)
{
    uint64_t seed = 3;
    *worst = 0;
    memset(counts, 0, 3 * sizeof *counts);
    for (int trial = 0; trial < 1000; trial++) {
        double a[PAIRED_MOST], b[PAIRED_MOST];
        for (size_t i = 0; i < rounds; i++) {
            double drift = 1 + 0.5 * (double)i / (double)rounds; /* the machine gets slower */
            a[i] = noisy(drift, &seed);
            b[i] = noisy(ratio * drift, &seed);
        }
        paired_ratio r = paired_compare(a, b, rounds);
        assert_true(r.low <= r.estimate && r.estimate <= r.high);
        counts[r.verdict + 1]++;
        *worst = fmax(*worst, fabs(log(r.estimate / ratio)));
    }
}

static void the_same_is_not_called_faster(void **state)
{
    static const size_t rounds[] = {PAIRED_FEWEST, 40, PAIRED_MOST};
    int counts[3];
    double worst;
    (void)state;
    for (int i = 0; i < 3; i++) {
        verdicts(rounds[i], 1, counts, &worst);
        assert_true(counts[0] + counts[2] <= 20); /* 10 in the mean */
    }
}

static void what_is_faster_is_found(void **state)
{
    int counts[3];
    double worst;
    (void)state;
    verdicts(40, 0.95, counts, &worst);
    assert_true(counts[0] > 850 && counts[2] == 0 && worst < 0.05);
    verdicts(40, 1 / 0.9, counts, &worst);
    assert_true(counts[2] > 850 && counts[0] == 0 && worst < 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_take_the_columns_that_they_take),
        cmocka_unit_test(texts_lose_their_middle),
        cmocka_unit_test(whatever_is_cut_fits),
        cmocka_unit_test(times_that_are_left),
        cmocka_unit_test(colours_are_asked_for_by_one_of_three_words),
        cmocka_unit_test(tables_that_are_for_no_terminal_are_whole),
        cmocka_unit_test(the_estimate_is_that_of_the_textbook),
        cmocka_unit_test(the_same_is_not_called_faster),
        cmocka_unit_test(what_is_faster_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
