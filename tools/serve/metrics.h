/* metrics.h - counters and histograms that any thread adds to, and how Prometheus reads them. */
#ifndef HYPATIA_SERVE_METRICS_H
#define HYPATIA_SERVE_METRICS_H

#include "store.h"

enum { HISTOGRAM_MOST = 17 };
typedef struct histogram {
    _Atomic uint64_t counts[HISTOGRAM_MOST + 1]; /* by bucket; the last: beyond the bounds */
    _Atomic uint64_t sum;                        /* nanoseconds, or rows */
} histogram;
void histogram_add_ns(histogram *h, uint64_t ns);
void histogram_add_rows(histogram *h, uint64_t rows);

/* Statuses of HTTP that are answered, each with a counter. */
enum { METRICS_CODES = 12 };
typedef struct code_counts {
    _Atomic uint64_t counts[METRICS_CODES];
} code_counts;
void code_counts_add(code_counts *c, int code);

/* Of a model; they go on when it is loaded again. */
typedef struct model_metrics {
    code_counts codes;               /* requests for inference */
    histogram duration, queued, run; /* of requests that ran: from the first byte to the answer, waiting, running */
    histogram batch_rows;            /* of runs */
    _Atomic uint64_t loads, load_failures;
} model_metrics;

/* "# HELP", "# TYPE" */
void metrics_head(text *out, const char *name, const char *type, const char *help);
/* Lines of one metric; `labels` as in {...}, without a comma at the end, or "". */
void metrics_codes(text *out, const char *name, const char *labels, const code_counts *c);
void metrics_histogram_seconds(text *out, const char *name, const char *labels, const histogram *h);
void metrics_histogram_rows(text *out, const char *name, const char *labels, const histogram *h);

#endif
