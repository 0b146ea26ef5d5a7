/*
 * Says what functions that know a time answer, but no times: it prints the same with and without virtual_clock.so. A line for each
 * answer, NAME KEY=NUMBER... .
 *
 *   answers ready      which files are ready, by each function that waits for files
 *   answers woken      the same, of a file that another thread writes to meanwhile, and what select says is left (in 100 s)
 *   answers masks      a signal that is pending ends a wait only if the wait unblocks it
 *   answers signals    which of several signals sigtimedwait takes, and what it says of it
 *   answers threads    condition variables, mutexes and semaphores that another thread gives free before the deadline
 *   answers order      in which order sleeping threads wake up, and timers end
 *   answers timers     what is left of timers (in 100 s), which replace each other, and after their end
 *   answers children   timers of a process after fork and exec
 *   answers connect    connections that are accepted, refused, or under way
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHORT ((struct timespec){.tv_nsec = 20000000})
#define LONG ((struct timespec){.tv_sec = 10000})
#define ROUNDED(seconds) (((seconds) + 50) / 100)

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size);

static void say(const char *what, const char *name, int result)
{
    printf("%s/%s result=%d error=%d", what, name, result, result < 0 ? errno : 0);
}

static struct timespec in(long long ms)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long long ns = now.tv_sec * 1000000000LL + now.tv_nsec + ms * 1000000;
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static void nap(struct timespec length)
{
    while (nanosleep(&length, &length))
        ;
}

static void make_pipe(int ends[2])
{
    if (pipe(ends))
        abort();
}

static pthread_t start(void *(*run)(void *), void *given)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, given))
        abort();
    return thread;
}

/* ---- files ---- */

enum { FILES = 4 };
static int files[FILES]; /* -1: none */
static long long left;   /* of select, in 100 s */
static const sigset_t *mask;

/* Each waits for the files to be read (the last one, to be written) at most so long, and says in bits which are ready for what. */
typedef int waiter(const struct timespec *most, int ready[FILES]);

static int by_poll(const struct timespec *most, int ready[FILES], int kind)
{
    struct pollfd all[FILES];
    int ms = most ? (int)(most->tv_sec * 1000 + most->tv_nsec / 1000000) : -1;
    for (int i = 0; i < FILES; i++)
        all[i] = (struct pollfd){.fd = files[i], .events = i == FILES - 1 ? POLLOUT : POLLIN, .revents = 99};
    int result = kind == 0   ? poll(all, FILES, ms)
                 : kind == 1 ? __poll_chk(all, FILES, ms, sizeof all)
                 : kind == 2 ? ppoll(all, FILES, most, mask)
                             : __ppoll_chk(all, FILES, most, mask, sizeof all);
    for (int i = 0; i < FILES; i++)
        ready[i] = result < 0 ? 0 : all[i].revents;
    return result;
}

static int by_select(const struct timespec *most, int ready[FILES], bool with_mask)
{
    fd_set readable;
    fd_set writable;
    struct timeval rest = most ? (struct timeval){most->tv_sec, most->tv_nsec / 1000} : (struct timeval){0, 0};
    int highest = 0;
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    for (int i = 0; i < FILES; i++)
        if (files[i] >= 0) {
            FD_SET(files[i], i == FILES - 1 ? &writable : &readable);
            highest = files[i] > highest ? files[i] : highest;
        }
    int result = with_mask ? pselect(highest + 1, &readable, &writable, NULL, most, mask)
                           : select(highest + 1, &readable, &writable, NULL, most ? &rest : NULL);
    left = with_mask ? 0 : ROUNDED(rest.tv_sec);
    for (int i = 0; i < FILES; i++)
        ready[i] = files[i] >= 0 ? !!FD_ISSET(files[i], &readable) + 2 * !!FD_ISSET(files[i], &writable) : 0;
    return result;
}

