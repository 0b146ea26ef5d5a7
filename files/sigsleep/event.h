/*
 * The event-driven clock: time of the page (FILE.page, see page.h), and a wait slot in it, at whose deadline the clock's
 * coordinator sends SIGALRM. ../virtual_clock/README.md describes the clock.
 */
#ifndef EVENT_H
#define EVENT_H

#include <stdbool.h>
#include <stdint.h>

#define NEVER INT64_MAX

enum { NOT_A_PAGE = 1, NO_SLOT = 2 };

/* Whether event_map has succeeded. */
extern bool on_event_clock;

/*
 * Maps the page of this clock file, whose line has this anchor (ns). Returns 0, -errno or NOT_A_PAGE. The file stays open: the
 * lock on it is that of the process, and is dropped with any of its descriptors.
 */
long event_map(const char *clock_file, int64_t anchor_real, int64_t anchor_virtual);

/* The virtual time in ns. */
int64_t event_now(void);

/* The virtual time at an earlier real instant (CLOCK_REALTIME, ns), by the clock's history. */
int64_t event_time_at(int64_t real);

/* Takes a free wait slot, without a deadline. Returns 0, -errno or NO_SLOT. */
long event_claim(void);

/*
 * Sets the virtual instant of the next SIGALRM; NEVER: none. The coordinator may have given the slot to others, if the process was
 * stopped for long after the last one: then it takes another slot. Returns false if there is none.
 */
bool event_set_deadline(int64_t deadline);

/* Gives the slot back. */
void event_release(void);

#endif
