#include "models.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

/* What a plan tells its model by. */
typedef struct plan_record {
    model *model;
    served_plan *plan;
    struct plan_record *next; /* of those that have ended */
} plan_record;

static int by_name(const void *a, const void *b)
{
    const model *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->version > y->version) - (x->version < y->version);
}

hyp_status models_init(models *m, model *items, size_t count, hyp_diag *diag)
{
    if (pthread_mutex_init(&m->mutex, NULL) != 0) return refuse_memory(diag);
    m->items = items;
    m->count = count;
    qsort(items, count, sizeof *items, by_name);
    for (size_t i = 0; i < count; i++) {
        items[i].models = m;
        if (i && by_name(&items[i - 1], &items[i]) == 0)
            return refuse(diag, HYP_ERR_INVALID_ARGUMENT,
                          "version %" PRId64 " of the model '%s' was given twice: '%s' and '%s'; NAME=PLAN.bin gives "
                          "it another name, NAME:VERSION=PLAN.bin another version",
                          items[i].version, items[i].name, show(items[i - 1].path).text, show(items[i].path).text);
    }
    return HYP_OK;
}

/* ---- by any thread ---------------------------------------------------------------------------------------------- */

hyp_status models_find(models *m, const char *name, int64_t version, model **out_model, served_plan **out_plan,
                       hyp_diag *diag)
{
    model *found = NULL;
    bool named = false;
    pthread_mutex_lock(&m->mutex);
    for (size_t i = 0; i < m->count; i++) {
        model *item = &m->items[i];
        if (strcmp(item->name, name) != 0) continue;
        named = true;
        if (version ? item->version == version : !found || item->plan || !found->plan) found = item;
    }
    served_plan *plan = found ? found->plan : NULL;
    hyp_status status = HYP_OK;
    if (plan)
        served_plan_acquire(plan);
    else if (!named)
        status = refuse(diag, HYP_ERR_INVALID_ARGUMENT, "there is no model '%s'", show(name).text);
    else if (!found)
        status =
            refuse(diag, HYP_ERR_INVALID_ARGUMENT, "the model '%s' has no version %" PRId64, show(name).text, version);
    else
        status = refuse(diag, HYP_ERR_DEVICE, "the model '%s' is not ready: %s", found->name,
                        found->state == MODEL_LOADING    ? "it is being loaded"
                        : found->state == MODEL_UNLOADED ? "it was unloaded"
                                                         : found->reason);
    pthread_mutex_unlock(&m->mutex);
    *out_model = found;
    *out_plan = plan;
    return status;
}

bool models_ready(models *m)
{
    bool ready = true;
    pthread_mutex_lock(&m->mutex);
    for (size_t i = 0; i < m->count; i++)
        ready = ready && (m->items[i].state == MODEL_UNLOADED || (m->items[i].plan && !m->items[i].lost));
    pthread_mutex_unlock(&m->mutex);
    return ready;
}

model_status models_status(models *m, const model *item)
{
    model_status status;
    pthread_mutex_lock(&m->mutex);
    status.state = item->state;
    memcpy(status.reason, item->reason, sizeof status.reason);
    pthread_mutex_unlock(&m->mutex);
    return status;
}

size_t models_plans(models *m)
{
    size_t count = 0;
    pthread_mutex_lock(&m->mutex);
    for (size_t i = 0; i < m->count; i++) count += m->items[i].plans;
    pthread_mutex_unlock(&m->mutex);
    return count;
}

/* ---- plans that come and go -------------------------------------------------------------------------------------- */

static void on_ended(served_plan *p, void *user)
{
    plan_record *record = user;
    models *m = record->model->models;
    record->plan = p;
    pthread_mutex_lock(&m->mutex);
    record->next = m->ended;
    m->ended = record;
    pthread_mutex_unlock(&m->mutex);
    m->wake(m->wake_user);
}

static void on_lost(served_plan *p, void *user)
{
    model *item = ((plan_record *)user)->model;
    models *m = item->models;
    pthread_mutex_lock(&m->mutex);
    if (item->plan == p) item->lost = true;
    pthread_mutex_unlock(&m->mutex);
    m->wake(m->wake_user);
}

/* Puts a plan, or none, in the place of what there is. */
static void replace(models *m, model *item, served_plan *plan, model_state state, const char *reason)
{
    pthread_mutex_lock(&m->mutex);
    served_plan *before = item->plan;
    item->plan = plan;
    item->state = state;
    if (plan) {
        item->lost = false;
        item->plans++;
    }
    snprintf(item->reason, sizeof item->reason, "%s", reason);
    pthread_mutex_unlock(&m->mutex);
    if (before) served_plan_hurry(before);
    served_plan_release(before);
}

