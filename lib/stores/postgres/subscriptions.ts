import type { StopWatching } from '../../core/record/commands.js';
import { Watchers } from '../../core/store/watchers.js';
import { nodeClock } from '../../core/util/clock.js';
import { isDoneWithin, jitteredPause } from '../../core/util/time.js';
import { endWithin, type OwnClient } from './own-pool.js';
import { quote } from './sql/table-name.js';

const FIRST_RECONNECT_PAUSE_MS = 50;
const LONGEST_RECONNECT_PAUSE_MS = 1_000;

/**
 * Notifications about the ends of records, over one connection that listens to the channel of the table. It opens with
 * the first waiting duplicate, and again after a failure while one waits. A notification is never an outcome: on it,
 * duplicates read the record.
 */
export class Subscriptions {
  private readonly watchers = new Watchers<string>();
  private watching = 0;
  private client: OwnClient | undefined;
  /** Settles once the connection listens; undefined without one. */
  private listening: Promise<void> | undefined;
  private reconnectPauseMs = FIRST_RECONNECT_PAUSE_MS;
  private isClosed = false;

  constructor(
    private readonly makeClient: () => Promise<OwnClient>,
    private readonly channel: string,
  ) {}

  /** @returns a function that stops watching, or `undefined` if listening took longer than `timeoutMs`. */
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
    if (await isDoneWithin(timeoutMs, this.listening, nodeClock)) return stop;
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
    // Closed meanwhile: the connection would never be ended.
    if (this.isClosed) return;
    this.client = client;
    const forget = () => {
      if (this.client !== client) return;
      this.client = undefined;
      this.listening = undefined;
      void this.listenAgain();
    };
    // Without a listener, an error would end the process. The event "end" follows it.
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

  /** Notifications in the meantime are lost, but duplicates poll in any case. */
  private async listenAgain(): Promise<void> {
    await jitteredPause(this.reconnectPauseMs, nodeClock);
    this.reconnectPauseMs = Math.min(2 * this.reconnectPauseMs, LONGEST_RECONNECT_PAUSE_MS);
    if (this.listening !== undefined || this.watching === 0 || this.isClosed) return;
    this.listening = this.listen();
    // If it fails, it calls this method again.
    await this.listening.catch(() => undefined);
  }
}