static int by_epoll(const struct timespec *most, int ready[FILES], int kind)
{
    struct epoll_event found[FILES];
    int all = epoll_create1(0);
    int ms = most ? (int)(most->tv_sec * 1000 + most->tv_nsec / 1000000) : -1;
    for (int i = 0; i < FILES; i++) {
        struct epoll_event event = {.events = i == FILES - 1 ? EPOLLOUT : EPOLLIN, .data.u32 = (uint32_t)i};
        if (files[i] >= 0 && epoll_ctl(all, EPOLL_CTL_ADD, files[i], &event))
            abort();
        ready[i] = 0;
    }
    int result = kind == 0   ? epoll_wait(all, found, FILES, ms)
                 : kind == 1 ? epoll_pwait(all, found, FILES, ms, mask)
                             : epoll_pwait2(all, found, FILES, most, mask);
    int kept = errno;
    for (int i = 0; i < result; i++)
        ready[found[i].data.u32] = (int)found[i].events;
    close(all);
    errno = kept;
    return result;
}

/* clang-format off */
static int f_poll(const struct timespec *most, int *ready) { return by_poll(most, ready, 0); }
static int f_poll_chk(const struct timespec *most, int *ready) { return by_poll(most, ready, 1); }
static int f_ppoll(const struct timespec *most, int *ready) { return by_poll(most, ready, 2); }
static int f_ppoll_chk(const struct timespec *most, int *ready) { return by_poll(most, ready, 3); }
static int f_select(const struct timespec *most, int *ready) { return by_select(most, ready, false); }
static int f_pselect(const struct timespec *most, int *ready) { return by_select(most, ready, true); }
static int f_epoll_wait(const struct timespec *most, int *ready) { return by_epoll(most, ready, 0); }
static int f_epoll_pwait(const struct timespec *most, int *ready) { return by_epoll(most, ready, 1); }
static int f_epoll_pwait2(const struct timespec *most, int *ready) { return by_epoll(most, ready, 2); }
/* clang-format on */

static const struct {
    const char *name;
    waiter *wait;
    bool has_mask;
} waiters[] = {
    {"poll", f_poll, false},
    {"__poll_chk", f_poll_chk, false},
    {"ppoll", f_ppoll, true},
    {"__ppoll_chk", f_ppoll_chk, true},
    {"select", f_select, false},
    {"pselect", f_pselect, true},
    {"epoll_wait", f_epoll_wait, false},
    {"epoll_pwait", f_epoll_pwait, true},
    {"epoll_pwait2", f_epoll_pwait2, true},
};
enum { WAITERS = sizeof waiters / sizeof *waiters };

static void ask(int which, const char *when, const struct timespec *most)
{
    int ready[FILES];
    left = 0;
    int result = waiters[which].wait(most, ready);
    say(waiters[which].name, when, result);
    for (int i = 0; i < FILES; i++)
        printf(" file%d=%d", i, ready[i]);
    printf(" left=%lld\n", left);
}

static void choose(int none, int some, int closed, int writable)
{
    files[0] = none;
    files[1] = some;
    files[2] = closed;
    files[3] = writable;
}

static void ready(void)
{
    int empty[2];
    int full[2];
    int ended[2];
    make_pipe(empty);
    make_pipe(full);
    make_pipe(ended);
    if (write(full[1], "x", 1) != 1 || close(ended[1]))
        abort();
    for (int i = 0; i < WAITERS; i++) {
        const struct timespec *lengths[] = {&(struct timespec){0}, &SHORT, &LONG, NULL};
        for (size_t most = 0; most < sizeof lengths / sizeof *lengths; most++) {
            choose(empty[0], full[0], ended[0], empty[1]);
            ask(i, "all", lengths[most]);
            choose(empty[0], -1, -1, full[1]);
            ask(i, "writable", lengths[most]);
            choose(empty[0], full[0], -1, -1);
            ask(i, "full", lengths[most]);
            choose(-1, -1, ended[0], -1);
            ask(i, "ended", lengths[most]);
            if (most > 1)
                continue;
            choose(empty[0], -1, -1, -1);
            ask(i, "empty", lengths[most]);
            choose(-1, -1, -1, -1);
            ask(i, "none", lengths[most]);
        }
    }
    struct pollfd none = {.fd = 0x7fff, .events = POLLIN};
    int result = poll(&none, 1, -1);
    say("poll", "closed", result);
    printf(" events=%d\n", none.revents);
}

