/* What hypatia train is made of, without a plan: the order of rows, learning rates, files of tensors, folders of
 * checkpoints, the picture of the losses. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../tools/checkpoints.h"
#include "../../tools/curve.h"
#include "../../tools/safetensors.h"
#include "../../tools/schedule.h"
#include "../../tools/shuffle.h"

static char folder[] = "/tmp/hyp-train-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[2][160];
    static int next;
    char *p = path[next++ % 2];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* ---- the order of rows ----------------------------------------------------------------------------------------- */

static void the_order_follows_from_seed_and_epoch(void **state)
{
    (void)state;
    /* By the definition of shuffle.h, computed elsewhere. */
    static const uint64_t wanted[3][10] = {
        {6, 4, 1, 7, 8, 0, 9, 2, 3, 5}, {1, 5, 8, 0, 6, 3, 7, 9, 4, 2}, {4, 0, 2, 3, 1, 9, 6, 8, 5, 7}};
    static const uint64_t seeds[3] = {0, 0, 5}, epochs[3] = {0, 1, 0};
    for (int k = 0; k < 3; k++) {
        uint64_t order[10];
        shuffle_rows(order, 10, seeds[k], epochs[k]);
        assert_memory_equal(order, wanted[k], sizeof order);
    }
    shuffle_rows(NULL, 0, 1, 1);
}

static void every_order_is_a_permutation_and_none_is_preferred(void **state)
{
    (void)state;
    enum { ROWS = 6, TIMES = 6000 };
    int64_t at[ROWS][ROWS] = {{0}};
    for (uint64_t epoch = 0; epoch < TIMES; epoch++) {
        uint64_t order[ROWS], seen = 0;
        shuffle_rows(order, ROWS, 3, epoch);
        for (int i = 0; i < ROWS; i++) {
            assert_true(order[i] < ROWS);
            seen |= (uint64_t)1 << order[i];
            at[i][order[i]]++;
        }
        assert_int_equal(seen, (1 << ROWS) - 1);
    }
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < ROWS; k++) /* 1000 each, 29 deviation */
            assert_in_range(at[i][k], 1000 - 150, 1000 + 150);
}

/* ---- learning rates -------------------------------------------------------------------------------------------- */

static void near(double a, double b) { assert_true(fabs(a - b) <= 1e-15 + 1e-12 * fabs(b)); }

static schedule parsed(const char *text)
{
    schedule s = {.rate = 0.5, .total = 100};
    if (!schedule_parse(&s, text)) fail_msg("%s", text);
    return s;
}

static void rates_are_functions_of_the_step(void **state)
{
    (void)state;
    schedule s = parsed("constant");
    near(schedule_rate(&s, 0), 0.5);
    near(schedule_rate(&s, 1000), 0.5);
    s.warmup = 4;
    near(schedule_rate(&s, 0), 0.1);
    near(schedule_rate(&s, 3), 0.4);
    near(schedule_rate(&s, 4), 0.5);
    s = parsed("step:10:0.5");
    near(schedule_rate(&s, 9), 0.5);
    near(schedule_rate(&s, 10), 0.25);
    near(schedule_rate(&s, 29), 0.125);
    s = parsed("cosine");
    near(schedule_rate(&s, 0), 0.5);
    near(schedule_rate(&s, 50), 0.25);
    near(schedule_rate(&s, 75), 0.25 * (1 - sqrt(0.5)));
    near(schedule_rate(&s, 100), 0);
    s = parsed("cosine:0.1");
    s.warmup = 20;
    near(schedule_rate(&s, 20), 0.5);
    near(schedule_rate(&s, 60), 0.3);
    near(schedule_rate(&s, 1000), 0.1);
    s = parsed("linear:0.1");
    near(schedule_rate(&s, 25), 0.4);
    near(schedule_rate(&s, 100), 0.1);
    s.warmup = 200; /* longer than all */
    near(schedule_rate(&s, 99), 0.5 * 100 / 201);
    near(schedule_rate(&s, 300), 0.1);
}

