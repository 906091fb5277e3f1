/* recurrent.c - LSTM, GRU and RNN: for every time a product of the state by cuBLASLt, and a kernel of ours for the
 * gates.
 *
 * The state lies in the session's room, h in the type of x, as the product takes it, sums and c in f32 or f64. A GRU
 * whose reset gate takes the state has two products: that of the candidate comes when the reset gate is there.
 */
#include "kernels/recurrent.h"

#include "base/dtype.h"
#include "runtime/cuda/ops/recurrent.h"
#include "runtime/cuda/session/backend.h"

hyp_cuda_call_fn hyp_cuda_add_recurrence;

typedef struct recurrent {
    hyp_cuda_recurrence args;
    hyp_cuda_grid grid;
    uint32_t x, y, last_h, last_c_plus1, cells_plus1;
    uint32_t lengths_plus1, first_h_plus1, first_c_plus1, bias_plus1, peepholes_plus1;
    size_t c_at, sums_at, reset_at; /* in the room, where h is first */
    hyp_cuda_recur_products products;
} recurrent;

static void recurrent_dispose(const hyp_cuda_library *lib, void *data)
{
    hyp_cuda_recur_products_dispose(lib, &((recurrent *)data)->products);
}

/* ---- running ----------------------------------------------------------------------------------------------- */

static void set_addresses(const hyp_cuda_session *s, recurrent *p)
{
    hyp_cuda_recurrence *a = &p->args;
    a->x = s->at[p->x];
    a->y = s->at[p->y];
    a->lengths = hyp_cuda_address(s, p->lengths_plus1);
    a->first_h = hyp_cuda_address(s, p->first_h_plus1);
    a->first_c = hyp_cuda_address(s, p->first_c_plus1);
    a->cells = hyp_cuda_address(s, p->cells_plus1);
    a->bias = hyp_cuda_address(s, p->bias_plus1);
    a->peepholes = hyp_cuda_address(s, p->peepholes_plus1);
    a->h = s->room;
    a->c = p->last_c_plus1 ? s->room + p->c_at : 0;
    a->sums = s->room + p->sums_at;
    a->reset = s->room + p->reset_at;
    a->error = s->error_at;
}

/* The last launch leaves the last states, too. */
static hyp_status launch(hyp_cuda_session *s, recurrent *p, uint32_t part, bool last, hyp_diag *diag)
{
    p->args.part = part;
    p->args.last_h = last ? s->at[p->last_h] : 0;
    p->args.last_c = last ? hyp_cuda_address(s, p->last_c_plus1) : 0;
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

static hyp_status recurrent_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    recurrent *p = data;
    hyp_cuda_recurrence *a = &p->args;
    set_addresses(s, p);
    a->time = 0;
    HYP_TRY(launch(s, p, HYP_CUDA_RECUR_BEGIN, a->times == 0, diag));
    for (; a->time < a->times; a->time++) {
        for (uint32_t i = 0; i < p->products.count; i++) {
            if (i > 0) HYP_TRY(launch(s, p, HYP_CUDA_RECUR_RESET, false, diag));
            HYP_TRY(p->products.op[i].run(s, p->products.op[i].data, diag));
        }
        HYP_TRY(launch(s, p, HYP_CUDA_RECUR_GATES, a->time + 1 == a->times, diag));
    }
    return HYP_OK;
}

/* ---- preparing --------------------------------------------------------------------------------------------- */

static hyp_status take_room(hyp_cuda_build *b, recurrent *p, const hyp_recurrence *k)
{
    size_t narrow = hyp_dtype_size(k->x->dtype), wide = narrow == sizeof(double) ? sizeof(double) : sizeof(float);
    size_t states, sums, end = 0, h_at;
    if (!hyp_mul_size((size_t)k->batch, (size_t)k->size, &states) || !hyp_mul_size(states, (size_t)k->gates, &sums) ||
        !hyp_cuda_take_room(states, narrow, &end, &h_at) || !hyp_cuda_take_room(states, wide, &end, &p->c_at) ||
        !hyp_cuda_take_room(states, narrow, &end, &p->reset_at) || !hyp_cuda_take_room(sums, wide, &end, &p->sums_at))
        return hyp_fail(b->diag, HYP_ERR_LIMIT, "the device memory that these shapes need is beyond any size");
    return hyp_cuda_want_room(b, end);
}

void hyp_cuda_recur_products_dispose(const hyp_cuda_library *lib, const hyp_cuda_recur_products *products)
{
    for (uint32_t i = 0; i < products->count; i++)
        if (products->op[i].dispose) products->op[i].dispose(lib, products->op[i].data);
}

/* Small products are not to be split, which needs memory: cuBLASLt 13.1 makes 264 parts of [16 x 128 x 128] and takes
 * 51 us for it, 2 without (H200). Larger ones gain up to 16 %. */
