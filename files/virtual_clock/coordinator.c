/*
 * clock_coordinator: lets the event-driven clock of an instance go on.
 *
 *   clock_coordinator FILE [FIELDS]
 *
 * FILE is the clock file; FILE.page is the page that all processes of the instance share (page.h), FILE.history a list of instants
 * on both clocks, FILE.wakes a record of the waits that were served in a run, and FILE.driver a file that the driver of the clock
 * locks. FIELDS are those of the kernel's tasks, as runnable.h has them; without them, or if the kernel refuses BPF programs, the
 * states of threads are read from /proc, unless FIELDS has those of the network, too.
 *
 * While a driver exists, time stops as long as a thread of the instance works, and jumps to the earliest deadline of a wait when
 * none does. Waits that end at the same instant are served one after another, each when what the one before caused has come to
 * rest, in an order that is the same in each run (page.h). Without a driver it runs as fast as real time. This process alone writes
 * the clock. If it is killed, time stops within LEASE of real time, and the next coordinator goes on from there.
 *
 * It runs as the instance's user. It trusts no value in the page, only that the page belongs to that user. It ignores SIGTERM,
 * which a service manager sends to all processes at a time: those that are about to end still need the clock. Exit codes: 0 ended
 * by SIGINT, 1 failed, 2 wrong use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "page.h"
#include "processor.h"
#include "runnable.h"
#include "threads.h"

#define SECOND INT64_C(1000000000)
#define MILLISECOND (SECOND / 1000)

#define AT_REST SECOND                 /* speed without a driver, in billionths */
#define STANDS 0                       /* with a driver: time passes by jumps only */
#define LEASE (100 * MILLISECOND)      /* real time for which the clock goes on without this process */
#define LONGEST_WAIT (5 * MILLISECOND) /* real time between two looks at the deadlines of an instance that works */
#define PATIENCE (100 * MILLISECOND)   /* real time that a waiter has to look itself: longer than LONGEST_LOOK */
#define HISTORY_STEP (50 * MILLISECOND)
#define VERIFY_AFTER SECOND /* real time of work without a pause after which the count of threads is compared with /proc */
#define NEVER_AFTER \
    (3000 * INT64_C(86400) * SECOND) /* virtual time: a deadline that is further away is ignored, as for "sleep infinity" */
#define END_OF_TIME (INT64_MAX - 365 * INT64_C(86400) * SECOND) /* in the year 2261: no jump goes further */
#define STOPPED_AFTER (20 * SECOND)                             /* real time for which the clock waits for a stopped daemon */
/*
 * Real time of steps that tell waiters, of jumps that wake nobody up, and of long steps: so much, less a part of the time for
 * which this process waits, then a pause. Any waiter can cause them.
 */
#define USELESS_AT_ONCE (10 * MILLISECOND)
#define PART_OF_WAITS 8
#define PAUSE (90 * MILLISECOND)
#define LONG_STEP MILLISECOND
#ifndef FORGET_AFTER
#define FORGET_AFTER (60 * SECOND) /* real time after which the slot of a waiter that has ended is free */
#endif

enum { POINT_SIZE = 16 }; /* of the history */

static struct page *page;
static struct runnable runnable;
static int page_file;
static ino_t page_number;
static int driver_file;
static int history_file;
static int wakes_file;
static volatile sig_atomic_t is_ending;

static void end(int signal_number)
{
    (void)signal_number;
    is_ending = 1;
}

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? now.tv_sec * SECOND + now.tv_nsec : -1;
}

__extension__ typedef __int128 wide;

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the clock ---- */

static struct {
    int64_t mono, calendar, speed; /* the anchor */
} clock_now;

/* The virtual instant at a real one, unless this process was halted for longer than LEASE. */
static int64_t calendar_at(int64_t mono)
{
    int64_t since = earlier(mono - clock_now.mono, LEASE);
    return clock_now.calendar + (since > 0 ? (int64_t)((wide)since * clock_now.speed / SECOND) : 0);
}