static void what_is_no_schedule_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",         "cos",       "constant:1", "step",      "step:",      "step:0:1",  "step:5",
        "step:5:x", "step:5:-1", "cosine:",    "cosine:-1", "linear:nan", "cosine:inf"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        schedule s = {0};
        if (schedule_parse(&s, wrong[i])) fail_msg("%s", wrong[i]);
    }
    char a[160], b[160];
    schedule s = parsed("step:5:0.1"), t = parsed("step:5:0.2");
    schedule_print(&s, a, sizeof a);
    schedule_print(&t, b, sizeof b);
    assert_string_not_equal(a, b);
}

/* ---- files of tensors ------------------------------------------------------------------------------------------ */

static float weights[6] = {1, -2, 3, 4, 5, -0.0f};
static int64_t steps = 41;
static uint8_t byte = 7;
static hyp_tensor *some_tensors(void)
{
    static hyp_tensor t[3];
    t[0] = (hyp_tensor){.name = "w \"\n\xc3\xa4",
                        .data = weights,
                        .bytes = sizeof weights,
                        .dtype = HYP_F32,
                        .rank = 2,
                        .dims = {2, 3}};
    t[1] = (hyp_tensor){.name = "flag", .data = &byte, .bytes = 1, .dtype = HYP_U8, .rank = 1, .dims = {1}};
    t[2] = (hyp_tensor){.name = ":step", .data = &steps, .bytes = 8, .dtype = HYP_I64};
    return t;
}

static void write_tensors(const char *name)
{
    static const safetensors_meta meta[] = {{"a", "1"}, {"b", "two"}};
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && safetensors_write(fd, some_tensors(), 3, meta, 2));
    close(fd);
}

static size_t read_file(const char *name, uint8_t *out, size_t room)
{
    FILE *f = fopen(path_of(name), "rb");
    assert_non_null(f);
    size_t n = fread(out, 1, room, f);
    fclose(f);
    return n;
}

static void write_bytes(const char *name, const void *data, size_t size)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

static void tensors_come_back(void **state)
{
    (void)state;
    uint8_t file[1024];
    safetensors s;
    write_tensors("t.safetensors");
    size_t size = read_file("t.safetensors", file, sizeof file);
    assert_int_equal(file[0] % 8, 0); /* so elements are aligned */
    assert_int_equal(size, 8 + file[0] + 256u * file[1] + 8 + sizeof weights + 1);
    assert_int_equal(safetensors_open(&s, path_of("t.safetensors"), "test"), CLI_OK);
    assert_int_equal(s.count, 3);
    assert_string_equal(safetensors_text(&s, "b"), "two");
    assert_null(safetensors_text(&s, "c"));
    assert_int_equal(s.offsets[0], 0);
    assert_string_equal(s.tensors[0].name, ":step"); /* of the largest elements */
    assert_string_equal(s.tensors[1].name, some_tensors()[0].name);
    assert_true(s.tensors[1].rank == 2 && s.tensors[1].dims[1] == 3 && s.tensors[1].dtype == HYP_F32);
    float back[6];
    hyp_tensor t = {.data = back, .bytes = sizeof back};
    assert_int_equal(safetensors_read(&s, 1, &t, "test"), CLI_OK);
    assert_memory_equal(back, weights, sizeof weights);
    safetensors_close(&s);
    safetensors_close(&s);
}

/* A file with this header and so many bytes behind it. */
static int open_header(const char *header, size_t data)
{
    uint8_t file[2048] = {0};
    size_t len = strlen(header);
    safetensors s;
    file[0] = (uint8_t)len;
    file[1] = (uint8_t)(len >> 8);
    memcpy(file + 8, header, len);
    write_bytes("h.safetensors", file, 8 + len + data);
    int code = safetensors_open(&s, path_of("h.safetensors"), "test");
    if (code == CLI_OK) safetensors_close(&s);
    return code;
}

