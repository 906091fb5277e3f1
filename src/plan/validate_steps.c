/* validate_steps.c - checks the steps of a program whose tensors are right: what each kernel wants, and that it reads
 * what was written before and is still there.
 */
#include <float.h>
#include <string.h>

#include "base/dtype.h"
#include "base/elementwise.h"
#include "plan/validate.h"

typedef HypPlan__Tensor tensor;
typedef HypPlan__Step step;

/* What was read and written by the steps so far; the arrays are in the arena. */
typedef struct check {
    const HypPlan__Program *program;
    hyp_diag *diag;
    hyp_arena arena;
    uint8_t *written;     /* by tensor: how it was written so far, a WRITTEN_* */
    uint32_t *slot_owner; /* by slot: the scratch tensor + 1 whose elements it holds */
    uint32_t *slot_read;  /* by slot: the last step + 1 that reads it */
    uint32_t *slot_reads; /* by slot: how often that step does so */
    uint32_t *slot_write; /* by slot: the last step + 1 that writes it */
    uint32_t now;         /* the step being checked + 1 */
} check;

enum { NOT_WRITTEN, WRITTEN_PART, WRITTEN };

#define WRONG(c, ...) hyp_fail((c)->diag, HYP_ERR_MALFORMED, __VA_ARGS__)

static bool is_float(uint32_t dtype) { return hyp_dtype_is_float((hyp_dtype)dtype); }

/* ---- indexes -------------------------------------------------------------------------------------- */

hyp_status hyp_plan_unknown(hyp_diag *diag, const char *what, long long value)
{
    return hyp_fail(
        diag, HYP_ERR_INCOMPATIBLE,
        "the plan uses a %s (%lld) that this version of Hypatia does not know; run it with the version that "
        "built it, or build it again with the hypatiac of this version",
        what, value);
}

hyp_status hyp_plan_want_dims(const HypPlan__Program *p, size_t n, const uint32_t *dims, const char *what,
                              hyp_diag *diag)
{
    if (n > HYP_MAX_RANK)
        return hyp_fail(diag, HYP_ERR_MALFORMED, "%s has %zu axes, at most %d are possible", what, n, HYP_MAX_RANK);
    for (size_t i = 0; i < n; i++)
        if (dims[i] >= p->n_dims)
            return hyp_fail(diag, HYP_ERR_MALFORMED, "%s is dim %u of %zu", what, dims[i], p->n_dims);
    return HYP_OK;
}

static hyp_status want_dims(check *c, size_t n, const uint32_t *dims, const char *what)
{
    return hyp_plan_want_dims(c->program, n, dims, what, c->diag);
}

static hyp_status want_dim(check *c, uint32_t d, const char *what) { return want_dims(c, 1, &d, what); }

static hyp_status want_strides(check *c, size_t n, const uint32_t *dims, size_t axes, const char *what)
{
    if (n != axes) return WRONG(c, "%s has %zu strides for %zu axes", what, n, axes);
    return want_dims(c, n, dims, what);
}

static hyp_status want_indexes(check *c, size_t n, const uint32_t *indexes, size_t limit, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (indexes[i] >= limit) return WRONG(c, "%s %u of %zu", what, indexes[i], limit);
    return HYP_OK;
}

/* ---- reads and writes ------------------------------------------------------------------------------ */

static hyp_status want_tensor(check *c, uint32_t t, const char *what)
{
    if (t < c->program->n_tensors) return HYP_OK;
    return WRONG(c, "%s is tensor %u of %zu", what, t, c->program->n_tensors);
}

static uint32_t dtype_of(const check *c, uint32_t t) { return c->program->tensors[t]->dtype; }

static bool is_window(const check *c, uint32_t t) { return hyp_plan_is_window(c->program->tensors[t]); }

static hyp_status reads(check *c, uint32_t index, const char *what)
{
    HYP_TRY(want_tensor(c, index, what));
    uint32_t root = hyp_plan_root(c->program, index);
    const tensor *t = c->program->tensors[root];
    if (t->place == HYP_PLAN__PLACE__PLACE_INPUT || t->place == HYP_PLAN__PLACE__PLACE_WEIGHT) return HYP_OK;
    if (c->written[root] == NOT_WRITTEN) return WRONG(c, "%s, tensor %u, is read before it is written", what, index);
    if (t->place == HYP_PLAN__PLACE__PLACE_SCRATCH) {
        if (c->slot_owner[t->slot] != root + 1)
            return WRONG(c, "%s, tensor %u, was overwritten in slot %u", what, index, t->slot);
        c->slot_reads[t->slot] = c->slot_read[t->slot] == c->now ? c->slot_reads[t->slot] + 1 : 1;
        c->slot_read[t->slot] = c->now;
    }
    return HYP_OK;
}

