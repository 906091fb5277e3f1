/* pointwise_prepare.c - pointwise steps as pointwise.c runs them: how they walk through their tensors, and instructions
 * that are done together. */
#include <math.h>

#include "plan/laid_box.h"
#include "runtime/cpu/pointwise.h"

typedef hyp_cpu_pointwise pointwise;
enum { LANES = HYP_POINTWISE_LANES };

/* The last result need not be rounded before it is stored in the same type, if it goes nowhere else. */
static void leave_rounding_to_stores(pointwise *s)
{
    size_t last = s->inputs + s->instrs - 1;
    for (size_t i = 0; i < s->outputs; i++)
        if (s->instrs == 0 || s->output[i].reg != last || s->output[i].dtype != s->instr[s->instrs - 1].block.to)
            return;
    s->instr[s->instrs - 1].block.to = HYP_F32;
}

/* Of whole numbers that floats hold nothing is rounded: bytes, and a few sums of them, in wider types of integers. */
static void leave_whole_numbers(pointwise *s)
{
    enum { EXACT = 1 << 24 };
    double most[HYP_PLAN_POINTWISE_REGISTERS]; /* their size; INFINITY: they need not be whole */
    for (size_t i = 0; i < s->inputs; i++) {
        hyp_dtype t = s->input[i].dtype;
        most[i] = t == HYP_U8 || t == HYP_I8 || t == HYP_BOOL ? 255 : INFINITY;
    }
    for (size_t i = 0; i < s->instrs; i++) {
        const HypPlan__Pointwise__Instr *in = s->step->instrs[i];
        hyp_block_instr *own = &s->instr[i].block;
        double *to = &most[s->inputs + i];
        bool sums = in->op == HYP_PLAN__POINTWISE__OP__ADD || in->op == HYP_PLAN__POINTWISE__OP__SUB;
        *to = sums ? most[in->a] + most[in->b] : in->op == HYP_PLAN__POINTWISE__OP__CAST ? most[in->a] : INFINITY;
        bool wide = own->to == HYP_I32 || own->to == HYP_I64 || own->to == HYP_F32;
        if (!wide || *to > EXACT) *to = INFINITY;
        if (*to <= EXACT) own->to = HYP_F32;
    }
}

static int operands_of(const pointwise *s, size_t i)
{
    if (s->instr[i].joined) return 0;
    return s->instr[i].block.times ? 3 : hyp_plan_pointwise_arity(s->instr[i].block.op);
}

/* How many results and operands of instructions that are done are this register. */
static size_t count_readers(const pointwise *s, size_t reg)
{
    size_t readers = 0;
    for (size_t i = 0; i < s->outputs; i++) readers += s->output[i].reg == reg;
    for (size_t i = 0; i < s->instrs; i++)
        for (int j = 0; j < operands_of(s, i); j++) readers += s->instr[i].from[j] == reg;
    return readers;
}

/* Whether a register is what this operator makes in f32, for one reader. Gives the instruction. */
static bool made_by(const pointwise *s, size_t reg, HypPlan__Pointwise__Op op, size_t *instr)
{
    if (reg < s->inputs) return false;
    *instr = reg - s->inputs;
    const hyp_block_instr *in = &s->instr[*instr].block;
    return in->op == op && in->to == HYP_F32 && count_readers(s, reg) == 1;
}

/* Sums multiply a term, and relu of a sum is done with it, so that these pass through the cache once. */
static void join_instructions(pointwise *s)
{
    for (size_t i = 0, made; i < s->instrs; i++) {
        hyp_block_instr *in = &s->instr[i].block;
        uint32_t *from = s->instr[i].from;
        if (in->op == HYP_PLAN__POINTWISE__OP__RELU && made_by(s, from[0], HYP_PLAN__POINTWISE__OP__ADD, &made)) {
            memcpy(from, s->instr[made].from, sizeof s->instr[i].from);
            in->op = HYP_PLAN__POINTWISE__OP__ADD;
            in->times = s->instr[made].block.times;
            in->relu = true;
            s->instr[made].joined = true;
        }
        if (in->op != HYP_PLAN__POINTWISE__OP__ADD || in->relu) continue;
        for (int j = 0; j < 2 && !in->times; j++) {
            if (!made_by(s, from[j], HYP_PLAN__POINTWISE__OP__MUL, &made)) continue;
            const uint32_t *factors = s->instr[made].from, other = from[1 - j];
            memcpy(from, (uint32_t[]){factors[0], other, factors[1]}, sizeof s->instr[i].from);
            in->times = s->instr[made].joined = true;
        }
    }
}

