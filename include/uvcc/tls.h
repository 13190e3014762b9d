/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/tls.h - with whom and by what the connections of <uvcc/net.h> speak TLS. Library uvcc-io.
 *
 * TLS hides from the network which frames travel and when sessions begin, and it shows whose the
 * other end is before a session hears a byte of it. It replaces nothing of a session's own: frames
 * stay sealed inside, and each channel is bound into HELLO (wire.md 5), so that who relays between
 * two TLS connections is found out.
 *
 * Both ends prove who they are, by certificates or by a key that each pair of parties shares. */
#ifndef UVCC_TLS_H
#define UVCC_TLS_H

#include <stdbool.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Which library does it. AUTO: OpenSSL if it is built in, else mbedTLS. The two speak with each
 * other where both may speak TLS 1.2. */
enum {
    UVCC_TLS_AUTO = 0,
    UVCC_TLS_OPENSSL = 1, /**< TLS 1.3; binding by the exporter (RFC 9266, tls-exporter) */
    UVCC_TLS_MBEDTLS = 2, /**< 2.28: TLS 1.2, ECDHE with AES-GCM or ChaCha20-Poly1305, extended
                               master secret; binding by the exporter of RFC 5705 */
};
UVCC_API bool uvcc_tls_is_here(uint32_t library);
/** What a command line calls it, such as "openssl"; NULL for anything else. */
UVCC_API const char *uvcc_tls_name(uint32_t library);

/** Least and greatest bytes of a shared key. */
#define UVCC_TLS_PSK_MIN_BYTES 32u
#define UVCC_TLS_PSK_MAX_BYTES 64u

typedef struct uvcc_tls_config {
    size_t size; /**< sizeof(uvcc_tls_config) */
    uvcc_allocator alloc;
    uvcc_logger log;  /**< what is wrong with the configuration, without secrets; why a connection
                           was refused says the net's */
    uint32_t library; /**< UVCC_TLS_* */
    uint8_t party;    /**< of this end */
    bool tls12;       /**< OpenSSL: TLS 1.2 is spoken too, for a peer with mbedTLS */
    /** Certificates: PEM files of at most 1 MiB with this party's chain, its key, and the
     * authorities that the peers' certificates come from (a self-signed one of each peer is as
     * good; one that has a peer's name must not sign others: CA:FALSE). All three or none; they
     * are read by uvcc_tls_new() only. The key file must be this user's alone (mode 0600), without
     * a passphrase. */
    const char *certificate, *key, *authorities;
    /** The name (subjectAltName, DNS) that the certificate of each party must carry. NULL:
     * "party-0", "party-1", "party-2". The own one is ignored. */
    const char *name[UVCC_PARTIES];
    /** Or, without certificates, the key shared with each peer; the own one is ignored; NULL: that
     * peer is not spoken with. Each from a random generator, and no two alike. What goes into TLS
     * is derived from it; the key itself is not kept. With ECDHE: who learns the key later reads
     * nothing of before. */
    const uint8_t *psk[UVCC_PARTIES];
    size_t psk_len[UVCC_PARTIES];
    /** With certificates: a PEM file of revocation lists, one of each authority that may sign, also
     * read by uvcc_tls_new() only. A certificate on the list of its issuer is refused; so are all
     * that an issuer made whose list is past its nextUpdate. NULL: nothing is revoked. */
    const char *crl;
} uvcc_tls_config;

typedef struct uvcc_tls uvcc_tls;
/** One for all connections of a party; reads the files. UVCC_ERR_CONFIG: the log says what is wrong
 * with which member or file; UVCC_ERR_NOT_FOUND: the library is not built in. It must outlive its
 * connections, and one thread at a time uses it and them. */
UVCC_API int uvcc_tls_new(uvcc_tls **out, const uvcc_tls_config *cfg) UVCC_MUST_USE;
UVCC_API void uvcc_tls_free(uvcc_tls *t);
/** The parties whose names (uvcc_tls_config.name) stand in the own certificate, a bit for each: the
 * peers of a party without its own bit refuse it. 0 with shared keys, and for NULL. */
UVCC_API uint32_t uvcc_tls_own_names(const uvcc_tls *t);

#ifdef __cplusplus
}
#endif
#endif
