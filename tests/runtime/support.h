/* support.h - what the tests of the runtime share. */
#ifndef HYP_TESTS_RUNTIME_SUPPORT_H
#define HYP_TESTS_RUNTIME_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "runtime/plan_builder.h"

/* Whether the thread sanitizer watches, which has a thread and much memory of its own. */
#if defined(__SANITIZE_THREAD__)
#define THREADS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREADS_WATCHED 1
#endif
#endif
#ifndef THREADS_WATCHED
#define THREADS_WATCHED 0
#endif

/* How many cases are drawn of so many: under that sanitizer a quarter, as threads divide each of them in the same way. */
static inline int rounds(int count) { return THREADS_WATCHED ? (count + 3) / 4 : count; }

/* The devices that every machine has. */
extern const hyp_device_kind host_devices[2];

/* Numbers from a seed: floats in [-1, 1), integers below a bound. */
typedef struct rng {
    uint64_t state;
} rng;
uint64_t rng_below(rng *r, uint64_t bound);
double rng_float(rng *r);
void rng_fill(rng *r, hyp_dtype dtype, void *data, size_t count);

/* A tensor over memory of the caller. */
hyp_tensor tensor_of(const char *name, hyp_dtype dtype, void *data, size_t rank, const int64_t *dims);

/* Loads the builder's plan, runs it once on the device, and disposes of nothing but what it made. All must be well. */
void run_once(plan_builder *b, hyp_device_kind device, const hyp_tensor *inputs, size_t input_count,
              hyp_tensor *outputs, size_t output_count);

/* |a - b| <= tolerance * max(1, |b|) for all elements; NaN matches NaN. Says where not. */
void assert_close(const float *a, const float *b, size_t count, double tolerance);
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        hyp_diag diag_ = {0};                                                                                          \
        hyp_diag *diag = &diag_;                                                                                       \
        if ((call) != HYP_OK) fail_msg("%s", diag->message);                                                           \
    } while (0)

#endif
