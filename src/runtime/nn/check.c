/* check.c - the caller's tensors: of one type, of dims that fit, where the device can use them, none written over
 * another. */
#include "base/dtype.h"
#include "base/sized.h"
#include "runtime/nn/nn.h"

/* A tensor of the caller's, as messages call it. */
typedef struct named {
    const hyp_tensor *tensor;
    const char *name;
    size_t layer; /* SIZE_MAX: of none */
} named;

#define REFUSE(n, ...) refuse((n), hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, __VA_ARGS__), diag)

static hyp_status refuse(const named *n, hyp_status status, hyp_diag *diag)
{
    if (n->layer == SIZE_MAX)
        hyp_diag_prefix(diag, "%s", n->name);
    else
        hyp_diag_prefix(diag, "the %s of layer %zu", n->name, n->layer);
    return status;
}

/* ---- shapes -------------------------------------------------------------------------------------------------- */

static hyp_status check_type(const named *n, hyp_dtype wanted, int32_t least, int32_t most, hyp_diag *diag)
{
    const hyp_tensor *t = n->tensor;
    if (t->reserved != 0) return REFUSE(n, "the tensor's `reserved` is %u: set it to 0", t->reserved);
    if (t->dtype != HYP_F32 && t->dtype != HYP_F16 && t->dtype != HYP_BF16)
        return REFUSE(n, "its type is %s: wanted f32, f16 or bf16", hyp_dtype_name(t->dtype));
    if (wanted != HYP_DTYPE_NONE && t->dtype != wanted)
        return REFUSE(n, "its type is %s where the weights are %s: all tensors of a call are of one type",
                      hyp_dtype_name(t->dtype), hyp_dtype_name(wanted));
    if (t->rank < least || t->rank > most)
        return REFUSE(n, "its rank is %d: wanted %d%s", (int)t->rank, (int)least, most > least ? " or more" : "");
    for (int32_t a = 0; a < t->rank; a++)
        if (t->dims[a] < 0) return REFUSE(n, "its axis %d has %lld elements", (int)a, (long long)t->dims[a]);
    return HYP_OK;
}

static hyp_status check_layer(const hyp_nn_layer *layers, size_t l, hyp_diag *diag)
{
    const named w = {&layers[l].weight, "weight", l}, b = {&layers[l].bias, "bias", l};
    const int64_t *dims = layers[l].weight.dims;
    if ((unsigned)layers[l].act > HYP_NN_SILU || layers[l].reserved != 0)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                        "layer %zu: act is %d and reserved %u: wanted a hyp_nn_act and 0", l, (int)layers[l].act,
                        layers[l].reserved);
    HYP_TRY(check_type(&w, l > 0 ? layers[0].weight.dtype : HYP_DTYPE_NONE, 2, 2, diag));
    if (dims[0] < 1 || dims[1] < 1 || dims[0] > INT32_MAX || dims[1] > INT32_MAX)
        return REFUSE(&w, "it is [%lld, %lld]: both axes must have 1 to %d elements", (long long)dims[0],
                      (long long)dims[1], INT32_MAX);
    if (l > 0 && dims[1] != hyp_nn_width(&layers[l - 1]))
        return REFUSE(
            &w, "it is [%lld, %lld] and takes %lld values, but the layer before gives %lld: weights are [out, in]",
            (long long)dims[0], (long long)dims[1], (long long)dims[1], (long long)hyp_nn_width(&layers[l - 1]));
    if (!hyp_nn_wanted(b.tensor)) return HYP_OK;
    HYP_TRY(check_type(&b, layers[0].weight.dtype, 1, 1, diag));
    if (b.tensor->dims[0] == dims[0]) return HYP_OK;
    return REFUSE(&b, "it has %lld elements where the layer gives %lld", (long long)b.tensor->dims[0],
                  (long long)dims[0]);
}

