#include "ir/constant_chain.h"

#include <string.h>

#include "ir/op.h"

static const hyp_value *value_at(const hyp_graph *g, hyp_value_id v) { return &g->values.data[v]; }

/* One step of a chain back, from a node to *out, the value that it changes; false where it is no such node. */
static bool step_back(const hyp_graph *g, const hyp_node *node, hyp_chain *c, hyp_value_id *out)
{
    if (node->input_count == 0 || node->inputs[0] == HYP_NO_VALUE) return false;
    const hyp_type *in = &value_at(g, node->inputs[0])->type, *to = &value_at(g, node->outputs[0])->type;
    const hyp_value *by;
    double factor = 1;
    *out = node->inputs[0];
    switch (node->op) {
    case HYP_OP_transpose: c->swaps ^= in->rank == 2 && node->attrs[0].dims[0] == 1; return in->rank == 2;
    case HYP_OP_cast: break;
    case HYP_OP_mul:
        by = value_at(g, node->inputs[1]);
        if (by->kind != HYP_VALUE_CONST || !by->data || by->bytes != hyp_dtype_size(by->type.dtype)) return false;
        if (in->rank != to->rank || memcmp(in->dims, to->dims, sizeof in->dims) != 0) return false;
        factor = hyp_load_f64(by->type.dtype, by->data, 0);
        break;
    default: return false;
    }
    if (!hyp_dtype_is_float(in->dtype) || !hyp_dtype_is_float(to->dtype) || c->count == HYP_CHAIN_STEPS) return false;
    c->steps[c->count].to = to->dtype;
    c->steps[c->count++].factor = factor;
    return true;
}

bool hyp_chain_find(const hyp_graph *g, const uint32_t *uses, void *const *known, hyp_value_id v, hyp_chain *out)
{
    *out = (hyp_chain){.from = v};
    while (value_at(g, out->from)->kind == HYP_VALUE_NODE &&
           (out->from == v || (uses[out->from] == 1 && !known[out->from]))) {
        hyp_chain before = *out;
        if (step_back(g, &g->nodes.data[value_at(g, out->from)->producer], out, &out->from)) continue;
        *out = before;
        break;
    }
    for (uint32_t i = 0; i < out->count / 2; i++) {
        hyp_chain other = *out;
        out->steps[i] = other.steps[out->count - 1 - i];
        out->steps[out->count - 1 - i] = other.steps[i];
    }
    return out->from != v;
}

enum { EDGE = 32, BLOCK = EDGE * EDGE }; /* elements at a time; blocks of a matrix fit the cache both ways */

static void load_block(hyp_dtype t, const void *from, size_t first, size_t step, size_t count, double *out)
{
    if (t == HYP_F32) /* the common case */
        for (size_t i = 0; i < count; i++) {
            float v;
            memcpy(&v, (const char *)from + (first + i * step) * sizeof v, sizeof v);
            out[i] = (double)v;
        }
    else
        for (size_t i = 0; i < count; i++) out[i] = hyp_load_f64(t, from, first + i * step);
}

/* Every step rounds to its type. */
static void run_steps(const hyp_chain *c, double *x, size_t count)
{
    for (uint32_t s = 0; s < c->count; s++) {
        double factor = c->steps[s].factor;
        for (size_t i = 0; factor != 1 && i < count; i++) x[i] *= factor;
        hyp_eval_round(&(hyp_eval_tensor){.dtype = c->steps[s].to, .count = count, .f = x});
    }
}

static void store_block(hyp_dtype t, void *to, size_t first, size_t count, const double *x)
{
    if (t == HYP_F32)
        for (size_t i = 0; i < count; i++) {
            float v = (float)x[i];
            memcpy((char *)to + (first + i) * sizeof v, &v, sizeof v);
        }
    else
        for (size_t i = 0; i < count; i++) hyp_store_f64(t, to, first + i, x[i]);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static void run_in_order(const hyp_chain *c, hyp_dtype from, const void *in, hyp_dtype to, void *out, size_t count)
{
    double x[BLOCK];
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = smaller(BLOCK, count - at);
        load_block(from, in, at, 1, n, x);
        run_steps(c, x, n);
        store_block(to, out, at, n, x);
    }
}

static void run_swapped(const hyp_chain *c, hyp_dtype from, const void *in, hyp_dtype to, void *out, size_t rows,
                        size_t columns)
{
    double x[BLOCK];
    for (size_t r = 0; r < rows; r += EDGE)
        for (size_t k = 0; k < columns; k += EDGE) {
            size_t height = smaller(EDGE, rows - r), width = smaller(EDGE, columns - k);
            for (size_t i = 0; i < width; i++)
                load_block(from, in, r * columns + k + i, columns, height, x + i * height);
            run_steps(c, x, width * height);
            for (size_t i = 0; i < width; i++) store_block(to, out, (k + i) * rows + r, height, x + i * height);
        }
}

static void narrow(const void *in, hyp_dtype to, void *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float v;
        memcpy(&v, (const char *)in + i * sizeof v, sizeof v);
        uint16_t h = to == HYP_BF16 ? hyp_f32_to_bf16(v) : hyp_f32_to_f16(v);
        memcpy((char *)out + i * sizeof h, &h, sizeof h);
    }
}

static void transpose(const char *in, char *out, size_t rows, size_t columns, size_t size)
{
    for (size_t r0 = 0; r0 < rows; r0 += EDGE)
        for (size_t c0 = 0; c0 < columns; c0 += EDGE)
            for (size_t c = c0; c < columns && c < c0 + EDGE; c++)
                for (size_t r = r0; r < rows && r < r0 + EDGE; r++)
                    memcpy(out + (c * rows + r) * size, in + (r * columns + c) * size, size);
}

void hyp_chain_run(const hyp_graph *g, const hyp_chain *c, hyp_value_id v, const void *in, void *out)
{
    const hyp_type *t = &value_at(g, c->from)->type;
    hyp_dtype from = t->dtype, to = value_at(g, v)->type.dtype;
    size_t rows = t->rank == 2 ? (size_t)t->dims[0] : 1, columns = 1, size = hyp_dtype_size(from);
    for (int32_t i = t->rank == 2 ? 1 : 0; i < t->rank; i++) columns *= (size_t)t->dims[i];
    bool converts = c->count == 1 && c->steps[0].factor == 1 && from == HYP_F32 && (to == HYP_BF16 || to == HYP_F16);
    if (c->count == 0 && c->swaps)
        transpose(in, out, rows, columns, size);
    else if (c->count == 0)
        memcpy(out, in, rows * columns * size);
    else if (c->swaps)
        run_swapped(c, from, in, to, out, rows, columns);
    else if (converts)
        narrow(in, to, out, rows * columns);
    else
        run_in_order(c, from, in, to, out, rows * columns);
}
