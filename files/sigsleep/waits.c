/* Waits, and what signals do to them. waits.h describes the functions. */
#define _GNU_SOURCE
#include "waits.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>

#include "event.h"
#include "kernel.h"
#include "record.h"

/* A SIGCONT counts as a resume only if at least this much time is missing: see time_missing(). */
#define SHORTEST_STOP (10 * MILLISECOND)

/* After this real time a job without a wait slot looks at the event clock again. */
#define LONGEST_LOOK (10 * MILLISECOND)

/* Longer than any sleep (an int64_t of nanoseconds holds 292 years), so that ppoll never times out. */
#define POLL_LIMIT_SECONDS INT64_C(10000000000)

typedef uint64_t signal_set; /* the kernel's signal set: bit N - 1 is signal N */
#define SIGNAL(n) (UINT64_C(1) << ((n) - 1))

/* The kernel's struct sigaction, which differs from the C library's. Only its first field is used here. */
struct disposition {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    signal_set mask;
};

static bool is_ignored(int signal_number)
{
    struct disposition old = {0};

    kernel(SYS_rt_sigaction, signal_number, 0, (long)&old, sizeof(signal_set), 0);
    return old.handler == SIG_IGN;
}

static signal_set change_mask(int how, signal_set signals)
{
    signal_set before = 0;

    kernel(SYS_rt_sigprocmask, how, (long)&signals, (long)&before, sizeof signals, 0);
    return before;
}

static signal_set watched, inherited; /* `inherited`: blocked before main() began */

/*
 * The signals then only become pending. Until main() begins, the kernel's default actions apply: SIGTSTP
 * and SIGSTOP stop the process before the job has started, and SIGTERM ends it without a record.
 */
void block_signals(void)
{
    static const struct disposition ignore = {.handler = SIG_IGN};
    watched = SIGNAL(SIGTSTP) | SIGNAL(SIGCONT) | SIGNAL(SIGTERM) | SIGNAL(SIGALRM);

    /* A blocked signal becomes pending even if it is ignored. Without this check, nohup and "&" would have no effect. */
    if (!is_ignored(SIGINT))
        watched |= SIGNAL(SIGINT);
    if (!is_ignored(SIGHUP))
        watched |= SIGNAL(SIGHUP);
    inherited = change_mask(SIG_BLOCK, watched | SIGNAL(SIGUSR1));
    /* With SIGXFSZ ignored, a file size limit (Slurm propagates the user's) makes write fail, which can be reported. */
    kernel(SYS_rt_sigaction, SIGXFSZ, (long)&ignore, 0, sizeof(signal_set), 0);
}

void take_requests(bool takes)
{
    if (takes)
        watched |= SIGNAL(SIGUSR1);
    else
        change_mask(SIG_UNBLOCK, SIGNAL(SIGUSR1) & ~inherited);
}

int watch_signals(void)
{
    return (int)kernel(SYS_signalfd4, -1, (long)&watched, sizeof watched, O_CLOEXEC, 0);
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
 * Waits until a watched signal is pending, or the socket is readable. Returns the duration in ns without the time in stopped state.
 *
 * Uses the system call directly, because the kernel's ppoll, unlike the C library's, returns the remaining time. It
 * also stores it when the process is stopped, and continues with it afterwards (fs/select.c). So a SIGSTOP without a
 * SIGTSTP can be detected. ppoll never times out: it may be 0.1 s late, so a timer (SIGALRM) ends the sleep. The kernel skips
 * a negative descriptor.
 */
static int64_t wait_for(int signals, int socket, bool *is_readable)
{
    struct timespec left = {POLL_LIMIT_SECONDS, 0};
    struct pollfd files[] = {{.fd = signals, .events = POLLIN}, {.fd = socket, .events = POLLIN}};

    kernel(SYS_ppoll, (long)files, 2, (long)&left, 0, 0);
    *is_readable = files[1].revents != 0;
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
 * The order matters. The clock is read before pending_signals(), and after a resume it is read after take(SIGCONT), so
 * that a stop at any point lies between two readings. A signal that ends the job takes precedence over a suspend
 * (otherwise the job would stop with its end pending), and so does the end of the wait.
 */
int pass_time(struct watch *watch, int64_t wanted, int socket, int64_t *passed)
{
    const int64_t begin = watch->last.progress;
    int64_t waited = 0, stopped = 0;
    bool is_readable = false;

    for (;;) {
        struct instant looked = now();
        signal_set pending = pending_signals();
        bool suspend = pending & SIGNAL(SIGTSTP);
        bool is_asked = pending & watched & SIGNAL(SIGUSR1);

        if (pending & SIGNAL(SIGCONT)) {
            take(SIGCONT);
            looked = now();
            stopped += time_missing(watch->last, waited, looked);
        } else if (suspend) { /* the kernel discards a pending SIGCONT when a SIGTSTP arrives */
            stopped += time_missing(watch->last, waited, looked);
        }
        watch->last = looked;
        *passed = looked.progress - begin - stopped;

        if (is_asked) {
            take(SIGUSR1);
            watch->is_asked = true;
        }

        int end = ending_signal(pending);
        if (end || *passed >= wanted)
            return end;
        if (suspend) {
            if (on_event_clock)
                event_set_deadline(NEVER); /* a stopped job must not hold the clock */
            stop_self();
            watch->last = now();
            note_suspension(looked.calendar, watch->last.calendar, 0);
            stopped += watch->last.progress - looked.progress;
        }
        if (is_readable || is_asked)
            return 0;
        waited = set_alarm(watch->last, wanted - *passed) ? wait_for(watch->signals, socket, &is_readable) : 0;
    }
}
