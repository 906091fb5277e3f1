/* nn.c - handles, and the functions of hypatia/nn.h. */
#include "runtime/nn/nn.h"

#include "base/dtype.h"
#include "runtime/core/engine.h"

/* ---- handles ------------------------------------------------------------------------------------------------- */

/* Opens the device of one backend, and its functions; *out_unfit: it is not there, so that another one is to be taken.
 */
static hyp_status take_backend(hyp_nn *nn, const hyp_backend *backend, const hyp_engine_options *options, void *stream,
                               const hyp_log *log, bool *out_unfit, hyp_diag *diag)
{
    void *device;
    hyp_status status = backend->open(options, log, &device, &nn->name, diag);
    *out_unfit = status == HYP_ERR_DEVICE;
    if (status != HYP_OK) return status;
    status = backend->nn->open(device, stream, &nn->state, diag);
    *out_unfit = status == HYP_ERR_UNSUPPORTED;
    if (status != HYP_OK) {
        backend->close(device);
        return status;
    }
    nn->backend = backend;
    nn->device = device;
    hyp_log_printf(log, "device: %s", nn->name);
    return HYP_OK;
}

static hyp_status choose_backend(hyp_nn *nn, const hyp_engine_options *options, void *stream, hyp_diag *diag)
{
    const hyp_log log = {options->log, options->log_user};
    bool any = options->device == HYP_DEVICE_AUTO, unfit = true, known = false;
    hyp_status status = HYP_ERR_DEVICE;
    hyp_diag why = {0};
    for (size_t i = 0; hyp_backends[i] && unfit && status != HYP_OK; i++) {
        const hyp_backend *backend = hyp_backends[i];
        if (!backend->nn || (!any && backend->kind != options->device)) continue;
        known = true;
        status = take_backend(nn, backend, options, stream, &log, &unfit, &why);
        if (status != HYP_OK && any) hyp_log_printf(&log, "device: not %s, because %s", backend->name, why.message);
    }
    const char *left_out = known ? NULL : hyp_backend_left_out(options->device);
    if (left_out) return hyp_fail(diag, HYP_ERR_DEVICE, "this build of Hypatia has no %s, or choose the cpu", left_out);
    if (!known) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%d is no device kind", (int)options->device);
    return status == HYP_OK ? HYP_OK : hyp_fail(diag, status, "%s", why.message);
}

/* A call that may take memory: what it takes is charged to the handle. Ends with `leave`. */
static hyp_mem_account *enter(hyp_nn *nn) { return hyp_mem_charge(&nn->account); }

static hyp_status leave(const hyp_nn *nn, hyp_mem_account *before, hyp_status status, hyp_diag *diag)
{
    hyp_mem_charge(before);
    return hyp_mem_status(&nn->account, status, "options->memory_limit", diag);
}

hyp_status hyp_nn_create(const hyp_engine_options *given, void *stream, hyp_nn **out, hyp_diag *diag)
{
    hyp_engine_options options;
    hyp_allocator allocator;
    HYP_NEED(out);
    HYP_TRY(hyp_engine_read_options(given, &options, diag));
    HYP_TRY(hyp_engine_read_allocator(&options, &allocator, diag));
    hyp_nn *nn = hyp_calloc(1, sizeof *nn);
    if (!nn) return hyp_fail_memory(diag, sizeof *nn);
    if (options.allocator) nn->source = (hyp_mem_source){allocator.alloc, allocator.free, allocator.user};
    nn->account = hyp_account_of(&nn->source, options.memory_limit);
    hyp_mem_account *before = enter(nn);
    hyp_status status = leave(nn, before, choose_backend(nn, &options, stream, diag), diag);
    if (status == HYP_OK)
        *out = nn;
    else
        hyp_nn_destroy(nn);
    return status;
}

void hyp_nn_destroy(hyp_nn *nn)
{
    if (!nn) return;
    hyp_mem_account *before = enter(nn);
    if (nn->backend) {
        nn->backend->nn->close(nn->state);
        nn->backend->close(nn->device);
    }
    hyp_vec_free(&nn->relus);
    hyp_vec_free(&nn->ranges);
    hyp_mem_charge(before);
    hyp_free(nn);
}

