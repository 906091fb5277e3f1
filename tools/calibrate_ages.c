/* calibrate_ages.c - what leaves a processor's caches by itself: other processors share the last of them, and what was
 * touched some time ago may have made room for their data, though nothing else was touched here.
 *
 * A step writes a tensor, others compute for so long on next to no data, and then a sum reads it, or a convolution of single
 * channels, which cannot foresee so well what it will want. */
#include <math.h>
#include <string.h>

#include "calibration.h"
#include "tempfile.h"

#define FIRST_WAIT 2e-4 /* seconds; each further one of the profile is twice as long */
#define LONGEST_WAIT 2e-2 /* seconds; what lies further apart is priced as after that */

enum { HEADS = 12, WIDTH = 64, CHANNELS = 64, FEW = 1 << 16, TIMES = 3 };

/* Adds nodes from "f0" on, of functions one after the other; *out is the name of what the last one gives. */
static void add_functions(onnx_model *m, int functions, char out[16])
{
    char x[16];
    snprintf(out, 16, "f0");
    for (int i = 0; i < functions; i++) {
        snprintf(x, sizeof x, "f%d", i);
        snprintf(out, 16, "f%d", i + 1);
        onnx_add_node(m, &(onnx_node){.op = "Erf", .inputs = {x}, .output = out});
    }
}

typedef struct ages {
    const measure_options *options;
    const cli_list *rules;
    const cli_args *args;
    double bytes; /* about so many the tensor has that waits */
} ages;

/* A reader of the tensor: its model, the label of its steps, and how many of these lie behind it. */
typedef struct reader {
    int64_t (*make)(onnx_model *m, double bytes, int functions); /* returns how many bytes it reads and writes that have aged */
    const char *mean, *label;
    size_t behind;
} reader;

/* The first of some functions of few elements waits for the tensor, and the sum, which takes its place, for the last. */
static int64_t make_sum(onnx_model *m, double bytes, int functions)
{
    static const int64_t heads[] = {1, 0, 2};
    const int64_t few = FEW, one[] = {1, 1, 1}, rows = (int64_t)(bytes / (HEADS * WIDTH * sizeof(float))) + 1;
    const onnx_attr all = {"keepdims", .i = 1};
    char y[16];
    onnx_add_input(m, "x", HYP_F32, 3, (int64_t[]){rows, HEADS, WIDTH});
    onnx_add_input(m, "z", HYP_F32, 3, (int64_t[]){1, 1, few});
    onnx_add_node(m, &(onnx_node){.op = "Transpose", .inputs = {"x"}, .output = "h", .attrs = {{"perm", heads, 3, 0}}});
    onnx_add_node(m, &(onnx_node){.op = "ReduceMean", .inputs = {"h"}, .output = "begun", .attrs = {all}});
    onnx_add_node(m, &(onnx_node){.op = "Add", .inputs = {"z", "begun"}, .output = "f0"});
    add_functions(m, functions, y);
    onnx_add_node(m, &(onnx_node){.op = "ReduceMean", .inputs = {y}, .output = "waited", .attrs = {all}});
    onnx_add_node(m, &(onnx_node){.op = "Add", .inputs = {"h", "waited"}, .output = "y"});
    onnx_add_node(m, &(onnx_node){.op = "ReduceMean", .inputs = {"y"}, .output = "mean", .attrs = {all}});
    onnx_add_output(m, "mean", HYP_F32, 3, one);
    return rows * HEADS * WIDTH * (int64_t)sizeof(float);
}

/* The same of an image; the bias of the convolution is what waits. Its result goes where it was a run ago. */
static int64_t make_convolution(onnx_model *m, double bytes, int functions)
{
    enum { OUTSIDE = 4, TAPS = 3 };
    const int64_t side = (int64_t)sqrt(bytes / (CHANNELS * sizeof(float))) + 1, few = FEW / CHANNELS, channels = CHANNELS;
    static const int64_t pads[] = {1, 1, 1, 1};
    char y[16];
    onnx_add_input(m, "x", HYP_F32, 4, (int64_t[]){1, OUTSIDE, side, side});
    onnx_add_input(m, "z", HYP_F32, 4, (int64_t[]){1, CHANNELS, 1, few});
    onnx_add_constant(m, "w0", HYP_F32, 4, (int64_t[]){CHANNELS, OUTSIDE, 1, 1}, 0.1);
    onnx_add_constant(m, "w1", HYP_F32, 4, (int64_t[]){CHANNELS, 1, TAPS, TAPS}, 0.1);
    onnx_add_constant(m, "w2", HYP_F32, 4, (int64_t[]){OUTSIDE, CHANNELS, 1, 1}, 0.1);
    onnx_add_constant(m, "list", HYP_I64, 1, (int64_t[]){1}, CHANNELS);
    onnx_add_node(m, &(onnx_node){.op = "Conv", .inputs = {"x", "w0"}, .output = "h"});
    onnx_add_node(m, &(onnx_node){.op = "GlobalAveragePool", .inputs = {"h"}, .output = "begun"});
    onnx_add_node(m, &(onnx_node){.op = "Add", .inputs = {"z", "begun"}, .output = "f0"});
    add_functions(m, functions, y);
    onnx_add_node(m, &(onnx_node){.op = "GlobalAveragePool", .inputs = {y}, .output = "waited"});
    onnx_add_node(m, &(onnx_node){.op = "Reshape", .inputs = {"waited", "list"}, .output = "bias"});
    onnx_add_node(m, &(onnx_node){.op = "Conv",
                                  .inputs = {"h", "w1", "bias"},
                                  .output = "y",
                                  .attrs = {{"group", .i = channels}, {"pads", pads, 4, 0}}});
    onnx_add_node(m, &(onnx_node){.op = "Conv", .inputs = {"y", "w2"}, .output = "o"});
    onnx_add_output(m, "o", HYP_F32, 4, (int64_t[]){1, OUTSIDE, side, side});
    return 2 * side * side * CHANNELS * (int64_t)sizeof(float);
}

