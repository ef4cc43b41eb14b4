import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { PlatformRequest } from './content/request-content.js';
import { asBuffer } from '../../core/util/as-buffer.js';
import {
  FastifyRecorder,
  replaceSent,
  sendsBytes,
  type FastifyReply,
} from './response/fastify-recorder.js';
import type { RecordedResponse } from './response/http-response.js';
import { RawRecorder } from './response/raw-recorder.js';
import type { ResponseRecording, ResponseSink } from './response/response-sink.js';
import { sendRecorded, sendServerError } from './response/send-response.js';

/** One request with its response, limited to what Express and Fastify do differently. */
export interface HttpExchange {
  readonly request: PlatformRequest;
  /** Name, value, name, value, as received; absent or empty on a request that Node's parser has not made. */
  readonly rawHeaders: readonly string[] | undefined;
  readonly rawResponse: ServerResponse;
  /** Whether the platform can pass the request on to another handler: by `next()`, also in a filter or a pipe. */
  readonly isPassable: boolean;
  status(): number;
  setStatus(status: number): void;
  headers(): OutgoingHttpHeaders;
  setHeader(name: string, value: string): void;
  removeHeader(name: string): void;
  /** Sets those of these fields that are missing when this body object is sent. */
  setHeadersOf(body: unknown, fields: Readonly<Record<string, string>>): void;
  restoreHead(status: number, headers: OutgoingHttpHeaders): void;
  /** Whether the response has begun, or was hijacked, and has not ended. If the handler now fails, Nest only ends it. */
  isUnfinished(): boolean;
  /** Buffers the response until `sink` has decided on it. */
  record(sink: ResponseSink): ResponseRecording;
  /**
   * Makes Nest send this response when it gets the returned value. @returns `undefined`, and changes nothing, if other
   * code would see the value, or the platform would change the response.
   */
  sendInstead(response: RecordedResponse): { readonly value: unknown } | undefined;
  /** Ends a response for which no handler runs. */
  end(): void;
  /** Makes Nest end the response where it would render a page: a replay has no value to render. */
  endInsteadOfRendering(): void;
}

export function httpExchange(request: unknown, response: unknown): HttpExchange {
  return isFastify(response)
    ? new FastifyExchange(request as PlatformRequest & { raw: IncomingMessage }, response)
    : new ExpressExchange(
        request as PlatformRequest & IncomingMessage,
        response as ExpressResponse,
      );
}

const NO_VALUE = { value: undefined };

function isFastify(response: unknown): response is FastifyReply {
  return typeof response === 'object' && response !== null && 'raw' in response;
}

interface ExpressResponse extends ServerResponse {
  json: Send;
  send: Send;
  render: () => void;
}

type Send = (...args: [body?: unknown]) => unknown;

class ExpressExchange implements HttpExchange {
  readonly isPassable = true;
  readonly rawHeaders: readonly string[] | undefined;

  constructor(
    readonly request: PlatformRequest & IncomingMessage,
    readonly rawResponse: ExpressResponse,
  ) {
    this.rawHeaders = request.rawHeaders;
  }

  status(): number {
    return this.rawResponse.statusCode;
  }

  setStatus(status: number): void {
    this.rawResponse.statusCode = status;
  }

  headers(): OutgoingHttpHeaders {
    return withOwnLists(this.rawResponse.getHeaders());
  }

  setHeader(name: string, value: string): void {
    this.rawResponse.setHeader(name, value);
  }

  removeHeader(name: string): void {
    this.rawResponse.removeHeader(name);
  }

  setHeadersOf(body: unknown, fields: Readonly<Record<string, string>>): void {
    const { rawResponse } = this;
    rawResponse.json = before(rawResponse.json, body, () => {
      for (const [name, value] of Object.entries(fields)) {
        if (!rawResponse.hasHeader(name)) rawResponse.setHeader(name, value);
      }
    });
  }

  restoreHead(status: number, headers: OutgoingHttpHeaders): void {
    const { rawResponse } = this;
    this.setStatus(status);
    for (const name of rawResponse.getHeaderNames()) rawResponse.removeHeader(name);
    for (const [name, value] of Object.entries(withOwnLists({ ...headers }))) {
      if (value !== undefined) rawResponse.setHeader(name, value);
    }
  }

