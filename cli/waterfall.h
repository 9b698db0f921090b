/* waterfall.h: times as bars from top to bottom, an SVG picture. */
#ifndef CLI_WATERFALL_H
#define CLI_WATERFALL_H

#include "svg.h"

typedef enum waterfall_shade {
    WATERFALL_PLAIN,
    WATERFALL_WORSE, /* than what it is compared with */
    WATERFALL_OTHER  /* of another program */
} waterfall_shade;

typedef struct waterfall_bar {
    char name[160];
    const char *note;
    double microseconds;
    waterfall_shade shade;
} waterfall_bar;

/* legend: what the colours say. alone: a picture of its own and no part of a page. */
void waterfall_write(FILE *file, const char *title, const char *legend, const waterfall_bar *bars,
                     int count, bool alone);

#endif
