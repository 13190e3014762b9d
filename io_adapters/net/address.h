/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - addresses as text: "tcp:HOST:PORT", "udp:HOST:PORT", "unix:/PATH" (uvcc/net.h). */
#ifndef UVCC_IO_ADDRESS_H
#define UVCC_IO_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include <uvcc/net.h>

typedef enum uvcci_address_kind {
    UVCCI_ADDRESS_NONE = 0,
    UVCCI_ADDRESS_TCP,
    UVCCI_ADDRESS_UNIX,
    UVCCI_ADDRESS_UDP,
} uvcci_address_kind;

typedef struct uvcci_address {
    uvcci_address_kind kind;
    struct sockaddr_storage sa;
    socklen_t len;
} uvcci_address;

/** Reads an address and, if HOST is a name, looks it up, which may take as long as the system's
 * resolver does. `listening`: HOST may be *, PORT 0. On error *why (static, or of the resolver)
 * says what is wrong. UVCC_ERR_CONFIG: the text is no such address. UVCC_ERR_IO: the name is not
 * known now, which may change. */
int uvcci_address_parse(uvcci_address *out, const char *text, bool listening, const char **why);
/** As text, which uvcci_address_parse() reads. */
void uvcci_address_format(const uvcci_address *a, char out[UVCC_NET_ADDRESS_BYTES]);
/** The same machine and port; an IPv4 address as such or mapped into IPv6 is one. */
bool uvcci_address_equal(const uvcci_address *a, const uvcci_address *b);
/** The same machine, whatever the port. True if one of them is of Unix sockets. */
bool uvcci_address_same_host(const uvcci_address *a, const uvcci_address *b);
/** 0 for Unix. */
uint16_t uvcci_address_port(const uvcci_address *a);
/** An IPv4 address as IPv6 sockets have it. */
void uvcci_address_to_v6(uvcci_address *a);

#endif
