#include "feed.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_THREADS = 8,
    WORTH = 1 << 20, /* bytes of a batch, with which a thread is woken; so many for each further one */
    PIECE = 512 << 10 /* bytes that are gathered before they are copied: they are in a cache yet */
};

typedef struct worker {
    feed *of;
    pthread_t thread;
    size_t number;
    uint64_t done;    /* the number of the last batch that it has made its part of */
    void *memory;     /* PIECE bytes, or a row */
} worker;

struct feed {
    hyp_engine *engine;
    const char *tool;
    size_t input_count;
    hyp_tensor *sets[2]; /* the inputs of a run, those with columns on the device; in turns */
    worker workers[MOST_THREADS];
    size_t worker_count;

    pthread_mutex_t mutex; /* of what follows, and of workers' `done` */
    pthread_cond_t changed;
    uint64_t number; /* of the batch that is made, or was made last; of set number % 2 */
    bool ends;
    const dataset *data;
    const uint64_t *rows;
    size_t count;
    hyp_diag failure; /* of the batch, the first one */
};

/* ---- making batches ------------------------------------------------------------------------------------------- */

/* Rows first..end-1 of a batch, of one column. */
static hyp_status send(const feed *f, const worker *w, const dataset_column *c, hyp_tensor *set, size_t first, size_t end,
                       hyp_diag *diag)
{
    size_t row_bytes = c->elements * hyp_dtype_size(c->row.dtype), at_once = row_bytes ? PIECE / row_bytes : end;
    if (at_once == 0) at_once = 1;
    for (size_t at = first, count; at < end && row_bytes; at += count) {
        count = end - at < at_once ? end - at : at_once;
        hyp_tensor from = {.data = w->memory, .bytes = count * row_bytes}, to = set[c->input];
        to.data = (char *)to.data + at * row_bytes;
        to.bytes -= at * row_bytes;
        dataset_read(c, f->rows + at, count, w->memory);
        hyp_status status = hyp_engine_tensor_copy(f->engine, &from, &to, diag);
        if (status != HYP_OK) return status;
    }
    return HYP_OK;
}

static void make_part(feed *f, const worker *w, uint64_t number)
{
    hyp_diag diag = {0};
    hyp_status status = HYP_OK;
    size_t first = f->count * w->number / f->worker_count, end = f->count * (w->number + 1) / f->worker_count;
    for (size_t i = 0; i < f->data->count && status == HYP_OK; i++)
        status = send(f, w, &f->data->columns[i], f->sets[number % 2], first, end, &diag);
    if (status == HYP_OK) return;
    pthread_mutex_lock(&f->mutex);
    if (f->failure.status == HYP_OK) f->failure = diag;
    pthread_mutex_unlock(&f->mutex);
}

static void *work(void *user)
{
    worker *w = user;
    feed *f = w->of;
    pthread_mutex_lock(&f->mutex);
    for (;;) {
        while (!f->ends && w->done == f->number) pthread_cond_wait(&f->changed, &f->mutex);
        if (f->ends) break;
        uint64_t number = f->number; /* there is no other before this one is made */
        pthread_mutex_unlock(&f->mutex);
        make_part(f, w, number);
        pthread_mutex_lock(&f->mutex);
        w->done = number;
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->mutex);
    return NULL;
}

static bool is_made(const feed *f)
{
    bool made = true;
    for (size_t i = 0; i < f->worker_count; i++) made = made && f->workers[i].done == f->number;
    return made;
}

