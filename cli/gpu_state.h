/* gpu_state.h: how a GPU does at this moment, as nvidia-smi tells it: a time means little without
 * its clocks. */
#ifndef CLI_GPU_STATE_H
#define CLI_GPU_STATE_H

#include "json.h"

typedef struct gpu_state {
    bool known;
    double sm_megahertz, memory_megahertz;
    double celsius, watts;
} gpu_state;

/* Of the CUDA device with that number. Not known where there is no nvidia-smi. */
gpu_state gpu_state_read(int device_index);

/* "SM 1980 MHz, memory 2619 MHz, 41 C, 120 W", or "not known: there is no nvidia-smi". */
enum { GPU_STATE_TEXT_BYTES = 96 };
const char *gpu_state_text(const gpu_state *state, char text[GPU_STATE_TEXT_BYTES]);
void gpu_state_json(json_writer *json, const char *name, const gpu_state *state);

#endif
