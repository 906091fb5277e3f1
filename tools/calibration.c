/* The models of --calibrate, node by node. */
#include "calibration.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t root(int64_t n) { return (int64_t)llround(sqrt((double)n)); }

/* A model as it grows: its values are of the kernel's type. */
typedef struct making {
    onnx_model *model;
    hyp_dtype type;
    const int64_t *s; /* the kernel's shape */
} making;

static void add_input(const making *m, const char *name, int rank, const int64_t *dims)
{
    onnx_add_input(m->model, name, m->type, rank, dims);
}

static void add_output(const making *m, const char *name, int rank, const int64_t *dims)
{
    onnx_add_output(m->model, name, m->type, rank, dims);
}

static void add_constant(const making *m, const char *name, int rank, const int64_t *dims, double value)
{
    char wide[40];
    if (m->type != HYP_F16 && m->type != HYP_BF16) {
        onnx_add_constant(m->model, name, m->type, rank, dims, value);
        return;
    }
    snprintf(wide, sizeof wide, "%s.wide", name);
    onnx_add_constant(m->model, wide, HYP_F32, rank, dims, value);
    onnx_add_node(m->model,
                  &(onnx_node){.op = "Cast", .inputs = {wide}, .output = name, .attrs = {{"to", .i = m->type}}});
}

static void add_node(const making *m, onnx_node node) { onnx_add_node(m->model, &node); }

/* Layers that read one x. What they give is averaged, so that it lies in scratch memory. */
static void make_linear(const making *m, int layers)
{
    int64_t n = m->s[1], inner = m->s[2];
    add_input(m, "x", 2, (int64_t[]){m->s[0], inner});
    for (int i = 0; i < layers; i++) {
        char w[16], b[16], y[16], mean[16];
        snprintf(w, sizeof w, "w%d", i);
        snprintf(b, sizeof b, "b%d", i);
        snprintf(y, sizeof y, "y%d", i);
        snprintf(mean, sizeof mean, "mean%d", i);
        add_constant(m, w, 2, (int64_t[]){n, inner}, 1.0 / (double)(inner + i));
        add_constant(m, b, 1, (int64_t[]){n}, 0.01 * (i + 1));
        add_node(m, (onnx_node){.op = "Gemm", .inputs = {"x", w, b}, .output = y, .attrs = {{"transB", .i = 1}}});
        add_node(m, (onnx_node){.op = "ReduceMean", .inputs = {y}, .output = mean, .attrs = {{"keepdims", .i = 1}}});
        add_output(m, mean, 2, (int64_t[]){1, 1});
    }
}

static void make_matmul(const making *m)
{
    const int64_t *s = m->s;
    add_input(m, "a", 3, (int64_t[]){s[0], s[1], s[3]});
    add_input(m, "b", 3, (int64_t[]){s[0], s[3], s[2]});
    add_node(m, (onnx_node){.op = "MatMul", .inputs = {"a", "b"}, .output = "y"});
    add_output(m, "y", 3, (int64_t[]){s[0], s[1], s[2]});
}

static void make_attention(const making *m)
{
    const int64_t *s = m->s;
    static const int64_t swap[] = {0, 2, 1};
    add_input(m, "q", 3, (int64_t[]){s[0], s[1], s[3]});
    add_input(m, "k", 3, (int64_t[]){s[0], s[2], s[3]});
    add_input(m, "v", 3, (int64_t[]){s[0], s[2], s[3]});
    add_node(m, (onnx_node){.op = "Transpose", .inputs = {"k"}, .output = "kt", .attrs = {{"perm", swap, 3, 0}}});
    add_node(m, (onnx_node){.op = "MatMul", .inputs = {"q", "kt"}, .output = "scores"});
    add_node(m, (onnx_node){.op = "Softmax", .inputs = {"scores"}, .output = "p", .attrs = {{"axis", .i = -1}}});
    add_node(m, (onnx_node){.op = "MatMul", .inputs = {"p", "v"}, .output = "y"});
    add_output(m, "y", 3, (int64_t[]){s[0], s[1], s[3]});
}

/* Weights of a convolution. */
static void add_filters(const making *m, const char *name, int64_t filters, int64_t channels, int64_t height,
                        int64_t width)
{
    add_constant(m, name, 4, (int64_t[]){filters, channels, height, width}, 1.0 / (double)(channels * height * width));
}

enum { OUTSIDE = 8 }; /* channels around a kernel that lies between convolutions */

