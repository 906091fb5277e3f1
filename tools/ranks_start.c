/* ranks_start.c - processes of our own, one for each GPU, and the one that waits for them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "interrupt.h"
#include "ranks.h"

/* How long rank 0 has to save where it is when another has failed; it may wait for that one within a run, for ever. */
enum { GRACE_SECONDS = 5 };

typedef struct family {
    ranks_board *board;
    pid_t *pids; /* by rank; 0: it has ended */
    int32_t count, left;
    int code;     /* of the first that failed, else of rank 0 */
    bool failed;  /* one has */
    bool twice;   /* a second signal came */
    const char *tool;
} family;

static void end_all(const family *f)
{
    for (int32_t i = 0; i < f->count; i++)
        if (f->pids[i]) kill(f->pids[i], SIGKILL);
}

static void tell(const family *f, int32_t rank, int status)
{
    if (WIFSIGNALED(status))
        fprintf(stderr, "%s: rank %d of %d was ended by signal %d (%s)", f->tool, (int)rank, (int)f->count, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "%s: rank %d of %d ended with exit code %d", f->tool, (int)rank, (int)f->count, WEXITSTATUS(status));
    fprintf(stderr, ", and the others with it; checkpoints are as they were\n");
}

static void note_end(family *f, int32_t rank, int status)
{
    f->pids[rank] = 0;
    f->left--;
    bool fine = WIFEXITED(status) && (WEXITSTATUS(status) == CLI_OK || WEXITSTATUS(status) == CLI_INTERRUPTED);
    if (fine && rank == 0 && !f->failed) f->code = WEXITSTATUS(status);
    if (fine || f->failed || f->twice) return;
    f->failed = true;
    f->code = WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
    tell(f, rank, status);
    f->board->asked = 1;
    if (rank == 0) end_all(f);
}

static void reap(family *f)
{
    for (int32_t i = 0; i < f->count; i++) {
        int status;
        if (f->pids[i] && waitpid(f->pids[i], &status, WNOHANG) == f->pids[i]) note_end(f, i, status);
    }
}

static void note_signal(family *f)
{
    f->twice = f->board->asked != 0;
    f->board->asked = 1;
    if (!f->twice) return;
    if (!f->failed) f->code = CLI_INTERRUPTED;
    end_all(f);
}

/* `signals` are blocked. */
static void watch(family *f, const sigset_t *signals)
{
    const struct timespec grace = {.tv_sec = GRACE_SECONDS};
    while (f->left) {
        int number = sigtimedwait(signals, NULL, f->failed ? &grace : NULL);
        if (number < 0 && errno == EAGAIN) end_all(f);
        if (number == SIGINT || number == SIGTERM) note_signal(f);
        reap(f);
    }
}

/* Signals are the parent's, which knows when a second one comes: a terminal sends them to all. */
static void become(ranks *r, const family *f, int32_t rank, pid_t parent, const sigset_t *before)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(CLI_FAILED);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    sigprocmask(SIG_SETMASK, before, NULL);
    ranks_init(r, rank, f->count, rank, f->tool);
    r->board = f->board;
}

bool ranks_start(ranks *r, int32_t count, const char *tool, int *out_code)
{
    family f = {.count = count, .tool = tool};
    sigset_t signals, before;
    pid_t parent = getpid();
    void *board = mmap(NULL, sizeof(ranks_board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *out_code = CLI_FAILED;
    if (board == MAP_FAILED) {
        fprintf(stderr, "%s: no memory that processes share: %s\n", tool, strerror(errno));
        return false;
    }
    f.board = board;
    f.pids = cli_alloc(NULL, (size_t)count, sizeof *f.pids);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &signals, &before);
    fflush(NULL);
    for (int32_t i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            free(f.pids);
            become(r, &f, i, parent, &before);
            return true;
        }
        f.pids[i] = pid > 0 ? pid : 0;
        if (pid > 0) f.left++;
        if (pid > 0) continue;
        fprintf(stderr, "%s: rank %d cannot be started: %s\n", tool, (int)i, strerror(errno));
        f.count = i;
        f.failed = true;
        f.code = CLI_FAILED;
        end_all(&f);
        break;
    }
    watch(&f, &signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    munmap(board, sizeof(ranks_board));
    free(f.pids);
    *out_code = f.code;
    return false;
}
