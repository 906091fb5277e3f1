/* Loop and Scan, written out: the nodes of the body once for every trip. How many there are has to be known here, or at
 * least a number that they do not exceed: where a condition that depends on data ends a Loop, all are computed, as if
 * it had not ended; selects keep what was there when it did, and of what trips collect that of the trips that count is
 * kept, as large as the data say. */
#include <stdio.h>
#include <string.h>

#include "ir/constants.h"
#include "onnx/import.h"

/* Of constants that bodies make, which are none of the file's. */
static const uint64_t most_bytes = (uint64_t)256 << 20;

typedef struct loop {
    const hyp_onnx_node *n;
    const HypOnnx__GraphProto *graph;
    hyp_onnx_branch body;
    hyp_value_id *in, *out; /* of the body, in the trip at hand */
    uint32_t handed_on;     /* results that are inputs of the next trip; outputs of the body from `first` on */
    uint32_t first;
    uint32_t collected;         /* the last outputs of the body: what results are stacked of */
    HYP_VEC(hyp_value_id) rows; /* `collected` of every trip */
    HYP_VEC(hyp_value_id) ran;  /* of every trip: [1], whether it is one of the model's */
    hyp_value_id running;       /* the same of the trip at hand, a scalar; HYP_NO_VALUE while it is known to be */
} loop;

static const HypOnnx__GraphProto *body_of(const hyp_onnx_node *n)
{
    const HypOnnx__AttributeProto *body = hyp_onnx_attr(n, "body");
    return body ? body->g : NULL;
}

static hyp_status open_loop(loop *l, const hyp_onnx_node *n, size_t inputs, size_t outputs)
{
    hyp_diag *diag = n->im->diag;
    *l = (loop){.n = n, .graph = body_of(n), .running = HYP_NO_VALUE};
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

static void close_loop(loop *l)
{
    hyp_onnx_branch_close(&l->body);
    hyp_vec_free(&l->rows);
    hyp_vec_free(&l->ran);
}

/* ---- one trip ---------------------------------------------------------------------------------------------- */

/* Constants that were made for this trip, and are not just parts of the file. */
static hyp_status take_bytes(loop *l, size_t first_value)
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

static hyp_status add_trip(loop *l, int64_t trip)
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
            (o < l->first || o >= l->first + l->handed_on || l->n->op->op != HYP_ONNX_SEQUENCES))
            return hyp_fail(im->diag, HYP_ERR_UNSUPPORTED, "output %u of its body is a sequence; a tensor is wanted",
                            o);
    return take_bytes(l, first_value);
}

/* A small list of integers that is known becomes a constant: what a later trip reads of it does not hang on all trips
 * before. */
static hyp_status settle(const loop *l, hyp_value_id *value)
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
static void begin(loop *l, uint32_t first, uint32_t handed_on, hyp_value_id *in, const hyp_value_id *from)
{
    l->first = first;
    l->handed_on = handed_on;
    for (uint32_t k = 0; k < handed_on; k++) {
        in[k] = from[k];
        if (k < l->n->output_count) l->n->outputs[k] = from[k];
    }
}

/* What the loop has given when this trip is its last, if the model makes it, in place of what the one before gave. Of
 * what has not one type in all trips nothing is given, which is a matter of who reads it. */
static hyp_status keep(loop *l, uint32_t k)
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
static hyp_status hand_on(loop *l, hyp_value_id *in)
{
    for (uint32_t k = 0; k < l->handed_on; k++) {
        if (k < l->n->output_count) HYP_TRY(keep(l, k));
        in[k] = l->out[l->first + k];
        HYP_TRY(settle(l, &in[k]));
    }
    return HYP_OK;
}

static hyp_status collect(loop *l)
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

static hyp_status join(const loop *l, const hyp_value_id *parts, size_t count, int64_t axis, hyp_value_id *out)
{
    hyp_attr attr = hyp_attr_of_int(axis);
    *out = parts[0];
    return count == 1 ? HYP_OK : hyp_onnx_emit(l->n, HYP_OP_concat, parts, (uint32_t)count, &attr, out, 1);
}

/* Without a trip there are none of them, of the type that a trip's would have. */
static hyp_status make_empty(const loop *l, hyp_value_id like, int64_t axis, hyp_value_id *out)
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
static hyp_status stack(loop *l, uint32_t k, int64_t axis, bool backward, hyp_value_id *out)
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
    return join(l, parts, trips, axis, out);
}

/* ---- Loop ---------------------------------------------------------------------------------------------------- */

