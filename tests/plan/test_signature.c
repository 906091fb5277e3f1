/* What signatures promise: a plan that is required to be signed opens just as it was signed, by that key, and whatever
 * is wrong with keys, plans or libsodium is an error and leaves files as they were. The keys are those of RFC 8032,
 * section 7.1.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "hypatia/signature.h"
#include "sample_plan.h"

enum { TRAILER = 120, SIGNATURE_FROM_END = 72 };

/* Private keys of tests 1 and 2 of the RFC with the heads of RFC 8410, by Python's base64, and the public keys that it
 * states. */
static const char first_pem[] = "-----BEGIN PRIVATE KEY-----\n"
                                "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
                                "-----END PRIVATE KEY-----\n";
static const char second_pem[] = "-----BEGIN PRIVATE KEY-----\n"
                                 "MC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
                                 "-----END PRIVATE KEY-----\n";
static const char first_pub[] = "-----BEGIN PUBLIC KEY-----\n"
                                "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
                                "-----END PUBLIC KEY-----\n";
static const uint8_t first_key[] = {0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe,
                                    0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6,
                                    0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a};
static const uint8_t second_key[] = {0x3d, 0x40, 0x17, 0xc3, 0xe8, 0x43, 0x89, 0x5a, 0x92, 0xb7, 0x0a,
                                     0xa7, 0x4d, 0x1b, 0x7e, 0xbc, 0x9c, 0x98, 0x2c, 0xcf, 0x2e, 0xc4,
                                     0x96, 0x8c, 0xc0, 0xcd, 0x55, 0xf1, 0x2a, 0xf4, 0x66, 0x0c};

/* Lets libsodium be away. */
static bool hidden;
void *dlopen(const char *name, int flags);
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int) = NULL;
    void *found = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &found, sizeof real);
    return hidden && name && strstr(name, "sodium") ? NULL : real(name, flags);
}

/* ---- a folder with a plan and keys ------------------------------------------------------------------- */

static hyp_arena arena;
static HypPlan__Program *program;
static uint8_t *unsigned_bytes, *signed_bytes;
static size_t unsigned_size, signed_size;

