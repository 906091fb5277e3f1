/* hyp_engine_options.cpu_level: what the CPU may use of its processor. Each test in a process of its own, since oneDNN
 * chooses once in one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined HYP_HAVE_ONEDNN
#include "runtime/cpu/dnnl.h"
#endif
#include "runtime/cpu/vector_kernels.h"
#include "runtime/networks.h"

static plan_builder b;
static const hyp_cpu_kernels *here[HYP_CPU_KERNELS_MAX];

static size_t best(void)
{
    size_t count = 0;
    while (here[count]) count++;
    return count - 1;
}

/* The device's name, or what is wrong, is left in `said`. */
static hyp_status load(const char *level, hyp_diag *said)
{
    char path[PB_PATH];
    pb_write(&b, path);
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .cpu_level = level};
    hyp_engine *engine = NULL;
    hyp_status status = hyp_engine_load_file(path, &options, &engine, said);
    unlink(path);
    if (status == HYP_OK) snprintf(said->message, sizeof said->message, "%s", hyp_engine_device_name(engine));
    hyp_engine_destroy(engine);
    return status;
}

static void wants(const char *level, hyp_status wanted, const char *text)
{
    hyp_diag said = {0};
    hyp_status status = load(level, &said);
    if (status == wanted && strstr(said.message, text)) return;
    fprintf(stderr, "level %s: status %d, %s\nwanted: %d, %s\n", level ? level : "NULL", (int)status, said.message,
            (int)wanted, text);
    _Exit(1);
}

static const char *own(size_t level)
{
    static char text[64];
    snprintf(text, sizeof text, "own kernels for %s", here[level]->isa);
    return text;
}

static void alone(void (*body)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        unsetenv(HYP_CPU_VARIABLE);
        body();
        _Exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void each_level(void)
{
    for (size_t i = 0; here[i]; i++) wants(here[i]->isa, HYP_OK, own(i));
    wants("", HYP_OK, own(best()));
    wants(NULL, HYP_OK, own(best()));
}

static void option_before_environment(void)
{
    setenv(HYP_CPU_VARIABLE, "generic", 1);
    wants(NULL, HYP_OK, own(0));
    wants(here[best()]->isa, HYP_OK, own(best()));
    setenv(HYP_CPU_VARIABLE, "sse9", 1);
    wants("generic", HYP_OK, own(0));
    wants(NULL, HYP_ERR_INVALID_ARGUMENT, HYP_CPU_VARIABLE " is 'sse9': this build knows generic");
    wants("sse8", HYP_ERR_INVALID_ARGUMENT, "options->cpu_level is 'sse8': this build knows generic");
}

static void onednn_too(void)
{
#if defined HYP_HAVE_ONEDNN && defined HYP_CPU_X86
    wants("generic", HYP_OK, "for sse4.1, own kernels for generic");
#endif
}

static void too_late(void)
{
#if defined HYP_HAVE_ONEDNN && defined HYP_CPU_X86
    if (best() == 0) return; /* there is nothing to be limited */
    wants(NULL, HYP_OK, own(best()));
    wants("generic", HYP_ERR_DEVICE, "options->cpu_level is 'generic', but oneDNN already runs with");
    wants(NULL, HYP_OK, own(best()));
#endif
}

/* oneDNN has products of bf16 there, too, that take five times as long as those of floats. */
static void bf16_with_avx512(void)
{
#if defined HYP_HAVE_ONEDNN && defined HYP_CPU_X86
    hyp_dnnl *dnnl;
    assert_ok(hyp_dnnl_open((hyp_cpu_limit){.most = "avx512", .by = "the test"}, &dnnl, diag));
    if (hyp_dnnl_has(dnnl, HYP_BF16) || !hyp_dnnl_has(dnnl, HYP_F32)) _Exit(1);
    hyp_dnnl_close(dnnl);
#endif
}

/* oneDNN's kernel for SSE4.1 would read what is added as if it were aligned, and end the program. */
static void tuning_by_channels(void)
{
    enum { CHANNELS = 6, SIZE = 9, COUNT = CHANNELS * SIZE * SIZE };
    static const int64_t dims[] = {1, CHANNELS, SIZE, SIZE}, w_dims[] = {CHANNELS, 1, 3, 3}, ones[] = {1, 1, 1, 1};
    static float x[COUNT], out[COUNT], w[CHANNELS * 9];
    static plan_builder conv;
    char path[PB_PATH];
    hyp_engine *engine;
    hyp_context *context;
    pb_init(&conv);
    uint32_t *shape = pb_consts(&conv, 4, dims);
    uint32_t inputs[] = {pb_input(&conv, "x", HYP_F32, 4, shape), pb_weight(&conv, HYP_F32, 4, w_dims, w), PB_NONE,
                         pb_input(&conv, "z", HYP_F32, 4, shape)};
    HypPlan__Call *call = pb_call(&conv, "conv", 4, inputs, pb_output(&conv, "y", HYP_F32, 4, shape));
    pb_call_ints(&conv, call, 2, ones);
    pb_call_ints(&conv, call, 4, ones);
    pb_call_ints(&conv, call, 2, ones);
    pb_call_int(&conv, call, CHANNELS);
    pb_call_symbol(&conv, call, "none");
    pb_write(&conv, path);
    const hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CPU, .cpu_level = "generic"};
    const hyp_tensor in[] = {tensor_of("x", HYP_F32, x, 4, dims), tensor_of("z", HYP_F32, x, 4, dims)};
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    unlink(path);
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    hyp_tensor y = tensor_of("y", HYP_F32, out, 4, dims);
    assert_ok(hyp_context_tune(context, in, 2, NULL, NULL, diag));
    assert_ok(hyp_context_run(context, in, 2, &y, 1, diag));
#if defined HYP_HAVE_ONEDNN && defined HYP_CPU_X86
    bool told = false;
    hyp_alternative_info a;
    for (size_t i = 0; *(a = hyp_context_alternative(context, 0, 0, i)).name; i++)
        told = told || (strncmp(a.name, "oneDNN", 6) == 0 && a.cannot && strstr(a.cannot, "SSE4.1"));
    if (!told) _Exit(1);
#endif
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_dispose(&conv);
}

static void bf16_is_widened_where_it_has_no_instructions(void **state) { (void)state, alone(bf16_with_avx512); }
static void tuning_leaves_out_what_crashes(void **state) { (void)state, alone(tuning_by_channels); }
static void our_kernels_take_each_level(void **state) { (void)state, alone(each_level); }
static void the_option_goes_before_the_environment(void **state) { (void)state, alone(option_before_environment); }
static void onednn_is_limited_too(void **state) { (void)state, alone(onednn_too); }
static void a_limit_that_comes_too_late_is_refused(void **state) { (void)state, alone(too_late); }

int main(void)
{
    hyp_cpu_kernels_list(here);
    build_network(&b, 16, true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_kernels_take_each_level),
        cmocka_unit_test(the_option_goes_before_the_environment),
        cmocka_unit_test(onednn_is_limited_too),
        cmocka_unit_test(a_limit_that_comes_too_late_is_refused),
        cmocka_unit_test(bf16_is_widened_where_it_has_no_instructions),
        cmocka_unit_test(tuning_leaves_out_what_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
