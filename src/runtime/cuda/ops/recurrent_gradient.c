/* recurrent_gradient.c - gradients of LSTM, GRU and RNN: for every time a kernel of ours for the gates, and behind it a
 * product of their gradients with r by cuBLASLt.
 *
 * What goes from time to time lies in the session's room, as what is multiplied does: states and sums in f32 or f64,
 * the operand in the type of x. A GRU whose reset gate takes the state has two products, as the gradient of that gate
 * comes from the first.
 */
#include "kernels/recurrent.h"

#include "base/dtype.h"
#include "runtime/cuda/ops/recurrent.h"
#include "runtime/cuda/session/backend.h"

hyp_cuda_call_fn hyp_cuda_add_recurrence_gradient;

typedef struct gradient {
    hyp_cuda_recurrence_back args;
    hyp_cuda_grid grid;
    uint32_t in_plus1[HYP_SLOPES], d, first_h, first_c_plus1;
    bool reverse;
    size_t c_at, sums_at, reset_at, operand_at; /* in the room, where h is first */
    hyp_cuda_recur_products products;
} gradient;

static void gradient_dispose(const hyp_cuda_library *lib, void *data)
{
    hyp_cuda_recur_products_dispose(lib, &((gradient *)data)->products);
}

/* ---- running ----------------------------------------------------------------------------------------------- */

static void set_addresses(const hyp_cuda_session *s, gradient *p)
{
    hyp_cuda_recurrence_back *a = &p->args;
    bool lstm = a->gates == 4;
    a->slope[HYP_SLOPE_N] = hyp_cuda_address(s, p->in_plus1[HYP_SLOPE_N]);
    for (uint32_t i = lstm ? HYP_SLOPE_LSTM_I : HYP_SLOPE_GRU_U; i < HYP_SLOPES; i++)
        a->slope[i] = hyp_cuda_address(s, p->in_plus1[i]);
    a->lengths = hyp_cuda_address(s, p->in_plus1[2]);
    a->g = hyp_cuda_address(s, p->in_plus1[3]);
    a->last_h = hyp_cuda_address(s, p->in_plus1[4]);
    a->last_c = lstm ? hyp_cuda_address(s, p->in_plus1[5]) : 0;
    a->d = s->at[p->d];
    a->first_h = s->at[p->first_h];
    a->first_c = hyp_cuda_address(s, p->first_c_plus1);
    a->h = s->room;
    a->c = lstm ? s->room + p->c_at : 0;
    a->sums = s->room + p->sums_at;
    a->reset = s->room + p->reset_at;
    a->operand = s->room + p->operand_at;
    a->error = s->error_at;
}

static hyp_status launch(hyp_cuda_session *s, gradient *p, uint32_t part, hyp_diag *diag)
{
    p->args.part = part;
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

static hyp_status gradient_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    gradient *p = data;
    hyp_cuda_recurrence_back *a = &p->args;
    set_addresses(s, p);
    HYP_TRY(launch(s, p, HYP_CUDA_BACK_BEGIN, diag));
    for (int64_t i = 0; i < a->times; i++) {
        a->time = p->reverse ? i : a->times - 1 - i;
        HYP_TRY(launch(s, p, HYP_CUDA_BACK_TIME, diag));
        for (uint32_t k = 0; k < p->products.count; k++) {
            HYP_TRY(p->products.op[k].run(s, p->products.op[k].data, diag));
            if (k + 1 < p->products.count) HYP_TRY(launch(s, p, HYP_CUDA_BACK_RESET, diag));
        }
    }
    return launch(s, p, HYP_CUDA_BACK_END, diag);
}

/* ---- preparing --------------------------------------------------------------------------------------------- */

