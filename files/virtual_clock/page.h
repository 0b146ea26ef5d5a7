/*
 * The memory that all processes of an instance share on the event-driven clock: the file FILE.page beside the clock file FILE.
 * README.md describes the clock. All numbers are little-endian; instants and lengths are in ns.
 */
#ifndef PAGE_H
#define PAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_MAGIC "mirageP1"

enum { SLOTS = 65536, SLOTS_OF_A_BLOCK = 64, BLOCKS = SLOTS / SLOTS_OF_A_BLOCK };

/* How the end of a wait reaches the waiter. */
enum {
    WAITS_ON_FUTEX = 1, /* the coordinator sets `wake` and calls FUTEX_WAKE */
    LOOKS_ITSELF = 2,   /* the coordinator sets `wake`; the waiter looks at it at least each LONGEST_LOOK */
    GETS_SIGALRM = 3,   /* the coordinator sends SIGALRM to the process that has a write lock (fcntl(2)) on byte SLOT of the file */
};

/* Not a wait: time does not jump while a process has a lock of an open file description (F_OFD_SETLK) on byte SLOT of the file. */
enum { HOLDS_TIME = 4 };

/*
 * Values of `wake`. While the slot's owner sleeps it is `asleep(token)`. An owner may be stopped for so long that its slot gets
 * another owner: the token keeps it from sleeping on, and from being woken up instead of the new owner.
 */
enum { TIME_IS_UP = 1, SIGNALLED = 2 };
#define ASLEEP UINT32_C(0x80000000)

static inline uint32_t asleep(uint64_t token)
{
    return (uint32_t)token | ASLEEP;
}

/* A thread, and the real instant (CLOCK_MONOTONIC, ns) at which its wait began, to a microsecond. */
enum { THREAD_BITS = 22, KEPT_LOOKS = 4096 }; /* PID_MAX_LIMIT of Linux */

static inline uint64_t sleeper(int32_t thread, int64_t mono)
{
    return (uint64_t)(mono / 1000) << THREAD_BITS | (uint32_t)thread;
}

static inline int32_t sleeping_thread(uint64_t sleeper)
{
    return (int32_t)(sleeper & ((UINT64_C(1) << THREAD_BITS) - 1));
}

/* The start of the wait, rounded down. */
static inline int64_t sleeping_since(uint64_t sleeper)
{
    return (int64_t)(sleeper >> THREAD_BITS) * 1000;
}

#define LONGEST_LOOK (8 * INT64_C(1000000))

/* At real instant `mono` (CLOCK_MONOTONIC) the virtual calendar shows `calendar`; it runs at speed / 10^9 and stops at `limit`. */
struct anchor {
    _Atomic int64_t mono, calendar, speed, limit;
};

struct slot {
    _Alignas(32) _Atomic uint64_t token; /* of its owner; 0: free */
    _Atomic int64_t deadline;            /* on the virtual calendar; INT64_MAX: none */
    _Atomic uint32_t wake;               /* a futex */
    _Atomic uint32_t kind;
    _Atomic uint64_t name; /* the same in each run: of the waiting program, and which of its waits this is (`wait_name`) */
};

/* The order in which waits that end at the same instant are served, before the number of the node or job and that of the wait. */
enum { OF_CONTROLLER, OF_NODE, OF_STEP, OF_OTHERS, OF_JOB };

static inline uint64_t wait_name(uint32_t kind_of_program, uint32_t number, uint32_t wait)
{
    return (uint64_t)kind_of_program << 60 | (uint64_t)(number & 0xFFFFFFF) << 32 | wait;
}

/* A look at the clock by a waiter that looks itself: it was woken up by the end of a part of its wait, not by what it waits for. */
struct look {
    _Atomic uint64_t sleeper; /* the thread, and when its wait began (`sleeper`) */
    _Atomic int64_t mono;     /* real instant (CLOCK_MONOTONIC, ns) after its wake-up; odd: the wait ended with this look */
};

/* A point of the history: the same instant on both clocks, in ns since the epoch. */
struct noted_point {
    _Atomic int64_t real, calendar;
};

