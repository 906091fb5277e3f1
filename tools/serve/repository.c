/* Loading and unloading models by clients: /v2/repository/models/NAME/load and /unload. The thread that loads does it.
 */
#include <jansson.h>
#include <string.h>

#include "exchange.h"

static void on_done(server_task *task)
{
    exchange *e = (exchange *)(void *)((char *)task - offsetof(exchange, task));
    e->resume(e);
}

/* No body, or an object; parameters, by which Triton takes another configuration or files, are none that Hypatia has.
 */
static hyp_status check_body(exchange *e)
{
    enum { LONGEST = 4096 };
    if (!e->body_len) return HYP_OK;
    if (e->body_len > LONGEST)
        return refuse(&e->diag, HYP_ERR_LIMIT, "the body has %zu bytes; wanted none, or an object of JSON",
                      e->body_len);
    json_t *root = json_loadb(e->body, e->body_len, 0, NULL);
    hyp_status status = HYP_OK;
    if (!json_is_object(root))
        status = refuse(&e->diag, HYP_ERR_MALFORMED, "the body is no object of JSON; wanted none, or {}");
    else if (e->route.kind == ROUTE_LOAD && json_object_size(json_object_get(root, "parameters")))
        status = refuse(
            &e->diag, HYP_ERR_UNSUPPORTED,
            "\"parameters\" are not supported: a model is loaded from the file that the server was started with");
    json_decref(root);
    return status;
}

bool repository_prepare(exchange *e)
{
    if (!e->server->options->control) {
        refuse(&e->diag, HYP_ERR_UNSUPPORTED, "this server does not let clients load and unload models (--control)");
        answer_error(e, 403, e->diag.message);
        return false;
    }
    hyp_status status = check_body(e);
    if (status == HYP_OK) return true;
    answer_status(e, status);
    return false;
}

void repository_submit(exchange *e)
{
    e->task = (server_task){
        .unload = e->route.kind == ROUTE_UNLOAD, .model = e->route.model, .diag = &e->diag, .done = on_done};
    server_ask(e->server, &e->task);
}

void repository_finish(exchange *e)
{
    text t = {.store = &e->store};
    if (e->task.status == HYP_OK) {
        text_put(&t, "{}");
        answer_text(e, 200, "application/json", &t);
    } else if (e->task.status == HYP_ERR_CANCELLED) {
        answer_status(e, e->task.status);
    } else {
        /* A plan that does not load is the request's fault as far as clients see: what was asked for cannot be had. */
        bool known = false;
        for (size_t i = 0; i < e->server->models.count && !known; i++)
            known = strcmp(e->server->models.items[i].name, e->route.model) == 0;
        answer_error(e, known ? 400 : 404, e->diag.message);
    }
}
