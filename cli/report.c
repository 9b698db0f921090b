/* report.c: `flashcore report`: one page from the results that other verbs wrote with --json. */
#include "files.h"
#include "output.h"
#include "sections.h"
#include "verbs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool add_file(report_data *data, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (data->count == REPORT_MOST_FILES)
        return cli_refuse("there are more than %d results; a page takes no more",
                          REPORT_MOST_FILES);
    json_value *json = cli_read_json(path);
    if (json == NULL)
        return false;
    data->files[data->count++] = (report_file){.name = cli_format("%s", slash ? slash + 1 : path),
                                               .json = json,
                                               .verb = json_text_of(json, "verb", "")};
    return true;
}

static int is_json(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static bool add_directory(report_data *data, const char *path)
{
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, is_json, alphasort);
    bool ok = count >= 0 || cli_refuse("cannot read %s: %s", path, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *file = cli_format("%s/%s", path, entries[i]->d_name);
        ok = ok && add_file(data, file);
        free(file);
        free(entries[i]);
    }
    free(entries);
    return ok;
}

static int count_known(const report_data *data)
{
    int known = 0;
    for (int i = 0; i < data->count; i++)
        known += sections_know(data->files[i].verb);
    return known;
}

static bool write_page(const report_data *data, const char *path)
{
    cli_output output = {0};
    bool ok = cli_output_open(&output, path);
    if (ok) {
        page_start(output.file, "FlashCore report");
        sections_write(output.file, data);
        for (int i = 0; i < data->count; i++)
            if (!sections_know(data->files[i].verb))
                page_paragraph(output.file,
                               "Left out: %s, which holds no result that a page shows.",
                               data->files[i].name);
        page_end(output.file);
        ok = cli_output_commit(&output);
    }
    cli_output_discard(&output);
    return ok;
}

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int cli_report(const cli_arguments *arguments)
{
    const char *from = arguments->operand != NULL ? arguments->operand : ".";
    const bool from_directory = is_directory(from);
    report_data *data = cli_allocate(sizeof *data);
    char *path = arguments->out_path != NULL ? cli_format("%s", arguments->out_path)
                 : from_directory            ? cli_format("%s/report.html", from)
                                             : cli_format("report.html");
    bool ok = from_directory ? add_directory(data, from) : add_file(data, from);
    if (ok && count_known(data) == 0)
        ok = cli_refuse("%s holds no result; 'flashcore bench --json=bench.json' makes one, and so "
                        "do check, ladder, emu, resources, info and tune",
                        from);
    ok = ok && write_page(data, path);
    if (ok)
        printf("%s: a page of %d results\n", path, count_known(data));
    for (int i = 0; i < data->count; i++) {
        free(data->files[i].name);
        json_free(data->files[i].json);
    }
    free(data);
    free(path);
    return ok ? CLI_OK : CLI_FAILED;
}