static void other_headers_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "[]",
        " {}",
        "{",
        "null",
        "{\"a\":1}",
        "{} {}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
        "offsets\":[1,3]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
        "offsets\":[2,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_"
        "offsets\":[4,4]}}",
        "{\"__metadata__\":{\"a\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"__metadata__\":7,\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"\\u0000\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
    };
    assert_int_equal(open_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}  ", 4), CLI_OK);
    assert_int_equal(
        open_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[0,5],\"data_offsets\":[4,4]},\"b\":{\"dtype\":\"U8\","
                    "\"shape\":[4],\"data_offsets\":[0,4]}}",
                    4),
        CLI_OK);
    assert_int_equal(open_header("{}", 0), CLI_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (open_header(wrong[i], 4) == CLI_OK) fail_msg("%s", wrong[i]);
    char deep[1500];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    deep[sizeof deep - 1] = 0;
    assert_int_equal(open_header(deep, 4), CLI_FAILED);
}

static void any_bytes_are_a_file_or_refused(void **state)
{
    (void)state;
    uint8_t file[1024];
    safetensors s;
    write_tensors("t.safetensors");
    size_t size = read_file("t.safetensors", file, sizeof file), opened = 0;
    for (size_t i = 0; i < 4 * size; i++) {
        uint8_t changed[1025];
        memcpy(changed, file, size);
        size_t len = i < size ? i : size;
        const uint8_t flipped = i < 2 * size ? 0xff : i < 3 * size ? 1 : 0x20;
        if (i >= size) changed[i % size] ^= flipped;
        write_bytes("m.safetensors", changed, len);
        if (safetensors_open(&s, path_of("m.safetensors"), "test") != CLI_OK) continue;
        opened++;
        for (size_t k = 0; k < s.count; k++) assert_true(s.tensors[k].bytes <= sizeof weights);
        safetensors_close(&s);
    }
    assert_in_range(opened, 1, 3 * size); /* elements and names may be anything, but nothing may be missing */
    file[size] = 0;
    write_bytes("m.safetensors", file, size + 1);
    assert_int_equal(safetensors_open(&s, path_of("m.safetensors"), "test"), CLI_FAILED);
    memset(file, 0xff, 8);
    write_bytes("m.safetensors", file, size);
    assert_int_equal(safetensors_open(&s, path_of("m.safetensors"), "test"), CLI_FAILED);
    assert_int_equal(safetensors_open(&s, folder, "test"), CLI_FAILED);
    assert_int_equal(safetensors_open(&s, path_of("absent"), "test"), CLI_FAILED);
}

/* ---- folders of checkpoints ------------------------------------------------------------------------------------ */

static train_state state_of(int64_t step)
{
    train_state s = {.model_hash = 0xfedcba9876543210,
                     .step = step,
                     .epoch = 2,
                     .position = 30,
                     .rows = 100,
                     .batch = 8,
                     .seed = 0x8000000000000001,
                     .loss_sum = 0.1 + 0.2,
                     .best = INFINITY,
                     .schedule = "constant"};
    return s;
}

static bool is_there(const char *name)
{
    struct stat st;
    char path[200];
    snprintf(path, sizeof path, "%s/ck/%s", folder, name);
    return stat(path, &st) == 0;
}

static void remove_checkpoints(void)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s/ck", folder);
    assert_int_equal(system(command), 0);
}

