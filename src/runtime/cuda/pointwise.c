/* pointwise.c - pointwise steps, and the biases and activations that cuBLASLt has no epilogue for. */
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
    return add(b, &step, inputs, k->outputs);
}

static HypPlan__Pointwise__Op act_op(HypPlan__Act act)
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

hyp_status hyp_cuda_add_bias_act(hyp_cuda_build *b, uint32_t y, int64_t m, int64_t n, uint32_t bias_plus1,
                                 HypPlan__Act act, bool overwrite)
{
    hyp_dtype compute = hyp_cuda_dtype(b->program, y) == HYP_F64 ? HYP_F64 : HYP_F32;
    HypPlan__Pointwise__Instr first = HYP_PLAN__POINTWISE__INSTR__INIT, second = HYP_PLAN__POINTWISE__INSTR__INIT;
    HypPlan__Pointwise__Instr *instrs[] = {&first, &second};
    hyp_cuda_pw_step step = {.compute = compute, .instr = instrs, .instrs = 2, .outputs = 1};
    step.box = (hyp_cuda_box){.rank = 2, .extent = {n, m}};
    uint32_t inputs[2];
    if (!overwrite) {
        step.box.stride[step.inputs][0] = 1;
        step.box.stride[step.inputs][1] = n;
        inputs[step.inputs++] = y;
    }
    if (bias_plus1) {
        step.box.stride[step.inputs][0] = 1;
        inputs[step.inputs++] = bias_plus1 - 1;
    }
    step.box.lanes = (uint32_t)step.inputs;
    /* The sum of what is there, then the activation. */
    first.op = step.inputs == 2   ? HYP_PLAN__POINTWISE__OP__ADD
               : step.inputs == 1 ? HYP_PLAN__POINTWISE__OP__CAST
                                  : HYP_PLAN__POINTWISE__OP__CONST;
    first.b = 1;
    second.op = act_op(act);
    second.a = (uint32_t)step.inputs;
    first.to = second.to = compute;
    uint32_t output_reg = (uint32_t)step.inputs + 1;
    step.output_reg = &output_reg;
    return add(b, &step, inputs, &y);
}
