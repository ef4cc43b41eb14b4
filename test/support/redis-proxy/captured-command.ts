import { Redis } from 'ioredis';

/** A command that was taken off the wire, and that the server does not know of yet. */
export class CapturedCommand {
  constructor(
    private readonly words: readonly Buffer[],
    private readonly targetPort: number,
  ) {}

  /**
   * Hands it to the server over a connection of its own, as the network does with a copy that comes late.
   *
   * @returns the reply, which the client never sees: its fields as text, without a script's nonce.
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