/* How many rows a tensor has whose last axis is of `columns`. */
static hyp_status count_rows(const named *n, int64_t columns, int64_t *out, hyp_diag *diag)
{
    const hyp_tensor *t = n->tensor;
    int64_t rows = 1;
    if (t->dims[t->rank - 1] != columns)
        return REFUSE(n, "its last axis has %lld elements where the weights make it %lld",
                      (long long)t->dims[t->rank - 1], (long long)columns);
    for (int32_t a = 0; a + 1 < t->rank; a++)
        if (!hyp_mul_i64(rows, t->dims[a], &rows)) rows = INT64_MAX;
    for (int32_t a = 0; a + 1 < t->rank; a++)
        if (t->dims[a] == 0) rows = 0;
    if (rows > INT32_MAX) return REFUSE(n, "it has more than %d rows: split it", INT32_MAX);
    *out = rows;
    return HYP_OK;
}

/* Elements from row to row. Axes of one element have no stride that counts. */
static hyp_status read_strides(const named *n, const int64_t *strides, int64_t rows, int64_t *out_ld, hyp_diag *diag)
{
    const hyp_tensor *t = n->tensor;
    int64_t columns = t->dims[t->rank - 1], ld = columns, next = -1;
    *out_ld = columns;
    if (!strides || rows == 0) return HYP_OK;
    if (columns > 1 && strides[t->rank - 1] != 1)
        return REFUSE(n, "the stride of its last axis is %lld: it must be 1; copy the tensor first",
                      (long long)strides[t->rank - 1]);
    for (int32_t a = t->rank - 2; a >= 0; a--) {
        if (t->dims[a] == 1) continue;
        if (next < 0)
            ld = next = strides[a];
        else if (strides[a] != next)
            return REFUSE(
                n,
                "its axis %d has a stride of %lld, and %lld would continue the axes behind it: they must be one axis "
                "of rows; copy the tensor first",
                (int)a, (long long)strides[a], (long long)next);
        if (!hyp_mul_i64(next, t->dims[a], &next)) return REFUSE(n, "its strides reach too far");
    }
    if (ld < columns || ld > INT32_MAX)
        return REFUSE(n, "its rows are %lld elements apart and %lld long: wanted %lld to %d; copy the tensor first",
                      (long long)ld, (long long)columns, (long long)columns, INT32_MAX);
    *out_ld = ld;
    return HYP_OK;
}

hyp_status hyp_nn_read_shapes(const hyp_nn *nn, const hyp_nn_layer *layers, size_t count, const hyp_tensor *x,
                              const hyp_nn_run_options *options, hyp_nn_call *out, hyp_diag *diag)
{
    HYP_NEED(nn);
    HYP_NEED(layers);
    HYP_NEED(x);
    hyp_nn_call c = {.nn = (hyp_nn *)(uintptr_t)nn, .layers = layers, .count = count};
    c.options.size = sizeof c.options;
    HYP_TRY(hyp_sized_take(&c.options, options, hyp_nn_run_options, diag));
    if (count < 1) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "there are no layers: wanted one or more");
    for (size_t l = 0; l < count; l++) HYP_TRY(check_layer(layers, l, diag));
    const named n = {x, "x", SIZE_MAX};
    c.dtype = layers[0].weight.dtype;
    c.in = layers[0].weight.dims[1];
    c.out = hyp_nn_width(&layers[count - 1]);
    HYP_TRY(check_type(&n, c.dtype, 1, HYP_MAX_RANK, diag));
    HYP_TRY(count_rows(&n, c.in, &c.rows, diag));
    HYP_TRY(read_strides(&n, c.options.x_strides, c.rows, &c.x_ld, diag));
    c.dx_ld = c.in;
    c.y_ld = c.out;
    *out = c;
    return HYP_OK;
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* That `bytes` can be read, or written, where the tensor lies; noted for check_apart. */
static hyp_status check_memory(hyp_nn *nn, const named *n, size_t align, size_t bytes, bool written, hyp_diag *diag)
{
    const hyp_tensor *t = n->tensor;
    uintptr_t at = (uintptr_t)t->data;
    if (bytes == 0) return HYP_OK;
    if (!t->data) return REFUSE(n, "its data is NULL: %zu bytes are wanted", bytes);
    if (t->bytes < bytes) return REFUSE(n, "it has %zu bytes of memory: %zu are wanted", t->bytes, bytes);
    if (t->memory != nn->backend->memory)
        return REFUSE(n, "it lies in %s memory, and the handle's device is %s: copy it there (hyp_nn_tensor_copy)",
                      t->memory == HYP_MEMORY_HOST   ? "the host's"
                      : t->memory == HYP_MEMORY_CUDA ? "a CUDA device's"
                                                     : "a context's",
                      nn->backend->name);
    if (at % align != 0)
        return REFUSE(n, "it begins at %p: wanted a multiple of %zu bytes; copy it to where one begins", t->data,
                      align);
    if (bytes > UINTPTR_MAX - at) return REFUSE(n, "%zu bytes from %p on are no memory", bytes, t->data);
    return hyp_vec_push(&nn->ranges, diag, (hyp_nn_range){at, at + bytes, n->name, n->layer, written});
}

