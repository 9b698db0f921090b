/* manual.c: the manual page, in man(7)'s language, from the tables of verbs and flags. */
#include "output.h"
#include "verbs.h"

/* A hyphen of the source would become a typographic one, which nobody can paste into a shell; a
 * line that begins with a dot or a quote would be a request. */
static void print_text(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text != '\0'; text++) {
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            putchar(*text);
    }
}

static void print_option(const cli_option *option)
{
    printf(".TP\n\\fB");
    print_text("--");
    print_text(option->name);
    printf("\\fR");
    if (option->argument != NULL && option->argument[0] == '[')
        printf("[=\\fI%s", option->argument + 1);
    else if (option->argument != NULL)
        printf(" \\fI%s", option->argument);
    printf("\\fR\n");
    print_text(option->help);
    printf("\n");
}

static void print_verb(const cli_verb *verb)
{
    printf(".SS flashcore %s [flags]", verb->name);
    if (verb->operand != NULL)
        printf(" [%s]", verb->operand);
    printf("\n");
    print_text(verb->description);
    printf("\n");
    for (size_t index = 0; index < cli_option_count; index++) {
        if (cli_options[index].verbs & verb->bit)
            print_option(&cli_options[index]);
    }
}

static void print_environment(void)
{
    printf(".SH ENVIRONMENT\n"
           ".TP\n.B FLASHCORE_KERNEL\n"
           "Forces kernels by name where\n.B \\-\\-kernel\nis not given.\n"
           ".TP\n.B FLASHCORE_NCU\n"
           "Names Nsight Compute for\n.B profile\nwhere it is not in the usual places.\n"
           ".TP\n.B FLASHCORE_TUNED\n"
           "Names the file of\n.B tune\nthat plans on a GPU take their macros from.\n"
           ".TP\n.B OMP_NUM_THREADS\n"
           "The number of CPU threads where\n.B \\-\\-threads\nis not given.\n");
}

int cli_manual(const cli_arguments *arguments)
{
    (void)arguments;
    printf(".TH FLASHCORE 1 \"\" \"FlashCore %s\"\n", fc_version());
    printf(".SH NAME\nflashcore \\- fused scaled\\-dot\\-product attention\n");
    printf(".SH SYNOPSIS\n.B flashcore\n.I verb\n[flags]\n");
    printf(".SH DESCRIPTION\n"
           "Computes softmax(Q\\(muK^T\\(muscale + bias)\\(muV in one pass, checks the kernels "
           "that do "
           "so against double precision, and measures them.\n");
    printf(".SH VERBS\n");
    for (size_t index = 0; index < cli_verb_count; index++)
        print_verb(&cli_verbs[index]);
    printf(".SH EXAMPLES\n.nf\n");
    for (size_t index = 0; index < cli_verb_count; index++) {
        const char *const *examples = cli_verbs[index].examples;
        for (size_t example = 0; example < 4 && examples[example] != NULL; example++) {
            printf("flashcore ");
            print_text(examples[example]);
            printf("\n");
        }
    }
    printf(".fi\n");
    print_environment();
    printf(".SH EXIT STATUS\n"
           "0: all went well. 1: it failed, or a case of\n.B check\ndid. "
           "2: the command line was not understood. 130: it was interrupted.\n");
    return CLI_OK;
}
