/* writer.h - what the files of this folder share: from a plan to a file of C99.
 *
 * A step becomes a block of C in which its sizes are constants: a call of a function of library/, or loops of its own where
 * the type of elements matters. All of them are written before anything goes to a file, so that what there is no C for is
 * known at once.
 */
#ifndef HYP_C99_WRITER_H
#define HYP_C99_WRITER_H

#include "base/elementwise.h"
#include "base/strbuf.h"
#include "plan/call.h"

enum { HYP_C99_NUMBERS = 64, HYP_C99_TYPES = 32, HYP_C99_LIBRARY = 64 };

/* In which forms a weight is wanted. */
enum {
    HYP_C99_PLAIN = 1,
    HYP_C99_PANELS_NK = 2, /* of a matrix [n, k]: panels of 16 columns of its transpose, [k, columns] each */
    HYP_C99_PANELS_KN = 4, /* the same of [k, n] */
    HYP_C99_PANEL = 16
};

typedef struct hyp_c99_form {
    uint8_t forms;
    int64_t n, k; /* of panels */
} hyp_c99_form;

typedef struct hyp_c99_writer {
    const hyp_plan *plan;
    const HypPlan__Program *p;
    const int64_t *values; /* by dim */
    /* By slot and type: where in the workspace's array of the type the slot begins, in elements. Types have arrays of their
     * own, so that no memory is ever read as another type than it was written as. */
    const size_t *places;
    /* By tensor: 1 + where it is in the workspace's `wide`, as floats, while a step that computes with it runs; 0: it is not
     * there. What is so is of floats to whoever asks. */
    size_t *wide;
    size_t wide_floats;
    hyp_c99_form *weights;           /* by tensor */
    bool functions[HYP_C99_NUMBERS]; /* by number in elementwise.h: it is called */
    bool acts[HYP_C99_NUMBERS];      /* products or convolutions end in it */
    bool library[HYP_C99_LIBRARY];   /* by index in the library: it is wanted */
    bool fails;                      /* some step can fail */
    size_t room;                     /* floats that steps need besides tensors, at most */
    size_t step;                     /* the one that is written */
    const char *lacks;               /* why there is no C for it, NULL where there is */
    hyp_strbuf body;
} hyp_c99_writer;

/* ---- text.c ----------------------------------------------------------------------------------------- */

/* "float", "int64_t"..., "uint16_t" of numbers of 16 bits; NULL where there is no C for the type. */
const char *hyp_c99_type(hyp_dtype dtype);
/* "HYP_FLOATS" or, for numbers of 16 bits, "HYP_BF16" or "HYP_F16". */
const char *hyp_c99_kind(hyp_dtype dtype);
bool hyp_c99_is_short(hyp_dtype dtype);
hyp_dtype hyp_c99_dtype(const hyp_c99_writer *w, uint32_t tensor);
/* Marks a file of the library and all that it includes as wanted. */
void hyp_c99_want(hyp_c99_writer *w, const char *file);
/* Asks for so many floats of room while a step runs; false, and the step is noted as too large, where there is no such
 * number. */
bool hyp_c99_want_room(hyp_c99_writer *w, size_t a, size_t b);

void hyp_c99_float(hyp_strbuf *sb, double value);    /* as a literal, to the bit */
void hyp_c99_name(hyp_strbuf *sb, const char *name); /* of a model, for a comment, which it cannot end */
void hyp_c99_begin(hyp_c99_writer *w);               /* a block; ends with hyp_c99_end */
void hyp_c99_end(hyp_c99_writer *w);
void hyp_c99_tensor(hyp_c99_writer *w, uint32_t tensor); /* an expression: a pointer to its first element */
void hyp_c99_operand(hyp_c99_writer *w, uint32_t tensor_plus1); /* ", " and such an expression; 0 for what is absent */
/* `const float *x = in0;`; `read`: the step does not write it. Tensor + 1, of which 0 makes it NULL. */
void hyp_c99_pointer(hyp_c99_writer *w, const char *name, uint32_t tensor_plus1, bool read);
void hyp_c99_long(hyp_c99_writer *w, const char *name, int64_t value); /* `const long n = 3;` */
void hyp_c99_typedef(hyp_c99_writer *w, const char *name, hyp_dtype dtype);
/* `return 4;`, where data are out of range. */
void hyp_c99_fail(hyp_c99_writer *w);
/* A function of elementwise.h of the expression a; a itself of a number that is none. */
void hyp_c99_function(hyp_c99_writer *w, int number, const char *a, double p, double q);
/* Marks what a product, a convolution or a recurrence ends in as wanted; a number that elementwise.h has not is none. */
void hyp_c99_want_act(hyp_c99_writer *w, int number);
/* Whether elementwise.h has it. */
bool hyp_c99_has_function(int number);
/* Functions that are marked, elementwise ones as macros. */
void hyp_c99_put_functions(const hyp_c99_writer *w, hyp_strbuf *sb);

