/* Convolutions by our own kernels, and their transposes as a product and sums of its columns, against the reference
 * backend: sizes that take several parts and products, channels that fill no vector, windows that overlap and that
 * leave gaps, both orders of the tensors around.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpu.h"
#include "runtime/support.h"

static plan_builder b;
static rng r;

typedef struct one {
    bool transpose, around; /* between two convolutions, so that its tensors have their channels last */
    int64_t images, in, out, size[2], kernel[2], stride[2], dilation[2], before[2], after[2], more[2];
    size_t axes;
    const char *act; /* of a convolution */
    int64_t groups;  /* of one; 0: one */
    bool added;      /* something is added before the activation */
    int wild;        /* so many numbers of x are none, infinite or too large to be added up with others */
    bool heavy;      /* a weight is as large */
} one;

static int64_t result_size(const one *k, size_t i)
{
    int64_t reach = (k->kernel[i] - 1) * k->dilation[i] + 1, pads = k->before[i] + k->after[i];
    return k->transpose ? (k->size[i] - 1) * k->stride[i] + reach - pads + k->more[i]
                        : (k->size[i] + pads - reach) / k->stride[i] + 1;
}

static float *random_floats(size_t count, double scale)
{
    float *data = calloc(count, sizeof *data);
    assert_non_null(data);
    rng_fill(&r, HYP_F32, data, count);
    for (size_t i = 0; i < count; i++) data[i] *= (float)scale;
    return data;
}

static uint32_t random_weight(size_t rank, const int64_t *dims, double terms, bool heavy)
{
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) count *= (size_t)dims[i];
    float *data = random_floats(count, 1 / sqrt(terms));
    if (heavy) data[rng_below(&r, count)] = 3e37f;
    uint32_t t = pb_weight(&b, HYP_F32, rank, dims, data);
    free(data);
    return t;
}

static void add_pads(HypPlan__Call *call, const one *k)
{
    int64_t pads[4];
    memcpy(pads, k->before, k->axes * sizeof *pads);
    memcpy(pads + k->axes, k->after, k->axes * sizeof *pads);
    pb_call_ints(&b, call, 2 * k->axes, pads);
}

/* x, and what is added unless that is UINT32_MAX, to y; the tensors have k->axes spatial axes. */
static void add_one(const one *k, uint32_t x, uint32_t added, uint32_t y)
{
    int64_t groups = k->groups ? k->groups : 1;
    int64_t dims[4] = {k->transpose ? k->in : k->out, k->transpose ? k->out : k->in / groups};
    double terms = (double)(k->in / groups);
    for (size_t i = 0; i < k->axes; i++) {
        dims[2 + i] = k->kernel[i];
        terms *= (double)k->kernel[i] / (double)k->stride[i];
    }
    uint32_t w = random_weight(2 + k->axes, dims, terms < 1 ? 1 : terms, k->heavy),
             bias = random_weight(1, &k->out, 1, false);
    HypPlan__Call *call = pb_call(&b, k->transpose ? "conv-transpose" : "conv", added == UINT32_MAX ? 3 : 4,
                                  (uint32_t[]){x, w, bias, added}, y);
    pb_call_ints(&b, call, k->axes, k->stride);
    add_pads(call, k);
    pb_call_ints(&b, call, k->axes, k->dilation);
    pb_call_int(&b, call, groups);
    if (k->transpose)
        pb_call_ints(&b, call, k->axes, k->more);
    else
        pb_call_symbol(&b, call, k->act);
    if (!k->transpose && strcmp(k->act, "leaky-relu") == 0) pb_call_float(&b, call, 0.3);
}

/* Some convolutions, without what libraries may do to a NaN behind one: in x, or in weights and in x none as large. */
static void make_wild(one *k, int round)
{
    if (round % 5 != 0 || k->around) return;
    k->heavy = round % 2 != 0;
    k->wild = k->heavy ? 0 : 1 + (int)rng_below(&r, 4);
    k->act = "none";
}

