/* The user's cache: what is put into it comes out of it, whole and for its text alone; nothing is taken from where
 * another user can have put it, and the folder does not grow without end. */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/core/user_cache.h"

static char folder[64];

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/hypatia-cache-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    setenv("HYPATIA_CACHE", folder, 1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* "" where nothing is kept under the text. */
static const char *kept(const char *text)
{
    static char out[256];
    uint8_t *data;
    size_t bytes;
    hyp_diag diag = {0};
    assert_int_equal(hyp_user_cache_get(text, &data, &bytes, &diag), HYP_OK);
    assert_true(bytes < sizeof out);
    snprintf(out, sizeof out, "%.*s", (int)bytes, data ? (const char *)data : "");
    hyp_free(data);
    return out;
}

static void put(const char *text, const char *data) { hyp_user_cache_put(text, (const uint8_t *)data, strlen(data)); }

/* Runs a command of the shell in the folder; its first line. */
static const char *shell(const char *command)
{
    static char line[256];
    char all[512];
    snprintf(all, sizeof all, "cd %s && %s", folder, command);
    FILE *from = popen(all, "r");
    assert_non_null(from);
    if (!fgets(line, sizeof line, from)) *line = 0;
    line[strcspn(line, "\n")] = 0;
    pclose(from);
    return line;
}

static void what_is_put_comes_out_for_its_text_alone(void **state)
{
    (void)state;
    assert_string_equal(kept("a"), "");
    put("a", "first");
    put("b", "second");
    assert_string_equal(kept("a"), "first");
    assert_string_equal(kept("b"), "second");
    assert_string_equal(kept("c"), "");
    put("a", "third");
    assert_string_equal(kept("a"), "third");
    put("empty", "");
    assert_string_equal(kept("empty"), "");
    assert_string_equal(shell("stat -c %a *.entry | sort -u"), "600");
    assert_string_equal(shell("ls | grep -cv entry$"), "0"); /* no drafts are left */
    assert_string_equal(shell("f=$(grep -l second *.entry); for g in *.entry; do cp $f x && mv x $g; done"), "");
    assert_string_equal(kept("a"), ""); /* whose name has the text of b now */
    assert_string_equal(kept("b"), "second");
}

static void what_is_damaged_is_not_there(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "truncate -s -1 *.entry",
        "truncate -s 20 *.entry",
        "truncate -s 0 *.entry",
        "printf x >> $(ls *.entry)",
        "printf x | dd of=$(ls *.entry) bs=1 seek=0 conv=notrunc 2> /dev/null",
        "printf x | dd of=$(ls *.entry) bs=1 seek=16 conv=notrunc 2> /dev/null",
        "printf '\\377\\377\\377\\377\\377\\377\\377\\377' | dd of=$(ls *.entry) bs=1 seek=16 conv=notrunc 2> "
        "/dev/null",
        "printf '\\377\\377\\377\\377\\377\\377\\377\\377' | dd of=$(ls *.entry) bs=1 seek=24 conv=notrunc 2> "
        "/dev/null",
        "printf x | dd of=$(ls *.entry) bs=1 seek=40 conv=notrunc 2> /dev/null",
        "printf x | dd of=$(ls *.entry) bs=1 seek=46 conv=notrunc 2> /dev/null",
        "f=$(ls *.entry); rm $f; mkdir $f",
        "f=$(ls *.entry); rmdir $f; mkfifo $f",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (i + 1 < sizeof commands / sizeof *commands) {
            put("text", "data of it");
            assert_string_equal(kept("text"), "data of it");
        }
        shell(commands[i]);
        if (*kept("text")) fail_msg("%s: %s", commands[i], kept("text"));
    }
}

static void nothing_is_taken_from_where_others_may_write(void **state)
{
    (void)state;
    put("text", "data");
    shell("chmod g+w *.entry");
    assert_string_equal(kept("text"), "");
    shell("chmod g-w,o+w *.entry");
    assert_string_equal(kept("text"), "");
    shell("chmod o-w *.entry");
    assert_string_equal(kept("text"), "data");
    shell("f=$(ls *.entry) && mv $f elsewhere && ln -s elsewhere $f");
    assert_string_equal(kept("text"), "");
    shell("f=$(ls *.entry) && rm $f && mv elsewhere $f");
    assert_string_equal(kept("text"), "data");
    chmod(folder, 0777);
    assert_string_equal(kept("text"), "");
    put("more", "data");
    chmod(folder, 0720);
    assert_string_equal(kept("text"), "");
    put("more", "data");
    chmod(folder, 0700);
    assert_string_equal(kept("text"), "data");
    assert_string_equal(kept("more"), "");
    if (geteuid() != 0) return;
    /* Of another user, who may be anybody. */
    assert_int_equal(chown(folder, 12345, 0), 0);
    assert_string_equal(kept("text"), "");
    assert_int_equal(chown(folder, 0, 0), 0);
    shell("chown 12345 *.entry");
    assert_string_equal(kept("text"), "");
}

