import { connect, type Socket } from 'node:net';
import { parseResponse, type RawResponse } from '../wire/raw-response.js';

/** A server that neither responds nor hangs up has lost a request, or waits for the rest of it. */
const TIMEOUT_MS = 5_000;

/** A kept connection, for requests whose responses state where they end. */
export class FuzzConnection {
  private socket: Socket | undefined;
  private received: Buffer = Buffer.alloc(0);
  private settle: (() => void) | undefined;

  constructor(private readonly port: number) {}

  /** @returns the response, or `undefined` where the server hung up without one. */
  async exchange(bytes: Buffer, method: string): Promise<RawResponse | undefined> {
    const socket = (this.socket ??= this.open());
    socket.write(bytes);
    for (;;) {
      await new Promise<void>((resolve) => {
        this.settle = resolve;
      });
      this.received = withoutInterim(this.received);
      const parsed = parseResponse(this.received, method);
      if (parsed !== undefined) {
        this.received = this.received.subarray(parsed.length);
        if (this.received.length > 0) throw new Error('the server sent more than one response');
        if (parsed.response.header('connection') === 'close') this.close();
        return parsed.response;
      }
      if (socket.destroyed) return undefined;
    }
  }

  close(): void {
    this.socket?.destroy();
    this.socket = undefined;
  }

  private open(): Socket {
    const socket = connect({ port: this.port, host: '127.0.0.1', noDelay: true });
    this.received = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      this.received = Buffer.concat([this.received, chunk]);
      this.settle?.();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      if (this.socket !== socket) return;
      this.socket = undefined;
      this.settle?.();
    });
    return socket;
  }
}

/**
 * Sends bytes that may not be a request on a separate connection.
 *
 * @param leaves - the client ends the connection right after them.
 * @returns every response.
 */
export async function sendAlone(
  port: number,
  bytes: Buffer,
  method: string,
  leaves: boolean,
): Promise<RawResponse[]> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const chunks: Buffer[] = [];
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  // The server may have received only half of the announced body.
  socket.setTimeout(TIMEOUT_MS, () => void socket.destroy());
  socket.write(bytes);
  if (leaves) socket.end();
  await new Promise((resolve) => socket.once('close', resolve));
  return allResponses(Buffer.concat(chunks), method);
}

function allResponses(bytes: Buffer, method: string): RawResponse[] {
  const responses: RawResponse[] = [];
  let rest = withoutInterim(bytes);
  for (;;) {
    // What cannot be parsed as HEAD is rejected with a body.
    if (method === 'HEAD' && rest.toString('latin1', 0, 5) !== 'HTTP/') return responses;
    const parsed = parseResponse(rest, method);
    if (parsed === undefined) return responses;
    responses.push(parsed.response);
    rest = withoutInterim(rest.subarray(parsed.length));
  }
}

/** Without the preceding `100 Continue`. */
function withoutInterim(bytes: Buffer): Buffer {
  if (bytes.toString('latin1', 0, 10) !== 'HTTP/1.1 1') return bytes;
  const end = bytes.indexOf('\r\n\r\n');
  return end === -1 ? bytes : withoutInterim(bytes.subarray(end + 4));
}
