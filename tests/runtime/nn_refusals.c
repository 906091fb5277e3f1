/* nn_refusals.c - calls of hypatia/nn.h that are wrong in one way each: the status, and what the message has to say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/nn_oracle.h"

/* The calls of one network, with something changed before. */
typedef struct calls {
    hyp_nn *nn;
    nn_case c;
    nn_tensors t;
    hyp_tensor *saved, *dx, *y;
    const hyp_tensor *dy, *x;
    size_t count;
} calls;

static void wrong_type(calls *k) { k->t.x.dtype = HYP_F64; }
static void other_type(calls *k) { k->t.layers[1].weight.dtype = HYP_F16; }
static void other_bias_type(calls *k) { k->t.layers[0].bias.dtype = HYP_F16; }
static void reserved_tensor(calls *k) { k->t.x.reserved = 1; }
static void reserved_layer(calls *k) { k->t.layers[0].reserved = 1; }
static void no_act(calls *k) { k->t.layers[0].act = (hyp_nn_act)5; }
static void vector_weight(calls *k) { k->t.layers[0].weight.rank = 1; }
static void empty_weight(calls *k) { k->t.layers[0].weight.dims[0] = 0; }
static void turned_weight(calls *k)
{
    int64_t *d = k->t.layers[1].weight.dims, first = d[0];
    d[0] = d[1], d[1] = first;
}
static void long_bias(calls *k) { k->t.layers[0].bias.dims[0]++; }
static void scalar_x(calls *k) { k->t.x.rank = 0; }
static void wide_x(calls *k) { k->t.x.dims[1]++; }
static void negative_x(calls *k) { k->t.x.dims[0] = -1; }
static void long_x(calls *k) { k->t.x.dims[0] = INT64_MAX; }
static void no_layers(calls *k) { k->count = 0; }
static void no_data(calls *k) { k->t.layers[1].weight.data = NULL; }
static void few_bytes(calls *k) { k->t.layers[0].bias.bytes--; }
static void elsewhere(calls *k)
{
    k->t.x.memory = k->t.x.memory == HYP_MEMORY_HOST ? HYP_MEMORY_CUDA : HYP_MEMORY_HOST;
}
static void crooked(calls *k) { k->t.x.data = (char *)k->t.x.data + 1, k->t.x.bytes = SIZE_MAX / 2; }
static void small_saved(calls *k) { k->t.saved.bytes--; }
static void crooked_saved(calls *k) { k->t.saved.data = (char *)k->t.saved.data + 8, k->t.saved.bytes = SIZE_MAX / 2; }
static void short_y(calls *k)
{
    k->t.y.rank = 2;
    k->t.y.dims[0] = k->c.rows - 1;
    k->t.y.dims[1] = k->c.width[2];
}
static void narrow_dy(calls *k) { k->t.dy.dims[1]--; }
static void y_is_x(calls *k) { k->t.y.data = k->t.x.data, k->t.y.bytes = k->t.x.bytes; }
static void dx_is_dy(calls *k) { k->t.dx.data = k->t.dy.data, k->t.dx.bytes = SIZE_MAX / 2; }
static void gradient_is_weight(calls *k) { k->t.gradients[1].weight.data = k->t.layers[1].weight.data; }
static void gradients_overlap(calls *k)
{
    k->t.gradients[0].bias.data = k->t.gradients[0].weight.data;
    k->t.gradients[0].bias.bytes = SIZE_MAX / 2;
}
static void turned_gradient(calls *k)
{
    int64_t *d = k->t.gradients[0].weight.dims, first = d[0];
    d[0] = d[1], d[1] = first;
}
static void strides_apart(calls *k)
{
    k->t.options.x_strides = k->t.x_strides;
    k->t.x_strides[1] = 2;
}
static void rows_overlap(calls *k)
{
    k->t.options.x_strides = k->t.x_strides;
    k->t.x_strides[0] = 1;
}
static void gap_in_rows(calls *k)
{
    k->t.options.x_strides = k->t.x_strides;
    k->t.x.rank = 3;
    k->t.x.dims[2] = k->t.x.dims[1];
    k->t.x.dims[0] = 2, k->t.x.dims[1] = k->c.rows / 2;
    k->t.x_strides[0] = 1000, k->t.x_strides[1] = k->c.width[0], k->t.x_strides[2] = 1;
}
static void no_size(calls *k) { k->t.options.size = 0; }

