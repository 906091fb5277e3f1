// emulator_dnn.hpp - the part of cuDNN that the backend calls, in plain loops. Part of emulator.cpp.
//
// What cuDNN refuses is refused here, too: sizes that do not fit each other, a bias without an activation by any other
// algorithm than one. HYPATIA_EMULATOR: "unfused convolutions" (no call does more than the convolution), "failing
// convolutions" (every convolution fails), "moody convolutions" (only algorithms whose sums are in any order), "slow
// convolutions" (they take 1 ms, else 10 us).
#ifndef HYP_TESTS_EMULATOR_DNN_HPP
#define HYP_TESTS_EMULATOR_DNN_HPP

#include "runtime/cuda/driver/cudnn.h"

enum { DNN_AXES = 3, DNN_SUCCESS = 0, DNN_BAD = 2000, DNN_NOT_SUPPORTED = 3000, DNN_FAILED = 5000 };
enum { DNN_WORKSPACE = 4096 }; // bytes that every algorithm wants, and fills

struct dnn_image {
    bool last;
    cudaDataType type;
    int axes;
    int64_t dims[2 + DNN_AXES];
};
struct dnn_convolution {
    int axes, group, math;
    int64_t pad[DNN_AXES], stride[DNN_AXES], dilation[DNN_AXES];
    bool wide;
};
struct dnn_activation {
    int mode;
};
struct dnn_handle {
    CUstream stream;
};
static std::atomic<size_t> dnn_alive; // descriptors and handles
static std::atomic<uint64_t> dnn_runs, dnn_fused_runs, dnn_gradients;

// For the tests: convolutions that ran, and those of them with a bias; gradients of some; what was not destroyed.
extern "C" __attribute__((visibility("default"))) uint64_t emulator_convolutions(void) { return dnn_runs; }
extern "C" __attribute__((visibility("default"))) uint64_t emulator_fused_convolutions(void) { return dnn_fused_runs; }
extern "C" __attribute__((visibility("default"))) uint64_t emulator_gradients(void) { return dnn_gradients; }
extern "C" __attribute__((visibility("default"))) uint64_t emulator_dnn_alive(void) { return dnn_alive; }

#define DNN(type) extern "C" __attribute__((visibility("default"))) type

template <typename T> static int dnn_create(void **out) { return dnn_alive++, *out = new T{}, DNN_SUCCESS; }
template <typename T> static int dnn_destroy(void *at) { return dnn_alive--, delete (T *)at, DNN_SUCCESS; }

DNN(size_t) cudnnGetVersion(void) { return 90100; }
DNN(const char *) cudnnGetErrorString(int) { return "status of the emulator"; }
DNN(int) cudnnCreate(void **handle) { return need_context(), dnn_create<dnn_handle>(handle); }
DNN(int) cudnnDestroy(void *handle) { return need_context(), wait_for_all(), dnn_destroy<dnn_handle>(handle); }
DNN(int) cudnnSetStream(void *handle, CUstream at) { return ((dnn_handle *)handle)->stream = at, DNN_SUCCESS; }
DNN(int) cudnnCreateTensorDescriptor(void **at) { return dnn_create<dnn_image>(at); }
DNN(int) cudnnDestroyTensorDescriptor(void *at) { return dnn_destroy<dnn_image>(at); }
DNN(int) cudnnCreateFilterDescriptor(void **at) { return dnn_create<dnn_image>(at); }
DNN(int) cudnnDestroyFilterDescriptor(void *at) { return dnn_destroy<dnn_image>(at); }
DNN(int) cudnnCreateConvolutionDescriptor(void **at) { return dnn_create<dnn_convolution>(at); }
DNN(int) cudnnDestroyConvolutionDescriptor(void *at) { return dnn_destroy<dnn_convolution>(at); }
DNN(int) cudnnCreateActivationDescriptor(void **at) { return dnn_create<dnn_activation>(at); }
DNN(int) cudnnDestroyActivationDescriptor(void *at) { return dnn_destroy<dnn_activation>(at); }

