/* hypatiac --calibrate: kernels of the CPU or the GPU here, timed as steps of small plans, as a profile for the cost
 * model. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibration.h"
#include "measure.h"
#include "tempfile.h"
#include "terminal.h"
#include "timing.h"

/* One more kernel of a step is a little less than a kernel of another: nothing is looked up in between. */
#define NEXT_LAUNCH 0.98

/* How much longer than asked for all may take, and for how many seconds at least is measured: with less the profile
 * would hold next to nothing. */
#define LONGEST 1.35
#define SHORTEST 20

/* The part of the time that is for steps side by side. */
#define STREAMS_PART 0.3

enum {
    ROUNDS = 3,
    LAUNCHES = 5, /* times that a launch and simple arithmetic are measured, for they are part of all others */
    AWAY_KERNELS = 4,
    AWAY_TIMES = 3,
    MOST_AWAYS = 16,
    SPEEDUP_TIMES = 2,
    LAST_CACHE_SIZES = 5, /* from 4 MiB on */
    BEYOND_CACHES = 1 << 27,
    OTHERS = 3 + 2 * LAUNCHES + LAST_CACHE_SIZES, /* memory, cache, arithmetic, ... */
    MOST_SPEEDUPS = 8 /* numbers of threads, each of which takes two more */
};

/* ---- one measurement --------------------------------------------------------------------------------------- */

typedef struct calibration {
    const measure_options *options;
    const cli_args *args;
    cli_list normal;        /* rules */
    double clock;           /* seconds that reading the clock twice takes */
    double begin, deadline; /* of the whole; when no more kernels are begun */
    bool gpu;
    size_t rounds;               /* of measuring every kernel */
    calibration_kernel *kernels; /* those of the device, in all of its types */
    size_t kernel_count;
    size_t done, all;
} calibration;

static void show_progress(calibration *c, const char *what)
{
    double spent = timing_now() - c->begin;
    char left[32];
    terminal_work_says("measuring %zu of %zu: %s, about %s left", c->done + 1, c->all, what,
                       terminal_duration(c->done ? spent / (double)c->done * (double)(c->all - c->done) : c->deadline - c->begin, left));
    c->done++;
}

static void find_clock(calibration *c)
{
    c->clock = INFINITY;
    for (int i = 0; i < 1000; i++) {
        double begin = timing_now();
        c->clock = fmin(c->clock, timing_now() - begin);
    }
}

/* Compiles a model and times the steps with this label, those that `which` says; *out is 0 when there are none. */
static int time_steps(calibration *c, const onnx_model *model, const hyp_compile_options *compile, const char *label,
                      int which, int threads, double *out)
{
    tempfile file;
    session s = {0};
    step_times times = {0};
    measure_options options = *c->options;
    options.threads = threads;
    int code = tempfile_open(&file, c->args->tool), count = 0;
    if (code != CLI_OK) return code;
    code = onnx_write(model, file.fd, c->args->tool);
    if (code == CLI_OK) code = measure_open(&s, file.path, compile, &options, c->args);
    if (code == CLI_OK)
        /* On a GPU every one is a median of several already, which takes a while. */
        code = step_times_measure(&times, &s, c->options->seconds / (2 * (double)c->all), c->gpu ? 1 : 3, c->args->tool);
    *out = 0;
    for (size_t i = 0; i < times.count && code == CLI_OK; i++) {
        if (strcmp(hyp_engine_step(s.engine, i).label, label) != 0) continue;
        if (which < 0 || which == count) *out += fmax(1e-10, times.measured[i] - c->clock);
        count++;
    }
    if (which == CALIBRATION_MEAN && count) *out /= count;
    step_times_free(&times);
    session_close(&s);
    tempfile_close(&file);
    return code;
}

