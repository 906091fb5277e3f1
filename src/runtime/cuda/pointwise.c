/* pointwise.c - pointwise steps, and the biases, sums and activations that cuBLASLt has no epilogue for. */
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/program.h"

typedef struct pointwise {
    hyp_cuda_pw_program program;
    hyp_cuda_grid grid;
    size_t inputs, outputs;
    uint32_t input[HYP_CUDA_PW_INPUTS], output[HYP_CUDA_PW_OUTPUTS]; /* tensors */
} pointwise;

static hyp_status pointwise_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    pointwise *p = data;
    for (size_t i = 0; i < p->inputs; i++) p->program.args.input[i].data = s->at[p->input[i]];
    for (size_t o = 0; o < p->outputs; o++) p->program.args.output[o].data = s->at[p->output[o]];
    return hyp_cuda_launch(s, &p->grid, &p->program.args, diag);
}

/* `inputs` and `outputs` are the tensors. */
static hyp_status add(hyp_cuda_build *b, hyp_cuda_pw_step *step, const uint32_t *inputs, const uint32_t *outputs)
{
    if (hyp_cuda_box_count(&step->box) == 0) return HYP_OK;
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, pointwise_run, sizeof(pointwise), &data));
    pointwise *p = data;
    p->inputs = step->inputs;
    p->outputs = step->outputs;
    for (size_t i = 0; i < step->inputs; i++) {
        p->input[i] = inputs[i];
        step->input_dtype[i] = hyp_cuda_dtype(b->program, inputs[i]);
    }
    for (size_t o = 0; o < step->outputs; o++) {
        p->output[o] = outputs[o];
        step->output_dtype[o] = hyp_cuda_dtype(b->program, outputs[o]);
    }
    hyp_cuda_pw_encode(step, &p->program);
    p->grid = (hyp_cuda_grid){
        .kernel = p->program.kernel,
        .blocks = hyp_cuda_blocks(b->session->model->device, p->program.args.chunks, p->program.threads),
        .block_x = p->program.threads,
        .block_y = 1,
        .shared_bytes = p->program.shared_bytes,
    };
    return hyp_cuda_need_kernel(b, p->program.kernel);
}

/* What finish_product does: whole rows in pieces of 16 bytes. */
typedef struct finish {
    hyp_cuda_finish args;
    hyp_cuda_grid grid;
    uint32_t x, y;
    hyp_cuda_rest rest;
} finish;

static hyp_status finish_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    finish *p = data;
    p->args.x = s->at[p->x];
    p->args.y = s->at[p->y];
    p->args.bias = hyp_cuda_address(s, p->rest.bias_plus1);
    p->args.before = hyp_cuda_address(s, p->rest.before_plus1);
    p->args.after = hyp_cuda_address(s, p->rest.after_plus1);
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

static bool can_finish(hyp_dtype dtype, int64_t n)
{
    return (dtype == HYP_F32 && n % 4 == 0) || ((dtype == HYP_F16 || dtype == HYP_BF16) && n % 8 == 0);
}

static hyp_status add_finish(hyp_cuda_build *b, uint32_t x, uint32_t y, int64_t m, int64_t n, uint32_t act,
                             const hyp_cuda_rest *rest)
{
    enum { THREADS = 256 };
    hyp_dtype dtype = hyp_cuda_dtype(b->program, y);
    int64_t row_pieces = n * (int64_t)hyp_dtype_size(dtype) / 16;
    void *data;
    if (m == 0 || n == 0) return HYP_OK;
    HYP_TRY(hyp_cuda_add_op(b, finish_run, sizeof(finish), &data));
    finish *p = data;
    *p = (finish){.args = {.pieces = m * row_pieces,
                           .row_pieces = hyp_cuda_extent_of(row_pieces),
                           .dtype = dtype,
                           .act = act},
                  .grid = {.kernel = HYP_CUDA_KERNEL_finish_product, .block_x = THREADS, .block_y = 1},
                  .x = x,
                  .y = y,
                  .rest = *rest};
    p->grid.blocks = hyp_cuda_blocks(b->session->model->device, m * row_pieces, THREADS);
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}

/* Is the step one activation of dense elements, of one type? */
static bool is_activation(const hyp_cuda_build *b, const HypPlan__Pointwise *k, const hyp_cuda_box *box)
{
    if (k->n_inputs != 1 || k->n_instrs != 1 || k->n_outputs != 1 || k->compute != HYP_F32) return false;
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->inputs[0]->tensor);
    const HypPlan__Pointwise__Instr *in = k->instrs[0];
    bool rounds = in->to != (uint32_t)dtype && in->to != HYP_F32;
    if (rounds || dtype != hyp_cuda_dtype(b->program, k->outputs[0]) || !can_finish(dtype, hyp_cuda_box_count(box)))
        return false;
    int64_t dense = 1;
    for (uint32_t a = 0; a < box->rank; dense *= box->extent[a++])
        if (box->extent[a] != 1 && box->stride[0][a] != dense) return false;
    switch (in->op) {
    case HYP_PLAN__POINTWISE__OP__RELU:
    case HYP_PLAN__POINTWISE__OP__GELU:
    case HYP_PLAN__POINTWISE__OP__GELU_TANH:
    case HYP_PLAN__POINTWISE__OP__SIGMOID:
    case HYP_PLAN__POINTWISE__OP__TANH:
    case HYP_PLAN__POINTWISE__OP__SILU:
    case HYP_PLAN__POINTWISE__OP__QUICK_GELU:
    case HYP_PLAN__POINTWISE__OP__HARD_SWISH:
    case HYP_PLAN__POINTWISE__OP__MISH: return true;
    default: return false;
    }
}

