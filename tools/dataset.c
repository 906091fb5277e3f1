#include "dataset.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "session.h"

/* ---- elements ---------------------------------------------------------------------------------------------- */

#define CONVERT_TO_FLOAT(name, type)                                                                                   \
    static void name(void *to, const void *from, size_t count, float scale)                                            \
    {                                                                                                                  \
        float *y = to;                                                                                                 \
        for (size_t i = 0; i < count; i++) {                                                                           \
            type x; /* files may have their elements anywhere */                                                       \
            memcpy(&x, (const char *)from + i * sizeof x, sizeof x);                                                   \
            y[i] = (float)x * scale;                                                                                   \
        }                                                                                                              \
    }
#define CONVERT_TO_INTEGER(name, type, wide)                                                                           \
    static void name(void *to, const void *from, size_t count, float scale)                                            \
    {                                                                                                                  \
        wide *y = to;                                                                                                  \
        (void)scale;                                                                                                   \
        for (size_t i = 0; i < count; i++) {                                                                           \
            type x;                                                                                                    \
            memcpy(&x, (const char *)from + i * sizeof x, sizeof x);                                                   \
            y[i] = x;                                                                                                  \
        }                                                                                                              \
    }
CONVERT_TO_FLOAT(f32_to_f32, float)
CONVERT_TO_FLOAT(f64_to_f32, double)
CONVERT_TO_FLOAT(u8_to_f32, uint8_t)
CONVERT_TO_FLOAT(i8_to_f32, int8_t)
CONVERT_TO_FLOAT(u16_to_f32, uint16_t)
CONVERT_TO_FLOAT(i16_to_f32, int16_t)
CONVERT_TO_FLOAT(i32_to_f32, int32_t)
CONVERT_TO_FLOAT(i64_to_f32, int64_t)
CONVERT_TO_INTEGER(u8_to_i64, uint8_t, int64_t)
CONVERT_TO_INTEGER(i8_to_i64, int8_t, int64_t)
CONVERT_TO_INTEGER(u16_to_i64, uint16_t, int64_t)
CONVERT_TO_INTEGER(i16_to_i64, int16_t, int64_t)
CONVERT_TO_INTEGER(i32_to_i64, int32_t, int64_t)
CONVERT_TO_INTEGER(u8_to_i32, uint8_t, int32_t)
CONVERT_TO_INTEGER(i8_to_i32, int8_t, int32_t)
CONVERT_TO_INTEGER(u16_to_i32, uint16_t, int32_t)
CONVERT_TO_INTEGER(i16_to_i32, int16_t, int32_t)

static const struct {
    hyp_dtype to, from;
    dataset_convert_fn *convert;
} conversions[] = {
    {HYP_F32, HYP_F32, f32_to_f32}, {HYP_F32, HYP_F64, f64_to_f32}, {HYP_F32, HYP_U8, u8_to_f32},
    {HYP_F32, HYP_BOOL, u8_to_f32}, {HYP_F32, HYP_I8, i8_to_f32},   {HYP_F32, HYP_U16, u16_to_f32},
    {HYP_F32, HYP_I16, i16_to_f32}, {HYP_F32, HYP_I32, i32_to_f32}, {HYP_F32, HYP_I64, i64_to_f32},
    {HYP_I64, HYP_U8, u8_to_i64},   {HYP_I64, HYP_I8, i8_to_i64},   {HYP_I64, HYP_U16, u16_to_i64},
    {HYP_I64, HYP_I16, i16_to_i64}, {HYP_I64, HYP_I32, i32_to_i64}, {HYP_I32, HYP_U8, u8_to_i32},
    {HYP_I32, HYP_I8, i8_to_i32},   {HYP_I32, HYP_U16, u16_to_i32}, {HYP_I32, HYP_I16, i16_to_i32},
};

static dataset_convert_fn *find_conversion(hyp_dtype to, hyp_dtype from)
{
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++)
        if (conversions[i].to == to && conversions[i].from == from) return conversions[i].convert;
    return NULL;
}

/* ---- files --------------------------------------------------------------------------------------------------- */

/* Shards are parts of one array: they differ in their rows alone. */
static int check_shard(const hyp_tensor *first, const hyp_tensor *t, const char *path, const char *tool)
{
    bool same = first->dtype == t->dtype && first->rank == t->rank;
    for (int32_t a = 1; a < t->rank && same; a++) same = first->dims[a] == t->dims[a];
    if (same) return CLI_OK;
    cli_error(tool, "%s: has rows of another type or other dims than the file before it in the folder", path);
    return CLI_USAGE;
}

