/*
 * slurmctld's waits of a second or two, after which its threads look for work: while there is none, several are made one.
 * idle_seconds.c says when.
 */
#ifndef IDLE_SECONDS_H
#define IDLE_SECONDS_H

#include "event_clock.h"

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Whether slurmctld's waits may be prolonged. On the event-driven clock the page must be mapped. */
void set_up_idle_seconds(bool is_enabled);

/* The deadline that a wait gets instead of its own. To be called before it has a slot; `list_prolonged` after that. */
int64_t prolonged(int64_t deadline);
void list_prolonged(struct event_wait *wait, int64_t deadline);

/* The number of the wait (`wait_name`) that `prolonged` has just prolonged: it is served after waits with the same end. */
uint32_t number_of_prolonged(void);
void unlist_prolonged(struct event_wait *wait);

/* slurmctld has something to do: waits end when they would have ended. */
void controller_works(void);

/* What this thread does follows from the end of a wait of the main thread. */
void acts_for_main(void);

/* The times that the backfill scheduler looks at have changed. */
void shorten_polls(void);

/* In a child the parent's waits do not exist. */
void forget_prolonged(void);

#pragma GCC visibility pop

#endif