/* The last points are in the page, too, so that the times of most files are found without a system call: number N at N % KEPT. */
enum { KEPT_POINTS = 128 };

struct page {
    char magic[8];
    _Atomic int64_t uptime_offset; /* the virtual calendar minus the virtual monotonic clock */
    /*
     * The latch selects the anchor that is not being written (odd: the second one), so that a coordinator that is killed at any
     * instant leaves a complete one.
     */
    _Atomic uint32_t latch, padding;
    _Alignas(32) struct anchor anchors[2];
    _Atomic uint64_t tickets; /* the last token */
    _Atomic uint64_t looks;   /* wake-ups of waiters that look themselves */
    _Alignas(128) struct {
        _Atomic int64_t jumps, jumped;              /* number, virtual ns */
        _Atomic int64_t busy;                       /* real ns in which the instance worked, while a driver existed */
        _Atomic int64_t false_quiets, false_jumped; /* wake-ups that jumps did not foresee; virtual ns of these jumps */
        _Atomic int64_t mode;                       /* 1: BPF; 2: scans of /proc */
        _Atomic int64_t driven, driven_real;        /* virtual and real ns, while a driver existed */
        _Atomic int64_t started, starts;            /* of coordinators: when the last one did (since the epoch), number */
        _Atomic int64_t given_up;                   /* waits that did not end at their deadline */
        _Atomic int64_t charged;                    /* virtual ns for the scheduler's processor time */
        _Atomic int64_t unlisted;     /* waits that began while all slots were taken: the clock did not know their ends */
        _Atomic int64_t scheduled;    /* processor ns of the scheduler, while a driver existed */
        _Atomic int64_t reader_steps; /* steps of time for programs that wait by reading the clock */
        _Atomic int64_t left_out;     /* cycles of the scheduler that could decide nothing new (idle_cycles.c) */
    } figures;
    _Alignas(256) _Atomic int32_t scheduler; /* process id of the scheduler's daemon */
    _Atomic uint32_t charge;                 /* 1: its processor time passes on the virtual clock */
    _Atomic int64_t overflow;                /* the earliest deadline of the waits without a slot, said again each LONGEST_LOOK */
    _Atomic int64_t origin;                  /* virtual instant of the run's start, from which the record of wakes counts */
    _Atomic uint64_t wakes, fingerprint;     /* waits that were served since, and a hash of them */
    _Atomic int64_t leap;                    /* virtual instant to which the driver has the clock set; 0: none */
    _Atomic uint64_t noted;                  /* number of points that were noted since the page was made */
    struct noted_point points[KEPT_POINTS];
    _Atomic uint32_t changes_by_itself; /* 0: no job of the run waits for an instant, so idle cycles are left out */
    _Alignas(4096) struct slot slots[SLOTS];
    _Atomic uint32_t versions[BLOCKS]; /* of each SLOTS_OF_A_BLOCK slots, changed after each change of one of them */
    struct look looked[KEPT_LOOKS];    /* the last ones: number N, counted by `looks`, at N % KEPT_LOOKS */
};

/* The virtual instant of an anchor at `since` real ns after it. */
static inline int64_t instant_after(int64_t calendar, int64_t speed, int64_t limit, int64_t since)
{
    if (since < 0 || limit <= calendar)
        return calendar;
    __extension__ __int128 passed = since;
    passed = passed * speed / 1000000000;
    return passed > limit - calendar ? limit : calendar + (int64_t)passed;
}

_Static_assert(offsetof(struct page, latch) == 16 && offsetof(struct page, anchors) == 32, "the layout is fixed");
_Static_assert(offsetof(struct page, tickets) == 96 && offsetof(struct page, figures) == 128, "the layout is fixed");
_Static_assert(offsetof(struct page, scheduler) == 256 && offsetof(struct page, slots) == 4096, "the layout is fixed");
_Static_assert(offsetof(struct page, leap) == 296 && offsetof(struct page, points) == 312, "the layout is fixed");
_Static_assert(offsetof(struct page, changes_by_itself) == 2360, "the layout is fixed");
_Static_assert(sizeof(struct slot) == 32, "the layout is fixed");

#endif
