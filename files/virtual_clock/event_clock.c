/* The event-driven clock in a process that uses it. page.h describes the shared memory, README.md the clock. */
#define _GNU_SOURCE
#include "event_clock.h"
#include "idle_seconds.h"
#include "signalled_waits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define FIRST_LOOK (SECOND / 4000)

#define FILE_TICK (SECOND / 100)    /* file times are at most this much too early */
#define STEP_OF_JUMPS (SECOND / 10) /* longest distance of points of the history while time jumps */

/* A wait without a signal or a coordinator ends after this real time, to look again. */
#define LONGEST_SLEEP (3600 * SECOND)

#define STEP_OF_READERS (SECOND / 100) /* virtual time for which a program waits that waits by reading the clock */
enum { READINGS = 100000 };

enum { PATH_SIZE = 4096, CONDITION_WAITERS = 1024, BUCKETS = 256, TIMERS = 64, KNOWN = 256 };
enum { KEY_RESERVED = 1 }; /* of an entry of `timers` that is being changed */

struct page *event_page;
static char page_path[PATH_SIZE];
static char history_path[PATH_SIZE];

static int (*real_gettime)(clockid_t clock, struct timespec *time);

static int64_t real_ns(clockid_t clock)
{
    struct timespec now;
    real_gettime(clock, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static struct timespec timespec_of_ns(int64_t length)
{
    return (struct timespec){.tv_sec = length / SECOND, .tv_nsec = length % SECOND};
}

/* An index of BUCKETS or KNOWN elements. */
static unsigned int hash_of(uint64_t key)
{
    return (unsigned int)(key * UINT64_C(0x9E3779B97F4A7C15) >> 56);
}

_Static_assert(BUCKETS == 256 && KNOWN == 256, "hash_of returns 8 bits");

/* ---- processes ---- */

/* Timed waits for a condition variable, so that a signal for it finds them. */
static struct {
    _Atomic(pthread_cond_t *) condition;
    struct slot *_Atomic slot;
} condition_waiters[CONDITION_WAITERS];
static pthread_cond_t *const reserved = (pthread_cond_t *)1;
static _Atomic int32_t waiters_by_hash[BUCKETS];

static struct {
    _Atomic uintptr_t key;
    _Atomic int64_t deadline, interval;
    void (*_Atomic fire)(uintptr_t key);
} timers[TIMERS];
static struct slot *_Atomic timer_slot;
static _Atomic uint32_t timers_changed; /* a futex */
static _Atomic bool has_timer_thread;

/* The threads of the parent do not exist in a child. */
static void forget_threads(void)
{
    for (int i = 0; i < CONDITION_WAITERS; i++)
        condition_waiters[i].condition = NULL;
    for (int i = 0; i < BUCKETS; i++)
        waiters_by_hash[i] = 0;
    for (int i = 0; i < TIMERS; i++)
        timers[i].key = 0;
    timer_slot = NULL;
    has_timer_thread = false;
    forget_prolonged();
    forget_companions();
}

/* Joins two parts of a path in an array of PATH_SIZE bytes; returns false if it is too short. */
static bool append(char *path, const char *head, const char *tail)
{
    size_t length = 0;
    for (; *head && length < PATH_SIZE; head++)
        path[length++] = *head;
    for (; *tail && length < PATH_SIZE; tail++)
        path[length++] = *tail;
    if (length < PATH_SIZE)
        path[length] = '\0';
    return length < PATH_SIZE;
}

const char *event_map(const char *clock_file, int (*gettime)(clockid_t clock, struct timespec *time))
{
    real_gettime = gettime;
    struct stat status;
    if (!append(page_path, clock_file, ".page") || !append(history_path, clock_file, ".history"))
        return "has too long a name";
    int descriptor = open(page_path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return "has no page that can be opened (FILE.page)";
    /* By a system call, because the C library's fstat is replaced. */
    bool is_whole = syscall(SYS_fstat, descriptor, &status) == 0 && status.st_size >= (off_t)sizeof(struct page);
    void *mapped = is_whole ? mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
    close(descriptor);
    if (mapped == MAP_FAILED || memcmp(((struct page *)mapped)->magic, PAGE_MAGIC, sizeof event_page->magic) != 0)
        return "has a page (FILE.page) that is not one of a virtual clock";
    event_page = mapped;
    pthread_atfork(NULL, NULL, forget_threads);
    return NULL;
}

/* ---- time ---- */

int64_t event_now(void)
{
    for (;;) {
        uint32_t latch = atomic_load_explicit(&event_page->latch, memory_order_acquire);
        const struct anchor *anchor = &event_page->anchors[latch & 1];
        int64_t mono = atomic_load_explicit(&anchor->mono, memory_order_relaxed);
        int64_t calendar = atomic_load_explicit(&anchor->calendar, memory_order_relaxed);
        int64_t speed = atomic_load_explicit(&anchor->speed, memory_order_relaxed);
        int64_t limit = atomic_load_explicit(&anchor->limit, memory_order_relaxed);
        int64_t since = real_ns(CLOCK_MONOTONIC) - mono;
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&event_page->latch, memory_order_relaxed) != latch)
            continue;
        return instant_after(calendar, speed, limit, since);
    }
}

bool event_stands(void)
{
    return event_page->anchors[atomic_load(&event_page->latch) & 1].speed == 0;
}

/* ---- slots ---- */

static void note_change(const struct slot *slot)
{
    atomic_fetch_add(&event_page->versions[(slot - event_page->slots) / SLOTS_OF_A_BLOCK], 1);
}

static _Thread_local uint32_t readings __attribute__((tls_model("initial-exec")));
static _Thread_local int64_t read_at __attribute__((tls_model("initial-exec"))); /* instant of the last READINGS-th one */

static uint32_t program_kind = OF_OTHERS;
static uint32_t program_number;
static _Atomic uint32_t waits; /* of this process */

void event_name_program(uint32_t kind, uint32_t number)
{
    program_kind = kind;
    program_number = number;
}

/* For a wait without a slot, at each look: the clock must not pass its deadline. */
static void announce(int64_t deadline)
{
    int64_t earliest = event_page->overflow;
    while (deadline < earliest && !atomic_compare_exchange_weak(&event_page->overflow, &earliest, deadline))
        ;
}

/* Takes a free slot for a wait, if there is one, or announces its deadline. */
static void take_slot(struct event_wait *wait, uint32_t kind)
{
    static _Thread_local uint32_t last __attribute__((tls_model("initial-exec")));
    for (uint32_t tried = 0; tried < SLOTS; tried++) {
        struct slot *slot = &event_page->slots[(last + tried) % SLOTS];
        uint64_t none = 0;
        if (atomic_load_explicit(&slot->token, memory_order_relaxed) != 0 ||
            !atomic_compare_exchange_strong(&slot->token, &none, wait->token))
            continue;
        last = (last + tried) % SLOTS;
        wait->slot = slot;
        slot->name = wait->name;
        slot->wake = asleep(wait->token);
        slot->kind = kind;
        slot->deadline = wait->deadline;
        note_change(slot);
        return;
    }
    announce(wait->deadline);
}

void event_begin(struct event_wait *wait, int64_t deadline, uint32_t kind)
{
    readings = 0;
    int64_t end = kind == WAITS_ON_FUTEX ? prolonged(deadline) : deadline;
    *wait = (struct event_wait){.deadline = end, .slice = FIRST_LOOK};
    wait->token = 1 + atomic_fetch_add(&event_page->tickets, 1);
    if (kind == LOOKS_ITSELF)
        wait->sleeper = sleeper((int32_t)syscall(SYS_gettid), real_ns(CLOCK_MONOTONIC));
    uint32_t number = atomic_fetch_add(&waits, 1);
    wait->name = wait_name(program_kind, program_number, end == deadline ? number : number_of_prolonged());
    take_slot(wait, kind);
    if (!wait->slot)
        atomic_fetch_add(&event_page->figures.unlisted, 1);
    if (end != deadline)
        list_prolonged(wait, deadline);
}

void event_end(struct event_wait *wait)
{
    uint64_t token = wait->token;
    if (wait->is_listed)
        unlist_prolonged(wait);
    if (!wait->slot)
        return;
    if (wait->slot->token == token)
        wait->slot->deadline = INT64_MAX;
    atomic_compare_exchange_strong(&wait->slot->token, &token, 0);
    note_change(wait->slot);
    wait->slot = NULL;
}

void event_shorten(struct event_wait *wait, int64_t deadline)
{
    struct slot *slot = wait->slot;
    wait->deadline = deadline;
    if (!slot)
        return;
    /* The coordinator may free it just now, and another wait take it: that has another deadline. */
    int64_t before = slot->deadline;
    if (slot->token == wait->token && atomic_compare_exchange_strong(&slot->deadline, &before, deadline))
        note_change(slot);
}

void event_cancel(void *wait)
{
    event_end(wait);
}

struct timespec event_slice(struct event_wait *wait)
{
    if (!wait->slot)
        take_slot(wait, LOOKS_ITSELF);
    bool is_over = wait->slot && wait->slot->token == wait->token ? wait->slot->wake == TIME_IS_UP : event_now() >= wait->deadline;
    int64_t slice = is_over ? 0 : wait->slice;
    wait->slice = slice * 2 > LONGEST_LOOK ? LONGEST_LOOK : slice * 2;
    return timespec_of_ns(slice);
}

bool event_goes_on(struct event_wait *wait)
{
    bool is_last = wait->slice == 0;
    struct look *look = &event_page->looked[atomic_fetch_add(&event_page->looks, 1) % KEPT_LOOKS];
    look->sleeper = wait->sleeper;
    look->mono = (real_ns(CLOCK_MONOTONIC) & ~INT64_C(1)) | is_last;
    return !is_last;
}

/* ---- holding time ---- */

void event_hold_begin(struct event_hold *hold)
{
    hold->file = event_page ? open(page_path, O_RDWR | O_CLOEXEC) : -1;
    if (hold->file < 0)
        return;
    event_begin(&hold->slot, INT64_MAX, HOLDS_TIME);
    if (!hold->slot.slot)
        return;
    /* The lock ends with the process, so a killed one holds nothing. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = hold->slot.slot - event_page->slots, .l_len = 1};
    (void)fcntl(hold->file, F_OFD_SETLK, &lock);
    hold->slot.slot->deadline = 1;
    note_change(hold->slot.slot);
}

void event_hold_end(void *given)
{
    struct event_hold *hold = given;
    int error = errno;
    if (hold->file < 0)
        return;
    /* The lock first: the slot's next owner locks the same byte. */
    if (hold->slot.slot)
        hold->slot.slot->deadline = INT64_MAX;
    close(hold->file);
    event_end(&hold->slot);
    errno = error;
}

/* Waits while `wake` has this value, for `longest` at most. Returns 0 or EINTR. A cancellation point, as the waits themselves. */
static int sleep_on(_Atomic uint32_t *wake, uint32_t value, int64_t longest)
{
    struct timespec limit = timespec_of_ns(longest);
    int kept = errno;
    int type;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    long result = syscall(SYS_futex, wake, FUTEX_WAIT, value, &limit, NULL, 0);
    int error = result < 0 ? errno : 0;
    pthread_setcanceltype(type, NULL);
    errno = kept;
    return error == EINTR ? EINTR : 0;
}

/* For waits without a slot, which are not woken up. */
static _Atomic uint32_t nobody_wakes = ASLEEP;

struct sleep {
    struct event_wait wait;
    int error;
};

static void sleep_until_deadline(struct sleep *sleep)
{
    struct event_wait *wait = &sleep->wait;
    /* A signal may have been meant for the slot's former owner. The order matters: time is set before `wake`. */
    while (!sleep->error) {
        if (!wait->slot)
            take_slot(wait, WAITS_ON_FUTEX);
        if (wait->slot && wait->slot->token == wait->token)
            atomic_exchange(&wait->slot->wake, asleep(wait->token));
        if (event_now() >= wait->deadline)
            return;
        sleep->error = wait->slot ? sleep_on(&wait->slot->wake, asleep(wait->token), LONGEST_SLEEP)
                                  : sleep_on(&nobody_wakes, ASLEEP, LONGEST_LOOK);
    }
    if (event_now() >= wait->deadline)
        sleep->error = 0;
}

int event_sleep(int64_t deadline)
{
    struct sleep sleep = {.error = 0};
    event_begin(&sleep.wait, deadline, WAITS_ON_FUTEX);
    pthread_cleanup_push(event_cancel, &sleep.wait);
    sleep_until_deadline(&sleep);
    pthread_cleanup_pop(1);
    return sleep.error;
}

void event_count_reading(void)
{
    if (++readings < READINGS)
        return;
    readings = 0;
    const bool is_same_instant = event_now() == read_at; /* else the thread waits otherwise, without a limit */
    read_at = event_now();
    if (!is_same_instant || !event_stands())
        return;
    int state, error = errno;
    atomic_fetch_add(&event_page->figures.reader_steps, 1);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* reading a clock is no cancellation point */
    (void)event_sleep(event_now() + STEP_OF_READERS);
    pthread_setcancelstate(state, NULL);
    read_at = event_now();
    errno = error;
}

/* ---- condition variables ---- */

/*
 * A timed wait does not use the condition variable but a slot, which both the coordinator and a signal for the condition can end.
 * The waiter is listed before it unlocks the mutex, so no signal is lost. A signal ends all timed waits for its condition, and one
 * wait without a limit: more than needed, which callers have to expect (pthread_cond_timedwait(3)), and a waiter that is cancelled
 * takes no signal from another one.
 */
struct condition_wait {
    struct event_wait wait;
    pthread_cond_t *condition;
    pthread_mutex_t *mutex;
    int entry; /* -1: the list is full */
    bool is_signalled;
};

static unsigned int hash_of_condition(const pthread_cond_t *condition)
{
    return hash_of((uintptr_t)condition >> 3);
}

static void leave_list(struct condition_wait *waiter)
{
    if (waiter->entry < 0)
        return;
    atomic_fetch_sub(&waiters_by_hash[hash_of_condition(waiter->condition)], 1);
    condition_waiters[waiter->entry].condition = NULL;
    waiter->entry = -1;
}

static void enter_list(struct condition_wait *waiter)
{
    waiter->entry = -1;
    if (!waiter->wait.slot)
        return;
    for (int i = 0; i < CONDITION_WAITERS; i++) {
        pthread_cond_t *none = NULL;
        if (condition_waiters[i].condition || !atomic_compare_exchange_strong(&condition_waiters[i].condition, &none, reserved))
            continue;
        condition_waiters[i].slot = waiter->wait.slot;
        condition_waiters[i].condition = waiter->condition;
        waiter->entry = i;
        atomic_fetch_add(&waiters_by_hash[hash_of_condition(waiter->condition)], 1);
        return;
    }
}

static void end_cancelled(void *given)
{
    struct condition_wait *waiter = given;
    leave_list(waiter);
    event_end(&waiter->wait);
    pthread_mutex_lock(waiter->mutex);
}

static void wait_for_signal(struct condition_wait *waiter)
{
    if (waiter->entry < 0) { /* no signal finds this waiter: it looks again soon */
        sleep_on(&nobody_wakes, ASLEEP, LONGEST_LOOK);
        return;
    }
    const uint32_t value = asleep(waiter->wait.token);
    _Atomic uint32_t *wake = &waiter->wait.slot->wake;
    while (atomic_load(wake) == value && event_now() < waiter->wait.deadline)
        sleep_on(wake, value, LONGEST_SLEEP);
    waiter->is_signalled = atomic_load(wake) == SIGNALLED;
}

int event_wait_on(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline)
{
    struct condition_wait waiter = {.condition = condition, .mutex = mutex};
    event_begin(&waiter.wait, deadline, WAITS_ON_FUTEX);
    enter_list(&waiter);
    int error = pthread_mutex_unlock(mutex);
    if (error) {
        leave_list(&waiter);
        event_end(&waiter.wait);
        return error;
    }
    pthread_cleanup_push(end_cancelled, &waiter);
    wait_for_signal(&waiter);
    pthread_cleanup_pop(0);
    leave_list(&waiter);
    event_end(&waiter.wait);
    error = pthread_mutex_lock(mutex);
    return error || waiter.is_signalled || event_now() < deadline ? error : ETIMEDOUT;
}

static void wake_up(struct slot *slot)
{
    uint32_t value = slot->wake;
    if (value & ASLEEP && atomic_compare_exchange_strong(&slot->wake, &value, SIGNALLED))
        syscall(SYS_futex, &slot->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); /* as the coordinator does */
}

void event_signal(pthread_cond_t *condition)
{
    if (!event_page || waiters_by_hash[hash_of_condition(condition)] == 0)
        return;
    int error = errno;
    for (int i = 0; i < CONDITION_WAITERS; i++)
        if (condition_waiters[i].condition == condition)
            wake_up(condition_waiters[i].slot);
    errno = error;
}

/* ---- timers ---- */

/* As in the kernel, a timer that is late does not make up for the times that it has missed. */
static int64_t following_deadline(int64_t deadline, int64_t interval)
{
    int64_t now = event_now();
    if (interval == 0 || interval > INT64_MAX / 2 - deadline / 2)
        return 0;
    return deadline + interval * (1 + (now - deadline) / interval);
}

/* Calls the functions of the timers whose deadline is over. Returns the next deadline, or INT64_MAX if there is none. */
static int64_t fire_timers(void)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < TIMERS; i++) {
        int64_t deadline = timers[i].deadline;
        if (timers[i].key <= KEY_RESERVED)
            continue;
        if (deadline != 0 && deadline <= event_now()) {
            int64_t following = following_deadline(deadline, timers[i].interval);
            uintptr_t key = timers[i].key;
            void (*fire)(uintptr_t) = timers[i].fire;
            if (atomic_compare_exchange_strong(&timers[i].deadline, &deadline, following))
                fire(key);
            deadline = timers[i].deadline;
        }
        if (deadline != 0 && deadline < next)
            next = deadline;
    }
    return next;
}

