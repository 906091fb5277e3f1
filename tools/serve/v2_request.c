#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia/tensor_io.h"
#include "json_cut.h"
#include "v2.h"

/* One request while it is read. */
typedef struct reading {
    const v2_signature *signature;
    store *store;
    json_cut cut;
    const char *tail, *tail_end; /* what of the binary tensors is not taken yet */
    v2_request *request;
    hyp_diag *diag;
} reading;

/* Jansson calls a request wrong, in one way or another, when it has no memory to read it. */
static _Thread_local bool json_memory_failed;

static void *json_memory(size_t bytes)
{
    void *data = malloc(bytes);
    if (!data) json_memory_failed = true;
    return data;
}

void v2_start(void) { json_set_alloc_funcs(json_memory, free); }

bool v2_read_header_bytes(const char *value, size_t len, int64_t *out)
{
    uint64_t bytes = 0;
    const char *c = value;
    for (; *c >= '0' && *c <= '9' && c - value < 18; c++) bytes = bytes * 10 + (uint64_t)(*c - '0');
    const char *digits_end = c;
    while (*c == ' ' || *c == '\t') c++; /* what may follow the value of a header */
    if (digits_end == value || *c || bytes > len) return false;
    *out = (int64_t)bytes;
    return true;
}

static const char *kind_name(const json_t *value)
{
    static const char *const names[] = {"an object", "an array", "a string", "an integer",
                                        "a number",  "true",     "false",    "null"};
    return value ? names[json_typeof(value)] : "absent";
}

static size_t find_io(const hyp_io_info *const *infos, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(infos[i]->name, name) != 0) i++;
    return i;
}

/* "'x', 'mask'", cut where it is long. */
static void list_names(const hyp_io_info *const *infos, size_t count, char *to, size_t room)
{
    size_t len = 0;
    *to = 0;
    for (size_t i = 0; i < count && len < room; i++)
        len += (size_t)snprintf(to + len, room - len, "%s'%s'", i ? ", " : "", show(infos[i]->name).text);
}

/* ---- members ------------------------------------------------------------------------------------------------- */

/* A member of an object that may be absent (NULL) or null. False after a message: it is of another kind. */
static bool get_object(const reading *r, json_t *from, const char *name, const char *of, json_t **out)
{
    *out = json_object_get(from, name);
    if (json_is_null(*out)) *out = NULL;
    if (!*out || json_is_object(*out)) return true;
    refuse(r->diag, HYP_ERR_MALFORMED, "\"%s\" of %s is %s; wanted an object", name, of, kind_name(*out));
    return false;
}

static bool get_array(const reading *r, json_t *from, const char *name, json_t **out)
{
    *out = json_object_get(from, name);
    if (json_is_null(*out)) *out = NULL;
    if (!*out || json_is_array(*out)) return true;
    refuse(r->diag, HYP_ERR_MALFORMED, "\"%s\" of the request is %s; wanted an array", name, kind_name(*out));
    return false;
}