static void the_last_and_the_best_are_kept(void **state)
{
    (void)state;
    checkpoints c;
    assert_int_equal(checkpoints_open(&c, path_of("ck"), 2, "test"), CLI_OK);
    for (int64_t step = 5; step <= 25; step += 5) {
        train_state s = state_of(step);
        weights[0] = (float)step;
        assert_int_equal(checkpoints_save(&c, &s, some_tensors(), 3, step == 10), CLI_OK);
    }
    assert_true(!is_there("step-00000005.safetensors") && !is_there("step-00000010.safetensors"));
    assert_true(!is_there("step-00000015.safetensors") && is_there("step-00000020.safetensors"));
    assert_true(is_there("step-00000025.safetensors") && is_there("best.safetensors") && !is_there("checkpoint.tmp"));
    safetensors best;
    assert_int_equal(safetensors_open(&best, path_of("ck/best.safetensors"), "test"), CLI_OK);
    assert_string_equal(safetensors_text(&best, "step"), "10");
    safetensors_close(&best);

    train_state s = {.model_hash = 0xfedcba9876543210};
    bool found;
    weights[0] = 0;
    assert_int_equal(checkpoints_restore(&c, &s, some_tensors(), 3, &found), CLI_OK);
    train_state wanted = state_of(25);
    assert_true(found && weights[0] == 25 && s.step == 25 && s.epoch == 2 && s.position == 30 && s.rows == 100);
    assert_true(s.batch == 8 && s.seed == wanted.seed && s.loss_sum == wanted.loss_sum && isinf(s.best) && s.best > 0);

    /* the same again is best as well: both names are of one file */
    assert_int_equal(checkpoints_save(&c, &wanted, some_tensors(), 3, true), CLI_OK);
    assert_int_equal(checkpoints_save(&c, &wanted, some_tensors(), 3, true), CLI_OK);
    assert_true(is_there("best.safetensors") && !is_there("checkpoint.tmp") && c.count == 2);
    checkpoints_close(&c);

    /* a process that was killed when the draft was named best, and had not its own name yet */
    assert_int_equal(link(path_of("ck/best.safetensors"), path_of("ck/checkpoint.tmp")), 0);
    assert_int_equal(checkpoints_open(&c, path_of("ck"), 2, "test"), CLI_OK);
    assert_int_equal(safetensors_open(&best, path_of("ck/best.safetensors"), "test"), CLI_OK);
    safetensors_close(&best);
    assert_int_equal(link(path_of("ck/best.safetensors"), path_of("ck/checkpoint.tmp")), 0);
    train_state next = state_of(30);
    assert_int_equal(checkpoints_save(&c, &next, some_tensors(), 3, false), CLI_OK);
    assert_int_equal(safetensors_open(&best, path_of("ck/best.safetensors"), "test"), CLI_OK);
    assert_string_equal(safetensors_text(&best, "step"), "25");
    safetensors_close(&best);
    checkpoints_close(&c);
    remove_checkpoints();
}

static void a_damaged_one_gives_way_to_the_one_before(void **state)
{
    (void)state;
    checkpoints c;
    bool found;
    assert_int_equal(checkpoints_open(&c, path_of("ck"), 3, "test"), CLI_OK);
    train_state s = {.model_hash = 0xfedcba9876543210};
    assert_int_equal(checkpoints_restore(&c, &s, some_tensors(), 3, &found), CLI_OK);
    assert_false(found);
    for (int64_t step = 1; step <= 3; step++) {
        train_state at = state_of(step);
        assert_int_equal(checkpoints_save(&c, &at, some_tensors(), 3, false), CLI_OK);
    }
    assert_int_equal(truncate(path_of("ck/step-00000003.safetensors"), 100), 0);
    assert_int_equal(checkpoints_restore(&c, &s, some_tensors(), 3, &found), CLI_OK);
    assert_true(found && s.step == 2);
    assert_int_equal(rename(path_of("ck/step-00000002.safetensors"), path_of("ck/step-00000003.safetensors")), 0);
    assert_int_equal(checkpoints_restore(&c, &s, some_tensors(), 3, &found), CLI_OK); /* one that is of another step */
    assert_true(found && s.step == 1);
    s.model_hash = 1;
    assert_int_equal(checkpoints_restore(&c, &s, some_tensors(), 3, &found), CLI_USAGE);
    s.model_hash = 0xfedcba9876543210;
    assert_int_equal(checkpoints_restore(&c, &s, some_tensors(), 2, &found), CLI_USAGE);
    hyp_tensor *others = some_tensors();
    others[0].dims[0] = 3, others[0].dims[1] = 2;
    assert_int_equal(checkpoints_restore(&c, &s, others, 3, &found), CLI_USAGE);
    others = some_tensors();
    others[1].name = "flags";
    assert_int_equal(checkpoints_restore(&c, &s, others, 3, &found), CLI_USAGE);
    assert_int_equal(truncate(path_of("ck/step-00000001.safetensors"), 0), 0);
    assert_int_equal(checkpoints_restore(&c, &s, some_tensors(), 3, &found), CLI_FAILED);
    checkpoints_close(&c);
    remove_checkpoints();
}

