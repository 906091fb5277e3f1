/* train.h - what the files of hypatia train share: the request, the loop, and what is told of it. */
#ifndef HYPATIA_TOOLS_TRAIN_H
#define HYPATIA_TOOLS_TRAIN_H

#include "checkpoints.h"
#include "curve.h"
#include "dataset.h"
#include "feed.h"
#include "ranks.h"
#include "schedule.h"
#include "session.h"

/* What the command line says. */
typedef struct train_request {
    session_options session; /* its inputs are those that are the same in every batch */
    cli_list data, validation, scales;
    schedule rate;
    int64_t epochs, steps; /* 0 = not given; the first that is reached ends the training */
    int64_t batch;         /* of all GPUs together; 0 = 32, or what the plan or the checkpoint has */
    int64_t gpus;          /* processes, one for each; 0 = what a launcher has started, or this one */
    int64_t seed;          /* -1 = 0, or what the checkpoint has */
    const char *checkpoints;
    int64_t keep, every; /* every: steps between checkpoints within an epoch; 0 = none */
    int64_t stop_after;  /* steps of this run; 0 = any number */
    bool resume, allow_nan, quiet;
    const char *metrics, *curve;
} train_request;

/* ---- train_report.c: progress, metrics and the curve --------------------------------------------------------- */

typedef struct train_report {
    const char *tool;
    bool quiet;
    FILE *metrics; /* NULL: none */
    const char *metrics_path, *curve_path;
    curve curve;
    double started;        /* timing_now: of the epoch */
    double step_seconds;   /* of a step, a running mean; 0: none is known */
    double epoch_seconds;  /* of the steps of this epoch */
    int64_t total;         /* steps of the training */
    int64_t epochs;        /* 0: counted in steps alone */
} train_report;

/* What is known at the end of an epoch. */
typedef struct train_epoch {
    int64_t epoch, step;               /* from 0; done */
    uint64_t rows;                     /* of the epoch that this process has seen */
    double loss, validation, accuracy; /* NAN: there is none */
    double rate;
    bool best;
} train_epoch;

/* Opens the metrics. `from` is the step that a resumed training begins at, lines behind which are cut off, as they come
 * again; -1: the file begins anew. The lines before give the curve its points. An exit code after a message. */
int train_report_open(train_report *r, const train_request *o, int64_t from, const char *tool);
/* `state` after the step. An exit code after a message where a file cannot be written. */
int train_report_step(train_report *r, const train_state *state, double loss, double rate, uint64_t rows,
                      double seconds);
int train_report_epoch(train_report *r, const train_epoch *e);
/* CLI_OK, or CLI_FAILED after a message: the curve is drawn, and what was written is there. */
int train_report_close(train_report *r);

/* ---- trainer.c: a training -------------------------------------------------------------------------------------- */

/* Zero-initialise. */
typedef struct trainer {
    session session; /* its inputs: host memory for a batch, or what is the same in every one; its outputs: of the device, the
                        loss of the host */
    feed *feed; /* NULL: batches are made where the session's inputs are, before they are run */
    const hyp_tensor *inputs; /* all of the next run: the session's, or lent by the feed */
    const train_request *request;
    ranks *ranks; /* who trains with us, and when all stop */
    const char *tool;
    dataset data, validation;
    train_state state;
    schedule rate;
    int64_t batch, total;
    int64_t share;   /* rows of a batch that are this process's: the batch, over the ranks */
    uint64_t usable; /* rows of an epoch: all, or what whole batches of the plan take, or all ranks equally many of */
    uint64_t *order; /* of the rows in this epoch */
    size_t rate_input, loss_output, labels_input, class_output; /* SIZE_MAX: there is none */
    size_t seed_input, training_input; /* both or none: the step drops elements */
    hyp_tensor classes; /* of the class output, host memory for validation; no data where there is none */
    float rate_now, loss_now;
    int64_t seed_now;
    uint8_t training_now;
    hyp_tensor *variables; /* host memory */
    size_t variable_count;
    checkpoints checkpoints;
    train_report report;
    bool unsaved; /* the newest state could not be written */
    bool spoiled; /* the loss or a variable is no number */
} trainer;

/* Loads the plan and the data, and the checkpoint to resume from. An exit code after a message; to be closed in any
 * case. Where the others stop already, there is nothing to run. */
int trainer_open(trainer *t, const train_request *o, const cli_args *args, ranks *r);
void trainer_close(trainer *t);

/* ---- train_loop.c --------------------------------------------------------------------------------------------- */

/* Trains to the end, or until it is stopped; the state is then in the folder. CLI_INTERRUPTED after a signal. */
int trainer_run(trainer *t);

/* ---- validate.c ----------------------------------------------------------------------------------------------- */

/* Makes a batch of these rows where the session's inputs are. */
void trainer_fill(trainer *t, const dataset *d, const uint64_t *rows, size_t count);
/* Runs the batch: a step, or with the variables as they are. */
int trainer_step(trainer *t, bool keep_variables);
/* The mean loss over the rows of the validation data, and the share of labels that the largest of the classes is; NAN
 * where there are none. CLI_INTERRUPTED where it was stopped. */
int trainer_validate(trainer *t, double *out_loss, double *out_accuracy);

#endif
