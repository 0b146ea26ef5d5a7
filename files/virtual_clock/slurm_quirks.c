/* The quirks of Slurm's daemons. slurm_quirks.h describes the functions. */
#define _GNU_SOURCE
#include "slurm_quirks.h"
#include "event_clock.h"
#include "idle_cycles.h"
#include "idle_seconds.h"
#include "instants.h"
#include "log_lines.h"
#include "virtual_clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define SAVES "SLURM_MIRAGE_SAVES"
#define JOB "SLURM_JOB_ID"
#define SCRIPT_MODE "SLURMSCRIPTD_MODE" /* slurmctld's child slurmscriptd has it, and slurmctld's name, from Slurm 24.11 on */

/* Real time between wake-ups without a purpose on the event-driven clock, where they would hold time up. */
#define LONGEST_IDLE ((wide)3600 * SECOND)

static bool is_controller; /* this program is slurmctld */
static bool is_step;       /* slurmstepd */
static bool is_node;       /* slurmd */

bool is_daemon(void)
{
    return is_controller || is_step || is_node;
}

/*
 * slurmctld writes its state every 5 s of its time when it has changed, and waits until each of its files is on the disk, while
 * jobs can neither start nor end. With SLURM_MIRAGE_SAVES=memory they are in the kernel's page cache, which survives a killed
 * slurmctld.
 */
bool saves_to_memory;

uint32_t number_in(const char *variable)
{
    const char *value = getenv(variable);
    uint32_t number = 0;
    for (; value && *value; value++)
        number = *value >= '0' && *value <= '9' ? number * 10 + (uint32_t)(*value - '0') : 0;
    return number;
}

/* Names the program in its waits, by the node for daemons of nodes, else by the job. */
static void name_waits(void)
{
    bool is_of_job = getenv(JOB) && !is_step;
    uint32_t kind = is_of_job ? OF_JOB : is_controller ? OF_CONTROLLER : is_step ? OF_STEP : is_node ? OF_NODE : OF_OTHERS;
    event_name_program(kind, number_in(is_of_job ? JOB : DAEMON));
}

void set_up_quirks(void)
{
    const char *saves = getenv(SAVES);
    is_controller = strcmp(program_invocation_short_name, "slurmctld") == 0;
    is_step = strcmp(program_invocation_short_name, "slurmstepd") == 0;
    is_node = strcmp(program_invocation_short_name, "slurmd") == 0;
    /* A second slurmctld, whose name has a number, only waits as long as the first one runs. */
    const bool is_scheduler = event_page && is_controller && !getenv(SCRIPT_MODE) && number_in(DAEMON) == 0;
    if (is_scheduler)
        event_page->scheduler = (int32_t)getpid();
    if (event_page)
        name_waits();
    set_up_log_lines(is_controller);
    set_up_idle_seconds(is_scheduler && set_up_idle_cycles());
    saves_to_memory = is_controller && saves && strcmp(saves, "memory") == 0;
}

/*
 * The main thread of slurmctld waits for a second by ten naps (slurmctld/controller.c), between which it only checks whether it is
 * to end. On the event-driven clock one nap of a second has the same effect and costs a tenth.
 */
enum { NAP = 100000, NAPS = 10 };

bool leaves_nap_out(useconds_t *microseconds)
{
    static int naps; /* of one thread */
    if (!is_controller || !event_page || *microseconds != NAP || gettid() != getpid())
        return false;
    *microseconds = NAPS * NAP;
    return ++naps % NAPS != 0;
}

/*
 * Every slurmstepd has a thread that wakes up each second to check for samples (common/slurm_acct_gather_profile.c, _timer_thread).
 * With a hundred jobs and a speed of 500, that makes 50,000 wake-ups per second, too many for a small host, and sleeping jobs need
 * no samples. So this thread waits for a second of real time. The end of the thread is signalled, so it is not delayed.
 * Before 17.11 it sleeps and is cancelled in the end.
 */
bool is_sampler(void)
{
    enum { UNKNOWN, NO, YES };
    static _Thread_local char known __attribute__((tls_model("initial-exec")));
    if (known == UNKNOWN) {
        char name[16] = "";
        prctl(PR_GET_NAME, name);
        known = strcmp(name, "acctg_prof") == 0 ? YES : NO;
    }
    return known == YES;
}

int sleep_of_sampler(useconds_t microseconds)
{
    wide real = event_page ? LONGEST_IDLE : real_length((wide)microseconds * 1000);
    struct timespec wanted = timespec_of(real < SECOND ? SECOND : real);
    errno = real_clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, NULL);
    return errno ? -1 : 0;
}

int wait_of_sampler(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *deadline)
{
    if (event_page) { /* an early end is a spurious one */
        struct timespec later = timespec_of(real_now(CLOCK_REALTIME) + LONGEST_IDLE);
        int error = real_pthread_cond_timedwait(condition, mutex, &later);
        return error == ETIMEDOUT && virtual_now(CLOCK_REALTIME) < nanoseconds(*deadline) ? 0 : error;
    }
    struct timespec real = guessed_deadline(deadline);
    if (nanoseconds(real) < real_now(CLOCK_REALTIME) + SECOND)
        real = timespec_of(real_now(CLOCK_REALTIME) + SECOND);
    return real_pthread_cond_timedwait(condition, mutex, &real);
}

/*
 * From 24.11.6 on slurmstepd, slurmctld and slurmscriptd (a slurmctld, too) poll for messages for 60 s at a time (common/eio.c,
 * _poll_internal), only to close connections that are left over; before, they polled without a limit. With a hundred jobs that
 * would be two wake-ups in each second, and many looks at the clock before each. On the event-driven clock such a poll, which
 * always has a pipe beside its connections, lasts LONGEST_IDLE.
 */
enum { IDLE_POLL = 60000 };

bool is_idle_poll(nfds_t count, int timeout)
{
    return (is_step || is_controller) && event_page && count > 1 && timeout == IDLE_POLL;
}

int poll_idly(struct pollfd *fds, nfds_t count)
{
    struct timespec longest = timespec_of(LONGEST_IDLE);
    return real_ppoll(fds, count, &longest, NULL);
}
