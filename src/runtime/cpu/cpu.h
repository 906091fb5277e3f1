/* cpu.h - inside of the CPU backend.
 *
 * Loading chooses kernels for the processor and packs weights; preparing a set of shapes turns every step into an
 * operation (hyp_cpu_op) with everything worked out; running calls them one after the other. What no kernel here
 * has is run by the reference kernels.
 */
#ifndef HYP_RUNTIME_CPU_CPU_H
#define HYP_RUNTIME_CPU_CPU_H

#include <pthread.h>

#include "plan/box_walk.h"
#include "runtime/core/host_memory.h"
#include "plan/laid_box.h"
#include "runtime/core/shared_block.h"
#include "runtime/core/thread_pool.h"
#include "runtime/cpu/places.h"
#include "runtime/cpu/vector_kernels.h"
#include "runtime/reference/reference.h"

typedef struct hyp_dnnl hyp_dnnl; /* dnnl.h; NULL wherever oneDNN is not built in */

/* Immutable after open. */
typedef struct hyp_cpu_device {
    const hyp_cpu_kernels *kernels;
    hyp_dnnl *dnnl; /* NULL: without oneDNN */
    hyp_log log;    /* for load only */
    hyp_pool *pool;
    int32_t threads; /* of a run */
    char name[96];
    char tuning_name[160]; /* what measured times belong to */
} hyp_cpu_device;

/* How a step is done: hyp_alternative.form. */
typedef enum hyp_cpu_form {
    HYP_CPU_PLAIN, /* the reference kernels */
    HYP_CPU_OWN,
    HYP_CPU_OWN_SHARED, /* layers, by several threads */
    HYP_CPU_ONEDNN,
    HYP_CPU_ONEDNN_ALONE, /* on one thread */
    HYP_CPU_ONEDNN_TILES, /* layers, on tiles of rows */
    HYP_CPU_WINDOWS,      /* convolutions, by the kernel of layers */
    HYP_CPU_COLUMNS,      /* convolutions, as a product and sums of its columns */
    HYP_CPU_GROUPED,      /* convolutions of many groups of few channels, a vector having one channel of several groups */
    HYP_CPU_DEPTHWISE,    /* convolutions of each channel by itself */
    HYP_CPU_DOUBLES,      /* products in f64 */
    HYP_CPU_INTEGERS,     /* products and convolutions in i32, by exact products of floats */
    HYP_CPU_WINOGRAD,     /* convolutions by 3x3, in fewer multiplications */
    HYP_CPU_NEIGHBOURS    /* convolutions with few results, by the kernel of layers: those of neighbouring places at once */
} hyp_cpu_form;

typedef struct hyp_linear_weights hyp_linear_weights;   /* linear.c */
typedef struct hyp_dnnl_packed hyp_dnnl_packed;         /* dnnl.h */
typedef struct hyp_integer_weights hyp_integer_weights; /* integers.c */

/* One plan on the device, shared by its contexts. */
typedef struct hyp_cpu_model {
    hyp_cpu_device *device;
    const hyp_plan *plan;
    hyp_linear_weights **linear;           /* by step; NULL where the step is no linear */
    hyp_mlp **columns, **rows, **winograd, **neighbours; /* by step: weights of convolutions and recurrences as layers, for
                                                            each form, or NULL */
    hyp_integer_weights **integers; /* by step: weights of products in i32; NULL until packed */
    float **grouped;                /* by step: the weights of convolutions of groups; NULL until packed */
    hyp_dnnl_packed **windows;      /* by step: the weights of convolutions, a list; NULL without oneDNN */
    hyp_dnnl_packed *layers;        /* the weights of all linears, a list */
    struct hyp_cpu_model *wide;     /* for the steps that are done by kernels for floats; NULL where none is */
    struct hyp_wide_plan *widens;   /* of such a model: the copy of the plan that it is for; else NULL */
    hyp_mem_account *account;       /* the engine's */
    pthread_mutex_t packing;        /* held while weights are packed, at load and in prepare; never in run */
} hyp_cpu_model;

