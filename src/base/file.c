#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* All that comes, in memory that is mapped like a file. */
static hyp_status read_pipe(int fd, const char *path, hyp_mapping *out, hyp_diag *diag)
{
    size_t room = (size_t)1 << 20, size = 0;
    uint8_t *data = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (ssize_t n = 1; n > 0 && data != MAP_FAILED;) {
        if (size == room) {
            void *larger = mremap(data, room, 2 * room, MREMAP_MAYMOVE);
            if (larger == MAP_FAILED) break;
            data = larger;
            room *= 2;
        }
        n = read(fd, data + size, room - size);
        if (n < 0 && errno == EINTR) {
            n = 1;
        } else if (n < 0) {
            munmap(data, room);
            return hyp_fail(diag, HYP_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        } else {
            size += (size_t)n;
            if (n > 0) continue;
            /* What is left over goes, so that unmapping needs the size alone. */
            size_t page = (size_t)sysconf(_SC_PAGESIZE), used = (size + page - 1) / page * page;
            if (used < room) munmap(data + used, room - used);
            *out = size ? (hyp_mapping){data, size, true} : (hyp_mapping){.copied = true};
            return HYP_OK;
        }
    }
    if (data != MAP_FAILED) munmap(data, room);
    return hyp_fail_memory(diag, 2 * room);
}

hyp_status hyp_map_file(const char *path, hyp_mapping *out, hyp_diag *diag)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return hyp_fail(diag, HYP_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    hyp_status status = HYP_OK;
    hyp_mapping map = {0};
    if (fstat(fd, &st) != 0) {
        status = hyp_fail(diag, HYP_ERR_IO, "%s: cannot read its size: %s", path, strerror(errno));
    } else if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) {
        status = read_pipe(fd, path, &map, diag);
    } else if (!S_ISREG(st.st_mode)) {
        status =
            hyp_fail(diag, HYP_ERR_IO, "%s: is not a regular file%s", path, S_ISDIR(st.st_mode) ? " but a folder" : "");
    } else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            status = hyp_fail(diag, HYP_ERR_IO, "%s: cannot map: %s", path, strerror(errno));
        else
            map = (hyp_mapping){p, (size_t)st.st_size, false};
    }
    close(fd);
    if (status == HYP_OK) *out = map;
    return status;
}

void hyp_unmap(hyp_mapping *map)
{
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (hyp_mapping){0};
}

