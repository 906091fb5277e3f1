/* How steps are done on CUDA where nothing was tuned: what is predicted to take least, as it was measured to be on an H200 when
 * each way was written. A change of a prediction that moves one of these decisions wants measurements of its own. Needs no
 * device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/cuda/ops/conv.h"
#include "runtime/cuda/ops/linear.h"
#include "runtime/plan_builder.h"

static plan_builder builder; /* large */
static hyp_cuda_device h200 = {.sm = 90, .multiprocessors = 132, .shared_bytes = 227 << 10};
static hyp_cuda_model model = {.device = &h200};
static hyp_cuda_session session = {.model = &model, .workspace_bytes = 32 << 20};

static int start(void **state)
{
    (void)state;
    h200.layers = (CUmodule)&h200; /* its kernels for few rows are there */
    return 0;
}

/* ---- layers -------------------------------------------------------------------------------------------------- */

typedef enum type { F32, TF32, F16, BF16, F64, F8 } type;
static const hyp_dtype dtypes[] = {HYP_F32, HYP_F32, HYP_F16, HYP_BF16, HYP_F64, HYP_F8E4M3};

/* What is offered for a chain of layers from widths[0] to widths[count], and a normalization behind it unless that is NULL. */
static void offer_layers(type t, int64_t rows, const int64_t *widths, size_t count, const char *norm, hyp_choice *out)
{
    int64_t values[PB_MAX];
    hyp_dtype result = t == F8 ? HYP_BF16 : dtypes[t];
    pb_init(&builder);
    uint32_t m = pb_const(&builder, rows);
    uint32_t x = pb_input(&builder, "x", dtypes[t], 2, (uint32_t[]){m, pb_const(&builder, widths[0])});
    uint32_t y = pb_output(&builder, "y", result, 2, (uint32_t[]){m, pb_const(&builder, widths[count])});
    HypPlan__Linear *k = pb_linear(&builder, x, y, m);
    k->tf32 = t == TF32;
    for (size_t l = 0; l < count; l++) {
        uint32_t hidden = l + 1 < count
                              ? pb_scratch(&builder, result, 0, 2, (uint32_t[]){m, pb_const(&builder, widths[l + 1])})
                              : PB_NONE;
        pb_layer(&builder, k, widths[l + 1], widths[l], x, PB_NONE, HYP_PLAN__ACT__ACT_NONE, hidden);
    }
    for (size_t i = 0; i < builder.program.n_dims; i++) values[i] = builder.program.dims[i]->value;
    HypPlan__Call call = HYP_PLAN__CALL__INIT;
    call.kernel = (char *)(uintptr_t)norm;
    hyp_cuda_build b = {.session = &session, .program = &builder.program, .values = values};
    hyp_cuda_offer_layers(&b, &(hyp_cuda_layers){.k = k, .count = count, .norm = norm ? &call : NULL}, out);
    assert_non_null(hyp_choose(out, NULL));
    pb_dispose(&builder);
}

static const char *taken(const hyp_choice *c) { return c->list[c->taken].name; }

