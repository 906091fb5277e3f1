#include "served_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "instance.h"

struct served_plan {
    served_plan_options options;
    hyp_engine *engine;
    v2_signature signature;
    const hyp_io_info **infos; /* of inputs, then of outputs */
    job_queue queue;
    const char *batch_symbol; /* NULL: requests are not joined */
    char not_joined[512];
    instance *instances;
    int32_t created, started; /* of them: with a context, with a thread */
    _Atomic int32_t running;  /* threads that have not ended */
    _Atomic size_t references;
    _Atomic bool lost;
};

/* ---- what a plan takes ---------------------------------------------------------------------------------------- */

static hyp_status describe(served_plan *p, hyp_diag *diag)
{
    size_t inputs = hyp_engine_input_count(p->engine), outputs = hyp_engine_output_count(p->engine);
    if (hyp_engine_variable_count(p->engine))
        return refuse(
            diag, HYP_ERR_UNSUPPORTED,
            "the plan is a training step, whose runs change its variables: compile the model without --train");
    p->infos = calloc(inputs + outputs + 1, sizeof *p->infos);
    if (!p->infos) return refuse_memory(diag);
    for (size_t i = 0; i < inputs; i++) p->infos[i] = hyp_engine_input(p->engine, i);
    for (size_t i = 0; i < outputs; i++) p->infos[inputs + i] = hyp_engine_output(p->engine, i);
    p->signature = (v2_signature){p->infos, p->infos + inputs, inputs, outputs};
    return HYP_OK;
}

/* Whether axis 0, and no other, is `symbol`. */
static bool has_batch_axis(const hyp_io_info *info, const char *symbol)
{
    if (info->rank < 1 || !info->symbols[0] || strcmp(info->symbols[0], symbol) != 0) return false;
    for (int32_t a = 1; a < info->rank; a++)
        if (info->symbols[a] && strstr(info->symbols[a], symbol)) return false;
    return true;
}

/* Finds the symbol of axis 0 of all inputs and outputs. That rows are independent of each other nobody knows but who
 * asks for batches. */
static void find_batch_axis(served_plan *p)
{
    const v2_signature *s = &p->signature;
    const char *symbol = s->input_count && s->inputs[0]->rank ? s->inputs[0]->symbols[0] : NULL;
    if (p->options.batching.most_rows <= 1) return;
    if (!symbol) {
        snprintf(p->not_joined, sizeof p->not_joined, "axis 0 of the first input has a fixed size");
        return;
    }
    for (size_t i = 0; i < s->input_count + s->output_count; i++)
        if (!has_batch_axis(p->infos[i], symbol)) {
            snprintf(p->not_joined, sizeof p->not_joined, "'%s' is not the size of axis 0, and of no other, of %s '%s'",
                     show(symbol).text, i < s->input_count ? "input" : "output", show(p->infos[i]->name).text);
            return;
        }
    p->batch_symbol = symbol;
}

/* Rows of a request that others may join; 0: it runs by itself. */
static int64_t rows_of(const served_plan *p, const job *j)
{
    if (!p->batch_symbol) return 0;
    for (size_t i = 1; i < j->input_count; i++)
        if (j->inputs[i].dims[0] != j->inputs[0].dims[0]) return 0; /* which the run will say */
    return j->inputs[0].dims[0];
}

/* ---- loading ------------------------------------------------------------------------------------------------- */

/* The bytes of a plan that was read. */
typedef struct plan_bytes {
    void *data;
    size_t size;
} plan_bytes;

static void release_bytes(void *data) { free(data); }

static hyp_status read_plan(const char *path, plan_bytes *out, hyp_diag *diag)
{
    enum { PAGE = 4096 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        int error = fd < 0 ? errno : 0;
        if (fd >= 0) close(fd);
        return refuse(diag, HYP_ERR_IO, "%s: cannot be read: %s", show(path).text,
                      error ? strerror(error) : "wanted a file that is not empty");
    }
    size_t size = (size_t)st.st_size, got = 0;
    char *data = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    ssize_t n = 1;
    while (data && got < size && n > 0) {
        n = read(fd, data + got, size - got);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            got += (size_t)n;
    }
    close(fd);
    if (data && got == size) {
        *out = (plan_bytes){data, size};
        return HYP_OK;
    }
    free(data);
    return data ? refuse(diag, HYP_ERR_IO, "%s: %s", show(path).text,
                         n < 0 ? strerror(errno) : "is shorter than it was: is it being written?")
                : refuse(diag, HYP_ERR_NO_MEMORY, "%s: no memory for its %zu bytes", show(path).text, size);
}

