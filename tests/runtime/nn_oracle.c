#include "runtime/nn_oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"

/* ---- numbers ------------------------------------------------------------------------------------------------- */

uint64_t nn_random(uint64_t *seed) /* splitmix64 */
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double *array(int64_t count) { return calloc((size_t)count + 1, sizeof(double)); }

static double *draw(const nn_case *c, int64_t count, bool coarse, double scale, uint64_t *seed)
{
    double *out = array(count);
    for (int64_t i = 0; i < count; i++) {
        if (coarse) {
            out[i] = scale * ((int)(nn_random(seed) % 5) - 2) / 4;
            continue;
        }
        uint8_t bytes[8]; /* a number of the type */
        hyp_store_f64(c->dtype, bytes, 0, (double)(nn_random(seed) >> 11) * 0x1p-52 - 1);
        out[i] = hyp_load_f64(c->dtype, bytes, 0);
    }
    return out;
}

nn_numbers nn_draw(const nn_case *c, bool coarse, uint64_t *seed)
{
    nn_numbers n = {0};
    n.x = draw(c, c->rows * c->width[0], coarse, 1, seed);
    n.dy = draw(c, c->rows * c->width[c->count], coarse, 1, seed);
    for (size_t l = 0; l < c->count; l++) {
        double scale = c->width[l] > 16 ? 0.25 : 1; /* values stay about 1 */
        n.w[l] = draw(c, c->width[l] * c->width[l + 1], coarse, scale, seed);
        n.b[l] = draw(c, c->width[l + 1], coarse, 1, seed);
        for (int64_t i = 0; i < c->width[l + 1] && !c->bias[l]; i++) n.b[l][i] = 0;
    }
    return n;
}

void nn_free(nn_numbers *n)
{
    double *single[] = {n->x, n->dy, n->y, n->dx};
    for (size_t i = 0; i < 4; i++) free(single[i]);
    for (size_t l = 0; l < NN_LAYERS; l++) {
        double *list[] = {n->w[l], n->b[l], n->dw[l], n->db[l]};
        for (size_t i = 0; i < 4; i++) free(list[i]);
    }
    memset(n, 0, sizeof *n);
}

/* ---- the oracle ---------------------------------------------------------------------------------------------- */

static double act(hyp_nn_act a, double v)
{
    const double pi = acos(-1);
    switch (a) {
    case HYP_NN_RELU: return v > 0 ? v : 0;
    case HYP_NN_GELU: return v * erfc(-v / sqrt(2)) / 2;
    case HYP_NN_GELU_TANH: return v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 * pow(v, 3))));
    case HYP_NN_SILU: return v / (1 + exp(-v));
    default: return v;
    }
}

static double slope(hyp_nn_act a, double v)
{
    const double pi = acos(-1);
    double s, t;
    switch (a) {
    case HYP_NN_RELU: return v > 0;
    case HYP_NN_GELU: return erfc(-v / sqrt(2)) / 2 + v * exp(-v * v / 2) / sqrt(2 * pi);
    case HYP_NN_GELU_TANH:
        t = tanh(sqrt(2 / pi) * (v + 0.044715 * pow(v, 3)));
        return (1 + t) / 2 + v / 2 * (1 - t * t) * sqrt(2 / pi) * (1 + 0.134145 * v * v);
    case HYP_NN_SILU: s = 1 / (1 + exp(-v)); return s * (1 + v * (1 - s));
    default: return 1;
    }
}

static double rounded(const nn_case *c, bool rounds, double v)
{
    uint8_t bytes[8];
    if (!rounds) return v;
    hyp_store_f64(c->dtype, bytes, 0, v);
    return hyp_load_f64(c->dtype, bytes, 0);
}

