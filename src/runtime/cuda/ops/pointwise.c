/* pointwise.c - pointwise steps, and the biases, sums and activations that cuBLASLt has no epilogue for. */
#include "runtime/cuda/ops/linear_few_rows.h"
#include "runtime/cuda/ops/pointwise_source.h"
#include "runtime/cuda/ops/steps.h"

/* The tensors of a step. */
typedef struct operands {
    size_t inputs, outputs;
    uint32_t input[HYP_CUDA_PW_INPUTS], output[HYP_CUDA_PW_OUTPUTS];
} operands;

/* As slots of arguments that have the address of input and output number 0 there, and the next ones so far behind. */
static size_t slots_of(const operands *of, size_t input, size_t next_input, size_t output, size_t next_output,
                       hyp_cuda_slot *out)
{
    size_t count = 0;
    for (size_t i = 0; i < of->inputs; i++)
        out[count++] = (hyp_cuda_slot){(uint32_t)(input + i * next_input), of->input[i] + 1, 0};
    for (size_t o = 0; o < of->outputs; o++)
        out[count++] = (hyp_cuda_slot){(uint32_t)(output + o * next_output), of->output[o] + 1, 0};
    return count;
}
enum { MOST_OPERANDS = HYP_CUDA_PW_INPUTS + HYP_CUDA_PW_OUTPUTS };

static uint64_t gate_of(const hyp_cuda_build *b, bool gated) { return gated ? b->session->gate : 0; }

/* By the kernel that interprets steps. */
static hyp_status add_interpreted(hyp_cuda_build *b, const hyp_cuda_pw_program *p, const operands *of)
{
    hyp_cuda_slot slots[MOST_OPERANDS];
    hyp_cuda_pointwise args = p->args;
    args.gate = gate_of(b, p->gated);
    const hyp_cuda_grid grid = {.kernel = p->kernel,
                                .blocks = hyp_cuda_blocks(b->session->model->device, p->args.chunks, p->threads),
                                .block_x = p->threads,
                                .block_y = 1,
                                .shared_bytes = p->shared_bytes};
    size_t count = slots_of(of, offsetof(hyp_cuda_pointwise, input[0].data), sizeof *p->args.input,
                            offsetof(hyp_cuda_pointwise, output[0].data), sizeof *p->args.output, slots);
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, count);
}

/* By a kernel that was compiled for its form; *out_done is false where there is none. */
static hyp_status add_told(hyp_cuda_build *b, const hyp_cuda_pw_program *p, const operands *of, bool *out_done)
{
    hyp_cuda_device *d = b->session->model->device;
    hyp_cuda_grid grid = {0};
    hyp_cuda_pw_sizes sizes;
    hyp_cuda_slot slots[MOST_OPERANDS];
    hyp_cuda_pw_told_sizes(p, hyp_cuda_pw_told_width(p, d->multiprocessors), &sizes);
    hyp_cuda_spread(d, sizes.pieces, &grid);
    int64_t blocks = (sizes.pieces - 1) / grid.block_x + 1;
    *out_done = false;
    if (blocks > INT32_MAX) return HYP_OK;
    grid.blocks = (uint32_t)blocks;
    HYP_TRY(hyp_cuda_told_find(d, p, &grid.function, b->diag));
    if (!grid.function) return HYP_OK;
    *out_done = true;
    sizes.gate = gate_of(b, p->gated);
    size_t count = slots_of(of, offsetof(hyp_cuda_pw_sizes, input), sizeof *sizes.input,
                            offsetof(hyp_cuda_pw_sizes, output), sizeof *sizes.output, slots);
    return hyp_cuda_add_launch(b, &grid, &sizes, sizeof sizes, slots, count);
}

static hyp_status add(hyp_cuda_build *b, const hyp_cuda_pw_step *step, const operands *of)
{
    if (hyp_cuda_box_count(&step->box) == 0) return HYP_OK;
    hyp_cuda_pw_program p;
    bool done;
    hyp_cuda_pw_encode(step, &p);
    HYP_TRY(add_told(b, &p, of, &done));
    return done ? HYP_OK : add_interpreted(b, &p, of);
}

/* ---- generated kernels ---------------------------------------------------------------------------------------- */

