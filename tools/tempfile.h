/* tempfile.h - a file that goes with the process: it has no name from the start, so nothing is left behind, however
 * the process ends.
 */
#ifndef HYPATIA_TOOLS_TEMPFILE_H
#define HYPATIA_TOOLS_TEMPFILE_H

typedef struct tempfile {
    int fd;
    char path[32]; /* "/dev/fd/3": to be written to and read from */
} tempfile;

/* In $TMPDIR, /tmp where there is none. An exit code after a message; on failure there is nothing to close. */
int tempfile_open(tempfile *f, const char *tool);
void tempfile_close(tempfile *f);

#endif