static const struct {
    void (*change)(calls *k);
    bool forward, backward; /* which of the passes it is wrong for */
    const char *says[2];
} list[] = {
    {wrong_type, true, true, {"x: ", "f64: wanted f32, f16 or bf16"}},
    {other_type, true, true, {"the weight of layer 1", "f16 where the weights are f32"}},
    {other_bias_type, true, true, {"the bias of layer 0", "f16 where the weights are f32"}},
    {reserved_tensor, true, true, {"x: ", "set it to 0"}},
    {reserved_layer, true, true, {"layer 0", "reserved 1"}},
    {no_act, true, true, {"layer 0", "act is 5"}},
    {vector_weight, true, true, {"the weight of layer 0", "rank is 1: wanted 2"}},
    {empty_weight, true, true, {"the weight of layer 0", "[0, 8]"}},
    {turned_weight, true, true, {"the weight of layer 1", "weights are [out, in]"}},
    {long_bias, true, true, {"the bias of layer 0", "17 elements where the layer gives 16"}},
    {scalar_x, true, true, {"x: ", "rank is 0: wanted 1 or more"}},
    {wide_x, true, true, {"x: ", "9 elements where the weights make it 8"}},
    {negative_x, true, true, {"x: ", "-1 elements"}},
    {long_x, true, true, {"x: ", "split it"}},
    {no_layers, true, true, {"there are no layers", "one or more"}},
    {no_data, true, true, {"the weight of layer 1", "data is NULL"}},
    {few_bytes, true, false, {"the bias of layer 0", "63 bytes of memory: 64 are wanted"}},
    {elsewhere, true, true, {"x: ", "hyp_nn_tensor_copy"}},
    {crooked, true, true, {"x: ", "wanted a multiple of"}},
    {small_saved, true, true, {"saved: ", "are wanted"}},
    {crooked_saved, true, true, {"saved: ", "wanted a multiple of"}},
    {short_y, true, false, {"y: ", "5 rows where x has 6"}},
    {narrow_dy, false, true, {"dy: ", "last axis has 3 elements"}},
    {y_is_x, true, false, {"overlaps", "memory of its own"}},
    {dx_is_dy, false, true, {"overlaps", "memory of its own"}},
    {gradient_is_weight, false, true, {"overlaps", "memory of its own"}},
    {gradients_overlap, false, true, {"overlaps", "memory of its own"}},
    {turned_gradient, false, true, {"the weight's gradient of layer 0", "[16, 8]"}},
    {strides_apart, true, true, {"x: ", "must be 1"}},
    {rows_overlap, true, true, {"x: ", "1 elements apart and 8 long"}},
    {gap_in_rows, true, true, {"x: ", "one axis of rows"}},
    {no_size, true, true, {"options->size is 0", "sizeof(hyp_nn_run_options)"}},
};

static void must_say(hyp_status status, const hyp_diag *diag, size_t i, const char *pass)
{
    if (status == HYP_ERR_INVALID_ARGUMENT && strstr(diag->message, list[i].says[0]) &&
        strstr(diag->message, list[i].says[1]))
        return;
    fail_msg("case %zu, %s: status %d, \"%s\", wanted \"%s\" and \"%s\"", i, pass, (int)status, diag->message,
             list[i].says[0], list[i].says[1]);
}

static hyp_status forward(calls *k, hyp_diag *diag)
{
    return hyp_mlp_forward(k->nn, k->t.layers, k->count, &k->t.x, &k->t.y, &k->t.saved, &k->t.options, diag);
}

static hyp_status backward(calls *k, hyp_diag *diag)
{
    return hyp_mlp_backward(k->nn, k->t.layers, k->count, &k->t.x, &k->t.saved, &k->t.dy, &k->t.dx, k->t.gradients,
                            &k->t.options, diag);
}

void nn_check_refusals(hyp_nn *nn)
{
    static hyp_diag diag;
    uint64_t seed = 3;
    calls k = {.nn = nn, .count = 2};
    k.c = nn_full_case(HYP_F32, 6, 2, (int64_t[]){8, 16, 4}, (hyp_nn_act[]){HYP_NN_RELU, HYP_NN_SILU});
    nn_numbers n = nn_draw(&k.c, true, &seed);
    nn_place(nn, &k.c, &n, 0, &k.t);
    const nn_tensors good = k.t;
    assert_int_equal(forward(&k, &diag), HYP_OK);
    assert_int_equal(backward(&k, &diag), HYP_OK);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        calls wrong = k;
        wrong.t = good;
        list[i].change(&wrong);
        memset(&diag, 0, sizeof diag);
        hyp_status status = forward(&wrong, &diag);
        if (list[i].forward) must_say(status, &diag, i, "forward");
        wrong.t = good;
        list[i].change(&wrong);
        memset(&diag, 0, sizeof diag);
        status = list[i].backward ? backward(&wrong, &diag) : HYP_OK;
        if (list[i].backward) must_say(status, &diag, i, "backward");
    }
    k.t = good;
    assert_int_equal(forward(&k, &diag), HYP_OK); /* nothing has changed */
    nn_unplace(nn, &k.c, &k.t);
    nn_free(&n);
}