void nn_oracle(const nn_case *c, bool rounds, nn_numbers *n)
{
    double *h[1 + NN_LAYERS] = {n->x}, *z[NN_LAYERS] = {NULL}, *g = NULL;
    int64_t rows = c->rows;
    for (size_t l = 0; l < c->count; l++) {
        int64_t in = c->width[l], out = c->width[l + 1];
        z[l] = array(rows * out);
        h[l + 1] = array(rows * out);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < out; j++) {
                double sum = n->b[l][j];
                for (int64_t k = 0; k < in; k++) sum += h[l][i * in + k] * n->w[l][j * in + k];
                if (c->act[l] > HYP_NN_RELU) sum = rounded(c, rounds, sum); /* as it is saved */
                z[l][i * out + j] = sum;
                h[l + 1][i * out + j] = rounded(c, rounds, act(c->act[l], sum));
            }
    }
    n->y = h[c->count];
    g = array(rows * c->width[c->count]);
    for (int64_t i = 0; i < rows * c->width[c->count]; i++)
        g[i] = rounded(c, rounds, n->dy[i] * slope(c->act[c->count - 1], z[c->count - 1][i]));
    for (size_t l = c->count; l-- > 0;) {
        int64_t in = c->width[l], out = c->width[l + 1];
        n->dw[l] = array(in * out);
        n->db[l] = array(out);
        double *below = array(rows * in);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < out; j++) {
                n->db[l][j] += g[i * out + j];
                for (int64_t k = 0; k < in; k++) {
                    n->dw[l][j * in + k] += g[i * out + j] * h[l][i * in + k];
                    below[i * in + k] += g[i * out + j] * n->w[l][j * in + k];
                }
            }
        for (int64_t i = 0; i < rows * in && l > 0; i++)
            below[i] = rounded(c, rounds, below[i] * slope(c->act[l - 1], z[l - 1][i]));
        free(g);
        g = below;
        if (l > 0) free(h[l]);
        free(z[l]);
    }
    n->dx = g;
}

nn_case nn_full_case(hyp_dtype dtype, int64_t rows, size_t count, const int64_t *widths, const hyp_nn_act *acts)
{
    nn_case c = {.dtype = dtype, .count = count, .rows = rows, .dx = true, .rank = 2};
    memcpy(c.width, widths, (count + 1) * sizeof *widths);
    memcpy(c.act, acts, count * sizeof *acts);
    for (size_t l = 0; l < count; l++) c.bias[l] = c.dw[l] = c.db[l] = true;
    return c;
}

nn_case nn_draw_case(uint64_t *seed, hyp_dtype dtype, bool tf32)
{
    static const int64_t rows[] = {1, 2, 3, 7, 8, 33, 130}, widths[] = {1, 2, 3, 5, 8, 10, 17, 64, 136};
    nn_case c = {.dtype = dtype, .tf32 = tf32};
    c.count = 1 + nn_random(seed) % 4;
    c.rank = (int32_t)(1 + nn_random(seed) % 4);
    c.rows = c.rank == 1 ? 1 : rows[nn_random(seed) % 7];
    uint64_t bits = nn_random(seed);
    for (size_t l = 0; l <= c.count; l++) c.width[l] = widths[nn_random(seed) % 9];
    bool exact = true; /* else sums about 0 are on the wrong side of it for a relu */
    for (size_t l = 0; l < c.count; l++) {
        c.act[l] = (hyp_nn_act)(nn_random(seed) % 5);
        if (c.act[l] == HYP_NN_RELU && !exact) c.act[l] = HYP_NN_NONE;
        exact = exact && c.act[l] <= HYP_NN_RELU &&
                (!tf32 || l == 0); /* what a second layer gives has more bits than TF32 */
        c.bias[l] = nn_random(seed) % 4 != 0;
        c.dw[l] = nn_random(seed) % 4 != 0;
        c.db[l] = nn_random(seed) % 4 != 0;
    }
    c.dx = bits & 1;
    c.accumulate = bits >> 1 & 1;
    c.accumulate_input = bits >> 2 & 1;
    if (bits >> 3 & 1) c.pad_x = 3;
    if (bits >> 4 & 1) c.pad_y = 8;
    if (bits >> 5 & 1) c.pad_dx = 1;
    return c;
}

/* ---- tensors on a device -------------------------------------------------------------------------------------- */

#define MUST(call) assert_true_or_tell((call), &diag, #call)
static void assert_true_or_tell(hyp_status status, const hyp_diag *diag, const char *what)
{
    if (status != HYP_OK) fail_msg("%s: %s", what, diag->message);
}

