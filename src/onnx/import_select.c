/* Operators whose result is as large as the data says: possible where that is constant. */
#include <math.h>
#include <string.h>

#include "onnx/import.h"

static bool is_set(const hyp_eval_tensor *t, size_t i) { return t->f ? t->f[i] != 0 : t->i[i] != 0; }

static hyp_status add_indices(const hyp_onnx_node *n, int32_t rank, const int64_t *dims, const int64_t *data,
                              hyp_value_id *out)
{
    hyp_type type = {.dtype = HYP_I64, .rank = rank};
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= type.dims[i] = dims[i];
    return hyp_graph_add_const(n->im->g, NULL, &type, data, (size_t)count * sizeof *data, true, out, n->im->diag);
}

/* Places of the elements that are not 0: an index list per axis, one after the other. */
static hyp_status find_nonzero(const hyp_onnx_node *n, const hyp_eval_tensor *t, hyp_value_id *out)
{
    int64_t found = 0, at = 0, step = 1;
    for (size_t i = 0; i < t->count; i++) found += is_set(t, i);
    int64_t *places = hyp_arena_zalloc(&n->im->arena, (size_t)found * (size_t)(t->rank ? t->rank : 1), sizeof *places);
    if (!places) return hyp_fail_memory(n->im->diag, (size_t)found * sizeof *places);
    for (int32_t a = t->rank; a-- > 0; step *= t->dims[a]) {
        at = a * found;
        for (size_t i = 0; i < t->count; i++)
            if (is_set(t, i)) places[at++] = (int64_t)i / step % t->dims[a];
    }
    return add_indices(n, 2, (int64_t[]){t->rank, found}, places, out);
}

static hyp_status import_nonzero(hyp_onnx_node *n)
{
    hyp_eval_tensor t;
    hyp_status status = hyp_onnx_constant(n, 0, "x, which decides the size of the result", &t);
    if (status == HYP_OK) status = find_nonzero(n, &t, n->outputs);
    hyp_eval_tensor_dispose(&t);
    return status;
}

/* A gather of the places where the condition holds; of a flat x without an axis. */
static hyp_status compress(hyp_onnx_node *n, const hyp_eval_tensor *condition)
{
    const HypOnnx__AttributeProto *has_axis = hyp_onnx_attr(n, "axis");
    hyp_type x = hyp_onnx_input_type(n, 0);
    hyp_attr axis = hyp_attr_of_int(0);
    hyp_value_id inputs[] = {n->inputs[0], HYP_NO_VALUE};
    int64_t found = 0;
    if (has_axis) {
        HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis.i));
        HYP_TRY(hyp_onnx_axis(n, axis.i, x.rank, &axis.i));
    }
    int64_t *places = hyp_arena_zalloc(&n->im->arena, condition->count, sizeof *places);
    if (!places) return hyp_fail_memory(n->im->diag, condition->count * sizeof *places);
    for (size_t i = 0; i < condition->count; i++)
        if (is_set(condition, i)) places[found++] = (int64_t)i;
    HYP_TRY(add_indices(n, 1, &found, places, &inputs[1]));
    if (!has_axis) {
        hyp_dim all;
        HYP_TRY(hyp_type_elements(n->im->g->dims, &x, &all, n->im->diag));
        HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, inputs[0], &all, 1, &inputs[0]));
    }
    return hyp_onnx_emit(n, HYP_OP_gather, inputs, 2, &axis, n->outputs, 1);
}

static hyp_status import_compress(hyp_onnx_node *n)
{
    hyp_eval_tensor t;
    hyp_status status = hyp_onnx_constant(n, 1, "condition, which decides the size of the result", &t);
    if (status == HYP_OK) status = compress(n, &t);
    hyp_eval_tensor_dispose(&t);
    return status;
}

/* ---- unique ------------------------------------------------------------------------------------------------ */

/* The items are what lies at each index of an axis, [outer, items, inner]; without an axis the elements. */
typedef struct items {
    const hyp_eval_tensor *x;
    int64_t outer, count, inner;
} items;

static int compare_elements(const hyp_eval_tensor *x, int64_t a, int64_t b)
{
    if (!x->f && x->dtype == HYP_U64)
        return ((uint64_t)x->i[a] > (uint64_t)x->i[b]) - ((uint64_t)x->i[a] < (uint64_t)x->i[b]);
    if (!x->f) return (x->i[a] > x->i[b]) - (x->i[a] < x->i[b]);
    if (isnan(x->f[a]) || isnan(x->f[b])) return isnan(x->f[a]) - isnan(x->f[b]); /* all alike, behind the others */
    return (x->f[a] > x->f[b]) - (x->f[a] < x->f[b]);
}

static int compare_items(const items *s, int64_t a, int64_t b)
{
    int difference = 0;
    for (int64_t o = 0; o < s->outer && !difference; o++)
        for (int64_t i = 0; i < s->inner && !difference; i++)
            difference = compare_elements(s->x, (o * s->count + a) * s->inner + i, (o * s->count + b) * s->inner + i);
    return difference;
}

