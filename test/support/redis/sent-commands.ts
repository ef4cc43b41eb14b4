import { Redis } from 'ioredis';
import { Tally } from '../waiting/tally.js';

/** The commands of clients, as the server sees them. Commands inside scripts do not count. */
export class SentCommands {
  private readonly seen: string[] = [];
  private readonly marks = new Tally();

  private constructor(
    private readonly monitor: Redis,
    private readonly client: Redis,
  ) {
    monitor.on('monitor', (_time: string, args: string[], source: string) => {
      const [command = ''] = args;
      if (source === 'lua') return;
      if (command.toLowerCase() === 'echo') this.marks.add();
      else this.seen.push(command.toLowerCase());
    });
  }

  static async to(redis: { readonly url: string }): Promise<SentCommands> {
    const client = new Redis(redis.url);
    return new SentCommands(await client.monitor(), client);
  }

  /** The commands that clients sent during `work`, in the server's order. */
  async during(work: () => Promise<unknown>): Promise<string[]> {
    await this.upToHere();
    this.seen.length = 0;
    await work();
    await this.upToHere();
    return [...this.seen];
  }

  stop(): void {
    this.monitor.disconnect();
    this.client.disconnect();
  }

  private async upToHere(): Promise<void> {
    const mark = this.marks.count + 1;
    await this.client.echo(String(mark));
    await this.marks.reached(mark);
  }
}
