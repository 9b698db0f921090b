/* svg.h: what all pictures share: colours, text, logarithmic scales.
 *
 * Colours are classes. A picture of its own brings svg_style along; a page with several has it
 * once. They follow the reader's choice of light or dark, and are light on paper. */
#ifndef CLI_SVG_H
#define CLI_SVG_H

#include <stdbool.h>
#include <stdio.h>

extern const char svg_style[];

void svg_start(FILE *file, int width, int height, const char *title, bool alone);
void svg_end(FILE *file);

typedef enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END } svg_anchor;
void svg_text(FILE *file, double x, double y, svg_anchor anchor, const char *css_class,
              const char *format, ...) __attribute__((format(printf, 6, 7)));
void svg_line(FILE *file, double x1, double y1, double x2, double y2, const char *css_class);

/* Text of SVG and HTML, between tags or inside quotes. */
void svg_escape(FILE *file, const char *text);

/* Values on a logarithmic axis; equal steps are equal factors. */
typedef struct svg_axis {
    double low, high; /* powers of ten */
    double from, to;  /* where they lie in the picture */
} svg_axis;

svg_axis svg_axis_over(double smallest, double largest, double from, double to);
double svg_place(const svg_axis *axis, double value);
int svg_decades(const svg_axis *axis);

#endif
