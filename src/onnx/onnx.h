/* onnx.h - ONNX models in and out of the tensor graph. Sees ir and base; knows nothing of rewriting. */
#ifndef HYP_ONNX_ONNX_H
#define HYP_ONNX_ONNX_H

#include "ir/constants.h"
#include "ir/ir.h"

/* Keeps what an imported graph borrows: the mapped model file and external data files. Must outlive the
 * graph. */
typedef struct hyp_onnx_model hyp_onnx_model;

typedef struct hyp_onnx_options {
    /* `--shapes x:32x784`: dims to use for an input, in place of what the model declares. -1 leaves one as
     * declared. A symbolic dim gets its size at every input that has it. */
    const hyp_tensor *shapes; /* name, rank and dims are read */
    size_t shape_count;
    /* `--bind k=@k.npy`: inputs, by name, that are given their value now. They become constants, and the symbolic dims
     * of their declared shapes get the sizes that they have. The data is copied. */
    const hyp_tensor *bound;
    size_t bound_count;
    /* `--dim batch=32`: sizes for symbolic dims by name; a dim without a name in the model has one like
     * "x_dim0", after the input and its place. An unknown name is HYP_ERR_INVALID_ARGUMENT. */
    const char *const *dim_names;
    const int64_t *dim_values;
    size_t dim_count;
    /* Products of 8-bit integers with more terms than f32 holds are made in f64, for who has no products of i32. Sums
     * that leave i32, where they should wrap, then do not. */
    bool no_integer_products;
    /* `--updatable PATTERN`: initializers of the model's graph, by patterns as of a shell's file names, that are to be
     * hyp_value.updatable: those of floats and of more than one element, or the weights of a layer. A pattern that none of
     * these fits is HYP_ERR_INVALID_ARGUMENT. One whose elements the import needs stays as it is, with a warning. */
    const char *const *updatable;
    size_t updatable_count;
    /* For training: what an initializer becomes in a run, as the mean that a batch normalization keeps does, is an output
     * called "new:" and its name, behind the model's. */
    bool states;
    /* For a training step that drops elements: a Dropout keeps its ratio, be it in training mode or not. Its mask is then
     * not to be read, and its ratio is to be known. */
    bool dropout;
    /* `--custom-domain acme`: what Hypatia lacks of these domains ("ai.onnx" is ONNX's own) becomes custom operators. */
    const char *const *custom_domains;
    size_t custom_domain_count;
    /* `--custom-output y:f32:batchx64`: types of their results, in place of what the model says. */
    const char *const *custom_outputs;
    size_t custom_output_count;
    /* Makes a plan of the body of a loop that is not written out, which the caller gives back by hyp_free. NULL: such
     * loops are refused. */
    hyp_status (*compile_body)(void *user, const hyp_graph *body, void **out_plan, size_t *out_bytes, hyp_diag *diag);
    void *compile_user;
    bool runs_loops; /* a loop that the data end is run where it can be, not written out for as many trips as it may make */
    int64_t loop_limit; /* `--loop-limit`: trips of such a loop, where only the data tell how many; 0 = 1024 where
                           something is collected of them, else any number */
} hyp_onnx_options;

/* Reads a model file (ONNX operator sets 1 to 28) into `g`, which is initialised and empty. Weights are not
 * copied: constants point into the mapping, without alignment, so read them by hyp_load_* or memcpy. Dead
 * nodes are imported like others. Calls of the model's own functions are inlined, and the branch that an If with a
 * constant condition takes; the other branch is not looked at. Loops are written out, to 65536 nodes at most, or run. Each
 * IR node names its ONNX node as its source: by its name, else "Op:first output"; in a function, after the name of the node
 * that calls it and a slash.
 * A symbolic size that meets another size where a node needs equal ones (a broadcast, a product, a concatenation) is
 * taken to be equal to it: the inputs' types say so, and the model's equalities why. A size that turns out to be 1 is no
 * exception.
 * A path that is a pipe, or "-" for standard input, is read to its end; external data is then, as for /dev/fd/3, looked up in
 * the working directory. What looks wrong and does no harm is among the model's warnings.
 * HYP_ERR_UNSUPPORTED: operators that Hypatia lacks, all of them in one message with counts and node names;
 * element types, ranks, shapes and conditions that depend on data. HYP_ERR_MALFORMED: bad bytes, cycles, wrong ranks,
 * duplicate or missing names, missing external data or a path to it that leaves the model's folder. Messages
 * name the file and the node or tensor. On failure *out_model is untouched and `g` is to be disposed.
 * Thread-compatible. */
