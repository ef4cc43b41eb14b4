import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** What the server does with one request. */
export type Step = Reply | 'hang up' | 'stay silent' | 'break off in the body';

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/** An HTTP server that follows a script, request by request; the last step applies to all further ones. */
export class ScriptedServer {
  readonly requests: ReceivedRequest[] = [];
  #script: readonly Step[] = [];

  private constructor(private readonly server: Server) {}

  static async start(): Promise<ScriptedServer> {
    const server = createServer();
    const scripted = new ScriptedServer(server);
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      void scripted.#receive(request, response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return scripted;
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.server.address() as AddressInfo).port)}/payments`;
  }

  /** Starts again with these steps. */
  runSteps(...script: readonly Step[]): void {
    this.requests.length = 0;
    this.#script = script;
  }

  /** Resolves as soon as this many requests have arrived since {@link runSteps}. */
  async received(count: number): Promise<void> {
    while (this.requests.length < count) await once(this.server, 'received');
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const step = this.#script[Math.min(this.requests.length, this.#script.length - 1)];
    if (step === undefined) throw new Error('There is no script');
    const { method = '', url: path = '', headers } = request;
    this.requests.push({ method, path, headers, body });
    this.server.emit('received');
    perform(step, response);
  }
}

function perform(step: Step, response: ServerResponse): void {
  switch (step) {
    case 'stay silent':
      return;
    case 'hang up':
      response.destroy();
      return;
    case 'break off in the body':
      response.writeHead(201, { 'content-length': 100 });
      response.write('{"charge"', () => response.destroy());
      return;
    default:
      response.writeHead(step.status, step.headers);
      response.end(step.body);
  }
}

/** The library's own responses, as far as a client reads them. */
export function problem(status: number, slug: string, retryAfter?: string): Reply {
  const code = `idempotency_${slug.replaceAll('-', '_')}`;
  return {
    status,
    headers: {
      'content-type': 'application/problem+json; charset=utf-8',
      ...(retryAfter === undefined ? {} : { 'retry-after': retryAfter }),
    },
    body: JSON.stringify({
      type: `https://example.com/problems/${slug}`,
      title: `The title of ${slug}`,
      status,
      detail: `What to do about ${slug}.`,
      code,
      retryable: retryAfter !== undefined,
    }),
  };
}
