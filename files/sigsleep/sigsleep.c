/*
 * sigsleep: stands for a job of a workload. It sleeps for a given execution time and appends one record to a log.
 *
 *   sigsleep --id N --cores N --priority P --submit T --runtime S --log FILE [--clock FILE]
 *            [--malleable "WORDS" --nodes N --broker SOCKET]
 *   sigsleep --id N --cores N --runtime S --log FILE [--clock FILE]
 *            --state FILE [--save-cost S] [--restore-cost S] [--interval S] [--slot S] [--speed C]
 *   sigsleep --help | --version
 *
 * Time during which the process is stopped (Slurm's suspend: SIGTSTP, later SIGSTOP; resume: SIGCONT) is not execution.
 * SIGTERM, SIGINT and SIGHUP end the job early: its record is marked as not completed, and the exit code is 128 + signal.
 * With --state it is a filler: work that is saved, and goes on from its last save when it is started again.
 * Exit codes: 0 success, 1 record not written, 2 wrong use, 99 a filler that is to be started again. README.md describes the
 * layout of the records.
 *
 * Based on Algorithm 3.1 of the thesis from which this project originates, with these differences: there are no signal
 * handlers (signals stay blocked and are checked between two waits), sleeping uses CLOCK_MONOTONIC while the record uses
 * CLOCK_REALTIME, and a stop without a SIGTSTP is detected too. On the event-driven clock (event.h) all of these are its time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "clock.h"
#include "event.h"
#include "filler.h"
#include "kernel.h"
#include "malleable.h"
#include "record.h"
#include "text.h"
#include "waits.h"

#define VERSION "1.3.0"

/* clang-format off */
enum {
    ID, CORES, RUNTIME, LOG, PRIORITY, SUBMIT, CLOCK, MALLEABLE, BROKER, NODES,
    STATE, SAVE_COST, RESTORE_COST, INTERVAL, SLOT, SPEED, N_OPTIONS
};
/* clang-format on */

static const char *const option_names[N_OPTIONS] = {
    "--id",     "--cores", "--runtime", "--log",       "--priority",     "--submit",   "--clock", "--malleable",
    "--broker", "--nodes", "--state",   "--save-cost", "--restore-cost", "--interval", "--slot",  "--speed"};

#define OPTION(n) (1U << (n))
#define OF_ALL (OPTION(ID) | OPTION(CORES) | OPTION(RUNTIME) | OPTION(LOG))
#define OF_JOBS (OPTION(PRIORITY) | OPTION(SUBMIT))
#define OF_MALLEABLE_JOBS (OPTION(MALLEABLE) | OPTION(BROKER) | OPTION(NODES))
#define OF_FILLERS (OPTION(STATE) | OPTION(SAVE_COST) | OPTION(RESTORE_COST) | OPTION(INTERVAL) | OPTION(SLOT) | OPTION(SPEED))

static const char usage[] =
    "usage: sigsleep --id N --cores N --priority P --submit T --runtime S --log FILE [--clock FILE]\n"
    "                [--malleable \"WORDS\" --nodes N --broker SOCKET]\n"
    "       sigsleep --id N --cores N --runtime S --log FILE [--clock FILE]\n"
    "                --state FILE [--save-cost S] [--restore-cost S] [--interval S] [--slot S] [--speed C]\n"
    "Sleeps for S seconds of execution (time in stopped state does not count), then appends one record to FILE.\n"
    "  --id N        the job's number in its workload\n"
    "  --cores N     number of processors of the job, 1 or more\n"
    "  --priority P  a word of 1 to 31 bytes, kept in the record\n"
    "  --submit T    time of the job's submission: seconds since the epoch, such as 1700000000.25\n"
    "  --runtime S   execution time in seconds, such as 12 or 0.25\n"
    "  --log FILE    log file, which many processes can share\n"
    "  --clock FILE  virtual clock, one line: mirage-clock 1 REAL_NS VIRTUAL_NS SPEED; where SPEED is the word event,\n"
    "                the time of FILE.page\n"
    "  --malleable \"WORDS\"  the job's size may change: MIN:MAX:FACTOR:PREFERRED [check=S] [inhibitor=S]\n"
    "                [speedup=linear|amdahl:F|table:NODES=SPEEDUP,...] [cost=CONSTANT:PER_PROCESS] [async]\n"
    "  --nodes N     number of nodes for which its run time is given\n"
    "  --broker SOCKET  whom it asks for another size\n"
    "  --state FILE  it is a filler: S is its work, and it goes on from its last save, which is in FILE. It saves on\n"
    "                SIGUSR1, and leaves with exit code 99 when it is to be started again\n"
    "  --save-cost S, --restore-cost S  what a save and a start cost, in seconds without work; default 0\n"
    "  --interval S  seconds of work after which it saves; default 0, never\n"
    "  --slot S      it saves and leaves at the next multiple of S\n"
    "  --speed C     work per second, above 0, up to 1; default 1\n"
    "  --help, --version\n";

