/* Whether a comes before b: larger or smaller. */
static int hyp_better_whole(int64_t a, int64_t b, int largest, int nan_first)
{
    (void)nan_first;
    return largest ? a > b : a < b;
}
