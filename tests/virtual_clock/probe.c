/*
 * What the tests run under the virtual clock: calls the functions that virtual_clock.so replaces and tells what came of it, a line
 * for each call, NAME KEY=NUMBER... . It reads the host's own clocks by system call, past the library.
 *
 *   probe clocks               every way to read a clock, between two readings of the host's
 *   probe wait NAME NS         wait for a length or, if its name has a colon, until an instant so far ahead
 *   probe named THREAD NAME NS the same, of a thread that has a name; twice, as what it knows of itself is kept
 *   probe interrupt NAME NS    the same, interrupted by a signal after 50 ms
 *   probe signalled NAME NS    the same, interrupted by a signal after 100 s of the virtual clock
 *   probe until NS             sleep until an instant of CLOCK_REALTIME
 *   probe timers NS            what timers say is left, soon after they were set
 *   probe ready NS             select, of a file that is ready
 *   probe wrong                what the functions answer to arguments that are not valid, and to deadlines long past
 *   probe files PATH           times of a file
 *   probe cancel TIMES         cancel threads in the middle of calls
 *   probe fork TIMES           fork while other threads make calls
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size);

static sigset_t alarm_signal;
static struct timespec left; /* what an interrupted call says */
static struct timeval left_of_select;

static __int128 ns(struct timespec time)
{
    return (__int128)time.tv_sec * SECOND + time.tv_nsec;
}

static struct timespec spec(long long time)
{
    return (struct timespec){.tv_sec = time / SECOND, .tv_nsec = time % SECOND};
}

static struct timespec raw(clockid_t clock)
{
    struct timespec now = {0, 0};
    syscall(SYS_clock_gettime, clock, &now);
    return now;
}

static struct timespec seen(clockid_t clock)
{
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return now;
}

/* printf has no 128-bit numbers. */
static void tell(const char *key, __int128 value)
{
    char digits[48];
    char *at = digits + sizeof digits - 1;
    unsigned __int128 rest = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
    *at = '\0';
    do
        *--at = (char)('0' + (int)(rest % 10));
    while (rest /= 10);
    printf(" %s=%s%s", key, value < 0 ? "-" : "", at);
}

/* ---- clocks ---- */

static __int128 reading;

static void read_clock(clockid_t clock)
{
    reading = ns(seen(clock));
}

static void read_time(clockid_t clock)
{
    time_t kept;
    (void)clock;
    reading = time(&kept);
    if (kept != reading)
        abort();
}

static void read_day(clockid_t clock)
{
    struct timeval now;
    (void)clock;
    gettimeofday(&now, NULL);
    reading = (__int128)now.tv_sec * 1000000 + now.tv_usec;
}

static void read_day_and_zone(clockid_t clock)
{
    struct timezone zone = {1, 1};
    struct timeval now;
    (void)clock;
    gettimeofday(&now, &zone);
    reading = zone.tz_minuteswest || zone.tz_dsttime ? -1 : (__int128)now.tv_sec * 1000000 + now.tv_usec;
}

static void read_spec(clockid_t clock)
{
    struct timespec now;
    (void)clock;
    reading = timespec_get(&now, TIME_UTC) == TIME_UTC ? ns(now) : -1;
}

static void read_uptime(clockid_t clock)
{
    struct sysinfo info;
    (void)clock;
    reading = sysinfo(&info) ? -1 : info.uptime;
}

