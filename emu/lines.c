/* lines.c: counts by instruction become counts by line of source. */
#include "launch.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

static uint64_t waste(const emu_line *line)
{
    return line->units - line->fewest_units;
}

static int compare_lines(const void *a, const void *b)
{
    const emu_line *x = a, *y = b;
    if (waste(x) != waste(y))
        return waste(x) < waste(y) ? 1 : -1;
    if (x->requests != y->requests)
        return x->requests < y->requests ? 1 : -1;
    const int by_place = strcmp(x->place, y->place);
    if (by_place)
        return by_place;
    return x->space != y->space ? x->space - y->space : x->writes - y->writes;
}

static void add_to_line(emu_line *lines, size_t *count, const emu_site *site, const char *place)
{
    const char space = site->space == EMU_SHARED_MEMORY ? 's' : 'g';
    size_t at = 0;
    while (at < *count && (strcmp(lines[at].place, place) != 0 || lines[at].space != space ||
                           lines[at].writes != site->writes))
        at++;
    if (at == *count) {
        lines[(*count)++] = (emu_line){.space = space, .writes = site->writes};
        memcpy(lines[at].place, place, EMU_PLACE_BYTES);
    }
    lines[at].requests += site->requests;
    lines[at].units += space == 's' ? site->passes : site->sectors;
    lines[at].fewest_units += space == 's' ? site->fewest_passes : site->fewest_sectors;
}

size_t emu_launch_lines(emu_line *lines, size_t room)
{
    const emu_counts *counts = emu_launch_counts();
    const size_t sites = counts->site_count;
    uintptr_t *pcs = calloc(sites + 1, sizeof *pcs);
    char(*places)[EMU_PLACE_BYTES] = calloc(sites + 1, sizeof *places);
    emu_line *all = calloc(sites + 1, sizeof *all);
    size_t count = 0, at = 0;
    if (pcs && places && all) {
        for (uint32_t i = 0; i < counts->site_room; i++)
            if (counts->sites[i].pc)
                pcs[at++] = counts->sites[i].pc;
        emu_source_lines(pcs, (int)sites, places);
        at = 0;
        for (uint32_t i = 0; i < counts->site_room; i++)
            if (counts->sites[i].pc)
                add_to_line(all, &count, &counts->sites[i], places[at++]);
        qsort(all, count, sizeof *all, compare_lines);
        memcpy(lines, all, (count < room ? count : room) * sizeof *all);
    }
    free(pcs);
    free(places);
    free(all);
    return count;
}
