#include "runtime/cuda/ops/pointwise_program.h"

#include <string.h>

#include "base/dtype.h"
#include "kernels/scalar.h"
#include "plan/laid_box.h"

_Static_assert((int)HYP_CUDA_PW_INPUTS >= (int)HYP_PLAN_POINTWISE_INPUTS &&
                   (int)HYP_CUDA_PW_OUTPUTS >= (int)HYP_PLAN_POINTWISE_OUTPUTS &&
                   (int)HYP_CUDA_PW_REGISTERS >= (int)HYP_PLAN_POINTWISE_REGISTERS &&
                   (int)HYP_CUDA_DIMS >= HYP_MAX_RANK,
               "the kernels take every valid step");
_Static_assert(sizeof(hyp_cuda_pointwise) <= 4096, "what a launch may carry");

enum { THREADS = 128, SHARED_LIMIT = 48 << 10 };
/* A result that is not kept needs no temp. */
enum { NO_TEMP = 0 };

/* The instructions in order of execution; the registers they read and write. */
typedef struct line {
    hyp_cuda_pw_instr *out;
    uint32_t a, b, c, result; /* registers; NONE where there is none */
} line;
enum { NONE = UINT8_MAX };

typedef struct encoder {
    const hyp_cuda_pw_step *step;
    hyp_cuda_pw_program *out;
    line lines[HYP_CUDA_PW_INSTRS];
    size_t line_count;
    /* By register: constants hold their index + 1, other registers 0. */
    uint8_t constant_plus1[HYP_CUDA_PW_REGISTERS + HYP_CUDA_PW_OUTPUTS];
} encoder;

static bool is_computed(const encoder *e, uint32_t reg)
{
    return reg >= e->step->inputs && reg < HYP_CUDA_PW_REGISTERS + HYP_CUDA_PW_OUTPUTS && !e->constant_plus1[reg];
}

static void add_line(encoder *e, uint32_t op, hyp_dtype to, uint32_t a, uint32_t b, uint32_t result)
{
    hyp_cuda_pw_instr *out = &e->out->args.instr[e->line_count];
    *out = (hyp_cuda_pw_instr){.op = (uint8_t)op, .to = (uint8_t)to};
    e->lines[e->line_count++] = (line){out, a, b, NONE, result};
}

static void add_constant(encoder *e, const HypPlan__Pointwise__Instr *in, uint32_t reg, uint8_t *count)
{
    uint64_t stored;
    hyp_store_f64((hyp_dtype)in->to, &stored, 0, in->p);
    e->out->args.constant[*count] = hyp_load_f64((hyp_dtype)in->to, &stored, 0);
    e->constant_plus1[reg] = ++*count;
}

static void set_parameters(const hyp_cuda_pw_step *s, const HypPlan__Pointwise__Instr *in, hyp_cuda_pw_instr *out)
{
    out->p = in->p;
    out->q = in->q;
    bool is_u64 = s->compute == HYP_U64;
    if (in->op != HYP_PLAN__POINTWISE__OP__CLIP || (s->compute != HYP_I64 && !is_u64)) return;
    int64_t low = hyp_clip_bound_i64(in->p, true, is_u64), high = hyp_clip_bound_i64(in->q, false, is_u64);
    memcpy(&out->p, &low, sizeof low);
    memcpy(&out->q, &high, sizeof high);
}

/* Lists what the kernel executes: the instructions without constants, then the stores. An output that is an input
 * is read before the first store, which may replace that input. */
static void list_lines(encoder *e)
{
    const hyp_cuda_pw_step *s = e->step;
    uint8_t constants = 0;
    uint32_t reg = (uint32_t)s->inputs, regs = (uint32_t)(s->inputs + s->instrs);
    for (size_t i = 0; i < s->instrs; i++, reg++) {
        const HypPlan__Pointwise__Instr *in = s->instr[i];
        if (in->op == HYP_PLAN__POINTWISE__OP__CONST) {
            add_constant(e, in, reg, &constants);
            continue;
        }
        int arity = hyp_plan_pointwise_arity(in->op);
        add_line(e, (uint32_t)in->op, (hyp_dtype)in->to, in->a, arity >= 2 ? in->b : NONE, reg);
        line *l = &e->lines[e->line_count - 1];
        if (arity == 3) l->c = in->c;
        set_parameters(s, in, l->out);
    }
    uint32_t source[HYP_CUDA_PW_OUTPUTS];
    for (size_t o = 0; o < s->outputs; o++) {
        source[o] = s->output_reg[o];
        if (source[o] >= s->inputs || s->outputs == 1) continue;
        add_line(e, HYP_PW_CAST, s->compute, source[o], NONE, regs);
        source[o] = regs++;
    }
    for (uint32_t o = 0; o < s->outputs; o++) {
        add_line(e, HYP_PW_STORE, s->compute, source[o], NONE, NONE);
        e->lines[e->line_count - 1].out->b = (hyp_cuda_pw_operand){HYP_PW_OUTPUT, (uint8_t)o};
    }
}

