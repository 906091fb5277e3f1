/* export_c.c - a plan as one file of C99: loops with sizes that are written out, and the weights as arrays.
 *
 * For processors without a file system, an allocator or this runtime. Floats alone; sums are floats, too, for there may
 * be no double in hardware. Elementwise functions are the text of base/elementwise.h.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/elementwise.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "driver/driver.h"
#include "plan/plan.h"

enum { FUNCTIONS_MOST = 64, ALIGN = 4 };

typedef struct writer {
    const hyp_plan *plan;
    const HypPlan__Program *p;
    const char *name;
    int64_t *values;                /* by dim */
    size_t *slots;                  /* by slot: the float of the workspace that it begins at */
    bool *weights;                  /* by tensor: it is a weight that a step reads */
    size_t work;                    /* floats of the workspace */
    bool functions[FUNCTIONS_MOST]; /* by number: it is used */
    hyp_strbuf body, text;
    hyp_strbuf missing; /* what there is no C for; a line for each */
} writer;

static const struct {
    int number;
    const char *name, *text;
} functions[] = {
#define ROW(op, name, OP, number, act, weight, kind, onnx, since, ...) {number, name, #__VA_ARGS__},
    HYP_ACTIVATIONS(ROW) HYP_FUNCTIONS(ROW)
#undef ROW
};
enum { FUNCTION_COUNT = sizeof functions / sizeof *functions };

/* What the rows are made of. */
static const char own_functions[] =
    "#define NUM(x) ((float)(x))\n"
    "#define LIB(name) name##f\n"
    "#define OWN(name) own_##name\n"
    "#define own_relu(x) ((x) > 0 || isnan(x) ? (x) : 0)\n"
    "#define own_leaky_relu(x, alpha) ((x) >= 0 || isnan(x) ? (x) : (alpha) * (x))\n"
    "#define own_at_most(x, limit) ((x) > (limit) ? (limit) : (x))\n"
    "#define own_sigmoid(x) ((x) >= 0 ? 1 / (1 + expf(-(x))) : expf(x) / (1 + expf(x)))\n"
    "#define own_softplus(x) (own_relu(x) + log1pf(expf(-fabsf(x))))\n"
    "#define own_elu(x, alpha, gamma) ((gamma) * ((x) > 0 ? (x) : (alpha) * expm1f(x)))\n";

/* ---- text ------------------------------------------------------------------------------------------- */

/* A name from the model in a comment, which it cannot end. */
static void put_name(hyp_strbuf *sb, const char *name)
{
    for (; *name; name++) {
        bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                     (*name >= '0' && *name <= '9') || strchr("._-:", *name);
        hyp_strbuf_add(sb, plain ? name : "_", 1);
    }
}

/* Nine digits are a float, to the bit. */
static void put_float(hyp_strbuf *sb, float value)
{
    char text[64];
    if (!isfinite(value)) {
        hyp_strbuf_puts(sb, isnan(value) ? "NAN" : value > 0 ? "INFINITY" : "-INFINITY");
        return;
    }
    hyp_format_double(text, sizeof text, 9, (double)value);
    hyp_strbuf_printf(sb, "%s%sf", text, strpbrk(text, ".e") ? "" : ".0");
}

static void put_tensor(hyp_strbuf *sb, const writer *w, uint32_t tensor)
{
    uint32_t root = hyp_plan_root(w->p, tensor);
    const HypPlan__Tensor *t = w->p->tensors[root];
    uint64_t first = hyp_plan_is_window(w->p->tensors[tensor]) ? w->p->tensors[tensor]->first : 0;
    switch (t->place) {
    case HYP_PLAN__PLACE__PLACE_INPUT: hyp_strbuf_printf(sb, "in%u", (unsigned)root); break;
    case HYP_PLAN__PLACE__PLACE_OUTPUT: hyp_strbuf_printf(sb, "out%u", (unsigned)root); break;
    case HYP_PLAN__PLACE__PLACE_WEIGHT: hyp_strbuf_printf(sb, "weight%u", (unsigned)root); break;
    default: hyp_strbuf_printf(sb, "work + %zu", w->slots[t->slot]);
    }
    if (first) hyp_strbuf_printf(sb, " + %llu", (unsigned long long)first);
}

/* "        const float *x = in0;" */
static void put_pointer(writer *w, bool constant, const char *name, uint32_t tensor)
{
    hyp_strbuf_printf(&w->body, "        %sfloat *%s = ", constant ? "const " : "", name);
    put_tensor(&w->body, w, tensor);
    hyp_strbuf_puts(&w->body, ";\n");
}

