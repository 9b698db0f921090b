/* info.c: `flashcore info`: what a report of a problem should hold. */
#include "device.h"
#include "output.h"

#include "cpu/features.h"
#include "verbs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static const char variable_prefix[] = "FLASHCORE_";

/* Features that a kernel could make use of, by the names of /proc/cpuinfo. */
static const char *const known_features[] = {
    "asimd",       "asimdhp",     "asimdfhm",    "asimddp",  "fphp",     "bf16",
    "i8mm",        "sve",         "sve2",        "sme",      "sse4_2",   "f16c",
    "fma",         "avx",         "avx2",        "avx512f",  "avx512bw", "avx512vl",
    "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "amx_tile",
};

typedef struct processor {
    char model[128];
    char features[256];
} processor;

static bool holds_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(words, word); at != NULL; at = strstr(at + 1, word)) {
        if (at[-1] == ' ' && (at[length] == ' ' || at[length] == '\n' || at[length] == '\0'))
            return true;
    }
    return false;
}

static void list_features(const char *words, char *text, size_t capacity)
{
    size_t used = 0;
    for (size_t index = 0; index < sizeof known_features / sizeof known_features[0]; index++) {
        if (used < capacity && holds_word(words, known_features[index]))
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used > 0 ? " " : "",
                                     known_features[index]);
    }
}

/* The first processor's lines: "flags : fpu vme …" on x86, "Features : fp asimd …" on ARM. */
static processor read_processor(void)
{
    processor found = {.model = "", .features = ""};
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && found.features[0] == '\0' && getline(&line, &capacity, file) > 0) {
        char *value = strchr(line, ':');
        if (value == NULL)
            continue;
        value++;
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0)
            list_features(value, found.features, sizeof found.features);
        if (strncmp(line, "model name", 10) == 0)
            snprintf(found.model, sizeof found.model, "%.*s", (int)strcspn(value + 1, "\n"),
                     value + 1);
    }
    if (file != NULL)
        fclose(file);
    free(line);
    return found;
}

/* The instruction sets that the kernels were compiled for and this machine has. */
static void list_instruction_sets(char *text, size_t capacity)
{
    size_t used = 0;
    for (fc_cpu_level level = 0; level < FC_CPU_LEVEL_COUNT; level++) {
        if (fc_cpu_has(level) && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used > 0 ? " " : "",
                                     fc_cpu_level_name(level));
    }
}

/* The one that kernels are taken from first. */
static const char *best_instruction_set(void)
{
    fc_cpu_level limit;
    const char *best = "none, FLASHCORE_CPU is wrong";
    if (fc_cpu_read_limit(&limit) != FC_OK)
        return best;
    for (fc_cpu_level level = 0; level <= limit; level++) {
        if (fc_cpu_has(level))
            best = fc_cpu_level_name(level);
    }
    return best;
}

typedef struct info_report {
    processor cpu;
    char instruction_sets[64];
    int device_count;
    cli_device devices[CLI_MAX_DEVICES];
} info_report;

static void write_device(json_writer *json, const cli_device *device)
{
    json_object(json, NULL);
    json_text(json, "type", device->type);
    json_integer(json, "index", device->index);
    json_text(json, "name", device->name);
    json_boolean(json, "usable", device->context != NULL);
    json_end(json);
}

static void write_json(json_writer *json, const void *data)
{
    const info_report *report = data;
    cli_json_result(json, "info");
    json_array(json, "devices");
    for (int index = 0; index < report->device_count; index++)
        write_device(json, &report->devices[index]);
    json_end(json);
    json_text(json, "processor", report->cpu.model);
    json_text(json, "features", report->cpu.features);
    json_text(json, "instruction_sets", report->instruction_sets);
    json_text(json, "instruction_set_used", best_instruction_set());
    json_integer(json, "processors_online", sysconf(_SC_NPROCESSORS_ONLN));
    json_text(json, "omp_num_threads", getenv("OMP_NUM_THREADS"));
    json_array(json, "environment");
    for (char **variable = environ; *variable != NULL; variable++) {
        if (strncmp(*variable, variable_prefix, strlen(variable_prefix)) == 0)
            json_text(json, NULL, *variable);
    }
    json_end(json);
    json_end(json);
}

static void print_text(const info_report *report)
{
    const processor *cpu = &report->cpu;
    const char *threads = getenv("OMP_NUM_THREADS");
    printf("%-13s%s\n", "version", fc_version());
    printf("%-13s%s\n", "build", fc_build());
    for (int index = 0; index < report->device_count; index++)
        printf("%-13s%s %d: %s\n", "device", report->devices[index].type,
               report->devices[index].index, report->devices[index].name);
    if (cpu->model[0] != '\0')
        printf("%-13s%s\n", "processor", cpu->model);
    printf("%-13s%s\n", "features", cpu->features[0] != '\0' ? cpu->features : "unknown");
    printf("%-13s%s; used: %s\n", "kernels for", report->instruction_sets, best_instruction_set());
    printf("%-13s%ld%s%s\n", "processors", sysconf(_SC_NPROCESSORS_ONLN),
           threads != NULL ? ", OMP_NUM_THREADS=" : "", threads != NULL ? threads : "");
    bool any = false;
    for (char **variable = environ; *variable != NULL; variable++) {
        if (strncmp(*variable, variable_prefix, strlen(variable_prefix)) == 0) {
            printf("%-13s%s\n", "environment", *variable);
            any = true;
        }
    }
    if (!any)
        printf("%-13sno FLASHCORE_ variable is set\n", "environment");
}

int cli_info(const cli_arguments *arguments)
{
    info_report report = {.cpu = read_processor()};
    list_instruction_sets(report.instruction_sets, sizeof report.instruction_sets);
    fc_context_options options = fc_context_options_init();
    report.device_count = cli_open_devices(&options, report.devices);
    if (cli_wants_text(arguments))
        print_text(&report);
    bool written = cli_write_json(arguments, write_json, &report);
    cli_close_devices(report.devices, report.device_count);
    return written ? CLI_OK : CLI_FAILED;
}
