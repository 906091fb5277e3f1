/* hypatia/runtime.h - load a plan, run it. The only header that an inference program needs.
 *
 *   hyp_engine *engine;   hyp_context *context;   hyp_diag diag = {0};
 *   hyp_engine_load_file("plan.bin", NULL, &engine, &diag);
 *   hyp_context_create(engine, NULL, &context, &diag);
 *   hyp_tensor x = {.name = "x", .data = in, .bytes = sizeof in, .dtype = HYP_F32, .rank = 2, .dims = {1, 64}};
 *   hyp_tensor y = {.name = "y", .data = out, .bytes = sizeof out, .dtype = HYP_F32};
 *   hyp_context_run(context, &x, 1, &y, 1, &diag);
 *
 * An engine is shared by threads and, but for hyp_engine_update, immutable; a context belongs to one thread (and one stream) at
 * a time and owns all scratch memory. Several contexts of one engine run at once. Out-parameters are untouched on error.
 * A call that needs what is NULL gives HYP_ERR_INVALID_ARGUMENT; questions about NULL are answered by 0, NULL or "".
 */
#ifndef HYPATIA_RUNTIME_H
#define HYPATIA_RUNTIME_H

#include <stdbool.h>

#include "hypatia/types.h"

#ifdef __cplusplus
extern "C" {
#endif

HYP_API const char *hyp_version(void);        /* "0.1.0" of the library in use */
HYP_API const char *hyp_version_details(void); /* several lines: plan format, backends built in, their versions */

/* The struct that `read` fills in, by value: for programs, which know its size. The library exports no function that returns
 * a struct. */
#define HYP_BY_VALUE(type, name, read, args, ...) \
    HYP_INLINE type name args                     \
    {                                             \
        type out;                                 \
        out.size = sizeof out;                    \
        read(__VA_ARGS__, &out);                  \
        return out;                               \
    }

typedef struct hyp_engine hyp_engine;
typedef struct hyp_context hyp_context;
typedef struct hyp_group hyp_group;

typedef enum hyp_device_kind {
    /* CUDA when there is a GPU that can be used and has kernels for all of the plan, else CPU, and the log says why.
     * That a GPU fails, for want of memory, say, is an error. */
    HYP_DEVICE_AUTO = 0,
    HYP_DEVICE_CPU = 1, /* oneDNN where built in, else the reference kernels */
    HYP_DEVICE_CUDA = 2,
    HYP_DEVICE_REFERENCE = 3 /* plain C on the CPU: slow, needs nothing, for comparison */
} hyp_device_kind;

/* What is verified when a plan is loaded. Every index, shape and size of its program is checked in either case: bytes that were
 * changed give wrong numbers at worst, or a plan that is refused, never a crash. */
typedef enum hyp_engine_checks {
    HYP_CHECKS_STRICT = 0, /* every checksum: a plan with any byte changed is refused. Reads all weights once */
    HYP_CHECKS_OFF = 1     /* the header's alone, for plans that were verified where they were put: weights are not read
                            * before they are used. Code for a device in such a plan is taken as it is */
} hyp_engine_checks;

/* Threads of the caller's, for programs that have a pool of their own. */
typedef struct hyp_thread_pool {
    size_t size;     /* sizeof(hyp_thread_pool) */
    int32_t threads; /* that a run may use, the one that calls among them: 1 to 1024 */
    /* Calls part(state, i) once for every i from 0 to count - 1, on any threads and in any order, the calling one included, and
     * returns when all have returned. The parts share out what there is to do: one that begins when the others have ended
     * finds nothing, so a pool whose threads are busy may call all of them itself, one after the other. Is called by any
     * thread that runs a context, for several contexts at once, never from within a part. */
    void (*run)(void *user, size_t count, void (*part)(void *state, size_t i), void *state);
    void *user;
} hyp_thread_pool;

/* Where the memory of an engine comes from, for programs that have pools of their own. */
typedef struct hyp_allocator {
    size_t size; /* sizeof(hyp_allocator) */
    /* Memory of the host for what is large: weights that are packed or replaced, scratch memory, a plan's weights where they
     * have to be copied. What the engine notes about them, blocks of some ten KB at most, stays the system's. `alignment` is a
     * power of two, 64 or more; NULL: there is no more, and the call under way fails with HYP_ERR_NO_MEMORY. Freed with the
     * same numbers. Called by any thread that makes an engine, prepares shapes, or destroys something, by several at once,
     * and never by a run of shapes that are prepared. NULL, both: the system's. */
    void *(*alloc)(size_t bytes, size_t alignment, void *user);
    void (*free)(void *data, size_t bytes, size_t alignment, void *user);
    /* So, too, memory of a CUDA device, an address as the driver has it, at a multiple of 256, while the device's primary context
     * is current: weights, scratch and staging memory, workspaces of libraries. Where something is freed, the runs that used
     * it have ended. Page-locked memory stays the driver's. NULL, both: cuMemAlloc. */
    void *(*device_alloc)(size_t bytes, void *user);
    void (*device_free)(void *data, size_t bytes, void *user);
    void *user;
} hyp_allocator;

/* An attribute of a custom operator, as the model has it. */
typedef enum hyp_custom_kind { HYP_CUSTOM_INTS = 0, HYP_CUSTOM_FLOATS = 1, HYP_CUSTOM_STRINGS = 2 } hyp_custom_kind;
typedef struct hyp_custom_attribute {
    size_t size; /* the library's sizeof(hyp_custom_attribute) */
    const char *name;
    hyp_custom_kind kind;
    bool list;     /* else count is 1 */
    size_t count;  /* of the one that `kind` says; the others are NULL */
    const int64_t *ints;
    const float *floats;
    const char *const *strings; /* a NUL is behind each */
    const size_t *string_bytes; /* without it */
} hyp_custom_attribute;

/* One call of a kernel. Everything is borrowed for the time of the call, attributes for as long as the engine lives. What the
 * plan says was checked before: ranks, dims and bytes are those of the memory that `data` points to. */
typedef struct hyp_custom_call {
    size_t size; /* the library's sizeof(hyp_custom_call) */
    const char *domain, *name; /* of the operator */
    const char *node;          /* what the model calls it; "" = nothing */
    const hyp_tensor *inputs;  /* not to be written to; one that is absent has dtype HYP_DTYPE_NONE */
    size_t input_count;
    hyp_tensor *outputs; /* dense, and apart from all inputs */
    size_t output_count;
    const hyp_custom_attribute *const *attributes;
    size_t attribute_count;
    void *workspace; /* 64-byte aligned (256-byte on a GPU), holds anything; where the tensors lie */
    size_t workspace_bytes;
    void *stream; /* CUstream of run_cuda; NULL elsewhere */
} hyp_custom_call;

/* A kernel for a custom operator: a function of inputs and attributes, which keeps nothing from one call for the next. Any
 * thread that uses a context of the engine calls it, several at once. It makes no call with the engine or its contexts. Where it
 * returns another status than HYP_OK, the message that it writes to `diag` is told, behind the operator's name. */
typedef struct hyp_custom_kernel {
    size_t size; /* sizeof(hyp_custom_kernel) */
    const char *domain, *name;
    /* Is asked when shapes are set, before there is data: sets outputs[i].dims that are -1, which the plan does not know,
     * from the dims of inputs, and workspace_bytes (0). Other dims it may leave as they are; different ones are refused, so is
     * another rank. Equal calls are to be answered alike. May be NULL where the plan knows all dims and no workspace is
     * wanted. */
    hyp_status (*shape)(hyp_custom_call *call, void *user, hyp_diag *diag);
    /* Computes outputs, all in the host's memory. NULL: the plan does not load on a CPU. */
    hyp_status (*run)(const hyp_custom_call *call, void *user, hyp_diag *diag);
    /* Queues the work on call->stream, which is a stream of the engine's GPU, whose context is current, and returns; all data are
     * pointers of that GPU. What it queues is captured into CUDA graphs and replayed with the same pointers, without another
     * call, unless `no_capture`. It does not wait for the stream, nor allocate. NULL: the plan does not load on a GPU, and AUTO
     * takes the CPU. */
    hyp_status (*run_cuda)(const hyp_custom_call *call, void *user, hyp_diag *diag);
    bool no_capture; /* runs with it are not replayed from graphs, which is slower, and refused on a stream that is captured */
    void *user;
} hyp_custom_kernel;

typedef struct hyp_engine_options {
    size_t size; /* sizeof(hyp_engine_options) */
    hyp_device_kind device;
    int32_t device_index; /* which GPU */
    /* CPU threads of one run, the caller's among them: at most so many, fewer in steps that are too small for them, and while
     * runs of other contexts have the processors. 0 = those of `pool`, else as the environment says (OMP_NUM_THREADS), else
     * as many as the process has processors, by its affinity and the quota of its control group. At most 1024. All engines
     * of a process share one pool of threads, which sleep when there is nothing to do. A child of fork may use those of its
     * parent's contexts that were not running; it has threads of its own. */
    int32_t threads;
    hyp_engine_checks checks;
    /* Receives lines for people ("device: cpu, because libcuda.so.1 was not found"). Called while the plan is loaded, and
     * later from any thread that uses one of the engine's contexts, when there is something to tell of. May be NULL. */
    void (*log)(const char *line, void *user);
    void *log_user;
    /* The most that a CPU may use of its processor: "generic", "avx2", "avx512" or (on ARM) "neon"; NULL = as the
     * environment says (HYPATIA_CPU), else all. oneDNN, which is limited with our own kernels, chooses once in a process:
     * HYP_ERR_DEVICE where an engine without this limit was first. */
    const char *cpu_level;
    /* Bytes of memory that the engine may have, on the host and on its device: what it reads the plan into, weights
     * that are packed, widened or uploaded, also later for the first context that wants them, and whether or not another
     * engine of the process has the same ones, which are then there once. The plan's file, which is
     * mapped, and code that oneDNN, CUDA's libraries and the driver make do not count. More is refused with
     * HYP_ERR_LIMIT before it is taken. 0 = no limit. */
    uint64_t memory_limit;
    /* Of the CPU: whose threads help in runs, in place of the process's pool. The table is copied; `user` has to last as long as
     * the engine and its contexts. May be NULL. */
    const hyp_thread_pool *pool;
    /* Processors ("0-3,8", as Linux counts them) for the threads that help in runs; engines that name the same ones share a
     * pool. Weights are prepared there, too, so that on a machine with several memories they lie in the one beside these
     * processors. Threads that call are the caller's to place. NULL = all that the process may use. */
    const char *processors;
    /* Of hyp_engine_load_memory: called once when the memory is not used any more, which is after the engine and the last of its
     * contexts are destroyed; not where loading fails. May be NULL. */
    void (*release)(void *user);
    void *release_user;
    /* Gives the engine and its contexts their memory. The table is copied; `user` has to last as long as they do. Such an
     * engine shares no packed weights with others. What hyp_engine_tensor_alloc gives is the system's or the driver's. May
     * be NULL. */
    const hyp_allocator *allocator;
    /* Kernels for the plan's custom operators (hypatiac --custom-domain); those that the plan does not have are no matter. A plan
     * with one that nothing is given for is HYP_ERR_UNSUPPORTED, and the message names it. Loops (hypatia::Loop) need none.
     * The structs are copied; `user` has to last as long as the engine and its contexts. */
    const hyp_custom_kernel *const *custom_kernels;
    size_t custom_kernel_count;
    /* The processes that run the plan together, which are on GPUs: device is HYP_DEVICE_CUDA, or AUTO, which then is that, and
     * device_index the one that the process has joined with. Has to last as long as the engine and its contexts. NULL: the
     * process runs the plan alone, and what it gives is its own. */
    hyp_group *group;
    /* The public key of Ed25519, HYP_PUBLIC_KEY_BYTES as hyp_key_read_public (hypatia/signature.h) gives them, that the plan
     * has to be signed with. It is read during the call. The signature is checked, which reads all of the file, before anything
     * of the plan is parsed: one that is not signed, that another key has signed, or that was changed is HYP_ERR_SIGNATURE;
     * where there is no libsodium, no plan loads (HYP_ERR_UNSUPPORTED). With `checks` off changes are noticed all the same. Who
     * can write to the file, or the memory, afterwards can still change what is mapped. NULL: plans need no signature. */
    const unsigned char *require_signature;
} hyp_engine_options;

/* Maps a plan and prepares its weights for the device. The file may be removed afterwards. HYP_ERR_IO,
 * HYP_ERR_MALFORMED, HYP_ERR_INCOMPATIBLE (rebuild the plan), HYP_ERR_DEVICE. options may be NULL. *out is
 * owned by the caller. */
HYP_API HYP_NODISCARD hyp_status hyp_engine_load_file(const char *path, const hyp_engine_options *options,
                                                      hyp_engine **out, hyp_diag *diag);
/* The same from memory, which must outlive the engine and its contexts (an embedded array, say): options->release. */
HYP_API HYP_NODISCARD hyp_status hyp_engine_load_memory(const void *data, size_t size, const hyp_engine_options *options,
                                                        hyp_engine **out, hyp_diag *diag);
/* NULL-safe. Its contexts stay usable, and keep what they need until the last of them is destroyed; the engine itself, and
 * what is borrowed from it, is not to be used any more. With the last engine of the process on a GPU, libraries wait for all that
 * the GPU does, which ends whatever anybody captures there just then; no other call does so. */
HYP_API void hyp_engine_destroy(hyp_engine *engine);

/* An input or output as the plan declares it. Borrowed from the engine. */
typedef struct hyp_io_info {
    size_t size; /* the library's sizeof(hyp_io_info) */
    const char *name;
    hyp_dtype dtype;
    int32_t rank;
    int64_t dims[HYP_MAX_RANK];             /* -1 where symbolic */
    const char *symbols[HYP_MAX_RANK];      /* "batch"; text of an expression, "past + seq"; NULL where fixed */
} hyp_io_info;
HYP_API size_t hyp_engine_input_count(const hyp_engine *engine);
HYP_API size_t hyp_engine_output_count(const hyp_engine *engine);
HYP_API const hyp_io_info *hyp_engine_input(const hyp_engine *engine, size_t i);
HYP_API const hyp_io_info *hyp_engine_output(const hyp_engine *engine, size_t i);
HYP_API hyp_device_kind hyp_engine_device(const hyp_engine *engine); /* the one taken: never AUTO */
HYP_API const char *hyp_engine_device_name(const hyp_engine *engine); /* "cpu (oneDNN 2.6.3, avx512)" */

HYP_API const char *hyp_engine_precision(const hyp_engine *engine); /* that the plan was compiled for: "fp32", "bf16", ... */
HYP_API const char *hyp_engine_classes(const hyp_engine *engine); /* numeric classes of the rules that made it: "ER"; "" = unknown */
/* The public key that the plan says it is signed with, HYP_PUBLIC_KEY_BYTES, borrowed; NULL: it is not signed. Whether that
 * is true was checked where require_signature was set, and only there. */
HYP_API const unsigned char *hyp_engine_signer(const hyp_engine *engine);
HYP_API uint64_t hyp_engine_model_hash(const hyp_engine *engine); /* of the model that the plan was made of; 0 = unknown */

/* Runs of the model that the plan keeps: inputs, and some of what comes out. Borrowed from the engine. */
typedef struct hyp_golden_input {
    size_t size;       /* sizeof(hyp_golden_input) */
    hyp_tensor tensor; /* dims and type; data NULL where it is drawn: hyp_tensor_draw(tensor, how, seed, low, high) */
    uint32_t how;
    uint64_t seed;
    int64_t low, high;
} hyp_golden_input;
typedef struct hyp_golden_output {
    size_t size;        /* sizeof(hyp_golden_output) */
    hyp_tensor tensor;  /* dims and type of the whole output; its data are those of the elements that are kept: 0, stride,
                         * 2 stride, ... */
    size_t kept;        /* how many */
    uint64_t stride;
} hyp_golden_output;
HYP_API size_t hyp_engine_golden_count(const hyp_engine *engine);
/* Fill in *out, whose size is set. False, and all zeros, beyond the last. */
HYP_API bool hyp_engine_read_golden_input(const hyp_engine *engine, size_t run, size_t input, hyp_golden_input *out);
HYP_API bool hyp_engine_read_golden_output(const hyp_engine *engine, size_t run, size_t output, hyp_golden_output *out);
HYP_BY_VALUE(hyp_golden_input, hyp_engine_golden_input, hyp_engine_read_golden_input,
             (const hyp_engine *engine, size_t run, size_t input), engine, run, input)
HYP_BY_VALUE(hyp_golden_output, hyp_engine_golden_output, hyp_engine_read_golden_output,
             (const hyp_engine *engine, size_t run, size_t output), engine, run, output)
/* How far element i of the kept ones may be off; 0: not at all, INFINITY: nothing is said. */
HYP_API double hyp_engine_golden_tolerance(const hyp_engine *engine, size_t run, size_t output, size_t i);

/* ---- weights -------------------------------------------------------------------------------------------
 *
 * A plan that was compiled with --updatable (hyp_compile_options.updatable) takes other values of the initializers of its
 * model that were named there, as after more training, or with what a LoRA adds to them:
 *
 *   hyp_tensor w = {.name = "fc1.weight", .data = merged, .bytes = sizeof merged, .dtype = HYP_F32, .rank = 2,
 *                   .dims = {64, 784}};
 *   hyp_engine_update(engine, &w, 1, &diag);
 */

/* Initializers that can be replaced. Borrowed from the engine. */
HYP_API size_t hyp_engine_weight_count(const hyp_engine *engine);
HYP_API const hyp_io_info *hyp_engine_weight(const hyp_engine *engine, size_t i);
/* Replaces initializers, by name, by tensors of their types and dims in the memory of the host or of the engine's device,
 * which are read during the call (what is queued to write them is the caller's to wait for): all of them or, on failure,
 * none. Runs that begin after it has returned are with the new ones; runs of other threads that begin before are with the
 * old ones or the new ones as a whole, and nobody waits. The first run of a context afterwards prepares its shapes anew,
 * as reserving them would. Results are those of a plan that was compiled with these values and the same options, to the
 * bit, except where weights are products of matrices, whose last bits may be others.
 * What the plan makes of several initializers together has to be given together: HYP_ERR_INVALID_ARGUMENT names what is
 * missing, also a name that cannot be replaced.
 * Both sets of weights take memory until no context is left whose last run was with the old one; the engine's memory_limit
 * counts both, and what computing the new ones takes in between may be as much again. The plan itself, its runs for
 * verification (hyp_engine_read_golden_input) and what hyp_context_save_plan writes stay as they were, as do other engines. A context whose run was captured into a CUDA graph of the caller's stays
 * with the weights that it had then until hyp_context_release_captured. Any thread may call it at any time; calls for one engine wait for each other. */
HYP_API HYP_NODISCARD hyp_status hyp_engine_update(hyp_engine *engine, const hyp_tensor *tensors, size_t count,
                                                   hyp_diag *diag);

/* ---- variables -----------------------------------------------------------------------------------------
 *
 * A plan that was compiled for training (hypatiac --train) has state that a run changes: parameters, moments of its optimizer,
 * a count of steps. They are no inputs and outputs: each context has its own, which begins with the values that the plan has,
 * in the memory of the device, counted to the context's memory_limit. A run that fails, or is cancelled, leaves all of them as
 * they were; on a GPU, where it fails when all of it is launched, as in copying outputs to the host, as they are after it. Those
 * that the plan updates in place are there once, the others twice, once before and once after a run.
 *
 *   for (step = 0; step < steps; step++) hyp_context_run(context, batch, 3, &loss, 1, &diag);
 *   hyp_tensor w = {.name = "fc1.weight", .data = trained, .bytes = sizeof trained, .dtype = HYP_F32};
 *   hyp_context_variable_get(context, &w, 1, &diag);
 *
 * On a GPU, where a run may only be queued, these calls wait for its end; where it may fail yet, by an index that is out of range,
 * so does the next run, on the host. If it has failed, they say so, and do nothing. Runs of such a plan cannot be captured into
 * a graph of the caller's: HYP_ERR_UNSUPPORTED. hyp_engine_update changes no variable. */

/* Borrowed from the engine. Sizes are fixed. */
HYP_API size_t hyp_engine_variable_count(const hyp_engine *engine);
HYP_API const hyp_io_info *hyp_engine_variable(const hyp_engine *engine, size_t i);
/* Copies the values of some variables, matched by name (by position where that is NULL), to the caller's memory, of the host or
 * of the engine's device, of their types and with room for them; rank and dims are filled in. Returns when they are there. */
HYP_API HYP_NODISCARD hyp_status hyp_context_variable_get(hyp_context *context, hyp_tensor *tensors, size_t count,
                                                          hyp_diag *diag);
/* Gives some variables, matched so, other values, from tensors of their types and dims in the host's or the device's memory: all
 * of them or, on failure, none; where the device itself refuses to copy over variables that are there once, they are of no use,
 * and runs and calls say so until all are set, or reset. What is queued elsewhere to write these tensors is the caller's to wait for. */
HYP_API HYP_NODISCARD hyp_status hyp_context_variable_set(hyp_context *context, const hyp_tensor *tensors, size_t count,
                                                          hyp_diag *diag);
/* All of them to what the plan begins with; on failure as hyp_context_variable_set. */
HYP_API HYP_NODISCARD hyp_status hyp_context_variables_reset(hyp_context *context, hyp_diag *diag);

/* ---- several processes ---------------------------------------------------------------------------------
 *
 * The steps of a plan that are called all-reduce, as those of training with --data-parallel, are sums, or means, over all
 * processes of a group, each of which has a GPU of its own and its own inputs. One makes an id, and gives it to the others in
 * a way of its own (a pipe, a file, MPI):
 *
 *   unsigned char id[HYP_GROUP_ID_BYTES];                    in one process
 *   hyp_group_make_id(id, &diag);
 *
 *   hyp_group_join(id, rank, 2, rank, &group, &diag);       in both
 *   hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_CUDA, .device_index = rank, .group = group};
 *   hyp_engine_load_file("step.bin", &options, &engine, &diag);
 *
 * All processes load the same plan, with what tuning found in it, and run it equally often, with one context at a time: a run
 * waits for the same run of all others. A process that ends or fails leaves them waiting: who started them is to end them.
 * NCCL does the work (libnccl.so.2 where the system looks, beside cuBLASLt, or by HYPATIA_NCCL). Sums are in the same order
 * in every run on the same machine.
 */
enum { HYP_GROUP_ID_BYTES = 128 };
/* A new group's id. HYP_ERR_DEVICE: NCCL is not there; HYP_ERR_UNSUPPORTED: this build has no CUDA backend. Any thread. */
HYP_API HYP_NODISCARD hyp_status hyp_group_make_id(unsigned char out[HYP_GROUP_ID_BYTES], hyp_diag *diag);
/* Joins as number `rank` of `size`, from 0 on, with GPU `device_index`, and returns when all have joined; each process is in a
 * group once, and has a GPU of its own. *out is owned by the caller. HYP_ERR_INVALID_ARGUMENT, HYP_ERR_DEVICE, HYP_ERR_UNSUPPORTED. */
HYP_API HYP_NODISCARD hyp_status hyp_group_join(const unsigned char id[HYP_GROUP_ID_BYTES], int32_t rank, int32_t size, int32_t device_index,
                                                hyp_group **out, hyp_diag *diag);
/* When its engines and contexts are destroyed. NULL-safe. */
HYP_API void hyp_group_leave(hyp_group *group);
HYP_API int32_t hyp_group_rank(const hyp_group *group); /* 0 for NULL */
HYP_API int32_t hyp_group_size(const hyp_group *group); /* 1 for NULL */

/* A step as the plan describes it; texts are borrowed from the engine. */
typedef struct hyp_step_info {
    size_t size;              /* sizeof(hyp_step_info) */
    const char *label;        /* the operator as people write it: "fused-mlp" */
    const char *kernel;       /* "linear" */
    double predicted_seconds; /* by the compiler's cost model, symbols having their typical sizes; 0 = not predicted */
} hyp_step_info;
HYP_API size_t hyp_engine_step_count(const hyp_engine *engine);
/* Fills in *out, whose size is set. False, and all zeros, beyond the last. */
HYP_API bool hyp_engine_read_step(const hyp_engine *engine, size_t i, hyp_step_info *out);
HYP_BY_VALUE(hyp_step_info, hyp_engine_step, hyp_engine_read_step, (const hyp_engine *engine, size_t i), engine, i)
/* What the predictions count the symbol of this name as; 0 when the plan has no such symbol or no predictions. */
HYP_API int64_t hyp_engine_typical_size(const hyp_engine *engine, const char *symbol);
/* What a run is predicted to take, symbols having their typical sizes: on a GPU with the steps side by side that do not wait for
 * each other, else the sum over the steps. 0 = not predicted. */
HYP_API double hyp_engine_predicted_seconds(const hyp_engine *engine);
/* HYP_OK where the plan or its model calls a size by this name; else HYP_ERR_INVALID_ARGUMENT, and the message has the nearest
 * name. */
HYP_API HYP_NODISCARD hyp_status hyp_engine_find_symbol(const hyp_engine *engine, const char *name, hyp_diag *diag);
/* For callers that make inputs: fills in the dims of inputs[0..count), all of the plan's in its order, that are -1, from
 * those that are given and from `sizes` (names of symbolic dims, as the plan or the model has them, each of rank 1 with
 * its size in dims[0]; unknown names are ignored). Of the inputs dims alone are read and written; ranks are the plan's.
 * *out_missing: the first symbolic dim that nothing gives a size, borrowed from the engine; NULL when all are filled in.
 * HYP_ERR_INVALID_ARGUMENT: the count is wrong, or a dim is one that no size of its symbols gives. */
HYP_API HYP_NODISCARD hyp_status hyp_engine_complete_dims(const hyp_engine *engine, hyp_tensor *inputs, size_t count,
                                                          const hyp_tensor *sizes, size_t size_count,
                                                          const char **out_missing, hyp_diag *diag);

typedef struct hyp_context_options {
    size_t size;  /* sizeof(hyp_context_options) */
    void *stream; /* CUstream to run on; NULL = one of the context's own */
    /* Of the context's own stream: work of lower numbers goes first, as far as the device tells them apart; 0, which is the
     * last on today's GPUs, where nothing else is said. */
    int32_t priority;
    /* For plans that are not trusted, or callers with little room: shapes that need more are HYP_ERR_LIMIT, before it
     * is taken, and leave the context as it was. 0 = no limit. */
    /* Bytes of memory that the context may have, on the host and on the device: scratch memory, and what is prepared
     * for shapes. What does not count of an engine does not of a context. */
    uint64_t memory_limit;
    double work_limit; /* hyp_step_work_info.operations and .bytes of a run, one sum over all steps; a trip of a loop, which
                        * only a run counts, is as much as its body and one more, and ends the run where that is too much */
    /* Sets of dims that the context keeps prepared: the one that was not used for longest goes when one more comes. Each has
     * kernels of its own, and on a GPU graphs. 0 = 16. */
    size_t shapes;
    /* Called before and after each step of a run, on the thread that runs, with the step's number (hyp_engine_step). On a GPU it
     * is what queues the step that they are around, once for each part of it, and nothing is replayed from a CUDA graph. They
     * make no call with the context but hyp_context_cancel. A step that fails has no end. Each may be NULL. */
    void (*step_begins)(size_t step, void *user);
    void (*step_ends)(size_t step, void *user);
    void *step_user;
    /* What becomes of memory that a graph of the caller's uses (hyp_context_release_captured) when shapes need more of
     * it: false: more is taken beside it. true: such shapes are HYP_ERR_LIMIT, and the context has no more memory than
     * it had. */
    bool no_growth_when_captured;
    /* Buckets: sizes that are rounded up, so that a run of 13 images is done as one of 16, and few sets of dims are prepared,
     * with few graphs on a GPU. By name of a symbolic dim, as the plan or the model has it, of rank 1: what it is rounded up to
     * a multiple of, in dims[0]; without a name: all that may be. Inputs are copied to where there is room for more, with
     * zeros behind them, and outputs from there: memory of the context's, taken when shapes are prepared, for tensors in the
     * host's memory beside a GPU when they come first. Dims of all tensors stay those of the caller. Whether it shows the
     * compiler finds out (`hypatia inspect` tells): HYP_ERR_UNSUPPORTED names the operator that may let it. Read during
     * hyp_context_create. May be NULL. */
    const hyp_tensor *buckets;
    size_t bucket_count;
} hyp_context_options;

HYP_API HYP_NODISCARD hyp_status hyp_context_create(hyp_engine *engine, const hyp_context_options *options,
                                                    hyp_context **out, hyp_diag *diag);
HYP_API void hyp_context_destroy(hyp_context *context); /* NULL-safe */

/* Prepares for inputs of these dims (name or position, rank and dims are read, data is not): scratch memory, kernels, and
 * on a GPU CUDA graphs. A later run with the same dims allocates nothing and waits for no other context. On CUDA that is
 * a promise about tensors on the device that begin at multiples of 256 bytes, wherever they lie and however often that
 * changes: no memory of the device and no page-locked memory is taken, none of the host's by Hypatia, and no graph is
 * made. Graphs are changed in place for other addresses, of which the driver keeps its own books on the host. A run with
 * tensors in host memory, or at odd addresses, takes memory for them when it is the first or larger than those before, on
 * the device and page-locked, threads where they are very large, and makes graphs of its own. Shapes that run without
 * having been reserved are prepared then, but for graphs, which are made when the same buffers come again. While graphs are
 * made, here or in such a run, CUDA lets no thread of the process wait for the whole device (cudaDeviceSynchronize).
 * A context remembers the last sets of dims: options->shapes. With options->buckets it prepares those that are rounded up, which
 * serve all that are rounded to them.
 * On CUDA this is where kernels of elementwise steps are compiled that neither the engine has nor the user's cache
 * (docs/runtime-cuda.md): that takes about a tenth of a second for each kind of step, and sizes share them. */
HYP_API HYP_NODISCARD hyp_status hyp_context_reserve(hyp_context *context, const hyp_tensor *inputs, size_t count,
                                                     hyp_diag *diag);

/* Fills rank and dims of outputs[0..count) for inputs of these dims, matching outputs by name or position. */
HYP_API HYP_NODISCARD hyp_status hyp_context_output_shapes(hyp_context *context, const hyp_tensor *inputs,
                                                           size_t input_count, hyp_tensor *outputs, size_t output_count,
                                                           hyp_diag *diag);

/* Runs the plan on the caller's memory, without copying it on the device where it lives. Tensors are matched by
 * name, by position where the name is NULL; every input and every output must be given. Rank and dims of the
 * outputs are filled in; their capacity must suffice (HYP_ERR_INVALID_ARGUMENT says how many bytes). Leading
 * dims of any number collapse into the first declared one: [2, 3, 784] and [784] are [6, 784] and [1, 784] for an
 * input declared [batch, 784], and outputs have the ranks that are declared. Data must be aligned to its element
 * size; outputs must not overlap inputs or each other. An output whose `memory` is HYP_MEMORY_CONTEXT gets memory of the
 * context: data and bytes are set by every run, and hold until the next run with it, or its end. Of an output of which only the
 * data say how much there is (NonZero: hyp_io_info.dims has a -1, and symbols a name there that no input has) dims tell it after
 * the run; what the caller gives has to lie on the host and have room for that, else the run is HYP_ERR_INVALID_ARGUMENT, the message
 * says how many bytes there are, and dims are set. hyp_context_output_shapes tells the most. Dims not prepared by
 * hyp_context_reserve or an earlier run are prepared first. Returns when host outputs are complete; with only
 * device tensors the work is queued on the context's stream: hyp_context_synchronize. HYP_ERR_DEVICE_LOST: every call with a
 * context of this engine fails from now on; destroy them and the engine, and load the plan again. */
HYP_API HYP_NODISCARD hyp_status hyp_context_run(hyp_context *context, const hyp_tensor *inputs, size_t input_count,
                                                 hyp_tensor *outputs, size_t output_count, hyp_diag *diag);
/* Keeps these inputs and outputs for hyp_context_run_bound, as hyp_context_run takes them, any number at a time: one that was
 * bound before is replaced. The structs are copied, memory is not. Of inputs the dims count, which need not be the same for
 * ever: bind again, or those of another shape. Nothing is bound where one of them is refused. */
HYP_API HYP_NODISCARD hyp_status hyp_context_bind(hyp_context *context, const hyp_tensor *inputs, size_t input_count,
                                                  const hyp_tensor *outputs, size_t output_count, hyp_diag *diag);
/* hyp_context_run with what is bound. HYP_ERR_INVALID_ARGUMENT names what is missing. */
HYP_API HYP_NODISCARD hyp_status hyp_context_run_bound(hyp_context *context, hyp_diag *diag);
/* What is bound to output i of the plan, with the dims that the last run with it has given; NULL: nothing. Borrowed until
 * something is bound anew. */
HYP_API const hyp_tensor *hyp_context_bound_output(const hyp_context *context, size_t i);
/* Waits until the context's runs have ended, on whatever stream. */
HYP_API HYP_NODISCARD hyp_status hyp_context_synchronize(hyp_context *context, hyp_diag *diag);
/* Asks the run under way, or else the next one, to end before its next step, or trip of a loop: HYP_ERR_CANCELLED.
 * Outputs then hold anything, and the context is usable as before. A run that is in its last step, or in those at the end of
 * a plan that do nothing but change variables, ends well, and the request with it. What a GPU was given is not taken back: a
 * run that is replayed from a CUDA graph ends before it or not at all. To be called from any thread, also a handler of
 * signals, while the context is there; NULL-safe. */
HYP_API void hyp_context_cancel(hyp_context *context);

/* A run like hyp_context_run that also times every step of the plan: seconds[i] is what step i takes. On a CPU the clock
 * is read around every step. On CUDA each kernel is repeated in a CUDA graph of its own, so that its launch does not
 * count; this takes some 10 ms a kernel. step_count is hyp_engine_step_count. Variables stay as they were. */
HYP_API HYP_NODISCARD hyp_status hyp_context_time_steps(hyp_context *context, const hyp_tensor *inputs,
                                                        size_t input_count, hyp_tensor *outputs, size_t output_count,
                                                        double *seconds, size_t step_count, hyp_diag *diag);

/* ---- streams ------------------------------------------------------------------------------------------
 *
 * On a GPU runs are queued on a stream, and events tell what has ended. Both are handles of CUDA's driver (CUstream,
 * CUevent), as its runtime's are (cudaStream_t, cudaEvent_t), and belong to the GPU that the plan was loaded for. A CPU
 * has neither.
 *
 *   hyp_run_options options = {.size = sizeof options, .wait = &x_is_there, .wait_count = 1, .record = y_is_there};
 *   hyp_context_run_with(context, &x, 1, &y, 1, &options, &diag);      tensors on the device: returns at once
 *   cudaStreamWaitEvent(other, y_is_there, 0);                         nobody waits but the device
 */

/* The stream that a context's runs are on where they name no other: hyp_context_options.stream, or the context's own,
 * which does not wait for the legacy default stream. Whoever queues work on it does so in the thread that uses the
 * context. Borrowed until the context is destroyed; NULL on a CPU. */
HYP_API void *hyp_context_stream(hyp_context *context);

typedef struct hyp_run_options {
    size_t size; /* sizeof(hyp_run_options) */
    /* CUstream of this run, which has to last until the run has ended; NULL = the context's; CU_STREAM_LEGACY for
     * CUDA's default stream. The runs of a context use the same memory: one on another stream than the run before waits
     * for the end of that, on the device. Where a run is captured, that is left to the caller: see below. */
    void *stream;
    void *const *wait; /* CUevents: the run begins when all of them have been reached. May be NULL */
    size_t wait_count;
    void *record; /* CUevent that is reached when the run has ended, outputs included. NULL = none */
    bool keep_variables; /* the run computes its outputs, and leaves the variables of the plan as they were: evaluation. Steps at
                          * the end that would only change variables are not run */
} hyp_run_options;

/* hyp_context_run on a stream and in an order of the caller's; options may be NULL. Without any tensors (NULL and 0,
 * twice), with what hyp_context_bind has bound. With tensors on the device alone it returns when the run is queued, and
 * waits for nothing but memory that has to be taken first, if shapes were not reserved. With tensors in host memory it
 * returns when the run has ended, like hyp_context_run. What only the device notices, as an index out of range,
 * hyp_context_synchronize tells. HYP_ERR_UNSUPPORTED: a stream or an event was given on a CPU, where all runs end
 * before the call does. */
HYP_API HYP_NODISCARD hyp_status hyp_context_run_with(hyp_context *context, const hyp_tensor *inputs,
                                                      size_t input_count, hyp_tensor *outputs, size_t output_count,
                                                      const hyp_run_options *options, hyp_diag *diag);

/* Graphs of the caller's. A run whose stream is captured (cuStreamBeginCapture) becomes a part of the graph that the
 * caller makes, op by op; its tensors must lie on the device: in host memory they are HYP_ERR_INVALID_ARGUMENT. Shapes
 * may be prepared meanwhile. The graph uses memory of the context, and stays usable whatever comes later but the end of
 * the context: what it uses is kept when shapes grow, are forgotten or prepared anew, and while tuning looks for
 * something faster. A launch of it is like a run of the context, so that one of both is under way at a time: on one
 * stream, or by events. (The context cannot wait for launches, which it does not see, nor they for its runs.)
 *
 * This tells that no such graph will be launched any more, and frees what was kept for them alone. Launches that are
 * under way are waited for. NULL-safe; to be called by the thread that uses the context. */
HYP_API void hyp_context_release_captured(hyp_context *context);

/* What a step has to do under the shapes that were run or reserved last. */
typedef struct hyp_step_work_info {
    size_t size;              /* sizeof(hyp_step_work_info) */
    double flops;             /* additions and multiplications; functions as the compiler counts them */
    double bytes;             /* of all tensors that it reads or writes, weights included, each once */
    size_t launches;          /* kernels, products of a library and copies on a GPU; 0 on a CPU. Steps that are done together
                               * count where the first of them is */
    double floor_seconds;     /* that the GPU needs for the bytes or the operations, by what its driver says of it; 0 = not known */
    double predicted_seconds; /* hyp_step_info's, times as much as there is more to do than under the typical sizes, by
                               * operations or by bytes, whichever is more */
    double operations; /* of any kind: flops, and what steps do besides that is none, as comparing and sampling; where
                        * the data decide, the most */
} hyp_step_work_info;
/* Fills in *out, whose size is set. HYP_ERR_INVALID_ARGUMENT before shapes were run or reserved, and beyond the last step. */
HYP_API HYP_NODISCARD hyp_status hyp_context_step_work(hyp_context *context, size_t step, hyp_step_work_info *out,
                                                       hyp_diag *diag);

/* ---- memory of the device ------------------------------------------------------------------------------
 *
 * For callers who have no library of their own for it: tensors that a run uses where they lie. On a CPU that is the host's
 * memory, and all of this works alike.
 */

/* Takes tensor->bytes of the engine's device and sets tensor->data and tensor->memory; nothing else is read. To be freed
 * before the engine is destroyed. HYP_ERR_DEVICE, HYP_ERR_OUT_OF_MEMORY. */
HYP_API HYP_NODISCARD hyp_status hyp_engine_tensor_alloc(hyp_engine *engine, hyp_tensor *tensor, hyp_diag *diag);
HYP_API void hyp_engine_tensor_free(hyp_engine *engine, hyp_tensor *tensor); /* data becomes NULL; NULL is safe */
/* Copies from->bytes between the host's memory and the device's, or within one of them, and returns when they have arrived. Work that is queued
 * on a context's stream, or any other, is not waited for: hyp_context_synchronize. */
HYP_API HYP_NODISCARD hyp_status hyp_engine_tensor_copy(hyp_engine *engine, const hyp_tensor *from, hyp_tensor *to,
                                                        hyp_diag *diag);

/* Bytes that count to the memory_limit of the options. While a plan is loaded, tensors are packed, or scratch memory
 * grows, what there was and what takes its place count both, so that the limit has to be larger than what is left. */
HYP_API size_t hyp_engine_memory_bytes(const hyp_engine *engine);
HYP_API size_t hyp_context_memory_bytes(const hyp_context *context);
/* What hyp_context_memory_bytes would be after hyp_context_reserve with inputs of these dims (name or position, rank and dims are
 * read), without taking it: exact but for some hundred bytes that the system rounds up. Packed weights that no shapes wanted
 * before are made, and are the engine's. On a GPU tensors in host memory, and steps side by side where there is room for them, take
 * more. The context's limits do not apply. Like every call with a context: one thread at a time. */
HYP_API HYP_NODISCARD hyp_status hyp_context_memory_needed(hyp_context *context, const hyp_tensor *inputs, size_t count,
                                                           size_t *out_bytes, hyp_diag *diag);
/* What hyp_engine_memory_bytes would be at most after loading this plan with these options, of which the device counts; AUTO: on
 * whichever takes most. On a GPU, and on the reference device, it is exact but for some KB for every step; on a CPU layers may be
 * packed in smaller blocks, or not before shapes are known, and what the first shapes have packed comes on top: weights of
 * convolutions and recurrences, and layers in another form; on a GPU weights of convolutions by 3x3 in strict f32. */
HYP_API HYP_NODISCARD hyp_status hyp_plan_memory_needed(const char *path, const hyp_engine_options *options,
                                                        size_t *out_bytes, hyp_diag *diag);
/* Bytes of scratch memory that the context holds on the device. */
HYP_API size_t hyp_context_scratch_bytes(const hyp_context *context);

/* ---- tuning --------------------------------------------------------------------------------------------
 *
 * A GPU's library has many algorithms for a product (a layer, a matmul) and proposes one without trying, layers can run by
 * a kernel of our own or as products, and pointwise steps by kernels that are compiled for them. On a CPU steps can run by
 * oneDNN, on some of its threads, or by kernels of our own. Tuning tries them. What
 * it finds belongs to the device, the version of its library, and the shapes that were tuned; a context uses it from then
 * on, and a plan keeps it for the next engine that loads it on such a device. Other devices run the plan as if it were
 * not there.
 *
 *   hyp_context_tune(context, inputs, 1, NULL, NULL, &diag);          once for every set of shapes that matters
 *   hyp_context_save_plan(context, "plan.bin", &diag);
 */

/* How a product, a step of several layers, or a pointwise step is done fastest; on a CPU any step. Of what a context
 * gives, everything is borrowed until it is destroyed. */
typedef struct hyp_tuned {
    size_t size;            /* sizeof(hyp_tuned) */
    const char *product;    /* "bf16 tn 512x256x256 ...": types, layout, shape, what follows it; "layers bf16 1: ...";
                             * "pointwise ..."; on a CPU hyp_choice_info.key */
    const void *algorithm;  /* as the library has it, who does which layer, a kernel, or the name of an alternative: opaque.
                             * A kernel is run as it is, and must be of a source that is trusted */
    size_t algorithm_bytes; /* 1 MiB at most */
    uint32_t epilogue;      /* what the library does after the product, in its own number */
    const char *attributes; /* of the algorithm, for people; may be NULL in what is added */
    uint64_t workspace;     /* bytes */
    double seconds;         /* measured, with what follows the product */
    double first_seconds;   /* the same as an untuned plan does it */
} hyp_tuned;

typedef struct hyp_tune_options {
    size_t size;    /* sizeof(hyp_tune_options) */
    double seconds; /* about how long to measure; 0 = a minute. Products that no time is left for stay untuned */
    /* Called before product `done` of `total`, and with done == total at the end. May be NULL. */
    void (*progress)(size_t done, size_t total, const char *product, void *user);
    void *progress_user;
    /* Asked for products that the context knows nothing of, before they are measured: true with fields of *out, whose size
     * is the library's, which are copied, when it was found earlier on the same device (hyp_context_tuning_device). May be
     * NULL. */
    bool (*find)(const char *product, struct hyp_tuned *out, void *user);
    void *find_user;
} hyp_tune_options;

typedef struct hyp_tune_report {
    size_t size;     /* sizeof(hyp_tune_report) */
    size_t products; /* different ones of the plan under these shapes, steps of layers, and pointwise steps if there is a
                      * compiler for them; on a CPU different steps that can be done in several ways */
    size_t known;    /* were known before or found elsewhere, and not measured */
    size_t timed;
    size_t replaced; /* of those: where something is more than 2 % faster than what an untuned plan does */
    /* Of a run, tuned and not, when something was replaced; else 0. Where the tuned run is not faster, nothing stays
     * replaced. */
    double run_seconds, untuned_run_seconds;
    double seconds, first_seconds; /* of all that are known now, each as often as the plan has it, layers once */
    char no_kernels[256]; /* why pointwise steps, or some, got no kernel of their own; "" where nothing was in the way */
} hyp_tune_report;

/* Measures the products and pointwise steps of the plan, on a CPU its steps, for inputs of these dims (name or position, rank and dims are read, data is not),
 * those that nothing is known of. Takes device memory while it measures, and forgets the shapes that were prepared. On
 * failure what was found before it is kept. `options` and `out`, whose size is set, may be NULL. HYP_ERR_UNSUPPORTED on the reference device.
 * Like every call with a context: one thread at a time, and nothing of it under way. */
HYP_API HYP_NODISCARD hyp_status hyp_context_tune(hyp_context *context, const hyp_tensor *inputs, size_t count,
                                                  const hyp_tune_options *options, hyp_tune_report *out,
                                                  hyp_diag *diag);

/* What it belongs to: "NVIDIA H200, sm_90, 132 multiprocessors, cuBLASLt 130100"; a processor, what oneDNN and our
 * kernels are made for, and a number of threads. NULL on a device without tuning.
 * Borrowed from the engine. */
HYP_API const char *hyp_context_tuning_device(const hyp_context *context);
/* What the context knows, from its plan and from tuning, in order of product. False, and all zeros, beyond the last. */
HYP_API size_t hyp_context_tuned_count(const hyp_context *context);
HYP_API bool hyp_context_read_tuned(const hyp_context *context, size_t i, hyp_tuned *out);
HYP_BY_VALUE(hyp_tuned, hyp_context_tuned, hyp_context_read_tuned, (const hyp_context *context, size_t i), context, i)
/* Tuning while contexts of the engine serve, in a thread beside them:
 *
 *   tuning thread                                          threads that serve, each with a context of its own
 *     hyp_context_create(engine, NULL, &tuner, &diag);       options.priority = -1 for these
 *     hyp_context_tune(tuner, inputs, 1, ...);               hyp_context_run(context, ...);
 *     hyp_context_share_tuning(tuner, &diag);                hyp_context_adopt_tuning(context, NULL, &diag);   now and then
 *
 * Nobody waits for anybody: what is shared is read without a lock, and a run looks at none of it. A new context, and shapes
 * that are prepared anew, take what was shared by then. Times that are measured while others use the GPU are longer
 * and less even; candidates are measured in turns, so that all of them suffer alike. */

/* Gives all that the context knows to the other contexts of its engine, in place of what was given before of the same
 * products. */
HYP_API HYP_NODISCARD hyp_status hyp_context_share_tuning(hyp_context *context, hyp_diag *diag);
/* Takes what was shared, in place of what the context knew of the same products, and prepares the shapes that it remembers
 * anew if there is something that they were not prepared with (*out_new, which may be NULL): a matter of milliseconds,
 * after which runs allocate nothing, as before. To be called between runs, by the thread that uses the context. On
 * failure shapes stay as they were, and the next call goes on. */
HYP_API HYP_NODISCARD hyp_status hyp_context_adopt_tuning(hyp_context *context, bool *out_new, hyp_diag *diag);

/* What decides how a step of the plan is done under the shapes that were run or reserved last. */
typedef enum hyp_step_tuning {
    HYP_STEP_NOT_TUNED = 0, /* nothing is known of it, or of one of its products, or it has none */
    HYP_STEP_TUNED = 1,     /* what was measured for just these sizes */
    HYP_STEP_BORROWED = 2   /* what was measured for a larger size, at most twice as large, at least in part */
} hyp_step_tuning;
HYP_API hyp_step_tuning hyp_context_step_tuning(const hyp_context *context, size_t step);

/* How a step is done under the shapes that were run or reserved last, and what else was possible: most steps have no choice
 * or one, some several, as a layer each. Texts are borrowed from the context until it prepares other shapes, or is destroyed. */
typedef enum hyp_choice_by {
    HYP_CHOICE_NONE = 0,    /* nothing can do it */
    HYP_CHOICE_ONLY = 1,    /* nothing else can */
    HYP_CHOICE_PRIOR = 2,   /* predicted to take least */
    HYP_CHOICE_TUNED = 3,   /* measured to take least */
    HYP_CHOICE_BORROWED = 4 /* measured to take least for a larger size, at most twice as large */
} hyp_choice_by;
typedef struct hyp_choice_info {
    size_t size;     /* sizeof(hyp_choice_info) */
    const char *key; /* everything that it depends on, as hyp_tuned.product; "" where tuning does not know it */
    size_t alternatives;
    size_t taken; /* which of them */
    hyp_choice_by by;
    double seconds; /* that tuning measured for the one taken; 0 = it was not measured */
} hyp_choice_info;
typedef struct hyp_alternative_info {
    size_t size;              /* sizeof(hyp_alternative_info) */
    const char *name;         /* "oneDNN", "own" */
    const char *cannot;       /* why it cannot do this; NULL: it can */
    double predicted_seconds; /* 0 = not predicted */
} hyp_alternative_info;
HYP_API size_t hyp_context_choice_count(const hyp_context *context, size_t step);
/* Fill in *out, whose size is set. False, all zeros, and names "", beyond the last. */
HYP_API bool hyp_context_read_choice(const hyp_context *context, size_t step, size_t choice, hyp_choice_info *out);
HYP_API bool hyp_context_read_alternative(const hyp_context *context, size_t step, size_t choice, size_t i,
                                          hyp_alternative_info *out);
HYP_BY_VALUE(hyp_choice_info, hyp_context_choice, hyp_context_read_choice,
             (const hyp_context *context, size_t step, size_t choice), context, step, choice)
HYP_BY_VALUE(hyp_alternative_info, hyp_context_alternative, hyp_context_read_alternative,
             (const hyp_context *context, size_t step, size_t choice, size_t i), context, step, choice, i)

/* Adds what was found before on the same device (hyp_context_tuning_device); it is copied, and replaces what was known
 * of this product. An algorithm that the library refuses, or a kernel that the driver does, is not used. Forgets the
 * shapes that were prepared. */
HYP_API HYP_NODISCARD hyp_status hyp_context_add_tuned(hyp_context *context, const hyp_tuned *tuned, hyp_diag *diag);

/* Writes the context's plan with everything that it knows, to `path`, which may be the file that it was loaded from: it
 * is replaced whole or not at all. What the plan knew of another device is lost if there is something of this one, and a
 * signature is: hyp_plan_sign of hypatia/signature.h makes another. */
HYP_API HYP_NODISCARD hyp_status hyp_context_save_plan(const hyp_context *context, const char *path, hyp_diag *diag);

/* ---- looking into a plan ------------------------------------------------------------------------------ */

/* Writes a description of a plan file for people (or JSON) through `write`: format, provenance, inputs,
 * outputs, steps with kernel, shapes, bytes, flops, rules used. `dims` gives values for symbols (name, rank 1,
 * dims[0]); symbols without a value count as 1 in the figures, which is said. */
HYP_API HYP_NODISCARD hyp_status hyp_plan_describe(const char *path, bool json, const hyp_tensor *dims, size_t dim_count,
                                                   void (*write)(const char *text, size_t len, void *user), void *user,
                                                   hyp_diag *diag);
/* The same of a plan in memory, which the description calls `name`. */
HYP_API HYP_NODISCARD hyp_status hyp_plan_describe_memory(const void *data, size_t size, const char *name, bool json,
                                                          const hyp_tensor *dims, size_t dim_count,
                                                          void (*write)(const char *text, size_t len, void *user),
                                                          void *user, hyp_diag *diag);
/* Writes the record of its compilation that a plan keeps, JSON that docs/report.md describes: UTF-8, else as the file has it. Nothing
 * is written where there is none (hypatiac --no-record). */
HYP_API HYP_NODISCARD hyp_status hyp_plan_record(const char *path,
                                                 void (*write)(const char *text, size_t len, void *user), void *user,
                                                 hyp_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