static void clocks(void)
{
    static const struct {
        const char *name;
        void (*read)(clockid_t);
        clockid_t clock;
        long unit; /* per second */
    } table[] = {
        {"realtime", read_clock, CLOCK_REALTIME, SECOND},
        {"realtime-coarse", read_clock, CLOCK_REALTIME_COARSE, SECOND},
        {"tai", read_clock, CLOCK_TAI, SECOND},
        {"time", read_time, CLOCK_REALTIME, 1},
        {"gettimeofday", read_day, CLOCK_REALTIME, 1000000},
        {"gettimeofday-zone", read_day_and_zone, CLOCK_REALTIME, 1000000},
        {"timespec_get", read_spec, CLOCK_REALTIME, SECOND},
        {"monotonic", read_clock, CLOCK_MONOTONIC, SECOND},
        {"monotonic-coarse", read_clock, CLOCK_MONOTONIC_COARSE, SECOND},
        {"monotonic-raw", read_clock, CLOCK_MONOTONIC_RAW, SECOND},
        {"boottime", read_clock, CLOCK_BOOTTIME, SECOND},
        {"sysinfo", read_uptime, CLOCK_BOOTTIME, 1},
        {"cpu", read_clock, CLOCK_PROCESS_CPUTIME_ID, SECOND},
    };
    for (size_t row = 0; row < sizeof table / sizeof *table; row++) {
        clockid_t clock = table[row].clock;
        /* The coarse clocks are to be as exact as the others. */
        clock = clock == CLOCK_REALTIME_COARSE ? CLOCK_REALTIME : clock == CLOCK_MONOTONIC_COARSE ? CLOCK_MONOTONIC : clock;
        __int128 before = ns(raw(clock));
        table[row].read(table[row].clock);
        __int128 after = ns(raw(clock));
        printf("%s unit=%ld", table[row].name, table[row].unit);
        tell("before", before);
        tell("value", reading);
        tell("after", after);
        printf("\n");
    }
}

/* ---- waits: each returns what the function does, with its errno or error number in `error` ---- */

static int error;

static int answer(int result)
{
    error = result ? errno : 0;
    return result;
}

static int number(int result)
{
    error = result;
    return result;
}

static pthread_mutex_t free_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t taken_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t calendar_condition = PTHREAD_COND_INITIALIZER;
static pthread_cond_t uptime_condition;
static sem_t semaphore;
static int epoll;

static void *take(void *unused)
{
    pthread_mutex_lock(&taken_mutex);
    return unused;
}

static void prepare(void)
{
    pthread_condattr_t uptime;
    pthread_t other;
    pthread_condattr_init(&uptime);
    pthread_condattr_setclock(&uptime, CLOCK_MONOTONIC);
    pthread_cond_init(&uptime_condition, &uptime);
    sem_init(&semaphore, 0, 0);
    epoll = epoll_create1(0);
    sigemptyset(&alarm_signal);
    sigaddset(&alarm_signal, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm_signal, NULL);
    pthread_create(&other, NULL, take, NULL);
    pthread_join(other, NULL);
    pthread_mutex_lock(&free_mutex);
}

static int await_alarm(int result)
{
    return result ? answer(result) : answer(sigwaitinfo(&alarm_signal, NULL) == SIGALRM ? 0 : -1);
}

static int set_timer(clockid_t clock, int flags, struct timespec when)
{
    struct itimerspec setting = {.it_value = when};
    timer_t timer;
    if (timer_create(clock, NULL, &timer))
        return answer(-1);
    int result = await_alarm(timer_settime(timer, flags, &setting, NULL));
    timer_delete(timer);
    return result;
}

static int set_itimer(struct timespec when)
{
    struct itimerval setting = {.it_value = {.tv_sec = when.tv_sec, .tv_usec = when.tv_nsec / 1000}};
    return await_alarm(setitimer(ITIMER_REAL, &setting, NULL));
}

static int do_select(struct timespec t)
{
    left_of_select = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
    int result = answer(select(0, NULL, NULL, NULL, &left_of_select));
    left = (struct timespec){.tv_sec = left_of_select.tv_sec, .tv_nsec = left_of_select.tv_usec * 1000};
    return result;
}

static int do_sleep(struct timespec t)
{
    left = (struct timespec){.tv_sec = sleep((unsigned int)t.tv_sec)};
    return answer(0);
}

