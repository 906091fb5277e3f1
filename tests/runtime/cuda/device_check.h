/* device_check.h - runs a plan on a GPU and on the reference backend, and compares. */
#ifndef HYP_TESTS_DEVICE_CHECK_H
#define HYP_TESTS_DEVICE_CHECK_H

#include "runtime/cuda/driver/library.h"
#include "runtime/plan_builder.h"

enum { DC_MAX_TENSORS = 8 };

/* The driver, for memory of the tests' own; a context is current between open and close. */
typedef struct device {
    hyp_cuda_library lib;
    CUcontext context;
    CUstream stream;
} device;

/* How a test program starts: takes the pattern of the tests to run from argv[1], if there is one, and opens the device.
 * False where there is none, after saying why; the program then returns 77, which ctest counts as skipped. With the
 * emulator in the library path there is one everywhere. */
bool device_start(device *d, int argc, char **argv);
void device_close(device *d);

/* The types that products and most kernels take. */
enum { FLOATS = 4 };
extern const hyp_dtype floats[FLOATS];

#define OP(name) HYP_PLAN__POINTWISE__OP__##name
#define ACT(name) HYP_PLAN__ACT__ACT_##name

/* Dims of a plan's inputs. */
typedef const int64_t dims_list[DC_MAX_TENSORS][HYP_MAX_RANK];

/* How outputs may differ from the reference: |a - r| <= atol + rtol |r|. */
typedef struct tolerance {
    double rtol, atol;
} tolerance;
tolerance tolerance_of(hyp_dtype dtype, int64_t terms); /* for sums of `terms` products of numbers below 1 */

/* Runs the plan for inputs of these dims (by input: rank dims; dims of the plan's symbols come from them) four ways:
 * host tensors, device tensors in place, device tensors at odd addresses, and on a stream of the caller's; each several
 * times, so that it is also replayed as a CUDA graph. Every output must be as the reference has it. Disposes of the
 * builder. */
void check_plan(device *d, plan_builder *b, dims_list dims, tolerance want);

/* The same on engines that exist, for several sets of dims. */
typedef struct pair {
    hyp_engine *reference, *cuda;
    hyp_context *reference_context, *cuda_context, *stream_context;
} pair;
void pair_open(device *d, plan_builder *b, pair *out);
void pair_check(device *d, pair *p, dims_list dims, tolerance want);
/* One run with host tensors, for many checks of a kernel that takes an emulated device long. */
void pair_check_once(pair *p, dims_list dims, tolerance want);
/* The same while the steps are timed; every one must have a time. */
void pair_check_timed(pair *p, dims_list dims, tolerance want);
void pair_close(pair *p);

/* Deterministic numbers. */
uint64_t random_next(uint64_t *state);
int64_t random_between(uint64_t *state, int64_t low, int64_t high); /* both included */
void random_fill(uint64_t *state, hyp_dtype dtype, void *data, size_t count);
uint32_t random_weight(plan_builder *b, uint64_t *state, hyp_dtype dtype, size_t rank, const int64_t *dims);

#endif
