/* calibration.h - the kernels that hypatiac --calibrate times, as small models. */
#ifndef HYPATIA_TOOLS_CALIBRATION_H
#define HYPATIA_TOOLS_CALIBRATION_H

#include <stdbool.h>

#include "measure.h"
#include "onnx_writer.h"

enum { CALIBRATION_SIZES = 6 };

/* An operator by the name that profiles use, and its shape as in docs/rules.md, 0 behind its last size. */
typedef struct calibration_kernel {
    const char *op;
    hyp_dtype type;
    int64_t shape[CALIBRATION_SIZES];
    bool large; /* for GPUs alone: a core takes too long */
} calibration_kernel;

/* Elementwise operators: in profiles, in ONNX, and how many tensors they read. */
#define POINTWISE_OPERATORS(X)                                                                                         \
    X("add", "Add", 2)                                                                                                 \
    X("mul", "Mul", 2)                                                                                                 \
    X("div", "Div", 2)                                                                                                 \
    X("relu", "Relu", 1)                                                                                               \
    X("gelu", "Gelu", 1)                                                                                               \
    X("sigmoid", "Sigmoid", 1)                                                                                         \
    X("tanh", "Tanh", 1)                                                                                               \
    X("exp", "Exp", 1)                                                                                                 \
    X("erf", "Erf", 1)                                                                                                 \
    X("sqrt", "Sqrt", 1)

/* All of them, smaller ones of an operator first. */
extern const calibration_kernel calibration_kernels[];
extern const size_t calibration_kernel_count;

/* What of the steps of a label is measured, where it is not one of them. */
enum { CALIBRATION_MEAN = -1, CALIBRATION_SUM = -2 };
/* Adds the model of a kernel, whose plan has steps of the operator's label. Its neighbours are such as it has in
 * networks: a convolution lies between convolutions, because plans choose how data lies there. Returns which of those
 * steps it is. In the model of a layer, or of a kernel that is all moving of data, another step goes over `bytes` before it, if
 * there are any, all of which it reads, or a half of which it has `written`: so far away is what the kernel reads and writes then. */
int calibration_model(onnx_model *m, const calibration_kernel *kernel, double bytes, bool written);
/* Do only training steps have it? Then the model is to be compiled as one, whose output is made small (mse). */
bool calibration_is_trained(const calibration_kernel *kernel);
/* Is it known to plans only after rewriting? */
bool calibration_is_rewritten(const calibration_kernel *kernel);

/* What is run side by side to see how much it slows itself down. */
typedef struct calibration_crowd {
    calibration_kernel kernel; /* a linear, a product of matrices or a convolution */
    int chains, length;        /* of which each kernel but a linear, which reads the input, reads the one before it */
    bool crossing;             /* products read the next chain, too */
} calibration_crowd;
void calibration_crowd_model(onnx_model *m, const calibration_crowd *crowd);

/* The kernels whose shares of the device are measured. */
extern const calibration_kernel calibration_shares[];
extern const size_t calibration_share_count;

/* ---- calibrate_streams.c ------------------------------------------------------------------------------------ */

/* What a GPU makes of steps at once. */
typedef struct calibration_streams {
    double hop;     /* seconds */
    double *shares; /* by calibration_shares; 0: there was no time */
} calibration_streams;
/* Measures until `deadline` (timing_now), by the rules that bring graphs to normal form. *out is zeroed, its list the
 * caller's. An exit code after a message. */
int calibrate_streams(const measure_options *o, const cli_list *rules, double deadline, const cli_args *args,
                      calibration_streams *out);

/* ---- calibrate_ages.c --------------------------------------------------------------------------------------- */

enum { CALIBRATION_AGES = 8 };
/* What a byte takes more to move that a core has touched so many seconds ago, also in a kernel of windows, by rising seconds. */
typedef struct calibration_ages {
    struct {
        double seconds, moving, windows;
    } of[CALIBRATION_AGES];
    size_t count;
} calibration_ages;
/* Measures it of a core whose second-level cache holds `cache_bytes`, by the rules that bring graphs to normal form. An exit
 * code after a message. */
int calibrate_ages(const measure_options *o, const cli_list *rules, double cache_bytes, const cli_args *args,
                   calibration_ages *out);

#endif