#define MILLISECONDS ((int)(ns(t) / 1000000))
/* clang-format off */
static int w_nanosleep(struct timespec t) { return answer(nanosleep(&t, &left)); }
static int w_same_room(struct timespec t) { left = t; return answer(nanosleep(&left, &left)); }
static int w_usleep(struct timespec t) { return answer(usleep((useconds_t)(ns(t) / 1000))); }
static int w_sleep_realtime(struct timespec t) { return number(clock_nanosleep(CLOCK_REALTIME, 0, &t, &left)); }
static int w_sleep_monotonic(struct timespec t) { return number(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &left)); }
static int w_sleep_boottime(struct timespec t) { return number(clock_nanosleep(CLOCK_BOOTTIME, 0, &t, &left)); }
static int w_poll(struct timespec t) { return answer(poll(NULL, 0, MILLISECONDS)); }
static int w_poll_chk(struct timespec t) { return answer(__poll_chk(NULL, 0, MILLISECONDS, 0)); }
static int w_ppoll(struct timespec t) { return answer(ppoll(NULL, 0, &t, NULL)); }
static int w_ppoll_chk(struct timespec t) { return answer(__ppoll_chk(NULL, 0, &t, NULL, 0)); }
static int w_pselect(struct timespec t) { return answer(pselect(0, NULL, NULL, NULL, &t, NULL)); }
static struct epoll_event events[1];
static int w_epoll_wait(struct timespec t) { return answer(epoll_wait(epoll, events, 1, MILLISECONDS)); }
static int w_epoll_pwait(struct timespec t) { return answer(epoll_pwait(epoll, events, 1, MILLISECONDS, NULL)); }
static int w_epoll_pwait2(struct timespec t) { return answer(epoll_pwait2(epoll, events, 1, &t, NULL)); }
static int w_sigtimedwait(struct timespec t) { return answer(sigtimedwait(&alarm_signal, NULL, &t)); }
static int w_alarm(struct timespec t) { return await_alarm((int)alarm((unsigned int)t.tv_sec)); }
static int w_timer(struct timespec t) { return set_timer(CLOCK_REALTIME, 0, t); }
static int w_timer_monotonic(struct timespec t) { return set_timer(CLOCK_MONOTONIC, 0, t); }
static int u_sleep_realtime(struct timespec t) { return number(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL)); }
static int u_sleep_tai(struct timespec t) { return number(clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &t, NULL)); }
static int u_sleep_monotonic(struct timespec t) { return number(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL)); }
static int u_sleep_boottime(struct timespec t) { return number(clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &t, NULL)); }
static int u_condition(struct timespec t) { return number(pthread_cond_timedwait(&calendar_condition, &free_mutex, &t)); }
static int u_condition_monotonic(struct timespec t) { return number(pthread_cond_timedwait(&uptime_condition, &free_mutex, &t)); }
static int u_clockwait(struct timespec t) { return number(pthread_cond_clockwait(&calendar_condition, &free_mutex, CLOCK_REALTIME, &t)); }
static int u_clockwait_monotonic(struct timespec t) { return number(pthread_cond_clockwait(&calendar_condition, &free_mutex, CLOCK_MONOTONIC, &t)); }
static int u_mutex(struct timespec t) { return number(pthread_mutex_timedlock(&taken_mutex, &t)); }
static int u_semaphore(struct timespec t) { return answer(sem_timedwait(&semaphore, &t)); }
static int u_sem_clockwait(struct timespec t) { return answer(sem_clockwait(&semaphore, CLOCK_REALTIME, &t)); }
static int u_sem_clockwait_monotonic(struct timespec t) { return answer(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &t)); }
static int u_timer(struct timespec t) { return set_timer(CLOCK_REALTIME, TIMER_ABSTIME, t); }
static int u_timer_monotonic(struct timespec t) { return set_timer(CLOCK_MONOTONIC, TIMER_ABSTIME, t); }
/* clang-format on */

