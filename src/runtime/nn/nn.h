/* nn.h - functions of hypatia/nn.h from the inside: a pass is a list of steps, and what a device has to supply is how
 * one is done.
 *
 *   nn.c        handles: devices, memory, streams
 *   check.c     the caller's tensors, made an MLP
 *   passes.c    which steps a pass is, and on what memory
 */
#ifndef HYP_RUNTIME_NN_NN_H
#define HYP_RUNTIME_NN_NN_H

#include <string.h>

#include "base/mem.h"
#include "hypatia/nn.h"
#include "runtime/core/backend.h"

/* clang-format off */
/* ---- steps ---------------------------------------------------------------------------------------------------
 *
 * All matrices are row-major, of `dtype`, with so many elements from row to row. Operands by kind:
 *
 *              reads                            writes
 *   FORWARD    x w b                            y [rows, out] = act(x w^T + b), aux
 *   DGRAD      y (the gradient) w, aux and h    x (its gradient) [rows, in] = y w, then by act of the layer before; b [in]: its sum
 *   WGRAD      y (the gradient) x               w (the gradient) [out, in] = y^T x, b [out] = the sum of the rows of y
 *   GRAD       y (the gradient) aux             x [rows, out] = y by act
 *   SUMS       y (the gradient)                 b [out] = the sum of the rows of y
 *
 * aux is what the layer with the activation has saved: for a relu a bit an element, rows hyp_nn_mask_ld bits apart; for
 * other activations the sum before it, rows hyp_nn_hidden_ld elements apart. h is the layer's result, rows as far apart.
 */
/* clang-format on */
typedef enum hyp_nn_kind { HYP_NN_FORWARD, HYP_NN_DGRAD, HYP_NN_WGRAD, HYP_NN_GRAD, HYP_NN_SUMS } hyp_nn_kind;

/* Everything that how a step is done depends on, addresses apart. Made by hyp_nn_step_init, so that equal ones are
 * equal bytes. */
typedef struct hyp_nn_step {
    uint8_t kind, act, dtype;
    uint8_t tf32;
    uint8_t bias;     /* b is there */
    uint8_t aux;      /* aux is: FORWARD writes it, DGRAD reads it; DGRAD of a relu without it reads h */
    uint8_t add;      /* DGRAD, WGRAD: x or w is added to what is there */
    uint8_t add_bias; /* b is, where it is written */
    int64_t rows, in, out;
    int64_t x_ld, y_ld;
} hyp_nn_step;

typedef struct hyp_nn_operands {
    void *x, *w, *b, *y, *h, *aux;
} hyp_nn_operands;

static inline void hyp_nn_step_init(hyp_nn_step *s, hyp_nn_kind kind, hyp_dtype dtype, bool tf32)
{
    memset(s, 0, sizeof *s);
    s->kind = (uint8_t)kind;
    s->dtype = (uint8_t)dtype;
    s->tf32 = tf32;
}

/* Elements from row to row of matrices of ours: whole accesses of 16 bytes in every type, as cuBLASLt wants of what
 * GELU_AUX saves. */
static inline int64_t hyp_nn_hidden_ld(int64_t columns) { return (columns + 7) / 8 * 8; }
/* Bits from row to row of a mask, as cuBLASLt wants it. */
static inline int64_t hyp_nn_mask_ld(int64_t columns) { return (columns + 127) / 128 * 128; }

static inline HypPlan__Act hyp_nn_plan_act(uint8_t act)
{
    static const HypPlan__Act acts[] = {HYP_PLAN__ACT__ACT_NONE, HYP_PLAN__ACT__ACT_RELU, HYP_PLAN__ACT__ACT_GELU,
                                        HYP_PLAN__ACT__ACT_GELU_TANH, HYP_PLAN__ACT__ACT_SILU};
    return acts[act];
}

/* Whether it is a product, with more to it or not. */
static inline bool hyp_nn_has_product(const hyp_nn_step *s) { return s->kind <= HYP_NN_WGRAD; }
/* Whether the sums of a layer are kept, not its results: the product's result is aux then where an activation follows. */
static inline bool hyp_nn_keeps_sums(const hyp_nn_step *s)
{
    return s->kind == HYP_NN_FORWARD && s->aux && s->act != HYP_NN_RELU;
}