/* A copy may write a part of its tensor; every other kernel writes all of it, once. */
static hyp_status writes(check *c, uint32_t index, bool part, bool in_place, const char *what)
{
    HYP_TRY(want_tensor(c, index, what));
    const tensor *t = c->program->tensors[index];
    bool scratch = t->place == HYP_PLAN__PLACE__PLACE_SCRATCH;
    if (!scratch && t->place != HYP_PLAN__PLACE__PLACE_OUTPUT)
        return WRONG(c, "%s, tensor %u, is neither an output nor scratch", what, index);
    bool more = part && c->written[index] == WRITTEN_PART;
    if (c->written[index] != NOT_WRITTEN && !more) return WRONG(c, "%s, tensor %u, is written twice", what, index);
    c->written[index] = part ? WRITTEN_PART : WRITTEN;
    if (!scratch) return HYP_OK;
    if (more && c->slot_owner[t->slot] != index + 1)
        return WRONG(c, "%s, tensor %u, was overwritten in slot %u before it was complete", what, index, t->slot);
    if (c->slot_read[t->slot] == c->now && !in_place)
        return WRONG(c, "%s, tensor %u, is in the slot of a tensor that the step reads", what, index);
    if (c->slot_write[t->slot] == c->now)
        return WRONG(c, "%s, tensor %u, is in the slot of another that the step writes", what, index);
    c->slot_write[t->slot] = c->now;
    c->slot_owner[t->slot] = index + 1;
    return HYP_OK;
}

/* Whether the result y is in the slot of the one tensor that it may replace, which nothing else in the step reads;
 * called when all its reads are checked. A window that begins elsewhere is not where the result is. */
static bool is_in_place(const check *c, const step *s, uint32_t y)
{
    uint32_t replaced_plus1 = hyp_plan_step_replaces(s);
    return replaced_plus1 && y < c->program->n_tensors && hyp_plan_same_slot(c->program, replaced_plus1 - 1, y) &&
           hyp_plan_first_byte(c->program, replaced_plus1 - 1) == 0 &&
           c->slot_reads[c->program->tensors[hyp_plan_root(c->program, y)]->slot] == 1;
}

static hyp_status want_same_type(check *c, uint32_t a, uint32_t b, const char *what)
{
    if (dtype_of(c, a) == dtype_of(c, b)) return HYP_OK;
    return WRONG(c, "%s is %s, wanted %s", what, hyp_dtype_name((hyp_dtype)dtype_of(c, b)),
                 hyp_dtype_name((hyp_dtype)dtype_of(c, a)));
}

/* Only pointwise and linear steps compute with f8e4m3; others may move it. */
static hyp_status want_no_f8(check *c, uint32_t t, const char *what)
{
    return dtype_of(c, t) != HYP_F8E4M3 ? HYP_OK : WRONG(c, "%s is of type %s", what, hyp_dtype_name(HYP_F8E4M3));
}

static hyp_status want_float(check *c, uint32_t t, const char *what)
{
    HYP_TRY(want_no_f8(c, t, what));
    return is_float(dtype_of(c, t)) ? HYP_OK : WRONG(c, "%s is not of a floating-point type", what);
}

/* Products are of floats or of integers, which are neither scaled nor have activations but relu. */
static hyp_status want_factor(check *c, uint32_t t, const char *what)
{
    HYP_TRY(want_no_f8(c, t, what));
    return dtype_of(c, t) != HYP_BOOL ? HYP_OK : WRONG(c, "%s is of type bool", what);
}

/* ---- kernels --------------------------------------------------------------------------------------- */