/* With what lies before it in a run, as in calibration_model. */
static int time_kernel_after(calibration *c, const calibration_kernel *k, double bytes, bool written, int threads, double *out)
{
    onnx_model model = {0};
    bool plain = calibration_is_rewritten(k);
    hyp_train_options train = HYP_TRAIN_OPTIONS_INIT;
    train.loss = "mse";
    train.gradients = true;
    hyp_compile_options compile = {.size = sizeof compile,
                                   .target = c->gpu ? "cuda" : "cpu",
                                   .train = calibration_is_trained(k) ? &train : NULL,
                                   .max_fold_bytes = 2 * (size_t)BEYOND_CACHES, /* constants are written as nodes */
                                   .only_rules = plain ? NULL : (const char *const *)c->normal.items,
                                   .only_rule_count = plain ? 0 : c->normal.count};
    int which = calibration_model(&model, k, bytes, written);
    int code = time_steps(c, &model, &compile, k->op, which, threads, out);
    onnx_model_dispose(&model);
    return code;
}

static int time_kernel(calibration *c, const calibration_kernel *k, int threads, double *out)
{
    return time_kernel_after(c, k, 0, false, threads, out);
}

static bool is_product(const calibration_kernel *k)
{
    return strcmp(k->op, "linear") == 0 || strcmp(k->op, "matmul") == 0 || strcmp(k->op, "attention") == 0 ||
           strncmp(k->op, "conv", 4) == 0;
}

/* What only moves data takes as long in one type of 16 bits as in the other: it is measured in the first. */
static bool is_like_the_one_before(const calibration *c, size_t i)
{
    return c->gpu && c->kernels[i].type == HYP_BF16 && !is_product(&c->kernels[i]);
}

/* A core has what the list says; a GPU the large ones, too, and what is in 32 bits there in 16 as well, every other
 * kernel first: should time run out, shapes of all operators are there. */
static void list_kernels(calibration *c)
{
    static const hyp_dtype types[] = {HYP_F32, HYP_F16, HYP_BF16};
    c->kernels = cli_alloc(NULL, 3 * calibration_kernel_count, sizeof *c->kernels);
    const size_t step = c->gpu ? 2 : 1;
    for (size_t first = 0; first < step; first++)
        for (size_t i = first; i < calibration_kernel_count; i += step) {
            const calibration_kernel *k = &calibration_kernels[i];
            if (c->gpu ? k->type != HYP_F32 : k->large) continue;
            for (size_t t = 0; t < (c->gpu ? 3 : 1); t++) {
                c->kernels[c->kernel_count] = *k;
                if (c->gpu) c->kernels[c->kernel_count].type = types[t];
                c->kernel_count++;
            }
        }
}

/* ---- the profile ------------------------------------------------------------------------------------------- */

/* Keys of the profile, and what every kernel took; 0: there was no such step. */
typedef struct results {
    double launch, bytes_per_second, cache_bytes, cache_bytes_per_second, last_cache_bytes, last_cache_bytes_per_second;
    struct {
        double bytes, reading, moving, launch, layer;
    } aways[MOST_AWAYS];
    size_t away_count;
    calibration_ages ages;
    calibration_streams streams; /* of a GPU */
    double pointwise, *kernels;
    size_t rounds, slow,
        late; /* rounds done, kernels left out because they are too slow, or because the time was over */
    struct {
        int threads;
        double compute, memory;
    } speedups[MOST_SPEEDUPS];
    size_t speedup_count;
} results;

static double second_level_bytes(void)
{
    long bytes = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (double)bytes : 1 << 20;
}

/* Bytes a second at which so many are read again and again: those of the weights of a layer, for one row. */
static int time_reading(calibration *c, const char *what, double bytes, int threads, double *out)
{
    enum { COLUMNS = 1024 };
    double seconds = 0;
    int64_t rows = (int64_t)(bytes / 2 / (COLUMNS * sizeof(float))); /* of two layers */
    show_progress(c, what);
    int code = time_kernel(c, &(calibration_kernel){"linear", HYP_F32, {1, rows, COLUMNS}, false}, threads, &seconds);
    if (code == CLI_OK && seconds == 0) {
        cli_error(c->args->tool, "a layer of %lld x %d is no step of its plan", (long long)rows, COLUMNS);
        return CLI_FAILED;
    }
    *out = (double)(rows * COLUMNS * (int64_t)sizeof(float)) / seconds;
    return code;
}

/* What a processor says of its last cache is that of all who share it: the size up to which reading is nearer, in
 * proportion, to the speed of the cache before it than to that of memory. */
