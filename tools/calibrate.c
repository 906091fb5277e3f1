/* hypatiac --calibrate: kernels of the CPU here, timed as steps of small plans, as a profile for the cost model. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"
#include "onnx_writer.h"
#include "tempfile.h"
#include "timing.h"

/* ---- what is measured ------------------------------------------------------------------------------------- */

enum { SIZES = 4 };

/* One kernel: an operator by the name that profiles use, and its shape as in docs/rules.md. */
typedef struct kernel {
    const char *op;
    hyp_dtype type;
    int64_t shape[SIZES];
} kernel;

static const kernel products[] = {
    {"linear", HYP_F32, {1, 64, 64}},        {"linear", HYP_F32, {1, 256, 256}},
    {"linear", HYP_F32, {1, 1024, 1024}},    {"linear", HYP_F32, {1, 1024, 4096}},
    {"linear", HYP_F32, {8, 64, 64}},        {"linear", HYP_F32, {8, 256, 256}},
    {"linear", HYP_F32, {8, 1024, 1024}},    {"linear", HYP_F32, {32, 64, 64}},
    {"linear", HYP_F32, {32, 256, 256}},     {"linear", HYP_F32, {32, 768, 768}},
    {"linear", HYP_F32, {32, 3072, 768}},    {"linear", HYP_F32, {32, 768, 3072}},
    {"linear", HYP_F32, {128, 64, 64}},      {"linear", HYP_F32, {128, 256, 256}},
    {"linear", HYP_F32, {128, 1024, 1024}},  {"linear", HYP_F32, {512, 256, 256}},
    {"linear", HYP_F32, {512, 1024, 1024}},  {"linear", HYP_F64, {1, 256, 256}},
    {"linear", HYP_F64, {32, 256, 256}},     {"linear", HYP_F16, {1, 256, 256}},
    {"linear", HYP_F16, {32, 256, 256}},     {"linear", HYP_BF16, {1, 256, 256}},
    {"linear", HYP_BF16, {128, 1024, 1024}}, {"matmul", HYP_F32, {12, 32, 32, 64}},
    {"matmul", HYP_F32, {12, 32, 64, 32}},   {"matmul", HYP_F32, {12, 128, 128, 64}},
    {"matmul", HYP_F32, {12, 512, 512, 64}}, {"matmul", HYP_F32, {1, 64, 64, 64}},
    {"matmul", HYP_F32, {1, 512, 512, 512}},
};

/* Operators over elements, by what ONNX calls them, and the sizes at which each is measured. */
static const struct {
    const char *op, *onnx;
    int inputs;
} passes[] = {
    {"add", "Add", 2},
    {"mul", "Mul", 2},
    {"div", "Div", 2},
    {"relu", "Relu", 1},
    {"gelu", "Gelu", 1},
    {"sigmoid", "Sigmoid", 1},
    {"tanh", "Tanh", 1},
    {"exp", "Exp", 1},
    {"erf", "Erf", 1},
    {"sqrt", "Sqrt", 1},
    {"softmax", "Softmax", 1},
    {"layer-norm", "LayerNormalization", 1},
    {"transpose", "Transpose", 1},
    {"reduce-mean", "ReduceMean", 1},
};
static const int64_t elements[] = {1 << 10, 1 << 14, 1 << 18, 1 << 21};

enum {
    PRODUCTS = sizeof products / sizeof *products,
    PASSES = sizeof passes / sizeof *passes,
    ELEMENTS = sizeof elements / sizeof *elements,
    KERNELS = PRODUCTS + PASSES * ELEMENTS,
    OTHERS = 4 /* launch, memory, cache, arithmetic */
};

/* ---- models ----------------------------------------------------------------------------------------------- */

/* Small layers come in small models, whose weights stay in the cache; those of a large model are read from memory
 * again in every run. */
enum { MOST_COPIES = 16, WARM_BYTES = 1 << 20, COLD_BYTES = 64 << 20 };

static int copies_of(const kernel *k)
{
    int64_t bytes = k->shape[1] * k->shape[2] * (int64_t)hyp_dtype_size(k->type);
    int64_t copies = (bytes < WARM_BYTES ? WARM_BYTES : COLD_BYTES) / bytes;
    return copies > MOST_COPIES ? MOST_COPIES : copies < 2 ? 2 : (int)copies;
}

/* The model's own type; f16 and bf16 are a matter of --precision. */
static hyp_dtype model_type(const kernel *k) { return k->type == HYP_F64 ? HYP_F64 : HYP_F32; }

