/* Einsum as products of two operands at a time, from the left. Axes carry labels: a letter, or a place in the ellipsis
 * counted from its end, so that operands with ellipses of different ranks broadcast. */
#include <string.h>

#include "onnx/import.h"

enum { LETTERS = 52, LABELS = LETTERS + HYP_MAX_RANK, MAX_OPERANDS = 32 };

typedef struct labelled {
    hyp_value_id value;
    int32_t rank;
    uint8_t labels[HYP_MAX_RANK];
} labelled;

typedef struct label_list {
    int32_t count;
    uint8_t items[HYP_MAX_RANK];
} label_list;

static int32_t place_of(const labelled *x, uint8_t label)
{
    for (int32_t i = 0; i < x->rank; i++)
        if (x->labels[i] == label) return i;
    return -1;
}

static hyp_dim size_of(const hyp_onnx_node *n, const labelled *x, uint8_t label)
{
    return hyp_onnx_value_type(n, x->value).dims[place_of(x, label)];
}

static hyp_status wrong(const hyp_onnx_node *n, const char *what)
{
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "attribute \"equation\": %s", what);
}

/* ---- the equation --------------------------------------------------------------------------------- */

/* The labels of one term, which ends at `end`; its ellipsis has `dots` axes. */
static hyp_status read_term(const hyp_onnx_node *n, const char *at, const char *end, int32_t dots, labelled *out)
{
    out->rank = 0;
    while (at < end) {
        bool ellipsis = end - at >= 3 && strncmp(at, "...", 3) == 0;
        int32_t count = ellipsis ? dots : 1;
        if (out->rank + count > HYP_MAX_RANK) return wrong(n, "a term has more axes than a tensor can have");
        for (int32_t i = 0; i < count; i++) {
            bool lower = *at >= 'a' && *at <= 'z';
            if (!ellipsis && !lower && !(*at >= 'A' && *at <= 'Z')) return wrong(n, "a character that means nothing");
            int label = ellipsis ? LETTERS + count - 1 - i : lower ? 26 + *at - 'a' : *at - 'A';
            out->labels[out->rank++] = (uint8_t)label;
        }
        at += ellipsis ? 3 : 1;
    }
    return HYP_OK;
}

/* How many axes the ellipsis of a term for a tensor of this rank has; -1 when the term does not fit. */
static int32_t ellipsis_of(const char *at, const char *end, int32_t rank)
{
    for (const char *p = at; end - p >= 3; p++)
        if (strncmp(p, "...", 3) == 0) return rank - (int32_t)(end - at - 3);
    return rank == end - at ? 0 : -1;
}

/* Without "->": the ellipsis, then all letters that occur once, in their order. */
static hyp_status implied_output(const hyp_onnx_node *n, const labelled *terms, int32_t dots, labelled *out)
{
    int seen[LABELS] = {0};
    for (uint32_t t = 0; t < n->input_count; t++)
        for (int32_t i = 0; i < terms[t].rank; i++) seen[terms[t].labels[i]]++;
    out->rank = 0;
    for (int32_t i = dots; i-- > 0 && out->rank < HYP_MAX_RANK;) out->labels[out->rank++] = (uint8_t)(LETTERS + i);
    for (uint8_t label = 0; label < LETTERS; label++) {
        if (seen[label] != 1) continue;
        if (out->rank == HYP_MAX_RANK) return wrong(n, "the result has more axes than a tensor can have");
        out->labels[out->rank++] = label;
    }
    return HYP_OK;
}

static hyp_status read_equation(const hyp_onnx_node *n, const char *text, labelled *terms, labelled *out)
{
    const char *arrow = strstr(text, "->"), *end = arrow ? arrow : text + strlen(text), *at = text;
    int32_t dots = 0;
    if (n->input_count > MAX_OPERANDS)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "has %u operands, at most %d are supported", n->input_count,
                        MAX_OPERANDS);
    for (uint32_t t = 0; t < n->input_count; t++) {
        if (!hyp_onnx_has_input(n, t)) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "operand %u is absent", t);
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
        if (!comma != (t + 1 == n->input_count)) return wrong(n, "the number of terms is not that of operands");
        int32_t mine = ellipsis_of(at, stop, hyp_onnx_input_type(n, t).rank);
        if (mine < 0 || mine > HYP_MAX_RANK) return wrong(n, "a term does not have the rank of its operand");
        dots = mine > dots ? mine : dots;
        terms[t].value = n->inputs[t];
        HYP_TRY(read_term(n, at, stop, mine, &terms[t]));
        at = stop + 1;
    }
    if (!arrow) return implied_output(n, terms, dots, out);
    HYP_TRY(read_term(n, arrow + 2, arrow + strlen(arrow), dots, out));
    bool named[LABELS] = {false};
    for (int32_t i = 0; i < out->rank; i++) {
        bool known = false;
        for (uint32_t t = 0; t < n->input_count; t++) known = known || place_of(&terms[t], out->labels[i]) >= 0;
        if (!known || named[out->labels[i]]) return wrong(n, "a letter of the result is in no term, or twice in it");
        named[out->labels[i]] = true;
    }
    return HYP_OK;
}

