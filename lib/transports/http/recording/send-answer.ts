import type { ServerResponse } from 'node:http';
import type { HttpAnswer } from '../http-answer.js';
import type { AnswerSink } from './answer-sink.js';
import { setFields, setReason } from './response-head.js';

/**
 * Sends what was held. What throws now has no caller left who could answer otherwise: an invalid status
 * of a replay, or somebody's listener to the header fields.
 */
export function sendOrFail(response: ServerResponse, send: () => void): void {
  try {
    send();
  } catch {
    fail(response);
  }
}

function fail(response: ServerResponse): void {
  try {
    if (response.headersSent) throw new Error('Too late to say so.');
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    // What others have laid over it threw, as like as not.
    Reflect.deleteProperty(response, 'writeHead');
    response.statusCode = 500;
    setReason(response, '');
    response.end();
  } catch {
    response.destroy();
  }
}

/** Sends another answer on a response to which nothing has been written. */
export function sendInstead(
  response: ServerResponse,
  { status, headers, body }: HttpAnswer,
  { headersBefore }: AnswerSink,
  callback: (() => void) | undefined,
): void {
  const { sendDate } = response;
  for (const name of response.getHeaderNames()) {
    const before = headersBefore[name];
    if (before === undefined) response.removeHeader(name);
    else response.setHeader(name, before);
  }
  setFields(response, headers);
  // Node adds none of its own once one was removed.
  if (status !== 204 && status !== 304) response.setHeader('Content-Length', body.length);
  // Taking away a Date of the handler's turns off Node's own.
  response.sendDate = sendDate;
  response.statusCode = status;
  setReason(response, '');
  sendBody(response, body, callback);
}

export function sendBody(
  response: ServerResponse,
  body: Uint8Array,
  callback: (() => void) | undefined,
): void {
  if (body.length === 0) response.end(callback);
  else response.end(body, callback);
}
