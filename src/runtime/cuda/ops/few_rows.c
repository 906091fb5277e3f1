#include "runtime/cuda/ops/few_rows.h"

#include "base/dtype.h"

enum { LANES = 32, MOST_WARPS = HYP_CUDA_LAYER_THREADS / LANES };

static uint32_t divide_up(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

/* How a type's rows of x are multiplied (few_rows.cu). */
typedef enum manner { SINGLE_ROW, SHARED_ROWS, TENSOR_ROWS } manner;

static manner manner_of(hyp_dtype dtype, uint32_t rows)
{
    if (rows == 1) return SINGLE_ROW;
    return dtype == HYP_F32 ? SHARED_ROWS : TENSOR_ROWS;
}

static hyp_cuda_kernel kernel_of(hyp_dtype dtype, uint32_t rows, uint32_t threads)
{
    if (dtype == HYP_F8E4M3) return HYP_CUDA_KERNEL_layer_f8e4m3_1;
    static const hyp_cuda_kernel kernels[][3] = {
        {HYP_CUDA_KERNEL_layer_f32_1, HYP_CUDA_KERNEL_layer_f32_1_short, HYP_CUDA_KERNEL_layer_f32_16},
        {HYP_CUDA_KERNEL_layer_f16_1, HYP_CUDA_KERNEL_layer_f16_1_short, HYP_CUDA_KERNEL_layer_f16_16},
        {HYP_CUDA_KERNEL_layer_bf16_1, HYP_CUDA_KERNEL_layer_bf16_1_short, HYP_CUDA_KERNEL_layer_bf16_16}};
    return kernels[dtype == HYP_F32 ? 0 : dtype == HYP_F16 ? 1 : 2][rows > 1 ? 2 : threads <= HYP_CUDA_LAYER_SHORT];
}

static uint32_t tiles_of(const hyp_cuda_layer *l) { return divide_up(l->n, l->tile); }

/* Rows of w that a block has, at most. */
static uint32_t most_rows(const hyp_cuda_layer *l) { return l->rows_each + (l->tiles_more > 0 ? l->tile : 0); }

/* Chooses how many warps share a row: as many as make the longest list of a warp short, where every row, or part of
 * one, ends with a sum over the lanes that costs about as much as two steps along it. False when a row of x is too long
 * for the registers. */
static bool choose_splits(hyp_cuda_layer *l, manner how, uint32_t per_piece, uint32_t warps)
{
    bool tensor = how == TENSOR_ROWS;
    uint32_t held = tensor ? HYP_CUDA_LAYER_GROUPS : how == SINGLE_ROW ? HYP_CUDA_LAYER_HELD / per_piece : UINT32_MAX;
    uint32_t step = tensor ? LANES / HYP_CUDA_LAYER_TILE : LANES, groups = divide_up(l->pieces, step);
    uint64_t least = UINT64_MAX;
    for (uint32_t log = 0; 1u << log <= warps && (log == 0 || 1u << log <= groups); log++) {
        uint32_t steps = divide_up(groups, 1u << log), at_once = (warps >> log) * (tensor ? HYP_CUDA_LAYER_TILE : 1);
        if (tensor && 1u << log < warps && 1u << (log + 1) <= groups) continue; /* every tile to all warps */
        uint64_t cost = (uint64_t)divide_up(most_rows(l), at_once) * (steps + 2);
        if (steps > held || cost >= least) continue;
        least = cost;
        l->log_splits = (uint8_t)log;
    }
    return least != UINT64_MAX;
}

/* Deals the rows of w out to the blocks. */
static void deal_out(hyp_cuda_layer *l, manner how, uint32_t blocks)
{
    l->tile = how == TENSOR_ROWS ? HYP_CUDA_LAYER_TILE : 1;
    uint32_t tiles = divide_up(l->n, l->tile);
    l->rows_each = tiles / blocks * l->tile;
    l->tiles_more = tiles % blocks;
}

/* Rows to fetch at a time: so many that every warp has some, and not much below CHUNK bytes. */
static uint32_t choose_chunk(const hyp_cuda_layer *l, manner how, uint32_t warps)
{
    enum { CHUNK = 12 << 10 };
    uint32_t row = l->pieces * HYP_CUDA_LAYER_PIECE, all = most_rows(l);
    uint32_t unit = how == TENSOR_ROWS ? HYP_CUDA_LAYER_TILE : warps >> l->log_splits;
    uint32_t rows = unit * (unit * row < CHUNK ? CHUNK / (unit * row) : 1);
    return rows < all ? rows : all;
}

static uint32_t round_up(uint32_t a, uint32_t b) { return divide_up(a, b) * b; }

/* Few threads start and meet sooner, and have the registers for a normalization; many keep more reads under way. f32
 * with many rows computes more than it reads. */
static uint32_t choose_warps(const hyp_cuda_layer *l, manner how, uint32_t rows_of_block)
{
    enum { FEW = HYP_CUDA_LAYER_SHORT / LANES, FEW_ROWS = 4 };
    const uint32_t few_pieces = (16 << 10) / HYP_CUDA_LAYER_PIECE; /* that a block reads */
    if (how == TENSOR_ROWS || l->norm) return FEW;
    return rows_of_block * l->pieces <= few_pieces && l->rows <= FEW_ROWS ? FEW : MOST_WARPS;
}

/* Stages for which there is room beside `other` bytes. The block of the next kernel should fit beside this one, so that
 * it can begin to fetch: half of the shared memory is enough to keep the memory busy. */
static uint32_t stages_in(const hyp_cuda_few_rows_device *device, size_t other, size_t stage, uint32_t wanted)
{
    enum { OF_SYSTEM = 1 << 10, ENOUGH = 3 }; /* bytes that every block takes beside its own; stages */
    size_t half = (device->shared_bytes - OF_SYSTEM) / 2, all = device->shared_bytes;
    size_t in_half = other < half ? (half - other) / stage : 0, in_all = other < all ? (all - other) / stage : 0;
    size_t fit = in_half >= ENOUGH || in_half >= wanted ? in_half : in_all;
    return fit < wanted ? (uint32_t)fit : wanted;
}

/* Fills in what follows from the sizes; false when shared memory or registers do not take it. */
static bool lay_out(hyp_dtype dtype, const hyp_cuda_few_rows_device *device, hyp_cuda_few_rows *out)
{
    uint32_t per_piece = HYP_CUDA_LAYER_PIECE / (uint32_t)hyp_dtype_size(dtype);
    hyp_cuda_layer *l = &out->args;
    manner how = manner_of(dtype, l->rows);
    l->pieces = divide_up(l->k, per_piece);
    l->aligned = l->k % per_piece == 0;
    deal_out(l, how, device->multiprocessors);
    uint32_t most = most_rows(l), warps = choose_warps(l, how, most);
    if (!choose_splits(l, how, per_piece, warps)) {
        warps = MOST_WARPS;
        if (l->norm || !choose_splits(l, how, per_piece, warps)) return false;
    }
    l->chunk_rows = choose_chunk(l, how, warps);
    l->chunks = divide_up(most, l->chunk_rows);
    l->stage_pieces = l->chunk_rows * l->pieces;
    uint64_t sums = (uint64_t)(most << l->log_splits) * l->rows;
    if (sums > UINT16_MAX || l->stage_pieces > UINT16_MAX) return false;
    l->sums = round_up((uint32_t)sums, 4);
    l->biases = round_up(l->turned ? l->rows : most, 4);
    if (how == SHARED_ROWS || !l->aligned) l->x_pieces = l->rows * l->pieces;
    if (l->norm) {
        if (how != SINGLE_ROW || !l->aligned || l->turned) return false;
        l->x_pieces = 2 * l->pieces + round_up(MOST_WARPS * sizeof(float), HYP_CUDA_LAYER_PIECE) / HYP_CUDA_LAYER_PIECE;
    }
    size_t other = (size_t)l->x_pieces * HYP_CUDA_LAYER_PIECE + (l->biases + l->sums) * sizeof(float);
    size_t stage = (l->stage_pieces + HYP_CUDA_LAYER_BARRIERS) * HYP_CUDA_LAYER_PIECE;
    uint32_t wanted = l->chunks < HYP_CUDA_LAYER_STAGES ? l->chunks : HYP_CUDA_LAYER_STAGES;
    uint32_t stages = stages_in(device, other, stage, wanted); /* rows that are gathered take one, without barriers */
    l->stages = l->aligned ? stages : 0;
    out->threads = warps * LANES;
    out->kernel = kernel_of(dtype, l->rows, out->threads);
    out->blocks = tiles_of(l) < device->multiprocessors ? tiles_of(l) : device->multiprocessors;
    out->shared_bytes = other + stages * stage;
    return stages >= (wanted < 2 ? wanted : 2);
}

/* Where this kernel was measured to be faster than cuBLASLt (H200, cuBLASLt 13.1, layers of 512 x 512 to 4096 x 4096).
 * Strict f32 is wherever it runs at all: there the library has no tensor cores to use either. Further rows of other
 * types are only while the layer is small: the library takes its 3 us whatever it does, but feeds its tensor cores
 * better. Turned, what streams through is x, and the bounds are those that were tried. */
static bool wins(hyp_dtype dtype, bool tf32, const hyp_cuda_layer *l)
{
    const double bytes = (double)l->n * l->k * (double)hyp_dtype_size(dtype), turned_f32 = 3e8, turned = 8e6,
                 small = 2e6;
    if (dtype == HYP_F32 && !tf32) return !l->turned || bytes * l->rows < turned_f32;
    if (l->turned) return bytes < turned;
    return l->rows == 1 || bytes < small;
}

bool hyp_cuda_few_rows_plan(hyp_dtype dtype, bool tf32, int64_t m, int64_t n, int64_t k, int norm,
                            const hyp_cuda_few_rows_device *device, bool asked, hyp_cuda_few_rows *out)
{
    const int64_t largest = 1 << 24; /* so that indexes within a launch are 32-bit numbers */
    *out = (hyp_cuda_few_rows){0};
    bool f8 = dtype == HYP_F8E4M3;
    if (!f8 && dtype != HYP_F32 && dtype != HYP_F16 && dtype != HYP_BF16) return false;
    if (f8 && (m != 1 || norm != HYP_CUDA_NORM_NONE || k % HYP_CUDA_LAYER_PIECE != 0)) return false;
    if (m < 1 || n < 1 || k < 1 || m > largest || n > largest || k > largest) return false;
    bool turned = m > HYP_CUDA_LAYER_ROWS;
    if (turned && n > HYP_CUDA_LAYER_ROWS) return false;
    hyp_cuda_layer *l = &out->args;
    l->turned = turned;
    l->norm = (uint8_t)norm;
    l->rows = (uint32_t)(turned ? n : m);
    l->n = (uint32_t)(turned ? m : n);
    l->k = (uint32_t)k;
    l->scale = 1;
    return (asked || wins(dtype, tf32, l)) && lay_out(dtype, device, out);
}
