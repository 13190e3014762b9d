/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - see address.h. */
#define _GNU_SOURCE
#include "io_adapters/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static int refuse(const char **why, const char *text) {
    *why = text;
    return UVCC_ERR_CONFIG;
}

static int parse_unix(uvcci_address *out, const char *path, const char **why) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const size_t n = strlen(path);
    if (n == 0)
        return refuse(why, "the path is missing: unix:/PATH");
    if (n >= sizeof un.sun_path)
        return refuse(why, "the path of a Unix socket has at most 107 bytes");
    memcpy(un.sun_path, path, n + 1);
    memcpy(&out->sa, &un, sizeof un);
    out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return 0;
}

/* HOST and PORT apart: the host without its brackets. */
static int split(const char *text, char host[UVCC_NET_ADDRESS_BYTES], const char **port,
                 const char **why) {
    const char *colon = strrchr(text, ':'), *from = text;
    size_t n;
    if (colon == NULL)
        return refuse(why, "the port is missing: HOST:PORT");
    n = (size_t)(colon - text);
    *port = colon + 1;
    if (*text == '[') {
        if (n < 2 || colon[-1] != ']')
            return refuse(why, "an IPv6 address stands in brackets: [ADDRESS]:PORT");
        from++;
        n -= 2;
    } else if (memchr(text, ':', n) != NULL) {
        return refuse(why, "an IPv6 address stands in brackets: [ADDRESS]:PORT");
    }
    if (n == 0)
        return refuse(why, "the host is missing: HOST:PORT");
    memcpy(host, from, n);
    host[n] = '\0';
    return 0;
}

static int parse_port(const char *text, bool listening, const char **why) {
    unsigned port = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || (port = 10 * port + (unsigned)(*p - '0')) > 65535)
            return refuse(why, "a port is a number up to 65535");
    }
    if (*text == '\0' || (port == 0 && !listening))
        return refuse(why, "the port is missing: 1 to 65535");
    return (int)port;
}

static int parse_host(uvcci_address *out, const char *host, uint16_t port, bool listening,
                      const char **why) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype =
                                 out->kind == UVCCI_ADDRESS_UDP ? SOCK_DGRAM : SOCK_STREAM},
                    *found = NULL;
    if (strcmp(host, "*") == 0) {
        struct sockaddr_in6 any = {
            .sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons(port)};
        if (!listening)
            return refuse(why, "* is no address of a peer: name its host");
        memcpy(&out->sa, &any, sizeof any);
        out->len = sizeof any;
        return 0;
    }
    const int rc = getaddrinfo(host, NULL, &hints, &found);
    if (rc != 0) {
        *why = gai_strerror(rc);
        return UVCC_ERR_IO;
    }
    memcpy(&out->sa, found->ai_addr, found->ai_addrlen);
    out->len = found->ai_addrlen;
    freeaddrinfo(found);
    if (out->sa.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&out->sa)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&out->sa)->sin_port = htons(port);
    return 0;
}

int uvcci_address_parse(uvcci_address *out, const char *text, bool listening, const char **why) {
    char host[UVCC_NET_ADDRESS_BYTES];
    const char *port_text = NULL;
    *out = (uvcci_address){0};
    if (text == NULL || strlen(text) >= UVCC_NET_ADDRESS_BYTES)
        return refuse(why, "an address has at most 255 bytes");
    if (strncmp(text, "unix:", 5) == 0) {
        out->kind = UVCCI_ADDRESS_UNIX;
        return parse_unix(out, text + 5, why);
    }
    if (strncmp(text, "tcp:", 4) == 0)
        out->kind = UVCCI_ADDRESS_TCP;
    else if (strncmp(text, "udp:", 4) == 0)
        out->kind = UVCCI_ADDRESS_UDP;
    else
        return refuse(why, "an address is tcp:HOST:PORT, udp:HOST:PORT or unix:/PATH");
    int rc = split(text + 4, host, &port_text, why);
    if (rc == 0)
        rc = parse_port(port_text, listening, why);
    return rc < 0 ? rc : parse_host(out, host, (uint16_t)rc, listening, why);
}

uint16_t uvcci_address_port(const uvcci_address *a) {
    if (a->sa.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&a->sa)->sin6_port);
    return a->sa.ss_family == AF_INET ? ntohs(((const struct sockaddr_in *)&a->sa)->sin_port) : 0;
}

void uvcci_address_format(const uvcci_address *a, char out[UVCC_NET_ADDRESS_BYTES]) {
    const char *scheme = a->kind == UVCCI_ADDRESS_UDP ? "udp" : "tcp";
    char host[INET6_ADDRSTRLEN] = "";
    if (a->sa.ss_family == AF_UNIX) {
        const char *path = ((const struct sockaddr_un *)&a->sa)->sun_path;
        (void)snprintf(out, UVCC_NET_ADDRESS_BYTES, "unix:%s",
                       a->len > offsetof(struct sockaddr_un, sun_path) ? path : "");
    } else if (a->sa.ss_family == AF_INET6) {
        const struct in6_addr *in6 = &((const struct sockaddr_in6 *)&a->sa)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(in6)) {
            (void)inet_ntop(AF_INET, in6->s6_addr + 12, host, sizeof host);
            (void)snprintf(out, UVCC_NET_ADDRESS_BYTES, "%s:%s:%u", scheme, host,
                           uvcci_address_port(a));
        } else {
            (void)inet_ntop(AF_INET6, in6, host, sizeof host);
            (void)snprintf(out, UVCC_NET_ADDRESS_BYTES, "%s:[%s]:%u", scheme, host,
                           uvcci_address_port(a));
        }
    } else {
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)&a->sa)->sin_addr, host,
                        sizeof host);
        (void)snprintf(out, UVCC_NET_ADDRESS_BYTES, "%s:%s:%u", scheme, host,
                       uvcci_address_port(a));
    }
}

void uvcci_address_to_v6(uvcci_address *a) {
    if (a->sa.ss_family != AF_INET)
        return;
    struct sockaddr_in in;
    memcpy(&in, &a->sa, sizeof in);
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = in.sin_port};
    in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
    memcpy(in6.sin6_addr.s6_addr + 12, &in.sin_addr, 4);
    memcpy(&a->sa, &in6, sizeof in6);
    a->len = sizeof in6;
}

bool uvcci_address_same_host(const uvcci_address *a, const uvcci_address *b) {
    uvcci_address x = *a, y = *b;
    if (x.sa.ss_family == AF_UNIX || y.sa.ss_family == AF_UNIX)
        return true;
    uvcci_address_to_v6(&x);
    uvcci_address_to_v6(&y);
    const struct sockaddr_in6 *p = (const struct sockaddr_in6 *)&x.sa,
                              *q = (const struct sockaddr_in6 *)&y.sa;
    return p->sin6_scope_id == q->sin6_scope_id &&
           memcmp(&p->sin6_addr, &q->sin6_addr, sizeof p->sin6_addr) == 0;
}

bool uvcci_address_equal(const uvcci_address *a, const uvcci_address *b) {
    const bool local = a->sa.ss_family == AF_UNIX || b->sa.ss_family == AF_UNIX;
    if (local)
        return a->len == b->len && memcmp(&a->sa, &b->sa, a->len) == 0;
    return uvcci_address_port(a) == uvcci_address_port(b) && uvcci_address_same_host(a, b);
}
