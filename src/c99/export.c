/* export.c - a plan as one file of C99: which steps there is C for, and where tensors are.
 *
 * For processors without a file system, an allocator or this runtime. Sums are of floats, for there may be no double in
 * hardware.
 */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/sized.h"
#include "c99/writer.h"
#include "hypatia/compiler.h"

typedef struct exporter {
    hyp_c99_writer w;
    int64_t *values;
    size_t *places;                 /* as in the writer */
    size_t elements[HYP_C99_TYPES]; /* by type, of the workspace */
    hyp_strbuf missing;             /* what there is no C for, one behind the other */
} exporter;

/* ---- what there is C for ----------------------------------------------------------------------------- */

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
        hyp_dtype dtype = (hyp_dtype)p->tensors[tensor]->dtype;
        if (!hyp_c99_type(dtype))
            return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "'%s' is of %s, which C99 has not", p->tensors[tensor]->name,
                            hyp_dtype_name(dtype));
    }
    return HYP_OK;
}

/* Scales and regions of a resize are looked at while the file is written, which has tables of what they say. */
static bool reads_one(const HypPlan__Step *s)
{
    return s->kernel_case == HYP_PLAN__STEP__KERNEL_CALL && strcmp(s->call->kernel, "resize") == 0;
}

/* What a step reads, then what it writes; the caller frees it. */
static hyp_status list_tensors(const HypPlan__Step *s, uint32_t **out, size_t *reads, size_t *writes, hyp_diag *diag)
{
    *reads = hyp_plan_step_reads(s, NULL, 0);
    *writes = hyp_plan_step_writes(s, NULL, 0);
    *out = hyp_calloc(*reads + *writes + 1, sizeof **out);
    if (!*out) return hyp_fail_memory(diag, (*reads + *writes) * sizeof **out);
    hyp_plan_step_reads(s, *out, *reads);
    if (reads_one(s)) *reads = 1;
    hyp_plan_step_writes(s, *out + *reads, *writes);
    return HYP_OK;
}

/* Why there is no C for a step with these, if one of them is of a type that C lacks. */
static const char *lacking_type(const hyp_c99_writer *w, const uint32_t *list, size_t count)
{
    static const char *const lacking[] = {[HYP_F64] = "is of f64", [HYP_F8E4M3] = "is of f8e4m3"};
    for (size_t i = 0; i < count; i++)
        if (!hyp_c99_type((hyp_dtype)w->p->tensors[list[i]]->dtype)) return lacking[w->p->tensors[list[i]]->dtype];
    return NULL;
}

static hyp_status put_kernel(hyp_c99_writer *w, const HypPlan__Step *s, hyp_diag *diag)
{
    switch (s->kernel_case) {
    case HYP_PLAN__STEP__KERNEL_LINEAR: hyp_c99_linear(w, s->linear); break;
    case HYP_PLAN__STEP__KERNEL_MATMUL: hyp_c99_matmul(w, s->matmul); break;
    case HYP_PLAN__STEP__KERNEL_ATTENTION: hyp_c99_attention(w, s->attention); break;
    case HYP_PLAN__STEP__KERNEL_POINTWISE: hyp_c99_pointwise(w, s->pointwise); break;
    case HYP_PLAN__STEP__KERNEL_SOFTMAX: hyp_c99_softmax(w, s->softmax); break;
    case HYP_PLAN__STEP__KERNEL_REDUCE: hyp_c99_reduce(w, s->reduce); break;
    case HYP_PLAN__STEP__KERNEL_COPY: hyp_c99_copy(w, s->copy); break;
    case HYP_PLAN__STEP__KERNEL_GATHER: hyp_c99_gather(w, s->gather); break;
    case HYP_PLAN__STEP__KERNEL_FILL: hyp_c99_fill(w, s->fill); break;
    case HYP_PLAN__STEP__KERNEL_CALL: return hyp_c99_call(w, s->call, diag);
    default: w->lacks = "is an operator of the program's own";
    }
    return HYP_OK;
}

static hyp_status put_step(hyp_c99_writer *w, const HypPlan__Step *s, const uint32_t *list, size_t reads, size_t writes,
                           hyp_diag *diag)
{
    hyp_strbuf_puts(&w->body, "    /* ");
    hyp_c99_name(&w->body, s->label);
    hyp_strbuf_puts(&w->body, " */\n");
    HYP_TRY(hyp_c99_widen(w, s, list, reads, writes, diag));
    HYP_TRY(put_kernel(w, s, diag));
    return hyp_c99_narrow(w, list, reads, writes, diag);
}

static hyp_status put_steps(exporter *e, hyp_diag *diag)
{
    hyp_c99_writer *w = &e->w;
    for (w->step = 0; w->step < w->p->n_steps; w->step++) {
        const HypPlan__Step *s = w->p->steps[w->step];
        w->lacks = NULL;
        if (hyp_plan_writes_nothing(w->p, s, w->values)) continue;
        uint32_t *list;
        size_t reads, writes;
        HYP_TRY(list_tensors(s, &list, &reads, &writes, diag));
        w->lacks = lacking_type(w, list, reads + writes);
        hyp_status status = w->lacks ? HYP_OK : put_step(w, s, list, reads, writes, diag);
        hyp_free(list);
        HYP_TRY(status);
        if (w->lacks)
            hyp_strbuf_printf(&e->missing, "%s step %zu, %s%s%s", e->missing.len ? ";" : "", w->step, s->label,
                              *w->lacks ? ", which " : "", w->lacks);
    }
    if (e->missing.failed || w->body.failed) return hyp_fail_memory(diag, e->missing.len + w->body.len);
    if (!e->missing.len) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_UNSUPPORTED, "there is no C for%s", hyp_strbuf_text(&e->missing));
}

