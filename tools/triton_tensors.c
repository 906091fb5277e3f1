/* Data of requests: from the server's buffers to the inputs of a run, and from its outputs to the buffers of responses.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "triton_instance.h"
#include "triton_types.h"

enum { ALIGNMENT = 64 };

/* Bytes of a dense tensor of these dims; false where they are none, or more than there can be. */
static bool byte_size(const hyp_tensor *t, size_t *out)
{
    size_t bytes = hyp_dtype_size(t->dtype);
    for (int32_t a = 0; a < t->rank; a++)
        if (t->dims[a] < 0 || __builtin_mul_overflow(bytes, (size_t)t->dims[a], &bytes)) return false;
    return *out = bytes, true;
}

/* Where the engine would like data to be. */
static TRITONSERVER_MemoryType preferred(const triton_instance *in)
{
    return in->on_gpu ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
}

/* ---- inputs ------------------------------------------------------------------------------------------------ */

typedef struct buffer {
    const void *data;
    uint64_t bytes;
    bool on_gpu;
} buffer;

static hyp_status find_buffer(const triton_instance *in, const triton_input *input, uint32_t i, buffer *out,
                              hyp_diag *diag)
{
    TRITONSERVER_MemoryType memory = preferred(in);
    int64_t device = in->gpu;
    if (triton_take(TRITONBACKEND_InputBuffer(input->handle, i, &out->data, &out->bytes, &memory, &device), diag) !=
        HYP_OK)
        return diag->status;
    out->on_gpu = memory == TRITONSERVER_MEMORY_GPU;
    if (out->on_gpu && !(in->on_gpu && device == in->gpu))
        return triton_fail(diag, HYP_ERR_UNSUPPORTED,
                           "an input lies on GPU %" PRId64 ", and the model runs on %s: send it from the host", device,
                           hyp_engine_device_name(in->engine));
    return HYP_OK;
}

/* All buffers together have what the dims say. */
static hyp_status check_buffers(const triton_instance *in, triton_input *input, const char *name, hyp_diag *diag)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < input->buffers; i++) {
        buffer b;
        if (find_buffer(in, input, i, &b, diag) != HYP_OK) return diag->status;
        input->on_gpu |= b.on_gpu;
        if (__builtin_add_overflow(bytes, b.bytes, &bytes)) bytes = UINT64_MAX;
    }
    if (bytes != input->tensor.bytes)
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                           "input '%s' has %" PRIu64 " bytes of data, and its dims want %zu", name, bytes,
                           input->tensor.bytes);
    return HYP_OK;
}

static hyp_status read_input(const triton_instance *in, triton_request *r, size_t i, hyp_diag *diag)
{
    const hyp_io_info *info = hyp_engine_input(in->engine, i);
    triton_input *input = &r->inputs[i];
    TRITONSERVER_DataType type;
    const int64_t *dims;
    uint32_t rank;
    if (triton_take(TRITONBACKEND_RequestInput(r->handle, info->name, &input->handle), diag) != HYP_OK ||
        triton_take(TRITONBACKEND_InputProperties(input->handle, NULL, &type, &dims, &rank, NULL, &input->buffers),
                    diag) != HYP_OK)
        return diag->status;
    if (type != triton_type(info->dtype))
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s' is of another type than the plan's, which is %s",
                           info->name, hyp_dtype_name(info->dtype));
    if (rank != (uint32_t)info->rank)
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s' has %" PRIu32 " axes, and the plan's %" PRId32,
                           info->name, rank, info->rank);
    input->tensor = (hyp_tensor){.dtype = info->dtype, .rank = info->rank};
    memcpy(input->tensor.dims, dims, rank * sizeof *dims);
    if (!byte_size(&input->tensor, &input->tensor.bytes))
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT, "input '%s' has dims that are none", info->name);
    return check_buffers(in, input, info->name, diag);
}

static hyp_status read_rows(const triton_instance *in, triton_request *r, hyp_diag *diag)
{
    if (in->max_rows == 0) return HYP_OK;
    r->rows = r->inputs[0].tensor.dims[0];
    for (size_t i = 0; i < in->input_count; i++)
        if (r->inputs[i].tensor.dims[0] != r->rows)
            return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                               "input '%s' has %" PRId64 " rows, and the first input %" PRId64,
                               hyp_engine_input(in->engine, i)->name, r->inputs[i].tensor.dims[0], r->rows);
    if (r->rows > in->max_rows)
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT, "there are %" PRId64 " rows, and max_batch_size is %" PRId64,
                           r->rows, in->max_rows);
    return HYP_OK;
}