static void write_text(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static uint8_t *read_file(const char *path, size_t *out_size)
{
    hyp_mapping map;
    assert_int_equal(hyp_map_file(path, &map, NULL), HYP_OK);
    uint8_t *bytes = hyp_aligned_alloc(64, map.size + TRAILER);
    memcpy(bytes, map.data, map.size);
    *out_size = map.size;
    hyp_unmap(&map);
    return bytes;
}

static void assert_same(const char *path, const uint8_t *bytes, size_t size)
{
    size_t found;
    uint8_t *is = read_file(path, &found);
    assert_int_equal(found, size);
    assert_memory_equal(is, bytes, size);
    hyp_aligned_free(is);
}

static hyp_status open_as(const uint8_t *bytes, size_t size, const uint8_t *key, hyp_diag *diag)
{
    const hyp_plan_open_options options = {.signer = key};
    hyp_plan plan;
    hyp_status status = hyp_plan_open_memory(bytes, size, "plan", &options, &plan, diag);
    if (status == HYP_OK) hyp_plan_close(&plan);
    return status;
}

static void assert_refused(const uint8_t *bytes, size_t size, const uint8_t *key, const char *why)
{
    hyp_diag diag = {0};
    assert_int_equal(open_as(bytes, size, key, &diag), HYP_ERR_SIGNATURE);
    if (!strstr(diag.message, why)) fail_msg("'%s' is not in: %s", why, diag.message);
}

static int setup(void **state)
{
    (void)state;
    char folder[] = "test_signature.XXXXXX";
    hyp_plan_weights weights = sample_weights();
    hyp_diag diag = {0};
    if (!mkdtemp(folder) || chdir(folder) != 0) return -1;
    program = sample_program(&arena);
    write_text("first", first_pem, strlen(first_pem));
    write_text("second", second_pem, strlen(second_pem));
    write_text("first.pub", first_pub, strlen(first_pub));
    if (hyp_plan_write("plan", program, &weights, NULL, &diag) != HYP_OK ||
        hyp_plan_sign("plan", "first", "signed", &diag) != HYP_OK) {
        print_error("%s\n", diag.message);
        return -1;
    }
    unsigned_bytes = read_file("plan", &unsigned_size);
    signed_bytes = read_file("signed", &signed_size);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char folder[4096];
    static const char *const files[] = {"first", "second", "first.pub", "plan",   "signed",
                                        "again", "key",    "key.pub",   "hostile"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(files[i]);
    hyp_aligned_free(unsigned_bytes);
    hyp_aligned_free(signed_bytes);
    hyp_arena_dispose(&arena);
    return getcwd(folder, sizeof folder) && chdir("..") == 0 ? rmdir(folder) : -1;
}

/* ---- plans ------------------------------------------------------------------------------------------ */

static void a_signed_plan_opens_with_its_key_and_without_one(void **state)
{
    (void)state;
    const hyp_plan_open_options options = {.signer = first_key};
    hyp_plan plan;
    assert_int_equal(hyp_plan_open_file("signed", &options, &plan, NULL), HYP_OK);
    assert_memory_equal(plan.signer, first_key, sizeof first_key); /* which the RFC says is that of the seed */
    assert_int_equal(plan.file_bytes, unsigned_size);
    hyp_plan_close(&plan);
    assert_int_equal(open_as(signed_bytes, signed_size, NULL, NULL), HYP_OK);
    assert_int_equal(hyp_plan_check_signature("signed", first_key, NULL), HYP_OK);
    assert_int_equal(signed_size, unsigned_size + TRAILER);
    assert_memory_equal(signed_bytes, unsigned_bytes, unsigned_size);
    assert_int_equal(hyp_plan_open_file("plan", NULL, &plan, NULL), HYP_OK);
    assert_null(plan.signer);
    hyp_plan_close(&plan);
}

static void signing_replaces_a_signature_and_gives_the_same_bytes(void **state)
{
    (void)state;
    assert_int_equal(hyp_plan_sign("signed", "second", "again", NULL), HYP_OK);
    assert_int_equal(hyp_plan_check_signature("again", second_key, NULL), HYP_OK);
    assert_int_equal(hyp_plan_check_signature("again", first_key, NULL), HYP_ERR_SIGNATURE);
    assert_int_equal(hyp_plan_sign("again", "first", NULL, NULL), HYP_OK);
    assert_same("again", signed_bytes, signed_size);
}

static void what_is_written_anew_is_not_signed(void **state)
{
    (void)state;
    hyp_plan plan;
    assert_int_equal(hyp_plan_open_file("signed", NULL, &plan, NULL), HYP_OK);
    assert_int_equal(hyp_plan_write_device("again", &plan, NULL, NULL), HYP_OK);
    hyp_plan_close(&plan);
    assert_same("again", unsigned_bytes, unsigned_size);
}

static void what_is_wrong_is_told_apart(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    assert_refused(unsigned_bytes, unsigned_size, first_key, "is not signed");
    assert_refused(signed_bytes, signed_size, second_key,
                   "signed by another key, d75a980182b10ab7d54bfed3c964073a0ee1");
    signed_bytes[300] ^= 1;
    assert_refused(signed_bytes, signed_size, first_key, "is not what was signed");
    signed_bytes[300] ^= 1;
    assert_refused(signed_bytes, 0, first_key, "is not signed");
    assert_int_equal(hyp_plan_check_signature("plan", first_key, &diag), HYP_ERR_SIGNATURE);
    assert_ptr_equal(strstr(diag.message, "plan: the file is not signed"), diag.message);
    assert_int_equal(hyp_plan_check_signature("absent", first_key, NULL), HYP_ERR_IO);
}

/* With the key nothing passes. Without it the checksums see to it, that of the signature among them. */
static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < signed_size; i++) {
        const hyp_plan_open_options unchecked = {.header_only = true, .signer = first_key};
        hyp_plan plan;
        signed_bytes[i] ^= (uint8_t)(1 << i % 8);
        hyp_status status = hyp_plan_open_memory(signed_bytes, signed_size, "plan", &unchecked, &plan, NULL);
        /* The last eight are the checksum of the others behind the plan. */
        assert_int_equal(status, i < signed_size - 8 ? HYP_ERR_SIGNATURE : HYP_ERR_MALFORMED);
        assert_int_not_equal(open_as(signed_bytes, signed_size, NULL, NULL), HYP_OK);
        signed_bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    assert_int_equal(open_as(signed_bytes, signed_size, first_key, NULL), HYP_OK);
}

static void a_plan_cut_or_extended_anywhere_is_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < signed_size; n++) {
        assert_int_equal(open_as(signed_bytes, n, first_key, NULL), HYP_ERR_SIGNATURE);
        assert_int_equal(open_as(signed_bytes, n, NULL, NULL) == HYP_OK, n == unsigned_size);
    }
    uint8_t *longer = hyp_aligned_alloc(64, signed_size + 2 * TRAILER);
    memcpy(longer, signed_bytes, signed_size);
    memset(longer + signed_size, 0, 2 * TRAILER);
    for (size_t n = 1; n <= 2 * TRAILER; n++) {
        assert_int_equal(open_as(longer, signed_size + n, first_key, NULL), HYP_ERR_SIGNATURE);
        assert_int_not_equal(open_as(longer, signed_size + n, NULL, NULL), HYP_OK);
    }
    /* A second signature behind the first is none of the plan. */
    memcpy(longer + signed_size, signed_bytes + unsigned_size, TRAILER);
    assert_int_equal(open_as(longer, signed_size + TRAILER, first_key, NULL), HYP_ERR_SIGNATURE);
    assert_int_not_equal(open_as(longer, signed_size + TRAILER, NULL, NULL), HYP_OK);
    hyp_aligned_free(longer);
}

