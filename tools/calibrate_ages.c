/* calibrate_ages.c - what leaves a processor's caches by itself: other processors share the last of them, and what was
 * touched some time ago may have made room for their data, though nothing else was touched here.
 *
 * A step writes a tensor, others compute for so long on next to no data, and a sum then reads the tensor. */
#include <math.h>
#include <string.h>

#include "calibration.h"
#include "tempfile.h"

#define LONGEST_WAIT 2e-2 /* seconds; what lies further apart is priced as after that */

enum { HEADS = 12, WIDTH = 64, TIMES = 3 };

typedef struct ages {
    const measure_options *options;
    const cli_list *rules;
    const cli_args *args;
    int64_t rows; /* of HEADS * WIDTH elements: those of the tensor that waits */
} ages;

/* Functions one after the other of few elements, the first of which waits for the tensor, and the sum for the last. */
static void make_model(onnx_model *m, int64_t rows, int functions)
{
    static const int64_t heads[] = {1, 0, 2};
    const int64_t few = 1 << 16, one[] = {1, 1, 1};
    char x[16], y[16] = "f0";
    onnx_add_input(m, "x", HYP_F32, 3, (int64_t[]){rows, HEADS, WIDTH});
    onnx_add_input(m, "z", HYP_F32, 3, (int64_t[]){1, 1, few});
    onnx_add_node(m, &(onnx_node){.op = "Transpose", .inputs = {"x"}, .output = "h", .attrs = {{"perm", heads, 3, 0}}});
    onnx_add_node(m, &(onnx_node){.op = "ReduceMean", .inputs = {"h"}, .output = "begun", .attrs = {{"keepdims", .i = 1}}});
    onnx_add_node(m, &(onnx_node){.op = "Add", .inputs = {"z", "begun"}, .output = y});
    for (int i = 0; i < functions; i++) {
        snprintf(x, sizeof x, "f%d", i);
        snprintf(y, sizeof y, "f%d", i + 1);
        onnx_add_node(m, &(onnx_node){.op = "Erf", .inputs = {x}, .output = y});
    }
    onnx_add_node(m, &(onnx_node){.op = "ReduceMean", .inputs = {y}, .output = "waited", .attrs = {{"keepdims", .i = 1}}});
    onnx_add_node(m, &(onnx_node){.op = "Add", .inputs = {"h", "waited"}, .output = "y"});
    onnx_add_node(m, &(onnx_node){.op = "ReduceMean", .inputs = {"y"}, .output = "mean", .attrs = {{"keepdims", .i = 1}}});
    onnx_add_output(m, "mean", HYP_F32, 3, one);
}

/* Of the steps between the one that has read the tensor and its reader, and of that: the last two means are around it. */
static int take_times(const session *s, const step_times *times, const cli_args *args, double *out_wait, double *out_sum)
{
    size_t first = 0, last = times->count;
    while (first < times->count && strcmp(hyp_engine_step(s->engine, first).label, "reduce-mean") != 0) first++;
    while (last > 0 && strcmp(hyp_engine_step(s->engine, last - 1).label, "add") != 0) last--;
    if (last == 0 || first + 1 >= last) {
        cli_error(args->tool, "a sum behind a mean is no step of its plan");
        return CLI_FAILED;
    }
    *out_wait = 0;
    for (size_t i = first + 1; i + 1 < last; i++) *out_wait += times->measured[i];
    *out_sum = times->measured[last - 1];
    return CLI_OK;
}

static int time_once(const ages *a, int functions, double *out_wait, double *out_sum)
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
                                   .only_rules = (const char *const *)a->rules->items,
                                   .only_rule_count = a->rules->count};
    int code = tempfile_open(&file, a->args->tool);
    if (code != CLI_OK) return code;
    make_model(&model, a->rows, functions);
    code = onnx_write(&model, file.fd, a->args->tool);
    if (code == CLI_OK) code = measure_open(&s, file.path, &compile, &options, a->args);
    if (code == CLI_OK) code = step_times_measure(&times, &s, each, 3, a->args->tool);
    if (code == CLI_OK) code = take_times(&s, &times, a->args, out_wait, out_sum);
    step_times_free(&times);
    session_close(&s);
    onnx_model_dispose(&model);
    tempfile_close(&file);
    return code;
}

/* The least of several times. */
static int time_sum(const ages *a, int functions, double *out_wait, double *out_sum)
{
    int code = CLI_OK;
    *out_wait = *out_sum = INFINITY;
    for (int i = 0; i < TIMES && code == CLI_OK; i++) {
        double wait = 0, sum = 0;
        code = time_once(a, functions, &wait, &sum);
        *out_wait = fmin(*out_wait, wait);
        *out_sum = fmin(*out_sum, sum);
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

int calibrate_ages(const measure_options *o, const cli_list *rules, double cache_bytes, const cli_args *args, calibration_ages *out)
{
    const double row = HEADS * WIDTH * sizeof(float), first = 2e-4;
    const ages a = {o, rules, args, (int64_t)(4 * cache_bytes / row) + 1};
    double wait, near, waits[CALIBRATION_AGES], moving[CALIBRATION_AGES];
    size_t count = 0;
    int code = time_sum(&a, 0, &wait, &near);
    for (int functions = 2; code == CLI_OK && count < CALIBRATION_AGES && wait < LONGEST_WAIT; functions *= 2) {
        double sum = 0;
        code = time_sum(&a, functions, &wait, &sum);
        if (code != CLI_OK || (count > 0 && wait <= waits[count - 1])) continue;
        waits[count] = wait;
        moving[count] = fmax(count > 0 ? moving[count - 1] : 0, (sum - near) / ((double)a.rows * row));
        count++;
    }
    out->count = count > 0 && code == CLI_OK ? CALIBRATION_AGES : 0;
    for (size_t i = 0; i < out->count; i++) {
        out->of[i].seconds = ldexp(first, (int)i);
        out->of[i].moving = between(waits, moving, count, out->of[i].seconds);
    }
    return code;
}
