import { TcpRelay, type Link } from '../../../support/tcp-relay.js';

/** A way to the server on which replies can be lost: with their connection, or in silence. */
export class SilentRelay {
  private readonly links = new Set<Link>();
  private fate: 'deliver' | 'break' | 'swallow' = 'deliver';

  private constructor(private readonly relay: TcpRelay) {
    relay.tell((link) => {
      this.links.add(link);
      link.client.on('close', () => this.links.delete(link));
      link.client.on('data', (data) => link.server.write(data));
      link.server.on('data', (data) => {
        if (this.fate === 'deliver') link.client.write(data);
        if (this.fate === 'break') {
          // One reply, so that the copy that follows gets through.
          this.fate = 'deliver';
          link.breakBoth();
        }
      });
    });
  }

  static async start(targetPort: number): Promise<SilentRelay> {
    return new SilentRelay(await TcpRelay.start(targetPort));
  }

  get port(): number {
    return this.relay.port;
  }

  /** Connections that are open at this moment. */
  get connections(): number {
    return this.links.size;
  }

  /** The next reply breaks its connection instead of coming through. */
  breakAtNextReply(): void {
    this.fate = 'break';
  }

  /** From now on no reply comes through, on connections that stay open. */
  swallowReplies(): void {
    this.fate = 'swallow';
  }

  deliver(): void {
    this.fate = 'deliver';
  }

  stop(): Promise<void> {
    return this.relay.stop();
  }
}
