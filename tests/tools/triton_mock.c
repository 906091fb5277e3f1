#include "triton_mock.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct TRITONSERVER_Message {
    const char *text;
};

char mock_log[8192];
uint32_t mock_version[2] = {1, 19};
static atomic_ullong calls, failing_call, allocations, failing_allocation;

uint64_t mock_fail_call(uint64_t n)
{
    uint64_t made = calls;
    calls = 0;
    failing_call = n;
    return made;
}

uint64_t mock_fail_allocation(uint64_t n)
{
    uint64_t made = allocations;
    allocations = 0;
    failing_allocation = n;
    return made;
}

static bool allocation_fails(void) { return ++allocations == failing_allocation; }
void *mock_calloc(size_t count, size_t size) { return allocation_fails() ? NULL : calloc(count, size); }
void *mock_aligned_alloc(size_t alignment, size_t size)
{
    return allocation_fails() ? NULL : aligned_alloc(alignment, size);
}
char *mock_strdup(const char *text) { return allocation_fails() ? NULL : strdup(text); }

TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *message)
{
    TRITONSERVER_Error *error = calloc(1, sizeof *error);
    error->code = code;
    snprintf(error->message, sizeof error->message, "%s", message);
    return error;
}

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *error) { free(error); }
const char *TRITONSERVER_ErrorMessage(TRITONSERVER_Error *error) { return error->message; }

TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *file, int line, const char *text)
{
    (void)level, (void)file, (void)line;
    snprintf(mock_log, sizeof mock_log, "%s", text);
    return NULL;
}

/* What every other function begins with. */
static TRITONSERVER_Error *check(void)
{
    uint64_t n = ++calls;
    return n == failing_call ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "the test lets this call fail")
                             : NULL;
}
#define CALL()                                                                                                         \
    do {                                                                                                               \
        TRITONSERVER_Error *e_ = check();                                                                              \
        if (e_) return e_;                                                                                             \
    } while (0)

/* ---- messages, backend, model, instance -------------------------------------------------------------------- */

static TRITONSERVER_Error *give_message(const char *text, TRITONSERVER_Message **out)
{
    *out = calloc(1, sizeof **out);
    (*out)->text = text;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *message, const char **text, size_t *bytes)
{
    CALL();
    *text = message->text;
    *bytes = strlen(message->text);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message) { return free(message), NULL; }

TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor)
{
    CALL();
    *major = mock_version[0], *minor = mock_version[1];
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend *backend, TRITONSERVER_Message **config)
{
    static TRITONSERVER_Message message; /* the server's own */
    CALL();
    message.text = backend->settings;
    return *config = &message, NULL;
}

#define STATE(Type, Short)                                                                                             \
    TRITONSERVER_Error *TRITONBACKEND_##Short##State(Type *owner, void **state)                                        \
    {                                                                                                                  \
        CALL();                                                                                                        \
        return *state = owner->state, NULL;                                                                            \
    }                                                                                                                  \
    TRITONSERVER_Error *TRITONBACKEND_##Short##SetState(Type *owner, void *state)                                      \
    {                                                                                                                  \
        CALL();                                                                                                        \
        return owner->state = state, NULL;                                                                             \
    }
STATE(TRITONBACKEND_Backend, Backend)
STATE(TRITONBACKEND_Model, Model)
STATE(TRITONBACKEND_ModelInstance, ModelInstance)

/* What is only asked: a function of an object, its field, and the type of that. */
#define GET(function, Type, field, type)                                                                               \
    TRITONSERVER_Error *TRITONBACKEND_##function(Type *owner, type *out)                                               \
    {                                                                                                                  \
        CALL();                                                                                                        \
        return *out = owner->field, NULL;                                                                              \
    }
GET(ModelName, TRITONBACKEND_Model, name, const char *)
GET(ModelVersion, TRITONBACKEND_Model, version, uint64_t)
GET(ModelBackend, TRITONBACKEND_Model, backend, TRITONBACKEND_Backend *)
GET(ModelInstanceKind, TRITONBACKEND_ModelInstance, kind, TRITONSERVER_InstanceGroupKind)
GET(ModelInstanceDeviceId, TRITONBACKEND_ModelInstance, device, int32_t)
GET(ModelInstanceModel, TRITONBACKEND_ModelInstance, model, TRITONBACKEND_Model *)
GET(RequestOutputCount, TRITONBACKEND_Request, wanted_count, uint32_t)

TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *model, TRITONBACKEND_ArtifactType *type,
                                                  const char **location)
{
    CALL();
    *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
    return *location = model->folder, NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, uint32_t config_version,
                                              TRITONSERVER_Message **config)
{
    CALL();
    if (config_version != 1) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "version 1 is supported");
    return give_message(model->config, config);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance *instance,
                                                                TRITONBACKEND_Request *request, bool success,
                                                                uint64_t begin, uint64_t compute_begin,
                                                                uint64_t compute_end, uint64_t end)
{
    CALL();
    (void)instance;
    request->reported++;
    request->success = success;
    memcpy(request->times, (uint64_t[]){begin, compute_begin, compute_end, end}, sizeof request->times);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance *instance,
                                                                     uint64_t rows, uint64_t begin,
                                                                     uint64_t compute_begin, uint64_t compute_end,
                                                                     uint64_t end)
{
    CALL();
    if (!begin || begin > compute_begin || compute_begin > compute_end || compute_end > end)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "times are in another order");
    instance->runs++;
    instance->rows += rows;
    return NULL;
}

