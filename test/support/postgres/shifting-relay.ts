import { TcpRelay, type Link } from '../servers/tcp-relay.js';

/** PostgreSQL's ReadyForQuery: the last message of each reply. */
const READY = 'Z'.charCodeAt(0);
const AUTHENTICATION = 'R'.charCodeAt(0);
/** One byte for the type, four for the length. */
const HEAD_BYTES = 5;

/**
 * A relay to PostgreSQL on which the replies of a connection can get out of step: one is sent twice, and from
 * then on each arrives in place of the next one. It parses only as much of the protocol as it needs to find
 * the end of a reply.
 */
export class ShiftingRelay extends TcpRelay {
  /** How many connections have got out of step. */
  shifts = 0;
  private awaited: string | undefined;

  /**
   * The next statement that contains `text`, or names it, gets the reply before its own; so does each after
   * it.
   */
  shiftAt(text: string): void {
    this.awaited = text;
  }

  protected override pass({ client, server, breakBoth }: Link): void {
    server.on('close', breakBoth);
    let last: Buffer = Buffer.alloc(0);
    /** Replies that precede the server's own. */
    const delayed: Buffer[] = [];
    client.on('data', (chunk: Buffer) => {
      if (this.awaited !== undefined && delayed.length === 0 && chunk.includes(this.awaited)) {
        this.awaited = undefined;
        this.shifts += 1;
        delayed.push(last);
      }
      server.write(chunk);
    });
    const onReply = (reply: Buffer) => {
      last = reply;
      delayed.push(reply);
      client.write(delayed.shift()!);
    };
    server.on('data', readReplies(onReply));
  }
}

/** @returns the listener for the received bytes. */
function readReplies(onReply: (reply: Buffer) => void): (chunk: Buffer) => void {
  let bytes: Buffer = Buffer.alloc(0);
  let end = 0;
  return (chunk) => {
    bytes = Buffer.concat([bytes, chunk]);
    while (bytes.length >= end + HEAD_BYTES) {
      const type = bytes[end];
      const next = end + 1 + bytes.readInt32BE(end + 1);
      if (bytes.length < next) return;
      end = next;
      // While a client connects, the server asks for more, and waits for it.
      if (type !== READY && type !== AUTHENTICATION) continue;
      onReply(bytes.subarray(0, end));
      bytes = bytes.subarray(end);
      end = 0;
    }
  };
}