/* Whether an instruction can have one number for an operand. */
static bool takes_one(HypPlan__Pointwise__Op op)
{
    return op == HYP_PLAN__POINTWISE__OP__ADD || op == HYP_PLAN__POINTWISE__OP__SUB || op == HYP_PLAN__POINTWISE__OP__MUL ||
           op == HYP_PLAN__POINTWISE__OP__DIV || op == HYP_PLAN__POINTWISE__OP__MIN || op == HYP_PLAN__POINTWISE__OP__MAX;
}

/* Numbers that stay the same along a run need not be written out for instructions that take one. */
static void find_ones(pointwise *s)
{
    for (size_t i = 0; i < s->inputs; i++) {
        bool one = s->steps[i] == 0 && (s->together == 1 || s->input[i].fixed);
        for (size_t o = 0; o < s->outputs; o++) one = one && s->output[o].reg != i;
        for (size_t k = 0; k < s->instrs; k++)
            for (int j = 0; j < operands_of(s, k); j++)
                one = one && (s->instr[k].from[j] != i || takes_one(s->instr[k].block.op));
        s->input[i].one = one;
        for (size_t k = 0; k < s->instrs && one; k++)
            for (int j = 0; j < operands_of(s, k); j++)
                s->instr[k].block.ones |= (unsigned)(s->instr[k].from[j] == i) << j;
    }
}

/* Operands that an instruction does not have are its first one: kernels may load three vectors whatever they compute. */
static void fill_operands(pointwise *s)
{
    for (size_t i = 0; i < s->instrs; i++)
        for (int j = operands_of(s, i); j > 0 && j < 3; j++) {
            s->instr[i].from[j] = s->instr[i].from[0];
            s->instr[i].block.ones |= (s->instr[i].block.ones & 1) << j;
        }
}

static bool is_dense(const pointwise *s, size_t i)
{
    int64_t each = s->length;
    bool dense = s->steps[i] == 1;
    for (size_t a = s->walk.rank; a-- > 0; each *= s->walk.extents[a])
        dense = dense && (s->walk.strides[i][a] == each || s->walk.extents[a] == 1);
    return dense;
}

/* One number, or in blocks of whole runs what is the same in each of these. */
static bool is_fixed(const pointwise *s, size_t i)
{
    bool fixed = s->steps[i] == 0 || s->together > 1;
    for (size_t a = 0; a < s->walk.rank; a++) fixed = fixed && (s->walk.strides[i][a] == 0 || s->walk.extents[a] == 1);
    return fixed;
}

/* As much as the registers have room for in the first-level cache: a call for every block takes as long as some hundred
 * elements. 16 bits are rounded by kernels that have room for no more than the least. */
static int64_t choose_block(const pointwise *s)
{
    enum { ROOM = 4096 };
    int64_t block = HYP_BLOCK;
    if (s->compute != HYP_F32) return block;
    for (size_t i = 0; i < s->instrs; i++)
        if (s->instr[i].block.to != HYP_F32) return block;
    while (2 * block * (int64_t)hyp_pointwise_registers(s) <= ROOM) block *= 2;
    return block;
}

/* Short runs share blocks, so many that a block is whole vectors where it has room for that: these are read and written
 * where they lie. */
static int64_t choose_together(const pointwise *s)
{
    if (s->compute != HYP_F32 || s->length <= 0 || s->length > HYP_BLOCK / 2) return 1;
    int64_t runs = s->block / s->length, whole = LANES;
    while (whole > 1 && s->length * whole / 2 % LANES == 0) whole /= 2;
    return runs > whole ? runs / whole * whole : runs;
}

static bool is_direct(const pointwise *s)
{
    return s->compute == HYP_F32 && !s->far && s->outputs == 1 && s->output[0].dtype == HYP_F32 && s->instrs > 0 &&
           s->output[0].reg == s->inputs + s->instrs - 1 && !hyp_pointwise_is_constant(s, s->instrs - 1);
}

/* The walk through tensors as they lie, in the order of the results; inputs are its lanes. */
static void find_walk(const HypPlan__Program *p, const hyp_cpu_op *op, const int64_t *values, const bool *channels_last,
                      hyp_walk *walk)
{
    const HypPlan__Pointwise *step = op->step->pointwise;
    hyp_laid_box laid;
    if (channels_last[step->outputs[0]] && hyp_lay_pointwise(p, step, values, channels_last, &laid)) {
        *walk = (hyp_walk){.rank = laid.rank, .lanes = step->n_inputs};
        memcpy(walk->extents, laid.extents, sizeof laid.extents);
        for (size_t i = 0; i < step->n_inputs; i++)
            hyp_cpu_walk_tensor(op, p, values, step->inputs[i]->tensor, &laid, 1 + i, walk, i);
        return;
    }
    hyp_walk_init(walk, values, step->extents, step->n_extents);
    for (size_t i = 0; i < step->n_inputs; i++) hyp_walk_lane(walk, values, step->inputs[i]->strides, 0);
}