hyp_status hyp_cuda_add_pointwise(hyp_cuda_build *b, const HypPlan__Pointwise *k)
{
    hyp_cuda_pw_step step = {
        .compute = (hyp_dtype)k->compute,
        .inputs = k->n_inputs,
        .instrs = k->n_instrs,
        .outputs = k->n_outputs,
        .instr = k->instrs,
        .output_reg = k->output_regs,
    };
    uint32_t inputs[HYP_CUDA_PW_INPUTS];
    hyp_cuda_box_init(&step.box, b->values, k->n_extents, k->extents);
    for (size_t i = 0; i < k->n_inputs; i++) {
        hyp_cuda_box_add_lane(&step.box, b->values, k->inputs[i]->strides);
        inputs[i] = k->inputs[i]->tensor;
    }
    if (is_activation(b, k, &step.box))
        return add_finish(b, inputs[0], k->outputs[0], 1, hyp_cuda_box_count(&step.box), k->instrs[0]->op,
                          &(hyp_cuda_rest){0});
    return add(b, &step, inputs, k->outputs);
}

HypPlan__Pointwise__Op hyp_cuda_act_op(HypPlan__Act act)
{
    switch (act) {
    case HYP_PLAN__ACT__ACT_RELU: return HYP_PLAN__POINTWISE__OP__RELU;
    case HYP_PLAN__ACT__ACT_GELU: return HYP_PLAN__POINTWISE__OP__GELU;
    case HYP_PLAN__ACT__ACT_GELU_TANH: return HYP_PLAN__POINTWISE__OP__GELU_TANH;
    case HYP_PLAN__ACT__ACT_SIGMOID: return HYP_PLAN__POINTWISE__OP__SIGMOID;
    case HYP_PLAN__ACT__ACT_TANH: return HYP_PLAN__POINTWISE__OP__TANH;
    case HYP_PLAN__ACT__ACT_SILU: return HYP_PLAN__POINTWISE__OP__SILU;
    case HYP_PLAN__ACT__ACT_QUICK_GELU: return HYP_PLAN__POINTWISE__OP__QUICK_GELU;
    case HYP_PLAN__ACT__ACT_HARD_SWISH: return HYP_PLAN__POINTWISE__OP__HARD_SWISH;
    case HYP_PLAN__ACT__ACT_MISH: return HYP_PLAN__POINTWISE__OP__MISH;
    default: return HYP_PLAN__POINTWISE__OP__CAST;
    }
}

/* Adds an operand over [m,n], the same for every row when row_stride is 0. */
static void add_operand(hyp_cuda_pw_step *step, uint32_t *inputs, uint32_t tensor, int64_t row_stride)
{
    step->box.stride[step->inputs][0] = 1;
    step->box.stride[step->inputs][1] = row_stride;
    inputs[step->inputs++] = tensor;
    step->box.lanes = (uint32_t)step->inputs;
}

hyp_status hyp_cuda_add_rest(hyp_cuda_build *b, uint32_t y, int64_t m, int64_t n, const hyp_cuda_rest *rest)
{
    if (!rest->no_product && can_finish(hyp_cuda_dtype(b->program, y), n))
        return add_finish(b, y, y, m, n, hyp_cuda_act_op(rest->act), rest);
    enum { MOST = 5 };
    hyp_dtype compute = hyp_cuda_dtype(b->program, y) == HYP_F64 ? HYP_F64 : HYP_F32;
    HypPlan__Pointwise__Instr instr[MOST], *instrs[MOST];
    hyp_cuda_pw_step step = {.compute = compute, .instr = instrs, .outputs = 1};
    step.box = (hyp_cuda_box){.rank = 2, .extent = {n, m}};
    uint32_t inputs[HYP_CUDA_PW_INPUTS], reg = 0;
    if (!rest->no_product) add_operand(&step, inputs, y, n);
    if (rest->bias_plus1) add_operand(&step, inputs, rest->bias_plus1 - 1, 0);
    if (rest->before_plus1) add_operand(&step, inputs, rest->before_plus1 - 1, n);
    uint32_t terms = (uint32_t)step.inputs;
    if (rest->after_plus1) add_operand(&step, inputs, rest->after_plus1 - 1, n);
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
    instr[step.instrs].op = hyp_cuda_act_op(rest->act);
    instr[step.instrs].a = reg;
    reg = (uint32_t)(step.inputs + step.instrs++);
    if (rest->after_plus1) {
        instr[step.instrs].a = reg;
        instr[step.instrs].b = terms;
        reg = (uint32_t)(step.inputs + step.instrs++);
    }
    step.output_reg = &reg;
    return add(b, &step, inputs, &y);
}

hyp_status hyp_cuda_add_channels(hyp_cuda_build *b, uint32_t y, int64_t outer, int64_t channels, int64_t inner,
                                 uint32_t bias_plus1, HypPlan__Pointwise__Op op, double p, double q)
{
    hyp_dtype compute = hyp_cuda_dtype(b->program, y) == HYP_F64 ? HYP_F64 : HYP_F32;
    HypPlan__Pointwise__Instr instr[2], *instrs[2];
    hyp_cuda_pw_step step = {.compute = compute, .inputs = 1, .instr = instrs, .outputs = 1};
    step.box = (hyp_cuda_box){.rank = 3,
                              .lanes = 1,
                              .extent = {inner, channels, outer},
                              .stride = {{1, inner, inner * channels}, {0, 1, 0}}};
    const uint32_t inputs[] = {y, bias_plus1 ? bias_plus1 - 1 : y};
    if (bias_plus1) step.inputs = step.box.lanes = 2;
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
    return add(b, &step, inputs, &y);
}
