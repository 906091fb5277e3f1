#include "svg.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

bool svg_draw(const char *tool, FILE *dot, const char *path, const char *instead)
{
    int status = -1;
    fflush(dot);
    rewind(dot);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(dot), STDIN_FILENO);
        execlp("dot", "dot", "-Tsvg", "-o", path, (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    bool ended = child > 0 && WIFEXITED(status);
    if (ended && WEXITSTATUS(status) == 0) return true;
    fprintf(stderr, "%s: %s: Graphviz's program dot, which draws it, %s; %s needs none\n", tool, path,
            ended && WEXITSTATUS(status) == 127 ? "is not there" : "failed", instead);
    return false;
}
