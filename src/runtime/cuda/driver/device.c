/* device.c - one GPU: opening it, our kernels on it, launches. */
#include <stdio.h>

#include "base/dtype.h"
#include "runtime/cuda/driver/handles.h"
#include "runtime/cuda/session/backend.h"

/* images.S */
extern const unsigned char hyp_cuda_basic_image[] __attribute__((visibility("hidden")));
extern const unsigned char hyp_cuda_few_rows_image[] __attribute__((visibility("hidden")));
extern const unsigned char hyp_cuda_attention_image[] __attribute__((visibility("hidden")));

enum { OLDEST_DRIVER = 12000, OLDEST_SM = 75 };

hyp_status hyp_cuda_find_gpu(const hyp_cuda_library *lib, int32_t index, CUdevice *out, hyp_diag *diag)
{
    int count = 0;
    HYP_TRY(hyp_cuda_check(lib, lib->cuDeviceGetCount(&count), "cuDeviceGetCount", diag));
    if (index >= count)
        return hyp_fail(diag, HYP_ERR_DEVICE, "there is no GPU %d: the driver lists %d, counted from 0", (int)index,
                        count);
    return hyp_cuda_check(lib, lib->cuDeviceGet(out, index), "cuDeviceGet", diag);
}

static hyp_status find_device(hyp_cuda_device *d, int32_t index, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &d->lib;
    HYP_TRY(hyp_cuda_check(lib, lib->cuInit(0), "no NVIDIA GPU can be used: cuInit", diag));
    HYP_TRY(hyp_cuda_check(lib, lib->cuDriverGetVersion(&d->driver), "cuDriverGetVersion", diag));
    if (d->driver < OLDEST_DRIVER)
        return hyp_fail(diag, HYP_ERR_DEVICE,
                        "the NVIDIA driver supports CUDA %d.%d, at least %d.%d is needed: update it",
                        d->driver / 1000, d->driver % 1000 / 10, OLDEST_DRIVER / 1000, OLDEST_DRIVER % 1000 / 10);
    HYP_TRY(hyp_cuda_find_gpu(lib, index, &d->device, diag));
    int major, minor, shared;
    const struct {
        CUdevice_attribute attribute;
        int *value;
    } ask[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &d->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &d->cache_bytes},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &d->clock_kHz},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &d->memory_kHz},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &d->bus_bits},
    };
    for (size_t i = 0; i < sizeof ask / sizeof *ask; i++)
        HYP_TRY(hyp_cuda_check(lib, lib->cuDeviceGetAttribute(ask[i].value, ask[i].attribute, d->device),
                               "cuDeviceGetAttribute", diag));
    d->sm = major * 10 + minor;
    d->shared_bytes = (size_t)shared;
    if (d->sm >= OLDEST_SM) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_DEVICE, "GPU %d has compute capability %d.%d, at least %d.%d is needed", (int)index,
                    major, minor, OLDEST_SM / 10, OLDEST_SM % 10);
}

/* All of a multiprocessor's is set aside for such kernels: those that want different parts of it could not overlap. */
hyp_status hyp_cuda_allow_shared(const hyp_cuda_device *d, CUfunction function, const char *name, hyp_diag *diag)
{
    const struct {
        CUfunction_attribute attribute;
        int value;
    } set[] = {{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)d->shared_bytes},
               {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, CU_SHAREDMEM_CARVEOUT_MAX_SHARED}};
    for (size_t k = 0; k < sizeof set / sizeof *set; k++)
        HYP_TRY(hyp_cuda_check(&d->lib, d->lib.cuFuncSetAttribute(function, set[k].attribute, set[k].value), name, diag));
    return HYP_OK;
}

static hyp_status load_kernels(hyp_cuda_device *d, const unsigned char *image, int begin, int end, CUmodule *module,
                               hyp_diag *diag)
{
#define X(name) #name,
    static const char *const names[] = {HYP_CUDA_KERNELS(X)};
#undef X
    const hyp_cuda_library *lib = &d->lib;
    HYP_TRY(hyp_cuda_check(lib, lib->cuModuleLoadData(module, image),
                           "loading Hypatia's kernels (an old driver may be the reason)", diag));
    for (int i = begin; i < end; i++)
        HYP_TRY(hyp_cuda_check(lib, lib->cuModuleGetFunction(&d->kernels[i], *module, names[i]), names[i], diag));
    for (int i = begin < HYP_CUDA_KERNEL_FIRST_LAYER ? HYP_CUDA_KERNEL_FIRST_LAYER : begin; i < end; i++)
        HYP_TRY(hyp_cuda_allow_shared(d, d->kernels[i], names[i], diag));
    return HYP_OK;
}