/* rows x columns, so far apart. */
static hyp_status check_matrix(const hyp_nn_call *c, const named *n, int64_t rows, int64_t columns, int64_t ld,
                               bool written, hyp_diag *diag)
{
    size_t size = hyp_dtype_size(c->dtype), elements = 0;
    if (rows > 0) elements = (size_t)(rows - 1) * (size_t)ld + (size_t)columns; /* each is an int32_t */
    size_t align = c->nn->backend->nn->align;
    return check_memory(c->nn, n, align ? align : size, elements * size, written, diag);
}

/* By where they begin. The library's sort may take memory, which a run must not. */
static void sort(hyp_nn_range *list, size_t count)
{
    for (size_t gap = count / 2; gap > 0; gap /= 2) /* Shell 1959 */
        for (size_t i = gap; i < count; i++) {
            hyp_nn_range r = list[i];
            size_t j = i;
            for (; j >= gap && list[j - gap].begin > r.begin; j -= gap) list[j] = list[j - gap];
            list[j] = r;
        }
}

/* No output overlaps anything. */
static hyp_status check_apart(hyp_nn *nn, hyp_diag *diag)
{
    hyp_nn_range *list = nn->ranges.data;
    const hyp_nn_range *any = NULL, *output = NULL; /* of those before, which end last */
    sort(list, nn->ranges.len);
    for (size_t i = 0; i < nn->ranges.len; i++) {
        const hyp_nn_range *r = &list[i], *other = r->written ? any : output;
        if (other && other->end > r->begin) {
            const named n = {NULL, r->name, r->layer};
            return REFUSE(&n, "its memory overlaps that of %s%s: what is written needs memory of its own", other->name,
                          other->layer == SIZE_MAX ? "" : " of a layer");
        }
        if (!any || r->end > any->end) any = r;
        if (r->written && (!output || r->end > output->end)) output = r;
    }
    return HYP_OK;
}

/* ---- passes -------------------------------------------------------------------------------------------------- */

/* Fills in the dims of an output whose rank is 0: those of `like`, but for the last axis. */
static void fill_in(hyp_tensor *t, const hyp_tensor *like, int64_t columns)
{
    if (t->rank != 0) return;
    t->rank = like->rank;
    memcpy(t->dims, like->dims, sizeof t->dims);
    t->dims[t->rank - 1] = columns;
}

/* A tensor with a row for each of x's. */
static hyp_status check_rows(const hyp_nn_call *c, const named *n, int64_t columns, const int64_t *strides,
                             bool written, int64_t *out_ld, hyp_diag *diag)
{
    int64_t rows;
    HYP_TRY(check_type(n, c->dtype, 1, HYP_MAX_RANK, diag));
    HYP_TRY(count_rows(n, columns, &rows, diag));
    if (rows != c->rows) return REFUSE(n, "it has %lld rows where x has %lld", (long long)rows, (long long)c->rows);
    HYP_TRY(read_strides(n, strides, rows, out_ld, diag));
    return check_matrix(c, n, rows, columns, *out_ld, written, diag);
}

static hyp_status check_saved(hyp_nn_call *c, const hyp_tensor *saved, bool written, hyp_diag *diag)
{
    const named n = {saved, "saved", SIZE_MAX};
    size_t bytes, unused;
    if (!hyp_nn_saved_at(c, c->count, &bytes, &unused)) return REFUSE(&n, "the values between layers are too large");
    HYP_TRY(check_memory(c->nn, &n, c->nn->backend->nn->saved_align, bytes, written, diag));
    c->saved = saved->data;
    return HYP_OK;
}

