import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Logger } from '@nestjs/common';
import { asBuffer } from '../../../core/util/as-buffer.js';
import type { Readable } from 'node:stream';
import type { LargeBody } from '../../../core/record/record.js';
import type { RecordedResponse } from './http-response.js';
import { isGone } from './held-close.js';
import { bypass, endsAsNode, isOfNode, type HeaderFields } from './response-patch.js';
import type { ResponseSink } from './response-sink.js';

const logger = new Logger('Idempotency');

/** Sends 500 where a buffered response throws: an invalid status of a replay, a listener of the header fields. */
export function sendServerError(response: ServerResponse, error: unknown): void {
  // Nest's filters, which would log it, are done.
  const cause = error instanceof Error ? error.stack : undefined;
  logger.error('A response could not be sent: its client gets 500 without a body.', cause);
  try {
    if (response.headersSent) throw new Error('The header fields have been sent.');
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    // A method of other code has probably thrown.
    Reflect.deleteProperty(response, 'writeHead');
    response.statusCode = 500;
    setReason(response, '');
    // Without one of its own: Node adds none after another was removed.
    response.setHeader('Content-Length', 0);
    response.end();
  } catch {
    response.destroy();
  }
}

/** Sends another response in place of one of which nothing has been sent. */
export function sendReplacement(
  response: ServerResponse,
  replacement: RecordedResponse,
  { headersBefore }: ResponseSink,
  callback: (() => void) | undefined,
): void {
  const { sendDate } = response;
  for (const name of response.getHeaderNames()) {
    const before = headersBefore[name];
    if (before === undefined) response.removeHeader(name);
    else response.setHeader(name, before);
  }
  // Removing the handler's Date turns off Node's.
  response.sendDate = sendDate;
  sendRecorded(response, replacement, callback);
}

/** Sends a recorded response. The response's own fields stay, unless the recorded one has them, too. */
export function sendRecorded(
  response: ServerResponse,
  { status, headers, body, large }: RecordedResponse,
  callback?: () => void,
): void {
  // Of middleware, which knew nothing of this body.
  for (const name of isBodiless(status) ? FRAMING : CHUNKED) {
    if (response.hasHeader(name)) response.removeHeader(name);
  }
  setFields(response, headers);
  response.statusCode = status;
  setReason(response, '');
  if (large !== undefined) {
    sendLarge(response, large, callback);
    return;
  }
  // Node adds no length after one was removed.
  if (!isBodiless(status)) response.setHeader('Content-Length', body.length);
  sendBody(response, body, callback);
}

/** Sends a body while it is read. If it fails in between, the connection breaks: its length was told first. */
export function sendLarge(
  response: ServerResponse,
  { bytes, stream }: LargeBody,
  callback: (() => void) | undefined,
): void {
  for (const name of FRAMING) if (response.hasHeader(name)) response.removeHeader(name);
  if (isBodiless(response.statusCode)) {
    stream.destroy();
    response.end(callback);
    return;
  }
  response.setHeader('Content-Length', bytes);
  if (callback !== undefined) response.once('finish', callback);
  deliver(response, stream, (resume) => response.on('drain', resume));
}

/**
 * Sends a body while it is read, also past a recorder. If it fails in between, the connection breaks.
 * @param onDrain - adds a listener of the response's own `drain`.
 */
export function deliver(
  response: ServerResponse,
  stream: Readable,
  onDrain: (resume: () => void) => void,
): void {
  // Not by pipeline(), whose listeners are more than the handler's own have left room for.
  onDrain(() => stream.resume());
  response.once('close', () => stream.destroy());
  stream
    .on('data', (chunk: Buffer) => {
      if (isGone(response)) stream.destroy();
      else if (!bypass(response, () => response.write(chunk))) stream.pause();
    })
    .once('end', () => {
      bypass(response, () => response.end());
    })
    // Who reads the body has reported it.
    .once('error', () => {
      cut(response);
    });
  if (isGone(response)) stream.destroy();
}

type Http2Stream = { readonly destroyed: boolean; close(code: number): void } | undefined;

/** Of a response over HTTP/2, which says nothing itself. */
function http2StreamOf(response: ServerResponse): Http2Stream {
  return (response as { stream?: Http2Stream }).stream;
}

/** RFC 9113 §7. Without it, a client takes what it has got for all of it. */
const HTTP2_INTERNAL_ERROR = 0x2;

/** Ends a response so that its client sees that it is not whole. */
export function cut(response: ServerResponse): void {
  http2StreamOf(response)?.close(HTTP2_INTERNAL_ERROR);
  response.destroy();
}

/**
 * Whether a client sees that a body was cut: not if the body ends with the connection, nor below an adapter, nor if it has
 * none.
 */
export function showsCut(
  { req, socket }: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
): boolean {
  if (isBodiless(status)) return false;
  const { 'content-length': length } = headers;
  if (length !== undefined && !Number.isSafeInteger(Number(length))) return false;
  return req.httpVersionMajor >= 2 || (req.httpVersion === '1.1' && isOfNode(socket));
}

