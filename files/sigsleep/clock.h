/* The clocks of a job: real time, a virtual clock of constant speed, or the event-driven one (event.h). */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>

/* One instant on several clocks, ns. */
struct instant {
    int64_t monotonic; /* CLOCK_MONOTONIC */
    int64_t progress;  /* on which execution is measured: CLOCK_MONOTONIC, or the event clock */
    int64_t calendar;  /* of the record: CLOCK_REALTIME, or the event clock */
};

struct instant now(void);

/* Convert a length, or an instant, of an instant's progress or calendar to virtual time. */
int64_t virtual_length(int64_t real);
int64_t virtual_instant(int64_t real);

/* Converts a virtual length to one of an instant's progress in ns, rounded up. */
int64_t real_length(int64_t virtual);

/* Reads the clock file that `option` names, and maps its page. Errors are wrong use. */
void read_clock_file(const char *option, const char *path);

#endif
