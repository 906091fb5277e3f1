/* file.c - the files: what is at their beginning, weights as arrays or in a file of their own, the function. */
#include <inttypes.h>

#include "base/dtype.h"
#include "base/file.h"
#include "c99/writer.h"

typedef struct files {
    const hyp_c99_writer *w;
    const hyp_c99_output *out;
    hyp_strbuf text;
    hyp_outfile c, weights;
    uint64_t weight_bytes;
} files;

/* ---- weights ---------------------------------------------------------------------------------------- */

static const struct {
    uint8_t form;
    const char *name;
} forms[] = {{HYP_C99_PLAIN, "weight"}, {HYP_C99_PANELS_NK, "panels_nk"}, {HYP_C99_PANELS_KN, "panels_kn"}};
enum { FORMS = sizeof forms / sizeof *forms };

static size_t size_of(const files *f, uint32_t tensor) { return hyp_dtype_size((hyp_dtype)f->w->p->tensors[tensor]->dtype); }

static uint64_t count_of(const files *f, uint32_t tensor) { return f->w->p->tensors[tensor]->bytes / size_of(f, tensor); }

/* Where element i of a form is in the weight. */
static uint64_t source(const hyp_c99_form *form, uint8_t kind, uint64_t i)
{
    if (kind == HYP_C99_PLAIN) return i;
    uint64_t n = (uint64_t)form->n, k = (uint64_t)form->k, first = i / (HYP_C99_PANEL * k) * HYP_C99_PANEL;
    uint64_t width = n - first < HYP_C99_PANEL ? n - first : HYP_C99_PANEL, at = i - first * k;
    uint64_t row = at / width, column = first + at % width;
    return kind == HYP_C99_PANELS_NK ? column * k + row : row * n + column;
}

static hyp_status flush(files *f, hyp_diag *diag)
{
    hyp_status status = f->text.failed ? hyp_fail_memory(diag, f->text.len)
                                       : hyp_outfile_write(&f->c, hyp_strbuf_text(&f->text), f->text.len, diag);
    hyp_strbuf_dispose(&f->text);
    return status;
}

static void put_element(files *f, hyp_dtype dtype, const uint8_t *data, uint64_t i)
{
    int64_t whole = hyp_dtype_is_float(dtype) ? 0 : hyp_load_i64(dtype, data, (size_t)i);
    uint16_t bits;
    float value;
    if (dtype == HYP_F32) {
        memcpy(&value, data + i * sizeof value, sizeof value);
        hyp_c99_float(&f->text, (double)value);
    } else if (hyp_c99_is_short(dtype)) {
        memcpy(&bits, data + i * sizeof bits, sizeof bits);
        hyp_strbuf_printf(&f->text, "0x%04x", (unsigned)bits);
    } else if (dtype == HYP_U64)
        hyp_strbuf_printf(&f->text, "UINT64_C(%" PRIu64 ")", (uint64_t)whole);
    else if (whole == INT64_MIN)
        hyp_strbuf_puts(&f->text, "INT64_MIN");
    else if (whole > INT32_MAX || whole < -INT32_MAX)
        hyp_strbuf_printf(&f->text, "INT64_C(%" PRId64 ")", whole);
    else
        hyp_strbuf_printf(&f->text, "%" PRId64, whole);
    hyp_strbuf_puts(&f->text, ",");
}

