#include <inttypes.h>

#include "v2.h"

static void write_output(text *out, const hyp_tensor *t, const char *name, v2_form form)
{
    text_put(out, "{\"name\":");
    text_json(out, name);
    text_print(out, ",\"datatype\":\"%s\",\"shape\":[", wire_type_name(t->dtype));
    for (int32_t a = 0; a < t->rank; a++) text_print(out, "%s%" PRId64, a ? "," : "", t->dims[a]);
    if (form == V2_BINARY) {
        text_print(out, "],\"parameters\":{\"binary_data_size\":%zu}}", t->bytes);
    } else {
        text_put(out, "],\"data\":");
        wire_write_json(out, t);
        text_put(out, "}");
    }
}

void v2_response_write(const v2_response *r, text *out, bool *out_binary)
{
    text_put(out, "{\"model_name\":");
    text_json(out, r->model);
    text_print(out, ",\"model_version\":\"%" PRId64 "\"", r->version);
    if (r->id) {
        text_put(out, ",\"id\":");
        text_json(out, r->id);
    }
    text_put(out, ",\"outputs\":[");
    *out_binary = false;
    bool first = true;
    for (size_t i = 0; i < r->signature->output_count; i++) {
        if (r->forms[i] == V2_ABSENT) continue;
        if (!first) text_put(out, ",");
        first = false;
        write_output(out, &r->outputs[i], r->signature->outputs[i]->name, r->forms[i]);
        *out_binary |= r->forms[i] == V2_BINARY;
    }
    text_put(out, "]}");
}

static void write_infos(text *out, const char *key, const hyp_io_info *const *infos, size_t count)
{
    text_print(out, ",\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        text_print(out, "%s{\"name\":", i ? "," : "");
        text_json(out, infos[i]->name);
        text_print(out, ",\"datatype\":\"%s\",\"shape\":[", wire_type_name(infos[i]->dtype));
        for (int32_t a = 0; a < infos[i]->rank; a++)
            text_print(out, "%s%" PRId64, a ? "," : "", infos[i]->symbols[a] ? -1 : infos[i]->dims[a]);
        text_put(out, "]}");
    }
    text_put(out, "]");
}

void v2_metadata_write(text *out, const char *model, const int64_t *versions, size_t version_count,
                       const v2_signature *signature)
{
    text_put(out, "{\"name\":");
    text_json(out, model);
    text_put(out, ",\"versions\":[");
    for (size_t i = 0; i < version_count; i++) text_print(out, "%s\"%" PRId64 "\"", i ? "," : "", versions[i]);
    text_put(out, "],\"platform\":\"hypatia_plan\"");
    write_infos(out, "inputs", signature->inputs, signature->input_count);
    write_infos(out, "outputs", signature->outputs, signature->output_count);
    text_put(out, "}");
}

void v2_error_write(text *out, const char *message)
{
    text_put(out, "{\"error\":");
    text_json(out, message);
    text_put(out, "}");
}
