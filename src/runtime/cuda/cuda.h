/* cuda.h - inside of the CUDA backend: what a device, a loaded plan, a session and a prepared set of shapes are.
 *
 *   hyp_cuda_device   one per engine: library tables, the device's primary context, our kernels
 *   hyp_cuda_model    one per engine: the weights, in one allocation, which engines with the same ones share
 *   hyp_cuda_session  one per context: stream, cuBLASLt handle and workspace, scratch and staging memory
 *   hyp_cuda_prepared one per set of shapes: a list of ops, in order of execution
 *
 * The primary context must be current in every function that takes a session or device; the entry points in
 * backend.c see to it. Every device address of a tensor is a multiple of HYP_CUDA_MIN_ALIGN: a caller's tensor that is
 * not is staged like one in host memory.
 */
#ifndef HYP_RUNTIME_CUDA_CUDA_H
#define HYP_RUNTIME_CUDA_CUDA_H

#include <pthread.h>
#include <string.h>

#include "runtime/core/backend.h"
#include "runtime/cuda/driver/cudnn.h"
#include "runtime/cuda/kernels/kernel_args.h"
#include "runtime/cuda/session/kernel_images.h"
#include "runtime/cuda/session/told_kernels.h"
#include "runtime/cuda/session/branches.h"
#include "runtime/cuda/session/replay.h"
#include "runtime/cuda/session/staging.h"

enum { HYP_CUDA_MIN_ALIGN = 16 };

/* Pieces of page-locked memory for copies outside of runs: uploads.c. Zeroed = none. */
enum { HYP_CUDA_UPLOADS = 8 };
typedef struct hyp_cuda_uploads {
    pthread_mutex_t mutex; /* of `taken` */
    pthread_cond_t freed;
    bool ready; /* both are there */
    bool taken[HYP_CUDA_UPLOADS];
    void *pieces[HYP_CUDA_UPLOADS]; /* NULL: not made yet; of the thread that has taken it, as is the event */
    CUevent sent[HYP_CUDA_UPLOADS];
} hyp_cuda_uploads;

typedef struct hyp_cuda_device {
    hyp_cuda_library lib;
    hyp_cudnn dnn; /* empty where no plan needs it, or where it is not */
    bool dnn_sought; /* once: contexts may use it later */
    CUdevice device;
    CUcontext context;                  /* primary, retained; NULL before that */
    const struct hyp_cuda_group *group; /* the processes that all-reduce is over, the caller's; NULL: this one */
    bool keeps_handles;                 /* of the libraries, for others: handles.h */
    CUstream copies;                    /* for what is copied outside of runs, by any thread */
    hyp_cuda_uploads uploads;
    CUmodule module, layers, attention; /* our kernels; NULL before they are loaded */
    CUfunction kernels[HYP_CUDA_KERNEL_COUNT];
    hyp_cuda_told_kernels told; /* and those that were compiled for pointwise steps */
    int sm;     /* compute capability: 90 = 9.0 */
    int driver; /* the CUDA that it is for: 12030 = 12.3 */
    int multiprocessors;
    size_t shared_bytes; /* that a block of one of our kernels may have */
    int cache_bytes;     /* of the second level, which all multiprocessors share */
    int clock_kHz, memory_kHz, bus_bits; /* at most, for reports; 0 where the driver does not tell */
    char name[192];      /* for people */
    char key[192];       /* what measurements depend on: "NVIDIA H200, sm_90, 132 multiprocessors, cuBLASLt 130100" */
    hyp_log log;         /* of the engine */
    atomic_int lost;     /* lib.lost */
} hyp_cuda_device;

/* A weight as convolutions on tiles of so many results a side read it: tile_weights.c. */
typedef struct hyp_cuda_made {
    uint32_t tensor;
    int side;
    size_t users; /* ops; 0: it is about to go */
    CUdeviceptr at;
    size_t bytes;
} hyp_cuda_made;

typedef struct hyp_cuda_model {
    hyp_cuda_device *device;
    const hyp_plan *plan;
    CUdeviceptr weights;    /* 0 when there are none */
    bool *channels_last;    /* by tensor: weights that lie so, see conv_filters.c; NULL: none */
    uint32_t gated;         /* the first step that writes over variables, and is left out where a run has failed before; all behind
                             * it are gated, too. As many as there are steps: none */
    hyp_cuda_images images; /* kernels that the plan's device section has for this device */
    pthread_mutex_t making; /* of `made`; held while some of it is made */
    hyp_mem_account *account; /* of the thread that has loaded it */
    HYP_VEC(hyp_cuda_made) made;
} hyp_cuda_model;

/* Memory that is the session's until it is replaced; then it is the list's. */
typedef struct hyp_cuda_block {
    CUdeviceptr at;
    size_t bytes;
    bool replaced;
} hyp_cuda_block;

