/* loop_write.c - loops written out: the nodes of a body once for every trip, and what trips have collected. */
#include <string.h>

#include "ir/constants.h"
#include "onnx/loop.h"

/* Of constants that bodies make, which are none of the file's. */
static const uint64_t most_bytes = (uint64_t)256 << 20;

const HypOnnx__GraphProto *hyp_onnx_loop_body(const hyp_onnx_node *n)
{
    const HypOnnx__AttributeProto *body = hyp_onnx_attr(n, "body");
    return body ? body->g : NULL;
}

hyp_status hyp_onnx_loop_open(hyp_onnx_loop *l, const hyp_onnx_node *n, size_t inputs, size_t outputs)
{
    hyp_diag *diag = n->im->diag;
    *l = (hyp_onnx_loop){.n = n, .graph = hyp_onnx_loop_body(n), .running = HYP_NO_VALUE};
    if (!l->graph) return hyp_fail(diag, HYP_ERR_MALFORMED, "has no graph \"body\"");
    if (l->graph->n_input != inputs || l->graph->n_output < outputs)
        return hyp_fail(diag, HYP_ERR_MALFORMED,
                        "its body has %zu inputs and %zu outputs; %zu are wanted, and at least %zu", l->graph->n_input,
                        l->graph->n_output, inputs, outputs);
    l->in = hyp_arena_zalloc(&n->im->arena, inputs, sizeof *l->in);
    l->out = hyp_arena_zalloc(&n->im->arena, l->graph->n_output, sizeof *l->out);
    if (!l->in || !l->out) return hyp_fail_memory(diag, inputs * sizeof *l->in);
    hyp_status status = hyp_onnx_branch_open(n, l->graph, &l->body);
    if (status != HYP_OK) hyp_diag_prefix(diag, "in its body");
    return status;
}

void hyp_onnx_loop_close(hyp_onnx_loop *l)
{
    hyp_onnx_branch_close(&l->body);
    hyp_vec_free(&l->rows);
    hyp_vec_free(&l->ran);
}

/* ---- one trip ---------------------------------------------------------------------------------------------- */

/* Constants that were made for this trip, and are not just parts of the file. */
static hyp_status take_bytes(hyp_onnx_loop *l, size_t first_value)
{
    hyp_importer *im = l->n->im;
    for (size_t i = first_value; i < im->g->values.len; i++) {
        const hyp_value *v = &im->g->values.data[i];
        bool in_file = (uintptr_t)v->data - (uintptr_t)im->source->data < im->source->size;
        if (v->kind == HYP_VALUE_CONST && !in_file) im->unrolled_bytes += v->bytes;
    }
    if (im->unrolled_bytes <= most_bytes) return HYP_OK;
    return hyp_fail(im->diag, HYP_ERR_LIMIT, "trips are written out, and make constants of more than %llu MiB together",
                    (unsigned long long)(most_bytes >> 20));
}

hyp_status hyp_onnx_loop_add(hyp_onnx_loop *l, int64_t trip)
{
    hyp_importer *im = l->n->im;
    size_t first_value = im->g->values.len;
    hyp_status status = hyp_onnx_branch_add(l->n, &l->body, l->in, l->out);
    if (status != HYP_OK) {
        hyp_diag_prefix(im->diag, "in trip %lld of its body", (long long)trip);
        return status;
    }
    for (uint32_t o = 0; o < l->graph->n_output; o++)
        if (hyp_onnx_is_sequence(l->out[o]) &&
            (o < l->first || o >= l->first + l->carried || l->n->op->op != HYP_ONNX_SEQUENCES))
            return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "output %u of its body is a sequence; a tensor is wanted",
                            o);
    return take_bytes(l, first_value);
}

/* A small list of integers that is known becomes a constant: what a later trip reads of it does not hang on all trips
 * before. */
static hyp_status settle(const hyp_onnx_loop *l, hyp_value_id *value)
{
    if (hyp_onnx_is_sequence(*value)) return HYP_OK;
    const hyp_value *v = &l->n->im->g->values.data[*value];
    if (v->kind != HYP_VALUE_NODE || !hyp_value_is_listed(v)) return HYP_OK;
    hyp_type type = v->type;
    size_t bytes = v->content_count * hyp_dtype_size(type.dtype);
    char *data = hyp_arena_alloc(&l->n->im->g->arena, bytes + 1);
    if (!data) return hyp_fail_memory(l->n->im->diag, bytes);
    for (uint32_t i = 0; i < v->content_count; i++) hyp_store_i64(type.dtype, data, i, v->content[i]);
    return hyp_graph_add_const(l->n->im->g, NULL, &type, data, bytes, false, value, l->n->im->diag);
}

/* What the first trip is given, and what the loop gives without one. */
void hyp_onnx_loop_begin(hyp_onnx_loop *l, uint32_t first, uint32_t carried, hyp_value_id *in,
                         const hyp_value_id *from)
{
    l->first = first;
    l->carried = carried;
    for (uint32_t k = 0; k < carried; k++) {
        in[k] = from[k];
        if (k < l->n->output_count) l->n->outputs[k] = from[k];
    }
}

