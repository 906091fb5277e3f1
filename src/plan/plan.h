/* plan.h - plan files: writing, opening, validating. Shared by the code generator and the runtime; sees base
 * alone.
 *
 * File: a 256-byte header (magic, version, lengths, checksums), the program (plan.proto), the weights section
 * (each weight at a multiple of 256 bytes from the start of the file and of the section), and sections tied to
 * one device. Little-endian. docs/plan-format.md has the byte layout.
 */
#ifndef HYP_PLAN_PLAN_H
#define HYP_PLAN_PLAN_H

#include "base/file.h"
#include "hypatia/types.h"
#include "plan.pb-c.h"

#define HYP_PLAN_MAGIC "HYPPLAN\n"
enum { HYP_PLAN_MAJOR = 3, HYP_PLAN_MINOR = 0, HYP_PLAN_ALIGN = 256, HYP_PLAN_HEADER = 256 };

/* Limits of a Pointwise step, so that kernels can keep everything in fixed arrays. Registers are inputs and
 * instructions together. Every list of extents or strides in a program has at most HYP_MAX_RANK entries. */
/* What one call of a kernel can have: tensors, attributes, numbers in all of them. */
enum { HYP_PLAN_CALL_INPUTS = 32, HYP_PLAN_CALL_OUTPUTS = 8, HYP_PLAN_CALL_ATTRS = 10, HYP_PLAN_CALL_INTS = 128 };
enum { HYP_PLAN_CUSTOM_INPUTS = 128, HYP_PLAN_CUSTOM_OUTPUTS = 64, HYP_PLAN_CUSTOM_ATTRS = 256 };
enum { HYP_PLAN_MAX_RECORD = 4 << 20 }; /* bytes of Program.record */
enum { HYP_PLAN_POINTWISE_INPUTS = 8, HYP_PLAN_POINTWISE_OUTPUTS = 4, HYP_PLAN_POINTWISE_REGISTERS = 32 };

/* How many registers an instruction reads, of a, b and c in this order; -1 for an unknown one. */
int hyp_plan_pointwise_arity(HypPlan__Pointwise__Op op);
/* What people call an activation: "gelu-tanh"; "?" for an unknown one. */
const char *hyp_plan_act_name(HypPlan__Act act);
/* The instruction that computes it; CAST, which changes nothing, for none. */
HypPlan__Pointwise__Op hyp_plan_act_op(HypPlan__Act act);
/* And back: none for what products cannot end in. */
HypPlan__Act hyp_plan_op_act(HypPlan__Pointwise__Op op);
/* What people call the kernel of a step: "linear"; of a call the operator that it computes. */
const char *hyp_plan_kernel_name(const HypPlan__Step *step);

/* An open plan: immutable, may be read by any number of threads. */
typedef struct hyp_plan {
    const HypPlan__Program *program; /* every index in it has been checked */
    const uint8_t *weights;          /* mapped, 256-byte aligned in a file; in place */
    uint64_t weights_bytes;
    uint64_t read_bytes; /* of the weights up to the last one that a step reads: what is behind no device needs */
    uint32_t major, minor;
    uint64_t file_bytes; /* without a signature behind it */
    hyp_mapping mapping;           /* empty for a plan in the caller's memory */
    const uint8_t *file;           /* the whole of it */
    const HypPlan__Device *device; /* the device section, checked; NULL when there is none */
    const uint8_t *signer;         /* the public key that it is signed by, it says; NULL: it is not signed */
    void *copied;                  /* the weights, when the caller's memory was not aligned; NULL otherwise */
    /* By tensor: bytes that are there in place of those of a weight, which they are as many as; NULL where there are
     * none. Not the plan's. */
    const uint8_t *const *replaced;
    /* By step, what the runtime calls for a custom operator, NULL for others: runtime/core/custom.h sets it, and owns it. */
    struct hyp_custom_step *const *custom;
} hyp_plan;

typedef struct hyp_plan_open_options {
    bool header_only; /* of the checksums only the header's is verified: saves reading the weights at load */
    const uint8_t *signer; /* the public key that it has to be signed by, checked before anything else; NULL: any or none */
} hyp_plan_open_options;