/* Parameters that ask for what is not there. Others that are not known are passed over, as the protocol has it. */
static hyp_status check_parameters(const reading *r, json_t *parameters, const char *of)
{
    static const char *const refused[] = {"shared_memory_region", "classification", "sequence_id", "sequence_start",
                                          "sequence_end"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (json_object_get(parameters, refused[i]))
            return refuse(r->diag, HYP_ERR_UNSUPPORTED, "the parameter \"%s\" of %s is not supported here", refused[i],
                          of);
    return HYP_OK;
}

/* A parameter that is true or false; *out is left as it is where it is absent. */
static hyp_status get_flag(const reading *r, json_t *parameters, const char *name, const char *of, bool *out)
{
    json_t *flag = json_object_get(parameters, name);
    if (flag && !json_is_boolean(flag))
        return refuse(r->diag, HYP_ERR_MALFORMED, "the parameter \"%s\" of %s is %s; wanted true or false", name, of,
                      kind_name(flag));
    if (flag) *out = json_is_true(flag);
    return HYP_OK;
}

/* ---- inputs -------------------------------------------------------------------------------------------------- */

/* "[2,3]" */
static void print_dims(const hyp_tensor *t, char *to, size_t room)
{
    size_t len = (size_t)snprintf(to, room, "[");
    for (int32_t a = 0; a < t->rank && len < room; a++)
        len += (size_t)snprintf(to + len, room - len, "%s%" PRId64, a ? "," : "", t->dims[a]);
    if (len < room) snprintf(to + len, room - len, "]");
}

static hyp_status read_shape(const reading *r, json_t *tensor, const hyp_io_info *info, hyp_tensor *t)
{
    json_t *shape = json_object_get(tensor, "shape");
    shown called = show(info->name);
    const char *name = called.text;
    if (!json_is_array(shape))
        return refuse(r->diag, HYP_ERR_MALFORMED, "input '%s': \"shape\" is %s; wanted an array of sizes", name,
                      kind_name(shape));
    size_t rank = json_array_size(shape);
    if (rank != (size_t)info->rank)
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': the shape has %zu axes; wanted %d", name, rank,
                      (int)info->rank);
    t->rank = info->rank;
    for (int32_t a = 0; a < info->rank; a++) {
        json_t *size = json_array_get(shape, (size_t)a);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return refuse(r->diag, HYP_ERR_MALFORMED,
                          "input '%s': axis %d of the shape is %s; wanted a size, 0 or more", name, (int)a,
                          json_is_integer(size) ? "negative" : kind_name(size));
        t->dims[a] = json_integer_value(size);
        if (info->dims[a] >= 0 && info->dims[a] != t->dims[a])
            return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': axis %d is %" PRId64 "; wanted %" PRId64,
                          name, (int)a, t->dims[a], info->dims[a]);
    }
    int64_t count = hyp_tensor_elements(t);
    size_t size = hyp_dtype_size(t->dtype);
    if (count < 0 || (uint64_t)count > (SIZE_MAX >> 8) / size)
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': the shape has more elements than can be counted",
                      name);
    t->bytes = (size_t)count * size;
    return HYP_OK;
}

/* Names the input in front of what went wrong with its elements. */
static hyp_status name_input(const reading *r, const hyp_io_info *info, hyp_status status)
{
    if (status == HYP_OK || !r->diag) return status;
    char message[512];
    snprintf(message, sizeof message, "%.500s", r->diag->message);
    return refuse(r->diag, status, "input '%s': %s", show(info->name).text, message);
}

static hyp_status read_json_data(const reading *r, const hyp_io_info *info, json_t *data, hyp_tensor *t)
{
    /* json_cut_data left the number of the array in its place. */
    size_t k = (size_t)json_integer_value(json_array_get(data, 0));
    if (!json_is_array(data) || k >= r->cut.count)
        return refuse(r->diag, HYP_ERR_MALFORMED, "input '%s': \"data\" is %s; wanted an array", show(info->name).text,
                      kind_name(data));
    const json_span *span = &r->cut.arrays[k];
    if (t->bytes / hyp_dtype_size(t->dtype) > span->len / 2) { /* every element takes a digit and what is behind it */
        char dims[256];
        print_dims(t, dims, sizeof dims);
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': the data have fewer elements than the shape %s",
                      show(info->name).text, dims);
    }
    t->data = store_alloc(r->store, t->bytes);
    if (!t->data) return refuse_memory(r->diag);
    return name_input(r, info, wire_read_json(span->data, span->len, t, r->diag));
}

static hyp_status read_binary_data(reading *r, const hyp_io_info *info, json_t *size, hyp_tensor *t)
{
    shown called = show(info->name);
    const char *name = called.text;
    char dims[256];
    print_dims(t, dims, sizeof dims);
    if (!json_is_integer(size) || json_integer_value(size) < 0)
        return refuse(r->diag, HYP_ERR_MALFORMED, "input '%s': \"binary_data_size\" is %s; wanted a number of bytes",
                      name, json_is_integer(size) ? "negative" : kind_name(size));
    if ((uint64_t)json_integer_value(size) != t->bytes)
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT,
                      "input '%s': \"binary_data_size\" is %" JSON_INTEGER_FORMAT "; wanted %zu bytes, as %s%s has",
                      name, json_integer_value(size), t->bytes, wire_type_name(t->dtype), dims);
    size_t left = (size_t)(r->tail_end - r->tail);
    if (t->bytes > left)
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT,
                      "input '%s': %zu bytes of the body are left behind the JSON (as Inference-Header-Content-Length "
                      "says) and the tensors before; wanted %zu",
                      name, left, t->bytes);
    t->data = (void *)r->tail; /* only read: hyp_tensor has no const */
    r->tail += t->bytes;
    return name_input(r, info, wire_check_binary(t, r->diag));
}

