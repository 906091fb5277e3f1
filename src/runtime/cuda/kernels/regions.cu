// regions.cu - places and regions of images that the data give: grids that are moved, bins of regions, boxes that do
// not overlap, and what pools have left put back where it was. In double and in the order of the reference, with every
// product and sum rounded, so that what is rounded to whole numbers, or compared, is the same. Part of image.cu, behind
// sample.cu.
#include "runtime/cuda/kernels/regions_args.h"

inline namespace hyp_device
{

// ---- grids --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void move_grid(const hyp_cuda_affine_grid &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t rest = divide(i, p.axes), axis = i - rest * p.axes.size;
        int64_t at[HYP_CUDA_GRID_AXES];
#pragma unroll
        for (int a = 0; a < HYP_CUDA_GRID_AXES; a++) {
            int64_t next = divide(rest, p.size[a]);
            at[a] = rest - next * p.size[a].size;
            rest = next;
        }
        int64_t row = (rest * p.axes.size + axis) * (p.axes.size + 1);
        double sum = load<double>(p.dtype, p.theta, row + p.axes.size);
#pragma unroll
        for (int a = 0; a < HYP_CUDA_GRID_AXES; a++) {
            if (a >= p.axes.size) break;
            double n = (double)p.size[a].size, place = 2 * (double)at[a];
            place = !p.align_corners ? (place + 1) / n - 1 : n > 1 ? place / (n - 1) - 1 : 0;
            sum = rounded_sum(sum, rounded_product(load<double>(p.dtype, p.theta, row + a), place));
        }
        store<double>(p.y_dtype, p.y, i, sum);
    }
}

// ---- bins of regions ----------------------------------------------------------------------------------------------

// One axis of a sample: two neighbours. False where it is outside of the image.
__device__ __forceinline__ bool locate_sample(double at, int64_t size, int64_t (&places)[2], double (&weights)[2])
{
    if (!(at >= -1 && at <= (double)size)) return false;
    at = fmin(fmax(at, 0.0), (double)(size - 1));
    places[0] = (int64_t)at;
    places[1] = places[0] + 1 < size ? places[0] + 1 : places[0];
    weights[1] = at - (double)places[0];
    weights[0] = 1 - weights[1];
    return true;
}

// Where a bin of a region begins along an axis, how large it is and how many samples it has.
struct roi_bin {
    double start, size;
    int64_t samples;

    __device__ roi_bin(const hyp_cuda_roi_align &p, int64_t region, int axis, int64_t bin)
    {
        const double shift = p.half_pixel ? 0.5 : 0, bins = (double)p.bins[axis].size;
        double low = load<double>(p.region_dtype, p.regions, 4 * region + axis);
        double high = load<double>(p.region_dtype, p.regions, 4 * region + 2 + axis);
        start = rounded_product(low, p.scale) - shift;
        size = rounded_product(high, p.scale) - shift - start;
        if (!p.half_pixel && !(size >= 1)) size = 1;
        size /= bins;
        double wanted = p.samples > 0 ? (double)p.samples : ceil(size);
        samples = !(wanted <= (double)p.most) ? p.most + 1 : wanted > 0 ? (int64_t)wanted : 0;
        start = rounded_sum(start, rounded_product((double)bin, size));
    }
    __device__ double at(int64_t i) const
    {
        return rounded_sum(start, rounded_product((double)i + 0.5, size) / (double)samples);
    }
};

