/* steps.h - how steps become ops: what the functions that turn them into such work on, and one of them for each kind of
 * step. A step without elements adds no op.
 */
#ifndef HYP_RUNTIME_CUDA_OPS_STEPS_H
#define HYP_RUNTIME_CUDA_OPS_STEPS_H

#include <stddef.h>

#include "kernels/kernels.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/ops/strided_copy.h"

/* What the functions that turn a step into ops work on. */
typedef struct hyp_cuda_build {
    hyp_cuda_session *session;
    hyp_cuda_prepared *prepared;
    const HypPlan__Program *program;
    const int64_t *values;
    const bool *read; /* by tensor that is no view: a step reads it; NULL where a step is built by itself */
    uint32_t step;
    uint32_t unit;          /* the step that ops are added for, which may be done together with later ones */
    size_t workspace, room; /* bytes that its ops use of the session's */
    uint32_t clipped_plus1; /* tensor that op number `clipped_at` clips from 0 to 6, all that it does; 0 = none */
    size_t clipped_at;
    struct hyp_cuda_probe *probe; /* tune.h; NULL unless products are tuned */
    size_t take_plus1;            /* the alternative of a step's one choice that has a key; 0 = as is decided */
    bool places_room;             /* steps get room in scratch memory once all ops are there; false: the session's grows */
    hyp_diag *diag;
} hyp_cuda_build;

/* There is to be room for so many bytes, at the session's `room`, when the ops run. */
HYP_NODISCARD hyp_status hyp_cuda_want_room(hyp_cuda_build *b, size_t bytes);
/* The next `count` elements of that room, from *end on, which goes behind them; *out_at says where. False: they are beyond
 * any size. */
bool hyp_cuda_take_room(size_t count, size_t size, size_t *end, size_t *out_at);

/* Appends an op with `size` zeroed bytes of data. */
HYP_NODISCARD hyp_status hyp_cuda_add_op(hyp_cuda_build *b, hyp_status (*run)(hyp_cuda_session *, void *, hyp_diag *),
                                         size_t size, void **out_data);
/* A field of a kernel's arguments that is the address of a tensor, from so many bytes on. */
typedef struct hyp_cuda_slot {
    uint32_t field, tensor_plus1; /* offset of a uint64_t in the arguments; 0 = none, whose address is 0 */
    uint64_t begin;
} hyp_cuda_slot;
#define HYP_CUDA_SLOT(args, field, tensor_plus1)                                                                       \
    {                                                                                                                  \
        offsetof(args, field), tensor_plus1, 0                                                                         \
    }
/* Appends a launch: a copy of `args`, of `size` bytes, is what the kernel gets, its slots filled in before each run. */
HYP_NODISCARD hyp_status hyp_cuda_add_launch(hyp_cuda_build *b, const hyp_cuda_grid *grid, const void *args,
                                             size_t size, const hyp_cuda_slot *slots, size_t slot_count);
/* The same, of a kernel whose threads do an item each (hyp_cuda_spread). */
HYP_NODISCARD hyp_status hyp_cuda_add_spread(hyp_cuda_build *b, hyp_cuda_kernel kernel, int64_t items, const void *args,
                                             size_t size, const hyp_cuda_slot *slots, size_t slot_count);
/* Adds the ops of one alternative, by its form. HYP_ERR_UNSUPPORTED: it turns out that it cannot do the step. */
typedef hyp_status hyp_cuda_add_form(hyp_cuda_build *b, const void *step, uint32_t form);
/* Decides among what was offered, and adds the ops of what is taken, or of the next best where that turns out not to be
 * able to. The choice is noted. Steps ask here how they are done, and nowhere else. */
HYP_NODISCARD hyp_status hyp_cuda_add_chosen(hyp_cuda_build *b, hyp_choice *choice, hyp_cuda_add_form *add,
                                             const void *step);
/* Notes how a product, or a choice, is known in the step that is built. */
void hyp_cuda_note_known(hyp_cuda_build *b, hyp_cuda_known known);
/* Makes sure that there is the report that kernels write when an index is out of range: session->error. */
HYP_NODISCARD hyp_status hyp_cuda_need_report(hyp_cuda_build *b);
/* The ops of the step use so many bytes of the session's workspace. */
void hyp_cuda_use_workspace(hyp_cuda_build *b, size_t bytes);
/* Makes sure that the kernel is on the device, so that no run has to load it. */
HYP_NODISCARD hyp_status hyp_cuda_need_kernel(hyp_cuda_build *b, hyp_cuda_kernel kernel);

