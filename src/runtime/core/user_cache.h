/* user_cache.h - a folder of the user's for what takes long to make and can be made again, such as machine code:
 * entries known by a text that says everything that they depend on.
 *
 * It is the folder in the environment variable HYPATIA_CACHE ("none": there is no cache), else hypatia in
 * $XDG_CACHE_HOME, else in ~/.cache. What comes out of it may be run, so nothing is taken from, nor put into, a folder
 * or file that another user than this one, or root, owns or may write; a program with more rights than its user has no
 * cache. An entry has its text with it, so another one is never given out, and comes to its name when it is whole. What
 * was used longest ago goes when all entries take more than HYP_USER_CACHE_MOST bytes.
 *
 * Any number of threads and processes may use it. Where it cannot be used, for whatever reason, nothing is found and
 * nothing kept.
 */
#ifndef HYP_RUNTIME_CORE_USER_CACHE_H
#define HYP_RUNTIME_CORE_USER_CACHE_H

#include "base/mem.h"

enum { HYP_USER_CACHE_MOST = 256 << 20, HYP_USER_CACHE_ENTRY = 16 << 20 /* bytes that an entry may take */ };

/* *out, to be freed with hyp_free, has the *out_bytes bytes kept under a text; NULL: there are none. HYP_ERR_NO_MEMORY
 * alone is an error. */
HYP_NODISCARD hyp_status hyp_user_cache_get(const char *text, uint8_t **out, size_t *out_bytes, hyp_diag *diag);
void hyp_user_cache_put(const char *text, const uint8_t *data, size_t bytes);

#endif