/* A condition that is known: *out_known and *out. */
static hyp_status read_condition(const hyp_onnx_node *n, hyp_value_id condition, bool *out_known, bool *out)
{
    const hyp_graph *g = n->im->g;
    const hyp_type type = hyp_onnx_value_type(n, condition);
    hyp_onnx_node one = *n;
    hyp_eval_tensor t;
    while (g->values.data[condition].kind == HYP_VALUE_NODE) { /* most bodies hand on what they were given */
        const hyp_node *producer = &g->nodes.data[g->values.data[condition].producer];
        if (producer->op != HYP_OP_identity) break;
        condition = producer->inputs[0];
    }
    if (type.dtype != HYP_BOOL || type.rank > 1 || (type.rank == 1 && type.dims[0] != 1))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "its condition should be one bool");
    *out_known = g->values.data[condition].kind == HYP_VALUE_CONST;
    if (*out_known) return *out = hyp_load_i64(HYP_BOOL, g->values.data[condition].data, 0) != 0, HYP_OK;
    one.inputs = &condition;
    one.input_count = 1;
    hyp_status status = hyp_onnx_constant(&one, 0, "the condition", &t);
    *out_known = status == HYP_OK;
    *out = status == HYP_OK && t.i[0];
    hyp_eval_tensor_dispose(&t);
    if (status != HYP_ERR_UNSUPPORTED) return status;
    *n->im->diag = (hyp_diag){0};
    return HYP_OK;
}

/* Whether there is another trip: known, or a value from now on. */
static hyp_status decide(loop *l, hyp_value_id condition, bool *out_ends)
{
    const hyp_graph *g = l->n->im->g;
    bool known, truth;
    HYP_TRY(read_condition(l->n, condition, &known, &truth));
    *out_ends = known && !truth;
    if (known) return HYP_OK;
    /* `i < 5 and error > tolerance` ends where a part of it does. */
    const hyp_value *v = &g->values.data[condition];
    const hyp_node *both = v->kind == HYP_VALUE_NODE ? &g->nodes.data[v->producer] : NULL;
    for (uint32_t i = 0; both && both->op == HYP_OP_and && i < 2; i++) {
        HYP_TRY(read_condition(l->n, both->inputs[i], &known, &truth));
        if (known && !truth) return *out_ends = true, HYP_OK;
    }
    HYP_TRY(hyp_onnx_emit_dims(l->n, HYP_OP_reshape, condition, NULL, 0, &condition));
    if (l->running == HYP_NO_VALUE) return l->running = condition, HYP_OK;
    return hyp_onnx_emit_binary(l->n, HYP_OP_and, l->running, condition, &l->running);
}

static hyp_status add_trips(loop *l, int64_t most, hyp_value_id condition)
{
    const hyp_type index = {.dtype = HYP_I64};
    bool ends = false;
    for (int64_t t = 0; t < most; t++) {
        if (condition != HYP_NO_VALUE) HYP_TRY(decide(l, condition, &ends));
        if (ends) break;
        HYP_TRY(hyp_graph_add_const(l->n->im->g, NULL, &index, &t, sizeof t, true, &l->in[0], l->n->im->diag));
        HYP_TRY(add_trip(l, t));
        HYP_TRY(hand_on(l, l->in + 2));
        HYP_TRY(collect(l));
        condition = l->out[0];
    }
    /* A trip that counts for nothing says what results without one look like. */
    return !l->ran.len && l->collected ? add_trip(l, 0) : HYP_OK;
}

static hyp_status stack_results(loop *l)
{
    const hyp_onnx_node *n = l->n;
    const hyp_attr axis = hyp_attr_of_int(0);
    const uint32_t carried = l->handed_on;
    hyp_value_id kept[2] = {HYP_NO_VALUE, HYP_NO_VALUE};
    if (l->running != HYP_NO_VALUE && n->output_count > carried) {
        HYP_TRY(join(l, l->ran.data, l->ran.len, 0, &kept[1]));
        HYP_TRY(hyp_onnx_emit_kept(n, kept[1], &kept[1]));
    }
    for (uint32_t k = 0; carried + k < n->output_count; k++) {
        HYP_TRY(stack(l, k, 0, false, &kept[0]));
        n->outputs[carried + k] = kept[0];
        if (kept[1] != HYP_NO_VALUE)
            HYP_TRY(hyp_onnx_emit(n, HYP_OP_gather, kept, 2, &axis, &n->outputs[carried + k], 1));
    }
    return HYP_OK;
}