static const double untouched = 0.75; /* of padding */

/* rows x columns, `ld` apart, with numbers, or `fill` where they are NULL. */
static hyp_tensor place(hyp_nn *nn, hyp_dtype dtype, int64_t rows, int64_t columns, int64_t ld, const double *numbers,
                        double fill)
{
    hyp_diag diag = {0};
    size_t size = hyp_dtype_size(dtype), count = (size_t)(rows * ld);
    hyp_tensor t = {.bytes = count * size, .dtype = dtype, .rank = 2, .dims = {rows, columns}}, host = t;
    host.data = malloc(count * size + 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < ld; j++)
            hyp_store_f64(dtype, host.data, (size_t)(i * ld + j),
                          j >= columns ? untouched
                          : numbers    ? numbers[i * columns + j]
                                       : fill);
    MUST(hyp_nn_tensor_alloc(nn, &t, &diag));
    MUST(hyp_nn_tensor_copy(nn, &host, &t, &diag));
    free(host.data);
    return t;
}

double *nn_fetch(hyp_nn *nn, const hyp_tensor *t, int64_t rows, int64_t columns, int64_t ld)
{
    hyp_diag diag = {0};
    hyp_tensor host = *t;
    host.memory = HYP_MEMORY_HOST;
    host.data = malloc(t->bytes + 1);
    MUST(hyp_nn_synchronize(nn, &diag));
    MUST(hyp_nn_tensor_copy(nn, t, &host, &diag));
    double *out = array(rows * columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < ld; j++) {
            double v = hyp_load_f64(t->dtype, host.data, (size_t)(i * ld + j));
            if (j < columns)
                out[i * columns + j] = v;
            else
                assert_true(v == untouched);
        }
    free(host.data);
    return out;
}

/* Dims of so many rows in several axes, and strides of a matrix whose rows are `ld` apart. */
static void set_dims(hyp_tensor *t, int32_t rank, int64_t rows, int64_t columns, int64_t ld, int64_t *strides)
{
    int64_t first = rank > 2 && rows % 2 == 0 ? 2 : 1;
    t->rank = rank;
    for (int32_t a = 0; a < rank; a++) t->dims[a] = 1;
    if (rank > 2) t->dims[0] = first;
    if (rank > 1) t->dims[rank - 2] = rows / (rank > 2 ? first : 1);
    t->dims[rank - 1] = columns;
    for (int32_t a = rank - 1; a >= 0; a--)
        strides[a] = a == rank - 1 ? 1 : a == rank - 2 ? ld : strides[a + 1] * t->dims[a + 1];
}

void nn_place(hyp_nn *nn, const nn_case *c, const nn_numbers *n, double before, nn_tensors *out)
{
    hyp_diag diag = {0};
    nn_tensors t = {.options = {.size = sizeof t.options}};
    int64_t in = c->width[0], last = c->width[c->count];
    for (size_t l = 0; l < c->count; l++) {
        int64_t a = c->width[l], b = c->width[l + 1];
        t.layers[l].act = c->act[l];
        t.layers[l].weight = place(nn, c->dtype, b, a, a, n->w[l], 0);
        if (c->bias[l]) t.layers[l].bias = place(nn, c->dtype, 1, b, b, n->b[l], 0);
        if (c->dw[l]) t.gradients[l].weight = place(nn, c->dtype, b, a, a, NULL, before);
        if (c->db[l]) t.gradients[l].bias = place(nn, c->dtype, 1, b, b, NULL, before);
        hyp_tensor *vectors[] = {&t.layers[l].bias, &t.gradients[l].bias};
        for (size_t i = 0; i < 2; i++) vectors[i]->rank = vectors[i]->rank / 2, vectors[i]->dims[0] = b;
        if (l % 2) t.gradients[l].weight.rank = 0; /* filled in */
    }
    t.x = place(nn, c->dtype, c->rows, in, in + c->pad_x, n->x, 0);
    t.y = place(nn, c->dtype, c->rows, last, last + c->pad_y, NULL, before);
    t.dy = place(nn, c->dtype, c->rows, last, last + c->pad_y, n->dy, 0);
    t.dx = place(nn, c->dtype, c->rows, in, in + c->pad_dx, NULL, before);
    set_dims(&t.x, c->rank, c->rows, in, in + c->pad_x, t.x_strides);
    set_dims(&t.dx, c->rank, c->rows, in, in + c->pad_dx, t.dx_strides);
    set_dims(&t.dy, c->rank, c->rows, last, last + c->pad_y, t.y_strides);
    t.y.rank = 0;
    MUST(hyp_mlp_saved_bytes(nn, t.layers, c->count, &t.x, &t.saved.bytes, &diag));
    MUST(hyp_nn_tensor_alloc(nn, &t.saved, &diag));
    *out = t;
}

