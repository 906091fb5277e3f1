/* checkpoints.h - a folder with the states of a training: step-00001200.safetensors and best.safetensors. A file gets
 * its name when it is whole and on the disk, so that whatever ends the process leaves the ones before.
 */
#ifndef HYPATIA_TOOLS_CHECKPOINTS_H
#define HYPATIA_TOOLS_CHECKPOINTS_H

#include "cli.h"

/* Where a training is, besides its variables: all that the steps from here on follow from. */
typedef struct train_state {
    uint64_t model_hash;  /* hyp_engine_model_hash of the plan */
    int64_t step;         /* so many are done */
    int64_t epoch;        /* under way, from 0 */
    uint64_t position;    /* rows of it that are done */
    uint64_t rows, batch; /* of the data, and of a batch */
    uint64_t seed;
    double loss_sum;    /* over the rows of the epoch that are done */
    double best;        /* the least loss of an epoch; INFINITY: none is over */
    int64_t gpus;       /* that shared a batch; 0 as 1 */
    char schedule[160]; /* schedule_print */
} train_state;

/* Zero-initialise. */
typedef struct checkpoints {
    char *path;
    int fd; /* of the folder, with a lock */
    int64_t keep;
    const char *tool;
    int64_t *steps; /* of the files that are there, ascending */
    size_t count;
} checkpoints;

/* Makes the folder where it is missing, and keeps other processes of this kind out of it. A file is made in it and
 * removed, so that one that cannot be written to is known before any work. An exit code after a message; to be closed
 * in any case. */
int checkpoints_open(checkpoints *c, const char *path, int64_t keep, const char *tool);
/* For checkpoints_restore and checkpoints_find alone, beside a process that writes: takes what is there, and locks, makes and
 * removes nothing. */
int checkpoints_open_beside(checkpoints *c, const char *path, const char *tool);
void checkpoints_close(checkpoints *c);
/* The path of the best state of a folder, else of its newest; NULL after a message. To be freed. Beside a process that writes,
 * too: locks and changes nothing. */
char *checkpoints_find(const char *folder, const char *tool);

/* Writes a state and its variables, as best.safetensors too where `best`, and removes all but the last `keep` others.
 * CLI_OK, or CLI_FAILED after a message: what was there before is there still. A folder that has gone meanwhile is made
 * anew. */
int checkpoints_save(checkpoints *c, const train_state *state, const hyp_tensor *variables, size_t count, bool best);
/* Writes them to a new file in $TMPDIR, for when the folder cannot be written to, and says where. CLI_OK, or
 * CLI_FAILED. */
int checkpoints_rescue(const checkpoints *c, const train_state *state, const hyp_tensor *variables, size_t count);

/* Reads the newest state that is whole, with a message for each that is not, to *state and the data of `variables`,
 * which have their names, types, dims and memory. *found false: the folder has none. CLI_USAGE where one is of another
 * model or of other variables; CLI_FAILED where there are some and all are damaged. */
int checkpoints_restore(checkpoints *c, train_state *state, const hyp_tensor *variables, size_t count,
                        bool *found);

#endif
