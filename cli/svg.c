/* svg.c: see svg.h. */
#include "svg.h"
#include "output.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define LIGHT                                                                                     \
    "svg{--ink:#1f2328;--soft:#59636e;--grid:#d1d9e0;--bar:#2f6fb5;--worse:#c2571a;--other:#8c96" \
    "a0;--page:#fff}"

const char svg_style[] =
    LIGHT "@media (prefers-color-scheme:dark){svg{--ink:#e6edf3;--soft:#9aa5b1;--grid:#3d444d;"
          "--bar:#5b9ce0;--worse:#e8874a;--other:#7d8590;--page:#15191e}}"
          "@media print{" LIGHT "}"
          "svg{font:13px sans-serif}svg text{fill:var(--ink)}svg .small{font-size:11px;"
          "fill:var(--soft)}svg .title{font-size:16px}svg .page{fill:var(--page)}svg .grid{stroke:"
          "var(--grid)}svg .roof{stroke:var(--ink);fill:none}svg .bar{fill:var(--bar)}svg .worse{"
          "fill:var(--worse)}svg .other{fill:var(--other)}svg .on-colour{fill:#111}svg "
          ".best{stroke:var(--ink);stroke-width:3}";

void svg_start(FILE *file, int width, int height, const char *title, bool alone)
{
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" viewBox=\"0 0 %d %d\" "
            "role=\"img\">\n"
            "<title>",
            width, width, height);
    svg_escape(file, title);
    fputs("</title>\n", file);
    if (!alone)
        return;
    fprintf(file, "<style>%s</style>\n<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n",
            svg_style, width, height);
    svg_text(file, 16, 26, SVG_START, "title", "%s", title);
}

void svg_end(FILE *file)
{
    fputs("</svg>\n", file);
}

void svg_escape(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '&': fputs("&amp;", file); break;
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        case '"': fputs("&quot;", file); break;
        default: fputc(*text, file);
        }
}

void svg_text(FILE *file, double x, double y, svg_anchor anchor, const char *css_class,
              const char *format, ...)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y,
            anchors[anchor], css_class);
    svg_escape(file, text);
    fputs("</text>\n", file);
}

void svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *css_class)
{
    fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1,
            x2, y2, css_class);
}

/* A hair beyond both ends, so that no value lies on one. */
svg_axis svg_axis_over(double smallest, double largest, double from, double to)
{
    return (svg_axis){.low = pow(10, floor(log10(smallest) - 1e-9)),
                      .high = pow(10, ceil(log10(largest) + 1e-9)),
                      .from = from,
                      .to = to};
}

double svg_place(const svg_axis *axis, double value)
{
    return axis->from +
           (axis->to - axis->from) * log(value / axis->low) / log(axis->high / axis->low);
}

int svg_decades(const svg_axis *axis)
{
    return (int)lround(log10(axis->high / axis->low));
}
