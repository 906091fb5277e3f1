#include "checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "safetensors.h"

enum { NAME_ROOM = 48 };
static const char draft[] = "checkpoint.tmp", best_draft[] = "best.tmp", best_name[] = "best.safetensors";

static void name_of(int64_t step, char name[NAME_ROOM])
{
    snprintf(name, NAME_ROOM, "step-%08" PRId64 ".safetensors", step);
}

static int fail(const checkpoints *c, const char *name, const char *what)
{
    cli_error(c->tool, "%s/%s: %s: %s", c->path, name, what, strerror(errno));
    return CLI_FAILED;
}

/* ---- the folder -------------------------------------------------------------------------------------------- */

/* The step of a file's name; -1 where it is none. */
static int64_t step_of(const char *name)
{
    char again[NAME_ROOM];
    int64_t step;
    if (sscanf(name, "step-%" SCNd64, &step) != 1 || step < 0) return -1;
    name_of(step, again);
    return strcmp(name, again) == 0 ? step : -1;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int list(checkpoints *c)
{
    DIR *folder = opendir(c->path);
    if (!folder) return fail(c, "", "cannot read the folder");
    for (struct dirent *e; (e = readdir(folder));) {
        int64_t step = step_of(e->d_name);
        if (step < 0) continue;
        c->steps = cli_alloc(c->steps, c->count + 1, sizeof *c->steps);
        c->steps[c->count++] = step;
    }
    closedir(folder);
    if (c->count) qsort(c->steps, c->count, sizeof *c->steps, ascending);
    return CLI_OK;
}

static int open_folder(checkpoints *c)
{
    if (mkdir(c->path, 0777) != 0 && errno != EEXIST) return fail(c, "", "cannot make the folder");
    int fd = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail(c, "", "cannot open the folder");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) { /* some file systems have no locks */
        cli_error(c->tool, "%s: another training writes its checkpoints there", c->path);
        close(fd);
        return CLI_FAILED;
    }
    if (c->fd >= 0) close(c->fd);
    c->fd = fd;
    return CLI_OK;
}

