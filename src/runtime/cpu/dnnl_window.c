/* Convolution and pooling by oneDNN in f32. A convolution runs in the layout that oneDNN likes best: x and y are
 * reordered where that is not the plain one, weights are packed once per engine. */
#include <string.h>

#include "runtime/cpu/dnnl.h"
#include "runtime/cpu/dnnl_compat.h"

enum { SPATIAL = HYP_MAX_RANK - 2, ALIGN = 64 };

/* A primitive with what goes before and behind it. Memories get their addresses in every run. */
typedef struct window_op {
    dnnl_primitive_t reorder_x, primitive, reorder_y; /* reorders NULL where x or y lie as they should */
    dnnl_memory_t x, y;                               /* plain */
    dnnl_memory_t inner_x, inner_y;                   /* as the primitive wants them; NULL where it is x or y */
    dnnl_memory_t weights, bias, scratchpad;          /* weights NULL where they are packed */
    size_t inner_x_at, inner_y_at, scratchpad_at;     /* in the work space */
    uint32_t tensors[4];                              /* x, weights, bias, y */
    dnnl_exec_arg_t args[5];
    int arg_count;
} window_op;

static void window_destroy(void *opaque)
{
    window_op *s = opaque;
    dnnl_primitive_t primitives[] = {s->reorder_x, s->primitive, s->reorder_y};
    dnnl_memory_t memories[] = {s->x, s->y, s->inner_x, s->inner_y, s->weights, s->bias, s->scratchpad};
    for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++)
        if (primitives[i]) dnnl_primitive_destroy(primitives[i]);
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        if (memories[i]) dnnl_memory_destroy(memories[i]);
    hyp_free(s);
}

static void place(dnnl_memory_t memory, void *data)
{
    if (memory) dnnl_memory_set_data_handle(memory, data);
}

static dnnl_status_t reorder_now(dnnl_primitive_t reorder, dnnl_memory_t from, dnnl_memory_t to, void *stream)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return reorder ? dnnl_primitive_execute(reorder, stream, 2, args) : dnnl_success;
}

static hyp_status run_window(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const window_op *s = op->state;
    char *work = run->call.work;
    place(s->x, run->call.at[s->tensors[0]]);
    place(s->weights, s->weights ? run->call.at[s->tensors[1]] : NULL);
    place(s->bias, s->bias ? run->call.at[s->tensors[2]] : NULL);
    place(s->y, run->call.at[s->tensors[3]]);
    place(s->inner_x, work + s->inner_x_at);
    place(s->inner_y, work + s->inner_y_at);
    place(s->scratchpad, work + s->scratchpad_at);
    dnnl_status_t status = reorder_now(s->reorder_x, s->x, s->inner_x, run->stream);
    if (status == dnnl_success) status = dnnl_primitive_execute(s->primitive, run->stream, s->arg_count, s->args);
    if (status == dnnl_success) status = reorder_now(s->reorder_y, s->inner_y, s->y, run->stream);
    if (status == dnnl_success) status = dnnl_stream_wait(run->stream);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, op->step->label);
}

/* ---- what the step says ------------------------------------------------------------------------------------- */

typedef struct window {
    int rank; /* of x and y; rank - 2 spatial axes */
    int64_t x[HYP_MAX_RANK], y[HYP_MAX_RANK];
    int64_t strides[SPATIAL], dilates[SPATIAL], before[SPATIAL], after[SPATIAL]; /* dilates: 0 is none, as in oneDNN */
    bool empty;
} window;

static void tensor_dims(const HypPlan__Program *p, uint32_t tensor, const int64_t *values, int64_t *out)
{
    for (size_t i = 0; i < p->tensors[tensor]->n_dims; i++) out[i] = values[p->tensors[tensor]->dims[i]];
}