hyp_device_kind hyp_nn_device(const hyp_nn *nn) { return nn ? nn->backend->kind : HYP_DEVICE_AUTO; }
const char *hyp_nn_device_name(const hyp_nn *nn) { return nn ? nn->name : ""; }
size_t hyp_nn_memory_bytes(const hyp_nn *nn) { return nn ? hyp_mem_used(&nn->account) : 0; }
void *hyp_nn_stream(hyp_nn *nn) { return nn && nn->backend->nn->stream ? nn->backend->nn->stream(nn->state) : NULL; }

hyp_status hyp_nn_synchronize(hyp_nn *nn, hyp_diag *diag)
{
    HYP_NEED(nn);
    return nn->backend->nn->synchronize ? nn->backend->nn->synchronize(nn->state, diag) : HYP_OK;
}

void hyp_nn_release_captured(hyp_nn *nn)
{
    if (!nn || !nn->backend->nn->release_captured) return;
    hyp_mem_account *before = enter(nn);
    nn->backend->nn->release_captured(nn->state);
    hyp_mem_charge(before);
}

hyp_status hyp_nn_tensor_alloc(hyp_nn *nn, hyp_tensor *tensor, hyp_diag *diag)
{
    HYP_NEED(nn);
    HYP_NEED(tensor);
    return hyp_device_tensor_alloc(nn->backend, nn->device, tensor, diag);
}

void hyp_nn_tensor_free(hyp_nn *nn, hyp_tensor *tensor)
{
    if (nn && tensor) hyp_device_tensor_free(nn->backend, nn->device, tensor);
}

hyp_status hyp_nn_tensor_copy(hyp_nn *nn, const hyp_tensor *from, hyp_tensor *to, hyp_diag *diag)
{
    HYP_NEED(nn);
    HYP_NEED(from);
    HYP_NEED(to);
    return hyp_device_tensor_copy(nn->backend, nn->device, __func__, from, to, diag);
}

void hyp_nn_describe(const hyp_nn *nn, void (*write)(const char *line, void *user), void *user)
{
    char line[512];
    if (!nn || !write) return;
    for (size_t i = 0; nn->backend->nn->describe(nn->state, i, line, sizeof line); i++) write(line, user);
}

/* ---- passes -------------------------------------------------------------------------------------------------- */

static hyp_status run_step(void *user, const hyp_nn_step *step, const hyp_nn_operands *at, hyp_diag *diag)
{
    const hyp_nn *nn = user;
    return nn->backend->nn->run(nn->state, step, at, diag);
}

typedef hyp_status pass(const hyp_nn_call *c, char *workspace, hyp_nn_visit *visit, void *user, hyp_diag *diag);

static hyp_status zero(const hyp_nn *nn, void *at, size_t bytes, hyp_diag *diag)
{
    if (nn->backend->nn->zero) return nn->backend->nn->zero(nn->state, at, bytes, diag);
    memset(at, 0, bytes);
    return HYP_OK;
}

/* A sum over no rows is 0. */
static hyp_status zero_gradients(const hyp_nn_call *c, hyp_diag *diag)
{
    size_t size = hyp_dtype_size(c->dtype);
    if (c->options.accumulate || !c->gradients) return HYP_OK;
    for (size_t l = 0; l < c->count; l++) {
        const hyp_tensor *w = &c->gradients[l].weight, *b = &c->gradients[l].bias;
        size_t out = (size_t)hyp_nn_width(&c->layers[l]), in = (size_t)c->layers[l].weight.dims[1];
        if (hyp_nn_wanted(w)) HYP_TRY(zero(c->nn, w->data, out * in * size, diag));
        if (hyp_nn_wanted(b)) HYP_TRY(zero(c->nn, b->data, out * size, diag));
    }
    return HYP_OK;
}

static hyp_status run_pass(const hyp_nn_call *c, pass *steps, hyp_diag *diag)
{
    hyp_nn *nn = c->nn;
    size_t bytes = 0;
    void *workspace = NULL;
    HYP_TRY(hyp_nn_workspace(c, &bytes, diag));
    HYP_TRY(nn->backend->nn->begin(nn->state, c->options.stream, bytes, &workspace, diag));
    hyp_status status = c->rows > 0 ? steps(c, workspace, run_step, nn, diag) : zero_gradients(c, diag);
    return nn->backend->nn->end(nn->state, status, diag);
}

