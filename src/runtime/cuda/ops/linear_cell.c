/* linear_cell.c - a layer of one row and the elementwise step behind it as one kernel, as the gates and the cell of a
 * recurrent network, or the two halves of a gated layer.
 *
 * The step reads what the layer leaves by equal parts of it, element i of each for its own element i. So a block that has
 * the same rows of every part of the weight has all that its elements need, and no block waits for another. */
#include "base/dtype.h"
#include "runtime/cuda/ops/linear.h"
#include "runtime/cuda/ops/linear_few_rows.h"
#include "runtime/cuda/ops/pointwise_source.h"
#include "runtime/cuda/ops/prior.h"

/* Of a step that may be such a layer, what the next one is; NULL: it cannot be done so, whatever it computes. */
static const HypPlan__Pointwise *next_step(const hyp_cuda_build *b, uint32_t step)
{
    const HypPlan__Program *p = b->program;
    const HypPlan__Linear *k = p->steps[step]->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR ? p->steps[step]->linear : NULL;
    const HypPlan__Step *next = step + 1 < p->n_steps ? p->steps[step + 1] : NULL;
    if (!k || !next || next->kernel_case != HYP_PLAN__STEP__KERNEL_POINTWISE) return NULL;
    bool plain = k->n_layers == 1 && b->values[k->m] == 1 && !k->layers[0]->weight_kn && !k->normalizes &&
                 p->tensors[k->y]->place == HYP_PLAN__PLACE__PLACE_SCRATCH && !hyp_cuda_has_own(b->prepared, k->y);
    hyp_dtype dtype = hyp_cuda_dtype(p, k->x);
    if (!plain || (dtype != HYP_F32 && dtype != HYP_F16 && dtype != HYP_BF16) || hyp_cuda_is_gated(b->session, step + 1))
        return NULL;
    return b->session->model->device->layers ? next->pointwise : NULL;
}

/* Whether the step writes over a tensor that it reads, and that blocks of the layer may still want then: the plan has a
 * result in its place. (What only the layer reads stands until both have ended, whatever the plan says: session/pack.c.) */
static bool is_written_over(const hyp_cuda_build *b, const HypPlan__Pointwise *next, uint32_t tensor_plus1)
{
    const HypPlan__Program *p = b->program;
    if (!tensor_plus1) return false;
    uint32_t root = hyp_plan_root(p, tensor_plus1 - 1);
    bool read = false, written = false;
    for (size_t i = 0; i < next->n_inputs; i++) read = read || hyp_plan_root(p, next->inputs[i]->tensor) == root;
    for (size_t o = 0; o < next->n_outputs; o++) {
        uint32_t output = hyp_plan_root(p, next->outputs[o]);
        const HypPlan__Tensor *result = p->tensors[output];
        bool same_slot = result->place == HYP_PLAN__PLACE__PLACE_SCRATCH &&
                         p->tensors[root]->place == HYP_PLAN__PLACE__PLACE_SCRATCH && result->slot == p->tensors[root]->slot;
        written = written || output == root || (read && same_slot);
    }
    return written;
}

/* Which parts of the layer's result the inputs are; false where they are something else of it, or none is. */
static bool find_parts(const hyp_cuda_build *b, const HypPlan__Linear *k, const HypPlan__Pointwise *next, int64_t size,
                       hyp_cuda_pw_program *program)
{
    const HypPlan__Program *p = b->program;
    int64_t n = b->values[k->layers[0]->n];
    bool any = false;
    if (size < 1 || n % size != 0 || n / size > UINT8_MAX) return false;
    for (size_t i = 0; i < next->n_inputs; i++) {
        uint32_t t = next->inputs[i]->tensor;
        size_t first = 0, row = (size_t)size * hyp_dtype_size(hyp_cuda_dtype(p, k->y));
        bool whole = program->args.input[i].stride[0] == 1;
        if (program->args.input[i].stride[0] > 1) return false;
        if (hyp_plan_root(p, t) != k->y) continue;
        for (; t != k->y; t = p->tensors[t]->view_of) {
            if (hyp_cuda_has_own(b->prepared, t)) return false;
            first += hyp_plan_first_byte(p, t);
        }
        if (!whole || first % row != 0 || first / row >= (size_t)(n / size)) return false;
        program->before.part_plus1[i] = (uint8_t)(first / row + 1);
        any = true;
    }
    program->before.parts = (uint32_t)(n / size);
    return any;
}

typedef struct cell {
    hyp_cuda_pw_program program;
    hyp_cuda_few_rows form;
    const HypPlan__Pointwise *next;
} cell;

