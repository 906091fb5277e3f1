/* Sequences, as exporters have them for lists that a program makes: known when the model is imported, so that what is
 * put in comes out again as the value that it was. */
#include <string.h>

#include "onnx/import.h"

enum {
    MOST_ITEMS = 1 << 24, /* of all sequences together, which loops may copy once in every trip */
    MOST_PARTS = 1 << 16  /* that tensors are split into and joined of, a node of the graph or two for each */
};

static hyp_onnx_sequence sequence_of(const hyp_onnx_node *n, uint32_t input)
{
    return n->im->sequences.data[n->inputs[input] - HYP_ONNX_SEQUENCE];
}

static hyp_status want_sequence(const hyp_onnx_node *n, uint32_t input)
{
    if (hyp_onnx_is_sequence(n->inputs[input])) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "input %u is a tensor; a sequence is wanted", input);
}

static hyp_status want_tensor(const hyp_onnx_node *n, uint32_t input)
{
    if (!hyp_onnx_has_input(n, input) || !hyp_onnx_is_sequence(n->inputs[input])) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "input %u is a sequence; a tensor is wanted", input);
}

/* A new one with room for so many, to be filled in. */
static hyp_status add_sequence(const hyp_onnx_node *n, uint32_t count, hyp_value_id **items, hyp_value_id *out)
{
    hyp_importer *im = n->im;
    if (count > MOST_ITEMS - im->sequence_items || im->sequences.len == HYP_ONNX_SEQUENCE - 1)
        return hyp_fail(im->diag, HYP_ERR_LIMIT, "sequences have more than %d items together", MOST_ITEMS);
    im->sequence_items += count;
    *items = hyp_arena_zalloc(&im->arena, count, sizeof **items);
    if (!*items) return hyp_fail_memory(im->diag, count * sizeof **items);
    *out = HYP_ONNX_SEQUENCE + (hyp_value_id)im->sequences.len;
    return hyp_vec_push(&im->sequences, im->diag, (hyp_onnx_sequence){*items, count});
}

static hyp_status take_parts(const hyp_onnx_node *n, size_t count)
{
    hyp_importer *im = n->im;
    if (count > MOST_PARTS - im->sequence_parts)
        return hyp_fail(im->diag, HYP_ERR_LIMIT, "sequences are split and joined of more than %d parts together",
                        MOST_PARTS);
    im->sequence_parts += count;
    return HYP_OK;
}

static hyp_status import_empty(hyp_onnx_node *n)
{
    hyp_value_id *items;
    return add_sequence(n, 0, &items, n->outputs);
}

static hyp_status import_construct(hyp_onnx_node *n)
{
    hyp_value_id *items;
    HYP_TRY(add_sequence(n, n->input_count, &items, n->outputs));
    memcpy(items, n->inputs, n->input_count * sizeof *items);
    return HYP_OK;
}

/* A place among `count`, which is the last one where the input is absent. */
static hyp_status read_place(const hyp_onnx_node *n, uint32_t input, uint32_t count, uint32_t *out)
{
    hyp_onnx_ints place;
    HYP_TRY(want_tensor(n, input));
    HYP_TRY(hyp_onnx_input_ints(n, input, "the position", &place));
    int64_t at = place.present && place.count == 1 ? place.items[0] : place.present ? INT64_MIN : -1;
    if (place.present && (place.count != 1 || !hyp_dim_is_const(at)))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "the position should be one number that is known");
    if (at < 0) at += count;
    if (at < 0 || at >= count)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "there is no position %lld in it, which has %u",
                        (long long)(place.present ? place.items[0] : -1), count);
    *out = (uint32_t)at;
    return HYP_OK;
}

static hyp_status import_insert(hyp_onnx_node *n)
{
    hyp_value_id *items;
    uint32_t place;
    HYP_TRY(want_sequence(n, 0));
    HYP_TRY(want_tensor(n, 1));
    hyp_onnx_sequence s = sequence_of(n, 0);
    place = s.count;
    if (hyp_onnx_has_input(n, 2)) { /* negative ones count from the end of what there is, not of the result */
        hyp_onnx_ints at;
        HYP_TRY(want_tensor(n, 2));
        HYP_TRY(hyp_onnx_input_ints(n, 2, "the position", &at));
        bool behind = at.count == 1 && at.items[0] == (hyp_dim)s.count;
        if (!behind) HYP_TRY(read_place(n, 2, s.count, &place));
    }
    HYP_TRY(add_sequence(n, s.count + 1, &items, n->outputs));
    if (s.count) memcpy(items, s.items, place * sizeof *items);
    items[place] = n->inputs[1];
    if (place < s.count) memcpy(items + place + 1, s.items + place, (s.count - place) * sizeof *items);
    return HYP_OK;
}

static hyp_status import_erase(hyp_onnx_node *n)
{
    hyp_value_id *items;
    uint32_t place;
    HYP_TRY(want_sequence(n, 0));
    hyp_onnx_sequence s = sequence_of(n, 0);
    HYP_TRY(read_place(n, 1, s.count, &place));
    HYP_TRY(add_sequence(n, s.count - 1, &items, n->outputs));
    for (uint32_t i = 0; i + 1 < s.count; i++) items[i] = s.items[i < place ? i : i + 1];
    return HYP_OK;
}

static hyp_status import_at(hyp_onnx_node *n)
{
    uint32_t place;
    HYP_TRY(want_sequence(n, 0));
    hyp_onnx_sequence s = sequence_of(n, 0);
    HYP_TRY(read_place(n, 1, s.count, &place));
    n->outputs[0] = s.items[place];
    return HYP_OK;
}

