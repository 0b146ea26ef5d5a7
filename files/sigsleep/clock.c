/* The clocks of a job. clock.h describes the functions. */
#define _GNU_SOURCE
#include "clock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

#include "event.h"
#include "kernel.h"
#include "text.h"

/* Converts from an instant's progress and calendar to virtual time. On the event clock nothing is left to convert. */
struct virtual_clock {
    int64_t real, virtual; /* the anchor: one instant on both clocks, ns */
    int64_t speed;         /* billionths */
};

static struct virtual_clock virtual_clock = {0, 0, SECOND};

enum {
    AT_ONCE = 50000,   /* ns: two clocks that were read within this time show the same instant */
    MOST_READINGS = 20 /* after so many readings that took longer the last one counts: the host is that busy */
};

struct instant now(void)
{
    int64_t monotonic = clock_ns(CLOCK_MONOTONIC);
    int64_t time;

    if (on_event_clock) {
        time = event_now();
        return (struct instant){monotonic, time, time};
    }
    /* The process may lose the processor between the two readings. */
    for (int readings = 1;; readings++) {
        int64_t after;

        time = clock_ns(CLOCK_REALTIME);
        after = clock_ns(CLOCK_MONOTONIC);
        if (after - monotonic <= AT_ONCE || readings == MOST_READINGS)
            return (struct instant){monotonic, monotonic, time};
        monotonic = after;
    }
}

int64_t virtual_length(int64_t real)
{
    return clamp((wide)real * virtual_clock.speed / SECOND);
}

int64_t virtual_instant(int64_t real)
{
    return clamp((wide)virtual_clock.virtual + (wide)(real - virtual_clock.real) * virtual_clock.speed / SECOND);
}

int64_t real_length(int64_t virtual)
{
    return clamp(((wide)virtual * SECOND + virtual_clock.speed - 1) / virtual_clock.speed);
}

/* Parses the line of a clock file. *is_event: its speed is the word `event`. */
static bool scan_clock(const char *text, bool *is_event)
{
    const char *rest;

    text = after(text, "mirage-clock 1 ");
    if (!text)
        return false;
    if (!scan_whole(&text, INT64_MAX, &virtual_clock.real) || *text++ != ' ')
        return false;
    if (!scan_whole(&text, INT64_MAX, &virtual_clock.virtual) || *text++ != ' ')
        return false;
    rest = after(text, "event");
    *is_event = rest != NULL;
    if (rest)
        text = rest;
    else if (!scan_decimal(&text, &virtual_clock.speed))
        return false;
    if (*text == '\n')
        text++;
    return *text == '\0' && virtual_clock.speed > 0 && virtual_clock.speed <= 1000000 * SECOND;
}

static void map_event_clock(const char *path)
{
    long error = event_map(path, virtual_clock.real, virtual_clock.virtual);

    if (error)
        wrong_use("page (FILE.page) of --clock", path, error == NOT_A_PAGE ? "not the page of a virtual clock" : error_text(error));
    virtual_clock = (struct virtual_clock){0, 0, SECOND};
}

void read_clock_file(const char *option, const char *path)
{
    char text[256];
    bool is_event;
    int file = (int)kernel(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
    long size = file < 0 ? file : kernel(SYS_read, file, (long)text, sizeof text - 1, 0, 0);

    if (size < 0)
        wrong_use(option, path, error_text(size));
    kernel(SYS_close, file, 0, 0, 0, 0);
    text[size] = '\0';
    if (length_of(text) != (size_t)size || !scan_clock(text, &is_event))
        wrong_use(option, path,
                  "must be one line, mirage-clock 1 REAL_NS VIRTUAL_NS SPEED, SPEED above 0 and up to 1000000, or event");
    if (is_event)
        map_event_clock(path);
}
