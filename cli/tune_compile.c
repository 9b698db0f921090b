/* tune_compile.c: the compiler's word on every candidate, before anything runs; in a process of its
 * own, because NVRTC may start the CUDA driver, and what is forked after that cannot use it. */
#include "child.h"
#include "cuda/rebuild.h"
#include "interrupt.h"
#include "output.h"
#include "tune.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORKERS = 32, REGISTERS_OF_A_MULTIPROCESSOR = 65536 };

typedef struct compiling {
    tune_search *search;
    const fc_cuda_variant *variant;
    atomic_int next, done;
} compiling;

static void __attribute__((format(printf, 3, 4)))
fall_out(tune_candidate *candidate, tune_outcome outcome, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    candidate->outcome = outcome;
    vsnprintf(candidate->reason, sizeof candidate->reason, format, arguments);
    va_end(arguments);
    candidate->reason[strcspn(candidate->reason, "\n")] = '\0';
}

/* What cannot be launched, and what spills more than the variant's budget allows. */
static void prune(const compiling *c, tune_candidate *candidate, const fc_rebuilt_facts *facts)
{
    candidate->registers = facts->registers;
    candidate->spill_bytes = facts->spill_bytes;
    candidate->shared_bytes = facts->shared_bytes;
    if (facts->shared_bytes > c->search->most_shared_bytes)
        fall_out(candidate, TUNE_PRUNED, "%d bytes of shared memory, a block has %d",
                 facts->shared_bytes, c->search->most_shared_bytes);
    else if (facts->registers * facts->threads > REGISTERS_OF_A_MULTIPROCESSOR)
        fall_out(candidate, TUNE_PRUNED, "%d threads of %d registers are more than %d",
                 facts->threads, facts->registers, REGISTERS_OF_A_MULTIPROCESSOR);
    else if (facts->spill_bytes > c->variant->most_spill_bytes)
        fall_out(candidate, TUNE_PRUNED, "spills %d bytes, %d are allowed", facts->spill_bytes,
                 c->variant->most_spill_bytes);
}

/* The compiler's first error, or all that was said. */
static const char *first_error(const jit_kernel *kernel)
{
    const char *error = kernel->log != NULL ? strstr(kernel->log, "error: ") : NULL;
    return error != NULL ? error + strlen("error: ") : fc_last_error();
}

/* What a file knew of other code counts for nothing. */
static void note_signature(tune_candidate *candidate, const char *signature)
{
    if (strcmp(candidate->signature, signature) == 0)
        return;
    snprintf(candidate->signature, sizeof candidate->signature, "%s", signature);
    candidate->outcome = TUNE_WAITING;
    candidate->rounds = 0;
    candidate->reason[0] = '\0';
}

static void compile_one(compiling *c, tune_candidate *candidate)
{
    jit_kernel kernel;
    fc_rebuilt_facts facts;
    const jit_source own = tune_own_source(c->search);
    const fc_status status =
        fc_rebuild(c->variant, candidate->text, c->search->compute_capability, &own, &kernel);
    note_signature(candidate, kernel.signature);
    if (status != FC_OK)
        fall_out(candidate, TUNE_REFUSED, "%s", first_error(&kernel));
    else if (fc_rebuilt_read_facts(c->variant, &kernel, &facts) != FC_OK)
        fall_out(candidate, TUNE_REFUSED, "%s", fc_last_error());
    else
        prune(c, candidate, &facts);
    jit_release(&kernel);
}

static void *work(void *user)
{
    compiling *c = user;
    for (int i = c->next++; i < c->search->count && !cli_interrupted(); i = c->next++) {
        compile_one(c, &c->search->candidates[i]);
        cli_progress("compiling: %d of %d", ++c->done, c->search->count);
    }
    return NULL;
}

static bool compile_all(tune_search *search)
{
    compiling c = {.search = search, .variant = fc_cuda_find_variant(search->variant)};
    pthread_t workers[MOST_WORKERS];
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    int count = 0;
    while (count < online && count < MOST_WORKERS &&
           pthread_create(&workers[count], NULL, work, &c) == 0)
        count++;
    for (int i = 0; i < count; i++)
        pthread_join(workers[i], NULL);
    cli_progress("%s", "");
    return count > 0 || cli_refuse("no thread could be started to compile with");
}

typedef struct compiling_apart {
    tune_search *search;
    FILE *file; /* for the candidates as the other process leaves them */
} compiling_apart;

static int compile_here(void *user)
{
    const compiling_apart *apart = user;
    const tune_search *search = apart->search;
    const size_t count = (size_t)search->count;
    const bool ok =
        compile_all(apart->search) &&
        fwrite(search->candidates, sizeof *search->candidates, count, apart->file) == count;
    return ok ? 0 : 1;
}

bool tune_compile(tune_search *search)
{
    const size_t count = (size_t)search->count;
    compiling_apart apart = {.search = search, .file = tmpfile()};
    const child_run run = {.function = compile_here, .user = &apart, .limit_seconds = INFINITY};
    child_result ended;
    if (apart.file == NULL)
        return cli_refuse("no temporary file to compile with");
    child_wait(&run, &ended);
    rewind(apart.file);
    bool ok = cli_interrupted(); /* the cache has what was compiled */
    if (!ok && ended.reason[0] != '\0')
        cli_refuse("compiling: %s", ended.reason);
    else if (!ok)
        ok = fread(search->candidates, sizeof *search->candidates, count, apart.file) == count ||
             cli_refuse("the compiler did not come to its end");
    fclose(apart.file);
    return ok;
}
