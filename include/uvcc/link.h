/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/link.h - a reliable message link to one peer over a byte stream or datagrams, sans I/O.
 *
 * What it does: cuts messages into frames (seq, chunk, piece, CRC, seal), keeps them until
 * acknowledged, retransmits on datagrams with RTT-estimated timers, resumes on streams, reassembles
 * what arrives, delivers every message exactly once in the order in which messages become whole,
 * acknowledges a message only after its owner accepted it, and admits only what fits the credit
 * that it granted. It knows nothing of what payloads mean.
 *
 * The loop: feed what came; poll_message / accept / release; poll_control; poll_transmit /
 * transmit_done; next_deadline / on_timer.
 *
 * Memory: everything comes from the allocator of the config and is bounded by it: at most
 * tx_online_bytes + tx_keys_bytes of queued and unacknowledged payload, rx_online_bytes +
 * rx_keys_bytes of messages being received or held by the owner, and bookkeeping in proportion to
 * frames in flight (uvcc_link_memory_bound() says how much in all). An idle link takes about 1.5
 * KiB, one of datagrams 2: buffers kept for reuse go back 100 ms after the last of them was needed,
 * if on_timer is called.
 * The cipher contexts of suite 2 are libcrypto's own memory.
 */
#ifndef UVCC_LINK_H
#define UVCC_LINK_H

#include <stdbool.h>
#include <uvcc/frame.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvcc_link uvcc_link;
/** A message of ours, from msg_new to acknowledgement. */
typedef struct uvcc_link_msg uvcc_link_msg;

/** What decides how fast a datagram link sends (docs/congestion.md). Streams have their own. */
enum uvcc_congestion {
    UVCC_CONGESTION_BBR = 0,   /**< draft-ietf-ccwg-bbr; loss alone does not slow it */
    UVCC_CONGESTION_CUBIC = 1, /**< RFC 9438 */
    UVCC_CONGESTION_FIXED = 2, /**< a configured rate whatever happens: for private links only */
};

typedef struct uvcc_link_config {
    size_t size; /**< sizeof(uvcc_link_config) */
    uvcc_allocator alloc;
    uvcc_random random; /**< nonces of sealed control frames */
    uint8_t me, peer;   /**< party indices */
    bool datagram;      /**< packets instead of a byte stream */
    uint64_t sid_tag;
    uint32_t frame_bytes;    /**< greatest frame (header included) on a stream; 0: one
                                   with 256 KiB of a message */
    uint32_t datagram_bytes; /**< greatest packet to try after path probing; 0: 1232 (no probing);
                                  at most 65,507 */
    uint64_t tx_online_bytes, tx_keys_bytes; /**< 0: 32 MiB each */
    uint64_t rx_online_bytes, rx_keys_bytes; /**< 0: 32 MiB each; the credit we grant */
    uint32_t rx_messages_max; /**< messages of several frames in reassembly, 0: 4096. Over it a
                                   datagram is as if lost; whole messages are bounded by credit */
    uint32_t rx_ranges_max;   /**< gaps of one message in reassembly, 0: 4096 */
    uint64_t rto_initial_ns;  /**< 0: 200 ms */
    uint64_t rto_min_ns;      /**< 0: 1 ms */
    uint64_t rto_max_ns;      /**< 0: 2 s */
    uint64_t ack_delay_ns;    /**< an ack waits at most this long; 0: 200 us, on streams 2 ms */
    uint64_t keepalive_ns;    /**< a PING after this much time without a sign of life (see
                                  heard_ns); 0: 10 s; UVCC_NEVER: none */
    uint32_t suspicious_max;  /**< datagrams: seals that may fail to open per window, of data and of
                                   control frames each; 0: 4096. One more for each that opens and is
                                   new. Half of it is for what cheap checks speak against, and for
                                   frames of other sessions and runs. Over it such frames are
                                 dropped,  with the rest of their packet, before a seal is opened */
    uint64_t suspicious_window_ns; /**< 0: 1 s; at least suspicious_max, at most an hour */
    uint32_t congestion;           /**< datagrams: enum uvcc_congestion */
    uint64_t rate_bytes_per_s;     /**< datagrams: bytes of frames per second. FIXED: the rate, 0:
                                        none, the peer's credit is all that bounds. BBR and CUBIC:
                                        never faster than this, 0: no such bound */
    uvcc_parallel parallel; /**< streams: seals and opens frames of a transmit side by side; may be
                                 NULL. Bytes are the same with and without it */
    uint32_t transmit_frames; /**< streams: frames of a sealed transmit, 1..16; 0: 1, so that the
                                   peer opens one while the next is sealed. Messages are then cut
                                   into as many frames, of half of frame_bytes at least */
} uvcc_link_config;