/* Loops "name0", "name1", ... over these extents, one within the other. */
static void put_loops(writer *w, const char *name, const uint32_t *extents, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hyp_strbuf_printf(&w->body, "        for (long %s%zu = 0; %s%zu < %lld; %s%zu++)\n", name, i, name, i,
                          (long long)w->values[extents[i]], name, i);
}

/* "i0 * 64 + i1" */
static void put_index(writer *w, const char *name, const uint32_t *strides, size_t count, int64_t offset)
{
    hyp_strbuf_printf(&w->body, "%lld", (long long)offset);
    for (size_t i = 0; i < count; i++)
        if (w->values[strides[i]])
            hyp_strbuf_printf(&w->body, " + %s%zu * %lldL", name, i, (long long)w->values[strides[i]]);
}

/* The index of an element of what is dense over the extents. */
static void put_dense(writer *w, const char *name, const uint32_t *extents, size_t count)
{
    int64_t stride = 1;
    hyp_strbuf_puts(&w->body, "0");
    for (size_t i = count; i-- > 0; stride *= w->values[extents[i]])
        hyp_strbuf_printf(&w->body, " + %s%zu * %lldL", name, i, (long long)stride);
}

/* A function of base/elementwise.h; what is of another kind stays as it is. */
static void put_function(writer *w, int number, const char *a, double p, double q)
{
    bool found = false;
    for (size_t i = 0; i < FUNCTION_COUNT && !found; i++) found = functions[i].number == number;
    if (!found) {
        hyp_strbuf_puts(&w->body, a);
        return;
    }
    w->functions[number] = true;
    hyp_strbuf_printf(&w->body, "function%d(%s, (", number, a);
    put_float(&w->body, (float)p);
    hyp_strbuf_puts(&w->body, "), (");
    put_float(&w->body, (float)q);
    hyp_strbuf_puts(&w->body, "))");
}

/* ---- steps ------------------------------------------------------------------------------------------ */

static void put_linear(writer *w, const HypPlan__Linear *s)
{
    uint32_t x = s->x;
    for (size_t l = 0; l < s->n_layers; l++) {
        const HypPlan__Layer *layer = s->layers[l];
        bool last = l + 1 == s->n_layers, added = last && s->added_plus1;
        long long n = w->values[layer->n], k = w->values[layer->k];
        uint32_t y = layer->hidden_plus1 && !last ? layer->hidden_plus1 - 1 : s->y;
        hyp_strbuf_puts(&w->body, "    {\n");
        put_pointer(w, true, "x", x);
        put_pointer(w, true, "w", layer->weight);
        if (layer->bias_plus1) put_pointer(w, true, "b", layer->bias_plus1 - 1);
        if (added) put_pointer(w, true, "added", s->added_plus1 - 1);
        put_pointer(w, false, "y", y);
        hyp_strbuf_printf(
            &w->body,
            "        for (long i = 0; i < %lld; i++)\n"
            "            for (long j = 0; j < %lld; j++) {\n"
            "                float a = 0;\n"
            "                for (long k = 0; k < %lld; k++) a += x[i * %lldL + k] * w[%s * %lldL + %s];\n",
            (long long)w->values[s->m], n, k, k, layer->weight_kn ? "k" : "j", layer->weight_kn ? n : k,
            layer->weight_kn ? "j" : "k");
        if (layer->bias_plus1) hyp_strbuf_puts(&w->body, "                a += b[j];\n");
        if (added && !s->add_after) hyp_strbuf_printf(&w->body, "                a += added[i * %lldL + j];\n", n);
        hyp_strbuf_printf(&w->body, "                y[i * %lldL + j] = ", n);
        put_function(w, (int)hyp_plan_act_op(layer->act), "a", 0, 0);
        if (added && s->add_after) hyp_strbuf_printf(&w->body, " + added[i * %lldL + j]", n);
        hyp_strbuf_puts(&w->body, ";\n            }\n    }\n");
        x = y;
    }
}

