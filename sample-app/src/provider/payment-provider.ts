import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, Logger } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import type { Environment } from '../config/environment.js';
import { refundedOf } from '../ledger/check-entry.js';
import { type Charge, Ledger, type LedgerEntry, type Refund } from '../ledger/ledger.js';
import { magicAmounts } from './magic-amounts.js';
import { ProviderError } from './provider-error.js';

/** The longest delay of a timer: 24 days. */
const FOREVER_MS = 2 ** 31 - 1;

export type ChargeOrder = Omit<Charge, 'kind' | 'id' | 'at'>;
export type RefundOrder = Omit<Refund, 'kind' | 'id' | 'at'>;

/**
 * A simulated payment provider: slow, and it charges on every call of `charge`.
 *
 * The money moves half-way through a call. A process that dies after that has charged the card without knowing it.
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

  charge(order: ChargeOrder, signal: AbortSignal): Promise<Charge> {
    return this.#respond(order, signal, () => this.#book(order));
  }

  /**
   * Charges once per reference, as real providers do for an idempotency key: a duplicate gets the existing charge.
   */
  chargeOnce(order: ChargeOrder, signal: AbortSignal): Promise<Charge> {
    return this.#respond(order, signal, async () => {
      const known = await this.findCharge(order.reference);
      if (known === undefined) return this.#book(order);
      this.logger.log(`duplicate request for a charge of ${known.amount} for ${known.userId}`);
      return known;
    });
  }

  async refund(order: RefundOrder, signal: AbortSignal): Promise<Refund> {
    await this.#travel(signal);
    const refund: Refund = { kind: 'refund', ...this.#stamp(), ...order };
    await this.#write(refund);
    await this.#travel(signal);
    return refund;
  }

  /** The movement of an earlier attempt: check it before moving money again. */
  async findCharge(reference: string): Promise<Charge | undefined> {
    return (await this.ledger.entries({ reference })).find((entry) => entry.kind === 'charge');
  }

  async findRefund(reference: string): Promise<Refund | undefined> {
    return (await this.ledger.entries({ reference })).find((entry) => entry.kind === 'refund');
  }

  async getCharge(id: string): Promise<Charge | undefined> {
    return (await this.ledger.entries({ id })).find((entry) => entry.kind === 'charge');
  }

  /** The refunded amount of a charge. */
  async refunded(chargeId: string): Promise<number> {
    return refundedOf(chargeId, await this.ledger.entries({ chargeId }));
  }

  async #respond(
    { amount }: ChargeOrder,
    signal: AbortSignal,
    charge: () => Promise<Charge>,
  ): Promise<Charge> {
    await this.#travel(signal, amount === magicAmounts.hangs ? FOREVER_MS : this.#oneWayMs);
    if (amount === magicAmounts.declined) {
      throw new ProviderError('card_declined', 'The card was declined');
    }
    if (amount === magicAmounts.providerDown) {
      throw new ProviderError('provider_down', 'The payment provider is down');
    }
    const response = await charge();
    await this.#travel(signal);
    return response;
  }

  async #book(order: ChargeOrder): Promise<Charge> {
    const charge: Charge = { kind: 'charge', ...this.#stamp(), ...order };
    await this.#write(charge);
    return charge;
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

  async #write(entry: LedgerEntry): Promise<void> {
    await this.ledger.append(entry);
    this.logger.log(`${entry.kind} of ${entry.amount} for ${entry.userId}`);
  }
}