static hyp_status read_wanted(const triton_instance *in, triton_request *r, hyp_diag *diag)
{
    uint32_t count;
    if (triton_take(TRITONBACKEND_RequestOutputCount(r->handle, &count), diag) != HYP_OK) return diag->status;
    for (uint32_t k = 0; k < count; k++) {
        const char *name;
        if (triton_take(TRITONBACKEND_RequestOutputName(r->handle, k, &name), diag) != HYP_OK) return diag->status;
        for (size_t o = 0; o < in->output_count; o++)
            if (strcmp(hyp_engine_output(in->engine, o)->name, name) == 0) r->outputs[o].wanted = true;
    }
    return HYP_OK;
}

hyp_status triton_request_read(const triton_instance *in, triton_request *r, hyp_diag *diag)
{
    for (size_t i = 0; i < in->input_count; i++)
        if (read_input(in, r, i, diag) != HYP_OK) return diag->status;
    if (read_rows(in, r, diag) != HYP_OK) return diag->status;
    return read_wanted(in, r, diag);
}

/* ---- gathering --------------------------------------------------------------------------------------------- */

static void release(triton_instance *in, hyp_tensor *t)
{
    if (t->memory == HYP_MEMORY_CUDA)
        hyp_engine_tensor_free(in->engine, t);
    else
        free(t->data);
    *t = (hyp_tensor){0};
}

void triton_gathered_free(triton_instance *in)
{
    for (int where = 0; where < 2; where++)
        for (size_t i = 0; in->gathered[where] && i < in->input_count; i++) release(in, &in->gathered[where][i]);
}

/* Memory of the instance's for so many bytes of input i, as large as any run has wanted it. */
static hyp_status make_room(triton_instance *in, size_t i, hyp_memory where, size_t bytes, hyp_tensor *out,
                            hyp_diag *diag)
{
    hyp_tensor *room = &in->gathered[where == HYP_MEMORY_CUDA][i];
    if (room->bytes < bytes) {
        release(in, room);
        hyp_tensor more = {.bytes = bytes};
        if (where == HYP_MEMORY_CUDA) {
            if (hyp_engine_tensor_alloc(in->engine, &more, diag) != HYP_OK) return diag->status;
        } else {
            size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            more.data = whole < bytes ? NULL : aligned_alloc(ALIGNMENT, whole);
            if (!more.data)
                return triton_fail(diag, HYP_ERR_NO_MEMORY, "there is no memory for %zu bytes of an input", bytes);
        }
        *room = more;
    }
    out->data = room->data;
    out->memory = room->memory;
    return HYP_OK;
}

/* One buffer to a place of what is gathered. */
static hyp_status copy_buffer(const triton_instance *in, const buffer *b, const hyp_tensor *to, size_t at,
                              hyp_diag *diag)
{
    if (b->bytes == 0) return HYP_OK;
    if (!b->on_gpu && to->memory == HYP_MEMORY_HOST) return memcpy((char *)to->data + at, b->data, b->bytes), HYP_OK;
    hyp_tensor from = {
        .data = (void *)b->data, .bytes = b->bytes, .memory = b->on_gpu ? HYP_MEMORY_CUDA : HYP_MEMORY_HOST};
    hyp_tensor there = {.data = (char *)to->data + at, .bytes = b->bytes, .memory = to->memory};
    return hyp_engine_tensor_copy(in->engine, &from, &there, diag);
}

/* An input that is in one piece, and lies where a run can read it, stays there. */
static bool stays(const triton_instance *in, const triton_input *input, hyp_tensor *out)
{
    buffer b;
    hyp_diag ignored;
    if (input->buffers != 1 || find_buffer(in, input, 0, &b, &ignored) != HYP_OK ||
        (uintptr_t)b.data % hyp_dtype_size(out->dtype))
        return false;
    out->data = (void *)b.data;
    out->memory = b.on_gpu ? HYP_MEMORY_CUDA : HYP_MEMORY_HOST;
    return true;
}

