/* Truncated; by 0 it gives 0, and what does not fit wraps. */
static int64_t hyp_divide(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