static int dnn_describe(dnn_image *out, int format, int type, int rank, const int *dims)
{
    if (rank < 4 || rank > 2 + DNN_AXES || (format != HYP_CUDNN_NCHW && format != HYP_CUDNN_NHWC)) return DNN_BAD;
    *out = {format == HYP_CUDNN_NHWC,
            type == HYP_CUDNN_HALF       ? CUDA_R_16F
            : type == HYP_CUDNN_BFLOAT16 ? CUDA_R_16BF
            : type == HYP_CUDNN_DOUBLE   ? CUDA_R_64F
                                         : CUDA_R_32F,
            rank - 2,
            {}};
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 1) return DNN_BAD;
        out->dims[i] = dims[i];
    }
    return DNN_SUCCESS;
}
DNN(int) cudnnSetTensorNdDescriptorEx(void *at, int format, int type, int rank, const int *dims)
{
    return dnn_describe((dnn_image *)at, format, type, rank, dims);
}
DNN(int) cudnnSetFilterNdDescriptor(void *at, int type, int format, int rank, const int *dims)
{
    return dnn_describe((dnn_image *)at, format, type, rank, dims);
}
DNN(int)
cudnnSetConvolutionNdDescriptor(void *at, int axes, const int *pads, const int *strides, const int *dilations, int mode,
                                int type)
{
    dnn_convolution *c = (dnn_convolution *)at;
    if (axes < 2 || axes > DNN_AXES || mode != HYP_CUDNN_CROSS_CORRELATION) return DNN_NOT_SUPPORTED;
    *c = {axes, 1, HYP_CUDNN_DEFAULT_MATH, {}, {}, {}, type == HYP_CUDNN_DOUBLE};
    for (int i = 0; i < axes; i++) {
        c->pad[i] = pads[i], c->stride[i] = strides[i], c->dilation[i] = dilations[i];
        if (pads[i] < 0 || strides[i] < 1 || dilations[i] < 1) return DNN_BAD;
    }
    return DNN_SUCCESS;
}
DNN(int) cudnnSetConvolutionGroupCount(void *at, int groups)
{
    return ((dnn_convolution *)at)->group = groups, DNN_SUCCESS;
}
DNN(int) cudnnSetConvolutionMathType(void *at, int math) { return ((dnn_convolution *)at)->math = math, DNN_SUCCESS; }
DNN(int) cudnnSetActivationDescriptor(void *at, int mode, int nan, double)
{
    if (nan != HYP_CUDNN_PROPAGATE_NAN) give_up("an activation that loses NaN");
    return ((dnn_activation *)at)->mode = mode, DNN_SUCCESS;
}

static bool dnn_fits(const dnn_image *x, const dnn_image *w, const dnn_convolution *c, const dnn_image *y)
{
    bool strict = x->type == CUDA_R_32F && c->math == HYP_CUDNN_TENSOR_OP_MATH; // rounds to TF32
    if (x->axes != c->axes || w->axes != c->axes || y->axes != c->axes || x->dims[0] != y->dims[0] || strict ||
        w->dims[0] != y->dims[1] || w->dims[1] * c->group != x->dims[1] || w->dims[0] % c->group ||
        x->type != w->type || x->type != y->type || x->last != w->last || x->last != y->last ||
        c->wide != (x->type == CUDA_R_64F))
        return false;
    for (int i = 0; i < c->axes; i++) {
        int64_t reach = (w->dims[2 + i] - 1) * c->dilation[i] + 1, room = x->dims[2 + i] + 2 * c->pad[i] - reach;
        if (room < 0 || room / c->stride[i] + 1 != y->dims[2 + i]) return false;
    }
    return true;
}

DNN(int)
cudnnGetConvolutionForwardAlgorithm_v7(void *, void *x, void *w, void *conv, void *y, int wanted, int *count,
                                       hyp_cudnn_algorithm *list)
{
    static const int order[] = {2, 6, 1, 0, 1}; // the first is in no fixed order, the last does without tensor cores
    const dnn_convolution *c = (dnn_convolution *)conv;
    if (!dnn_fits((dnn_image *)x, (dnn_image *)w, c, (dnn_image *)y)) return DNN_BAD;
    for (*count = 0; *count < wanted && *count < 5; ++*count)
        list[*count] = {order[*count], DNN_SUCCESS, 1, DNN_WORKSPACE,
                        *count > 0 && !is_mode("moody convolutions"), *count < 4 ? c->math : HYP_CUDNN_DEFAULT_MATH, {}};
    return DNN_SUCCESS;
}