/*
 * The thread has a slot only while there is a deadline: a process that ends cannot free it. While it has none, and no room for one,
 * it waits for `timers_changed`.
 */
static void *run_timers(void *unused)
{
    struct event_wait wait = {.slot = NULL};
    (void)unused;
    for (;;) {
        atomic_store(&timers_changed, ASLEEP);
        if (wait.slot && wait.slot->token == wait.token)
            atomic_store(&wait.slot->wake, asleep(wait.token));
        int64_t next = fire_timers();
        if (wait.slot && (next != wait.deadline || wait.slot->token != wait.token)) {
            timer_slot = NULL;
            event_end(&wait);
        }
        if (!wait.slot && next != INT64_MAX) {
            event_begin(&wait, next, WAITS_ON_FUTEX);
            timer_slot = wait.slot;
        }
        if (event_now() >= next || atomic_load(&timers_changed) != ASLEEP)
            continue;
        if (wait.slot)
            sleep_on(&wait.slot->wake, asleep(wait.token), LONGEST_SLEEP);
        else
            sleep_on(&timers_changed, ASLEEP, next == INT64_MAX ? LONGEST_SLEEP : LONGEST_LOOK);
    }
    return NULL;
}

static bool start_timer_thread(void)
{
    sigset_t all, before;
    pthread_t thread;
    if (atomic_exchange(&has_timer_thread, true))
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&thread, NULL, run_timers, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started)
        pthread_detach(thread);
    has_timer_thread = is_started;
    return is_started;
}