static const struct wait {
    const char *name;
    int (*call)(struct timespec);
    clockid_t clock; /* of a deadline, or the one that a length is looked at by */
} waits[] = {
    {"nanosleep", w_nanosleep, CLOCK_MONOTONIC},
    {"nanosleep-same-room", w_same_room, CLOCK_MONOTONIC},
    {"usleep", w_usleep, CLOCK_REALTIME},
    {"sleep", do_sleep, CLOCK_REALTIME},
    {"clock_nanosleep-realtime", w_sleep_realtime, CLOCK_REALTIME},
    {"clock_nanosleep-monotonic", w_sleep_monotonic, CLOCK_MONOTONIC},
    {"clock_nanosleep-boottime", w_sleep_boottime, CLOCK_BOOTTIME},
    {"poll", w_poll, CLOCK_MONOTONIC},
    {"__poll_chk", w_poll_chk, CLOCK_MONOTONIC},
    {"ppoll", w_ppoll, CLOCK_MONOTONIC},
    {"__ppoll_chk", w_ppoll_chk, CLOCK_MONOTONIC},
    {"select", do_select, CLOCK_REALTIME},
    {"pselect", w_pselect, CLOCK_MONOTONIC},
    {"epoll_wait", w_epoll_wait, CLOCK_MONOTONIC},
    {"epoll_pwait", w_epoll_pwait, CLOCK_MONOTONIC},
    {"epoll_pwait2", w_epoll_pwait2, CLOCK_MONOTONIC},
    {"sigtimedwait", w_sigtimedwait, CLOCK_MONOTONIC},
    {"alarm", w_alarm, CLOCK_MONOTONIC},
    {"setitimer", set_itimer, CLOCK_MONOTONIC},
    {"timer_settime", w_timer, CLOCK_MONOTONIC},
    {"timer_settime-monotonic", w_timer_monotonic, CLOCK_MONOTONIC},
    {"clock_nanosleep:realtime", u_sleep_realtime, CLOCK_REALTIME},
    {"clock_nanosleep:tai", u_sleep_tai, CLOCK_TAI},
    {"clock_nanosleep:monotonic", u_sleep_monotonic, CLOCK_MONOTONIC},
    {"clock_nanosleep:boottime", u_sleep_boottime, CLOCK_BOOTTIME},
    {"pthread_cond_timedwait:realtime", u_condition, CLOCK_REALTIME},
    {"pthread_cond_timedwait:monotonic", u_condition_monotonic, CLOCK_MONOTONIC},
    {"pthread_cond_clockwait:realtime", u_clockwait, CLOCK_REALTIME},
    {"pthread_cond_clockwait:monotonic", u_clockwait_monotonic, CLOCK_MONOTONIC},
    {"pthread_mutex_timedlock:", u_mutex, CLOCK_REALTIME},
    {"sem_timedwait:", u_semaphore, CLOCK_REALTIME},
    {"sem_clockwait:realtime", u_sem_clockwait, CLOCK_REALTIME},
    {"sem_clockwait:monotonic", u_sem_clockwait_monotonic, CLOCK_MONOTONIC},
    {"timer_settime:realtime", u_timer, CLOCK_REALTIME},
    {"timer_settime:monotonic", u_timer_monotonic, CLOCK_MONOTONIC},
};
enum { N_WAITS = sizeof waits / sizeof *waits };

static const struct wait *find(const char *name)
{
    for (size_t row = 0; row < N_WAITS; row++)
        if (strcmp(waits[row].name, name) == 0)
            return &waits[row];
    fprintf(stderr, "probe: there is no wait %s\n", name);
    exit(2);
}

static void wait_for(const struct wait *wait, long long length)
{
    struct timespec raw_before = raw(CLOCK_MONOTONIC);
    __int128 before = ns(seen(wait->clock));
    bool is_deadline = strchr(wait->name, ':') != NULL;
    int result = wait->call(is_deadline ? spec((long long)before + length) : spec(length));
    int kept = error;
    __int128 after = ns(seen(wait->clock));
    struct timespec raw_after = raw(CLOCK_MONOTONIC);
    printf("%s result=%d error=%d", wait->name, result, kept);
    tell("left", ns(left));
    tell("virtual", after - before);
    tell("real", ns(raw_after) - ns(raw_before));
    printf("\n");
}