static void publish(int64_t mono, int64_t calendar, int64_t speed)
{
    uint32_t next = atomic_load(&page->latch) + 1;
    struct anchor *anchor = &page->anchors[next & 1];
    anchor->mono = mono;
    anchor->calendar = calendar;
    anchor->speed = speed;
    anchor->limit = calendar + (int64_t)((wide)LEASE * speed / SECOND);
    atomic_store(&page->latch, next);
    clock_now.mono = mono;
    clock_now.calendar = calendar;
    clock_now.speed = speed;
}

/* Where the last coordinator, or the one that made the page, has left the clock. */
static int64_t last_instant(void)
{
    const struct anchor *anchor = &page->anchors[atomic_load(&page->latch) & 1];
    int64_t since = read_clock(CLOCK_MONOTONIC) - anchor->mono;
    int64_t passed = anchor->limit > anchor->calendar ? anchor->limit - anchor->calendar : 0;
    if (since >= 0 && (wide)since * anchor->speed / SECOND < passed)
        passed = (int64_t)((wide)since * anchor->speed / SECOND);
    return anchor->calendar + passed;
}

/* Notes an instant on both clocks for conversions of real instants: in the file, then in the page. */
static void note_history(int64_t calendar)
{
    int64_t point[2] = {read_clock(CLOCK_REALTIME), calendar};
    uint64_t number = page->noted;
    _Static_assert(sizeof point == POINT_SIZE, "the format is fixed");
    (void)!write(history_file, point, sizeof point);
    page->points[number % KEPT_POINTS].real = point[0];
    page->points[number % KEPT_POINTS].calendar = point[1];
    page->noted = number + 1;
}

/* ---- the record of wakes ---- */

enum { WAKES_OF_A_BLOCK = 100 };

/*
 * Adds a wait that is served to the record of the run: its instant in ms since the run's start, its kind of program, and the number
 * of its node. The file has, for each WAKES_OF_A_BLOCK of them, the instant of the last and a hash of all so far, so that two runs
 * can be compared. What differs between equal runs is left out: numbers of jobs and of waits, programs that are no daemons or jobs,
 * and how many waits of a program end within a millisecond.
 */
static void note_wake(int64_t deadline, uint64_t name)
{
    static int64_t last_instant;
    static uint64_t last_program;
    int64_t origin = page->origin;
    uint64_t program = name >> 60 == OF_JOB ? OF_JOB : name >> 32;
    if (origin == 0 || deadline < origin || name >> 60 == OF_OTHERS)
        return;
    int64_t instant = (deadline - origin + MILLISECOND / 2) / MILLISECOND;
    if (page->wakes > 0 && instant == last_instant && program == last_program)
        return;
    last_instant = instant;
    last_program = program;
    uint64_t hash = (page->fingerprint ^ (uint64_t)instant) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 29 ^ program) * UINT64_C(0xBF58476D1CE4E5B9);
    page->fingerprint = hash;
    if (++page->wakes % WAKES_OF_A_BLOCK)
        return;
    int64_t block[2] = {instant, (int64_t)hash};
    _Static_assert(sizeof block == POINT_SIZE, "the format is fixed");
    (void)!write(wakes_file, block, sizeof block);
}

/* ---- waits ---- */

/*
 * Of each block of slots: the version that was read, and the earliest deadline that has not been reached. Of the blocks of a group:
 * the earliest of these, and whether all were read, and none has a deadline that was reached.
 */
enum { BLOCKS_OF_A_GROUP = 64, GROUPS = BLOCKS / BLOCKS_OF_A_GROUP };
static uint32_t read_versions[BLOCKS];
static struct {
    bool is_read, has_reached;
    int64_t earliest;
} blocks[BLOCKS];
static struct {
    bool is_done;
    int64_t earliest;
} groups[GROUPS];

/*
 * Of each slot whose deadline was reached: its token, since when and when it was last seen so (real monotonic ns). `waited` is the
 * real time between, of which a halt of the whole machine is not a part: after one, a waiter's timer may be later than this
 * process.
 */
