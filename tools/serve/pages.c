/* What is only looked at: health, metadata, the index of models, metrics. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "exchange.h"

static const char json_type[] = "application/json";

static void answer_flag(exchange *e, const char *key, bool value)
{
    text t = {.store = &e->store};
    text_print(&t, "{\"%s\":%s}", key, value ? "true" : "false");
    answer_text(e, value ? 200 : 503, json_type, &t);
}

static void answer_server(exchange *e)
{
    text t = {.store = &e->store};
    text_print(&t,
               "{\"name\":\"hypatia\",\"version\":\"%s\",\"extensions\":[\"binary_tensor_data\",\"model_repository\"]}",
               hyp_version());
    answer_text(e, 200, json_type, &t);
}

/* Finds the model; answers where it is not there. Takes the reference to its plan. */
static bool find(exchange *e)
{
    hyp_status status =
        models_find(&e->server->models, e->route.model, e->route.version, &e->model, &e->plan, &e->diag);
    if (status != HYP_OK) answer_error(e, status == HYP_ERR_DEVICE ? 503 : 404, e->diag.message);
    return status == HYP_OK;
}

static void answer_model(exchange *e)
{
    if (!find(e)) return;
    const models *m = &e->server->models;
    int64_t *versions = store_alloc(&e->store, m->count * sizeof *versions);
    size_t count = 0;
    for (size_t i = 0; versions && i < m->count; i++)
        if (strcmp(m->items[i].name, e->model->name) == 0) versions[count++] = m->items[i].version;
    text t = {.store = &e->store};
    v2_metadata_write(&t, e->model->name, versions, count, served_plan_signature(e->plan));
    answer_text(e, 200, json_type, &t);
}

static void answer_model_ready(exchange *e)
{
    if (!find(e)) return;
    text t = {.store = &e->store};
    text_print(&t, "{\"name\":\"%s\",\"ready\":true}", e->model->name);
    answer_text(e, 200, json_type, &t);
}

