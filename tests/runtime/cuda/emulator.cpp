// emulator.cpp - a CUDA driver, a cuBLASLt, a cuDNN, an NCCL and an NVRTC without a GPU, so that the CUDA backend is tested
// where there is none.
//
// One shared library named libcuda.so.1 that has every function of these libraries that the backend calls. Device memory
// is host memory, streams run at once, the kernels are compiled for the host and their threads are coroutines. Products
// are computed in double. What a real device would punish ends the program with a message: unaligned operands,
// memory that is not freed, a context that is not current.
//
// HYPATIA_EMULATOR chooses a device that is missing something: "none" (no GPU), "old" (an old driver), "small" (16 MiB
// of memory), "plain" (a cuBLASLt without epilogues), "uncaptured" (streams that cannot be captured), "idle" (nothing is
// computed, for measuring the host), "lazy" (work is done when it is waited for, not before), "pageable" (there is no
// page-locked memory),
// "level" (no algorithm is much faster than the first), "slow epilogues" (products do best without),
// "slow kernels" (kernels of ours are slower than products), "company" (the best algorithm is slow after other products),
// "slow generated" (kernels that are generated for one size are slower than all others), "wrong generated" (and compute what
// is wrong),
// "uncompiled" (no kernel compiles), "uncompiled double" (none that computes in doubles), "old nccl" (an NCCL without means), "uneven nccl" (and one
// whose sums are not the same on all ranks). HYPATIA_EMULATOR_DEVICES says how many devices there
// are (1), for processes each of which has one of them.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <vector>

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_fp16.h>

#include "emulator_faults.hpp"
#include "emulator_halves.hpp"
#include "emulator_threads.hpp"
#include "emulator_warp.hpp"

// ---- the language of kernels ------------------------------------------------------------------------------