hyp_status hyp_cuda_load_layers(hyp_cuda_device *d, hyp_diag *diag)
{
    enum { NEEDED_SM = 90 };
    if (d->layers || d->sm < NEEDED_SM) return HYP_OK;
    return load_kernels(d, hyp_cuda_few_rows_image, HYP_CUDA_KERNEL_FIRST_LAYER, HYP_CUDA_KERNEL_FIRST_ATTENTION,
                        &d->layers, diag);
}

hyp_status hyp_cuda_load_attention(hyp_cuda_device *d, hyp_diag *diag)
{
    if (d->attention) return HYP_OK;
    HYP_TRY(load_kernels(d, hyp_cuda_attention_image, HYP_CUDA_KERNEL_FIRST_ATTENTION, HYP_CUDA_KERNEL_COUNT,
                         &d->attention, diag));
    return HYP_OK;
}

static hyp_status set_up(hyp_cuda_device *d, int32_t index, hyp_diag *diag)
{
    HYP_TRY(hyp_cuda_library_open(&d->lib, diag));
    HYP_TRY(find_device(d, index, diag));
    HYP_TRY(hyp_cuda_check(&d->lib, d->lib.cuDevicePrimaryCtxRetain(&d->context, d->device), "cuDevicePrimaryCtxRetain",
                           diag));
    d->lib.lost = &d->lost; /* before, a device is not lost but cannot be had */
    HYP_TRY(hyp_cuda_enter(d, diag));
    hyp_status status = hyp_cuda_handles_open(d->context, diag);
    d->keeps_handles = status == HYP_OK;
    if (status == HYP_OK) status = load_kernels(d, hyp_cuda_basic_image, 0, HYP_CUDA_KERNEL_FIRST_LAYER, &d->module, diag);
    if (status == HYP_OK)
        status = hyp_cuda_check(&d->lib, d->lib.cuStreamCreateWithPriority(&d->copies, CU_STREAM_NON_BLOCKING, 0),
                                "cuStreamCreate", diag);
    hyp_cuda_leave(d);
    char gpu[96] = "GPU";
    d->lib.cuDeviceGetName(gpu, sizeof gpu, d->device);
    size_t lt = d->lib.cublasLtGetVersion(); /* 130100 = 13.1.0 */
    snprintf(d->name, sizeof d->name, "cuda (%s, number %d, sm_%d, driver for CUDA %d.%d, cuBLASLt %zu.%zu.%zu)", gpu,
             (int)index, d->sm, d->driver / 1000, d->driver % 1000 / 10, lt / 10000, lt / 100 % 100, lt % 100);
    snprintf(d->key, sizeof d->key, "%s, sm_%d, %d multiprocessors, cuBLASLt %zu", gpu, d->sm, d->multiprocessors, lt);
    return status;
}

hyp_status hyp_cuda_device_open(const hyp_engine_options *options, const hyp_log *log, void **out_device,
                                const char **out_name, hyp_diag *diag)
{
    hyp_cuda_device *d = hyp_calloc(1, sizeof *d);
    if (!d) return hyp_fail_memory(diag, sizeof *d);
    d->log = *log;
    hyp_status status = hyp_cuda_told_init(d, diag);
    if (status != HYP_OK) {
        hyp_free(d);
        return status;
    }
    status = hyp_cuda_uploads_init(&d->uploads, diag);
    if (status == HYP_OK) status = set_up(d, options->device_index, diag);
    if (status != HYP_OK) {
        hyp_cuda_device_close(d);
        return status;
    }
    if (options->allocator) {
        d->lib.device_alloc = options->allocator->device_alloc;
        d->lib.device_free = options->allocator->device_free;
        d->lib.device_user = options->allocator->user;
    }
    d->group = options->group ? options->group->handle : NULL;
    *out_device = d;
    *out_name = d->name;
    return HYP_OK;
}

void hyp_cuda_device_close(void *device)
{
    hyp_cuda_device *d = device;
    if (d->keeps_handles) {
        bool entered = hyp_cuda_enter_to_free(d);
        hyp_cuda_told_unload(d);
        hyp_cuda_handles_close(d->context);
        hyp_cuda_uploads_free(&d->uploads, &d->lib);
        if (d->copies) d->lib.cuStreamDestroy(d->copies);
        if (d->layers) d->lib.cuModuleUnload(d->layers);
        if (d->attention) d->lib.cuModuleUnload(d->attention);
        if (d->module) d->lib.cuModuleUnload(d->module);
        if (entered) hyp_cuda_leave(d);
    }
    if (d->context) d->lib.cuDevicePrimaryCtxRelease(d->device);
    hyp_cuda_told_dispose(d);
    hyp_cuda_uploads_dispose(&d->uploads);
    hyp_cudnn_close(&d->dnn);
    hyp_cuda_library_close(&d->lib);
    hyp_free(d);
}