static void put_matmul(writer *w, const HypPlan__Matmul *s)
{
    long long m = w->values[s->m], n = w->values[s->n], k = w->values[s->k];
    hyp_strbuf_puts(&w->body, "    {\n");
    put_pointer(w, true, "a", s->a);
    put_pointer(w, true, "b", s->b);
    put_pointer(w, false, "y", s->y);
    put_loops(w, "n", s->batch, s->n_batch);
    hyp_strbuf_printf(
        &w->body,
        "        for (long i = 0; i < %lld; i++)\n        for (long j = 0; j < %lld; j++) {\n"
        "            float sum = 0;\n            for (long k = 0; k < %lld; k++)\n                sum += a[",
        m, n, k);
    put_index(w, "n", s->a_strides, s->n_batch, 0);
    hyp_strbuf_printf(&w->body, s->trans_a ? " + k * %lldL + i] * b[" : " + i * %lldL + k] * b[", s->trans_a ? m : k);
    put_index(w, "n", s->b_strides, s->n_batch, 0);
    hyp_strbuf_printf(&w->body, s->trans_b ? " + j * %lldL + k];\n" : " + k * %lldL + j];\n", s->trans_b ? k : n);
    hyp_strbuf_puts(&w->body, "            y[(");
    put_dense(w, "n", s->batch, s->n_batch);
    hyp_strbuf_printf(&w->body, ") * %lldL + i * %lldL + j] = ", m * n, n);
    put_float(&w->body, s->alpha);
    hyp_strbuf_puts(&w->body, " * sum;\n        }\n    }\n");
}

/* The form of an instruction: A, B and C stand for registers, P and Q for numbers. NULL: one of elementwise.h, or there
 * is none. */
static const char *instruction_form(HypPlan__Pointwise__Op op)
{
    switch (op) {
    case HYP_PLAN__POINTWISE__OP__ADD: return "A + B";
    case HYP_PLAN__POINTWISE__OP__SUB: return "A - B";
    case HYP_PLAN__POINTWISE__OP__MUL: return "A * B";
    case HYP_PLAN__POINTWISE__OP__DIV: return "A / B";
    case HYP_PLAN__POINTWISE__OP__POW: return "B == 2 ? A * A : powf(A, B)";
    case HYP_PLAN__POINTWISE__OP__MIN: return "isnan(A) || A < B ? A : B";
    case HYP_PLAN__POINTWISE__OP__MAX: return "isnan(A) || A > B ? A : B";
    case HYP_PLAN__POINTWISE__OP__CLIP: return "A > Q && !(A < P) ? Q : A < P ? (P > Q ? Q : P) : A";
    case HYP_PLAN__POINTWISE__OP__CONST: return "P";
    case HYP_PLAN__POINTWISE__OP__CAST: return "A";
    case HYP_PLAN__POINTWISE__OP__ABS: return "fabsf(A)";
    case HYP_PLAN__POINTWISE__OP__NEG: return "-A";
    case HYP_PLAN__POINTWISE__OP__SIGN: return "A > 0 ? 1 : A < 0 ? -1 : A == 0 ? 0 : A";
    case HYP_PLAN__POINTWISE__OP__NOT: return "A == 0";
    case HYP_PLAN__POINTWISE__OP__FMOD: return "fmodf(A, B)";
    case HYP_PLAN__POINTWISE__OP__EQUAL: return "A == B";
    case HYP_PLAN__POINTWISE__OP__LESS: return "A < B";
    case HYP_PLAN__POINTWISE__OP__LESS_EQUAL: return "A <= B";
    case HYP_PLAN__POINTWISE__OP__WHERE: return "A != 0 ? B : C";
    default: return NULL;
    }
}

static bool has_function(HypPlan__Pointwise__Op op)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (functions[i].number == (int)op) return true;
    return false;
}

static void put_instruction(writer *w, const HypPlan__Pointwise__Instr *in, size_t to)
{
    char a[16];
    const char *form = instruction_form(in->op);
    snprintf(a, sizeof a, "r%u", (unsigned)in->a);
    hyp_strbuf_printf(&w->body, "            const float r%zu = ", to);
    if (in->to == HYP_BOOL) hyp_strbuf_puts(&w->body, "(");
    if (!form) put_function(w, (int)in->op, a, in->p, in->q);
    for (const char *c = form; c && *c; c++) {
        if (!strchr("ABCPQ", *c))
            hyp_strbuf_add(&w->body, c, 1);
        else if (*c == 'P' || *c == 'Q')
            put_float(&w->body, (float)(*c == 'P' ? in->p : in->q));
        else
            hyp_strbuf_printf(&w->body, "r%u", (unsigned)(*c == 'A' ? in->a : *c == 'B' ? in->b : in->c));
    }
    hyp_strbuf_puts(&w->body, in->to == HYP_BOOL ? ") != 0;\n" : ";\n");
    hyp_strbuf_printf(&w->body, "            (void)r%zu;\n", to);
}

