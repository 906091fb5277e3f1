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

/* Step number `step`, where it is an elementwise one that such a kernel may do; NULL: it is not. */
static const HypPlan__Pointwise *pointwise_at(const hyp_cuda_build *b, uint32_t step)
{
    const HypPlan__Program *p = b->program;
    const HypPlan__Step *s = step < p->n_steps ? p->steps[step] : NULL;
    const bool *last = b->prepared->channels_last;
    if (!s || s->kernel_case != HYP_PLAN__STEP__KERNEL_POINTWISE || hyp_cuda_is_gated(b->session, step)) return NULL;
    for (size_t o = 0; o < s->pointwise->n_outputs; o++)
        if (last && last[s->pointwise->outputs[o]]) return NULL;
    return s->pointwise;
}

/* Whether a step is a layer of one row that may be done so, whatever comes behind it. */
static bool may_be_layer(const hyp_cuda_build *b, uint32_t step)
{
    const HypPlan__Program *p = b->program;
    const HypPlan__Linear *k = p->steps[step]->kernel_case == HYP_PLAN__STEP__KERNEL_LINEAR ? p->steps[step]->linear : NULL;
    if (!k || !b->session->model->device->layers) return false;
    hyp_dtype dtype = hyp_cuda_dtype(p, k->x);
    return k->n_layers == 1 && b->values[k->m] == 1 && !k->layers[0]->weight_kn && !k->normalizes &&
           p->tensors[k->y]->place == HYP_PLAN__PLACE__PLACE_SCRATCH && !hyp_cuda_has_own(b->prepared, k->y) &&
           (dtype == HYP_F32 || dtype == HYP_F16 || dtype == HYP_BF16);
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

/* Whether a tensor is some of another, and from which byte on; SIZE_MAX: that is not told. */
static bool is_within(const hyp_cuda_build *b, uint32_t tensor, uint32_t whole, size_t *out_first)
{
    const HypPlan__Program *p = b->program;
    *out_first = 0;
    if (hyp_plan_root(p, tensor) != hyp_plan_root(p, whole)) return false;
    for (; tensor != whole && *out_first != SIZE_MAX; tensor = p->tensors[tensor]->view_of) {
        bool view = p->tensors[tensor]->place == HYP_PLAN__PLACE__PLACE_VIEW && !hyp_cuda_has_own(b->prepared, tensor);
        *out_first = view ? *out_first + hyp_plan_first_byte(p, tensor) : SIZE_MAX;
        if (!view) break;
    }
    return true;
}

/* Encodes a step over `size` elements, and finds which parts of the layer's result its inputs are. False where it reads
 * something else of it, or of what the step before it wrote (NULL: there is none) other than its own elements. */
static bool encode(const hyp_cuda_build *b, const HypPlan__Linear *k, const HypPlan__Pointwise *step,
                   const HypPlan__Pointwise *before, hyp_cuda_pw_program *out)
{
    hyp_cuda_pw_step whole;
    hyp_cuda_pw_step_init(&whole, b->program, b->values, NULL, step);
    if (hyp_cuda_box_count(&whole.box) == 0) return false;
    hyp_cuda_pw_encode(&whole, out);
    const int64_t n = b->values[k->layers[0]->n], size = out->args.extent[0].size;
    if (out->args.rank != 1 || out->kernel != HYP_CUDA_KERNEL_pointwise_f32 || n % size != 0 || n / size > UINT8_MAX)
        return false;
    const size_t row = (size_t)size * hyp_dtype_size(hyp_cuda_dtype(b->program, k->y));
    for (size_t i = 0; i < step->n_inputs; i++) {
        const int64_t stride = out->args.input[i].stride[0];
        size_t first;
        if (stride > 1) return false;
        for (size_t o = 0; before && o < before->n_outputs; o++)
            if (is_within(b, step->inputs[i]->tensor, before->outputs[o], &first) && (first != 0 || stride != 1))
                return false;
        if (!is_within(b, step->inputs[i]->tensor, k->y, &first)) continue;
        if (stride != 1 || first == SIZE_MAX || first % row != 0 || first / row >= (size_t)(n / size)) return false;
        out->before.part_plus1[i] = (uint8_t)(first / row + 1);
    }
    out->before.parts = (uint32_t)(n / size);
    return true;
}

typedef struct cell {
    hyp_cuda_pw_program program[HYP_CUDA_CELL_STEPS];
    const HypPlan__Pointwise *step[HYP_CUDA_CELL_STEPS];
    uint32_t steps;
    hyp_cuda_few_rows form;
} cell;

static bool writes_over_layer(const hyp_cuda_build *b, const HypPlan__Linear *k, const HypPlan__Pointwise *step)
{
    return is_written_over(b, step, k->x + 1) || is_written_over(b, step, k->layers[0]->bias_plus1) ||
           is_written_over(b, step, k->added_plus1) || is_written_over(b, step, k->layers[0]->weight + 1);
}

/* Whether the step is written over a tensor of which threads of a step before it read other elements than their own: those
 * of another block may not have done so yet. */
static bool writes_over_others(const hyp_cuda_build *b, const cell *c, const HypPlan__Pointwise *step)
{
    for (uint32_t t = 0; t < c->steps; t++)
        for (size_t i = 0; i < c->step[t]->n_inputs; i++) {
            const uint32_t x = c->step[t]->inputs[i]->tensor;
            const bool own = c->program[t].args.input[i].stride[0] == 1 && hyp_plan_first_byte(b->program, x) == 0;
            if (!own && is_written_over(b, step, x + 1)) return true;
        }
    return false;
}

static bool reads_parts(const hyp_cuda_pw_program *program)
{
    bool any = false;
    for (size_t i = 0; i < HYP_CUDA_PW_INPUTS; i++) any = any || program->before.part_plus1[i];
    return any;
}

static bool find_cell(const hyp_cuda_build *b, uint32_t step, cell *out)
{
    out->steps = 0;
    if (!may_be_layer(b, step)) return false;
    const HypPlan__Linear *k = b->program->steps[step]->linear;
    const HypPlan__Layer *layer = k->layers[0];
    hyp_dtype dtype = hyp_cuda_dtype(b->program, k->x);
    for (; out->steps < HYP_CUDA_CELL_STEPS; out->steps++) {
        uint32_t at = out->steps;
        const HypPlan__Pointwise *next = out->step[at] = pointwise_at(b, step + 1 + at);
        hyp_cuda_pw_program *program = &out->program[at];
        if (!next || !encode(b, k, next, at ? out->step[at - 1] : NULL, program) || writes_over_layer(b, k, next)) break;
        if (!reads_parts(program) || program->before.parts != out->program[0].before.parts) break;
        if (writes_over_others(b, out, next)) break;
    }
    const hyp_cuda_few_rows_device device = hyp_cuda_few_rows_device_of(b->session->model->device);
    hyp_cuda_pw_before *before = &out->program[0].before;
    const int64_t n = b->values[layer->n], depth = b->values[layer->k];
    if (out->steps == 0 || !hyp_cuda_few_rows_by_parts(dtype, n, depth, before->parts, &device, &out->form)) return false;
    before->dtype = dtype;
    before->threads = out->form.threads <= HYP_CUDA_LAYER_SHORT ? HYP_CUDA_LAYER_SHORT : HYP_CUDA_LAYER_THREADS;
    before->then = out->steps > 1 ? &out->program[1] : NULL;
    return true;
}

/* Whether a step from `first` on reads what the layer leaves. */
static hyp_status is_read_later(const hyp_cuda_build *b, uint32_t y, uint32_t first, bool *out)
{
    const HypPlan__Program *p = b->program;
    HYP_VEC(uint32_t) list = {0};
    hyp_status status = HYP_OK;
    *out = false;
    for (uint32_t s = first; s < p->n_steps && status == HYP_OK && !*out; s++) {
        size_t count = hyp_plan_step_reads(p->steps[s], NULL, 0);
        status = hyp_vec_reserve(&list, count + 1, b->diag);
        if (status != HYP_OK) break;
        hyp_plan_step_reads(p->steps[s], list.data, count);
        for (size_t i = 0; i < count; i++) *out = *out || hyp_plan_root(p, list.data[i]) == y;
    }
    hyp_vec_free(&list);
    return status;
}

hyp_status hyp_cuda_want_cell(const hyp_cuda_build *b, uint32_t step, uint32_t *out_steps)
{
    cell c;
    bool found = find_cell(b, step, &c);
    *out_steps = found ? c.steps : 0;
    return found ? hyp_cuda_told_want(b->session->model->device, c.program, b->diag) : HYP_OK;
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
    hyp_choice_offer(&choice, c->steps > 1 ? "few-rows, with two steps" : "few-rows, with the next step", 0, seconds, NULL);
    hyp_choice_offer(&choice, "few-rows, then what follows", 1, seconds + c->steps * hyp_cuda_own_seconds, NULL);
    hyp_choose(&choice, NULL);
    return hyp_vec_push(&b->prepared->choices, b->diag, choice);
}

static hyp_status add(hyp_cuda_build *b, const HypPlan__Linear *k, const cell *c, CUfunction function)
{
    const HypPlan__Layer *layer = k->layers[0];
    hyp_cuda_cell args = {.layer = c->form.args};
    hyp_cuda_slot slots[5 + HYP_CUDA_CELL_STEPS * (HYP_CUDA_PW_INPUTS + HYP_CUDA_PW_OUTPUTS)];
    size_t count = 0;
    bool wanted;
    HYP_TRY(is_read_later(b, k->y, b->step + 1 + c->steps, &wanted));
    args.layer.act = (uint8_t)hyp_plan_act_op(layer->act);
    args.layer.add_after = k->add_after != 0;
    args.layer.constant = hyp_cuda_is_constant(b, layer->weight + 1);
    args.layer.bias_constant = hyp_cuda_is_constant(b, layer->bias_plus1);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.weight, layer->weight + 1);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.x, k->x + 1);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.y, wanted ? k->y + 1 : 0);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.bias, layer->bias_plus1);
    slots[count++] = (hyp_cuda_slot)HYP_CUDA_SLOT(hyp_cuda_cell, layer.added, k->added_plus1);
    for (uint32_t t = 0; t < c->steps; t++) {
        const HypPlan__Pointwise *step = c->step[t];
        const size_t at = offsetof(hyp_cuda_cell, step) + t * sizeof(hyp_cuda_cell_step), size = sizeof(uint64_t);
        for (size_t i = 0; i < step->n_inputs; i++)
            slots[count++] = (hyp_cuda_slot){(uint32_t)(at + offsetof(hyp_cuda_cell_step, input) + i * size),
                                             step->inputs[i]->tensor + 1, 0};
        for (size_t o = 0; o < step->n_outputs; o++)
            slots[count++] = (hyp_cuda_slot){(uint32_t)(at + offsetof(hyp_cuda_cell_step, output) + o * size),
                                             step->outputs[o] + 1, 0};
    }
    const hyp_cuda_grid grid = {.function = function,
                                .blocks = c->form.blocks,
                                .block_x = c->form.threads,
                                .block_y = 1,
                                .shared_bytes = (uint32_t)c->form.shared_bytes};
    HYP_TRY(hyp_cuda_add_launch(b, &grid, &args, sizeof args, slots, count));
    b->prepared->ops.data[b->prepared->ops.len - 1].last_step = b->step += c->steps;
    return note_choice(b, k, c);
}

hyp_status hyp_cuda_add_cell(hyp_cuda_build *b, const HypPlan__Linear *k, bool *out_done)
{
    cell c;
    CUfunction function;
    *out_done = false;
    if (!b->read || !find_cell(b, b->step, &c)) return HYP_OK;
    HYP_TRY(hyp_cuda_told_find(b->session->model->device, c.program, &function, b->diag));
    *out_done = function != NULL;
    return function ? add(b, k, &c, function) : HYP_OK;
}