static hyp_status other_weights(void *user, uint32_t tensor, const void **out, hyp_diag *diag)
{
    static float data[64];
    (void)diag;
    for (size_t i = 0; i < 64; i++) data[i] = (float)(tensor + i);
    if (user && tensor == S_W2) memcpy((uint8_t *)data + 128 - TRAILER, user, TRAILER); /* the last one, of 128 bytes */
    *out = data;
    return HYP_OK;
}

static void the_signature_of_another_plan_is_refused(void **state)
{
    (void)state;
    hyp_plan_weights weights = {other_weights, NULL};
    size_t size;
    assert_int_equal(hyp_plan_write("again", program, &weights, NULL, NULL), HYP_OK);
    uint8_t *bytes = read_file("again", &size);
    memcpy(bytes + size, signed_bytes + unsigned_size, TRAILER);
    assert_refused(bytes, size + TRAILER, first_key, "is not what was signed");
    assert_int_equal(open_as(bytes, size + TRAILER, NULL, NULL), HYP_OK); /* nobody asked */
    hyp_aligned_free(bytes);
}

/* Weights may be any bytes, also those of a signature. */
static void weights_that_look_like_a_signature_are_weights(void **state)
{
    (void)state;
    hyp_plan_weights weights = {other_weights, signed_bytes + unsigned_size};
    hyp_plan plan;
    size_t size;
    assert_int_equal(hyp_plan_write("again", program, &weights, NULL, NULL), HYP_OK);
    uint8_t *bytes = read_file("again", &size);
    assert_int_equal(size, unsigned_size);
    assert_int_equal(hyp_plan_open_memory(bytes, size, "plan", NULL, &plan, NULL), HYP_OK);
    assert_null(plan.signer);
    hyp_plan_close(&plan);
    assert_refused(bytes, size, first_key, "is not what was signed");
    assert_int_equal(hyp_plan_sign("again", "first", NULL, NULL), HYP_OK);
    assert_int_equal(hyp_plan_check_signature("again", first_key, NULL), HYP_OK);
    hyp_aligned_free(bytes);
}