static hyp_status import_length(hyp_onnx_node *n)
{
    HYP_TRY(want_sequence(n, 0));
    return hyp_onnx_add_scalar(n, HYP_I64, sequence_of(n, 0).count, n->outputs);
}

static hyp_status import_concat(hyp_onnx_node *n)
{
    int64_t axis, is_new;
    HYP_TRY(want_sequence(n, 0));
    HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis));
    HYP_TRY(hyp_onnx_attr_int(n, "new_axis", 0, &is_new));
    hyp_onnx_sequence s = sequence_of(n, 0);
    if (!s.count)
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "its sequence is empty, so that the shape of its result is not known");
    HYP_TRY(take_parts(n, s.count));
    hyp_value_id *parts = hyp_arena_zalloc(&n->im->arena, s.count, sizeof *parts);
    if (!parts) return hyp_fail_memory(n->im->diag, s.count * sizeof *parts);
    HYP_TRY(hyp_onnx_axis(n, axis, hyp_onnx_value_type(n, s.items[0]).rank + (is_new != 0), &axis));
    hyp_dim at = axis;
    for (uint32_t i = 0; i < s.count; i++) {
        parts[i] = s.items[i];
        if (is_new) HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_unsqueeze, parts[i], &at, 1, &parts[i]));
    }
    hyp_attr attr = hyp_attr_of_int(axis);
    return hyp_onnx_emit(n, HYP_OP_concat, parts, s.count, &attr, n->outputs, 1);
}

/* ---- split ------------------------------------------------------------------------------------------------- */

/* How large part i of `size` elements is: a list, or one size for all but the last. */
static int64_t part_size(const hyp_onnx_ints *split, bool listed, uint32_t i, int64_t left)
{
    int64_t size = !split->present ? 1 : split->items[listed ? i : 0];
    return listed || size < left ? size : left;
}

static hyp_status count_parts(const hyp_onnx_node *n, const hyp_onnx_ints *split, bool listed, int64_t size,
                              uint32_t *out)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < split->count; i++) {
        if (!hyp_dim_is_const(split->items[i]) || split->items[i] < (listed ? 0 : 1))
            return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED, "the sizes of parts should be known numbers");
        sum = split->items[i] > size ? size + 1 : sum + split->items[i];
        if (sum > size && listed) break;
    }
    int64_t each = split->present && !listed && split->count ? split->items[0] : 1;
    int64_t parts = listed ? split->count : size / each + (size % each != 0);
    if ((listed && sum != size) || (split->present && !split->count) || parts > MOST_ITEMS)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "the parts do not make up an axis of %lld elements",
                        (long long)size);
    *out = (uint32_t)parts;
    return HYP_OK;
}

static hyp_status import_split(hyp_onnx_node *n)
{
    hyp_type x, type;
    hyp_onnx_ints split;
    hyp_value_id *items;
    int64_t axis, keep;
    uint32_t count;
    HYP_TRY(want_tensor(n, 0));
    HYP_TRY(want_tensor(n, 1));
    x = hyp_onnx_input_type(n, 0);
    HYP_TRY(hyp_onnx_attr_int(n, "axis", 0, &axis));
    HYP_TRY(hyp_onnx_attr_int(n, "keepdims", 1, &keep));
    HYP_TRY(hyp_onnx_axis(n, axis, x.rank, &axis));
    HYP_TRY(hyp_onnx_input_ints(n, 1, "split", &split));
    if (!hyp_dim_is_const(x.dims[axis]))
        return hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                        "how many parts there are depends on a size that every run may "
                        "change; it has to be known: --dim or --shapes");
    bool listed = split.present && hyp_onnx_input_type(n, 1).rank == 1;
    HYP_TRY(count_parts(n, &split, listed, x.dims[axis], &count));
    HYP_TRY(take_parts(n, count));
    HYP_TRY(add_sequence(n, count, &items, n->outputs));
    type = x;
    type.rank--;
    for (int32_t a = (int32_t)axis; a < type.rank; a++) type.dims[a] = x.dims[a + 1];
    for (int64_t i = 0, at = 0; i < count; i++) {
        int64_t size = part_size(&split, listed, (uint32_t)i, x.dims[axis] - at);
        HYP_TRY(hyp_onnx_emit_part(n, n->inputs[0], (int32_t)axis, at, size, 1, &items[i]));
        if (!split.present && !keep)
            HYP_TRY(hyp_onnx_emit_dims(n, HYP_OP_reshape, items[i], type.dims, type.rank, &items[i]));
        at += size;
    }
    return HYP_OK;
}

static const hyp_onnx_operator rows[] = {
    {"ConcatFromSequence", 11, 1, 1, 1, "axis new_axis ", import_concat, HYP_ONNX_SEQUENCES},
    {"SequenceAt", 11, 2, 2, 1, "", import_at, HYP_ONNX_SEQUENCES},
    {"SequenceConstruct", 11, 1, HYP_ONNX_ANY, 1, "", import_construct, HYP_OP_COUNT},
    {"SequenceEmpty", 11, 0, 0, 1, "dtype ", import_empty, HYP_OP_COUNT},
    {"SequenceErase", 11, 1, 2, 1, "", import_erase, HYP_ONNX_SEQUENCES},
    {"SequenceInsert", 11, 2, 3, 1, "", import_insert, HYP_ONNX_SEQUENCES},
    {"SequenceLength", 11, 1, 1, 1, "", import_length, HYP_ONNX_SEQUENCES},
    {"SplitToSequence", 11, 1, 2, 1, "axis keepdims ", import_split, HYP_OP_COUNT},
};
const hyp_onnx_family hyp_onnx_sequences = {rows, sizeof rows / sizeof *rows};