/* ---- one operand ---------------------------------------------------------------------------------- */

static void remove_axis(labelled *x, int32_t axis)
{
    x->rank--;
    memmove(x->labels + axis, x->labels + axis + 1, (size_t)(x->rank - axis));
}

/* The axes in the order of these labels, which are all of x. */
static hyp_status arrange(const hyp_onnx_node *n, labelled *x, const uint8_t *labels)
{
    hyp_dim perm[HYP_MAX_RANK];
    bool moves = false;
    for (int32_t i = 0; i < x->rank; i++) {
        perm[i] = place_of(x, labels[i]);
        moves = moves || perm[i] != i;
    }
    for (int32_t i = 0; i < x->rank; i++) x->labels[i] = labels[i];
    return moves ? hyp_onnx_emit_dims(n, HYP_OP_transpose, x->value, perm, x->rank, &x->value) : HYP_OK;
}

/* 0, 1, ... along one axis of `rank`. */
static hyp_status count_along(const hyp_onnx_node *n, hyp_dim size, int32_t axis, int32_t rank, hyp_value_id *out)
{
    hyp_dim dims[HYP_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    hyp_attr attr = hyp_attr_of_dims(&size, 1);
    hyp_value_id ends[2];
    dims[axis] = size;
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, 0, &ends[0]));
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, 1, &ends[1]));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_range, ends, 2, &attr, out, 1));
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, *out, dims, rank, out);
}

/* The diagonal of axes a < b, as axis a: the sum along b with 0 for all other elements, which needs no known size. */
static hyp_status take_diagonal(const hyp_onnx_node *n, labelled *x, int32_t a, int32_t b)
{
    hyp_type type = hyp_onnx_value_type(n, x->value);
    hyp_dim along = b;
    hyp_attr attrs[] = {hyp_attr_of_dims(&along, 1), hyp_attr_of_int(0)};
    hyp_value_id in[] = {HYP_NO_VALUE, x->value, HYP_NO_VALUE}, row, column;
    if (type.dims[a] != type.dims[b]) return wrong(n, "a letter stands for axes of different sizes");
    HYP_TRY(count_along(n, type.dims[a], a, type.rank, &row));
    HYP_TRY(count_along(n, type.dims[a], b, type.rank, &column));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_equal, row, column, &in[0]));
    HYP_TRY(hyp_onnx_add_scalar(n, type.dtype, 0, &in[2]));
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_where, in, 3, NULL, &x->value, 1));
    remove_axis(x, b);
    return hyp_onnx_emit(n, HYP_OP_reduce_sum, &x->value, 1, attrs, &x->value, 1);
}

static hyp_status take_diagonals(const hyp_onnx_node *n, labelled *x)
{
    for (int32_t b = 1; b < x->rank; b++) {
        int32_t a = place_of(x, x->labels[b]);
        if (a == b) continue;
        HYP_TRY(take_diagonal(n, x, a, b));
        b--;
    }
    return HYP_OK;
}

/* Sums over the labels that neither `other` has nor is wanted later. */
static hyp_status sum_rest(const hyp_onnx_node *n, labelled *x, const labelled *other, const bool *wanted)
{
    hyp_dim axes[HYP_MAX_RANK];
    uint32_t count = 0;
    for (int32_t i = 0, at = 0; i < x->rank; at++) {
        if (wanted[x->labels[i]] || (other && place_of(other, x->labels[i]) >= 0)) {
            i++;
            continue;
        }
        axes[count++] = at;
        remove_axis(x, i);
    }
    hyp_attr attrs[] = {hyp_attr_of_dims(axes, count), hyp_attr_of_int(0)};
    return count ? hyp_onnx_emit(n, HYP_OP_reduce_sum, &x->value, 1, attrs, &x->value, 1) : HYP_OK;
}

/* ---- two operands --------------------------------------------------------------------------------- */

/* An axis of size 1 that broadcasts to one of `other` is no axis at all. */
static hyp_status drop_broadcast(const hyp_onnx_node *n, labelled *x, const labelled *other)
{
    hyp_dim axes[HYP_MAX_RANK];
    int32_t count = 0;
    for (int32_t i = 0, at = 0; i < x->rank; at++) {
        hyp_dim mine = hyp_onnx_value_type(n, x->value).dims[at];
        hyp_dim theirs = place_of(other, x->labels[i]) < 0 ? mine : size_of(n, other, x->labels[i]);
        if (mine == theirs || mine != 1) {
            i++;
            continue;
        }
        axes[count++] = at;
        remove_axis(x, i);
    }
    return count ? hyp_onnx_emit_dims(n, HYP_OP_squeeze, x->value, axes, count, &x->value) : HYP_OK;
}

