#include "runtime/cuda/ops/pointwise_source.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

/* Changes when kernels that were compiled before are not to be used any more. */
enum { REVISION = 2 };
static const char key_start[] = "pointwise ";

/* ---- the step ------------------------------------------------------------------------------------------------ */

/* What is generated, and where its text goes. */
typedef struct writer {
    const hyp_cuda_pw_program *program;
    hyp_strbuf *out;
    uint32_t width; /* elements of a piece */
    uint32_t inputs, outputs;
    const char *type;                       /* that is computed in */
    bool key;                               /* the text is a key, not a source */
    bool told;                              /* the kernel is told the sizes */
    int32_t last;                           /* while instructions are written: the one before */
    int32_t in_temp[HYP_CUDA_PW_REGISTERS]; /* and the one whose result is in the temp */
} writer;

/* Elements of a piece. Rows are whole numbers of pieces. */
static uint32_t width_of(const hyp_cuda_pointwise *a)
{
    enum { MOST = 8, ACCESS = 16 };
    size_t largest = 1;
    for (int i = 0; i < HYP_CUDA_PW_INPUTS; i++) {
        size_t size = hyp_dtype_size((hyp_dtype)a->input[i].dtype);
        if (a->input[i].stride[0] == 1 && size > largest) largest = size;
    }
    for (int o = 0; o < HYP_CUDA_PW_OUTPUTS; o++) {
        size_t size = hyp_dtype_size((hyp_dtype)a->output[o].dtype);
        if (size > largest) largest = size;
    }
    uint32_t width = (uint32_t)(ACCESS / largest);
    if (width > MOST) width = MOST;
    while (a->extent[0].size % width != 0) width /= 2;
    return width;
}

static int64_t elements_of(const hyp_cuda_pointwise *a)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < a->rank; d++) n *= a->extent[d].size;
    return n;
}

static const char *compute_type(const hyp_cuda_pw_program *p)
{
    switch (p->kernel) {
    case HYP_CUDA_KERNEL_pointwise_f32: return "float";
    case HYP_CUDA_KERNEL_pointwise_f64: return "double";
    case HYP_CUDA_KERNEL_pointwise_u64: return "uint64_t";
    default: return "int64_t";
    }
}

static writer start(const hyp_cuda_pw_program *p, hyp_strbuf *out)
{
    writer w = {.program = p, .out = out, .width = width_of(&p->args), .type = compute_type(p), .last = -1};
    while (w.inputs < HYP_CUDA_PW_INPUTS && p->args.input[w.inputs].dtype != HYP_DTYPE_NONE) w.inputs++;
    while (w.outputs < HYP_CUDA_PW_OUTPUTS && p->args.output[w.outputs].dtype != HYP_DTYPE_NONE) w.outputs++;
    return w;
}

uint32_t hyp_cuda_pw_blocks(const hyp_cuda_pw_program *p, uint32_t pieces)
{
    int64_t each = (int64_t)HYP_CUDA_GENERATED_THREADS * pieces;
    int64_t blocks = (elements_of(&p->args) / width_of(&p->args) - 1) / each + 1;
    return blocks <= INT32_MAX ? (uint32_t)blocks : 0;
}

size_t hyp_cuda_pw_piece_counts(const hyp_cuda_pw_program *p, int multiprocessors, uint32_t out[3])
{
    uint32_t pieces = width_of(&p->args) == 1 ? 2 : 1;
    size_t n = 0;
    for (; n < 3 && pieces <= HYP_CUDA_GENERATED_MOST; pieces *= 2) {
        uint32_t blocks = hyp_cuda_pw_blocks(p, pieces);
        if (n > 0 && blocks < (uint32_t)multiprocessors) break;
        if (blocks > 0) out[n++] = pieces;
    }
    return n;
}

/* ---- instructions -------------------------------------------------------------------------------------------- */

static const char *op_name(uint32_t op)
{
    switch (op) {
#define X(op, name, OP, ...)                                                                                           \
    case HYP_PW_##OP: return #OP;
        HYP_ACTIVATIONS(X)
        HYP_FUNCTIONS(X)
#undef X
#define X(op, OP, ...)                                                                                                 \
    case HYP_PW_##OP: return #OP;
        HYP_PLAIN_OPS(X)
#undef X
#define X(OP, ...)                                                                                                     \
    case HYP_PW_##OP: return #OP;
        HYP_PLAIN_FORMS(X)
#undef X
    default: return "?";
    }
}