hyp_status hyp_mlp_saved_bytes(const hyp_nn *nn, const hyp_nn_layer *layers, size_t count, const hyp_tensor *x,
                               size_t *out_bytes, hyp_diag *diag)
{
    hyp_nn_call c;
    size_t bytes, unused;
    HYP_NEED(out_bytes);
    HYP_TRY(hyp_nn_read_shapes(nn, layers, count, x, NULL, &c, diag));
    if (!hyp_nn_saved_at(&c, count, &bytes, &unused))
        return hyp_fail(diag, HYP_ERR_LIMIT, "the values between layers are too large for %lld rows",
                        (long long)c.rows);
    *out_bytes = bytes;
    return HYP_OK;
}

hyp_status hyp_mlp_forward(hyp_nn *nn, const hyp_nn_layer *layers, size_t count, const hyp_tensor *x, hyp_tensor *y,
                           hyp_tensor *saved, const hyp_nn_run_options *options, hyp_diag *diag)
{
    hyp_nn_call c;
    HYP_NEED(y);
    HYP_TRY(hyp_nn_read_shapes(nn, layers, count, x, options, &c, diag));
    hyp_mem_account *before = enter(nn);
    hyp_status status = hyp_nn_read_forward(nn, x, y, saved, &c, diag);
    if (status == HYP_OK) status = run_pass(&c, hyp_nn_forward_steps, diag);
    return leave(nn, before, status, diag);
}

hyp_status hyp_mlp_backward(hyp_nn *nn, const hyp_nn_layer *layers, size_t count, const hyp_tensor *x,
                            const hyp_tensor *saved, const hyp_tensor *dy, hyp_tensor *dx, hyp_nn_gradient *gradients,
                            const hyp_nn_run_options *options, hyp_diag *diag)
{
    hyp_nn_call c;
    HYP_NEED(saved);
    HYP_NEED(dy);
    HYP_TRY(hyp_nn_read_shapes(nn, layers, count, x, options, &c, diag));
    hyp_mem_account *before = enter(nn);
    hyp_status status = hyp_nn_read_backward(nn, x, saved, dy, dx, gradients, &c, diag);
    if (status == HYP_OK) status = run_pass(&c, hyp_nn_backward_steps, diag);
    return leave(nn, before, status, diag);
}

/* ---- preparing and tuning ------------------------------------------------------------------------------------- */

/* Steps are made without memory: where there would be some, this stands, and nobody looks there. */
#define NOWHERE ((void *)(uintptr_t)4096)

/* Visits the steps of all passes with x of these dims, dx and gradients. */
static hyp_status visit_all(hyp_nn_call *c, bool dx, const hyp_nn_gradient *gradients, hyp_nn_visit *visit, void *user,
                            hyp_diag *diag)
{
    HYP_TRY(hyp_nn_forward_steps(c, NOWHERE, visit, user, diag));
    c->saved = NOWHERE;
    HYP_TRY(hyp_nn_forward_steps(c, NOWHERE, visit, user, diag));
    c->dx = dx ? NOWHERE : NULL;
    c->gradients = gradients;
    hyp_status status = hyp_nn_backward_steps(c, NOWHERE, visit, user, diag);
    c->saved = NULL;
    return status;
}

static hyp_status prepare_step(void *user, const hyp_nn_step *step, const hyp_nn_operands *at, hyp_diag *diag)
{
    const hyp_nn *nn = user;
    (void)at;
    return nn->backend->nn->prepare(nn->state, step, diag);
}

/* Rows' distances of tensors that are not there. */
static void read_other_strides(hyp_nn_call *c, const hyp_tensor *x)
{
    const int64_t *const strides[] = {c->options.y_strides, c->options.dx_strides};
    int64_t *const lds[] = {&c->y_ld, &c->dx_ld};
    for (size_t i = 0; i < 2; i++)
        for (int32_t a = x->rank - 2; strides[i] && a >= 0; a--) {
            if (x->dims[a] == 1) continue;
            *lds[i] = strides[i][a];
            break;
        }
}