static void answer_index(exchange *e)
{
    static const char *const names[] = {"LOADING", "READY", "UNAVAILABLE", "UNAVAILABLE"}; /* of model_state */
    models *m = &e->server->models;
    text t = {.store = &e->store};
    for (size_t i = 0; i < m->count; i++) {
        model_status status = models_status(m, &m->items[i]);
        text_print(&t, "%s{\"name\":\"%s\",\"version\":\"%" PRId64 "\",\"state\":\"%s\",\"reason\":", i ? "," : "[",
                   m->items[i].name, m->items[i].version, names[status.state]);
        text_json(&t, status.reason);
        text_put(&t, "}");
    }
    text_put(&t, "]");
    answer_text(e, 200, json_type, &t);
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

static void write_server(text *t, server *s)
{
    metrics_head(t, "hypatia_http_requests_total", "counter", "Requests by path and status.");
    for (int kind = 0; kind < ROUTE_COUNT; kind++) {
        char labels[64];
        snprintf(labels, sizeof labels, "route=\"%s\"", route_name((route_kind)kind));
        metrics_codes(t, "hypatia_http_requests_total", labels, &s->codes[kind]);
    }
    metrics_head(t, "hypatia_http_requests_in_flight", "gauge",
                 "Requests that come in, and that have and are not answered.");
    size_t all = atomic_load(&s->exchanges), whole = atomic_load(&s->whole);
    text_print(t, "hypatia_http_requests_in_flight{state=\"arriving\"} %zu\n", all > whole ? all - whole : 0);
    text_print(t, "hypatia_http_requests_in_flight{state=\"answering\"} %zu\n", whole);
    metrics_head(t, "hypatia_http_connections", "gauge", "Connections that are open.");
    text_print(t, "hypatia_http_connections %zu\n", atomic_load(&s->connections));
    metrics_head(t, "hypatia_request_memory_bytes", "gauge", "Memory of requests under way: bodies, tensors, answers.");
    text_print(t, "hypatia_request_memory_bytes %zu\n", atomic_load(&s->budget.used));
    metrics_head(t, "hypatia_request_memory_limit_bytes", "gauge", "The most that it may be.");
    text_print(t, "hypatia_request_memory_limit_bytes %zu\n", s->budget.most);
    metrics_head(t, "hypatia_uptime_seconds", "gauge", "Since the server has started.");
    text_print(t, "hypatia_uptime_seconds %.3f\n", (double)(clock_ns() - s->started_ns) * 1e-9);
    FILE *statm = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    if (statm && fscanf(statm, "%*u %lu", &pages) == 1) {
        metrics_head(t, "process_resident_memory_bytes", "gauge", "Resident memory of the process.");
        text_print(t, "process_resident_memory_bytes %lu\n", pages * (unsigned long)sysconf(_SC_PAGESIZE));
    }
    if (statm) fclose(statm);
}

/* What a model has now; zeros where it has no plan. */
typedef struct usage {
    size_t engine, contexts, waiting;
    bool ready;
} usage;

static usage usage_of(models *m, const model *item)
{
    usage u = {0};
    model *found;
    served_plan *plan;
    if (models_find(m, item->name, item->version, &found, &plan, NULL) != HYP_OK) return u;
    served_plan_usage(plan, &u.engine, &u.contexts, &u.waiting);
    u.ready = true;
    served_plan_release(plan);
    return u;
}

typedef struct labelled {
    char labels[ROUTE_NAME_MOST + 64];
    usage usage;
} labelled;

static void write_model_sizes(text *t, const labelled *of, size_t count)
{
    metrics_head(t, "hypatia_model_ready", "gauge", "1: the model has a plan.");
    for (size_t i = 0; i < count; i++) text_print(t, "hypatia_model_ready{%s} %d\n", of[i].labels, of[i].usage.ready);
    metrics_head(t, "hypatia_queue_depth", "gauge", "Requests that wait for an instance.");
    for (size_t i = 0; i < count; i++)
        text_print(t, "hypatia_queue_depth{%s} %zu\n", of[i].labels, of[i].usage.waiting);
    metrics_head(t, "hypatia_model_memory_bytes", "gauge",
                 "Memory of the plan's engine and of its contexts, on the host and on the device.");
    for (size_t i = 0; i < count; i++)
        text_print(
            t, "hypatia_model_memory_bytes{%s,of=\"engine\"} %zu\nhypatia_model_memory_bytes{%s,of=\"contexts\"} %zu\n",
            of[i].labels, of[i].usage.engine, of[i].labels, of[i].usage.contexts);
}

static void write_model_counts(text *t, const models *m, const labelled *of)
{
    metrics_head(t, "hypatia_model_loads_total", "counter", "Times that the model was loaded, and that this failed.");
    for (size_t i = 0; i < m->count; i++)
        text_print(t,
                   "hypatia_model_loads_total{%s,result=\"ok\"} %" PRIu64
                   "\nhypatia_model_loads_total{%s,result=\"failed\"} %" PRIu64 "\n",
                   of[i].labels, atomic_load(&m->items[i].metrics.loads), of[i].labels,
                   atomic_load(&m->items[i].metrics.load_failures));
    metrics_head(t, "hypatia_inference_requests_total", "counter", "Requests for inference by status.");
    for (size_t i = 0; i < m->count; i++)
        metrics_codes(t, "hypatia_inference_requests_total", of[i].labels, &m->items[i].metrics.codes);
    metrics_head(t, "hypatia_inference_duration_seconds", "histogram",
                 "Of requests answered by 200, from their headers to the end of the answer.");
    for (size_t i = 0; i < m->count; i++)
        metrics_histogram_seconds(t, "hypatia_inference_duration_seconds", of[i].labels, &m->items[i].metrics.duration);
    metrics_head(t, "hypatia_inference_queue_seconds", "histogram",
                 "That requests have waited for an instance, and for others to run with.");
    for (size_t i = 0; i < m->count; i++)
        metrics_histogram_seconds(t, "hypatia_inference_queue_seconds", of[i].labels, &m->items[i].metrics.queued);
    metrics_head(t, "hypatia_inference_run_seconds", "histogram", "Of runs of the plan.");
    for (size_t i = 0; i < m->count; i++)
        metrics_histogram_seconds(t, "hypatia_inference_run_seconds", of[i].labels, &m->items[i].metrics.run);
    metrics_head(t, "hypatia_inference_batch_rows", "histogram", "Rows of runs; 1 where requests are not joined.");
    for (size_t i = 0; i < m->count; i++)
        metrics_histogram_rows(t, "hypatia_inference_batch_rows", of[i].labels, &m->items[i].metrics.batch_rows);
}

static void answer_metrics(exchange *e)
{
    models *m = &e->server->models;
    text t = {.store = &e->store};
    labelled *of = store_zeroed(&e->store, m->count, sizeof *of);
    t.failed = !of;
    for (size_t i = 0; of && i < m->count; i++) {
        snprintf(of[i].labels, sizeof of[i].labels, "model=\"%s\",version=\"%" PRId64 "\"", m->items[i].name,
                 m->items[i].version);
        of[i].usage = usage_of(m, &m->items[i]);
    }
    if (of) {
        write_server(&t, e->server);
        write_model_sizes(&t, of, m->count);
        write_model_counts(&t, m, of);
    }
    answer_text(e, 200, "text/plain; version=0.0.4; charset=utf-8", &t);
}

void page_answer(exchange *e)
{
    server *s = e->server;
    switch (e->route.kind) {
    case ROUTE_SERVER: answer_server(e); break;
    case ROUTE_LIVE: answer_flag(e, "live", true); break;
    case ROUTE_READY:
        answer_flag(e, "ready", atomic_load(&s->state) == SERVER_SERVING && models_ready(&s->models));
        break;
    case ROUTE_MODEL: answer_model(e); break;
    case ROUTE_MODEL_READY: answer_model_ready(e); break;
    case ROUTE_INDEX: answer_index(e); break;
    case ROUTE_METRICS: answer_metrics(e); break;
    default: answer_error(e, 404, "there is nothing at this path"); break;
    }
}