static int add_shard(dataset_column *c, const char *path, const char *tool)
{
    dataset_shard s = {.first = c->rows};
    hyp_diag diag = {0};
    if (hyp_tensor_map(path, &s.rows, &s.mapping, &diag) != HYP_OK) return cli_report(tool, &diag);
    int code = CLI_OK;
    if (s.rows.rank < 1) {
        cli_error(tool, "%s: is a single number and has no rows", path);
        code = CLI_USAGE;
    } else if (s.rows.bytes == 0 && s.rows.dims[0] > 0) {
        cli_error(tool, "%s: its rows have no elements", path);
        code = CLI_USAGE;
    } else if (c->shard_count) {
        code = check_shard(&c->shards[0].rows, &s.rows, path, tool);
    }
    if (code != CLI_OK) {
        hyp_tensor_unmap(s.mapping);
        return code;
    }
    c->rows += (uint64_t)s.rows.dims[0]; /* bytes of files: no sum of them is beyond 64 bits */
    c->shards = cli_alloc(c->shards, c->shard_count + 1, sizeof *c->shards);
    c->shards[c->shard_count++] = s;
    return CLI_OK;
}

static int is_npy(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return len > 4 && strcmp(entry->d_name + len - 4, ".npy") == 0;
}

static int add_folder(dataset_column *c, const char *folder, const char *tool)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_npy, versionsort), code = CLI_OK;
    if (count < 0) cli_error(tool, "%s: cannot read the folder: %s", folder, strerror(errno));
    if (count == 0) cli_error(tool, "%s: has no .npy files", folder);
    if (count <= 0) code = CLI_FAILED;
    for (int i = 0; i < count; i++) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (code == CLI_OK && n >= (int)sizeof path) {
            cli_error(tool, "%s: the path is too long", folder);
            code = CLI_FAILED;
        }
        if (code == CLI_OK) code = add_shard(c, path, tool);
        free(entries[i]);
    }
    free(entries);
    return code;
}

/* ---- the plan's inputs ----------------------------------------------------------------------------------------- */

static int find_input(dataset_column *c, const hyp_engine *engine, const char *option, const char *tool)
{
    size_t count = hyp_engine_input_count(engine);
    const char **names = cli_alloc(NULL, count, sizeof *names);
    for (c->input = 0; c->input < count; c->input++) {
        names[c->input] = hyp_engine_input(engine, c->input)->name;
        if (strcmp(names[c->input], c->name) == 0) break;
    }
    bool found = c->input < count;
    if (!found) {
        const char *near = cli_nearest(c->name, names, count);
        fprintf(stderr, "%s: %s %s: the plan has no such input", tool, option, cli_shown(c->name));
        if (near) fprintf(stderr, "; did you mean '%s'?", cli_shown(near));
        fputc('\n', stderr);
    }
    free(names);
    return found ? CLI_OK : CLI_USAGE;
}

static int misfit(const dataset_column *c, const hyp_io_info *info, const char *option, const char *tool)
{
    fprintf(stderr, "%s: %s %s: the files have %s[rows", tool, option, cli_shown(c->name),
            hyp_dtype_name(c->shards[0].rows.dtype));
    for (int32_t a = 1; a < c->shards[0].rows.rank; a++) fprintf(stderr, " %lld", (long long)c->shards[0].rows.dims[a]);
    fputs("], but the plan wants ", stderr);
    session_print_type(info);
    fputc('\n', stderr);
    return CLI_USAGE;
}

static int fit(dataset *d, dataset_column *c, const hyp_engine *engine, const char *option, const char *tool)
{
    const hyp_io_info *info = hyp_engine_input(engine, c->input);
    const hyp_tensor *t = &c->shards[0].rows;
    bool fits = info->rank == t->rank;
    for (int32_t a = 1; a < t->rank && fits; a++) fits = info->dims[a] < 0 || info->dims[a] == t->dims[a];
    c->convert = find_conversion(info->dtype, t->dtype);
    if (!fits || (!c->convert && info->dtype != t->dtype)) return misfit(c, info, option, tool);
    c->row = (hyp_tensor){.dtype = info->dtype, .rank = t->rank - 1};
    for (int32_t a = 1; a < t->rank; a++) c->row.dims[a - 1] = t->dims[a];
    int64_t elements = hyp_tensor_elements(&c->row);
    if (elements <= 0 || (uint64_t)elements > SIZE_MAX / 16) { /* a file without rows says anything */
        cli_error(tool, "%s %s: has rows without elements, or with too many", option, cli_shown(c->name));
        return CLI_USAGE;
    }
    c->elements = (size_t)elements;
    if (info->dims[0] < 0) return CLI_OK;
    if (info->dims[0] == 0 || (d->fixed_batch && d->fixed_batch != info->dims[0])) {
        cli_error(tool, "the plan's inputs want batches of different sizes, %lld and %lld, which rows cannot fill",
                  (long long)d->fixed_batch, (long long)info->dims[0]);
        return CLI_USAGE;
    }
    d->fixed_batch = info->dims[0];
    return CLI_OK;
}

/* ---- data sets ------------------------------------------------------------------------------------------------- */

