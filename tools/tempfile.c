#include "tempfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

int tempfile_open(tempfile *f, const char *tool)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/hypatia-XXXXXX", cli_temp_folder());
    f->fd = mkstemp(name);
    if (f->fd < 0) {
        cli_error(tool, "%s: cannot create a temporary file: %s", name, strerror(errno));
        return CLI_FAILED;
    }
    unlink(name);
    snprintf(f->path, sizeof f->path, "/dev/fd/%d", f->fd);
    return CLI_OK;
}

void tempfile_close(tempfile *f) { close(f->fd); }