static uint64_t __umul64hi(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b >> 64); }
static float __uint_as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint32_t __float_as_uint(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static long long __double_as_longlong(double d)
{
    long long bits;
    memcpy(&bits, &d, 8);
    return bits;
}
static double __longlong_as_double(long long bits)
{
    double d;
    memcpy(&d, &bits, 8);
    return d;
}
static float __fadd_rn(float a, float b) { return a + b; }
static double __dadd_rn(double a, double b) { return a + b; }
template <typename T> static T __ldg(const T *p) { return *p; }
static uint32_t atomicAdd(uint32_t *p, uint32_t v) { return (*p += v) - v; }
static void atomicMax(unsigned long long *p, unsigned long long v) { *p = *p < v ? v : *p; }
#if CUDA_VERSION < 12020 // whose headers have it for devices alone
static float2 __half22float2(__half2 two)
{
    __half2_raw bits = two;
    return float2{__half2float(__half_raw{bits.x}), __half2float(__half_raw{bits.y})};
}
#endif

#define HYP_CUDA_EMULATOR
#define __launch_bounds__(...)
#define __noinline__ // the host's headers know it as an attribute
#include "runtime/cuda/kernels/attention.cu"
#include "runtime/cuda/kernels/few_rows.cu"
#include "runtime/cuda/kernels/image.cu"
#undef __noinline__

enum { SHARED_USUAL = 48 << 10, SHARED_MOST = 128 << 10, MULTIPROCESSORS = 3 };
namespace hyp_device // where the kernels declare it
{
alignas(16) double shared[SHARED_MOST / sizeof(double)]; // of the block that runs
}

static bool is_mode(const char *mode)
{
    const char *set = getenv("HYPATIA_EMULATOR");
    return set && strcmp(set, mode) == 0;
}

// ---- launches ---------------------------------------------------------------------------------------------

struct entry {
    const char *name;
    size_t args; // bytes of the kernel's one argument
    bool barriers;
    void (*call)(const void *args);
    generated_kernel *generated; // a thread of it; else NULL
};

#define ENTRY(name, type, barriers)                                                                                    \
    {                                                                                                                  \
#name, sizeof(type), barriers, [](const void *args) { name(*(const type *)args); }, nullptr                    \
    }
static const entry entries[] = {
    ENTRY(pointwise_f32, hyp_cuda_pointwise, false),
    ENTRY(pointwise_f64, hyp_cuda_pointwise, false),
    ENTRY(pointwise_i64, hyp_cuda_pointwise, false),
    ENTRY(pointwise_u64, hyp_cuda_pointwise, false),
    ENTRY(softmax_f32, hyp_cuda_softmax, true),
    ENTRY(softmax_f64, hyp_cuda_softmax, true),
    ENTRY(softmax_stats_f32, hyp_cuda_softmax, true),
    ENTRY(softmax_stats_f64, hyp_cuda_softmax, true),
    ENTRY(reduce_f32, hyp_cuda_reduce, true),
    ENTRY(reduce_f64, hyp_cuda_reduce, true),
    ENTRY(reduce_i64, hyp_cuda_reduce, true),
    ENTRY(reduce_pieces, hyp_cuda_reduce, true),
    ENTRY(batch_stats_f32, hyp_cuda_channels, true),
    ENTRY(batch_stats_f64, hyp_cuda_channels, true),
    ENTRY(batch_stats_pieces, hyp_cuda_channels, true),
    ENTRY(batch_gradient_f32, hyp_cuda_channels, true),
    ENTRY(batch_gradient_f64, hyp_cuda_channels, true),
    ENTRY(batch_gradient_pieces, hyp_cuda_channels, true),
    ENTRY(batch_stats_end_f32, hyp_cuda_channels_end, true),
    ENTRY(batch_stats_end_f64, hyp_cuda_channels_end, true),
    ENTRY(batch_gradient_end_f32, hyp_cuda_channels_end, true),
    ENTRY(batch_gradient_end_f64, hyp_cuda_channels_end, true),
    ENTRY(softmax_rows, hyp_cuda_rows, true),
    ENTRY(softmax_loose_rows, hyp_cuda_rows, true),
    ENTRY(norm_rows, hyp_cuda_norm, true),
    ENTRY(norm_loose_rows, hyp_cuda_norm, true),
    ENTRY(norm_parts, hyp_cuda_norm_parts, true),
    ENTRY(norm_long_f32, hyp_cuda_norm, true),
    ENTRY(norm_long_f64, hyp_cuda_norm, true),
    ENTRY(row_gradient, hyp_cuda_row_gradient, true),
    ENTRY(row_gradient_long_f32, hyp_cuda_row_gradient, true),
    ENTRY(row_gradient_long_f64, hyp_cuda_row_gradient, true),
    ENTRY(finish_product, hyp_cuda_finish, false),
    ENTRY(range_f64, hyp_cuda_range, false),
    ENTRY(range_u64, hyp_cuda_range, false),
    ENTRY(random_uniform, hyp_cuda_random, false),
    ENTRY(prefetch, hyp_cuda_prefetch, false),
    ENTRY(pitch_16, hyp_cuda_pitch, false),
    ENTRY(pitch_32, hyp_cuda_pitch, false),
    ENTRY(gather_along, hyp_cuda_gather_along, false),
    ENTRY(gather_nd, hyp_cuda_gather_nd, false),
    ENTRY(scatter_list, hyp_cuda_scatter, false),
    ENTRY(scatter_sort, hyp_cuda_sort, true),
    ENTRY(scatter, hyp_cuda_scatter, false),
    ENTRY(scatter_pieces, hyp_cuda_scatter, false),
    ENTRY(scatter_elements, hyp_cuda_scatter, false),
    ENTRY(locate, hyp_cuda_locate, true),
    ENTRY(topk_short, hyp_cuda_topk, true),
    ENTRY(topk_long, hyp_cuda_topk, true),
    ENTRY(sort_short, hyp_cuda_topk, true),
    ENTRY(sort_long, hyp_cuda_topk, true),
    ENTRY(scan_f64, hyp_cuda_scan, true),
    ENTRY(scan_u64, hyp_cuda_scan, true),
    ENTRY(scan_of_f32, hyp_cuda_scan, true),
    ENTRY(scan_of_f16, hyp_cuda_scan, true),
    ENTRY(scan_of_bf16, hyp_cuda_scan, true),
    ENTRY(scan_of_i64, hyp_cuda_scan, true),
    ENTRY(one_hot, hyp_cuda_one_hot, false),
    ENTRY(trilu, hyp_cuda_trilu, false),
    ENTRY(reverse, hyp_cuda_reverse, false),
    ENTRY(sample_f32, hyp_cuda_sample, false),
    ENTRY(sample_f64, hyp_cuda_sample, false),
    ENTRY(sample_back_f32, hyp_cuda_sample_gradient, false),
    ENTRY(sample_back_f64, hyp_cuda_sample_gradient, false),
    ENTRY(sample_slopes_f32, hyp_cuda_sample_gradient, false),
    ENTRY(sample_slopes_f64, hyp_cuda_sample_gradient, false),
    ENTRY(affine_grid, hyp_cuda_affine_grid, false),
    ENTRY(roi_align, hyp_cuda_roi_align, false),
    ENTRY(roi_align_back, hyp_cuda_roi_gradient, false),
    ENTRY(unpool, hyp_cuda_unpool, false),
    ENTRY(suppress, hyp_cuda_suppress, true),
    ENTRY(suppressed, hyp_cuda_suppressed, false),
    ENTRY(nonzero, hyp_cuda_nonzero, false),
    ENTRY(tensor_scatter, hyp_cuda_tensor_scatter, false),
    ENTRY(lrn, hyp_cuda_lrn, false),
    ENTRY(product_f64, hyp_cuda_product, false),
    ENTRY(product_u64, hyp_cuda_product, false),
    ENTRY(resize_lists, hyp_cuda_resize, false),
    ENTRY(resize_f32, hyp_cuda_resize, false),
    ENTRY(resize_f64, hyp_cuda_resize, false),
    ENTRY(resize_rows_2, hyp_cuda_resize, false),
    ENTRY(resize_rows_4, hyp_cuda_resize, false),
    ENTRY(resize_nearest, hyp_cuda_resize, false),
    ENTRY(conv_f32, hyp_cuda_conv, false),
    ENTRY(conv_f64, hyp_cuda_conv, false),
    ENTRY(conv_u64, hyp_cuda_conv, false),
    ENTRY(conv_transpose_f32, hyp_cuda_conv_transpose, false),
    ENTRY(conv_transpose_f64, hyp_cuda_conv_transpose, false),
    ENTRY(conv_transpose_u64, hyp_cuda_conv_transpose, false),
    ENTRY(conv_weights_f32, hyp_cuda_conv_weights, true),
    ENTRY(conv_weights_f64, hyp_cuda_conv_weights, true),
    ENTRY(conv_weights_u64, hyp_cuda_conv_weights, true),
    ENTRY(depthwise, hyp_cuda_depthwise, false),
    ENTRY(unfold, hyp_cuda_unfold, false),
    ENTRY(tiles_in_2, hyp_cuda_tiles, false),
    ENTRY(tiles_in_4, hyp_cuda_tiles, false),
    ENTRY(tiles_out_2, hyp_cuda_tiles, false),
    ENTRY(tiles_out_4, hyp_cuda_tiles, false),
    ENTRY(tiles_in_turned_2, hyp_cuda_tiles, true),
    ENTRY(tiles_out_turned_2, hyp_cuda_tiles, true),
    ENTRY(tiles_out_turned_4, hyp_cuda_tiles, true),
    ENTRY(tile_weights_2, hyp_cuda_tile_weights, false),
    ENTRY(tile_weights_4, hyp_cuda_tile_weights, false),
    ENTRY(pool_gradient_f32, hyp_cuda_pool_gradient, false),
    ENTRY(pool_gradient_f64, hyp_cuda_pool_gradient, false),
    ENTRY(pool_gradient_tiles, hyp_cuda_pool_tiles, true),
    ENTRY(pool_pieces, hyp_cuda_pool, false),
    ENTRY(pool_f32, hyp_cuda_pool, false),
    ENTRY(pool_f64, hyp_cuda_pool, false),
    ENTRY(pool_i64, hyp_cuda_pool, false),
    ENTRY(recurrence_f32, hyp_cuda_recurrence, false),
    ENTRY(recurrence_f64, hyp_cuda_recurrence, false),
    ENTRY(recurrence_back_f32, hyp_cuda_recurrence_back, false),
    ENTRY(recurrence_back_f64, hyp_cuda_recurrence_back, false),
    ENTRY(nn_act, hyp_cuda_nn_act, false),
    ENTRY(copy, hyp_cuda_copy, false),
    ENTRY(copies, hyp_cuda_copies, false),
    ENTRY(transpose, hyp_cuda_transpose, true),
    ENTRY(gather, hyp_cuda_gather, false),
    ENTRY(fill_i64, hyp_cuda_fill, false),
#define X(name) ENTRY(name, hyp_cuda_layer, true),
    HYP_CUDA_LAYER_KERNELS(X)
#undef X
#define X(name) ENTRY(name, hyp_cuda_attention, true),
    HYP_CUDA_ATTENTION_KERNELS(X)
#undef X
#define X(name) ENTRY(name, hyp_cuda_attention_gradient, true),
    HYP_CUDA_ATTENTION_GRADIENT_KERNELS(X)
#undef X
};

// ---- driver -----------------------------------------------------------------------------------------------

static std::mutex lock; // around everything below: calls come from several threads
static std::map<uintptr_t, size_t> memory;
static size_t memory_used;
static int contexts_retained;
static thread_local int contexts_current;

#define DRIVER extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI

static void need_context()
{
    if (contexts_current <= 0 && !device_lost) give_up("no context is current");
}
#include "emulator_nvrtc.hpp"

DRIVER cuInit(unsigned int) { return is_mode("none") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }
DRIVER cuDriverGetVersion(int *version) { return *version = is_mode("old") ? 11040 : 13000, CUDA_SUCCESS; }
DRIVER cuDeviceGetCount(int *count)
{
    const char *devices = getenv("HYPATIA_EMULATOR_DEVICES");
    return *count = devices ? atoi(devices) : 1, CUDA_SUCCESS;
}
DRIVER cuDeviceGet(CUdevice *device, int index) { return *device = index, CUDA_SUCCESS; }
DRIVER cuDeviceGetName(char *name, int size, CUdevice)
{
    const char *other = getenv("HYPATIA_EMULATOR_NAME");
    snprintf(name, (size_t)size, "%s", other ? other : "emulator");
    return CUDA_SUCCESS;
}
DRIVER cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice)
{
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR            ? (is_mode("ampere") ? 8 : 9)
             : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT              ? (int)MULTIPROCESSORS
             : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? (int)SHARED_MOST
             : attribute == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE                     ? 1024
             : attribute == CU_DEVICE_ATTRIBUTE_CLOCK_RATE                        ? 1000000
             : attribute == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE                 ? 500000
             : attribute == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH           ? 64
                                                                                  : 0;
    return CUDA_SUCCESS;
}
DRIVER cuGetErrorName(CUresult result, const char **text)
{
    *text = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == CUDA_ERROR_NO_DEVICE   ? "CUDA_ERROR_NO_DEVICE"
            : ends_context(result)             ? "CUDA_ERROR_THAT_ENDS_THE_CONTEXT"
                                               : "CUDA_ERROR";
    return CUDA_SUCCESS;
}
DRIVER cuGetErrorString(CUresult, const char **text) { return *text = "as the emulator was told", CUDA_SUCCESS; }

