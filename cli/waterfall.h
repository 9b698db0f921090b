/* waterfall.h: times as bars from top to bottom, an SVG picture. */
#ifndef CLI_WATERFALL_H
#define CLI_WATERFALL_H

#include <stdio.h>

typedef struct waterfall_bar {
    char name[128];
    const char *note;
    double microseconds;
    int slower; /* than what it is compared with */
} waterfall_bar;

void waterfall_write(FILE *file, const char *title, const waterfall_bar *bars, int count);

#endif
