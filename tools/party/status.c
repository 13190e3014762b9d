/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - see status.h. A connection reads one request, gets one answer and is closed: no
 * keep-alive, no body. After the answer what else came is read and thrown away for a moment, since
 * closing a socket with unread bytes would take the answer back. */
#define _GNU_SOURCE /* accept4 */
#include "status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uvcc/host.h>
#include <uvcc/types.h>

enum {
    ACCEPTS_PER_TURN = 8,
    WRITE_PER_TURN = 65536,
    DRAIN_MAX = 65536,
    PAGE_MAX = 4 << 20,
    HEAD_BYTES = 256
};
#define DRAIN_NS  1000000000ull
#define ACCEPT_NS 100000000ull /* until the next try where there was no descriptor */

/* A page, kept by those who are sending it. */
typedef struct page {
    uint32_t users;
    uint64_t made_ns;
    size_t len;
    char *bytes;
} page;

typedef struct client {
    int fd; /* -1: free */
    uint64_t since, deadline;
    enum { READING, WRITING, DRAINING } state;
    char in[STATUS_REQUEST_BYTES];
    size_t have;
    char head[HEAD_BYTES];
    size_t head_len, sent, drained;
    page *body; /* NULL: the head is all */
    bool head_only;
} client;

enum { METRICS, STATUS, PAGES };
struct status_page {
    status_source source;
    char address[256], path[sizeof((struct sockaddr_un *)0)->sun_path];
    bool local; /* TCP of this machine: the Host of a request must be too */
    int poll, listener;
    uint64_t accept_at; /* 0: it is watched */
    client client[STATUS_CONNECTIONS];
    page *page[PAGES];
    status_counts counts;
};

/* ---- addresses ---- */

typedef struct place {
    struct sockaddr_storage at;
    socklen_t len;
    bool local;
} place;

static int say(char *why, size_t cap, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int say(char *why, size_t cap, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, cap, format, args);
    va_end(args);
    return -1;
}

static bool is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6);
}

static int parse_unix(const char *path, place *out, char *why, size_t cap) {
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&out->at;
    if (*path == '\0' || strlen(path) >= sizeof un->sun_path)
        return say(why, cap, "the path of a Unix socket has 1 to %zu bytes",
                   sizeof un->sun_path - 1);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, strlen(path) + 1);
    out->len = sizeof *un;
    return 0;
}

/* Numbers only: nothing is looked up. */
static int parse(const char *address, place *out, char *why, size_t cap) {
    static const char anywhere[] = "anywhere:";
    char host[64];
    memset(out, 0, sizeof *out);
    if (strncmp(address, "unix:", 5) == 0)
        return parse_unix(address + 5, out, why, cap);
    const bool any = strncmp(address, anywhere, sizeof anywhere - 1) == 0;
    address += any ? sizeof anywhere - 1 : 0;
    const char *colon = strrchr(address, ':');
    size_t n = colon != NULL ? (size_t)(colon - address) : 0;
    const char *from = address;
    if (n >= 2 && address[0] == '[' && address[n - 1] == ']') {
        from++;
        n -= 2;
    }
    if (n == 0 || n >= sizeof host || colon[1] == '\0')
        return say(why, cap, "give 127.0.0.1:PORT, [::1]:PORT or unix:PATH");
    memcpy(host, from, n);
    host[n] = '\0';
    if (strcmp(host, "localhost") == 0)
        memcpy(host, "127.0.0.1", sizeof "127.0.0.1");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return say(why, cap, "\"%.60s\" is no address: give numbers, as 127.0.0.1:9100", address);
    memcpy(&out->at, found->ai_addr, found->ai_addrlen);
    out->len = found->ai_addrlen;
    out->local = is_loopback(found->ai_addr);
    freeaddrinfo(found);
    if (!out->local && !any)
        return say(why, cap,
                   "%.60s can be reached by other machines, and nobody is asked who he is: give "
                   "127.0.0.1:PORT, or anywhere:%.60s if that is meant",
                   address, address);
    return 0;
}

int status_address_check(const char *address, char *why, size_t cap) {
    place at;
    return parse(address, &at, why, cap);
}

/* ---- pages ---- */

static void page_leave(page *p) {
    if (p != NULL && --p->users == 0) {
        free(p->bytes);
        free(p);
    }
}

