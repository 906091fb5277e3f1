/* along.c - steps that work along one axis: where the largest is, the k largest, running sums. What is long is made in
 * parts where there is little else to do, by two launches, of which the second takes what the first leaves in the
 * session's room. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/reduce.h"
#include "runtime/cuda/ops/scans.h"

hyp_cuda_call_fn hyp_cuda_add_locate, hyp_cuda_add_scan, hyp_cuda_add_topk;

/* Threads of the device that are worth having. */
static int64_t wanted_threads(const hyp_cuda_device *device)
{
    enum { PER_MULTIPROCESSOR = 1024 };
    return (int64_t)device->multiprocessors * PER_MULTIPROCESSOR;
}

/* In how many parts so many lanes are made, each of which has a team of the threads, or blocks, that are wanted, and at
 * most so many parts. */
static int64_t parts_of(int64_t wanted, int64_t lanes, int64_t team, int64_t most)
{
    int64_t parts = wanted / team / lanes; /* lanes may be so many that their threads have no number */
    if (parts > most) parts = most;
    return parts < 1 ? 1 : parts;
}

/* ---- order ------------------------------------------------------------------------------------------------- */

hyp_cuda_order hyp_cuda_order_of(hyp_dtype dtype, bool largest, bool nan_first)
{
    const uint32_t size = (uint32_t)hyp_dtype_size(dtype);
    const uint64_t all = UINT64_MAX >> (64 - 8 * size), sign = all ^ all >> 1;
    hyp_cuda_order o = {.sign = sign, .size = size, .flip = largest ? 0 : all, .nan = nan_first ? all : 0};
    switch (dtype) {
    case HYP_F64: o.number = (uint64_t)0x7ff << 52; break;
    case HYP_F32: o.number = (uint64_t)0xff << 23; break;
    case HYP_F16: o.number = (uint64_t)0x1f << 10; break;
    case HYP_BF16: o.number = (uint64_t)0xff << 7; break;
    case HYP_F8E4M3: o.number = 0x7e; break;
    case HYP_I8:
    case HYP_I16:
    case HYP_I32:
    case HYP_I64: break;
    default: o.sign = 0;
    }
    return o;
}

/* ---- where the largest is ---------------------------------------------------------------------------------- */

typedef struct locate {
    hyp_cuda_locate first, second;
    hyp_cuda_grid first_grid, second_grid;
    uint32_t x, places, values_plus1; /* values: where they are wanted, too */
    bool in_parts;
} locate;

static hyp_status locate_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    locate *p = data;
    hyp_cuda_locate *last = p->in_parts ? &p->second : &p->first;
    p->first.x = last->x = s->at[p->x];
    p->first.list = last->list = p->in_parts ? s->room : 0;
    last->places = s->at[p->places];
    last->values = p->values_plus1 ? s->at[p->values_plus1 - 1] : 0;
    HYP_TRY(hyp_cuda_launch(s, &p->first_grid, &p->first, diag));
    return p->in_parts ? hyp_cuda_launch(s, &p->second_grid, &p->second, diag) : HYP_OK;
}

/* Threads that share a lane lie along x where elements of it are neighbours, so many that each has some and the device
 * is full; where neighbours are of other lanes a thread has a lane of its own if there are enough of them. */
static hyp_cuda_grid locate_grid(const hyp_cuda_device *device, int64_t lanes, const hyp_along *s)
{
    enum { THREADS = 256, WARP = 32, LEAST = 8, EACH = 8 };
    const hyp_cuda_kernel kernel = HYP_CUDA_KERNEL_locate;
    const uint32_t room = sizeof(hyp_cuda_ranked);
    const int64_t wanted = wanted_threads(device);
    hyp_cuda_grid grid = {.kernel = kernel, .block_x = THREADS, .block_y = 1};
    if (s->inner > 1) return lanes >= wanted ? grid : hyp_cuda_column_grid(kernel, device, lanes, s->size, false, room);
    grid.block_x = LEAST;
    while (grid.block_x < THREADS && s->size > EACH * (int64_t)grid.block_x &&
           (grid.block_x < WARP || lanes < wanted / grid.block_x))
        grid.block_x *= 2;
    grid.block_y = THREADS / grid.block_x;
    grid.shared_bytes = THREADS / WARP * room;
    return grid;
}

