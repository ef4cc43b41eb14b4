import { Redis } from 'ioredis';

const TIMEOUT_MS = 10_000;

/** Counts the commands that clients send, as the server sees them (MONITOR); those inside scripts do not count. */
export class SentCommands {
  private count = 0;
  private onMark: () => void = () => undefined;

  private constructor(
    private readonly monitor: Redis,
    private readonly client: Redis,
  ) {
    monitor.on('monitor', (_time: string, [command = '']: string[], source: string) => {
      if (source === 'lua') return;
      if (command.toLowerCase() === 'echo') this.onMark();
      else this.count += 1;
    });
  }

  static async to(url: string): Promise<SentCommands> {
    const client = new Redis(url);
    return new SentCommands(await client.monitor(), client);
  }

  async during(work: () => Promise<unknown>): Promise<number> {
    await this.upToHere();
    this.count = 0;
    await work();
    await this.upToHere();
    return this.count;
  }

  close(): void {
    this.monitor.disconnect();
    this.client.disconnect();
  }

  /** Until the monitor has shown all that was sent before. */
  private async upToHere(): Promise<void> {
    const shown = new Promise<void>((resolve, reject) => {
      const tooLate = setTimeout(() => reject(new Error('MONITOR is silent.')), TIMEOUT_MS);
      this.onMark = () => {
        clearTimeout(tooLate);
        resolve();
      };
    });
    await this.client.echo('mark');
    await shown;
  }
}
