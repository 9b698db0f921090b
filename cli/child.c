/* child.c: see child.h. */
#include "child.h"
#include "bench.h"
#include "interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double seconds_to_end = 10;

static bool write_to(const char *path)
{
    const int output = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return output >= 0 && dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0;
}

/* In the new process. A group of its own: Ctrl-C on the terminal reaches this program alone, which
 * passes it on once. */
static void become(const child_run *run, int error_end)
{
    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (setpgid(0, 0) != 0 || input < 0 || dup2(input, STDIN_FILENO) < 0 ||
        (run->output_path != NULL && !write_to(run->output_path)))
        return;
    if (run->words != NULL) {
        execvp(run->words[0], (char *const *)run->words);
        return;
    }
    signal(SIGINT, SIG_DFL); /* as for another program */
    signal(SIGTERM, SIG_DFL);
    close(error_end);
    exit(run->function(run->user));
}

/* What kept the program from starting comes through a pipe that a successful start closes. */
static pid_t start(const child_run *run, int *error)
{
    int ends[2];
    *error = 0;
    if (pipe(ends) != 0)
        return *error = errno, -1;
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    fflush(NULL); /* or both processes write what waits in the buffers */
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        become(run, ends[1]);
        const int why = errno;
        _exit(write(ends[1], &why, sizeof why) == sizeof why ? 127 : 126);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], error, sizeof *error) < 0)
        *error = errno;
    close(ends[0]);
    return child;
}

static void pause_shortly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* The status of waitpid. */
static int wait_until(pid_t child, double limit, bool *timed_out)
{
    int status = 0;
    double end = bench_now() + limit;
    bool told = false;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (cli_interrupted() && !told) {
            kill(-child, SIGINT);
            told = true;
            end = bench_now() + seconds_to_end;
        }
        if (bench_now() > end) {
            kill(-child, SIGKILL);
            *timed_out = !told;
        }
        pause_shortly();
    }
    return status;
}

void child_wait(const child_run *run, child_result *result)
{
    const double start_time = bench_now();
    int error;
    *result = (child_result){0};
    const pid_t child = start(run, &error);
    const int status = child > 0 ? wait_until(child, run->limit_seconds, &result->timed_out) : 0;
    result->seconds = bench_now() - start_time;
    result->started = error == 0;
    result->exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (!result->started)
        snprintf(result->reason, sizeof result->reason, "%s: %s",
                 run->words != NULL ? run->words[0] : "a process of its own", strerror(error));
    else if (result->timed_out)
        snprintf(result->reason, sizeof result->reason, "stopped after %.0f s", run->limit_seconds);
    else if (WIFSIGNALED(status))
        snprintf(result->reason, sizeof result->reason, "ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (result->exit_status != 0)
        snprintf(result->reason, sizeof result->reason, "exit status %d", result->exit_status);
}

void child_find_line(const char *path, const char *words, char *reason, size_t bytes)
{
    static const char prefix[] = "flashcore: ";
    char *line = NULL;
    size_t capacity = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && getline(&line, &capacity, file) > 0) {
        const char *found = line[0] != '\n' ? strstr(line, words) : NULL;
        if (found == NULL)
            continue;
        found += strlen(words);
        if (strncmp(found, prefix, strlen(prefix)) == 0)
            found += strlen(prefix);
        snprintf(reason, bytes, "%.*s", (int)strcspn(found, "\n"), found);
    }
    if (file != NULL)
        fclose(file);
    free(line);
}

void child_last_line(const char *path, char *reason, size_t bytes)
{
    child_find_line(path, "", reason, bytes);
}

const char *child_own_path(void)
{
    static char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return path;
}
