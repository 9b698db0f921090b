/* emulator.c: see emulator.h. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* FLASHCORE_EMU, or in the build folder beside the program's. */
static bool find_library(char path[PATH_BYTES])
{
    static const char beside[] = "/../emu/libflashcore_emu.so";
    const char *given = getenv("FLASHCORE_EMU");
    if (given != NULL && *given != '\0') {
        snprintf(path, PATH_BYTES, "%s", given);
        return access(path, R_OK) == 0;
    }
    const ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - sizeof beside);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return false;
    memcpy(slash, beside, sizeof beside);
    return access(path, R_OK) == 0;
}

bool cli_use_emulator(char complaint[CLI_COMPLAINT_BYTES])
{
    char path[PATH_BYTES];
    if (!find_library(path)) {
        snprintf(complaint, CLI_COMPLAINT_BYTES,
                 "this build has no emulator; FLASHCORE_EMU names its library");
        return false;
    }
    return setenv("FLASHCORE_CUDA_DRIVER", path, 1) == 0;
}