/* A convolution that keeps the channels and sizes. */
static void add_around(const one *k, int64_t channels, uint32_t x, uint32_t y)
{
    const one same = {.in = channels,
                      .out = channels,
                      .kernel = {1, 1},
                      .stride = {1, 1},
                      .dilation = {1, 1},
                      .axes = k->axes,
                      .act = "none"};
    add_one(&same, x, UINT32_MAX, y);
}

static void check(const one *k)
{
    int64_t x_dims[4] = {k->images, k->in}, y_dims[4] = {k->images, k->out}, x_count = k->images * k->in,
            y_count = k->images * k->out;
    for (size_t i = 0; i < k->axes; i++) {
        x_count *= x_dims[2 + i] = k->size[i];
        y_count *= y_dims[2 + i] = result_size(k, i);
    }
    size_t rank = 2 + k->axes;
    pb_init(&b);
    uint32_t x = pb_input(&b, "x", HYP_F32, rank, pb_consts(&b, rank, x_dims));
    uint32_t y = pb_output(&b, "y", HYP_F32, rank, pb_consts(&b, rank, y_dims));
    uint32_t added = k->added ? pb_input(&b, "z", HYP_F32, rank, pb_consts(&b, rank, y_dims)) : UINT32_MAX;
    if (k->around) {
        uint32_t from = pb_scratch(&b, HYP_F32, 0, rank, pb_consts(&b, rank, x_dims));
        uint32_t to = pb_scratch(&b, HYP_F32, 1, rank, pb_consts(&b, rank, y_dims));
        add_around(k, k->in, x, from);
        if (k->added && k->images > 1) { /* else it lies otherwise than y */
            uint32_t last = pb_scratch(&b, HYP_F32, 1, rank, pb_consts(&b, rank, y_dims)); /* whose place y takes */
            add_around(k, k->out, added, last);
            added = last;
        }
        add_one(k, from, added, to);
        if (k->added && k->images == 2) /* y, which has a view, lies otherwise than what was in its place */
            pb_copy_all(&b, pb_view(&b, to, 1, pb_consts(&b, 1, &y_count)), y, pb_const(&b, y_count));
        else
            add_around(k, k->out, to, y);
    } else {
        add_one(k, x, added, y);
    }
    float *data = random_floats((size_t)x_count, 1), *more = random_floats((size_t)y_count, 1), *out[2];
    static const float strange[] = {NAN, INFINITY, -INFINITY, 3e37f};
    for (int i = 0; i < k->wild; i++) data[rng_below(&r, (uint64_t)x_count)] = strange[rng_below(&r, 4)];
    const hyp_tensor in[] = {tensor_of("x", HYP_F32, data, rank, x_dims), tensor_of("z", HYP_F32, more, rank, y_dims)};
    for (int d = 0; d < 2; d++) {
        out[d] = calloc((size_t)y_count, sizeof *out[d]);
        hyp_tensor result = tensor_of("y", HYP_F32, out[d], rank, y_dims);
        run_once(&b, host_devices[d], in, k->added ? 2 : 1, &result, 1);
    }
    assert_close(out[1], out[0], (size_t)y_count, 1e-5);
    free(data), free(more), free(out[0]), free(out[1]);
    pb_dispose(&b);
}

static void transposed_convolutions_agree(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 2, 3, 5, 8, 12, 16, 20, 33};
    for (int round = 0; round < rounds(120); round++) {
        one k = {.transpose = true,
                 .around = round % 3 == 0,
                 .images = 1 + (int64_t)rng_below(&r, 2),
                 .in = channels[rng_below(&r, 9)],
                 .out = channels[rng_below(&r, 9)],
                 .axes = 1 + (size_t)(round % 4 != 0)};
        for (size_t i = 0; i < k.axes; i++) {
            k.size[i] = 1 + (int64_t)rng_below(&r, 9);
            k.kernel[i] = 1 + (int64_t)rng_below(&r, 4);
            k.stride[i] = 1 + (int64_t)rng_below(&r, 3);
            k.dilation[i] = 1 + (int64_t)rng_below(&r, 2);
            k.more[i] = (int64_t)rng_below(&r, (uint64_t)k.stride[i]);
            k.before[i] = (int64_t)rng_below(&r, (uint64_t)k.kernel[i]);
            k.after[i] = (int64_t)rng_below(&r, (uint64_t)k.kernel[i]);
            if (result_size(&k, i) < 1) k.before[i] = k.after[i] = 0;
        }
        check(&k);
    }
}

