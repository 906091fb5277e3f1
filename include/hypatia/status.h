/* hypatia/status.h - status codes and diagnostics shared by every public header.
 *
 * Every fallible call returns a hyp_status and, where it takes a hyp_diag, fills it with one message
 * that says what was found, what was wanted and what to do. Nothing here allocates. C11 and C++11.
 */
#ifndef HYPATIA_STATUS_H
#define HYPATIA_STATUS_H

#if defined(__GNUC__)
#define HYP_API __attribute__((visibility("default")))
#define HYP_NODISCARD __attribute__((warn_unused_result))
#define HYP_INLINE static inline __attribute__((unused)) /* functions in headers, called or not */
#define HYP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define HYP_API
#define HYP_NODISCARD
#define HYP_INLINE static inline
#define HYP_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The numeric values are part of the ABI: new codes are appended. */
typedef enum hyp_status {
    HYP_OK = 0,
    HYP_ERR_INVALID_ARGUMENT = 1, /* the caller broke the contract of a function: fix the call */
    HYP_ERR_NO_MEMORY = 2,        /* an allocation failed: the object is as it was before the call */
    HYP_ERR_IO = 3,               /* a file could not be opened, read or written */
    HYP_ERR_MALFORMED = 4,        /* input bytes that are not what they claim to be */
    HYP_ERR_UNSUPPORTED = 5,      /* valid input that this version cannot handle */
    HYP_ERR_MISMATCH = 6,         /* numbers differ by more than the tolerance */
    HYP_ERR_INCOMPATIBLE = 7,     /* a plan of another format version: build it again */
    HYP_ERR_LIMIT = 8,            /* a stated limit was reached */
    HYP_ERR_DEVICE = 9,           /* a device is absent or refused the work */
    HYP_ERR_INTERNAL = 10,        /* a broken invariant of ours: please report it */
    HYP_ERR_DEVICE_LOST = 11,     /* a device gave up: destroy what uses it, and load the plan again */
    HYP_ERR_CANCELLED = 12,       /* the caller asked for the end of the work: what it was done with is as before */
    HYP_ERR_SIGNATURE = 13,       /* a plan is not signed as was required: do not use it */
    HYP_STATUS_COUNT
} hyp_status;

/* Room for a message that lists every unsupported operator of a model; longer text is cut with "...". */
#define HYP_DIAG_SIZE 4096

/* Caller-owned, plain data; zero-initialise it. Written only when a call fails. NULL is allowed
 * wherever a hyp_diag pointer is taken: then only the status comes back. */
typedef struct hyp_diag {
    hyp_status status;
    char message[HYP_DIAG_SIZE]; /* UTF-8, NUL-terminated, no trailing newline */
} hyp_diag;

/* Short lower-case name of a status ("ok", "invalid argument"); never NULL. Thread-safe. */
HYP_API const char *hyp_status_name(hyp_status status);

#ifdef __cplusplus
}
#endif
#endif