/* An algorithm of a later version, whose checksum is right. */
static void another_algorithm_is_refused(void **state)
{
    (void)state;
    uint8_t *trailer = signed_bytes + unsigned_size, kept[TRAILER];
    memcpy(kept, trailer, TRAILER);
    trailer[8] = 2;
    uint64_t hash = hyp_hash(trailer, 112, 0);
    memcpy(trailer + 112, &hash, 8);
    assert_refused(signed_bytes, signed_size, first_key, "algorithm that this version does not know");
    assert_int_equal(open_as(signed_bytes, signed_size, NULL, NULL), HYP_OK);
    memcpy(trailer, kept, TRAILER);
}

/* Small orders and a signature that is no point: what makes verifiers accept anything. */
static void degenerate_keys_are_refused(void **state)
{
    (void)state;
    for (uint8_t first = 0; first < 2; first++) {
        uint8_t key[32] = {first}, *copy = hyp_aligned_alloc(64, signed_size);
        memcpy(copy, signed_bytes, signed_size);
        memcpy(copy + unsigned_size + 16, key, sizeof key);
        memset(copy + signed_size - SIGNATURE_FROM_END, 0, 64);
        copy[signed_size - SIGNATURE_FROM_END] = first; /* R: the point itself, S: 0 */
        assert_refused(copy, signed_size, key, "is not what was signed");
        hyp_aligned_free(copy);
    }
}

static void only_a_plan_that_opens_is_signed(void **state)
{
    (void)state;
    unsigned_bytes[unsigned_size - 1] ^= 1;
    write_text("again", unsigned_bytes, unsigned_size);
    assert_int_equal(hyp_plan_sign("again", "first", NULL, NULL), HYP_ERR_MALFORMED);
    assert_same("again", unsigned_bytes, unsigned_size);
    unsigned_bytes[unsigned_size - 1] ^= 1;
    assert_int_equal(hyp_plan_sign("absent", "first", NULL, NULL), HYP_ERR_IO);
    assert_int_equal(hyp_plan_sign("plan", "absent", NULL, NULL), HYP_ERR_IO);
    assert_int_equal(hyp_plan_sign("plan", "first", "no/such/folder", NULL), HYP_ERR_IO);
}

/* ---- keys ------------------------------------------------------------------------------------------- */

