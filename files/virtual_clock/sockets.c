/* Connections that send at once. */
#define _GNU_SOURCE
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