static int write_status(status_page *s, FILE *to) {
    json_t *o = s->source.status(s->source.user);
    const int rc = o != NULL ? json_dumpf(o, to, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : -1;
    json_decref(o);
    (void)fputc('\n', to);
    return rc;
}

static void write_own_metrics(const status_page *s, FILE *to) {
    (void)fprintf(to,
                  "# HELP uvcc_status_requests_total Requests to this page, by what came of them.\n"
                  "# TYPE uvcc_status_requests_total counter\n"
                  "uvcc_status_requests_total{result=\"answered\"} %llu\n"
                  "uvcc_status_requests_total{result=\"refused\"} %llu\n"
                  "uvcc_status_requests_total{result=\"cut\"} %llu\n",
                  (unsigned long long)s->counts.answered, (unsigned long long)s->counts.refused,
                  (unsigned long long)s->counts.cut);
}

/* The page, which may be a tenth of a second old; NULL: no memory. */
static page *page_get(status_page *s, unsigned which, uint64_t now) {
    page *p = s->page[which];
    if (p != NULL && now < p->made_ns + STATUS_PAGE_NS) {
        p->users++;
        return p;
    }
    page_leave(p);
    s->page[which] = NULL;
    p = calloc(1, sizeof *p);
    FILE *to = p != NULL ? open_memstream(&p->bytes, &p->len) : NULL;
    if (to == NULL) {
        free(p);
        return NULL;
    }
    int rc = 0;
    if (which == STATUS) {
        rc = write_status(s, to);
    } else {
        s->source.metrics(s->source.user, to);
        write_own_metrics(s, to);
    }
    if (fclose(to) != 0 || rc != 0 || p->len > PAGE_MAX) {
        free(p->bytes);
        free(p);
        return NULL;
    }
    s->counts.pages++;
    p->made_ns = now;
    p->users = 2; /* this table's, and the caller's */
    s->page[which] = p;
    return p;
}

/* ---- connections ---- */

static void cut(status_page *s, client *c) {
    if (c->fd < 0)
        return;
    (void)close(c->fd); /* and so it is watched no more */
    page_leave(c->body);
    c->body = NULL;
    c->fd = -1;
    s->counts.connections--;
}

static void watch(status_page *s, client *c, uint32_t events) {
    struct epoll_event e = {.events = events, .data.u32 = (uint32_t)(c - s->client)};
    (void)epoll_ctl(s->poll, EPOLL_CTL_MOD, c->fd, &e);
}

static void answer(status_page *s, client *c, const char *line, const char *type, const char *more,
                   page *body) {
    const size_t len = body != NULL ? body->len : strlen(line) + 1;
    int n = snprintf(c->head, sizeof c->head,
                     "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
                     "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
                     line, type, len, more);
    if (body == NULL && !c->head_only)
        n += snprintf(c->head + n, sizeof c->head - (size_t)n, "%s\n", line);
    c->head_len = (size_t)n;
    c->body = body;
    c->sent = 0;
    c->state = WRITING;
    watch(s, c, EPOLLOUT);
}

static void refuse(status_page *s, client *c, const char *line, const char *more) {
    s->counts.refused++;
    answer(s, c, line, "text/plain; charset=utf-8", more, NULL);
}

/* A page of the web that a browser shows may ask names of its own that lead here: it must not read
 * the answer. Numbers and localhost are what people and collectors use. */
static bool host_fits(const status_page *s, const char *request) {
    if (!s->local)
        return true;
    const char *at = strcasestr(request, "\nhost:");
    if (at == NULL)
        return true; /* browsers always say it */
    at += strlen("\nhost:");
    at += strspn(at, " \t");
    const size_t n = strcspn(at, " \t\r\n");
    const size_t name = at[0] == '[' ? n : strcspn(at, ":\r\n \t");
    if (name == 9 && strncasecmp(at, "localhost", 9) == 0)
        return true;
    return n != 0 && strspn(at, "0123456789.:[]abcdefABCDEF") >= n &&
           (at[0] == '[' || strspn(at, "0123456789.") >= name);
}

static bool names(const char *target, size_t len, const char *path) {
    const char *query = memchr(target, '?', len);
    len = query != NULL ? (size_t)(query - target) : len;
    return len == strlen(path) && memcmp(target, path, len) == 0;
}

/* The request's head is whole, and a string. */
static void take(status_page *s, client *c, uint64_t now) {
    const char *method = c->in, *target = strchr(method, ' ');
    const size_t line = strcspn(c->in, "\r\n");
    const char *version = target != NULL ? strchr(target + 1, ' ') : NULL;
    if (version == NULL || version >= c->in + line || strncmp(version, " HTTP/1.", 8) != 0) {
        refuse(s, c, "400 Bad Request", "");
        return;
    }
    c->head_only = strncmp(method, "HEAD ", 5) == 0;
    if (!c->head_only && strncmp(method, "GET ", 4) != 0) {
        refuse(s, c, "405 Method Not Allowed", "Allow: GET, HEAD\r\n");
        return;
    }
    if (!host_fits(s, c->in)) {
        refuse(s, c, "403 Forbidden", "");
        return;
    }
    const size_t len = (size_t)(version - ++target);
    const bool metrics = names(target, len, "/metrics");
    if (!metrics && !names(target, len, "/status") && !names(target, len, "/")) {
        refuse(s, c, "404 Not Found", "");
        return;
    }
    page *body = page_get(s, metrics ? METRICS : STATUS, now);
    if (body == NULL) {
        refuse(s, c, "503 Service Unavailable", "");
        return;
    }
    s->counts.answered++;
    answer(s, c, "200 OK",
           metrics ? "text/plain; version=0.0.4; charset=utf-8" : "application/json", "", body);
}

static void read_request(status_page *s, client *c, uint64_t now) {
    const ssize_t n = recv(c->fd, c->in + c->have, sizeof c->in - 1 - c->have, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        s->counts.cut += c->have != 0;
        cut(s, c);
        return;
    }
    c->have += (size_t)n;
    c->in[c->have] = '\0';
    if (memchr(c->in, 0, c->have) != NULL)
        refuse(s, c, "400 Bad Request", "");
    else if (strstr(c->in, "\r\n\r\n") != NULL || strstr(c->in, "\n\n") != NULL)
        take(s, c, now);
    else if (c->have == sizeof c->in - 1)
        refuse(s, c, "431 Request Header Fields Too Large", "");
}

static void write_answer(status_page *s, client *c, uint64_t now) {
    const size_t body = c->body != NULL && !c->head_only ? c->body->len : 0;
    for (size_t left = WRITE_PER_TURN; left != 0 && c->sent < c->head_len + body;) {
        const bool head = c->sent < c->head_len;
        const char *from = head ? c->head + c->sent : c->body->bytes + (c->sent - c->head_len);
        size_t len = head ? c->head_len - c->sent : c->head_len + body - c->sent;
        len = len < left ? len : left;
        const ssize_t n = send(c->fd, from, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            s->counts.cut++;
            cut(s, c);
            return;
        }
        c->sent += (size_t)n;
        left -= (size_t)n;
    }
    if (c->sent < c->head_len + body)
        return;
    (void)shutdown(c->fd, SHUT_WR);
    page_leave(c->body);
    c->body = NULL;
    c->state = DRAINING;
    c->deadline = now + DRAIN_NS < c->deadline ? now + DRAIN_NS : c->deadline;
    watch(s, c, EPOLLIN);
}

static void drain(status_page *s, client *c) {
    char room[4096];
    const ssize_t n = recv(c->fd, room, sizeof room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->drained += n > 0 ? (size_t)n : 0;
    if (n <= 0 || c->drained > DRAIN_MAX)
        cut(s, c);
}

/* A free place, or that of the connection that has been here longest. */
static client *room_for_one(status_page *s) {
    client *oldest = &s->client[0];
    for (unsigned i = 0; i < STATUS_CONNECTIONS; i++) {
        client *c = &s->client[i];
        if (c->fd < 0)
            return c;
        oldest = c->since < oldest->since ? c : oldest;
    }
    s->counts.cut++;
    cut(s, oldest);
    return oldest;
}

static void watch_listener(status_page *s, bool on) {
    struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.u32 = STATUS_CONNECTIONS};
    (void)epoll_ctl(s->poll, EPOLL_CTL_MOD, s->listener, &e);
}

static void accept_some(status_page *s, uint64_t now) {
    for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
        const int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                s->accept_at = now + ACCEPT_NS;
                watch_listener(s, false);
            }
            return;
        }
        client *c = room_for_one(s);
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)(c - s->client)};
        if (epoll_ctl(s->poll, EPOLL_CTL_ADD, fd, &e) != 0) {
            (void)close(fd);
            return;
        }
        memset(c, 0, sizeof *c);
        c->fd = fd;
        c->since = now;
        c->deadline = now + STATUS_LIFE_NS;
        s->counts.connections++;
    }
}