void nn_unplace(hyp_nn *nn, const nn_case *c, nn_tensors *t)
{
    hyp_tensor *list[] = {&t->x, &t->y, &t->saved, &t->dy, &t->dx};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) hyp_nn_tensor_free(nn, list[i]);
    for (size_t l = 0; l < c->count; l++) {
        hyp_nn_tensor_free(nn, &t->layers[l].weight);
        hyp_nn_tensor_free(nn, &t->layers[l].bias);
        hyp_nn_tensor_free(nn, &t->gradients[l].weight);
        hyp_nn_tensor_free(nn, &t->gradients[l].bias);
    }
}

const hyp_nn_run_options *nn_options(const nn_case *c, nn_tensors *t)
{
    t->options.tf32 = c->tf32;
    t->options.accumulate = c->accumulate;
    t->options.accumulate_input = c->accumulate_input;
    t->options.x_strides = c->pad_x ? t->x_strides : NULL;
    t->options.y_strides = c->pad_y ? t->y_strides : NULL;
    t->options.dx_strides = c->pad_dx ? t->dx_strides : NULL;
    return &t->options;
}

hyp_status nn_forward(hyp_nn *nn, const nn_case *c, nn_tensors *t, bool saves, hyp_diag *diag)
{
    return hyp_mlp_forward(nn, t->layers, c->count, &t->x, &t->y, saves ? &t->saved : NULL, nn_options(c, t), diag);
}

hyp_status nn_backward(hyp_nn *nn, const nn_case *c, nn_tensors *t, hyp_diag *diag)
{
    return hyp_mlp_backward(nn, t->layers, c->count, &t->x, &t->saved, &t->dy, c->dx ? &t->dx : NULL, t->gradients,
                            nn_options(c, t), diag);
}

hyp_status nn_reserve(hyp_nn *nn, const nn_case *c, nn_tensors *t, hyp_diag *diag)
{
    return hyp_mlp_reserve(nn, t->layers, c->count, &t->x, c->dx ? &t->dx : NULL, t->gradients, nn_options(c, t), diag);
}

/* ---- checks --------------------------------------------------------------------------------------------------- */

/* What a case is, for messages. */
static void tell(const nn_case *c, char out[512])
{
    int n = snprintf(out, 512, "%s%s, %lld rows, rank %d:", hyp_dtype_name(c->dtype), c->tf32 ? " (tf32)" : "",
                     (long long)c->rows, (int)c->rank);
    for (size_t l = 0; l < c->count; l++)
        n += snprintf(out + n, 512 - (size_t)n, " %lld-%lld act %d%s%s%s", (long long)c->width[l],
                      (long long)c->width[l + 1], (int)c->act[l], c->bias[l] ? " b" : "", c->dw[l] ? " dw" : "",
                      c->db[l] ? " db" : "");
    snprintf(out + n, 512 - (size_t)n, "%s%s%s, pads %lld %lld %lld", c->dx ? " dx" : "", c->accumulate ? " +=" : "",
             c->accumulate_input ? " dx+=" : "", (long long)c->pad_x, (long long)c->pad_y, (long long)c->pad_dx);
}

/* Of the root of the mean square, or of an element: values between layers are rounded a few times. */
static double tolerance_of(const nn_case *c)
{
    return c->dtype == HYP_BF16 ? 0.05 : c->dtype == HYP_F16 || c->tf32 ? 0.006 : 2e-5;
}

