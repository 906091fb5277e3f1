/* kernels.h - operators on dense arrays in plain C: one function each, shared by the reference interpreter of the
 * compiler and by the host backends of the runtime, which run it wherever they have nothing faster.
 *
 * A kernel is a row of kernels.def and a function hyp_kernel_<id> in its family's file. It is called by the name of
 * its operator with arrays and attributes in the order of the operator's row in ir/ops.def. It
 *   - checks the shapes of its arrays first, for a plan may come from anywhere: after hyp_kernel_fail nothing was
 *     written outside of them;
 *   - reads and writes elements by the accessors below, which know how they lie in memory;
 *   - computes floats in double and rounds once, when it stores;
 *   - allocates nothing: what it needs besides its arrays is in `scratch`;
 *   - writes every element of its outputs, which overlap no input.
 * Kernels have no state: any number of threads may run them.
 */
#ifndef HYP_KERNELS_KERNELS_H
#define HYP_KERNELS_KERNELS_H

#include "base/diag.h"
#include "base/dtype.h"

/* A dense row-major tensor. No product of some of its dims overflows: who makes one has asked hyp_add_axis. */
typedef struct hyp_array {
    hyp_dtype dtype;  /* what the elements are; HYP_DTYPE_NONE: an optional input that is absent */
    hyp_dtype stored; /* how they lie in memory: as dtype, or in the interpreter as F64 or I64 */
    int32_t rank;
    int64_t dims[HYP_MAX_RANK];
    int64_t count; /* product of dims */
    void *data;    /* NULL while only sizes are asked for */
} hyp_array;

typedef enum hyp_kernel_attr_kind {
    HYP_KERNEL_INT = 'i',
    HYP_KERNEL_FLOAT = 'f',
    HYP_KERNEL_SYM = 's', /* a symbol: a mode, an activation */
    HYP_KERNEL_INTS = 'l' /* a list: axes, pads */
} hyp_kernel_attr_kind;

typedef struct hyp_kernel_attr {
    hyp_kernel_attr_kind kind;
    uint32_t count; /* of INTS */
    union {
        int64_t i;
        double f;
        const char *sym;
        const int64_t *ints;
    };
} hyp_kernel_attr;

enum {
    HYP_KERNEL_MAX_INPUTS = 32,
    HYP_KERNEL_MAX_OUTPUTS = 8,
    HYP_KERNEL_MAX_ATTRS = 10,
    HYP_KERNEL_MAX_INTS = 128, /* in all lists of a call together */
    HYP_KERNEL_ANY = INT32_MAX /* inputs or outputs: as many as fit */
};

typedef struct hyp_kernel_call {
    const char *op; /* the operator's name, for messages */
    const hyp_array *in;
    uint32_t in_count; /* absent ones at the end are not counted */
    hyp_array *out;    /* shapes as inferred */
    uint32_t out_count;
    const hyp_kernel_attr *attrs;
    void *scratch; /* 64-byte aligned, as many bytes as the kernel's scratch function says; never NULL, which has no parts */
    hyp_diag *diag;
} hyp_kernel_call;

typedef hyp_status hyp_kernel_fn(const hyp_kernel_call *c);
/* Bytes of scratch that a call of these shapes needs (its data pointers may be NULL, its shapes unchecked: shapes that
 * the kernel will refuse may get any answer). SIZE_MAX: more than memory has. */
typedef size_t hyp_kernel_scratch_fn(const hyp_kernel_call *c);

/* Operations of such a call: additions and multiplications of convolutions and recurrences, for others all that its
 * loops do, to within a small factor, and at most, where the data decide. What is beyond any number is infinite. */
typedef double hyp_kernel_work_fn(const hyp_kernel_call *c);

typedef struct hyp_kernel {
    const char *name;
    uint32_t min_inputs, max_inputs, min_outputs, max_outputs;
    const char *attrs; /* a letter each, see hyp_kernel_attr_kind; F, at the end: a FLOAT that plans may lack, which is
                          0 then */
    hyp_kernel_fn *run;
    hyp_kernel_scratch_fn *scratch;
    hyp_kernel_work_fn *work;
} hyp_kernel;

/* How many attributes a plan gives at least. */
size_t hyp_kernel_least_attrs(const hyp_kernel *k);
/* NULL when there is no kernel of this name. */
const hyp_kernel *hyp_kernel_find(const char *name);
/* All of them, in the order of kernels.def. */
const hyp_kernel *hyp_kernel_list(size_t *out_count);
/* Arity and kinds of attributes are those of the row; says what is wrong otherwise (HYP_ERR_MALFORMED). */
HYP_NODISCARD hyp_status hyp_kernel_check(const hyp_kernel *k, const hyp_kernel_call *c);

/* ---- for kernels ---------------------------------------------------------------------------------- */

