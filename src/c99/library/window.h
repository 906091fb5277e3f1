/* A window that slides over up to three axes; of a transposed convolution over those of its result. */
struct hyp_window {
    long in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
};
