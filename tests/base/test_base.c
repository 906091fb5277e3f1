#include <fcntl.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/sexpr.h"

static void diag_is_cut_not_overrun(void **state)
{
    (void)state;
    static char big[2 * HYP_DIAG_SIZE];
    memset(big, 'x', sizeof big - 1);
    hyp_diag diag = {0};
    assert_int_equal(hyp_fail(&diag, HYP_ERR_IO, "%s", big), HYP_ERR_IO);
    assert_int_equal(strlen(diag.message), HYP_DIAG_SIZE - 1);
    assert_string_equal(diag.message + HYP_DIAG_SIZE - 4, "...");
    hyp_fail(&diag, HYP_ERR_IO, "inner");
    hyp_diag_prefix(&diag, "file %d", 3);
    assert_string_equal(diag.message, "file 3: inner");
    assert_int_equal(hyp_fail(NULL, HYP_ERR_LIMIT, "no sink"), HYP_ERR_LIMIT);
}

static void arena_keeps_alignment_and_refuses_overflow(void **state)
{
    (void)state;
    hyp_arena arena = {0};
    for (size_t n = 0; n < 200000; n = n * 3 + 1) {
        char *p = hyp_arena_alloc(&arena, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        memset(p, 1, n);
    }
    assert_null(hyp_arena_alloc(&arena, SIZE_MAX - 3));
    assert_null(hyp_arena_zalloc(&arena, SIZE_MAX / 2, 4));
    hyp_arena_dispose(&arena);
}

static void text_ends_where_it_is_no_utf8(void **state)
{
    (void)state;
    static const char good[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z";
    static const char *const bad[] = {"a\xff", "a\xc3", "a\xc3(", "a\xc0\x80", "a\xed\xa0\x80", "a\xf4\x90\x80\x80"};
    assert_int_equal(hyp_text_prefix(good, sizeof good - 1), sizeof good - 1);
    assert_int_equal(hyp_text_prefix("ab\0c", 4), 2);
    assert_int_equal(hyp_text_prefix("", 0), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(hyp_text_prefix(bad[i], strlen(bad[i])), 1);
}

static void intern_ids_follow_first_sight(void **state)
{
    (void)state;
    hyp_intern in = {0};
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 1000; i++) {
            char name[16];
            uint32_t id;
            int n = snprintf(name, sizeof name, "s%u", i);
            assert_int_equal(hyp_intern_add(&in, name, (size_t)n, &id, NULL), HYP_OK);
            assert_int_equal(id, i);
        }
    uint32_t id;
    assert_false(hyp_intern_find(&in, "absent", 6, &id));
    hyp_intern_dispose(&in);
}

static void sexpr_round_trip(void **state)
{
    (void)state;
    static const char text[] = "(a -12 1.5 \"q\\\"\\n\\u00e9\" (b ?x...) ()) ; comment\n sym -inf nan 1e300 + -x 12abc";
    hyp_arena arena = {0};
    const hyp_sexpr *forms, *again;
    hyp_diag diag = {0};
    assert_int_equal(hyp_sexpr_parse(&arena, "t", text, strlen(text), &forms, &diag), HYP_OK);
    assert_int_equal(forms->count, 8);
    assert_int_equal(forms->items[0]->items[1]->integer, -12);
    assert_int_equal(forms->items[5]->kind, HYP_SX_SYMBOL);
    assert_int_equal(forms->items[7]->kind, HYP_SX_SYMBOL);
    assert_string_equal(forms->items[0]->items[3]->text, "q\"\n\xc3\xa9");
    hyp_strbuf a = {0}, b = {0};
    hyp_sexpr_print(&a, forms);
    assert_int_equal(hyp_sexpr_parse(&arena, "t", a.data, a.len, &again, &diag), HYP_OK);
    hyp_sexpr_print(&b, again->items[0]);
    assert_string_equal(hyp_strbuf_text(&a), hyp_strbuf_text(&b));
    hyp_strbuf_dispose(&a);
    hyp_strbuf_dispose(&b);
    hyp_arena_dispose(&arena);
}

static void sexpr_errors_name_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place;
    } cases[] = {
        {"(a\n  (b", "t:2:3: this '(' is never closed"},
        {"a)", "t:1:2: this ')' closes nothing"},
        {"\n \"abc", "t:2:2: this string is not closed"},
        {"\"\\q\"", "t:1:2: unknown escape"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_arena arena = {0};
        const hyp_sexpr *forms;
        hyp_diag diag = {0};
        assert_int_equal(hyp_sexpr_parse(&arena, "t", cases[i].text, strlen(cases[i].text), &forms, &diag),
                         HYP_ERR_MALFORMED);
        assert_memory_equal(diag.message, cases[i].place, strlen(cases[i].place));
        hyp_arena_dispose(&arena);
    }
    char deep[600];
    memset(deep, '(', sizeof deep);
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    assert_int_equal(hyp_sexpr_parse(&arena, "t", deep, sizeof deep, &forms, NULL), HYP_ERR_MALFORMED);
    hyp_arena_dispose(&arena);
}

static void doubles_print_shortest(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } cases[] = {{1, "1.0"}, {0.1, "0.1"}, {1e300, "1e+300"}, {-0.0, "-0.0"}, {INFINITY, "inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_strbuf sb = {0};
        hyp_strbuf_double(&sb, cases[i].v);
        assert_string_equal(hyp_strbuf_text(&sb), cases[i].text);
        hyp_strbuf_dispose(&sb);
    }
}

/* Every half survives the way through float, and rounding agrees with the nearest-even rule stated by
 * search over both neighbours. */
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = hyp_f16_to_f32((uint16_t)h);
        if (!isnan(f)) assert_int_equal(hyp_f32_to_f16(f), h);
        f = hyp_bf16_to_f32((uint16_t)h);
        if (!isnan(f)) assert_int_equal(hyp_f32_to_bf16(f), h);
    }
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double low = (double)hyp_f16_to_f32((uint16_t)h), high = (double)hyp_f16_to_f32((uint16_t)(h + 1));
        uint16_t out;
        hyp_store_f64(HYP_F16, &out, 0, (low + high) / 2);
        assert_int_equal(out, h + (h & 1));
        hyp_store_f64(HYP_F16, &out, 0, nextafter((low + high) / 2, INFINITY));
        assert_int_equal(out, h + 1);
        hyp_store_f64(HYP_F16, &out, 0, nextafter((low + high) / 2, 0));
        assert_int_equal(out, h);
    }
    assert_true(isnan(hyp_f16_to_f32(hyp_f32_to_f16(NAN))));
    assert_true(isnan(hyp_bf16_to_f32(hyp_f32_to_bf16(NAN))));
    assert_int_equal(hyp_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(hyp_f32_to_f16(65519.0f), 0x7bff);
}