/* x and a convolution of one tap to `channels`; the kernel reads "h". */
static void begin_between(const making *m, int64_t channels, int64_t side)
{
    add_input(m, "x", 4, (int64_t[]){1, OUTSIDE, side, side});
    add_filters(m, "before", channels, OUTSIDE, 1, 1);
    add_node(m, (onnx_node){.op = "Conv", .inputs = {"x", "before"}, .output = "h"});
}

/* The kernel gives "z", which another such convolution reads. */
static void end_between(const making *m, int64_t channels, int64_t side)
{
    add_filters(m, "behind", OUTSIDE, channels, 1, 1);
    add_node(m, (onnx_node){.op = "Conv", .inputs = {"z", "behind"}, .output = "y"});
    add_output(m, "y", 4, (int64_t[]){1, OUTSIDE, side, side});
}

/* Weights times numbers that a training would change, a filter each: the gradient by these takes that by the weights. */
static void add_trained_filters(const making *m, const char *name, int64_t filters, int64_t channels, int64_t height,
                                int64_t width)
{
    add_filters(m, "fixed", filters, channels, height, width);
    onnx_add_initializer(m->model, "trained", 4, (int64_t[]){filters, 1, 1, 1}, 1);
    add_node(m, (onnx_node){.op = "Cast", .inputs = {"trained"}, .output = "factor", .attrs = {{"to", .i = m->type}}});
    add_node(m, (onnx_node){.op = "Mul", .inputs = {"fixed", "factor"}, .output = name});
}

/* Channels so few are those of an image, which is an input. Taps that make no square lie along one axis. Of a training step
 * 49 taps are those of a first convolution, in steps of two. */
static int make_conv(const making *m, bool trained)
{
    const int64_t *s = m->s;
    enum { IMAGE = 3 };
    int64_t side = root(s[0]), height = root(s[3]), width = height * height == s[3] ? height : s[3];
    int64_t channels = s[2] * s[4], step = s[5] ? root(s[5]) : s[3] == 49 ? 2 : 1;
    if (width != height) height = 1;
    const int64_t pads[4] = {height / 2, width / 2, height / 2, width / 2}, steps[2] = {step, step};
    bool first = channels <= IMAGE;
    if (first)
        add_input(m, "h", 4, (int64_t[]){1, channels, side * step, side * step});
    else
        begin_between(m, channels, side * step);
    if (trained)
        add_trained_filters(m, "w", s[1], s[2], height, width);
    else
        add_filters(m, "w", s[1], s[2], height, width);
    add_constant(m, "b", 1, (int64_t[]){s[1]}, 0.1);
    add_node(m, (onnx_node){.op = "Conv",
                            .inputs = {"h", "w", "b"},
                            .output = "z",
                            .attrs = {{"pads", pads, 4, 0}, {"strides", steps, 2, 0}, {"group", .i = s[4]}}});
    end_between(m, s[1], side);
    return first ? 0 : 1;
}

/* In steps of two. */
static void make_conv_transpose(const making *m)
{
    const int64_t *s = m->s;
    int64_t side = root(s[0]), window = root(s[3]), pad = (window - 2) / 2;
    const int64_t pads[4] = {pad, pad, pad, pad}, steps[2] = {2, 2};
    begin_between(m, s[1], side);
    add_filters(m, "w", s[1], s[2], window, window);
    add_node(m, (onnx_node){.op = "ConvTranspose",
                            .inputs = {"h", "w"},
                            .output = "z",
                            .attrs = {{"pads", pads, 4, 0}, {"strides", steps, 2, 0}}});
    end_between(m, s[2], 2 * side);
}

static void make_pool(const making *m, const char *onnx)
{
    const int64_t *s = m->s;
    enum { CHANNELS = 64 };
    int64_t side = root(s[0] / CHANNELS), window = root(s[1]), step = root(s[2]), pad = window == 2 ? 0 : window / 2;
    const int64_t pads[4] = {pad, pad, pad, pad}, steps[2] = {step, step}, kernel[2] = {window, window};
    begin_between(m, CHANNELS, side * step);
    add_node(m, (onnx_node){.op = onnx,
                            .inputs = {"h"},
                            .output = "z",
                            .attrs = {{"kernel_shape", kernel, 2, 0}, {"strides", steps, 2, 0}, {"pads", pads, 4, 0}}});
    end_between(m, CHANNELS, side);
}