static void *write_later(void *end)
{
    nap(SHORT);
    if (write(*(int *)end, "x", 1) != 1)
        abort();
    return NULL;
}

static void woken(void)
{
    int ends[2];
    char byte;
    make_pipe(ends);
    choose(ends[0], -1, -1, -1);
    for (int i = 0; i < WAITERS; i++)
        for (int is_endless = 0; is_endless < 2; is_endless++) {
            pthread_t other = start(write_later, &ends[1]);
            ask(i, is_endless ? "endless" : "long", is_endless ? NULL : &LONG);
            pthread_join(other, NULL);
            if (read(ends[0], &byte, 1) != 1)
                abort();
        }
}

/* ---- signals ---- */

static volatile sig_atomic_t handled;

static void handle(int unused)
{
    (void)unused;
    handled++;
}

static void block(int signal)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void masks(void)
{
    sigset_t nothing;
    sigset_t now;
    signal(SIGUSR1, handle);
    block(SIGUSR1);
    sigemptyset(&nothing);
    choose(-1, -1, -1, -1);
    for (int i = 0; i < WAITERS; i++) {
        handled = 0;
        raise(SIGUSR1);
        mask = NULL;
        ask(i, "blocked", &SHORT);
        mask = &nothing;
        ask(i, waiters[i].has_mask ? "unblocked" : "without-mask", &SHORT);
        pthread_sigmask(SIG_BLOCK, NULL, &now);
        printf("%s handled=%d blocked=%d\n", waiters[i].name, (int)handled, sigismember(&now, SIGUSR1));
        sigpending(&now);
        if (sigismember(&now, SIGUSR1))
            sigtimedwait(&now, NULL, &SHORT);
    }
}

static void tell_signal(const char *name, const sigset_t *set, struct timespec most)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    int result = sigtimedwait(set, &info, &most);
    say("sigtimedwait", name, result);
    printf(" signal=%d code=%d value=%d\n", info.si_signo, info.si_code, info.si_value.sival_int);
}

static void *queue_later(void *thread)
{
    nap(SHORT);
    pthread_sigqueue(*(pthread_t *)thread, SIGRTMIN, (union sigval){.sival_int = 5});
    return NULL;
}

static void signals(void)
{
    sigset_t both;
    pthread_t self = pthread_self();
    sigemptyset(&both);
    sigaddset(&both, SIGRTMIN);
    sigaddset(&both, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &both, NULL);
    tell_signal("none", &both, SHORT);
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1});
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 2});
    raise(SIGUSR2);
    tell_signal("lowest", &both, LONG);
    tell_signal("first", &both, (struct timespec){0});
    tell_signal("second", &both, SHORT);
    tell_signal("no-more", &both, (struct timespec){0});
    pthread_t other = start(queue_later, &self);
    tell_signal("later", &both, LONG);
    pthread_join(other, NULL);
}

