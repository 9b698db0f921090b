/* shadow.c: see shadow.h. */
#include "shadow.h"

#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void emu_shadow_start(emu_shadow *shadow, size_t bytes)
{
    const size_t words = (bytes + EMU_WORD_BYTES - 1) / EMU_WORD_BYTES;
    if (words > shadow->word_room) {
        free(shadow->words);
        free(shadow->states);
        shadow->words = malloc(words * sizeof *shadow->words);
        shadow->states = malloc(words);
        shadow->word_room = words;
    }
    if (!shadow->records) {
        shadow->record_room = 1 << 14;
        shadow->records = malloc(shadow->record_room * sizeof *shadow->records);
    }
    if (!shadow->records || (words && (!shadow->words || !shadow->states)))
        abort();
    shadow->word_count = words;
    if (words) {
        memset(shadow->words, 0, words * sizeof *shadow->words);
        memset(shadow->states, 0, words);
    }
    shadow->record_count = 1;
    shadow->free_list = 0;
}

static uint32_t new_record(emu_shadow *shadow)
{
    if (shadow->free_list) {
        const uint32_t index = shadow->free_list;
        shadow->free_list = shadow->records[index].next;
        return index;
    }
    if (shadow->record_count == shadow->record_room) {
        shadow->record_room *= 2;
        shadow->records = realloc(shadow->records, shadow->record_room * sizeof *shadow->records);
        if (!shadow->records)
            abort();
    }
    return shadow->record_count++;
}

/* 1. Collisions. */

static void describe_lanes(const emu_record *record, const emu_fiber *by, char *text, size_t bytes)
{
    if (record->warp >= by->machine->warp_count) {
        snprintf(text, bytes, "an asynchronous operation");
        return;
    }
    const emu_warp *warp = &by->machine->warps[record->warp];
    const int first = __builtin_ctz(record->lanes);
    const emu_fiber *thread = &warp->lanes[first];
    if (record->lanes & (record->lanes - 1))
        snprintf(text, bytes, "threads of warp %u, thread %u the first of them",
                 thread->thread / EMU_LANES, thread->thread);
    else
        snprintf(text, bytes, "thread %u", thread->thread);
    if (thread->block != by->block)
        snprintf(text + strlen(text), bytes - strlen(text), " of block %u of the cluster",
                 thread->block->rank);
}

static void __attribute__((noreturn))
report_collision(const emu_access *access, const emu_record *record, size_t word, bool writes,
                 bool wrote)
{
    emu_machine *machine = access->by->machine;
    char self[96], other[160];
    emu_describe_thread(access->by, self);
    describe_lanes(record, access->by, other, sizeof other);
    const char now = emu_place_mark(emu_add_place(machine, access->pc));
    const char before = emu_place_mark(emu_add_place(machine, record->pc));
    const size_t offset = word * EMU_WORD_BYTES + (size_t)__builtin_ctz(record->bytes);
    if (record->flags & EMU_IN_FLIGHT)
        emu_fail(machine,
                 "unfinished %s: %s %s shared memory at offset %zu (\001%c) while what %s started "
                 "(\001%c) has not been waited for",
                 wrote ? "copy" : "read", self, writes ? "writes" : "reads", offset, now, other,
                 before);
    if (wrote && access->flags & EMU_PROXY && !(record->flags & EMU_PROXY))
        emu_fail(machine,
                 "missing proxy fence or barrier: an asynchronous operation of %s %s shared memory "
                 "at offset %zu (\001%c) that %s %s (\001%c)",
                 self, writes ? "writes" : "reads", offset, now, other, wrote ? "wrote" : "read",
                 before);
    emu_fail(machine, "race: %s %s shared memory at offset %zu (\001%c) that %s %s (\001%c)", self,
             writes ? "writes" : "reads", offset, now, other, wrote ? "wrote" : "read", before);
}