/* Columns of more than one product: rows are kept from one to the next. */
static void several_products_agree(void **state)
{
    (void)state;
    const one cases[] = {
        {true, false, 2, 8, 40, {40, 64}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2, NULL, 0, false, 0, false},
        {true, true, 1, 8, 24, {33, 70}, {5, 4}, {1, 2}, {2, 1}, {3, 0}, {2, 1}, {0, 0}, 2, NULL, 0, false, 0, false},
        {true, true, 1, 16, 64, {37, 50}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, {0, 0}, 2, NULL, 0, false, 0, false},
        {true, false, 1, 4, 64, {1500, 0}, {6, 0}, {3, 0}, {1, 1}, {2, 0}, {1, 0}, {0, 0}, 1, NULL, 0, false, 0, false},
        {false, true, 1, 8, 3, {40, 70}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}, {0, 0}, 2, "sigmoid", 0, false, 0, false},
        {false, false, 2, 9, 7, {50, 60}, {5, 6}, {1, 1}, {2, 1}, {0, 5}, {7, 0}, {0, 0}, 2, "relu", 0, false, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i]);
}

static void convolutions_with_few_results_agree(void **state)
{
    (void)state;
    static const char *const acts[] = {"none", "relu", "tanh", "relu6", "leaky-relu"};
    for (int round = 0; round < rounds(60); round++) {
        one k = {.around = round % 3 == 0,
                 .images = 1 + (int64_t)rng_below(&r, 2),
                 .in = 8 + (int64_t)rng_below(&r, 9),
                 .out = 1 + (int64_t)rng_below(&r, 7),
                 .stride = {1, 1},
                 .axes = 1 + (size_t)(round % 4 != 0),
                 .act = acts[round % 5]};
        for (size_t i = 0; i < k.axes; i++) {
            k.kernel[i] = 1 + (int64_t)rng_below(&r, 4);
            k.dilation[i] = 1 + (int64_t)rng_below(&r, 2);
            k.size[i] = 7 + (int64_t)rng_below(&r, 9);
            k.before[i] = (int64_t)rng_below(&r, 2 + (uint64_t)k.kernel[i]); /* beyond the kernel, too */
            k.after[i] = (int64_t)rng_below(&r, 2 + (uint64_t)k.kernel[i]);
        }
        check(&k);
    }
}

/* Results of neighbouring places that share vectors, where lines are multiples of them, and where not. */
static void convolutions_of_neighbours_agree(void **state)
{
    (void)state;
    static const char *const acts[] = {"none", "relu", "tanh", "relu6"};
    for (int round = 0; round < rounds(150); round++) {
        one k = {.around = round % 3 == 0,
                 .added = round % 2 == 0,
                 .images = 1 + (int64_t)rng_below(&r, 3),
                 .in = 1 + (int64_t)rng_below(&r, 9),
                 .out = 1 + (int64_t)rng_below(&r, 8),
                 .dilation = {1, 1},
                 .axes = 1 + (size_t)(round % 4 != 0),
                 .act = acts[round % 4]};
        size_t last = k.axes - 1;
        for (size_t i = 0; i < k.axes; i++) {
            k.kernel[i] = 1 + (int64_t)rng_below(&r, i == last ? 9 : 4);
            k.stride[i] = 1 + (int64_t)rng_below(&r, 3);
            k.dilation[i] = 1 + (int64_t)(rng_below(&r, 6) == 0);
            k.before[i] = (int64_t)rng_below(&r, 2 + (uint64_t)k.kernel[i]); /* beyond the kernel, too */
            k.after[i] = (int64_t)rng_below(&r, 2 + (uint64_t)k.kernel[i]);
            k.size[i] = 18 + (int64_t)rng_below(&r, 8);
        }
        for (int64_t wanted = rng_below(&r, 4) ? 8 : 1; result_size(&k, last) % wanted != 0;) k.size[last]++;
        make_wild(&k, round);
        check(&k);
    }
}