static void a_new_key_signs_and_nothing_is_overwritten(void **state)
{
    (void)state;
    uint8_t key[HYP_PUBLIC_KEY_BYTES];
    struct stat st;
    size_t size, pub_size;
    assert_int_equal(hyp_key_generate("key", NULL), HYP_OK);
    assert_int_equal(stat("key", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(hyp_key_read_public("key.pub", key, NULL), HYP_OK);
    assert_int_equal(hyp_plan_sign("plan", "key", "again", NULL), HYP_OK);
    assert_int_equal(hyp_plan_check_signature("again", key, NULL), HYP_OK);
    uint8_t *bytes = read_file("key", &size), *pub = read_file("key.pub", &pub_size);
    assert_int_equal(hyp_key_generate("key", NULL), HYP_ERR_IO);
    assert_same("key", bytes, size);
    assert_same("key.pub", pub, pub_size);
    unlink("key.pub");
    assert_int_equal(hyp_key_generate("key", NULL), HYP_ERR_IO);
    assert_same("key", bytes, size);
    assert_int_not_equal(access("key.pub", F_OK), 0); /* of no key that is there */
    unlink("key");
    assert_int_equal(hyp_key_generate("key", NULL), HYP_OK);
    uint8_t *other = read_file("key", &size);
    assert_memory_not_equal(bytes, other, size);
    hyp_aligned_free(bytes);
    hyp_aligned_free(pub);
    hyp_aligned_free(other);
}

static void a_public_key_is_read_as_it_is(void **state)
{
    (void)state;
    uint8_t key[HYP_PUBLIC_KEY_BYTES];
    char dressed[256];
    assert_int_equal(hyp_key_read_public("first.pub", key, NULL), HYP_OK);
    assert_memory_equal(key, first_key, sizeof first_key);
    snprintf(dressed, sizeof dressed, "made by hand\r\n-----BEGIN PUBLIC KEY-----\r\nMCowBQYDK2VwAyEA11qYAYKx\r\n%s",
             "CrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\r\n-----END PUBLIC KEY-----");
    write_text("hostile", dressed, strlen(dressed));
    memset(key, 0, sizeof key);
    assert_int_equal(hyp_key_read_public("hostile", key, NULL), HYP_OK);
    assert_memory_equal(key, first_key, sizeof first_key);
}

static void hostile_key_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "is no key"},
        {"\n", "is no key"},
        {first_pem, "is a PEM file of a PRIVATE KEY; wanted a public key"},
        {"-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "is a PEM file of a ENCRYPTED PRIVATE KEY"},
        {"-----BEGIN ", "is no key"},
        {"-----BEGIN xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-----",
         "xxx"},
        {"-----BEGIN PUBLIC KEY-----", "is no key"},
        {"-----END PUBLIC KEY----------BEGIN PUBLIC KEY-----", "is no key"},
        {"-----BEGIN PUBLIC KEY----------END PUBLIC KEY-----", "is no public key of Ed25519"},
        {"-----BEGIN PUBLIC KEY-----MCowBQYDK2VwAyEA11qYAYKx-----END PUBLIC KEY-----", "is no public key of Ed25519"},
        /* a byte more, padding left out, no base64, X25519 */
        {"-----BEGIN PUBLIC KEY-----MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURoA-----END PUBLIC "
         "KEY-----",
         "is no public key of Ed25519"},
        {"-----BEGIN PUBLIC KEY-----MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo-----END PUBLIC "
         "KEY-----",
         "is no public key of Ed25519"},
        {"-----BEGIN PUBLIC KEY-----MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPc*URo=-----END PUBLIC "
         "KEY-----",
         "is no public key of Ed25519"},
        {"-----BEGIN PUBLIC KEY-----MCowBQYDK2VuAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=-----END PUBLIC "
         "KEY-----",
         "is no public key of Ed25519"},
    };
    uint8_t key[HYP_PUBLIC_KEY_BYTES] = {1, 2, 3}, kept[HYP_PUBLIC_KEY_BYTES] = {1, 2, 3};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_diag diag = {0};
        write_text("hostile", cases[i].text, strlen(cases[i].text));
        assert_int_equal(hyp_key_read_public("hostile", key, &diag), HYP_ERR_MALFORMED);
        if (!strstr(diag.message, cases[i].why)) fail_msg("'%s' is not in: %s", cases[i].why, diag.message);
        assert_int_equal(hyp_plan_sign("plan", "hostile", "again", NULL) == HYP_OK, cases[i].text == first_pem);
    }
    assert_memory_equal(key, kept, sizeof key);
    assert_int_equal(hyp_plan_sign("plan", "first.pub", "again", NULL), HYP_ERR_MALFORMED);
    assert_int_equal(hyp_key_read_public(".", key, NULL), HYP_ERR_IO);
    assert_int_equal(hyp_key_read_public("absent", key, NULL), HYP_ERR_IO);
    assert_int_equal(hyp_key_read_public("/dev/zero", key, NULL), HYP_ERR_MALFORMED); /* has no end */
}

