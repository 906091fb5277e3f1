/* sodium.h - libsodium, opened when it is wanted: who neither makes nor requires signatures does not need it. Private
 * to the plan layer. */
#ifndef HYP_PLAN_SODIUM_H
#define HYP_PLAN_SODIUM_H

#include <stddef.h>

#include "base/diag.h"

enum { HYP_ED25519_SEED = 32, HYP_ED25519_PUBLIC = 32, HYP_ED25519_SECRET = 64, HYP_ED25519_SIGNATURE = 64 };

/* Functions of libsodium, which its interface keeps as they are. */
typedef struct hyp_sodium {
    int (*make_keys)(unsigned char *public_key, unsigned char *secret_key, const unsigned char *seed);
    int (*sign)(unsigned char *signature, unsigned long long *length, const unsigned char *message,
                unsigned long long bytes, const unsigned char *secret_key);
    int (*verify)(const unsigned char *signature, const unsigned char *message, unsigned long long bytes,
                  const unsigned char *public_key); /* 0: the signature is right */
    void (*random)(void *out, size_t bytes);
    void (*wipe)(void *data, size_t bytes);
    char *(*to_base64)(char *out, size_t room, const unsigned char *bytes, size_t count, int variant);
    int (*from_base64)(unsigned char *out, size_t room, const char *text, size_t length, const char *ignored,
                       size_t *out_count, const char **out_end, int variant);
} hyp_sodium;

/* HYP_ERR_UNSUPPORTED where there is no libsodium that has all of these. It stays open for as long as the process
 * lives. */
HYP_NODISCARD hyp_status hyp_sodium_open(hyp_sodium *out, hyp_diag *diag);

#endif