/* A layer that may normalize its input itself: what it reads then still stands, and x is only for it. */
static hyp_status check_own_norm(check *c, const HypPlan__Linear *k)
{
    const step *before = c->now > 1 ? c->program->steps[c->now - 2] : NULL;
    const HypPlan__Call *norm = before && before->kernel_case == HYP_PLAN__STEP__KERNEL_CALL ? before->call : NULL;
    uint32_t x = hyp_plan_root(c->program, k->x);
    if (!norm || (strcmp(norm->kernel, "layer-norm") != 0 && strcmp(norm->kernel, "rms-norm") != 0) ||
        norm->n_outputs != 1 || hyp_plan_root(c->program, norm->outputs[0]) != x || is_window(c, k->x) ||
        c->program->tensors[x]->place != HYP_PLAN__PLACE__PLACE_SCRATCH)
        return WRONG(c, "the step before is no normalization that makes x");
    for (size_t i = 0; i < norm->n_inputs_plus1; i++)
        if (norm->inputs_plus1[i]) HYP_TRY(reads(c, norm->inputs_plus1[i] - 1, "what is normalized"));
    c->written[x] = NOT_WRITTEN; /* for those after this step, and the rest of it */
    return HYP_OK;
}

static bool is_scale(float v, bool wanted) { return wanted ? v > 0 && v <= FLT_MAX : v == 0; }

/* Types and scales; x, y and the number of layers have been checked. */
static hyp_status check_scales(check *c, const HypPlan__Linear *k)
{
    bool f8 = dtype_of(c, k->x) == HYP_F8E4M3;
    if (!f8) {
        HYP_TRY(want_factor(c, k->x, "x"));
        HYP_TRY(want_same_type(c, k->x, k->y, "y"));
    } else if (k->n_layers != 1 || dtype_of(c, k->y) != HYP_BF16) {
        return WRONG(c, "it has %zu layers of %s to %s; one to bf16 is possible", k->n_layers,
                     hyp_dtype_name(HYP_F8E4M3), hyp_dtype_name((hyp_dtype)dtype_of(c, k->y)));
    }
    if (f8 && k->layers[0]->weight_kn) return WRONG(c, "a weight of %s is not [n,k]", hyp_dtype_name(HYP_F8E4M3));
    for (size_t i = 0; i < k->n_layers; i++)
        if (!is_scale(k->layers[i]->x_scale, f8) || !is_scale(k->layers[i]->weight_scale, f8))
            return WRONG(c, "layer %zu of %s has scales %g and %g", i, hyp_dtype_name((hyp_dtype)dtype_of(c, k->x)),
                         (double)k->layers[i]->x_scale, (double)k->layers[i]->weight_scale);
    return HYP_OK;
}

static hyp_status check_linear(check *c, const step *s)
{
    const HypPlan__Linear *k = s->linear;
    HYP_TRY(reads(c, k->x, "x"));
    HYP_TRY(want_tensor(c, k->y, "y"));
    if (k->normalizes) HYP_TRY(check_own_norm(c, k));
    HYP_TRY(want_dim(c, k->m, "m"));
    if (k->n_layers == 0) return WRONG(c, "it has no layers");
    HYP_TRY(check_scales(c, k));
    for (size_t i = 0; i < k->n_layers; i++) {
        const HypPlan__Layer *l = k->layers[i];
        HYP_TRY(want_dim(c, l->n, "n"));
        HYP_TRY(want_dim(c, l->k, "k"));
        HYP_TRY(reads(c, l->weight, "the weight"));
        HYP_TRY(want_same_type(c, k->x, l->weight, "the weight"));
        if (l->bias_plus1) {
            HYP_TRY(reads(c, l->bias_plus1 - 1, "the bias"));
            HYP_TRY(want_same_type(c, k->y, l->bias_plus1 - 1, "the bias"));
        }
        if ((unsigned)l->act >= HYP_ACTS) return hyp_plan_unknown(c->diag, "activation", l->act);
        if (!is_float(dtype_of(c, k->x)) && l->act != HYP_PLAN__ACT__ACT_NONE && l->act != HYP_PLAN__ACT__ACT_RELU)
            return WRONG(c, "layer %zu of %s ends in %s", i, hyp_dtype_name((hyp_dtype)dtype_of(c, k->x)),
                         hyp_plan_act_name(l->act));
        if ((l->hidden_plus1 == 0) != (i + 1 == k->n_layers))
            return WRONG(c, "layer %zu of %zu %s a hidden tensor", i, k->n_layers, l->hidden_plus1 ? "has" : "lacks");
    }
    if (k->added_plus1) {
        HYP_TRY(reads(c, k->added_plus1 - 1, "what is added"));
        HYP_TRY(want_same_type(c, k->y, k->added_plus1 - 1, "what is added"));
    }
    uint32_t before = UINT32_MAX; /* the slot of the layer before */
    for (size_t i = 0; i + 1 < k->n_layers; i++) {
        uint32_t hidden = k->layers[i]->hidden_plus1 - 1;
        HYP_TRY(want_tensor(c, hidden, "a hidden tensor"));
        HYP_TRY(want_same_type(c, k->x, hidden, "a hidden tensor"));
        const tensor *t = c->program->tensors[hidden];
        if (t->place != HYP_PLAN__PLACE__PLACE_SCRATCH) return WRONG(c, "hidden tensor %u is not scratch", hidden);
        if (t->slot == before) return WRONG(c, "two layers that follow each other share slot %u", before);
        before = t->slot;
        c->slot_write[t->slot] = 0; /* the layer before last may have been in this slot */
        HYP_TRY(writes(c, hidden, false, false, "a hidden tensor"));
    }
    return writes(c, k->y, false, is_in_place(c, s, k->y), "y");
}