static void folders_are_made_where_they_are_looked_for(void **state)
{
    (void)state;
    char inside[96], home[96];
    snprintf(inside, sizeof inside, "%s/some/where", folder);
    setenv("HYPATIA_CACHE", inside, 1);
    assert_string_equal(kept("text"), "");
    assert_int_equal(access(inside, F_OK), -1); /* looking makes none */
    put("text", "there");
    assert_string_equal(kept("text"), "there");
    assert_string_equal(shell("stat -c %a some some/where | sort -u"), "700");

    setenv("HYPATIA_CACHE", "none", 1);
    assert_string_equal(kept("text"), "");
    put("text", "nowhere");

    snprintf(home, sizeof home, "%s/home", folder);
    unsetenv("HYPATIA_CACHE");
    setenv("HOME", home, 1);
    unsetenv("XDG_CACHE_HOME");
    put("text", "at home");
    assert_string_equal(shell("ls home/.cache/hypatia | wc -l"), "1");
    snprintf(inside, sizeof inside, "%s/xdg", folder);
    setenv("XDG_CACHE_HOME", inside, 1);
    assert_string_equal(kept("text"), "");
    put("text", "of xdg");
    assert_string_equal(shell("ls xdg/hypatia | wc -l"), "1");
    setenv("XDG_CACHE_HOME", "relative", 1); /* the specification has them ignored */
    assert_string_equal(kept("text"), "at home");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_string_equal(kept("text"), "");
    put("text", "nowhere");
    setenv("HYPATIA_CACHE", folder, 1);
}

/* Large entries; the folder's limit is some tens of them. */
static void what_was_used_longest_ago_goes_first(void **state)
{
    (void)state;
    enum { LARGE = HYP_USER_CACHE_ENTRY - 4096, FIT = HYP_USER_CACHE_MOST / LARGE };
    char text[16], command[96];
    uint8_t *data = calloc(LARGE + 8192, 1);
    hyp_user_cache_put("too large", data, LARGE + 8192);
    assert_string_equal(shell("ls | wc -l"), "0");
    for (int i = 0; i < FIT; i++) {
        snprintf(text, sizeof text, "%d", i);
        hyp_user_cache_put(text, data, LARGE);
        snprintf(command, sizeof command, "touch -d '2000-01-01 00:00:%02d' $(ls -t *.entry | head -1)", i);
        shell(command);
    }
    uint8_t *got;
    size_t bytes;
    hyp_diag diag = {0};
    assert_int_equal(hyp_user_cache_get("0", &got, &bytes, &diag), HYP_OK); /* used now */
    assert_int_equal(bytes, LARGE);
    hyp_free(got);
    hyp_user_cache_put("one more", data, LARGE);
    snprintf(command, sizeof command, "%d", FIT);
    assert_string_equal(shell("ls | wc -l"), command);
    assert_int_equal(hyp_user_cache_get("1", &got, &bytes, &diag), HYP_OK);
    assert_null(got);
    assert_int_equal(hyp_user_cache_get("0", &got, &bytes, &diag), HYP_OK);
    assert_non_null(got);
    hyp_free(got);
    free(data);
}

static void without_memory_it_is_an_error(void **state)
{
    (void)state;
    put("text", "data");
    uint8_t *data;
    size_t bytes;
    hyp_diag diag = {0};
    hyp_mem_fail_after(1);
    assert_int_equal(hyp_user_cache_get("text", &data, &bytes, &diag), HYP_ERR_NO_MEMORY);
    hyp_mem_fail_after(0);
    assert_null(data);
    assert_string_equal(kept("text"), "data");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_put_comes_out_for_its_text_alone, begin, end),
        cmocka_unit_test_setup_teardown(what_is_damaged_is_not_there, begin, end),
        cmocka_unit_test_setup_teardown(nothing_is_taken_from_where_others_may_write, begin, end),
        cmocka_unit_test_setup_teardown(folders_are_made_where_they_are_looked_for, begin, end),
        cmocka_unit_test_setup_teardown(what_was_used_longest_ago_goes_first, begin, end),
        cmocka_unit_test_setup_teardown(without_memory_it_is_an_error, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