static void put_pointwise(writer *w, const HypPlan__Pointwise *s)
{
    hyp_strbuf_puts(&w->body, "    {\n");
    for (size_t i = 0; i < s->n_inputs; i++) {
        char name[32];
        snprintf(name, sizeof name, "x%zu", i);
        put_pointer(w, true, name, s->inputs[i]->tensor);
    }
    for (size_t i = 0; i < s->n_outputs; i++) {
        char name[32];
        snprintf(name, sizeof name, "y%zu", i);
        put_pointer(w, false, name, s->outputs[i]);
    }
    put_loops(w, "i", s->extents, s->n_extents);
    hyp_strbuf_puts(&w->body, "        {\n");
    for (size_t i = 0; i < s->n_inputs; i++) {
        hyp_strbuf_printf(&w->body, "            const float r%zu = x%zu[", i, i);
        put_index(w, "i", s->inputs[i]->strides, s->n_extents, 0);
        hyp_strbuf_printf(&w->body, "];\n            (void)r%zu;\n", i);
    }
    for (size_t i = 0; i < s->n_instrs; i++) put_instruction(w, s->instrs[i], s->n_inputs + i);
    for (size_t i = 0; i < s->n_outputs; i++) {
        hyp_strbuf_printf(&w->body, "            y%zu[", i);
        put_dense(w, "i", s->extents, s->n_extents);
        hyp_strbuf_printf(&w->body, "] = r%u;\n", (unsigned)s->output_regs[i]);
    }
    hyp_strbuf_puts(&w->body, "        }\n    }\n");
}

static void put_softmax(writer *w, const HypPlan__Softmax *s)
{
    long long outer = w->values[s->outer], axis = w->values[s->axis], inner = w->values[s->inner];
    hyp_strbuf_puts(&w->body, "    {\n");
    put_pointer(w, true, "from", s->x);
    put_pointer(w, false, "to", s->y);
    hyp_strbuf_printf(
        &w->body,
        "        for (long i = 0; i < %lld; i++)\n"
        "            for (long j = 0; j < %lld; j++) {\n"
        "                const float *x = from + i * %lldL + j;\n"
        "                float *y = to + i * %lldL + j, most = x[0], sum = 0;\n"
        "                for (long k = 1; k < %lld; k++)\n"
        "                    if (x[k * %lldL] > most || isnan(x[k * %lldL])) most = x[k * %lldL];\n"
        "                for (long k = 0; k < %lld; k++) sum += y[k * %lldL] = expf(x[k * %lldL] - most);\n"
        "                for (long k = 0; k < %lld; k++) y[k * %lldL] /= sum;\n"
        "            }\n    }\n",
        outer, inner, axis * inner, axis * inner, axis, inner, inner, inner, axis, inner, inner, axis, inner);
}

static void put_reduce(writer *w, const HypPlan__Reduce *s)
{
    double count = 1;
    for (size_t i = 0; i < s->n_reduced; i++) count *= (double)w->values[s->reduced[i]];
    hyp_strbuf_puts(&w->body, "    {\n");
    put_pointer(w, true, "x", s->x);
    put_pointer(w, false, "y", s->y);
    put_loops(w, "i", s->kept, s->n_kept);
    hyp_strbuf_puts(&w->body, "        {\n        float sum = 0;\n");
    put_loops(w, "k", s->reduced, s->n_reduced);
    hyp_strbuf_puts(&w->body, "            sum += x[");
    put_index(w, "i", s->kept_strides, s->n_kept, 0);
    hyp_strbuf_puts(&w->body, " + ");
    put_index(w, "k", s->reduced_strides, s->n_reduced, 0);
    hyp_strbuf_puts(&w->body, "];\n        y[");
    put_dense(w, "i", s->kept, s->n_kept);
    hyp_strbuf_puts(&w->body, "] = sum");
    if (s->kind == HYP_PLAN__REDUCE__KIND__MEAN) {
        hyp_strbuf_puts(&w->body, " / ");
        put_float(&w->body, (float)count);
    }
    hyp_strbuf_puts(&w->body, ";\n        }\n    }\n");
}

