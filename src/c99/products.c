/* products.c - linear layers, products of matrices, attention: calls of library/product.c and library/attention.c. */
#include <inttypes.h>
#include <stdio.h>

#include "c99/writer.h"

static void field(hyp_c99_writer *w, const char *name, int64_t value)
{
    hyp_strbuf_printf(&w->body, "            .%s = %" PRId64 ",\n", name, value);
}

static void float_field(hyp_c99_writer *w, const char *name, double value)
{
    hyp_strbuf_printf(&w->body, "            .%s = ", name);
    hyp_c99_float(&w->body, value);
    hyp_strbuf_puts(&w->body, ",\n");
}

/* A tensor, and where in it. */
static void tensor_field(hyp_c99_writer *w, const char *name, uint32_t tensor, const hyp_c99_nest *n, size_t lane)
{
    hyp_strbuf_printf(&w->body, "            .%s = ", name);
    hyp_c99_tensor(w, tensor);
    if (n) {
        hyp_strbuf_puts(&w->body, " + ");
        hyp_c99_nest_index(w, n, lane, "n");
    }
    hyp_strbuf_puts(&w->body, ",\n");
}

/* ---- of integers ------------------------------------------------------------------------------------ */

/* y[m, n] = a b, modulo the size of the type; sums are of unsigned integers, which may wrap. */
static const char integer_product[] = "        for (long i = 0; i < m; i++) {\n"
                                      "            for (long j = 0; j < n; j++) y[i * n + j] = 0;\n"
                                      "            for (long d = 0; d < k; d++)\n"
                                      "                for (long j = 0; j < n; j++)\n"
                                      "                    y[i * n + j] = (T)((U)y[i * n + j] + (U)a[i * a_row + d * "
                                      "a_step] * (U)b[d * b_row + j * b_column]);\n"
                                      "        }\n";

/* As many bits at least as the type has, and no promotion of it to a signed type. */
static bool put_integers(hyp_c99_writer *w, uint32_t tensor)
{
    hyp_dtype t = hyp_c99_dtype(w, tensor);
    if ((t != HYP_I32 && t != HYP_I64) || w->lacks) {
        w->lacks = w->lacks ? w->lacks : "has no form for its type";
        return false;
    }
    hyp_c99_typedef(w, "T", t);
    hyp_c99_typedef(w, "U", t == HYP_I32 ? HYP_U32 : HYP_U64);
    return true;
}

/* ---- linear ----------------------------------------------------------------------------------------- */

/* The weight in panels, or as it is, where it is none. */
static void put_weight(hyp_c99_writer *w, const HypPlan__Layer *layer, int64_t n, int64_t k)
{
    uint32_t root = hyp_plan_root(w->p, layer->weight);
    if (w->p->tensors[root]->place != HYP_PLAN__PLACE__PLACE_WEIGHT) {
        tensor_field(w, "b", layer->weight, NULL, 0);
        field(w, "b_row", layer->weight_kn ? n : 1);
        field(w, "b_column", layer->weight_kn ? 1 : k);
        hyp_strbuf_puts(&w->body, "            .room = work->room,\n");
        hyp_c99_want_room(w, (size_t)k, HYP_C99_PANEL);
        return;
    }
    hyp_c99_form *form = &w->weights[root];
    if ((form->forms & ~HYP_C99_PLAIN) && (form->n != n || form->k != k)) w->lacks = "shares a weight in another shape";
    const uint8_t wanted = layer->weight_kn ? HYP_C99_PANELS_KN : HYP_C99_PANELS_NK;
    form->forms |= wanted;
    form->n = n;
    form->k = k;
    hyp_dtype dtype = hyp_c99_dtype(w, layer->weight);
    if (hyp_c99_is_short(dtype)) {
        hyp_strbuf_printf(&w->body, "            .kind = %s,\n            .room = work->room,\n", hyp_c99_kind(dtype));
        hyp_c99_want_room(w, (size_t)k, HYP_C99_PANEL);
        hyp_c99_want(w, "floats");
    }
    hyp_strbuf_printf(&w->body, "            .b = panels_%s%u,\n", layer->weight_kn ? "kn" : "nk", (unsigned)root);
}

