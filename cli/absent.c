/* absent.c: the verbs that need the CUDA part, in a program that was built without it. */
#include "output.h"
#include "verbs.h"

int cli_emu(const cli_arguments *arguments)
{
    (void)arguments;
    return cli_fail(CLI_FAILED, "this program was built without its CUDA part; install the CUDA "
                                "toolkit and build again to have the emulator");
}

int cli_tune(const cli_arguments *arguments)
{
    (void)arguments;
    return cli_fail(CLI_FAILED, "this program was built without its CUDA part; install the CUDA "
                                "toolkit and build again to tune its kernels");
}

int cli_ladder(const cli_arguments *arguments)
{
    (void)arguments;
    return cli_fail(CLI_FAILED, "this program was built without its CUDA part; install the CUDA "
                                "toolkit and build again to have the ladder");
}
