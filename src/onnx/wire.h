/* wire.h - unpacking protobuf messages without copying the weights in them. */
#ifndef HYP_ONNX_WIRE_H
#define HYP_ONNX_WIRE_H

#include "base/strbuf.h"
#include "onnx.pb-c.h"

/* Reads `data` as a message of `type` into `arena`, by way of a reduced copy of the bytes:
 *  - a TensorProto whose elements stand in one field (raw_data, or one packed list) gets payload_field,
 *    payload_offset and payload_length instead of it: the elements stay where they are, at
 *    data + payload_offset, with no alignment. The range is checked. Rarer encodings (one number a field,
 *    a list in several pieces) are unpacked as protobuf-c does it;
 *  - fields that the schema lacks are dropped;
 *  - strings must be UTF-8 without NUL.
 * So memory follows the size of the graph, not that of the weights; a reduced copy above 64 MiB, a message out of
 * proportion to its bytes and graphs nested in too many others are refused with HYP_ERR_LIMIT. Bytes that are no such
 * message are HYP_ERR_MALFORMED; the message names `file`, the byte offset and the field. */
HYP_NODISCARD hyp_status hyp_wire_unpack(const char *file, const void *data, size_t size,
                                         const ProtobufCMessageDescriptor *type, hyp_arena *arena,
                                         ProtobufCMessage **out, hyp_diag *diag);

/* Reads a varint at *p, before `end`; *p moves behind it. False when it is cut or longer than 10 bytes. */
bool hyp_wire_varint(const uint8_t **p, const uint8_t *end, uint64_t *out);

/* Writes a varint into `to`, which has room for 10 bytes; returns its length. */
size_t hyp_wire_put_varint(uint8_t *to, uint64_t value);

/* ---- messages as they stand on the wire, for who copies them in parts -------------------------------------------- */

enum { HYP_WIRE_VARINT = 0, HYP_WIRE_64 = 1, HYP_WIRE_LENGTH = 2, HYP_WIRE_32 = 5 };

typedef struct hyp_wire_bytes {
    const uint8_t *data;
    size_t size;
} hyp_wire_bytes;

/* A field: all of it, and what stands behind its tag and length. */
typedef struct hyp_wire_field {
    uint32_t number, wire;
    hyp_wire_bytes whole, payload;
} hyp_wire_field;

/* Reads the field at *p and moves *p behind it; false at the end, and with *p before it where there is no whole field. */
bool hyp_wire_next(const uint8_t **p, const uint8_t *end, hyp_wire_field *out);
void hyp_wire_put(hyp_strbuf *sb, hyp_wire_bytes bytes);
/* A field with a length. */
void hyp_wire_put_field(hyp_strbuf *sb, uint32_t number, hyp_wire_bytes payload);
enum { HYP_WIRE_PAIR = 20 };
/* Writes a tag and a varint into `to`, which has room for HYP_WIRE_PAIR bytes; returns how many these are. */
size_t hyp_wire_put_pair(uint8_t *to, uint32_t number, uint32_t wire, uint64_t value);
/* The tag and the length of a field with one, in the same way. */
size_t hyp_wire_put_head(uint8_t *to, uint32_t number, uint64_t length);

/* Field numbers of TensorProto that carry elements. */
enum {
    HYP_TENSOR_FLOAT_DATA = 4,
    HYP_TENSOR_INT32_DATA = 5,
    HYP_TENSOR_INT64_DATA = 7,
    HYP_TENSOR_RAW_DATA = 9,
    HYP_TENSOR_DOUBLE_DATA = 10,
    HYP_TENSOR_UINT64_DATA = 11
};

/* Whether the field of this number does. */
bool hyp_wire_carries_elements(uint32_t number);

#endif
