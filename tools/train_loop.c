/* train_loop.c - the steps of a training. Everything that a step depends on is the state that checkpoints hold, the
 * data, and the plan, so that one which is resumed gives the same bits.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "interrupt.h"
#include "shuffle.h"
#include "terminal.h"
#include "timing.h"
#include "train.h"

/* Who judges the losses, and writes. The others follow it: they stop where it does. */
static bool is_first(const trainer *t) { return t->ranks->rank == 0; }

/* A loss or a variable that is no number: from here on there are no others, so nothing is saved any more. */
static int refuse(trainer *t, const char *what, double value)
{
    t->spoiled = true;
    terminal_work_hide();
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

static int get_variables(trainer *t)
{
    hyp_diag diag = {0};
    if (hyp_context_variable_get(t->session.context, t->variables, t->variable_count, &diag) == HYP_OK) return CLI_OK;
    return cli_report(t->tool, &diag);
}

/* Fetches the variables. What is no number is not saved: the loss shows it one step later only. */
static int fetch(trainer *t)
{
    terminal_work_hide();
    int code = get_variables(t);
    if (code != CLI_OK) return code;
    for (size_t i = 0; i < t->variable_count && !t->request->allow_nan; i++)
        if (!is_finite(&t->variables[i])) return refuse(t, cli_shown(t->variables[i].name), NAN);
    return CLI_OK;
}

static uint64_t hash_of(const hyp_tensor *variables, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *bytes = variables[i].data;
        for (size_t at = 0; at < variables[i].bytes; at += 8) {
            uint64_t word = 0;
            memcpy(&word, bytes + at, variables[i].bytes - at < 8 ? variables[i].bytes - at : 8);
            hash = (hash ^ word) * 0x100000001b3;
            hash ^= hash >> 32;
        }
    }
    return hash;
}

/* All ranks have made the same sums, and so the same variables, to the bit; where they have not, the training is of as many
 * models. */
static int compare_ranks(trainer *t)
{
    if (ranks_size(t->ranks) == 1) return CLI_OK;
    int code = is_first(t) ? CLI_OK : get_variables(t);
    if (code != CLI_OK) return code;
    int32_t other = ranks_compare(t->ranks, hash_of(t->variables, t->variable_count));
    if (!other) return CLI_OK;
    t->spoiled = true;
    fprintf(stderr, "%s: step %" PRId64 ": the variables of rank %d are not those of rank 0, and nothing is saved: GPUs of one kind, "
                    "with the same drivers, are wanted\n", t->tool, t->state.step, (int)other);
    return CLI_FAILED;
}

/* A state that cannot be written is tried again the next time, and at the end. */
static int save(trainer *t, bool best)
{
    int code = is_first(t) ? fetch(t) : CLI_OK;
    if (code == CLI_OK) code = compare_ranks(t);
    if (code != CLI_OK || !is_first(t)) return code;
    t->unsaved = checkpoints_save(&t->checkpoints, &t->state, t->variables, t->variable_count, best) != CLI_OK;
    if (t->unsaved) fprintf(stderr, "%s: what was there is there still; the next checkpoint is tried again\n", t->tool);
    return CLI_OK;
}

/* Saves what there is at the end, wherever that can be; of the first rank alone. */
static int save_last(trainer *t)
{
    int code = fetch(t);
    if (code != CLI_OK) return code;
    if (checkpoints_save(&t->checkpoints, &t->state, t->variables, t->variable_count, false) == CLI_OK) return CLI_OK;
    (void)checkpoints_rescue(&t->checkpoints, &t->state, t->variables, t->variable_count);
    return CLI_FAILED;
}

/* ---- steps ---------------------------------------------------------------------------------------------------- */

/* The rows of the batch that begins at this position of the epoch, and those of them that are this process's. */
static uint64_t rows_at(const trainer *t, uint64_t position, const uint64_t **out_rows, size_t *out_share)
{
    uint64_t left = t->usable - position, count = left < (uint64_t)t->batch ? left : (uint64_t)t->batch;
    *out_share = (size_t)(count / (uint64_t)ranks_size(t->ranks)); /* which divides it: set_batch */
    *out_rows = t->order + position + (uint64_t)t->ranks->rank * *out_share;
    return count;
}

/* Makes the batch, and begins to make the next one where that is done beside the step. Rows of the next epoch are not known yet. */
static int make_batch(trainer *t, const uint64_t *rows, size_t share, uint64_t next)
{
    if (!t->feed) {
        trainer_fill(t, &t->data, rows, share);
        return CLI_OK;
    }
    int code = feed_take(t->feed, &t->data, rows, share, &t->inputs);
    if (code != CLI_OK || next >= t->usable) return code;
    rows_at(t, next, &rows, &share);
    feed_prepare(t->feed, &t->data, rows, share);
    return CLI_OK;
}

static int take_step(trainer *t)
{
    const uint64_t *rows;
    size_t share;
    uint64_t count = rows_at(t, t->state.position, &rows, &share);
    double begun = timing_now(), rate = schedule_rate(&t->rate, t->state.step);
    t->rate_now = (float)rate;
    int code = make_batch(t, rows, share, t->state.position + count);
    if (code == CLI_OK) code = trainer_step(t, false);
    if (code != CLI_OK) {
        fprintf(stderr, "%s: that was step %" PRId64 " of the training, which changed nothing\n", t->tool,
                t->state.step + 1);
        return code;
    }
    t->state.step++;
    t->state.position += count;
    if (!isfinite(t->loss_now) && !t->request->allow_nan && is_first(t)) return refuse(t, "the loss", (double)t->loss_now);
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

/* Is asked before every run: where rank 0 ends with an error, the others come here, and to no run that would wait for it. */
static bool is_over(const trainer *t, int64_t begun)
{
    return t->state.step >= t->total || ranks_look(t->ranks) ||
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
    if (code != CLI_OK || t->ranks->stopped || t->state.position < t->usable) return code;
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
    while (code == CLI_OK && !ranks_look(t->ranks) && (!is_over(t, begun) || t->state.position == t->usable))
        code = run_epoch(t, begun);
    if (code == CLI_INTERRUPTED) code = CLI_OK;
    if (t->checkpoints.count) saved = t->checkpoints.steps[t->checkpoints.count - 1];
    /* What goes wrong leaves the variables of the step before; those are saved, if they can be. */
    if (is_first(t) && !t->spoiled && (t->unsaved || saved != t->state.step)) {
        int last = save_last(t);
        if (last == CLI_OK && code != CLI_OK)
            fprintf(stderr, "%s: the state after step %" PRId64 " is in %s\n", t->tool, t->state.step,
                    t->request->checkpoints);
        if (last != CLI_OK) code = last;
    }
    if (code == CLI_OK && t->ranks->stopped && (t->state.step < t->total || t->state.position == t->usable))
        code = CLI_INTERRUPTED;
    int closed = train_report_close(&t->report);
    if (code == CLI_OK) code = closed;
    if (code == CLI_OK || code == CLI_INTERRUPTED) print_end(t, code);
    return code;
}