static hyp_status put_array(files *f, uint32_t tensor, size_t form, hyp_diag *diag)
{
    enum { IN_A_LINE = 8, AT_ONCE = 1 << 14 };
    hyp_dtype dtype = (hyp_dtype)f->w->p->tensors[tensor]->dtype;
    const uint8_t *data = hyp_plan_weight(f->w->plan, tensor);
    uint64_t count = count_of(f, tensor);
    hyp_strbuf_printf(&f->text, "HYP_WEIGHTS static const %s %s%u[%" PRIu64 "] = {", hyp_c99_type(dtype), forms[form].name,
                      (unsigned)tensor, count ? count : 1);
    if (!count) hyp_strbuf_puts(&f->text, "0");
    for (uint64_t i = 0; i < count; i++) {
        hyp_strbuf_puts(&f->text, i % IN_A_LINE ? " " : "\n    ");
        put_element(f, dtype, data, source(&f->w->weights[tensor], forms[form].form, i));
        if (i % AT_ONCE == AT_ONCE - 1) HYP_TRY(flush(f, diag));
    }
    hyp_strbuf_puts(&f->text, "\n};\n");
    return flush(f, diag);
}

/* Behind what is in the file of weights, at a multiple of ALIGN; the C says where. */
static hyp_status put_bytes(files *f, uint32_t tensor, size_t form, hyp_diag *diag)
{
    enum { ALIGN = 64, AT_ONCE = 4096 };
    static const uint8_t nothing[ALIGN];
    const uint8_t *data = hyp_plan_weight(f->w->plan, tensor);
    size_t size = size_of(f, tensor);
    uint64_t count = count_of(f, tensor);
    HYP_TRY(hyp_outfile_write(&f->weights, nothing, (size_t)(-f->weights.offset % ALIGN), diag));
    hyp_strbuf_printf(&f->text, "#define %s%u ((const %s *)(const void *)((const char *)weights + %" PRIu64 "))\n",
                      forms[form].name, (unsigned)tensor, hyp_c99_type((hyp_dtype)f->w->p->tensors[tensor]->dtype),
                      f->weights.offset);
    for (uint64_t first = 0; first < count; first += AT_ONCE) {
        uint8_t piece[AT_ONCE * sizeof(int64_t)];
        uint64_t end = count - first < AT_ONCE ? count : first + AT_ONCE;
        for (uint64_t i = first; i < end; i++)
            memcpy(piece + (i - first) * size, data + source(&f->w->weights[tensor], forms[form].form, i) * size, size);
        HYP_TRY(hyp_outfile_write(&f->weights, piece, (size_t)(end - first) * size, diag));
    }
    return HYP_OK;
}

static hyp_status put_weights(files *f, hyp_diag *diag)
{
    for (uint32_t i = 0; i < f->w->p->n_tensors; i++)
        for (size_t form = 0; form < FORMS; form++)
            if (f->w->weights[i].forms & forms[form].form)
                HYP_TRY(f->out->weights_path ? put_bytes(f, i, form, diag) : put_array(f, i, form, diag));
    return HYP_OK;
}

static void count_weights(files *f)
{
    for (uint32_t i = 0; i < f->w->p->n_tensors; i++)
        for (size_t form = 0; form < FORMS; form++)
            if (f->w->weights[i].forms & forms[form].form) f->weight_bytes += f->w->p->tensors[i]->bytes;
}

/* ---- what is at the beginning ------------------------------------------------------------------------ */

static void put_argument(files *f, const char *before, const char *name, uint32_t tensor)
{
    hyp_strbuf_printf(&f->text, "%s%s *%s%u, ", before, hyp_c99_type(hyp_c99_dtype(f->w, tensor)), name, (unsigned)tensor);
}

static void put_arguments(files *f)
{
    const HypPlan__Program *p = f->w->p;
    hyp_strbuf_printf(&f->text, "int %s(", f->out->name);
    if (f->out->weights_path) hyp_strbuf_puts(&f->text, "const void *weights, ");
    for (size_t i = 0; i < p->n_inputs; i++) put_argument(f, "const ", "in", p->inputs[i]);
    for (size_t i = 0; i < p->n_outputs; i++) put_argument(f, "", "out", p->outputs[i]);
    hyp_strbuf_printf(&f->text, "struct %s_work *work)", f->out->name);
}