/* False where the shapes are not what the kernel would take: then it says so. */
static bool read_window(const HypPlan__Program *p, const HypPlan__Call *call, size_t first_attr, const int64_t *kernel,
                        const int64_t *values, window *w)
{
    const HypPlan__Tensor *x = p->tensors[call->inputs_plus1[0] - 1], *y = p->tensors[call->outputs[0]];
    *w = (window){.rank = (int)x->n_dims};
    if (w->rank < 3 || w->rank > 5 || y->n_dims != x->n_dims || x->dtype != HYP_F32 || y->dtype != HYP_F32)
        return false;
    tensor_dims(p, call->inputs_plus1[0] - 1, values, w->x);
    tensor_dims(p, call->outputs[0], values, w->y);
    const HypPlan__Call__Attr *strides = call->attrs[first_attr], *pads = call->attrs[first_attr + 1],
                              *dilations = call->attrs[first_attr + 2];
    size_t n = (size_t)w->rank - 2;
    if (strides->n_dims != n || pads->n_dims != 2 * n || dilations->n_dims != n || w->x[0] != w->y[0]) return false;
    for (size_t i = 0; i < n; i++) {
        w->strides[i] = values[strides->dims[i]];
        w->dilates[i] = values[dilations->dims[i]] - 1;
        w->before[i] = values[pads->dims[i]];
        int64_t reach = (kernel[i] - 1) * (w->dilates[i] + 1) + 1;
        /* oneDNN wants the padding that the result implies: the window may leave some of x, or in ceil mode reach
         * beyond it. */
        w->after[i] = (w->y[2 + i] - 1) * w->strides[i] + reach - w->x[2 + i] - w->before[i];
        if (w->strides[i] < 1 || w->dilates[i] < 0 || w->before[i] < 0 || kernel[i] < 1 || w->strides[i] > INT32_MAX ||
            reach > INT32_MAX || w->after[i] > values[pads->dims[n + i]] + w->strides[i])
            return false;
    }
    for (int i = 0; i < w->rank; i++) w->empty = w->empty || w->x[i] == 0 || w->y[i] == 0;
    return true;
}

static hyp_md plain_md(int rank, const int64_t *dims)
{
    int64_t strides[HYP_MAX_RANK + 1], step = 1;
    for (int i = rank; i-- > 0; step *= dims[i]) strides[i] = step;
    return hyp_md_create(rank, dims, dnnl_f32, strides);
}

static hyp_md any_md(int rank, const int64_t *dims) { return hyp_md_create(rank, dims, dnnl_f32, NULL); }

/* ---- making the operation ----------------------------------------------------------------------------------- */