/* Results that lie in rows of another tensor are a run each; false where runs are shorter. */
static bool divide_rows(const HypPlan__Program *p, const int64_t *values, pointwise *s)
{
    const HypPlan__Tensor *y = p->tensors[s->output[0].tensor];
    bool rows = false;
    for (size_t i = 0; i < s->outputs; i++) rows = rows || s->output[i].apart;
    if (!rows) return true;
    int64_t each = values[y->dims[1]], count = s->length / each;
    if (s->length % each != 0) return false;
    for (size_t i = 0; i < s->outputs; i++)
        if (!s->output[i].apart) s->output[i].apart = each;
    if (count == 1) return true;
    if (s->walk.rank == HYP_MAX_RANK) return false;
    for (size_t i = 0; i < s->inputs; i++) s->walk.strides[i][s->walk.rank] = s->steps[i] * each;
    s->walk.extents[s->walk.rank++] = count;
    s->length = each;
    s->runs *= count;
    return true;
}

/* False where results cannot be written where they are to lie. */
static bool translate(const HypPlan__Program *p, const hyp_cpu_op *op, const int64_t *values, const bool *channels_last,
                      pointwise *s)
{
    const HypPlan__Pointwise *step = op->step->pointwise;
    *s = (pointwise){.step = step,
                     .compute = (hyp_dtype)step->compute,
                     .inputs = step->n_inputs,
                     .instrs = step->n_instrs,
                     .outputs = step->n_outputs};
    find_walk(p, op, values, channels_last, &s->walk);
    for (size_t i = 0; i < s->inputs; i++) {
        s->input[i].tensor = step->inputs[i]->tensor;
        s->input[i].dtype = hyp_tensor_dtype(p, s->input[i].tensor);
    }
    for (size_t i = 0; i < s->instrs; i++) {
        const HypPlan__Pointwise__Instr *in = step->instrs[i];
        s->instr[i].block = (hyp_block_instr){.op = in->op, .p = (float)in->p, .q = (float)in->q, .to = (hyp_dtype)in->to};
        memcpy(s->instr[i].from, (uint32_t[]){in->a, in->b, in->c}, sizeof s->instr[i].from);
    }
    for (size_t i = 0; i < s->outputs; i++) {
        s->output[i].tensor = step->outputs[i];
        s->output[i].reg = step->output_regs[i];
        s->output[i].dtype = hyp_tensor_dtype(p, step->outputs[i]);
        s->output[i].apart = hyp_cpu_apart(op, step->outputs[i]);
        if (s->output[i].reg < s->inputs) s->input[s->output[i].reg].copied = true;
    }
    leave_whole_numbers(s);
    leave_rounding_to_stores(s);
    hyp_walk_coalesce(&s->walk);
    s->length = hyp_walk_take_inner(&s->walk, s->steps);
    s->runs = hyp_walk_count(&s->walk);
    return divide_rows(p, values, s);
}

/* Whether a step reads and writes so much that who reads a result does not find it in a cache. Systems do not say what part of
 * the last level is ours; measured (EPYC, 32 MiB of it): four arrays read and three written took 1.3 times as long
 * streamed at 14 MB, 0.83 times at 28 MB, 0.71 times from 56 MB on. */
static bool is_far(const pointwise *s)
{
    enum { FAR = 32 << 20 };
    double bytes = 0;
    for (size_t i = 0; i < s->inputs; i++) bytes += s->steps[i] ? (double)hyp_dtype_size(s->input[i].dtype) : 0;
    for (size_t i = 0; i < s->outputs; i++) bytes += (double)hyp_dtype_size(s->output[i].dtype);
    return bytes * (double)s->runs * (double)s->length > FAR;
}

hyp_status hyp_cpu_prepare_pointwise(hyp_cpu_model *model, const int64_t *values, const bool *channels_last,
                                     hyp_cpu_op *op, hyp_diag *diag)
{
    pointwise s;
    if (!translate(model->plan->program, op, values, channels_last, &s)) return HYP_OK;
    s.far = is_far(&s);
    s.block = choose_block(&s);
    s.together = choose_together(&s);
    for (size_t i = 0; i < s.inputs; i++) {
        s.input[i].dense = is_dense(&s, i);
        s.input[i].fixed = is_fixed(&s, i) && !(s.input[i].dense && s.runs == 1);
    }
    if (s.compute == HYP_F32) {
        join_instructions(&s);
        find_ones(&s);
        fill_operands(&s);
    }
    s.direct = is_direct(&s);
    op->work_bytes = (size_t)model->device->threads * hyp_pointwise_registers(&s) * hyp_pointwise_block_bytes(&s);
    return hyp_cpu_keep_state(op, hyp_cpu_run_pointwise, &s, sizeof s, diag);
}