/* "wgrad bf16 1024x784x2048 bias": rows x in x out. */
enum { HYP_NN_STEP_TEXT = 160 };
void hyp_nn_step_text(const hyp_nn_step *step, char out[HYP_NN_STEP_TEXT]);

/* ---- devices ------------------------------------------------------------------------------------------------- */

/* hyp_backend.nn. Every function but `open` and `close` is called with what `open` gave, with the account of the handle
 * named. */
struct hyp_nn_backend {
    size_t align, saved_align; /* of tensors (0: of their elements), and of what is saved */

    /* The device was opened by hyp_backend.open. HYP_ERR_UNSUPPORTED for a stream where there are none. */
    hyp_status (*open)(void *device, void *stream, void **out_state, hyp_diag *diag);
    void (*close)(void *state); /* waits for what is under way */

    /* Around the steps of a call. *out_workspace: so many bytes of the device's memory for what is between them, which
     * hold until the next call. `end` in any case where `begin` went well; its status is that of the call. */
    hyp_status (*begin)(void *state, void *stream, size_t workspace, void **out_workspace, hyp_diag *diag);
    hyp_status (*end)(void *state, hyp_status status, hyp_diag *diag);
    /* Makes ready what `run` then finds, or makes itself. All extents are positive. */
    hyp_status (*prepare)(void *state, const hyp_nn_step *step, hyp_diag *diag);
    hyp_status (*run)(void *state, const hyp_nn_step *step, const hyp_nn_operands *at, hyp_diag *diag);
    hyp_status (*zero)(void *state, void *at, size_t bytes, hyp_diag *diag); /* NULL: tensors are the host's */
    /* Whether a DGRAD of this activation gives the gradient of the bias on the way; else a WGRAD does. NULL: any does. */
    bool (*sums_on_the_way)(const hyp_nn_step *dgrad);

    /* Finds the fastest way for a step, until a moment of hyp_clock_seconds, and what it takes. NULL: nothing to choose
     * from. */
    hyp_status (*tune)(void *state, const hyp_nn_step *step, double deadline, double *out_seconds, hyp_diag *diag);

    hyp_status (*synchronize)(void *state, hyp_diag *diag);
    void *(*stream)(void *state);          /* NULL: there are none */
    void (*release_captured)(void *state); /* NULL: there are none */
    /* Line i of hyp_nn_describe; false beyond the last. */
    bool (*describe)(const void *state, size_t i, char *out, size_t size);
};

extern const hyp_nn_backend hyp_nn_backend_reference, hyp_nn_backend_cpu;
#ifdef HYP_HAVE_CUDA
extern const hyp_nn_backend hyp_nn_backend_cuda;
#endif

/* Steps that a device remembers: the oldest goes when one more comes. hypatia/nn.h promises the number. */
enum { HYP_NN_REMEMBERED = 1024 };
/* Which of `count` entries, `stride` bytes each, begins with the step; SIZE_MAX: none. Calls come again in the same
 * order, so the search begins behind what was found last. */
static inline size_t hyp_nn_find(const void *entries, size_t stride, size_t count, size_t *last,
                                 const hyp_nn_step *step)
{
    for (size_t i = 1; i <= count; i++) {
        size_t at = *last + i < count ? *last + i : (*last + i) % count;
        if (memcmp((const char *)entries + at * stride, step, sizeof *step) == 0) return *last = at;
    }
    return SIZE_MAX;
}

/* Where one more goes: behind the others, or in the place of the oldest. */
static inline size_t hyp_nn_place(size_t *count, size_t *oldest)
{
    if (*count < HYP_NN_REMEMBERED) return (*count)++;
    size_t at = *oldest;
    *oldest = (at + 1) % HYP_NN_REMEMBERED;
    return at;
}

/* ---- handles ------------------------------------------------------------------------------------------------- */

/* A relu between layers, and whether tuning found its mask to be faster than reading its result again. */
typedef struct hyp_nn_relu {
    uint8_t dtype, tf32;
    bool mask, settled;           /* settled: it was measured, and is not just being */
    int64_t rows, in, width, out; /* of the layers on both sides */
    double seconds[2];            /* that their steps take without the mask, and with it */
} hyp_nn_relu;