static hyp_status load(models *m, model *item, hyp_diag *diag)
{
    served_plan_options options = item->options;
    options.metrics = &item->metrics;
    options.ended = on_ended;
    options.lost = on_lost;
    plan_record *record = calloc(1, sizeof *record);
    if (!record) return refuse_memory(diag);
    record->model = item;
    options.user = record;
    if (stat(item->path, &item->tried) != 0) item->tried = (struct stat){0};
    served_plan *plan;
    uint64_t begun = clock_ns();
    hyp_status status = served_plan_open(item->path, &options, &plan, diag);
    if (status == HYP_OK) {
        atomic_fetch_add(&item->metrics.loads, 1);
        size_t engine, contexts, waiting;
        served_plan_usage(plan, &engine, &contexts, &waiting);
        LOG(m->log, "loaded", LOG_TEXT_FIELD("model", item->name), LOG_NUMBER_FIELD("version", item->version),
            LOG_TEXT_FIELD("plan", item->path), LOG_TEXT_FIELD("device", served_plan_device(plan)),
            LOG_NUMBER_FIELD("seconds", (double)(clock_ns() - begun) * 1e-9),
            LOG_NUMBER_FIELD("bytes", engine + contexts));
        if (served_plan_not_joined(plan))
            LOG(m->log, "not_joined", LOG_TEXT_FIELD("model", item->name), LOG_NUMBER_FIELD("version", item->version),
                LOG_TEXT_FIELD("reason", served_plan_not_joined(plan)));
        replace(m, item, plan, MODEL_READY, "");
        return HYP_OK;
    }
    free(record);
    atomic_fetch_add(&item->metrics.load_failures, 1);
    LOG(m->log, "load_failed", LOG_TEXT_FIELD("model", item->name), LOG_NUMBER_FIELD("version", item->version),
        LOG_TEXT_FIELD("plan", item->path), LOG_TEXT_FIELD("error", diag->message));
    pthread_mutex_lock(&m->mutex);
    if (!item->plan) item->state = MODEL_FAILED;
    snprintf(item->reason, sizeof item->reason, "%.*s", (int)sizeof item->reason - 1, diag->message);
    pthread_mutex_unlock(&m->mutex);
    return status;
}

hyp_status models_load(models *m, const char *name, hyp_diag *diag)
{
    hyp_status first = HYP_OK;
    bool found = !name;
    for (size_t i = 0; i < m->count; i++) {
        model *item = &m->items[i];
        if (name ? strcmp(item->name, name) != 0 : models_status(m, item).state == MODEL_UNLOADED) continue;
        found = true;
        hyp_diag local = {0};
        hyp_status status = load(m, item, &local);
        if (first != HYP_OK || status == HYP_OK) continue;
        first = status;
        if (diag) *diag = local;
    }
    return found ? first : refuse(diag, HYP_ERR_INVALID_ARGUMENT, "there is no model '%s'", show(name).text);
}

hyp_status models_unload(models *m, const char *name, hyp_diag *diag)
{
    bool found = !name;
    for (size_t i = 0; i < m->count; i++) {
        model *item = &m->items[i];
        if (name && strcmp(item->name, name) != 0) continue;
        found = true;
        replace(m, item, NULL, MODEL_UNLOADED, "unloaded");
        LOG(m->log, "unloaded", LOG_TEXT_FIELD("model", item->name), LOG_NUMBER_FIELD("version", item->version));
    }
    return found ? HYP_OK : refuse(diag, HYP_ERR_INVALID_ARGUMENT, "there is no model '%s'", show(name).text);
}

static bool is_another(const struct stat *a, const struct stat *b)
{
    return a->st_dev != b->st_dev || a->st_ino != b->st_ino || a->st_size != b->st_size ||
           a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}

void models_watch(models *m)
{
    for (size_t i = 0; i < m->count; i++) {
        model *item = &m->items[i];
        struct stat now;
        /* A file that is away comes back: it is being replaced. */
        if (models_status(m, item).state == MODEL_UNLOADED || stat(item->path, &now) != 0 ||
            !is_another(&now, &item->tried))
            continue;
        hyp_diag diag = {0};
        (void)!load(m, item, &diag);
    }
}

static void destroy_ended(models *m)
{
    pthread_mutex_lock(&m->mutex);
    plan_record *ended = m->ended;
    m->ended = NULL;
    pthread_mutex_unlock(&m->mutex);
    for (plan_record *next; ended; ended = next) {
        next = ended->next;
        served_plan_destroy(ended->plan);
        pthread_mutex_lock(&m->mutex);
        ended->model->plans--;
        pthread_mutex_unlock(&m->mutex);
        free(ended);
    }
}

void models_tend(models *m)
{
    destroy_ended(m);
    for (size_t i = 0; i < m->count; i++) {
        model *item = &m->items[i];
        pthread_mutex_lock(&m->mutex);
        bool lost = item->lost, away = !item->plan, gone = !item->plans;
        if (lost && gone) item->lost = false;
        pthread_mutex_unlock(&m->mutex);
        hyp_diag diag = {0};
        if (lost && !away)
            replace(m, item, NULL, MODEL_FAILED, "its device gave up");
        else if (lost && gone)
            (void)!load(m, item, &diag);
    }
}

/* Does it to every plan that a model has. */
static void for_plans(models *m, void (*act)(served_plan *p))
{
    for (size_t i = 0; i < m->count; i++) {
        pthread_mutex_lock(&m->mutex);
        served_plan *plan = m->items[i].plan;
        if (plan) served_plan_acquire(plan);
        pthread_mutex_unlock(&m->mutex);
        if (plan) act(plan);
        served_plan_release(plan);
    }
}

void models_hurry(models *m) { for_plans(m, served_plan_hurry); }
void models_abort(models *m) { for_plans(m, served_plan_abort); }
