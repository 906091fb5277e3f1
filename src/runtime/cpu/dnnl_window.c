/* Convolution, its transpose and its gradient by the weights by oneDNN, in f32 over 1 to 3 spatial axes.
 *
 * They run with the channels last, the layout of oneDNN's fastest kernels that takes no more memory than the plan's.
 * A tensor in the plan's layout is reordered before or after, in the work space; channels_last.c finds those that need
 * not be. What is added to a convolution is brought to where the result will be, unless the plan has put it there:
 * oneDNN's fastest kernels add to what the result held, but not another tensor. On several threads parts run side by
 * side: some images, or strips of one image along its first spatial axis, each with a primitive of its own; gradients
 * by the weights, which are sums over all images, for some of the channels each.
 */
#include <math.h>
#include <stdatomic.h>

#include "runtime/cpu/dnnl_window.h"

typedef hyp_dnnl_asked asked;

/* A tensor of the plan, and the primitive's memory for it. */
typedef struct operand {
    dnnl_memory_t memory;     /* what the primitive gets; NULL: absent. ADDED has that of DST */
    bool shared;              /* packed weights of the model, or those that all parts share */
    dnnl_memory_t outside;    /* in the plan's layout, where that differs */
    dnnl_primitive_t reorder; /* between the two */
    uint32_t tensor;
    size_t at;     /* bytes of the tensor before the part's */
    size_t offset; /* of `memory` in the work space, when there is `outside` */
} operand;

typedef struct part {
    dnnl_primitive_t primitive;
    bool backward;
    dnnl_memory_t scratchpad; /* NULL: none is wanted; at the start of the work space */
    operand operands[OPERANDS];
} part;

typedef struct window_op {
    int64_t count, grain; /* of parts: all, and those that are worth a thread */
    size_t work_bytes;    /* of each thread */
    operand weights;      /* that a run computes, reordered once for all parts; memory NULL: there are none */
    size_t weights_at, weights_bytes; /* where in the work space, behind the threads'; how much */
    part parts[];
} window_op;

static void operand_dispose(operand *o, bool owns)
{
    if (o->memory && !o->shared && owns) dnnl_memory_destroy(o->memory);
    if (o->outside) dnnl_memory_destroy(o->outside);
    if (o->reorder) dnnl_primitive_destroy(o->reorder);
}

static void part_dispose(part *s)
{
    if (s->primitive) dnnl_primitive_destroy(s->primitive);
    if (s->scratchpad) dnnl_memory_destroy(s->scratchpad);
    for (int i = 0; i < OPERANDS; i++) operand_dispose(&s->operands[i], i != ADDED);
}

static void window_destroy(void *opaque)
{
    window_op *s = opaque;
    for (int64_t i = 0; i < s->count; i++) part_dispose(&s->parts[i]);
    operand_dispose(&s->weights, true);
    hyp_free(s);
}

/* What a part gives. */
static int result_of(bool backward) { return backward ? WEIGHTS : DST; }

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
    static const int forward[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, 0, DNNL_ARG_DST},
                     backward[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, 0, 0, DNNL_ARG_DIFF_DST};
    const int *names = s->backward ? backward : forward, result = result_of(s->backward);
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
    for (int i = 0; i < OPERANDS && status == dnnl_success; i++) {
        const operand *o = &s->operands[i];
        if (o->reorder && i != result) status = reorder(run, thread, o, o->outside, o->memory);
    }
    if (s->scratchpad) {
        dnnl_memory_set_data_handle(s->scratchpad, work);
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, s->scratchpad};
    }
    if (status == dnnl_success) status = hyp_dnnl_execute(run, thread, s->primitive, count, args);
    const operand *y = &s->operands[result];
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

/* Puts the weights where all parts read them. */
static dnnl_status_t bring_weights(const window_op *s, const hyp_cpu_run *run)
{
    const operand *o = &s->weights;
    if (!o->memory) return dnnl_success;
    char *tensor = (char *)run->call.at[o->tensor] + o->at;
    dnnl_memory_set_data_handle(o->memory, o->outside ? (char *)run->call.work + s->weights_at : tensor);
    if (!o->outside) return dnnl_success;
    dnnl_memory_set_data_handle(o->outside, tensor);
    return reorder(run, 0, o, o->outside, o->memory);
}

static hyp_status run_window(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const window_op *s = op->state;
    window_run r = {.s = s, .run = run};
    int status = bring_weights(s, run);
    if (status == dnnl_success) hyp_cpu_parallel(run, s->count, s->grain, run_parts, &r);
    if (status == dnnl_success) status = atomic_load(&r.status);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, (dnnl_status_t)status, op->step->call->kernel);
}

/* ---- preparing --------------------------------------------------------------------------------------------- */