static hyp_status check_matmul(check *c, const HypPlan__Matmul *k)
{
    HYP_TRY(reads(c, k->a, "a"));
    HYP_TRY(reads(c, k->b, "b"));
    HYP_TRY(want_factor(c, k->a, "a"));
    HYP_TRY(want_same_type(c, k->a, k->b, "b"));
    if (!is_float(dtype_of(c, k->a)) && k->alpha != 1)
        return WRONG(c, "a product of %s is scaled by %g", hyp_dtype_name((hyp_dtype)dtype_of(c, k->a)),
                     (double)k->alpha);
    HYP_TRY(want_dims(c, k->n_batch, k->batch, "the batch"));
    HYP_TRY(want_strides(c, k->n_a_strides, k->a_strides, k->n_batch, "a"));
    HYP_TRY(want_strides(c, k->n_b_strides, k->b_strides, k->n_batch, "b"));
    HYP_TRY(want_dim(c, k->m, "m"));
    HYP_TRY(want_dim(c, k->n, "n"));
    HYP_TRY(want_dim(c, k->k, "k"));
    HYP_TRY(writes(c, k->y, false, false, "y"));
    return want_same_type(c, k->a, k->y, "y");
}

static hyp_status check_operand(check *c, const HypPlan__Attention *k, const HypPlan__Attention__Operand *o,
                                const char *what)
{
    if (!o) return WRONG(c, "it lacks %s", what);
    HYP_TRY(want_strides(c, o->n_strides, o->strides, k->n_batch + 2, what));
    return want_dim(c, o->offset, what);
}

static hyp_status check_attention(check *c, const HypPlan__Attention *k)
{
    const HypPlan__Attention__Operand *in[] = {k->q, k->k, k->v, k->more_k, k->more_v};
    static const char *const names[] = {"q", "k", "v", "more of k", "more of v"};
    int operands = k->more_k || k->more_v ? 5 : 3;
    HYP_TRY(want_dims(c, k->n_batch, k->batch, "the batch"));
    HYP_TRY(want_dim(c, k->rows, "rows"));
    HYP_TRY(want_dim(c, k->keys, "keys"));
    HYP_TRY(want_dim(c, k->width, "width"));
    HYP_TRY(want_dim(c, k->columns, "columns"));
    HYP_TRY(want_dim(c, k->first_keys, "the first keys"));
    HYP_TRY(want_dim(c, k->more_keys, "more keys"));
    for (int i = 0; i < operands; i++) {
        HYP_TRY(check_operand(c, k, in[i], names[i]));
        HYP_TRY(reads(c, in[i]->tensor, names[i]));
        HYP_TRY(want_same_type(c, k->q->tensor, in[i]->tensor, names[i]));
    }
    HYP_TRY(want_float(c, k->q->tensor, "q"));
    if (k->mask) {
        if (k->plain) return WRONG(c, "it has a mask but no softmax");
        HYP_TRY(check_operand(c, k, k->mask, "the mask"));
        HYP_TRY(reads(c, k->mask->tensor, "the mask"));
        if (dtype_of(c, k->mask->tensor) != HYP_BOOL)
            HYP_TRY(want_same_type(c, k->q->tensor, k->mask->tensor, "the mask"));
    }
    HYP_TRY(check_operand(c, k, k->y, "y"));
    HYP_TRY(writes(c, k->y->tensor, false, false, "y"));
    return want_same_type(c, k->q->tensor, k->y->tensor, "y");
}