HYP_NODISCARD hyp_status hyp_onnx_import(const char *path, const hyp_onnx_options *options, hyp_graph *g,
                                         hyp_onnx_model **out_model, hyp_diag *diag);
/* The same from memory, which must outlive the model; `folder` is where external data is looked up, NULL
 * refuses it. */
HYP_NODISCARD hyp_status hyp_onnx_import_memory(const void *data, size_t size, const char *file, const char *folder,
                                                const hyp_onnx_options *options, hyp_graph *g,
                                                hyp_onnx_model **out_model, hyp_diag *diag);
void hyp_onnx_model_destroy(hyp_onnx_model *model); /* NULL-safe */

/* The bytes of a model whose path gives them once only, as a pipe does, or is "-"; NULL for others. */
const void *hyp_onnx_model_piped(const hyp_onnx_model *model, size_t *out_size);

/* Whether `path` is one of the files that the model was read from, its external data among them. */
bool hyp_onnx_model_reads(const hyp_onnx_model *model, const char *path);

/* Tells that bytes of a constant of this model will not be read soon, so that their pages may go. */
void hyp_onnx_model_forget(const hyp_onnx_model *model, const void *data, size_t size);

/* The model without the elements of the initializers of these names: hyp_onnx_skeleton_make. */
HYP_NODISCARD hyp_status hyp_onnx_model_skeleton(hyp_onnx_model *model, const char *const *names, size_t count,
                                                 size_t most, hyp_strbuf *out, hyp_diag *diag);

typedef struct hyp_onnx_info {
    const char *producer, *graph_name;
    int64_t ir_version, opset;
    size_t file_bytes;              /* model file and external data */
    uint64_t hash;                  /* of the model file and its external data */
    const hyp_equality *equalities; /* owned by the model */
    size_t equality_count;
    const char *const *warnings; /* what looks wrong in the model and does no harm; owned by the model */
    size_t warning_count;
} hyp_onnx_info;
hyp_onnx_info hyp_onnx_model_info(const hyp_onnx_model *model);

/* ---- writing ------------------------------------------------------------------------------------------------ */

enum { HYP_ONNX_WRITE_OPSET = 20 }; /* of what is written, where it has no operator that came later */

typedef struct hyp_onnx_write_options {
    const char *domain; /* "com.microsoft": use that domain's operators where they fit; NULL or "": ONNX's own alone */
    const char *name;   /* of the graph; NULL = none */
    hyp_fold_budget fold; /* what may be computed of constants: it is in the file then */
    uint64_t most; /* bytes of weights that stay in the file; where there are more, they go to a file beside it, PATH.data.
                      0 = as much as readers take, some 2 GiB */
    void (*forget)(void *user, const void *data, size_t bytes); /* of constants that were written; NULL = nobody asks */
    void *user;
} hyp_onnx_write_options;

/* Writes the graph as a model that any reader of ONNX has: names of inputs and outputs, symbolic dims, types of all values;
 * operators that ONNX lacks as functions of the model, in the domain "hypatia". The file appears whole or not at all; "-" is
 * standard output. HYP_ERR_UNSUPPORTED lists all operators of the graph that cannot be written; a graph with variables, a
 * training step, is none that can. Reading the file gives an equivalent graph, but for those in which only the data
 * tell a size (NonZero): what follows from it is computed then, and the importer wants to know it. Deterministic. */
HYP_NODISCARD hyp_status hyp_onnx_write(const hyp_graph *g, const char *path, const hyp_onnx_write_options *options,
                                        hyp_diag *diag);

#endif
