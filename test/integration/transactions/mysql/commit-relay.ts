import { TcpRelay, type Link } from '../../../support/servers/tcp-relay.js';

/** Breaks the connection at a COMMIT: before the server has it, or in place of its reply. */
export class CommitRelay extends TcpRelay {
  breaksAt: 'before COMMIT' | 'its reply' | undefined;

  protected override pass({ client, server, breakBoth }: Link): void {
    let isCommitting = false;
    client.on('data', (chunk: Buffer) => {
      const commits = this.breaksAt !== undefined && /\bcommit\b/i.test(chunk.toString('latin1'));
      if (commits && this.breaksAt === 'before COMMIT') {
        breakBoth();
        return;
      }
      isCommitting = commits;
      server.write(chunk);
    });
    server.on('data', (chunk) => {
      if (isCommitting) breakBoth();
      else client.write(chunk);
    });
  }
}
