/* text.c - pieces of C: names, numbers, pointers, loops, and the functions that are called. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/dtype.h"
#include "c99/library.h"
#include "c99/writer.h"

const char *hyp_c99_type(hyp_dtype dtype)
{
    switch (dtype) {
    case HYP_F32: return "float";
    case HYP_U8: return "uint8_t";
    case HYP_I8: return "int8_t";
    case HYP_BF16:
    case HYP_F16:
    case HYP_U16: return "uint16_t";
    case HYP_I16: return "int16_t";
    case HYP_U32: return "uint32_t";
    case HYP_I32: return "int32_t";
    case HYP_I64: return "int64_t";
    case HYP_U64: return "uint64_t";
    case HYP_BOOL: return "unsigned char";
    default: return NULL;
    }
}

bool hyp_c99_is_short(hyp_dtype dtype) { return dtype == HYP_BF16 || dtype == HYP_F16; }

const char *hyp_c99_kind(hyp_dtype dtype)
{
    return dtype == HYP_BF16 ? "HYP_BF16" : dtype == HYP_F16 ? "HYP_F16" : "HYP_FLOATS";
}

hyp_dtype hyp_c99_dtype(const hyp_c99_writer *w, uint32_t tensor)
{
    return w->wide[tensor] ? HYP_F32 : (hyp_dtype)w->p->tensors[tensor]->dtype;
}

/* ---- the library ------------------------------------------------------------------------------------ */

static const char include[] = "#include \"";

/* The name in a line of an include of the library, without its extension, and where the next line begins; false: it is
 * none. */
static bool read_include(const char **line, char *name, size_t size)
{
    if (strncmp(*line, include, sizeof include - 1) != 0) return false;
    const char *from = *line + sizeof include - 1, *end = strchr(from, '.');
    snprintf(name, size, "%.*s", (int)(end - from), from);
    *line = strchr(from, '\n') + 1;
    return true;
}

void hyp_c99_want(hyp_c99_writer *w, const char *file)
{
    for (size_t i = 0; i < hyp_c99_library_count; i++) {
        if (strcmp(hyp_c99_library[i].name, file) != 0 || w->library[i]) continue;
        char name[64];
        w->library[i] = true;
        for (const char *line = hyp_c99_library[i].text; read_include(&line, name, sizeof name);) hyp_c99_want(w, name);
    }
}

bool hyp_c99_want_room(hyp_c99_writer *w, size_t a, size_t b)
{
    size_t floats;
    if (!hyp_mul_size(a, b, &floats) || floats > PTRDIFF_MAX / 16) {
        w->lacks = "is too large";
        return false;
    }
    if (floats > w->room) w->room = floats;
    return true;
}

/* ---- elementwise functions -------------------------------------------------------------------------- */

static const struct {
    int number;
    const char *name, *text;
} functions[] = {
#define ROW(op, name, OP, number, act, weight, kind, onnx, since, ...) {number, name, #__VA_ARGS__},
    HYP_ACTIVATIONS(ROW) HYP_FUNCTIONS(ROW)
#undef ROW
};
enum { FUNCTION_COUNT = sizeof functions / sizeof *functions };

/* What the rows are made of, and which of it is in the library, where compilers can make vectors of it. */
static const char own_functions[] = "#define NUM(x) ((float)(x))\n"
                                    "#define LIB(name) lib_##name\n"
                                    "#define OWN(name) own_##name\n"
                                    "#define own_relu(x) ((x) < 0 ? 0 : (x))\n"
                                    "#define own_leaky_relu(x, alpha) ((x) < 0 ? (alpha) * (x) : (x))\n"
                                    "#define own_at_most(x, limit) ((x) > (limit) ? (limit) : (x))\n"
                                    "#define own_sigmoid(x) (1 / (1 + hyp_exp(-(x))))\n"
                                    "#define own_softplus(x) (own_relu(x) + log1pf(hyp_exp(-fabsf(x))))\n"
                                    "#define own_gelu(x) (0.5f * (x) * (1 + hyp_erf((x) * 0.70710678118654752440f)))\n"
                                    "#define own_elu(x, alpha, gamma) ((gamma) * ((x) > 0 ? (x) : (alpha) * expm1f(x)))\n"
                                    "#define lib_exp hyp_exp\n"
                                    "#define lib_tanh hyp_tanh\n"
                                    "#define lib_erf hyp_erf\n";
