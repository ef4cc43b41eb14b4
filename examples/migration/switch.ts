import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { until } from '../../test/support/waiting/until.js';

export interface Exchanged {
  readonly status: number;
  readonly replayed: boolean;
  readonly body: unknown;
}

/** What the ledger does with a payment of this amount. */
export const AMOUNT = { charged: 5, held: 0, declined: 1_001 } as const;

/** Pays an order; its number is the idempotency key, too. */
export async function pay(
  url: string,
  order: string,
  amount: number = AMOUNT.charged,
  path = '/payments',
): Promise<Exchanged> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'idempotency-key': order, 'content-type': 'application/json' },
    body: JSON.stringify({ order, amount }),
  });
  return {
    status: response.status,
    replayed: response.headers.get('idempotent-replayed') === 'true',
    body: await response.json(),
  };
}

/** Running applications of one API. */
export interface Deployment {
  /** The URL of the version with the old library. */
  readonly before: string;
  /** With this library, which looks into the old records. */
  readonly after: string;
  /** The planted mistake: it looks only at a takeover. */
  readonly mistaken: string;
  /** The oracle. */
  readonly charges: (order: string) => Promise<number>;
  /** Lets a held payment of the order continue. */
  readonly open: (order: string) => Promise<unknown>;
  /** What the old version responds with to a key that the new one has reserved. @defaultValue 409 */
  readonly reserved?: number;
  /** What the new version responds with to other content under a key of the old one. @defaultValue the old outcome */
  readonly reused?: number;
}

/** What holds for every switch from an old library on HTTP: one charge, by the count of the ledger. */
export function itSwitches(deployment: () => Deployment): void {
  it('replays after the switch what ran before it: one charge', async () => {
    const { before, after, charges } = deployment();
    const order = randomUUID();
    const first = await pay(before, order);
    expect(first).toEqual({ status: 201, replayed: false, body: { charge: `${order}/1` } });
    expect(await pay(after, order)).toEqual(first);
    expect(await pay(after, order)).toEqual({ ...first, replayed: true });
    expect(await charges(order)).toBe(1);
  });

  it("charges twice with the planted mistake recoverOn: 'takeover'", async () => {
    const { before, mistaken, charges } = deployment();
    const order = randomUUID();
    expect((await pay(before, order)).status).toBe(201);
    expect((await pay(mistaken, order)).body).toEqual({ charge: `${order}/2` });
    expect(await charges(order)).toBe(2);
  });

  it('charges once while both versions run, whichever is first', async () => {
    const { before, after, charges, reserved = 409 } = deployment();
    const order = randomUUID();
    const first = await pay(after, order);
    expect(first).toMatchObject({ status: 201, replayed: false });
    // To the old version, the reservation is a request in progress.
    expect((await pay(before, order)).status).toBe(reserved);
    expect(await pay(after, order)).toEqual({ ...first, replayed: true });
    expect(await charges(order)).toBe(1);
  });

  it('charges once for ten copies that reach both versions at once', async () => {
    const { before, after, charges, reserved = 409 } = deployment();
    const order = randomUUID();
    const copies = Array.from({ length: 10 }, (_, copy) => pay(copy % 2 ? before : after, order));
    const statuses = (await Promise.all(copies)).map(({ status }) => status);
    expect(statuses).toContain(201);
    expect(statuses.filter((status) => ![201, 409, reserved].includes(status))).toEqual([]);
    expect(await charges(order)).toBe(1);
  });

  it('rejects the retry of a payment that the old version has not ended', async () => {
    const { before, after, charges, open } = deployment();
    const order = randomUUID();
    const running = pay(before, order, AMOUNT.held);
    await until(async () => (await charges(order)) === 1);
    expect((await pay(after, order, AMOUNT.held)).status).toBe(409);
    await open(order);
    const first = await running;
    expect(first.status).toBe(201);
    expect(await pay(after, order, AMOUNT.held)).toEqual(first);
    expect(await charges(order)).toBe(1);
  });

  it('responds to a reused key as the old record says, other content or not', async () => {
    const { before, after, charges, reused } = deployment();
    const order = randomUUID();
    const first = await pay(before, order);
    // Most functions know the key and the caller, and not the content: no 422 until the old records have expired.
    const expected = reused === undefined ? first : { status: reused };
    expect(await pay(after, order, AMOUNT.charged + 1)).toMatchObject(expected);
    expect(await charges(order)).toBe(1);
  });
}

/** What holds besides where the old records have errors, too. */
export function itKeepsFailures(deployment: () => Deployment): void {
  it('a declined payment stays declined: errors are in the old records, too', async () => {
    const { before, after, charges } = deployment();
    const order = randomUUID();
    const first = await pay(before, order, AMOUNT.declined);
    expect(first).toMatchObject({ status: 402, body: { reason: 'declined', number: 1 } });
    for (const retry of [1, 2]) {
      const again = await pay(after, order, AMOUNT.declined);
      expect({ retry, ...again }).toEqual({ retry, ...first });
    }
    expect(await charges(order)).toBe(1);
  });
}
