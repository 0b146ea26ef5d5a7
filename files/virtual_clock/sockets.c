/* Connections that send at once, and are opened one after another; names of loopback addresses. */
#define _GNU_SOURCE
#include "event_clock.h"
#include "idle_cycles.h"
#include "slurm_quirks.h"
#include "virtual_clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

/*
 * TCP delays the second of two short writes until the first one is acknowledged, which takes the other side up to 40 ms: the
 * kernel's own time, in which nothing of the instance runs. Slurm's daemons write the length of a message, then the message. So
 * each connection sends at once; accepted ones inherit it from the socket that listens.
 */
EXPORT int socket(int domain, int type, int protocol)
{
    is_real();
    int file = real_socket(domain, type, protocol);
    if (file >= 0 && (domain == AF_INET || domain == AF_INET6) && (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM) {
        int error = errno, on = 1;
        (void)setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        errno = error;
    }
    return file;
}

/*
 * On the event-driven clock the daemons open a connection a moment later: when all that went on at this instant has come to rest,
 * and one after another in the order of waits that end at the same instant. Otherwise the order in which messages of several
 * daemons arrive, and what else has been done by then, would depend on the host.
 */
#define MOMENT 1000

static void wait_for_turn(void)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    (void)event_sleep(event_now() + MOMENT);
    pthread_setcancelstate(state, NULL);
}

/*
 * Between processes of one host the kernel knows at once whether a connection is open or refused. There are exceptions, after which
 * it sends the first packet again, 8 ms to a second of its own time later: the port is that of a former connection (TIME_WAIT) to a
 * program that does not listen any more, or too many connections wait to be accepted. Nothing of the instance runs meanwhile, so
 * time is held, but not for a program that never accepts.
 */
#define LONGEST_DECISION_S 2

static void wait_for_decision(int file)
{
    struct pollfd connecting = {.fd = file, .events = POLLOUT};
    const struct timespec none = {0}, longest = {.tv_sec = LONGEST_DECISION_S};
    struct event_hold hold;
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (real_ppoll(&connecting, 1, &none, NULL) == 0) {
        event_hold_begin(&hold);
        (void)real_ppoll(&connecting, 1, &longest, NULL);
        event_hold_end(&hold);
    }
    pthread_setcancelstate(state, NULL);
}

EXPORT int connect(int file, const struct sockaddr *address, socklen_t length)
{
    bool is_message = !is_real() && event_page && address && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
    int error = errno;
    if (!is_message || !event_stands())
        return real_connect(file, address, length);
    state_changed();
    if (is_daemon())
        wait_for_turn();
    errno = error;
    int result = real_connect(file, address, length);
    error = errno;
    if (result < 0 && error == EINPROGRESS)
        wait_for_decision(file);
    errno = error;
    return result;
}

/* A message may change the state of jobs and nodes, whoever takes it. */
EXPORT int accept(int file, struct sockaddr *restrict address, socklen_t *restrict length)
{
    is_real();
    int accepted = real_accept(file, address, length);
    if (accepted >= 0)
        state_changed();
    return accepted;
}

EXPORT int accept4(int file, struct sockaddr *restrict address, socklen_t *restrict length, int flags)
{
    is_real();
    int accepted = real_accept4(file, address, length, flags);
    if (accepted >= 0)
        state_changed();
    return accepted;
}

/*
 * slurmctld 25.11 looks up the name of each address that it writes to its log or takes a message from (common/util-net.c,
 * xgetnameinfo). A cluster's loopback addresses beyond 127.0.0.1 have no name. Without a reachable name server each lookup would
 * take 10 s of real time, in which the event-driven clock goes on by days. Slurm writes the number of an address without a name.
 */
static bool has_no_name(const struct sockaddr *address, socklen_t length)
{
    if (!address || length < (socklen_t)sizeof(struct sockaddr_in) || address->sa_family != AF_INET)
        return false;
    uint32_t number = ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
    return number >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET && number != INADDR_LOOPBACK;
}

EXPORT int getnameinfo(const struct sockaddr *restrict address, socklen_t length, char *restrict host, socklen_t host_length,
                       char *restrict service, socklen_t service_length, int flags)
{
    is_real();
    if (host && has_no_name(address, length)) {
        if (flags & NI_NAMEREQD)
            return EAI_NONAME;
        flags |= NI_NUMERICHOST;
    }
    return real_getnameinfo(address, length, host, host_length, service, service_length, flags);
}