/* Every byte of a key file changed: refused, or another key. */
static void changed_key_files_never_give_the_same_key(void **state)
{
    (void)state;
    char text[sizeof first_pub];
    uint8_t key[HYP_PUBLIC_KEY_BYTES];
    size_t read = 0;
    for (size_t i = 0; i < 2 * strlen(first_pub); i++) {
        memcpy(text, first_pub, sizeof text);
        text[i / 2] = (char)(text[i / 2] ^ (i % 2 ? 1 : 0x80));
        write_text("hostile", text, strlen(first_pub));
        if (hyp_key_read_public("hostile", key, NULL) != HYP_OK) continue;
        bool behind = i / 2 == strlen(first_pub) - 1; /* the last line break is no part of it */
        assert_int_equal(memcmp(key, first_key, sizeof key) == 0, behind);
        read++;
    }
    assert_true(read > 10);
}

/* ---- what else can be missing ------------------------------------------------------------------------ */

static void without_libsodium_only_signatures_are_missing(void **state)
{
    (void)state;
    uint8_t key[HYP_PUBLIC_KEY_BYTES];
    hyp_diag diag = {0};
    hidden = true;
    assert_int_equal(open_as(signed_bytes, signed_size, NULL, NULL), HYP_OK);
    assert_int_equal(open_as(signed_bytes, signed_size, first_key, &diag), HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "libsodium"));
    assert_int_equal(hyp_key_generate("again", NULL), HYP_ERR_UNSUPPORTED);
    assert_int_equal(hyp_key_read_public("first.pub", key, NULL), HYP_ERR_UNSUPPORTED);
    assert_int_equal(hyp_plan_sign("plan", "first", NULL, NULL), HYP_ERR_UNSUPPORTED);
    hidden = false;
    assert_same("plan", unsigned_bytes, unsigned_size);
}

static hyp_status generate(void)
{
    unlink("key");
    unlink("key.pub");
    return hyp_key_generate("key", NULL);
}
static hyp_status sign(void) { return hyp_plan_sign("plan", "first", "again", NULL); }
static hyp_status open_signed(void) { return open_as(signed_bytes, signed_size, first_key, NULL); }
static hyp_status check_signed(void) { return hyp_plan_check_signature("signed", first_key, NULL); }

static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    hyp_status (*const calls[])(void) = {generate, sign, open_signed, check_signed};
    size_t failed = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        hyp_status status = HYP_ERR_NO_MEMORY;
        unlink("again");
        for (uint64_t n = 1; n < 100000 && status != HYP_OK; n++) {
            hyp_mem_fail_after(n);
            status = calls[i]();
            hyp_mem_fail_after(0);
            if (status == HYP_OK) continue;
            assert_int_equal(status, HYP_ERR_NO_MEMORY);
            if (calls[i] == sign) assert_int_not_equal(access("again", F_OK), 0);
            failed++;
        }
        assert_int_equal(status, HYP_OK);
    }
    assert_true(failed > 10);
}

int main(void)
{
    uint8_t key[HYP_PUBLIC_KEY_BYTES];
    hyp_diag diag = {0};
    if (hyp_key_read_public("/dev/null", key, &diag) == HYP_ERR_UNSUPPORTED) {
        printf("skipped: %s\n", diag.message);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signed_plan_opens_with_its_key_and_without_one),
        cmocka_unit_test(signing_replaces_a_signature_and_gives_the_same_bytes),
        cmocka_unit_test(what_is_written_anew_is_not_signed),
        cmocka_unit_test(what_is_wrong_is_told_apart),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(a_plan_cut_or_extended_anywhere_is_refused),
        cmocka_unit_test(the_signature_of_another_plan_is_refused),
        cmocka_unit_test(weights_that_look_like_a_signature_are_weights),
        cmocka_unit_test(another_algorithm_is_refused),
        cmocka_unit_test(degenerate_keys_are_refused),
        cmocka_unit_test(only_a_plan_that_opens_is_signed),
        cmocka_unit_test(a_new_key_signs_and_nothing_is_overwritten),
        cmocka_unit_test(a_public_key_is_read_as_it_is),
        cmocka_unit_test(hostile_key_files_are_refused),
        cmocka_unit_test(changed_key_files_never_give_the_same_key),
        cmocka_unit_test(without_libsodium_only_signatures_are_missing),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
