import { Redis } from 'ioredis';

/** The place of a script's nonce: after its SHA-1, the number of keys and the key. */
const NONCE = 3;

/** A command that was taken off the wire and has not reached the server. */
export class CapturedCommand {
  constructor(
    private readonly words: readonly Buffer[],
    private readonly targetPort: number,
  ) {}

  /**
   * Delivers it to the server over a separate connection, as the network does with a delayed copy.
   *
   * @returns the reply, which the client never sees: its words as strings, without a script's nonce.
   */
  async deliver(): Promise<string[]> {
    const [name = Buffer.of(), ...args] = this.words;
    const client = new Redis(this.targetPort, '127.0.0.1', { disconnectTimeout: 100 });
    try {
      const [head = '', ...record] = [await client.call(name.toString(), ...args)]
        .flat()
        .map(String);
      const [nonce, ...words] = head.split(' ');
      return nonce === String(args[NONCE]) ? [...words, ...record] : [head, ...record];
    } finally {
      client.disconnect();
    }
  }
}
