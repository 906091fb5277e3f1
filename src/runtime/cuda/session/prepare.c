/* prepare.c - from the steps of a plan, under one set of shapes, to a list of ops. */
#include "base/dtype.h"
#include "runtime/cuda/ops/steps.h"
#include "runtime/cuda/session/backend.h"
#include "runtime/cuda/session/placement.h"

/* cuBLASLt multiplies in 8 bits where rows of x and of y are multiples of 16 bytes. */
static hyp_status check_layer_f8(const HypPlan__Program *program, const HypPlan__Layer *layer, hyp_diag *diag)
{
    enum { UNIT = 16 };
    const HypPlan__Dim *n = program->dims[layer->n], *k = program->dims[layer->k];
    bool constant = n->kind == HYP_PLAN__DIM__KIND__CONST && k->kind == HYP_PLAN__DIM__KIND__CONST;
    if (constant && n->value % UNIT == 0 && k->value % UNIT == 0) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                    "the CUDA backend has layers in 8 bits of sizes that are multiples of %d; run the plan on the cpu",
                    UNIT);
}

/* Plans that are made for GPUs have such products in f64. */
static hyp_status check_factors(hyp_dtype t, hyp_diag *diag)
{
    if (hyp_dtype_is_float(t)) return HYP_OK;
    return hyp_fail(
        diag, HYP_ERR_UNSUPPORTED,
        "the CUDA backend has no products of %s; compile for it (--target cuda), or run the plan on the cpu",
        hyp_dtype_name(t));
}

hyp_status hyp_cuda_check_step(const HypPlan__Program *program, const HypPlan__Step *step, hyp_diag *diag)
{
    bool linear = step->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR;
    if (linear || step->kernel_case == HYP_PLAN__STEP__KERNEL_MATMUL)
        HYP_TRY(check_factors(hyp_cuda_dtype(program, linear ? step->linear->x : step->matmul->a), diag));
    if (linear && hyp_cuda_dtype(program, step->linear->x) == HYP_F8E4M3)
        return check_layer_f8(program, step->linear->layers[0], diag);
    if (step->kernel_case == HYP_PLAN__STEP__KERNEL_CALL) return hyp_cuda_check_call(program, step->call, diag);
    if (step->kernel_case != HYP_PLAN__STEP__KERNEL_REDUCE) return HYP_OK;
    hyp_dtype t = hyp_cuda_dtype(program, step->reduce->x);
    if (hyp_dtype_is_float(t) || t == HYP_I64 || t == HYP_I32) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "the CUDA backend has no reduction of %s; run the plan on the cpu",
                    hyp_dtype_name(t));
}

const hyp_choice *hyp_cuda_choices(const void *prepared, size_t step, size_t *out_count)
{
    const hyp_cuda_prepared *p = prepared;
    size_t first = step > 0 ? p->choices_end[step - 1] : 0;
    *out_count = p->choices_end[step] - first;
    return p->choices.data + first;
}

/* ---- steps ----------------------------------------------------------------------------------------------------- */

hyp_status hyp_cuda_add_step(hyp_cuda_build *b, const HypPlan__Step *step)
{
    switch (step->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: return hyp_cuda_add_linear(b, step->linear);
    case HYP_PLAN__STEP__KERNEL_MATMUL: return hyp_cuda_add_matmul(b, step->matmul);
    case HYP_PLAN__STEP__KERNEL_POINTWISE: return hyp_cuda_add_pointwise(b, step->pointwise);
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: return hyp_cuda_add_softmax(b, step->softmax);
    case HYP_PLAN__STEP__KERNEL_REDUCE: return hyp_cuda_add_reduce(b, step->reduce);
    case HYP_PLAN__STEP__KERNEL_COPY: return hyp_cuda_add_copy(b, step->copy);
    case HYP_PLAN__STEP__KERNEL_GATHER: return hyp_cuda_add_gather(b, step->gather);
    case HYP_PLAN__STEP__KERNEL_FILL: return hyp_cuda_add_fill(b, step->fill);
    case HYP_PLAN__STEP__KERNEL_CALL: return hyp_cuda_add_call(b, step->call);
    case HYP_PLAN__STEP__KERNEL_ATTENTION: return hyp_cuda_add_attention(b, step->attention);
    case HYP_PLAN__STEP__KERNEL_CUSTOM: return hyp_cuda_add_custom(b);
    default: return hyp_fail(b->diag, HYP_ERR_INTERNAL, "a validated plan has an unknown kernel");
    }
}