/* An operator over rows, the last axis. */
static void make_rows(const making *m, const char *op)
{
    const int64_t *s = m->s;
    int64_t row = s[1], dims[2] = {s[0] / row, row}, out[2] = {dims[0], row};
    onnx_node node = {.op = "Softmax", .inputs = {"x"}, .output = "y"};
    add_input(m, "x", 2, dims);
    if (strcmp(op, "layer-norm") == 0) {
        node.op = "LayerNormalization";
        add_constant(m, node.inputs[1] = "scale", 1, &row, 1.5);
        add_constant(m, node.inputs[2] = "bias", 1, &row, 0.5);
    } else if (strcmp(op, "reduce-mean") == 0) {
        node.op = "ReduceMean";
        onnx_add_constant(m->model, node.inputs[1] = "axes", HYP_I64, 1, (int64_t[]){1}, 1);
        out[1] = 1;
    }
    add_node(m, node);
    add_output(m, "y", 2, out);
}

/* Sums or means of columns of s[1] elements. */
static void make_columns(const making *m, const char *onnx)
{
    const int64_t *s = m->s, dims[2] = {s[1], s[2]}, out[2] = {1, s[2]};
    add_input(m, "x", 2, dims);
    onnx_add_constant(m->model, "axes", HYP_I64, 1, (int64_t[]){0}, 1);
    add_node(m, (onnx_node){.op = onnx, .inputs = {"x", "axes"}, .output = "y"});
    add_output(m, "y", 2, out);
}

/* The mean over the places of an image. */
static void make_image_mean(const making *m)
{
    begin_between(m, m->s[2], root(m->s[1]));
    add_node(m, (onnx_node){.op = "GlobalAveragePool", .inputs = {"h"}, .output = "z"});
    end_between(m, m->s[2], 1);
}

/* A step reads y, as in networks: what is only copied from an input to an output a GPU does beside everything else. */
static void add_reader(const making *m, int rank)
{
    add_node(m, (onnx_node){.op = "ReduceMean", .inputs = {"y"}, .output = "mean", .attrs = {{"keepdims", .i = 1}}});
    add_output(m, "mean", rank, (int64_t[]){1, 1, 1});
}

/* Of a matrix, or of rows and heads. */
static void make_transpose(const making *m)
{
    const int64_t *s = m->s;
    static const int64_t swap[] = {1, 0}, heads[] = {1, 0, 2};
    const int64_t columns = s[0] < 1 << 14 ? 64 : 196, count = 12;
    if (s[1] == 1) {
        add_input(m, "x", 2, (int64_t[]){s[0] / columns, columns});
        add_node(m, (onnx_node){.op = "Transpose", .inputs = {"x"}, .output = "y", .attrs = {{"perm", swap, 2, 0}}});
        add_output(m, "y", 2, (int64_t[]){columns, s[0] / columns});
        add_reader(m, 2);
        return;
    }
    int64_t rows = s[0] / (count * s[1]);
    add_input(m, "x", 3, (int64_t[]){rows, count, s[1]});
    add_node(m, (onnx_node){.op = "Transpose", .inputs = {"x"}, .output = "y", .attrs = {{"perm", heads, 3, 0}}});
    add_output(m, "y", 3, (int64_t[]){count, rows, s[1]});
    add_reader(m, 3);
}

static void make_gather(const making *m, int64_t count)
{
    int64_t row = count % 768 == 0 ? 768 : 64, rows = count / row;
    add_input(m, "x", 2, (int64_t[]){1000, row});
    onnx_add_constant(m->model, "at", HYP_I64, 1, &rows, 7);
    add_node(m, (onnx_node){.op = "Gather", .inputs = {"x", "at"}, .output = "y"});
    add_output(m, "y", 2, (int64_t[]){rows, row});
}

/* Of rows in two halves. */
static void make_concat(const making *m, int64_t count)
{
    int64_t row = 256, rows = count / row;
    add_input(m, "a", 2, (int64_t[]){rows, row / 2});
    add_input(m, "b", 2, (int64_t[]){rows, row / 2});
    add_node(m, (onnx_node){.op = "Concat", .inputs = {"a", "b"}, .output = "y", .attrs = {{"axis", .i = 1}}});
    add_output(m, "y", 2, (int64_t[]){rows, row});
    add_reader(m, 2);
}

static void make_pointwise(const making *m, const char *op, int64_t count)
{
    static const struct {
        const char *op, *onnx;
        int inputs;
    } known[] = {
#define OPERATOR(op, onnx, inputs) {op, onnx, inputs},
        POINTWISE_OPERATORS(OPERATOR)
#undef OPERATOR
    };
    size_t at = 0;
    while (strcmp(known[at].op, op) != 0) at++;
    onnx_node node = {.op = known[at].onnx, .inputs = {"a"}, .output = "y"};
    add_input(m, "a", 1, &count);
    if (known[at].inputs > 1) add_input(m, node.inputs[1] = "b", 1, &count);
    add_node(m, node);
    add_output(m, "y", 1, &count);
}