static operands operands_of(const HypPlan__Pointwise *k)
{
    operands of = {.inputs = k->n_inputs, .outputs = k->n_outputs};
    for (size_t i = 0; i < k->n_inputs; i++) of.input[i] = k->inputs[i]->tensor;
    for (size_t o = 0; o < k->n_outputs; o++) of.output[o] = k->outputs[o];
    return of;
}

hyp_status hyp_cuda_add_generated(hyp_cuda_build *b, const HypPlan__Pointwise *k, uint32_t blocks, CUfunction function)
{
    const hyp_cuda_pw_addresses args = {.gate = gate_of(b, hyp_cuda_is_gated(b->session, b->step))};
    const hyp_cuda_grid grid = {
        .function = function, .blocks = blocks, .block_x = HYP_CUDA_GENERATED_THREADS, .block_y = 1};
    const operands of = operands_of(k);
    hyp_cuda_slot slots[MOST_OPERANDS];
    size_t count = slots_of(&of, offsetof(hyp_cuda_pw_addresses, input), sizeof *args.input,
                            offsetof(hyp_cuda_pw_addresses, output), sizeof *args.output, slots);
    return hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, count);
}

/* The kernel in what tuning found, on the device; NULL where the driver refuses it. */
static hyp_status find_function(hyp_cuda_session *s, const HypPlan__TunedProduct *tuned, CUfunction *out,
                                hyp_diag *diag)
{
    const hyp_cuda_device *d = s->model->device;
    hyp_diag why = {0};
    const hyp_cuda_image *image = hyp_cuda_images_find(&s->model->images, tuned->algorithm.data);
    if (!image) image = hyp_cuda_images_find(&s->images, tuned->algorithm.data);
    if (!image) HYP_TRY(hyp_cuda_images_add(&s->images, &d->lib, &tuned->algorithm, &image, &why, diag));
    if (why.status != HYP_OK) hyp_log_printf(&d->log, "a pointwise step is interpreted: %s", why.message);
    *out = image->function;
    return HYP_OK;
}

/* What tuning found for the step; NULL: nothing. */
static hyp_status find_tuned(const hyp_cuda_build *b, const hyp_cuda_pw_program *program,
                             const HypPlan__TunedProduct **out)
{
    const hyp_cuda_session *s = b->session;
    *out = NULL;
    if (s->untuned || s->tuning.products.len == 0) return HYP_OK;
    hyp_strbuf key = {0};
    hyp_cuda_pw_key(program, &key);
    hyp_status status = key.failed ? hyp_fail_memory(b->diag, key.len) : HYP_OK;
    if (status == HYP_OK) *out = hyp_tuning_find(&s->tuning, key.data);
    hyp_strbuf_dispose(&key);
    return status;
}

static bool has_kernel(const HypPlan__TunedProduct *tuned)
{
    return tuned && tuned->algorithm.len > HYP_CUDA_NO_KERNEL && tuned->epilogue >= 1 &&
           tuned->epilogue <= HYP_CUDA_GENERATED_MOST;
}

/* Adds the step as tuning found it to be done best, where that is by a kernel of its own. */
static hyp_status add_as_tuned(hyp_cuda_build *b, const HypPlan__Pointwise *k, const hyp_cuda_pw_step *step,
                               bool *out_done)
{
    hyp_cuda_session *s = b->session;
    hyp_cuda_pw_program program;
    const HypPlan__TunedProduct *tuned;
    *out_done = false;
    hyp_cuda_pw_encode(step, &program);
    HYP_TRY(find_tuned(b, &program, &tuned));
    if (!tuned) return HYP_OK;
    CUfunction function = NULL;
    uint32_t blocks = 0;
    if (has_kernel(tuned)) {
        blocks = hyp_cuda_pw_blocks(&program, tuned->epilogue);
        HYP_TRY(find_function(s, tuned, &function, b->diag));
    }
    *out_done = function && blocks > 0;
    bool as_tuned = *out_done || tuned->algorithm.len == HYP_CUDA_NO_KERNEL;
    hyp_cuda_note_known(b, as_tuned ? HYP_CUDA_TUNED : HYP_CUDA_NOT_TUNED);
    return *out_done ? hyp_cuda_add_generated(b, k, blocks, function) : HYP_OK;
}

/* ---- activations, and what a product leaves to do -------------------------------------------------------------- */