  isUnfinished(): boolean {
    const { headersSent, writableEnded } = this.rawResponse;
    return headersSent && !writableEnded;
  }

  record(sink: ResponseSink): ResponseRecording {
    return new RawRecorder(this.rawResponse, sink);
  }

  sendInstead(response: RecordedResponse) {
    const { rawResponse } = this;
    if (rawResponse.headersSent || hasOwn(rawResponse, 'send', 'json')) return undefined;
    const own = Object.getOwnPropertyDescriptor(rawResponse, 'end');
    rawResponse.end = () => {
      // Not by Reflect, which costs V8 the response's hidden class.
      if (own === undefined) delete (rawResponse as { end?: unknown }).end;
      else Object.defineProperty(rawResponse, 'end', own);
      try {
        sendRecorded(rawResponse, response);
      } catch (error) {
        sendServerError(rawResponse, error);
      }
      return rawResponse;
    };
    return NO_VALUE;
  }

  end(): void {
    this.rawResponse.end();
  }

  endInsteadOfRendering(): void {
    this.rawResponse.render = () => {
      this.end();
    };
  }
}

class FastifyExchange implements HttpExchange {
  readonly isPassable = false;
  readonly rawHeaders: readonly string[] | undefined;
  readonly rawResponse: ServerResponse;

  constructor(
    readonly request: PlatformRequest & { raw: IncomingMessage },
    private readonly reply: FastifyReply,
  ) {
    this.rawHeaders = request.raw.rawHeaders;
    this.rawResponse = reply.raw;
  }

  status(): number {
    return this.reply.statusCode;
  }

  setStatus(status: number): void {
    this.reply.statusCode = status;
  }

  headers(): OutgoingHttpHeaders {
    return withOwnLists(this.reply.getHeaders());
  }

  setHeader(name: string, value: string): void {
    this.reply.header(name, value);
  }

  removeHeader(name: string): void {
    if (!this.reply.hasHeader(name)) return;
    this.reply.removeHeader(name);
    // Middleware sets fields here.
    this.reply.raw.removeHeader(name);
  }

  setHeadersOf(body: unknown, fields: Readonly<Record<string, string>>): void {
    const { reply } = this;
    reply.send = before(reply.send, body, () => {
      const present = reply.getHeaders();
      for (const [name, value] of Object.entries(fields)) {
        if (present[name] === undefined) reply.header(name, value);
      }
    });
  }

  restoreHead(status: number, headers: OutgoingHttpHeaders): void {
    const { reply } = this;
    this.setStatus(status);
    for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
    for (const [name, value] of Object.entries(withOwnLists({ ...headers })))
      reply.header(name, value);
  }

  isUnfinished(): boolean {
    const { sent, raw } = this.reply;
    return (sent || raw.headersSent) && !raw.writableEnded;
  }

  record(sink: ResponseSink): ResponseRecording {
    return new FastifyRecorder(this.reply, sink);
  }

  sendInstead(response: RecordedResponse) {
    const { reply } = this;
    const { headers, body } = response;
    if (reply.sent || reply.raw.headersSent || hasOwn(reply, 'send') || !sendsBytes(reply)) {
      return undefined;
    }
    // Fastify would add a type.
    if (body.length > 0 && headers['content-type'] === undefined) return undefined;
    replaceSent(reply, response);
    // Of `null`, Fastify makes the text "null".
    return body.length === 0 ? NO_VALUE : { value: asBuffer(body) };
  }

  end(): void {
    this.reply.send();
  }

  endInsteadOfRendering(): void {
    const { reply } = this;
    Object.assign(reply, {
      view: () => {
        this.end();
        return reply;
      },
    });
  }
}

/** Whether middleware has set a method on the response itself. */
function hasOwn(response: object, ...methods: readonly string[]): boolean {
  return methods.some((method) => Object.hasOwn(response, method));
}

/** `send`, preceded by `act` when it is called with `body`. */
function before(send: Send, body: unknown, act: () => void): Send {
  return function (this: unknown, ...args) {
    if (args[0] === body) act();
    return Reflect.apply(send, this, args);
  };
}

/** Copies the lists in an object that the platform has just made: appending to a field changes the list. */
function withOwnLists(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  for (const name in headers) {
    const value = headers[name];
    if (Array.isArray(value)) headers[name] = [...value];
  }
  return headers;
}
