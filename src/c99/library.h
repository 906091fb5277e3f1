/* library.h - the texts of library/: functions in C99 of which files that are written have those that they call. Each file
 * there begins with includes of what it needs, which are resolved when it is written out. */
#ifndef HYP_C99_LIBRARY_H
#define HYP_C99_LIBRARY_H

#include "base/builtin.h"

extern const hyp_builtin_text hyp_c99_library[];
extern const size_t hyp_c99_library_count;

#endif
