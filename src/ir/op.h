/* op.h - what the operator families share: private to src/ir.
 *
 * Each row of ops.def names two functions of these types. An infer function finds arity, attribute kinds and
 * ranks checked by its caller; an eval function finds everything checked and its outputs allocated with the
 * inferred types, so neither repeats the other's work.
 */
#ifndef HYP_IR_OP_H
#define HYP_IR_OP_H

#include "ir/ir.h"

/* A variable of this name and type that begins with the elements of `from`, which may be elided, copied if they are `owned`:
 * graph.c. */
HYP_NODISCARD hyp_status hyp_graph_push_variable(hyp_graph *g, const hyp_value *from, hyp_value_id *out, hyp_diag *diag);

/* ---- inference: infer.c ---------------------------------------------------------------------------- */

typedef struct hyp_infer_call {
    hyp_dims *dims;
    hyp_arena *arena; /* for contents of outputs and texts of messages */
    hyp_op op;
    const hyp_attr *attrs;
    const hyp_infer_value *const *in; /* NULL entries are absent; use hyp_infer_input */
    uint32_t in_count;
    hyp_infer_value *out; /* zeroed */
    uint32_t out_count;
    hyp_diag *diag;
} hyp_infer_call;
typedef hyp_status hyp_infer_fn(const hyp_infer_call *c);

/* Input i, NULL when it is absent. */
static inline const hyp_infer_value *hyp_infer_input(const hyp_infer_call *c, uint32_t i)
{
    return i < c->in_count ? c->in[i] : NULL;
}

/* HYP_ERR_INVALID_ARGUMENT with "operator: message". */
hyp_status hyp_infer_fail(const hyp_infer_call *c, const char *fmt, ...) HYP_PRINTF(2, 3);
/* Text of a type or dim for messages, in the call's arena. */
const char *hyp_infer_type_text(const hyp_infer_call *c, const hyp_type *t);
const char *hyp_infer_dim_text(const hyp_infer_call *c, hyp_dim d);

typedef enum hyp_dtype_class { HYP_CLASS_ANY, HYP_CLASS_NUMERIC, HYP_CLASS_FLOAT } hyp_dtype_class;
/* All inputs that are there have one element type, of this class. */
hyp_status hyp_check_dtype(const hyp_infer_call *c, hyp_dtype_class want);
/* Input i, if it is there, is of i32 or i64. */
hyp_status hyp_check_index_type(const hyp_infer_call *c, uint32_t i);
/* Attribute `attr`, a symbol, is one of the names (NULL-terminated). */
hyp_status hyp_check_sym(const hyp_infer_call *c, uint32_t attr, const char *const *names);
/* Input i has the type of input 0. */
hyp_status hyp_check_alike(const hyp_infer_call *c, uint32_t i);
/* Whether two sizes are equal; noted in the table when they are not (hyp_dims_note_unequal). */
bool hyp_check_equal(const hyp_infer_call *c, hyp_dim x, hyp_dim y);
/* numpy broadcasting of the dims of two types into *out (its dtype is left alone). */
hyp_status hyp_broadcast(const hyp_infer_call *c, const hyp_type *a, const hyp_type *b, hyp_type *out);
/* `axis` in [-rank, rank) made non-negative. */
hyp_status hyp_check_axis(const hyp_infer_call *c, int64_t axis, int32_t rank, int32_t *out);
/* The distinct axes of a list attribute, marked. */
hyp_status hyp_check_axes(const hyp_infer_call *c, const hyp_attr *list, int32_t rank, bool mark[HYP_MAX_RANK]);
/* A list attribute as a shape: at most HYP_MAX_RANK dims, none a negative constant. */
hyp_status hyp_check_shape(const hyp_infer_call *c, const hyp_attr *list, hyp_type *out);

/* Tensors of at most this many elements have contents. */
enum { HYP_MAX_CONTENT = 64 };
/* The number of elements of a type that may have a content: integers of known count, at most
 * HYP_MAX_CONTENT; -1 otherwise. */
int64_t hyp_content_count(const hyp_type *t);
/* The content of the result of an operator of two inputs when both have one; a result that does not fit its type or
 * cannot be told is left unknown. */
hyp_status hyp_infer_pair_content(const hyp_infer_call *c);

/* ---- evaluation: eval.c ---------------------------------------------------------------------------- */

