/*
 * sigsleep: stands for a job of a workload. It sleeps for a given execution time and appends one record to a log.
 *
 *   sigsleep --id N --cores N --priority P --submit T --runtime S --log FILE [--clock FILE]
 *   sigsleep --help | --version
 *
 * Time during which the process is stopped (Slurm's suspend: SIGTSTP, later SIGSTOP; resume: SIGCONT) is not execution.
 * SIGTERM, SIGINT and SIGHUP end the job early: its record is marked as not completed, and the exit code is 128 + signal.
 * Exit codes: 0 success, 1 record not written, 2 wrong use. README.md describes the layout of the record.
 *
 * Based on Algorithm 3.1 of the thesis from which this project originates, with these differences: there are no signal
 * handlers (signals stay blocked and are checked between two waits), sleeping uses CLOCK_MONOTONIC while the record uses
 * CLOCK_REALTIME, and a stop without a SIGTSTP is detected too. On the event-driven clock (event.h) all of these are its time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "event.h"
#include "kernel.h"

#define VERSION "1.1.0"

#ifndef MAX_SUSPENSIONS
#define MAX_SUSPENSIONS 4096
#endif

/* A SIGCONT counts as a resume only if at least this much time is missing: see time_missing(). */
#define SHORTEST_STOP (10 * MILLISECOND)

/* After this real time a job without a wait slot looks at the event clock again. */
#define LONGEST_LOOK (10 * MILLISECOND)

/* Longer than any sleep (an int64_t of nanoseconds holds 292 years), so that ppoll never times out. */
#define POLL_LIMIT_SECONDS INT64_C(10000000000)

enum { EXIT_NO_RECORD = 1, EXIT_WRONG_USE = 2, EXIT_SIGNAL = 128 };
enum { COMPLETED = 1, INFERRED = 2, OVERFLOWED = 4 };
enum { ID, CORES, PRIORITY, SUBMIT, RUNTIME, LOG, CLOCK, N_OPTIONS };

static const char *const option_names[N_OPTIONS] = {"--id",      "--cores", "--priority", "--submit",
                                                    "--runtime", "--log",   "--clock"};

static const char usage[] =
    "usage: sigsleep --id N --cores N --priority P --submit T --runtime S --log FILE [--clock FILE]\n"
    "Sleeps for S seconds of execution (time in stopped state does not count), then appends one record to FILE.\n"
    "  --id N        the job's number in its workload\n"
    "  --cores N     number of processors of the job, 1 or more\n"
    "  --priority P  a word of 1 to 31 bytes, kept in the record\n"
    "  --submit T    time of the job's submission: seconds since the epoch, such as 1700000000.25\n"
    "  --runtime S   execution time in seconds, such as 12 or 0.25\n"
    "  --log FILE    log file, which many processes can share\n"
    "  --clock FILE  virtual clock, one line: mirage-clock 1 REAL_NS VIRTUAL_NS SPEED; where SPEED is the word event,\n"
    "                the time of FILE.page\n"
    "  --help, --version\n";

struct suspend_period {
    int64_t suspend, resume; /* virtual CLOCK_REALTIME, ns */
};

