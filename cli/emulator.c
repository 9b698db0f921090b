/* emulator.c: see emulator.h. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_find_emulator(char path[CLI_EMULATOR_PATH_BYTES])
{
    static const char beside[] = "/../emu/libflashcore_emu.so";
    const char *given = getenv("FLASHCORE_EMU");
    if (given != NULL && *given != '\0') {
        snprintf(path, CLI_EMULATOR_PATH_BYTES, "%s", given);
        return access(path, R_OK) == 0;
    }
    const ssize_t length =
        readlink("/proc/self/exe", path, CLI_EMULATOR_PATH_BYTES - sizeof beside);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    memcpy(slash, beside, sizeof beside);
    return access(path, R_OK) == 0;
}

bool cli_use_emulator(char complaint[CLI_COMPLAINT_BYTES])
{
    char path[CLI_EMULATOR_PATH_BYTES];
    const char *given = getenv("FLASHCORE_EMU");
    if (!cli_find_emulator(path)) {
        if (given != NULL && *given != '\0')
            snprintf(complaint, CLI_COMPLAINT_BYTES, "FLASHCORE_EMU=%.100s cannot be read", given);
        else
            snprintf(complaint, CLI_COMPLAINT_BYTES,
                     "the emulator is not built: 'cmake --build' of the whole build folder makes "
                     "it, unless FC_EMU is off; FLASHCORE_EMU names one elsewhere");
        return false;
    }
    return setenv("FLASHCORE_CUDA_DRIVER", path, 1) == 0;
}