/* By its bits, so that every number arrives as it is; in a key, where they do not count, people may read it. Bounds of
 * integers can look like NaN. */
static void put_number(const writer *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (w->key && !isnan(value))
        hyp_strbuf_double(w->out, value);
    else
        hyp_strbuf_printf(w->out, w->key ? "0x%llx" : "number(0x%llxull)", (unsigned long long)bits);
}

static void put_operand(const writer *w, hyp_cuda_pw_operand from)
{
    double constant = w->program->args.constant[from.index];
    switch (from.kind) {
    case HYP_PW_LAST: hyp_strbuf_printf(w->out, "r%d", w->last); break;
    case HYP_PW_TEMP: hyp_strbuf_printf(w->out, "r%d", w->in_temp[from.index]); break;
    case HYP_PW_INPUT: hyp_strbuf_printf(w->out, w->key ? "x%u" : "x%u[p][v]", from.index); break;
    default:
        if (!w->key) hyp_strbuf_printf(w->out, "(%s)", w->type);
        put_number(w, constant);
    }
}

/* In a key, parameters that are not 0; in a source, both. */
static void put_parameters(const writer *w, const hyp_cuda_pw_instr *in)
{
    const double both[] = {in->p, in->q};
    for (int i = 0; i < 2; i++) {
        if (w->key && both[0] == 0 && both[1] == 0) return;
        hyp_strbuf_puts(w->out, w->key ? " " : ", ");
        put_number(w, both[i]);
    }
}

static int arity_of(uint32_t op) { return hyp_plan_pointwise_arity((HypPlan__Pointwise__Op)op); }

static bool is_small(uint32_t dtype)
{
    return hyp_dtype_is_float((hyp_dtype)dtype) && hyp_dtype_size((hyp_dtype)dtype) <= 2;
}

/* Is the result of an instruction only ever stored, in 16 bits or less? */
static bool is_stored_small(const hyp_cuda_pointwise *a, uint32_t index)
{
    uint32_t last = index;
    uint8_t temp_plus1 = a->instr[index].temp_plus1; /* 0: not in one */
    bool stored = false;
    for (uint32_t i = index + 1; i < a->instrs; i++) {
        const hyp_cuda_pw_instr *in = &a->instr[i];
        const hyp_cuda_pw_operand operands[] = {in->a, in->b, in->c};
        bool store = in->op == HYP_PW_STORE, used = false;
        for (int o = 0; o < (store ? 1 : arity_of(in->op)); o++)
            used = used || (operands[o].kind == HYP_PW_LAST && last == index) ||
                   (operands[o].kind == HYP_PW_TEMP && operands[o].index + 1 == temp_plus1);
        if (used && !(store && is_small(a->output[in->b.index].dtype))) return false;
        stored = stored || used;
        if (store) continue;
        last = i;
        if (in->temp_plus1 == temp_plus1) temp_plus1 = 0;
    }
    return stored;
}

/* "ADD x0 r1 f32" or "const float r2 = rounded<float>(HYP_PW_ADD, HYP_F32, x0[p][v], r1, r1, number(...),
 * number(...))", by short forms of functions where 16 bits are left of the result. */
static void put_instruction(writer *w, const hyp_cuda_pw_instr *in, int32_t index)
{
    const hyp_cuda_pw_operand operands[] = {in->a, in->b, in->c};
    const char *to = hyp_dtype_name((hyp_dtype)in->to);
    int arity = arity_of(in->op);
    bool small = w->program->kernel == HYP_CUDA_KERNEL_pointwise_f32 &&
                 (is_small(in->to) || is_stored_small(&w->program->args, (uint32_t)index));
    if (w->key)
        hyp_strbuf_printf(w->out, "; %s", op_name(in->op));
    else
        hyp_strbuf_printf(w->out, "            const %s r%d = rounded%s<%s>(HYP_PW_%s, %u", w->type, index,
                          small ? "_short" : "", w->type, op_name(in->op), in->to);
    for (int i = 0; i < (w->key ? arity : 3); i++) {
        hyp_strbuf_puts(w->out, w->key ? " " : ", ");
        put_operand(w, operands[i < arity ? i : 0]);
    }
    put_parameters(w, in);
    if (w->key)
        hyp_strbuf_printf(w->out, " %s", to);
    else
        hyp_strbuf_printf(w->out, "); // %s\n", to);
    w->last = index;
    if (in->temp_plus1) w->in_temp[in->temp_plus1 - 1] = index;
}

