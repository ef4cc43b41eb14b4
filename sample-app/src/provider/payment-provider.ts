import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, Logger } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import type { Environment } from '../config/environment.js';
import { type Charge, Ledger, type LedgerEntry, type Refund } from '../ledger/ledger.js';
import { magicAmounts } from './magic-amounts.js';
import { ProviderError } from './provider-error.js';

/** The longest that a timer takes: 24 days. */
const FOREVER_MS = 2 ** 31 - 1;

export type ChargeOrder = Omit<Charge, 'kind' | 'id' | 'at'>;
export type RefundOrder = Omit<Refund, 'kind' | 'id' | 'at'>;

/**
 * A pretended payment provider: slow, and so simple-minded that it charges as often as it is asked.
 *
 * The money moves half-way through a call. Whoever dies after that has charged the card and never heard of it.
 */
@Injectable()
export class PaymentProvider {
  private readonly logger = new Logger('Provider');
  readonly #oneWayMs: number;

  constructor(
    private readonly ledger: Ledger,
    config: ConfigService<Environment, true>,
  ) {
    this.#oneWayMs = config.get('PROVIDER_DELAY_MS', { infer: true }) / 2;
  }

  async charge(order: ChargeOrder, signal: AbortSignal): Promise<Charge> {
    await this.#travel(signal, order.amount === magicAmounts.hangs ? FOREVER_MS : this.#oneWayMs);
    if (order.amount === magicAmounts.declined) {
      throw new ProviderError('card_declined', 'The card was declined');
    }
    if (order.amount === magicAmounts.providerDown) {
      throw new ProviderError('provider_down', 'The payment provider is down');
    }
    const charge = this.#write({ kind: 'charge', ...this.#stamp(), ...order });
    await this.#travel(signal);
    return charge;
  }

  async refund(order: RefundOrder, signal: AbortSignal): Promise<Refund> {
    await this.#travel(signal);
    const left = (this.getCharge(order.chargeId)?.amount ?? 0) - this.refunded(order.chargeId);
    if (order.amount > left) {
      throw new ProviderError('refund_too_large', `Only ${left} can be refunded`);
    }
    const refund = this.#write({ kind: 'refund', ...this.#stamp(), ...order });
    await this.#travel(signal);
    return refund;
  }

  /** What an earlier attempt achieved: to be asked before moving money again. */
  findCharge(reference: string): Charge | undefined {
    return this.#charges().find((charge) => charge.reference === reference);
  }

  findRefund(reference: string): Refund | undefined {
    return this.#refunds().find((refund) => refund.reference === reference);
  }

  getCharge(id: string): Charge | undefined {
    return this.#charges().find((charge) => charge.id === id);
  }

  /** How much of a charge has been paid back. */
  refunded(chargeId: string): number {
    return this.#refunds()
      .filter((refund) => refund.chargeId === chargeId)
      .reduce((sum, { amount }) => sum + amount, 0);
  }

  async #travel(signal: AbortSignal, ms = this.#oneWayMs): Promise<void> {
    try {
      await sleep(ms, undefined, { signal });
    } catch (cause) {
      throw new ProviderError('provider_timeout', 'The payment provider took too long', { cause });
    }
  }

  #stamp() {
    return { id: randomUUID(), at: new Date().toISOString() };
  }

  /**
   * Refuses an attempt that has been overtaken: a process that was frozen for longer than its lease may
   * wake up here, after another one has done its work. In a database, one statement checks and writes.
   */
  #write<Entry extends LedgerEntry>(entry: Entry): Entry {
    const overtaken = this.ledger
      .entries()
      .some(
        (written) =>
          written.reference === entry.reference && written.fencingToken > entry.fencingToken,
      );
    if (overtaken) {
      throw new ProviderError('attempt_superseded', 'A later attempt has moved the money');
    }
    this.ledger.append(entry);
    this.logger.log(`${entry.kind} of ${entry.amount} for ${entry.userId}`);
    return entry;
  }

  #charges(): Charge[] {
    return this.ledger.entries().filter((entry) => entry.kind === 'charge');
  }

  #refunds(): Refund[] {
    return this.ledger.entries().filter((entry) => entry.kind === 'refund');
  }
}
