#include "runtime/core/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "runtime/core/backend.h"

/* What the time of another than the first alternative is to be below, times that of the first. */
static const double worth = 0.98;

/* ---- deciding ------------------------------------------------------------------------------------------------ */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double hyp_tuner_median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, by_value);
    return samples[count / 2];
}

/* By the median of the ratios of a turn, which what lasts longer than a turn leaves alone: as many lie below it as above. */
bool hyp_tuner_wins(const double *samples, const double *others, size_t turns, double most)
{
    size_t faster = 0, enough = 0;
    for (size_t i = 0; i < turns; i++) {
        faster += samples[i] < others[i];
        enough += samples[i] < most * others[i];
    }
    return 5 * faster >= 4 * turns && 2 * enough > turns;
}

double hyp_tuner_tolerance(hyp_dtype dtype)
{
    return dtype == HYP_F64 ? 1e-12 : dtype == HYP_F16 ? 4e-3 : dtype == HYP_BF16 ? 3e-2 : 3e-5;
}

bool hyp_tuner_agrees(hyp_dtype dtype, const void *got, const void *want, size_t count, double tolerance)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        double w = hyp_load_f64(dtype, want, i);
        if (isfinite(w)) squares += w * w;
    }
    double typical = sqrt(squares / (double)count);
    for (size_t i = 0; i < count; i++) {
        double g = hyp_load_f64(dtype, got, i), w = hyp_load_f64(dtype, want, i);
        if (g == w || (isnan(g) && isnan(w))) continue;
        if (!(fabs(g - w) <= tolerance * (fabs(w) + typical))) return false;
    }
    return true;
}

size_t hyp_tuner_fastest(const hyp_choice *c, size_t base, const double *seconds)
{
    size_t best = base;
    for (size_t i = 0; i < c->count; i++)
        if (seconds[i] < seconds[best] && seconds[i] < worth * seconds[base]) best = i;
    return best;
}

hyp_status hyp_tuner_keep(hyp_tuner *t, const hyp_choice *c, size_t best, size_t first, const double *seconds,
                          hyp_diag *diag)
{
    HYP_TRY(hyp_choice_keep(c, best, seconds[best], seconds[first], t->known, diag));
    if (best != first) HYP_TRY(hyp_choice_keep(c, first, seconds[first], seconds[first], &t->firsts, diag));
    t->report.timed++;
    t->report.replaced += best != first;
    return HYP_OK;
}

hyp_status hyp_tuner_decide(hyp_tuner *t, const hyp_choice *c, size_t first, const double *seconds, hyp_diag *diag)
{
    return hyp_tuner_keep(t, c, hyp_tuner_fastest(c, first, seconds), first, seconds, diag);
}

/* ---- jobs ---------------------------------------------------------------------------------------------------- */

hyp_status hyp_tuner_add(hyp_tuner *t, hyp_tuner_job job, hyp_diag *diag)
{
    for (size_t i = 0; i < t->jobs.len; i++)
        if (strcmp(t->jobs.data[i].key, job.key) == 0) {
            t->jobs.data[i].uses += job.uses;
            return HYP_OK;
        }
    const char *key = job.key;
    job.key = hyp_arena_strdup(&t->arena, key);
    return job.key ? hyp_vec_push(&t->jobs, diag, job) : hyp_fail_memory(diag, strlen(key));
}

static int by_work(const void *left, const void *right)
{
    const hyp_tuner_job *a = left, *b = right;
    double more = a->work * (double)a->uses, less = b->work * (double)b->uses;
    if (more != less) return more > less ? -1 : 1;
    return strcmp(a->key, b->key);
}

void hyp_tuner_largest_first(hyp_tuner *t)
{
    if (t->jobs.len) qsort(t->jobs.data, t->jobs.len, sizeof *t->jobs.data, by_work);
}

/* Whether nothing needs to be measured. */
static hyp_status recall(hyp_tuner *t, const hyp_tuner_job *j, bool *out_known, hyp_diag *diag)
{
    hyp_tuned found = {.size = sizeof found};
    *out_known = hyp_tuning_find(t->known, j->key) != NULL;
    if (*out_known || !t->options->find || !t->options->find(j->key, &found, t->options->find_user)) return HYP_OK;
    found.product = j->key;
    *out_known = true;
    return hyp_tuning_add(t->known, &found, diag);
}

/* Steps are faster alone than in the company of others: where runs gain nothing, what was found is not used. */
static hyp_status check_runs(hyp_tuner *t, hyp_diag *diag)
{
    bool faster = true;
    if (t->report.replaced == 0) return HYP_OK;
    HYP_TRY(t->race_runs(t, &faster, diag));
    bool timed = t->report.untuned_run_seconds > 0;
    if (!timed || faster) return HYP_OK;
    t->report.replaced = 0;
    for (size_t i = 0; i < t->firsts.products.len; i++)
        HYP_TRY(hyp_tuning_set(t->known, t->firsts.products.data[i], diag));
    return HYP_OK;
}

hyp_status hyp_tuner_run(hyp_tuner *t, hyp_diag *diag)
{
    const hyp_tune_options *o = t->options;
    t->report.products = t->jobs.len;
    for (size_t i = 0; i < t->jobs.len; i++) {
        const hyp_tuner_job *j = &t->jobs.data[i];
        double now = hyp_clock_seconds();
        if (o->progress) o->progress(i, t->jobs.len, j->key, o->progress_user);
        bool known;
        HYP_TRY(recall(t, j, &known, diag));
        t->report.known += known;
        if (!known && now < t->end) HYP_TRY(t->measure(t, j, now + (t->end - now) / (double)(t->jobs.len - i), diag));
    }
    HYP_TRY(check_runs(t, diag));
    for (size_t i = 0; i < t->jobs.len; i++) {
        const HypPlan__TunedProduct *done = hyp_tuning_find(t->known, t->jobs.data[i].key);
        if (!done) continue;
        t->report.seconds += (double)t->jobs.data[i].uses * done->seconds;
        t->report.first_seconds += (double)t->jobs.data[i].uses * done->first_seconds;
    }
    if (o->progress) o->progress(t->jobs.len, t->jobs.len, "", o->progress_user);
    return HYP_OK;
}

void hyp_tuner_dispose(hyp_tuner *t)
{
    hyp_vec_free(&t->jobs);
    hyp_arena_dispose(&t->arena);
    hyp_tuning_dispose(&t->firsts);
}