__device__ __forceinline__ void pool_regions(const hyp_cuda_roi_align &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        int64_t row = divide(i, p.bins[0]), bin0 = i - row * p.bins[0].size;
        int64_t all = divide(row, p.bins[1]), bin1 = row - all * p.bins[1].size;
        int64_t region = divide(all, p.channels), channel = all - region * p.channels.size;
        int64_t image = load<int64_t>(p.image_dtype, p.images, region);
        const roi_bin across(p, region, 0, bin0), down(p, region, 1, bin1);
        bool too_many = across.samples > p.most || down.samples > p.most;
        if (too_many || image < -p.image_count || image >= p.image_count) {
            report_index(p.error, p.step, too_many ? region : image);
            continue;
        }
        if (image < 0) image += p.image_count;
        const int64_t x = (image * p.channels.size + channel) * p.in[1] * p.in[0];
        double sum = 0;
        bool any = false;
#pragma unroll 1
        for (int64_t j = 0; j < down.samples; j++)
#pragma unroll 1
            for (int64_t k = 0; k < across.samples; k++) {
                int64_t rows[2], columns[2];
                double down_weight[2], across_weight[2];
                bool there = locate_sample(down.at(j), p.in[1], rows, down_weight) &&
                             locate_sample(across.at(k), p.in[0], columns, across_weight);
#pragma unroll
                for (int n = 0; n < 4; n++) {
                    double v = 0;
                    if (there)
                        v = rounded_product(rounded_product(down_weight[n / 2], across_weight[n % 2]),
                                            load<double>(p.dtype, p.x, x + rows[n / 2] * p.in[0] + columns[n % 2]));
                    sum = !p.largest ? rounded_sum(sum, v) : any && sum >= v ? sum : v;
                    any = true;
                }
            }
        int64_t count = down.samples * across.samples;
        store<double>(p.dtype, p.y, i, p.largest ? sum : sum / (double)(count > 0 ? count : 1));
    }
}

// Whether samples of a bin, or of bins side by side, may have an element at this place as a neighbour: no where they are all
// further away.
__device__ __forceinline__ bool may_reach(const roi_bin &first, double bins, int64_t place)
{
    const double end = first.start + first.size * bins, at = (double)place;
    return !(fmin(first.start, end) > at + 2) && !(fmax(first.start, end) < at - 2);
}

// How much the samples of a bin, along one axis, have of an element.
__device__ __forceinline__ double share_of(const roi_bin &bin, int64_t size, int64_t place)
{
    double share = 0;
#pragma unroll 1
    for (int64_t i = 0; i < bin.samples; i++) {
        int64_t places[2];
        double weights[2];
        if (!locate_sample(bin.at(i), size, places, weights)) continue;
        for (int k = 0; k < 2; k++) share += places[k] == place ? weights[k] : 0;
    }
    return share;
}

// The weight with which an element was the first of the largest that a bin saw; 0 where it was not.
__device__ __forceinline__ double weight_as_largest(const hyp_cuda_roi_align &p, const roi_bin &down, const roi_bin &across,
                                                    int64_t image, int64_t wanted)
{
    double most = 0, weight = 0;
    int64_t chosen = -1;
    bool any = false;
#pragma unroll 1
    for (int64_t i = 0; i < down.samples * across.samples; i++) {
        int64_t rows[2], columns[2];
        double down_weight[2], across_weight[2];
        const int64_t j = i / across.samples;
        const bool there = locate_sample(down.at(j), p.in[1], rows, down_weight) &&
                           locate_sample(across.at(i - j * across.samples), p.in[0], columns, across_weight);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const double w = there ? rounded_product(down_weight[n / 2], across_weight[n % 2]) : 0;
            const int64_t at = there ? rows[n / 2] * p.in[0] + columns[n % 2] : -1;
            const double v = there ? rounded_product(w, load<double>(p.dtype, p.x, image + at)) : 0;
            if (any && most >= v) continue;
            any = true;
            most = v;
            chosen = at;
            weight = w;
        }
    }
    return chosen == wanted ? weight : 0;
}

