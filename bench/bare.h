/* SPDX-License-Identifier: Apache-2.0 */
/* bare.h - what bench_net compares links with: a non-blocking copy over the same kind of socket,
 * with the same cipher, or TLS by its library's own calls, and nothing else. */
#ifndef UVCC_BENCH_BARE_H
#define UVCC_BENCH_BARE_H

#include <stddef.h>
#include <stdint.h>

typedef enum bare_socket { BARE_TCP, BARE_UNIX, BARE_UDP } bare_socket;
typedef enum bare_tls { BARE_PLAIN, BARE_OPENSSL, BARE_MBEDTLS } bare_tls;

#define BARE_PACKET_BYTES 1232u /* UDP: what a link sends by default */
#define BARE_KEY_BYTES    32u

typedef struct bare bare;

/* Two ends that are connected (TLS has shaken hands by `key`), each for a thread of its own. Errors
 * end the program. */
void bare_pair(bare *end[2], bare_socket kind, bare_tls tls, const uint8_t key[BARE_KEY_BYTES]);
void bare_free(bare *b);
/* `bytes` in messages of 1 MiB from one end to the other. suite: as of uvcc_link_set_keys, sealed
 * in blocks of 64 KiB; 0: not sealed. UDP: runs of packets that the kernel cuts and joins, with no
 * more on the way than the receiver's buffer takes. Returns at the sender when all is written, at
 * the receiver when all is there. */
void bare_copy_out(bare *b, int suite, size_t bytes);
void bare_copy_in(bare *b, int suite, size_t bytes);
/* len bytes, at once. */
void bare_send(bare *b, const uint8_t *bytes, size_t len);
void bare_recv(bare *b, uint8_t *bytes, size_t len);

#endif
