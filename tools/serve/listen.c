#include "listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store.h"

/* "[::1]:8000" in two. False: it has no port. */
static bool take_apart(const char *address, char *host, size_t room, const char **out_port)
{
    const char *colon = strrchr(address, ':');
    if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")]) return false;
    const char *from = address, *to = colon;
    if (*from == '[') {
        if (to[-1] != ']') return false;
        from++;
        to--;
    } else if (memchr(from, ':', (size_t)(to - from))) {
        return false;
    }
    size_t len = (size_t)(to - from);
    if (len >= room) return false;
    memcpy(host, from, len);
    host[len] = 0;
    *out_port = colon + 1;
    return true;
}

static bool name_socket(int fd, char *out, size_t room)
{
    struct sockaddr_storage taken = {0};
    socklen_t len = sizeof taken;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(fd, (struct sockaddr *)&taken, &len) != 0 ||
        getnameinfo((struct sockaddr *)&taken, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    snprintf(out, room, taken.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return true;
}

static int open_socket(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol), on = 1, off = 0;
    if (fd < 0) return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off); /* "[::]" is IPv4, too */
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

hyp_status listen_at(const char *address, int *out_fd, char *out_address, size_t room, hyp_diag *diag)
{
    char host[NI_MAXHOST];
    const char *port;
    if (!take_apart(address, host, sizeof host, &port))
        return refuse(diag, HYP_ERR_INVALID_ARGUMENT,
                      "'%s' is no address to listen at; wanted HOST:PORT, as 127.0.0.1:8000, [::1]:8000 or :8000",
                      show(address).text);
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
    int failed = getaddrinfo(*host ? host : NULL, port, &hints, &found);
    if (failed)
        return refuse(diag, HYP_ERR_IO, "'%s' is no address to listen at: %s", show(address).text,
                      gai_strerror(failed));
    int fd = -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) fd = open_socket(at);
    int error = errno;
    freeaddrinfo(found);
    if (fd < 0) return refuse(diag, HYP_ERR_IO, "'%s' cannot be listened at: %s", show(address).text, strerror(error));
    if (!name_socket(fd, out_address, room)) snprintf(out_address, room, "%s", address);
    *out_fd = fd;
    return HYP_OK;
}
