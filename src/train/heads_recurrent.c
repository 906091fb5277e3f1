/* heads_recurrent.c - heads of gradients of lstm, gru and rnn.
 *
 * Back in time goes an operator of its own (lstm-gradient and its like), which is linear: what it multiplies with are
 * the slopes of the cell at each time. These are made here, for all times at once: the cell is written out in
 * operators, from the states before each time, which the recurrence has given, and differentiated like anything else.
 * So nothing of the forward pass is kept but its results. Slopes are computed in 32 bits at least.
 */
#include <string.h>

#include "train/form.h"
#include "train/gradient.h"

enum { MOST_INPUTS = 11 /* of an operator that goes back in time */ };

/* A recurrence: the node of the scope. */
typedef struct recurrent {
    hyp_scope *s;
    hyp_builder *b;
    hyp_value_id x, r, lengths;
    bool reverse, option; /* coupled, or reset-after */
    double clip;
    const char *act[3];
    hyp_dtype wide;
    hyp_dim size; /* of the state */
} recurrent;

static hyp_value_id input(const hyp_scope *s, uint32_t i)
{
    return i < s->node.input_count ? s->node.inputs[i] : HYP_NO_VALUE;
}

static bool is_lstm(const hyp_scope *s) { return s->node.op == HYP_OP_lstm || s->node.op == HYP_OP_lstm_cells; }
static bool is_gru(const hyp_scope *s) { return s->node.op == HYP_OP_gru; }

static recurrent read_recurrent(hyp_scope *s)
{
    const hyp_attr *a = s->node.attrs;
    recurrent k = {.s = s,
                   .b = s->b,
                   .x = input(s, 0),
                   .r = input(s, 1),
                   .lengths = input(s, is_gru(s) ? 3 : 2),
                   .reverse = a[0].i != 0,
                   .clip = a[1].f,
                   .act = {a[2].sym}};
    if (is_lstm(s) || is_gru(s)) k.act[1] = a[3].sym;
    if (is_lstm(s)) k.act[2] = a[4].sym;
    if (is_lstm(s) || is_gru(s)) k.option = a[is_gru(s) ? 4 : 5].i != 0;
    k.wide = hyp_dtype_wide(hyp_build_type(k.b, k.x).dtype);
    k.size = hyp_build_type(k.b, k.r).dims[0];
    return k;
}

/* ---- terms ------------------------------------------------------------------------------------------ */

static hyp_value_id binary(const recurrent *k, hyp_op op, hyp_value_id x, hyp_value_id y)
{
    return hyp_build_node(k->b, op, NULL, x, y);
}

static hyp_value_id wide(const recurrent *k, hyp_value_id v)
{
    return v == HYP_NO_VALUE ? v : hyp_build_cast(k->b, v, k->wide);
}

/* `count` gates along the last axis from gate `first` on. */
static hyp_value_id gates(const recurrent *k, hyp_value_id v, int64_t first, int64_t count)
{
    hyp_type t = hyp_build_type(k->b, v);
    hyp_dim starts[HYP_MAX_RANK] = {0};
    if (t.rank < 1) return HYP_NO_VALUE; /* nothing is built any more */
    starts[t.rank - 1] = hyp_build_mul(k->b, k->size, first);
    t.dims[t.rank - 1] = hyp_build_mul(k->b, k->size, count);
    return hyp_build_slice(k->b, v, starts, t.dims);
}

static hyp_value_id join(const recurrent *k, const hyp_value_id *parts, uint32_t count, int64_t along)
{
    const hyp_attr axis = hyp_attr_of_int(along);
    return hyp_build_output(k->b, HYP_OP_concat, &axis, parts, count, 1, 0);
}

/* Activation `which` of v, clipped where the recurrence clips. */
static hyp_value_id activate(const recurrent *k, int which, hyp_value_id v, bool clips)
{
    const hyp_attr bounds[] = {hyp_attr_of_float(-k->clip), hyp_attr_of_float(k->clip)};
    hyp_op op;
    if (clips && k->clip > 0) v = hyp_build_node(k->b, HYP_OP_clip, bounds, v);
    if (hyp_op_find(k->act[which], &op)) return hyp_build_node(k->b, op, NULL, v);
    hyp_build_note(k->b, hyp_fail(k->b->diag, HYP_ERR_INTERNAL, "no activation '%s'", k->act[which]));
    return HYP_NO_VALUE;
}