static void put_layer(hyp_c99_writer *w, const HypPlan__Layer *layer, int64_t m, uint32_t x, uint32_t y,
                      uint32_t added_plus1, bool after)
{
    int64_t n = w->values[layer->n], k = w->values[layer->k];
    int act = (int)hyp_plan_act_op(layer->act);
    hyp_strbuf_puts(&w->body, "        const struct hyp_product s = {\n");
    field(w, "m", m);
    field(w, "n", n);
    field(w, "k", k);
    tensor_field(w, "a", x, NULL, 0);
    field(w, "a_row", k);
    field(w, "a_step", 1);
    put_weight(w, layer, n, k);
    float_field(w, "alpha", 1);
    if (layer->bias_plus1) tensor_field(w, "bias", layer->bias_plus1 - 1, NULL, 0);
    if (added_plus1) tensor_field(w, "added", added_plus1 - 1, NULL, 0);
    field(w, "after", after);
    field(w, "act", act);
    tensor_field(w, "y", y, NULL, 0);
    field(w, "y_row", n);
    hyp_strbuf_puts(&w->body, "        };\n        hyp_multiply(&s);\n");
    hyp_c99_want_act(w, act);
    hyp_c99_want(w, "product");
}

void hyp_c99_linear(hyp_c99_writer *w, const HypPlan__Linear *s)
{
    uint32_t x = s->x;
    for (size_t l = 0; l < s->n_layers; l++) {
        bool last = l + 1 == s->n_layers;
        uint32_t y = !last && s->layers[l]->hidden_plus1 ? s->layers[l]->hidden_plus1 - 1 : s->y;
        hyp_dtype t = hyp_c99_dtype(w, s->layers[l]->weight);
        if (hyp_c99_dtype(w, x) != HYP_F32 || hyp_c99_dtype(w, y) != HYP_F32 || (t != HYP_F32 && !hyp_c99_is_short(t))) {
            w->lacks = "is of no floats of 32 bits";
            return;
        }
        hyp_c99_begin(w);
        put_layer(w, s->layers[l], w->values[s->m], x, y, last ? s->added_plus1 : 0, last && s->add_after);
        hyp_c99_end(w);
        x = y;
    }
}

/* ---- matmul ----------------------------------------------------------------------------------------- */

static void put_product(hyp_c99_writer *w, const HypPlan__Matmul *s, const hyp_c99_nest *n)
{
    int64_t m = w->values[s->m], columns = w->values[s->n], k = w->values[s->k];
    hyp_strbuf_puts(&w->body, "        const struct hyp_product s = {\n");
    field(w, "m", m);
    field(w, "n", columns);
    field(w, "k", k);
    tensor_field(w, "a", s->a, n, 0);
    field(w, "a_row", s->trans_a ? 1 : k);
    field(w, "a_step", s->trans_a ? m : 1);
    tensor_field(w, "b", s->b, n, 1);
    field(w, "b_row", s->trans_b ? 1 : columns);
    field(w, "b_column", s->trans_b ? k : 1);
    hyp_strbuf_puts(&w->body, "            .room = work->room,\n");
    float_field(w, "alpha", (double)s->alpha);
    tensor_field(w, "y", s->y, n, 2);
    field(w, "y_row", columns);
    hyp_strbuf_puts(&w->body, "        };\n        hyp_multiply(&s);\n");
    hyp_c99_want_room(w, k > 0 ? (size_t)k : 1, HYP_C99_PANEL);
    hyp_c99_want(w, "product");
}

static void put_integer_product(hyp_c99_writer *w, const HypPlan__Matmul *s, const hyp_c99_nest *n)
{
    static const char *const names[] = {"const T *a", "const T *b", "T *y"};
    const uint32_t tensors[] = {s->a, s->b, s->y};
    int64_t m = w->values[s->m], columns = w->values[s->n], k = w->values[s->k];
    if (!put_integers(w, s->a)) return;
    for (size_t i = 0; i < 3; i++) {
        hyp_strbuf_printf(&w->body, "        %s = ", names[i]);
        hyp_c99_tensor(w, tensors[i]);
        hyp_strbuf_puts(&w->body, " + ");
        hyp_c99_nest_index(w, n, i, "n");
        hyp_strbuf_puts(&w->body, ";\n");
    }
    hyp_c99_long(w, "m", m);
    hyp_c99_long(w, "n", columns);
    hyp_c99_long(w, "k", k);
    hyp_c99_long(w, "a_row", s->trans_a ? 1 : k);
    hyp_c99_long(w, "a_step", s->trans_a ? m : 1);
    hyp_c99_long(w, "b_row", s->trans_b ? 1 : columns);
    hyp_c99_long(w, "b_column", s->trans_b ? k : 1);
    hyp_strbuf_puts(&w->body, integer_product);
}

void hyp_c99_matmul(hyp_c99_writer *w, const HypPlan__Matmul *s)
{
    hyp_c99_nest n;
    hyp_c99_nest_init(&n, w->values, s->batch, s->n_batch);
    hyp_c99_nest_lane(&n, w->values, s->a_strides, 0);
    hyp_c99_nest_lane(&n, w->values, s->b_strides, 0);
    hyp_c99_nest_lane(&n, w->values, NULL, 0);
    for (size_t i = 0; i < n.rank; i++) n.strides[2][i] *= w->values[s->m] * w->values[s->n];
    hyp_c99_nest_merge(&n);
    hyp_c99_nest_loops(w, &n, "n", 0);
    hyp_c99_begin(w);
    if (hyp_c99_dtype(w, s->a) == HYP_F32)
        put_product(w, s, &n);
    else
        put_integer_product(w, s, &n);
    hyp_c99_end(w);
}

