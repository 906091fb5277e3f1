/* Instances: which requests are run together, and what each of them is answered. */
#include "triton_instance.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What the server says of a call that answers a request: there is nobody left to tell but its log. */
static void tell(const triton_instance *in, TRITONSERVER_Error *error)
{
    if (!error) return;
    triton_log(TRITONSERVER_LOG_ERROR, in->name, TRITONSERVER_ErrorMessage(error));
    TRITONSERVER_ErrorDelete(error);
}

/* ---- opening ----------------------------------------------------------------------------------------------- */

enum { LEAST_SHAPES = 16, MOST_SHAPES = 256 };

/* Whether all sizes of an output are sizes of inputs, under the same names. */
static bool is_same_as_input(const hyp_engine *engine, const hyp_io_info *output)
{
    for (int32_t a = 0; a < output->rank; a++) {
        bool found = output->dims[a] >= 0;
        for (size_t i = 0; !found && i < hyp_engine_input_count(engine); i++) {
            const hyp_io_info *input = hyp_engine_input(engine, i);
            for (int32_t b = 0; b < input->rank; b++)
                found |= input->symbols[b] && output->symbols[a] && strcmp(input->symbols[b], output->symbols[a]) == 0;
        }
        if (!found) return false;
    }
    return true;
}

static hyp_status make_arrays(triton_instance *in, hyp_diag *diag)
{
    in->input_count = hyp_engine_input_count(in->engine);
    in->output_count = hyp_engine_output_count(in->engine);
    in->inputs = calloc(in->input_count + 1, sizeof *in->inputs);
    in->outputs = calloc(in->output_count + 1, sizeof *in->outputs);
    in->same_as_input = calloc(in->output_count + 1, sizeof *in->same_as_input);
    for (int where = 0; where < 2; where++) in->gathered[where] = calloc(in->input_count + 1, sizeof **in->gathered);
    if (!in->inputs || !in->outputs || !in->same_as_input || !in->gathered[0] || !in->gathered[1])
        return triton_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
    for (size_t o = 0; o < in->output_count; o++)
        in->same_as_input[o] = is_same_as_input(in->engine, hyp_engine_output(in->engine, o));
    return HYP_OK;
}

/* Takes the memory of so many rows before the first request comes. Where other sizes are open, requests bring them. */
static hyp_status reserve_rows(triton_instance *in, int64_t rows, hyp_diag *diag)
{
    hyp_tensor size = {.rank = 1, .dims = {rows}};
    const char *missing;
    for (size_t i = 0; i < in->input_count; i++) {
        const hyp_io_info *info = hyp_engine_input(in->engine, i);
        in->inputs[i] = (hyp_tensor){.dtype = info->dtype, .rank = info->rank};
        memcpy(in->inputs[i].dims, info->dims, sizeof info->dims);
        if (in->max_rows) size.name = info->symbols[0];
    }
    hyp_status status =
        hyp_engine_complete_dims(in->engine, in->inputs, in->input_count, &size, size.name ? 1 : 0, &missing, diag);
    if (status != HYP_OK || missing) return status;
    return hyp_context_reserve(in->context, in->inputs, in->input_count, diag);
}

static hyp_status find_device(triton_instance *in, hyp_device_kind *out, hyp_diag *diag)
{
    TRITONSERVER_InstanceGroupKind kind;
    if (triton_take(TRITONBACKEND_ModelInstanceKind(in->handle, &kind), diag) != HYP_OK) return diag->status;
    *out = kind == TRITONSERVER_INSTANCEGROUPKIND_CPU   ? HYP_DEVICE_CPU
           : kind == TRITONSERVER_INSTANCEGROUPKIND_GPU ? HYP_DEVICE_CUDA
                                                        : HYP_DEVICE_AUTO;
    if (*out != HYP_DEVICE_CUDA) return HYP_OK;
    return triton_take(TRITONBACKEND_ModelInstanceDeviceId(in->handle, &in->gpu), diag);
}

static hyp_status open_context(triton_instance *in, triton_model *model, hyp_diag *diag)
{
    hyp_device_kind device;
    if (find_device(in, &device, diag) != HYP_OK ||
        triton_model_engine(model, device, in->gpu, &in->engine, diag) != HYP_OK || make_arrays(in, diag) != HYP_OK)
        return diag->status;
    in->on_gpu = hyp_engine_device(in->engine) == HYP_DEVICE_CUDA;
    /* Batches are of any size up to the most. */
    int64_t shapes = in->max_rows < LEAST_SHAPES  ? LEAST_SHAPES
                     : in->max_rows < MOST_SHAPES ? in->max_rows
                                                  : MOST_SHAPES;
    hyp_context_options options = {.size = sizeof options, .shapes = (size_t)shapes};
    hyp_status status = hyp_context_create(in->engine, &options, &in->context, diag);
    if (status == HYP_OK) status = reserve_rows(in, in->max_rows, diag);
    if (status == HYP_OK && in->max_rows > 1) status = reserve_rows(in, 1, diag);
    return status;
}

