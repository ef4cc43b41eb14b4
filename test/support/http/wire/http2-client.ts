import { once } from 'node:events';
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { RawResponse } from './raw-response.js';

type Fields = Readonly<Record<string, string | readonly string[]>>;

/** One connection that speaks HTTP/2 from its first byte on, without TLS. */
export class Http2Client {
  private constructor(private readonly session: ClientHttp2Session) {}

  static async connect(port: number): Promise<Http2Client> {
    const session = connect(`http://127.0.0.1:${port}`);
    // Requests report their own outcome.
    session.on('error', () => undefined);
    await once(session, 'connect');
    return new Http2Client(session);
  }

  /** A request whose body the caller writes. */
  open(path: string, fields: Fields): ClientHttp2Stream {
    return this.request(path, fields, false);
  }

  /** A request without a body, which its head says. */
  openBodiless(path: string, fields: Fields): ClientHttp2Stream {
    return this.request(path, fields, true);
  }

  async post(path: string, fields: Fields, body?: string | Buffer): Promise<RawResponse> {
    if (body === undefined) return responseOn(this.openBodiless(path, fields));
    const stream = this.open(path, fields);
    const response = responseOn(stream);
    stream.end(body);
    return response;
  }

  close(): void {
    this.session.destroy();
  }

  private request(path: string, fields: Fields, endStream: boolean): ClientHttp2Stream {
    const head = { ':method': 'POST', ':path': path, ...fields };
    const stream = this.session.request(head, { endStream });
    stream.on('error', () => undefined);
    return stream;
  }
}

/** Cancels the stream midway, as a client that no longer wants the response. */
export async function reset(stream: ClientHttp2Stream): Promise<void> {
  const closed = once(stream, 'close');
  stream.close(constants.NGHTTP2_CANCEL);
  await closed;
}

export async function responseOn(stream: ClientHttp2Stream): Promise<RawResponse> {
  const [fields, flat] = await new Promise<[Record<string, unknown>, string[]]>(
    (resolve, reject) => {
      // The declarations lack the last one, which keeps repeated fields apart.
      const onResponse = (head: Record<string, unknown>, _flags: number, ...rest: unknown[]) => {
        resolve([head, rest[0] as string[]]);
      };
      stream.once('response', onResponse);
      stream.once('close', () => {
        reject(new Error('the stream was closed without a response'));
      });
    },
  );
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  const lines: [string, string][] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    if (!flat[i]!.startsWith(':')) lines.push([flat[i]!, flat[i + 1]!]);
  }
  return new RawResponse(Number(fields[':status']), lines, Buffer.concat(chunks));
}