static int add_column(dataset *d, const hyp_engine *engine, const char *source, const char *option, const char *tool)
{
    const char *equals = strchr(source, '=');
    if (!equals || equals == source || !equals[1]) {
        cli_error(tool, "%s: '%s' is not of the form NAME=FILE.npy or NAME=FOLDER", option, source);
        return CLI_USAGE;
    }
    d->columns = cli_alloc(d->columns, d->count + 1, sizeof *d->columns);
    dataset_column *c = &d->columns[d->count++];
    *c = (dataset_column){.name = cli_copy(source, (size_t)(equals - source)), .scale = 1};
    for (size_t i = 0; i + 1 < d->count; i++)
        if (strcmp(d->columns[i].name, c->name) == 0) {
            cli_error(tool, "%s %s: was given twice", option, cli_shown(c->name));
            return CLI_USAGE;
        }
    int code = find_input(c, engine, option, tool);
    if (code == CLI_OK) code = is_folder(equals + 1) ? add_folder(c, equals + 1, tool) : add_shard(c, equals + 1, tool);
    if (code == CLI_OK) code = fit(d, c, engine, option, tool);
    return code;
}

static int set_scale(dataset *d, const char *text, const char *tool)
{
    const char *equals = strchr(text, '=');
    double scale;
    if (!equals || !cli_parse_double(equals + 1, -1e30, &scale) || scale > 1e30) {
        cli_error(tool, "--scale: '%s' is not of the form x=0.0039", text);
        return CLI_USAGE;
    }
    for (size_t i = 0; i < d->count; i++) {
        dataset_column *c = &d->columns[i];
        if (strlen(c->name) != (size_t)(equals - text) || memcmp(c->name, text, (size_t)(equals - text)) != 0) continue;
        if (c->row.dtype == HYP_F32) {
            c->scale = (float)scale;
            return CLI_OK;
        }
        cli_error(tool, "--scale %s: the plan wants %s, and only f32 is scaled", text,
                hyp_dtype_name(c->row.dtype));
        return CLI_USAGE;
    }
    cli_error(tool, "--scale %s: there is no data of this name", text);
    return CLI_USAGE;
}

int dataset_open(dataset *d, const hyp_engine *engine, const cli_list *sources, const cli_list *scales,
                 const char *option, const char *tool)
{
    int code = CLI_OK;
    for (size_t i = 0; i < sources->count && code == CLI_OK; i++)
        code = add_column(d, engine, sources->items[i], option, tool);
    for (size_t i = 0; i < scales->count && code == CLI_OK; i++) code = set_scale(d, scales->items[i], tool);
    if (code != CLI_OK || !d->count) return code;
    d->rows = d->columns[0].rows;
    for (size_t i = 0; i < d->count; i++) {
        if (d->columns[i].rows == d->rows) continue;
        cli_error(tool, "%s: %s has %llu rows, but %s has %llu", option, cli_shown(d->columns[i].name),
                (unsigned long long)d->columns[i].rows, cli_shown(d->columns[0].name), (unsigned long long)d->rows);
        return CLI_USAGE;
    }
    if (d->rows) return CLI_OK;
    cli_error(tool, "%s: there are no rows", option);
    return CLI_USAGE;
}

void dataset_close(dataset *d)
{
    for (size_t i = 0; i < d->count; i++) {
        for (size_t k = 0; k < d->columns[i].shard_count; k++) hyp_tensor_unmap(d->columns[i].shards[k].mapping);
        free(d->columns[i].shards);
        free(d->columns[i].name);
    }
    free(d->columns);
    *d = (dataset){0};
}

bool dataset_has(const dataset *d, size_t input)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->columns[i].input == input) return true;
    return false;
}

/* The shard that has this row. */
static const dataset_shard *find_shard(const dataset_column *c, uint64_t row)
{
    size_t low = 0,
           high = c->shard_count; /* the last one whose first row is not behind it: those before may be empty */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (c->shards[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return &c->shards[low];
}

/* Where a row lies. Rows come in no order, so that memory is asked for the beginning of each while the one before it is copied. */
static const char *find_row(const dataset_column *c, uint64_t row)
{
    enum { LINE = 64, MOST = 4096 }; /* bytes */
    const dataset_shard *s = find_shard(c, row);
    size_t bytes = c->elements * hyp_dtype_size(s->rows.dtype);
    const char *from = (const char *)s->rows.data + (row - s->first) * bytes;
    for (size_t at = 0; at < bytes && at < MOST; at += LINE) __builtin_prefetch(from + at);
    return from;
}

void dataset_read(const dataset_column *c, const uint64_t *rows, size_t count, void *out)
{
    size_t to_bytes = c->elements * hyp_dtype_size(c->row.dtype);
    const char *next = count ? find_row(c, rows[0]) : NULL;
    for (size_t i = 0; i < count; i++) {
        const char *from = next;
        char *to = (char *)out + i * to_bytes;
        if (i + 1 < count) next = find_row(c, rows[i + 1]);
        if (c->convert)
            c->convert(to, from, c->elements, c->scale);
        else
            memcpy(to, from, to_bytes);
    }
}