static CUdevice device_here; // the one that this process has
DRIVER cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    std::lock_guard<std::mutex> hold(lock);
    contexts_retained++;
    device_here = device;
    *context = (CUcontext)&contexts_retained;
    return CUDA_SUCCESS;
}
DRIVER cuDevicePrimaryCtxRelease(CUdevice)
{
    std::lock_guard<std::mutex> hold(lock);
    if (--contexts_retained > 0) return CUDA_SUCCESS;
    if (!memory.empty()) give_up("device memory was not freed");
    if (generated_modules != 0) give_up("generated kernels were not unloaded");
    device_lost = 0;
    return CUDA_SUCCESS;
}
DRIVER cuCtxPushCurrent(CUcontext)
{
    FAULT("cuCtxPushCurrent");
    return contexts_current++, CUDA_SUCCESS;
}
DRIVER cuCtxGetCurrent(CUcontext *context)
{
    *context = contexts_current > 0 ? (CUcontext)&contexts_retained : nullptr;
    return CUDA_SUCCESS;
}
DRIVER cuCtxPopCurrent(CUcontext *)
{
    if (contexts_current-- <= 0) give_up("a context was popped that was not pushed");
    return CUDA_SUCCESS;
}

#include "emulator_streams.hpp"

DRIVER cuModuleLoadData(CUmodule *module, const void *image)
{
    FAULT("cuModuleLoadData");
    takes++;
    UNSAFE;
    need_context();
    if (memcmp(image, "\177ELF", 4) == 0) return load_generated(module, image);
    if (memcmp(image, "\x50\xed\x55\xba", 4) != 0) give_up("the image is no fatbin");
    *module = (CUmodule)entries;
    return CUDA_SUCCESS;
}
DRIVER cuModuleUnload(CUmodule module)
{
    UNSAFE;
    need_context();
    if (module != (CUmodule)entries) unload_generated(module);
    return CUDA_SUCCESS;
}
DRIVER cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    if (module != (CUmodule)entries) return find_generated(function, (generated_module *)module, name);
    for (const entry &e : entries)
        if (strcmp(e.name, name) == 0) return *function = (CUfunction)&e, CUDA_SUCCESS;
    return CUDA_ERROR_NOT_FOUND;
}
DRIVER cuFuncGetAttribute(int *value, CUfunction_attribute, CUfunction)
{
    FAULT("cuFuncGetAttribute");
    UNSAFE;
    return *value = 32, CUDA_SUCCESS;
}
static std::set<CUfunction> large; // may have more than the usual shared memory
DRIVER cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    std::lock_guard<std::mutex> hold(lock);
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
    bool fits = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value <= (int)SHARED_MOST;
    if (fits) large.insert(function);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Memory is whole pages, which nobody can touch once they are freed: what still uses them, as a graph may, faults.
