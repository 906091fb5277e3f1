#include "fuzz/loop_graph.h"

#include <stdio.h>

#include "base/file.h"
#include "base/loop.h"
#include "base/strbuf.h"
#include "codegen/run_graph.h"

enum { MOST_TRIPS = 3, MOST_RESULTS = 8, MOST_GIVEN = 16 };

/* By bits of the kind: where trips are not counted, there are as many as results have rows. */
enum { COUNTS = 1, HAS_CONDITION = 2 };

/* Of a trip. */
typedef struct trip {
    hyp_type given[MOST_GIVEN], results[MOST_RESULTS]; /* what is carried first */
    uint32_t given_count, result_count, carried;
} trip;

static const hyp_type one_i64 = {.dtype = HYP_I64}, one_bool = {.dtype = HYP_BOOL};

static hyp_status copy_values(const hyp_graph *from, hyp_graph *to, trip *t, hyp_value_id *map, hyp_diag *diag)
{
    for (size_t i = 0; i < from->inputs.len; i++) {
        const hyp_value *value = &from->values.data[from->inputs.data[i]];
        if (t->given_count == MOST_GIVEN) return hyp_fail(diag, HYP_ERR_LIMIT, "more than %d inputs", MOST_GIVEN);
        t->given[t->given_count++] = value->type;
        HYP_TRY(hyp_graph_add_input(to, value->name, &value->type, &map[from->inputs.data[i]], diag));
    }
    for (size_t v = 0; v < from->values.len; v++)
        if (from->values.data[v].kind == HYP_VALUE_CONST) HYP_TRY(hyp_graph_copy_const(to, &from->values.data[v], &map[v], diag));
    for (size_t i = 0; i < from->nodes.len; i++) HYP_TRY(hyp_graph_copy_node(to, from, &from->nodes.data[i], map, diag));
    return HYP_OK;
}

/* What a trip gives: the condition, what is carried, what is collected. */
static hyp_status add_results(const hyp_graph *from, hyp_graph *to, trip *t, hyp_value_id more, hyp_value_id carried,
                              const hyp_value_id *map, hyp_diag *diag)
{
    HYP_TRY(hyp_graph_add_output(to, "more", more, diag));
    for (size_t o = 0; o < from->outputs.len && t->result_count < MOST_RESULTS; o++) {
        hyp_value_id value = map[from->outputs.data[o].value];
        const hyp_type type = to->values.data[value].type;
        char name[] = {'r', (char)('0' + o), 0};
        if (o < t->carried)
            HYP_TRY(hyp_graph_add_node(to, HYP_OP_add, (hyp_value_id[]){carried, value}, 2, NULL, NULL, &value, 1, diag));
        else if (type.rank == HYP_MAX_RANK)
            continue;
        t->results[t->result_count++] = type;
        HYP_TRY(hyp_graph_add_output(to, name, value, diag));
    }
    return HYP_OK;
}

/* *t: what the loop around it has to say. */
static hyp_status make_body(const hyp_graph *from, uint64_t kind, hyp_graph *to, trip *t, hyp_value_id *map, hyp_diag *diag)
{
    const bool go = true;
    const hyp_type first = from->values.data[from->outputs.data[0].value].type;
    hyp_value_id number, condition, more, carried = HYP_NO_VALUE;
    HYP_TRY(hyp_graph_add_input(to, "trip", &one_i64, &number, diag));
    HYP_TRY(hyp_graph_add_input(to, "condition", &one_bool, &condition, diag));
    t->carried = first.dtype != HYP_BOOL;
    if (t->carried) {
        t->given[t->given_count++] = first;
        HYP_TRY(hyp_graph_add_input(to, "carried", &first, &carried, diag));
    }
    HYP_TRY(copy_values(from, to, t, map, diag));
    more = condition;
    if (!(kind & COUNTS && kind & HAS_CONDITION)) HYP_TRY(hyp_graph_add_const(to, NULL, &one_bool, &go, sizeof go, true, &more, diag));
    HYP_TRY(add_results(from, to, t, more, carried, map, diag));
    return hyp_graph_verify(to, diag);
}

