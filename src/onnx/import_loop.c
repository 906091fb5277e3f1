/* Loop, written out. How many trips there are has to be known here, or at least a number that they do not exceed:
 * where a condition that depends on data ends a Loop, all are computed, as if it had not ended; selects keep what was
 * there when it did, and of what trips collect that of the trips that count is kept, as large as the data say. Other
 * loops are run (loop_run.c), and so are those that come to too much and, where the options say so, those that the
 * data end. */
#include "ir/constants.h"
#include "onnx/loop.h"

/* Whether there is another trip: known, or a value from now on. */
static hyp_status decide(hyp_onnx_loop *l, hyp_value_id condition, bool *out_ends)
{
    const hyp_graph *g = l->n->im->g;
    bool known, truth;
    HYP_TRY(hyp_onnx_loop_condition(l->n, condition, &known, &truth));
    *out_ends = known && !truth;
    if (known) return HYP_OK;
    /* `i < 5 and error > tolerance` ends where a part of it does. */
    const hyp_value *v = &g->values.data[condition];
    const hyp_node *both = v->kind == HYP_VALUE_NODE ? &g->nodes.data[v->producer] : NULL;
    for (uint32_t i = 0; both && both->op == HYP_OP_and && i < 2; i++) {
        HYP_TRY(hyp_onnx_loop_condition(l->n, both->inputs[i], &known, &truth));
        if (known && !truth) return *out_ends = true, HYP_OK;
    }
    HYP_TRY(hyp_onnx_emit_dims(l->n, HYP_OP_reshape, condition, NULL, 0, &condition));
    if (l->running == HYP_NO_VALUE) return l->running = condition, HYP_OK;
    return hyp_onnx_emit_binary(l->n, HYP_OP_and, l->running, condition, &l->running);
}

static hyp_status add_trips(hyp_onnx_loop *l, int64_t most, hyp_value_id condition)
{
    enum { FEW = 8 }; /* trips that may as well be computed in vain */
    const hyp_type index = {.dtype = HYP_I64};
    bool ends = false;
    for (int64_t t = 0; t < most; t++) {
        if (condition != HYP_NO_VALUE) HYP_TRY(decide(l, condition, &ends));
        if (ends) break;
        if (l->running != HYP_NO_VALUE && l->may_run && most > FEW) {
            l->is_to_run = true;
            return hyp_fail(l->n->im->diag, HYP_ERR_LIMIT, "the data end it, perhaps long before the last trip");
        }
        HYP_TRY(hyp_graph_add_const(l->n->im->g, NULL, &index, &t, sizeof t, true, &l->in[0], l->n->im->diag));
        HYP_TRY(hyp_onnx_loop_add(l, t));
        HYP_TRY(hyp_onnx_loop_hand_on(l, l->in + 2));
        HYP_TRY(hyp_onnx_loop_collect(l));
        condition = l->out[0];
    }
    /* A trip that counts for nothing says what results without one look like. */
    return !l->ran.len && l->collected ? hyp_onnx_loop_add(l, 0) : HYP_OK;
}

static hyp_status stack_results(hyp_onnx_loop *l)
{
    const hyp_onnx_node *n = l->n;
    const hyp_attr axis = hyp_attr_of_int(0);
    const uint32_t carried = l->carried;
    hyp_value_id kept[2] = {HYP_NO_VALUE, HYP_NO_VALUE};
    if (l->running != HYP_NO_VALUE && n->output_count > carried) {
        HYP_TRY(hyp_onnx_loop_join(l, l->ran.data, l->ran.len, 0, &kept[1]));
        HYP_TRY(hyp_onnx_emit_kept(n, kept[1], &kept[1]));
    }
    for (uint32_t k = 0; carried + k < n->output_count; k++) {
        HYP_TRY(hyp_onnx_loop_stack(l, k, 0, false, &kept[0]));
        n->outputs[carried + k] = kept[0];
        if (kept[1] != HYP_NO_VALUE)
            HYP_TRY(hyp_onnx_emit(n, HYP_OP_gather, kept, 2, &axis, &n->outputs[carried + k], 1));
    }
    return HYP_OK;
}

/* A number of trips that is a size, which only a run tells. */
static hyp_status want_number(const hyp_onnx_node *n, hyp_dim count)
{
    if (hyp_dim_is_const(count)) return HYP_OK;
    hyp_strbuf sb = {0};
    hyp_dim_print(&sb, n->im->g->dims, count);
    hyp_status status =
        hyp_fail(n->im->diag, HYP_ERR_UNSUPPORTED,
                 "its trip count is '%s', which every run may give another value; trips are written out, "
                 "so it has to be known: --dim or --shapes",
                 hyp_strbuf_text(&sb));
    hyp_strbuf_dispose(&sb);
    return status;
}

/* How many trips there are at most: INT64_MAX where nothing bounds it. HYP_ERR_UNSUPPORTED where a run tells; then it
 * may be known as an expression of sizes. */
