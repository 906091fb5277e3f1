/* The timing cache of tuning. A line belongs to the device that it names; lines are only added. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "tuning.h"

enum { MOST_ALGORITHM = 1 << 20, MOST_LINE = 4 << 20 }; /* bytes; of an algorithm as a plan may have */

struct tune_line {
    char *product, *attributes;
    uint8_t *algorithm;
    hyp_tuned tuned; /* points to the above */
};

/* ---- reading --------------------------------------------------------------------------------------------- */

/* The fields of a line; texts are borrowed from its JSON. */
typedef struct fields {
    const char *device, *product, *algorithm, *attributes;
    json_int_t epilogue, workspace;
    double seconds, first_seconds;
} fields;

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_hex(const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (hex_digit(text[i]) < 0) return false;
    return len > 0 && len % 2 == 0 && len / 2 <= MOST_ALGORITHM;
}

/* NULL, or what is wrong with the line. */
static const char *read_fields(json_t *root, fields *f)
{
    json_error_t error;
    if (json_unpack_ex(root, &error, 0, "{s:s, s:s, s:s, s:s, s:I, s:I, s:F, s:F}", "device", &f->device, "product",
                       &f->product, "algorithm", &f->algorithm, "attributes", &f->attributes, "epilogue", &f->epilogue,
                       "workspace", &f->workspace, "seconds", &f->seconds, "first_seconds", &f->first_seconds) != 0)
        return "a field is missing, or of another type";
    if (!*f->product) return "the product has no name";
    if (!is_hex(f->algorithm)) return "the algorithm is not made of hexadecimal bytes";
    if (f->epilogue < 0 || f->epilogue > UINT32_MAX || f->workspace < 0) return "a number is out of range";
    if (!(f->seconds >= 0 && f->first_seconds >= 0)) return "a time is negative";
    return NULL;
}

static void free_line(struct tune_line *l)
{
    free(l->product);
    free(l->attributes);
    free(l->algorithm);
}

static struct tune_line make_line(const fields *f)
{
    size_t bytes = strlen(f->algorithm) / 2;
    struct tune_line l = {.product = cli_copy(f->product, strlen(f->product)),
                          .attributes = cli_copy(f->attributes, strlen(f->attributes)),
                          .algorithm = cli_alloc(NULL, bytes, 1)};
    for (size_t i = 0; i < bytes; i++)
        l.algorithm[i] = (uint8_t)(hex_digit(f->algorithm[2 * i]) << 4 | hex_digit(f->algorithm[2 * i + 1]));
    l.tuned = (hyp_tuned){.size = sizeof l.tuned,
                          .product = l.product,
                          .algorithm = l.algorithm,
                          .algorithm_bytes = bytes,
                          .epilogue = (uint32_t)f->epilogue,
                          .attributes = l.attributes,
                          .workspace = (uint64_t)f->workspace,
                          .seconds = f->seconds,
                          .first_seconds = f->first_seconds};
    return l;
}

/* The place of the product among the lines, which are in the order of products, or where it is to be. */
static size_t place_of(const tune_cache *c, const char *product)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(c->lines[middle].product, product) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct tune_line *find_line(const tune_cache *c, const char *product)
{
    size_t at = place_of(c, product);
    return at < c->count && strcmp(c->lines[at].product, product) == 0 ? &c->lines[at] : NULL;
}

/* NULL, or what is wrong with the line. */
static const char *take_line(tune_cache *c, json_t *root, const char *device)
{
    fields f;
    const char *problem = read_fields(root, &f);
    if (problem) return problem;
    if (strcmp(f.device, device) != 0) {
        c->others++;
        return NULL;
    }
    struct tune_line *at = find_line(c, f.product);
    if (at) {
        free_line(at);
    } else {
        size_t place = place_of(c, f.product);
        if (c->count == c->room) c->lines = cli_alloc(c->lines, c->room = 2 * c->room + 16, sizeof *c->lines);
        at = &c->lines[place];
        memmove(at + 1, at, (c->count++ - place) * sizeof *at);
    }
    *at = make_line(&f);
    return NULL;
}

/* The next line, without its end; false where there is none. Of one that is too long the first MOST_LINE + 1 bytes. */
static bool read_line(FILE *file, char *line, size_t *out)
{
    int c;
    *out = 0;
    while ((c = getc(file)) != EOF && c != '\n')
        if (*out <= MOST_LINE) line[(*out)++] = (char)c;
    return c != EOF || *out > 0;
}

static void read_lines(tune_cache *c, FILE *file, const char *path, const char *device, const char *tool)
{
    enum { TOLD = 16 }; /* lines that are told of, one by one; a file of anything else may have millions */
    char *line = cli_alloc(NULL, MOST_LINE + 1, 1);
    size_t length, broken = 0;
    for (size_t number = 1; read_line(file, line, &length); number++) {
        json_error_t error = {.text = "it is too long"};
        json_t *root = length <= MOST_LINE ? json_loadb(line, length, JSON_REJECT_DUPLICATES, &error) : NULL;
        const char *problem = root ? take_line(c, root, device) : error.text;
        if (problem && broken++ < TOLD) cli_error(tool, "%s:%zu: the line is left out: %s", path, number, problem);
        json_decref(root);
    }
    if (broken > TOLD) cli_error(tool, "%s: %zu more lines are left out", path, broken - TOLD);
    free(line);
}

