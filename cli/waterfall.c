/* waterfall.c: see waterfall.h. */
#include "waterfall.h"

#include <math.h>

enum { ROW = 30, TOP = 64, NAME_WIDTH = 300, BAR_WIDTH = 440, WIDTH = 1200, BOTTOM = 40 };

static svg_axis find_axis(const waterfall_bar *bars, int count)
{
    double low = INFINITY, high = 0;
    for (int i = 0; i < count; i++) {
        low = fmin(low, bars[i].microseconds);
        high = fmax(high, bars[i].microseconds);
    }
    return svg_axis_over(low, high, NAME_WIDTH, NAME_WIDTH + BAR_WIDTH);
}

static void write_axis(FILE *file, const svg_axis *axis, int height)
{
    for (int i = 0; i <= svg_decades(axis); i++) {
        const double tick = axis->low * pow(10, i), x = svg_place(axis, tick);
        svg_line(file, x, TOP - 8, x, height - BOTTOM, "grid");
        svg_text(file, x, height - BOTTOM + 18, SVG_MIDDLE, "small", "%g us", tick);
    }
}

static void write_bar(FILE *file, const waterfall_bar *bar, int index, const svg_axis *axis)
{
    static const char *const classes[] = {
        [WATERFALL_PLAIN] = "bar", [WATERFALL_WORSE] = "worse", [WATERFALL_OTHER] = "other"};
    const double end = svg_place(axis, bar->microseconds);
    const int y = TOP + index * ROW;
    svg_text(file, NAME_WIDTH - 8, y + 15, SVG_END, "", "%s", bar->name);
    fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" class=\"%s\"/>\n",
            NAME_WIDTH, y + 2, fmax(end - NAME_WIDTH, 1), ROW - 10, classes[bar->shade]);
    svg_text(file, end + 6, y + 15, SVG_START, "", "%.2f us", bar->microseconds);
    svg_text(file, NAME_WIDTH + BAR_WIDTH + 100, y + 15, SVG_START, "small", "%s", bar->note);
}

void waterfall_write(FILE *file, const char *title, const char *legend, const waterfall_bar *bars,
                     int count, bool alone)
{
    const int height = TOP + count * ROW + BOTTOM;
    const svg_axis axis = find_axis(bars, count);
    svg_start(file, WIDTH, height, title, alone);
    svg_text(file, 16, 44, SVG_START, "small", "time of a whole call, logarithmic; %s", legend);
    write_axis(file, &axis, height);
    for (int i = 0; i < count; i++)
        write_bar(file, &bars[i], i, &axis);
    svg_end(file);
}
