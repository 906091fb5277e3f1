/* update.c - how other constants become the bytes of a plan's weights: what was computed while the plan was written is
 * a plan of its own, whose inputs are those constants. There is one for every set of constants that some piece of a
 * weight is computed of together. A weight whose parts lie one behind the other is as many pieces, so that matrices
 * which were joined side by side can be replaced one by one.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "codegen/codegen.h"

/* Bytes of a weight that depend on constants which may be replaced. */
typedef struct piece {
    uint32_t tensor;
    uint64_t offset;
    hyp_value_id value; /* that gives them */
} piece;

typedef struct updates {
    hyp_lowered *lowered;
    const hyp_graph *g;
    const hyp_codegen_options *options;
    bool *depends;        /* by value: on a constant that may be replaced */
    bool *seen;           /* by value: it is such a piece, or one of these is computed from it */
    hyp_value_id *leader; /* by value, of constants that may be replaced: another one of its set, or itself */
    HYP_VEC(piece) pieces;
    hyp_diag *diag;
} updates;

/* ---- pieces ------------------------------------------------------------------------------------------- */

static void find_dependent(updates *u)
{
    for (size_t v = 0; v < u->g->values.len; v++) u->depends[v] = u->g->values.data[v].updatable;
    for (size_t n = 0; n < u->g->nodes.len; n++) {
        const hyp_node *node = &u->g->nodes.data[n];
        bool depends = false;
        for (uint32_t i = 0; i < node->input_count; i++)
            depends = depends || (node->inputs[i] != HYP_NO_VALUE && u->depends[node->inputs[i]]);
        for (uint32_t o = 0; o < node->output_count; o++) u->depends[node->outputs[o]] = depends;
    }
}

/* Whether the parts of a concat lie one behind the other. */
static bool is_in_pieces(const updates *u, const hyp_node *node)
{
    if (node->op != HYP_OP_concat) return false;
    const hyp_type *type = &u->g->values.data[node->outputs[0]].type;
    int64_t axis = node->attrs[0].i < 0 ? node->attrs[0].i + type->rank : node->attrs[0].i;
    for (int64_t a = 0; a < axis; a++)
        if (type->dims[a] != 1) return false;
    return true;
}

/* The pieces of a constant that lies at `offset` of a weight. Recursion is as deep as constants are joined. */
static hyp_status add_pieces(updates *u, uint32_t tensor, uint64_t offset, hyp_value_id v)
{
    const hyp_value *value = &u->g->values.data[v];
    if (!u->depends[v]) return HYP_OK;
    const hyp_node *node = value->kind == HYP_VALUE_NODE ? &u->g->nodes.data[value->producer] : NULL;
    if (node && (hyp_op_get(node->op)->flags & HYP_OPF_VIEW)) return add_pieces(u, tensor, offset, node->inputs[0]);
    if (!node || !is_in_pieces(u, node)) return hyp_vec_push(&u->pieces, u->diag, (piece){tensor, offset, v});
    for (uint32_t i = 0; i < node->input_count; i++) {
        size_t bytes;
        HYP_TRY(add_pieces(u, tensor, offset, node->inputs[i]));
        if (hyp_type_bytes(&u->g->values.data[node->inputs[i]].type, &bytes)) offset += bytes;
    }
    return HYP_OK;
}

/* Marks all that a value is computed from. Nodes stand behind what they read. */
static void mark(const updates *u, hyp_value_id v, bool *seen)
{
    const hyp_value *value = &u->g->values.data[v];
    seen[v] = true;
    for (size_t n = value->kind == HYP_VALUE_NODE ? value->producer + 1 : 0; n-- > 0;) {
        const hyp_node *node = &u->g->nodes.data[n];
        bool needed = false;
        for (uint32_t o = 0; o < node->output_count; o++) needed = needed || seen[node->outputs[o]];
        for (uint32_t i = 0; needed && i < node->input_count; i++)
            if (node->inputs[i] != HYP_NO_VALUE) seen[node->inputs[i]] = true;
    }
}

/* ---- sets --------------------------------------------------------------------------------------------- */

static hyp_value_id leader_of(const updates *u, hyp_value_id v)
{
    while (u->leader[v] != v) v = u->leader[v];
    return v;
}