static hyp_status reserve(hyp_nn_call *c, const hyp_tensor *dx, const hyp_nn_gradient *gradients, hyp_diag *diag)
{
    hyp_nn *nn = c->nn;
    size_t bytes = 0;
    void *workspace;
    /* x, y, dy, dx, saved, and of a layer its weight, its bias and their gradients */
    HYP_TRY(hyp_vec_reserve(&nn->ranges, 5 + 4 * c->count, diag));
    HYP_TRY(hyp_nn_workspace(c, &bytes, diag));
    HYP_TRY(nn->backend->nn->begin(nn->state, c->options.stream, bytes, &workspace, diag));
    hyp_status status = c->rows > 0 ? visit_all(c, dx != NULL, gradients, prepare_step, nn, diag) : HYP_OK;
    return nn->backend->nn->end(nn->state, status, diag);
}

hyp_status hyp_mlp_reserve(hyp_nn *nn, const hyp_nn_layer *layers, size_t count, const hyp_tensor *x,
                           const hyp_tensor *dx, const hyp_nn_gradient *gradients, const hyp_nn_run_options *options,
                           hyp_diag *diag)
{
    hyp_nn_call c;
    HYP_TRY(hyp_nn_read_shapes(nn, layers, count, x, options, &c, diag));
    read_other_strides(&c, x);
    hyp_mem_account *before = enter(nn);
    return leave(nn, before, reserve(&c, dx, gradients, diag), diag);
}

typedef struct tuner {
    hyp_nn *nn;
    double end;  /* of hyp_clock_seconds */
    size_t left; /* steps, this one included */
    bool counting;
    uint8_t mask; /* that all relus between layers have, or have not */
} tuner;

/* Whether the step takes another time with the relu's mask than without: what makes it, what reads it, and the gradient
 * of the weights before it, which sums that of the bias where the mask's reader does not. */
static bool is_beside(const hyp_nn_relu *r, const hyp_nn_step *s)
{
    bool own = s->in == r->in && s->out == r->width, makes = s->kind == HYP_NN_FORWARD && s->act == HYP_NN_RELU && own;
    bool reads = s->kind == HYP_NN_DGRAD && s->act == HYP_NN_RELU && s->in == r->width && s->out == r->out;
    return s->dtype == r->dtype && s->tf32 == r->tf32 && s->rows == r->rows &&
           (makes || reads || (s->kind == HYP_NN_WGRAD && own));
}

static hyp_status tune_step(void *user, const hyp_nn_step *step, const hyp_nn_operands *at, hyp_diag *diag)
{
    tuner *t = user;
    double seconds = 0, now = hyp_clock_seconds();
    (void)at;
    t->left += t->counting ? 1 : t->left > 1 ? (size_t)-1 : 0;
    if (t->counting) return HYP_OK;
    double deadline = now + (t->end > now ? (t->end - now) / (double)t->left : 0);
    HYP_TRY(t->nn->backend->nn->tune(t->nn->state, step, deadline, &seconds, diag));
    for (size_t i = 0; i < t->nn->relus.len; i++)
        if (is_beside(&t->nn->relus.data[i], step)) t->nn->relus.data[i].seconds[t->mask] += seconds;
    return HYP_OK;
}

/* The relu behind layer l in the handle's list, where there is one. */
static hyp_status note_relu(const hyp_nn_call *c, size_t l, hyp_diag *diag)
{
    hyp_nn *nn = c->nn;
    hyp_nn_relu *known = hyp_nn_find_relu(c, l);
    if (c->layers[l].act != HYP_NN_RELU || l + 1 == c->count) return HYP_OK;
    if (!known) {
        HYP_TRY(hyp_vec_grow(&nn->relus, diag));
        known = &nn->relus.data[nn->relus.len - 1];
    }
    *known = hyp_nn_relu_of(c, l);
    return HYP_OK;
}