static int measure_last_cache(calibration *c, results *r)
{
    const double middle = sqrt(r->cache_bytes_per_second * r->bytes_per_second);
    double rate = 0;
    int code = CLI_OK;
    for (int i = 0; i < LAST_CACHE_SIZES && code == CLI_OK; i++) {
        double bytes = (double)((int64_t)4 << 20 << i);
        code = time_reading(c, "last cache", bytes, 1, &rate);
        if (rate < middle) break;
        r->last_cache_bytes = bytes;
        r->last_cache_bytes_per_second = rate;
    }
    return code;
}

/* The least of several times. */
static int measure_small(calibration *c, const char *what, calibration_kernel k, double *out)
{
    int code = CLI_OK;
    *out = 0;
    for (int i = 0; i < LAUNCHES && code == CLI_OK; i++) {
        double seconds = 0;
        show_progress(c, what);
        code = time_kernel(c, &k, 1, &seconds);
        if (i == 0 || seconds < *out) *out = seconds;
    }
    return code;
}

/* The sizes after which is measured what lies between two touches: from half of the second-level cache on, doubling, and
 * closer where it overflows. */
static size_t away_sizes(double cache_bytes, double out[MOST_AWAYS])
{
    size_t count = 0;
    for (double bytes = cache_bytes / 2; bytes <= BEYOND_CACHES && count + 1 < MOST_AWAYS; bytes *= 2) {
        out[count++] = bytes;
        if (bytes <= cache_bytes) out[count++] = 1.5 * bytes;
    }
    return count;
}

/* Of one row. Its weights take little time beside what beginning to read them does. */
static const calibration_kernel small_layer = {"linear", HYP_F32, {1, 128, 128}, false};

/* The least of several times of a kernel before which a run goes over so many bytes; 0: none. */
static int time_away(calibration *c, const calibration_kernel *k, double bytes, bool written, double *out)
{
    int code = CLI_OK;
    *out = INFINITY;
    for (int i = 0; i < AWAY_TIMES && code == CLI_OK; i++) {
        double seconds = 0;
        show_progress(c, "data that is away");
        code = time_kernel_after(c, k, bytes, written, 1, &seconds);
        *out = fmin(*out, seconds);
    }
    return code;
}

/* How much longer kernels take when a run has gone over other things since: one that has next to nothing to do, and, for
 * each byte, some that move data and whose data fits into the second-level cache several times. It takes no less where that
 * is more. */
static int measure_away(calibration *c, int64_t tiny, results *r)
{
    const int64_t parts = (int64_t)(r->cache_bytes / 64) / (12 * 256), count = (parts > 1 ? parts : 1) * 12 * 256;
    const struct {
        calibration_kernel kernel;
        int tensors; /* of so many elements that it reads and writes */
    } kernels[AWAY_KERNELS] = {{{"transpose", HYP_F32, {count, 64}, false}, 2},
                               {{"layer-norm", HYP_F32, {count, 256}, false}, 2},
                               {{"concat", HYP_F32, {count}, false}, 2},
                               {{"add", HYP_F32, {count}, false}, 3}};
    const calibration_kernel launch = {"relu", HYP_F32, {tiny}, false};
    double near[AWAY_KERNELS], sizes[MOST_AWAYS], all = 0, rate = 0, before_moving = 0, before_launch = 0,
           near_layer = 0;
    int code = time_away(c, &small_layer, 0, false, &near_layer);
    for (int i = 0; i < AWAY_KERNELS && code == CLI_OK; i++) {
        code = time_away(c, &kernels[i].kernel, 0, true, &near[i]);
        all += (double)(kernels[i].tensors * count) * sizeof(float);
    }
    r->away_count = away_sizes(r->cache_bytes, sizes);
    for (size_t k = 0; k < r->away_count && code == CLI_OK; k++) {
        double far, seconds = 0, best = 0;
        code = time_away(c, &launch, sizes[k], false, &far);
        double more = fmax(far - r->launch, before_launch);
        for (int i = 0; i < AWAY_KERNELS && code == CLI_OK; i++) {
            code = time_away(c, &kernels[i].kernel, sizes[k], true, &far);
            seconds += fmax(0, far - near[i] - more);
        }
        for (int i = 0; i < AWAY_TIMES && code == CLI_OK; i++) {
            code = time_reading(c, "weights that are away", sizes[k], 1, &rate);
            best = fmax(best, rate);
        }
        r->aways[k].bytes = sizes[k];
        r->aways[k].reading = 1 / best;
        r->aways[k].moving = before_moving = fmax(before_moving, seconds / all);
        r->aways[k].launch = before_launch = more;
        if (code == CLI_OK) code = time_away(c, &small_layer, sizes[k], false, &far);
        r->aways[k].layer = far - near_layer; /* agree_on_reading takes from it what reading is */
    }
    return code;
}