// Where an element lies.
static inline int64_t dnn_at(const dnn_image &t, int64_t image, int64_t channel, const int64_t *place)
{
    int64_t offset = 0, count = 1;
    for (int i = 0; i < t.axes; i++) {
        offset = offset * t.dims[2 + i] + place[i];
        count *= t.dims[2 + i];
    }
    return t.last ? (image * count + offset) * t.dims[1] + channel : (image * t.dims[1] + channel) * count + offset;
}

// Counts places; false after the last one.
static bool dnn_next(const dnn_image &t, int64_t *place)
{
    for (int i = t.axes; i-- > 0; place[i] = 0)
        if (++place[i] < t.dims[2 + i]) return true;
    return false;
}

struct queued_convolution {
    dnn_image x, w, y;
    dnn_convolution c;
    const void *x_at, *w_at, *z_at, *bias_at; // bias_at: NULL = none
    void *y_at, *workspace;
    double z_share;
    bool relu;
};

FAST static double dnn_sum(const queued_convolution &q, int64_t image, int64_t channel, const int64_t *place)
{
    int64_t in = q.w.dims[1], first = channel / (q.y.dims[1] / q.c.group) * in, tap[DNN_AXES] = {0};
    double sum = 0;
    do {
        int64_t from[DNN_AXES];
        bool inside = true;
        for (int i = 0; i < q.c.axes; i++) {
            from[i] = place[i] * q.c.stride[i] + tap[i] * q.c.dilation[i] - q.c.pad[i];
            inside = inside && from[i] >= 0 && from[i] < q.x.dims[2 + i];
        }
        for (int64_t i = 0; i < in && inside; i++)
            sum += read(q.x.type, q.x_at, dnn_at(q.x, image, first + i, from)) *
                   read(q.w.type, q.w_at, dnn_at(q.w, channel, i, tap));
    } while (dnn_next(q.w, tap));
    return sum;
}

static void dnn_run(const queued_convolution &q)
{
    bool narrow = q.x.type == CUDA_R_16F || q.x.type == CUDA_R_16BF;
    if (narrow && q.c.math == HYP_CUDNN_DEFAULT_MATH) give_up("a convolution of 16 bits does without tensor cores");
    dnn_runs++;
    nanoseconds += is_mode("slow convolutions") ? 1000000 : 10000;
    if (q.bias_at) dnn_fused_runs++;
    memset(q.workspace, 0xee, DNN_WORKSPACE);
    for (int64_t image = 0; image < q.y.dims[0]; image++)
        for (int64_t channel = 0; channel < q.y.dims[1]; channel++) {
            int64_t place[DNN_AXES] = {0};
            do {
                int64_t at = dnn_at(q.y, image, channel, place);
                double v = dnn_sum(q, image, channel, place);
                if (q.z_share != 0) v += q.z_share * read(q.y.type, q.z_at, at);
                if (q.bias_at) v += read(q.y.type, q.bias_at, channel);
                write(q.y.type, q.y_at, at, q.relu && v < 0 ? 0 : v);
            } while (dnn_next(q.y, place));
        }
}

// One element of a gradient, by x (place of channel of an image) or by w (tap of channel of a filter): all terms of the
// convolution are gone through for those that have it.
FAST static double dnn_gradient_by_x(const queued_convolution &q, int64_t image, int64_t channel, const int64_t *place)
{
    int64_t of_group = q.w.dims[1], filters = q.w.dims[0] / q.c.group, group = channel / of_group, tap[DNN_AXES] = {0};
    double sum = 0;
    do {
        int64_t to[DNN_AXES];
        bool there = true;
        for (int i = 0; i < q.c.axes; i++) {
            int64_t from = place[i] + q.c.pad[i] - tap[i] * q.c.dilation[i];
            to[i] = from / q.c.stride[i];
            there = there && from >= 0 && from % q.c.stride[i] == 0 && to[i] < q.y.dims[2 + i];
        }
        for (int64_t f = group * filters; f < (group + 1) * filters && there; f++)
            sum += read(q.y.type, q.y_at, dnn_at(q.y, image, f, to)) *
                   read(q.w.type, q.w_at, dnn_at(q.w, f, channel - group * of_group, tap));
    } while (dnn_next(q.w, tap));
    return sum;
}