/* The weights in the layout wanted, from the model's list or added to it. The plan has them. */
static hyp_status find_packed(hyp_cpu_model *model, hyp_dnnl_packed **list, const asked *a, hyp_md_ref wanted,
                              const hyp_dnnl_packed **out, hyp_diag *diag)
{
    hyp_dnnl_packed *p = *list;
    while (p && !dnnl_memory_desc_equal(p->md, wanted)) p = p->next;
    if (!p) {
        hyp_md plain = hyp_dnnl_weights(a, true);
        if (!plain) return hyp_fail_memory(diag, 0);
        hyp_status status =
            hyp_dnnl_pack_memory(model->device->dnnl, plain,
                                 hyp_cpu_weight(model->plan, hyp_dnnl_window_tensor(a, WEIGHTS)), true, wanted, &p, diag);
        hyp_md_destroy(plain);
        HYP_TRY(status);
        p->next = *list;
        *list = p;
    }
    *out = p;
    return HYP_OK;
}

/* The description of what lies outside, and the reorder between it and the primitive's `inside`. */
static hyp_status make_outside(dnnl_engine_t engine, bool is_result, hyp_md_ref outside, hyp_md_ref inside, operand *o,
                               hyp_diag *diag)
{
    dnnl_primitive_desc_t pd =
        is_result ? hyp_dnnl_reorder(engine, inside, outside) : hyp_dnnl_reorder(engine, outside, inside);
    dnnl_status_t status = pd ? dnnl_primitive_create(&o->reorder, pd) : dnnl_unimplemented;
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (status == dnnl_success) status = dnnl_memory_create(&o->outside, outside, engine, DNNL_MEMORY_NONE);
    return status == dnnl_success ? HYP_OK : hyp_dnnl_fail(diag, status, "describing a tensor");
}

/* Makes the memories of one operand, whose layout in the primitive is `inside` (of images with the channels last,
 * unless `own`), and the reorder where one is needed. */