static int measure_core(calibration *c, results *r)
{
    enum { TINY = 8, SIMPLE = 1 << 12 };
    double simple = 0;
    r->cache_bytes = second_level_bytes();
    int code = measure_small(c, "launch", (calibration_kernel){"relu", HYP_F32, {TINY}, false}, &r->launch);
    if (code == CLI_OK) code = time_reading(c, "memory", BEYOND_CACHES, 1, &r->bytes_per_second);
    if (code == CLI_OK) code = time_reading(c, "cache", r->cache_bytes / 2, 1, &r->cache_bytes_per_second);
    r->cache_bytes_per_second = fmax(r->bytes_per_second, r->cache_bytes_per_second);
    if (code == CLI_OK) code = measure_last_cache(c, r);
    if (code == CLI_OK)
        code = measure_small(c, "arithmetic", (calibration_kernel){"add", HYP_F32, {SIMPLE}, false}, &simple);
    if (code == CLI_OK) r->pointwise = SIMPLE / fmax(simple - r->launch, simple / 4);
    if (code == CLI_OK) code = measure_away(c, TINY, r);
    show_progress(c, "data that ages");
    return code == CLI_OK ? calibrate_ages(c->options, &c->normal, r->cache_bytes, c->args, &r->ages) : code;
}

/* A simple kernel over so many bytes, read and written. */
static int time_moving(calibration *c, const char *what, int64_t bytes, double *out)
{
    double seconds = 0;
    int64_t count = bytes / (int64_t)(2 * sizeof(float));
    show_progress(c, what);
    int code = time_kernel(c, &(calibration_kernel){"relu", HYP_F32, {count}, false}, 0, &seconds);
    *out = (double)bytes / fmax(seconds, 1e-9);
    return code;
}

static int measure_gpu(calibration *c, results *r)
{
    enum { TINY = 8, CACHED = 16 << 20, BEYOND = 1 << 30 };
    show_progress(c, "launch");
    int code = time_kernel(c, &(calibration_kernel){"relu", HYP_F32, {TINY}, false}, 0, &r->launch);
    if (code == CLI_OK) code = time_moving(c, "memory", BEYOND, &r->bytes_per_second);
    if (code == CLI_OK) code = time_moving(c, "cache", CACHED, &r->cache_bytes_per_second);
    show_progress(c, "steps side by side");
    if (code == CLI_OK)
        code = calibrate_streams(c->options, &c->normal, timing_now() + STREAMS_PART * c->options->seconds, c->args,
                                 &r->streams);
    return code;
}

/* What more threads bring: two, four and so on, and all that were asked for. The most of two times: what else runs
 * there takes cores. */
static int measure_speedups(calibration *c, int most, results *r)
{
    const calibration_kernel product = {"linear", HYP_F32, {512, 1024, 1024}, false};
    double one = 0;
    if (most < 2) return CLI_OK;
    int code = time_kernel(c, &product, 1, &one);
    for (int threads = 2; code == CLI_OK && r->speedup_count < MOST_SPEEDUPS;) {
        double compute = 0, memory = 0;
        for (int i = 0; i < SPEEDUP_TIMES && code == CLI_OK; i++) {
            double seconds = 0, rate = 0;
            show_progress(c, "more threads");
            code = time_kernel(c, &product, threads, &seconds);
            if (code == CLI_OK) code = time_reading(c, "memory, more threads", BEYOND_CACHES, threads, &rate);
            compute = fmax(compute, one / fmax(seconds, 1e-9));
            memory = fmax(memory, rate / r->bytes_per_second);
        }
        r->speedups[r->speedup_count].threads = threads;
        r->speedups[r->speedup_count].compute = fmin(compute, threads); /* more is what one thread was disturbed by */
        r->speedups[r->speedup_count++].memory = fmin(memory, threads);
        if (threads == most) break;
        threads = 2 * threads < most ? 2 * threads : most;
    }
    return code;
}