static const struct {
    const char *text, *file;
} made_of[] = {
    {"LIB(exp)", "exp"},  {"LIB(tanh)", "tanh"},   {"LIB(erf)", "erf"},
    {"OWN(gelu)", "erf"}, {"OWN(sigmoid)", "exp"}, {"OWN(softplus)", "exp"}};
enum { MADE_OF = sizeof made_of / sizeof *made_of };

bool hyp_c99_has_function(int number)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (functions[i].number == number) return true;
    return false;
}

/* Marks what a function is made of. */
static void want_made_of(hyp_c99_writer *w, int number)
{
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        for (size_t m = 0; m < MADE_OF && functions[i].number == number; m++)
            if (strstr(functions[i].text, made_of[m].text)) hyp_c99_want(w, made_of[m].file);
}

void hyp_c99_want_act(hyp_c99_writer *w, int number)
{
    if (number != HYP_PW_CLIP && !hyp_c99_has_function(number)) return;
    w->acts[number] = true;
    want_made_of(w, number);
}

void hyp_c99_function(hyp_c99_writer *w, int number, const char *a, double p, double q)
{
    if (!hyp_c99_has_function(number)) {
        hyp_strbuf_puts(&w->body, a);
        return;
    }
    w->functions[number] = true;
    want_made_of(w, number);
    hyp_strbuf_printf(&w->body, "function%d(%s, (", number, a);
    hyp_c99_float(&w->body, p);
    hyp_strbuf_puts(&w->body, "), (");
    hyp_c99_float(&w->body, q);
    hyp_strbuf_puts(&w->body, "))");
}

static void put_activate(const hyp_c99_writer *w, hyp_strbuf *sb)
{
    hyp_strbuf_puts(sb, "/* What products and convolutions end in, by number; slope: of a leaky relu. */\n"
                        "static void hyp_activate(int act, float *x, long count, float slope)\n{\n    (void)slope;\n"
                        "    switch (act) {\n");
    for (int i = 0; i < HYP_C99_NUMBERS; i++) {
        if (!w->acts[i]) continue;
        hyp_strbuf_printf(sb, "    case %d:\n        for (long i = 0; i < count; i++) x[i] = ", i);
        if (i == HYP_PW_CLIP)
            hyp_strbuf_puts(sb, "x[i] < 0 ? 0 : x[i] > 6 ? 6 : x[i];\n        break;\n");
        else
            hyp_strbuf_printf(sb, "function%d(x[i], slope, 0);\n        break;\n", i);
    }
    hyp_strbuf_puts(sb, "    default: (void)x, (void)count;\n    }\n}\n\n");
}

/* The macros for functions of C's library, which have other names there. */
static void put_macros(const hyp_c99_writer *w, hyp_strbuf *sb)
{
    hyp_strbuf_puts(sb, own_functions);
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        const char *text = functions[i].text, *call = strstr(text, "LIB(");
        if (!w->functions[functions[i].number] && !w->acts[functions[i].number]) continue;
        for (; call; call = strstr(call + 1, "LIB(")) {
            int length = (int)strcspn(call + 4, ")");
            bool own = false;
            for (size_t m = 0; m < MADE_OF; m++) own = own || strncmp(call, made_of[m].text, (size_t)length + 5) == 0;
            if (!own)
                hyp_strbuf_printf(sb, "#undef lib_%.*s\n#define lib_%.*s %.*sf\n", length, call + 4, length, call + 4,
                                  length, call + 4);
        }
        hyp_strbuf_printf(sb, "#define function%d(a, p, q) (%s) /* %s */\n", functions[i].number, text, functions[i].name);
    }
    hyp_strbuf_puts(sb, "\n");
}

static size_t find_file(const char *name)
{
    size_t i = 0;
    while (i + 1 < hyp_c99_library_count && strcmp(hyp_c99_library[i].name, name) != 0) i++;
    return i;
}

static void put_file(const hyp_c99_writer *w, size_t file, bool *put, hyp_strbuf *sb);