/* Every code of f8e4m3 is the number that its fields say, survives the way through float, and what lies between two of
 * them goes to the nearer one, or to the even one. */
static void bytes_of_f8e4m3_round_to_nearest_even_and_saturate(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x7f; code++) {
        uint32_t exponent = code >> 3, fraction = code & 7;
        double value = exponent ? ldexp(8 + fraction, (int)exponent - 10) : ldexp(fraction, -9);
        assert_true((double)hyp_f8e4m3_to_f32((uint8_t)code) == value);
        assert_true((double)hyp_f8e4m3_to_f32((uint8_t)(code | 0x80)) == -value);
        assert_int_equal(hyp_f32_to_f8e4m3((float)value), code);
        assert_int_equal(hyp_f32_to_f8e4m3((float)-value), code | 0x80);
        uint8_t out;
        double next = code < 0x7e ? (double)hyp_f8e4m3_to_f32((uint8_t)(code + 1)) : 1e300;
        uint32_t above = code < 0x7e ? code + 1 : code;
        hyp_store_f64(HYP_F8E4M3, &out, 0, (value + next) / 2);
        assert_int_equal(out, code < 0x7e ? code + (code & 1) : code);
        hyp_store_f64(HYP_F8E4M3, &out, 0, nextafter((value + next) / 2, INFINITY));
        assert_int_equal(out, above);
        hyp_store_f64(HYP_F8E4M3, &out, 0, nextafter((value + next) / 2, 0));
        assert_int_equal(out, code);
    }
    assert_true(isnan(hyp_f8e4m3_to_f32(0x7f)) && isnan(hyp_f8e4m3_to_f32(0xff)));
    assert_int_equal(hyp_f32_to_f8e4m3(NAN) & 0x7f, 0x7f);
    assert_int_equal(hyp_f32_to_f8e4m3(INFINITY), 0x7e);
    assert_int_equal(hyp_f32_to_f8e4m3(-INFINITY), 0xfe);
    assert_int_equal(hyp_f32_to_f8e4m3(1e9f), 0x7e);
    assert_int_equal(hyp_f32_to_f8e4m3(-0.0f), 0x80);
}

