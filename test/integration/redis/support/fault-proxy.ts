import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** Stands between client and server, and lets replies disappear. */
export class FaultProxy {
  private readonly links = new Set<Link>();
  private swallowing = false;

  private constructor(
    private readonly server: Server,
    private readonly target: number,
  ) {
    server.on('connection', (socket) => this.link(socket));
  }

  static async start(target: number): Promise<FaultProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new FaultProxy(server, target);
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** How many connections there were, the present ones included. */
  connections = 0;

  /** The next reply is swallowed and its connection cut: the server executed, the client never learns. */
  cutAtNextReply(): void {
    this.swallowing = true;
  }

  /** From now on nothing comes back over the connections that are open; new ones work. */
  silenceOpenConnections(): void {
    for (const link of this.links) link.silent = true;
  }

  async stop(): Promise<void> {
    for (const { socket, upstream } of this.links) {
      socket.destroy();
      upstream.destroy();
    }
    await new Promise((resolve) => this.server.close(resolve));
  }

  private link(socket: Socket): void {
    this.connections += 1;
    const upstream = connect(this.target, '127.0.0.1');
    const link: Link = { socket, upstream, silent: false };
    this.links.add(link);
    socket.on('data', (data) => upstream.write(data));
    upstream.on('data', (data) => {
      if (link.silent) return;
      if (this.swallowing) {
        this.swallowing = false;
        socket.destroy();
        return;
      }
      socket.write(data);
    });
    for (const [one, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      one.on('error', () => undefined);
      one.on('close', () => {
        other.destroy();
        this.links.delete(link);
      });
    }
  }
}

interface Link {
  readonly socket: Socket;
  readonly upstream: Socket;
  silent: boolean;
}
