import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

const AMQP_PORT = 5672;

/** A proxy to a server whose connections can be cut, and which can be shut so that no new one comes through. */
export class TcpProxy {
  readonly #connections = new Set<Socket>();
  readonly #listener: Server;
  #isOpen = true;

  private constructor(private readonly server: URL) {
    this.#listener = createServer((client) => this.#connect(client));
  }

  /** @param serverUrl - with a port, unless it is a broker's. */
  static async open(serverUrl: string): Promise<TcpProxy> {
    const proxy = new TcpProxy(new URL(serverUrl));
    proxy.#listener.listen(0, '127.0.0.1');
    await once(proxy.#listener, 'listening');
    return proxy;
  }

  /** The server's URL through this proxy. */
  get url(): string {
    const url = new URL(this.server);
    url.host = `127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
    return url.href;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  cut(): void {
    for (const client of this.#connections) client.destroy();
  }

  /** Cuts all connections, and each new one until {@link reopen}. */
  shut(): void {
    this.#isOpen = false;
    this.cut();
  }

  reopen(): void {
    this.#isOpen = true;
  }

  close(): void {
    this.#listener.close();
    this.cut();
  }

  #connect(client: Socket): void {
    // The 'close' event that follows is enough.
    client.on('error', () => undefined);
    if (!this.#isOpen) {
      client.destroy();
      return;
    }
    const { hostname, port } = this.server;
    const server = connect(port === '' ? AMQP_PORT : Number(port), hostname);
    server.on('error', () => undefined);
    this.#connections.add(client);
    for (const socket of [client, server]) socket.setNoDelay();
    client.on('close', () => {
      this.#connections.delete(client);
      server.destroy();
    });
    server.on('close', () => client.destroy());
    client.pipe(server).pipe(client);
  }
}
