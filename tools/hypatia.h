/* hypatia.h - the commands of the hypatia tool and what they share. */
#ifndef HYPATIA_TOOLS_HYPATIA_H
#define HYPATIA_TOOLS_HYPATIA_H

#include "session.h"

/* Each command reads its own options and returns an exit code. argv[0] is the command's name. */
int command_run(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_train(int argc, char **argv);
int command_export(int argc, char **argv);
int command_export_c(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_report(int argc, char **argv);
int command_triton(int argc, char **argv);
int command_keygen(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_sign(int argc, char **argv);

/* ---- session.c -------------------------------------------------------------------------------------------- */

/* Compares `actual` with `reference` and prints what it found. CLI_OK or CLI_MISMATCH; tensors of different types or
 * dims are a mismatch. */
int compare_tensors(const char *name, const hyp_tensor *actual, const hyp_tensor *reference, double rtol, double atol,
                    const char *tool);
/* "y f32[1 10]" */
void print_tensor_type(FILE *to, const char *name, const hyp_tensor *t);
/* The last line of a comparison: PASSED or FAILED. */
void print_passed(int code);
/* The index of a flat position: "[3 17]". */
void print_tensor_place(FILE *to, const hyp_tensor *t, int64_t flat);

#endif