static double flops_of(const calibration_kernel *k)
{
    double flops = 2;
    for (int a = 0; a < CALIBRATION_SIZES && k->shape[a]; a++) flops *= (double)k->shape[a];
    return flops;
}

/* The best rate of the layers of a type, among those measured so far; 0 when there are none. */
static double best_rate(const calibration *c, const results *r, hyp_dtype type)
{
    double best = 0;
    for (size_t i = 0; i < c->kernel_count; i++) {
        const calibration_kernel *k = &c->kernels[i];
        if (k->type == type && strcmp(k->op, "linear") == 0 && r->kernels[i] > 0)
            best = fmax(best, flops_of(k) / r->kernels[i]);
    }
    return best;
}

/* Whether a run of the kernel's model would take too much of the time, by the rate of smaller layers of its type: 16
 * bits take hundreds of times as long as 32 where the processor has nothing for them. */
static bool is_too_slow(const calibration *c, const calibration_kernel *k, const results *r)
{
    const double most_seconds = c->options->seconds / 20;
    double rate = best_rate(c, r, k->type);
    return strcmp(k->op, "linear") == 0 && rate > 0 && 2 * flops_of(k) > rate * most_seconds;
}

/* On a CPU every kernel at several times that lie apart, the least of which counts: what else runs there only adds.
 * When the time is over there are no more rounds; of a GPU, which has one, every other kernel is measured in any case.
 */
static int measure_kernels(calibration *c, results *r)
{
    char what[96];
    int code = CLI_OK;
    for (size_t round = 0; round < c->rounds && code == CLI_OK; round++)
        for (size_t i = 0; i < c->kernel_count && code == CLI_OK; i++) {
            const calibration_kernel *k = &c->kernels[i];
            double *least = &r->kernels[i], seconds = 0;
            bool can_wait = round > 0 || (c->gpu && i >= c->kernel_count / 2), like = is_like_the_one_before(c, i);
            bool late = can_wait && timing_now() > c->deadline, slow = is_too_slow(c, k, r);
            snprintf(what, sizeof what, "%s %s", k->op, hyp_dtype_name(k->type));
            show_progress(c, what);
            if (!late && !slow && !like) code = time_kernel(c, k, 1, &seconds);
            if (like) seconds = r->kernels[i - 1];
            if (seconds > 0 && (*least == 0 || seconds < *least)) *least = seconds;
            if (!late) r->rounds = round + 1;
            r->late += round == 0 && late && !like;
            r->slow += round == 0 && slow && !late;
        }
    return code;
}

/* Reading is what the layer of one row took whose two sets of weights are as many bytes, where that was less at another time, and
 * takes no less of each byte where there are more. So layers of all sizes are priced by the same reading. A small layer takes what
 * is left of it beside that. */
static void agree_on_reading(const calibration *c, results *r)
{
    for (size_t a = r->away_count; a-- > 0;) {
        double *reading = &r->aways[a].reading;
        for (size_t i = 0; i < c->kernel_count; i++) {
            const calibration_kernel *k = &c->kernels[i];
            double bytes = (double)(k->shape[1] * k->shape[2]) * sizeof(float);
            if (strcmp(k->op, "linear") == 0 && k->type == HYP_F32 && k->shape[0] == 1 && r->kernels[i] > 0 &&
                2 * bytes == r->aways[a].bytes)
                *reading = fmin(*reading, r->kernels[i] / bytes);
        }
        if (a + 1 < r->away_count) *reading = fmin(*reading, r->aways[a + 1].reading);
    }
    const double size = (double)(small_layer.shape[1] * small_layer.shape[2]) * sizeof(float);
    for (size_t a = 0; a < r->away_count; a++) {
        double beside = r->aways[a].layer - size * (r->aways[a].reading - r->aways[0].reading);
        r->aways[a].layer = fmax(beside, a > 0 ? r->aways[a - 1].layer : 0);
    }
}