static void put_tensors(files *f, const char *what, const uint32_t *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const HypPlan__Tensor *t = f->w->p->tensors[tensors[i]];
        hyp_strbuf_printf(&f->text, " * %s%u: ", what, (unsigned)tensors[i]);
        hyp_c99_name(&f->text, t->name);
        hyp_strbuf_printf(&f->text, ", %s", hyp_c99_type((hyp_dtype)t->dtype));
        if (hyp_c99_is_short((hyp_dtype)t->dtype)) hyp_strbuf_printf(&f->text, " of %s", hyp_dtype_name((hyp_dtype)t->dtype));
        hyp_strbuf_puts(&f->text, " [");
        for (size_t a = 0; a < t->n_dims; a++)
            hyp_strbuf_printf(&f->text, "%s%" PRId64, a ? " " : "", f->w->values[t->dims[a]]);
        hyp_strbuf_puts(&f->text, "]\n");
    }
}

/* Bytes of the workspace: of its arrays, and what may lie between them. */
static uint64_t work_bytes(const files *f)
{
    uint64_t bytes = (f->w->room + f->w->wide_floats) * sizeof(float);
    bool any = bytes > 0;
    for (size_t t = 0; t < HYP_C99_TYPES; t++) {
        bytes += f->out->elements[t] * hyp_dtype_size((hyp_dtype)t);
        any = any || f->out->elements[t];
    }
    return any ? bytes + (sizeof(int64_t) - bytes % sizeof(int64_t)) % sizeof(int64_t) : 1;
}

/* Largest elements first, so that nothing lies between the arrays. */
static void put_work(files *f)
{
    hyp_strbuf_printf(&f->text, "struct %s_work {\n", f->out->name);
    bool any = f->w->room > 0 || f->w->wide_floats > 0;
    for (size_t size = sizeof(int64_t); size > 0; size /= 2) {
        for (size_t t = 0; t < HYP_C99_TYPES; t++) {
            if (!f->out->elements[t] || hyp_dtype_size((hyp_dtype)t) != size) continue;
            const char *name = t == HYP_BOOL ? "bools" : hyp_dtype_name((hyp_dtype)t);
            hyp_strbuf_printf(&f->text, "    %s %s[%zu];\n", hyp_c99_type((hyp_dtype)t), name, f->out->elements[t]);
            any = true;
        }
        if (size == sizeof(float) && f->w->room) hyp_strbuf_printf(&f->text, "    float room[%zu];\n", f->w->room);
        if (size == sizeof(float) && f->w->wide_floats) hyp_strbuf_printf(&f->text, "    float wide[%zu];\n", f->w->wide_floats);
    }
    hyp_strbuf_puts(&f->text, any ? "};\n\n" : "    char nothing[1];\n};\n\n");
}

static void put_comment(files *f)
{
    hyp_strbuf *sb = &f->text;
    hyp_strbuf_puts(sb, "/* Made by hypatia export-c of the model ");
    hyp_c99_name(sb, f->w->p->model_name);
    hyp_strbuf_puts(sb, ". C99, which needs its <math.h> and <stdint.h> and nothing else.\n *\n");
    put_tensors(f, "in", f->w->p->inputs, f->w->p->n_inputs);
    put_tensors(f, "out", f->w->p->outputs, f->w->p->n_outputs);
    if (f->out->weights_path)
        hyp_strbuf_puts(sb, " * weights: the bytes of the file that was written with this one, at a multiple of 8, "
                            "little-endian\n");
    hyp_strbuf_printf(sb,
                      " * work: holds nothing between calls. Calls with memory of their own may go side by side.\n *\n"
                      " * Memory: %" PRIu64 " bytes of weights, which nothing writes to, %" PRIu64
                      " bytes of work (%s_WORK), "
                      "some 2 KiB of stack.\n"
                      " * Returns 0; where the data are out of range, as an index is that has no element, the number of the "
                      "step, from 1.\n"
                      " */\n",
                      f->weight_bytes, work_bytes(f), f->out->name);
}

