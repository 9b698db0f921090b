/* waterfall.c: see waterfall.h. The scale is logarithmic: equal steps are equal factors. */
#include "waterfall.h"

#include <math.h>

enum { ROW = 30, TOP = 64, NAME_WIDTH = 200, BAR_WIDTH = 460, WIDTH = 1120, BOTTOM = 40 };

static void write_text(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&': fputs("&amp;", file); break;
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        default: fputc(*text, file);
        }
}

/* Powers of ten around all bars. */
static void find_range(const waterfall_bar *bars, int count, double *low, double *high)
{
    *low = INFINITY;
    *high = 0;
    for (int i = 0; i < count; i++) {
        *low = fmin(*low, bars[i].microseconds);
        *high = fmax(*high, bars[i].microseconds);
    }
    *low = pow(10, floor(log10(*low) - 1e-9));
    *high = pow(10, ceil(log10(*high) + 1e-9));
}

static double position(double microseconds, double low, double high)
{
    return NAME_WIDTH + BAR_WIDTH * log(microseconds / low) / log(high / low);
}

static void write_axis(FILE *file, double low, double high, int height)
{
    const int decades = (int)lround(log10(high / low));
    for (int i = 0; i <= decades; i++) {
        const double tick = low * pow(10, i), x = position(tick, low, high);
        fprintf(file,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"grid\"/>\n"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" class=\"small\">%g us</text>\n",
                x, TOP - 8, x, height - BOTTOM, x, height - BOTTOM + 18, tick);
    }
}

static void write_bar(FILE *file, const waterfall_bar *bars, int index, double low, double high)
{
    const waterfall_bar *bar = &bars[index];
    const double end = position(bar->microseconds, low, high);
    const int y = TOP + index * ROW;
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", NAME_WIDTH - 8, y + 15);
    write_text(file, bar->name);
    fprintf(file,
            "</text>\n<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" class=\"%s\"/>\n"
            "<text x=\"%.1f\" y=\"%d\">%.2f us</text>\n",
            NAME_WIDTH, y + 2, fmax(end - NAME_WIDTH, 1), ROW - 10, bar->slower ? "slower" : "bar",
            end + 6, y + 15, bar->microseconds);
    fprintf(file, "<text x=\"%d\" y=\"%d\" class=\"small\">", NAME_WIDTH + BAR_WIDTH + 90, y + 15);
    write_text(file, bar->note);
    fputs("</text>\n", file);
}

void waterfall_write(FILE *file, const char *title, const waterfall_bar *bars, int count)
{
    const int height = TOP + count * ROW + BOTTOM;
    double low, high;
    find_range(bars, count, &low, &high);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"13\">\n"
            "<style>rect.page{fill:#fff}text{fill:#222}.small{font-size:11px;fill:#555}"
            ".grid{stroke:#ddd}.bar{fill:#3b78b8}.slower{fill:#c8642c}</style>\n"
            "<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n"
            "<text x=\"16\" y=\"26\" font-size=\"16\">",
            WIDTH, height, WIDTH, height);
    write_text(file, title);
    fputs("</text>\n<text x=\"16\" y=\"44\" class=\"small\">time of a whole call, logarithmic; "
          "orange: slower than the rung it builds on</text>\n",
          file);
    write_axis(file, low, high, height);
    for (int i = 0; i < count; i++)
        write_bar(file, bars, i, low, high);
    fputs("</svg>\n", file);
}