typedef struct hyp_nn_range {
    uintptr_t begin, end;
    const char *name; /* of the tensor, for messages */
    size_t layer;     /* that it is of; SIZE_MAX: of none */
    bool written;
} hyp_nn_range;

struct hyp_nn {
    const hyp_backend *backend;
    void *device, *state;
    const char *name; /* the device's */
    hyp_mem_account account;
    hyp_mem_source source;
    HYP_VEC(hyp_nn_relu) relus;
    HYP_VEC(hyp_nn_range) ranges; /* of check.c, kept so that calls allocate nothing */
};

/* Memory of the host that only grows, at a multiple of 64 bytes; what was in it is lost. Freed by hyp_aligned_free. */
static inline hyp_status hyp_nn_grow(void **at, size_t *have, size_t bytes, hyp_diag *diag)
{
    if (bytes <= *have) return HYP_OK;
    void *grown = hyp_aligned_alloc(64, bytes);
    if (!grown) return hyp_fail_memory(diag, bytes);
    hyp_aligned_free(*at);
    *at = grown;
    *have = bytes;
    return HYP_OK;
}

/* ---- check.c ------------------------------------------------------------------------------------------------- */

/* A call's tensors, checked. */
typedef struct hyp_nn_call {
    hyp_nn *nn;
    const hyp_nn_layer *layers;
    size_t count;
    hyp_nn_run_options options;
    hyp_dtype dtype;
    int64_t rows, in, out; /* of x and y */
    void *x, *y, *dx;      /* y: also its gradient; NULL where absent */
    int64_t x_ld, y_ld, dx_ld;
    char *saved;                      /* NULL: none */
    const hyp_nn_gradient *gradients; /* NULL: none is wanted */
} hyp_nn_call;

/* Layers, x's dims and options, without data. */
HYP_NODISCARD hyp_status hyp_nn_read_shapes(const hyp_nn *nn, const hyp_nn_layer *layers, size_t count,
                                            const hyp_tensor *x, const hyp_nn_run_options *options, hyp_nn_call *out,
                                            hyp_diag *diag);
/* Then the data of either pass; ranks and dims of outputs are filled in. */
HYP_NODISCARD hyp_status hyp_nn_read_forward(hyp_nn *nn, const hyp_tensor *x, hyp_tensor *y, hyp_tensor *saved,
                                             hyp_nn_call *c, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_nn_read_backward(hyp_nn *nn, const hyp_tensor *x, const hyp_tensor *saved,
                                              const hyp_tensor *dy, hyp_tensor *dx, hyp_nn_gradient *gradients,
                                              hyp_nn_call *c, hyp_diag *diag);

static inline bool hyp_nn_wanted(const hyp_tensor *t) { return t->dtype != HYP_DTYPE_NONE; }
static inline int64_t hyp_nn_width(const hyp_nn_layer *layer) { return layer->weight.dims[0]; }

/* ---- passes.c ------------------------------------------------------------------------------------------------ */

/* Where layer l's share of what is saved begins: its result, if it is not the last, then aux. False where that many
 * bytes are more than there can be. l == count: how many they are in all. */
bool hyp_nn_saved_at(const hyp_nn_call *c, size_t l, size_t *out_hidden, size_t *out_aux);

/* The relu behind layer l, which is not the last, and what the handle knows of it; NULL: nothing, or there is none. */
hyp_nn_relu hyp_nn_relu_of(const hyp_nn_call *c, size_t l);
hyp_nn_relu *hyp_nn_find_relu(const hyp_nn_call *c, size_t l);

/* What is done with each step of a pass. */
typedef hyp_status hyp_nn_visit(void *user, const hyp_nn_step *step, const hyp_nn_operands *at, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_nn_forward_steps(const hyp_nn_call *c, char *workspace, hyp_nn_visit *visit, void *user,
                                              hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_nn_backward_steps(const hyp_nn_call *c, char *workspace, hyp_nn_visit *visit, void *user,
                                               hyp_diag *diag);
/* Bytes of workspace for either pass. */
HYP_NODISCARD hyp_status hyp_nn_workspace(const hyp_nn_call *c, size_t *out, hyp_diag *diag);

#endif
