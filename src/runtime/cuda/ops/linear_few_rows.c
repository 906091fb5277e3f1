/* linear_few_rows.c - linear layers by our own kernel for few rows (kernels/few_rows.cu): how the work is dealt out, and its op. */
#include "runtime/cuda/ops/linear_few_rows.h"

#include "base/dtype.h"
#include "runtime/cuda/ops/linear.h"

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

static uint32_t tiles_of(const hyp_cuda_layer *l) { return divide_up(l->n / l->parts, l->tile); }

/* Rows of w that a block has, at most. */
static uint32_t most_rows(const hyp_cuda_layer *l)
{
    return (l->rows_each + (l->tiles_more > 0 ? l->tile : 0)) * l->parts;
}

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
    uint32_t tiles = tiles_of(l);
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
    l->sums = (uint32_t)hyp_cuda_round_up(sums, 4);
    l->biases = (uint32_t)hyp_cuda_round_up(l->turned ? l->rows : most, 4);
    if (how == SHARED_ROWS || !l->aligned) l->x_pieces = l->rows * l->pieces;
    if (l->norm) {
        if (how != SINGLE_ROW || !l->aligned || l->turned) return false;
        l->x_pieces = 2 * l->pieces + divide_up(MOST_WARPS * (uint32_t)sizeof(float), HYP_CUDA_LAYER_PIECE);
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

double hyp_cuda_few_rows_share(hyp_dtype dtype, bool tf32, int64_t m, int64_t n, int64_t k)
{
    const double bytes = (double)n * (double)k * (double)hyp_dtype_size(dtype), turned_f32 = 3e8, turned = 8e6, small = 2e6;
    bool strict = dtype == HYP_F32 && !tf32;
    if (m > HYP_CUDA_LAYER_ROWS) { /* with the roles exchanged: what streams through is x */
        const double x_bytes = (double)m * (double)k * (double)hyp_dtype_size(dtype);
        return strict ? x_bytes * (double)n / turned_f32 : x_bytes / turned;
    }
    return strict || m == 1 ? 0 : bytes / small;
}

/* With the rows of w in so many parts. */
static const char *plan(hyp_dtype dtype, int64_t m, int64_t n, int64_t k, int norm, uint32_t parts,
                        const hyp_cuda_few_rows_device *device, hyp_cuda_few_rows *out)
{
    const int64_t largest = 1 << 24; /* so that indexes within a launch are 32-bit numbers */
    *out = (hyp_cuda_few_rows){0};
    bool f8 = dtype == HYP_F8E4M3, turned = m > HYP_CUDA_LAYER_ROWS;
    if (!f8 && dtype != HYP_F32 && dtype != HYP_F16 && dtype != HYP_BF16) return "it has no kernel for this type";
    if (f8 && (m != 1 || norm != HYP_CUDA_NORM_NONE || k % HYP_CUDA_LAYER_PIECE != 0))
        return "in 8 bits it does one row, of a multiple of 16 elements";
    if (m < 1 || n < 1 || k < 1 || m > largest || n > largest || k > largest) return "its sizes are out of range";
    if (turned && n > HYP_CUDA_LAYER_ROWS) return "it does up to 16 rows, or 16 columns";
    hyp_cuda_layer *l = &out->args;
    l->turned = turned;
    l->norm = (uint8_t)norm;
    l->rows = (uint32_t)(turned ? n : m);
    l->n = (uint32_t)(turned ? m : n);
    l->k = (uint32_t)k;
    l->scale = 1;
    l->parts = parts;
    return lay_out(dtype, device, out) ? NULL : "its rows are too long for registers and shared memory";
}

const char *hyp_cuda_few_rows_plan(hyp_dtype dtype, int64_t m, int64_t n, int64_t k, int norm,
                                   const hyp_cuda_few_rows_device *device, hyp_cuda_few_rows *out)
{
    return plan(dtype, m, n, k, norm, 1, device, out);
}

bool hyp_cuda_few_rows_by_parts(hyp_dtype dtype, int64_t n, int64_t k, uint32_t parts,
                                const hyp_cuda_few_rows_device *device, hyp_cuda_few_rows *out)
{
    const char *cannot = plan(dtype, 1, n, k, HYP_CUDA_NORM_NONE, parts, device, out);
    return !cannot && n % parts == 0 && out->args.aligned && most_rows(&out->args) / parts <= out->threads;
}

/* ---- as an op ------------------------------------------------------------------------------------------------ */

hyp_cuda_few_rows_device hyp_cuda_few_rows_device_of(const hyp_cuda_device *d)
{
    return (hyp_cuda_few_rows_device){(uint32_t)d->multiprocessors, d->shared_bytes};
}

const char *hyp_cuda_few_rows_find(const hyp_cuda_build *b, const HypPlan__Linear *k, size_t l, int norm,
                                   hyp_cuda_few_rows *out)
{
    const hyp_cuda_device *d = b->session->model->device;
    const hyp_cuda_few_rows_device device = hyp_cuda_few_rows_device_of(d);
    const HypPlan__Layer *from = k->layers[l];
    if (!d->layers) return "it needs compute capability 9.0";
    if (from->weight_kn) return "its weight lies as [k, n]";
    return hyp_cuda_few_rows_plan(hyp_cuda_dtype(b->program, k->x), b->values[k->m], b->values[from->n],
                                  b->values[from->k], norm, &device, out);
}

hyp_status hyp_cuda_add_few_rows(hyp_cuda_build *b, const HypPlan__Linear *k, size_t l)
{
    const HypPlan__Layer *from = k->layers[l];
    hyp_cuda_few_rows form;
    hyp_cuda_own_norm norm = {0};
    const char *cannot = "it reads no normalization";
    if (l == 0 && k->normalizes && hyp_cuda_newest_norm(b, k->x, &norm) && norm.rows == b->values[k->m] &&
        norm.size == b->values[from->k])
        cannot = hyp_cuda_few_rows_find(b, k, l, norm.kind, &form);
    if (cannot) {
        norm.kind = HYP_CUDA_NORM_NONE;
        cannot = hyp_cuda_few_rows_find(b, k, l, norm.kind, &form);
    }
    if (cannot) return hyp_fail(b->diag, HYP_ERR_UNSUPPORTED, "our kernel for few rows: %s", cannot);
    if (norm.kind) b->prepared->ops.len--;
    uint32_t x = norm.kind ? norm.x : hyp_cuda_layer_input(k, l);
    hyp_cuda_layer *args = &form.args;
    args->act = (uint8_t)hyp_plan_act_op(from->act);
    args->add_after = k->add_after != 0;
    if (hyp_cuda_dtype(b->program, k->x) == HYP_F8E4M3) args->scale = from->x_scale * from->weight_scale;
    args->constant = !args->turned && hyp_cuda_is_constant(b, from->weight + 1);
    args->bias_constant = hyp_cuda_is_constant(b, from->bias_plus1);
    if (norm.kind) {
        args->epsilon = norm.epsilon;
        args->constant =
            args->constant && hyp_cuda_is_constant(b, norm.scale + 1) && hyp_cuda_is_constant(b, norm.bias_plus1);
    }
    const hyp_cuda_grid grid = {.kernel = form.kernel,
                                .blocks = form.blocks,
                                .block_x = form.threads,
                                .block_y = 1,
                                .shared_bytes = (uint32_t)form.shared_bytes};
    const hyp_cuda_slot slots[] = {
        HYP_CUDA_SLOT(hyp_cuda_layer, weight, (args->turned ? x : from->weight) + 1),
        HYP_CUDA_SLOT(hyp_cuda_layer, x, (args->turned ? from->weight : x) + 1),
        HYP_CUDA_SLOT(hyp_cuda_layer, y, hyp_cuda_layer_result(k, l) + 1),
        HYP_CUDA_SLOT(hyp_cuda_layer, bias, from->bias_plus1),
        HYP_CUDA_SLOT(hyp_cuda_layer, added, l + 1 == k->n_layers ? k->added_plus1 : 0),
        HYP_CUDA_SLOT(hyp_cuda_layer, norm_scale, norm.kind ? norm.scale + 1 : 0),
        HYP_CUDA_SLOT(hyp_cuda_layer, norm_bias, norm.kind ? norm.bias_plus1 : 0)};
    return hyp_cuda_add_launch(b, &grid, args, sizeof *args, slots, sizeof slots / sizeof *slots);
}