/* To the kernel's type; what it is from matters less. */
static void make_cast(const making *m, int64_t count)
{
    onnx_add_input(m->model, "x", m->type == HYP_F32 ? HYP_I64 : HYP_F32, 1, &count);
    add_node(m, (onnx_node){.op = "Cast", .inputs = {"x"}, .output = "y", .attrs = {{"to", .i = m->type}}});
    add_output(m, "y", 1, &count);
}

bool calibration_is_trained(const calibration_kernel *kernel)
{
    return strcmp(kernel->op, "conv-backward-weights") == 0;
}

bool calibration_is_rewritten(const calibration_kernel *kernel) { return strcmp(kernel->op, "attention") == 0; }

/* Goes over so many bytes. */
static void add_sweep(const making *m, double bytes, bool written)
{
    int64_t in = (int64_t)(bytes / (written ? 2 * sizeof(float) : sizeof(float))), out = written ? in : 1;
    add_input(m, "swept", 1, &in);
    add_node(m, (onnx_node){.op = written ? "Neg" : "ReduceMean", .inputs = {"swept"}, .output = "unread"});
    add_output(m, "unread", 1, &out);
}

/* Columns of a mean that make a square are those of an image. */
static bool is_image(const int64_t *shape) { return root(shape[1]) * root(shape[1]) == shape[1]; }

int calibration_model(onnx_model *model, const calibration_kernel *k, double bytes, bool written)
{
    const making m = {model, k->type, k->shape};
    const char *op = k->op;
    if (bytes > 0) add_sweep(&m, bytes, written);
    if (strcmp(op, "linear") == 0) return make_linear(&m, bytes > 0 ? 8 : 2), CALIBRATION_MEAN;
    if (strcmp(op, "conv") == 0) return make_conv(&m, false);
    if (calibration_is_trained(k)) return make_conv(&m, true), CALIBRATION_SUM;
    if (strcmp(op, "matmul") == 0) return make_matmul(&m), CALIBRATION_SUM;
    if (strcmp(op, "attention") == 0) return make_attention(&m), CALIBRATION_SUM;
    if (strcmp(op, "conv-transpose") == 0) return make_conv_transpose(&m), CALIBRATION_SUM;
    if (strcmp(op, "max-pool") == 0)
        make_pool(&m, "MaxPool");
    else if (strcmp(op, "average-pool") == 0)
        make_pool(&m, "AveragePool");
    else if (strcmp(op, "softmax") == 0 || strcmp(op, "layer-norm") == 0 ||
             (strcmp(op, "reduce-mean") == 0 && k->shape[2] == 1))
        make_rows(&m, op);
    else if (strcmp(op, "reduce-mean") == 0 && is_image(k->shape))
        make_image_mean(&m);
    else if (strcmp(op, "reduce-mean") == 0 || strcmp(op, "reduce-sum") == 0)
        make_columns(&m, strcmp(op, "reduce-sum") == 0 ? "ReduceSum" : "ReduceMean");
    else if (strcmp(op, "transpose") == 0)
        make_transpose(&m);
    else if (strcmp(op, "gather") == 0)
        make_gather(&m, k->shape[0]);
    else if (strcmp(op, "concat") == 0)
        make_concat(&m, k->shape[0]);
    else if (strcmp(op, "cast") == 0)
        make_cast(&m, k->shape[0]);
    else
        make_pointwise(&m, op, k->shape[0]);
    return CALIBRATION_SUM;
}

/* ---- side by side ------------------------------------------------------------------------------------------- */