static void put_copy(writer *w, const HypPlan__Copy *s)
{
    hyp_strbuf_puts(&w->body, "    {\n");
    put_pointer(w, true, "x", s->x);
    put_pointer(w, false, "y", s->y);
    put_loops(w, "i", s->extents, s->n_extents);
    hyp_strbuf_puts(&w->body, "            y[");
    put_index(w, "i", s->y_strides, s->n_extents, w->values[s->y_offset]);
    hyp_strbuf_puts(&w->body, "] = x[");
    put_index(w, "i", s->x_strides, s->n_extents, w->values[s->x_offset]);
    hyp_strbuf_puts(&w->body, "];\n    }\n");
}

/* ---- what there is C for ----------------------------------------------------------------------------- */

static bool is_float_computation(const HypPlan__Pointwise *s)
{
    bool known = s->compute == HYP_F32;
    for (size_t i = 0; i < s->n_instrs; i++) {
        const HypPlan__Pointwise__Instr *in = s->instrs[i];
        known =
            known && (in->to == HYP_F32 || in->to == HYP_BOOL) && (instruction_form(in->op) || has_function(in->op));
    }
    return known;
}

static bool is_known(const HypPlan__Step *s)
{
    switch (s->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR:
    case HYP_PLAN__STEP__KERNEL_MATMUL:
    case HYP_PLAN__STEP__KERNEL_SOFTMAX:
    case HYP_PLAN__STEP__KERNEL_REDUCE:
    case HYP_PLAN__STEP__KERNEL_COPY: return true;
    case HYP_PLAN__STEP__KERNEL_POINTWISE: return is_float_computation(s->pointwise);
    default: return false;
    }
}

static void put_step(writer *w, const HypPlan__Step *s)
{
    hyp_strbuf_puts(&w->body, "    /* ");
    put_name(&w->body, s->label);
    hyp_strbuf_puts(&w->body, " */\n");
    switch (s->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: put_linear(w, s->linear); break;
    case HYP_PLAN__STEP__KERNEL_MATMUL: put_matmul(w, s->matmul); break;
    case HYP_PLAN__STEP__KERNEL_POINTWISE: put_pointwise(w, s->pointwise); break;
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: put_softmax(w, s->softmax); break;
    case HYP_PLAN__STEP__KERNEL_REDUCE: put_reduce(w, s->reduce); break;
    default: put_copy(w, s->copy); break;
    }
}

/* Looks at the tensors of a step, and notes weights among them. *out_why is set where there is no C for one. */
static hyp_status look_at_tensors(writer *w, const HypPlan__Step *s, const char **out_why, hyp_diag *diag)
{
    size_t reads = hyp_plan_step_reads(s, NULL, 0), writes = hyp_plan_step_writes(s, NULL, 0);
    uint32_t *list = hyp_calloc(reads + writes + 1, sizeof *list);
    if (!list) return hyp_fail_memory(diag, (reads + writes) * sizeof *list);
    hyp_plan_step_reads(s, list, reads);
    hyp_plan_step_writes(s, list + reads, writes);
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < reads + writes && status == HYP_OK; i++) {
        uint32_t root = hyp_plan_root(w->p, list[i]);
        int64_t elements = 0;
        status = hyp_plan_elements(w->p, list[i], w->values, &elements, diag);
        if (w->p->tensors[root]->dtype != HYP_F32) *out_why = hyp_dtype_name((hyp_dtype)w->p->tensors[root]->dtype);
        if (elements == 0) *out_why = "no elements";
        if (w->p->tensors[root]->place == HYP_PLAN__PLACE__PLACE_WEIGHT) w->weights[root] = true;
    }
    hyp_free(list);
    return status;
}

static hyp_status look_at_steps(writer *w, hyp_diag *diag)
{
    for (size_t i = 0; i < w->p->n_steps; i++) {
        const HypPlan__Step *s = w->p->steps[i];
        const char *why = NULL;
        HYP_TRY(look_at_tensors(w, s, &why, diag));
        if (is_known(s) && !why) continue;
        hyp_strbuf_printf(&w->missing, "%s step %zu, %s", w->missing.len ? ";" : "", i, s->label);
        if (why) hyp_strbuf_printf(&w->missing, " of %s", why);
    }
    if (w->missing.failed) return hyp_fail_memory(diag, w->missing.len);
    if (!w->missing.len) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED,
                    "there is no C for%s; wanted steps of f32 that are linear, matmul, pointwise, "
                    "softmax, reduce or copy",
                    hyp_strbuf_text(&w->missing));
}