/** How a body is framed that is sent before all of it is there. */
interface LiveFraming {
  /** What is changed in the fields of the response. `undefined`: removed. */
  readonly fields: OutgoingHttpHeaders;
  /** How many bytes the client is told to expect. */
  readonly bytes: number | undefined;
}

export function liveFraming(
  response: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
): LiveFraming {
  const fields: OutgoingHttpHeaders = {};
  for (const name of contradictions(response, status, headers)) fields[name] = undefined;
  const { 'content-length': length } = headers;
  if (length !== undefined && !('content-length' in fields)) {
    return { fields, bytes: Number(length) };
  }
  // Without it, Node lets the body end with the connection where other code has removed this field.
  if (response.req.httpVersion === '1.1') fields['transfer-encoding'] = 'chunked';
  return { fields, bytes: undefined };
}

/** Describe chunks. */
const CHUNKED: readonly string[] = ['transfer-encoding', 'trailer'];
/** Describe how a body is framed. */
export const FRAMING: readonly string[] = [...CHUNKED, 'content-length'];
const LENGTH: readonly string[] = ['content-length'];
const TRAILER: readonly string[] = ['trailer'];
const NONE: readonly string[] = [];

export function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}

/** The fields of a first response that contradict how its body leaves, which was held whole (RFC 9112 §6). */
export function contradictions(
  { req }: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
): readonly string[] {
  if (status === 204) return FRAMING;
  // The length of the body that was not sent may stay (RFC 9110 §8.6).
  if (status === 304) return CHUNKED;
  const isChunked = headers['transfer-encoding'] !== undefined;
  if (!isChunked && headers.trailer === undefined) return NONE;
  // Before HTTP/1.1 there are no chunks.
  if (req.httpVersion === '1.0') return FRAMING;
  if (isChunked) return LENGTH;
  return headers['content-length'] === undefined ? NONE : TRAILER;
}

/** A larger body is not copied: then the copy costs more than a second chunk. */
export const MAX_BYTES_IN_ONE_CHUNK = 16 * 1024;

/** Node writes a string together with the head, in one chunk: on Express, a twentieth of a first request's CPU time. */
export function sendBody(
  response: ServerResponse,
  body: Uint8Array,
  callback: (() => void) | undefined,
): void {
  if (body.length === 0) {
    response.end(callback);
  } else if (body.length <= MAX_BYTES_IN_ONE_CHUNK && endsAsNode(response)) {
    // A character of Latin-1 for each byte, whatever the body's own encoding.
    response.end(asBuffer(body).toString('latin1'), 'latin1', callback);
  } else {
    // Stand-ins for Node's responses take a Buffer, and not each of them any other bytes.
    response.end(asBuffer(body), callback);
  }
}

/** HTTP/2 has no reason phrase, and Node warns when it is read (RFC 9113 §8.3.2). */
function hasReason({ req }: ServerResponse): boolean {
  return req.httpVersionMajor < 2;
}

export function reasonOf(response: ServerResponse): string | undefined {
  return hasReason(response) ? response.statusMessage : undefined;
}

export function setReason(response: ServerResponse, reason: string | undefined): void {
  if (hasReason(response)) Object.assign(response, { statusMessage: reason });
}

export function withoutField(fields: HeaderFields, name: string): HeaderFields {
  const isOther = (other: unknown) => String(other).toLowerCase() !== name.toLowerCase();
  if (!Array.isArray(fields)) {
    const named = Object.entries(fields as OutgoingHttpHeaders);
    return Object.fromEntries(named.filter(([other]) => isOther(other)));
  }
  const list = fields as readonly (OutgoingHttpHeader | readonly [string, string])[];
  const isPaired = Array.isArray(list[0]);
  return list.filter((field, i) => isOther([isPaired ? field : list[i - (i % 2)]].flat()[0]));
}

/** Replaces fields, as `writeHead` does. */
export function setFields(response: ServerResponse, fields: HeaderFields = {}): void {
  if (!Array.isArray(fields)) {
    for (const [name, value] of Object.entries(fields as OutgoingHttpHeaders)) {
      if (value !== undefined) response.setHeader(name, value);
    }
    return;
  }
  // As in Node, the list replaces existing fields, and may contain a name more than once.
  const flat = (fields as readonly unknown[]).flat().map(String);
  for (let i = 0; i + 1 < flat.length; i += 2) response.removeHeader(flat[i] ?? '');
  for (let i = 0; i + 1 < flat.length; i += 2)
    response.appendHeader(flat[i] ?? '', flat[i + 1] ?? '');
}

/** Throws Node's error for an invalid status line now, while the caller can still send another response. */
export function checkStatusLine(status: number, reason: string | undefined): void {
  if (!(Math.trunc(status) >= 100 && Math.trunc(status) <= 999)) {
    throw Object.assign(new RangeError(`Invalid status code: ${String(status)}`), {
      code: 'ERR_HTTP_INVALID_STATUS_CODE',
    });
  }
  if (reason !== undefined && !REASON.test(reason)) {
    throw Object.assign(new TypeError('Invalid character in statusMessage'), {
      code: 'ERR_INVALID_CHAR',
    });
  }
}

/** Tabs, spaces, printable ASCII and obs-text (RFC 9112 §4). */
const REASON = /^[\t\x20-\x7e\x80-\xff]*$/;
