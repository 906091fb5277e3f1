/* Images x[batch, channels, dims] at the places that grid[batch, places, axes] says, from -1 to 1 along each axis, the last
 * one first: y[batch, channels, places]. */
enum hyp_beyond { HYP_ZEROS, HYP_BORDER, HYP_REFLECTION };
struct hyp_grid {
    long batch, channels;
    int axes; /* up to 3 */
    long dims[3], places;
    int taps; /* neighbours along an axis: 1, 2 or 4 */
    enum hyp_beyond beyond;
    int corners; /* -1 and 1 are the middles of the first and the last element, not their ends */
    const float *x, *grid;
    float *y;
};

static float hyp_reflect(float x, float low, float high)
{
    const float range = high - low, over = x < low ? low - x : x - high;
    if (over <= 0) return x;
    if (range <= 0) return low;
    const float rest = fmodf(over, 2 * range), along = rest > range ? rest - range : rest;
    return (x < low) != (rest > range) ? low + along : high - along;
}

/* An index on its way into the image; -1: there is nothing. */
static long hyp_inside(const struct hyp_grid *s, float i, long size)
{
    const float last = (float)size - 1;
    if (s->beyond == HYP_ZEROS) return i >= 0 && i <= last ? (long)i : -1;
    if (s->beyond == HYP_REFLECTION) i = s->corners ? hyp_reflect(i, 0, last) : hyp_reflect(i, -0.5f, last + 0.5f);
    return (long)(i < 0 ? 0 : i > last ? last : i);
}

static void hyp_neighbours(const struct hyp_grid *s, int axis, float coordinate, long at[4], float w[4])
{
    const float n = (float)s->dims[axis], low = s->corners ? 0 : -0.5f, high = n - 1 - low, a = -0.75f, far = 1e6f;
    float x = s->corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
    x = x >= -far ? x <= far ? x : far : -far; /* NaN is somewhere */
    if (s->taps == 1) x = rintf(x);
    if (s->taps < 4 && s->beyond == HYP_BORDER && (x < low || x > high)) x = x < 0 ? 0 : n - 1;
    if (s->taps < 4 && s->beyond == HYP_REFLECTION) x = hyp_reflect(x, low, high);
    float first = s->taps == 1 ? truncf(x) : floorf(x);
    const float r = x - first;
    w[0] = s->taps == 1 ? 1 : 1 - r;
    w[1] = r;
    if (s->taps == 4) { /* the cubic convolution of Keys */
        w[0] = ((a * (r + 1) - 5 * a) * (r + 1) + 8 * a) * (r + 1) - 4 * a;
        w[1] = ((a + 2) * r - (a + 3)) * r * r + 1;
        w[2] = ((a + 2) * (1 - r) - (a + 3)) * (1 - r) * (1 - r) + 1;
        w[3] = ((a * (2 - r) - 5 * a) * (2 - r) + 8 * a) * (2 - r) - 4 * a;
        first -= 1;
    }
    for (int t = 0; t < s->taps; t++) at[t] = hyp_inside(s, first + (float)t, s->dims[axis]);
}

/* The neighbours that are there of all axes: where they are in an image, and their weights. How many there are. */
static int hyp_list(const struct hyp_grid *s, const float *place, long *from, float *weights)
{
    int count = 1;
    from[0] = 0;
    weights[0] = 1;
    for (int axis = 0; axis < s->axes; axis++) {
        long at[4];
        float w[4];
        int before = count;
        hyp_neighbours(s, axis, place[s->axes - 1 - axis], at, w);
        for (int t = s->taps; t-- > 0;) /* the first neighbour last, for it takes the place of those so far */
            for (int i = 0; i < before; i++) {
                int to = t * before + i;
                from[to] = from[i] < 0 || at[t] < 0 ? -1 : from[i] * s->dims[axis] + at[t];
                weights[to] = weights[i] * w[t];
            }
        count = before * s->taps;
    }
    int there = 0;
    for (int i = 0; i < count; i++) {
        if (from[i] < 0) continue;
        from[there] = from[i];
        weights[there++] = weights[i];
    }
    return there;
}

static void hyp_grid_sample(const struct hyp_grid *s)
{
    long image = s->dims[0] * s->dims[1] * s->dims[2];
    for (long p = 0; p < s->batch * s->places; p++) {
        long from[64];
        float weights[64];
        const int count = hyp_list(s, s->grid + p * s->axes, from, weights);
        for (long c = 0; c < s->channels; c++) {
            const long channel = p / s->places * s->channels + c;
            float sum = 0;
            for (int i = 0; i < count; i++) sum += weights[i] * s->x[channel * image + from[i]];
            s->y[channel * s->places + p % s->places] = sum;
        }
    }
}