static void put_store(const writer *w, const hyp_cuda_pw_instr *in)
{
    hyp_strbuf_printf(w->out, w->key ? "; y%u " : "            y%u[v] = ", in->b.index);
    put_operand(w, in->a);
    if (!w->key) hyp_strbuf_puts(w->out, ";\n");
}

static void put_instructions(writer *w)
{
    const hyp_cuda_pointwise *a = &w->program->args;
    for (uint32_t i = 0; i < a->instrs; i++) {
        if (a->instr[i].op == HYP_PW_STORE)
            put_store(w, &a->instr[i]);
        else
            put_instruction(w, &a->instr[i], (int32_t)i);
    }
}

/* ---- the key ------------------------------------------------------------------------------------------------- */

static void put_dims(hyp_strbuf *out, const char *open, uint32_t rank, const int64_t *dims, const char *close)
{
    hyp_strbuf_puts(out, open);
    for (uint32_t d = 0; d < rank; d++) hyp_strbuf_printf(out, "%s%lld", d ? " " : "", (long long)dims[d]);
    hyp_strbuf_puts(out, close);
}

void hyp_cuda_pw_key(const hyp_cuda_pw_program *p, hyp_strbuf *out)
{
    writer w = start(p, out);
    w.key = true;
    int64_t extent[HYP_CUDA_DIMS];
    for (uint32_t d = 0; d < p->args.rank; d++) extent[d] = p->args.extent[d].size;
    hyp_strbuf_printf(out, "%s%d %s", key_start, REVISION, w.type);
    put_dims(out, " [", p->args.rank, extent, "]");
    for (uint32_t i = 0; i < w.inputs; i++) {
        hyp_strbuf_printf(out, " %s", hyp_dtype_name((hyp_dtype)p->args.input[i].dtype));
        put_dims(out, "(", p->args.rank, p->args.input[i].stride, ")");
    }
    for (uint32_t o = 0; o < w.outputs; o++)
        hyp_strbuf_printf(out, "%s%s", o ? " " : " > ", hyp_dtype_name((hyp_dtype)p->args.output[o].dtype));
    put_instructions(&w);
    if (p->gated) hyp_strbuf_puts(out, "; gated");
}

bool hyp_cuda_pw_is_key(const char *key) { return strncmp(key, key_start, sizeof key_start - 1) == 0; }

/* ---- the source ---------------------------------------------------------------------------------------------- */

/* What cuda.cmake makes of elementwise.h, instructions.h, own_floats.cuh, scalar.cuh, pointwise.cuh and pieces.cuh:
 * driver/images.S. */
extern const char hyp_cuda_device_text[] __attribute__((visibility("hidden")));
/* And of layer_args.h, barriers.cuh and few_rows.cuh. */
extern const char hyp_cuda_layer_text[] __attribute__((visibility("hidden")));

/* What the headers of C and Hypatia would bring. */
static void put_types(hyp_strbuf *out)
{
    hyp_strbuf_puts(out, "#define HYP_CUDA_GENERATED\n"
                         "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\n"
                         "typedef short int16_t;\ntypedef unsigned short uint16_t;\n"
                         "typedef int int32_t;\ntypedef unsigned int uint32_t;\n"
                         "typedef long int64_t;\ntypedef unsigned long uint64_t;\nenum {\n");
    for (int t = HYP_DTYPE_NONE + 1; t <= HYP_F8E4M3; t++) {
        if (hyp_dtype_size((hyp_dtype)t) == 0) continue;
        hyp_strbuf_puts(out, "    HYP_");
        for (const char *c = hyp_dtype_name((hyp_dtype)t); *c; c++)
            hyp_strbuf_printf(out, "%c", toupper((unsigned char)*c));
        hyp_strbuf_printf(out, " = %d,\n", t);
    }
    hyp_strbuf_puts(out, "};\n");
}

/* Is the tensor walked as the output is, so that a piece lies where its number says? */
static bool is_dense(const hyp_cuda_pointwise *a, const int64_t *stride)
{
    int64_t dense = 1;
    for (uint32_t d = 0; d < a->rank; dense *= a->extent[d++].size)
        if (stride[d] != dense) return false;
    return true;
}

