/* Scan, written out where it is known how many elements it goes through, else run. */
#include <string.h>

#include "onnx/loop.h"

enum { MOST_SCANNED = HYP_ONNX_MAX_INTS };

typedef struct scan {
    const hyp_onnx_node *n;
    uint32_t states, inputs; /* that are handed on, and that are gone through */
    int64_t axes[MOST_SCANNED];
    hyp_onnx_ints out_axes, in_backward, out_backward;
    hyp_dim trips;
    hyp_value_id size; /* `trips` in the graph, where it is not known; of a trip that is run */
} scan;

/* A list of numbers, one for each input or output; what it lacks is 0. */
static hyp_status read_list(const hyp_onnx_node *n, const char *name, uint32_t count, hyp_onnx_ints *out)
{
    memset(out, 0, sizeof *out);
    HYP_TRY(hyp_onnx_attr_ints(n, name, out));
    if (out->count == count || !out->count) return HYP_OK;
    return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "\"%s\" has %u numbers, wanted %u", name, out->count, count);
}

static hyp_status find_trips(scan *s)
{
    const hyp_onnx_node *n = s->n;
    for (uint32_t i = 0; i < s->inputs; i++) {
        hyp_type x = hyp_onnx_input_type(n, s->states + i);
        HYP_TRY(hyp_onnx_axis(n, s->axes[i], x.rank, &s->axes[i]));
        hyp_dim size = x.dims[s->axes[i]];
        if (!hyp_dim_is_const(size) && !n->im->options->compile_body)
            return hyp_fail(
                n->im->diag, HYP_ERR_UNSUPPORTED,
                "goes through axis %lld of input %u, whose size every run may change; trips are written out, "
                "so it has to be known: --dim or --shapes",
                (long long)s->axes[i], s->states + i);
        if (i && size != s->trips) {
            hyp_dims_note_unequal(n->im->g->dims, size, s->trips);
            return hyp_fail(
                n->im->diag,
                hyp_dim_is_const(size) && hyp_dim_is_const(s->trips) ? HYP_ERR_MALFORMED : HYP_ERR_UNSUPPORTED,
                "goes through axes of %s sizes", hyp_dim_is_const(size) ? "different" : "perhaps different");
        }
        s->trips = size;
    }
    return HYP_OK;
}

static hyp_status read_scan(scan *s, hyp_onnx_node *n)
{
    const HypOnnx__GraphProto *body = hyp_onnx_loop_body(n);
    hyp_onnx_ints axes;
    int64_t inputs;
    *s = (scan){.n = n};
    HYP_TRY(hyp_onnx_attr_int(n, "num_scan_inputs", 0, &inputs));
    if (inputs < 1 || inputs > n->input_count || inputs > MOST_SCANNED)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED,
                        "\"num_scan_inputs\" is %lld, of %u inputs; at most %d are supported", (long long)inputs,
                        n->input_count, MOST_SCANNED);
    s->inputs = (uint32_t)inputs;
    s->states = n->input_count - s->inputs;
    if (!body || body->n_output < s->states || body->n_output - s->states > MOST_SCANNED)
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "its body has not %u outputs, or more than %u", s->states,
                        s->states + MOST_SCANNED);
    uint32_t results = (uint32_t)(body->n_output - s->states);
    HYP_TRY(read_list(n, "scan_input_axes", s->inputs, &axes));
    HYP_TRY(read_list(n, "scan_output_axes", results, &s->out_axes));
    HYP_TRY(read_list(n, "scan_input_directions", s->inputs, &s->in_backward));
    HYP_TRY(read_list(n, "scan_output_directions", results, &s->out_backward));
    for (uint32_t i = 0; i < s->inputs; i++) s->axes[i] = axes.items[i];
    return find_trips(s);
}

/* Element `at` of what is gone through as number i; anything of its type where there is none. */
static hyp_status take_element(const scan *s, uint32_t i, int64_t at, hyp_value_id *out)
{
    const hyp_onnx_node *n = s->n;
    uint32_t input = s->states + i;
    hyp_type x = hyp_onnx_input_type(n, input), row = {.dtype = x.dtype, .rank = x.rank - 1};
    for (int32_t a = 0; a < row.rank; a++) row.dims[a] = x.dims[a < s->axes[i] ? a : a + 1];
    if (!s->trips) {
        HYP_TRY(hyp_onnx_add_scalar(n, x.dtype, 0, out));
        return hyp_onnx_emit_dims(n, HYP_OP_expand, *out, row.dims, row.rank, out);
    }
    int64_t from = s->in_backward.items[i] ? s->trips - 1 - at : at;
    HYP_TRY(hyp_onnx_emit_part(n, n->inputs[input], (int32_t)s->axes[i], from, 1, 1, out));
    return hyp_onnx_emit_dims(n, HYP_OP_reshape, *out, row.dims, row.rank, out);
}

static hyp_status add_elements(const scan *s, hyp_onnx_loop *l)
{
    for (int64_t t = 0; t < s->trips || (t == 0 && l->collected); t++) {
        for (uint32_t i = 0; i < s->inputs; i++) HYP_TRY(take_element(s, i, t, &l->in[s->states + i]));
        HYP_TRY(hyp_onnx_loop_add(l, t));
        if (!s->trips) break;
        HYP_TRY(hyp_onnx_loop_hand_on(l, l->in));
        HYP_TRY(hyp_onnx_loop_collect(l));
    }
    return HYP_OK;
}