static bool computes_integers(const HypPlan__Pointwise *k) { return k->compute == HYP_I64 || k->compute == HYP_U64; }

/* What integers alone can do. */
static bool is_bit_op(HypPlan__Pointwise__Op op)
{
    return (op >= HYP_PLAN__POINTWISE__OP__AND && op <= HYP_PLAN__POINTWISE__OP__SHIFT_RIGHT) ||
           op == HYP_PLAN__POINTWISE__OP__INVERT;
}

/* What integers can do. */
static bool is_integer_op(HypPlan__Pointwise__Op op)
{
    switch ((int)op) {
#define X(op, name, OP, ...) case HYP_PW_##OP:
        HYP_ACTIVATIONS(X)
        HYP_FUNCTIONS(X)
#undef X
        return op == HYP_PLAN__POINTWISE__OP__RELU;
    default: return true;
    }
}

static hyp_status check_instr(check *c, const HypPlan__Pointwise *k, const HypPlan__Pointwise__Instr *in, size_t reg)
{
    int arity = hyp_plan_pointwise_arity(in->op);
    if (arity < 0) return hyp_plan_unknown(c->diag, "pointwise operation", in->op);
    if (hyp_dtype_size((hyp_dtype)in->to) == 0) return hyp_plan_unknown(c->diag, "element type", in->to);
    if (computes_integers(k) && (!is_integer_op(in->op) || is_float(in->to)))
        return WRONG(c, "register %zu computes floats in an integer step", reg);
    if (!computes_integers(k) && is_bit_op(in->op))
        return WRONG(c, "register %zu computes bits in a step of floats", reg);
    const uint32_t operands[] = {in->a, in->b, in->c};
    for (int i = 0; i < 3; i++) /* a kernel may also read those that it has no use for */
        if (operands[i] >= reg && (i < arity || operands[i] != 0))
            return WRONG(c, "register %zu is made of registers that do not come before it", reg);
    return HYP_OK;
}

/* An output may replace an input whose elements have the same size (that it is dense is a matter of shapes). */
static hyp_status check_in_place(check *c, const HypPlan__Pointwise *k, uint32_t output)
{
    const tensor *y = c->program->tensors[output];
    for (size_t i = 0; i < k->n_inputs; i++) {
        const tensor *x = c->program->tensors[hyp_plan_root(c->program, k->inputs[i]->tensor)];
        if (!hyp_plan_same_slot(c->program, k->inputs[i]->tensor, output)) continue;
        if (hyp_dtype_size((hyp_dtype)x->dtype) != hyp_dtype_size((hyp_dtype)y->dtype))
            return WRONG(c, "output tensor %u replaces an input with elements of another size", output);
        if (hyp_plan_first_byte(c->program, k->inputs[i]->tensor) != 0)
            return WRONG(c, "output tensor %u replaces an input that begins elsewhere", output);
    }
    return HYP_OK;
}

