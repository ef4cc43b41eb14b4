import { Redis } from 'ioredis';

/** A command that was taken off the wire and has not reached the server. */
export class CapturedCommand {
  constructor(
    private readonly words: readonly Buffer[],
    private readonly targetPort: number,
  ) {}

  /**
   * Delivers it to the server over a separate connection, as the network does with a delayed copy.
   *
   * @returns the reply, which the client never sees: its fields as strings, without a script's nonce.
   */
  async deliver(): Promise<string[]> {
    const [name = Buffer.of(), ...args] = this.words;
    const client = new Redis(this.targetPort, '127.0.0.1', { disconnectTimeout: 100 });
    try {
      const [nonce, ...fields] = [await client.call(name.toString(), ...args)].flat().map(String);
      return nonce === String(args.at(-1)) ? fields : [String(nonce), ...fields];
    } finally {
      client.disconnect();
    }
  }
}