/* What comes first of each lane of x, as its places and, where they are wanted, its values. There are lanes. */
static hyp_status add_first(hyp_cuda_build *b, const hyp_along *s, hyp_cuda_order order, bool last_of_equals,
                            uint32_t x, uint32_t places, uint32_t values_plus1)
{
    enum { EACH = 16, MOST = 1024 }; /* EACH: elements that a thread has at least */
    const hyp_cuda_kernel kernel = HYP_CUDA_KERNEL_locate;
    const hyp_cuda_device *device = b->session->model->device;
    void *data;
    const int64_t lanes = s->outer * s->inner;
    const bool along_x = s->inner == 1;
    hyp_cuda_grid grid = locate_grid(device, lanes, s);
    const int64_t team = along_x ? grid.block_x : grid.block_y, most = s->size / (EACH * team);
    const int64_t parts = parts_of(wanted_threads(device), lanes, team, most < MOST ? most : MOST);
    HYP_TRY(hyp_cuda_add_op(b, locate_run, sizeof(locate), &data));
    locate *p = data;
    *p = (locate){.x = x, .places = places, .values_plus1 = values_plus1, .in_parts = parts > 1};
    p->first = (hyp_cuda_locate){.order = order,
                                 .lanes = hyp_cuda_extent_of(lanes),
                                 .inner = hyp_cuda_extent_of(s->inner),
                                 .axis = s->size,
                                 .terms = (s->size + parts - 1) / parts,
                                 .total = lanes * parts,
                                 .to_list = parts > 1,
                                 .last = last_of_equals,
                                 .along_x = along_x};
    grid.blocks = hyp_cuda_blocks(device, p->first.total, along_x ? grid.block_y : grid.block_x);
    p->first_grid = grid;
    if (parts > 1) {
        p->second = p->first;
        p->second.parts = parts;
        p->second.total = lanes;
        p->second.to_list = p->second.along_x = 0;
        p->second_grid = hyp_cuda_column_grid(kernel, device, lanes, parts, false, sizeof(hyp_cuda_ranked));
        HYP_TRY(hyp_cuda_want_room(b, (size_t)p->first.total * sizeof(hyp_cuda_ranked)));
    }
    return hyp_cuda_need_kernel(b, kernel);
}

hyp_status hyp_cuda_add_locate(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const bool largest = strcmp(k->kernel, "argmax") == 0;
    hyp_along s;
    HYP_TRY(hyp_kernel_read_locate(c, &s));
    if (c->out[0].count == 0) return HYP_OK;
    return add_first(b, &s, hyp_cuda_order_of(c->in[0].dtype, largest, true), c->attrs[2].i != 0,
                     hyp_plan_call_input(k, 0) - 1, k->outputs[0], 0);
}

/* ---- the first k ------------------------------------------------------------------------------------------- */

typedef struct topk {
    hyp_cuda_topk first, second;
    hyp_cuda_grid first_grid, second_grid;
    uint32_t x, values, places;
    bool in_parts, sorts_in_room;
} topk;

static hyp_status topk_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    topk *p = data;
    hyp_cuda_topk *last = p->in_parts ? &p->second : &p->first;
    p->first.x = last->x = s->at[p->x];
    last->values = s->at[p->values];
    last->places = s->at[p->places];
    last->room = p->sorts_in_room ? s->room : 0;
    if (p->in_parts) p->first.list = p->second.list = s->room;
    HYP_TRY(hyp_cuda_launch(s, &p->first_grid, &p->first, diag));
    return p->in_parts ? hyp_cuda_launch(s, &p->second_grid, &p->second, diag) : HYP_OK;
}

/* Digits of 8 bits that numbers up to this one have. */
static uint32_t digits_of(int64_t most)
{
    uint32_t digits = 1;
    for (; digits < 8 && most >> 8 * digits > 0;) digits++;
    return digits;
}

/* The launch that takes what the parts of so many lanes have left. */
static hyp_cuda_topk take_parts(const hyp_cuda_topk *parts, int64_t lanes)
{
    hyp_cuda_topk args = *parts;
    args.parts = hyp_cuda_extent_of(1);
    args.terms = parts->parts.size * parts->k;
    args.total = lanes;
    args.from_list = 1;
    args.to_list = 0;
    return args;
}

/* Blocks for so many lanes or parts of so many elements, in whose shared memory the last launch sorts so many words:
 * more threads where there is much of either. */
static hyp_cuda_grid topk_grid(const hyp_cuda_device *device, hyp_cuda_kernel kernel, int64_t total, int64_t elements,
                               int64_t words)
{
    enum { BLOCKS_PER_MULTIPROCESSOR = 8, MANY = 1024, LONG = 4096 };
    const int64_t most = (int64_t)device->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    return (hyp_cuda_grid){.kernel = kernel,
                           .blocks = (uint32_t)(total < most ? total : most),
                           .block_x = words > MANY || elements > LONG ? 2 * HYP_CUDA_DIGITS : HYP_CUDA_DIGITS,
                           .block_y = 1,
                           .shared_bytes = (HYP_CUDA_TOPK_COUNTS + (uint32_t)words) * (uint32_t)sizeof(uint64_t)};
}