/* ---- threads ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int turn;

static void *signal_condition(void *broadcasts)
{
    nap(SHORT);
    pthread_mutex_lock(&mutex);
    turn = 1;
    (broadcasts ? pthread_cond_broadcast : pthread_cond_signal)(&condition);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *await_turn(void *unused)
{
    struct timespec deadline = in(10000000);
    int result = 0;
    (void)unused;
    pthread_mutex_lock(&mutex);
    while (!turn && !result)
        result = pthread_cond_timedwait(&condition, &mutex, &deadline);
    pthread_mutex_unlock(&mutex);
    return (void *)(intptr_t)result;
}

static sem_t held;
static sem_t gone;

static void *hold_mutex(void *for_a_while)
{
    pthread_mutex_lock(&mutex);
    sem_post(&held);
    if (for_a_while)
        nap(SHORT);
    else
        sem_wait(&gone);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *post_later(void *unused)
{
    nap(SHORT);
    sem_post(&semaphore);
    return unused;
}

static void threads(void)
{
    pthread_t others[4];
    void *result;
    int value;
    struct timespec deadline;
    for (int broadcasts = 0; broadcasts < 2; broadcasts++) {
        int waiting = broadcasts ? 3 : 1;
        turn = 0;
        for (int i = 0; i < waiting; i++)
            others[i] = start(await_turn, NULL);
        others[3] = start(signal_condition, broadcasts ? &turn : NULL);
        for (int i = 0; i < waiting; i++) {
            pthread_join(others[i], &result);
            printf("condition result=%d\n", (int)(intptr_t)result);
        }
        pthread_join(others[3], NULL);
    }
    deadline = in(20);
    pthread_mutex_lock(&mutex);
    printf("condition result=%d\n", pthread_cond_timedwait(&condition, &mutex, &deadline));
    pthread_mutex_unlock(&mutex);
    sem_init(&held, 0, 0);
    sem_init(&gone, 0, 0);
    for (int is_long = 0; is_long < 2; is_long++) {
        others[0] = start(hold_mutex, is_long ? &held : NULL);
        sem_wait(&held);
        deadline = in(is_long ? 10000000 : 20);
        value = pthread_mutex_timedlock(&mutex, &deadline);
        printf("mutex result=%d\n", value);
        if (value == 0)
            pthread_mutex_unlock(&mutex);
        sem_post(&gone);
        pthread_join(others[0], NULL);
    }
    sem_init(&semaphore, 0, 1);
    for (int round = 0; round < 3; round++) {
        if (round == 2)
            others[0] = start(post_later, NULL);
        deadline = in(round == 1 ? 20 : 10000000);
        say("semaphore", "timed", sem_timedwait(&semaphore, &deadline));
        sem_getvalue(&semaphore, &value);
        printf(" value=%d\n", value);
    }
    pthread_join(others[0], NULL);
}

/* ---- order ---- */

static void *sleep_long(void *tenths)
{
    long ms = 100 * (long)(intptr_t)tenths;
    nap((struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000});
    pthread_mutex_lock(&mutex);
    printf("awake tenths=%d\n", (int)(intptr_t)tenths);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void order(void)
{
    static const int tenths[] = {40, 10, 30, 20};
    enum { TIMES = sizeof tenths / sizeof *tenths };
    pthread_t all[TIMES];
    for (int i = 0; i < TIMES; i++)
        all[i] = start(sleep_long, (void *)(intptr_t)tenths[i]);
    for (int i = 0; i < TIMES; i++)
        pthread_join(all[i], NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    block(SIGRTMIN);
    for (int i = 0; i < TIMES; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = tenths[i]};
        struct itimerspec setting = {.it_value = {.tv_sec = tenths[i] / 10, .tv_nsec = tenths[i] % 10 * 100000000}};
        timer_t timer;
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &setting, NULL))
            abort();
    }
    for (int i = 0; i < TIMES; i++)
        tell_signal("timer", &set, LONG);
    tell_signal("timer", &set, SHORT);
}

/* ---- timers ---- */

static void tell_left(const char *name, int result, long long seconds, long long interval)
{
    say("timer", name, result);
    printf(" left=%lld interval=%lld\n", ROUNDED(seconds), ROUNDED(interval));
}

static void tell_setitimer(const char *name, const struct itimerval *setting)
{
    struct itimerval before = {{0, 0}, {0, 0}};
    int result = setitimer(ITIMER_REAL, setting, &before);
    tell_left(name, result, before.it_value.tv_sec, before.it_interval.tv_sec);
}

static void tell_settime(const char *name, timer_t timer, struct timespec value, struct timespec interval)
{
    struct itimerspec setting = {.it_value = value, .it_interval = interval};
    struct itimerspec before = {{0, 0}, {0, 0}};
    int result = timer_settime(timer, 0, &setting, &before);
    tell_left(name, result, before.it_value.tv_sec, before.it_interval.tv_sec);
}

