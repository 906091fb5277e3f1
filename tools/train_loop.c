/* train_loop.c - the steps of a training. Everything that a step depends on is the state that checkpoints hold, the
 * data, and the plan, so that one which is resumed gives the same bits.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "interrupt.h"
#include "shuffle.h"
#include "timing.h"
#include "train.h"

/* A loss or a variable that is no number: from here on there are no others, so nothing is saved any more. */
static int refuse(trainer *t, const char *what, double value)
{
    t->spoiled = true;
    train_report_clear(&t->report);
    fprintf(stderr,
            "%s: step %" PRId64 ": %s is %g: the training has come apart; a smaller --learning-rate, a longer --warmup "
            "or hypatiac --clip-norm may help. ",
            t->tool, t->state.step, what, value);
    if (t->checkpoints.count)
        fprintf(stderr, "The last checkpoint is of step %" PRId64 ". ", t->checkpoints.steps[t->checkpoints.count - 1]);
    fprintf(stderr, "--allow-nan goes on\n");
    return CLI_FAILED;
}

/* ---- checkpoints ---------------------------------------------------------------------------------------------- */

static bool is_finite(const hyp_tensor *t)
{
    int64_t count = hyp_tensor_elements(t);
    if (t->dtype == HYP_F32) {
        const float *x = t->data;
        for (int64_t i = 0; i < count; i++)
            if (!isfinite(x[i])) return false;
        return true;
    }
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(hyp_tensor_at(t, i))) return false;
    return true;
}

/* Fetches the variables. What is no number is not saved: the loss shows it one step later only. */
static int fetch(trainer *t)
{
    hyp_diag diag = {0};
    train_report_clear(&t->report);
    if (hyp_context_variable_get(t->session.context, t->variables, t->variable_count, &diag) != HYP_OK)
        return cli_report(t->tool, &diag);
    for (size_t i = 0; i < t->variable_count && !t->request->allow_nan; i++)
        if (!is_finite(&t->variables[i])) return refuse(t, cli_shown(t->variables[i].name), NAN);
    return CLI_OK;
}

/* A state that cannot be written is tried again the next time, and at the end. */
static int save(trainer *t, bool best)
{
    int code = fetch(t);
    if (code != CLI_OK) return code;
    t->unsaved = checkpoints_save(&t->checkpoints, &t->state, t->variables, t->variable_count, best) != CLI_OK;
    if (t->unsaved) fprintf(stderr, "%s: what was there is there still; the next checkpoint is tried again\n", t->tool);
    return CLI_OK;
}

/* Saves what there is at the end, wherever that can be. */
static int save_last(trainer *t)
{
    int code = fetch(t);
    if (code != CLI_OK) return code;
    if (checkpoints_save(&t->checkpoints, &t->state, t->variables, t->variable_count, false) == CLI_OK) {
        t->unsaved = false;
        return CLI_OK;
    }
    (void)checkpoints_rescue(&t->checkpoints, &t->state, t->variables, t->variable_count);
    return CLI_FAILED;
}

/* ---- steps ---------------------------------------------------------------------------------------------------- */

static int take_step(trainer *t)
{
    uint64_t left = t->usable - t->state.position, count = left < (uint64_t)t->batch ? left : (uint64_t)t->batch;
    double begun = timing_now(), rate = schedule_rate(&t->rate, t->state.step);
    t->rate_now = (float)rate;
    trainer_fill(t, &t->data, t->order + t->state.position, (size_t)count);
    int code = trainer_step(t, false);
    if (code != CLI_OK) {
        fprintf(stderr, "%s: that was step %" PRId64 " of the training, which changed nothing\n", t->tool,
                t->state.step + 1);
        return code;
    }
    t->state.step++;
    t->state.position += count;
    if (!isfinite(t->loss_now) && !t->request->allow_nan) return refuse(t, "the loss", (double)t->loss_now);
    t->state.loss_sum += (double)t->loss_now * (double)count;
    return train_report_step(&t->report, &t->state, (double)t->loss_now, rate, count, timing_now() - begun);
}