/* Opens and validates: magic, version, lengths, checksums, then every index, shape and size of the program, so
 * that no later reader needs a check. HYP_ERR_MALFORMED for what is no plan or a damaged one,
 * HYP_ERR_INCOMPATIBLE for another major version or an unknown kernel (the message says which version was
 * found, which is read, and how to rebuild), HYP_ERR_SIGNATURE, HYP_ERR_IO. options may be NULL. */
HYP_NODISCARD hyp_status hyp_plan_open_file(const char *path, const hyp_plan_open_options *options, hyp_plan *out,
                                            hyp_diag *diag);
/* The same over memory that stays the caller's and must outlive the plan; it must be 64-byte aligned (else the
 * weights are copied). */
HYP_NODISCARD hyp_status hyp_plan_open_memory(const void *data, size_t size, const char *name,
                                              const hyp_plan_open_options *options, hyp_plan *out, hyp_diag *diag);
void hyp_plan_close(hyp_plan *plan);

/* The public key of a signature as people see it, in hexadecimal; "" of NULL. */
enum { HYP_PLAN_KEY_TEXT = 65 };
const char *hyp_plan_key_text(const uint8_t *key, char out[HYP_PLAN_KEY_TEXT]);

/* Checks every index, type, list and place of a program, that steps read only what was written before and still
 * stands, and that every output is written; also hyp_plan_check_bounds, or hyp_plan_check_fixed where there are
 * symbols. Called when plans are opened and written. Messages name the step or tensor. */
HYP_NODISCARD hyp_status hyp_plan_validate(const HypPlan__Program *program, hyp_diag *diag);

/* Checks what everyone may rely on in a device section: that names and keys are there, that keys ascend, that
 * algorithms have 1 to HYP_PLAN_MAX_ALGORITHM bytes and times are times. What the bytes of an algorithm mean is for the
 * backend to check. Called when plans are opened and written. */
enum { HYP_PLAN_MAX_ALGORITHM = 1 << 20 };
HYP_NODISCARD hyp_status hyp_plan_validate_device(const HypPlan__Device *device, hyp_diag *diag);

/* Gives the bytes of a WEIGHT tensor: *out points to tensors[index]->bytes bytes, valid until the next call. */
typedef struct hyp_plan_weights {
    hyp_status (*get)(void *user, uint32_t tensor, const void **out, hyp_diag *diag);
    void *user;
} hyp_plan_weights;

/* Sets the offset of every WEIGHT tensor of the program, in order of tensor index. */
void hyp_plan_place_weights(HypPlan__Program *program);

/* Looks at a plan that is whole but has not its name yet; what it returns other than HYP_OK is that of the writing, which
 * then leaves nothing. Not called where the plan goes to what is no regular file: hyp_outfile. */
typedef struct hyp_plan_check {
    hyp_status (*check)(void *user, const char *path, hyp_diag *diag);
    void *user;
} hyp_plan_check;

/* Validates and writes a plan; weights stream through one at a time, so memory stays at the largest one. The
 * file appears whole or not at all. Same program and weights, same bytes. `check` may be NULL. Sets the cases of the
 * program's numbers. */
HYP_NODISCARD hyp_status hyp_plan_write(const char *path, HypPlan__Program *program, const hyp_plan_weights *weights,
                                        const hyp_plan_check *check, hyp_diag *diag);

/* Writes an open plan with another device section; NULL: without one. The rest stays as it is, byte for byte. `path`
 * may be the file that the plan was opened from. */
HYP_NODISCARD hyp_status hyp_plan_write_device(const char *path, const hyp_plan *plan, const HypPlan__Device *device,
                                               hyp_diag *diag);

/* ---- what a program means at run time -------------------------------------------------------------- */

/* Finds the value of every symbol from the dims of the inputs, or says which input's dim contradicts. An axis that is
 * an expression of one unknown symbol is solved for it, any other is checked.
 * dims[i][a] is axis a of input i. symbols has program->n_symbols entries. */
HYP_NODISCARD hyp_status hyp_plan_bind_symbols(const HypPlan__Program *program, const int64_t *const *dims,
                                               const int32_t *ranks, int64_t *symbols, hyp_diag *diag);