hyp_status hyp_cuda_add_recur_product(hyp_cuda_build *b, const hyp_cuda_product *product, int64_t weights,
                                      const hyp_cuda_operand *r, const hyp_cuda_operand *x, const hyp_cuda_operand *y,
                                      hyp_cuda_recur_products *out)
{
    enum { LARGE = 1 << 18 };
    HYP_TRY(hyp_cuda_add_plain(b, product, r, x, y, weights < LARGE ? 0 : b->session->workspace_bytes));
    out->op[out->count++] = b->prepared->ops.data[--b->prepared->ops.len];
    return HYP_OK;
}

/* Adds the product of what lies at `from` in the room with `gates` gates of r from one on, and puts it aside. */
static hyp_status add_product(hyp_cuda_build *b, recurrent *p, const hyp_recurrence *k, uint32_t r, size_t from,
                              int64_t first_gate, int64_t gates)
{
    hyp_cuda_product product;
    hyp_dtype dtype = k->x->dtype;
    size_t first = (size_t)(first_gate * k->size), wide = dtype == HYP_F64 ? sizeof(double) : sizeof(float);
    hyp_cuda_product_linear(dtype, hyp_cuda_is_tf32(b->program), k->batch, gates * k->size, k->size, true, &product);
    product.lda = product.ldd = k->gates * k->size;
    if (dtype != HYP_F64) product.result = CUDA_R_32F;
    const hyp_cuda_operand a = {.tensor = r, .offset = first * hyp_dtype_size(dtype)};
    const hyp_cuda_operand h = {.in = HYP_CUDA_IN_ROOM, .offset = from};
    const hyp_cuda_operand sums = {.in = HYP_CUDA_IN_ROOM, .offset = p->sums_at + first * wide};
    return hyp_cuda_add_recur_product(b, &product, k->r->count, &a, &h, &sums, &p->products);
}

hyp_status hyp_cuda_add_recurrence(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c)
{
    hyp_recurrence asked;
    void *data;
    HYP_TRY(hyp_recurrence_read(c, &asked));
    if (asked.batch == 0 || asked.size == 0) return HYP_OK;
    bool lstm = asked.cell == HYP_CELL_LSTM, gru = asked.cell == HYP_CELL_GRU, two = gru && !asked.reset_after;
    HYP_TRY(hyp_cuda_add_op(b, recurrent_run, sizeof(recurrent), &data));
    b->prepared->ops.data[b->prepared->ops.len - 1].dispose = recurrent_dispose;
    recurrent *p = data;
    *p = (recurrent){.args = {.size = hyp_cuda_extent_of(asked.size),
                              .batch = asked.batch,
                              .times = asked.time,
                              .columns = asked.gates * asked.size,
                              .clip = asked.clip,
                              .dtype = asked.x->dtype,
                              .lengths_dtype = asked.lengths ? asked.lengths->dtype : HYP_DTYPE_NONE,
                              .act = {(uint8_t)asked.f, (uint8_t)asked.g, (uint8_t)asked.h},
                              .gates = (uint8_t)asked.gates,
                              .reverse = asked.reverse,
                              .coupled = asked.coupled,
                              .reset_after = asked.reset_after,
                              .step = b->step},
                     .grid = {.kernel = asked.x->dtype == HYP_F64 ? HYP_CUDA_KERNEL_recurrence_f64
                                                                  : HYP_CUDA_KERNEL_recurrence_f32},
                     .x = hyp_plan_call_input(k, 0) - 1,
                     .y = k->outputs[0],
                     .last_h = k->outputs[1],
                     .last_c_plus1 = lstm ? k->outputs[2] + 1 : 0,
                     .cells_plus1 = k->n_outputs > 3 ? k->outputs[3] + 1 : 0,
                     .lengths_plus1 = hyp_plan_call_input(k, asked.lengths_at),
                     .first_h_plus1 = hyp_plan_call_input(k, asked.lengths_at + 1),
                     .first_c_plus1 = lstm ? hyp_plan_call_input(k, asked.lengths_at + 2) : 0,
                     .bias_plus1 = gru ? hyp_plan_call_input(k, 2) : 0,
                     .peepholes_plus1 = lstm ? hyp_plan_call_input(k, 5) : 0};
    HYP_TRY(take_room(b, p, &asked));
    if (asked.time > 0) {
        uint32_t r = hyp_plan_call_input(k, 1) - 1;
        HYP_TRY(add_product(b, p, &asked, r, 0, 0, two ? 2 : asked.gates));
        if (two) HYP_TRY(add_product(b, p, &asked, r, p->reset_at, 2, 1));
    }
    if (asked.lengths) HYP_TRY(hyp_cuda_need_report(b));
    hyp_cuda_spread(b->session->model->device, asked.batch * asked.size, &p->grid);
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}
