import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';

const QUIET_MS = 10;
const QUIET_AT_MOST = 100;

/** Counts the CPU time that servers take, their threads in the background aside. */
export class RedisCpu {
  private readonly clients: readonly Redis[];

  constructor(urls: readonly string[]) {
    this.clients = urls.map((url) => new Redis(url));
  }

  /** Microseconds since the servers were started, of all of them together. */
  async microseconds(): Promise<number> {
    const texts = await Promise.all(this.clients.map((client) => client.info('cpu')));
    return texts.reduce((sum, text) => sum + secondsIn(text) * 1e6, 0);
  }

  /** Resolves when clients send no more: what a load left under way is done. */
  async untilQuiet(): Promise<void> {
    let [before, now] = [-Infinity, await this.commands()];
    // The one that asks counts, too.
    for (let i = 0; now - before > this.clients.length && i < QUIET_AT_MOST; i += 1) {
      await delay(QUIET_MS);
      [before, now] = [now, await this.commands()];
    }
  }

  private async commands(): Promise<number> {
    const texts = await Promise.all(this.clients.map((client) => client.info('stats')));
    return texts.reduce((sum, text) => {
      return sum + Number(/^total_commands_processed:(\d+)/m.exec(text)?.[1]);
    }, 0);
  }

  /** Forgets all keys, before anything is measured again. */
  async flush(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.flushall('SYNC')));
  }

  async version(): Promise<string> {
    const text = (await this.clients[0]?.info('server')) ?? '';
    return /redis_version:(\S+)/.exec(text)?.[1] ?? '';
  }

  close(): void {
    for (const client of this.clients) client.disconnect();
  }
}

function secondsIn(info: string): number {
  const values = [...info.matchAll(/^used_cpu_(?:sys|user)_main_thread:(\S+)/gm)];
  return values.reduce((sum, [, value]) => sum + Number(value), 0);
}
