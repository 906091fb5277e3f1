/* Convolution and its transpose by oneDNN, in f32 over 1 to 3 spatial axes.
 *
 * They run with the channels last, the layout of oneDNN's fastest kernels that takes no more memory than the plan's.
 * A tensor in the plan's layout is reordered before or after, in the work space; channels_last.c finds those that need
 * not be. What is added to a convolution is brought to where the result will be, unless the plan has put it there:
 * oneDNN's fastest kernels add to what the result held, but not another tensor. On several threads parts run side by
 * side: some images, or strips of one image along its first spatial axis, each with a primitive of its own.
 */
#include <math.h>
#include <stdatomic.h>

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
    size_t at;     /* bytes of the tensor before the part's */
    size_t offset; /* of `memory` in the work space, when there is `outside` */
} operand;

typedef struct part {
    dnnl_primitive_t primitive;
    dnnl_memory_t scratchpad; /* NULL: none is wanted; at the start of the work space */
    operand operands[OPERANDS];
} part;

typedef struct window_op {
    int64_t count, grain; /* of parts: all, and those that are worth a thread */
    size_t work_bytes;    /* of each thread */
    part parts[];
} window_op;

static void part_dispose(part *s)
{
    if (s->primitive) dnnl_primitive_destroy(s->primitive);
    if (s->scratchpad) dnnl_memory_destroy(s->scratchpad);
    for (int i = 0; i < OPERANDS; i++) {
        operand *o = &s->operands[i];
        if (o->memory && !o->shared && i != ADDED) dnnl_memory_destroy(o->memory);
        if (o->outside) dnnl_memory_destroy(o->outside);
        if (o->reorder) dnnl_primitive_destroy(o->reorder);
    }
}

static void window_destroy(void *opaque)
{
    window_op *s = opaque;
    for (int64_t i = 0; i < s->count; i++) part_dispose(&s->parts[i]);
    hyp_free(s);
}

/* ---- running ----------------------------------------------------------------------------------------------- */

typedef struct window_run {
    const window_op *s;
    const hyp_cpu_run *run;
    atomic_int status; /* of a primitive that failed */
} window_run;

static dnnl_status_t reorder(const hyp_cpu_run *run, int thread, const operand *o, dnnl_memory_t from, dnnl_memory_t to)
{
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return hyp_dnnl_execute(run, thread, o->reorder, 2, args);
}

static dnnl_status_t run_part(const part *s, const hyp_cpu_run *run, int thread, char *work)
{
    static const int names[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, 0, DNNL_ARG_DST};
    dnnl_exec_arg_t args[OPERANDS + 1];
    int count = 0;
    for (int i = 0; i < OPERANDS; i++) {
        const operand *o = &s->operands[i];
        if (!o->memory) continue;
        if (i != ADDED) args[count++] = (dnnl_exec_arg_t){names[i], o->memory};
        char *tensor = o->shared ? NULL : (char *)run->call.at[o->tensor] + o->at;
        if (o->outside) dnnl_memory_set_data_handle(o->outside, tensor);
        if (o->shared || i == ADDED) continue;
        dnnl_memory_set_data_handle(o->memory, o->outside ? work + o->offset : tensor);
    }
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < DST && status == dnnl_success; i++) {
        const operand *o = &s->operands[i];
        if (o->reorder) status = reorder(run, thread, o, o->outside, o->memory);
    }
    if (s->scratchpad) {
        dnnl_memory_set_data_handle(s->scratchpad, work);
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, s->scratchpad};
    }
    if (status == dnnl_success) status = hyp_dnnl_execute(run, thread, s->primitive, count, args);
    const operand *y = &s->operands[DST];
    return status == dnnl_success && y->outside ? reorder(run, thread, y, y->memory, y->outside) : status;
}