/* Fills in symbols and dims of inputs that are -1, as far as the others tell; the rest stays -1. For callers that make
 * inputs. Contradictions are left to hyp_plan_bind_symbols, but for an axis that no size of its symbol gives. */
HYP_NODISCARD hyp_status hyp_plan_complete_dims(const HypPlan__Program *program, int64_t *const *dims,
                                                int64_t *symbols, hyp_diag *diag);
/* The first symbol whose value neither the shapes of the inputs nor the kernels of custom operators tell; program->n_symbols
 * when there is none. Reads dims, symbols, inputs and custom steps alone, which are valid. */
HYP_NODISCARD hyp_status hyp_plan_find_unbound(const HypPlan__Program *program, size_t *out_symbol, hyp_diag *diag);
/* Evaluates every dim; values has program->n_dims entries: HYP_PLAN_UNKNOWN where it takes a symbol that is below 0.
 * HYP_ERR_LIMIT on overflow. */
#define HYP_PLAN_UNKNOWN INT64_MIN
HYP_NODISCARD hyp_status hyp_plan_eval_dims(const HypPlan__Program *program, const int64_t *symbols, int64_t *values,
                                            hyp_diag *diag);
/* Elements of a tensor under evaluated dims; HYP_ERR_LIMIT when the bytes do not fit ptrdiff_t. */
HYP_NODISCARD hyp_status hyp_plan_elements(const HypPlan__Program *program, uint32_t tensor, const int64_t *values,
                                           int64_t *out, hyp_diag *diag);
/* The bytes of these elements. */
HYP_NODISCARD hyp_status hyp_plan_tensor_bytes(const HypPlan__Program *program, uint32_t tensor, const int64_t *values,
                                               size_t *out, hyp_diag *diag);
/* What stands among the rules of a step that computes again what was not kept, so that less memory is taken. */
#define HYP_PLAN_RECOMPUTE "recompute"
size_t hyp_plan_recomputed(const HypPlan__Program *program); /* such steps */

/* Bytes of the constants that steps read; what variables begin with is not among them. HYP_ERR_NO_MEMORY. */
HYP_NODISCARD hyp_status hyp_plan_constant_bytes(const HypPlan__Program *program, size_t *out, hyp_diag *diag);

/* ---- scratch memory --------------------------------------------------------------------------------- */

enum { HYP_PLAN_SLOT_ALIGN = 256 }; /* where a GPU's tensors begin: at multiples of it */

/* A piece of scratch memory that is wanted from step `first` to step `last`. */
typedef struct hyp_plan_block {
    size_t bytes, at;
    uint32_t first, last;
} hyp_plan_block;

typedef struct hyp_plan_blocks {
    hyp_plan_block *list;
    size_t count;
    uint32_t *block_plus1; /* by tensor: the block of a scratch tensor that a step touches; 0: none */
} hyp_plan_blocks;

/* Lists what scratch tensors want under these dims, with room for `more` blocks behind them. Tensors of which a step writes
 * one over the other, as their common slot says, are one block. Of a valid program; *out is to be freed after success. */
HYP_NODISCARD hyp_status hyp_plan_list_blocks(const HypPlan__Program *program, const int64_t *values, size_t more,
                                              hyp_plan_blocks *out, hyp_diag *diag);
void hyp_plan_blocks_free(hyp_plan_blocks *blocks);
/* Gives every block its place, `at`, beside all that are wanted at the same time, and rounds sizes up to
 * HYP_PLAN_SLOT_ALIGN; *out_total: bytes of all. The same list gives the same places. HYP_ERR_LIMIT where sizes are beyond
 * any. */
HYP_NODISCARD hyp_status hyp_plan_place_blocks(hyp_plan_blocks *blocks, size_t *out_total, hyp_diag *diag);
/* The same of blocks whose steps say less than `at_once` does: whether two of the list, by their places in it, are wanted at the
 * same time. */
typedef bool hyp_plan_at_once_fn(const void *user, size_t a, size_t b);
HYP_NODISCARD hyp_status hyp_plan_place_apart(hyp_plan_blocks *blocks, hyp_plan_at_once_fn *at_once, const void *user,
                                              size_t *out_total, hyp_diag *diag);

