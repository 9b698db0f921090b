/* charts.c: see charts.h. */
#include "charts.h"

#include <math.h>

/* 1. The roofline: speed over intensity, both logarithmic. */

enum {
    ROOF_WIDTH = 1200,
    ROOF_HEIGHT = 460,
    ROOF_LEFT = 80,
    ROOF_RIGHT = 760,
    ROOF_TOP = 30,
    ROOF_BOTTOM = 410
};

static double reachable(const roofline_roof *roof, double operations_a_byte)
{
    const double by_memory = operations_a_byte * roof->gigabytes_per_second * 1e-3;
    return fmin(by_memory > 0 ? by_memory : INFINITY, roof->tflops > 0 ? roof->tflops : INFINITY);
}

static void write_roof(FILE *file, const roofline_roof *roof, const svg_axis *x, const svg_axis *y)
{
    const double corner = roof->tflops / (roof->gigabytes_per_second * 1e-3);
    const double start = fmax(x->low, y->low / (roof->gigabytes_per_second * 1e-3));
    fprintf(file, "<polyline class=\"roof\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n",
            svg_place(x, start), svg_place(y, reachable(roof, start)),
            svg_place(x, fmin(fmax(corner, start), x->high)),
            svg_place(y, reachable(roof, fmin(fmax(corner, start), x->high))), x->to,
            svg_place(y, reachable(roof, x->high)));
    svg_text(file, x->to, svg_place(y, reachable(roof, x->high)) - 6, SVG_END, "small",
             "%.4g TFLOP/s, %.4g GB/s", roof->tflops, roof->gigabytes_per_second);
}

static void write_roof_axes(FILE *file, const svg_axis *x, const svg_axis *y)
{
    for (int i = 0; i <= svg_decades(x); i++) {
        const double tick = x->low * pow(10, i);
        svg_line(file, svg_place(x, tick), y->from, svg_place(x, tick), y->to, "grid");
        svg_text(file, svg_place(x, tick), y->from + 18, SVG_MIDDLE, "small", "%g", tick);
    }
    for (int i = 0; i <= svg_decades(y); i++) {
        const double tick = y->low * pow(10, i);
        svg_line(file, x->from, svg_place(y, tick), x->to, svg_place(y, tick), "grid");
        svg_text(file, x->from - 8, svg_place(y, tick) + 4, SVG_END, "small", "%g", tick);
    }
    svg_text(file, (x->from + x->to) / 2, y->from + 36, SVG_MIDDLE, "small",
             "operations for each byte of Q, K, V and the output");
    svg_text(file, x->from - 8, y->to - 12, SVG_END, "small", "TFLOP/s");
}

void roofline_write(FILE *file, const char *title, const roofline_roof *roof,
                    const roofline_point *points, int count)
{
    double left = INFINITY, right = 0, low = INFINITY, high = 0;
    const bool has_roof = roof->tflops > 0 && roof->gigabytes_per_second > 0;
    for (int i = 0; i < count; i++) {
        left = fmin(left, points[i].operations_a_byte);
        right = fmax(right, points[i].operations_a_byte);
        low = fmin(low, points[i].tflops);
        high = fmax(high, has_roof ? roof->tflops : points[i].tflops);
    }
    const svg_axis x = svg_axis_over(left, right, ROOF_LEFT, ROOF_RIGHT);
    const svg_axis y = svg_axis_over(low, high, ROOF_BOTTOM, ROOF_TOP);
    svg_start(file, ROOF_WIDTH, ROOF_HEIGHT, title, false);
    write_roof_axes(file, &x, &y);
    if (has_roof)
        write_roof(file, roof, &x, &y);
    for (int i = 0; i < count; i++) {
        const double at_x = svg_place(&x, points[i].operations_a_byte);
        const double at_y = svg_place(&y, points[i].tflops);
        const double part = points[i].tflops / reachable(roof, points[i].operations_a_byte);
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" class=\"bar\"/>\n", at_x, at_y);
        svg_text(file, at_x + 8, at_y + 4, SVG_START, "small", "%d", i + 1);
        if (has_roof)
            svg_text(file, ROOF_RIGHT + 24, ROOF_TOP + 18.0 * i, SVG_START, "",
                     "%d  %s: %.0f %% of the roof", i + 1, points[i].name, 100 * part);
        else
            svg_text(file, ROOF_RIGHT + 24, ROOF_TOP + 18.0 * i, SVG_START, "", "%d  %s", i + 1,
                     points[i].name);
    }
    svg_end(file);
}

/* 2. The histogram. */

