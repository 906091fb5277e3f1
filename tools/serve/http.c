#include "http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "exchange.h"
#include "listen.h"
#include "microhttpd.h"

struct http {
    microhttpd mhd;
    server *server;
    struct MHD_Daemon *daemon;
    char *certificate, *key;
    char url[512];
};

/* A request of a connection. */
typedef struct request {
    exchange exchange;
    const microhttpd *mhd;
    struct MHD_Connection *connection;
    size_t dropped; /* bytes of a body that nobody wants any more */
} request;

hyp_status http_check(hyp_diag *diag)
{
    microhttpd mhd;
    return microhttpd_open(&mhd, diag);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static struct MHD_Response *make_response(const microhttpd *mhd, const answer *a)
{
    if (a->count == 1) return mhd->create_response_from_buffer(a->len, (void *)a->first.data, MHD_RESPMEM_PERSISTENT);
    struct MHD_IoVec *parts = malloc(a->count * sizeof *parts);
    if (!parts) return NULL;
    for (size_t i = 0; i < a->count; i++) parts[i] = (struct MHD_IoVec){a->parts[i].data, a->parts[i].len};
    struct MHD_Response *response = mhd->create_response_from_iovec(parts, (unsigned int)a->count, NULL, NULL);
    free(parts); /* was copied */
    return response;
}

/* Queues what the exchange has answered; its memory stays until the request is completed. */
static enum MHD_Result send_answer(request *r)
{
    const microhttpd *mhd = r->mhd;
    const answer *a = &r->exchange.answer;
    struct MHD_Response *response = make_response(mhd, a);
    if (!response) return MHD_NO; /* the connection closes */
    char bytes[32];
    (void)mhd->add_response_header(response, "Content-Type", a->type);
    if (a->header_bytes) {
        snprintf(bytes, sizeof bytes, "%zu", a->header_bytes);
        (void)mhd->add_response_header(response, "Inference-Header-Content-Length", bytes);
    }
    if (a->allow) (void)mhd->add_response_header(response, "Allow", a->allow);
    if (a->code == 401) (void)mhd->add_response_header(response, "WWW-Authenticate", "Bearer");
    if (a->retry) (void)mhd->add_response_header(response, "Retry-After", "1");
    if (a->close || server_stopping(r->exchange.server)) (void)mhd->add_response_header(response, "Connection", "close");
    exchange_count(&r->exchange);
    enum MHD_Result result = mhd->queue_response(r->connection, (unsigned int)a->code, response);
    mhd->destroy_response(response);
    return result;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* By the thread that has answered: the handler is called once more. */
static void resume(exchange *e)
{
    request *r = (request *)(void *)((char *)e - offsetof(request, exchange));
    r->mhd->resume_connection(r->connection);
}

/* Counts headers that say where a body ends. */
static enum MHD_Result count_frames(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind, (void)value;
    *(int *)user += strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Transfer-Encoding") == 0;
    return MHD_YES;
}

static request *begin(http *h, struct MHD_Connection *connection, const char *url, const char *method)
{
    request *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    int frames = 0;
    (void)h->mhd.get_connection_values(connection, MHD_HEADER_KIND, count_frames, &frames);
    exchange_headers headers = {
        .authorization = h->mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"),
        .length = h->mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length"),
        .inference_length =
            h->mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Inference-Header-Content-Length"),
        .encoding = h->mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Encoding"),
        .framed_twice = frames > 1,
    };
    exchange_begin(&r->exchange, h->server, method, url, &headers);
    r->exchange.resume = resume;
    r->mhd = &h->mhd;
    r->connection = connection;
    return r;
}

/* Whether a body that nobody wants is so long that the answer does not wait for its end. A client that has sent all it
 * wants to gets to read what was wrong; one that goes on has its connection closed under its hands. */
static bool too_much_to_drop(size_t bytes)
{
    enum { DROPPED_MOST = 64 << 20 };
    return bytes > DROPPED_MOST;
}

static bool answers_at_once(const request *r)
{
    const char *length = r->mhd->lookup_connection_value(r->connection, MHD_HEADER_KIND, "Content-Length");
    const char *expect = r->mhd->lookup_connection_value(r->connection, MHD_HEADER_KIND, "Expect");
    return r->exchange.answer.code && (expect || (length && too_much_to_drop(strtoull(length, NULL, 10))));
}

static enum MHD_Result take_body(request *r, const char *data, size_t *len)
{
    size_t bytes = *len;
    *len = 0;
    if (!r->exchange.answer.code && exchange_add_body(&r->exchange, data, bytes)) return MHD_YES;
    r->dropped += bytes;
    return too_much_to_drop(r->dropped) ? MHD_NO : MHD_YES;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_len, void **state)
{
    (void)version;
    request *r = *state;
    if (!r) {
        *state = r = begin(user, connection, url, method);
        if (!r) return MHD_NO;
        return answers_at_once(r) ? send_answer(r) : MHD_YES;
    }
    if (*upload_len) return take_body(r, upload, upload_len);
    exchange *e = &r->exchange;
    if (e->waits) {
        exchange_finish(e);
    } else if (exchange_prepare(e)) {
        r->mhd->suspend_connection(connection); /* before another thread can resume it */
        exchange_submit(e);
        return MHD_YES;
    }
    return send_answer(r);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)user, (void)connection, (void)code;
    request *r = *state;
    if (!r) return;
    exchange_end(&r->exchange);
    free(r);
    *state = NULL;
}

static void on_connection(void *user, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)connection, (void)state;
    server *s = ((http *)user)->server;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        atomic_fetch_add(&s->connections, 1);
    else
        atomic_fetch_sub(&s->connections, 1);
}

