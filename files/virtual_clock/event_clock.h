/*
 * The event-driven clock, as the preloaded library uses it: reading the time from the shared page, and waits that the coordinator
 * ends. No function takes a lock, allocates memory or uses stdio.
 */
#ifndef EVENT_CLOCK_H
#define EVENT_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "page.h"

#pragma GCC visibility push(hidden)

/* The shared page; null on a constant clock. */
extern struct page *event_page;

/* Maps FILE.page; `gettime` is the C library's clock_gettime. Returns null, or why the page cannot be used. */
const char *event_map(const char *clock_file, int (*gettime)(clockid_t clock, struct timespec *time));

/* Names this program in its waits (wait_name in page.h), the same in each run. */
void event_name_program(uint32_t kind, uint32_t number);

/* The virtual calendar's time in ns. */
int64_t event_now(void);

/* Whether time passes by jumps only, as with a driver. */
bool event_stands(void);

/*
 * To be called for each reading of the clock by the program: time stands while a thread works, so one that waits by reading would
 * wait for ever. After READINGS of them in a thread at one instant without a timed wait in between the thread waits for a step of
 * time.
 */
void event_count_reading(void);

/* A wait in the shared page until an instant of the virtual calendar. */
struct event_wait {
    _Atomic int64_t deadline;
    int64_t slice; /* real ns until the next look */
    uint64_t token;
    uint64_t name;     /* of the slot */
    struct slot *slot; /* null: all slots were taken so far; the wait then ends late, never early */
    uint64_t sleeper;  /* of a waiter that looks itself (page.h) */
    bool is_listed;    /* it may be shortened (idle_seconds.h) */
};

/*
 * Waits that the waiter ends itself: begin; then wait for the real time of `event_slice`, and again while `event_goes_on`; end.
 * `event_cancel` is event_end for pthread_cleanup_push.
 */
void event_begin(struct event_wait *wait, int64_t deadline, uint32_t kind);
struct timespec event_slice(struct event_wait *wait);
bool event_goes_on(struct event_wait *wait);
void event_end(struct event_wait *wait);
void event_cancel(void *wait);

/*
 * Makes a call that waits, for a part of its limit at a time until the virtual deadline: `part` is the part's real length, `call`
 * has the value `none` when it is over.
 */
#define IN_PARTS(result, at, none, part, call)                \
    do {                                                      \
        struct event_wait wait;                               \
        event_begin(&wait, at, LOOKS_ITSELF);                 \
        pthread_cleanup_push(event_cancel, &wait);            \
        do {                                                  \
            struct timespec part = event_slice(&wait);        \
            (result) = (call);                                \
        } while ((result) == (none) && event_goes_on(&wait)); \
        pthread_cleanup_pop(1);                               \
    } while (0)

/* Has a wait that another thread is in end earlier. The caller keeps it from ending meanwhile. */
void event_shorten(struct event_wait *wait, int64_t deadline);

/* Sleeps until the deadline; returns 0, or EINTR after a signal handler. A cancellation point. */
int event_sleep(int64_t deadline);

/* From begin to end time does not jump, also while this thread waits. `end` may be a pthread_cleanup_push function. */
struct event_hold {
    struct event_wait slot;
    int file;
};
void event_hold_begin(struct event_hold *hold);
void event_hold_end(void *hold);

/* As pthread_cond_timedwait, with a deadline on the virtual calendar. */
int event_wait_on(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline);

/* Ends the waits of event_wait_on for this condition in this process. */
void event_signal(pthread_cond_t *condition);

/*
 * Calls fire(key) each time the virtual clock has reached a deadline: `deadline`, then each `interval` ns; 0: never again. One
 * deadline per key; a deadline of 0 removes it. Returns false if there are too many. Uses a thread of its own.
 */
bool event_timer(uintptr_t key, int64_t deadline, int64_t interval, void (*fire)(uintptr_t key));

/* What is left until the deadline of this key, and its interval; 0 without one. */
int64_t event_timer_left(uintptr_t key, int64_t *interval);

/* The virtual instant of a real one (CLOCK_REALTIME, ns) after the anchor, by the history of the clock. */
int64_t event_instant_of(int64_t real, int64_t anchor_real, int64_t anchor_virtual);

#pragma GCC visibility pop

#endif