static void compare(hyp_nn *nn, const nn_case *c, const hyp_tensor *t, const char *what, int64_t rows, int64_t columns,
                    int64_t ld, const double *wanted, double before, double tolerance)
{
    double *got = nn_fetch(nn, t, rows, columns, ld), squares = 0;
    for (int64_t i = 0; i < rows * columns; i++) squares += wanted[i] * wanted[i];
    static const double least = 0.05; /* sums of numbers about 1 may cancel */
    double typical = sqrt(squares / (double)(rows * columns)) + fabs(before) + least;
    for (int64_t i = 0; i < rows * columns; i++) {
        double want = wanted[i] + before;
        if (fabs(got[i] - want) <= tolerance * (fabs(want) + typical)) continue;
        char text[512];
        tell(c, text);
        fail_msg("%s: %s[%lld, %lld] is %g, wanted %g", text, what, (long long)(i / columns), (long long)(i % columns),
                 got[i], want);
    }
    free(got);
}

/* Whether all that is rounded in the forward pass are results. */
static bool is_exact(const nn_case *c)
{
    bool exact = !c->tf32 && !c->twice;
    for (size_t l = 0; l < c->count; l++) exact = exact && c->act[l] <= HYP_NN_RELU;
    return exact;
}

void nn_check(hyp_nn *nn, const nn_case *c, uint64_t *seed)
{
    hyp_diag diag = {0};
    char name[40];
    nn_tensors t;
    nn_numbers n = nn_draw(c, true, seed);
    nn_oracle(c, true, &n);
    int64_t in = c->width[0], last = c->width[c->count];
    double tolerance = tolerance_of(c);
    nn_place(nn, c, &n, 0.5, &t);
    for (int saves = 0; saves < 2; saves++) {
        MUST(nn_forward(nn, c, &t, saves, &diag));
        assert_int_equal(t.y.rank, c->rank);
        assert_int_equal(t.y.dims[c->rank - 1], last);
        compare(nn, c, &t.y, "y", c->rows, last, last + c->pad_y, n.y, 0, is_exact(c) ? 0 : tolerance);
    }
    for (int again = 0; again < 2; again++) { /* what was saved stays */
        MUST(nn_backward(nn, c, &t, &diag));
        double before = c->accumulate ? 0.5 : 0, before_dx = c->accumulate_input ? 0.5 : 0;
        for (size_t l = 0; l < c->count; l++) {
            int64_t a = c->width[l], b = c->width[l + 1];
            snprintf(name, sizeof name, "dw of layer %zu", l);
            for (int64_t i = 0; i < a * b && again && c->accumulate; i++) n.dw[l][i] *= 2;
            if (c->dw[l]) compare(nn, c, &t.gradients[l].weight, name, b, a, a, n.dw[l], before, tolerance);
            snprintf(name, sizeof name, "db of layer %zu", l);
            for (int64_t i = 0; i < b && again && c->accumulate; i++) n.db[l][i] *= 2;
            if (c->db[l]) compare(nn, c, &t.gradients[l].bias, name, 1, b, b, n.db[l], before, tolerance);
        }
        for (int64_t i = 0; i < c->rows * in && again && c->accumulate_input; i++) n.dx[i] *= 2;
        if (c->dx) compare(nn, c, &t.dx, "dx", c->rows, in, in + c->pad_dx, n.dx, before_dx, tolerance);
    }
    nn_unplace(nn, c, &t);
    nn_free(&n);
}

void nn_check_all(hyp_nn *nn, int cases, bool twice)
{
    static const struct {
        hyp_dtype dtype;
        bool tf32;
    } types[] = {{HYP_F32, false}, {HYP_F32, true}, {HYP_F16, false}, {HYP_BF16, false}};
    uint64_t seed = 18;
    for (int i = 0; i < cases; i++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
            nn_case c = nn_draw_case(&seed, types[k].dtype, types[k].tf32);
            if (i == 0) { /* the usual one, in full */
                c = nn_full_case(types[k].dtype, 33, 2, (int64_t[]){17, 136, 10},
                                 (hyp_nn_act[]){HYP_NN_RELU, HYP_NN_NONE});
                c.tf32 = types[k].tf32;
            }
            c.twice = twice;
            nn_check(nn, &c, &seed);
        }
}
