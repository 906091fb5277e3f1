/* pointwise.c - one pass over elements: registers are constants of the innermost loop. */
#include <inttypes.h>
#include <stdio.h>

#include "base/dtype.h"
#include "c99/writer.h"
#include "kernels/scalar.h"

typedef HypPlan__Pointwise__Instr instr;

/* The form of an instruction on floats, and that on integers of 64 bits, which wrap: A, B and C stand for registers, P and Q
 * for numbers. NULL: it has none; of floats it may be one of elementwise.h. */
static const char *float_form(HypPlan__Pointwise__Op op)
{
    switch (op) {
    case HYP_PLAN__POINTWISE__OP__ADD: return "A + B";
    case HYP_PLAN__POINTWISE__OP__SUB: return "A - B";
    case HYP_PLAN__POINTWISE__OP__MUL: return "A * B";
    case HYP_PLAN__POINTWISE__OP__DIV: return "A / B";
    case HYP_PLAN__POINTWISE__OP__POW: return "B == 2 ? A * A : powf(A, B)";
    case HYP_PLAN__POINTWISE__OP__MIN: return "A < B || A != A ? A : B";
    case HYP_PLAN__POINTWISE__OP__MAX: return "A > B || A != A ? A : B";
    case HYP_PLAN__POINTWISE__OP__CLIP: return "(A < P ? P : A) > Q ? Q : (A < P ? P : A)";
    case HYP_PLAN__POINTWISE__OP__CONST: return "P";
    case HYP_PLAN__POINTWISE__OP__CAST: return "A";
    case HYP_PLAN__POINTWISE__OP__ABS: return "fabsf(A)";
    case HYP_PLAN__POINTWISE__OP__NEG: return "-A";
    case HYP_PLAN__POINTWISE__OP__SIGN: return "A > 0 ? 1 : A < 0 ? -1 : A == 0 ? 0 : A";
    case HYP_PLAN__POINTWISE__OP__NOT: return "A == 0";
    case HYP_PLAN__POINTWISE__OP__MOD: return "hyp_float_modulo(A, B)";
    case HYP_PLAN__POINTWISE__OP__FMOD: return "fmodf(A, B)";
    case HYP_PLAN__POINTWISE__OP__EQUAL: return "A == B";
    case HYP_PLAN__POINTWISE__OP__LESS: return "A < B";
    case HYP_PLAN__POINTWISE__OP__LESS_EQUAL: return "A <= B";
    case HYP_PLAN__POINTWISE__OP__WHERE: return "A != 0 ? B : C";
    default: return NULL;
    }
}

static const char *integer_form(HypPlan__Pointwise__Op op)
{
    switch (op) {
    case HYP_PLAN__POINTWISE__OP__ADD: return "(int64_t)((uint64_t)A + (uint64_t)B)";
    case HYP_PLAN__POINTWISE__OP__SUB: return "(int64_t)((uint64_t)A - (uint64_t)B)";
    case HYP_PLAN__POINTWISE__OP__MUL: return "(int64_t)((uint64_t)A * (uint64_t)B)";
    case HYP_PLAN__POINTWISE__OP__DIV: return "hyp_divide(A, B)";
    case HYP_PLAN__POINTWISE__OP__MOD: return "hyp_modulo(A, B, 0)";
    case HYP_PLAN__POINTWISE__OP__FMOD: return "hyp_modulo(A, B, 1)";
    case HYP_PLAN__POINTWISE__OP__POW: return "hyp_power(A, B)";
    case HYP_PLAN__POINTWISE__OP__MIN: return "A < B ? A : B";
    case HYP_PLAN__POINTWISE__OP__MAX: return "A < B ? B : A";
    case HYP_PLAN__POINTWISE__OP__RELU: return "A > 0 ? A : 0";
    case HYP_PLAN__POINTWISE__OP__ABS: return "A > 0 ? A : (int64_t)(0 - (uint64_t)A)";
    case HYP_PLAN__POINTWISE__OP__NEG: return "(int64_t)(0 - (uint64_t)A)";
    case HYP_PLAN__POINTWISE__OP__SIGN: return "A > 0 ? 1 : A < 0 ? -1 : 0";
    case HYP_PLAN__POINTWISE__OP__CLIP: return "Q < (A < P ? P : A) ? Q : (A < P ? P : A)";
    case HYP_PLAN__POINTWISE__OP__CONST: return "P";
    case HYP_PLAN__POINTWISE__OP__CAST: return "A";
    case HYP_PLAN__POINTWISE__OP__NOT: return "A == 0";
    case HYP_PLAN__POINTWISE__OP__INVERT: return "~A";
    case HYP_PLAN__POINTWISE__OP__EQUAL: return "A == B";
    case HYP_PLAN__POINTWISE__OP__LESS: return "A < B";
    case HYP_PLAN__POINTWISE__OP__LESS_EQUAL: return "A <= B";
    case HYP_PLAN__POINTWISE__OP__AND: return "A & B";
    case HYP_PLAN__POINTWISE__OP__OR: return "A | B";
    case HYP_PLAN__POINTWISE__OP__XOR: return "A ^ B";
    case HYP_PLAN__POINTWISE__OP__SHIFT_LEFT: return "hyp_shift(A, B, 1)";
    case HYP_PLAN__POINTWISE__OP__SHIFT_RIGHT: return "hyp_shift(A, B, 0)";
    case HYP_PLAN__POINTWISE__OP__WHERE: return "A ? B : C";
    default: return NULL;
    }
}