/* ---- the program, without a C library ---- */

#if !__STDC_HOSTED__ /* set by -ffreestanding; the sanitized build has a C library, which calls main() */

/* The compiler may generate calls of these two functions for assignments. */
void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memset(void *to, int byte, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((char *)to)[i] = (char)byte;
    return to;
}

int main(int argc, char **argv, char **environment);
_Noreturn void begin(long *stack);

/* The kernel starts a process with argc, argv, NULL, environment, NULL on the stack, and no frame to return to. */
#if defined __x86_64__
__asm__(".globl _start\n_start:\n xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");
#else
__asm__(".globl _start\n_start:\n mov x29, #0\n mov x0, sp\n bl begin\n");
#endif

_Noreturn void begin(long *stack)
{
    char **argv = (char **)(stack + 1);

    leave(main((int)*stack, argv, argv + *stack + 1));
}

#endif

static int open_file(const char *path, int flags)
{
    return (int)kernel(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0666, 0);
}

_Noreturn static void answer(const char *text)
{
    leave(kernel(SYS_write, STDOUT_FILENO, (long)text, (long)length_of(text), 0, 0) < 0);
}

static int64_t whole_option(const char *const values[], int option, int64_t min, int64_t max)
{
    const char *text = values[option];
    int64_t value;

    if (!scan_whole(&text, max, &value) || *text != '\0' || value < min)
        wrong_use(option_names[option], values[option],
                  min == 0 ? "must be a whole number from 0 to 9223372036854775807"
                           : "must be a whole number from 1 to 4294967295");
    return value;
}

static int64_t seconds_option(const char *const values[], int option)
{
    const char *text = values[option];
    int64_t value;

    if (!scan_decimal(&text, &value) || *text != '\0')
        wrong_use(option_names[option], values[option], "must be seconds such as 12 or 0.25, below 9223372036");
    return value;
}

/* Returns the number in a variable, which `end` or the end of the text follows; 0 if the variable is missing or invalid, because
   the program also runs outside a resource manager. */
static uint32_t environment_number(char **environment, const char *name, char end)
{
    const char *text = environment_text(environment, name);
    int64_t value;

    return text && scan_whole(&text, UINT32_MAX, &value) && (*text == '\0' || *text == end) ? (uint32_t)value : 0;
}

/* Returns the number of the job of Slurm or OpenPBS, whose id is NUMBER.SERVER; 0 outside of a job. */
static uint32_t environment_job(char **environment)
{
    const char *slurm = "SLURM_JOB_ID";

    return environment_text(environment, slurm) ? environment_number(environment, slurm, '\0')
                                                : environment_number(environment, "PBS_JOBID", '.');
}

/* Checks that no option is missing, and none is of another kind of job. */
static void check_which(const char *const values[])
{
    unsigned given = 0;

    for (int option = 0; option < N_OPTIONS; option++)
        given |= values[option] ? OPTION(option) : 0;
    bool is_filler = given & OF_FILLERS;
    unsigned needed = OF_ALL | (is_filler ? OPTION(STATE) : given & OF_MALLEABLE_JOBS ? OF_JOBS | OF_MALLEABLE_JOBS : OF_JOBS);
    for (int option = 0; option < N_OPTIONS; option++) {
        if (needed & ~given & OPTION(option))
            wrong_use(option_names[option], "", "is missing, see sigsleep --help");
        if (is_filler && (given & OPTION(option) & (OF_JOBS | OF_MALLEABLE_JOBS)))
            wrong_use(option_names[option], "", "is not an option of a filler (--state)");
    }
}

static void read_options(int argc, char **argv, const char *values[N_OPTIONS])
{
    for (int i = 1; i < argc; i++) {
        int option = 0;

        if (same(argv[i], "--help"))
            answer(usage);
        if (same(argv[i], "--version"))
            answer("sigsleep " VERSION "\n");
        while (option < N_OPTIONS && !same(argv[i], option_names[option]))
            option++;
        if (option == N_OPTIONS)
            wrong_use(argv[i], "", "not an option, see sigsleep --help");
        if (values[option])
            wrong_use(argv[i], "", "may only be given once");
        if (++i == argc)
            wrong_use(option_names[option], "", "needs a value");
        values[option] = argv[i];
    }
    check_which(values);
}

static void claim_slot(const char *path)
{
    long error = event_claim();

    if (error)
        wrong_use("page (FILE.page) of --clock", path, error == NO_SLOT ? "all its wait slots are taken" : error_text(error));
}