static hyp_status read_input(reading *r, json_t *tensor)
{
    json_t *name = json_object_get(tensor, "name"), *type = json_object_get(tensor, "datatype"), *parameters;
    if (!json_is_object(tensor) || !json_is_string(name))
        return refuse(r->diag, HYP_ERR_MALFORMED,
                      "an element of \"inputs\" is %s%s; wanted {\"name\": ..., \"shape\": ..., \"datatype\": ..., "
                      "\"data\": ...}",
                      kind_name(tensor), json_is_object(tensor) ? " without a name" : "");
    size_t i = find_io(r->signature->inputs, r->signature->input_count, json_string_value(name));
    if (i == r->signature->input_count) {
        char names[512];
        list_names(r->signature->inputs, r->signature->input_count, names, sizeof names);
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "the model has no input '%s'; its inputs are %s",
                      show(json_string_value(name)).text, names);
    }
    const hyp_io_info *info = r->signature->inputs[i];
    shown called = show(info->name);
    const char *shown_name = called.text;
    hyp_tensor *t = &r->request->inputs[i];
    if (t->name) return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "input '%s' is there twice", shown_name);
    *t = (hyp_tensor){.name = info->name, .dtype = info->dtype};
    if (!json_is_string(type))
        return refuse(r->diag, HYP_ERR_MALFORMED, "input '%s': \"datatype\" is %s; wanted \"%s\"", shown_name,
                      kind_name(type), wire_type_name(info->dtype));
    if (strcmp(json_string_value(type), wire_type_name(info->dtype)) != 0)
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "input '%s': the datatype is %s; wanted %s", shown_name,
                      show(json_string_value(type)).text, wire_type_name(info->dtype));
    if (!get_object(r, tensor, "parameters", "an input", &parameters)) return HYP_ERR_MALFORMED;
    hyp_status status = check_parameters(r, parameters, "an input");
    if (status == HYP_OK) status = read_shape(r, tensor, info, t);
    if (status != HYP_OK) return status;
    json_t *size = json_object_get(parameters, "binary_data_size"), *data = json_object_get(tensor, "data");
    if (size && data)
        return refuse(r->diag, HYP_ERR_MALFORMED,
                      "input '%s' has \"data\" and \"binary_data_size\"; wanted one of them", shown_name);
    if (!size && !data)
        return refuse(r->diag, HYP_ERR_MALFORMED, "input '%s' has no \"data\" and no \"binary_data_size\"", shown_name);
    return size ? read_binary_data(r, info, size, t) : read_json_data(r, info, data, t);
}

static hyp_status read_inputs(reading *r, json_t *root)
{
    json_t *inputs;
    if (!get_array(r, root, "inputs", &inputs)) return HYP_ERR_MALFORMED;
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        hyp_status status = read_input(r, json_array_get(inputs, i));
        if (status != HYP_OK) return status;
    }
    for (size_t i = 0; i < r->signature->input_count; i++)
        if (!r->request->inputs[i].name)
            return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "input '%s' is missing",
                          show(r->signature->inputs[i]->name).text);
    if (r->tail != r->tail_end)
        return refuse(r->diag, HYP_ERR_MALFORMED, "%zu bytes of the body belong to no tensor",
                      (size_t)(r->tail_end - r->tail));
    return HYP_OK;
}

/* ---- outputs ------------------------------------------------------------------------------------------------- */

