/* Around the events of docs/runtime.md: CUDA's types by name. */
#include <hypatia/runtime.h>

typedef void *cudaStream_t, *cudaEvent_t;
int cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
void around(hyp_context *context, hyp_tensor x, hyp_tensor y, void *x_is_there, cudaEvent_t y_is_there, cudaStream_t other);

void around(hyp_context *context, hyp_tensor x, hyp_tensor y, void *x_is_there, cudaEvent_t y_is_there, cudaStream_t other)
{
    hyp_diag diag = {0};
#pragma GCC diagnostic ignored "-Wunused-result"
@BLOCK@
}