/* Do 32 bits hold every index of an element, also behind the end where the last threads are? */
static bool is_narrow(const hyp_cuda_pw_program *p, uint32_t pieces)
{
    const hyp_cuda_pointwise *a = &p->args;
    int64_t room = (int64_t)HYP_CUDA_GENERATED_THREADS * pieces * HYP_CUDA_PW_VECTOR;
    if (elements_of(a) > INT32_MAX - room) return false;
    for (int i = 0; i < HYP_CUDA_PW_INPUTS; i++) {
        int64_t end = 0;
        for (uint32_t d = 0; d < a->rank; d++) end += (a->extent[d].size - 1) * a->input[i].stride[d];
        if (end > INT32_MAX) return false;
    }
    return true;
}

/* Where a piece is in the box: i0 (its first element), i1, ... */
static void put_told_indexes(const writer *w)
{
    const hyp_cuda_pointwise *a = &w->program->args;
    if (a->rank == 1) {
        hyp_strbuf_puts(w->out, "        const position i0 = at * V;\n");
        return;
    }
    hyp_strbuf_puts(w->out, "        const position q1 = divide(at, from.extent[0]);\n"
                            "        const position i0 = (at - q1 * from.extent[0].size) * V;\n");
    for (uint32_t d = 1; d + 1 < a->rank; d++)
        hyp_strbuf_printf(w->out,
                          "        const position q%u = divide(q%u, from.extent[%u]), i%u = q%u - q%u * "
                          "from.extent[%u].size;\n",
                          d + 1, d, d, d, d, d + 1, d);
    hyp_strbuf_printf(w->out, "        const position i%u = q%u;\n", a->rank - 1, a->rank - 1);
}

static void put_indexes(const writer *w)
{
    const hyp_cuda_pointwise *a = &w->program->args;
    if (w->told) {
        put_told_indexes(w);
        return;
    }
    hyp_strbuf_printf(w->out, "        const position i0 = at %% %lldu * V;\n",
                      (long long)(a->extent[0].size / w->width));
    int64_t inner = a->extent[0].size / w->width;
    for (uint32_t d = 1; d < a->rank; inner *= a->extent[d++].size)
        hyp_strbuf_printf(w->out, "        const position i%u = at / %lldu %% %lldu;\n", d, (long long)inner,
                          (long long)a->extent[d].size);
}

/* A stride that is not 0. */
static void put_stride(const writer *w, uint32_t input, uint32_t d)
{
    int64_t stride = w->program->args.input[input].stride[d];
    if (w->told && stride != 1)
        hyp_strbuf_printf(w->out, "from.stride[%u][%u]", input, d);
    else
        hyp_strbuf_printf(w->out, w->told ? "%lld" : "%lldu", (long long)stride);
}

static void put_load(const writer *w, uint32_t input)
{
    const hyp_cuda_pointwise *a = &w->program->args;
    const hyp_cuda_pw_input *in = &a->input[input];
    bool wide = in->stride[0] == 1;
    for (uint32_t d = 1; d < a->rank; d++) wide = wide && in->stride[d] % w->width == 0;
    hyp_strbuf_printf(w->out, "        %s<%u>(from.input[%u], ", wide ? "load_piece" : "load_apart", in->dtype, input);
    if (is_dense(a, in->stride)) {
        hyp_strbuf_puts(w->out, "at * V");
    } else {
        hyp_strbuf_puts(w->out, "0");
        for (uint32_t d = 0; d < a->rank; d++) {
            if (in->stride[d] == 0) continue;
            hyp_strbuf_printf(w->out, " + i%u * ", d);
            put_stride(w, input, d);
        }
    }
    if (!wide) {
        hyp_strbuf_puts(w->out, ", ");
        if (in->stride[0] == 0)
            hyp_strbuf_puts(w->out, "0");
        else
            put_stride(w, input, 0);
    }
    hyp_strbuf_printf(w->out, ", x%u[p]);\n", input);
}

/* How many pieces there are, or one less. */
static void put_count(const writer *w, bool less)
{
    if (w->told)
        hyp_strbuf_puts(w->out, less ? "from.pieces - 1" : "from.pieces");
    else
        hyp_strbuf_printf(w->out, "%lldu", (long long)(elements_of(&w->program->args) / w->width - less));
}

/* Reads everything before it writes anything: an output may be an input, and reads are to be on their way together.
 * Threads behind the end read the last piece once more, so that nothing branches around a read. */
