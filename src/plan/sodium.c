/* sodium.c - finding libsodium. */
#include <dlfcn.h>
#include <string.h>

#include "plan/sodium.h"

static void *open_library(void)
{
    static const char *const names[] = {"libsodium.so.23", "libsodium.so.26", "libsodium.so"};
    void *handle = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !handle; i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return handle;
}

hyp_status hyp_sodium_open(hyp_sodium *out, hyp_diag *diag)
{
    void *handle = open_library();
    if (!handle)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                        "signatures need libsodium, which is not found: install it (Debian and Ubuntu: libsodium23)");
    hyp_sodium s = {0};
    int (*init)(void) = NULL;
    const struct {
        const char *name;
        void *to; /* a pointer to a function, as POSIX lets dlsym fill it in */
    } functions[] = {{"sodium_init", &init},
                     {"crypto_sign_ed25519_seed_keypair", &s.make_keys},
                     {"crypto_sign_ed25519_detached", &s.sign},
                     {"crypto_sign_ed25519_verify_detached", &s.verify},
                     {"randombytes_buf", &s.random},
                     {"sodium_memzero", &s.wipe},
                     {"sodium_bin2base64", &s.to_base64},
                     {"sodium_base642bin", &s.from_base64}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(handle, functions[i].name);
        if (!found)
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                            "the libsodium that is installed has no %s: wanted 1.0.14 or newer", functions[i].name);
        memcpy(functions[i].to, &found, sizeof found);
    }
    if (init() < 0) return hyp_fail(diag, HYP_ERR_IO, "libsodium cannot be used: the system gives no random numbers");
    *out = s;
    return HYP_OK;
}
