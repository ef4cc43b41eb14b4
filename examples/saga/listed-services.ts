import type { Provider } from '@nestjs/common';
import type { Redis } from 'ioredis';
import { Bank, Carrier, Stock, type Call, type Decision, type Order } from './services.js';

export type StepName = 'reserve' | 'charge' | 'ship' | 'refund' | 'release';

/** Where a process stops: before it calls a service, or after the service has acted. */
export type StopsAt = `${'before' | 'after'} ${StepName}` | 'never';

export interface ServiceSettings {
  readonly rejects: 'nothing' | 'charge' | 'ship';
  /** Whether the services act once per key, or at every call. */
  readonly keys: 'honoured' | 'ignored';
}

/** The services of an order, outside of all processes: their calls and effects are lists in Redis. */
export class ListedServices {
  constructor(
    private readonly redis: Redis,
    private readonly settings: ServiceSettings,
    private readonly reached: (place: StopsAt) => Promise<void> = () => Promise.resolve(),
  ) {}

  get providers(): Provider[] {
    const act = (name: StepName) => (order: Order, call: Call) => this.act(name, order, call);
    return [
      { provide: Stock, useValue: { reserve: act('reserve'), release: act('release') } },
      { provide: Bank, useValue: { charge: act('charge'), refund: act('refund') } },
      { provide: Carrier, useValue: { ship: act('ship') } },
    ];
  }

  private async act(name: StepName, { id }: Order, { idempotencyKey }: Call): Promise<Decision> {
    const { rejects, keys } = this.settings;
    await this.reached(`before ${name}`);
    await this.redis.rpush(`calls:${id}`, name);
    const isFirst = (await this.redis.set(`key:${idempotencyKey}`, name, 'NX')) === 'OK';
    const accepted = name !== rejects;
    if (accepted && (isFirst || keys === 'ignored')) await this.redis.rpush(`effects:${id}`, name);
    await this.reached(`after ${name}`);
    return { accepted };
  }
}

export const callsOf = (redis: Redis, { id }: Order) => redis.lrange(`calls:${id}`, 0, -1);
export const effectsOf = (redis: Redis, { id }: Order) => redis.lrange(`effects:${id}`, 0, -1);

export const MODULE_OPTIONS = {
  service: 'shop',
  lease: { duration: '500ms' },
  // A busy machine must not look like a store that is down.
  storeErrors: { commandTimeout: '5s', saveTimeout: '5s' },
} as const;