static const reader readers[] = {{make_sum, "reduce-mean", "add", 0}, {make_convolution, "reduce-mean", "conv", 1}};

/* Of the steps between the mean that has begun the wait and the reader, and of that. */
static int take_times(const session *s, const reader *r, const step_times *times, const cli_args *args, double *out_wait,
                      double *out_reader)
{
    size_t first = 0, last = times->count, behind = r->behind;
    while (first < times->count && strcmp(hyp_engine_step(s->engine, first).label, r->mean) != 0) first++;
    while (last > 0 && (strcmp(hyp_engine_step(s->engine, last - 1).label, r->label) != 0 || behind-- > 0)) last--;
    if (last == 0 || first + 1 >= last) {
        cli_error(args->tool, "%s behind %s is no step of its plan", r->label, r->mean);
        return CLI_FAILED;
    }
    *out_wait = 0;
    for (size_t i = first + 1; i + 1 < last; i++) *out_wait += times->measured[i];
    *out_reader = times->measured[last - 1];
    return CLI_OK;
}

static int time_once(const ages *a, const reader *r, int functions, double *out_wait, double *out_reader, int64_t *out_bytes)
{
    const double each = 4e-2; /* seconds */
    onnx_model model = {0};
    tempfile file;
    session s = {0};
    step_times times = {0};
    measure_options options = *a->options;
    options.threads = 1;
    hyp_compile_options compile = {.size = sizeof compile,
                                   .target = "cpu",
                                   .max_fold_bytes = (size_t)1 << 20, /* constants are written as nodes */
                                   .only_rules = (const char *const *)a->rules->items,
                                   .only_rule_count = a->rules->count};
    int code = tempfile_open(&file, a->args->tool);
    if (code != CLI_OK) return code;
    *out_bytes = r->make(&model, a->bytes, functions);
    code = onnx_write(&model, file.fd, a->args->tool);
    if (code == CLI_OK) code = measure_open(&s, file.path, &compile, &options, a->args);
    if (code == CLI_OK) code = step_times_measure(&times, &s, each, 3, a->args->tool);
    if (code == CLI_OK) code = take_times(&s, r, &times, a->args, out_wait, out_reader);
    step_times_free(&times);
    session_close(&s);
    onnx_model_dispose(&model);
    tempfile_close(&file);
    return code;
}

/* The least of several times. */
static int time_reader(const ages *a, const reader *r, int functions, double *out_wait, double *out_reader, int64_t *out_bytes)
{
    int code = CLI_OK;
    *out_wait = *out_reader = INFINITY;
    for (int i = 0; i < TIMES && code == CLI_OK; i++) {
        double wait = 0, seconds = 0;
        code = time_once(a, r, functions, &wait, &seconds, out_bytes);
        *out_wait = fmin(*out_wait, wait);
        *out_reader = fmin(*out_reader, seconds);
    }
    return code;
}

/* Brings what was measured after some waits to waits that are the same in every calibration, so that several make one: in
 * between in proportion to the logarithm, as the cost model has it, and nothing at half of the first. */
static double between(const double *waits, const double *moving, size_t count, double seconds)
{
    double low = waits[0] / 2, at_low = 0;
    for (size_t i = 0; i < count; i++) {
        if (waits[i] >= seconds)
            return seconds <= low ? at_low : at_low + log(seconds / low) / log(waits[i] / low) * (moving[i] - at_low);
        low = waits[i];
        at_low = moving[i];
    }
    return at_low;
}

/* Of a byte that a reader moves, after the waits of the profile. */
static int measure_reader(const ages *a, const reader *r, double out[CALIBRATION_AGES])
{
    double wait, near, waits[CALIBRATION_AGES], moving[CALIBRATION_AGES];
    int64_t bytes;
    size_t count = 0;
    int code = time_reader(a, r, 0, &wait, &near, &bytes);
    for (int functions = 2; code == CLI_OK && count < CALIBRATION_AGES && wait < LONGEST_WAIT; functions *= 2) {
        double seconds = 0;
        code = time_reader(a, r, functions, &wait, &seconds, &bytes);
        if (code != CLI_OK || (count > 0 && wait <= waits[count - 1])) continue;
        waits[count] = wait;
        moving[count] = fmax(count > 0 ? moving[count - 1] : 0, (seconds - near) / (double)bytes);
        count++;
    }
    for (size_t i = 0; i < CALIBRATION_AGES; i++) out[i] = count > 0 ? between(waits, moving, count, ldexp(FIRST_WAIT, (int)i)) : 0;
    return code;
}

int calibrate_ages(const measure_options *o, const cli_list *rules, double cache_bytes, const cli_args *args, calibration_ages *out)
{
    const ages a = {o, rules, args, 4 * cache_bytes};
    double moving[CALIBRATION_AGES], windows[CALIBRATION_AGES];
    int code = measure_reader(&a, &readers[0], moving);
    if (code == CLI_OK) code = measure_reader(&a, &readers[1], windows);
    out->count = code == CLI_OK ? CALIBRATION_AGES : 0;
    for (size_t i = 0; i < out->count; i++) {
        out->of[i].seconds = ldexp(FIRST_WAIT, (int)i);
        out->of[i].moving = moving[i];
        out->of[i].windows = windows[i];
    }
    return code;
}