static void run_parts(void *state, int64_t begin, int64_t end, int thread)
{
    window_run *r = state;
    for (int64_t i = begin; i < end; i++) {
        dnnl_status_t status =
            run_part(&r->s->parts[i], r->run, thread, (char *)r->run->call.work + (size_t)thread * r->s->work_bytes);
        if (status != dnnl_success) atomic_store(&r->status, (int)status);
    }
}

static hyp_status run_window(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const window_op *s = op->state;
    window_run r = {.s = s, .run = run};
    hyp_cpu_parallel(run, s->count, s->grain, run_parts, &r);
    int status = atomic_load(&r.status);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, (dnnl_status_t)status, op->step->call->kernel);
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
    /* The part: some images; where it is one, some lines of the result along the first spatial axis, and those of x
     * that they read. */
    int64_t image, images, line, lines, x_line, x_lines;
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

/* The part's [N C spatial...] in one order or the other: as they lie in the whole tensor, or, `dense`, by themselves.
 * NULL on failure. */
static hyp_md image(const asked *a, int which, bool last, bool dense)
{
    int64_t dims[MAX_DIMS], strides[MAX_DIMS], step = 1;
    int rank = a->n + 2;
    for (int i = 0; i < rank; i++) dims[i] = dim_of(a, tensor_of(a, which), i);
    int64_t line = dims[2];
    dims[0] = a->images;
    dims[2] = which == SRC ? a->x_lines : a->lines;
    if (last) {
        strides[1] = 1;
        step = dims[1];
    }
    for (int i = rank; i-- > 0;) {
        if (last && i == 1) continue;
        strides[i] = step;
        step *= i == 2 && !dense ? line : dims[i];
    }
    return hyp_md_create(rank, dims, dnnl_f32, strides);
}