/* What was done, for people. */
static void print_summary(const calibration *c, const results *r, const char *path)
{
    size_t measured = 0;
    for (size_t i = 0; i < c->kernel_count; i++) measured += r->kernels[i] > 0 && !is_like_the_one_before(c, i);
    fprintf(stderr, "%s: measured %zu kernels of %s, %s%zu time%s, and %s in %.0f s: %s\n", c->args->tool, measured,
            c->gpu ? "the GPU" : "one core", r->rounds > 1 ? "the least of " : "", r->rounds, r->rounds == 1 ? "" : "s",
            c->gpu ? "its memory and steps side by side" : "its memory, caches and what more threads bring",
            timing_now() - c->begin,
            strcmp(path, "-") == 0 ? "standard output" : path);
    if (r->slow > 0) fprintf(stderr, "left out: %zu layers of which one run takes too long\n", r->slow);
    if (r->late > 0)
        fprintf(stderr, "left out: %zu kernels for which there was no time; a larger --seconds gives more\n", r->late);
}

static void print_caches(FILE *to, const results *r)
{
    fprintf(to, "  (bytes-per-second %.4g)\n  (cache-bytes-per-second %.4g)\n", r->bytes_per_second,
            r->cache_bytes_per_second);
    if (r->cache_bytes > 0) fprintf(to, "  (cache-bytes %.0f)\n", r->cache_bytes);
    if (r->last_cache_bytes > 0)
        fprintf(to, "  (last-cache-bytes %.0f)\n  (last-cache-bytes-per-second %.4g)\n", r->last_cache_bytes,
                r->last_cache_bytes_per_second);
    for (size_t i = 0; i < r->away_count; i++)
        fprintf(to, "  (away %.0f %.4g %.4g %.3g %.3g)\n", r->aways[i].bytes, r->aways[i].reading, r->aways[i].moving,
                r->aways[i].launch, r->aways[i].layer);
    for (size_t i = 0; i < r->ages.count; i++)
        fprintf(to, "  (aged %.4g %.4g %.4g)\n", r->ages.of[i].seconds, r->ages.of[i].moving, r->ages.of[i].windows);
}

static void print_entry(FILE *to, const char *kind, const calibration_kernel *k, hyp_dtype type, double value)
{
    fprintf(to, "  (%s %s", kind, k->op);
    for (int a = 0; a < CALIBRATION_SIZES && k->shape[a]; a++) fprintf(to, " %lld", (long long)k->shape[a]);
    fprintf(to, " %s %.4g)\n", hyp_dtype_name(type), value);
}

/* Kernels of one type of 16 bits take as much of the device as those of the other. */
static void print_streams(FILE *to, const calibration_streams *streams)
{
    if (streams->hop > 0) fprintf(to, "  (hop-seconds %.3g)\n", streams->hop);
    for (size_t i = 0; i < calibration_share_count; i++) {
        const calibration_kernel *k = &calibration_shares[i];
        if (!(streams->shares[i] > 0)) continue;
        print_entry(to, "share", k, k->type, streams->shares[i]);
        if (k->type == HYP_BF16) print_entry(to, "share", k, HYP_F16, streams->shares[i]);
    }
}

