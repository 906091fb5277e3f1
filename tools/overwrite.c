#include "overwrite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "folders.h"

struct file_use {
    const char *what;
    char *path;
    bool written;
};

void file_uses_add(file_uses *uses, const char *what, const char *path, bool written)
{
    if (!path || strcmp(path, "-") == 0) return;
    uses->items = cli_alloc(uses->items, uses->count + 1, sizeof *uses->items);
    uses->items[uses->count++] = (struct file_use){what, cli_copy(path, strlen(path)), written};
}

void file_uses_add_value(file_uses *uses, const char *what, const char *value, bool written)
{
    const char *equals = strrchr(value, '=');
    if (!equals || (!written && equals[1] != '@')) return;
    file_uses_add(uses, what, equals + 1 + (equals[1] == '@'), written);
}

typedef struct folder_use {
    file_uses *uses;
    const char *what;
} folder_use;

static int add_data_set(void *opaque, const char *folder)
{
    static const char *const kinds[] = {"input", "output"};
    const folder_use *f = opaque;
    for (int kind = 0; kind < 2; kind++)
        for (size_t k = 0;; k++) {
            char path[4096];
            struct stat st;
            snprintf(path, sizeof path, "%s/%s_%zu.pb", folder, kinds[kind], k);
            if (stat(path, &st) != 0) break;
            file_uses_add(f->uses, f->what, path, false);
        }
    return CLI_OK;
}

void file_uses_add_folder(file_uses *uses, const char *what, const char *folder)
{
    folder_use f = {uses, what};
    (void)for_data_sets(folder, add_data_set, &f);
}

/* A pipe or a device is no file that could be lost. Two that are not there yet are one where their names are. */
static bool is_one_file(const struct file_use *a, const struct file_use *b)
{
    struct stat x, y;
    if (stat(a->path, &x) != 0) return strcmp(a->path, b->path) == 0;
    return stat(b->path, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static const struct file_use *find_other(const file_uses *uses, const struct file_use *written)
{
    for (size_t i = 0; i < uses->count; i++)
        if (&uses->items[i] != written && is_one_file(written, &uses->items[i])) return &uses->items[i];
    return NULL;
}

int file_uses_check(file_uses *uses, const cli_args *args)
{
    int code = CLI_OK;
    for (size_t i = 0; i < uses->count && code == CLI_OK; i++) {
        const struct file_use *written = &uses->items[i], *other = written->written ? find_other(uses, written) : NULL;
        if (other)
            code = cli_usage_error(args, "%s '%s' is the same file as %s '%s', which would be lost; write to another",
                                   written->what, written->path, other->what, other->path);
    }
    for (size_t i = 0; i < uses->count; i++) free(uses->items[i].path);
    free(uses->items);
    *uses = (file_uses){0};
    return code;
}