void feed_prepare(feed *f, const dataset *d, const uint64_t *rows, size_t count)
{
    pthread_mutex_lock(&f->mutex);
    while (!is_made(f)) pthread_cond_wait(&f->changed, &f->mutex);
    f->number++;
    f->data = d;
    f->rows = rows;
    f->count = count;
    f->failure = (hyp_diag){0};
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

int feed_take(feed *f, const dataset *d, const uint64_t *rows, size_t count, const hyp_tensor **out)
{
    if (f->data != d || f->rows != rows || f->count != count) feed_prepare(f, d, rows, count);
    pthread_mutex_lock(&f->mutex);
    while (!is_made(f)) pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
    if (f->failure.status != HYP_OK) return cli_report(f->tool, &f->failure);
    hyp_tensor *set = f->sets[f->number % 2];
    for (size_t i = 0; i < d->count; i++) set[d->columns[i].input].dims[0] = (int64_t)count;
    f->data = NULL; /* the same rows are another batch the next time */
    *out = set;
    return CLI_OK;
}

/* ---- threads and memory --------------------------------------------------------------------------------------- */

static size_t batch_bytes(const dataset *d, int64_t rows, size_t *out_row)
{
    size_t all = 0;
    *out_row = PIECE;
    for (size_t i = 0; i < d->count; i++) {
        size_t row = d->columns[i].elements * hyp_dtype_size(d->columns[i].row.dtype);
        if (row > *out_row) *out_row = row;
        all += row * (size_t)rows;
    }
    return all;
}

static size_t count_threads(size_t bytes)
{
    cpu_set_t allowed;
    bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    size_t most = bytes / WORTH, cores = known ? (size_t)CPU_COUNT(&allowed) : 1;
    if (most > cores / 4) most = cores / 4; /* runs, other ranks and other programs want some, too */
    if (most > MOST_THREADS) most = MOST_THREADS;
    return most ? most : 1;
}

static int make_sets(feed *f, const dataset *d, const hyp_tensor *inputs, int64_t rows)
{
    hyp_diag diag = {0};
    for (int k = 0; k < 2; k++) {
        f->sets[k] = cli_alloc(NULL, f->input_count, sizeof *f->sets[k]);
        memcpy(f->sets[k], inputs, f->input_count * sizeof *inputs);
        for (size_t i = 0; i < d->count; i++) f->sets[k][d->columns[i].input].data = NULL;
    }
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < d->count; i++) {
            const dataset_column *c = &d->columns[i];
            hyp_tensor *in = &f->sets[k][c->input];
            in->bytes = c->elements * hyp_dtype_size(c->row.dtype) * (size_t)rows;
            if (hyp_engine_tensor_alloc(f->engine, in, &diag) != HYP_OK) return cli_report(f->tool, &diag);
        }
    return CLI_OK;
}

/* A device whose memory is not the host's. */
static bool is_apart(hyp_engine *engine)
{
    hyp_diag diag = {0};
    hyp_tensor t = {.bytes = 1};
    if (hyp_engine_tensor_alloc(engine, &t, &diag) != HYP_OK) return false;
    bool apart = t.memory != HYP_MEMORY_HOST;
    hyp_engine_tensor_free(engine, &t);
    return apart;
}

static void start_workers(feed *f, size_t threads, size_t row)
{
    for (size_t i = 0; i < threads; i++) {
        worker *w = &f->workers[i];
        *w = (worker){.of = f, .number = i, .memory = cli_alloc(NULL, row, 1)};
        if (pthread_create(&w->thread, NULL, work, w) == 0)
            f->worker_count++;
        else {
            free(w->memory);
            break;
        }
    }
}

int feed_open(feed **out, hyp_engine *engine, const dataset *d, const hyp_tensor *inputs, size_t input_count, int64_t rows,
              const char *tool)
{
    size_t row, bytes = batch_bytes(d, rows, &row);
    *out = NULL;
    if (bytes < WORTH || !is_apart(engine)) return CLI_OK;
    feed *f = cli_alloc(NULL, 1, sizeof *f);
    *f = (feed){.engine = engine, .tool = tool, .input_count = input_count};
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed, NULL);
    int code = make_sets(f, d, inputs, rows);
    if (code == CLI_OK) start_workers(f, count_threads(bytes), row);
    if (code != CLI_OK || !f->worker_count)
        feed_close(f); /* without a thread the run copies its inputs itself */
    else
        *out = f;
    return code;
}

void feed_close(feed *f)
{
    if (!f) return;
    pthread_mutex_lock(&f->mutex);
    f->ends = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
    for (size_t i = 0; i < f->worker_count; i++) {
        pthread_join(f->workers[i].thread, NULL);
        free(f->workers[i].memory);
    }
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; f->sets[k] && i < f->input_count; i++)
            if (f->sets[k][i].memory != HYP_MEMORY_HOST) hyp_engine_tensor_free(f->engine, &f->sets[k][i]);
        free(f->sets[k]);
    }
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->mutex);
    free(f);
}