static bool can_finish(hyp_dtype dtype, int64_t n)
{
    return (dtype == HYP_F32 && n % 4 == 0) || ((dtype == HYP_F16 || dtype == HYP_BF16) && n % 8 == 0);
}

/* What finish_product does: whole rows in pieces of 16 bytes. */
static hyp_status add_finish(hyp_cuda_build *b, uint32_t x, uint32_t y, int64_t m, int64_t n, uint32_t act,
                             const hyp_cuda_rest *rest)
{
    hyp_dtype dtype = hyp_cuda_dtype(b->program, y);
    int64_t row_pieces = n * (int64_t)hyp_dtype_size(dtype) / 16;
    if (m == 0 || n == 0) return HYP_OK;
    const hyp_cuda_finish args = {
        .pieces = m * row_pieces, .row_pieces = hyp_cuda_extent_of(row_pieces), .dtype = dtype, .act = act};
    const hyp_cuda_slot slots[] = {HYP_CUDA_SLOT(hyp_cuda_finish, x, x + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_finish, y, y + 1),
                                   HYP_CUDA_SLOT(hyp_cuda_finish, bias, rest->bias_plus1),
                                   HYP_CUDA_SLOT(hyp_cuda_finish, before, rest->before_plus1),
                                   HYP_CUDA_SLOT(hyp_cuda_finish, after, rest->after_plus1)};
    return hyp_cuda_add_spread(b, HYP_CUDA_KERNEL_finish_product, m * row_pieces, &args, sizeof args, slots,
                               sizeof slots / sizeof *slots);
}

/* A step that finish_product does: y = act(x + bias + before) + after over [m,n]. */
typedef struct finish {
    uint32_t x, act; /* 0: none */
    int64_t m, n;
    hyp_cuda_rest rest;
} finish;

static bool is_act(HypPlan__Pointwise__Op op)
{
    switch ((int)op) {
#define X(op, name, OP, ...) case HYP_PW_##OP:
        HYP_ACTIVATIONS(X)
#undef X
        return true;
    default: return false;
    }
}

/* Whether every input is dense over [m,n], or a row of n; is_row says which. */
static bool find_rows(const hyp_cuda_pw_step *step, finish *out, bool is_row[HYP_CUDA_LANES])
{
    hyp_cuda_box box = step->box;
    hyp_cuda_box_merge(&box);
    if (box.rank < 1 || box.rank > 2) return false;
    out->n = box.extent[0];
    out->m = box.rank > 1 ? box.extent[1] : 1;
    for (uint32_t l = 0; l < box.lanes; l++) {
        if (box.stride[l][0] != 1 || step->input_dtype[l] != step->output_dtype[0]) return false;
        is_row[l] = box.rank > 1 && box.stride[l][1] == 0;
        if (box.rank > 1 && !is_row[l] && box.stride[l][1] != out->n) return false;
    }
    return true;
}

/* Two inputs added: x and a row, or x and what is as large. */
static bool take_sum(const HypPlan__Pointwise *k, const HypPlan__Pointwise__Instr *in, const bool *is_row, finish *out)
{
    uint32_t a = in->a, b = in->b;
    if (a >= k->n_inputs || b >= k->n_inputs || a == b) return false;
    if (is_row[a]) a = in->b, b = in->a;
    if (is_row[a]) return false;
    out->x = k->inputs[a]->tensor;
    *(is_row[b] ? &out->rest.bias_plus1 : &out->rest.before_plus1) = k->inputs[b]->tensor + 1;
    return true;
}

/* A dense input that is added to the register `last`. */
static bool take_after(const HypPlan__Pointwise *k, const HypPlan__Pointwise__Instr *in, uint32_t last,
                       const bool *is_row, finish *out)
{
    uint32_t other = in->a == last ? in->b : in->a;
    if ((in->a != last && in->b != last) || other >= k->n_inputs || is_row[other]) return false;
    out->rest.after_plus1 = k->inputs[other]->tensor + 1;
    return true;
}

/* Is the step such a one: sums and an activation of elements of one type, with nothing rounded before the end? Its kernel
 * is in every binary. */
