import { Controller, Post, Res } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
import { Idempotent, type IdempotencyModuleOptions } from 'nestjs-idempotency';
import type { UnitOfWork } from 'nestjs-idempotency/transactions';
import { memoryStore } from 'nestjs-idempotency/memory';
import { startApp } from '../../support/http/start-app.js';
import { useBank } from './support/bank.js';

@Controller()
class TransactionalController {
  @Post()
  @Idempotent({ transaction: true })
  create() {
    return {};
  }
}

@Controller()
class NativeController {
  @Post()
  @Idempotent({ transaction: true })
  create(@Res() response: { end(): void }) {
    response.end();
  }
}

const bank = useBank();

describe('The application does not start with a transactional route', () => {
  const starting = (
    options: Partial<IdempotencyModuleOptions>,
    controller: new () => object = TransactionalController,
  ) =>
    startApp({
      platform: 'express',
      controllers: [controller],
      store: options.store ?? bank.newStore(),
      options: { unitOfWork: bank.unitOfWork, ...options },
    });

  it('without a unit of work', async () => {
    await expect(starting({ unitOfWork: undefined as unknown as UnitOfWork })).rejects.toThrow(
      'The option "transaction" needs the module option "unitOfWork"',
    );
  });

  it('with a value that is not a unit of work', async () => {
    await expect(starting({ unitOfWork: {} as UnitOfWork })).rejects.toThrow(
      'The option "unitOfWork" must be a UnitOfWork, such as pgUnitOfWork(pool)',
    );
  });

  it('with a unit of work that implements "run" only', async () => {
    const unitOfWork = { run: () => Promise.reject(new Error('planned')) } as unknown as UnitOfWork;
    await expect(starting({ unitOfWork })).rejects.toThrow(
      'pgUnitOfWork(pool), with isConflict(), isInterruption(), isReplyMismatch()',
    );
  });

  it('on a store that cannot take part in a transaction', async () => {
    await expect(starting({ store: memoryStore() })).rejects.toThrow(
      'The option "transaction" needs a "store" in the database of its transactions',
    );
  });

  it('that may run without the store', async () => {
    await expect(starting({ storeErrors: { whenUnavailable: 'execute' } })).rejects.toThrow(
      `"transaction" contradicts "storeErrors.whenUnavailable": 'execute'`,
    );
  });

  it('whose handler sends its response itself', async () => {
    await expect(starting({}, NativeController)).rejects.toThrow(
      'NativeController.create uses @Res() to send its response',
    );
  });

  it.each([
    [{ transaction: 'yes' }, 'The option "transaction" must be true, false or an object'],
    [
      { transaction: { isolation: 'snapshot' } },
      'The option "transaction.isolation" must be "default", "read committed"',
    ],
  ])('with %j', async (options, message) => {
    await expect(starting(options as never)).rejects.toThrow(message);
  });
});