static void describe_job(const char *const values[N_OPTIONS], char **environment)
{
    struct job_data *job = &record.job;

    job->id = whole_option(values, ID, 0, INT64_MAX);
    job->cores = (uint32_t)whole_option(values, CORES, 1, UINT32_MAX);
    job->runtime = seconds_option(values, RUNTIME);
    job->slurm_job_id = environment_job(environment);
    job->restart = environment_number(environment, "SLURM_RESTART_COUNT", '\0');
}

/* Completes the record of a job that is not a filler. */
static void describe_record(const char *const values[N_OPTIONS], char **environment)
{
    struct job_data *job = &record.job;
    size_t length = length_of(values[PRIORITY]);

    if (length == 0 || length >= sizeof job->priority)
        wrong_use(option_names[PRIORITY], values[PRIORITY], "must be a word of 1 to 31 bytes");
    for (size_t i = 0; i < length; i++)
        job->priority[i] = values[PRIORITY][i];
    for (size_t i = 0; i < sizeof job->magic; i++)
        job->magic[i] = record_magic[i];
    job->version = 1;
    job->header_size = sizeof *job;
    job->submission = seconds_option(values, SUBMIT);
    if (!values[MALLEABLE])
        return;
    if (environment_number(environment, "SLURM_JOB_ID", '\0') == 0)
        wrong_use(option_names[MALLEABLE], "", "only inside a job of Slurm: SLURM_JOB_ID is missing");
    describe_malleable(&option_names[MALLEABLE], values[MALLEABLE], values[BROKER], whole_option(values, NODES, 1, UINT32_MAX),
                       environment_number(environment, "SLURM_JOB_NUM_NODES", '\0'));
}

static struct filler filler_of(const char *const values[N_OPTIONS], char **environment)
{
    struct filler filler = {
        .state = values[STATE],
        .node = environment_text(environment, "SLURMD_NODENAME"),
        .work = record.job.runtime,
        .save = values[SAVE_COST] ? seconds_option(values, SAVE_COST) : 0,
        .restore = values[RESTORE_COST] ? seconds_option(values, RESTORE_COST) : 0,
        .interval = values[INTERVAL] ? seconds_option(values, INTERVAL) : 0,
        .slot = values[SLOT] ? seconds_option(values, SLOT) : 0,
        .speed = values[SPEED] ? seconds_option(values, SPEED) : SECOND,
    };

    if (values[SLOT] && filler.slot == 0)
        wrong_use(option_names[SLOT], values[SLOT], "must be more than 0 seconds");
    if (filler.speed == 0 || filler.speed > SECOND)
        wrong_use(option_names[SPEED], values[SPEED], "must be above 0, and up to 1");
    return filler;
}

int main(int argc, char **argv, char **environment)
{
    block_signals();

    struct watch watch = {.last = now()};
    const char *values[N_OPTIONS] = {NULL};
    struct job_data *job = &record.job;
    int64_t executed;
    int end;

    read_options(argc, argv, values);
    take_requests(values[STATE]);
    describe_job(values, environment);
    struct filler filler = {.state = NULL};
    if (values[STATE])
        filler = filler_of(values, environment);
    else
        describe_record(values, environment);
    if (values[CLOCK])
        read_clock_file(option_names[CLOCK], values[CLOCK]);
    if (on_event_clock)
        watch.last = now();
    job->start = virtual_instant(watch.last.calendar);
    int64_t wanted = real_length(job->runtime);
    if (wanted > INT64_MAX - SECOND)
        wrong_use(option_names[RUNTIME], values[RUNTIME], "too long at the speed of the clock file");
    int log = open_file(values[LOG], O_WRONLY | O_APPEND | O_CREAT);
    if (log < 0)
        wrong_use(option_names[LOG], values[LOG], error_text(log));
    if (values[STATE])
        describe_filler(option_names[STATE], &filler, (struct log){log, option_names[LOG], values[LOG]});
    watch.signals = watch_signals();
    if (watch.signals < 0) {
        complain("", "cannot wait for signals", "", error_text(watch.signals));
        return EXIT_NO_RECORD;
    }

    if (values[CLOCK] && on_event_clock)
        claim_slot(values[CLOCK]);

    if (values[STATE]) {
        end = play_filler(&watch);
        if (on_event_clock)
            event_release();
        return end;
    }
    if (values[MALLEABLE])
        end = play_malleable(&watch, wanted, &executed);
    else
        end = pass_time(&watch, wanted, NO_SOCKET, &executed);
    if (end == 0)
        job->flags |= COMPLETED;
    job->end = virtual_instant(now().calendar);
    if (on_event_clock)
        event_release();
    job->executed = virtual_length(executed);
    if (!append_record(log, option_names[LOG], values[LOG]))
        return EXIT_NO_RECORD;
    return end ? EXIT_SIGNAL + end : 0;
}