static bool as_finish(const HypPlan__Pointwise *k, const hyp_cuda_pw_step *step, finish *out)
{
    enum { SUM, ACT, AFTER, END } next = SUM; /* what may come next */
    bool is_row[HYP_CUDA_LANES];
    *out = (finish){0};
    if (step->gated || k->compute != HYP_F32 || k->n_outputs != 1 || k->n_instrs == 0 || !find_rows(step, out, is_row) ||
        !can_finish(step->output_dtype[0], out->n))
        return false;
    uint32_t inputs = (uint32_t)k->n_inputs, last = 0; /* the register that was written last */
    for (size_t i = 0; i < k->n_instrs; last = inputs + (uint32_t)i++) {
        const HypPlan__Pointwise__Instr *in = k->instrs[i];
        bool ends = i + 1 == k->n_instrs, first = i == 0, taken = false;
        if (in->to != HYP_F32 && !(ends && in->to == (uint32_t)step->output_dtype[0])) return false;
        if (in->op == HYP_PLAN__POINTWISE__OP__ADD && first) {
            taken = take_sum(k, in, is_row, out);
            next = ACT;
        } else if (in->op == HYP_PLAN__POINTWISE__OP__ADD && next <= AFTER) {
            taken = take_after(k, in, last, is_row, out);
            next = END;
        } else if (is_act(in->op) && next <= ACT) {
            taken = first ? in->a < inputs && !is_row[in->a] : in->a == last;
            if (first && taken) out->x = k->inputs[in->a]->tensor;
            out->act = (uint32_t)in->op;
            next = AFTER;
        }
        if (!taken) return false;
    }
    return k->output_regs[0] == last;
}

hyp_status hyp_cuda_add_pointwise(hyp_cuda_build *b, const HypPlan__Pointwise *k)
{
    hyp_cuda_pw_step step;
    bool done;
    finish f;
    hyp_cuda_pw_step_init(&step, b->program, b->values, b->prepared->channels_last, k);
    step.gated = hyp_cuda_is_gated(b->session, b->step);
    if (hyp_cuda_box_count(&step.box) == 0) return HYP_OK;
    HYP_TRY(add_as_tuned(b, k, &step, &done));
    if (done) return HYP_OK;
    if (as_finish(k, &step, &f)) return add_finish(b, f.x, k->outputs[0], f.m, f.n, f.act, &f.rest);
    operands of = operands_of(k);
    return add(b, &step, &of);
}

hyp_status hyp_cuda_compile_pointwise(hyp_cuda_build *b)
{
    hyp_cuda_device *d = b->session->model->device;
    hyp_status status = HYP_OK;
    hyp_cuda_told_begin(d);
    for (size_t i = 0; i < b->program->n_steps && status == HYP_OK; i++) {
        const HypPlan__Step *s = b->program->steps[i];
        hyp_cuda_pw_step step;
        hyp_cuda_pw_program program;
        finish unused;
        const HypPlan__TunedProduct *tuned;
        uint32_t cell;
        status = hyp_cuda_want_cell(b, (uint32_t)i, &cell);
        i += cell; /* which are done by the layer's kernel */
        if (cell || status != HYP_OK || s->kernel_case != HYP_PLAN__STEP__KERNEL_POINTWISE) continue;
        hyp_cuda_pw_step_init(&step, b->program, b->values, b->prepared->channels_last, s->pointwise);
        step.gated = hyp_cuda_is_gated(b->session, (uint32_t)i);
        if (hyp_cuda_box_count(&step.box) == 0 || as_finish(s->pointwise, &step, &unused)) continue;
        hyp_cuda_pw_encode(&step, &program);
        status = find_tuned(b, &program, &tuned);
        if (status == HYP_OK && !has_kernel(tuned)) status = hyp_cuda_told_want(d, &program, b->diag);
    }
    return hyp_cuda_told_end(d, status, b->diag);
}

/* Adds an operand over [m,n], the same for every row when row_stride is 0. */
static void add_operand(const hyp_cuda_build *b, hyp_cuda_pw_step *step, operands *of, uint32_t tensor,
                        int64_t row_stride)
{
    step->box.stride[step->inputs][0] = 1;
    step->box.stride[step->inputs][1] = row_stride;
    step->input_dtype[step->inputs] = hyp_cuda_dtype(b->program, tensor);
    of->input[step->inputs++] = tensor;
    step->box.lanes = (uint32_t)step->inputs;
    of->inputs = step->inputs;
}