/* Functions of the library that forms call. */
static void want_library(hyp_c99_writer *w, HypPlan__Pointwise__Op op, bool integers)
{
    switch (op) {
    case HYP_PLAN__POINTWISE__OP__MOD: hyp_c99_want(w, integers ? "modulo" : "float_modulo"); break;
    case HYP_PLAN__POINTWISE__OP__FMOD:
        if (integers) hyp_c99_want(w, "modulo");
        break;
    case HYP_PLAN__POINTWISE__OP__DIV:
        if (integers) hyp_c99_want(w, "divide");
        break;
    case HYP_PLAN__POINTWISE__OP__POW:
        if (integers) hyp_c99_want(w, "power");
        break;
    case HYP_PLAN__POINTWISE__OP__SHIFT_LEFT:
    case HYP_PLAN__POINTWISE__OP__SHIFT_RIGHT: hyp_c99_want(w, "shift"); break;
    default: break;
    }
}

static void put_number(hyp_c99_writer *w, const instr *in, bool integers, bool first)
{
    double number = first ? in->p : in->q;
    bool low = in->op == HYP_PLAN__POINTWISE__OP__CONST ? number < 0 : first;
    if (!integers) {
        hyp_strbuf_puts(&w->body, "(");
        hyp_c99_float(&w->body, number);
        hyp_strbuf_puts(&w->body, ")");
        return;
    }
    int64_t whole = hyp_clip_bound_i64(number, low, false);
    if (whole == INT64_MIN)
        hyp_strbuf_puts(&w->body, "INT64_MIN");
    else
        hyp_strbuf_printf(&w->body, "INT64_C(%" PRId64 ")", whole);
}

static void put_form(hyp_c99_writer *w, const instr *in, const char *form, bool integers)
{
    for (const char *c = form; *c; c++) switch (*c) {
        case 'A': hyp_strbuf_printf(&w->body, "r%u", (unsigned)in->a); break;
        case 'B': hyp_strbuf_printf(&w->body, "r%u", (unsigned)in->b); break;
        case 'C': hyp_strbuf_printf(&w->body, "r%u", (unsigned)in->c); break;
        case 'P': put_number(w, in, integers, true); break;
        case 'Q': put_number(w, in, integers, false); break;
        default: hyp_strbuf_add(&w->body, c, 1);
        }
}

/* What is around a value that is to be one of a type, in a register of the type that computes. */
static void put_rounding(hyp_c99_writer *w, hyp_dtype to, bool integers, bool stored)
{
    if (to == HYP_F32 || (to == HYP_I64 && integers)) return;
    if (to == HYP_BOOL) {
        hyp_strbuf_puts(&w->body, "0 != ");
        return;
    }
    if (hyp_c99_is_short(to)) {
        const char *name = to == HYP_BF16 ? "bf16" : "f16";
        hyp_strbuf_printf(&w->body, "hyp_from_%s(hyp_to_%s", name, name);
        hyp_c99_want(w, "short");
        return;
    }
    hyp_strbuf_printf(&w->body, "%s(%s)", stored || integers ? "" : "(float)", hyp_c99_type(to));
    if (integers) return;
    hyp_strbuf_puts(&w->body, "hyp_whole");
    hyp_c99_want(w, "whole");
}