/* f: our own kernel for few rows, c: cuBLASLt, for each number of rows. */
static void layers_run_by_the_kernel_that_was_measured_to_be_faster(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 8, 16, 17, 100, 256, 1024, 3662, 20000, 100000};
    static const struct {
        type t;
        int64_t n, k;
        const char *want;
    } cases[] = {
        {F32, 512, 784, "ffffccccccc"},
        {F32, 10, 512, "fffffffffcc"},
        {F32, 16, 2048, "ffffffffccc"},
        {F32, 1, 768, "ffffffffffc"},
        {F32, 4096, 4096, "fcccccccccc"},
        {F32, 2048, 2048, "fffcccccccc"},
        {F32, 1000, 1000, "ffffccccccc"},
        {F32, 999, 1000, "ffffccccccc"},
        {F32, 1000, 500, "ffffccccccc"},
        {F32, 1001, 500, "ffffccccccc"},
        {F32, 768, 3072, "fffcccccccc"},
        {F32, 50257, 768, "ffffccccccc"},
        {F32, 16, 1048576, "ccccccccccc"},
        {F32, 768, 769, "ffffccccccc"},
        {TF32, 512, 784, "ffffccccccc"},
        {TF32, 10, 512, "fffffffffcc"},
        {TF32, 16, 2048, "fffffffcccc"},
        {TF32, 1, 768, "ffffffffccc"},
        {TF32, 4096, 4096, "fcccccccccc"},
        {TF32, 2048, 2048, "fcccccccccc"},
        {TF32, 1000, 1000, "fcccccccccc"},
        {TF32, 999, 1000, "fcccccccccc"},
        {TF32, 1000, 500, "fcccccccccc"},
        {TF32, 1001, 500, "fcccccccccc"},
        {TF32, 768, 3072, "fcccccccccc"},
        {TF32, 50257, 768, "fcccccccccc"},
        {TF32, 16, 1048576, "ccccccccccc"},
        {TF32, 768, 769, "fcccccccccc"},
        {F16, 512, 784, "ffffccccccc"},
        {F16, 10, 512, "fffffffffcc"},
        {F16, 16, 2048, "ffffffffccc"},
        {F16, 1, 768, "fffffffffcc"},
        {F16, 4096, 4096, "fcccccccccc"},
        {F16, 2048, 2048, "fcccccccccc"},
        {F16, 1000, 1000, "fcccccccccc"},
        {F16, 999, 1000, "ffffccccccc"},
        {F16, 1000, 500, "ffffccccccc"},
        {F16, 1001, 500, "ffffccccccc"},
        {F16, 768, 3072, "fcccccccccc"},
        {F16, 50257, 768, "fcccccccccc"},
        {F16, 16, 1048576, "ccccccccccc"},
        {F16, 768, 769, "ffffccccccc"},
        {BF16, 512, 784, "ffffccccccc"},
        {BF16, 10, 512, "fffffffffcc"},
        {BF16, 16, 2048, "ffffffffccc"},
        {BF16, 1, 768, "fffffffffcc"},
        {BF16, 4096, 4096, "fcccccccccc"},
        {BF16, 2048, 2048, "fcccccccccc"},
        {BF16, 1000, 1000, "fcccccccccc"},
        {BF16, 999, 1000, "ffffccccccc"},
        {BF16, 1000, 500, "ffffccccccc"},
        {BF16, 1001, 500, "ffffccccccc"},
        {BF16, 768, 3072, "fcccccccccc"},
        {BF16, 50257, 768, "fcccccccccc"},
        {BF16, 16, 1048576, "ccccccccccc"},
        {BF16, 768, 769, "ffffccccccc"},
        {F64, 4096, 4096, "ccccccccccc"},
        {F64, 1001, 500, "ccccccccccc"},
        {F8, 512, 784, "fcccccccccc"},
        {F8, 10, 512, "fcccccccccc"},
        {F8, 16, 2048, "fcccccccccc"},
        {F8, 1, 768, "fcccccccccc"},
        {F8, 4096, 4096, "fcccccccccc"},
        {F8, 2048, 2048, "fcccccccccc"},
        {F8, 1000, 1000, "ccccccccccc"},
        {F8, 999, 1000, "ccccccccccc"},
        {F8, 1000, 500, "ccccccccccc"},
        {F8, 1001, 500, "ccccccccccc"},
        {F8, 768, 3072, "fcccccccccc"},
        {F8, 50257, 768, "fcccccccccc"},
        {F8, 16, 1048576, "ccccccccccc"},
        {F8, 768, 769, "ccccccccccc"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            hyp_choice c;
            offer_layers(cases[i].t, rows[r], (int64_t[]){cases[i].k, cases[i].n}, 1, NULL, &c);
            assert_string_equal(taken(&c), cases[i].want[r] == 'f' ? "few-rows" : "cublaslt");
        }
}