hyp_status triton_instance_open(TRITONBACKEND_ModelInstance *handle, triton_model *model, triton_instance **out,
                                hyp_diag *diag)
{
    triton_instance *in = calloc(1, sizeof *in);
    if (!in) return triton_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
    in->handle = handle;
    in->name = triton_model_name(model);
    in->max_rows = triton_model_max_rows(model);
    if (open_context(in, model, diag) != HYP_OK) return triton_instance_close(in), diag->status;
    return *out = in, HYP_OK;
}

void triton_instance_close(triton_instance *in)
{
    if (!in) return;
    hyp_context_destroy(in->context);
    triton_gathered_free(in);
    for (int where = 0; where < 2; where++) free(in->gathered[where]);
    free(in->inputs);
    free(in->outputs);
    free(in->same_as_input);
    free(in);
}

/* ---- a run ------------------------------------------------------------------------------------------------- */

/* The outputs of a run, whose dims are known: what one request wants as it is goes where the client wants it, the rest
 * to memory of the context. */
static hyp_status place_outputs(triton_instance *in, triton_request *const *requests, size_t count, hyp_diag *diag)
{
    for (size_t o = 0; o < in->output_count; o++)
        in->outputs[o] = (hyp_tensor){.dtype = hyp_engine_output(in->engine, o)->dtype};
    hyp_status status =
        hyp_context_output_shapes(in->context, in->inputs, in->input_count, in->outputs, in->output_count, diag);
    for (size_t o = 0; status == HYP_OK && o < in->output_count; o++) {
        triton_output *alone = count == 1 ? &requests[0]->outputs[o] : NULL;
        if (alone && alone->wanted && in->same_as_input[o])
            status = triton_output_open(in, requests[0], o, &in->outputs[o], diag);
        if (alone && triton_output_is_direct(alone))
            in->outputs[o] = alone->tensor;
        else
            in->outputs[o].memory = HYP_MEMORY_CONTEXT;
    }
    return status;
}

/* The rows of an output that are a request's, from the first-th on. */
static hyp_status hand_out(triton_instance *in, triton_request *r, size_t o, int64_t first, hyp_diag *diag)
{
    const hyp_tensor *from = &in->outputs[o];
    if (!r->outputs[o].wanted || triton_output_is_direct(&r->outputs[o])) return HYP_OK;
    if (!r->outputs[o].opened) {
        hyp_tensor type = {.dtype = from->dtype, .rank = from->rank};
        memcpy(type.dims, from->dims, sizeof type.dims);
        if (in->max_rows) type.dims[0] = r->rows;
        if (triton_output_open(in, r, o, &type, diag) != HYP_OK) return diag->status;
    }
    size_t row = r->rows ? r->outputs[o].tensor.bytes / (size_t)r->rows : 0;
    return triton_output_copy(in, r, o, from, row * (size_t)first, diag);
}

/* All outputs to all requests: one that cannot have its own is answered so, and the others are not concerned. */
static hyp_status hand_out_all(triton_instance *in, triton_request *const *requests, size_t count, hyp_diag *diag)
{
    int64_t rows = 0, first = 0;
    for (size_t k = 0; k < count; k++) rows += requests[k]->rows;
    for (size_t o = 0; in->max_rows && o < in->output_count; o++)
        if (in->outputs[o].rank < 1 || in->outputs[o].dims[0] != rows)
            return triton_fail(diag, HYP_ERR_UNSUPPORTED,
                               "output '%s' has not as many rows as the inputs: set max_batch_size: 0",
                               hyp_engine_output(in->engine, o)->name);
    for (size_t k = 0; k < count; k++) {
        triton_request *r = requests[k];
        hyp_diag own;
        hyp_status status = HYP_OK;
        for (size_t o = 0; status == HYP_OK && o < in->output_count; o++) status = hand_out(in, r, o, first, &own);
        if (status != HYP_OK) r->error = triton_error(in->name, status, &own);
        first += r->rows;
    }
    return HYP_OK;
}