/* Loops over some axes, and where operands are in them. */
enum { HYP_C99_LANES = HYP_PLAN_POINTWISE_INPUTS + 1 };
typedef struct hyp_c99_nest {
    size_t rank, lanes;
    int64_t extents[HYP_MAX_RANK], strides[HYP_C99_LANES][HYP_MAX_RANK], offsets[HYP_C99_LANES];
} hyp_c99_nest;

void hyp_c99_nest_init(hyp_c99_nest *n, const int64_t *values, const uint32_t *extents, size_t rank);
/* strides NULL: dense. */
void hyp_c99_nest_lane(hyp_c99_nest *n, const int64_t *values, const uint32_t *strides, int64_t offset);
/* Leaves out axes of one element and makes one of axes that lie one behind the other in every lane. */
void hyp_c99_nest_merge(hyp_c99_nest *n);
/* Loops NAME0, NAME1, ...; `inner`: all but so many of the last ones. */
void hyp_c99_nest_loops(hyp_c99_writer *w, const hyp_c99_nest *n, const char *name, size_t inner);
/* The index of a lane in them, as an expression. */
void hyp_c99_nest_index(hyp_c99_writer *w, const hyp_c99_nest *n, size_t lane, const char *name);

/* short.c: has the tensors in 16 bits that a step computes with as floats before it, and what it wrote of them narrowed behind it.
 * Steps that only move elements take them as they are; so are the weights of layers and of convolutions, whose functions widen a
 * part at a time. `list`: what the step reads and writes. */
HYP_NODISCARD hyp_status hyp_c99_widen(hyp_c99_writer *w, const HypPlan__Step *s, const uint32_t *list, size_t reads,
                                       size_t writes, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_c99_narrow(hyp_c99_writer *w, const uint32_t *list, size_t reads, size_t writes, hyp_diag *diag);

/* ---- steps: they write their blocks, or say why there is none (w->lacks) ---------------------------- */

void hyp_c99_linear(hyp_c99_writer *w, const HypPlan__Linear *s);                                 /* products.c */
void hyp_c99_matmul(hyp_c99_writer *w, const HypPlan__Matmul *s);                                 /* products.c */
void hyp_c99_attention(hyp_c99_writer *w, const HypPlan__Attention *s);                           /* products.c */
void hyp_c99_pointwise(hyp_c99_writer *w, const HypPlan__Pointwise *s);                           /* pointwise.c */
void hyp_c99_softmax(hyp_c99_writer *w, const HypPlan__Softmax *s);                               /* movement.c */
void hyp_c99_reduce(hyp_c99_writer *w, const HypPlan__Reduce *s);                                 /* movement.c */
void hyp_c99_copy(hyp_c99_writer *w, const HypPlan__Copy *s);                                     /* movement.c */
void hyp_c99_gather(hyp_c99_writer *w, const HypPlan__Gather *s);                                 /* movement.c */
void hyp_c99_fill(hyp_c99_writer *w, const HypPlan__Fill *s);                                     /* movement.c */
HYP_NODISCARD hyp_status hyp_c99_call(hyp_c99_writer *w, const HypPlan__Call *s, hyp_diag *diag); /* calls.c */

/* Calls of kernels that slide windows: windows.c. A status of another kind than OK: the call does not fit its kernel. */
HYP_NODISCARD hyp_status hyp_c99_conv(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);
HYP_NODISCARD hyp_status hyp_c99_conv_transpose(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);
HYP_NODISCARD hyp_status hyp_c99_pool(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);
HYP_NODISCARD hyp_status hyp_c99_max_pool_places(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);

/* By indices: indices.c. Images: images.c. A status as above. */
HYP_NODISCARD hyp_status hyp_c99_gather_elements(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);
HYP_NODISCARD hyp_status hyp_c99_gather_nd(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);
HYP_NODISCARD hyp_status hyp_c99_one_hot(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);
HYP_NODISCARD hyp_status hyp_c99_scatter_elements(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);
HYP_NODISCARD hyp_status hyp_c99_scatter_nd(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);
HYP_NODISCARD hyp_status hyp_c99_resize(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);
HYP_NODISCARD hyp_status hyp_c99_grid_sample(hyp_c99_writer *w, const HypPlan__Call *s, const hyp_call_arguments *a);

/* ---- file.c: what was written and the weights, to files --------------------------------------------- */

typedef struct hyp_c99_output {
    const char *name, *c_path, *header_path, *weights_path; /* the last two may be NULL */
    const size_t *elements;                                 /* by type, of the workspace */
} hyp_c99_output;

HYP_NODISCARD hyp_status hyp_c99_write(const hyp_c99_writer *w, const hyp_c99_output *out, hyp_diag *diag);

#endif