/* ---- requests and responses -------------------------------------------------------------------------------- */

TRITONSERVER_Error *TRITONBACKEND_RequestInput(TRITONBACKEND_Request *request, const char *name,
                                               TRITONBACKEND_Input **input)
{
    CALL();
    for (uint32_t i = 0; i < request->input_count; i++)
        if (strcmp(request->inputs[i].name, name) == 0) return *input = &request->inputs[i], NULL;
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "the request has no such input");
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request, uint32_t index, const char **name)
{
    CALL();
    return *name = request->wanted[index], NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags)
{
    CALL();
    request->released += flags == TRITONSERVER_REQUEST_RELEASE_ALL;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name,
                                                  TRITONSERVER_DataType *type, const int64_t **dims, uint32_t *rank,
                                                  uint64_t *bytes, uint32_t *buffers)
{
    CALL();
    if (name) *name = input->name;
    if (type) *type = input->type;
    if (dims) *dims = input->dims;
    if (rank) *rank = input->rank;
    if (bytes) *bytes = input->bytes[0];
    if (buffers) *buffers = input->pieces;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, uint32_t index, const void **data,
                                              uint64_t *bytes, TRITONSERVER_MemoryType *memory, int64_t *device)
{
    CALL();
    if (index >= input->pieces) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "there is no such buffer");
    *data = input->data[index], *bytes = input->bytes[index], *memory = input->memory[index], *device = input->device;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response, TRITONBACKEND_Request *request)
{
    CALL();
    *response = request->response = calloc(1, sizeof **response);
    (*response)->request = request;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response, TRITONBACKEND_Output **output,
                                                 const char *name, TRITONSERVER_DataType type, const int64_t *dims,
                                                 uint32_t rank)
{
    CALL();
    for (uint32_t i = 0; i < response->count; i++)
        if (strcmp(response->outputs[i].name, name) == 0)
            return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_ALREADY_EXISTS, "the response has this output");
    TRITONBACKEND_Output *o = *output = &response->outputs[response->count++];
    *o = (TRITONBACKEND_Output){.request = response->request, .name = name, .type = type, .rank = rank};
    if (rank) memcpy(o->dims, dims, rank * sizeof *dims);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **data, uint64_t bytes,
                                               TRITONSERVER_MemoryType *memory, int64_t *device)
{
    CALL();
    const TRITONBACKEND_Request *r = output->request;
    output->bytes = bytes;
    *memory = r->output_data ? r->output_memory : TRITONSERVER_MEMORY_CPU;
    *device = r->output_device;
    if (!r->output_data) output->memory = aligned_alloc(64, (bytes + r->skew + 64) / 64 * 64);
    output->data = r->output_data ? r->output_data : (char *)output->memory + r->skew;
    return *data = output->data, NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t flags,
                                               TRITONSERVER_Error *error)
{
    CALL();
    response->request->sent += flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL;
    if (error) {
        response->request->code = error->code;
        memcpy(response->request->message, error->message, sizeof error->message);
    }
    return NULL;
}

void mock_request_free(TRITONBACKEND_Request *request)
{
    if (!request->response) return;
    for (uint32_t i = 0; i < request->response->count; i++) free(request->response->outputs[i].memory);
    free(request->response);
    request->response = NULL;
}

/* ---- a server ---------------------------------------------------------------------------------------------- */

const char *mock_open_library(const char *path, struct library *out)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return dlerror();
    const struct {
        const char *name;
        void *function;
    } all[] = {{"Initialize", &out->initialize},
               {"Finalize", &out->finalize},
               {"ModelInitialize", &out->open_model},
               {"ModelFinalize", &out->close_model},
               {"ModelInstanceInitialize", &out->open_instance},
               {"ModelInstanceFinalize", &out->close_instance},
               {"ModelInstanceExecute", &out->execute}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char name[64];
        snprintf(name, sizeof name, "TRITONBACKEND_%s", all[i].name);
        if (!(*(void **)all[i].function = dlsym(handle, name))) return dlerror();
    }
    return NULL;
}

TRITONSERVER_Error *mock_open_server(server *s, const char *repository, TRITONSERVER_InstanceGroupKind kind,
                                     int instances)
{
    snprintf(s->folder, sizeof s->folder, "%s/%s", repository, s->model.name);
    s->model.backend = &s->backend;
    s->model.folder = s->folder;
    s->model.version = 1;
    if (!s->backend.settings) s->backend.settings = "{\"cmdline\": {\"auto-complete-config\": \"false\"}}";
    TRITONSERVER_Error *error = s->library->initialize(&s->backend);
    if (error) return error;
    s->opened++;
    if ((error = s->library->open_model(&s->model)) != NULL) return error;
    s->opened++;
    for (int i = 0; i < instances; i++) {
        s->instances[i] = (TRITONBACKEND_ModelInstance){.model = &s->model, .kind = kind};
        if ((error = s->library->open_instance(&s->instances[i])) != NULL) return error;
        s->opened++;
    }
    return NULL;
}

TRITONSERVER_Error *mock_close_server(server *s)
{
    TRITONSERVER_Error *error = NULL;
    while (!error && s->opened > 2) error = s->library->close_instance(&s->instances[--s->opened - 2]);
    if (!error && s->opened == 2) s->opened--, error = s->library->close_model(&s->model);
    if (!error && s->opened == 1) s->opened--, error = s->library->finalize(&s->backend);
    return error;
}
