import { describe, expect, it } from '@jest/globals';
import { newIdempotencyKey } from 'nestjs-idempotency/client';
import { useServer } from '../../support/servers/use-server.js';
import { SamplePayments } from './sample-payments.js';

describe('a payment that takes a second', () => {
  const api = useServer(() => SamplePayments.start('express', 1_000));

  it('is charged once for two clicks: the second waits and gets the replay', async () => {
    const key = newIdempotencyKey();
    const clicks = await Promise.all([api.pay(1_000, { key }), api.pay(1_000, { key })]);
    const [first, second] = clicks.sort((a, b) => a.tries - b.tries);
    expect(first).toMatchObject({ replayed: false, tries: 1 });
    expect(second).toMatchObject({ replayed: true, payment: first.payment });
    expect(second.tries).toBeGreaterThan(1);
    expect(await api.charges()).toHaveLength(1);
  });

  it('is completed by a later call with its key, after the deadline of the first call', async () => {
    const before = (await api.charges()).length;
    api.proxy.follow(() => 'answer nothing');
    const first = api.pay(3_000, { deadlineMs: 400 });
    const error = await first.catch((reason: unknown) => reason as { code: string; key: string });
    expect(error).toMatchObject({ code: 'idempotency_fetch_deadline', tries: 1 });

    api.proxy.follow(() => 'none');
    const { key } = error as { key: string };
    expect(await api.pay(3_000, { key })).toMatchObject({
      replayed: true,
      payment: { amount: 3_000 },
    });
    expect(await api.charges()).toHaveLength(before + 1);
  });

  it('is rejected when its key is reused with another amount', async () => {
    const { key } = await api.pay(4_000, {});
    await expect(api.pay(4_001, { key })).rejects.toMatchObject({
      name: 'IdempotencyProblemError',
      code: 'idempotency_key_reused',
      status: 422,
      retryable: false,
      tries: 1,
    });
  });
});