static void layers_of_a_chain_are_decided_on_together(void **state)
{
    (void)state;
    hyp_choice c;
    offer_layers(F16, 8, (int64_t[]){512, 512, 2048, 512}, 3, NULL, &c);
    assert_string_equal(taken(&c), "few-rows 100");
    assert_string_equal(c.key, "linear f16 8: 512-512, 512-2048, 2048-512");
    const char *const others[] = {"few-rows", "cublaslt", "few-rows 001", "few-rows 110"};
    assert_int_equal(c.count, 1 + sizeof others / sizeof *others);
    for (size_t i = 0; i < c.count - 1; i++) assert_string_equal(c.list[1 + i].name, others[i]);
    assert_int_equal(c.size_at, strlen("linear f16 "));
    assert_int_equal(c.size_most, 16);
    offer_layers(F16, 8, (int64_t[]){512, 512, 8192, 16}, 3, NULL, &c); /* rows too long for the last */
    assert_string_equal(taken(&c), "few-rows 100");
    assert_string_equal(c.list[1].name, "few-rows 110");
    offer_layers(F64, 8, (int64_t[]){512, 512}, 1, NULL, &c);
    assert_int_equal(hyp_choice_open(&c), 1);
    assert_string_equal(c.list[1].cannot, "it has no kernel for this type");
}

