/* What all products are made of. Rows of sums are arrays of their own, and loops over j have fixed ends, so that compilers
 * keep them in registers. */
enum { HYP_ROWS = 4, HYP_TILE = 16 };

/* For four rows: c[r][j] = the sum over i < depth of a[r * a_row + i * a_step] * b[i * b_step + j]. */
static void hyp_tile_4(long depth, const float *a, long a_row, long a_step, const float *b, long b_step,
                       float (*c)[HYP_TILE])
{
    float c0[HYP_TILE] = {0}, c1[HYP_TILE] = {0}, c2[HYP_TILE] = {0}, c3[HYP_TILE] = {0};
    for (long i = 0; i < depth; i++) {
        const float *from = b + i * b_step, *left = a + i * a_step;
        const float a0 = left[0], a1 = left[a_row], a2 = left[2 * a_row], a3 = left[3 * a_row];
        for (int j = 0; j < HYP_TILE; j++) {
            c0[j] += a0 * from[j];
            c1[j] += a1 * from[j];
            c2[j] += a2 * from[j];
            c3[j] += a3 * from[j];
        }
    }
    for (int j = 0; j < HYP_TILE; j++) {
        c[0][j] = c0[j];
        c[1][j] = c1[j];
        c[2][j] = c2[j];
        c[3][j] = c3[j];
    }
}

/* One row, in four sums that do not wait for each other. */
static void hyp_tile_1(long depth, const float *a, long a_step, const float *b, long b_step, float *c)
{
    float c0[HYP_TILE] = {0}, c1[HYP_TILE] = {0}, c2[HYP_TILE] = {0}, c3[HYP_TILE] = {0};
    long whole = depth / 4 * 4;
    for (long i = 0; i < whole; i += 4) {
        const float *from0 = b + i * b_step, *from1 = from0 + b_step, *from2 = from1 + b_step, *from3 = from2 + b_step;
        const float *left = a + i * a_step;
        const float a0 = left[0], a1 = left[a_step], a2 = left[2 * a_step], a3 = left[3 * a_step];
        for (int j = 0; j < HYP_TILE; j++) {
            c0[j] += a0 * from0[j];
            c1[j] += a1 * from1[j];
            c2[j] += a2 * from2[j];
            c3[j] += a3 * from3[j];
        }
    }
    for (int j = 0; j < HYP_TILE; j++) c[j] = (c0[j] + c1[j]) + (c2[j] + c3[j]);
    for (long i = whole; i < depth; i++)
        for (int j = 0; j < HYP_TILE; j++) c[j] += a[i * a_step] * b[i * b_step + j];
}

/* As hyp_tile_4, for r < rows and j < width. */
static void hyp_tile(long rows, long width, long depth, const float *a, long a_row, long a_step, const float *b, long b_step,
                     float (*c)[HYP_TILE])
{
    long r = 0;
    for (; width == HYP_TILE && r + 4 <= rows; r += 4) hyp_tile_4(depth, a + r * a_row, a_row, a_step, b, b_step, c + r);
    for (; width == HYP_TILE && r < rows; r++) hyp_tile_1(depth, a + r * a_row, a_step, b, b_step, c[r]);
    for (; r < rows; r++) {
        for (long j = 0; j < width; j++) c[r][j] = 0;
        for (long i = 0; i < depth; i++)
            for (long j = 0; j < width; j++) c[r][j] += a[r * a_row + i * a_step] * b[i * b_step + j];
    }
}
