/* signature.c - signed plans: 120 bytes behind the plan, which the signature covers as it is.
 *
 * They are at a fixed distance from the end of the file, so that nothing of it has to be understood before they are
 * checked. docs/plan-format.md is the description for other readers.
 */
#include "plan/signature.h"

#include <stdio.h>
#include <string.h>

#include "hypatia/signature.h"
#include "plan/key.h"
#include "plan/layout.h"

/* Byte positions in what lies behind the plan. */
enum {
    AT_SIGNATURE_MAGIC = 0,
    AT_ALGORITHM = 8,
    AT_KEY = 16,
    AT_SIGNATURE = 48,
    AT_SIGNATURE_HASH = 112,
    TRAILER = 120
};
enum { ED25519 = 1 }; /* u64 */
#define SIGNATURE_MAGIC "HYPSIGN\n"

const char *hyp_plan_key_text(const uint8_t *key, char out[HYP_PLAN_KEY_TEXT])
{
    out[0] = 0;
    for (size_t i = 0; key && i < HYP_ED25519_PUBLIC; i++) snprintf(out + 2 * i, 3, "%02x", key[i]);
    return out;
}

static const uint8_t *find_trailer(const uint8_t *data, size_t size)
{
    if (size < TRAILER) return NULL;
    const uint8_t *at = data + (size - TRAILER);
    return memcmp(at, SIGNATURE_MAGIC, 8) == 0 ? at : NULL;
}

hyp_status hyp_signature_check(const uint8_t *data, size_t size, const uint8_t *key, hyp_diag *diag)
{
    char wanted[HYP_PLAN_KEY_TEXT], found[HYP_PLAN_KEY_TEXT];
    hyp_sodium sodium;
    const uint8_t *trailer = find_trailer(data, size);
    hyp_plan_key_text(key, wanted);
    if (!trailer)
        return hyp_fail(diag, HYP_ERR_SIGNATURE,
                        "the file is not signed, or its end is damaged; wanted a plan that is signed by the key %s: "
                        "'hypatia sign' signs one",
                        wanted);
    if (load_le(trailer + AT_ALGORITHM, 8) != ED25519)
        return hyp_fail(diag, HYP_ERR_SIGNATURE,
                        "the plan is signed by an algorithm that this version does not know; wanted Ed25519");
    if (memcmp(trailer + AT_KEY, key, HYP_ED25519_PUBLIC) != 0)
        return hyp_fail(diag, HYP_ERR_SIGNATURE, "the plan is signed by another key, %s; wanted %s",
                        hyp_plan_key_text(trailer + AT_KEY, found), wanted);
    HYP_TRY(hyp_sodium_open(&sodium, diag));
    if (sodium.verify(trailer + AT_SIGNATURE, data, size - TRAILER, key) == 0) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_SIGNATURE,
                    "the plan is not what was signed by the key %s: it or its signature was altered, or is damaged",
                    wanted);
}

hyp_status hyp_signature_find(const uint8_t *data, size_t *size, const uint8_t **out_key, hyp_diag *diag)
{
    const uint8_t *trailer = *size >= HYP_PLAN_HEADER + TRAILER ? find_trailer(data, *size) : NULL;
    *out_key = NULL;
    /* Weights may end in the same bytes. */
    if (!trailer || load_le(data + AT_FILE_BYTES, 8) != *size - TRAILER) return HYP_OK;
    if (hyp_hash(trailer, AT_SIGNATURE_HASH, 0) != load_le(trailer + AT_SIGNATURE_HASH, 8))
        return hyp_fail(diag, HYP_ERR_MALFORMED, "the plan is damaged: the checksum of its signature does not match");
    *out_key = trailer + AT_KEY;
    *size -= TRAILER;
    return HYP_OK;
}

/* ---- signing -------------------------------------------------------------------------------------- */

static hyp_status make_trailer(const hyp_plan *plan, const char *key_path, uint8_t out[TRAILER], hyp_diag *diag)
{
    hyp_sodium sodium;
    unsigned char seed[HYP_ED25519_SEED], secret_key[HYP_ED25519_SECRET];
    HYP_TRY(hyp_sodium_open(&sodium, diag));
    HYP_TRY(hyp_key_read_private(&sodium, key_path, seed, diag));
    memcpy(out + AT_SIGNATURE_MAGIC, SIGNATURE_MAGIC, 8);
    store_le(out + AT_ALGORITHM, ED25519, 8);
    sodium.make_keys(out + AT_KEY, secret_key, seed);
    sodium.sign(out + AT_SIGNATURE, NULL, plan->file, plan->file_bytes, secret_key);
    store_le(out + AT_SIGNATURE_HASH, hyp_hash(out, AT_SIGNATURE_HASH, 0), 8);
    sodium.wipe(seed, sizeof seed);
    sodium.wipe(secret_key, sizeof secret_key);
    return HYP_OK;
}

static hyp_status write_signed(const char *path, const hyp_plan *plan, const uint8_t trailer[TRAILER], hyp_diag *diag)
{
    hyp_outfile file = {.fd = -1};
    HYP_TRY(hyp_outfile_open(&file, path, diag));
    hyp_status status = hyp_outfile_write(&file, plan->file, (size_t)plan->file_bytes, diag);
    if (status == HYP_OK) status = hyp_outfile_write(&file, trailer, TRAILER, diag);
    if (status == HYP_OK) status = hyp_outfile_commit(&file, diag);
    hyp_outfile_abort(&file);
    return status;
}

hyp_status hyp_plan_sign(const char *plan_path, const char *key_path, const char *out_path, hyp_diag *diag)
{
    hyp_plan plan;
    uint8_t trailer[TRAILER];
    HYP_NEED(plan_path);
    HYP_NEED(key_path);
    HYP_TRY(hyp_plan_open_file(plan_path, NULL, &plan, diag));
    hyp_status status = make_trailer(&plan, key_path, trailer, diag);
    if (status == HYP_OK) status = write_signed(out_path ? out_path : plan_path, &plan, trailer, diag);
    hyp_plan_close(&plan);
    return status;
}

hyp_status hyp_plan_check_signature(const char *plan_path, const unsigned char key[HYP_PUBLIC_KEY_BYTES],
                                    hyp_diag *diag)
{
    hyp_mapping file = {0};
    HYP_NEED(plan_path);
    HYP_NEED(key);
    HYP_TRY(hyp_map_file(plan_path, &file, diag));
    hyp_status status = hyp_signature_check(file.data, file.size, key, diag);
    if (status != HYP_OK) hyp_diag_prefix(diag, "%s", plan_path);
    hyp_unmap(&file);
    return status;
}
