#include "runtime/cuda/session/copy_threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

typedef struct helper {
    hyp_team *team;
    size_t self;
    pthread_t thread;
} helper;

struct hyp_team {
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t begun, ended;
    void (*work)(void *user, size_t self); /* NULL when it is too late to help */
    void *user;
    uint64_t number; /* of the work */
    size_t busy;     /* helpers that are at it */
    bool stopped;
    helper helpers[HYP_TEAM_HELPERS];
    size_t count;
};

static void *help(void *data)
{
    helper *h = data;
    hyp_team *t = h->team;
    uint64_t last = 0;
    pthread_mutex_lock(&t->lock);
    while (!t->stopped) {
        if (!t->work || t->number == last) {
            pthread_cond_wait(&t->begun, &t->lock);
            continue;
        }
        void (*work)(void *, size_t) = t->work;
        void *user = t->user;
        last = t->number;
        t->busy++;
        pthread_mutex_unlock(&t->lock);
        work(user, h->self);
        pthread_mutex_lock(&t->lock);
        if (--t->busy == 0) pthread_cond_signal(&t->ended);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

void hyp_team_run(hyp_team *t, void (*work)(void *user, size_t self), void *user)
{
    pthread_mutex_lock(&t->lock);
    t->work = work;
    t->user = user;
    t->number++;
    pthread_cond_broadcast(&t->begun);
    pthread_mutex_unlock(&t->lock);
    work(user, 0);
    pthread_mutex_lock(&t->lock);
    t->work = NULL;
    while (t->busy > 0) pthread_cond_wait(&t->ended, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static size_t processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

hyp_team *hyp_team_start(void)
{
    hyp_team *t = hyp_calloc(1, sizeof *t);
    if (!t) return NULL;
    if (pthread_mutex_init(&t->lock, NULL) != 0) return hyp_free(t), NULL;
    pthread_cond_init(&t->begun, NULL); /* cannot fail with default attributes */
    pthread_cond_init(&t->ended, NULL);
    for (size_t most = processors(); t->count < HYP_TEAM_HELPERS && t->count + 1 < most; t->count++) {
        helper *h = &t->helpers[t->count];
        *h = (helper){.team = t, .self = t->count + 1};
        if (pthread_create(&h->thread, NULL, help, h) != 0) break;
    }
    if (t->count > 0) return t;
    hyp_team_stop(t);
    return NULL;
}

void hyp_team_stop(hyp_team *t)
{
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->stopped = true;
    pthread_cond_broadcast(&t->begun);
    pthread_mutex_unlock(&t->lock);
    for (size_t i = 0; i < t->count; i++) pthread_join(t->helpers[i].thread, NULL);
    pthread_cond_destroy(&t->begun);
    pthread_cond_destroy(&t->ended);
    pthread_mutex_destroy(&t->lock);
    hyp_free(t);
}
