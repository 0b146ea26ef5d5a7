/* Waits for files that end by a signal. signalled_waits.h describes the functions. */
#define _GNU_SOURCE
#include "signalled_waits.h"
#include "event_clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COMPANIONS = 64, STACK = 131072 };
#define LONGEST_SLEEP_S 3600
#define SIGNAL (SIGRTMAX - 5) /* one that neither the C library nor a program of a resource manager uses */

/*
 * The slot stays the thread's between two waits, with the deadline of the last one: the coordinator frees it if that is reached and
 * no further wait begins for some time, and so those of processes that have ended.
 */
struct companion {
    struct slot *_Atomic slot; /* of `wait`; null: it has none yet */
    _Atomic uint64_t token;    /* of `wait` */
    _Atomic int64_t deadline;  /* of the wait */
    struct event_wait wait;    /* used by the thread that waits */
    _Atomic uint32_t changes;  /* of the slot; a futex */
    pid_t process, thread;     /* who waits */
    atomic_bool is_taken;
    _Atomic bool is_waited; /* the thread waits */
};

static struct companion companions[COMPANIONS];
static _Thread_local struct companion *own __attribute__((tls_model("initial-exec")));
static _Thread_local volatile sig_atomic_t is_signalled __attribute__((tls_model("initial-exec")));

void forget_companions(void)
{
    for (int i = 0; i < COMPANIONS; i++)
        companions[i].is_taken = false;
    own = NULL;
}

static void note_signal(int number)
{
    (void)number;
    is_signalled = 1;
}

static void sleep_while(_Atomic uint32_t *word, uint32_t value)
{
    const struct timespec longest = {.tv_sec = LONGEST_SLEEP_S};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &longest, NULL, 0);
}

/* Sends the signal at each deadline. */
static void *accompany(void *given)
{
    struct companion *companion = given;
    int64_t served = 0;
    for (;;) {
        uint32_t changes = companion->changes;
        struct slot *slot = companion->slot;
        uint64_t token = companion->token;
        if (!slot || slot->token != token) { /* until the next wait has one */
            sleep_while(&companion->changes, changes);
            continue;
        }
        /* The order matters: the coordinator sets the time before `wake`. */
        atomic_exchange(&slot->wake, asleep(token));
        int64_t deadline = companion->deadline;
        if (deadline != served && event_now() >= deadline) {
            served = deadline;
            if (companion->is_waited)
                syscall(SYS_tgkill, companion->process, companion->thread, SIGNAL);
            continue;
        }
        sleep_while(&slot->wake, asleep(token));
    }
    return NULL;
}

static bool start_companion(struct companion *companion)
{
    struct sigaction action = {.sa_handler = note_signal};
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (sigaction(SIGNAL, &action, NULL) != 0 || pthread_attr_init(&attributes) != 0)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_attr_setstacksize(&attributes, STACK) == 0 &&
                      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                      pthread_create(&thread, &attributes, accompany, companion) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return is_started;
}

/* The companion of this thread; null if it can have none. */
static struct companion *companion_of_thread(void)
{
    for (int i = 0; i < COMPANIONS && !own; i++) {
        struct companion *companion = &companions[i];
        if (atomic_exchange(&companion->is_taken, true))
            continue;
        companion->slot = NULL;
        companion->wait.slot = NULL;
        companion->is_waited = false;
        companion->process = getpid();
        companion->thread = (pid_t)syscall(SYS_gettid);
        if (!start_companion(companion)) {
            companion->is_taken = false;
            return NULL;
        }
        own = companion;
    }
    return own;
}

/* Gives the slot this deadline, a new slot if the coordinator has freed the one before. Returns false if all are taken. */
static bool set_deadline(struct companion *companion, int64_t deadline)
{
    struct event_wait *wait = &companion->wait;
    companion->deadline = deadline;
    if (wait->slot && wait->slot->token == wait->token) {
        event_shorten(wait, deadline);
        if (wait->slot->token == wait->token) /* else it was freed just now */
            return true;
    }
    const struct slot *before = companion->slot;
    event_begin(wait, deadline, WAITS_ON_FUTEX);
    if (!wait->slot)
        return false;
    companion->token = wait->token;
    companion->slot = wait->slot;
    atomic_fetch_add(&companion->changes, 1);
    syscall(SYS_futex, &companion->changes, FUTEX_WAKE, 1, NULL, NULL, 0);
    if (before) /* the companion may sleep in it */
        syscall(SYS_futex, &before->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return true;
}

bool signalled_begin(struct signalled_wait *wait, int64_t deadline, const sigset_t *mask)
{
    sigset_t signal, before;
    int error = errno;
    struct companion *companion = companion_of_thread();
    if (companion) {
        sigemptyset(&signal);
        sigaddset(&signal, SIGNAL);
        pthread_sigmask(SIG_BLOCK, &signal, &before);
        *wait = (struct signalled_wait){.companion = companion, .deadline = deadline, .mask = mask ? *mask : before};
        sigdelset(&wait->mask, SIGNAL);
        is_signalled = 0;
        companion->is_waited = true;
        if (!set_deadline(companion, deadline)) {
            companion->is_waited = false;
            companion = NULL;
        }
    }
    errno = error;
    return companion != NULL;
}

bool signalled_goes_on(const struct signalled_wait *wait, int *result)
{
    if (*result >= 0 || errno != EINTR)
        return false;
    if (event_now() >= wait->deadline) {
        *result = 0;
        return false;
    }
    bool is_by_companion = is_signalled; /* at the deadline of a wait before */
    is_signalled = 0;
    return is_by_companion;
}

void signalled_end(void *given)
{
    const struct signalled_wait *wait = given;
    wait->companion->is_waited = false;
}
