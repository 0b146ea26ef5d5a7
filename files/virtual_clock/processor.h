/* One processor for the scheduler and the coordinator, which work in turns most of the time. */
#ifndef PROCESSOR_H
#define PROCESSOR_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Binds `scheduler` (0: none) to the processor on which this process runs, and this process too: to wake up a thread on another
 * processor takes longer than the scheduler works in a pass of its main loop. While its threads wait for the processor for more
 * than a half of the time, because there are several, or because others use it too, they may run on all processors from time to
 * time, where the kernel chooses one again.
 *
 * To be called again and again; `mono`: CLOCK_MONOTONIC in ns. A process that is no longer named is released; one that a killed
 * coordinator has left bound must be named once.
 */
void share_processor(pid_t scheduler, int64_t mono);

#endif
