/* plan_builder.h - plans made by hand for the tests of the runtime.
 *
 * Everything is checked with cmocka's assertions, so no call returns an error. Dims and tensors are named by
 * their index in the program. Arrays given as weights are copied.
 */
#ifndef HYP_TESTS_PLAN_BUILDER_H
#define HYP_TESTS_PLAN_BUILDER_H

#include "hypatia/runtime.h"
#include "plan/plan.h"

enum { PB_MAX = 512 };

typedef struct plan_builder {
    HypPlan__Program program;
    HypPlan__Dim dims[PB_MAX], *dim_list[PB_MAX];
    HypPlan__Tensor tensors[PB_MAX], *tensor_list[PB_MAX];
    HypPlan__Step steps[PB_MAX], *step_list[PB_MAX];
    const void *weights[PB_MAX]; /* by tensor */
    uint32_t inputs[PB_MAX], outputs[PB_MAX];
    char *symbols[PB_MAX];
    hyp_arena arena;
} plan_builder;

/* Large: keep it static or on the heap. */
void pb_init(plan_builder *b);
void pb_dispose(plan_builder *b);

/* Dims. Equal constants and symbols share one dim. */
uint32_t pb_const(plan_builder *b, int64_t value);
uint32_t pb_symbol(plan_builder *b, const char *name);
uint32_t pb_dim(plan_builder *b, HypPlan__Dim__Kind kind, uint32_t a, uint32_t c);
/* A list of constant dims, in the builder's arena. */
uint32_t *pb_consts(plan_builder *b, size_t count, const int64_t *values);

/* Tensors; `dims` are dim indexes and are copied. */
uint32_t pb_input(plan_builder *b, const char *name, hyp_dtype dtype, size_t rank, const uint32_t *dims);
uint32_t pb_output(plan_builder *b, const char *name, hyp_dtype dtype, size_t rank, const uint32_t *dims);
uint32_t pb_scratch(plan_builder *b, hyp_dtype dtype, uint32_t slot, size_t rank, const uint32_t *dims);
uint32_t pb_view(plan_builder *b, uint32_t of, size_t rank, const uint32_t *dims);
uint32_t pb_weight(plan_builder *b, hyp_dtype dtype, size_t rank, const int64_t *dims, const void *data);

/* Steps. The kernel's message is zeroed (with the lists empty) and is to be filled by the caller. */
HypPlan__Linear *pb_linear(plan_builder *b, uint32_t x, uint32_t y, uint32_t m);
/* Appends a layer; bias and hidden may be PB_NONE. */
#define PB_NONE UINT32_MAX
HypPlan__Layer *pb_layer(plan_builder *b, HypPlan__Linear *linear, int64_t n, int64_t k, uint32_t weight, uint32_t bias,
                         HypPlan__Act act, uint32_t hidden);
HypPlan__Matmul *pb_matmul(plan_builder *b);
/* Of dense operands: `sizes` are those of the batch, m, n and k; b is shared by all of the batch, or has a matrix for each. */
void pb_dense(plan_builder *b, HypPlan__Matmul *step, const int64_t sizes[4], bool trans_a, bool trans_b, bool shared);
HypPlan__Attention *pb_attention(plan_builder *b);
/* An operand of it, in constant strides from element `offset` on: those of its batch axes, of rows, of columns. */
HypPlan__Attention__Operand *pb_attended(plan_builder *b, uint32_t tensor, size_t count, const int64_t *strides,
                                         int64_t offset);
HypPlan__Pointwise *pb_pointwise(plan_builder *b, hyp_dtype compute, size_t rank, const uint32_t *extents);
void pb_operand(plan_builder *b, HypPlan__Pointwise *step, uint32_t tensor, const uint32_t *strides);
/* Returns the register that the instruction defines; all operands must have been added before. */
uint32_t pb_instr(plan_builder *b, HypPlan__Pointwise *step, HypPlan__Pointwise__Op op, uint32_t a, uint32_t c,
                  double p, double q, hyp_dtype to);
void pb_result(plan_builder *b, HypPlan__Pointwise *step, uint32_t tensor, uint32_t reg);
HypPlan__Softmax *pb_softmax(plan_builder *b);
HypPlan__Reduce *pb_reduce(plan_builder *b);
HypPlan__Copy *pb_copy(plan_builder *b);
/* A whole plan: this kernel over the axes of x[dims], of three, that are in `set`, by bit; they are kept with an extent of 1,
 * and named from the end if that is said. */
void pb_over_axes(plan_builder *b, const char *kernel, hyp_dtype dtype, const int64_t dims[3], int set, bool from_end);
/* A whole plan: batch-norm as a step, for which the CUDA backend has no kernel. */
void pb_batch_norm(plan_builder *b);
/* A whole step: y is x, both dense, `count` being the dim of all their elements. */
void pb_copy_all(plan_builder *b, uint32_t x, uint32_t y, uint32_t count);
HypPlan__Gather *pb_gather(plan_builder *b);
HypPlan__Fill *pb_fill(plan_builder *b);
/* The kernel of this name on these tensors, PB_NONE for one that is absent, with one output. Attributes are added one
 * by one, in their order. */
HypPlan__Call *pb_call(plan_builder *b, const char *kernel, size_t inputs, const uint32_t *input, uint32_t output);
void pb_call_output(HypPlan__Call *call, uint32_t output); /* a further one */
/* The same for a custom operator; its attributes are left to the caller. */
HypPlan__Custom *pb_custom(plan_builder *b, const char *domain, const char *name, size_t inputs, const uint32_t *input,
                           uint32_t output);
void pb_call_int(plan_builder *b, HypPlan__Call *call, int64_t value);
void pb_call_ints(plan_builder *b, HypPlan__Call *call, size_t count, const int64_t *values);
void pb_call_float(plan_builder *b, HypPlan__Call *call, double value);
void pb_call_symbol(plan_builder *b, HypPlan__Call *call, const char *text);

/* Writes the plan to a new file in the folder for temporary files; the caller unlinks `path`. */
enum { PB_PATH = 256 };
void pb_write(plan_builder *b, char path[PB_PATH]);
/* Removes that file and disposes of the builder. */
void pb_remove(plan_builder *b, const char *path);

/* Writes, loads on a device with one thread, and removes the file. */
hyp_engine *pb_load(plan_builder *b, hyp_device_kind device);

#endif