static hyp_status look_at_program(const HypPlan__Program *p, hyp_diag *diag)
{
    if (p->n_symbols)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "the size '%s' is not fixed: compile the model with --dim %s=N",
                        p->symbols[0], p->symbols[0]);
    if (p->n_variables || p->hidden_outputs)
        return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "there is no C for %s",
                        p->n_variables ? "steps of a training" : "outputs of which the data decide how large they are");
    for (size_t i = 0; i < p->n_inputs + p->n_outputs; i++) {
        uint32_t tensor = i < p->n_inputs ? p->inputs[i] : p->outputs[i - p->n_inputs];
        if (p->tensors[tensor]->dtype != HYP_F32)
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "'%s' is of %s; there is C for f32 alone",
                            p->tensors[tensor]->name, hyp_dtype_name((hyp_dtype)p->tensors[tensor]->dtype));
    }
    return HYP_OK;
}

static hyp_status place_slots(writer *w, hyp_diag *diag)
{
    for (uint32_t i = 0; i < w->p->n_tensors; i++) {
        const HypPlan__Tensor *t = w->p->tensors[i];
        int64_t elements = 0;
        if (t->place != HYP_PLAN__PLACE__PLACE_SCRATCH) continue;
        HYP_TRY(hyp_plan_elements(w->p, i, w->values, &elements, diag));
        if ((size_t)elements > w->slots[t->slot]) w->slots[t->slot] = (size_t)elements;
    }
    for (uint32_t i = 0; i < w->p->slot_count; i++) { /* their sizes become where they begin */
        size_t size = (w->slots[i] + ALIGN - 1) / ALIGN * ALIGN;
        w->slots[i] = w->work;
        if (!hyp_add_size(w->work, size, &w->work))
            return hyp_fail(diag, HYP_ERR_LIMIT, "the workspace is beyond any size");
    }
    return HYP_OK;
}

/* ---- the file --------------------------------------------------------------------------------------- */

static void put_arguments(writer *w)
{
    hyp_strbuf *sb = &w->text;
    hyp_strbuf_printf(sb, "void %s(", w->name);
    for (size_t i = 0; i < w->p->n_inputs; i++) hyp_strbuf_printf(sb, "const float *in%u, ", (unsigned)w->p->inputs[i]);
    for (size_t i = 0; i < w->p->n_outputs; i++) hyp_strbuf_printf(sb, "float *out%u, ", (unsigned)w->p->outputs[i]);
    hyp_strbuf_puts(sb, "float *work)");
}

static void put_interface(writer *w, const char *what, const uint32_t *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const HypPlan__Tensor *t = w->p->tensors[tensors[i]];
        hyp_strbuf_printf(&w->text, " * %s%u: ", what, (unsigned)tensors[i]);
        put_name(&w->text, t->name);
        hyp_strbuf_puts(&w->text, " [");
        for (size_t a = 0; a < t->n_dims; a++)
            hyp_strbuf_printf(&w->text, "%s%lld", a ? " " : "", (long long)w->values[t->dims[a]]);
        hyp_strbuf_puts(&w->text, "]\n");
    }
}

static void put_head(writer *w)
{
    hyp_strbuf *sb = &w->text;
    hyp_strbuf_puts(sb, "/* Made by hypatia export-c of the model ");
    put_name(sb, w->p->model_name);
    hyp_strbuf_puts(sb, ". C99, which needs its <math.h> and nothing else.\n *\n");
    put_interface(w, "in", w->p->inputs, w->p->n_inputs);
    put_interface(w, "out", w->p->outputs, w->p->n_outputs);
    hyp_strbuf_printf(
        sb,
        " * work: %s_WORK floats, which hold nothing between calls. Calls with memory of their own may go side by "
        "side.\n */\n#include <math.h>\n\nenum { %s_WORK = %zu };\n",
        w->name, w->name, w->work ? w->work : 1);
    put_arguments(w);
    hyp_strbuf_puts(sb, ";\n\n");
    hyp_strbuf_puts(sb, own_functions);
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (w->functions[functions[i].number])
            hyp_strbuf_printf(sb, "#define function%d(a, p, q) (%s) /* %s */\n", functions[i].number, functions[i].text,
                              functions[i].name);
    hyp_strbuf_puts(sb, "\n");
}

