/* triton_instance.h - an instance of a model: a context, which runs the requests that the server hands over together as
 * few times as it can. triton_instance.c takes them apart by their shapes and answers them, triton_tensors.c moves
 * their data.
 */
#ifndef HYPATIA_TOOLS_TRITON_INSTANCE_H
#define HYPATIA_TOOLS_TRITON_INSTANCE_H

#include "triton_model.h"

/* An input of one request: what the server has of it. */
typedef struct triton_input {
    TRITONBACKEND_Input *handle;
    uint32_t buffers;
    bool on_gpu;       /* one of the buffers at least, on the engine's GPU */
    hyp_tensor tensor; /* type, dims and bytes */
} triton_input;

/* An output of one request. */
typedef struct triton_output {
    bool wanted;
    bool opened; /* the response has it; tensor.data is where the client wants it */
    hyp_tensor tensor;
} triton_output;

typedef struct triton_request {
    TRITONBACKEND_Request *handle; /* NULL: it has been answered */
    TRITONBACKEND_Response *response; /* NULL: the server could not make one */
    TRITONSERVER_Error *error;        /* what it is answered with; NULL: nothing has gone wrong */
    triton_input *inputs;             /* in the plan's order, as outputs */
    triton_output *outputs;
    int64_t rows;                        /* of the first axis of each input; 0 where requests have no such axis */
    bool taken;                          /* has been run, or cannot be */
    uint64_t compute_begin, compute_end; /* nanoseconds */
} triton_request;

typedef struct triton_instance {
    TRITONBACKEND_ModelInstance *handle;
    const char *name; /* of the model */
    int64_t max_rows; /* triton_model_max_rows */
    hyp_engine *engine;
    hyp_context *context;
    bool on_gpu;
    int32_t gpu;
    size_t input_count, output_count;
    /* Of the run under way. */
    hyp_tensor *inputs, *outputs;
    hyp_tensor
        *gathered[2]; /* memory for what is put together of an input, by hyp_memory: host, GPU; `bytes` is its size */
    bool *same_as_input; /* of an output: sizes are those of inputs, and none is as large as the data say */
} triton_instance;

/* *out is the caller's; the model has to last as long. */
hyp_status triton_instance_open(TRITONBACKEND_ModelInstance *handle, triton_model *model, triton_instance **out,
                                hyp_diag *diag);
void triton_instance_close(triton_instance *in); /* NULL-safe */
/* Answers and releases all requests; on failure none. */
hyp_status triton_instance_run(triton_instance *in, TRITONBACKEND_Request **handles, uint32_t count, hyp_diag *diag);

/* ---- triton_tensors.c ------------------------------------------------------------------------------------- */

/* Finds the request's inputs and which outputs it wants, and sees to it that they can be run: types, sizes, where they
 * lie. */
hyp_status triton_request_read(const triton_instance *in, triton_request *r, hyp_diag *diag);
/* Makes in->inputs of what the requests have: where it lies, or gathered, one behind the other. */
hyp_status triton_gather(triton_instance *in, triton_request *const *requests, size_t count, hyp_diag *diag);
/* Lets the response have output o with these dims, and asks for the memory that it goes to. */
hyp_status triton_output_open(const triton_instance *in, triton_request *r, size_t o, const hyp_tensor *type,
                              hyp_diag *diag);
/* Whether a run can write it there itself. */
bool triton_output_is_direct(const triton_output *out);
/* Copies `from`, which begins at this byte of what a run gave, to where the output was opened. */
hyp_status triton_output_copy(const triton_instance *in, triton_request *r, size_t o, const hyp_tensor *from,
                              size_t begin, hyp_diag *diag);
/* Gives back what was gathered in. */
void triton_gathered_free(triton_instance *in);

#endif
