/* fold.c - the bytes of weights, one at a time, while the plan is written. A plain constant is handed on as it lies in
 * memory; a constant subgraph is evaluated with every intermediate value in double and rounded once at the end.
 */
#include <string.h>

#include "codegen/codegen.h"

typedef struct folder {
    const hyp_lowered *lowered;
    void (*forget)(void *user, const void *data, size_t bytes);
    void *user;
    void *buffer;              /* the weight handed out last, when it was computed */
    const hyp_value *streamed; /* the constant handed out last, when it was not */
} folder;

static const hyp_value *value_at(const folder *f, hyp_value_id v) { return &f->lowered->graph->values.data[v]; }

static void forget_constant(const folder *f, const hyp_value *value)
{
    if (f->forget && value->kind == HYP_VALUE_CONST && !value->owned && value->data)
        f->forget(f->user, value->data, value->bytes);
}

/* Lets go of what was handed out last. */
static void release(folder *f)
{
    hyp_free(f->buffer);
    f->buffer = NULL;
    if (f->streamed) forget_constant(f, f->streamed);
    f->streamed = NULL;
}

static hyp_status want_data(const hyp_value *value, hyp_diag *diag)
{
    if (value->data || value->bytes == 0) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                    "the constant '%s' has no data: it was read from text that leaves large constants out",
                    value->name ? value->name : "");
}

/* Elements known as sizes, all of them fixed; they need no evaluation. */
static bool has_fixed_content(const hyp_value *value)
{
    for (uint32_t i = 0; value->content && i < value->content_count; i++)
        if (!hyp_dim_is_const(value->content[i])) return false;
    return value->content != NULL;
}

/* ---- a constant that is only converted, scaled and transposed: large weights, without tensors of doubles in between
 * ---- */

/* What a value is of a constant. In double, in which conversions between change nothing. */
typedef struct chain {
    const hyp_value *from;
    double factor;
    bool swaps; /* rows and columns */
} chain;

/* One step of a chain back, from value v to *out. */
static bool step_back(const folder *f, hyp_value_id v, chain *c, hyp_value_id *out)
{
    const hyp_value *value = value_at(f, v), *by;
    const hyp_node *node = &f->lowered->graph->nodes.data[value->producer];
    if (node->input_count == 0 || node->inputs[0] == HYP_NO_VALUE) return false;
    const hyp_type *in = &value_at(f, node->inputs[0])->type;
    *out = node->inputs[0];
    switch (node->op) {
    case HYP_OP_cast: return hyp_dtype_is_float(value->type.dtype) && hyp_dtype_is_float(in->dtype);
    case HYP_OP_transpose: c->swaps ^= in->rank == 2 && node->attrs[0].dims[0] == 1; return in->rank == 2;
    case HYP_OP_mul:
        by = value_at(f, node->inputs[1]);
        if (c->factor != 1 || by->kind != HYP_VALUE_CONST || by->type.rank != 0 || !by->data) return false;
        c->factor = hyp_load_f64(by->type.dtype, by->data, 0);
        return hyp_dtype_is_float(value->type.dtype);
    default: return false;
    }
}

static bool find_chain(const folder *f, hyp_value_id v, chain *out)
{
    *out = (chain){.factor = 1};
    while (value_at(f, v)->kind == HYP_VALUE_NODE)
        if (!step_back(f, v, out, &v)) return false;
    out->from = value_at(f, v);
    return out->from->kind == HYP_VALUE_CONST && out->from->data;
}

