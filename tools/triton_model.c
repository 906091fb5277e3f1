/* A model: reading its configuration, which the server has as JSON, and comparing it with the plan. */
#include "triton_model.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "triton_types.h"

typedef struct engine_on {
    struct engine_on *next;
    hyp_engine *engine;
    hyp_device_kind device;
    int32_t index;
} engine_on;

struct triton_model {
    char *name, *plan; /* `plan`: its path */
    json_t *config;
    int64_t max_rows;
    triton_settings settings;
    engine_on *engines;
};

/* ---- errors ----------------------------------------------------------------------------------------------- */

hyp_status triton_fail(hyp_diag *diag, hyp_status status, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    diag->status = status;
    vsnprintf(diag->message, sizeof diag->message, fmt, list);
    va_end(list);
    return status;
}

hyp_status triton_take(TRITONSERVER_Error *error, hyp_diag *diag)
{
    if (!error) return HYP_OK;
    triton_fail(diag, HYP_ERR_INTERNAL, "the server: %s", TRITONSERVER_ErrorMessage(error));
    TRITONSERVER_ErrorDelete(error);
    return HYP_ERR_INTERNAL;
}

/* What a client is told of a status: whose fault it is, and whether to try again. */
static TRITONSERVER_Error_Code code_of(hyp_status status)
{
    switch (status) {
    case HYP_ERR_INVALID_ARGUMENT: return TRITONSERVER_ERROR_INVALID_ARG;
    case HYP_ERR_UNSUPPORTED: return TRITONSERVER_ERROR_UNSUPPORTED;
    case HYP_ERR_NO_MEMORY:
    case HYP_ERR_LIMIT:
    case HYP_ERR_DEVICE:
    case HYP_ERR_DEVICE_LOST: return TRITONSERVER_ERROR_UNAVAILABLE;
    default: return TRITONSERVER_ERROR_INTERNAL;
    }
}

TRITONSERVER_Error *triton_error(const char *model, hyp_status status, const hyp_diag *diag)
{
    if (status == HYP_OK) return NULL;
    char text[HYP_DIAG_SIZE + 256];
    snprintf(text, sizeof text, "hypatia: %.200s: %s", model, diag->message);
    return TRITONSERVER_ErrorNew(code_of(status), text);
}

void triton_log(TRITONSERVER_LogLevel level, const char *model, const char *line)
{
    char text[HYP_DIAG_SIZE + 256];
    snprintf(text, sizeof text, "hypatia: %.200s: %s", model, line);
    TRITONSERVER_Error *error = TRITONSERVER_LogMessage(level, "hypatia", 0, text);
    if (error) TRITONSERVER_ErrorDelete(error);
}

/* ---- JSON ------------------------------------------------------------------------------------------------- */

static hyp_status read_json(TRITONSERVER_Message *message, json_t **out, hyp_diag *diag)
{
    const char *text;
    size_t bytes;
    json_error_t where;
    if (triton_take(TRITONSERVER_MessageSerializeToJson(message, &text, &bytes), diag) != HYP_OK) return diag->status;
    if (bytes == 0) return *out = json_object(), *out ? HYP_OK : triton_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    if (!root) return triton_fail(diag, HYP_ERR_MALFORMED, "the server's configuration is no JSON: %s", where.text);
    return *out = root, HYP_OK;
}

/* A number, which protobuf's JSON also writes as a string. */
static bool read_int(const json_t *value, int64_t low, int64_t high, int64_t *out)
{
    int64_t n;
    if (json_is_string(value)) {
        char end;
        if (sscanf(json_string_value(value), "%" SCNd64 "%c", &n, &end) != 1) return false;
    } else if (json_is_integer(value)) {
        n = json_integer_value(value);
    } else {
        return false;
    }
    return n >= low && n <= high && (*out = n, true);
}

/* ---- settings --------------------------------------------------------------------------------------------- */

enum { MOST_THREADS = 1024 }; /* as hyp_engine_options.threads has it */

static hyp_status read_threads(const json_t *value, int32_t *out, hyp_diag *diag)
{
    int64_t n;
    if (!read_int(value, 1, MOST_THREADS, &n))
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT, "threads: wanted a number from 1 to %d", MOST_THREADS);
    return *out = (int32_t)n, HYP_OK;
}

static hyp_status read_setting(const char *name, const json_t *value, triton_settings *out, hyp_diag *diag)
{
    /* The server's own, which every backend is told. */
    static const char *const common[] = {"auto-complete-config", "backend-directory", "min-compute-capability",
                                         "default-max-batch-size"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (strcmp(name, common[i]) == 0) return HYP_OK;
    if (strcmp(name, "threads") == 0) return read_threads(value, &out->threads, diag);
    if (strcmp(name, "require-signature") == 0 && json_is_string(value)) {
        out->signature = true;
        return hyp_key_read_public(json_string_value(value), out->key, diag);
    }
    return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                       "--backend-config=hypatia,%s: there are threads and require-signature", name);
}

