/*
 * Waits, and what signals do to them. Signals stay blocked and are checked between two waits; there are no handlers.
 */
#ifndef WAITS_H
#define WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

enum { NO_SOCKET = -1 };

/* The last look at the clock and the signals, and the signalfd that is readable when a signal is pending. */
struct watch {
    struct instant last;
    int signals;
    bool is_asked; /* whether a SIGUSR1 has come to a job that takes it */
};

/* Blocks the signals that end or suspend a job, and SIGUSR1. */
void block_signals(void);

/* SIGUSR1 is a request to this job, or does what it did before block_signals(). To be called before watch_signals(). */
void take_requests(bool takes);

/* Opens the signalfd of the blocked signals. Returns it, or -errno. */
int watch_signals(void);

/*
 * Waits until `wanted` ns have passed since the last look at the clock, `socket` is readable, SIGUSR1 comes to a job that takes it,
 * or a signal ends the job. Returns that signal, or 0. Sets *passed to the ns that have passed. Time in which the job was stopped
 * counts in neither. Both are measured in `progress` of struct instant.
 */
int pass_time(struct watch *watch, int64_t wanted, int socket, int64_t *passed);

#endif