static size_t take_work(size_t *work, size_t bytes)
{
    size_t at = *work;
    *work = at + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static dnnl_status_t make_reorder(const hyp_dnnl *d, hyp_md_ref from, hyp_md_ref to, dnnl_primitive_t *out)
{
    dnnl_primitive_desc_t pd = hyp_dnnl_reorder(hyp_dnnl_engine(d), from, to);
    dnnl_status_t status = pd ? dnnl_primitive_create(out, pd) : dnnl_unimplemented;
    if (pd) dnnl_primitive_desc_destroy(pd);
    return status;
}

static void add_arg(window_op *s, int arg, dnnl_memory_t memory)
{
    s->args[s->arg_count++] = (dnnl_exec_arg_t){arg, memory};
}

/* x or y: its plain memory and, where the primitive wants another layout, the memory and the reorder in between. */
static dnnl_status_t make_side(const hyp_dnnl *d, hyp_md_ref plain, hyp_md_ref wanted, bool is_x, window_op *s,
                               size_t *work)
{
    dnnl_memory_t *outer = is_x ? &s->x : &s->y, *inner = is_x ? &s->inner_x : &s->inner_y;
    dnnl_status_t status = dnnl_memory_create(outer, plain, hyp_dnnl_engine(d), DNNL_MEMORY_NONE);
    if (status != dnnl_success) return status;
    if (!dnnl_memory_desc_equal(plain, wanted)) {
        *(is_x ? &s->inner_x_at : &s->inner_y_at) = take_work(work, dnnl_memory_desc_get_size(wanted));
        status = dnnl_memory_create(inner, wanted, hyp_dnnl_engine(d), DNNL_MEMORY_NONE);
        if (status == dnnl_success)
            status =
                make_reorder(d, is_x ? plain : wanted, is_x ? wanted : plain, is_x ? &s->reorder_x : &s->reorder_y);
    }
    add_arg(s, is_x ? DNNL_ARG_SRC : DNNL_ARG_DST, *inner ? *inner : *outer);
    return status;
}

/* Everything of the primitive that does not differ between convolution and pooling. */
static dnnl_status_t make_common(const hyp_dnnl *d, dnnl_primitive_desc_t pd, const window *w, window_op *s,
                                 size_t *work)
{
    hyp_md x = plain_md(w->rank, w->x), y = plain_md(w->rank, w->y);
    hyp_md_ref scratchpad = hyp_dnnl_query(pd, dnnl_query_scratchpad_md);
    size_t bytes = scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
    dnnl_status_t status = x && y ? dnnl_primitive_create(&s->primitive, pd) : dnnl_out_of_memory;
    if (status == dnnl_success) status = make_side(d, x, hyp_dnnl_query(pd, dnnl_query_src_md), true, s, work);
    if (status == dnnl_success) status = make_side(d, y, hyp_dnnl_query(pd, dnnl_query_dst_md), false, s, work);
    if (status == dnnl_success && bytes) {
        s->scratchpad_at = take_work(work, bytes);
        status = dnnl_memory_create(&s->scratchpad, scratchpad, hyp_dnnl_engine(d), DNNL_MEMORY_NONE);
        add_arg(s, DNNL_ARG_SCRATCHPAD, s->scratchpad);
    }
    hyp_md_destroy(x);
    hyp_md_destroy(y);
    return status;
}

static hyp_status give(hyp_cpu_op *op, window_op *s, dnnl_status_t status, size_t work, hyp_diag *diag)
{
    if (status != dnnl_success) {
        window_destroy(s);
        return status == dnnl_unimplemented ? HYP_OK : hyp_dnnl_fail(diag, status, op->step->label);
    }
    op->run = run_window;
    op->destroy = window_destroy;
    op->state = s;
    op->work_bytes = work;
    op->is_dnnl = true;
    return HYP_OK;
}

/* ---- convolution ---------------------------------------------------------------------------------------------- */

static dnnl_alg_kind_t act_kind(const char *act)
{
    return strcmp(act, "relu") == 0      ? dnnl_eltwise_relu
           : strcmp(act, "sigmoid") == 0 ? dnnl_eltwise_logistic
           : strcmp(act, "tanh") == 0    ? dnnl_eltwise_tanh
                                         : dnnl_alg_kind_undef;
}

/* [M, C/group, kernel...], with a leading axis of groups where there are several, as oneDNN wants it. */
typedef struct filter {
    int rank;
    int64_t dims[HYP_MAX_RANK + 1];
} filter;

static filter read_filter(const HypPlan__Program *p, uint32_t tensor, int64_t group, const int64_t *values)
{
    filter f = {.rank = (int)p->tensors[tensor]->n_dims};
    tensor_dims(p, tensor, values, f.dims + (group > 1));
    if (group > 1) {
        f.rank++;
        f.dims[0] = group;
        f.dims[1] /= group;
    }
    return f;
}

/* Layouts of x and y free, or plain where the work is so little that a reorder would count. */
static dnnl_primitive_desc_t conv_pd(const hyp_dnnl *d, const HypPlan__Call *call, const window *w, const filter *f,
                                     hyp_md_ref weights)
{
    enum { LITTLE_WORK = 1 << 20 };
    double work = 1;
    for (int i = 0; i < w->rank; i++) work *= (double)w->y[i];
    for (int i = 1 + (f->rank > w->rank); i < f->rank; i++) work *= (double)f->dims[i];
    bool plain = work < LITTLE_WORK;
    hyp_md x = (plain ? plain_md : any_md)(w->rank, w->x), y = (plain ? plain_md : any_md)(w->rank, w->y);
    hyp_md any = weights ? NULL : any_md(f->rank, f->dims);
    hyp_md bias = call->n_inputs_plus1 > 2 ? plain_md(1, w->y + 1) : NULL;
    hyp_dnnl_post post = {1.0f, act_kind(call->attrs[4]->text)};
    dnnl_primitive_desc_t pd = NULL;
    if (x && y && (weights || any) && (bias || call->n_inputs_plus1 < 3))
        pd = hyp_dnnl_conv(hyp_dnnl_engine(d), x, weights ? weights : any, bias, y, w->strides, w->dilates, w->before,
                           w->after, &post);
    hyp_md_destroy(x);
    hyp_md_destroy(y);
    hyp_md_destroy(any);
    hyp_md_destroy(bias);
    return pd;
}

/* Packs constant weights for the layout that pd wants, unless another shape has done so. Under the lock. */
static hyp_status ensure_packed(hyp_cpu_model *model, uint32_t step, const HypPlan__Call *call, const filter *f,
                                dnnl_primitive_desc_t pd, hyp_diag *diag)
{
    const void *data = hyp_cpu_weight(model->plan, call->inputs_plus1[1] - 1);
    if (!data || model->packed[step]) return HYP_OK;
    hyp_md plain = plain_md(f->rank, f->dims);
    hyp_status status = plain ? hyp_dnnl_pack_as(model->device->dnnl, plain, data,
                                                 hyp_dnnl_query(pd, dnnl_query_weights_md), &model->packed[step], diag)
                              : hyp_fail_memory(diag, sizeof plain);
    hyp_md_destroy(plain);
    return status;
}

static dnnl_status_t make_conv(hyp_cpu_model *model, uint32_t step, const HypPlan__Call *call, const window *w,
                               dnnl_primitive_desc_t pd, window_op *s, size_t *work)
{
    const hyp_dnnl *d = model->device->dnnl;
    const hyp_dnnl_packed *packed = model->packed[step];
    dnnl_status_t status = make_common(d, pd, w, s, work);
    if (status == dnnl_success && !packed)
        status = dnnl_memory_create(&s->weights, hyp_dnnl_query(pd, dnnl_query_weights_md), hyp_dnnl_engine(d),
                                    DNNL_MEMORY_NONE);
    if (status != dnnl_success) return status;
    add_arg(s, DNNL_ARG_WEIGHTS, packed ? hyp_dnnl_packed_memory(packed) : s->weights);
    if (call->n_inputs_plus1 < 3) return dnnl_success;
    hyp_md bias = plain_md(1, w->y + 1);
    status = bias ? dnnl_memory_create(&s->bias, bias, hyp_dnnl_engine(d), DNNL_MEMORY_NONE) : dnnl_out_of_memory;
    hyp_md_destroy(bias);
    if (status == dnnl_success) add_arg(s, DNNL_ARG_BIAS, s->bias);
    return status;
}

static hyp_status prepare_conv(hyp_cpu_model *model, uint32_t step, const window *w, const filter *f, hyp_cpu_op *op,
                               hyp_diag *diag)
{
    const HypPlan__Call *call = op->step->call;
    const hyp_dnnl *d = model->device->dnnl;
    hyp_dnnl_packed *packed = model->packed[step];
    hyp_md plain = NULL;
    if (!packed && !hyp_cpu_weight(model->plan, call->inputs_plus1[1] - 1) && !(plain = plain_md(f->rank, f->dims)))
        return hyp_fail_memory(diag, sizeof *f);
    dnnl_primitive_desc_t pd = conv_pd(d, call, w, f, packed ? hyp_dnnl_packed_md(packed) : plain);
    hyp_md_destroy(plain);
    if (!pd) return HYP_OK;
    hyp_status status = ensure_packed(model, step, call, f, pd, diag);
    window_op *s = status == HYP_OK ? hyp_calloc(1, sizeof *s) : NULL;
    if (s) {
        uint32_t bias = call->n_inputs_plus1 > 2 ? call->inputs_plus1[2] - 1 : 0;
        *s = (window_op){.tensors = {call->inputs_plus1[0] - 1, call->inputs_plus1[1] - 1, bias, call->outputs[0]}};
        size_t work = 0;
        dnnl_status_t made = make_conv(model, step, call, w, pd, s, &work);
        status = give(op, s, made, work, diag);
    } else if (status == HYP_OK) {
        status = hyp_fail_memory(diag, sizeof *s);
    }
    dnnl_primitive_desc_destroy(pd);
    return status;
}

hyp_status hyp_dnnl_prepare_conv(hyp_cpu_model *model, uint32_t step, const int64_t *values, hyp_cpu_op *op,
                                 hyp_diag *diag)
{
    const HypPlan__Program *p = model->plan->program;
    const HypPlan__Call *call = op->step->call;
    uint32_t w = call->inputs_plus1[1] - 1;
    int64_t group = values[call->attrs[3]->dims[0]];
    if (p->tensors[w]->n_dims < 3 || group < 1 || p->tensors[w]->dtype != HYP_F32) return HYP_OK;
    filter f = read_filter(p, w, group, values);
    window shape;
    if (!read_window(p, call, 0, f.dims + 2 + (group > 1), values, &shape) || shape.empty) return HYP_OK;
    bool fits = f.rank == shape.rank + (group > 1) && shape.y[1] == f.dims[group > 1] * group &&
                shape.x[1] == f.dims[1 + (group > 1)] * group;
    if (fits && call->n_inputs_plus1 > 2) {
        const HypPlan__Tensor *bias = p->tensors[call->inputs_plus1[2] - 1];
        fits = bias->n_dims == 1 && values[bias->dims[0]] == shape.y[1] && bias->dtype == HYP_F32;
    }
    if (!fits) return HYP_OK;
    pthread_mutex_lock(&model->packing);
    hyp_status status = prepare_conv(model, step, &shape, &f, op, diag);
    pthread_mutex_unlock(&model->packing);
    return status;
}

/* ---- pooling --------------------------------------------------------------------------------------------------- */

hyp_status hyp_dnnl_prepare_pool(hyp_cpu_model *model, uint32_t step, const int64_t *values, hyp_cpu_op *op,
                                 hyp_diag *diag)
{
    (void)step;
    const HypPlan__Program *p = model->plan->program;
    const HypPlan__Call *call = op->step->call;
    bool is_max = strcmp(call->kernel, "max-pool") == 0, count_pads = values[call->attrs[5]->dims[0]] != 0;
    int64_t kernel[SPATIAL];
    window w;
    if (call->attrs[0]->n_dims + 2 != p->tensors[call->outputs[0]]->n_dims || call->attrs[0]->n_dims > SPATIAL)
        return HYP_OK;
    for (size_t i = 0; i < call->attrs[0]->n_dims; i++) kernel[i] = values[call->attrs[0]->dims[i]];
    if (!read_window(p, call, 1, kernel, values, &w) || w.empty || w.x[1] != w.y[1]) return HYP_OK;
    /* Padding that counts is what the model has, not what ceil mode adds: the plain kernel knows the difference. */
    if (!is_max && count_pads && values[call->attrs[4]->dims[0]]) return HYP_OK;
    dnnl_alg_kind_t kind = is_max       ? dnnl_pooling_max
                           : count_pads ? dnnl_pooling_avg_include_padding
                                        : dnnl_pooling_avg_exclude_padding;
    hyp_md x = plain_md(w.rank, w.x), y = plain_md(w.rank, w.y);
    dnnl_primitive_desc_t pd = x && y ? hyp_dnnl_pool(hyp_dnnl_engine(model->device->dnnl), kind, x, y, w.strides,
                                                      kernel, w.dilates, w.before, w.after)
                                      : NULL;
    hyp_md_destroy(x);
    hyp_md_destroy(y);
    if (!pd) return HYP_OK;
    hyp_status status = HYP_OK;
    window_op *s = hyp_calloc(1, sizeof *s);
    if (s) {
        size_t work = 0;
        *s = (window_op){.tensors = {call->inputs_plus1[0] - 1, 0, 0, call->outputs[0]}};
        dnnl_status_t made = make_common(model->device->dnnl, pd, &w, s, &work);
        status = give(op, s, made, work, diag);
    } else {
        status = hyp_fail_memory(diag, sizeof *s);
    }
    dnnl_primitive_desc_destroy(pd);
    return status;
}