/* What an operation gets in a run. */
typedef struct hyp_cpu_run {
    const hyp_cpu_device *device;
    const hyp_cpu_kernels *kernels;
    hyp_reference_call call; /* addresses of tensors, values of dims, work space */
    void *const *streams;    /* of oneDNN, by thread */
    int threads;             /* that loops are divided among; 1 within a part of one */
    const hyp_bindings *bindings; /* NULL where a step is run by itself */
} hyp_cpu_run;

struct hyp_cpu_op;
typedef hyp_status hyp_cpu_run_fn(const struct hyp_cpu_op *op, const hyp_cpu_run *run, hyp_diag *diag);

/* A prepared step. `state` belongs to the operation: `destroy` frees it (NULL: nothing to free). */
typedef struct hyp_cpu_op {
    hyp_cpu_run_fn *run;
    void (*destroy)(void *state);
    void *state;
    const HypPlan__Step *step;
    const hyp_cpu_places *places; /* where its tensors lie; NULL: each by itself */
    size_t work_bytes;            /* that `run` needs at work */
    int threads;                  /* that it is made for */
} hyp_cpu_op;

/* Floats from place to place of an image with the channels last; 0: it is dense. */
static inline int64_t hyp_cpu_apart(const hyp_cpu_op *op, uint32_t tensor)
{
    return op->places ? op->places->of[tensor].apart : 0;
}
/* The same of one of so many channels, which they are where it is dense. */
static inline int64_t hyp_cpu_place_step(const hyp_cpu_op *op, uint32_t tensor, int64_t channels)
{
    int64_t apart = hyp_cpu_apart(op, tensor);
    return apart ? apart : channels;
}
/* places.c. Has a lane of a walk, whose box is that of `laid`, go through a tensor as it lies there: number `of` of `laid`. */
void hyp_cpu_walk_tensor(const hyp_cpu_op *op, const HypPlan__Program *p, const int64_t *values, uint32_t tensor,
                         const hyp_laid_box *laid, size_t of, hyp_walk *walk, size_t lane);

typedef struct hyp_cpu_session {
    hyp_cpu_model *model;
    hyp_host_memory memory;
    hyp_tuning tuning;
    void **streams; /* of oneDNN, one for each thread of a run */
    uint64_t serials, placed; /* of shapes prepared; whose places the addresses are, 0: those of slots */
} hyp_cpu_session;

typedef struct hyp_cpu_prepared {
    const int64_t *values;
    size_t work_bytes;   /* the most that an op needs, and rooms behind that */
    bool *channels_last; /* by tensor: how it lies in memory; see hyp_choose_layouts */
    hyp_cpu_places *places; /* NULL: each tensor lies by itself */
    size_t rooms_at;        /* where rooms begin in the work space */
    uint64_t serial;        /* of the session's, from 1 */
    bool changed;           /* a step is done otherwise than `places` were chosen for */
    hyp_choice *choices; /* one per step */
    hyp_cpu_op ops[];    /* one per step */
} hyp_cpu_prepared;

/* cpu.c, for tuning. Shapes as `known` has it, which may be NULL; released by hyp_cpu_release. apart: each tensor lies by
 * itself, so that any alternative of a step can be run. */
HYP_NODISCARD hyp_status hyp_cpu_prepare(hyp_cpu_session *s, const int64_t *values, const hyp_tuning *known, bool apart,
                                         hyp_cpu_prepared **out, hyp_diag *diag);
void hyp_cpu_release(const hyp_cpu_session *s, hyp_cpu_prepared *p);
/* Makes the operation of one step in this form; op->run stays NULL where there is no kernel for it. Its work space is
 * the caller's to make. */
HYP_NODISCARD hyp_status hyp_cpu_make_op(hyp_cpu_session *s, uint32_t step, const hyp_cpu_prepared *p, hyp_cpu_form form,
                                         hyp_cpu_op *op, hyp_diag *diag);