static hyp_status load_engine(served_plan *p, const char *path, hyp_diag *diag)
{
    if (p->options.map) return hyp_engine_load_file(path, &p->options.engine, &p->engine, diag);
    plan_bytes bytes = {0};
    hyp_status status = read_plan(path, &bytes, diag);
    if (status != HYP_OK) return status;
    hyp_engine_options options = p->options.engine;
    options.release = release_bytes;
    options.release_user = bytes.data;
    status = hyp_engine_load_memory(bytes.data, bytes.size, &options, &p->engine, diag);
    if (status == HYP_OK) return status;
    free(bytes.data);
    char message[HYP_DIAG_SIZE / 2];
    snprintf(message, sizeof message, "%.*s", (int)sizeof message - 1, diag->message);
    return refuse(diag, status, "%s: %s", show(path).text, message);
}

/* Prepares one row, and as many as a batch has, where the other sizes are known. A plan may want others: no failure
 * tells against it. */
static void prepare(served_plan *p, hyp_context *context)
{
    const v2_signature *s = &p->signature;
    hyp_tensor *inputs = calloc(s->input_count + 1, sizeof *inputs);
    const char *symbol =
        s->input_count && s->inputs[0]->rank && s->inputs[0]->symbols[0] ? s->inputs[0]->symbols[0] : "";
    int64_t sizes[] = {1, p->batch_symbol ? p->options.batching.most_rows : 1};
    for (int k = 0; inputs && k < 2; k++) {
        if (k && sizes[k] == sizes[0]) break;
        hyp_tensor size = {.name = symbol, .rank = 1, .dims = {sizes[k]}};
        for (size_t i = 0; i < s->input_count; i++) {
            inputs[i] = (hyp_tensor){.dtype = s->inputs[i]->dtype, .rank = s->inputs[i]->rank};
            for (int32_t a = 0; a < inputs[i].rank; a++)
                inputs[i].dims[a] = s->inputs[i]->symbols[a] ? -1 : s->inputs[i]->dims[a];
        }
        const char *missing = NULL;
        if (hyp_engine_complete_dims(p->engine, inputs, s->input_count, &size, *symbol ? 1 : 0, &missing, NULL) !=
                HYP_OK ||
            missing)
            break;
        (void)!hyp_context_reserve(context, inputs, s->input_count, NULL);
    }
    free(inputs);
}

static hyp_status create_instance(served_plan *p, instance *in, hyp_diag *diag)
{
    int64_t rows = p->options.batching.most_rows;
    /* Batches of every size keep their shapes prepared, as far as that is no waste. */
    hyp_context_options options = {.size = sizeof options,
                                   .memory_limit = p->options.context_memory,
                                   .shapes = rows < 16    ? 16
                                             : rows < 128 ? (size_t)rows + 8
                                                          : 136};
    hyp_context *context;
    hyp_status status = hyp_context_create(p->engine, &options, &context, diag);
    if (status == HYP_OK) status = instance_init(in, context, &p->signature, diag);
    if (status == HYP_OK) {
        p->created++;
        prepare(p, context);
        instance_note_memory(in);
    }
    return status;
}

/* ---- threads ------------------------------------------------------------------------------------------------- */

static void note_run(const served_plan *p, const job *jobs)
{
    model_metrics *m = p->options.metrics;
    histogram_add_ns(&m->run, jobs->ended_ns - jobs->begun_ns);
    histogram_add_rows(&m->batch_rows, (uint64_t)(jobs->batch_rows > 0 ? jobs->batch_rows : 1));
}

static void finish(served_plan *p, job *jobs)
{
    for (job *next; jobs; jobs = next) {
        next = jobs->next; /* the job is gone with `done` */
        histogram_add_ns(&p->options.metrics->queued, jobs->begun_ns - jobs->queued_ns);
        if (jobs->status == HYP_ERR_DEVICE_LOST && !atomic_exchange(&p->lost, true) && p->options.lost)
            p->options.lost(p, p->options.user);
        jobs->done(jobs);
    }
}

/* Takes the jobs away that have waited for too long. */
static job *drop_late(served_plan *p, job **jobs)
{
    job *late = NULL;
    if (!p->options.queue_ns) return NULL;
    for (job **at = jobs; *at;) {
        job *j = *at;
        if (j->begun_ns - j->queued_ns <= p->options.queue_ns) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        j->next = late;
        late = j;
        j->ended_ns = j->begun_ns;
        j->status = refuse(j->diag, HYP_ERR_CANCELLED,
                           "the request has waited for %.0f ms, longer than requests may here: try again later",
                           (double)(j->begun_ns - j->queued_ns) * 1e-6);
    }
    return late;
}

