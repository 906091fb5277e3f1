/* Around the steps of docs/training.md, of net.bin, which tests/docs/fixtures.py made. */
#include <stdio.h>
#include <hypatia/runtime.h>

int main(void)
{
    static float images[50 * 64], trained[64 * 64], rate = 0.001f, loss;
    static int64_t labels[50];
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    hyp_diag diag = {0};
    hyp_run_options keep = {.size = sizeof keep, .keep_variables = true};
#pragma GCC diagnostic ignored "-Wunused-result"
    hyp_engine_load_file("net.bin", NULL, &engine, &diag);
    hyp_context_create(engine, NULL, &context, &diag);
@BLOCK@
    printf("%s loss %g\n", diag.message, loss);
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    return diag.status != HYP_OK || !(loss > 0);
}
