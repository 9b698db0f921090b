/* main.c: the program `flashcore`: a verb, its flags, an exit status. */
#include "output.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>

static int run_verb(int word_count, char **words)
{
    const char *name = words[0];
    if (strcmp(name, "--version") == 0) {
        printf("flashcore %s\n", fc_version());
        return CLI_OK;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    const cli_verb *verb = cli_find_verb(name);
    if (verb == NULL)
        return cli_unknown_verb(name);
    cli_arguments arguments;
    int status = cli_parse(verb, word_count - 1, words + 1, &arguments);
    if (status != CLI_OK)
        return status;
    if (arguments.help) {
        cli_print_help(verb);
        return CLI_OK;
    }
    return verb->run(&arguments);
}

int main(int word_count, char **words)
{
    if (word_count < 2) {
        cli_print_help(NULL);
        return CLI_USAGE;
    }
    int status = run_verb(word_count - 1, words + 1);
    /* A full disk behind a redirected stdout shows only when the last bytes leave. */
    if (fflush(stdout) != 0 || ferror(stdout))
        return cli_fail(CLI_FAILED, "cannot write the output: %s", strerror(errno));
    return status;
}