static void *work(void *opaque)
{
    instance *in = opaque;
    served_plan *p = in->owner;
    for (job *jobs; (jobs = job_queue_take(&p->queue, &p->options.batching));) {
        job *late = drop_late(p, &jobs);
        finish(p, late);
        if (!jobs) continue;
        instance_run(in, jobs);
        note_run(p, jobs);
        finish(p, jobs);
    }
    if (atomic_fetch_sub(&p->running, 1) == 1) p->options.ended(p, p->options.user);
    return NULL;
}

static hyp_status start_threads(served_plan *p, hyp_diag *diag)
{
    atomic_store(&p->running, p->options.instances);
    for (; p->started < p->options.instances; p->started++) {
        instance *in = &p->instances[p->started];
        in->owner = p;
        if (pthread_create(&in->thread, NULL, work, in) != 0)
            return refuse(diag, HYP_ERR_NO_MEMORY, "no thread can be had for an instance");
    }
    return HYP_OK;
}

void served_plan_destroy(served_plan *p)
{
    for (int32_t i = 0; i < p->started; i++) pthread_join(p->instances[i].thread, NULL);
    for (int32_t i = 0; i < p->created; i++) instance_dispose(&p->instances[i]);
    job_queue_dispose(&p->queue);
    hyp_engine_destroy(p->engine);
    free(p->instances);
    free(p->infos);
    free(p);
}

static void ignore(served_plan *p, void *user) { (void)p, (void)user; }

hyp_status served_plan_open(const char *path, const served_plan_options *o, served_plan **out, hyp_diag *diag)
{
    served_plan *p = calloc(1, sizeof *p);
    if (!p) return refuse_memory(diag);
    p->options = *o;
    atomic_store(&p->references, 1);
    hyp_status status = job_queue_init(&p->queue, o->queue, diag);
    if (status != HYP_OK) {
        free(p);
        return status;
    }
    status = load_engine(p, path, diag);
    p->options.engine.require_signature = NULL; /* was borrowed */
    if (status == HYP_OK) status = describe(p, diag);
    if (status == HYP_OK) {
        find_batch_axis(p);
        p->instances = calloc((size_t)o->instances, sizeof *p->instances);
        if (!p->instances) status = refuse_memory(diag);
    }
    for (int32_t i = 0; i < o->instances && status == HYP_OK; i++) status = create_instance(p, &p->instances[i], diag);
    if (status == HYP_OK) status = start_threads(p, diag);
    if (status == HYP_OK) {
        *out = p;
        return HYP_OK;
    }
    p->options.ended = ignore; /* those threads that did start end, and are joined here */
    job_queue_close(&p->queue);
    served_plan_destroy(p);
    return status;
}

/* ---- using ---------------------------------------------------------------------------------------------------- */

void served_plan_acquire(served_plan *p) { atomic_fetch_add(&p->references, 1); }

void served_plan_release(served_plan *p)
{
    if (p && atomic_fetch_sub(&p->references, 1) == 1) job_queue_close(&p->queue);
}

bool served_plan_submit(served_plan *p, job *j)
{
    j->input_count = p->signature.input_count;
    j->rows = rows_of(p, j);
    return job_queue_push(&p->queue, j);
}

void served_plan_hurry(served_plan *p) { job_queue_hurry(&p->queue); }

void served_plan_abort(served_plan *p)
{
    job *jobs = job_queue_take_all(&p->queue);
    for (job *j = jobs; j; j = j->next) {
        j->begun_ns = j->ended_ns = j->queued_ns;
        j->status = refuse(j->diag, HYP_ERR_CANCELLED, "the server is shutting down");
    }
    finish(p, jobs);
    for (int32_t i = 0; i < p->started; i++) hyp_context_cancel(p->instances[i].context);
}

const v2_signature *served_plan_signature(const served_plan *p) { return &p->signature; }
const char *served_plan_device(const served_plan *p) { return hyp_engine_device_name(p->engine); }
const char *served_plan_not_joined(const served_plan *p) { return p->not_joined[0] ? p->not_joined : NULL; }

void served_plan_usage(served_plan *p, size_t *out_engine, size_t *out_contexts, size_t *out_waiting)
{
    *out_engine = hyp_engine_memory_bytes(p->engine);
    *out_contexts = 0;
    for (int32_t i = 0; i < p->created; i++) *out_contexts += atomic_load(&p->instances[i].bytes);
    *out_waiting = job_queue_length(&p->queue);
}