/* Gemm i of x with weights of its own. */
static void add_gemm(onnx_model *m, hyp_dtype t, int i, const char *x, const char *y, int64_t n, int64_t k)
{
    char w[32], b[32];
    snprintf(w, sizeof w, "w%d", i);
    snprintf(b, sizeof b, "b%d", i);
    onnx_add_constant(m, w, t, 2, (int64_t[]){n, k}, 1.0 / (double)(k + i));
    onnx_add_constant(m, b, t, 1, (int64_t[]){n}, 0.01 * (i + 1));
    onnx_add_node(m, &(onnx_node){.op = "Gemm", .inputs = {x, w, b}, .output = y, .attr = "transB", .i = 1});
}

/* Several layers that read one x. What they give is averaged, so that it lies in scratch memory. */
static void make_linear(onnx_model *m, const kernel *k)
{
    hyp_dtype t = model_type(k);
    onnx_add_input(m, "x", t, 2, (int64_t[]){k->shape[0], k->shape[2]});
    for (int i = 0; i < copies_of(k); i++) {
        char y[32], mean[32];
        snprintf(y, sizeof y, "y%d", i);
        snprintf(mean, sizeof mean, "mean%d", i);
        add_gemm(m, t, i, "x", y, k->shape[1], k->shape[2]);
        onnx_add_node(m, &(onnx_node){.op = "ReduceMean", .inputs = {y}, .output = mean, .attr = "keepdims", .i = 1});
        onnx_add_output(m, mean, t, 2, (int64_t[]){1, 1});
    }
}

static void make_matmul(onnx_model *m, const kernel *k)
{
    const int64_t *s = k->shape;
    onnx_add_input(m, "a", HYP_F32, 3, (int64_t[]){s[0], s[1], s[3]});
    onnx_add_input(m, "b", HYP_F32, 3, (int64_t[]){s[0], s[3], s[2]});
    onnx_add_node(m, &(onnx_node){.op = "MatMul", .inputs = {"a", "b"}, .output = "y"});
    onnx_add_output(m, "y", HYP_F32, 3, (int64_t[]){s[0], s[1], s[2]});
}

/* An operator over rows of 128, or fewer. */
static void make_pass(onnx_model *m, const char *onnx, int inputs, int64_t count)
{
    const int64_t row = count < 128 ? count : 128, dims[2] = {count / row, row}, swap[2] = {1, 0};
    onnx_node node = {.op = onnx, .inputs = {"a"}, .output = "y"};
    int64_t out[2] = {dims[0], dims[1]};
    onnx_add_input(m, "a", HYP_F32, 2, dims);
    if (inputs > 1) onnx_add_input(m, node.inputs[1] = "b", HYP_F32, 2, dims);
    if (strcmp(onnx, "LayerNormalization") == 0) {
        onnx_add_constant(m, node.inputs[1] = "scale", HYP_F32, 1, &row, 1.5);
        onnx_add_constant(m, node.inputs[2] = "bias", HYP_F32, 1, &row, 0.5);
    } else if (strcmp(onnx, "Transpose") == 0) {
        node.attr = "perm", node.ints = swap, node.count = 2;
        out[0] = dims[1], out[1] = dims[0];
    } else if (strcmp(onnx, "ReduceMean") == 0) {
        onnx_add_constant(m, node.inputs[1] = "axes", HYP_I64, 1, (int64_t[]){1}, 1);
        out[1] = 1;
    }
    onnx_add_node(m, &node);
    onnx_add_output(m, "y", HYP_F32, 2, out);
}

/* ---- one measurement --------------------------------------------------------------------------------------- */

typedef struct calibration {
    const measure_options *options;
    const cli_args *args;
    cli_list normal; /* rules */
    double clock;    /* seconds that reading the clock twice takes */
    int done;
    bool shows; /* progress, on a terminal */
} calibration;

static void show_progress(calibration *c, const char *what)
{
    c->done++;
    if (c->shows) fprintf(stderr, "\r%s: measuring %d of %d: %-24s", c->args->tool, c->done, KERNELS + OTHERS, what);
}

static void find_clock(calibration *c)
{
    c->clock = INFINITY;
    for (int i = 0; i < 1000; i++) {
        double begin = timing_now();
        c->clock = fmin(c->clock, timing_now() - begin);
    }
}