// A thread has an element of x, and goes through all regions of its image.
__device__ __forceinline__ void unpool_regions(const hyp_cuda_roi_gradient &q)
{
    const hyp_cuda_roi_align &p = q.of;
    const double bins_across = (double)p.bins[0].size, bins_down = (double)p.bins[1].size;
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        const int64_t line = divide(i, q.in[0]), column = i - line * q.in[0].size;
        const int64_t plane = divide(line, q.in[1]), row = line - plane * q.in[1].size;
        const int64_t own = divide(plane, p.channels), channel = plane - own * p.channels.size, at = row * p.in[0] + column;
        double sum = 0;
#pragma unroll 1
        for (int64_t region = 0; region < q.regions; region++) {
            const int64_t image = load<int64_t>(p.image_dtype, p.images, region);
            const roi_bin across(p, region, 0, 0), down(p, region, 1, 0);
            const bool too_many = across.samples > p.most || down.samples > p.most;
            if (too_many || image < -p.image_count || image >= p.image_count) {
                report_index(p.error, p.step, too_many ? region : image);
                continue;
            }
            if ((image < 0 ? image + p.image_count : image) != own) continue;
            if (!may_reach(down, bins_down, row) || !may_reach(across, bins_across, column)) continue;
            const int64_t g = (region * p.channels.size + channel) * p.bins[1].size * p.bins[0].size;
            const double count = (double)(down.samples * across.samples);
#pragma unroll 1
            for (int64_t j = 0; j < p.bins[1].size; j++) {
                const roi_bin below(p, region, 1, j);
                if (!may_reach(below, 1, row)) continue;
                const double of_row = p.largest ? 1 : share_of(below, p.in[1], row);
                if (of_row == 0) continue;
#pragma unroll 1
                for (int64_t k = 0; k < p.bins[0].size; k++) {
                    const roi_bin beside(p, region, 0, k);
                    if (!may_reach(beside, 1, column)) continue;
                    const double share = p.largest ? weight_as_largest(p, below, beside, plane * p.in[0] * p.in[1], at)
                                                   : of_row * share_of(beside, p.in[0], column) / count;
                    if (share != 0) sum += share * load<double>(p.dtype, q.g, g + j * p.bins[0].size + k);
                }
            }
        }
        store<double>(p.dtype, p.y, i, sum);
    }
}

// ---- back from pools ----------------------------------------------------------------------------------------------

__device__ __forceinline__ void claim_places(const hyp_cuda_unpool &p)
{
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.count; i += thread_count()) {
        int64_t index = ((const int64_t *)p.places)[i], channel = index < 0 ? p.channels : divide(index, p.each);
        if (channel >= p.channels) {
            report_index(p.error, p.step, index);
            continue;
        }
        int64_t rest = index - channel * p.each.size, to = channel * p.inner, step = 1;
#pragma unroll
        for (int a = 0; a < HYP_CUDA_SPATIAL; a++) {
            int64_t next = divide(rest, p.size[a]);
            to += (rest - next * p.size[a].size) * step;
            step *= p.out[a];
            rest = next;
        }
        atomicMax((unsigned long long *)p.owners + to, (unsigned long long)i + 1);
    }
}

__device__ __forceinline__ void put_back(const hyp_cuda_unpool &p)
{
    uint64_t *owners = (uint64_t *)p.owners;
    if (p.stage == HYP_CUDA_UNPOOL_CLAIM) {
        claim_places(p);
        return;
    }
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.total; i += thread_count()) {
        if (p.stage == HYP_CUDA_UNPOOL_CLEAR)
            owners[i] = 0;
        else
            store_bits(p.size_of, p.y, i, owners[i] ? load_bits(p.size_of, p.x, (int64_t)owners[i] - 1) : 0);
    }
}

// ---- boxes --------------------------------------------------------------------------------------------------------

struct box_sides {
    double low[2], high[2];

    __device__ box_sides(const hyp_cuda_suppress &p, int64_t at)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            double u = load<double>(p.box_dtype, p.boxes, 4 * at + i);
            double v = load<double>(p.box_dtype, p.boxes, 4 * at + i + 2);
            low[i] = p.center ? u - v / 2 : fmin(u, v);
            high[i] = p.center ? u + v / 2 : fmax(u, v);
        }
    }
    __device__ bool overlaps(const box_sides &b, double threshold) const
    {
        double common = 1, one = 1, other = 1;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            double side = fmin(high[i], b.high[i]) - fmax(low[i], b.low[i]);
            if (!(side > 0)) return false;
            common = rounded_product(common, side);
            one = rounded_product(one, high[i] - low[i]);
            other = rounded_product(other, b.high[i] - b.low[i]);
        }
        return one > 0 && other > 0 && common / (rounded_sum(one, other) - common) > threshold;
    }
};

// The first of all threads, for all threads of a block, which lie along x. `room` has a value for each warp and one
// more.
__device__ __forceinline__ hyp_cuda_ranked first_for_all(hyp_cuda_ranked v, hyp_cuda_ranked *room)
{
    hyp_cuda_ranked *chosen = room + blockDim.x / 32;
    v = over_x(v, room, take_first{false});
    if (threadIdx.x == 0) *chosen = v;
    __syncthreads();
    return *chosen;
}

