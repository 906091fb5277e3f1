#include "metrics.h"

#include <inttypes.h>

static const int codes[METRICS_CODES] = {200, 400, 401, 403, 404, 405, 413, 415, 429, 500, 503, 0}; /* 0: any other */

static const double seconds[HISTOGRAM_MOST] = {5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2,
                                               5e-2, 0.1,  0.25,   0.5,  1,    2.5,    5,    10};
static const double rows_of[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
enum { ROW_BOUNDS = sizeof rows_of / sizeof *rows_of };

static void add(histogram *h, const double *bounds, size_t count, double value, uint64_t amount)
{
    size_t i = 0;
    while (i < count && value > bounds[i]) i++;
    atomic_fetch_add(&h->counts[i], 1);
    atomic_fetch_add(&h->sum, amount);
}

void histogram_add_ns(histogram *h, uint64_t ns) { add(h, seconds, HISTOGRAM_MOST, (double)ns * 1e-9, ns); }
void histogram_add_rows(histogram *h, uint64_t rows) { add(h, rows_of, ROW_BOUNDS, (double)rows, rows); }

void code_counts_add(code_counts *c, int code)
{
    size_t i = 0;
    while (i < METRICS_CODES - 1 && codes[i] != code) i++;
    atomic_fetch_add(&c->counts[i], 1);
}

void metrics_head(text *out, const char *name, const char *type, const char *help)
{
    text_print(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_codes(text *out, const char *name, const char *labels, const code_counts *c)
{
    for (size_t i = 0; i < METRICS_CODES; i++) {
        uint64_t count = atomic_load(&c->counts[i]);
        if (!count) continue;
        text_print(out, "%s{", name);
        text_put(out, labels);
        if (codes[i])
            text_print(out, "%scode=\"%d\"} %" PRIu64 "\n", *labels ? "," : "", codes[i], count);
        else
            text_print(out, "%scode=\"other\"} %" PRIu64 "\n", *labels ? "," : "", count);
    }
}

static void write_histogram(text *out, const char *name, const char *labels, const histogram *h, const double *bounds,
                            size_t count, double unit)
{
    const char *comma = *labels ? "," : "";
    uint64_t below = 0;
    for (size_t i = 0; i < count; i++) {
        below += atomic_load(&h->counts[i]);
        text_print(out, "%s_bucket{", name);
        text_put(out, labels);
        text_print(out, "%sle=\"%g\"} %" PRIu64 "\n", comma, bounds[i], below);
    }
    below += atomic_load(&h->counts[count]);
    text_print(out, "%s_bucket{", name);
    text_put(out, labels);
    text_print(out, "%sle=\"+Inf\"} %" PRIu64 "\n%s_sum{", comma, below, name);
    text_put(out, labels);
    text_print(out, "} %.9g\n%s_count{", (double)atomic_load(&h->sum) * unit, name);
    text_put(out, labels);
    text_print(out, "} %" PRIu64 "\n", below);
}

void metrics_histogram_seconds(text *out, const char *name, const char *labels, const histogram *h)
{
    write_histogram(out, name, labels, h, seconds, HISTOGRAM_MOST, 1e-9);
}

void metrics_histogram_rows(text *out, const char *name, const char *labels, const histogram *h)
{
    write_histogram(out, name, labels, h, rows_of, ROW_BOUNDS, 1);
}
