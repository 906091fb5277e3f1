#include "folders.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int is_data_set(const struct dirent *entry) { return strncmp(entry->d_name, "test_data_set_", 14) == 0; }

int for_data_sets(const char *folder, int (*each)(void *user, const char *path), void *user)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_data_set, versionsort), code = CLI_OK;
    if (count <= 0) code = each(user, folder);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        int one = each(user, path);
        if (one != CLI_OK && code != CLI_FAILED) code = one;
        free(entries[i]);
    }
    free(entries);
    return code;
}
