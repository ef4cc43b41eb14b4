import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { OpenConnection } from './open-connection.js';
import { parseResponse, type RawResponse } from './raw-response.js';

export interface RawRequest {
  readonly method: string;
  readonly path: string;
  /** Header lines exactly as they are sent: each character is one byte. */
  readonly lines: readonly (readonly [name: string, value: string])[];
  readonly body?: Buffer | undefined;
}

/** A pending request on a connection of its own. */
export interface PendingRequest {
  readonly response: Promise<RawResponse>;
  /** Disconnects like a client whose process died: the socket is reset. */
  abandon(): void;
  /** Whether the response has arrived. */
  readonly responded: boolean;
  /** How many bytes of the response have arrived. */
  readonly receivedBytes: number;
  /** Stops reading at the first bytes of the response, so that the server meets back pressure. */
  firstBytes(): Promise<void>;
}

/** Sends one request on a connection of its own and reads until the server closes it. */
export function sendRaw(port: number, request: RawRequest): PendingRequest {
  return sendBytes(port, request.method, encode(request, port, 'close'));
}

/** The same with a request that is written out already, and asks to close the connection. */
export function sendBytes(port: number, method: string, request: Buffer): PendingRequest {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let responded = false;
  const chunks: Buffer[] = [];
  const response = readToEnd(socket, chunks).then((bytes) => {
    const parsed = parseResponse(bytes, method);
    if (parsed === undefined) {
      throw new Error(
        `the connection ended after ${bytes.length} bytes: ${bytes.toString('latin1', 0, 500)}`,
      );
    }
    if (parsed.length !== bytes.length) {
      throw new Error(
        `${bytes.length - parsed.length} bytes too many: ${bytes.toString('latin1', parsed.length)}`,
      );
    }
    responded = true;
    return parsed.response;
  });
  // A client that abandons a request does not wait for its response.
  response.catch(() => undefined);
  socket.write(request);
  return {
    response,
    abandon: () => void socket.resetAndDestroy(),
    get responded() {
      return responded;
    },
    get receivedBytes() {
      return chunks.reduce((sum, { length }) => sum + length, 0);
    },
    firstBytes: async () => {
      await once(socket, 'data');
      socket.pause();
    },
  };
}

/** A connection that is kept alive: one exchange after the other, each response framed by itself. */
export class KeepAliveConnection {
  readonly #connection: OpenConnection;

  constructor(readonly port: number) {
    this.#connection = new OpenConnection(port);
  }

  exchange(request: RawRequest): Promise<RawResponse> {
    return this.exchangeBytes(request.method, encode(request, this.port, 'keep-alive'));
  }

  exchangeBytes(method: string, request: Buffer): Promise<RawResponse> {
    this.#connection.write(request);
    return this.#connection.next((bytes) => {
      const parsed = parseResponse(bytes, method);
      if (parsed === undefined) return undefined;
      if (parsed.length < bytes.length) throw new Error('the server sent more than one response');
      return { part: parsed.response, length: parsed.length };
    });
  }

  close(): void {
    this.#connection.close();
  }
}

function encode(request: RawRequest, port: number, connection: string): Buffer {
  const lines: (readonly [string, string])[] = [
    ['Host', `127.0.0.1:${port}`],
    ['Connection', connection],
    ...request.lines,
  ];
  const named = new Set(request.lines.map(([name]) => name.toLowerCase()));
  const kept = lines.filter(([name], index) => index > 1 || !named.has(name.toLowerCase()));
  if (request.body !== undefined) kept.push(['Content-Length', String(request.body.length)]);
  const head = [
    `${request.method} ${request.path} HTTP/1.1`,
    ...kept.map(([name, value]) => `${name}: ${value}`),
  ].join('\r\n');
  return Buffer.concat([Buffer.from(`${head}\r\n\r\n`, 'latin1'), request.body ?? Buffer.alloc(0)]);
}

function readToEnd(socket: Socket, chunks: Buffer[]): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.once('error', reject);
    socket.once('close', () => resolve(Buffer.concat(chunks)));
  });
}