static void convolutions_agree(void **state)
{
    (void)state;
    static const char *const acts[] = {"none", "relu", "tanh", "silu"};
    static const int64_t channels[] = {1, 3, 8, 12, 16, 17, 33, 70, 130};
    for (int round = 0; round < rounds(120); round++) {
        one k = {.around = round % 3 == 0,
                 .images = 1 + (int64_t)rng_below(&r, 3),
                 .in = channels[rng_below(&r, 7)],
                 .out = channels[rng_below(&r, 9)],
                 .dilation = {1, 1},
                 .axes = 1 + (size_t)(round % 4 != 0),
                 .act = acts[rng_below(&r, 4)]};
        k.dilation[0] = 1 + (int64_t)(k.axes == 2 && rng_below(&r, 3) == 0);
        for (size_t i = 0; i < k.axes; i++) {
            k.kernel[i] = 1 + (int64_t)rng_below(&r, 4);
            k.stride[i] = 1 + (int64_t)rng_below(&r, 3);
            k.size[i] = 7 + (int64_t)rng_below(&r, round % 10 == 0 ? 40 : 12);
            k.before[i] = (int64_t)rng_below(&r, 2 + (uint64_t)k.kernel[i]); /* beyond the kernel, too */
            k.after[i] = (int64_t)rng_below(&r, 2 + (uint64_t)k.kernel[i]);
            if (rng_below(&r, 3) == 0) k.before[i] = k.after[i] = 0;
        }
        check(&k);
    }
}

/* Those that are done in fewer multiplications: tiles that are cut off, parts of several lines of them. */
static void convolutions_by_tiles_agree(void **state)
{
    (void)state;
    static const char *const acts[] = {"none", "relu", "tanh", "silu"};
    static const int64_t channels[] = {8, 12, 16, 17, 24, 33, 70};
    for (int round = 0; round < rounds(80); round++) {
        one k = {.around = round % 3 == 0,
                 .added = round % 2 == 0,
                 .images = 1 + (int64_t)rng_below(&r, 3),
                 .in = channels[rng_below(&r, 7)],
                 .out = channels[rng_below(&r, 7)],
                 .kernel = {3, 3},
                 .stride = {1, 1},
                 .dilation = {1, 1},
                 .axes = 2,
                 .act = acts[rng_below(&r, 4)]};
        for (size_t i = 0; i < k.axes; i++) {
            k.size[i] = 4 + (int64_t)rng_below(&r, round % 10 == 0 ? 50 : 20);
            k.before[i] = (int64_t)rng_below(&r, 6);
            k.after[i] = (int64_t)rng_below(&r, 6);
        }
        make_wild(&k, round);
        check(&k);
    }
}

/* Gaps along the last axis, too. */
static void dilated_convolutions_agree(void **state)
{
    (void)state;
    for (int round = 0; round < rounds(30); round++) {
        one k = {.around = round % 3 == 0,
                 .images = 1,
                 .in = 1 + (int64_t)rng_below(&r, 20),
                 .out = 8 + (int64_t)rng_below(&r, 20),
                 .axes = 1 + (size_t)(round % 3 != 0),
                 .act = "relu"};
        for (size_t i = 0; i < k.axes; i++) {
            k.kernel[i] = 1 + (int64_t)rng_below(&r, 3);
            k.stride[i] = 1 + (int64_t)rng_below(&r, 2);
            k.dilation[i] = 1 + (int64_t)rng_below(&r, 4);
            k.size[i] = 10 + (int64_t)rng_below(&r, 12);
            k.before[i] = (int64_t)rng_below(&r, 8);
            k.after[i] = (int64_t)rng_below(&r, 8);
        }
        check(&k);
    }
}

