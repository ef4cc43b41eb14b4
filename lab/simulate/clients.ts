import type { ApiResponse } from '../faults/response.js';
import type { Intent } from './world/request.js';
import type { World } from './world/world.js';

const RETRY_PAUSE_MS = 40;

/** A key that clients still use. */
interface UsedKey {
  readonly intent: Intent;
  left: number;
}

/** All clients: they share keys, so that duplicates meet, and a dead owner's key is requested again. */
export class Clients {
  private left: number;
  private readonly used: UsedKey[] = [];
  private keys = 0;

  constructor(private readonly world: World) {
    this.left = world.plan.requests;
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: this.world.plan.atOnce }, () => this.client()));
  }

  /** Requests each key until there is a final response. @returns the keys that give none. */
  async sweep(): Promise<string[]> {
    const intents = [...this.world.intents.values()];
    const finals = await Promise.all(intents.map((intent) => this.isFinal(intent)));
    return intents.filter((_, index) => !finals[index]).map(({ key }) => key);
  }

  private async client(): Promise<void> {
    const { clientRandom: random } = this.world;
    while (this.left > 0) {
      this.left -= 1;
      await this.world.request(this.next());
      await this.world.pause(random.pick([0, 1, 5, random.integer(1, 100)]));
    }
  }

  private next(): Intent {
    const { clientRandom: random, plan } = this.world;
    const { used } = this;
    if (used.length < Math.max(1, plan.atOnce / 3)) this.chooseKey();
    const index = random.integer(0, used.length - 1);
    const key = used[index]!;
    key.left -= 1;
    if (key.left === 0) used.splice(index, 1);
    const { intent } = key;
    // A recovery finds what was done for the key, whatever the content.
    const mayDiffer =
      this.world.has('other content') && intent.operation.plan.onTakeover !== 'recover';
    if (!mayDiffer || !random.chance(0.2)) return intent;
    this.world.fault('other content', undefined, undefined, intent.key);
    return { ...intent, content: 'other' };
  }

  private chooseKey(): void {
    const { clientRandom: random, operations, plan } = this.world;
    this.keys += 1;
    const key = `key-${this.keys}`;
    const intent = { key, content: 'usual', operation: random.pick(operations) };
    this.world.know(intent);
    this.used.push({ intent, left: random.integer(1, 2 * plan.requestsPerKey - 1) });
  }

  private async isFinal(intent: Intent): Promise<boolean> {
    const { world } = this;
    const { leaseMs, maxExecutionMs, waitMs } = intent.operation.plan;
    const giveUpAt = world.scheduler.now + 4 * maxExecutionMs + 4 * leaseMs + waitMs + 10_000;
    for (;;) {
      const response = await world.request(intent);
      if (isFinalResponse(response)) return true;
      if (world.scheduler.now >= giveUpAt) return false;
      await world.pause(RETRY_PAUSE_MS);
    }
  }
}

function isFinalResponse({ status, code, replayed, retryAfter }: ApiResponse): boolean {
  if (replayed) return true;
  return status !== undefined && status < 500 && retryAfter === undefined && code !== 'invalid';
}
