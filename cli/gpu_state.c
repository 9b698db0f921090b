/* gpu_state.c: see gpu_state.h. */
#include "gpu_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CUDA numbers the devices that CUDA_VISIBLE_DEVICES leaves; nvidia-smi numbers all, and takes the
 * variable's own words. */
static void name_device(int index, char name[64])
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(name, 64, "%d", index);
    for (; visible != NULL && *visible != '\0'; index--) {
        const size_t length = strcspn(visible, ",");
        if (index == 0)
            snprintf(name, 64, "%.*s", (int)length, visible);
        visible += length + (visible[length] == ',');
    }
    if (strspn(name, "0123456789abcdefABCDEFGPUMIG-") != strlen(name))
        name[0] = '\0'; /* no name of a device, and no word for a shell */
}

gpu_state gpu_state_read(int device_index)
{
    gpu_state state = {.known = false};
    char name[64], command[256];
    name_device(device_index, name);
    snprintf(command, sizeof command,
             "nvidia-smi -i %s --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw "
             "--format=csv,noheader,nounits 2>/dev/null",
             name);
    FILE *answer = name[0] != '\0' ? popen(command, "r") : NULL;
    char line[256] = "";
    if (answer == NULL)
        return state;
    const bool said = fgets(line, sizeof line, answer) != NULL;
    const bool ok = pclose(answer) == 0 && said;
    double *const fields[] = {&state.sm_megahertz, &state.memory_megahertz, &state.celsius,
                              &state.watts};
    char *at = line;
    int count = 0;
    for (char *end; ok && count < 4; count++, at = end + strspn(end, ", ")) {
        *fields[count] = strtod(at, &end);
        if (end == at)
            break;
    }
    state.known = count == 4;
    return state;
}

const char *gpu_state_text(const gpu_state *state, char text[GPU_STATE_TEXT_BYTES])
{
    if (!state->known)
        return "not known: nvidia-smi does not tell";
    snprintf(text, GPU_STATE_TEXT_BYTES, "SM %.0f MHz, memory %.0f MHz, %.0f C, %.0f W",
             state->sm_megahertz, state->memory_megahertz, state->celsius, state->watts);
    return text;
}

void gpu_state_json(json_writer *json, const char *name, const gpu_state *state)
{
    if (!state->known) {
        json_text(json, name, NULL);
        return;
    }
    json_object(json, name);
    json_number(json, "sm_megahertz", state->sm_megahertz);
    json_number(json, "memory_megahertz", state->memory_megahertz);
    json_number(json, "celsius", state->celsius);
    json_number(json, "watts", state->watts);
    json_end(json);
}