/* What graphs of the caller's use, and is not freed before he tells that they are gone: captured.c. Zeroed = nothing. */
typedef struct hyp_cuda_captured {
    HYP_VEC(hyp_cuda_block) blocks;
    struct hyp_cuda_prepared *shapes; /* that the core has released since: a list */
    bool no_growth;                   /* these blocks are not replaced */
    bool any;                         /* there may be such graphs, which read the weights that the session has */
} hyp_cuda_captured;

typedef struct hyp_cuda_session {
    hyp_cuda_model *model;
    CUstream stream;   /* that ops go to at this moment: `home`, but within a run or a capture */
    CUstream home;     /* of runs that name no other */
    CUstream recorder; /* what is captured by us goes to it; nobody else knows it */
    bool own_home;     /* `home` is ours to destroy */
    bool hidden;       /* nobody else knows `home`, nor waited for events on it: it is not captured by anybody */
    CUstream last;     /* of the last run that was not captured; where that is not `home`, `ended` is behind it */
    CUevent ended;
    bool captured; /* the run under way goes to a graph of the caller's */
    hyp_cuda_captured kept;
    int priority;  /* of streams of its own */
    CUstream aside; /* for work beside that of the stream, with events where it begins and ends; 0 = none yet */
    CUevent begins, ends;
    hyp_cuda_branch_streams branches; /* for steps side by side */
    bool capturing;      /* a graph of ours */
    bool forks;          /* ops of the run under way may go to other streams beside its own */
    bool pads;           /* tensors of a run may be smaller than its shapes */
    bool told_of_graphs, told_of_updates; /* the log has that one could not be made, or not be changed */
    const hyp_bindings *bindings; /* of the run whose ops are queued; NULL where nobody is to be told of its steps */
    cublasLtHandle_t lt;
    void *dnn;                            /* handle of cuDNN; NULL = none */
    CUdeviceptr workspace, scratch, room; /* 0 = none yet */
    size_t workspace_bytes, scratch_bytes, room_bytes;
    hyp_cuda_staging staging;
    hyp_tuning tuning;       /* of products and pointwise steps */
    hyp_cuda_images images;  /* kernels of it that the model does not have */
    bool starts;             /* the next launch is the first one of a run: it begins when all before it has ended */
    bool untuned;            /* what is prepared now is to be as if nothing were known from tuning */
    CUdeviceptr *at;         /* by tensor: its address in the run under way */
    bool awaited;            /* the last run has been: what it has to tell in `error` is told */
    volatile int64_t *error; /* {1, index, step} after an index out of range; pinned, kernels write it */
    CUdeviceptr error_at;    /* the same memory as kernels see it */
    CUdeviceptr gate;        /* an i64 on the device: not 0 where the run under way has failed; 0 = no step is gated */
    bool leaves_commit;      /* the run under way does without these steps */
    bool committed;          /* it has queued them */
} hyp_cuda_session;

static inline bool hyp_cuda_is_gated(const hyp_cuda_session *s, uint32_t step) { return step >= s->model->gated; }

/* The unit of the op that looks whether a run has failed. */
#define HYP_CUDA_COMMIT UINT32_MAX

#define HYP_CUDA_AS_PLANNED SIZE_MAX

/* One piece of device work: a launch, a product, a copy. `data` is in the arena of its prepared shapes. */
typedef struct hyp_cuda_op {
    hyp_status (*run)(hyp_cuda_session *session, void *data, hyp_diag *diag);
    void (*dispose)(const hyp_cuda_library *lib, void *data); /* NULL when there is nothing to free */
    void *data;
    uint32_t step; /* of the plan, for messages */
    uint32_t unit; /* the step that it was added for; ops of one follow each other, and share workspace and room */
    uint32_t last_step;     /* it does something of no later one */
    size_t workspace, room; /* bytes of them that its unit uses; said by one of its ops */
    size_t room_at;         /* where in scratch memory its unit has room; HYP_CUDA_AS_PLANNED: in the session's own */
    uint32_t weight_plus1; /* a constant that it reads as a whole, and is to find in the cache; 0 = none */
} hyp_cuda_op;

/* Weights that are sent for while the ops from `op` on run. */
typedef struct hyp_cuda_ahead {
    size_t op;
    uint32_t weight[HYP_CUDA_PREFETCHES], count; /* tensors */
    uint64_t bytes[HYP_CUDA_PREFETCHES];
} hyp_cuda_ahead;

/* What is known from tuning of a step's products: what is known of all of them, the least of it. */
typedef enum hyp_cuda_known {
    HYP_CUDA_NO_PRODUCT,
    HYP_CUDA_TUNED,
    HYP_CUDA_BORROWED,
    HYP_CUDA_NOT_TUNED
} hyp_cuda_known;