static bool find_cell(const hyp_cuda_build *b, uint32_t step, cell *out)
{
    const HypPlan__Pointwise *next = out->next = next_step(b, step);
    if (!next) return false;
    const HypPlan__Linear *k = b->program->steps[step]->linear;
    const HypPlan__Layer *layer = k->layers[0];
    const bool *last = b->prepared->channels_last;
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->x);
    hyp_cuda_pw_step whole;
    for (size_t o = 0; o < next->n_outputs; o++)
        if (last && last[next->outputs[o]]) return false;
    hyp_cuda_pw_step_init(&whole, b->program, b->values, NULL, next);
    if (hyp_cuda_box_count(&whole.box) == 0) return false;
    hyp_cuda_pw_encode(&whole, &out->program);
    const hyp_cuda_pointwise *args = &out->program.args;
    if (args->rank != 1 || out->program.kernel != HYP_CUDA_KERNEL_pointwise_f32) return false;
    if (!find_parts(b, k, next, args->extent[0].size, &out->program)) return false;
    if (is_written_over(b, next, k->x + 1) || is_written_over(b, next, layer->bias_plus1) ||
        is_written_over(b, next, k->added_plus1) || is_written_over(b, next, layer->weight + 1))
        return false;
    const hyp_cuda_few_rows_device device = hyp_cuda_few_rows_device_of(b->session->model->device);
    if (!hyp_cuda_few_rows_by_parts(dtype, b->values[layer->n], b->values[layer->k], out->program.before.parts, &device,
                                    &out->form))
        return false;
    out->program.before.dtype = dtype;
    out->program.before.threads = out->form.threads <= HYP_CUDA_LAYER_SHORT ? HYP_CUDA_LAYER_SHORT : HYP_CUDA_LAYER_THREADS;
    return true;
}

/* Whether a step behind the two reads what the layer leaves. */
static hyp_status is_read_later(const hyp_cuda_build *b, uint32_t y, uint32_t step, bool *out)
{
    const HypPlan__Program *p = b->program;
    HYP_VEC(uint32_t) list = {0};
    hyp_status status = HYP_OK;
    *out = false;
    for (uint32_t s = step + 2; s < p->n_steps && status == HYP_OK && !*out; s++) {
        size_t count = hyp_plan_step_reads(p->steps[s], NULL, 0);
        status = hyp_vec_reserve(&list, count + 1, b->diag);
        if (status != HYP_OK) break;
        hyp_plan_step_reads(p->steps[s], list.data, count);
        for (size_t i = 0; i < count; i++) *out = *out || hyp_plan_root(p, list.data[i]) == y;
    }
    hyp_vec_free(&list);
    return status;
}

hyp_status hyp_cuda_want_cell(const hyp_cuda_build *b, uint32_t step, bool *out_wanted)
{
    cell c;
    *out_wanted = find_cell(b, step, &c);
    return *out_wanted ? hyp_cuda_told_want(b->session->model->device, &c.program, b->diag) : HYP_OK;
}

/* For those who ask how the step is done. */
static hyp_status note_choice(hyp_cuda_build *b, const HypPlan__Linear *k, const cell *c)
{
    hyp_choice choice;
    double n = (double)c->form.args.n, depth = (double)c->form.args.k;
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->x);
    double bytes = n * depth * (double)hyp_dtype_size(dtype);
    double seconds = hyp_cuda_own_seconds + hyp_cuda_floor_seconds(dtype, k->tf32, bytes, 2 * n * depth);
    hyp_choice_init(&choice);
    hyp_choice_offer(&choice, "few-rows, with the next step", 0, seconds, NULL);
    hyp_choice_offer(&choice, "few-rows, then the next step", 1, seconds + hyp_cuda_own_seconds, NULL);
    hyp_choose(&choice, NULL);
    return hyp_vec_push(&b->prepared->choices, b->diag, choice);
}

static hyp_status add(hyp_cuda_build *b, const HypPlan__Linear *k, const cell *c, CUfunction function)
{
    const HypPlan__Layer *layer = k->layers[0];
    hyp_cuda_cell args = {.layer = c->form.args};
    hyp_cuda_slot slots[5 + HYP_CUDA_PW_INPUTS + HYP_CUDA_PW_OUTPUTS];
    size_t count = 0;
    bool wanted;
    HYP_TRY(is_read_later(b, k->y, b->step, &wanted));
    args.layer.act = (uint8_t)hyp_plan_act_op(layer->act);
    args.layer.add_after = k->add_after != 0;
    args.layer.constant = hyp_cuda_is_constant(b, layer->weight + 1);
    args.layer.bias_constant = hyp_cuda_is_constant(b, layer->bias_plus1);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.weight, layer->weight + 1);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.x, k->x + 1);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.y, wanted ? k->y + 1 : 0);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.bias, layer->bias_plus1);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.added, k->added_plus1);
    for (size_t i = 0; i < c->next->n_inputs; i++)
        slots[count++] = (hyp_cuda_slot){(uint32_t)(offsetof(hyp_cuda_cell, input) + i * sizeof *args.input),
                                         c->next->inputs[i]->tensor + 1, 0};
    for (size_t o = 0; o < c->next->n_outputs; o++)
        slots[count++] = (hyp_cuda_slot){(uint32_t)(offsetof(hyp_cuda_cell, output) + o * sizeof *args.output),
                                         c->next->outputs[o] + 1, 0};
    const hyp_cuda_grid grid = {.function = function,
                                .blocks = c->form.blocks,
                                .block_x = c->form.threads,
                                .block_y = 1,
                                .shared_bytes = (uint32_t)c->form.shared_bytes};
    HYP_TRY(hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, count));
    b->prepared->ops.data[b->prepared->ops.len - 1].last_step = ++b->step;
    return note_choice(b, k, c);
}

hyp_status hyp_cuda_add_cell(hyp_cuda_build *b, const HypPlan__Linear *k, bool *out_done)
{
    cell c;
    CUfunction function;
    *out_done = false;
    if (!b->read || !find_cell(b, b->step, &c)) return HYP_OK;
    HYP_TRY(hyp_cuda_told_find(b->session->model->device, &c.program, &function, b->diag));
    *out_done = function != NULL;
    return function ? add(b, k, &c, function) : HYP_OK;
}
