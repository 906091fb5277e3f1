/* ranks.h - the processes of a training on several GPUs of one machine, each of which is a rank: how they are started, come
 * together, and stop after the same step.
 *
 * All of them go through the same steps, and a run of one waits for the same run of the others. What they have to agree on is in
 * a board, memory that they share: rank 0 decides there, and is the only one that writes files and tells of the training.
 */
#ifndef HYPATIA_TOOLS_RANKS_H
#define HYPATIA_TOOLS_RANKS_H

#include <signal.h>
#include <stdatomic.h>

#include "session.h"

enum { RANKS_MOST = 64 }; /* of one machine */

/* What they share. Begins as zeros. */
typedef struct ranks_board {
    unsigned char id[HYP_GROUP_ID_BYTES];
    _Atomic int32_t ready;   /* the id is there */
    _Atomic int32_t asked;   /* somebody wants the training to stop */
    _Atomic int32_t opened;  /* ranks but 0 that have read all they begin with */
    _Atomic int64_t decided; /* looks that rank 0 has come to */
    _Atomic int64_t stop;    /* the look at which all stop; 0: none yet */
    _Atomic uint64_t marks[RANKS_MOST]; /* ranks_compare */
    _Atomic int64_t marked[RANKS_MOST]; /* how many of them there were */
} ranks_board;

/* A zeroed one is a training of one process. */
typedef struct ranks {
    int32_t rank, size; /* size 0: as 1 */
    int32_t local;      /* which of the GPUs from the first on is its own */
    ranks_board *board; /* NULL: one process */
    int64_t looks, marks;
    bool stopped;
    const volatile sig_atomic_t *signal; /* of this process; NULL: none, or its parent has them */
    char name[48]; /* what messages begin with: the tool's, and of others than rank 0 the rank */
    char *path;    /* of the board's file, of those that a launcher has started; else NULL */
    int fd;        /* of that file, which rank 0 has locked as long as it lives */
    hyp_group *group;
} ranks;

/* Sets these fields, and the name. */
void ranks_init(ranks *r, int32_t rank, int32_t size, int32_t local, const char *tool);
int32_t ranks_size(const ranks *r);

/* Starts `count` processes, and is in each of them when it returns true. False in the one that has started them, when all
 * have ended: *out_code is what the program is to exit with. A signal there asks the ranks to stop, a second one ends them.
 * Where one dies or fails the others are ended, and a message says which, and how. */
bool ranks_start(ranks *r, int32_t count, const char *tool, int *out_code);

/* Where mpirun, mpiexec or srun has started this process, as what; r->size stays 0 where none has. An exit code after a
 * message. */
int ranks_find_launcher(ranks *r, const char *tool);

/* Comes together with the others: r->group has o->device_index and those after it. Rank 0 looks at the plan first, which is
 * to have sums over all ranks. An exit code after a message. */
int ranks_join(ranks *r, const session_options *o);

/* Whether to stop here. All ranks ask equally often and at the same places, and have the same answer: rank 0, which
 * waits for nobody, gives it. */
bool ranks_look(ranks *r);
/* Rank 0 gets the first rank whose mark is another than its own, or 0, and waits for all to have given it; the others get 0.
 * All call it equally often, between the same looks. */
int32_t ranks_compare(ranks *r, uint64_t mark);
/* All have opened what they need, and rank 0 may write. */
void ranks_meet(ranks *r);
/* For all ends, good or not: where rank 0 leaves, the others stop at their next look. */
void ranks_leave(ranks *r);

#endif