/* Is a tensor that may be absent a weight, or absent? A kernel may read it before those that it waits for have ended.
 */
static inline bool hyp_cuda_is_constant(const hyp_cuda_build *b, uint32_t tensor_plus1)
{
    const HypPlan__Program *p = b->program;
    return !tensor_plus1 || p->tensors[hyp_plan_root(p, tensor_plus1 - 1)]->place == HYP_PLAN__PLACE__PLACE_WEIGHT;
}

/* A strided copy that is ready to run: movement.c. Box, sizes and offsets as in hyp_cuda_move_plan. */
typedef struct hyp_cuda_mover {
    hyp_cuda_move move;
    hyp_cuda_grid grid;
} hyp_cuda_mover;
/* The second one while shapes are prepared: the kernel that it takes is loaded. */
void hyp_cuda_mover_plan(const hyp_cuda_device *device, const hyp_cuda_box *box, size_t size, int64_t x_offset,
                         int64_t y_offset, hyp_cuda_mover *out);
HYP_NODISCARD hyp_status hyp_cuda_mover_init(hyp_cuda_build *b, const hyp_cuda_box *box, size_t size, int64_t x_offset,
                                             int64_t y_offset, hyp_cuda_mover *out);
HYP_NODISCARD hyp_status hyp_cuda_mover_run(hyp_cuda_session *s, hyp_cuda_mover *mover, CUdeviceptr x, CUdeviceptr y,
                                            hyp_diag *diag);

/* ---- one function per kernel of plan.proto -------------------------------------------------------------- */

/* prepare.c: the step number b->step, and the next one where both are done together; b->step is the last that was
 * added. */
HYP_NODISCARD hyp_status hyp_cuda_add_step(hyp_cuda_build *b, const HypPlan__Step *step);
/* linear.c: with the step that follows where that can add up split sums; b->step is the last one that was added */
HYP_NODISCARD hyp_status hyp_cuda_add_linear(hyp_cuda_build *b, const HypPlan__Linear *k);
/* What is left to do for a layer when its product is in y: y[m,n] = act(y + bias[n] + before[m,n]) + after[m,n], in
 * place. Tensors are indexes + 1, 0 = none. */
typedef struct hyp_cuda_rest {
    uint32_t bias_plus1, before_plus1, after_plus1;
    HypPlan__Act act;
    bool no_product; /* y is not read */
} hyp_cuda_rest;
/* gemm.c. A layer that is no step: y = act(x w^T + bias + before) for the tensor x_plus1 - 1, or for what the session's
 * room has when that is 0. The first op is the product, which may be of a part of y's `rows`; those after it are for
 * all. */
struct hyp_cuda_product;
HYP_NODISCARD hyp_status hyp_cuda_add_rows(hyp_cuda_build *b, const struct hyp_cuda_product *product, uint32_t weight,
                                           uint32_t x_plus1, uint32_t y, int64_t rows, const hyp_cuda_rest *rest);
HYP_NODISCARD hyp_status hyp_cuda_add_matmul(hyp_cuda_build *b, const HypPlan__Matmul *k);
/* pointwise.c */
HYP_NODISCARD hyp_status hyp_cuda_add_pointwise(hyp_cuda_build *b, const HypPlan__Pointwise *k);
/* Compiles what the plan's steps of this kind want of kernels, all at once, before they are added. */
HYP_NODISCARD hyp_status hyp_cuda_compile_pointwise(hyp_cuda_build *b);
/* The step, which has elements, by a kernel that was generated for it (pointwise_source.h), with so many blocks. */
HYP_NODISCARD hyp_status hyp_cuda_add_generated(hyp_cuda_build *b, const HypPlan__Pointwise *k, uint32_t blocks,
                                                CUfunction function);
HYP_NODISCARD hyp_status hyp_cuda_add_rest(hyp_cuda_build *b, uint32_t y, int64_t m, int64_t n,
                                           const hyp_cuda_rest *rest);
/* For y[outer,channels,inner] in place: y = op(y + bias). bias_plus1: tensor + 1, 0 = none. The op takes p and q. */
HYP_NODISCARD hyp_status hyp_cuda_add_channels(hyp_cuda_build *b, uint32_t y, int64_t outer, int64_t channels,
                                               int64_t inner, uint32_t bias_plus1, HypPlan__Pointwise__Op op, double p,
                                               double q);