static void put_body(writer *w, bool whole)
{
    const hyp_cuda_pointwise *a = &w->program->args;
    for (uint32_t i = 0; i < w->inputs; i++) hyp_strbuf_printf(w->out, "    %s x%u[PIECES][V];\n", w->type, i);
    hyp_strbuf_puts(w->out, "#pragma unroll\n    for (int p = 0; p < PIECES; p++) {\n");
    if (whole) {
        hyp_strbuf_puts(w->out, "        const position at = first + p * THREADS;\n");
    } else {
        hyp_strbuf_puts(w->out, "        const position at = at_most<position>(first + p * THREADS, ");
        put_count(w, true);
        hyp_strbuf_puts(w->out, ");\n");
    }
    put_indexes(w);
    for (uint32_t i = 0; i < w->inputs; i++) put_load(w, i);
    hyp_strbuf_puts(w->out, "    }\n    reads_are_sent();\n");
    if (w->program->gated) hyp_strbuf_puts(w->out, "    if (*global<volatile int64_t>(from.gate)) return;\n");
    hyp_strbuf_puts(w->out, "#pragma unroll\n    for (int p = 0; p < PIECES; p++) {\n"
                            "        const position at = first + p * THREADS;\n");
    if (!whole) {
        hyp_strbuf_puts(w->out, "        if (at >= ");
        put_count(w, false);
        hyp_strbuf_puts(w->out, ") return;\n");
    }
    for (uint32_t o = 0; o < w->outputs; o++) hyp_strbuf_printf(w->out, "        %s y%u[V];\n", w->type, o);
    hyp_strbuf_puts(w->out, "#pragma unroll\n        for (int v = 0; v < V; v++) {\n");
    put_instructions(w);
    hyp_strbuf_puts(w->out, "        }\n");
    for (uint32_t o = 0; o < w->outputs; o++)
        hyp_strbuf_printf(w->out, "        store_piece<%u>(from.output[%u], at * V, y%u);\n", a->output[o].dtype, o, o);
    hyp_strbuf_puts(w->out, "    }\n}\n");
}

static void put_name(hyp_strbuf *out, uint32_t threads, const char *name, const char *argument)
{
    hyp_strbuf_printf(out, "extern \"C\" __global__ void __launch_bounds__(%u)\n%s(const %s from)\n", threads, name,
                      argument);
}

void hyp_cuda_pw_begin_source(bool cells, hyp_strbuf *out)
{
    put_types(out);
    hyp_strbuf_puts(out, hyp_cuda_device_text);
    if (cells) hyp_strbuf_puts(out, hyp_cuda_layer_text);
}

void hyp_cuda_pw_source(const hyp_cuda_pw_program *p, uint32_t pieces, hyp_strbuf *out)
{
    writer w = start(p, out);
    int64_t each = (int64_t)HYP_CUDA_GENERATED_THREADS * pieces;
    hyp_cuda_pw_begin_source(false, out);
    put_name(out, HYP_CUDA_GENERATED_THREADS, HYP_CUDA_GENERATED_NAME, "hyp_cuda_pw_addresses");
    hyp_strbuf_printf(out,
                      "{\n    typedef %s position;\n    wait_for_kernels_before();\n"
                      "    enum { V = %u, PIECES = %u, THREADS = %d };\n"
                      "    const position first = (position)blockIdx.x * (THREADS * PIECES) + threadIdx.x;\n",
                      is_narrow(p, pieces) ? "uint32_t" : "uint64_t", w.width, pieces, HYP_CUDA_GENERATED_THREADS);
    put_body(&w, elements_of(&p->args) / w.width % each == 0);
}

/* ---- kernels that are told the sizes ------------------------------------------------------------------------- */

uint32_t hyp_cuda_pw_told_width(const hyp_cuda_pw_program *p, int multiprocessors)
{
    bool few = elements_of(&p->args) <= (int64_t)multiprocessors * HYP_CUDA_GENERATED_THREADS;
    return few ? 1 : width_of(&p->args);
}

/* A kernel whose threads do a piece each. */
static void put_told(writer *w)
{
    hyp_strbuf_printf(w->out,
                      "{\n    typedef int64_t position;\n    wait_for_kernels_before();\n"
                      "    enum { V = %u, PIECES = 1, THREADS = 0 };\n"
                      "    const position first = (position)blockIdx.x * blockDim.x + threadIdx.x;\n",
                      w->width);
    put_body(w, false);
}

static void put_cell_reads(const writer *w, bool parts)
{
    const uint8_t *part_plus1 = w->program->before.part_plus1;
    for (uint32_t i = 0; i < w->inputs; i++) {
        if (!part_plus1[i] && !parts) put_load(w, i);
        if (part_plus1[i] && parts)
            hyp_strbuf_printf(w->out, "    x%u[p][v] = l.sums[%u * l.s.units + threadIdx.x];\n", i, part_plus1[i] - 1u);
    }
}