/* model.c: hyp_backend.load, .unload and .load_bound. */
HYP_NODISCARD hyp_status hyp_cpu_load(void *device, const hyp_plan *plan, void **out_model, hyp_diag *diag);
void hyp_cpu_unload(void *model);
size_t hyp_cpu_load_bound(const hyp_plan *plan);
/* Whether the model's own kernels do the step; else those of m->wide do. */
bool hyp_cpu_has_step(const hyp_cpu_model *m, size_t step);
/* Around what is packed for all contexts of the engine: a lock, and the engine's account. */
hyp_mem_account *hyp_cpu_packing_begin(hyp_cpu_model *model);
void hyp_cpu_packing_end(hyp_cpu_model *model, hyp_mem_account *before);
/* Runs it on the session's memory. `bindings` NULL: by itself, in no run. */
HYP_NODISCARD hyp_status hyp_cpu_run_op(const hyp_cpu_session *s, const int64_t *values, const hyp_cpu_op *op,
                                        const hyp_bindings *bindings, hyp_diag *diag);
/* tune.c: hyp_backend.tune */
HYP_NODISCARD hyp_status hyp_cpu_tune(void *session, const int64_t *values, const hyp_tune_options *options,
                                      hyp_tune_report *out, hyp_diag *diag);

typedef hyp_pool_task hyp_cpu_task; /* a part of a loop */
/* Does the parts of 0 .. count on the threads of a run, fewer where each would not have `grain` of them, and returns
 * when all are done. Every loop of a kernel that is worth several threads goes through here; how it is divided must
 * change no result. */
void hyp_cpu_parallel(const hyp_cpu_run *run, int64_t count, int64_t grain, hyp_cpu_task *task, void *state);

/* The end of a preparation: gives the op its state and how it runs. Where the preparation failed or found that there is
 * no kernel for this, the state, which may be half made, is destroyed and op->run stays NULL. */
HYP_NODISCARD hyp_status hyp_cpu_finish_op(hyp_cpu_op *op, hyp_status status, bool can, hyp_cpu_run_fn *run,
                                           void (*destroy)(void *state), void *state);
/* The same for a state that points to nothing of its own, of which the op keeps a copy. */
HYP_NODISCARD hyp_status hyp_cpu_keep_state(hyp_cpu_op *op, hyp_cpu_run_fn *run, const void *state, size_t size,
                                            hyp_diag *diag);

/* Where input i of a call is in a run; NULL: it is left out. */
void *hyp_cpu_call_input(const hyp_cpu_run *run, const HypPlan__Call *call, size_t i);

/* Preparation of each family, in another form than the plain one. Each sets op->run and what it needs, or leaves
 * op->run NULL when it has no kernel for it. `values` stay valid as long as the op. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_linear(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                hyp_cpu_form form, hyp_cpu_op *op, hyp_diag *diag);
/* doubles.c: layers and matmuls in f64. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_doubles(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op,
                                                 hyp_diag *diag);
/* integers.c: single layers and matmuls in i32. integers_conv.c: convolutions in i32 whose weights the plan has. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_integers(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                  hyp_cpu_op *op, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cpu_prepare_integer_conv(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                      const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* channels_last as hyp_choose_layouts found it. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_pointwise(hyp_cpu_model *model, const int64_t *values, const bool *channels_last,
                                                   hyp_cpu_op *op, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cpu_prepare_reduce(hyp_cpu_model *model, const int64_t *values, const bool *channels_last,
                                                hyp_cpu_op *op, hyp_diag *diag);
/* `before`: the operation of the step before, NULL for the first; copies into one tensor run together. channels_last as
 * hyp_choose_layouts found it. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_copy(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                              const bool *channels_last, hyp_cpu_op *before, hyp_cpu_op *op, hyp_diag *diag);
/* In what form else than the plain one calls of this kernel are done, if there is one. */
hyp_cpu_form hyp_cpu_call_form(const char *kernel);
/* resize.c; channels_last as hyp_choose_layouts found it. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_resize(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* pool.c: the largest and the mean of windows. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_pool(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                              const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* pool_gradient.c: max-pool-gradient. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_pool_gradient(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                       const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* batch_norm.c: batch-norm-stats, batch-norm-gradient. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_batch_norm(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                    const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* movement.c: softmax-stats. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_stats(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                               const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);

/* most.c: the largest over axes. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_most(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                              const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
void hyp_cpu_prepare_softmax(hyp_cpu_model *model, hyp_cpu_op *op);
/* columns.c: transposed convolutions, and convolutions with stride 1 and no addend, whose weights the plan has. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_columns(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                 const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* windows.c: convolutions whose weights the plan has; of one group the results of neighbouring places at once, or not. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_windows(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                 const bool *channels_last, bool neighbours, hyp_cpu_op *op, hyp_diag *diag);
/* How many neighbouring places along a line share vectors best, whose results are so many channels of a kernel and stride
 * along it; 1: none do. cost, if not NULL: of the vectors that then are multiplied or read, as many as a place of the
 * kernel has for one result. */