hyp_status triton_settings_read(TRITONBACKEND_Backend *backend, triton_settings *out, hyp_diag *diag)
{
    TRITONSERVER_Message *message;
    json_t *root = NULL, *value;
    const char *name;
    triton_settings settings = {0};
    if (triton_take(TRITONBACKEND_BackendConfig(backend, &message), diag) != HYP_OK) return diag->status;
    hyp_status status = read_json(message, &root, diag);
    json_object_foreach(json_object_get(root, "cmdline"), name, value) if (status == HYP_OK) status =
        read_setting(name, value, &settings, diag);
    json_decref(root);
    if (status == HYP_OK) *out = settings;
    return status;
}

/* ---- opening and closing ---------------------------------------------------------------------------------- */

static hyp_status copy_text(const char *text, char **out, hyp_diag *diag)
{
    *out = strdup(text);
    return *out ? HYP_OK : triton_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
}

/* FOLDER/VERSION/FILE */
static hyp_status find_plan(triton_model *m, TRITONBACKEND_Model *handle, hyp_diag *diag)
{
    TRITONBACKEND_ArtifactType type;
    const char *folder, *file = json_string_value(json_object_get(m->config, "default_model_filename"));
    uint64_t version;
    if (triton_take(TRITONBACKEND_ModelRepository(handle, &type, &folder), diag) != HYP_OK ||
        triton_take(TRITONBACKEND_ModelVersion(handle, &version), diag) != HYP_OK)
        return diag->status;
    if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM)
        return triton_fail(diag, HYP_ERR_UNSUPPORTED, "the model is in no folder");
    char path[PATH_MAX];
    int length =
        snprintf(path, sizeof path, "%s/%" PRIu64 "/%s", folder, version, file && *file ? file : TRITON_PLAN_FILE);
    if (length < 0 || length >= (int)sizeof path)
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT, "the path of the plan is too long");
    return copy_text(path, &m->plan, diag);
}

static hyp_status read_config(triton_model *m, TRITONBACKEND_Model *handle, hyp_diag *diag)
{
    TRITONSERVER_Message *message;
    if (triton_take(TRITONBACKEND_ModelConfig(handle, 1, &message), diag) != HYP_OK) return diag->status;
    hyp_status status = read_json(message, &m->config, diag);
    hyp_diag ignored;
    (void)triton_take(TRITONSERVER_MessageDelete(message), &ignored);
    if (status != HYP_OK) return status;
    const json_t *rows = json_object_get(m->config, "max_batch_size");
    if (rows && !read_int(rows, 0, INT32_MAX, &m->max_rows))
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT, "max_batch_size is no number");
    const json_t *threads = json_object_get(json_object_get(m->config, "parameters"), "threads");
    return threads ? read_threads(json_object_get(threads, "string_value"), &m->settings.threads, diag) : HYP_OK;
}

hyp_status triton_model_open(TRITONBACKEND_Model *handle, const triton_settings *settings, triton_model **out,
                             hyp_diag *diag)
{
    const char *name;
    if (triton_take(TRITONBACKEND_ModelName(handle, &name), diag) != HYP_OK) return diag->status;
    triton_model *m = calloc(1, sizeof *m);
    if (!m) return triton_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
    m->settings = *settings;
    hyp_status status = copy_text(name, &m->name, diag);
    if (status == HYP_OK) status = read_config(m, handle, diag);
    if (status == HYP_OK) status = find_plan(m, handle, diag);
    if (status != HYP_OK) return triton_model_close(m), status;
    return *out = m, HYP_OK;
}

void triton_model_close(triton_model *m)
{
    if (!m) return;
    for (engine_on *e = m->engines, *next; e; e = next) {
        next = e->next;
        hyp_engine_destroy(e->engine);
        free(e);
    }
    json_decref(m->config);
    free(m->name);
    free(m->plan);
    free(m);
}

const char *triton_model_name(const triton_model *m) { return m->name; }
int64_t triton_model_max_rows(const triton_model *m) { return m->max_rows; }

/* ---- the plan and the configuration ----------------------------------------------------------------------- */

/* The entry of a tensor; NULL where the configuration has none. */
static const json_t *find_entry(const json_t *entries, const char *name)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(entries, i, entry)
    {
        const char *other = json_string_value(json_object_get(entry, "name"));
        if (other && strcmp(other, name) == 0) return entry;
    }
    return NULL;
}

static const hyp_io_info *find_info(const hyp_engine *engine, bool input, const char *name)
{
    size_t count = input ? hyp_engine_input_count(engine) : hyp_engine_output_count(engine);
    for (size_t i = 0; i < count; i++) {
        const hyp_io_info *info = input ? hyp_engine_input(engine, i) : hyp_engine_output(engine, i);
        if (strcmp(info->name, name) == 0) return info;
    }
    return NULL;
}

/* Whether the dims of an entry, as the backend is given them, are those of the plan: without the axis of rows where
 * there is one. */
