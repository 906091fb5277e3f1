/* cuda.h - inside of the CUDA backend: what a device, a loaded plan, a session and a prepared set of shapes are.
 *
 *   hyp_cuda_device   one per engine: library tables, the device's primary context, our kernels
 *   hyp_cuda_model    one per engine: the weights, in one allocation
 *   hyp_cuda_session  one per context: stream, cuBLASLt handle and workspace, scratch and staging memory
 *   hyp_cuda_prepared one per set of shapes: a list of ops, in order of execution
 *
 * The primary context must be current in every function below that takes a session or device; the entry points in
 * backend.c see to it. Every device address of a tensor is a multiple of HYP_CUDA_MIN_ALIGN: a caller's tensor that is
 * not is staged like one in host memory.
 */
#ifndef HYP_RUNTIME_CUDA_CUDA_H
#define HYP_RUNTIME_CUDA_CUDA_H

#include <string.h>

#include "kernels/kernels.h"
#include "runtime/core/backend.h"
#include "runtime/cuda/driver/cudnn.h"
#include "runtime/cuda/kernels/kernel_args.h"
#include "runtime/cuda/ops/strided_copy.h"
#include "runtime/cuda/session/kernel_images.h"
#include "runtime/cuda/session/replay.h"
#include "runtime/cuda/session/staging.h"

enum { HYP_CUDA_MIN_ALIGN = 16 };

typedef struct hyp_cuda_device {
    hyp_cuda_library lib;
    hyp_cudnn dnn; /* empty where no plan needs it, or where it is not */
    CUdevice device;
    CUcontext context;                  /* primary, retained; NULL before that */
    CUmodule module, layers, attention; /* our kernels; NULL before they are loaded */
    CUfunction kernels[HYP_CUDA_KERNEL_COUNT];
    int sm; /* compute capability: 90 = 9.0 */
    int multiprocessors;
    size_t shared_bytes; /* that a block of one of our kernels may have */
    int cache_bytes;     /* of the second level, which all multiprocessors share */
    int clock_kHz, memory_kHz, bus_bits; /* at most, for reports; 0 where the driver does not tell */
    char name[192];      /* for people */
    char key[192];       /* what measurements depend on: "NVIDIA H200, sm_90, 132 multiprocessors, cuBLASLt 130100" */
    hyp_log log;         /* of the engine */
    atomic_int lost;     /* lib.lost */
} hyp_cuda_device;

typedef struct hyp_cuda_model {
    hyp_cuda_device *device;
    const hyp_plan *plan;
    CUdeviceptr weights;    /* 0 when there are none */
    bool *channels_last;    /* by tensor: weights that lie so, see conv_filters.c; NULL: none */
    hyp_cuda_images images; /* kernels that the plan's device section has for this device */
} hyp_cuda_model;

typedef struct hyp_cuda_session {
    hyp_cuda_model *model;
    CUstream stream;
    bool own_stream;
    int priority;    /* of streams of its own */
    CUstream aside; /* for work beside that of the stream, with events where it begins and ends; 0 = none yet */
    CUevent begins, ends;
    bool capturing; /* a graph of ours */
    cublasLtHandle_t lt;
    void *dnn;                            /* handle of cuDNN; NULL = none */
    CUdeviceptr workspace, scratch, room; /* 0 = none yet */
    size_t workspace_bytes, scratch_bytes, room_bytes;
    size_t most;             /* that these and what is staged may have together */
    hyp_cuda_staging staging;
    hyp_tuning tuning;       /* of products and pointwise steps */
    hyp_cuda_images images;  /* kernels of it that the model does not have */
    bool starts;             /* the next launch is the first one of a run: it begins when all before it has ended */
    bool untuned;            /* what is prepared now is to be as if nothing were known from tuning */
    CUdeviceptr *at;         /* by tensor: its address in the run under way */
    volatile int64_t *error; /* {1, index, step} after an index out of range; pinned, kernels write it */
    CUdeviceptr error_at;    /* the same memory as kernels see it */
} hyp_cuda_session;

/* One piece of device work: a launch, a product, a copy. `data` is in the arena of its prepared shapes. */
typedef struct hyp_cuda_op {
    hyp_status (*run)(hyp_cuda_session *session, void *data, hyp_diag *diag);
    void (*dispose)(const hyp_cuda_library *lib, void *data); /* NULL when there is nothing to free */
    void *data;
    uint32_t step; /* of the plan, for messages */
    uint32_t weight_plus1; /* a constant that it reads as a whole, and is to find in the cache; 0 = none */
} hyp_cuda_op;