/* Items in order, equal ones by index: runs of twice the length are merged until one is left. */
static void sort_items(const items *s, int64_t *order, int64_t *spare)
{
    for (int64_t i = 0; i < s->count; i++) order[i] = i;
    for (int64_t run = 1; run < s->count; run *= 2) {
        for (int64_t first = 0; first < s->count; first += 2 * run) {
            int64_t middle = first + run < s->count ? first + run : s->count;
            int64_t end = middle + run < s->count ? middle + run : s->count, a = first, b = middle;
            for (int64_t to = first; to < end; to++) {
                bool right = a == middle || (b < end && compare_items(s, order[a], order[b]) > 0);
                spare[to] = right ? order[b++] : order[a++];
            }
        }
        memcpy(order, spare, (size_t)s->count * sizeof *order);
    }
}

/* The distinct items: where each is first, how often it comes, and for every item which of them it is. */
static int64_t find_distinct(const items *s, bool sorted, int64_t *order, int64_t *first, int64_t *counts,
                             int64_t *inverse)
{
    int64_t found = 0;
    sort_items(s, order, inverse);
    for (int64_t i = 0; i < s->count; i++) {
        bool fresh = i == 0 || compare_items(s, order[i - 1], order[i]) != 0;
        if (fresh) first[found++] = order[i];
        inverse[order[i]] = found - 1;
    }
    if (!sorted) { /* numbered as they come */
        for (int64_t i = 0; i < found; i++) order[i] = -1;
        for (int64_t i = 0, next = 0; i < s->count; i++) {
            int64_t *number = &order[inverse[i]];
            if (*number < 0) first[ *number = next++] = i;
            inverse[i] = *number;
        }
    }
    for (int64_t i = 0; i < s->count; i++) counts[inverse[i]]++;
    return found;
}

static hyp_status add_items(const hyp_onnx_node *n, const items *s, hyp_type type, const int64_t *first, int64_t found,
                            hyp_value_id *out)
{
    size_t size = hyp_dtype_size(type.dtype), bytes = (size_t)(s->outer * found * s->inner) * size, to = 0;
    void *data = hyp_arena_alloc(&n->im->g->arena, bytes);
    if (!data) return hyp_fail_memory(n->im->diag, bytes);
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t k = 0; k < found; k++)
            for (int64_t i = 0; i < s->inner; i++) {
                size_t from = (size_t)((o * s->count + first[k]) * s->inner + i);
                if (s->x->f)
                    hyp_store_f64(type.dtype, data, to++, s->x->f[from]);
                else
                    hyp_store_i64(type.dtype, data, to++, s->x->i[from]);
            }
    return hyp_graph_add_const(n->im->g, NULL, &type, data, bytes, false, out, n->im->diag);
}

static hyp_status make_unique(hyp_onnx_node *n, const hyp_eval_tensor *x)
{
    items s = {x, 1, (int64_t)x->count, 1};
    hyp_type type = {.dtype = x->dtype, .rank = 1};
    int64_t sorted, axis = 0;
    HYP_TRY(hyp_onnx_attr_int(n, "sorted", 1, &sorted));
    if (hyp_onnx_attr(n, "axis")) {
        type = hyp_onnx_input_type(n, 0);
        HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis));
        HYP_TRY(hyp_onnx_axis(n, axis, type.rank, &axis));
        s.count = x->dims[axis];
        for (int64_t i = 0; i < axis; i++) s.outer *= x->dims[i];
        for (int64_t i = axis + 1; i < type.rank; i++) s.inner *= x->dims[i];
    }
    int64_t *lists = hyp_arena_zalloc(&n->im->arena, 4 * (size_t)s.count, sizeof *lists);
    if (!lists) return hyp_fail_memory(n->im->diag, 4 * (size_t)s.count * sizeof *lists);
    int64_t *first = lists, *inverse = first + s.count, *counts = inverse + s.count, *order = counts + s.count;
    int64_t found = find_distinct(&s, sorted != 0, order, first, counts, inverse);
    type.dims[axis] = found;
    HYP_TRY(add_items(n, &s, type, first, found, &n->outputs[0]));
    if (n->output_count > 1) HYP_TRY(add_indices(n, 1, &found, first, &n->outputs[1]));
    if (n->output_count > 2) HYP_TRY(add_indices(n, 1, &s.count, inverse, &n->outputs[2]));
    return n->output_count > 3 ? add_indices(n, 1, &found, counts, &n->outputs[3]) : HYP_OK;
}

static hyp_status import_unique(hyp_onnx_node *n)
{
    hyp_eval_tensor t;
    hyp_status status = hyp_onnx_constant(n, 0, "x, which decides the size of the result", &t);
    if (status == HYP_OK) status = make_unique(n, &t);
    hyp_eval_tensor_dispose(&t);
    return status;
}

static hyp_status refuse_selection(hyp_onnx_node *n)
{
    return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "the size of its result is known only when the data is there");
}

static const hyp_onnx_operator rows[] = {
    {"Compress", 9, 2, 2, 1, "axis ", import_compress, HYP_OP_gather},
    {"NonMaxSuppression", 10, 2, 5, 1, "center_point_box ", refuse_selection, HYP_OP_COUNT},
    {"NonZero", 9, 1, 1, 1, "", import_nonzero, HYP_OP_COUNT},
    {"Unique", 11, 1, 1, 4, "axis sorted ", import_unique, HYP_OP_COUNT},
};
const hyp_onnx_family hyp_onnx_select = {rows, sizeof rows / sizeof *rows};
