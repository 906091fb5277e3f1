/* Around the kernels of docs/runtime.md. */
#include <hypatia/runtime.h>

static hyp_status soft_threshold(const hyp_custom_call *call, void *user, hyp_diag *diag)
{
    (void)call;
    (void)user;
    (void)diag;
    return HYP_OK;
}

int main(void)
{
@BLOCK@
    return options.custom_kernel_count != 1;
}