/* Weights that are sent for while the ops from `op` on run. */
typedef struct hyp_cuda_ahead {
    size_t op;
    uint32_t weight[HYP_CUDA_PREFETCHES], count; /* tensors */
    uint64_t bytes[HYP_CUDA_PREFETCHES];
} hyp_cuda_ahead;

#define HYP_CUDA_AS_PLANNED SIZE_MAX

/* What is known from tuning of a step's products: what is known of all of them, the least of it. */
typedef enum hyp_cuda_known {
    HYP_CUDA_NO_PRODUCT,
    HYP_CUDA_TUNED,
    HYP_CUDA_BORROWED,
    HYP_CUDA_NOT_TUNED
} hyp_cuda_known;

typedef struct hyp_cuda_prepared {
    bool *channels_last; /* by tensor: scratch that lies so, see hyp_choose_layouts; NULL: none */
    HYP_VEC(hyp_cuda_op) ops;
    uint32_t last_step;  /* where single steps are prepared to be measured */
    size_t aside;        /* so many first ops wait for none, and none for them: they may run beside the others */
    size_t *slot_offset; /* by slot, into the session's scratch memory */
    size_t *own_offset;  /* by tensor, so, too: one that does not lie where the plan has it, or HYP_CUDA_AS_PLANNED; layouts.c */
    uint32_t *window_step; /* by tensor: of a window with such an offset, the step after which it is copied there */
    size_t *edge_offset; /* by input, then output: into its staging memory */
    size_t *edge_bytes;
    size_t staging_bytes; /* that staging all of them would take */
    size_t packed_bytes;  /* the first of them: all that are small */
    bool reads_early; /* some op reads inputs before those in front of it have ended */
    HYP_VEC(hyp_cuda_ahead) ahead; /* ascending by op; only where ops become a graph of ours */
    hyp_cuda_replays replays;
    HYP_VEC(hyp_choice) choices;             /* in the order of steps */
    uint32_t *choices_end;                   /* by step: so many are its and those before it; NULL where nobody asks */
    hyp_cuda_known *known;                   /* by step; NULL where nobody asks */
    size_t products[HYP_CUDA_NOT_TUNED + 1]; /* how many are done so */
    hyp_arena arena;
} hyp_cuda_prepared;

/* What the functions that turn a step into ops work on. */
typedef struct hyp_cuda_build {
    hyp_cuda_session *session;
    hyp_cuda_prepared *prepared;
    const HypPlan__Program *program;
    const int64_t *values;
    const bool *read; /* by tensor that is no view: a step reads it; NULL where products alone are built */
    uint32_t step;
    uint32_t clipped_plus1; /* tensor that op number `clipped_at` clips from 0 to 6, all that it does; 0 = none */
    size_t clipped_at;
    struct hyp_cuda_probe *probe; /* tune.h; NULL unless products are tuned */
    size_t take_plus1;            /* the alternative of a step's one choice that has a key; 0 = as is decided */
    hyp_diag *diag;
} hyp_cuda_build;

/* Appends an op with `size` zeroed bytes of data. */
HYP_NODISCARD hyp_status hyp_cuda_add_op(hyp_cuda_build *b, hyp_status (*run)(hyp_cuda_session *, void *, hyp_diag *),
                                         size_t size, void **out_data);
/* Adds the ops of one alternative, by its form. HYP_ERR_UNSUPPORTED: it turns out that it cannot do the step. */
typedef hyp_status hyp_cuda_add_form(hyp_cuda_build *b, const void *step, uint32_t form);
/* Decides among what was offered, and adds the ops of what is taken, or of the next best where that turns out not to be able
 * to. The choice is noted. Steps ask here how they are done, and nowhere else. */
HYP_NODISCARD hyp_status hyp_cuda_add_chosen(hyp_cuda_build *b, hyp_choice *choice, hyp_cuda_add_form *add,
                                             const void *step);
/* Notes how a product, or a choice, is known in the step that is built. */
void hyp_cuda_note_known(hyp_cuda_build *b, hyp_cuda_known known);
/* Makes sure that there is the report that kernels write when an index is out of range: session->error. */
HYP_NODISCARD hyp_status hyp_cuda_need_report(hyp_cuda_build *b);
/* Makes sure that the kernel is on the device, so that no run has to load it. */
HYP_NODISCARD hyp_status hyp_cuda_need_kernel(hyp_cuda_build *b, hyp_cuda_kernel kernel);

static inline hyp_dtype hyp_cuda_dtype(const HypPlan__Program *p, uint32_t tensor)
{
    return (hyp_dtype)p->tensors[tensor]->dtype;
}

/* The address of a tensor that may be absent: index + 1, 0 = 0. */
static inline CUdeviceptr hyp_cuda_address(const hyp_cuda_session *s, uint32_t tensor_plus1)
{
    return tensor_plus1 ? s->at[tensor_plus1 - 1] : 0;
}

