/* parse.c: the words of a command line, checked against the table of flags. */
#include "options.h"
#include "output.h"

#include <stdlib.h>
#include <string.h>

/* 1. What may have been meant. */

enum { LONGEST_WORD = 32 };

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Letters to insert, delete or replace. */
static size_t edit_distance(const char *left, const char *right)
{
    size_t left_length = strlen(left), right_length = strlen(right);
    size_t row[LONGEST_WORD + 1];
    if (left_length > LONGEST_WORD || right_length > LONGEST_WORD)
        return LONGEST_WORD;
    for (size_t column = 0; column <= right_length; column++)
        row[column] = column;
    for (size_t line = 1; line <= left_length; line++) {
        size_t diagonal = row[0];
        row[0] = line;
        for (size_t column = 1; column <= right_length; column++) {
            size_t replaced = diagonal + (left[line - 1] != right[column - 1]);
            diagonal = row[column];
            row[column] = smallest(replaced, row[column] + 1, row[column - 1] + 1);
        }
    }
    return row[right_length];
}

typedef struct suggestion {
    const char *wanted;
    const char *nearest; /* NULL: nothing is near */
    size_t distance;
} suggestion;

/* A third of the letters may differ: "buget" is no "bench", "banch" is. */
static void consider(suggestion *so_far, const char *candidate)
{
    size_t distance = edit_distance(so_far->wanted, candidate);
    bool begins_alike = strncmp(so_far->wanted, candidate, strlen(so_far->wanted)) == 0;
    if (begins_alike)
        distance = 1;
    size_t allowed = 1 + strlen(so_far->wanted) / 3;
    if (distance <= allowed && (so_far->nearest == NULL || distance < so_far->distance)) {
        so_far->nearest = candidate;
        so_far->distance = distance;
    }
}

const cli_verb *cli_find_verb(const char *name)
{
    for (size_t index = 0; index < cli_verb_count; index++) {
        if (strcmp(cli_verbs[index].name, name) == 0)
            return &cli_verbs[index];
    }
    return NULL;
}

int cli_unknown_verb(const char *name)
{
    suggestion guess = {.wanted = name};
    for (size_t index = 0; index < cli_verb_count; index++)
        consider(&guess, cli_verbs[index].name);
    if (guess.nearest != NULL)
        return cli_fail(CLI_USAGE, "there is no verb '%s'; did you mean 'flashcore %s'?", name,
                        guess.nearest);
    return cli_fail(CLI_USAGE, "there is no verb '%s'; 'flashcore --help' lists them", name);
}

static const cli_verb *verb_with_option(const char *name)
{
    for (size_t index = 0; index < cli_option_count; index++) {
        for (size_t verb = 0; verb < cli_verb_count; verb++) {
            if (strcmp(cli_options[index].name, name) == 0 &&
                cli_options[index].verbs & cli_verbs[verb].bit)
                return &cli_verbs[verb];
        }
    }
    return NULL;
}

static int unknown_option(const cli_verb *verb, const char *name)
{
    const cli_verb *other = verb_with_option(name);
    if (other != NULL)
        return cli_fail(CLI_USAGE, "%s has no flag --%s; 'flashcore %s' has", verb->name, name,
                        other->name);
    suggestion guess = {.wanted = name};
    for (size_t index = 0; index < cli_option_count; index++) {
        if (cli_options[index].verbs & verb->bit)
            consider(&guess, cli_options[index].name);
    }
    if (guess.nearest != NULL)
        return cli_fail(CLI_USAGE, "%s has no flag --%s; did you mean --%s?", verb->name, name,
                        guess.nearest);
    return cli_fail(CLI_USAGE, "%s has no flag --%s; 'flashcore %s --help' lists them", verb->name,
                    name, verb->name);
}

/* 2. One flag. */

static const cli_option *find_option(const cli_verb *verb, const char *name, size_t length)
{
    for (size_t index = 0; index < cli_option_count; index++) {
        const cli_option *option = &cli_options[index];
        if (option->verbs & verb->bit && strlen(option->name) == length &&
            strncmp(option->name, name, length) == 0)
            return option;
    }
    return NULL;
}

static bool is_a_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *choice = choices; length > 0; choice++) {
        size_t choice_length = strcspn(choice, "|");
        if (choice_length == length && strncmp(choice, text, length) == 0)
            return true;
        choice += choice_length;
        if (*choice == '\0')
            break;
    }
    return false;
}

static int set_option(const cli_option *option, const char *text, cli_arguments *arguments)
{
    char complaint[CLI_COMPLAINT_BYTES];
    bool has_choices = text != NULL && strchr(option->argument, '|') != NULL;
    if (has_choices && !is_a_choice(option->argument, text))
        return cli_fail(CLI_USAGE, "--%s: '%s' is none of %s", option->name, text,
                        option->argument);
    if (!option->set(arguments, (char *)arguments + option->field, text, complaint))
        return cli_fail(CLI_USAGE, "--%s: %s", option->name, complaint);
    return CLI_OK;
}

/* The word after a flag is its argument, unless it is a flag itself. An argument that may be left
 * out is taken from the next word only where that cannot be the verb's operand. */
static bool takes_next_word(const cli_verb *verb, const cli_option *option, const char *next)
{
    if (option->argument == NULL || next == NULL || strncmp(next, "--", 2) == 0)
        return false;
    return option->argument[0] != '[' || verb->operand == NULL;
}

/* words[*at] begins with two dashes; *at moves on where an argument follows. */
static int parse_option(const cli_verb *verb, char **words, int *at, cli_arguments *arguments)
{
    char *name = words[*at] + 2;
    size_t length = strcspn(name, "=");
    const char *text = name[length] == '=' ? name + length + 1 : NULL;
    const cli_option *option = find_option(verb, name, length);
    if (option == NULL) {
        name[length] = '\0';
        return unknown_option(verb, name);
    }
    if (option->argument == NULL && text != NULL)
        return cli_fail(CLI_USAGE, "--%s takes no argument", option->name);
    if (text == NULL && takes_next_word(verb, option, words[*at + 1]))
        text = words[++*at];
    if (text == NULL && option->argument != NULL && option->argument[0] != '[')
        return cli_fail(CLI_USAGE, "--%s needs an argument: --%s %s", option->name, option->name,
                        option->argument);
    return set_option(option, text, arguments);
}

/* 3. All words. */

static int parse_operand(const cli_verb *verb, const char *word, cli_arguments *arguments)
{
    if (verb->operand == NULL)
        return cli_fail(CLI_USAGE, "%s does not know what to do with '%s'; its flags begin with --",
                        verb->name, word);
    if (arguments->operand != NULL)
        return cli_fail(CLI_USAGE, "%s takes one %s, but '%s' and '%s' are there", verb->name,
                        verb->operand, arguments->operand, word);
    arguments->operand = word;
    return CLI_OK;
}

int cli_parse(const cli_verb *verb, int word_count, char **words, cli_arguments *arguments)
{
    *arguments =
        (cli_arguments){.problem = fc_attention_init(), .context = fc_context_options_init()};
    int status = CLI_OK;
    for (int at = 0; at < word_count && status == CLI_OK; at++) {
        if (strcmp(words[at], "-h") == 0)
            arguments->help = 1;
        else if (strncmp(words[at], "--", 2) == 0)
            status = parse_option(verb, words, &at, arguments);
        else if (words[at][0] == '-')
            status = cli_fail(CLI_USAGE, "%s has no flag %s; flags have two dashes: -%s",
                              verb->name, words[at], words[at]);
        else
            status = parse_operand(verb, words[at], arguments);
    }
    return status;
}