static hyp_status check_pointwise(check *c, const HypPlan__Pointwise *k)
{
    HYP_TRY(want_dims(c, k->n_extents, k->extents, "its extents"));
    if (k->compute != HYP_F32 && k->compute != HYP_F64 && !computes_integers(k))
        return hyp_plan_unknown(c->diag, "type to compute in", k->compute);
    if (k->n_inputs > HYP_PLAN_POINTWISE_INPUTS || k->n_outputs > HYP_PLAN_POINTWISE_OUTPUTS || k->n_outputs == 0)
        return WRONG(c, "it has %zu inputs and %zu outputs, at most %d and %d are possible", k->n_inputs, k->n_outputs,
                     HYP_PLAN_POINTWISE_INPUTS, HYP_PLAN_POINTWISE_OUTPUTS);
    size_t registers = k->n_inputs;
    if (k->n_instrs > HYP_PLAN_POINTWISE_REGISTERS || registers + k->n_instrs > HYP_PLAN_POINTWISE_REGISTERS)
        return WRONG(c, "it has %zu inputs and %zu instructions, together at most %d are possible", k->n_inputs,
                     k->n_instrs, HYP_PLAN_POINTWISE_REGISTERS);
    for (size_t i = 0; i < k->n_inputs; i++) {
        const HypPlan__Pointwise__Operand *x = k->inputs[i];
        HYP_TRY(reads(c, x->tensor, "an input"));
        HYP_TRY(want_strides(c, x->n_strides, x->strides, k->n_extents, "an input"));
        if (computes_integers(k) && is_float(dtype_of(c, x->tensor)))
            return WRONG(c, "input %zu has floats, but the step computes with integers", i);
    }
    for (size_t i = 0; i < k->n_instrs; i++) HYP_TRY(check_instr(c, k, k->instrs[i], registers++));
    if (k->n_output_regs != k->n_outputs)
        return WRONG(c, "it has %zu outputs and %zu registers for them", k->n_outputs, k->n_output_regs);
    HYP_TRY(want_indexes(c, k->n_output_regs, k->output_regs, registers, "register"));
    for (size_t i = 0; i < k->n_outputs; i++) {
        HYP_TRY(writes(c, k->outputs[i], false, true, "an output"));
        HYP_TRY(check_in_place(c, k, k->outputs[i]));
        if (computes_integers(k) && is_float(dtype_of(c, k->outputs[i])))
            return WRONG(c, "output %zu has floats, but the step computes with integers", i);
    }
    return HYP_OK;
}

static hyp_status check_softmax(check *c, const HypPlan__Softmax *k)
{
    HYP_TRY(reads(c, k->x, "x"));
    HYP_TRY(want_float(c, k->x, "x"));
    HYP_TRY(want_dim(c, k->outer, "outer"));
    HYP_TRY(want_dim(c, k->axis, "axis"));
    HYP_TRY(want_dim(c, k->inner, "inner"));
    HYP_TRY(writes(c, k->y, false, false, "y"));
    return want_same_type(c, k->x, k->y, "y");
}

static hyp_status check_reduce(check *c, const HypPlan__Reduce *k)
{
    if ((unsigned)k->kind > HYP_PLAN__REDUCE__KIND__MEAN) return hyp_plan_unknown(c->diag, "reduction", k->kind);
    HYP_TRY(reads(c, k->x, "x"));
    HYP_TRY(want_no_f8(c, k->x, "x"));
    HYP_TRY(want_dims(c, k->n_kept, k->kept, "the kept axes"));
    HYP_TRY(want_strides(c, k->n_kept_strides, k->kept_strides, k->n_kept, "the kept axes"));
    HYP_TRY(want_dims(c, k->n_reduced, k->reduced, "the reduced axes"));
    HYP_TRY(want_strides(c, k->n_reduced_strides, k->reduced_strides, k->n_reduced, "the reduced axes"));
    HYP_TRY(writes(c, k->y, false, false, "y"));
    return want_same_type(c, k->x, k->y, "y");
}

static hyp_status check_copy(check *c, const HypPlan__Copy *k)
{
    HYP_TRY(reads(c, k->x, "x"));
    HYP_TRY(want_dims(c, k->n_extents, k->extents, "its extents"));
    HYP_TRY(want_strides(c, k->n_x_strides, k->x_strides, k->n_extents, "x"));
    HYP_TRY(want_strides(c, k->n_y_strides, k->y_strides, k->n_extents, "y"));
    HYP_TRY(want_dim(c, k->x_offset, "the offset of x"));
    HYP_TRY(want_dim(c, k->y_offset, "the offset of y"));
    if (hyp_plan_root(c->program, k->x) == k->y) return WRONG(c, "tensor %u is copied into itself", k->y);
    HYP_TRY(writes(c, k->y, true, false, "y"));
    return want_same_type(c, k->x, k->y, "y");
}

static hyp_status check_gather(check *c, const HypPlan__Gather *k)
{
    HYP_TRY(reads(c, k->x, "x"));
    HYP_TRY(reads(c, k->indices, "the indices"));
    if (dtype_of(c, k->indices) != HYP_I32 && dtype_of(c, k->indices) != HYP_I64)
        return WRONG(c, "the indices are neither i32 nor i64");
    HYP_TRY(want_dim(c, k->outer, "outer"));
    HYP_TRY(want_dim(c, k->axis, "axis"));
    HYP_TRY(want_dim(c, k->inner, "inner"));
    HYP_TRY(want_dim(c, k->count, "count"));
    HYP_TRY(writes(c, k->y, false, false, "y"));
    return want_same_type(c, k->x, k->y, "y");
}

