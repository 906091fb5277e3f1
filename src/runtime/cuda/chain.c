#include "runtime/cuda/chain.h"

#include "base/dtype.h"
#include "runtime/cuda/extent.h"

enum { WARPS = HYP_CUDA_LAYER_THREADS / 32, LANES = 32 };

/* Where our kernel is expected to win. The library takes about 2.7 us for a small product and reads large weights at
 * nearly the speed of memory. Ours reads as fast, and a further layer costs it less than a microsecond, but it
 * multiplies without tensor cores: every weight with every row of x. So few rows are always ours, and more of them only
 * where those multiplications take less time than the launches that are saved. */
static bool wins(hyp_dtype dtype, int64_t rows, const hyp_cuda_chain_layer *layers, size_t count,
                 const hyp_cuda_chain_device *device)
{
    enum { FEW_ROWS = 4 };
    const double saved = 2e-6;               /* seconds, for each layer */
    const double rate = 1.7e9 * 128;         /* multiplications of a multiprocessor in a second */
    double times = dtype == HYP_F32 ? 1 : 2; /* a 16-bit x is converted again for every weight */
    double products = 0;
    for (size_t i = 0; i < count; i++) products += (double)layers[i].n * (double)layers[i].k;
    if (rows <= FEW_ROWS) return true;
    return times * (double)rows * products / (rate * device->multiprocessors) < saved * (double)count;
}

static uint32_t divide_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

/* Warps that share a row: as many as make the longest list of a warp short. Every row, or part of one, ends with a sum
 * over the lanes, which costs about as much as a group of pieces. */
static uint32_t choose_log_splits(uint32_t rows, uint32_t pieces)
{
    uint32_t best = 0, groups = divide_up(pieces, LANES);
    uint64_t least = UINT64_MAX;
    for (uint32_t log = 0; 1u << log <= WARPS && 1u << log <= groups; log++) {
        uint64_t parts = (uint64_t)rows << log;
        uint64_t cost = (parts + WARPS - 1) / WARPS * (divide_up(groups, 1u << log) + 1);
        if (cost >= least) continue;
        least = cost;
        best = log;
    }
    return best;
}

static hyp_cuda_kernel kernel_of(hyp_dtype dtype, uint32_t rows)
{
    static const hyp_cuda_kernel kernels[][2] = {{HYP_CUDA_KERNEL_layers_f32_1, HYP_CUDA_KERNEL_layers_f32_16},
                                                 {HYP_CUDA_KERNEL_layers_f16_1, HYP_CUDA_KERNEL_layers_f16_16},
                                                 {HYP_CUDA_KERNEL_layers_bf16_1, HYP_CUDA_KERNEL_layers_bf16_16}};
    return kernels[dtype == HYP_F32 ? 0 : dtype == HYP_F16 ? 1 : 2][rows > 1];
}

static bool lay_out(hyp_dtype dtype, uint32_t rows, const hyp_cuda_chain_layer *layers, size_t count,
                    const hyp_cuda_chain_device *device, hyp_cuda_chain *out)
{
    uint32_t element = (uint32_t)hyp_dtype_size(dtype), per_piece = HYP_CUDA_LAYER_PIECE / element, widest = 1;
    size_t sums = 0; /* that a block keeps of a layer, for each row of x */
    hyp_cuda_layers *a = &out->args;
    a->layers = (uint32_t)count;
    a->rows = rows;
    for (size_t i = 0; i < count; i++)
        if (layers[i].n > widest) widest = (uint32_t)layers[i].n;
    out->blocks = widest < device->multiprocessors ? widest : device->multiprocessors;
    for (size_t i = 0; i < count; i++) {
        hyp_cuda_layer *l = &a->layer[i];
        l->n = (uint32_t)layers[i].n;
        l->k = (uint32_t)layers[i].k;
        l->pieces = divide_up(l->k, per_piece);
        l->rows_each = l->n / out->blocks;
        l->rows_more = l->n % out->blocks;
        l->aligned = l->k % per_piece == 0;
        uint32_t most = l->rows_each + (l->rows_more > 0);
        l->log_splits = choose_log_splits(most, l->pieces);
        size_t of_block = (size_t)most << l->log_splits;
        if (of_block > sums) sums = of_block;
        if (i > 0) {
            l->x_at = a->exchange_pieces;
            a->exchange_pieces += rows * l->pieces;
        }
        if (rows * l->pieces > a->x_pieces) a->x_pieces = rows * l->pieces;
    }
    out->kernel = kernel_of(dtype, rows);
    out->shared_bytes =
        (size_t)a->x_pieces * HYP_CUDA_LAYER_PIECE + sums * (rows > 1 ? HYP_CUDA_LAYER_ROWS : 1) * sizeof(float);
    return out->shared_bytes <= device->shared_bytes;
}

bool hyp_cuda_chain_plan(hyp_dtype dtype, int64_t rows, const hyp_cuda_chain_layer *layers, size_t count,
                         const hyp_cuda_chain_device *device, bool asked, hyp_cuda_chain *out)
{
    const int64_t largest = 1 << 24; /* so that indexes within a launch are 32-bit numbers */
    *out = (hyp_cuda_chain){0};
    if (dtype != HYP_F32 && dtype != HYP_F16 && dtype != HYP_BF16) return false;
    if (count == 0 || count > HYP_CUDA_LAYERS || rows < 1 || rows > largest) return false;
    for (size_t i = 0; i < count; i++)
        if (layers[i].n < 1 || layers[i].k < 1 || layers[i].n > largest || layers[i].k > largest) return false;
    bool turned = count == 1 && rows > HYP_CUDA_LAYER_ROWS && layers[0].n <= HYP_CUDA_LAYER_ROWS;
    if (rows > HYP_CUDA_LAYER_ROWS && !turned) return false;
    const hyp_cuda_chain_layer swapped = {.n = rows, .k = layers[0].k};
    if (turned) {
        rows = layers[0].n;
        layers = &swapped;
    }
    out->args.turned = turned;
    return (asked || wins(dtype, rows, layers, count, device)) &&
           lay_out(dtype, (uint32_t)rows, layers, count, device, out);
}