/* reduce.c */
HYP_NODISCARD hyp_status hyp_cuda_add_softmax(hyp_cuda_build *b, const HypPlan__Softmax *k);
HYP_NODISCARD hyp_status hyp_cuda_add_reduce(hyp_cuda_build *b, const HypPlan__Reduce *k);
/* y[columns] = the sums over the rows of x[rows, columns], which has some */
HYP_NODISCARD hyp_status hyp_cuda_add_row_sums(hyp_cuda_build *b, uint32_t x, uint32_t y, int64_t rows, int64_t columns);
/* attention.c; for plans whose device has had hyp_cuda_load_attention */
HYP_NODISCARD hyp_status hyp_cuda_add_attention(hyp_cuda_build *b, const HypPlan__Attention *k);
/* What scores are made of: the type of the mask, whose matrix is in p (HYP_DTYPE_NONE: there is none), and attributes of
 * attention. */
void hyp_cuda_set_scores(hyp_cuda_attention *p, hyp_dtype mask, bool shown, double scale, double fill);
/* The kernels that there are for so many matrices of these sizes, whose keys may come in two parts. */
void hyp_cuda_offer_attention(const hyp_cuda_device *d, const hyp_cuda_attention *p, hyp_dtype dtype, int64_t matrices,
                              bool two_parts, hyp_choice *out);
/* movement.c */
HYP_NODISCARD hyp_status hyp_cuda_add_copy(hyp_cuda_build *b, const HypPlan__Copy *k);
/* What a box has in x, from an element on, to where it has it in y. */
HYP_NODISCARD hyp_status hyp_cuda_add_box(hyp_cuda_build *b, const hyp_cuda_box *box, uint32_t x, uint32_t y,
                                          int64_t x_offset, int64_t y_offset);
HYP_NODISCARD hyp_status hyp_cuda_add_gather(hyp_cuda_build *b, const HypPlan__Gather *k);
HYP_NODISCARD hyp_status hyp_cuda_add_fill(hyp_cuda_build *b, const HypPlan__Fill *k);
/* calls.c: what adds the ops of a step that names its kernel, from checked arguments. */
typedef hyp_status hyp_cuda_call_fn(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c);
HYP_NODISCARD hyp_status hyp_cuda_add_call(hyp_cuda_build *b, const HypPlan__Call *k);
HYP_NODISCARD hyp_status hyp_cuda_check_call(const HypPlan__Program *program, const HypPlan__Call *k,
                                             hyp_diag *diag); /* part of hyp_cuda_check_step */
/* resize.c: are the scales and the region of a call the plan's own? */
bool hyp_cuda_can_resize(const HypPlan__Program *program, const HypPlan__Call *k);
/* custom.c */
HYP_NODISCARD hyp_status hyp_cuda_add_custom(hyp_cuda_build *b);
/* A normalization that a layer can run itself, and whether the newest op is such a one, with the result y. */
typedef struct hyp_cuda_own_norm {
    uint32_t x, scale, bias_plus1;
    int kind; /* HYP_CUDA_NORM_* */
    float epsilon;
    int64_t rows, size;
} hyp_cuda_own_norm;
bool hyp_cuda_newest_norm(const hyp_cuda_build *b, uint32_t y, hyp_cuda_own_norm *out);
/* Whether a tensor lies with the channels last. */
static inline bool hyp_cuda_lies_last(const hyp_cuda_build *b, uint32_t tensor)
{
    const bool *weights = b->session->model->channels_last, *scratch = b->prepared->channels_last;
    return (weights && weights[tensor]) || (scratch && scratch[tensor]);
}
/* prefetch.c: is an op to name this weight, which it multiplies with so many rows? */
bool hyp_cuda_reads_ahead(const hyp_cuda_build *b, uint32_t weight, int64_t rows);
/* Fills in `ahead` when all ops are there. */
HYP_NODISCARD hyp_status hyp_cuda_plan_prefetch(hyp_cuda_build *b);
/* y = 0 bytes. */
HYP_NODISCARD hyp_status hyp_cuda_add_zero(hyp_cuda_build *b, uint32_t y, size_t bytes);
/* layouts.c: the copies of windows that are to be made after the step that was added. */
HYP_NODISCARD hyp_status hyp_cuda_add_windows(hyp_cuda_build *b);

#endif