/* INT64_MAX where nothing bounds it. */
static hyp_status read_trip_count(const hyp_onnx_node *n, int64_t *out)
{
    hyp_onnx_ints count;
    *out = INT64_MAX;
    if (!hyp_onnx_has_input(n, 0)) return HYP_OK;
    const hyp_value *v = &n->im->g->values.data[n->inputs[0]];
    if (v->kind == HYP_VALUE_CONST && v->type.dtype == HYP_I64 && v->bytes == sizeof *out)
        return *out = hyp_load_i64(HYP_I64, v->data, 0), HYP_OK; /* which may be larger than sizes are */
    HYP_TRY(hyp_onnx_input_ints(n, 0, "the trip count", &count));
    if (count.count != 1) return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "its trip count should be one number");
    *out = count.items[0];
    if (hyp_dim_is_const(count.items[0])) return HYP_OK;
    hyp_strbuf sb = {0};
    hyp_dim_print(&sb, n->im->g->dims, count.items[0]);
    hyp_status status =
        hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                 "its trip count is '%s', which every run may give another value; trips are written out, "
                 "so it has to be known: --dim or --shapes",
                 hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

static hyp_status import_loop(hyp_onnx_node *n)
{
    loop l;
    int64_t most;
    uint32_t carried = n->input_count > 2 ? n->input_count - 2 : 0;
    hyp_value_id condition = hyp_onnx_has_input(n, 1) ? n->inputs[1] : HYP_NO_VALUE;
    for (uint32_t i = 0; i < n->input_count; i++) {
        bool missing = i >= 2 && !hyp_onnx_has_input(n, i), wrong = i < 2 && hyp_onnx_is_sequence(n->inputs[i]);
        if (missing || wrong)
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "input %u is %s", i, missing ? "missing" : "a sequence");
    }
    HYP_TRY(read_trip_count(n, &most));
    size_t results = n->output_count > carried ? n->output_count : carried;
    hyp_status status = open_loop(&l, n, 2 + (size_t)carried, 1 + results);
    if (status == HYP_OK) {
        l.collected = (uint32_t)(l.graph->n_output - 1 - carried);
        begin(&l, 1, carried, l.in + 2, n->inputs + 2);
        status = hyp_onnx_add_scalar(n, HYP_BOOL, 1, &l.in[1]);
    }
    if (status == HYP_OK) status = add_trips(&l, most, condition);
    if (status == HYP_OK) status = stack_results(&l);
    close_loop(&l);
    return status;
}

/* ---- Scan ---------------------------------------------------------------------------------------------------- */

enum { MOST_SCANNED = HYP_ONNX_MAX_INTS };

typedef struct scan {
    const hyp_onnx_node *n;
    uint32_t states, inputs; /* that are handed on, and that are gone through */
    int64_t axes[MOST_SCANNED];
    hyp_onnx_ints out_axes, in_backward, out_backward;
    int64_t trips;
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
        if (!hyp_dim_is_const(size))
            return hyp_fail(
                n->im->diag, HYP_ERR_UNSUPPORTED,
                "goes through axis %lld of input %u, whose size every run may change; trips are written out, "
                "so it has to be known: --dim or --shapes",
                (long long)s->axes[i], s->states + i);
        if (i && size != s->trips)
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "goes through axes of %lld and of %lld elements",
                            (long long)s->trips, (long long)size);
        s->trips = size;
    }
    return HYP_OK;
}

static hyp_status read_scan(scan *s, hyp_onnx_node *n)
{
    const HypOnnx__GraphProto *body = body_of(n);
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

static hyp_status add_elements(const scan *s, loop *l)
{
    for (int64_t t = 0; t < s->trips || (t == 0 && l->collected); t++) {
        for (uint32_t i = 0; i < s->inputs; i++) HYP_TRY(take_element(s, i, t, &l->in[s->states + i]));
        HYP_TRY(add_trip(l, t));
        if (!s->trips) break;
        HYP_TRY(hand_on(l, l->in));
        HYP_TRY(collect(l));
    }
    for (uint32_t k = 0; s->states + k < s->n->output_count; k++)
        HYP_TRY(stack(l, k, s->out_axes.items[k], s->out_backward.items[k] != 0, &s->n->outputs[s->states + k]));
    return HYP_OK;
}

static hyp_status import_scan(hyp_onnx_node *n)
{
    scan s;
    loop l;
    HYP_TRY(read_scan(&s, n));
    hyp_status status = open_loop(&l, n, n->input_count, n->output_count);
    if (status == HYP_OK) {
        l.collected = (uint32_t)l.graph->n_output - s.states;
        begin(&l, 0, s.states, l.in, n->inputs);
        status = add_elements(&s, &l);
    }
    close_loop(&l);
    return status;
}

static const hyp_onnx_operator rows[] = {
    {"Loop", 7, 0, HYP_ONNX_ANY_ABSENT, HYP_ONNX_ANY, "body ", import_loop, HYP_ONNX_SEQUENCES},
    {"Scan", 9, 1, HYP_ONNX_ANY, HYP_ONNX_ANY,
     "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions ", import_scan,
     HYP_OP_COUNT},
};
const hyp_onnx_family hyp_onnx_loops = {rows, sizeof rows / sizeof *rows};
