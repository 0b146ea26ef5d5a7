/*
 * A backfill cycle of which the one before, bf_interval ago, tells that it can decide nothing else.
 *
 * Slurm's backfill.c runs a cycle each bf_interval if last_job_update, or the time of the last change of nodes, partitions or
 * reservations, is not before the second in which the last cycle ended. A cycle that plans jobs on nodes with free processors marks
 * them as planned, and takes the marks of the last cycle away: both set last_node_update. On this clock it ends in the second in
 * which it began: so another cycle follows, whether or not anything has changed. It has the same result if
 *
 * - the cycle has marked nodes, or has itself set last_job_update, as it does for a job that it plans later than at its first try:
 *   else the next one would be the last until something changes;
 * - the cycle set one of these times, and none has changed since, but for last_job_update by passes of the main scheduler, which
 *   sets it when it has tried to start a job; no message came and no job started in a second in which that would not show;
 * - the cycle has started no job, and no start that it has planned is over: else a job exceeds its limit;
 * - bf_window has not come near the start of a job that would start after it, nor, if a job has no planned start at all, near the
 *   start or end of another one's plan, after which it may fit;
 * - no job waits for an instant (the replay says so, and a requeued job does), there are no reservations, and slurm.conf has
 *   nothing else by which cycles differ (the daemon's environment says so).
 *
 * The thread wakes up at the instant of such a cycle and waits for the next one, as it would after the cycle: all later instants,
 * and the order of waits that end at the same instant, stay the same.
 */
#define _GNU_SOURCE
#include "idle_cycles.h"
#include "event_clock.h"
#include "idle_seconds.h"
#include "lengths.h"
#include "virtual_clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define WINDOW "SLURM_MIRAGE_BF_WINDOW" /* seconds; without it all cycles are run */
#define NAME_OF_MAIN "sched_agent"
#define NAME_OF_BACKFILL "bckfl"
#define MARGIN 600            /* seconds: Slurm rounds the end of the window to bf_resolution */
#define SHORTEST (2 * SECOND) /* without a cycle the thread waits for a second, and a cycle yields for less */

enum { JOBS, NODES, PARTITIONS, RESERVATIONS, TIMES, NONE = -1 };
static const char *const names[TIMES] = {"last_job_update", "last_node_update", "last_part_update", "last_resv_update"};
static const time_t *times[TIMES]; /* variables of slurmctld */
static void *const *reservations;  /* a list of it */
static int (*length_of)(const void *list);
static bool is_enabled;
static int64_t window;

static atomic_bool waits_for_instant;
static _Atomic int64_t changed = NONE; /* the last second in which something may have changed */
static _Atomic int64_t kept = NONE;   /* last_job_update as the cycle, or passes of the main scheduler, left it; NONE: others may */
static _Atomic int64_t ended = NONE;  /* the second in which the last cycle did */
static _Atomic int64_t passed = NONE; /* the second of the last pass of the main scheduler that may have set last_job_update */
static int64_t found;                 /* last_job_update at the end of a wait; of the main scheduler's thread */

/* What the last cycle said, and the latest time before it; of the backfill scheduler's thread, as is the rest. */
static struct {
    int64_t tests, plans, left_out;
    int64_t first_start, last_start; /* planned, in seconds */
    int64_t first_after;             /* of the jobs that start after the window */
    int64_t first_bound;             /* of the starts and ends of plans that are after the window */
    bool is_unknown;                 /* an instant could not be read */
    bool has_marked;                 /* nodes are planned for jobs */
    time_t before;
} cycle;

static int64_t present_second(void)
{
    return event_now() / SECOND;
}

void begin_plan(void)
{
    cycle.tests = cycle.plans = cycle.left_out = 0;
    cycle.first_start = cycle.first_after = cycle.first_bound = INT64_MAX;
    cycle.is_unknown = cycle.has_marked = false;
}

void note_state(const char *state)
{
    if (state && strstr(state, "PLANNED"))
        cycle.has_marked = true;
}

void test_job(void)
{
    cycle.tests++;
}

void leave_job_out(void)
{
    cycle.left_out++;
}

static int64_t second_in(const char *text)
{
    struct tm parts = {0};
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;
    if (!end || *end)
        cycle.is_unknown = true;
    return (int64_t)timegm(&parts);
}