static bool has_dims(const json_t *entry, const hyp_io_info *info, int32_t first)
{
    const json_t *reshaped = json_object_get(entry, "reshape");
    const json_t *dims = reshaped ? json_object_get(reshaped, "shape") : json_object_get(entry, "dims");
    if (json_array_size(dims) != (size_t)(info->rank - first)) return false;
    for (int32_t a = first; a < info->rank; a++) {
        int64_t size;
        if (!read_int(json_array_get(dims, (size_t)(a - first)), -1, INT64_MAX, &size)) return false;
        if (size >= 0 && info->dims[a] >= 0 && size != info->dims[a]) return false;
    }
    return true;
}

/* Whether the first axis is the open one of the first input. */
static bool has_rows(const hyp_engine *engine, const hyp_io_info *info)
{
    const hyp_io_info *first = hyp_engine_input(engine, 0);
    return first && first->rank > 0 && info->rank > 0 && info->dims[0] < 0 && first->symbols[0] &&
           strcmp(info->symbols[0], first->symbols[0]) == 0;
}

static hyp_status check_entry(const triton_model *m, const json_t *entry, const hyp_engine *engine, bool input,
                              hyp_diag *diag)
{
    const char *what = input ? "input" : "output", *name = json_string_value(json_object_get(entry, "name"));
    const char *type = json_string_value(json_object_get(entry, "data_type"));
    const hyp_io_info *info = name ? find_info(engine, input, name) : NULL;
    if (!info)
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                           "config.pbtxt has an %s '%s', and the plan has none of this name", what, name ? name : "");
    const char *wanted = triton_type_name(info->dtype);
    if (!wanted)
        return triton_fail(diag, HYP_ERR_UNSUPPORTED, "%s '%s' is %s, which Triton has no type for", what, name,
                           hyp_dtype_name(info->dtype));
    if (!type || strcmp(type, wanted) != 0)
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s '%s' is %s in config.pbtxt, and %s in the plan", what,
                           name, type ? type : "nothing", wanted);
    int32_t first = m->max_rows > 0;
    if (first && !has_rows(engine, info))
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                           "max_batch_size is %" PRId64
                           ", but the first axis of %s '%s' is not open, or not that of the first input: "
                           "set max_batch_size: 0 and give all dims",
                           m->max_rows, what, name);
    if (!has_dims(entry, info, first))
        return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                           "the dims of %s '%s' in config.pbtxt are not those of the plan%s", what, name,
                           first ? " without its first axis" : "");
    return HYP_OK;
}

static hyp_status check_entries(const triton_model *m, const hyp_engine *engine, bool input, hyp_diag *diag)
{
    const json_t *entries = json_object_get(m->config, input ? "input" : "output"), *entry;
    size_t i;
    hyp_status status = HYP_OK;
    json_array_foreach(entries, i, entry) if (status == HYP_OK) status = check_entry(m, entry, engine, input, diag);
    return status;
}

/* The configuration was written for this plan: names, types and dims are those that the server checks requests by. */
static hyp_status check_config(const triton_model *m, const hyp_engine *engine, hyp_diag *diag)
{
    if (hyp_engine_variable_count(engine))
        return triton_fail(
            diag, HYP_ERR_UNSUPPORTED,
            "the plan is a step of a training, which changes with every run: compile the model without --train");
    for (size_t i = 0; i < hyp_engine_input_count(engine); i++) {
        const char *name = hyp_engine_input(engine, i)->name;
        if (!find_entry(json_object_get(m->config, "input"), name))
            return triton_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                               "config.pbtxt lacks the input '%s' of the plan ('hypatia triton' writes one that fits)",
                               name);
    }
    if (check_entries(m, engine, true, diag) != HYP_OK) return diag->status;
    return check_entries(m, engine, false, diag);
}

static void log_line(const char *line, void *model)
{
    triton_log(TRITONSERVER_LOG_INFO, ((const triton_model *)model)->name, line);
}

hyp_status triton_model_engine(triton_model *m, hyp_device_kind device, int32_t index, hyp_engine **out, hyp_diag *diag)
{
    for (const engine_on *e = m->engines; e; e = e->next)
        if (e->device == device && e->index == index) return *out = e->engine, HYP_OK;
    engine_on *e = calloc(1, sizeof *e);
    if (!e) return triton_fail(diag, HYP_ERR_NO_MEMORY, "out of memory");
    hyp_engine_options options = {.size = sizeof options,
                                  .device = device,
                                  .device_index = index,
                                  .threads = m->settings.threads,
                                  .log = log_line,
                                  .log_user = m,
                                  .require_signature = m->settings.signature ? m->settings.key : NULL};
    hyp_status status = hyp_engine_load_file(m->plan, &options, &e->engine, diag);
    if (status == HYP_OK) status = check_config(m, e->engine, diag);
    if (status != HYP_OK) {
        hyp_engine_destroy(e->engine);
        free(e);
        return status;
    }
    *e = (engine_on){.next = m->engines, .engine = e->engine, .device = device, .index = index};
    m->engines = e;
    return *out = e->engine, HYP_OK;
}
