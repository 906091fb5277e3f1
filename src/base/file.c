#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
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
        status = hyp_fail(diag, HYP_ERR_IO, "%s: is not a regular file%s", path,
                          S_ISDIR(st.st_mode) ? " but a folder" : "");
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

/* A file that is not there yet: other threads, and killed processes of the same id, leave theirs. On failure fd
 * is -1 and errno says why. */
static void open_temp(hyp_outfile *f, char *temp, size_t room)
{
    enum { MOST = 1000 };
    for (int i = 0; i < MOST && f->fd < 0; i++) {
        snprintf(temp, room, "%s.%ld.%d.tmp", f->path, (long)getpid(), i);
        f->fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno != EEXIST) break;
    }
    if (f->fd >= 0)
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
    size_t len = strlen(to), room = len + 48;
    f->path = hyp_malloc(len + 1);
    if (f->path) memcpy(f->path, to, len + 1);
    free(target);
    struct stat st;
    bool there = f->path && stat(path, &st) == 0;
    if (there && !S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || st.st_nlink == 0)) {
        f->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        char *temp = hyp_malloc(room);
        if (!f->path || !temp) {
            hyp_free(temp);
            hyp_outfile_abort(f);
            return hyp_fail_memory(diag, room);
        }
        open_temp(f, temp, room);
    }
    if (f->fd >= 0) return HYP_OK;
    hyp_status status = hyp_fail(diag, HYP_ERR_IO, "%s: cannot create: %s", path, strerror(errno));
    hyp_outfile_abort(f);
    return status;
}

hyp_status hyp_outfile_write(hyp_outfile *f, const void *data, size_t size, hyp_diag *diag)
{
    const char *p = data;
    f->offset += size;
    while (size) {
        ssize_t n = write(f->fd, p, size < ((size_t)1 << 30) ? size : (size_t)1 << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return hyp_fail(diag, HYP_ERR_IO, "%s: cannot write: %s", f->path ? f->path : "standard output", strerror(errno));
        p += n;
        size -= (size_t)n;
    }
    return HYP_OK;
}

hyp_status hyp_outfile_patch(hyp_outfile *f, uint64_t offset, const void *data, size_t size, hyp_diag *diag)
{
    const char *p = data;
    while (size) {
        ssize_t n = pwrite(f->fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return hyp_fail(diag, HYP_ERR_IO, "%s: cannot write: %s", f->path ? f->path : "standard output", strerror(errno));
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return HYP_OK;
}

hyp_status hyp_outfile_commit(hyp_outfile *f, hyp_diag *diag)
{
    hyp_status status = HYP_OK;
    if (f->path) {
        if (close(f->fd) != 0)
            status = hyp_fail(diag, HYP_ERR_IO, "%s: cannot write: %s", f->path, strerror(errno));
        f->fd = -1;
    }
    if (status == HYP_OK && f->temp) {
        if (rename(f->temp, f->path) != 0) {
            status = hyp_fail(diag, HYP_ERR_IO, "%s: cannot put the finished file in place: %s", f->path, strerror(errno));
        } else {
            hyp_free(f->temp);
            f->temp = NULL;
        }
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
