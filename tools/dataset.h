/* dataset.h - rows of data for a plan: a .npy file, or a folder of them, for each of its inputs. Files are mapped, so
 * that there may be more of them than memory.
 */
#ifndef HYPATIA_TOOLS_DATASET_H
#define HYPATIA_TOOLS_DATASET_H

#include "cli.h"
#include "hypatia/runtime.h"
#include "hypatia/tensor_io.h"

/* A file of a column. */
typedef struct dataset_shard {
    hyp_tensor rows; /* along its first axis; mapped */
    hyp_tensor_mapping *mapping;
    uint64_t first; /* row of the column */
} dataset_shard;

/* Makes `count` elements of the input of those of a file; floats times `scale`. */
typedef void dataset_convert_fn(void *to, const void *from, size_t count, float scale);

/* The rows of one input, in one or more files. */
typedef struct dataset_column {
    char *name; /* of the input */
    dataset_shard *shards;
    size_t shard_count;
    uint64_t rows;
    size_t input;    /* its number */
    hyp_tensor row;  /* of the input: its type, and its dims without the first */
    size_t elements; /* of a row */
    dataset_convert_fn *convert;
    float scale;
} dataset_column;

/* Zero-initialise. */
typedef struct dataset {
    dataset_column *columns;
    size_t count;
    uint64_t rows;       /* of every column */
    int64_t fixed_batch; /* rows of a batch, where the plan says it; 0 = any number */
} dataset;

/* Maps "x=x.npy" or "x=folder", whose .npy files are taken in the order of their names, numbers in these by their
 * value. `option` is what the sources came by, for messages; `scales` are "x=0.00392156862745098". All columns have to
 * have as many rows, and to fit the plan's inputs: the rank, the dims but the first, and the type, which may also be
 * one that is converted: any integers or floats to f32, smaller integers to i64 and i32. An exit code after a message;
 * to be closed in any case. */
int dataset_open(dataset *d, const hyp_engine *engine, const cli_list *sources, const cli_list *scales,
                 const char *option, const char *tool);
void dataset_close(dataset *d);

/* Whether the input has a column. */
bool dataset_has(const dataset *d, size_t input);
/* Copies these rows of a column, one behind the other, to memory of their size in the plan's type. */
void dataset_read(const dataset_column *c, const uint64_t *rows, size_t count, void *out);

#endif