static size_t pages_of(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
static void forbid(void *at, size_t bytes)
{
    enum { MOST = 1 << 28 }; // bytes of such pages
    static std::deque<std::pair<void *, size_t>> freed;
    static size_t total;
    mprotect(at, bytes, PROT_NONE);
    freed.emplace_back(at, bytes);
    for (total += bytes; total > MOST; freed.pop_front()) {
        munmap(freed.front().first, freed.front().second);
        total -= freed.front().second;
    }
}
DRIVER cuMemAlloc(CUdeviceptr *at, size_t bytes)
{
    FAULT("cuMemAlloc");
    UNSAFE;
    std::lock_guard<std::mutex> hold(lock);
    need_context();
    size_t limit = is_mode("small") ? (size_t)16 << 20 : (size_t)1 << 30;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > limit - memory_used) return CUDA_ERROR_OUT_OF_MEMORY;
    void *block = mmap(nullptr, pages_of(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(block, 0xee, bytes < 1 << 18 ? bytes : 1 << 18); // nothing may depend on what fresh memory holds
    memory[(uintptr_t)block] = bytes;
    memory_used += bytes;
    takes++;
    *at = (CUdeviceptr)block;
    return CUDA_SUCCESS;
}
DRIVER cuMemFree(CUdeviceptr at)
{
    UNSAFE;
    finish_all();
    std::lock_guard<std::mutex> hold(lock);
    need_context();
    auto found = memory.find((uintptr_t)at);
    if (found == memory.end()) give_up("memory was freed that is none");
    memory_used -= found->second;
    forbid((void *)at, pages_of(found->second));
    memory.erase(found);
    return fault("cuMemFree");
}
DRIVER cuMemGetInfo(size_t *left, size_t *total)
{
    std::lock_guard<std::mutex> hold(lock);
    *total = (size_t)1 << 30;
    return *left = *total - memory_used, CUDA_SUCCESS;
}
DRIVER cuCtxSynchronize()
{
    if (CUresult refused = wait_for_all()) return refused;
    FAULT("cuCtxSynchronize");
    need_context();
    finish_all();
    return CUDA_SUCCESS;
}
// For the tests: how many kernels ran.
static std::atomic<uint64_t> launches;
extern "C" __attribute__((visibility("default"))) uint64_t emulator_launches(void) { return launches; }

// Launches that were wanted, captured ones too: those that may begin before the kernel before them has ended, or the others.
static std::atomic<uint64_t> wanted[2];
extern "C" __attribute__((visibility("default"))) uint64_t emulator_launches_wanted(bool early) { return wanted[early]; }
// Bytes that kernels sent for ahead of those that read them.
static std::atomic<uint64_t> sent_ahead;
extern "C" __attribute__((visibility("default"))) uint64_t emulator_sent_ahead(void) { return sent_ahead; }

static void launch(const entry *kernel, unsigned grid_x, unsigned block_x, unsigned block_y,
                   const std::vector<char> &args)
{
    std::lock_guard<std::mutex> hold(lock);
    launches++;
    if (strcmp(kernel->name, "prefetch") == 0) {
        const hyp_cuda_prefetch *sent = (const hyp_cuda_prefetch *)args.data();
        for (uint32_t i = 0; i < sent->count; i++) {
            auto block = memory.upper_bound(sent->at[i]);
            if (block == memory.begin() || (--block)->first + block->second < sent->at[i] + sent->bytes[i])
                give_up("bytes are sent for that nobody has taken");
            sent_ahead += sent->bytes[i];
        }
    }
    const bool tuned = kernel->generated && strcmp(kernel->name, "pointwise") == 0;
    if (kernel->generated) {
        nanoseconds += !tuned ? 15000 : is_mode("slow generated") ? 30000 : 10000;
        (tuned ? generated_runs : sized_runs)++;
        cell_runs += kernel->barriers;
    } else {
        nanoseconds += is_mode("slow kernels") ? 1000000 : kernel->barriers ? 50000 : 20000;
    }
    std::function<void()> call = [&] {
        if (kernel->generated)
            kernel->generated(args.data(), &halves);
        else
            kernel->call(args.data());
    };
    body = &call;
    blockDim = dim3(block_x, block_y);
    gridDim = dim3(grid_x);
    for (unsigned block = 0; block < grid_x; block++) {
        if (kernel->barriers)
            run_block(block);
        else
            run_threads(block);
    }
    if (!tuned || !is_mode("wrong generated")) return;
    uint8_t *result = (uint8_t *)((const hyp_cuda_pw_addresses *)args.data())->output[0];
    result[3] ^= 0x10; // in the exponent of a float
}

DRIVER cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **)
{
    FAULT("cuLaunchKernelEx");
    const entry *kernel = (const entry *)function;
    unsigned grid = c->gridDimX, x = c->blockDimX, y = c->blockDimY;
    if (grid == 0 || x * y == 0 || x * y > 1024) give_up("a launch of a wrong size");
    if (c->sharedMemBytes > (large.count(function) ? (unsigned)SHARED_MOST : (unsigned)SHARED_USUAL))
        give_up("a launch wants more shared memory than it may have");
    wanted[c->numAttrs > 0]++;
    std::vector<char> args((const char *)params[0], (const char *)params[0] + kernel->args);
    queue(c->hStream, [=] { launch(kernel, grid, x, y, args); });
    return CUDA_SUCCESS;
}

// ---- cuBLASLt ---------------------------------------------------------------------------------------------

#define LT(type) extern "C" __attribute__((visibility("default"))) type CUBLASWINAPI
using attributes = std::map<int, std::vector<char>>;

struct layout {
    cudaDataType type;
    int64_t rows, columns, ld;
    attributes set;
};
struct product {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    attributes set;
};

template <typename T> static T get(const attributes &set, int name, T otherwise)
{
    auto found = set.find(name);
    if (found == set.end()) return otherwise;
    if (found->second.size() != sizeof(T)) give_up("an attribute of a wrong size");
    T value;
    memcpy(&value, found->second.data(), sizeof value);
    return value;
}
static cublasStatus_t put(attributes &set, int name, const void *value, size_t size)
{
    set[name].assign((const char *)value, (const char *)value + size);
    return CUBLAS_STATUS_SUCCESS;
}

LT(size_t) cublasLtGetVersion(void) { return 130000; }
LT(const char *) cublasLtGetStatusString(cublasStatus_t) { return "status of the emulator"; }
LT(cublasStatus_t) cublasLtCreate(cublasLtHandle_t *handle)
{
    need_context();
    return *handle = (cublasLtHandle_t)malloc(1), CUBLAS_STATUS_SUCCESS;
}
LT(cublasStatus_t) cublasLtDestroy(cublasLtHandle_t handle) { return wait_for_all(), free(handle), CUBLAS_STATUS_SUCCESS; }

LT(cublasStatus_t)
cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale)
{
    return *desc = (cublasLtMatmulDesc_t) new product{compute, scale, {}}, CUBLAS_STATUS_SUCCESS;
}
LT(cublasStatus_t) cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return delete (product *)desc, CUBLAS_STATUS_SUCCESS;
}
LT(cublasStatus_t)
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const void *value,
                               size_t size)
{
    return put(((product *)desc)->set, name, value, size);
}
LT(cublasStatus_t)
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld)
{
    if (rows == 0 || columns == 0 || ld < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    return *out = (cublasLtMatrixLayout_t) new layout{type, (int64_t)rows, (int64_t)columns, ld, {}},
           CUBLAS_STATUS_SUCCESS;
}
LT(cublasStatus_t) cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t at)
{
    return delete (layout *)at, CUBLAS_STATUS_SUCCESS;
}
LT(cublasStatus_t)
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t at, cublasLtMatrixLayoutAttribute_t name, const void *value,
                                 size_t size)
{
    return put(((layout *)at)->set, name, value, size);
}
LT(cublasStatus_t) cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    return *out = (cublasLtMatmulPreference_t) new attributes, CUBLAS_STATUS_SUCCESS;
}
LT(cublasStatus_t) cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t at)
{
    return delete (attributes *)at, CUBLAS_STATUS_SUCCESS;
}
LT(cublasStatus_t)
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t at, cublasLtMatmulPreferenceAttributes_t name,
                                     const void *value, size_t size)
{
    return put(*(attributes *)at, name, value, size);
}

