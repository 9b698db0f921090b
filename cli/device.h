/* device.h: contexts of the devices that are here. */
#ifndef CLI_DEVICE_H
#define CLI_DEVICE_H

#include "flashcore.h"
#include "options.h"

/* NULL: refused, and the reason printed. */
fc_context *cli_create_context(const fc_context_options *options);

/* The same for verbs that have --source: with that file in place of the kernel's own. */
fc_context *cli_open_context(const cli_arguments *arguments, const fc_context_options *options);

enum { CLI_MAX_DEVICES = 16 };

typedef struct cli_device {
    const char *type; /* "cpu" */
    int index;
    fc_context *context; /* NULL: it could not be used; `name` says why */
    char name[256];
} cli_device;

/* Every device of every type, in contexts with these options. Returns how many. */
int cli_open_devices(const fc_context_options *options, cli_device devices[CLI_MAX_DEVICES]);
void cli_close_devices(cli_device *devices, int count);

#endif