static hyp_status gather_input(triton_instance *in, size_t i, triton_request *const *requests, size_t count,
                               hyp_diag *diag)
{
    hyp_tensor *to = &in->inputs[i];
    hyp_memory where = HYP_MEMORY_HOST;
    *to = requests[0]->inputs[i].tensor;
    if (count == 1 && stays(in, &requests[0]->inputs[i], to)) return HYP_OK;
    for (size_t k = 0; k < count; k++) {
        if (requests[k]->inputs[i].on_gpu) where = HYP_MEMORY_CUDA;
        if (k == 0) continue;
        to->dims[0] += requests[k]->rows;
        to->bytes += requests[k]->inputs[i].tensor.bytes;
    }
    if (make_room(in, i, where, to->bytes, to, diag) != HYP_OK) return diag->status;
    size_t at = 0;
    for (size_t k = 0; k < count; k++)
        for (uint32_t j = 0; j < requests[k]->inputs[i].buffers; j++) {
            buffer b;
            if (find_buffer(in, &requests[k]->inputs[i], j, &b, diag) != HYP_OK) return diag->status;
            if (b.bytes > to->bytes - at) return triton_fail(diag, HYP_ERR_INTERNAL, "the server's buffers have grown");
            if (copy_buffer(in, &b, to, at, diag) != HYP_OK) return diag->status;
            at += b.bytes;
        }
    return HYP_OK;
}

hyp_status triton_gather(triton_instance *in, triton_request *const *requests, size_t count, hyp_diag *diag)
{
    for (size_t i = 0; i < in->input_count; i++)
        if (gather_input(in, i, requests, count, diag) != HYP_OK) return diag->status;
    return HYP_OK;
}

/* ---- outputs ----------------------------------------------------------------------------------------------- */

hyp_status triton_output_open(const triton_instance *in, triton_request *r, size_t o, const hyp_tensor *type,
                              hyp_diag *diag)
{
    const hyp_io_info *info = hyp_engine_output(in->engine, o);
    hyp_tensor *t = &r->outputs[o].tensor;
    TRITONSERVER_MemoryType memory = preferred(in);
    TRITONBACKEND_Output *handle;
    int64_t device = in->gpu;
    *t = *type;
    if (!byte_size(t, &t->bytes))
        return triton_fail(diag, HYP_ERR_INTERNAL, "output '%s' has dims that are none", info->name);
    if (triton_take(TRITONBACKEND_ResponseOutput(r->response, &handle, info->name, triton_type(info->dtype), t->dims,
                                                 (uint32_t)t->rank),
                    diag) != HYP_OK ||
        triton_take(TRITONBACKEND_OutputBuffer(handle, &t->data, t->bytes, &memory, &device), diag) != HYP_OK)
        return diag->status;
    if (memory == TRITONSERVER_MEMORY_GPU && !(in->on_gpu && device == in->gpu))
        return triton_fail(diag, HYP_ERR_UNSUPPORTED,
                           "output '%s' is wanted on GPU %" PRId64
                           ", and the model runs on %s: ask for it in host memory",
                           info->name, device, hyp_engine_device_name(in->engine));
    t->memory = memory == TRITONSERVER_MEMORY_GPU ? HYP_MEMORY_CUDA : HYP_MEMORY_HOST;
    r->outputs[o].opened = true;
    return HYP_OK;
}

bool triton_output_is_direct(const triton_output *out)
{
    return out->opened && out->tensor.data && (uintptr_t)out->tensor.data % hyp_dtype_size(out->tensor.dtype) == 0;
}

hyp_status triton_output_copy(const triton_instance *in, triton_request *r, size_t o, const hyp_tensor *from,
                              size_t begin, hyp_diag *diag)
{
    const hyp_tensor *to = &r->outputs[o].tensor;
    if (to->bytes == 0) return HYP_OK;
    const char *data = (const char *)from->data + begin;
    if (to->memory == HYP_MEMORY_HOST) return memcpy(to->data, data, to->bytes), HYP_OK;
    hyp_tensor part = {.data = (void *)data, .bytes = to->bytes, .memory = HYP_MEMORY_HOST}, there = *to;
    return hyp_engine_tensor_copy(in->engine, &part, &there, diag);
}