/* ---- the loop ---- */

int status_fd(const status_page *s) {
    return s->poll;
}

uint64_t status_deadline(const status_page *s) {
    uint64_t at = s->accept_at != 0 ? s->accept_at : UVCC_NEVER;
    for (unsigned i = 0; i < STATUS_CONNECTIONS; i++)
        if (s->client[i].fd >= 0 && s->client[i].deadline < at)
            at = s->client[i].deadline;
    return at;
}

void status_turn(status_page *s, uint64_t now) {
    struct epoll_event ready[STATUS_CONNECTIONS + 1];
    if (s->accept_at != 0 && now >= s->accept_at) {
        s->accept_at = 0;
        watch_listener(s, true);
    }
    const int n = epoll_wait(s->poll, ready, STATUS_CONNECTIONS + 1, 0);
    bool accepts = false;
    for (int i = 0; i < n; i++) {
        if (ready[i].data.u32 == STATUS_CONNECTIONS) {
            accepts = true; /* afterwards: a place that it takes was somebody's */
            continue;
        }
        client *c = &s->client[ready[i].data.u32];
        if (c->state == READING)
            read_request(s, c, now);
        else if (c->state == WRITING)
            write_answer(s, c, now);
        else
            drain(s, c);
    }
    if (accepts)
        accept_some(s, now);
    for (unsigned i = 0; i < STATUS_CONNECTIONS; i++)
        if (s->client[i].fd >= 0 && now >= s->client[i].deadline) {
            s->counts.cut += s->client[i].state != DRAINING;
            cut(s, &s->client[i]);
        }
}

