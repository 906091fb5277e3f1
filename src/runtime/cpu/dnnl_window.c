/* Convolution and its transpose by oneDNN, in f32 over 1 to 3 spatial axes.
 *
 * They run with the channels last, the layout of oneDNN's fastest kernels that takes no more memory than the plan's.
 * A tensor in the plan's layout is reordered before or after, in the work space; channels_last.c finds those that need
 * not be. What is added to a convolution is brought to where the result will be, unless the plan has put it there:
 * oneDNN's fastest kernels add to what the result held, but not another tensor.
 */
#include "base/dtype.h"
#include "runtime/cpu/dnnl_memory.h"

enum { SRC, WEIGHTS, BIAS, ADDED, DST, OPERANDS }; /* the inputs of a convolution in their order, and the result */
enum { MAX_DIMS = 3 + HYP_DNNL_SPATIAL };          /* of grouped weights */

/* A tensor of the plan, and the primitive's memory for it. */
typedef struct operand {
    dnnl_memory_t memory;     /* what the primitive gets; NULL: absent. ADDED has that of DST */
    bool shared;              /* packed weights of the model */
    dnnl_memory_t outside;    /* in the plan's layout, where that differs */
    dnnl_primitive_t reorder; /* between the two */
    uint32_t tensor;
    size_t offset; /* of `memory` in the work space, when there is `outside` */
} operand;

typedef struct window_op {
    dnnl_primitive_t primitive;
    dnnl_memory_t scratchpad; /* NULL: none is wanted; at the start of the work space */
    operand operands[OPERANDS];
} window_op;

static void window_destroy(void *opaque)
{
    window_op *s = opaque;
    if (s->primitive) dnnl_primitive_destroy(s->primitive);
    if (s->scratchpad) dnnl_memory_destroy(s->scratchpad);
    for (int i = 0; i < OPERANDS; i++) {
        operand *o = &s->operands[i];
        if (o->memory && !o->shared && i != ADDED) dnnl_memory_destroy(o->memory);
        if (o->outside) dnnl_memory_destroy(o->outside);
        if (o->reorder) dnnl_primitive_destroy(o->reorder);
    }
    hyp_free(s);
}

/* ---- running ----------------------------------------------------------------------------------------------- */

static dnnl_status_t reorder(const operand *o, dnnl_memory_t from, dnnl_memory_t to, dnnl_stream_t stream)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return dnnl_primitive_execute(o->reorder, stream, 2, args);
}

static hyp_status run_window(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    static const int names[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, 0, DNNL_ARG_DST};
    const window_op *s = op->state;
    dnnl_exec_arg_t args[OPERANDS + 1];
    int count = 0;
    for (int i = 0; i < OPERANDS; i++) {
        const operand *o = &s->operands[i];
        if (!o->memory) continue;
        if (i != ADDED) args[count++] = (dnnl_exec_arg_t){names[i], o->memory};
        if (o->outside) dnnl_memory_set_data_handle(o->outside, run->call.at[o->tensor]);
        if (o->shared || i == ADDED) continue;
        dnnl_memory_set_data_handle(o->memory,
                                    o->outside ? (char *)run->call.work + o->offset : run->call.at[o->tensor]);
    }
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < DST && status == dnnl_success; i++) {
        const operand *o = &s->operands[i];
        if (o->reorder) status = reorder(o, o->outside, o->memory, run->stream);
    }
    if (s->scratchpad) {
        dnnl_memory_set_data_handle(s->scratchpad, run->call.work);
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, s->scratchpad};
    }
    if (status == dnnl_success) status = dnnl_primitive_execute(s->primitive, run->stream, count, args);
    const operand *y = &s->operands[DST];
    if (status == dnnl_success && y->outside) status = reorder(y, y->memory, y->outside, run->stream);
    if (status == dnnl_success) status = dnnl_stream_wait(run->stream);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, op->step->call->kernel);
}

/* ---- descriptions ------------------------------------------------------------------------------------------ */

/* What a step asks for, with everything that oneDNN does not check itself checked. */
typedef struct asked {
    const HypPlan__Call *call;
    const HypPlan__Program *program;
    const int64_t *values;
    const bool *channels_last; /* by tensor: how it lies outside */
    bool transpose;
    hyp_dnnl_act act;
    int64_t group;
    int n; /* spatial axes */
    hyp_dnnl_window window;
} asked;

static uint32_t tensor_of(const asked *a, int which)
{
    const HypPlan__Call *c = a->call;
    return which == DST ? c->outputs[0] : (size_t)which < c->n_inputs_plus1 ? c->inputs_plus1[which] - 1 : UINT32_MAX;
}

