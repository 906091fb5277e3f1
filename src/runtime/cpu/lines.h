/* lines.h - what sliding windows over images with their channels last have in common: the lines of x that the windows
 * of a line of results lie on, and where along them.
 */
#ifndef HYP_RUNTIME_CPU_LINES_H
#define HYP_RUNTIME_CPU_LINES_H

#include "kernels/window.h"
#include "runtime/cpu/cpu.h"

enum { HYP_LINES_MOST = 512 }; /* that a window lies on */

/* Made by hyp_lines_init, released by hyp_lines_dispose; 0 is an empty one. */
typedef struct hyp_lines {
    hyp_window window, across, along; /* all axes, all but the last, and that one */
    int64_t channels, place; /* of an image; floats from place to place of it */
    int64_t count, length;   /* lines of results, of so many places */
    int64_t *first, *offsets,
        *taps; /* of a line: parts of x as hyp_parts has them, and which place of the kernel each is */
} hyp_lines;

/* Whether windows are few and short enough for this. */
bool hyp_lines_can(const hyp_window *w);
HYP_NODISCARD hyp_status hyp_lines_init(hyp_lines *l, const hyp_window *w, int64_t channels, int64_t place,
                                       hyp_diag *diag);
void hyp_lines_dispose(hyp_lines *l);

/* Puts the lines of an image that line i of the results needs into rows, and which of the kernel's each is into `taps`
 * (room for HYP_LINES_MOST), unless that is NULL. Returns how many. o, if not NULL: the position of the line. */
int64_t hyp_lines_find(const hyp_lines *l, int64_t i, const float *image, const float **rows, int64_t *taps,
                       int64_t *o);

/* What a line of results is made of: parts of x, and the weights of each row of them. */
typedef struct hyp_line {
    hyp_parts parts;
    const float *rows[HYP_LINES_MOST], *weights[HYP_LINES_MOST];
} hyp_line;
/* Of line i, where a place of the kernel has `each` weights. */
void hyp_lines_take(const hyp_lines *l, int64_t i, const float *image, const float *weights, int64_t each,
                    hyp_line *out);

/* In the work space: so many floats, and some more that kernels may read and write behind them. */
static inline size_t hyp_lines_room(int64_t floats) { return ((size_t)(floats + 16) * sizeof(float) + 63) / 64 * 64; }

#endif