static hyp_status flush(writer *w, hyp_outfile *file, hyp_diag *diag)
{
    hyp_status status = w->text.failed ? hyp_fail_memory(diag, w->text.len)
                                       : hyp_outfile_write(file, hyp_strbuf_text(&w->text), w->text.len, diag);
    hyp_strbuf_dispose(&w->text);
    return status;
}

static hyp_status write_weights(writer *w, hyp_outfile *file, hyp_diag *diag)
{
    enum { IN_A_LINE = 8, AT_ONCE = 1 << 14 };
    for (uint32_t i = 0; i < w->p->n_tensors; i++) {
        if (!w->weights[i]) continue;
        const uint8_t *data = hyp_plan_weight(w->plan, i);
        size_t count = (size_t)(w->p->tensors[i]->bytes / sizeof(float));
        hyp_strbuf_printf(&w->text, "static const float weight%u[%zu] = {", (unsigned)i, count);
        for (size_t e = 0; e < count; e++) {
            float value;
            memcpy(&value, data + e * sizeof value, sizeof value);
            hyp_strbuf_puts(&w->text, e % IN_A_LINE ? " " : "\n    ");
            put_float(&w->text, value);
            hyp_strbuf_puts(&w->text, ",");
            if (e % AT_ONCE == AT_ONCE - 1) HYP_TRY(flush(w, file, diag));
        }
        hyp_strbuf_puts(&w->text, "\n};\n");
    }
    return flush(w, file, diag);
}

static hyp_status write_c(writer *w, const char *path, hyp_diag *diag)
{
    hyp_outfile file = {.fd = -1};
    for (size_t i = 0; i < w->p->n_steps; i++) put_step(w, w->p->steps[i]);
    if (w->body.failed) return hyp_fail_memory(diag, w->body.len);
    HYP_TRY(hyp_outfile_open(&file, path, diag));
    put_head(w);
    hyp_status status = flush(w, &file, diag);
    if (status == HYP_OK) status = write_weights(w, &file, diag);
    if (status == HYP_OK) {
        hyp_strbuf_puts(&w->text, "\n");
        put_arguments(w);
        hyp_strbuf_puts(&w->text, "\n{\n    (void)work;\n");
        hyp_strbuf_puts(&w->text, hyp_strbuf_text(&w->body));
        hyp_strbuf_puts(&w->text, "}\n");
        status = flush(w, &file, diag);
    }
    if (status == HYP_OK) status = hyp_outfile_commit(&file, diag);
    hyp_outfile_abort(&file);
    return status;
}

static hyp_status export_plan(writer *w, const char *path, hyp_diag *diag)
{
    HYP_TRY(look_at_program(w->p, diag));
    HYP_TRY(hyp_plan_eval_dims(w->p, NULL, w->values, diag));
    HYP_TRY(look_at_steps(w, diag));
    HYP_TRY(place_slots(w, diag));
    return write_c(w, path, diag);
}

/* Whether C may call something so. */
static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return strspn(name, letters) > 0 && !name[strspn(name, rest)];
}

hyp_status hyp_plan_export_c(const char *plan_path, const char *name, const char *c_path, hyp_diag *diag)
{
    hyp_plan plan;
    HYP_NEED(plan_path);
    HYP_NEED(name);
    HYP_NEED(c_path);
    if (!is_name(name)) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "'%s' is no name of a function in C", name);
    if (hyp_same_file(plan_path, c_path))
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: would overwrite the plan; write to another file", c_path);
    HYP_TRY(hyp_plan_open_file(plan_path, NULL, &plan, diag));
    writer w = {.plan = &plan, .p = plan.program, .name = name};
    w.values = hyp_calloc(w.p->n_dims + 1, sizeof *w.values);
    w.slots = hyp_calloc(w.p->slot_count + 1, sizeof *w.slots);
    w.weights = hyp_calloc(w.p->n_tensors + 1, sizeof *w.weights);
    hyp_status status =
        w.values && w.slots && w.weights ? export_plan(&w, c_path, diag) : hyp_fail_memory(diag, w.p->n_tensors);
    if (status == HYP_ERR_UNSUPPORTED) hyp_diag_prefix(diag, "%s", plan_path);
    hyp_free(w.values);
    hyp_free(w.slots);
    hyp_free(w.weights);
    hyp_strbuf_dispose(&w.body);
    hyp_strbuf_dispose(&w.text);
    hyp_strbuf_dispose(&w.missing);
    hyp_plan_close(&plan);
    return status;
}
