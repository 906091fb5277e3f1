#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "signing.h"

enum { BRIEF_TRIES = 2000, PAUSE = 100 /* microseconds */, PATIENCE = 300 /* seconds, for the others to come */ };

void ranks_init(ranks *r, int32_t rank, int32_t size, int32_t local, const char *tool)
{
    *r = (ranks){.rank = rank, .size = size, .local = local, .fd = -1};
    if (rank)
        snprintf(r->name, sizeof r->name, "%s, rank %d", tool, (int)rank);
    else
        snprintf(r->name, sizeof r->name, "%s", tool);
}

int32_t ranks_size(const ranks *r) { return r->size > 1 ? r->size : 1; }

/* ---- waiting --------------------------------------------------------------------------------------------------- */

/* Whether rank 0 of a launcher's ranks has ended: nobody holds its lock. Of ranks that we have started the parent knows. */
static bool is_first_gone(const ranks *r)
{
    if (!r->path || r->rank == 0 || flock(r->fd, LOCK_SH | LOCK_NB) != 0) return false;
    flock(r->fd, LOCK_UN);
    return true;
}

/* In a step ranks are apart by microseconds, while rank 0 writes a checkpoint by seconds. */
static void pause_a_little(const ranks *r, int64_t tries)
{
    if (tries < BRIEF_TRIES) {
        sched_yield();
        return;
    }
    usleep(PAUSE);
    if (tries % 10000 != 0 || !is_first_gone(r)) return;
    fprintf(stderr, "%s: rank 0 has ended\n", r->name);
    exit(CLI_FAILED);
}

bool ranks_look(ranks *r)
{
    if (!r->stopped && r->board) {
        ranks_board *b = r->board;
        int64_t look = ++r->looks;
        if (r->signal && *r->signal) b->asked = 1;
        if (r->rank == 0) {
            if (b->asked && b->stop == 0) b->stop = look;
            b->decided = look;
        }
        for (int64_t i = 0; b->decided < look; i++) pause_a_little(r, i);
        r->stopped = b->stop != 0 && look >= b->stop;
    } else if (r->signal && *r->signal) {
        r->stopped = true;
    }
    return r->stopped;
}

int32_t ranks_compare(ranks *r, uint64_t mark)
{
    ranks_board *b = r->board;
    if (!b) return 0;
    b->marks[r->rank] = mark;
    b->marked[r->rank] = ++r->marks;
    for (int32_t k = 1; k < r->size && r->rank == 0; k++) {
        for (int64_t i = 0; b->marked[k] < r->marks; i++) pause_a_little(r, i);
        if (b->marks[k] != mark) return k;
    }
    return 0;
}

void ranks_meet(ranks *r)
{
    if (!r->board || r->stopped) return;
    if (r->rank > 0) r->board->opened++;
    for (int64_t i = 0; r->rank == 0 && r->board->opened < r->size - 1; i++) pause_a_little(r, i);
    if (r->rank == 0 && r->path) unlink(r->path);
}

void ranks_leave(ranks *r)
{
    if (r->board && r->rank == 0) {
        if (r->board->stop == 0) r->board->stop = r->looks + 1;
        r->board->decided = INT64_MAX;
        if (r->path) unlink(r->path);
    }
    hyp_group_leave(r->group);
    if (r->board) munmap(r->board, sizeof *r->board);
    if (r->path && r->fd >= 0) close(r->fd);
    free(r->path);
    *r = (ranks){0};
}

/* ---- a launcher's ranks ---------------------------------------------------------------------------------------- */

typedef struct launcher {
    const char *rank, *size, *local, *local_size; /* names in the environment */
    const char *job, *part;                       /* what tells its jobs apart; NULL: the parent process does */
} launcher;

/* A script of Slurm that is no step of srun has a rank, too, but is one process: it has no size of a step. */
static const launcher launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE", NULL},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, "SLURM_JOB_ID", "SLURM_STEP_ID"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL},
};

static bool read_number(const char *name, int64_t low, int64_t *out)
{
    const char *text = name ? getenv(name) : NULL;
    return text && cli_parse_int(text, low, 1 << 20, out);
}