/* What is not measured is as in the built-in profile of the device. */
static void print_profile(FILE *to, const calibration *c, const results *r)
{
    fprintf(to,
            "; Measured by hypatiac --calibrate. docs/rules.md says how the numbers are used.\n"
            "(profile measured\n  (like %s)\n  (launch-seconds %.3g)\n  (next-launch-seconds %.3g)\n",
            c->gpu ? "h200" : "cpu", r->launch, NEXT_LAUNCH * r->launch);
    if (!c->gpu) fprintf(to, "  (threads 1)\n");
    print_caches(to, r);
    static const struct {
        const char *key;
        hyp_dtype type;
        bool core; /* of a core alone */
    } rates[] = {{"flops-f32", HYP_F32, false},
                 {"flops-tf32", HYP_F32, true}, /* has none */
                 {"flops-f16", HYP_F16, false},
                 {"flops-bf16", HYP_BF16, false},
                 {"flops-f64", HYP_F64, true}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (best_rate(c, r, rates[i].type) > 0 && !(rates[i].core && c->gpu))
            fprintf(to, "  (%s %.4g)\n", rates[i].key, best_rate(c, r, rates[i].type));
    if (r->pointwise > 0) fprintf(to, "  (pointwise-per-second %.4g)\n", r->pointwise);
    for (size_t i = 0; i < r->speedup_count; i++)
        fprintf(to, "  (speedup %d %.3g %.3g)\n", r->speedups[i].threads, r->speedups[i].compute,
                r->speedups[i].memory);
    print_streams(to, &r->streams);
    for (size_t i = 0; i < c->kernel_count; i++)
        if (r->kernels[i] > 0) print_entry(to, "measured", &c->kernels[i], c->kernels[i].type, r->kernels[i]);
    fputs(")\n", to);
}

static int cannot_write(const char *path, const cli_args *args)
{
    cli_error(args->tool, "%s: cannot write: %s", path, strerror(errno));
    return CLI_FAILED;
}

/* Before all that is measured, rather than after. Changes nothing. */
static int check_writable(const char *path, const cli_args *args)
{
    if (strcmp(path, "-") == 0) return CLI_OK;
    bool is_new = access(path, F_OK) != 0;
    FILE *to = fopen(path, "a");
    if (!to) return cannot_write(path, args);
    fclose(to);
    if (is_new) unlink(path);
    return CLI_OK;
}

static int write_profile(const char *path, const calibration *c, const results *r)
{
    bool piped = strcmp(path, "-") == 0;
    FILE *to = piped ? stdout : fopen(path, "w");
    if (to) print_profile(to, c, r);
    bool whole = to && fflush(to) == 0 && !ferror(to);
    if (to && !piped) whole = fclose(to) == 0 && whole;
    return whole ? CLI_OK : cannot_write(path, c->args);
}

int calibrate(const char *path, const measure_options *o, const cli_args *args)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = o->threads > 0 ? o->threads : cores > 0 ? (int)cores : 1;
    if (check_writable(path, args) != CLI_OK) return CLI_FAILED;
    calibration c = {.options = o,
                     .args = args,
                     .gpu = o->device == HYP_DEVICE_CUDA,
                     .rounds = o->device == HYP_DEVICE_CUDA ? 1 : ROUNDS};
    hyp_compile_options compile = {.size = sizeof compile};
    list_kernels(&c);
    results r = {.kernels = cli_alloc(NULL, c.kernel_count, sizeof *r.kernels),
                 .streams.shares = cli_alloc(NULL, calibration_share_count, sizeof(double))};
    c.all = c.rounds * c.kernel_count + OTHERS;
    if (!c.gpu) {
        double sizes[MOST_AWAYS];
        size_t each = AWAY_TIMES * (AWAY_KERNELS + 3);
        c.all += AWAY_TIMES * (AWAY_KERNELS + 1) + each * away_sizes(second_level_bytes(), sizes);
    }
    for (size_t i = 0; i < c.kernel_count; i++) r.kernels[i] = 0;
    for (size_t i = 0; i < calibration_share_count; i++) r.streams.shares[i] = 0;
    for (int n = 1; n < threads && !c.gpu; n *= 2) c.all += 2 * SPEEDUP_TIMES;
    c.begin = timing_now();
    c.deadline = c.begin + LONGEST * fmax(o->seconds, SHORTEST);
    terminal_work_begin(args->tool, o->quiet, false);
    if (!c.gpu) find_clock(&c);
    int code = normal_rules(&compile, &c.normal, args->tool);
    if (code == CLI_OK) code = c.gpu ? measure_gpu(&c, &r) : measure_core(&c, &r);
    if (code == CLI_OK && !c.gpu) code = measure_speedups(&c, threads, &r);
    if (code == CLI_OK) code = measure_kernels(&c, &r);
    if (code == CLI_OK) agree_on_reading(&c, &r);
    terminal_work_end();
    cli_list_free(&c.normal);
    if (code == CLI_OK) code = write_profile(path, &c, &r);
    if (code == CLI_OK && !o->quiet) print_summary(&c, &r, path);
    free(r.kernels);
    free(r.streams.shares);
    free(c.kernels);
    return code;
}