/* All steps with the masks of relus between layers, and without; then each relu as it was faster. */
static hyp_status tune(hyp_nn_call *c, bool dx, const hyp_nn_gradient *gradients, double seconds, hyp_diag *diag)
{
    static const double worth = 0.98;
    hyp_nn *nn = c->nn;
    tuner t = {.nn = nn, .counting = true};
    hyp_status status = visit_all(c, dx, gradients, tune_step, &t, diag);
    for (size_t l = 0; l < c->count && status == HYP_OK; l++) status = note_relu(c, l, diag);
    t.counting = false;
    t.left *= 2;
    t.end = hyp_clock_seconds() + seconds;
    for (t.mask = 0; t.mask < 2 && status == HYP_OK; t.mask++) {
        for (size_t i = 0; i < nn->relus.len; i++)
            if (!nn->relus.data[i].settled) nn->relus.data[i].mask = t.mask;
        status = visit_all(c, dx, gradients, tune_step, &t, diag);
    }
    for (size_t i = 0; i < nn->relus.len; i++) {
        hyp_nn_relu *r = &nn->relus.data[i];
        if (r->settled) continue;
        r->mask = status == HYP_OK && r->seconds[1] < worth * r->seconds[0];
        r->settled = true;
    }
    return status;
}

hyp_status hyp_nn_tune(hyp_nn *nn, const hyp_nn_layer *layers, size_t count, const hyp_tensor *x, const hyp_tensor *dx,
                       const hyp_nn_gradient *gradients, const hyp_nn_run_options *options, double seconds,
                       hyp_diag *diag)
{
    static const double usual = 30;
    hyp_nn_call c;
    HYP_TRY(hyp_nn_read_shapes(nn, layers, count, x, options, &c, diag));
    if (!(seconds >= 0)) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "hyp_nn_tune: seconds is %g", seconds);
    if (!nn->backend->nn->tune)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "hyp_nn_tune: there is nothing to tune on %s", nn->name);
    read_other_strides(&c, x);
    hyp_mem_account *before = enter(nn);
    hyp_status status = reserve(&c, dx, gradients, diag);
    if (status == HYP_OK && c.rows > 0) status = tune(&c, dx != NULL, gradients, seconds > 0 ? seconds : usual, diag);
    if (status == HYP_OK) status = reserve(&c, dx, gradients, diag); /* as it was found */
    return leave(nn, before, status, diag);
}

/* ---- one layer ------------------------------------------------------------------------------------------------ */

static hyp_nn_layer relu_layer(const hyp_tensor *weight, const hyp_tensor *bias)
{
    hyp_nn_layer layer = {.weight = *weight, .act = HYP_NN_RELU};
    if (bias) layer.bias = *bias;
    return layer;
}

hyp_status hyp_linear_relu_saved_bytes(const hyp_nn *nn, const hyp_tensor *weight, const hyp_tensor *x,
                                       size_t *out_bytes, hyp_diag *diag)
{
    HYP_NEED(weight);
    const hyp_nn_layer layer = relu_layer(weight, NULL);
    return hyp_mlp_saved_bytes(nn, &layer, 1, x, out_bytes, diag);
}

hyp_status hyp_linear_relu_forward(hyp_nn *nn, const hyp_tensor *weight, const hyp_tensor *bias, const hyp_tensor *x,
                                   hyp_tensor *y, hyp_tensor *saved, const hyp_nn_run_options *options, hyp_diag *diag)
{
    HYP_NEED(weight);
    const hyp_nn_layer layer = relu_layer(weight, bias);
    return hyp_mlp_forward(nn, &layer, 1, x, y, saved, options, diag);
}

hyp_status hyp_linear_relu_backward(hyp_nn *nn, const hyp_tensor *weight, const hyp_tensor *x, const hyp_tensor *saved,
                                    const hyp_tensor *dy, hyp_tensor *dx, hyp_tensor *dweight, hyp_tensor *dbias,
                                    const hyp_nn_run_options *options, hyp_diag *diag)
{
    HYP_NEED(weight);
    const hyp_nn_layer layer = relu_layer(weight, NULL);
    hyp_nn_gradient gradient = {0};
    if (dweight) gradient.weight = *dweight;
    if (dbias) gradient.bias = *dbias;
    hyp_status status = hyp_mlp_backward(nn, &layer, 1, x, saved, dy, dx, &gradient, options, diag);
    if (status == HYP_OK && dweight) *dweight = gradient.weight;
    if (status == HYP_OK && dbias) *dbias = gradient.bias;
    return status;
}