// An algorithm: what alignment it was promised, which one it is, and what workspace it needs. The second is hardly faster
// than the first, the third would be the fastest but is wrong, the fifth does not run. Deep products are done by way of
// the workspace, where they may have one.
enum { ALIGN, NUMBER, WORKSPACE };
enum { DEEP = 64 };
enum { FIRST, SIMILAR, WRONG, FASTER, BROKEN, ALGORITHMS };
static uint64_t nanoseconds_of(uint64_t algorithm, cublasLtEpilogue_t epilogue, const void *result)
{
    static std::atomic<const void *> before;
    if (is_mode("company") && before.exchange(result) != result && algorithm == FASTER) return 1000000;
    static const uint64_t usual[ALGORITHMS] = {100000, 99000, 20000, 80000, 1};
    static const uint64_t level[ALGORITHMS] = {100000, 99000, 20000, 98500, 1};
    uint64_t slow = is_mode("slow epilogues") && epilogue != CUBLASLT_EPILOGUE_DEFAULT ? 500000 : 0;
    return (is_mode("level") ? level : usual)[algorithm] + slow;
}
static std::atomic<uint64_t> runs[ALGORITHMS];

static std::atomic<uint64_t> epilogues[1024];

// For the tests: how often the algorithm ran, and a product with this epilogue.
extern "C" __attribute__((visibility("default"))) uint64_t emulator_epilogues(int epilogue) { return epilogues[epilogue]; }
extern "C" __attribute__((visibility("default"))) uint64_t emulator_runs(int algorithm) { return runs[algorithm]; }