/* Lanes that are short enough to be sorted whole, some by each block. */
static hyp_status add_sorted(hyp_cuda_build *b, const HypPlan__Call *call, const hyp_along *s, hyp_cuda_order order,
                             int64_t k)
{
    enum { THREADS = 256, LEAST = 4 };
    const bool is_short = order.size <= sizeof(uint32_t);
    const int64_t words = is_short ? 1 : 2, lanes = s->outer * s->inner;
    hyp_cuda_topk args = {
        .order = order, .inner = hyp_cuda_extent_of(s->inner), .axis = s->size, .total = lanes, .k = k, .padded = 1};
    while (args.padded < s->size) args.padded *= 2;
    hyp_cuda_grid grid = {.kernel = is_short ? HYP_CUDA_KERNEL_sort_short : HYP_CUDA_KERNEL_sort_long,
                          .block_x = LEAST};
    while (grid.block_x < THREADS && 2 * (int64_t)grid.block_x < args.padded) grid.block_x *= 2;
    grid.block_y = THREADS / grid.block_x;
    grid.blocks = hyp_cuda_blocks(b->session->model->device, lanes, grid.block_y);
    grid.shared_bytes = (uint32_t)((size_t)(grid.block_y * args.padded * words) * sizeof(uint64_t));
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_topk, x, hyp_plan_call_input(call, 0)),
                                   HYP_CUDA_SLOT(hyp_cuda_topk, values, call->outputs[0] + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_topk, places, call->outputs[1] + 1)};
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, sizeof slots / sizeof *slots);
}

hyp_status hyp_cuda_add_topk(hyp_cuda_build *b, const HypPlan__Call *call, const hyp_kernel_call *c)
{
    /* SHORT: words that are sorted faster than the first are found; LEAST: elements of a part */
    enum { SHORT = 256, LEAST = 2048, WANTED_PER_MULTIPROCESSOR = 8 };
    const hyp_cuda_device *device = b->session->model->device;
    const uint32_t x = hyp_plan_call_input(call, 0) - 1;
    const bool largest = c->attrs[2].i != 0, is_short = hyp_dtype_size(c->in[0].dtype) <= sizeof(uint32_t);
    const hyp_cuda_kernel kernel = is_short ? HYP_CUDA_KERNEL_topk_short : HYP_CUDA_KERNEL_topk_long;
    const int64_t words = is_short ? 1 : 2; /* of a number */
    hyp_along s;
    int64_t k, padded = 1;
    void *data;
    HYP_TRY(hyp_kernel_read_topk(c, &s, &k));
    if (c->out[0].count == 0) return HYP_OK;
    const hyp_cuda_order order = hyp_cuda_order_of(c->in[0].dtype, largest, largest);
    if (k == 1) return add_first(b, &s, order, false, x, call->outputs[1], call->outputs[0] + 1);
    if (s.size > INT32_MAX)
        return hyp_fail(b->diag, HYP_ERR_UNSUPPORTED,
                        "the CUDA kernel for topk takes axes of up to %d elements, not %lld", INT32_MAX,
                        (long long)s.size);
    if (words * s.size <= SHORT) return add_sorted(b, call, &s, order, k);
    while (padded < k) padded *= 2;
    const bool in_shared = words * padded <= HYP_CUDA_TOPK_TILE;
    const int64_t lanes = s.outer * s.inner, least = 4 * k > LEAST ? 4 * k : LEAST;
    const int64_t wanted = (int64_t)device->multiprocessors * WANTED_PER_MULTIPROCESSOR;
    /* What parts leave is not to be more than one of them has. */
    const int64_t even = (int64_t)sqrt((double)s.size / (double)k), most = s.size / least;
    const int64_t parts = in_shared ? parts_of(wanted, lanes, 1, most < even ? most : even) : 1;
    HYP_TRY(hyp_cuda_add_op(b, topk_run, sizeof(topk), &data));
    topk *p = data;
    *p = (topk){.x = x,
                .values = call->outputs[0],
                .places = call->outputs[1],
                .in_parts = parts > 1,
                .sorts_in_room = !in_shared};
    p->first = (hyp_cuda_topk){.order = order,
                               .inner = hyp_cuda_extent_of(s.inner),
                               .parts = hyp_cuda_extent_of(parts),
                               .axis = s.size,
                               .terms = (s.size + parts - 1) / parts,
                               .total = lanes * parts,
                               .k = k,
                               .padded = padded,
                               .digits = order.size + digits_of(s.size),
                               .to_list = parts > 1};
    p->second = take_parts(&p->first, lanes);
    const int64_t sorted = in_shared ? words * padded : HYP_CUDA_TOPK_TILE;
    p->first_grid = topk_grid(device, kernel, p->first.total, p->first.terms, parts > 1 ? 0 : sorted);
    p->second_grid = topk_grid(device, kernel, lanes, p->second.terms, sorted);
    const size_t number = (size_t)words * sizeof(uint64_t);
    if (parts > 1) HYP_TRY(hyp_cuda_want_room(b, (size_t)(p->first.total * k) * number));
    if (!in_shared) HYP_TRY(hyp_cuda_want_room(b, (size_t)(p->first_grid.blocks * padded) * number));
    return hyp_cuda_need_kernel(b, kernel);
}