typedef struct uvcc_link_stats {
    uint64_t frames_tx, frames_rx, bytes_tx, bytes_rx; /**< all frames, retransmissions included */
    uint64_t messages_tx, messages_rx;                 /**< first transmissions; accepted */
    uint64_t payload_online_tx, payload_keys_tx;       /**< msg_len of messages begun */
    uint64_t retransmissions, spurious;                /**< frames sent again; ... needlessly */
    uint64_t duplicates, refused, foreign, stale_run;  /**< frames dropped, by cause */
    uint64_t acks_tx, acks_rx, pings_tx;
    uint64_t clock_back;   /**< times `now` stepped back */
    uint64_t memory_bytes; /**< taken from the allocator now */
    uint64_t srtt_ns, rttvar_ns;
    uint64_t suspicious_dropped; /**< frames over suspicious_max, with the rest of their packets */
    uint64_t path_falls; /**< times that long packets vanished and short ones went instead */
    uint64_t min_rtt_ns; /**< least round trip lately; 0: none measured */
    /** When the last frame came that only the peer can have sent just then, by the caller's clock:
     * a data frame that is new, or an ACK newer than all before. Its seal verified, if links are
     * sealed; repetitions and PINGs, which anybody can replay, do not count. UVCC_NEVER: none yet.
     * An idle link hears the peer at least every keepalive_ns and a round trip, by its own PINGs.
     */
    uint64_t heard_ns;
    uint64_t queued_messages, unacked_messages; /**< sent: not begun; begun, not acknowledged */
    uint64_t queued_bytes, unacked_bytes; /**< of these: not yet in a frame; in frames, of messages
                                               that are not wholly acknowledged */
    /** Congestion control (datagrams, else 0), in bytes of frames: what is in flight, and may
     * be (UVCC_NEVER: as much as the credit lets through); bytes per second that are sent at most
     * (0: no bound) and that the path delivered lately. */
    uint64_t flight_bytes, window_bytes;
    uint64_t pacing_bytes_per_s, delivered_bytes_per_s;
    uint64_t marks;        /**< packets that the peer says came with ECN's mark CE */
    uint64_t collapses;    /**< times of persistent congestion (RFC 9002, 7.6) */
    uint32_t packet_bytes; /**< datagrams: greatest packet that is sent now */
    bool stream_up;        /**< streams: between stream_opened and stream_closed */
    bool ack_due;          /**< an ACK of ours is due, or on its way out */
    bool blocked;          /**< messages wait for the peer's credit */
} uvcc_link_stats;

/** Fills *cfg with zeros and its size; the zero values above mean defaults. */
UVCC_API void uvcc_link_config_default(uvcc_link_config *cfg);
UVCC_API int uvcc_link_new(uvcc_link **out, const uvcc_link_config *cfg) UVCC_MUST_USE;
/** Frees the link, its messages and everything received; wipes keys. */
UVCC_API void uvcc_link_free(uvcc_link *l);
/** The most memory that this link may ever take, by its config. */
UVCC_API uint64_t uvcc_link_memory_bound(const uvcc_link *l);

/** Numbers this run's frames: reliable seqs are (run << 40) + 1, + 2, ... Call before the first
 * send or feed of a data frame; once per link. */
UVCC_API int uvcc_link_set_run(uvcc_link *l, uint32_t run);
/** Seals from now on: data frames under keys of (step, run, src, dst, epoch), control frames under
 * the control key, all derived from prk (wire.md, Sealing), which the link does not keep: the
 * present step, which must be set before, is the first one with keys. From then on unsealed frames
 * except HELLO are refused. suite 1 or 2. Needs set_run. */
UVCC_API int uvcc_link_set_keys(uvcc_link *l, uint8_t suite, const uint8_t prk[32]);
/** Forgets run, step and keys, for a handshake that begins again: before start, and with no message
 * sent. A HELLO that waits is dropped; a stream stays up. */
UVCC_API int uvcc_link_reset(uvcc_link *l);
/** Starts the data phase: the first ACK (with credit) goes out, messages may flow. */
UVCC_API int uvcc_link_start(uvcc_link *l, uint64_t now);
/** The first unfinished step, never falling: stands in STEP, AUDIT, BYE and control frames; frames
 * of `step` and step + 1 are accepted, of step - 1 for STEP, AUDIT and BYE only; keys of these are
 * held. */
UVCC_API int uvcc_link_set_step(uvcc_link *l, uint32_t step);

/* ---- sending ---- */