/* Reading and printing of floats in a host program that has set a locale with a decimal comma. */
static void floats_ignore_the_locale(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) found = setlocale(LC_ALL, names[i]);
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    hyp_strbuf sb = {0};
    hyp_status status = hyp_sexpr_parse(&arena, "t", "1.5 2,5", 7, &forms, NULL);
    hyp_strbuf_double(&sb, 0.25);
    setlocale(LC_ALL, "C");
    assert_int_equal(status, HYP_OK);
    assert_int_equal(forms->items[0]->kind, HYP_SX_FLOAT);
    assert_true(forms->items[0]->number == 1.5);
    assert_int_equal(forms->items[1]->kind, HYP_SX_SYMBOL);
    assert_string_equal(hyp_strbuf_text(&sb), "0.25");
    hyp_strbuf_dispose(&sb);
    hyp_arena_dispose(&arena);
    if (!found) {
        print_message("skipped: no locale with a decimal comma is installed; the C locale was tested\n");
        skip();
    }
}

static void text_is_shown_without_control_characters(void **state)
{
    (void)state;
    char out[64], small[8];
    assert_int_equal(hyp_visible("a\x1b[1m\n\x7f\xc2\x9b\xff\xc3\xa9", out, sizeof out), 30);
    assert_string_equal(out, "a\\x1b[1m\\x0a\\x7f\\xc2\\x9b\\xff\xc3\xa9");
    assert_int_equal(hyp_visible("abcde\x1bz", small, sizeof small), 10);
    assert_string_equal(small, "abcde"); /* no half of a code, and nothing behind it */
    hyp_diag diag = {0};
    assert_int_equal(hyp_fail(&diag, HYP_ERR_IO, "'%s'\n  line", "x\ny\r"), HYP_ERR_IO);
    assert_string_equal(diag.message, "'x\\x0ay\\x0d'\n  line");
}

