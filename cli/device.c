/* device.c: see device.h. */
#include "device.h"
#include "output.h"

fc_context *cli_create_context(const fc_context_options *options)
{
    fc_context *context = NULL;
    if (fc_context_create(options, &context) != FC_OK)
        cli_refuse("%s", fc_last_error());
    return context;
}

static cli_device open_device(fc_context_options options, fc_device_type type, int index)
{
    cli_device device = {.type = type == FC_CPU ? "cpu" : "cuda", .index = index};
    options.device_type = type;
    options.device_index = index;
    bool ok = fc_context_create(&options, &device.context) == FC_OK;
    snprintf(device.name, sizeof device.name, "%s",
             ok ? fc_context_device(device.context) : fc_last_error());
    return device;
}

int cli_open_devices(const fc_context_options *options, cli_device devices[CLI_MAX_DEVICES])
{
    int count = 0;
    for (fc_device_type type = FC_CPU; type <= FC_CUDA; type++) {
        for (int index = 0; index < fc_device_count(type) && count < CLI_MAX_DEVICES; index++)
            devices[count++] = open_device(*options, type, index);
    }
    return count;
}

void cli_close_devices(cli_device *devices, int count)
{
    for (int index = 0; index < count; index++)
        fc_context_destroy(devices[index].context);
}