struct job_data {
    char magic[4];
    uint16_t version, header_size;
    uint32_t n_suspensions, flags;
    int64_t id;
    uint32_t slurm_job_id, restart, cores, crc32;
    char priority[32];
    int64_t submission, start, end;
    int64_t runtime, executed;
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the log is little-endian");
_Static_assert(sizeof(struct job_data) == 112, "the log's layout has no padding");
_Static_assert(sizeof(struct timespec) == 16, "ppoll is called with the kernel's 64-bit timespec");

/* One instant on several clocks, ns. */
struct instant {
    int64_t monotonic; /* CLOCK_MONOTONIC */
    int64_t progress;  /* on which execution is measured: CLOCK_MONOTONIC, or the event clock */
    int64_t calendar;  /* of the record: CLOCK_REALTIME, or the event clock */
};

/* Converts from an instant's progress and calendar to virtual time. On the event clock nothing is left to convert. */
struct virtual_clock {
    int64_t real, virtual; /* the anchor: one instant on both clocks, ns */
    int64_t speed;         /* billionths */
};

typedef uint64_t signal_set; /* the kernel's signal set: bit N - 1 is signal N */
#define SIGNAL(n) (UINT64_C(1) << ((n) - 1))

/* The kernel's struct sigaction, which differs from the C library's. Only its first field is used here. */
struct disposition {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    signal_set mask;
};

/* Zero pages until they are written, so that the array of suspensions needs no memory in a job without suspensions. */
static struct {
    struct job_data job;
    struct suspend_period periods[MAX_SUSPENSIONS];
} record;

static struct virtual_clock virtual_clock = {0, 0, SECOND};

/* ---- the program, without a C library ---- */

_Noreturn static void leave(int status)
{
    for (;;)
        kernel(SYS_exit_group, status, 0, 0, 0, 0);
}

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

static size_t length_of(const char *text)
{
    size_t length = 0;

    while (text[length] != '\0')
        length++;
    return length;
}

/* Returns the rest of `text` after the prefix `head`, or NULL if `text` does not begin with it. */
static const char *after(const char *text, const char *head)
{
    while (*head != '\0')
        if (*text++ != *head++)
            return NULL;
    return text;
}

static bool same(const char *text, const char *other)
{
    const char *rest = after(text, other);

    return rest && *rest == '\0';
}

/* ---- messages ---- */

static const char *error_text(long error)
{
    static const struct {
        int number;
        const char *text;
    } known[] = {
        {EACCES, "permission denied"},     {EDQUOT, "disk quota exceeded"}, {EFBIG, "file size limit reached"},
        {EIO, "input/output error"},       {EISDIR, "is a directory"},      {ELOOP, "too many symbolic links"},
        {ENAMETOOLONG, "name is too long"}, {ENOENT, "no such file or directory"},
        {ENOSPC, "no space left on the disk"}, {ENOTDIR, "a part of the path is not a directory"},
        {EPERM, "operation not permitted"}, {EROFS, "the file system is read-only"},
    };
    static char other[] = "system error 000";

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == -error)
            return known[i].text;
    for (size_t digit = sizeof other - 2; error != 0 && other[digit] != ' '; digit--, error /= 10)
        other[digit] = (char)('0' - error % 10);
    return other;
}

/* Prints an error as one line in one write. */
static void complain(const char *kind, const char *what, const char *value, const char *why)
{
    const char *const parts[] = {"sigsleep: ", kind, what, *value ? " " : "", value, ": ", why, "\n"};
    struct iovec line[sizeof parts / sizeof *parts];

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        line[i].iov_base = (void *)(uintptr_t)parts[i];
        line[i].iov_len = length_of(parts[i]);
    }
    kernel(SYS_writev, STDERR_FILENO, (long)line, sizeof parts / sizeof *parts, 0, 0);
}

_Noreturn static void wrong_use(const char *option, const char *value, const char *why)
{
    complain("wrong use: ", option, value, why);
    leave(EXIT_WRONG_USE);
}

_Noreturn static void answer(const char *text)
{
    leave(kernel(SYS_write, STDOUT_FILENO, (long)text, (long)length_of(text), 0, 0) < 0);
}