/* `crosses`: from the generic proxy to the asynchronous one, which takes a fence. */
static bool is_over(const emu_fiber *by, const emu_record *record, bool crosses)
{
    if (record->flags & EMU_IN_FLIGHT)
        return false;
    for (uint32_t lanes = record->lanes; lanes; lanes &= lanes - 1) {
        const uint32_t number = record->warp * (uint32_t)EMU_LANES + (uint32_t)__builtin_ctz(lanes);
        if (!emu_knows(&by->knowledge, by->number, number, record->clock))
            return false;
        if (crosses && !emu_proxy_knows(&by->machine->vectors, &by->knowledge, by->number, number,
                                        record->clock))
            return false;
    }
    return true;
}

/* A read of the generic proxy before a write of the asynchronous one needs no fence. */
static void check_list(const emu_access *access, uint32_t list, size_t word, unsigned bytes,
                       bool writes, bool wrote)
{
    const emu_record *records = access->shadow->records;
    for (uint32_t index = list; index; index = records[index].next) {
        const emu_record *record = &records[index];
        if (!(record->bytes & bytes) || (record->flags & access->flags & EMU_ATOMIC))
            continue;
        const bool crosses = wrote && access->flags & EMU_PROXY && !(record->flags & EMU_PROXY);
        if (!is_over(access->by, record, crosses))
            report_collision(access, record, word, writes, wrote);
    }
}

/* 2. Records. */

static void free_record(emu_shadow *shadow, uint32_t *link)
{
    const uint32_t index = *link;
    *link = shadow->records[index].next;
    shadow->records[index].next = shadow->free_list;
    shadow->free_list = index;
}

/* What a write covers no later access can collide with: it would collide with the write. */
static void forget(emu_shadow *shadow, uint32_t *list, unsigned bytes)
{
    for (uint32_t *link = list; *link;) {
        emu_record *record = &shadow->records[*link];
        record->bytes &= (uint8_t)~bytes;
        if (record->bytes)
            link = &record->next;
        else
            free_record(shadow, link);
    }
}

static void add_record(emu_shadow *shadow, uint32_t *list, const emu_record *record)
{
    const uint32_t next = *list;
    const uint32_t index = new_record(shadow);
    shadow->records[index] = *record;
    shadow->records[index].next = next;
    *list = index;
}

static emu_record record_of(const emu_access *access, unsigned bytes)
{
    const emu_fiber *by = access->by;
    return (emu_record){
        .clock = by->knowledge.clock,
        .lanes = 1u << by->lane,
        .warp = (uint16_t)by->warp->index,
        .bytes = (uint8_t)bytes,
        .flags = (uint8_t)access->flags,
        .pc = access->pc,
    };
}

/* A thread's earlier reads of the same bytes are over when its later one is. */
static void add_read(emu_shadow *shadow, emu_word *word, const emu_record *read)
{
    emu_record *same = NULL;
    for (uint32_t *link = &word->reads; *link;) {
        emu_record *record = &shadow->records[*link];
        const bool mine = record->warp == read->warp && record->flags == read->flags;
        if (mine && record->clock == read->clock && record->bytes == read->bytes) {
            same = record;
        } else if (mine && (record->lanes & read->lanes) && !(record->bytes & ~read->bytes)) {
            record->lanes &= ~read->lanes;
            if (!record->lanes) {
                free_record(shadow, link);
                continue;
            }
        }
        link = &record->next;
    }
    if (same)
        same->lanes |= read->lanes;
    else
        add_record(shadow, &word->reads, read);
}

/* 3. Accesses. */

static unsigned bytes_in_word(const emu_access *access, size_t word)
{
    const size_t low = word * EMU_WORD_BYTES;
    const size_t first = access->offset > low ? access->offset - low : 0;
    const size_t last = access->offset + access->bytes - low;
    const unsigned end = last < EMU_WORD_BYTES ? (unsigned)last : EMU_WORD_BYTES;
    return (1u << end) - (1u << first);
}

static void __attribute__((noreturn))
report_state(const emu_access *access, size_t word, bool writes)
{
    emu_machine *machine = access->by->machine;
    char self[96];
    emu_describe_thread(access->by, self);
    const char here = emu_place_mark(emu_add_place(machine, access->pc));
    if (access->shadow->states[word] & EMU_IS_MBARRIER)
        emu_fail(machine, "mbarrier: %s %s the mbarrier at offset %zu like plain memory (\001%c)",
                 self, writes ? "writes" : "reads", word / 2 * 8, here);
    emu_fail(
        machine,
        "uninitialised: %s reads shared memory at offset %zu (\001%c) that nobody has written yet: "
        "a missing barrier, a missing wait, or no first value",
        self, access->offset, here);
}

