import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** One connection through a relay: from the client to the relay, and from there to the server. */
export interface Link {
  readonly client: Socket;
  readonly server: Socket;
  readonly breakBoth: () => void;
}

/** Listens to the data of both sockets of a link. `number` counts the links from 1. */
export type Join = (link: Link, number: number) => void;

/**
 * Connects each of its clients with a server on 127.0.0.1. It forwards all data, except what {@link stallDetector}
 * drops; further faults come from the function given to {@link report}, or from a relay that overrides {@link
 * pass}.
 */
export class TcpRelay {
  /** How many connections there were. */
  connections = 0;
  /** How many pieces were dropped on connections that {@link stallDetector} has silenced. */
  lost = 0;
  private readonly links = new Set<Link>();
  private silenced: ReadonlySet<Link> = new Set();
  private replies: 'pass' | 'break' | 'swallow' = 'pass';
  private onLink: Join = (link) => this.pass(link);

  /** For {@link start}. */
  constructor(
    private readonly listener: Server,
    private readonly targetPort: number,
  ) {
    listener.on('connection', (client) => this.join(client));
  }

  static async start<Relay extends TcpRelay>(
    this: new (listener: Server, targetPort: number) => Relay,
    targetPort: number,
  ): Promise<Relay> {
    const listener = createServer();
    const relay = new this(listener, targetPort);
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    return relay;
  }

  /** Replaces the forwarding of data. */
  report(onLink: Join): void {
    this.onLink = onLink;
  }

  get port(): number {
    return (this.listener.address() as AddressInfo).port;
  }

  /** The URL of the server through this relay. */
  through(url: string): string {
    return Object.assign(new URL(url), { port: String(this.port) }).href;
  }

  get openConnections(): number {
    return this.links.size;
  }

  /** Breaks the open connections. */
  cut(): void {
    for (const link of this.links) link.breakBoth();
  }

  /** Drops everything on the open connections; new ones work. */
  stallDetector(): void {
    this.silenced = new Set(this.links);
  }

  /** The next reply breaks its connection instead of coming through. */
  breakAtNextReply(): void {
    this.replies = 'break';
  }

  /** Holds all replies, on connections that stay open, until {@link deliver}. */
  swallowReplies(): void {
    this.replies = 'swallow';
  }

  deliver(): void {
    this.replies = 'pass';
  }

  async stop(): Promise<void> {
    this.cut();
    this.listener.close();
    await once(this.listener, 'close');
  }

  private join(client: Socket): void {
    const server = connect(this.targetPort, '127.0.0.1');
    const sockets = [client, server];
    const link: Link = {
      client,
      server,
      breakBoth: () => sockets.forEach((socket) => socket.destroy()),
    };
    this.links.add(link);
    this.connections += 1;
    for (const socket of sockets) {
      socket.setNoDelay();
      // The close that follows reports all there is to report.
      socket.on('error', () => undefined);
    }
    client.on('close', () => {
      this.links.delete(link);
      link.breakBoth();
    });
    this.onLink(link, this.connections);
  }

  protected pass(link: Link): void {
    const { client, server, breakBoth } = link;
    client.on('data', (chunk) => {
      if (this.silenced.has(link)) this.lost += 1;
      else server.write(chunk);
    });
    server.on('data', (chunk) => {
      const { replies } = this;
      // One reply, so that the copy that follows gets through.
      if (replies === 'break') this.deliver();
      if (replies === 'break') breakBoth();
      else if (replies === 'pass' && !this.silenced.has(link)) client.write(chunk);
    });
  }
}