typedef struct hyp_eval_call {
    hyp_op op;
    const hyp_attr *attrs; /* every dim in them is a constant */
    hyp_eval_mode mode;
    const hyp_eval_tensor *const *in; /* NULL entries are absent; use hyp_eval_input */
    uint32_t in_count;
    hyp_eval_tensor *out;
    uint32_t out_count;
    hyp_diag *diag;
} hyp_eval_call;
typedef hyp_status hyp_eval_fn(const hyp_eval_call *c);

static inline const hyp_eval_tensor *hyp_eval_input(const hyp_eval_call *c, uint32_t i)
{
    return i < c->in_count ? c->in[i] : NULL;
}

/* Whether a product is worth a library's call (HYP_EVAL_FAST). */
enum { HYP_SMALL_PRODUCT = 64 * 1024 };
bool hyp_is_large_product(int64_t m, int64_t k, int64_t n);
/* Whether input `i` of an operator is read as floats where it is a large constant of f32 that is in memory as such
 * (hyp_eval_tensor.stored) in HYP_EVAL_FAST. */
bool hyp_eval_reads_stored(hyp_op op, uint32_t i, const hyp_type *type);
/* The floats of such a constant: those in memory, or a copy that is aligned, *out_own, the caller's to free. NULL: no
 * memory. */
const float *hyp_eval_stored(const hyp_eval_tensor *t, float **out_own);
/* In HYP_EVAL_FAST a convolution of floats, or the gradient of one by its weights, as products of matrices with what
 * lies under its windows: eval_conv.c. `call` is that of its kernel, checked. *out_done false: it is another operator,
 * or nothing was done, the kernel has to. */
struct hyp_kernel_call;
hyp_status hyp_eval_conv_fast(const hyp_eval_call *c, const struct hyp_kernel_call *call, bool *out_done);

/* Rounds the elements to t->dtype: floats to the nearest, integers modulo 2^bits. */
void hyp_eval_round(hyp_eval_tensor *t);
/* Sets the elements from those in memory, of its own type. */
void hyp_eval_load_elements(hyp_eval_tensor *t, const void *data);
/* The value with which hyp_eval_round replaces an integer. */
int64_t hyp_wrap_i64(hyp_dtype dtype, int64_t v);

/* Row-major strides of dims, in elements. */
void hyp_strides(int32_t rank, const int64_t *dims, int64_t *out);

/* Walks an index space row by row, a row being its last axis, with an offset and a stride for each of up to
 * three arrays. `for (hyp_walk_start(&w); w.row >= 0; hyp_walk_next(&w))`. */
typedef struct hyp_walk {
    int32_t rank;
    int64_t dims[HYP_MAX_RANK];
    int64_t stride[3][HYP_MAX_RANK]; /* in elements, 0 where the array is broadcast */
    int64_t at[3];                   /* where the arrays' rows start; set before the walk to their first offsets */
    int64_t step[3];                 /* strides along the row */
    int64_t row;                     /* elements of a row, -1 when the walk is over */
    int64_t index[HYP_MAX_RANK];
} hyp_walk;
void hyp_walk_start(hyp_walk *w);
void hyp_walk_next(hyp_walk *w);
/* Strides of an operand of these dims under numpy broadcasting to the walk's space. */
void hyp_walk_broadcast(hyp_walk *w, int which, int32_t rank, const int64_t *dims);
/* Copies an 8-byte element from array 1 to array 0 at every index. */
void hyp_walk_copy(hyp_walk *w, void *to, const void *from);

/* Starts a walk over the elements of `out` (array 0, dense) and those of a and b that broadcast to them (1, 2). */
void hyp_eval_walk(const hyp_eval_tensor *out, const hyp_eval_tensor *a, const hyp_eval_tensor *b, hyp_walk *w);

/* An elementwise operator of one float, without attributes where `attrs` is NULL; x and out may be the same. */
void hyp_eval_unary_f64(hyp_op op, const hyp_attr *attrs, const double *x, double *out, size_t count);

/* ---- generated ------------------------------------------------------------------------------------- */

#define OP(id, name, lo, hi, outs, flags, infer, eval, attrs, gradient, doc)                                           \
    hyp_infer_fn hyp_infer_##infer;                                                                                    \
    hyp_eval_fn hyp_eval_##eval;
#include "ir/ops.def"

typedef struct hyp_op_functions {
    hyp_infer_fn *infer;
    hyp_eval_fn *eval;
} hyp_op_functions;
hyp_op_functions hyp_op_get_functions(hyp_op op);

#endif
