/* widened.c - steps in 16 bits that no kernel here has in their own type: by the kernel for floats, with what they read
 * widened before and what they write narrowed after.
 *
 * The plan is copied with floats in place of f16 and bf16, and a model is made of it for these steps alone. What such a
 * step reads of the weights is widened once, when the plan is loaded; the weights of layers go straight into panels.
 */
#include "runtime/cpu/widened.h"

#include "base/dtype.h"
#ifdef HYP_HAVE_ONEDNN
#include "runtime/cpu/dnnl.h"
#endif

enum { MOST_TENSORS = 256 /* of a step */, ALIGN = 64 /* bytes */ };

static bool is_short(const HypPlan__Program *p, uint32_t tensor)
{
    hyp_dtype t = hyp_tensor_dtype(p, tensor);
    return t == HYP_F16 || t == HYP_BF16;
}

/* Products that oneDNN has in their own type are left to it. */
static bool has_product(const hyp_cpu_device *device, const HypPlan__Program *p, uint32_t tensor)
{
#ifdef HYP_HAVE_ONEDNN
    return hyp_dnnl_has(device->dnnl, hyp_tensor_dtype(p, tensor));
#else
    (void)device, (void)p, (void)tensor;
    return false;
#endif
}

/* Convolutions have kernels of ours beside oneDNN's, and so without it. The statistics of softmax are of logits, which are
 * large: their kernel widens a part at a time itself. */
static bool has_fast_call(const char *kernel)
{
    if (strcmp(kernel, "softmax-stats") == 0) return false;
    return hyp_cpu_call_form(kernel) != HYP_CPU_PLAIN || strcmp(kernel, "conv") == 0 ||
           strcmp(kernel, "conv-transpose") == 0;
}

static bool is_widened(const hyp_cpu_device *device, const HypPlan__Program *p, const HypPlan__Step *step)
{
    uint32_t list[2 * MOST_TENSORS];
    bool any = false;
    switch (step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR:
        if (has_product(device, p, step->linear->x)) return false;
        break;
    case HYP_PLAN__STEP__KERNEL_MATMUL:
        if (has_product(device, p, step->matmul->a)) return false;
        break;
    case HYP_PLAN__STEP__KERNEL_ATTENTION:
    case HYP_PLAN__STEP__KERNEL_SOFTMAX:
    case HYP_PLAN__STEP__KERNEL_REDUCE: break;
    case HYP_PLAN__STEP__KERNEL_CALL:
        if (!has_fast_call(step->call->kernel)) return false;
        break;
    default: return false; /* pointwise steps know all types, and the others only move elements */
    }
    size_t reads = hyp_plan_step_reads(step, list, MOST_TENSORS);
    if (reads > MOST_TENSORS) return false;
    size_t writes = hyp_plan_step_writes(step, list + reads, MOST_TENSORS);
    if (writes > MOST_TENSORS) return false;
    for (size_t i = 0; i < reads + writes; i++) {
        hyp_dtype t = hyp_tensor_dtype(p, list[i]);
        if (t == HYP_F64 || t == HYP_F8E4M3) return false;
        any = any || is_short(p, list[i]);
    }
    return any;
}

/* ---- the plan ------------------------------------------------------------------------------------------------- */

static void mark_weight(const hyp_plan *plan, uint32_t tensor, bool *wanted)
{
    if (hyp_cpu_weight(plan, tensor)) wanted[hyp_plan_root(plan->program, tensor)] = true;
}

/* Marks the weights that a step reads; those of constant layers are read from the plan itself when they are packed, unless
 * they are operands, too. */
static void mark_weights(const hyp_plan *plan, const HypPlan__Step *step, bool *wanted)
{
    uint32_t list[MOST_TENSORS];
    const HypPlan__Linear *s = step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR ? step->linear : NULL;
    if (!s || !hyp_linear_is_constant(plan, s)) {
        size_t reads = hyp_plan_step_reads(step, list, MOST_TENSORS);
        for (size_t i = 0; i < reads; i++) mark_weight(plan, list[i], wanted);
        return;
    }
    mark_weight(plan, s->x, wanted);
    if (s->added_plus1) mark_weight(plan, s->added_plus1 - 1, wanted);
    for (size_t l = 0; l < s->n_layers; l++)
        if (s->layers[l]->bias_plus1) mark_weight(plan, s->layers[l]->bias_plus1 - 1, wanted);
}

