/* NEON, which every 64-bit ARM processor has: 32 registers, so panels are four vectors wide. */
#define HYP_VEC_BYTES 16
#define HYP_PANEL 4
#include "runtime/cpu/vec.h"

#include "runtime/cpu/block_kernels.h"
#include "runtime/cpu/depthwise_kernel.h"
#include "runtime/cpu/double_kernel.h"
#include "runtime/cpu/mlp_kernel.h"
#include "runtime/cpu/pool_kernel.h"
#include "runtime/cpu/random_kernel.h"
#include "runtime/cpu/winograd_kernel.h"

const hyp_cpu_kernels hyp_cpu_kernels_neon = {
    .isa = "neon",
    .width = W,
    .panel = HYP_PANEL,
    .block = BLOCK_PANELS,
    .mlp = run_mlp,
    .panels = run_panels,
    .windows = run_windows,
    .tiles_in = tiles_in,
    .tiles_out = tiles_out,
    .instr = block_instr,
    .activate = activate_run,
    .softmax = softmax,
    .softmax_stats = softmax_stats,
    .shift = shift,
    .hide = hide,
    .sum = sum_floats,
    .sum_rows = sum_rows,
    .combine = combine,
    .add_parts = add_parts,
    .most_parts = most_parts,
    .pool = pool,
    .grouped = grouped,
    .depthwise = depthwise,
    .transpose = transpose,
    .copy_rows = copy_rows,
    .norm = norm,
    .norm_gradient = norm_gradient,
    .softmax_gradient = softmax_gradient,
    .channel_sums = channel_sums,
    .doubles = multiply_doubles,
    .widen = widen,
    .narrow = narrow,
    .random = random_blocks,
};
