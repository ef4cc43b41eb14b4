import { once } from 'node:events';
import {
  createServer,
  request as send,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import { startServer, type StartedServer } from '../../../support/servers/start-server.js';

const SCRIPT = fileURLToPath(new URL('../../../support/servers/s3rver.mjs', import.meta.url));

/** Starts s3rver with the bucket `outcomes`. */
export function startS3rver(): Promise<StartedServer> {
  return startServer('s3rver', {}, (port, dir) => ({
    program: process.execPath,
    args: [SCRIPT, String(port), dir],
    env: { ...process.env, NODE_OPTIONS: '' },
    readyLog: /listening/,
  }));
}

export function clientAt(endpoint: string, config: S3ClientConfig = {}): S3Client {
  return new S3Client({
    endpoint,
    region: 'eu-central-1',
    forcePathStyle: true,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    ...config,
  });
}

/** What the gateway does with a request. */
export type Fault =
  | 'none'
  /** The connection breaks before the request reaches the server. */
  | 'cut'
  /** The server gets half of the request; then both connections break. */
  | 'cut the request'
  /** The server has done it; the connection breaks before its response. */
  | 'lose the answer'
  /** The connection breaks in the middle of the response. */
  | 'cut the answer'
  /** Nothing is read, and nothing is said. */
  | 'stall'
  /** Half of the response comes, and then nothing. */
  | 'stall the answer'
  /** It reads what the client did not store. */
  | { readonly changed: (bytes: Buffer) => Buffer }
  /** Its own response, with the code of an error of S3. */
  | { readonly status: number; readonly code: string };

export interface SeenRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
}

/** What s3rver lacks. */
interface Bucket {
  /** Whether `If-None-Match` counts. */
  readonly isConditional: boolean;
  /** Its rules, or the status of the error where there are none. */
  readonly lifecycle: readonly object[] | 403 | 404;
}

const AS_NEW: Bucket = { isConditional: true, lifecycle: 404 };

/** What stands between client and s3rver: conditional writes, lifecycle rules, and faults. */
export class S3Gateway {
  readonly seen: SeenRequest[] = [];
  private bucket: Bucket = AS_NEW;
  private fault: (request: SeenRequest) => Fault = () => 'none';

  private constructor(
    private readonly server: Server,
    private readonly targetPort: number,
  ) {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.handle(request, response).catch(() => response.destroy());
    });
  }

  static async start(targetPort: number): Promise<S3Gateway> {
    const server = createServer();
    const gateway = new S3Gateway(server, targetPort);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return gateway;
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.server.address() as AddressInfo).port)}`;
  }

  /** From now on. */
  follow(fault: (request: SeenRequest) => Fault): void {
    this.seen.length = 0;
    this.fault = fault;
  }

  configure(bucket: Partial<Bucket>): void {
    this.bucket = { ...AS_NEW, ...bucket };
  }

  /** As at first. */
  reset(): void {
    this.follow(() => 'none');
    this.configure({});
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const seen = { method, url, headers };
    this.seen.push(seen);
    const fault = this.fault(seen);
    const isRefused = typeof fault === 'object' && 'status' in fault;
    if (fault === 'cut') request.destroy();
    else if (fault === 'stall') request.pause();
    else if (isRefused) await refuse(request, response, fault.status, fault.code);
    else if (new URL(url, this.url).searchParams.has('lifecycle')) this.sendLifecycle(response);
    else if (
      this.bucket.isConditional &&
      headers['if-none-match'] === '*' &&
      (await this.exists(url))
    ) {
      await refuse(request, response, 412, 'PreconditionFailed');
    } else this.pass(request, response, fault);
  }

  private pass(request: IncomingMessage, response: ServerResponse, fault: Fault): void {
    const { 'if-none-match': _, ...headers } = request.headers;
    const passed = send({
      host: '127.0.0.1',
      port: this.targetPort,
      method: request.method,
      path: request.url,
      headers,
    });
    passed.on('error', () => response.destroy());
    passed.on('response', (answer) => {
      if (fault === 'lose the answer') {
        answer.resume().on('end', () => response.destroy());
        return;
      }
      if (typeof fault === 'object' && 'changed' in fault) {
        void sendChanged(answer, response, fault.changed);
        return;
      }
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      if (fault === 'cut the answer' || fault === 'stall the answer') {
        answer.once('data', (chunk: Buffer) => {
          answer.pause();
          response.write(chunk.subarray(0, chunk.length / 2), () => {
            if (fault === 'cut the answer') response.destroy();
          });
        });
      } else answer.pipe(response);
      response.on('close', () => answer.destroy());
    });
    request.on('aborted', () => passed.destroy());
    if (fault === 'cut the request') cutInTheMiddle(request, passed);
    else request.pipe(passed);
  }

  private async exists(url: string): Promise<boolean> {
    const path = new URL(url, this.url).pathname;
    const head = send({ host: '127.0.0.1', port: this.targetPort, method: 'HEAD', path });
    head.end();
    const [answer] = (await once(head, 'response')) as [IncomingMessage];
    answer.resume();
    return answer.statusCode === 200;
  }

  private sendLifecycle(response: ServerResponse): void {
    const { lifecycle } = this.bucket;
    if (lifecycle === 403) sendError(response, 403, 'AccessDenied');
    else if (lifecycle === 404) sendError(response, 404, 'NoSuchLifecycleConfiguration');
    else response.end(xml({ LifecycleConfiguration: { Rule: lifecycle } }));
  }
}

function cutInTheMiddle(request: IncomingMessage, passed: Writable): void {
  const half = Number(request.headers['content-length'] ?? 0) / 2;
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes < half) passed.write(chunk);
    else {
      passed.destroy();
      request.destroy();
    }
  });
}

async function sendChanged(
  answer: IncomingMessage,
  response: ServerResponse,
  changed: (bytes: Buffer) => Buffer,
): Promise<void> {
  const bytes = changed(await buffer(answer));
  const { etag: _, ...headers } = answer.headers;
  response.writeHead(answer.statusCode ?? 500, { ...headers, 'content-length': bytes.length });
  response.end(bytes);
}

/** As S3 does, once it has read the request. */
async function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  code: string,
): Promise<void> {
  await buffer(request);
  sendError(response, status, code);
}

function sendError(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/xml' });
  response.end(xml({ Error: { Code: code, Message: 'planned' } }));
}

function xml(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .flatMap(([name, inner]) =>
      (Array.isArray(inner) ? inner : [inner]).map((each) => `<${name}>${xml(each)}</${name}>`),
    )
    .join('');
}