/* Gives the wanted weights a place, and the others the first, where nobody reads. */
static hyp_status copy_weights(const hyp_cpu_device *device, hyp_wide_plan *w, const bool *wanted, hyp_diag *diag)
{
    const HypPlan__Program *p = w->narrow->program;
    size_t total = ALIGN;
    for (size_t t = 0; t < p->n_tensors; t++) {
        HypPlan__Tensor *made = w->program.tensors[t];
        if (made->place != HYP_PLAN__PLACE__PLACE_WEIGHT) continue;
        made->offset = 0;
        if (is_short(p, (uint32_t)t)) made->bytes *= 2;
        if (!wanted[t]) continue;
        made->offset = total;
        if (made->bytes > SIZE_MAX - total - ALIGN) return hyp_fail_memory(diag, SIZE_MAX);
        total = (total + (size_t)made->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    w->weights = hyp_aligned_alloc(ALIGN, total);
    if (!w->weights) return hyp_fail_memory(diag, total);
    memset(w->weights, 0, ALIGN);
    for (size_t t = 0; t < p->n_tensors; t++) {
        const HypPlan__Tensor *from = p->tensors[t], *to = w->program.tensors[t];
        if (!wanted[t]) continue;
        const uint8_t *x = hyp_plan_weight(w->narrow, (uint32_t)t);
        if (is_short(p, (uint32_t)t))
            device->kernels->widen((hyp_dtype)from->dtype, x, (float *)(void *)(w->weights + to->offset),
                                   (int64_t)(from->bytes / 2));
        else if (from->bytes)
            memcpy(w->weights + to->offset, x, (size_t)from->bytes);
        memset(w->weights + to->offset + to->bytes, 0, (ALIGN - to->bytes % ALIGN) % ALIGN);
    }
    w->weights = hyp_block_share(w->weights, total);
    w->plan.weights = w->weights;
    w->plan.replaced = NULL;
    w->plan.weights_bytes = total;
    return HYP_OK;
}

static hyp_status make_plan(const hyp_cpu_device *device, const hyp_plan *plan, hyp_wide_plan *w, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    HypPlan__Tensor *tensors = hyp_arena_zalloc(&w->arena, p->n_tensors, sizeof *tensors);
    HypPlan__Tensor **list = hyp_arena_zalloc(&w->arena, p->n_tensors, sizeof *list);
    bool *wanted = hyp_arena_zalloc(&w->arena, p->n_tensors, sizeof *wanted);
    if (!tensors || !list || !wanted) return hyp_fail_memory(diag, p->n_tensors * sizeof *tensors);
    for (size_t t = 0; t < p->n_tensors; t++) {
        tensors[t] = *p->tensors[t];
        if (is_short(p, (uint32_t)t)) tensors[t].dtype = HYP_F32;
        list[t] = &tensors[t];
    }
    w->program = *p;
    w->program.tensors = list;
    w->plan = *plan;
    w->plan.program = &w->program;
    w->narrow = plan;
    for (size_t i = 0; i < p->n_steps; i++)
        if (w->steps[i]) mark_weights(plan, p->steps[i], wanted);
    return copy_weights(device, w, wanted, diag);
}

hyp_status hyp_wide_plan_make(const hyp_cpu_device *device, const hyp_plan *plan, hyp_wide_plan **out, hyp_diag *diag)
{
    const HypPlan__Program *p = plan->program;
    bool any = false;
    *out = NULL;
    hyp_wide_plan *w = hyp_calloc(1, sizeof *w);
    if (!w) return hyp_fail_memory(diag, sizeof *w);
    w->steps = hyp_arena_zalloc(&w->arena, p->n_steps, sizeof *w->steps);
    hyp_status status = w->steps ? HYP_OK : hyp_fail_memory(diag, p->n_steps);
    for (size_t i = 0; i < p->n_steps && status == HYP_OK; i++) {
        w->steps[i] = is_widened(device, p, p->steps[i]);
        any = any || w->steps[i];
    }
    if (any && status == HYP_OK) status = make_plan(device, plan, w, diag);
    if (any && status == HYP_OK)
        *out = w;
    else
        hyp_wide_plan_destroy(w);
    return status;
}

void hyp_wide_plan_destroy(hyp_wide_plan *w)
{
    if (!w) return;
    hyp_block_drop(w->weights);
    hyp_arena_dispose(&w->arena);
    hyp_free(w);
}

/* ---- steps ---------------------------------------------------------------------------------------------------- */

/* A tensor of a step: one in 16 bits, and where in the work space it lies as floats; a weight, widened before; or one of
 * another type, which is taken as it is. */
typedef struct part {
    uint32_t tensor;
    hyp_dtype dtype;
    bool taken;
    const void *weight;
    int64_t count;
    size_t offset; /* bytes */
    bool reads, writes;
} part;

typedef struct widened {
    hyp_cpu_op op; /* the kernel for floats */
    const HypPlan__Program *program;
    size_t addresses; /* where in the work space those of its tensors are */
    size_t count;
    part parts[];
} widened;

typedef struct conversion {
    const hyp_cpu_kernels *kernels;
    hyp_dtype dtype;
    uint16_t *narrow;
    float *wide;
    bool narrows;
} conversion;

static void convert_part(void *state, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const conversion *c = state;
    if (c->narrows)
        c->kernels->narrow(c->dtype, c->wide + begin, c->narrow + begin, end - begin);
    else
        c->kernels->widen(c->dtype, c->narrow + begin, c->wide + begin, end - begin);
}

static void convert(const hyp_cpu_run *run, const part *p, float *wide, bool narrows)
{
    conversion c = {run->kernels, p->dtype, run->call.at[p->tensor], wide, narrows};
    hyp_cpu_parallel(run, p->count, HYP_CPU_MOVED, convert_part, &c);
}

static hyp_status run_widened(const hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag)
{
    const widened *s = op->state;
    char *work = run->call.work;
    void **at = (void **)(void *)(work + s->addresses);
    for (size_t i = 0; i < s->count; i++) { /* no other address is read */
        const part *p = &s->parts[i];
        at[p->tensor] = p->taken    ? run->call.at[p->tensor]
                        : p->weight ? (void *)(uintptr_t)p->weight
                                    : work + p->offset;
        if (p->reads) convert(run, p, at[p->tensor], false);
    }
    hyp_cpu_run wide = *run;
    wide.call.program = s->program;
    wide.call.at = at;
    HYP_TRY(s->op.run(&s->op, &wide, diag));
    for (size_t i = 0; i < s->count; i++)
        if (s->parts[i].writes) convert(run, &s->parts[i], at[s->parts[i].tensor], true);
    return HYP_OK;
}

static void widened_destroy(void *opaque)
{
    widened *s = opaque;
    if (s->op.destroy) s->op.destroy(s->op.state);
    hyp_free(s);
}

/* Bytes from *total on for so many of this size; false where there cannot be as many. */
static bool take_room(size_t *total, size_t count, size_t size, size_t *out)
{
    size_t bytes;
    *out = *total;
    return hyp_mul_size(count, size, &bytes) && hyp_add_size(bytes, ALIGN - 1, &bytes) &&
           hyp_add_size(*total, bytes / ALIGN * ALIGN, total);
}

static part *find_part(widened *s, uint32_t tensor)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->parts[i].tensor == tensor) return &s->parts[i];
    return NULL;
}