hyp_status hyp_cuda_add_rest(hyp_cuda_build *b, uint32_t y, int64_t m, int64_t n, const hyp_cuda_rest *rest)
{
    if (!rest->no_product && can_finish(hyp_cuda_dtype(b->program, y), n))
        return add_finish(b, y, y, m, n, hyp_plan_act_op(rest->act), rest);
    enum { MOST = 5 };
    hyp_dtype dtype = hyp_cuda_dtype(b->program, y), compute = dtype == HYP_F64 ? HYP_F64 : HYP_F32;
    HypPlan__Pointwise__Instr instr[MOST], *instrs[MOST];
    hyp_cuda_pw_step step = {.compute = compute, .instr = instrs, .outputs = 1, .output_dtype = {dtype}};
    step.box = (hyp_cuda_box){.rank = 2, .extent = {n, m}};
    operands of = {.outputs = 1, .output = {y}};
    uint32_t reg = 0;
    if (!rest->no_product) add_operand(b, &step, &of, y, n);
    if (rest->bias_plus1) add_operand(b, &step, &of, rest->bias_plus1 - 1, 0);
    if (rest->before_plus1) add_operand(b, &step, &of, rest->before_plus1 - 1, n);
    uint32_t terms = (uint32_t)step.inputs;
    if (rest->after_plus1) add_operand(b, &step, &of, rest->after_plus1 - 1, n);
    for (int i = 0; i < MOST; i++) {
        hyp_plan__pointwise__instr__init(&instr[i]);
        instr[i].to = compute;
        instrs[i] = &instr[i];
    }
    /* The sum of what is there, then the activation, then what is added to that. */
    if (terms == 0) {
        instr[step.instrs].op = HYP_PLAN__POINTWISE__OP__CONST;
        reg = (uint32_t)(step.inputs + step.instrs++);
    }
    for (uint32_t i = 1; i < terms; i++) {
        instr[step.instrs].a = reg;
        instr[step.instrs].b = i;
        reg = (uint32_t)(step.inputs + step.instrs++);
    }
    instr[step.instrs].op = hyp_plan_act_op(rest->act);
    instr[step.instrs].a = reg;
    reg = (uint32_t)(step.inputs + step.instrs++);
    if (rest->after_plus1) {
        instr[step.instrs].a = reg;
        instr[step.instrs].b = terms;
        reg = (uint32_t)(step.inputs + step.instrs++);
    }
    step.output_reg = &reg;
    return add(b, &step, &of);
}

hyp_status hyp_cuda_add_channels(hyp_cuda_build *b, uint32_t y, int64_t outer, int64_t channels, int64_t inner,
                                 uint32_t bias_plus1, HypPlan__Pointwise__Op op, double p, double q)
{
    hyp_dtype dtype = hyp_cuda_dtype(b->program, y), compute = dtype == HYP_F64 ? HYP_F64 : HYP_F32;
    uint32_t bias = bias_plus1 ? bias_plus1 - 1 : y;
    HypPlan__Pointwise__Instr instr[2], *instrs[2];
    hyp_cuda_pw_step step = {.compute = compute,
                             .inputs = 1,
                             .instr = instrs,
                             .outputs = 1,
                             .input_dtype = {dtype, hyp_cuda_dtype(b->program, bias)},
                             .output_dtype = {dtype}};
    step.box = (hyp_cuda_box){
        .rank = 3, .lanes = 1, .extent = {inner, channels, outer}, .stride = {{1, inner, inner * channels}, {0, 1, 0}}};
    operands of = {.inputs = 1, .outputs = 1, .input = {y, bias}, .output = {y}};
    if (bias_plus1) of.inputs = step.inputs = step.box.lanes = 2;
    for (int i = 0; i < 2; i++) {
        hyp_plan__pointwise__instr__init(&instr[i]);
        instr[i].to = compute;
        instrs[i] = &instr[i];
    }
    uint32_t reg = 0;
    if (bias_plus1) { /* ADD of the two inputs, register 2 */
        instr[step.instrs++].b = 1;
        reg = 2;
    }
    HypPlan__Pointwise__Instr *last = &instr[step.instrs];
    last->op = op;
    last->a = reg;
    last->p = p;
    last->q = q;
    reg = (uint32_t)(step.inputs + step.instrs++);
    step.output_reg = &reg;
    return add(b, &step, &of);
}