/*
 * Reserves an entry of `timers` if it has this key, or, with `any`, if it is unused or its timer has ended. Returns false if it
 * does not, or if another thread was faster.
 */
static bool reserve_timer(int entry, uintptr_t key, bool any)
{
    uintptr_t before = timers[entry].key;
    if (any ? before == KEY_RESERVED || (before != 0 && timers[entry].deadline != 0) : before != key)
        return false;
    return atomic_compare_exchange_strong(&timers[entry].key, &before, KEY_RESERVED);
}

bool event_timer(uintptr_t key, int64_t deadline, int64_t interval, void (*fire)(uintptr_t key))
{
    int entry = -1;
    for (int i = 0; i < TIMERS && entry < 0; i++)
        if (reserve_timer(i, key, false))
            entry = i;
    if (entry < 0 && deadline == 0)
        return true;
    for (int i = 0; i < TIMERS && entry < 0; i++)
        if (reserve_timer(i, key, true))
            entry = i;
    if (entry < 0)
        return false;
    if (!start_timer_thread()) {
        timers[entry].key = 0;
        return false;
    }
    timers[entry].deadline = 0;
    timers[entry].interval = interval;
    timers[entry].fire = fire;
    timers[entry].deadline = deadline;
    timers[entry].key = deadline ? key : 0;
    atomic_store(&timers_changed, SIGNALLED);
    syscall(SYS_futex, &timers_changed, FUTEX_WAKE, 1, NULL, NULL, 0);
    struct slot *slot = timer_slot;
    if (slot)
        wake_up(slot);
    return true;
}

