/* models.h - the models of a server: names and versions, which plan each has now, and how it is replaced. Nothing of
 * HTTP. */
#ifndef HYPATIA_SERVE_MODELS_H
#define HYPATIA_SERVE_MODELS_H

#include <sys/stat.h>

#include "log.h"
#include "served_plan.h"

typedef enum model_state {
    MODEL_LOADING = 0, /* for the first time */
    MODEL_READY,
    MODEL_UNLOADED, /* as was asked for */
    MODEL_FAILED    /* has no plan: the first one did not load, or its device gave up */
} model_state;

typedef struct model {
    const char *name, *path; /* borrowed from who adds it */
    int64_t version;
    served_plan_options options;
    model_metrics metrics;
    struct models *models;
    /* Under the mutex of the models. */
    served_plan *plan; /* NULL: none now */
    model_state state;
    char reason[512]; /* of the last failure; "" after a success */
    bool lost;        /* the device of the plan gave up: it is to be loaded again, when nothing of it is left */
    size_t plans;     /* that exist: also those that were replaced and have requests yet */
    /* Of the thread that loads. */
    struct stat tried; /* the file when it was tried to load last */
} model;

typedef struct models {
    pthread_mutex_t mutex;
    model *items; /* in order of name, then version */
    size_t count;
    struct plan_record *ended; /* to be destroyed */
    log_form log;
    void (*wake)(void *user); /* there is something for models_tend */
    void *wake_user;
} models;

/* Borrows `items`, which have names, paths, versions and options, and sorts them. HYP_ERR_INVALID_ARGUMENT where two
 * have the same name and version. */
hyp_status models_init(models *m, model *items, size_t count, hyp_diag *diag);

/* Any thread: the model of this name and version (0: of those that are ready the newest, else any), and its plan, with
 * a reference. HYP_ERR_INVALID_ARGUMENT: there is none. HYP_ERR_DEVICE: it has no plan now; *out_model is set. */
hyp_status models_find(models *m, const char *name, int64_t version, model **out_model, served_plan **out_plan,
                       hyp_diag *diag);
/* Whether every model has a plan, but for those that were unloaded. */
bool models_ready(models *m);
/* A copy of what changes. */
typedef struct model_status {
    model_state state;
    char reason[512];
} model_status;
model_status models_status(models *m, const model *item);

/* The rest is for one thread, which loads. */

/* Loads all versions of this name (NULL: all models; those that were unloaded only by name). Where that fails the plan
 * that was there stays, and serves on. The first failure is returned, after all were tried. HYP_ERR_INVALID_ARGUMENT:
 * no such model. */
hyp_status models_load(models *m, const char *name, hyp_diag *diag);
/* Plans end when what they were asked for is answered. */
hyp_status models_unload(models *m, const char *name, hyp_diag *diag);
/* Loads those whose file is another one than when it was tried last. */
void models_watch(models *m);
/* Destroys plans that have ended, and loads again those whose device gave up. */
void models_tend(models *m);
/* No more requests are to be expected. */
void models_hurry(models *m);
/* Ends all that waits and runs. */
void models_abort(models *m);
size_t models_plans(models *m);

#endif