/* While any thread of the process captures a stream in the usual mode, calls that take memory, load modules or wait
 * fail in all others, and end that capture: cuStreamBeginCapture cannot know that they have nothing to do with it. Ours
 * have not. */
static _Thread_local struct {
    int depth;
    CUstreamCaptureMode before; /* of the thread, when it was outside */
} entered;

static CUresult enter(const hyp_cuda_device *d)
{
    CUresult result = d->lib.cuCtxPushCurrent(d->context);
    if (result != CUDA_SUCCESS || entered.depth++ > 0) return result;
    entered.before = CU_STREAM_CAPTURE_MODE_RELAXED;
    d->lib.cuThreadExchangeStreamCaptureMode(&entered.before);
    return result;
}

hyp_status hyp_cuda_enter(const hyp_cuda_device *d, hyp_diag *diag)
{
    HYP_TRY(hyp_cuda_check_lost(&d->lib, diag));
    return hyp_cuda_check(&d->lib, enter(d), "cuCtxPushCurrent", diag);
}

bool hyp_cuda_enter_to_free(const hyp_cuda_device *d) { return enter(d) == CUDA_SUCCESS; }

void hyp_cuda_leave(const hyp_cuda_device *d)
{
    CUcontext context;
    if (--entered.depth == 0) d->lib.cuThreadExchangeStreamCaptureMode(&entered.before);
    d->lib.cuCtxPopCurrent(&context);
}

hyp_status hyp_cuda_load_kernel(const hyp_cuda_device *d, hyp_cuda_kernel kernel, hyp_diag *diag)
{
    int registers; /* asking for anything loads it */
    return hyp_cuda_check(&d->lib,
                          d->lib.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, d->kernels[kernel]),
                          "loading a kernel", diag);
}

/* ---- launches ---------------------------------------------------------------------------------------------- */

uint32_t hyp_cuda_blocks(const hyp_cuda_device *device, int64_t items, int64_t per_block)
{
    enum { BLOCKS_PER_MULTIPROCESSOR = 32 };
    int64_t blocks = items / per_block + (items % per_block != 0);
    int64_t most = (int64_t)device->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    return (uint32_t)(blocks < most ? blocks : most);
}

void hyp_cuda_spread(const hyp_cuda_device *device, int64_t items, hyp_cuda_grid *grid)
{
    enum { MOST = 256, LEAST = 64 };
    grid->block_x = MOST;
    grid->block_y = 1;
    while (grid->block_x > LEAST && items < (int64_t)grid->block_x * device->multiprocessors) grid->block_x /= 2;
    grid->blocks = hyp_cuda_blocks(device, items, grid->block_x);
}

bool hyp_cuda_row_grid(const hyp_cuda_device *device, hyp_cuda_rows *rows, hyp_cuda_grid *out)
{
    enum { WARP = 32, THREADS = 256, MOST = 512, PER_MULTIPROCESSOR = 1024, LOOSE = 8 };
    int64_t wanted = (int64_t)device->multiprocessors * PER_MULTIPROCESSOR;
    int64_t width = rows->vector ? 16 / (int64_t)hyp_dtype_size((hyp_dtype)rows->dtype) : LOOSE;
    if (rows->size % width != 0) rows->vector = 0, width = LOOSE;
    rows->pieces = (rows->size + width - 1) / width;
    uint32_t x = WARP; /* more where a row would not fit, and where a warp a row would not fill the device */
    while (x < MOST && rows->pieces > x &&
           (rows->pieces > (int64_t)x * HYP_CUDA_ROW_PIECES || rows->count < wanted / x))
        x *= 2;
    uint32_t y = x >= THREADS || rows->count < wanted / THREADS ? 1 : THREADS / x;
    out->blocks = hyp_cuda_blocks(device, rows->count, y);
    out->block_x = x;
    out->block_y = y;
    out->shared_bytes = x / WARP * y * (uint32_t)sizeof(double);
    return rows->pieces <= (int64_t)x * HYP_CUDA_ROW_PIECES;
}

hyp_status hyp_cuda_launch(hyp_cuda_session *s, const hyp_cuda_grid *grid, void *args, hyp_diag *diag)
{
    const hyp_cuda_device *d = s->model->device;
    void *list[] = {args};
    /* Programmatic dependent launch: every kernel of ours that is not alone waits by itself for those before it. */
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    const CUlaunchConfig config = {.gridDimX = grid->blocks,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = grid->block_x,
                                   .blockDimY = grid->block_y,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = grid->shared_bytes,
                                   .hStream = s->stream,
                                   .attrs = &early,
                                   .numAttrs = d->sm >= 90 && !grid->alone && !s->starts};
    CUfunction function = grid->function ? grid->function : d->kernels[grid->kernel];
    CUresult result = d->lib.cuLaunchKernelEx(&config, function, list, NULL);
    return hyp_cuda_check(&d->lib, result, "launching a kernel", diag);
}
