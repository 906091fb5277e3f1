/* overwrite.h - nothing is overwritten unasked: what a command reads and what it writes are different files. */
#ifndef HYPATIA_TOOLS_OVERWRITE_H
#define HYPATIA_TOOLS_OVERWRITE_H

#include "cli.h"

/* The files of a command line. Zero-initialise. */
typedef struct file_uses {
    struct file_use *items;
    size_t count;
} file_uses;

/* `what` calls the file in messages, "the model" or "--cache", and is borrowed. A NULL path and "-" are no files. */
void file_uses_add(file_uses *uses, const char *what, const char *path, bool written);
/* The file of a value "x=@x.npy", where it names one; of an output the "@" may be left out. */
void file_uses_add_value(file_uses *uses, const char *what, const char *value, bool written);
/* What is read of a folder of test data. */
void file_uses_add_folder(file_uses *uses, const char *what, const char *folder);

/* CLI_USAGE after a message where a file that is written is also another one of them, through whatever links, and forgets
 * them all. */
int file_uses_check(file_uses *uses, const cli_args *args);

#endif