static hyp_status read_trip_count(const hyp_onnx_node *n, hyp_onnx_run *run, int64_t *out)
{
    hyp_onnx_ints count;
    *out = INT64_MAX;
    if (!hyp_onnx_has_input(n, 0)) return HYP_OK;
    run->trips = n->inputs[0];
    const hyp_type type = hyp_onnx_input_type(n, 0);
    if (type.dtype != HYP_I64 || type.rank > 1 || (type.rank == 1 && type.dims[0] != 1))
        return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "its trip count should be one number");
    const hyp_value *v = &n->im->g->values.data[n->inputs[0]];
    if (v->kind == HYP_VALUE_CONST && v->bytes == sizeof *out) {
        *out = hyp_load_i64(HYP_I64, v->data, 0); /* which may be larger than sizes are */
        run->is_sized = *out < (int64_t)1 << 40;
        run->most = run->is_sized ? *out : 0;
        return HYP_OK;
    }
    HYP_TRY(hyp_onnx_input_ints(n, 0, "the trip count", &count));
    run->is_sized = true;
    *out = run->most = count.items[0];
    return want_number(n, run->most);
}

static hyp_status set_loop_inputs(void *count, hyp_value_id trip, hyp_value_id condition, const hyp_value_id *carried,
                                  hyp_value_id *in)
{
    in[0] = trip;
    in[1] = condition;
    for (uint32_t k = 0; k < *(const uint32_t *)count; k++) in[2 + k] = carried[k];
    return HYP_OK;
}

static hyp_status run_as_loop(hyp_onnx_loop *l, hyp_onnx_run *run, uint32_t carried)
{
    const hyp_onnx_node *n = l->n;
    run->from = n->inputs + 2;
    run->carried = carried;
    run->collected = n->output_count > carried ? n->output_count - carried : 0;
    run->first = 1;
    run->condition = hyp_onnx_has_input(n, 1) ? n->inputs[1] : HYP_NO_VALUE;
    run->set_inputs = set_loop_inputs;
    run->user = &carried;
    HYP_TRY(hyp_onnx_loop_run(l, run));
    for (uint32_t k = 0; k < run->collected; k++) n->outputs[carried + k] = run->results[carried + k];
    return HYP_OK;
}

static hyp_status write_out_loop(hyp_onnx_loop *l, int64_t most, uint32_t carried)
{
    const hyp_onnx_node *n = l->n;
    l->rows.len = l->ran.len = 0;
    l->running = HYP_NO_VALUE;
    hyp_onnx_loop_begin(l, 1, carried, l->in + 2, n->inputs + 2);
    HYP_TRY(hyp_onnx_add_scalar(n, HYP_BOOL, 1, &l->in[1]));
    n->im->writing++;
    hyp_status status = add_trips(l, most, hyp_onnx_has_input(n, 1) ? n->inputs[1] : HYP_NO_VALUE);
    n->im->writing--;
    return status == HYP_OK ? stack_results(l) : status;
}

/* Written out or run, whichever is possible, and whichever is meant where both are. */
static hyp_status add_loop(hyp_onnx_loop *l, hyp_onnx_run *run, hyp_status counted, int64_t most, uint32_t carried)
{
    hyp_importer *im = l->n->im;
    const hyp_onnx_mark before = hyp_onnx_mark_end(im);
    l->may_run = im->options->runs_loops && !im->writing;
    hyp_status status = counted == HYP_OK ? write_out_loop(l, most, carried) : counted;
    if (status == HYP_OK) return HYP_OK;
    HYP_TRY(hyp_onnx_loop_want_run(im, counted != HYP_OK, status));
    hyp_onnx_go_back(im, &before);
    *im->diag = (hyp_diag){0};
    status = run_as_loop(l, run, carried);
    if (!l->is_to_run || (status != HYP_ERR_UNSUPPORTED && status != HYP_ERR_LIMIT) || im->again) return status;
    hyp_onnx_go_back(im, &before);
    *im->diag = (hyp_diag){0};
    l->may_run = false;
    return write_out_loop(l, most, carried);
}

static hyp_status import_loop(hyp_onnx_node *n)
{
    hyp_onnx_loop l;
    int64_t most;
    hyp_onnx_run run = {.trips = HYP_NO_VALUE};
    uint32_t carried = n->input_count > 2 ? n->input_count - 2 : 0;
    for (uint32_t i = 0; i < n->input_count; i++) {
        bool missing = i >= 2 && !hyp_onnx_has_input(n, i), wrong = i < 2 && hyp_onnx_is_sequence(n->inputs[i]);
        if (missing || wrong)
            return hyp_fail(n->im->diag, HYP_ERR_MALFORMED, "input %u is %s", i, missing ? "missing" : "a sequence");
    }
    hyp_status counted = read_trip_count(n, &run, &most);
    if (counted != HYP_OK && (counted != HYP_ERR_UNSUPPORTED || !n->im->options->compile_body)) return counted;
    size_t results = n->output_count > carried ? n->output_count : carried;
    hyp_status status = hyp_onnx_loop_open(&l, n, 2 + (size_t)carried, 1 + results);
    if (status == HYP_OK) {
        l.collected = (uint32_t)(l.graph->n_output - 1 - carried);
        status = add_loop(&l, &run, counted, most, carried);
    }
    hyp_onnx_loop_close(&l);
    return status;
}

static const hyp_onnx_operator rows[] = {
    {"Loop", 7, 0, HYP_ONNX_ANY_ABSENT, HYP_ONNX_ANY, "body ", import_loop, HYP_ONNX_SEQUENCES},
};
const hyp_onnx_family hyp_onnx_loops = {rows, sizeof rows / sizeof *rows};