static int64_t dim_of(const asked *a, uint32_t tensor, int axis)
{
    return a->values[a->program->tensors[tensor]->dims[axis]];
}

/* [N C spatial...] in one order or the other. NULL on failure. */
static hyp_md image(const asked *a, uint32_t tensor, bool last)
{
    int64_t dims[MAX_DIMS], strides[MAX_DIMS], dense = 1;
    int rank = a->n + 2;
    for (int i = 0; i < rank; i++) dims[i] = dim_of(a, tensor, i);
    if (last) {
        strides[1] = 1;
        dense = dims[1];
    }
    for (int i = rank; i-- > 0;) {
        if (last && i == 1) continue;
        strides[i] = dense;
        dense *= dims[i];
    }
    return hyp_md_create(rank, dims, dnnl_f32, strides);
}

/* Whether both orders are the same bytes. */
static bool one_order(const asked *a, uint32_t tensor)
{
    int64_t spatial = 1;
    for (int i = 0; i < a->n; i++) spatial *= dim_of(a, tensor, 2 + i);
    return spatial == 1 || dim_of(a, tensor, 1) == 1;
}

/* Weights [groups out in kernel...]: `plain` as the plan has them, else in the layout that oneDNN likes best. A plan's
 * transposed convolution has [groups in out kernel...]. */
static hyp_md weights(const asked *a, bool plain)
{
    uint32_t tensor = tensor_of(a, WEIGHTS);
    int64_t dims[MAX_DIMS], strides[MAX_DIMS], dense = 1;
    int first = a->group > 1, rank = first + a->n + 2;
    int64_t d0 = dim_of(a, tensor, 0) / a->group, d1 = dim_of(a, tensor, 1);
    for (int i = rank; i-- > first + 2;) {
        dims[i] = dim_of(a, tensor, i - first);
        strides[i] = dense;
        dense *= dims[i];
    }
    dims[0] = a->group;
    dims[first] = a->transpose ? d1 : d0;
    dims[first + 1] = a->transpose ? d0 : d1;
    strides[first] = a->transpose ? dense : dense * d1;
    strides[first + 1] = a->transpose ? dense * d1 : dense;
    if (first) strides[0] = dense * d1 * d0;
    return hyp_md_create(rank, dims, dnnl_f32, plain ? strides : NULL);
}

static bool read_list(const asked *a, size_t attr, size_t from, int64_t least, int64_t *out)
{
    const HypPlan__Call__Attr *list = a->call->attrs[attr];
    for (int i = 0; i < a->n; i++) {
        out[i] = from + (size_t)i < list->n_dims ? a->values[list->dims[from + (size_t)i]] : -1;
        if (out[i] < least || out[i] > 1 << 20) return false; /* far from overflow */
    }
    return true;
}

/* Whether a window can lie wholly in the padding. */
static bool reads_nothing(const asked *a)
{
    const hyp_dnnl_window *w = &a->window;
    bool nothing = false;
    for (int i = 0; i < a->n; i++) {
        int64_t extent = (dim_of(a, tensor_of(a, WEIGHTS), 2 + i) - 1) * (w->dilates[i] + 1) + 1;
        nothing = nothing || w->before[i] >= extent || w->after[i] >= extent;
    }
    return nothing;
}

/* False for what is left to the plain kernels: other types, shapes that do not fit, which they refuse, and padding as
 * wide as the kernel, for which oneDNN 2.6's kernels for AVX-512 (brgconv) read from addresses near 0. */