static hyp_status check_fill(check *c, const HypPlan__Fill *k)
{
    for (size_t i = 0; i < k->n_values; i++) HYP_TRY(want_dim(c, k->values[i], "a value"));
    HYP_TRY(writes(c, k->y, false, false, "y"));
    return dtype_of(c, k->y) == HYP_I64 ? HYP_OK : WRONG(c, "y is not i64");
}

/* That there is such a kernel, and that its attributes are right, is for the backend to say. */
static hyp_status check_call(check *c, const step *s, const HypPlan__Call *k)
{
    const bool custom = s->kernel_case == HYP_PLAN__STEP__KERNEL_CUSTOM;
    const int inputs = custom ? HYP_PLAN_CUSTOM_INPUTS : HYP_PLAN_CALL_INPUTS;
    const int outputs = custom ? HYP_PLAN_CUSTOM_OUTPUTS : HYP_PLAN_CALL_OUTPUTS;
    if (k->n_inputs_plus1 > (size_t)inputs || k->n_outputs > (size_t)outputs || k->n_outputs == 0)
        return WRONG(c, "it has %zu inputs and %zu outputs, at most %d and %d are possible", k->n_inputs_plus1,
                     k->n_outputs, inputs, outputs);
    if (k->n_attrs > HYP_PLAN_CALL_ATTRS)
        return WRONG(c, "it has %zu attributes, at most %d are possible", k->n_attrs, HYP_PLAN_CALL_ATTRS);
    for (size_t i = 0; i < k->n_inputs_plus1; i++) {
        if (!k->inputs_plus1[i]) continue;
        HYP_TRY(reads(c, k->inputs_plus1[i] - 1, "an input"));
        HYP_TRY(want_no_f8(c, k->inputs_plus1[i] - 1, "an input"));
    }
    size_t ints = 0;
    for (size_t i = 0; i < k->n_attrs; i++) {
        const HypPlan__Call__Attr *a = k->attrs[i];
        if ((unsigned)a->kind > HYP_PLAN__CALL__ATTR__KIND__INTS)
            return hyp_plan_unknown(c->diag, "kind of attribute", a->kind);
        if (a->kind == HYP_PLAN__CALL__ATTR__KIND__INT && a->n_dims != 1)
            return WRONG(c, "attribute %zu is a number and has %zu", i, a->n_dims);
        for (size_t d = 0; d < a->n_dims; d++) HYP_TRY(want_dim(c, a->dims[d], "an attribute"));
        ints += a->n_dims;
        if (a->n_dims > HYP_PLAN_CALL_INTS || ints > HYP_PLAN_CALL_INTS)
            return WRONG(c, "its attributes have more than %d numbers", HYP_PLAN_CALL_INTS);
    }
    for (size_t i = 0; i < k->n_outputs; i++) {
        HYP_TRY(want_tensor(c, k->outputs[i], "an output"));
        HYP_TRY(want_no_f8(c, k->outputs[i], "an output"));
        if (is_window(c, k->outputs[i])) return WRONG(c, "tensor %u is written, and it is a window", k->outputs[i]);
        HYP_TRY(
            writes(c, hyp_plan_root(c->program, k->outputs[i]), false, is_in_place(c, s, k->outputs[i]), "an output"));
    }
    return HYP_OK;
}