static size_t last_word(const emu_access *access)
{
    return (access->offset + access->bytes - 1) / EMU_WORD_BYTES;
}

/* The same read once more: a write in between would have taken the record away. */
static bool is_repeated(const emu_access *access, const emu_word *word, unsigned bytes)
{
    const emu_record *record = &access->shadow->records[word->reads];
    return word->reads && record->clock == access->by->knowledge.clock &&
           record->warp == access->by->warp->index && record->lanes >> access->by->lane & 1 &&
           record->bytes == bytes && record->flags == access->flags;
}

void emu_shadow_read(const emu_access *access)
{
    for (size_t i = access->offset / EMU_WORD_BYTES; i <= last_word(access); i++) {
        emu_word *word = &access->shadow->words[i];
        const unsigned bytes = bytes_in_word(access, i);
        if (is_repeated(access, word, bytes))
            continue;
        check_list(access, word->writes, i, bytes, false, true);
        const unsigned state = access->shadow->states[i];
        if ((state & EMU_IS_MBARRIER) || (bytes & ~state))
            report_state(access, i, false);
        const emu_record read = record_of(access, bytes);
        add_read(access->shadow, word, &read);
    }
}

void emu_shadow_write(const emu_access *access)
{
    for (size_t i = access->offset / EMU_WORD_BYTES; i <= last_word(access); i++) {
        emu_word *word = &access->shadow->words[i];
        const unsigned bytes = bytes_in_word(access, i);
        if (access->shadow->states[i] & EMU_IS_MBARRIER)
            report_state(access, i, true);
        check_list(access, word->writes, i, bytes, true, true);
        check_list(access, word->reads, i, bytes, true, false);
        forget(access->shadow, &word->writes, bytes);
        forget(access->shadow, &word->reads, bytes);
        const emu_record write = record_of(access, bytes);
        add_record(access->shadow, &word->writes, &write);
        access->shadow->states[i] |= (uint8_t)bytes;
    }
}

static bool lands(const emu_access *access, const emu_record *record, unsigned bytes)
{
    return record->flags & EMU_IN_FLIGHT && record->bytes & bytes && record->pc == access->pc &&
           record->warp == access->by->warp->index;
}

static emu_record landed(emu_record record, uint32_t number, uint32_t clock)
{
    record.flags &= (uint8_t)~EMU_IN_FLIGHT;
    record.warp = (uint16_t)(number / EMU_LANES);
    record.lanes = 1u << number % EMU_LANES;
    record.clock = clock;
    return record;
}

static void land_writes(const emu_access *access, const emu_word *word, unsigned bytes,
                        uint32_t number, uint32_t clock)
{
    emu_record *records = access->shadow->records;
    for (uint32_t index = word->writes; index; index = records[index].next)
        if (lands(access, &records[index], bytes))
            records[index] = landed(records[index], number, clock);
}

/* What is left of them are reads like any others: many products read the same words, and without
 * joining them lists would grow with each. */
static void land_reads(const emu_access *access, emu_word *word, unsigned bytes, uint32_t number,
                       uint32_t clock)
{
    emu_shadow *shadow = access->shadow;
    for (uint32_t *link = &word->reads; *link;) {
        const emu_record record = shadow->records[*link];
        if (!lands(access, &record, bytes)) {
            link = &shadow->records[*link].next;
            continue;
        }
        free_record(shadow, link);
        const emu_record read = landed(record, number, clock);
        add_read(shadow, word, &read);
        link = &word->reads;
    }
}

void emu_shadow_land(const emu_access *access, uint32_t number, uint32_t clock)
{
    for (size_t i = access->offset / EMU_WORD_BYTES; i <= last_word(access); i++) {
        emu_word *word = &access->shadow->words[i];
        const unsigned bytes = bytes_in_word(access, i);
        land_writes(access, word, bytes, number, clock);
        land_reads(access, word, bytes, number, clock);
    }
}