static hyp_status read_output(const reading *r, json_t *output, bool binary)
{
    json_t *name = json_object_get(output, "name"), *parameters;
    if (!json_is_object(output) || !json_is_string(name))
        return refuse(r->diag, HYP_ERR_MALFORMED, "an element of \"outputs\" is %s%s; wanted {\"name\": ...}",
                      kind_name(output), json_is_object(output) ? " without a name" : "");
    size_t i = find_io(r->signature->outputs, r->signature->output_count, json_string_value(name));
    if (i == r->signature->output_count) {
        char names[512];
        list_names(r->signature->outputs, r->signature->output_count, names, sizeof names);
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "the model has no output '%s'; its outputs are %s",
                      show(json_string_value(name)).text, names);
    }
    if (r->request->forms[i])
        return refuse(r->diag, HYP_ERR_INVALID_ARGUMENT, "output '%s' is asked for twice",
                      show(json_string_value(name)).text);
    if (!get_object(r, output, "parameters", "an output", &parameters)) return HYP_ERR_MALFORMED;
    hyp_status status = check_parameters(r, parameters, "an output");
    if (status == HYP_OK) status = get_flag(r, parameters, "binary_data", "an output", &binary);
    r->request->forms[i] = binary ? V2_BINARY : V2_JSON;
    return status;
}

static hyp_status read_outputs(const reading *r, json_t *root)
{
    json_t *outputs, *parameters;
    bool binary = false;
    if (!get_array(r, root, "outputs", &outputs) || !get_object(r, root, "parameters", "the request", &parameters))
        return HYP_ERR_MALFORMED;
    hyp_status status = check_parameters(r, parameters, "the request");
    if (status == HYP_OK) status = get_flag(r, parameters, "binary_data_output", "the request", &binary);
    for (size_t i = 0; i < json_array_size(outputs) && status == HYP_OK; i++)
        status = read_output(r, json_array_get(outputs, i), binary);
    for (size_t i = 0; i < r->signature->output_count && json_array_size(outputs) == 0; i++)
        r->request->forms[i] = binary ? V2_BINARY : V2_JSON;
    return status;
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

static hyp_status read_root(reading *r, json_t *root)
{
    if (!json_is_object(root))
        return refuse(r->diag, HYP_ERR_MALFORMED, "the request is %s; wanted an object with \"inputs\"",
                      kind_name(root));
    json_t *id = json_object_get(root, "id");
    if (id && !json_is_string(id))
        return refuse(r->diag, HYP_ERR_MALFORMED, "\"id\" is %s; wanted a string", kind_name(id));
    if (id) {
        r->request->id = store_copy(r->store, json_string_value(id), json_string_length(id));
        if (!r->request->id) return refuse_memory(r->diag);
    }
    hyp_status status = read_inputs(r, root);
    return status == HYP_OK ? read_outputs(r, root) : status;
}

hyp_status v2_request_read(const char *body, size_t len, int64_t header_bytes, const v2_signature *signature, store *s,
                           v2_request *out, hyp_diag *diag)
{
    v2_request request = {.inputs = store_zeroed(s, signature->input_count, sizeof *request.inputs),
                          .forms = store_zeroed(s, signature->output_count, sizeof *request.forms)};
    size_t json_bytes = header_bytes == V2_NO_HEADER_BYTES ? len : (size_t)header_bytes;
    reading r = {.signature = signature,
                 .store = s,
                 .tail = body + json_bytes,
                 .tail_end = body + len,
                 .request = &request,
                 .diag = diag};
    if (!request.inputs || !request.forms) return refuse_memory(diag);
    hyp_status status = json_cut_data(body, json_bytes, s, &r.cut, diag);
    if (status != HYP_OK) return status;
    json_error_t error = {0};
    json_memory_failed = false;
    json_t *root = json_loadb(r.cut.rest, r.cut.rest_len, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_memory_failed) return refuse_memory(diag);
    if (!root)
        return refuse(diag, HYP_ERR_MALFORMED,
                      "the request is no JSON: %s (line %d, column %d, data of tensors left out)",
                      show(error.text).text, error.line, error.column);
    status = read_root(&r, root);
    json_decref(root);
    if (status == HYP_OK) *out = request;
    return status;
}