/* A new file: a draft of a process that was killed may be the best one under another name, and is not to be cut. */
static int open_draft(const checkpoints *c)
{
    unlinkat(c->fd, draft, 0);
    return openat(c->fd, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

int checkpoints_open(checkpoints *c, const char *path, int64_t keep, const char *tool)
{
    *c = (checkpoints){.path = cli_copy(path, strlen(path)), .fd = -1, .keep = keep, .tool = tool};
    int code = open_folder(c);
    if (code != CLI_OK) return code;
    int fd = open_draft(c);
    if (fd < 0) return fail(c, draft, "cannot write");
    close(fd);
    unlinkat(c->fd, draft, 0);
    unlinkat(c->fd, best_draft, 0); /* of a process that was killed */
    return list(c);
}

int checkpoints_open_beside(checkpoints *c, const char *path, const char *tool)
{
    *c = (checkpoints){.path = cli_copy(path, strlen(path)), .fd = -1, .keep = INT64_MAX, .tool = tool};
    return list(c);
}

void checkpoints_close(checkpoints *c)
{
    if (!c->path) return;
    if (c->fd >= 0) close(c->fd);
    free(c->steps);
    free(c->path);
    *c = (checkpoints){0};
}

char *checkpoints_find(const char *folder, const char *tool)
{
    char name[NAME_ROOM], path[4096];
    checkpoints c;
    snprintf(path, sizeof path, "%s/%s", folder, best_name);
    if (access(path, F_OK) == 0) return cli_copy(path, strlen(path));
    int code = checkpoints_open_beside(&c, folder, tool);
    if (code == CLI_OK && !c.count) {
        cli_error(tool, "%s: has no checkpoints", folder);
        code = CLI_FAILED;
    }
    if (code == CLI_OK) {
        name_of(c.steps[c.count - 1], name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
    }
    checkpoints_close(&c);
    return code == CLI_OK ? cli_copy(path, strlen(path)) : NULL;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* All of a state is text: numbers that read back as the same ones. */
enum { META_COUNT = 11, META_ROOM = 32 };
typedef struct state_text {
    char numbers[META_COUNT][META_ROOM];
    safetensors_meta meta[META_COUNT + 1];
    size_t count;
} state_text;

static void add_text(state_text *t, const char *key, const char *value)
{
    t->meta[t->count++] = (safetensors_meta){key, value};
}

static void add_integer(state_text *t, const char *key, uint64_t value)
{
    snprintf(t->numbers[t->count], META_ROOM, "%" PRIu64, value);
    add_text(t, key, t->numbers[t->count]);
}

static void add_double(state_text *t, const char *key, double value)
{
    snprintf(t->numbers[t->count], META_ROOM, "%.17g", value);
    add_text(t, key, t->numbers[t->count]);
}

static void make_text(state_text *t, const train_state *s)
{
    *t = (state_text){0};
    snprintf(t->numbers[0], META_ROOM, "%016" PRIx64, s->model_hash);
    add_text(t, "model-hash", t->numbers[0]);
    add_integer(t, "step", (uint64_t)s->step);
    add_integer(t, "epoch", (uint64_t)s->epoch);
    add_integer(t, "position", s->position);
    add_integer(t, "rows", s->rows);
    add_integer(t, "batch", s->batch);
    add_integer(t, "seed", s->seed);
    add_double(t, "loss-sum", s->loss_sum);
    add_double(t, "best-loss", s->best);
    add_text(t, "learning-rate", s->schedule);
    if (s->gpus > 1) add_integer(t, "gpus", (uint64_t)s->gpus);
}

/* Writes to a file that is then on the disk, and closes it; false, with errno. */
static bool write_file(int fd, const train_state *state, const hyp_tensor *variables, size_t count)
{
    state_text text;
    make_text(&text, state);
    bool ok = safetensors_write(fd, variables, count, text.meta, text.count) && fsync(fd) == 0;
    int why = errno;
    if (close(fd) != 0 && ok) return false;
    errno = why;
    return ok;
}

/* The folder's entries, on the disk; some file systems have nothing to do for that. */
static bool sync_folder(const checkpoints *c) { return fsync(c->fd) == 0 || errno == EINVAL; }

/* Writes the draft. */
static bool write_draft(const checkpoints *c, const train_state *state, const hyp_tensor *variables, size_t count)
{
    int fd = open_draft(c);
    return fd >= 0 && write_file(fd, state, variables, count);
}

/* Makes the draft the best one: another name of the same file where there are such, else a file of its own. */
static bool name_best(const checkpoints *c, const train_state *state, const hyp_tensor *variables, size_t count)
{
    unlinkat(c->fd, best_draft, 0);
    if (linkat(c->fd, draft, c->fd, best_draft, 0) == 0)
        return renameat(c->fd, best_draft, c->fd, best_name) == 0 && sync_folder(c);
    return renameat(c->fd, draft, c->fd, best_name) == 0 && sync_folder(c) && write_draft(c, state, variables, count);
}

/* The best one comes first: a process that ends in between goes on from the step before, and comes to the same one
 * again. */
static bool write_all(const checkpoints *c, const char *name, const train_state *state, const hyp_tensor *variables,
                      size_t count, bool best)
{
    bool ok = write_draft(c, state, variables, count) && (!best || name_best(c, state, variables, count)) &&
              renameat(c->fd, draft, c->fd, name) == 0 && sync_folder(c);
    int why = errno;
    if (!ok) unlinkat(c->fd, draft, 0);
    if (!ok) unlinkat(c->fd, best_draft, 0);
    errno = why;
    return ok;
}

static void note_step(checkpoints *c, int64_t step)
{
    size_t at = c->count;
    while (at > 0 && c->steps[at - 1] > step) at--;
    if (at > 0 && c->steps[at - 1] == step) return;
    c->steps = cli_alloc(c->steps, c->count + 1, sizeof *c->steps);
    memmove(c->steps + at + 1, c->steps + at, (c->count - at) * sizeof *c->steps);
    c->steps[at] = step;
    c->count++;
}

static void remove_old(checkpoints *c)
{
    while ((int64_t)c->count > c->keep) {
        char name[NAME_ROOM];
        name_of(c->steps[0], name);
        unlinkat(c->fd, name, 0);
        memmove(c->steps, c->steps + 1, --c->count * sizeof *c->steps);
    }
}

int checkpoints_save(checkpoints *c, const train_state *state, const hyp_tensor *variables, size_t count, bool best)
{
    char name[NAME_ROOM];
    struct stat st;
    name_of(state->step, name);
    if (stat(c->path, &st) != 0 && errno == ENOENT) { /* it was removed */
        if (open_folder(c) != CLI_OK) return CLI_FAILED;
        c->count = 0;
    }
    if (!write_all(c, name, state, variables, count, best)) return fail(c, name, "cannot write the checkpoint");
    note_step(c, state->step);
    remove_old(c);
    return CLI_OK;
}

int checkpoints_rescue(const checkpoints *c, const train_state *state, const hyp_tensor *variables, size_t count)
{
    char path[4096], name[NAME_ROOM];
    snprintf(path, sizeof path, "%s/hypatia-XXXXXX.safetensors", cli_temp_folder());
    int fd = mkstemps(path, 12);
    if (fd < 0 || !write_file(fd, state, variables, count)) {
        cli_error(c->tool, "%s: cannot write the checkpoint there either: %s", path, strerror(errno));
        if (fd >= 0) unlink(path);
        return CLI_FAILED;
    }
    name_of(state->step, name);
    fprintf(stderr, "%s: the state is in %s; to resume from it, move it to %s/%s\n", c->tool, path, c->path, name);
    return CLI_OK;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static bool read_integer(const safetensors *s, const char *key, int base, uint64_t *out)
{
    const char *text = safetensors_text(s, key);
    char *end;
    if (!text || !*text || strspn(text, "0123456789abcdef") != strlen(text)) return false;
    errno = 0;
    *out = strtoull(text, &end, base);
    return !*end && errno == 0;
}

static bool read_double(const safetensors *s, const char *key, double *out)
{
    const char *text = safetensors_text(s, key);
    return text && cli_parse_double(text, -INFINITY, out);
}

static bool read_state(const safetensors *s, train_state *out)
{
    uint64_t step, epoch, gpus = 1;
    train_state t = {0};
    const char *schedule = safetensors_text(s, "learning-rate");
    if (!read_integer(s, "model-hash", 16, &t.model_hash) || !read_integer(s, "step", 10, &step) ||
        !read_integer(s, "epoch", 10, &epoch) || !read_integer(s, "position", 10, &t.position) ||
        !read_integer(s, "rows", 10, &t.rows) || !read_integer(s, "batch", 10, &t.batch) ||
        !read_integer(s, "seed", 10, &t.seed) || !read_double(s, "loss-sum", &t.loss_sum) ||
        !read_double(s, "best-loss", &t.best) || !schedule || strlen(schedule) >= sizeof t.schedule)
        return false;
    if (safetensors_text(s, "gpus") && !read_integer(s, "gpus", 10, &gpus)) return false;
    const uint64_t most = INT64_MAX / 4; /* so that nobody's sums overflow */
    if (step > most || epoch > most || t.rows > most || t.position > t.rows || t.batch == 0 || t.batch > most ||
        gpus == 0 || gpus > most)
        return false;
    t.step = (int64_t)step;
    t.epoch = (int64_t)epoch;
    t.gpus = (int64_t)gpus;
    strcpy(t.schedule, schedule);
    *out = t;
    return true;
}

static bool is_same(const hyp_tensor *a, const hyp_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

/* The place of every variable in the file; CLI_USAGE after a message where it has not just these. */
static int match(const checkpoints *c, const safetensors *s, const hyp_tensor *variables, size_t count, size_t *places)
{
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < s->count && strcmp(s->tensors[k].name, variables[i].name) != 0) k++;
        places[i] = k;
        if (k < s->count && is_same(&s->tensors[k], &variables[i])) continue;
        cli_error(c->tool, "%s: %s variable '%s'%s", s->path, k < s->count ? "its" : "has no",
                cli_shown(variables[i].name), k < s->count ? " is of another type or other dims than the plan's" : "");
        return CLI_USAGE;
    }
    if (s->count == count) return CLI_OK;
    cli_error(c->tool, "%s: has %zu tensors, but the plan %zu variables", s->path, s->count, count);
    return CLI_USAGE;
}

/* CLI_FAILED: it is damaged, and one before may not be. */
static int restore_from(const checkpoints *c, int64_t step, train_state *state, const hyp_tensor *variables,
                        size_t count)
{
    char name[NAME_ROOM], path[4096];
    safetensors s;
    train_state found;
    name_of(step, name);
    snprintf(path, sizeof path, "%s/%s", c->path, name);
    if (safetensors_open(&s, path, c->tool) != CLI_OK) return CLI_FAILED;
    int code = CLI_OK;
    size_t *places = cli_alloc(NULL, count, sizeof *places);
    if (!read_state(&s, &found) || found.step != step) {
        cli_error(c->tool, "%s: is no checkpoint of a training: its metadata are not those of one", path);
        code = CLI_FAILED;
    } else if (found.model_hash != state->model_hash) {
        cli_error(c->tool, "%s: is of another model than the plan", path);
        code = CLI_USAGE;
    } else {
        code = match(c, &s, variables, count, places);
    }
    for (size_t i = 0; i < count && code == CLI_OK; i++) code = safetensors_read(&s, places[i], &variables[i], c->tool);
    if (code == CLI_OK) *state = found;
    free(places);
    safetensors_close(&s);
    return code;
}

int checkpoints_restore(checkpoints *c, train_state *state, const hyp_tensor *variables, size_t count, bool *found)
{
    *found = false;
    for (size_t i = c->count; i-- > 0;) {
        int code = restore_from(c, c->steps[i], state, variables, count);
        *found = code == CLI_OK;
        if (*found) remove_old(c); /* where a process was killed before it could */
        if (code != CLI_FAILED) return code;
        if (i) fprintf(stderr, "%s: the checkpoint before it is taken\n", c->tool);
    }
    return c->count ? CLI_FAILED : CLI_OK;
}