static void timers(void)
{
    const struct timespec none = {0};
    sigset_t set;
    timer_t timer;
    struct itimerspec now;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    block(SIGALRM);
    printf("alarm left=%d\n", ROUNDED((int)alarm(1000)));
    printf("alarm left=%d\n", ROUNDED((int)alarm(2000)));
    tell_setitimer("of-alarm", &(struct itimerval){.it_value = {3000, 0}, .it_interval = {4000, 0}});
    printf("alarm left=%d\n", ROUNDED((int)alarm(0)));
    tell_setitimer("stopped", &(struct itimerval){.it_value = {0, 20000}});
    tell_signal("setitimer", &set, LONG);
    tell_setitimer("ended", &(struct itimerval){{0, 0}, {0, 0}});
    if (timer_create(CLOCK_REALTIME, NULL, &timer))
        abort();
    tell_settime("new", timer, LONG, none);
    tell_settime("set", timer, LONG, LONG);
    tell_settime("set-again", timer, SHORT, LONG);
    tell_signal("timer", &set, LONG);
    int result = timer_gettime(timer, &now);
    tell_left("periodic", result, now.it_value.tv_sec, now.it_interval.tv_sec);
    tell_settime("one-shot", timer, SHORT, none);
    tell_signal("timer", &set, LONG);
    result = timer_gettime(timer, &now);
    tell_left("ended", result, now.it_value.tv_sec, now.it_interval.tv_sec);
    tell_settime("many", timer, (struct timespec){.tv_nsec = 1000000}, (struct timespec){.tv_nsec = 1000000});
    nap(SHORT);
    nap(SHORT);
    tell_signal("timer", &set, LONG);
    printf("timer overrun=%d\n", timer_getoverrun(timer) > 0);
    printf("timer deleted=%d\n", timer_delete(timer));
}

static void tell_alarms(const char *name)
{
    struct itimerval now;
    getitimer(ITIMER_REAL, &now);
    printf("%s alarm=%lld interval=%lld\n", name, ROUNDED((long long)now.it_value.tv_sec),
           ROUNDED((long long)now.it_interval.tv_sec));
    fflush(stdout);
}

static void children(const char *program)
{
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {2000, 0}, .it_interval = {3000, 0}}, NULL);
    tell_alarms("parent");
    if (fork() == 0) {
        tell_alarms("child");
        alarm(1000);
        tell_alarms("child-alarm");
        _exit(0);
    }
    wait(NULL);
    tell_alarms("parent");
    execl(program, program, "alarms", NULL);
    abort();
}

/* ---- connections ---- */

static void tell_connect(const char *name, int kind, const void *address, socklen_t length)
{
    int one = socket(((const struct sockaddr *)address)->sa_family, kind, 0);
    int error = 0;
    socklen_t size = sizeof error;
    int result = connect(one, address, length);
    say("connect", name, result);
    struct pollfd polled = {.fd = one, .events = POLLOUT};
    int ready = poll(&polled, 1, 10000);
    getsockopt(one, SOL_SOCKET, SO_ERROR, &error, &size);
    printf(" ready=%d events=%d later=%d\n", ready, polled.revents, error);
    close(one);
}

static void connections(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un nowhere = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/socket"};
    socklen_t length = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *)&address, length) || getsockname(listening, (struct sockaddr *)&address, &length))
        abort();
    tell_connect("refused", SOCK_STREAM, &address, length);
    if (listen(listening, 5))
        abort();
    tell_connect("accepted", SOCK_STREAM, &address, length);
    tell_connect("under-way", SOCK_STREAM | SOCK_NONBLOCK, &address, length);
    tell_connect("datagram", SOCK_DGRAM, &address, length);
    tell_connect("short", SOCK_STREAM, &address, 3);
    tell_connect("no-file", SOCK_STREAM, &nowhere, sizeof nowhere);
    say("connect", "no-socket", connect(listening + 100, (struct sockaddr *)&address, length));
    printf("\n");
    say("socket", "family", socket(9999, SOCK_STREAM, 0));
    printf("\n");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"ready", ready}, {"woken", woken},   {"masks", masks},     {"signals", signals},
        {"order", order}, {"timers", timers}, {"threads", threads}, {"connect", connections},
    };
    const char *what = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(what, all[i].name) == 0) {
            all[i].run();
            return 0;
        }
    if (strcmp(what, "children") == 0)
        children(argv[0]);
    if (strcmp(what, "alarms") == 0) {
        tell_alarms("exec");
        return 0;
    }
    return 2;
}