static hyp_status write_out(const scan *s, hyp_onnx_loop *l)
{
    hyp_onnx_loop_begin(l, 0, s->states, l->in, s->n->inputs);
    s->n->im->writing++;
    hyp_status status = add_elements(s, l);
    s->n->im->writing--;
    HYP_TRY(status);
    for (uint32_t k = 0; s->states + k < s->n->output_count; k++)
        HYP_TRY(hyp_onnx_loop_stack(l, k, s->out_axes.items[k], s->out_backward.items[k] != 0,
                                    &s->n->outputs[s->states + k]));
    return HYP_OK;
}

/* ---- run ----------------------------------------------------------------------------------------------------- */

static hyp_status emit_size(scan *s)
{
    const hyp_onnx_node *n = s->n;
    hyp_value_id of[2];
    HYP_TRY(hyp_onnx_emit(n, HYP_OP_shape, &n->inputs[s->states], 1, NULL, &of[0], 1));
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, (double)s->axes[0], &of[1]));
    return hyp_onnx_emit(n, HYP_OP_gather, of, 2, NULL, &s->size, 1);
}

/* The elements that a trip of this number goes through. */
static hyp_status set_inputs(void *user, hyp_value_id trip, hyp_value_id condition, const hyp_value_id *carried,
                             hyp_value_id *in)
{
    const scan *s = user;
    const hyp_onnx_node *n = s->n;
    hyp_value_id one, last, back;
    (void)condition;
    for (uint32_t k = 0; k < s->states; k++) in[k] = carried[k];
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_I64, 1, &one));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, s->size, one, &last));
    HYP_TRY(hyp_onnx_emit_binary(n, HYP_OP_sub, last, trip, &back));
    for (uint32_t i = 0; i < s->inputs; i++) {
        const hyp_attr axis = hyp_attr_of_int(s->axes[i]);
        const hyp_value_id of[] = {n->inputs[s->states + i], s->in_backward.items[i] ? back : trip};
        HYP_TRY(hyp_onnx_emit(n, HYP_OP_gather, of, 2, &axis, &in[s->states + i], 1));
    }
    return HYP_OK;
}

/* What was stacked along axis 0, as it is wanted. */
static hyp_status arrange(const scan *s, uint32_t k, hyp_value_id rows, hyp_value_id *out)
{
    const hyp_onnx_node *n = s->n;
    const hyp_type type = hyp_onnx_value_type(n, rows);
    hyp_dim perm[HYP_MAX_RANK];
    int64_t axis;
    HYP_TRY(hyp_onnx_axis(n, s->out_axes.items[k], type.rank, &axis));
    if (s->out_backward.items[k]) {
        hyp_dim last;
        HYP_TRY(hyp_dim_sub(n->im->g->dims, type.dims[0], 1, &last, n->im->diag));
        HYP_TRY(hyp_onnx_emit_part(n, rows, 0, last, type.dims[0], -1, &rows));
    }
    for (int32_t a = 0; a < type.rank; a++) perm[a] = a < axis ? a + 1 : a == axis ? 0 : a;
    return axis ? hyp_onnx_emit_dims(n, HYP_OP_transpose, rows, perm, type.rank, out) : (*out = rows, HYP_OK);
}

static hyp_status run_scan(scan *s, hyp_onnx_loop *l)
{
    const hyp_onnx_node *n = s->n;
    HYP_TRY(emit_size(s));
    hyp_onnx_run run = {.trips = s->size,
                        .condition = HYP_NO_VALUE,
                        .is_sized = true,
                        .most = s->trips,
                        .from = n->inputs,
                        .carried = s->states,
                        .collected = n->output_count > s->states ? n->output_count - s->states : 0,
                        .set_inputs = set_inputs,
                        .user = s};
    HYP_TRY(hyp_onnx_loop_run(l, &run));
    for (uint32_t k = 0; k < run.collected; k++)
        HYP_TRY(arrange(s, k, run.results[s->states + k], &n->outputs[s->states + k]));
    return HYP_OK;
}

static hyp_status import_scan(hyp_onnx_node *n)
{
    scan s;
    hyp_onnx_loop l;
    HYP_TRY(read_scan(&s, n));
    hyp_status status = hyp_onnx_loop_open(&l, n, n->input_count, n->output_count);
    if (status == HYP_OK) {
        const hyp_onnx_mark before = hyp_onnx_mark_end(n->im);
        bool known = hyp_dim_is_const(s.trips);
        l.collected = (uint32_t)l.graph->n_output - s.states;
        status = known ? write_out(&s, &l) : HYP_ERR_UNSUPPORTED;
        bool runs = status != HYP_OK;
        if (runs) status = hyp_onnx_loop_want_run(n->im, !known, status);
        if (runs && status == HYP_OK) {
            hyp_onnx_go_back(n->im, &before);
            status = run_scan(&s, &l);
        }
    }
    hyp_onnx_loop_close(&l);
    return status;
}

static const hyp_onnx_operator rows[] = {
    {"Scan", 9, 1, HYP_ONNX_ANY, HYP_ONNX_ANY,
     "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions ", import_scan,
     HYP_OP_COUNT},
};
const hyp_onnx_family hyp_onnx_scans = {rows, sizeof rows / sizeof *rows};
