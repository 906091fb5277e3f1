/* The remainder with the sign of b, or with that of a; by 0 it is 0. */
static int64_t hyp_modulo(int64_t a, int64_t b, int sign_of_a)
{
    int64_t r = b == 0 || b == -1 ? 0 : a % b;
    return !sign_of_a && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
