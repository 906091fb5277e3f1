#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"

/* Seconds, or null where the cost is not known. */
static json_t *cost(double seconds) { return isfinite(seconds) ? json_real(seconds) : json_null(); }

void hyp_trace_write(const hyp_rewrite_trace *event, void *user)
{
    hyp_trace_sink *sink = user;
    json_t *sources = json_array();
    for (size_t i = 0; i < event->source_count; i++) json_array_append_new(sources, json_string(event->sources[i]));
    json_t *line =
        json_pack("{s:s, s:I, s:s, s:s, s:s, s:o, s:o, s:o}", "phase", event->phase, "iteration",
                  (json_int_t)event->iteration, "rule", event->rule, "matched", event->matched, "result", event->result,
                  "sources", sources, "cost_before", cost(event->cost_before), "cost_after", cost(event->cost_after));
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    if (text) {
        sink->write(text, strlen(text), sink->user);
        sink->write("\n", 1, sink->user);
    }
    sink->failed = sink->failed || !text;
    free(text);
    json_decref(line);
}