/* What makes floats of weights: a function where some are in 16 bits. */
static void put_kinds(const hyp_c99_writer *w, bool *put, hyp_strbuf *sb)
{
    size_t floats = find_file("floats"), shorts = find_file("short");
    if (w->library[floats]) {
        put_file(w, floats, put, sb);
        return;
    }
    if (w->library[shorts])
        put_file(w, shorts, put, sb);
    else
        hyp_strbuf_puts(sb, "enum hyp_kind { HYP_FLOATS };\n");
    hyp_strbuf_puts(sb, "#define hyp_floats(kind, x, first, count, room) ((void)(room), (const float *)(x) + (first))\n\n");
}

/* A file after those that it includes, each once. */
static void put_file(const hyp_c99_writer *w, size_t file, bool *put, hyp_strbuf *sb)
{
    const char *line = hyp_c99_library[file].text;
    char name[64];
    if (put[file]) return;
    put[file] = true;
    while (read_include(&line, name, sizeof name))
        put_file(w, find_file(name), put, sb);
    if (strcmp(hyp_c99_library[file].name, "activate") == 0) {
        put_activate(w, sb);
        return;
    }
    if (strcmp(hyp_c99_library[file].name, "kinds") == 0) {
        put_kinds(w, put, sb);
        return;
    }
    hyp_strbuf_puts(sb, line + (*line == '\n'));
    hyp_strbuf_puts(sb, "\n");
}

/* What elementwise functions are made of comes first. */
void hyp_c99_put_functions(const hyp_c99_writer *w, hyp_strbuf *sb)
{
    bool put[HYP_C99_LIBRARY] = {false};
    put_macros(w, sb);
    for (size_t i = 0; i < hyp_c99_library_count; i++)
        for (size_t m = 0; m < MADE_OF; m++)
            if (w->library[i] && strcmp(hyp_c99_library[i].name, made_of[m].file) == 0) put_file(w, i, put, sb);
    for (size_t i = 0; i < hyp_c99_library_count; i++)
        if (w->library[i]) put_file(w, i, put, sb);
}

/* ---- names, numbers, pointers ----------------------------------------------------------------------- */

void hyp_c99_name(hyp_strbuf *sb, const char *name)
{
    for (; *name; name++) {
        bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9') ||
                     strchr("._-:", *name);
        hyp_strbuf_add(sb, plain ? name : "_", 1);
    }
}

/* Nine digits are a float, to the bit. */
void hyp_c99_float(hyp_strbuf *sb, double number)
{
    float value = (float)number;
    char text[64];
    if (!isfinite(value)) {
        hyp_strbuf_puts(sb, isnan(value) ? "NAN" : value > 0 ? "INFINITY" : "-INFINITY");
        return;
    }
    hyp_format_double(text, sizeof text, 9, (double)value);
    hyp_strbuf_printf(sb, "%s%sf", text, strpbrk(text, ".e") ? "" : ".0");
}

void hyp_c99_begin(hyp_c99_writer *w) { hyp_strbuf_puts(&w->body, "    {\n"); }

void hyp_c99_end(hyp_c99_writer *w) { hyp_strbuf_puts(&w->body, "    }\n"); }

void hyp_c99_tensor(hyp_c99_writer *w, uint32_t tensor)
{
    uint32_t root = hyp_plan_root(w->p, tensor);
    const HypPlan__Tensor *t = w->p->tensors[root];
    uint64_t first = hyp_plan_is_window(w->p->tensors[tensor]) ? w->p->tensors[tensor]->first : 0;
    if (w->wide[tensor]) {
        hyp_strbuf_printf(&w->body, "work->wide + %zu", w->wide[tensor] - 1);
        return;
    }
    switch (t->place) {
    case HYP_PLAN__PLACE__PLACE_INPUT: hyp_strbuf_printf(&w->body, "in%u", (unsigned)root); break;
    case HYP_PLAN__PLACE__PLACE_OUTPUT: hyp_strbuf_printf(&w->body, "out%u", (unsigned)root); break;
    case HYP_PLAN__PLACE__PLACE_WEIGHT:
        w->weights[root].forms |= HYP_C99_PLAIN;
        hyp_strbuf_printf(&w->body, "weight%u", (unsigned)root);
        break;
    default:
        hyp_strbuf_printf(&w->body, "work->%s + %zu", t->dtype == HYP_BOOL ? "bools" : hyp_dtype_name((hyp_dtype)t->dtype),
                          w->places[t->slot * HYP_C99_TYPES + t->dtype]);
    }
    if (first) hyp_strbuf_printf(&w->body, " + %" PRIu64, first);
}

