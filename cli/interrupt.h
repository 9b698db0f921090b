/* interrupt.h: Ctrl-C ends long work after the step at hand, with its results; a second one ends it
 * at once. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

void cli_catch_interrupts(void);
bool cli_interrupted(void);

#endif