static cublasLtEpilogue_t epilogue_of(const product *p)
{
    return get(p->set, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
}

static inline double read(cudaDataType type, const void *data, int64_t i)
{
    switch (type) {
    case CUDA_R_16F: return (double)__half2float(((const __half *)data)[i]);
    case CUDA_R_16BF: return (double)__bfloat162float(((const __nv_bfloat16 *)data)[i]);
    case CUDA_R_32F: return (double)((const float *)data)[i];
    case CUDA_R_64F: return ((const double *)data)[i];
    case CUDA_R_8F_E4M3:
        return (double)__half2float((__half)__nv_cvt_fp8_to_halfraw(((const __nv_fp8_storage_t *)data)[i], __NV_E4M3));
    default: give_up("a product of an unknown type");
    }
}
static void write(cudaDataType type, void *data, int64_t i, double value)
{
    switch (type) {
    case CUDA_R_16F: ((__half *)data)[i] = __double2half(value); break;
    case CUDA_R_16BF: ((__nv_bfloat16 *)data)[i] = __double2bfloat16(value); break;
    case CUDA_R_32F: ((float *)data)[i] = (float)value; break;
    default: ((double *)data)[i] = value;
    }
}

// A product with its operands, as it is when it is queued.
struct queued_product {
    product p;
    layout a_at, b_at, d_at;
    const void *a, *b, *c; // c lies as d does
    void *d;
    double alpha, beta;
    int64_t step[3];
    uint64_t algorithm;
    double *workspace; // null: none is needed
};

#include "emulator_epilogues.hpp"

static uint64_t workspace_of(const product *p, const layout *a, const layout *d)
{
    bool turned = get<int32_t>(p->set, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
    uint64_t batch = (uint64_t)get<int32_t>(d->set, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
    return (turned ? a->rows : a->columns) < DEEP ? 0 : batch * (uint64_t)(d->rows * d->columns) * sizeof(double);
}

LT(cublasStatus_t)
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                               cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference, int wanted,
                               cublasLtMatmulHeuristicResult_t results[], int *count)
{
    const product *p = (const product *)desc;
    const attributes &preferred = *(attributes *)preference;
    uint64_t most = get<uint64_t>(preferred, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
    uint64_t workspace = workspace_of(p, (layout *)a, (layout *)d);
    *count = 0;
    if (!has_epilogue(p, (layout *)d)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
    for (; *count < wanted && *count < ALGORITHMS; ++*count) {
        memset(&results[*count], 0, sizeof *results);
        results[*count].algo.data[ALIGN] = get<uint32_t>(preferred, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 256);
        results[*count].algo.data[NUMBER] = (uint64_t)*count;
        results[*count].algo.data[WORKSPACE] = results[*count].workspaceSize = workspace <= most ? workspace : 0;
    }
    return CUBLAS_STATUS_SUCCESS;
}
LT(cublasStatus_t)
cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                        cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *algo,
                        cublasLtMatmulHeuristicResult_t *result)
{
    result->workspaceSize = algo->data[WORKSPACE];
    return algo->data[NUMBER] < ALGORITHMS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

LT(cublasStatus_t)
cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t attribute,
                                     void *out, size_t size, size_t *written)
{
    uint32_t number = (uint32_t)algo->data[NUMBER];
    *written = sizeof number;
    if (attribute != CUBLASLT_ALGO_CONFIG_ID || size != sizeof number) return CUBLAS_STATUS_NOT_SUPPORTED;
    return memcpy(out, &number, size), CUBLAS_STATUS_SUCCESS;
}

static double scalar(const product *p, const void *at)
{
    return p->scale == CUDA_R_64F ? *(const double *)at : (double)*(const float *)at;
}

static int64_t batch_of(const queued_product &q)
{
    return get<int32_t>(q.d_at.set, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
}

// Here nearly all time of the tests of products goes by: vectors of numbers, and types told apart outside of loops.
#define FAST __attribute__((optimize("O3")))

// op(A) or op(B) of one of the batch as doubles.
struct operand {
    const layout &at;
    const void *data;
    int64_t outer, inner, outer_step, inner_step; // counts, then distances in elements

    void read_all(int64_t offset, std::vector<double> &out) const
    {
        out.resize((size_t)(outer * inner));
        if (at.type == CUDA_R_32F)
            read_floats((const float *)data + offset, out.data());
        else
            for (int64_t i = 0; i < outer; i++)
                for (int64_t j = 0; j < inner; j++)
                    out[(size_t)(i * inner + j)] = read(at.type, data, offset + i * outer_step + j * inner_step);
    }
    FAST void read_floats(const float *from, double *out) const
    {
        for (int64_t i = 0; i < outer; i++, from += outer_step)
            for (int64_t j = 0; j < inner; j++) *out++ = (double)from[j * inner_step];
    }
    // Whoever writes over what he multiplies has it wrong on a GPU.
    void must_still_be(int64_t offset, const std::vector<double> &before) const
    {
        std::vector<double> now;
        read_all(offset, now);
        if (memcmp(now.data(), before.data(), now.size() * sizeof(double)) != 0) give_up("a product writes over its operand");
    }
};

// sums += the columns of x, of which there are k, each times its y, one after the other; four of them in one pass.
FAST static void add_columns(double *__restrict sums, int64_t rows, const double *__restrict x, const double *__restrict y, int64_t k)
{
    int64_t j = 0;
    for (; j + 4 <= k; j += 4, x += 4 * rows)
        for (int64_t row = 0; row < rows; row++)
            sums[row] = sums[row] + x[row] * y[j] + x[rows + row] * y[j + 1] + x[2 * rows + row] * y[j + 2] + x[3 * rows + row] * y[j + 3];
    for (; j < k; j++, x += rows)
        for (int64_t row = 0; row < rows; row++) sums[row] += x[row] * y[j];
}

static void multiply(const queued_product &q)
{
    const layout *la = &q.a_at, *lb = &q.b_at, *ld = &q.d_at;
    bool ta = get<int32_t>(q.p.set, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
    bool tb = get<int32_t>(q.p.set, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T;
    const finisher finish(q.p, q.d_at);
    const void *bias = (const void *)get<uint64_t>(q.p.set, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 0);
    int64_t batch = batch_of(q), done = 0, rows = ld->rows;
    int64_t k = ta ? la->rows : la->columns;
    operand a = {*la, q.a, k, rows, ta ? 1 : la->ld, ta ? la->ld : 1};
    operand b = {*lb, q.b, ld->columns, k, tb ? 1 : lb->ld, tb ? lb->ld : 1};
    std::vector<double> sums((size_t)rows), products, of_a, of_b;
    runs[q.algorithm]++;
    epilogues[finish.epilogue]++;
    nanoseconds += nanoseconds_of(q.algorithm, finish.epilogue, q.d);
    for (int64_t at = 0; at < batch; at++) {
        a.read_all(at * q.step[0], of_a);
        b.read_all(at * q.step[1], of_b);
        for (int64_t column = 0; column < ld->columns; column++) {
            products.assign((size_t)rows, 0);
            add_columns(products.data(), rows, of_a.data(), of_b.data() + column * k, k);
            for (int64_t row = 0; row < rows; row++) {
                double sum = products[(size_t)row] * q.alpha;
                int64_t result = at * q.step[2] + column * ld->ld + row;
                if (q.beta != 0) sum += q.beta * read(ld->type, q.c, result);
                if (finish.epilogue & CUBLASLT_EPILOGUE_BIAS) sum += read(ld->type, bias, row);
                bool wrong = q.algorithm == WRONG && row + 1 == rows && column + 1 == ld->columns;
                sum = finish.result(row, column, sum) + (wrong ? 1000 : 0);
                sums[(size_t)row] += sum;
                if (q.workspace)
                    memcpy(q.workspace + done++, &sum, sizeof sum);
                else
                    write(ld->type, q.d, result, sum);
            }
        }
        a.must_still_be(at * q.step[0], of_a);
        b.must_still_be(at * q.step[1], of_b);
    }
    sum_bias(q, sums);
}

// From the workspace.
static void write_results(const queued_product &q)
{
    int64_t done = 0;
    for (int64_t at = 0; at < batch_of(q); at++)
        for (int64_t column = 0; column < q.d_at.columns; column++)
            for (int64_t row = 0; row < q.d_at.rows; row++)
                write(q.d_at.type, q.d, at * q.step[2] + column * q.d_at.ld + row, q.workspace[done++]);
}

LT(cublasStatus_t)
cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
               cublasLtMatrixLayout_t a_at, const void *b, cublasLtMatrixLayout_t b_at, const void *beta, const void *c,
               cublasLtMatrixLayout_t c_at, void *d, cublasLtMatrixLayout_t d_at, const cublasLtMatmulAlgo_t *algo,
               void *workspace, size_t workspace_bytes, cudaStream_t at)
{
    queued_product q = {*(product *)desc,  *(layout *)a_at, *(layout *)b_at, *(layout *)d_at, a, b, c, d, 0, 0, {},
                        algo->data[NUMBER], algo->data[WORKSPACE] ? (double *)workspace : nullptr};
    const layout *la = &q.a_at, *lb = &q.b_at, *ld = &q.d_at;
    bool ta = get<int32_t>(q.p.set, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
    bool tb = get<int32_t>(q.p.set, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T;
    int64_t m = ld->rows, n = ld->columns, k = ta ? la->rows : la->columns, i = 0;
    if ((ta ? la->columns : la->rows) != m || (tb ? lb->columns : lb->rows) != k || (tb ? lb->rows : lb->columns) != n)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace_bytes < algo->data[WORKSPACE] || (workspace_bytes > 0 && !workspace) || (uintptr_t)workspace % 16 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % algo->data[ALIGN] != 0)
        give_up("operands less aligned than promised");
    if (c_at != d_at) give_up("C lies otherwise than D");
    if (algo->data[NUMBER] == BROKEN) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (fault("cublasLtMatmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
    // In 8 bits the library has products of this form alone.
    bool bytes = la->type == CUDA_R_8F_E4M3;
    bool narrow = la->type == CUDA_R_16F || la->type == CUDA_R_16BF; // results may keep the f32 of the sums
    if (la->type != lb->type || (!bytes && ld->type != la->type && !(narrow && ld->type == CUDA_R_32F)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (bytes && (!ta || tb || m % 16 || k % 16 || ld->type != CUDA_R_16BF)) return CUBLAS_STATUS_NOT_SUPPORTED;
    bool wide = la->type == CUDA_R_64F;
    if (wide != (q.p.compute == CUBLAS_COMPUTE_64F) || wide != (q.p.scale == CUDA_R_64F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    int batch = get<int32_t>(ld->set, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
    for (const layout *l : {la, lb, ld}) {
        if (get<int32_t>(l->set, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1) != batch) return CUBLAS_STATUS_INVALID_VALUE;
        q.step[i++] = get<int64_t>(l->set, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0);
    }
    q.alpha = scalar(&q.p, alpha);
    q.beta = scalar(&q.p, beta);
    queue((CUstream)at, [=] { multiply(q); });
    if (q.workspace) queue((CUstream)at, [=] { write_results(q); });
    return CUBLAS_STATUS_SUCCESS;
}

#include "emulator_nccl.hpp"
#include "emulator_dnn.hpp"