/* The first op of a step tells what memory besides tensors all of them use: the last may be taken back later. */
static void note_memory(const hyp_cuda_build *b)
{
    hyp_cuda_op *first = NULL, *ops = b->prepared->ops.data;
    for (size_t i = b->prepared->ops.len; i-- > 0 && ops[i].unit == b->unit;) first = &ops[i];
    if (!first) return;
    first->workspace = b->workspace;
    first->room = b->room;
}

/* What kernels have told the host so far goes to where those of gated steps look. */
static hyp_status set_gate(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    (void)data;
    const hyp_cuda_library *lib = &s->model->device->lib;
    if (!s->error) return HYP_OK;
    const void *error = (const void *)(uintptr_t)s->error;
    return hyp_cuda_check(lib, lib->cuMemcpyHtoDAsync(s->gate, error, sizeof *s->error, s->stream), "cuMemcpyHtoDAsync", diag);
}

static hyp_status add_gate(hyp_cuda_build *b)
{
    void *unused;
    b->prepared->commit = b->prepared->ops.len;
    b->unit = HYP_CUDA_COMMIT;
    return hyp_cuda_add_op(b, set_gate, 1, &unused);
}

static hyp_status add_steps(hyp_cuda_build *b)
{
    b->prepared->commit = SIZE_MAX;
    for (b->step = 0; b->step < b->program->n_steps; b->step++) {
        const HypPlan__Step *step = b->program->steps[b->step];
        hyp_status status = b->step == b->session->model->gated ? add_gate(b) : HYP_OK;
        uint32_t first = b->unit = b->step;
        b->workspace = b->room = 0;
        if (status == HYP_OK) status = hyp_cuda_add_step(b, step);
        if (status == HYP_OK) status = hyp_cuda_add_windows(b);
        for (uint32_t i = first; i <= b->step; i++) b->prepared->choices_end[i] = (uint32_t)b->prepared->choices.len;
        if (status == HYP_OK) note_memory(b);
        if (status == HYP_OK) continue;
        hyp_diag_prefix(b->diag, "step %u (%s)", b->step, step->label);
        return status;
    }
    if (b->prepared->commit == SIZE_MAX) b->prepared->commit = b->prepared->ops.len;
    return HYP_OK;
}

/* Notes which tensors any step reads. */
static hyp_status find_read(hyp_cuda_build *b)
{
    const HypPlan__Program *p = b->program;
    bool *read = hyp_arena_zalloc(&b->prepared->arena, p->n_tensors, sizeof *read);
    HYP_VEC(uint32_t) list = {0};
    hyp_status status = read ? HYP_OK : hyp_fail_memory(b->diag, p->n_tensors);
    for (size_t s = 0; s < p->n_steps && status == HYP_OK; s++) {
        size_t count = hyp_plan_step_reads(p->steps[s], NULL, 0);
        status = hyp_vec_reserve(&list, count + 1, b->diag);
        if (status != HYP_OK) break;
        hyp_plan_step_reads(p->steps[s], list.data, count);
        for (size_t i = 0; i < count; i++) read[hyp_plan_root(p, list.data[i])] = true;
    }
    hyp_vec_free(&list);
    b->read = read;
    return status;
}

/* What a run with work aside needs. */
static hyp_status set_up_aside(hyp_cuda_session *s, hyp_diag *diag)
{
    const hyp_cuda_library *lib = &s->model->device->lib;
    if (!s->aside)
        HYP_TRY(hyp_cuda_check(lib, lib->cuStreamCreateWithPriority(&s->aside, CU_STREAM_NON_BLOCKING, s->priority),
                               "cuStreamCreate", diag));
    if (!s->begins)
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventCreate(&s->begins, CU_EVENT_DISABLE_TIMING), "cuEventCreate", diag));
    if (!s->ends)
        HYP_TRY(hyp_cuda_check(lib, lib->cuEventCreate(&s->ends, CU_EVENT_DISABLE_TIMING), "cuEventCreate", diag));
    return HYP_OK;
}