static void put_instruction(hyp_c99_writer *w, const instr *in, size_t to, bool integers)
{
    char a[16];
    const char *form = integers ? integer_form(in->op) : float_form(in->op);
    snprintf(a, sizeof a, "r%u", (unsigned)in->a);
    hyp_strbuf_printf(&w->body, "            const %s r%zu = ", integers ? "int64_t" : "float", to);
    put_rounding(w, (hyp_dtype)in->to, integers, false);
    hyp_strbuf_puts(&w->body, "(");
    if (form)
        put_form(w, in, form, integers);
    else
        hyp_c99_function(w, (int)in->op, a, in->p, in->q);
    hyp_strbuf_printf(&w->body, ")%s;\n            (void)r%zu;\n", hyp_c99_is_short((hyp_dtype)in->to) ? ")" : "", to);
    want_library(w, in->op, integers);
}

/* Why there is no C for it; NULL where there is. */
static const char *why_not(const hyp_c99_writer *w, const HypPlan__Pointwise *s)
{
    bool integers = s->compute == HYP_I64;
    if (s->compute != HYP_F32 && !integers) return "computes in a type that is neither f32 nor i64";
    for (size_t i = 0; i < s->n_instrs; i++) {
        const instr *in = s->instrs[i];
        bool known = integers ? integer_form(in->op) != NULL : float_form(in->op) || hyp_c99_has_function((int)in->op);
        if (!known || !hyp_c99_type((hyp_dtype)in->to)) return "has an instruction that there is none for";
        if (in->to == HYP_U64 || (integers && hyp_dtype_is_float((hyp_dtype)in->to))) return "converts to a type that it does not compute in";
    }
    for (size_t i = 0; i < s->n_outputs; i++)
        if (!integers && hyp_c99_dtype(w, s->outputs[i]) == HYP_U64) return "converts to a type that it does not compute in";
    return NULL;
}

static void put_loads(hyp_c99_writer *w, const HypPlan__Pointwise *s, const hyp_c99_nest *n, bool integers)
{
    for (size_t i = 0; i < s->n_inputs; i++) {
        bool whole = integers && hyp_c99_dtype(w, s->inputs[i]->tensor) == HYP_F32;
        hyp_strbuf_printf(&w->body, "            const %s r%zu = (%s)%s(x%zu[", integers ? "int64_t" : "float", i,
                          integers ? "int64_t" : "float", whole ? "hyp_whole" : "", i);
        hyp_c99_nest_index(w, n, i, "i");
        hyp_strbuf_printf(&w->body, "]);\n            (void)r%zu;\n", i);
        if (whole) hyp_c99_want(w, "whole");
    }
}

static void put_stores(hyp_c99_writer *w, const HypPlan__Pointwise *s, const hyp_c99_nest *n, bool integers)
{
    for (size_t i = 0; i < s->n_outputs; i++) {
        hyp_dtype t = hyp_c99_dtype(w, s->outputs[i]);
        hyp_strbuf_printf(&w->body, "            to%zu[", i);
        hyp_c99_nest_index(w, n, s->n_inputs, "i");
        hyp_strbuf_puts(&w->body, "] = ");
        if (t == HYP_F32 && integers)
            hyp_strbuf_puts(&w->body, "(float)");
        else
            put_rounding(w, t, integers, true);
        hyp_strbuf_printf(&w->body, "(r%u);\n", (unsigned)s->output_regs[i]);
    }
}

void hyp_c99_pointwise(hyp_c99_writer *w, const HypPlan__Pointwise *s)
{
    bool integers = s->compute == HYP_I64;
    hyp_c99_nest n;
    if (!w->lacks) w->lacks = why_not(w, s);
    if (w->lacks) return;
    hyp_c99_nest_init(&n, w->values, s->extents, s->n_extents);
    for (size_t i = 0; i < s->n_inputs; i++) hyp_c99_nest_lane(&n, w->values, s->inputs[i]->strides, 0);
    hyp_c99_nest_lane(&n, w->values, NULL, 0);
    hyp_c99_nest_merge(&n);
    hyp_c99_begin(w);
    for (size_t i = 0; i < s->n_inputs + s->n_outputs; i++) {
        char name[32];
        bool read = i < s->n_inputs;
        snprintf(name, sizeof name, read ? "x%zu" : "to%zu", read ? i : i - s->n_inputs);
        hyp_c99_pointer(w, name, (read ? s->inputs[i]->tensor : s->outputs[i - s->n_inputs]) + 1, read);
    }
    hyp_c99_nest_loops(w, &n, "i", 0);
    hyp_strbuf_puts(&w->body, "        {\n");
    put_loads(w, s, &n, integers);
    for (size_t i = 0; i < s->n_instrs; i++) put_instruction(w, s->instrs[i], s->n_inputs + i, integers);
    put_stores(w, s, &n, integers);
    hyp_strbuf_puts(&w->body, "        }\n");
    hyp_c99_end(w);
}