/* The slopes of `y`, which is made of these values element by element. HYP_NO_VALUE where it does not depend on one. */
static void slopes(const recurrent *k, hyp_value_id y, const hyp_value_id *by, size_t count, hyp_value_id *out)
{
    hyp_type type = hyp_build_type(k->b, y);
    hyp_value_id one = hyp_build_full(k->b, &type, 1);
    for (size_t i = 0; i < count; i++) out[i] = HYP_NO_VALUE;
    if (hyp_build_ok(k->b)) hyp_build_note(k->b, hyp_gradient_from(k->b->g, y, one, by, count, out, k->b->diag));
}

/* ---- states ----------------------------------------------------------------------------------------- */

/* (states-before y h): the state before each time, which is h before the first one. */
hyp_value_id hyp_head_states_before(hyp_scope *s, const hyp_value_id *args)
{
    recurrent k = read_recurrent(s);
    hyp_builder *b = s->b;
    hyp_value_id y = args[0], first = args[1], all;
    hyp_type t = hyp_build_type(b, y);
    hyp_dim starts[HYP_MAX_RANK] = {k.reverse ? 1 : 0};
    if (first == HYP_NO_VALUE) {
        all = hyp_build_pad(b, y, 0, !k.reverse, k.reverse);
        return hyp_build_slice(b, all, starts, t.dims);
    }
    first = hyp_build_reshape(b, first, 3, (hyp_dim[]){1, t.dims[1], t.dims[2]});
    all = join(&k, k.reverse ? (hyp_value_id[]){y, first} : (hyp_value_id[]){first, y}, 2, 0);
    all = hyp_build_slice(b, all, starts, t.dims);
    if (!k.reverse || k.lengths == HYP_NO_VALUE) return all;
    /* Backward each sequence begins at its own end. */
    hyp_value_id one = hyp_build_scalar(b, hyp_build_type(b, k.lengths).dtype, 1);
    const hyp_attr size = hyp_attr_of_dims(t.dims, 1);
    hyp_value_id ends = hyp_build_node(b, HYP_OP_range, &size, one, one);
    ends = hyp_build_reshape(b, ends, 3, (hyp_dim[]){t.dims[0], 1, 1});
    hyp_value_id lengths = hyp_build_reshape(b, k.lengths, 3, (hyp_dim[]){1, t.dims[1], 1});
    return hyp_build_node(b, HYP_OP_where, NULL, binary(&k, HYP_OP_equal, ends, lengths), first, all);
}

/* (lstm-cells): the cells of all times; of an lstm, which does not give them, by another one that does. */
hyp_value_id hyp_head_lstm_cells(hyp_scope *s, const hyp_value_id *args)
{
    const hyp_node *n = &s->node;
    (void)args;
    if (n->op == HYP_OP_lstm_cells) return n->outputs[3];
    return hyp_build_output(s->b, HYP_OP_lstm_cells, n->attrs, n->inputs, n->input_count, 4, 3);
}

/* ---- back in time ----------------------------------------------------------------------------------- */

/* The place of an input whose name has one letter: the operator's row lists them, "(n r lengths g h): ...". */
static uint32_t place(hyp_op op, char name)
{
    uint32_t at = 0;
    for (const char *c = hyp_op_get(op)->doc; *c && *c != ')'; c++) {
        at += *c == ' ';
        if (c[1] == name && (*c == ' ' || *c == '(') && (c[2] == ' ' || c[2] == ')')) break;
    }
    return at < MOST_INPUTS ? at : MOST_INPUTS - 1;
}

/* The operator with what all of them read, and the slopes of these names, in the type of x; HYP_NO_VALUE: 0. */
static hyp_value_id back(const recurrent *k, hyp_op op, const char *names, const hyp_value_id *found, uint32_t outputs)
{
    static const char *const states[] = {"g1", "g2"}; /* the gradients of the last state and cell */
    hyp_value_id in[MOST_INPUTS];
    const hyp_attr attrs[] = {hyp_attr_of_int(k->reverse), hyp_attr_of_int(k->option)};
    hyp_dtype dtype = hyp_build_type(k->b, k->x).dtype;
    uint32_t count = MOST_INPUTS;
    memset(in, 0xff, sizeof in); /* HYP_NO_VALUE */
    for (size_t i = 0; names[i]; i++)
        if (found[i] != HYP_NO_VALUE) in[place(op, names[i])] = hyp_build_cast(k->b, found[i], dtype);
    in[1] = k->r;
    in[2] = k->lengths;
    in[3] = hyp_scope_find(k->s, "g0");
    for (uint32_t i = 0; i + 1 < outputs; i++) in[4 + i] = hyp_scope_find(k->s, states[i]);
    while (count > 2 && in[count - 1] == HYP_NO_VALUE) count--;
    return hyp_build_output(k->b, op, attrs, in, count, outputs, 0);
}

