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
   * @returns the reply, which the client never sees: its fields as text.
   */
  async deliver(): Promise<string[]> {
    const [name = Buffer.of(), ...args] = this.words;
    const client = new Redis(this.targetPort, '127.0.0.1', { disconnectTimeout: 100 });
    try {
      return [await client.call(name.toString(), ...args)].flat().map(String);
    } finally {
      client.disconnect();
    }
  }
}
