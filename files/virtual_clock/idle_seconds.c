/*
 * slurmctld's threads wake up each second or two to look for work. On this clock that is most of what a quiet night costs.
 *
 * Where slurmctld has had nothing to do for QUIET, a wait of SHORTEST to LONGEST is prolonged by whole waits to GRID or more. That
 * of the main thread ends at a multiple of GRID after its first one: it counts intervals of 30 s (time limits) and 60 s
 * (scheduling) from its start. It ends before that where the main thread pings the nodes: FIRST_PING after its first wait, and then
 * at multiples of the interval of pings (MIN_CHECKIN_TIME and ping_interval of _slurmctld_background, Slurm 20.11 to 25.11). Waits
 * of other threads end in the next multiple. Something to do is a message from or to another process, or a job that was submitted
 * or started. It shortens all prolonged waits to the next end that they would have had otherwise, so that what follows happens at
 * the same instants. The backfill scheduler looks for changes of the times of jobs, nodes, partitions and reservations
 * (idle_cycles.c): they shorten its wait only.
 */
#define _GNU_SOURCE
#include "idle_seconds.h"
#include "idle_cycles.h"
#include "lengths.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define SHORTEST (9 * SECOND / 10)
#define LONGEST (2 * SECOND)
#define GRID_SECONDS 30
#define GRID (GRID_SECONDS * SECOND)
#define QUIET (10 * SECOND)
#define FIRST_PING 4               /* seconds */
#define PINGS "SLURM_MIRAGE_PINGS" /* the interval of pings in seconds; without it, or 0, they may come up to GRID late */

enum { LISTED = 16 };
static bool is_on;
static int64_t ping_interval;      /* seconds; 0: not known */
static _Atomic int64_t quiet_from; /* instant */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct event_wait *wait; /* null: free */
    int64_t began, length;
    bool is_backfill;
    const bool *is_after_main; /* null: the main thread's own */
} listed[LISTED];
static atomic_int number_listed;

/*
 * Waits of several threads may end at the same instant, and are served in the order of their beginnings. With waits of the same
 * length this order stays. A prolonged wait is in it where it would be: its last second has begun after most other waits.
 */
static _Atomic int64_t main_began, main_ends; /* the main thread's last wait */
enum role { MESSAGES, TIMER, MAIN };
static _Thread_local enum role role __attribute__((tls_model("initial-exec")));
static _Thread_local bool is_after_main __attribute__((tls_model("initial-exec"))); /* whether its wait is served after main's */

void set_up_idle_seconds(bool is_enabled)
{
    is_on = is_enabled;
    const char *pings = getenv(PINGS);
    ping_interval = pings ? atoll(pings) : 0;
    controller_works();
}

/* How many seconds after its start the main thread looks again, if it has looked so many after it and has nothing to do. */
static int64_t next_look(int64_t looked)
{
    int64_t on_grid = (looked / GRID_SECONDS + 1) * GRID_SECONDS;
    if (ping_interval <= 0)
        return on_grid;
    int64_t pings = looked < FIRST_PING ? 0 : (looked - FIRST_PING) / ping_interval + 1;
    int64_t ping = FIRST_PING + pings * ping_interval;
    return ping < on_grid ? ping : on_grid;
}

static void note_order(int64_t now, int64_t deadline)
{
    if (gettid() == getpid()) {
        role = MAIN;
        main_began = now;
        main_ends = deadline;
        return;
    }
    role = TIMER;
    if (main_began == now)
        is_after_main = true;
    else if (main_ends <= now)
        is_after_main = false;
}

int64_t prolonged(int64_t deadline)
{
    static int64_t first; /* of the main thread: its start */
    if (!is_on)
        return deadline;
    look_at_times();
    int64_t now = event_now(), length = deadline - now;
    if (length < SHORTEST || length > LONGEST)
        return deadline;
    note_order(now, deadline);
    if (role == MAIN && first == 0)
        first = now;
    if (now < quiet_from || !event_stands() || may_change_by_itself() ||
        (this_scheduler() == BACKFILL_SCHEDULER && has_more_work()))
        return deadline;
    if (role == TIMER)
        return now + (GRID + length - 1) / length * length;
    int64_t looked = (now - first + SECOND / 2) / SECOND;
    main_ends = deadline + (next_look(looked) - looked - 1) * SECOND;
    return main_ends;
}

uint32_t number_of_prolonged(void)
{
    enum { BEFORE_MAIN = 2, OF_MAIN = 1, AFTER_MAIN = 0 }; /* from the end */
    return UINT32_MAX - (role == MAIN ? OF_MAIN : is_after_main ? AFTER_MAIN : BEFORE_MAIN);
}

/* Whether a wait that would end now would have been served before this thread. after_main: as in `listed` */
static bool is_served_before(const bool *after_main)
{
    switch (role) {
    case MAIN:
        return !after_main || !*after_main;
    case TIMER:
        return after_main || is_after_main;
    default: /* slurmctld's waits are served before those of other programs */
        return true;
    }
}

static void shorten(int number, int64_t now)
{
    int64_t began = listed[number].began, length = listed[number].length, parts = (now - began) / length;
    bool is_end = parts > 0 && began + parts * length == now && !is_served_before(listed[number].is_after_main);
    int64_t end = is_end ? now : began + (parts + 1) * length;
    if (end >= listed[number].wait->deadline)
        return;
    if (!listed[number].is_after_main)
        main_ends = end;
    event_shorten(listed[number].wait, end);
}

void list_prolonged(struct event_wait *wait, int64_t deadline)
{
    int64_t now = event_now();
    int free = 0;
    pthread_mutex_lock(&mutex);
    while (free < LISTED && listed[free].wait)
        free++;
    if (free < LISTED) {
        listed[free].wait = wait;
        listed[free].began = now;
        listed[free].length = deadline - now;
        listed[free].is_backfill = this_scheduler() == BACKFILL_SCHEDULER;
        listed[free].is_after_main = role == MAIN ? NULL : &is_after_main;
        wait->is_listed = true;
        number_listed++;
        if (now < quiet_from)
            shorten(free, now);
    } else {
        event_shorten(wait, deadline);
    }
    pthread_mutex_unlock(&mutex);
}

void unlist_prolonged(struct event_wait *wait)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < LISTED; i++)
        if (listed[i].wait == wait) {
            listed[i].wait = NULL;
            number_listed--;
        }
    wait->is_listed = false;
    pthread_mutex_unlock(&mutex);
}

void acts_for_main(void)
{
    role = MAIN;
}

static void shorten_listed(bool all)
{
    if (number_listed == 0)
        return;
    int64_t now = event_now();
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < LISTED; i++)
        if (listed[i].wait && (all || listed[i].is_backfill))
            shorten(i, now);
    pthread_mutex_unlock(&mutex);
}

void controller_works(void)
{
    if (!is_on)
        return;
    quiet_from = event_now() + QUIET;
    shorten_listed(true);
}

void shorten_polls(void)
{
    shorten_listed(false);
}

void forget_prolonged(void)
{
    is_on = false;
    pthread_mutex_init(&mutex, NULL);
}