static hyp_value_id lstm_back(const recurrent *k, hyp_value_id z, hyp_value_id cells)
{
    enum { IN, OUT, FORGET, NEW };
    hyp_value_id sum[4], peephole = wide(k, input(k->s, 5));
    hyp_value_id before = wide(k, hyp_head_states_before(k->s, (hyp_value_id[]){cells, input(k->s, 4)})),
                 c = wide(k, cells);
    hyp_value_id by[] = {gates(k, z, IN, 1), gates(k, z, FORGET, 1), gates(k, z, NEW, 1), before};
    hyp_value_id of_state[] = {gates(k, z, OUT, 1), c}, found[6];
    sum[IN] = by[0], sum[FORGET] = by[1], sum[NEW] = by[2], sum[OUT] = of_state[0];
    for (int i = IN; i <= FORGET && peephole != HYP_NO_VALUE; i++)
        sum[i] = binary(k, HYP_OP_add, sum[i], binary(k, HYP_OP_mul, gates(k, peephole, i, 1), i == OUT ? c : before));
    hyp_value_id taken = activate(k, 0, sum[IN], true);
    hyp_value_id kept = k->option ? binary(k, HYP_OP_sub, hyp_build_scalar(k->b, k->wide, 1), taken)
                                  : activate(k, 0, sum[FORGET], true);
    slopes(k,
           binary(k, HYP_OP_add, binary(k, HYP_OP_mul, kept, before),
                  binary(k, HYP_OP_mul, taken, activate(k, 1, sum[NEW], true))),
           by, 4, found);
    slopes(k, binary(k, HYP_OP_mul, activate(k, 0, sum[OUT], true), activate(k, 2, c, false)), of_state, 2, found + 4);
    return back(k, HYP_OP_lstm_gradient, "ifnkoa", found, 3);
}

/* x: what the input says, z: with the product of the states added to it. */
static hyp_value_id gru_back(const recurrent *k, hyp_value_id x, hyp_value_id product, hyp_value_id before)
{
    enum { UPDATE, RESET, NEW };
    hyp_builder *b = k->b;
    hyp_value_id found[5], bias = wide(k, input(k->s, 2)), inner;
    hyp_value_id update = binary(k, HYP_OP_add, gates(k, x, UPDATE, 1), gates(k, product, UPDATE, 1));
    hyp_value_id reset = binary(k, HYP_OP_add, gates(k, x, RESET, 1), gates(k, product, RESET, 1));
    hyp_value_id state = hyp_build_node(b, HYP_OP_identity, NULL, wide(k, before)); /* apart from what products read */
    hyp_value_id taken = activate(k, 0, reset, true), u = activate(k, 0, update, true);
    if (k->option) {
        inner = gates(k, product, NEW, 1);
        if (bias != HYP_NO_VALUE) inner = binary(k, HYP_OP_add, inner, bias);
        inner = binary(k, HYP_OP_mul, taken, inner);
    } else {
        hyp_value_id left = binary(k, HYP_OP_mul, taken, wide(k, before));
        slopes(k, left, &reset, 1, &found[3]);
        left = hyp_build_cast(b, left, hyp_build_type(b, k->x).dtype);
        inner = wide(k, hyp_build_node(b, HYP_OP_matmul, NULL, left, gates(k, k->r, NEW, 1)));
        if (bias != HYP_NO_VALUE) inner = binary(k, HYP_OP_add, inner, bias);
    }
    hyp_value_id candidate = binary(k, HYP_OP_add, gates(k, x, NEW, 1), inner);
    const hyp_value_id by[] = {update, candidate, state, reset};
    hyp_value_id rest = binary(k, HYP_OP_sub, hyp_build_scalar(b, k->wide, 1), u);
    slopes(k,
           binary(k, HYP_OP_add, binary(k, HYP_OP_mul, rest, activate(k, 1, candidate, true)),
                  binary(k, HYP_OP_mul, u, state)),
           by, k->option ? 4 : 3, found);
    found[4] = taken;
    return back(k, HYP_OP_gru_gradient, "unksm", found, 2);
}

