#include "curve.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ---- points ---------------------------------------------------------------------------------------------------- */

static void halve(curve *c)
{
    for (int i = 0; i < CURVE_MEANS; i++) {
        bool there = 2 * i < CURVE_MEANS;
        c->sums[i] = there ? c->sums[2 * i] + c->sums[2 * i + 1] : 0;
        c->counts[i] = there ? c->counts[2 * i] + c->counts[2 * i + 1] : 0;
    }
    c->width *= 2;
}

void curve_add_step(curve *c, int64_t step, double loss)
{
    if (!isfinite(loss) || step < 0) return;
    if (!c->width) c->width = 1;
    while (step / c->width >= CURVE_MEANS) halve(c);
    c->sums[step / c->width] += loss;
    c->counts[step / c->width]++;
}

void curve_add_epoch(curve *c, const curve_epoch *epoch)
{
    c->epochs = cli_alloc(c->epochs, c->epoch_count + 1, sizeof *c->epochs);
    c->epochs[c->epoch_count++] = *epoch;
}

void curve_free(curve *c)
{
    free(c->epochs);
    *c = (curve){0};
}

/* ---- scales ---------------------------------------------------------------------------------------------------- */

enum { WIDTH = 760, HEIGHT = 420, LEFT = 64, RIGHT = 64, TOP = 40, BOTTOM = 48, TICKS = 16 };

typedef struct axis {
    double low, high; /* logarithms where log */
    bool log;
    double ticks[TICKS];
    int tick_count;
} axis;

/* 1, 2 or 5 times a power of ten, at most `most` of which cover the span. */
static double nice_step(double span, int most)
{
    double rough = span / most, power = pow(10, floor(log10(rough))), times = rough / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void set_linear(axis *a, double low, double high)
{
    if (!(high > low)) {
        double room = fabs(low) * 0.1 + 1e-30;
        high = low + room;
        low -= room;
    }
    double step = nice_step(high - low, 6);
    a->low = floor(low / step + 1e-9) * step;
    a->high = ceil(high / step - 1e-9) * step;
    for (int i = 0; i < TICKS && a->low + i * step <= a->high + step / 2; i++)
        a->ticks[a->tick_count++] = a->low + i * step;
}

static void set_log(axis *a, double low, double high)
{
    static const double parts[] = {1, 2, 5};
    a->log = true;
    a->low = log10(low);
    a->high = log10(high);
    int decades = (int)(floor(a->high) - floor(a->low)) + 1, each = decades > 4 ? 1 : 3;
    int stride = (decades + TICKS - 1) / TICKS;
    for (int d = 0; d < decades; d += stride)
        for (int k = 0; k < each && a->tick_count < TICKS; k++) {
            double at = floor(a->low) + d + log10(parts[k]);
            if (at >= a->low - 1e-9 && at <= a->high + 1e-9) a->ticks[a->tick_count++] = at;
        }
}

static axis loss_axis(const curve *c)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < CURVE_MEANS; i++)
        if (c->counts[i]) {
            low = fmin(low, c->sums[i] / (double)c->counts[i]);
            high = fmax(high, c->sums[i] / (double)c->counts[i]);
        }
    for (size_t i = 0; i < c->epoch_count; i++)
        if (isfinite(c->epochs[i].loss)) {
            low = fmin(low, c->epochs[i].loss);
            high = fmax(high, c->epochs[i].loss);
        }
    axis a = {0};
    if (low > high)
        set_linear(&a, 0, 1);
    else if (low > 0 && high > 20 * low)
        set_log(&a, low, high);
    else
        set_linear(&a, low, high);
    return a;
}

static int64_t last_step(const curve *c)
{
    int64_t last = 1;
    for (int i = 0; i < CURVE_MEANS; i++)
        if (c->counts[i]) last = (i + 1) * c->width;
    for (size_t i = 0; i < c->epoch_count; i++)
        if (c->epochs[i].step > last) last = c->epochs[i].step;
    return last;
}

static double place_x(double step, const axis *x)
{
    return LEFT + (step - x->low) / (x->high - x->low) * (WIDTH - LEFT - RIGHT);
}

static double place_y(double value, const axis *y)
{
    double at = y->log ? log10(value) : value;
    return HEIGHT - BOTTOM - (at - y->low) / (y->high - y->low) * (HEIGHT - TOP - BOTTOM);
}

/* ---- the picture ----------------------------------------------------------------------------------------------- */

