import { randomUUID } from 'node:crypto';
import { Controller, UseInterceptors, type NestInterceptor } from '@nestjs/common';
import { ClientProxyFactory, MessagePattern, Payload, Transport } from '@nestjs/microservices';
import { describe, expect, it } from '@jest/globals';
import { Idempotent, requireIdempotencyTransaction } from 'nestjs-idempotency';
import { payloadField } from 'nestjs-idempotency/message';
import { catchError, lastValueFrom, of } from 'rxjs';
import { freePort } from '../../support/servers/free-port.js';
import { useServer } from '../../support/servers/use-server.js';
import { startConsumer } from '../messages/support/start-consumer.js';
import { useBank } from './support/bank.js';
import type { Transaction } from './support/transfers.controller.js';

const bank = useBank();

const fallingBack: NestInterceptor = {
  intercept: (_, next) => next.handle().pipe(catchError(() => of('fallback'))),
};

let runs = 0;

@Controller()
class Transfers {
  @UseInterceptors(fallingBack)
  @Idempotent({ key: payloadField('key'), message: { consumer: 'transfers' }, transaction: true })
  @MessagePattern('transfers.book')
  async book(@Payload() { key, fails }: { key: string; fails: boolean }) {
    runs += 1;
    await requireIdempotencyTransaction<Transaction>().query(
      'INSERT INTO transfers VALUES ($1, $2)',
      [key, runs],
    );
    if (fails) throw new Error('planned');
    return 'booked';
  }
}

describe('A transactional message handler', () => {
  const consumer = useServer(async () => {
    const options = {
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port: await freePort() },
    } as const;
    const app = await startConsumer(options, {
      controllers: [Transfers],
      options: {
        store: bank.newStore(),
        unitOfWork: bank.unitOfWork,
        storeErrors: { commandTimeoutMs: 5_000, saveTimeoutMs: 5_000 },
      },
    });
    const client = ClientProxyFactory.create(options);
    return {
      book: (key: string, fails: boolean) =>
        lastValueFrom(client.send<unknown>('transfers.book', { key, fails })),
      close: async () => {
        await client.close();
        await app.close();
      },
    };
  });

  async function committed(key: string): Promise<number> {
    const text = 'SELECT FROM transfers WHERE key = $1';
    return (await bank.observer.query(text, [key])).rowCount ?? 0;
  }

  it.each([
    ['commits its writes with its outcome', false, 'booked', 1],
    [
      'whose error an inner interceptor catches is rolled back, and not run again',
      true,
      'fallback',
      0,
    ],
  ])('%s', async (_, fails, value, rows) => {
    const key = randomUUID();
    const before = runs;
    expect(await consumer.book(key, fails)).toBe(value);
    expect(await committed(key)).toBe(rows);
    expect(await consumer.book(key, fails)).toBe(value);
    expect(runs).toBe(before + 1);
  });
});