/* Is a tensor that may be absent a weight, or absent? A kernel may read it before those that it waits for have ended.
 */
static inline bool hyp_cuda_is_constant(const hyp_cuda_build *b, uint32_t tensor_plus1)
{
    const HypPlan__Program *p = b->program;
    return !tensor_plus1 || p->tensors[hyp_plan_root(p, tensor_plus1 - 1)]->place == HYP_PLAN__PLACE__PLACE_WEIGHT;
}

/* A launch: how many threads, and how they are grouped. */
typedef struct hyp_cuda_grid {
    CUfunction function; /* NULL: `kernel` */
    hyp_cuda_kernel kernel;
    uint32_t blocks, block_x, block_y, shared_bytes;
    bool alone; /* begins only when the kernel before it has ended: its many blocks are dealt out best then */
} hyp_cuda_grid;

/* Blocks of a kernel whose threads loop until `items` are done, `per_block` at a time: enough to fill the device. */
uint32_t hyp_cuda_blocks(const hyp_cuda_device *device, int64_t items, int64_t per_block);
/* Blocks and threads of a kernel whose threads do an item each, in so small blocks that few items are on all multiprocessors. */
void hyp_cuda_spread(const hyp_cuda_device *device, int64_t items, hyp_cuda_grid *grid);
/* Launches on the session's stream; args is the kernel's one argument. */
HYP_NODISCARD hyp_status hyp_cuda_launch(hyp_cuda_session *s, const hyp_cuda_grid *grid, void *args, hyp_diag *diag);

/* A strided copy that is ready to run: movement.c. Box, sizes and offsets as in hyp_cuda_move_plan. */
typedef struct hyp_cuda_mover {
    hyp_cuda_move move;
    hyp_cuda_grid grid;
} hyp_cuda_mover;
HYP_NODISCARD hyp_status hyp_cuda_mover_init(hyp_cuda_build *b, const hyp_cuda_box *box, size_t size, int64_t x_offset,
                                             int64_t y_offset, hyp_cuda_mover *out);
HYP_NODISCARD hyp_status hyp_cuda_mover_run(hyp_cuda_session *s, hyp_cuda_mover *mover, CUdeviceptr x, CUdeviceptr y,
                                            hyp_diag *diag);

/* For kernels that keep rows in registers: how many threads share a row, and whether all of it fits into theirs. Fills
 * in the pieces of *rows, whose other fields are set; `vector` asks for pieces of 16 bytes and is taken back where rows
 * do not start at such. Shared memory is a double for every warp. */
HYP_NODISCARD bool hyp_cuda_row_grid(const hyp_cuda_device *device, hyp_cuda_rows *rows, hyp_cuda_grid *out);

/* ---- one function per kernel of plan.proto; a step without elements adds no op --------------------------- */

/* linear.c: with the step that follows where that can add up split sums; b->step is the last one that was added */
HYP_NODISCARD hyp_status hyp_cuda_add_linear(hyp_cuda_build *b, const HypPlan__Linear *k);
/* gemm.c. A layer that is no step: y = act(x w^T + bias + before) for the tensor x_plus1 - 1, or for what the session's room has
 * when that is 0. The first op is the product, which may be of a part of y's `rows`; those after it are for all. */
struct hyp_cuda_product;
struct hyp_cuda_rest;
HYP_NODISCARD hyp_status hyp_cuda_add_rows(hyp_cuda_build *b, const struct hyp_cuda_product *product, uint32_t weight,
                                           uint32_t x_plus1, uint32_t y, int64_t rows, const struct hyp_cuda_rest *rest);
HYP_NODISCARD hyp_status hyp_cuda_add_matmul(hyp_cuda_build *b, const HypPlan__Matmul *k);
/* pointwise.c */
HYP_NODISCARD hyp_status hyp_cuda_add_pointwise(hyp_cuda_build *b, const HypPlan__Pointwise *k);
/* The step, which has elements, by a kernel that was generated for it (pointwise_source.h), with so many blocks. What tuning
 * keeps of a step that does best without has HYP_CUDA_NO_KERNEL bytes, else it is the kernel, and the epilogue says how
 * many pieces a thread does. */
enum { HYP_CUDA_NO_KERNEL = 1 };
HYP_NODISCARD hyp_status hyp_cuda_add_generated(hyp_cuda_build *b, const HypPlan__Pointwise *k, uint32_t blocks,
                                                CUfunction function);
/* What is left to do for a layer when its product is in y: y[m,n] = act(y + bias[n] + before[m,n]) + after[m,n], in
 * place. Tensors are indexes + 1, 0 = none. */
