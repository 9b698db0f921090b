/* completion.c: a completion script for bash, from the tables of verbs and flags. */
#include "output.h"
#include "verbs.h"

#include <string.h>

static void print_verb_flags(const cli_verb *verb)
{
    printf("        %s) flags=\"", verb->name);
    const char *separator = "";
    for (size_t index = 0; index < cli_option_count; index++) {
        if (cli_options[index].verbs & verb->bit) {
            printf("%s--%s", separator, cli_options[index].name);
            separator = " ";
        }
    }
    printf("\" ;;\n");
}

static void print_kernel_names(void)
{
    fc_context *context;
    fc_attention problem = fc_attention_init();
    problem.batch = problem.q_heads = problem.kv_heads = 1;
    problem.q_length = problem.kv_length = problem.head_dim = 8;
    problem.q_type = FC_F32;
    if (fc_context_create(NULL, &context) != FC_OK)
        return;
    for (int index = 0; index < fc_kernel_count(); index++) {
        fc_kernel_info info = fc_kernel_info_init();
        if (fc_kernel_query(context, &problem, index, &info) == FC_OK)
            printf("%s%s", index > 0 ? " " : "", info.name);
    }
    fc_context_destroy(context);
}

static void print_type_names(void)
{
    for (fc_type type = FC_F32; type <= FC_F64; type++)
        printf("%s%s", type > FC_F32 ? " " : "", fc_type_name(type));
}

/* Flags whose argument is one of a few words; others complete to file names. */
static void print_choices(const cli_option *option)
{
    const char *argument = option->argument;
    if (argument == NULL || strcmp(argument, "FILE") == 0 || argument[0] == '[')
        return;
    printf("        --%s) words=\"", option->name);
    if (strcmp(argument, "TYPE") == 0)
        print_type_names();
    else if (strcmp(option->name, "kernel") == 0)
        print_kernel_names();
    else if (strcmp(option->name, "case") == 0)
        printf("$(flashcore check --list 2>/dev/null)");
    else if (strchr(argument, '|') != NULL)
        for (const char *c = argument; *c != '\0'; c++)
            putchar(*c == '|' ? ' ' : *c);
    printf("\"; known=1 ;;\n");
}

int cli_completion(const cli_arguments *arguments)
{
    (void)arguments;
    printf("# bash completion for flashcore %s\n"
           "_flashcore()\n"
           "{\n"
           "    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
           "    local verb=\"${COMP_WORDS[1]}\" flags=\"\" words=\"\" known=\"\"\n"
           "    local verbs=\"",
           fc_version());
    for (size_t index = 0; index < cli_verb_count; index++)
        printf("%s%s", index > 0 ? " " : "", cli_verbs[index].name);
    printf("\"\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$verbs --help --version\" -- \"$word\")\n"
           "        return\n"
           "    fi\n"
           "    case \"$before\" in\n"
           "        help) [[ \"$word\" == -* ]] || { words=\"$verbs\"; known=1; } ;;\n");
    for (size_t index = 0; index < cli_option_count; index++)
        print_choices(&cli_options[index]);
    printf("    esac\n"
           "    case \"$verb\" in\n");
    for (size_t index = 0; index < cli_verb_count; index++)
        print_verb_flags(&cli_verbs[index]);
    printf("    esac\n"
           "    case \"$word\" in\n"
           "        -*) [ -n \"$known\" ] || { words=\"$flags\"; known=1; } ;;\n"
           "    esac\n"
           "    if [ -n \"$known\" ]; then\n"
           "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
           "    else\n"
           "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
           "    fi\n"
           "}\n"
           "complete -o filenames -F _flashcore flashcore\n");
    return CLI_OK;
}