/* Makes slots[slot] the bytes of the largest tensor in each slot under these dims, where that is more than it has. */
HYP_NODISCARD hyp_status hyp_plan_slot_bytes(const HypPlan__Program *program, const int64_t *values, size_t *slots,
                                             hyp_diag *diag);
/* Bytes of scratch memory under these dims as the device that the program is made for places it: a GPU in blocks, others in
 * slots, each as large as its largest tensor and counted here as a multiple of HYP_PLAN_SLOT_ALIGN. HYP_ERR_LIMIT where they
 * are beyond any size. */
HYP_NODISCARD hyp_status hyp_plan_scratch_bytes(const HypPlan__Program *program, const int64_t *values, size_t *out,
                                                hyp_diag *diag);

/* ---- sizes ------------------------------------------------------------------------------------------ */

/* Checks that every step stays inside its tensors under these dims (strides and offsets of copies and
 * operands included), that its shapes agree, and that copies fill the tensor that they build, so that kernels
 * need no bounds checks. Run once per set of shapes. HYP_ERR_INVALID_ARGUMENT: the model cannot take these
 * shapes; HYP_ERR_LIMIT: sizes that do not fit. */
HYP_NODISCARD hyp_status hyp_plan_check_bounds(const HypPlan__Program *program, const int64_t *values, hyp_diag *diag);

/* Checks as much of it as shapes have no part in, for what is done before there are any: tensors and the weights of layers,
 * which backends pack when they load a plan. */
HYP_NODISCARD hyp_status hyp_plan_check_fixed(const HypPlan__Program *program, hyp_diag *diag);

/* Work of one step under evaluated dims. */
typedef struct hyp_step_work {
    double flops; /* additions and multiplications; of calls, of convolutions and recurrences alone */
    double bytes; /* read and written, weights included, every tensor once */
    double
        most; /* operations of any kind that it may take: flops, or of other calls what their row of kernels.def says */
} hyp_step_work;
hyp_step_work hyp_plan_step_work(const HypPlan__Program *program, uint32_t step, const int64_t *values);

/* What a run is predicted to take for typical sizes, and what its steps are one after the other; 0 = not predicted. */
double hyp_plan_predicted(const HypPlan__Program *program);
double hyp_plan_predicted_steps(const HypPlan__Program *program);

/* A tolerance of Golden.Output, and the least byte that stands for at least this tolerance. */
double hyp_plan_tolerance(uint8_t byte);
uint8_t hyp_plan_tolerance_byte(double tolerance);

/* The variables that a run changes: so many outputs are theirs, the last ones. */
static inline size_t hyp_plan_changed(const HypPlan__Program *program)
{
    size_t count = 0;
    for (size_t i = 0; i < program->n_variables; i++) count += program->variables[i]->output_plus1 != 0;
    return count;
}

/* in_place.c. *out: the first step of the commit, the steps at the end that do nothing but give variables their new values,
 * element by element, and so cannot fail; n_steps where there are none. Of a program whose variables and steps are valid, as
 * below. HYP_ERR_NO_MEMORY. */
HYP_NODISCARD hyp_status hyp_plan_find_commit(const HypPlan__Program *program, uint32_t *out, hyp_diag *diag);
/* out, by variable: whether what it becomes may be written over it. That is so where a step of the commit writes it that reads
 * the variable, if at all, element by element in the same order, no step behind it reads the variable, and no output of the
 * program is cut by a count. HYP_ERR_NO_MEMORY. */
HYP_NODISCARD hyp_status hyp_plan_find_in_place(const HypPlan__Program *program, bool *out, hyp_diag *diag);
/* Bytes of the variables, and of those among them that are there twice, once before and once after a run. */
size_t hyp_plan_state_bytes(const HypPlan__Program *program, size_t *out_twice);
static inline bool hyp_plan_has_in_place(const HypPlan__Program *program)
{
    for (size_t i = 0; i < program->n_variables; i++)
        if (program->variables[i]->in_place) return true;
    return false;
}

