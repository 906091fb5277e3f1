/* microhttpd.c - finding libmicrohttpd. */
#include "microhttpd.h"

#include <dlfcn.h>
#include <string.h>

#include "store.h"

hyp_status microhttpd_open(microhttpd *out, hyp_diag *diag)
{
    void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle)
        return refuse(
            diag, HYP_ERR_UNSUPPORTED,
            "serving needs libmicrohttpd, which is not found: install it (Debian and Ubuntu: libmicrohttpd12)");
    const struct {
        const char *name;
        void *to; /* a pointer to a function, as POSIX lets dlsym fill it in */
    } functions[] = {
#define MICROHTTPD_ROW(name) {"MHD_" #name, &out->name},
        MICROHTTPD_FUNCTIONS(MICROHTTPD_ROW)
#undef MICROHTTPD_ROW
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(handle, functions[i].name);
        if (!found)
            return refuse(diag, HYP_ERR_UNSUPPORTED,
                          "the libmicrohttpd that is installed has no %s: wanted 0.9.73 or newer", functions[i].name);
        memcpy(functions[i].to, &found, sizeof found);
    }
    return HYP_OK;
}
