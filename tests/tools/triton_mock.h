/* triton_mock.h - as much of Triton Inference Server as a backend sees: its functions, over objects that a test makes.
 * Every call of the backend's can be made to fail.
 */
#ifndef HYPATIA_TESTS_TOOLS_TRITON_MOCK_H
#define HYPATIA_TESTS_TOOLS_TRITON_MOCK_H

#include "../../tools/triton_api.h"

enum { MOCK_PIECES = 4, MOCK_TENSORS = 4, MOCK_RANK = 8, MOCK_INSTANCES = 4 };

struct TRITONSERVER_Error {
    TRITONSERVER_Error_Code code;
    char message[8192];
};

struct TRITONBACKEND_Backend {
    const char *settings; /* JSON */
    void *state;
};

struct TRITONBACKEND_Model {
    TRITONBACKEND_Backend *backend;
    const char *name, *folder, *config; /* `config`: JSON */
    uint64_t version;
    void *state;
};

struct TRITONBACKEND_ModelInstance {
    TRITONBACKEND_Model *model;
    TRITONSERVER_InstanceGroupKind kind;
    int32_t device;
    void *state;
    uint64_t runs, rows; /* of batch statistics */
};

struct TRITONBACKEND_Input {
    const char *name;
    TRITONSERVER_DataType type;
    int64_t dims[MOCK_RANK];
    uint32_t rank, pieces;
    const void *data[MOCK_PIECES];
    uint64_t bytes[MOCK_PIECES];
    TRITONSERVER_MemoryType memory[MOCK_PIECES];
    int64_t device;
};

struct TRITONBACKEND_Output {
    const char *name;
    TRITONSERVER_DataType type;
    int64_t dims[MOCK_RANK];
    uint32_t rank;
    const TRITONBACKEND_Request *request;
    void *data, *memory; /* `memory`: what is to be freed */
    uint64_t bytes;
};

struct TRITONBACKEND_Response {
    TRITONBACKEND_Request *request;
    TRITONBACKEND_Output outputs[MOCK_TENSORS];
    uint32_t count;
};

struct TRITONBACKEND_Request {
    TRITONBACKEND_Input inputs[MOCK_TENSORS];
    uint32_t input_count;
    const char *wanted[MOCK_TENSORS];
    uint32_t wanted_count;
    /* Where the client wants outputs: NULL: in memory of the server's, which begins `skew` bytes behind a multiple
     * of 64. */
    void *output_data;
    TRITONSERVER_MemoryType output_memory;
    int64_t output_device;
    size_t skew;
    /* What came of it. */
    TRITONBACKEND_Response *response; /* that was sent, or made and not sent */
    uint32_t sent, released, reported;
    bool success; /* as statistics have it */
    uint64_t times[4];
    TRITONSERVER_Error_Code code;
    char message[8192]; /* of an error; "" = none */
};

/* The n-th call from now on that can fail does; 0: none. Returns how many were made since the last call of this. */
uint64_t mock_fail_call(uint64_t n);
/* So, too, memory that the backend asks the system for, where it was built to ask here (mock_calloc and its like). */
uint64_t mock_fail_allocation(uint64_t n);
/* Of the interface. */
extern uint32_t mock_version[2];
/* The last line of the log. */
extern char mock_log[8192];
void mock_request_free(TRITONBACKEND_Request *request); /* what came of it */

/* A backend's library. */
struct library {
    TRITONSERVER_Error *(*initialize)(TRITONBACKEND_Backend *), *(*finalize)(TRITONBACKEND_Backend *);
    TRITONSERVER_Error *(*open_model)(TRITONBACKEND_Model *), *(*close_model)(TRITONBACKEND_Model *);
    TRITONSERVER_Error *(*open_instance)(TRITONBACKEND_ModelInstance *),
        *(*close_instance)(TRITONBACKEND_ModelInstance *);
    TRITONSERVER_Error *(*execute)(TRITONBACKEND_ModelInstance *, TRITONBACKEND_Request **, uint32_t);
};
/* Why it cannot be opened; NULL: it is. It stays open. */
const char *mock_open_library(const char *path, struct library *out);

/* A backend with one model. */
typedef struct server {
    const struct library *library;
    TRITONBACKEND_Backend backend;
    TRITONBACKEND_Model model;
    TRITONBACKEND_ModelInstance instances[MOCK_INSTANCES];
    int opened; /* backend, model, then instances */
    char folder[512];
} server;
/* Of a server with its library, the model's name and configuration, and the backend's settings, which may be NULL. The
 * error of what fails first. */
TRITONSERVER_Error *mock_open_server(server *s, const char *repository, TRITONSERVER_InstanceGroupKind kind,
                                     int instances);
TRITONSERVER_Error *mock_close_server(server *s);

void *mock_calloc(size_t count, size_t size);
void *mock_aligned_alloc(size_t alignment, size_t size);
char *mock_strdup(const char *text);

#endif