FAST static double dnn_gradient_by_w(const queued_convolution &q, int64_t filter, int64_t channel, const int64_t *tap)
{
    int64_t first = filter / (q.w.dims[0] / q.c.group) * q.w.dims[1];
    double sum = 0;
    for (int64_t image = 0; image < q.x.dims[0]; image++) {
        int64_t place[DNN_AXES] = {0};
        do {
            int64_t from[DNN_AXES];
            bool inside = true;
            for (int i = 0; i < q.c.axes; i++) {
                from[i] = place[i] * q.c.stride[i] + tap[i] * q.c.dilation[i] - q.c.pad[i];
                inside = inside && from[i] >= 0 && from[i] < q.x.dims[2 + i];
            }
            if (inside)
                sum += read(q.x.type, q.x_at, dnn_at(q.x, image, first + channel, from)) *
                       read(q.y.type, q.y_at, dnn_at(q.y, image, filter, place));
        } while (dnn_next(q.y, place));
    }
    return sum;
}

// q.x_at or q.w_at is the result.
static void dnn_run_gradient(const queued_convolution &q, bool by_x)
{
    const dnn_image &t = by_x ? q.x : q.w;
    void *to = (void *)(by_x ? q.x_at : q.w_at);
    dnn_gradients++;
    nanoseconds += is_mode("slow convolutions") ? 1000000 : 10000;
    memset(q.workspace, 0xee, DNN_WORKSPACE);
    for (int64_t first = 0; first < t.dims[0]; first++)
        for (int64_t second = 0; second < t.dims[1]; second++) {
            int64_t place[DNN_AXES] = {0};
            do {
                double v = by_x ? dnn_gradient_by_x(q, first, second, place) : dnn_gradient_by_w(q, first, second, place);
                write(t.type, to, dnn_at(t, first, second, place), v);
            } while (dnn_next(t, place));
        }
}

static double dnn_scalar(const dnn_image *x, const void *at)
{
    return x->type == CUDA_R_64F ? *(const double *)at : (double)*(const float *)at;
}

// Whether a call is one that cuDNN takes; its algorithms: the first of those offered is in no fixed order, the second
// transforms tiles.
static int dnn_check(const queued_convolution &q, int algorithm, size_t bytes, double alpha, int unordered, int transforms)
{
    if (is_mode("failing convolutions")) return DNN_FAILED;
    if (!dnn_fits(&q.x, &q.w, &q.c, &q.y) || bytes < DNN_WORKSPACE || alpha != 1) return DNN_BAD;
    if (algorithm == unordered || (algorithm == transforms && q.x.type != CUDA_R_32F && q.x.type != CUDA_R_64F))
        give_up("a convolution by an algorithm that is not fit");
    if (((uintptr_t)q.x_at | (uintptr_t)q.w_at | (uintptr_t)q.y_at | (uintptr_t)q.z_at | (uintptr_t)q.workspace) % 16)
        give_up("operands of a convolution are not aligned");
    return DNN_SUCCESS;
}

static int dnn_queue(void *handle, const queued_convolution &q, int algorithm, size_t bytes, double alpha)
{
    int status = dnn_check(q, algorithm, bytes, alpha, 2, 6);
    if (status == DNN_SUCCESS) queue(((dnn_handle *)handle)->stream, [=] { dnn_run(q); });
    return status;
}

// Gradients: number 0 adds in any order, 1 in one, 5 transforms tiles.
static int dnn_list_gradients(const dnn_image *x, const dnn_image *w, const dnn_convolution *c, const dnn_image *y,
                              int wanted, int *count, hyp_cudnn_algorithm *list)
{
    static const int order[] = {0, 5, 1};
    if (!dnn_fits(x, w, c, y)) return DNN_BAD;
    for (*count = 0; *count < wanted && *count < 3; ++*count)
        list[*count] = {order[*count], DNN_SUCCESS, 1, DNN_WORKSPACE,
                        *count > 0 && !is_mode("moody convolutions"), c->math, {}};
    return DNN_SUCCESS;
}

