#include "instance.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "hypatia/tensor_io.h"

/* What is staged for a batch is kept for the next one, up to so many bytes of an input. */
enum { STAGING_KEPT = 16 << 20, ALIGNMENT = 64 };

hyp_status instance_init(instance *in, hyp_context *context, const v2_signature *signature, hyp_diag *diag)
{
    in->context = context;
    in->signature = signature;
    in->inputs = calloc(signature->input_count + 1, sizeof *in->inputs);
    in->outputs = calloc(signature->output_count + 1, sizeof *in->outputs);
    in->staging = calloc(signature->input_count + 1, sizeof *in->staging);
    in->staging_bytes = calloc(signature->input_count + 1, sizeof *in->staging_bytes);
    if (in->inputs && in->outputs && in->staging && in->staging_bytes) return HYP_OK;
    instance_dispose(in);
    return refuse_memory(diag);
}

void instance_dispose(instance *in)
{
    for (size_t i = 0; in->staging && i < in->signature->input_count; i++) free(in->staging[i]);
    free(in->staging);
    free(in->staging_bytes);
    free(in->inputs);
    free(in->outputs);
    hyp_context_destroy(in->context);
    *in = (instance){0};
}

void instance_note_memory(instance *in)
{
    size_t bytes = hyp_context_memory_bytes(in->context);
    for (size_t i = 0; i < in->signature->input_count; i++) bytes += in->staging_bytes[i];
    atomic_store(&in->bytes, bytes);
}

static void *stage(instance *in, size_t i, size_t bytes)
{
    if (bytes <= in->staging_bytes[i]) return in->staging[i];
    free(in->staging[i]);
    size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    in->staging[i] = aligned_alloc(ALIGNMENT, room);
    in->staging_bytes[i] = in->staging[i] ? room : 0;
    return in->staging[i];
}

static void drop_large_staging(instance *in)
{
    for (size_t i = 0; i < in->signature->input_count; i++) {
        if (in->staging_bytes[i] <= STAGING_KEPT) continue;
        free(in->staging[i]);
        in->staging[i] = NULL;
        in->staging_bytes[i] = 0;
    }
}

/* Input i of all jobs, one behind the other; of one job where it is, if it is aligned. */
static hyp_status gather(instance *in, size_t i, const job *jobs, hyp_tensor *out, hyp_diag *diag)
{
    *out = jobs->inputs[i];
    if (!jobs->next && (uintptr_t)out->data % hyp_dtype_size(out->dtype) == 0) return HYP_OK;
    size_t bytes = 0;
    for (const job *j = jobs; j; j = j->next) bytes += j->inputs[i].bytes;
    char *to = stage(in, i, bytes ? bytes : 1);
    if (!to) return refuse_memory(diag);
    out->data = to;
    out->bytes = bytes;
    if (jobs->next) out->dims[0] = 0;
    for (const job *j = jobs; j; j = j->next) {
        if (jobs->next) out->dims[0] += j->rows;
        if (j->inputs[i].bytes) memcpy(to, j->inputs[i].data, j->inputs[i].bytes);
        to += j->inputs[i].bytes;
    }
    return HYP_OK;
}

/* Gives a job its rows of all outputs: `first` of so many. rows == 0: all of them. */
static hyp_status scatter(const instance *in, job *j, int64_t first, int64_t rows, hyp_diag *diag)
{
    for (size_t i = 0; i < in->signature->output_count; i++) {
        const hyp_tensor *whole = &in->outputs[i];
        hyp_tensor *mine = &j->outputs[i];
        size_t bytes = (size_t)hyp_tensor_elements(whole) * hyp_dtype_size(whole->dtype),
               row_bytes = rows ? bytes / (size_t)rows : 0;
        *mine = *whole;
        mine->memory = HYP_MEMORY_HOST;
        if (rows) mine->dims[0] = j->rows;
        mine->bytes = rows ? row_bytes * (size_t)j->rows : bytes;
        mine->data = store_alloc(j->store, mine->bytes);
        if (!mine->data) return refuse_memory(diag);
        if (mine->bytes) memcpy(mine->data, (const char *)whole->data + row_bytes * (size_t)first, mine->bytes);
    }
    return HYP_OK;
}

static hyp_status run_together(instance *in, job *jobs, hyp_diag *diag)
{
    const v2_signature *s = in->signature;
    hyp_status status = HYP_OK;
    for (size_t i = 0; i < s->input_count && status == HYP_OK; i++) status = gather(in, i, jobs, &in->inputs[i], diag);
    for (size_t i = 0; i < s->output_count; i++)
        in->outputs[i] =
            (hyp_tensor){.name = s->outputs[i]->name, .dtype = s->outputs[i]->dtype, .memory = HYP_MEMORY_CONTEXT};
    if (status == HYP_OK)
        status = hyp_context_run(in->context, in->inputs, s->input_count, in->outputs, s->output_count, diag);
    int64_t rows = 0, first = 0;
    for (job *j = jobs; j; j = j->next) rows += j->rows;
    for (job *j = jobs; j; j = j->next) {
        j->status = status;
        if (status == HYP_OK) j->status = scatter(in, j, first, jobs->next ? rows : 0, j->diag);
        first += j->rows;
        j->batch_rows = rows;
    }
    return status;
}

/* Whether another run may tell whose fault it was, and do for the others. */
static bool another_may_do(hyp_status status) { return status != HYP_ERR_CANCELLED && status != HYP_ERR_DEVICE_LOST; }

void instance_run(instance *in, job *jobs)
{
    hyp_status status = run_together(in, jobs, jobs->diag);
    for (job *j = jobs->next ? jobs : NULL, *next; j && status != HYP_OK; j = next) {
        next = j->next;
        j->next = NULL;
        if (another_may_do(status))
            run_together(in, j, j->diag);
        else if (j != jobs && j->diag)
            *j->diag = *jobs->diag;
        j->next = next;
    }
    drop_large_staging(in);
    instance_note_memory(in);
    uint64_t now = clock_ns();
    for (job *j = jobs; j; j = j->next) j->ended_ns = now;
}
