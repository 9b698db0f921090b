/* help.c: --help, from the tables of verbs and flags. */
#include "output.h"
#include "table.h"
#include "verbs.h"

#include <string.h>

static void print_program_help(void)
{
    printf("flashcore %s: fused attention, softmax(Q*K^T*scale + bias)*V\n\n"
           "usage: flashcore VERB [flags]\n\n",
           fc_version());
    for (size_t index = 0; index < cli_verb_count; index++)
        printf("  %-12s%s\n", cli_verbs[index].name, cli_verbs[index].summary);
    printf("\n'flashcore VERB --help' explains a verb; 'flashcore --version' prints the version.\n"
           "Start with 'flashcore demo'.\n");
}

static void print_option(const cli_option *option)
{
    enum { HELP_COLUMN = 26 };
    char left[64];
    bool optional = option->argument != NULL && option->argument[0] == '[';
    if (option->argument == NULL)
        snprintf(left, sizeof left, "--%s", option->name);
    else if (optional) /* "[FILE]" is shown as [=FILE]: joined it is right for every verb */
        snprintf(left, sizeof left, "--%s[=%s", option->name, option->argument + 1);
    else
        snprintf(left, sizeof left, "--%s %s", option->name, option->argument);
    printf("  %-*s", HELP_COLUMN - 2, left);
    if (strlen(left) > HELP_COLUMN - 3)
        printf("\n%*s", HELP_COLUMN, "");
    table_wrap(stdout, option->help, HELP_COLUMN, HELP_COLUMN);
}

static void print_verb_help(const cli_verb *verb)
{
    printf("flashcore %s: %s\n\nusage: flashcore %s [flags]", verb->name, verb->summary,
           verb->name);
    if (verb->operand != NULL)
        printf(" [%s]", verb->operand);
    printf("\n\n");
    table_wrap(stdout, verb->description, 0, 0);
    printf("\n");
    for (size_t index = 0; index < cli_option_count; index++) {
        if (cli_options[index].verbs & verb->bit)
            print_option(&cli_options[index]);
    }
    printf("\nexamples:\n");
    for (size_t index = 0; index < 4 && verb->examples[index] != NULL; index++)
        printf("  flashcore %s\n", verb->examples[index]);
}

void cli_print_help(const cli_verb *verb)
{
    if (verb == NULL)
        print_program_help();
    else
        print_verb_help(verb);
}

int cli_help(const cli_arguments *arguments)
{
    const cli_verb *verb = NULL;
    if (arguments->operand != NULL) {
        verb = cli_find_verb(arguments->operand);
        if (verb == NULL)
            return cli_unknown_verb(arguments->operand);
    }
    cli_print_help(verb);
    return CLI_OK;
}
