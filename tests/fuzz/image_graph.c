#include "fuzz/image_graph.h"

#include <string.h>

#include "support/random_graph.h"

enum { MOST_PARTS = 3 };

typedef struct maker {
    hyp_graph *g;
    hyp_random random;
    hyp_diag *diag;
} maker;

/* An image: its channels, and places along either axis. */
typedef struct image {
    hyp_value_id value;
    int64_t channels, height, width;
} image;

static int64_t pick(maker *m, const int64_t *list, size_t count)
{
    return list[hyp_random_int(&m->random, 0, (int64_t)count - 1)];
}
#define PICK(m, ...)                                                                                                   \
    pick(m, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static hyp_status add_numbers(maker *m, const hyp_type *type, hyp_value_id *out)
{
    size_t bytes = 0;
    if (!hyp_type_bytes(type, &bytes)) return hyp_fail(m->diag, HYP_ERR_LIMIT, "a weight is too large");
    float *data = hyp_malloc(bytes);
    if (!data) return hyp_fail_memory(m->diag, bytes);
    for (size_t i = 0; i < bytes / sizeof *data; i++) data[i] = (float)hyp_random_real(&m->random, -1, 1);
    hyp_status status = hyp_graph_add_const(m->g, NULL, type, data, bytes, true, out, m->diag);
    hyp_free(data);
    return status;
}

/* Windows that leave as many places as there were, or half as many. */
static void set_window(int64_t height, int64_t width, int64_t step, hyp_dim kernel[2], hyp_dim steps[2], hyp_dim pads[4])
{
    memcpy(kernel, (hyp_dim[]){height, width}, 2 * sizeof *kernel);
    memcpy(steps, (hyp_dim[]){step, step}, 2 * sizeof *steps);
    memcpy(pads, (hyp_dim[]){(height - 1) / 2, (width - 1) / 2, height / 2, width / 2}, 4 * sizeof *pads);
}

static hyp_status add_conv(maker *m, image *x)
{
    const hyp_dim ones[2] = {1, 1};
    hyp_dim kernel[2], steps[2], pads[4];
    hyp_value_id in[4] = {x->value, HYP_NO_VALUE, HYP_NO_VALUE, HYP_NO_VALUE};
    set_window(PICK(m, 1, 3, 3, 5), PICK(m, 1, 3, 3), PICK(m, 1, 1, 1, 2), kernel, steps, pads);
    const bool depthwise = PICK(m, 0, 0, 0, 0, 1), adds = !depthwise && steps[0] == 1 && PICK(m, 0, 0, 1);
    const int64_t channels = depthwise || adds ? x->channels : PICK(m, 1, 3, 8, 12, 16, 32);
    const int64_t group = depthwise ? channels : 1;
    const hyp_type w = {.dtype = HYP_F32, .rank = 4, .dims = {channels, x->channels / group, kernel[0], kernel[1]}};
    const hyp_type b = {.dtype = HYP_F32, .rank = 1, .dims = {channels}};
    const hyp_attr attrs[] = {hyp_attr_of_dims(steps, 2),  hyp_attr_of_dims(pads, 4),
                              hyp_attr_of_dims(ones, 2),   hyp_attr_of_int(group),
                              hyp_attr_of_sym(PICK(m, 0, 1) ? "relu" : "none"), hyp_attr_of_float(0)};
    HYP_TRY(add_numbers(m, &w, &in[1]));
    if (PICK(m, 0, 1)) HYP_TRY(add_numbers(m, &b, &in[2]));
    if (adds) in[3] = x->value;
    *x = (image){HYP_NO_VALUE, channels, (x->height - 1) / steps[0] + 1, (x->width - 1) / steps[1] + 1};
    return hyp_graph_add_node(m->g, HYP_OP_conv, in, 4, attrs, NULL, &x->value, 1, m->diag);
}

static hyp_status add_pool(maker *m, image *x)
{
    const hyp_dim ones[2] = {1, 1};
    hyp_dim kernel[2], steps[2], pads[4];
    const int64_t size = PICK(m, 2, 3), step = PICK(m, 1, 1, 2);
    const bool average = PICK(m, 0, 1);
    set_window(size, size, step, kernel, steps, pads);
    const hyp_attr attrs[] = {hyp_attr_of_dims(kernel, 2), hyp_attr_of_dims(steps, 2), hyp_attr_of_dims(pads, 4),
                              hyp_attr_of_dims(ones, 2),   hyp_attr_of_int(0),         hyp_attr_of_int(0)};
    hyp_value_id in = x->value;
    *x = (image){HYP_NO_VALUE, x->channels, (x->height - 1) / step + 1, (x->width - 1) / step + 1};
    return hyp_graph_add_node(m->g, average ? HYP_OP_average_pool : HYP_OP_max_pool, &in, 1, attrs, NULL, &x->value, 1,
                              m->diag);
}

static hyp_status add_pointwise(maker *m, image *x)
{
    const hyp_type each = {.dtype = HYP_F32, .rank = 4, .dims = {1, x->channels, 1, 1}};
    const hyp_type one = {.dtype = HYP_F32, .rank = 4, .dims = {1, 1, x->height, x->width}};
    const int64_t kind = PICK(m, 0, 1, 2, 3);
    const hyp_op op = kind == 0 ? HYP_OP_tanh : kind == 1 ? HYP_OP_add : HYP_OP_mul;
    hyp_value_id in[2] = {x->value, x->value};
    if (kind > 1) HYP_TRY(add_numbers(m, kind == 2 ? &each : &one, &in[1]));
    return hyp_graph_add_node(m->g, op, in, kind == 0 ? 1 : 2, NULL, NULL, &x->value, 1, m->diag);
}

static hyp_status add_layer(maker *m, image *x)
{
    switch (PICK(m, 0, 0, 0, 1, 2)) {
    case 0: return add_conv(m, x);
    case 1: return add_pool(m, x);
    default: return add_pointwise(m, x);
    }
}

/* Parts of as many places as the first one go together; another is an output. */
static hyp_status add_block(maker *m, image *x)
{
    image parts[MOST_PARTS], whole = {0};
    hyp_value_id in[MOST_PARTS];
    uint32_t count = (uint32_t)PICK(m, 2, 2, MOST_PARTS), joined = 0;
    const hyp_attr channels = hyp_attr_of_int(1);
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = *x;
        for (int64_t left = PICK(m, 1, 1, 2, 2, 0); left > 0; left--) HYP_TRY(add_layer(m, &parts[i]));
        if (i > 0 && (parts[i].height != whole.height || parts[i].width != whole.width)) {
            HYP_TRY(hyp_graph_add_output(m->g, i == 1 ? "aside" : "aside2", parts[i].value, m->diag));
            continue;
        }
        whole = (image){HYP_NO_VALUE, whole.channels + parts[i].channels, parts[i].height, parts[i].width};
        in[joined++] = parts[i].value;
    }
    HYP_TRY(hyp_graph_add_node(m->g, HYP_OP_concat, in, joined, &channels, NULL, &whole.value, 1, m->diag));
    *x = whole;
    return HYP_OK;
}

hyp_status image_graph(uint64_t seed, hyp_dims *dims, hyp_graph *out, hyp_diag *diag)
{
    maker m = {.g = out, .random = {seed * 0x9e3779b97f4a7c15u + 1}, .diag = diag};
    hyp_graph_init(out, dims);
    image x = {HYP_NO_VALUE, PICK(&m, 3, 8, 16, 32), PICK(&m, 1, 3, 6, 9), PICK(&m, 2, 5, 8, 12)};
    hyp_type type = {.dtype = HYP_F32, .rank = 4, .dims = {1, x.channels, x.height, x.width}};
    if (PICK(&m, 0, 0, 1)) HYP_TRY(hyp_dim_symbol(dims, "n", &type.dims[0], diag));
    HYP_TRY(hyp_graph_add_input(out, "x", &type, &x.value, diag));
    if (PICK(&m, 0, 1)) HYP_TRY(add_layer(&m, &x));
    HYP_TRY(add_block(&m, &x));
    if (PICK(&m, 0, 1)) HYP_TRY(add_layer(&m, &x));
    return hyp_graph_add_output(out, "y", x.value, diag);
}