static void convert(hyp_dtype from, const void *in, hyp_dtype to, void *out, size_t count)
{
    if (from == HYP_F32 && hyp_dtype_size(to) == 2) {
        for (size_t i = 0; i < count; i++) {
            float v;
            memcpy(&v, (const char *)in + i * sizeof v, sizeof v);
            uint16_t h = to == HYP_BF16 ? hyp_f32_to_bf16(v) : hyp_f32_to_f16(v);
            memcpy((char *)out + i * sizeof h, &h, sizeof h);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) hyp_store_f64(to, out, i, hyp_load_f64(from, in, i));
}

/* In blocks that fit the cache both ways. */
static void transpose(const char *in, char *out, size_t rows, size_t columns, size_t size)
{
    enum { BLOCK = 32 };
    for (size_t r0 = 0; r0 < rows; r0 += BLOCK)
        for (size_t c0 = 0; c0 < columns; c0 += BLOCK)
            for (size_t c = c0; c < columns && c < c0 + BLOCK; c++)
                for (size_t r = r0; r < rows && r < r0 + BLOCK; r++)
                    memcpy(out + (c * rows + r) * size, in + (r * columns + c) * size, size);
}

/* Each element by itself, in its place or, in blocks as above, in that of its mirror image. */
static void scale(const chain *c, hyp_dtype to, void *out)
{
    enum { BLOCK = 32 };
    hyp_dtype from = c->from->type.dtype;
    size_t count = c->from->bytes / hyp_dtype_size(from), columns = c->swaps ? (size_t)c->from->type.dims[1] : count;
    size_t rows = columns ? count / columns : 0;
    for (size_t r0 = 0; r0 < rows; r0 += BLOCK)
        for (size_t c0 = 0; c0 < columns; c0 += BLOCK)
            for (size_t r = r0; r < rows && r < r0 + BLOCK; r++)
                for (size_t k = c0; k < columns && k < c0 + BLOCK; k++)
                    hyp_store_f64(to, out, k * rows + r,
                                  c->factor * hyp_load_f64(from, c->from->data, r * columns + k));
}

static void fold_chain(const chain *c, hyp_dtype to, void *out)
{
    hyp_dtype from = c->from->type.dtype;
    size_t size = hyp_dtype_size(from);
    if (c->factor == 1 && !c->swaps && from == to)
        memcpy(out, c->from->data, c->from->bytes);
    else if (c->factor == 1 && !c->swaps)
        convert(from, c->from->data, to, out, c->from->bytes / size);
    else if (c->factor == 1 && from == to)
        transpose(c->from->data, out, (size_t)c->from->type.dims[0], (size_t)c->from->type.dims[1], size);
    else
        scale(c, to, out);
}

/* ---- evaluation of a subgraph ----------------------------------------------------------------------- */

typedef struct evaluation {
    folder *f;
    hyp_arena arena;
    bool *wanted;             /* by node */
    uint32_t *uses;           /* by value: reads by wanted nodes to come, and one for the result */
    hyp_eval_tensor *tensors; /* by value; empty until loaded or computed */
} evaluation;

static bool is_leaf(const hyp_value *value) { return value->kind != HYP_VALUE_NODE || has_fixed_content(value); }

static void mark(evaluation *e, hyp_value_id result)
{
    const hyp_graph *g = e->f->lowered->graph;
    e->uses[result] = 1;
    e->wanted[value_at(e->f, result)->producer] = true;
    for (hyp_node_id n = value_at(e->f, result)->producer + 1; n-- > 0;) {
        const hyp_node *node = &g->nodes.data[n];
        for (uint32_t i = 0; e->wanted[n] && i < node->input_count; i++) {
            if (node->inputs[i] == HYP_NO_VALUE) continue;
            const hyp_value *in = value_at(e->f, node->inputs[i]);
            e->uses[node->inputs[i]]++;
            if (!is_leaf(in)) e->wanted[in->producer] = true;
        }
    }
}

static hyp_status load_leaf(evaluation *e, hyp_value_id v, hyp_diag *diag)
{
    const hyp_value *value = value_at(e->f, v);
    hyp_eval_tensor *t = &e->tensors[v];
    if (value->kind == HYP_VALUE_CONST) {
        HYP_TRY(want_data(value, diag));
        hyp_tensor from = {.data = (void *)(uintptr_t)value->data,
                           .bytes = value->bytes,
                           .dtype = value->type.dtype,
                           .rank = value->type.rank};
        memcpy(from.dims, value->type.dims, sizeof from.dims);
        HYP_TRY(hyp_eval_tensor_load(t, &from, diag));
        forget_constant(e->f, value);
        return HYP_OK;
    }
    HYP_TRY(hyp_eval_tensor_alloc(t, value->type.dtype, value->type.rank, value->type.dims, diag));
    for (size_t i = 0; i < t->count; i++) t->i[i] = value->content[i];
    return HYP_OK;
}

static hyp_status run_node(evaluation *e, const hyp_node *node, hyp_diag *diag)
{
    const hyp_eval_tensor **in = hyp_arena_zalloc(&e->arena, node->input_count, sizeof *in);
    hyp_eval_tensor *out = hyp_arena_zalloc(&e->arena, node->output_count, sizeof *out);
    if (!in || !out) return hyp_fail_memory(diag, node->output_count * sizeof *out);
    for (uint32_t i = 0; i < node->input_count; i++) {
        hyp_value_id v = node->inputs[i];
        if (v == HYP_NO_VALUE) continue;
        bool loaded = e->tensors[v].f || e->tensors[v].i;
        if (!loaded) HYP_TRY(load_leaf(e, v, diag));
        in[i] = &e->tensors[v];
    }
    HYP_TRY(hyp_op_eval(e->f->lowered->graph->dims, node->op, node->attrs, HYP_EVAL_DOUBLE, in, node->input_count, out,
                        node->output_count, NULL, diag));
    for (uint32_t o = 0; o < node->output_count; o++) {
        if (e->uses[node->outputs[o]])
            e->tensors[node->outputs[o]] = out[o];
        else
            hyp_eval_tensor_dispose(&out[o]);
    }
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i] != HYP_NO_VALUE && --e->uses[node->inputs[i]] == 0)
            hyp_eval_tensor_dispose(&e->tensors[node->inputs[i]]);
    return HYP_OK;
}

