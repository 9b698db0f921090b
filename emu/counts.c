/* counts.c: see counts.h. */
#include "counts.h"

#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { BANKS = 32, SECTOR_BYTES = 32 };

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static size_t hash(uintptr_t pc, uint32_t room)
{
    return (size_t)((uint64_t)pc * 0x9e3779b97f4a7c15u >> 32) & (room - 1);
}

/* 1. Sites. */

void emu_counts_start(emu_counts *counts)
{
    counts->totals = (emu_totals){0};
    if (counts->site_count)
        memset(counts->sites, 0, counts->site_room * sizeof *counts->sites);
    counts->site_count = 0;
}

/* One instruction may access both kinds of memory: cp.async does. */
static emu_site *find_site(emu_counts *counts, const emu_site *key)
{
    size_t at = hash(key->pc + (uintptr_t)key->space, counts->site_room);
    while (counts->sites[at].pc &&
           (counts->sites[at].pc != key->pc || counts->sites[at].space != key->space))
        at = (at + 1) & (counts->site_room - 1);
    return &counts->sites[at];
}

static void grow_sites(emu_counts *counts)
{
    const emu_counts old = *counts;
    counts->site_room = old.site_room ? 2 * old.site_room : 256;
    counts->sites = must(calloc(counts->site_room, sizeof *counts->sites));
    for (uint32_t i = 0; i < old.site_room; i++)
        if (old.sites[i].pc)
            *find_site(counts, &old.sites[i]) = old.sites[i];
    free(old.sites);
}

static void add_site(emu_counts *counts, const emu_site *addend)
{
    if (2 * counts->site_count >= counts->site_room)
        grow_sites(counts);
    emu_site *site = find_site(counts, addend);
    if (!site->pc) {
        *site = *addend;
        counts->site_count++;
        return;
    }
    site->requests += addend->requests;
    site->passes += addend->passes;
    site->fewest_passes += addend->fewest_passes;
    site->sectors += addend->sectors;
    site->fewest_sectors += addend->fewest_sectors;
}

void emu_counts_add(emu_counts *into, const emu_counts *from)
{
    uint64_t *sums = (uint64_t *)&into->totals;
    const uint64_t *addends = (const uint64_t *)&from->totals;
    for (size_t i = 0; i < sizeof(emu_totals) / sizeof(uint64_t); i++)
        sums[i] += addends[i];
    for (uint32_t i = 0; i < from->site_room; i++)
        if (from->sites[i].pc)
            add_site(into, &from->sites[i]);
}

/* 2. Requests: the cost of one. */

typedef struct request {
    uint32_t lanes;
    uintptr_t addresses[EMU_LANES];
} request;

/* Passes of the lanes [first, end): different words on the same bank take turns. */
static unsigned count_passes(const request *r, int first, int end, unsigned bytes)
{
    uintptr_t words[BANKS][EMU_LANES];
    unsigned used[BANKS] = {0}, most = 0;
    for (int lane = first; lane < end; lane++) {
        if (!(r->lanes >> lane & 1))
            continue;
        const uintptr_t last = (r->addresses[lane] + bytes - 1) / EMU_WORD_BYTES;
        for (uintptr_t word = r->addresses[lane] / EMU_WORD_BYTES; word <= last; word++) {
            const unsigned bank = (unsigned)(word % BANKS);
            unsigned i = 0;
            while (i < used[bank] && words[bank][i] != word)
                i++;
            if (i == used[bank])
                words[bank][used[bank]++] = word;
            most = used[bank] > most ? used[bank] : most;
        }
    }
    return most;
}

/* 128 bytes a pass: accesses of 8 bytes go by half warps, those of 16 by quarters. */
static void count_shared(emu_counts *counts, const request *r, unsigned bytes, emu_site *site)
{
    const int lanes_a_pass = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
    for (int first = 0; first < EMU_LANES; first += lanes_a_pass) {
        const unsigned passes = count_passes(r, first, first + lanes_a_pass, bytes);
        site->passes += passes;
        site->fewest_passes += passes > 0;
    }
    site->requests++;
    counts->totals.shared_requests++;
    counts->totals.shared_passes += site->passes;
    counts->totals.bank_conflicts += site->passes - site->fewest_passes;
}