/* ---- the workspace ----------------------------------------------------------------------------------- */

static hyp_status place_slots(exporter *e, hyp_diag *diag)
{
    enum { ALIGN = 16 };
    const HypPlan__Program *p = e->w.p;
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const HypPlan__Tensor *t = p->tensors[i];
        int64_t elements = 0;
        if (t->place != HYP_PLAN__PLACE__PLACE_SCRATCH) continue;
        HYP_TRY(hyp_plan_elements(p, i, e->values, &elements, diag));
        size_t *size = &e->places[t->slot * HYP_C99_TYPES + t->dtype];
        if ((size_t)elements > *size) *size = (size_t)elements;
    }
    for (size_t i = 0; i < (size_t)p->slot_count * HYP_C99_TYPES; i++) { /* their sizes become where they begin */
        size_t size = (e->places[i] + ALIGN - 1) / ALIGN * ALIGN, *end = &e->elements[i % HYP_C99_TYPES];
        e->places[i] = *end;
        if (!hyp_add_size(*end, size, end) || *end > PTRDIFF_MAX / 16)
            return hyp_fail(diag, HYP_ERR_LIMIT, "the workspace is beyond any size");
    }
    return HYP_OK;
}

/* ---- from a plan to files ---------------------------------------------------------------------------- */

static hyp_status export_plan(exporter *e, const hyp_c99_output *out, hyp_diag *diag)
{
    HYP_TRY(look_at_program(e->w.p, diag));
    HYP_TRY(hyp_plan_eval_dims(e->w.p, NULL, e->values, diag));
    HYP_TRY(place_slots(e, diag));
    HYP_TRY(put_steps(e, diag));
    return hyp_c99_write(&e->w, out, diag);
}

/* Whether C may call something so. */
static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    static const char *const words[] = {
        "auto",     "break",  "case",     "char",   "const",  "continue", "default",   "do",     "double",  "else",
        "enum",     "extern", "float",    "for",    "goto",   "if",       "inline",    "int",    "long",    "register",
        "restrict", "return", "short",    "signed", "sizeof", "static",   "struct",    "switch", "typedef", "union",
        "unsigned", "void",   "volatile", "while",  "_Bool",  "_Complex", "_Imaginary"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(name, words[i]) == 0) return false;
    return strspn(name, letters) > 0 && !name[strspn(name, rest)];
}

/* No two of the files are one. */
static hyp_status check_paths(const char *plan_path, const hyp_c99_output *out, hyp_diag *diag)
{
    const char *paths[] = {plan_path, out->c_path, out->header_path, out->weights_path};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < i; j++)
            if (paths[i] && paths[j] && (strcmp(paths[i], paths[j]) == 0 || hyp_same_file(paths[i], paths[j])))
                return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: would overwrite %s; write to another file", paths[i],
                                j ? "what is written as well" : "the plan");
    return HYP_OK;
}

hyp_status hyp_plan_export_c(const char *plan_path, const char *c_path, const hyp_export_c_options *options, hyp_diag *diag)
{
    hyp_plan plan;
    hyp_export_c_options o = {.size = sizeof o};
    exporter e = {.values = NULL};
    HYP_NEED(plan_path);
    HYP_NEED(c_path);
    HYP_TRY(hyp_sized_take(&o, options, hyp_export_c_options, diag));
    const hyp_c99_output out = {o.name ? o.name : "model", c_path, o.header_path, o.weights_path, e.elements};
    if (!is_name(out.name)) return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "'%s' is no name of a function in C", out.name);
    HYP_TRY(check_paths(plan_path, &out, diag));
    HYP_TRY(hyp_plan_open_file(plan_path, NULL, &plan, diag));
    const HypPlan__Program *p = plan.program;
    e.values = hyp_calloc(p->n_dims + 1, sizeof *e.values);
    e.places = hyp_calloc((size_t)p->slot_count * HYP_C99_TYPES + 1, sizeof *e.places);
    e.w = (hyp_c99_writer){.plan = &plan, .p = p, .values = e.values, .places = e.places};
    e.w.weights = hyp_calloc(p->n_tensors + 1, sizeof *e.w.weights);
    e.w.wide = hyp_calloc(p->n_tensors + 1, sizeof *e.w.wide);
    hyp_status status =
        e.values && e.places && e.w.weights && e.w.wide ? export_plan(&e, &out, diag) : hyp_fail_memory(diag, p->n_tensors);
    if (status == HYP_ERR_UNSUPPORTED) hyp_diag_prefix(diag, "%s", plan_path);
    hyp_free(e.values);
    hyp_free(e.places);
    hyp_free(e.w.weights);
    hyp_free(e.w.wide);
    hyp_strbuf_dispose(&e.w.body);
    hyp_strbuf_dispose(&e.missing);
    hyp_plan_close(&plan);
    return status;
}