typedef struct hyp_cuda_prepared {
    bool captured; /* a graph of the caller's has its ops */
    struct hyp_cuda_prepared *next; /* in hyp_cuda_captured.shapes */
    bool *channels_last; /* by tensor: scratch that lies so, see hyp_choose_layouts; NULL: none */
    HYP_VEC(hyp_cuda_op) ops;
    uint32_t last_step;  /* where single steps are prepared to be measured */
    size_t aside;        /* so many first ops wait for none, and none for them: they may run beside the others */
    size_t commit;       /* the op that settles whether the gated ones behind it do anything; as many as there are: none */
    /* Of scratch memory: values and rooms of steps, and what lies behind them; all in the second part: branches.c. */
    size_t value_bytes, own_bytes;
    size_t *value_offset; /* by scratch tensor, into the first part: pack.c, branches.c */
    size_t *own_offset;   /* by tensor that lies in the second, or HYP_CUDA_AS_PLANNED: layouts.c, branches.c */
    uint32_t *own_first;  /* by tensor with such an offset: the first of those in its place */
    uint32_t *window_step; /* by tensor: of a window with such an offset, the step after which it is copied there */
    size_t *edge_offset; /* by input, then output: into its staging memory */
    size_t *edge_bytes;
    size_t staging_bytes; /* that staging all of them would take */
    size_t packed_bytes;  /* the first of them: all that are small */
    bool reads_early; /* some op reads inputs before those in front of it have ended */
    hyp_cuda_branches branches; /* of ops that become a graph of ours */
    HYP_VEC(hyp_cuda_ahead) ahead; /* ascending by op; only where ops become a graph of ours */
    hyp_cuda_replays replays;
    HYP_VEC(hyp_choice) choices;             /* in the order of steps */
    uint32_t *choices_end;                   /* by step: so many are its and those before it; NULL where nobody asks */
    hyp_cuda_known *known;                   /* by step; NULL where nobody asks */
    size_t products[HYP_CUDA_NOT_TUNED + 1]; /* how many are done so */
    hyp_arena arena;
} hyp_cuda_prepared;

/* Whether a tensor lies behind the values. */
static inline bool hyp_cuda_has_own(const hyp_cuda_prepared *p, uint32_t tensor)
{
    return p->own_offset && p->own_offset[tensor] != HYP_CUDA_AS_PLANNED;
}

static inline hyp_dtype hyp_cuda_dtype(const HypPlan__Program *p, uint32_t tensor)
{
    return (hyp_dtype)p->tensors[tensor]->dtype;
}

/* Whether products of f32 may be rounded to TF32. */
static inline bool hyp_cuda_is_tf32(const HypPlan__Program *p) { return strcmp(p->precision, "tf32") == 0; }

/* The address of a tensor that may be absent: index + 1, 0 = 0. */
static inline CUdeviceptr hyp_cuda_address(const hyp_cuda_session *s, uint32_t tensor_plus1)
{
    return tensor_plus1 ? s->at[tensor_plus1 - 1] : 0;
}

/* What cuBLASLt needs beside its operands: the sizes that NVIDIA advises. */
static inline size_t hyp_cuda_workspace_bytes(const hyp_cuda_device *d) { return (size_t)(d->sm >= 90 ? 32 : 4) << 20; }

/* A launch: how many threads, and how they are grouped. */
typedef struct hyp_cuda_grid {
    CUfunction function; /* NULL: `kernel` */
    hyp_cuda_kernel kernel;
    uint32_t blocks, block_x, block_y, shared_bytes;
    bool alone; /* begins only when the kernel before it has ended: its many blocks are dealt out best then */
} hyp_cuda_grid;

/* Blocks of a kernel whose threads loop until `items` are done, `per_block` at a time: enough to fill the device. */
uint32_t hyp_cuda_blocks(const hyp_cuda_device *device, int64_t items, int64_t per_block);
/* Loads a kernel that the driver has put off. */
HYP_NODISCARD hyp_status hyp_cuda_load_kernel(const hyp_cuda_device *device, hyp_cuda_kernel kernel, hyp_diag *diag);
/* device.c: lets a kernel have all the shared memory that a block may have. */
HYP_NODISCARD hyp_status hyp_cuda_allow_shared(const hyp_cuda_device *device, CUfunction function, const char *name,
                                               hyp_diag *diag);
/* Blocks and threads of a kernel whose threads do an item each, in so small blocks that few items are on all multiprocessors. */
void hyp_cuda_spread(const hyp_cuda_device *device, int64_t items, hyp_cuda_grid *grid);
/* Launches on the session's stream; args is the kernel's one argument. */
HYP_NODISCARD hyp_status hyp_cuda_launch(hyp_cuda_session *s, const hyp_cuda_grid *grid, void *args, hyp_diag *diag);

/* For kernels that keep rows in registers: how many threads share a row, and whether all of it fits into theirs. Fills
 * in the pieces of *rows, whose other fields are set; `vector` asks for pieces of 16 bytes and is taken back where rows
 * do not start at such. Shared memory is a double for every warp. */
HYP_NODISCARD bool hyp_cuda_row_grid(const hyp_cuda_device *device, hyp_cuda_rows *rows, hyp_cuda_grid *out);

#endif
