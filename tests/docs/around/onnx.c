/* Around the one call of docs/runtime.md. */
#include <stdio.h>
#include <hypatia/onnx.h>

int main(void)
{
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
#pragma GCC diagnostic ignored "-Wunused-result"
@BLOCK@
    printf("%s\n", engine ? hyp_engine_device_name(engine) : diag.message);
    hyp_engine_destroy(engine);
    return engine == NULL;
}
