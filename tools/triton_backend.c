/* libtriton_hypatia.so - plans in Triton Inference Server: what the server calls. docs/serving-triton.md describes it. */
#include <stdio.h>
#include <stdlib.h>

#include "triton_instance.h"

/* ---- backend ----------------------------------------------------------------------------------------------- */

static hyp_status check_version(hyp_diag *diag)
{
    uint32_t major, minor;
    if (triton_take(TRITONBACKEND_ApiVersion(&major, &minor), diag) != HYP_OK) return diag->status;
    if (major != TRITON_BACKEND_MAJOR || minor < TRITON_BACKEND_MINOR)
        return triton_fail(diag, HYP_ERR_UNSUPPORTED,
                           "the server has version %u.%u of the interface for backends, and %d.%d is wanted", major,
                           minor, TRITON_BACKEND_MAJOR, TRITON_BACKEND_MINOR);
    return HYP_OK;
}

TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend)
{
    hyp_diag diag = {0};
    triton_settings *settings = calloc(1, sizeof *settings);
    hyp_status status = settings ? check_version(&diag) : triton_fail(&diag, HYP_ERR_NO_MEMORY, "out of memory");
    if (status == HYP_OK) status = triton_settings_read(backend, settings, &diag);
    if (status == HYP_OK) status = triton_take(TRITONBACKEND_BackendSetState(backend, settings), &diag);
    if (status != HYP_OK) free(settings);
    return triton_error("backend", status, &diag);
}

TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend)
{
    void *settings;
    TRITONSERVER_Error *error = TRITONBACKEND_BackendState(backend, &settings);
    if (!error) free(settings);
    return error;
}

/* ---- models ------------------------------------------------------------------------------------------------ */

static hyp_status find_settings(TRITONBACKEND_Model *model, void **out, hyp_diag *diag)
{
    TRITONBACKEND_Backend *backend;
    if (triton_take(TRITONBACKEND_ModelBackend(model, &backend), diag) != HYP_OK) return diag->status;
    return triton_take(TRITONBACKEND_BackendState(backend, out), diag);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *handle)
{
    hyp_diag diag = {0};
    void *settings;
    triton_model *model = NULL;
    hyp_status status = find_settings(handle, &settings, &diag);
    if (status == HYP_OK) status = triton_model_open(handle, settings, &model, &diag);
    if (status == HYP_OK) status = triton_take(TRITONBACKEND_ModelSetState(handle, model), &diag);
    if (status != HYP_OK) triton_model_close(model);
    return triton_error("model", status, &diag);
}

TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *handle)
{
    void *model;
    TRITONSERVER_Error *error = TRITONBACKEND_ModelState(handle, &model);
    if (!error) triton_model_close(model);
    return error;
}

/* ---- instances --------------------------------------------------------------------------------------------- */

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *handle)
{
    hyp_diag diag = {0};
    TRITONBACKEND_Model *owner;
    void *model = NULL;
    triton_instance *instance = NULL;
    hyp_status status = triton_take(TRITONBACKEND_ModelInstanceModel(handle, &owner), &diag);
    if (status == HYP_OK) status = triton_take(TRITONBACKEND_ModelState(owner, &model), &diag);
    if (status == HYP_OK) status = triton_instance_open(handle, model, &instance, &diag);
    if (status == HYP_OK) status = triton_take(TRITONBACKEND_ModelInstanceSetState(handle, instance), &diag);
    if (status != HYP_OK) triton_instance_close(instance);
    return triton_error(model ? triton_model_name(model) : "instance", status, &diag);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *handle)
{
    void *instance;
    TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceState(handle, &instance);
    if (!error) triton_instance_close(instance);
    return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *handle,
                                                       TRITONBACKEND_Request **requests, uint32_t count)
{
    hyp_diag diag = {0};
    void *state;
    TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceState(handle, &state);
    if (error) return error;
    triton_instance *instance = state;
    return triton_error(instance->name, triton_instance_run(instance, requests, count, &diag), &diag);
}
