/* charts.h: pictures of a report page (report.c): points under a roof, counts, a landscape. */
#ifndef CLI_CHARTS_H
#define CLI_CHARTS_H

#include "svg.h"

typedef struct roofline_point {
    char name[160];
    double operations_a_byte;
    double tflops;
} roofline_point;

/* What a device can do at most; 0 where nobody knows. */
typedef struct roofline_roof {
    double tflops;
    double gigabytes_per_second;
} roofline_roof;

void roofline_write(FILE *file, const char *title, const roofline_roof *roof,
                    const roofline_point *points, int count);

typedef struct histogram_column {
    char label[32];
    double count;
} histogram_column;

void histogram_write(FILE *file, const char *title, const char *caption,
                     const histogram_column *columns, int count);

/* Microseconds over two choices; NaN where there is no time. The fastest cell is marked. */
enum { LANDSCAPE_MOST = 16 };
typedef struct landscape {
    char x_name[64], y_name[64];
    char x_values[LANDSCAPE_MOST][32], y_values[LANDSCAPE_MOST][32];
    int x_count, y_count;
    double microseconds[LANDSCAPE_MOST][LANDSCAPE_MOST]; /* [y][x] */
} landscape;

void landscape_write(FILE *file, const char *title, const landscape *map);

#endif