/* Groups that fill vectors and that do not, of up to 9 channels and of more; lines that make several parts; what is added. */
static void convolutions_of_groups_agree(void **state)
{
    (void)state;
    static const char *const acts[] = {"none", "relu", "silu"};
    static const int64_t groups[] = {2, 4, 7, 8, 12, 16, 19, 32, 40}, results[] = {1, 2, 4, 6, 8, 16, 21};
    for (int round = 0; round < rounds(90); round++) {
        one k = {.groups = groups[rng_below(&r, 9)],
                 .around = round % 3 == 0,
                 .images = 1 + (int64_t)rng_below(&r, 2),
                 .axes = 1 + (size_t)(round % 4 != 0),
                 .act = acts[rng_below(&r, 3)]};
        k.in = k.groups * (1 + (int64_t)rng_below(&r, round % 2 ? 9 : 34));
        k.out = k.groups * results[rng_below(&r, 7)];
        k.added = round % 5 == 1;
        int64_t more = round % 7 == 2 ? 20 : 0;
        for (size_t i = 0; i < k.axes; i++) {
            k.kernel[i] = 1 + (int64_t)rng_below(&r, 3);
            k.stride[i] = 1 + (int64_t)rng_below(&r, 2);
            k.dilation[i] = 1 + (int64_t)rng_below(&r, 2);
            k.size[i] = more + 5 + (int64_t)rng_below(&r, 6);
            k.before[i] = (int64_t)rng_below(&r, 3);
            k.after[i] = (int64_t)rng_below(&r, 3);
        }
        check(&k);
    }
}

/* Each channel by itself: channels that fill vectors and that do not, lines of many places, what is added. */
static void convolutions_of_channels_agree(void **state)
{
    (void)state;
    static const char *const acts[] = {"none", "relu", "silu", "relu6", "leaky-relu"};
    static const int64_t channels[] = {4, 8, 9, 16, 19, 24, 32, 45, 64};
    for (int round = 0; round < rounds(160); round++) {
        one k = {.around = round % 3 != 0,
                 .added = rng_below(&r, 2) == 0,
                 .images = 1 + (int64_t)rng_below(&r, 3),
                 .axes = 1 + (size_t)(round % 4 != 0),
                 .act = acts[rng_below(&r, 5)]};
        k.in = k.out = k.groups = channels[rng_below(&r, 9)];
        for (size_t i = 0; i < k.axes; i++) {
            k.kernel[i] = 1 + (int64_t)rng_below(&r, 7);
            k.stride[i] = 1 + (int64_t)rng_below(&r, 3);
            k.dilation[i] = 1 + (int64_t)(rng_below(&r, 3) == 0);
            k.size[i] = 13 + (int64_t)rng_below(&r, 20);
            k.before[i] = (int64_t)rng_below(&r, 2 + (uint64_t)k.kernel[i]); /* beyond the kernel, too */
            k.after[i] = (int64_t)rng_below(&r, 2 + (uint64_t)k.kernel[i]);
        }
        check(&k);
    }
}

/* oneDNN 2.6 ended the program here when kept to AVX2. */
static void added_channels_with_gaps_agree(void **state)
{
    (void)state;
    for (int64_t channels = 8; channels < 18; channels++) {
        const one k = {.groups = channels,
                       .in = channels,
                       .out = channels,
                       .images = 3,
                       .axes = 2,
                       .size = {25, 23},
                       .kernel = {1, 6},
                       .stride = {1, 1},
                       .dilation = {1, 2},
                       .before = {0, 2},
                       .after = {0, 5},
                       .act = "none",
                       .added = true};
        check(&k);
    }
}

/* A line of it by every kernel that this processor has, whatever is predicted: windows of any stride and gap that stick
 * out of x at both ends, or lie beside it; what is added lies in y. */
