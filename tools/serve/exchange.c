#include "exchange.h"

#include <string.h>
#include <strings.h>

#include "clock.h"

/* ---- answers -------------------------------------------------------------------------------------------------- */

void answer_text(exchange *e, int code, const char *type, const text *t)
{
    static const char none[] = "{\"error\":\"the server has no memory for an answer now: try again later\"}";
    e->answer = (answer){.code = t->failed ? 503 : code,
                         .type = t->failed ? "application/json" : type,
                         .parts = &e->answer.first,
                         .count = 1};
    e->answer.first = t->failed ? (answer_part){none, sizeof none - 1} : (answer_part){t->data, t->len};
    e->answer.len = e->answer.first.len;
    e->answer.retry = e->answer.code == 503 || e->answer.code == 429;
}

void answer_error(exchange *e, int code, const char *message)
{
    text t = {.store = &e->store};
    if (message != e->diag.message) refuse(&e->diag, HYP_ERR_INVALID_ARGUMENT, "%s", message); /* for the log */
    v2_error_write(&t, message);
    answer_text(e, code, "application/json", &t);
}

void answer_status(exchange *e, hyp_status status)
{
    int code = 500;
    switch (status) {
    case HYP_ERR_INVALID_ARGUMENT:
    case HYP_ERR_MALFORMED:
    case HYP_ERR_UNSUPPORTED: code = 400; break;
    case HYP_ERR_LIMIT: code = 413; break;
    case HYP_ERR_NO_MEMORY:
    case HYP_ERR_CANCELLED:
    case HYP_ERR_DEVICE_LOST: code = 503; break;
    default: break;
    }
    answer_error(e, code, e->diag.message[0] ? e->diag.message : hyp_status_name(status));
}

/* ---- before the body --------------------------------------------------------------------------------------------- */

static bool method_fits(exchange *e, const char *method)
{
    bool post = route_is_post(e->route.kind);
    if (post ? strcmp(method, "POST") == 0 : strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) return true;
    refuse(&e->diag, HYP_ERR_INVALID_ARGUMENT, "the method is %s; wanted %s", show(method).text, post ? "POST" : "GET");
    answer_error(e, 405, e->diag.message);
    e->answer.allow = post ? "POST" : "GET, HEAD";
    return false;
}

static bool headers_fit(exchange *e, const exchange_headers *headers)
{
    uint64_t length = 0;
    for (const char *c = headers->length; c && *c >= '0' && *c <= '9' && length < UINT64_MAX / 16; c++)
        length = length * 10 + (uint64_t)(*c - '0');
    if (headers->encoding && strcasecmp(headers->encoding, "identity") != 0) {
        refuse(&e->diag, HYP_ERR_UNSUPPORTED, "the body's Content-Encoding is '%s'; wanted a body that is not encoded",
               show(headers->encoding).text);
        answer_error(e, 415, e->diag.message);
        return false;
    }
    if (length > e->server->options->body_most) {
        refuse(&e->diag, HYP_ERR_LIMIT, "the body has %llu bytes; wanted at most %zu (--max-body)",
               (unsigned long long)length, e->server->options->body_most);
        answer_error(e, 413, e->diag.message);
        return false;
    }
    if (headers->length) e->body_most = (size_t)length;
    if (!headers->inference_length) return true;
    if (v2_read_header_bytes(headers->inference_length, e->server->options->body_most, &e->header_bytes)) return true;
    refuse(&e->diag, HYP_ERR_MALFORMED,
           "Inference-Header-Content-Length is '%s'; wanted the number of bytes of the JSON in the body",
           show(headers->inference_length).text);
    answer_error(e, 400, e->diag.message);
    return false;
}

void exchange_begin(exchange *e, server *s, const char *method, const char *path, const exchange_headers *headers)
{
    *e = (exchange){.server = s,
                    .store = {.budget = &s->budget},
                    .body_most = s->options->body_most,
                    .header_bytes = V2_NO_HEADER_BYTES,
                    .begun_ns = clock_ns()};
    atomic_fetch_add(&s->exchanges, 1);
    e->route = route_find(path);
    bool open = e->route.kind == ROUTE_LIVE || e->route.kind == ROUTE_READY; /* for those who watch over the server */
    if (headers->framed_twice) { /* a proxy may have read another end, and take what follows for another client's */
        answer_error(e, 400, "several headers say where the body ends; wanted one Content-Length, or one Transfer-Encoding");
        e->answer.close = true;
    } else if (!open && !tokens_allow(&s->tokens, headers->authorization)) {
        answer_error(e, 401,
                     headers->authorization ? "the Authorization is not one that is known; wanted 'Bearer TOKEN'"
                                            : "there is no Authorization; wanted 'Bearer TOKEN'");
    } else if (e->route.kind == ROUTE_NONE) {
        refuse(&e->diag, HYP_ERR_INVALID_ARGUMENT, "there is nothing at '%s'", show(path).text);
        answer_error(e, 404, e->diag.message);
    } else if (method_fits(e, method) && headers_fit(e, headers) && server_stopping(s) &&
               route_is_post(e->route.kind)) {
        answer_error(e, 503, "the server is shutting down");
    }
}

