/* Instants of the clocks that programs read, real and virtual, in ns. */
#ifndef INSTANTS_H
#define INSTANTS_H

#include "lengths.h"

struct moment {
    int64_t real, virtual;
};

enum kind { OTHER, CALENDAR, UPTIME };

#pragma GCC visibility push(hidden)

extern struct clocks {
    struct moment calendar; /* the anchor: since the epoch */
    struct moment uptime;   /* the same instant since the host's start; before it both clocks are equal */
} clocks;

enum kind kind_of(clockid_t clock);
wide real_now(clockid_t clock);
wide virtual_now(clockid_t clock);

/* Converts a virtual deadline on `clock` to a real deadline on the same clock. */
struct timespec real_deadline(clockid_t clock, const struct timespec *deadline);

/*
 * For calls that do not name the clock of their virtual deadline: the clock, realtime or monotonic, whose current time is nearer to
 * it. The two clocks are decades apart. And the real deadline on that clock.
 */
clockid_t guessed_clock(const struct timespec *deadline);
struct timespec guessed_deadline(const struct timespec *deadline);

/* On the event-driven clock: the instant of the virtual calendar of a deadline, and of the end of a length from now on. */
int64_t event_deadline_on(clockid_t clock, const struct timespec *deadline);
int64_t event_deadline_in(wide length);

#pragma GCC visibility pop

#endif
