/* Around the buckets of docs/runtime.md. */
#include <hypatia/runtime.h>

void around(hyp_engine *engine, hyp_context *context);

void around(hyp_engine *engine, hyp_context *context)
{
    hyp_diag diag = {0};
#pragma GCC diagnostic ignored "-Wunused-result"
@BLOCK@
}