/* Room for `len` more bytes, and half of them in vain at most. */
static bool grow_body(exchange *e, size_t len)
{
    if (e->body && len < e->body_room - e->body_len) return true;
    size_t room = 2 * e->body_room;
    if (room > e->body_most + 1) room = e->body_most + 1;
    if (room < e->body_len + len + 1) room = e->body_len + len + 1;
    char *body = store_resize(&e->store, e->body, room);
    if (!body) return false;
    e->body = body;
    e->body_room = room;
    return true;
}

/* Nothing more is read of the body, and what was read is let go of. */
static bool drop_body(exchange *e, hyp_status status)
{
    store_free(&e->store, e->body);
    e->body = NULL;
    e->body_room = 0;
    answer_status(e, status);
    return false;
}

bool exchange_add_body(exchange *e, const char *data, size_t len)
{
    size_t most = e->server->options->body_most;
    if (len > most - e->body_len)
        return drop_body(e, refuse(&e->diag, HYP_ERR_LIMIT,
                                   "the body has more than %zu bytes, which is the limit (--max-body)", most));
    if (!grow_body(e, len)) return drop_body(e, refuse_memory(&e->diag));
    atomic_store(&e->server->heard_ns, clock_ns());
    memcpy(e->body + e->body_len, data, len);
    e->body_len += len;
    e->body[e->body_len] = 0;
    return true;
}

/* ---- the work ---------------------------------------------------------------------------------------------------- */

bool exchange_prepare(exchange *e)
{
    e->whole = true;
    atomic_fetch_add(&e->server->whole, 1);
    if (e->answer.code) return false;
    switch (e->route.kind) {
    case ROUTE_INFER: return infer_prepare(e);
    case ROUTE_LOAD:
    case ROUTE_UNLOAD: return repository_prepare(e);
    default: page_answer(e); return false;
    }
}

void exchange_submit(exchange *e)
{
    e->waits = true;
    if (e->route.kind == ROUTE_INFER)
        infer_submit(e);
    else
        repository_submit(e);
}

void exchange_finish(exchange *e)
{
    e->waits = false;
    if (e->answer.code) return;
    if (e->route.kind == ROUTE_INFER)
        infer_finish(e);
    else
        repository_finish(e);
}

static void log_request(const exchange *e, double seconds)
{
    const job *j = &e->job;
    bool ran = j->batch_rows > 0 || (j->status == HYP_OK && j->ended_ns);
    LOG(e->server->options->log, "request", LOG_TEXT_FIELD("route", route_name(e->route.kind)),
        LOG_TEXT_FIELD("model", e->route.model), LOG_NUMBER_FIELD("status", e->answer.code),
        LOG_NUMBER_FIELD("seconds", seconds), LOG_NUMBER_FIELD("bytes_in", e->body_len),
        LOG_NUMBER_FIELD("bytes_out", e->answer.len),
        LOG_NUMBER_FIELD("queued", ran ? (double)(j->begun_ns - j->queued_ns) * 1e-9 : 0),
        LOG_NUMBER_FIELD("run", ran ? (double)(j->ended_ns - j->begun_ns) * 1e-9 : 0),
        LOG_NUMBER_FIELD("rows", j->batch_rows), LOG_TEXT_FIELD("error", e->answer.code >= 400 ? e->diag.message : ""));
}

void exchange_count(exchange *e)
{
    code_counts_add(&e->server->codes[e->route.kind], e->answer.code);
    if (e->route.kind == ROUTE_INFER && e->model) code_counts_add(&e->model->metrics.codes, e->answer.code);
}

void exchange_end(exchange *e)
{
    uint64_t ns = clock_ns() - e->begun_ns;
    if (e->answer.code == 200 && e->route.kind == ROUTE_INFER) histogram_add_ns(&e->model->metrics.duration, ns);
    if (e->answer.code && e->server->options->log_requests) log_request(e, (double)ns * 1e-9);
    served_plan_release(e->plan);
    store_clear(&e->store);
    if (e->whole) atomic_fetch_sub(&e->server->whole, 1);
    atomic_fetch_sub(&e->server->exchanges, 1);
}