/* Ops of all steps. */
static hyp_status build_ops(hyp_cuda_build *b)
{
    hyp_cuda_prepared *p = b->prepared;
    HYP_TRY(hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_copy)); /* for packed tensors */
    HYP_TRY(find_read(b));
    HYP_TRY(hyp_cuda_compile_pointwise(b));
    HYP_TRY(add_steps(b));
    HYP_TRY(hyp_cuda_plan_prefetch(b));
    if (p->aside || p->ahead.len) HYP_TRY(set_up_aside(b->session, b->diag));
    return HYP_OK;
}

/* How tensors lie, and where those of the caller's are staged. */
static hyp_status lay_out(hyp_cuda_session *s, const int64_t *values, hyp_cuda_prepared *p, hyp_diag *diag)
{
    const HypPlan__Program *program = s->model->plan->program;
    size_t edges = program->n_inputs + program->n_outputs;
    p->value_offset = hyp_arena_zalloc(&p->arena, program->n_tensors, sizeof *p->value_offset);
    p->edge_offset = hyp_arena_zalloc(&p->arena, edges, sizeof *p->edge_offset);
    p->edge_bytes = hyp_arena_zalloc(&p->arena, edges, sizeof *p->edge_bytes);
    p->known = hyp_arena_zalloc(&p->arena, program->n_steps, sizeof *p->known);
    p->choices_end = hyp_arena_zalloc(&p->arena, program->n_steps, sizeof *p->choices_end);
    if (!p->value_offset || !p->edge_offset || !p->edge_bytes || !p->known || !p->choices_end)
        return hyp_fail_memory(diag, (2 * edges + program->n_tensors + program->n_steps) * sizeof *p->edge_bytes);
    HYP_TRY(hyp_cuda_choose_layouts(s, values, p, diag));
    HYP_TRY(hyp_cuda_replays_init(&p->replays, edges, &p->arena, diag));
    HYP_TRY(hyp_cuda_place_own(program, values, p, diag));
    return hyp_cuda_place_edges(program, values, HYP_CUDA_SMALL, p->edge_offset, p->edge_bytes, &p->packed_bytes,
                                &p->staging_bytes, diag);
}

/* Everything that takes no memory of the device's. */
static hyp_status build_on_host(hyp_cuda_session *s, const int64_t *values, hyp_cuda_prepared *p, hyp_cuda_build *out,
                                hyp_diag *diag)
{
    *out = (hyp_cuda_build){.session = s,
                            .prepared = p,
                            .program = s->model->plan->program,
                            .values = values,
                            .places_room = true,
                            .diag = diag};
    HYP_TRY(lay_out(s, values, p, diag));
    return build_ops(out);
}

/* A library refuses sizes that the device has no memory for, too, but says less: what the device does not have is the reason. */
static hyp_status explain_refusal(hyp_cuda_build *b, hyp_status status)
{
    const hyp_cuda_library *lib = &b->session->model->device->lib;
    const size_t *bytes = &b->prepared->value_bytes;
    hyp_diag *said = b->diag, why = {0};
    CUdeviceptr there = 0;
    if (status != HYP_ERR_UNSUPPORTED) return status;
    b->diag = &why;
    hyp_status found = hyp_cuda_pack(b);
    if (found == HYP_OK) found = hyp_cuda_take(lib, *bytes, &there, &why);
    if (found == HYP_OK) hyp_cuda_give(lib, there, *bytes);
    if (found != HYP_ERR_NO_MEMORY) return status;
    return hyp_fail(said, found, "%zu bytes of device memory for intermediate results: %s", *bytes, why.message);
}

