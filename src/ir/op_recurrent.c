/* Recurrences in one direction: types. */
#include "ir/op.h"

/* Input i is absent or of the type of x and this shape. */
static hyp_status check_input(const hyp_infer_call *c, uint32_t i, int32_t rank, const hyp_dim *dims)
{
    const hyp_infer_value *v = hyp_infer_input(c, i);
    if (!v) return HYP_OK;
    bool fits = v->type.rank == rank && v->type.dtype == c->in[0]->type.dtype;
    for (int32_t a = 0; a < rank && fits; a++) fits = hyp_check_equal(c, v->type.dims[a], dims[a]);
    if (fits) return HYP_OK;
    hyp_type want = {.dtype = c->in[0]->type.dtype, .rank = rank};
    for (int32_t a = 0; a < rank; a++) want.dims[a] = dims[a];
    return hyp_infer_fail(c, "input %u is %s, %s is wanted", i, hyp_infer_type_text(c, &v->type),
                          hyp_infer_type_text(c, &want));
}

/* Inputs x and r, from `lengths_at` on lengths and states; the last `acts` of the attributes from 2 on are activations.
 */
static hyp_status infer(const hyp_infer_call *c, int64_t gates, uint32_t lengths_at, uint32_t acts)
{
    static const char *const known[] = {"sigmoid", "tanh", "relu", NULL};
    if (!c->in[0] || !c->in[1]) return hyp_infer_fail(c, "x or r is absent");
    const hyp_type *x = &c->in[0]->type, *r = &c->in[1]->type;
    const hyp_infer_value *lengths = hyp_infer_input(c, lengths_at);
    if (x->rank != 3 || r->rank != 2 || !hyp_dtype_is_float(x->dtype) || !hyp_dim_is_const(r->dims[0]))
        return hyp_infer_fail(c, "%s and %s, floats [time batch n] and [size n] are wanted", hyp_infer_type_text(c, x),
                              hyp_infer_type_text(c, r));
    hyp_dim columns, state[] = {x->dims[1], r->dims[0]};
    HYP_TRY(hyp_dim_mul(c->dims, state[1], gates, &columns, c->diag));
    HYP_TRY(check_input(c, 0, 3, (hyp_dim[]){x->dims[0], x->dims[1], columns}));
    HYP_TRY(check_input(c, 1, 2, (hyp_dim[]){state[1], columns}));
    HYP_TRY(check_input(c, lengths_at + 1, 2, state));
    if (c->out_count > 2) HYP_TRY(check_input(c, lengths_at + 2, 2, state));
    HYP_TRY(hyp_check_index_type(c, lengths_at));
    if (lengths && (lengths->type.rank != 1 || !hyp_check_equal(c, lengths->type.dims[0], x->dims[1])))
        return hyp_infer_fail(c, "the lengths are %s, one for every sequence is wanted",
                              hyp_infer_type_text(c, &lengths->type));
    for (uint32_t i = 0; i < acts; i++) HYP_TRY(hyp_check_sym(c, 2 + i, known));
    c->out[0].type = (hyp_type){.dtype = x->dtype, .rank = 3, .dims = {x->dims[0], state[0], state[1]}};
    for (uint32_t i = 1; i < c->out_count; i++)
        c->out[i].type = (hyp_type){.dtype = x->dtype, .rank = 2, .dims = {state[0], state[1]}};
    if (c->out_count > 3) c->out[3].type = c->out[0].type; /* all cells */
    return HYP_OK;
}

hyp_status hyp_infer_rnn(const hyp_infer_call *c) { return infer(c, 1, 2, 1); }

hyp_status hyp_infer_gru(const hyp_infer_call *c)
{
    HYP_TRY(infer(c, 3, 3, 2));
    return check_input(c, 2, 1, &c->in[1]->type.dims[0]);
}

hyp_status hyp_infer_lstm(const hyp_infer_call *c)
{
    hyp_dim three;
    HYP_TRY(infer(c, 4, 2, 3));
    HYP_TRY(hyp_dim_mul(c->dims, c->in[1]->type.dims[0], 3, &three, c->diag));
    return check_input(c, 5, 1, &three);
}

/* Slopes n, and those of the inputs from `slopes` on, r, lengths, g and the states between. */
static hyp_status infer_gradient(const hyp_infer_call *c, int64_t gates, uint32_t slopes, uint32_t count)
{
    if (!c->in[0] || !c->in[1]) return hyp_infer_fail(c, "n or r is absent");
    const hyp_type *n = &c->in[0]->type, *r = &c->in[1]->type;
    const hyp_infer_value *lengths = hyp_infer_input(c, 2);
    if (n->rank != 3 || r->rank != 2 || !hyp_dtype_is_float(n->dtype) || !hyp_dim_is_const(r->dims[0]))
        return hyp_infer_fail(c, "%s and %s, floats [time batch size] and [size n] are wanted", hyp_infer_type_text(c, n),
                              hyp_infer_type_text(c, r));
    hyp_dim columns, all[] = {n->dims[0], n->dims[1], r->dims[0]};
    HYP_TRY(hyp_dim_mul(c->dims, all[2], gates, &columns, c->diag));
    HYP_TRY(check_input(c, 0, 3, all));
    HYP_TRY(check_input(c, 1, 2, (hyp_dim[]){all[2], columns}));
    HYP_TRY(check_input(c, 3, 3, all));
    for (uint32_t i = 4; i < 4 + c->out_count - 1; i++) HYP_TRY(check_input(c, i, 2, all + 1));
    for (uint32_t i = slopes; i < slopes + count; i++) HYP_TRY(check_input(c, i, 3, all));
    HYP_TRY(hyp_check_index_type(c, 2));
    if (lengths && (lengths->type.rank != 1 || !hyp_check_equal(c, lengths->type.dims[0], all[1])))
        return hyp_infer_fail(c, "the lengths are %s, one for every sequence is wanted",
                              hyp_infer_type_text(c, &lengths->type));
    c->out[0].type = (hyp_type){.dtype = n->dtype, .rank = 3, .dims = {all[0], all[1], columns}};
    for (uint32_t i = 1; i < c->out_count; i++)
        c->out[i].type = (hyp_type){.dtype = n->dtype, .rank = 2, .dims = {all[1], all[2]}};
    return HYP_OK;
}

hyp_status hyp_infer_lstm_gradient(const hyp_infer_call *c) { return infer_gradient(c, 4, 6, 5); }
hyp_status hyp_infer_gru_gradient(const hyp_infer_call *c) { return infer_gradient(c, 3, 5, 4); }
hyp_status hyp_infer_rnn_gradient(const hyp_infer_call *c) { return infer_gradient(c, 1, 5, 0); }