/* Into how many parts sums are split for each number of rows, where a normalization comes next. */
static void sums_are_split_where_that_was_measured_to_be_faster(void **state)
{
    (void)state;
    static const int64_t rows[] = {17, 32, 64, 128, 256, 384, 512, 1024};
    static const struct {
        type t;
        int64_t n, k;
        const char *want;
    } cases[] = {
        {F32, 768, 3072, "11111111"},
        {F32, 3072, 768, "11111111"},
        {TF32, 768, 3072, "11111111"},
        {TF32, 3072, 768, "11111111"},
        {F16, 64, 256, "11111111"},
        {F16, 64, 512, "22222222"},
        {F16, 768, 768, "33333221"},
        {F16, 768, 3072, "66664221"},
        {F16, 3072, 768, "33321111"},
        {F16, 768, 2304, "66664221"},
        {F16, 1024, 4096, "44442211"},
        {F16, 768, 448, "11111111"},
        {F16, 768, 1030, "11111111"},
        {F16, 256, 1536, "66666663"},
        {F16, 512, 1024, "44444421"},
        {BF16, 64, 256, "11111111"},
        {BF16, 64, 512, "22222222"},
        {BF16, 768, 768, "33333221"},
        {BF16, 768, 3072, "66664221"},
        {BF16, 3072, 768, "33321111"},
        {BF16, 768, 2304, "66664221"},
        {BF16, 1024, 4096, "44442211"},
        {BF16, 768, 448, "11111111"},
        {BF16, 768, 1030, "11111111"},
        {BF16, 256, 1536, "66666663"},
        {BF16, 512, 1024, "44444421"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            char want[] = "split ?";
            hyp_choice c;
            offer_layers(cases[i].t, rows[r], (int64_t[]){cases[i].k, cases[i].n}, 1, "layer-norm", &c);
            want[strlen(want) - 1] = cases[i].want[r];
            assert_string_equal(taken(&c), cases[i].want[r] == '1' ? "cublaslt" : want);
        }
    hyp_choice c;
    offer_layers(BF16, 128, (int64_t[]){3072, 768}, 1, "layer-norm", &c);
    assert_string_equal(c.key, "linear bf16 128: 3072-768, then layer-norm");
    assert_int_equal(hyp_choice_open(&c), 5);
}

/* ---- convolutions -------------------------------------------------------------------------------------------- */

typedef struct conv_case {
    hyp_dtype dtype;
    int64_t shape[8]; /* images, channels, filters, groups, size, kernel, stride, pad */
    bool last;
    const char *with_cudnn, *without;
} conv_case;

static int64_t count_of(hyp_array *a, const int64_t *dims)
{
    a->count = 1;
    for (int32_t i = 0; i < a->rank; i++) a->count *= a->dims[i] = dims[i];
    return a->count;
}

static void offer_conv(const conv_case *k, bool cudnn, hyp_choice *out)
{
    const int64_t *s = k->shape, size = (s[4] + 2 * s[7] - s[5]) / s[6] + 1;
    hyp_array x = {.dtype = k->dtype, .rank = 4}, w = x, y = x;
    count_of(&x, (int64_t[]){s[0], s[1], s[4], s[4]});
    count_of(&w, (int64_t[]){s[2], s[1] / s[3], s[5], s[5]});
    count_of(&y, (int64_t[]){s[0], s[2], size, size});
    hyp_cuda_conv_step step = {.dtype = k->dtype, .act = HYP_PW_CAST, .x_last = k->last, .weight_last = k->last, .y_last = k->last};
    step.conv = (hyp_conv){.x = &x,
                           .w = &w,
                           .y = &y,
                           .batch = s[0],
                           .group = s[3],
                           .in_channels = s[1] / s[3],
                           .out_channels = s[2] / s[3],
                           .window = {.n = 2, .in_count = s[4] * s[4], .out_count = size * size, .kernel_count = s[5] * s[5]}};
    for (int a = 0; a < 2; a++) {
        hyp_window *window = &step.conv.window;
        window->in[a] = s[4];
        window->out[a] = size;
        window->kernel[a] = s[5];
        window->stride[a] = s[6];
        window->dilation[a] = 1;
        window->before[a] = window->after[a] = s[7];
    }
    HypPlan__Program program = HYP_PLAN__PROGRAM__INIT;
    hyp_cuda_build b = {.session = &session, .program = &program};
    session.dnn = cudnn ? &session : NULL;
    hyp_cuda_offer_conv(&b, &step, out);
    assert_non_null(hyp_choose(out, NULL));
}

static void convolutions_run_in_the_way_that_was_measured_to_be_fastest(void **state)
{
    (void)state;
    static const conv_case cases[] = {
        {HYP_F32, {1, 3, 64, 1, 224, 7, 2, 3}, false, "cudnn", "plain"},
        {HYP_BF16, {1, 3, 64, 1, 224, 7, 2, 3}, false, "cudnn", "plain"},
        {HYP_BF16, {8, 3, 64, 1, 224, 7, 2, 3}, true, "cudnn", "plain"},
        {HYP_F32, {1, 64, 64, 1, 56, 3, 1, 1}, true, "tiles", "tiles"},
        {HYP_F32, {8, 64, 64, 1, 56, 3, 1, 1}, true, "tiles", "tiles"},
        {HYP_F32, {1, 64, 64, 1, 224, 3, 1, 1}, true, "tiles", "tiles"},
        {HYP_F32, {1, 3, 64, 1, 224, 3, 1, 1}, false, "cudnn", "tiles"},
        {HYP_F32, {1, 256, 256, 1, 56, 3, 1, 1}, true, "tiles, turned", "tiles, turned"},
        {HYP_F32, {1, 128, 256, 1, 56, 3, 1, 1}, true, "tiles, turned", "tiles, turned"},
        {HYP_F32, {1, 128, 128, 1, 112, 3, 1, 1}, true, "tiles", "tiles"},
        {HYP_F32, {1, 512, 512, 1, 28, 3, 1, 1}, true, "tiles", "tiles"},
        {HYP_F32, {1, 512, 512, 1, 14, 3, 1, 1}, true, "small tiles, turned", "small tiles, turned"},
        {HYP_F32, {1, 256, 256, 1, 14, 3, 1, 1}, true, "small tiles, turned", "small tiles, turned"},
        {HYP_F32, {1, 512, 512, 1, 7, 3, 1, 1}, true, "small tiles", "small tiles"},
        {HYP_F32, {1, 64, 96, 1, 35, 3, 1, 1}, true, "small tiles", "small tiles"},
        {HYP_F32, {8, 256, 256, 1, 14, 3, 1, 1}, true, "tiles", "tiles"},
        {HYP_F32, {1, 32, 32, 1, 7, 3, 1, 1}, true, "small tiles", "small tiles"},
        {HYP_F32, {1, 16, 16, 1, 14, 3, 1, 1}, true, "small tiles", "small tiles"},
        {HYP_F32, {1, 64, 64, 1, 224, 3, 1, 1}, false, "cudnn", "tiles"},
        {HYP_F32, {1, 64, 64, 1, 56, 3, 2, 1}, true, "unfolded", "unfolded"},
        {HYP_F32, {1, 128, 128, 1, 28, 5, 1, 2}, true, "unfolded", "unfolded"},
        {HYP_F32, {1, 64, 64, 1, 56, 3, 1, 1}, false, "tiles", "tiles"},
        {HYP_F32, {1, 64, 64, 4, 56, 3, 1, 1}, false, "cudnn", "plain"},
        {HYP_BF16, {1, 64, 64, 1, 56, 3, 1, 1}, true, "unfolded", "unfolded"},
        {HYP_BF16, {4, 64, 64, 1, 56, 3, 1, 1}, true, "unfolded", "unfolded"},
        {HYP_BF16, {5, 64, 64, 1, 56, 3, 1, 1}, true, "cudnn", "unfolded"},
        {HYP_BF16, {8, 64, 64, 1, 56, 3, 1, 1}, true, "cudnn", "unfolded"},
        {HYP_F16, {8, 512, 512, 1, 7, 3, 1, 1}, true, "unfolded", "unfolded"},
        {HYP_F16, {32, 512, 512, 1, 7, 3, 1, 1}, true, "unfolded", "unfolded"},
        {HYP_F16, {8, 256, 512, 1, 14, 1, 2, 0}, true, "unfolded", "unfolded"},
        {HYP_F16, {8, 256, 512, 1, 14, 1, 1, 0}, true, "product", "product"},
        {HYP_F16, {64, 256, 512, 1, 56, 1, 1, 0}, true, "product", "product"},
        {HYP_F16, {64, 256, 512, 1, 56, 1, 2, 0}, true, "cudnn", "unfolded"},
        {HYP_F16, {1, 512, 512, 1, 512, 3, 1, 1}, true, "cudnn", "plain"},
        {HYP_F32, {1, 512, 512, 1, 256, 3, 1, 1}, true, "tiles", "tiles"},
        {HYP_F32, {1, 512, 512, 1, 256, 3, 2, 1}, true, "cudnn", "plain"},
        {HYP_BF16, {1, 96, 96, 96, 56, 3, 1, 1}, true, "depthwise", "depthwise"},
        {HYP_BF16, {1, 100, 100, 100, 56, 3, 2, 1}, true, "plain", "plain"},
        {HYP_F32, {1, 96, 192, 96, 56, 3, 1, 1}, true, "plain", "plain"},
        {HYP_F32, {1, 96, 96, 96, 56, 3, 1, 1}, false, "plain", "plain"},
        {HYP_F32, {1, 96, 96, 4, 56, 3, 1, 1}, false, "cudnn", "plain"},
        {HYP_BF16, {1, 96, 96, 4, 56, 3, 1, 1}, true, "cudnn", "plain"},
        {HYP_BF16, {1, 60, 64, 1, 56, 3, 1, 1}, true, "cudnn", "plain"},
        {HYP_F64, {1, 64, 64, 1, 56, 3, 1, 1}, false, "cudnn", "plain"},
        {HYP_I32, {1, 64, 64, 1, 56, 3, 1, 1}, false, "plain", "plain"},
        {HYP_F16, {1, 512, 8, 1, 1, 1, 1, 0}, true, "product", "product"},
        {HYP_F16, {1, 64, 64, 1, 1, 1, 1, 0}, false, "cudnn", "plain"},
        {HYP_BF16, {8, 128, 128, 1, 28, 3, 2, 1}, true, "unfolded", "unfolded"},
        {HYP_BF16, {2, 64, 512, 1, 112, 3, 1, 1}, true, "cudnn", "unfolded"},
        {HYP_BF16, {1, 512, 512, 1, 32, 4, 4, 0}, true, "unfolded", "unfolded"},
        {HYP_BF16, {16, 512, 512, 1, 32, 4, 2, 1}, true, "cudnn", "unfolded"},
        {HYP_BF16, {16, 512, 512, 1, 32, 2, 2, 0}, true, "unfolded", "unfolded"},
        {HYP_BF16, {17, 512, 512, 1, 32, 2, 2, 0}, true, "cudnn", "unfolded"},
        {HYP_BF16, {16, 512, 512, 1, 33, 2, 2, 0}, true, "unfolded", "unfolded"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_choice c;
        offer_conv(&cases[i], true, &c);
        assert_string_equal(taken(&c), cases[i].with_cudnn);
        assert_string_equal(c.list[c.count - 1].name, "plain"); /* which always can */
        assert_null(c.list[c.count - 1].cannot);
        offer_conv(&cases[i], false, &c);
        assert_string_equal(taken(&c), cases[i].without);
    }
    hyp_choice c;
    offer_conv(&cases[3], true, &c);
    assert_string_equal(c.key, "conv f32 1: 64 56 56 by 64 64 3 3 strides 1 1 dilations 1 1 pads 1 1 1 1 groups 1 act 20 last yyyn");
    assert_int_equal(hyp_choice_open(&c), 7);
}

/* ---- attention ----------------------------------------------------------------------------------------------- */

static void attention_runs_by_the_kernel_that_was_measured_to_be_faster(void **state)
{
    (void)state;
    static const struct {
        hyp_dtype dtype;
        int64_t matrices, rows, keys, width;
        bool two_parts;
        const char *want;
    } cases[] = {
        {HYP_BF16, 12, 128, 128, 64, false, "tiles"},        {HYP_BF16, 96, 512, 512, 64, false, "tall tiles"},
        {HYP_F16, 66, 512, 512, 128, false, "tall tiles"},   {HYP_F16, 65, 512, 512, 128, false, "tiles"},
        {HYP_BF16, 12, 1, 513, 64, false, "rows"},           {HYP_BF16, 1200, 1, 513, 64, false, "rows"},
        {HYP_BF16, 12, 2, 513, 64, false, "tiles"},          {HYP_BF16, 264, 2, 513, 64, false, "tall tiles"},
        {HYP_F32, 12, 4, 100, 64, false, "rows"},            {HYP_F32, 12, 5, 100, 64, false, "tiles"},
        {HYP_F32, 960, 512, 512, 128, false, "tiles"},       {HYP_F64, 12, 128, 128, 64, false, "rows"},
        {HYP_BF16, 12, 128, 128, 160, false, "rows"},        {HYP_BF16, 12, 128, 128, 64, true, "rows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hyp_choice c;
        const hyp_cuda_attention sizes = {.rows = cases[i].rows,
                                          .keys = cases[i].keys,
                                          .width = cases[i].width,
                                          .columns = cases[i].width,
                                          .masked = HYP_CUDA_MASK_NONE};
        hyp_cuda_offer_attention(&h200, &sizes, cases[i].dtype, cases[i].matrices, cases[i].two_parts, &c);
        assert_non_null(hyp_choose(&c, NULL));
        assert_string_equal(taken(&c), cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_run_by_the_kernel_that_was_measured_to_be_faster),
        cmocka_unit_test(layers_of_a_chain_are_decided_on_together),
        cmocka_unit_test(sums_are_split_where_that_was_measured_to_be_faster),
        cmocka_unit_test(convolutions_run_in_the_way_that_was_measured_to_be_fastest),
        cmocka_unit_test(attention_runs_by_the_kernel_that_was_measured_to_be_faster),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