static void a_folder_has_one_writer_and_may_go(void **state)
{
    (void)state;
    checkpoints c, other;
    train_state s = state_of(7);
    assert_int_equal(checkpoints_open(&c, path_of("ck"), 3, "test"), CLI_OK);
    assert_int_equal(checkpoints_open(&other, path_of("ck"), 3, "test"), CLI_FAILED);
    checkpoints_close(&other);
    remove_checkpoints();
    assert_int_equal(checkpoints_save(&c, &s, some_tensors(), 3, true), CLI_OK);
    assert_true(is_there("step-00000007.safetensors") && is_there("best.safetensors"));
    remove_checkpoints();
    write_bytes("ck", "", 0); /* a file in its place */
    assert_int_equal(checkpoints_save(&c, &s, some_tensors(), 3, true), CLI_FAILED);
    setenv("TMPDIR", folder, 1);
    assert_int_equal(checkpoints_rescue(&c, &s, some_tensors(), 3), CLI_OK);
    setenv("TMPDIR", path_of("absent"), 1);
    assert_int_equal(checkpoints_rescue(&c, &s, some_tensors(), 3), CLI_FAILED);
    checkpoints_close(&c);
    assert_int_equal(checkpoints_open(&c, path_of("ck"), 3, "test"), CLI_FAILED);
    checkpoints_close(&c);
    assert_int_equal(checkpoints_open(&c, path_of("absent/ck"), 3, "test"), CLI_FAILED);
    checkpoints_close(&c);
    remove_checkpoints();
}

/* ---- the picture ------------------------------------------------------------------------------------------------ */

static char *drawn(const curve *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    curve_draw(c, f);
    fclose(f);
    return text;
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, part)); p++) n++;
    return n;
}

static void the_curve_takes_any_number_of_steps(void **state)
{
    (void)state;
    static curve c;
    c = (curve){0};
    char *text = drawn(&c); /* of nothing */
    assert_true(strstr(text, "</svg>") && !strstr(text, "nan") && !strstr(text, "inf"));
    free(text);
    for (int64_t i = 0; i < 5000; i++) curve_add_step(&c, i, i == 17 ? NAN : 1 + 1 / (1.0 + (double)i));
    assert_int_equal(c.width, 8);
    int64_t all = 0;
    for (int i = 0; i < CURVE_MEANS; i++) all += c.counts[i];
    assert_int_equal(all, 4999);
    assert_true(fabs(c.sums[1] / 8 -
                     (8 + 1 / 9. + 1 / 10. + 1 / 11. + 1 / 12. + 1 / 13. + 1 / 14. + 1 / 15. + 1 / 16.) / 8) < 1e-12);
    curve_epoch e = {5000, 1.5, NAN};
    curve_add_epoch(&c, &e);
    text = drawn(&c);
    assert_true(strstr(text, "validation loss") && !strstr(text, "accuracy"));
    assert_int_equal(count_of(text, "<circle"), 1);
    free(text);
    e = (curve_epoch){6000, NAN, 0.5};
    curve_add_epoch(&c, &e);
    curve_add_step(&c, INT64_MAX / 2, 1e-9); /* a logarithmic scale */
    text = drawn(&c);
    assert_true(strstr(text, "validation accuracy") && strstr(text, ">1e-09<") && !strstr(text, "nan"));
    free(text);
    curve_free(&c);
    curve_add_step(&c, 0, 0); /* one point, of 0 */
    text = drawn(&c);
    assert_true(!strstr(text, "nan") && !strstr(text, "inf"));
    free(text);
    curve_free(&c);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_follows_from_seed_and_epoch),
        cmocka_unit_test(every_order_is_a_permutation_and_none_is_preferred),
        cmocka_unit_test(rates_are_functions_of_the_step),
        cmocka_unit_test(what_is_no_schedule_is_refused),
        cmocka_unit_test(tensors_come_back),
        cmocka_unit_test(other_headers_are_refused),
        cmocka_unit_test(any_bytes_are_a_file_or_refused),
        cmocka_unit_test(the_last_and_the_best_are_kept),
        cmocka_unit_test(a_damaged_one_gives_way_to_the_one_before),
        cmocka_unit_test(a_folder_has_one_writer_and_may_go),
        cmocka_unit_test(the_curve_takes_any_number_of_steps),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
