/* emulator_tells.h - what the emulated device tells the tests beside the driver's interface, and tuning in its modes. To
 * be included behind cmocka.h. */
#ifndef HYP_TESTS_EMULATOR_TELLS_H
#define HYP_TESTS_EMULATOR_TELLS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hypatia/runtime.h"

/* Puts the address of the emulator's function into the pointer to a function at `out`; false on a real device. */
static inline bool emulator_function(const char *name, void *out)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *symbol = driver ? dlsym(driver, name) : NULL;
    if (symbol) memcpy(out, &symbol, sizeof symbol);
    if (driver) dlclose(driver);
    return symbol != NULL;
}

/* Tunes for an input [rows, width] in a mode of the emulator. */
static inline hyp_tune_report tune_in_mode(hyp_context *context, const char *mode, hyp_dtype dtype, int64_t rows,
                                           int64_t width)
{
    hyp_tune_report report = {.size = sizeof report};
    hyp_diag diag = {0};
    hyp_tensor x = {.dtype = dtype, .rank = 2, .dims = {rows, width}};
    setenv("HYPATIA_EMULATOR", mode, 1);
    hyp_status status = hyp_context_tune(context, &x, 1, NULL, &report, &diag);
    setenv("HYPATIA_EMULATOR", "", 1);
    if (status != HYP_OK) fail_msg("%s", diag.message);
    return report;
}

#endif