/* What the loop has given when this trip is its last, if the model makes it, in place of what the one before gave. Of
 * what has not one type in all trips nothing is given, which is a matter of who reads it. */
static hyp_status keep(hyp_onnx_loop *l, uint32_t k)
{
    const hyp_onnx_node *n = l->n;
    hyp_value_id now = l->out[l->first + k], *result = &n->outputs[k];
    if (l->running == HYP_NO_VALUE || now == *result) return *result = now, HYP_OK;
    if (*result == HYP_NO_VALUE) return HYP_OK;
    bool same = !hyp_onnx_is_sequence(now) && !hyp_onnx_is_sequence(*result);
    if (same) {
        hyp_type before = hyp_onnx_value_type(n, *result), after = hyp_onnx_value_type(n, now);
        same = hyp_type_equal(&before, &after);
    }
    if (!same) return *result = HYP_NO_VALUE, HYP_OK;
    return hyp_onnx_emit(n, HYP_OP_where, (const hyp_value_id[]){l->running, now, *result}, 3, NULL, result, 1);
}

/* The next trip is given what this one gives, whether it is the last or not: if it is, nothing of the next one counts.
 */
hyp_status hyp_onnx_loop_hand_on(hyp_onnx_loop *l, hyp_value_id *in)
{
    for (uint32_t k = 0; k < l->carried; k++) {
        if (k < l->n->output_count) HYP_TRY(keep(l, k));
        in[k] = l->out[l->first + k];
        HYP_TRY(settle(l, &in[k]));
    }
    return HYP_OK;
}

hyp_status hyp_onnx_loop_collect(hyp_onnx_loop *l)
{
    hyp_diag *diag = l->n->im->diag;
    hyp_value_id ran = l->running;
    hyp_dim one = 1;
    for (size_t o = l->graph->n_output - l->collected; o < l->graph->n_output; o++)
        HYP_TRY(hyp_vec_push(&l->rows, diag, l->out[o]));
    if (ran == HYP_NO_VALUE) HYP_TRY(hyp_onnx_add_scalar(l->n, HYP_BOOL, 1, &ran));
    HYP_TRY(hyp_onnx_emit_dims(l->n, HYP_OP_reshape, ran, &one, 1, &ran));
    return hyp_vec_push(&l->ran, diag, ran);
}

/* ---- what trips have collected ------------------------------------------------------------------------------- */

hyp_status hyp_onnx_loop_join(const hyp_onnx_loop *l, const hyp_value_id *parts, size_t count, int64_t axis,
                              hyp_value_id *out)
{
    hyp_attr attr = hyp_attr_of_int(axis);
    *out = parts[0];
    return count == 1 ? HYP_OK : hyp_onnx_emit(l->n, HYP_OP_concat, parts, (uint32_t)count, &attr, out, 1);
}

/* Without a trip there are none of them, of the type that a trip's would have. */
static hyp_status make_empty(const hyp_onnx_loop *l, hyp_value_id like, int64_t axis, hyp_value_id *out)
{
    hyp_type row = hyp_onnx_value_type(l->n, like);
    hyp_dim dims[HYP_MAX_RANK] = {0};
    hyp_value_id zero;
    if (row.rank == HYP_MAX_RANK)
        return hyp_fail(l->n->im->diag, HYP_ERR_UNSUPPORTED, "stacks tensors of rank %d; its results may have %d axes",
                        row.rank, HYP_MAX_RANK);
    for (int32_t a = 0; a < row.rank; a++) dims[a < axis ? a : a + 1] = row.dims[a];
    HYP_TRY(hyp_onnx_add_scalar(l->n, row.dtype, 0, &zero));
    return hyp_onnx_emit_dims(l->n, HYP_OP_expand, zero, dims, row.rank + 1, out);
}

/* What was collected as number k, along a new axis, the last trip first if `backward`. */
hyp_status hyp_onnx_loop_stack(hyp_onnx_loop *l, uint32_t k, int64_t axis, bool backward, hyp_value_id *out)
{
    hyp_importer *im = l->n->im;
    size_t trips = l->ran.len;
    hyp_value_id first = trips ? l->rows.data[k] : l->out[l->graph->n_output - l->collected + k];
    HYP_TRY(hyp_onnx_axis(l->n, axis, hyp_onnx_value_type(l->n, first).rank + 1, &axis));
    if (!trips) return make_empty(l, first, axis, out);
    hyp_value_id *parts = hyp_arena_zalloc(&im->arena, trips, sizeof *parts);
    hyp_dim at = axis;
    if (!parts) return hyp_fail_memory(im->diag, trips * sizeof *parts);
    for (size_t t = 0; t < trips; t++) {
        hyp_value_id row = l->rows.data[(backward ? trips - 1 - t : t) * l->collected + k];
        HYP_TRY(hyp_onnx_emit_dims(l->n, HYP_OP_unsqueeze, row, &at, 1, &parts[t]));
    }
    return hyp_onnx_loop_join(l, parts, trips, axis, out);
}