/** Takes a buffer for a message of len bytes (0..UVCC_MSG_MAX_BYTES) of `kind`'s class.
 * UVCC_ERR_AGAIN: the tx limit is reached, try after acknowledgements (writable turns true);
 * UVCC_ERR_LIMIT: it can never fit; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_link_msg_new(uvcc_link *l, uint8_t kind, uint32_t len,
                               uvcc_link_msg **out) UVCC_MUST_USE;
/** Its bytes, 64-byte aligned, UVCC_MEM_WIRE; fill them before send. */
UVCC_API uint8_t *uvcc_link_msg_data(uvcc_link_msg *m);
/** Gives an unsent message back. */
UVCC_API void uvcc_link_msg_drop(uvcc_link *l, uvcc_link_msg *m);
/** Queues it, for `step`: on a sealed link the first unfinished one, the next, or one whose keys
 * are still there, else UVCC_ERR_USAGE. msg_ids: one per chunk. `order`: lower goes first within
 * the class (online before keys always); equal orders keep the order of calls. The link owns m from
 * now on and seals it in place. STEP, AUDIT and BYE must fit one datagram frame. */
UVCC_API int uvcc_link_send(uvcc_link *l, uvcc_link_msg *m, uint32_t step, uint32_t op_id,
                            const uint32_t *msg_ids, uint64_t order, uint64_t now);
/** True if a message of len bytes of `kind` would get its buffer now; with more than
 * UVCC_MSG_MAX_BYTES, if there is room for messages of so many bytes in all. */
UVCC_API bool uvcc_link_writable(const uvcc_link *l, uint8_t kind, uint32_t len);
/** Greatest HELLO payload. */
#define UVCC_HELLO_MAX_BYTES 2560u
/** Sends a HELLO payload, sealed (at most 128 bytes) in one control frame, or not: then in as many
 * frames as it needs. One may wait; a newer one replaces it, or what was not sent of it. */
UVCC_API int uvcc_link_send_hello(uvcc_link *l, const uint8_t *payload, size_t len, bool sealed);
/** Nothing is missing of what the peer sent up to the last frame that came. */
UVCC_API bool uvcc_link_gapless(const uvcc_link *l);
/** Nothing queued, nothing unacknowledged. */
UVCC_API bool uvcc_link_drained(const uvcc_link *l);
/** The same, and no ACK of ours is due and no transmit is out: a peer that sends nothing more has
 * all that it can want of us, unless it was lost. */
UVCC_API bool uvcc_link_settled(const uvcc_link *l);

/** 1 and *out, or 0; UVCC_ERR_CRYPTO if sealing failed (sticky: the message is lost, abort).
 * Without memory it returns 0 and the next deadline says when to try again. */
UVCC_API int uvcc_link_poll_transmit(uvcc_link *l, uvcc_transmit *out, uint64_t now);
UVCC_API int uvcc_link_transmit_done(uvcc_link *l, uint64_t id, size_t bytes, uint64_t now);

/* ---- receiving ---- */

/** Stream: any run of bytes; datagram: exactly one packet. All bytes are consumed. Only
 * UVCC_ERR_STREAM_BROKEN (streams: close and reconnect) and UVCC_ERR_NOMEM (the frame is dropped as
 * if lost: datagrams go on, what it held comes again; since a stream sends nothing twice, close and
 * reconnect there too) are ever returned.
 * After either, a stream's bytes are refused until uvcc_link_stream_opened. */
UVCC_API int uvcc_link_feed(uvcc_link *l, const uint8_t *data, size_t len, uint64_t now);
/** The same of bytes that stand in several places, as those of a transmit: whole frames that follow
 * each other in them are opened side by side, by `parallel`. Streams only. */
UVCC_API int uvcc_link_feed_slices(uvcc_link *l, const uvcc_slice *slices, uint32_t count,
                                   uint64_t now);
/** Reading straight into place (streams). 1: the next *len bytes of the stream, or fewer, may be
 * put at *to, where they belong: the rest of the body of a frame whose header came. 0: nowhere now
 * (between frames, in a header or a tag, or what comes is not wanted): use feed. The pointer is
 * valid until the next call on this link, but for those that only ask: it is for reads that end
 * before, not for ones that go on behind the link's back. UVCC_ERR_USAGE on datagrams.
 *
 *     struct iovec v[2] = {{scratch, sizeof scratch}};  // 256 KiB: tag, next header, more frames
 *     size_t len = 0, n;
 *     uint8_t *to;
 *     if (uvcc_link_rx_buffer(l, &to, &len) == 1) {
 *         v[1] = v[0];
 *         v[0] = (struct iovec){to, len};
 *     }
 *     n = readv(fd, v, len != 0 ? 2 : 1);               // errors and the end are left out here
 *     size_t placed = n < len ? n : len;
 *     rc = placed == 0 ? 0 : uvcc_link_rx_filled(l, placed, now);
 *     if (rc == 0 && n > placed)
 *         rc = uvcc_link_feed(l, scratch, n - placed, now);
 *
 * With that scratch behind it this is never dearer than feeding 256 KiB at a time: frames of 1 MiB
 * cost a tenth less of the CPU time of reading and taking them; sealed ones 1 or 2% less, since
 * opening them is most of it, so a feed that opens whole frames out of the caller's buffer is as
 * good. uvcc_net reads 256 bytes behind the rest of a large frame, for the next header, and so all
 * large payloads into place: as good at 64 KiB, better from 256 KiB on. */