/* (recurrent-back before cells): the gradient of x, by the operator that goes back in time. */
hyp_value_id hyp_head_recurrent_back(hyp_scope *s, const hyp_value_id *args)
{
    recurrent k = read_recurrent(s);
    hyp_value_id x = wide(&k, k.x), found;
    hyp_value_id product = wide(&k, hyp_build_node(s->b, HYP_OP_matmul, NULL, args[0], k.r));
    if (is_gru(s)) return gru_back(&k, x, product, args[0]);
    hyp_value_id z = binary(&k, HYP_OP_add, x, product);
    if (is_lstm(s)) return lstm_back(&k, z, args[1]);
    slopes(&k, activate(&k, 0, z, true), &z, 1, &found);
    return back(&k, HYP_OP_rnn_gradient, "n", &found, 2);
}

/* ---- by the other inputs ---------------------------------------------------------------------------- */

/* The node that has made d. Its list of outputs moves when nodes are added. */
static const hyp_node *maker(const hyp_scope *s, hyp_value_id d)
{
    return &s->b->g->nodes.data[s->b->g->values.data[d].producer];
}

/* (recurrent-first d), (recurrent-first-cell d) */
hyp_value_id hyp_head_recurrent_first(hyp_scope *s, const hyp_value_id *args) { return maker(s, args[0])->outputs[1]; }
hyp_value_id hyp_head_recurrent_first_cell(hyp_scope *s, const hyp_value_id *args)
{
    return maker(s, args[0])->outputs[2];
}

/* The reset gate of a GRU, which the operator reads as m. */
static hyp_value_id reset_of(const hyp_scope *s, hyp_value_id d)
{
    return maker(s, d)->inputs[place(HYP_OP_gru_gradient, 'm')];
}

/* The gradient of the candidate of a GRU, as its product with the state has it where the reset gate comes after. */
static hyp_value_id of_candidate(const recurrent *k, hyp_value_id d)
{
    hyp_value_id reset = reset_of(k->s, d), last = gates(k, d, 2, 1);
    return k->option ? binary(k, HYP_OP_mul, reset, last) : last;
}

static hyp_value_id over_all_times(const recurrent *k, hyp_value_id states, hyp_value_id d)
{
    const hyp_attr attrs[] = {hyp_attr_of_int(1), hyp_attr_of_int(0), hyp_attr_of_float(1)};
    return hyp_build_node(k->b, HYP_OP_matmul, attrs, hyp_head_rows(k->s, &states), hyp_head_rows(k->s, &d));
}

/* (recurrent-weights before d): by r. */
hyp_value_id hyp_head_recurrent_weights(hyp_scope *s, const hyp_value_id *args)
{
    recurrent k = read_recurrent(s);
    hyp_value_id before = args[0], d = args[1];
    if (!is_gru(s)) return over_all_times(&k, before, d);
    hyp_value_id first = gates(&k, d, 0, 2), last = of_candidate(&k, d);
    if (k.option) return over_all_times(&k, before, join(&k, (hyp_value_id[]){first, last}, 2, 2));
    hyp_value_id left = binary(&k, HYP_OP_mul, reset_of(s, d), before);
    return join(&k, (hyp_value_id[]){over_all_times(&k, before, first), over_all_times(&k, left, last)}, 2, 1);
}

/* (recurrent-bias d): by the bias of a GRU's candidate, for each time. */
hyp_value_id hyp_head_recurrent_bias(hyp_scope *s, const hyp_value_id *args)
{
    recurrent k = read_recurrent(s);
    return of_candidate(&k, args[0]);
}

/* (recurrent-peepholes d cells): for each time. */
hyp_value_id hyp_head_recurrent_peepholes(hyp_scope *s, const hyp_value_id *args)
{
    recurrent k = read_recurrent(s);
    hyp_value_id d = args[0], cells = args[1], parts[3];
    hyp_value_id before = hyp_head_states_before(s, (hyp_value_id[]){cells, input(s, 4)});
    for (int i = 0; i < 3; i++) parts[i] = binary(&k, HYP_OP_mul, gates(&k, d, i, 1), i == 1 ? cells : before);
    return join(&k, parts, 3, 2);
}