static void named(const char *thread, const struct wait *wait, long long length)
{
    prctl(PR_SET_NAME, thread);
    wait_for(wait, length);
    wait_for(wait, length);
}

static void until(long long instant)
{
    struct timespec deadline = spec(instant);
    int result = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &deadline, NULL);
    printf("until result=%d", result);
    tell("real", ns(raw(CLOCK_REALTIME)));
    tell("virtual", ns(seen(CLOCK_REALTIME)));
    printf("\n");
}

/* ---- interruptions ---- */

static void on_signal(int unused)
{
    (void)unused;
}

static void *send_later(void *thread)
{
    struct timespec pause = {.tv_nsec = 50000000};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    return NULL;
}

static void *send_on_virtual_clock(void *thread)
{
    struct timespec pause = {.tv_sec = 100};
    nanosleep(&pause, NULL);
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    return NULL;
}

static void interrupt(const struct wait *wait, long long length, void *(*send)(void *))
{
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t self = pthread_self();
    pthread_t sender;
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&sender, NULL, send, &self);
    wait_for(wait, length);
    pthread_join(sender, NULL);
}

/* ---- timers ---- */

static void tell_left(const char *name, __int128 rest, __int128 interval, __int128 since)
{
    printf("%s", name);
    tell("left", rest);
    tell("interval", interval);
    tell("virtual", ns(seen(CLOCK_MONOTONIC)) - since);
    printf("\n");
}

