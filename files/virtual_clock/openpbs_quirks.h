/* What the clock does for single daemons of OpenPBS, because of how they wait. Their names are known here only. */
#ifndef OPENPBS_QUIRKS_H
#define OPENPBS_QUIRKS_H

#include <stdbool.h>
#include <stdint.h>

#define OPENPBS_DAEMONS "pbs_" /* their names begin with it */

#pragma GCC visibility push(hidden)

/* Looks which daemon this program is, and names its waits. On the event-driven clock the page must be mapped. */
void set_up_openpbs(void);

/* Whether waits for files end by a signal (signalled_waits.h), because there are many daemons that wait so. */
bool has_signalled_waits(void);

/*
 * The deadline of a wait for files that begins now and has this limit in ns: that of the pass of a daemon's loop which would do
 * nothing is later. INT64_MAX: none, because nothing happens when it ends.
 */
int64_t deadline_of_pass(int64_t limit);

/* To be called when a wait for files has found a message, or was ended by a signal. */
void note_message(void);

/* Whether a wait for messages that began at this instant of the virtual calendar, and ends by one, ends by its limit first. */
bool passes_before_message(int64_t since);

#pragma GCC visibility pop

#endif
