/* null.h - a backend to begin a new one with. It is no part of a library: only tests run it. */
#ifndef HYP_RUNTIME_NULL_NULL_H
#define HYP_RUNTIME_NULL_NULL_H

#include "runtime/core/backend.h"

extern const hyp_backend hyp_backend_null;

#endif