static bool read_call(asked *a)
{
    const HypPlan__Tensor *x = a->program->tensors[tensor_of(a, SRC)];
    hyp_dnnl_window *w = &a->window;
    a->n = (int)x->n_dims - 2;
    if (a->n < 1 || a->n > HYP_DNNL_SPATIAL) return false;
    a->transpose = strcmp(a->call->kernel, "conv-transpose") == 0;
    for (int i = 0; i < OPERANDS; i++) {
        uint32_t t = tensor_of(a, i);
        if (t == UINT32_MAX) continue;
        const HypPlan__Tensor *tensor = a->program->tensors[t];
        if (tensor->dtype != HYP_F32 || tensor->n_dims != (i == BIAS ? 1 : x->n_dims)) return false;
        for (size_t k = 0; k < tensor->n_dims; k++)
            if (dim_of(a, t, (int)k) < 1 ||
                (i == ADDED && dim_of(a, t, (int)k) != dim_of(a, tensor_of(a, DST), (int)k)))
                return false;
    }
    if (!read_list(a, 0, 0, 1, w->strides) || !read_list(a, 1, 0, 0, w->before) ||
        !read_list(a, 1, (size_t)a->n, 0, w->after) || !read_list(a, 2, 0, 1, w->dilates))
        return false;
    for (int i = 0; i < a->n; i++) w->dilates[i]--;
    a->group = a->values[*a->call->attrs[3]->dims];
    if (a->group < 1 || dim_of(a, tensor_of(a, WEIGHTS), 0) % a->group) return false;
    if (!a->transpose) return !reads_nothing(a) && hyp_dnnl_find_act(a->call->attrs[4]->text, &a->act);
    int64_t more[HYP_DNNL_SPATIAL];
    if (!read_list(a, 4, 0, 0, more)) return false;
    for (int i = 0; i < a->n; i++) w->after[i] -= more[i];
    return true;
}

static dnnl_primitive_desc_t describe(const asked *a, dnnl_engine_t engine)
{
    hyp_md md[OPERANDS] = {NULL};
    bool there = true;
    for (int i = 0; i < OPERANDS; i++) {
        uint32_t t = tensor_of(a, i);
        if (t == UINT32_MAX) continue;
        int64_t size = i == BIAS ? dim_of(a, t, 0) : 0, one = 1;
        md[i] = i == BIAS      ? hyp_md_create(1, &size, dnnl_f32, &one)
                : i == WEIGHTS ? weights(a, false)
                               : image(a, t, true);
        there = there && md[i];
    }
    const hyp_dnnl_post post = {.alpha = 1.0f, .act = a->act, .accumulate = md[ADDED] != NULL};
    dnnl_primitive_desc_t pd = NULL;
    if (there)
        pd = hyp_dnnl_convolution(engine, a->transpose, &a->window, md[SRC], md[WEIGHTS], md[BIAS], md[DST], &post);
    for (int i = 0; i < OPERANDS; i++) hyp_md_destroy(md[i]);
    return pd;
}

/* ---- preparing --------------------------------------------------------------------------------------------- */

/* The weights in the layout wanted, from the model's list or added to it. The plan has them. */
static hyp_status find_packed(hyp_cpu_model *model, hyp_dnnl_packed **list, const asked *a, hyp_md_ref wanted,
                              const hyp_dnnl_packed **out, hyp_diag *diag)
{
    hyp_dnnl_packed *p = *list;
    while (p && !dnnl_memory_desc_equal(p->md, wanted)) p = p->next;
    if (!p) {
        hyp_md plain = weights(a, true);
        if (!plain) return hyp_fail_memory(diag, 0);
        hyp_status status = hyp_dnnl_pack_memory(model->device->dnnl, plain,
                                                 hyp_cpu_weight(model->plan, tensor_of(a, WEIGHTS)), wanted, &p, diag);
        hyp_md_destroy(plain);
        HYP_TRY(status);
        p->next = *list;
        *list = p;
    }
    *out = p;
    return HYP_OK;
}

/* The description of what lies outside, and the reorder between it and the primitive's `inside`. */
static hyp_status make_outside(dnnl_engine_t engine, int which, hyp_md_ref outside, hyp_md_ref inside, operand *o,
                               hyp_diag *diag)
{
    dnnl_primitive_desc_t pd =
        which == DST ? hyp_dnnl_reorder(engine, inside, outside) : hyp_dnnl_reorder(engine, outside, inside);
    dnnl_status_t status = pd ? dnnl_primitive_create(&o->reorder, pd) : dnnl_unimplemented;
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (status == dnnl_success) status = dnnl_memory_create(&o->outside, outside, engine, DNNL_MEMORY_NONE);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, "describing a tensor");
}

/* Makes the memories of one operand, whose layout in the primitive is `inside`, and the reorder where one is needed. */
static hyp_status make_operand(const asked *a, dnnl_engine_t engine, int which, hyp_md_ref inside, operand *o,
                               size_t *work_bytes, hyp_diag *diag)
{
    o->tensor = tensor_of(a, which);
    dnnl_status_t made = dnnl_memory_create(&o->memory, inside, engine, DNNL_MEMORY_NONE);
    bool is_image = which != WEIGHTS && which != BIAS;
    bool same = which == BIAS || (is_image && (a->channels_last[o->tensor] || one_order(a, o->tensor)));
    if (made != dnnl_success) return hyp_dnnl_fail(diag, made, "describing a tensor");
    if (same) return HYP_OK;
    hyp_md outside = is_image ? image(a, o->tensor, a->channels_last[o->tensor]) : weights(a, true);
    if (!outside) return hyp_fail_memory(diag, 0);
    hyp_status status = HYP_OK;
    if (!dnnl_memory_desc_equal(outside, inside)) {
        status = make_outside(engine, which, outside, inside, o, diag);
        o->offset = (*work_bytes + 63) / 64 * 64;
        *work_bytes = o->offset + dnnl_memory_desc_get_size(inside);
    }
    hyp_md_destroy(outside);
    return status;
}