static hyp_status make_operand(const asked *a, dnnl_engine_t engine, int which, bool own, hyp_md_ref inside, operand *o,
                               size_t *work_bytes, hyp_diag *diag)
{
    o->tensor = hyp_dnnl_window_tensor(a, which);
    dnnl_status_t made = dnnl_memory_create(&o->memory, inside, engine, DNNL_MEMORY_NONE);
    bool is_image = which != WEIGHTS && which != BIAS;
    bool same = which == BIAS || (is_image && !own && hyp_dnnl_has_channels(a, which) &&
                                  (a->channels_last[o->tensor] || hyp_dnnl_one_order(a, o->tensor)));
    if (made != dnnl_success) return hyp_dnnl_fail(diag, made, "describing a tensor");
    if (which != BIAS) o->at = hyp_dnnl_window_begin(a, which);
    if (same) return HYP_OK;
    hyp_md outside =
        is_image ? hyp_dnnl_image(a, which, a->channels_last[o->tensor], false) : hyp_dnnl_weights(a, true);
    if (!outside) return hyp_fail_memory(diag, 0);
    hyp_status status = HYP_OK;
    if (!dnnl_memory_desc_equal(outside, inside)) {
        status = make_outside(engine, which == result_of(a->backward), outside, inside, o, diag);
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
    o->tensor = hyp_dnnl_window_tensor(a, ADDED);
    o->memory = s->operands[DST].memory;
    o->at = hyp_dnnl_window_begin(a, ADDED);
    if (!s->operands[DST].outside && hyp_plan_same_slot(a->program, o->tensor, s->operands[DST].tensor)) return HYP_OK;
    hyp_md outside = hyp_dnnl_image(a, ADDED, a->channels_last[o->tensor], false);
    if (!outside) return hyp_fail_memory(diag, 0);
    hyp_status status = make_outside(engine, false, outside, inside, o, diag);
    hyp_md_destroy(outside);
    return status;
}

/* Weights that a run computes: one reorder for all parts that want them alike. */
static hyp_status make_weights(const asked *a, dnnl_engine_t engine, hyp_md_ref inside, window_op *s, operand *o,
                               size_t *work_bytes, hyp_diag *diag)
{
    hyp_md_ref there = NULL;
    if (!s->weights.memory)
        HYP_TRY(make_operand(a, engine, WEIGHTS, false, inside, &s->weights, &s->weights_bytes, diag));
    if (dnnl_memory_get_memory_desc(s->weights.memory, &there) != dnnl_success ||
        !dnnl_memory_desc_equal(there, inside))
        return make_operand(a, engine, WEIGHTS, false, inside, o, work_bytes, diag);
    *o = (operand){.memory = s->weights.memory, .shared = true};
    return HYP_OK;
}

static hyp_md_ref inside_of(const_dnnl_primitive_desc_t pd, bool backward, int which)
{
    switch (which) {
    case SRC: return hyp_dnnl_query(pd, dnnl_query_src_md);
    case WEIGHTS: return hyp_dnnl_query(pd, backward ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
    case BIAS: return dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1);
    default: return hyp_dnnl_query(pd, backward ? dnnl_query_diff_dst_md : dnnl_query_dst_md);
    }
}

static hyp_status make_part(hyp_cpu_model *model, uint32_t step, const asked *a, dnnl_primitive_desc_t pd, bool own,
                            window_op *all, part *s, size_t *work_bytes, hyp_diag *diag)
{
    dnnl_engine_t engine = hyp_dnnl_engine(model->device->dnnl);
    hyp_md_ref scratchpad = hyp_dnnl_query(pd, dnnl_query_scratchpad_md);
    *work_bytes = scratchpad ? dnnl_memory_desc_get_size(scratchpad) : 0;
    s->backward = a->backward;
    dnnl_status_t status = dnnl_primitive_create(&s->primitive, pd);
    if (status == dnnl_success && *work_bytes)
        status = dnnl_memory_create(&s->scratchpad, scratchpad, engine, DNNL_MEMORY_NONE);
    if (status != dnnl_success) return hyp_dnnl_fail(diag, status, "making a primitive");
    for (int i = 0; i < OPERANDS; i++) {
        uint32_t t = hyp_dnnl_window_tensor(a, i);
        if (t == UINT32_MAX || i == ADDED) continue;
        hyp_md_ref inside = inside_of(pd, a->backward, i);
        if (i == WEIGHTS && !a->backward && hyp_cpu_weight(model->plan, t)) {
            const hyp_dnnl_packed *packed = NULL;
            hyp_mem_account *before = hyp_cpu_packing_begin(model);
            hyp_status packing = find_packed(model, &model->windows[step], a, inside, &packed, diag);
            hyp_cpu_packing_end(model, before);
            HYP_TRY(packing);
            s->operands[i] = (operand){.memory = packed->memory, .shared = true};
        } else if (i == WEIGHTS && !a->backward) {
            HYP_TRY(make_weights(a, engine, inside, all, &s->operands[i], work_bytes, diag));
        } else {
            HYP_TRY(make_operand(a, engine, i, own, inside, &s->operands[i], work_bytes, diag));
        }
    }
    return hyp_dnnl_window_tensor(a, ADDED) == UINT32_MAX ? HYP_OK
                                                          : make_added(a, engine, s, inside_of(pd, false, DST), diag);
}

/* The lines of x that a strip reads, and how much of the padding. */
static void take_strip(asked *a, int64_t line, int64_t lines)
{
    hyp_dnnl_window *w = &a->window;
    uint32_t x = hyp_dnnl_window_tensor(a, SRC), weights = hyp_dnnl_window_tensor(a, WEIGHTS);
    int64_t extent = (hyp_dnnl_window_dim(a, weights, 2) - 1) * (w->dilates[0] + 1) + 1;
    int64_t begin = line * w->strides[0] - w->before[0], end = begin + (lines - 1) * w->strides[0] + extent;
    a->line = line;
    a->lines = lines;
    a->x_line = begin < 0 ? 0 : begin;
    a->x_lines = (end < hyp_dnnl_window_dim(a, x, 2) ? end : hyp_dnnl_window_dim(a, x, 2)) - a->x_line;
    w->before[0] = a->x_line - begin;
    w->after[0] = end - a->x_line - a->x_lines;
}

/* The channels of a gradient by the weights: some of the result, and where these are fewer than threads some of x, or
 * some groups; whole vectors, which are of 16 at most. */
static void choose_channels(asked *a, int threads)
{
    enum { VECTOR = 16 };
    int64_t of_x = a->x_channels / a->group, of_y = a->y_channels / a->group;
    if (a->group > 1) {
        int64_t groups = (a->group + threads - 1) / threads;
        groups = (groups + VECTOR - 1) / VECTOR * VECTOR;
        if (groups < a->group) a->group = groups;
        a->x_channels = of_x * a->group;
        a->y_channels = of_y * a->group;
        return;
    }
    int64_t y_vectors = (of_y + VECTOR - 1) / VECTOR, x_vectors = (of_x + VECTOR - 1) / VECTOR;
    int64_t y_parts = threads < y_vectors ? threads : y_vectors, x_parts = (threads + y_parts - 1) / y_parts;
    int64_t y_part = (y_vectors + y_parts - 1) / y_parts * VECTOR,
            x_part = (x_vectors + x_parts - 1) / x_parts * VECTOR;
    if (y_part < of_y) a->y_channels = y_part;
    if (x_part < of_x) a->x_channels = x_part;
}

/* How the step is divided: the images, lines and channels of *a become those of a part. */
static void choose_parts(asked *a, int threads)
{
    enum { MANY = 8 }; /* lines, so that what neighbours read twice is little */
    int64_t batch = a->images, together = (threads + batch - 1) / batch;
    if (a->backward) {
        choose_channels(a, threads);
        return;
    }
    a->images = batch >= threads ? hyp_dnnl_part(batch, threads, 1) : 1;
    if (batch < threads && !a->transpose) a->lines = hyp_dnnl_part(a->lines, (int)together, MANY);
}

static int64_t parts_along(int64_t all, int64_t size) { return (all + size - 1) / size; }

static int64_t count_parts(const asked *whole, const asked *size)
{
    int64_t x = whole->group > 1 ? 1 : parts_along(whole->x_channels, size->x_channels);
    return parts_along(whole->images, size->images) * parts_along(whole->lines, size->lines) * x *
           parts_along(whole->y_channels, size->y_channels);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The part at these channels, images and lines. `size` has the sizes of parts, the last of which may be smaller. */
static asked part_at(const asked *whole, const asked *size, int64_t y, int64_t x, int64_t image, int64_t line)
{
    asked a = *whole;
    a.y_channel = y;
    a.y_channels = least(size->y_channels, whole->y_channels - y);
    a.x_channel = x;
    a.x_channels = least(size->x_channels, whole->x_channels - x);
    if (whole->group > 1) { /* the same groups of both */
        a.x_channel = y / (whole->y_channels / whole->group) * (whole->x_channels / whole->group);
        a.group = a.y_channels / (whole->y_channels / whole->group);
        a.x_channels = a.group * (whole->x_channels / whole->group);
    }
    a.image = image;
    a.images = least(size->images, whole->images - image);
    if (size->lines < whole->lines) take_strip(&a, line, least(size->lines, whole->lines - line));
    return a;
}

static hyp_status add_part(hyp_cpu_model *model, uint32_t step, const asked *a, window_op *s, bool *complete,
                           hyp_diag *diag)
{
    size_t work_bytes = 0;
    bool own;
    dnnl_primitive_desc_t pd = hyp_dnnl_describe_window(a, hyp_dnnl_engine(model->device->dnnl), &own);
    *complete = pd != NULL;
    if (!pd) return HYP_OK;
    hyp_status status = make_part(model, step, a, pd, own, s, &s->parts[s->count++], &work_bytes, diag);
    dnnl_primitive_desc_destroy(pd);
    work_bytes = (work_bytes + 63) / 64 * 64;
    if (work_bytes > s->work_bytes) s->work_bytes = work_bytes;
    return status;
}

static hyp_status make_parts(hyp_cpu_model *model, uint32_t step, const asked *whole, const asked *size, window_op *s,
                             bool *complete, hyp_diag *diag)
{
    int64_t x_step = whole->group > 1 ? whole->x_channels : size->x_channels; /* they follow from y's */
    for (int64_t y = 0; y < whole->y_channels; y += size->y_channels)
        for (int64_t x = 0; x < whole->x_channels; x += x_step)
            for (int64_t image = 0; image < whole->images; image += size->images)
                for (int64_t line = 0; line < whole->lines && *complete; line += size->lines) {
                    asked a = part_at(whole, size, y, x, image, line);
                    HYP_TRY(add_part(model, step, &a, s, complete, diag));
                }
    return HYP_OK;
}

hyp_status hyp_dnnl_prepare_window(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag)
{
    static const double worth = 500000; /* flops, waking a thread */
    asked whole = {.call = op->step->call,
                   .program = model->plan->program,
                   .values = values,
                   .channels_last = channels_last,
                   .act = {dnnl_alg_kind_undef, 0, 0}};
    if (!hyp_dnnl_read_window(&whole)) return HYP_OK;
    asked size = whole;
    choose_parts(&size, op->threads);
    int64_t count = count_parts(&whole, &size);
    size_t bytes = sizeof(window_op) + (size_t)count * sizeof(part);
    window_op *s = hyp_calloc(1, bytes);
    bool complete = true;
    if (!s) return hyp_fail_memory(diag, bytes);
    double flops = hyp_plan_step_work(whole.program, step, values).flops;
    s->grain = (int64_t)ceil(fmin(worth * (double)count / fmax(flops, 1), (double)count));
    hyp_status status = make_parts(model, step, &whole, &size, s, &complete, diag);
    s->weights_at = s->work_bytes * (size_t)(count < op->threads ? count : op->threads);
    op->work_bytes = s->weights_at + s->weights_bytes;
    return hyp_cpu_finish_op(op, status, complete, run_window, window_destroy, s);
}
