// Not the global one, which tests fake: what is held back would never go out.
import { setImmediate } from 'node:timers';
import type { CorkableStream } from './binary-client.js';

/**
 * Lets the commands of one turn of the event loop go out in one write, as ioredis' auto-pipelining does, of which each
 * command costs two promises and a turn of its own: more than all the rest that the client does for it.
 */
export class WriteBatch {
  private corked: CorkableStream | undefined;

  /** @param client - its stream changes with each connection; none while there is no connection. */
  constructor(private readonly client: { readonly stream?: CorkableStream }) {}

  /** What is written from now on waits for the others of this turn. */
  join(): void {
    const { stream } = this.client;
    if (stream === undefined || stream === this.corked) return;
    this.corked = stream;
    stream.cork();
    // Behind all input of this turn, which may bring further commands.
    setImmediate(() => {
      if (this.corked === stream) this.corked = undefined;
      stream.uncork();
    });
  }
}