/* Where the part begins in a tensor, in bytes. */
static size_t begin_of(const asked *a, int which)
{
    uint32_t tensor = tensor_of(a, which);
    int64_t channels = dim_of(a, tensor, 1), lines = dim_of(a, tensor, 2), line = 1;
    for (int i = 1; i < a->n; i++) line *= dim_of(a, tensor, 2 + i);
    int64_t first = (which == SRC ? a->x_line : a->line) * line * (a->channels_last[tensor] ? channels : 1);
    return (size_t)(a->image * channels * lines * line + first) * sizeof(float);
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
    if (!a->transpose)
        return !reads_nothing(a) && hyp_dnnl_find_act(a->call->attrs[4]->text,
                                                      a->call->n_attrs > 5 ? a->call->attrs[5]->number : 0, &a->act);
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
                               : image(a, i, true, true);
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
    if (is_image) o->at = begin_of(a, which);
    if (same) return HYP_OK;
    hyp_md outside = is_image ? image(a, which, a->channels_last[o->tensor], false) : weights(a, true);
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
static hyp_status make_added(const asked *a, dnnl_engine_t engine, part *s, hyp_md_ref inside, hyp_diag *diag)
{
    operand *o = &s->operands[ADDED];
    o->tensor = tensor_of(a, ADDED);
    o->memory = s->operands[DST].memory;
    o->at = begin_of(a, ADDED);
    if (!s->operands[DST].outside && hyp_plan_same_slot(a->program, o->tensor, s->operands[DST].tensor)) return HYP_OK;
    hyp_md outside = image(a, ADDED, a->channels_last[o->tensor], false);
    if (!outside) return hyp_fail_memory(diag, 0);
    hyp_status status = make_outside(engine, ADDED, outside, inside, o, diag);
    hyp_md_destroy(outside);
    return status;
}

static hyp_status make_part(hyp_cpu_model *model, uint32_t step, const asked *a, dnnl_primitive_desc_t pd, part *s,
                            size_t *work_bytes, hyp_diag *diag)
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

/* The lines of x that a strip reads, and how much of the padding. */
static void take_strip(asked *a, int64_t line, int64_t lines)
{
    hyp_dnnl_window *w = &a->window;
    uint32_t x = tensor_of(a, SRC);
    int64_t extent = (dim_of(a, tensor_of(a, WEIGHTS), 2) - 1) * (w->dilates[0] + 1) + 1;
    int64_t begin = line * w->strides[0] - w->before[0], end = begin + (lines - 1) * w->strides[0] + extent;
    a->line = line;
    a->lines = lines;
    a->x_line = begin < 0 ? 0 : begin;
    a->x_lines = (end < dim_of(a, x, 2) ? end : dim_of(a, x, 2)) - a->x_line;
    w->before[0] = a->x_line - begin;
    w->after[0] = end - a->x_line - a->x_lines;
}

/* How the step is divided: a->images and a->lines are those of a part. */
static void choose_parts(asked *a, int threads)
{
    enum { MANY = 8 }; /* lines, so that what neighbours read twice is little */
    uint32_t y = tensor_of(a, DST);
    int64_t batch = dim_of(a, y, 0), together = (threads + batch - 1) / batch;
    a->images = batch >= threads ? hyp_dnnl_part(batch, threads, 1) : 1;
    a->x_lines = dim_of(a, tensor_of(a, SRC), 2);
    a->lines = dim_of(a, y, 2);
    if (batch < threads && !a->transpose) a->lines = hyp_dnnl_part(a->lines, (int)together, MANY);
}

static hyp_status make_parts(hyp_cpu_model *model, uint32_t step, const asked *whole, window_op *s, bool *complete,
                             hyp_diag *diag)
{
    int64_t batch = dim_of(whole, tensor_of(whole, DST), 0), lines = dim_of(whole, tensor_of(whole, DST), 2);
    for (int64_t image = 0; image < batch; image += whole->images)
        for (int64_t line = 0; line < lines; line += whole->lines) {
            asked a = *whole;
            size_t work_bytes = 0;
            a.image = image;
            a.images = batch - image < whole->images ? batch - image : whole->images;
            if (whole->lines < lines) take_strip(&a, line, lines - line < whole->lines ? lines - line : whole->lines);
            dnnl_primitive_desc_t pd = describe(&a, hyp_dnnl_engine(model->device->dnnl));
            *complete = pd != NULL;
            if (!pd) return HYP_OK;
            hyp_status status = make_part(model, step, &a, pd, &s->parts[s->count++], &work_bytes, diag);
            dnnl_primitive_desc_destroy(pd);
            HYP_TRY(status);
            work_bytes = (work_bytes + 63) / 64 * 64;
            if (work_bytes > s->work_bytes) s->work_bytes = work_bytes;
        }
    return HYP_OK;
}

hyp_status hyp_dnnl_prepare_window(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    static const double worth = 500000; /* flops, waking a thread */
    asked a = {.call = op->step->call,
               .program = model->plan->program,
               .values = values,
               .channels_last = channels_last,
               .act = {dnnl_alg_kind_undef, 0, 0}};
    if (!read_call(&a)) return HYP_OK;
    choose_parts(&a, op->threads);
    int64_t batch = dim_of(&a, tensor_of(&a, DST), 0), lines = dim_of(&a, tensor_of(&a, DST), 2);
    int64_t count = (batch + a.images - 1) / a.images * ((lines + a.lines - 1) / a.lines);
    size_t bytes = sizeof(window_op) + (size_t)count * sizeof(part);
    window_op *s = hyp_calloc(1, bytes);
    bool complete = true;
    if (!s) return hyp_fail_memory(diag, bytes);
    double flops = hyp_plan_step_work(a.program, step, values).flops;
    s->grain = (int64_t)ceil(fmin(worth * (double)count / fmax(flops, 1), (double)count));
    hyp_status status = make_parts(model, step, &a, s, &complete, diag);
    op->work_bytes = s->work_bytes * (size_t)(count < op->threads ? count : op->threads);
    return hyp_cpu_finish_op(op, status, complete, run_window, window_destroy, s);
}