/* ---- numbers: unlike strtol and strtod, without signs, spaces, exponents, hexadecimal numbers, "inf" and "nan" ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses a whole number from 0 to max (at least 9) and advances *text past it. */
static bool scan_whole(const char **text, int64_t max, int64_t *value)
{
    int64_t sum = 0;

    if (!is_digit(**text))
        return false;
    for (; is_digit(**text); (*text)++) {
        int digit = **text - '0';
        if (sum > (max - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}

/* Parses numbers such as 12 or 12.345 as billionths, up to 9223372035.999999999; drops digits after the ninth decimal. */
static bool scan_decimal(const char **text, int64_t *billionths)
{
    int64_t whole;

    if (!scan_whole(text, INT64_MAX / SECOND - 1, &whole))
        return false;
    *billionths = whole * SECOND;
    if (**text != '.')
        return true;
    (*text)++;
    if (!is_digit(**text))
        return false;
    for (int64_t unit = SECOND / 10; is_digit(**text); (*text)++, unit /= 10)
        *billionths += (**text - '0') * unit;
    return true;
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

/* Returns the value of a Slurm variable; 0 if it is missing or invalid, because the program also runs outside Slurm. */
static uint32_t environment_number(char **environment, const char *name)
{
    int64_t value;

    for (; *environment; environment++) {
        const char *text = after(*environment, name);
        if (text && *text++ == '=')
            return scan_whole(&text, UINT32_MAX, &value) && *text == '\0' ? (uint32_t)value : 0;
    }
    return 0;
}

/* ---- clocks ---- */

static struct instant now(void)
{
    int64_t monotonic = clock_ns(CLOCK_MONOTONIC);
    int64_t time;

    if (!on_event_clock)
        return (struct instant){monotonic, monotonic, clock_ns(CLOCK_REALTIME)};
    time = event_now();
    return (struct instant){monotonic, time, time};
}

static int64_t virtual_length(int64_t real)
{
    return clamp((wide)real * virtual_clock.speed / SECOND);
}

static int64_t virtual_instant(int64_t real)
{
    return clamp((wide)virtual_clock.virtual + (wide)(real - virtual_clock.real) * virtual_clock.speed / SECOND);
}

/* Converts a virtual length to a real one in ns, rounded up. */
static int64_t real_length(int64_t virtual)
{
    return clamp(((wide)virtual * SECOND + virtual_clock.speed - 1) / virtual_clock.speed);
}

/* Parses the line of a clock file. *is_event: its speed is the word `event`. */
static bool scan_clock(const char *text, bool *is_event)
{
    const char *rest;

    text = after(text, "mirage-clock 1 ");
    if (!text)
        return false;
    if (!scan_whole(&text, INT64_MAX, &virtual_clock.real) || *text++ != ' ')
        return false;
    if (!scan_whole(&text, INT64_MAX, &virtual_clock.virtual) || *text++ != ' ')
        return false;
    rest = after(text, "event");
    *is_event = rest != NULL;
    if (rest)
        text = rest;
    else if (!scan_decimal(&text, &virtual_clock.speed))
        return false;
    if (*text == '\n')
        text++;
    return *text == '\0' && virtual_clock.speed > 0 && virtual_clock.speed <= 1000000 * SECOND;
}

static void map_event_clock(const char *path)
{
    long error = event_map(path, virtual_clock.real, virtual_clock.virtual);

    if (error)
        wrong_use("page (FILE.page) of --clock", path,
                  error == NOT_A_PAGE ? "not the page of a virtual clock" : error_text(error));
    virtual_clock = (struct virtual_clock){0, 0, SECOND};
}

static void read_clock_file(const char *path)
{
    char text[256];
    bool is_event;
    int file = open_file(path, O_RDONLY);
    long size = file < 0 ? file : kernel(SYS_read, file, (long)text, sizeof text - 1, 0, 0);

    if (size < 0)
        wrong_use(option_names[CLOCK], path, error_text(size));
    kernel(SYS_close, file, 0, 0, 0, 0);
    text[size] = '\0';
    if (length_of(text) != (size_t)size || !scan_clock(text, &is_event))
        wrong_use(option_names[CLOCK], path,
                  "must be one line, mirage-clock 1 REAL_NS VIRTUAL_NS SPEED, SPEED above 0 and up to 1000000, or event");
    if (is_event)
        map_event_clock(path);
}

/* ---- signals ---- */

static bool is_ignored(int signal_number)
{
    struct disposition old = {0};

    kernel(SYS_rt_sigaction, signal_number, 0, (long)&old, sizeof(signal_set), 0);
    return old.handler == SIG_IGN;
}

static void change_mask(int how, signal_set signals)
{
    kernel(SYS_rt_sigprocmask, how, (long)&signals, 0, sizeof signals, 0);
}

/*
 * Blocks the signals, which then only become pending. Until main() begins, the kernel's default actions apply: SIGTSTP
 * and SIGSTOP stop the process before the job has started, and SIGTERM ends it without a record.
 */
static signal_set block_signals(void)
{
    static const struct disposition ignore = {.handler = SIG_IGN};
    signal_set signals = SIGNAL(SIGTSTP) | SIGNAL(SIGCONT) | SIGNAL(SIGTERM) | SIGNAL(SIGALRM);

    /* A blocked signal becomes pending even if it is ignored. Without this check, nohup and "&" would have no effect. */
    if (!is_ignored(SIGINT))
        signals |= SIGNAL(SIGINT);
    if (!is_ignored(SIGHUP))
        signals |= SIGNAL(SIGHUP);
    change_mask(SIG_BLOCK, signals);
    /* With SIGXFSZ ignored, a file size limit (Slurm propagates the user's) makes write fail, which can be reported. */
    kernel(SYS_rt_sigaction, SIGXFSZ, (long)&ignore, 0, sizeof(signal_set), 0);
    return signals;
}

static signal_set pending_signals(void)
{
    signal_set pending = 0;

    kernel(SYS_rt_sigpending, (long)&pending, sizeof pending, 0, 0, 0);
    return pending;
}

static void take(int signal_number)
{
    signal_set one = SIGNAL(signal_number);
    struct timespec at_once = {0, 0};

    kernel(SYS_rt_sigtimedwait, (long)&one, 0, (long)&at_once, sizeof one, 0);
}

static int ending_signal(signal_set pending)
{
    static const int ending[] = {SIGTERM, SIGINT, SIGHUP};

    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (pending & SIGNAL(ending[i]))
            return ending[i];
    return 0;
}

/*
 * Stops until a SIGCONT. SIGTSTP is still pending. When it is unblocked, the kernel stops the process, or discards the
 * SIGTSTP atomically if a SIGCONT has arrived in between. SIGSTOP alone could discard that SIGCONT and stop the process
 * forever. It is only needed where SIGTSTP has no effect: in an orphaned process group (setsid), or if it is ignored.
 */
static void stop_self(void)
{
    change_mask(SIG_UNBLOCK, SIGNAL(SIGTSTP));
    change_mask(SIG_BLOCK, SIGNAL(SIGTSTP));
    if (!(pending_signals() & SIGNAL(SIGCONT)))
        kernel(SYS_kill, kernel(SYS_getpid, 0, 0, 0, 0, 0), SIGSTOP, 0, 0, 0);
    take(SIGCONT);
}

/*
 * Waits until a watched signal is pending. Returns the duration in ns without the time in stopped state.
 *
 * Uses the system call directly, because the kernel's ppoll, unlike the C library's, returns the remaining time. It
 * also stores it when the process is stopped, and continues with it afterwards (fs/select.c). So a SIGSTOP without a
 * SIGTSTP can be detected. ppoll never times out: it may be 0.1 s late, so a timer (SIGALRM) ends the sleep.
 */
static int64_t wait_for_signal(int signals)
{
    struct timespec left = {POLL_LIMIT_SECONDS, 0};
    struct pollfd readable = {.fd = signals, .events = POLLIN};

    kernel(SYS_ppoll, (long)&readable, 1, (long)&left, 0, 0);
    return (POLL_LIMIT_SECONDS - left.tv_sec) * SECOND - left.tv_nsec;
}

static void set_timer(int64_t ns)
{
    int64_t us = (ns + 999) / 1000;
    struct itimerval timer = {.it_value = {us / 1000000, us % 1000000}};

    kernel(SYS_setitimer, ITIMER_REAL, (long)&timer, 0, 0, 0);
}

/*
 * Arranges for a SIGALRM `left` ns after `from`. Returns false if that instant is over on the event clock: then the signal may
 * have come, and been taken, before.
 */
static bool set_alarm(struct instant from, int64_t left)
{
    int64_t deadline = clamp((wide)from.progress + left);

    take(SIGALRM); /* from a timer that expired during a stop, or of another process */
    if (!on_event_clock) {
        set_timer(left);
        return true;
    }
    if (!event_set_deadline(deadline))
        set_timer(LONGEST_LOOK);
    return event_now() < deadline;
}

/* ---- the job ---- */

static void note_suspension(int64_t suspend, int64_t resume, uint32_t flag)
{
    struct job_data *job = &record.job;

    job->flags |= flag;
    if (job->n_suspensions == MAX_SUSPENSIONS) {
        job->flags |= OVERFLOWED;
        return;
    }
    record.periods[job->n_suspensions++] =
        (struct suspend_period){virtual_instant(suspend), virtual_instant(resume)};
}

/*
 * Records the stop without a SIGTSTP that ended at `resumed`, if there was one, and returns its length: the time between
 * two clock readings that was not spent waiting. A SIGCONT to a process that was not stopped leaves microseconds, so
 * times shorter than SHORTEST_STOP do not count. On the event clock the stop's beginning is converted by the clock's history.
 */
static int64_t time_missing(struct instant last, int64_t waited, struct instant resumed)
{
    int64_t missing = resumed.monotonic - last.monotonic - waited;

    if (missing < SHORTEST_STOP)
        return 0;
    if (on_event_clock) {
        int64_t began = event_time_at(clock_ns(CLOCK_REALTIME) - missing);

        began = began < last.calendar ? last.calendar : began > resumed.calendar ? resumed.calendar : began;
        note_suspension(began, resumed.calendar, INFERRED);
        return resumed.calendar - began;
    }
    note_suspension(resumed.calendar - missing, resumed.calendar, INFERRED);
    return missing;
}

/*
 * Sleeps until `wanted` ns of execution have passed since `start`, without stops, or a signal ends the job. Returns that
 * signal, or 0. Sets *executed in ns. Both lengths are real ones, or on the event clock virtual ones.
 *
 * The order matters. The clock is read before pending_signals(), and after a resume it is read after take(SIGCONT), so
 * that a stop at any point lies between two readings. A signal that ends the job takes precedence over a suspend
 * (otherwise the job would stop with its end pending), and so does the end of the sleep.
 */
static int play(struct instant start, int64_t wanted, int signals, int64_t *executed)
{
    struct instant last = start;
    int64_t waited = 0, stopped = 0;

    for (;;) {
        struct instant looked = now();
        signal_set pending = pending_signals();
        bool suspend = pending & SIGNAL(SIGTSTP);

        if (pending & SIGNAL(SIGCONT)) {
            take(SIGCONT);
            looked = now();
            stopped += time_missing(last, waited, looked);
        } else if (suspend) { /* the kernel discards a pending SIGCONT when a SIGTSTP arrives */
            stopped += time_missing(last, waited, looked);
        }
        last = looked;
        *executed = looked.progress - start.progress - stopped;

        int end = ending_signal(pending);
        if (end || *executed >= wanted)
            return end;
        if (suspend) {
            if (on_event_clock)
                event_set_deadline(NEVER); /* a stopped job must not hold the clock */
            stop_self();
            last = now();
            note_suspension(looked.calendar, last.calendar, 0);
            stopped += last.progress - looked.progress;
        }
        waited = set_alarm(last, wanted - *executed) ? wait_for_signal(signals) : 0;
    }
}

/* ---- the record ---- */

/* CRC-32 of IEEE 802.3, as in zlib, computed bit by bit: it runs once, and a table would need a page. */
static uint32_t crc32(const void *data, size_t size)
{
    const unsigned char *byte = data;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < size; i++) {
        crc ^= byte[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? UINT32_C(0xEDB88320) : 0);
    }
    return ~crc;
}

/*
 * Appends the record in one write, so that concurrent records are not mixed. A short write is not repaired, because
 * other processes may have appended records since. Readers skip incomplete records.
 */
static bool append_record(int log, const char *path)
{
    size_t size = sizeof record.job + record.job.n_suspensions * sizeof *record.periods;
    long written;

    record.job.crc32 = 0;
    record.job.crc32 = crc32(&record, size);
    do
        written = kernel(SYS_write, log, (long)&record, (long)size, 0, 0);
    while (written == -EINTR);
    if (written == (long)size)
        return true;
    complain("record not written: ", option_names[LOG], path,
             written < 0 ? error_text(written) : "cut short, is the disk full?");
    return false;
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
    for (int option = 0; option < N_OPTIONS; option++)
        if (option != CLOCK && !values[option])
            wrong_use(option_names[option], "", "is missing, see sigsleep --help");
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
    size_t length = length_of(values[PRIORITY]);

    if (length == 0 || length >= sizeof job->priority)
        wrong_use(option_names[PRIORITY], values[PRIORITY], "must be a word of 1 to 31 bytes");
    for (size_t i = 0; i < length; i++)
        job->priority[i] = values[PRIORITY][i];
    for (size_t i = 0; i < sizeof job->magic; i++)
        job->magic[i] = "SSLP"[i];
    job->version = 1;
    job->header_size = sizeof *job;
    job->id = whole_option(values, ID, 0, INT64_MAX);
    job->cores = (uint32_t)whole_option(values, CORES, 1, UINT32_MAX);
    job->submission = seconds_option(values, SUBMIT);
    job->runtime = seconds_option(values, RUNTIME);
    job->slurm_job_id = environment_number(environment, "SLURM_JOB_ID");
    job->restart = environment_number(environment, "SLURM_RESTART_COUNT");
}

int main(int argc, char **argv, char **environment)
{
    const signal_set watched = block_signals();
    struct instant start = now();
    const char *values[N_OPTIONS] = {NULL};
    struct job_data *job = &record.job;
    int64_t executed;

    read_options(argc, argv, values);
    describe_job(values, environment);
    if (values[CLOCK])
        read_clock_file(values[CLOCK]);
    if (on_event_clock)
        start = now();
    int64_t wanted = real_length(job->runtime);
    if (wanted > INT64_MAX - SECOND)
        wrong_use(option_names[RUNTIME], values[RUNTIME], "too long at the speed of the clock file");
    int log = open_file(values[LOG], O_WRONLY | O_APPEND | O_CREAT);
    if (log < 0)
        wrong_use(option_names[LOG], values[LOG], error_text(log));
    int signals = (int)kernel(SYS_signalfd4, -1, (long)&watched, sizeof watched, O_CLOEXEC, 0);
    if (signals < 0) {
        complain("", "cannot wait for signals", "", error_text(signals));
        return EXIT_NO_RECORD;
    }

    if (values[CLOCK] && on_event_clock)
        claim_slot(values[CLOCK]);

    int end = play(start, wanted, signals, &executed);
    if (end == 0)
        job->flags |= COMPLETED;
    job->start = virtual_instant(start.calendar);
    job->end = virtual_instant(now().calendar);
    if (on_event_clock)
        event_release();
    job->executed = virtual_length(executed);
    if (!append_record(log, values[LOG]))
        return EXIT_NO_RECORD;
    return end ? EXIT_SIGNAL + end : 0;
}