static void count_global(emu_counts *counts, const request *r, unsigned bytes, emu_site *site)
{
    uintptr_t sectors[2 * EMU_LANES];
    uintptr_t accessed[EMU_LANES];
    unsigned used = 0, different = 0;
    for (uint32_t lanes = r->lanes; lanes; lanes &= lanes - 1) {
        const uintptr_t address = r->addresses[__builtin_ctz(lanes)];
        unsigned i = 0;
        while (i < used && sectors[i] != address / SECTOR_BYTES)
            i++;
        if (i == used)
            sectors[used++] = address / SECTOR_BYTES;
        for (i = 0; i < different && accessed[i] != address;)
            i++;
        if (i == different)
            accessed[different++] = address;
    }
    const unsigned fewest = (different * bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
    site->requests++;
    site->sectors += used;
    site->fewest_sectors += fewest;
    counts->totals.wasted_sectors += used - fewest;
    *(site->writes ? &counts->totals.global_writes : &counts->totals.global_reads) += 1;
    *(site->writes ? &counts->totals.global_write_sectors : &counts->totals.global_read_sectors) +=
        used;
}

void emu_count_rows(emu_counts *counts, uintptr_t pc, bool writes, const uintptr_t *rows,
                    int row_count)
{
    request r = {.lanes = row_count == 32 ? EMU_ALL_LANES : (1u << row_count) - 1};
    emu_site site = {.pc = pc, .space = EMU_SHARED_MEMORY, .writes = writes};
    memcpy(r.addresses, rows, (size_t)row_count * sizeof *rows);
    count_shared(counts, &r, 16, &site);
    add_site(counts, &site);
}

/* 3. Traces: from the accesses of lanes, one after the other, to requests. */

typedef struct stream {
    uintptr_t pc;
    emu_space space;
    bool writes;
    unsigned bytes;
    uint32_t made[EMU_LANES]; /* accesses of each lane */
    request *requests;
    uint32_t count, room;
} stream;

struct emu_trace {
    stream *streams; /* a hash table by pc and space */
    uint32_t count, room;
};

emu_trace *emu_trace_create(void)
{
    emu_trace *trace = must(calloc(1, sizeof *trace));
    trace->room = 256;
    trace->streams = must(calloc(trace->room, sizeof *trace->streams));
    return trace;
}

void emu_trace_free(emu_trace *trace)
{
    if (!trace)
        return;
    for (uint32_t i = 0; i < trace->room; i++)
        free(trace->streams[i].requests);
    free(trace->streams);
    free(trace);
}

void emu_trace_clear(emu_trace *trace)
{
    for (uint32_t i = 0; i < trace->room; i++) {
        trace->streams[i].count = 0;
        memset(trace->streams[i].made, 0, sizeof trace->streams[i].made);
    }
}

static stream *find_stream(emu_trace *trace, uintptr_t pc, emu_space space)
{
    size_t at = hash(pc + (uintptr_t)space, trace->room);
    while (trace->streams[at].pc &&
           (trace->streams[at].pc != pc || trace->streams[at].space != space))
        at = (at + 1) & (trace->room - 1);
    return &trace->streams[at];
}

static void grow_trace(emu_trace *trace)
{
    const emu_trace old = *trace;
    trace->room = 2 * old.room;
    trace->streams = must(calloc(trace->room, sizeof *trace->streams));
    for (uint32_t i = 0; i < old.room; i++)
        if (old.streams[i].pc)
            *find_stream(trace, old.streams[i].pc, old.streams[i].space) = old.streams[i];
    free(old.streams);
}

void emu_trace_access(emu_trace *trace, int lane, uintptr_t pc, emu_space space, bool writes,
                      uintptr_t address, unsigned bytes)
{
    stream *s = find_stream(trace, pc, space);
    if (!s->pc) {
        if (2 * trace->count >= trace->room) {
            grow_trace(trace);
            s = find_stream(trace, pc, space);
        }
        trace->count++;
        s->pc = pc;
        s->space = space;
    }
    s->writes = writes;
    s->bytes = bytes;
    const uint32_t index = s->made[lane]++;
    if (index >= s->room) {
        s->room = s->room ? 2 * s->room : 16;
        s->requests = must(realloc(s->requests, s->room * sizeof *s->requests));
    }
    if (index >= s->count) {
        s->requests[index].lanes = 0;
        s->count = index + 1;
    }
    s->requests[index].lanes |= 1u << lane;
    s->requests[index].addresses[lane] = address;
}

void emu_trace_flush(emu_trace *trace, emu_counts *counts)
{
    for (uint32_t i = 0; i < trace->room; i++) {
        stream *s = &trace->streams[i];
        if (!s->count)
            continue;
        for (uint32_t r = 0; r < s->count; r++) {
            emu_site site = {.pc = s->pc, .space = s->space, .writes = s->writes};
            if (s->space == EMU_SHARED_MEMORY)
                count_shared(counts, &s->requests[r], s->bytes, &site);
            else
                count_global(counts, &s->requests[r], s->bytes, &site);
            add_site(counts, &site);
        }
        s->count = 0;
        memset(s->made, 0, sizeof s->made);
    }
}