/* What callers see. */
static void put_interface(files *f)
{
    put_comment(f);
    hyp_strbuf_puts(&f->text, "#include <stdint.h>\n\n");
    hyp_strbuf_printf(&f->text, "enum { %s_WORK = %" PRIu64 " };\n", f->out->name, work_bytes(f));
    put_work(f);
    put_arguments(f);
    hyp_strbuf_puts(&f->text, ";\n\n");
}

static void put_head(files *f)
{
    put_interface(f);
    hyp_strbuf_puts(&f->text, "#include <math.h>\n\n");
    if (!f->out->weights_path)
        hyp_strbuf_puts(&f->text, "/* What weights are declared with besides: a section of flash, an alignment. */\n"
                                  "#ifndef HYP_WEIGHTS\n#define HYP_WEIGHTS\n#endif\n\n");
    hyp_c99_put_functions(f->w, &f->text);
}

/* ---- the files -------------------------------------------------------------------------------------- */

static void put_function(files *f)
{
    const HypPlan__Program *p = f->w->p;
    hyp_strbuf_puts(&f->text, "\n");
    put_arguments(f);
    hyp_strbuf_puts(&f->text, "\n{\n    (void)work;\n");
    if (f->out->weights_path) hyp_strbuf_puts(&f->text, "    (void)weights;\n");
    for (size_t i = 0; i < p->n_inputs; i++) hyp_strbuf_printf(&f->text, "    (void)in%u;\n", (unsigned)p->inputs[i]);
    for (size_t i = 0; i < p->n_outputs; i++) hyp_strbuf_printf(&f->text, "    (void)out%u;\n", (unsigned)p->outputs[i]);
    hyp_strbuf_puts(&f->text, hyp_strbuf_text(&f->w->body));
    hyp_strbuf_puts(&f->text, "    return 0;\n}\n");
}

static hyp_status write_header(files *f, hyp_outfile *header, hyp_diag *diag)
{
    HYP_TRY(hyp_outfile_open(header, f->out->header_path, diag));
    hyp_strbuf_printf(&f->text, "#ifndef %s_H\n#define %s_H\n\n", f->out->name, f->out->name);
    put_interface(f);
    hyp_strbuf_puts(&f->text, "#endif\n");
    hyp_status status = f->text.failed ? hyp_fail_memory(diag, f->text.len)
                                       : hyp_outfile_write(header, hyp_strbuf_text(&f->text), f->text.len, diag);
    hyp_strbuf_dispose(&f->text);
    return status;
}

static hyp_status write_c(files *f, hyp_diag *diag)
{
    HYP_TRY(hyp_outfile_open(&f->c, f->out->c_path, diag));
    if (f->out->weights_path) HYP_TRY(hyp_outfile_open(&f->weights, f->out->weights_path, diag));
    put_head(f);
    HYP_TRY(flush(f, diag));
    HYP_TRY(put_weights(f, diag));
    put_function(f);
    return flush(f, diag);
}

hyp_status hyp_c99_write(const hyp_c99_writer *w, const hyp_c99_output *out, hyp_diag *diag)
{
    files f = {.w = w, .out = out, .c = {.fd = -1}, .weights = {.fd = -1}};
    hyp_outfile header = {.fd = -1};
    count_weights(&f);
    hyp_status status = write_c(&f, diag);
    if (status == HYP_OK && out->header_path) status = write_header(&f, &header, diag);
    if (status == HYP_OK && out->weights_path) status = hyp_outfile_commit(&f.weights, diag);
    if (status == HYP_OK && out->header_path) status = hyp_outfile_commit(&header, diag);
    if (status == HYP_OK) status = hyp_outfile_commit(&f.c, diag);
    hyp_outfile_abort(&header);
    hyp_outfile_abort(&f.weights);
    hyp_outfile_abort(&f.c);
    hyp_strbuf_dispose(&f.text);
    return status;
}