void hyp_map_forget(const hyp_mapping *map, const void *start, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)start, end = begin + size;
    uintptr_t low = (uintptr_t)map->data, high = low + map->size;
    if (!map->data || map->copied || begin < low || end > high) return;
    begin = (begin + page - 1) & ~(page - 1);
    end &= ~(page - 1);
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* All of it, in pieces and again where a signal came in between; false, with errno, where that cannot be. */
static bool write_all(int fd, const char *p, size_t size)
{
    while (size) {
        ssize_t n = write(fd, p, size < ((size_t)1 << 30) ? size : (size_t)1 << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

int hyp_memory_file(const void *data, size_t size, char path[HYP_MEMORY_PATH])
{
    int fd = memfd_create("hypatia", MFD_CLOEXEC);
    if (fd < 0) return -1;
    if (!write_all(fd, data, size)) {
        close(fd);
        return -1;
    }
    snprintf(path, HYP_MEMORY_PATH, "/dev/fd/%d", fd);
    return fd;
}

bool hyp_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return strcmp(a, "-") != 0 && strcmp(b, "-") != 0 && stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* ---- output -------------------------------------------------------------------------------------------------- */

enum { TEMP_ROOM = 64, TEMP_MOST = 1000 };

/* The length of the part of `path` that names its folder, with the slash; 0: the current one. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The i-th name for a temporary file: other threads, and killed processes of the same id, leave theirs. */
static void name_temp(const hyp_outfile *f, int i, char *temp)
{
    size_t folder = folder_length(f->path);
    memcpy(temp, f->path, folder);
    snprintf(temp + folder, TEMP_ROOM, ".hypatia-%ld-%d.tmp", (long)getpid(), i);
}

/* A file without a name in the folder that `temp`, which has room, then holds; -1 where there is no such thing. */
static int open_unnamed(hyp_outfile *f, char *temp)
{
#ifdef O_TMPFILE
    size_t folder = folder_length(f->path);
    memcpy(temp, f->path, folder);
    strcpy(temp + folder, folder ? "" : ".");
    int fd = open(temp, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    snprintf(f->link, sizeof f->link, "/proc/self/fd/%d", fd);
    if (access(f->link, F_OK) == 0) return fd;
    close(fd);
#else
    (void)f, (void)temp;
#endif
    return -1;
}

/* Gives an unnamed file a name of its own; errno says why not. */
static bool link_temp(hyp_outfile *f)
{
    char *temp = hyp_malloc(folder_length(f->path) + TEMP_ROOM);
    if (!temp) {
        errno = ENOMEM;
        return false;
    }
    for (int i = 0; i < TEMP_MOST && !f->temp; i++) {
        name_temp(f, i, temp);
        if (linkat(AT_FDCWD, f->link, AT_FDCWD, temp, AT_SYMLINK_FOLLOW) == 0)
            f->temp = temp;
        else if (errno != EEXIST)
            break;
    }
    if (!f->temp) hyp_free(temp);
    return f->temp != NULL;
}

/* On failure fd is -1 and errno says why. Takes over `temp`. */
static void open_temp(hyp_outfile *f, char *temp)
{
    f->fd = open_unnamed(f, temp);
    f->unnamed = f->fd >= 0;
    for (int i = 0; i < TEMP_MOST && f->fd < 0; i++) {
        name_temp(f, i, temp);
        f->fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno != EEXIST) break;
    }
    if (f->fd >= 0 && !f->unnamed)
        f->temp = temp;
    else
        hyp_free(temp);
}

hyp_status hyp_outfile_open(hyp_outfile *f, const char *path, hyp_diag *diag)
{
    *f = (hyp_outfile){.fd = -1};
    if (strcmp(path, "-") == 0) {
        f->fd = STDOUT_FILENO;
        return HYP_OK;
    }
    char *target = realpath(path, NULL); /* a link stays, what it points to is replaced; NULL where nothing is yet */
    const char *to = target ? target : path;
    size_t len = strlen(to), room = len + TEMP_ROOM;
    f->path = hyp_malloc(len + 1);
    if (f->path) memcpy(f->path, to, len + 1);
    free(target);
    struct stat st;
    bool there = f->path && stat(path, &st) == 0;
    if (there && !S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || st.st_nlink == 0)) {
        f->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else if (there && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
    } else {
        char *temp = hyp_malloc(room);
        if (!f->path || !temp) {
            hyp_free(temp);
            hyp_outfile_abort(f);
            return hyp_fail_memory(diag, room);
        }
        f->replaces = there;
        if (there) f->mode = st.st_mode & 0777;
        open_temp(f, temp);
    }
    if (f->fd >= 0) return HYP_OK;
    hyp_status status = hyp_fail(diag, HYP_ERR_IO, "%s: cannot create: %s", path, strerror(errno));
    hyp_outfile_abort(f);
    return status;
}

const char *hyp_outfile_draft(const hyp_outfile *f) { return f->unnamed ? f->link : f->temp; }

hyp_status hyp_outfile_write(hyp_outfile *f, const void *data, size_t size, hyp_diag *diag)
{
    f->offset += size;
    if (write_all(f->fd, data, size)) return HYP_OK;
    return hyp_fail(diag, HYP_ERR_IO, "%s: cannot write: %s", f->path ? f->path : "standard output", strerror(errno));
}

hyp_status hyp_outfile_patch(hyp_outfile *f, uint64_t offset, const void *data, size_t size, hyp_diag *diag)
{
    const char *p = data;
    while (size) {
        ssize_t n = pwrite(f->fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return hyp_fail(diag, HYP_ERR_IO, "%s: cannot write: %s", f->path ? f->path : "standard output",
                            strerror(errno));
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return HYP_OK;
}

/* Closes the file and puts it in place; errno says why not. */
static bool put_in_place(hyp_outfile *f)
{
    bool whole = (!f->replaces || fchmod(f->fd, f->mode) == 0) && (!f->unnamed || link_temp(f));
    int error = errno;
    if (close(f->fd) != 0 && whole) {
        whole = false;
        error = errno;
    }
    f->fd = -1;
    errno = error;
    if (!whole || !f->temp) return whole;
    if (rename(f->temp, f->path) != 0) return false;
    hyp_free(f->temp);
    f->temp = NULL;
    return true;
}

hyp_status hyp_outfile_commit(hyp_outfile *f, hyp_diag *diag)
{
    hyp_status status = HYP_OK;
    if (f->path) {
        sigset_t all, before;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &before); /* of this thread: for a moment there is a temporary name */
        if (!put_in_place(f))
            status = hyp_fail(diag, errno == ENOMEM ? HYP_ERR_NO_MEMORY : HYP_ERR_IO,
                              "%s: cannot put the finished file in place: %s", f->path, strerror(errno));
        hyp_outfile_abort(f);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    hyp_outfile_abort(f);
    return status;
}

void hyp_outfile_abort(hyp_outfile *f)
{
    if (f->path && f->fd >= 0) close(f->fd);
    if (f->temp) unlink(f->temp);
    hyp_free(f->path);
    hyp_free(f->temp);
    *f = (hyp_outfile){.fd = -1};
}
