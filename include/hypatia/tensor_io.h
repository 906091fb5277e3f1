/* hypatia/tensor_io.h - tensors in files: .npy, .pb (ONNX TensorProto), raw .bin. */
#ifndef HYPATIA_TENSOR_IO_H
#define HYPATIA_TENSOR_IO_H

#include "hypatia/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a tensor. The kind follows the suffix: .npy (NumPy format 1 to 3, C order, little-endian; bf16 is
 * not a NumPy type and is written as '<V2'), .pb (an ONNX TensorProto; its name is taken), .bin (raw
 * elements: `want` must give the type and dims, one dim may be -1). `want` may be NULL for the others; when
 * given, a tensor of another type or with other fixed dims is refused. out->data is owned by the caller:
 * hyp_tensor_dispose. */
HYP_API HYP_NODISCARD hyp_status hyp_tensor_load(const char *path, const hyp_tensor *want, hyp_tensor *out,
                                                hyp_diag *diag);

/* A .npy file that is mapped: its elements stay in the file until they are read, so that one may be larger than memory.
 * out->data, borrowed from *out_mapping until hyp_tensor_unmap, is not to be written to, and is aligned as the file has
 * it, which of those that NumPy writes is to 64 bytes. What shortens the file meanwhile ends the process that reads it
 * (SIGBUS). Errors as of hyp_tensor_load. Thread-safe. */
typedef struct hyp_tensor_mapping hyp_tensor_mapping;
HYP_API HYP_NODISCARD hyp_status hyp_tensor_map(const char *path, hyp_tensor *out, hyp_tensor_mapping **out_mapping,
                                                hyp_diag *diag);
HYP_API void hyp_tensor_unmap(hyp_tensor_mapping *mapping); /* NULL-safe */

/* Writes a host tensor by the suffix of `path` (.npy, .pb, .bin); the file appears whole or not at all. */
HYP_API HYP_NODISCARD hyp_status hyp_tensor_save(const char *path, const hyp_tensor *tensor, hyp_diag *diag);

/* Allocates zeroed memory for the type and dims that are set in `t` (64-byte aligned) and sets data and
 * bytes; the name stays the caller's. */
HYP_API HYP_NODISCARD hyp_status hyp_tensor_alloc(hyp_tensor *t, hyp_diag *diag);
/* Frees the memory of a tensor made by the functions above (a name that hyp_tensor_load read lies in it
 * too) and zeroes the tensor. NULL-safe. */
HYP_API void hyp_tensor_dispose(hyp_tensor *t);

/* Fills a tensor from a seed, the same on every machine: floats uniform in [-1, 1), integers in [0, 8),
 * bools 0 or 1. */
HYP_API void hyp_tensor_randomize(hyp_tensor *t, uint64_t seed);

/* Sample inputs that tell something, the same on every machine and for every size of the other axes. */
typedef enum hyp_draw {
    HYP_DRAW_ORDINARY = 0, /* floats about normal, of mean 0 and deviation 1; integers uniform in [low, high] */
    HYP_DRAW_WIDE = 1,     /* floats of another magnitude in every row (last axis), 2^low to 2^high, with zeros of both
                            * signs, integers and halves among them; integers in [low, high], the ends more often */
    HYP_DRAW_EDGES = 2,    /* ordinary, with NaN, infinities and zeros in every second row; where high > 0 also the
                            * largest, subnormals and large integers */
    HYP_DRAW_COUNT
} hyp_draw;
HYP_API void hyp_tensor_draw(hyp_tensor *t, hyp_draw how, uint64_t seed, int64_t low, int64_t high);

/* Product of dims; -1 if it overflows or a dim is negative. */
HYP_API int64_t hyp_tensor_elements(const hyp_tensor *t);
/* Element `i` (row-major, within the tensor's memory) of a host tensor of any type; 64-bit integers may round. */
HYP_API double hyp_tensor_at(const hyp_tensor *t, int64_t i);

/* How two tensors of equal type and dims differ, as numpy.allclose counts it: |a - ref| <= atol + rtol |ref|.
 * NaN equals NaN; infinities of one sign are equal. */
typedef struct hyp_comparison {
    size_t size;                    /* sizeof(hyp_comparison) */
    int64_t elements, outside;      /* outside: beyond the tolerance */
    double max_abs, max_rel;        /* over finite pairs */
    int64_t max_abs_at, max_rel_at; /* flat index, -1 when there is none */
    double atol_needed;             /* smallest atol that would pass with this rtol */
    double rtol_needed;             /* smallest rtol that would pass with this atol */
} hyp_comparison;
/* Fills in *out, whose size is set. HYP_ERR_INVALID_ARGUMENT if types or dims differ; elements outside are no error here. */
HYP_API HYP_NODISCARD hyp_status hyp_tensor_compare(const hyp_tensor *actual, const hyp_tensor *reference, double rtol,
                                                    double atol, hyp_comparison *out, hyp_diag *diag);

/* How a tensor differs from what was expected, each element with a tolerance of its own. */
typedef struct hyp_judgement {
    size_t size;                          /* sizeof(hyp_judgement) */
    int64_t elements, undecided, outside; /* of undecided ones the tolerance is infinite; outside: beyond it */
    double mean_abs, max_abs, max_rel;    /* over finite pairs that are decided */
    int64_t max_abs_at, max_rel_at;       /* flat index, -1 when there is none */
    int64_t worst_at;                     /* where the difference is the largest part of the tolerance, -1 when there is none */
    double worst_abs, worst_allowed;      /* there: INFINITY where one of the two is no finite number */
    double factor;                        /* tolerances times this would pass; INFINITY: none would */
} hyp_judgement;
/* Fills in *out, whose size is set. `tolerance` is of f64 and of the dims of `expected`. HYP_ERR_INVALID_ARGUMENT if types or dims differ. NaN equals NaN;
 * a tolerance of 0 wants equal numbers, zeros of either sign. */
HYP_API HYP_NODISCARD hyp_status hyp_tensor_judge(const hyp_tensor *actual, const hyp_tensor *expected,
                                                  const hyp_tensor *tolerance, hyp_judgement *out, hyp_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
