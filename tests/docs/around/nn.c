/* Around the calls of docs/nn.md: two layers on the CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <hypatia/nn.h>

static hyp_tensor matrix(int64_t rows, int64_t columns)
{
    hyp_tensor t = {.dtype = HYP_F32, .rank = rows == 1 ? 1 : 2, .dims = {rows == 1 ? columns : rows, rows == 1 ? 0 : columns}};
    t.bytes = (size_t)(rows * columns) * 4;
    t.data = aligned_alloc(64, t.bytes + 64 - t.bytes % 64);
    for (int64_t i = 0; i < rows * columns; i++) ((float *)t.data)[i] = (float)(i % 7) - 3;
    return t;
}

int main(void)
{
    hyp_nn *nn = NULL;
    hyp_diag diag = {0};
    hyp_nn_layer layers[2] = {{.weight = matrix(16, 8), .bias = matrix(1, 16), .act = HYP_NN_RELU}, {.weight = matrix(4, 16), .bias = matrix(1, 4)}};
    hyp_nn_gradient gradients[2] = {{matrix(16, 8), matrix(1, 16)}, {matrix(4, 16), matrix(1, 4)}};
    hyp_tensor x = matrix(3, 8), y = matrix(3, 4), dy = matrix(3, 4), dx = matrix(3, 8), saved = {0};
#pragma GCC diagnostic ignored "-Wunused-result"
@BLOCK@
    printf("%s\n", diag.message);
    hyp_nn_destroy(nn);
    return diag.status != HYP_OK;
}