static int64_t smaller(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

void plan_job(const char *start, const char *end)
{
    if (!is_enabled)
        return;
    const int64_t bounds[] = {second_in(start), second_in(end)}, last_of_window = present_second() + window;
    cycle.plans++;
    cycle.last_start = bounds[0];
    cycle.first_start = smaller(cycle.first_start, bounds[0]);
    for (int i = 0; i < 2; i++)
        if (bounds[i] > last_of_window - MARGIN)
            cycle.first_bound = smaller(cycle.first_bound, bounds[i]);
}

void leave_out_after_window(void)
{
    cycle.first_after = smaller(cycle.first_after, cycle.last_start);
}

void state_changed(void)
{
    if (!event_page)
        return;
    int64_t second = present_second();
    changed = second;
    if (second == kept || second == ended)
        kept = NONE;
    controller_works();
}

void job_has_to_wait(void)
{
    waits_for_instant = true;
}

bool set_up_idle_cycles(void)
{
    for (int i = 0; i < TIMES; i++)
        times[i] = (const time_t *)dlsym(RTLD_DEFAULT, names[i]);
    reservations = (void *const *)dlsym(RTLD_DEFAULT, "resv_list");
    *(void **)&length_of = dlsym(RTLD_DEFAULT, "slurm_list_count");
    window = getenv(WINDOW) ? atoll(getenv(WINDOW)) : 0;
    is_enabled = event_page && window > 0 && times[JOBS] && times[NODES] && times[PARTITIONS] && times[RESERVATIONS] &&
                 reservations && length_of;
    return is_enabled;
}

enum scheduler this_scheduler(void)
{
    static _Thread_local enum scheduler known __attribute__((tls_model("initial-exec")));
    if (known == UNKNOWN_SCHEDULER) {
        char name[16] = "";
        prctl(PR_GET_NAME, name);
        known = strcmp(name, NAME_OF_BACKFILL) == 0 ? BACKFILL_SCHEDULER
                : strcmp(name, NAME_OF_MAIN) == 0   ? MAIN_SCHEDULER
                                                    : NEITHER;
        if (!is_enabled)
            known = NEITHER;
    }
    return known;
}

static time_t latest(void)
{
    time_t last = 0;
    for (int i = 0; i < TIMES; i++)
        last = *times[i] > last ? *times[i] : last;
    return last;
}

void begin_pass(void)
{
    found = *times[JOBS];
}

void end_pass(void)
{
    int64_t left = found, second = present_second();
    if (*times[JOBS] == second)
        passed = second;
    if (*times[JOBS] == second && changed != second)
        (void)atomic_compare_exchange_strong(&kept, &left, second);
    acts_for_main();
    look_at_times();
}

void look_at_times(void)
{
    static _Atomic time_t seen;
    time_t last = latest();
    if (atomic_exchange(&seen, last) != last)
        shorten_polls();
}

bool has_more_work(void)
{
    return latest() >= ended;
}

bool may_change_by_itself(void)
{
    return waits_for_instant || event_page->changes_by_itself || event_page->charge ||
           (*reservations && length_of(*reservations) > 0);
}

/* Whether the cycle that has ended in `second` would have the same result again. */
static bool repeats_itself(int64_t second)
{
    bool is_own = cycle.before < second && latest() == second && changed != second;
    bool sets_times_again = cycle.has_marked || (*times[JOBS] == second && passed != second);
    return cycle.tests > 0 && sets_times_again && !cycle.is_unknown && is_own;
}

/* Whether a cycle now would have the result of the one that has ended in `second`. */
static bool is_unchanged(int64_t second)
{
    bool are_planned = cycle.tests == cycle.plans || cycle.tests == cycle.plans + cycle.left_out;
    int64_t now = present_second(), seen = now + window + MARGIN;
    bool is_old = now < cycle.first_start && seen < cycle.first_after && (are_planned || seen < cycle.first_bound);
    return *times[JOBS] == kept && *times[NODES] <= second && *times[PARTITIONS] <= second && *times[RESERVATIONS] <= second &&
           is_old && !may_change_by_itself();
}

int wait_of_backfill(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline)
{
    const int64_t length = deadline - event_now(), second = present_second();
    ended = second;
    kept = length >= SHORTEST && repeats_itself(second) ? *times[JOBS] : NONE;
    int error = event_wait_on(condition, mutex, deadline);
    while (error == ETIMEDOUT && is_unchanged(second)) {
        atomic_fetch_add(&event_page->figures.left_out, 1);
        deadline += length;
        error = event_wait_on(condition, mutex, deadline);
    }
    cycle.tests = 0;
    cycle.before = latest();
    return error;
}