static struct {
    uint64_t token;
    int64_t deadline, since, seen, waited;
    bool is_told, is_given_up;
} reached[SLOTS];

static bool is_held;  /* time must not jump: a waiter has not looked at the clock yet, or a process holds it */
static bool has_told; /* a waiter was told in this step of the loop, and may have registered another deadline since */

/* Of the waits whose deadline is reached and whose waiters were not told, the one whose turn it is; number -1: none. */
static struct {
    int number;
    uint64_t token, name;
    int64_t deadline;
} next_served;

/* Whether a byte of a file is locked; *process is the one that has locked it, or -1 for a lock of an open file description. */
static bool is_locked(int file, int byte, pid_t *process)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    bool found = fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    *process = lock.l_pid;
    return found;
}

/* Returns the process that has locked the byte of this slot, 0: none. */
static pid_t holder(int number)
{
    pid_t process;
    return is_locked(page_file, number, &process) && process > 0 ? process : 0;
}

/* The slot may have another owner already, whose deadline is kept. */
static void free_slot(struct slot *slot, uint64_t token, int64_t deadline)
{
    if (slot->token == token && atomic_compare_exchange_strong(&slot->deadline, &deadline, INT64_MAX))
        atomic_compare_exchange_strong(&slot->token, &token, 0);
}