enum {
    COLUMN_WIDTH = 72,
    COLUMNS_LEFT = 24,
    COLUMNS_TOP = 30,
    COLUMNS_BOTTOM = 230,
    COLUMNS_HEIGHT = 280
};

void histogram_write(FILE *file, const char *title, const char *caption,
                     const histogram_column *columns, int count)
{
    const int width = 2 * COLUMNS_LEFT + count * COLUMN_WIDTH;
    double most = 1;
    for (int i = 0; i < count; i++)
        most = fmax(most, columns[i].count);
    svg_start(file, width, COLUMNS_HEIGHT, title, false);
    svg_line(file, COLUMNS_LEFT, COLUMNS_BOTTOM, width - COLUMNS_LEFT, COLUMNS_BOTTOM, "grid");
    for (int i = 0; i < count; i++) {
        const double part = columns[i].count / most;
        const double height = part > 0 ? fmax(2, part * (COLUMNS_BOTTOM - COLUMNS_TOP)) : 0;
        const double middle = COLUMNS_LEFT + (i + 0.5) * COLUMN_WIDTH;
        fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" class=\"bar\"/>\n",
                middle - COLUMN_WIDTH / 2.0 + 6, COLUMNS_BOTTOM - height, COLUMN_WIDTH - 12,
                height);
        if (columns[i].count > 0)
            svg_text(file, middle, COLUMNS_BOTTOM - height - 6, SVG_MIDDLE, "small", "%.4g",
                     columns[i].count);
        svg_text(file, middle, COLUMNS_BOTTOM + 16, SVG_MIDDLE, "small", "%s", columns[i].label);
    }
    svg_text(file, COLUMNS_LEFT, COLUMNS_BOTTOM + 38, SVG_START, "small", "%s", caption);
    svg_end(file);
}

/* 3. The landscape: a heat map. */

enum { CELL_WIDTH = 92, CELL_HEIGHT = 34, MAP_LEFT = 170, MAP_TOP = 56 };

typedef struct time_range {
    double fastest, slowest;
} time_range;

static time_range find_range(const landscape *map)
{
    time_range range = {INFINITY, 0};
    for (int y = 0; y < map->y_count; y++)
        for (int x = 0; x < map->x_count; x++)
            if (isfinite(map->microseconds[y][x])) {
                range.fastest = fmin(range.fastest, map->microseconds[y][x]);
                range.slowest = fmax(range.slowest, map->microseconds[y][x]);
            }
    return range;
}

/* From blue, the fastest, through green to orange, the slowest; dark text is readable on all of
 * them. */
static void write_cell(FILE *file, double microseconds, const time_range *range, double x, double y)
{
    if (!isfinite(microseconds)) {
        svg_text(file, x + CELL_WIDTH / 2.0, y + 21, SVG_MIDDLE, "small", "-");
        return;
    }
    const double spread = log(range->slowest / range->fastest);
    const double part = spread > 0 ? log(microseconds / range->fastest) / spread : 0;
    fprintf(file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"hsl(%.0f 75%% 72%%)\"",
            x + 1, y + 1, CELL_WIDTH - 2, CELL_HEIGHT - 2, 210 - 185 * part);
    fputs(part == 0 ? " class=\"best\"/>\n" : "/>\n", file);
    svg_text(file, x + CELL_WIDTH / 2.0, y + 21, SVG_MIDDLE, "on-colour", "%.4g", microseconds);
}

void landscape_write(FILE *file, const char *title, const landscape *map)
{
    const time_range range = find_range(map);
    svg_start(file, MAP_LEFT + map->x_count * CELL_WIDTH + 24,
              MAP_TOP + map->y_count * CELL_HEIGHT + 24, title, false);
    svg_text(file, MAP_LEFT, 20, SVG_START, "", "%s", map->x_name);
    svg_text(file, MAP_LEFT - 10, MAP_TOP - 8, SVG_END, "", "%s", map->y_name);
    for (int x = 0; x < map->x_count; x++)
        svg_text(file, MAP_LEFT + (x + 0.5) * CELL_WIDTH, MAP_TOP - 8, SVG_MIDDLE, "small", "%s",
                 map->x_values[x]);
    for (int y = 0; y < map->y_count; y++) {
        const double top = MAP_TOP + y * (double)CELL_HEIGHT;
        svg_text(file, MAP_LEFT - 10, top + 21, SVG_END, "small", "%s", map->y_values[y]);
        for (int x = 0; x < map->x_count; x++)
            write_cell(file, map->microseconds[y][x], &range, MAP_LEFT + x * (double)CELL_WIDTH,
                       top);
    }
    svg_end(file);
}