DNN(int)
cudnnGetConvolutionBackwardDataAlgorithm_v7(void *, void *w, void *y, void *conv, void *x, int wanted, int *count,
                                            hyp_cudnn_algorithm *list)
{
    return dnn_list_gradients((dnn_image *)x, (dnn_image *)w, (dnn_convolution *)conv, (dnn_image *)y, wanted, count, list);
}
DNN(int)
cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *, void *x, void *y, void *conv, void *w, int wanted, int *count,
                                              hyp_cudnn_algorithm *list)
{
    return dnn_list_gradients((dnn_image *)x, (dnn_image *)w, (dnn_convolution *)conv, (dnn_image *)y, wanted, count, list);
}

static int dnn_queue_gradient(void *handle, const queued_convolution &q, int algorithm, size_t bytes, const void *alpha,
                              const void *beta, bool by_x)
{
    if (dnn_scalar(&q.x, beta) != 0) return DNN_BAD;
    int status = dnn_check(q, algorithm, bytes, dnn_scalar(&q.x, alpha), 0, 5);
    if (status == DNN_SUCCESS) queue(((dnn_handle *)handle)->stream, [=] { dnn_run_gradient(q, by_x); });
    return status;
}

DNN(int)
cudnnConvolutionBackwardData(void *handle, const void *alpha, void *w, const void *w_at, void *y, const void *y_at,
                             void *conv, int algorithm, void *workspace, size_t bytes, const void *beta, void *x,
                             void *x_at)
{
    queued_convolution q = {*(dnn_image *)x, *(dnn_image *)w, *(dnn_image *)y, *(dnn_convolution *)conv,
                            x_at, w_at, NULL, NULL, (void *)y_at, workspace, 0, false};
    return dnn_queue_gradient(handle, q, algorithm, bytes, alpha, beta, true);
}
DNN(int)
cudnnConvolutionBackwardFilter(void *handle, const void *alpha, void *x, const void *x_at, void *y, const void *y_at,
                               void *conv, int algorithm, void *workspace, size_t bytes, const void *beta, void *w,
                               void *w_at)
{
    queued_convolution q = {*(dnn_image *)x, *(dnn_image *)w, *(dnn_image *)y, *(dnn_convolution *)conv,
                            x_at, w_at, NULL, NULL, (void *)y_at, workspace, 0, false};
    return dnn_queue_gradient(handle, q, algorithm, bytes, alpha, beta, false);
}

DNN(int)
cudnnConvolutionForward(void *handle, const void *alpha, void *x, const void *x_at, void *w, const void *w_at,
                        void *conv, int algorithm, void *workspace, size_t bytes, const void *beta, void *y, void *y_at)
{
    const dnn_image *image = (dnn_image *)x;
    queued_convolution q = {*image,    *(dnn_image *)w, *(dnn_image *)y, *(dnn_convolution *)conv,
                            x_at,      w_at,            y_at,            NULL,
                            y_at,      workspace,       dnn_scalar(image, beta), false};
    return dnn_queue(handle, q, algorithm, bytes, dnn_scalar(image, alpha));
}

DNN(int)
cudnnConvolutionBiasActivationForward(void *handle, const void *alpha, void *x, const void *x_at, void *w,
                                      const void *w_at, void *conv, int algorithm, void *workspace, size_t bytes,
                                      const void *share, void *z, const void *z_at, void *bias, const void *bias_at,
                                      void *act, void *y, void *y_at)
{
    const dnn_image *image = (dnn_image *)x, *b = (dnn_image *)bias;
    int mode = ((dnn_activation *)act)->mode;
    if (is_mode("unfused convolutions")) return DNN_NOT_SUPPORTED;
    if (mode != HYP_CUDNN_RELU && (mode != HYP_CUDNN_IDENTITY || algorithm != HYP_CUDNN_PRECOMP_GEMM))
        return DNN_NOT_SUPPORTED;
    if (b->dims[0] != 1 || b->dims[1] != ((dnn_image *)y)->dims[1] || z != y || !bias_at) return DNN_BAD;
    queued_convolution q = {*image, *(dnn_image *)w, *(dnn_image *)y, *(dnn_convolution *)conv,
                            x_at,   w_at,            z_at,            bias_at,
                            y_at,   workspace,       dnn_scalar(image, share), mode == HYP_CUDNN_RELU};
    return dnn_queue(handle, q, algorithm, bytes, dnn_scalar(image, alpha));
}

#endif
