/* What is built in: the table of backends and the version text. */
#include "runtime/core/backend.h"

#ifdef HYP_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl_version.h>
#endif

const hyp_backend *const hyp_backends[] = {
#ifdef HYP_HAVE_CUDA
    &hyp_backend_cuda,
#endif
    &hyp_backend_cpu,
    &hyp_backend_reference,
    NULL,
};

const char *hyp_backend_left_out(hyp_device_kind kind)
{
#ifndef HYP_HAVE_CUDA
    if (kind == HYP_DEVICE_CUDA) return "CUDA backend: build it with a CUDA toolkit";
#endif
    (void)kind;
    return NULL;
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *hyp_version(void) { return HYP_VERSION; }

const char *hyp_version_details(void)
{
    _Static_assert(HYP_PLAN_MAJOR == 3 && HYP_PLAN_MINOR == 0, "the text below says so");
    return "plan format 3.0\n"
           "backends: "
#ifdef HYP_HAVE_CUDA
           "cuda (loaded at run time), "
#endif
#ifdef HYP_HAVE_ONEDNN
           "cpu (oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(
               DNNL_VERSION_PATCH) "), "
#else
           "cpu (without oneDNN), "
#endif
                                   "reference\n";
}