static hyp_status check_weights(const hyp_nn_call *c, bool biases, hyp_diag *diag)
{
    for (size_t l = 0; l < c->count; l++) {
        const named w = {&c->layers[l].weight, "weight", l}, b = {&c->layers[l].bias, "bias", l};
        const int64_t *dims = w.tensor->dims;
        HYP_TRY(check_matrix(c, &w, dims[0], dims[1], dims[1], false, diag));
        if (biases && hyp_nn_wanted(b.tensor)) HYP_TRY(check_matrix(c, &b, 1, dims[0], dims[0], false, diag));
    }
    return HYP_OK;
}

hyp_status hyp_nn_read_forward(hyp_nn *nn, const hyp_tensor *x, hyp_tensor *y, hyp_tensor *saved, hyp_nn_call *c,
                               hyp_diag *diag)
{
    const named nx = {x, "x", SIZE_MAX}, ny = {y, "y", SIZE_MAX};
    nn->ranges.len = 0;
    fill_in(y, x, c->out);
    HYP_TRY(check_matrix(c, &nx, c->rows, c->in, c->x_ld, false, diag));
    HYP_TRY(check_weights(c, true, diag));
    HYP_TRY(check_rows(c, &ny, c->out, c->options.y_strides, true, &c->y_ld, diag));
    if (saved) HYP_TRY(check_saved(c, saved, true, diag));
    c->x = x->data;
    c->y = y->data;
    return check_apart(nn, diag);
}

/* A gradient of a layer, dims filled in. */
static hyp_status check_gradient(const hyp_nn_call *c, hyp_tensor *t, const char *name, size_t l, int32_t rank,
                                 hyp_diag *diag)
{
    const named n = {t, name, l};
    const int64_t *dims = c->layers[l].weight.dims;
    if (!hyp_nn_wanted(t)) return HYP_OK;
    if (t->rank == 0) {
        t->rank = rank;
        t->dims[0] = dims[0];
        if (rank == 2) t->dims[1] = dims[1];
    }
    HYP_TRY(check_type(&n, c->dtype, rank, rank, diag));
    if (t->dims[0] != dims[0] || (rank == 2 && t->dims[1] != dims[1]))
        return REFUSE(&n, "its dims are not those of the layer's weight [%lld, %lld], or their first",
                      (long long)dims[0], (long long)dims[1]);
    return rank == 2 ? check_matrix(c, &n, dims[0], dims[1], dims[1], true, diag)
                     : check_matrix(c, &n, 1, dims[0], dims[0], true, diag);
}

hyp_status hyp_nn_read_backward(hyp_nn *nn, const hyp_tensor *x, const hyp_tensor *saved, const hyp_tensor *dy,
                                hyp_tensor *dx, hyp_nn_gradient *gradients, hyp_nn_call *c, hyp_diag *diag)
{
    const named nx = {x, "x", SIZE_MAX}, ny = {dy, "dy", SIZE_MAX}, nd = {dx, "dx", SIZE_MAX};
    nn->ranges.len = 0;
    if (gradients && hyp_nn_wanted(&gradients[0].weight))
        HYP_TRY(check_matrix(c, &nx, c->rows, c->in, c->x_ld, false, diag));
    HYP_TRY(check_weights(c, false, diag));
    HYP_TRY(check_rows(c, &ny, c->out, c->options.y_strides, false, &c->y_ld, diag));
    HYP_TRY(check_saved(c, saved, false, diag));
    if (dx) {
        fill_in(dx, x, c->in);
        HYP_TRY(check_rows(c, &nd, c->in, c->options.dx_strides, true, &c->dx_ld, diag));
    }
    for (size_t l = 0; gradients && l < c->count; l++) {
        HYP_TRY(check_gradient(c, &gradients[l].weight, "weight's gradient", l, 2, diag));
        HYP_TRY(check_gradient(c, &gradients[l].bias, "bias's gradient", l, 1, diag));
    }
    c->x = x->data;
    c->y = dy->data;
    c->dx = dx ? dx->data : NULL;
    c->gradients = gradients;
    return check_apart(nn, diag);
}
