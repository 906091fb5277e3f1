/* The activations that products and convolutions of a plan end in, which export.c writes; here as a compiler wants it. */
static void hyp_activate(int act, float *x, long count, float slope);