/* The body's plan as a constant. */
static hyp_status add_plan(const hyp_graph *body, const char *path, hyp_graph *to, hyp_value_id *out, hyp_diag *diag)
{
    hyp_mapping map;
    HYP_TRY(write_plan(body, path, diag));
    HYP_TRY(hyp_map_file(path, &map, diag));
    const hyp_type type = {.dtype = HYP_U8, .rank = 1, .dims = {(hyp_dim)map.size}};
    hyp_status status = hyp_graph_add_const(to, NULL, &type, map.data, map.size, true, out, diag);
    hyp_unmap(&map);
    return status;
}

static hyp_status add_loop(const trip *t, uint64_t kind, hyp_value_id plan, hyp_graph *to, hyp_diag *diag)
{
    const bool counts = kind & COUNTS;
    const int64_t most = MOST_TRIPS;
    char carried[32], collected[32], counted[32];
    const char *values[] = {carried, collected, counted, HYP_LOOP_MOST "=i:-1,"}, *types[MOST_RESULTS + 1];
    hyp_dim shapes[(MOST_RESULTS + 1) * (1 + HYP_MAX_RANK)];
    uint32_t outputs = 0, said = 0;
    snprintf(carried, sizeof carried, HYP_LOOP_CARRIED "=i:%u,", t->carried);
    snprintf(collected, sizeof collected, HYP_LOOP_COLLECTED "=i:%u,", t->result_count - t->carried);
    snprintf(counted, sizeof counted, HYP_LOOP_COUNTS "=i:%d,", counts);
    for (uint32_t o = 0; o < t->result_count + counts; o++) {
        const hyp_type *row = o < t->result_count ? &t->results[o] : &one_i64;
        const bool rows = o >= t->carried && o < t->result_count;
        types[outputs++] = hyp_dtype_name(row->dtype);
        shapes[said++] = row->rank + rows;
        if (rows) shapes[said++] = MOST_TRIPS;
        for (int32_t a = 0; a < row->rank; a++) shapes[said++] = row->dims[a];
    }
    const hyp_attr attrs[] = {hyp_attr_of_sym(HYP_LOOP_OPERATOR),
                              {.kind = HYP_ATTR_SYMS, .count = 4, .syms = values},
                              {.kind = HYP_ATTR_SYMS, .count = outputs, .syms = types},
                              hyp_attr_of_dims(shapes, said)};
    hyp_value_id in[HYP_LOOP_FIRST + MOST_GIVEN], out[MOST_RESULTS + 1];
    in[HYP_LOOP_PLAN] = plan;
    in[HYP_LOOP_CONDITION] = HYP_NO_VALUE;
    HYP_TRY(counts ? hyp_graph_add_input(to, "trips", &one_i64, &in[HYP_LOOP_TRIPS], diag)
                   : hyp_graph_add_const(to, NULL, &one_i64, &most, sizeof most, true, &in[HYP_LOOP_TRIPS], diag));
    if (counts && kind & HAS_CONDITION) HYP_TRY(hyp_graph_add_input(to, "go", &one_bool, &in[HYP_LOOP_CONDITION], diag));
    for (uint32_t i = 0; i < t->given_count; i++) {
        char name[] = {'g', (char)('a' + i), 0};
        HYP_TRY(hyp_graph_add_input(to, name, &t->given[i], &in[HYP_LOOP_FIRST + i], diag));
    }
    HYP_TRY(hyp_graph_add_node(to, HYP_OP_custom, in, HYP_LOOP_FIRST + t->given_count, attrs, NULL, out, outputs, diag));
    for (uint32_t o = 0; o < outputs; o++) {
        char name[] = {'o', (char)('0' + o), 0};
        HYP_TRY(hyp_graph_add_output(to, name, out[o], diag));
    }
    return hyp_graph_verify(to, diag);
}

hyp_status loop_graph(const hyp_graph *body, uint64_t kind, const char *path, hyp_graph *out, hyp_diag *diag)
{
    trip t = {.carried = 0};
    hyp_graph trips;
    hyp_value_id plan, *map = hyp_calloc(body->values.len, sizeof *map);
    if (!map) return hyp_fail_memory(diag, body->values.len * sizeof *map);
    hyp_graph_init(&trips, body->dims);
    hyp_graph_init(out, body->dims);
    hyp_status status = make_body(body, kind, &trips, &t, map, diag);
    if (status == HYP_OK) status = add_plan(&trips, path, out, &plan, diag);
    if (status == HYP_OK) status = add_loop(&t, kind, plan, out, diag);
    hyp_graph_dispose(&trips);
    hyp_free(map);
    if (status != HYP_OK) hyp_graph_dispose(out);
    return status;
}