static void put_cell_results(writer *w)
{
    const hyp_cuda_pointwise *a = &w->program->args;
    put_cell_reads(w, true);
    for (uint32_t o = 0; o < w->outputs; o++) hyp_strbuf_printf(w->out, "    %s y%u[V];\n", w->type, o);
    put_instructions(w);
    for (uint32_t o = 0; o < w->outputs; o++)
        hyp_strbuf_printf(w->out, "    store_piece<%u>(from.output[%u], at, y%u);\n", a->output[o].dtype, o, o);
}

static void put_cell_begin(const writer *w, int step)
{
    hyp_strbuf_printf(w->out, "    {\n    const hyp_cuda_cell_step &from = cell.step[%d];\n", step);
    for (uint32_t i = 0; i < w->inputs; i++) hyp_strbuf_printf(w->out, "    %s x%u[PIECES][V];\n", w->type, i);
    put_cell_reads(w, false);
}

/* One whose blocks do rows of a layer, after which the first threads do the elements that are made of these. What the first
 * step reads besides is on its way meanwhile; a further one may read what the same thread has just written. */
static void put_cell(writer *w)
{
    const hyp_cuda_pw_before *before = &w->program->before;
    hyp_strbuf_printf(w->out,
                      "{\n    extern __shared__ double shared[];\n    typedef single_row<%d, false> product_of;\n"
                      "    const hyp_cuda_cell &cell = from;\n"
                      "    layer<%d, product_of, %u> l(cell.layer, (uint4 *)shared);\n    product_of product;\n"
                      "    l.begin(product);\n    enum { V = 1, PIECES = 1, p = 0, v = 0 };\n"
                      "    const bool has_one = threadIdx.x < l.s.units;\n"
                      "    const int64_t at = l.s.unit + (has_one ? threadIdx.x : 0), i0 = at;\n",
                      (int)before->dtype, (int)before->dtype, before->parts);
    put_cell_begin(w, 0);
    hyp_strbuf_puts(w->out, "    reads_are_sent();\n    l.compute(product);\n    __syncthreads();\n    l.keep();\n"
                            "    __syncthreads();\n    if (!has_one) return;\n");
    put_cell_results(w);
    hyp_strbuf_puts(w->out, "    }\n");
    if (before->then) {
        writer then = start(before->then, w->out);
        then.told = true;
        then.width = 1;
        put_cell_begin(&then, 1);
        put_cell_results(&then);
        hyp_strbuf_puts(w->out, "    }\n");
    }
    hyp_strbuf_puts(w->out, "}\n");
}

void hyp_cuda_pw_told_source(const hyp_cuda_pw_program *p, uint32_t width, char name[HYP_CUDA_TOLD_NAME],
                             hyp_strbuf *out)
{
    hyp_strbuf body = {0};
    writer w = start(p, &body);
    bool cell = p->before.parts > 0;
    w.told = true;
    w.width = cell ? 1 : width;
    if (cell)
        put_cell(&w);
    else
        put_told(&w);
    uint64_t hash = hyp_hash(body.data, body.len, cell ? p->before.threads : 0);
    snprintf(name, HYP_CUDA_TOLD_NAME, cell ? "cell_%016llx" : "told_%016llx", (unsigned long long)hash);
    put_name(out, cell ? p->before.threads : HYP_CUDA_GENERATED_THREADS, name,
             cell ? "__grid_constant__ hyp_cuda_cell" : "hyp_cuda_pw_sizes");
    hyp_strbuf_add(out, hyp_strbuf_text(&body), body.len);
    out->failed = out->failed || body.failed;
    hyp_strbuf_dispose(&body);
}

void hyp_cuda_pw_told_sizes(const hyp_cuda_pw_program *p, uint32_t width, hyp_cuda_pw_sizes *out)
{
    const hyp_cuda_pointwise *a = &p->args;
    *out = (hyp_cuda_pw_sizes){.pieces = elements_of(a) / width};
    for (uint32_t d = 0; d < a->rank; d++)
        out->extent[d] = d == 0 ? hyp_cuda_extent_of(a->extent[0].size / width) : a->extent[d];
    for (int i = 0; i < HYP_CUDA_PW_INPUTS; i++) memcpy(out->stride[i], a->input[i].stride, sizeof out->stride[i]);
}