static void check_line(const hyp_cpu_kernels *k, int64_t channels, int64_t along, int64_t stride, int64_t gap)
{
    enum { WIDEST = 40, ROWS = 2, FARTHEST = 15, MOST = 20 };
    int64_t width = 1 + (int64_t)rng_below(&r, WIDEST), reach = (along - 1) * gap + 1;
    int64_t before = (int64_t)rng_below(&r, (uint64_t)reach + 2), count = 0;
    if (width + 2 * before < reach) before = reach;
    int64_t results = (width + 2 * before - reach) / stride + 1;
    int64_t first[WIDEST + 2 * FARTHEST + 1], offsets[WIDEST * MOST], taps[WIDEST * MOST];
    float *x = random_floats((size_t)(ROWS * width * channels), 1), *y = random_floats((size_t)(results * channels), 1),
          *w = random_floats((size_t)(ROWS * along * channels), 1), *bias = random_floats((size_t)channels, 1),
          *want = calloc((size_t)(results * channels), sizeof *want);
    assert_non_null(want);
    for (int64_t i = 0; i < results; i++) {
        first[i] = count;
        for (int64_t t = 0; t < along; t++) {
            int64_t place = i * stride + t * gap - before;
            if (place < 0 || place >= width) continue;
            taps[count] = t;
            offsets[count++] = place * channels;
        }
        for (int64_t c = 0; c < channels; c++) {
            double sum = (double)bias[c] + (double)y[i * channels + c];
            for (int64_t j = first[i]; j < count; j++)
                for (int row = 0; row < ROWS; row++)
                    sum += (double)x[row * width * channels + offsets[j] + c] *
                           (double)w[(row * along + taps[j]) * channels + c];
            want[i * channels + c] = (float)sum;
        }
    }
    first[results] = count;
    const float *rows[ROWS] = {x, x + width * channels}, *weights[ROWS] = {w, w + along * channels};
    const hyp_parts parts = {.rows = rows, .count = ROWS, .first = first, .offsets = offsets};
    const hyp_depthwise conv = {channels, along, gap * channels, stride * channels, bias};
    k->depthwise(&conv, &parts, weights, taps, results, y, y);
    assert_close(y, want, (size_t)(results * channels), 1e-5);
    free(x), free(y), free(w), free(bias), free(want);
}

static void lines_of_channels_agree(void **state)
{
    (void)state;
    static const int64_t places[] = {1, 2, 3, 5, 7};
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    for (int k = 0; list[k]; k++)
        for (int round = 0; round < rounds(120); round++)
            check_line(list[k], list[k]->width + (int64_t)rng_below(&r, 9 * (uint64_t)list[k]->width),
                       places[round % 5], 1 + (int64_t)rng_below(&r, 2), 1 + (int64_t)rng_below(&r, 2));
}

typedef struct lines_of_windows {
    int64_t channels, results, kernel[2], stride[2], gap[2]; /* lines, places */
    int64_t lines, places, top, height;                      /* of results; where they begin in the image, and its lines */
} lines_of_windows;

/* What a line's windows have in the image, in double: x has the lines that they want. */
static void sum_windows(const lines_of_windows *o, const float *x, int64_t width, const float *w, const float *bias,
                        float *want)
{
    for (int64_t i = 0; i < o->lines * o->places * o->results; i++) {
        int64_t n = i % o->results, place = i / o->results % o->places, line = i / o->results / o->places;
        double sum = (double)bias[n] + (double)want[i];
        for (int64_t j = 0; j < o->kernel[0] * o->kernel[1] * o->channels; j++) {
            int64_t c = j % o->channels, along = j / o->channels % o->kernel[1], row = j / o->channels / o->kernel[1];
            int64_t from = line * o->stride[0] + row * o->gap[0];
            if (o->top + from < 0 || o->top + from >= o->height) continue;
            sum += (double)x[(from * width + place * o->stride[1] + along * o->gap[1]) * o->channels + c] *
                   (double)w[j * o->results + n];
        }
        want[i] = (float)sum;
    }
}