/* What is added is copied into the memory of the result, unless that is the plan's own memory of both, where
 * channels_last.c has them in one layout. */
static hyp_status make_added(const asked *a, dnnl_engine_t engine, window_op *s, hyp_md_ref inside, hyp_diag *diag)
{
    operand *o = &s->operands[ADDED];
    o->tensor = tensor_of(a, ADDED);
    o->memory = s->operands[DST].memory;
    if (!s->operands[DST].outside && hyp_plan_same_slot(a->program, o->tensor, s->operands[DST].tensor)) return HYP_OK;
    hyp_md outside = image(a, o->tensor, a->channels_last[o->tensor]);
    if (!outside) return hyp_fail_memory(diag, 0);
    hyp_status status = make_outside(engine, ADDED, outside, inside, o, diag);
    hyp_md_destroy(outside);
    return status;
}

static hyp_status make_window(hyp_cpu_model *model, uint32_t step, const asked *a, dnnl_primitive_desc_t pd,
                              window_op *s, size_t *work_bytes, hyp_diag *diag)
{
    dnnl_engine_t engine = hyp_dnnl_engine(model->device->dnnl);
    hyp_md_ref scratchpad = hyp_dnnl_query(pd, dnnl_query_scratchpad_md);
    *work_bytes = scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
    dnnl_status_t status = dnnl_primitive_create(&s->primitive, pd);
    if (status == dnnl_success && *work_bytes)
        status = dnnl_memory_create(&s->scratchpad, scratchpad, engine, DNNL_MEMORY_NONE);
    if (status != dnnl_success) return hyp_dnnl_fail(diag, status, "making a primitive");
    for (int i = 0; i < OPERANDS; i++) {
        uint32_t t = tensor_of(a, i);
        if (t == UINT32_MAX || i == ADDED) continue;
        hyp_md_ref inside = i == SRC       ? hyp_dnnl_query(pd, dnnl_query_src_md)
                            : i == WEIGHTS ? hyp_dnnl_query(pd, dnnl_query_weights_md)
                            : i == BIAS    ? dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1)
                                           : hyp_dnnl_query(pd, dnnl_query_dst_md);
        if (i == WEIGHTS && hyp_cpu_weight(model->plan, t)) {
            const hyp_dnnl_packed *packed = NULL;
            hyp_mem_account *before = hyp_cpu_packing_begin(model);
            hyp_status packing = find_packed(model, &model->windows[step], a, inside, &packed, diag);
            hyp_cpu_packing_end(model, before);
            HYP_TRY(packing);
            s->operands[i] = (operand){.memory = packed->memory, .shared = true};
        } else {
            HYP_TRY(make_operand(a, engine, i, inside, &s->operands[i], work_bytes, diag));
        }
    }
    return tensor_of(a, ADDED) == UINT32_MAX ? HYP_OK
                                             : make_added(a, engine, s, hyp_dnnl_query(pd, dnnl_query_dst_md), diag);
}

hyp_status hyp_dnnl_prepare_window(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    asked a = {.call = op->step->call,
               .program = model->plan->program,
               .values = values,
               .channels_last = channels_last,
               .act = {dnnl_alg_kind_undef, 0, 0}};
    if (!read_call(&a)) return HYP_OK;
    dnnl_primitive_desc_t pd = describe(&a, hyp_dnnl_engine(model->device->dnnl));
    if (!pd) return HYP_OK;
    window_op *s = hyp_calloc(1, sizeof *s);
    hyp_status status =
        s ? make_window(model, step, &a, pd, s, &op->work_bytes, diag) : hyp_fail_memory(diag, sizeof *s);
    dnnl_primitive_desc_destroy(pd);
    if (status != HYP_OK) {
        if (s) window_destroy(s);
        return status;
    }
    op->run = run_window;
    op->destroy = window_destroy;
    op->state = s;
    op->is_dnnl = true;
    return HYP_OK;
}
