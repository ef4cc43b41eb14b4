import type { StopWatching } from '../../core/store/idempotency-store.js';
import { Watchers } from '../../core/util/listeners.js';
import { isDoneWithin, jitteredPause } from '../../core/util/time.js';
import { endWithin, type OwnClient } from './own-pool.js';
import { quote } from './sql/table-name.js';

const FIRST_RECONNECT_PAUSE_MS = 50;
const LONGEST_RECONNECT_PAUSE_MS = 1_000;

/**
 * The ends of records that this process is told of, over one connection that listens to the one channel of
 * the table. It is opened when the first one waits, and opened again if it breaks while somebody waits. Nothing that comes
 * over it is an outcome: whoever is told of an end reads the record.
 */
export class Subscriptions {
  private readonly watchers = new Watchers<string>();
  private watching = 0;
  private client: OwnClient | undefined;
  /** Settles once the connection listens; undefined while there is none. */
  private listening: Promise<void> | undefined;
  private reconnectPauseMs = FIRST_RECONNECT_PAUSE_MS;
  private isClosed = false;

  constructor(
    private readonly makeClient: () => Promise<OwnClient>,
    private readonly channel: string,
  ) {}

  /** @returns how to stop, or `undefined` when nothing listens within `timeoutMs`. */
  async watch(
    recordKey: string,
    onEnd: () => void,
    timeoutMs: number,
  ): Promise<StopWatching | undefined> {
    if (this.isClosed) return undefined;
    this.watchers.add(recordKey, onEnd);
    this.watching += 1;
    let isWatching = true;
    const stop = () => {
      if (!isWatching) return;
      isWatching = false;
      this.watching -= 1;
      this.watchers.remove(recordKey, onEnd);
    };
    this.listening ??= this.listen();
    if (await isDoneWithin(timeoutMs, this.listening)) return stop;
    stop();
    return undefined;
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.watchers.clear();
    if (this.client !== undefined) await endWithin(this.client);
  }

  private async listen(): Promise<void> {
    const client = await this.makeClient();
    // Closed meanwhile: nothing would end it.
    if (this.isClosed) return;
    this.client = client;
    const forget = () => {
      if (this.client !== client) return;
      this.client = undefined;
      this.listening = undefined;
      void this.listenAgain();
    };
    // Unheard it would end the process; the end, which follows, tells that the connection is gone.
    client.on('error', () => undefined);
    client.on('end', forget);
    client.on('notification', ({ payload }) => {
      if (payload !== undefined) this.watchers.notify(payload);
    });
    try {
      await client.connect();
      await client.query({ text: `LISTEN ${quote(this.channel)}` });
      this.reconnectPauseMs = FIRST_RECONNECT_PAUSE_MS;
    } catch (error) {
      forget();
      client.end().catch(() => undefined);
      throw error;
    }
  }

  /** What is told meanwhile is lost to those who wait: they look from time to time all the same. */
  private async listenAgain(): Promise<void> {
    await jitteredPause(this.reconnectPauseMs);
    this.reconnectPauseMs = Math.min(2 * this.reconnectPauseMs, LONGEST_RECONNECT_PAUSE_MS);
    if (this.listening !== undefined || this.watching === 0 || this.isClosed) return;
    this.listening = this.listen();
    // Failed, it calls this method again.
    await this.listening.catch(() => undefined);
  }
}