int64_t event_timer_left(uintptr_t key, int64_t *interval)
{
    for (int i = 0; i < TIMERS; i++)
        if (timers[i].key == key) {
            int64_t deadline = timers[i].deadline;
            int64_t left = deadline - event_now();
            *interval = timers[i].interval;
            return deadline == 0 ? 0 : left > 0 ? left : 1;
        }
    *interval = 0;
    return 0;
}

/* ---- times of files ---- */

/* A point of the history, and the instants around a real one: `before` or `after` has real 0 if there is none. */
struct instants {
    int64_t real, virtual;
};

struct around {
    struct instants before, after;
};

static struct instants point_at(int history, off_t index)
{
    struct instants point = {0, 0};
    (void)!pread(history, &point, sizeof point, index * (off_t)sizeof point);
    return point;
}

/* Number of the first of `count` points that is after `real`; `count`: none is. */
static off_t first_after(int history, off_t count, int64_t real)
{
    off_t first = 0;
    off_t above = count;
    while (first < above) {
        off_t middle = first + (above - first) / 2;
        if (point_at(history, middle).real > real)
            above = middle;
        else
            first = middle + 1;
    }
    return first;
}

/* The points around `real` in the file. */
static struct around in_file(int64_t real)
{
    struct around around = {0};
    int history = open(history_path, O_RDONLY | O_CLOEXEC);
    off_t count = history < 0 ? 0 : lseek(history, 0, SEEK_END) / (off_t)sizeof around.before;
    off_t first = first_after(history, count, real);
    if (first > 0)
        around.before = point_at(history, first - 1);
    if (first < count)
        around.after = point_at(history, first);
    if (history >= 0)
        close(history);
    return around;
}

