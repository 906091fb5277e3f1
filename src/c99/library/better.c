/* Whether a comes before b: larger or smaller, NaN before all or behind all. */
static int hyp_better(float a, float b, int largest, int nan_first)
{
    if (a != a || b != b) return nan_first ? a != a && b == b : a == a && b != b;
    return largest ? a > b : a < b;
}
