#include "server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "http.h"
#include "interrupt.h"

bool server_stopping(server *s) { return atomic_load(&s->state) == SERVER_STOPPING; }

static void wake(void *user)
{
    const uint64_t one = 1;
    (void)!write(((server *)user)->wake_fd, &one, sizeof one);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

void server_ask(server *s, server_task *task)
{
    pthread_mutex_lock(&s->mutex);
    *s->last_task = task;
    s->last_task = &task->next;
    pthread_mutex_unlock(&s->mutex);
    wake(s);
}

static server_task *take_task(server *s)
{
    pthread_mutex_lock(&s->mutex);
    server_task *task = s->first_task;
    if (task) s->first_task = task->next;
    if (!s->first_task) s->last_task = &s->first_task;
    pthread_mutex_unlock(&s->mutex);
    return task;
}

static void do_tasks(server *s)
{
    for (server_task *task; (task = take_task(s));) {
        if (server_stopping(s))
            task->status = refuse(task->diag, HYP_ERR_CANCELLED, "the server is shutting down");
        else
            task->status = task->unload ? models_unload(&s->models, task->model, task->diag)
                                        : models_load(&s->models, task->model, task->diag);
        task->done(task);
    }
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

/* Blocks those that are read as a descriptor; threads that are made from now on inherit that. */
static int open_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    return pthread_sigmask(SIG_BLOCK, set, NULL) == 0 ? signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
}

/* The next signal that came; 0: none. */
static int next_signal(int fd)
{
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

/* Waits for a signal, a task, the end of a plan, or so many milliseconds. The signal, or 0. */
static int wait_for(server *s, int signals, int64_t ms)
{
    struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = s->wake_fd, .events = POLLIN}};
    (void)poll(fds, 2, ms < 0 ? -1 : ms > 3600000 ? 3600000 : (int)ms);
    uint64_t count;
    (void)!read(s->wake_fd, &count, sizeof count);
    return next_signal(signals);
}

/* ---- from the start to the end ----------------------------------------------------------------------------------- */

/* Serves until a signal ends it, which is returned. */
static int serve(server *s, int signals)
{
    int64_t watch_ms = s->options->watch_ms;
    uint64_t watched = clock_ns();
    for (;;) {
        int signal = wait_for(s, signals, watch_ms ? watch_ms : -1);
        if (signal == SIGTERM || signal == SIGINT) return signal;
        if (signal == SIGHUP) {
            hyp_diag diag = {0}; /* was logged */
            (void)!models_load(&s->models, NULL, &diag);
        }
        do_tasks(s);
        models_tend(&s->models);
        if (watch_ms && clock_ns() - watched >= (uint64_t)watch_ms * 1000000) {
            models_watch(&s->models);
            watched = clock_ns();
        }
    }
}

/* Goes on doing what there is to do for at most so long, until `count` is 0. False: a second signal has ended it. */
static bool linger(server *s, int signals, int64_t ms, size_t (*count)(server *s))
{
    uint64_t until = clock_ns() + (uint64_t)ms * 1000000;
    while (count(s) && clock_ns() < until) {
        int signal = wait_for(s, signals, 20);
        if (signal == SIGTERM || signal == SIGINT) return false;
        do_tasks(s);
        models_tend(&s->models);
    }
    return true;
}

static size_t always(server *s)
{
    (void)s;
    return 1;
}
static size_t count_whole(server *s) { return atomic_load(&s->whole); }
/* What is worth waiting for. A client that has gone in the middle of a body looks like one that is slow. */
static size_t count_exchanges(server *s)
{
    const uint64_t silence_ns = 1000000000;
    size_t whole = count_whole(s);
    return whole || clock_ns() - atomic_load(&s->heard_ns) > silence_ns ? whole : atomic_load(&s->exchanges);
}
static size_t count_plans(server *s) { return models_plans(&s->models); }

/* Ends: what is under way is finished, for as long as the grace lasts; then what waits is told that it will not be. */
static void stop(server *s, http *h, int signals)
{
    enum { ABORT_MS = 10000 };
    const serve_options *o = s->options;
    atomic_store(&s->state, SERVER_LEAVING);
    LOG(o->log, "stopping", LOG_NUMBER_FIELD("in_flight", atomic_load(&s->exchanges)));
    bool patient = linger(s, signals, o->delay_ms, always);
    atomic_store(&s->state, SERVER_STOPPING);
    http_stop_accepting(h);
    models_hurry(&s->models);
    patient = patient && linger(s, signals, o->grace_ms, count_exchanges);
    size_t left = count_exchanges(s);
    if (left || !patient) {
        models_abort(&s->models);
        linger(s, signals, ABORT_MS, count_whole);
    }
    if (left) LOG(o->log, "aborted", LOG_NUMBER_FIELD("unfinished", left));
}

static hyp_status start(server *s, http **out_http, hyp_diag *diag)
{
    const serve_options *o = s->options;
    hyp_status status = HYP_OK;
    if (o->token_file) status = tokens_read(o->token_file, &s->tokens, diag);
    if (status == HYP_OK) status = http_start(s, out_http, diag);
    if (status != HYP_OK) return status;
    LOG(o->log, "listening", LOG_TEXT_FIELD("url", http_url(*out_http)), LOG_TEXT_FIELD("version", hyp_version()));
    status = models_load(&s->models, NULL, diag);
    if (status != HYP_OK) return status;
    atomic_store(&s->state, SERVER_SERVING);
    LOG(o->log, "ready", LOG_NUMBER_FIELD("models", s->models.count));
    return HYP_OK;
}

/* What a thread still works on when its time is over, a run that does not end, say, ends with the process. */
static void leave_if(size_t unfinished, int code)
{
    if (unfinished) _exit(code);
}

static int run(server *s, int signals)
{
    http *h = NULL;
    hyp_diag diag = {0};
    int code, signal = 0;
    hyp_status status = start(s, &h, &diag);
    if (status == HYP_OK) {
        signal = serve(s, signals);
        code = signal == SIGINT ? CLI_INTERRUPTED : CLI_OK;
        stop(s, h, signals);
    } else {
        code = cli_report("hypatia serve", &diag);
        atomic_store(&s->state, SERVER_STOPPING);
        if (h) http_stop_accepting(h);
        linger(s, signals, s->options->grace_ms, count_exchanges);
    }
    leave_if(count_whole(s), code);
    http_stop(h);
    (void)!models_unload(&s->models, NULL, NULL);
    linger(s, signals, s->options->grace_ms, count_plans);
    leave_if(count_plans(s), code);
    LOG(s->options->log, "stopped", LOG_NUMBER_FIELD("code", code));
    return code;
}

int server_run(const serve_options *options)
{
    static server s;
    hyp_diag diag = {0};
    sigset_t set;
    if (http_check(&diag) != HYP_OK) return cli_report("hypatia serve", &diag);
    v2_start();
    s.options = options;
    s.budget.most = options->memory_most;
    s.started_ns = clock_ns();
    s.last_task = &s.first_task;
    s.models.log = options->log;
    s.models.wake = wake;
    s.models.wake_user = &s;
    s.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int signals = open_signals(&set);
    if (s.wake_fd < 0 || signals < 0 || pthread_mutex_init(&s.mutex, NULL) != 0) {
        cli_error("hypatia serve", "cannot wait for signals: %s", strerror(errno));
        return CLI_FAILED;
    }
    hyp_status status = models_init(&s.models, options->models, options->model_count, &diag);
    int code = status == HYP_OK ? run(&s, signals) : cli_report("hypatia serve", &diag);
    tokens_free(&s.tokens);
    close(signals);
    close(s.wake_fd);
    return code;
}
