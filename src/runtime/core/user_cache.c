#include "runtime/core/user_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"

/* An entry: this, its text, its data. */
typedef struct head {
    char magic[16];
    uint64_t text_bytes, data_bytes, hash; /* of both, one after the other */
} head;
static const char magic[sizeof((head *)NULL)->magic] = "hypatia cache 1";

static const char ending[] = ".entry";
enum { NAME = 32 };

/* ---- the folder ---------------------------------------------------------------------------------------------- */

/* Where the folder is; false where there is to be none. */
static bool find_folder(char out[PATH_MAX])
{
    const char *given = secure_getenv("HYPATIA_CACHE"), *xdg = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    int length;
    if (given && *given)
        length = strcmp(given, "none") == 0 ? 0 : snprintf(out, PATH_MAX, "%s", given);
    else if (xdg && *xdg == '/')
        length = snprintf(out, PATH_MAX, "%s/hypatia", xdg);
    else
        length = home && *home == '/' ? snprintf(out, PATH_MAX, "%s/.cache/hypatia", home) : 0;
    return length > 0 && length < PATH_MAX;
}

/* Nobody but this user and root can have put there what is there. */
static bool is_ours(const struct stat *s)
{
    return (s->st_uid == geteuid() || s->st_uid == 0) && (s->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Makes the folders of a path that are not there, for this user alone. */
static void make_folders(char *path)
{
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            mkdir(path, S_IRWXU);
            *at = '/';
        }
    mkdir(path, S_IRWXU);
}

/* A descriptor of the folder; -1 where there is none that can be trusted. */
static int open_folder(bool make)
{
    char path[PATH_MAX];
    struct stat s;
    if (!find_folder(path)) return -1;
    if (make) make_folders(path);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || (fstat(folder, &s) == 0 && is_ours(&s))) return folder;
    close(folder);
    return -1;
}

static void name_of(const char *text, char out[NAME])
{
    snprintf(out, NAME, "%016llx%s", (unsigned long long)hyp_hash(text, strlen(text), 0), ending);
}

static uint64_t hash_of(const char *text, const uint8_t *data, size_t bytes)
{
    return hyp_hash(data, bytes, hyp_hash(text, strlen(text), 0));
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

static bool read_all(int file, void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(file, (char *)to + done, bytes - done);
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

/* The head of a file that can be trusted, if it has the size that it says. */
static bool read_head(int file, const char *text, head *out)
{
    struct stat s;
    if (fstat(file, &s) != 0 || !S_ISREG(s.st_mode) || !is_ours(&s) || s.st_size > HYP_USER_CACHE_ENTRY) return false;
    if (!read_all(file, out, sizeof *out) || memcmp(out->magic, magic, sizeof magic) != 0) return false;
    uint64_t rest = (uint64_t)s.st_size - sizeof *out;
    return out->text_bytes == strlen(text) && out->text_bytes <= rest && out->data_bytes == rest - out->text_bytes;
}

static hyp_status read_entry(int file, const char *text, uint8_t **out, size_t *out_bytes, hyp_diag *diag)
{
    head h;
    if (!read_head(file, text, &h)) return HYP_OK;
    size_t text_bytes = (size_t)h.text_bytes, data_bytes = (size_t)h.data_bytes;
    uint8_t *all = hyp_malloc(text_bytes + data_bytes + 1);
    if (!all) return hyp_fail_memory(diag, text_bytes + data_bytes);
    bool good = read_all(file, all, text_bytes + data_bytes) && memcmp(all, text, text_bytes) == 0 &&
                h.hash == hash_of(text, all + text_bytes, data_bytes);
    if (!good) {
        hyp_free(all);
        return HYP_OK;
    }
    memmove(all, all + text_bytes, data_bytes);
    futimens(file, NULL); /* used now */
    *out = all;
    *out_bytes = data_bytes;
    return HYP_OK;
}

hyp_status hyp_user_cache_get(const char *text, uint8_t **out, size_t *out_bytes, hyp_diag *diag)
{
    char name[NAME];
    int folder = open_folder(false);
    *out = NULL;
    *out_bytes = 0;
    if (folder < 0) return HYP_OK;
    name_of(text, name);
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    close(folder);
    if (file < 0) return HYP_OK;
    hyp_status status = read_entry(file, text, out, out_bytes, diag);
    close(file);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

/* The entry that was used longest ago, and what all take. */
static uint64_t look_around(int folder, char oldest[NAME])
{
    uint64_t total = 0;
    struct timespec least = {0};
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again >= 0 ? fdopendir(again) : NULL;
    struct stat s;
    *oldest = 0;
    if (!list && again >= 0) close(again);
    for (struct dirent *e; list && (e = readdir(list));) {
        size_t length = strlen(e->d_name), end = sizeof ending - 1;
        if (length >= NAME || length <= end || strcmp(e->d_name + length - end, ending) != 0) continue;
        if (fstatat(folder, e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) continue;
        total += (uint64_t)s.st_size;
        bool older =
            s.st_mtim.tv_sec < least.tv_sec || (s.st_mtim.tv_sec == least.tv_sec && s.st_mtim.tv_nsec < least.tv_nsec);
        if (*oldest && !older) continue;
        least = s.st_mtim;
        memcpy(oldest, e->d_name, length + 1);
    }
    if (list) closedir(list);
    return total;
}

static void make_room(int folder, size_t bytes)
{
    char oldest[NAME];
    while (look_around(folder, oldest) + bytes > HYP_USER_CACHE_MOST && *oldest)
        if (unlinkat(folder, oldest, 0) != 0) return;
}

static bool write_all(int file, const void *from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(file, (const char *)from + done, bytes - done);
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

void hyp_user_cache_put(const char *text, const uint8_t *data, size_t bytes)
{
    char name[NAME], draft[NAME + 32];
    head h = {.text_bytes = strlen(text), .data_bytes = bytes, .hash = hash_of(text, data, bytes)};
    memcpy(h.magic, magic, sizeof magic);
    if (sizeof h + h.text_bytes + bytes > HYP_USER_CACHE_ENTRY) return;
    int folder = open_folder(true);
    if (folder < 0) return;
    make_room(folder, sizeof h + (size_t)h.text_bytes + bytes);
    name_of(text, name);
    snprintf(draft, sizeof draft, "%s.%ld.%p", name, (long)getpid(), (void *)&h); /* of this thread alone */
    unlinkat(folder, draft, 0);                                                   /* of one that was killed */
    int file = openat(folder, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file >= 0) {
        bool whole = write_all(file, &h, sizeof h) && write_all(file, text, (size_t)h.text_bytes) &&
                     write_all(file, data, bytes);
        whole = close(file) == 0 && whole;
        if (!whole || renameat(folder, draft, folder, name) != 0) unlinkat(folder, draft, 0);
    }
    close(folder);
}
