/*
 * slurmctld's threads wake up each second or two to look for work. On this clock that is most of what a quiet night costs.
 *
 * Where slurmctld has had nothing to do for QUIET, a wait of SHORTEST to LONGEST is prolonged by whole waits to GRID or more. That of
 * the main thread ends at a multiple of GRID after its first one: it counts intervals of 30 s (time limits) and 60 s (scheduling)
 * from its start. Others, as those of pings, end in the next multiple. Something to do is a message from or to another process, a
 * job that was submitted or started, or a change of the times of jobs, nodes, partitions and reservations (idle_cycles.c). Each
 * shortens all prolonged waits to the next end that they would have had otherwise, so that what follows happens at the same instants.
 */
#define _GNU_SOURCE
#include "idle_seconds.h"
#include "idle_cycles.h"
#include "lengths.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define SHORTEST (9 * SECOND / 10)
#define LONGEST (2 * SECOND)
#define GRID (30 * SECOND)
#define QUIET (10 * SECOND)

enum { LISTED = 16 };
static bool is_on;
static _Atomic int64_t quiet_from; /* instant */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct event_wait *wait; /* null: free */
    int64_t began, length;
} listed[LISTED];
static atomic_int number_listed;

void set_up_idle_seconds(bool is_enabled)
{
    is_on = is_enabled;
    controller_works();
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
    const bool is_main = gettid() == getpid();
    if (is_main && first == 0)
        first = now;
    if (now < quiet_from || !event_stands() || may_change_by_itself())
        return deadline;
    if (!is_main)
        return now + (GRID + length - 1) / length * length;
    return deadline + (GRID - (now - first + SECOND / 2) / SECOND * SECOND % GRID) - SECOND;
}

static void shorten(struct event_wait *wait, int64_t began, int64_t length, int64_t now)
{
    int64_t parts = (now - began + length - 1) / length;
    int64_t end = began + (parts < 1 ? 1 : parts) * length;
    if (end < wait->deadline)
        event_shorten(wait, end);
}

void list_prolonged(struct event_wait *wait, int64_t deadline)
{
    int64_t now = event_now();
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < LISTED && !wait->is_listed; i++)
        if (!listed[i].wait) {
            listed[i].wait = wait;
            listed[i].began = now;
            listed[i].length = deadline - now;
            wait->is_listed = true;
            number_listed++;
        }
    if (now < quiet_from || !wait->is_listed)
        shorten(wait, now, deadline - now, now);
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

void controller_works(void)
{
    if (!is_on)
        return;
    int64_t now = event_now();
    quiet_from = now + QUIET;
    if (number_listed == 0)
        return;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < LISTED; i++)
        if (listed[i].wait)
            shorten(listed[i].wait, listed[i].began, listed[i].length, now);
    pthread_mutex_unlock(&mutex);
}

void forget_prolonged(void)
{
    is_on = false;
    pthread_mutex_init(&mutex, NULL);
}
