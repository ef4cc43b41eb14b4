// Not the global ones, which tests fake.
import { setImmediate, setTimeout } from 'node:timers';
import { StoreReplyMismatchedError } from '../../core/errors.js';
import type { OrderedClient } from './binary-client.js';

const LOOK_AGAIN_MS = 5;
/** After these it is not known: whoever asked has no longer time than that. */
const LOOKS = 100;

/** Told once of each connection that was found out of step. */
export type MismatchTold = (error: StoreReplyMismatchedError) => void;

/** Error replies of one connection of which it is not known yet whether they are their commands' own. */
interface Doubt {
  readonly stream: object | undefined;
  readonly told: ((isInPlace: boolean) => void)[];
  looks: number;
}

/**
 * Whether the replies of one connection still come in step with its commands. Of itself only a script's reply says whose
 * it is: an error reply is believed once the connection was found in step after it.
 */
export class ReplyOrder {
  private doubt: Doubt | undefined;
  private readonly ended = new WeakSet();

  constructor(
    private readonly client: OrderedClient,
    private readonly tell: MismatchTold,
  ) {}

  /** A reply has said that it belongs to its command. */
  confirmed(): void {
    if (this.doubt !== undefined) this.resolve(this.doubt.stream === this.client.stream);
  }

  /** A reply belongs to another command: the connection is ended, and what it has still to say is read by nobody. */
  broken(): StoreReplyMismatchedError {
    this.resolve(false);
    const error = new StoreReplyMismatchedError('Redis');
    const { client } = this;
    // Nobody knows which of its nodes has answered what was left to a cluster to send.
    const connections = client.isCluster === true ? (client.nodes?.() ?? []) : [client];
    let isNew = false;
    for (const { stream } of connections) {
      if (stream === undefined || this.ended.has(stream)) continue;
      isNew = true;
      this.ended.add(stream);
      stream.destroy();
    }
    if (isNew) this.tell(error);
    return error;
  }

  /** An error reply has just come: `told` is told, once it is known, whether it is its command's own. */
  errorReplied(told: (isInPlace: boolean) => void): void {
    if (this.doubt === undefined) {
      this.doubt = { stream: this.client.stream, told: [], looks: 0 };
      // Replies that came with it are looked at first.
      setImmediate(this.look, this.doubt);
    }
    this.doubt.told.push(told);
  }

  private readonly look = (doubt: Doubt): void => {
    if (this.doubt !== doubt) return;
    const { stream, commandQueue } = this.client;
    doubt.looks += 1;
    if (stream !== doubt.stream || doubt.looks > LOOKS) this.resolve(false);
    // Nothing is owed any more, so that each command has had one reply, its own.
    else if (commandQueue?.length === 0) this.resolve(true);
    else setTimeout(this.look, LOOK_AGAIN_MS, doubt).unref();
  };

  private resolve(isInPlace: boolean): void {
    const { doubt } = this;
    this.doubt = undefined;
    for (const told of doubt?.told ?? []) told(isInPlace);
  }
}