/* Tells the waiter of a slot that its deadline is reached. */
static void tell(struct slot *slot, int number, uint64_t token, int64_t deadline)
{
    uint32_t sleeping = asleep(token);
    uint32_t kind = slot->kind;
    pid_t process;
    has_told = true;
    runnable.tells(true);
    switch (kind) {
    case WAITS_ON_FUTEX:
        /*
         * The system call in any case: a former coordinator may have been killed before it. It wakes up all who sleep there: a
         * thread whose slot was freed may sleep on, and another one has the slot now.
         */
        atomic_compare_exchange_strong(&slot->wake, &sleeping, TIME_IS_UP);
        (void)syscall(SYS_futex, &slot->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        break;
    case GETS_SIGALRM:
        process = holder(number);
        if (process)
            (void)kill(process, SIGALRM);
        else
            free_slot(slot, token, deadline);
        break;
    case LOOKS_ITSELF:
        atomic_compare_exchange_strong(&slot->wake, &sleeping, TIME_IS_UP);
        break;
    default:
        break;
    }
    runnable.tells(false);
}

static bool has_order; /* waits are served one after another; else, while time passes by itself, all at once */

/* Whether a wait comes before the one whose turn it is so far: by deadline, name, and the instant of its beginning. */
static bool is_before(uint64_t token, int64_t deadline, uint64_t name)
{
    if (next_served.number < 0)
        return true;
    if (deadline != next_served.deadline)
        return deadline < next_served.deadline;
    return name != next_served.name ? name < next_served.name : token < next_served.token;
}

/* Tells the waiter whose turn it is, if any. */
static void serve_next(void)
{
    int number = next_served.number;
    if (number < 0)
        return;
    next_served.number = -1;
    reached[number].is_told = true;
    reached[number].since = reached[number].seen = read_clock(CLOCK_MONOTONIC);
    reached[number].waited = 0;
    note_wake(next_served.deadline, next_served.name);
    tell(&page->slots[number], number, next_served.token, next_served.deadline);
}

/* Handles a slot whose deadline is reached. */
static void note_reached(struct slot *slot, int number, uint64_t token, int64_t deadline, int64_t mono)
{
    if (slot->kind == HOLDS_TIME) {
        pid_t process;
        if (is_locked(page_file, number, &process))
            is_held = true;
        else
            free_slot(slot, token, deadline);
        return;
    }
    if (reached[number].token != token || reached[number].deadline != deadline) {
        reached[number].token = token;
        reached[number].deadline = deadline;
        reached[number].since = reached[number].seen = mono;
        reached[number].waited = 0;
        reached[number].is_told = reached[number].is_given_up = false;
    }
    reached[number].waited += earlier(mono - reached[number].seen, LONGEST_WAIT);
    reached[number].seen = mono;
    if (!reached[number].is_told) {
        if (has_order) {
            uint64_t name = slot->name;
            if (is_before(token, deadline, name)) {
                next_served.number = number;
                next_served.token = token;
                next_served.deadline = deadline;
                next_served.name = name;
            }
            return;
        }
        reached[number].is_told = true;
        tell(slot, number, token, deadline);
    }
    if (mono - reached[number].since > FORGET_AFTER && (slot->kind != GETS_SIGALRM || !holder(number)))
        free_slot(slot, token, deadline);
    if (slot->kind != LOOKS_ITSELF || reached[number].is_given_up)
        return;
    if (reached[number].waited > PATIENCE && !runnable.any()) { /* it is stopped, or has been killed */
        reached[number].is_given_up = true;
        page->figures.given_up++;
    } else {
        is_held = true;
    }
}

/* Reads a block's slots; notes those whose deadline is reached. */
static void read_block(int block, int64_t now, int64_t mono)
{
    read_versions[block] = page->versions[block];
    blocks[block].is_read = true;
    blocks[block].has_reached = false;
    blocks[block].earliest = INT64_MAX;
    for (int number = block * SLOTS_OF_A_BLOCK; number < (block + 1) * SLOTS_OF_A_BLOCK; number++) {
        struct slot *slot = &page->slots[number];
        uint64_t token = slot->token;
        int64_t deadline = slot->deadline;
        if (token == 0)
            continue;
        if (deadline > now) {
            if (deadline - now < NEVER_AFTER && deadline < END_OF_TIME)
                blocks[block].earliest = earlier(blocks[block].earliest, deadline);
            continue;
        }
        note_reached(slot, number, token, deadline, mono);
        blocks[block].has_reached = true;
    }
}

/* Reads those blocks of a group that have changed, or have a deadline that is reached. */
static void look_at_group(int group, int64_t now, int64_t mono)
{
    int64_t earliest = INT64_MAX;
    groups[group].is_done = true;
    for (int block = group * BLOCKS_OF_A_GROUP; block < (group + 1) * BLOCKS_OF_A_GROUP; block++) {
        if (!blocks[block].is_read || blocks[block].has_reached || read_versions[block] != page->versions[block] ||
            blocks[block].earliest <= now)
            read_block(block, now, mono);
        earliest = earlier(earliest, blocks[block].earliest);
        groups[group].is_done &= !blocks[block].has_reached;
    }
    groups[group].earliest = earliest;
}

/* Whether a block of the group has changed since it was read: most groups have no slot in use, and this is asked at each step. */
static bool has_changed(int group)
{
    int first = group * BLOCKS_OF_A_GROUP;
    atomic_thread_fence(memory_order_seq_cst);
    return memcmp((const void *)&page->versions[first], &read_versions[first], BLOCKS_OF_A_GROUP * sizeof *read_versions) != 0;
}

/* Notes all waits whose deadline is reached; returns the earliest deadline of the others. */
static int64_t look_at_waits(int64_t now, int64_t mono)
{
    int64_t earliest = INT64_MAX;
    is_held = false;
    has_told = false;
    next_served.number = -1;
    for (int group = 0; group < GROUPS; group++) {
        if (!groups[group].is_done || groups[group].earliest <= now || has_changed(group))
            look_at_group(group, now, mono);
        earliest = earlier(earliest, groups[group].earliest);
    }
    return earliest;
}

/*
 * Waits without a slot: takes their deadline into account, and returns whether time has to stand for them. When it is reached, all
 * of them look within LONGEST_LOOK whether they are over, and announce their deadlines again.
 */
static bool wait_for_overflow(int64_t now, int64_t mono, int64_t *earliest)
{
    static int64_t until; /* real instant */
    int64_t deadline = page->overflow;
    if (deadline <= now) {
        if (atomic_compare_exchange_strong(&page->overflow, &deadline, INT64_MAX))
            until = mono + 2 * LONGEST_LOOK;
    } else {
        *earliest = earlier(*earliest, deadline);
    }
    return mono < until;
}

/* ---- driver and holder ---- */

/* Bytes of FILE.driver that a process locks: the driver, and one for which time has to wait although nothing works. */
enum { DRIVER, HOLDER };

static bool has(int which)
{
    pid_t process;
    return is_locked(driver_file, which, &process);
}

/* ---- false quiets ---- */

enum { KEPT_JUMPS = 16384, ANY_THREAD = 0 };
enum { UNWRITTEN = 64 }; /* most looks that are written at one time */

/* The last jumps: number N at N % KEPT_JUMPS. The real instant at which each was decided; its virtual length, 0: it was false. */
static struct {
    int64_t mono, length;
} jumps[KEPT_JUMPS];
static uint64_t jump_count;

static void note_jump(int64_t mono, int64_t length)
{
    uint64_t oldest = jump_count % KEPT_JUMPS;
    if (mono - jumps[oldest].mono <= LONGEST_UNDER_WAY) /* the next one stands for both */
        jumps[(oldest + 1) % KEPT_JUMPS].length += jumps[oldest].length;
    jumps[oldest].mono = mono;
    jumps[oldest].length = length;
    jump_count++;
}

static void forget_jumps(void)
{
    if (jump_count > 0)
        runnable.jumps(0);
    memset(jumps, 0, (jump_count < KEPT_JUMPS ? jump_count : KEPT_JUMPS) * sizeof *jumps);
    jump_count = 0;
}

/*
 * Returns how much time passed in the jumps after `since` and before `until` that have not been counted as false; `only_last`: in
 * the last of them. With `takes_them` they are counted now.
 */
static int64_t jumped(int64_t since, int64_t until, bool only_last, bool takes_them)
{
    int64_t sum = 0;
    for (uint64_t left = jump_count; left > 0 && jump_count - left < KEPT_JUMPS; left--) {
        uint64_t number = (left - 1) % KEPT_JUMPS;
        if (jumps[number].mono <= since)
            break;
        if (jumps[number].mono > until)
            continue;
        sum += jumps[number].length;
        if (takes_them)
            jumps[number].length = 0;
        if (only_last)
            break;
    }
    return sum;
}

/*
 * Whether that thread, woken up after the first and until the second real instant, has looked at the clock then. ANY_THREAD:
 * whether the last look of one was then.
 */
static bool has_looked(pid_t thread, int64_t after, int64_t mono)
{
    uint64_t looks = page->looks;
    int old = 0;
    for (uint64_t age = 1; age <= KEPT_LOOKS && age <= looks; age++) {
        const struct look *look = &page->looked[(looks - age) % KEPT_LOOKS];
        int64_t looked = look->mono;
        uint64_t sleeper = look->sleeper;
        if (looked < after - LONGEST_UNDER_WAY) { /* so are those before, or a thread is just writing this one */
            if (++old > UNWRITTEN)
                return false;
            continue;
        }
        bool is_its = thread != ANY_THREAD ? sleeping_thread(sleeper) == thread : looked % 2 != 0 && looked <= mono + PATIENCE;
        if (is_its && sleeping_since(sleeper) <= mono && after <= looked)
            return true;
    }
    return false;
}

/*
 * Whether a thread that was woken up has only looked at the clock; to be asked when nothing works. Emulated nodes are in process id
 * namespaces, where a thread knows only its innermost id, which a thread of another node may have too. Of one that has ended that
 * id is not known.
 */
static bool was_a_look(const struct surprise *found)
{
    int64_t after = found->is_unseen ? found->mono - LONGEST_LOOK : found->mono;
    if (has_looked(found->thread, after, found->mono))
        return true;
    pid_t innermost = innermost_id(found->thread);
    return innermost != found->thread && has_looked(innermost ? innermost : ANY_THREAD, after, found->mono);
}

/*
 * Counts the jumps that were made while what has woken a thread up was under way, each of them once; to be asked when nothing
 * works. A program that does not use the clock waits in real time, for timers of its own as well, and what comes from outside was
 * not under way in the instance: of these only the last jump counts, and only if nothing worked. `noted`: number of surprises
 * before it was known that nothing works; a thread that was woken up since then has not looked at the clock yet.
 */
static void count_false_quiets(uint64_t noted)
{
    struct surprise found;
    while (runnable.next_surprise(&found, noted)) {
        if (jumped(found.since, found.mono, false, false) == 0 || (found.thread && was_a_look(&found)))
            continue;
        bool only_last = found.is_outside || (found.thread && !has_mapped(found.thread, page_number));
        int64_t lost = only_last && !found.is_first ? 0 : jumped(found.since, found.mono, only_last, true);
        if (lost == 0)
            continue;
        page->figures.false_quiets++;
        page->figures.false_jumped += lost;
    }
}

/* ---- the loop ---- */

/* What a step of the loop hands on to the next one. Instants are real ones (CLOCK_MONOTONIC, ns) unless they are called virtual. */
struct loop {
    int64_t mono, calendar;          /* the instant of this step, and the virtual one then */
    bool is_driven, was_driven;      /* a driver exists, existed in the last step */
    int64_t quiet;                   /* instant of the next jump, if nothing works */
    int64_t noted;                   /* instant of the last step that noted the history */
    int32_t scheduler;               /* process of the scheduler in the last step */
    int64_t scheduler_used;          /* processor time of that process; -1: not known */
    int64_t useless;                 /* real time of work that was of no use, as for `pause_after` */
    int64_t working_since, verified; /* since when something works, 0: it does not; when `verify` last compared */
    bool is_stopped_ignored;         /* stopped daemons did not work then */
};

/* Lets other processes have the processor after so much real time of work that was of no use: this one has precedence over them. */
static void pause_after(struct loop *loop, int64_t spent, int64_t waited)
{
    const struct timespec pause = {.tv_nsec = PAUSE};
    loop->useless += spent - waited / PART_OF_WAITS;
    loop->useless = loop->useless > 0 ? loop->useless : 0;
    if (loop->useless < USELESS_AT_ONCE)
        return;
    nanosleep(&pause, NULL);
    loop->useless = 0;
}

/* Compares the count of working threads with /proc if it has not been 0 for long. */
static void verify(struct loop *loop, bool works)
{
    if (!works) {
        loop->working_since = 0;
        if (loop->is_stopped_ignored) /* wait for the next one that is stopped */
            runnable.verify(false);
        loop->is_stopped_ignored = false;
        return;
    }
    if (loop->working_since == 0)
        loop->working_since = loop->verified = loop->mono;
    if (loop->mono - loop->verified < VERIFY_AFTER)
        return;
    loop->is_stopped_ignored = loop->mono - loop->working_since > STOPPED_AFTER;
    runnable.verify(loop->is_stopped_ignored);
    loop->verified = read_clock(CLOCK_MONOTONIC);
}

/* Processor time of the scheduler since the last step, in ns. */
static int64_t scheduler_time(struct loop *loop)
{
    int32_t process = page->scheduler;
    int64_t used = process > 0 ? read_clock((clockid_t)(~(unsigned int)process << 3 | 2)) : -1; /* clock_getcpuclockid(3) */
    int64_t since = used >= 0 && process == loop->scheduler && used > loop->scheduler_used ? used - loop->scheduler_used : 0;
    loop->scheduler = process;
    loop->scheduler_used = used;
    return since;
}

/* Lets the clock go on since the last step, and publishes it. */
static void go_on(struct loop *loop)
{
    int64_t mono = read_clock(CLOCK_MONOTONIC);
    int64_t calendar = calendar_at(mono);
    int64_t charged = scheduler_time(loop);
    if (loop->is_driven && loop->was_driven) {
        page->figures.scheduled += charged;
        if (page->charge) {
            calendar += charged;
            page->figures.charged += charged;
        }
        page->figures.driven += calendar - loop->calendar;
        page->figures.driven_real += mono - loop->mono;
    }
    if (loop->is_driven && clock_now.speed > STANDS) /* a process may have read this time: a slower clock must not show less */
        calendar = page->anchors[atomic_load(&page->latch) & 1].limit;
    int64_t leap = loop->is_driven ? page->leap : 0;
    if (leap != 0) {
        page->leap = 0;
        if (leap > calendar && leap - calendar < NEVER_AFTER && leap < END_OF_TIME)
            calendar = leap;
    }
    publish(mono, calendar, loop->is_driven ? STANDS : AT_REST);
    loop->mono = mono;
    loop->calendar = calendar;
}

/* Serves the wait whose turn it is; what wakes nobody up is of no use. */
static void serve(struct loop *loop)
{
    serve_next(); /* the next look sees who is woken up */
    if (runnable.mode == BY_BPF && !runnable.any())
        pause_after(loop, read_clock(CLOCK_MONOTONIC) - loop->mono, 0);
}

/* Lets the clock jump to the earliest deadline. */
static void jump(struct loop *loop, int64_t earliest)
{
    /* Time has passed since the step's instant: after a jump from there it would be later than `earliest` already. */
    int64_t mono = read_clock(CLOCK_MONOTONIC);
    int64_t length = earliest - calendar_at(mono);
    if (length <= 0)
        return;
    note_jump(loop->quiet, length);
    page->figures.jumps++;
    page->figures.jumped += length;
    publish(mono, earliest, STANDS);
    (void)look_at_waits(earliest, mono);
    serve(loop);
}

/* Waits until the next step may have something to do. */
static void wait_for_change(struct loop *loop, int64_t earliest, bool works)
{
    verify(loop, works);
    bool comes_by_itself = earliest != INT64_MAX && clock_now.speed > STANDS;
    int64_t until_deadline =
        comes_by_itself ? (int64_t)((wide)(earliest - loop->calendar) * SECOND / clock_now.speed) + 1 : LONGEST_WAIT;
    int64_t since = read_clock(CLOCK_MONOTONIC);
    runnable.wait(earlier(LONGEST_WAIT, is_held ? MILLISECOND : until_deadline), works);
    int64_t until = read_clock(CLOCK_MONOTONIC);
    pause_after(loop, 0, until - since);
    if (loop->is_driven && works)
        page->figures.busy += until - loop->mono;
}

/* Publishes the time, serves the waits whose deadline is reached, then jumps to the earliest other deadline, or waits. */
static void step(struct loop *loop)
{
    loop->was_driven = loop->is_driven;
    loop->is_driven = has(DRIVER);
    uint64_t wakeups = runnable.wakeups();
    bool works = loop->is_driven && runnable.any();
    /*
     * What sleeps now began to wait before this instant, although perhaps after the step's. The programs know it before it is
     * decided whether time jumps: what is woken up after that decision has been woken up after the jump.
     */
    if (loop->is_driven && !works) {
        loop->quiet = read_clock(CLOCK_MONOTONIC);
        runnable.jumps(loop->quiet);
    }
    /* A coordinator that reads /proc computes while the scheduler works. */
    share_processor(loop->is_driven && runnable.mode == BY_BPF ? page->scheduler : 0, loop->mono);
    go_on(loop); /* after what may take long */
    has_order = loop->is_driven;
    int64_t earliest = look_at_waits(loop->calendar, loop->mono);
    if (wait_for_overflow(loop->calendar, loop->mono, &earliest) || has(HOLDER))
        is_held = true;
    if (loop->is_driven != loop->was_driven || (loop->is_driven && loop->mono - loop->noted >= HISTORY_STEP)) {
        note_history(loop->calendar);
        loop->noted = loop->mono;
    }
    int64_t spent = read_clock(CLOCK_MONOTONIC) - loop->mono;
    if (has_told || spent > LONG_STEP)
        pause_after(loop, spent, 0);
    if (has_told)
        return;
    /* If nothing works, the deadlines are complete: what has been waiting since before they were read still waits. */
    uint64_t surprises = runnable.surprises();
    bool is_quiet = !loop->is_driven || (!works && !runnable.any() && runnable.wakeups() == wakeups);
    if (!loop->is_driven)
        forget_jumps();
    if (is_quiet) {
        count_false_quiets(surprises);
        verify(loop, false);
    }
    if (is_quiet && !is_held && next_served.number >= 0)
        serve(loop);
    else if (is_quiet && loop->is_driven && !is_held && earliest != INT64_MAX)
        jump(loop, earliest);
    else
        wait_for_change(loop, earliest, works || (loop->is_driven && runnable.any()));
}

static void coordinate(void)
{
    struct loop loop = {.mono = read_clock(CLOCK_MONOTONIC)};
    loop.calendar = last_instant();
    publish(loop.mono, loop.calendar, AT_REST);
    note_history(loop.calendar);
    share_processor(page->scheduler, loop.mono); /* a killed coordinator may have left it bound */
    while (!is_ending)
        step(&loop);
    share_processor(0, loop.mono);
    note_history(calendar_at(read_clock(CLOCK_MONOTONIC)));
}

/* ---- set-up ---- */

static int fail(const char *what, const char *file)
{
    (void)fprintf(stderr, "clock coordinator: %s: %s: %s\n", file, what, strerror(errno));
    return 1;
}

static int open_beside(const char *file, const char *suffix, int flags)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s%s", file, suffix) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static bool map_page(void)
{
    struct stat status;
    if (fstat(page_file, &status) != 0)
        return false;
    errno = EINVAL;
    if (status.st_size < (off_t)sizeof *page)
        return false;
    page_number = status.st_ino;
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, page_file, 0);
    if (page == MAP_FAILED)
        return false;
    errno = EINVAL;
    return memcmp(page->magic, PAGE_MAGIC, sizeof page->magic) == 0;
}

