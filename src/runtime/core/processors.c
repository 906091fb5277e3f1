#include "runtime/core/processors.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of one group; INT_MAX where it has no quota. */
static int read_quota(const char *root, const char *group)
{
    char path[2 * PATH_MAX];
    long quota, period;
    int most = INT_MAX;
    snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
    FILE *file = fopen(path, "r");
    if (!file) return most;
    if (fscanf(file, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0)
        most = (int)((quota - 1) / period) + 1;
    fclose(file);
    return most;
}

int hyp_processors_of_group(const char *path, const char *root)
{
    char line[PATH_MAX];
    int least = INT_MAX;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::", 3) != 0) continue;
        char *group = line + 3;
        group[strcspn(group, "\n")] = 0;
        for (char *end = group + strlen(group); end; end = strrchr(group, '/')) { /* a group's quota holds within it */
            *end = 0;
            int most = read_quota(root, group);
            if (most < least) least = most;
        }
    }
    if (file) fclose(file);
    return least;
}

int hyp_processors(void)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
    int most = hyp_processors_of_group("/proc/self/cgroup", "/sys/fs/cgroup");
    if (most < count) count = most;
    return count > 0 ? count : 1;
}

bool hyp_processors_read(const char *list, cpu_set_t *out)
{
    cpu_set_t may;
    CPU_ZERO(out);
    if (sched_getaffinity(0, sizeof may, &may) != 0) return false;
    for (;; list++) {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (end == list) return false;
        list = end;
        if (*list == '-') {
            last = strtoul(++list, &end, 10);
            if (end == list) return false;
            list = end;
        }
        if (last < first || last >= CPU_SETSIZE) return false;
        for (unsigned long i = first; i <= last; i++)
            if (CPU_ISSET(i, &may)) CPU_SET(i, out);
        if (*list != ',') break;
    }
    return *list == 0 && CPU_COUNT(out) > 0;
}