/* ---- attention -------------------------------------------------------------------------------------- */

enum { Q, K, V, Y, MASK, MORE_K, MORE_V, OPERANDS };

static void operand_fields(hyp_c99_writer *w, const char *name, const HypPlan__Attention__Operand *o, size_t batch,
                           const hyp_c99_nest *n, size_t lane)
{
    char text[32];
    snprintf(text, sizeof text, "%s.at", name);
    tensor_field(w, text, o->tensor, n, lane);
    snprintf(text, sizeof text, "%s.row", name);
    field(w, text, w->values[o->strides[batch]]);
    snprintf(text, sizeof text, "%s.column", name);
    field(w, text, w->values[o->strides[batch + 1]]);
}

static void mask_fields(hyp_c99_writer *w, const HypPlan__Attention *s, const hyp_c99_nest *n)
{
    if (hyp_c99_dtype(w, s->mask->tensor) == HYP_BOOL)
        tensor_field(w, "hidden", s->mask->tensor, n, MASK);
    else
        tensor_field(w, "mask.at", s->mask->tensor, n, MASK);
    field(w, "mask.row", w->values[s->mask->strides[s->n_batch]]);
    field(w, "mask.column", w->values[s->mask->strides[s->n_batch + 1]]);
    field(w, "shown", s->shown);
    float_field(w, "fill", (double)s->fill);
}

/* Floats that hyp_attend needs. */
static void want_room(hyp_c99_writer *w, size_t keys, size_t width, size_t columns)
{
    size_t of_keys, all, rows = 4; /* HYP_ROWS of library/tile.c */
    if (!hyp_add_size(width, columns, &of_keys) || !hyp_add_size(of_keys, rows, &of_keys) ||
        !hyp_mul_size(of_keys, keys, &of_keys) || !hyp_mul_size(columns, rows, &all) || !hyp_add_size(all, of_keys, &all))
        all = SIZE_MAX;
    hyp_c99_want_room(w, all, 1);
}

void hyp_c99_attention(hyp_c99_writer *w, const HypPlan__Attention *s)
{
    static const char *const names[OPERANDS] = {"q", "k", "v", NULL, NULL, "more_k", "more_v"};
    const HypPlan__Attention__Operand *operands[OPERANDS] = {s->q, s->k, s->v, s->y, s->mask, s->more_k, s->more_v};
    int64_t keys = w->values[s->keys], width = w->values[s->width], columns = w->values[s->columns];
    hyp_c99_nest n;
    hyp_c99_nest_init(&n, w->values, s->batch, s->n_batch);
    for (int o = 0; o < OPERANDS; o++) {
        const HypPlan__Attention__Operand *operand = operands[o] ? operands[o] : s->q; /* any will do */
        hyp_dtype t = hyp_c99_dtype(w, operand->tensor);
        if (t != HYP_F32 && (o != MASK || t != HYP_BOOL)) w->lacks = "is of no floats of 32 bits";
        hyp_c99_nest_lane(&n, w->values, operand->strides, w->values[operand->offset]);
    }
    if (w->lacks) return;
    hyp_c99_nest_merge(&n);
    hyp_c99_nest_loops(w, &n, "n", 0);
    hyp_c99_begin(w);
    hyp_strbuf_puts(&w->body, "        const struct hyp_attention s = {\n");
    field(w, "rows", w->values[s->rows]);
    field(w, "keys", keys);
    field(w, "width", width);
    field(w, "columns", columns);
    field(w, "first_keys", s->more_k ? w->values[s->first_keys] : keys);
    for (int o = 0; o < OPERANDS; o++)
        if (operands[o] && names[o]) operand_fields(w, names[o], operands[o], s->n_batch, &n, (size_t)o);
    if (s->mask) mask_fields(w, s, &n);
    float_field(w, "scale", (double)s->scale);
    field(w, "plain", s->plain);
    tensor_field(w, "y", s->y->tensor, &n, Y);
    field(w, "y_row", w->values[s->y->strides[s->n_batch]]);
    field(w, "y_column", w->values[s->y->strides[s->n_batch + 1]]);
    hyp_strbuf_puts(&w->body, "        };\n        hyp_attend(&s, work->room);\n");
    hyp_c99_end(w);
    want_room(w, (size_t)keys, (size_t)width, (size_t)columns);
    hyp_c99_want(w, "attention");
}