/* Compiles a model and times the steps with this label; *out is what one of them takes, 0 when there is none. */
static int time_steps(calibration *c, const onnx_model *model, const hyp_compile_options *compile, const char *label,
                      double *out)
{
    tempfile file;
    session s = {0};
    step_times times = {0};
    int code = tempfile_open(&file, c->args->tool), count = 0;
    if (code != CLI_OK) return code;
    code = onnx_write(model, file.fd, c->args->tool);
    if (code == CLI_OK) code = measure_open(&s, file.path, compile, c->options, c->args);
    if (code == CLI_OK)
        code = step_times_measure(&times, &s, c->options->seconds / (2 * (KERNELS + OTHERS)), c->args->tool);
    *out = 0;
    for (size_t i = 0; i < times.count && code == CLI_OK; i++) {
        if (strcmp(hyp_engine_step(s.engine, i).label, label) != 0) continue;
        *out += fmax(1e-10, times.measured[i] - c->clock);
        count++;
    }
    if (count) *out /= count;
    step_times_free(&times);
    session_close(&s);
    tempfile_close(&file);
    return code;
}

static int time_product(calibration *c, const kernel *k, double *out)
{
    onnx_model model = {0};
    hyp_compile_options compile = {.size = sizeof compile,
                                   .precision = k->type == HYP_F16    ? "fp16"
                                                : k->type == HYP_BF16 ? "bf16"
                                                                      : "fp32",
                                   .only_rules = (const char *const *)c->normal.items,
                                   .only_rule_count = c->normal.count};
    if (strcmp(k->op, "matmul") == 0)
        make_matmul(&model, k);
    else
        make_linear(&model, k);
    int code = time_steps(c, &model, &compile, k->op, out);
    onnx_model_dispose(&model);
    return code;
}

static int time_pass(calibration *c, const char *op, const char *onnx, int inputs, int64_t count, double *out)
{
    onnx_model model = {0};
    hyp_compile_options compile = {.size = sizeof compile, .no_rewrite = true};
    make_pass(&model, onnx, inputs, count);
    int code = time_steps(c, &model, &compile, op, out);
    onnx_model_dispose(&model);
    return code;
}

/* ---- the profile ------------------------------------------------------------------------------------------- */

/* Keys of the profile, and what every kernel took; 0: there was no such step. */
typedef struct results {
    double launch, bytes_per_second, cache_bytes, cache_bytes_per_second, pointwise;
    double products[PRODUCTS], passes[PASSES][ELEMENTS];
} results;

static double cache_bytes(int threads)
{
    long bytes = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return (bytes > 0 ? (double)bytes : 1 << 20) * threads;
}

static int measure_device(calibration *c, int threads, results *r)
{
    enum { TINY = 8, LARGE = 1 << 24, SIMPLE = 1 << 12 };
    double large = 0, cached = 0, simple = 0;
    r->cache_bytes = cache_bytes(threads);
    int64_t fits = (int64_t)(r->cache_bytes / 4 / sizeof(float)) & ~127;
    show_progress(c, "launch");
    int code = time_pass(c, "relu", "Relu", 1, TINY, &r->launch);
    show_progress(c, "memory");
    if (code == CLI_OK) code = time_pass(c, "relu", "Relu", 1, LARGE, &large);
    show_progress(c, "cache");
    if (code == CLI_OK) code = time_pass(c, "relu", "Relu", 1, fits, &cached);
    show_progress(c, "arithmetic");
    if (code == CLI_OK) code = time_pass(c, "add", "Add", 2, SIMPLE, &simple);
    if (code != CLI_OK) return code;
    r->bytes_per_second = 2 * sizeof(float) * (double)LARGE / large;
    r->cache_bytes_per_second = fmax(r->bytes_per_second, 2 * sizeof(float) * (double)fits / cached);
    r->pointwise = SIMPLE / fmax(simple - r->launch, simple / 4);
    return CLI_OK;
}

/* The best rate of the layers of a type, among those measured so far; 0 when there are none. */
static double best_rate(const results *r, hyp_dtype type)
{
    double best = 0;
    for (int i = 0; i < PRODUCTS; i++) {
        const int64_t *s = products[i].shape;
        if (products[i].type != type || strcmp(products[i].op, "linear") != 0 || !(r->products[i] > 0)) continue;
        best = fmax(best, 2 * (double)s[0] * (double)s[1] * (double)s[2] / r->products[i]);
    }
    return best;
}

/* Whether a run of the kernel's model would take too much of the time, by the rate of smaller layers of its type: 16 bits
 * take hundreds of times as long as 32 where the processor has nothing for them. */