static hyp_status run(evaluation *e, hyp_value_id result, void *bytes, hyp_diag *diag)
{
    const hyp_graph *g = e->f->lowered->graph;
    e->wanted = hyp_arena_zalloc(&e->arena, g->nodes.len, sizeof *e->wanted);
    e->uses = hyp_arena_zalloc(&e->arena, g->values.len, sizeof *e->uses);
    e->tensors = hyp_arena_zalloc(&e->arena, g->values.len, sizeof *e->tensors);
    if (!e->wanted || !e->uses || !e->tensors) return hyp_fail_memory(diag, g->values.len * sizeof *e->tensors);
    mark(e, result);
    for (hyp_node_id n = 0; n <= value_at(e->f, result)->producer; n++)
        if (e->wanted[n]) HYP_TRY(run_node(e, &g->nodes.data[n], diag));
    hyp_eval_tensor_store(&e->tensors[result], bytes);
    return HYP_OK;
}

static hyp_status evaluate(folder *f, hyp_value_id result, void *bytes, hyp_diag *diag)
{
    evaluation e = {.f = f};
    hyp_status status = run(&e, result, bytes, diag);
    for (size_t v = 0; e.tensors && v < f->lowered->graph->values.len; v++) hyp_eval_tensor_dispose(&e.tensors[v]);
    hyp_arena_dispose(&e.arena);
    return status;
}

/* ---- weights ---------------------------------------------------------------------------------------- */

static hyp_status compute(folder *f, hyp_value_id v, size_t bytes, hyp_diag *diag)
{
    const hyp_value *value = value_at(f, v);
    f->buffer = hyp_malloc(bytes);
    if (!f->buffer) return hyp_fail_memory(diag, bytes);
    if (has_fixed_content(value)) {
        for (uint32_t i = 0; i < value->content_count; i++)
            hyp_store_i64(value->type.dtype, f->buffer, i, value->content[i]);
        return HYP_OK;
    }
    chain c;
    if (find_chain(f, v, &c)) {
        fold_chain(&c, value->type.dtype, f->buffer);
        forget_constant(f, c.from);
        return HYP_OK;
    }
    hyp_status status = evaluate(f, v, f->buffer, diag);
    if (status == HYP_OK) return HYP_OK;
    const hyp_provenance *from = value->name ? NULL : &f->lowered->graph->nodes.data[value->producer].from;
    hyp_diag_prefix(diag, "computing the constant '%s'",
                    value->name ? value->name : from->source_count ? from->sources[0] : "");
    return status;
}

static hyp_status get_weight(void *user, uint32_t tensor, const void **out, hyp_diag *diag)
{
    folder *f = user;
    release(f);
    hyp_value_id v = f->lowered->folds[tensor];
    const hyp_value *value = value_at(f, v);
    if (value->kind == HYP_VALUE_CONST) {
        HYP_TRY(want_data(value, diag));
        f->streamed = value;
        *out = value->data;
        return HYP_OK;
    }
    HYP_TRY(compute(f, v, (size_t)f->lowered->program->tensors[tensor]->bytes, diag));
    *out = f->buffer;
    return HYP_OK;
}

hyp_status hyp_codegen_write(const hyp_lowered *lowered, const char *path,
                             void (*forget)(void *user, const void *data, size_t bytes), void *user,
                             const hyp_plan_check *check, hyp_diag *diag)
{
    folder f = {.lowered = lowered, .forget = forget, .user = user};
    hyp_plan_weights weights = {get_weight, &f};
    hyp_status status = hyp_plan_write(path, lowered->program, &weights, check, diag);
    release(&f);
    return status;
}