static void outfile_replaces_only_on_commit(void **state)
{
    (void)state;
    char path[] = "/tmp/hyp_base_XXXXXX";
    close(mkstemp(path));
    hyp_outfile f;
    hyp_mapping map;
    assert_int_equal(hyp_outfile_open(&f, path, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_write(&f, "hello", 5, NULL), HYP_OK);
    hyp_outfile_abort(&f);
    assert_int_equal(hyp_map_file(path, &map, NULL), HYP_OK);
    assert_int_equal(map.size, 0);
    assert_int_equal(hyp_outfile_open(&f, path, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_write(&f, "hello", 5, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_patch(&f, 0, "J", 1, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_commit(&f, NULL), HYP_OK);
    hyp_outfile_abort(&f);
    assert_int_equal(hyp_map_file(path, &map, NULL), HYP_OK);
    assert_int_equal(map.size, 5);
    assert_memory_equal(map.data, "Jello", 5);
    hyp_unmap(&map);
    unlink(path);
    hyp_diag diag = {0};
    assert_int_equal(hyp_map_file("/tmp", &map, &diag), HYP_ERR_IO);
    assert_non_null(strstr(diag.message, "folder"));
    assert_int_equal(hyp_map_file("/nonexistent/x", &map, &diag), HYP_ERR_IO);
}

static void nearest_name(void **state)
{
    (void)state;
    static const char *const names[] = {"--target", "--precision", "--dim", NULL};
    assert_string_equal(hyp_nearest("--precison", names), "--precision");
    assert_null(hyp_nearest("--completely-other", names));
}

/* Two writers of one path, as two threads are, and what a killed process left, do not meet. */
static void outfile_follows_a_link(void **state)
{
    (void)state;
    char real[] = "/tmp/hypatia-test-XXXXXX", link[64];
    int fd = mkstemp(real);
    assert_true(fd >= 0);
    close(fd);
    snprintf(link, sizeof link, "%s.link", real);
    assert_int_equal(symlink(real, link), 0);
    hyp_outfile f;
    assert_int_equal(hyp_outfile_open(&f, link, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_write(&f, "hello", 5, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_commit(&f, NULL), HYP_OK);
    struct stat st;
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(real, &st), 0);
    assert_int_equal(st.st_size, 5);
    unlink(link);
    unlink(real);
}

static void outfiles_of_one_path_are_apart(void **state)
{
    (void)state;
    char path[] = "/tmp/hyp_base_XXXXXX";
    close(mkstemp(path));
    hyp_outfile first, second;
    hyp_mapping map;
    assert_int_equal(hyp_outfile_open(&first, path, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_open(&second, path, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_write(&first, "first", 5, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_write(&second, "second", 6, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_commit(&second, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_commit(&first, NULL), HYP_OK);
    assert_int_equal(hyp_map_file(path, &map, NULL), HYP_OK);
    assert_int_equal(map.size, 5);
    assert_memory_equal(map.data, "first", 5);
    hyp_unmap(&map);
    unlink(path);
}

static void outfile_writes_into_what_is_no_regular_file(void **state)
{
    (void)state;
    char path[] = "/tmp/hyp_base_XXXXXX", text[8] = {0};
    close(mkstemp(path));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    hyp_outfile f;
    assert_int_equal(hyp_outfile_open(&f, path, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_write(&f, "hello", 5, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_commit(&f, NULL), HYP_OK);
    assert_int_equal(read(reader, text, sizeof text), 5);
    assert_string_equal(text, "hello");
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    close(reader);
    unlink(path);
}

static void outfile_writes_into_a_file_without_a_name(void **state)
{
    (void)state;
    char path[] = "/tmp/hyp_base_XXXXXX", link[32];
    int fd = mkstemp(path);
    unlink(path);
    snprintf(link, sizeof link, "/dev/fd/%d", fd);
    hyp_outfile f;
    hyp_mapping map;
    assert_int_equal(hyp_outfile_open(&f, link, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_write(&f, "hello", 5, NULL), HYP_OK);
    assert_int_equal(hyp_outfile_commit(&f, NULL), HYP_OK);
    assert_int_equal(hyp_map_file(link, &map, NULL), HYP_OK);
    assert_int_equal(map.size, 5);
    assert_memory_equal(map.data, "hello", 5);
    hyp_unmap(&map);
    close(fd);
}

/* Whether the mapping that has this address asks for huge pages, by /proc/self/smaps. */
static bool asks_for_huge_pages(const void *p)
{
    char line[512];
    bool inside = false, asks = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) inside = from <= (uintptr_t)p && (uintptr_t)p < to;
        if (inside && strncmp(line, "VmFlags:", 8) == 0) asks = strstr(line, " hg") != NULL;
    }
    if (f) fclose(f);
    return asks;
}

/* Large blocks, as packed weights are, ask for huge pages and begin at one; small ones do not. */
static void large_blocks_ask_for_huge_pages(void **state)
{
    (void)state;
    enum { HUGE = 1 << 21 };
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0) {
        print_message("skipped: the kernel has no huge pages that a program can ask for\n");
        skip();
    }
#ifdef HYP_SMALL_SIZES
    print_message("skipped: large blocks are malloc's here\n");
    skip();
#endif
    char *known = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(known != MAP_FAILED);
    bool told = madvise(known, HUGE, MADV_HUGEPAGE) == 0 && asks_for_huge_pages(known);
    munmap(known, HUGE);
    if (!told) {
        print_message("skipped: the system, an emulated one, say, does not tell of huge pages that are asked for\n");
        skip();
    }
    char *large = hyp_aligned_alloc(64, 3 * (size_t)HUGE + 5), *small = hyp_aligned_alloc(64, 4096);
    assert_true(large && small && (uintptr_t)large % HUGE == 0);
    large[0] = large[3 * (size_t)HUGE + 4] = 1;
    assert_true(asks_for_huge_pages(large));
    assert_false(asks_for_huge_pages(small));
    hyp_aligned_free(large);
    hyp_aligned_free(small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diag_is_cut_not_overrun),
        cmocka_unit_test(arena_keeps_alignment_and_refuses_overflow),
        cmocka_unit_test(text_ends_where_it_is_no_utf8),
        cmocka_unit_test(intern_ids_follow_first_sight),
        cmocka_unit_test(sexpr_round_trip),
        cmocka_unit_test(sexpr_errors_name_the_place),
        cmocka_unit_test(doubles_print_shortest),
        cmocka_unit_test(floats_ignore_the_locale),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(bytes_of_f8e4m3_round_to_nearest_even_and_saturate),
        cmocka_unit_test(text_is_shown_without_control_characters),
        cmocka_unit_test(outfile_replaces_only_on_commit),
        cmocka_unit_test(outfile_follows_a_link),
        cmocka_unit_test(outfiles_of_one_path_are_apart),
        cmocka_unit_test(outfile_writes_into_what_is_no_regular_file),
        cmocka_unit_test(outfile_writes_into_a_file_without_a_name),
        cmocka_unit_test(nearest_name),
        cmocka_unit_test(large_blocks_ask_for_huge_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
