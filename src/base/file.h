/* file.h - whole-file input by mapping, and output that never leaves half a file. */
#ifndef HYP_BASE_FILE_H
#define HYP_BASE_FILE_H

#include <stdbool.h>

#include "base/mem.h"

/* A file mapped read-only. data is NULL when size is 0. */
typedef struct hyp_mapping {
    const uint8_t *data;
    size_t size;
    bool copied; /* read from a pipe: the bytes are nowhere else */
} hyp_mapping;

/* Maps a regular file, and reads a pipe to its end; a folder, a missing or unreadable file fails with HYP_ERR_IO and the
 * reason. */
HYP_NODISCARD hyp_status hyp_map_file(const char *path, hyp_mapping *out, hyp_diag *diag);
void hyp_unmap(hyp_mapping *map);
/* Tells the kernel that this part (clipped to whole pages) is not needed soon: keeps peak memory low
 * while a large file is streamed. */
void hyp_map_forget(const hyp_mapping *map, const void *start, size_t size);

/* A file in memory with these bytes, which are there under `path` until the descriptor is closed; -1 where there can be
 * none. */
enum { HYP_MEMORY_PATH = 32 };
int hyp_memory_file(const void *data, size_t size, char path[HYP_MEMORY_PATH]);

/* Whether both paths lead to one regular file, through links or not. False where one of them is not there yet, and for
 * "-". */
bool hyp_same_file(const char *a, const char *b);

/* Writes to a file beside `path` that has no name, so that nothing is left of it however the process ends; commit gives
 * it the name and the permissions of `path`, abort lets go of it. A file system that has no such files gets a temporary
 * one, which stays only if the process is killed. "-" writes to standard output, what is there but is no regular file (/dev/null, a pipe) or has no name any more (an unlinked
 * file, as /dev/fd/3) is written to, not replaced, and where `path` is a symbolic link the file that it points to is
 * replaced. Threads and processes may write the same path at once: the last commit wins. */
typedef struct hyp_outfile {
    int fd;
    char *path, *temp; /* path NULL for standard output, temp NULL where nothing has another name for now */
    bool unnamed;      /* commit has to name it */
    char link[32];     /* a path to it as long as it is open, where it is unnamed */
    bool replaces;     /* `path` was there, with this mode */
    unsigned mode;
    uint64_t offset;   /* bytes written by hyp_outfile_write so far */
} hyp_outfile;

HYP_NODISCARD hyp_status hyp_outfile_open(hyp_outfile *f, const char *path, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_outfile_write(hyp_outfile *f, const void *data, size_t size, hyp_diag *diag);
/* A path by which what was written can be read before commit; NULL where it is no file of our own. */
const char *hyp_outfile_draft(const hyp_outfile *f);
/* Overwrites bytes already written; regular files only. */
HYP_NODISCARD hyp_status hyp_outfile_patch(hyp_outfile *f, uint64_t offset, const void *data, size_t size,
                                           hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_outfile_commit(hyp_outfile *f, hyp_diag *diag); /* closes, also on failure */
void hyp_outfile_abort(hyp_outfile *f); /* does nothing after commit or on a zeroed struct */

#endif
