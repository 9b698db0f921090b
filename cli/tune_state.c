/* tune_state.c: a search as a file: its result, and where an interrupted one goes on. */
#include "files.h"
#include "output.h"
#include "tune.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const outcomes[] = {[TUNE_WAITING] = "waiting",
                                       [TUNE_REFUSED] = "refused",
                                       [TUNE_PRUNED] = "pruned",
                                       [TUNE_FAILED] = "failed",
                                       [TUNE_TIMED] = "timed"};

const char *tune_outcome_name(tune_outcome outcome)
{
    return outcomes[outcome];
}

/* 1. Writing. */

static void write_axes(json_writer *json, const tune_search *search)
{
    json_array(json, "axes");
    for (int i = 0; i < search->axis_count; i++) {
        json_object(json, NULL);
        json_text(json, "macro", search->axes[i].name);
        json_array(json, "values");
        for (int value = 0; value < search->axes[i].count; value++)
            json_text(json, NULL, search->axes[i].values[value]);
        json_end(json);
        json_end(json);
    }
    json_end(json);
}

static void write_candidate(json_writer *json, const tune_search *search,
                            const tune_candidate *candidate)
{
    json_object(json, NULL);
    json_text(json, "text", candidate->text[0] != '\0' ? candidate->text : "as built");
    json_text(json, "outcome", outcomes[candidate->outcome]);
    json_text(json, "reason", candidate->reason);
    json_object(json, "macros");
    for (int axis = 0; axis < search->axis_count && candidate->choice[axis] >= 0; axis++)
        json_text(json, search->axes[axis].name,
                  search->axes[axis].values[candidate->choice[axis]]);
    json_end(json);
    if (candidate->signature[0] != '\0')
        json_text(json, "signature", candidate->signature);
    if (candidate->registers > 0) {
        json_integer(json, "registers", candidate->registers);
        json_integer(json, "shared_bytes", candidate->shared_bytes);
        json_integer(json, "spill_bytes", candidate->spill_bytes);
    }
    if (candidate->outcome == TUNE_TIMED) {
        json_integer(json, "rounds", candidate->rounds);
        json_number(json, "p10_us", candidate->p10);
        json_number(json, "p50_us", candidate->p50);
        json_number(json, "p90_us", candidate->p90);
    }
    json_end(json);
}

static const char *mode_name(tune_mode mode)
{
    static const char *const names[] = {
        [TUNE_CPU] = "timed", [TUNE_CUDA] = "timed", [TUNE_EMU] = "busy time by counts"};
    return names[mode];
}

static void write_search(json_writer *json, const void *data)
{
    const tune_search *search = data;
    const tune_candidate *best = tune_best(search);
    cli_json_result(json, "tune");
    json_text(json, "device", search->device);
    json_text(json, "numbers", mode_name(search->mode));
    json_text(json, "gpu", search->mode == TUNE_EMU ? search->gpu : NULL);
    json_text(json, "kernel", search->kernel);
    json_text(json, "variant", search->variant);
    json_text(json, "bucket", search->bucket);
    cli_problem_json(json, "problem", &search->problem);
    json_boolean(json, "interrupted", search->interrupted);
    json_text(json, "best", best == NULL ? NULL : best->text[0] != '\0' ? best->text : "as built");
    write_axes(json, search);
    json_array(json, "candidates");
    for (int i = 0; i < search->count; i++)
        write_candidate(json, search, &search->candidates[i]);
    json_end(json);
    json_end(json);
}

bool tune_write(const tune_search *search)
{
    const cli_arguments to_file = {.json = 1, .json_path = search->path};
    return cli_write_json(&to_file, write_search, search);
}

/* 2. Reading: only numbers of the same search count. */

static bool is_same(const json_value *file, const tune_search *search)
{
    return strcmp(json_text_of(file, "verb", ""), "tune") == 0 &&
           strcmp(json_text_of(file, "build", ""), fc_build()) == 0 &&
           strcmp(json_text_of(file, "device", ""), search->device) == 0 &&
           strcmp(json_text_of(file, "numbers", ""), mode_name(search->mode)) == 0 &&
           strcmp(json_text_of(file, "kernel", ""), search->kernel) == 0 &&
           strcmp(json_text_of(json_member(file, "problem"), "text", ""), search->problem_text) ==
               0;
}