/* What it means is the kernel's matter, which gets all of it. */
static hyp_status check_custom(check *c, const step *s)
{
    const HypPlan__Custom *k = s->custom;
    if (!k->call || k->call->n_attrs) return WRONG(c, "a custom operator lacks its tensors, or has attributes of a kernel");
    if (!*k->domain || !*k->call->kernel) return WRONG(c, "a custom operator has no domain, or no name");
    if (k->n_attrs > HYP_PLAN_CUSTOM_ATTRS)
        return WRONG(c, "it has %zu attributes, at most %d are possible", k->n_attrs, HYP_PLAN_CUSTOM_ATTRS);
    for (size_t i = 0; i < k->n_attrs; i++) {
        const HypPlan__Custom__Attr *a = k->attrs[i];
        const size_t counts[] = {a->n_ints, a->n_floats, a->n_strings};
        if ((unsigned)a->kind > HYP_PLAN__CUSTOM__ATTR__KIND__STRINGS)
            return hyp_plan_unknown(c->diag, "kind of attribute", a->kind);
        for (unsigned kind = 0; kind < sizeof counts / sizeof *counts; kind++)
            if (kind != (unsigned)a->kind ? counts[kind] > 0 : !a->list && counts[kind] != 1)
                return WRONG(c, "attribute '%s' has elements of two kinds, or one that is no list has %zu", a->name,
                             counts[kind]);
    }
    return check_call(c, s, k->call);
}

static hyp_status check_step(check *c, const step *s)
{
    HYP_TRY(want_indexes(c, s->n_rules, s->rules, c->program->n_rule_names, "rule"));
    HYP_TRY(want_indexes(c, s->n_sources, s->sources, c->program->n_source_names, "source"));
    if (!(s->predicted_seconds >= 0 && s->predicted_seconds <= DBL_MAX))
        return WRONG(c, "it is predicted to take %g seconds", s->predicted_seconds);
    if (!(s->share >= 0 && s->share <= DBL_MAX)) return WRONG(c, "its share of the device is %g", s->share);
    switch (s->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: return check_linear(c, s);
    case HYP_PLAN__STEP__KERNEL_MATMUL: return check_matmul(c, s->matmul);
    case HYP_PLAN__STEP__KERNEL_ATTENTION: return check_attention(c, s->attention);
    case HYP_PLAN__STEP__KERNEL_POINTWISE: return check_pointwise(c, s->pointwise);
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: return check_softmax(c, s->softmax);
    case HYP_PLAN__STEP__KERNEL_REDUCE: return check_reduce(c, s->reduce);
    case HYP_PLAN__STEP__KERNEL_COPY: return check_copy(c, s->copy);
    case HYP_PLAN__STEP__KERNEL_GATHER: return check_gather(c, s->gather);
    case HYP_PLAN__STEP__KERNEL_FILL: return check_fill(c, s->fill);
    case HYP_PLAN__STEP__KERNEL_CALL: return check_call(c, s, s->call);
    case HYP_PLAN__STEP__KERNEL_CUSTOM: return check_custom(c, s);
    default:
        if (s->base.n_unknown_fields > 0)
            return hyp_plan_unknown(c->diag, "kernel", (long long)s->base.unknown_fields[0].tag);
        return WRONG(c, "it has no kernel");
    }
}

static hyp_status check_steps(check *c)
{
    const HypPlan__Program *p = c->program;
    c->written = hyp_arena_zalloc(&c->arena, p->n_tensors, sizeof *c->written);
    c->slot_owner = hyp_arena_zalloc(&c->arena, p->slot_count, sizeof *c->slot_owner);
    c->slot_read = hyp_arena_zalloc(&c->arena, p->slot_count, sizeof *c->slot_read);
    c->slot_reads = hyp_arena_zalloc(&c->arena, p->slot_count, sizeof *c->slot_reads);
    c->slot_write = hyp_arena_zalloc(&c->arena, p->slot_count, sizeof *c->slot_write);
    if (!c->written || !c->slot_owner || !c->slot_read || !c->slot_reads || !c->slot_write)
        return hyp_fail_memory(c->diag, p->n_tensors);
    for (size_t i = 0; i < p->n_steps; i++) {
        c->now = (uint32_t)i + 1;
        hyp_status status = check_step(c, p->steps[i]);
        if (status != HYP_OK) {
            hyp_diag_prefix(c->diag, "step %zu (%s)", i, p->steps[i]->label);
            return status;
        }
    }
    for (size_t i = 0; i < p->n_outputs; i++)
        if (c->written[p->outputs[i]] == NOT_WRITTEN)
            return WRONG(c, "no step writes the output '%s'", p->tensors[p->outputs[i]]->name);
    return HYP_OK;
}

hyp_status hyp_plan_validate_steps(const HypPlan__Program *program, hyp_diag *diag)
{
    check c = {.program = program, .diag = diag};
    hyp_status status = check_steps(&c);
    hyp_arena_dispose(&c.arena);
    return status;
}