int tune_cache_load(tune_cache *c, const char *path, const char *device, const char *tool)
{
    struct stat is;
    if (stat(path, &is) == 0 && S_ISFIFO(is.st_mode)) { /* opening it waits for who writes, and what was read is gone */
        cli_error(tool, "%s: is a pipe; a cache is a file, which is read and then added to", path);
        return CLI_FAILED;
    }
    FILE *file = fopen(path, "r");
    if (!file && errno == ENOENT) return CLI_OK;
    if (!file) {
        cli_error(tool, "%s: cannot read: %s", path, strerror(errno));
        return CLI_FAILED;
    }
    bool ends = fstat(fileno(file), &is) == 0 && !S_ISCHR(is.st_mode);
    errno = 0;
    if (ends) read_lines(c, file, path, device, tool);
    bool failed = ferror(file);
    if (failed) cli_error(tool, "%s: cannot read: %s", path, strerror(errno));
    if (c->others > 0)
        cli_error(tool, "%s: %zu lines are for other devices than this (%s)", path, c->others, device);
    fclose(file);
    return failed ? CLI_FAILED : CLI_OK;
}

bool tune_cache_find(const char *product, hyp_tuned *out, void *cache)
{
    const struct tune_line *l = find_line(cache, product);
    if (!l) return false;
    out->product = l->tuned.product;
    out->algorithm = l->tuned.algorithm;
    out->algorithm_bytes = l->tuned.algorithm_bytes;
    out->epilogue = l->tuned.epilogue;
    out->attributes = l->tuned.attributes;
    out->workspace = l->tuned.workspace;
    out->seconds = l->tuned.seconds;
    out->first_seconds = l->tuned.first_seconds;
    return true;
}

void tune_cache_free(tune_cache *c)
{
    for (size_t i = 0; i < c->count; i++) free_line(&c->lines[i]);
    free(c->lines);
    *c = (tune_cache){0};
}

/* ---- writing --------------------------------------------------------------------------------------------- */

/* A line of JSON with its end, to be freed; NULL when memory is out. */
static char *line_text(const hyp_tuned *t, const char *device)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = t->algorithm;
    char *hex = cli_alloc(NULL, t->algorithm_bytes, 2);
    for (size_t i = 0; i < t->algorithm_bytes; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    json_t *root =
        json_pack("{s:s, s:s, s:s%, s:s, s:I, s:I, s:f, s:f}", "device", device, "product", t->product, "algorithm",
                  hex, (int)(2 * t->algorithm_bytes), "attributes", t->attributes, "epilogue", (json_int_t)t->epilogue,
                  "workspace", (json_int_t)t->workspace, "seconds", t->seconds, "first_seconds", t->first_seconds);
    free(hex);
    char *text = root ? json_dumps(root, 0) : NULL; /* times in full, for equal plans */
    json_decref(root);
    return text;
}

/* Whether the file ends in the middle of a line: of a writer that was interrupted. */
static bool ends_in_line(FILE *file) { return fseek(file, -1, SEEK_END) == 0 && fgetc(file) != '\n'; }

/* One process writes at a time, until it closes the file: lines of two would end up within each other. That takes a moment;
 * who waits for one that is stopped says so. */
static void lock(FILE *file, const char *path, const char *tool)
{
    enum { MOMENTS = 20 };
    const struct timespec moment = {.tv_nsec = 50000000};
    for (int i = 0; i < MOMENTS; i++) {
        /* Some file systems have no locks. */
        if (flock(fileno(file), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
        nanosleep(&moment, NULL);
    }
    cli_error(tool, "%s: another process is writing to it; this one waits for that", path);
    flock(fileno(file), LOCK_EX);
}

static FILE *open_to_extend(const char *path, const char *tool)
{
    FILE *file = fopen(path, "a+");
    if (!file) cli_error(tool, "%s: cannot write: %s", path, strerror(errno));
    if (file) lock(file, path, tool);
    if (file && ends_in_line(file)) fputc('\n', file); /* closing tells whether it could */
    return file;
}

static bool write_line(FILE *file, const hyp_tuned *t, const char *device)
{
    char *text = line_text(t, device);
    bool ok = text && fprintf(file, "%s\n", text) > 0;
    free(text);
    return ok;
}

static int close_extended(FILE *file, bool ok, const char *path, const char *tool)
{
    ok = !ferror(file) && ok;
    ok = fclose(file) == 0 && ok;
    if (!ok) cli_error(tool, "%s: cannot write", path);
    return ok ? CLI_OK : CLI_FAILED;
}

int tune_cache_extend(const tune_cache *c, const char *path, const hyp_context *context, const char *tool)
{
    FILE *file = open_to_extend(path, tool);
    if (!file) return CLI_FAILED;
    bool ok = true;
    for (size_t i = 0; i < hyp_context_tuned_count(context) && ok; i++) {
        hyp_tuned t = hyp_context_tuned(context, i);
        if (!find_line(c, t.product)) ok = write_line(file, &t, hyp_context_tuning_device(context));
    }
    return close_extended(file, ok, path, tool);
}

int tune_cache_add(tune_cache *c, const char *path, const char *device, const hyp_tuned *tuned, const char *tool)
{
    char *text = line_text(tuned, device);
    json_t *root = text ? json_loads(text, 0, NULL) : NULL;
    if (root) take_line(c, root, device); /* as if it had been read */
    json_decref(root);
    free(text);
    FILE *file = path ? open_to_extend(path, tool) : NULL;
    if (!path) return CLI_OK;
    return file ? close_extended(file, write_line(file, tuned, device), path, tool) : CLI_FAILED;
}
