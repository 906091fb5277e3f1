/* emulator_tells.h - what the emulated device tells the tests beside the driver's interface. */
#ifndef HYP_TESTS_EMULATOR_TELLS_H
#define HYP_TESTS_EMULATOR_TELLS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Puts the address of the emulator's function into the pointer to a function at `out`; false on a real device. */
static inline bool emulator_function(const char *name, void *out)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *symbol = driver ? dlsym(driver, name) : NULL;
    if (symbol) memcpy(out, &symbol, sizeof symbol);
    if (driver) dlclose(driver);
    return symbol != NULL;
}

#endif