static hyp_status take_room(hyp_cuda_build *b, gradient *p, const hyp_recurrence_gradient *k)
{
    size_t narrow = hyp_dtype_size(k->slope[HYP_SLOPE_N]->dtype);
    size_t wide = narrow == sizeof(double) ? sizeof(double) : sizeof(float), states, all, end = 0, h_at;
    if (!hyp_mul_size((size_t)k->batch, (size_t)k->size, &states) || !hyp_mul_size(states, (size_t)k->gates, &all) ||
        !hyp_cuda_take_room(states, wide, &end, &h_at) || !hyp_cuda_take_room(states, wide, &end, &p->c_at) ||
        !hyp_cuda_take_room(states, wide, &end, &p->sums_at) || !hyp_cuda_take_room(states, wide, &end, &p->reset_at) ||
        !hyp_cuda_take_room(all, narrow, &end, &p->operand_at))
        return hyp_fail(b->diag, HYP_ERR_LIMIT, "the device memory that these shapes need is beyond any size");
    return hyp_cuda_want_room(b, end);
}

/* Adds the product of `gates` gates of the operand from one on with the same columns of r, which goes to `to` in the
 * room. */
static hyp_status add_product(hyp_cuda_build *b, gradient *p, const hyp_recurrence_gradient *k, int64_t first_gate,
                              int64_t gates, size_t to)
{
    hyp_cuda_product product;
    hyp_dtype dtype = k->slope[HYP_SLOPE_N]->dtype;
    size_t first = (size_t)(first_gate * k->size) * hyp_dtype_size(dtype);
    hyp_cuda_product_linear(dtype, hyp_cuda_is_tf32(b->program), k->batch, k->size, gates * k->size, false, &product);
    product.lda = product.ldb = k->gates * k->size;
    if (dtype != HYP_F64) product.result = CUDA_R_32F;
    const hyp_cuda_operand r = {.tensor = p->in_plus1[1] - 1, .offset = first};
    const hyp_cuda_operand x = {.in = HYP_CUDA_IN_ROOM, .offset = p->operand_at + first};
    const hyp_cuda_operand y = {.in = HYP_CUDA_IN_ROOM, .offset = to};
    return hyp_cuda_add_recur_product(b, &product, k->r->count, &r, &x, &y, &p->products);
}

static hyp_status add_products(hyp_cuda_build *b, gradient *p, const hyp_recurrence_gradient *k)
{
    if (k->time == 0) return HYP_OK;
    if (k->cell != HYP_CELL_GRU || k->reset_after) return add_product(b, p, k, 0, k->gates, p->sums_at);
    HYP_TRY(add_product(b, p, k, 2, 1, p->reset_at));
    return add_product(b, p, k, 0, 2, p->sums_at);
}

hyp_status hyp_cuda_add_recurrence_gradient(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_recurrence_gradient asked;
    void *data;
    HYP_TRY(hyp_recurrence_gradient_read(c, &asked));
    if (asked.batch == 0 || asked.size == 0) return HYP_OK;
    hyp_dtype dtype = asked.slope[HYP_SLOPE_N]->dtype;
    HYP_TRY(hyp_cuda_add_op(b, gradient_run, sizeof(gradient), &data));
    b->prepared->ops.data[b->prepared->ops.len - 1].dispose = gradient_dispose;
    gradient *p = data;
    *p = (gradient){.args = {.size = hyp_cuda_extent_of(asked.size),
                             .batch = asked.batch,
                             .times = asked.time,
                             .columns = asked.gates * asked.size,
                             .dtype = dtype,
                             .lengths_dtype = asked.lengths ? asked.lengths->dtype : HYP_DTYPE_NONE,
                             .gates = (uint8_t)asked.gates,
                             .reset_after = asked.reset_after,
                             .step = b->step},
                    .grid = {.kernel = dtype == HYP_F64 ? HYP_CUDA_KERNEL_recurrence_back_f64
                                                        : HYP_CUDA_KERNEL_recurrence_back_f32},
                    .d = k->outputs[0],
                    .first_h = k->outputs[1],
                    .first_c_plus1 = asked.cell == HYP_CELL_LSTM ? k->outputs[2] + 1 : 0,
                    .reverse = asked.reverse};
    for (uint32_t i = 0; i < HYP_SLOPES; i++) p->in_plus1[i] = hyp_plan_call_input(k, i);
    HYP_TRY(take_room(b, p, &asked));
    HYP_TRY(add_products(b, p, &asked));
    if (asked.lengths) HYP_TRY(hyp_cuda_need_report(b));
    hyp_cuda_spread(b->session->model->device, asked.batch * asked.size, &p->grid);
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}