/*
 * The same among the last points, which are in the page. False if the one before `real` is not there, or was written over
 * meanwhile. One place is left out, which the coordinator may be writing.
 */
static bool in_page(int64_t real, struct around *around)
{
    uint64_t noted = event_page->noted;
    struct instants after = {0, 0};
    for (uint64_t number = noted; number > 0 && noted - number < KEPT_POINTS - 1; number--) {
        const struct noted_point *point = &event_page->points[(number - 1) % KEPT_POINTS];
        struct instants instants = {point->real, point->calendar};
        if (instants.real <= real) {
            *around = (struct around){instants, after};
            return event_page->noted - (number - 1) < KEPT_POINTS;
        }
        after = instants;
    }
    return false;
}

/* Instants between two points of the history, which do not change any more. `is_changing`: only one thread writes at a time. */
static struct {
    _Atomic int64_t real, virtual;
} known[KNOWN];
static atomic_flag is_changing = ATOMIC_FLAG_INIT;

static bool is_known(int64_t real, int64_t *virtual)
{
    unsigned int entry = hash_of((uint64_t)real);
    if (real == 0 || known[entry].real != real)
        return false;
    *virtual = known[entry].virtual;
    return known[entry].real == real;
}

static void keep(int64_t real, int64_t virtual)
{
    unsigned int entry = hash_of((uint64_t)real);
    if (atomic_flag_test_and_set(&is_changing))
        return;
    known[entry].real = 0;
    known[entry].virtual = virtual;
    known[entry].real = real;
    atomic_flag_clear(&is_changing);
}

int64_t event_instant_of(int64_t real, int64_t anchor_real, int64_t anchor_virtual)
{
    int64_t now = event_now();
    int64_t instant;
    real += FILE_TICK;
    if (is_known(real, &instant))
        return instant;
    struct around around;
    if (!in_page(real, &around))
        around = in_file(real);
    bool is_last = around.after.real == 0;
    if (around.before.real == 0)
        around.before = (struct instants){anchor_real, anchor_virtual};
    /*
     * Between two points of a clock with a driver time has mostly jumped. It is not known which files were written before a jump,
     * so none is dated too early. Without a driver points are further apart, and time is as fast as real time.
     */
    if (is_last)
        around.after = (struct instants){real_ns(CLOCK_REALTIME), now};
    int64_t since = around.after.real - real;
    instant = around.after.virtual - (since > STEP_OF_JUMPS ? since - STEP_OF_JUMPS : 0);
    if (instant < around.before.virtual)
        instant = around.before.virtual;
    if (!is_last)
        keep(real, instant);
    return instant < now ? instant : now;
}