/* A result that only goes to outputs of the type that it is rounded to need not be rounded before. */
static void leave_rounding_to_stores(encoder *e)
{
    for (size_t i = 0; i < e->line_count; i++) {
        const line *l = &e->lines[i];
        bool needed = l->result == NONE;
        for (size_t j = i + 1; j < e->line_count && !needed; j++) {
            const line *use = &e->lines[j];
            if (use->a != l->result && use->b != l->result && use->c != l->result) continue;
            needed = use->out->op != HYP_PW_STORE || e->step->output_dtype[use->out->b.index] != (hyp_dtype)l->out->to;
        }
        if (!needed) l->out->to = (uint8_t)e->step->compute;
    }
}

/* For each computed register the last line that must find it in a temp; lines where it is still the last result do
 * not count. SIZE_MAX = none. */
static void find_last_uses(const encoder *e, size_t *last_use)
{
    uint32_t last = NONE; /* the register whose value the kernel has at hand */
    for (size_t i = 0; i < e->line_count; i++) {
        const line *l = &e->lines[i];
        const uint32_t read[] = {l->a, l->b, l->c};
        for (int r = 0; r < 3; r++)
            if (is_computed(e, read[r]) && read[r] != last) last_use[read[r]] = i;
        if (l->result != NONE) last = l->result;
    }
}

static hyp_cuda_pw_operand operand(const encoder *e, uint32_t reg, uint32_t last, const uint8_t *temp)
{
    if (reg < e->step->inputs) return (hyp_cuda_pw_operand){HYP_PW_INPUT, (uint8_t)reg};
    if (e->constant_plus1[reg]) return (hyp_cuda_pw_operand){HYP_PW_CONST, (uint8_t)(e->constant_plus1[reg] - 1)};
    if (reg == last) return (hyp_cuda_pw_operand){HYP_PW_LAST, 0};
    return (hyp_cuda_pw_operand){HYP_PW_TEMP, (uint8_t)(temp[reg] - 1)};
}

/* Gives a temp to each register that is needed later than by the next line; a line reads before it writes, so a
 * result may take the temp of its last operand. Returns how many temps there are. */
static uint32_t place_operands(encoder *e)
{
    enum { REGISTERS = HYP_CUDA_PW_REGISTERS + HYP_CUDA_PW_OUTPUTS };
    size_t last_use[REGISTERS];
    uint8_t temp[REGISTERS] = {NO_TEMP};               /* index + 1 */
    uint32_t owner[REGISTERS], temps = 0, last = NONE; /* owner: by temp, the register in it */
    for (size_t r = 0; r < REGISTERS; r++) last_use[r] = SIZE_MAX;
    find_last_uses(e, last_use);
    for (size_t i = 0; i < e->line_count; i++) {
        line *l = &e->lines[i];
        l->out->a = operand(e, l->a, last, temp);
        if (l->b != NONE) l->out->b = operand(e, l->b, last, temp);
        if (l->c != NONE) l->out->c = operand(e, l->c, last, temp);
        if (l->result == NONE) continue;
        last = l->result;
        if (last_use[last] == SIZE_MAX) continue;
        uint32_t t = 0;
        while (t < temps && last_use[owner[t]] > i) t++;
        if (t == temps) temps++;
        owner[t] = last;
        temp[last] = (uint8_t)(t + 1);
        l->out->temp_plus1 = (uint8_t)(t + 1);
    }
    e->out->args.instrs = (uint32_t)e->line_count;
    return temps;
}

/* May a thread move HYP_CUDA_PW_VECTOR neighbours in one access? Every row of the tensor must begin at a multiple. */
static bool is_vector(hyp_dtype dtype, const hyp_cuda_box *box, const int64_t *stride)
{
    if (dtype != HYP_F32 && dtype != HYP_F16 && dtype != HYP_BF16 && dtype != HYP_F8E4M3) return false;
    if (stride[0] != 1) return false;
    for (uint32_t a = 1; a < box->rank; a++)
        if (stride[a] % HYP_CUDA_PW_VECTOR != 0) return false;
    return true;
}

static void set_tensors(const hyp_cuda_pw_step *s, const hyp_cuda_box *box, hyp_cuda_pointwise *args)
{
    int64_t dense[HYP_CUDA_DIMS] = {1};
    for (uint32_t a = 1; a < box->rank; a++) dense[a] = dense[a - 1] * box->extent[a - 1];
    for (size_t i = 0; i < s->inputs; i++) {
        args->input[i].dtype = s->input_dtype[i];
        args->input[i].vector = is_vector(s->input_dtype[i], box, box->stride[i]);
        for (uint32_t a = 0; a < box->rank; a++) args->input[i].stride[a] = box->stride[i][a];
    }
    for (size_t o = 0; o < s->outputs; o++) {
        args->output[o].dtype = s->output_dtype[o];
        args->output[o].vector = is_vector(s->output_dtype[o], box, dense);
    }
}