const calibration_kernel calibration_shares[] = {
    {"linear", HYP_F32, {64, 1024, 1024}, false},   {"linear", HYP_BF16, {64, 1024, 1024}, false},
    {"matmul", HYP_F32, {16, 64, 64, 64}, false},   {"matmul", HYP_BF16, {16, 64, 64, 64}, false},
    {"conv", HYP_F32, {784, 128, 128, 9, 1}, false}, {"conv", HYP_BF16, {784, 128, 128, 9, 1}, false},
    {"linear", HYP_F32, {64, 256, 256}, false},     {"linear", HYP_BF16, {64, 256, 256}, false},
    {"linear", HYP_F32, {64, 4096, 1024}, false},   {"linear", HYP_BF16, {64, 4096, 1024}, false},
    {"linear", HYP_F32, {1, 2048, 1024}, false},    {"linear", HYP_BF16, {1, 2048, 1024}, false},
    {"linear", HYP_F32, {1024, 1024, 1024}, false}, {"linear", HYP_BF16, {1024, 1024, 1024}, false},
    {"conv", HYP_F32, {3136, 64, 64, 9, 1}, false}, {"conv", HYP_BF16, {3136, 64, 64, 9, 1}, false},
    {"conv", HYP_F32, {196, 256, 256, 9, 1}, false}, {"conv", HYP_BF16, {196, 256, 256, 9, 1}, false},
    {"conv", HYP_F32, {784, 256, 256, 1, 1}, false}, {"conv", HYP_BF16, {784, 256, 256, 1, 1}, false},
    {"linear", HYP_F32, {64, 512, 512}, false},     {"linear", HYP_BF16, {64, 512, 512}, false},
    {"matmul", HYP_F32, {12, 256, 256, 256}, false}, {"matmul", HYP_BF16, {12, 256, 256, 256}, false}};
const size_t calibration_share_count = sizeof calibration_shares / sizeof *calibration_shares;

/* The name of what kernel `k` of a chain gives, -1 of what it begins with. */
static const char *name_of(char out[24], int chain, int k)
{
    snprintf(out, 24, "c%d.%d", chain, k + 1);
    return out;
}

/* A kernel of a chain. No two have the same weights, or they would be one. */
static void add_link(const making *m, const calibration_crowd *c, int chain, int k)
{
    char x[24], other[24], y[24], w[32];
    const int64_t *s = m->s, side = root(s[3]), pads[4] = {side / 2, side / 2, side / 2, side / 2};
    const double one = 1 + chain + c->chains * k;
    name_of(x, chain, k - 1);
    name_of(other, (chain + 1) % c->chains, k - 1);
    name_of(y, chain, k);
    snprintf(w, sizeof w, "w%d.%d", chain, k);
    if (strcmp(c->kernel.op, "linear") == 0) {
        add_constant(m, w, 2, (int64_t[]){s[1], s[2]}, 1 / (one * (double)s[2]));
        add_node(m, (onnx_node){.op = "Gemm", .inputs = {"x", w}, .output = y, .attrs = {{"transB", .i = 1}}});
        add_output(m, y, 2, (int64_t[]){s[0], s[1]});
    } else if (strcmp(c->kernel.op, "matmul") == 0) {
        add_node(m, (onnx_node){.op = "MatMul", .inputs = {x, c->crossing ? other : "square"}, .output = y});
    } else {
        add_constant(m, w, 4, (int64_t[]){s[1], s[2], side, side}, 1 / (one * (double)(s[2] * s[3])));
        add_node(m, (onnx_node){.op = "Conv", .inputs = {x, w}, .output = y, .attrs = {{"pads", pads, 4, 0}}});
    }
}

/* What a chain begins with: the input times a number of its own. */
static void add_head(const making *m, int chain)
{
    char factor[32], head[24];
    snprintf(factor, sizeof factor, "f%d", chain);
    add_constant(m, factor, 1, (int64_t[]){1}, 1.0 / (1 + chain));
    add_node(m, (onnx_node){.op = "Mul", .inputs = {"x", factor}, .output = name_of(head, chain, -1)});
}

void calibration_crowd_model(onnx_model *model, const calibration_crowd *c)
{
    const int64_t *s = c->kernel.shape, side = root(s[0]);
    const making m = {model, c->kernel.type, s};
    const bool linear = strcmp(c->kernel.op, "linear") == 0, product = strcmp(c->kernel.op, "matmul") == 0;
    const int64_t rows[2] = {s[0], s[2]}, batch[3] = {s[0], s[1], s[3]}, result[3] = {s[0], s[1], s[2]},
                  image[4] = {1, s[1], side, side};
    const int rank = linear ? 2 : product ? 3 : 4;
    add_input(&m, "x", rank, linear ? rows : product ? batch : image);
    if (product && !c->crossing) add_input(&m, "square", 3, (int64_t[]){s[0], s[3], s[2]});
    for (int chain = 0; chain < c->chains && !linear; chain++) add_head(&m, chain);
    for (int k = 0; k < c->length; k++)
        for (int chain = 0; chain < c->chains; chain++) add_link(&m, c, chain, k);
    for (int chain = 0; chain < c->chains && !linear; chain++) {
        char last[24];
        add_output(&m, name_of(last, chain, c->length - 1), rank, product ? result : image);
    }
}