static void timers(long long length)
{
    __int128 since = ns(seen(CLOCK_MONOTONIC));
    struct timespec t = spec(length);
    struct timeval v = {.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
    struct itimerval interval_timer = {v, v};
    struct itimerspec setting = {t, t};
    timer_t timer;
    if (setitimer(ITIMER_REAL, &interval_timer, NULL) || getitimer(ITIMER_REAL, &interval_timer))
        abort();
#define TIMEVAL(v) ((__int128)(v).tv_sec * SECOND + (v).tv_usec * 1000)
    tell_left("getitimer", TIMEVAL(interval_timer.it_value), TIMEVAL(interval_timer.it_interval), since);
    interval_timer = (struct itimerval){{0, 0}, {0, 0}};
    if (setitimer(ITIMER_REAL, NULL, &interval_timer)) /* which stops it */
        abort();
    tell_left("setitimer", TIMEVAL(interval_timer.it_value), TIMEVAL(interval_timer.it_interval), since);
    getitimer(ITIMER_REAL, &interval_timer);
    tell_left("stopped", TIMEVAL(interval_timer.it_value), 0, since);
    alarm((unsigned int)t.tv_sec);
    tell_left("alarm", (__int128)alarm(0) * SECOND, 0, since);
    tell_left("alarm-stopped", (__int128)alarm(0) * SECOND, 0, since);
    if (timer_create(CLOCK_REALTIME, NULL, &timer) || timer_settime(timer, 0, &setting, NULL) || timer_gettime(timer, &setting))
        abort();
    tell_left("timer_gettime", ns(setting.it_value), ns(setting.it_interval), since);
    struct itimerspec stop = {{0, 0}, {0, 0}};
    if (timer_settime(timer, TIMER_ABSTIME, &stop, &setting))
        abort();
    tell_left("timer_settime", ns(setting.it_value), ns(setting.it_interval), since);
    sigset_t pending;
    sigpending(&pending);
    timer_gettime(timer, &setting);
    tell_left("timer-stopped", ns(setting.it_value) + sigismember(&pending, SIGALRM), 0, since);
}

static void ready(long long length)
{
    struct timespec t = spec(length);
    struct timeval v = {.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
    int ends[2];
    fd_set reading_ends;
    if (pipe(ends) || write(ends[1], "x", 1) != 1)
        abort();
    FD_ZERO(&reading_ends);
    FD_SET(ends[0], &reading_ends);
    __int128 before = ns(seen(CLOCK_MONOTONIC));
    int result = select(ends[0] + 1, &reading_ends, NULL, NULL, &v);
    printf("select result=%d", result);
    tell("left", TIMEVAL(v));
    tell("virtual", ns(seen(CLOCK_MONOTONIC)) - before);
    printf("\n");
}

/* ---- wrong arguments: with and without the library the answers shall be the same ---- */

static void say(const char *what, const char *name, int result)
{
    printf("%s/%s result=%d error=%d\n", what, name, result, error);
}

static void wrong(void)
{
    static const struct {
        const char *name;
        struct timespec time;
    } bad[] = {
        {"too-many-ns", {.tv_sec = 1, .tv_nsec = SECOND}},
        {"negative-ns", {.tv_sec = 1, .tv_nsec = -1}},
        {"negative", {.tv_sec = -1}},
        {"zero", {.tv_sec = 0}},
        {"past", {.tv_sec = 0, .tv_nsec = 1}},
        {"past-seconds", {.tv_sec = 1}},
    };
    struct pollfd *volatile nowhere = (struct pollfd *)8;
    struct timespec second = {.tv_sec = 1};
    struct itimerval value;
    struct sysinfo info;
    struct stat status;
    /* Its timer would never fire, or its name says that it knows only lengths of which these are none. */
    static const char *const excepted[] = {"alarm",
                                           "setitimer",
                                           "usleep",
                                           "sleep",
                                           "timer_settime",
                                           "timer_settime-monotonic",
                                           "timer_settime:realtime",
                                           "timer_settime:monotonic"};
    for (size_t row = 0; row < N_WAITS; row++) {
        bool is_excepted = strstr(waits[row].name, "poll") && !strstr(waits[row].name, "ppoll"); /* negative: for ever */
        is_excepted |= !!strstr(waits[row].name, "epoll");
        for (size_t one = 0; one < sizeof excepted / sizeof *excepted; one++)
            is_excepted |= strcmp(waits[row].name, excepted[one]) == 0;
        for (size_t time = 0; time < sizeof bad / sizeof *bad && !is_excepted; time++) {
            /* A length of a second is tested elsewhere, and select takes more microseconds than a second has. */
            bool is_length = !strchr(waits[row].name, ':') && ns(bad[time].time) >= SECOND;
            if (is_length && (strstr(bad[time].name, "past") || strcmp(waits[row].name, "select") == 0))
                continue;
            int result = waits[row].call(bad[time].time);
            say(waits[row].name, bad[time].name, result);
        }
    }
    for (size_t time = 0; time < 3; time++) {
        struct itimerspec both[2] = {{.it_value = bad[time].time}, {.it_value = second, .it_interval = bad[time].time}};
        timer_t timer;
        timer_create(CLOCK_REALTIME, NULL, &timer);
        for (int which = 0; which < 2; which++)
            for (int flags = 0; flags <= TIMER_ABSTIME; flags += TIMER_ABSTIME) {
                int result = answer(timer_settime(timer, flags, &both[which], NULL));
                say(which ? "timer-interval" : "timer-value", bad[time].name, result);
            }
        timer_delete(timer);
    }
    for (int which = ITIMER_REAL; which <= ITIMER_PROF + 1; which++) {
        static const struct itimerval settings[] = {{.it_value = {.tv_usec = 1000000}}, {.it_value = {.tv_usec = -1}},
                                                    {.it_value = {.tv_sec = -1}},       {.it_interval = {.tv_usec = 1000000}},
                                                    {.it_interval = {.tv_sec = -1}},    {.it_interval = {.tv_sec = 5}}};
        for (size_t one = 0; one < sizeof settings / sizeof *settings; one++) {
            int result = answer(setitimer(which, &settings[one], &value));
            say("setitimer", "setting", result);
        }
        int result = answer(getitimer(which, &value));
        say("getitimer", "which", result);
    }
    say("clock_gettime", "clock", answer(clock_gettime(1000, &second)));
    second = (struct timespec){.tv_sec = 1};
    say("clock_nanosleep", "clock", number(clock_nanosleep(1000, 0, &second, NULL)));
    say("clock_nanosleep", "coarse", number(clock_nanosleep(CLOCK_REALTIME_COARSE, 0, &second, NULL)));
    say("clock_nanosleep", "thread", number(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &second, NULL)));
    say("clock_nanosleep", "null", number(clock_nanosleep(CLOCK_REALTIME, 0, NULL, NULL)));
    say("nanosleep", "null", answer(nanosleep(NULL, NULL)));
    say("cond_clockwait", "clock", number(pthread_cond_clockwait(&calendar_condition, &free_mutex, CLOCK_TAI, &second)));
    say("sem_clockwait", "clock", answer(sem_clockwait(&semaphore, CLOCK_TAI, &second)));
    say("timespec_get", "base", number(timespec_get(&second, 1000)));
    say("poll", "count", answer(poll(nowhere, 1UL << 40, 0)));
    say("poll", "address", answer(poll(nowhere, 1, 0)));
    say("ppoll", "address", answer(ppoll(nowhere, 1, &(struct timespec){0}, NULL)));
    say("select", "count", answer(select(-1, NULL, NULL, NULL, &(struct timeval){0, 0})));
    say("pselect", "count", answer(pselect(-1, NULL, NULL, NULL, &(struct timespec){0}, NULL)));
    for (int timeout = -1; timeout <= 1; timeout++) {
        say("epoll_wait", "file", answer(epoll_wait(-1, events, 1, timeout)));
        say("epoll_wait", "count", answer(epoll_wait(epoll, events, 0, timeout)));
        say("epoll_pwait", "file", answer(epoll_pwait(0x7fff, events, 1, timeout, NULL)));
    }
    say("epoll_pwait2", "timeout", answer(epoll_pwait2(epoll, events, 1, &(struct timespec){.tv_sec = -1}, NULL)));
    say("stat", "none", answer(stat("/nonexistent", &status)));
    say("stat", "empty", answer(stat("", &status)));
    say("lstat", "none", answer(lstat("/nonexistent/x", &status)));
    say("fstat", "closed", answer(fstat(0x7fff, &status)));
    say("fstat", "negative", answer(fstat(-1, &status)));
    say("fstat", "AT_FDCWD", answer(fstat(AT_FDCWD, &status)));
    say("fstatat", "flags", answer(fstatat(AT_FDCWD, "/", &status, 1 << 30)));
    say("sysinfo", "good", answer(sysinfo(&info)));
    say("getitimer", "address", answer(getitimer(ITIMER_REAL, (struct itimerval *)8)));
    /* A good call leaves errno alone. */
    errno = 4711;
    time(NULL);
    clock_gettime(CLOCK_REALTIME, &second);
    gettimeofday(&(struct timeval){0, 0}, NULL);
    alarm(0);
    usleep(1);
    stat("/", &status);
    say("errno", "kept", answer(-1));
}

/* ---- files ---- */

#define TELL_TIMES(name, status)             \
    do {                                     \
        printf("%s", name);                  \
        tell("atime", ns((status).st_atim)); \
        tell("mtime", ns((status).st_mtim)); \
        tell("ctime", ns((status).st_ctim)); \
        tell("size", (status).st_size);      \
        printf("\n");                        \
    } while (0)

/* These names, which older programs call, cannot be linked with since glibc 2.33. */
typedef int stat_by_path(int version, const char *path, void *status);
typedef int stat_by_descriptor(int version, int descriptor, void *status);
typedef int stat_by_both(int version, int directory, const char *path, void *status, int flags);

static void files(const char *path)
{
    struct stat s;
    struct stat64 s64;
    int file = open(path, O_RDONLY);
#define TRY(name, room, ...)              \
    do {                                  \
        memset(&(room), 0, sizeof(room)); \
        if (name(__VA_ARGS__) == 0)       \
            TELL_TIMES(#name, room);      \
    } while (0)
#define TRY_OLD(kind, name, ...)                         \
    do {                                                 \
        kind *name = (kind *)dlsym(RTLD_DEFAULT, #name); \
        if (name)                                        \
            TRY(name, s, __VA_ARGS__);                   \
    } while (0)
    TRY(stat, s, path, &s);
    TRY(lstat, s, path, &s);
    TRY(fstat, s, file, &s);
    TRY(fstatat, s, AT_FDCWD, path, &s, 0);
    TRY(stat64, s64, path, &s64);
    TRY(lstat64, s64, path, &s64);
    TRY(fstat64, s64, file, &s64);
    TRY(fstatat64, s64, AT_FDCWD, path, &s64, 0);
    TRY_OLD(stat_by_path, __xstat, 1, path, &s);
    TRY_OLD(stat_by_path, __lxstat, 1, path, &s);
    TRY_OLD(stat_by_path, __xstat64, 1, path, &s);
    TRY_OLD(stat_by_path, __lxstat64, 1, path, &s);
    TRY_OLD(stat_by_descriptor, __fxstat, 1, file, &s);
    TRY_OLD(stat_by_descriptor, __fxstat64, 1, file, &s);
    TRY_OLD(stat_by_both, __fxstatat, 1, AT_FDCWD, path, &s, 0);
    TRY_OLD(stat_by_both, __fxstatat64, 1, AT_FDCWD, path, &s, 0);
}

/* ---- threads and processes ---- */

static void *call_for_ever(void *is_cancelled_anywhere)
{
    struct timespec t;
    struct timeval v;
    struct stat status;
    if (is_cancelled_anywhere)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        clock_gettime(CLOCK_REALTIME, &t);
        clock_gettime(CLOCK_MONOTONIC, &t);
        time(NULL);
        gettimeofday(&v, NULL);
        poll(NULL, 0, 1);
        t = (struct timespec){.tv_nsec = 1000};
        nanosleep(&t, &t);
        v = (struct timeval){.tv_usec = 1};
        select(0, NULL, NULL, NULL, &v);
        stat("/", &status);
        pthread_testcancel();
    }
    return NULL;
}

static void cancel(long long times)
{
    static int yes;
    for (long long round = 0; round < times; round++) {
        pthread_t thread;
        struct timespec pause = {.tv_nsec = round % 50 * 10000};
        pthread_create(&thread, NULL, call_for_ever, round % 2 ? &yes : NULL);
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    clocks();
}

static void fork_much(long long times)
{
    pthread_t threads[3];
    for (int one = 0; one < 3; one++)
        pthread_create(&threads[one], NULL, call_for_ever, NULL);
    for (long long round = 0; round < times; round++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            struct timespec t = {.tv_nsec = 1000};
            time(NULL);
            poll(NULL, 0, 1);
            nanosleep(&t, NULL);
            _exit(7);
        }
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
            exit(1);
    }
    clocks();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long long value = argc > 2 ? atoll(argv[argc - 1]) : 0;
    prepare();
    if (strcmp(what, "clocks") == 0)
        clocks();
    else if (strcmp(what, "wait") == 0)
        wait_for(find(argv[2]), value);
    else if (strcmp(what, "named") == 0)
        named(argv[2], find(argv[3]), value);
    else if (strcmp(what, "interrupt") == 0)
        interrupt(find(argv[2]), value, send_later);
    else if (strcmp(what, "signalled") == 0)
        interrupt(find(argv[2]), value, send_on_virtual_clock);
    else if (strcmp(what, "until") == 0)
        until(value);
    else if (strcmp(what, "timers") == 0)
        timers(value);
    else if (strcmp(what, "ready") == 0)
        ready(value);
    else if (strcmp(what, "wrong") == 0)
        wrong();
    else if (strcmp(what, "files") == 0)
        files(argv[2]);
    else if (strcmp(what, "cancel") == 0)
        cancel(value);
    else if (strcmp(what, "fork") == 0)
        fork_much(value);
    else
        return 2;
    return 0;
}