int main(int argc, char **argv)
{
    struct sigaction ends = {.sa_handler = end};
    struct stat status;
    if (argc < 2 || argc > 3) {
        (void)fprintf(stderr, "usage: clock_coordinator FILE [FIELDS]\n");
        return 2;
    }
    (void)signal(SIGTERM, SIG_IGN);
    (void)sigaction(SIGINT, &ends, NULL);
    (void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    page_file = open_beside(argv[1], ".page", O_RDWR);
    if (page_file < 0 || !map_page())
        return fail("page", argv[1]);
    history_file = open_beside(argv[1], ".history", O_WRONLY | O_APPEND | O_CREAT);
    if (history_file < 0)
        return fail("history", argv[1]);
    if (flock(history_file, LOCK_EX | LOCK_NB) != 0) {
        (void)fprintf(stderr, "clock coordinator: %s: another coordinator serves this clock\n", argv[1]);
        return 1;
    }
    if (fstat(history_file, &status) != 0 || ftruncate(history_file, status.st_size / POINT_SIZE * POINT_SIZE) != 0)
        return fail("history", argv[1]);
    wakes_file = open_beside(argv[1], ".wakes", O_WRONLY | O_APPEND | O_CREAT);
    if (wakes_file < 0)
        return fail("wakes", argv[1]);
    driver_file = open_beside(argv[1], ".driver", O_RDWR | O_CREAT);
    if (driver_file < 0)
        return fail("driver", argv[1]);
    const char *refused =
        argc > 2 && argv[2][0] ? runnable_by_bpf(&runnable, getuid(), argv[2]) : "the fields of tasks are not given";
    if (refused && argc > 2 && strstr(argv[2], "network")) {
        (void)fprintf(stderr, "clock coordinator: threads of other accounts are seen by BPF only: %s: %s\n", refused,
                      strerror(errno));
        return 1;
    }
    if (refused) {
        (void)fprintf(stderr, "clock coordinator: reads /proc: %s: %s\n", refused,
                      argc > 2 && argv[2][0] ? strerror(errno) : "slower");
        runnable_by_scan(&runnable, getuid());
    }
    page->figures.mode = runnable.mode;
    page->figures.starts++;
    page->figures.started = read_clock(CLOCK_REALTIME);
    coordinate();
    return 0;
}
