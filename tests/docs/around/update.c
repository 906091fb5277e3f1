/* Around the update of docs/runtime.md: weights of plan.bin, which the commands above it made. */
#include <stdio.h>
#include <hypatia/runtime.h>

int main(void)
{
    static float merged[64 * 64];
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
#pragma GCC diagnostic ignored "-Wunused-result"
    hyp_engine_load_file("plan.bin", NULL, &engine, &diag);
@BLOCK@
    printf("%s\n", diag.message);
    hyp_engine_destroy(engine);
    return diag.status != HYP_OK;
}