// A key is 0 when its box is out, else what comes first has the largest.
__device__ __forceinline__ void suppress_boxes(const hyp_cuda_suppress &p)
{
    extern __shared__ double shared[];
    const element_order<uint64_t> order(p.order);
    const double threshold = p.threshold ? load<double>(p.threshold_dtype, p.threshold, 0) : 0;
    const double least = p.least ? load<double>(p.least_dtype, p.least, 0) : 0;
    const int64_t most = p.most ? load<int64_t>(p.most_dtype, p.most, 0) : 0;
    const hyp_cuda_ranked nothing = {0, INT64_MAX};
    const take_first first_of = {false};
    uint64_t *keys = (uint64_t *)p.keys + blockIdx.x * p.n;
#pragma unroll 1
    for (int64_t group = blockIdx.x; group < p.groups; group += gridDim.x) {
        int64_t boxes = divide(group, p.classes) * p.n, scores = group * p.n, found = 0;
        hyp_cuda_ranked best = nothing;
#pragma unroll 1
        for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
            bool in = !p.least || load<double>(p.score_dtype, p.scores, scores + i) > least;
            keys[i] = in ? order.key_of(load_bits(p.order.size, p.scores, scores + i)) + 1 : 0;
            best = first_of(best, {keys[i], i});
        }
#pragma unroll 1
        while (true) {
            best = first_for_all(best, (hyp_cuda_ranked *)shared);
            if (best.key == 0 || found >= most || found > p.limit) break;
            if (threadIdx.x == 0 && found < p.limit) ((int64_t *)p.taken)[group * p.limit + found] = best.at;
            found++;
            const int64_t chosen_at = best.at;
            const box_sides chosen(p, boxes + chosen_at);
            best = nothing;
#pragma unroll 1
            for (int64_t i = threadIdx.x; i < p.n; i += blockDim.x) {
                uint64_t key = keys[i];
                if (key == 0) continue;
                if (i == chosen_at || box_sides(p, boxes + i).overlaps(chosen, threshold))
                    keys[i] = 0;
                else
                    best = first_of(best, {key, i});
            }
        }
        if (threadIdx.x == 0) ((int64_t *)p.counts)[group] = found;
        __syncthreads(); // the choice has been read when the next one is written
    }
}

__device__ __forceinline__ void list_boxes(const hyp_cuda_suppressed &p)
{
    const int64_t *ends = (const int64_t *)p.ends, found = p.groups ? ends[p.groups - 1] : 0;
    if (first_thread() == 0) {
        *(int64_t *)p.found = found;
        if (found > p.room) report_index(p.error, p.step, found);
    }
#pragma unroll 1
    for (int64_t i = first_thread(); i < p.room; i += thread_count()) {
        int64_t low = 0, high = p.groups, wanted = i < found ? i : found - 1, row[3] = {0, 0, 0};
        while (low < high) { // the first group that ends behind it
            int64_t middle = low + (high - low) / 2;
            if (ends[middle] <= wanted)
                low = middle + 1;
            else
                high = middle;
        }
        if (found > 0) {
            int64_t at = wanted - (low ? ends[low - 1] : 0);
            row[0] = divide(low, p.classes);
            row[1] = low - row[0] * p.classes.size;
            row[2] = at < p.limit ? ((const int64_t *)p.taken)[low * p.limit + at] : 0;
        }
#pragma unroll
        for (int k = 0; k < 3; k++) ((int64_t *)p.y)[3 * i + k] = row[k];
    }
}

} // namespace hyp_device

KERNEL(affine_grid, hyp_cuda_affine_grid, move_grid(p))
KERNEL(roi_align, hyp_cuda_roi_align, pool_regions(p))
KERNEL(roi_align_back, hyp_cuda_roi_gradient, unpool_regions(p))
KERNEL(unpool, hyp_cuda_unpool, put_back(p))
KERNEL(suppress, hyp_cuda_suppress, suppress_boxes(p))
KERNEL(suppressed, hyp_cuda_suppressed, list_boxes(p))