/* Adds a tensor, unless it is there; `work` is what the step needs so far. */
static hyp_status add_part(const hyp_wide_plan *w, const int64_t *values, widened *s, uint32_t tensor, bool writes,
                           size_t *work, hyp_diag *diag)
{
    const HypPlan__Program *p = w->narrow->program;
    part *had = find_part(s, tensor);
    if (had) {
        had->writes = !had->taken && (had->writes || writes);
        return HYP_OK;
    }
    part *made = &s->parts[s->count++];
    *made = (part){.tensor = tensor, .dtype = hyp_tensor_dtype(p, tensor), .taken = !is_short(p, tensor)};
    if (!made->taken) made->weight = hyp_cpu_weight(&w->plan, tensor);
    if (made->taken || made->weight) return HYP_OK;
    made->reads = !writes;
    made->writes = writes;
    HYP_TRY(hyp_plan_elements(p, tensor, values, &made->count, diag));
    return take_room(work, (size_t)made->count, sizeof(float), &made->offset) ? HYP_OK
                                                                              : hyp_fail_memory(diag, SIZE_MAX);
}

static hyp_status add_parts(const hyp_wide_plan *w, const int64_t *values, const HypPlan__Step *step, widened *s,
                            size_t *work, hyp_diag *diag)
{
    uint32_t list[MOST_TENSORS], replaced = hyp_plan_step_replaces(step);
    size_t reads = hyp_plan_step_reads(step, list, MOST_TENSORS);
    for (size_t i = 0; i < reads; i++) HYP_TRY(add_part(w, values, s, list[i], false, work, diag));
    size_t writes = hyp_plan_step_writes(step, list, MOST_TENSORS);
    for (size_t i = 0; i < writes; i++) HYP_TRY(add_part(w, values, s, list[i], true, work, diag));
    /* What lies where the result goes is added to by the kernel: so it has to lie in the floats of the result, too. The
     * result is what is written last; what is hidden between layers nobody reads. */
    for (size_t i = 0; i + 1 < writes && step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR; i++) {
        part *hidden = find_part(s, list[i]);
        if (hidden) hidden->writes = false;
    }
    if (!replaced || !writes || !hyp_plan_same_slot(w->narrow->program, replaced - 1, list[writes - 1])) return HYP_OK;
    part *from = find_part(s, replaced - 1), *to = find_part(s, list[writes - 1]);
    if (from && to && !from->taken) to->offset = from->offset;
    return HYP_OK;
}

hyp_status hyp_cpu_widen_op(const hyp_wide_plan *w, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag)
{
    const HypPlan__Step *step = op->step;
    size_t count = hyp_plan_step_reads(step, NULL, 0) + hyp_plan_step_writes(step, NULL, 0), work = 0, inner;
    widened *s = hyp_calloc(1, sizeof *s + count * sizeof *s->parts);
    if (!s) return hyp_fail_memory(diag, sizeof *s + count * sizeof *s->parts);
    s->program = &w->program;
    bool fits = take_room(&work, 1, op->work_bytes, &inner) &&
                take_room(&work, w->program.n_tensors, sizeof(void *), &s->addresses);
    hyp_status status = fits ? add_parts(w, values, step, s, &work, diag) : hyp_fail_memory(diag, SIZE_MAX);
    if (status != HYP_OK) {
        hyp_free(s); /* the kernel is still the op's */
        return status;
    }
    s->op = *op;
    op->run = run_widened;
    op->destroy = widened_destroy;
    op->state = s;
    op->work_bytes = work;
    return HYP_OK;
}
