/* triton_model.h - a model of the server: its configuration, its plan, and an engine for each device that it has
 * instances on. */
#ifndef HYPATIA_TOOLS_TRITON_MODEL_H
#define HYPATIA_TOOLS_TRITON_MODEL_H

#include "hypatia/runtime.h"
#include "hypatia/signature.h"
#include "triton_api.h"

/* ---- errors ----------------------------------------------------------------------------------------------- */

/* Writes the message; returns the status. */
hyp_status triton_fail(hyp_diag *diag, hyp_status status, const char *fmt, ...) HYP_PRINTF(3, 4);
/* What a call of the server's gave: HYP_OK for NULL, else HYP_ERR_INTERNAL with its message. The error is deleted. */
hyp_status triton_take(TRITONSERVER_Error *error, hyp_diag *diag);
/* The error of a failed call; NULL for HYP_OK. `model` begins the message. */
TRITONSERVER_Error *triton_error(const char *model, hyp_status status, const hyp_diag *diag);
/* A line in the server's log. */
void triton_log(TRITONSERVER_LogLevel level, const char *model, const char *line);

/* ---- what the server is told of all models (--backend-config=hypatia,NAME=VALUE) ---------------------------- */

typedef struct triton_settings {
    int32_t threads; /* hyp_engine_options.threads */
    bool signature;  /* plans have to be signed by this key: */
    unsigned char key[HYP_PUBLIC_KEY_BYTES];
} triton_settings;
/* HYP_ERR_INVALID_ARGUMENT names a setting that is none. */
hyp_status triton_settings_read(TRITONBACKEND_Backend *backend, triton_settings *out, hyp_diag *diag);

/* ---- models ----------------------------------------------------------------------------------------------- */

typedef struct triton_model triton_model;

/* Reads the model's configuration; the plan is loaded when there is an instance. *out is the caller's. */
hyp_status triton_model_open(TRITONBACKEND_Model *handle, const triton_settings *settings, triton_model **out,
                             hyp_diag *diag);
/* NULL-safe; when its instances are closed. */
void triton_model_close(triton_model *model);
/* Borrowed. */
const char *triton_model_name(const triton_model *model);
/* Rows of a run at most, which requests bring in their first axis; 0: each request is a run, and has no such axis. */
int64_t triton_model_max_rows(const triton_model *model);
/* The engine on a device, loaded by the first call for it, which compares the plan with the configuration. Borrowed
 * from the model. One thread at a time. */
hyp_status triton_model_engine(triton_model *model, hyp_device_kind device, int32_t index, hyp_engine **out,
                               hyp_diag *diag);

#endif
