/*
 * Waits for files on the event-driven clock that end at their deadline by a signal. Those that look at the clock themselves
 * (event_clock.h) take up to LONGEST_LOOK of real time to notice it, which is too long where hundreds of daemons wait in turns.
 * Here each thread that waits so has a companion: a thread that sleeps in a slot of the page, and sends the signal.
 */
#ifndef SIGNALLED_WAITS_H
#define SIGNALLED_WAITS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct companion;

struct signalled_wait {
    struct companion *companion;
    int64_t deadline;
    sigset_t mask; /* for the call that waits: the only one during which the signal is not blocked */
};

/*
 * Begins a wait of this thread until an instant of the virtual calendar. `mask`: the signals that are to be blocked meanwhile;
 * null: those that are. Returns false if there can be no companion.
 *
 * The caller then calls a function that waits without a limit of time, with the mask, as long as `signalled_goes_on`, which sets a
 * result of -1 to 0 if the deadline is reached. `signalled_end` may be a pthread_cleanup_push function.
 */
bool signalled_begin(struct signalled_wait *wait, int64_t deadline, const sigset_t *mask);
bool signalled_goes_on(const struct signalled_wait *wait, int *result);
void signalled_end(void *wait);

/* In a child the parent's companions do not exist. */
void forget_companions(void);

#pragma GCC visibility pop

#endif