/* Shapes that are refused leave the session's memory as it was. */
static hyp_status build(hyp_cuda_session *s, const int64_t *values, hyp_cuda_prepared *p, hyp_diag *diag)
{
    hyp_cuda_build b;
    hyp_status status = build_on_host(s, values, p, &b, diag);
    if (status != HYP_OK) return explain_refusal(&b, status);
    HYP_TRY(hyp_cuda_plan_branches(&b)); /* does without memory that it does not get */
    if (!p->branches.units) {
        HYP_TRY(hyp_cuda_pack(&b));
        HYP_TRY(hyp_cuda_take_scratch(s, p, diag));
    }
    if (s->tuning.products.len > 0 && !s->untuned)
        hyp_log_printf(&s->model->device->log,
                       "products of these shapes: %zu as tuned, %zu as tuned for a larger size, %zu not tuned",
                       p->products[HYP_CUDA_TUNED], p->products[HYP_CUDA_BORROWED], p->products[HYP_CUDA_NOT_TUNED]);
    return HYP_OK;
}

/* As build, with nothing taken but for a moment. */
static hyp_status measure(hyp_cuda_session *s, const int64_t *values, hyp_cuda_prepared *p, size_t *out, hyp_diag *diag)
{
    size_t before = hyp_mem_used(hyp_mem_charged()), scratch;
    hyp_cuda_build b;
    HYP_TRY(build_on_host(s, values, p, &b, diag));
    HYP_TRY(hyp_cuda_pack(&b));
    *out = hyp_mem_used(hyp_mem_charged()) - before;
    if (!hyp_add_size(p->value_bytes, p->own_bytes, &scratch)) return hyp_fail_memory(diag, SIZE_MAX);
    if (scratch > s->scratch_bytes) *out += scratch - s->scratch_bytes;
    return HYP_OK;
}

hyp_status hyp_cuda_measure(void *session, const int64_t *values, size_t *out, hyp_diag *diag)
{
    hyp_cuda_session *s = session;
    hyp_cuda_prepared *p = hyp_calloc(1, sizeof *p);
    if (!p) return hyp_fail_memory(diag, sizeof *p);
    hyp_status status = hyp_cuda_enter(s->model->device, diag);
    if (status == HYP_OK) {
        status = measure(s, values, p, out, diag);
        hyp_cuda_leave(s->model->device);
    }
    hyp_cuda_release(s, p);
    return status;
}

hyp_status hyp_cuda_prepare(void *session, const int64_t *values, void **out_prepared, hyp_diag *diag)
{
    hyp_cuda_session *s = session;
    hyp_cuda_prepared *p = hyp_calloc(1, sizeof *p);
    if (!p) return hyp_fail_memory(diag, sizeof *p);
    hyp_status status = hyp_cuda_enter(s->model->device, diag);
    if (status == HYP_OK) {
        status = build(s, values, p, diag);
        hyp_cuda_leave(s->model->device);
    }
    if (status == HYP_OK)
        *out_prepared = p;
    else
        hyp_cuda_release(s, p);
    return status;
}

void hyp_cuda_prepared_dispose(hyp_cuda_prepared *p, const hyp_cuda_library *lib)
{
    for (size_t i = 0; i < p->ops.len; i++)
        if (p->ops.data[i].dispose) p->ops.data[i].dispose(lib, p->ops.data[i].data);
    hyp_vec_free(&p->ops);
    hyp_vec_free(&p->ahead);
    hyp_vec_free(&p->choices);
    hyp_arena_dispose(&p->arena);
    hyp_free(p);
}

void hyp_cuda_release(void *session, void *prepared)
{
    hyp_cuda_session *s = session;
    hyp_cuda_prepared *p = prepared;
    bool entered = hyp_cuda_enter_to_free(s->model->device);
    hyp_cuda_replays_dispose(&p->replays, &s->model->device->lib);
    if (p->captured) {
        p->next = s->kept.shapes;
        s->kept.shapes = p;
    } else {
        hyp_cuda_wait_to_free(s);
        hyp_cuda_prepared_dispose(p, &s->model->device->lib);
    }
    if (entered) hyp_cuda_leave(s->model->device);
}
