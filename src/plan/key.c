/* key.c - keys of Ed25519 in PEM files, as RFC 8410 has them.
 *
 * What is in such a file is DER of one form: a fixed head, which names the algorithm, and the 32 bytes of the key. So
 * the head is compared, and nothing is parsed.
 */
#include "plan/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "hypatia/signature.h"

_Static_assert((int)HYP_PUBLIC_KEY_BYTES == (int)HYP_ED25519_PUBLIC, "the public name of the same size");

enum { KEY = 32, HEAD_MOST = 16, FILE_MOST = 4096, LINE = 72 };
enum { BASE64_ORIGINAL = 1 }; /* sodium_base64_VARIANT_ORIGINAL: RFC 4648, with padding */

#define BASE64_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
#define SPACES " \t\r\n"

typedef struct form {
    const char *what, *label;
    size_t head_bytes;
    unsigned char head[HEAD_MOST];
} form;
static const form private_form = {
    "private key",
    "PRIVATE KEY",
    16,
    {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20}};
static const form public_form = {
    "public key", "PUBLIC KEY", 12, {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}};

/* ---- reading -------------------------------------------------------------------------------------- */

/* The text of a small file, which may be a pipe; whoever has it wipes it. */
static hyp_status read_text(const char *path, char text[FILE_MOST + 1], hyp_diag *diag)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t count = 0;
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0 && count <= FILE_MOST) {
        do n = read(fd, text + count, FILE_MOST + 1 - count);
        while (n < 0 && errno == EINTR);
        if (n > 0) count += (size_t)n;
    }
    int error = errno;
    if (fd >= 0) close(fd);
    if (n < 0) return hyp_fail(diag, HYP_ERR_IO, "%s: cannot read the key: %s", path, strerror(error));
    if (count > FILE_MOST)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: is no key: it has more than %d bytes", path, FILE_MOST);
    text[count] = 0;
    return HYP_OK;
}

/* What kind of PEM the text is instead, for a message: what stands between "-----BEGIN " and "-----"; NULL: none. */
static const char *find_label(const char *text, char out[LINE])
{
    static const char begin[] = "-----BEGIN ";
    const char *at = strstr(text, begin), *end = at ? strstr(at + strlen(begin), "-----") : NULL;
    if (!end) return NULL;
    at += strlen(begin);
    snprintf(out, LINE, "%.*s", (int)(end - at < LINE ? end - at : LINE - 1), at);
    return out;
}

static hyp_status decode(const hyp_sodium *sodium, const char *path, const char *text, const form *f,
                         unsigned char out[KEY], hyp_diag *diag)
{
    char begin[LINE], end[LINE], label[LINE];
    unsigned char der[HEAD_MOST + KEY + 1];
    snprintf(begin, sizeof begin, "-----BEGIN %s-----", f->label);
    snprintf(end, sizeof end, "-----END %s-----", f->label);
    const char *from = strstr(text, begin), *to = from ? strstr(from, end) : NULL;
    if (!from && find_label(text, label))
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: is a PEM file of a %s; wanted a %s (-----BEGIN %s-----)", path,
                        label, f->what, f->label);
    if (!to)
        return hyp_fail(diag, HYP_ERR_MALFORMED,
                        "%s: is no key; wanted a %s of Ed25519 in a PEM file, as 'hypatia keygen' makes", path,
                        f->what);
    from += strlen(begin);
    size_t count = 0, length = (size_t)(to - from);
    /* libsodium takes some bytes beyond ASCII for letters. */
    bool right = strspn(from, BASE64_LETTERS SPACES) >= length &&
                 sodium->from_base64(der, sizeof der, from, length, SPACES, &count, NULL, BASE64_ORIGINAL) == 0 &&
                 count == f->head_bytes + KEY && memcmp(der, f->head, f->head_bytes) == 0;
    if (right) memcpy(out, der + f->head_bytes, KEY);
    sodium->wipe(der, sizeof der);
    if (right) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_MALFORMED, "%s: is no %s of Ed25519 as 'hypatia keygen' or 'openssl genpkey' makes",
                    path, f->what);
}

static hyp_status read_key(const hyp_sodium *sodium, const char *path, const form *f, unsigned char out[KEY],
                           hyp_diag *diag)
{
    char text[FILE_MOST + 1];
    hyp_status status = read_text(path, text, diag);
    if (status == HYP_OK) status = decode(sodium, path, text, f, out, diag);
    sodium->wipe(text, sizeof text);
    return status;
}

hyp_status hyp_key_read_private(const hyp_sodium *sodium, const char *path, unsigned char seed[HYP_ED25519_SEED],
                                hyp_diag *diag)
{
    return read_key(sodium, path, &private_form, seed, diag);
}

hyp_status hyp_key_read_public(const char *path, unsigned char out[HYP_PUBLIC_KEY_BYTES], hyp_diag *diag)
{
    hyp_sodium sodium;
    HYP_NEED(path);
    HYP_NEED(out);
    HYP_TRY(hyp_sodium_open(&sodium, diag));
    return read_key(&sodium, path, &public_form, out, diag);
}

/* ---- writing -------------------------------------------------------------------------------------- */

/* Makes a file that is not there yet. What cannot be written whole is not left. */
static hyp_status write_key(const hyp_sodium *sodium, const char *path, unsigned mode, const form *f,
                            const unsigned char key[KEY], hyp_diag *diag)
{
    unsigned char der[HEAD_MOST + KEY];
    char base64[LINE], text[256];
    memcpy(der, f->head, f->head_bytes);
    memcpy(der + f->head_bytes, key, KEY);
    sodium->to_base64(base64, sizeof base64, der, f->head_bytes + KEY, BASE64_ORIGINAL);
    int length = snprintf(text, sizeof text, "-----BEGIN %s-----\n%s\n-----END %s-----\n", f->label, base64, f->label);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    bool made = fd >= 0, whole = made && write(fd, text, (size_t)length) == length;
    int error = errno;
    if (made && close(fd) != 0) {
        whole = false;
        error = errno;
    }
    if (made && !whole) unlink(path);
    sodium->wipe(der, sizeof der);
    sodium->wipe(base64, sizeof base64);
    sodium->wipe(text, sizeof text);
    return whole ? HYP_OK : hyp_fail(diag, HYP_ERR_IO, "%s: cannot make the %s: %s", path, f->what, strerror(error));
}

hyp_status hyp_key_generate(const char *path, hyp_diag *diag)
{
    hyp_sodium sodium;
    HYP_NEED(path);
    HYP_TRY(hyp_sodium_open(&sodium, diag));
    hyp_strbuf beside = {0};
    hyp_strbuf_printf(&beside, "%s.pub", path);
    if (beside.failed) {
        hyp_strbuf_dispose(&beside);
        return hyp_fail_memory(diag, strlen(path) + 5);
    }
    unsigned char seed[HYP_ED25519_SEED], public_key[HYP_ED25519_PUBLIC], secret_key[HYP_ED25519_SECRET];
    sodium.random(seed, sizeof seed);
    sodium.make_keys(public_key, secret_key, seed);
    hyp_status status = write_key(&sodium, beside.data, 0666, &public_form, public_key, diag);
    if (status == HYP_OK) {
        status = write_key(&sodium, path, 0600, &private_form, seed, diag);
        if (status != HYP_OK) unlink(beside.data);
    }
    sodium.wipe(seed, sizeof seed);
    sodium.wipe(secret_key, sizeof secret_key);
    hyp_strbuf_dispose(&beside);
    return status;
}
