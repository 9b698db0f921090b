/* absent.c: the verbs that need the CUDA part, in a program that was built without it. */
#include "device.h"
#include "output.h"
#include "verbs.h"

int cli_emu(const cli_arguments *arguments)
{
    (void)arguments;
    return cli_fail(CLI_FAILED, "this program was built without its CUDA part; install the CUDA "
                                "toolkit and build again to have the emulator");
}

fc_context *cli_open_context(const cli_arguments *arguments, const fc_context_options *options)
{
    if (arguments->source_path == NULL)
        return cli_create_context(options);
    cli_refuse("this program was built without its CUDA part; install the CUDA toolkit and build "
               "again to use --source");
    return NULL;
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
