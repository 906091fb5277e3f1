/* processors.h - the processors that a process may use. */
#ifndef HYP_RUNTIME_CORE_PROCESSORS_H
#define HYP_RUNTIME_CORE_PROCESSORS_H

#include <sched.h>
#include <stdbool.h>

/* How many the calling thread may use: those of its affinity mask, or fewer where a control group has a quota of time.
 */
int hyp_processors(void);
/* What control groups of version 2 leave to the group that the file (/proc/self/cgroup) names, below `root`
 * (/sys/fs/cgroup): time of processors per time, rounded up; INT_MAX where nothing is said. */
int hyp_processors_of_group(const char *file, const char *root);

/* Reads "0-3,8" without those that the calling thread may not use; false where that is no such list, or none is left.
 */
bool hyp_processors_read(const char *list, cpu_set_t *out);

#endif