/* HYP_ERR_INVALID_ARGUMENT with "operator: message". */
hyp_status hyp_kernel_fail(const hyp_kernel_call *c, const char *fmt, ...) HYP_PRINTF(2, 3);
/* The same shape, element by element. */
bool hyp_array_same_shape(const hyp_array *a, const hyp_array *b);
/* Checks that `a` has this shape. `what` names it. */
hyp_status hyp_kernel_want_shape(const hyp_kernel_call *c, const hyp_array *a, int32_t rank, const int64_t *dims,
                                 const char *what);
/* For normalizations, of which attribute 0 is an axis: x, input 0, as rows of `size` elements, those of the axes from
 * that on. Fails unless output 0 is like x, scale and bias have that many elements or are absent, and further outputs
 * one a row. */
hyp_status hyp_kernel_norm_rows(const hyp_kernel_call *c, int64_t *rows, int64_t *size);
/* The same for norm-gradient: input 1 is like x, and input 2 the scale. `by_scale`: what its attribute `by` says. */
hyp_status hyp_kernel_norm_gradient_rows(const hyp_kernel_call *c, int64_t *rows, int64_t *size, bool *by_scale);
/* Checks the arrays of linear-gradient: g[rows, n], x[rows, k], and what it gives, [n, k] ([k, n] if turned) and [n]. */
hyp_status hyp_kernel_linear_gradient_check(const hyp_kernel_call *c);
/* For lrn, over the channels of x [., channels, inner]. */
hyp_status hyp_kernel_read_lrn(const hyp_kernel_call *c, int64_t *channels, int64_t *inner);
/* For softmax-gradient: its arrays as [outer, size, inner], that along the axis in the middle. */
hyp_status hyp_kernel_softmax_gradient_rows(const hyp_kernel_call *c, int64_t *outer, int64_t *size, int64_t *inner);
/* `axis` of -rank .. rank-1 made non-negative. */
hyp_status hyp_kernel_axis(const hyp_kernel_call *c, int64_t axis, int32_t rank, int32_t *out);
/* An index of the data into an axis of `size`, from the end when negative, made non-negative; one that is out of range
 * is HYP_ERR_INVALID_ARGUMENT with the index and the axis. */
hyp_status hyp_kernel_index(const hyp_kernel_call *c, int64_t index, int32_t axis, int64_t size, int64_t *out);
/* Elements before, along and behind an axis. */
void hyp_array_split(const hyp_array *a, int32_t axis, int64_t *outer, int64_t *size, int64_t *inner);
/* Row-major strides, in elements. */
void hyp_array_strides(const hyp_array *a, int64_t strides[HYP_MAX_RANK]);

/* Steps to the next index of a box, the last axis fastest; after the last one it is back at the first. */
static inline void hyp_index_next(int32_t rank, const int64_t *dims, int64_t *index)
{
    for (int32_t a = rank; a-- > 0;) {
        if (++index[a] < dims[a]) return;
        index[a] = 0;
    }
}

static inline bool hyp_array_is_float(const hyp_array *a) { return hyp_dtype_is_float(a->dtype); }

/* Input i, NULL when it is absent. */
static inline const hyp_array *hyp_kernel_input(const hyp_kernel_call *c, uint32_t i)
{
    return i < c->in_count && c->in[i].dtype != HYP_DTYPE_NONE ? &c->in[i] : NULL;
}

static inline double hyp_array_f64(const hyp_array *a, int64_t i)
{
    if (a->stored == HYP_F32) {
        float v;
        memcpy(&v, (const char *)a->data + (size_t)i * sizeof v, sizeof v);
        return (double)v;
    }
    if (a->dtype == HYP_U64) return (double)(uint64_t)hyp_load_i64(a->stored, a->data, (size_t)i);
    return hyp_load_f64(a->stored, a->data, (size_t)i);
}

/* Integers and bool; u64 as the int64 of the same bits. */
static inline int64_t hyp_array_i64(const hyp_array *a, int64_t i)
{
    return hyp_load_i64(a->stored, a->data, (size_t)i);
}

/* Rounds to the element type, once. */
static inline void hyp_array_set_f64(const hyp_array *a, int64_t i, double v)
{
    if (a->stored == HYP_F32) {
        float narrow = (float)v;
        memcpy((char *)a->data + (size_t)i * sizeof narrow, &narrow, sizeof narrow);
        return;
    }
    hyp_store_f64(a->stored, a->data, (size_t)i, v);
}

/* Wraps to the element type. */
static inline void hyp_array_set_i64(const hyp_array *a, int64_t i, int64_t v)
{
    hyp_store_i64(a->stored, a->data, (size_t)i, v);
}

/* Element j of `from` to element i of `to`, which is of the same type. */
static inline void hyp_array_copy(const hyp_array *to, int64_t i, const hyp_array *from, int64_t j)
{
    if (to->stored == HYP_F32) {
        memcpy((char *)to->data + 4 * (size_t)i, (const char *)from->data + 4 * (size_t)j, 4);
        return;
    }
    size_t size = hyp_dtype_size(to->stored);
    memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)j * size, size);
}

#endif