/* ---- epochs --------------------------------------------------------------------------------------------------- */

/* Behind the last row: validates, and begins the next epoch. */
static int end_epoch(trainer *t, uint64_t seen)
{
    train_epoch e = {.epoch = t->state.epoch, .step = t->state.step, .rows = seen};
    e.loss = t->state.loss_sum / (double)t->state.position;
    e.rate = schedule_rate(&t->rate, t->state.step ? t->state.step - 1 : 0);
    int code = trainer_validate(t, &e.validation, &e.accuracy);
    if (code != CLI_OK) return code;
    double judged = isnan(e.validation) ? e.loss : e.validation;
    double best = t->state.best;
    e.best = judged < best;
    if (e.best) t->state.best = judged;
    t->state.epoch++;
    t->state.position = 0;
    t->state.loss_sum = 0;
    /* It is told before it is saved: a resumed training tells again what is behind its checkpoint, and nothing else. */
    int told = train_report_epoch(&t->report, &e);
    code = save(t, e.best);
    if (t->unsaved) t->state.best = best; /* the next one that is better than what the folder has is kept */
    return code == CLI_OK ? told : code;
}

static bool is_over(const trainer *t, int64_t begun)
{
    return t->state.step >= t->total || *t->stop ||
           (t->request->stop_after && t->state.step - begun >= t->request->stop_after);
}

static int run_epoch(trainer *t, int64_t begun)
{
    uint64_t from = t->state.position;
    int code = CLI_OK;
    shuffle_rows(t->order, t->data.rows, t->state.seed, (uint64_t)t->state.epoch);
    while (t->state.position < t->usable && code == CLI_OK && !is_over(t, begun)) {
        code = take_step(t);
        bool due = t->request->every && t->state.step % t->request->every == 0 && t->state.position < t->usable;
        if (code == CLI_OK && due && !is_over(t, begun)) code = save(t, false);
    }
    if (code != CLI_OK || *t->stop || t->state.position < t->usable) return code;
    return end_epoch(t, t->state.position - from);
}

static void print_end(const trainer *t, int code)
{
    if (t->request->quiet) return;
    const char *how = code == CLI_INTERRUPTED ? "interrupted" : t->state.step < t->total ? "stopped" : "ended";
    printf("%s after step %" PRId64 " of %" PRId64 "; the state is in %s%s\n", how, t->state.step, t->total,
           t->request->checkpoints, t->state.step < t->total ? ": --resume goes on" : "");
}

int trainer_run(trainer *t)
{
    int64_t begun = t->state.step, saved = -1;
    int code = CLI_OK;
    /* An epoch that was stopped behind its last row is yet to be validated. */
    while (code == CLI_OK && !*t->stop && (!is_over(t, begun) || t->state.position == t->usable))
        code = run_epoch(t, begun);
    if (code == CLI_INTERRUPTED) code = CLI_OK;
    if (t->checkpoints.count) saved = t->checkpoints.steps[t->checkpoints.count - 1];
    /* What goes wrong leaves the variables of the step before; those are saved, if they can be. */
    if (!t->spoiled && (t->unsaved || saved != t->state.step)) {
        int last = save_last(t);
        if (last == CLI_OK && code != CLI_OK)
            fprintf(stderr, "%s: the state after step %" PRId64 " is in %s\n", t->tool, t->state.step,
                    t->request->checkpoints);
        if (last != CLI_OK) code = last;
    }
    if (code == CLI_OK && *t->stop && (t->state.step < t->total || t->state.position == t->usable))
        code = CLI_INTERRUPTED;
    int closed = train_report_close(&t->report);
    if (code == CLI_OK) code = closed;
    if (code == CLI_OK || code == CLI_INTERRUPTED) print_end(t, code);
    return code;
}