/* The file of the board, of one user and one job of the launcher. */
static char *path_of(const launcher *l)
{
    const char *job = l->job ? getenv(l->job) : NULL, *part = l->part ? getenv(l->part) : NULL;
    char name[128], path[4096];
    if (job)
        snprintf(name, sizeof name, "%s-%s", job, part ? part : "0");
    else
        snprintf(name, sizeof name, "%ld", (long)getppid());
    for (char *c = name; *c; c++)
        if (!strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-", *c)) *c = '-';
    snprintf(path, sizeof path, "%s/hypatia-%ld-%s.ranks", cli_temp_folder(), (long)geteuid(), name);
    return cli_copy(path, strlen(path));
}

int ranks_find_launcher(ranks *r, const char *tool)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const launcher *l = &launchers[i];
        int64_t rank, size, local, here, nodes;
        if (!read_number(l->rank, 0, &rank) || !read_number(l->size, 1, &size)) continue;
        if (size == 1) return CLI_OK;
        if (size > RANKS_MOST) {
            fprintf(stderr, "%s: %lld processes by %s: at most %d train together\n", tool, (long long)size, l->size, RANKS_MOST);
            return CLI_USAGE;
        }
        if (!read_number(l->local, 0, &local)) local = rank;
        bool spread = read_number(l->local_size, 1, &here) && here != size;
        if (read_number("SLURM_STEP_NUM_NODES", 2, &nodes)) spread = true;
        if (spread || rank >= size) {
            fprintf(stderr, "%s: this is rank %lld of %lld by %s, and not all of them are on this machine: a training is on the "
                            "GPUs of one\n", tool, (long long)rank, (long long)size, l->rank);
            return CLI_USAGE;
        }
        ranks_init(r, (int32_t)rank, (int32_t)size, (int32_t)local, tool);
        r->path = path_of(l);
        return CLI_OK;
    }
    return CLI_OK;
}

static int fail(const ranks *r, const char *what)
{
    fprintf(stderr, "%s: %s: %s: %s\n", r->name, r->path, what, strerror(errno));
    return CLI_FAILED;
}

/* Rank 0 makes the file under another name: who finds it finds all of it, and its lock. */
static int make_file(ranks *r)
{
    char draft[4200];
    snprintf(draft, sizeof draft, "%s.XXXXXX", r->path);
    r->fd = mkstemp(draft);
    if (r->fd < 0) return fail(r, "cannot make the file by which ranks come together");
    if (ftruncate(r->fd, sizeof(ranks_board)) == 0 && flock(r->fd, LOCK_EX | LOCK_NB) == 0 && rename(draft, r->path) == 0)
        return CLI_OK;
    int code = fail(r, "cannot write the file by which ranks come together");
    unlink(draft);
    return code;
}

/* One that a job which has ended left behind has no lock. */
static bool find_file(ranks *r)
{
    struct stat st;
    r->fd = open(r->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (r->fd < 0) return false;
    if (fstat(r->fd, &st) == 0 && st.st_uid == geteuid() && st.st_size == sizeof(ranks_board) && !is_first_gone(r)) return true;
    close(r->fd);
    r->fd = -1;
    return false;
}

static int open_board(ranks *r)
{
    int code = CLI_OK;
    if (r->rank == 0) {
        code = make_file(r);
    } else {
        int waited = 0;
        while (!find_file(r) && waited++ < PATIENCE * 100) usleep(10000);
        errno = ETIMEDOUT;
        if (r->fd < 0) code = fail(r, "rank 0 did not come");
    }
    if (code != CLI_OK) return code;
    void *at = mmap(NULL, sizeof(ranks_board), PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (at == MAP_FAILED) return fail(r, "cannot be mapped");
    r->board = at;
    return CLI_OK;
}

/* ---- coming together ------------------------------------------------------------------------------------------- */

/* By the device that every machine has: what is wrong with the plan is told once, and before a GPU is touched. */
static int check_plan(const ranks *r, const session_options *o)
{
    hyp_engine_options options = {.size = sizeof options, .device = HYP_DEVICE_REFERENCE};
    unsigned char key[HYP_PUBLIC_KEY_BYTES];
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    int code = signing_read_key(o->signer, key, &options.require_signature, r->name);
    if (code != CLI_OK) return code;
    if (hyp_engine_load_file(o->plan, &options, &engine, &diag) != HYP_OK) return cli_report(r->name, &diag);
    bool found = false;
    for (size_t i = 0; i < hyp_engine_step_count(engine) && !found; i++)
        found = strcmp(hyp_engine_step(engine, i).kernel, "all-reduce") == 0;
    hyp_engine_destroy(engine);
    if (found) return CLI_OK;
    fprintf(stderr,
            "%s: %s: is a step of one GPU, and %d would train %d models: compile it with hypatiac --train ... --data-parallel\n",
            r->name, o->plan, (int)r->size, (int)r->size);
    return CLI_USAGE;
}

int ranks_join(ranks *r, const session_options *o)
{
    hyp_diag diag = {0};
    if (r->size < 2) return CLI_OK;
    int code = r->path ? open_board(r) : CLI_OK;
    if (code == CLI_OK && r->rank == 0) {
        code = check_plan(r, o);
        if (code == CLI_OK && hyp_group_make_id(r->board->id, &diag) != HYP_OK) code = cli_report(r->name, &diag);
        if (code == CLI_OK) r->board->ready = 1;
    }
    if (code != CLI_OK) return code;
    for (int64_t i = 0; !r->board->ready; i++) pause_a_little(r, i);
    if (hyp_group_join(r->board->id, r->rank, r->size, o->device_index + r->local, &r->group, &diag) == HYP_OK) return CLI_OK;
    return cli_report(r->name, &diag);
}
