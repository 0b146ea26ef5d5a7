/* Whether any thread of an instance's user works, by reading the states of all in /proc. */
#define _GNU_SOURCE
#include "runnable.h"
#include "threads.h"

#include <time.h>

#define MILLISECOND INT64_C(1000000)

static uid_t scanned_user;
static bool is_working;
static bool counts_stopped = true;
static bool counts_preempted; /* in this look */
static bool shows_preempted = true;

static bool look_at(pid_t thread, char state, const char *name)
{
    is_working = is_work(state, name, counts_stopped) || (counts_preempted && state == 'S' && is_preempted(thread, scanned_user));
    return !is_working;
}

static bool look(bool with_preempted)
{
    counts_preempted = with_preempted;
    is_working = false;
    for_each_thread(scanned_user, kept_thread_state, look_at);
    return is_working;
}

static bool any(void)
{
    /* Twice, because a thread may wake another one up that has been looked at already, and then sleep. */
    return look(false) || look(shows_preempted);
}

static uint64_t wakeups(void)
{
    return 0; /* they are not seen */
}

static uint64_t surprises(void)
{
    return 0;
}

static bool next_surprise(struct surprise *found, uint64_t noted)
{
    (void)found;
    (void)noted;
    return false;
}

static void jumps(int64_t mono)
{
    (void)mono;
}

static void tells(bool begins)
{
    (void)begins;
}

static void wait_a_little(int64_t longest, bool works)
{
    (void)works;
    struct timespec pause = {.tv_nsec = longest < MILLISECOND / 2 ? longest : MILLISECOND / 2};
    if (longest > 0)
        nanosleep(&pause, NULL);
}

static void verify(bool stopped)
{
    const struct timespec pause = {.tv_nsec = 20 * MILLISECOND};
    counts_stopped = !stopped;
    /* The kernel may hide where any thread waits. */
    for (int looks = 0; looks < 5; looks++) {
        if (!shows_preempted || look(false) || !look(true))
            return;
        nanosleep(&pause, NULL);
    }
    shows_preempted = false;
}

void runnable_by_scan(struct runnable *runnable, uid_t user)
{
    scanned_user = user;
    *runnable = (struct runnable){BY_SCAN, any, wakeups, surprises, next_surprise, jumps, tells, wait_a_little, verify};
}