int64_t hyp_cpu_count_neighbours(const hyp_cpu_kernels *kernels, int64_t channels, int64_t kernel, int64_t stride,
                                 double *cost);
/* winograd.c: those of them by 3x3 with stride 1, no gaps and 2 axes. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_winograd(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                  const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* grouped.c: convolutions of at least as many groups as a vector has lanes, of an even number of results each and no
 * addend, whose weights the plan has. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_grouped(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                 const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* depthwise.c: those of one channel to one, at least as many as a vector has lanes, whose weights the plan has. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_depthwise(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* recurrent.c, recurrent_gradient.c: lstm, gru and rnn in f32, and the gradients of them. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_recurrent(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                   const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_cpu_prepare_recurrent_gradient(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                            const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* random.c: random-uniform. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_random(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* norm.c: layer-norm and rms-norm. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_norm(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                              const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* attention.c: attention in f32. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_attention(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op,
                                                   hyp_diag *diag);
/* matmul.c: products of two tensors in f32. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_matmul(hyp_cpu_model *model, const int64_t *values, hyp_cpu_op *op, hyp_diag *diag);
/* attention_gradient.c */
HYP_NODISCARD hyp_status hyp_cpu_prepare_attention_gradient(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                            const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);
/* gradients.c: norm-gradient and softmax-gradient. */
HYP_NODISCARD hyp_status hyp_cpu_prepare_gradient(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                  const bool *channels_last, hyp_cpu_op *op, hyp_diag *diag);

/* Parts of a loop, of `each` elements, that make up `elements`: what one thread should have at least. */
enum { HYP_CPU_COMPUTED = 8192, HYP_CPU_MOVED = 32768 }; /* below these, waking a thread costs more than it helps */
static inline int64_t hyp_cpu_grain(int64_t elements, int64_t each)
{
    return each > 0 && each < elements ? elements / each : 1;
}

/* linear.c: examines a step at load and packs its weights as far as the number of rows is known: values has it, or 1.
 */
HYP_NODISCARD hyp_status hyp_linear_weights_load(hyp_cpu_model *model, uint32_t step, const int64_t *values,
                                                 const hyp_tuning *known, hyp_diag *diag);
void hyp_linear_weights_destroy(hyp_linear_weights *w); /* NULL-safe */
/* Whether every weight lies in the plan, and every n and k is fixed and not 0. */
bool hyp_linear_is_constant(const hyp_plan *plan, const HypPlan__Linear *linear);
/* The constant weight of a layer as the numbers that it stands for, `count` of them: in the plan itself, or, in 8 and 16
 * bits, in new memory, which is *out_made, to be freed by hyp_free; else that is NULL. NULL when memory is out. */