static void read_candidate(const json_value *row, tune_candidate *candidate)
{
    const char *outcome = json_text_of(row, "outcome", "");
    for (tune_outcome known = TUNE_WAITING; known <= TUNE_TIMED; known++)
        if (strcmp(outcomes[known], outcome) == 0)
            candidate->outcome = known;
    snprintf(candidate->reason, sizeof candidate->reason, "%s", json_text_of(row, "reason", ""));
    snprintf(candidate->signature, sizeof candidate->signature, "%s",
             json_text_of(row, "signature", ""));
    candidate->registers = (int)json_number_of(row, "registers", 0);
    candidate->shared_bytes = (int)json_number_of(row, "shared_bytes", 0);
    candidate->spill_bytes = (int)json_number_of(row, "spill_bytes", 0);
    if (candidate->outcome != TUNE_TIMED)
        return;
    candidate->rounds = (int)json_number_of(row, "rounds", 0);
    candidate->p10 = json_number_of(row, "p10_us", 0);
    candidate->p50 = json_number_of(row, "p50_us", 0);
    candidate->p90 = json_number_of(row, "p90_us", 0);
}

bool tune_read(tune_search *search)
{
    if (access(search->path, F_OK) != 0)
        return true;
    json_value *file = cli_read_json(search->path);
    if (file == NULL)
        return false;
    const bool same = is_same(file, search);
    int known = 0;
    for (const json_value *row = json_first(file, "candidates"); same && row; row = row->next)
        for (int i = 0; i < search->count; i++) {
            const char *text = search->candidates[i].text;
            if (strcmp(json_text_of(row, "text", ""), *text ? text : "as built") != 0)
                continue;
            read_candidate(row, &search->candidates[i]);
            known += search->candidates[i].outcome != TUNE_WAITING;
        }
    json_free(file);
    if (!same)
        return cli_refuse("%s holds another search; name another file, or remove it", search->path);
    if (known > 0)
        printf("%s: going on, %d of %d candidates are known\n", search->path, known, search->count);
    return true;
}

/* 3. Showing needs no device: the file has it all. */

static void load_axes(const json_value *file, tune_search *search)
{
    for (const json_value *row = json_first(file, "axes");
         row != NULL && search->axis_count < TUNE_MOST_AXES; row = row->next) {
        tune_axis *axis = &search->axes[search->axis_count++];
        snprintf(axis->name, sizeof axis->name, "%s", json_text_of(row, "macro", "?"));
        for (const json_value *value = json_first(row, "values");
             value != NULL && axis->count < TUNE_MOST_VALUES; value = value->next)
            snprintf(axis->values[axis->count++], sizeof axis->values[0], "%s",
                     value->kind == JSON_TEXT ? value->text : "?");
    }
}

static void load_candidate(const json_value *row, const tune_search *search,
                           tune_candidate *candidate)
{
    const json_value *macros = json_member(row, "macros");
    const char *text = json_text_of(row, "text", "?");
    snprintf(candidate->text, sizeof candidate->text, "%s",
             strcmp(text, "as built") != 0 ? text : "");
    for (int axis = 0; axis < search->axis_count; axis++) {
        const char *chosen = json_text_of(macros, search->axes[axis].name, "");
        candidate->choice[axis] = -1;
        for (int value = 0; value < search->axes[axis].count; value++)
            if (strcmp(search->axes[axis].values[value], chosen) == 0)
                candidate->choice[axis] = value;
    }
    read_candidate(row, candidate);
}

static void load_text(const json_value *object, const char *name, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s", json_text_of(object, name, "?"));
}

bool tune_load(tune_search *search)
{
    json_value *file = cli_read_json(search->path);
    if (file == NULL)
        return false;
    const json_value *first = json_first(file, "candidates");
    for (const json_value *row = first; row != NULL; row = row->next)
        search->count++;
    search->candidates = cli_allocate((size_t)(search->count + 1) * sizeof *search->candidates);
    load_axes(file, search);
    int index = 0;
    for (const json_value *row = first; row != NULL; row = row->next)
        load_candidate(row, search, &search->candidates[index++]);
    load_text(file, "device", search->device, sizeof search->device);
    load_text(file, "kernel", search->kernel, sizeof search->kernel);
    load_text(file, "variant", search->variant, sizeof search->variant);
    load_text(json_member(file, "problem"), "text", search->problem_text,
              sizeof search->problem_text);
    load_text(file, "gpu", search->gpu, sizeof search->gpu);
    const bool counted = strcmp(json_text_of(file, "numbers", ""), mode_name(TUNE_EMU)) == 0;
    search->mode = counted ? TUNE_EMU : TUNE_CUDA;
    json_free(file);
    return search->count > 0 || cli_refuse("%s holds no search", search->path);
}
