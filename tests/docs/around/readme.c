/* Around the fragment of README.md: an engine, a context, memory. */
#include <stdio.h>
#include <hypatia/runtime.h>

int main(void)
{
    static float in[64], out[10];
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    hyp_diag diag = {0};
#pragma GCC diagnostic ignored "-Wunused-result" /* the fragment leaves out what a program asks */
@BLOCK@
    printf("%s%s\n", diag.message, y.rank == 2 && y.dims[1] == 10 ? "10 numbers" : "");
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return diag.status != HYP_OK || y.dims[1] != 10;
}
