/* calibrate_streams.c - what a GPU makes of steps at once: chains of small kernels, which do not wait for each other,
 * in runs on one stream and on several. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "measure.h"
#include "resident.h"
#include "tempfile.h"
#include "timing.h"

#define STREAMS_VARIABLE "HYPATIA_CUDA_STREAMS"

enum { SEVERAL = 4, ROUNDS = 7, RUNS = 40 };

/* Seconds of a run, of many that are queued: the median of some rounds. */
static int time_runs(session *s, const char *tool, double *out)
{
    hyp_diag diag = {0};
    double rounds[ROUNDS];
    for (int k = -1; k < ROUNDS; k++) { /* the first captures the graph */
        double begin = timing_now();
        hyp_status status = HYP_OK;
        for (int i = 0; i < RUNS && status == HYP_OK; i++)
            status = hyp_context_run(s->context, s->inputs, s->input_count, s->outputs, s->output_count, &diag);
        if (status == HYP_OK) status = hyp_context_synchronize(s->context, &diag);
        if (status != HYP_OK) return cli_report(tool, &diag);
        if (k >= 0) rounds[k] = (timing_now() - begin) / RUNS;
    }
    *out = timing_median(rounds, ROUNDS);
    return CLI_OK;
}

/* A plan of these kernels, in a file that is removed when it is closed. */
static int compile_crowd(const calibration_crowd *crowd, const cli_list *rules, const char *plan, const cli_args *args)
{
    onnx_model model = {0};
    tempfile file;
    hyp_diag diag = {0};
    hyp_compile_options compile = {.size = sizeof compile,
                                   .target = "cuda",
                                   .no_record = true,
                                   .max_fold_bytes = (size_t)1 << 30, /* constants are written as nodes */
                                   .only_rules = (const char *const *)rules->items,
                                   .only_rule_count = rules->count};
    int code = tempfile_open(&file, args->tool);
    if (code != CLI_OK) return code;
    calibration_crowd_model(&model, crowd);
    code = onnx_write(&model, file.fd, args->tool);
    if (code == CLI_OK && hyp_compile_file(file.path, plan, &compile, NULL, &diag) != HYP_OK) code = cli_report(args->tool, &diag);
    onnx_model_dispose(&model);
    tempfile_close(&file);
    return code;
}

/* A run of a plan on so many streams. */
static int time_plan(const char *plan, int streams, const measure_options *o, const cli_args *args, double *out)
{
    session s = {0};
    resident device = {0};
    const session_options where = {.plan = plan, .device = o->device, .threads = o->threads};
    char text[] = {(char)('0' + streams), 0};
    setenv(STREAMS_VARIABLE, text, 1);
    int code = measure_open_plan(&s, &where, args);
    if (code == CLI_OK) code = resident_open(&device, &s, args->tool);
    if (code == CLI_OK) {
        resident_use(&device, &s, true);
        code = time_runs(&s, args->tool, out);
    }
    unsetenv(STREAMS_VARIABLE);
    resident_close(&device, &s);
    session_close(&s);
    return code;
}

/* Runs on one stream and on several; *one may be NULL. */
static int time_crowd(const calibration_crowd *crowd, const cli_list *rules, const measure_options *o, const cli_args *args,
                      double *one, double *several)
{
    tempfile plan;
    int code = tempfile_open(&plan, args->tool);
    if (code != CLI_OK) return code;
    code = compile_crowd(crowd, rules, plan.path, args);
    if (code == CLI_OK && one) code = time_plan(plan.path, 1, o, args, one);
    if (code == CLI_OK) code = time_plan(plan.path, SEVERAL, o, args, several);
    tempfile_close(&plan);
    return code;
}

/* Of chains of products that read each other, and of those that do not, on a stream each: what every link takes longer. */
static int measure_hop(const cli_list *rules, const measure_options *o, const cli_args *args, double *out)
{
    enum { LENGTH = 12 };
    calibration_crowd crowd = {{"matmul", HYP_F32, {16, 64, 64, 64}, false}, SEVERAL, LENGTH, false};
    double apart = 0, crossing = 0;
    int code = time_crowd(&crowd, rules, o, args, NULL, &apart);
    crowd.crossing = true;
    if (code == CLI_OK) code = time_crowd(&crowd, rules, o, args, NULL, &crossing);
    *out = fmax(1e-8, (crossing - apart) / LENGTH);
    return code;
}

/* Of n at once each takes 1 + (n - 1) times its share as long as alone. */
static int measure_share(const calibration_kernel *k, const cli_list *rules, const measure_options *o, const cli_args *args,
                         double *out)
{
    enum { LENGTH = 4 };
    const calibration_crowd crowd = {*k, SEVERAL, LENGTH, false};
    double one = 0, several = 0;
    int code = time_crowd(&crowd, rules, o, args, &one, &several);
    if (code == CLI_OK) *out = fmax(0.01, (SEVERAL * several / one - 1) / (SEVERAL - 1));
    return code;
}

int calibrate_streams(const measure_options *o, const cli_list *rules, double deadline, const cli_args *args,
                      calibration_streams *out)
{
    int code = measure_hop(rules, o, args, &out->hop);
    for (size_t i = 0; i < calibration_share_count && code == CLI_OK && timing_now() < deadline; i++)
        code = measure_share(&calibration_shares[i], rules, o, args, &out->shares[i]);
    return code;
}
