/* Around the signed plan of docs/runtime.md: a program that takes no other. */
#include <hypatia/runtime.h>
#include <hypatia/signature.h>

void around(hyp_engine *engine);

void around(hyp_engine *engine)
{
    hyp_diag diag = {0};
#pragma GCC diagnostic ignored "-Wunused-result"
@BLOCK@
}
