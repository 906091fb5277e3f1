/* folders.h - folders of test data, as ONNX has them: test_data_set_N with input_K.pb. */
#ifndef HYPATIA_TOOLS_FOLDERS_H
#define HYPATIA_TOOLS_FOLDERS_H

#include "cli.h"

bool is_folder(const char *path);
/* Calls `each` for every test_data_set_* of the folder, in the order of their numbers, or, where there is none, for the
 * folder itself. Returns the first code that is not CLI_OK, CLI_FAILED before others. */
int for_data_sets(const char *folder, int (*each)(void *user, const char *path), void *user);

#endif
