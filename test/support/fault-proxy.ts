import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** What befalls one request and its answer on the way. */
export type Fault =
  | 'none'
  /** The server handles the request, the client's connection breaks before the first byte of the answer. */
  | 'lose the answer'
  /** The same in the middle of the answer. */
  | 'break off the answer'
  /** The same, and the client's connection stays open. */
  | 'answer nothing'
  /** The connection breaks before the request reaches the server. */
  | 'lose the request'
  /** The proxy answers 503 in the place of a server that never hears of the request. */
  | 'unavailable'
  | { readonly delayMs: number };

/** @param exchange - which request it is, in the order of their coming, from 0. */
export type FaultPlan = (exchange: number) => Fault;

const UNAVAILABLE =
  'HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n';

/**
 * A proxy for TCP that spoils HTTP/1.1 exchanges. It reads no HTTP: an exchange begins with the first bytes from
 * the client after an answer, which is so for every client that does not pipeline.
 */
export class FaultProxy {
  readonly #sockets = new Set<Socket>();
  #exchanges = 0;
  #plan: FaultPlan = () => 'none';

  private constructor(
    private readonly server: Server,
    private readonly targetPort: number,
  ) {}

  /** @param target - URL of a server on 127.0.0.1. */
  static async start(target: string): Promise<FaultProxy> {
    const server = createServer();
    const proxy = new FaultProxy(server, Number(new URL(target).port));
    server.on('connection', (client) => proxy.#join(client));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.server.address() as AddressInfo).port)}`;
  }

  /** How many requests came since {@link follow}. */
  get exchanges(): number {
    return this.#exchanges;
  }

  /** Spoils what comes from now on by this plan. */
  follow(plan: FaultPlan): void {
    this.#exchanges = 0;
    this.#plan = plan;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.server.close();
    await once(this.server, 'close');
  }

  #join(client: Socket): void {
    const server = connect(this.targetPort, '127.0.0.1');
    const breakBoth = () => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.setNoDelay();
      socket.on('error', breakBoth);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        breakBoth();
      });
    }

    let fault: Fault = 'none';
    let isAwaitingAnswer = false;
    client.on('data', (chunk) => {
      if (!isAwaitingAnswer) {
        isAwaitingAnswer = true;
        fault = this.#plan(this.#exchanges);
        this.#exchanges += 1;
      }
      if (fault === 'lose the request') breakBoth();
      else if (fault !== 'unavailable') server.write(chunk);
      else if (client.writable) client.end(UNAVAILABLE);
    });
    server.on('data', (chunk) => {
      isAwaitingAnswer = false;
      pass(chunk, fault, client, breakBoth);
    });
  }
}

function pass(chunk: Buffer, fault: Fault, client: Socket, breakBoth: () => void): void {
  switch (fault) {
    case 'lose the answer':
      breakBoth();
      return;
    case 'break off the answer':
      client.write(chunk.subarray(0, chunk.length / 2), breakBoth);
      return;
    case 'answer nothing':
      return;
    case 'none':
    case 'lose the request':
    case 'unavailable':
      client.write(chunk);
      return;
    default:
      setTimeout(() => client.write(chunk), fault.delayMs);
  }
}