void hyp_c99_operand(hyp_c99_writer *w, uint32_t tensor_plus1)
{
    hyp_strbuf_puts(&w->body, ", ");
    if (tensor_plus1)
        hyp_c99_tensor(w, tensor_plus1 - 1);
    else
        hyp_strbuf_puts(&w->body, "0");
}

void hyp_c99_pointer(hyp_c99_writer *w, const char *name, uint32_t tensor_plus1, bool read)
{
    const char *type = tensor_plus1 ? hyp_c99_type(hyp_c99_dtype(w, tensor_plus1 - 1)) : "float";
    hyp_strbuf_printf(&w->body, "        %s%s *%s = ", read ? "const " : "", type ? type : "void", name);
    if (tensor_plus1)
        hyp_c99_tensor(w, tensor_plus1 - 1);
    else
        hyp_strbuf_puts(&w->body, "0");
    hyp_strbuf_puts(&w->body, ";\n");
}

void hyp_c99_long(hyp_c99_writer *w, const char *name, int64_t value)
{
    hyp_strbuf_printf(&w->body, "        const long %s = %" PRId64 ";\n", name, value);
}

void hyp_c99_typedef(hyp_c99_writer *w, const char *name, hyp_dtype dtype)
{
    hyp_strbuf_printf(&w->body, "        typedef %s %s;\n", hyp_c99_type(dtype), name);
}

void hyp_c99_fail(hyp_c99_writer *w)
{
    hyp_strbuf_printf(&w->body, "return %zu;\n", w->step + 1);
    w->fails = true;
}

/* ---- loops ------------------------------------------------------------------------------------------ */

void hyp_c99_nest_init(hyp_c99_nest *n, const int64_t *values, const uint32_t *extents, size_t rank)
{
    *n = (hyp_c99_nest){.rank = rank};
    for (size_t i = 0; i < rank; i++) n->extents[i] = values[extents[i]];
}

void hyp_c99_nest_lane(hyp_c99_nest *n, const int64_t *values, const uint32_t *strides, int64_t offset)
{
    int64_t dense = 1;
    for (size_t i = n->rank; i-- > 0; dense *= n->extents[i]) n->strides[n->lanes][i] = strides ? values[strides[i]] : dense;
    n->offsets[n->lanes++] = offset;
}

/* Whether going on along axis `a` is going on behind the end of axis `b`, in every lane. */
static bool follows(const hyp_c99_nest *n, size_t a, size_t b)
{
    for (size_t l = 0; l < n->lanes; l++)
        if (n->strides[l][a] != n->strides[l][b] * n->extents[b]) return false;
    return true;
}

static void move_axis(hyp_c99_nest *n, size_t to, size_t from)
{
    n->extents[to] = n->extents[from];
    for (size_t l = 0; l < n->lanes; l++) n->strides[l][to] = n->strides[l][from];
}

void hyp_c99_nest_merge(hyp_c99_nest *n)
{
    size_t rank = 0;
    for (size_t i = 0; i < n->rank; i++) {
        if (n->extents[i] == 1) continue;
        int64_t outer = rank && follows(n, rank - 1, i) ? n->extents[rank - 1] : 1;
        if (rank && follows(n, rank - 1, i)) rank--;
        move_axis(n, rank, i);
        n->extents[rank++] *= outer;
    }
    n->rank = rank;
}

void hyp_c99_nest_loops(hyp_c99_writer *w, const hyp_c99_nest *n, const char *name, size_t inner)
{
    for (size_t i = 0; i + inner < n->rank; i++)
        hyp_strbuf_printf(&w->body, "        for (long %s%zu = 0; %s%zu < %" PRId64 "; %s%zu++)\n", name, i, name, i,
                          n->extents[i], name, i);
}

void hyp_c99_nest_index(hyp_c99_writer *w, const hyp_c99_nest *n, size_t lane, const char *name)
{
    hyp_strbuf_printf(&w->body, "%" PRId64, n->offsets[lane]);
    for (size_t i = 0; i < n->rank; i++)
        if (n->strides[lane][i] == 1)
            hyp_strbuf_printf(&w->body, " + %s%zu", name, i);
        else if (n->strides[lane][i])
            hyp_strbuf_printf(&w->body, " + %s%zu * %" PRId64 "L", name, i, n->strides[lane][i]);
}