const float *hyp_cpu_layer_floats(const hyp_cpu_model *model, const HypPlan__Layer *layer, size_t count, float **out_made);
const char *hyp_linear_cannot_own(const hyp_linear_weights *w); /* why our own kernel cannot do them; NULL: it can */
size_t hyp_linear_bytes(const hyp_linear_weights *w);           /* of all weights that the plan has */
/* Whether layers shared by so many threads are divided by rows: then each takes some rows through all of them. */
bool hyp_cpu_rows_share(int64_t m, int threads);
/* Else by weights: whether two threads get enough of those of a layer each, for so many rows at a time. */
bool hyp_cpu_layer_shares(const hyp_cpu_kernels *kernels, int64_t n, int64_t k, int64_t rows);

/* y[rows,n] = act(x w + b + added) for up to HYP_MLP_ROWS rows, by as many threads as it is worth; `added` may be NULL,
 * and y where nothing is changed after it is added. Sums do not depend on the number of threads. */
void hyp_cpu_run_layer(const hyp_cpu_run *run, const hyp_mlp_layer *layer, int64_t rows, const float *x,
                       int64_t x_stride, const float *added, float *y, int64_t y_stride);
/* Layers with weights w[count,k,n] and bias[count,n], which may be NULL. Freed by hyp_cpu_free_layers. NULL when memory
 * is out. act NULL: none. */
hyp_mlp *hyp_cpu_pack_layers(const hyp_cpu_kernels *kernels, size_t count, const float *w, int64_t n, int64_t k,
                             const float *bias, const hyp_block_instr *act);
void hyp_cpu_free_layers(hyp_mlp *mlp); /* NULL-safe */
/* Writes the panels of a layer, see hyp_mlp_layer: the weight of column j for element i of x is w[j n_step + i k_step]. There
 * is room for n rounded up to 16. */
void hyp_cpu_pack_panels(const hyp_cpu_kernels *kernels, const float *w, int64_t n_step, int64_t k_step, int64_t n,
                         int64_t k, float *out);

/* c[m,n] = act(op(a) op(b) + bias), or op(a) op(b) + c, of one type, rows so many elements apart; op: a is stored [k,m], b [n,k].
 * A product that is no step's and whose operands are all the caller's. */
typedef struct hyp_cpu_gemm {
    hyp_dtype dtype;
    bool trans_a, trans_b, bias, accumulate;
    HypPlan__Act act;
    int64_t m, n, k, a_ld, b_ld, c_ld;
} hyp_cpu_gemm;
/* gemm.c: by our own kernel, in f32, whatever the processor. Floats that it needs besides the operands, at a multiple of 64 bytes;
 * the size may overflow. */
bool hyp_cpu_gemm_floats(const hyp_cpu_gemm *g, size_t *out);
void hyp_cpu_run_gemm(const hyp_cpu_run *run, const hyp_cpu_gemm *g, const float *a, const float *b, const float *bias,
                      float *c, float *floats);

/* The bytes of a weight tensor (or of a view of one) in the plan; NULL for a tensor that is no weight, and
 * where no weight has any bytes. */
static inline const void *hyp_cpu_weight(const hyp_plan *plan, uint32_t tensor)
{
    uint32_t root = hyp_plan_root(plan->program, tensor);
    return plan->program->tensors[root]->place == HYP_PLAN__PLACE__PLACE_WEIGHT ? hyp_plan_weight(plan, root) : NULL;
}

/* pointwise_wide.c: blocks of pointwise steps that compute in F64, I64 or U64, n elements of 8 bytes each. */
/* out[i] = x[first + i * step] */
void hyp_cpu_wide_load(hyp_dtype compute, hyp_dtype dtype, const void *x, int64_t first, int64_t step, void *out,
                       int64_t n);
/* out[i] = op(x[0][i], x[1][i], x[2][i]), rounded; all three operands can be read. */
void hyp_cpu_wide_instr(hyp_dtype compute, const HypPlan__Pointwise__Instr *in, void *out, const void *const *x,
                        int64_t n);
/* y[i] = x[i] */
void hyp_cpu_wide_store(hyp_dtype compute, hyp_dtype dtype, const void *x, void *y, int64_t n);

#endif