/* x with its axes in the order of the lists, those of each of the last two lists joined to one. */
static hyp_status as_matrices(const hyp_onnx_node *n, labelled *x, const label_list *batch, const label_list *rows,
                              const label_list *columns)
{
    const label_list *lists[] = {batch, rows, columns};
    uint8_t labels[HYP_MAX_RANK];
    hyp_dim dims[HYP_MAX_RANK + 2];
    int32_t count = 0;
    for (int l = 0; l < 3; l++)
        for (int32_t i = 0; i < lists[l]->count; i++) labels[count++] = lists[l]->items[i];
    HYP_TRY(arrange(n, x, labels));
    hyp_type type = hyp_onnx_value_type(n, x->value);
    memcpy(dims, type.dims, (size_t)batch->count * sizeof *dims);
    dims[batch->count] = dims[batch->count + 1] = 1;
    for (int32_t i = batch->count; i < x->rank; i++) {
        hyp_dim *into = &dims[batch->count + (i >= batch->count + rows->count)];
        HYP_TRY(hyp_dim_mul(n->im->g->dims, *into, type.dims[i], into, n->im->diag));
    }
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, x->value, dims, batch->count + 2, &x->value);
}

static void append(label_list *list, uint8_t label) { list->items[list->count++] = label; }

/* The sum of a b over the labels that are not wanted any more. */
static hyp_status contract(const hyp_onnx_node *n, labelled *a, labelled *b, const bool *wanted, labelled *out)
{
    label_list batch = {0}, inner = {0}, left = {0}, right = {0};
    hyp_dim dims[HYP_MAX_RANK];
    HYP_TRY(drop_broadcast(n, a, b));
    HYP_TRY(drop_broadcast(n, b, a));
    HYP_TRY(sum_rest(n, a, b, wanted));
    HYP_TRY(sum_rest(n, b, a, wanted));
    for (int32_t i = 0; i < a->rank; i++) {
        uint8_t label = a->labels[i];
        bool shared = place_of(b, label) >= 0;
        append(!shared ? &left : wanted[label] ? &batch : &inner, label);
        if (shared && size_of(n, a, label) != size_of(n, b, label))
            return wrong(n, "a letter stands for axes of different sizes");
    }
    for (int32_t i = 0; i < b->rank; i++)
        if (place_of(a, b->labels[i]) < 0) append(&right, b->labels[i]);
    out->rank = batch.count + left.count + right.count;
    if (out->rank > HYP_MAX_RANK || batch.count + 2 > HYP_MAX_RANK)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "a product of two operands has rank %d, the highest "
                        "supported is %d",
                        out->rank, HYP_MAX_RANK);
    const label_list *lists[] = {&batch, &left, &right};
    for (int32_t l = 0, at = 0; l < 3; l++)
        for (int32_t i = 0; i < lists[l]->count; i++, at++) {
            out->labels[at] = lists[l]->items[i];
            dims[at] = size_of(n, l < 2 ? a : b, out->labels[at]);
        }
    HYP_TRY(as_matrices(n, a, &batch, &left, &inner));
    HYP_TRY(as_matrices(n, b, &batch, &inner, &right));
    if (inner.count)
        HYP_TRY(hyp_onnx_emit_matmul(n, a->value, b->value, false, 1, &out->value));
    else
        HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_mul, a->value, b->value, &out->value));
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, out->value, dims, out->rank, &out->value);
}

static hyp_status import_einsum(hyp_onnx_node *n)
{
    const HypOnnx__AttributeProto *a = hyp_onnx_attr(n, "equation");
    labelled terms[MAX_OPERANDS], result, product;
    char text[512];
    size_t len = 0;
    if (!a || a->s.len >= sizeof text) return wrong(n, a ? "it is too long" : "it is missing");
    for (size_t i = 0; i < a->s.len; i++)
        if (a->s.data[i] != ' ') text[len++] = (char)a->s.data[i];
    text[len] = '\0';
    HYP_TRY(read_equation(n, text, terms, &result));
    for (uint32_t t = 0; t < n->input_count; t++) HYP_TRY(take_diagonals(n, &terms[t]));
    for (uint32_t t = 0; t < n->input_count; t++) {
        bool wanted[LABELS] = {false};
        for (int32_t i = 0; i < result.rank; i++) wanted[result.labels[i]] = true;
        for (uint32_t later = t + 1; later < n->input_count; later++)
            for (int32_t i = 0; i < terms[later].rank; i++) wanted[terms[later].labels[i]] = true;
        if (t == 0) {
            product = terms[0];
            if (n->input_count == 1) HYP_TRY(sum_rest(n, &product, NULL, wanted));
            continue;
        }
        labelled left = product;
        HYP_TRY(contract(n, &left, &terms[t], wanted, &product));
    }
    HYP_TRY(arrange(n, &product, result.labels));
    return hyp_onnx_emit(n, HYP_OP_identity, &product.value, 1, NULL, n->outputs, 1);
}

static const hyp_onnx_operator rows[] = {
    {"Einsum", 12, 1, HYP_ONNX_ANY, 1, "equation ", import_einsum, HYP_OP_matmul},
};
const hyp_onnx_family hyp_onnx_einsum = {rows, sizeof rows / sizeof *rows};