/* ---- running sums ------------------------------------------------------------------------------------------ */

typedef struct scan_op {
    hyp_cuda_scans scan;
    uint32_t x, y;
} scan_op;

hyp_status hyp_cuda_scans_run(hyp_cuda_session *s, hyp_cuda_scans *p, CUdeviceptr x, CUdeviceptr y, CUdeviceptr sums,
                              hyp_diag *diag)
{
    p->args.x = x;
    p->args.y = y;
    p->args.sums = p->room > 0 ? sums : 0;
    p->args.makes_sums = p->room > 0;
    HYP_TRY(hyp_cuda_launch(s, &p->grid, &p->args, diag));
    if (p->room == 0) return HYP_OK;
    p->args.makes_sums = 0;
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

static hyp_status scan_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    scan_op *p = data;
    return hyp_cuda_scans_run(s, &p->scan, s->at[p->x], s->at[p->y], s->room, diag);
}

hyp_cuda_scans hyp_cuda_scans_of(const hyp_cuda_device *device, const hyp_along *s, hyp_cuda_kernel kernel,
                                 hyp_dtype dtype, hyp_dtype y_dtype)
{
    /* A thread has a lane of its own where neighbours are of other lanes, or where a lane is short; else a warp, or a
     * block. */
    enum { THREADS = 256, WARP = 32, SHORT = 8, LONG = 1024, TILES = 2, MOST = 1024 };
    const uint32_t team = s->inner > 1 || s->size <= SHORT ? 1 : s->size <= LONG ? WARP : THREADS;
    const int64_t lanes = s->outer * s->inner, tile = (int64_t)team * HYP_CUDA_SCAN_EACH,
                  most = s->size / (TILES * tile);
    const int64_t wanted = (team == THREADS ? 2 : 1) * wanted_threads(device); /* barriers let a block wait for itself */
    int64_t parts = parts_of(wanted, lanes, team, most < MOST ? most : MOST);
    const int64_t terms = (int64_t)hyp_cuda_round_up((size_t)((s->size + parts - 1) / parts), (size_t)tile);
    parts = (s->size + terms - 1) / terms;
    return (hyp_cuda_scans){.args = {.lanes = hyp_cuda_extent_of(lanes),
                                     .inner = hyp_cuda_extent_of(s->inner),
                                     .axis = s->size,
                                     .terms = terms,
                                     .total = lanes * parts,
                                     .dtype = dtype,
                                     .y_dtype = y_dtype},
                            .grid = {.kernel = kernel,
                                     .blocks = hyp_cuda_blocks(device, lanes * parts, THREADS / team),
                                     .block_x = team,
                                     .block_y = THREADS / team,
                                     .shared_bytes = THREADS / WARP * sizeof(double)},
                            .room = parts > 1 ? (size_t)(lanes * parts) * sizeof(double) : 0};
}

/* The most common types have kernels of their own. */
static hyp_cuda_kernel scan_kernel(hyp_dtype dtype)
{
    switch (dtype) {
    case HYP_F32: return HYP_CUDA_KERNEL_scan_of_f32;
    case HYP_F16: return HYP_CUDA_KERNEL_scan_of_f16;
    case HYP_BF16: return HYP_CUDA_KERNEL_scan_of_bf16;
    case HYP_I64: return HYP_CUDA_KERNEL_scan_of_i64;
    default: return hyp_dtype_is_float(dtype) ? HYP_CUDA_KERNEL_scan_f64 : HYP_CUDA_KERNEL_scan_u64;
    }
}

hyp_status hyp_cuda_add_scan(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0];
    const hyp_cuda_kernel kernel = scan_kernel(x->dtype);
    hyp_along s;
    void *data;
    HYP_TRY(hyp_kernel_read_scan(c, &s));
    if (x->count == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_add_op(b, scan_run, sizeof(scan_op), &data));
    scan_op *p = data;
    *p = (scan_op){.scan = hyp_cuda_scans_of(b->session->model->device, &s, kernel, x->dtype, x->dtype),
                   .x = hyp_plan_call_input(k, 0) - 1,
                   .y = k->outputs[0]};
    p->scan.args.product = strcmp(k->kernel, "cumprod") == 0;
    p->scan.args.exclusive = c->attrs[1].i != 0;
    p->scan.args.reverse = c->attrs[2].i != 0;
    if (p->scan.room > 0) HYP_TRY(hyp_cuda_want_room(b, p->scan.room));
    return hyp_cuda_need_kernel(b, kernel);
}
