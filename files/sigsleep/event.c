/* The event-driven clock in sigsleep. event.h describes the functions, page.h the shared memory. */
#define _GNU_SOURCE
#include "event.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel.h"
#include "page.h"

bool on_event_clock;

static struct page *page;
static int page_file;
static const char *clock_path;
static struct slot *slot;
static uint64_t token;

/* A point of the history, and the anchor before the first one, ns. */
struct point {
    int64_t real, virtual;
};
static struct point first_point;

/* Opens the clock file's neighbour: the file of the same name and this suffix. */
static int open_neighbour(const char *suffix, int flags)
{
    size_t length = 0;

    while (clock_path[length] != '\0')
        length++;

    char path[length + sizeof ".history"];
    for (size_t i = 0; i < length; i++)
        path[i] = clock_path[i];
    for (size_t i = 0; i == 0 || suffix[i - 1] != '\0'; i++)
        path[length + i] = suffix[i];
    return (int)kernel(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0);
}

/*
 * The token is taken here, because the first access to a part of the page should write: a read maps 16 pages around it, which
 * count as memory of this process.
 */
long event_map(const char *clock_file, int64_t anchor_real, int64_t anchor_virtual)
{
    static const char magic[] = PAGE_MAGIC;
    char found[sizeof page->magic] = {0};

    clock_path = clock_file;
    first_point = (struct point){anchor_real, anchor_virtual};
    page_file = open_neighbour(".page", O_RDWR);
    if (page_file < 0)
        return page_file;
    kernel(SYS_pread64, page_file, (long)found, sizeof found, 0, 0);
    for (size_t i = 0; i < sizeof found; i++)
        if (found[i] != magic[i])
            return NOT_A_PAGE;
    if (kernel(SYS_lseek, page_file, 0, SEEK_END, 0, 0) < (long)sizeof *page)
        return NOT_A_PAGE;
    long mapped = kernel_with_six(SYS_mmap, 0, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, page_file, 0);
    if (mapped < 0 && mapped > -4096)
        return mapped;
    page = (struct page *)mapped;
    token = ++page->tickets;
    on_event_clock = true;
    return 0;
}

int64_t event_now(void)
{
    for (;;) {
        uint32_t latch = page->latch;
        const struct anchor *valid = &page->anchors[latch & 1];
        int64_t calendar = valid->calendar;
        int64_t limit = valid->limit;
        int64_t speed = valid->speed;
        int64_t since = clock_ns(CLOCK_MONOTONIC) - valid->mono;

        if (page->latch != latch)
            continue;
        return instant_after(calendar, speed, limit, since);
    }
}

static bool read_point(int history, int64_t index, struct point *point)
{
    return kernel(SYS_pread64, history, (long)point, sizeof *point, index * (int64_t)sizeof *point, 0) == sizeof *point;
}

/* Sets the last point at or before an instant, and the one after it, or one with real = 0. Without a history: the anchor. */
static void find_points(int history, int64_t real, struct point *before, struct point *after)
{
    int64_t above = kernel(SYS_lseek, history, 0, SEEK_END, 0, 0) / (int64_t)sizeof *before;
    int64_t first = 0;

    while (first < above) {
        int64_t middle = first + (above - first) / 2;
        struct point point = {0, 0};

        if (!read_point(history, middle, &point))
            return;
        if (point.real > real) {
            above = middle;
            *after = point;
        } else {
            first = middle + 1;
            *before = point;
        }
    }
}

int64_t event_time_at(int64_t real)
{
    struct point before = first_point, after = {0, 0};
    int history = open_neighbour(".history", O_RDONLY);

    if (history >= 0) {
        find_points(history, real, &before, &after);
        kernel(SYS_close, history, 0, 0, 0, 0);
    }
    wide since = (wide)real - before.real;
    if (after.real <= before.real)
        return clamp(before.virtual + since);
    return clamp(before.virtual + since * ((wide)after.virtual - before.virtual) / ((wide)after.real - before.real));
}

/* ---- the slot ---- */

static long lock_slot(int64_t index, short kind)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = index, .l_len = 1};

    return kernel(SYS_fcntl, page_file, F_SETLK, (long)&lock, 0, 0);
}

/* Sets *at to `to` if it is `from`. Writes in any case, see event_map. */
static bool exchange(_Atomic uint64_t *at, uint64_t from, uint64_t to)
{
    return atomic_compare_exchange_strong(at, &from, to);
}

static void note_change(void)
{
    page->versions[(slot - page->slots) / SLOTS_OF_A_BLOCK]++;
}

/*
 * The lock comes before the token, so that a slot with this token never lacks it: the coordinator takes a slot of this kind
 * without a lock for one of a process that was killed. Jobs use the upper half and other waits the first free slot, so that a job
 * does not have to pass these.
 */
long event_claim(void)
{
    for (int64_t i = 0; i < SLOTS; i++) {
        int64_t index = (SLOTS / 2 + i) % SLOTS;
        long error;

        slot = &page->slots[index];
        if (!exchange(&slot->token, 0, 0))
            continue;
        error = lock_slot(index, F_WRLCK);
        if (error == -EAGAIN || error == -EACCES)
            continue;
        if (error)
            return error;
        if (exchange(&slot->token, 0, token)) {
            slot->wake = ASLEEP;
            slot->deadline = NEVER;
            slot->kind = GETS_SIGALRM;
            note_change();
            return 0;
        }
        lock_slot(index, F_UNLCK);
    }
    return NO_SLOT;
}

bool event_set_deadline(int64_t deadline)
{
    if (slot->token != token) {
        lock_slot(slot - page->slots, F_UNLCK);
        if (event_claim() != 0)
            return false;
    }
    slot->wake = ASLEEP;
    slot->deadline = deadline;
    note_change();
    return true;
}

void event_release(void)
{
    if (slot->token != token)
        return;
    slot->deadline = NEVER;
    exchange(&slot->token, token, 0);
    note_change();
}
