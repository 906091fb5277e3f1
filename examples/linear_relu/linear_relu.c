/* linear_relu - y = relu(x w^T + b) and its gradients, without a model: on a GPU where there is one, else on the CPU.
 *
 *   linear_relu [cpu|cuda|reference]
 *
 * 200 steps of gradient descent find a layer by what it gives: the loss is printed, and has to fall to a tenth.
 * docs/nn.md tells of the functions.
 */
#include <stdio.h>
#include <string.h>

#include "hypatia/nn.h"

enum { ROWS = 256, IN = 8, OUT = 16, STEPS = 200, BYTES = 4 };

static hyp_nn *nn;
static hyp_diag diag;

static int check(hyp_status status)
{
    if (status != HYP_OK) fprintf(stderr, "%s\n", diag.message);
    return status == HYP_OK;
}

/* rows x columns of f32 on the device; rank 1 where there is one row. */
static hyp_tensor matrix(int64_t rows, int64_t columns)
{
    hyp_tensor t = {.bytes = (size_t)(rows * columns) * BYTES, .dtype = HYP_F32, .rank = 2, .dims = {rows, columns}};
    if (rows == 1) t.rank = 1, t.dims[0] = columns;
    check(hyp_nn_tensor_alloc(nn, &t, &diag));
    return t;
}

/* Copies a tensor from numbers on the host, or to them. */
static int copy(hyp_tensor *device, float *host, int to_device)
{
    hyp_tensor here = *device;
    here.data = host;
    here.memory = HYP_MEMORY_HOST;
    return check(hyp_nn_synchronize(nn, &diag)) && check(to_device ? hyp_nn_tensor_copy(nn, &here, device, &diag)
                                                                   : hyp_nn_tensor_copy(nn, device, &here, &diag));
}

static float noise(void) /* between -1 and 1 */
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1;
}

int main(int argc, char **argv)
{
    static float x[ROWS * IN], w[OUT * IN], b[OUT], y[ROWS * OUT], wanted[ROWS * OUT], dw[OUT * IN], db[OUT];
    const char *name = argc > 1 ? argv[1] : "";
    hyp_engine_options options = {.size = sizeof options};
    options.device = !strcmp(name, "cpu")         ? HYP_DEVICE_CPU
                     : !strcmp(name, "cuda")      ? HYP_DEVICE_CUDA
                     : !strcmp(name, "reference") ? HYP_DEVICE_REFERENCE
                                                  : HYP_DEVICE_AUTO;
    if (!check(hyp_nn_create(&options, NULL, &nn, &diag))) return 1;
    hyp_tensor tx = matrix(ROWS, IN), tw = matrix(OUT, IN), tb = matrix(1, OUT), ty = matrix(ROWS, OUT),
               tdy = matrix(ROWS, OUT), tdw = matrix(OUT, IN), tdb = matrix(1, OUT), saved = {0};
    if (!check(hyp_linear_relu_saved_bytes(nn, &tw, &tx, &saved.bytes, &diag)) ||
        !check(hyp_nn_tensor_alloc(nn, &saved, &diag)))
        return 1;
    printf("%s: %zu bytes are saved for %d results\n", hyp_nn_device_name(nn), saved.bytes, ROWS * OUT);
    for (int i = 0; i < ROWS * IN; i++) x[i] = noise();
    for (int i = 0; i < OUT * IN; i++) w[i] = noise() / 2;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < OUT; j++) { /* max(u, 0) of a sum of two inputs */
            float u = x[i * IN + j % IN] - x[i * IN + (j + 3) % IN] + 0.1f;
            wanted[i * OUT + j] = u > 0 ? u : 0;
        }
    float loss = 0, first = 0;
    if (!copy(&tx, x, 1)) return 1;
    for (int step = 0; step < STEPS; step++) {
        if (!copy(&tw, w, 1) || !copy(&tb, b, 1) ||
            !check(hyp_linear_relu_forward(nn, &tw, &tb, &tx, &ty, &saved, NULL, &diag)) || !copy(&ty, y, 0))
            return 1;
        loss = 0;
        for (int i = 0; i < ROWS * OUT; i++) {
            y[i] -= wanted[i]; /* the gradient of half the square */
            loss += y[i] * y[i] / (ROWS * OUT);
        }
        if (step == 0) first = loss;
        if (!copy(&tdy, y, 1) ||
            !check(hyp_linear_relu_backward(nn, &tw, &tx, &saved, &tdy, NULL, &tdw, &tdb, NULL, &diag)) ||
            !copy(&tdw, dw, 0) || !copy(&tdb, db, 0))
            return 1;
        for (int i = 0; i < OUT * IN; i++) w[i] -= dw[i] / ROWS;
        for (int i = 0; i < OUT; i++) b[i] -= db[i] / ROWS;
    }
    printf("mean square of the error: %.4f, after %d steps %.4f\n", first, STEPS, loss);
    hyp_tensor *all[] = {&tx, &tw, &tb, &ty, &tdy, &tdw, &tdb, &saved};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) hyp_nn_tensor_free(nn, all[i]);
    hyp_nn_destroy(nn);
    return loss < first / 10 ? 0 : 1;
}
