/* What a plan is and how it came to be, as JSON and as a page. */
#include "report_page.h"

#include <stdlib.h>
#include <string.h>

#include "hypatia/runtime.h"
#include "report_files.h"
#include "report_schema.h"

/* ---- the document ----------------------------------------------------------------------------------------- */

typedef struct text {
    char *data;
    size_t len, room;
} text;

static void take(const char *part, size_t len, void *user)
{
    text *t = user;
    if (t->len + len > t->room) {
        t->room = 2 * (t->len + len);
        t->data = cli_alloc(t->data, t->room, 1);
    }
    memcpy(t->data + t->len, part, len);
    t->len += len;
}

/* NULL after a message. A plan may count what no 64-bit integer has: then all numbers are floats. */
static json_t *parse(const char *data, size_t len, const char *what, const char *plan, const char *tool)
{
    json_error_t error;
    json_t *value = json_loadb(data, len, 0, &error);
    if (!value) value = json_loadb(data, len, JSON_DECODE_INT_AS_REAL, &error);
    if (!value) fprintf(stderr, "%s: %s: %s is no JSON: %s\n", tool, cli_shown(plan), what, error.text);
    return value;
}

static json_t *describe(const char *plan, const hyp_tensor *dims, size_t count, const char *tool, int *code)
{
    text t = {0};
    hyp_diag diag = {0};
    json_t *value = NULL;
    if (hyp_plan_describe(plan, true, dims, count, take, &t, &diag) != HYP_OK)
        *code = cli_report(tool, &diag);
    else if (!(value = parse(t.data, t.len, "its description", plan, tool)))
        *code = CLI_FAILED;
    free(t.data);
    return value;
}

/* The plan for the sizes that its predictions are for. */
static json_t *describe_typical(const char *plan, const char *tool, int *code)
{
    json_t *first = describe(plan, NULL, 0, tool, code), *symbols = json_object_get(first, "symbols"), *symbol;
    hyp_tensor *dims = cli_alloc(NULL, json_array_size(symbols), sizeof *dims);
    size_t i, count = 0;
    json_array_foreach(symbols, i, symbol)
    {
        json_t *typical = json_object_get(symbol, "typical");
        if (!typical) continue;
        dims[count] = (hyp_tensor){.rank = 1, .dims = {(int64_t)json_number_value(typical)}};
        dims[count++].name = json_string_value(json_object_get(symbol, "name"));
    }
    json_t *plan_json = first && count ? describe(plan, dims, count, tool, code) : json_incref(first);
    const char *slash = strrchr(plan, '/');
    if (plan_json) json_object_set_new(plan_json, "plan", json_string(slash ? slash + 1 : plan));
    free(dims);
    json_decref(first);
    return plan_json;
}

/* What the plan keeps; null where that is nothing, NULL after a message. */
static json_t *read_record(const char *plan, const char *tool, int *code)
{
    text t = {0};
    hyp_diag diag = {0};
    json_t *value = NULL;
    if (hyp_plan_record(plan, take, &t, &diag) != HYP_OK) {
        *code = cli_report(tool, &diag);
        return NULL;
    }
    value = t.len ? parse(t.data, t.len, "the record of its compilation", plan, tool) : json_null();
    if (!value) *code = CLI_FAILED;
    free(t.data);
    return value;
}

static int check(const json_t *data, const char *plan, const char *tool)
{
    char why[512];
    json_t *schema = json_loadb(report_schemas[0].text, report_schemas[0].len, 0, NULL);
    int code = CLI_OK;
    if (!schema || !report_schema_fits(schema, schema, data, why, sizeof why)) {
        fprintf(stderr,
                "%s: %s: what it keeps is no record of a compilation that this version of Hypatia can show: %s\n", tool,
                cli_shown(plan), schema ? cli_shown(why) : "memory is out");
        code = CLI_FAILED;
    }
    json_decref(schema);
    return code;
}

int report_data(const char *plan, const char *run, json_t *measured, json_t **out, const char *tool)
{
    int code = CLI_OK;
    json_t *described = describe_typical(plan, tool, &code);
    json_t *record = code == CLI_OK ? read_record(plan, tool, &code) : NULL;
    json_t *ran = run && *run ? parse(run, strlen(run), "what was compiled", plan, tool) : json_null();
    if (!ran && code == CLI_OK) code = CLI_FAILED;
    json_t *data = json_pack("{s:s, s:o*, s:o*, s:o*, s:o*}", "format", "hypatia-report 1", "plan", described, "record",
                             record, "run", ran, "measured", measured ? measured : json_null());
    if (code == CLI_OK && !data) {
        fprintf(stderr, "%s: memory is out\n", tool);
        code = CLI_FAILED;
    }
    if (code == CLI_OK) code = check(data, plan, tool);
    if (code != CLI_OK) {
        json_decref(data);
        data = NULL;
    }
    *out = data;
    return code;
}

/* ---- the page --------------------------------------------------------------------------------------------- */

/* JSON inside of a script: in it these stand in texts alone, where an escape means the same. So no name ends the
 * script. */
static void put_data(const char *json, FILE *to)
{
    for (const char *at = json; *at;) {
        size_t plain = strcspn(at, "<>&");
        fwrite(at, 1, plain, to);
        at += plain;
        if (*at) fprintf(to, "\\u%04x", (unsigned)(unsigned char)*at++);
    }
}

static void put_files(const hyp_builtin_text *files, size_t count, FILE *to)
{
    for (size_t i = 0; i < count; i++) fwrite(files[i].text, 1, files[i].len, to);
}

/* The frame has a line for each thing that goes into it. */
static void put_page(const char *json, FILE *to)
{
    const char *at = report_html[0].text;
    while (*at) {
        const char *end = strchr(at, '\n');
        size_t len = end ? (size_t)(end - at) + 1 : strlen(at);
        if (strncmp(at, "@STYLE@", 7) == 0)
            put_files(report_styles, report_styles_count, to);
        else if (strncmp(at, "@SCRIPT@", 8) == 0)
            put_files(report_scripts, report_scripts_count, to);
        else if (strncmp(at, "@DATA@", 6) == 0)
            put_data(json, to);
        else
            fwrite(at, 1, len, to);
        at += len;
    }
}

int report_write(const json_t *data, const char *path, bool page, const char *tool)
{
    char *json = json_dumps(data, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    FILE *to = json ? strcmp(path, "-") == 0 ? stdout : fopen(path, "w") : NULL;
    bool good = to != NULL;
    if (good && page) put_page(json, to);
    if (good && !page) fprintf(to, "%s\n", json);
    if (to && to != stdout) good = (fclose(to) == 0) && good;
    if (!good) fprintf(stderr, "%s: %s: the report cannot be written there\n", tool, cli_shown(path));
    free(json);
    return good ? CLI_OK : CLI_FAILED;
}