static void choose_kernel(const hyp_cuda_pw_step *s, const hyp_cuda_box *box, uint32_t temps, hyp_cuda_pw_program *out)
{
    bool narrow = s->compute == HYP_F32;
    uint32_t lanes = narrow ? HYP_CUDA_PW_VECTOR : 1;
    out->kernel = narrow                  ? HYP_CUDA_KERNEL_pointwise_f32
                  : s->compute == HYP_F64 ? HYP_CUDA_KERNEL_pointwise_f64
                  : s->compute == HYP_U64 ? HYP_CUDA_KERNEL_pointwise_u64
                                          : HYP_CUDA_KERNEL_pointwise_i64;
    uint32_t thread_bytes = temps * lanes * (narrow ? 4 : 8);
    out->threads = THREADS;
    while (out->threads * thread_bytes > SHARED_LIMIT) out->threads /= 2;
    out->shared_bytes = out->threads * thread_bytes;
    int64_t row = (box->extent[0] + lanes - 1) / lanes;
    out->args.row_chunks = hyp_cuda_extent_of(row);
    out->args.chunks = row;
    for (uint32_t a = 1; a < box->rank; a++) out->args.chunks *= box->extent[a];
}

/* Functions that the kernels have in double alone. Every result is rounded to the type that its instruction says, so
 * that a step of floats may run in double. */
static bool needs_double(const hyp_cuda_pw_step *s)
{
    for (size_t i = 0; i < s->instrs; i++) {
        HypPlan__Pointwise__Op op = s->instr[i]->op;
        switch ((int)op) {
#define RARE_V(OP)
#define RARE_I(OP)
#define RARE_L(OP) case HYP_PW_##OP:
#define X(op, name, OP, number, act, weight, kind, onnx, since, ...) RARE_##kind(OP)
            HYP_FUNCTIONS(X)
#undef X
        case HYP_PW_MOD:
        case HYP_PW_FMOD: return true;
        default: break;
        }
    }
    return false;
}

static void lay_box(const hyp_laid_box *laid, size_t inputs, hyp_cuda_box *box)
{
    *box = (hyp_cuda_box){.rank = (uint32_t)laid->rank, .lanes = (uint32_t)inputs};
    for (uint32_t a = 0; a < box->rank; a++) {
        size_t from = laid->rank - 1 - a;
        box->extent[a] = laid->extents[from];
        for (size_t i = 0; i < inputs; i++) box->stride[i][a] = laid->strides[1 + i][from];
    }
}

void hyp_cuda_pw_step_init(hyp_cuda_pw_step *out, const HypPlan__Program *program, const int64_t *values,
                           const bool *channels_last, const HypPlan__Pointwise *k)
{
    hyp_laid_box laid;
    *out = (hyp_cuda_pw_step){.compute = (hyp_dtype)k->compute,
                              .inputs = k->n_inputs,
                              .instrs = k->n_instrs,
                              .outputs = k->n_outputs,
                              .instr = k->instrs,
                              .output_reg = k->output_regs};
    hyp_cuda_box_init(&out->box, values, k->n_extents, k->extents);
    for (size_t i = 0; i < k->n_inputs; i++) {
        hyp_cuda_box_add_lane(&out->box, values, k->inputs[i]->strides);
        out->input_dtype[i] = (hyp_dtype)program->tensors[k->inputs[i]->tensor]->dtype;
    }
    for (size_t o = 0; o < k->n_outputs; o++) out->output_dtype[o] = (hyp_dtype)program->tensors[k->outputs[o]]->dtype;
    if (channels_last && channels_last[k->outputs[0]] && hyp_lay_pointwise(program, k, values, channels_last, &laid))
        lay_box(&laid, k->n_inputs, &out->box);
}

void hyp_cuda_pw_encode(const hyp_cuda_pw_step *given, hyp_cuda_pw_program *out)
{
    hyp_cuda_pw_step wide = *given, *step = &wide;
    if (wide.compute == HYP_F32 && needs_double(given)) wide.compute = HYP_F64;
    *out = (hyp_cuda_pw_program){.gated = given->gated};
    encoder e = {.step = step, .out = out};
    list_lines(&e);
    leave_rounding_to_stores(&e);
    uint32_t temps = place_operands(&e);
    hyp_cuda_box box = step->box;
    hyp_cuda_box_merge(&box);
    if (box.rank == 0) { /* one element: an axis of it, which every input starts at */
        box.rank = 1;
        box.extent[0] = 1;
        for (uint32_t l = 0; l < box.lanes; l++) box.stride[l][0] = 0;
    }
    out->args.rank = box.rank;
    for (uint32_t a = 0; a < box.rank; a++) out->args.extent[a] = hyp_cuda_extent_of(box.extent[a]);
    set_tensors(step, &box, &out->args);
    choose_kernel(step, &box, temps, out);
}