/* By every kernel that this processor has: lines outside of the image are NaN here, since nothing may read them. */
static void check_windows(const hyp_cpu_kernels *kernels, const lines_of_windows *o)
{
    int64_t width = (o->places - 1) * o->stride[1] + (o->kernel[1] - 1) * o->gap[1] + 1;
    int64_t height = (o->lines - 1) * o->stride[0] + (o->kernel[0] - 1) * o->gap[0] + 1;
    int64_t k = o->kernel[0] * o->kernel[1] * o->channels, line = width * o->channels;
    size_t count = (size_t)(o->lines * o->places * o->results);
    float *x = random_floats((size_t)(height * line), 1), *w = random_floats((size_t)(k * o->results), 1 / sqrt((double)k)),
          *bias = random_floats((size_t)o->results, 1), *y = random_floats(count, 1), *want = calloc(count, sizeof *want);
    assert_non_null(want);
    memcpy(want, y, count * sizeof *want);
    for (int64_t i = 0; i < height * line; i++)
        if (o->top + i / line < 0 || o->top + i / line >= o->height) x[i] = NAN;
    sum_windows(o, x, width, w, bias, want);
    hyp_mlp *packed = hyp_cpu_pack_layers(kernels, 1, w, o->results, k, bias, NULL);
    assert_non_null(packed);
    bool gaps = o->gap[1] > 1;
    const hyp_windows g = {.lines = o->lines,
                           .places = o->places,
                           .x_line = o->stride[0] * line,
                           .x_place = o->stride[1] * o->channels,
                           .rows = o->kernel[0],
                           .apart = o->gap[0] * line,
                           .runs = gaps ? o->kernel[1] : 1,
                           .gap = o->gap[1] * o->channels,
                           .y_place = o->results,
                           .top = o->top,
                           .step = o->stride[0],
                           .spread = o->gap[0],
                           .height = o->height};
    int64_t panel = (int64_t)kernels->panel * kernels->width;
    kernels->windows(&packed->layers[0], &g, x, y, y, 0, (o->results + panel - 1) / panel);
    assert_close(y, want, count, 1e-5);
    hyp_cpu_free_layers(packed);
    free(x), free(w), free(bias), free(y), free(want);
}

/* Lines that are shorter than a tile and longer, whose windows stick out of the image or lie outside altogether. */
static void windows_agree(void **state)
{
    (void)state;
    const hyp_cpu_kernels *list[HYP_CPU_KERNELS_MAX];
    hyp_cpu_kernels_list(list);
    for (int k = 0; list[k]; k++)
        for (int round = 0; round < rounds(150); round++) {
            lines_of_windows o = {.channels = 1 + (int64_t)rng_below(&r, 20),
                                  .results = 1 + (int64_t)rng_below(&r, 5 * (uint64_t)list[k]->width),
                                  .lines = 1 + (int64_t)rng_below(&r, 9),
                                  .places = 1 + (int64_t)rng_below(&r, 15),
                                  .top = (int64_t)rng_below(&r, 14) - 10,
                                  .height = 1 + (int64_t)rng_below(&r, 9)};
            for (int axis = 0; axis < 2; axis++) {
                o.kernel[axis] = 1 + (int64_t)rng_below(&r, 4);
                o.stride[axis] = 1 + (int64_t)rng_below(&r, 3);
                o.gap[axis] = 1 + (int64_t)rng_below(&r, 3) / 2;
            }
            check_windows(list[k], &o);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposed_convolutions_agree),
        cmocka_unit_test(several_products_agree),
        cmocka_unit_test(convolutions_agree),
        cmocka_unit_test(convolutions_of_neighbours_agree),
        cmocka_unit_test(convolutions_by_tiles_agree),
        cmocka_unit_test(dilated_convolutions_agree),
        cmocka_unit_test(convolutions_with_few_results_agree),
        cmocka_unit_test(convolutions_of_groups_agree),
        cmocka_unit_test(convolutions_of_channels_agree),
        cmocka_unit_test(added_channels_with_gaps_agree),
        cmocka_unit_test(lines_of_channels_agree),
        cmocka_unit_test(windows_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