static hyp_status run_together(triton_instance *in, triton_request *const *requests, size_t count, hyp_diag *diag)
{
    uint64_t begin = now();
    hyp_status status = triton_gather(in, requests, count, diag);
    if (status == HYP_OK) status = place_outputs(in, requests, count, diag);
    uint64_t compute_begin = now();
    if (status == HYP_OK)
        status = hyp_context_run(in->context, in->inputs, in->input_count, in->outputs, in->output_count, diag);
    if (status == HYP_OK && in->on_gpu) status = hyp_context_synchronize(in->context, diag);
    uint64_t compute_end = now();
    if (status == HYP_OK) status = hand_out_all(in, requests, count, diag);
    uint64_t rows = 0;
    for (size_t k = 0; k < count; k++) {
        requests[k]->compute_begin = compute_begin;
        requests[k]->compute_end = compute_end;
        rows += in->max_rows ? (uint64_t)requests[k]->rows : 1;
    }
    if (status == HYP_OK)
        tell(in, TRITONBACKEND_ModelInstanceReportBatchStatistics(in->handle, rows, begin, compute_begin, compute_end,
                                                                  now()));
    return status;
}

/* Where a run of several fails, for what one of them brought, say, each is run by itself. */
static void run_group(triton_instance *in, triton_request *const *requests, size_t count)
{
    hyp_diag diag = {0};
    hyp_status status = run_together(in, requests, count, &diag);
    if (status == HYP_OK) return;
    for (size_t k = 0; k < count; k++)
        if (count > 1)
            run_group(in, &requests[k], 1);
        else
            requests[k]->error = triton_error(in->name, status, &diag);
}

/* ---- requests ---------------------------------------------------------------------------------------------- */

/* Whether the inputs of two requests differ in their rows alone. */
static bool fit(const triton_instance *in, const triton_request *a, const triton_request *b)
{
    for (size_t i = 0; i < in->input_count; i++) {
        const hyp_tensor *x = &a->inputs[i].tensor, *y = &b->inputs[i].tensor;
        for (int32_t axis = 1; axis < x->rank; axis++)
            if (x->dims[axis] != y->dims[axis]) return false;
    }
    return in->max_rows > 0;
}

/* The first request that was not run, with all that fit behind it, up to the most rows. Returns how many. */
static size_t next_group(const triton_instance *in, triton_request *all, size_t count, triton_request **group)
{
    size_t members = 0;
    int64_t rows = 0;
    for (size_t k = 0; k < count; k++) {
        if (all[k].taken || (members && (!fit(in, group[0], &all[k]) || all[k].rows > in->max_rows - rows))) continue;
        all[k].taken = true;
        rows += all[k].rows;
        group[members++] = &all[k];
    }
    return members;
}

static void begin_request(triton_instance *in, triton_request *r, TRITONBACKEND_Request *handle)
{
    hyp_diag diag;
    hyp_status status;
    r->handle = handle;
    if ((status = triton_take(TRITONBACKEND_ResponseNew(&r->response, handle), &diag)) != HYP_OK) {
        triton_log(TRITONSERVER_LOG_ERROR, in->name, diag.message);
        r->response = NULL;
    } else if ((status = triton_request_read(in, r, &diag)) != HYP_OK) {
        r->error = triton_error(in->name, status, &diag);
    }
    r->taken = status != HYP_OK;
}

static void end_request(triton_instance *in, triton_request *r, uint64_t begin)
{
    bool success = r->response && !r->error;
    uint64_t end = now();
    if (r->response) tell(in, TRITONBACKEND_ResponseSend(r->response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, r->error));
    if (r->error) TRITONSERVER_ErrorDelete(r->error);
    tell(in, TRITONBACKEND_ModelInstanceReportStatistics(in->handle, r->handle, success, begin, r->compute_begin,
                                                         r->compute_end, end));
    tell(in, TRITONBACKEND_RequestRelease(r->handle, TRITONSERVER_REQUEST_RELEASE_ALL));
    r->handle = NULL;
}

hyp_status triton_instance_run(triton_instance *in, TRITONBACKEND_Request **handles, uint32_t count, hyp_diag *diag)
{
    uint64_t begin = now();
    triton_request *all = calloc(count, sizeof *all), **group = calloc(count, sizeof *group);
    triton_input *inputs = calloc(count * in->input_count + 1, sizeof *inputs);
    triton_output *outputs = calloc(count * in->output_count + 1, sizeof *outputs);
    bool enough = all && group && inputs && outputs;
    for (uint32_t k = 0; enough && k < count; k++) {
        all[k].inputs = inputs + k * in->input_count;
        all[k].outputs = outputs + k * in->output_count;
        begin_request(in, &all[k], handles[k]);
    }
    for (size_t members; enough && (members = next_group(in, all, count, group)) > 0;) {
        run_group(in, group, members);
        for (size_t k = 0; k < members; k++) end_request(in, group[k], begin);
    }
    for (uint32_t k = 0; enough && k < count; k++)
        if (all[k].handle) end_request(in, &all[k], begin);
    free(all);
    free(group);
    free(inputs);
    free(outputs);
    return enough ? HYP_OK : triton_fail(diag, HYP_ERR_NO_MEMORY, "out of memory for %" PRIu32 " requests", count);
}