static void draw_axes(const axis *x, const axis *y, bool accuracy, FILE *to)
{
    for (int i = 0; i < y->tick_count; i++) {
        double value = y->log ? pow(10, y->ticks[i]) : y->ticks[i];
        double at = place_y(value, y);
        fprintf(to,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                LEFT, at, WIDTH - RIGHT, LEFT - 8, at + 4, fabs(value) < 1e-12 ? 0 : value);
    }
    for (int i = 0; i < x->tick_count; i++)
        fprintf(
            to,
            "<path class=\"axis\" d=\"M%.1f %dv5\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.10g</text>\n",
            place_x(x->ticks[i], x), HEIGHT - BOTTOM, place_x(x->ticks[i], x), HEIGHT - BOTTOM + 20, x->ticks[i]);
    for (int percent = 0; percent <= 100 && accuracy; percent += 20) {
        axis share = {.high = 100};
        fprintf(to, "<text x=\"%d\" y=\"%.1f\">%d %%</text>\n", WIDTH - RIGHT + 8, place_y(percent, &share) + 4,
                percent);
    }
    fprintf(to, "<path class=\"axis\" d=\"M%d %dV%dH%dV%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT,
            accuracy ? TOP : HEIGHT - BOTTOM);
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", (WIDTH - RIGHT + LEFT) / 2, HEIGHT - 8);
}

static void draw_training(const curve *c, const axis *x, const axis *y, FILE *to)
{
    bool down = false; /* the pen */
    fputs("<path class=\"train\" d=\"", to);
    for (int i = 0; i < CURVE_MEANS; i++) {
        if (c->counts[i])
            fprintf(to, "%c%.1f %.1f", down ? 'L' : 'M', place_x(((double)i + 0.5) * (double)c->width, x),
                    place_y(c->sums[i] / (double)c->counts[i], y));
        down = c->counts[i] > 0;
    }
    fputs("\"/>\n", to);
}

static void draw_epochs(const curve *c, bool accuracy, const char *class, const axis *x, const axis *y, FILE *to)
{
    bool down = false;
    fprintf(to, "<path class=\"%s\" d=\"", class);
    for (size_t i = 0; i < c->epoch_count; i++) {
        double value = accuracy ? 100 * c->epochs[i].accuracy : c->epochs[i].loss;
        if (isfinite(value))
            fprintf(to, "%c%.1f %.1f", down ? 'L' : 'M', place_x((double)c->epochs[i].step, x), place_y(value, y));
        down = isfinite(value);
    }
    fputs("\"/>\n", to);
    for (size_t i = 0; i < c->epoch_count && c->epoch_count <= 40; i++) {
        double value = accuracy ? 100 * c->epochs[i].accuracy : c->epochs[i].loss;
        if (isfinite(value))
            fprintf(to, "<circle class=\"%s dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", class,
                    place_x((double)c->epochs[i].step, x), place_y(value, y));
    }
}

static void draw_key(const char *class, const char *text, int *at, FILE *to)
{
    fprintf(to, "<path class=\"%s\" d=\"M%d 20h24\"/><text x=\"%d\" y=\"24\">%s</text>\n", class, *at, *at + 30, text);
    *at += 60 + 7 * (int)strlen(text);
}

void curve_draw(const curve *c, FILE *to)
{
    axis x = {0}, y = loss_axis(c), share = {.high = 100};
    bool validated = false, accuracy = false;
    int key = LEFT;
    set_linear(&x, 0, (double)last_step(c));
    x.high = (double)last_step(c);
    while (x.tick_count && x.ticks[x.tick_count - 1] > x.high) x.tick_count--;
    for (size_t i = 0; i < c->epoch_count; i++) {
        validated = validated || isfinite(c->epochs[i].loss);
        accuracy = accuracy || isfinite(c->epochs[i].accuracy);
    }
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
            "<title>training loss</title>\n<style>\n"
            "svg{background:#fff}text{font:12px sans-serif;fill:#333}path{fill:none;stroke-width:1.5}\n"
            ".grid{stroke:#ddd;stroke-width:1}.axis{stroke:#888;stroke-width:1}.train{stroke:#2a6fbb}\n"
            ".valid{stroke:#c8501e}.right{stroke:#3a8a3a;stroke-dasharray:5 3}\n"
            ".valid.dot{fill:#c8501e}.right.dot{fill:#3a8a3a;stroke-dasharray:none}\n"
            "@media "
            "(prefers-color-scheme:dark){svg{background:#14171c}text{fill:#ccc}.grid{stroke:#333}.axis{stroke:#777}\n"
            ".train{stroke:#6aaeee}.valid{stroke:#f08a5a}.right{stroke:#7ccf7c}\n"
            ".valid.dot{fill:#f08a5a}.right.dot{fill:#7ccf7c}}\n</style>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_axes(&x, &y, accuracy, to);
    draw_training(c, &x, &y, to);
    draw_key("train", "training loss", &key, to);
    if (validated) draw_epochs(c, false, "valid", &x, &y, to);
    if (validated) draw_key("valid", "validation loss", &key, to);
    if (accuracy) draw_epochs(c, true, "right", &x, &share, to);
    if (accuracy) draw_key("right", "validation accuracy", &key, to);
    fputs("</svg>\n", to);
}
