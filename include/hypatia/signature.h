/* hypatia/signature.h - plans that are signed, and keys (Ed25519, RFC 8032).
 *
 *   hyp_key_generate("release.key", &diag);                            once: release.key and release.key.pub
 *   hyp_plan_sign("plan.bin", "release.key", NULL, &diag);             where plans are made
 *
 *   unsigned char key[HYP_PUBLIC_KEY_BYTES];                           where they run
 *   hyp_key_read_public("release.key.pub", key, &diag);
 *   hyp_engine_options options = {.size = sizeof options, .require_signature = key};
 *
 * A signature covers every byte of the plan and lies behind it: docs/plan-format.md. Keys are PEM files as of RFC 8410,
 * which `openssl genpkey -algorithm ed25519` makes, too: a private key in PKCS #8, without a password, a public one as
 * a SubjectPublicKeyInfo. libsodium does the arithmetic. It is opened when it is wanted first (libsodium.so.23, .so.26
 * or .so, where the system looks): where there is none, these calls are HYP_ERR_UNSUPPORTED, and nothing else needs it.
 *
 * Any thread may call any of these at any time.
 */
#ifndef HYPATIA_SIGNATURE_H
#define HYPATIA_SIGNATURE_H

#include "hypatia/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HYP_PUBLIC_KEY_BYTES = 32 };

/* Makes a key of random numbers of the system: the private one in `path`, which its owner alone can read, the public
 * one in `path` with ".pub" behind it. HYP_ERR_IO where one of these is there already, or cannot be written; then
 * neither is made. */
HYP_API HYP_NODISCARD hyp_status hyp_key_generate(const char *path, hyp_diag *diag);

/* Reads a public key. HYP_ERR_IO, HYP_ERR_MALFORMED: the file holds none. */
HYP_API HYP_NODISCARD hyp_status hyp_key_read_public(const char *path, unsigned char out[HYP_PUBLIC_KEY_BYTES],
                                                     hyp_diag *diag);

/* Writes the plan of `plan_path` with a signature by the private key in `key_path`, in place of one that it may have,
 * to `out_path`, which may be the same file, and is where it is NULL: it is replaced whole or not at all. Only a plan
 * that opens is signed. Same plan and key, same bytes. HYP_ERR_IO, HYP_ERR_MALFORMED (the plan or the key),
 * HYP_ERR_INCOMPATIBLE. */
HYP_API HYP_NODISCARD hyp_status hyp_plan_sign(const char *plan_path, const char *key_path, const char *out_path,
                                               hyp_diag *diag);

/* Whether a file is signed by this key, for who gives a plan on; hyp_engine_options.require_signature is for who loads
 * it. Reads all of the file once, and parses nothing. HYP_ERR_SIGNATURE, with a message that tells a file without a
 * signature from one by another key and one that was altered; HYP_ERR_IO. */
HYP_API HYP_NODISCARD hyp_status hyp_plan_check_signature(const char *plan_path,
                                                          const unsigned char key[HYP_PUBLIC_KEY_BYTES],
                                                          hyp_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