/* One set of all constants that the piece is computed from. */
static void join(updates *u, const piece *p)
{
    hyp_value_id first = HYP_NO_VALUE;
    memset(u->seen, 0, u->g->values.len * sizeof *u->seen);
    mark(u, p->value, u->seen);
    for (size_t v = 0; v < u->g->values.len; v++) {
        if (!u->seen[v] || !u->g->values.data[v].updatable) continue;
        if (first == HYP_NO_VALUE) first = leader_of(u, (hyp_value_id)v);
        u->leader[leader_of(u, (hyp_value_id)v)] = first;
    }
}

/* Any constant that may be replaced of those that a piece is computed from. */
static hyp_value_id constant_of(const updates *u, hyp_value_id v)
{
    while (!u->g->values.data[v].updatable) {
        const hyp_node *node = &u->g->nodes.data[u->g->values.data[v].producer];
        uint32_t i = 0;
        while (node->inputs[i] == HYP_NO_VALUE || !u->depends[node->inputs[i]]) i++;
        v = node->inputs[i];
    }
    return v;
}

/* ---- plans -------------------------------------------------------------------------------------------- */

/* What is marked, with constants that may be replaced as inputs and the pieces of the set as outputs. */
static hyp_status make_graph(const updates *u, hyp_value_id leader, hyp_value_id *map, hyp_graph *out)
{
    size_t count = 0;
    for (size_t v = 0; v < u->g->values.len; v++) {
        const hyp_value *value = &u->g->values.data[v];
        if (!u->seen[v] || value->kind != HYP_VALUE_CONST) continue;
        HYP_TRY(value->updatable ? hyp_graph_add_input(out, value->name, &value->type, &map[v], u->diag)
                                 : hyp_graph_copy_const(out, value, &map[v], u->diag));
    }
    for (size_t n = 0; n < u->g->nodes.len; n++) {
        const hyp_node *node = &u->g->nodes.data[n];
        bool needed = false;
        for (uint32_t o = 0; o < node->output_count; o++) needed = needed || u->seen[node->outputs[o]];
        if (needed) HYP_TRY(hyp_graph_copy_node(out, u->g, node, map, u->diag));
    }
    for (size_t i = 0; i < u->pieces.len; i++) {
        const piece *p = &u->pieces.data[i];
        char name[32];
        if (leader_of(u, constant_of(u, p->value)) != leader) continue;
        snprintf(name, sizeof name, "=> %zu", count++);
        HYP_TRY(hyp_graph_add_output(out, name, map[p->value], u->diag));
    }
    return hyp_graph_verify(out, u->diag);
}

static hyp_status read_file(const char *path, hyp_arena *arena, ProtobufCBinaryData *out, hyp_diag *diag)
{
    hyp_mapping map;
    HYP_TRY(hyp_map_file(path, &map, diag));
    out->data = hyp_arena_alloc(arena, map.size);
    out->len = map.size;
    if (out->data) memcpy(out->data, map.data, map.size);
    hyp_unmap(&map);
    return out->data ? HYP_OK : hyp_fail_memory(diag, out->len);
}

/* The plan of a graph, as its file would be. */
static hyp_status make_plan(const updates *u, const hyp_graph *graph, ProtobufCBinaryData *out)
{
    const hyp_codegen_options options = {.target = u->options->target, .producer = u->options->producer};
    char path[HYP_MEMORY_PATH];
    hyp_lowered lowered;
    HYP_TRY(hyp_codegen_lower(graph, &options, &lowered, u->diag));
    int file = hyp_memory_file("", 0, path);
    hyp_status status = file >= 0 ? hyp_codegen_write(&lowered, path, NULL, NULL, NULL, u->diag)
                                  : hyp_fail(u->diag, HYP_ERR_IO, "there can be no file in memory");
    if (status == HYP_OK) status = read_file(path, &u->lowered->arena, out, u->diag);
    if (file >= 0) close(file);
    hyp_lowered_dispose(&lowered);
    return status;
}