typedef struct hyp_cuda_rest {
    uint32_t bias_plus1, before_plus1, after_plus1;
    HypPlan__Act act;
    bool no_product; /* y is not read */
} hyp_cuda_rest;
HYP_NODISCARD hyp_status hyp_cuda_add_rest(hyp_cuda_build *b, uint32_t y, int64_t m, int64_t n,
                                           const hyp_cuda_rest *rest);
/* For y[outer,channels,inner] in place: y = op(y + bias). bias_plus1: tensor + 1, 0 = none. The op takes p and q. */
HYP_NODISCARD hyp_status hyp_cuda_add_channels(hyp_cuda_build *b, uint32_t y, int64_t outer, int64_t channels,
                                               int64_t inner, uint32_t bias_plus1, HypPlan__Pointwise__Op op, double p,
                                               double q);
/* reduce.c */
HYP_NODISCARD hyp_status hyp_cuda_add_softmax(hyp_cuda_build *b, const HypPlan__Softmax *k);
HYP_NODISCARD hyp_status hyp_cuda_add_reduce(hyp_cuda_build *b, const HypPlan__Reduce *k);
/* attention.c; for plans whose device has had hyp_cuda_load_attention */
HYP_NODISCARD hyp_status hyp_cuda_add_attention(hyp_cuda_build *b, const HypPlan__Attention *k);
/* The kernels that there are for so many matrices of these sizes, whose keys may come in two parts. */
void hyp_cuda_offer_attention(const hyp_cuda_device *d, const hyp_cuda_attention *p, hyp_dtype dtype, int64_t matrices,
                              bool two_parts, hyp_choice *out);
/* movement.c */
HYP_NODISCARD hyp_status hyp_cuda_add_copy(hyp_cuda_build *b, const HypPlan__Copy *k);
/* What a box has in x, from an element on, to where it has it in y. */
HYP_NODISCARD hyp_status hyp_cuda_add_box(hyp_cuda_build *b, const struct hyp_cuda_box *box, uint32_t x, uint32_t y,
                                          int64_t x_offset, int64_t y_offset);
HYP_NODISCARD hyp_status hyp_cuda_add_gather(hyp_cuda_build *b, const HypPlan__Gather *k);
HYP_NODISCARD hyp_status hyp_cuda_add_fill(hyp_cuda_build *b, const HypPlan__Fill *k);
/* calls.c: what adds the ops of a step that names its kernel, from checked arguments. */
typedef hyp_status hyp_cuda_call_fn(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c);
HYP_NODISCARD hyp_status hyp_cuda_add_call(hyp_cuda_build *b, const HypPlan__Call *k);
HYP_NODISCARD hyp_status hyp_cuda_check_call(const HypPlan__Program *program, const HypPlan__Call *k,
                                             hyp_diag *diag); /* part of hyp_cuda_check_step */
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
/* Whether products of f32 may be rounded to TF32. */
static inline bool hyp_cuda_is_tf32(const HypPlan__Program *p) { return strcmp(p->precision, "tf32") == 0; }
/* Types, bit 1 << hyp_dtype, and axes at most, N and C among them, of tensors that may lie so: cuBLASLt, tensor cores and
 * our kernel for single channels want it. */
enum { HYP_CUDA_TYPES_LAST = 1 << HYP_F16 | 1 << HYP_BF16 | 1 << HYP_F32, HYP_CUDA_LAST_AXES = 4 };
/* conv_filters.c */
/* Decides which weights lie so, before a set of shapes is prepared; then puts these on the device, where all weights
 * are as the plan has them. */
HYP_NODISCARD hyp_status hyp_cuda_find_filters(hyp_cuda_model *m, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cuda_upload_filters(const hyp_cuda_model *m, hyp_diag *diag);
/* prefetch.c: is an op to name this weight, which it multiplies with so many rows? */
bool hyp_cuda_reads_ahead(const hyp_cuda_build *b, uint32_t weight, int64_t rows);
/* Fills in `ahead` when all ops are there, and queues one of them on the session's stream. */
HYP_NODISCARD hyp_status hyp_cuda_plan_prefetch(hyp_cuda_build *b);
HYP_NODISCARD hyp_status hyp_cuda_prefetch_run(hyp_cuda_session *s, const hyp_cuda_ahead *ahead, hyp_diag *diag);
/* y = 0 bytes. */
HYP_NODISCARD hyp_status hyp_cuda_add_zero(hyp_cuda_build *b, uint32_t y, size_t bytes);

/* Can the backend run this step at all? HYP_ERR_UNSUPPORTED says what it cannot. Needs no device. */
HYP_NODISCARD hyp_status hyp_cuda_check_step(const HypPlan__Program *program, const HypPlan__Step *step,
                                             hyp_diag *diag);

#endif