/* The inputs and outputs that who runs the program gives and gets: the first so many. */
static inline size_t hyp_plan_shown_inputs(const HypPlan__Program *program)
{
    return program->n_inputs - program->n_variables;
}
/* Those behind them, of the variables; NULL where there are none. */
static inline const uint32_t *hyp_plan_variable_inputs(const HypPlan__Program *program)
{
    return program->n_variables ? program->inputs + hyp_plan_shown_inputs(program) : NULL;
}
static inline size_t hyp_plan_shown_outputs(const HypPlan__Program *program)
{
    return program->n_outputs - hyp_plan_changed(program) - program->hidden_outputs;
}

/* The tensor that holds the bytes: `tensor` itself, or what it is a view of. */
static inline uint32_t hyp_plan_root(const HypPlan__Program *program, uint32_t tensor)
{
    const HypPlan__Tensor *t = program->tensors[tensor];
    return t->place == HYP_PLAN__PLACE__PLACE_VIEW ? t->view_of : tensor;
}

/* A view of a part of its tensor: it is read and never written. */
enum { HYP_PLAN_WINDOW_ALIGN = 16 };
static inline bool hyp_plan_is_window(const HypPlan__Tensor *t)
{
    return t->place == HYP_PLAN__PLACE__PLACE_VIEW && t->window;
}

/* Where a window begins in the tensor that holds the bytes, in bytes; 0 for any other tensor. */
static inline size_t hyp_plan_first_byte(const HypPlan__Program *program, uint32_t tensor)
{
    const HypPlan__Tensor *t = program->tensors[tensor];
    return hyp_plan_is_window(t) ? (size_t)t->first * hyp_dtype_size((hyp_dtype)t->dtype) : 0;
}

/* The bytes of a weight, which is no view; NULL where no weight has any. */
static inline const uint8_t *hyp_plan_weight(const hyp_plan *plan, uint32_t tensor)
{
    if (plan->replaced && plan->replaced[tensor]) return plan->replaced[tensor];
    return plan->weights ? plan->weights + plan->program->tensors[tensor]->offset : NULL;
}

/* Whether both tensors, or what they are views of, are in one slot of the scratch memory. */
bool hyp_plan_same_slot(const HypPlan__Program *program, uint32_t a, uint32_t b);

/* The tensor, index + 1, in whose slot the result of a step may be if the step reads it only once, because the kernel
 * reads each of its elements before it writes that of the result: what is added to a convolution, or to a linear before
 * its activation. 0 where there is none; of pointwise steps, which may replace any dense input, nothing is said. */
uint32_t hyp_plan_step_replaces(const HypPlan__Step *step);

/* The normalization that the step of this index may run itself, if it is a linear that `normalizes`: the step before.
 * NULL for any other. */
const HypPlan__Call *hyp_plan_own_norm(HypPlan__Step *const *steps, size_t step);

/* The tensors of a step that calls a kernel, its own or that of a custom operator; NULL for any other. */
static inline const HypPlan__Call *hyp_plan_step_call(const HypPlan__Step *step)
{
    if (step->kernel_case == HYP_PLAN__STEP__KERNEL_CUSTOM) return step->custom->call;
    return step->kernel_case == HYP_PLAN__STEP__KERNEL_CALL ? step->call : NULL;
}

/* Input i of a call: the tensor + 1, 0 where it is absent. */
static inline uint32_t hyp_plan_call_input(const HypPlan__Call *call, size_t i)
{
    return i < call->n_inputs_plus1 ? call->inputs_plus1[i] : 0;
}

/* Whether a call is of a recurrence: lstm, gru, rnn, or the gradient of one. */
bool hyp_plan_is_recurrence(const HypPlan__Call *call);

/* Whether a step has nothing to do under these dims, however large some of them are: all that it writes is empty. Calls
 * are never among these, for their kernels have shapes to check. */
bool hyp_plan_writes_nothing(const HypPlan__Program *program, const HypPlan__Step *step, const int64_t *values);

/* Whether a step is among the processes of a group, all of which have to come to such steps in the plan's order. */
bool hyp_plan_is_collective(const HypPlan__Step *step);

/* The tensors that a step reads and writes (hidden ones among the writes), as the step names them; returns the
 * number, of which at most `room` are stored. A tensor read twice is listed twice. */
size_t hyp_plan_step_reads(const HypPlan__Step *step, uint32_t *tensors, size_t room);
size_t hyp_plan_step_writes(const HypPlan__Step *step, uint32_t *tensors, size_t room);

#endif