static hyp_status list_pieces(const updates *u, hyp_value_id leader, HypPlan__Update *out)
{
    size_t most = u->pieces.len;
    HypPlan__Update__Piece *memory = hyp_arena_zalloc(&u->lowered->arena, most, sizeof *memory);
    out->pieces = hyp_arena_zalloc(&u->lowered->arena, most, sizeof(HypPlan__Update__Piece *));
    if (!memory || !out->pieces) return hyp_fail_memory(u->diag, most * sizeof *memory);
    for (size_t i = 0; i < most; i++) {
        const piece *p = &u->pieces.data[i];
        if (leader_of(u, constant_of(u, p->value)) != leader) continue;
        HypPlan__Update__Piece *to = &memory[out->n_pieces];
        hyp_plan__update__piece__init(to);
        to->tensor = p->tensor;
        to->offset = p->offset;
        out->pieces[out->n_pieces++] = to;
    }
    return HYP_OK;
}

static hyp_status make_update(updates *u, hyp_value_id leader, HypPlan__Update *out)
{
    hyp_graph graph;
    hyp_value_id *map = hyp_calloc(u->g->values.len, sizeof *map);
    if (!map) return hyp_fail_memory(u->diag, u->g->values.len * sizeof *map);
    memset(u->seen, 0, u->g->values.len * sizeof *u->seen);
    for (size_t i = 0; i < u->pieces.len; i++)
        if (leader_of(u, constant_of(u, u->pieces.data[i].value)) == leader) mark(u, u->pieces.data[i].value, u->seen);
    hyp_graph_init(&graph, u->g->dims);
    hyp_plan__update__init(out);
    hyp_status status = make_graph(u, leader, map, &graph);
    if (status == HYP_OK) status = make_plan(u, &graph, &out->plan);
    if (status == HYP_OK) status = list_pieces(u, leader, out);
    if (status != HYP_OK) hyp_diag_prefix(u->diag, "replacing '%s'", u->g->values.data[leader].name);
    hyp_graph_dispose(&graph);
    hyp_free(map);
    return status;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

static hyp_status add_updates(updates *u)
{
    HypPlan__Program *p = u->lowered->program;
    find_dependent(u);
    for (size_t v = 0; v < u->g->values.len; v++) u->leader[v] = (hyp_value_id)v;
    for (uint32_t t = 0; t < p->n_tensors; t++)
        if (u->lowered->folds[t] != HYP_NO_VALUE && p->tensors[t]->bytes > 0)
            HYP_TRY(add_pieces(u, t, 0, u->lowered->folds[t]));
    for (size_t i = 0; i < u->pieces.len; i++) join(u, &u->pieces.data[i]);
    p->updates = hyp_arena_zalloc(&u->lowered->arena, u->pieces.len, sizeof *p->updates);
    HypPlan__Update *memory = hyp_arena_zalloc(&u->lowered->arena, u->pieces.len, sizeof *memory);
    if (!p->updates || !memory) return hyp_fail_memory(u->diag, u->pieces.len * sizeof *memory);
    for (size_t i = 0; i < u->pieces.len; i++) {
        hyp_value_id leader = leader_of(u, constant_of(u, u->pieces.data[i].value));
        bool made = false; /* for an earlier piece of its set */
        for (size_t k = 0; k < i && !made; k++) made = leader_of(u, constant_of(u, u->pieces.data[k].value)) == leader;
        if (made) continue;
        HYP_TRY(make_update(u, leader, &memory[p->n_updates]));
        p->updates[p->n_updates] = &memory[p->n_updates];
        p->n_updates++;
    }
    return hyp_plan_validate(p, u->diag);
}

hyp_status hyp_codegen_add_updates(hyp_lowered *lowered, const hyp_codegen_options *options, hyp_diag *diag)
{
    size_t count = lowered->graph->values.len + 1;
    updates u = {.lowered = lowered, .g = lowered->graph, .options = options, .diag = diag};
    u.depends = hyp_calloc(2 * count, sizeof *u.depends);
    u.leader = hyp_calloc(count, sizeof *u.leader);
    u.seen = u.depends ? u.depends + count : NULL;
    hyp_status status = u.depends && u.leader ? add_updates(&u) : hyp_fail_memory(diag, count * sizeof *u.leader);
    hyp_free(u.depends);
    hyp_free(u.leader);
    hyp_vec_free(&u.pieces);
    return status;
}