static bool is_too_slow(const calibration *c, const kernel *k, const results *r)
{
    const double most_seconds = c->options->seconds / 20;
    double rate = best_rate(r, k->type), flops = 2;
    for (int a = 0; a < SIZES && k->shape[a]; a++) flops *= (double)k->shape[a];
    return strcmp(k->op, "linear") == 0 && rate > 0 && flops * copies_of(k) > rate * most_seconds;
}

static int measure_kernels(calibration *c, results *r)
{
    char what[96];
    int code = CLI_OK;
    for (int i = 0; i < PRODUCTS && code == CLI_OK; i++) {
        const kernel *k = &products[i];
        snprintf(what, sizeof what, "%s %s", k->op, hyp_dtype_name(k->type));
        show_progress(c, what);
        if (!is_too_slow(c, k, r)) code = time_product(c, k, &r->products[i]);
    }
    for (int p = 0; p < PASSES && code == CLI_OK; p++)
        for (int e = 0; e < ELEMENTS && code == CLI_OK; e++) {
            show_progress(c, passes[p].op);
            code = time_pass(c, passes[p].op, passes[p].onnx, passes[p].inputs, elements[e], &r->passes[p][e]);
        }
    return code;
}

static void print_profile(FILE *to, const results *r, int threads)
{
    fprintf(to,
            "; Measured by hypatiac --calibrate. docs/rules.md says how the numbers are used.\n"
            "(profile measured\n  (like cpu)\n  (threads %d)\n  (launch-seconds %.3g)\n  (bytes-per-second %.4g)\n"
            "  (cache-bytes %.0f)\n  (cache-bytes-per-second %.4g)\n",
            threads, r->launch, r->bytes_per_second, r->cache_bytes, r->cache_bytes_per_second);
    static const struct {
        const char *key;
        hyp_dtype type;
    } rates[] = {{"flops-f32", HYP_F32},
                 {"flops-tf32", HYP_F32},
                 {"flops-f16", HYP_F16},
                 {"flops-bf16", HYP_BF16},
                 {"flops-f64", HYP_F64}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (best_rate(r, rates[i].type) > 0) fprintf(to, "  (%s %.4g)\n", rates[i].key, best_rate(r, rates[i].type));
    fprintf(to, "  (pointwise-per-second %.4g)", r->pointwise);
    for (int i = 0; i < PRODUCTS; i++) {
        const kernel *k = &products[i];
        if (!(r->products[i] > 0)) continue;
        fprintf(to, "\n  (measured %s", k->op);
        for (int a = 0; a < SIZES && k->shape[a]; a++) fprintf(to, " %lld", (long long)k->shape[a]);
        fprintf(to, " %s %.4g)", hyp_dtype_name(k->type), r->products[i]);
    }
    for (int p = 0; p < PASSES; p++)
        for (int e = 0; e < ELEMENTS; e++)
            if (r->passes[p][e] > 0)
                fprintf(to, "\n  (measured %s %lld f32 %.4g)", passes[p].op, (long long)elements[e], r->passes[p][e]);
    fputs(")\n", to);
}

static int write_profile(const char *path, const results *r, int threads, const char *tool)
{
    bool piped = strcmp(path, "-") == 0;
    FILE *to = piped ? stdout : fopen(path, "w");
    if (to) print_profile(to, r, threads);
    bool whole = to && fflush(to) == 0 && !ferror(to);
    if (to && !piped) whole = fclose(to) == 0 && whole;
    if (whole) return CLI_OK;
    fprintf(stderr, "%s: %s: cannot write: %s\n", tool, path, strerror(errno));
    return CLI_FAILED;
}

int calibrate(const char *path, const measure_options *o, const cli_args *args)
{
    measure_options options = *o;
    if (options.threads == 0) options.threads = 1;
    calibration c = {.options = &options, .args = args, .shows = !o->quiet && isatty(STDERR_FILENO)};
    hyp_compile_options compile = {.size = sizeof compile};
    results r = {0};
    find_clock(&c);
    int code = normal_rules(&compile, &c.normal, args->tool);
    if (code == CLI_OK) code = measure_device(&c, options.threads, &r);
    if (code == CLI_OK) code = measure_kernels(&c, &r);
    if (c.shows) fputc('\n', stderr);
    cli_list_free(&c.normal);
    if (code != CLI_OK) return code;
    return write_profile(path, &r, options.threads, args->tool);
}
