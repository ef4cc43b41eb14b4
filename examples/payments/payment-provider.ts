import { BadGatewayException, HttpException, Inject, Injectable } from '@nestjs/common';

export interface Payment {
  readonly card: string;
  readonly amount: number;
}

export interface Charge extends Payment {
  readonly id: string;
}

/** The base URL of the provider's API. */
export const PROVIDER_URL = Symbol('PROVIDER_URL');

/** A provider that charges once per idempotency key. */
@Injectable()
export class PaymentProvider {
  constructor(@Inject(PROVIDER_URL) private readonly url: string) {}

  async charge(
    payment: Payment,
    { idempotencyKey, signal }: { idempotencyKey: string; signal: AbortSignal },
  ): Promise<Charge> {
    const response = await this.fetch('/charges', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
      // The reference finds the charge after the provider has forgotten the key.
      body: JSON.stringify({ ...payment, reference: idempotencyKey }),
      signal,
    });
    // A decision of the card's issuer: kept, and replayed to every retry.
    if (response.status === 402) throw new HttpException({ code: 'card_declined' }, 402);
    if (!response.ok) throw new BadGatewayException(`The provider responded ${response.status}`);
    return (await response.json()) as Charge;
  }

  async find(reference: string, signal: AbortSignal): Promise<Charge | undefined> {
    const response = await this.fetch(`/charges/${reference}`, { signal });
    if (response.status === 404) return undefined;
    if (!response.ok) throw new BadGatewayException(`The provider responded ${response.status}`);
    return (await response.json()) as Charge;
  }

  /** Without a response it is unknown whether the card was charged: a 502 is not kept, and the retry asks again. */
  private async fetch(path: string, request: RequestInit): Promise<Response> {
    try {
      return await fetch(`${this.url}${path}`, request);
    } catch (cause) {
      throw new BadGatewayException('The provider did not respond', { cause });
    }
  }
}