void status_get_counts(const status_page *s, status_counts *out) {
    *out = s->counts;
}

/* ---- life ---- */

const char *status_address(const status_page *s) {
    return s->address;
}

/* A file that nobody listens at any more goes. Who listens and takes nobody is not waited for. */
static void clear_path(const place *at) {
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&at->at;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;
    if (fd < 0)
        return;
    if (lstat(un->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        connect(fd, (const struct sockaddr *)un, at->len) != 0 && errno == ECONNREFUSED)
        (void)unlink(un->sun_path);
    (void)close(fd);
}

static void name_it(status_page *s, const char *address, const place *at) {
    struct sockaddr_storage got;
    socklen_t len = sizeof got;
    char host[INET6_ADDRSTRLEN] = "", port[8] = "";
    s->local = at->local;
    if (at->at.ss_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&at->at;
        memcpy(s->path, un->sun_path, sizeof s->path);
        (void)snprintf(s->address, sizeof s->address, "%s", address);
        return;
    }
    if (getsockname(s->listener, (struct sockaddr *)&got, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&got, len, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    const bool v6 = at->at.ss_family == AF_INET6;
    (void)snprintf(s->address, sizeof s->address, "%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
                   port);
}

/* Only this user may connect to a Unix socket. */
static int listen_at(status_page *s, const place *at) {
    const int one = 1;
    s->listener = socket(at->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listener < 0)
        return -1;
    if (at->at.ss_family == AF_UNIX)
        clear_path(at);
    else
        (void)setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const mode_t mask = umask(0077);
    const int rc = bind(s->listener, (const struct sockaddr *)&at->at, at->len);
    (void)umask(mask);
    return rc != 0 ? -1 : listen(s->listener, 64);
}

int status_open(status_page **out, const char *address, const status_source *source, char *why,
                size_t cap) {
    place at;
    if (parse(address, &at, why, cap) != 0)
        return -1;
    status_page *s = calloc(1, sizeof *s);
    if (s == NULL)
        return say(why, cap, "out of memory");
    s->source = *source;
    s->listener = -1;
    for (unsigned i = 0; i < STATUS_CONNECTIONS; i++)
        s->client[i].fd = -1;
    s->poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = STATUS_CONNECTIONS};
    if (s->poll < 0 || listen_at(s, &at) != 0 ||
        epoll_ctl(s->poll, EPOLL_CTL_ADD, s->listener, &e) != 0) {
        (void)say(why, cap, "%.100s cannot be listened at: %s", address, strerror(errno));
        status_close(s);
        return -1;
    }
    name_it(s, address, &at);
    *out = s;
    return 0;
}

void status_close(status_page *s) {
    if (s == NULL)
        return;
    for (unsigned i = 0; i < STATUS_CONNECTIONS; i++)
        cut(s, &s->client[i]);
    for (unsigned i = 0; i < PAGES; i++)
        page_leave(s->page[i]);
    if (s->listener >= 0)
        (void)close(s->listener);
    if (s->poll >= 0)
        (void)close(s->poll);
    if (s->path[0] != '\0')
        (void)unlink(s->path);
    free(s);
}