UVCC_API int uvcc_link_rx_buffer(uvcc_link *l, uint8_t **to, size_t *len);
/** n <= *len bytes were put there: exactly as if they had been fed. 0 bytes change nothing.
 * UVCC_ERR_USAGE: more than rx_buffer offered last, or it offered nothing, or bytes were fed or
 * another stream opened since; else as uvcc_link_feed(). */
UVCC_API int uvcc_link_rx_filled(uvcc_link *l, size_t n, uint64_t now);
/** uvcc_link_feed() for a packet of whose IP header the adapter knows; ce: it carried ECN's mark
 * CE. Counted if it brought anything new, and told to the peer with the next ACK; its controller
 * slows down. UVCC_ERR_USAGE on streams. */
UVCC_API int uvcc_link_feed_ecn(uvcc_link *l, const uint8_t *data, size_t len, bool ce,
                                uint64_t now);

/** A message that is whole. Its bytes are the link's, 64-byte aligned and writable, until release.
 */
typedef struct uvcc_link_rx {
    uint64_t token;
    uint8_t kind;
    uint32_t step, op_id;
    uint16_t chunk_cnt;
    uint32_t msg_ids[UVCC_MSG_MAX_CHUNKS]; /**< as the frames carried them; the owner checks them */
    uint8_t *data;
    uint32_t len;
} uvcc_link_rx;
/** 1 and the next whole message that was not offered yet, or 0. */
UVCC_API int uvcc_link_poll_message(uvcc_link *l, uvcc_link_rx *out);
/** Accepted: only now is its completing frame acknowledged. */
UVCC_API int uvcc_link_accept(uvcc_link *l, uint64_t token, uint64_t now);
/** The owner is done with the bytes (accepted or refused): memory goes back, credit rises. A
 * refused message is never acknowledged; its owner aborts. */
UVCC_API int uvcc_link_release(uvcc_link *l, uint64_t token, uint64_t now);
/** Next HELLO payload: its length copied to out, 0 if none. *sealed: it came sealed and
 * verified. A small queue; the oldest is dropped when it is full. */
UVCC_API size_t uvcc_link_poll_hello(uvcc_link *l, uint8_t out[UVCC_HELLO_MAX_BYTES], bool *sealed);
/** True once a sealed, authentic frame of this run came (tells HELLO that the peer is past it). */
UVCC_API bool uvcc_link_heard(const uvcc_link *l);
/** A sealed and authentic frame was wrong in itself (chunk arithmetic, other bytes for one place,
 * another length for one message): 0 or the reason; sticky; the owner aborts. */
UVCC_API const char *uvcc_link_violation(const uvcc_link *l);

/* ---- streams and time ---- */

/** A new byte stream is up (streams only): partial input is forgotten, an ACK goes first, what is
 * unacknowledged is sent again. A sealed HELLO that waits is dropped: it may say which channel the
 * stream before went over. */
UVCC_API void uvcc_link_stream_opened(uvcc_link *l, uint64_t now);
/** The stream is gone; an outstanding transmit is void. */
UVCC_API void uvcc_link_stream_closed(uvcc_link *l, uint64_t now);
/** When to call again if nothing happens: on_timer, then poll_transmit. After both were called it
 * lies in the future, or a poll still has something to give: who polls until there is nothing and
 * waits until then never spins. While a transmit is out, or part of one was taken by a full socket,
 * nothing that only a poll could send is in it: poll when the socket takes bytes again.
 * UVCC_NEVER: only input can bring progress. */
UVCC_API uint64_t uvcc_link_next_deadline(const uvcc_link *l);
UVCC_API void uvcc_link_on_timer(uvcc_link *l, uint64_t now);
UVCC_API void uvcc_link_get_stats(const uvcc_link *l, uvcc_link_stats *out);
/** Hash of the link's protocol state (not of timing), for checkers. */
UVCC_API void uvcc_link_digest(const uvcc_link *l, uint8_t out[32]);

#ifdef __cplusplus
}
#endif
#endif
