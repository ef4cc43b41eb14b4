import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** One connection through a relay: from the client to the relay, and from there to the server. */
export interface Link {
  readonly client: Socket;
  readonly server: Socket;
  readonly breakBoth: () => void;
}

/** Connects each of its clients with a server on 127.0.0.1; what passes between them is its owner's affair. */
export class TcpRelay {
  private readonly links = new Set<Link>();

  private onLink: (link: Link) => void = ({ breakBoth }) => {
    breakBoth();
  };

  private constructor(
    private readonly listener: Server,
    private readonly targetPort: number,
  ) {
    listener.on('connection', (client) => this.join(client));
  }

  static async start(targetPort: number): Promise<TcpRelay> {
    const listener = createServer();
    const relay = new TcpRelay(listener, targetPort);
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    return relay;
  }

  /** Names who is told of each new link, and has to listen to the data of both its sockets. */
  tell(onLink: (link: Link) => void): void {
    this.onLink = onLink;
  }

  get port(): number {
    return (this.listener.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    for (const link of this.links) link.breakBoth();
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
    for (const socket of sockets) {
      socket.setNoDelay();
      // The close that follows says all there is to say.
      socket.on('error', () => undefined);
    }
    client.on('close', () => {
      this.links.delete(link);
      link.breakBoth();
    });
    this.onLink(link);
  }
}
