/*
 * Waits, and what signals do to them. Signals stay blocked and are checked between two waits; there are no handlers.
 */
#ifndef WAITS_H
#define WAITS_H

#include <stdint.h>

#include "clock.h"

enum { NO_SOCKET = -1 };

/* The last look at the clock and the signals, and the signalfd that is readable when a signal is pending. */
struct watch {
    struct instant last;
    int signals;
};

/* Blocks the signals that end or suspend a job. */
void block_signals(void);

/* Opens the signalfd of the blocked signals. Returns it, or -errno. */
int watch_signals(void);

/*
 * Waits until `wanted` ns have passed without stops since the last look, or `socket` is readable, or a signal ends the job.
 * Returns that signal, or 0. Sets *passed in ns. Both lengths are of an instant's progress.
 */
int pass_time(struct watch *watch, int64_t wanted, int socket, int64_t *passed);

#endif
