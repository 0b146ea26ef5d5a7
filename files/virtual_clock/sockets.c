/* Connections that send at once, and are opened one after another. */
#define _GNU_SOURCE
#include "event_clock.h"
#include "slurm_quirks.h"
#include "virtual_clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

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

EXPORT int connect(int file, const struct sockaddr *address, socklen_t length)
{
    bool is_message = !is_real() && event_page && address && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
    if (is_message && is_daemon() && event_stands()) {
        int error = errno, state;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        (void)event_sleep(event_now() + MOMENT);
        pthread_setcancelstate(state, NULL);
        errno = error;
    }
    return real_connect(file, address, length);
}