/* The library's own words, about connections that break and requests that are none, are for nobody. */
static void ignore_log(void *user, const char *fmt, va_list list) { (void)user, (void)fmt, (void)list; }

/* Paths are taken as they come: none that is there needs an escape, and "%00" would end one early. */
static size_t keep_escapes(void *user, struct MHD_Connection *connection, char *path)
{
    (void)user, (void)connection;
    return strlen(path);
}

/* ---- the daemon -------------------------------------------------------------------------------------------------- */

/* A file of PEM, as text. */
static hyp_status read_pem(const char *path, char **out, hyp_diag *diag)
{
    enum { LONGEST = 1 << 20 };
    FILE *file = fopen(path, "re");
    if (!file) return refuse(diag, HYP_ERR_IO, "%s: cannot be read: %s", show(path).text, strerror(errno));
    char *pem = malloc(LONGEST + 1);
    size_t len = pem ? fread(pem, 1, LONGEST, file) : 0;
    fclose(file);
    if (!pem) return refuse_memory(diag);
    pem[len] = 0;
    *out = pem;
    if (strstr(pem, "-----BEGIN ")) return HYP_OK;
    return refuse(diag, HYP_ERR_MALFORMED, "%s: is no PEM; wanted '-----BEGIN ...'", show(path).text);
}

/* A descriptor for every connection, as far as the system gives them. */
static void raise_descriptors(uint32_t connections)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)connections + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > wanted ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static hyp_status start_daemon(http *h, int fd, hyp_diag *diag)
{
    const serve_options *o = h->server->options;
    unsigned int flags =
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (h->key ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, h->certificate},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, h->key},
                                   {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    if (h->key && h->mhd.is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return refuse(diag, HYP_ERR_UNSUPPORTED, "this libmicrohttpd has no TLS");
    raise_descriptors(o->connections);
    h->daemon = h->mhd.start_daemon(
        flags, 0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, ignore_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_CONNECTION_MEMORY_LIMIT, o->header_most,
        MHD_OPTION_CONNECTION_LIMIT, o->connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT, o->connections_per_address,
        MHD_OPTION_CONNECTION_TIMEOUT, o->timeout_s, MHD_OPTION_THREAD_POOL_SIZE, o->threads, MHD_OPTION_ARRAY,
        h->key ? tls : none, MHD_OPTION_END);
    if (h->daemon) return HYP_OK;
    return h->key ? refuse(diag, HYP_ERR_MALFORMED,
                           "TLS cannot be had: '%s' and '%s' are no certificate and the private key that belongs to it",
                           show(o->certificate).text, show(o->key).text)
                  : refuse(diag, HYP_ERR_NO_MEMORY, "the threads that serve cannot be had");
}

hyp_status http_start(server *s, http **out, hyp_diag *diag)
{
    const serve_options *o = s->options;
    char address[256];
    int fd = -1;
    http *h = calloc(1, sizeof *h);
    if (!h) return refuse_memory(diag);
    h->server = s;
    hyp_status status = microhttpd_open(&h->mhd, diag);
    if (status == HYP_OK && o->certificate) status = read_pem(o->certificate, &h->certificate, diag);
    if (status == HYP_OK && o->key) status = read_pem(o->key, &h->key, diag);
    if (status == HYP_OK) status = listen_at(o->listen, &fd, address, sizeof address, diag);
    if (status == HYP_OK) {
        snprintf(h->url, sizeof h->url, "http%s://%s", h->key ? "s" : "", address);
        status = start_daemon(h, fd, diag);
        if (status != HYP_OK) close(fd);
    }
    if (status == HYP_OK)
        *out = h;
    else
        http_stop(h);
    return status;
}

const char *http_url(const http *h) { return h->url; }

void http_stop_accepting(http *h)
{
    int fd = h->mhd.quiesce_daemon(h->daemon);
    if (fd >= 0) close(fd);
}

void http_stop(http *h)
{
    if (!h) return;
    if (h->daemon) h->mhd.stop_daemon(h->daemon);
    if (h->key) explicit_bzero(h->key, strlen(h->key));
    free(h->certificate);
    free(h->key);
    free(h);
}
