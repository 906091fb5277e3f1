/* parts.c - gradients of parts of one value, side by side. */
#include "train/parts.h"

#include <string.h>

bool hyp_part_of_slice(const hyp_node *slice, const hyp_type *x, hyp_part *out)
{
    const hyp_dim *starts = slice->attrs[0].dims, *sizes = slice->attrs[1].dims, *steps = slice->attrs[2].dims;
    uint32_t cut = 0;
    *out = (hyp_part){.gradient = HYP_NO_VALUE};
    for (int32_t i = 0; i < x->rank; i++) {
        if (steps[i] != 1 || sizes[i] == 0) return false;
        if (sizes[i] == x->dims[i]) continue;
        out->axis = i;
        out->start = starts[i];
        out->size = sizes[i];
        cut++;
    }
    return cut == 1;
}

/* How many elements lie between two parts of one axis; *out_behind is false where it cannot be told that b is behind a. */
static hyp_dim gap(hyp_builder *b, const hyp_part *front, const hyp_part *behind, bool *out_behind)
{
    hyp_dim between = hyp_build_sub(b, behind->start, hyp_build_add(b, front->start, front->size));
    *out_behind = hyp_build_ok(b) && hyp_dim_is_nonneg(b->g->dims, between);
    return between;
}

/* Puts a part into a row of parts, which are in their order; false where it may overlap one of them. */
static bool insert(hyp_builder *b, hyp_part *row, size_t *count, const hyp_part *part)
{
    size_t at = 0;
    bool behind = true;
    for (; at < *count && behind; at += behind) gap(b, &row[at], part, &behind);
    if (at < *count) gap(b, part, &row[at], &behind);
    if (!behind) return false;
    memmove(row + at + 1, row + at, (*count - at) * sizeof *row);
    row[at] = *part;
    ++*count;
    return true;
}

/* Zeros where they leave something out: between two as a pad of the first of them, at the ends as one of the whole. */
static hyp_value_id put_together(hyp_builder *b, const hyp_type *x, const hyp_part *row, size_t count)
{
    hyp_value_id *values = hyp_arena_zalloc(&b->arena, count, sizeof *values);
    int32_t axis = row[0].axis;
    const hyp_part end = {.start = x->dims[axis]};
    const hyp_attr along = hyp_attr_of_int(axis);
    bool known;
    if (!values) return hyp_build_note(b, hyp_fail_memory(b->diag, count * sizeof *values)), HYP_NO_VALUE;
    for (size_t i = 0; i < count; i++) {
        hyp_dim after = i + 1 < count ? gap(b, &row[i], &row[i + 1], &known) : 0;
        values[i] = hyp_build_pad(b, row[i].gradient, axis, 0, after);
    }
    if (count > 1) values[0] = hyp_build_output(b, HYP_OP_concat, &along, values, (uint32_t)count, 1, 0);
    return hyp_build_pad(b, values[0], axis, row[0].start, gap(b, &row[count - 1], &end, &known));
}

hyp_value_id hyp_parts_join(hyp_builder *b, const hyp_type *x, hyp_part *parts, size_t *count)
{
    size_t left = 0, in_row = 0;
    hyp_part *row = hyp_arena_zalloc(&b->arena, *count, sizeof *row);
    if (!row) return hyp_build_note(b, hyp_fail_memory(b->diag, *count * sizeof *row)), HYP_NO_VALUE;
    for (size_t i = 0; i < *count; i++)
        if (parts[i].axis != parts[0].axis || !insert(b, row, &in_row, &parts[i])) parts[left++] = parts[i];
    *count = left;
    return put_together(b, x, row, in_row);
}
