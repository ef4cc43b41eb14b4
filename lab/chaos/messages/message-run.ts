import { setTimeout as delay } from 'node:timers/promises';
import type { ConsumerProcess } from '../../faults/messages/consumer-process.js';
import type { MessageLab } from '../../faults/messages/message-lab.js';
import { Random } from '../../../test/integration/differential/random.js';
import type { ConsumerPool } from './consumer-pool.js';
import type { MessagePlan } from './message-plan.js';
import { publications } from './publications.js';
import { closeOf, injectionsOf, type Injection } from './injections.js';

/** The interval of polling. */
const POLL_PAUSE_MS = 2;

/** How often the broker is asked whether it has got rid of everything. */
const ASK_PAUSE_MS = 100;

/** Longer than any trouble lasts on a busy machine. */
const TIMEOUT_MS = 60_000;

/** So much of the load is left for the injections that have to be repeated. */
const SPARE = 0.1;

/**
 * Load and troubles of a run, in rounds: a portion of the messages is published, and when some of it, drawn at random,
 * has been sent to the consumers, a fault is injected into one of these.
 */
export class MessageRun {
  published = 0;
  /** How many consumers have stood still. */
  pauses = 0;
  private readonly random: Random;
  private readonly numbers: Generator<number, never>;
  private readonly injections: readonly Injection[];
  private readonly portion: number;
  private readonly standing: Promise<void>[] = [];

  constructor(
    private readonly plan: MessagePlan,
    private readonly lab: MessageLab,
    private readonly pool: ConsumerPool,
  ) {
    const { seed, messages, deliveries } = plan;
    this.random = new Random(seed);
    this.numbers = publications(messages, deliveries, new Random(seed + 1));
    this.injections = injectionsOf(plan, new Random(seed + 2));
    this.portion = Math.ceil(deliveries / Math.max(1, this.injections.length * (1 + SPARE)));
  }

  /**
   * @returns when everything has been published, and every fault was injected often enough.
   * @throws Error where injections do not do what they should, over and over.
   */
  async load(): Promise<void> {
    const { pool, lab, plan, injections } = this;
    for (const injection of injections) await this.round(injection);
    // Who was to die, or to close its channel, may have met another fault before.
    await this.repeat(
      () => ({ kind: 'kill' }),
      () => pool.deaths >= plan.kills,
    );
    await this.repeat(
      (times) => closeOf(times),
      () => lab.closes >= plan.closes,
    );
    await Promise.all(this.standing);
    while (this.published < plan.deliveries) await this.publish();
  }

  /** Gives the consumers time to acknowledge everything; the oracle finds out whether they have. */
  async settle(): Promise<void> {
    const { lab, plan } = this;
    const deadline = performance.now() + plan.leaseMs + TIMEOUT_MS;
    while (performance.now() < deadline) {
      await delay(ASK_PAUSE_MS);
      if (await lab.isEmpty()) return;
    }
  }

  private async repeat(next: (times: number) => Injection, isEnough: () => boolean): Promise<void> {
    for (let times = 0; !isEnough(); times += 1) {
      if (times > this.injections.length) throw new Error('one injection after the other misses');
      await this.round(next(times));
    }
  }

  private async round(injection: Injection): Promise<void> {
    const { pool, lab, random, portion, plan } = this;
    const hasTarget = () => pool.isHalfUp && this.slotFrom(0) !== undefined;
    if (!(await within(TIMEOUT_MS, hasTarget))) {
      throw new Error(['the consumers do not come back', ...pool.collapses].join('\n'));
    }
    const slot = this.slotFrom(random.integer(0, pool.size - 1))!;
    const consumer = pool.at(slot)!;
    const moment = lab.wire.delivered + random.integer(1, portion);
    if (injection.kind === 'crash') consumer.command(injection);
    const publishing = this.publish();
    // Where all that was sent waits for the lease of a dead consumer, no more is sent.
    await within(plan.leaseMs, () => lab.wire.delivered >= moment);
    await this.inject(injection, slot, consumer);
    await publishing;
  }

  private async inject(
    injection: Injection,
    slot: number,
    consumer: ConsumerProcess,
  ): Promise<void> {
    const { pool, lab, plan } = this;
    switch (injection.kind) {
      case 'kill':
        await pool.kill(slot);
        return;
      case 'crash':
        // If no attempt comes by that point now, one does later on.
        await within(plan.leaseMs, () => !consumer.isRunning);
        return;
      case 'close':
        if (injection.by === 'none') lab.cut(slot);
        else lab.closeChannel(consumer, injection.by);
        return;
      case 'pause':
        this.pauses += 1;
        lab.standsStill(consumer);
        pool.stop(slot);
        this.standing.push(delay(injection.ms).then(() => pool.continue(slot)));
    }
  }

  /** This slot or the next one whose consumer is up and goes on. */
  private slotFrom(first: number): number | undefined {
    const { pool } = this;
    const slots = Array.from({ length: pool.size }, (_, step) => (first + step) % pool.size);
    return slots.find((slot) => pool.isUp(slot) && !pool.isStopped(slot));
  }

  private async publish(): Promise<void> {
    const { portion, published, plan } = this;
    const planned = plan.deliveries - published;
    const count = planned > 0 ? Math.min(portion, planned) : portion;
    this.published += count;
    await this.lab.publish(Array.from({ length: count }, () => this.numbers.next().value));
  }
}

/** @returns whether it has come about in time. */
async function within(ms: number, hasComeAbout: () => boolean): Promise<boolean> {
  const deadline = performance.now() + ms;
  while (!hasComeAbout()) {
    if (performance.now() > deadline) return false;
    await delay(POLL_PAUSE_MS);
  }
  return true;
}
